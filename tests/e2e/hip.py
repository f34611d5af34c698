#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""AMD: what programs call of HIP, the device of a thread, which GPU it is, and what amdgpu says in the kernel's log.
The library is a stand-in (tests/fake/hip.c); tests/real calls AMD's own."""
import os
import tempfile

from harness import (CUDA, HIP, ZERNEL, Actor, Daemon, check, equal, folder, main, run, shared_daemon, test,
                     test_shared, wait_until)
from figures import by, copies
from places import table

MIB = 1 << 20
USED, PEAK = "zernel_gpu_memory_used_bytes", "zernel_gpu_memory_peak_bytes"
HELPERS = """
import threading

class Dim3(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint) for name in "xyz"]

one = Dim3(1, 1, 1)

def take(size, name="hipMalloc", *more):
    at = u64()
    ok(getattr(hip, name)(byref(at), c_size_t(size), *more))
    return at

def in_thread(code):
    thread = threading.Thread(target=lambda: exec(code, globals()))
    thread.start()
    thread.join()

def box(words, places):
    at = (c_uint64 * words)()
    for place, value in places.items():
        at[place] = value
    return at
"""
TO_DEVICE, TO_HOST, ON_DEVICE, BY_ADDRESS = 1, 2, 3, 4


def started(daemon=None):
    daemon, actor = daemon or shared_daemon(), Actor(("hip", HIP))
    daemon.attached(HIP)
    actor.do(HELPERS)
    return daemon, actor


def used(daemon, actor):
    """Of a process whose open devices were looked at: before that no memory of it is shown."""
    wait_until(lambda: daemon.metrics().all(USED, pid=str(actor.pid)), "the memory of the process")
    return by(daemon, actor, USED, "gpu_id")


@test_shared
def a_thread_has_a_device():
    daemon, actor = started()
    actor.do(f"first = take({MIB})")
    actor.do(f"ok(hip.hipSetDevice(2)); second = take({2 * MIB})")
    actor.do(f"in_thread('other = take({4 * MIB})')")
    actor.do(f"in_thread('ok(hip.hipSetDevice(3)); take({8 * MIB})')")
    actor.do(f"ok(hip.hipSetDevice(99), 101); take({16 * MIB})")
    equal(used(daemon, actor), {"0": 5 * MIB, "2": 18 * MIB, "3": 8 * MIB}, "memory by GPU")
    actor.do("ok(hip.hipFree(second)); ok(hip.hipFree(first))")
    equal(used(daemon, actor), {"0": 4 * MIB, "2": 16 * MIB, "3": 8 * MIB}, "after two were given back")
    equal(by(daemon, actor, PEAK, "gpu_id"), {"0": 5 * MIB, "2": 18 * MIB, "3": 8 * MIB}, "peaks")
    actor.do("ok(hip.hipDeviceReset())")
    equal(used(daemon, actor), {"0": 4 * MIB, "3": 8 * MIB}, "after the reset of a device")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def a_context_is_a_device_too():
    """As JAX has it: contexts of devices, set before each call."""
    daemon, actor = started()
    actor.do("contexts = [u64() for _ in range(4)]")
    actor.do("[ok(hip.hipDevicePrimaryCtxRetain(byref(c), i)) for i, c in enumerate(contexts)]")
    for device in (3, 1, 2):
        actor.do(f"ok(hip.hipCtxSetCurrent(contexts[{device}])); take({device * MIB})")
    actor.do(f"ok(hip.hipCtxPushCurrent(contexts[0])); take({8 * MIB}); ok(hip.hipCtxPopCurrent(byref(u64()))); "
             f"take({16 * MIB})")
    equal(used(daemon, actor), {"0": 8 * MIB, "1": MIB, "2": 18 * MIB, "3": 3 * MIB}, "memory by GPU")
    actor.do(f"ok(hip.hipCtxSetCurrent(c_void_p(0xdead000))); take({32 * MIB})")
    equal(used(daemon, actor).get("unknown"), 32 * MIB, "in a context that nobody was seen to make")
    actor.do(f"ok(hip.hipSetDevice(1)); take({64 * MIB})")
    equal(used(daemon, actor)["1"], 65 * MIB, "after the device was set")
    actor.do(f"ok(hip.hipCtxCreate(byref(u64()), 0, 3)); take({128 * MIB}); ok(hip.hipCtxSynchronize())")
    equal(used(daemon, actor)["3"], 131 * MIB, "in a context that was made")


