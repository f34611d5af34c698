#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What --otlp pushes, as a real receiver has it: VictoriaMetrics, which receiver.sh fetches. It must have every series
of /metrics, with the value that the page of the same tick had, and give our quantiles. Then the receiver is killed,
comes back, and hangs. Runs all tests, or those whose name has the word that is given.

Limits: needs no root; simulated data alone, so nothing of the calibration, which is pushed as a summary.
"""
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from harness import BUILD, Daemon, Metrics, Process, State, check, equal, folder, free_port, main, parse_metrics, \
    state_of, test, wait_until

PLACE = os.path.join(BUILD, "otlp")
PATH = "/opentelemetry/v1/metrics"
PATIENCE = 60
# what differs between a page and the export of the same tick, whatever is measured: only that it is there is looked at
OWN = re.compile(r"process_|zernel_http_|zernel_scrape_|zernel_otlp_|zernel_outbound_|zernel_ws_")
# what the receiver adds to each series: the resource and the scope
ADDED = ("host.name", "service.instance.id", "service.name", "service.version", "scope.name", "scope.version")
CONNECTIONS = ("zernel_table_entries", frozenset({("table", "connections")}))  # that of the reader too
LATENCY = "zernel_cuda_launch_latency"
WITHIN = 0.032


def fetched():
    """The receiver's program. That it cannot be had is a failure: nothing would be tested."""
    got = subprocess.run([os.path.join(HERE, "receiver.sh"), PLACE], text=True, capture_output=True, timeout=550)
    equal(got.returncode, 0, f"receiver.sh: {got.stderr.strip()}")
    return os.path.join(PLACE, "victoria-metrics")


