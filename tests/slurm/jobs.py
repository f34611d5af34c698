# SPDX-License-Identifier: GPL-2.0
"""The tests of run.py. A job's programs are the driver with the fake libraries, in copies that every user may run; what
it did it prints as JSON, one file per task. An idle driver outside of all jobs keeps the libraries hooked, as on a node
whose jobs follow one another: what is measured here is the job, not how fast a new library is found.
"""
import contextlib
import glob
import os
import shutil
import signal
import stat

from cluster import CONTRIB, NODE, Cluster, as_user
from harness import (CUDA, DRIVER, NCCL, ZERNEL, Daemon, Driver, State, check, equal, parse_json, run, run_all, test,
                     wait_until)

OWNER, OTHER = "games", "backup"  # users that every Debian has
LAUNCHES = ("kernel", "graph", "cooperative", "captured")
MIB = 1 << 20
ABORT = "ncclCommAbort"  # the scenario "nccl" has one, and the daemon warns of it
site = None  # the Site


class Site:
    """The cluster, and the programs where all users may run them."""

    def __init__(self):
        self.cluster = Cluster("/run/zernel-test/zernel")
        self.folder = self.cluster.folder
        self.bin = os.path.join(self.folder, "bin")
        os.mkdir(self.bin)
        os.mkdir("/run/zernel-test", 0o755)
        shutil.copy(os.path.realpath(ZERNEL), "/run/zernel-test/zernel")
        for path in (DRIVER, CUDA, NCCL):
            shutil.copy(path, self.bin)
        self.driver, self.cuda, self.nccl = (os.path.join(self.bin, os.path.basename(p)) for p in (DRIVER, CUDA, NCCL))
        self.reports = os.path.join(self.folder, "reports")

    def daemon(self, **more):
        return Daemon("--control", "/run/zernel/control.sock", "--report-dir", self.reports, **more)

    def hooked(self, **more):
        """A daemon that has hooked the libraries."""
        daemon = self.daemon(**more)
        Driver("idle", cuda=self.cuda, nccl=self.nccl, program=self.driver)
        return daemon.attached(self.cuda, self.nccl)

    def command(self, scenario, *options):
        return " ".join([self.driver, "--cuda", self.cuda, "--nccl", self.nccl, "--scenario", scenario, *options])


@contextlib.contextmanager
def slurm():
    global site
    site = Site()
    try:
        yield
    finally:
        site.cluster.close()


def run_tests(pattern):
    return run_all(pattern, root=True)


def submit(script, *options, user=OWNER):
    """A batch job; it has gone when the test ends."""
    job = site.cluster.batch(script, *options, user=user)
    State.cleanup.callback(site.cluster.end, job)
    return job


# ---- what jobs did, by what they print and by their reports

def did(job, name="*"):
    """What the drivers of a job printed, into files JOB.NAME each."""
    found = []
    for path in sorted(glob.glob(f"{site.folder}/out/{job}.{name}")):
        with open(path) as file:
            text = file.read()
        found.append(parse_json(text[text.index("{"):]))
    check(found, f"no driver of job {job} has said what it did")
    return found


def report(job, restart=0):
    path = f"{site.reports}/{job}_{restart}.json" if restart else f"{site.reports}/{job}.json"
    wait_until(lambda: os.path.exists(path), f"{path}; there are {os.listdir(site.reports)}")
    with open(path) as file:
        return parse_json(file.read())


def launches_of(drivers):
    return {kind: sum(d["launches"][kind] for d in drivers) for kind in LAUNCHES}


def collectives_of(drivers):
    """{op: (calls, bytes, errors)} of those that were called."""
    ops = {op for d in drivers for op, o in d["nccl"].items() if o["calls"]}
    return {op: tuple(sum(d["nccl"][op][what] for d in drivers) for what in ("calls", "bytes", "errors")) for op in ops}


def equal_figures(got, drivers):
    """A report has all that the drivers did, and nothing else."""
    equal({kind: got["launches"][kind] for kind in LAUNCHES}, launches_of(drivers), "launches")
    equal(got["launches"]["errors"], sum(d["launch_errors"] for d in drivers), "launch errors")
    equal({o["op"]: (o["calls"], o["bytes"], o["errors"]) for o in got["nccl"]}, collectives_of(drivers), "NCCL")
    equal(got["processes"], len(drivers), "processes")


def steps_of(got):
    return sorted(s["name"] for s in got["steps"])


def to_file(command, name):
    return f"{command} > {site.folder}/out/$SLURM_JOB_ID.{name}"


