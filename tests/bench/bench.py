#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""bench.py OUTPUT [PART...]: measures what zerneld costs and writes it as a Markdown table; of PARTs, names of BENCHES
or the beginnings of such, it only says what they measured.

Runs as root on an otherwise idle machine with two cores or more, after `make tests bench-tools`. What is compared is
measured in turns within one run, and medians of the turns are shown with their spread. Nothing here is a test: a
figure over its limit is written down as such. Libraries are copied to a folder of this run, but every other zerneld
that runs meanwhile hooks them too, so there must be none.
"""
import json
import math
import os
import platform
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

BUILD = "build"
DAEMON = f"{BUILD}/zerneld"
NO_FILES = ["--control", "none", "--report-dir", "none"]
DAEMON_CPU, CLIENT_CPU = 0, 1
EMULATED, STEPPED = "cuLaunchKernel", "cuStreamSynchronize"  # by their first instructions, which are looked at
SYSTEM_PATH = os.environ.get("PATH", "") + ":/usr/sbin"
NODE_EXPORTER, NGINX = (shutil.which(name, path=SYSTEM_PATH) for name in ("prometheus-node-exporter", "nginx"))


class Run:
    """What all rows share: the folder of this run and the table as it grows."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="zernel-bench-")
        self.cuda = self.copy("libcuda.so.1")
        self.nccl = self.copy("libnccl.so.2")
        self.rows, self.notes = [], []

    def copy(self, name, to=""):
        folder = os.path.join(self.folder, to)
        os.makedirs(folder, exist_ok=True)
        return shutil.copy(f"{BUILD}/test/{name}", folder)

    def row(self, what, measured, spread="", limit="", good=None):
        verdict = {None: "", True: "yes", False: "**no**"}[good]
        self.rows.append((what, measured, spread, limit, verdict))
        print(f"  {what}: {measured} {'(' + spread + ')' if spread else ''} {'limit ' + limit if limit else ''} {verdict}")

    def note(self, title, text):
        self.notes.append((title, " ".join(text.split())))


def median(values):
    return statistics.median(values)


def spread(values, form="{:,.1f}"):
    return f"{form.format(min(values))} to {form.format(max(values))}"


def pinned(cpu):
    return lambda: os.sched_setaffinity(0, {cpu})


class Tool:
    """A small program that answers each line with a line."""

    def __init__(self, *args, **options):
        self.process = subprocess.Popen([f"{BUILD}/bench/{args[0]}", *map(str, args[1:])], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1, **options)

    def read(self):
        line = self.process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended")
        return line

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        return self.read()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def fleet(run, processes, rate):
    tool = Tool("fleet", run.cuda, run.nccl, processes, rate, env={**os.environ, "FAKE_CUDA_DEVICES": "8"})
    tool.read()
    return tool


class Daemon:
    """The daemon under test; `ready_s` and `stop_s` are how long it took to start and to end."""

    def __init__(self, cpu=None, *options):
        start = time.monotonic()
        self.process = subprocess.Popen([DAEMON, "--metrics-port", "0", "--ws-port", "0", *NO_FILES, *options], text=True,
                                        stderr=subprocess.PIPE, preexec_fn=None if cpu is None else pinned(cpu))
        line = ""
        while "ready:" not in line:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError("the daemon ended at its start")
        self.ready_s = time.monotonic() - start
        self.metrics_port, self.ws_port = map(int, re.findall(r"port (\d+)", line))
        self.pid = self.process.pid
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def stop(self):
        start = time.monotonic()
        self.process.terminate()
        self.process.wait()
        self.stop_s = time.monotonic() - start

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()

    def get(self, path="/metrics"):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}{path}", timeout=10) as answer:
            return answer.read().decode()

    def sample(self, name, labels):
        """The one sample of that name that has all the labels."""
        for line in self.get().splitlines():
            if line.startswith(name + "{") and all(label in line for label in labels):
                return float(line.rsplit(" ", 1)[1])
        raise RuntimeError(f"no sample {name} {labels}")

    def resident_mb(self):
        """All of it, and what of it are kernel tables."""
        with open(f"/proc/{self.pid}/smaps") as f:
            parts = re.findall(r"^[0-9a-f]+-[0-9a-f]+ (.*)$(?:\n\w+:.*$)*?\nRss:\s+(\d+) kB", f.read(), re.M)
        sizes = [(int(kb) / 1024, "bpf-map" in name) for name, kb in parts]
        return sum(mb for mb, _ in sizes), sum(mb for mb, table in sizes if table)

    def cpu_s(self):
        threads = os.listdir(f"/proc/{self.pid}/task")
        total = 0
        for thread in threads:
            with open(f"/proc/{self.pid}/task/{thread}/schedstat") as f:
                total += int(f.read().split()[0])
        return total / 1e9


# ---- the cost of a call ----

LAUNCH_ROUNDS = 9
CALLS = {"none": 200000, "empty": 5000, "least": 5000, "ours": 5000, "all": 5000}
ATTACHED = ("empty", "least")  # programs that are put at the same places as ours; the objects of these names
HOOKS = "gpu_mem,cuda_trace,nccl"  # the families that stand on functions of libraries
REAL, REAL_NAME = f"{BUILD}/real/cuda-550/libcuda.so.1", "real libcuda 550"
THUNK, THUNK_NAME = f"{BUILD}/test/entry/thunk/libcuda.so.1", "fake libcuda that begins as drivers 525 to 550"
REAL_LIMIT_NS = 1500


