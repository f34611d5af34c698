#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""--simulate, with and without root, and the memory alert. That equal seeds give equal figures is sim_test.c's business."""
import os
import re
import time

from harness import (CUDA, NOBODY, ZERNEL, ZERNELD, Actor, Daemon, check, copy_of, equal, main, need, run, test,
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


@test
def simulated_figures():
    look_at_simulated(Daemon("--simulate"))


@test
def simulating_needs_no_root():
    need("setpriv")
    binary = copy_of(ZERNELD, "zerneld")
    daemon = Daemon("--simulate", argv=[*AS_NOBODY, binary])
    equal(os.stat(f"/proc/{daemon.pid}").st_uid, NOBODY, "whose process it is")
    look_at_simulated(daemon)
    got = run([ZERNEL, "watch", f"http://127.0.0.1:{daemon.port}", "--once"])
    check(got.returncode == 0 and "simulated" in got.stdout.lower(), f"watch says so: {got.stdout}")


@test
def simulated_launches_go_on():
    """Launches rise, and a rate is shown that fits what was counted in the meantime."""
    daemon = Daemon("--simulate", "--simulate-seed", "17", "--push-interval-ms", "500")
    wait_until(lambda: daemon.json()["processes"][0]["launch"]["rate"], "a rate")
    first = {p["pid"]: p["launch"]["count"] for p in daemon.json()["processes"]}
    wait_until(lambda: all(p["launch"]["count"] > first[p["pid"]] for p in daemon.json()["processes"]), "more launches")
    equal(daemon.json()["interval_ms"], 500, "interval")


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
        equal((alerts[0]["value"], alerts[0]["threshold"]), (0.97, 0.95), "value and threshold")


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
