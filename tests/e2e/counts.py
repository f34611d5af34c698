#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The driver's scenarios: every figure of its report is in /metrics and /json, exactly, on the right GPU."""
import contextlib
import os

from harness import (CUDA, NCCL, NOBODY, ZERNELD, Actor, Daemon, Driver, check, copy_of, equal, folder, main,
                     shared_daemon, test, test_shared, wait_until)
from figures import compare, compare_metrics, shown

GIB = 1 << 30


def scenario(name, expect=(), nccl=None, unseen=False, start=shared_daemon):
    """unseen: what the driver does before its gate is over before the daemon can have hooked anything of it."""
    daemon = start(expect=expect)
    with daemon.stopped() if unseen else contextlib.nullcontext():
        driver = Driver(name, nccl=nccl)
    daemon.attached(CUDA, *([nccl] if nccl else []))
    report = driver.start()
    compare(daemon, report)
    driver.end()
    daemon.gone(driver.pid)
    left = [g["used_bytes"] for g in daemon.json()["gpus"]]
    equal(sum(left), 0, "memory in use after the end")
    return report


@test_shared
def memory_is_counted_exactly():
    r = scenario("memory")
    check(sum(r["used"].values()) and sum(r["failures"].values()), "the driver did something")


@test_shared
def launches_are_counted_exactly():
    check(all(scenario("launches")["launches"].values()), "the driver did something")


@test_shared
def waits_are_counted_exactly():
    check(sum(scenario("syncs")["syncs"].values()), "the driver did something")


@test_shared
def copies_are_counted_exactly():
    check(all(sum(c) for c in scenario("copies")["copies"].values()), "the driver did something")


@test_shared
def nccl_is_counted_exactly():
    r = scenario("nccl", nccl=NCCL, expect=["ncclCommAbort"])
    check(all(op["calls"] for op in r["nccl"].values()), "the driver did something")


@test
def frees_of_unseen_memory_are_counted_apart():
    equal(scenario("early", unseen=True, start=Daemon)["unmatched"], 5, "frees")


@test
def all_at_once_in_one_process():
    scenario("devices,memory,launches,syncs,copies,nccl", nccl=NCCL, expect=["ncclCommAbort"], start=Daemon)


SHORT = """
import threading
def launches(count):
    ready(cuda)
    launch(cuda, count)
def short(count):
    t = threading.Thread(target=launches, args=(count,))
    t.start()
    t.join()
"""


@test_shared
def threads_that_have_one_kernel_stack_after_the_other():
    """A return finds its thread by the kernel stack, which the next thread of any process may have."""
    daemon, actors = shared_daemon(), [Actor(("cuda", CUDA)) for _ in range(2)]
    daemon.attached(CUDA)
    for actor in actors:
        actor.do(SHORT)
    for _ in range(31):
        for actor, count in zip(actors, (3, 5)):
            actor.do(f"short({count}); launches(1)")
    for actor, count in zip(actors, (3, 5)):
        pid = str(actor.pid)
        launched = {dict(k)["kind"]: v for k, v in daemon.metrics().all("zernel_cuda_launches_total", pid=pid).items()
            if v}
        equal(launched, {"kernel": 31 * (count + 1)}, "launches")
        equal(daemon.metrics().one("zernel_cuda_launch_latency_seconds_count", pid=pid), 31 * (count + 1), "timed")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test
def gpus_are_identified_by_what_the_driver_says():
    daemon, driver = Daemon(), Driver("devices")
    daemon.attached(CUDA)
    r = driver.start()
    want = {tuple(sorted({"gpu_id": str(d["ordinal"]), "uuid": d["uuid"], "pci": d["pci"], "minor": "",
        "vendor": "nvidia"}.items())): 1
            for d in r["devices"]}
    wait_until(lambda: len(daemon.metrics().all("zernel_gpu_info")) == 4, "four GPUs")
    metrics = daemon.metrics()
    equal(metrics.all("zernel_gpu_info"), want, "GPUs")
    for d in r["devices"]:
        equal(metrics.one("zernel_gpu_memory_total_bytes", gpu_id=str(d["ordinal"])), d["total_bytes"], "total memory")
    got = [(g["gpu_id"], g["uuid"], g["pci"], g["total_bytes"]) for g in daemon.json()["gpus"]]
    want = [(str(d["ordinal"]), d["uuid"], d["pci"], d["total_bytes"]) for d in r["devices"]]
    equal(sorted(got), want, "GPUs in JSON")


