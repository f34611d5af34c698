#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""--simulate, with and without root, and the memory alert. That equal seeds give equal figures is sim_test.c's
business."""
import os
import re
import time

from harness import (CUDA, NOBODY, ZERNEL, ZERNELD, Actor, Daemon, check, copy_of, equal, main, need, run, test,
                     test_simulated,
                     wait_until)

AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def look_at_simulated(daemon):
    """The figures are those that the simulation promises, and marked as made up in every answer."""
    def settled():
        snapshot = daemon.json()
        return snapshot if snapshot["nccl_allreduce_p50_ms"] and snapshot["dataloader_wait_p50_ms"] else None
    snapshot = wait_until(settled, "figures of everything")
    equal((len(snapshot["gpus"]), len(snapshot["processes"])), (4, 8), "GPUs and ranks")
    for key, low, high in (("cuda_latency_p50_us", 120, 170), ("nccl_allreduce_p50_ms", 33, 69),
                           ("nccl_allreduce_p99_ms", 33, 69), ("dataloader_wait_p50_ms", 6, 10)):
        check(low <= snapshot[key] <= high, f"{key} is {snapshot[key]}")
    check(snapshot["cuda_latency_p99_us"] > snapshot["cuda_latency_p50_us"], "there are spikes")
    for path in ("/json", "/alerts", "/health"):
        equal(daemon.json(path)["source"], "simulated", f"source in {path}")
    metrics = daemon.metrics()
    equal(metrics.one("zernel_build_info", source="simulated"), 1, "source in /metrics")
    equal((metrics.all("zernel_probe_attached"), metrics.lost()), ({}, {}), "probes, and what was lost")
    for gpu in snapshot["gpus"]:
        check(0 < gpu["used_bytes"] <= gpu["total_bytes"], f"memory of {gpu}")
        used = metrics.all("zernel_gpu_memory_used_bytes", gpu_id=gpu["gpu_id"])
        equal(len(used), 2, "ranks on each GPU")


@test_simulated
def simulated_figures():
    look_at_simulated(Daemon("--simulate"))


@test_simulated
def simulating_needs_no_root():
    need("setpriv")
    binary = copy_of(ZERNELD, "zerneld")
    daemon = Daemon("--simulate", argv=[*AS_NOBODY, binary])
    equal(os.stat(f"/proc/{daemon.pid}").st_uid, NOBODY, "whose process it is")
    look_at_simulated(daemon)
    got = run([ZERNEL, "watch", f"http://127.0.0.1:{daemon.port}", "--once"])
    check(got.returncode == 0 and "simulated" in got.stdout.lower(), f"watch says so: {got.stdout}")


@test_simulated
def simulated_launches_go_on():
    """Launches rise, and a rate is shown that fits what was counted in the meantime."""
    daemon = Daemon("--simulate", "--simulate-seed", "17", "--push-interval-ms", "500")
    wait_until(lambda: daemon.json()["processes"][0]["launch"]["rate"], "a rate")
    begin = daemon.json()
    first = {p["pid"]: p["launch"]["count"] for p in begin["processes"]}

    def last():
        end = daemon.json()
        return {p["pid"]: p["launch"] for p in end["processes"]}, end["last_update_ms"]

    wait_until(lambda: last()[1] - begin["last_update_ms"] > 5000, "five seconds")
    launches, end_ms = last()
    for pid, launch in launches.items():
        more = (launch["count"] - first[pid]) * 1000 / (end_ms - begin["last_update_ms"])
        check(more > 0 and more / 3 < launch["rate"] < more * 3, f"{pid}: {more}/s were counted, and {launch} is said")
    equal(daemon.json()["interval_ms"], 500, "interval")


@test_simulated
def jobs_are_the_same_in_every_form():
    daemon = Daemon("--simulate", "--push-interval-ms", "100")
    wait_until(lambda: all(j["nccl_bytes"] and any(g["busy_s"] for g in j["gpus"]) for j in daemon.json()["jobs"]),
        "figures of two jobs")
    before, metrics, after = daemon.json(), daemon.metrics(), daemon.json()
    for p in before["processes"]:
        named = {dict(labels).get("job_id") for _, labels in metrics if dict(labels).get("pid") == str(p["pid"])}
        equal(named, {p["job_id"]}, f"the job of {p['pid']} in /metrics")
    equal({p["job_id"] for p in before["processes"]}, {j["job_id"] for j in before["jobs"]}, "jobs of the processes")
    for job, later in zip(before["jobs"], after["jobs"]):
        job_id = job["job_id"]
        for name, key in (("zernel_job_launches_total", "launches"), ("zernel_job_nccl_bytes_total", "nccl_bytes")):
            check(job[key] <= metrics.one(name, job_id=job_id) <= later[key], f"{name} of {job_id}")
        equal(metrics.one("zernel_job_processes", job_id=job_id), job["processes"], "processes")
        equal(metrics.one("zernel_job_info", job_id=job_id, user=job["user"], nodes=job["nodes"]), 1, "who it is")
        for gpu, now in zip(job["gpus"], later["gpus"]):
            for name, key in (("zernel_job_gpu_busy_seconds_total", "busy_s"),
                    ("zernel_job_gpu_idle_seconds_total", "idle_s")):
                check(gpu[key] <= metrics.one(name, job_id=job_id, gpu_id=gpu["gpu_id"]) <= now[key],
                    f"{name} of {gpu}")
        narrowed = daemon.json(f"/json?job={job_id}")
        equal([j["job_id"] for j in narrowed["jobs"]], [job_id], "the only job")
        equal({p["job_id"] for p in narrowed["processes"]}, {job_id}, "the processes of one job")
        equal(len(narrowed["processes"]), job["processes"], "all of them")
    unused = [g["gpu_id"] for job in after["jobs"] for g in job["gpus"] if g["idle_s"] and not g["busy_s"]]
    equal(unused, ["4"], "GPUs that their job does not use")
    equal([len(daemon.json("/json?job=1")[key]) for key in ("jobs", "processes")], [0, 0], "of a job that is not there")


# ---- the memory alert, of real calls


def alert_state(daemon):
    return daemon.metrics().one("zernel_alert_state", alert="gpu_oom_warning")


def said(daemon, what):
    return sum(bool(re.search(what, line)) for line in daemon.lines())


def shown_alert(daemon, state):
    """The alert as /alerts and the snapshot have it."""
    for path in ("/alerts", "/json"):
        alerts = daemon.json(path)["alerts"]
        equal([(a["alert"], a["severity"], a["state"], a["gpu_id"]) for a in alerts],
              [("gpu_oom_warning", "critical", state, "0")], f"alerts in {path}")
        equal((alerts[0]["value"], alerts[0]["threshold"], alerts[0]["unit"]), (0.97, 0.95, "ratio"), "value and threshold")


@test
def the_memory_alert_fires_once_and_is_resolved():
    daemon = Daemon("--push-interval-ms", "100", expect=["alert gpu_oom_warning"])
    actor = Actor(("cuda", CUDA), env={"FAKE_CUDA_TOTAL_MB": "1000"})
    daemon.attached(CUDA)
    actor.do("ready(cuda); ok(cuda.cuDeviceTotalMem_v2(byref(c_size_t()), 0)); most = alloc(cuda, 900 << 20)")
    wait_until(lambda: daemon.metrics().one("zernel_gpu_memory_used_ratio", gpu_id="0") == 0.9, "the ratio")
    time.sleep(0.3)
    equal(alert_state(daemon), 0, "state at 90 %")
    start = time.monotonic()
    actor.do("rest = alloc(cuda, 70 << 20)")
    wait_until(lambda: alert_state(daemon) == 1, "pending")
    shown_alert(daemon, "pending")
    wait_until(lambda: alert_state(daemon) == 2, "firing")
    check(time.monotonic() - start >= 9.9, "not before it held for 10 s")
    shown_alert(daemon, "firing")
    actor.do("ok(cuda.cuMemFree_v2(rest))")
    wait_until(lambda: alert_state(daemon) == 0, "resolved")
    equal((daemon.json("/alerts")["alerts"], daemon.json()["alerts"]), ([], []), "alerts")
    equal((said(daemon, "gpu_oom_warning.*fires"), said(daemon, "gpu_oom_warning.*resolved")), (1, 1), "lines")


@test
def memory_that_was_full_only_for_a_moment_is_no_alert():
    daemon = Daemon("--push-interval-ms", "100")
    actor = Actor(("cuda", CUDA), env={"FAKE_CUDA_TOTAL_MB": "1000"})
    daemon.attached(CUDA)
    actor.do("ready(cuda); ok(cuda.cuDeviceTotalMem_v2(byref(c_size_t()), 0)); most = alloc(cuda, 970 << 20)")
    wait_until(lambda: alert_state(daemon) == 1, "pending")
    actor.do("ok(cuda.cuMemFree_v2(most))")
    wait_until(lambda: alert_state(daemon) == 0, "inactive")
    equal(said(daemon, "gpu_oom_warning"), 0, "lines in the log")


if __name__ == "__main__":
    main()
