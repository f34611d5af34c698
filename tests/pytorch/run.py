#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What zerneld says of waits against what real PyTorch programs say of themselves, by their own clocks. Durations are
chosen so long that the machine's noise is small beside them; sums, quantiles and shares decide.
"""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

# noqa: E402
from harness import CUDA, ZERNEL, Daemon, Process, State, run, application_env, check, equal, folder, main, \
    test_timed, wait_until
from made import told  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
WAIT, IDLE, DIST = ("zernel_dataloader_wait_seconds", "zernel_dataloader_worker_idle_seconds",
                    "zernel_dist_sync_wait_seconds")
CAUSES = ("cpu", "gpu", "data", "dist", "io", "runqueue", "other")


class Program(Process):
    def __init__(self, name, **options):
        super().__init__(["/usr/bin/python3", os.path.join(HERE, name), CUDA, json.dumps(options)],
                         stdin=subprocess.PIPE,
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
    check(abs(got - want) <= part * want + more,
        f"{what}: {got:.4f}, not {want:.4f} within {100 * part:.0f} % and {more}")


def rank(values, q):
    """The nearest-rank quantile, in seconds."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * q // 1000) - 1)] / 1e9


def seconds(daemon, pid):
    return (daemon.process_json(pid)["stalls"] or {}).get("seconds")


def followed(daemon, program):
    """Lets it launch once: from when its time is followed on, it trains."""
    program.go().expect("launched")
    wait_until(lambda: seconds(daemon, program.pid), "where its time goes")
    return program.go()


def at_tick(daemon, pid):
    """Seconds by cause as of a tick that began after this call, and between which times that was."""
    for _ in range(2):
        first, since = seconds(daemon, pid), time.monotonic()
        while True:
            asked = time.monotonic()
            seen = seconds(daemon, pid)
            if seen != first:
                break
            since = asked
            time.sleep(0.002)
    return {c: s or 0 for c, s in seen.items()}, (since, time.monotonic())


def between(daemon, pid, before):
    """Seconds by cause since then. Together they are the time that has gone by."""
    after, end = at_tick(daemon, pid)
    got = {c: after[c] - before[0][c] for c in CAUSES}
    least, most = end[0] - before[1][1], end[1] - before[1][0]
    check(0.99 * least - 0.02 <= sum(got.values()) <= 1.01 * most + 0.02,
        f"all causes together: {got}, in {least} to {most} s")
    return got


def asleep(spans):
    """How long each took without what the thread ran in it, and waited for a CPU: it unpickles the batch as well."""
    return [wall - cpu - delayed for wall, cpu, delayed in spans]


def total(values):
    return sum(values) / 1e9


def settled(daemon, pid, waits):
    """The sums once the last wait has been counted: they are read at ticks. What is missing then is told with all of
    it."""
    end = time.monotonic() + 3
    while (daemon.metrics().one(WAIT + "_count", pid=str(pid)) or 0) < waits and time.monotonic() < end:
        time.sleep(0.05)
    daemon.ticked(3)
    return daemon.metrics(), seconds(daemon, pid)


def starved(more_waits=0, name="train.py", **options):
    """A loader that is slower than the training. A batch that is there already is no wait, neither here nor there.

    more_waits: those outside of next() that there may be."""
    daemon = start()
    p = Program(name, **options)
    daemon.attached(CUDA)
    r = followed(daemon, p).report()
    clock = total(wall for wall, _, _ in r["waits"])
    # it may sleep for a worker's answer about a batch that is there
    waits = [w for w in asleep(r["waits"]) if w > 20_000_000]
    m, s = settled(daemon, p.pid, len(waits))
    pid = str(p.pid)
    print(f"   {options}: {m.one(WAIT + '_sum', pid=pid):.3f} s of {clock:.3f} s, "
          f"{m.one(WAIT + '_count', pid=pid):.0f} waits of "
          f"{len(waits)}, {s}", flush=True)
    near(m.one(WAIT + "_sum", pid=pid), clock, 0.05, "sum of the waits")
    near(s["data"], clock, 0.05, "time in waits for data")
    for q, name in ((500, "0.5"), (990, "0.99")):
        near(m.one(WAIT, pid=pid, quantile=name), rank(waits, q), 0.032, f"quantile {name}", more=0.001)
    count = m.one(WAIT + "_count", pid=pid)
    check(len(waits) <= count <= len(r["waits"]) + more_waits, f"number of waits: {count}, not {len(waits)}")
    equal(daemon.process_json(p.pid)["dataloader"]["loader"], "pytorch", "the loader")
    check(not m.lost(), f"lost: {m.lost()}")
    return daemon, p, r


def workers_end(daemon, p, count):
    """They are counted while they live."""
    def counted():
        return daemon.metrics().one("zernel_dataloader_workers", pid=str(p.pid))
    equal(counted(), count, "workers")
    p.go()
    wait_until(lambda: counted() == 0, "the end of its workers")


def first_cause(daemon):
    return daemon.json("/why")["why"][0]["causes"][0]


