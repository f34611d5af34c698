# SPDX-License-Identifier: GPL-2.0
"""Requests at their limits: ten thousand connections to one server, of which most are silent, half open or hostile.
What finds no place is counted as lost, and a server of another user is counted exactly meanwhile."""
import os
import re
import resource
import socket
import sys

from harness import (CUDA, HERE, NOBODY, ZERNELD, Daemon, State, check, equal, folder, free_port, need, run, test,
                     wait_until)
from inference import CHAT, LAST, SSE, WORD, Raw, Seen, Server, at_rest, watched
from shares import OTHER, by, share

FAMILIES = ("--probes", "gpu,cuda,requests")
CONNECTIONS, TABLE = 10000, 4096
GOOD, OWN, LINES, HALF, SILENT, HOSTILE = 1009, 7, 311, 2203, 2503, 71  # OWN, HOSTILE: of each kind
LATER = CONNECTIONS - GOOD - LINES - HALF - SILENT - 7 * (OWN + HOSTILE)
GET = b"GET /x HTTP/1.1\r\n\r\n"
ENDLESS = {"field": b"GET /x HTTP/1.1\r\nA: " + 65536 * b"a", "path": b"GET /" + 65536 * b"a"}
BEGUN = {**ENDLESS, "pipelined": 100 * GET, "tls": b"\x16\x03\x01\x02\x00\x01" + 512 * b"\x03", "http2":
         b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)}
NEITHER = {"binary": bytes(range(128, 256)) * 8, "letters": 65536 * b"G"}
LOST = 2 * OWN  # one of those that are pipelined, and the answer of HTTP/1 to the preface of HTTP/2
ANSWER = b"text"
GROWS_MB = 8  # the daemon's own memory: what answers are rendered into


def more_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CONNECTIONS + 500:
        need("/a limit of open files that is high enough")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    State.cleanup.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


class Many(Server):
    """many_server.py, as nobody."""

    def __init__(self):
        self.path = os.path.join(folder(), "own", "server.sock")
        os.mkdir(os.path.dirname(self.path))
        os.chown(os.path.dirname(self.path), NOBODY, NOBODY)
        port = free_port()
        super().__init__("many", address=port, argv=[*by(NOBODY), sys.executable,
            os.path.join(HERE, "many_server.py"), str(port), self.path, CUDA])
        self.sockets = []
        State.cleanup.callback(self.leave)

    def open(self, count, text=b""):
        """So many new connections on which this is sent, every third one over the Unix socket."""
        fresh = []
        for i in range(count):
            s = socket.socket(socket.AF_INET if i % 3 else socket.AF_UNIX)
            s.settimeout(60)
            s.connect(("127.0.0.1", int(self.address)) if i % 3 else self.path)
            if text:
                s.sendall(text)
            fresh.append(s)
        self.sockets += fresh
        return fresh

    def leave(self):
        for s in self.sockets:
            s.close()
        self.sockets = []


def ask_all(sockets):
    for s in sockets:
        s.sendall(GET)
    for s in sockets:
        got = b""
        while ANSWER not in got:
            got += s.recv(65536)


class Neighbour:
    """A server of another user, which is asked now and then."""

    def __init__(self):
        port = free_port()
        self.server = Server("script", address=port, argv=[*by(OTHER), sys.executable,
            os.path.join(HERE, "llm_server.py"), "script", str(port), CUDA])
        self.raw, self.asked = None, 0

    def ask(self, daemon, count):
        """On the connection that it had before, and on a new one; all counts are exact."""
        before, self.raw = self.raw, Raw(self.server)
        for raw in filter(None, (before, self.raw)):
            for _ in range(count):
                raw.send(raw.script(SSE, WORD, WORD, LAST))
                raw.read(LAST.encode())
                self.asked += 1
        if before:
            before.close()
        seen = at_rest(daemon, self.server.pid)
        equal(seen.done(), {"2xx": self.asked}, "the neighbour's requests")
        equal(seen.one("zernel_request_events_total", route=CHAT), 2 * self.asked, "the neighbour's events")
        equal(seen.one("zernel_request_first_event_seconds_count", route=CHAT), self.asked, "its first events")


