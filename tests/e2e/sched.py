# SPDX-License-Identifier: GPL-2.0
"""Where a launching thread's time went, against a program that waits in known ways and times itself."""
import os
import signal
import subprocess
import time

from harness import BUILD, CUDA, NCCL, Actor, Daemon, Process, application_env, check, equal, main, parse_json, \
    test, test_timed, wait_until
from jobs import Group

CAUSES = ("cpu", "gpu", "data", "dist", "io", "runqueue", "other")
TICK_MS = 250


class Waiter(Process):
    """tests/fake/waiter.c. idle: further threads that wake now and then."""

    def __init__(self, idle=0, before=()):
        super().__init__([*before, f"{BUILD}/test/waiter", CUDA, NCCL, str(idle)], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE,
                         env=application_env({}))
        self.answer()

    def answer(self):
        return parse_json(self.process.stdout.readline())

    def tell(self, scenario, repeats):
        self.process.stdin.write(f"{scenario} {repeats}\n")
        self.process.stdin.flush()

    def do(self, scenario, repeats):
        self.tell(scenario, repeats)
        return self.answer()


class Watched:
    """A daemon and a waiter whose time is followed already."""

    def __init__(self):
        self.daemon = Daemon("--push-interval-ms", str(TICK_MS))
        self.waiter = Waiter()
        self.daemon.attached(CUDA, NCCL)
        self.waiter.do("sleep", 3)  # the first launch; the scheduler is watched from a moment later on
        wait_until(lambda: self.process()["stalls"], "where its time goes")

    def process(self):
        found = self.daemon.process_json(self.waiter.pid)
        return found or {"stalls": None}

    def seconds(self):
        """As of a tick that began after this call, and between which times that was."""
        def now():
            return {c: s or 0 for c, s in self.process()["stalls"]["seconds"].items()}
        for _ in range(2):
            first, since = now(), time.monotonic()
            while True:
                asked = time.monotonic()
                seen = now()
                if seen != first:
                    break
                since = asked
                time.sleep(0.002)
        return seen, (since, time.monotonic())

    def do(self, scenario, repeats):
        """What the program says it did, and what the daemon saw, in seconds."""
        before, start = self.seconds()
        did = self.waiter.do(scenario, repeats)
        after, end = self.seconds()
        got = {c: after[c] - before[c] for c in CAUSES}
        least, most = end[0] - start[1], end[1] - start[0]
        check(0.99 * least - 0.02 <= sum(got.values()) <= 1.01 * most + 0.02,
            f"{scenario}: {got} are not the {least} to {most} s that went by")
        return did, got


def compare(scenario, repeats=41, unseen=0):
    """All causes within 2 % of the whole. What the program takes for a wait has in it the time until a CPU was free.
    unseen: waits that may be nobody's, because on a busy machine the thread that wakes may find all there and not wait
    itself."""
    w = Watched()
    did, got = w.do(scenario, repeats)
    whole = did["wall"] / 1e9
    spare = 0.02 * whole + 0.005
    short = unseen * whole / max(did["waits"], 1)
    for cause in ("gpu", "data", "dist", "io"):
        own = did[cause] / 1e9
        check(own - got["runqueue"] - spare - short <= got[cause] <= own + spare,
            f"{scenario}: {cause}: {got}, not {did}")
    check(abs(got["runqueue"] - did["runqueue"] / 1e9) <= spare or not did["runqueue"], f"{scenario}: {got}, not {did}")
    check(got["cpu"] >= did["cpu"] / 1e9 - got["runqueue"] - spare, f"{scenario}: cpu: {got}, not {did}")
    return w, did, got


def figures(w, what):
    found = w.daemon.metrics().all(f"zernel_{what}_seconds_count", pid=str(w.waiter.pid))
    total = w.daemon.metrics().all(f"zernel_{what}_seconds_sum", pid=str(w.waiter.pid))
    return sum(found.values()), sum(total.values())


def near(w, what, count, ns, got, late=0):
    """late: tries that came so late, as the thread had no CPU, that they may be waits of their own."""
    calls, total = figures(w, what)
    check(count <= calls <= count + late, f"{what}: {calls} waits, not {count}, {late} of them late")
    own = ns / 1e9
    check(own * 0.97 - got["runqueue"] - 0.005 <= total <= own * 1.01 + 0.005, f"{what}: {total} s, not {own} s")


@test_timed
def batches_are_waits_for_data():
    w, did, got = compare("batches")
    near(w, "dataloader_wait", did["waits"], did["data"], got)


@test_timed
def retries_are_one_wait():
    w, did, got = compare("retries", 23)
    near(w, "dataloader_wait", did["waits"], did["data"], got, did["late"])


@test_timed
def workers_that_wait_are_idle():
    w, did, got = compare("idle")
    calls, total = figures(w, "dataloader_worker_idle")
    check(did["waits"] - 1 <= calls <= did["waits"] + 1, f"{calls} idle waits, not {did['waits']}")
    check(abs(total - did["other"] / 1e9) <= 0.03 * did["other"] / 1e9 + 0.02, f"idle for {total} s, {did}")


@test_timed
def workers_from_before_are_found():
    daemon, waiter = Daemon("--push-interval-ms", str(TICK_MS)), Waiter()
    daemon.attached(CUDA)
    did = waiter.do("early", 23)
    daemon.ticked(3)
    calls = daemon.metrics().all("zernel_dataloader_wait_seconds_count", pid=str(waiter.pid))
    check(sum(calls.values()) == did["waits"], f"{calls}, not {did}")


