# SPDX-License-Identifier: GPL-2.0
"""What a call costs that is hooked: of a library, of the kernel; recording; how far durations are off."""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from common import BUILD, Daemon, EMULATED, SETTLE_S, STEPPED, SYSTEM_PATH, Tool, median, median_between, \
    other_daemons, spread

# ---- the cost of a call ----

LAUNCH_STARTS = 9
# of a library, by what is put on each; the daemon hooks the last by its name
COPIES = ("none", "empty", "least", "ours")
THREADS = (1, 4)
# (calls in a block, turns), while the families on libraries are on, and while all are
EMULATED_BLOCKS, STEPPED_BLOCKS = {"ours": (2000, 100), "all": (2000, 30)}, {"ours": (300, 40), "all": (300, 15)}
HOOKS = "gpu_mem,cuda_trace,nccl"  # the families that stand on functions of libraries
WHOLE = ("--overhead-budget", "0%")  # what a call costs that nothing is spared of
REAL, REAL_NAME = f"{BUILD}/real/cuda-550/libcuda.so.1", "real libcuda 550, which fails"
THUNK, THUNK_NAME = f"{BUILD}/test/entry/thunk/libcuda.so.1", "fake libcuda that begins as drivers 525 to 550"
CALL_LIMIT_NS, RATIO_LIMIT, ALL_LIMIT = 1500, 1.15, 1.20


class Target:
    """Copies of one libcuda, the functions of it that are timed, and the programs that call them and that are put on
    them."""

    def __init__(self, run, name, path, functions):
        self.name, self.functions = name, functions
        folder = os.path.join(run.folder, str(len(os.listdir(run.folder))))
        os.mkdir(folder)
        files = {kind: "libcuda.so.2" if kind == "ours" else f"{kind}.so" for kind in COPIES}
        self.paths = {kind: shutil.copy(path, os.path.join(folder, file)) for kind, file in files.items()}
        self.places, self.starts, self.told, self.real_time = {}, [], [], True

    def stepped(self, function):
        return self.places[function][1] not in ("push", "branch", "nop")

    def turns(self, kind):
        """{(function, threads): for each turn {copy: ns}}"""
        found = {}
        for function in self.functions:
            calls, turns = (STEPPED_BLOCKS if self.stepped(function) else EMULATED_BLOCKS)[kind]
            for threads in THREADS:
                priority, *words = self.tool.ask(f"turns {function} {threads} {calls} {turns}").split()
                self.real_time = self.real_time and priority == "real-time"
                times = list(map(float, words))
                found[function, threads] = [dict(zip(COPIES, times[i:i + len(COPIES)]))
                    for i in range(0, len(times), len(COPIES))]
        return found

    def __enter__(self):
        """A new process, with new programs: where these lie in memory is a part of what they cost."""
        self.tool = Tool("launch", *self.paths.values())
        self.places = self.places or {f: self.tool.ask(f"place {f}").split() for f in self.functions}
        self.others = [Tool("attach_empty", "auto", f"{BUILD}/bench/{kind}.bpf.o", self.paths[kind], *self.functions)
                       for kind in ("empty", "least")]
        for which, programs in enumerate(self.others, 1):
            programs.ask("+")
            self.tool.ask(f"wait {self.functions[0]} 1 {which}")
        return self

    def __exit__(self, *_):
        for tool in (*self.others, self.tool):
            tool.__exit__()

    def what(self, function, threads):
        at, kind = self.places[function]
        how = "single-stepped" if self.stepped(function) else "emulated"
        return f"`{function}` of the {self.name}, +{at}, {kind}: {how}, {threads} thread{'s' if threads > 1 else ''}"


def launch_targets(run):
    """The fake one, one function of which begins with no push; with what real drivers begin; a real one, if it can be
    had."""
    subprocess.run(["tests/real/files.sh", f"{BUILD}/real"], check=False)
    targets = [Target(run, "fake libcuda", run.cuda, (STEPPED, EMULATED)),
               Target(run, THUNK_NAME, THUNK, (EMULATED, STEPPED))]
    return targets + ([Target(run, REAL_NAME, REAL, (EMULATED,))] if os.path.exists(REAL) else [])


