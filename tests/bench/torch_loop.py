# SPDX-License-Identifier: GPL-2.0
"""torch_loop.py LIBCUDA: a training loop of PyTorch with a worker, for the benchmarks.

A step takes a batch from a DataLoader, makes one launch, and computes for about 5 ms on one thread. Each line on its
standard input is a number of steps; it answers with the ns that they took, and of it and its worker the ns on a CPU and
the context switches.
"""
import ctypes
import glob
import os
import re
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.randn(64, 64).mm(torch.randn(64, 64))


def summed(pids, name, pattern):
    total = 0
    for path in [p for pid in pids for p in glob.glob(f"/proc/{pid}/task/*/{name}")]:
        with open(path) as f:
            total += sum(map(int, re.findall(pattern, f.read())))
    return total


def spent(pids):
    return summed(pids, "schedstat", r"^\d+"), summed(pids, "status", r"ctxt_switches:\s+(\d+)")


def main():
    torch.set_num_threads(1)
    cuda, context = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    batches = iter(DataLoader(Endless(), batch_size=8, num_workers=1))
    pids = [os.getpid(), *(w.pid for w in batches._workers)]
    weights = torch.randn(64, 64)
    for line in sys.stdin:
        before, start = spent(pids), time.perf_counter_ns()
        for _ in range(int(line)):
            batch = next(batches).reshape(-1, 64)
            for _ in range(4):
                batch = batch.mm(weights)
            assert cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
        took = time.perf_counter_ns() - start
        print(took, *(b - a for a, b in zip(before, spent(pids))), flush=True)


if __name__ == "__main__":
    main()
