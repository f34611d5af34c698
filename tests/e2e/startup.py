#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""From the start of a real process to its first steady launch, by phase."""
import os
import time

from claims import job, live
from harness import CUDA, NCCL, Actor, check, main, test_timed, wait_until
from waits import PREPARE

BEGIN = PREPARE.replace("ready(cuda)\nlaunch(cuda, 1)\n", "")


def started(actor):
    """Its start, by the clock of the machine."""
    with open(f"/proc/{actor.pid}/stat") as f:
        return int(f.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")


@test_timed
def phases_of_a_start():
    daemon = live()
    daemon.ready()  # who is older than it has no phases
    actor = Actor(("cuda", CUDA), ("nccl", NCCL))
    began = started(actor)
    daemon.attached(CUDA, NCCL)
    time.sleep(2)
    actor.do(BEGIN + "\nready(cuda); held = alloc(cuda, 1 << 20)")
    job("start", "mine", "--pid", str(actor.pid), "uid=0")
    actor.do("nccl.fake_nccl_set(b'init_sleep_us', ctypes.c_long(3000000)); init(0, 1, b'one')")
    wait_until(lambda: [(w["causes"][0]["cause"], w["state"], w["lost_percent"])
                        for w in daemon.json("/why")["why"] if w["job_id"] == "mine" and w["causes"]]
        == [("startup", "starting", 0)],
               "it has launched nothing", 5, seen=lambda: (daemon.json("/why"), daemon.process_json(actor.pid)))
    path = "/var/tmp/zernel-startup"
    with open(path, "wb") as f:
        f.write(bytes(8 << 20))
    actor.do(f"""
end = time.monotonic() + 3
while time.monotonic() < end:
    with open({path!r}, "rb") as f:
        f.read()
""")
    os.unlink(path)
    first = time.clock_gettime(time.CLOCK_BOOTTIME)
    actor.do("""
end = time.monotonic() + 8
while time.monotonic() < end:
    launch(cuda, 10)
    time.sleep(0.1)
""")
    wait_until(lambda: daemon.process_json(actor.pid)["startup"]["over"], "launches are steady")
    phases = daemon.process_json(actor.pid)["startup"]
    del phases["over"]
    check(abs(sum(phases.values()) - (first - began)) < 0.6, f"{phases} of {first - began} s")
    check(phases["import"] > 2, phases)
    check(abs(phases["nccl_init"] - 3) < 0.2, phases)
    check(abs(phases["model"] - 3) < 0.8, phases)
    shown = {dict(k)["phase"]: v for k, v in daemon.metrics().all("zernel_job_startup_seconds", job_id="mine").items()}
    check(shown == phases, f"{shown} of the job, {phases} of its only process")


if __name__ == "__main__":
    main()
