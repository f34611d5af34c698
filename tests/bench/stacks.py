# SPDX-License-Identifier: GPL-2.0
"""What the stacks of Python cost: a walk by its depth and the version of CPython, a loop of PyTorch, room in the
table."""
import glob
import json
import os
import subprocess

from common import Daemon, SYSTEM_PATH, Tool, median, spread
from loop import PYTHON, Loop, median_between, programs_ns

DEPTHS = (5, 20, 60, 95)
WALK_ROUNDS, WALK_MS = 5, 200
LOOP_ROUNDS, SHARE_ROUNDS, SHARE_STEPS = 20, 5, 400
WALKS_AT, WALK_NS_AT = 48, 56  # of struct zn_python
SWITCHED = (("--stacks", "off"), ("--stacks", "python"))


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


def walks(number):
    """How many there were, and the ns that they took by the kernel's clock, of all processes."""
    count = ns = 0
    for row in json.loads(bpftool("map", "dump", "id", number)):
        value = bytes(int(byte, 16) for byte in row["value"][:WALK_NS_AT + 8])
        count += int.from_bytes(value[WALKS_AT:WALKS_AT + 8], "little")
        ns += int.from_bytes(value[WALK_NS_AT:], "little")
    return count, ns


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


def loop_with(loop, options):
    with Daemon(None, *options) as daemon:
        ready(daemon, loop)
        while options[1] != "off" and not found(daemon, loop.process.pid):
            loop.ask("10")
        return loop.steps()[:2]


def clock_ns(programs):
    return sum(p.get("run_time_ns", 0) for p in json.loads(bpftool("prog", "show")) if p["id"] in programs)


def clock_programs(before):
    programs = json.loads(bpftool("prog", "show"))
    return {p["id"] for p in programs if p["name"] == "stacks_clock" and p["id"] not in before}


def loop_shares(loop):
    """Parts of the loop's time on a CPU, in percent: all walks; the clock's program with its walks. And the stacks in
    use."""
    shares, clocks, used, others = [], [], [], programs_ns()
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
        turns = [[loop_with(loop, options) for options in SWITCHED] for _ in range(LOOP_ROUNDS)]
        shares, clocks, used = loop_shares(loop)
    for k, what in enumerate(("time of a step of a PyTorch loop", "CPU of a step of it and its worker")):
        ratio = [on[k] / off[k] for off, on in turns]
        run.row(f"{what}, stacks on / off", f"{median(ratio):.4f}",
                "the median lies between " + " and ".join(f"{v:.3f}" for v in median_between(ratio)))
    run.row("**walks / CPU of the loop**", f"{median(shares):.3f} %", spread(shares, "{:.3f}"), "0.3 %",
            median(shares) <= 0.3)
    run.row("the clock's program, and its walks / CPU of the loop", f"{median(clocks):.3f} %", spread(clocks, "{:.3f}"))
    run.row("stacks in use of 1,024", f"{median(used):.0f}", spread(used, "{:.0f}"))
    run.note("Stacks of Python",
        f"""A walk's time is what the kernel's clock says at its begin and its end, {WALK_ROUNDS}
        times {WALK_MS} ms of launches without a pause, which are walked as often as the budget of 0.1 % lets them. The
        loop is that of a training loop; the ratio is one of neighbouring turns of which one has `--stacks off`,
        {LOOP_ROUNDS} times, and can tell no less than its spread. The share of walks, of calls, sleeps and the clock
        together, does not depend on how fast the machine is at the moment.""")
