# SPDX-License-Identifier: GPL-2.0
"""Requests of servers, seen in the kernel: how many, of what kind, how fast, against the client's own clock. The
servers are real ones where Debian has them. All numbers are primes, so that none of them can be another one by
chance."""
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time

from harness import CUDA, HERE, Absent, Daemon, Process, check, equal, folder, free_port, need, test, test_timed, \
    wait_until

CHAT = "/v1/chat/completions"
SENT_S = 3  # a call that sends the end of an answer may return so long after the client has read it, on a busy machine


class Server(Process):
    def __init__(self, library, *more, address=None, argv=None):
        self.address = str(address or free_port())
        super().__init__(argv or [sys.executable, os.path.join(HERE, "llm_server.py"), library, self.address, *more],
                         stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        wait_until(self.listens, f"{library} listening on {self.address}")

    def end(self):
        """It ends at once; its engine does when its input does."""
        if not self.process.stdin.closed:
            self.process.stdin.close()
        self.kill()

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


def near(got, want, share, least, what):
    check(abs(got - want) <= max(share * want, least), f"{what}: {got:.6f}, not {want:.6f}")


def asks_exactly(library, *more, address=None, argv=None, statuses=((404, "4xx", 7), (500, "5xx", 3), (204, "2xx", 5))):
    daemon = Daemon()
    server = Server(library, *more, address=address, argv=argv)
    pid = watched(daemon, server)
    streamed, plain, events = 13, 17, 11
    first, whole, failed = [], [], []

    def stream(count):
        try:
            client = Client(server)
            for _ in range(count):
                t, _, w = client.chat(events, wait=0.05, gap=0.01)
                first.append(t)
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
    begin = time.monotonic()
    for _ in range(plain):
        equal(client.ask("POST", CHAT, {"events": 1}).read() != b"", True, "an answer")
    plain_s = time.monotonic() - begin
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
    # what keeps the client from looking makes its times longer, never shorter; that is what a busy machine does to them
    seconds = seen.one("zernel_request_first_event_seconds_sum", route=CHAT)
    check(0.05 * n <= seconds <= sum(first) + SENT_S, f"{library}: first events {seconds:.3f} s of {sum(first):.3f}")
    if library != "hypercorn":  # of whose events TCP keeps some back
        # between its own first and last event the client may see less, as it reads all at once that came meanwhile
        gaps = seen.one("zernel_request_event_gap_seconds_sum", route=CHAT)
        check(0.01 * (events - 1) * n <= gaps <= sum(whole) - seconds,
            f"{library}: gaps {gaps:.3f} s of {sum(whole):.3f}, {seconds:.3f} before")
    seconds = seen.one("zernel_request_duration_seconds_sum", route=CHAT)
    check(0.15 * n <= seconds <= sum(whole) + plain_s + SENT_S,
        f"{library}: durations {seconds:.3f} s of {sum(whole):.3f} and {plain_s:.3f}")
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
    """It leaves Nagle on: TCP keeps its first events back until the head is acknowledged."""
    daemon, server = asks_exactly("hypercorn", CUDA)
    held = Seen(daemon, server.pid).one("zernel_request_held_total", what="first")
    check(held and held > 27, f"first events that were held: {held}, of 54")


@test
def requests_of_aiohttp_are_counted():
    asks_exactly("aiohttp", CUDA, statuses=((404, "4xx", 7), (500, "5xx", 3)))


@test
def a_server_waits_for_requests_and_not_for_other_ranks():
    """The thread that waits at the sockets has launched, as where a model is tried before its server listens."""
    daemon = Daemon()
    server = Server("aiohttp", CUDA)
    pid = watched(daemon, server)

    def stalls(what="seconds"):
        return next(p["stalls"][what] for p in daemon.json()["processes"] if p["pid"] == server.pid)

    def asked():
        equal(Client(server).ask("GET", "/status/200").status, 200, "an answer")
    asked()
    wait_until(lambda: Seen(daemon, pid).done("other"), "its first answer")
    for _ in range(2):
        daemon.ticked(2)  # by the first time it is one that answers, by the second its wait of before is counted
        asked()
    before = stalls()
    for _ in range(5):
        time.sleep(0.3)
        asked()
    after = wait_until(lambda: stalls()["other"] > before["other"] + 1 and stalls(), "its waits")
    equal(after["dist"], before["dist"], "s of waits for other ranks")
    wait_until(lambda: "sleeps, until it is asked" in stalls("says"), "what it does", seen=lambda: stalls("says"))


NODE = """
const http = require('http'), {spawn} = require('child_process');
spawn(process.argv[3], [process.argv[4], 'gpu', process.argv[2], process.argv[5]], {stdio: ['pipe', 'inherit', 'inherit']});
const sleep = s => new Promise(r => setTimeout(r, s * 1000));
http.createServer(async (req, res) => {
  let body = '';
  for await (const part of req) body += part;
  if (req.url !== '/v1/chat/completions') {
    res.statusCode = Number(req.url.split('/').pop()) || 200;
    return res.end(res.statusCode === 204 ? undefined : 'text');
  }
  const ask = JSON.parse(body);
  await sleep(ask.wait || 0);
  if (!ask.stream) return res.end('{}');
  res.setHeader('content-type', 'text/event-stream');
  for (let i = 0; i < ask.events; i++) {
    if (i) await sleep(ask.gap || 0);
    res.write(`data: {"id":"chatcmpl-1","n":${i}}\\n\\n`);
  }
  res.write('data: [DONE]\\n\\n');
  res.end();
}).listen(Number(process.argv[2]), '127.0.0.1');
"""


def of_node(source):
    """What a server of node is started with; its engine is a child of its."""
    port, path = free_port(), os.path.join(folder(), "server.js")
    with open(path, "w") as file:
        file.write(source)
    return {"address": port, "argv": [need("node"), path, str(port), sys.executable, os.path.join(HERE, "llm_server.py"),
                                      CUDA]}


@test
def requests_of_node_are_counted():
    """The size of a chunk is a piece of its own."""
    asks_exactly("node", **of_node(NODE))


class Raw:
    """A connection whose bytes are ours."""

    def __init__(self, server):
        self.sock = server.connect()
        self.sock.settimeout(60)

    def script(self, *pieces):
        """A request whose answer has these pieces, each with seconds behind it; as bytes."""
        steps = json.dumps([p if isinstance(p, tuple) else (p, 0.002) for p in pieces])
        return f"POST {CHAT} HTTP/1.1\r\nX-Script: {steps}\r\n\r\n".encode()

    def send(self, text):
        self.sock.sendall(text)

    def read(self, until):
        got = b""
        while until not in got:
            part = self.sock.recv(65536)
            if not part:
                break
            got += part
        return got

    def read_many(self, text, count):
        got = b""
        while got.count(text) < count:
            got += self.sock.recv(65536)

    def close(self):
        self.sock.close()


SSE = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
WORD, LAST = "10\r\ndata: {\"a\": 1}\n\n\r\n", "0\r\n\r\n"
SHORT = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntext"


def edges(server, daemon, pid):
    """Each edge a prime number of times."""
    for _ in range(7):  # left amid a stream
        raw = Raw(server)
        raw.send(raw.script(SSE, WORD, (WORD, 0.05), WORD, WORD))
        raw.read(b"data: ")
        raw.close()
    for _ in range(5):  # left before the answer
        raw = Raw(server)
        raw.send(f"POST {CHAT} HTTP/1.1\r\nX-Script: {json.dumps([['', 0.05], [None, 0]])}\r\n\r\n".encode())
        raw.read(b"nothing")
        raw.close()
    raw = Raw(server)  # a head that comes byte by byte, an answer that is cut at each byte
    for _ in range(3):
        for byte in raw.script(*SSE, *WORD, *LAST):
            raw.send(bytes([byte]))
        raw.read(LAST.encode())
    raw.close()
    raw = Raw(server)  # two at one time: the answer to the second belongs to nothing
    for _ in range(2):
        raw.send(raw.script(SHORT) + raw.script(SHORT))
        raw.read_many(b"text", 2)
    raw.close()
    for _ in range(11):  # HTTP/1.0: the close is the end
        raw = Raw(server)
        raw.send(raw.script("HTTP/1.0 200 OK\r\n\r\n", "text", (None, 0)))
        raw.read(b"nothing")
        raw.close()
    raw = Raw(server)  # 100-continue, and what comes in one piece
    for _ in range(13):
        raw.send(raw.script("HTTP/1.1 100 Continue\r\n\r\n", SSE + WORD, WORD + "e\r\ndata: [DONE]\n\n\r\n" + LAST))
        raw.read(LAST.encode())
    raw.close()


@test
def edges_of_http_are_counted_as_they_are():
    daemon = Daemon()
    server = Server("script", CUDA)
    pid = watched(daemon, server)
    edges(server, daemon, pid)
    seen = at_rest(daemon, pid)
    equal(seen.done(), {"2xx": 3 + 2 + 11 + 13, "aborted": 7 + 5}, "requests")
    equal(seen.lost(), {"request": 2}, "lost")
    events = seen.one("zernel_request_events_total", route=CHAT)
    check(7 + 26 <= events <= 7 * 4 + 26, f"events: {events}")
    raw = Raw(server)  # and it is no longer HTTP
    raw.send(raw.script("HTTP/1.1 101 Switching Protocols\r\n\r\n"))
    raw.read(b"\r\n\r\n")
    raw.send(b"GET / HTTP/1.1\r\n\r\n")
    raw.close()
    wait_until(lambda: Seen(daemon, pid).one("zernel_request_connections_total", protocol="other") == 1,
        "one that left HTTP")
    left = at_rest(daemon, pid)
    equal(left.in_flight(), 0, "in flight")
    equal(left.done(), {"2xx": 3 + 2 + 11 + 13 + 1, "aborted": 7 + 5}, "requests, with the one that left HTTP")
    equal(left.one("zernel_request_duration_seconds_count", route=CHAT),
        seen.one("zernel_request_duration_seconds_count", route=CHAT) + 1, "durations, with that one's")


@test
def a_stream_from_before_the_daemon_is_left_out():
    server = Server("script", CUDA)
    raw = Raw(server)
    raw.send(raw.script(SSE, WORD, *[(WORD, 0.1)] * 80, LAST))
    raw.read(b"data: ")
    daemon = Daemon()
    pid = watched(daemon, server)
    raw.read(LAST.encode())
    equal(Seen(daemon, pid).done(), {}, "a request that began before")
    for _ in range(5):
        raw.send(raw.script(SSE, WORD, LAST))
        raw.read(LAST.encode())
    seen = at_rest(daemon, pid)
    equal(seen.done(), {"2xx": 5}, "requests on the same connection")
    equal(seen.lost(), {}, "lost")


@test
def a_server_beside_its_engine_is_watched_and_its_neighbour_is_not():
    """The engine is a child. The neighbour has a session of its own, and nothing to do with a GPU."""
    daemon = Daemon()
    neighbour = Server("script")
    port = neighbour.address
    server = Server("script", "child", CUDA)
    pid = watched(daemon, server)
    for of in (server, neighbour):
        raw = Raw(of)
        for _ in range(7):
            raw.send(raw.script(SHORT))
            raw.read(b"text")
        raw.close()
    seen = at_rest(daemon, pid)
    equal(seen.done(), {"2xx": 7}, "requests")
    info = [dict(labels) for labels in seen.m.all("zernel_service_info")]
    mine = [i for i in info if i["pid"] == pid]
    equal([(i["role"], i["port"], i["service"]) for i in mine], [("front", server.address, pid)], "the server")
    check(str(port) not in [i["port"] for i in info], "the neighbour is not watched")
    found = [s for s in daemon.json()["servers"] if s["pid"] == server.pid]
    equal([(r["route"], r["requests"]["2xx"], r["in_flight"]) for r in found[0]["routes"]], [(CHAT, 7, 0)], "in JSON")
    server.end()
    wait_until(lambda: not daemon.metrics().one("zernel_service_info", pid=pid), "the server is gone")


class Hammer(threading.Thread):
    """Asks again and again, on one connection as long as it is there. Counts by the server that answered: it says its
    process id."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.raw, self.answered, self.stop = server, None, [], threading.Event()

    def ask(self):
        """When it was asked; None: the server went away."""
        at = time.monotonic()
        try:
            self.raw = self.raw or Raw(self.server)
            self.raw.send(self.raw.script((SHORT, 0)))
            if b"text" in self.raw.read(b"text"):
                return at
        except OSError:
            pass
        if self.raw:
            self.raw.close()
        self.raw = None
        return None

    def run(self):
        """It ends with a connection: one that finds its own dead only when it is to stop makes another."""
        while not self.stop.is_set() or not self.raw:
            at = self.ask()
            if at:
                self.answered.append(at)
            else:
                time.sleep(0.001)


class Replaced(Process):
    def __init__(self):
        self.address = str(free_port())
        super().__init__([sys.executable, os.path.join(HERE, "llm_server.py"), "replaced", self.address, CUDA],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)

    connect = Server.connect

    def replace(self):
        """The process id of the next one."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


@test
def a_server_that_is_replaced_is_counted_from_when_it_is_watched():
    """On the same port, while clients ask. What they ask once it is said to be watched is counted, to the last one, on
    connections from before that and on new ones."""
    daemon, servers = Daemon(), Replaced()
    for _ in range(13):
        begin, hammers = time.monotonic(), [Hammer(servers) for _ in range(4)]
        for hammer in hammers:
            hammer.start()
        time.sleep(0.02)
        pid = servers.replace()
        watched(daemon, servers, pid)
        since = time.monotonic()
        time.sleep(0.05)
        for hammer in hammers:
            hammer.stop.set()
        for hammer in hammers:
            hammer.join()
        before = at_rest(daemon, pid).done()
        all_of_it, late = (sum(at > when for h in hammers for at in h.answered) for when in (begin, since))
        check(late <= before.get("2xx", 0) <= all_of_it, f"{before} of {late} to {all_of_it}")
        for hammer in hammers:
            check(hammer.raw, "a connection from before")
            for n in range(7):
                check(hammer.ask(), "an answer")
        fresh = [Hammer(servers) for _ in range(5)]
        for hammer in fresh:
            for n in range(3):
                check(hammer.ask(), "an answer")
        seen = at_rest(daemon, pid)
        equal(seen.done(), {"2xx": before.get("2xx", 0) + 4 * 7 + 5 * 3}, "requests")
        equal(seen.lost(), {}, "lost")
        for hammer in hammers[:2] + fresh:  # the others are there when the server goes
            hammer.raw.close()


@test_timed
def times_of_requests_are_those_of_the_client():
    daemon = Daemon()
    server = Server("uvicorn", CUDA)
    pid = watched(daemon, server)
    client, first, gaps = Client(server), [], []
    for _ in range(23):
        t, g, _ = client.chat(11, wait=0.05, gap=0.01)
        first.append(t)
        gaps += g
    client.close()
    seen = at_rest(daemon, pid)
    ours = [seen.one(f"zernel_request_{name}_seconds_sum", route=CHAT) for name in ("first_event", "event_gap")]
    near(ours[0] / 23, sum(first) / 23, 0.02, 0.002, "the mean first event")
    near(ours[1] / 230, sum(gaps) / 230, 0.01, 0, "the mean gap")


@test_timed
def time_that_a_request_lies_unread_is_seen():
    """A server that does one thing at a time: four clients wait for one another, in the socket."""
    daemon = Daemon()
    server = Server("uvicorn", CUDA)
    pid = watched(daemon, server)
    took = []

    def ask():
        client = Client(server)
        for _ in range(5):
            begin = time.monotonic()
            client.ask("POST", CHAT, {"events": 1, "stream": True, "blocks": 0.1}).read()
            took.append(time.monotonic() - begin)
        client.close()
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = at_rest(daemon, pid)
    unread = seen.one("zernel_request_unread_seconds_sum")
    first = seen.one("zernel_request_first_event_seconds_sum", route=CHAT)
    check(unread > 0.2 * sum(took), f"unread {unread:.3f} of {sum(took):.3f} s")
    near(unread + first, sum(took), 0.05, 0.1, "unread and first event, against the clients' clocks")
