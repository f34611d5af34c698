#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""zernel why: faults that are made for real, each of a job of its own, are the first in its list; a healthy job has
none. The GPU's waits are those of the stand-in library; loaders of data are tests/pytorch's business."""
import json
import os
import re
import signal
import time

from harness import CUDA, ZERNEL, Actor, Daemon, check, equal, folder, main, parse_json, run, test, test_timed, \
    wait_until
from claims import job, live, place
from hangs import FAULT, HELPERS, wake
from jobs import Group, eat, small
from made import told, whole
from scenarios import short_rules
from signals import RANDOM_MAJOR
from waits import rank

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
FIRST_SERVED = "os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))"  # nobody else takes its CPU
# name of the job: what it does, and its first cause; None: it has none
WAITING = {"healthy": ("healthy", None), "copies": ("copies", "host_copies"), "idles": ("idles", "idle")}
DISK = {"writes": ("lambda: writes('/var/tmp/zernel-why')", "checkpoint")}
READING = {"reads": ("lambda: reads('/var/tmp/zernel-why')", "storage")}
COMPUTING = {"computes": ("computes", "host_code")}
LAUNCHING = {"launches": ("launches", "launch_bound")}


def why(daemon, name=None):
    found = [w for w in daemon.json("/why")["why"] if w["job_id"] == name]
    return found[0] if found else None


def causes(daemon, name):
    return [c["cause"] for c in (why(daemon, name) or {"causes": []})["causes"]]


def start_job(daemon, name):
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    actor.do(BEGIN)
    job("start", name, "--pid", str(actor.pid), "uid=0")
    return actor


def look(daemon, faults, cpu=None, first_served=False):
    """What is first in the list of each after some seconds; {name: cause}. first_served: nobody else takes its CPU."""
    actors = {name: start_job(daemon, name) for name in faults}
    for actor in actors.values():
        if first_served:
            actor.do(FIRST_SERVED)
    for name, (step, _) in faults.items():
        actors[name].tell(f"run({step}, {SECONDS}, {cpu})")
    time.sleep(SECONDS - 0.5)
    first = {name: (causes(daemon, name) or [None])[0] for name in faults}
    shown = {name: why(daemon, name) for name in faults}
    for name, actor in actors.items():
        actor.answer(faults[name][0])
    equal(first, {name: cause for name, (_, cause) in faults.items()}, f"first causes: {json.dumps(shown)}")
    for name, cause in first.items():
        told(name, cause)
    return shown


@test_timed
def faults_are_the_first_in_the_list():
    daemon = live()
    shown = {}
    for faults, cpu in ((WAITING, None), (DISK, None), (READING, None), (COMPUTING, 1), (LAUNCHING, 1)):
        shown.update(look(daemon, faults, cpu, first_served=True))
    check("checkpoints: 1, the last one of " in shown["writes"]["causes"][0]["says"], shown["writes"])
    m = daemon.metrics()
    equal(m.one("zernel_job_checkpoints_total", job_id="writes"), 1, "checkpoints")
    equal(m.one("zernel_job_checkpoints_total", job_id="reads"), 0, "checkpoints of a job that reads")
    seconds, written = (m.one(f"zernel_job_checkpoint_{n}_total", job_id="writes") for n in ("seconds", "bytes"))
    check(SECONDS - 2 < seconds < SECONDS + 2 and written > 16 << 20, f"{written} bytes in {seconds} s")
    healthy = why(daemon, "healthy")
    seconds = daemon.metrics().all("zernel_job_cause_seconds_total", job_id="copies")
    check(seconds[(("cause", "host_copies"),)] > 4, f"seconds of causes: {seconds}")
    check(healthy is None or healthy["processes"] == 1, healthy)
    os.unlink("/var/tmp/zernel-why")


@test_timed
def a_cpu_that_others_take():
    daemon = live()
    hogs = [Actor() for _ in range(4)]
    for hog in hogs:
        hog.tell(f"import os, time\nos.sched_setaffinity(0, {{0}})\nend = time.monotonic() + {SECONDS}\nwhile "
                 f"time.monotonic() < end: pass")
    shown = look(daemon, {"short": ("computes", "cpu_shortage")}, cpu=0)
    check("% of the time is waiting for a free CPU" in shown["short"]["says"], shown)
    for hog in hogs:
        hog.answer("its loop")


@test_timed
def a_control_group_that_is_throttled():
    """It may use a third of one CPU, and nobody else wants that."""
    daemon = live()
    group = Group("cpu", f"/zernel_why_{os.getpid()}")
    with open(group.path + "/cpu.cfs_quota_us", "w") as f:
        f.write("30000")
    actor = start_job(daemon, "throttled")
    group.enter(actor.pid)
    actor.tell(f"run(computes, {SECONDS})")
    wait_until(lambda: causes(daemon, "throttled")[:1] == ["cpu_throttled"], "it is throttled", SECONDS,
        seen=lambda: why(daemon, "throttled"))
    told("throttled", causes(daemon, "throttled")[0])
    says = why(daemon, "throttled")["causes"][0]["says"]
    check("the control group has had its share: kept from its CPUs " in says, says)
    actor.answer("its loop")


# Two ranks send each other a mebibyte in turn. A filter at each receiver drops a tenth of what comes, so that the
# sender's TCP sends it again (SO_ATTACH_FILTER; A = a random number; at least a tenth of 2^32: keep, else drop).
EXCHANGE = """
import socket, struct
lines = [(0x20, 0, 0, 0xfffff038), (0x35, 0, 1, (1 << 32) // 10), (6, 0, 0, 0xffffffff), (6, 0, 0, 0)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in lines))
def lose(s):
    s.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", len(lines), ctypes.addressof(code)))
def take(s):
    left = 1 << 20
    while left:
        left -= len(s.recv(min(left, 65536)))
def give(s):
    s.sendall(bytes(1 << 20))
"""


@test_timed
def a_network_that_loses():
    daemon = live()
    one, other = (start_job(daemon, "lossy") for _ in range(2))
    for actor in (one, other):
        actor.do(EXCHANGE)
    port = one.do("""
listener = socket.socket(); listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000)
listener.bind(("127.0.0.1", 0)); listener.listen()
answer = listener.getsockname()[1]""")
    other.do(f"s = socket.socket(); s.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1000); "
             f"s.connect(('127.0.0.1', {port})); lose(s)")
    one.do("s = listener.accept()[0]; lose(s)")
    one.tell(f"run(lambda: (launch(cuda, 1), give(s), take(s)), {2 * SECONDS}); s.close()")
    other.tell(f"try:\n    run(lambda: (launch(cuda, 1), take(s), give(s)), {3 * SECONDS})\nexcept Exception:\n    pass")
    wait_until(lambda: causes(daemon, "lossy")[:1] == ["network"], "the network is what it waits for", 2 * SECONDS,
        seen=lambda: why(daemon, "lossy"))
    told("lossy", causes(daemon, "lossy")[0])
    for actor in (one, other): # which may wait for a segment for seconds
        actor.kill()


LATE = """
import signal
def early(at):
    # issues, and waits in a call for the GPU until the late one has come
    left = at + 0.33 - time.monotonic()
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(int(max(left, 0) * 1e6)))
    step()
