# SPDX-License-Identifier: GPL-2.0
"""What the parts of the benchmark share: a run with its table, small programs that answer, the daemon under test."""
import fcntl
import math
import os
import re
import shutil
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
LET_S, OTHERS_S = 0.1, 600
SETTLE_S = 1  # what started or ended before has settled by then
ALONE = "/run/lock/zernel-tests"  # that of tests/e2e/harness.py
EMULATED, STEPPED = "cuLaunchKernel", "cuStreamSynchronize"  # by their first instructions, which are looked at
SYSTEM_PATH = os.environ.get("PATH", "") + ":/usr/sbin"
NODE_EXPORTER, NGINX = (shutil.which(name, path=SYSTEM_PATH) for name in ("prometheus-node-exporter", "nginx"))


def other_daemons():
    """How many there are that hook anything: without simulated ones, and those that have ended and were not waited
    for."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                name, state = re.search(r"\((.*)\) (.)", f.read()).groups()
            with open(f"/proc/{pid}/cmdline") as f:
                simulated = "--simulate" in f.read().split("\0")
        except OSError:
            continue
        count += name == "zerneld" and state != "Z" and not simulated
    return count


class Run:
    """What all rows share: the folder of this run and the table as it grows."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="zernel-bench-")
        self.cuda = self.copy("libcuda.so.1")
        self.nccl = self.copy("libnccl.so.2")
        self.rows, self.notes = [], []
        self.lock = os.open(ALONE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def alone(self):
        """No live test runs on this machine from here on, of whichever checkout: its daemon would hook what is
        measured. One that several tests share is waited for."""
        until = time.monotonic() + OTHERS_S
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        while other_daemons():
            fcntl.flock(self.lock, fcntl.LOCK_UN)
            if time.monotonic() > until:
                sys.exit("bench.py: another zerneld runs and would hook the same libraries; stop it first")
            time.sleep(0.2)
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    def let_others(self):
        """Those that wait for their turn have it now."""
        fcntl.flock(self.lock, fcntl.LOCK_UN)
        time.sleep(LET_S)
        self.alone()

    def copy(self, name, to=""):
        folder = os.path.join(self.folder, to)
        os.makedirs(folder, exist_ok=True)
        return shutil.copy(f"{BUILD}/test/{name}", folder)

    def row(self, what, measured, spread="", limit="", good=None):
        verdict = {None: "", True: "yes", False: "**no**"}[good]
        self.rows.append((what, measured, spread, limit, verdict))
        print(f"  {what}: {measured} {'(' + spread + ')' if spread else ''} {'limit ' + limit if limit else ''} "
              f"{verdict}")

    def note(self, title, text):
        self.notes.append((title, " ".join(text.split())))


def median(values):
    return statistics.median(values)


def median_between(values):
    """The two values between which the true median lies 95 times of 100, if the turns are independent."""
    ordered, n, out, chance = sorted(values), len(values), 0, 0.5 ** len(values)
    while chance <= 0.025:
        out += 1
        chance += math.comb(n, out) * 0.5 ** n
    return [ordered[max(out - 1, 0)], ordered[n - max(out, 1)]]


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
    """The daemon under test; `answered_s`, `ready_s` and `stop_s` are how long it took to answer first,
    to have its probes on, and to end."""

    def __init__(self, cpu=None, *options):
        start = time.monotonic()
        self.process = subprocess.Popen([DAEMON, "--metrics-port", "0", "--ws-port", "0", *NO_FILES, *options],
                                        text=True,
                                        stderr=subprocess.PIPE, preexec_fn=None if cpu is None else pinned(cpu))
        line = ""
        while "ready:" not in line:
            line = self.process.stderr.readline()
            if not line:
                raise RuntimeError("the daemon ended at its start")
            if "serving:" in line:
                self.answered_s = self.first_answer(*re.search(r"ports (\d+)", line).groups()) - start
        self.ready_s = time.monotonic() - start
        self.metrics_port, self.ws_port = map(int, re.findall(r"port (\d+)", line))
        self.pid = self.process.pid
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    @staticmethod
    def first_answer(port):
        """When /health answered, whatever it says."""
        with socket.create_connection(("127.0.0.1", int(port))) as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if not s.recv(4096).startswith(b"HTTP/1.1 "):
                raise RuntimeError("no answer")
        return time.monotonic()

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
        """All of it, and what of it are kernel tables, and pages of the program's file."""
        with open(f"/proc/{self.pid}/smaps") as f:
            parts = re.findall(r"^[0-9a-f]+-[0-9a-f]+ (.*)$(?:\n\w+:.*$)*?\nRss:\s+(\d+) kB", f.read(), re.M)
        sizes = [(name, int(kb) / 1024) for name, kb in parts]
        return (sum(mb for _, mb in sizes), sum(mb for name, mb in sizes if "bpf-map" in name),
                sum(mb for name, mb in sizes if "r-xp" in name or "r--p" in name))

    def cpu_s(self):
        threads = os.listdir(f"/proc/{self.pid}/task")
        total = 0
        for thread in threads:
            with open(f"/proc/{self.pid}/task/{thread}/schedstat") as f:
                total += int(f.read().split()[0])
        return total / 1e9
