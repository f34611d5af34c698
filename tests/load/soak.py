# SPDX-License-Identifier: GPL-2.0
"""Everything that daemons serve over a while, read by strict readers of other people: every snapshot, every route."""
import asyncio
import time

from clients import need_module
from harness import PATIENCE, Daemon, check, test
from readers import Readers, read_by_all

ROUTES = ("/json", "/history", "/alerts", "/health", "/json?topics=processes,alerts", "/json?topics=gpus")
STREAMS = ("/ws", "/ws?topics=processes,alerts&interval_ms=250", "/ws?topics=gpus,lost", "/ws?job=17")
SECONDS = 10


async def stream(url, readers, end):
    """Every snapshot until then; how many."""
    count, newest = 0, 0
    async with need_module("websockets").connect(url, max_size=None) as socket:
        while time.monotonic() < end:
            snapshot = readers.feed(await asyncio.wait_for(socket.recv(), PATIENCE))
            check(snapshot["last_update_ms"] > newest, f"{url}: each is newer than the one before")
            newest = snapshot["last_update_ms"]
            count += 1
    return count


async def poll(daemon, readers, end):
    while time.monotonic() < end:
        for route in ROUTES:
            readers.feed(await asyncio.to_thread(daemon.get, route))
        await asyncio.to_thread(read_by_all, daemon)
        await asyncio.sleep(0.2)
    return 1


async def everything(daemons, readers, seconds):
    end = time.monotonic() + seconds
    work = [stream(f"ws://127.0.0.1:{daemon.port}{path}", readers, end) for daemon in daemons for path in STREAMS]
    return await asyncio.gather(*work, *(poll(daemon, readers, end) for daemon in daemons))


def soak(daemons, seconds):
    readers = Readers()
    counts = asyncio.run(everything(daemons, readers, seconds))
    check(min(counts) > 0, f"every stream brought snapshots: {counts}")
    print(f"{readers.agree()} JSON documents of {len(daemons)} daemons in {seconds} s", flush=True)


@test
def simulated_data_is_read_by_strict_readers():
    soak([Daemon("--simulate", "--simulate-seed", str(seed), "--push-interval-ms", "100") for seed in (1, 7, 2026)],
         SECONDS)