class Target:
    """One libcuda, the functions of it that are timed, and the programs that call it and that put empty programs on it."""

    def __init__(self, name, path, functions):
        self.name, self.path, self.functions = name, path, functions
        self.tool = Tool("launch", path)
        self.others = {kind: Tool("attach_empty", f"{BUILD}/bench/{kind}.bpf.o", path, *functions) for kind in ATTACHED}
        self.places = {f: self.tool.ask(f"place {f}").split() for f in functions}
        self.times, self.told = {}, []

    def stepped(self, function):
        return self.places[function][1] not in ("push", "branch", "nop")

    def wait(self, there):
        self.tool.ask(f"wait {self.functions[0]} {there}")

    def blocks(self, kind):
        for function in self.functions:
            for threads in (1, 4):
                calls = CALLS[kind] * (1 if self.stepped(function) or kind == "none" else 8)
                ns = float(self.tool.ask(f"time {function} {threads} {calls}"))
                self.times.setdefault((function, threads, kind), []).append(ns)

    def without_us(self):
        self.wait(0)
        self.blocks("none")
        for kind, programs in self.others.items():
            programs.ask("+")
            self.wait(1)
            self.blocks(kind)
            programs.ask("-")
            self.wait(0)

    def what(self, function, threads):
        at, kind = self.places[function]
        how = "single-stepped" if self.stepped(function) else "emulated"
        return f"`{function}` of the {self.name}, +{at}, {kind}: {how}, {threads} thread{'s' if threads > 1 else ''}"

    def close(self):
        for tool in (self.tool, *self.others.values()):
            tool.__exit__()


def launch_targets(run):
    """The fake one, one function of which begins with no push, and what real drivers begin with."""
    subprocess.run(["tests/real/files.sh", f"{BUILD}/real"], check=False)
    name, path = (REAL_NAME, REAL) if os.path.exists(REAL) else (THUNK_NAME, THUNK)
    return [Target("fake libcuda", run.cuda, (STEPPED, EMULATED)),
            Target(name, shutil.copy(path, os.path.join(run.folder, "libcuda.so.2")), (EMULATED, STEPPED))]


def launch_round(targets):
    for target in targets:
        target.without_us()
    for kind, options in (("ours", ("--probes", HOOKS)), ("all", ())):
        with Daemon(None, *options) as daemon:
            for target in targets:
                target.wait(1)
                target.blocks(kind)
                if kind == "ours":
                    labels = [f'pid="{target.tool.process.pid}"', 'quantile="0.5"']
                    target.told.append(daemon.sample("zernel_cuda_launch_latency_seconds", labels) * 1e9)
        for target in targets:
            target.wait(0)


def launch_rows(run, target, function, threads):
    none, empty, least, ours, every = (target.times[function, threads, kind] for kind in CALLS)
    floor, ratio, whole = ([(o - n) / (e - n) for n, e, o in zip(none, empty, with_)] for with_ in (least, ours, every))
    what = target.what(function, threads)
    run.row(f"call without probes ({what})", f"{median(none):.1f} ns", spread(none))
    run.row(f"call with empty programs ({what})", f"{median(empty):,.0f} ns", spread(empty, "{:,.0f}"))
    limit = REAL_LIMIT_NS if (target.name, function, threads) == (REAL_NAME, EMULATED, 1) else None
    run.row(f"call with ours ({what})", f"{median(ours):,.0f} ns", spread(ours, "{:,.0f}"), f"{limit:,} ns" if limit else "",
            median(ours) <= limit if limit else None)
    run.row(f"**added by ours / added by empty** ({what})", f"{median(ratio):.3f}", spread(ratio, "{:.2f}"), "1.15",
            median(ratio) <= 1.15)
    run.row(f"the same of the least that times and counts ({what})", f"{median(floor):.3f}", spread(floor, "{:.2f}"))
    run.row(f"the same, with all families ({what})", f"{median(whole):.3f}", spread(whole, "{:.2f}"))


BPFTRACE = shutil.which("bpftrace", path=SYSTEM_PATH)
BPFTRACE_ROUNDS = 5


