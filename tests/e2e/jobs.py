#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Which process belongs to which job: control groups of both versions, made by hand as Slurm makes them."""
import contextlib
import os
import signal
import socket
import subprocess
import time

from control_socket import ask, asked
from harness import (CUDA, NCCL, NOBODY, TOOLS, ZERNEL, Absent, Actor, Daemon, Driver, Process, State, check,
                     equal, folder, main, parse_json, run, test, wait_until)

LAUNCHES = "zernel_cuda_launches_total"
SLOTS = 256  # ZN_JOBS_MAX
V1 = f"/slurm_e2e{os.getpid()}/uid_0"
V2 = f"/e2e{os.getpid()}_slurmstepd.scope"


def mounts():
    """{controller, or "v2": mount point} of the hierarchies here."""
    found = {}
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, right = line.split(" - ")
            kind, _, options = right.split()[:3]
            point = left.split()[4]
            if kind == "cgroup2":
                found.setdefault("v2", point)
            elif kind == "cgroup":
                found.update(dict.fromkeys(options.split(","), point))
    return found


def mount(controller):
    """The hierarchy of a controller, if groups can be made in it and processes put there."""
    point = mounts().get(controller)
    if not point:
        raise Absent(f"no hierarchy with {controller} is mounted")
    return point


def remove(path):
    """Zombies that nobody has waited for keep a group for a moment."""
    def gone():
        with contextlib.suppress(FileNotFoundError):
            os.rmdir(path)
        return not os.path.exists(path)

    def try_it():
        try:
            return gone()
        except OSError:
            return False
    wait_until(try_it, f"{path} is empty")


class Group:
    """A control group, with those above it; what this made goes when the test ends, at the latest."""

    def __init__(self, controller, path):
        top = mount(controller)
        self.path = top + path
        self.made = []
        names = path.strip("/").split("/")
        for n in range(1, len(names) + 1):
            one = os.path.join(top, *names[:n])
            with contextlib.suppress(FileExistsError):
                os.mkdir(one)
                self.made.append(one)
        State.cleanup.callback(self.remove)

    def remove(self):
        while self.made:
            remove(self.made[-1])
            self.made.pop()

    def enter(self, pid):
        with open(self.path + "/cgroup.procs", "w") as f:
            f.write(str(pid))

    def entered_by(self):
        """What starts a program inside."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', self.path]

    def read(self, name):
        with open(f"{self.path}/{name}") as f:
            return f.read().strip()


class Node(Daemon):
    """A daemon that can be told of jobs."""

    def __init__(self, *options, **more):
        self.control = os.path.join(folder(), f"control{len(os.listdir(folder()))}")
        super().__init__("--control", self.control, "--report-dir", os.path.join(folder(), "reports"), *options, **more)
        check("cannot watch control groups" not in "\n".join(self.lines()), "jobs are not watched")

    def job(self, *arguments):
        return asked(self.control, *arguments)

    def say(self, message):
        """The same as job(), many times as fast."""
        check(ask(self.control, f"zernel 1 {message}".encode()).startswith(b"ok\n"), message)

    def report(self, job):
        return parse_json(self.job("report", job, "--json").stdout)

    def jobs(self, job):
        """States of the jobs of this id, the oldest first."""
        return [j["state"] for j in parse_json(self.job("list", "--json").stdout)["jobs"] if j["job_id"] == job]

    def job_of(self, pid):
        """The label of a process's launches, "" for none; None while there are none."""
        found = [dict(ls).get("job_id", "") for (n, ls) in self.metrics() if n == LAUNCHES
            and dict(ls)["pid"] == str(pid)]
        check(len(set(found)) <= 1, f"process {pid} is of several jobs: {found}")
        return found[0] if found else None

    def sum(self, job):
        return self.metrics().one("zernel_job_launches_total", job_id=job)

    def lost_jobs(self):
        return {k: v for k, v in self.metrics().lost().items() if k in ("job", "task")}


