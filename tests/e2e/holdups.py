#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""A user who wants the kernel to wait while probes are put on a file of his: fork() of the node must not wait with it.
And files that are seen through overlays, or that root may not open."""
import os
import re
import shutil
import subprocess
import sys
import time

from fuse import Fuse
from harness import (CUDA, NCCL, NOBODY, Absent, Actor, Daemon, Driver, State, check, copy_of, equal, folder, main,
                     need, run, test, wait_until)

USER = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
FORKS = """
import os, select, sys, time
worst = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    start = time.monotonic()
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitpid(pid, 0)
    worst = max(worst, time.monotonic() - start)
print(worst)
"""
LAUNCHES = "zernel_cuda_launches_total"
# A fork() that waits for the user takes as long as he holds his memory, and so does a word that comes only after that.
# Others are short, but for how long a busy machine keeps a process from its processor.
HELD_S, FORK_S, TOLD_S = 90, 45, 30


def forks():
    """Begins to fork, in a process of its own: one that waits in fork() can do nothing else. Until its input ends,
    when it says how long the longest took."""
    forking = subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    State.cleanup.callback(forking.kill)
    return forking


def holder(path, fuse):
    """A user's process that maps the file and holds its own memory lock, by reading a page that does not come."""
    actor = Actor(before=USER)
    State.cleanup.callback(fuse.release)
    actor.do(f"map_executable({path!r}); at = map_executable({fuse.path('hang')!r}); mem = open('/proc/self/mem', "
             f"'rb', 0)")
    actor.do("import threading; mem.seek(at); threading.Thread(target=mem.read, args=(1,), daemon=True).start()")
    fuse.holds()
    return actor


def waits(daemon, path):
    """Why a file is not hooked, as /health has it."""
    for family in daemon.json("/health")["probes"]:
        for library in family["libraries"]:
            if library["path"] == path and library["why"]:
                return library["why"]
    return None


def linked_copy():
    """A file of the user's, by a name that nobody looks at and by a library's."""
    plain = copy_of(CUDA, "foo")
    link = os.path.join(folder(), "libcuda.so.1")
    os.link(plain, link)
    return plain, link


