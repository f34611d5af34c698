# SPDX-License-Identifier: GPL-2.0
"""A front end and an engine that are two processes, as those of language models are, for tests:

    llm_engine.py front PORT SOCKET       uvicorn; hands what it is asked to the engine, over a Unix socket
    llm_engine.py engine SOCKET CUDA      batches: each step is for all requests at one time
    llm_engine.py both PORT SOCKET CUDA   the front end, whose child is the engine
    llm_engine.py zmq-front PORT SOCKET, zmq-engine SOCKET CUDA     the same over ZMQ
    llm_engine.py launcher PORT FOLDER CUDA     a router and SHARDS engines, children of a launcher that does nothing
                                                else; each step is a call of gRPC over the Unix socket of each engine

A step of the engine is LAUNCHES launches, CALLS system calls and FAULTS page faults more than what it takes to talk.
Each event says how many launches the engine has done in all. Until it is asked for the first time it launches now and
then: a library is hooked a moment after it was mapped. A thread of its own does that, so that the one that steps is not
the first that launches.
"""
import asyncio
import ctypes
import json
import mmap
import os
import select
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

SHARDS = 2
LAUNCHES, CALLS, FAULTS, GAP = 7, 211, 31, 0.002


class Engine:
    def __init__(self, cuda):
        self.cuda, self.done, self.active = ctypes.CDLL(cuda), 0, {}
        self.pages = mmap.mmap(-1, FAULTS * mmap.PAGESIZE)
        context = ctypes.c_void_p()
        assert self.cuda.cuInit(0) == 0
        assert self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
        assert self.cuda.cuCtxSetCurrent(context) == 0
        self.first = ThreadPoolExecutor(1, initializer=lambda: self.cuda.cuCtxSetCurrent(context))

    def warm(self):
        self.first.submit(self.launch).result()

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
        self.pages.madvise(mmap.MADV_DONTNEED)
        for i in range(FAULTS):
            self.pages[i * mmap.PAGESIZE] = 1
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
        engine.warm()
        time.sleep(0.05)
    front = socket.socket(socket.AF_UNIX)
    front.connect(path)
    lines, asked = front.makefile("rb"), False
    while True:
        if not engine.active and not asked and not select.select([front], [], [], 0.1)[0]:
            engine.warm()
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
                engine.warm()
                continue
            asked = True
            engine.begin(front.recv())
        for line in engine.step():
            front.send(line.encode())
        time.sleep(GAP)


def end_with_input():
    threading.Thread(target=lambda: os.read(0, 1) or os._exit(0), daemon=True).start()


def run_shard(path, cuda):
    """Its handlers have one thread, which is the one that launches."""
    import grpc
    end_with_input()
    made = []

    def step(request, context):
        if request == b"warm":
            made[0].warm()
        else:
            made[0].step()
        return b"%d" % made[0].done
    server = grpc.server(ThreadPoolExecutor(max_workers=1, initializer=lambda: made.append(Engine(cuda))))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Shard", {
        "Step": grpc.unary_unary_rpc_method_handler(step)}),))
    assert server.add_insecure_port(f"unix:{path}")
    server.start()
    server.wait_for_termination()


class Router(threading.Thread):
    """Each step is for all requests at one time, and of all engines."""

    def __init__(self, front, loop, paths):
        super().__init__(daemon=True)
        import grpc
        self.front, self.loop, self.active, self.asked = front, loop, {}, threading.Event()
        channels = [grpc.insecure_channel(f"unix:{path}") for path in paths]
        for channel in channels:
            grpc.channel_ready_future(channel).result(timeout=60)
        self.steps = [channel.unary_unary("/test.Shard/Step") for channel in channels]

    def begin(self, line):
        ask = json.loads(line)
        self.active[ask["id"]] = ask["events"]
        self.asked.set()

    def run_step(self, what):
        return sum(int(call.result()) for call in [step.future(what) for step in self.steps])

    def run(self):
        while not self.asked.wait(0.1):
            self.run_step(b"warm")
        while True:
            self.asked.wait()
            self.asked.clear()
            while self.active:
                done = self.run_step(b"step")
                for key in list(self.active):
                    self.active[key] -= 1
                    left = self.active[key]
                    if not left:
                        del self.active[key]
                    self.loop.call_soon_threadsafe(self.front.heard, json.dumps(
                        {"id": key, "launches": done, "left": left}))
                time.sleep(GAP)


def run_launcher(port, folder, cuda):
    paths = [os.path.join(folder, f"shard{n}.sock") for n in range(SHARDS)]
    for path in paths:
        if os.fork() == 0:
            run_shard(path, cuda)
    if os.fork() == 0:
        end_with_input()
        asyncio.run(run_front(port, paths, route))
    while os.read(0, 1):
        pass


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


async def talk(front, path):
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


async def talk_over_zmq(front, path):
    import zmq
    import zmq.asyncio
    engine = zmq.asyncio.Context().socket(zmq.PAIR)
    engine.bind(f"ipc://{path}")

    async def listen():
        while True:
            front.heard(await engine.recv())
    front.send = lambda text: asyncio.ensure_future(engine.send(text))
    asyncio.ensure_future(listen())


async def route(front, paths):
    router = Router(front, asyncio.get_event_loop(), paths)
    front.send = router.begin
    router.start()


async def run_front(port, path, connect):
    import uvicorn
    front = Front()
    await connect(front, path)
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
    elif kind == "launcher":
        run_launcher(*arguments)
    else:
        asyncio.run(run_front(*arguments, talk_over_zmq if kind == "zmq-front" else talk))
