#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Libraries are found wherever they are, whenever they come, and let go when nobody maps them; broken ones are
refused."""
import contextlib
import ctypes
import glob
import os
import platform
import shutil
import struct
import subprocess
import sys
import time

from harness import (CUDA, DRIVER, HERE, NCCL, ROOT, TOOLS, Absent, Actor, Daemon, Driver, Process, check, copy_of,
                     equal, folder, main, run, shared_daemon, test, test_shared, test_timed, wait_until)

LAUNCHES = "zernel_cuda_launches_total"


def counted(daemon, report, lost=None):
    """Every launch that the driver reports was seen, of whichever kind, and nothing was lost."""
    pid = str(report["pid"])
    metrics = daemon.metrics()
    got = {dict(k)["kind"]: v for k, v in metrics.all(LAUNCHES, pid=pid).items()}
    equal(got, {k: v for k, v in report["launches"].items() if v}, f"launches of process {pid}")
    equal(metrics.lost(), lost or {}, "what was lost")


def live_links(daemon):
    """How many BPF links and programs the daemon holds."""
    return sum(of.startswith("anon_inode:bpf") for _, of, _ in daemon.descriptors())


def hooked_as(daemon, path):
    """Waits for probes on a file that had this path when it was mapped, whatever is there for us."""
    def libraries():
        labels = daemon.metrics().all("zernel_probe_attached", symbol="cuLaunchKernel")
        return [k for k in labels if dict(k)["library"].startswith(path)]
    wait_until(libraries, f"probes on what was {path}")


# ---- when

@test
def a_process_that_was_there_before():
    driver = Driver("launches", nccl=NCCL)
    daemon = Daemon().attached(CUDA, NCCL)
    counted(daemon, driver.start())


@test
def a_process_that_comes_later():
    daemon = Daemon()
    driver = Driver("launches")
    daemon.attached(CUDA)
    counted(daemon, driver.start())


@test
def a_library_three_seconds_after_exec():
    daemon = Daemon()
    driver = Driver("launches", "--delay-ms", "3000")
    daemon.attached(CUDA)
    counted(daemon, driver.start())


@test_timed
def attached_before_calls_that_come_a_second_and_a_half_after_the_library():
    """The promise is one second; not one of the calls that follow may be missing."""
    daemon = Daemon()
    driver = Driver("launches", "--ready-ms", "1500", gate=False)
    counted(daemon, driver.report())


# ---- where

@test_shared
def in_another_mount_namespace():
    """The path exists only there: what is at it here is something else."""
    place = os.path.join(folder(), "only-there")
    os.mkdir(place)
    script = f"mount -t tmpfs none {place} && cp {CUDA} {place}/libcuda.so.1 && exec \"$@\""
    daemon = shared_daemon()
    driver = Driver("launches", cuda=f"{place}/libcuda.so.1",
                    before=["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh"])
    check(not os.listdir(place), "nothing is there for us")
    wait_until(lambda: any(dict(rest)["library"].startswith(place) for rest in daemon.metrics().all(
        "zernel_probe_attached", symbol="cuLaunchKernel")), "its probes")
    counted(daemon, driver.start())


@test_shared
def in_a_chroot():
    root = os.path.join(folder(), "root")
    needed = run(["ldd", DRIVER]).stdout.split() + run(["ldd", CUDA]).stdout.split()
    for path in {p for p in needed if p.startswith("/")}:
        os.makedirs(os.path.dirname(root + path), exist_ok=True)
        shutil.copy(path, root + path)
    shutil.copy(DRIVER, root)
    shutil.copy(CUDA, root)
    daemon = shared_daemon()
    driver = Driver("launches", cuda="/libcuda.so.1", program="/driver", before=["chroot", root])
    daemon.attached(f"{root}/libcuda.so.1")
    counted(daemon, driver.start())


def found_in(place):
    home = os.path.join(place, f"zernel-e2e-{os.getpid()}")
    os.makedirs(home, mode=0o700)
    try:
        path = shutil.copy(CUDA, home)
        daemon, driver = shared_daemon(), Driver("launches", cuda=path)
        daemon.attached(path)
        counted(daemon, driver.start())
    finally:
        shutil.rmtree(home)


@test_shared
def under_home():
    found_in("/home")


@test_shared
def under_tmp():
    found_in("/tmp")


@test_shared
def two_copies_at_once():
    paths = [copy_of(CUDA, f"{n}/libcuda.so.1") for n in (1, 2)]
    daemon = shared_daemon()
    drivers = [Driver("launches", cuda=path) for path in paths]
    daemon.attached(*paths)
    for driver in drivers:
        counted(daemon, driver.start())


@test_shared
def a_copy_replaced_on_disk():
    path = copy_of(CUDA, "libcuda.so.1")
    daemon, old = shared_daemon(), Driver("launches", cuda=path)
    daemon.attached(path)
    os.rename(copy_of(CUDA, "new"), path)
    check(not daemon.metrics().library(path), "the new file is another one")
    new = Driver("launches", cuda=path)
    daemon.attached(path)
    counted(daemon, new.start())
    counted(daemon, old.start())


@test
def a_deleted_file():
    path = copy_of(CUDA, "libcuda.so.1")
    driver = Driver("launches", cuda=path)
    os.unlink(path)
    daemon = Daemon()
    hooked_as(daemon, path)
    counted(daemon, driver.start())


# ---- how long

def settled(daemon):
    """Descriptors (but for connections, which come and go), those of BPF, and hooked libraries, when they have stayed
    the same for 5 s: what the machine has of its own is hooked by then, and what others have used is let go."""
    seen = []

    def stays():
        daemon.ticked(1)
        fds = sum(not of.startswith("socket:") for _, of, _ in daemon.descriptors())
        seen.append((fds, live_links(daemon), daemon.metrics().one("zernel_libraries", state="hooked")))
        return len(seen) > 5 and len(set(seen[-6:])) == 1
    wait_until(stays, "what is hooked staying the same")
    return seen[-1]


@test
def a_library_goes_with_its_last_process():
    daemon = Daemon()
    fds, links, before = settled(daemon)
    drivers = [Driver("launches", nccl=NCCL) for _ in range(2)]
    daemon.attached(CUDA, NCCL)
    check(live_links(daemon) > links, "there are links")
    for driver in drivers:
        check(any(daemon.metrics().library(CUDA).values()), "still hooked while a process maps it")
        driver.start()
        driver.end()
    daemon.detached(CUDA)
    daemon.detached(NCCL)
    equal(settled(daemon), (fds, links, before), "descriptors, those of BPF, and libraries")


FORKED = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from actor import CDLL, launch, ready
cuda = CDLL(sys.argv[2])
if os.fork():
    os._exit(0)
sys.stdin.readline()
ready(cuda)
launch(cuda, 7)
print(os.getpid(), flush=True)
sys.stdin.readline()
"""


