# SPDX-License-Identifier: GPL-2.0
"""A training loop of PyTorch that times its own waits: train.py LIBCUDA JSON.

It makes one launch a step, so that it counts as a process on a GPU. It prints "ready", launches once there is a line on
its standard input, prints "launched", trains after another line, prints a report in JSON, ends its workers after one
more line, and stays until that input ends. Options, all times in milliseconds: item (a worker takes so long for one),
step (the training takes so long, asleep), batches, workers, timeout, loaders (several, in turn), context, persistent
(two epochs of the same workers), pin (a pinning thread), work (how an item takes its time: sleep, compute, read from a
disk, or decode: read from memory and compute), first (nobody takes its CPU), sync (each step waits so long for the GPU,
asleep), spin (the same, awake), crowd (so many other processes compute meanwhile, on the one CPU that it may use),
queues (poll or ppoll: those of queues.py in place of PyTorch's).

The report has, of each wait for a batch (waits), of each wait for the GPU (syncs) and of the whole, ns by the clock, on
a CPU, and runnable without one.
"""
import ctypes
import json
import mmap
import os
import signal
import sys
import time
import warnings

import queues
import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import pin_memory

PR_SET_PDEATHSIG = 1
DEFAULTS = {"item": 20, "step": 5, "batches": 60, "workers": 1, "timeout": 0, "loaders": 1, "context": "fork",
            "persistent": False, "pin": False, "sync": 0, "spin": 0,
            "crowd": 0, "queues": "", "work": "sleep", "file": "", "first": False}
BLOCK = 1 << 20


def compute(until, path):
    while time.monotonic() < until:
        pass


def read(until, path):
    """Past the page cache."""
    block, fd = mmap.mmap(-1, BLOCK), os.open(path, os.O_RDONLY | os.O_DIRECT)
    while time.monotonic() < until:
        os.lseek(fd, 0, os.SEEK_SET)
        while os.readv(fd, [block]) and time.monotonic() < until:
            pass
    os.close(fd)


def decode(until, path):
    with open(path, "rb") as file:
        file.read(BLOCK)
    compute(until, path)


WORK = {"sleep": lambda until, path: time.sleep(max(until - time.monotonic(), 0)), "compute": compute, "read": read,
    "decode": decode}


class Slow(Dataset):
    """Items that take a known time, as reading and decoding would. The first ones take longer, so that all workers of
    all loaders are out of step, and batches come one by one."""

    def __init__(self, options, number):
        self.count, self.item, self.workers = options["batches"], options["item"], options["workers"]
        self.number, self.loaders = number, options["loaders"]
        self.work, self.file = options["work"], options["file"]

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        late = self.item * (i * self.loaders + self.number) / self.workers / self.loaders if i < self.workers else 0
        WORK[self.work](time.monotonic() + (self.item + late) / 1000, self.file)
        return torch.zeros(16)


class Clock:
    """Where this thread's time goes: by the clock, on a CPU, and runnable without one, as the kernel counts that."""

    def __init__(self):
        self.delays = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
        self.spans = []

    def now(self):
        delayed = int(os.pread(self.delays, 100, 0).split()[1])
        return time.perf_counter_ns(), time.thread_time_ns(), delayed

    def since(self, start):
        return tuple(a - b for a, b in zip(self.now(), start))

    def time(self, function, *args):
        start = self.now()
        function(*args)
        self.spans.append(self.since(start))


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


def loader(options, number):
    more = {}
    if options["queues"]:
        return queues.Loader(Slow(options, number), options["workers"], options["pin"], options["queues"] == "ppoll")
    if options["workers"]:
        more = {"multiprocessing_context": options["context"], "persistent_workers": options["persistent"]}
    return DataLoader(Slow(options, number), batch_size=1, num_workers=options["workers"],
                      timeout=options["timeout"], pin_memory=options["pin"], **more)


def step(cuda, options, clock):
    assert cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
    if options["sync"] or options["spin"]:
        clock.time(cuda.cuStreamSynchronize, None)
    time.sleep(options["step"] / 1000)


def epoch(cuda, options, iterators, clocks):
    for i in range(options["batches"] * len(iterators)):
        clocks[0].time(next, iterators[i % len(iterators)])
        step(cuda, options, clocks[1])


def crowd(count):
    """Processes that compute, on the one CPU to which this one is bound from here on."""
    pids = []
    if count:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for _ in range(count):
        pids.append(os.fork())
        if not pids[-1]:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        while not pids[-1]:
            pass
    return pids


def train(cuda, options):
    waits, syncs, whole = Clock(), Clock(), Clock()
    loaders = [loader(options, number) for number in range(options["loaders"])]
    start = whole.now()
    for _ in range(2 if options["persistent"] else 1):
        iterators = [iter(each) for each in loaders]  # they live on: their end waits for the workers' end
        epoch(cuda, options, iterators, (waits, syncs))
    print(json.dumps({"waits": waits.spans, "syncs": syncs.spans, "whole": whole.since(start)}), flush=True)
    sys.stdin.readline()
    del iterators
    sys.stdin.read()


def main():
    options = {**DEFAULTS, **json.loads(sys.argv[2])}
    if options["pin"]:
        pin_without_cuda()
    torch.set_num_threads(1)
    if options["first"]:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    warnings.simplefilter("ignore")  # of more workers than CPUs
    others = crowd(options["crowd"])
    cuda = prepare(sys.argv[1])
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(options["sync"] * 1000))
    cuda.fake_cuda_set(b"sync_ns", ctypes.c_long(options["spin"] * 1000000))
    print("ready", flush=True)
    sys.stdin.readline()
    step(cuda, options, Clock())
    print("launched", flush=True)
    sys.stdin.readline()
    try:
        train(cuda, options)
    finally:
        for pid in others:
            os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
