# SPDX-License-Identifier: GPL-2.0
"""What the kernel counts of a process that calls a hooked library: exactly where the kernel is exact, and nothing of
any other process. An interpreter makes a few system calls of its own between two looks: those may be 1 % more."""
import os
import re
import time

from harness import (CUDA, Actor, Daemon, check, equal, folder, main, shared_daemon, state_of, test, test_shared,
                     wait_until, with_id)

RANDOM_MAJOR = "1"
OFTEN, SOME = 10007, 101
HELPERS = """
import array, fcntl, os, pty, resource, socket, struct, threading
libc = CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
libc.mmap.restype = c_void_p
def switches():
    rows = [open(f"/proc/self/task/{t}/status").read() for t in os.listdir("/proc/self/task")]
    return [sum(int(r.split(k)[1].split()[0]) for r in rows) for k in ("\\nvoluntary_ctxt_switches:", "nonvoluntary_ctxt_switches:")]
"""


# of the connection c, by the kernel (struct tcp_info, tcpi_total_retrans)
RETRANSMITS = "answer = struct.unpack_from('I', c.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 200), 100)[0]"


def tracked(daemon, make=lambda: Actor(("cuda", CUDA))):
    """An actor whose kernel counters have begun."""
    actor = make()
    daemon.attached(CUDA)
    actor.do("ready(cuda); launch(cuda, 1)")

    def begun():
        actor.do("os.getppid()")
        return daemon.metrics().one("zernel_syscalls_total", pid=str(actor.pid))
    wait_until(begun, "system calls are counted")
    actor.do(HELPERS)
    return actor


def grown(daemon, actor, code, name, **labels):
    before = daemon.metrics().one(name, pid=str(actor.pid), **labels) or 0
    actor.do(code)
    return (daemon.metrics().one(name, pid=str(actor.pid), **labels) or 0) - before


def rests(actor):
    """Waits until it waits for us: it has made its last system call by then."""
    wait_until(lambda: state_of(actor.pid) == "S", f"process {actor.pid} sleeping")


def about(got, want, what):
    check(want <= got <= want * 1.01, f"{what}: {got}, not {want} and at most 1 % more")


@test_shared
def system_calls_and_mappings_are_counted():
    daemon = shared_daemon()
    actor = tracked(daemon)
    about(grown(daemon, actor, f"for _ in range({OFTEN}): libc.syscall(39)", "zernel_syscalls_total"), OFTEN,
        "system calls")
    launches = grown(daemon, actor, f"launch(cuda, {OFTEN})", "zernel_syscalls_total")
    check(launches <= OFTEN // 100,
        f"{launches} system calls in as many launches as {OFTEN}: probes make some that are not the program's")
    code = f"for _ in range({SOME}): libc.munmap(c_void_p(libc.mmap(None, c_size_t(100001), 3, 0x22, -1, c_size_t(0))), c_size_t(100001))"
    equal(grown(daemon, actor, code, "zernel_mmap_calls_total", call="munmap"), SOME, "munmap calls")
    equal(grown(daemon, actor, code, "zernel_mmap_bytes_total", call="munmap"), SOME * 25 * 4096,
        "bytes in whole pages")
    about(grown(daemon, actor, code, "zernel_mmap_calls_total", call="mmap"), SOME, "mmap calls")
    fails = f"for _ in range({SOME}): libc.mmap(None, c_size_t(0), 3, 0x22, -1, c_size_t(0)); libc.munmap(c_void_p(1), c_size_t(4096))"
    equal(grown(daemon, actor, fails, "zernel_mmap_calls_total", call="munmap"), 0, "calls that fail")
    equal(daemon.metrics().lost(), {}, "losses")


MARKS = 16384  # ids of processes are told apart by the rest of this first


@test_shared
def ids_that_are_alike_are_told_apart():
    daemon = shared_daemon()
    one = tracked(daemon)
    alike = one.pid + MARKS if one.pid < MARKS else one.pid - MARKS
    two = tracked(daemon, lambda: with_id(alike, lambda: Actor(("cuda", CUDA))))
    for actor, times in (one, OFTEN), (two, 2 * OFTEN), (one, OFTEN):
        rests(one if actor is two else two)
        before = daemon.metrics().one("zernel_syscalls_total", pid=str(one.pid + two.pid - actor.pid))
        about(grown(daemon, actor, f"for _ in range({times}): libc.syscall(39)", "zernel_syscalls_total"), times,
            "system calls")
        after = daemon.metrics().one("zernel_syscalls_total", pid=str(one.pid + two.pid - actor.pid))
        equal(after, before, "those of the other one, which waits")
    one.end()
    about(grown(daemon, two, f"for _ in range({OFTEN}): libc.syscall(39)", "zernel_syscalls_total"), OFTEN,
        "system calls of the one that is left")