@test_shared
def every_function_of_the_table_is_hooked():
    daemon, _ = started()
    rows = table(HIP)
    check(len(rows) > 100 and all(row.startswith(("hip", "_Z24hip")) for row in rows), "rows of HIP alone")
    equal(daemon.metrics().library(HIP), dict.fromkeys(rows, 1), "what is attached")


@test_shared
def many_threads_begin_on_one_device():
    """The first allocation of each enters the device: none of them replaces what another one has counted on it."""
    daemon, actor = started()
    actor.do(f"""
gate = threading.Barrier(16)
def body():
    ok(hip.hipSetDevice(1))
    gate.wait()
    for i in range(50):
        ok(hip.hipFree(take({MIB})))
    take({MIB})
threads = [threading.Thread(target=body) for _ in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
""")
    equal(used(daemon, actor), {"1": 16 * MIB}, "memory")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def every_kind_of_memory():
    daemon, actor = started()
    pid = str(actor.pid)
    kinds = {"hipMalloc": "", "hipExtMallocWithFlags": ", 0", "hipMallocManaged": ", 1", "hipMallocAsync": ", None",
             "hipMallocFromPoolAsync": ", None, None"}
    for i, (name, more) in enumerate(kinds.items()):
        actor.do(f"{name} = take({(i + 1) * MIB}, '{name}'{more})")
    equal(used(daemon, actor), {"0": 15 * MIB}, "memory")
    calls = by(daemon, actor, "zernel_gpu_alloc_calls_total", "kind")
    equal(calls, {"device": 2, "managed": 1, "async": 1, "pool": 1}, "calls by kind")
    for name, free in zip(kinds, ("hipFree", "hipFree", "hipFree", "hipFreeAsync", "hipFreeAsync")):
        actor.do(f"ok(hip.{free}({name}, None))")
    equal(used(daemon, actor), {}, "after all was given back")
    actor.do("pitch = u64(); rows = u64(); ok(hip.hipMallocPitch(byref(rows), byref(pitch), c_size_t(1000), "
             "c_size_t(3)))")
    actor.do("ok(hip.hipMemAllocPitch(byref(u64()), byref(pitch), c_size_t(1000), c_size_t(5), 4))")
    equal(used(daemon, actor), {"0": 8 * 1024}, "rows of 1,024 bytes")
    host = {"hipHostMalloc": "hipHostFree", "hipHostAlloc": "hipHostFree", "hipMallocHost": "hipFreeHost",
        "hipMemAllocHost": "hipFreeHost"}
    for name in host:
        actor.do(f"{name} = take({MIB}, '{name}', 0)")
    actor.do(f"ok(hip.hipHostRegister(c_void_p(1 << 40), c_size_t({MIB}), 0))")
    equal(daemon.metrics().one("zernel_gpu_host_pinned_bytes", pid=pid), 5 * MIB, "pinned")
    for name, free in host.items():
        actor.do(f"ok(hip.{free}({name}))")
    actor.do("ok(hip.hipHostUnregister(c_void_p(1 << 40)))")
    equal(daemon.metrics().one("zernel_gpu_host_pinned_bytes", pid=pid), 0, "pinned, after all was given back")
    actor.do(f"hip.fake_hip_fail(2); ok(hip.hipMalloc(byref(u64()), c_size_t({MIB})), 2)")
    equal(by(daemon, actor, "zernel_gpu_alloc_failures_total", "reason"), {"oom": 1}, "failures")
    actor.do(f"ok(hip.hipFree(u64(12345)), 1)")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def one_function_gives_back_both_kinds_of_memory():
    daemon, actor = started()
    pinned = lambda: daemon.metrics().one("zernel_gpu_host_pinned_bytes", pid=str(actor.pid))  # noqa: E731
    for i, free in enumerate(("hipFree", "hipHostFree", "hipFreeHost", "hipFreeAsync")):
        actor.do(f"host{i} = take({2 * MIB}, 'hipHostMalloc', 0); device{i} = take({MIB})")
    equal((used(daemon, actor), pinned()), ({"0": 4 * MIB}, 8 * MIB), "memory")
    actor.do("hip.fake_hip_fail(1); ok(hip.hipFree(host0), 1); hip.fake_hip_fail(1); ok(hip.hipHostFree(device0), 1)")
    equal((used(daemon, actor), pinned()), ({"0": 4 * MIB}, 8 * MIB), "after calls that failed")
    for i, free in enumerate(("hipFree", "hipHostFree", "hipFreeHost", "hipFreeAsync")):
        actor.do(f"ok(hip.{free}(host{i}, None)); ok(hip.{free}(device{i}, None))")
        left = {"0": (3 - i) * MIB} if i < 3 else {}
        equal((by(daemon, actor, USED, "gpu_id"), pinned()), (left, (3 - i) * 2 * MIB), f"after {free}")
    frees = by(daemon, actor, "zernel_gpu_free_calls_total", "gpu_id")
    equal(frees, {"0": 4}, "frees of a GPU's memory")
    actor.do("ok(hip.hipFree(u64(12345)), 1)")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test