def bpftrace_time(target, take):
    """ns of a call, and what bpftrace says of it, while it times the function in the way that its manual shows."""
    at = f"{target.path}:{EMULATED}"
    script = (f"BEGIN {{ printf(\"on\\n\"); }} uprobe:{at} {{ @start[tid] = nsecs; }} "
              f"uretprobe:{at} /@start[tid]/ {{ @took = {take}(nsecs - @start[tid]); delete(@start[tid]); }}")
    with subprocess.Popen([BPFTRACE, "-e", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while "on" not in process.stdout.readline():
            if process.poll() is not None:
                raise RuntimeError("bpftrace ended at its start")
        time.sleep(0.5)
        ns = float(target.tool.ask(f"time {EMULATED} 1 {CALLS['empty']}"))
        process.send_signal(signal.SIGINT)
        told = re.search(r"@took: (\d+)", process.stdout.read())
    return ns, float(told[1]) if told else None


def bpftrace_rows(run, target):
    """Beside what somebody would use who has no zerneld."""
    if not BPFTRACE:
        run.note("bpftrace", "It is not installed here.")
        return
    times = [bpftrace_time(target, "hist")[0] for _ in range(BPFTRACE_ROUNDS)]
    told = bpftrace_time(target, "avg")[1]
    none, ours = (median(target.times[EMULATED, 1, kind]) for kind in ("none", "ours"))
    ratio = [(t - none) / (ours - none) for t in times]
    what = f"`{EMULATED}` of the {target.name}, 1 thread"
    run.row(f"call with a histogram of bpftrace ({what})", f"{median(times):,.0f} ns", spread(times, "{:,.0f}"))
    run.row(f"added by it / added by ours ({what})", f"{median(ratio):.2f}", spread(ratio, "{:.2f}"))
    run.row(f"a call that takes {none:,.0f} ns, as bpftrace tells it ({what})", f"{told:,.0f} ns")
    run.row(f"the same, as ours tells it, below 128 ns as 64 ({what})", f"{median(target.told):,.0f} ns")
    version = subprocess.check_output([BPFTRACE, "--version"], text=True).split()[-1]
    run.note("bpftrace", f"""{version}, at the function's entry, where it stands unless told otherwise: at its beginning and at
        its return, a table of times by thread, and its `hist()`. What it tells is its `avg()`.""")


def bench_launch(run):
    targets = launch_targets(run)
    fake, real = targets
    if not fake.stepped(STEPPED) or fake.stepped(EMULATED):
        sys.exit(f"bench.py: {EMULATED} has to begin with a push, and {STEPPED} must not: {fake.places}")
    for i in range(LAUNCH_ROUNDS):
        print(f"  round {i + 1} of {LAUNCH_ROUNDS}")
        launch_round(targets)
    for target in targets:
        for function in target.functions:
            for threads in (1, 4):
                launch_rows(run, target, function, threads)
    bpftrace_rows(run, real)
    for target in targets:
        target.close()
    run.note("Cost of a call", f"""One process for each library times blocks of calls in {LAUNCH_ROUNDS} rounds, each:
        no probe; programs that only return 0, at the same place and through the same kind of link; the least that times and
        counts, there too (the clock at the entry and at the return, a look-up of the thread at each, one of the process, three
        additions); the real daemon with the families on libraries, and with all. The ratio is taken round by round. From 6.11 on the kernel makes a system call at
        the return of a probed function, which takes longer while system calls are watched: that is most of what all
        families add. The kernel emulates a few instructions (`push`, `branch`) and single-steps all others, which costs another
        trap: each row says how far behind the entry the probe stands, and on what. {STEPPED} of the fake library stands for
        functions that begin with nothing that is emulated; the {real.name} for drivers 525 to 550, whose functions begin
        with a compare. Without a GPU each call of a real driver returns an error at once.
        With 4 threads on {os.cpu_count()} cores, threads wait for each other's time slice too, and ours add to the same
        counters from several cores.""")


# ---- the cost of a system call and of a switch ----

KERNEL_ROUNDS, KERNEL_BLOCKS = 7, 41
KERNEL_CALLS = (("getppid", "a system call that is only counted", 2000), ("pread", "`pread` of one byte", 1000),
                ("pwrite", "`pwrite` of one byte", 1000), ("openat", "`open` and `close`", 300),
                ("switch", "a context switch with a read and a write of a pipe", 200),
                ("send", "`send` of one byte over TCP", 200))
KERNEL_ADDED = (("empty", "added by empty programs", None),
                ("clock", "added by programs that read the clock at switches and wakings", None),
                ("idle", "added while no process is tracked", None),
                ("other", "added while another process is tracked", None),
                ("tracked", "added to a tracked process", None),
                ("other, sched", "added by `sched` alone while another process is tracked", 100),
                ("tracked, sched", "added by `sched` alone to a tracked process", 100))


def kernel_blocks(target, who, times, only=""):
    for kind, _, calls in KERNEL_CALLS:
        if only in kind:
            times.setdefault((kind, who), []).append(float(target.ask(f"time {kind} {KERNEL_BLOCKS} {calls}")))


def kernel_round(run, plain, times):
    """A program that calls no hooked library, before and while another one does, and that other one."""
    with Tool("calls", run.folder, run.cuda) as tracked:
        kernel_blocks(plain, "off", times)
        for floor, who, only in (("floor", "empty", ""), ("clock", "clock", "switch")):
            with Tool("attach_floor", f"{BUILD}/bench/{floor}.bpf.o") as programs:
                programs.read()
                kernel_blocks(plain, who, times, only)
        with Daemon():
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "idle", times)
            tracked.ask("track")
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "other", times)
            kernel_blocks(tracked, "tracked", times)
        with Daemon(None, "--probes", "gpu_mem,sched"):  # the first is what makes a process a tracked one
            time.sleep(SETTLE_S)
            tracked.ask("track")
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "other, sched", times, "switch")
            kernel_blocks(tracked, "tracked, sched", times, "switch")


def bench_kernel(run):
    times = {}
    with Tool("calls", run.folder) as plain:
        for i in range(KERNEL_ROUNDS):
            print(f"  round {i + 1} of {KERNEL_ROUNDS}")
            kernel_round(run, plain, times)
    for kind, what, _ in KERNEL_CALLS:
        off = times[kind, "off"]
        run.row(f"{what}, without zerneld", f"{median(off):,.0f} ns", spread(off, "{:,.0f}"))
        for who, text, limit in KERNEL_ADDED:
            if (kind, who) not in times:
                continue
            added = [b - a for a, b in zip(off, times[kind, who])]
            run.row(f"{what}, {text}", f"{median(added):,.0f} ns", spread(added, "{:,.0f}") +
                    f"; ratio {median([b / a for a, b in zip(off, times[kind, who])]):.2f}",
                    f"{limit} ns" if limit else "", median(added) <= limit if limit else None)
    with Daemon() as daemon:
        way = next((p.get("tier") for p in json.loads(daemon.get("/json"))["probes"] if p["family"] == "vfs"), "none")
    run.note("Cost of a system call and of a switch", f"""All families on, files by: {way}. Medians of {KERNEL_BLOCKS} blocks, in
        {KERNEL_ROUNDS} rounds, each: nothing attached; one empty program at the entry and at the return of system calls, at
        switches and at wakings, which is what the kernel itself takes for being asked; the daemon, first with no process that
        calls a hooked library, then with one. A switch has two threads that hand a byte to and fro over two pipes on one
        CPU, so a read and a write belong to each. The tiers fentry and kprobe cannot be
        had on every kernel; where they can, calls that are no file operations pay nothing for files.""")


# ---- recording ----