def launch_start(targets):
    """One start of everything. False: it says nothing."""
    with contextlib.ExitStack() as stack:
        found = {target.name: {} for target in targets}
        for target in targets:
            stack.enter_context(target)
        for kind, options in (("ours", ("--probes", HOOKS)), ("all", ())):
            with Daemon(None, *WHOLE, *options) as daemon:
                for target in targets:
                    target.tool.ask(f"wait {target.functions[0]} 1 {COPIES.index('ours')}")
                time.sleep(SETTLE_S)  # the breakpoint is there before the programs of both ends are
                for target in targets:
                    found[target.name][kind] = target.turns(kind)
                    if kind == "ours":
                        labels = [f'pid="{target.tool.process.pid}"', 'quantile="0.5"']
                        target.told.append(daemon.sample("zernel_cuda_launch_latency_seconds", labels) * 1e9)
        with Tool("attach_floor", f"{BUILD}/bench/floor.bpf.o") as programs:
            programs.read()
            for target in targets:
                found[target.name]["floor"] = target.turns("all")
        if other_daemons():
            print("  again: another zerneld has come meanwhile, and hooks the same libraries")
            return False
        for target in targets:
            target.starts.append(found[target.name])
        return True


def ratio_of(turns, copy, empty=None):
    """The median of the turns; with `empty`, ns, against that and not against the empty ones of the same turn."""
    return median([(t[copy] - t["none"]) / (empty or t["empty"] - t["none"]) for t in turns])


def certain(values, form="{:.3f}"):
    low, high = median_between(values)
    return f"the median lies between {form.format(low)} and {form.format(high)}; " + spread(values, form)


def launch_rows(run, target, function, threads):
    starts = [{kind: turns[function, threads] for kind, turns in start.items()} for start in target.starts]
    ns = {copy: [median([t[copy] for t in start["ours"]]) for start in starts] for copy in COPIES}
    ours, floor = ([ratio_of(start["ours"], copy) for start in starts] for copy in ("ours", "least"))
    added = [median([t["empty"] - t["none"] for t in start["ours"]]) for start in starts]
    whole, watched = ([ratio_of(start[kind], copy, empty) for start, empty in zip(starts, added)]
        for kind, copy in (("all", "ours"), ("floor", "empty")))
    what = target.what(function, threads)
    run.row(f"call without probes ({what})", f"{median(ns['none']):.1f} ns", spread(ns["none"]))
    run.row(f"call with empty programs ({what})", f"{median(ns['empty']):,.0f} ns", spread(ns["empty"], "{:,.0f}"))
    succeeds = target.name != REAL_NAME
    limit = CALL_LIMIT_NS if (target.name, function, threads) == (THUNK_NAME, EMULATED, 1) else None
    run.row(f"call with ours ({what})", f"{median(ns['ours']):,.0f} ns", spread(ns["ours"], "{:,.0f}"),
            f"{limit:,} ns" if limit else "", median(ns["ours"]) <= limit if limit else None)
    run.row(f"**added by ours / added by empty** ({what})", f"{median(ours):.3f}", certain(ours),
            f"{RATIO_LIMIT}" if succeeds else "", median(ours) <= RATIO_LIMIT if succeeds else None)
    run.row(f"the same of the least that times and counts ({what})", f"{median(floor):.3f}", certain(floor))
    limited = succeeds and function == EMULATED
    run.row(f"the same, with all families ({what})", f"{median(whole):.3f}", certain(whole, "{:.2f}"),
            f"{ALL_LIMIT:.2f}" if limited else "", median(whole) <= ALL_LIMIT if limited else None)
    run.row(f"the same of empty programs, with others at system calls and switches ({what})",
            f"{median(watched):.3f}", certain(watched, "{:.2f}"))


BPFTRACE = shutil.which("bpftrace", path=SYSTEM_PATH)
BPFTRACE_ROUNDS = 5


