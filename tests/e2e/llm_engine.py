# SPDX-License-Identifier: GPL-2.0
"""A front end and an engine that are two processes, as those of language models are, for tests:

    llm_engine.py front PORT SOCKET       uvicorn; hands what it is asked to the engine, over a Unix socket
    llm_engine.py engine SOCKET CUDA      batches: each step is for all requests at one time
    llm_engine.py both PORT SOCKET CUDA   the front end, whose child is the engine
    llm_engine.py zmq-front PORT SOCKET, zmq-engine SOCKET CUDA     the same over ZMQ

A step of the engine is LAUNCHES launches and CALLS system calls more than what it takes to talk. Each event says how
many launches the engine has done in all. Until it is asked for the first time it launches now and then: a library is
hooked a moment after it was mapped.
"""
import asyncio
import ctypes
import json
import os
import select
import socket
import sys
import time

LAUNCHES, CALLS, GAP = 7, 211, 0.002


class Engine:
    def __init__(self, cuda):
        self.cuda, self.done, self.active = ctypes.CDLL(cuda), 0, {}
        context = ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0
        assert self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.cuda.cuCtxSetCurrent(context) == 0

    def launch(self):
        assert self.cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
        self.done += 1

    def begin(self, line):
        ask = json.loads(line)
        self.active[ask["id"]] = ask["events"]

    def step(self):
        """What there is to say, a line for each request."""
        for _ in range(LAUNCHES):
            self.launch()
        for _ in range(CALLS):
            os.getppid()
        said = []
        for key in list(self.active):
            self.active[key] -= 1
            said.append(json.dumps({"id": key, "launches": self.done, "left": self.active[key]}))
            if not self.active[key]:
                del self.active[key]
        return said


def run_engine(path, cuda):
    engine = Engine(cuda)
    while not os.path.exists(path):
        engine.launch()
        time.sleep(0.05)
    front = socket.socket(socket.AF_UNIX)
    front.connect(path)
    lines, asked = front.makefile("rb"), False
    while True:
        if not engine.active and not asked and not select.select([front], [], [], 0.1)[0]:
            engine.launch()
            continue
        while not engine.active or select.select([front], [], [], 0)[0]:
            line = lines.readline()
            if not line:
                return
            asked = True
            engine.begin(line)
        front.sendall("".join(line + "\n" for line in engine.step()).encode())
        time.sleep(GAP)


def run_zmq_engine(path, cuda):
    import zmq
    engine, asked = Engine(cuda), False
    front = zmq.Context().socket(zmq.PAIR)
    front.connect(f"ipc://{path}")
    while True:
        while not engine.active or front.poll(0):
            if not asked and not front.poll(100):
                engine.launch()
                continue
            asked = True
            engine.begin(front.recv())
        for line in engine.step():
            front.send(line.encode())
        time.sleep(GAP)


class Front:
    def __init__(self):
        self.queues, self.ids, self.send = {}, 0, None

    def heard(self, line):
        said = json.loads(line)
        self.queues[said["id"]].put_nowait(said)

    async def answer(self, ask, send):
        self.ids += 1
        key, queue = self.ids, asyncio.Queue()
        self.queues[key] = queue
        self.send(json.dumps({"id": key, "events": ask["events"]}).encode() + b"\n")
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        left = 1
        while left:
            said = await queue.get()
            left = said["left"]
            text = json.dumps({"id": f"chatcmpl-{key}", "launches": said["launches"]})
            await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})
        del self.queues[key]
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        await self.answer(json.loads(body), send)


async def run_front(port, path, over_zmq):
    import uvicorn
    front = Front()
    if over_zmq:
        import zmq
        import zmq.asyncio
        engine = zmq.asyncio.Context().socket(zmq.PAIR)
        engine.bind(f"ipc://{path}")

        async def listen():
            while True:
                front.heard(await engine.recv())
        front.send = lambda text: asyncio.ensure_future(engine.send(text))
        asyncio.ensure_future(listen())
    else:
        came = asyncio.Event()

        async def on_engine(reader, writer):
            front.send = writer.write
            came.set()
            while True:
                line = await reader.readline()
                if not line:
                    return
                front.heard(line)
        await asyncio.start_unix_server(on_engine, path)
        await came.wait()
    config = uvicorn.Config(front, host="127.0.0.1", port=int(port), log_level="critical", lifespan="off", loop="none")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    asyncio.get_event_loop().add_reader(0, lambda: os.read(0, 1) or os._exit(0))
    await server.serve()


if __name__ == "__main__":
    kind, *arguments = sys.argv[1:]
    if kind == "both":
        if os.fork() == 0:
            kind, arguments = "engine", arguments[1:]
        else:
            kind, arguments = "front", arguments[:2]
    if kind == "engine":
        run_engine(*arguments)
    elif kind == "zmq-engine":
        run_zmq_engine(*arguments)
    else:
        asyncio.run(run_front(*arguments, kind == "zmq-front"))