def shown(daemon, actor, kind):
    return daemon.metrics().one("zernel_context_switches_total", pid=str(actor.pid), kind=kind)


@test
def idle_cpus_are_no_thread():
    """Their number is 0, as is that of places that are free, and here they have an id in common with a process that is
    tracked. Who gets the row of one that has ended has nothing of theirs."""
    daemon = Daemon()
    first = tracked(daemon)
    alike = tracked(daemon, lambda: with_id(MARKS, lambda: Actor(("cuda", CUDA))))
    first.end()
    daemon.gone(first.pid)
    time.sleep(2)  # in which CPUs are idle again and again
    last = tracked(daemon)
    last.do("time.sleep(0.1)")
    wait_until(lambda: shown(daemon, last, "voluntary"), "a switch of the one that is last")
    switches = shown(daemon, last, "involuntary") or 0  # none, on a machine with little to do
    with open(f"/proc/{last.pid}/status") as file:
        own = int(re.search(r"^nonvoluntary_ctxt_switches:\s+(\d+)", file.read(), re.M)[1])
    check(switches <= own, f"{switches} switches are said of a process that had {own}")
    check(alike.pid % MARKS == 0, "a process whose id is like that of idle CPUs")


@test
def others_count_nothing():
    daemon = Daemon("--gpu-majors", RANDOM_MAJOR)
    actor, other = tracked(daemon), Actor()
    other.do(HELPERS + f"\nfd = os.open('/dev/random', os.O_RDONLY)\nfor _ in range({SOME}): fcntl.ioctl(fd, "
                       f"0x80045200, b'1234')")
    signal = [n for (n, ls) in daemon.metrics() if dict(ls).get("pid") == str(other.pid)]
    equal(signal, [], "series of a process that calls no hooked library")
    equal(daemon.metrics().one("zernel_gpu_ioctl_busy_seconds_total"), None, "time inside its ioctls")
    actor.do("os.getppid()")


# as drivers have them, whole: of kfd, of DRM, of amdgpu
WAITS = (0xc0184b0c, 0xc018643a, 0xc02064c3, 0xc02864ca, 0xc0106447, 0xc0206449, 0xc0186452)


@test
def ioctls_are_timed_on_gpus_alone():
    daemon = Daemon("--gpu-majors", RANDOM_MAJOR)
    actor = tracked(daemon)
    call = f"for _ in range({SOME}): fcntl.ioctl(fd, 0x80045200, b'1234')"
    actor.do("fd = os.open('/dev/random', os.O_RDONLY)")
    equal(grown(daemon, actor, call, "zernel_gpu_ioctl_seconds_count"), SOME, "ioctls")
    daemon.ticked(2)  # what is counted is in what is shown
    m = daemon.metrics()
    equal(m.one("zernel_gpu_ioctl_seconds_sum"), m.one("zernel_gpu_ioctl_busy_seconds_total"),
        "one process: all of it is busy")
    equal(m.one("zernel_gpu_ioctl_contended_seconds_total"), 0, "and none of it contended")
    for command in WAITS:
        equal(grown(daemon, actor, f"for _ in range({SOME}): libc.ioctl(fd, ctypes.c_ulong({command:#x}), b'1234')",
            "zernel_gpu_ioctl_seconds_count"), 0, f"{command:#x}, whose purpose is to wait")
    actor.do("fd = pty.openpty()[1]")
    equal(grown(daemon, actor, f"for _ in range({SOME}): fcntl.ioctl(fd, 0x5413, b'12345678')",
        "zernel_gpu_ioctl_seconds_count"),
          0, "ioctls on another device")


@test
def two_processes_at_once_are_exact():
    """Each change of how many are inside adds its time to one of two sums: together they are what both were inside."""
    daemon = Daemon("--gpu-majors", RANDOM_MAJOR)
    actors = [tracked(daemon) for _ in range(2)]
    for a in actors:
        a.do("fd = os.open('/dev/random', os.O_RDONLY)")
        a.tell(f"for _ in range({10 * OFTEN}): fcntl.ioctl(fd, 0x80045200, b'1234')")
    for a in actors:
        a.answer("ioctls")
    daemon.ticked(2)  # what is counted is in what is shown
    m = daemon.metrics()
    equal(sum(m.all("zernel_gpu_ioctl_seconds_count").values()), 2 * 10 * OFTEN, "ioctls")
    inside = sum(round(v * 1e9) for v in m.all("zernel_gpu_ioctl_seconds_sum").values())
    busy = round(m.one("zernel_gpu_ioctl_busy_seconds_total") * 1e9)
    contended = round(m.one("zernel_gpu_ioctl_contended_seconds_total") * 1e9)
    equal(busy + contended, inside, "nanoseconds inside")


