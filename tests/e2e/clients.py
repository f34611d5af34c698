# SPDX-License-Identifier: GPL-2.0
"""A public WebSocket client, for the tests: python3-websockets."""
import asyncio
import importlib.util
import time

from harness import PATIENCE, Absent, parse_json


def need_module(name):
    if not importlib.util.find_spec(name):
        raise Absent(f"no Python module {name}")
    return importlib.import_module(name)


async def receive(url, count):
    websockets = need_module("websockets")
    got = []
    async with websockets.connect(url, max_size=None) as socket:
        connected = time.monotonic()
        for _ in range(count):
            text = await asyncio.wait_for(socket.recv(), PATIENCE)
            got.append((time.monotonic() - connected, text))
    return got


def read_snapshots(port, path, count):
    """[(seconds since the connection was there, snapshot)]"""
    got = asyncio.run(receive(f"ws://127.0.0.1:{port}{path}", count))
    return [(at, parse_json(text)) for at, text in got]
