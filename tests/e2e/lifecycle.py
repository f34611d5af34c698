#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Many calls, many processes, sudden ends, a daemon that dies or sleeps: every call is counted once or counted as
lost."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from harness import (BURST, CUDA, HERE, NCCL, TOOLS, ZERNELD, Actor, Daemon, Driver, Process, check, copy_of, equal,
                     folder, main, need, run, shared_daemon, test, test_shared, wait_until)
from clients import read_snapshots
from figures import compare, compare_metrics, shown

LAUNCHES = "zernel_cuda_launches_total"
HITS = "zernel_probe_hits_total"
ROWS = 1024  # ZN_PROCS_MAX


class Burst(Process):
    """Many processes; see burst.c."""

    def __init__(self, *arguments):
        super().__init__([BURST, CUDA, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(self.process.stdout.readline(), "ready\n", "what burst says first")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "done\n", "what burst says then")


def entries(daemon, table):
    return daemon.metrics().one("zernel_table_entries", table=table)


NO_FILES = ("--probes", "gpu,cuda,nccl,sched,dataload,dist,syscalls,ioctl,net")  # all histograms are of processes


def tables_empty(daemon):
    tables = ["processes", "allocations", "threads", "sched_threads", "workers"]
    tables += [] if entries(daemon, "io_series") else ["histograms"]
    wait_until(lambda: not any(entries(daemon, table) for table in tables), "free entries in all tables")


@test
def a_million_launches_of_four_threads():
    daemon = Daemon(*NO_FILES)
    driver = Driver("storm", "--threads", "4", "--calls", "250007")
    daemon.attached(CUDA)
    r = driver.start()
    equal(r["launches"]["kernel"], 1000028, "what the driver did")
    compare_metrics(daemon.metrics(), r)
    metrics, pid = daemon.metrics(), str(driver.pid)
    equal(metrics.one("zernel_cuda_launch_latency_hist_seconds_bucket", pid=pid, le="+Inf"), 1000028, "histogram")
    equal(metrics.one(HITS, family="cuda_trace"), 1000028, "hits")
    driver.end()
    tables_empty(daemon)


SHARDS, SHARDS_MAX = 7, 256  # ZN_SHARDS, ZN_SHARDS_MAX


@test
def threads_that_launch_at_one_time_add_to_histograms_of_their_own():
    """All but each eighth of a process, from the first one on, as long as there are such: all are told as those of the
    process, and go with it."""
    daemon = Daemon("--probes", "gpu,cuda")  # whose only histogram here is that of launches
    drivers = {n: Driver("storm", "--threads", str(n), "--calls", "101") for n in (1, 3, 20)}
    daemon.attached(CUDA)
    held, launched = 0, 0
    for n, driver in drivers.items():
        did = driver.start()
        compare_metrics(daemon.metrics(), did)
        launched += n * 101
        held += 1 + min(n - 1, SHARDS)
        equal(entries(daemon, "histograms"), held, f"histograms after a process of {n} threads")
    for driver in drivers.values():
        driver.end()
    tables_empty(daemon)
    equal(daemon.metrics().one("zernel_node_launches_total", kind="kernel"), launched, "launches of all that have gone")


@test
def a_node_with_more_launching_threads_than_histograms_for_them_counts_all():
    """Who finds none adds to his process's, and nothing is lost."""
    daemon = Daemon("--probes", "gpu,cuda")
    drivers = [Driver("storm", "--threads", "8", "--calls", "31") for _ in range(SHARDS_MAX // SHARDS + 5)]
    daemon.attached(CUDA)
    for driver in drivers:
        driver.start()
    metrics = daemon.metrics()
    equal(metrics.one("zernel_node_launches_total", kind="kernel"), len(drivers) * 8 * 31, "launches")
    equal(metrics.one("zernel_node_launch_latency_seconds_count"), len(drivers) * 8 * 31, "launches that were timed")
    equal(metrics.lost(), {}, "what was lost")
    equal(entries(daemon, "histograms"), len(drivers) + SHARDS_MAX, "histograms of processes, and all of threads")
    for driver in drivers:
        driver.end()
    tables_empty(daemon)


def told_to_systemd(path, wanted, **env):
    """What a daemon says: so much, and what comes in two seconds; and after that when it cannot run. A socket holds ten
    messages that nobody takes, which is ten seconds of them."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(path)
        ear.settimeout(0.5)
        daemon = Daemon("--push-interval-ms", "1000", env={**os.environ, "NOTIFY_SOCKET": path, **env})
        told = []

        def listen(seconds):
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    told.append(ear.recv(100).decode())
        listen(2)
        wait_until(lambda: listen(0.5) or len(told) >= wanted, f"{wanted} messages")
        running = list(told)
        with daemon.stopped():
            listen(0.5)  # what was on its way
            told.clear()
            listen(2.5)
        daemon.end()
        return running, told


@test
def systemd_is_told_that_it_is_ready_and_well():
    path = os.path.join(folder(), "notify")
    running, stopped = told_to_systemd(path, 4, WATCHDOG_USEC="1000000")
    equal((running[0], set(running[1:])), ("READY=1", {"WATCHDOG=1"}), "what systemd was told")
    equal(stopped, [], "what a daemon says that stands still")
    for env in {}, {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}:
        os.unlink(path)
        equal(told_to_systemd(path, 1, **env), (["READY=1"], []), f"what is told where nobody watches ({env})")


@test
def two_thousand_processes_come_and_go():
    """No more in one go than there are rows: how fast the daemon takes away who has ended is the machine's business."""
    daemon, burst = Daemon(*NO_FILES), Burst(997, 17, 16)
    daemon.attached(CUDA)
    for n in (1, 2):
        burst.go()
        tables_empty(daemon)
        metrics = daemon.metrics()
        equal(metrics.lost(), {}, "what was lost")
        equal(metrics.one(HITS, family="cuda_trace"), n * 997 * 17, "hits")


@test
def eleven_hundred_processes_at_once():
    """As many as there are rows are measured; the rest are dropped, and each of them is counted once."""
    refused = f"quota: processes: [0-9]+ refused, the last one to user 0, who holds {ROWS} of {ROWS}"
    daemon, burst = Daemon(*NO_FILES, expect=["alert events_lost.* fires", refused]), Burst(1103, 7)
    daemon.attached(CUDA)
    for n in (1, 2):
        burst.go()
        metrics = daemon.metrics()
        rows = metrics.all(LAUNCHES, kind="kernel")
        equal((len(rows), set(rows.values())), (ROWS, {7 * n}), "rows, and launches in each")
        equal(entries(daemon, "processes"), ROWS, "rows in use")
        equal(metrics.lost(), {"process": 1103 - ROWS}, "what was lost")
    wait_until(lambda: daemon.metrics().one("zernel_alert_state", alert="events_lost") == 2, "the alert")
    burst.end()
    tables_empty(daemon)
    equal(daemon.metrics().one(HITS, family="cuda_trace"), ROWS * 14, "hits")
    driver = Driver("launches")
    daemon.attached(CUDA)  # anew, where it was let go before
    r = driver.start()
    got = {dict(k)["kind"]: v for k, v in daemon.metrics().all(LAUNCHES, pid=str(driver.pid)).items()}
    equal(got, r["launches"], "launches of a process that came after")


# ---- ends

def actor_with_memory(daemon):
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    actor.do("ready(cuda); alloc(cuda, 5 << 20); launch(cuda, 11)")
    wait_until(lambda: daemon.metrics().one("zernel_gpu_memory_used_bytes", pid=str(actor.pid)) == 5 << 20, "memory")
    return actor


def used(daemon):
    return sum(g["used_bytes"] for g in daemon.json()["gpus"])


@test
def killed_in_a_call():
    daemon = Daemon(*NO_FILES)
    actor = actor_with_memory(daemon)
    actor.do("cuda.fake_cuda_set(b'sync_sleep_us', 60000000)")
    actor.tell("cuda.cuStreamSynchronize(None)")
    wait_until(lambda: "nanosleep" in open(f"/proc/{actor.pid}/wchan").read() or
               open(f"/proc/{actor.pid}/stat").read().rsplit(")")[-1].split()[0] == "S", "sleeping in the call")
    actor.kill()
    daemon.gone(actor.pid)
    tables_empty(daemon)
    equal(used(daemon), 0, "memory in use")
    equal(daemon.metrics().lost(), {"inflight": 1}, "what was lost: the call that never returned")


@test
def exec_ends_what_was_before():
    daemon = Daemon()
    actor = actor_with_memory(daemon)
    actor.tell(f"os.execv(sys.executable, [sys.executable, {os.path.join(HERE, 'actor.py')!r}])")
    actor.answer("exec")
    daemon.gone(actor.pid)
    equal(used(daemon), 0, "memory in use")
    actor.do(f"cuda = CDLL({CUDA!r})")
    daemon.attached(CUDA)
    actor.do("ready(cuda); launch(cuda, 13)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 13, "launches of the new program")
    equal(daemon.metrics().one(HITS, family="cuda_trace"), 24, "hits of both")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def a_forked_child_is_a_process_of_its_own():
    daemon = shared_daemon()
    actor = actor_with_memory(daemon)
    child = actor.do("""
r, w = os.pipe()
answer = os.fork()
if answer == 0:
    launch(cuda, 17)
    os.write(w, b"x")
    os.read(0, 0) or time.sleep(3600)
os.read(r, 1)""")
    try:
        metrics = daemon.metrics()
        equal(metrics.one(LAUNCHES, pid=str(child)), 17, "launches of the child")
        equal(metrics.one(LAUNCHES, pid=str(actor.pid)), 11, "launches of its parent")
    finally:
        os.kill(child, signal.SIGKILL)
    actor.do(f"os.waitpid({child}, 0)")
    daemon.gone(child)
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 11, "launches of its parent")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def threads_are_let_go():
    """More threads in all than there is room for at one time."""
    daemon, actor = shared_daemon(), Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    actor.do("ready(cuda)")
    actor.do("import threading\ndef one():\n t = threading.Thread(target=launch, args=(cuda, 1, 201)); t.start(); "
             "t.join()")
    actor.do("[one() for _ in range(8209)]")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 8209, "launches")
    equal(daemon.metrics().lost(), {}, "what was lost")


# ---- the daemon's own end

def bpf_ids(daemon):
    """('prog'|'link'|'map', id) of everything of BPF that it holds."""
    return {found for _, _, said in daemon.descriptors() for found in re.findall(r"^(prog|link|map)_id:\s*(\d+)", said,
        re.M)}


def bpf_left(ids):
    return [i for i in ids if run([need("bpftool"), i[0], "show", "id", i[1]]).returncode == 0]


def end_of_daemon(end):
    """end(daemon) in the middle of a program's calls: the program goes on, no probe stays, and the next one
    attaches."""
    need("bpftool")
    daemon, driver = Daemon(), Driver("storm", "--threads", "2", "--calls", "1000003")
    daemon.attached(CUDA)
    ids = bpf_ids(daemon)
    equal(sorted(bpf_left(ids)), sorted(ids), "what BPF has while the daemon runs")
    driver.go()
    wait_until(lambda: daemon.metrics().one(LAUNCHES, pid=str(driver.pid)), "launches")
    end(daemon)
    wait_until(lambda: not bpf_left(ids), "nothing left of BPF")
    equal(driver.report()["launches"]["kernel"], 2000006, "launches that the program made")
    equal(driver.end(), 0, "its exit status")
    again, other = Daemon(), Driver("launches")
    again.attached(CUDA)
    compare(again, other.start())


@test
def killed_daemon_leaves_nothing():
    end_of_daemon(Daemon.kill)


@test
def stopped_daemon_leaves_nothing():
    end_of_daemon(Daemon.end)


@test
def a_daemon_that_sleeps_misses_nothing():
    """Mappings are left out: other programs on this machine may map more in that time than the kernel keeps for us."""
    daemon = Daemon()
    first, second = Actor(("cuda", CUDA)), Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    first.do("ready(cuda); launch(cuda, 5)")
    start = time.monotonic()
    with daemon.stopped():
        first.do("launch(cuda, 10007)")
        second.do("ready(cuda); alloc(cuda, 1 << 20); launch(cuda, 10009)")
        second.end()
        time.sleep(max(0, 3 - (time.monotonic() - start)))
    daemon.gone(second.pid)
    metrics = daemon.metrics()
    equal(metrics.one(LAUNCHES, pid=str(first.pid)), 10012, "launches")
    equal(metrics.one(HITS, family="cuda_trace"), 10012 + 10009, "hits")
    lost = {k: v for k, v in metrics.lost().items() if k != "mapping"}
    equal((lost, used(daemon)), ({}, 0), "what was lost, and memory in use")


# ---- GPU memory over a restart of the daemon

# There is no driver: the daemons take the devices of memory (major number 1) for GPUs, and /dev/zero for number 5.
GPU, DEVICE, GPUS = "5", "/dev/zero", ("--gpu-majors", "1")
NO_ERRORS = ("sh", "-c", 'exec "$0" "$@" 2>&-')  # they may go to /dev/null, which is such a device
MEMORY = ("zernel_gpu_memory_used_bytes", "zernel_gpu_memory_peak_bytes", "zernel_gpu_host_pinned_bytes")


def gpu_user():
    return Actor(("cuda", CUDA), env={"CUDA_VISIBLE_DEVICES": GPU}, before=NO_ERRORS)


def hold(daemon, actor, held):
    """Opens the GPU, as one with a context on it does, and takes memory there. The library is hooked before that."""
    daemon.attached(CUDA)
    actor.do(f"device = os.open({DEVICE!r}, os.O_RDONLY)")
    actor.do(f"ready(cuda); total = c_size_t(); ok(cuda.cuDeviceTotalMem_v2(byref(total), 0)); alloc(cuda, {held})")
    return actor


def memory_of(metrics, pid):
    """The series of memory that a process has, and whether the daemon says that they are whole."""
    got = {name: list(metrics.all(name, pid=str(pid)).values()) for name in MEMORY}
    return {k: v for k, v in got.items() if v}, metrics.one("zernel_process_memory_complete", pid=str(pid))


def wait_for_memory(daemon, actor, complete):
    wait_until(lambda: memory_of(daemon.metrics(), actor.pid)[1] == complete, f"memory of {actor.pid}: {complete}")
    return memory_of(daemon.metrics(), actor.pid)[0]


def ratio(daemon):
    metrics = daemon.metrics()
    return [metrics.one(f"zernel_gpu_memory_{what}", gpu_id=GPU) for what in ("complete", "used_ratio")]


def restarted(end):
    """A daemon that came after end(daemon) to a process which holds 3 GiB."""
    daemon = Daemon(*GPUS)
    old = hold(daemon, gpu_user(), 3 << 30)
    before = {name: [3 << 30] for name in MEMORY[:2]}
    equal(wait_for_memory(daemon, old, 1), before, "memory before the restart")
    equal(ratio(daemon), [1, 0.0375], "the GPU before the restart")
    end(daemon)
    return Daemon(*GPUS, "--push-interval-ms", "200").attached(CUDA), old


def memory_is_absent_after(end):
    daemon, old = restarted(end)
    old.do("alloc(cuda, 1 << 20); launch(cuda, 7); p = c_void_p(); ok(cuda.cuMemAllocHost_v2(byref(p), c_size_t(4096)))")
    old.do("ok(cuda.cuDeviceTotalMem_v2(byref(total), 0))")
    equal(wait_for_memory(daemon, old, 0), {}, "memory of a process that is older than the probes")
    equal(daemon.metrics().one(LAUNCHES, pid=str(old.pid)), 7, "its launches")
    wait_until(lambda: ratio(daemon)[0] is not None, "its GPU")
    equal(ratio(daemon), [0, None], "its GPU")
    process = daemon.process_json(old.pid)
    equal((process["memory_complete"], process["pinned_bytes"]), (False, None), "the process in JSON")
    equal({g["used_bytes"] for g in process["gpus"]} | {g["peak_bytes"] for g in process["gpus"]}, {None},
        "its GPUs in JSON")
    gpu = next(g for g in daemon.json()["gpus"] if g["gpu_id"] == GPU)
    equal([gpu[k] for k in ("used_bytes", "peak_bytes", "processes", "memory_complete")], [None, None, None, False],
        "GPU in JSON")
    equal(daemon.json()["gpu_utilization"], [], "gpu_utilization")
    young = hold(daemon, gpu_user(), 5 << 30)
    equal(wait_for_memory(daemon, young, 1), {name: [5 << 30] for name in MEMORY[:2]},
        "memory of a process that came later")
    equal(ratio(daemon), [0, None], "the GPU of both")
    old.end()
    daemon.gone(old.pid)
    wait_until(lambda: ratio(daemon)[0] == 1, "the GPU without the old process")
    equal(ratio(daemon), [1, 0.0625], "the GPU without the old process")


@test
def memory_from_before_a_restart_is_absent():
    memory_is_absent_after(Daemon.end)


@test
def memory_from_before_a_sudden_end_is_absent():
    memory_is_absent_after(Daemon.kill)


@test
def a_process_that_says_nothing_hides_its_gpu():
    """It holds 3 GiB and makes no call after the restart: it has no series at all, but its GPU is not said to be
    empty."""
    daemon, old = restarted(Daemon.end)
    young = hold(daemon, gpu_user(), 5 << 30)
    equal(wait_for_memory(daemon, young, 1), {name: [5 << 30] for name in MEMORY[:2]},
        "memory of a process that came later")
    equal(ratio(daemon), [0, None], "the GPU of both")
    check(old.pid not in daemon.metrics().pids(), "the silent one has no series")
    old.end()
    wait_until(lambda: ratio(daemon) == [1, 0.0625], "the GPU without it")


@test
def memory_after_an_exec_is_whole():
    daemon, old = restarted(Daemon.end)
    keeper = Actor(("cuda", CUDA))  # so that the library stays hooked
    old.do("launch(cuda, 1)")
    wait_for_memory(daemon, old, 0)
    old.tell(f"os.execv(sys.executable, [sys.executable, {os.path.join(HERE, 'actor.py')!r}])")
    old.answer("exec")
    daemon.gone(old.pid)
    old.do(f"cuda = CDLL({CUDA!r})")
    hold(daemon, old, 7 << 30)
    equal(wait_for_memory(daemon, old, 1), {name: [7 << 30] for name in MEMORY[:2]}, "memory of the new program")
    wait_until(lambda: ratio(daemon) == [1, 0.0875], "the GPU")
    keeper.end()


@test
def a_library_that_is_not_hooked_hides_its_gpu():
    """Its process was there neither before nor after the daemon in a way that mattered: nothing of it is ever seen."""
    path = copy_of(CUDA, "mine/libcuda.so.1")
    daemon = Daemon(*GPUS, "--user-libraries", "none", "--libraries", CUDA)
    young = hold(daemon, gpu_user(), 5 << 30)
    wait_for_memory(daemon, young, 1)
    equal(ratio(daemon), [1, 0.0625], "the GPU with one process")
    unseen = Actor(("cuda", path), before=NO_ERRORS)
    unseen.do(f"device = os.open({DEVICE!r}, os.O_PATH); ready(cuda); alloc(cuda, 3 << 30)")
    daemon.ticked(3)
    equal(ratio(daemon), [1, 0.0625], "the GPU, which the other one has only named")
    unseen.do(f"device = os.open({DEVICE!r}, os.O_RDONLY)")
    wait_until(lambda: ratio(daemon) == [0, None], "the GPU with both")
    equal(wait_for_memory(daemon, young, 1), {name: [5 << 30] for name in MEMORY[:2]}, "memory of the one that is seen")
    check(unseen.pid not in daemon.metrics().pids(), "the other one has no series")
    unseen.end()
    wait_until(lambda: ratio(daemon) == [1, 0.0625], "the GPU with one process")


@test
def an_older_process_without_a_gpu_is_whole():
    """It has the library and no GPU open when the daemon comes: it cannot hold memory yet."""
    old = gpu_user()
    time.sleep(0.5)  # longer than a library may take to be hooked
    daemon = Daemon(*GPUS)
    hold(daemon, old, 9 << 30)
    equal(wait_for_memory(daemon, old, 1), {name: [9 << 30] for name in MEMORY[:2]}, "its memory")
    equal(ratio(daemon), [1, 0.1125], "its GPU")


# ---- memory of the daemon

FILLER = "zerneld: " + 502 * "."  # with its end a pipe's page has 8 of them


def fill(path):
    """Writes to a pipe until it takes no more."""
    end = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(end, FILLER.encode() + b"\n")
    os.close(end)


def lost_lines(daemon):
    return int(daemon.metrics().lost().get("log", 0))


@test
def nothing_waits_for_who_takes_the_log():
    """A journal whose disk hangs, say, or a terminal that is stopped: here `cat`, through which all lines go."""
    daemon = Daemon(argv=["bash", "-c", 'exec "$@" 2> >(exec cat >&2)', "bash", ZERNELD],
                    expect=["log: lines lost before this one, which nobody took: [0-9]+"])
    with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children") as file:
        taker, = [int(pid) for pid in file.read().split() if os.readlink(f"/proc/{pid}/exe").endswith("/cat")]
    os.kill(taker, signal.SIGSTOP)
    wait_until(lambda: re.search(r"(?m)^State:\s+T", open(f"/proc/{taker}/status").read()), "that nobody takes it")
    fill(f"/proc/{daemon.pid}/fd/2")
    for _ in range(3):
        before = lost_lines(daemon)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: lost_lines(daemon) >= before + 2, "two lines that nobody took")
    daemon.ticked(2)
    os.kill(taker, signal.SIGCONT)
    wait_until(lambda: FILLER in daemon.lines(), "what lay in the pipe")
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: sum("SIGHUP: no token file" in line for line in daemon.lines()) == 1, "a line")
    lost = lost_lines(daemon)  # some more, where the machine is slow and it says so
    equal([line for line in daemon.lines() if "lines lost before this one" in line],
          [f"zerneld: warning: log: lines lost before this one, which nobody took: {lost}"], "what it says of them")


