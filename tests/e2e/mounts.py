#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Which mount I/O is shown on, and that dd's and fio's own figures are those that are shown. Mounts are made for the
test and nobody else writes to them, so each byte is known."""
import contextlib
import ctypes
import json
import os
import re
import subprocess
import sys

from control_socket import told
from harness import NOBODY, Absent, Daemon, Process, check, equal, folder, main, parse_json, run, test, \
    wait_until, with_id

MIB = 1 << 20
libc = ctypes.CDLL(None, use_errno=True)
WARNINGS = [r"warning: probe: (vfs|meta): "]


def sh(*argv, **more):
    return run([str(a) for a in argv], check=True, **more)


@contextlib.contextmanager
def mounted(*argv):
    """A mount made by these arguments; its point is the last one, and is made too."""
    point = str(argv[-1])
    os.makedirs(point, exist_ok=True)
    try:
        sh("mount", *argv)
    except subprocess.CalledProcessError as error:
        raise Absent(f"mount: {error.stderr.strip()}") from error
    try:
        yield point
    finally:
        run(["umount", "-l", point])


def tmpfs(point):
    return mounted("-t", "tmpfs", "-o", "size=64m", "zernel-test", point)


class Files(Daemon):
    """A daemon of which only file I/O is looked at."""

    def __init__(self, *options):
        super().__init__("--probes", "vfs,meta", *options, expect=WARNINGS)
        self.expect = ()
        family = next(p for p in self.json()["probes"] if p["family"] == "vfs")
        if "tier" not in family:
            raise Absent(f"file I/O: {family['why']}")
        self.tier, self.why = family["tier"], family["why"]

    def bytes(self, what, point, fstype="tmpfs", job=""):
        """None: there is no such series."""
        return self.metrics().one(f"zernel_io_{what}_bytes_total", job_id=job, mount=point, fstype=fstype)

    def expects(self, what, point, count, fstype="tmpfs"):
        wait_until(lambda: self.bytes(what, point, fstype) == count, f"{count} bytes of {what} on {point}",
                   seen=lambda: self.bytes(what, point, fstype))

    def shows(self, what, point, count):
        """The same, where many lists of mounts are read before its name is found."""
        wait_until(lambda: self.bytes(what, point) == count, f"{count} bytes of {what} on {point}",
                   seen=lambda: self.metrics().all(f"zernel_io_{what}_bytes_total"))


def dd(path, count, *more, source="/dev/zero"):
    """Writes count blocks of 1 MiB, or what else is said; dd's own count is what counts."""
    sh("dd", f"if={source}", f"of={path}", "bs=1M", f"count={count}", "status=none", *more)


@test
def each_kind_of_mount():
    root, daemon = folder(), Files()
    with tmpfs(f"{root}/one/data") as one, tmpfs(f"{root}/two/data") as two:
        dd(f"{one}/f", 3)
        dd(f"{two}/f", 5)
        with mounted("--bind", one, f"{root}/b") as bind:
            dd(f"{bind}/g", 2)  # the same file system: the name that it has stays
            daemon.expects("write", one, 5 * MIB)
            daemon.expects("write", two, 5 * MIB)
            equal(daemon.bytes("write", bind), None, "of a bind mount")
        for part in ("lower", "upper", "work"):
            os.mkdir(f"{one}/{part}")
        overlay = f"lowerdir={one}/lower,upperdir={one}/upper,workdir={one}/work"
        with mounted("-t", "overlay", "-o", overlay, "overlay", f"{root}/over") as over:
            dd(f"{over}/f", 7)
            daemon.expects("write", over, 7 * MIB, "overlay")
            daemon.expects("write", one, 5 * MIB)
        daemon.expects("write", over, 7 * MIB, "overlay")  # it is gone, its figures stay


def operations(daemon, *points):
    """How many of each kind there were on these mounts."""
    found = {}
    for labels, count in daemon.metrics().all("zernel_io_requests_total", job_id="").items():
        labels = dict(labels)
        if labels["mount"] in points:
            found[labels["op"]] = found.get(labels["op"], 0) + count
    return found


