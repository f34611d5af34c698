# SPDX-License-Identifier: GPL-2.0
"""What a call costs that is hooked: of a library, of the kernel; recording; how far durations are off."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from common import BUILD, Daemon, EMULATED, SETTLE_S, STEPPED, SYSTEM_PATH, Tool, median, spread

# ---- the cost of a call ----

LAUNCH_ROUNDS = 9
CALLS = {"none": 200000, "empty": 5000, "least": 5000, "ours": 5000, "all": 5000}
ATTACHED = ("empty", "least")  # programs that are put at the same places as ours; the objects of these names
HOOKS = "gpu_mem,cuda_trace,nccl"  # the families that stand on functions of libraries
REAL, REAL_NAME = f"{BUILD}/real/cuda-550/libcuda.so.1", "real libcuda 550"
THUNK, THUNK_NAME = f"{BUILD}/test/entry/thunk/libcuda.so.1", "fake libcuda that begins as drivers 525 to 550"
REAL_LIMIT_NS = 1500


class Target:
    """One libcuda, the functions of it that are timed, and the programs that call it and that put empty programs on it."""

    def __init__(self, name, path, functions):
        self.name, self.path, self.functions = name, path, functions
        self.tool = Tool("launch", path)
        self.others = {kind: Tool("attach_empty", f"{BUILD}/bench/{kind}.bpf.o", path, *functions) for kind in ATTACHED}
        self.places = {f: self.tool.ask(f"place {f}").split() for f in functions}
        self.times, self.told = {}, []

    def stepped(self, function):
        return self.places[function][1] not in ("push", "branch", "nop")

    def wait(self, there):
        self.tool.ask(f"wait {self.functions[0]} {there}")

    def blocks(self, kind):
        for function in self.functions:
            for threads in (1, 4):
                calls = CALLS[kind] * (1 if self.stepped(function) or kind == "none" else 8)
                ns = float(self.tool.ask(f"time {function} {threads} {calls}"))
                self.times.setdefault((function, threads, kind), []).append(ns)

    def without_us(self):
        self.wait(0)
        self.blocks("none")
        for kind, programs in self.others.items():
            programs.ask("+")
            self.wait(1)
            self.blocks(kind)
            programs.ask("-")
            self.wait(0)

    def what(self, function, threads):
        at, kind = self.places[function]
        how = "single-stepped" if self.stepped(function) else "emulated"
        return f"`{function}` of the {self.name}, +{at}, {kind}: {how}, {threads} thread{'s' if threads > 1 else ''}"

    def close(self):
        for tool in (self.tool, *self.others.values()):
            tool.__exit__()


def launch_targets(run):
    """The fake one, one function of which begins with no push, and what real drivers begin with."""
    subprocess.run(["tests/real/files.sh", f"{BUILD}/real"], check=False)
    name, path = (REAL_NAME, REAL) if os.path.exists(REAL) else (THUNK_NAME, THUNK)
    return [Target("fake libcuda", run.cuda, (STEPPED, EMULATED)),
            Target(name, shutil.copy(path, os.path.join(run.folder, "libcuda.so.2")), (EMULATED, STEPPED))]


def launch_round(targets):
    for target in targets:
        target.without_us()
    for kind, options in (("ours", ("--probes", HOOKS)), ("all", ())):
        with Daemon(None, *options) as daemon:
            for target in targets:
                target.wait(1)
                time.sleep(SETTLE_S)  # the breakpoint is there before the programs of both ends are
                target.blocks(kind)
                if kind == "ours":
                    labels = [f'pid="{target.tool.process.pid}"', 'quantile="0.5"']
                    target.told.append(daemon.sample("zernel_cuda_launch_latency_seconds", labels) * 1e9)
        for target in targets:
            target.wait(0)


def launch_rows(run, target, function, threads):
    none, empty, least, ours, every = (target.times[function, threads, kind] for kind in CALLS)
    floor, ratio, whole = ([(o - n) / (e - n) for n, e, o in zip(none, empty, with_)] for with_ in (least, ours, every))
    what = target.what(function, threads)
    run.row(f"call without probes ({what})", f"{median(none):.1f} ns", spread(none))
    run.row(f"call with empty programs ({what})", f"{median(empty):,.0f} ns", spread(empty, "{:,.0f}"))
    limit = REAL_LIMIT_NS if (target.name, function, threads) == (REAL_NAME, EMULATED, 1) else None
    run.row(f"call with ours ({what})", f"{median(ours):,.0f} ns", spread(ours, "{:,.0f}"), f"{limit:,} ns" if limit else "",
            median(ours) <= limit if limit else None)
    run.row(f"**added by ours / added by empty** ({what})", f"{median(ratio):.3f}", spread(ratio, "{:.2f}"), "1.15",
            median(ratio) <= 1.15)
    run.row(f"the same of the least that times and counts ({what})", f"{median(floor):.3f}", spread(floor, "{:.2f}"))
    run.row(f"the same, with all families ({what})", f"{median(whole):.3f}", spread(whole, "{:.2f}"))


BPFTRACE = shutil.which("bpftrace", path=SYSTEM_PATH)
BPFTRACE_ROUNDS = 5


def bpftrace_time(target, take):
    """ns of a call, and what bpftrace says of it, while it times the function in the way that its manual shows."""
    at = f"{target.path}:{EMULATED}"
    script = (f"BEGIN {{ printf(\"on\\n\"); }} uprobe:{at} {{ @start[tid] = nsecs; }} "
              f"uretprobe:{at} /@start[tid]/ {{ @took = {take}(nsecs - @start[tid]); delete(@start[tid]); }}")
    with subprocess.Popen([BPFTRACE, "-e", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        while "on" not in process.stdout.readline():
            if process.poll() is not None:
                raise RuntimeError("bpftrace ended at its start")
        time.sleep(0.5)
        ns = float(target.tool.ask(f"time {EMULATED} 1 {CALLS['empty']}"))
        process.send_signal(signal.SIGINT)
        told = re.search(r"@took: (\d+)", process.stdout.read())
    return ns, float(told[1]) if told else None


def bpftrace_rows(run, target):
    """Beside what somebody would use who has no zerneld."""
    if not BPFTRACE:
        run.note("bpftrace", "It is not installed here.")
        return
    times = [bpftrace_time(target, "hist")[0] for _ in range(BPFTRACE_ROUNDS)]
    told = bpftrace_time(target, "avg")[1]
    none, ours = (median(target.times[EMULATED, 1, kind]) for kind in ("none", "ours"))
    ratio = [(t - none) / (ours - none) for t in times]
    what = f"`{EMULATED}` of the {target.name}, 1 thread"
    run.row(f"call with a histogram of bpftrace ({what})", f"{median(times):,.0f} ns", spread(times, "{:,.0f}"))
    run.row(f"added by it / added by ours ({what})", f"{median(ratio):.2f}", spread(ratio, "{:.2f}"))
    run.row(f"a call that takes {none:,.0f} ns, as bpftrace tells it ({what})", f"{told:,.0f} ns")
    run.row(f"the same, as ours tells it, below 128 ns as 64 ({what})", f"{median(target.told):,.0f} ns")
    version = subprocess.check_output([BPFTRACE, "--version"], text=True).split()[-1]
    run.note("bpftrace", f"""{version}, at the function's entry, where it stands unless told otherwise: at its beginning and at
        its return, a table of times by thread, and its `hist()`. What it tells is its `avg()`.""")


def bench_launch(run):
    targets = launch_targets(run)
    fake, real = targets
    if not fake.stepped(STEPPED) or fake.stepped(EMULATED):
        sys.exit(f"bench.py: {EMULATED} has to begin with a push, and {STEPPED} must not: {fake.places}")
    for i in range(LAUNCH_ROUNDS):
        print(f"  round {i + 1} of {LAUNCH_ROUNDS}")
        launch_round(targets)
    for target in targets:
        for function in target.functions:
            for threads in (1, 4):
                launch_rows(run, target, function, threads)
    bpftrace_rows(run, real)
    for target in targets:
        target.close()
    run.note("Cost of a call", f"""One process for each library times blocks of calls in {LAUNCH_ROUNDS} rounds, each:
        no probe; programs that only return 0, at the same place and through the same kind of link; the least that times and
        counts, there too (the clock at the entry and at the return, a look-up of the thread at each, one of the process, three
        additions); the real daemon with the families on libraries, and with all. The ratio is taken round by round. From 6.11 on the kernel makes a system call at
        the return of a probed function, which takes longer while system calls are watched: that is most of what all
        families add. The kernel emulates a few instructions (`push`, `branch`) and single-steps all others, which costs another
        trap: each row says how far behind the entry the probe stands, and on what. {STEPPED} of the fake library stands for
        functions that begin with nothing that is emulated; the {real.name} for drivers 525 to 550, whose functions begin
        with a compare. Without a GPU each call of a real driver returns an error at once.
        With 4 threads on {os.cpu_count()} cores, threads wait for each other's time slice too, and ours add to the same
        counters from several cores.""")


# ---- the cost of a system call and of a switch ----

KERNEL_ROUNDS, KERNEL_BLOCKS = 7, 41
KERNEL_CALLS = (("getppid", "a system call that is only counted", 2000), ("pread", "`pread` of one byte", 1000),
                ("pwrite", "`pwrite` of one byte", 1000), ("openat", "`open` and `close`", 300),
                ("switch", "a context switch with a read and a write of a pipe", 200),
                ("send", "`send` of one byte over TCP", 200))
KERNEL_ADDED = (("empty", "added by empty programs", None),
                ("clock", "added by programs that read the clock at switches and wakings", None),
                ("idle", "added while no process is tracked", None),
                ("other", "added while another process is tracked", None),
                ("tracked", "added to a tracked process", None),
                ("other, sched", "added by `sched` alone while another process is tracked", 100),
                ("tracked, sched", "added by `sched` alone to a tracked process", 100))


def kernel_blocks(target, who, times, only=""):
    for kind, _, calls in KERNEL_CALLS:
        if only in kind:
            times.setdefault((kind, who), []).append(float(target.ask(f"time {kind} {KERNEL_BLOCKS} {calls}")))


def kernel_round(run, plain, times):
    """A program that calls no hooked library, before and while another one does, and that other one."""
    with Tool("calls", run.folder, run.cuda) as tracked:
        kernel_blocks(plain, "off", times)
        for floor, who, only in (("floor", "empty", ""), ("clock", "clock", "switch")):
            with Tool("attach_floor", f"{BUILD}/bench/{floor}.bpf.o") as programs:
                programs.read()
                kernel_blocks(plain, who, times, only)
        with Daemon():
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "idle", times)
            tracked.ask("track")
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "other", times)
            kernel_blocks(tracked, "tracked", times)
        with Daemon(None, "--probes", "gpu_mem,sched"):  # the first is what makes a process a tracked one
            time.sleep(SETTLE_S)
            tracked.ask("track")
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "other, sched", times, "switch")
            kernel_blocks(tracked, "tracked, sched", times, "switch")


def bench_kernel(run):
    times = {}
    with Tool("calls", run.folder) as plain:
        for i in range(KERNEL_ROUNDS):
            print(f"  round {i + 1} of {KERNEL_ROUNDS}")
            kernel_round(run, plain, times)
    for kind, what, _ in KERNEL_CALLS:
        off = times[kind, "off"]
        run.row(f"{what}, without zerneld", f"{median(off):,.0f} ns", spread(off, "{:,.0f}"))
        for who, text, limit in KERNEL_ADDED:
            if (kind, who) not in times:
                continue
            added = [b - a for a, b in zip(off, times[kind, who])]
            run.row(f"{what}, {text}", f"{median(added):,.0f} ns", spread(added, "{:,.0f}") +
                    f"; ratio {median([b / a for a, b in zip(off, times[kind, who])]):.2f}",
                    f"{limit} ns" if limit else "", median(added) <= limit if limit else None)
    with Daemon() as daemon:
        way = next((p.get("tier") for p in json.loads(daemon.get("/json"))["probes"] if p["family"] == "vfs"), "none")
    run.note("Cost of a system call and of a switch", f"""All families on, files by: {way}. Medians of {KERNEL_BLOCKS} blocks, in
        {KERNEL_ROUNDS} rounds, each: nothing attached; one empty program at the entry and at the return of system calls, at
        switches and at wakings, which is what the kernel itself takes for being asked; the daemon, first with no process that
        calls a hooked library, then with one. A switch has two threads that hand a byte to and fro over two pipes on one
        CPU, so a read and a write belong to each. The tiers fentry and kprobe cannot be
        had on every kernel; where they can, calls that are no file operations pay nothing for files.""")


# ---- recording ----


def bench_record(run):
    runs = [dict(line.split() for line in subprocess.check_output([f"{BUILD}/bench/record"], text=True).splitlines())
            for _ in range(3)]
    ns = {key: [float(r[key]) for r in runs] for key in runs[0]}
    for key, text in (("few", "100"), ("many", "100,000,000")):
        run.row(f"recording, {text} samples held", f"{median(ns[key]):.1f} ns", spread(ns[key]), "10 ns",
                median(ns[key]) <= 10)
    for key, text in (("few_p99", "100"), ("many_p99", "100,000,000")):
        run.row(f"recording and reading p99, {text} samples held", f"{median(ns[key]):.0f} ns", spread(ns[key], "{:,.0f}"))
    run.row("the same in a sorted list of 100,000 samples", f"{median(ns['kept_p99']):,.0f} ns",
            spread(ns["kept_p99"], "{:,.0f}"))
    ratio = [a / b for a, b in zip(ns["kept_p99"], ns["many_p99"])]
    run.row("sorted list / histogram", f"{median(ratio):.0f}", spread(ratio, "{:.0f}"))
    run.row("memory at any number of samples", f"{ns['bytes'][0]:,.0f} bytes",
            f"list of 100,000: {ns['kept_bytes'][0]:,.0f}")
    run.note("Recording", """Medians of 2,001 blocks of 100 records with a heavy tail, three times. The list is the
        cheapest way to keep every sample in order that we know: a binary search and one memmove() for each.""")


# ---- bias ----

BIAS_CASES = ((STEPPED, 0, 5000), (EMULATED, 0, 20000), (EMULATED, 10000, 5000), (EMULATED, 100000, 2000))
SERIES = {EMULATED: ("zernel_cuda_launch_latency_seconds", []),
          STEPPED: ("zernel_cuda_sync_seconds", ['call="stream_synchronize"'])}


def bias_truth(target, function, spin_ns, calls):
    """Mean, p50 and p99 without a probe; a call of a few ns cannot be timed alone."""
    mean = float(target.ask(f"time {function} 1 {calls}"))
    if not spin_ns:
        return mean, mean, mean
    p50, p99 = map(float, target.ask(f"sample {function} {calls}").split())
    return mean, p50, p99


def bias_case(run, function, spin_ns, calls):
    with Tool("launch", run.cuda) as target:
        target.ask(f"set launch_ns {spin_ns}")
        truth = bias_truth(target, function, spin_ns, calls)
        with Daemon() as daemon:
            target.ask(f"wait {function} 1")
            target.ask(f"time {function} 1 {calls}")
            name, labels = SERIES[function]
            labels = labels + [f'pid="{target.process.pid}"']
            total, count = daemon.sample(name + "_sum", labels), daemon.sample(name + "_count", labels)
            p50, p99 = (daemon.sample(name, labels + [f'quantile="{q}"']) for q in ("0.5", "0.99"))
        target.ask(f"wait {function} 0")
    return truth, (total / count * 1e9, p50 * 1e9, p99 * 1e9)


def bench_bias(run):
    for function, spin_ns, calls in BIAS_CASES:
        truth, told = bias_case(run, function, spin_ns, calls)
        what = f"`{function}`, spin of {spin_ns // 1000} us" if spin_ns else f"`{function}`, returns at once"
        run.row(f"duration told / true ({what})", f"p50 {told[1]:,.0f} / {truth[1]:,.0f} ns",
                f"mean {told[0]:,.0f} / {truth[0]:,.0f}, p99 {told[2]:,.0f} / {truth[2]:,.0f}")
    run.note("Bias", """What the daemon tells about a call beside what the caller measured without any probe, in the same
        process. The daemon takes out the bias that it calibrated at its start; what is left of it is the machine's
        scatter around that median. A quantile may be off by 3.2 %, and reads as 64 ns below 128 ns.""")
