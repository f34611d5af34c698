#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A real daemon while processes, jobs, libraries, mounts, servers and clients come and go, for MINUTES; what it holds
must not grow. Writes FILE with a picture of its memory: how it was before, while and after, in rows that say yes or no.
The first third is for what is filled once and kept (rows of tables that were used, histories); what came later is
compared with that.

Limits: as root, on a machine on which nobody else uses these libraries. The GPU is the stand-in.
usage: run.py MINUTES FILE
"""
import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), folder) for folder in ("e2e", "bench")]
from clients import Frames, handshake
from day import day
from growth import draw
from harness import CUDA, DRIVER, NCCL, ZERNEL, Daemon, State, alone, application_env, copy_of, folder, run
from held import MIB, cpu_s, mib, most, resident

SAMPLE_S, QUIET_S = 5, 20
PERIOD_S = 2  # of each kind that comes and goes: jobs are kept for 5 minutes, so how many there are follows from it
FILLING_S = 1  # the same in the first third: what ended processes leave of stacks is kept until 7/8 of a table is full
CHANCE = 0.04  # by which the rows in use may differ: of jobs that ended within the last minutes
HOURS, WARM_HOURS = 48, 24
NAMES = ("train", 'na"me', "two\\nlines", "é", "a" * 15)
# what a process does that has the library at PATH: memory, two ranks, launches, waits; then for some time it serves
# requests
PROGRAM = """
import ctypes, sys, time
sys.path.insert(0, {e2e!r})
import actor
ctypes.CDLL(None).prctl(15, ctypes.c_char_p({name!r}.encode()))
cuda, nccl = ctypes.CDLL({path!r}), ctypes.CDLL({nccl!r})
print("ready", flush=True)
sys.stdin.readline()
actor.ready(cuda)
held = [actor.alloc(cuda, 1 << 20) for _ in range(8)]
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
comms = [ctypes.c_void_p() for _ in range(2)]
for rank, comm in enumerate(comms):
    actor.ok(nccl.ncclCommInitRank(ctypes.byref(comm), 2, Id({id!r}), rank))
for _ in range(20):
    actor.launch(cuda, 50)
    for comm in comms:
        actor.ok(nccl.ncclAllReduce(None, None, ctypes.c_size_t(4), 7, 0, comm, None))
    actor.ok(cuda.cuStreamSynchronize(None))
    time.sleep(0.01)
for comm in comms:
    actor.ok(nccl.ncclCommDestroy(comm))
"""
SERVER = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        actor.launch(cuda, 3)
        self.send_response(200); self.send_header("Content-Length", "2"); self.end_headers(); self.wfile.write(b"ok")
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Answer)
print(server.server_port, flush=True)
for _ in range(20):
    server.handle_request()
"""