@test
def a_file_that_overlay_copies_when_it_is_opened():
    """It makes the file above the other one, syncs it and renames it: all that is the one open()."""
    root, daemon = folder(), Files()
    with tmpfs(f"{root}/data") as data:
        for part in ("lower", "lower/in", "upper", "work"):
            os.mkdir(f"{data}/{part}")
        dd(f"{data}/lower/in/f", 3)
        options = f"lowerdir={data}/lower,upperdir={data}/upper,workdir={data}/work"
        with mounted("-t", "overlay", "-o", options, "overlay", f"{root}/over") as over:
            before = operations(daemon, data, over)
            os.close(os.open(f"{over}/in/f", os.O_WRONLY))
            after = operations(daemon, data, over)
    equal({op: n - before.get(op, 0) for op, n in after.items() if n != before.get(op, 0)}, {"open": 1}, "operations")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test
def a_mount_on_a_mount():
    root, daemon = folder(), Files()
    with tmpfs(f"{root}/data") as below:
        dd(f"{below}/f", 3)
        with tmpfs(below):
            dd(f"{below}/f", 4)
            daemon.expects("write", below, 7 * MIB)  # one series: the labels are the same
        dd(f"{below}/g", 1)
        daemon.expects("write", below, 8 * MIB)


@test
def a_number_that_is_used_again():
    """The daemon hears of each change; one that it has not heard of yet when the next one comes is not told from it."""
    root, daemon = folder(), Files()
    names = [f"{root}/m{i}" for i in range(5)]
    for i, name in enumerate(names):
        with tmpfs(name) as point:
            dd(f"{point}/f", i + 1)
            daemon.expects("write", name, (i + 1) * MIB)
        daemon.ticked(1)
    for i, name in enumerate(names):
        daemon.expects("write", name, (i + 1) * MIB)


class Hoard(Process):
    """Mounts as many tmpfs as it is told to, in a namespace of its own, and does each kind of operation on each."""

    SCRIPT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
print("ready", flush=True)
count = int(sys.stdin.readline())
def use(point):
    f = os.open(point + "/f", os.O_RDWR | os.O_CREAT, 0o600)
    os.write(f, b"x" * 10)
    os.pread(f, 5, 0)
    os.fsync(f)
    os.fstat(f)
    os.close(os.open(point + "/f", os.O_RDONLY))
    os.close(f)
points = [f"/tmp/m{i}" for i in range(count)]
for point in ["/tmp"] + points:
    os.path.isdir(point) or os.mkdir(point)
    if libc.mount(b"none", point.encode(), b"tmpfs", 0, None):
        raise OSError(ctypes.get_errno(), "mount")
    use(point)
print("done", flush=True)
for line in sys.stdin:  # and once more, for what was refused then
    for point in points:
        use(point)
    print("done", flush=True)
