#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Errors of GPUs (XIDs) in the kernel's log: from a pipe as the driver writes them, and what root writes to the real
log."""
import os
import re

from harness import (NCCL, ZERNEL, ZERNELD, Absent, Actor, Daemon, check, equal, folder, main, need, run, test,
                     wait_until)

BROKEN = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus."
XIDS, RECORDS = "zernel_gpu_xid_errors_total", "zernel_kernel_log_records_total"
CAP_SYSLOG = 34


def pipe():
    path = f"{folder()}/kmsg"
    os.mkfifo(path)
    return path


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def capabilities(daemon):
    with open(f"/proc/{daemon.pid}/status") as status:
        return int(next(line for line in status if line.startswith("CapPrm")).split()[1], 16)


@test
def errors_are_counted_and_told():
    path = pipe()
    daemon = Daemon("--kmsg", path, "--push-interval-ms", "100")
    equal((daemon.metrics().all(XIDS), daemon.metrics().one(RECORDS, **{"from": "kernel"})), ({}, 0), "at first")
    write(path, "".join(f"3,{i},{i},-;{BROKEN}\n" for i in range(7)) + "11,8,8,-;" + BROKEN.replace("79", "48") + "\n")
    wait_until(lambda: daemon.metrics().one(RECORDS, **{"from": "others"}), "the records")
    m = daemon.metrics()
    equal(m.all(XIDS), {(("pci", "0000:3b:00.0"), ("xid", "79")): 7}, "errors")
    equal(m.one(RECORDS, **{"from": "kernel"}), 7, "records")
    alerts = wait_until(lambda: [a for a in daemon.json("/alerts")["alerts"] if a["state"] == "firing"], "the alert")
    equal([(a["alert"], a["pci"], a["xid"]) for a in alerts], [("gpu_xid", "0000:3b:00.0", "79")], "what fires")
    check(any("alert gpu_xid{pci=" in line and "XID 79 of the GPU at 0000:3b:00.0, 7 times" in line
        for line in daemon.lines()), "the log")
    equal(m.lost(), {}, "losses")


@test
def what_is_not_fatal_drains_no_node():
    path = pipe()
    daemon = Daemon("--kmsg", path, "--push-interval-ms", "100")
    lines = ((0, "145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 12 (0x040988e2 0x00000008)"),
             (0, "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"),
             (1, "145, RLW_SRC_TRACK Fatal XC1 i0 Link 12 (0x040988e2 0x00000008)"),
             (2, "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"))
    for count, (faults, line) in enumerate(lines, 1):
        write(path, f"3,1,1,-;NVRM: Xid (PCI:0019:01:00): {line}\n")
        wait_until(lambda: sum(a["state"] == "firing" for a in daemon.json("/alerts")["alerts"]) == count, line)
        health = run([ZERNEL, "health", f"http://127.0.0.1:{daemon.port}"])
        equal((health.returncode, health.stdout.count("gpu_xid")), (int(faults > 0), faults), line)


@test
def a_flood_in_the_log_hides_no_alert():
    """By default the log is the only place where an alert goes: what a user can log without end must leave it there."""
    path = pipe()
    daemon = Daemon("--kmsg", path, "--push-interval-ms", "100",
        expect=["process [0-9]+: ncclCommAbort", "log: .* held back"])
    user = Actor(("nccl", NCCL))
    daemon.attached(NCCL)
    user.tell("while True: nccl.ncclCommAbort(None); time.sleep(0.01)")
    wait_until(lambda: sum("ncclCommAbort" in line for line in daemon.lines()) >= 20, "the flood")
    write(path, f"3,1,1,-;{BROKEN}\n")
    wait_until(lambda: any(a["state"] == "firing" for a in daemon.json("/alerts")["alerts"]), "the alert")
    wait_until(lambda: any(re.search("log: .* more lines were held back like: .*ncclCommAbort", line)
        for line in daemon.lines()), "the count")
    user.kill()
    check(any("alert gpu_xid{pci=" in line for line in daemon.lines()), "the log")
    floods = sum("ncclCommAbort" in line for line in daemon.lines())
    check(floods < 1000, f"lines of the user: {floods}")


@test
def nobody_can_fake_them_in_the_real_log():
    if not os.access("/dev/kmsg", os.R_OK | os.W_OK):
        raise Absent("no /dev/kmsg")
    daemon = Daemon("--push-interval-ms", "100")
    check(not capabilities(daemon) >> CAP_SYSLOG & 1, "the capability is given up")
    priorities = ("", "<3>", "<0>", "<11>", "<2048>", "<4294967299>")
    for priority in priorities:
        write("/dev/kmsg", f"{priority}{BROKEN}\n")
    wait_until(lambda: daemon.metrics().one(RECORDS, **{"from": "others"}) >= len(priorities),
        "what was written is read")
    equal(daemon.metrics().all(XIDS), {}, "errors")


@test
def without_the_log_all_else_is_there():
    need("setpriv")
    with open("/proc/sys/kernel/dmesg_restrict") as file:
        restricted = file.read().strip() == "1"
    denied = "Operation not permitted; needs CAP_SYSLOG"
    cases = [(["--kmsg", "/none/kmsg"], [], "cannot read /none/kmsg: No such file or directory"),
        (["--kmsg", "none"], [], None)]
    cases += [([], ["setpriv", "--bounding-set", "-syslog"], f"cannot read /dev/kmsg: {denied}")] if restricted else []
    for options, before, why in cases:
        said = f"xid: {why}; errors of GPUs are not counted"
        daemon = Daemon(*options, argv=[*before, ZERNELD], expect=[said] if why else [])
        m = daemon.metrics()
        equal((m.all(XIDS), m.all(RECORDS), m.one("zernel_ticks_total") is None), ({}, {}, False), "metrics")
        equal(sum(said in line for line in daemon.lines()), 1 if why else 0, "lines about it")
        daemon.end()


if __name__ == "__main__":
    main()
