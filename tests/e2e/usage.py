#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""CPU time and memory of jobs by their control groups, against what the processes themselves and their parents
count."""
import ctypes
import mmap
import os
import signal
import time

from harness import check, equal, main, test, wait_until
from jobs import Group, Node, mount
from scenarios import short_rules

MIB = 1 << 20
PR_SET_CHILD_SUBREAPER = 36
PATH = f"/slurm_use{os.getpid()}/uid_0/job_4711"
CONTROLLERS = ("cpuacct", "memory")


class Job:
    """A job's groups, and those of one step, in the hierarchies of version 1."""

    def __init__(self, *controllers):
        self.groups = {}
        self.steps = []
        for controller in controllers or CONTROLLERS:
            self.groups[controller] = Group(controller, PATH)
            self.steps.append(Group(controller, f"{PATH}/step_0"))

    def write(self, controller, name, value):
        with open(f"{self.groups[controller].path}/{name}", "w") as f:
            f.write(str(value))

    def enter(self):
        for step in self.steps:
            step.enter(os.getpid())

    def remove(self):
        for group in [*self.steps, *self.groups.values()]:
            group.remove()


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def fill(mib, shared=False):
    memory = mmap.mmap(-1, mib * MIB, (mmap.MAP_SHARED if shared else mmap.MAP_PRIVATE) | mmap.MAP_ANONYMOUS)
    for at in range(0, mib * MIB, mmap.PAGESIZE):
        memory[at] = 1
    return memory


def child(job, does):
    """Runs does() in the job's step. Returns its id, and a pipe with its CPU time before it came there."""
    readable, writable = os.pipe()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    pid = os.fork()
    if pid:
        os.close(writable)
        return pid, readable
    try:
        job.enter()
        os.write(writable, f"{time.process_time()}\n".encode())
        does(writable)
    finally:
        os._exit(0)


def done(pid, readable):
    """CPU time in the job, by getrusage: of the child, and of those that it did not wait for, which come to this
    process."""
    used = [os.wait4(pid, 0)[2]]
    with os.fdopen(readable) as f:
        before, *orphans = f
    used += [os.wait4(int(orphan), 0)[2] for orphan in orphans]
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return sum(u.ru_utime + u.ru_stime for u in used) - float(before)


def orphan(writable):
    """A grandchild that goes on when its parent has ended."""
    if os.fork() == 0:
        os.write(writable, f"{os.getpid()}\n".encode())
        burn(0.1)
        os._exit(0)


def near(got, want, what, share=0.01, least=0.002):
    check(got is not None and abs(got - want) <= max(share * want, least), f"{what}: {got}, and not {want}")


@test  # CPU time of a job of a moment is what getrusage says, children that outlive their parent included
def usage_of_a_moment():
    node, job = Node(), Job()

    def work(writable):
        burn(0.15)
        orphan(writable)
    want = done(*child(job, work))
    job.remove()
    report = node.report("4711")
    near(report["cpu"]["seconds"], want, "CPU time")
    step, = report["steps"]
    near(step["cpu_seconds"], want, "CPU time of the step")
    near(report["cpu"]["user_seconds"] + report["cpu"]["system_seconds"], want, "user and system")
    check(report["cpu"]["cpus"] is None and report["cpu"]["efficiency"] is None, report["cpu"])
    near(sum(node.metrics().one("zernel_job_cpu_seconds_total", job_id="4711", mode=m) for m in ("user", "system")),
         want,
         "the metric")


@test  # without PrologFlags=Contain a job has a group for each step: what it used is the sum of them
def usage_of_groups_one_after_another():
    node, want = Node(), 0
    equal(node.job("start", "4711").returncode, 0, "its beginning")
    for seconds in (0.3, 0.15, 0.2):
        job = Job()
        want += done(*child(job, lambda _, seconds=seconds: burn(seconds)))
        job.remove()
    wait_until(lambda: node.jobs("4711") == ["ending"], "the end of its groups")
    equal(node.job("end", "4711").returncode, 0, "its end")
    near(node.report("4711")["cpu"]["seconds"], want, "CPU time")
    near(sum(node.metrics().one("zernel_job_cpu_seconds_total", job_id="4711", mode=m) for m in ("user", "system")),
         want, "the metric")


@test  # a step that is killed is counted in, and what a daemon that comes later finds
def usage_of_a_killed_step():
    job = Job()
    pid, readable = child(job, lambda _: burn(60))
    time.sleep(0.5)
    node = Node()
    time.sleep(2.5)  # two looks
    os.kill(pid, signal.SIGKILL)
    want = done(pid, readable)
    job.remove()
    near(node.report("4711")["cpu"]["seconds"], want, "CPU time")


