# SPDX-License-Identifier: GPL-2.0
"""What it costs a training loop of PyTorch."""
import json
import os
import subprocess
import time

from common import BUILD, Daemon, SETTLE_S, SYSTEM_PATH, Tool, median, median_between, spread

LOOP_ROUNDS, LOOP_STEPS = 30, 200
SHARE_ROUNDS, SHARE_STEPS = 5, 400
PYTHON = "/usr/bin/python3"  # Debian's, which Debian's PyTorch is for


class Loop(Tool):
    def __init__(self, library):
        self.process = subprocess.Popen([PYTHON, "tests/bench/torch_loop.py", library], stdin=subprocess.PIPE,
                                        text=True,
                                        stdout=subprocess.PIPE, bufsize=1, env={**os.environ, "OMP_NUM_THREADS": "1"})

    def steps(self):
        """ms that a step took, its ms on a CPU, and its context switches. What started or ended before has settled by
        then."""
        time.sleep(SETTLE_S)
        self.ask("20")
        took, busy, switches = map(int, self.ask(str(LOOP_STEPS)).split())
        return took / 1e6 / LOOP_STEPS, busy / 1e6 / LOOP_STEPS, 1e9 * switches / took


def followed_steps(loop):
    """With the daemon, once it says where the loop's time goes."""
    with Daemon() as daemon:
        while f'zernel_step_stall_ratio{{pid="{loop.process.pid}"' not in daemon.get():
            loop.ask("10")
        return loop.steps()


def loop_turns(loop):
    """What steps() tells without the daemon, and with it. Each turn with it lies between two without, and is compared
    with their mean."""
    loop.steps()
    off, on = [loop.steps()], []
    for _ in range(LOOP_ROUNDS):
        on.append(followed_steps(loop))
        off.append(loop.steps())
    return [tuple((a + b) / 2 for a, b in zip(*pair)) for pair in zip(off, off[1:])], on


def programs_ran():
    """{id: ns that this BPF program has run for, and how often}"""
    shown = json.loads(subprocess.check_output(["bpftool", "-j", "prog", "show"],
        env={**os.environ, "PATH": SYSTEM_PATH}))
    return {p["id"]: (p.get("run_time_ns", 0), p.get("run_cnt", 0)) for p in shown}


def one_share(loop, others):
    """Of some steps: ns of the loop on a CPU, and of the BPF programs that are not others', and runs of these."""
    before = programs_ran()
    busy = int(loop.ask(str(SHARE_STEPS)).split()[1])
    ran = [(ns - before.get(p, (0, 0))[0], runs - before.get(p, (0, 0))[1])
           for p, (ns, runs) in programs_ran().items() if p not in others]
    return busy, sum(ns for ns, _ in ran), sum(runs for _, runs in ran)


def programs_shares(loop):
    """Which part of the loop's time on a CPU the daemon's programs ran for, by the kernel's own account of them, in
    each round; and the ns that it has of a program that does nothing."""
    others = programs_ran()
    subprocess.run(["sysctl", "-qw", "kernel.bpf_stats_enabled=1"], check=True)
    try:
        with Daemon() as daemon:
            while f'zernel_step_stall_ratio{{pid="{loop.process.pid}"' not in daemon.get():
                loop.ask("10")
            shares = [one_share(loop, others) for _ in range(SHARE_ROUNDS)]
        with Tool("attach_floor", f"{BUILD}/bench/floor.bpf.o"):
            nothing = [one_share(loop, others) for _ in range(SHARE_ROUNDS)]
    finally:
        subprocess.run(["sysctl", "-qw", "kernel.bpf_stats_enabled=0"], check=True)
    return shares, median([ns / runs for _, ns, runs in nothing])


def bench_loop(run):
    if subprocess.run([PYTHON, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        run.note("A training loop", "Not measured: no PyTorch is installed here.")
        return
    with Loop(run.cuda) as loop:
        turns = loop_turns(loop)
        shares, nothing_ns = programs_shares(loop)
    for k, (what, form, limit) in enumerate((("time of a step of a PyTorch loop", "{:.2f} ms", 1.01),
                                             ("CPU of a step of it and its worker", "{:.2f} ms", 1.01),
                                             ("its context switches per second", "{:,.0f}", None))):
        off, on = ([turn[k] for turn in side] for side in turns)
        ratio = [b / a for a, b in zip(off, on)]
        run.row(f"{what}, without zerneld", form.format(median(off)), spread(off, form))
        run.row(f"{what}, with it", form.format(median(on)), spread(on, form))
        run.row(f"**{what}, with / without**", f"{median(ratio):.4f}", "the median lies between " +
                " and ".join(f"{v:.3f}" for v in median_between(ratio)), f"{limit:.2f}" if limit else "",
                limit and median(ratio) <= limit)
    net = [100 * (ns - runs * nothing_ns) / busy for busy, ns, runs in shares]
    gross = [100 * ns / busy for busy, ns, _ in shares]
    run.row("**run time of our programs / CPU of the loop**", f"{median(net):.2f} %", spread(net, "{:.2f}"), "1 %",
            median(net) <= 1)
    run.row("the same with what the kernel's account of it takes", f"{median(gross):.2f} %", spread(gross, "{:.2f}"))
    run.row("of a program that does nothing that account has", f"{nothing_ns:.0f} ns")
    run.note("A training loop",
        f"""PyTorch with one worker of its DataLoader on {os.cpu_count()} cores, {LOOP_STEPS} steps with the daemon
        between two such turns without it, {LOOP_ROUNDS} times; the ratio is taken turn by turn, and its median lies
        between the two figures beside it in 95 of 100 such runs. A step computes, takes a batch, and makes one
        launch, so that its context switches and waits are followed. A trap costs several us on this kind of machine;
        what more launches add is told by the cost of a call. The last rows do not depend on how fast the machine is
        at the moment: what the kernel counts for our programs (kernel.bpf_stats_enabled), anywhere on the node, in
        {SHARE_ROUNDS} times {SHARE_STEPS} steps. It reads a clock before and behind each run, which is in what it
        counts and is not done where nobody asks: of empty programs at system calls and switches, in the same loop
        afterwards, it tells how much that is. It has the programs whole, but not the kernel's way to them, as the trap
        of a probe.""")
