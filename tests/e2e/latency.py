#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Durations against the caller's own clock. The caller's clock also sees what the probes cost, and the time in which
the process was not running between its clock and the probe. So: the cost is measured with calls that do nothing and
taken off; quantiles are compared, not single calls; and of three attempts one must agree, as a wrong figure never
would.
"""
import math

from harness import CUDA, NCCL, Actor, Daemon, Driver, check, equal, main, test

SLOT = 0.032  # a quantile is at most this far off from 128 ns on
LIMITS = [4 ** n / 1e9 for n in range(5, 19)]
LAUNCH = "zernel_cuda_launch_latency_seconds"
SLEEP_US = 20000


def attempts(compare):
    for last in (False, False, True):
        try:
            return compare()
        except AssertionError:
            if last:
                raise


def near(got, want, tolerance, what):
    check(got is not None and abs(got - want) <= tolerance, f"{what}: {got}, not {want} +- {tolerance}")


def rank(values, share):
    return sorted(values)[math.ceil(len(values) * share) - 1]


def spread(metrics):
    """How far the bias that was taken out may be off, in seconds: from the 10th to the 99th of 100, at worst."""
    low = metrics.all("zernel_probe_bias_seconds", quantile="0.1")
    high = metrics.all("zernel_probe_bias_seconds", quantile="0.99")
    check(low and low.keys() == high.keys(), "the bias is exported")
    return max(high[k] - low[k] for k in low)


def cost(daemon):
    """What a launch that does nothing takes, as the caller sees it, in seconds; and its median, as the daemon does."""
    driver = Driver("storm", "--threads", "1", "--calls", "10007")
    report = driver.start()
    median = daemon.metrics().one(LAUNCH, pid=str(driver.pid), quantile="0.5")
    driver.end()
    return report["storm_ns"] / 10007 / 1e9, median


def compare_histogram(metrics, name, samples, slack, **labels):
    """The twin of a summary: its buckets are exact, so where no sample is near a limit the counts are equal."""
    twin = name.replace("_seconds", "_hist_seconds")
    rows = sorted((float(dict(k)["le"]), v) for k, v in metrics.all(twin + "_bucket", **labels).items())
    equal([le for le, _ in rows], [*LIMITS, math.inf], "limits")
    counts = [v for _, v in rows]
    equal(counts, sorted(counts), "buckets in order")
    equal(counts[-1], metrics.one(name + "_count", **labels), "+Inf and _count")
    equal(metrics.one(twin + "_count", **labels), counts[-1], "_count of both")
    equal(metrics.one(twin + "_sum", **labels), metrics.one(name + "_sum", **labels), "_sum of both")
    for le, count in rows:
        if all(abs(s - le) > slack for s in samples):
            equal(count, sum(s <= le for s in samples), f"calls up to {le}")


def compare_launches():
    daemon, driver = Daemon(), Driver("latency")
    daemon.attached(CUDA)
    report = driver.start()["latency"]
    metrics, pid = daemon.metrics(), str(driver.pid)
    probe, _ = cost(daemon)
    samples = [ns / 1e9 - probe for ns in report["sorted_ns"]]
    allowed = spread(metrics)
    for q in ("0.5", "0.99"):
        want = rank(samples, float(q))
        near(metrics.one(LAUNCH, pid=pid, quantile=q), want, SLOT * want, f"quantile {q}")
    total = sum(samples)
    near(metrics.one(LAUNCH + "_sum", pid=pid), total, 0.01 * total + len(samples) * allowed, "_sum")
    equal(metrics.one(LAUNCH + "_count", pid=pid), len(samples), "_count")
    compare_histogram(metrics, LAUNCH, samples, probe + allowed, pid=pid)


@test
def launch_latency_is_what_the_driver_measured():
    attempts(compare_launches)


def compare_short():
    daemon, driver = Daemon(), Driver("idle")
    daemon.attached(CUDA)
    probe, median = cost(daemon)
    check(0 <= median <= spread(daemon.metrics()) + 1e-6, f"{median} s for a call that does nothing")
    check(median < probe, f"{median} s of {probe} s are no probe")
    driver.end()


@test
def a_call_that_does_nothing_is_within_the_spread_of_the_bias():
    attempts(compare_short)


# (metric, its labels besides pid, the knob that makes it long, the call)
SYNC = "zernel_cuda_sync_seconds"
SYNCS = [
    (SYNC, {"call": "stream_synchronize"}, "sync_sleep_us", "cuda.cuStreamSynchronize(None)"),
    (SYNC, {"call": "event_synchronize"}, "sync_sleep_us", "cuda.cuEventSynchronize(None)"),
    (SYNC, {"call": "ctx_synchronize"}, "sync_sleep_us", "cuda.cuCtxSynchronize()"),
    (SYNC, {"call": "memcpy_dtoh"}, "sync_sleep_us", "cuda.cuMemcpyDtoH_v2(None, u64(1), c_size_t(7))"),
    (SYNC, {"call": "memcpy_htod"}, "sync_sleep_us", "cuda.cuMemcpyHtoD_v2(u64(1), None, c_size_t(7))"),
    (SYNC, {"call": "mem_free"}, "free_sleep_us", "cuda.cuMemFree_v2(held.pop())"),
]
COLLECTIVES = [
    ("zernel_nccl_collective_duration_seconds", {"op": "all_reduce"}, "coll_sleep_us",
     "nccl.ncclAllReduce(None, None, c_size_t(7), 7, 0, comm, None)"),
    ("zernel_nccl_collective_duration_seconds", {"op": "send"}, "coll_sleep_us",
     "nccl.ncclSend(None, c_size_t(7), 7, 0, comm, None)"),
    ("zernel_nccl_group_seconds", None, "group_sleep_us", "nccl.ncclGroupStart() or nccl.ncclGroupEnd()"),
    ("zernel_nccl_comm_init_seconds", None, "init_sleep_us", "nccl.ncclCommInitAll(byref(c_void_p()), 1, None)"),
]


def set_knobs(actor, library, rows, value):
    for knob in {row[2] for row in rows}:
        actor.do(f"{library}.fake_{library}_set({knob.encode()!r}, {value})")


def time_rows(actor, library, rows, value):
    """{row: what the caller saw, seconds}, with every knob set to value."""
    set_knobs(actor, library, rows, value)
    return [[ns / 1e9 for ns in actor.do(f"answer = timed(lambda: {row[3]}, 11)")] for row in rows]


def compare_rows(library, rows):
    """The calls sleep first; then they do nothing, which tells what the caller's way to them costs."""
    actor = Actor(("cuda", CUDA), ("nccl", NCCL))
    actor.do("comm = c_void_p(); ok(nccl.ncclCommInitAll(byref(comm), 1, None))")
    daemon = Daemon().attached(CUDA, NCCL)
    actor.do("ready(cuda); held = [alloc(cuda, 4096) for _ in range(22)]")
    slow = time_rows(actor, library, rows, SLEEP_US)
    metrics = daemon.metrics()
    quick = time_rows(actor, library, rows, 0)
    for (name, labels, _, call), taken, way in zip(rows, slow, quick):
        labels = {"pid": str(actor.pid), **(labels or {})}
        if "op" in labels:
            del labels["pid"]  # this family is of the whole node
        want = [t - rank(way, 0.5) for t in taken]
        for q in ("0.5", "0.99"):
            exact = rank(want, float(q))
            near(metrics.one(name, quantile=q, **labels), exact, SLOT * exact, f"{call}, quantile {q}")
        near(metrics.one(name + "_sum", **labels), sum(want), 0.01 * sum(want), f"{call}, _sum")
        compare_histogram(metrics, name, want, 1e-3, **labels)


