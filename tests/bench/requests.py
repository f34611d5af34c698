# SPDX-License-Identifier: GPL-2.0
"""What it costs a server that its requests are counted, and another one that they are not."""
import json
import os
import re
import shutil
import subprocess
import time

from calls import WHOLE
from common import BUILD, CLIENT_CPU, DAEMON_CPU, Daemon, NGINX, SETTLE_S, SYSTEM_PATH, Tool, median, median_between, \
    pinned, spread
from serving import free_port

FAMILIES = ("--probes", "gpu_mem,cuda_trace,requests")  # the first ones tell who uses a GPU
ROUNDS, BLOCKS = 9, 101
# what, how often in a block, sends and receives of one, most ns that it may take more than with empty programs
KINDS = (("request", "a request and its answer", 50, 2, 3000), ("event", "an event of a streamed answer", 200, 1, 1000),
         ("receive", "a part of a request's body", 200, 1, 400))
OTHER_LIMIT_NS = 150  # of a send or a receive of a process that is not watched
NGINX_ROUNDS, NGINX_S, NGINX_CONNECTIONS = 9, 2, 16
BUDGET_TURNS = 3  # until its requests are within their budget
WATCHED_LEAST, OTHER_LEAST = 0.9, 0.97  # of the rate without the daemon
NOISE_MOST = 0.05  # two turns without it differ by so much: more, and the rates say nothing
WRK, BPFTOOL = (shutil.which(name, path=SYSTEM_PATH) for name in ("wrk", "bpftool"))
STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"


def certain(values, form):
    low, high = median_between(values)
    return f"the median lies between {form.format(low)} and {form.format(high)}; " + spread(values, form)


def watched(daemon, *pids):
    """Waits until the daemon looks at these."""
    for _ in range(200):
        text = daemon.get()
        if all(re.search(rf'zernel_service_info{{[^}}]*pid="{pid}"', text) for pid in pids):
            return
        time.sleep(0.1)
    raise RuntimeError(f"not watched: {pids}")


def counted(daemon, pid):
    """Requests of one server that have ended, and its events."""
    text = daemon.get()
    return [sum(float(value) for value in re.findall(rf'^{name}{{pid="{pid}".*}} (\S+)$', text, re.M))
            for name in ("zernel_requests_total", "zernel_request_events_total")]


# ---- a send and a receive ----

def blocks_ns(tool):
    return {kind: float(tool.ask(f"time {kind} {BLOCKS} {calls}")) for kind, _, calls, _, _ in KINDS}


def made():
    """What blocks_ns() makes: requests, and events."""
    calls = {kind: calls for kind, _, calls, _, _ in KINDS}
    return [BLOCKS * (calls["request"] + 2), BLOCKS * calls["event"]]


def calls_round(servers):
    """ns of each kind: (who, with what) -> kind -> ns."""
    found = {(who, "off"): blocks_ns(tool) for who, tool in servers.items()}
    with Tool("attach_floor", f"{BUILD}/bench/floor_requests.bpf.o") as programs:
        programs.read()
        found |= {(who, "empty"): blocks_ns(tool) for who, tool in servers.items()}
    with Daemon(None, *FAMILIES, *WHOLE) as daemon:
        pid = servers["watched"].process.pid
        watched(daemon, pid)
        time.sleep(SETTLE_S)
        found |= {(who, "ours"): blocks_ns(tool) for who, tool in servers.items()}
        if counted(daemon, pid) != made() or counted(daemon, servers["other"].process.pid) != [0, 0]:
            raise RuntimeError(f"not what was made: {counted(daemon, pid)}, not {made()}")
    return found


def statistics_ns(daemon, tool):
    """ns of each kind in our programs, by the kernel's own statistics."""
    def sums():
        found = json.loads(subprocess.check_output([BPFTOOL, "prog", "show", "--json"]))
        return sum(p.get("run_time_ns", 0) for p in found
            if p.get("name") in ("request_send", "request_receive"[:15]))
    found = {}
    for kind, _, calls, _, _ in KINDS:
        before = sums()
        tool.ask(f"time {kind} {BLOCKS} {calls}")
        found[kind] = (sums() - before) / (BLOCKS * calls)
    return found


