#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""bench.py OUTPUT [PART...]: measures what zerneld costs and writes it as a Markdown table; of PARTs, names of
BENCHES, it only says what they measured.

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


def page(run, load_before):
    version = subprocess.check_output([DAEMON, "--version"], text=True).split()[1]
    lines = ["# Benchmarks", "",
             "Written by `make bench`; do not edit. Comparisons are ratios measured in turns within one run;",
             "a spread is the lowest and the highest of the turns. Absolute times depend on the machine.", "",
             f"{time.strftime('%Y-%m-%d')}, zerneld {version}, Linux {platform.release()}, {cpu_model()},",
             f"{os.cpu_count()} cores, load average {load_before:.2f} before and {os.getloadavg()[0]:.2f} after.", "",
             "| what | measured | spread | limit | within |", "|---|---|---|---|---|"]
    lines += ["| " + " | ".join(row) + " |" for row in run.rows]
    lines += ["", "## How it was measured", ""]
    for title, text in run.notes:
        lines += textwrap.wrap(f"- **{title}.** {text}", 118, subsequent_indent="  ", break_on_hyphens=False,
            break_long_words=False)
    return "\n".join(lines) + "\n"


def chosen(parts):
    known = {name: bench for name, *bench in BENCHES}
    unknown = [part for part in parts if part not in known]
    if unknown:
        names = "; ".join(f"{name}: {what}" for name, _, what in BENCHES)
        sys.exit(f"bench.py: no part {unknown[0]!r}; there are: {names}")
    return [known[name] for name, _, _ in BENCHES if not parts or name in parts]


def main():
    if len(sys.argv) < 2 or os.geteuid():
        sys.exit("usage: bench.py OUTPUT [PART...], as root")
    benches = chosen(sys.argv[2:])
    if os.cpu_count() < 2:
        sys.exit("bench.py: needs two cores")
    run, load_before = Run(), os.getloadavg()[0]
    try:
        run.alone()
        for bench, what in benches:
            print(f"{what}:", flush=True)
            start = time.monotonic()
            bench(run)
            print(f"  ({time.monotonic() - start:.0f} s)")
        if len(benches) == len(BENCHES):
            with open(sys.argv[1], "w") as f:
                f.write(page(run, load_before))
    finally:
        shutil.rmtree(run.folder)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    main()
