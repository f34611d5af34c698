# SPDX-License-Identifier: GPL-2.0
"""Clients for the tests: of the WebSocket a public one, python3-websockets, and a plain one that reads when it is told
to; and Prometheus."""
import asyncio
import importlib.util
import json
import os
import subprocess
import time
import urllib.parse
import urllib.request

from harness import PATIENCE, Absent, Process, folder, free_port, need, parse_json, wait_until


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


def read_snapshots(port, path, count, read=parse_json):
    """[(seconds since the connection was there, snapshot)]"""
    got = asyncio.run(receive(f"ws://127.0.0.1:{port}{path}", count))
    return [(at, read(text)) for at, text in got]


def handshake(s, path="/ws"):
    """Opens a WebSocket on a connected socket; what came after the answer."""
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAECAwQFBgcICQoLDA0ODw==\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got:
        more = s.recv(4096)
        if not more:
            raise ConnectionError(f"the connection ended in {got!r}")
        got += more
    head, _, rest = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    return rest


class Frames:
    """What a server sends over an open WebSocket; it reads no more than it must."""

    def __init__(self, s, rest=b""):
        self.socket, self.rest = s, rest

    def take(self, count):
        while len(self.rest) < count:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("the end")
            self.rest += more
        got, self.rest = self.rest[:count], self.rest[count:]
        return got

    def frame(self):
        """(opcode, payload) of a frame, which must be whole, unmasked and of the shortest length."""
        first, second = self.take(2)
        assert first & 0xF0 == 0x80 and second < 128, f"frame of {first:#x} {second:#x}"
        size = {126: 2, 127: 8}.get(second, 0)
        length = int.from_bytes(self.take(size), "big") if size else second
        assert length >= {0: 0, 2: 126, 8: 65536}[size], f"{length} in {size} bytes"
        return first & 0xF, self.take(length)

    def message(self):
        """The next text; pings are passed over."""
        while (frame := self.frame())[0] == 9:
            pass
        assert frame[0] == 1, f"opcode {frame[0]}: {frame[1]!r}"
        return frame[1].decode()

    def until_the_end(self):
        """Reads it all: the code of the Close, or None if there was none."""
        try:
            while (frame := self.frame())[0] != 8:
                pass
            return int.from_bytes(frame[1][:2], "big")
        except ConnectionError:
            return None


def api(server, path, **query):
    with urllib.request.urlopen(f"{server}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=60) as answer:
        return json.load(answer)["data"]


def prometheus(daemon, *options):
    """(process, URL) of a Prometheus that scrapes this daemon each second."""
    port, place = free_port(), folder()
    config = os.path.join(place, "prometheus.yml")
    with open(config, "w") as f:
        f.write("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: node\n"
                f"  static_configs:\n  - targets: ['127.0.0.1:{daemon.port}']\n")
    process = Process([need("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={place}/data",
                       f"--web.listen-address=127.0.0.1:{port}", *options], stderr=subprocess.DEVNULL)
    process.wanted = None
    return process, f"http://127.0.0.1:{port}"


def await_up(server):
    """A scrape that went well: the first ones may take longer than their second, where the machine is busy."""
    return wait_until(lambda: [t for t in [target(server)] if t and t["health"] == "up"], "the target being up",
        seen=lambda: target(server))[0]


def target(server):
    try:
        targets = api(server, "targets")["activeTargets"]
    except OSError:
        return None
    return targets[0] if targets and targets[0]["health"] != "unknown" else None