def bpftrace_time(target, take):
    """ns of a call, and what bpftrace says of it, while it times the function in the way that its manual shows."""
    at = f"{target.paths['ours']}:{EMULATED}"
    script = (f"BEGIN {{ printf(\"on\\n\"); }} uprobe:{at} {{ @start[tid] = nsecs; }} "
              f"uretprobe:{at} /@start[tid]/ {{ @took = {take}(nsecs - @start[tid]); delete(@start[tid]); }}")
    with subprocess.Popen([BPFTRACE, "-e", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True) as process:
        while "on" not in process.stdout.readline():
            if process.poll() is not None:
                raise RuntimeError("bpftrace ended at its start")
        time.sleep(0.5)
        ns = median([turn["ours"] for turn in target.turns("all")[EMULATED, 1]])
        process.send_signal(signal.SIGINT)
        told = re.search(r"@took: (\d+)", process.stdout.read())
    return ns, float(told[1]) if told else None


def bpftrace_rows(run, target):
    """Beside what somebody would use who has no zerneld."""
    if not BPFTRACE:
        run.note("bpftrace", "It is not installed here.")
        return
    with target:
        times = [bpftrace_time(target, "hist")[0] for _ in range(BPFTRACE_ROUNDS)]
        told = bpftrace_time(target, "avg")[1]
    turns = [turn for start in target.starts for turn in start["ours"][EMULATED, 1]]
    none, ours = (median([turn[copy] for turn in turns]) for copy in ("none", "ours"))
    ratio = [(t - none) / (ours - none) for t in times]
    what = f"`{EMULATED}` of the {target.name}, 1 thread"
    run.row(f"call with a histogram of bpftrace ({what})", f"{median(times):,.0f} ns", spread(times, "{:,.0f}"))
    run.row(f"added by it / added by ours ({what})", f"{median(ratio):.2f}", spread(ratio, "{:.2f}"))
    run.row(f"a call that takes {none:,.0f} ns, as bpftrace tells it ({what})", f"{told:,.0f} ns")
    run.row(f"the same, as ours tells it, below 128 ns as 64 ({what})", f"{median(target.told):,.0f} ns")
    version = subprocess.check_output([BPFTRACE, "--version"], text=True).split()[-1]
    run.note("bpftrace", f"""{version}, at the function's entry, where it stands unless told otherwise: at its
        beginning and at its return, a table of times by thread, and its `hist()`. What it tells is its `avg()`.""")


def bench_launch(run):
    targets = launch_targets(run)
    fake, thunk, *_ = targets
    while len(fake.starts) < LAUNCH_STARTS:
        print(f"  start {len(fake.starts) + 1} of {LAUNCH_STARTS}")
        launch_start(targets)
        run.let_others()
    if not fake.stepped(STEPPED) or fake.stepped(EMULATED):
        sys.exit(f"bench.py: {EMULATED} has to begin with a push, and {STEPPED} must not: {fake.places}")
    for target in targets:
        for function in target.functions:
            for threads in THREADS:
                launch_rows(run, target, function, threads)
    bpftrace_rows(run, thunk)
    priority = "at real-time priority" if all(t.real_time
        for t in targets) else "**at normal priority, as no other was allowed**"
    (calls, turns), (few_calls, few_turns) = EMULATED_BLOCKS["ours"], STEPPED_BLOCKS["ours"]
    run.note("Cost of a call",
        f"""One process for each library has four copies of it at once: one without a probe; one with programs that
        only return 0, at the same place and through the same kind of link; one with the least that times and counts
        (the clock at the entry and at the return, a look-up of the thread at each, one of the process, three
        additions); one that the real daemon hooks, first with the families on libraries, then with all. Each thread,
        {priority} and pinned to a CPU, calls them in turns of {calls:,} calls each, {turns} times ({few_calls} calls,
        {few_turns} times, where a call is single-stepped), in both orders; a time is that of the thread on its CPU,
        so that others' work is not in it. A ratio is taken in each turn, and its median is that of one start. All of
        it is started {LAUNCH_STARTS} times anew, for where programs and tables come to lie in memory is a part of
        what they cost: shown is the median of the starts, between what it lies 95 times of 100, and the lowest and
        the highest start. With all families it is held against the empty programs of the same start without them.
        From 6.11 on the kernel makes a system call at the return of a probed function, which takes longer while
        system calls are watched: that is most of what all families add, as the last row of each shows: empty programs
        at both ends of the function, at both of system calls, and at switches and wakings. The kernel emulates a few
        instructions (`push`, `branch`) and single-steps all others, which costs another trap: each row says how far
        behind the entry the probe stands, and on what. {STEPPED} of the fake library stands for functions that begin
        with nothing that is emulated; the functions of drivers 525 to 550 begin with a compare. Without a GPU each
        call of a real driver returns an error at once, and each of these is noted by its name, which no call that
        succeeds costs: its rows have no limit. With 4 threads on {os.cpu_count()} cores, as many run at once as there
        are cores. The least adds to the same counters from each, which costs more in some starts than in others:
        cores wait for one another's cache lines.""")


# ---- the cost of a system call and of a switch ----

KERNEL_ROUNDS, KERNEL_BLOCKS = 7, 41
KERNEL_CALLS = (("getppid", "a system call that is only counted", 2000), ("pread", "`pread` of one byte", 1000),
                ("pwrite", "`pwrite` of one byte", 1000), ("openat", "`open` and `close`", 300),
                ("switch", "a context switch with a read and a write of a pipe", 200),
                ("send", "`send` of one byte over TCP", 200))
KERNEL_ADDED = (("empty", "added by empty programs"), ("idle", "added while no process is tracked"),
                ("other", "added while another process is tracked"), ("tracked", "added to a tracked process"))
SWITCH_TURNS, SWITCH_BLOCKS, SWITCH_CALLS, SWITCH_LIMIT = 9, 101, 200, 2


def kernel_blocks(target, who, times):
    for kind, _, calls in KERNEL_CALLS:
        times.setdefault((kind, who), []).append(float(target.ask(f"time {kind} {KERNEL_BLOCKS} {calls}")))


def kernel_round(run, plain, times):
    """A program that calls no hooked library, before and while another one does, and that other one."""
    with Tool("calls", run.folder, run.cuda) as tracked:
        kernel_blocks(plain, "off", times)
        with Tool("attach_floor", f"{BUILD}/bench/floor.bpf.o") as programs:
            programs.read()
            kernel_blocks(plain, "empty", times)
        with Daemon(None, *WHOLE):
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "idle", times)
            tracked.ask("track")
            time.sleep(SETTLE_S)
            kernel_blocks(plain, "other", times)
            kernel_blocks(tracked, "tracked", times)