def actor_in(group, *libraries):
    return Actor(*(libraries or [("cuda", CUDA)]), before=group.entered_by())


def started(daemon, actor, launches):
    daemon.attached(CUDA)
    actor.do(f"ready(cuda); launch(cuda, {launches})")


# ---- how a process comes to be of a job

def first_launch_is_the_jobs(controller, path):
    daemon, group = Node(), Group(controller, path)
    driver = Driver("launches", before=group.entered_by())
    daemon.attached(CUDA)
    r = driver.start()
    wanted = sum(v for k, v in r["launches"].items() if k != "captured")
    equal(daemon.job_of(driver.pid), "4711", "job of the process")
    equal(daemon.sum("4711"), wanted, "launches of the job")
    driver.end()
    daemon.gone(driver.pid)
    equal(daemon.sum("4711"), wanted, "launches of the job, without its process")
    equal(daemon.lost_jobs(), {}, "what was lost")


@test
def a_task_of_version_1():
    first_launch_is_the_jobs("freezer", V1 + "/job_4711/step_0/task_0")


@test
def a_task_of_version_2():
    first_launch_is_the_jobs("v2", V2 + "/job_4711/step_0/user/task_0")


@test
def a_group_that_a_job_made_itself():
    first_launch_is_the_jobs("pids", V1 + "/job_4711/step_0/task_0/any/thing/job_5")


@test
def a_sluid():
    daemon, group = Node(), Group("v2", V2 + "/s0123456789ABC/step_0/user/task_0")
    actor = actor_in(group)
    started(daemon, actor, 7)
    equal(daemon.job_of(actor.pid), "s0123456789ABC", "job of the process")


@test
def moved_while_it_runs():
    """Into a job, into another one, and out of it: outside of any job's group it stays what it was."""
    daemon = Node()
    first, second = Group("freezer", V1 + "/job_4711/step_0"), Group("freezer", V1 + "/job_4712")
    elsewhere = Group("freezer", f"/e2e{os.getpid()}")
    actor = Actor(("cuda", CUDA))
    started(daemon, actor, 7)
    equal(daemon.job_of(actor.pid), "", "job before it was moved")
    for group, job in ((first, "4711"), (second, "4712"), (elsewhere, "4712")):
        group.enter(actor.pid)
        actor.do("launch(cuda, 1)")
        equal(daemon.job_of(actor.pid), job, f"job in {group.path}")
    actor.end()


@test
def children_and_their_children():
    daemon, group = Node(), Group("pids", V1 + "/job_4711/step_0/task_0")
    actor = actor_in(group)
    daemon.attached(CUDA)
    pids = actor.do("""
r, w = os.pipe()
if os.fork() == 0:
    ready(cuda); launch(cuda, 17)
    os.fork() or (ready(cuda), launch(cuda, 19))
    os.write(w, b"%d " % os.getpid())
    time.sleep(3600)
text = b""
while text.count(b" ") < 2:
    text += os.read(r, 99)
answer = [int(p) for p in text.split()]""")
    try:
        equal([daemon.job_of(pid) for pid in pids], ["4711"] * 2, "jobs of the children")
        equal(daemon.sum("4711"), 36, "launches of the job")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    actor.end()


@test
def a_parent_that_moves_leaves_its_children():
    """Children that there were before are not of the job; they were not moved."""
    daemon, group = Node(), Group("freezer", V1 + "/job_4711")
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    child = actor.do("""
go, w = os.pipe()
done, x = os.pipe()
answer = os.fork()
if answer == 0:
    os.read(go, 1); ready(cuda); launch(cuda, 3); os.write(x, b"x"); time.sleep(3600)""")
    try:
        group.enter(actor.pid)
        actor.do("os.write(w, b'x'); os.read(done, 1); ready(cuda); launch(cuda, 5)")
        equal((daemon.job_of(child), daemon.job_of(actor.pid)), ("", "4711"), "jobs of child and parent")
    finally:
        os.kill(child, signal.SIGKILL)