@test
def forks_go_on_while_a_user_holds_his_memory():
    """The file is hooked once he lets go. His file system calls itself root's."""
    plain, link = linked_copy()
    fuse = Fuse({"hang": b"x" * 8192}, silent=("hang",), source="user_id=0", hold_s=HELD_S)
    held = holder(plain, fuse)
    daemon = Daemon()
    forking, actor = forks(), Actor(before=USER)
    actor.do(f"cuda = CDLL({link!r})")
    said = wait_until(lambda: waits(daemon, link), "a reason why it is not hooked")
    check(f"process {held.pid} maps it" in said, said)
    equal(daemon.metrics().one("zernel_libraries", state="waiting"), 1, "libraries that wait")
    check(float(forking.communicate()[0]) < FORK_S, "the longest fork() is far shorter than the read that is held")
    fuse.release()
    held.end()
    daemon.attached(link)
    actor.do("ready(cuda); launch(cuda, 7)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 7, "launches")


@test
def probes_stay_while_a_user_holds_his_memory():
    """A file that is written over loses its probes, once nobody could hold the kernel up."""
    plain, link = linked_copy()
    daemon = Daemon(expect=["the probes of .* have to stay", "was written over while it was in use"])
    actor = Actor(("cuda", link))
    daemon.attached(link)
    fuse = Fuse({"hang": b"x" * 8192}, silent=("hang",), hold_s=HELD_S)
    held = holder(plain, fuse)
    forking = forks()
    os.utime(link)
    said = wait_until(lambda: [s for s in daemon.lines() if "have to stay" in s], "a line on it")
    check(f"process {held.pid} maps it" in said[0], said)
    check(float(forking.communicate()[0]) < FORK_S, "the longest fork()")
    fuse.release()
    held.end()
    daemon.attached(link)
    actor.do("ready(cuda); launch(cuda, 11)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 11, "launches")


@test
def the_end_waits_for_a_user_and_says_for_whom():
    """Probes are on the file already when he begins: taking them away would stop fork() as well."""
    plain, link = linked_copy()
    daemon = Daemon(expect=["the end waits up to 20 s"])
    actor = Actor(("cuda", link))
    daemon.attached(link)
    fuse = Fuse({"hang": b"x" * 8192}, silent=("hang",), hold_s=HELD_S)
    held = holder(plain, fuse)
    forking = forks()
    daemon.process.terminate()
    said = wait_until(lambda: [s for s in daemon.lines() if "the end waits" in s], "a line on it")
    check(f"process {held.pid} maps it" in said[0], said)
    check(float(forking.communicate()[0]) < FORK_S, "the longest fork()")
    fuse.release()
    held.end()
    equal(daemon.end(), 0, "status")
    equal(actor.do("answer = 1"), 1, "the other process goes on")


@test
def a_hang_is_told_within_a_second():
    """With --user-libraries all nothing is looked for. What hangs then is said, with whom, while it does."""
    plain, link = linked_copy()
    daemon = Daemon("--user-libraries", "all", expect=["error: libraries: putting probes on .* waits",
        "attaching to .* took"])
    daemon.ticked(2)
    fuse = Fuse({"hang": b"x" * 8192}, silent=("hang",), hold_s=HELD_S)
    held, actor = holder(plain, fuse), Actor(before=USER)
    clock = time.monotonic()
    actor.tell(f"cuda = CDLL({link!r})")
    said = wait_until(lambda: [s for s in daemon.lines() if "putting probes on" in s], "a line in the log")
    told = time.monotonic() - clock
    metrics, (status, health) = daemon.metrics(), daemon.health()
    time.sleep(2)  # what takes so long bars the user's further files
    fuse.release()
    check(told < TOLD_S, f"told after {told:.1f} s")
    check(int(re.search(r" since (\d+) ms", said[0]).group(1)) < 10000, said)
    check(f"process {held.pid} that maps it" in said[0], said)
    equal((status, health["status"]), (503, "a change of probes hangs"), "health")
    check(f"process {held.pid} that maps it" in health["why"], health["why"])
    check(metrics.one("zernel_probe_hang_seconds") > 0.5, "the metric")
    actor.answer("the library")
    daemon.attached(link)
    equal(daemon.metrics().one("zernel_probe_hang_seconds"), 0, "the metric once it is over")


@test
def a_hang_on_a_file_system_of_the_node_names_who_waits():
    """A server of files that root mounted and that does not answer: nothing but where the process sleeps tells of
    it."""
    plain, link = linked_copy()
    daemon = Daemon("--user-libraries", "all", expect=["error: libraries: putting probes on .* waits",
        "attaching to .* took"])
    daemon.ticked(2)
    fuse = Fuse({"hang": b"x" * 8192}, silent=("hang",), user=0, allow_other=True, hold_s=HELD_S)
    held, actor = holder(plain, fuse), Actor(before=USER)
    actor.tell(f"cuda = CDLL({link!r})")
    wait_until(lambda: [s for s in daemon.lines() if "putting probes on" in s], "a line in the log")
    # on a machine that is busy the line may come before it is known which of those that map it is meant
    wait_until(lambda: f"process {held.pid} that maps it" in daemon.health()[1].get("why", ""), "who it is")
    equal(daemon.health()[0], 503, "health")
    time.sleep(2)  # what takes so long is told of once it is over
    fuse.release()
    actor.answer("the library")
    daemon.attached(link)


@test
def a_library_on_fuse_is_shown_and_not_hooked():
    with open(CUDA, "rb") as f:
        fuse = Fuse({"libcuda.so.1": f.read()}, allow_other=True)
    path = fuse.path("libcuda.so.1")
    daemon, actor = Daemon(), Actor(before=USER)
    actor.do(f"cuda = CDLL({path!r}); ready(cuda); launch(cuda, 5)")
    said = wait_until(lambda: waits(daemon, path), "a reason")
    check("FUSE" in said, said)
    check(not any(daemon.metrics().library(path).values()), "there are no probes on it")


@test
def a_library_on_fuse_is_hooked_if_that_is_asked_for():
    with open(CUDA, "rb") as f:
        fuse = Fuse({"libcuda.so.1": f.read()}, allow_other=True)
    path = fuse.path("libcuda.so.1")
    daemon, actor = Daemon("--user-libraries", "all"), Actor(before=USER)
    actor.do(f"cuda = CDLL({path!r})")
    daemon.attached(path)
    actor.do("ready(cuda); launch(cuda, 5)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 5, "launches")


@test
def a_library_that_root_may_not_open_is_shown_and_counted():
    with open(CUDA, "rb") as f:
        fuse = Fuse({"libcuda.so.1": f.read()})
    path = fuse.path("libcuda.so.1")
    daemon, actor = Daemon(expect=["alert events_lost"]), Actor(before=USER)
    daemon.expect = ()
    actor.do(f"cuda = CDLL({path!r})")
    said = wait_until(lambda: waits(daemon, path), "a reason")
    check("root may not open it" in said, said)
    equal(daemon.metrics().lost(), {"library": 1}, "what was lost")


@test
def a_user_who_only_uses_fuse_elsewhere_keeps_nobody_out():
    """A process with a file of FUSE that maps none of the libraries says nothing about them."""
    fuse = Fuse({"data": b"x" * 8192})
    other = Actor(before=USER)
    other.do(f"map_executable({fuse.path('data')!r})")
    path = copy_of(CUDA, "libcuda.so.1")
    daemon, actor = Daemon(), Actor(before=USER)
    actor.do(f"cuda = CDLL({path!r})")
    daemon.attached(path)
    actor.do("ready(cuda); launch(cuda, 3)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 3, "launches")


@test
def only_the_systems_own_where_that_is_asked_for():
    path, own = copy_of(CUDA, "libcuda.so.1"), copy_of(NCCL, "own/libnccl.so.2")
    daemon = Daemon("--user-libraries", "none", "--libraries", own)
    daemon.attached(own)
    actor = Actor(("cuda", path))
    said = wait_until(lambda: waits(daemon, path), "a reason")
    check("--user-libraries is none" in said, said)
    check(not any(daemon.metrics().library(path).values()), "there are no probes on it")
    equal(actor.do("answer = 1"), 1, "it goes on")


@test
def a_kept_library_is_hooked_before_anybody_maps_it_and_after():
    own = copy_of(CUDA, "own/libcuda.so.1")
    daemon = Daemon("--libraries", own).attached(own)
    for _ in range(2):
        actor = Actor(("cuda", own))
        actor.do("ready(cuda); launch(cuda, 11)")
        equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 11, "launches from the first one on")
        actor.end()
        daemon.ticked(3)
    check(any(daemon.metrics().library(own).values()), "it stays hooked")


# ---- one file, many overlays

def overlay(name, lower):
    place = os.path.join(folder(), name)
    for part in ("upper", "work", "merged"):
        os.makedirs(os.path.join(place, part))
    merged = os.path.join(place, "merged")
    options = f"lowerdir={lower},upperdir={place}/upper,workdir={place}/work"
    if run(["mount", "-t", "overlay", "overlay", "-o", options, merged]).returncode:
        raise Absent("no overlay file system")
    State.cleanup.callback(run, ["umount", "-l", merged])
    return os.path.join(merged, "libcuda.so.1")


def hooked_in(daemon, place):
    libraries = daemon.metrics().all("zernel_probe_attached", symbol="cuLaunchKernel")
    return [dict(labels)["library"] for labels in libraries if dict(labels)["library"].startswith(place)]


@test
def containers_of_one_image_count_each_call_once():
    lower = os.path.join(folder(), "image")
    run(["mount", "-t", "tmpfs", "none", folder()])  # an overlay cannot lie on every file system
    State.cleanup.callback(run, ["umount", "-l", folder()])
    os.mkdir(lower)
    run(["cp", CUDA, lower])
    paths = [overlay(f"container{n}", lower) for n in range(3)]
    daemon = Daemon()
    daemon.ticked(2)
    actors = [Actor(("cuda", path)) for path in paths]
    wait_until(lambda: hooked_in(daemon, folder()), "one library of three overlays")
    daemon.ticked(2)
    for n, actor in enumerate(actors, 1):
        actor.do(f"ready(cuda); launch(cuda, {n * 101}); held = [alloc(cuda, 4096) for _ in range({n})]")
        actor.do("[ok(cuda.cuMemFree_v2(at)) for at in held]")
    daemon.ticked(2)
    metrics = daemon.metrics()
    for n, actor in enumerate(actors, 1):
        equal(metrics.one(LAUNCHES, pid=str(actor.pid)), n * 101, "launches")
        equal(sum(metrics.all("zernel_gpu_free_calls_total", pid=str(actor.pid)).values()), n, "frees")
    equal(metrics.lost(), {}, "what was lost")
    equal(len(hooked_in(daemon, folder())), 1, "libraries")


@test
def snapshots_of_btrfs_are_files_of_their_own():
    """A subvolume and its snapshot have one device in the kernel, and each file its old number. So containers have it
    where their images are kept on btrfs."""
    image, root = os.path.join(folder(), "image"), os.path.join(folder(), "btrfs")
    with open(image, "wb") as f:
        f.truncate(128 << 20)
    os.mkdir(root)
    equal(run([need("/usr/sbin/mkfs.btrfs"), "-q", image]).returncode, 0, "mkfs")
    if run(["mount", "-o", "loop", image, root]).returncode:
        raise Absent("no btrfs")
    State.cleanup.callback(run, ["umount", "-l", root])
    for command in (["subvolume", "create", "first"], ["subvolume", "snapshot", "first", "second"]):
        equal(run(["btrfs", *command[:2], *[os.path.join(root, name) for name in command[2:]]]).returncode, 0, "btrfs")
        if command[1] == "create":
            shutil.copy(CUDA, os.path.join(root, "first"))
    paths = [os.path.join(root, name, "libcuda.so.1") for name in ("first", "second")]
    equal(*[os.stat(path).st_ino for path in paths], "the numbers of both files")
    daemon = Daemon()
    actors = [Actor(("cuda", path)) for path in paths]
    daemon.attached(*paths)
    for n, actor in enumerate(actors, 1):
        actor.do(f"ready(cuda); launch(cuda, {n * 101})")
    daemon.ticked(2)
    for n, actor in enumerate(actors, 1):
        equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), n * 101, "launches")


# ---- many files of one user

@test
def one_users_files_do_not_keep_others_out():
    """More files than the table has rows; the other user's library, which comes last, is hooked."""
    whole = open(CUDA, "rb").read()
    daemon = Daemon(expect=["quota: libraries: .* refused, the last one to user 65534"], allow=["held back"])
    greedy, other = Actor(before=USER), Actor(before=["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"])
    paths = []
    for n in range(140):
        path = os.path.join(folder(), str(n), "libcuda.so.1")
        os.mkdir(os.path.dirname(path))
        with open(path, "wb") as f:
            f.write(whole + bytes([n]))
        paths.append(path)
    greedy.do(f"[map_executable(p) for p in {paths!r}]")
    wait_until(lambda: daemon.metrics().lost().get("library"), "the first one that is refused", 300)
    path = copy_of(CUDA, "last/libcuda.so.1")
    other.do(f"cuda = CDLL({path!r})")
    daemon.attached(path)
    other.do("ready(cuda); launch(cuda, 13)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(other.pid)), 13, "launches")
    wait_until(lambda: any("quota: libraries: " in line for line in daemon.lines()), "the line of the log")


@test
def empty_files_are_read_once():
    """80 files of holes, 200 MB each by their size: the finder comes round while they are mapped."""
    head = open(CUDA, "rb").read(64)
    daemon, actor = Daemon(), Actor(before=USER)
    for n in range(80):
        path = os.path.join(folder(), f"h{n}", "libcuda.so.1")
        os.mkdir(os.path.dirname(path))
        with open(path, "wb") as f:
            f.write(head)
            f.truncate(200 << 20)
        actor.do(f"map_executable({path!r})")
    path = copy_of(CUDA, "last/libcuda.so.1")
    other = Actor(("cuda", path))
    daemon.attached(path)
    equal(daemon.health()[0], 200, "health")
    daemon.expect, daemon.looked_at = (), True  # what it says of the files is another test's
    equal(other.do("answer = 1"), 1, "the other goes on")


if __name__ == "__main__":
    main()
