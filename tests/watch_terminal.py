# SPDX-License-Identifier: GPL-2.0
"""For watch_test.py: a server that answers what a test wants, and a terminal that knows only what it may be sent."""
import fcntl
import json
import os
import pty
import re
import select
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
import unicodedata

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "e2e"))
from harness import free_port  # noqa: E402,F401

PATIENCE = 30
BINARY = ""  # the program under test


# ---- what a daemon answers

def process(number, name, **more):
    p = {"pid": number, "comm": name, "job_id": "",
         "gpus": [{"gpu_id": "0", "used_bytes": 3 << 30, "peak_bytes": 4 << 30}], "pinned_bytes": 0,
         "launch": {"count": 5, "rate": 12.5, "p50_us": 142.0, "p99_us": 891.0, "errors": 0, "kernel": 5, "graph": 0,
                    "cooperative": 0, "captured": 0},
         "sync": {"count": 3, "sum_ms": 12.5, "p50_us": 1.5, "p99_us": 9.25},
         "nccl": {"calls": 7, "bytes": 123, "errors": 0, "sum_ms": 3.5,
                  "ops": [{"op": "all_reduce", "calls": 7, "bytes": 123, "errors": 0, "p50_ms": 34.0, "p99_ms": 67.3},
                          {"op": "comm_init", "calls": 1, "bytes": 0, "errors": 0, "p50_ms": 4e3, "p99_ms": 4e3}],
                  "comms": [{"comm": "9f01", "rank": 0, "nranks": 8}]},
         "dataloader": None, "stalls": None, "signals": None, "io": None,
         "anomalies": None}
    p.update(more)
    return p


def snapshot(**more):
    s = {"gpu_utilization": [{"key": "1000:0", "current_bytes": 1, "peak_bytes": 2}],
         "cuda_latency_p50_us": 143.0, "cuda_latency_p99_us": 893.0, "nccl_allreduce_p50_ms": 34.5,
         "nccl_allreduce_p99_ms": 67.5, "dataloader_wait_p50_ms": 8.25, "last_update_ms": 1711800000000,
         "node": "n1", "source": "live", "version": "0.1.0", "uptime_s": 12, "interval_ms": 1000,
         "gpus": [{"gpu_id": "0", "uuid": "GPU-1", "pci": "0000:3b:00.0", "used_bytes": 40 << 30,
                   "peak_bytes": 60 << 30, "total_bytes": 80 << 30, "processes": 2},
                  {"gpu_id": "1", "uuid": "", "pci": "", "used_bytes": 5 << 30, "peak_bytes": 6 << 30,
                   "total_bytes": None, "processes": 1}],
         "processes": [process(1000, "python")], "jobs": [], "io": [], "alerts": [],
         "probes": [{"family": "gpu_mem", "state": "attached", "why": "", "libraries": []}],
         "lost": {"ringbuf": 0, "series": 0}}
    s.update(more)
    return s


def job_gpu(gpu, busy, idle, quiet=0.0, peak=40 << 30):
    return {"gpu_id": gpu, "allocated": True, "peak_bytes": peak, "busy_s": busy, "idle_s": idle, "quiet_s": quiet}


def job(number, **more):
    j = {"job_id": str(number), "restart": 0, "state": "running", "user": "user1000", "uid": 1000, "account": "lab",
         "partition": "gpu", "name": "train", "nodes": "4", "start_ms": 1711799000000, "end_ms": None,
         "elapsed_s": 3723.4,
         "processes": 8, "processes_gone": 3, "launches": 123456, "nccl_bytes": 7 << 40,
         "gpus": [job_gpu("0", 900.0, 100.5), job_gpu("1", 600.0, 400.5)]}
    j.update(more)
    return j