def late(at):
    spin(max(at + 0.3 - time.monotonic(), 0))
    cuda.fake_cuda_set(b"sync_sleep_us", ctypes.c_long(10000))
    step()
def each(what, begin, seconds):
    at = begin
    while at < begin + seconds:
        time.sleep(max(at - time.monotonic(), 0))
        what(at)
        at += 0.4
"""


@test_timed
def a_rank_that_is_late_on_the_gpu():
    """The others wait for it in calls that wait for the GPU: that is not what a GPU-bound job looks like. They are
    three, so that what they wait is clearly more than what the late one computes."""
    daemon = live()
    ranks = [rank(daemon, n, 4) for n in range(4)]
    for a in ranks:
        job("start", "slow_rank", "--pid", str(a.pid), "uid=0")
        a.do("import os; " + FIRST_SERVED)
        a.do(HELPERS + LATE + "step()")
    begin = time.monotonic() + 0.5
    for n, a in enumerate(ranks):
        a.tell(f"each({'late' if n == 1 else 'early'}, {begin}, {3 * SECONDS})")
    wait_until(lambda: causes(daemon, "slow_rank")[:1] == ["straggler"], "the late one is the cause", 2 * SECONDS,
        seen=lambda: why(daemon, "slow_rank"))
    time.sleep(3)
    first = why(daemon, "slow_rank")["causes"][0]
    equal((first["cause"], first["sure"]), ("straggler", "likely"), "it is not seen on the GPU")
    # it may find no free CPU, on a small machine
    late = f"a rank that comes late: rank 1, process {ranks[1].pid}, which "
    check(any(late + does in first["says"] for does in ("runs on the CPU", "waits for a free CPU")), first)
    check(10 < first["percent"] <= 62, f"three of four wait for at most 0.33 s of 0.4: {first}")
    equal(why(daemon, "slow_rank")["late_pid"], ranks[1].pid, "who is late")
    # a tick is shorter than a step: in one the process waits, in another it also sleeps, or nobody communicates
    said = []
    for _ in range(40):
        said.append(daemon.process_json(ranks[0].pid)["stalls"]["says"])
        time.sleep(0.1)
    check(any(f"rank 1 (pid {ranks[1].pid})" in s for s in said), set(said))
    check(sum("keeps the GPU busy" in s for s in said) < len(said) / 2,
        f"few ticks look as if it were bound by the GPU: {set(said)}")
    told("slow_rank", first["cause"])
    for a in ranks:
        a.answer("its steps")


@test_timed
def a_job_that_is_suspended():
    """As by scontrol suspend: each of its processes is stopped inside a call that waits for the GPU."""
    daemon = live()
    ranks = [rank(daemon, n, 2) for n in range(2)]
    for a in ranks:
        job("start", "suspended", "--pid", str(a.pid), "uid=0")
        a.do(HELPERS + "step()")
        a.tell("wait_for_others(30)")
    time.sleep(1)
    for a in ranks:
        os.kill(a.pid, signal.SIGSTOP)
    wait_until(lambda: (why(daemon, "suspended") or {}).get("state") == "stopped", "it is told as stopped", 12,
        seen=lambda: why(daemon, "suspended"))
    time.sleep(10)  # in which all ranks have waited for longer than is told of
    shown = why(daemon, "suspended")
    equal((shown["state"], shown["causes"][0]["cause"]), ("stopped", "stopped"), "its state and cause")
    check("is stopped by a signal or a debugger" in shown["causes"][0]["says"], shown)
    check("all_wait" not in causes(daemon, "suspended"), shown)
    told("suspended", shown["causes"][0]["cause"])
    for a in ranks:
        os.kill(a.pid, signal.SIGCONT)
    wake(*ranks)
    for a in ranks:
        a.do("step()")
    wait_until(lambda: why(daemon, "suspended")["state"] != "stopped", "it goes on")


@test_timed
def memory_of_a_gpu_that_fills():
    daemon = Daemon("--control", place("run/control.sock"), "--push-interval-ms", "200", "--alerts",
                    short_rules(["gpu_memory_growing"]),
                    expect=["alert gpu_memory_growing.*fires"])
    actor = Actor(("cuda", CUDA), env={"FAKE_CUDA_TOTAL_MB": "1000"})
    daemon.attached(CUDA)
    actor.do(BEGIN)
    job("start", "grows", "--pid", str(actor.pid), "uid=0")
    actor.do(FIRST_SERVED)
    actor.do("ok(cuda.cuDeviceTotalMem_v2(byref(c_size_t()), 0)); big = alloc(cuda, 810 << 20)")
    actor.tell(f"""
