#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Stacks of Python where a clock interrupts it, some fifty times as often as the daemon's own: whole, and none of them
wrong."""
import ast
import ctypes
import os
import re
import struct
import time

from harness import ROOT, check, equal, main, test
from stacks import Stacks, folded, live, pythons

GRAPH = os.path.join(ROOT, "tests", "fake", "graph.py")
PERIOD_NS = 400000
SECONDS = "1.5"
AT_ONCE = 3  # as many as find room for their stacks
SYS_BPF, SYS_PERF_EVENT_OPEN, SET_BPF = 321, 298, 0x40042408
PROG_GET_FD_BY_ID, PERF_EVENT_PROGRAM = 13, "7"
FULL = r"quota: stacks of Python functions: \d+ refused"
libc = ctypes.CDLL(None, use_errno=True)


def clock_program(d):
    """A descriptor of the daemon's program that its clocks run: the only one of its kind."""
    programs = {re.search(r"^prog_id:\s*(\d+)", said, re.M)[1] for _, _, said in d.descriptors()
                if re.search(rf"^prog_type:\s*{PERF_EVENT_PROGRAM}$", said, re.M)}
    equal(len(programs), 1, f"programs of events: {programs}")
    attr = ctypes.create_string_buffer(struct.pack("I", int(programs.pop())), 128)
    fd = libc.syscall(SYS_BPF, PROG_GET_FD_BY_ID, attr, 128)
    check(fd >= 0, f"that program: {os.strerror(ctypes.get_errno())}")
    return fd


class Clock:
    """Runs the daemon's program on each CPU, at each period of its time."""

    def __init__(self, d):
        program = clock_program(d)
        self.events = []
        for cpu in os.sched_getaffinity(0):
            # software, cpu-clock, exclude_idle
            attr = ctypes.create_string_buffer(struct.pack("IIQQQQQ", 1, 64, 0, PERIOD_NS, 0, 0, 1 << 7), 64)
            event = libc.syscall(SYS_PERF_EVENT_OPEN, attr, -1, cpu, -1, 8)
            check(event >= 0, f"an event: {os.strerror(ctypes.get_errno())}")
            equal(libc.ioctl(event, SET_BPF, program), 0, "the program on it")
            self.events.append(event)
        os.close(program)

    def close(self):
        for event in self.events:
            os.close(event)


class Graph:
    """What the source allows: {function: (first line, last line, {other function: lines that name it})}."""

    def __init__(self, path):
        self.path, self.of = path, {}
        with open(path) as file:
            functions = [n for n in ast.parse(file.read()).body if isinstance(n, ast.FunctionDef)]
        names = {f.name for f in functions}
        for f in functions:
            lines = {}
            for n in ast.walk(f):
                if isinstance(n, ast.stmt) and not hasattr(n, "body"):
                    for m in ast.walk(n):
                        if isinstance(m, ast.Name) and m.id in names:
                            lines.setdefault(m.id, set()).update(range(n.lineno, n.end_lineno + 1))
                elif isinstance(n, ast.For):
                    for m in ast.walk(n.iter):
                        if isinstance(m, ast.Name) and m.id in names:
                            lines.setdefault(m.id, set()).add(n.lineno)
            self.of[f.name] = (f.lineno, f.end_lineno, lines)

    def allows(self, stack):
        stack = re.sub(r";?(\[thread \S+\]|\(no function\))$", "", stack)  # a thread is born, or ends
        if not stack:
            return True
        stack = re.sub(r"\(([^():]+)\)$", r"(\1:0)", stack)  # an instruction that is of no line
        frames = [re.fullmatch(r"(\S+) \((.*):(\d+)\)", frame) for frame in stack.split(";")]
        if not all(frames):
            return False
        frames = [(f[1], f[2], int(f[3])) for f in frames]
        for (name, path, line), (callee, path_of_callee, _) in zip(frames, frames[1:] + [(None, None, 0)]):
            if path != self.path or name == "<module>":
                continue
            if name not in self.of or (line or callee) and not self.of[name][0] <= line <= self.of[name][1]:
                return False
            if path_of_callee == self.path and line not in self.of[name][2].get(callee, ()):
                return False
        return True


@test
def stacks_interrupted_anywhere():
    d, graph = live(), Graph(GRAPH)
    versions = list(pythons().items())
    total, bad = 0, {}
    for first in range(0, len(versions), AT_ONCE):
        some = {name: Stacks(SECONDS, program=program, script=GRAPH).known(d)
                for name, program in versions[first:first + AT_ONCE]}
        clock = Clock(d)
        for p in some.values():
            p.begin()
        for name, p in some.items():
            p.answer()
        clock.close()
        time.sleep(1.2)
        for name, p in some.items():
            samples, (cpu,) = folded(d, p.pid, "cpu"), d.json(f"/stacks?pid={p.pid}&cause=cpu")["causes"]
            whole = sum(samples.values())  # ns, which come to what it was on the CPU, however many samples there are
            left_out = cpu["count"] * samples.pop("(no room)", 0) // whole  # each instruction is a stack of its own
            count, torn = cpu["count"] - left_out, round(cpu["count"] * samples.pop("(unreadable)", 0) / whole)
            equal([s for s in samples if not graph.allows(s)], [], f"stacks of {name} that its source does not allow")
            check(count > 300, f"samples of {name}: {count}, and {left_out} without room")
            check(torn <= 0.01 * count, f"stacks of {name} that are not whole: {torn} of {count}")
            total, bad[name] = total + count, torn
            p.end()
    d.allow = (FULL,)
    check(sum(bad.values()) <= 0.005 * total, f"{bad} stacks of {total} were not whole")
    print(f"{total} stacks, of which were not whole: {bad}", flush=True)


if __name__ == "__main__":
    main()