def a_thread_that_is_older_than_the_daemon():
    """It may have set a device that nobody saw, until it sets one again; a thread that comes later is on device 0."""
    actor = Actor(("hip", HIP))
    actor.do("ok(hip.hipSetDevice(2))")
    daemon = Daemon()
    daemon.attached(HIP)
    actor.do(HELPERS)
    actor.do(f"take({MIB}); in_thread('take({2 * MIB})')")
    equal(wait_until(lambda: (got := used(daemon, actor)) and len(got) == 2 and got, "both"),
        {"unknown": MIB, "0": 2 * MIB}, "memory by GPU")
    actor.do(f"ok(hip.hipSetDevice(3)); take({4 * MIB})")
    equal(used(daemon, actor), {"unknown": MIB, "0": 2 * MIB, "3": 4 * MIB}, "after a device was set")


@test_shared
def virtual_memory():
    daemon, actor = started()
    actor.do(f"where = (ctypes.c_int * 8)(1, 0, 1, 3); handle = u64(); ok(hip.hipMemCreate(byref(handle), "
             f"c_size_t({2 * MIB}), where, u64()))")
    equal(used(daemon, actor), {"3": 2 * MIB}, "on the GPU that the properties name")
    actor.do(f"ok(hip.hipMemMap(c_void_p(1 << 41), c_size_t({2 * MIB}), c_size_t(0), handle, u64()))")
    actor.do("ok(hip.hipMemRelease(handle))")
    equal(used(daemon, actor), {"3": 2 * MIB}, "mapped, it stays")
    actor.do(f"ok(hip.hipMemUnmap(c_void_p(1 << 41), c_size_t({2 * MIB})))")
    equal(used(daemon, actor), {}, "after that")
    actor.do("shared = u64(); ok(hip.hipMemImportFromShareableHandle(byref(shared), None, 1)); "
             "ok(hip.hipMemRelease(shared))")
    equal(daemon.metrics().lost(), {}, "what was lost")


ARGUMENTS = "P18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_"  # in C++ of ROCm 5
EXT_OF_5, HCC_OF_5 = f"_Z24hipExtModuleLaunchKernel{ARGUMENTS}j", f"_Z24hipHccModuleLaunchKernel{ARGUMENTS}"
LAUNCHES = {
    "hipLaunchKernel": ("kernel", "None, one, one, None, c_size_t(0), {}"),
    "hipLaunchKernel_spt": ("kernel", "None, one, one, None, c_size_t(0), {}"),
    "hipExtLaunchKernel": ("kernel", "None, one, one, None, c_size_t(0), {}, None, None, 0"),
    "hipLaunchCooperativeKernel": ("cooperative", "None, one, one, None, c_size_t(0), {}"),
    "hipLaunchCooperativeKernel_spt": ("cooperative", "None, one, one, None, c_size_t(0), {}"),
    "hipModuleLaunchKernel": ("kernel", "None, 1, 1, 1, 1, 1, 1, 0, {}, None, None"),
    "hipExtModuleLaunchKernel": ("kernel", "None, 1, 1, 1, 1, 1, 1, 0, {}, None, None, None, None, 0"),
    EXT_OF_5: ("kernel", "None, 1, 1, 1, 1, 1, 1, c_size_t(0), {}, None, None, None, None, 0"),
    HCC_OF_5: ("kernel", "None, 1, 1, 1, 1, 1, 1, c_size_t(0), {}, None, None, None, None"),
    "hipModuleLaunchCooperativeKernel": ("cooperative", "None, 1, 1, 1, 1, 1, 1, 0, {}, None"),
    "hipLaunchKernelExC": ("kernel", "box(8, {{4: {}.value}}), None, None"),
    "hipDrvLaunchKernelEx": ("kernel", "box(8, {{4: {}.value}}), None, None, None"),
}


