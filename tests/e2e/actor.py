# SPDX-License-Identifier: GPL-2.0
"""Runs statements that a test sends, one JSON string a line, and answers each with a line {"answer": ...} or
{"error": ...}; the first line says that it is there. The statements may use the names of this file; what they assign
stays.
"""
import ctypes
import json
import os
import sys
import time
from ctypes import CDLL, byref, c_size_t, c_uint64, c_void_p


def ok(result, wanted=0):
    assert result == wanted, f"returned {result}, not {wanted}"


def u64(value=0):
    return c_uint64(value)


def ready(cuda, gpu=0):
    """The first calls of every CUDA program: now this thread has a context."""
    context = c_void_p()
    ok(cuda.cuInit(0))
    ok(cuda.cuDevicePrimaryCtxRetain(byref(context), gpu))
    ok(cuda.cuCtxSetCurrent(context))


def alloc(cuda, size):
    at = u64()
    ok(cuda.cuMemAlloc_v2(byref(at), c_size_t(size)))
    return at


def launch(cuda, count, wanted=0):
    for _ in range(count):
        ok(cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None), wanted)


def timed(call, count):
    """The durations of calls, each as the caller sees it, in nanoseconds."""
    taken = []
    for _ in range(count):
        start = time.perf_counter_ns()
        result = call()
        taken.append(time.perf_counter_ns() - start)
        ok(result)
    return taken


def map_executable(path):
    """As a loader would, but whatever the file holds; the address."""
    libc = CDLL(None, use_errno=True)
    libc.mmap.restype = c_void_p
    fd = os.open(path, os.O_RDONLY)
    at = libc.mmap(None, c_size_t(os.fstat(fd).st_size), 5, 2, fd, 0)
    os.close(fd)
    assert at != 2 ** 64 - 1, os.strerror(ctypes.get_errno())
    return at


def main():
    names = globals()
    print(json.dumps({"answer": "here"}), flush=True)
    for line in sys.stdin:
        names["answer"] = None
        try:
            exec(json.loads(line), names)
            print(json.dumps({"answer": names["answer"]}), flush=True)
        except Exception as error:
            print(json.dumps({"error": repr(error)}), flush=True)


if __name__ == "__main__":
    main()
