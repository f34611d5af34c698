#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Processes that hold a GPU which is not theirs: real ones, with a device of the test's own open."""
import os
import subprocess

from harness import ZERNEL, Daemon, check, equal, folder, main, parse_json, run, test, test_simulated, wait_until
from jobs import Group, Node

HOLDER = "import sys; f = open(sys.argv[1]); print(); sys.stdin.readline()"
GROUP = f"/slurm_ghosts{os.getpid()}/uid_0/job_4711"


def device():
    """A device of a driver that nobody else uses here, as the GPU of this node: its path and major number."""
    with open("/proc/misc") as f:
        minor = next(int(n) for n, name in (line.split() for line in f) if name in ("cpu_dma_latency", "snapshot",
            "hpet", "vga_arbiter", "tun", "fuse"))
    path = os.path.join(folder(), "nvidia0")
    os.mknod(path, 0o20600, os.makedev(10, minor))
    return path


def holder(path, group=None):
    """A process that has it open, after it came into its group."""
    process = subprocess.Popen(["/usr/bin/python3", "-c", f"import sys; sys.stdin.readline(); {HOLDER}", path],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if group:
        group.enter(process.pid)
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    return process


@test  # a process that outlives its job is found, and is gone from the list once it has ended; others are in no list
def ghosts_of_a_job():
    path = device()
    node = Node("--gpu-majors", "10", "--push-interval-ms", "200")
    job, kept = Group("freezer", GROUP), Group("freezer", GROUP.replace("/uid_0/job_4711", "b/uid_0/job_4712"))
    process, other, of_none = holder(path, job), holder(path, kept), holder(path)
    url = f"http://127.0.0.1:{node.port}"

    def ghosts(*options):
        done = run([ZERNEL, "ghosts", url, "--json", *options])
        return done.returncode, {g["pid"]: g for g in parse_json(done.stdout)["ghosts"]}
    wait_until(lambda: parse_json(run([ZERNEL, "ghosts", url, "--json"]).stdout)["looked"], "a look at all processes")
    equal(ghosts("--older", "0"), (0, {}), "nobody while the job runs")
    equal(node.job("end", "4711").returncode, 0, "its end")
    wait_until(lambda: ghosts("--older", "0")[0] == 1, "the ghost")
    ghost, = ghosts()[1].values()
    equal((ghost["pid"], ghost["why"], ghost["job_id"], ghost["uid"], ghost["command"]),
          (process.pid, "job_ended", "4711", 0, "python3"), "who it is")
    equal(ghosts()[0], 0, "it is none to an alert before a minute is over")
    equal(node.metrics().one("zernel_ghost_processes", why="job_ended"), 0, "nor to the metric")
    text = run([ZERNEL, "ghosts", url, "--older", "0"]).stdout
    check(str(process.pid) in text and "its job has ended" in text, text)
    quiet = run([ZERNEL, "ghosts", url, "--older", "0", "--quiet"])
    equal((quiet.returncode, quiet.stdout), (1, ""), "as an epilog asks")
    for p in (process, other, of_none):
        p.communicate("\n")
    wait_until(lambda: ghosts("--older", "0") == (0, {}), "its end")
    equal(run([ZERNEL, "ghosts", url, "--older", "x"]).returncode, 2, "no number")
    equal(run([ZERNEL, "ghosts", "http://127.0.0.1:1", "--quiet"]).returncode, 2, "no daemon")
    job.remove()
    kept.remove()


@test_simulated  # a health check is told of a fault of the node, and of nothing that a program does
def health_of_a_node():
    for scenario, status in (("healthy", 0), ("xid", 0), ("amdgpu", 1)):
        daemon = Daemon("--simulate", "--simulate-scenario", scenario, "--simulate-cycle-s", "10",
                        "--push-interval-ms", "100",
                        expect=["alert .* fires"] if scenario != "healthy" else [])
        url = f"http://127.0.0.1:{daemon.port}"

        def health():
            return run([ZERNEL, "health", "--nhc", url])
        if scenario != "healthy":
            wait_until(lambda: any(a["state"] == "firing" for a in daemon.json("/alerts")["alerts"]), "the alert")
        got = health()
        equal((got.returncode, got.stdout.count("\n")), (status, 1), scenario)
        check(got.stdout.startswith("ERROR: zernel: gpu_amdgpu: " if status else "OK: zernel: "), got.stdout)
    equal(run([ZERNEL, "health", "http://127.0.0.1:1"]).returncode, 2, "no daemon")


if __name__ == "__main__":
    main()