@test_shared
def launches_and_captures():
    daemon, actor = started()
    want = {"kernel": 0, "cooperative": 0, "graph": 5, "captured": 0}
    for i, (name, (kind, arguments)) in enumerate(LAUNCHES.items()):
        actor.do(f"for i in range({i + 1}): ok(hip.{name}({arguments.format('u64(0x77)')}))")
        want[kind] += i + 1
    actor.do("for i in range(2): ok(hip.hipGraphLaunch(None, None))")
    actor.do("for i in range(3): ok(hip.hipGraphLaunch_spt(None, None))")
    for begin, end in (("hipStreamBeginCapture", "hipStreamEndCapture"),
                       ("hipStreamBeginCapture_spt", "hipStreamEndCapture_spt"),
                       ("hipStreamBeginCaptureToGraph", "hipStreamEndCapture")):
        actor.do(f"ok(hip.{begin}(u64(0x77), 0, None, None, c_size_t(0), 0))")
        for name, (kind, arguments) in LAUNCHES.items():
            actor.do(f"ok(hip.{name}({arguments.format('u64(0x77)')}))")
            actor.do(f"ok(hip.{name}({arguments.format('u64(0x78)')}))")
            want["captured"] += 1
            want[kind] += 1
        actor.do(f"ok(hip.{end}(u64(0x77), byref(u64())))")
    actor.do(f"hip.fake_hip_fail(98); ok(hip.hipLaunchKernel(None, one, one, None, c_size_t(0), None), 98)")
    want["kernel"] += 1
    equal(by(daemon, actor, "zernel_cuda_launches_total", "kind"), want, "launches")
    equal(daemon.metrics().one("zernel_cuda_launch_errors_total", pid=str(actor.pid)), 1, "launches that failed")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def copies_have_a_direction():
    daemon, actor = started()
    kinds = (0, TO_DEVICE, TO_HOST, ON_DEVICE, BY_ADDRESS, 1024)
    flat = ["hipMemcpy", "hipMemcpy_spt", "hipMemcpyWithStream", "hipMemcpyAsync", "hipMemcpyAsync_spt"]
    rows = ["hipMemcpy2D", "hipMemcpy2D_spt", "hipMemcpy2DAsync", "hipMemcpy2DAsync_spt"]
    solid = ["hipMemcpy3D", "hipMemcpy3D_spt", "hipMemcpy3DAsync", "hipMemcpy3DAsync_spt"]
    for kind in kinds:
        for name in flat:
            actor.do(f"ok(hip.{name}(None, None, c_size_t({1000 + kind}), {kind}, None))")
        for name in rows:
            actor.do(f"ok(hip.{name}(None, c_size_t(512), None, c_size_t(512), c_size_t(100), c_size_t(7), {kind}, "
                     f"None))")
        for name in solid:
            actor.do(f"ok(hip.{name}(box(20, {{16: 10, 17: 3, 18: 2, 19: {kind}}}), None))")
    each = len(rows) * 700 + len(solid) * 60
    number = len(flat) + len(rows) + len(solid)
    equal(copies(daemon, actor), {"htod": (number, len(flat) * 1001 + each), "dtoh": (number, len(flat) * 1002 + each),
                                  "dtod": (2 * number, len(flat) * (1003 + 2024) + 2 * each),
                                  "other": (2 * number, len(flat) * (1000 + 1004) + 2 * each)}, "copies")
    waits = by(daemon, actor, "zernel_cuda_sync_seconds_count", "call")
    equal(waits, {"memcpy_htod": 3 + 2 + 2, "memcpy_dtoh": 3 + 2 + 2}, "blocking ones")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def copies_by_their_names():
    daemon, actor = started()
    for name in ("hipMemcpyHtoD", "hipMemcpyHtoDAsync", "hipMemcpyDtoH", "hipMemcpyDtoHAsync", "hipMemcpyDtoD",
            "hipMemcpyDtoDAsync"):
        actor.do(f"ok(hip.{name}(None, None, c_size_t(1000), None))")
    actor.do("ok(hip.hipMemcpyPeer(None, 1, None, 2, c_size_t(500)))")
    actor.do("ok(hip.hipMemcpyPeerAsync(None, 1, None, 2, c_size_t(500), None))")
    for name in ("To", "From"):
        for suffix in ("", "_spt", "Async", "Async_spt"):
            actor.do(f"ok(hip.hipMemcpy{name}Symbol{suffix}(None, None, c_size_t(10), c_size_t(0), 1, None))")
    for name in ("hipMemcpyParam2D", "hipDrvMemcpy2DUnaligned", "hipMemcpyParam2DAsync"):
        actor.do(f"ok(hip.{name}(box(16, {{2: 1, 9: 2, 14: 100, 15: 4}}), None))")
    equal(copies(daemon, actor), {"htod": (2, 2000), "dtoh": (2, 2000), "dtod": (4, 3000), "other": (11, 80 + 1200)},
        "copies")