class Told:
    """A driver in a job that waits until it is told to work, and then until it is told to end: a pipe is its input."""

    def __init__(self, name, scenario, *options):
        self.path = f"{site.folder}/{name}.pipe"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        os.mkfifo(self.path)
        os.chmod(self.path, 0o666)
        command = site.command(scenario, "--gate", "--hold-stdin", *options)
        self.command = to_file(f"{command} < {self.path}", f"{name}$SLURM_RESTART_COUNT")
        self.name, self.pipe = name, None

    def go(self, job, restart=""):
        """Returns when its work is done."""
        self.pipe = open(self.path, "w")
        self.pipe.write("\n")
        self.pipe.flush()
        path = f"{site.folder}/out/{job}.{self.name}{restart}"

        def finished():
            with contextlib.suppress(FileNotFoundError), open(path) as file:
                return file.read().endswith("}\n")
        wait_until(finished, f"{path}")

    def let_go(self):
        self.pipe.close()


def spool():
    """What lies in the spool."""
    with contextlib.suppress(FileNotFoundError):
        return [name for name in os.listdir("/run/zernel/jobs.d") if not name.startswith(".")]


def zernel(*argv, user=None):
    return run([*as_user(user), "/run/zernel-test/zernel", *argv])


def shown(job):
    """What root sees of a job that runs."""
    return wait_until(lambda: listed(job), f"job {job} in the list of jobs")


def listed(job):
    done = zernel("job", "show", str(job), "--json")
    return parse_json(done.stdout) if done.returncode == 0 else None


def not_drained():
    state = site.cluster.node_state()
    check("drain" not in state, f"the node is {state}: {site.cluster.log()}")


# ---- tests

@test
def a_batch_job_is_reported_with_all_it_did():
    site.hooked(expect=[ABORT])
    job = submit(to_file(site.command("nccl,launches,storm", "--threads", "3", "--calls", "1009"), "0"),
                             "--account=physics", "--job-name=counting")
    site.cluster.wait(job, "COMPLETED")
    got = report(job)
    equal_figures(got, did(job))
    want = {"job_id": job, "restart": 0, "user": OWNER, "account": "physics", "partition": "short", "name": "counting",
            "exit_code": "0:0", "state": "ended"}
    equal({key: got[key] for key in want}, want, "who it was")
    equal(steps_of(got), ["batch", "extern"], "steps")
    not_drained()


@test
def every_step_of_a_job_is_its_own():
    site.hooked(expect=[ABORT])
    step = site.command("storm,nccl", "--threads", "2", "--calls", "503")
    script = "".join(f"srun -n{n} -o {site.folder}/out/%j.%s.%t {step}\n" for n in (2, 3, 1))
    job = submit(script, "-n3")
    site.cluster.wait(job, "COMPLETED")
    got = report(job)
    equal(len(did(job)), 6, "tasks")
    equal_figures(got, did(job))
    equal(steps_of(got), ["0", "1", "2", "batch", "extern"], "steps")
    check(all(s["end"] for s in got["steps"]), "a step without an end")


@test
def a_job_shorter_than_a_tick_is_complete():
    site.hooked()
    for calls in ("7", "1511"):
        command = site.command("storm", "--threads", "1", "--calls", calls)
        site.cluster.say("srun", "-o", f"{site.folder}/out/%j.short", command.split()[0], *command.split()[1:],
                         user=OWNER)
        job = max(int(os.path.basename(p).split(".")[0]) for p in glob.glob(f"{site.folder}/out/*.short"))
        equal_figures(report(job), did(job))
        equal(report(job)["launches"]["kernel"], int(calls), "launches")


@test
def an_array_of_jobs_of_one_second_is_complete():
    site.hooked()
    command = site.command("storm", "--threads", "1", "--calls", "$((1000 + SLURM_ARRAY_TASK_ID))", "--hold-ms", "1000")
    array = submit(to_file(command, "$SLURM_ARRAY_TASK_ID"), "--array=1-11")
    site.cluster.wait(array, "COMPLETED")
    jobs = site.cluster.say("squeue", "-h", "-r", "-t", "all", "-j", array, "-o", "%A %K").split("\n")
    equal(len(jobs), 11, "jobs of the array")
    for job, task in (line.split() for line in jobs):
        got = report(job)
        equal_figures(got, did(job, task))
        equal(got["launches"]["kernel"], 1000 + int(task), f"launches of task {task}")
        equal((got["array_job"], got["array_task"]), (array, task), "array")


@test
def two_jobs_at_once_are_kept_apart():
    site.hooked(expect=[ABORT])
    drivers = [Told("one", "storm,nccl", "--threads", "2", "--calls", "1013"),
               Told("two", "launches,storm", "--threads", "3", "--calls", "509")]
    jobs = [submit(d.command, user=user) for d, user in zip(drivers, (OWNER, OTHER))]
    for job, driver in zip(jobs, drivers):
        site.cluster.wait(job, "RUNNING")
        driver.go(job)
    for driver in drivers:
        driver.let_go()
    for job, user in zip(jobs, (OWNER, OTHER)):
        site.cluster.wait(job, "COMPLETED")
        equal_figures(report(job), did(job))
        equal(report(job)["user"], user, "user")


