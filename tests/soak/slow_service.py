# SPDX-License-Identifier: GPL-2.0
"""An engine and its front end (tests/e2e/llm_engine.py) that become slow when they are told to, for slow.py:

    slow_service.py PORT SOCKET CUDA MODE

MODE is a file of one byte, which is 0 at first: what the service does from then on.
"""
import asyncio
import ctypes
import mmap
import os
import sys
import time

E2E = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e")
sys.path.insert(0, E2E)
import llm_engine

USUAL, GPU, CPU, SLEEP, UNREAD = range(5)
USUAL_US, SLOW_US = 2000, 60000  # of a step


def spin(us):
    end = time.perf_counter_ns() + 1000 * us
    while time.perf_counter_ns() < end:
        pass


class Engine(llm_engine.Engine):
    """Each step waits for the GPU, too."""

    def step(self):
        if mode[0] == CPU:
            spin(SLOW_US)
        if mode[0] == SLEEP:
            time.sleep(SLOW_US / 1e6)
        wait = SLOW_US if mode[0] == GPU else USUAL_US
        self.cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(wait))
        assert self.cuda.cuStreamSynchronize(None) == 0
        return super().step()


class Front(llm_engine.Front):
    async def answer(self, ask, send):
        if mode[0] == UNREAD:
            time.sleep(SLOW_US / 1e6)  # the loop that reads does something else
        await super().answer(ask, send)


if __name__ == "__main__":
    port, path, cuda, mode_file = sys.argv[1:]
    with open(mode_file, "r+b") as file:
        mode = mmap.mmap(file.fileno(), 1)
    llm_engine.Engine, llm_engine.Front = Engine, Front
    if os.fork() == 0:
        llm_engine.run_engine(path, cuda)
    else:
        asyncio.run(llm_engine.run_front(port, path, llm_engine.talk))
