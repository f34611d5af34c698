#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Processes that hold a GPU which is not theirs: real ones, with a device of the test's own open."""
import os
import re
import subprocess

from harness import CUDA, NOBODY, ROOT, ZERNEL, Actor, Daemon, check, equal, folder, main, parse_json, run, test, \
    test_simulated, wait_until
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


def holder(path, group=None, user=0):
    """A process that has it open, after it came into its group."""
    process = subprocess.Popen(["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "/usr/bin/python3", "-c", f"import sys; sys.stdin.readline(); {HOLDER}", path],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if group:
        group.enter(process.pid)
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    return process


def told(url):
    """{process: ghost}, of all that are one now, however young."""
    done = run([ZERNEL, "ghosts", url, "--json", "--older", "0"])
    ghosts = parse_json(done.stdout)["ghosts"]
    equal(done.returncode, int(bool(ghosts)), "the exit status")
    return {g["pid"]: g for g in ghosts}


@test  # a process of no job is one where jobs are, if it is a person's; root's and those of services are none
def processes_of_no_job():
    path = device()
    os.chmod(folder(), 0o711)
    os.chmod(path, 0o444)
    node = Node("--gpu-majors", "10", "--push-interval-ms", "200")
    url = f"http://127.0.0.1:{node.port}"
    person, service, root = holder(path, user=NOBODY), holder(path, user=61200), holder(path)
    wait_until(lambda: parse_json(run([ZERNEL, "ghosts", url, "--json"]).stdout)["looked"], "a look at all processes")
    equal(told(url), {}, "on a node that never had a job")
    kept = Group("freezer", GROUP)
    inside = holder(path, kept)
    wait_until(lambda: told(url), "the person's")
    equal({pid: (g["why"], g["job_id"], g["uid"]) for pid, g in told(url).items()},
          {person.pid: ("no_job", "", NOBODY)}, "whose it is")
    for p in (person, service, root, inside):
        p.communicate("\n")
    wait_until(lambda: not told(url), "its end")
    kept.remove()


@test  # two jobs, each with memory on both GPUs, one of which was given both and one the second alone
def a_gpu_that_its_job_was_not_given():
    node = Node("--push-interval-ms", "200")
    url = f"http://127.0.0.1:{node.port}"
    both, second = Actor(("cuda", CUDA)), Actor(("cuda", CUDA))
    node.attached(CUDA)
    wait_until(lambda: parse_json(run([ZERNEL, "ghosts", url, "--json"]).stdout)["looked"], "a look at all processes")
    for actor in (both, second):
        actor.do("ready(cuda, 1); alloc(cuda, 7 << 20); ready(cuda, 0); held = alloc(cuda, 13 << 20)")
    for job, actor, given in (("4711", both, "0,1"), ("4712", second, "1")):
        equal(node.job("start", job, "--pid", str(actor.pid), "uid=0", f"gpus={given}").returncode, 0, "its start")
    wait_until(lambda: told(url), "the one that is on another GPU, too", seen=lambda: told(url))
    ghosts = told(url)
    equal({pid: (g["why"], g["job_id"], g["gpu_id"], g["gpu_bytes"]) for pid, g in ghosts.items()},
          {second.pid: ("foreign_gpu", "4712", "0", 13 << 20)}, "who it is")
    text = run([ZERNEL, "ghosts", url, "--older", "0"]).stdout
    check("its job was not given this GPU" in text and "13.0M" in text, text)
    second.do("ok(cuda.cuMemFree_v2(held))")
    wait_until(lambda: not told(url), "what it gave back is no ghost's")
    both.end()
    second.end()


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


def drains(url):
    """What the health check of docs/OPERATIONS.md tells Slurm or the log: its text, with a zernel that asks this daemon
    and a scontrol and a logger that write down what they are told."""
    with open(os.path.join(ROOT, "docs/OPERATIONS.md")) as f:
        recipe = re.search(r"`HealthCheckProgram`:\n\n```\n(.*?)```", f.read(), re.S)[1]
    commands, told = os.path.join(folder(), "bin"), os.path.join(folder(), "told")
    os.makedirs(commands, exist_ok=True)
    for name, text in (("check", recipe), ("zernel", f'#!/bin/sh\nexec {ZERNEL} "$@" {url}\n'),
                       ("scontrol", f"#!/bin/sh\nprintf '%s\\n' \"$@\" >{told}\n"),
                       ("logger", f"#!/bin/sh\nprintf '%s\\n' logger \"$@\" >{told}\n")):
        with open(os.path.join(commands, name), "w") as f:
            f.write(text)
        os.chmod(f.name, 0o755)
    run([os.path.join(commands, "check")], env={"PATH": f"{commands}:/usr/bin:/bin"})
    if not os.path.exists(told):
        return None
    with open(told) as f:
        arguments = f.read().splitlines()
    os.unlink(told)
    return arguments


@test_simulated  # a health check is told of a fault of the node, and of nothing that a program does
def health_of_a_node():
    for scenario, status in (("healthy", 0), ("xid", 0), ("amdgpu", 0), ("link", 1)):
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
        fault = "gpu_hardware_errors"
        check(got.stdout.startswith(f"ERROR: zernel: {fault}: " if status else "OK: zernel: no fault of the node"),
              got.stdout)
        told = drains(url)
        if status:
            equal(told[:3], ["update", f"NodeName={os.uname().nodename.split('.')[0]}", "State=DRAIN"], "the node")
            check(told[3].startswith(f"Reason=ERROR: zernel: {fault}: "), told)
        else:
            equal(told, None, "what Slurm is told of a node that is well")
        # what a program says of its context, and a reset that went well, are told and drain no node
        alert = {"xid": "cuda_context_lost", "amdgpu": "gpu_amdgpu"}.get(scenario)
        if alert:
            wait_until(lambda: health().stdout.startswith(
                f"OK: zernel: no fault of the node; {alert}: "), "what is told", seen=health)
    equal(run([ZERNEL, "health", "http://127.0.0.1:1"]).returncode, 2, "no daemon")
    equal(drains("http://127.0.0.1:1"), ["logger", "-t", "zernel", "ERROR: zernel: the daemon does not answer"],
          "where no daemon answers, the log is told and not Slurm")


@test_simulated  # what is not known of a node drains it neither, and is said
def health_where_a_token_is_wanted():
    with open(os.path.join(folder(), "tokens"), "w") as f:
        f.write("a-token-0123456789")
    os.chmod(f.name, 0o600)
    daemon = Daemon("--simulate", "--token-file", f.name)
    equal(drains(f"http://127.0.0.1:{daemon.port}"),
          ["logger", "-t", "zernel", f"ERROR: zernel: 127.0.0.1:{daemon.port}: it asks for a token: --token-file FILE"],
          "the log")


if __name__ == "__main__":
    main()