@test
def a_requeued_job_is_two_jobs():
    site.hooked()
    driver = Told("again", "storm", "--threads", "1", "--calls", "1009")
    job = submit(driver.command, "--requeue")
    site.cluster.wait(job, "RUNNING")
    driver.go(job)
    site.cluster.say("scontrol", "requeue", job)
    site.cluster.wait(job, "PENDING")
    driver.let_go()
    site.cluster.wait(job, "RUNNING")
    driver.go(job, restart="1")
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    for restart, suffix in ((0, ""), (1, "1")):
        got = report(job, restart)
        equal((got["job_id"], got["restart"]), (job, restart), "which run it was")
        equal_figures(got, did(job, f"again{suffix}"))
    not_drained()


@test
def a_cancelled_job_is_reported():
    site.hooked(expect=[ABORT])
    driver = Told("cancelled", "storm,nccl", "--threads", "2", "--calls", "757")
    job = submit(driver.command)
    site.cluster.wait(job, "RUNNING")
    driver.go(job)
    site.cluster.say("scancel", job)
    site.cluster.wait(job, "CANCELLED")
    got = report(job)
    equal_figures(got, did(job))
    equal(got["state"], "ended", "state")
    driver.let_go()
    not_drained()


@test
def memory_of_each_gpu_has_its_peak():
    site.hooked()
    driver = Told("memory", "memory")
    job = submit(driver.command, "--gres=gpu:4")
    site.cluster.wait(job, "RUNNING")
    driver.go(job)
    wait_until(lambda: [g["peak_bytes"] > 0 for g in listed(job)["gpus"]] == 4 * [True], "which GPUs it uses")
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    got = {g["gpu_id"]: g["peak_bytes"] for g in report(job)["gpus"]}
    equal(got, {gpu: peak for gpu, peak in did(job)[0]["peak"].items() if peak}, "peaks")


@test
def an_allocated_gpu_that_nobody_uses_is_seen():
    daemon = site.hooked()
    driver = Told("idle", "early,storm", "--threads", "1", "--calls", "1009")  # memory and launches on the first GPU
    job = submit(driver.command, "--gres=gpu:2")
    site.cluster.wait(job, "RUNNING")

    def idle(gpu):
        return daemon.metrics().one("zernel_job_gpu_idle_seconds_total", job_id=job, gpu_id=gpu)
    wait_until(lambda: idle("1"), "an idle GPU in the metrics")
    driver.go(job)
    wait_until(lambda: idle("1") > 2, "a GPU idle for two seconds")
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    got = {g["gpu_id"]: g for g in report(job)["gpus"]}
    equal(sorted(got), ["0", "1"], "GPUs of the job")
    check(got["0"]["busy_seconds"] > 0, "the GPU that was used was busy")
    equal(got["1"]["busy_seconds"], 0, "the other one was busy for")
    check(got["1"]["idle_seconds"] > 2, "the other one was idle")
    equal_figures(report(job), did(job))


@test
def the_peak_memory_of_each_step_is_known():
    """A step that touches 50 MiB: Python needs some of its own. Nothing but the control group knows it afterwards."""
    site.hooked()
    touch = f"srun -n1 /usr/bin/python3 -c 'bytearray([1]) * {50 * MIB}'\n"
    job = submit("srun -n1 true\n" + touch)
    site.cluster.wait(job, "COMPLETED")
    peak = {s["name"]: s["memory_peak_bytes"] for s in report(job)["steps"]}
    check(0 < peak["0"] < 30 * MIB, f"the peak of `true`: {peak}")
    check(50 * MIB < peak["1"] < 80 * MIB, f"the peak of 50 MiB: {peak}")


@test
def cpu_time_and_efficiency_are_those_of_the_job():
    """A step whose children say what they used, the last of them after the step's own process has ended."""
    site.hooked()
    burn = ("import os, resource, time\n"
            "def burn(s):\n"
            "    while time.process_time() < s: pass\n"
            "    u = resource.getrusage(resource.RUSAGE_SELF)\n"
            "    print(u.ru_utime + u.ru_stime, flush=True)\n"
            "if os.fork() == 0:\n"
            "    burn(1.5)\n"
            "else:\n"
            "    burn(1); os.wait()\n")
    out = f"{site.folder}/out/burn"
    job = submit(f"srun -n1 -o {out} /usr/bin/python3 -c '{burn}'\n", "-n2")
    site.cluster.wait(job, "COMPLETED")
    with open(out) as f:
        used = sum(float(line) for line in f)
    r = report(job)
    step = {s["name"]: s["cpu_seconds"] for s in r["steps"]}["0"]
    check(used <= step <= 1.01 * used + 0.05, f"CPU time of the step: {step}, and its processes used {used}")
    check(step < r["cpu"]["seconds"] < step + 2, f"CPU time of the job, its script and slurmstepd included: {r['cpu']}")
    equal(r["cpu"]["cpus"], 2, "CPUs that it was given")
    want = r["cpu"]["seconds"] / (2 * r["wall_seconds"])
    check(abs(r["cpu"]["efficiency"] - want) < 0.001, f"efficiency: {r['cpu']}, and not {want}")
    check(r["memory"]["limit_bytes"] and r["memory"]["efficiency"], f"memory: {r['memory']}")