def bench_record(run):
    runs = [dict(line.split() for line in subprocess.check_output([f"{BUILD}/bench/record"], text=True).splitlines())
            for _ in range(3)]
    ns = {key: [float(r[key]) for r in runs] for key in runs[0]}
    for key, text in (("few", "100"), ("many", "100,000,000")):
        run.row(f"recording, {text} samples held", f"{median(ns[key]):.1f} ns", spread(ns[key]), "10 ns",
                median(ns[key]) <= 10)
    for key, text in (("few_p99", "100"), ("many_p99", "100,000,000")):
        run.row(f"recording and reading p99, {text} samples held", f"{median(ns[key]):.0f} ns", spread(ns[key], "{:,.0f}"))
    run.row("the same in a sorted list of 100,000 samples", f"{median(ns['kept_p99']):,.0f} ns",
            spread(ns["kept_p99"], "{:,.0f}"))
    ratio = [a / b for a, b in zip(ns["kept_p99"], ns["many_p99"])]
    run.row("sorted list / histogram", f"{median(ratio):.0f}", spread(ratio, "{:.0f}"))
    run.row("memory at any number of samples", f"{ns['bytes'][0]:,.0f} bytes",
            f"list of 100,000: {ns['kept_bytes'][0]:,.0f}")
    run.note("Recording", """Medians of 2,001 blocks of 100 records with a heavy tail, three times. The list is the
        cheapest way to keep every sample in order that we know: a binary search and one memmove() for each.""")


# ---- scrapes ----

SCRAPE_ROUNDS, SCRAPE_MS, SCRAPE_PROCESSES, RENDERINGS = 5, 1000, 4, 5000
TICKS, TICK_LIMIT_US = 600, 2000
NGINX_CONF = """daemon off; master_process off; user root; pid {folder}/pid; error_log {folder}/log;
events {{ worker_connections 64; }}
http {{
    access_log off; sendfile on; open_file_cache max=16; keepalive_requests 1000000000;
    default_type "text/plain; version=0.0.4; charset=utf-8";
    server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """Another server, on the daemon's core; the answers that scrapes got are in `results`."""

    def __init__(self, name, command, port):
        self.name, self.port, self.results = name, port, []
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=pinned(DAEMON_CPU))
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{name} does not start")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def node_exporter():
    port = free_port()
    return Server("Debian's node exporter", [NODE_EXPORTER, f"--web.listen-address=127.0.0.1:{port}",
                                             "--no-collector.systemd"], port)


def nginx(run, text):
    """nginx with one worker, which serves these bytes as a file."""
    folder, port = os.path.join(run.folder, "nginx"), free_port()
    os.makedirs(folder)
    for name, content in (("metrics", text), ("conf", NGINX_CONF.format(folder=folder, port=port))):
        with open(os.path.join(folder, name), "w") as f:
            f.write(content)
    return Server("nginx with the same bytes as a file", [NGINX, "-c", f"{folder}/conf"], port)


def scrape(port):
    out = subprocess.check_output([f"{BUILD}/bench/scrape", str(port), "/metrics", str(SCRAPE_MS)], text=True,
                                  preexec_fn=pinned(CLIENT_CPU))
    return [float(x) for x in out.split()]


def scrape_row(run, name, results, limit=None):
    rates = [r[0] for r in results]
    run.row(f"scrapes per second, {name}, {results[-1][4]:.0f} lines, {results[-1][3] / 1024:.0f} KiB",
            f"{median(rates):,.0f}", spread(rates, "{:,.0f}"), f"{limit:,}" if limit else "",
            median(rates) >= limit if limit else None)
    run.row(f"time of a scrape, {name}", f"p50 {median([r[1] for r in results]):.0f} us",
            f"p99 {median([r[2] for r in results]):.0f} us")


def ratio_row(run, what, ours, theirs, form):
    ratio = [a / b for a, b in zip(ours, theirs)]
    run.row(what, form.format(median(ratio)), spread(ratio, form))


def render_row(run):
    rows = [subprocess.check_output([f"{BUILD}/bench/render", str(RENDERINGS)], text=True,
                                    preexec_fn=pinned(CLIENT_CPU)).split() for _ in range(SCRAPE_ROUNDS)]
    us = [float(r[0]) / 1000 for r in rows]
    run.row(f"rendering alone, simulated node, {rows[0][2]} lines", f"{median(us):.0f} us", spread(us, "{:.0f}"))


def bench_tick(run):
    for state, what in (("", "all at work"), ("hang", "every fourth missing, the others waiting for it")):
        rows = [subprocess.check_output([f"{BUILD}/bench/tick", str(TICKS), state], text=True, preexec_fn=pinned(CLIENT_CPU)).split()
                for _ in range(SCRAPE_ROUNDS)]
        us = [float(r[0]) / 1000 for r in rows]
        run.row(f"a tick, 64 processes in 128 communicators of 16 ranks, {what}", f"{median(us):,.0f} us", spread(us, "{:,.0f}"),
                f"{TICK_LIMIT_US:,} us", median(us) <= TICK_LIMIT_US)


