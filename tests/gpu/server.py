# SPDX-License-Identifier: GPL-2.0
"""A server that streams tokens of a GPT-2 with random weights: a thread of its own works through what is asked, one
request after the other. It says its port, and ends when its input does."""
import asyncio
import json
import queue
import sys
import threading

import torch
from aiohttp import web
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config()).to("cuda", torch.bfloat16).eval()
asked = queue.Queue()


@torch.no_grad()
def generate(count):
    ids, past = torch.tensor([[1, 2, 3]], device="cuda"), None
    for _ in range(count):
        out = model(ids, past_key_values=past, use_cache=True)
        past = out.past_key_values
        ids = out.logits[:, -1:].argmax(-1)
        yield int(ids.item())


def engine(loop):
    while True:
        count, to = asked.get()
        for token in generate(count):
            loop.call_soon_threadsafe(to.put_nowait, token)
        loop.call_soon_threadsafe(to.put_nowait, None)


async def completions(request):
    body, tokens = await request.json(), asyncio.Queue()
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    asked.put((body["max_tokens"], tokens))
    while (token := await tokens.get()) is not None:
        await answer.write(b'data: {"token": %d}\n\n' % token)
    await answer.write(b"data: [DONE]\n\n")
    await answer.write_eof()
    return answer


async def main():
    list(generate(8))  # as servers do before they listen: this thread has launched, too
    app = web.Application()
    app.router.add_post("/v1/completions", completions)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    threading.Thread(target=engine, args=(asyncio.get_running_loop(),), daemon=True).start()
    print(json.dumps(runner.addresses[0][1]), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