@test
def series_of_a_job_have_its_id_as_long_as_it_is_shown():
    daemon = site.hooked(expect=[ABORT])
    driver = Told("labels", "storm,nccl", "--threads", "1", "--calls", "1019")
    job = submit(driver.command)
    site.cluster.wait(job, "RUNNING")
    driver.go(job)
    did_it, = did(job)
    wait_until(lambda: daemon.metrics().one("zernel_job_processes", job_id=job) == 1, "one process of the job")
    seen = daemon.metrics()
    equal(seen.one("zernel_cuda_launches_total", pid=str(did_it["pid"]), kind="kernel", job_id=job),
          did_it["launches"]["kernel"], "launches of the process")
    equal(seen.one("zernel_job_launches_total", job_id=job), sum(did_it["launches"].values()), "launches of the job")
    bytes_done = sum(op["bytes"] for op in did_it["nccl"].values())
    equal(seen.one("zernel_job_nccl_bytes_total", job_id=job), bytes_done, "bytes of collectives")
    info, = seen.all("zernel_job_info", job_id=job)
    equal({**dict(info), "gpus": ""}, {"user": OWNER, "uid": str(os.stat(f"{site.folder}/out/{job}").st_uid), "account":
          "", "partition": "short", "name": "script", "nodes": "1", "gpus": ""}, "labels of the job")
    driver.let_go()
    report(job)
    for _ in range(3):  # for five minutes, in which a Prometheus comes by whatever others ask for
        check(daemon.metrics().one("zernel_job_launches_total", job_id=job), "an ended job in the metrics")
        daemon.ticked(2)


@test
def a_job_that_began_without_the_daemon_is_known():
    """The prolog leaves what it has to say as a file, and the daemon reads it when it comes."""
    driver = Told("early", "storm", "--threads", "2", "--calls", "1021")
    job = submit(driver.command, "--account=biology")
    site.cluster.wait(job, "RUNNING")
    wait_until(spool, "a file that the prolog left")
    equal(stat.S_IMODE(os.stat("/run/zernel/jobs.d").st_mode) & 0o007, 0, "who else may read these files")
    site.hooked()
    driver.go(job)
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    got = report(job)
    equal((got["user"], got["account"]), (OWNER, "biology"), "who it was")
    equal_figures(got, did(job))
    not_drained()


@test
def a_daemon_that_does_not_answer_holds_no_job():
    daemon = site.hooked()
    os.kill(daemon.pid, signal.SIGSTOP)
    try:
        job = submit("true\n", user=OWNER)
        site.cluster.wait(job, "COMPLETED")
        wait_until(lambda: site.cluster.node_state() == "idle", "the node is idle again")
    finally:
        os.kill(daemon.pid, signal.SIGCONT)
    wait_until(lambda: spool() == [], "an empty spool")
    not_drained()


@test
def a_restarted_daemon_knows_the_jobs_that_run():
    first = site.hooked()
    driver = Told("restarted", "storm,nccl", "--threads", "2", "--calls", "1031")
    job = submit(driver.command, "--account=chemistry")
    site.cluster.wait(job, "RUNNING")
    shown(job)
    first.end()
    site.hooked(expect=[ABORT])
    equal(shown(job)["user"], OWNER, "user of the job")
    driver.go(job)
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    got = report(job)
    equal((got["user"], got["account"], got["partition"]), (OWNER, "chemistry", "short"), "who it was")
    check(got["measured_since"], "that not all of it was seen")
    equal_figures(got, did(job))


@test
def a_job_that_was_requeued_meanwhile_is_the_new_run():
    """Its groups have the name that those of the earlier run had, of whose end and of what began then files tell.
    Else its processes would be those of a job that has ended: ghosts, for which the node is drained."""
    first = site.hooked()
    driver = Told("meanwhile", "storm", "--threads", "1", "--calls", "1037")
    job = submit(driver.command, "--requeue")
    site.cluster.wait(job, "RUNNING")
    shown(job)
    driver.go(job)
    first.end()
    site.cluster.say("scontrol", "requeue", job)
    site.cluster.wait(job, "PENDING")
    driver.let_go()
    site.cluster.wait(job, "RUNNING")
    daemon = site.hooked()
    wait_until(lambda: shown(job)["restart"] == 1, "the new run")
    driver.go(job, restart="1")
    launches = wait_until(lambda: daemon.metrics().one("zernel_job_launches_total", job_id=job), "its launches")
    check(launches >= 1037, f"launches of the new run: {launches}")
    ghosts = run(["/run/zernel-test/zernel", "ghosts", f"http://127.0.0.1:{daemon.port}", "--json", "--older", "0"])
    equal([g["pid"] for g in parse_json(ghosts.stdout)["ghosts"]], [], "ghosts")
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    equal_figures(report(job, 1), did(job, "meanwhile1"))