def bench_scrape(run):
    ours, others = [], [node_exporter()] if NODE_EXPORTER else []
    with Daemon(DAEMON_CPU) as daemon, fleet(run, SCRAPE_PROCESSES, 0):
        time.sleep(2)
        others += [nginx(run, daemon.get())] if NGINX else []
        for _ in range(SCRAPE_ROUNDS):
            ours.append(scrape(daemon.metrics_port))
            for server in others:
                server.results.append(scrape(server.port))
    if ours[-1][4] < 1000:
        raise RuntimeError("the scrape has fewer than 1,000 sample lines")
    scrape_row(run, "zerneld", ours, 12000)
    for server in others:
        server.stop()
        scrape_row(run, server.name, server.results)
        ratio_row(run, f"sample lines per second, zerneld / {server.name}", [r[0] * r[4] for r in ours],
                  [r[0] * r[4] for r in server.results], "{:.2f}")
    render_row(run)
    absent = [name for name, path in (("node exporter", NODE_EXPORTER), ("nginx", NGINX)) if not path]
    run.note("Scrapes", f"""Each server on one core, one client on another that keeps its connection and asks again at
        once, in turns of {SCRAPE_MS / 1000:.0f} s, {SCRAPE_ROUNDS} of each. Live data of {SCRAPE_PROCESSES} processes;
        every scrape is rendered anew. nginx has one worker, sendfile and its cache of open files, and sends a file that
        is one of our answers: what it does not do is to make the answer. The node exporter collects from /proc and /sys
        at each scrape, so it does other work than we do. {f"Not installed here: {', '.join(absent)}." if absent else ''}""")


# ---- snapshots ----

FAN_CLIENTS, FAN_SNAPSHOTS, FAN_ROUNDS, FAN_INTERVAL_MS = 1000, 15, 3, 250


def fan_out(daemon):
    """p50 and the longest delay in ms, the bytes of a frame, how many were missed, and ms of CPU for each snapshot."""
    with Tool("fanout", daemon.ws_port, FAN_CLIENTS, FAN_SNAPSHOTS, preexec_fn=pinned(CLIENT_CPU)) as tool:
        tool.read()
        before = daemon.cpu_s()
        p50, longest, size, missed = map(float, tool.read().split())
        cpu_ms = (daemon.cpu_s() - before) * 1e3 / (FAN_SNAPSHOTS + missed)
    return p50 / 1e3, longest / 1e3, size, missed, cpu_ms


def bench_snapshots(run):
    options = ["--push-interval-ms", FAN_INTERVAL_MS, "--max-connections", 2 * FAN_CLIENTS,
               "--max-connections-per-peer", 2 * FAN_CLIENTS]
    with Daemon(DAEMON_CPU, *map(str, options)) as daemon, fleet(run, SCRAPE_PROCESSES, 0):
        time.sleep(2)
        p50, longest, size, missed, cpu_ms = zip(*(fan_out(daemon) for _ in range(FAN_ROUNDS)))
    run.row(f"a snapshot whole at the last of {FAN_CLIENTS:,} WebSocket clients, {size[-1] / 1024:.1f} KiB each",
            f"p50 {median(p50):.1f} ms", f"{spread(p50)}; longest {max(longest):.1f}", "20 ms", median(p50) <= 20)
    run.row("snapshots that one of them did not get", f"{sum(missed):.0f} of {FAN_ROUNDS * FAN_SNAPSHOTS + sum(missed):.0f}",
            "", "0", not sum(missed))
    run.row("CPU of the daemon for a snapshot to all of them", f"{median(cpu_ms):.1f} ms",
            f"{spread(cpu_ms)}; {median(cpu_ms) * 1e3 / FAN_CLIENTS:.1f} us per client")
    run.note("Snapshots", f"""The daemon on one core; on the other, one program with {FAN_CLIENTS:,} connections, which reads
        and checks all that comes. From the time in the snapshot, which is cut off to a millisecond, so that up to 1 ms
        too much is shown, until the last client has its last byte. One each {FAN_INTERVAL_MS} ms, {FAN_ROUNDS} times
        {FAN_SNAPSHOTS}. The CPU is all that the daemon used meanwhile.""")


# ---- start and stop ----

START_ROUNDS = 7


def bench_start(run):
    ready, hooked, stopped = [], [], []
    with fleet(run, 8, -1), Tool("launch", run.cuda) as target:
        for _ in range(START_ROUNDS):
            start = time.monotonic()
            with Daemon() as daemon:
                target.ask(f"wait {STEPPED} 1")
                hooked.append(time.monotonic() - start)
                ready.append(daemon.ready_s)
                time.sleep(0.3)
                daemon.stop()
                stopped.append(daemon.stop_s)
            target.ask(f"wait {STEPPED} 0")
    for what, values in (("start to serving", ready), ("start to probes in libraries mapped before", hooked),
                         ("SIGTERM to exit", stopped)):
        run.row(what, f"{median(values) * 1e3:.0f} ms", spread([v * 1e3 for v in values], "{:.0f}"), "1000 ms",
                max(values) < 1)
    run.note("Start and stop", f"""{START_ROUNDS} times, with both libraries mapped by 8 processes. Calibration is part
        of the start.""")


# ---- memory ----

def bench_memory(run):
    text = subprocess.run([DAEMON, "--check"], capture_output=True, text=True).stdout
    tables = float(re.search(r"tables\s+([\d.]+) MiB", text)[1])
    run.row("kernel memory of all tables", f"{tables:.1f} MiB", "", "40 MiB", tables <= 40)
    with Daemon() as daemon:
        time.sleep(2)
        daemon.get(), daemon.get("/json")
        idle, idle_tables = daemon.resident_mb()
        with fleet(run, 256, 0):
            time.sleep(4)
            text = daemon.get()
            daemon.get("/json")
            used = int(re.search(r'zernel_table_entries{table="histograms"} (\d+)', text)[1])
            lines = sum(not line.startswith("#") for line in text.splitlines())
            busy, busy_tables = daemon.resident_mb()
    run.row("resident memory, idle", f"{idle:.1f} MiB", f"{idle_tables:.1f} of it kernel tables", "6 MiB", idle <= 6)
    run.row("resident memory, 256 processes on 8 GPUs", f"{busy:.1f} MiB",
            f"{busy_tables:.1f} of it kernel tables; {used} histograms, {lines} lines", "16 MiB", busy <= 16)
    run.note("Memory", """Resident memory after a scrape and a snapshot. It counts the pages of the kernel tables that
        the daemon has mapped, 4 KiB for each process and each histogram, although they are the same memory as the tables
        above. A process that has run for 10 minutes takes up to 16 KiB more, for what is usual for it.""")


