# SPDX-License-Identifier: GPL-2.0
"""What a daemon holds."""
import contextlib
import os
import re

MIB = 1 << 20


def mib(value):
    return f"{value / MIB:.2f} MiB"


def most(samples, what):
    return max(s[what] for s in samples)


def resident(pid):
    """Its own pages, without those of mapped kernel tables and of its file: (of its heap, of its tables and buffers)."""
    held, heap = [0, 0], False
    with contextlib.suppress(OSError), open(f"/proc/{pid}/smaps") as file:
        for line in file:
            if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                heap = line.rstrip().endswith("[heap]")
            elif line.startswith("Anonymous:"):
                held[not heap] += int(line.split()[1]) << 10
    return held


def cpu_s(pid):
    with open(f"/proc/{pid}/stat") as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