"""

    def __init__(self, uid):
        super().__init__(["unshare", "-rm", "/usr/bin/python3", "-c", self.SCRIPT], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, user=uid, cwd="/")
        if self.process.stdout.readline() != "ready\n":
            self.wanted = None
            raise Absent("users cannot make namespaces here")

    def say(self, line):
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "done\n", "what the hoarder says")


REFUSED = [r"quota: series of file I/O: \d+ refused, the last one to user 65534, ",
           r"quota: mounts: \d+ refused, the last one to user 65534, ", "alert events_lost.* fires"]


def said(daemon):
    """Waits until the daemon has said all that is expected of it."""
    wait_until(lambda: all(any(re.search(p, s) for s in daemon.lines()) for p in daemon.expect), "the daemon's lines")


def write_as(uid, path, count):
    sh("/usr/bin/python3", "-c", f"open({path!r}, 'wb').write(bytes({count}))", user=uid)


@test
def mounts_of_one_user_leave_room_for_others():
    root, daemon = folder(), Files()
    daemon.expect = REFUSED
    hoards = [Hoard(NOBODY) for _ in range(3)]
    for hoard in hoards:  # 1,500 mounts with six operations: more than there are series
        hoard.say(500)
    wait_until(lambda: "io" in daemon.metrics().lost(), "some of it is lost")
    with tmpfs(f"{root}/new") as point:
        os.chmod(point, 0o777)
        write_as(1000, f"{point}/f", 1000000)
        daemon.shows("write", point, 1000000)
        write_as(1001, f"{point}/g", 7)
        daemon.shows("write", point, 1000007)
    daemon.ticked(2)  # the next one may have its number
    with tmpfs(f"{root}/system") as point:
        dd(f"{point}/f", 3)
        daemon.shows("write", point, 3 * MIB)
    used = daemon.metrics().one("zernel_table_entries", table="io_series")
    limit = daemon.metrics().one("zernel_table_limit", table="io_series")
    check(limit / 3 < used < 0.6 * limit,
        f"{used} of {limit} series are in use: half of them at most are the hoarder's")
    hoards[0].say("again")  # more than at the first tick
    said(daemon)


class Jobs(Files):
    """The same with jobs."""

    def __init__(self):
        self.control = f"{folder()}/control.sock"
        super().__init__("--control", self.control, "--report-dir", f"{folder()}/reports")

    def job(self, *arguments):
        return told(self.control, *arguments)

    def report_of(self, job):
        """It ends; what was written of it."""
        path = f"{folder()}/reports/{job}.json"
        self.job("end", job)
        wait_until(lambda: os.path.exists(path), f"the report of job {job}")
        with open(path) as f:
            return parse_json(f.read())


@test
def a_hundred_jobs_on_five_mounts():
    root, daemon = folder(), Jobs()
    writer = Writer()
    with contextlib.ExitStack() as mounts:
        points = [mounts.enter_context(tmpfs(f"{root}/m{i}")) for i in range(5)]
        for job in range(1, 101):
            daemon.job("start", f"{job}", "--pid", str(writer.pid))
            for point in points:
                writer.kilobyte(f"{point}/{job}")
        metrics = daemon.metrics()
        for job in range(1, 101):
            for point in points:
                got = metrics.one("zernel_io_write_bytes_total", job_id=str(job), mount=point)
                equal(got, 1000, f"bytes of job {job} on {point}")
        equal(metrics.lost(), {}, "what was lost")


@test
def a_job_beyond_its_share_says_so():
    root, daemon = folder(), Jobs()
    daemon.expect = [r"quota: series of file I/O: \d+ refused, the last one to (the job in slot|job )", *REFUSED[1:]]
    hoard, writer = Hoard(NOBODY), Writer()
    daemon.job("start", "1", "--pid", str(hoard.pid))
    daemon.job("start", "2", "--pid", str(writer.pid))
    hoard.say(1000)
    with tmpfs(f"{root}/data") as point:
        writer.kilobyte(f"{point}/f")
        hoard.say("again")
        reports = [daemon.report_of(job) for job in ("1", "2")]
    check({"read", "write"} <= set(reports[0]["io_lost"]), f"lost: {reports[0]['io_lost']}")
    check(any("its share" in gap["why"] for gap in reports[0]["not_measured"]), f"why: {reports[0]['not_measured']}")
    check(" read=- written=- " in daemon.job("report", "1", "--line"), "no sum of what is not whole")
    whole = [m for m in reports[0]["io"] if m["mount"].startswith("/tmp/m") and m["write_bytes"] is not None]
    check(whole and all(m["write_bytes"] == 20 for m in whole), f"mounts that are whole: {whole[:5]}")
    equal(reports[1]["io_lost"], [], "what the other job lost")
    equal([m["write_bytes"] for m in reports[1]["io"] if m["mount"] == point], [1000], "what the other job wrote")
    said(daemon)


class Blocked(Process):
    """As many threads of a user as are asked for, each in an open() of a FIFO that does not return."""

    SCRIPT = """
import os, sys, threading, time
path, count = sys.argv[1], int(sys.argv[2])
threading.stack_size(65536)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(count):
    threading.Thread(target=os.open, args=(path, os.O_RDONLY), daemon=True).start()
def waits(tid):  # in openat(), and not for its turn to run
    with open(f"/proc/self/task/{tid}/syscall") as f:
        return f.read().startswith({"x86_64": "257 ", "aarch64": "56 "}[os.uname().machine])
