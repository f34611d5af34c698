#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The WebSocket of a simulating daemon, as public clients see it (npm's ws, python3-websockets, curl), and as a bare
socket does that sends what no client would.
"""
import asyncio
import json
import os
import signal
import socket
import subprocess

from clients import Frames, handshake, need_module
from harness import HERE, PATIENCE, Daemon, Process, check, equal, main, need, parse_json, run, test_simulated, \
    wait_until

KEY = "Sec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw=="
GOOD = ["Upgrade: websocket", "Connection: keep-alive, Upgrade", "Sec-WebSocket-Version: 13", KEY]
STARRED = ["gpu_utilization", "cuda_latency_p50_us", "cuda_latency_p99_us", "nccl_allreduce_p50_ms",
           "nccl_allreduce_p99_ms", "dataloader_wait_p50_ms", "last_update_ms"]
TOPICS = {"gpus", "processes", "jobs", "io", "alerts", "probes", "lost", "why", "servers"}
NODE_CLIENT = os.path.join(HERE, "ws_client.mjs")
MODULE = os.path.join(os.path.dirname(HERE), "web", "node_modules", "ws", "package.json")


def node_argv(daemon, path="/", **options):
    need(MODULE)
    return [need("node"), NODE_CLIENT, f"ws://127.0.0.1:{daemon.ws_port}{path}", json.dumps(options)]


def node(daemon, path="/", **options):
    got = run(node_argv(daemon, path, **options))
    equal(got.returncode, 0, got.stderr)
    return parse_json(got.stdout)


def bare(daemon, path="/ws", receive=None):
    """An open WebSocket on a bare socket, its frames to be read."""
    s = socket.socket()
    if receive:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    s.settimeout(PATIENCE)
    s.connect(("127.0.0.1", daemon.port))
    return Frames(s, handshake(s, path))


def masked(first, payload, mask=b"\x37\xfa\x21\x3d"):
    size = len(payload)
    head = bytes([first, 0x80 | size]) if size < 126 else bytes([first, 0xFE]) + size.to_bytes(2, "big")
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


@test_simulated
def ws_of_npm():
    daemon = Daemon("--simulate", "--push-interval-ms", "250")
    for code in (1000, 1001, 3000, 4999):
        got = node(daemon, count=2, code=code, protocols=["other", "zernel.v1"])
        equal((got["protocol"], got["extensions"], got["pong"], got["code"], got["error"]),
              ("zernel.v1", "", "are you there", code, None), "what ws says")
        for snapshot in got["snapshots"]:
            equal((snapshot["binary"], snapshot["keys"][:7]), (False, STARRED), "a text, and its first keys")
    equal(node(daemon)["protocol"], "", "no subprotocol was offered")
    wait_until(lambda: daemon.metrics().one("zernel_ws_clients") == 0, "no clients")


@test_simulated
def ws_of_npm_is_refused():
    daemon = Daemon("--simulate")
    for path, headers, status in (("/?interval_ms=249", {}, 400), ("/?topics=none", {}, 400), ("/metrics", {}, 404),
                                  ("/", {"Origin": "https://evil.example"}, 403), ("/", {"Origin": "null"}, 403),
                                  ("/", {"Host": "evil.example"}, 421)):
        equal(node(daemon, path, headers=headers).get("status"), status, f"{path} {headers}")
    own = f"http://127.0.0.1:{daemon.port}"
    equal(node(daemon, headers={"Origin": own})["code"], 1000, "a page of the metrics port may")


async def converse(url):
    """With python3-websockets, which offers compression: snapshots, a ping, a long text, a Close of our own."""
    websockets = need_module("websockets")
    async with websockets.connect(url, subprotocols=["zernel.v1"], max_size=None) as ws:
        texts = [await asyncio.wait_for(ws.recv(), PATIENCE) for _ in range(2)]
        await asyncio.wait_for(await ws.ping(b"x" * 125), PATIENCE)
        await ws.send("what clients say is checked and ignored " * 1000)
        await ws.send(["in ", "fragments"])
        texts.append(await asyncio.wait_for(ws.recv(), PATIENCE))
        await ws.close(4321, "done")
        return texts, ws.subprotocol, ws.extensions, ws.close_code


@test_simulated
def websockets_of_python():
    daemon = Daemon("--simulate", "--push-interval-ms", "250")
    for url in (f"ws://127.0.0.1:{daemon.ws_port}", f"ws://localhost:{daemon.port}/ws"):
        texts, protocol, extensions, code = asyncio.run(converse(url))
        equal((protocol, extensions, code), ("zernel.v1", [], 4321), "subprotocol, extensions, close code")
        for text in texts:
            equal(list(parse_json(text))[:7], STARRED, "the first keys")


def curl(daemon, *options, headers=GOOD, path="/ws"):
    """(status line, {header: value}, body)"""
    lines = [part for line in headers for part in ("-H", line)]
    got = subprocess.run([need("curl"), "-sS", "-i", "--max-time", "20", *options, *lines,
                          f"http://127.0.0.1:{daemon.port}{path}"], capture_output=True, timeout=60, text=True)
    equal(got.returncode, 0, got.stderr)
    head, _, body = got.stdout.replace("\r", "").partition("\n\n")
    first, *lines = head.split("\n")
    return first, dict(line.split(": ", 1) for line in lines), body


@test_simulated
def bad_handshakes_are_answered_in_http():
    daemon = Daemon("--simulate")

    def but(index, *lines):
        return GOOD[:index] + list(lines) + GOOD[index + 1:]
    cases = [
        ("no Upgrade", 426, but(0)), ("another protocol", 426, but(0, "Upgrade: websocket2")),
        ("no Connection", 426, but(1)), ("another Connection", 426, but(1, "Connection: upgraded")),
        ("version 8", 426, but(2, "Sec-WebSocket-Version: 8")), ("version 0", 426, but(2, "Sec-WebSocket-Version: 0")),
        ("no version", 400, but(2)), ("two versions", 400, [*GOOD, "Sec-WebSocket-Version: 13"]),
        ("no key", 400, but(3)), ("short key", 400, but(3, "Sec-WebSocket-Key: AAEC")),
        ("a key that is no base64", 400, but(3, "Sec-WebSocket-Key: !AECAwQFBgcICQoLDA0ODw==")),
        ("two keys", 400, [*GOOD, KEY]),
        ("another site's page", 403, [*GOOD, "Origin: http://evil.example"]),
        ("a file's page", 403, [*GOOD, "Origin: null"]),
        ("a name that was made to point here", 421, [*GOOD, "Host: evil.example", "Origin: http://evil.example"]),
    ]
    for name, status, headers in cases:
        first, answer, body = curl(daemon, headers=headers)
        equal(first.split(" ")[1], str(status), name)
        check(body, f"{name}: it says why")
        if " 426 " in first:
            equal((answer.get("Sec-WebSocket-Version"), answer.get("Upgrade")), ("13", "websocket"), name)
    equal([curl(daemon, *options)[0].split(" ")[1] for options in (["--http1.0"], ["-I"], ["-d", "a body"])],
          ["426", "400", "405"], "HTTP/1.0, HEAD, POST")
    equal(daemon.metrics().one("zernel_ws_clients"), 0, "clients")


@test_simulated
def bad_queries_are_answered_in_http():
    daemon = Daemon("--simulate")
    for query, said in (("interval_ms=249", "interval_ms"), ("interval_ms=60001", "60000"),
                        ("interval_ms=x", "interval_ms"), ("topics=", "topics"), ("topics=gpu", "topics"),
                        ("job=a/b", "job"), ("nothing=1", "nothing"), ("job=1&job=2", "once"),
                        ("job=%00", "well-formed")):
        first, _, body = curl(daemon, path=f"/ws?{query}")
        equal(first.split(" ")[1], "400", query)
        check(said in body and body.count("\n") == 1, f"{query}: one line that says why: {body!r}")


@test_simulated
def narrowing():
    daemon = Daemon("--simulate", "--push-interval-ms", "500")
    everything = set(parse_json(bare(daemon).message()))
    check(TOPICS <= everything, "all topics")
    for query, topics in (("topics=alerts", {"alerts"}), ("topics=gpus,lost", {"gpus", "lost"}),
                          ("topics=lost%2Cgpus", {"lost", "gpus"}), ("job=no.such", TOPICS)):
        frames = bare(daemon, f"/ws?{query}")
        for _ in range(2):
            snapshot = parse_json(frames.message())
            equal(list(snapshot)[:7], STARRED, f"{query}: the first keys")
            equal(TOPICS & set(snapshot), topics, query)
        if "job" in query:
            equal(snapshot["processes"], [], "no process is of that job")
        equal(parse_json(daemon.get(f"/json?{query}")).keys(), snapshot.keys(), f"{query}: /json has the same keys")


@test_simulated
def an_interval_of_ones_own():
    """Nine snapshots at 250 ms take 2 s; at the daemon's pace they would take 80."""
    daemon = Daemon("--simulate", "--push-interval-ms", "10000")
    frames = bare(daemon, "/ws?interval_ms=250")
    times = [parse_json(frames.message())["last_update_ms"] for _ in range(9)]
    equal(sorted(set(times)), times, "each is newer than the one before")
    check(times[-1] - times[0] < 20000, f"pace: {times}")
    frames.socket.close()
    wait_until(lambda: daemon.metrics().one("zernel_ws_clients") == 0, "no clients")


