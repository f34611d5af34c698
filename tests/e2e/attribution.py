# SPDX-License-Identifier: GPL-2.0
"""What the engines of a service do, divided among its requests: all shares add up, and those of a request that was
alone are exactly what the engines did for it, in the shapes that servers of language models have: one engine that is a
child, one that is no relative, and several behind a router. The engines say themselves what they have done."""
import json
import os
import sys
import threading

from harness import CUDA, HERE, Daemon, Process, check, equal, folder, free_port, need, test, wait_until
from inference import Client, Server, watched
from llm_engine import CALLS, FAULTS, LAUNCHES, SHARDS

ENGINE = os.path.join(HERE, "llm_engine.py")
CHAT = "/v1/chat/completions"


def serving(daemon, pid):
    return next(s for s in daemon.json()["servers"] if str(s["pid"]) == str(pid))


def has_engine(daemon, pid):
    service = serving(daemon, pid)["serving"]
    return service and service["engines"]


def ask(client, events):
    """What the engine says that it has done by the last event."""
    said = {}
    for line in client.ask("POST", CHAT, {"events": events}):
        if line.startswith(b"data: {"):
            said = json.loads(line[6:])
    return said["launches"]


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


WHAT = {"launches": "zernel_cuda_launches_total", "system_calls": "zernel_syscalls_total",
        "page_faults": "zernel_page_faults_total", "context_switches": "zernel_context_switches_total"}


def totals(daemon, engines):
    """Of processes, not of what was divided."""
    m = daemon.metrics()
    return {key: sum(sum(m.all(name, pid=str(e["pid"])).values()) for e in engines) for key, name in WHAT.items()}


def rests(daemon, engines):
    """What they have done does not change any more."""
    return wait_until(lambda: (a := totals(daemon, engines)) == totals(daemon, engines) and a, "engines that rest")


