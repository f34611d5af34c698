# SPDX-License-Identifier: GPL-2.0
"""What it costs to serve: scrapes and snapshots."""
import os
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

from common import BUILD, CLIENT_CPU, DAEMON_CPU, Daemon, NGINX, NODE_EXPORTER, Tool, fleet, median, pinned, spread

# ---- scrapes ----

SCRAPE_ROUNDS, SCRAPE_MS, SCRAPE_LAUNCHES, RENDERINGS = 9, 1000, 100, 5000
SCRAPE_PROCESSES, SCRAPE_SETTLE_S, SCRAPE_LEAST = 3, 4, 1250  # the limits are for some 1,300 lines
TICKS, TICK_LIMIT_US = 600, 2000
NGINX_CONF = """daemon off; master_process off; user root; pid {folder}/pid; error_log {folder}/log;
events {{ worker_connections 64; }}
http {{
    access_log off; sendfile on; open_file_cache max=16; keepalive_requests 1000000000;
    default_type "text/plain; version=0.0.4; charset=utf-8";
    server {{ listen 127.0.0.1:{port}; root {folder}; }}
}}
"""
# the least that can be had where the bytes are made anew: it reads whatever it is asked, and sends from its memory
SENDER = """
import socket, sys
with open(sys.argv[2], "rb") as file:
    body = file.read()
answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(body) + body
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    while True:
        client, _ = listener.accept()
        while client.recv(8192):
            client.sendall(answer)
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """Another server, on the daemon's core; the answers that scrapes got are in `results`. It has a session of its own:
    in that of a process with a GPU it would be one of its servers, and pay for being watched."""

    def __init__(self, name, command, port):
        self.name, self.port, self.results = name, port, []
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=pinned(DAEMON_CPU),
                                        start_new_session=True)
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"{name} does not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
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


def sender(run, text):
    path, port = os.path.join(run.folder, "bytes"), free_port()
    with open(path, "w") as f:
        f.write(text)
    return Server("a loop that sends the same bytes from memory", [sys.executable, "-c", SENDER, str(port), path], port)


def other_servers(run, text):
    """Those that are installed here; `text` is one of our answers."""
    return ([node_exporter()] if NODE_EXPORTER else []) + [sender(run, text)] + ([nginx(run, text)] if NGINX else [])


def scrape(port, *coding):
    out = subprocess.check_output([f"{BUILD}/bench/scrape", str(port), "/metrics", str(SCRAPE_MS), *coding], text=True,
                                  preexec_fn=pinned(CLIENT_CPU))
    return [float(x) for x in out.split()]


def scrape_row(run, name, results, limit=None):
    rates = [r[0] for r in results]
    run.row(f"scrapes per second, {name}, {results[-1][4]:.0f} lines, {results[-1][3] / 1024:.0f} KiB",
            f"{median(rates):,.0f}", spread(rates, "{:,.0f}"), f"{limit:,}" if limit else "",
            median(rates) >= limit if limit else None)
    run.row(f"time of a scrape, {name}", f"p50 {median([r[1] for r in results]):.0f} us",
            f"p99 {median([r[2] for r in results]):.0f} us")


NGINX_LEAST = 0.5


def ratio_row(run, what, ours, theirs, form, least=None):
    ratio = [a / b for a, b in zip(ours, theirs)]
    run.row(what, form.format(median(ratio)), spread(ratio, form), str(least or ""),
            median(ratio) >= least if least else None)


def gzip_row(run, results):
    rates = [r[0] for r in results]
    run.row(f"scrapes per second, zerneld, gzip, {results[-1][3] / 1024:.0f} KiB", f"{median(rates):,.0f}",
            spread(rates, "{:,.0f}"), "3,000", median(rates) >= 3000)


def render_row(run):
    rows = [subprocess.check_output([f"{BUILD}/bench/render", str(RENDERINGS)], text=True,
                                    preexec_fn=pinned(CLIENT_CPU)).split() for _ in range(SCRAPE_ROUNDS)]
    us = [float(r[0]) / 1000 for r in rows]
    run.row(f"rendering alone, simulated node, {rows[0][2]} lines", f"{median(us):.0f} us", spread(us, "{:.0f}"))


def bench_tick(run):
    for state, what in (("", "all at work"), ("hang", "every fourth missing, the others waiting for it")):
        rows = [subprocess.check_output([f"{BUILD}/bench/tick", str(TICKS), state], text=True,
            preexec_fn=pinned(CLIENT_CPU)).split()
                for _ in range(SCRAPE_ROUNDS)]
        us = [float(r[0]) / 1000 for r in rows]
        run.row(f"a tick, 64 processes in 128 communicators of 16 ranks, {what}", f"{median(us):,.0f} us",
                spread(us, "{:,.0f}"),
                f"{TICK_LIMIT_US:,} us", median(us) <= TICK_LIMIT_US)
    bench_groups(run)


def roots_of_groups():
    """Where control groups have CPU time and memory: the hierarchies of version 1, or that of version 2."""
    found = {}
    with open("/proc/self/mountinfo") as file:
        for line in file:
            left, (kind, _, options) = line.split(" - ")[0].split(), line.split(" - ")[1].split()[:3]
            names = {"cgroup2": ["v2"], "cgroup": options.split(",")}.get(kind, [])
            found.update({name: left[4] for name in names if left[3] == "/"})
    first = [found[c] for c in ("cpu", "cpuacct", "cpuset", "memory") if c in found]
    return list(dict.fromkeys(first)) or [found["v2"]]


def bench_groups(run):
    rows = [subprocess.check_output([f"{BUILD}/bench/groups", str(TICKS), *roots_of_groups()], text=True,
        preexec_fn=pinned(CLIENT_CPU)).split()
            for _ in range(SCRAPE_ROUNDS)]
    us = [float(r[0]) / 1000 for r in rows]
    run.row(f"a tick with 64 jobs' groups read, each in {max(int(r[2]) for r in rows)} s", f"{median(us) / 1e4:.2f} % of a core",
            spread([u / 1e4 for u in us], "{:.2f}"), "1 %", median(us) <= 10000)


def bench_scrape(run):
    ours, packed = [], []
    with ExitStack() as stack, Daemon(DAEMON_CPU) as daemon, fleet(run, SCRAPE_PROCESSES, SCRAPE_LAUNCHES):
        time.sleep(SCRAPE_SETTLE_S)
        others = [stack.enter_context(server) for server in other_servers(run, daemon.get())]
        for _ in range(SCRAPE_ROUNDS):
            ours.append(scrape(daemon.metrics_port))
            packed.append(scrape(daemon.metrics_port, "gzip"))
            for server in others:
                server.results.append(scrape(server.port))
    if ours[-1][4] < SCRAPE_LEAST:
        raise RuntimeError(f"the scrape has only {ours[-1][4]:.0f} sample lines")
    scrape_row(run, "zerneld", ours, 12000)
    gzip_row(run, packed)
    for server in others:
        scrape_row(run, server.name, server.results)
        ratio_row(run, f"sample lines per second, zerneld / {server.name}", [r[0] * r[4] for r in ours],
                  [r[0] * r[4] for r in server.results], "{:.2f}",
                  NGINX_LEAST if "nginx" in server.name else None)
    render_row(run)
    absent = [name for name, path in (("node exporter", NODE_EXPORTER), ("nginx", NGINX)) if not path]
    run.note("Scrapes", f"""Each server on one core, one client on another that keeps its connection and asks again at
        once, in turns of {SCRAPE_MS / 1000:.0f} s, {SCRAPE_ROUNDS} of each. Live data of {SCRAPE_PROCESSES}
        processes, each with {SCRAPE_LAUNCHES} launches a second; a scrape is rendered anew, but for the lines of
        histograms of which nothing has changed. nginx has one worker, sendfile and its cache of open files, and
        sends a file that is one of our answers: what it does not do is to make the answer, and by sendfile the kernel
        need not copy it either. Whoever makes an answer anew has it copied: a loop that does nothing but send the same
        bytes from its memory shows what is left to be won. The node exporter collects from /proc and /sys at each
        scrape, so it does other work than we do.
        {f"Not installed here: {', '.join(absent)}." if absent else ''}""")


# ---- snapshots ----

FAN_CLIENTS, FAN_PROCESSES, FAN_SNAPSHOTS, FAN_ROUNDS, FAN_INTERVAL_MS = 1000, 4, 15, 3, 250


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
    with Daemon(DAEMON_CPU, *map(str, options)) as daemon, fleet(run, FAN_PROCESSES, 0):
        time.sleep(2)
        p50, longest, size, missed, cpu_ms = zip(*(fan_out(daemon) for _ in range(FAN_ROUNDS)))
    run.row(f"a snapshot whole at the last of {FAN_CLIENTS:,} WebSocket clients, {size[-1] / 1024:.1f} KiB each",
            f"p50 {median(p50):.1f} ms", f"{spread(p50)}; longest {max(longest):.1f}", "20 ms", median(p50) <= 20)
    run.row("snapshots that one of them did not get",
            f"{sum(missed):.0f} of {FAN_ROUNDS * FAN_SNAPSHOTS + sum(missed):.0f}",
            "", "0", not sum(missed))
    run.row("CPU of the daemon for a snapshot to all of them", f"{median(cpu_ms):.1f} ms",
            f"{spread(cpu_ms)}; {median(cpu_ms) * 1e3 / FAN_CLIENTS:.1f} us per client")
    run.note("Snapshots", f"""The daemon on one core; on the other, one program with {FAN_CLIENTS:,} connections,
        which reads and checks all that comes. From the time in the snapshot, which is cut off to a millisecond, so
        that up to 1 ms too much is shown, until the last client has its last byte. One each {FAN_INTERVAL_MS} ms,
        {FAN_ROUNDS} times {FAN_SNAPSHOTS}. The CPU is all that the daemon used meanwhile.""")
