#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Vendors' real libraries, called without a GPU: every function of the table that a library has is hooked, at the place
where a probe costs least, and every call is counted. files.sh fetches them; a library that cannot be had is told as
absent.
"""
import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

# noqa: E402
from harness import (BUILD, TOOLS, Absent, Actor, Daemon, Process, application_env, check, equal, folder, main, run,
                     test,
                     wait_until)
from places import places, table  # noqa: E402
from procaddr import handed_out  # noqa: E402

REAL = os.path.join(BUILD, "real")
CHEAP = ("branch", "push", "nop")
TOOLKIT = "/usr/local/cuda/lib64/libnccl.so.2"
STUB = "/usr/local/cuda/lib64/stubs/libcuda.so"


def need(path):
    if not os.path.exists(path):
        raise Absent(f"no {path}")
    return os.path.realpath(path)


def real(name, library):
    return need(os.path.join(REAL, name, library))


def exported(path):
    """Functions that a library defines for others."""
    lines = run(["nm", "-D", "--defined-only", path]).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TtWwi"}


# Functions that read what they are given before they look whether there is a device: so many pointers they need, or
# what they need cannot be had.
POINTERS = {"cuMemcpy3DPeer": 1, "cuMemcpy3DPeer_ptds": 1, "cuMemcpy3DPeerAsync": 1, "cuMemcpy3DPeerAsync_ptsz": 1}
UNCALLED = {"ncclCommShrink", "ncclAllToAll"}


class Caller(Process):
    """caller.c with a library; with the libraries that came with it where it has some, or that it came with."""

    def __init__(self, path):
        own = os.path.dirname(path)
        beside = own if os.path.basename(own) == "lib" else os.path.join(own, "lib")
        loader = glob.glob(os.path.join(beside, "ld-linux*"))
        before = [loader[0], "--library-path", beside] if loader else []
        super().__init__([*before, os.path.join(TOOLS, "caller"), path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, env=application_env({"NCCL_DEBUG": ""}))
        equal(self.process.stdout.readline(), "ready\n", f"the caller with {path}")

    def call(self, calls):
        """{function: times}; their results."""
        got = {}
        for function, times in calls.items():
            self.process.stdin.write(f"{function} {times} {POINTERS.get(function, 0)}\n")
            self.process.stdin.flush()
            name, result = self.process.stdout.readline().split()
            got[name] = result
        return got


def hits(daemon):
    return {dict(k)["family"]: v for k, v in daemon.metrics().all("zernel_probe_hits_total").items()}


def numbers(functions):
    """A number of calls for each that tells it from the others: no two sums of few of them are alike by chance."""
    return {function: 3 + 2 * i for i, function in enumerate(sorted(functions))}


def exact(path, expect=(), inner=None, kinds=CHEAP):
    """Each row is hooked or missing as the library's own table has it, and each call is one hit of its family. inner:
    how many other hooked functions a function calls by their exported names; kinds: what probes may stand on."""
    rows, listed, own = table(path), places(path), exported(path)
    equal(set(listed), {row for row in rows if row in own}, "rows that the library has")
    equal({f: p for f, p in listed.items() if p[1] not in kinds and f not in SLOW}, {},
        "places where each call is single-stepped")
    daemon, caller = Daemon(expect=expect), Caller(path)
    daemon.attached(path)
    equal(daemon.metrics().library(path), {row: int(row in own) for row in rows}, "what is attached")
    calls = numbers(set(listed) - UNCALLED)
    results = caller.call(calls)
    check("missing" not in results.values(), f"functions that the loader does not find: {results}")
    want = dict.fromkeys(hits(daemon), 0)
    for function, times in calls.items():
        want[rows[function]] += times * (1 + (inner or {}).get(function, 0))
    equal(wait_until(lambda: hits(daemon), "hits"), want, "calls by family")
    equal(daemon.metrics().lost(), {}, "what was lost")
    return daemon, caller, calls, listed


def by_label(daemon, name, label, caller):
    return {dict(k)[label]: v for k, v in daemon.metrics().all(name, pid=str(caller.pid)).items()}


def added(calls, *functions):
    return sum(calls.get(f, 0) for f in functions)


def driver(path):
    """Of a libcuda that was never initialized: each call fails, and is counted as what it is."""
    daemon, caller, calls, listed = exact(path)
    kernel = added(calls, *(f"cuLaunchKernel{s}" for s in ("", "_ptsz", "Ex", "Ex_ptsz")))
    cooperative = added(calls, "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz")
    graph = added(calls, "cuGraphLaunch", "cuGraphLaunch_ptsz")
    equal(by_label(daemon, "zernel_cuda_launches_total", "kind", caller),
          {"kernel": kernel, "cooperative": cooperative, "graph": graph}, "launches")
    errors = daemon.metrics().one("zernel_cuda_launch_errors_total", pid=str(caller.pid))
    equal(errors, kernel + cooperative + graph, "launches that failed")
    syncs = by_label(daemon, "zernel_cuda_sync_seconds_count", "call", caller)
    equal(syncs["stream_synchronize"], added(calls, "cuStreamSynchronize", "cuStreamSynchronize_ptsz"),
        "waits for a stream")
    equal(syncs["mem_free"], added(calls, "cuMemFree_v2"), "frees")
    return listed


def behind_the_compare(name):
    listed = driver(real(name, "libcuda.so.1"))
    equal(set(listed.values()), {(10, "branch")}, "places")


@test
def driver_525():
    behind_the_compare("cuda-525")


@test
def driver_535():
    behind_the_compare("cuda-535")


@test
def driver_550():
    behind_the_compare("cuda-550")


@test
def runtimes_are_given_what_is_hooked():
    """cuCtxCreate is given to who asks as CUDA 2.0 alone, with functions of 32 bits; others take it by its name."""
    for name in ("cuda-525", "cuda-535", "cuda-550"):
        path = real(name, "libcuda.so.1")
        functions = sorted(places(path))
        check(len(functions) > 100, f"functions of {name} that are hooked: {len(functions)}")
        all_of_them = sorted(f for f in exported(path) if f.startswith("cu"))
        equal(handed_out(Actor(("cuda", path)), functions, all_of_them), (0, set(), {"cuCtxCreate"}),
            f"{name} by cuGetProcAddress")


@test
def stub_of_the_toolkit():
    exact(need(STUB))


OPERATIONS = {"AllReduce": "all_reduce", "Reduce": "reduce", "Broadcast": "broadcast", "AllGather": "all_gather",
              "ReduceScatter": "reduce_scatter", "Send": "send", "Recv": "recv"}


SLOW = {"ncclBcast"}  # of NCCL 2: a wrapper for old programs, which begins with nothing that is emulated


def collectives(path, inner, kinds=CHEAP):
    daemon, caller, calls, _ = exact(path, ["ncclCommAbort"], inner, kinds)
    got = by_label(daemon, "zernel_nccl_calls_total", "op", caller)
    want = {op: calls[f"nccl{f}"] for f, op in OPERATIONS.items()}
    want["broadcast"] += calls["ncclBcast"]  # once each, whether it calls the other one or not
    equal({op: got.get(op) for op in want}, want, "operations")
    caller.call({"ncclGroupEnd": calls["ncclGroupStart"]})
    equal(groups(daemon, caller), 1, "groups of the program")
    caller.call({"ncclSend": 5})  # where it makes a group for itself, that is not the program's
    equal(groups(daemon, caller), 1, "groups, after sends alone")


def groups(daemon, caller):
    return daemon.metrics().one("zernel_nccl_group_seconds_count", pid=str(caller.pid)) or 0


@test
def nccl_2_22():
    collectives(real("nccl-2.22", "libnccl.so.2"), {"ncclBcast": 1, "ncclSend": 2, "ncclRecv": 2})  # a group each


@test
def nccl_2_29():
    collectives(real("nccl-2.29", "libnccl.so.2"), {"ncclBcast": 1})


@test
def rccl_5_4():
    """Debian's build has a landing pad before each frame, and some frames begin without a push."""
    collectives(real("rccl-5.4", "librccl.so.1"), {"ncclGather": 1, "ncclScatter": 1, "ncclSend": 2, "ncclRecv": 2},
        (*CHEAP, "landing"))