@test_simulated
def close_codes():
    daemon = Daemon("--simulate")
    for name, sent, code in (
            ("1000", masked(0x88, b"\x03\xe8"), 1000), ("4999 and why", masked(0x88, b"\x13\x87why"), 4999),
            ("none", masked(0x88, b""), 0), ("1005", masked(0x88, b"\x03\xed"), 1002),
            ("5000", masked(0x88, b"\x13\x88"), 1002), ("one byte", masked(0x88, b"\x03"), 1002),
            ("bad reason", masked(0x88, b"\x03\xe8\xff"), 1007), ("bad text", masked(0x81, b"\xc0\xaf"), 1007),
            ("bad before its end", masked(0x81, b"x" * 100 + b"\xff" + b"x" * 100)[:120], 1007),
            ("no mask", b"\x81\x01a", 1002), ("reserved bit", masked(0xC1, b"a"), 1002),
            ("reserved opcode", masked(0x83, b""), 1002), ("long ping", masked(0x89, b"x" * 126), 1002),
            ("not the shortest length", b"\x82\xfe\x00\x05mask", 1002), ("continues nothing", masked(0x80, b"a"), 1002),
            ("65537 bytes announced", b"\x82\xff" + (65537).to_bytes(8, "big") + b"mask", 1009),
            ("2^63 - 1 announced", b"\x82\xff" + (2**63 - 1).to_bytes(8, "big") + b"mask", 1009)):
        frames = bare(daemon)
        frames.message()
        frames.socket.sendall(sent)
        equal(frames.until_the_end(), code, name)
    wait_until(lambda: daemon.metrics().one("zernel_ws_clients") == 0, "no clients")