class Receiver:
    """VictoriaMetrics on a port of its own; it may be started again on what it stored."""

    def __init__(self):
        self.program, self.port = fetched(), free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self):
        with open(f"{folder()}/receiver.log", "a") as log:
            self.process = Process([self.program, f"-storageDataPath={folder()}/data",
                f"-httpListenAddr=127.0.0.1:{self.port}",
                                    "-search.latencyOffset=0s"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        State.cleanup.callback(self.process.kill)
        wait_until(self.answers, "VictoriaMetrics", PATIENCE)

    def answers(self):
        if self.process.process.poll() is not None:
            with open(f"{folder()}/receiver.log") as log:
                raise AssertionError(f"VictoriaMetrics ended: {log.read()[-500:]}")
        try:
            return self.get("/health") == "OK"
        except OSError:
            return False

    def get(self, path, **query):
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def stored(self, which='{__name__!=""}', since=0):
        """[(labels, {milliseconds since 1970: value})] of all that it has from then on."""
        self.get("/internal/force_flush")
        lines = self.get("/api/v1/export", start=since / 1000, **{"match[]": which}).splitlines()
        rows = map(json.loads, lines)
        return [(row["metric"], dict(zip(row["timestamps"], row["values"]))) for row in rows]

    def exports(self, since=0):
        """When there were exports, in milliseconds since 1970, ascending."""
        return sorted(t for _, values in self.stored("zernel_build_info", since) for t in values)

    def query(self, expr, at_ms):
        result = json.loads(self.get("/api/v1/query", query=expr, time=at_ms / 1000))["data"]["result"]
        return {named(row["metric"])[1]: float(row["value"][1]) for row in result}


def named(metric):
    """(name, labels) as /metrics has them."""
    rest = {k: v for k, v in metric.items() if k not in ADDED and k != "__name__"}
    if "process.pid" in rest:
        rest["pid"] = rest.pop("process.pid")
    return metric.get("__name__"), frozenset(rest.items())


def pushing(receiver, **more):
    return Daemon("--simulate", "--push-interval-ms", "250", "--otlp", receiver.url + PATH, "--otlp-interval-ms",
        "1000", **more)


def stop(daemon):
    daemon.process.send_signal(signal.SIGSTOP)
    State.cleanup.callback(daemon.process.send_signal, signal.SIGCONT)
    wait_until(lambda: state_of(daemon.pid) == "T", "the daemon being stopped")


def page_after_export(daemon):
    """(when it was let go on, page). The daemon is stopped until its timers have expired, those of the simulation and
    of the tick, and then a request has come. It takes up in one turn of its loop what waits for it, the oldest first:
    steps, tick with an export, page."""
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=PATIENCE)
    connection.request("GET", "/health")
    connection.getresponse().read()  # it is accepted
    stop(daemon)
    time.sleep(1.5)  # an export's interval and a tick's
    start = time.time() * 1000
    connection.request("GET", "/metrics")
    daemon.process.send_signal(signal.SIGCONT)
    page = connection.getresponse().read().decode()
    connection.close()
    return start, Metrics(parse_metrics(page))


def page_and_export(receiver, daemon):
    """(when, page, [(labels, value)]) of the same state. If the daemon was stopped between the two timers, or during a
    turn, there is a tick between them, or there are steps, which the launches tell: then once more."""
    def look():
        start, page = page_after_export(daemon)
        # there is a later one, so this one is complete: they are sent one after another
        when = wait_until(lambda: receiver.exports(start)[:-1], "two exports", PATIENCE)[0]
        pushed = [(m, v[when]) for m, v in receiver.stored(since=start) if when in v]
        launches = {frozenset(k): v for k, v in page.all(f"{LATENCY}_seconds_count").items()}
        told = {named(m)[1]: v for m, v in pushed if m["__name__"] == f"{LATENCY}_hist_seconds_count"}
        ticks = [v for m, v in pushed if m["__name__"] == "zernel_ticks_total"]
        same = told == launches and ticks == [page.one("zernel_ticks_total")]
        return (when, page, pushed) if same and launches and min(launches.values()) > 5000 else None
    return wait_until(look, "an export, and a page of the same state", 300)


def durations(page):
    """The summaries whose twin is pushed in their place: names without _seconds."""
    return {n[:-len("_hist_seconds_count")] for n, _ in page if n.endswith("_hist_seconds_count")}


def wanted(page):
    """{(name, labels): value} of what the receiver must have, but for the buckets of histograms. A label that is empty
    is none there."""
    twins = tuple(f"{n}_seconds{end}" for n in durations(page) for end in ("", "_sum", "_count"))
    return {(n, frozenset(label for label in ls if label[1])): v for (n, ls), v in page.items()
            if n not in twins and not n.endswith("_hist_seconds_bucket")}


def of_whom(metrics, daemon, page):
    node = daemon.json()["node"]
    version = dict(next(ls for n, ls in page if n == "zernel_build_info"))["version"]
    said = {tuple(m.get(k) for k in ADDED) for m in metrics}
    equal(said, {(node, node, "zerneld", version, "zerneld", version)}, "of whom each series is")


def same_values(got, want):
    equal(sorted(set(got) ^ set(want), key=str)[:8], [], "series that only one of both has")
    compared = [k for k in want if not OWN.match(k[0]) and k != CONNECTIONS]
    check(len(compared) > 400, f"{len(compared)} series to compare")
    bad = {k: (got[k], want[k]) for k in compared if abs(got[k] - want[k]) > 1e-9 * abs(want[k])}
    equal(dict(list(bad.items())[:8]), {}, f"values, ours second: {len(bad)} differ")
    whole = [k for k in compared if k[0].endswith("_total") and want[k] == int(want[k])]
    check(len(whole) > 100, f"{len(whole)} whole numbers")
    equal({k: got[k] for k in whole}, {k: want[k] for k in whole}, "whole numbers")


def known_values(got):
    """What each simulation has."""
    def of(name):
        return [(dict(ls), v) for (n, ls), v in got.items() if n == name]
    equal([(ls["source"], v) for ls, v in of("zernel_build_info")], [("simulated", 1)], "build info")
    equal(sorted(int(ls["gpu_id"]) for ls, v in of("zernel_gpu_memory_total_bytes") if v == 80 << 30), [0, 1, 2, 3],
        "GPUs of 80 GiB")
    equal(len(of("zernel_gpu_info")), 4, "identities of GPUs")
    equal(len(of(f"{LATENCY}_hist_seconds_count")), 8, "ranks")


def buckets_add_up(metrics, got):
    """All calls are in the buckets, which the receiver cuts anew."""
    sums = {}
    for m, v in metrics:
        if m["__name__"].endswith("_bucket"):
            name, labels = named({k: w for k, w in m.items() if k != "vmrange"})
            key = name[:-len("bucket")] + "count", labels
            sums[key] = sums.get(key, 0) + v
    check(len(sums) > 50, f"{len(sums)} histograms")
    wrong = {k: (v, got[k]) for k, v in sums.items() if abs(v - got[k]) > 1e-9 * v}
    equal(dict(list(wrong.items())[:8]), {}, "calls in the buckets, and counted")
    missed = [k for k, v in got.items() if k[0].endswith("_hist_seconds_count") and v and k not in sums]
    equal(missed, [], "histograms with calls and no buckets")


def same_quantiles(receiver, when, page):
    compared = 0
    for name in sorted(durations(page)):
        many = {ls for (n, ls), v in page.items() if n == f"{name}_seconds_count" and v >= 1000}
        for q in ("0.5", "0.99"):
            found = receiver.query(f"histogram_quantile({q}, {name}_hist_seconds_bucket)", when) if many else {}
            for labels in many:
                ours = page[f"{name}_seconds", labels | {("quantile", q)}]
                theirs = found.get(labels, 0)
                check(abs(theirs - ours) <= WITHIN * ours, f"{q} of {name} {set(labels)}: {theirs}, not {ours}")
                compared += 1
    check(compared >= 16, f"{compared} quantiles")
    return compared


@test
def a_receiver_has_all_that_the_page_has():
    receiver = Receiver()
    daemon = pushing(receiver)
    when, page, metrics = page_and_export(receiver, daemon)
    got = {named(m): v for m, v in metrics if not m["__name__"].endswith("_bucket")}
    want = wanted(page)
    equal({n for n, _ in got} ^ {n for n, _ in want}, set(), "metrics that only one of both has")
    check(len({n for n, _ in want}) > 80, "metrics")
    of_whom([m for m, _ in metrics], daemon, page)
    same_values(got, want)
    known_values(got)
    buckets_add_up(metrics, got)
    quantiles = same_quantiles(receiver, when, page)
    equal(daemon.metrics().lost(), {}, "losses")
    print(f"{len(got)} series of {len({n for n, _ in got})} names, {len(metrics) - len(got)} buckets, {quantiles} "
          f"quantiles")


def counts(daemon):
    return {dict(ls)["result"]: v for (n, ls), v in daemon.metrics().items()
            if n == "zernel_outbound_requests_total" and ("to", "otlp") in ls}


def waiting(daemon):
    return daemon.metrics().one("zernel_outbound_queue", to="otlp")


@test
def a_receiver_that_was_killed_gets_what_waited():
    receiver = Receiver()
    daemon = pushing(receiver, expect=["sender: otlp "])
    wait_until(lambda: len(receiver.exports()) >= 3, "exports", PATIENCE)
    receiver.process.kill()
    killed = time.time() * 1000
    queued = waiting(daemon)
    # what was made before may be on its way to the process that sends, for as long as that has no CPU
    wait_until(lambda: waiting(daemon) >= queued + 3, "exports made after that", PATIENCE)
    wait_until(lambda: counts(daemon)["retried"] >= 2, "tries", PATIENCE)
    equal(daemon.metrics().one("zernel_outbound_down", to="otlp"), 1, "receivers that are down")
    before = counts(daemon)["ok"]
    again = time.time() * 1000
    receiver.start()
    wait_until(lambda: len([t for t in receiver.exports() if t > again]) >= 3, "exports after it came back", PATIENCE)
    check(counts(daemon)["ok"] > before, "requests that were taken")
    equal(daemon.metrics().lost(), {}, "losses")
    equal(daemon.metrics().one("zernel_outbound_down", to="otlp"), 0, "receivers that are down")
    check([t for t in receiver.exports() if killed < t < again],
        "exports of the time without a receiver, sent afterwards")


def nobody_takes(daemon, harm):
    """With a receiver that was stopped or killed: exports wait, one more, and none is taken meanwhile. What it answered
    before that may be read later."""
    def queued(n):
        wait_until(lambda: waiting(daemon) >= n, f"{n} exports that wait", PATIENCE)
        return counts(daemon)["ok"]

    def none_taken():
        taken = queued(2)
        return queued(waiting(daemon) + 1) == taken
    wait_until(none_taken, f"no request being taken under {harm}", PATIENCE)


@test
def a_daemon_ends_whatever_its_receiver_does():
    receiver = Receiver()
    for harm in (None, signal.SIGSTOP, signal.SIGKILL):
        daemon = pushing(receiver, expect=["sender: otlp "] if harm == signal.SIGKILL else [],
                         allow=["sender: otlp "] if harm == signal.SIGSTOP else [])  # it has 10 s for its answer
        wait_until(lambda: counts(daemon)["ok"] >= 1, "an export", PATIENCE)
        if harm:
            receiver.process.process.send_signal(harm)
            nobody_takes(daemon, harm)
        start = time.monotonic()
        equal(daemon.end(), 0, f"exit status with a receiver under {harm}")
        check(time.monotonic() - start < 30, "it ends soon")
        receiver.process.process.send_signal(signal.SIGCONT)
    receiver.process.kill()


if __name__ == "__main__":
    main(root=False)
