# SPDX-License-Identifier: GPL-2.0
"""A server as those of language models are, for tests: llm_server.py LIBRARY ADDRESS [CUDA]. It answers
POST /v1/chat/completions with {"events", "wait", "gap", "stream", "comment", "blocks"}: after so many seconds so many
events, so many seconds apart, and for so long it does nothing else; anything else by its status: /status/404. ADDRESS:
a port, or the path of a Unix socket.
"""
import asyncio
import ctypes
import json
import os
import signal
import socket
import sys
import threading
import time


def use_gpu(path):
    cuda = ctypes.CDLL(path)
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0

    def launch_once():
        assert cuda.cuCtxSetCurrent(context) == 0
        assert cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0

    def launch():
        """Again and again: a library is hooked a moment after it was mapped."""
        while True:
            launch_once()
            time.sleep(0.2)
    threading.Thread(target=launch, daemon=True).start()
    return launch_once


def event(i):
    return b'data: {"id":"chatcmpl-1","choices":[{"delta":{"content":"word %d"}}]}\n\n' % i


async def events(ask):
    """The parts of an answer as they come."""
    if ask.get("comment"):
        yield b": ping\n\n"
    time.sleep(ask.get("blocks", 0))
    await asyncio.sleep(ask.get("wait", 0))
    for i in range(ask["events"]):
        if i:
            await asyncio.sleep(ask.get("gap", 0))
        yield event(i)
    yield b"data: [DONE]\n\n"


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    if scope["path"] != "/v1/chat/completions":
        status = int(scope["path"].rpartition("/")[2]) if scope["path"].startswith("/status/") else 200
        text = b"" if status in (204, 304) else b"text"
        head = [] if status in (204, 304) else [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": text})
        return
    ask = json.loads(body)
    if not ask.get("stream"):
        await asyncio.sleep(ask.get("wait", 0))
        text = json.dumps({"id": "chatcmpl-1", "words": ask["events"]}).encode()
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": text})
        return
    await send({"type": "http.response.start", "status": 200,
        "headers": [(b"content-type", b"text/event-stream; charset=utf-8")]})
    async for part in events(ask):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def run_uvicorn(address, **more):
    import uvicorn
    where = {"uds": address} if "/" in address else {"host": "127.0.0.1", "port": int(address)}
    uvicorn.run(asgi, log_level="critical", lifespan="off", **where, **more)


def run_hypercorn(address):
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    config = Config()
    config.bind = [f"unix:{address}" if "/" in address else f"127.0.0.1:{address}"]
    asyncio.run(serve(asgi, config))


def run_aiohttp(address):
    from aiohttp import web

    async def chat(request):
        ask = await request.json()
        if not ask.get("stream"):
            await asyncio.sleep(ask.get("wait", 0))
            return web.json_response({"words": ask["events"]})
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        async for part in events(ask):
            await answer.write(part)
        await answer.write_eof()
        return answer

    async def status(request):
        if request.path == "/status/200":
            launch_here()  # the thread that waits for requests launches, too
        return web.Response(status=int(request.match_info["code"]), text="text")
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", chat), web.route("*", "/status/{code}", status)])
    where = {"path": address} if "/" in address else {"host": "127.0.0.1", "port": int(address)}
    web.run_app(app, print=None, access_log=None, **where)


def run_script(address):
    """Answers exactly with the pieces that it is told: each connection sends one line of JSON, [[text, seconds], ...]
    behind the head in X-Script, or closes at once where there is none."""
    listener = socket.socket(socket.AF_UNIX if "/" in address else socket.AF_INET)
    if "/" not in address:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(address if "/" in address else ("127.0.0.1", int(address)))
    listener.listen(64)

    def serve(client):
        client_bytes = b""
        if client.family == socket.AF_INET:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while True:
            while b"\r\n\r\n" not in client_bytes:
                got = client.recv(4096)
                if not got:
                    client.close()
                    return
                client_bytes += got
            head, _, client_bytes = client_bytes.partition(b"\r\n\r\n")
            script = next((line[10:] for line in head.split(b"\r\n") if line.startswith(b"X-Script: ")), b"[]")
            for text, seconds in json.loads(script):
                if text is None:
                    client.close()
                    return
                client.sendall(text.encode())
                time.sleep(seconds)
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def run_replaced(address):
    """Starts a server for each line of its input, in a process of its own, and says which; the one before is killed,
    and its port is the next one's at once."""
    server = 0
    for _ in sys.stdin:
        if server:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)
        server = os.fork()
        if not server:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            run_script(address)
        print(server, flush=True)
    if server:
        os.kill(server, signal.SIGKILL)


LIBRARIES = {
    "replaced": run_replaced,
    "uvicorn": lambda address: run_uvicorn(address, loop="asyncio", http="h11"),
    "uvloop": lambda address: run_uvicorn(address, loop="uvloop", http="httptools"),
    "hypercorn": run_hypercorn,
    "aiohttp": run_aiohttp,
    "script": run_script,
}

if __name__ == "__main__":
    library, address, *cuda = sys.argv[1:]
    if library == "gpu":  # of another program: it ends with that
        use_gpu(cuda[0])
        while os.read(0, 1):
            pass
        sys.exit()
    if cuda and cuda[0] == "child":  # the engine: a process of its own
        if os.fork() == 0:
            use_gpu(cuda[1])
            while True:
                os.read(0, 1) or os._exit(0)
    elif cuda:
        launch_here = use_gpu(cuda[0])
    LIBRARIES[library](address)
