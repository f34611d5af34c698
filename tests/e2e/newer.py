#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Functions that newer programs call, each with figures of its own: copies by a struct or in batches, memory that is
set, registered or shared by several GPUs, green contexts, what loads code, and what NCCL has learnt since 2.27."""
from harness import (CUDA, NCCL, Actor, Daemon, check, equal, main, shared_daemon, test, test_shared, wait_until,
                     with_id)
from figures import by, copies
from lifecycle import entries

MIB = 1 << 20
THREAD_CACHE = 4096  # ZN_THREAD_CACHE
# sizes of the structs of cuda.h, as words of 8 bytes, and where in them the kinds of memory and the extents are
HELPERS = """
def box(words, kinds, extents):
    at = (c_uint64 * words)()
    for place, value in {**kinds, **extents}.items():
        at[place] = value
    return at

def box_2d(source, target, width, height):
    return box(16, {2: source, 9: target}, {14: width, 15: height})

def box_3d(source, target, width, height, depth):
    return box(25, {4: source, 15: target}, {22: width, 23: height, 24: depth})

def sizes(*bytes):
    return (c_size_t * len(bytes))(*bytes)

def boxes(*extents):
    at = (c_uint64 * (14 * len(extents)))()
    for i, extent in enumerate(extents):
        at[14 * i + 10:14 * i + 13] = extent
    return at