@test  # the peak of memory is that of the program, and shared memory is told apart
def usage_of_memory():
    node, job = Node(), Job()
    job.write("memory", "memory.limit_in_bytes", 256 * MIB)
    readable, writable = os.pipe()

    def work(_):
        kept = [fill(64), fill(32, shared=True)]
        os.read(readable, 1)
        del kept
    pid, begun = child(job, work)

    def kind(name):
        return node.metrics().one("zernel_job_memory_bytes", job_id="4711", kind=name) or 0
    wait_until(lambda: kind("shmem") == 32 * MIB, "shared memory is seen")
    near(kind("anon") / MIB, 64, "anonymous memory, MiB", least=1)
    equal(node.metrics().one("zernel_job_memory_limit_bytes", job_id="4711"), 256 * MIB, "the limit")

    def of_step(what):
        return node.metrics().one(f"zernel_job_step_{what}", job_id="4711", step="0") or 0
    wait_until(lambda: of_step("memory_peak_bytes") >= 96 * MIB, "the peak of the step that runs")
    near(of_step("memory_peak_bytes") / MIB, 96, "the peak of the step, MiB", least=1)
    check(of_step("cpu_seconds_total") > 0, "CPU time of the step")
    entry, = node.json("/jobs")["jobs"]
    equal([(s["name"], s["running"]) for s in entry["steps"]], [("0", True)], "steps of the job")
    os.write(writable, b"x")
    done(pid, begun)
    job.remove()
    report = node.report("4711")["memory"]
    near(report["peak_bytes"] / MIB, 96, "the peak, MiB", least=1)
    near(report["needed_peak_bytes"] / MIB, 96, "what was needed, MiB", least=1)
    near(report["efficiency"], 96 / 256, "efficiency", least=0.005)
    check("now_bytes" not in report or node.jobs("4711") != ["ended"], report)


@test  # a program that grows is told of before its limit is reached
def usage_that_grows():
    node = Node("--push-interval-ms", "200", "--alerts", short_rules(["host_memory_growing"]),
                expect=["alert host_memory_growing.*fires"])
    job = Job()
    job.write("memory", "memory.limit_in_bytes", 512 * MIB)
    readable, writable = os.pipe()

    def work(_):
        kept = []
        while len(kept) < 50:  # of the limit at most 78 %
            kept.append(fill(8))
            time.sleep(0.1)
        os.read(readable, 1)
    pid, begun = child(job, work)

    def warned():
        return [a["job_id"] for a in node.json("/alerts")["alerts"] if a["state"] == "firing"] == ["4711"]
    wait_until(warned, "the alert")
    check(0.5 < node.metrics().one("zernel_job_memory_needed_ratio", job_id="4711") < 0.8,
        "what is needed of the limit")
    os.write(writable, b"x")
    done(pid, begun)
    job.remove()


@test  # a job of a moment has its peak of memory
def usage_of_memory_of_a_moment():
    node, job = Node(), Job()
    done(*child(job, lambda _: fill(48)))
    job.remove()
    report = node.report("4711")
    near(report["memory"]["peak_bytes"] / MIB, 48, "the peak, MiB", least=1)
    near(report["memory_peak_bytes"] / MIB, 48, "the peak, MiB", least=1)
    check("Memory efficiency" in node.job("report", "4711").stdout, "the page of the report")


@test  # efficiency is of the CPUs that a quota leaves, and what it held back is told
def usage_under_a_quota():
    mount("cpu")
    node, job = Node(), Job("cpuacct", "memory", "cpu")
    job.write("cpu", "cpu.cfs_quota_us", 25000)
    pid, readable = child(job, lambda _: burn(1))
    want = done(pid, readable)
    cpus = wait_until(lambda: node.metrics().one("zernel_job_cpus", job_id="4711"), "CPUs")
    near(cpus, 0.25, "CPUs")

    def held_s():
        """Some may be added when the group has nobody left."""
        stat = dict(line.split() for line in job.groups["cpu"].read("cpu.stat").splitlines())
        return int(stat["throttled_time"]) / 1e9
    wait_until(lambda: node.metrics().one("zernel_job_cpu_throttled_seconds_total", job_id="4711") == held_s(),
               "time held back", seen=held_s)
    check(held_s() > 0, "it was held back")
    job.remove()
    wait_until(lambda: node.jobs("4711") == ["ending"], "the end of its groups")
    gone = node.report("4711")["cpu"]["efficiency"]
    time.sleep(0.2)
    equal(node.report("4711")["cpu"]["efficiency"], gone, "efficiency, when its groups are gone")
    equal(node.job("end", "4711").returncode, 0, "its end")
    wait_until(lambda: node.jobs("4711") == ["ended"], "its end")
    report = node.report("4711")
    near(report["cpu"]["seconds"], want, "CPU time")
    near(report["cpu"]["efficiency"], want / (report["wall_seconds"] * cpus), "efficiency", share=0.02)
    line = node.job("report", "4711", "--line").stdout
    check(line.startswith(f"cpu_eff={100 * report['cpu']['efficiency']:.0f}% mem_eff=- "), line)


if __name__ == "__main__":
    main()
