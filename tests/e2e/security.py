#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What the daemon gives up once it is ready, and that it still does its work with what is left."""
import os
import re
import signal

from control_socket import told
from harness import CUDA, NCCL, Actor, Daemon, Driver, check, copy_of, equal, folder, main, test, \
    wait_until

# linux/capability.h: SYS_PTRACE, DAC_READ_SEARCH, PERFMON, BPF, CHECKPOINT_RESTORE; before 6.6 SYS_ADMIN as well
KEPT = 1 << 19 | 1 << 2 | 1 << 38 | 1 << 39 | 1 << 40
SYS_ADMIN = 1 << 21
LOOP = 1 << 2 | 1 << 39  # what the thread of the loop keeps of them, where it is confined
UNCONFINED = "secure: the loop may read all files"


def statuses(pid):
    """/proc/PID/task/*/status of all threads, as dictionaries."""
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/status") as file:
            yield dict(re.findall(r"(?m)^(\w+):\s*(.*)$", file.read()))


@test
def every_thread_is_left_with_little():
    daemon = Daemon()
    have = int(next(statuses(os.getpid()))["CapPrm"], 16)
    confined = not any(UNCONFINED in line for line in daemon.lines())
    seen = list(statuses(daemon.pid))
    check(len(seen) >= 2, "the finder is a thread of its own")
    for status in seen:
        kept = LOOP if confined and int(status["Pid"]) == daemon.pid else KEPT
        for field in ("CapPrm", "CapEff"):
            equal(int(status[field], 16) & ~(SYS_ADMIN & ~kept), kept & have, field)
        equal(int(status["CapBnd"], 16) & ~(KEPT | SYS_ADMIN), 0, "CapBnd")
        equal((status["Seccomp"], status["NoNewPrivs"]), ("2", "1"), "system-call filter")


def place(name):
    return os.path.join(folder(), name)


def write(name, text):
    os.makedirs(os.path.dirname(place(name)), exist_ok=True)
    with open(place(name), "w") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    return place(name)


@test
def all_that_comes_later_works():
    """What the daemon opens, reads and attaches only long after it has given up the right to do anything else."""
    rules = "alert launches_many\n  expr zernel_cuda_launches_total > %s\n"
    daemon = Daemon("--control", place("run/control.sock"), "--report-dir", place("reports"), "--push-interval-ms",
                    "200",
                    "--token-file", write("tokens/file", "a" * 16 + "\n"), "--alerts",
                    write("rules/file", rules % 1000))
    key = {"Authorization": "Bearer " + "a" * 16}
    daemon.get = lambda path, headers=None, get=daemon.get: get(path, {**key, **(headers or {})})

    def job(*arguments):
        return told(place("run/control.sock"), *arguments)

    cuda = copy_of(CUDA, "late/libcuda.so.1")
    job("start", "97001", "uid=0", "gpus=0")
    actor = Actor(("cuda", cuda), env={"SLURM_JOB_ID": "97001", "CUDA_VISIBLE_DEVICES": "3"})
    daemon.attached(cuda)
    actor.do("ready(cuda); launch(cuda, 101)")
    wait_until(lambda: (daemon.process_json(actor.pid) or {}).get("job_id") == "97001", "its environment")
    equal(daemon.metrics().one("zernel_cuda_launches_total", pid=str(actor.pid), kind="kernel"), 101, "launches")
    nccl = copy_of(NCCL, "late/libnccl.so.2")
    actor.do(f"nccl = CDLL({nccl!r})")
    daemon.attached(nccl)
    job("start", "97002", "--pid", str(actor.pid))
    check("97002" in job("show", "97002", "--json"), "a job that was told of")
    replaced = write("tokens/new", "b" * 16 + "\n")
    os.rename(replaced, place("tokens/file"))
    os.rename(write("rules/new", rules % 2000), place("rules/file"))
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: sum("SIGHUP: " in line for line in daemon.lines()) == 2, "an answer to SIGHUP")
    check(any("tokens in use: 1" in line for line in daemon.lines()), "the token file was read again")
    key["Authorization"] = "Bearer " + "b" * 16
    actor.end()
    daemon.gone(actor.pid)
    daemon.detached(cuda)
    daemon.detached(nccl)
    job("end", "97001")
    wait_until(lambda: os.path.exists(place("reports/97001.json")), "its report")
    check("97001" in job("report", "97001"), "the report is read back")
    equal(daemon.metrics().lost(), {}, "lost")


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
