#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Ranks that others wait for: who it is, what it does instead, and when that is an alert. Real processes; the GPU's
waits are those of the stand-in library, which sleeps in them."""
import os
import select
import signal
import time

from fuse import Fuse
from harness import CUDA, HANG, PATIENCE, ZERNEL, Actor, Daemon, State, check, equal, folder, main, run, \
    state_of, test, test_timed, wait_until
from jobs import Group
from signals import RANDOM_MAJOR
from waits import rank

MISSING, DOING, LONGEST = (f"zernel_nccl_{n}_seconds" for n in ("missing_rank", "missing_rank_doing", "longest_wait"))
BLOCKED = "zernel_process_blocked_seconds"
ALL_WAIT = "zernel_nccl_all_wait_seconds"
RANKS = 4
HELPERS = """
import signal, threading
def step():
    launch(cuda, 3)
    ok(nccl.ncclAllReduce(None, None, c_size_t(4), 7, 0, comm, None))
    ok(cuda.cuStreamSynchronize(None))
def p2p(call, peer, seconds=0):
    # sends to a rank, or receives from it, and waits for that
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(int(seconds * 1e6)))
    launch(cuda, 1)
    ok(getattr(nccl, call)(None, c_size_t(4), 7, peer, comm, None))
    ok(cuda.cuStreamSynchronize(None))
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(0))
woken = []
signal.signal(signal.SIGUSR2, lambda *_: woken.append(1))  # which ends a sleep in the stand-in library, and doze()
def doze(seconds):
    CDLL(None).usleep(int(seconds * 1e6))
def wait_for_others(seconds):
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(int(seconds * 1e6)))
    step()
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(0))
def spin(seconds):
    end, before = time.monotonic() + seconds, len(woken)
    while time.monotonic() < end and len(woken) == before:
        pass
def write(path, seconds):
    end, before, block = time.monotonic() + seconds, len(woken), b"x" * (1 << 20)
    with open(path, "wb") as f:
        while time.monotonic() < end and len(woken) == before:
            f.write(block)
            os.fsync(f.fileno())
            f.seek(0)
"""


# userfaultfd(2): UFFDIO_API, UFFDIO_REGISTER, UFFDIO_ZEROPAGE
FAULT = """
import fcntl, struct
from ctypes import c_ulong
libc = CDLL(None, use_errno=True)
libc.mmap.restype = c_void_p
at = libc.mmap(None, c_size_t(4096), 3, 0x22, -1, c_size_t(0))
uffd = libc.syscall(323, os.O_CLOEXEC)
assert uffd >= 0, os.strerror(ctypes.get_errno())
fcntl.ioctl(uffd, 0xc018aa3f, struct.pack("QQQ", 0xaa, 0, 0))
fcntl.ioctl(uffd, 0xc020aa00, struct.pack("QQQQ", at, 4096, 1, 0))
fd = os.open("/dev/random", os.O_RDWR)
def resolve():
    fcntl.ioctl(uffd, 0xc020aa04, struct.pack("QQQq", at, 4096, 0, 0))
