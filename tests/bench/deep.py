# SPDX-License-Identifier: GPL-2.0
"""deep.py LIBCUDA: launches from so many functions deep, for the benchmarks. Each line on its standard input is a depth
and for how many ms; it answers with how many launches there were. Runs under CPython 3.8 and later."""
import ctypes
import sys
import time

cuda = ctypes.CDLL(sys.argv[1])


def recursion(depth, end):
    if depth > 1:
        return recursion(depth - 1, end)
    count = 0
    while time.monotonic() < end:
        cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        count += 1
    return count


for line in sys.stdin:
    depth, ms = map(int, line.split())
    print(recursion(depth - 1, time.monotonic() + ms / 1000), flush=True)  # the module's own code is a frame too