def hip(path, kinds=CHEAP, inner=None):
    """Of a HIP without a GPU: each call fails, and is counted as what it is."""
    daemon, caller, calls, listed = exact(path, inner=inner, kinds=kinds)
    kernel = added(calls, *(f for f in calls if "Launch" in f and "Cooperative" not in f and "Graph" not in f))
    cooperative = added(calls, *(f for f in calls if "Cooperative" in f))
    graph = added(calls, "hipGraphLaunch", "hipGraphLaunch_spt")
    equal(by_label(daemon, "zernel_cuda_launches_total", "kind", caller),
          {"kernel": kernel, "cooperative": cooperative, "graph": graph}, "launches")
    syncs = by_label(daemon, "zernel_cuda_sync_seconds_count", "call", caller)
    equal(syncs["stream_synchronize"], added(calls, "hipStreamSynchronize", "hipStreamSynchronize_spt"),
        "waits for a stream")
    equal(syncs["ctx_synchronize"], added(calls, "hipDeviceSynchronize", "hipCtxSynchronize"), "waits for the device")
    equal(syncs["mem_free"], calls["hipFree"], "frees")
    return listed


@test
def hip_5_2():
    hip(real("hip-5.2", "libamdhip64.so.5"))


@test
def hip_5_7():
    hip(real("rccl-5.4", os.path.join("lib", "libamdhip64.so.5")))


