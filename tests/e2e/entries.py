#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What functions begin with, and where the probe stands then: for each form all calls are counted, and none twice."""
import os
import platform
import shutil

from harness import (CUDA, NCCL, TOOLS, Absent, Actor, Daemon, Driver, check, copy_of, equal, folder, main, run,
                     shared_daemon, test, test_shared, wait_until)
from figures import compare
from places import places

SYNCS = "zernel_cuda_sync_seconds_count"
LAUNCHES = "zernel_cuda_launches_total"
KINDS = {"nop", "push", "landing", "other", "branch", "long_nop"}
# by form of tests/fake/entries.h: how far behind the entry the probe stands, and on what
FORMS = {"thunk": (10, "branch"), "pad_thunk": (14, "branch"), "frame": (0, "push"), "sub": (0, "other"),
         "flags": (3, "branch"),
         "loop": (0, "other"), "long_nop": (0, "long_nop"), "pads": (4, "push")}
TRAP = 0xcc


def need_x86():
    if platform.machine() != "x86_64":
        raise Absent("the forms are x86-64's")


def form(name, library="libcuda.so.1"):
    return os.path.join(TOOLS, "entry", name, library)


def byte_at(actor, library, function, offset):
    return actor.do(f"answer = ctypes.string_at(ctypes.cast({library}.{function}, c_void_p).value + {offset}, 1)[0]")


def counted(path, scenario, nccl=None):
    """Every figure of the driver's report, with its GPU library of this form and with this NCCL."""
    daemon = shared_daemon(expect=["ncclCommAbort"] if "nccl" in scenario else ())
    driver = Driver(scenario, cuda=path, nccl=nccl)
    daemon.attached(path, *([nccl] if nccl else []))
    compare(daemon, driver.start())
    return daemon


def exact(name):
    need_x86()
    path, (at, kind) = form(name), FORMS[name]
    found = places(path)
    few = {f for f in found if found[f] != (at, kind)} if name == "pads" else set()
    equal({f: p for f, p in found.items() if f not in few}, dict.fromkeys(set(found) - few, (at, kind)), "places")
    check(len(few) <= 2 and len(found) >= 70, f"functions of the compiler's that begin otherwise: {few}")
    daemon = counted(path, "memory,launches,syncs,copies")
    actor = Actor(("cuda", path))
    equal(byte_at(actor, "cuda", "cuLaunchKernel", at), TRAP, f"the trap of {name}")
    check(at == 0 or byte_at(actor, "cuda", "cuLaunchKernel", 0) != TRAP, "none at the entry")
    return daemon


@test_shared
def behind_the_compare_of_drivers_525_to_550():
    exact("thunk")


@test_shared
def behind_a_landing_pad_and_the_compare():
    exact("pad_thunk")


@test_shared
def behind_a_landing_pad():
    exact("pads")


@test_shared
def a_frame_before_the_compare_begins_with_a_push():
    exact("frame")


@test_shared
def a_smaller_stack_is_not_passed_over():
    exact("sub")


@test_shared
def behind_a_compare_of_registers():
    exact("flags")


@test_shared
def a_place_that_is_jumped_to_is_not_taken():
    exact("loop")


@test_shared
def a_long_nop_is_a_kind_of_its_own():
    exact("long_nop")


@test_shared
def behind_a_landing_pad_of_nccl():
    need_x86()
    path = form("pads", "libnccl.so.2")
    equal(set(places(path).values()), {(4, "push")}, "places")
    counted(CUDA, "nccl", nccl=path)


@test
def every_kind_is_calibrated():
    daemon = Daemon()
    bias = daemon.metrics().all("zernel_probe_bias_seconds_count")
    equal({dict(k)["first_instruction"] for k in bias}, KINDS, "kinds")
    check(all(v > 0 for v in bias.values()), "samples of each")


