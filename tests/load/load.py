# SPDX-License-Identifier: GPL-2.0
"""Many clients, greedy, slow, silent and rude ones, and the limits of connections and descriptors: every healthy client
gets every snapshot, and nothing is kept of those that have gone. What decides is complete counts; times are printed.
"""
import contextlib
import json
import os
import resource
import socket
import struct
import subprocess
import time

from clients import Frames, handshake
from harness import TOOLS, ZERNELD, Daemon, Process, State, check, equal, need, parse_json, test_simulated, test_timed, \
    wait_until

LOAD = os.path.join(TOOLS, "load")
MIB = 1 << 20
LATE_MS = 2000  # what is aimed at is 100 ms
FILES = 20000


class Load(Process):
    """The clients of load.c."""

    def __init__(self, daemon, **options):
        argv = [LOAD, "--http", str(daemon.port), "--ws", str(daemon.ws_port)]
        for name, value in options.items():
            argv += [f"--{name}", str(value)]
        super().__init__(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(self.process.stdout.readline(), "ready \n", "every client is served")

    def ask(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def resident(pid):
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def enough_files():
    """Both ends of a connection are a descriptor; children inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < FILES <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard))
        State.cleanup.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


def healthy(got):
    equal({k: got[k] for k in ("missing", "repeated", "ended", "slow_other", "why")},
          {"missing": 0, "repeated": 0, "ended": 0, "slow_other": 0, "why": ""}, f"what went wrong in {got}")
    check(got["behind_max_ms"] < LATE_MS, f"no reader is late: {got}")


def all_gone(daemon, fds):
    wait_until(lambda: daemon.metrics().one("zernel_http_connections") == 1, "no connections but this one")
    equal(daemon.metrics().one("zernel_ws_clients"), 0, "WebSocket clients")
    wait_until(lambda: daemon.fds() <= fds, f"{fds} descriptors again")


@test_timed
def a_thousand_clients_of_which_fifty_never_read():
    enough_files()
    daemon = Daemon("--simulate", "--push-interval-ms", "500", "--max-connections", "2048",
                    "--max-connections-per-peer", "2048")  # all of 127.0.0.0/8 is one
    daemon.get("/metrics")
    fds = daemon.fds()
    alone = Load(daemon, scrapes=200)
    before = alone.ask(3)
    alone.end()
    load = Load(daemon, readers=950, stalled=50, scrapes=200, slow=200, storm=200)
    healthy(load.ask(1))
    warm, cpu = resident(daemon.pid), cpu_s(daemon.pid)
    got = load.ask(12)
    grown, cpu = resident(daemon.pid) - warm, (cpu_s(daemon.pid) - cpu) / 12
    print(f"1000 clients: {got['snapshots']} snapshots, to the last of 950 readers within {got['behind_max_ms']} ms "
          f"(p99 "
          f"{got['behind_p99_ms']} ms) of the first; scrapes p99 {got['scrape_p99_ms']} ms, "
          f"{before['scrape_p99_ms']} ms "
          f"without them; {cpu:.0%} of a core; {warm / MIB:.1f} MiB, {grown / MIB:+.1f}", flush=True)
    healthy(got)
    check(got["snapshots"] >= 5 and got["scrapes"] >= 200 and got["storms"] >= 200, f"there was load: {got}")
    check(got["slow_408"] >= 200, f"slow senders are told: {got}")
    check(grown < 2 * MIB, f"memory grew by {grown} bytes")
    wait_until(lambda: daemon.metrics().one("zernel_ws_clients") == 950, "those that do not read are given up")
    equal(load.ask("drain")["gone"], 50, "clients that found out")
    lost = daemon.metrics().lost()
    equal(lost.get("ws_client"), 50, f"clients given up, of {lost}")
    check(lost.get("ws_frame"), f"what they missed is counted: {lost}")
    load.end()
    all_gone(daemon, fds)


@test_timed
def connections_that_are_reset_leave_nothing():
    daemon = Daemon("--simulate", "--push-interval-ms", "250")
    daemon.get("/metrics")
    fds, load = daemon.fds(), Load(daemon, readers=20, storm=1000)
    load.ask(1)
    warm = resident(daemon.pid)
    got = load.ask(3)
    healthy(got)
    check(got["storms"] >= 200, f"there was a storm: {got}")
    check(resident(daemon.pid) - warm < 2 * MIB, "memory does not grow")
    load.end()
    all_gone(daemon, fds)


# ---- limits

def dial(port, source="127.0.0.1"):
    s = socket.socket(socket.AF_INET6 if ":" in source else socket.AF_INET)
    State.cleanup.callback(s.close)
    s.settimeout(20)
    s.bind((source, 0))
    s.connect(("::1" if ":" in source else "127.0.0.1", port))
    return s


def answer(s):
    """All that comes until the end; then it hangs up too."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while more := s.recv(65536):
            got += more
    s.close()
    return got


@test_timed
def when_all_places_are_taken_a_scrape_finds_one():
    """56 of 64 may be WebSockets; of the others the one that is idle for longest gives way."""
    daemon = Daemon("--simulate", "--push-interval-ms", "250", "--max-connections", "64")
    load = Load(daemon, readers=56)
    held = [dial(daemon.port, f"127.0.9.{i + 1}") for i in range(8)]
    for _ in range(100):
        check(answer_to_scrape(daemon.port), "a scrape is answered")
    refused = [upgrade(daemon.ws_port, f"127.0.10.{i + 1}").recv(4096) for i in range(20)]
    equal({a.split(b"\r\n")[0] for a in refused}, {b"HTTP/1.1 503 Service Unavailable"}, "answers to those too many")
    healthy(load.ask(1))
    equal(answer(held[0]), b"", "what the first got, which asked nothing and gave way")
    check(daemon.metrics().lost()["connection"] >= 21, "who gave way and who was refused is counted")


def upgrade(port, source):
    s = dial(port, source)
    s.sendall(b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
              b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
    return s


def answer_to_scrape(port, source="127.0.0.1"):
    """The text, or None where it is refused."""
    s = dial(port, source)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    head, _, body = answer(s).partition(b"\r\n\r\n")
    return body.decode() if head.startswith(b"HTTP/1.1 200 ") else None


@test_simulated
def a_greedy_peer_takes_nothing_from_others():
    daemon = Daemon("--simulate", "--max-connections-per-peer", "8")
    greedy = [dial(daemon.port, f"127.0.11.{i}") for i in range(1, 9)]  # who is on this node has all of these
    for _ in range(10):
        check(answer_to_scrape(daemon.port, "::1"), "another peer is answered")
    for s in greedy:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(s.recv(13) == b"HTTP/1.1 200 ", "what it has is served")
    for i in range(1, 11):
        check(answer_to_scrape(daemon.port, f"127.0.12.{i}"), "in place of one that is idle, the peer itself is")
    check(daemon.metrics().lost()["peer"] >= 1, "what was closed is counted")


@test_simulated
def a_user_of_this_node_keeps_no_scrape_out():
    """By as many idle connections as he likes, and by requests that never end."""
    daemon = Daemon("--simulate")
    enough_files()
    held = [dial(daemon.port, f"127.0.13.{i % 250 + 1}") for i in range(1500)]
    for i, s in enumerate(held):
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            if i % 2:
                s.sendall(b"GET /metrics HT")
    for _ in range(20):
        check(answer_to_scrape(daemon.port), "a scrape from the same address is answered")
    check(daemon.metrics().lost()["peer"] >= 900, "what was closed is counted")
    for s in held:
        s.close()


HEADS = b"".join(b"HEAD /%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path for path in (b"metrics", b"json")) * 1500


@test_simulated
def requests_that_ask_for_much_keep_no_tick_waiting():
    """HEAD in a pipeline: each is rendered, no two one after the other are the same, and the answers are short. Between
    two ticks so many are done as there is time for, and not 16 of each client, which is what all have in their turn.
    """
    clients = 900
    daemon = Daemon("--simulate", "--push-interval-ms", "100", "--max-connections-per-peer", str(clients + 100))
    enough_files()
    flood = [dial(daemon.port) for _ in range(clients)]
    before = daemon.metrics()
    for s in flood:
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            s.send(HEADS)
    time.sleep(3)
    for s in flood:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # what is left is not asked for
        s.close()
    after = daemon.metrics()
    heads = sum(after.all("zernel_http_requests_total").values()) - sum(before.all("zernel_http_requests_total").values())
    ticks = after.one("zernel_ticks_total") - before.one("zernel_ticks_total")
    print(f"{heads:.0f} requests and {ticks:.0f} ticks of 100 ms", flush=True)
    check(heads > 1000, "there was load")
    check(heads < 4 * clients * ticks, "ticks came between them")


def descriptors_run_out(daemon, load, fds):
    flood = [dial(daemon.port, f"127.0.12.{i % 250 + 1}") for i in range(200)]
    wait_until(lambda: daemon.fds() >= fds, "no descriptor being left")
    start, used = time.monotonic(), cpu_s(daemon.pid)
    healthy(load.ask(2))
    used, took = cpu_s(daemon.pid) - used, time.monotonic() - start
    check(used < 0.05 * took, f"it does not spin: {used:.2f} s of CPU in {took:.1f} s")
    for s in flood:
        s.close()


@test_timed
def at_the_limit_of_descriptors_nothing_spins():
    """The daemon may open 64 files and is called by 200."""
    daemon = Daemon("--simulate", "--push-interval-ms", "250", argv=[need("prlimit"), "--nofile=64", ZERNELD],
                    expect=["hard limit of open files is 64", "cannot accept a connection: Too many open files"])
    daemon.get("/metrics")
    fds, load = daemon.fds(), Load(daemon, readers=20)
    for _ in range(2):
        descriptors_run_out(daemon, load, 64)
        wait_until(lambda: answer_to_scrape(daemon.port), "an answer after it")
    load.end()
    all_gone(daemon, fds)


# ---- clients that read late

def late_client(daemon):
    """An open WebSocket with small buffers, and what comes over it."""
    s = socket.socket()
    State.cleanup.callback(s.close)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    s.settimeout(20)
    s.connect(("127.0.0.1", daemon.ws_port))
    return Frames(s, handshake(s))


@test_simulated
def a_client_that_reads_late_gets_the_newest_and_no_queue():
    daemon = Daemon("--simulate", "--push-interval-ms", "100")
    frames = late_client(daemon)
    first = parse_json(frames.message())
    time.sleep(5)
    times = [first["last_update_ms"]]
    queued, begin = 0, daemon.json()["last_update_ms"]
    while times[-1] < begin - 1000:
        text = frames.message()
        queued += len(text)
        times.append(parse_json(text)["last_update_ms"])
    equal(times, sorted(times), "none is older than the one before")
    size = len(text)
    check(queued <= 64 * 1024 + 3 * size, f"{queued} bytes of old snapshots, of {size} bytes each, were kept for it")
    check(max(b - a for a, b in zip(times, times[1:])) > 2000, f"it skipped what was old: {times}")
    check(daemon.metrics().lost().get("ws_frame"), "what it missed is counted")


@test_simulated
def a_client_that_never_reads_again_is_given_up():
    daemon = Daemon("--simulate", "--push-interval-ms", "100")
    frames = late_client(daemon)
    wait_until(lambda: daemon.metrics().lost().get("ws_client") == 1, "it is given up and counted", 60)
    equal(daemon.metrics().one("zernel_ws_clients"), 0, "WebSocket clients")
    check(frames.until_the_end() in (None, 1013), "a Close with 1013, or none where a frame was half sent")