@test
def hip_6_4():
    """Debian's build has a landing pad before each function, and most go on with a subtraction, which the kernel
    single-steps."""
    hip(real("hip-6.4", "libamdhip64.so.6"), (*CHEAP, "landing"))


@test
def nccl_of_the_toolkit():
    collectives(need(TOOLKIT), {"ncclBcast": 1})


@test
def nvml_without_a_driver():
    """zernel-gpu with each: its functions are there, under one of the names that they had, and it says why it can ask nothing."""
    with open(os.path.join(HERE, "..", "..", "contrib", "gpu", "nvml.h")) as file:
        rows = re.findall(r"X\(\w+, .*?((?:\"\w*\",?\s*)+)\)", file.read().replace("\\\n", ""))
    wanted = [set(re.findall(r'"(\w+)"', row)) for row in rows]
    check(len(wanted) > 30, f"functions that are asked for: {len(wanted)}")
    for name in ("nvml-525", "nvml-535", "nvml-550"):
        path = real(name, "libnvidia-ml.so.1")
        have = exported(path)
        equal([names for names in wanted if not names & have], [], f"what {name} lacks")
        said = run([os.path.join(BUILD, "zernel-gpu"), "--once", "--library", path])
        equal((said.returncode, said.stdout.splitlines()[1:]), (1, ["why nvmlInit: the driver is not loaded (9)"]), name)


@test
def what_the_archive_lacks_is_told():
    config, to = os.path.join(folder(), "apt.conf"), os.path.join(folder(), "real")
    with open(config, "w") as file:
        file.write('Acquire::http::Proxy "http://127.0.0.1:9"; Acquire::https::Proxy "http://127.0.0.1:9";\n')
    fetched = run([os.path.join(HERE, "files.sh"), to], env={**os.environ, "APT_CONFIG": config}, timeout=600)
    lines = fetched.stdout.splitlines()
    equal((fetched.returncode, fetched.stderr, os.listdir(to)), (0, "", []), "nothing is fetched, and nothing stays")
    check(lines and all(line.startswith("absent: ") for line in lines), f"what is said of it: {lines}")


if __name__ == "__main__":
    subprocess.run([os.path.join(HERE, "files.sh"), REAL], check=False)
    main()