@test
def born_in_a_group():
    """CLONE_INTO_CGROUP: the parent is of no job, and nothing is moved."""
    daemon, group = Node(), Group("v2", V2 + "/job_4711/step_0/user/task_0")
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    child = actor.do(f"""
import struct
group = os.open({group.path!r}, os.O_RDONLY | os.O_DIRECTORY)
r, w = os.pipe()
arguments = struct.pack("11Q", 0x200000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, group)
answer = CDLL(None).syscall(435, arguments, len(arguments))
if answer == 0:
    ready(cuda); launch(cuda, 23); os.write(w, b"x"); time.sleep(3600)
assert answer > 0
os.read(r, 1)""")
    try:
        equal(daemon.job_of(child), "4711", "job of the child")
        actor.do("ready(cuda); launch(cuda, 1)")
        equal(daemon.job_of(actor.pid), "", "job of its parent")
    finally:
        os.kill(child, signal.SIGKILL)
        actor.do(f"os.waitpid({child}, 0)")


@test
def another_program_in_the_same_process():
    daemon, group = Node(), Group("freezer", V1 + "/job_4711/step_0")
    actor = actor_in(group)
    started(daemon, actor, 7)
    actor.tell(f"os.execv(sys.executable, [sys.executable, sys.argv[0]])")
    actor.answer("exec")
    actor.do(f"cuda = CDLL({CUDA!r})")
    daemon.attached(CUDA)
    actor.do("ready(cuda); launch(cuda, 13)")
    equal(daemon.job_of(actor.pid), "4711", "job of the new program")
    equal(daemon.sum("4711"), 20, "launches of both")


# ---- one job, several groups

@test
def several_hierarchies_are_one_job():
    daemon = Node()
    groups = [Group(c, V1 + "/job_4711/step_0/task_0") for c in ("freezer", "memory", "pids")]
    groups.append(Group("v2", V2 + "/job_4711/step_0/user/task_0"))
    actor = actor_in(groups[0])
    for group in groups[1:]:
        group.enter(actor.pid)
    started(daemon, actor, 7)
    wait_until(lambda: daemon.jobs("4711") == ["running"], "one job")
    equal([s["name"] for s in daemon.report("4711")["steps"]], ["0"], "its steps")
    actor.end()
    groups[0].remove()
    time.sleep(0.3)
    equal(daemon.jobs("4711"), ["running"], "jobs, after one hierarchy's groups are gone")
    for group in groups[1:]:
        group.remove()
    wait_until(lambda: daemon.jobs("4711") == ["ending"], "the end of the job")
    equal(daemon.sum("4711"), 7, "launches of the job")


@test
def steps_and_their_memory():
    """What the kernel says of a step's memory the moment before its group goes is what the report says of it then."""
    daemon, peak = Node(), {}
    for step in ("batch", "0", "1"):
        group = Group("memory", f"{V1}/job_4711/step_{step}")
        actor = Actor(before=group.entered_by())
        actor.do(f"block = bytearray({(17 + len(peak)) << 20})")
        actor.end()
        peak[step] = int(group.read("memory.max_usage_in_bytes"))
        group.remove()
        check(peak[step] >= (17 + len(peak) - 1) << 20, f"peak of step {step}: {peak[step]}")
    wait_until(lambda: daemon.jobs("4711") == ["ending"], "the end of the job")
    steps = {s["name"]: s["memory_peak_bytes"] for s in daemon.report("4711")["steps"]}
    equal(steps, peak, "peaks of the steps")


# ---- short ones, and those that come again