def tasks(pid):
    """Of a process and of all below it."""
    count = 0
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # one that ends meanwhile
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                count += 1 + sum(tasks(int(child)) for child in file.read().split())
    return count


@test
def the_service_has_tasks_for_readers_that_hang():
    """As many as are left to themselves, and the one that takes their place, or nobody's stacks are read any more."""
    with open("contrib/systemd/zerneld.service") as file:
        limit = int(re.search(r"(?m)^TasksMax=(\d+)$", file.read())[1])
    with open("src/worker/reader.c") as file:
        hang = int(re.search(r"#define STUCK +(\d+)", file.read())[1])
    daemon = Daemon("--probes", "all", "--stacks", "native", "--alertmanager", "http://127.0.0.1:9", "--otlp",
                    "http://127.0.0.1:9", expect=["Connection refused"])
    daemon.ticked(2)
    check(tasks(daemon.pid) + hang <= limit, f"{tasks(daemon.pid)} tasks and {hang} that hang, of {limit}")


def many_pass(daemon, processes):
    """How many rows are in use at once, and so touched, is not left to the machine: all of them, as nobody looks."""
    burst = Burst(processes, 3, 16)
    daemon.attached(CUDA)
    with daemon.stopped():
        burst.go()
    burst.end()
    tables_empty(daemon)