@test
def a_killed_daemon_knows_them_too():
    first = site.hooked()
    driver = Told("killed", "storm", "--threads", "1", "--calls", "1033")
    job = submit(driver.command)
    site.cluster.wait(job, "RUNNING")
    shown(job)
    first.kill()
    site.hooked()
    driver.go(job)
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    equal(report(job)["user"], OWNER, "user of the job")
    equal_figures(report(job), did(job))


@test
def the_owner_and_root_read_a_report_and_nobody_else():
    site.hooked()
    job = submit(to_file(site.command("storm", "--threads", "1", "--calls", "11"), "0"))
    site.cluster.wait(job, "COMPLETED")
    report(job)
    for form in ("--json", "--line", None):
        argv = ["job", "report", job] + ([form] if form else [])
        owner, root, other = zernel(*argv, user=OWNER), zernel(*argv), zernel(*argv, user=OTHER)
        equal((owner.returncode, root.returncode, other.returncode), (0, 0, 1), f"exit status of {argv}")
        check(job in owner.stdout or form == "--line", f"the owner reads {owner.stdout!r}")
        equal(owner.stdout, root.stdout, "what the owner and root read")
        equal(other.stdout, "", "what another user reads")
        equal(other.stderr.count("\n"), 1, "lines that say why")
    for path in glob.glob(f"{site.reports}/*"):
        equal(stat.S_IMODE(os.stat(path).st_mode), 0o640, f"mode of {path}")


@test
def the_line_of_a_report_fits_a_comment_of_slurm():
    """Of a job that runs: of one that has ended only the accounting database, which is not here, takes a comment."""
    site.hooked(expect=[ABORT])
    driver = Told("line", "storm,nccl", "--threads", "1", "--calls", "1039")
    job = submit(driver.command, "--gres=gpu:2")
    site.cluster.wait(job, "RUNNING")
    driver.go(job)
    line = zernel("job", "report", job, "--line").stdout.rstrip("\n")
    check("launches=1.0" in line and "\n" not in line and len(line) <= 250, f"one line: {line!r}")
    site.cluster.say("scontrol", "update", f"JobId={job}", f"AdminComment={line}")
    check(f"AdminComment={line}" in site.cluster.say("scontrol", "show", "job", job), "the comment that Slurm has")
    driver.let_go()


def stand_in(name, script):
    path = f"{site.folder}/tools/{name}"
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)


def reports(*options, away="nothing", fails="nothing", kills=""):
    """One call of zernel-reports.sh, with a stand-in of the mailer, and some of Slurm's commands that go on as the real
    ones: (what mailer and sacctmgr were told, its stderr). What the others were asked is in the file `asked`. away: a
    command that finds no slurmctld, or no daemon from then on; fails: one that is refused; kills: the name of one that
    kills the call."""
    tools, told = f"{site.folder}/tools", f"{site.folder}/told"
    os.makedirs(tools, exist_ok=True)
    for name in ("squeue", "scontrol", "sinfo"):
        stand_in(name, f'echo {name} "$@" >> {tools}/asked\ncase "{name} $*" in *"{away}"*) echo "slurm_load_jobs error: '
                       'Unable to contact slurm controller (connect failure)" >&2; exit 1 ;; esac\n'
                       f'exec /usr/bin/{name} "$@"\n')
    with open(f"{tools}/asked", "w"):
        pass
    stand_in("zernel", f'case "zernel $*" in *"{away}"*) touch {tools}/gone; exit 1 ;; "zernel job list") '
                       f'[ ! -e {tools}/gone ] || exit 1 ;; esac\nexec /run/zernel-test/zernel "$@"\n')
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{tools}/gone")
    for name in ("sacctmgr", "mailer"):
        stand_in(name, f'printf "%s|" {name} "$@" >> {told}\n[ {name} = sacctmgr ] || cat >> {told}\necho >> {told}\n'
                       f'case "{name} $*" in *"{fails}"*) exit 1 ;; esac\n'
                       # the parent is timeout
                       f'[ {name} != "{kills}" ] || kill -KILL "$(sed -n "s/^PPid:[^0-9]*//p" /proc/$PPID/status)"\n'
                       f'[ {name} = mailer ] || exec /usr/bin/sacctmgr "$@"\n')
    env = {**site.cluster.env, "PATH": f"{tools}:/run/zernel-test:/usr/bin:/bin", "SENDMAIL": f"{tools}/mailer",
           "SLURMD_NODENAME": NODE}
    with contextlib.suppress(FileNotFoundError):
        os.unlink(told)
    done = run([f"{CONTRIB}/zernel-reports.sh", *options, "-d", site.reports, "-s", f"{site.folder}/reports-state"],
               env=env)
    equal(done.returncode, -signal.SIGKILL if kills else 1 if done.stderr else 0, f"exit status with {done.stderr!r}")
    try:
        with open(told) as file:
            return file.read(), done.stderr
    except FileNotFoundError:
        return "", done.stderr