def leak():
    alloc(cuda, 256 << 10)
    healthy()
run(leak, {2 * SECONDS - 2})""")
    wait_until(lambda: causes(daemon, "grows") == ["gpu_memory_growing"], "its memory", 2 * SECONDS - 3,
        seen=lambda: why(daemon, "grows"))
    check("grows: at this rate it is full in " in why(daemon, "grows")["says"], why(daemon, "grows"))
    told("grows", causes(daemon, "grows")[0])
    actor.answer("its steps")


# A thread asks /dev/random, as if that were a GPU, for something that has to be written to a page of memory that
# another thread gives it 40 ms later; over and over.
IN_DRIVER = """
def one_ioctl():
    at = libc.mmap(None, c_size_t(4096), 3, 0x22, -1, c_size_t(0))
    fcntl.ioctl(uffd, 0xc020aa00, struct.pack("QQQQ", at, 4096, 1, 0))
    threading.Timer(0.04, lambda: fcntl.ioctl(uffd, 0xc020aa04, struct.pack("QQQq", at, 4096, 0, 0))).start()
    libc.ioctl(fd, c_ulong(0x40085203), c_void_p(at))
    libc.munmap(c_void_p(at), c_size_t(4096))
"""


@test_timed
def processes_that_meet_in_the_driver():
    daemon = Daemon("--control", place("run/control.sock"), "--push-interval-ms", "200", "--gpu-majors", RANDOM_MAJOR,
                    "--alerts",
                    short_rules(["driver_contention"]), expect=["alert driver_contention.*fires"])
    actors = [start_job(daemon, "contends") for _ in range(2)]
    for actor in actors:
        actor.do(FIRST_SERVED)
        actor.do(FAULT)
        actor.do(IN_DRIVER)
        actor.tell(f"""