@test
def a_job_of_a_tenth_of_a_second():
    daemon = Node()
    other = Driver("idle")
    daemon.attached(CUDA)
    group = Group("freezer", V1 + "/job_4711/step_batch")
    begin = time.monotonic()
    driver = Driver("launches", gate=False, before=group.entered_by())
    r = driver.report()
    driver.end()
    group.remove()
    took = time.monotonic() - begin
    wait_until(lambda: daemon.jobs("4711") == ["ending"], "the end of the job")
    wanted = sum(v for k, v in r["launches"].items() if k != "captured")
    equal(daemon.sum("4711"), wanted, f"launches of a job of {took:.3f} s")
    equal(daemon.job("end", "4711").returncode, 0, "job end")
    wait_until(lambda: daemon.jobs("4711") == ["ended"], "the end of the job")
    other.end()


@test
def a_job_while_the_daemon_stands_still():
    """The kernel's programs count it. Its prolog and epilog are read when its group has gone, and are of it."""
    daemon, other = Node(), Driver("idle")
    daemon.attached(CUDA)
    env = {"SLURM_JOB_ID": "4711", "SLURM_JOB_USER": "alice", "ZERNEL_CONTROL": daemon.control}
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        run([ZERNEL, "job", "start", "--slurm"], env=env)
        group = Group("freezer", V1 + "/job_4711/step_batch")
        driver = Driver("storm", "--threads", "1", "--calls", "1009", gate=False, before=group.entered_by())
        driver.report()
        driver.end()
        group.remove()
        run([ZERNEL, "job", "end", "--slurm"], env=env)
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    wait_until(lambda: "ended" in daemon.jobs("4711"), "the end of the job")
    equal(daemon.jobs("4711"), ["ended"], "jobs of this id")
    path = os.path.join(folder(), "reports", "4711.json")
    wait_until(lambda: os.path.exists(path), "its report")
    with open(path) as file:
        report = parse_json(file.read())
    equal((report["user"], report["launches"]["kernel"]), ("alice", 1009), "the report")
    other.end()


@test
def fifty_jobs_one_after_another():
    daemon, other = Node(), Driver("idle")
    daemon.attached(CUDA)
    for n in range(1, 54):
        group = Group("freezer", f"{V1}/job_{4700 + n}")
        driver = Driver("storm", "--threads", "1", "--calls", str(n), gate=False, before=group.entered_by())
        driver.report()
        driver.end()
        group.remove()
    wait_until(lambda: daemon.sum("4753") is not None, "the last job")
    metrics = daemon.metrics()
    got = {int(dict(k)["job_id"]) - 4700: v for k, v in metrics.all("zernel_job_launches_total").items()}
    equal(got, {n: n for n in range(1, 54)}, "launches by job")
    equal(daemon.lost_jobs(), {}, "what was lost")
    other.end()


@test
def the_same_id_again():
    daemon = Node()
    for n, launches in enumerate((7, 11), 1):
        group = Group("freezer", V1 + "/job_4711/step_batch")
        actor = actor_in(group)
        started(daemon, actor, launches)
        wait_until(lambda: daemon.job_of(actor.pid) == "4711", "the job")
        equal(daemon.sum("4711"), launches, f"launches of run {n}")
        actor.end()
        daemon.job("end", "4711")
        group.remove()
        wait_until(lambda: daemon.jobs("4711") == ["ended"] * n, f"the end of run {n}", seen=lambda: daemon.jobs("4711"))


@test
def a_group_that_an_earlier_run_left():
    """What starts in it once the job is told of again is the new run's."""
    daemon, left = Node(), Group("freezer", V1 + "/job_4711")
    first = actor_in(Group("freezer", V1 + "/job_4711/step_batch"))
    started(daemon, first, 7)
    wait_until(lambda: daemon.job_of(first.pid) == "4711", "the job")
    first.end()
    daemon.job("end", "4711")
    wait_until(lambda: daemon.jobs("4711") == ["ended"], "the end of the first run")
    daemon.job("start", "4711", "--restart", "1")
    for n, group in enumerate((Group("freezer", V1 + "/job_4711/step_0"), left), 1):
        actor = actor_in(group)
        started(daemon, actor, 11)
        wait_until(lambda a=actor: daemon.job_of(a.pid) == "4711", "the second run")
        equal(daemon.sum("4711"), 11 * n, "launches of the second run")
        actor.end()
    equal(sorted(daemon.jobs("4711")), ["ended", "running"], "runs of this id")