class Flood:
    def __init__(self, daemon, many):
        self.daemon, self.many, self.pid, self.begun, self.ended = daemon, many, str(many.pid), 0, 0

    def counts(self):
        """Done, in flight, and lost for want of a place and as such."""
        seen = Seen(self.daemon, self.pid)
        done, lost = seen.done("other"), seen.lost()
        return done.get("2xx", 0), seen.in_flight(), lost.get("connection_state", 0), lost.get("request", 0)

    def all_seen(self):
        """What began has been counted or was lost."""
        wait_until(lambda: sum(self.counts()[:3]) == self.begun, f"{self.begun} requests seen or lost",
            seen=self.counts)

    def with_room(self):
        """Everything has a place."""
        sockets = self.many.open(GOOD)
        ask_all(sockets)
        for text in (*BEGUN.values(), *NEITHER.values()):
            self.many.open(OWN, text)
        self.begun += GOOD + OWN * len(ENDLESS) + OWN
        wait_until(lambda: self.counts() == (GOOD + OWN, OWN * len(ENDLESS), 0, LOST),
            "what has a place, and what is out of step", seen=self.counts)
        self.many.open(LINES, b"POST /v1/ch")
        wait_until(lambda: self.entries() >= GOOD + OWN * len(BEGUN) + LINES, "places of requests that begin")
        return sockets

    def without_room(self):
        self.many.open(HALF, b"POST /x HTTP/1.1\r\nHost: x\r\n")
        self.begun += HALF
        self.all_seen()
        done, self.open, lost, _ = self.counts()
        check(lost > HALF // 2 and self.open > OWN * len(ENDLESS), f"the table is full: {self.open} and {lost}")
        self.many.open(SILENT)
        for text in (*BEGUN.values(), *NEITHER.values()):
            self.many.open(HOSTILE, text)
        ask_all(self.many.open(LATER))
        self.begun += HOSTILE * len(BEGUN) + LATER
        self.all_seen()
        equal(self.counts(), (done, self.open, lost + HOSTILE * len(BEGUN) + LATER, LOST), "those without a place")

    def entries(self):
        return self.daemon.metrics().one("zernel_table_entries", table="request_connections")


def tables_bytes(daemon):
    """Of all tables of the daemon in the kernel."""
    return sum(int(found[1]) for _, _, text in daemon.descriptors() if (found := re.search(r"memlock:\s*(\d+)", text)))


def most_tables_mb():
    said = run([ZERNELD, "--check", *FAMILIES]).stdout
    return float(re.search(r"in the kernel, ([0-9.]+) when all are full", said)[1])


@test
def ten_thousand_connections_leave_a_neighbour_its_counts():
    more_files()
    daemon = Daemon(*FAMILIES, expect=[share("connections of such servers", NOBODY, TABLE)])
    many, neighbour = Many(), Neighbour()
    flood = Flood(daemon, many)
    watched(daemon, many)
    watched(daemon, neighbour.server)
    neighbour.ask(daemon, 7)
    before = daemon.metrics().one("process_resident_memory_bytes")
    sockets = flood.with_room()
    neighbour.ask(daemon, 5)
    flood.without_room()
    equal(len(many.sockets), CONNECTIONS, "connections that are open")
    neighbour.ask(daemon, 11)
    ask_all(sockets)  # which have their places still
    flood.begun += GOOD
    flood.all_seen()
    check(flood.entries() <= TABLE // 2, f"one user has half of the table: {flood.entries()}")
    grown = daemon.metrics().one("process_resident_memory_bytes") - before
    check(grown < GROWS_MB << 20, f"the daemon has grown by {grown} bytes")
    check(tables_bytes(daemon) <= most_tables_mb() * (1 << 20), f"tables: {tables_bytes(daemon)} bytes")
    done, in_flight, lost, _ = flood.counts()
    many.leave()
    wait_until(lambda: flood.entries() == 1, "no place but the neighbour's", seen=flood.entries)
    seen = at_rest(daemon, many.pid)
    equal(seen.done("other"), {"2xx": done, "aborted": in_flight}, "requests of those that left")
    ask_all(many.open(13))
    wait_until(lambda: flood.counts()[0] == done + 13, "new ones have a place")
    equal(flood.counts(), (done + 13, 0, lost, LOST), "and nothing more is lost")
    neighbour.ask(daemon, 3)
