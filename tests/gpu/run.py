#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What only a machine with a GPU can answer, see docs/GPU.md: run.py [--dry] [WORD], as root, after `make tests`.
--dry: the same on the fake libcuda, which shows that this file itself works. It changes no setting of a GPU and
provokes no error of it.
"""
import ctypes
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "real")]

from figures import by, copies  # noqa: E402
from harness import CUDA, Absent, Actor, Daemon, check, equal, main, run, test, wait_until  # noqa: E402
from places import listed, places  # noqa: E402
from procaddr import handed_out  # noqa: E402

DRY = "--dry" in sys.argv
MIB = 1 << 20
HELD = 96 * MIB
KERNELS = """
.version 6.3
.target sm_75
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry spin(.param .u64 ns)
{
	.reg .pred %p;
	.reg .u64 %now, %end, %len;
	ld.param.u64 %len, [ns];
	mov.u64 %now, %globaltimer;
	add.u64 %end, %now, %len;
again:
	mov.u64 %now, %globaltimer;
	setp.lt.u64 %p, %now, %end;
	@%p bra again;
	ret;
}
"""
PROGRAM = f"""
ready(cuda)
module, nothing, spin = c_void_p(), c_void_p(), c_void_p()
ok(cuda.cuModuleLoadData(byref(module), {KERNELS.encode()!r}))
ok(cuda.cuModuleGetFunction(byref(nothing), module, b"nothing"))
ok(cuda.cuModuleGetFunction(byref(spin), module, b"spin"))

def start(kernel, *arguments):
    at = (c_void_p * 4)(*[ctypes.cast(byref(a), c_void_p) for a in arguments])
    ok(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, at, None))
"""


def library():
    """The driver's own, by the loader; a GPU that it has."""
    if DRY:
        return CUDA
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Absent("no libcuda.so.1") from None
    if driver.cuInit(0):
        raise Absent("cuInit says that there is no GPU")
    with open("/proc/self/maps") as maps:
        return os.path.realpath(next(line.split()[-1] for line in maps if "libcuda.so" in line))


def exported(path):
    lines = run(["nm", "-D", "--defined-only", path]).stdout.splitlines()
    return sorted({line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TtWwi" and " cu" in line})


def started():
    path = library()
    daemon, actor = Daemon(), Actor(("cuda", path))
    daemon.attached(path)
    actor.do(PROGRAM)
    return daemon, actor


@test
def functions_are_there_and_are_emulated():
    """Newer drivers may begin otherwise: where a probe is single-stepped a launch costs ten times as much, and counts
    all the same."""
    path = library()
    missing = {row[1] for row in listed(path) if row[2] == "missing"}
    kinds = {f: kind for f, (_, kind) in places(path).items()}
    print(f"  {path}: missing: {', '.join(sorted(missing)) or 'none'}", flush=True)
    equal({"cuLaunchKernel", "cuMemAlloc_v2", "cuStreamSynchronize"} & missing, set(),
        "functions that every driver has")
    equal({f: k for f, k in kinds.items() if not DRY and k not in ("branch", "push", "nop")}, {}, "single-stepped")


@test
def runtimes_are_given_what_is_hooked():
    path = library()
    if DRY:
        raise Absent("the fake library hands out nothing")
    unknown, _, never = handed_out(Actor(("cuda", path)), sorted(places(path)), exported(path))
    equal((unknown, never - {"cuCtxCreate"}), (0, set()), "addresses that are not exported, functions that are never given")


@test
def counts_are_exact():
    daemon, actor = started()
    actor.do("for i in range(1009): start(nothing)")
    actor.do("for i in range(13): ok(cuda.cuStreamSynchronize(None))")
    actor.do(f"blocks = [alloc(cuda, {MIB}) for i in range(17)]; ok(cuda.cuCtxSynchronize())")
    actor.do("host = ctypes.create_string_buffer(4096)")
    actor.do("for i in range(7): ok(cuda.cuMemcpyHtoD_v2(blocks[0], host, c_size_t(4096)))")
    actor.do("for i in range(11): ok(cuda.cuMemcpyDtoH_v2(host, blocks[0], c_size_t(512)))")
    actor.do("for i in range(5): ok(cuda.cuMemcpyDtoDAsync_v2(blocks[1], blocks[0], c_size_t(256), None))")
    actor.do("for block in blocks[3:]: ok(cuda.cuMemFree_v2(block))")
    equal(by(daemon, actor, "zernel_cuda_launches_total", "kind"), {"kernel": 1009}, "launches")
    waits = by(daemon, actor, "zernel_cuda_sync_seconds_count", "call")
    equal(waits, {"stream_synchronize": 13, "ctx_synchronize": 1, "memcpy_htod": 7, "memcpy_dtoh": 11, "mem_free": 14},
        "waits")
    equal(copies(daemon, actor), {"htod": (7, 7 * 4096), "dtoh": (11, 11 * 512), "dtod": (5, 5 * 256)}, "copies")
    used = wait_until(lambda: by(daemon, actor, "zernel_gpu_memory_used_bytes", "gpu_id"), "memory")
    equal(sum(used.values()), 3 * MIB, "memory that is left")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test
def which_gpu_it_is():
    daemon, actor = started()
    actor.do(f"device = (ctypes.c_uint8 * 16)(); ok(cuda.cuDeviceGetUuid(device, 0)); alloc(cuda, {MIB}); answer = "
             f"bytes(device).hex()")
    told = actor.do("answer = bytes(device).hex()")
    used = wait_until(lambda: by(daemon, actor, "zernel_gpu_memory_used_bytes", "gpu_id"), "memory")
    info = {dict(k)["gpu_id"]: dict(k)["uuid"] for k in daemon.metrics().all("zernel_gpu_info")}
    equal([info[gpu].replace("GPU-", "").replace("-", "") for gpu in used], [told], "its UUID")


@test
def a_wait_is_as_long_as_the_kernel():
    if DRY:
        raise Absent("nothing runs on the fake library")
    daemon, actor = started()
    actor.do("taken = 0\nfor i in range(20):\n    start(spin, u64(50_000_000))\n    taken += timed(lambda: "
             "cuda.cuStreamSynchronize(None), 1)[0]")
    took = actor.do("answer = taken") / 1e9
    told = by(daemon, actor, "zernel_cuda_sync_seconds_sum", "call")["stream_synchronize"]
    check(abs(told - took) < 0.01 * took, f"told {told:.4f} s, measured {took:.4f} s")


def smi_mib(pid):
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    rows = [line.split(", ") for line in subprocess.run(query, capture_output=True, text=True).stdout.splitlines()]
    return next((int(used) for owner, used in rows if owner == str(pid) and used.isdigit()), None)


@test
def memory_grows_as_nvidia_smi_has_it():
    if DRY:
        raise Absent("nvidia-smi knows nothing of the fake library")
    daemon, actor = started()
    before = smi_mib(actor.pid)
    if before is None:
        raise Absent("nvidia-smi does not tell the memory of processes here")
    actor.do(f"alloc(cuda, {HELD})")
    time.sleep(1)
    grown = smi_mib(actor.pid) - before
    told = wait_until(lambda: sum(by(daemon, actor, "zernel_gpu_memory_used_bytes", "gpu_id").values()), "memory") / MIB
    equal((grown, told), (HELD / MIB, HELD / MIB), "MiB by nvidia-smi and by the daemon")


if __name__ == "__main__":
    sys.argv = [a for a in sys.argv if a != "--dry"]
    main()
