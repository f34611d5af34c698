#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""zernel-gpu and a live daemon: what NVML says of GPUs comes to metrics and JSON, and goes when NVML fails, hangs or
goes. tests/fake/nvml.c stands in for the library; a tree of the test's own for /sys."""
import os
import re
import subprocess

from harness import (BUILD, CUDA, TOOLS, ZERNEL, Actor, Daemon, Process, State, check, equal, folder, main, run, test,
                     wait_until)

PROGRAM = os.path.join(BUILD, "zernel-gpu")
NVML, OLD = os.path.join(TOOLS, "libnvidia-ml.so.1"), os.path.join(TOOLS, "nvml-old", "libnvidia-ml.so.1")
GPU = {"gpu_id": "0000:1b:00.0", "uuid": "GPU-11111111-0000"}
SECOND = {"gpu_id": "0000:1c:00.0", "uuid": "GPU-22222222-0000"}
FIGURES = {  # metric, labels: value of the first GPU
    ("zernel_gpu_utilization_ratio",): 0.87,
    ("zernel_gpu_sm_active_ratio",): 0.625,
    ("zernel_gpu_tensor_active_ratio",): 0.4,
    ("zernel_gpu_vram_bytes", ("kind", "used")): 20 << 30,
    ("zernel_gpu_vram_bytes", ("kind", "total")): 80 << 30,
    ("zernel_gpu_power_watts",): 413.207,
    ("zernel_gpu_power_limit_watts",): 700,
    ("zernel_gpu_energy_joules_total",): 52100000,
    ("zernel_gpu_temperature_celsius", ("sensor", "gpu")): 61,
    ("zernel_gpu_temperature_celsius", ("sensor", "memory")): 73,
    ("zernel_gpu_clock_hertz", ("clock", "gpu")): 1.98e9,
    ("zernel_gpu_clock_hertz", ("clock", "memory")): 2.619e9,
    ("zernel_gpu_ecc_errors_total", ("kind", "corrected")): 17,
    ("zernel_gpu_ecc_errors_total", ("kind", "uncorrected")): 3,
    ("zernel_gpu_remapped_rows", ("kind", "correctable")): 1,
    ("zernel_gpu_remapped_rows", ("kind", "uncorrectable")): 2,
    ("zernel_gpu_remapped_rows", ("kind", "pending")): 1,
    ("zernel_gpu_remapped_rows", ("kind", "failed")): 0,
    ("zernel_gpu_nvlink_bytes_total", ("direction", "sent")): 1024000,
    ("zernel_gpu_nvlink_bytes_total", ("direction", "received")): 3072000,
    ("zernel_gpu_pcie_bytes_per_second", ("direction", "sent")): 2 << 20,
    ("zernel_gpu_pcie_replays_total",): 5,
    ("zernel_gpu_mig_mode",): 1,
    ("zernel_gpu_lost",): 0,
}
# What each function is for, in the stand-in's words: which metrics go when it fails.
FAILING = {
    "UtilizationRates": "zernel_gpu_utilization_ratio", "PowerUsage": "zernel_gpu_power_watts",
    "EnforcedPowerLimit": "zernel_gpu_power_limit_watts", "TotalEnergyConsumption": "zernel_gpu_energy_joules_total",
    "Temperature": None, "ClockInfo": "zernel_gpu_clock_hertz", "CurrentClocksEventReasons": None,
    "TotalEccErrors": "zernel_gpu_ecc_errors_total", "RemappedRows": "zernel_gpu_remapped_rows",
    "FieldValues": "zernel_gpu_nvlink_bytes_total", "PcieReplayCounter": "zernel_gpu_pcie_replays_total",
    "MigMode": "zernel_gpu_mig_mode", "GpmQueryDeviceSupport": "zernel_gpu_sm_active_ratio", "UUID": None, "Name": None,
    "SystemGetDriverVersion": None, "ComputeRunningProcesses": None, "MaxMigDeviceCount": None}


def make_tree(root, gpus=2):
    os.makedirs(f"{root}/bus/pci/devices")
    for i in range(gpus):
        pci = f"0000:{0x1b + i:02x}:00.0"
        os.makedirs(f"{root}/devices/{pci}")
        os.symlink(f"../../../devices/{pci}", f"{root}/bus/pci/devices/{pci}")
        os.symlink("../../bus/pci/drivers/nvidia", f"{root}/devices/{pci}/driver")
    return root


