# SPDX-License-Identifier: GPL-2.0
"""How what the daemon does grows: scrapes and memory with processes, ticks with jobs. Draws it, and says where it
bends."""
import os
import subprocess

from common import BUILD
from draw import draw

PROCESSES, JOBS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], [1, 2, 4, 8, 16, 32, 64, 128, 256]
TIMES = 60
IMAGES = "docs/images"
BEND = 1.5  # a step is a bend where it costs so much more for each one than the cheapest step so far did
SMALL = 0.1  # of the greatest value: below it what is fixed decides, and no bend is looked for
# (file, title, what it grows with, unit, [(name, what of growth.c, column, by)])
CURVES = (
    ("growth-scrape", "CPU time of a scrape", "processes, 8 in a job", "ms",
     PROCESSES, [("all series", "scrape", 0, 1e6), ("jobs and node", "jobs", 0, 1e6)]),
    ("growth-page", "Bytes of a scrape", "processes, 8 in a job", "KiB",
     PROCESSES, [("all series", "scrape", 1, 1024), ("jobs and node", "jobs", 1, 1024)]),
    ("growth-memory", "Resident memory, beyond that of no process", "processes, 8 in a job", "MiB",
     PROCESSES, [("all series", "scrape", 2, 1 << 20)]),
    ("growth-tick", "CPU time of a tick", "jobs, a process in each", "ms", JOBS, [("a tick", "tick", 0, 1e6)]),
)


def bends(xs, ys):
    """From where on a further one costs BEND times what it cost before: what is fixed at the beginning does not
    count."""
    small = SMALL * max(ys)
    least = None
    for x0, y0, x1, y1 in zip(xs, ys, xs[1:], ys[1:]):
        slope = (y1 - y0) / (x1 - x0)
        if y1 - y0 <= small:
            continue
        if least is not None and slope > BEND * least:
            return x1
        least = slope if least is None else min(least, slope)
    return None


def picture(run, file, title, axis, unit, xs, lines):
    """Draws one, and a row for each of its lines."""
    os.makedirs(IMAGES, exist_ok=True)
    with open(f"{IMAGES}/{file}.svg", "w") as f:
        f.write(draw(title, axis, unit, xs, lines))
    for name, ys in lines:
        bend = bends(xs, ys)
        run.row(f"[{title}](images/{file}.svg), {name}, {axis}: {xs[0]}, {xs[len(xs) // 2]}, {xs[-1]}",
                f"{ys[0]:.3g}, {ys[len(xs) // 2]:.3g}, {ys[-1]:.3g} {unit}", f"bends at {bend}" if bend
                else "straight")


def bench_growth(run):
    cache = {}

    def measure(what, n):
        if (what, n) not in cache:
            out = subprocess.check_output([f"{BUILD}/bench/growth", what, str(n), str(TIMES)], text=True)
            cache[what, n] = [float(x) for x in out.split()]
        return cache[what, n]

    for file, title, axis, unit, xs, lines in CURVES:
        got = [(name, [measure(what, x)[column] / by for x in xs]) for name, what, column, by in lines]
        picture(run, file, title, axis, unit, xs, got)
    run.note("Growth", f"""Over memory, with two histograms for each process; the least of {TIMES} times, as CPU time.
        A line bends where one more costs {BEND} times what it cost before, by more than a tenth of the greatest
        value. What the kernel adds to hand a page over is not in it.""")