# ---- CPU of the daemon ----

IDLE_S, IDLE_TRIES, LOAD_S, SCRAPE_EVERY_S = 60, 3, 20, 15


class Clients:
    """WebSocket clients that read and drop what they are sent."""

    def __init__(self, port, count):
        self.sockets = [self.join(port) for _ in range(count)]
        self.stopped, self.bytes = False, 0
        self.thread = threading.Thread(target=self.drain)
        self.thread.start()

    @staticmethod
    def join(port):
        s = socket.create_connection(("127.0.0.1", port))
        s.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                  b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: emVybmVsIGJlbmNobWFyaw==\r\n\r\n")
        if b" 101 " not in s.recv(4096).split(b"\r\n")[0]:
            raise RuntimeError("no WebSocket")
        return s

    def drain(self):
        while not self.stopped:
            for s in select.select(self.sockets, [], [], 0.2)[0]:
                self.bytes += len(s.recv(1 << 16))

    def close(self):
        self.stopped = True
        self.thread.join()
        for s in self.sockets:
            s.close()


def cpu_share(daemon, seconds):
    start, before = time.monotonic(), daemon.cpu_s()
    while time.monotonic() - start < seconds:
        time.sleep(min(SCRAPE_EVERY_S, seconds))
        daemon.get()
    return (daemon.cpu_s() - before) / (time.monotonic() - start) * 100


def launches_of(daemon):
    return sum(float(line.rsplit(" ", 1)[1]) for line in daemon.get().splitlines()
               if line.startswith("zernel_cuda_launches_total{"))


def hits_of(daemon):
    return [line for line in daemon.get().splitlines() if line.startswith("zernel_probe_hits_total")]


def idle_share(daemon, clients):
    """Share of a core and bytes sent; measured again where others used the libraries meanwhile."""
    for _ in range(IDLE_TRIES):
        hits, sent = hits_of(daemon), clients.bytes
        share, sent = cpu_share(daemon, IDLE_S), clients.bytes - sent
        if hits_of(daemon) == hits:
            return share, f"{sent / 1024 / IDLE_S:.1f} KiB/s sent"
    return share, "not idle: others used the libraries"


def bench_cpu(run):
    with Daemon() as daemon:
        clients = Clients(daemon.ws_port, 10)
        time.sleep(2)
        idle, sent = idle_share(daemon, clients)
        with fleet(run, 8, 10000):
            time.sleep(2)
            start, before = time.monotonic(), launches_of(daemon)
            load = cpu_share(daemon, LOAD_S)
            rate = (launches_of(daemon) - before) / (time.monotonic() - start) / 8
        clients.close()
    run.row("CPU of the daemon, idle", f"{idle:.3f} % of a core", sent, "0.5 %", idle <= 0.5)
    run.row("CPU of the daemon, 8 processes launching", f"{load:.3f} % of a core", f"{rate:,.0f} launches/s each",
            "2 %", load <= 2)
    run.note("CPU of the daemon", f"""Run time of its threads as the scheduler counts it, over {IDLE_S} s and {LOAD_S} s,
        with 10 WebSocket clients and a scrape every {SCRAPE_EVERY_S} s. What the probes cost is spent by the processes:
        see the cost of a call. The processes are asked for 10,000 launches a second each; beside it stands what they
        reached on {os.cpu_count()} cores.""")


# ---- a training loop ----

LOOP_ROUNDS, LOOP_STEPS, SETTLE_S = 30, 200, 1
SHARE_ROUNDS, SHARE_STEPS = 5, 400
PYTHON = "/usr/bin/python3"  # Debian's, which Debian's PyTorch is for