def all_at_once(server, events):
    """What the engine says by the last of 28 requests."""
    last = []

    def many():
        mine = Client(server)
        for _ in range(7):
            last.append(ask(mine, events))
        mine.close()
    threads = [threading.Thread(target=many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return max(last)


def is_divided(daemon, server, pid, engines=1):
    """One request so that they launch for requests alone from there on, five that are alone, and 28 at one time."""
    client, events = Client(server), 13

    def counted():
        said = ask(client, events)
        return serving(daemon, pid)["serving"]["requests"] and said
    first = wait_until(counted, "requests are of the service")
    before = wait_until(lambda: (s := serving(daemon, pid)) and not s["serving"]["in_flight"] and s, "none in flight")
    done, were_alone = before["serving"]["requests"], before["serving"]["alone"]
    equal(len(before["serving"]["engines"]), engines, "engines")
    begin = rests(daemon, before["serving"]["engines"])
    warming = wait_until(lambda: serving(daemon, pid)["slowest"], "the slowest of a tick")[0]["duration_ms"]
    for _ in range(5):
        ask(client, events)
    alone = ended(daemon, pid, done + 5)
    equal(alone["serving"]["alone"] - were_alone, 5, "requests that were alone")
    equal(grown(before, alone, "work", "launches"), 5 * events * LAUNCHES * engines, "launches for five requests")
    equal(grown(before, alone, "shares", "launches"), 5 * events * LAUNCHES * engines, "their shares")
    equal(grown(before, alone, "idle", "launches"), 0, "launches for none")
    for what in ("system_calls", "page_faults", "context_switches"):
        equal(grown(before, alone, "shares", what), grown(before, alone, "work", what), f"{what} of requests alone")
    slowest = wait_until(lambda: (s := serving(daemon, pid)["slowest"]) and s[-1]["duration_ms"] != warming and s,
                         "the slowest of a later tick")
    for r in slowest:
        equal((r["route"], r["code"], r["exact"], r["events"]), (CHAT, "2xx", True, events), "one of them")
        equal(r["share"]["launches"], events * LAUNCHES * engines, "what it took")
        check(r["share"]["system_calls"] >= events * CALLS * engines, f"its system calls: {r['share']}")
        # those of the last step may be the next request's: an engine that runs is not looked at
        check(r["share"]["page_faults"] >= (events - 1) * FAULTS * engines, f"its page faults: {r['share']}")
    last = all_at_once(server, events)
    shared = ended(daemon, pid, done + 5 + 28)
    equal(shared["serving"]["in_flight"], 0, "in flight")
    equal(grown(before, shared, "work", "launches") + grown(before, shared, "idle", "launches"), last - first,
          "launches, by the engines' own account")
    for what in shared["serving"]["work"]:
        all_of_it, shares = (grown(alone, shared, key, what) for key in ("work", "shares"))
        check(abs(all_of_it - shares) <= 0.001 * all_of_it + 1e-6, f"{what}: shares of {shares} in {all_of_it}")
    end = rests(daemon, shared["serving"]["engines"])
    for what in ("launches", "system_calls", "page_faults"):
        seen, real = sum(grown(before, shared, key, what) for key in ("work", "idle")), end[what] - begin[what]
        late = FAULTS * engines if what == "page_faults" else 0
        check(abs(real - seen) <= 0.001 * real + late, f"{what}: {seen} of {real}")
    client.close()
    return slowest, shared


DIVIDED = {"launches": "launches", "system_calls": "syscalls", "context_switches": "context_switches",
           "page_faults": "page_faults"}  # keys of the snapshot, names of metrics


def metrics_say_the_same(daemon, pid, events):
    """Of a service that rests, as the snapshot; and of one request, and its connection."""
    work, m = serving(daemon, pid)["serving"]["work"], daemon.metrics()
    for key, name in DIVIDED.items():
        equal(m.one(f"zernel_serving_{name}_total", service=pid), work[key], key)
    waits = m.all("zernel_serving_stall_seconds_total", service=pid)
    check(0 < sum(waits.values()) < m.one("zernel_serving_seconds_total", service=pid) * 1.04, f"time: {waits}")
    own = wait_until(lambda: daemon.metrics().one("zernel_request_launches", service=pid), "launches for a request")
    check(0.9 * events * LAUNCHES <= own <= 1.1 * events * LAUNCHES, f"{own} launches for a request, not {LAUNCHES * events}")
    check(daemon.metrics().one("zernel_request_syscalls", service=pid) >= events * CALLS, "system calls for a request")
    answered = sum(m.all("zernel_request_duration_seconds_count", pid=pid).values())
    equal(m.one("zernel_request_rtt_seconds_count", pid=pid), answered, "round trips of the connections of requests")
    mean = m.one("zernel_request_rtt_seconds_sum", pid=pid) / answered
    check(0 < mean < 0.01, f"a round trip of {mean} s on this machine")


@test
def what_an_engine_does_is_divided_among_its_requests():
    daemon = Daemon()
    server, pid = start(daemon)
    slowest, shared = is_divided(daemon, server, pid)
    for r in slowest:
        check(r["share"]["system_calls"] <= 13 * (CALLS + 11), f"its system calls: {r['share']}")
        check(r["share"]["page_faults"] <= 14 * FAULTS + 13, f"its page faults: {r['share']}")
    m, engine = daemon.metrics(), shared["serving"]["engines"][0]["pid"]
    equal(m.one("zernel_serving_requests_total", service=pid, how="alone") >= 6, True, "alone")
    equal(m.one("zernel_serving_page_faults_total", service=pid), serving(daemon, pid)["serving"]["work"]["page_faults"],
        "page faults")
    equal([dict(labels)["pid"] for labels in m.all("zernel_service_info", service=pid, role="gpu")], [str(engine)],
        "the engine")
    client, events = Client(server), 13
    metrics_say_the_same(daemon, pid, events)

    def waits():
        ask(client, events)
        got = (serving(daemon, pid)["waits"] or {}).get("first_event", {"parts_ms": {}})
        return got if "engine_other" in got["parts_ms"] else None
    got = wait_until(waits, "a step with requests")
    engine_ms = sum(v["now"] for k, v in got["parts_ms"].items() if k.startswith("engine_"))
    check(0 < engine_ms <= 1.04 * got["p99_ms"]["now"], f"the time to the first event, by what the engine did: {got}")
    equal((got["unusual"], got["says"]), (False, ""), "nothing is known to be unusual")
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
    is_divided(daemon, server, pid)
    engine.kill()


@test
def engines_behind_a_router_are_divided_among_its_requests():
    """Its calls of them are requests too, over HTTP/2 and Unix sockets, and parts of those that it answers."""
    need("/usr/lib/python3/dist-packages/grpc")
    daemon = Daemon()
    server = Server("router", argv=[sys.executable, ENGINE, "launcher", (port := str(free_port())), folder(), CUDA],
                    address=port)

    def router():
        return next((dict(ls)["pid"] for ls in daemon.metrics().all("zernel_service_info", port=port)), None)
    pid = wait_until(router, "the router is watched")
    wait_until(lambda: len(has_engine(daemon, pid) or []) == SHARDS, "the engines are of the service")
    equal({dict(ls)["service"] for ls in daemon.metrics().all("zernel_service_info")}, {pid}, "services")
    is_divided(daemon, server, pid, SHARDS)
    for e in serving(daemon, pid)["serving"]["engines"]:
        calls = [int(v) for ls, v in daemon.metrics().all("zernel_requests_total", pid=str(e["pid"])).items()]
        check(sum(calls) > 34, f"calls of an engine: {calls}")
