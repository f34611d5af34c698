#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""zernel why: faults that are made for real, each of a job of its own, are the first in its list; a healthy job has none. The
GPU's waits are those of the stand-in library; loaders of data are tests/pytorch's business."""
import json
import os
import time

from harness import CUDA, ZERNEL, Actor, check, equal, main, parse_json, run, test, test_timed, wait_until
from claims import job, live

SECONDS = 8
BEGIN = """
import mmap, threading
ready(cuda); held = alloc(cuda, 1 << 20); launch(cuda, 1)
def knob(name, value):
    cuda.fake_cuda_set(name, ctypes.c_long(value))
def run(step, seconds, cpu=None):
    if cpu is not None:
        os.sched_setaffinity(0, {cpu})
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        step()
def sync():
    launch(cuda, 20)
    ok(cuda.cuStreamSynchronize(None))
def healthy():
    knob(b"sync_sleep_us", 20000)
    sync()
def copies():
    knob(b"sync_sleep_us", 30000)
    launch(cuda, 5)
    ok(cuda.cuMemcpyHtoD_v2(held, ctypes.create_string_buffer(4096), c_size_t(4096)))
def computes():
    launch(cuda, 1)
    for _ in range(100000):
        pass
def launches():
    knob(b"launch_ns", 2000000)
    launch(cuda, 50)
def idles():
    time.sleep(1)
block = mmap.mmap(-1, 1 << 20)
def writes(path):
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    os.write(fd, block)
    os.fsync(fd)
    os.close(fd)
def reads(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    for _ in range(64):
        os.readv(fd, [block])
        os.lseek(fd, 0, 0)
    os.close(fd)
"""
# name of the job: what it does, and its first cause; None: it has none
WAITING = {"healthy": ("healthy", None), "copies": ("copies", "host_copies"), "idles": ("idles", "idle")}
DISK = {"writes": ("lambda: writes('/var/tmp/zernel-why')", "checkpoint")}
COMPUTING = {"computes": ("computes", "host_code")}
LAUNCHING = {"launches": ("launches", "launch_bound")}


def why(daemon, name=None):
    found = [w for w in daemon.json("/why")["why"] if w["job_id"] == name]
    return found[0] if found else None


def causes(daemon, name):
    return [c["cause"] for c in why(daemon, name)["causes"]]


def start_job(daemon, name):
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    actor.do(BEGIN)
    job("start", name, "--pid", str(actor.pid), "uid=0")
    return actor


def look(daemon, faults, cpu=None):
    """What is first in the list of each after some seconds; {name: cause}."""
    actors = {name: start_job(daemon, name) for name in faults}
    for name, (step, _) in faults.items():
        actors[name].tell(f"run({step}, {SECONDS}, {cpu})")
    time.sleep(SECONDS - 0.5)
    first = {name: (causes(daemon, name) or [None])[0] for name in faults}
    shown = {name: why(daemon, name) for name in faults}
    for name, actor in actors.items():
        actor.answer(faults[name][0])
    equal(first, {name: cause for name, (_, cause) in faults.items()}, f"first causes: {json.dumps(shown)}")
    return shown


@test_timed
def faults_are_the_first_in_the_list():
    daemon = live()
    for faults, cpu in ((WAITING, None), (DISK, None), (COMPUTING, 1), (LAUNCHING, 1)):
        look(daemon, faults, cpu)
    healthy = why(daemon, "healthy")
    seconds = daemon.metrics().all("zernel_job_cause_seconds_total", job_id="copies")
    check(seconds[(("cause", "host_copies"),)] > 4, f"seconds of causes: {seconds}")
    check(healthy is None or healthy["processes"] == 1, healthy)
    os.unlink("/var/tmp/zernel-why")


@test
def a_cpu_that_others_take():
    daemon = live()
    hogs = [Actor() for _ in range(4)]
    for hog in hogs:
        hog.tell(f"import os, time\nos.sched_setaffinity(0, {{0}})\nend = time.monotonic() + {SECONDS}\nwhile time.monotonic() < end: pass")
    shown = look(daemon, {"short": ("computes", "cpu_shortage")}, cpu=0)
    check("% of the time is waiting for a free CPU" in shown["short"]["says"], shown)
    for hog in hogs:
        hog.answer("its loop")


@test
def what_the_terminal_says():
    daemon = live()
    url = f"http://127.0.0.1:{daemon.port}"
    done = run([ZERNEL, "why", url])
    equal((done.returncode, done.stdout), (0, "nothing has launched work on a GPU here\n"), "of a node at rest")
    actor = start_job(daemon, "7001")
    actor.tell(f"run(copies, {SECONDS})")
    wait_until(lambda: why(daemon, "7001") and causes(daemon, "7001") == ["host_copies"], "it copies")
    lines = run([ZERNEL, "why", "7001", url]).stdout.split("\n")
    equal(lines[0], "job 7001 (processes: 1; the last 60 s)", "its head")
    check(lines[1].startswith("  1. ") and "copying between host and GPU" in lines[1], lines)
    check(lines[2].startswith("     next: use pinned memory"), lines)
    equal(lines[3], "     measured by zernel_cuda_sync_seconds", "where its figure is")
    check(run([ZERNEL, "why", str(actor.pid), url]).stdout.startswith(f"process {actor.pid}: "), "of a process")
    equal(parse_json(run([ZERNEL, "why", "--json", url]).stdout)["window_s"], 60, "as JSON")
    equal([w["job_id"] for w in daemon.json("/why?job=7001")["why"]], ["7001"], "of one job")
    equal(daemon.json("/why?job=7002")["why"], [], "of none")
    done = run([ZERNEL, "why", "7002", url])
    equal((done.returncode, done.stdout), (1, "no job or process 7002 is known here\n"), "of none")
    for bad in (["a", "b"], ["--what"], [url, url]):
        equal(run([ZERNEL, "why", *bad]).returncode, 2, bad)
    actor.answer("its copies")


if __name__ == "__main__":
    main()