"""


def cut_short(name, time, to):
    """A file of this built-in rule, whose time is another one."""
    rule, = (b for b in run([ZERNEL, "alerts", "defaults"]).stdout.split("\n\n") if b.split()[1] == name)
    equal(rule.count(time), 1, "its time")
    path = os.path.join(folder(), "rules")
    with open(path, "w") as file:
        file.write(rule.strip().replace(time, to) + "\n")
    return path


def let_go(ranks):
    """Whatever they wait for, when a test is over: each that is still there."""
    for a in ranks:
        if a.process.poll() is None:
            os.kill(a.pid, signal.SIGUSR2)


def job(*options, count=RANKS, nranks=None, **more):
    """A daemon, and ranks that have made three steps together. nranks: of all nodes."""
    daemon = Daemon("--push-interval-ms", "500", *options, **more)
    ranks = [rank(daemon, n, nranks or count) for n in range(count)]
    for a in ranks:
        a.do(HELPERS)
    State.cleanup.callback(let_go, ranks)
    for _ in range(3):
        for a in ranks:
            a.do("step()")
    return daemon, ranks


def missing(daemon, name=MISSING):
    """{(rank, pid, doing): seconds}"""
    return {tuple(dict(k)[n] for n in ("rank", "pid", "doing")): v for k, v in daemon.metrics().all(name).items()}


def says(daemon, actor):
    return daemon.process_json(actor.pid)["stalls"]["says"]


def firing(daemon, name):
    return daemon.metrics().one("zernel_alert_state", alert=name) == 2


def wait_for(ranks, missing_one, seconds=HANG):
    """All but one go on to a collective that it does not issue, until wake()."""
    for a in ranks:
        if a is not missing_one:
            a.tell(f"wait_for_others({seconds})")
    return time.monotonic()


def found(daemon, actor, number, doing, patience=PATIENCE):
    key = (str(number), str(actor.pid), doing)
    wait_until(lambda: list(missing(daemon)) == [key], f"{key} is missing, and nobody else", patience,
        seen=lambda: missing(daemon))
    return key


def wake(*actors):
    """Their waits, which are sleeps, are over. What is too early for that does no harm, and is sent again."""
    for a in actors:
        os.kill(a.pid, signal.SIGUSR2)
    for a in actors:
        while not select.select([a.process.stdout], [], [], 1)[0]:
            os.kill(a.pid, signal.SIGUSR2)
        a.answer("its wait")


def come_back(ranks, missing_one):
    """It issues what the others wait for."""
    missing_one.do("step()")
    wake(*(a for a in ranks if a is not missing_one))


@test_timed
def a_rank_that_sleeps():
    daemon, ranks = job()
    late = ranks[2]
    late.tell("r, w = os.pipe(); signal.signal(signal.SIGUSR1, lambda *_: os.write(w, b'x')); os.read(r, 1)")
    began = wait_for(ranks, late)
    key = found(daemon, late, 2, "asleep")
    wait_until(lambda: firing(daemon, "nccl_hang"), "nccl_hang fires", 14)
    check(time.monotonic() - began < 13, f"it took {time.monotonic() - began} s")
    check(missing(daemon, DOING)[key] > 10, "it has slept for so long")
    for n in (0, 1, 3):
        said = says(daemon, ranks[n])
        check(said.startswith(f"rank {n} waits for rank 2 (process {late.pid}), which is asleep in read() of a pipe, "
                              f"for "), said)
        check("keeps the GPU busy" not in said, said)
    check(says(daemon, late).startswith("rank 2 keeps 3 other ranks waiting for "), says(daemon, late))
    lost = daemon.json("/why")["why"][0]["causes"][0]
    equal((lost["cause"], lost["sure"]), ("hang", "measured"), "the first cause")
    check(f"rank 2, process {late.pid}, is asleep in read() of a pipe, for " in lost["says"], lost)
    lateness = {dict(k)["rank"]: v for k, v in daemon.metrics().all("zernel_nccl_issue_late_seconds_total").items()}
    check(lateness["2"] > 10, f"lateness counts while it lasts: {lateness}")
    os.kill(late.pid, signal.SIGUSR1)
    late.answer("its sleep")
    come_back(ranks, late)
    wait_until(lambda: not missing(daemon) and not firing(daemon, "nccl_hang"), "all is well")
    check(10 < daemon.metrics().one(LONGEST) < 40, "the longest wait so far")


@test
def a_rank_that_is_stopped():
    daemon, ranks = job()
    os.kill(ranks[1].pid, signal.SIGSTOP)
    wait_for(ranks, ranks[1])
    found(daemon, ranks[1], 1, "asleep")
    wait_until(lambda: "stopped by a signal or a debugger" in says(daemon, ranks[0]), "it is said that it is stopped")
    os.kill(ranks[1].pid, signal.SIGCONT)
    come_back(ranks, ranks[1])


@test_timed
def a_rank_that_is_killed():
    """Before it issues what the others do, or after: either way they wait for it forever."""
    for steps in (0, 1):
        daemon, ranks = job()
        victim = ranks[3]
        began = wait_for(ranks, victim)
        if steps:
            victim.tell(f"wait_for_others({HANG})")
            time.sleep(1)
            began = time.monotonic()
        victim.kill()
        found(daemon, victim, 3, "gone", 4)
        wait_until(lambda: firing(daemon, "nccl_hang"), "nccl_hang fires", 4)
        check(time.monotonic() - began < 4, f"it took {time.monotonic() - began} s")
        said = says(daemon, ranks[0])
        check(f"waits for rank 3 (process {victim.pid}), which was killed (SIGKILL) " in said, said)
        wake(*ranks[:3])
        daemon.end()


@test
def a_rank_that_computes_or_writes_is_late_and_no_alert():
    daemon, ranks = job()
    for do, doing in ((f"spin({HANG})", "cpu"), (f"write('/var/tmp/zernel-checkpoint', {HANG})", "io")):
        ranks[0].tell(do)
        wait_for(ranks, ranks[0])
        found(daemon, ranks[0], 0, doing)
        for _ in range(10):
            time.sleep(1)
            check(not firing(daemon, "nccl_hang"), f"{doing} is no hang")
        wake(ranks[0])
        come_back(ranks, ranks[0])
        wait_until(lambda: not missing(daemon), "it has come")
    os.unlink("/var/tmp/zernel-checkpoint")


@test
def a_rank_whose_other_threads_work_is_not_asleep():
    """As a checkpoint that a thread writes, or a compiler that a child process is."""
    daemon, ranks = job()
    ranks[0].tell(f"t = threading.Thread(target=spin, args=({HANG},)); t.start(); t.join()")
    wait_for(ranks, ranks[0])
    found(daemon, ranks[0], 0, "cpu")
    wake(ranks[0])
    come_back(ranks, ranks[0])
    ranks[0].do("import subprocess; child = subprocess.Popen(['timeout', '-s', 'KILL', '120', 'sh', '-c', "
                "'while :; do :; done']); signal.signal(signal.SIGUSR1, lambda *_: child.terminate())")
    ranks[0].tell("child.wait()")
    wait_for(ranks, ranks[0])
    found(daemon, ranks[0], 0, "cpu")
    daemon.ticked(6)
    found(daemon, ranks[0], 0, "cpu")
    os.kill(ranks[0].pid, signal.SIGUSR1)
    ranks[0].answer("its child")
    come_back(ranks, ranks[0])


@test
def who_leaves_or_ends_in_order_is_not_missing():
    daemon, ranks = job()
    ranks[0].do("nccl.ncclCommDestroy(comm)")
    ranks[1].end()
    wait_for(ranks[2:], ranks[0])  # two of four go on by themselves: the third has left, the fourth has ended
    wait_until(lambda: [k[2] for k in missing(daemon) if k[0] == "1"] == ["gone"], "who ended while others go on",
               seen=lambda: missing(daemon))
    daemon.ticked(2)
    equal([k for k in missing(daemon) if k[0] == "0"], [], "who has left")
    wake(*ranks[2:])
    for a in (ranks[0], *ranks[2:]):
        a.end()
    wait_until(lambda: not missing(daemon), "nobody waits any more")


@test
def a_rank_that_does_not_come_back_from_the_driver():
    """Its ioctl() has to wait for a page of memory, which comes when a pipe is written to: the alert is after 30 s."""
    daemon, ranks = job("--gpu-majors", RANDOM_MAJOR)
    pipe = os.path.join(folder(), "pipe")
    os.mkfifo(pipe)
    ranks[2].do(FAULT)
    began = time.monotonic()
    ranks[2].tell(f"threading.Thread(target=lambda: (open({pipe!r}).read(), resolve())).start(); "
                  "libc.ioctl(fd, c_ulong(0x40085203), c_void_p(at))")
    wait_for(ranks, ranks[2])
    found(daemon, ranks[2], 2, "driver")
    check("is inside the GPU driver" in says(daemon, ranks[0]), says(daemon, ranks[0]))
    check(not firing(daemon, "driver_unresponsive"), "not yet")
    wait_until(lambda: firing(daemon, "driver_unresponsive") and firing(daemon, "nccl_hang"), "both alerts fire")
    stuck = daemon.metrics().one("zernel_gpu_driver_stuck_seconds", pid=str(ranks[2].pid))
    check(30 < stuck < time.monotonic() - began, f"for how long: {stuck}")
    os.close(os.open(pipe, os.O_WRONLY))
    ranks[2].answer("its call")
    come_back(ranks, ranks[2])
    wait_until(lambda: not firing(daemon, "driver_unresponsive") and not missing(daemon), "all is well")


@test
def the_last_of_a_chain_is_named():
    """In one communicator all wait for rank 2; in another one that waits for rank 1."""
    daemon, ranks = job()
    for n in (1, 2):
        ranks[n].do(f"first = comm; init({n - 1}, 2, b'pair'); second = comm; comm = first")
        ranks[n].do("comm = second; step(); comm = first")
    ranks[1].tell(f"doze({HANG})")
    for n in (0, 3):
        ranks[n].tell(f"wait_for_others({HANG})")
    ranks[2].tell(f"comm = second; wait_for_others({HANG}); comm = first")
    wait_until(lambda: {k[1] for k in missing(daemon)} == {str(ranks[1].pid)}, "rank 1 alone",
        seen=lambda: missing(daemon))
    for n in (0, 2, 3):
        wait_until(lambda: f"(process {ranks[1].pid})" in says(daemon, ranks[n]), f"what rank {n} waits for",
            seen=lambda: says(daemon, ranks[n]))
    wake(*ranks)


def pipeline_step(ranks):
    """Each stage hands on to the next one what it got."""
    for n, a in enumerate(ranks):
        if n > 0:
            a.do(f"p2p('ncclRecv', {n - 1})")
        if n < len(ranks) - 1:
            a.do(f"p2p('ncclSend', {n + 1})")


@test
def a_stage_of_a_pipeline_that_stands_still():
    """Those behind it wait for what it does not send, and those before it for what it does not take: it is named, not
    they."""
    daemon, ranks = job()
    for _ in range(5):
        pipeline_step(ranks)
    ranks[1].tell(f"doze({HANG})")
    ranks[0].tell(f"p2p('ncclSend', 1, {HANG})")
    ranks[2].tell(f"p2p('ncclRecv', 1, {HANG})")
    ranks[3].tell(f"p2p('ncclRecv', 2, {HANG})")
    found(daemon, ranks[1], 1, "asleep")
    check("is asleep in sleep()" in says(daemon, ranks[0]), says(daemon, ranks[0]))
    for n in (0, 2, 3):
        check(f"waits for rank 1 (process {ranks[1].pid})" in says(daemon, ranks[n]), says(daemon, ranks[n]))
    wait_until(lambda: firing(daemon, "nccl_hang"), "nccl_hang fires")
    wake(*ranks)
    ranks[1].do("p2p('ncclRecv', 0); p2p('ncclSend', 2)")
    ranks[2].do("p2p('ncclSend', 3)")
    wait_until(lambda: not missing(daemon) and not firing(daemon, "nccl_hang"), "all is well")


@test
def stages_of_a_pipeline_that_works():
    """The first stage is two micro-batches ahead of the last one, and each waits for its neighbours."""
    daemon, ranks = job()
    for n, a in enumerate(ranks):
        before = f"p2p('ncclRecv', {n - 1}, 0.1)" if n else "pass"
        after = f"p2p('ncclSend', {n + 1}, 0.1)" if n < RANKS - 1 else "pass"
        a.tell(f"time.sleep({n} * 0.2)\nfor _ in range(30): {before}; {after}")
    for _ in range(6):
        time.sleep(1)
        equal(missing(daemon), {}, "nobody is missing")
    for a in ranks:
        a.answer("its steps")


@test
def operations_with_a_root():
    """A reduction that one rank does not issue, after a gather and a scatter that all have."""
    daemon, ranks = job()
    for a in ranks:
        a.do("ok(nccl.ncclGather(None, None, c_size_t(4), 7, 0, comm, None)); ok(nccl.ncclScatter(None, None, "
             "c_size_t(4), 7, 0, comm, None))")
        a.do("def root():\n ok(nccl.ncclReduce(None, None, c_size_t(4), 7, 0, 0, comm, None))\n "
             "ok(cuda.cuStreamSynchronize(None))")
    ranks[3].tell(f"doze({HANG})")
    for a in ranks[:3]:
        a.tell(f"cuda.fake_cuda_set(b'sync_sleep_us', ctypes.c_long({HANG} * 1000000)); launch(cuda, 1); root()")
    found(daemon, ranks[3], 3, "asleep")
    wake(*ranks)
    ranks[3].do("root()")
    wait_until(lambda: not missing(daemon), "it has come")


@test
def all_ranks_of_this_node_wait():
    """Four of eight are here, and have issued the same: one of the others may be missing, and none of these is."""
    daemon, ranks = job(nranks=2 * RANKS)
    for a in ranks:
        a.tell(f"wait_for_others({HANG})")
    wait_until(lambda: daemon.metrics().all(ALL_WAIT), "it is said that all wait",
        seen=lambda: says(daemon, ranks[0]))
    for n, a in enumerate(ranks):
        said = says(daemon, a)
        check(said.startswith(f"rank {n}: all ranks of this node wait for ")
            and said.endswith("s: for the GPU, or for one of the 4 ranks of other nodes"), said)
    first = daemon.json("/why")["why"][0]["causes"][0]
    equal((first["cause"], first["sure"]), ("all_wait", "likely"), "the first cause")
    equal(missing(daemon), {}, "nobody of this node is missing")
    wake(*ranks)
    for a in ranks:
        a.do("step()")
    wait_until(lambda: not daemon.metrics().all(ALL_WAIT), "they go on")


@test
def a_process_that_is_stopped_and_that_nobody_waits_for():
    daemon, ranks = job(count=1)
    os.kill(ranks[0].pid, signal.SIGSTOP)
    wait_until(lambda: (daemon.process_json(ranks[0].pid)["stalls"] or {"says": ""})["says"].startswith(
        "rank 0 is stopped by a signal or a debugger, for "), "it is said",
        seen=lambda: daemon.process_json(ranks[0].pid)["stalls"])
    wait_until(lambda: f"process {ranks[0].pid} is stopped" in daemon.json("/why")["why"][0]["says"], "it is why",
        seen=lambda: daemon.json("/why"))
    os.kill(ranks[0].pid, signal.SIGCONT)
    ranks[0].do("step()")
    wait_until(lambda: "is stopped" not in (daemon.process_json(ranks[0].pid)["stalls"] or {"says": ""})["says"],
        "it goes on")


def is_said(daemon, actor, what):
    """In the sentence of the process, and as why of its job."""
    wait_until(lambda: what in (daemon.process_json(actor.pid)["stalls"] or {"says": ""})["says"], what,
               seen=lambda: daemon.process_json(actor.pid)["stalls"])
    wait_until(lambda: f"process {actor.pid} {what}" in daemon.json("/why")["why"][0]["says"], "it is why",
        seen=lambda: daemon.json("/why"))


@test
def a_process_that_is_stopped_before_its_switches_are_watched():
    """The scheduler's tracepoints come at the tick that finds it: it is not said to run until then and ever after."""
    daemon = Daemon("--push-interval-ms", "500")
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    with daemon.stopped():
        actor.do("ready(cuda); launch(cuda, 1); ok(cuda.cuStreamSynchronize(None))")
        os.kill(actor.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(actor.pid) == "T", "it being stopped")
    try:
        is_said(daemon, actor, "is stopped by a signal or a debugger")
        equal(daemon.process_json(actor.pid)["stalls"]["cpu"], None, "its time on the CPU, which nobody knows")
    finally:
        os.kill(actor.pid, signal.SIGCONT)
    actor.do("launch(cuda, 1)")
    wait_until(lambda: daemon.process_json(actor.pid)["stalls"]["other"] == 1, "it waits for us, and that is seen")


