#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What zerneld says of waits against what real PyTorch programs say of themselves, by their own clocks. Durations are chosen so
long that the machine's noise is small beside them; sums, quantiles and shares decide.
"""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from harness import CUDA, Daemon, Process, application_env, check, equal, folder, main, test, wait_until  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT, IDLE, DIST = ("zernel_dataloader_wait_seconds", "zernel_dataloader_worker_idle_seconds",
                    "zernel_dist_sync_wait_seconds")
CAUSES = ("cpu", "gpu", "data", "dist", "io", "runqueue", "other")


class Program(Process):
    def __init__(self, name, **options):
        super().__init__(["/usr/bin/python3", os.path.join(HERE, name), CUDA, json.dumps(options)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, env=application_env({"OMP_NUM_THREADS": "1"}))
        self.expect("ready")

    def expect(self, line):
        equal(self.process.stdout.readline(), line + "\n", "what the program says")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self

    def report(self):
        line = self.process.stdout.readline()
        check(line.startswith("{"), f"no report but {line!r}")
        return json.loads(line)


def start():
    daemon = Daemon("--push-interval-ms", "250")
    daemon.ready()
    return daemon


def near(got, want, part, what, more=0.0):
    check(abs(got - want) <= part * want + more, f"{what}: {got:.4f}, not {want:.4f} within {100 * part:.0f} % and {more}")


def rank(values, q):
    """The nearest-rank quantile, in seconds."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * q // 1000) - 1)] / 1e9


def seconds(daemon, pid):
    return (daemon.process_json(pid)["stalls"] or {}).get("seconds")


def settled(daemon, pid, waits):
    """The sums once the last wait has been counted: they are read at ticks."""
    wait_until(lambda: (daemon.metrics().one(WAIT + "_count", pid=str(pid)) or 0) >= waits, f"{waits} waits")
    time.sleep(0.6)
    return daemon.metrics(), seconds(daemon, pid)


def starved(**options):
    """A loader that is slower than the training. A batch that is there already is no wait, neither here nor there."""
    daemon = start()
    p = Program("train.py", **options)
    daemon.attached(CUDA)
    r = p.go().report()
    waits, total = r["waits"], sum(r["waits"]) / 1e9
    waits = [w for w in waits if w > 10_000_000]  # a batch that is there is unpickled, which takes milliseconds
    m, s = settled(daemon, p.pid, int(0.8 * len(waits)))
    pid = str(p.pid)
    print(f"   {options}: {m.one(WAIT + '_sum', pid=pid):.3f} s of {total:.3f} s, {m.one(WAIT + '_count', pid=pid):.0f} waits of "
          f"{len(waits)}, {s}", flush=True)
    near(m.one(WAIT + "_sum", pid=pid), total, 0.05, "sum of the waits")
    near(s["data"], total, 0.05, "time in waits for data")
    for q, name, more in ((500, "0.5", 0.003), (990, "0.99", 0.015)):  # the longest wait is the first: workers are forked
        near(m.one(WAIT, pid=pid, quantile=name), rank(waits, q), 0.033, f"quantile {name}", more=more)
    near(m.one(WAIT + "_count", pid=pid), len(waits), 0.1, "number of waits")
    equal(daemon.process_json(p.pid)["dataloader"]["loader"], "pytorch", "the loader")
    check(not m.lost(), f"lost: {m.lost()}")
    return daemon, p, r


@test
def one_worker():
    daemon, p, r = starved(workers=1, item=80, step=5, batches=30)
    s = seconds(daemon, p.pid)
    check(s["data"] > 4 * s["cpu"], f"a starved program: {s}")


@test
def four_workers():
    starved(workers=4, item=400, step=5, batches=24)


@test
def pinning_thread():
    starved(workers=1, item=80, step=5, batches=30, pin=True)


@test
def own_timeout():
    starved(workers=1, item=80, step=5, batches=30, timeout=30)


@test
def persistent_workers():
    starved(workers=2, item=160, step=5, batches=16, persistent=True)


@test
def spawned_workers():
    starved(workers=1, item=80, step=5, batches=30, context="spawn")


@test
def several_loaders():
    starved(workers=1, item=160, step=5, batches=12, loaders=2)