@test
def waits_take_what_the_caller_measured():
    attempts(lambda: compare_rows("cuda", SYNCS))


@test
def nccl_takes_what_the_caller_measured():
    attempts(lambda: compare_rows("nccl", COLLECTIVES))


@test
def merged_quantiles_of_the_snapshot():
    """The figures of all processes together come from their merged histograms."""
    daemon, actor = Daemon(), Actor(("cuda", CUDA), ("nccl", NCCL))
    daemon.attached(CUDA, NCCL)
    actor.do("ready(cuda); comm = c_void_p(); ok(nccl.ncclCommInitAll(byref(comm), 1, None))")
    equal(daemon.json()["cuda_latency_p50_us"], 0.0, "launches, when there are none")
    actor.do("cuda.fake_cuda_set(b'launch_sleep_us', 5000); launch(cuda, 7)")
    set_knobs(actor, "nccl", COLLECTIVES, SLEEP_US)
    time_rows(actor, "nccl", COLLECTIVES[:1], SLEEP_US)
    snapshot, metrics = daemon.json(), daemon.metrics()
    for q, key in (("0.5", "p50"), ("0.99", "p99")):
        launches = metrics.one(LAUNCH, pid=str(actor.pid), quantile=q)
        equal(round(snapshot[f"cuda_latency_{key}_us"] / 1e6, 9), launches, f"launches, {key}")
        reduces = metrics.one(COLLECTIVES[0][0], op="all_reduce", quantile=q)
        equal(round(snapshot[f"nccl_allreduce_{key}_ms"] / 1e3, 9), reduces, f"all_reduce, {key}")
        check(launches > 0.004 and reduces > 0.018, "they took some time")
    actor.end()
    daemon.gone(actor.pid)
    equal(daemon.json()["cuda_latency_p50_us"], 0.0, "launches of the living")


if __name__ == "__main__":
    main()
