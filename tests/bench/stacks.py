# SPDX-License-Identifier: GPL-2.0
"""What the stacks of Python cost: a walk by its depth and the version of CPython, a loop of PyTorch, room in the
table."""
import glob
import json
import os
import struct
import subprocess
import time

import tables
from common import Daemon, SYSTEM_PATH, Tool, median, spread
from loop import PYTHON, Loop, median_between, programs_ran

DEPTHS = (5, 20, 60, 95)
WALK_ROUNDS, WALK_MS = 5, 200
LOOP_STEPS, SHARE_ROUNDS, SHARE_STEPS = 6400, 5, 400
ROWS, ROW_BYTES, WALKS_AT = 256, 720, 48  # of struct zn_python
NATIVE_ROUNDS, NATIVE_S = 3, 20
READER = "zernel: readers"
STEP_LIMIT = 1.003
NATIVES = (("a copy of a native stack", "{:.2f} us", None), ("**a copy / a walk of that loop**", "{:.2f}", 4),
           ("**walks and copies / CPU of the loop**", "{:.3f} %", 0.3),
           ("**who reads native stacks / a CPU**", "{:.2f} %", 5),
           ("reading of a native stack, for each copy", "{:.2f} ms", None))


class Deep(Tool):
    def __init__(self, python, library):
        self.process = subprocess.Popen([python, "tests/bench/deep.py", library], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, bufsize=1)


def bpftool(*words):
    return subprocess.check_output(["bpftool", "-j", *map(str, words)], env={**os.environ, "PATH": SYSTEM_PATH})


def map_of(daemon, name):
    """The id of the daemon's table of this name."""
    for path in glob.glob(f"/proc/{daemon.pid}/fdinfo/*"):
        try:
            with open(path) as f:
                found = [line.split()[1] for line in f if line.startswith("map_id:")]
        except OSError:
            continue
        if found and json.loads(bpftool("map", "show", "id", found[0]))["name"] == name:
            return found[0]
    raise RuntimeError(f"no table {name}")


def rows(number):
    """[(where it lies in the table, walks, the ns that they took by the kernel's clock, copies, their ns)] of processes
    that are walked."""
    table = tables.memory(int(number), ROWS * ROW_BYTES)
    return [(at, *struct.unpack_from("<4Q", table, at + WALKS_AT)) for at in range(0, ROWS * ROW_BYTES, ROW_BYTES)
            if any(table[at:at + 4])]


def walks(number):
    """How many there were, and the ns that they took, of all processes."""
    return tuple(sum(row[k] for row in rows(number)) for k in (1, 2))


def slots_used(number):
    """Stacks in the kernel's table: those with a hash."""
    rows = json.loads(bpftool("map", "dump", "id", number))
    return sum(any(byte != "0x00" for byte in row["value"][:8]) for row in rows)


def found(daemon, pid):
    return any(p["pid"] == pid for p in json.loads(daemon.get("/stacks"))["processes"])