@test_timed
def one_worker():
    daemon, p, r = starved(workers=1, item=80, step=5, batches=30)
    cause = first_cause(daemon)
    equal(cause["cause"], "input_workers" if os.cpu_count() > 1 else "input_cpu", "the first cause")
    check(": 1 worker, busy " in cause["says"], cause)
    workers_end(daemon, p, 1)
    s = seconds(daemon, p.pid)
    check(s["data"] > 4 * s["cpu"], f"a starved program: {s}")


@test_timed
def four_workers():
    daemon, p, r = starved(workers=4, item=400, step=5, batches=24)
    equal(first_cause(daemon)["cause"], "input_workers" if os.cpu_count() > 4 else "input_cpu", "the first cause")
    workers_end(daemon, p, 4)


def of_a_job(name, batches, **options):
    """What is first in the list of a job whose loader takes its time so; its program. 0.15 s for an item."""
    data = os.path.join("/var/tmp", f"zernel-loader-{os.getpid()}")
    with open(data, "wb") as file:
        file.write(os.urandom(16 << 20))
        os.fsync(file.fileno())
    State.cleanup.callback(os.unlink, data)
    control = os.path.join(folder(), "run/control.sock")
    daemon = Daemon("--push-interval-ms", "250", "--control", control)
    p = Program("train.py", item=150, step=5, batches=batches, file=data, **options)
    daemon.attached(CUDA)
    equal(run([ZERNEL, "job", "start", name, "--pid", str(p.pid), "uid=0", "--control", control]).returncode, 0,
        "a job")
    p.go().expect("launched")
    p.go().report()

    def seen():
        return [w for w in daemon.json("/why")["why"] if w["job_id"] == name][0]["causes"]
    causes = seen()
    check(causes, "something is lost")
    told(name, causes[0]["cause"])
    return causes[0]


CPUS = len(os.sched_getaffinity(0))


@test_timed
def a_loader_that_computes():
    cause = of_a_job("loader_cpu", 12 * CPUS * 5, workers=CPUS, work="compute")
    equal(cause["cause"], "input_cpu", cause)
    check(f": {CPUS} workers, busy " in cause["says"], cause)


@test_timed
def a_loader_with_too_few_workers():
    if CPUS > 1:
        cause = of_a_job("loader_few", 60, workers=1, work="compute")
        equal(cause["cause"], "input_workers", cause)
        check(f": 1 worker, busy " in cause["says"] and cause["says"].endswith(f"; CPUs: {CPUS}"), cause)


@test_timed
def a_loader_that_waits_for_a_disk():
    cause = of_a_job("loader_files", 60 * CPUS, workers=CPUS, work="read")
    equal(cause["cause"], "input_files", cause)
    check("most of it on /" in cause["says"], cause)


@test_timed
def a_loader_without_workers():
    cause = of_a_job("loader_none", 80, workers=0, work="decode", first=True)
    equal((cause["cause"], cause["sure"]), ("input_in_process", "likely"), cause)
    check("a second, most of it on /" in cause["says"] and "num_workers" in cause["next"], cause)


@test_timed
def pinning_thread():
    starved(workers=1, item=80, step=5, batches=30, pin=True)


@test_timed
def own_timeout():
    starved(workers=1, item=80, step=5, batches=30, timeout=30)


@test_timed
def persistent_workers():
    starved(2, workers=2, item=160, step=5, batches=16, persistent=True)  # they are asked to begin again


@test_timed
def spawned_workers():
    starved(workers=1, item=80, step=5, batches=30, context="spawn")


@test_timed
def newer_threads():
    starved(workers=2, item=160, step=5, batches=24, queues="poll")


@test_timed
def newer_pinning_thread():
    starved(workers=2, item=160, step=5, batches=24, queues="poll", pin=True)


@test_timed
def workers_on_arm64():
    starved(workers=1, item=80, step=5, batches=24, queues="ppoll")


@test_timed
def pinning_thread_on_arm64():
    starved(workers=1, item=80, step=5, batches=24, queues="ppoll", pin=True)


@test_timed
def several_loaders():
    starved(workers=1, item=160, step=5, batches=12, loaders=2)


@test_timed
def waits_longer_than_the_interval():
    """A batch that takes longer than the 5 s after which PyTorch looks whether its workers live is one wait, not
    three."""
    daemon, p, r = starved(workers=1, item=5600, step=1, batches=2)
    equal(daemon.metrics().one(WAIT + "_count", pid=str(p.pid)), 2, "waits")


@test_timed
def healthy():
    """Workers that are ahead: the training waits for nothing, and they wait for it."""
    daemon = start()
    p = Program("train.py", workers=2, item=5, step=40, batches=60)
    daemon.attached(CUDA)
    followed(daemon, p)
    before = at_tick(daemon, p.pid)
    r = p.report()
    got = between(daemon, p.pid, before)
    m, pid, wall = daemon.metrics(), str(p.pid), r["whole"][0] / 1e9
    idle = m.one(IDLE + "_sum", pid=pid) or 0
    print(f"   healthy: waited {m.one(WAIT + '_sum', pid=pid)} s of {total(w for w, _, _ in r['waits']):.3f} s, "
          f"workers idle "
          f"{idle:.3f} s, {got}", flush=True)
    check(got["data"] < 0.1 * wall, f"waits of a healthy program: {got}")
    near(idle, 2 * (wall - 60 * 0.005 / 2), 0.15, "time in which its workers had nothing to do")