"""
HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4


def started(daemon=None, nccl=False):
    libraries = [("cuda", CUDA), ("nccl", NCCL)] if nccl else [("cuda", CUDA)]
    daemon, actor = daemon or shared_daemon(), Actor(*libraries)
    daemon.attached(*(path for _, path in libraries))
    actor.do(HELPERS)
    actor.do("ready(cuda)")
    return daemon, actor


@test_shared
def copies_in_batches():
    daemon, actor = started()
    for suffix in ("", "_ptsz", "_v2", "_v2_ptsz"):
        actor.do(f"for i in range(5): ok(cuda.cuMemcpyBatchAsync{suffix}(None, None, sizes({2 * MIB}, {MIB}, {MIB}), "
                 f"c_size_t(3)))")
        actor.do(f"ok(cuda.cuMemcpy3DBatchAsync{suffix}(c_size_t(2), boxes((1024, 8, 1), (64, 4, 2))))")
    equal(copies(daemon, actor), {"other": (5 * 4 + 4, 20 * 4 * MIB + 4 * (8192 + 512))}, "copies")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test
def a_batch_beyond_what_is_read():
    daemon, actor = started(Daemon())
    actor.do("ok(cuda.cuMemcpyBatchAsync(None, None, sizes(*[7] * 1031), c_size_t(1031)))")
    actor.do("ok(cuda.cuMemcpyBatchAsync(None, None, c_void_p(8), c_size_t(1)))")
    actor.do("ok(cuda.cuMemcpyBatchAsync(None, None, None, c_size_t(0)))")
    equal(copies(daemon, actor), {"other": (3, 1024 * 7)}, "copies")
    equal(daemon.metrics().lost(), {"batch": 7, "user_read": 1}, "what was lost")


@test_shared
def copies_that_a_struct_describes():
    daemon, actor = started()
    names = ["cuMemcpy2D_v2", "cuMemcpy2D_v2_ptds", "cuMemcpy2DUnaligned_v2", "cuMemcpy2DUnaligned_v2_ptds",
             "cuMemcpy2DAsync_v2", "cuMemcpy2DAsync_v2_ptsz"]
    for name in names:
        actor.do(f"ok(cuda.{name}(box_2d({HOST}, {DEVICE}, 1000, 3)))")
        actor.do(f"ok(cuda.{name}(box_2d({ARRAY}, {HOST}, 100, 7)))")
    solid = ["cuMemcpy3D_v2", "cuMemcpy3D_v2_ptds", "cuMemcpy3DAsync_v2", "cuMemcpy3DAsync_v2_ptsz", "cuMemcpy3DPeer",
             "cuMemcpy3DPeer_ptds", "cuMemcpy3DPeerAsync", "cuMemcpy3DPeerAsync_ptsz"]
    for name in solid:
        actor.do(f"ok(cuda.{name}(box_3d({DEVICE}, {ARRAY}, 64, 5, 3)))")
        actor.do(f"ok(cuda.{name}(box_3d({HOST}, {UNIFIED}, 16, 2, 2)))")
    actor.do("cuda.fake_cuda_set(b'fail_next', 1); ok(cuda.cuMemcpy2D_v2(box_2d(1, 2, 9, 9)), 1)")
    equal(copies(daemon, actor), {"htod": (6, 6 * 3000), "dtoh": (6, 6 * 700), "dtod": (8, 8 * 960),
        "other": (8, 8 * 64)},
          "copies")
    waits = by(daemon, actor, "zernel_cuda_sync_seconds_count", "call")
    equal(waits, {"memcpy_htod": 5, "memcpy_dtoh": 4}, "blocking ones, with the one that failed")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def copies_between_gpus_that_wait():
    daemon, actor = started()
    for name, times in (("cuMemcpyPeer", 3), ("cuMemcpyPeer_ptds", 5)):
        actor.do(f"for i in range({times}): ok(cuda.{name}(u64(1), None, u64(2), None, c_size_t({MIB})))")
    equal(copies(daemon, actor), {"dtod": (8, 8 * MIB)}, "copies")


@test_shared
def memory_that_is_set():
    daemon, actor = started()
    calls = size = 0
    for bits in (8, 16, 32):
        for name in (f"D{bits}_v2", f"D{bits}_v2_ptds", f"D{bits}Async", f"D{bits}Async_ptsz"):
            actor.do(f"for i in range(3): ok(cuda.cuMemset{name}(u64(1), 0, c_size_t(1000)))")
            calls, size = calls + 3, size + 3 * 1000 * bits // 8
        for name in (f"D2D{bits}_v2", f"D2D{bits}_v2_ptds", f"D2D{bits}Async", f"D2D{bits}Async_ptsz"):
            actor.do(f"ok(cuda.cuMemset{name}(u64(1), c_size_t(512), 0, c_size_t(100), c_size_t(7)))")
            calls, size = calls + 1, size + 700 * bits // 8
    got = [daemon.metrics().one(f"zernel_cuda_memset_{what}_total", pid=str(actor.pid)) for what in ("calls", "bytes")]
    equal(got, [calls, size], "calls and bytes")


@test
def host_memory_that_is_registered():
    daemon, actor = started(Daemon())
    pid = str(actor.pid)
    actor.do(f"ok(cuda.cuMemHostRegister_v2(c_void_p(1 << 40), c_size_t({64 * MIB}), 0))")
    actor.do(f"ok(cuda.cuMemHostRegister(c_void_p(1 << 41), c_size_t({MIB}), 0))")
    actor.do(f"cuda.fake_cuda_set(b'fail_next', 2); ok(cuda.cuMemHostRegister_v2(c_void_p(1 << 42), c_size_t({MIB}), "
             f"0), 2)")
    pinned = wait_until(lambda: daemon.metrics().one("zernel_gpu_host_pinned_bytes", pid=pid), "pinned memory")
    equal(pinned, 65 * MIB, "pinned memory")
    actor.do("ok(cuda.cuMemHostUnregister(c_void_p(1 << 40)))")
    equal(daemon.metrics().one("zernel_gpu_host_pinned_bytes", pid=pid), MIB, "after one was given back")
    equal(daemon.metrics().lost(), {}, "what was lost")
    actor.do("ok(cuda.cuMemHostUnregister(c_void_p(1 << 43)))")
    equal(daemon.metrics().lost(), {"unmatched_free": 1}, "one that was never seen")


@test_shared
def multicast_handles_are_no_memory():
    daemon, actor = started()
    actor.do("handles = [u64() for _ in range(5)]; [ok(cuda.cuMulticastCreate(byref(h), None)) for h in handles]")
    actor.do("[ok(cuda.cuMemRelease(h)) for h in handles]")
    equal(daemon.metrics().lost(), {}, "what was lost")
    equal(daemon.metrics().all("zernel_gpu_memory_used_bytes", pid=str(actor.pid)), {}, "memory")


@test_shared
def memory_of_a_green_context():
    daemon, actor = started()
    actor.do("green, ctx = c_void_p(), c_void_p(); ok(cuda.cuGreenCtxCreate(byref(green), None, 2, 1))")
    actor.do("ok(cuda.cuCtxFromGreenCtx(byref(ctx), green)); ok(cuda.cuCtxSetCurrent(ctx))")
    actor.do(f"held = alloc(cuda, {3 * MIB})")
    actor.do("again = c_void_p(); ok(cuda.cuCtxFromGreenCtx(byref(again), green)); ok(cuda.cuCtxSetCurrent(again))")
    wait_until(lambda: daemon.metrics().one("zernel_gpu_memory_used_bytes", pid=str(actor.pid), gpu_id="2") == 3 * MIB,
               "memory on the GPU of the green context")
    actor.do("ok(cuda.cuMemFree_v2(held))")
    equal(daemon.metrics().one("zernel_gpu_memory_used_bytes", pid=str(actor.pid), gpu_id="2"), 0, "after it was freed")
    equal(daemon.metrics().lost(), {}, "what was lost")


LOADS = {"module": ["cuModuleLoad", "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleLoadFatBinary"],
         "library": ["cuLibraryLoadData", "cuLibraryLoadFromFile"],
         "function": ["cuModuleGetFunction", "cuLibraryGetKernel", "cuKernelGetFunction"],
         "graph": ["cuGraphInstantiate", "cuGraphInstantiate_v2", "cuGraphInstantiateWithFlags",
                   "cuGraphInstantiateWithParams",
                   "cuGraphInstantiateWithParams_ptsz", "cuGraphExecUpdate", "cuGraphExecUpdate_v2", "cuGraphUpload",
                   "cuGraphUpload_ptsz"]}


@test_shared
def what_loads_code_is_timed():
    daemon, actor = started()
    pid = str(actor.pid)
    actor.do("import time; begin = time.monotonic(); cuda.fake_cuda_set(b'load_sleep_us', 20000)")
    for names in LOADS.values():
        for name in names:
            actor.do(f"for i in range(2): ok(cuda.{name}(None, None, None))")
    spent = actor.do("answer = time.monotonic() - begin")
    counts = by(daemon, actor, "zernel_cuda_load_seconds_count", "call")
    equal(counts, {call: 2 * len(names) for call, names in LOADS.items()}, "calls")
    for call, count in counts.items():
        took = daemon.metrics().one("zernel_cuda_load_seconds_sum", pid=pid, call=call)
        check(0.02 * count <= took, f"{call}: {took} s for {count} calls of 20 ms")
        spent -= took
    check(spent > 0, f"all of them took {-spent} s longer than there was")


def nccl_calls(daemon, actor):
    return {op: tuple(by(daemon, actor, f"zernel_nccl_{what}_total", "op").get(op, 0) for what in ("calls", "bytes"))
            for op in by(daemon, actor, "zernel_nccl_calls_total", "op")}


@test_shared
def one_sided_operations_and_windows():
    daemon, actor = started(nccl=True)
    actor.do("comm = c_void_p(); ok(nccl.ncclCommInitAll(byref(comm), 1, None))")
    actor.do("for i in range(7): ok(nccl.ncclPutSignal(None, c_size_t(11), 7, 0, None, c_size_t(0), 0, 0, 0, comm, "
             "None))")
    actor.do("for i in range(5): ok(nccl.ncclSignal(0, 0, 0, 0, comm, None))")
    actor.do("for i in range(3): ok(nccl.ncclWaitSignal(1, None, comm, None))")
    actor.do("for i in range(2): ok(nccl.ncclCommWindowRegister(comm, None, c_size_t(4096), None, 0))")
    equal(nccl_calls(daemon, actor), {"put": (7, 7 * 44), "signal": (5, 0), "wait_signal": (3, 0),
        "window_register": (2, 0)},
          "operations")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def communicators_that_shrink_and_grow():
    daemon, actor = started(nccl=True)
    actor.do("comms = (c_void_p * 4)(); ok(nccl.ncclCommInitAll(comms, 4, None))")
    actor.do("few, many, fresh = c_void_p(), c_void_p(), c_void_p()")
    actor.do("ok(nccl.ncclCommShrink(c_void_p(comms[1]), None, 1, byref(few), None, 0))")
    actor.do("ok(nccl.ncclCommGrow(few, 6, None, -1, byref(many), None))")
    actor.do("ok(nccl.ncclCommGrow(None, 6, None, 5, byref(fresh), None))")
    call = "AlltoAll(None, None, c_size_t(10), 7, {}, None))"
    for comm in ("few", "many", "fresh"):
        actor.do(f"ok(nccl.nccl{call.format(comm)}")
    equal(nccl_calls(daemon, actor)["all_to_all"], (3, 40 * (3 + 6 + 6)), "bytes to all ranks, whose number is known")
    equal(daemon.metrics().one("zernel_nccl_comm_init_seconds_count", pid=str(actor.pid)), 4, "communicators made")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_shared
def communicators_that_a_group_makes():
    """Their addresses are there when it ends. Of a rank without a color there is none."""
    daemon, actor = started(nccl=True)
    actor.do("comms = (c_void_p * 4)(); ok(nccl.ncclCommInitAll(comms, 4, None))")
    actor.do("few, many, half, none = (c_void_p() for _ in range(4))")
    actor.do("ok(nccl.ncclGroupStart()); ok(nccl.ncclGroupStart())")
    actor.do("ok(nccl.ncclCommShrink(c_void_p(comms[1]), None, 1, byref(few), None, 0))")
    actor.do("ok(nccl.ncclCommGrow(c_void_p(comms[1]), 6, None, -1, byref(many), None))")
    actor.do("ok(nccl.ncclGroupEnd())")
    actor.do("ok(nccl.ncclCommSplit(c_void_p(comms[1]), 3, 0, byref(half), None))")
    actor.do("ok(nccl.ncclCommSplit(c_void_p(comms[2]), -1, 0, byref(none), None))")
    equal(actor.do("answer = [c.value for c in (few, many, half, none)]"), [None] * 4, "addresses before the end")
    actor.do("ok(nccl.ncclGroupEnd())")
    equal(actor.do("answer = [bool(c.value) for c in (few, many, half, none)]"), [True] * 3 + [False], "at the end")
    for comm in ("few", "many"):
        actor.do(f"ok(nccl.ncclAlltoAll(None, None, c_size_t(10), 7, {comm}, None))")
    equal(nccl_calls(daemon, actor)["all_to_all"], (2, 40 * (3 + 6)), "bytes to all ranks, whose number is known")
    actor.do("n = ctypes.c_int(); ok(nccl.ncclCommUserRank(half, byref(n))); ok(nccl.ncclCommCount(half, byref(n)))")
    wait_until(lambda: len(daemon.metrics().all("zernel_nccl_rank_info", pid=str(actor.pid))) == 4 + 1 + 1,
               "ranks of the four, of the one that grew and of the half")
    equal(daemon.metrics().one("zernel_nccl_comm_init_seconds_count", pid=str(actor.pid)), 5, "communicators made")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test
def communicators_whose_address_comes_too_late():
    daemon, actor = started(Daemon(), nccl=True)
    actor.do("comm, made = c_void_p(), (c_void_p * 11)(); ok(nccl.ncclCommInitAll(byref(comm), 1, None))")
    actor.do("split = lambda i: nccl.ncclCommSplit(comm, i, 0, byref(made, 8 * i), None)")
    actor.do("ok(nccl.ncclGroupStart()); [ok(split(i)) for i in range(11)]; ok(nccl.ncclGroupEnd())")
    equal(daemon.metrics().lost(), {"comm": 3}, "those of a group beyond eight")
    actor.do("nccl.fake_nccl_set(b'no_wait', 1)")
    equal(actor.do("answer = split(0)"), 7, "in progress")
    actor.do("ok(nccl.ncclGroupStart()); split(1); split(2); ok(nccl.ncclGroupEnd())")
    equal(daemon.metrics().lost(), {"comm": 6}, "those that are made while the program goes on, too")
    actor.do("ok(nccl.ncclGroupStart()); split(3); nccl.fake_nccl_set(b'fail_next', 3); nccl.ncclGroupEnd()")
    equal(daemon.metrics().lost(), {"comm": 6}, "and none of a group that fails")


@test
def what_a_group_awaits_goes_with_its_thread():
    """The next thread of the same place among those that are known has none of it."""
    daemon, actor = started(Daemon(), nccl=True)
    actor.do("comm, made = c_void_p(), (c_void_p * 8)(); ok(nccl.ncclCommInitAll(byref(comm), 1, None))")
    actor.do("split = lambda i: nccl.ncclCommSplit(comm, i, 0, byref(made, 8 * i), None)")
    actor.do("ok(nccl.ncclGroupStart()); [ok(split(i)) for i in range(8)]")
    actor.kill()
    wait_until(lambda: entries(daemon, "threads") == 0, "its end")
    other = with_id(actor.pid + THREAD_CACHE, lambda: Actor(("nccl", NCCL)))
    other.do("comm, made = c_void_p(), (c_void_p * 8)(); ok(nccl.ncclCommInitAll(byref(comm), 1, None))")
    other.do("split = lambda i: nccl.ncclCommSplit(comm, i, 0, byref(made, 8 * i), None)")
    other.do("ok(nccl.ncclGroupStart()); ok(split(0)); ok(nccl.ncclGroupEnd())")
    equal(daemon.metrics().lost().get("comm", 0), 0, "communicators that were lost")


@test_shared
def a_simulated_group_ends():
    daemon, actor = started(nccl=True)
    groups = "zernel_nccl_group_seconds_count"
    actor.do("ok(nccl.ncclGroupStart()); ok(nccl.ncclGroupSimulateEnd(None))")
    equal(daemon.metrics().one(groups, pid=str(actor.pid)) or 0, 0, "groups that were run")
    actor.do("ok(nccl.ncclGroupStart()); ok(nccl.ncclGroupEnd())")
    equal(daemon.metrics().one(groups, pid=str(actor.pid)), 1, "groups that were run")


@test
def what_waits_for_other_ranks_is_their_time():
    daemon, actor = started(Daemon(expect=["process [0-9]+: ncclCommAbort"]), nccl=True)
    actor.do("launch(cuda, 1)")
    actor.do("comms = (c_void_p * 2)(); ok(nccl.ncclCommInitAll(comms, 2, None))")
    actor.do("first, second = map(c_void_p, comms)")
    actor.do("nccl.fake_nccl_set(b'coll_sleep_us', 300000); nccl.fake_nccl_set(b'end_sleep_us', 300000)")
    actor.do("import time; begin = time.monotonic()")
    actor.do("ok(nccl.ncclCommSuspend(first, 0)); ok(nccl.ncclCommResume(first))")
    actor.do("ok(nccl.ncclCommDestroy(first)); ok(nccl.ncclCommAbort(second))")
    took = actor.do("answer = time.monotonic() - begin")
    waited = wait_until(lambda: daemon.metrics().one("zernel_dist_sync_wait_seconds_sum", pid=str(actor.pid)), "waits")
    check(1.2 <= waited < took, f"{waited} s of four times 300 ms, in {took} s")


if __name__ == "__main__":
    main()
