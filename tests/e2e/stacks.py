#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Stacks of Python: each call is counted under the stack that the program itself notes, line by line, for every CPython
that can be had here; threads without Python, deep stacks, full tables, forks, programs that end at once; profiles as
their readers take them."""
import contextlib
import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
from collections import Counter

from fuse import Fuse
from harness import BUILD, Absent, CUDA, HERE, ROOT, ZERNEL, Daemon, Process, State, application_env, check, equal, \
    folder, main, need, test, test_timed, wait_until

PROGRAM = os.path.join(ROOT, "tests", "fake", "stacks.py")


def pythons():
    """{3.minor: program}, of this machine's own and of those under ~/.pyenv. ZERNEL_PYTHONS: further ones, with
    colons."""
    found = [sys.executable, *glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")),
             *filter(None, os.environ.get("ZERNEL_PYTHONS", "").split(":"))]
    versions = {}
    for program in found:
        said = subprocess.run([program, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True,
            text=True).stdout.split()
        if said and int(said[1]) >= 8:
            versions.setdefault((int(said[1]), program), program)
    return {f"3.{minor} {program}": program for (minor, program) in sorted(versions)}


def containers():
    """{3.minor: root}, of Debian's sid: another root directory, and the interpreter in one static file."""
    to = os.path.join(BUILD, "pythons")
    subprocess.run([os.path.join(ROOT, "tests", "pythons.sh"), to], stderr=subprocess.DEVNULL, timeout=300)
    roots = sorted(glob.glob(os.path.join(to, "3.*[0-9]")))
    for root in roots:
        shutil.copy(PROGRAM, os.path.join(root, "tmp", "stacks.py"))
        shutil.copy(CUDA, os.path.join(root, "tmp", "libcuda.so.1"))
    return {os.path.basename(root): root for root in roots}