class Loop(Tool):
    def __init__(self, library):
        self.process = subprocess.Popen([PYTHON, "tests/bench/torch_loop.py", library], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, bufsize=1, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def steps(self):
        """ms that a step took, its ms on a CPU, and its context switches. What started or ended before has settled by then."""
        time.sleep(SETTLE_S)
        self.ask("20")
        took, busy, switches = map(int, self.ask(str(LOOP_STEPS)).split())
        return took / 1e6 / LOOP_STEPS, busy / 1e6 / LOOP_STEPS, 1e9 * switches / took


def followed_steps(loop):
    """With the daemon, once it says where the loop's time goes."""
    with Daemon() as daemon:
        while f'zernel_step_stall_ratio{{pid="{loop.process.pid}"' not in daemon.get():
            loop.ask("10")
        return loop.steps()


def loop_turns(loop):
    """What steps() tells without the daemon, and with it. Each turn with it lies between two without, and is compared with
    their mean."""
    loop.steps()
    off, on = [loop.steps()], []
    for _ in range(LOOP_ROUNDS):
        on.append(followed_steps(loop))
        off.append(loop.steps())
    return [tuple((a + b) / 2 for a, b in zip(*pair)) for pair in zip(off, off[1:])], on


def median_between(values):
    """The two values between which the true median lies 95 times of 100, if the turns are independent."""
    ordered, n, out, chance = sorted(values), len(values), 0, 0.5 ** len(values)
    while chance <= 0.025:
        out += 1
        chance += math.comb(n, out) * 0.5 ** n
    return [ordered[max(out - 1, 0)], ordered[n - max(out, 1)]]


def programs_ns():
    """{id: ns that this BPF program has run for}"""
    shown = json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show"], env={**os.environ, "PATH": SYSTEM_PATH}))
    return {p["id"]: p.get("run_time_ns", 0) for p in shown}


def programs_shares(loop):
    """Which part of the loop's time on a CPU the daemon's programs ran for, by the kernel's own account of them."""
    shares, others = [], programs_ns()
    subprocess.run(["sysctl", "-qw", "kernel.bpf_stats_enabled=1"], check=True)
    try:
        with Daemon() as daemon:
            while f'zernel_step_stall_ratio{{pid="{loop.process.pid}"' not in daemon.get():
                loop.ask("10")
            for _ in range(SHARE_ROUNDS):
                before = programs_ns()
                busy = int(loop.ask(str(SHARE_STEPS)).split()[1])
                ran = sum(ns - before.get(p, 0) for p, ns in programs_ns().items() if p not in others)
                shares.append(100 * ran / busy)
    finally:
        subprocess.run(["sysctl", "-qw", "kernel.bpf_stats_enabled=0"], check=True)
    return shares


def bench_loop(run):
    if subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        run.note("A training loop", "Not measured: no PyTorch is installed here.")
        return
    with Loop(run.cuda) as loop:
        turns = loop_turns(loop)
        shares = programs_shares(loop)
    for k, (what, form, limit) in enumerate((("time of a step of a PyTorch loop", "{:.2f} ms", 1.01),
                                             ("CPU of a step of it and its worker", "{:.2f} ms", 1.01),
                                             ("its context switches per second", "{:,.0f}", None))):
        off, on = ([turn[k] for turn in side] for side in turns)
        ratio = [b / a for a, b in zip(off, on)]
        run.row(f"{what}, without zerneld", form.format(median(off)), spread(off, form))
        run.row(f"{what}, with it", form.format(median(on)), spread(on, form))
        run.row(f"**{what}, with / without**", f"{median(ratio):.4f}", "the median lies between " +
                " and ".join(f"{v:.3f}" for v in median_between(ratio)), f"{limit:.2f}" if limit else "",
                limit and median(ratio) <= limit)
    run.row("**run time of our programs / CPU of the loop**", f"{median(shares):.2f} %", spread(shares, "{:.2f}"), "1 %",
            median(shares) <= 1)
    run.note("A training loop", f"""PyTorch with one worker of its DataLoader on {os.cpu_count()} cores, {LOOP_STEPS} steps with
        the daemon between two such turns without it, {LOOP_ROUNDS} times; the ratio is taken turn by turn, and its median lies
        between the two figures beside it in 95 of 100 such runs. A step computes, takes a
        batch, and makes one launch, so that its context switches and waits are followed. A trap costs several us on this
        kind of machine; what more launches add is told by the cost of a call. The last row does not depend on how fast the
        machine is at the moment: what the kernel counts for our programs (kernel.bpf_stats_enabled), anywhere on the node, in
        {SHARE_ROUNDS} times {SHARE_STEPS} steps. It has the programs whole, but not the kernel's way to them, as the trap of a
        probe.""")


# ---- size, mapping ----

MAPPINGS = 20


def bench_mapping(run):
    size = os.path.getsize(DAEMON) / 1024 / 1024
    run.row("the stripped, static binary", f"{size:.2f} MiB", "", "2 MiB", size <= 2)
    ms = []
    with Daemon():
        time.sleep(0.5)
        for i in range(MAPPINGS):
            library = run.copy("libcuda.so.1", f"copy{i}")
            ms.append(int(subprocess.check_output([f"{BUILD}/bench/mapping", library], text=True)) / 1000)
            shutil.rmtree(os.path.dirname(library))
    run.row("mapping of a new library to its probes", f"{median(ms):.0f} ms", spread(ms, "{:.0f}"), "1000 ms",
            max(ms) < 1000)
    run.note("Mapping", f"""{MAPPINGS} processes, each mapping a copy of libcuda that was never seen before, and looking
        for the breakpoint in its own code from before dlopen().""")


# ---- a crowded node ----

CROWD_IDLE, CROWD_RATE, CROWD_S = 10000, 100, 20
CROWD_SETTLE_S, CROWD_MAPPINGS = 5, 10


def finder_s(daemon):
    """CPU time of the threads beside the loop: what looks for libraries, and those that help it."""
    total = 0
    for thread in os.listdir(f"/proc/{daemon.pid}/task"):
        if int(thread) != daemon.pid:
            with open(f"/proc/{daemon.pid}/task/{thread}/schedstat") as f:
                total += int(f.read().split()[0])
    return total / 1e9


def finder_share(daemon):
    start, before = time.monotonic(), finder_s(daemon)
    time.sleep(CROWD_S)
    return 100 * (finder_s(daemon) - before) / (time.monotonic() - start)


def hooked_ms(run, name):
    library = run.copy("libcuda.so.1", name)
    try:
        return int(subprocess.check_output([f"{BUILD}/bench/mapping", library], text=True)) / 1000
    finally:
        shutil.rmtree(os.path.dirname(library))


def bench_crowd(run):
    with Tool("crowd", CROWD_IDLE, CROWD_RATE, run.cuda) as crowd:
        crowd.read()
        once_ms = median([int(crowd.ask("read")) / 1e6 for _ in range(5)])
        with Daemon() as daemon:
            time.sleep(CROWD_SETTLE_S)
            begun, started = time.monotonic(), int(crowd.ask(""))
            share = finder_share(daemon)
            rate = (int(crowd.ask("")) - started) / (time.monotonic() - begun)
            ms = [hooked_ms(run, f"crowd{i}") for i in range(CROWD_MAPPINGS)]
    crowded = f"{CROWD_IDLE:,} processes, {rate:.0f} new ones a second"
    run.row(f"CPU of the finder ({crowded})", f"{share:.2f} % of a core",
            f"/proc read once each {once_ms / share / 10:.0f} s; that takes {once_ms:,.0f} ms", "5 %", share <= 5)
    run.row("mapping of a new library to its probes, meanwhile", f"{median(ms):.0f} ms", spread(ms, "{:.0f}"), "1000 ms",
            max(ms) < 1000)
    run.note("A crowded node", f"""{CROWD_IDLE:,} small processes that sleep. Of {CROWD_RATE} new ones a second one half maps
        libcuda and ends at once, the other half executes `true`. CPU is what the scheduler counts for the threads
        that look for libraries, over {CROWD_S} s; beside it, how often one could read all of /proc/PID/maps for as much.
        Then {CROWD_MAPPINGS} processes map a copy that was never seen before, as above.""")


# ---- bias ----

BIAS_CASES = ((STEPPED, 0, 5000), (EMULATED, 0, 20000), (EMULATED, 10000, 5000), (EMULATED, 100000, 2000))
SERIES = {EMULATED: ("zernel_cuda_launch_latency_seconds", []),
          STEPPED: ("zernel_cuda_sync_seconds", ['call="stream_synchronize"'])}


def bias_truth(target, function, spin_ns, calls):
    """Mean, p50 and p99 without a probe; a call of a few ns cannot be timed alone."""
    mean = float(target.ask(f"time {function} 1 {calls}"))
    if not spin_ns:
        return mean, mean, mean
    p50, p99 = map(float, target.ask(f"sample {function} {calls}").split())
    return mean, p50, p99


def bias_case(run, function, spin_ns, calls):
    with Tool("launch", run.cuda) as target:
        target.ask(f"set launch_ns {spin_ns}")
        truth = bias_truth(target, function, spin_ns, calls)
        with Daemon() as daemon:
            target.ask(f"wait {function} 1")
            target.ask(f"time {function} 1 {calls}")
            name, labels = SERIES[function]
            labels = labels + [f'pid="{target.process.pid}"']
            total, count = daemon.sample(name + "_sum", labels), daemon.sample(name + "_count", labels)
            p50, p99 = (daemon.sample(name, labels + [f'quantile="{q}"']) for q in ("0.5", "0.99"))
        target.ask(f"wait {function} 0")
    return truth, (total / count * 1e9, p50 * 1e9, p99 * 1e9)


def bench_bias(run):
    for function, spin_ns, calls in BIAS_CASES:
        truth, told = bias_case(run, function, spin_ns, calls)
        what = f"`{function}`, spin of {spin_ns // 1000} us" if spin_ns else f"`{function}`, returns at once"
        run.row(f"duration told / true ({what})", f"p50 {told[1]:,.0f} / {truth[1]:,.0f} ns",
                f"mean {told[0]:,.0f} / {truth[0]:,.0f}, p99 {told[2]:,.0f} / {truth[2]:,.0f}")
    run.note("Bias", """What the daemon tells about a call beside what the caller measured without any probe, in the same
        process. The daemon takes out the bias that it calibrated at its start; what is left of it is the machine's
        scatter around that median. A quantile may be off by 3.2 %, and reads as 64 ns below 128 ns.""")


# ---- the page ----

BENCHES = (("cost of a call", bench_launch), ("cost of a system call", bench_kernel), ("recording", bench_record), ("scrapes", bench_scrape),
           ("snapshots", bench_snapshots),
           ("a training loop", bench_loop), ("start and stop", bench_start),
           ("memory", bench_memory), ("size and mapping", bench_mapping), ("a crowded node", bench_crowd),
           ("bias", bench_bias), ("CPU of the daemon", bench_cpu), ("ticks", bench_tick))


def cpu_model():
    with open("/proc/cpuinfo") as f:
        return re.search(r"model name\s*: (.*)|CPU part\s*: (.*)", f.read())[0].split(":")[1].strip()


def other_daemons():
    """How many there are, without those that have ended and were not waited for."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                name, state = re.search(r"\((.*)\) (.)", f.read()).groups()
        except OSError:
            continue
        count += name == "zerneld" and state != "Z"
    return count


def page(run, load_before):
    version = subprocess.check_output([DAEMON, "--version"], text=True).split()[1]
    lines = ["# Benchmarks", "", "Written by `make bench`; do not edit. Comparisons are ratios measured in turns within one run;",
             "a spread is the lowest and the highest of the turns. Absolute times depend on the machine.", "",
             f"{time.strftime('%Y-%m-%d')}, zerneld {version}, Linux {platform.release()}, {cpu_model()}, "
             f"{os.cpu_count()} cores, load average {load_before:.2f} before and {os.getloadavg()[0]:.2f} after.", "",
             "| what | measured | spread | limit | within |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in run.rows]
    lines += ["", "## How it was measured", ""]
    lines += [f"- **{title}.** {text}" for title, text in run.notes]
    return "\n".join(lines) + "\n"


def chosen(parts):
    unknown = [part for part in parts if not any(name.startswith(part) for name, _ in BENCHES)]
    if unknown:
        sys.exit(f"bench.py: no part {unknown[0]!r}; there are: {', '.join(name for name, _ in BENCHES)}")
    return [bench for bench in BENCHES if not parts or bench[0].startswith(tuple(parts))]


def main():
    if len(sys.argv) < 2 or os.geteuid():
        sys.exit("usage: bench.py OUTPUT [PART...], as root")
    benches = chosen(sys.argv[2:])
    if other_daemons():
        sys.exit("bench.py: another zerneld runs and would hook the same libraries; stop it first")
    if os.cpu_count() < 2:
        sys.exit("bench.py: needs two cores")
    run, load_before = Run(), os.getloadavg()[0]
    try:
        for name, bench in benches:
            print(f"{name}:", flush=True)
            start = time.monotonic()
            bench(run)
            print(f"  ({time.monotonic() - start:.0f} s)")
        if benches == list(BENCHES):
            with open(sys.argv[1], "w") as f:
                f.write(page(run, load_before))
    finally:
        shutil.rmtree(run.folder)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