@test_timed
def without_workers():
    """The program reads by itself: no loader can be seen, and none is claimed."""
    daemon = start()
    p = Program("train.py", workers=0, item=40, batches=20)
    daemon.attached(CUDA)
    followed(daemon, p).report()
    daemon.ticked(3)
    shown = daemon.process_json(p.pid)
    equal(shown["dataloader"], None, "a loader")
    equal(shown["stalls"] and shown["stalls"]["data"], None, "share of waits for data")
    equal(daemon.metrics().one("zernel_step_stall_ratio", pid=str(p.pid), cause="data"), None, "that share as a metric")


@test_timed
def a_daemon_that_comes_late():
    """It starts amid the training: workers and waits were there before."""
    # 22 s, of which a slow machine takes some to start the daemon
    p = Program("train.py", workers=1, item=80, step=5, batches=280)
    p.go().expect("launched")
    p.go()
    time.sleep(1)
    daemon = start()
    wait_until(lambda: any(q["pid"] == p.pid and q["stalls"] and "loader worker" in q["stalls"]["says"]
                           for q in daemon.json()["processes"]), "where its time goes")
    before = at_tick(daemon, p.pid)
    time.sleep(3)
    got = between(daemon, p.pid, before)
    shown = daemon.process_json(p.pid)
    r = p.report()
    share = total(asleep(r["waits"])) / (r["whole"][0] / 1e9)
    print(f"   a daemon that comes late: {got}; {shown['stalls']['says']}", flush=True)
    near(got["data"], share * sum(got.values()), 0.05, "time in waits for data")
    check("its 1 loader worker is busy" in shown["stalls"]["says"], f"{shown['stalls']}")


def synchronous(**options):
    """Waits for the GPU; each cause within 2 % of the whole."""
    daemon = start()
    p = Program("train.py", workers=1, item=1, step=5, batches=50, **options)
    daemon.attached(CUDA)
    p.go().expect("launched")
    wait_until(lambda: seconds(daemon, p.pid), "where its time goes")
    before = at_tick(daemon, p.pid)
    r = p.go().report()
    got = between(daemon, p.pid, before)
    calls = daemon.metrics().one("zernel_cuda_sync_seconds_sum", pid=str(p.pid), call="stream_synchronize")
    clock, cpu, delayed = (n / 1e9 for n in r["whole"])
    own = {"gpu": total(wall - late for wall, _, late in r["syncs"]), "runqueue": delayed,
           "cpu": cpu - total(cpu for _, cpu, _ in r["syncs"])}
    print(f"   {options}: {own} in {clock:.3f} s, {got}", flush=True)
    for cause, want in own.items():
        near(got[cause], want, 0, cause, more=0.02 * clock)
    near(calls, total(wall for wall, _, _ in r["syncs"]), 0.05, "time in the calls", more=0.1)  # and the one of before
    return got


@test_timed
def waits_for_the_gpu_asleep():
    synchronous(sync=40)


@test_timed
def waits_for_the_gpu_awake():
    synchronous(spin=40)


@test_timed
def no_free_cpu():
    """Two others compute on the only CPU: what the thread lacks is time there."""
    got = synchronous(spin=40, crowd=2)
    check(got["runqueue"] > got["gpu"], f"{got}")


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
    daemon.ticked(3)
    before = [seconds(daemon, p.pid) for p in ranks]
    for p in ranks:
        p.go()
    says = []
    while time.monotonic() and len(says) < 8:
        time.sleep(0.25)
        stalls = {q["pid"]: q["stalls"] or {} for q in daemon.json()["processes"]}
        says.append([stalls.get(p.pid, {}).get("says") for p in ranks])
    reports = [p.report() for p in ranks]
    daemon.ticked(3)
    for n, (p, b, r) in enumerate(zip(ranks, before, reports)):
        s = seconds(daemon, p.pid)
        clock = total(r["waits"])
        print(f"   rank {n}: waited {s['dist'] - b['dist']:.3f} s of {clock:.3f} s; {says[4][n]}", flush=True)
        if n != late_rank:
            near(s["dist"] - b["dist"], clock, 0.05, f"waits of rank {n}")
        else:
            check(s["dist"] - b["dist"] <= clock + 0.05, f"waits of the straggler: {s}")
    named = f"process {ranks[late_rank].pid} is the straggler"
    early = [row[n] or "" for row in says for n in range(size) if n != late_rank]
    check(sum(named in text for text in early) > len(early) // 2, f"who is late: {early}")
    check(not any("straggler" in (row[late_rank] or "") for row in says), "the straggler waits for nobody")
    for p in ranks:
        p.go()


@test_timed
def two_gloo_ranks():
    gloo(2, 1)


@test_timed
def four_gloo_ranks():
    gloo(4, 2)


if __name__ == "__main__":
    main()
