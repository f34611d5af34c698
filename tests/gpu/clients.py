# SPDX-License-Identifier: GPL-2.0
"""Clients of server.py, four at a time: clients.py PORT WAVES TOKENS. It says what they measured."""
import asyncio
import json
import sys
import time

import aiohttp

port, waves, tokens = map(int, sys.argv[1:])
first, whole, gaps = [], [], []


async def ask(session):
    begin, last = time.perf_counter(), None
    async with session.post(f"http://127.0.0.1:{port}/v1/completions", json={"max_tokens": tokens}) as answer:
        async for line in answer.content:
            if not line.startswith(b"data: {"):
                continue
            now = time.perf_counter()
            first.append(now - begin) if last is None else gaps.append(now - last)
            last = now
    whole.append(time.perf_counter() - begin)


async def main():
    async with aiohttp.ClientSession() as session:
        for _ in range(waves):
            await asyncio.gather(*[ask(session) for _ in range(4)])
    print(json.dumps({"requests": len(whole), "first_s": sum(first), "whole_s": sum(whole), "gaps_s": sum(gaps),
                      "gaps": len(gaps)}))


asyncio.run(main())
