# SPDX-License-Identifier: GPL-2.0
"""Faults that are made for real, and what was first in the list of `zernel why`: docs/WHY.md has them as a table, to
which each test that makes one holds what it found. With WRITE=1 it writes that there."""
import os

from harness import ROOT, check, equal

DOCS = os.path.join(ROOT, "docs", "WHY.md")
BEGIN, END = "| a job that | first in the list |\n|---|---|\n", "\n\n"
# In the order of the table. What needs PyTorch is made by tests/pytorch, the others by why.py.
MADE = {
    "healthy": "launches, and waits for its GPU",
    "slow_rank": "three ranks, of which one computes for 0.3 s at each step before it communicates",
    "loader_cpu": "PyTorch, as many loader workers as CPUs, which compute",
    "loader_few": "PyTorch, one loader worker, and CPUs to spare",
    "loader_files": "PyTorch, as many loader workers as CPUs, which read from a disk with `O_DIRECT`",
    "loader_none": "PyTorch, `num_workers=0`, items that are read from files and decoded",
    "copies": "blocking copies at each step",
    "idles": "sleeps for a second at a time",
    "writes": "writes to a disk with `O_DIRECT`, and `fsync()`",
    "reads": "reads from it with `O_DIRECT`",
    "computes": "Python code between launches",
    "launches": "launches that take 2 ms each",
    "short": "the same code, on a CPU that four others want",
    "throttled": "the same code, in a control group with a third of a CPU",
    "lossy": "two ranks that send each other data over TCP, of which every tenth segment is lost",
    "suspended": "`SIGSTOP` to all of its processes, inside a wait for the GPU",
    "4711": "blocking copies, and a process of it is killed for want of memory",
    "grows": "launches, waits for its GPU, and the memory of that fills within minutes",
    "contends": "launches, waits for its GPU, and two of its processes are in the driver at the same time",
}


def rows_of(text):
    at = text.index(BEGIN) + len(BEGIN)
    return at, text[at:text.index(END, at)].split("\n")


def told(name, cause):
    """A fault of MADE and what was first in the list, None: nothing, is a row of the table."""
    row = f"| {MADE[name]} | {f'`{cause}`' if cause else 'nothing'} |"
    with open(DOCS) as file:
        text = file.read()
    at, rows = rows_of(text)
    if os.environ.get("WRITE"):
        found = {r.split(" | ")[0]: r for r in [*rows, row]}
        new = [found[f"| {what}"] for what in MADE.values() if f"| {what}" in found]
        with open(DOCS, "w") as file:
            file.write(text[:at] + "\n".join(new) + text[at + len("\n".join(rows)):])
        rows = new
    check(row in rows, f"{row} is not in the table of docs/WHY.md: {rows}")


def whole():
    """The table has a row for each of MADE, and no other."""
    with open(DOCS) as file:
        rows = rows_of(file.read())[1]
    equal([r.split(" | ")[0] for r in rows], [f"| {what}" for what in MADE.values()],
        "faults of the table in docs/WHY.md")
