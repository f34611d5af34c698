#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""File I/O, by the ways that this kernel allows: each byte and each call, however it was made. tests/io/matrix.c reads
the daemon's tables itself, so that nothing between them and it can hide a byte."""
import os
import re

from harness import Daemon, TOOLS, check, equal, folder, main, need, run, test, wait_until

MATRIX = os.path.join(TOOLS, "matrix")
WAYS = ("fentry", "kprobe", "tracepoint")


def tier(daemon):
    """How the daemon measures file I/O here; None: it does not."""
    return next((p.get("tier") for p in daemon.json()["probes"] if p["family"] == "vfs"), None)


def matrix(way):
    daemon = Daemon("--probes", "vfs,meta", "--tier", way, expect=[r"warning: probe: (vfs|meta): "])
    if tier(daemon) != way:
        return False
    daemon.expect = ()
    done = run([need(MATRIX), folder(), way])
    last = done.stdout.strip().splitlines()[-1]
    equal(done.returncode, 0, done.stdout + done.stderr)
    check(re.fullmatch(r"[1-9]\d+ passed, 0 failed", last), last)
    equal(daemon.metrics().lost(), {}, "what was lost")
    return True


@test
def each_byte_once_whichever_call_moved_it():
    check(any([matrix(way) for way in WAYS]), "no way to measure file I/O")


def synced(daemon):
    return sum(daemon.metrics().all("zernel_io_requests_total", op="fsync").values())


@test
def a_family_that_counts_is_not_said_to_wait():
    daemon = Daemon("--probes", "vfs,meta,syscalls", expect=[r"warning: probe: (vfs|meta): "])
    daemon.expect = ()
    before = synced(daemon)
    with open(os.path.join(folder(), "synced"), "w") as file:
        for _ in range(101):
            os.fsync(file.fileno())
    check(synced(daemon) - before >= 101, "others sync files too, while no process is hooked")
    states = {p["family"]: (p["state"], p.get("tier")) for p in daemon.json()["probes"]}
    equal((states["vfs"][0], states["meta"][0]), ("attached", "attached"), "families")
    equal(states["syscalls"][0], "attached" if states["vfs"][1] == "tracepoint" else "waiting", "calls")


@test
def what_finds_the_tables_full_is_counted_as_lost():
    daemon = Daemon("--probes", "vfs,meta", allow=[r"warning: probe: (vfs|meta): ", "quota: series of file I/O"])
    daemon.expect = ["alert events_lost.* fires"]
    with daemon.stopped():
        done = run([need(MATRIX), folder(), "full"])
    equal(done.returncode, 0, done.stdout + done.stderr)
    lost = daemon.metrics().lost()
    equal(sorted(lost), ["io"], f"what was lost: {lost}")
    wait_until(lambda: any("alert events_lost" in line for line in daemon.lines()), "the alert")


if __name__ == "__main__":
    main()
