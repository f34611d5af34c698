#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""/metrics in Protocol Buffers, read with Prometheus' own definitions, and by Prometheus with native histograms.
"""
import glob
import importlib.util
import math
import os
import re
import socket
import time
import urllib.request

from clients import api, await_up, need_module, prometheus
from harness import (CUDA, PATIENCE, Absent, Actor, Daemon, check, copy_of, equal, folder, main, need,
                     parse_metrics,
                     run, test, test_simulated,
                     wait_until)

ACCEPT = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
MODEL = "/usr/share/gocode/src/github.com/prometheus/client_model"
# what differs between two scrapes in a row, whatever is measured
OWN = re.compile(r"process_|zernel_http_|zernel_scrape_|zernel_probe_run_")
WITHIN = 0.032


def definitions():
    """The module that protoc makes of Prometheus' definitions."""
    place = folder()
    source = os.path.join(MODEL, "io/prometheus/client/metrics.proto")
    if not os.path.exists(source):
        raise Absent(f"{source} (golang-github-prometheus-client-model-dev)")
    got = run([need("protoc"), "-I", MODEL, "-I", "/usr/include", f"--python_out={place}",
        "io/prometheus/client/metrics.proto"])
    equal((got.returncode, got.stderr), (0, ""), "protoc")
    made = glob.glob(f"{place}/**/metrics_pb2.py", recursive=True)
    spec = importlib.util.spec_from_file_location("metrics_pb2", made[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = []


def model():
    if not MADE:
        MADE.append(definitions())
    return MADE[0]


def get(daemon):
    request = urllib.request.Request(f"http://127.0.0.1:{daemon.port}/metrics", headers={"Accept": ACCEPT})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        kind = answer.headers["Content-Type"].replace(" ", "")
        equal(kind, ACCEPT, "its type")
        return answer.read()


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 128:
            return value, at


def families(data):
    """Each message behind its length; nothing in them is unknown to the definitions but the unit, which is newer."""
    at, found = 0, []
    while at < len(data):
        length, at = varint(data, at)
        family = model().MetricFamily.FromString(data[at:at + length])
        equal(at + length <= len(data), True, "a whole message")
        found.append(family)
        at += length
    equal(len({f.name for f in found}), len(found), "families, and families that differ")
    return found


def shown(value):
    """A limit or a quantile as the text has it."""
    return "+Inf" if math.isinf(value) else f"{value:.12g}"


def samples(family):
    """[(name, labels, value)] as the text would have them."""
    out, kind = [], model().MetricType.Name(family.type)
    for m in family.metric:
        labels = [(p.name, p.value) for p in m.label]

        def add(suffix, value, *more):
            out.append((family.name + suffix, (*labels, *more), value))
        if kind == "COUNTER":
            add("", m.counter.value)
        elif kind == "GAUGE":
            add("", m.gauge.value)
        elif kind == "SUMMARY":
            for q in m.summary.quantile:
                add("", q.value, ("quantile", shown(q.quantile)))
            add("_sum", m.summary.sample_sum)
            add("_count", m.summary.sample_count)
        else:
            equal(kind, "HISTOGRAM", family.name)
            for b in m.histogram.bucket:
                add("_bucket", b.cumulative_count, ("le", shown(b.upper_bound)))
            add("_bucket", m.histogram.sample_count, ("le", "+Inf"))
            add("_sum", m.histogram.sample_sum)
            add("_count", m.histogram.sample_count)
    return out


def native(h):
    """[(lower, upper, count)] of a native histogram in seconds, ascending, the bucket of zero first."""
    deltas, at, index, count = list(h.positive_delta), 0, 0, 0
    out = [(0, h.zero_threshold, h.zero_count)]
    for span in h.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += deltas[at]
            check(count >= 0, "no bucket has less than nothing")
            out.append((2 ** ((index - 1) / 2 ** h.schema), 2 ** (index / 2 ** h.schema), count))
            at, index = at + 1, index + 1
    equal(at, len(deltas), "deltas, and buckets of the spans")
    equal(sum(n for _, _, n in out), h.sample_count, "what is in all buckets")
    check(all(a[0] < b[0] for a, b in zip(out, out[1:])), "buckets ascend")
    return out


def quantile(buckets, q):
    """As histogram_quantile() has it: in proportion within the bucket."""
    rank, seen = q * sum(n for _, _, n in buckets), 0
    for lower, upper, n in buckets:
        if n and seen + n >= rank:
            return lower + (upper - lower) * (rank - seen) / n
        seen += n
    raise AssertionError("an empty histogram")


def in_a_row(daemon, *accepts):
    """Bodies of /metrics in these forms, asked for at once, so that the daemon answers them one right after the
    other."""
    with socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as s, s.makefile("rb") as file:
        s.sendall("".join(f"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: {a}\r\n\r\n" for a in accepts).encode())
        for _ in accepts:
            head = b"".join(iter(file.readline, b"\r\n")).decode()
            check(head.startswith("HTTP/1.1 200 "), head)
            yield file.read(int(re.search(r"(?i)content-length: *(\d+)", head)[1]))


def steady(daemon):
    """(text, families) of the same moment: the text before and after is the same."""
    def text(body):
        return {k: v for k, v in parse_metrics(body.decode()).items() if not OWN.match(k[0])}

    def look():
        before, got, after = in_a_row(daemon, "text/plain", ACCEPT, "text/plain")
        return (text(before), families(got)) if text(before) == text(after) else None
    return wait_until(look, "two pages of one moment")


@test_simulated
def messages_say_what_the_text_says():
    daemon = Daemon("--simulate")
    wait_until(lambda: daemon.metrics().all("zernel_nccl_calls_total"), "data")
    text, got = steady(daemon)
    pairs = [((name, labels), v) for f in got for name, labels, v in samples(f) if not OWN.match(name)]
    equal(len(dict(pairs)), len(pairs), "series, and series that differ")
    ours = {(name, frozenset(labels)): v for (name, labels), v in pairs}
    theirs = {(name, frozenset(labels)): v for (name, labels), v in text.items()}
    equal(set(ours), set(theirs), "series")
    check(len(ours) > 500, f"{len(ours)} of them")
    for key, value in theirs.items():
        equal(ours[key], value, f"{key}")


@test_simulated
def messages_know_kinds_and_beginnings():
    daemon = Daemon("--simulate")
    wait_until(lambda: daemon.metrics().all("zernel_nccl_calls_total"), "data")
    text, data = in_a_row(daemon, "text/plain", ACCEPT)
    lines = text.decode().split("\n")
    kinds = {line.split(" ")[2]: line.split(" ")[3].upper() for line in lines if line.startswith("# TYPE ")}
    helps = {line.split(" ", 3)[2]: line.split(" ", 3)[3] for line in lines if line.startswith("# HELP ")}
    for family in families(data):
        equal(model().MetricType.Name(family.type), kinds[family.name], family.name)
        equal(family.help, helps[family.name], f"help of {family.name}")
        check(family.metric, f"{family.name} has a series")
        if family.type == model().HISTOGRAM:
            check(all(m.histogram.schema == 5 for m in family.metric), "the schema")


@test
def messages_of_a_live_process():
    """Names that a user chose, probes and their calibration included."""
    daemon = Daemon()
    library = copy_of(CUDA, 'quo"te\\/libcuda.so.1')
    actor = Actor(("cuda", library))
    daemon.attached(library)
    actor.do("ready(cuda); alloc(cuda, 4096); launch(cuda, 7)")
    wait_until(lambda: daemon.metrics().one("zernel_cuda_launches_total", pid=str(actor.pid)) == 7, "launches")

    def compare():
        text = {(n, frozenset(ls)): v for (n, ls), v in parse_metrics(daemon.get("/metrics")).items()
            if not OWN.match(n)}
        ours = {(n, frozenset(ls)): v for f in families(get(daemon)) for n, ls, v in samples(f) if not OWN.match(n)}
        return (text, ours) if set(text) == set(ours) else None
    text, ours = wait_until(compare, "the same series in both")
    check({"zernel_probe_attached", "zernel_probe_bias_seconds"} <= {n for n, _ in ours}, "probes")
    mine = [k for k in text if ("pid", str(actor.pid)) in k[1] and k[0].startswith(("zernel_cuda_", "zernel_gpu_"))]
    check(mine, "series of the process")
    for key in mine:
        equal(ours[key], text[key], f"{key}")


@test_simulated
def native_histograms_have_the_quantiles_of_the_summaries():
    daemon = Daemon("--simulate")
    wait_until(lambda: max(daemon.metrics().all("zernel_dataloader_wait_seconds_count").values(), default=0) >= 30,
        "data")
    _, got = steady(daemon)
    by_name, compared = {f.name: f for f in got}, 0
    for family in got:
        if family.type != model().HISTOGRAM:
            continue
        summaries = by_name[family.name.replace("_hist_seconds", "_seconds")].metric
        equal(len(family.metric), len(summaries), family.name)
        for h, s in zip(family.metric, summaries):
            equal([(p.name, p.value) for p in h.label], [(p.name, p.value) for p in s.label], "labels")
            buckets = native(h.histogram)
            for q in s.summary.quantile:
                if s.summary.sample_count * (1 - q.quantile) < 10:
                    # the largest of a few: the summary is clipped to the largest time, which buckets do not know
                    continue
                found = quantile(buckets, q.quantile)
                check(abs(found / q.value - 1) <= WITHIN, f"{family.name} {q.quantile}: {found}, not {q.value}")
                compared += 1
    check(compared > 30, f"{compared} quantiles")


def by_labels(result):
    drop = ("__name__", "quantile")
    return {frozenset((k, v) for k, v in r["metric"].items() if k not in drop): float(r["value"][1]) for r in result}


@test_simulated
def prometheus_takes_native_histograms():
    daemon = Daemon("--simulate")
    process, server = prometheus(daemon, "--enable-feature=native-histograms")
    equal(await_up(server)["lastError"], "", "what is wrong with the target")
    name = "zernel_cuda_launch_latency"
    wait_until(lambda: api(server, "query", query=f"histogram_count({name}_hist_seconds) > 20000")["result"],
        "a native histogram")
    wait_until(lambda: api(server, "query", query="up == 1")["result"], "up")
    equal(api(server, "query", query=f"{name}_hist_seconds_bucket")["result"], [], "classic buckets besides")
    # a scrape that took too long leaves no series until the next one; at its own time each one has all of them
    stamp = wait_until(lambda: api(server, "query", query=f"timestamp({name}_hist_seconds)")["result"],
        "a series that is there")[0]["value"][1]
    for q in ("0.5", "0.99"):
        summary = by_labels(api(server, "query", query=f'{name}_seconds{{quantile="{q}"}}', time=stamp)["result"])
        found = by_labels(api(server, "query", query=f"histogram_quantile({q}, {name}_hist_seconds)",
            time=stamp)["result"])
        equal(set(found), set(summary), "series")
        equal(len(found), 8, "ranks")
        for key, value in summary.items():
            check(abs(found[key] / value - 1) <= WITHIN, f"{q} of {set(key)}: {found[key]}, not {value}")
    for what in ("count", "sum"):
        summary = by_labels(api(server, "query", query=f"{name}_seconds_{what}", time=stamp)["result"])
        equal(by_labels(api(server, "query", query=f"histogram_{what}({name}_hist_seconds)", time=stamp)["result"]),
            summary, what)
    wait_until(lambda: api(server, "query",
        query=f"histogram_quantile(0.99, sum(rate({name}_hist_seconds[10s])))")["result"], "a rate")
    process.kill()


@test_simulated
def the_slowest_requests_are_exemplars():
    """By the client library's own reader, and kept by Prometheus."""
    daemon = Daemon("--simulate", "--simulate-scenario", "server")
    process, server = prometheus(daemon, "--enable-feature=exemplar-storage")
    parser = need_module("prometheus_client.openmetrics.parser")

    def exemplars():
        text = daemon.get("/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})
        return [s for f in parser.text_string_to_metric_families(text) for s in f.samples if s.exemplar]
    for sample in wait_until(exemplars, "exemplars"):
        labels, limit = sample.exemplar.labels, float(sample.labels["le"])
        check(sample.name in ("zernel_request_duration_hist_seconds_bucket",
                              "zernel_request_first_event_hist_seconds_bucket"), sample.name)
        check(limit / 2 <= sample.exemplar.value <= limit or limit < 0.0011, f"{sample.exemplar.value} in {limit}")
        check(set(labels) <= {"waited", "events", "work"} and labels["work"] in ("alone", "shared"), labels)
        check(abs(float(sample.exemplar.timestamp) - time.time()) < 120, sample.exemplar.timestamp)

    def kept():
        series = api(server, "query_exemplars", query="zernel_request_duration_hist_seconds_bucket",
            start=str(time.time() - 300), end=str(time.time() + 60))
        return [e for s in series for e in s["exemplars"]]
    found = wait_until(kept, "exemplars in Prometheus")
    check(all("engine waiting for the GPU" in e["labels"]["waited"] for e in found), found)
    process.kill()


if __name__ == "__main__":
    main()