def calls_rows(run, rounds):
    for kind, what, _, parts, limit in KINDS:
        off = [r["watched", "off"][kind] for r in rounds]
        run.row(f"{what}, without zerneld", f"{median(off):,.0f} ns", spread(off, "{:,.0f}"))
        empty = [r["watched", "empty"][kind] - r["watched", "off"][kind] for r in rounds]
        run.row(f"{what}, added by empty programs", f"{median(empty):,.0f} ns", certain(empty, "{:,.0f}"))
        for who, text, most in (("other", "to a server that is not watched", parts * OTHER_LIMIT_NS),
                                ("watched", "to one that is", limit)):
            added = [r[who, "ours"][kind] - r[who, "empty"][kind] for r in rounds]
            run.row(f"**{what}, added {text} beyond that**", f"{median(added):,.0f} ns",
                certain(added, "{:,.0f}"), f"{most:,} ns", median(added) <= most)


def statistics_rows(run, server):
    if not BPFTOOL:
        return
    with open(STATISTICS) as file:
        before = file.read()
    try:
        with Daemon(None, *FAMILIES, *WHOLE) as daemon:
            watched(daemon, server.process.pid)
            with open(STATISTICS, "w") as file:
                file.write("1")
            found = [statistics_ns(daemon, server) for _ in range(3)]
    finally:
        with open(STATISTICS, "w") as file:
            file.write(before)
    for kind, what, *_ in KINDS:
        ns = [f[kind] for f in found]
        run.row(f"{what}, in our programs, by the kernel's statistics", f"{median(ns):,.0f} ns", spread(ns, "{:,.0f}"))


# ---- nginx ----

CONF = """daemon off; user root; pid {folder}/pid; error_log {folder}/log;
worker_processes 1; worker_cpu_affinity {cpu};
events {{ worker_connections 256; }}
http {{
    access_log off; keepalive_requests 1000000000;
    server {{ listen 127.0.0.1:{port}; location / {{ return 200 "{text}"; }} }}
}}
"""


class Nginx:
    """One worker, on the daemon's core; with a library, beside a process that uses a GPU."""

    def __init__(self, run, name, library):
        folder, self.port = os.path.join(run.folder, name), free_port()
        os.makedirs(folder)
        with open(f"{folder}/conf", "w") as f:
            f.write(CONF.format(folder=folder, port=self.port, cpu=f"{1 << DAEMON_CPU:b}", text=100 * "x"))
        self.process = subprocess.Popen([f"{BUILD}/bench/requests", library, NGINX, "-c", f"{folder}/conf"],
            stderr=subprocess.DEVNULL, start_new_session=True)
        for _ in range(100):
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
                pids = [pid for pid in file.read().split() if self.is_worker(pid)]
            if pids:
                self.worker = int(pids[0])
                return
            time.sleep(0.05)
        raise RuntimeError("nginx does not start")

    @staticmethod
    def is_worker(pid):
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().startswith("nginx: worker")

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def cpu_ns(self):
        with open(f"/proc/{self.worker}/schedstat") as file:
            return int(file.read().split()[0])

    def turn(self):
        """Requests a second, and ns of CPU for each; how many there were."""
        before = self.cpu_ns()
        text = subprocess.check_output([WRK, "-t1", f"-c{NGINX_CONNECTIONS}", f"-d{NGINX_S}s",
            f"http://127.0.0.1:{self.port}/"], text=True, preexec_fn=pinned(CLIENT_CPU))
        requests = int(re.search(r"(\d+) requests in", text)[1])
        return float(re.search(r"Requests/sec:\s*(\S+)", text)[1]), (self.cpu_ns() - before) / requests, requests