def asked(nodes=False):
    """About jobs, or about nodes."""
    with open(f"{site.folder}/tools/asked") as file:
        return "".join(line for line in file if line.startswith("sinfo ") == nodes)


@test
def reports_become_comments_and_mail():
    site.hooked()
    equal(reports("-r", "-c", "-m"), ("", ""), "what the first call says")
    driver = Told("mailed", "storm", "--threads", "1", "--calls", "1049")
    job = submit(driver.command, "--mail-type=END", "--mail-user=who@example.org",
                 "--job-name=a MailUser=eve@x MailType=END b")
    other = submit("true\n", "--mail-type=FAIL", "--mail-user=not@example.org")
    site.cluster.wait(job, "RUNNING")
    driver.go(job)
    site.cluster.wait(other, "COMPLETED")
    report(other)

    def accounted(what):
        return site.cluster.say("sacct", "-n", "-X", "-P", "-j", other, "-o", what)
    wait_until(lambda: accounted("State") == "COMPLETED", "the job that ended is in the database")
    equal(accounted("AdminComment"), "", "its comment before")
    told, why = reports("-r", "-c", "-m")
    equal(why, "", "complaints")
    check(f"|jobid={other}|set|AdminComment=cpu_eff=" in told, f"a comment for the job that ended: {told}")
    equal(accounted("AdminComment"), zernel("job", "report", other, "--line").stdout.strip().lower(),
          "what sacct says of it: sacctmgr makes it lower case")
    check("mailer" not in told and job not in told, f"no mail yet, as nobody asked for one: {told}")

    def batch_step():
        steps = parse_json(zernel("job", "report", job, "--json").stdout)["steps"]
        return [s for s in steps if s["name"] == "batch" and s["cpu_seconds"] and s["memory_peak_bytes"]]
    wait_until(batch_step, "what a step that runs has used so far")  # once the job's group was looked at
    equal([s["end"] for s in batch_step()], [None], "its end")
    comment = site.cluster.say("scontrol", "show", "job", job)
    check("AdminComment=cpu_eff=" in comment and "launches=1.0" in comment, f"a comment of the job that runs: {comment}")
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    report(job)
    told, why = reports("-m")
    check(told.startswith("mailer|-i|--|who@example.org|To: who@example.org\nSubject: Job "), f"a mail: {told!r}")
    for part in ("\nCPU efficiency ", "\nMemory efficiency ", "\nGPU use ", "\nEnergy", "\nLaunches     1.0"):
        check(part in told, f"{part!r} in the mail: {told}")
    equal(told.count("To: "), 1, "mails")
    equal(reports("-c", "-m"), ("", ""), "what is said twice")
    for path in glob.glob(f"{site.reports}/*"):  # as by a backup, and by systemd with another group of the service
        os.link(path, f"{path}.link")
        os.unlink(f"{path}.link")
        os.chmod(path, 0o600)
        os.chmod(path, 0o640)
        os.chown(path, -1, 1)
        os.chown(path, -1, 0)
    equal(reports("-c", "-m"), ("", ""), "what is said of files whose inodes have changed")
    equal(asked(), "", "what Slurm is asked about these")


def ended_with_mail():
    """A job whose end its owner wants a mail about, which was not sent yet."""
    site.hooked()
    reports("-m")
    return ended()


def ended():
    job = submit("true\n", "--mail-type=ALL", "--mail-user=who@example.org")
    site.cluster.wait(job, "COMPLETED")
    report(job)
    wait_until(lambda: site.cluster.say("sacct", "-n", "-X", "-P", "-j", job, "-o", "State") == "COMPLETED",
               "the job that ended is in the database")
    return job


@test
def what_slurm_does_not_answer_about_is_for_the_next_call():
    job = ended_with_mail()
    for away in ("squeue", "squeue", "show job", "show hostnames"):
        equal(reports("-c", "-m", away=away), ("", f"zernel-reports: job {job}: Slurm does not answer\n"),
              f"without {away}")
    equal(reports("-c", "-m", away="zernel job report"), ("", f"zernel-reports: no report of job {job}\n"),
          "while zerneld is started anew")
    told, why = reports("-c", "-m")
    equal(why, "", "complaints")
    equal(asked(nodes=True), f"sinfo -h -n {NODE} -o %n\n", "of this node alone: of all it would be all their records")
    check(f"|jobid={job}|set|AdminComment=" in told and told.count("To: who@example.org\n") == 1,
          f"a comment and a mail: {told}")
    equal(reports("-c", "-m"), ("", ""), "what is said twice")


