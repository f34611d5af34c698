#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""bench.py OUTPUT [PART...]: measures what zerneld costs, or PARTs of it, names of BENCHES, and writes each part as a
section of a Markdown page, where it takes the place of what was measured before.

Runs as root on an otherwise idle machine with two cores or more, after `make tests bench-tools`. What is compared is
measured in turns within one run, and medians of the turns are shown with their spread. Nothing here is a test: a
figure over its limit is written down as such. Libraries are copied to a folder of this run, but every other zerneld
that runs meanwhile hooks them too, so there must be none: live tests wait for it, and it for them.
"""
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
import traceback

from common import DAEMON, Run
from calls import bench_bias, bench_kernel, bench_launch, bench_record
from node import bench_cpu, bench_crowd, bench_mapping, bench_memory, bench_start
from loop import bench_loop
from budget import bench_budget
from growth import bench_growth
from stacks import bench_stacks
from requests import bench_requests
from serving import bench_scrape, bench_snapshots, bench_tick

BENCHES = (("call", bench_launch, "the cost of a call"),
           ("kernel", bench_kernel, "the cost of a system call and of a switch"),
           ("recording", bench_record, "recording"), ("scrapes", bench_scrape, "scrapes"),
           ("snapshots", bench_snapshots, "snapshots"), ("loop", bench_loop, "a training loop"),
           ("stacks", bench_stacks, "stacks"), ("requests", bench_requests, "requests of servers"),
           ("start", bench_start, "start and stop"), ("memory", bench_memory, "memory"),
           ("size", bench_mapping, "size and mapping"), ("crowd", bench_crowd, "a crowded node"),
           ("bias", bench_bias, "bias"),
           ("cpu", bench_cpu, "CPU of the daemon"), ("ticks", bench_tick, "ticks"), ("budget", bench_budget, "budget"),
            ("growth", bench_growth, "growth"))


def cpu_model():
    with open("/proc/cpuinfo") as f:
        return re.search(r"model name\s*: (.*)|CPU part\s*: (.*)", f.read())[0].split(":")[1].strip()


HEAD = """# Benchmarks

Written by `make bench`; do not edit. Each part says when it was measured, and on what: `make bench PARTS='call memory'`
measures these anew and leaves the others as they are. Comparisons are ratios measured in turns within one run; a spread
is the lowest and the highest of the turns. Absolute times depend on the machine.
"""


def heading(what):
    return what[0].upper() + what[1:]


def section(run, load_before):
    """What one part measured, and how."""
    version = subprocess.check_output([DAEMON, "--version"], text=True).split()[1:]
    lines = textwrap.wrap(
        f"{time.strftime('%Y-%m-%d')}, zerneld {' '.join(version)}, Linux {platform.release()}, {cpu_model()}, "
        f"{os.cpu_count()} cores, load average {load_before:.2f} before and {os.getloadavg()[0]:.2f} after.", 118)
    lines += ["", "| what | measured | spread | limit | within |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in run.rows]
    lines += [""] if run.notes else []
    for title, text in run.notes:
        lines += textwrap.wrap(f"- **{title}.** {text}", 118, subsequent_indent="  ", break_on_hyphens=False,
            break_long_words=False)
    return "\n".join(lines) + "\n"


def sections_of(path):
    """{heading: what is below it} of a page that was written before."""
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        parts = re.split(r"(?m)^## (.*)\n", f.read())
    return {title: text.strip("\n") + "\n" for title, text in zip(parts[1::2], parts[2::2])}


def write_page(path, sections):
    """In the order of BENCHES."""
    titles = [heading(what) for *_, what in BENCHES]
    with open(path, "w") as f:
        f.write("\n".join([HEAD] + [f"## {t}\n\n{sections[t]}" for t in titles if t in sections]))


def chosen(parts):
    known = {name: bench for name, *bench in BENCHES}
    unknown = [part for part in parts if part not in known]
    if unknown:
        names = "; ".join(f"{name}: {what}" for name, _, what in BENCHES)
        sys.exit(f"bench.py: no part {unknown[0]!r}; there are: {names}")
    return [known[name] for name, _, _ in BENCHES if not parts or name in parts]


def measure(run, bench, what, path):
    """One part, and its section of the page. False: it failed, and its section is as it was."""
    print(f"{what}:", flush=True)
    start, load_before = time.monotonic(), os.getloadavg()[0]
    run.rows, run.notes = [], []
    try:
        bench(run)
    except Exception:  # whatever it is, the other parts are measured
        traceback.print_exc()
        return False
    print(f"  ({time.monotonic() - start:.0f} s)", flush=True)
    write_page(path, sections_of(path) | {heading(what): section(run, load_before)})
    return True


def main():
    if len(sys.argv) < 2 or os.geteuid():
        sys.exit("usage: bench.py OUTPUT [PART...], as root")
    benches = chosen(sys.argv[2:])
    if os.cpu_count() < 2:
        sys.exit("bench.py: needs two cores")
    run, failed = Run(), []
    try:
        run.alone()
        for bench, what in benches:
            if not measure(run, bench, what, sys.argv[1]):
                failed.append(what)
    finally:
        shutil.rmtree(run.folder)
    sys.exit(f"bench.py: it failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
