# SPDX-License-Identifier: GPL-2.0
"""A training loop of PyTorch that times its own waits: train.py LIBCUDA JSON.

It makes one launch a step, so that it counts as a process on a GPU. It prints "ready", trains once there is a line on its
standard input, prints a report in JSON, and stays until that input ends. Options, all in milliseconds: item (a worker takes so
long for one), step (the training takes so long, asleep), batches, workers, timeout, loaders (several, in turn), context,
persistent (two epochs of the same workers), pin (a pinning thread), sync (each step waits so long for the GPU).
"""
import ctypes
import json
import sys
import time
import warnings

import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import pin_memory

DEFAULTS = {"item": 20, "step": 5, "batches": 60, "workers": 1, "timeout": 0, "loaders": 1, "context": "fork",
            "persistent": False, "pin": False, "sync": 0}


class Slow(Dataset):
    """Items that take a known time, as reading and decoding would."""

    def __init__(self, count, item_ms):
        self.count, self.item_ms = count, item_ms

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        time.sleep(self.item_ms / 1000)
        return torch.zeros(16)


def pin_without_cuda():
    """PyTorch pins only where CUDA is. The thread, its queues and its waits are PyTorch's own; the copy is left out."""
    torch.cuda.is_available = lambda: True
    torch.cuda.current_device = lambda: 0
    torch.cuda.set_device = lambda device: None
    pin_memory.pin_memory = lambda data, device=None: data


def prepare(path):
    cuda = ctypes.CDLL(path)
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    return cuda


def loader(options):
    more = {}
    if options["workers"]:
        more = {"multiprocessing_context": options["context"], "persistent_workers": options["persistent"]}
    return DataLoader(Slow(options["batches"], options["item"]), batch_size=1, num_workers=options["workers"],
                      timeout=options["timeout"], pin_memory=options["pin"], **more)


def step(cuda, options):
    assert cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
    if options["sync"]:
        assert cuda.cuStreamSynchronize(None) == 0
    time.sleep(options["step"] / 1000)


def epoch(cuda, options, iterators, waits):
    for i in range(options["batches"] * len(iterators)):
        start = time.perf_counter_ns()
        next(iterators[i % len(iterators)])
        waits.append(time.perf_counter_ns() - start)
        step(cuda, options)


def main():
    options = {**DEFAULTS, **json.loads(sys.argv[2])}
    if options["pin"]:
        pin_without_cuda()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of more workers than CPUs
    cuda = prepare(sys.argv[1])
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(options["sync"] * 1000))
    print("ready", flush=True)
    sys.stdin.readline()
    step(cuda, options)
    start, waits = time.perf_counter_ns(), []
    loaders = [loader(options) for _ in range(options["loaders"])]
    for _ in range(2 if options["persistent"] else 1):
        iterators = [iter(each) for each in loaders]  # they live on: their end waits for the workers' end
        epoch(cuda, options, iterators, waits)
    report = {"waits": waits, "wall": time.perf_counter_ns() - start}
    print(json.dumps(report), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