while sum(map(waits, os.listdir("/proc/self/task"))) < count:
    time.sleep(0.1)
print("done", flush=True)
sys.stdin.read()
os._exit(0)
"""

    def __init__(self, uid, fifo, count):
        super().__init__(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", sys.executable, "-c",
            self.SCRIPT,
                          fifo, str(count)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        equal(self.process.stdout.readline(), "ready\n", "what it says first")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "done\n", "what it says then")


SEVERAL = """
import os, sys
point = sys.argv[1]
for n in range(37):
    if os.fork() == 0:
        fd = os.open(f"{point}/{n}", os.O_RDWR | os.O_CREAT)
        for _ in range(53):
            os.pwrite(fd, b"seven b", 0)
            os.pread(fd, 5, 0)
        os._exit(0)
for _ in range(37):
    os.wait()
print("done", flush=True)
sys.stdin.read()
"""


@test
def operations_that_do_not_return_leave_others_theirs():
    """A user has more of them than can be followed. He loses some of his own, and only he; the report of his job says
    so."""
    root, daemon = folder(), Jobs()
    daemon.expect = [r"quota: file operations under way: \d+ refused, the last one to user 65534, who holds [1-9]\d* "
                     r"of 8192",
                     REFUSED[-1]]
    os.mkfifo(f"{root}/fifo")
    os.chmod(f"{root}/fifo", 0o666)
    blocked = Blocked(NOBODY, f"{root}/fifo", 9001)
    daemon.job("start", "1", "--pid", str(blocked.pid))
    blocked.go()
    with tmpfs(f"{root}/data") as point:
        os.chmod(point, 0o777)
        other = Process(["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "sh", "-c",
            'read x; exec "$@"', "-",
                         sys.executable, "-c", SEVERAL, point], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        daemon.job("start", "2", "--pid", str(other.pid))
        other.process.stdin.write("\n")
        other.process.stdin.flush()
        equal(other.process.stdout.readline(), "done\n", "what the other user says")
        metrics, reports = daemon.metrics(), [daemon.report_of(job) for job in ("1", "2")]
        did = {op: metrics.one("zernel_io_requests_total", job_id="2", mount=point, op=op)
            for op in ("write", "read", "create")}
        equal(did, {"write": 37 * 53, "read": 37 * 53, "create": 37}, "what the other user did")
        equal(daemon.bytes("write", point, job="2"), 7 * 37 * 53, "bytes that he wrote")
    check(metrics.lost()["operation"] > 0, "what was lost")
    equal(reports[1]["io_lost"], [], "what his job lost")
    equal(reports[0]["io_lost"], ["open", "create"], "what the crowd's job lost")
    check(any("under way" in gap["why"] for gap in reports[0]["not_measured"]), f"why: {reports[0]['not_measured']}")
    said(daemon)
    blocked.end()


class Writer(Process):
    """Writes from one thread all its life, and opens each file anew; and once each other operation."""

    SCRIPT = """
import os, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # what is remembered is by groups of CPUs
for line in sys.stdin:
    f = os.open(line[:-1], os.O_RDWR | os.O_CREAT, 0o600)
    for _ in range(100):
        os.write(f, b"x" * 10)
    os.pread(f, 5, 0)
    os.fsync(f)
    os.fstat(f)
    os.close(f)
    os.close(os.open(line[:-1], os.O_RDONLY))
    print("done", flush=True)
