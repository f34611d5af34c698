# SPDX-License-Identifier: GPL-2.0
"""A model behind gRPC, and its client, for tests:

    grpc_model.py server ADDRESS CUDA    ADDRESS: a port, or unix:PATH
    grpc_model.py client ADDRESS         does what a line of its input says, all of it at one time, on one connection

A line is a list of {"events", "wait", "gap", "status", "size", "bytes", "cancel", "unary"}: after so many seconds so
many messages of so many bytes, so many seconds apart, and then this status of gRPC; "bytes" are those of the request.
For each it says when the messages came, in seconds since it asked.
"""
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import grpc

from llm_server import use_gpu

CODES = {code.value[0]: code for code in grpc.StatusCode}


def stream(request, context):
    ask = json.loads(request.rstrip(b"."))
    time.sleep(ask.get("wait", 0))
    for i in range(ask["events"]):
        if i:
            time.sleep(ask.get("gap", 0))
        if not context.is_active():
            return
        yield b"x" * ask.get("size", 20)
    if ask.get("status"):
        context.abort(CODES[ask["status"]], "as it was asked")


def unary(request, context):
    return list(stream(request, context))[0]


def serve(address, cuda):
    use_gpu(cuda)
    server = grpc.server(ThreadPoolExecutor(max_workers=32))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Model", {
        "Stream": grpc.unary_stream_rpc_method_handler(stream), "Ask": grpc.unary_unary_rpc_method_handler(unary)}),))
    assert server.add_insecure_port(address if ":" in address else f"127.0.0.1:{address}")
    server.start()
    server.wait_for_termination()


def ask_one(channel, ask):
    body = json.dumps(ask).encode()
    body += b"." * (ask.get("bytes", 0) - len(body))
    begin, at = time.monotonic(), []
    try:
        if ask.get("unary"):
            channel.unary_unary("/test.Model/Ask")(body)
            return [time.monotonic() - begin]
        call = channel.unary_stream("/test.Model/Stream")(body)
        for _ in call:
            at.append(time.monotonic() - begin)
            if len(at) == ask.get("cancel"):
                call.cancel()
    except grpc.RpcError:
        pass
    return at


def ask_all(address):
    channel = grpc.insecure_channel(address if ":" in address else f"127.0.0.1:{address}")
    grpc.channel_ready_future(channel).result(timeout=60)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        asks = json.loads(line)
        with ThreadPoolExecutor(max_workers=len(asks)) as pool:
            print(json.dumps(list(pool.map(lambda ask: ask_one(channel, ask), asks))), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "server":
        serve(*sys.argv[2:])
    else:
        ask_all(sys.argv[2])