@test
def an_epilog_outlives_the_daemon():
    """It came before the group went, and the group went while no daemon ran."""
    first, group = Node(), Group("freezer", V1 + "/job_4711")
    first.job("start", "4711")
    first.job("end", "4711", "exit_code=1:0")
    equal(first.jobs("4711"), ["ending"], "the job")
    record = os.path.join(folder(), "jobs.d", "job-4711")

    def says_end():
        with contextlib.suppress(FileNotFoundError), open(record) as file:
            return file.read().startswith("zernel 1 end\n")
    wait_until(says_end, "a record that knows of the epilog")
    first.end()
    group.remove()
    second = Node()
    wait_until(lambda: second.jobs("4711") == ["ended"], "the end of the job")
    equal(second.report("4711")["exit_code"], "1:0", "what its epilog said")
    wait_until(lambda: not os.path.exists(record), "no record")


@test
def a_process_that_outlives_its_job():
    """Its tag is stale then, and the next job of the same id does not get it."""
    daemon = Node()
    first = Group("freezer", V1 + "/job_4711")
    actor = actor_in(first)
    started(daemon, actor, 7)
    Group("freezer", f"/e2e{os.getpid()}").enter(actor.pid)
    daemon.job("end", "4711")
    first.remove()
    wait_until(lambda: daemon.jobs("4711") == ["ended"], "the end of the job")
    second = Group("freezer", V1 + "/job_4711")
    other = actor_in(second)
    started(daemon, other, 11)
    actor.do("launch(cuda, 100)")
    equal(daemon.sum("4711"), 11, "launches of the second job")
    actor.end()


# ---- who may not

@test
def a_users_folders_are_no_jobs():
    """Where a user may make groups, their names say nothing; below a job's group they belong to that job."""
    daemon = Node()
    own, step = Group("pids", f"/e2e{os.getpid()}"), Group("pids", V1 + "/job_4711/step_0")
    for group in (own, step):
        os.chown(group.path, NOBODY, NOBODY)
    made = [own.path + "/slurm", own.path + "/slurm/uid_0", own.path + "/slurm/uid_0/job_66", step.path + "/mine"]
    State.cleanup.callback(lambda: [remove(path) for path in reversed(made) if os.path.exists(path)])
    for path in made:
        equal(run(["mkdir", path], user=NOBODY, group=NOBODY, extra_groups=[]).returncode, 0, f"mkdir {path}")
    in_own, in_step = Actor(("cuda", CUDA)), Actor(("cuda", CUDA))
    for path, actor in ((made[2], in_own), (made[3], in_step)):
        with open(path + "/cgroup.procs", "w") as f:
            f.write(str(actor.pid))
        started(daemon, actor, 7)
    equal((daemon.job_of(in_own.pid), daemon.job_of(in_step.pid)), ("", "4711"), "jobs")
    equal(daemon.jobs("66"), [], "jobs of the user's making")
    in_own.end(), in_step.end()


@test
def root_of_a_users_own_namespace():
    daemon, own = Node(), Group("pids", f"/e2e{os.getpid()}")
    os.chown(own.path, NOBODY, NOBODY)
    made = [own.path + "/slurm", own.path + "/slurm/uid_0", own.path + "/slurm/uid_0/job_66"]
    State.cleanup.callback(lambda: [remove(path) for path in reversed(made) if os.path.exists(path)])
    result = run(["unshare", "-Ur", "mkdir", *made], user=NOBODY, group=NOBODY, extra_groups=[])
    if not os.path.exists(made[2]):
        raise Absent(f"no user namespaces: {result.stderr.strip()}")
    actor = Actor(("cuda", CUDA))
    with open(made[2] + "/cgroup.procs", "w") as f:
        f.write(str(actor.pid))
    started(daemon, actor, 7)
    equal((daemon.job_of(actor.pid), daemon.jobs("66")), ("", []), "job of the process, and jobs")
    actor.end()