def everything_comes_and_goes(daemon):
    """Scrapes of every kind, clients, processes, libraries."""
    readers = ThreadPoolExecutor(7)
    read = [readers.submit(read_snapshots, daemon.ws_port, "/", 3) for _ in range(7)]
    for n in range(3):
        path = copy_of(CUDA, f"{n}/libcuda.so.1")
        driver = Driver("devices,memory,launches,syncs,copies,nccl", cuda=path, nccl=NCCL)
        daemon.attached(path, NCCL)
        r = driver.start()
        shown(daemon, r)
        for url in ("/", "/metrics", "/json", "/alerts", "/health"):
            daemon.get(url)
        daemon.get("/metrics", {"Accept": "application/openmetrics-text"})
        driver.end()
        daemon.detached(path)
    for reader in read:
        equal(len(reader.result()), 3, "snapshots")
    readers.shutdown()
    many_pass(daemon, 211)


@test
def no_allocation_once_it_is_ready():
    """The test build counts every allocation of the whole program after it said that it is ready."""
    daemon = Daemon(binary=os.path.join(TOOLS, "zerneld-alloc"), expect=["ncclCommAbort"])
    everything_comes_and_goes(daemon)
    equal(daemon.end(), 0, "exit status")


def let_go(daemon):
    """Waits until it holds nothing of what came and went: a library goes some ticks after its last process."""
    for path in (CUDA, NCCL):
        daemon.detached(path)
    daemon.ticked(1)


@test
def nothing_grows():
    """Descriptors and memory are the same after a second run of everything as after the first."""
    daemon = Daemon(expect=["ncclCommAbort"])
    many_pass(daemon, 4 * 211)
    everything_comes_and_goes(daemon)
    let_go(daemon)
    fds = daemon.fds_at_rest()
    resident = daemon.metrics().one("process_resident_memory_bytes")
    everything_comes_and_goes(daemon)
    let_go(daemon)
    wait_until(lambda: daemon.fds() <= fds, f"{fds} descriptors again",
        seen=lambda: Counter(of for _, of, _ in daemon.descriptors()))
    grown = daemon.metrics().one("process_resident_memory_bytes") - resident
    check(grown < 1 << 20, f"{grown} more bytes of memory")


if __name__ == "__main__":
    main()
