# SPDX-License-Identifier: GPL-2.0
"""Calls the fake library, computes and sleeps on known lines, for guest_check.c. Argument: the library. It makes a
hooked call for each line `call` on its standard input, begins with another line, and then says which stack its launches
came from. Then it computes for a while for each line `busy`."""
import ctypes
import sys
import time

LAUNCHES = 211
lib = ctypes.CDLL(sys.argv[1])
stack = ""


def told(frame):
    return "%s (%s:%d)" % (frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno)


def step():
    global stack
    frame = sys._getframe
    lib.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None); stack = told(frame(1)) + ";" + told(frame(0))


def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


print("ready", flush=True)
while sys.stdin.readline() == "call\n":
    # hooked, and no cause of its own
    lib.cuMemGetInfo_v2(ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))
for _ in range(LAUNCHES):
    step(); time.sleep(0.02)
print("%s;[launch]\n%d." % (stack, LAUNCHES), flush=True)
while sys.stdin.readline() == "busy\n":
    busy(0.5)