# Functions of three bytes and of four, with no gap between them: one that returns at once; a landing pad that goes on
# in the next function, whose calls are its own; two names of one address, and a third right behind the instruction
# there.
SMALL = r"""
#define FUNCTION(name, body) ".globl " name "\n.type " name ", @function\n" name ": " body "\n.size " name ", . - " name "\n"
__asm__(".text\n.balign 16\n"
    FUNCTION("cuLaunchKernel", "xor %eax, %eax\nret")
    FUNCTION("cuLaunchCooperativeKernel", "push %rbx\nxor %eax, %eax\npop %rbx\nret")
    FUNCTION("cuStreamSynchronize", "endbr64")
    FUNCTION("cuEventSynchronize", "push %rbx\nxor %eax, %eax\npop %rbx\nret")
    ".globl cuGraphLaunch\n.type cuGraphLaunch, @function\ncuGraphLaunch:\n"
    FUNCTION("cuGraphLaunch_ptsz", "xor %eax, %eax")
    FUNCTION("cuCtxSynchronize", "nop\nxor %eax, %eax\nret")
    ".size cuGraphLaunch, . - cuGraphLaunch\n");
"""


def small_library():
    source, path = os.path.join(folder(), "small.c"), os.path.join(folder(), "libcuda.so.1")
    with open(source, "w") as file:
        file.write(SMALL)
    built = run(["gcc", "-shared", "-nostdlib", "-o", path, source])
    equal(built.returncode, 0, built.stderr)
    return path


@test_shared
def small_functions_side_by_side():
    need_x86()
    path = small_library()
    equal(places(path), {"cuLaunchKernel": (0, "other"), "cuLaunchCooperativeKernel": (0, "push"),
                         "cuStreamSynchronize": (0, "landing"), "cuEventSynchronize": (0, "push"),
                         "cuGraphLaunch": (0, "other"), "cuGraphLaunch_ptsz": (0, "other"),
                         "cuCtxSynchronize": (0, "nop")},
          "places")
    daemon, actor = shared_daemon(), Actor(("cuda", path))
    daemon.attached(path)
    for function, calls in (("cuLaunchKernel", 7), ("cuLaunchCooperativeKernel", 11), ("cuStreamSynchronize", 13),
                            ("cuEventSynchronize", 17), ("cuGraphLaunch", 3), ("cuGraphLaunch_ptsz", 5),
                            ("cuCtxSynchronize", 19)):
        actor.do(f"[ok(cuda.{function}()) for _ in range({calls})]")
    pid = str(actor.pid)
    metrics = daemon.metrics()
    launches = {dict(k)["kind"]: v for k, v in metrics.all(LAUNCHES, pid=pid).items()}
    equal(launches, {"kernel": 7, "cooperative": 11, "graph": 3 + 5}, "launches")
    syncs = {dict(k)["call"]: v for k, v in metrics.all(SYNCS, pid=pid).items()}
    equal(syncs, {"stream_synchronize": 13, "event_synchronize": 13 + 17, "ctx_synchronize": 3 + 5 + 19},
          "waits, those within another function too")
    equal(metrics.lost(), {}, "what was lost")


@test
def a_copy_that_is_written_over_with_another_form():
    """The same inode: where the probes stood there is something else now, and they go elsewhere."""
    need_x86()
    path = copy_of(CUDA, "libcuda.so.1")
    daemon, idle = Daemon(expect=["was written over while it was in use"]), Actor(("cuda", path))
    idle.wanted = None  # the code under it changes
    daemon.attached(path)
    shutil.copyfile(form("thunk"), path)
    wait_until(lambda: sum(f"functions of {path}" in line for line in daemon.lines()) >= 2, "that it is hooked anew")
    daemon.attached(path)  # until then old traps are in the new code
    driver = Driver("launches", cuda=path)
    idle.kill()
    report = driver.start()
    got = {dict(k)["kind"]: v for k, v in daemon.metrics().all(LAUNCHES, pid=str(driver.pid)).items()}
    equal(got, {k: v for k, v in report["launches"].items() if v}, "launches")


if __name__ == "__main__":
    main()