@test
def a_child_that_outlives_its_parent():
    """fork maps nothing anew, so no event tells that the child uses the library too."""
    path = copy_of(CUDA, "libcuda.so.1")
    daemon = Daemon()
    parent = Process([sys.executable, "-c", FORKED, HERE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    daemon.attached(path)
    time.sleep(4)  # as long as it takes to let go what only the parent used
    parent.process.stdin.write("\n")
    parent.process.stdin.flush()
    child = parent.process.stdout.readline().strip()
    equal(daemon.metrics().one(LAUNCHES, pid=child, kind="kernel"), 7, "launches of the child")
    parent.process.stdin.close()
    daemon.detached(path)


@test
def a_mapping_that_is_split():
    """madvise and the like divide a mapping without an event; the process still uses the library."""
    path = copy_of(CUDA, "libcuda.so.1")
    daemon, actor = Daemon(), Actor(("cuda", path))
    daemon.attached(path)
    actor.do("text = next(int(l.split('-')[0], 16) for l in open('/proc/self/maps') if 'libcuda' in l and ' r-xp ' "
             "in l)")
    actor.do("ok(CDLL(None).madvise(c_void_p(text), c_size_t(4096), 16))")  # MADV_DONTDUMP
    time.sleep(3)
    actor.do("ready(cuda)")
    actor.do("launch(cuda, 11)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid), kind="kernel"), 11, "launches")


@test
def a_copy_that_is_written_over():
    """The same inode with new code: the old probes must go before anybody runs it for long, and the new ones count."""
    path = copy_of(CUDA, "libcuda.so.1")
    daemon = Daemon(expect=["was written over while it was in use"])
    old, idle = Driver("launches", cuda=path), Actor(("cuda", path))  # which keeps it in use
    daemon.attached(path)
    before = os.stat(path).st_ino
    old.start()
    old.end()
    shutil.copyfile(CUDA, path)
    equal(os.stat(path).st_ino, before, "inode")
    new = Driver("launches", cuda=path)
    wait_until(lambda: sum(f"functions of {path}" in line for line in daemon.lines()) >= 2, "that it is hooked anew")
    daemon.attached(path)
    idle.kill()
    counted(daemon, new.start())


@test_shared
def a_library_that_is_closed_and_opened_again():
    path = copy_of(CUDA, "libcuda.so.1")
    daemon, actor = shared_daemon(), Actor(("cuda", path))
    daemon.attached(path)
    actor.do("ready(cuda); launch(cuda, 17)")
    actor.do("from _ctypes import dlclose; dlclose(cuda._handle)")
    daemon.detached(path)
    actor.do(f"cuda = CDLL({path!r})")
    daemon.attached(path)
    actor.do("ready(cuda); launch(cuda, 13)")
    equal(daemon.metrics().one(LAUNCHES, pid=str(actor.pid)), 30, "launches")


def holds(daemon, inode):
    """Whether the daemon has this file open."""
    place = f"/proc/{daemon.process.pid}/fd"
    for fd in os.listdir(place):
        with contextlib.suppress(FileNotFoundError):  # one that was closed meanwhile
            if os.stat(f"{place}/{fd}").st_ino == inode:
                return True
    return False


@test
def a_new_driver():
    """What takes the place of a file of the system is the system's too, and what it was goes with its last process."""
    path = copy_of(CUDA, "libcuda.so.1")
    daemon = Daemon("--user-libraries", "none", "--libraries", path)
    daemon.attached(path)
    old, before = Driver("launches", cuda=path), os.stat(path).st_ino
    os.rename(copy_of(CUDA, "new"), path)
    daemon.attached(path)  # although nobody maps it
    new = Driver("launches", cuda=path)
    counted(daemon, new.start())
    check(holds(daemon, before), "the old file is open while a process maps it")
    counted(daemon, old.start())
    old.end()
    wait_until(lambda: not holds(daemon, before), "the old file being closed")
    new.end()
    daemon.ticked(5)
    check(any(daemon.metrics().library(path).values()), "the new one stays")


# ---- which functions

def variant(name, *options):
    """The fake libcuda, built with other options."""
    source = os.path.join(ROOT, "tests", "fake")
    to = os.path.join(folder(), name)
    built = run(["gcc", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-fPIC", "-shared", "-fno-optimize-sibling-calls",
                 "-fno-ipa-icf", *options, "-o", to, os.path.join(source, "cuda.c"), "-lpthread"])
    equal(built.returncode, 0, built.stderr)
    return to


@test_shared
def attached_tells_the_truth_of_each_symbol():
    daemon = shared_daemon()
    path = variant("libcuda.so.1", "-DcuGraphLaunch=another_name", "-DcuEventSynchronize=one_more")
    actor = Actor(("cuda", path), ("whole", CUDA))
    daemon.attached(path, CUDA)
    table = run([daemon.process.args[0], "--list-probes"]).stdout.split("\n\n")[0]  # behind it: the system's libraries
    listed = [line.split() for line in table.splitlines()]
    hooked = {row[1] for row in listed if row[1].startswith("cu") and "(kernel," not in row}
    equal(daemon.metrics().library(CUDA), dict.fromkeys(hooked, 1), "a library that has them all")
    missing = {"cuGraphLaunch", "cuEventSynchronize"}
    equal(daemon.metrics().library(path), {s: int(s not in missing) for s in hooked}, "one that lacks two")
    actor.do("ready(cuda); launch(cuda, 7); cuda.another_name(None, None)")
    equal(daemon.metrics().all(LAUNCHES, pid=str(actor.pid)), {(("kind", "kernel"),): 7}, "launches")


@test_shared
def two_names_of_one_function_count_once():
    daemon, actor = shared_daemon(), Actor(("nccl", NCCL))
    daemon.attached(NCCL)
    actor.do("comm = c_void_p(); ok(nccl.pncclCommInitAll(byref(comm), 1, None))")
    call = "AllReduce(None, None, c_size_t(11), 7, 0, comm, None)) for _ in range(%d)]"
    actor.do("[ok(nccl.nccl" + call % 19)
    actor.do("[ok(nccl.pnccl" + call % 23)
    labels = {"pid": str(actor.pid), "op": "all_reduce"}
    equal(daemon.metrics().one("zernel_nccl_calls_total", **labels), 42, "calls")
    equal(daemon.metrics().one("zernel_nccl_bytes_total", **labels), 42 * 11 * 4, "bytes")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def two_hooked_names_of_one_function_count_once():
    one, other = "cuStreamSynchronize", "cuStreamSynchronize_ptsz"
    path = variant("libcuda.so.1", f"-D{other}=unused", f"-Wl,--defsym,{other}={one}")
    daemon, actor = shared_daemon(), Actor(("cuda", path))
    daemon.attached(path)
    actor.do(f"ready(cuda); [ok(cuda.{one}(None)) for _ in range(7)]; [ok(cuda.{other}(None)) for _ in range(5)]")
    hooked = daemon.metrics().library(path)
    equal((hooked[one], hooked[other]), (1, 1), "both names are hooked")
    calls = daemon.metrics().one("zernel_cuda_sync_seconds_count", pid=str(actor.pid), call="stream_synchronize")
    equal((calls, daemon.metrics().lost()), (12, {}), "calls, and what was lost")


@test
def a_family_that_is_off():
    daemon, driver = Daemon("--probes", "gpu"), Driver("memory,launches")
    daemon.attached(CUDA)
    r = driver.start()
    metrics = daemon.metrics()
    hooked = metrics.all("zernel_probe_attached")
    check(all(v == (dict(k)["family"] == "gpu_mem") for k, v in hooked.items()), "only gpu_mem is attached")
    equal(metrics.all(LAUNCHES, pid=str(driver.pid)), {}, "launches")
    pinned = wait_until(lambda: daemon.metrics().one("zernel_gpu_host_pinned_bytes", pid=str(driver.pid)),
        "pinned memory")
    equal(pinned, r["pinned"], "pinned memory")
    states = {p["family"]: p["state"] for p in daemon.json()["probes"]}
    check(len(states) > 10, "families on the kernel itself are there too")
    equal(states, {"gpu_mem": "attached", **{f: "off" for f in states if f != "gpu_mem"}}, "families")


# ---- files that are not what their name says

def patched(*changes):
    """The fake library with some bytes replaced: (offset, bytes)."""
    with open(CUDA, "rb") as f:
        data = bytearray(f.read())
    for at, new in changes:
        data[at:at + len(new)] = new
    return bytes(data)


def section(index, field):
    """File offset of a 64-bit field of a section header: 24 offset, 32 size, 40 link and info, 56 entry size."""
    with open(CUDA, "rb") as f:
        head = f.read(64)
    return struct.unpack_from("<Q", head, 40)[0] + 64 * index + field


def dynamic_symbols():
    with open(CUDA, "rb") as f:
        data = f.read()
    table, count = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 60)[0]
    return next(i for i in range(count) if struct.unpack_from("<I", data, table + 64 * i + 4)[0] == 11)


def broken_files():
    """What a hostile or unlucky user may leave under a library's name."""
    whole, huge = patched(), struct.pack("<Q", 1 << 63)
    symbols = dynamic_symbols()
    return {
        "cut in the file header": whole[:40],
        "cut before the section headers": whole[:len(whole) // 2],
        "cut in the section headers": whole[:-100],
        "random": os.urandom(4096),
        "section table far outside": patched((40, huge)),
        "section table that wraps around": patched((40, struct.pack("<Q", 2 ** 64 - 64))),
        "more sections than there are": patched((60, b"\xff\xff")),
        "section headers of a wrong size": patched((58, b"\x01\x00")),
        "symbols far outside": patched((section(symbols, 24), huge)),
        "symbols without end": patched((section(symbols, 32), huge)),
        "names in no section": patched((section(symbols, 40), b"\xff\xff\xff\xff")),
    }


@test
def broken_files_are_refused_and_counted():
    daemon, actor = Daemon(expect=["not a well-formed ELF file"]), Actor()
    files = broken_files()
    for n, (what, data) in enumerate(files.items(), 1):
        path = os.path.join(folder(), str(n), "libcuda.so.1")
        os.mkdir(os.path.dirname(path))
        with open(path, "wb") as f:
            f.write(data)
        actor.do(f"map_executable({path!r})")
        wait_until(lambda: daemon.metrics().lost().get("elf") == n, f"refusing the file {what!r}")
        equal(daemon.metrics().library(path), {}, "probes on it")
    equal(daemon.metrics().lost(), {"elf": len(files)}, "what was lost")
    wait_until(lambda: sum("not a well-formed ELF" in s for s in daemon.lines()) == len(files), "a line for each")
    driver = Driver("launches")
    daemon.attached(CUDA)
    counted(daemon, driver.start(), {"elf": len(files)})


@test_shared
def a_file_without_our_functions_is_no_loss():
    path = copy_of("/bin/true", "libcuda.so.1")
    daemon, actor = shared_daemon(), Actor()
    actor.do(f"map_executable({path!r})")
    wait_until(lambda: any("has none of the hooked functions" in s for s in daemon.lines()), "looking at it")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def a_library_of_32_bits_is_no_loss():
    """As the driver brings them for other programs: there is nothing to hook, and the file is in order."""
    path = os.path.join(folder(), "libcuda.so.1")
    with open(path, "wb") as f:
        f.write(patched((4, b"\x01"), (18, b"\x03\x00")))
    daemon, actor = shared_daemon(), Actor()
    actor.do(f"map_executable({path!r})")
    wait_until(lambda: any(path in s and "another kind of machine" in s for s in daemon.lines()), "looking at it")
    equal(daemon.metrics().lost(), {}, "what was lost")


# ---- the vendor's own

def vendor(pattern):
    found = sorted({os.path.realpath(p) for p in glob.glob(pattern)})
    if not found:
        raise Absent(f"no {pattern}")
    return found[0]


@test_shared
def the_vendors_nccl():
    path = vendor("/usr/local/cuda*/lib*/libnccl.so.2")
    daemon, actor = shared_daemon(), Actor(("nccl", path))
    daemon.attached(path)
    call = "answer = [nccl.nccl%s for _ in range(%d)]"
    results = actor.do(call % ("AllReduce(None, None, c_size_t(11), 7, 0, None, None)", 19))
    results += actor.do(call % ("AllGather(None, None, c_size_t(11), 7, None, None)", 7))
    check(all(r not in (0, 7) for r in results), f"these calls fail: {results}")
    metrics, pid = daemon.metrics(), str(actor.pid)
    want = {(("op", "all_reduce"),): 19, (("op", "all_gather"),): 7}
    equal(metrics.all("zernel_nccl_calls_total", pid=pid), want, "calls")
    equal(metrics.all("zernel_nccl_errors_total", pid=pid), want, "errors")
    equal(metrics.lost(), {}, "what was lost")


@test_shared
def the_vendors_stub():
    stub = vendor("/usr/local/cuda*/lib*/stubs/libcuda.so")
    daemon, actor = shared_daemon(), Actor(("cuda", stub))
    daemon.attached(stub)
    results = actor.do("answer = [cuda.cuMemAlloc_v2(byref(u64()), c_size_t(4096)) for _ in range(11)]")
    code = results[0]
    check(code not in (0, 2) and results == [code] * 11, f"these calls fail: {results}")
    actor.do(f"launch(cuda, 13, {code})")
    actor.do(f"[ok(cuda.cuCtxSynchronize(), {code}) for _ in range(5)]")
    pid = str(actor.pid)
    wait_until(lambda: daemon.metrics().all("zernel_gpu_alloc_failures_total", pid=pid), "the GPU's name")
    metrics = daemon.metrics()
    equal(metrics.one("zernel_gpu_alloc_failures_total", pid=pid, reason="other"), 11, "failures")
    equal(metrics.one(LAUNCHES, pid=pid, kind="kernel"), 13, "launches")
    equal(metrics.one("zernel_cuda_launch_errors_total", pid=pid), 13, "errors")
    equal(metrics.one("zernel_cuda_sync_seconds_count", pid=pid, call="ctx_synchronize"), 5, "waits")
    equal(metrics.lost(), {}, "what was lost")


# ---- the programs

SYS_BPF, PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD, CODE_MAX = 321, 13, 15, 1 << 16  # x86-64; linux/bpf.h
ADD_PER_CPU = bytes.fromhex("654c030c25")  # add r9, gs:[...]: the address of something of this CPU


def bpf(command, attr):
    got = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF, command, ctypes.create_string_buffer(attr, 128), 128)
    check(got >= 0, f"bpf({command}): {os.strerror(ctypes.get_errno())}")
    return got


def machine_code(number):
    """The name of a BPF program and what the kernel made of it (struct bpf_prog_info)."""
    fd = bpf(PROG_GET_FD_BY_ID, struct.pack("III", number, 0, 0))
    code, info = ctypes.create_string_buffer(CODE_MAX), ctypes.create_string_buffer(128)
    struct.pack_into("<I4xQ", info, 16, CODE_MAX, ctypes.addressof(code))
    bpf(OBJ_GET_INFO_BY_FD, struct.pack("IIQ", fd, len(info), ctypes.addressof(info)))
    os.close(fd)
    return info[64:80].split(b"\0")[0].decode(), code[:struct.unpack_from("<I", info, 16)[0]]


def programs(daemon):
    """Machine code by name, of the programs that the daemon holds."""
    found = {}
    for _, _, said in daemon.descriptors():
        fields = dict(line.split(":", 1) for line in said.splitlines() if ":" in line)
        if "prog_jited" in fields:
            name, code = machine_code(int(fields["prog_id"]))
            found[name] = code
    return found


@test
def programs_keep_to_the_stack_of_their_thread():
    """From 6.13 on, others with as much stack have one per CPU: two threads inside, as preemption has it, would share
    it."""
    if platform.machine() != "x86_64":
        raise Absent("the machine code of others is not known here")
    daemon = Daemon()
    driver = Driver("launches", nccl=NCCL)
    daemon.attached(CUDA, NCCL)
    driver.start()
    wait_until(lambda: "sched_switch" in programs(daemon), "programs on the scheduler")
    code = programs(daemon)
    shared = {name for name in code if ADD_PER_CPU in code[name]}
    for name in ("gpu_mem_call", "cuda_call", "nccl_call"):
        check(code[name] and name not in shared, f"{name} has a stack per CPU")
    major, minor = map(int, platform.release().split(".")[:2])
    equal("process_exit" in shared, (major, minor) >= (6, 13), f"process_exit has one, on {platform.release()}")


if __name__ == "__main__":
    main()