@test
def waits_longer_than_the_interval():
    """A batch that takes longer than the 5 s after which PyTorch looks whether its workers live is one wait, not three."""
    daemon, p, r = starved(workers=1, item=5600, step=1, batches=2)
    equal(daemon.metrics().one(WAIT + "_count", pid=str(p.pid)), 2, "waits")


@test
def healthy():
    """Workers that are ahead: the training waits for nothing, and they wait for it."""
    daemon = start()
    p = Program("train.py", workers=2, item=5, step=40, batches=60)
    daemon.attached(CUDA)
    r = p.go().report()
    time.sleep(0.6)
    m, s, pid = daemon.metrics(), seconds(daemon, p.pid), str(p.pid)
    idle = m.one(IDLE + "_sum", pid=pid) or 0
    print(f"   healthy: waited {m.one(WAIT + '_sum', pid=pid)} s of {sum(r['waits']) / 1e9:.3f} s, workers idle {idle:.3f} s, {s}", flush=True)
    check((s["data"] or 0) < 0.1 * r["wall"] / 1e9, f"waits of a healthy program: {s}")
    near(idle, 2 * (r["wall"] / 1e9 - 60 * 0.005 / 2), 0.15, "time in which its workers had nothing to do")
    near(sum(s[c] or 0 for c in CAUSES), r["wall"] / 1e9 + 0.65, 0.05, "all causes together", more=0.3)


@test
def without_workers():
    """The program reads by itself: no loader can be seen, and none is claimed."""
    daemon = start()
    p = Program("train.py", workers=0, item=40, batches=20)
    daemon.attached(CUDA)
    p.go().report()
    time.sleep(0.6)
    shown = daemon.process_json(p.pid)
    equal(shown["dataloader"], None, "a loader")
    equal(shown["stalls"] and shown["stalls"]["data"], None, "share of waits for data")
    equal(daemon.metrics().one("zernel_step_stall_ratio", pid=str(p.pid), cause="data"), None, "that share as a metric")


@test
def waits_for_the_gpu():
    daemon = start()
    p = Program("train.py", workers=1, item=1, step=5, sync=40, batches=50)
    daemon.attached(CUDA)
    p.go().report()
    time.sleep(0.6)
    total = daemon.metrics().one("zernel_cuda_sync_seconds_sum", pid=str(p.pid), call="stream_synchronize")
    s = seconds(daemon, p.pid)
    near(s["gpu"], 51 * 0.04, 0.02, "time in waits for the GPU", more=0.02)
    check(total >= s["gpu"] - 0.01, f"a call waits for the GPU, and for a CPU after that: {total} s, of it {s}")


def gloo(size, late_rank):
    daemon = start()
    store = os.path.join(folder(), "store")
    ranks = [Program("gloo.py", rank=n, size=size, store=store, steps=40, work=10, late=50 if n == late_rank else 0)
             for n in range(size)]
    daemon.attached(CUDA)
    for p in ranks:
        p.go()
    for p in ranks:
        p.expect("joined")
    time.sleep(0.6)
    before = [seconds(daemon, p.pid) for p in ranks]
    for p in ranks:
        p.go()
    says = []
    while time.monotonic() and len(says) < 8:
        time.sleep(0.25)
        says.append([(daemon.process_json(p.pid)["stalls"] or {}).get("says") for p in ranks])
    reports = [p.report() for p in ranks]
    time.sleep(0.6)
    for n, (p, b, r) in enumerate(zip(ranks, before, reports)):
        s = seconds(daemon, p.pid)
        total = sum(r["waits"]) / 1e9
        print(f"   rank {n}: waited {s['dist'] - b['dist']:.3f} s of {total:.3f} s; {says[4][n]}", flush=True)
        if n != late_rank:
            near(s["dist"] - b["dist"], total, 0.05, f"waits of rank {n}", more=0.02)
        else:
            check(s["dist"] - b["dist"] <= total + 0.05, f"waits of the straggler: {s}")
    named = f"process {ranks[late_rank].pid} is the straggler"
    early = [row[n] or "" for row in says for n in range(size) if n != late_rank]
    check(sum(named in text for text in early) > len(early) // 2, f"who is late: {early}")
    check(not any("straggler" in (row[late_rank] or "") for row in says), "the straggler waits for nobody")
    for p in ranks:
        p.go()


@test
def two_gloo_ranks():
    gloo(2, 1)


@test
def four_gloo_ranks():
    gloo(4, 2)


if __name__ == "__main__":
    main()