@test
def one_process_inside_the_time_of_another():
    """A long call and a short one within it: busy is the long one, contended the short one, to the nanosecond."""
    for size in (200, 800, 2000, 2000, 2000):
        daemon = Daemon("--gpu-majors", RANDOM_MAJOR)
        long, short = tracked(daemon), tracked(daemon)
        for actor, mib in ((long, size), (short, 8)):
            actor.do(f"n = {mib} << 20; at = libc.mmap(None, c_size_t(n + 4096), 3, 0x4022, -1, c_size_t(0))")
            actor.do("ctypes.memmove(at, struct.pack('ii', 0, n), 8); fd = os.open('/dev/random', os.O_RDWR)")
        add = "start = time.monotonic(); ok(libc.ioctl(fd, ctypes.c_ulong(0x40085203), c_void_p(at))); answer = start, time.monotonic()"
        mark = f"{folder()}/begun.{size}"
        long.tell(f"open({mark!r}, 'w').close(); {add}")
        wait_until(lambda: os.path.exists(mark), "the long one's beginning")
        time.sleep(0.05)
        inner, outer = short.do(add), long.answer(add)
        if outer[0] < inner[0] and inner[1] < outer[1]:
            break
        daemon.end()
    check(outer[0] < inner[0] and inner[1] < outer[1], f"one is within the other: {outer}, {inner}")
    daemon.ticked(2)  # what is counted is in what is shown
    m = daemon.metrics()
    spent = [m.one("zernel_gpu_ioctl_seconds_sum", pid=str(a.pid)) for a in (long, short)]
    equal([m.one(f"zernel_gpu_ioctl_{k}_seconds_total") for k in ("busy", "contended")], spent, "seconds")


@test_shared
def switches_are_those_of_the_kernel():
    daemon = shared_daemon()
    actor = tracked(daemon)

    def look():
        m = daemon.metrics()
        return [m.one("zernel_context_switches_total", pid=str(actor.pid), kind=k) or 0
            for k in ("voluntary", "involuntary")]
    actor.do("os.sched_setaffinity(0, {0}); a, b = os.pipe(); c, d = os.pipe()")
    actor.do("answer = switches()")
    before = look()
    actor.do(f"""
def echo():
    for _ in range({SOME}): os.write(d, os.read(a, 1))
t = threading.Thread(target=echo); t.start()
for _ in range({SOME}): os.write(b, b'x'); os.read(c, 1)
t.join()
while str(t.native_id) in os.listdir("/proc/self/task"): time.sleep(0.001)
""")
    after = look()
    check(sum(after) - sum(before) >= 2 * SOME, f"{sum(after) - sum(before)} switches of {2 * SOME} at least")
    # a thread that has ended took its own counts with it, so only what is left is held against the kernel's
    def look_between():
        """The kernel's count before, ours, and the kernel's after it, of a process that waits meanwhile."""
        return actor.do("answer = switches()")[0], look()[0], actor.do("answer = switches()")[0]
    first = look_between()
    actor.do("for _ in range(211): time.sleep(0.0001)")
    last = look_between()
    seen, least, most = last[1] - first[1], last[0] - first[2], last[2] - first[0]
    check(211 <= least <= seen <= most, f"{seen} voluntary switches, the kernel says {least} to {most}")


def faults_of(pid):
    """Minor and major page faults of all its threads, those that have ended too, by the kernel's own account."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return [int(fields[7]), int(fields[9])]


@test_shared
def page_faults_are_those_of_the_kernel():
    """While it rests nothing of it is between two looks: pages of its own, of threads that end, and of a file that is
    not in memory."""
    daemon = shared_daemon()
    actor = tracked(daemon)
    path = os.path.join(folder(), "pages")
    actor.do(f"""
import mmap
touch = lambda m: [m.__setitem__(i * 4096, 1) for i in range({SOME})]
pages = mmap.mmap(-1, {SOME} * 4096)
with open({path!r}, 'wb') as file: file.write(bytes({SOME} * 4096)); file.flush(); os.fsync(file.fileno())
""")

    def look():
        rests(actor)
        m = daemon.metrics()
        return [m.one("zernel_page_faults_total", pid=str(actor.pid), kind=k) or 0 for k in ("minor", "major")]
    wait_until(lambda: actor.do("os.getppid()") or sum(look()), "page faults are counted")
    before, kernel = look(), faults_of(actor.pid)
    for code in (f"for _ in range({SOME}): pages.madvise(mmap.MADV_DONTNEED); touch(pages)",
                 f"for _ in range(7): t = threading.Thread(target=lambda: touch(mmap.mmap(-1, {SOME} * 4096))); "
                 "t.start(); t.join()",
                 f"""