@test_shared
def memory_that_is_set():
    daemon, actor = started()
    calls = size = 0
    for name, unit in {"": 1, "_spt": 1, "Async": 1, "Async_spt": 1, "D8": 1, "D16": 2, "D32": 4, "D8Async": 1,
                       "D16Async": 2,
                       "D32Async": 4}.items():
        actor.do(f"for i in range(3): ok(hip.hipMemset{name}(u64(1), 0, c_size_t(1000), None))")
        calls, size = calls + 3, size + 3000 * unit
    for name in ("2D", "2D_spt", "2DAsync", "2DAsync_spt"):
        actor.do(f"ok(hip.hipMemset{name}(u64(1), c_size_t(512), 0, c_size_t(100), c_size_t(7), None))")
        calls, size = calls + 1, size + 700
    got = [daemon.metrics().one(f"zernel_cuda_memset_{what}_total", pid=str(actor.pid)) for what in ("calls", "bytes")]
    equal(got, [calls, size], "calls and bytes")


@test_shared
def waits_and_loads():
    daemon, actor = started()
    actor.do("hip.fake_hip_sleep(ctypes.c_long(20000))")
    for name, times in {"hipStreamSynchronize": 1, "hipStreamSynchronize_spt": 2, "hipEventSynchronize": 4,
            "hipDeviceSynchronize": 5}.items():
        actor.do(f"for i in range({times}): ok(hip.{name}(None))")
    actor.do("ok(hip.hipFree(None))")
    waits = by(daemon, actor, "zernel_cuda_sync_seconds_count", "call")
    equal(waits, {"stream_synchronize": 3, "event_synchronize": 4, "ctx_synchronize": 5, "mem_free": 1}, "waits")
    sums = by(daemon, actor, "zernel_cuda_sync_seconds_sum", "call")
    check(all(sums[call] >= 0.02 * times for call, times in waits.items()), f"each waits for 20 ms: {sums}")
    for what, names in {"module": ("hipModuleLoad", "hipModuleLoadData", "hipModuleLoadDataEx"),
                        "function": ("hipModuleGetFunction",),
                        "graph": ("hipGraphInstantiate", "hipGraphInstantiateWithFlags",
                                  "hipGraphInstantiateWithParams",
                                  "hipGraphExecUpdate", "hipGraphUpload")}.items():
        for name in names:
            actor.do(f"ok(hip.{name}(byref(u64()), None, None, None, c_size_t(0)))")
        equal(by(daemon, actor, "zernel_cuda_load_seconds_count", "call").get(what), len(names), f"loads: {what}")


@test
def what_the_runtime_says_of_a_gpu():
    for call in ("hipDeviceGetUuid(ctypes.create_string_buffer(16), 2)",
            "hipGetDevicePropertiesR0600(ctypes.create_string_buffer(1472), 2)"):
        daemon, actor = started(Daemon())
        actor.do(f"ok(hip.{call}); ok(hip.hipDeviceGetPCIBusId(ctypes.create_string_buffer(16), 16, 2)); "
                 f"ok(hip.hipDeviceTotalMem(byref(u64()), 2))")
        actor.do(f"ok(hip.hipSetDevice(2)); take({MIB}); ok(hip.hipMemGetInfo(byref(u64()), byref(u64())))")
        equal(used(daemon, actor), {"2": MIB}, "memory")
        info = [dict(k) for k in daemon.metrics().all("zernel_gpu_info")]
        equal(info, [{"gpu_id": "2", "uuid": "GPU-fa5e000000000002", "pci": "0000:c2:00.0", "minor": "",
            "vendor": "amd"}], "what is known of it")
        equal(daemon.metrics().one("zernel_gpu_memory_total_bytes", gpu_id="2"), 192 << 30, "its memory")
        actor.end()
        daemon.end()


