# SPDX-License-Identifier: GPL-2.0
"""How what the daemon does grows: scrapes and memory with processes, ticks with jobs. Draws it, and says where it
bends."""
import math
import os
import subprocess

from common import BUILD

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
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 320, 64, 16, 40, 48
COLORS = ("#1f77b4", "#d95f02")


def ticks_of(most):
    """Round values from 0 to most, some five."""
    step = 10 ** math.floor(math.log10(most / 4)) if most > 0 else 1
    step *= next(f for f in (1, 2, 5, 10) if most / (step * f) <= 6)
    return [i * step for i in range(int(most / step) + 1)]


def draw(title, axis, unit, xs, lines):
    """An SVG of straight axes, so that what grows in proportion is a straight line."""
    most_x, most_y = max(xs), max(max(ys) for _, ys in lines) or 1

    def place(x, y):
        return (LEFT + x / most_x * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - y / most_y * (HEIGHT - TOP - BOTTOM))

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           f'font-size="12">',
           f"<title>{title}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
           f'<text x="{LEFT}" y="22" font-size="14">{title}, {unit}</text>']
    for y in ticks_of(most_y):
        at = place(0, y)[1]
        out += [f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>',
                f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:g}</text>']
    for x in ticks_of(most_x):
        out.append(f'<text x="{place(x, 0)[0]:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    out.append(f'<text x="{(WIDTH + LEFT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{axis}</text>')
    for i, (name, ys) in enumerate(lines):
        points = [place(x, y) for x, y in zip(xs, ys)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out += [f'<polyline points="{path}" fill="none" stroke="{COLORS[i]}" stroke-width="2"/>']
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLORS[i]}"/>' for x, y in points]
        out.append(f'<text x="{LEFT + 12}" y="{TOP + 14 + 16 * i}" fill="{COLORS[i]}">{name}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def bends(xs, ys):
    """From where on a further one costs BEND times what it cost before: what is fixed at the beginning does not
    count."""
    slopes = [(x1, (y1 - y0) / (x1 - x0)) for x0, y0, x1, y1 in zip(xs, ys, xs[1:], ys[1:]) if y1 > SMALL * max(ys)]
    least = slopes[0][1] if slopes else 0
    for x, slope in slopes:
        if slope > BEND * least:
            return x
        least = min(least, slope)
    return None


def bench_growth(run):
    cache = {}

    def measure(what, n):
        if (what, n) not in cache:
            out = subprocess.check_output([f"{BUILD}/bench/growth", what, str(n), str(TIMES)], text=True)
            cache[what, n] = [float(x) for x in out.split()]
        return cache[what, n]

    for file, title, axis, unit, xs, lines in CURVES:
        got = [(name, [measure(what, x)[column] / by for x in xs]) for name, what, column, by in lines]
        os.makedirs(IMAGES, exist_ok=True)
        with open(f"{IMAGES}/{file}.svg", "w") as f:
            f.write(draw(title, axis, unit, xs, got))
        for name, ys in got:
            bend = bends(xs, ys)
            run.row(f"[{title}](images/{file}.svg), {name}, {axis}: {xs[0]}, {xs[len(xs) // 2]}, {xs[-1]}",
                    f"{ys[0]:.3g}, {ys[len(xs) // 2]:.3g}, {ys[-1]:.3g} {unit}", f"bends at {bend}" if bend
                    else "straight")
    run.note("Growth", f"""Over memory, with two histograms for each process; the least of {TIMES} times, as CPU time.
        A line bends where one more costs {BEND} times what it cost before, at more than a tenth of the greatest
        value. What the kernel adds to hand a page over is not in it.""")