def body_of(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def answer(body, head="HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"):
    return head.encode() % len(body) + body


class Server:
    """respond(n) gives the bytes for request n (from 1), or a list of pieces; None: no answer. hang_up: close after."""

    def __init__(self, respond, hang_up=False, port=0, host="127.0.0.1", drop_second=False):
        self.respond, self.hang_up, self.requests, self.connections = respond, hang_up, 0, 0
        self.drop_second = drop_second    # a second request on a connection only closes it
        self.heads, self.open, self.lock = [], [], threading.Lock()
        local = host.startswith("/")    # the path of a Unix socket
        self.sock = socket.socket(socket.AF_UNIX if local else socket.AF_INET6 if ":" in host else socket.AF_INET)
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(host if local else (host, port))
        self.sock.listen(16)
        self.port = 0 if local else self.sock.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn, _ = self.sock.accept()
            except OSError:
                return
            with self.lock:
                self.connections += 1
                self.open.append(conn)
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        pending = head = b""
        try:
            if conn.family != socket.AF_UNIX:
                conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                while b"\r\n\r\n" not in pending:
                    more = conn.recv(65536)
                    if not more:
                        return
                    pending += more
                if self.drop_second and head:
                    return
                head, pending = pending.split(b"\r\n\r\n", 1)
                with self.lock:
                    self.requests += 1
                    self.heads.append(head)
                    n = self.requests
                reply = self.respond(n)
                for piece in reply if isinstance(reply, list) else [reply]:
                    if piece is not None:
                        conn.sendall(piece)
                if self.hang_up:
                    return
        except OSError:
            pass
        finally:
            conn.close()

    def stop(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()
        with self.lock:
            for conn in self.open:
                try:
                    conn.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        except OSError:
            pass


def live(value, port=0):
    """A server whose data is new each time, as a daemon's is. port: of free_port(), where it is to be used again."""
    def respond(n):
        v = value(n) if callable(value) else dict(value)
        v["last_update_ms"] = 1711800000000 + 1000 * n
        v["uptime_s"] = n
        return answer(body_of(v))
    return Server(respond, port=port)


def raw(data, **more):
    return Server(lambda n: data, **more)


# ---- the client's side

def run(*args, env=None, verb="watch"):
    p = subprocess.run([BINARY, verb, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                       timeout=PATIENCE, env={**os.environ, **(env or {})})
    return p.returncode, p.stdout, p.stderr.decode()


def once(value, env=None):
    with raw(answer(value if isinstance(value, bytes) else body_of(value))) as s:
        status, out, err = run("127.0.0.1:%d" % s.port, "--once", env=env)
    check(status == 0, "exit %d: %s" % (status, err))
    check(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", out), "control characters: %r" % out)
    return out.decode()


class Screen:
    """A terminal that fails at everything that a frame has no business to send."""

    def __init__(self, cols, rows):
        self.alternate, self.cursor, self.sgr_seen, self.pending, self.sgr = False, True, False, b"", "0"
        self.resize(cols, rows)

    def resize(self, cols, rows):
        self.cols, self.rows = cols, rows
        self.cells = [[" "] * cols for _ in range(rows)]
        self.styles = [["0"] * cols for _ in range(rows)]
        self.x = self.y = 0
        self.lenient = True   # until the next frame begins: this one was made for the size before

    def feed(self, data):
        data = self.pending + data
        text, self.pending = data, b""
        try:
            text = data.decode()
        except UnicodeDecodeError as e:
            assert e.reason == "unexpected end of data", "bytes that are no UTF-8: %r" % data
            text, self.pending = data[:e.start].decode(), data[e.start:]
        cut = re.search("\x1b(\\[[0-9;?]*)?$", text)
        if cut:
            self.pending = text[cut.start():].encode() + self.pending
            text = text[:cut.start()]
        for m in re.finditer("\x1b\\[([0-9;?]*)([A-Za-z])|(.)", text, re.S):
            if m.group(2):
                self.escape(m.group(1), m.group(2))
            else:
                self.char(m.group(3))

    def escape(self, args, final):
        if final == "H" and not args:
            self.x = self.y = 0
            self.lenient = False
        elif final == "K" and not args:
            if self.y < self.rows:
                self.cells[self.y][self.x:] = [" "] * (self.cols - self.x)
            assert self.x < self.cols or self.lenient, "erases the last column"
        elif final == "J" and args == "2":
            self.cells = [[" "] * self.cols for _ in range(self.rows)]
        elif final == "m":
            self.sgr = args
            self.sgr_seen = self.sgr_seen or self.alternate
        elif final in "hl" and args == "?1049":
            self.alternate = final == "h"
        elif final in "hl" and args == "?25":
            self.cursor = final == "h"
        else:
            assert (final, args) in (("h", "?7"), ("l", "?7")), "an escape sequence: ESC [ %s %s" % (args, final)

    def char(self, c):
        if c == "\r":
            self.x = 0
            return
        if c == "\n":
            self.y += 1
            assert self.y < self.rows or self.lenient or not self.alternate, "scrolls"
            return
        assert unicodedata.category(c) not in ("Cc", "Cf", "Zl", "Zp", "Cs"), "a control character: %r" % c
        width = 0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        if self.y < self.rows:
            for i in range(width):
                if self.x + i < self.cols:
                    self.cells[self.y][self.x + i] = c if i == 0 else ""
                    self.styles[self.y][self.x + i] = self.sgr
        self.x += width
        assert self.x <= self.cols or self.lenient, "line %d is too long for %d columns" % (self.y, self.cols)

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.cells)

    def row_with(self, text):
        return next((i for i, line in enumerate(self.text().split("\n")) if text in line), -1)


class Terminal:
    def __init__(self, address, cols=80, rows=24, env=None, args=()):
        self.screen = Screen(cols, rows)
        self.master, self.slave = pty.openpty()
        self.size(cols, rows)
        self.before = termios.tcgetattr(self.slave)
        env = {**{k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLUMNS")}, "TERM": "xterm",
               **(env or {})}
        self.p = subprocess.Popen([BINARY, "watch", address, *args], stdin=self.slave, stdout=self.slave,
                                  stderr=subprocess.PIPE, env=env, preexec_fn=self.lead)

    def lead(self):
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    def size(self, cols, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def pump(self, seconds):
        if select.select([self.master], [], [], seconds)[0]:
            self.screen.feed(os.read(self.master, 65536))
            return True
        return False

    def wait(self, condition, what):
        end = time.monotonic() + PATIENCE
        while not condition(self.screen):
            assert time.monotonic() < end, "never saw %s in:\n%s" % (what, self.screen.text())
            assert self.p.poll() is None or self.pump(0), "ended before %s: %r" % (what, self.p.stderr.read())
            self.pump(0.1)

    def wait_text(self, *texts):
        self.wait(lambda s: all(t in s.text() for t in texts), " and ".join(texts))

    def wait_gone(self, text):
        self.wait(lambda s: text not in s.text(), "the end of " + text)

    def press(self, keys):
        os.write(self.master, keys)

    def end(self):
        """The exit status, after everything it wrote has been read; the terminal must be as it was."""
        stop = time.monotonic() + PATIENCE
        while self.p.poll() is None:
            assert time.monotonic() < stop, "does not end"
            self.pump(0.1)
        while self.pump(0):
            pass
        check(not self.screen.alternate and self.screen.cursor, "the screen was not given back")
        check(termios.tcgetattr(self.slave) == self.before, "the terminal's mode was not restored")
        check(self.p.stderr.read() == b"", "it wrote to stderr")
        return self.p.returncode

    def quit(self):
        self.press(b"q")
        check(self.end() == 0, "exit %s after q" % self.p.returncode)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        self.p.stderr.close()
        os.close(self.master)
        os.close(self.slave)


def equal(got, wanted):
    check(got == wanted, "%r, not %r" % (got, wanted))


def check(ok, message):
    if not ok:
        raise AssertionError(message)


def is_one_line(err):
    return err.startswith("zernel: watch: ") and err.count("\n") == 1 and err.endswith("\n")