stop = time.monotonic() + {2 * SECONDS}
def drive():
    while time.monotonic() < stop:
        one_ioctl()
driver = threading.Thread(target=drive); driver.start()
run(healthy, {2 * SECONDS}); driver.join()""")
    wait_until(lambda: causes(daemon, "contends") == ["driver_contention"], "they wait for one another",
        2 * SECONDS - 1, seen=lambda: why(daemon, "contends"))
    check("processes wait for one another in the GPU driver: " in why(daemon, "contends")["says"],
        why(daemon, "contends"))
    told("contends", causes(daemon, "contends")[0])
    for actor in actors:
        actor.answer("its steps")


@test
def what_is_wrong_beside_lost_time():
    """An alert about a job, its process or its GPU is in its list and in no other job's: before what loses time if it
    is critical, else behind that."""
    daemon = live(expect=["alert oom_kill.*fires", "alert gpu_allocation_failed.*fires"])
    killed, refused = start_job(daemon, "4711"), start_job(daemon, "4712")
    for actor in (killed, refused):
        actor.tell(f"run(copies, {SECONDS + 4})")
    group = small(f"/slurm/uid_0/job_4711/step_0")
    eat(group)
    wait_until(lambda: causes(daemon, "4711")[:2] == ["oom_kill", "host_copies"], "the kill is first",
        seen=lambda: why(daemon, "4711"))
    first = why(daemon, "4711")["causes"][0]
    told("4711", first["cause"])
    equal((first["percent"], first["lost_s"]), (None, None), "no time is told")
    check(re.fullmatch(r"out of memory: the kernel killed process \d+ \(python3\) of step 0: it had [\d.]+M; "
                       r"the limit of the step, 64.0M, was reached", first["says"]), first)
    equal(why(daemon, "4711")["says"], first["says"], "in one line")
    for actor in (killed, refused):
        actor.answer("its copies")
    refused.do("cuda.fake_cuda_set(b'fail_next', ctypes.c_long(2)); at = ctypes.c_void_p(); "
               "cuda.cuMemAlloc_v2(ctypes.byref(at), c_size_t(1 << 20))")
    wait_until(lambda: "gpu_allocation_failed" in causes(daemon, "4712"), "the refusal",
        seen=lambda: why(daemon, "4712"))
    check(causes(daemon, "4712")[0] == "host_copies" and "oom_kill" not in causes(daemon, "4712"), why(daemon, "4712"))
    equal([c for c in causes(daemon, "4711") if c == "gpu_allocation_failed"], [], "of another job")
    text = run([ZERNEL, "why", "4711", f"http://127.0.0.1:{daemon.port}"]).stdout
    check("  1. out of memory: the kernel killed process " in text and "measured by zernel_oom_kills_total" in text,
        text)


@test
def what_the_terminal_says():
    daemon = live()
    url = f"http://127.0.0.1:{daemon.port}"
    done = run([ZERNEL, "why", url])
    equal((done.returncode, done.stdout), (0, "nothing has launched work on a GPU here since the daemon began\n"),
        "of a node at rest")
    actor = start_job(daemon, "7001")
    actor.tell(f"run(copies, {SECONDS})")
    wait_until(lambda: why(daemon, "7001") and causes(daemon, "7001")[:1] == ["host_copies"], "it copies")
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


@test
def the_table_in_the_docs_is_whole():
    whole()


if __name__ == "__main__":
    main()
