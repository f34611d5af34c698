#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""For how long a job has its GPU at work. Real processes; the GPU's waits are those of the stand-in library, which
sleeps."""
import time

from claims import job, live
from hangs import HELPERS, wait_for
from harness import CUDA, Actor, check, main, test_timed, wait_until
from waits import rank

BUSY, ACTIVE, IDLE = (f"zernel_job_gpu_{n}_seconds_total" for n in ("busy", "active", "idle"))
SECONDS = 8


def figures(daemon, name):
    m = daemon.metrics()
    return {n: m.one(n, job_id=name, gpu_id="0") or 0 for n in (BUSY, ACTIVE, IDLE)}


def shares(before, after):
    """Of the time in between, which busy and idle add up to."""
    grown = {n: after[n] - before[n] for n in before}
    whole = grown[BUSY] + grown[IDLE]
    return grown[BUSY] / whole, grown[ACTIVE] / whole, whole


def worker(daemon, name):
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    actor.do("ready(cuda); held = alloc(cuda, 1 << 20); launch(cuda, 1)")
    job("start", name, "--pid", str(actor.pid), "uid=0", "gpus=0")
    wait_until(lambda: daemon.metrics().one(IDLE, job_id=name, gpu_id="0"), "its GPU")
    return actor


def while_it(daemon, name, actor, code):
    """Shares of the time in which it does that."""
    actor.tell(code)
    time.sleep(1)
    before = figures(daemon, name)
    time.sleep(SECONDS - 3)
    after = figures(daemon, name)
    actor.answer(code)
    return shares(before, after)


STEPS = f"end = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end:\n "


@test_timed
def one_launch_a_second_is_not_a_busy_gpu():
    daemon = live()
    actor = worker(daemon, "7001")
    busy, active, _ = while_it(daemon, "7001", actor, STEPS + "launch(cuda, 1); time.sleep(1)")
    check(0.01 < busy < 0.1 and busy < active < 0.2, f"busy {busy}, active {active}")


@test_timed
def a_loop_that_waits_for_its_gpu_keeps_it_busy():
    daemon = live()
    actor = worker(daemon, "7001")
    actor.do("cuda.fake_cuda_set(b'sync_sleep_us', ctypes.c_long(20000))")
    busy, active, whole = while_it(daemon, "7001", actor, STEPS + "launch(cuda, 5); ok(cuda.cuStreamSynchronize(None))")
    check(busy > 0.9 and active > 0.9, f"busy {busy}, active {active}")
    check(SECONDS - 5 < whole < SECONDS, f"busy and idle are all of the time: {whole}")
    before = figures(daemon, "7001")  # it was active, and is no more
    time.sleep(4)
    busy, active, _ = shares(before, figures(daemon, "7001"))
    check(busy < 0.2 and active < 0.2, f"at rest: busy {busy}, active {active}")


@test_timed
def one_long_wait_is_busy_while_it_goes_on():
    daemon = live()
    actor = worker(daemon, "7001")
    actor.do(f"cuda.fake_cuda_set(b'sync_sleep_us', ctypes.c_long({SECONDS}000000))")
    busy, active, _ = while_it(daemon, "7001", actor, "launch(cuda, 1); ok(cuda.cuStreamSynchronize(None))")
    check(busy > 0.95 and active > 0.95, f"busy {busy}, active {active}")


@test_timed
def a_wait_for_a_rank_that_does_not_come_is_not_busy():
    daemon = live()
    ranks = [rank(daemon, n) for n in (0, 1)]
    for n, a in enumerate(ranks):
        a.do(HELPERS + "held = alloc(cuda, 1 << 20)\nstep()")
        job("start", f"700{n}", "--pid", str(a.pid), "uid=0", "gpus=0")
    wait_until(lambda: daemon.metrics().one(IDLE, job_id="7000", gpu_id="0"), "its GPU")
    ranks[1].tell("time.sleep(12)")
    wait_for(ranks, ranks[1], 12)
    time.sleep(4)
    before = figures(daemon, "7000")
    time.sleep(5)
    busy, active, _ = shares(before, figures(daemon, "7000"))
    check(busy == 0 and active == 0, f"busy {busy}, active {active}")
    for a in ranks:
        a.answer("its wait")
    ranks[1].do("step()")
    time.sleep(1)
    after = figures(daemon, "7000")
    check(after[BUSY] - before[BUSY] < 3, f"when the wait ends it is not busy afterwards: {before}, {after}")


if __name__ == "__main__":
    main()
