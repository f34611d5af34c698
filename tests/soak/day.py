# SPDX-License-Identifier: GPL-2.0
"""A day of simulated jobs that come, go wrong and go, in as little time as its work takes: the clock of the daemon
jumps to its next timer (fast_clock.c). What the daemon holds must not grow once its histories are full."""
import os
import sys
import time

from harness import TOOLS, Daemon
from held import MIB, cpu_s, mib, most, resident

FAST = os.path.join(TOOLS, "zerneld-fast")
TICKS_OF_HOUR = 3600
SAMPLE_S = 0.5


def sample(daemon):
    heap, tables = resident(daemon.pid)
    metrics = daemon.metrics()
    return {"hour": metrics.one("zernel_ticks_total") / TICKS_OF_HOUR, "heap": heap, "tables": tables,
            "files": daemon.fds_at_rest(), "cpu_s": cpu_s(daemon.pid), "health": daemon.health()[0],
            "rows": sum(v for (name, _), v in metrics.items() if name == "zernel_table_entries"),
            "lost": sum(metrics.lost().values())}


def tick_ms(samples):
    """CPU of a tick: of what a tick is told of, that is simulated with it, and of what asks meanwhile."""
    first, last = samples[0], samples[-1]
    return (last["cpu_s"] - first["cpu_s"]) / ((last["hour"] - first["hour"]) * TICKS_OF_HOUR) * 1e3


def rows_of(first, later):
    """(what, before, after, limit, whether it holds)"""
    held = [(name, mib(most(first, key)), mib(most(later, key)), f"{limit} MiB more",
             most(later, key) <= most(first, key) + limit * MIB)
            for name, key, limit in (("its heap, at most", "heap", 0.25),
                                     ("its tables and buffers, at most", "tables", 0.5))]
    counts = [(name, round(most(first, key)), round(most(later, key)), limit,
               most(later, key) <= most(first, key) * room)
              for name, key, limit, room in (("open files, at rest", "files", "as many", 1),
                                             ("rows of tables in use, at most", "rows", "a tenth more", 1.1))]
    return held + counts + [
        ("CPU of a tick, with what it is told", f"{tick_ms(first):.2f} ms", f"{tick_ms(later):.2f} ms", "1.25 times",
         tick_ms(later) <= 1.25 * tick_ms(first)),
        ("samples in which it was not well", sum(s["health"] != 200 for s in first),
         sum(s["health"] != 200 for s in later), "0", all(s["health"] == 200 for s in first + later)),
        ("events lost", round(most(first, "lost")), round(most(later, "lost")), "0", not most(later, "lost"))]


def day(hours, warm):
    """(rows, samples)"""
    daemon = Daemon("--simulate", binary=FAST)
    daemon.looked_at = True  # what goes wrong in the simulation is in its log
    samples, said = [sample(daemon)], time.monotonic()
    while samples[-1]["hour"] < hours:
        time.sleep(SAMPLE_S)
        daemon.json()
        samples.append(sample(daemon))
        if time.monotonic() > said + 30:
            said = time.monotonic()
            print(f"hour {samples[-1]['hour']:.1f} of {hours:g}", file=sys.stderr)
    first = [s for s in samples if s["hour"] <= warm]
    return rows_of(first, samples[len(first):]), samples
