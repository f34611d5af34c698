# SPDX-License-Identifier: GPL-2.0
"""Every figure of the driver's report against /metrics and /json, exactly. Durations are latency.py's business."""
from collections import Counter

from harness import check, equal, wait_until

PLAIN = ["0", "1", "2", "3", "unknown"]  # gpu_id of the driver's ordinals when nothing is said about them
SYNC = "zernel_cuda_sync_seconds_count"


def by(daemon, actor, name, label):
    """{label: value} of a program's series that are not 0."""
    return {dict(k)[label]: v for k, v in daemon.metrics().all(name, pid=str(actor.pid)).items() if v}


def copies(daemon, actor):
    """{direction: (calls, bytes)}."""
    calls, size = (by(daemon, actor, f"zernel_cuda_memcpy_{what}_total", "direction") for what in ("calls", "bytes"))
    return {d: (calls[d], size.get(d, 0)) for d in calls}


def labelled(pid, **labels):
    return frozenset({"pid": str(pid), **labels}.items())


def by_gpu(report, ids, key):
    """{gpu_id: [values of the ordinals that mean it]} of a figure that the driver has for each ordinal."""
    sums = {}
    for gpu_id, ordinal in zip(ids, PLAIN):
        sums.setdefault(gpu_id, []).append(report[key].get(ordinal, 0))
    return sums


def expect_memory(want, r, ids):
    pid, used, peak = r["pid"], by_gpu(r, ids, "used"), by_gpu(r, ids, "peak")
    for gpu_id in dict.fromkeys(ids):
        if any(peak[gpu_id]):
            want["zernel_gpu_memory_used_bytes", labelled(pid, gpu_id=gpu_id)] = sum(used[gpu_id])
            want["zernel_gpu_memory_peak_bytes", labelled(pid, gpu_id=gpu_id)] = peak[gpu_id]
        frees = sum(by_gpu(r, ids, "free_calls")[gpu_id])
        want["zernel_gpu_free_calls_total", labelled(pid, gpu_id=gpu_id)] = frees
        for reason in ("oom", "other"):
            failures = sum(by_gpu(r, ids, "failures_" + reason)[gpu_id])
            want["zernel_gpu_alloc_failures_total", labelled(pid, gpu_id=gpu_id, reason=reason)] = failures
    for what in ("calls", "bytes"):
        for ordinal, kinds in r["alloc_" + what].items():
            for kind, value in kinds.items():
                key = f"zernel_gpu_alloc_{what}_total", labelled(pid, gpu_id=ids[PLAIN.index(ordinal)], kind=kind)
                want[key] = want.get(key, 0) + value
    want["zernel_gpu_host_pinned_bytes", labelled(pid)] = r["pinned"]


def expect_calls(want, r):
    pid = r["pid"]
    for kind, count in r["launches"].items():
        want["zernel_cuda_launches_total", labelled(pid, kind=kind)] = count
    timed = sum(r["launches"].values()) - r["launches"]["captured"]
    want["zernel_cuda_launch_latency_seconds_count", labelled(pid)] = timed
    want["zernel_cuda_launch_errors_total", labelled(pid)] = r["launch_errors"]
    for direction, (calls, size) in r["copies"].items():
        want["zernel_cuda_memcpy_calls_total", labelled(pid, direction=direction)] = calls
        want["zernel_cuda_memcpy_bytes_total", labelled(pid, direction=direction)] = size
    for call, count in r["syncs"].items():
        want[SYNC, labelled(pid, call=call)] = count


def expect_nccl(want, r):
    pid = r["pid"]
    for op, figures in r["nccl"].items():
        for what, value in figures.items():
            want[f"zernel_nccl_{what}_total", labelled(pid, op=op)] = value
    want["zernel_nccl_group_seconds_count", labelled(pid)] = r["nccl_groups"]
    want["zernel_nccl_comm_init_seconds_count", labelled(pid)] = r["comm_inits"] + r["comm_splits"]


def expected(r, ids):
    want = {}
    expect_memory(want, r, ids)
    expect_calls(want, r)
    expect_nccl(want, r)
    return want


