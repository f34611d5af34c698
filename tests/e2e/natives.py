#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Examples of native stacks: below the functions of Python, and of programs without it, function by function as they
are nested; of calls, of sleeps and on the CPU. That there are none by default, stacks.py sees."""
import os
import re
import subprocess
import sys

from harness import CUDA, TOOLS, Daemon, Process, application_env, check, equal, main, test, wait_until

NEST, LIBRARY = os.path.join(TOOLS, "nest"), os.path.join(TOOLS, "libnest.so")
SCRIPT = """
import ctypes, sys
cuda, nest = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
def inner():
    nest.nest_call(cuda.cuLaunchKernel)
def asleep():
    nest.nest_sleep()
print("ready", flush=True)
for line in sys.stdin:
    inner() if line == "call\\n" else asleep()
    print("done", flush=True)
"""


class Program(Process):
    def __init__(self, *argv):
        super().__init__(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=application_env(None))
        equal(self.process.stdout.readline(), "ready\n", "what it says first")

    def do(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        equal(self.process.stdout.readline(), "done\n", "what it says then")


def frames(d, pid, cause):
    """[[frame]], outermost first, of all stacks of one cause."""
    return [line.rpartition(" ")[0].split(";")[:-1] for line in
            d.get(f"/stacks/folded?pid={pid}&cause={cause}").splitlines()]


def example(d, p, cause, what, function=""):
    """What is above and below, once there is an example of this cause, and below this function of Python."""
    def there():
        p.do(what)
        return [f for f in frames(d, p.pid, cause) if "[native example]" in f and function in ";".join(f)]
    found = wait_until(there, f"an example of {cause}", 40, seen=lambda: frames(d, p.pid, cause))
    return found[0][:found[0].index("[native example]")], found[0][found[0].index("[native example]") + 1:]


CALL = ["nest_call", "nest::middle", "nest::inner::compare"]
SORTS = re.compile(r"qsort|msort|0x")  # what the C library calls between them


def names(native):
    return [f.partition(" (")[0] for f in native]


def inside(got, want, what):
    """The innermost functions, but for those that sort."""
    got = [n for n in names(got) if not SORTS.match(n)]
    equal(got[-len(want):], want, what)


def without_python(d):
    p = Program(NEST, CUDA)
    above, native = example(d, p, "launch", "call")
    equal(above, ["[thread nest]"], "what is known besides")
    check("(truncated)" not in native, f"it is whole: {native}")
    inside(native, ["main", "nest_loop", "nest_read", *CALL], "the functions that launched")
    _, native = example(d, p, "other", "sleep")  # or its wait for the next line
    got = [n for n in names(native) if not SORTS.match(n)]
    rest = got[got.index("main"):]
    check(rest[:4] == ["main", "nest_loop", "nest_read", "nest_sleep"] and "nanosleep" in rest[-1]
          or rest[:3] == ["main", "nest_loop", "fgets"] and "read" in rest[-1], f"the functions that slept: {native}")
    _, native = example(d, p, "cpu", "work")
    # what leads to a launch computes too, and so does all else that it does, if the clock's turn falls into one
    got = names(native)
    equal(got[got.index("main"):][:2], ["main", "nest_loop"], f"what computed: {native}")
    (process,) = (q for q in d.json("/stacks")["processes"] if q["pid"] == p.pid)
    equal(process["python"], None, "its Python")
    q = Program(NEST, CUDA, "thread")
    _, native = example(d, q, "launch", "call")
    inside(native, ["nest_loop", "nest_read", *CALL], "the functions of another thread")
    check("main" not in names(native) and "(truncated)" not in native, f"it begins with its thread: {native}")
    p.end()
    q.end()


def below_python(d):
    p = Program(sys.executable, "-c", SCRIPT, CUDA, LIBRARY)
    above, native = example(d, p, "launch", "call")
    equal(names(above), ["<module>", "inner"], "the functions of Python")
    check("(truncated)" not in native, f"it is whole: {native}")
    inside(native, CALL, f"what it called: {native}")
    check(all("libnest.so" in f for f in native if "nest" in f), f"in which library: {native}")
    check(not any("PyEval" in f for f in native), f"it ends where Python begins: {native}")
    above, native = example(d, p, "other", "sleep", "asleep (")
    equal(names(above), ["<module>", "asleep"], "the functions of Python that sleep")
    check("nest_sleep" in names(native) and "nanosleep" in names(native)[-1], f"what it slept in: {native}")
    p.end()


@test
def native_examples():
    d = Daemon("--probes", "gpu,cuda,nccl,sched,stacks", "--stacks", "native")
    without_python(d)
    below_python(d)
    equal(d.metrics().lost(), {}, "losses")


if __name__ == "__main__":
    main()