@test
def a_node_that_slurm_does_not_know_is_complained_of():
    """Of no report it would be the first node: all would count as handed on."""
    ended_with_mail()
    equal(reports("-m", "-n", "nowhere"),
          ("", "zernel-reports: Slurm knows no node nowhere; -n says what it calls this one\n"), "another name")
    equal(reports("-m")[0].count("To: who@example.org\n"), 1, "mails once the name is right")


@test
def a_mailer_that_fails_is_complained_of():
    job = ended_with_mail()
    equal(reports("-m", fails="mailer")[1], f"zernel-reports: no mail for job {job}\n", "stderr")
    equal(reports("-m"), ("", ""), "what is tried again")


@test
def a_comment_waits_for_the_database_and_the_mail_does_not():
    job, other = ended_with_mail(), ended()
    told, why = reports("-c", "-m", fails="sacctmgr")
    equal(why, f"zernel-reports: no comment for job {job}\n", "what is complained of, once for all jobs")
    equal(told.count("To: who@example.org\n"), 2, f"mails: {told}")
    told, why = reports("-c", "-m", fails="sacctmgr")
    equal((why, told.count("To: ")), (f"zernel-reports: no comment for job {job}\n", 0), f"complaints and mails: {told}")
    equal(asked(), "", "what slurmctld, which may have forgotten the jobs, is asked")
    told, why = reports("-c", "-m")
    equal((why, told.count("To: ")), ("", 0), f"complaints and mails: {told}")
    for one in (job, other):
        equal(told.count(f"|jobid={one}|set|AdminComment=cpu_eff="), 1, f"comments: {told}")
    equal(reports("-c", "-m"), ("", ""), "what is said twice")


@test
def what_a_killed_call_did_not_reach_is_for_the_next_one():
    ended_with_mail()
    ended()
    first, _ = reports("-c", "-m", kills="mailer")
    equal(first.count("To: who@example.org\n"), 1, f"mails before the end: {first}")
    second, why = reports("-c", "-m")
    equal((why, second.count("To: who@example.org\n")), ("", 1), f"complaints and mails: {second}")
    check(first.split("Subject: ")[1].split("\n")[0] != second.split("Subject: ")[1].split("\n")[0], "of another job")
    equal(reports("-c", "-m"), ("", ""), "what is said twice")


@test
def a_job_whose_epilog_takes_long_is_not_over():
    """Its report is written when its control group has been gone for 10 s, and again when its epilog has come."""
    site.hooked()
    reports("-m")
    gate = f"{site.folder}/epilog-goes-on"
    slow = site.cluster.write("epilog.d/90-slow.sh", f"#!/bin/sh\nuntil [ -e {gate} ]; do sleep 0.1; done\n", 0o755)
    State.cleanup.callback(os.unlink, gate)
    State.cleanup.callback(os.unlink, slow)
    job = submit("true\n", "--mail-type=END", "--mail-user=who@example.org")
    State.cleanup.callback(site.cluster.write, "epilog-goes-on", "")
    site.cluster.wait(job, "COMPLETING")
    report(job)
    path = f"{site.reports}/{job}.json"
    early = os.stat(path).st_mtime_ns
    equal(reports("-c", "-m"), ("", ""), "what is said of a job whose epilog runs")
    site.cluster.write("epilog-goes-on", "")
    site.cluster.wait(job, "COMPLETED")
    wait_until(lambda: os.stat(path).st_mtime_ns != early, "a report with the epilog")
    told, why = reports("-m")
    equal((why, told.count("To: who@example.org\n")), ("", 1), f"complaints and mails: {told}")
    os.utime(path)
    equal(reports("-m"), ("", ""), "what is said of a report that is written once more")


@test
def of_a_job_that_was_queued_again_the_last_run_is_told():
    site.hooked()
    reports("-m")
    driver = Told("mailed-again", "storm", "--threads", "1", "--calls", "1061")
    job = submit(driver.command, "--requeue", "--mail-type=END", "--mail-user=who@example.org")
    site.cluster.wait(job, "RUNNING")
    driver.go(job)
    site.cluster.say("scontrol", "requeue", job)
    site.cluster.wait(job, "PENDING")
    driver.let_go()
    report(job)
    equal(reports("-c", "-m"), ("", ""), "what is said of a job that waits to run again")
    site.cluster.wait(job, "RUNNING")
    equal(reports("-c", "-m"), ("", ""), "what is said of a job that runs again")
    driver.go(job, restart="1")
    driver.let_go()
    site.cluster.wait(job, "COMPLETED")
    report(job, 1)
    mail = zernel("job", "report", job, "--restart", "1", "--mail").stdout
    told, why = reports("-m")
    equal((why, told.count("To: "), mail in told), ("", 1, True), f"complaints, mails and that of the last run: {told}")
    equal(reports("-m"), ("", ""), "what is said twice")


