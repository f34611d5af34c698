#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Nodes of very many processes, and users who start, map and end as much as they can: what others map is hooked all the
same, and the finder's work is in proportion to what has changed. Work is counted in system calls, not in time."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from harness import (BURST, CUDA, HERE, Absent, Actor, Daemon, Process, check, copy_of, equal, folder, main, need, run,
                     test,
                     wait_until)

LAUNCHES = "zernel_cuda_launches_total"
IDLE, CALLERS = 2500, 1000

CROWD = """
import ctypes, os, sys
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9)  # it ends with its parent
        sys.stdin.read()
        os._exit(0)
print("ready", flush=True)
sys.stdin.read()
"""


class Crowd(Process):
    """Processes that sleep and map no library."""

    def __init__(self, count):
        super().__init__([sys.executable, "-c", CROWD, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.wanted = None
        equal(self.process.stdout.readline(), "ready\n", "what the crowd says")


def finder_reads(daemon):
    """System calls that read, made by all threads but the loop's: the one that looks for libraries, and two that
    sleep."""
    reads = 0
    for thread in os.listdir(f"/proc/{daemon.pid}/task"):
        if int(thread) != daemon.pid:
            with open(need(f"/proc/{daemon.pid}/task/{thread}/io")) as f:
                reads += int(dict(line.split(": ") for line in f.read().splitlines())["syscr"])
    return reads


def settled(daemon):
    """Waits until it has looked at whatever was there before."""
    def still():
        before = finder_reads(daemon)
        time.sleep(1)
        return finder_reads(daemon) - before < 100
    wait_until(still, "a finder that has nothing to do", 60)


def hooked(path):
    """An actor that maps a library which nobody has mapped before; it can be killed at any time."""
    return Actor(("cuda", copy_of(CUDA, path)))


@test
def a_thousand_first_calls_keep_no_library_waiting():
    """What each had started before is looked for then, beside processes that have nothing to do with it."""
    crowd, daemon, first = Crowd(IDLE), Daemon(), Actor(("cuda", CUDA))
    daemon.attached(CUDA)  # before a thousand map it
    burst = Process([BURST, CUDA, str(CALLERS), "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(burst.process.stdout.readline(), "ready\n", "what burst says first")
    burst.process.stdin.write("\n")
    burst.process.stdin.flush()
    equal(burst.process.stdout.readline(), "done\n", "what burst says then")
    daemon.ticked(2)
    path = copy_of(CUDA, "late/libcuda.so.1")
    actor = Actor(("cuda", path))
    daemon.attached(path)
    actor.do("ready(cuda); launch(cuda, 7)")
    equal(daemon.json("/health")["status"], "ok", "what /health says")
    metrics = daemon.metrics()
    equal(metrics.one(LAUNCHES, pid=str(actor.pid), kind="kernel"), 7, "launches")
    equal(metrics.one("zernel_table_entries", table="processes"), CALLERS + 1, "processes")
    equal(metrics.lost(), {}, "what was lost")
    first.end()
    crowd.kill()


FORKED_BEFORE = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
from actor import CDLL, launch, ready
cuda = CDLL(sys.argv[2])
told, tell = os.pipe()
def child(depth):
    if os.fork() == 0:
        CDLL(None).prctl(1, 9)  # it ends with its parent
        os.write(tell, b"%d " % os.getpid())
        if depth > 1:
            child(depth - 1)
        signal.pause()
def other():
    child(2)
    threading.Event().wait()
child(2)
threading.Thread(target=other, daemon=True).start()
pids = b""
while pids.count(b" ") < 4:
    pids += os.read(told, 100)
print("ready", flush=True)
sys.stdin.readline()
ready(cuda)
launch(cuda, 7)
print("done", flush=True)
print(pids.decode(), flush=True)
sys.stdin.read()
"""


def bpftool(*words):
    tool = next((t for t in ("/usr/sbin/bpftool", shutil.which("bpftool")) if t and os.path.exists(t)), None)
    if not tool:
        raise Absent("no bpftool")
    return json.loads(run([tool, "-j", *words]).stdout)


def table(daemon, name):
    """What a table of the kernel's programs holds."""
    ids = set()
    for _, _, said in daemon.descriptors():
        ids |= {line.split()[1] for line in said.splitlines() if line.startswith("map_id:")}
    return bpftool("map", "dump", "id", next(n for n in ids if bpftool("map", "show", "id", n).get("name") == name))


def followed(daemon):
    """Children of tracked processes, from the table that the kernel's programs have of them."""
    return {int.from_bytes(bytes(int(b, 16) for b in row["key"]), sys.byteorder)
            for row in table(daemon, "workers")}


@test
def children_of_all_threads_are_found():
    """Forked before the first call, by the main thread and by another one, and their children."""
    daemon = Daemon()
    parent = Process([sys.executable, "-c", FORKED_BEFORE, HERE, CUDA], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(parent.process.stdout.readline(), "ready\n", "what it says first")
    daemon.attached(CUDA)
    parent.process.stdin.write("\n")
    parent.process.stdin.flush()
    equal(parent.process.stdout.readline(), "done\n", "what it says then")
    want = {int(pid) for pid in parent.process.stdout.readline().split()}
    equal(len(want), 4, "children")
    wait_until(lambda: followed(daemon) == want, f"these children: {want}")
    equal(daemon.metrics().lost(), {}, "what was lost")


LOADER = """
import select
def worker(asked):
    os.close(ask)
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    while True:
        while not poll.poll(5000):
            pass
        what = os.read(asked, 1)
        if not what:
            os._exit(0)
        if what == b"1":
            ready(cuda)
asked, ask = os.pipe()
child = os.fork()
if child == 0:
    worker(asked)
answer = child
"""


def of_pid(daemon, name, pid):
    return sum(daemon.metrics().all(name, pid=str(pid)).values())


@test
def a_child_that_uses_a_gpu_is_no_worker():
    """From its first call on it is a process of its own: its switches are counted as that one's, too."""
    daemon, parent = Daemon(), Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    parent.do("ready(cuda); launch(cuda, 1)")
    child = parent.do(LOADER)

    def is_worker():  # once switches are watched, which is some time after the first launch
        parent.do("os.write(ask, b'0')")
        return of_pid(daemon, "zernel_dataloader_workers", parent.pid) == 1

    wait_until(is_worker, "a worker")
    equal(followed(daemon), {child}, "children")
    parent.do("os.write(ask, b'1')")
    wait_until(lambda: child in daemon.metrics().pids(), "the child")
    wait_until(lambda: of_pid(daemon, "zernel_dataloader_workers", parent.pid) == 0, "no worker any more")
    equal(followed(daemon), set(), "children")
    wait_until(lambda: of_pid(daemon, "zernel_context_switches_total", child), "the child's own switches")
    parent.do("os.kill(child, 9)")
    daemon.gone(child)
    equal(daemon.metrics().lost(), {}, "what was lost")


def ids_given(daemon):
    shown = table(daemon, "zernel.bss")[0].get("formatted")
    if not shown:
        raise Absent("no bpftool that knows types")
    return shown["value"][".bss"][0]["shared"]["next_id"]


@test
def contexts_use_up_no_ids_of_processes():
    """When all ids were given, a new process would have that of a living one, whose entries would go with it."""
    daemon, actor = Daemon(), Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    actor.do("ready(cuda)")
    before = ids_given(daemon)
    actor.do("""
for _ in range(1009):
    ok(cuda.cuDevicePrimaryCtxReset(0))
    ok(cuda.cuCtxCreate_v2(byref(context := c_void_p()), 0, 0))
    ok(cuda.cuCtxDestroy_v2(context))
""")
    check(ids_given(daemon) - before < 100, f"ids given: {before} before, {ids_given(daemon)} after")
    equal(daemon.metrics().lost(), {}, "what was lost")


SHORT = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
import ctypes, time
mmap = ctypes.CDLL(None).mmap
print("ready", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        mmap(None, ctypes.c_size_t(4096), 5, 2, fd, ctypes.c_size_t(0))
        os._exit(0)
    os.wait()
    time.sleep(0.03)
print("done", flush=True)
"""


@test
def short_lived_processes_set_off_no_look_at_all_others():
    """The file that they map is hooked already, so nothing can be missed."""
    crowd, actor = Crowd(IDLE), hooked("known/libcuda.so.1")
    path = os.path.join(folder(), "known/libcuda.so.1")
    daemon = Daemon().attached(path)
    short = Process([sys.executable, "-c", SHORT, path, "201"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(short.process.stdout.readline(), "ready\n", "what it says first")
    again = Actor(("cuda", path))  # an event, so that the file is known
    settled(daemon)
    before = finder_reads(daemon)
    short.process.stdin.write("\n")
    short.process.stdin.flush()
    equal(short.process.stdout.readline(), "done\n", "what it says then")
    daemon.ticked(2)
    reads = finder_reads(daemon) - before
    check(reads < 3 * IDLE, f"{reads} reads for 201 processes, with {IDLE} beside them")  # there was no second look
    equal(daemon.metrics().lost(), {}, "what was lost")
    check(actor.pid != again.pid, "two actors")
    crowd.kill()


LINES = 60000


@test
def a_long_list_of_maps_is_not_read_again_and_again():
    """A process with as many mappings as it likes maps a library many times. Others take turns with it."""
    daemon, actor = Daemon(), Actor()
    actor.do(f"""
libc = CDLL(None)
libc.mmap.restype = c_void_p
page = 4096
at = libc.mmap(None, c_size_t({LINES} * page), 3, 0x22, -1, c_size_t(0))
for i in range(0, {LINES}, 2):
    ok(libc.mprotect(c_void_p(at + i * page), c_size_t(page), 1))
with open('/proc/self/maps') as f:
    assert len(f.readlines()) >= {LINES}
""")
    path = copy_of(CUDA, "many/libcuda.so.1")
    actor.do(f"cuda = CDLL({path!r})")
    daemon.attached(path)
    settled(daemon)
    before = finder_reads(daemon)
    actor.do(f"""
for _ in range(41):
    ok(libc.munmap(c_void_p(map_executable({path!r})), c_size_t(os.path.getsize({path!r}))))
    time.sleep(0.03)
""")
    other = hooked("other/libcuda.so.1")
    daemon.attached(os.path.join(folder(), "other/libcuda.so.1"))
    reads = finder_reads(daemon) - before
    check(reads < LINES // 10, f"{reads} reads, of a process with {LINES} mappings")
    equal(daemon.metrics().lost(), {}, "what was lost")
    check(other.pid != actor.pid, "two actors")


FLOOD = """
import ctypes, os, sys
os.sched_setaffinity(0, {os.cpu_count() - 1})
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
def map_once(path, keep=False):
    fd = os.open(path, os.O_RDONLY)
    at = libc.mmap(None, ctypes.c_size_t(os.fstat(fd).st_size), 5, 2, fd, ctypes.c_size_t(0))
    os.close(fd)
    if not keep:
        libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(os.stat(path).st_size))
print("ready", flush=True)
sys.stdin.readline()
for _ in range(10000):
    map_once("/bin/true")
map_once(sys.argv[1], True)
print("done", flush=True)
sys.stdin.readline()
map_once("/bin/true")
sys.stdin.read()
"""


@test
def what_is_mapped_while_events_are_lost_is_found():
    """The kernel says that it lost some when there is room for the next one, and not before."""
    path = copy_of(CUDA, "lost/libcuda.so.1")
    daemon, crowd = Daemon(), Crowd(300)
    flood = Process([sys.executable, "-c", FLOOD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    equal(flood.process.stdout.readline(), "ready\n", "what it says first")
    daemon.ticked(3)
    with daemon.stopped():
        flood.process.stdin.write("\n")
        flood.process.stdin.flush()
        equal(flood.process.stdout.readline(), "done\n", "what it says then")
    daemon.attached(path)
    flood.process.stdin.write("\n")
    flood.process.stdin.flush()
    wait_until(lambda: daemon.metrics().one("zernel_lost_total", what="mapping"), "the loss")
    crowd.kill()


if __name__ == "__main__":
    main()
