# SPDX-License-Identifier: GPL-2.0
"""Tables of the kernel that several users share: who takes all that he can get leaves room for the others, for threads
that launch above all, and a node with many CPUs has room for all that works on it."""
import json
import os
import subprocess
import time

from harness import (BURST, CUDA, NCCL, NOBODY, TOOLS, Actor, Daemon, Process, State, check, equal, folder, need, test,
                     test_timed, wait_until)
from jobs import V1, Group, Node
from lifecycle import NO_FILES, entries, tables_empty
from sched import CAUSES, Waiter

LAUNCHES = "zernel_cuda_launches_total"
OTHER = 12345  # another user
TICK_MS = 250


def by(uid):
    """What starts a program as this user."""
    return [need("setpriv"), "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]


def stalls(daemon, pids):
    """{pid: seconds by cause} of those whose time is followed."""
    found = {p["pid"]: p["stalls"] for p in daemon.json()["processes"] if p["pid"] in pids}
    return {pid: s["seconds"] for pid, s in found.items() if s}


def share(table, uid, size, held="[0-9]+"):
    """The line of the log that tells of a refusal."""
    return rf"quota: {table}: [0-9]+ refused, the last one to user {uid}, who holds {held} of {size}"


def lost(daemon, what):
    return daemon.metrics().lost().get(what, 0)


class Burst(Process):
    """Processes of a user that launch; see burst.c."""

    def __init__(self, uid, *arguments):
        super().__init__([*by(uid), BURST, CUDA, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(self.process.stdout.readline(), "ready\n", "what burst says first")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "done\n", "what burst says then")


RANGE = 3 << 16  # the first one of the user ids of a container


class ContainedBurst(Burst):
    """The same in a user namespace that root made, with a range of user ids of its own."""
    SCRIPT = """
import ctypes, os, sys
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):  # CLONE_NEWUSER
    raise OSError(ctypes.get_errno(), "unshare")
print("unshared", flush=True)
os.read(0, 1)
os.setresuid(*3 * [int(sys.argv[1])])
os.execv(sys.argv[2], sys.argv[2:])
"""

    def __init__(self, uid, *arguments):
        Process.__init__(self, ["/usr/bin/python3", "-c", self.SCRIPT, str(uid), BURST, CUDA, *map(str, arguments)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(self.process.stdout.readline(), "unshared\n", "what it says in its namespace")
        for ids in ("uid_map", "gid_map"):
            with open(f"/proc/{self.pid}/{ids}", "w") as f:
                f.write(f"0 {RANGE} 65536")
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "ready\n", "what burst says first")


# ---- threads

def launching(count):
    actors = [Actor(("cuda", CUDA)) for _ in range(count)]
    for actor in actors:
        actor.do("ready(cuda); launch(cuda, 100)")
    return actors


def crowded(uid, idle):
    """Ten processes launch beside one with so many threads that wake twice a second, which launches itself."""
    expect = [share("threads of processes that do", uid, 8192)]
    daemon = Daemon("--push-interval-ms", str(TICK_MS), *NO_FILES, "--table-cpus", "1",
                    expect=[*expect, "alert events_lost.* fires"])
    crowd = Waiter(idle, by(uid))
    daemon.attached(CUDA, NCCL)
    crowd.do("sleep", 1)
    wait_until(lambda: entries(daemon, "sched_threads") > 3000, "the crowd is seen")
    wait_until(lambda: lost(daemon, "thread"), "threads without a place", seen=lambda: entries(daemon, "sched_threads"))
    actors = launching(10)
    wait_until(lambda: len(stalls(daemon, {a.pid for a in actors})) == 10, "ten whose waits are told beside a crowd")
    crowd.do("sleep", 3)
    wait_until(lambda: stalls(daemon, {crowd.pid}), "the waits of the crowd's own launching thread are told")
    time.sleep(2)
    refused = lost(daemon, "thread")
    check(0 < refused <= idle, f"{refused} threads were refused, of {idle}: each is counted once")
    for process in (crowd, *actors):
        process.end()
    tables_empty(daemon)


@test
def a_crowd_of_threads_leaves_others_their_waits():
    crowded(NOBODY, 5000)


@test
def a_crowd_of_root_leaves_launching_threads_their_waits():
    crowded(0, 10000)


class Ranks:
    """Processes of one user with many threads each, on a node of so many CPUs."""

    def __init__(self, cpus, count, idle):
        self.daemon = Daemon("--push-interval-ms", "1000", *NO_FILES, "--table-cpus", str(cpus))
        self.waiters = [Waiter(idle, by(NOBODY)) for _ in range(count)]
        self.daemon.attached(CUDA, NCCL)
        for w in self.waiters:
            w.do("sleep", 1)
        wait_until(lambda: entries(self.daemon, "sched_threads") >= count * idle, "all threads are followed", 60)

    def seconds(self):
        """{pid: seconds by cause} as of a tick, and its time."""
        pids = {w.pid for w in self.waiters}
        before = stalls(self.daemon, pids)
        now = wait_until(lambda: (s := stalls(self.daemon, pids)) != before and s, "a tick")
        return now, time.monotonic()

    def do(self, scenario, repeats):
        for w in self.waiters:
            w.tell(scenario, repeats)
        return [w.answer() for w in self.waiters]


@test_timed
def eight_ranks_of_a_thousand_threads_have_all_their_waits():
    ranks = Ranks(256, 8, 1000)
    ranks.daemon.ticked(2)
    before, start = ranks.seconds()
    did = ranks.do("pin", 31)
    after, end = ranks.seconds()
    equal(len(after), 8, "ranks whose time is followed")
    for w, d in zip(ranks.waiters, did):
        got = {c: (after[w.pid][c] or 0) - (before[w.pid][c] or 0) for c in CAUSES}
        check(abs(sum(got.values()) - (end - start)) < 0.05 * (end - start) + 0.2, f"{got} is not {end - start} s")
        waits = ranks.daemon.metrics().all("zernel_dataloader_wait_seconds_count", pid=str(w.pid))
        check(d["waits"] - 4 <= sum(waits.values()) <= d["waits"], f"{waits}, not {d['waits']}, a few unseen")
    equal(ranks.daemon.metrics().lost(), {}, "what was lost")


# ---- processes and histograms

@test
def a_crowd_of_processes_leaves_others_rows():
    """One user has half of what is not root's; each process that is refused is counted once, and the log names him."""
    daemon = Daemon(*NO_FILES, expect=[share("processes", NOBODY, 1024, 480), "alert events_lost.* fires"])
    burst = Burst(NOBODY, 1103, 3)
    daemon.attached(CUDA)
    for n in (1, 2):
        burst.go()
        equal(len(daemon.metrics().all(LAUNCHES, kind="kernel")), 480, "processes of a greedy user")
        equal(daemon.metrics().lost(), {"process": 623}, "what was lost")
    daemon.ticked(1)  # which writes the line
    other = Burst(OTHER, 200, 3)
    other.go()
    equal(len(daemon.metrics().all(LAUNCHES, kind="kernel")), 680, "and of the next one")
    equal(daemon.metrics().lost(), {"process": 623}, "what was lost")
    burst.end()
    tables = lambda: entries(daemon, "processes")
    wait_until(lambda: tables() == 200, "rows that were given back")
    again = Burst(NOBODY, 300, 3)
    again.go()
    equal(entries(daemon, "processes"), 500, "a user who gave all back may take again")
    again.end()
    other.end()
    tables_empty(daemon)


@test
def a_container_of_many_users_is_one_owner():
    daemon = Daemon(*NO_FILES, expect=[share("processes", RANGE, 1024, 480), "alert events_lost.* fires"])
    bursts = [ContainedBurst(uid, 300, 3) for uid in (10, 4711)]
    daemon.attached(CUDA)
    for burst in bursts:
        burst.go()
    equal(len(daemon.metrics().all(LAUNCHES, kind="kernel")), 480, "processes of a container that root made")
    equal(daemon.metrics().lost(), {"process": 120}, "what was lost")
    daemon.ticked(2)
    for burst in bursts:
        burst.end()
    tables_empty(daemon)


def told(process):
    process.process.stdin.write("\n")
    process.process.stdin.flush()
    equal(process.process.stdout.readline(), "done\n", "what it says")


@test
def a_fork_bomb_in_a_job_leaves_others_their_tags():
    """A job has half of the table of processes of jobs; what it forks beyond is counted once each, and the log names
    it."""
    size, held = 16384, (16384 - 1024) // 2
    refused = f"quota: processes of jobs: [0-9]+ refused, the last one to job 4711, who holds [0-9]+ of {size}"
    node = Node(expect=[refused, "alert events_lost.* fires"])
    bomb, job = Group("freezer", V1 + "/job_4711/step_0"), Group("freezer", V1 + "/job_4712/step_0")
    forks = Process([*bomb.entered_by(), os.path.join(TOOLS, "forks"), "8009"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
    told(forks)
    node.ticked(2)
    found = entries(node, "job_processes")
    check(held - 9 <= found <= held + 9, f"{found} processes of the job in the table, not {held}")
    check(abs(lost(node, "task") + held - 8010) <= 9, f"{lost(node, 'task')} were lost")
    actor = Actor(("cuda", CUDA), before=job.entered_by())
    node.attached(CUDA)
    actor.do("ready(cuda); launch(cuda, 7)")
    equal(node.job_of(actor.pid), "4712", "job of a process that came after")
    forks.end()
    actor.end()
    wait_until(lambda: entries(node, "job_processes") == 0, "no process of a job")


CONNECTIONS = """
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=100)
clients, held = [], []
for _ in range(5003):
    clients.append(socket.create_connection(server.getsockname()))
    held.append(server.accept()[0])
for _ in range(2):
    for c in clients:
        c.send(b"x")
"""


@test
def connections_of_one_user_leave_room_for_others():
    """Each that is refused is counted once, but for some whose places of that are the same, and what goes is given
    back."""
    share_of = (4096 - 256) // 2
    refused = 5003 - share_of
    daemon = Daemon(*NO_FILES, expect=[share("connections", NOBODY, 4096, share_of)])
    for n in (1, 2):
        actor = Actor(("cuda", CUDA), before=["prlimit", "--nofile=20000", *by(NOBODY)])
        daemon.attached(CUDA)
        actor.do("ready(cuda); launch(cuda, 7)")
        daemon.ticked(2)
        actor.do(CONNECTIONS)
        lost = daemon.metrics().lost()
        check(0.8 * n * refused < lost.pop("socket") <= n * refused, "connections that were refused")
        equal(lost, {}, "what else was lost")
        wait_until(lambda: any("connections" in line for line in daemon.lines()), "the line of the log")
        actor.end()
        daemon.gone(actor.pid)


class Groups:
    """As many control groups below one; they go when the test ends."""

    def __init__(self, group, count):
        self.paths = [f"{group.path}/g{n}" for n in range(count)]
        State.cleanup.callback(self.remove)
        for path in self.paths:
            os.mkdir(path)

    def remove(self):
        while self.paths:
            os.rmdir(self.paths.pop())


@test
def a_crowd_of_groups_leaves_new_jobs_theirs():
    """Jobs that make all the groups they can leave the reserve, which is for the groups of jobs themselves."""
    node = Node(expect=["quota: control groups of jobs: [0-9]+ refused, the last one to job 51[0-9]+, who holds "
                        "[0-9]+ of 8192",
                        "alert events_lost.* fires"])
    before = entries(node, "job_cgroups")
    crowd = []
    for n in range(14):  # each takes half of what the others left
        top = Group("freezer", f"{V1}/job_51{n}")
        crowd += [top, Groups(top, 7900 >> n + 1)]
    refused = lost(node, "task")
    check(refused > 0, "the table has no room for the groups of users")
    check(entries(node, "job_cgroups") - before >= 8192 - 512, "groups in the table")
    job = Group("freezer", V1 + "/job_4712")
    equal(lost(node, "task"), refused, "what was lost")
    actor = Actor(("cuda", CUDA), before=job.entered_by())
    node.attached(CUDA)
    actor.do("ready(cuda); launch(cuda, 7)")
    equal(node.job_of(actor.pid), "4712", "job of a process that came after")
    actor.end()
    for group in (job, *reversed(crowd)):
        group.remove()
    wait_until(lambda: entries(node, "job_cgroups") == before, "no group of these jobs")
    wait_until(lambda: set(node.jobs("4712")) <= {"ended"}, "the end of the job")


# ---- what is shown of it

@test
def histograms_of_files_count():
    daemon = Daemon()
    before = entries(daemon, "histograms")
    with open(os.path.join(folder(), "file"), "wb") as f:
        f.write(b"x" * 4096)
    with open(os.path.join(folder(), "file"), "rb") as f:
        f.read()
    wait_until(lambda: entries(daemon, "io_series") > 0, "series of file I/O")
    check(entries(daemon, "histograms") > 0, f"histograms of series, not {before}")


if __name__ == "__main__":
    from harness import main
    main()