@test
def three_hundred_jobs_at_once():
    """Those that find no room are counted; who was there first keeps what it had."""
    daemon = Node(expect=["alert events_lost.* fires"])
    group = Group("freezer", V1 + "/job_4711/step_0")
    actor = actor_in(group)
    started(daemon, actor, 7)
    more = [Group("freezer", f"{V1}/job_{n}") for n in range(5001, 5300)]
    wait_until(lambda: daemon.lost_jobs(), "jobs without a slot")
    equal(daemon.lost_jobs(), {"job": 300 - SLOTS}, "what was lost")
    late = actor_in(more[-1])
    started(daemon, late, 3)
    actor.do("launch(cuda, 4)")
    equal((daemon.job_of(late.pid), daemon.job_of(actor.pid)), ("", "4711"), "jobs of the latest and the first process")
    equal(daemon.sum("4711"), 11, "launches of the first job")
    refused = daemon.job("start", "9999")
    check(refused.returncode and "no room" in refused.stderr, f"a job that has no room: {refused}")
    late.end()
    for one in more:
        one.remove()
        daemon.job("end", one.path.rsplit("_")[-1])
    wait_until(lambda: daemon.jobs("5001") in ([], ["ended"]) and daemon.metrics(), "their end")
    wait_until(lambda: daemon.metrics() and not daemon.jobs("5001"), "room")
    group = Group("freezer", V1 + "/job_6001")
    other = actor_in(group)
    started(daemon, other, 5)
    equal(daemon.job_of(other.pid), "6001", "job of one that came later")


# ---- daemons that come late, and sites without Slurm

@test
def a_daemon_that_comes_late():
    """What runs already is found, in both versions, and what it starts from then on is of the job too."""
    one, two = Group("memory", V1 + "/job_4711/step_0/task_0"), Group("v2", V2 + "/job_4712/step_batch/user/task_0")
    actors = [actor_in(one), actor_in(two)]
    daemon = Node()
    for actor in actors:
        started(daemon, actor, 7)
    equal([daemon.job_of(a.pid) for a in actors], ["4711", "4712"], "jobs")
    late = actor_in(Group("memory", V1 + "/job_4711/step_1"))
    started(daemon, late, 5)
    equal(daemon.job_of(late.pid), "4711", "job of a process in a step that was made later")
    for actor in (*actors, late):
        actor.end()
    two.remove()
    wait_until(lambda: daemon.jobs("4712") == ["ending"], "the end of the job of version 2")


@test
def a_group_by_name():
    """zernel job start --cgroup: those that are in, those that come, and those in groups below."""
    daemon, top = Node(), f"/e2e{os.getpid()}"
    forms = {"one": lambda g: g.path, "two": lambda g: f"{hierarchy('pids')}:pids:{top}/two"}
    for n, (name, form) in enumerate(forms.items()):
        group = Group("pids", f"{top}/{name}")
        inside = actor_in(Group("pids", f"{top}/{name}/below"))
        result = daemon.job("start", name, "--cgroup", form(group))
        equal((result.returncode, result.stderr), (0, ""), "job start")
        later = actor_in(group)
        for actor in (inside, later):
            started(daemon, actor, 7)
            equal(daemon.job_of(actor.pid), name, "job")
        equal(daemon.sum(name), 14, "launches of the job")


def hierarchy(controller):
    with open("/proc/self/cgroup") as f:
        return next(line.split(":")[0] for line in f if controller in line.split(":")[1].split(","))


@test
def a_group_of_version_2_by_name():
    daemon, group = Node(), Group("v2", f"/e2e{os.getpid()}/three")
    inside = actor_in(group)
    equal(daemon.job("start", "three", "--cgroup", f"0::/e2e{os.getpid()}/three").returncode, 0, "job start")
    started(daemon, inside, 7)
    equal(daemon.job_of(inside.pid), "three", "job")


