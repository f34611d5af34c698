#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Jobs that no control group tells: what a process's environment says, and what root tags by hand; and whose GPUs are
used."""
import os
import signal

from control_socket import told
from harness import CUDA, NOBODY, Actor, Daemon, check, equal, folder, main, parse_json, test, \
    wait_until

LAUNCHES = "zernel_cuda_launches_total"
CLAIM = {"SLURM_JOB_ID": "96101", "SLURM_JOB_NAME": "train one", "SLURM_ARRAY_JOB_ID": "96100",
    "SLURM_ARRAY_TASK_ID": "3"}


def place(name):
    return os.path.join(folder(), name)


def live(**more):
    return Daemon("--control", place("run/control.sock"), "--report-dir", place("reports"), "--push-interval-ms", "200",
                  **more)


def job(*arguments):
    return told(place("run/control.sock"), *arguments)


def shown(name):
    return parse_json(job("show", name, "--json"))


def report(name):
    path = place(f"reports/{name}.json")
    wait_until(lambda: os.path.exists(path), path)
    with open(path) as file:
        return parse_json(file.read())


def job_of(daemon, pid):
    process = daemon.process_json(pid)
    return process["job_id"] if process else None


def at_work(daemon, calls, **env):
    """A process that holds memory on a GPU and has made so many launches."""
    actor = Actor(("cuda", CUDA), env=env)
    daemon.attached(CUDA)
    actor.do(f"ready(cuda); held = alloc(cuda, 13 << 20); launch(cuda, {calls})")
    wait_until(lambda: daemon.metrics().all(LAUNCHES, pid=str(actor.pid)), "launches")
    return actor


@test
def an_environment_is_believed_of_the_jobs_owner():
    daemon = live()
    job("start", "96101", "uid=0", "gpus=0")
    actor = at_work(daemon, 101, **CLAIM)
    wait_until(lambda: job_of(daemon, actor.pid) == "96101", "the job of the process")
    child = actor.do("""
r, w = os.pipe()
answer = os.fork()
if answer == 0:
    launch(cuda, 7); os.write(w, b"x"); time.sleep(3600)
os.read(r, 1)""")
    try:
        wait_until(lambda: job_of(daemon, child) == "96101", "the job of its child")
        metrics = daemon.metrics()
        equal(metrics.one("zernel_job_launches_total", job_id="96101"), 108, "launches of the job")
        equal(shown("96101")["name"], "train one", "its name")
    finally:
        os.kill(child, signal.SIGKILL)
    actor.end()
    daemon.gone(actor.pid)
    job("end", "96101")
    got = report("96101")
    equal((got["launches"]["count"], got["processes"]), (108, 2), "the report")
    equal((got["name"], got["array_job"], got["array_task"]), ("train one", "96100", "3"), "what no prolog is told")


@test
def an_environment_makes_nobody_anothers():
    daemon = live()
    job("start", "96101", f"uid={NOBODY}")
    job("start", "96102", "uid=0")
    stranger = at_work(daemon, 11, **CLAIM)
    unknown = at_work(daemon, 13, SLURM_JOB_ID="96103")
    wild = at_work(daemon, 17, SLURM_JOB_ID="96102\n", SLURM_JOB_NAME='"} 1')
    ours = at_work(daemon, 19, SLURM_JOB_ID="96102", SLURM_JOB_NAME='"} 1\n# \xff')
    wait_until(lambda: job_of(daemon, ours.pid) == "96102", "the job of the one that says the truth")
    equal([job_of(daemon, p.pid) or "" for p in (stranger, unknown, wild)], ["", "", ""], "jobs of the others")
    equal((shown("96101")["launches"], shown("96102")["launches"]), (0, 19), "launches of the jobs")
    check('"} 1?# ?' in shown("96102")["name"], f"its name: {shown('96102')['name']!r}")
    daemon.metrics()  # is well-formed


@test
def a_tag_survives_the_daemon():
    """The process and what it had started already, each with a row of its own in the next daemon."""
    daemon = live()
    actor = at_work(daemon, 23)
    child = actor.do("""