def take_peaks(want, got):
    """A peak that several ordinals share is known within limits only: not less than each, not more than all."""
    for key, peaks in list(want.items()):
        if not isinstance(peaks, list):
            continue
        del want[key]
        value = got.pop(key, None)
        check(value is not None and max(peaks) <= value <= sum(peaks), f"{key}: {value}, of {peaks}")


def compare_metrics(metrics, r, ids=PLAIN):
    want = expected(r, ids)
    names = {name for name, _ in want}
    got = {k: v for k, v in metrics.items() if k[0] in names and ("pid", str(r["pid"])) in k[1]}
    take_peaks(want, got)
    gauges = [k for k in want if k[0] == "zernel_gpu_memory_used_bytes"]
    equal({k: got[k] for k in gauges if k in got}, {k: want[k] for k in gauges}, "memory in use")
    equal({k: v for k, v in got.items() if v}, {k: v for k, v in want.items() if v}, "the metrics")
    want_lost = {"unmatched_free": r["unmatched"]} if r["unmatched"] else {}
    equal(metrics.lost(), want_lost, "what was lost")


def compare_json(p, r):
    equal(p["comm"], "driver", "comm")
    equal(p["pinned_bytes"], r["pinned"], "pinned bytes")
    got = {k: v for k, v in p["launch"].items() if k in r["launches"]}
    equal(got, r["launches"], "launches")
    equal(p["launch"]["errors"], r["launch_errors"], "launch errors")
    equal(p["launch"]["count"], sum(r["launches"].values()) - r["launches"]["captured"], "timed launches")
    equal(p["sync"]["count"], sum(r["syncs"].values()), "waits")
    ops = {o["op"]: {k: o[k] for k in ("calls", "bytes", "errors")} for o in p["nccl"]["ops"]}
    equal(ops, {op: f for op, f in r["nccl"].items() if f["calls"]}, "NCCL operations")
    for what in ("calls", "bytes", "errors"):
        equal(p["nccl"][what], sum(f[what] for f in r["nccl"].values()), f"NCCL {what}")


def compare_json_memory(snapshot, r):
    """Of a process whose ordinals are the GPUs."""
    pid = r["pid"]
    want = {g: (r["used"][g], r["peak"][g]) for g in PLAIN if r["peak"][g]}
    process = next(p for p in snapshot["processes"] if p["pid"] == pid)
    got = {g["gpu_id"]: (g["used_bytes"], g["peak_bytes"]) for g in process["gpus"] if g["peak_bytes"]}
    equal(got, want, "memory of the process")
    got = {u["key"]: (u["current_bytes"], u["peak_bytes"]) for u in snapshot["gpu_utilization"]}
    equal(got, {f"{pid}:{g}": v for g, v in want.items()}, "gpu_utilization")


def shown(daemon, r):
    """Waits for what is named a little after the event: GPUs, and the ranks of communicators."""
    pid, peaks = r["pid"], any(r["peak"].values())
    wait_until(lambda: not peaks or daemon.metrics().all("zernel_gpu_memory_peak_bytes", pid=str(pid)), "GPUs named")
    wait_until(lambda: daemon.process_json(pid)["memory_complete"], "its memory known as a whole")
    wait_until(lambda: len(daemon.metrics().all("zernel_nccl_rank_info")) == len(r["comms"]), "ranks shown")


def compare_ranks(daemon, r):
    rows = [dict(rest) for rest in daemon.metrics().all("zernel_nccl_rank_info", pid=str(r["pid"]))]
    want = Counter((str(c["rank"]), str(c["nranks"])) for c in r["comms"])
    equal(Counter((row["rank"], row["nranks"]) for row in rows), want, "ranks")
    check(all(len(row["comm"]) == 16 for row in rows), f"names of communicators: {rows}")
    comms = daemon.process_json(r["pid"])["nccl"]["comms"]
    equal(Counter((str(c["rank"]), str(c["nranks"])) for c in comms), want, "ranks in JSON")


def compare(daemon, r):
    shown(daemon, r)
    compare_metrics(daemon.metrics(), r)
    compare_json(daemon.process_json(r["pid"]), r)
    compare_json_memory(daemon.json(), r)
    compare_ranks(daemon, r)
