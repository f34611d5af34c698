#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Both text formats as other people's strict readers see them, over names that a hostile user chose, over processes
that come and go, and over none at all: promtool, and the parsers of Prometheus' Python client for text 0.0.4 and
OpenMetrics.
"""
import json
import os
import re

from clients import need_module
from harness import (CUDA, NCCL, ROOT, ZERNELD, Actor, Daemon, Driver, check, copy_of, equal, folder, main, need,
                     parse_metrics, run, test, test_simulated, wait_until)

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
PATHS = [b'quo"te', b"back\\slash\\", b"new\nline", b"raw\xff\xc3", b'} 1\nzernel_forged{x="', b"\x01\x7f\r\t"]
DEVICES = ['GPU-"\\', "GPU-\n# EOF\n", "GPU-\udcff\udcfe", "MIG-} 1"]


def sample_lines(text):
    return [line for line in text.split("\n") if line and not line.startswith("#")]


def samples_of(families):
    """{(name, labels): value}; a series that is there twice is an error, although the parsers let it pass."""
    found = [((s.name, frozenset(s.labels.items())), s.value) for family in families for s in family.samples]
    equal(len(dict(found)), len(found), "series, and series that differ")
    return dict(found)


def read_text(text):
    parser = need_module("prometheus_client.parser")
    check("_created" not in re.sub(r'"(\\.|[^"\\])*"', "", text), "text 0.0.4 knows no _created")
    got = run([need("promtool"), "check", "metrics"], input=text)
    equal((got.returncode, got.stdout, got.stderr), (0, "", ""), "promtool check metrics")
    ours = parse_metrics(text)
    theirs = samples_of(parser.text_string_to_metric_families(text))
    equal(len(theirs), len(sample_lines(text)), "samples that the client library reads")
    # it sets no great store by the difference between \n and a newline, so that labels are compared by our own reader
    equal({name for name, _ in theirs}, {name for name, _ in ours}, "names of the samples")
    return ours


def read_openmetrics(text):
    parser = need_module("prometheus_client.openmetrics.parser")
    families = list(parser.text_string_to_metric_families(text))
    equal(len({f.name for f in families}), len(families), "families, and families that differ")
    check("unknown" not in {f.type for f in families}, "each sample is of a family that has a type")
    for family in families:
        unit = re.search(r"_(seconds|bytes|ratio)$", family.name)
        equal(family.unit, unit[1] if unit else "", f"unit of {family.name}")
    samples = samples_of(families)
    equal(len(samples), len(sample_lines(text)), "samples that the client library reads")
    return samples


# what drivers and the kernel count, since before the daemon
OF_DRIVERS = re.compile(r"zernel_gpu_(ecc_errors|pcie_errors|pcie_replays|nvlink_bytes|energy_joules)_total")


def created_agree(samples):
    """Each counter, sum and bucket of the daemon's own has its _created, in the past of this machine's clock."""
    wanted = {(re.sub(r"_(total|count)$", "_created", name), labels) for name, labels in samples
              if name.endswith(("_total", "_count")) and not OF_DRIVERS.fullmatch(name)}
    got = {key: value for key, value in samples.items() if key[0].endswith("_created")}
    equal(set(got), wanted, "series that say when they began")
    now = float(run(["date", "+%s"]).stdout)
    check(all(now - 3600 < v <= now + 1 for v in got.values()), "they began within the last hour")


def read_both(daemon):
    """The samples of text 0.0.4, after both formats were read and found to have the same series."""
    text, openmetrics = daemon.get("/metrics"), daemon.get("/metrics", OPENMETRICS)
    plain, modern = read_text(text), read_openmetrics(openmetrics)
    created_agree(modern)
    return plain, {key for key in modern if not key[0].endswith("_created")}


def same_series(daemon):
    plain, modern = wait_until(lambda: (lambda a, b: (a, b) if set(a) == b else None)(*read_both(daemon)),
                               "the same series in both formats")
    equal(set(plain), modern, "series")
    return plain


@test
def nothing_runs():
    daemon = Daemon()
    read_both(daemon)


@test_simulated
def simulated_series_are_the_same_in_both_formats():
    daemon = Daemon("--simulate")
    wait_until(lambda: daemon.metrics().all("zernel_nccl_calls_total"), "data")
    check(len(same_series(daemon)) > 500, "series")


# what is said of single processes, which each node judges itself (zernel_alert_state) and shows on its page
OF_PROCESSES = {"gpu_allocation_failed", "data_starvation", "stalled_on_data", "tcp_retransmits",
                "launch_latency_unusual", "probe_overhead",
                "requests_unusual", "requests_failing", "requests_unread"}
PANELS_OF_PROCESSES = {"Waits for data, longest", "Processes with most switches per launch"}


def names_of_rules(path):
    """Names in expressions of rules, without those of OF_PROCESSES and of records."""
    found = set()
    with open(os.path.join(ROOT, "contrib/prometheus", path)) as f:
        for rule in re.split(r"\n  - (?=alert|record)", f.read())[1:]:
            if rule.split()[1] not in OF_PROCESSES:
                found |= set(re.findall(r"(?<![:\w])zernel_\w+(?!\w*:)",
                    re.sub(r"annotations:.*|- name: \w+", "", rule)))
    return found


def names_of_panels(board):
    """Of the panels of one of the Grafana boards."""
    with open(os.path.join(ROOT, f"docs/grafana/zernel-{board}.json")) as f:
        panels = json.load(f)["panels"]
    queries = [(p["title"], t["expr"]) for p in panels for t in p.get("targets", ())]
    return {name for title, query in queries if title not in PANELS_OF_PROCESSES
            for name in re.findall(r"(?<![:\w])zernel_\w+(?!\w*:)", query.split(" or ")[-1])}


def without_durations(*parts):
    """Metrics of these parts of /metrics that are no summaries, whether there is a series of them now or not."""
    docs = run([ZERNELD, "--docs"]).stdout
    summaries = set(re.findall(r"(?m)^\| `(\w+)` \| summary ", docs))
    lists = [re.search(rf"(?m)^- `{part}`:(.*)", docs)[1] for part in parts]
    return set(re.findall(r"`(\w+)`", "".join(lists))) - summaries


@test_simulated
def jobs_and_nodes_alone_in_300_series():
    daemon = Daemon("--simulate", "--series", "job")
    wait_until(lambda: len(sample_lines(daemon.get("/metrics"))) > 230, "most of the series that there will be")
    series = read_text(daemon.get("/metrics"))
    check(len(series) <= 300, f"{len(series)} series")
    equal({name for name, labels in series if "pid" in dict(labels)}, {"zernel_nccl_rank_info"}, "series of processes")
    families = set(re.findall(r"# TYPE (\S+)", daemon.get("/metrics"))) | without_durations("node", "job")
    for asks, names in (("rules", names_of_rules("zernel.rules.yml")), ("alerts", names_of_rules("zernel.alerts.yml")),
                        ("cluster", names_of_panels("cluster")), ("job", names_of_panels("job"))):
        check(len(names) > 7, f"{asks}: {names}")
        equal({n for n in names if n not in families and re.sub("_(bucket|sum|count)$", "", n) not in families}, set(),
              f"what {asks} ask for and is not there")
    processes = daemon.get("/metrics?collect[]=process")
    check(all("pid=" in line for line in sample_lines(processes)) and "zernel_cuda_launches_total{" in processes,
        "processes")


@test
def a_full_life_in_both_formats():
    daemon = Daemon(expect=["ncclCommAbort"])
    driver = Driver("devices,memory,launches,syncs,copies,nccl", nccl=NCCL)
    daemon.attached(CUDA, NCCL)
    report = driver.start()
    pid = ("pid", str(driver.pid))

    def launches():
        samples = read_openmetrics(daemon.get("/metrics", OPENMETRICS))
        return samples.get(("zernel_cuda_launches_total", frozenset({pid, ("kind", "kernel")})))
    wait_until(lambda: launches() == report["launches"]["kernel"], "launches")
    read_both(daemon)
    driver.end()
    daemon.gone(driver.pid)
    plain, _ = read_both(daemon)
    check(not [key for key in plain if pid in key[1]], "nothing is left of it")


@test
def hostile_names_in_both_formats():
    daemon, place = Daemon(), os.fsencode(folder())
    libraries = [os.path.join(place, name.replace(b"/", b"|"), b"libcuda.so.1") for name in PATHS]
    actors = []
    for i, library in enumerate(libraries):
        copy_of(CUDA, os.path.relpath(library, place).decode(errors="surrogateescape"))
        actors.append(Actor(env={"CUDA_VISIBLE_DEVICES": DEVICES[i % len(DEVICES)]}))
        actors[-1].do(f"cuda = CDLL(os.fsdecode({library!r}))")
        actors[-1].do(f"ok(CDLL(None).prctl(15, {PATHS[i][:15]!r}))")

    def hooked():
        labels = " ".join(dict(ls)["library"] for name, ls in daemon.metrics() if name == "zernel_probe_attached")
        return all(f":{os.stat(library).st_ino}" in labels for library in libraries)
    wait_until(hooked, "probes on all of them")
    for actor in actors:
        actor.do("ready(cuda); alloc(cuda, 4096); launch(cuda, 3)")
    wait_until(lambda: {a.pid for a in actors} <= daemon.metrics().pids(), "processes")
    plain, _ = read_both(daemon)
    shown = "".join(dict(ls)["library"] for name, ls in plain if name == "zernel_probe_attached")
    for name in PATHS:
        seen = name.replace(b"\n", b"\\012").decode(errors="replace")  # as /proc/PID/maps has it
        check(seen in shown, f"the path {name!r}")
    check("zernel_forged" not in {name for name, _ in plain}, "nothing is forged")


@test
def processes_come_and_go():
    daemon, seen = Daemon(), set()
    for _ in range(7):
        actor = Actor(("cuda", CUDA))
        daemon.attached(CUDA)
        actor.do("ready(cuda); alloc(cuda, 4096); launch(cuda, 5)")
        read_both(daemon)
        wait_until(lambda: daemon.metrics().one("zernel_cuda_launches_total", pid=str(actor.pid)) == 5, "launches")
        seen.add(actor.pid)
        actor.end()
        read_both(daemon)
    daemon.gone(*seen)
    equal(len(seen), 7, "processes")


if __name__ == "__main__":
    main()