def gpu_files(path, count):
    """What NVIDIA's driver shows of so many GPUs; those that are there already stay."""
    for i in range(count):
        os.makedirs(f"{path}/nvidia/gpus/0000:a{i}:00.0", exist_ok=True)
        with open(f"{path}/nvidia/gpus/0000:a{i}:00.0/information", "w") as file:
            file.write(f"GPU UUID: \t GPU-0000000{i}-0000-0000-0000-000000000000\nDevice Minor: \t {5 + 2 * i}\n")


@test
def a_driver_that_is_loaded_later():
    """It lists its GPUs one by one while the daemon runs: a process is on the one whose device it has open, and one
    that was there before the list, whose GPU had no name but its number, is on one of the list."""
    path, cuda = os.path.join(folder(), "driver"), copy_of(CUDA, "libcuda.so.1")
    os.makedirs(path)
    daemon = Daemon("--gpu-majors", "1", argv=["unshare", "--mount", "sh", "-c",
                                               'mount --bind "$0" /proc/driver && exec "$@"', path, ZERNELD])
    actor = Actor(("cuda", cuda), before=["unshare", "-m"])
    daemon.attached(cuda)
    equal(daemon.metrics().all("zernel_gpu_info"), {}, "GPUs before there is a driver")
    actor.do("ok(CDLL(None).mount(b'none', b'/dev', b'tmpfs', 0, None))")
    actor.do("os.mknod('/dev/nvidia7', 0o20600, os.makedev(1, 7)); device = os.open('/dev/nvidia7', os.O_RDWR)")
    early = Actor(("cuda", cuda))
    early.do("ready(cuda, 0); alloc(cuda, 8192)")
    wait_until(lambda: 8192 in daemon.metrics().all("zernel_gpu_memory_used_bytes").values(), "memory before the list")
    for count in 1, 4:
        gpu_files(path, count)
        wait_until(lambda: len(daemon.metrics().all("zernel_gpu_info")) == count, f"{count} GPUs")
    actor.do("ready(cuda, 0); alloc(cuda, 4096)")
    wait_until(lambda: used(daemon, "1") == 4096, "the GPU by its open device")
    info = {dict(k)["gpu_id"]: dict(k) for k in daemon.metrics().all("zernel_gpu_info")}
    equal({i: (g["pci"], g["minor"]) for i, g in info.items()},
        {str(i): (f"0000:a{i}:00.0", str(5 + 2 * i)) for i in range(4)}, "GPUs")


def visible(value, ids, start=shared_daemon):
    daemon, driver = start(), Driver("memory", env={"CUDA_VISIBLE_DEVICES": value})
    daemon.attached(CUDA)
    r = driver.start()
    shown(daemon, r)
    compare_metrics(daemon.metrics(), r, ids)


@test_shared
def visible_devices_in_another_order():
    visible("3,1,0,2", ["3", "1", "0", "2", "unknown"])


@test_shared
def visible_devices_two_of_them():
    visible("2,3", ["2", "3", "unknown", "unknown", "unknown"])


@test_shared
def visible_devices_only_one():
    visible("2", ["2", "unknown", "unknown", "unknown", "2"])


@test
def visible_devices_by_uuid():
    uuids = [f"GPU-face0000-0000-0000-0000-{n:012x}" for n in (1, 0, 3, 2)]
    visible(",".join(uuids), [*uuids, "unknown"], Daemon)


@test
def visible_devices_by_known_uuid():
    """Once a process said what the UUIDs are, a name by UUID is the same GPU as one by index."""
    daemon, first = Daemon(), Driver("devices")
    daemon.attached(CUDA)
    first.start()
    wait_until(lambda: len(daemon.metrics().all("zernel_gpu_info")) == 4, "four GPUs")
    uuids = [f"GPU-face0000-0000-0000-0000-{n:012x}" for n in (1, 0, 3, 2)]
    driver = Driver("memory", env={"CUDA_VISIBLE_DEVICES": ",".join(uuids)})
    r = driver.start()
    shown(daemon, r)
    compare_metrics(daemon.metrics(), r, ["1", "0", "3", "2", "unknown"])


