# SPDX-License-Identifier: GPL-2.0
"""What the daemon takes of a node: time to start and stop, memory, CPU, mappings, a crowd of processes."""
import os
import re
import select
import shutil
import socket
import subprocess
import threading
import time

from common import BUILD, DAEMON, Daemon, STEPPED, Tool, fleet, median, spread

# ---- start and stop ----

START_ROUNDS = 7


def bench_start(run):
    answered, ready, hooked, stopped = [], [], [], []
    with fleet(run, 8, -1), Tool("launch", run.cuda) as target:
        for _ in range(START_ROUNDS):
            start = time.monotonic()
            with Daemon() as daemon:
                target.ask(f"wait {STEPPED} 1")
                hooked.append(time.monotonic() - start)
                answered.append(daemon.answered_s)
                ready.append(daemon.ready_s)
                time.sleep(0.3)
                daemon.stop()
                stopped.append(daemon.stop_s)
            target.ask(f"wait {STEPPED} 0")
    for what, values, limit_s in (("start to the first answer", answered, 0.3),
                                  ("start to all families", ready, 0.8),
                                  ("start to probes in libraries mapped before", hooked, 1),
                                  ("SIGTERM to exit", stopped, 0.3)):
        run.row(what, f"{median(values) * 1e3:.0f} ms", spread([v * 1e3 for v in values], "{:.0f}"),
                f"{limit_s * 1e3:.0f} ms", median(values) <= limit_s)
    run.note("Start and stop", f"""{START_ROUNDS} times, with both libraries mapped by 8 processes. Calibration is part
        of the start.""")


# ---- memory ----


def bench_memory(run):
    text = subprocess.run([DAEMON, "--check"], capture_output=True, text=True).stdout
    tables, full = map(float, re.search(r"tables\s+([\d.]+) MiB in the kernel, ([\d.]+)", text).groups())
    run.row("kernel memory of all tables when they are full", f"{full:.1f} MiB", f"{tables:.1f} at the start", "40 MiB",
            full <= 40)
    with Daemon() as daemon:
        time.sleep(2)
        daemon.get(), daemon.get("/json")
        idle, idle_tables, program = daemon.resident_mb()
        with fleet(run, 256, 0):
            time.sleep(4)
            text = daemon.get()
            daemon.get("/json")
            used = int(re.search(r'zernel_table_entries{table="histograms"} (\d+)', text)[1])
            lines = sum(not line.startswith("#") for line in text.splitlines())
            busy, busy_tables, _ = daemon.resident_mb()
        with fleet(run, 1024, 0):
            time.sleep(8)
            daemon.get(), daemon.get("/json")
            most, most_tables, _ = daemon.resident_mb()
    run.row("resident memory, idle, without kernel tables", f"{idle - idle_tables:.1f} MiB",
            f"{program:.1f} of it of the program's file; {idle_tables:.1f} of kernel tables beside it", "3 MiB",
            idle - idle_tables <= 3)
    run.row("resident memory, 256 processes on 8 GPUs", f"{busy:.1f} MiB",
            f"{busy_tables:.1f} of it kernel tables; {used} histograms, {lines} lines", "16 MiB", busy <= 16)
    run.row("resident memory, 1,024 processes on 8 GPUs", f"{most:.1f} MiB", f"{most_tables:.1f} of it kernel tables",
            "48 MiB", most <= 48)
    run.note("Memory", """Resident memory after a scrape and a snapshot. Of the program's file the kernel maps what
        lies in memory around each page that is used, here within 32 KiB. It counts the pages of the kernel tables
        that the daemon has mapped, 4 KiB for each process and 2 KiB for each histogram, although they are the same
        memory as the tables above. A process that has run for 10 minutes takes up to 16 KiB more, for what is usual
        for it.""")


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
    run.note("CPU of the daemon",
        f"""Run time of its threads as the scheduler counts it, over {IDLE_S} s and {LOAD_S} s,
        with 10 WebSocket clients and a scrape every {SCRAPE_EVERY_S} s. What the probes cost is spent by the processes:
        see the cost of a call. The processes are asked for 10,000 launches a second each; beside it stands what they
        reached on {os.cpu_count()} cores.""")


# ---- size, mapping ----

MAPPINGS = 20
BINARY_MB = 2.6


def bench_mapping(run):
    size = os.path.getsize(DAEMON) / 1e6
    run.row("the stripped, static binary", f"{size:.2f} MB", "", f"{BINARY_MB} MB", size <= BINARY_MB)
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
    run.row("mapping of a new library to its probes, meanwhile", f"{median(ms):.0f} ms", spread(ms, "{:.0f}"),
            "1000 ms",
            max(ms) < 1000)
    run.note("A crowded node",
        f"""{CROWD_IDLE:,} small processes that sleep. Of {CROWD_RATE} new ones a second one half maps libcuda and
        ends at once, the other half executes `true`. CPU is what the scheduler counts for the threads that look for
        libraries, over {CROWD_S} s; beside it, how often one could read all of /proc/PID/maps for as much. Then
        {CROWD_MAPPINGS} processes map a copy that was never seen before, as above.""")