@test
def a_process_by_number():
    daemon, actor = Node(), Actor(("cuda", CUDA))
    started(daemon, actor, 7)
    equal(daemon.job("start", "mine", "--pid", str(actor.pid), f"uid={NOBODY}").returncode, 0, "job start")
    child = actor.do("""
r, w = os.pipe()
answer = os.fork()
if answer == 0:
    launch(cuda, 3); os.write(w, b"x"); time.sleep(3600)
os.read(r, 1)""")
    try:
        equal([daemon.job_of(p) for p in (actor.pid, child)], ["mine"] * 2, "jobs of parent and child")
    finally:
        os.kill(child, signal.SIGKILL)
    gone = Process(["true"])
    gone.end()
    for arguments, why in ((["--pid", str(gone.pid)], "process"), (["--cgroup", "/no/such/group"], "no control group"),
                           (["--cgroup", "/etc"], "control group"), (["--cgroup", "../.."], "cgroup must be")):
        result = daemon.job("start", "other", *arguments)
        check(result.returncode and why in result.stderr, f"{arguments}: {result}")
        equal(daemon.jobs("other"), [], "jobs that never were")


def many_listen(daemon):
    """As on a node with services. Who begins to listen while a process uses a GPU is looked at."""
    with contextlib.ExitStack() as sockets:
        for _ in range(101):
            sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
        daemon.ticked(3)
        sockets.enter_context(socket.create_server(("127.0.0.1", 0)))
        daemon.ticked(3)


@test
def nothing_is_allocated_for_jobs():
    """The test build counts every allocation of the whole program after it said that it is ready."""
    daemon = Node(binary=os.path.join(TOOLS, "zerneld-alloc"))
    group = Group("freezer", V1 + "/job_4711/step_0")
    actor = actor_in(group)
    started(daemon, actor, 7)
    many_listen(daemon)
    named = Group("pids", f"/e2e{os.getpid()}/one")
    equal(daemon.job("start", "one", "--cgroup", named.path).returncode, 0, "job start")
    daemon.job("start", "two", "--cgroup", "/no/such/group")
    actor.end()
    group.remove()
    daemon.job("end", "4711")
    wait_until(lambda: daemon.jobs("4711") in ([], ["ended"]), "the end of the job")
    for _ in range(3):
        daemon.metrics(), daemon.json()
    for n in range(SLOTS):  # each further job leaves less room for those that have ended
        daemon.say(f"start\nid={5000 + n}\n")
        daemon.say(f"end\nid={5000 + n}\n")
    wait_until(lambda: not daemon.jobs("4711"), "the job is forgotten")
    equal(daemon.end(), 0, "exit status")


# ---- what the kernel kills for want of memory, in groups with a small limit

LIMIT = 64 << 20
KILLS = "zernel_oom_kills_total"
EATER = "import sys; sys.stdin.readline(); x = b'x' * (512 << 20)"


def small(path):
    group = Group("memory", path)
    for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "memory.max"):
        if os.path.exists(f"{group.path}/{name}"):
            with open(f"{group.path}/{name}", "w") as file:
                file.write(str(LIMIT))
    return group


def eat(group):
    """A process without a hooked library is killed in the group."""
    eater = Process(["/usr/bin/python3", "-c", EATER], stdin=subprocess.PIPE)
    eater.wanted = -9
    group.enter(eater.pid)
    eater.process.stdin.write("\n")
    eater.end()