def switches_ns(*targets):
    return [float(target.ask(f"time switch {SWITCH_BLOCKS} {SWITCH_CALLS}")) for target in targets]


def switch_turn(run, plain):
    """ns that a switch takes more: by the floor, by `sched` alone of a process that is not tracked, and of one that is.
    What is taken off is what it took before and afterwards."""
    with Tool("calls", run.folder, run.cuda) as tracked:
        before = switches_ns(plain, tracked)
        with Tool("attach_floor", f"{BUILD}/bench/clock.bpf.o") as programs:
            programs.read()
            floor, = switches_ns(plain)
        with Daemon(None, *WHOLE, "--probes", "gpu_mem,sched"):  # the first is what makes a process a tracked one
            time.sleep(SETTLE_S)
            tracked.ask("track")
            time.sleep(SETTLE_S)
            other, own = switches_ns(plain, tracked)
        off = [(a + b) / 2 for a, b in zip(before, switches_ns(plain, tracked))]
    return floor - off[0], other - off[0], own - off[1]


def switch_rows(run, plain):
    turns = []
    for i in range(SWITCH_TURNS):
        print(f"  turn {i + 1} of {SWITCH_TURNS}")
        turns.append(switch_turn(run, plain))
        run.let_others()
    floor, other, own = zip(*turns)
    ratio = [o / f for f, o in zip(floor, own)]
    for what, ns in (("by the floor", floor), ("by `sched` alone while another process is tracked", other),
                     ("by `sched` alone to a tracked process", own)):
        run.row(f"a context switch with a read and a write of a pipe, added {what}", f"{median(ns):.0f} ns",
            certain(ns, "{:.0f}"))
    run.row("**added by `sched` alone to a tracked process / added by the floor**", f"{median(ratio):.2f}",
            certain(ratio, "{:.2f}"),
            f"{SWITCH_LIMIT}", median(ratio) <= SWITCH_LIMIT)
    run.note("Floor of a switch",
        f"""Programs that do nothing at switches and at wakings, the former of which reads the clock once. It and the
        daemon, with `sched` and the family by which a process is tracked, are put on in {SWITCH_TURNS} turns, at
        real-time priority where that is allowed ({plain.ask("priority")} here). Of each turn: medians of
        {SWITCH_BLOCKS} blocks of {SWITCH_CALLS} calls, less what the same process took before and afterwards; the
        ratio is taken turn by turn. The family reads the clock twice, as it tells how long a thread waited for its
        CPU.""")