def tell(*lines):
    """What the library is like from now on."""
    path = os.path.join(folder(), "nvml")
    with open(f"{path}.new", "w") as file:
        file.write("".join(f"{line}\n" for line in lines))
    os.rename(f"{path}.new", path)
    return path


def start_companion(library, *options, **more):
    """The library has five seconds for its answer, of which a busy machine takes some."""
    process = Process([PROGRAM, "--library", library, "--socket", f"{folder()}/run/gpu.sock", "--interval-ms", "1000",
                       *options],
                   env={**os.environ, "FAKE_NVML": f"{folder()}/nvml"}, stderr=subprocess.DEVNULL, **more)
    process.wanted = None
    State.cleanup.callback(process.process.kill)  # it does not end by itself
    return process


def start_daemon(root, *options, **more):
    return Daemon("--sysfs", root, "--control", f"{folder()}/run/control.sock", "--push-interval-ms", "250", *options, **more)


def one(daemon, metric, **labels):
    found = daemon.metrics().all(metric)
    return next((v for k, v in found.items() if set(labels.items()) <= set(k)), None)


def once(library=NVML, *settings):
    """What it would say, by GPU: {name: value}."""
    tell(*settings)

    def say():
        """Again where the library had no processor in the 700 ms that it has."""
        done = run([PROGRAM, "--once", "--library", library, "--interval-ms", "100"],
                   env={**os.environ, "FAKE_NVML": f"{folder()}/nvml"})
        return None if "the library does not answer: " in done.stderr else done
    done = wait_until(say, "an answer of the library")
    gpus, lines = [], done.stdout.splitlines()
    check(lines and re.fullmatch(r"zernel-gpu 1 \d+", lines[0]), f"a message: {done.stdout} {done.stderr}")
    for line in lines[1:]:
        word, _, rest = line.partition(" ")
        if word == "gpu":
            gpus.append({"gpu": rest})
        elif gpus:
            gpus[-1].setdefault(word, []).append(rest)
    return done.returncode, gpus, lines


@test
def nvml_tells_of_gpus_and_goes():
    root = make_tree(f"{folder()}/sys")
    user = Actor(("cuda", CUDA))
    tell("mig 2", f"process {user.pid}")
    companion = start_companion(NVML)  # before the daemon: it waits for it
    daemon = start_daemon(root, expect=["zernel-gpu says: NVML does not answer"])
    metrics = wait_until(lambda: (m := daemon.metrics()).all("zernel_gpu_sm_active_ratio") and m,
        "what NVML says, by its second sample")
    equal({k: metrics.one(k[0], **GPU, **dict(k[1:])) for k in FIGURES}, FIGURES, "figures")
    equal(metrics.one("zernel_gpu_utilization_ratio", **SECOND), 0.86, "the second GPU")
    equal(metrics.all("zernel_gpu_dram_active_ratio"), {}, "what GPM does not support")
    equal(metrics.one("zernel_gpu_source_info", source="nvml", **GPU), 1, "the source")
    equal(metrics.one("zernel_gpu_model_info", model="NVIDIA H100 80GB HBM3", driver="550.54.15", **GPU), 1, "the model")
    equal(metrics.one("zernel_nvml_up"), 1, "that it speaks")
    equal(metrics.one("zernel_gpu_process_vram_bytes", pid=str(user.pid), gpu_id=SECOND["gpu_id"]), 3 << 30, "a process")
    equal(metrics.all("zernel_gpu_instance_vram_bytes"), {
        (("gpu_id", f"MIG-11111111-000{i}"), ("kind", kind), ("model", "NVIDIA H100 MIG 1g.10gb"), ("of", GPU["gpu_id"])): size << 30
        for i in (1, 2) for kind, size in (("used", 1), ("total", 10))}, "MIG instances")
    tagged = run([ZERNEL, "job", "start", "77", "--pid", str(user.pid), f"gpus={SECOND['uuid']}", "--control",
                  f"{folder()}/run/control.sock"])
    equal(tagged.returncode, 0, tagged.stderr)
    wait_until(lambda: one(daemon, "zernel_job_gpu_utilization_ratio", job_id="77") == 0.86, "what its job's GPU does")
    entry, = daemon.json("/jobs")["jobs"]
    equal(entry["gpu_utilization"], 0.86, "the same as JSON")
    user.do("ready(cuda); launch(cuda, 1)")
    wait_until(lambda: one(daemon, "zernel_gpu_process_vram_bytes", pid=str(user.pid), job_id="77"), "whose process it is")
    wait_until(lambda: one(daemon, "zernel_gpu_throttled_seconds_total", reason="thermal"), "throttling")
    shown = next(g for g in daemon.json()["gpus"] if g["gpu_id"] == GPU["gpu_id"])["device"]
    equal((shown["power_watts"], shown["lost"], shown["throttled_by"]), (413.207, 0, ["power", "thermal"]), "JSON")
    tell("hang PowerUsage")  # the driver does not answer
    wait_until(lambda: one(daemon, "zernel_hardware_blocked_seconds", file="nvml"), "that NVML does not answer")
    metrics = daemon.metrics()
    equal((metrics.all("zernel_gpu_power_watts"), metrics.one("zernel_nvml_up")), ({}, 0), "what is known then")
    # where the library had been late with something else before, the next line may come a minute later
    wait_until(lambda: any("NVML does not answer: power" in line for line in daemon.lines()), "what it waits for", 150)
    tell("lost 1")
    wait_until(lambda: one(daemon, "zernel_gpu_lost", **SECOND) == 1, "a GPU that is lost")
    metrics = daemon.metrics()
    equal((metrics.one("zernel_gpu_lost", **GPU), len(metrics.all("zernel_gpu_power_watts"))), (0, 1), "the GPUs then")
    companion.kill()
    wait_until(lambda: daemon.metrics().one("zernel_nvml_up") == 0, "that it has gone")
    equal(daemon.metrics().all("zernel_gpu_power_watts"), {}, "power, of which nobody knows")
    daemon.end()


