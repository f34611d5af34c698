# SPDX-License-Identifier: GPL-2.0
"""Draws curves as SVG."""
import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 320, 64, 16, 40, 48
COLORS = ("#1f77b4", "#d95f02", "#1b9e77")
# who reads with light letters on a dark page sees the picture so, too
STYLE = """<style>rect{fill:#fff}text{fill:#1f2328}.grid{stroke:#ddd}.of0{fill:#1f77b4}.of1{fill:#b84a00}
.of2{fill:#15795b}
@media(prefers-color-scheme:dark){rect{fill:#0d1117}text{fill:#e6edf3}.grid{stroke:#30363d}
.of0{fill:#6cb6ff}.of1{fill:#ffa657}.of2{fill:#4cc9a0}}</style>"""


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
           f"<title>{title}</title>", STYLE, f'<rect width="{WIDTH}" height="{HEIGHT}"/>',
           f'<text x="{LEFT}" y="22" font-size="14">{title}, {unit}</text>']
    for y in ticks_of(most_y):
        at = place(0, y)[1]
        out += [f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" class="grid"/>',
                f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{y:g}</text>']
    for x in ticks_of(most_x):
        out.append(f'<text x="{place(x, 0)[0]:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{x:g}</text>')
    out.append(f'<text x="{(WIDTH + LEFT) / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{axis}</text>')
    for i, (name, ys) in enumerate(lines):
        points = [place(x, y) for x, y in zip(xs, ys)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        out += [f'<polyline points="{path}" fill="none" stroke="{COLORS[i]}" stroke-width="2"/>']
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="of{i}"/>' for x, y in points]
        out.append(f'<text x="{LEFT + 12}" y="{TOP + 14 + 16 * i}" class="of{i}">{name}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"
