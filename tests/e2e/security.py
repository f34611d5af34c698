#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What the daemon gives up once it is ready, and that it still does its work with what is left."""
import os
import re

from harness import CUDA, Daemon, Driver, check, copy_of, equal, main, test

# linux/capability.h: SYS_PTRACE, DAC_READ_SEARCH, PERFMON, BPF, CHECKPOINT_RESTORE; before 6.6 SYS_ADMIN as well
KEPT = 1 << 19 | 1 << 2 | 1 << 38 | 1 << 39 | 1 << 40
SYS_ADMIN = 1 << 21


def statuses(pid):
    """/proc/PID/task/*/status of all threads, as dictionaries."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            yield dict(re.findall(r"(?m)^(\w+):\s*(.*)$", file.read()))


@test
def every_thread_is_left_with_little():
    daemon = Daemon()
    have = int(next(statuses(os.getpid()))["CapPrm"], 16)
    seen = list(statuses(daemon.pid))
    check(len(seen) >= 2, "the finder is a thread of its own")
    for status in seen:
        for field in ("CapPrm", "CapEff"):
            equal(int(status[field], 16) & ~SYS_ADMIN, KEPT & have, field)
        equal(int(status["CapBnd"], 16) & ~(KEPT | SYS_ADMIN), 0, "CapBnd")
        equal((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), "system-call filter")


@test
def private_libraries_are_hooked_all_the_same():
    """A library that only its owner may read, in a directory that only its owner may enter, mapped after the drop."""
    daemon = Daemon()
    library = copy_of(CUDA, "private/libcuda.so.1")
    os.chmod(library, 0o700)
    os.chown(library, 65534, 65534)
    os.chown(os.path.dirname(library), 65534, 65534)
    os.chmod(os.path.dirname(library), 0o700)
    driver = Driver("launches", cuda=library, before=("setpriv", "--reuid=65534", "--clear-groups"))
    daemon.attached(library)
    report = driver.start()
    equal(daemon.metrics().one("zernel_cuda_launches_total", pid=str(driver.pid), kind="kernel"),
          report["launches"]["kernel"], "launches")


if __name__ == "__main__":
    main()