"""

    def __init__(self):
        super().__init__(["/usr/bin/python3", "-c", self.SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def kilobyte(self, path):
        self.process.stdin.write(path + "\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "done\n", "the writer's answer")


@test
def a_thread_that_stays_while_mounts_change():
    root, daemon, writer = folder(), Files(), Writer()
    names = [f"{root}/m{i}" for i in range(5)]
    for i, name in enumerate(names):
        with tmpfs(name) as point:  # the same device number each time
            for _ in range(i + 1):
                writer.kilobyte(f"{point}/f")
            daemon.shows("write", name, (i + 1) * 1000)  # before the next one comes, it has heard of this one
    for i, name in enumerate(names):
        daemon.expects("write", name, (i + 1) * 1000)


@test
def a_thread_whose_job_changes():
    root = folder()
    control = f"{root}/control.sock"
    daemon, writer = Files("--control", control, "--report-dir", f"{root}/reports"), Writer()

    def job(*arguments):
        return told(control, *arguments)

    def of_jobs(point):
        return [daemon.bytes("write", point, job=name) for name in ("", "one", "two")]

    with tmpfs(f"{root}/data") as point:
        path = f"{point}/f"
        writer.kilobyte(path)
        for name in ("one", "two"):
            job("start", name, "--pid", str(writer.pid))
            writer.kilobyte(path)
            writer.kilobyte(path)
        equal(of_jobs(point), [1000, 2000, 2000], "bytes of no job, one and two")
        writer.end()
        next_one = with_id(writer.pid, Writer)  # of no job, in the thread id of one that was
        next_one.kilobyte(path)
        equal(of_jobs(point), [2000, 2000, 2000], "bytes after the id went to another process")


@test
def a_name_with_every_kind_of_byte():
    root, daemon = folder(), Files()
    with tmpfs(f"{root}/a b\t\\ \"#\n") as point:
        dd(f"{point}/f", 1)
        daemon.expects("write", point, MIB)


@test
def what_only_a_process_sees():
    root, daemon = folder(), Files()
    point = f"{root}/own"
    os.mkdir(point)
    script = f"mount -t tmpfs none {point} && dd if=/dev/zero of={point}/f bs=1M count=3 status=none && sleep 2 && " \
             f"dd if=/dev/zero of={point}/g bs=1M count=4 status=none; read x || :"
    shell = Process(["unshare", "-m", "sh", "-c", script], stdin=subprocess.PIPE)
    wait_until(lambda: daemon.bytes("write", point) == 7 * MIB, f"7 MiB on {point}",
        seen=lambda: daemon.bytes("write", point))
    shell.process.stdin.close()


@test
def what_only_processes_see_that_are_gone():
    """Whoever used the mount first has ended before the daemon looks: the shell that began it tells, or their
    container's init."""
    root, daemon, shells = folder(), Files(), []
    cases = {"parent": (["unshare", "-m", "sh"], "{}"), "init": (["unshare", "-m", "-p", "--fork", "sh"], "({}; :)")}
    for name, (begin, how) in cases.items():
        point = f"{root}/{name}"
        os.mkdir(point)
        writes = how.format(f"dd if=/dev/zero of={point}/f bs=1M count=3 status=none")
        script = f"mount -t tmpfs none {point}; read go; {writes}; echo done; read go"
        shell = Process([*begin, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        with daemon.stopped():
            shell.process.stdin.write("\n")
            shell.process.stdin.flush()
            equal(shell.process.stdout.readline(), "done\n", "what the shell says")
        wait_until(lambda: daemon.bytes("write", point) == 3 * MIB, f"3 MiB on {point}")
        shells.append(shell)  # it keeps its mount, and so the device's number
    for shell in shells:
        shell.process.stdin.write("\n")
        shell.end()


@test
def dd_in_small_and_large_blocks():
    root, daemon = folder(), Files()
    with tmpfs(f"{root}/dd") as point:
        dd(f"{point}/a", 11)
        dd(f"{point}/b", 5, "conv=fsync")
        sh("dd", "if=/dev/zero", f"of={point}/c", "bs=7", "count=10007", "status=none")
        daemon.expects("write", point, 16 * MIB + 7 * 10007)
        calls = daemon.metrics().one("zernel_io_requests_total", mount=point, op="write")
        equal(calls, 16 + 10007, "writes")
        equal(daemon.metrics().one("zernel_io_latency_seconds_count", mount=point, op="write"), calls, "durations")
        equal(daemon.metrics().one("zernel_io_requests_total", mount=point, op="fsync"), 1, "fsync")
        if run(["dd", "if=/dev/zero", f"of={point}/d", "bs=1M", "count=3", "oflag=direct",
                "status=none"]).returncode == 0:
            daemon.expects("write", point, 19 * MIB + 7 * 10007)
        sh("dd", f"if={point}/a", "of=/dev/null", "bs=1M", "status=none")
        daemon.expects("read", point, 11 * MIB)


FIO = {"psync": [], "pvsync2": [], "io_uring": ["--iodepth=8"], "splice": [], "mmap": [], "libaio": ["--iodepth=8"]}


def fio(engine, point, way):
    """fio's own count of bytes; None: it does not have this engine here."""
    out = f"{point}.{engine}.{way}.json"
    done = run(["fio", f"--name={engine}", f"--ioengine={engine}", f"--rw={way}", f"--directory={point}", "--size=13M",
                "--bs=32k", "--allow_file_create=1", "--fallocate=none", "--invalidate=0", "--output-format=json",
                f"--output={out}", *FIO[engine]])
    if done.returncode:
        return None
    with open(out) as f:
        text = f.read()
    return json.loads(text[text.index("{"):])["jobs"][0][way]["io_bytes"]


@test
def operations_that_fail_are_errors():
    """Writes to a file system that is full, and a read to nowhere: they are requests too, and move nothing."""
    root, daemon = folder(), Files()
    with mounted("-t", "tmpfs", "-o", "size=1m", "zernel-test", f"{root}/full") as point:
        fd = os.open(f"{point}/a", os.O_RDWR | os.O_CREAT)
        equal(os.write(fd, b"x" * MIB), MIB, "what there is room for")
        for _ in range(3):
            with contextlib.suppress(OSError):
                check(not os.write(fd, b"x" * 4096), "there is room for more")
        equal(libc.pread(fd, ctypes.c_void_p(8), 4096, ctypes.c_long(0)), -1, "a read to an address that is none")
        os.close(fd)
        labels = {"job_id": "", "mount": point, "fstype": "tmpfs"}
        wait_until(lambda: daemon.metrics().one("zernel_io_errors_total", op="write", **labels) == 3, "errors",
                   seen=lambda: daemon.metrics().all("zernel_io_errors_total"))
        metrics = daemon.metrics()
        for op, requests, errors, moved in (("write", 4, 3, MIB), ("read", 1, 1, 0)):
            equal(metrics.one("zernel_io_errors_total", op=op, **labels), errors, f"errors of {op}")
            equal(metrics.one("zernel_io_requests_total", op=op, **labels), requests, f"requests of {op}")
            equal(daemon.bytes(op, point) or 0, moved, f"bytes of {op}")


def fio_case(engine):
    root, daemon = folder(), Files()
    with tmpfs(f"{root}/{engine}") as point:
        wrote = fio(engine, point, "write")
        if wrote is None:
            raise Absent(f"fio has no {engine} here")
        if engine == "libaio" and daemon.tier == "tracepoint":
            check("libaio is not counted" in daemon.why, f"nothing is said of libaio: {daemon.why}")
            equal(daemon.bytes("write", point) or 0, 0, "bytes of what is said not to be counted")
            return
        if engine == "mmap":  # what is read through a mapping is no read
            with open(f"{point}/read", "wb") as file:
                file.write(b"x" * 5)
            with open(f"{point}/read", "rb") as file:
                file.read()
            before = daemon.bytes("read", point)
            check(before, "what is read by calls is counted there")
            check(fio(engine, point, "read") == 13 * MIB, "fio read nothing")
            equal(daemon.bytes("read", point), before, "bytes of loads from a mapping")
            return
        seen = daemon.bytes("write", point) or 0
        check(abs(seen - wrote) <= wrote / 1000, f"{engine}: {seen:.0f} bytes seen, {wrote} written")
        before = daemon.bytes("read", point) or 0  # fio lays files out, and looks at them
        read = fio(engine, point, "read")
        seen = (daemon.bytes("read", point) or 0) - before
        check(abs(seen - read) <= read / 1000, f"{engine}: {seen:.0f} bytes seen, {read} read")


@test
def fio_by_one_call_at_a_time():
    fio_case("psync")
    fio_case("pvsync2")


@test
def fio_by_io_uring():
    fio_case("io_uring")


@test
def fio_by_splice():
    fio_case("splice")


@test
def fio_by_mappings():
    fio_case("mmap")


@test
def fio_by_libaio():
    fio_case("libaio")


if __name__ == "__main__":
    main()