@test
def kills_of_a_job_are_counted():
    daemon = Daemon("--push-interval-ms", "100", expect=["alert oom_kill.*job_id=\"4711\".* fires"])
    equal(daemon.metrics().all(KILLS), {(("job_id", ""),): 0}, "kills of nothing")
    group = small(f"{V1}/job_4711/step_0")
    wait_until(lambda: daemon.metrics().one(KILLS, job_id="4711") == 0, "the job")
    for _ in range(3):
        eat(group)
    wait_until(lambda: daemon.metrics().one(KILLS, job_id="4711") == 3, "three kills")
    record = daemon.json("/jobs")["jobs"][0]["oom_killed"]
    equal([(k["command"], k["step"], k["limit_of"], k["limit_bytes"]) for k in record],
        3 * [("python3", "0", "step", LIMIT)], "who")
    for kill in record:  # what it had before it came is charged elsewhere, and some of the group's is the kernel's
        check(abs(kill["anon_bytes"] - LIMIT) < LIMIT / 8, kill)
        check(LIMIT - (1 << 20) <= kill["group_used_bytes"] <= LIMIT, kill)  # the kernel charges 64 pages at a time
    equal({dict(ls)["pid"] for (n, ls) in daemon.metrics() if n == "zernel_oom_kill_memory_bytes"},
          {str(k["pid"]) for k in record}, "processes of the metric")
    equal(daemon.metrics().one(KILLS, job_id=""), 0, "kills of no job")
    wait_until(lambda: [a["job_id"] for a in daemon.json("/alerts")["alerts"] if a["state"] == "firing"] == ["4711"],
        "the alert")
    equal(daemon.metrics().lost(), {}, "losses")


@test  # what a user makes as often as he likes, while the daemon has no CPU, leaves room for what is told but once
def a_flood_of_events_hides_no_kill():
    daemon = Daemon("--push-interval-ms", "100", expect=["alert oom_kill.*job_id=\"4711\".* fires", "ncclCommAbort",
                                                         "alert events_lost.* fires", "log: .* held back"])
    group, user = small(f"{V1}/job_4711/step_0"), Actor(("cuda", CUDA), ("nccl", NCCL))
    daemon.attached(CUDA, NCCL)
    user.do("ready(cuda)")
    wait_until(lambda: daemon.metrics().one(KILLS, job_id="4711") == 0 and user.pid in daemon.metrics().pids(), "both")
    with daemon.stopped():
        user.do("for _ in range(3001): cuda.fake_cuda_set(b'fail_next', 2), ok(cuda.cuMemAlloc_v2(byref(u64()), 1), 2)")
        user.do("for _ in range(3001): nccl.ncclCommAbort(None)")
        eat(group)
    wait_until(lambda: daemon.metrics().one(KILLS, job_id="4711") == 1, "the kill")
    equal([k["command"] for k in daemon.json("/jobs")["jobs"][0]["oom_killed"]], ["python3"], "who was killed")
    wait_until(lambda: 3001 in daemon.metrics().all("zernel_gpu_alloc_failures_total", pid=str(user.pid)).values(),
        "allocations that failed")
    lost = daemon.metrics().lost()
    check(lost.keys() == {"ringbuf"} and lost["ringbuf"] < 3001, f"what gave way: {lost}")
    wait_until(lambda: daemon.metrics().one("zernel_alert_state", alert="events_lost") == 2, "the alert of that")
    wait_until(lambda: any("held back" in line for line in daemon.lines()), "the lines of the log that were left out")


@test
def kills_of_other_processes_are_counted_if_they_are_tracked():
    daemon = Daemon("--push-interval-ms", "100", expect=["alert oom_kill.*fires"])
    group = small(f"/zernel_e2e_{os.getpid()}")
    eat(group)
    actor = Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    actor.do("ready(cuda); x = alloc(cuda, 1 << 20)")
    wait_until(lambda: actor.pid in daemon.metrics().pids(), "the process")
    group.enter(actor.pid)
    actor.wanted = -9
    actor.tell("x = b'x' * (512 << 20)")
    wait_until(lambda: daemon.metrics().one(KILLS, job_id="") == 1,
        "the kill of a tracked process, and not of the other one")
    daemon.gone(actor.pid)
    wait_until(lambda: daemon.metrics().one("zernel_alert_state", alert="oom_kill") == 2, "the alert")


if __name__ == "__main__":
    main()