r, w = os.pipe()
go, gone = os.pipe()
answer = os.fork()
if answer == 0:
    launch(cuda, 1); os.write(w, b"x"); os.read(go, 1); launch(cuda, 5); os.write(w, b"x"); time.sleep(3600)
os.read(r, 1)""")
    try:
        job("start", "mine", "--pid", str(actor.pid), "uid=0", "gpus=0")
        equal([job_of(daemon, p) for p in (actor.pid, child)], ["mine"] * 2, "jobs of parent and child")
        wait_until(lambda: os.path.exists(place("run/jobs.d/job-mine")), "a record")
        before = shown("mine")
        daemon.kill()
        again = live().attached(CUDA)
        equal(shown("mine")["start_ms"], before["start_ms"], "when it started")
        actor.do("launch(cuda, 29); os.write(gone, b'x'); os.read(r, 1)")
        wait_until(lambda: shown("mine")["launches"] == 34, "launches after the restart")
        equal([job_of(again, p) for p in (actor.pid, child)], ["mine"] * 2, "jobs of both")
    finally:
        os.kill(child, signal.SIGKILL)
    actor.end()
    got = report("mine")  # 10 s after its last process
    equal((got["launches"]["count"], got["processes"], got["measured_since"] is None), (34, 2, False), "the report")


@test
def a_tag_that_ends_while_no_daemon_runs():
    """Its record is all that is left of it. It has its report, and only one."""
    daemon = live()
    actor = at_work(daemon, 7)
    job("start", "mine", "--pid", str(actor.pid), "uid=0", "name=short")
    wait_until(lambda: os.path.exists(place("run/jobs.d/job-mine")), "a record")
    before = shown("mine")
    daemon.kill()
    actor.end()
    again = live()
    got = report("mine")
    equal((got["start_ms"], got["name"], got["processes"], got["measured_since"] is None),
        (before["start_ms"], "short", 0, False), "the report")
    wait_until(lambda: not os.path.exists(place("run/jobs.d/job-mine")), "no record")
    os.unlink(place("reports/mine.json"))
    again.kill()
    live().ticked(5)
    equal(os.listdir(place("reports")), [], "reports of a later daemon")


@test
def one_gpu_is_used_and_one_is_not():
    daemon = live()
    actor = at_work(daemon, 31, SLURM_JOB_GPUS="0,1", CUDA_VISIBLE_DEVICES="0,1")
    job("start", "mine", "--pid", str(actor.pid), "uid=0", "gpus=0,1")
    actor.do("launch(cuda, 1)")

    def gpus():
        return {g["gpu_id"]: g for g in shown("mine")["gpus"]}
    wait_until(lambda: gpus()["1"]["idle_s"] > 1, "a second of idle time")
    wait_until(lambda: gpus()["0"]["quiet_s"] > 1, "a second of silence")
    got = gpus()
    check(got["0"]["busy_s"] > 0, f"GPU 0 was used for a moment: {got}")
    wait_until(lambda: gpus()["0"]["quiet_s"] > got["0"]["quiet_s"] + 1, "another second of silence")
    equal(gpus()["0"]["busy_s"], got["0"]["busy_s"], "for how long GPU 0 was used, after that")
    check(got["0"]["idle_s"] > 1 and got["0"]["peak_bytes"] == 13 << 20, f"GPU 0, on which no call is waiting: {got}")
    equal((got["1"]["busy_s"], got["1"]["peak_bytes"], got["1"]["allocated"]), (0, 0, True), "GPU 1")
    metrics = daemon.metrics()
    check(metrics.one("zernel_job_gpu_idle_seconds_total", job_id="mine", gpu_id="1") > 1, "the series of GPU 1")
    job("end", "mine")
    got = {g["gpu_id"]: g for g in report("mine")["gpus"]}
    total = [round(g["busy_seconds"] + g["idle_seconds"], 6) for g in got.values()]
    equal(total[0], total[1], "time of both")


if __name__ == "__main__":
    main()