@test_timed
def a_wait_that_goes_on_is_seen():
    w = Watched()
    before, _ = w.seconds()
    w.waiter.tell("hold", 3000)
    time.sleep(2)
    now, _ = w.seconds()
    check(now["data"] - before["data"] > 1.5, f"{before} became {now}")
    w.waiter.answer()


@test_timed
def the_pinning_thread_hands_on_why():
    w, did, _ = compare("pin", unseen=2)
    calls, _ = figures(w, "dataloader_wait")
    check(did["waits"] - 2 <= calls <= did["waits"], f"{calls} waits, not {did}")
    compare("pin_hop", unseen=2)


@test_timed
def what_was_over_before_explains_nothing():
    compare("stale", 23)


@test_timed
def a_lock_is_no_wait_for_data():
    compare("lock", 23)


@test_timed
def other_ranks_are_waited_for():
    for scenario in ("gloo", "gloo_hop", "recv"):
        w, did, got = compare(scenario, unseen=0 if scenario == "recv" else 2)
        calls, total = figures(w, "dist_sync_wait")
        check(did["waits"] - 2 <= calls <= did["waits"] and abs(total - got["dist"]) <= 0.01,
            f"{calls}, {total}: {did}")


@test_timed
def nccl_that_blocks_is_a_wait_for_ranks():
    w, did, got = compare("group")
    near(w, "dist_sync_wait", did["waits"], did["dist"], got)


@test_timed
def nccl_that_waits_for_the_gpu_waits_for_ranks_afterwards():
    w, did, got = compare("group_sync")
    near(w, "dist_sync_wait", did["waits"], did["dist"], got)


@test_timed
def nccl_that_is_left_without_a_return_is_no_wait():
    _, did, got = compare("group_left")
    check(got["dist"] < 0.1 * did["cpu"] / 1e9, f"{got}, not {did}")


@test
def nccl_inside_of_nccl_is_one_wait():
    """ncclBcast() calls ncclBroadcast()."""
    daemon, actor = Daemon(), Actor(("cuda", CUDA), ("nccl", NCCL))
    daemon.attached(CUDA, NCCL)
    actor.do("ready(cuda); launch(cuda, 1); comm = c_void_p(); ok(nccl.ncclCommInitAll(byref(comm), 1, None))")
    actor.do("ok(nccl.fake_nccl_set(b'coll_sleep_us', 20000))")
    actor.do("for _ in range(7): ok(nccl.ncclBcast(None, c_size_t(4), 7, 0, comm, None))")
    count = daemon.metrics().all("zernel_dist_sync_wait_seconds_count", pid=str(actor.pid))
    equal(sum(count.values()), 7, "waits for other ranks")


@test_timed
def the_gpu_is_waited_for_awake_and_asleep():
    compare("sync_spin")
    compare("sync_sleep")


@test_timed
def page_faults_are_io():
    compare("fault")


@test_timed
def what_is_no_file_is_not_io():
    compare("event", 2003)


@test_timed
def sleep_and_work_are_told_apart():
    compare("sleep")
    compare("compute")


@test_timed
def a_crowded_cpu_is_the_run_queue():
    w, did, got = compare("crowd")
    check(got["runqueue"] > 0.2 * did["wall"] / 1e9, f"{got}")


class Freezer(Group):
    """A control group that is frozen, of either version."""

    FILES = {"v2": ("cgroup.freeze", "1", "0"), "freezer": ("freezer.state", "FROZEN", "THAWED")}

    def __init__(self, version):
        super().__init__(version, f"/zernel_sched_{os.getpid()}")
        self.file, self.on, self.off = self.FILES[version]

    def write(self, what):
        with open(os.path.join(self.path, self.file), "w") as f:
            f.write(what)


def while_stopped(w, scenario, repeats, stop, go):
    """Seconds by cause of a process that is stopped for two seconds amid what it does."""
    before, _ = w.seconds()
    w.waiter.tell(scenario, repeats)
    time.sleep(0.3)
    stop()
    time.sleep(2)
    go()
    w.waiter.answer()
    after, _ = w.seconds()
    return {c: after[c] - before[c] for c in CAUSES}


def stopped_by(w, name, stop, go):
    for scenario, repeats in (("spin", 1000), ("hold", 1000)):
        got = while_stopped(w, scenario, repeats, stop, go)
        waits = got["io"] + got["data"] + got["dist"]
        check(got["other"] > 1.8 and waits < 0.7, f"{scenario}, by {name}: {got}")
    _, waited = figures(w, "dataloader_wait")
    check(waited < 0.7, f"by {name}: {waited} s in waits for batches")


@test_timed
def who_is_stopped_waits_for_no_batch_and_no_file():
    w = Watched()
    stopped_by(w, "a signal", lambda: os.kill(w.waiter.pid, signal.SIGSTOP),
               lambda: os.kill(w.waiter.pid, signal.SIGCONT))


def frozen_by(version):
    group, w = Freezer(version), Watched()
    group.enter(w.waiter.pid)
    stopped_by(w, f"the freezer of {version}", lambda: group.write(group.on), lambda: group.write(group.off))


@test_timed
def who_is_frozen_by_version_1_waits_for_no_batch_and_no_file():
    frozen_by("freezer")


@test_timed
def who_is_frozen_by_version_2_waits_for_no_batch_and_no_file():
    frozen_by("v2")


if __name__ == "__main__":
    main()
