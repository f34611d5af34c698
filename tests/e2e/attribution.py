# SPDX-License-Identifier: GPL-2.0
"""What the engine of a service does, divided among its requests: all shares add up, and those of a request that was
alone are exactly what the engine did for it. The engine says itself what it has done."""
import json
import os
import sys
import threading

from harness import CUDA, HERE, Daemon, Process, check, equal, folder, free_port, need, test, wait_until
from inference import Client, Server, watched
from llm_engine import CALLS, LAUNCHES

ENGINE = os.path.join(HERE, "llm_engine.py")
CHAT = "/v1/chat/completions"


def serving(daemon, pid):
    return next(s for s in daemon.json()["servers"] if str(s["pid"]) == str(pid))


def has_engine(daemon, pid):
    service = serving(daemon, pid)["serving"]
    return service and service["engines"]


def ask(client, events):
    """What the engine says that it has done by the last event."""
    done = 0
    for line in client.ask("POST", CHAT, {"events": events}):
        if line.startswith(b"data: {"):
            done = json.loads(line[6:])["launches"]
    return done


def start(daemon):
    port, path = free_port(), os.path.join(folder(), "engine.sock")
    server = Server("front", address=port, argv=[sys.executable, ENGINE, "both", str(port), path, CUDA])
    pid = watched(daemon, server)
    wait_until(lambda: has_engine(daemon, pid), "the engine is of the service")
    return server, pid


def ended(daemon, pid, count):
    return wait_until(lambda: (s := serving(daemon, pid))["serving"]["requests"] == count and s,
        f"{count} requests ended")


def grown(before, after, key, what):
    return after["serving"][key][what] - before["serving"][key][what]


@test
def what_an_engine_does_is_divided_among_its_requests():
    daemon = Daemon()
    server, pid = start(daemon)
    client, events = Client(server), 13
    first = ask(client, events)  # it launches for its requests alone from here on
    before = ended(daemon, pid, 1)
    warming = wait_until(lambda: serving(daemon, pid)["slowest"], "the slowest of a tick")[0]["duration_ms"]
    engine = before["serving"]["engines"][0]["pid"]
    calls = daemon.metrics().one("zernel_syscalls_total", pid=str(engine))
    for _ in range(5):
        ask(client, events)
    alone = ended(daemon, pid, 6)
    equal(alone["serving"]["alone"], 6, "requests that were alone")
    equal(grown(before, alone, "work", "launches"), 5 * events * LAUNCHES, "launches for five requests")
    equal(grown(before, alone, "shares", "launches"), 5 * events * LAUNCHES, "their shares")
    equal(grown(before, alone, "idle", "launches"), 0, "launches for none")
    slowest = wait_until(lambda: (s := serving(daemon, pid)["slowest"]) and s[-1]["duration_ms"] != warming and s,
                         "the slowest of a later tick")
    for r in slowest:
        equal((r["route"], r["code"], r["exact"], r["events"]), (CHAT, "2xx", True, events), "one of them")
        equal(r["share"]["launches"], events * LAUNCHES, "what it took")
        check(events * CALLS <= r["share"]["system_calls"] <= events * (CALLS + 9), f"its system calls: {r['share']}")

    def many(last):
        mine = Client(server)
        for _ in range(7):
            last.append(ask(mine, events))
        mine.close()
    last = []
    threads = [threading.Thread(target=many, args=(last,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shared = ended(daemon, pid, 6 + 28)
    equal(shared["serving"]["in_flight"], 0, "in flight")
    equal(grown(before, shared, "work", "launches") + grown(before, shared, "idle", "launches"), max(last) - first,
          "launches, by the engine's own account")
    for what in ("launches", "system_calls", "context_switches", "cpu_s", "other_s"):
        all_of_it, shares = (grown(alone, shared, key, what) for key in ("work", "shares"))
        check(abs(all_of_it - shares) <= 0.001 * all_of_it + 1e-6, f"{what}: shares of {shares} in {all_of_it}")
    calls = daemon.metrics().one("zernel_syscalls_total", pid=str(engine)) - calls
    seen = sum(grown(before, shared, key, "system_calls") for key in ("work", "idle"))
    check(abs(calls - seen) <= 0.001 * calls, f"system calls: {seen} of {calls}")
    m = daemon.metrics()
    equal(m.one("zernel_serving_requests_total", service=pid, how="alone") >= 6, True, "alone")
    equal([dict(labels)["pid"] for labels in m.all("zernel_service_info", service=pid, role="gpu")], [str(engine)],
        "the engine")
    client.close()


@test
def an_engine_that_is_no_relative_is_joined_by_its_socket():
    """ZMQ over a Unix socket; sessions of their own. The neighbour talks to nobody."""
    need("/usr/lib/python3/dist-packages/zmq")
    daemon = Daemon()
    port, path = free_port(), os.path.join(folder(), "zmq.sock")
    server = Server("front", address=port, argv=[sys.executable, ENGINE, "zmq-front", str(port), path])
    neighbour = Server("uvicorn")
    engine = Process([sys.executable, ENGINE, "zmq-engine", path, CUDA], start_new_session=True)
    engine.wanted = None
    pid = watched(daemon, server)
    service = wait_until(lambda: has_engine(daemon, pid), "the engine is of the service")
    equal([e["pid"] for e in service], [engine.pid], "the engine")
    equal([s["pid"] for s in daemon.json()["servers"]], [server.pid], f"servers, without {neighbour.pid}")
    client, events = Client(server), 11
    ask(client, events)
    before = ended(daemon, pid, 1)
    for _ in range(3):
        ask(client, events)
    after = ended(daemon, pid, 4)
    for key in ("work", "shares"):
        equal(grown(before, after, key, "launches"), 3 * events * LAUNCHES, f"launches: {key}")
    client.close()
    engine.kill()