@test
def each_call_of_nvml_may_fail():
    """By itself, without a daemon: the figure goes, and no other."""
    _, gpus, _ = once(NVML, "mig 2", "process 77")
    whole = set(gpus[0])
    equal((len(gpus), gpus[0]["process"]), (2, ["77 3221225472", "4242 4294967296"]), "all of it")
    _, gpus, _ = once(NVML, "process 77", "long 1")
    equal(gpus[0]["process"], ["77 3221225472", "4242 4294967296"], "longer entries")
    for function in FAILING:
        for code in (3, 999):
            status, gpus, lines = once(NVML, "mig 2", f"{function} {code}")
            lost = whole - set(gpus[0])
            equal((status, len(gpus)), (0, 2), f"{function}: {lines}")
            check(len(lost) <= 4 and "lost" in gpus[0], f"{function}: without {lost}")
            check(FAILING[function] is None or lost, f"{function}: nothing is missing")
    for function, text in (("Init", "nvmlInit: the driver is not loaded (9)"), ("Count", "nvmlDeviceGetCount: the driver is not loaded (9)")):
        status, gpus, lines = once(NVML, f"{function} 9")
        equal((status, lines[1:]), (1, [f"why {text}"]), function)
    _, gpus, _ = once(NVML, "gpus 16")
    equal(len({g["gpu"].split()[0] for g in gpus}), 16, "GPUs")
    _, gpus, _ = once(OLD, "process 77")
    check("remapped_pending" not in gpus[0] and "process" not in gpus[0], f"an old driver: {gpus[0]}")
    equal((gpus[0]["vram_used_bytes"], gpus[0]["throttle_reasons"], gpus[0]["pcie_received_bytes_per_second"]),
          ([str(21 << 30)], ["36"], ["2000000"]), "an old driver")
    status, _, lines = once("/nowhere/libnvidia-ml.so.1")
    check(status == 1 and lines[1].startswith("why /nowhere/libnvidia-ml.so.1: cannot open"), f"no library: {lines}")


@test
def a_round_may_take_longer_than_a_call():
    """As where many GPUs have to wake up: each answer is one, and nobody is ended for a round of them."""
    _, gpus, _ = once(NVML, "gpus 4", "slow 60")  # five seconds for each round, of 0.7 s for each call
    equal([len(gpus), {"power_watts" in g for g in gpus}], [4, {True}], "all of it")
    root = make_tree(f"{folder()}/sys", 4)
    start_companion(NVML, "--interval-ms", "100")  # it has 3 s for a call
    daemon = start_daemon(root, allow=["zernel-gpu says: NVML does not answer"])
    wait_until(lambda: len(daemon.metrics().all("zernel_gpu_power_watts")) == 4, "what NVML says of all")
    daemon.end()


if __name__ == "__main__":
    main()