@test
def a_frozen_control_group_that_nobody_waits_for():
    group = Group("v2", f"/zernel_frozen_{os.getpid()}")  # first: it can only end when the ranks have
    daemon, ranks = job(count=1)
    group.enter(ranks[0].pid)

    def freeze(how):
        with open(group.path + "/cgroup.freeze", "w") as f:
            f.write(how)
    freeze("1")
    try:
        is_said(daemon, ranks[0], "is in a frozen control group")
    finally:
        freeze("0")
    ranks[0].do("step()")
    wait_until(lambda: "frozen" not in (daemon.process_json(ranks[0].pid)["stalls"] or {"says": ""})["says"],
        "it goes on")


@test
def a_process_in_uninterruptible_sleep():
    """posix_spawn() sleeps so until its child runs another program: the child waits for somebody who writes to a
    pipe."""
    daemon, ranks = job(count=1)
    pipe = os.path.join(folder(), "pipe")
    os.mkfifo(pipe)
    ranks[0].tell(f"os.waitpid(os.posix_spawn('/bin/true', ['true'], {{}}, file_actions=[(os.POSIX_SPAWN_OPEN, 9, "
                  f"{pipe!r}, os.O_RDONLY, 0)]), 0)")
    is_said(daemon, ranks[0], "is in uninterruptible sleep (state D)")
    os.close(os.open(pipe, os.O_WRONLY))
    ranks[0].answer("its child")
    ranks[0].do("step()")


