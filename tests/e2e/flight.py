#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The record of a hang: written once for each, with what is known at that moment. Real processes."""
import json
import os
import signal
import subprocess
import time

from annotate import said
from claims import job, live, place
from hangs import HELPERS, RANKS, come_back, firing, let_go, wait_for
from harness import ZERNEL, State, check, equal, main, parse_json, test, wait_until
from waits import rank


def hung(name="4711", uid=0):
    """A daemon, and four ranks of a job that have made three steps; rank 2 then reads from a pipe, and the others wait
    for it."""
    daemon = live()
    ranks = [rank(daemon, n, RANKS) for n in range(RANKS)]
    for a in ranks:
        a.do(HELPERS)
        job("start", name, "--pid", str(a.pid), f"uid={uid}")
    State.cleanup.callback(let_go, ranks)
    for _ in range(3):
        for a in ranks:
            a.do("step()")
    return daemon, ranks


def hang(daemon, ranks):
    ranks[2].tell("r, w = os.pipe(); signal.signal(signal.SIGUSR1, lambda *_: os.write(w, b'x')); os.read(r, 1)")
    wait_for(ranks, ranks[2])
    wait_until(lambda: firing(daemon, "nccl_hang"), "nccl_hang fires")


def go_on(daemon, ranks):
    os.kill(ranks[2].pid, signal.SIGUSR1)
    ranks[2].answer("its sleep")
    come_back(ranks, ranks[2])
    wait_until(lambda: not firing(daemon, "nccl_hang"), "all is well")


def record(name, n=1):
    try:
        with open(os.path.join(place("reports"), f"hang-report-of-{name}.{n}.json")) as f:
            return json.load(f)
    except FileNotFoundError:
        return None


@test
def a_hang_is_recorded_once():
    daemon, ranks = hung()
    said("--id", "4711", "epoch=3")
    began = time.time()
    hang(daemon, ranks)
    got = wait_until(lambda: record("job-4711"), "the record")
    equal((got["job_id"], got["uid"], got["episode"], got["alert"], got["source"]),
        ("4711", 0, 1, "nccl_hang", "live"), "its head")
    equal([(label["key"], label["value"]) for label in got["labels"]], [("epoch", "3")], "what it said of itself")
    check(began < got["at_ms"] / 1000 < time.time(), got["at_ms"])
    missing = got["missing"]
    equal((missing["rank"], missing["pid"], missing["doing"], missing["says"]),
          (2, ranks[2].pid, "asleep", "is asleep in read() of a pipe"), "who is missing")
    check(missing["waited_for_s"] > 9, missing)
    threads = got["threads"]
    equal((threads["pid"], threads["count"]), (ranks[2].pid, len(os.listdir(f"/proc/{ranks[2].pid}/task"))),
        "threads of it")
    main_thread = [t for t in threads["seen"] if t["tid"] == ranks[2].pid][0]
    check("pipe_read" in main_thread["wchan"] and main_thread["syscall"].startswith("0 0x")
        and main_thread["state"] == "S", main_thread)
    comm, = got["communicators"]
    issued = {m["rank"]: (m["pid"], m["issued"], len(m["issued_s_ago"])) for m in comm["ranks"]}
    equal(issued, {n: (a.pid, 3 + (n != 2), 3 + (n != 2)) for n, a in enumerate(ranks)}, "what each has issued")
    check(all(m["issued_s_ago"] == sorted(m["issued_s_ago"]) for m in comm["ranks"]), comm)
    equal({p["pid"] for p in got["processes"]}, {a.pid for a in ranks}, "its processes")
    check(f"waits for rank 2 (process {ranks[2].pid})" in [p for p in got["processes"]
        if p["pid"] == ranks[0].pid][0]["stalls"]["says"], got)
    check(got["memory"] is None or got["memory"]["used_bytes"] > 0, got["memory"])
    daemon.ticked(3)
    equal(record("job-4711", 2), None, "it is recorded once")

    page = job("hang", "4711")
    for line in ("the job said of itself: epoch=3\n",
            f"rank 2, process {ranks[2].pid} is asleep in read() of a pipe; waited for ", "Communicators:",
            "collectives issued: 4, the last one ", "pipe_read"):
        check(line in page, page)
    equal(parse_json(job("hang", "4711", "--json"))["at_ms"], got["at_ms"], "as JSON")
    equal(parse_json(job("report", "4711", "--json"))["hangs"], 1, "in its report")

    go_on(daemon, ranks)
    hang(daemon, ranks)
    second = wait_until(lambda: record("job-4711", 2), "the record of the second one")
    equal(second["episode"], 2, "it is another one")
    equal(parse_json(job("hang", "4711", "--json"))["episode"], 2, "the last one is shown")
    go_on(daemon, ranks)
    equal(daemon.metrics().lost(), {}, "losses")


@test
def whose_record_it_is():
    daemon, ranks = hung(uid=65534)
    hang(daemon, ranks)
    wait_until(lambda: record("job-4711"), "the record")
    for user, status in ((65534, 0), (1000, 1)):
        done = subprocess.run(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", ZERNEL, "job",
            "hang", "4711",
                               "--control", place("run/control.sock")], text=True, capture_output=True, timeout=60)
        equal(done.returncode, status, f"user {user}: {done.stderr}")
        check(status == 0 or "no hang of job 4711 was recorded here, or it is not yours" in done.stderr, done.stderr)
    go_on(daemon, ranks)


@test
def no_record_no_answer():
    live()
    done = subprocess.run([ZERNEL, "job", "hang", "17", "--control", place("run/control.sock")], text=True,
        capture_output=True, timeout=60)
    equal(done.returncode, 1, "exit status")
    check("no hang of job 17 was recorded here, or it is not yours" in done.stderr, done.stderr)


if __name__ == "__main__":
    main()