def nginx_round(servers, options):
    """Without the daemon, with it, and without: {who: (before, with, after)}."""
    before = {who: s.turn() for who, s in servers.items()}
    with Daemon(CLIENT_CPU, *options) as daemon:
        watched(daemon, servers["watched"].worker)
        time.sleep(SETTLE_S)
        for _ in range(BUDGET_TURNS):
            servers["watched"].turn()
        before_ours = counted(daemon, servers["watched"].worker)[0]
        ours = {who: s.turn() for who, s in servers.items()}
        seen = counted(daemon, servers["watched"].worker)[0] - before_ours
    if not ours["watched"][2] <= seen <= ours["watched"][2] + NGINX_CONNECTIONS:
        raise RuntimeError(f"{seen} requests of nginx were counted, of {ours['watched'][2]}")
    after = {who: s.turn() for who, s in servers.items()}
    return {who: (before[who], ours[who], after[who]) for who in servers}


def nginx_rows(run, rounds, families, limited):
    for who, text, least in (("watched", "whose requests are counted", WATCHED_LEAST),
                             ("other", "that is not watched", OTHER_LEAST)):
        rate, ns = ([[turn[i] for turn in r[who]] for r in rounds] for i in (0, 1))
        ratio = [on / ((a + b) / 2) for a, on, b in rate]
        noise = [b / a for a, _, b in rate]
        added = [on - (a + b) / 2 for a, on, b in ns]
        run.row(f"requests a second of nginx {text}, {families}", f"{median([r[1] for r in rate]):,.0f}",
            f"without zerneld {median([(r[0] + r[2]) / 2 for r in rate]):,.0f}")
        quiet = median([abs(n - 1) for n in noise]) <= NOISE_MOST
        told = f"; without / without: {spread(noise, '{:.3f}')}" + ("" if quiet else ", which says nothing")
        run.row(f"**with / without zerneld, of nginx {text}, {families}**", f"{median(ratio):.3f}",
            certain(ratio, "{:.3f}") + told, f"{least}" if limited else "",
            median(ratio) >= least if limited and quiet else None)
        run.row(f"CPU of nginx for a request, added, {text}, {families}", f"{median(added):,.0f} ns",
            certain(added, "{:,.0f}") + f"; of {median([(r[0] + r[2]) / 2 for r in ns]):,.0f}")


def bench_nginx(run):
    if not NGINX or not WRK:
        run.note("nginx", "It is not installed here, or wrk is not.")
        return
    servers = {"watched": Nginx(run, "watched", run.cuda), "other": Nginx(run, "other", "none")}
    try:
        for families, options, limited in (("requests alone", FAMILIES, True), ("all families", (), False)):
            rounds = []
            for i in range(NGINX_ROUNDS):
                print(f"  nginx, {families}, round {i + 1} of {NGINX_ROUNDS}")
                rounds.append(nginx_round(servers, options))
                run.let_others()
            nginx_rows(run, rounds, families, limited)
    finally:
        for server in servers.values():
            server.stop()


def bench_requests(run):
    rounds = []
    with Tool("requests", run.cuda, start_new_session=True) as own, \
            Tool("requests", "none", start_new_session=True) as other:
        for i in range(ROUNDS):
            print(f"  round {i + 1} of {ROUNDS}")
            rounds.append(calls_round({"watched": own, "other": other}))
            run.let_others()
        calls_rows(run, rounds)
        statistics_rows(run, own)
    bench_nginx(run)
    run.note("Requests", f"""A server whose thread receives and answers what lies in its socket already, with a
        client in another process that reads afterwards: the time of the server's thread on its CPU, in the block of
        {BLOCKS} that a tenth of them are faster than. In {ROUNDS} rounds, each: nothing attached; empty programs at
        the tracepoints where requests are counted; the daemon with that family and those by which it knows of the
        process beside the server that uses a GPU. Of a server that is not watched a receive costs a look at one
        bit, and a send a look-up. What the daemon has counted is compared with what was made. The kernel's
        statistics have some 65 ns of their own in each call. These are without a budget, nginx is with the one that
        comes as it is, for {BUDGET_TURNS} turns before it is measured. It has one worker, on one core, and answers
        from memory; wrk, on another, keeps {NGINX_CONNECTIONS} connections busy. Two of them stay for all rounds,
        one beside a process that uses a GPU, and a round is a turn of {NGINX_S} s of each without the daemon, with
        it, and without it again; the ratio is that of the turn with it to the mean of those around it, and beside
        it stands what two turns without it differ by: where that is more than {NOISE_MOST:.0%}, no limit is held
        against the ratio.""")
