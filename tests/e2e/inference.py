# SPDX-License-Identifier: GPL-2.0
"""Requests of servers, seen in the kernel: how many, of what kind, how fast, against the client's own clock. The servers are
real ones where Debian has them. All numbers are primes, so that none of them can be another one by chance."""
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

from harness import CUDA, HERE, Absent, Daemon, Process, check, equal, folder, free_port, need, test, wait_until

CHAT = "/v1/chat/completions"


class Server(Process):
    def __init__(self, library, *more, address=None, argv=None):
        self.address = str(address or free_port())
        super().__init__(argv or [sys.executable, os.path.join(HERE, "llm_server.py"), library, self.address, *more],
                         stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_until(self.listens, f"{library} listening on {self.address}")

    def listens(self):
        if self.process.poll() is not None:
            said = self.process.stderr.read()
            if "No module named" in said:
                raise Absent(said.strip().splitlines()[-1])
            raise AssertionError(said)
        try:
            self.connect().close()
        except OSError:
            return False
        return True

    def connect(self):
        if "/" in self.address:
            s = socket.socket(socket.AF_UNIX)
            s.connect(self.address)
            return s
        return socket.create_connection(("127.0.0.1", int(self.address)), timeout=60)


class Client(http.client.HTTPConnection):
    """One connection that is kept alive."""

    def __init__(self, server):
        super().__init__("localhost", timeout=60)
        self.server = server

    def connect(self):
        self.sock = self.server.connect()
        if self.sock.family == socket.AF_INET:
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method, path, body=None):
        self.request(method, path, body and json.dumps(body))
        return self.getresponse()

    def chat(self, events, wait=0, gap=0, **more):
        """Seconds to the first event, and between events, by our own clock."""
        begin = time.monotonic()
        answer = self.ask("POST", CHAT, {"events": events, "wait": wait, "gap": gap, "stream": True, **more})
        at = []
        for line in answer:
            if line.startswith(b"data: {"):
                at.append(time.monotonic())
        equal(len(at), events, "events that came")
        return at[0] - begin, [b - a for a, b in zip(at, at[1:])], time.monotonic() - begin


def watched(daemon, server, pid=None):
    pid = str(pid or server.pid)
    wait_until(lambda: daemon.metrics().one("zernel_service_info", pid=pid), f"server {pid} watched")
    return pid


class Seen:
    """What the daemon says of one server."""

    def __init__(self, daemon, pid):
        self.m, self.pid = daemon.metrics(), str(pid)

    def done(self, route=CHAT):
        found = self.m.all("zernel_requests_total", pid=self.pid, route=route)
        return {dict(labels)["code"]: int(value) for labels, value in found.items()}

    def one(self, name, **labels):
        return self.m.one(name, pid=self.pid, **labels)

    def in_flight(self):
        return sum(int(v) for v in self.m.all("zernel_requests_in_flight", pid=self.pid).values())

    def lost(self):
        return {k: v for k, v in self.m.lost().items() if k in ("request", "connection_state", "route", "server") and v}


def at_rest(daemon, pid):
    wait_until(lambda: Seen(daemon, pid).in_flight() == 0, "no request in flight")
    return Seen(daemon, pid)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def near(got, want, share, least, what):
    check(abs(got - want) <= max(share * want, least), f"{what}: {got:.6f}, not {want:.6f}")


def asks_exactly(library, *more, address=None, argv=None, statuses=((404, "4xx", 7), (500, "5xx", 3), (204, "2xx", 5))):
    daemon = Daemon()
    server = Server(library, *more, address=address, argv=argv)
    pid = watched(daemon, server)
    streamed, plain, events = 13, 17, 11
    first, gaps, whole, failed = [], [], [], []

    def stream(count):
        try:
            client = Client(server)
            for _ in range(count):
                t, g, w = client.chat(events, wait=0.05, gap=0.01)
                first.append(t)
                gaps.extend(g)
                whole.append(w)
            client.close()
        except Exception as error:  # noqa: BLE001  of another thread
            failed.append(error)
    stream(2)
    threads = [threading.Thread(target=stream, args=(streamed,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(failed, [], "threads that failed")
    client = Client(server)
    for _ in range(plain):
        equal(client.ask("POST", CHAT, {"events": 1}).read() != b"", True, "an answer")
    for status, _, count in statuses:
        for _ in range(count):
            equal((client.ask("GET", f"/status/{status}"), client)[0].read() is not None, True, "an answer")
    for _ in range(2):
        client.ask("HEAD", "/status/200").read()
    client.close()
    seen = at_rest(daemon, pid)
    n = 4 * streamed + 2
    equal(seen.done(), {"2xx": n + plain}, f"{library}: requests")
    equal(seen.one("zernel_request_events_total", route=CHAT), n * events, f"{library}: events")
    want = {"2xx": 2}
    for _, code, count in statuses:
        want[code] = want.get(code, 0) + count
    equal(seen.done("other"), want, f"{library}: other requests")
    equal(seen.lost(), {}, "lost")
    equal(seen.one("zernel_request_connections_total", protocol="http1"), 6, f"{library}: connections")
    equal(seen.one("zernel_request_first_event_seconds_count", route=CHAT), n, "first events")
    near(seen.one("zernel_request_first_event_seconds_sum", route=CHAT) / n, mean(first), 0.05, 0.002, f"{library}: first event")
    near(seen.one("zernel_request_event_gap_seconds_sum", route=CHAT), sum(gaps), 0.02, 0.02, f"{library}: gaps")
    near(seen.one("zernel_request_duration_seconds_sum", route=CHAT), sum(whole), 0.05, 0.2, f"{library}: durations")
    return daemon, server


@test
def requests_of_uvicorn_are_counted():
    asks_exactly("uvicorn", CUDA)


@test
def requests_of_uvicorn_with_uvloop_are_counted():
    asks_exactly("uvloop", CUDA)


@test
def requests_over_a_unix_socket_are_counted():
    asks_exactly("uvicorn", CUDA, address=os.path.join(folder(), "server.sock"))


@test
def requests_of_hypercorn_are_counted():
    asks_exactly("hypercorn", CUDA)


@test
def requests_of_aiohttp_are_counted():
    asks_exactly("aiohttp", CUDA, statuses=((404, "4xx", 7), (500, "5xx", 3)))