# ---- a node with amdgpu: its files are stand-ins, and /dev/zero and its like are its render nodes

NODES = {3: "/dev/null", 5: "/dev/zero", 7: "/dev/full", 9: "/dev/urandom"}


def drm(nvidia=False):
    """What amdgpu shows of four GPUs under /sys/class/drm; a command that has it there. nvidia: four more, of the same
    minors."""
    path = tempfile.mkdtemp(dir=folder())
    os.makedirs(f"{path}/drivers/amdgpu")
    for i, minor in enumerate(NODES):
        device = f"{path}/devices/0000:c{i}:00.0"
        os.makedirs(device)
        os.makedirs(f"{path}/drm/renderD{minor}")
        os.symlink(f"../../devices/0000:c{i}:00.0", f"{path}/drm/renderD{minor}/device")
        os.symlink("../../drivers/amdgpu", f"{device}/driver")
        for name, text in {"unique_id": f"fa5e00000000000{i}", "mem_info_vram_total": f"{64 << 30}"}.items():
            with open(f"{device}/{name}", "w") as file:
                file.write(text + "\n")
    for i, minor in enumerate(NODES if nvidia else ()):
        os.makedirs(f"{path}/driver/nvidia/gpus/0000:0{i}:00.0")
        with open(f"{path}/driver/nvidia/gpus/0000:0{i}:00.0/information", "w") as file:
            file.write(f"Device Minor: \t {minor}\n")
    mounts = 'mount --rbind "$0" /sys/class' + (' && mount --rbind "$0/driver" /proc/driver' if nvidia else "")
    return ["unshare", "--mount", "sh", "-c", mounts + ' && exec "$@"', path]


def amd_node(nvidia=False):
    return Daemon("--gpu-majors", "1", argv=[*drm(nvidia), os.path.join(os.path.dirname(HIP), "..", "zerneld")])


def opened_by(actor, minors):
    actor.do("files = [open(path, 'rb' if path != '/dev/null' else 'wb') for path in %r]"
        % [NODES[minor] for minor in minors])


def gpu_of(daemon, opened, env, device):
    """Where memory is of a program that has these render nodes open."""
    actor = Actor(("hip", HIP), env=env)
    opened_by(actor, opened)
    daemon.attached(HIP)
    actor.do(HELPERS)
    actor.do(f"ok(hip.hipSetDevice({device})); take({MIB})")
    got = wait_until(lambda: used(daemon, actor), "memory")
    actor.end()
    return got


@test
def the_gpus_of_a_node():
    daemon = amd_node()
    info = [dict(k) for k in daemon.metrics().all("zernel_gpu_info")]
    equal(info, [{"gpu_id": str(i), "uuid": f"GPU-fa5e00000000000{i}", "pci": f"0000:c{i}:00.0", "minor": str(minor),
        "vendor": "amd"}
                 for i, minor in enumerate(NODES)], "GPUs")
    totals = {dict(k)["gpu_id"]: v for k, v in daemon.metrics().all("zernel_gpu_memory_total_bytes").items()}
    equal(totals, {str(i): 64 << 30 for i in range(4)}, "memory")


@test
def what_a_process_may_see():
    """HIP counts the GPUs that are open, of these what ROCR_VISIBLE_DEVICES names, of these what HIP_VISIBLE_DEVICES
    names."""
    daemon, every = amd_node(), tuple(NODES)
    equal(gpu_of(daemon, every, {}, 3), {"3": MIB}, "all")
    equal(gpu_of(daemon, (5, 9), {}, 1), {"3": MIB}, "two of them in a control group")
    equal(gpu_of(daemon, every, {"ROCR_VISIBLE_DEVICES": "3,2"}, 1), {"2": MIB}, "the runtime's list")
    equal(gpu_of(daemon, every, {"ROCR_VISIBLE_DEVICES": "3,2,0", "HIP_VISIBLE_DEVICES": "2,1"}, 0), {"0": MIB},
        "both lists")
    equal(gpu_of(daemon, every, {"CUDA_VISIBLE_DEVICES": "1"}, 0), {"1": MIB}, "CUDA's list, which HIP reads too")
    equal(gpu_of(daemon, every, {"ROCR_VISIBLE_DEVICES": "GPU-fa5e000000000002"}, 0), {"2": MIB}, "by number")
    equal(gpu_of(daemon, (5,), {"HIP_VISIBLE_DEVICES": "3"}, 0), {"1": MIB}, "one is open, and no other can be meant")
    equal(gpu_of(daemon, (5, 7), {"HIP_VISIBLE_DEVICES": "3"}, 0), {"unknown": MIB}, "none of the open ones")


