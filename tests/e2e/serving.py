#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What other people's programs make of the answers: Prometheus and its tool, JSON readers, a WebSocket client, and
`zernel watch`.
"""
import os
import subprocess
import urllib.error

from clients import need_module, read_snapshots
from figures import shown
from harness import (CUDA, NCCL, ZERNEL, Daemon, Driver, Process, check, equal, folder, free_port, main, need,
                     parse_json,
                     run, test, test_simulated, test_timed, wait_until)

STARRED = ["gpu_utilization", "cuda_latency_p50_us", "cuda_latency_p99_us", "nccl_allreduce_p50_ms",
           "nccl_allreduce_p99_ms", "dataloader_wait_p50_ms", "last_update_ms"]
REST = ["node", "source", "version", "uptime_s", "interval_ms", "gpu_ioctl", "energy_joules", "history", "alerts", "why", "gpus", "ports", "lost", "probes",
        "jobs", "io", "servers", "processes"]
PROCESS = ["pid", "comm", "job_id", "gpus", "pinned_bytes", "memory_complete", "launch", "sync", "nccl", "dataloader",
           "stalls", "signals",
           "io", "anomalies", "startup", "cuda_errors"]  # the last: the driver fails some calls on purpose


def busy_daemon():
    """One with something in every family, and the driver that made it."""
    daemon = Daemon(expect=["ncclCommAbort"])
    driver = Driver("devices,memory,launches,syncs,copies,nccl", nccl=NCCL)
    daemon.attached(CUDA, NCCL)
    report = driver.start()
    shown(daemon, report)
    return daemon, driver, report


def promtool_is_silent(text):
    got = run([need("promtool"), "check", "metrics"], input=text)
    equal((got.returncode, got.stdout, got.stderr), (0, "", ""), "promtool check metrics")


@test
def promtool_has_nothing_to_say():
    daemon, _, _ = busy_daemon()
    promtool_is_silent(daemon.get("/metrics"))


@test_simulated
def promtool_has_nothing_to_say_of_simulated_data():
    daemon = Daemon("--simulate")
    wait_until(lambda: daemon.metrics().all("zernel_nccl_calls_total"), "data")
    promtool_is_silent(daemon.get("/metrics"))


@test
def prometheus_scrapes_and_answers():
    daemon, driver, report = busy_daemon()
    port, place = free_port(), folder()
    with open(os.path.join(place, "prometheus.yml"), "w") as f:
        f.write(f"global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: node\n  static_configs:\n"
                f"  - targets: ['127.0.0.1:{daemon.port}']\n")
    prometheus = Process([need("prometheus"), f"--config.file={place}/prometheus.yml",
                          f"--storage.tsdb.path={place}/data",
                          f"--web.listen-address=127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
    server = f"http://127.0.0.1:{port}"

    def ask(query):
        got = run([need("promtool"), "query", "instant", server, query])
        return got.stdout.split()[-2] if got.returncode == 0 and got.stdout.strip() else None
    wait_until(lambda: ask("zernel_build_info") == "1", "a first scrape")
    pid = driver.pid
    queries = {f'zernel_cuda_launches_total{{pid="{pid}",kind="kernel"}}': report["launches"]["kernel"],
               f'zernel_gpu_memory_used_bytes{{pid="{pid}",gpu_id="1"}}': report["used"]["1"],
               f'zernel_nccl_bytes_total{{pid="{pid}",op="all_to_all"}}': report["nccl"]["all_to_all"]["bytes"],
               f'sum(zernel_cuda_sync_seconds_count{{pid="{pid}"}})': sum(report["syncs"].values()),
               f'zernel_cuda_launch_latency_hist_seconds_bucket{{pid="{pid}",le="+Inf"}}': 145,
               f'count(zernel_cuda_launch_latency_hist_seconds_created{{pid="{pid}"}})': 1,  # it asks for OpenMetrics
               'up': 1}

    def answers():
        return {q: float(ask(q) or "nan") for q in queries}
    # a scrape that takes longer than its second leaves no series until the next one
    wait_until(lambda: answers() == queries, f"Prometheus answering {queries}", seen=answers)
    prometheus.kill()


@test
def openmetrics_is_read_by_its_reference_parser():
    parser = need_module("prometheus_client.openmetrics.parser")
    daemon, driver, report = busy_daemon()

    def names():
        return {n for n, _ in daemon.metrics()}

    def scrape():
        """In a moment in which no metric came or went: its text, and the names in the other format."""
        before = names()
        text = daemon.get("/metrics", {"Accept": "application/openmetrics-text; version=1.0.0"})
        return (text, before) if names() == before else None
    text, plain = wait_until(scrape, "a moment without news")
    check(text.endswith("\n# EOF\n"), "the end of the text")
    samples = {(s.name, tuple(sorted(s.labels.items()))): s.value
               for family in parser.text_string_to_metric_families(text) for s in family.samples}
    key = "zernel_cuda_launches_total", (("kind", "kernel"), ("pid", str(driver.pid)))
    equal(samples[key], report["launches"]["kernel"], "launches")
    equal({n for n, _ in samples if not n.endswith("_created")}, plain, "names of the samples in both formats")


@test
def json_is_read_by_everybody():
    daemon, driver, _ = busy_daemon()
    for path in ("/json", "/alerts", "/health"):
        text = daemon.get(path)
        parse_json(text)
        got = run([need("jq"), "-r", ".node"], input=text)
        equal((got.returncode, got.stdout.strip()), (0, os.uname().nodename), f"jq of {path}")
        got = run([need("node"), "-e", "process.stdout.write(JSON.parse(require('fs').readFileSync(0)).source)"],
                  input=text)
        equal((got.returncode, got.stdout), (0, "live"), f"node of {path}")
    equal(daemon.json("/health")["status"], "ok", "health")
    snapshot = daemon.json()
    equal(list(snapshot), STARRED + REST, "keys of the snapshot, in order")
    equal(list(snapshot["processes"][0]), PROCESS, "keys of a process, in order")
    equal([list(u) for u in snapshot["gpu_utilization"]], [["key", "current_bytes", "peak_bytes"]] * 4, "utilization")
    check(all(isinstance(snapshot[k], float) for k in STARRED[1:6]), "quantiles are written as decimals")


@test_timed
def a_websocket_client_gets_a_snapshot_at_once_and_then_one_each_second():
    daemon, driver, report = busy_daemon()
    for port, path in ((daemon.ws_port, "/"), (daemon.port, "/ws")):
        got = read_snapshots(port, path, 4)
        times = [at for at, _ in got]
        check(times[0] < 0.9, f"the first one comes before the next tick could be due: {times}")
        wall = [s["last_update_ms"] for _, s in got]
        for a, b in zip(wall[1:], wall[2:]):
            check(500 < b - a < 5000, f"one each second: {wall}")
        for _, snapshot in got:
            equal(list(snapshot), STARRED + REST, "keys, in order")
            process = next(p for p in snapshot["processes"] if p["pid"] == driver.pid)
            equal(process["launch"]["kernel"], report["launches"]["kernel"], "launches")
    wait_until(lambda: daemon.metrics().one("zernel_ws_clients") == 0, "no clients")


@test
def unknown_paths_are_not_found():
    daemon = Daemon()
    try:
        daemon.get("/nothing")
        check(False, "an answer")
    except urllib.error.HTTPError as error:
        equal(error.code, 404, "status")
    equal(daemon.metrics().one("zernel_http_requests_total", path="other", code="404"), 1, "requests")


@test
def watch_shows_the_numbers():
    daemon, driver, report = busy_daemon()
    url = f"http://127.0.0.1:{daemon.port}"
    got = run([ZERNEL, "watch", url, "--once", "--json"])
    equal(got.returncode, 0, got.stderr)
    process = next(p for p in parse_json(got.stdout)["processes"] if p["pid"] == driver.pid)
    equal(process["launch"]["kernel"], report["launches"]["kernel"], "launches")
    got = run([ZERNEL, "watch", url, "--once"], env={**os.environ, "COLUMNS": "160", "LINES": "50"})
    equal(got.returncode, 0, got.stderr)
    lines = [line for line in got.stdout.splitlines() if line.split()[:1] == [str(driver.pid)]]
    check(lines and "driver" in lines[0], f"the process: {got.stdout}")


@test
def watch_without_a_daemon_says_so():
    got = run([ZERNEL, "watch", f"http://127.0.0.1:{free_port()}", "--once"])
    equal((got.returncode, got.stdout), (1, ""), "status, and what it shows")
    check(got.stderr.count("\n") == 1 and "Connection refused" in got.stderr, f"one line: {got.stderr!r}")


if __name__ == "__main__":
    main()
