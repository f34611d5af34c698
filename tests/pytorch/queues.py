# SPDX-License-Identifier: GPL-2.0
"""The queues of a newer PyTorch's DataLoader, in its threads and processes and with their names, where that PyTorch is
not installed. ppoll: waits as the C library of arm64 makes them, which has no poll().
"""
import ctypes
import multiprocessing
import multiprocessing.connection
import queue
import selectors
import threading

INTERVAL = 5.0  # after which each looks whether the others live
PREFETCH = 2
PR_SET_NAME = 15
libc = ctypes.CDLL(None, use_errno=True)


class PollFd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


class Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class PPoll:
    """As select.poll()."""

    def __init__(self):
        self.events = {}

    def register(self, fd, events):
        self.events[fd] = events

    def unregister(self, fd):
        del self.events[fd]

    def poll(self, ms):
        fds = (PollFd * len(self.events))(*(PollFd(fd, events) for fd, events in self.events.items()))
        limit = None if ms is None else ctypes.byref(Timespec(int(ms) // 1000, int(ms) % 1000 * 1000000))
        libc.ppoll(fds, ctypes.c_ulong(len(fds)), limit, None)
        return [(p.fd, p.revents) for p in fds if p.revents]


class PPollSelector(selectors.PollSelector):
    _selector_cls = PPoll


def named(name):
    libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def get(source, alive):
    while alive():
        try:
            return source.get(timeout=INTERVAL)
        except queue.Empty:
            pass
    raise RuntimeError("a loader's process has ended")


def work(dataset, asked, done):
    named("pt_data_worker")
    parent = multiprocessing.parent_process()
    while (i := get(asked, parent.is_alive)) is not None:
        dataset[i]
        done.put((i, bytes(128)))


def pin(done, pinned, over):
    named("pt_data_pin")
    while (batch := get(done, lambda: not over.is_set())) is not None:
        pinned.put(batch)


class Loader:
    def __init__(self, dataset, workers, pinning, ppoll):
        if ppoll:
            multiprocessing.connection._WaitSelector = PPollSelector
        self.dataset, self.over = dataset, threading.Event()
        context = multiprocessing.get_context("fork")
        self.asked, done = [context.Queue() for _ in range(workers)], context.Queue()
        self.workers = [context.Process(target=work, args=(dataset, q, done), daemon=True) for q in self.asked]
        for worker in self.workers:
            worker.start()
        self.ready = done
        if pinning:
            self.ready = queue.Queue()
            threading.Thread(target=pin, args=(done, self.ready, self.over), daemon=True).start()

    def ask(self, i):
        if i < len(self.dataset):
            self.asked[i % len(self.asked)].put(i)

    def __iter__(self):
        for i in range(PREFETCH * len(self.asked)):
            self.ask(i)
        return self.batches()

    def batches(self):
        early = {}
        for i in range(len(self.dataset)):
            while i not in early:
                number, batch = get(self.ready, lambda: all(w.is_alive() for w in self.workers))
                early[number] = batch
            self.ask(i + PREFETCH * len(self.asked))
            yield early.pop(i)