class Churn:
    """What comes and goes, each kind on a thread of its own, until it is told to stop. rounds: how often each came."""

    def __init__(self, daemon, seed, period_s):
        self.daemon, self.over, self.rounds, self.trouble = daemon, threading.Event(), {}, []
        self.period_s = period_s
        kinds = (self.process, self.job, self.library, self.mount, self.server, self.scrape, self.socket, self.rude,
                 self.reload)
        self.threads = [threading.Thread(target=self.repeat, args=(kind, random.Random(f"{seed} {kind.__name__}")))
                        for kind in kinds]
        for thread in self.threads:
            thread.start()

    def repeat(self, kind, rng):
        name, due = kind.__name__, time.monotonic()
        self.rounds[name] = 0
        # a tick is as long as the shorter period: with less scatter all would meet the same piece of it
        while not self.over.wait(max(0, due + rng.uniform(0, self.period_s) - time.monotonic())):
            due += self.period_s
            try:
                kind(rng)
                self.rounds[name] += 1
            except Exception as error:  # a soak goes on, and says at its end what failed
                if len(self.trouble) < 20:
                    self.trouble.append(f"{name}: {type(error).__name__}: {error}")

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()

    # ---- applications

    def begins(self, process, path):
        """Calls nothing before its library is hooked, as those of real drivers take longer to begin than that."""
        if process.stdout.readline() != "ready\n":
            self.ends(process)
        self.daemon.attached(f"/proc/{process.pid}/root{path}")
        process.stdin.write("\n")
        process.stdin.flush()
        return process

    def start(self, argv, path):
        return self.begins(subprocess.Popen(argv, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                            env=application_env(None)), path)

    def program(self, rng, path=CUDA, more=""):
        code = PROGRAM.format(e2e=os.path.join(os.path.dirname(HERE), "e2e"), name=rng.choice(NAMES), path=path,
                              nccl=NCCL, id=rng.randbytes(16).hex().encode()) + more
        return self.start([sys.executable, "-c", code], path)

    def ends(self, process):
        said, _ = process.communicate(timeout=120)
        if process.returncode:
            raise RuntimeError(f"a program ended with {process.returncode}: {said}")

    def driver(self, path, before=()):
        self.ends(self.start([*before, DRIVER, "--gate", "--cuda", path, "--scenario",
                              "devices,memory,launches,syncs,copies"], path))

    def process(self, rng):
        rng.choice((lambda: self.ends(self.program(rng)), lambda: self.driver(CUDA)))()

    def job(self, rng):
        number, process = str(rng.randrange(100000, 999999)), self.program(rng)
        command = [ZERNEL, "job", None, number, "--control", control()]
        for verb, more in (("start", ["--pid", str(process.pid), f"uid={os.getuid()}"]), ("end", [])):
            done = run([verb if part is None else part for part in command] + more)
            if verb == "start":
                self.ends(process)
            if done.returncode:
                raise RuntimeError(f"zernel job {verb}: {done.stderr}")

    def library(self, rng):
        path = copy_of(CUDA, f"{rng.getrandbits(40):x}/libcuda.so.1")
        self.ends(self.program(rng, path))
        os.unlink(path)
        os.rmdir(os.path.dirname(path))

    def mount(self, rng):
        place = os.path.join(folder(), f"mount{rng.getrandbits(40):x}")
        os.mkdir(place)
        script = f"mount -t tmpfs none {place} && cp {CUDA} {place}/ && exec \"$@\""
        self.driver(f"{place}/libcuda.so.1", before=["unshare", "-m", "sh", "-c", script, "sh"])
        os.rmdir(place)

    def server(self, rng):
        process = self.program(rng, more=SERVER)
        port = process.stdout.readline().strip()
        for _ in range(20):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/completions", timeout=60) as answer:
                answer.read()
        self.ends(process)

    # ---- who reads

    def scrape(self, rng):
        accept = rng.choice(("text/plain", "application/openmetrics-text; version=1.0.0"))
        for path in ("/metrics", "/json", "/why", "/history", "/alerts", "/health", "/", "/stacks/folded"):
            self.daemon.get(path, {"Accept": accept})

    def connect(self, port):
        return contextlib.closing(socket.create_connection(("127.0.0.1", port), timeout=60))

    def socket(self, rng):
        with self.connect(self.daemon.ws_port) as s:
            path = rng.choice(("/ws", "/ws?topics=processes,alerts", "/ws?topics=gpus&interval_ms=250"))
            frames = Frames(s, handshake(s, path))
            for _ in range(rng.randrange(1, 6)):
                frames.message()

    def rude(self, rng):
        """Says half of what it has to say, or nothing, and hangs up or resets the connection."""
        with self.connect(rng.choice((self.daemon.port, self.daemon.ws_port))) as s:
            whole = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
            s.sendall(rng.choice((b"", whole[:8], whole, b"\x16\x03\x01\x02\x00")))
            if rng.random() < 0.5:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    def reload(self, rng):
        self.daemon.process.send_signal(signal.SIGHUP)
        self.over.wait(rng.uniform(20, 40))


# ---- what the daemon holds

def control():
    return os.path.join(folder(), "run/control.sock")


def family_of(pid):
    """It and its children."""
    children = run(["ps", "-o", "pid=", "--ppid", str(pid)]).stdout.split()
    return [pid, *map(int, children)]


def kernel_memory(daemon):
    """Of all tables that it has open."""
    return sum(int(m[1]) for _, of, said in daemon.descriptors() if of == "anon_inode:bpf-map"
               for m in [re.search(r"^memlock:\s*(\d+)", said, re.M)] if m)


def entries(daemon):
    return {dict(ls)["table"]: v for (n, ls), v in daemon.metrics().items() if n == "zernel_table_entries"}


def sample(daemon, began):
    heap, tables = resident(daemon.pid)
    return {"minute": (time.monotonic() - began) / 60, "heap": heap, "tables": tables,
            "children": sum(sum(resident(pid)) for pid in family_of(daemon.pid)[1:]),
            "kernel": kernel_memory(daemon), "health": daemon.health()[0]}


def quiet(daemon):
    """Nobody is there: what is left, and what a tick costs."""
    end = time.monotonic() + 60
    while daemon.metrics().pids() and time.monotonic() < end:
        time.sleep(0.5)
    ticks, cpu = daemon.ticks(), cpu_s(daemon.pid)
    time.sleep(QUIET_S)
    return {"tick_ms": (cpu_s(daemon.pid) - cpu) / max(daemon.ticks() - ticks, 1) * 1e3, "files": daemon.fds_at_rest(),
            "entries": entries(daemon)}


def churn(daemon, seconds, began, samples, seed, period_s):
    coming, end = Churn(daemon, seed, period_s), time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            time.sleep(SAMPLE_S)
            samples.append(sample(daemon, began))
    finally:
        coming.stop()
    return coming


# ---- what is said

def unwell(samples):
    return sum(s["health"] != 200 for s in samples)


