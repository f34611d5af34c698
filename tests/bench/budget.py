# SPDX-License-Identifier: GPL-2.0
"""What storms of one process cost it: without the daemon, with it and no budget, and with the budget that is usual."""
import time

from common import Daemon, Tool, median, spread

STORMS = (("reads", 60000), ("calls", 200000), ("switches", 10000), ("launches", 60000))
ROUNDS, TURNS, STEP_S = 3, 9, 6


def rate_ns(storm, what, count):
    return int(storm.ask(f"{what} {count}")) / count


def rate_with(storm, what, count, budget, *options):
    """Of one, once the daemon has had time to see what it costs."""
    with Daemon(None, "--overhead-budget", budget, *options) as daemon:
        while f'zernel_cuda_launches_total{{pid="{storm.process.pid}"' not in daemon.get():
            storm.ask("launches 1")
        until = time.monotonic() + STEP_S
        while time.monotonic() < until:
            rate_ns(storm, what, count)
        return median([rate_ns(storm, what, count) for _ in range(TURNS)])


def bench_launches(run, storm, what, count):
    """A launch takes some nanoseconds of its own, so what is added is told, and not a ratio to that."""
    ways = (("two links, no budget", ("0%", "--uprobes", "links")), ("a session, no budget", ("0%",)),
            ("a session, `--overhead-budget 1%`", ("1%",)))
    added = {text: [] for text, _ in ways}
    for _ in range(ROUNDS):
        off = median([rate_ns(storm, what, count) for _ in range(TURNS)])
        for text, options in ways:
            added[text].append(rate_with(storm, what, count, *options) - off)
    for text, _ in ways:
        run.row(f"a storm of {what}: added to one, {text}", f"{median(added[text]):,.0f} ns",
                spread(added[text], "{:,.0f}"))
    for text, over in ((ways[1][0], ways[0][0]), (ways[2][0], ways[1][0])):
        part = [a / b for a, b in zip(added[text], added[over])]
        run.row(f"the same: {text} / {over}", f"{median(part):.2f}", spread(part, "{:.2f}"))


def bench_budget(run):
    with Tool("storm", run.cuda) as storm:
        for what, count in STORMS:
            if what == "launches":
                bench_launches(run, storm, what, count)
                continue
            whole, kept = [], []
            for _ in range(ROUNDS):
                off = median([rate_ns(storm, what, count) for _ in range(TURNS)])
                whole.append(rate_with(storm, what, count, "0%") / off)
                kept.append(rate_with(storm, what, count, "1%") / off)
            run.row(f"a storm of {what}: time of one with / without zerneld, no budget", f"{median(whole):.2f}",
                    spread(whole, "{:.2f}"))
            run.row(f"the same with `--overhead-budget 1%`, after {STEP_S} s", f"{median(kept):.2f}",
                spread(kept, "{:.2f}"))
    run.note("Storms", f"""One process makes reads of a byte of a file, system calls that fail at once, switches
        between two of its threads, or launches on the fake driver, as often as it can, {ROUNDS} times without the
        daemon and with each budget in turn. What is left above 1 with a budget is the kernel's way to our
        programs: it is the same for every process of the node.""")