@test
def whose_functions_a_process_calls_on_a_node_with_both():
    """The same devices are open, and are GPUs of either vendor: 0 to 3 are NVIDIA's, 4 to 7 AMD's."""
    daemon = amd_node(nvidia=True)
    equal([dict(k)["vendor"] for k in daemon.metrics().all("zernel_gpu_info")], ["nvidia"] * 4 + ["amd"] * 4, "GPUs")
    equal(gpu_of(daemon, (5, 7), {}, 1), {"6": MIB}, "of HIP")
    actor = Actor(("cuda", CUDA), env={"CUDA_VISIBLE_DEVICES": "2,1"})
    opened_by(actor, (5, 7))
    daemon.attached(CUDA)
    actor.do("context = u64(); ok(cuda.cuInit(0)); ok(cuda.cuCtxCreate_v2(byref(context), 0, 1))")
    actor.do(f"ok(cuda.cuMemAlloc_v2(byref(u64()), c_size_t({MIB})))")
    equal(wait_until(lambda: used(daemon, actor), "memory"), {"1": MIB}, "of CUDA")


@test
def errors_that_amdgpu_reports():
    path = f"{folder()}/kmsg"
    os.mkfifo(path)
    daemon = Daemon("--kmsg", path, "--push-interval-ms", "100")
    texts = ("GPU reset begin!", "1 correctable hardware errors detected in umc block", "GPU reset(1) succeeded!")
    with open(path, "w") as log:
        log.write("".join(f"3,{i},{i},-;amdgpu 0000:c3:00.0: amdgpu: {text}\n" for i, text in enumerate(texts)))
    wait_until(lambda: daemon.metrics().one("zernel_kernel_log_records_total", **{"from": "kernel"}) == 3,
        "the records")
    errors = {dict(k)["error"]: v for k, v in daemon.metrics().all("zernel_gpu_amdgpu_errors_total",
        pci="0000:c3:00.0").items()}
    equal(errors, {"reset": 1, "correctable": 1}, "errors")
    alerts = wait_until(lambda: [a for a in daemon.json("/alerts")["alerts"] if a["state"] == "firing"], "the alert")
    equal([(a["alert"], a["pci"], a["error"]) for a in alerts], [("gpu_amdgpu", "0000:c3:00.0", "reset")], "what fires")
    check(any("amdgpu reported reset of the GPU at 0000:c3:00.0, 1 times" in line for line in daemon.lines()),
        "the log")


@test  # what a program's wild pointer, or its kernel without an end, brings about drains no node
def faults_of_the_node_and_bugs_of_programs():
    path = f"{folder()}/kmsg"
    os.mkfifo(path)
    daemon = Daemon("--kmsg", path, "--push-interval-ms", "100")

    def health(record, count):
        with open(path, "w") as log:
            log.write(f"3,1,1,-;amdgpu 0000:c3:00.0: amdgpu: {record}\n")
        wait_until(lambda: sum(a["state"] == "firing" for a in daemon.json("/alerts")["alerts"]) == count, record)
        return run([ZERNEL, "health", f"http://127.0.0.1:{daemon.port}"])

    for i, record in enumerate(("[gfxhub0] no-retry page fault (src_id:0 ring:24 vmid:8 pasid:32769)",
                                "ring gfx_0.0.0 timeout, signaled seq=7, emitted seq=9", "GPU reset begin!")):
        got = health(record, i + 1)
        check(got.stdout.startswith("OK: zernel: no fault of the node; gpu_amdgpu: "), got.stdout)
        equal((got.returncode, got.stdout.count("gpu_amdgpu")), (0, i + 1), record)
    for i, record in enumerate(("GPU reset(1) failed", "2 uncorrectable hardware errors detected in umc block",
                                "1 deferred hardware errors detected in umc block")):
        got = health(record, i + 4)
        check(got.stdout.startswith("ERROR: zernel: gpu_amdgpu: "), got.stdout)
        equal((got.returncode, got.stdout.count("gpu_amdgpu")), (1, i + 1), record)


if __name__ == "__main__":
    main()