def as_user(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def holds(cuda, size, devices, uid, visible):
    """A process of a user that holds so much on each of its devices."""
    actor = Actor(("cuda", cuda), before=as_user(uid), env={"CUDA_VISIBLE_DEVICES": visible, "FAKE_CUDA_DEVICES": "16"})
    for device in range(devices):
        actor.do(f"ready(cuda, {device}); alloc(cuda, {size})")
    return actor


def used(daemon, gpu):
    return sum(daemon.metrics().all("zernel_gpu_memory_used_bytes", gpu_id=gpu).values())


@test
def names_of_gpus_that_one_user_gives_leave_room_for_others():
    daemon = Daemon(expect=[r"quota: names of GPUs: \d+ refused, the last one to user 65534, "])
    cuda = copy_of(CUDA, "libcuda.so.1")
    first = holds(cuda, 4096, 1, NOBODY, "MIG-0")
    daemon.attached(cuda)
    many = [holds(cuda, 4096, 16, NOBODY, ",".join(f"MIG-{i}-{n}" for n in range(16))) for i in range(5)]
    wait_until(lambda: {actor.pid for actor in many} <= daemon.metrics().pids(), "who gives many names")
    daemon.ticked(3)
    holds(cuda, GIB, 1, 1000, "GPU-another-user")
    wait_until(lambda: used(daemon, "GPU-another-user") == GIB, "another user's memory")
    names = [dict(k)["gpu_id"] for k in daemon.metrics().all("zernel_gpu_memory_used_bytes")]
    equal(len([name for name in set(names) if name.startswith("MIG-")]), 8, f"names of one user: {names}")
    first.end()


@test
def a_file_in_place_of_a_gpu_is_none():
    daemon, cuda = Daemon("--gpu-majors", "1"), copy_of(CUDA, "libcuda.so.1")
    actors = [Actor(("cuda", cuda), before=["unshare", "-m"]),
              Actor(("cuda", cuda), before=[*as_user(NOBODY), "unshare", "-rm"])]
    daemon.attached(cuda)
    for actor, make in zip(actors, ("os.mknod('/dev/nvidia5', 0o20600, os.makedev(1, 5))",
            "open('/dev/nvidia7', 'w')")):
        actor.do("ok(CDLL(None).mount(b'none', b'/dev', b'tmpfs', 0, None))")
        actor.do(f"device = {make}")
    actors[0].do("device = os.open('/dev/nvidia5', os.O_RDWR)")
    for i, actor in enumerate(actors):
        actor.do(f"ready(cuda, 0); alloc(cuda, {4096 * (i + 1)})")
    wait_until(lambda: used(daemon, "5") == 4096, "the GPU by its open device")
    wait_until(lambda: used(daemon, "0") == 8192, "the GPU by its ordinal alone")
    equal(used(daemon, "7"), 0, "what is a file")


@test
def processes_on_one_gpu_add_up():
    daemon = Daemon()
    drivers = [Driver("devices,memory") for _ in range(2)]
    daemon.attached(CUDA)
    reports = [d.start() for d in drivers]
    for r in reports:
        shown(daemon, r)
        compare_metrics(daemon.metrics(), r)
    gpus = {g["gpu_id"]: g for g in daemon.json()["gpus"]}
    for gpu in "0123":
        used = sum(r["used"][gpu] for r in reports)
        equal((gpus[gpu]["used_bytes"], gpus[gpu]["processes"]), (used, 2), f"GPU {gpu}")
        ratio = daemon.metrics().one("zernel_gpu_memory_used_ratio", gpu_id=gpu)
        equal(ratio, used * 10 ** 6 // gpus[gpu]["total_bytes"] / 1e6, f"ratio of GPU {gpu}")
    drivers[0].end()
    daemon.gone(drivers[0].pid)
    gpus = {g["gpu_id"]: g["used_bytes"] for g in daemon.json()["gpus"]}
    equal({g: gpus[g] for g in "0123"}, {g: reports[1]["used"][g] for g in "0123"}, "GPUs, with one process left")


@test
def sums_of_the_node_outlive_the_process():
    daemon = Daemon(expect=["ncclCommAbort"])
    driver = Driver("nccl", nccl=NCCL)
    daemon.attached(CUDA, NCCL)
    r = driver.start()
    driver.end()
    daemon.gone(driver.pid)
    metrics = daemon.metrics()
    got = {dict(k)["op"]: v for k, v in metrics.all("zernel_nccl_collective_duration_seconds_count").items()}
    equal(got, {op: f["calls"] for op, f in r["nccl"].items()}, "collectives of the node")
    equal(metrics.all("zernel_nccl_rank_info"), {}, "ranks of a process that has gone")


if __name__ == "__main__":
    main()
