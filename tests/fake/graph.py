# SPDX-License-Identifier: GPL-2.0
"""Computes in functions that call each other on known lines, until they took SECONDS on the CPU: whoever interrupts it
anywhere must find a path of calls that this file allows. Runs under CPython 3.8 and later. Arguments: the library,
SECONDS. It makes a hooked call for each line `call` on its standard input, and begins with another line."""
import ctypes
import sys
import threading
import time

lib = ctypes.CDLL(sys.argv[1])
end = 0.0


def innermost(n):
    total = 0
    for i in range(n):
        total += i * i
        if total & 1:
            total -= 1
    return total


def numbers(n):
    for i in range(n):
        yield innermost(9) + i


def weight(x):
    return innermost(5) - x


def recursion(n):
    if n == 0:
        return innermost(7)
    return recursion(n - 1)


def of_generator():
    total = 0
    for x in numbers(4):
        total += x
    return total


def of_sort():
    return sorted(
        [3, 1, 2],
        key=weight)


def step():
    of_generator()
    of_sort()
    recursion(6)
    return innermost(11)


def work():
    while time.process_time() < end:
        step()


def run():
    global end
    end = time.process_time() + float(sys.argv[2])
    one, two = threading.Thread(target=work), threading.Thread(target=work)
    one.start()
    two.start()
    work()
    one.join()
    two.join()


if __name__ == "__main__":
    print("ready", flush=True)
    while sys.stdin.readline() == "call\n":
        # hooked, and no cause of its own
        lib.cuMemGetInfo_v2(ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))
    run()
    print("{}", flush=True)
    sys.stdin.readline()