def bench_kernel(run):
    times = {}
    with Tool("calls", run.folder) as plain:
        for i in range(KERNEL_ROUNDS):
            print(f"  round {i + 1} of {KERNEL_ROUNDS}")
            kernel_round(run, plain, times)
            run.let_others()
        switch_rows(run, plain)
    for kind, what, _ in KERNEL_CALLS:
        off = times[kind, "off"]
        run.row(f"{what}, without zerneld", f"{median(off):,.0f} ns", spread(off, "{:,.0f}"))
        for who, text in KERNEL_ADDED:
            added = [b - a for a, b in zip(off, times[kind, who])]
            run.row(f"{what}, {text}", f"{median(added):,.0f} ns", spread(added, "{:,.0f}") +
                    f"; ratio {median([b / a for a, b in zip(off, times[kind, who])]):.2f}")
    with Daemon() as daemon:
        way = next((p.get("tier") for p in json.loads(daemon.get("/json"))["probes"] if p["family"] == "vfs"), "none")
    run.note("Cost of a system call and of a switch",
        f"""All families on, files by: {way}. Medians of {KERNEL_BLOCKS} blocks, in {KERNEL_ROUNDS} rounds, each:
        nothing attached; one empty program at the entry and at the return of system calls, at switches and at
        wakings, which is what the kernel itself takes for being asked; the daemon, first with no process that calls a
        hooked library, then with one. A switch has two threads that hand a byte to and fro over two pipes on one CPU,
        so a read and a write belong to each. The tiers fentry and kprobe cannot be had on every kernel; where they
        can, calls that are no file operations pay nothing for files.""")


# ---- recording ----


def bench_record(run):
    runs = [dict(line.split() for line in subprocess.check_output([f"{BUILD}/bench/record"], text=True).splitlines())
            for _ in range(3)]
    ns = {key: [float(r[key]) for r in runs] for key in runs[0]}
    for key, text in (("few", "100"), ("many", "100,000,000")):
        run.row(f"recording, {text} samples held", f"{median(ns[key]):.1f} ns", spread(ns[key]), "10 ns",
                median(ns[key]) <= 10)
    for key, text in (("few_p99", "100"), ("many_p99", "100,000,000")):
        run.row(f"recording and reading p99, {text} samples held", f"{median(ns[key]):.0f} ns",
            spread(ns[key], "{:,.0f}"))
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
    mean = float(target.ask(f"time {function} {calls}"))
    if not spin_ns:
        return mean, mean, mean
    p50, p99 = map(float, target.ask(f"sample {function} {calls}").split())
    return mean, p50, p99


def bias_case(run, function, spin_ns, calls):
    with Tool("launch", run.cuda) as target:
        target.ask(f"set launch_ns {spin_ns}")
        truth = bias_truth(target, function, spin_ns, calls)
        with Daemon(None, *WHOLE) as daemon:
            target.ask(f"wait {function} 1")
            target.ask(f"time {function} {calls}")
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
    run.note("Bias", """What the daemon tells about a call beside what the caller measured without any probe, in the
        same process. The daemon takes out the bias that it calibrated at its start; what is left of it is the machine's
        scatter around that median. A quantile may be off by 3.2 %, and reads as 64 ns below 128 ns.""")