def rows_of(first, later, before, after, lost):
    """(what, before, after, limit, whether it holds)"""
    grown = [(f"{name}, at most", mib(most(first, key)), mib(most(later, key)), f"{limit} MiB more",
              most(later, key) <= most(first, key) + limit * MIB)
             for name, key, limit in (("its heap", "heap", 0.25), ("its tables and buffers", "tables", 1),
                                      ("its other processes", "children", 1), ("kernel tables", "kernel", 0.25))]
    was = before["entries"]
    left = {table: (was.get(table, 0), n) for table, n in after["entries"].items()
            if n > was.get(table, 0) * (1 + CHANCE)}
    return grown + [
        ("open files, at rest", before["files"], after["files"], "as many", after["files"] <= before["files"]),
        ("rows of tables in use, at rest", round(sum(was.values())), round(sum(after["entries"].values())),
         f"no table has {CHANCE:.0%} more", not left),
        ("CPU of a tick, at rest", f"{before['tick_ms']:.2f} ms", f"{after['tick_ms']:.2f} ms", "1.5 times and 0.5 ms",
         after["tick_ms"] <= 1.5 * before["tick_ms"] + 0.5),
        ("samples in which it was not well", unwell(first), unwell(later), "0", not unwell(first + later)),
        ("events lost, but stacks that found no room", "", round(sum(lost.values())), "0", not lost)], left


# What came and went, in the words of the page.
LIVE = """{date}, {version}, Linux {kernel}, {cores} cores: {minutes:g} minutes of processes, jobs, libraries, mounts,
servers and clients that come and go, one of each kind in {period} s, in the first third in {filling} s: it is for what
is filled once and kept. The second column is the most of that third, or at rest after it, and the third column the same
of the rest."""
DAY = """The same version, {hours} hours of simulated jobs that come, go wrong and go; its clock jumps to its next
timer. Histories fill for some 20 hours: the second column is the most of the first {warm}, the third that of the
rest."""


def table(rows):
    lines = ["| what | first third | after it | limit | within |", "|---|---|---|---|---|"]
    return lines + [f"| {what} | {a} | {b} | {limit} | {'yes' if good else '**no**'} |"
                    for what, a, b, limit, good in rows]


def paragraph(text, **values):
    return textwrap.wrap(" ".join(text.format(**values).split()), 118)


def live_part(minutes, rows, found, rounds, daemon):
    version = run([daemon.process.args[0], "--version"]).stdout.strip()
    lines = paragraph(LIVE, date=time.strftime("%Y-%m-%d"), version=version, kernel=os.uname().release,
                      cores=os.cpu_count(), minutes=minutes, period=PERIOD_S, filling=FILLING_S)
    went = ", ".join(f"{kind} {count}" for kind, count in rounds.items())
    lines += ["", *table(rows), "", "![memory of the daemon](images/soak.svg)", "", f"What came and went: {went}."]
    for title, what in found.items():
        lines += ["", f"{title}: {what}."] if what else []
    return lines


def day_part(rows):
    return ["", "## A day", "", *paragraph(DAY, hours=HOURS, warm=WARM_HOURS), "", *table(rows), "",
            "![memory of the daemon in a simulated day](images/soak-day.svg)"]


def picture(title, axis, samples, lines):
    return draw(title, axis, "MiB", [s[axis[:-1]] for s in samples],
                [(name, [s[key] / MIB for s in samples]) for name, key in lines])


HELD = (("tables and buffers", "tables"), ("heap", "heap"))


def soak(minutes):
    daemon = Daemon("--control", control(), "--report-dir", os.path.join(folder(), "reports"))
    daemon.looked_at = True  # what the log says of programs with such names is told below
    began, first, later = time.monotonic(), [], []
    one = churn(daemon, minutes * 20, began, first, 1, FILLING_S)
    before = quiet(daemon)
    two = churn(daemon, minutes * 40, began, later, 2, PERIOD_S)
    after = quiet(daemon)
    lost = daemon.metrics().lost()
    no_room = lost.pop("stack", 0)
    rows, left = rows_of(first, later, before, after, lost)
    rounds = {kind: one.rounds[kind] + two.rounds[kind] for kind in one.rounds}
    trouble = one.trouble + two.trouble
    found = {"Tables with more rows than before": left, "Lost": lost, "Stacks that found no room": no_room,
             "What failed of the churn itself": trouble}
    print("\n".join(daemon.lines()[-20:]), file=sys.stderr)
    return (live_part(minutes, rows, found, rounds, daemon),
            picture("Memory of the daemon", "minutes", first + later, (*HELD, ("other processes", "children"))),
            all(good for *_, good in rows) and not trouble)


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def main():
    if len(sys.argv) != 3 or os.geteuid():
        sys.exit("usage: run.py MINUTES FILE, as root")
    images = os.path.join(os.path.dirname(os.path.abspath(sys.argv[2])), "images")
    with contextlib.ExitStack() as State.cleanup:
        rows, samples = day(HOURS, WARM_HOURS)
    write(os.path.join(images, "soak-day.svg"), picture("Memory in a simulated day", "hours", samples, HELD))
    with alone(), contextlib.ExitStack() as State.cleanup:
        lines, drawn, good = soak(float(sys.argv[1]))
    write(os.path.join(images, "soak.svg"), drawn)
    text = "\n".join(["# A soak", "", "Written by `make soak`; do not edit.", "", *lines, *day_part(rows)]) + "\n"
    write(sys.argv[2], text)
    print(text)
    sys.exit(0 if good and all(row[-1] for row in rows) else 1)


if __name__ == "__main__":
    main()
