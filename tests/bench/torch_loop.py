# SPDX-License-Identifier: GPL-2.0
"""torch_loop.py LIBCUDA: a training loop of PyTorch with a worker, for the benchmarks.

A step takes a batch from a DataLoader, makes one launch, and computes for about 5 ms on one thread. Each line on its
standard input is a number of steps; it answers with the ns that they took, and of it and its worker the ns on a CPU and
the context switches. "STEPS TABLE AT": of each two steps, in an order by chance, the stacks of one are not walked: the
id is taken away that lies there in the table of this number. Of each eight steps it answers with the time on a CPU, of
it and its worker, of those that are walked by that of the others.
"""
import ctypes
import glob
import os
import random
import re
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset

import tables

GROUP = 8  # steps
CPU_CLOCK = 2  # of a process, by its number

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


def put_first(pids, first):
    """Each on a CPU of its own, before all others there."""
    for cpu, pid in enumerate(pids):
        os.sched_setaffinity(pid, {cpu} if first else range(os.cpu_count()))
        os.sched_setscheduler(pid, os.SCHED_FIFO if first else os.SCHED_OTHER, os.sched_param(int(first)))


def alternate(step, pids, steps, number, at):
    table = tables.memory(number, at + 4)
    there, clocks = table[at:at + 4], [~pid << 3 | CPU_CLOCK for pid in pids]
    ratios = []
    put_first(pids, True)
    try:
        for _ in range(steps // GROUP):
            spent_ns = {True: 0, False: 0}
            for on in random.sample([True, False] * (GROUP // 2), GROUP):
                table[at:at + 4] = there if on else bytes(4)
                before = sum(map(time.clock_gettime_ns, clocks))
                step()
                spent_ns[on] += sum(map(time.clock_gettime_ns, clocks)) - before
            ratios.append(round(spent_ns[True] / spent_ns[False], 5))
    finally:
        table[at:at + 4] = there
        put_first(pids, False)
    return ratios


def main():
    torch.set_num_threads(1)
    cuda, context = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    batches = iter(DataLoader(Endless(), batch_size=8, num_workers=1))
    pids = [os.getpid(), *(w.pid for w in batches._workers)]
    weights = torch.randn(64, 64)

    def step():
        batch = next(batches).reshape(-1, 64)
        for _ in range(4):
            batch = batch.mm(weights)
        assert cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0

    for line in sys.stdin:
        steps, *switched = map(int, line.split())
        if switched:
            print(*alternate(step, pids, steps, *switched), flush=True)
            continue
        before, start = spent(pids), time.perf_counter_ns()
        for _ in range(steps):
            step()
        took = time.perf_counter_ns() - start
        print(took, *(b - a for a, b in zip(before, spent(pids))), flush=True)


if __name__ == "__main__":
    main()
