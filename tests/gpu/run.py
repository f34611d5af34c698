#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What only a machine with a GPU can answer, see docs/GPU.md: run.py [--dry] [WORD], as root, after `make tests`.
--dry: the same on the fake libcuda, which shows that this file itself works. It changes no setting of a GPU and
provokes no error of it.
"""
import ctypes
import json
import os
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..", "real")]

from figures import by, copies  # noqa: E402
from harness import (BUILD, CUDA, Absent, Actor, Daemon, Process, check, equal, folder, main, run, test,  # noqa: E402
                     wait_until)
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


def smi(*what):
    """{name: what nvidia-smi says of the first GPU, as text}."""
    query = ["nvidia-smi", f"--query-gpu={','.join(what)}", "--format=csv,noheader,nounits", "--id=0"]
    done = subprocess.run(query, capture_output=True, text=True)
    return dict(zip(what, done.stdout.strip().split(", ")))


@test
def state_of_the_gpu_as_nvidia_smi_has_it():
    if DRY or not shutil.which("nvidia-smi"):
        raise Absent("no NVML of a driver here")
    daemon = Daemon("--control", f"{folder()}/run/control.sock", "--push-interval-ms", "250")
    companion = Process([os.path.join(BUILD, "zernel-gpu"), "--socket", f"{folder()}/run/gpu.sock", "--interval-ms", "200"],
                        stderr=subprocess.DEVNULL)
    companion.wanted = None
    wait_until(lambda: daemon.metrics().all("zernel_gpu_power_watts"), "what NVML says")
    said = smi("uuid", "memory.used", "memory.total", "power.draw.instant", "enforced.power.limit", "temperature.gpu",
        "clocks.current.memory", "utilization.gpu")

    def of(name, **labels):
        return daemon.metrics().one(f"zernel_gpu_{name}", uuid=said["uuid"], **labels)
    near = {  # what the daemon says, what nvidia-smi does, and how far they may be apart, as they are asked in turn
        "used MiB": (of("vram_bytes", kind="used") / MIB, float(said["memory.used"]), 600),
        "total MiB": (of("vram_bytes", kind="total") / MIB, float(said["memory.total"]), 1024),
        "W": (of("power_watts"), float(said["power.draw.instant"]), 40),
        "limit W": (of("power_limit_watts"), float(said["enforced.power.limit"]), 0.5),
        "degrees": (of("temperature_celsius", sensor="gpu"), float(said["temperature.gpu"]), 5),
        "MHz of memory": (of("clock_hertz", clock="memory") / 1e6, float(said["clocks.current.memory"]), 1),
        "busy": (100 * of("utilization_ratio"), float(said["utilization.gpu"]), 20),
    }
    equal({k: v for k, v in near.items() if abs(v[0] - v[1]) > v[2]}, {}, "figures that differ")
    companion.kill()


def python_with(*modules):
    """A Python that has these, and a GPU."""
    python = os.environ.get("ZERNEL_TORCH_PYTHON") or shutil.which("python3")
    said = run([python, "-c", f"import torch, {', '.join(modules or ('sys',))}; assert torch.cuda.is_available()"])
    if DRY or said.returncode:
        raise Absent(f"{python} with PyTorch and a GPU; ZERNEL_TORCH_PYTHON names another one")
    return python


class Program(Process):
    """One of this folder: it says a line of JSON when it is ready, and for each that it is told."""

    def __init__(self, python, name, *options):
        super().__init__([python, os.path.join(HERE, name), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.wanted = None
        self.said = self.next()

    def next(self):
        return json.loads(self.process.stdout.readline() or '"it ended"')

    def ask(self, what):
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return self.next()


def lines_of(daemon, pid, cause):
    """{function of the program: (count, value)}, of a cause; and the whole of it."""
    told = next((c for c in daemon.json(f"/stacks?pid={pid}")["causes"] if c["cause"] == cause), {"lines": []})
    own = [line for line in told["lines"] if os.path.dirname(line["file"]) == HERE]
    return {line["function"]: (line["count"], line["value"]) for line in own}, told.get("value") or 0


@test
def lines_of_a_training():
    python = python_with()
    for way in ("eager", "graph"):
        daemon = Daemon()
        program = Program(python, "train.py", way)
        equal(program.said, "ready", "what it says first")
        before = lines_of(daemon, program.pid, "gpu")[0].get("read", (0, 0))[1]
        said = program.ask(6)
        time.sleep(2)
        waits, all_waits = lines_of(daemon, program.pid, "gpu")
        got = waits["read"][1] - before
        check(abs(got - said["read_s"]) < 0.05 * said["read_s"], f"{way}: waits of read(): {got}, not {said['read_s']}")
        check(waits["read"][1] > 0.9 * all_waits, f"{way}: waits elsewhere: {waits}")
        launches, _ = lines_of(daemon, program.pid, "launch")
        wanted = {"forward", "backward", "update"} | ({"graphed.<locals>.replay"} if way == "graph" else set())
        equal(wanted - set(launches), set(), f"{way}: functions of which no launch is told: {launches}")
        check(lines_of(daemon, program.pid, "alloc")[0].get("build"), f"{way}: memory that build() took")
        program.end()
        daemon.kill()


@test
def requests_of_a_server():
    python = python_with("aiohttp", "transformers")
    daemon = Daemon()
    server = Program(python, "server.py")
    pid = str(server.pid)
    wait_until(lambda: daemon.metrics().one("zernel_service_info", pid=pid), "the server being watched")
    got = run([python, os.path.join(HERE, "clients.py"), str(server.said), "10", "24"])
    equal(got.returncode, 0, got.stderr)
    said = json.loads(got.stdout)
    wait_until(lambda: daemon.metrics().one("zernel_requests_in_flight", pid=pid) == 0, "no request in flight")
    m = daemon.metrics()
    equal(m.one("zernel_requests_total", pid=pid, code="2xx"), said["requests"], "requests")
    equal(m.one("zernel_request_events_total", pid=pid), said["requests"] * 24, "events")
    for name, want, most in (("first_event", said["first_s"], 0.005 * said["requests"]),
                             ("duration", said["whole_s"], 0.005 * said["requests"]),
                             ("event_gap", said["gaps_s"], 0.02 * said["gaps_s"])):
        told = m.one(f"zernel_request_{name}_seconds_sum", pid=pid)
        check(abs(told - want) < most, f"{name}: {told} s, not {want}")


if __name__ == "__main__":
    sys.argv = [a for a in sys.argv if a != "--dry"]
    main()