def versions():
    """{version: program}"""
    some = {}
    for program in [PYTHON, *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))]:
        said = subprocess.run([program, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True,
                              text=True).stdout.split()
        if said and int(said[1]) >= 8:
            some["3." + said[1]] = program
    return dict(sorted(some.items(), key=lambda v: int(v[0][2:])))


def walk_us(daemon, table, python, library):
    """{depth: us of a walk, of each round}"""
    costs = {depth: [] for depth in DEPTHS}
    with Deep(python, library) as deep:
        while not found(daemon, deep.process.pid):
            deep.ask("5 50")
        for _ in range(WALK_ROUNDS):
            for depth in DEPTHS:
                deep.ask(f"{depth} {WALK_MS}")
                count, ns = walks(table)
                deep.ask(f"{depth} {WALK_MS}")
                after, more = walks(table)
                if after > count:  # seldom none is walked: each process walks as its budget allows
                    costs[depth].append((more - ns) / (after - count) / 1000)
    return costs


def bench_walks(run):
    with Daemon() as daemon:
        table = map_of(daemon, "pythons")
        for version, python in versions().items():
            costs = walk_us(daemon, table, python, run.cuda)
            run.row(f"a walk, CPython {version}, {' / '.join(map(str, DEPTHS))} functions deep",
                    " / ".join(f"{median(costs[depth]):.2f}" for depth in DEPTHS) + " us",
                    "; ".join(spread(costs[depth], "{:.2f}") for depth in DEPTHS))


def ready(daemon, loop):
    while f'zernel_step_stall_ratio{{pid="{loop.process.pid}"' not in daemon.get():
        loop.ask("10")


def loop_ratios(loop):
    """Of each few steps: time on a CPU of those with walks / of those without."""
    with Daemon() as daemon:
        ready(daemon, loop)
        while not found(daemon, loop.process.pid):
            loop.ask("10")
        table = map_of(daemon, "pythons")
        (row,) = rows(table)
        return list(map(float, loop.ask(f"{LOOP_STEPS} {table} {row[0]}").split()))


def reader_ns(daemon):
    """What the process that reads users' memory, and who watches it, were on a CPU."""
    total = 0
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as f:
                name, _, rest = f.read().partition("(")[2].rpartition(")")
            if name == READER and int(rest.split()[1]) in (daemon.pid, *children(daemon.pid)):
                with open(path.replace("stat", "schedstat")) as f:
                    total += int(f.read().split()[0])
        except OSError:
            continue  # it ended
    return total


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return map(int, f.read().split())


def native_costs(loop):
    """From the start of the daemon on, while the loop's stacks are new: us of a copy; its time by that of a walk; walks
    and copies, in percent of the loop's time on a CPU; the reader, in percent of a CPU; ms of it for each copy."""
    with Daemon(None, "--stacks", "native") as daemon:
        start, busy, table = time.monotonic(), 0, map_of(daemon, "pythons")
        while time.monotonic() < start + NATIVE_S or not rows(table):
            busy += int(loop.ask("50").split()[1])
        took = time.monotonic() - start
        ((_, count, ns, copies, copied_ns),) = rows(table)
        read_ns = reader_ns(daemon)
    return (copied_ns / copies / 1000, copied_ns / copies * count / ns, 100 * (ns + copied_ns) / busy,
            read_ns / took / 1e7, read_ns / copies / 1e6)


def clock_ns(programs):
    return sum(p.get("run_time_ns", 0) for p in json.loads(bpftool("prog", "show")) if p["id"] in programs)


def clock_programs(before):
    programs = json.loads(bpftool("prog", "show"))
    return {p["id"] for p in programs if p["name"] == "stacks_clock" and p["id"] not in before}


def loop_shares(loop):
    """Parts of the loop's time on a CPU, in percent: all walks; the clock's program with its walks. And the stacks in
    use."""
    shares, clocks, used, others = [], [], [], programs_ran()
    subprocess.run(["sysctl", "-qw", "kernel.bpf_stats_enabled=1"], check=True)
    try:
        with Daemon() as daemon:
            table, clock = map_of(daemon, "pythons"), clock_programs(others)
            ready(daemon, loop)
            for _ in range(SHARE_ROUNDS):
                before, clock_before = walks(table)[1], clock_ns(clock)
                busy = int(loop.ask(str(SHARE_STEPS)).split()[1])
                shares.append(100 * (walks(table)[1] - before) / busy)
                clocks.append(100 * (clock_ns(clock) - clock_before) / busy)
                used.append(slots_used(map_of(daemon, "stacks")))
    finally:
        subprocess.run(["sysctl", "-qw", "kernel.bpf_stats_enabled=0"], check=True)
    return shares, clocks, used


def bench_stacks(run):
    bench_walks(run)
    if subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        run.note("Stacks of Python", "The loop was not measured: no PyTorch is installed here.")
        return
    with Loop(run.cuda) as loop:
        loop.steps()
        ratios = loop_ratios(loop)
        shares, clocks, used = loop_shares(loop)
        natives = [native_costs(loop) for _ in range(NATIVE_ROUNDS)]
    low, high = median_between(ratios)
    run.row("**CPU of a step of a PyTorch loop and its worker, walked / not**", f"{median(ratios):.4f}",
            f"the median lies between {low:.4f} and {high:.4f}", f"{STEP_LIMIT}",
            True if high <= STEP_LIMIT else False if low > STEP_LIMIT else None)
    run.row("**walks / CPU of the loop**", f"{median(shares):.3f} %", spread(shares, "{:.3f}"), "0.3 %",
            median(shares) <= 0.3)
    run.row("the clock's program, and its walks / CPU of the loop", f"{median(clocks):.3f} %", spread(clocks, "{:.3f}"))
    run.row("stacks in use of 1,024", f"{median(used):.0f}", spread(used, "{:.0f}"))
    for (what, form, limit), values in zip(NATIVES, zip(*natives)):
        run.row(what, form.format(median(values)), spread(values, form), form.format(limit) if limit else "",
                limit and median(values) <= limit)
    run.note("Stacks of Python",
        f"""A walk's time is what the kernel's clock says at its begin and its end, {WALK_ROUNDS} times {WALK_MS} ms of
        launches without a pause, which are walked as often as the budget of 0.1 % lets them. The loop is that of a
        training loop. Of its steps every second one, by chance, is not walked; the ratio is of time on a CPU, at
        real-time priority, and the median over each 8 of {LOOP_STEPS:,} steps. As the budget is for all steps, those
        that are walked may be so twice as often as they would be. The row says nothing where the limit lies between
        the two figures within which the median is 95 times of 100. The share of walks, of calls, sleeps and the clock
        together, does not depend on how fast the machine is at the moment. Native stacks are those of the same loop in
        the first {NATIVE_S} s of a daemon, when all are new; the reader's time has its start, and the finding of
        Python.""")