@test
def each_task_of_an_array_has_its_own_comment():
    """The last one that starts has the id of the array, which scontrol and sacctmgr take for all tasks."""
    site.hooked()
    command = site.command("storm", "--threads", "1", "--calls", "$((100 * SLURM_ARRAY_TASK_ID))", "--hold-ms", "60000")
    array = submit(to_file(command, "$SLURM_ARRAY_TASK_ID"), "--array=1-2")
    site.cluster.wait(array, "RUNNING")
    tasks = dict(line.split() for line in site.cluster.say("squeue", "-h", "-r", "-j", array, "-o", "%K %A").split("\n"))
    check(array in tasks.values(), f"a task with the id of the array: {tasks}")

    def launches(task):
        return parse_json(zernel("job", "report", tasks[task], "--json").stdout)["launches"]["kernel"]
    for task in tasks:
        wait_until(lambda task=task: launches(task) == 100 * int(task), "all launches")
    for _ in range(2):  # whichever comes first
        equal(reports("-r"), ("", ""), "what the call says")
        for task, job in tasks.items():
            check(f"scontrol update JobId={array}_{task} AdminComment=" in asked(), f"task {task}: {asked()}")
            comment = site.cluster.say("scontrol", "show", "job", f"{array}_{task}")
            check(f" launches={100 * int(task)} " in comment, f"the comment of task {task}, job {job}: {comment}")
    site.cluster.say("scancel", array)
    site.cluster.wait(array, "CANCELLED")
    for job in tasks.values():
        report(job)

    def is_accounted(task):
        said = site.cluster.say("sacct", "-n", "-X", "-P", "-j", f"{array}_{task}", "-o", "State")
        return said.startswith("CANCELLED")
    reports("-c", fails="sacctmgr")
    for task in tasks:
        wait_until(lambda task=task: is_accounted(task), "the database knows of its end")
    told, why = reports("-c", fails="sacctmgr -i modify")  # as it does not know of a job that has just ended
    equal(why.count("no comment for job "), 2, f"complaints of what is tried again: {why}")
    told, why = reports("-c")
    equal(why, "", f"complaints, of what sacctmgr was told: {told}")
    for task, job in tasks.items():
        comment = site.cluster.say("sacct", "-n", "-X", "-P", "-j", f"{array}_{task}", "-o", "AdminComment")
        check(f" launches={100 * int(task)} " in comment, f"what sacct has of task {task}, job {job}: {comment}")


@test
def what_a_running_job_has_no_comment_for_is_complained_of():
    daemon = site.hooked()
    reports("-m")
    job = submit("sleep 60\n")
    site.cluster.wait(job, "RUNNING")
    shown(job)
    equal(reports("-r"), ("", ""), "what the call says")
    told, why = reports("-r", away="scontrol update")
    check(why.startswith(f"zernel-reports: no comment for job {job}: ") and "Unable to contact" in why, f"why: {why!r}")
    equal(reports("-r", away="squeue")[1], f"zernel-reports: job {job}: Slurm does not answer\n", "without squeue")
    daemon.end()
    told, why = reports("-r")
    check(why.endswith("zernel-reports: zerneld does not answer\n"), f"without the daemon: {why!r}")


@test
def without_the_program_jobs_run_all_the_same():
    os.rename("/run/zernel-test/zernel", "/run/zernel-test/away")
    try:
        job = submit("true\n", user=OWNER)
        site.cluster.wait(job, "COMPLETED")
        wait_until(lambda: site.cluster.node_state() == "idle", "the node is idle again")
    finally:
        os.rename("/run/zernel-test/away", "/run/zernel-test/zernel")
    not_drained()


@test
def the_prolog_leaves_nobody_behind():
    """slurmd waits for the end of the script's output; a prolog's processes are gone when it says that it is done."""
    site.hooked()
    env = {"SLURM_JOB_ID": "4294967001", "SLURM_JOB_UID": "0"}
    for script in ("prolog.d/50-zernel.sh", "epilog.d/50-zernel.sh"):
        done = run([f"{site.folder}/{script}"], env=env)
        equal((done.returncode, done.stdout, done.stderr), (0, "", ""), script)


@test
def prometheus_gets_the_nodes_that_slurm_has():
    path = f"{site.folder}/nodes.json"

    def listed_by(*options):
        done = run([f"{CONTRIB}/../prometheus/slurm-file-sd.sh", *options, path], env=site.cluster.env)
        return done.returncode, done.stdout, done.stderr
    equal(listed_by(), (0, "", ""), "a list")
    with open(path) as f:
        equal(parse_json(f.read()), [{"targets": [f"{NODE}:9091"]}], "targets")
    status, _, why = listed_by("-P", "nobodys")
    equal((status, "no node" in why), (1, True), f"a partition that is not there: {why}")


@test
def the_scripts_are_clean():
    scripts = glob.glob(f"{CONTRIB}/*.sh") + glob.glob(f"{CONTRIB}/*/*.sh") + glob.glob(f"{CONTRIB}/../prometheus/*.sh")
    equal(len(scripts), 5, "scripts")
    done = run(["shellcheck", *scripts])
    equal((done.returncode, done.stdout), (0, ""), "shellcheck")