fd = os.open({path!r}, os.O_RDONLY); os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
m = mmap.mmap(fd, 0, prot=mmap.PROT_READ); m.madvise(mmap.MADV_RANDOM); sum(m[i * 4096] for i in range({SOME}))"""):
        actor.do(code)
        equal([a - b for a, b in zip(look(), before)], [a - b for a, b in zip(faults_of(actor.pid), kernel)], code)
    minor, major = (a - b for a, b in zip(look(), before))
    check(minor >= SOME * SOME + 7 * SOME, f"minor: {minor}")
    check(major > 0, "pages that were read from the file")
    sched = next(p for p in daemon.json()["processes"] if p["pid"] == actor.pid)["signals"]["sched"]
    equal([sched["minor_faults"], sched["major_faults"]], look(), "in JSON")


@test_shared
def migrations_are_exact():
    """One thread that is sent to and fro between two CPUs moves each time, and at no other."""
    daemon = shared_daemon()
    actor = tracked(daemon)
    equal(actor.do("answer = len(os.listdir('/proc/self/task'))"), 1, "threads")
    actor.do("first, other = sorted(os.sched_getaffinity(0))[:2]; os.sched_setaffinity(0, {first})")
    move = "os.sched_setaffinity(0, {other}); os.sched_setaffinity(0, {first})"
    wait_until(lambda: actor.do(move) or daemon.metrics().one("zernel_thread_migrations_total", pid=str(actor.pid),
        scope="cpu"),
               "migrations are counted")
    move = f"for _ in range({OFTEN}): {move}"
    equal(grown(daemon, actor, move, "zernel_thread_migrations_total", scope="cpu"), 2 * OFTEN, "migrations")
    equal(grown(daemon, actor, f"for _ in range({OFTEN}): os.sched_setaffinity(0, {{first}})",
                "zernel_thread_migrations_total", scope="cpu"), 0, "migrations of a thread that stays")


@test_shared
def tcp_bytes_are_counted_exactly():
    daemon = shared_daemon()
    actor, other = tracked(daemon), Actor()
    connect = "s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); t = s.accept()[0]"
    send = f"for _ in range({SOME}): c.sendall(b'x' * 1009); t.recv(4096, socket.MSG_PEEK); t.recv(4096)"
    other.do(HELPERS + "\n" + connect + "\n" + send)
    actor.do(connect)
    equal(grown(daemon, actor, send, "zernel_tcp_sent_bytes_total"), SOME * 1009, "sent bytes")
    pid = str(actor.pid)
    m = daemon.metrics()
    equal(m.one("zernel_tcp_received_bytes_total", pid=pid), SOME * 1009,
        "received bytes, without those only looked at")
    equal(m.one("zernel_tcp_sendmsg_seconds_count", pid=pid), SOME, "sends")
    equal(m.one("zernel_tcp_retransmits_total", pid=pid) or 0, actor.do(RETRANSMITS),
        "what the kernel sent again: nothing, as a rule")
    equal(m.all("zernel_tcp_sent_bytes_total", pid=str(other.pid)), {}, "of another process")
    actor.do("u = socket.socketpair()")
    equal(grown(daemon, actor, "u[0].sendall(bytes(1009))", "zernel_tcp_sent_bytes_total"),
          0, "bytes over a Unix socket")


@test_shared
def retransmissions_are_the_senders():
    """A filter at the receiver drops everything, so that the sender tries again until it is taken away."""
    daemon = shared_daemon()
    actor = tracked(daemon)
    actor.do("""
s = socket.create_server(('127.0.0.1', 0)); c = socket.create_connection(s.getsockname()); t = s.accept()[0]
drop = struct.pack('HBBI', 6, 0, 0, 0); keep = ctypes.create_string_buffer(drop)
t.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HL', 1, ctypes.addressof(keep)))
c.sendall(b'x' * 1009)
""")
    wait_until(lambda: actor.do(RETRANSMITS) >= 3, "three retransmissions")
    actor.do("t.setsockopt(socket.SOL_SOCKET, 27, 0); got = t.recv(4096)")

    def looks():
        """The kernel's count before and after, and ours in between: it may send again at any time until the answer has
        come."""
        before, ours = actor.do(RETRANSMITS), daemon.metrics().one("zernel_tcp_retransmits_total", pid=str(actor.pid))
        return before, ours, actor.do(RETRANSMITS)
    before, ours, after = wait_until(lambda: (lambda seen: seen if seen[0] == seen[2] else None)(looks()),
        "a moment without any")
    equal(ours, before, "retransmissions")


@test
def a_bad_list_of_devices_is_refused():
    from harness import ZERNELD, run
    for bad in ("0", "512", "195,", "nvidia"):
        got = run([ZERNELD, "--gpu-majors", bad])
        equal(got.returncode, 2, "exit status")
        check("--gpu-majors" in got.stderr and got.stderr.count("\n") == 1, f"one line that names it: {got.stderr!r}")


if __name__ == "__main__":
    main()