class Stacks(Process):
    """The program of tests/fake/stacks.py; it waits until its Python is known."""

    def __init__(self, what, *more, program=sys.executable, root=None, before=(), script=PROGRAM):
        argv = [program, script, CUDA] if not root else ["chroot", root, f"/usr/bin/python{os.path.basename(root)}",
                                                          "/tmp/stacks.py",
                                                          "/tmp/libcuda.so.1"]
        self.library = os.path.join(root, "tmp", "libcuda.so.1") if root else CUDA
        super().__init__([*before, *argv, what, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=application_env(None))
        equal(self.process.stdout.readline(), "ready\n", "what the program says first")

    def known(self, d, programs=1):
        def found():
            self.process.stdin.write("call\n")
            self.process.stdin.flush()
            return [p["pid"] for p in d.json("/stacks")["processes"]].count(self.pid) == programs
        wait_until(found, "Python being found", seen=lambda: d.json("/stacks"))
        wait_until(lambda: d.metrics().library(self.library).get("cuLaunchKernel"), "probes on launches")
        return self

    def begin(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def answer(self):
        return Counter(json.loads(self.process.stdout.readline()))

    def run(self):
        self.begin()
        return self.answer()


def live(*options, expect=()):
    return Daemon("--probes", "gpu,cuda,nccl,sched,stacks", *options, expect=expect)


def folded(d, pid, cause="launch"):
    """{stack: count}, of one cause."""
    sums = Counter()
    for line in d.get(f"/stacks/folded?pid={pid}&cause={cause}").splitlines():
        stack, _, count = line.rpartition(" ")
        stack, _, last = stack.rpartition(";")
        equal(last, f"[{cause}]", "the last frame")
        sums[stack] += int(count)
    return sums


def settled(d, pid, count, cause="launch"):
    wait_until(lambda: sum(folded(d, pid, cause).values()) >= count, f"{count} calls of {pid}",
        seen=lambda: folded(d, pid, cause))
    return folded(d, pid, cause)


@test
def stacks_are_true():
    d = live()
    for name, program in pythons().items():
        p = Stacks("truth", program=program).known(d)
        want = p.run()
        check(len(want) > 30 and sum(want.values()) > 60, f"{name}: stacks of the program: {len(want)}")
        equal(dict(settled(d, p.pid, sum(want.values()))), dict(want), f"stacks under {name}")
        version = next(q["python"] for q in d.json("/stacks")["processes"] if q["pid"] == p.pid)
        equal(version, name.split()[0], "its version")
        p.end()
    equal(d.metrics().lost(), {}, "losses")


@test
def stacks_in_containers():
    """The newest versions, in another root directory."""
    d = live()
    roots = containers()
    if not roots:
        raise Absent("no Python of Debian's sid")
    for version, root in roots.items():
        p = Stacks("truth", root=root).known(d)
        want = p.run()
        equal(dict(settled(d, p.pid, sum(want.values()))), dict(want), f"stacks under {version}")
        equal(next(q["python"] for q in d.json("/stacks")["processes"] if q["pid"] == p.pid), version, "its version")
        p.end()


@test
def stacks_are_cut_where_they_are_deep():
    d = live()
    p = Stacks("deep").known(d)
    want = p.run()
    got = settled(d, p.pid, 3)
    equal(sum(got.values()), 3, "calls")
    for stack in got:
        frames = stack.split(";")
        equal((frames[0], len(frames)), ("(deeper)", 97), "how much of it is kept")
        check(any(w.split(";")[-96:] == frames[1:] for w in want), f"the rest of it: {frames[-3:]}")


@test
def stacks_of_threads_without_python():
    """What a thread of C does is of the line that waits for it, and says so."""
    d = live()
    p = Stacks("helper").known(d)
    want = p.run()
    wait_until(lambda: sum(c["count"] for c in d.json(f"/stacks?pid={p.pid}")["causes"] if c["cause"] == "gpu") == 13,
               "13 waits",
               seen=lambda: d.json(f"/stacks?pid={p.pid}")["causes"])
    stacks = list(folded(d, p.pid, "gpu"))
    equal(stacks, [next(iter(want)) + ";[thread python3]"], "whose they are")
    (line,) = next(c for c in d.json(f"/stacks?pid={p.pid}&cause=gpu")["causes"])["lines"]
    equal((line["function"], line["thread"], line["count"]), ("helper", "[thread python3]", 13), "the line that waits")


@test
def stacks_more_than_there_is_room_for():
    """The calls that found no room are told as such: the sum is whole, and the loss is counted."""
    d = live(expect=(r"quota: stacks of Python functions: \d+ refused",))
    p = Stacks("many").known(d)
    p.run()
    got = settled(d, p.pid, 4096 - 1500)
    wait_until(lambda: sum(folded(d, p.pid).values()) >= 3500, "nearly all calls",
        seen=lambda: sum(folded(d, p.pid).values()))
    got = folded(d, p.pid)
    check(got["(no room)"], "some calls found no room")
    check(set(d.metrics().lost()) == {"stack"}, f"losses: {d.metrics().lost()}")
    check(all(re.fullmatch(r"(<module> \(\S+:\d+\);many \(\S+:\d+\)(;pairs \(\S+:\d+\)){13}|\(no room\))", s)
        for s in got), "frames")
    p.end()
    # what is not in use is given back

    def next_has_room():
        p = Stacks("short").known(d)
        want = p.run()
        got = settled(d, p.pid, sum(want.values()))
        p.end()
        return got == want
    wait_until(next_has_room, "stacks of a next program")


@test
def stacks_are_sampled_within_their_budget():
    d = live()
    p = Stacks("fast").known(d)
    p.run()
    settled(d, p.pid, 180001)
    d.ticked(2)
    got = sum(folded(d, p.pid).values())
    check(abs(got - 200000) < 20000, f"launches by stack, estimated: {got} of 200000")
    check(d.json(f"/stacks?pid={p.pid}&cause=launch")["causes"][0]["estimated"], "it says that they are estimated")


def time_under(sums, *functions):
    """Seconds of the stacks that go through these functions, in this order."""
    pattern = ".*;".join(re.escape(f) + r" \(" for f in functions)
    return sum(ns for stack, ns in sums.items() if re.search(pattern, stack)) / 1e9


def cpu_s(pid):
    """What a process was on CPUs, as the kernel says."""
    return time.clock_gettime(~pid << 3 | 2)


@test_timed
def stacks_of_time_that_no_call_tells():
    """Which line is on the CPU, by a clock of each CPU, and which one sleeps: as the program's clocks say. The sums of
    all sleeps are those of the counters, and the sum of the process's own time on CPUs is the kernel's."""
    d = live()
    p = Stacks("where").known(d)
    before = cpu_s(p.pid)
    want = p.run()
    time.sleep(2.5)
    took = cpu_s(p.pid) - before
    cpu, other, queue = (folded(d, p.pid, cause) for cause in ("cpu", "other", "runqueue"))
    own = {stack: ns for stack, ns in cpu.items() if not stack.startswith("[worker];")}
    got = sum(own.values()) / 1e9
    check(took - 0.15 < got < took + 0.15, f"all on the CPU: {got} of {took}: {own}")
    worker = {stack: ns for stack, ns in cpu.items() if stack.startswith("[worker];<module> ")}
    got = time_under(own, "where", "busy")
    check(0.6 < got < 1.4, f"a second on the CPU: {got}: {cpu}")
    got = time_under(worker, "where", "work_of_a_child", "busy")
    check(0.6 < got < 1.4, f"a second of a worker's: {got}: {cpu}")
    got = time_under(other, "where", "asleep") + sum(
        ns for stack, ns in queue.items() if stack.startswith("<module>")
        and not re.search(r"(busy|launch) \(", stack)) / 1e9
    check(0.95 < got / (want["asleep"] / 1e6) < 1.05,
        f"40 sleeps, and 3000 short ones: {got} of {want['asleep']}: {other} {queue}")
    metrics = d.metrics()
    exact = metrics.one("zernel_offcpu_seconds_total", pid=str(p.pid), state="sleep")
    got = time_under({s: ns for s, ns in other.items() if not s.startswith("[worker];")}, "where",
        "asleep") + time_under(other, "launch")
    check(0.97 < got / exact < 1.03, f"sleeps by stack: {got} of {exact}: {other}")
    causes = {c["cause"]: c for c in d.json(f"/stacks?pid={p.pid}")["causes"]}
    check(causes["cpu"]["estimated"] and causes["cpu"]["counts"] == "samples",
        f"what is said of the clock: {causes['cpu']}")
    equal(metrics.lost(), {}, "losses")


def kernel():
    """(major, minor): from 6.1 on docs/STACKS.md promises a clock."""
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


@contextlib.contextmanager
def paranoid(level):
    path = "/proc/sys/kernel/perf_event_paranoid"
    with open(path) as file:
        before = file.read()
    with open(path, "w") as file:
        file.write(level)
    try:
        yield
    finally:
        with open(path, "w") as file:
            file.write(before)


@test
def stacks_of_many_threads_and_of_the_next_program():
    """A thousand threads at a time; a process that goes on as another program; and a machine that keeps events from
    users: the daemon keeps the right to them, or says that there is no clock."""
    d = live()
    with paranoid("3"):
        p = Stacks("threads").known(d)
        want = p.run()
        said = wait_until(lambda: next((q for q in d.json("/stacks")["processes"] if q["pid"] == p.pid), None),
            "the process")
        equal(dict(settled(d, p.pid, sum(want.values()))), dict(want), "its launch")
        if kernel() < (6, 1):
            check("no_clock" in said, f"it is said that there is no clock: {said}")
        else:
            equal(said.get("no_clock"), None, "there is a clock, which was opened at the start")
            def computed():
                return time_under(folded(d, p.pid, "cpu"), "one", "busy")
            wait_until(lambda: computed() > 1.3, "its time on the CPU", seen=computed)
            d.ticked(2)
            got = computed()
            check(got < 2.9, f"two seconds on the CPU, 2 ms in each of a thousand threads: {got}")
        p.end()
    p = Stacks("again").known(d)
    want = p.run()
    equal(p.process.stdout.readline(), "ready\n", "what the next program says first")
    p.known(d, 2)
    more = p.run()
    got = settled(d, p.pid, sum(want.values()) + sum(more.values()))
    equal(dict(got), dict(want + more), "stacks of both programs")
    equal(d.metrics().lost(), {}, "losses")


@test
def stacks_of_memory_that_is_taken():
    d = live()
    p = Stacks("memory").known(d)
    want = p.run()
    wait_until(lambda: sum(folded(d, p.pid, "alloc").values()) == 5 << 20, "bytes",
        seen=lambda: folded(d, p.pid, "alloc"))
    equal(list(folded(d, p.pid, "alloc")), list(want), "which line took them")


@test
def stacks_of_code_that_is_gone():
    """A function that was thrown away is told by its name, or as gone; the other functions of its stack are told
    rightly."""
    d = live()
    p = Stacks("gone").known(d)
    want = p.run()
    got = settled(d, p.pid, 50)
    equal(sum(got.values()), 50, "calls")
    for stack in got:
        frames = stack.split(";")
        check(re.fullmatch(r"made_\d+ \(<string>:2\)|\(gone\)", frames[2]), f"the made function: {frames[2]}")
        check(any(w.split(";")[:2] + w.split(";")[3:] == frames[:2] + frames[3:] for w in want),
            f"the others: {frames}")


@test
def stacks_of_a_child():
    d = live()
    p = Stacks("child").known(d)
    (pid,) = p.run()
    got = settled(d, int(pid), 1)
    check(all(";short (" in s and "child (" in s for s in got), f"stacks of the child: {got}")
    equal(d.metrics().lost(), {}, "losses")


@test
def stacks_outlive_their_program():
    """A program that ends at once has its names. On a machine that is busy its interpreter may have thrown the
    outermost of them away by the time that they are asked for: that is said, and no other name is told."""
    d = live()
    whole = 0
    for _ in range(10):
        p = Stacks("short", "leave").known(d)
        want = p.run()
        p.end()
        got = settled(d, p.pid, sum(want.values()))
        check(len(got) == len(want) == 1 and sum(got.values()) == sum(want.values()), f"its stacks: {got}, not {want}")
        whole += got == want
        if list(got) == ["(gone)"]:
            continue  # it had ended by then
        for frame, true in zip(next(iter(got)).split(";"), next(iter(want)).split(";"), strict=True):
            check(frame in (true, "(gone)"), f"a function: {frame}, not {true}")
        if whole == 2:
            break
    equal(whole, 2, "programs that have all of their names")


@test
def stacks_of_who_ended_before_anybody_looked():
    """As on a machine that is so busy that the daemon comes to it late: all is counted, and said to be gone."""
    d = live()
    p = Stacks("short", "leave").known(d)
    with d.stopped():
        want = p.run()
        p.end()
    equal(settled(d, p.pid, sum(want.values())), {"(gone)": sum(want.values())}, "its stacks")


@test
def stacks_as_readers_take_them():
    """go tool pprof and the command; what is asked for wrongly is refused."""
    d = live()
    p = Stacks("truth").known(d)
    want = p.run()
    settled(d, p.pid, sum(want.values()))
    url = f"http://127.0.0.1:{d.port}"
    said = subprocess.run([ZERNEL, "flame", str(p.pid), url, "--cause", "launch"], capture_output=True, text=True)
    equal((said.returncode, said.stderr), (0, ""), "zernel flame")
    check(re.search(rf"launches work: [\d.]+ s in {sum(want.values())} calls\n +100 %  stacks.py:\d+ in launch ",
        said.stdout), said.stdout)
    raw = subprocess.run([ZERNEL, "flame", str(p.pid), url, "--folded", "--cause", "launch"], capture_output=True,
        text=True).stdout
    equal(sum(int(s.rpartition(" ")[2]) for s in raw.splitlines()), sum(want.values()), "calls in the folded lines")
    for bad in ("pid=x", "seconds=0", "seconds=99999", "cause=none", "pid=1&pid=2", "other=1", "job=a/b"):
        try:
            d.get(f"/debug/pprof/profile?{bad}")
            check(False, f"{bad} is answered")
        except urllib.error.HTTPError as error:
            equal(error.code, 400, bad)
    need("go")
    at = os.path.join(folder(), "profile.gz")
    with open(at, "wb") as file:
        file.write(subprocess.run([ZERNEL, "flame", str(p.pid), url, "--pprof"], capture_output=True).stdout)
    text = subprocess.run(["go", "tool", "pprof", "-traces", "-lines", "-sample_index=launch_calls", at],
                          capture_output=True, text=True,
                          env={**os.environ, "HOME": folder(), "PPROF_TMPDIR": folder()})
    equal(text.returncode, 0, f"go tool pprof: {text.stderr}")
    traces = Counter()
    for block in re.split(r"^-+\+-+\n", text.stdout, flags=re.M)[1:]:
        lines = [s for s in block.splitlines() if s.strip() and not re.match(r"\s+(pid|comm|job_id):", s)]
        found = re.match(r"\s+(\d+)\s+(.*)", lines[0]) if lines else None
        if found:
            names = [found.group(2).strip(), *(s.strip() for s in lines[1:])]
            traces[";".join(re.sub(r" (\S+:\d+)$", r" (\1)", n) for n in reversed(names))] += int(found.group(1))
    equal({k: v for k, v in traces.items() if v}, dict(want), "stacks as pprof reads them")


@test
def stacks_of_memory_that_blocks():
    """A process holds up whoever reads its memory: its user waits for names, and nobody else."""
    d = live()
    fuse = Fuse({"held": bytes(1 << 21)}, silent=["held"], allow_other=True, hold_s=120)
    p = Stacks("hold", fuse.path("held")).known(d)
    State.cleanup.callback(fuse.release)  # before its end is waited for
    p.run()
    fuse.holds()
    wait_until(lambda: f"process {p.pid} does not let" in d.json("/stacks")["why"], "that process being named",
               seen=lambda: d.json("/stacks"))
    other = Stacks("short", before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")).known(d)
    want = other.run()
    wait_until(lambda: folded(d, other.pid) == want, "the names of another user's", seen=lambda: folded(d, other.pid))
    equal(sum(folded(d, p.pid).values()), 3, f"its own calls: {folded(d, p.pid)}")
    check(all(s == "(not read)" for s in folded(d, p.pid)), f"they have no names: {folded(d, p.pid)}")
    fuse.release()
    p.kill()


@test
def stacks_switched_off():
    d = live("--stacks", "off")
    p = Stacks("short")
    d.attached(CUDA)
    want = sum(p.run().values())
    wait_until(lambda: d.metrics().one("zernel_cuda_launches_total", pid=str(p.pid), kind="kernel") == want,
        f"its {want} launches", seen=lambda: d.metrics().all("zernel_cuda_launches_total", pid=str(p.pid)))
    answer = d.json("/stacks")
    equal(answer["state"], "absent", "state")
    family = next(f for f in d.health()[1]["probes"] if f["family"] == "stacks")
    equal(family["state"], "off", "of the family")


if __name__ == "__main__":
    main()