@test
def the_thread_that_has_slept_longest():
    """The main thread goes on. Two others read files of file systems that do not answer, one after the other; a signal
    makes the kernel wait for the answer alone."""
    daemon, ranks = job("--alerts", cut_short("process_blocked", "30s", "6s"), count=1,
                        expect=["alert process_blocked.* fires"])
    mounts = [Fuse({"held": bytes(1 << 21)}, silent=["held"], allow_other=True, hold_s=120) for _ in range(2)]
    pid = str(ranks[0].pid)
    ranks[0].do("""
import threading
threads = []
def read_file(path):
    with open(path, 'rb') as file:
        file.read(4096)
def read_beside(path):
    threads.append(threading.Thread(target=read_file, args=(path,)))
    threads[-1].start()
def interrupt(i):
    signal.pthread_kill(threads[i].ident, signal.SIGUSR2)""")

    def sleeps(i):
        return state_of(f"{pid}/task/{tids[i]}") == "D"

    def blocked():
        ranks[0].do("step()")
        return daemon.process_json(ranks[0].pid).get("blocked", {})
    began, tids = [], []
    for i, fuse in enumerate(mounts):
        ranks[0].do(f"read_beside({fuse.path('held')!r})")
        fuse.holds()
        began.append(time.monotonic())
        ranks[0].do(f"interrupt({i})")
        tids = ranks[0].do("answer = [t.native_id for t in threads]")
        wait_until(lambda: sleeps(i), f"thread {i} is in state D")
    wait_until(lambda: blocked().get("tid") == tids[0], "the first one", seen=blocked)
    told = blocked()
    check(5 <= told["seconds"] <= time.monotonic() - began[0], f"since when: {told}")
    wait_until(lambda: blocked()["in"], "where it sleeps", seen=blocked)
    wait_until(lambda: firing(daemon, "process_blocked"), "the alert")
    check(6 < daemon.metrics().one(BLOCKED, pid=pid) <= time.monotonic() - began[0], "the metric")
    mounts[0].release()
    wait_until(lambda: blocked().get("tid") == tids[1], "the one that sleeps on", seen=blocked)
    check(told["seconds"] - 5 < blocked()["seconds"] <= time.monotonic() - began[1], "since when that does")
    mounts[1].release()
    wait_until(lambda: blocked() == {}, "their end", seen=blocked)
    equal(daemon.metrics().all(BLOCKED), {}, "the metric then")
    wait_until(lambda: not firing(daemon, "process_blocked"), "the end of the alert")


if __name__ == "__main__":
    main()