@test_simulated
def pings_are_answered_within_a_message():
    daemon = Daemon("--simulate")
    frames = bare(daemon)
    frames.message()
    frames.socket.sendall(masked(0x01, b"\xf0\x9f") + masked(0x89, b"one"))
    while (frame := frames.frame())[0] == 1:
        pass
    equal(frame, (10, b"one"), "pong")
    frames.socket.sendall(masked(0x00, b"\x98\x80") + masked(0x80, b"") + masked(0x88, b"\x03\xe8"))
    equal(frames.until_the_end(), 1000, "the text was good")


@test_simulated
def a_client_that_does_not_read_is_dropped():
    """Nobody else is delayed, what it misses is counted, and it is closed with 1013 if that fits between two frames."""
    daemon = Daemon("--simulate", "--push-interval-ms", "250")
    slow, other = bare(daemon, receive=4096), bare(daemon)
    wait_until(lambda: daemon.metrics().lost().get("ws_frame"), "a snapshot that it missed")
    wait_until(lambda: other.message() and daemon.metrics().lost().get("ws_client"), "its end", 60)
    check(slow.until_the_end() in (1013, None), "how it ends")
    wait_until(lambda: daemon.metrics().one("zernel_ws_clients") == 1, "the other one")
    first, second = (parse_json(other.message())["last_update_ms"] for _ in range(2))
    check(first < second, "which still gets new ones")


@test_simulated
def all_are_told_when_the_daemon_ends():
    daemon = Daemon("--simulate")
    client = Process(node_argv(daemon, code=0), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    equal(client.process.stderr.readline(), "open\n", "that the client is there")
    others = [bare(daemon), bare(daemon, "/ws?topics=lost&interval_ms=60000")]
    daemon.process.send_signal(signal.SIGTERM)
    equal([frames.until_the_end() for frames in others], [1001, 1001], "bare sockets")
    equal(parse_json(client.process.stdout.read())["code"], 1001, "ws")


if __name__ == "__main__":
    main()
