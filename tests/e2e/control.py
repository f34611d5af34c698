#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The control socket of a running daemon, with `zernel job` and with bare sockets: who may do what, hostile input,
reports, what is left while the daemon is stopped or down, and records that a restart finds. The daemon simulates, but
for one test."""
import ast
import contextlib
import json
import os
import pwd
import re
import shutil
import socket
import struct
import subprocess
import time

import control_socket
from control_socket import answered
from harness import NOBODY, PATIENCE, TOOLS, ZERNEL, Daemon, Process, State, check, equal, folder, main, parse_json, \
    test, test_simulated, wait_until

SLURM = {"SLURM_JOB_ID": "94711", "SLURM_JOB_UID": str(NOBODY), "SLURM_JOB_USER": "nobody",
    "SLURM_JOB_PARTITION": "gpu"}
HEAD = "zernel 1 "


def place(name):
    return os.path.join(folder(), name)


def socket_path():
    return place("run/control.sock")


def simulated(*options, **more):
    return Daemon("--simulate", "--control", socket_path(), "--report-dir", place("reports"), *options, **more)


def frugal():
    """One that must not allocate once it is ready."""
    return simulated(binary=os.path.join(TOOLS, "zerneld-alloc"))


def asked(argv, env=None):
    env = {"ZERNEL_CONTROL": socket_path(), "ZERNEL_CONFIG": "/dev/null", **(env or {})}
    return subprocess.run(argv, env=env, text=True, capture_output=True, timeout=60)


def zernel(*arguments, user=None, env=None):
    """`zernel job`, as somebody else too, who needs a copy that all may run."""
    program = place("zernel")
    if not os.path.exists(program):
        shutil.copy(os.path.realpath(ZERNEL), program)
    before = ["setpriv", f"--reuid={user}", "--clear-groups"] if user else []
    return asked([*before, program, "job", *arguments], env)


def said(*arguments, **more):
    """What it prints, of one that must succeed."""
    done = answered(lambda: zernel(*arguments, **more))
    equal((done.returncode, done.stderr), (0, ""), f"zernel job {' '.join(arguments)}")
    return done.stdout


def began(env):
    """A prolog. It waits for a moment; where the daemon gets no processor in it, a file is left, and read a moment
    later."""
    equal(said("start", "--slurm", env=env), "", "start")
    wait_until(lambda: env["SLURM_JOB_ID"] in listed(), "the job")


def told(env):
    """A task prolog, whose user may leave no file: again until the daemon answers it within its moment."""
    done = answered(lambda: zernel("start", "--slurm", env=env, user=NOBODY))
    equal((done.returncode, done.stdout, done.stderr), (0, "", ""), "a task prolog")


def shown(job, *arguments, **more):
    return parse_json(said("show", job, "--json", *arguments, **more))


def listed(**more):
    return {j["job_id"]: j for j in parse_json(said("list", "--json", **more))["jobs"]}


def connect():
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(PATIENCE)
    connection.connect(socket_path())
    return connection


def ask(message):
    """The answer to bare bytes; None: the connection ended without one."""
    answer = control_socket.ask(socket_path(), message if isinstance(message, bytes) else message.encode())
    return answer and answer.decode()


def spool():
    return sorted(os.listdir(place("run/jobs.d")))


def reports():
    return sorted(os.listdir(place("reports")))


def report_of(name):
    wait_until(lambda: name in reports(), name)
    with open(place(f"reports/{name}")) as file:
        return parse_json(file.read())


@test_simulated
def a_job_from_its_start_to_its_report():
    daemon = simulated()
    mode = os.stat(socket_path()).st_mode
    equal(mode & 0o7777, 0o666, "the socket's mode")
    began(SLURM)
    job = shown("94711")
    equal((job["state"], job["user"], job["uid"], job["partition"]), ("running", "nobody", NOBODY, "gpu"), "the job")
    equal(said("start", "--slurm", env=SLURM), "", "start again")
    equal(len([j for j in listed() if j == "94711"]), 1, "jobs of that id")
    wait_until(lambda: spool() == ["job-94711"], "a record")
    equal(said("end", "--slurm", env={**SLURM, "SLURM_JOB_EXIT_CODE2": "0:9"}), "", "end")
    report = report_of("94711.json")
    equal((report["job_id"], report["uid"], report["exit_code"]), ("94711", NOBODY, "0:9"), "the report")
    equal(os.stat(place("reports/94711.json")).st_mode & 0o7777, 0o640, "its mode")
    wait_until(lambda: not spool(), "no record")
    equal(daemon.metrics().one("zernel_job_info", job_id="94711") is None, False, "it is still shown")


@test_simulated
def scrapes_take_no_job_away():
    """Anybody may ask for /metrics as often as he likes: a Prometheus that comes later must find the last values."""
    daemon = simulated("--push-interval-ms", "100")
    said("start", "short", "uid=1234")
    said("end", "short")
    for _ in range(7):
        daemon.metrics()
        daemon.ticked(1)
    check(daemon.metrics().one("zernel_job_ended_time_seconds", job_id="short"), "its last values are there")
    equal(listed()["short"]["state"], "ended", "the job")


ASKS = """
import select, socket, sys
answers = {}
while not select.select([sys.stdin], [], [], 0)[0]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        try:
            s.connect(sys.argv[1])
            s.send(b"zernel 1 list\\n")
        except OSError:
            pass
        try:
            word = s.recv(1 << 18).partition(b"\\n")[0].decode()
        except OSError:
            continue
        answers[word] = answers.get(word, 0) + 1
print(answers, flush=True)
"""
FLOODS = """
import select, socket, sys
connections = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(100):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as s:
            connections += s.connect_ex(sys.argv[1]) == 0
print(connections, flush=True)
"""
SPENDS = """
import os, socket, sys
for _ in range(150):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
        s.connect(sys.argv[1])
os.execv(sys.argv[2], [sys.argv[2], "job", "list"])
"""
BUSY = "more than 50 requests a second of one user; try again"


@test
def users_have_an_allowance_and_root_is_answered():
    daemon = simulated(expect=["control: [0-9]+ requests refused, the last one of user 65534"])
    nobody = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"]
    said("list", user=NOBODY)  # and its copy is made
    spend = [*nobody, "/usr/bin/python3", "-c", SPENDS, socket_path(), place("zernel")]
    refused = wait_until(lambda: (lambda done: done if done.returncode else None)(asked(spend)),
        "one who has spent it is refused")
    equal((refused.returncode, refused.stdout, refused.stderr), (1, "", f"zernel: job: {BUSY}\n"), "what it says")
    start = time.monotonic()
    users = [Process([*nobody, "/usr/bin/python3", "-c", ASKS, socket_path()], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
             for _ in range(8)]
    for i in range(20):
        said("start", f"job{i}")
        check(f"job{i}" in listed(), "root is answered")
        said("end", f"job{i}")
    for user in users:
        user.process.stdin.close()
    answers = [ast.literal_eval(user.process.stdout.read()) for user in users]
    took = time.monotonic() - start
    equal({word for a in answers for word in a} <= {"ok", f"busy: {BUSY}",
        "busy: too many clients of one user; try again", "busy: no message within 2 s"}, True, "answers")
    check(sum(a.get(f"busy: {BUSY}", 0) for a in answers) > 0, "some were refused")
    check(sum(a.get("ok", 0) for a in answers) <= 101 + 50 * took, f"answered within {took:.1f} s: {answers}")
    daemon.ticked(2)


@test_simulated
def who_may_do_what():
    daemon = simulated()
    began(SLURM)
    said("start", "94712", "uid=1234", "name=secret")
    equal(zernel("start", "94713", user=NOBODY).returncode, 1, "nobody starts")
    equal(zernel("end", "94711", user=NOBODY).returncode, 1, "nobody ends, and be it its own")
    equal(zernel("report", "94712", user=NOBODY).returncode, 1, "nobody reads another's report")
    equal(parse_json(said("report", "94711", "--json", user=NOBODY))["job_id"], "94711", "nobody reads its own")
    jobs = listed(user=NOBODY)
    equal(jobs["94711"]["user"], "nobody", "its own in the list")
    equal(sorted(jobs["94712"]), ["job_id", "restart", "state"], "another's in the list")
    equal(shown("94712", user=NOBODY), {"job_id": "94712", "restart": 0, "state": "running"}, "another's")
    equal(shown("94712")["name"], "secret", "root sees it")
    equal("94713" in listed(), False, "what nobody started")
    daemon.end()


@test_simulated
def an_owner_names_its_job_once():
    daemon = simulated()
    began(SLURM)
    said("start", "94712", "uid=1234")
    task = {**SLURM, "SLURM_JOB_NAME": "a\"b\\c\nd", "SLURM_ARRAY_JOB_ID": "94700", "SLURM_JOB_UID": "0",
        "SLURM_JOB_ACCOUNT": "x"}
    told(task)
    job = shown("94711")
    equal((job["name"], job["uid"], job["account"]), ("a\"b\\c?d", NOBODY, ""), "what it may say")
    told({**task, "SLURM_JOB_NAME": "other"})
    equal(shown("94711")["name"], "a\"b\\c?d", "a second name")
    done = wait_until(lambda: (lambda done: done if done.stderr else None)(
        answered(lambda: zernel("start", "--slurm", env={**task, "SLURM_JOB_ID": "94712"}, user=NOBODY))), "a refusal")
    equal((done.returncode, done.stdout, done.stderr.count("\n")), (0, "", 1), "another's job")
    equal(shown("94712")["name"], "", "its name")
    labels = [dict(ls) for n, ls in daemon.metrics() if n == "zernel_job_info"]    # read strictly
    equal([ls["name"] for ls in labels if ls["job_id"] == "94711"], ["a\"b\\c?d"], "the label")
    daemon.json()


@test_simulated
def hostile_messages():
    daemon = frugal()
    before, jobs = daemon.fds_at_rest(), sorted(listed())
    for what, message in (
            ("noise", bytes(range(256)) * 8), ("bad UTF-8", HEAD.encode() + b"start\nid=7\nname=\xff\xfe\n"),
            ("an id of 2^64", HEAD + "start\nid=18446744073709551616\n"),
            ("a path", HEAD + "report\nid=../../../etc/shadow\n"),
            ("a path with NUL", HEAD.encode() + b"report\nid=a\0b\n"),
            ("a line feed in a label", HEAD + "start\nid=7\nname=a\n} 1\n"),
            ("a file name", HEAD + "report\nid=7.json\n"), ("a hidden file", HEAD + "report\nid=.new\n"),
            ("a huge message", HEAD + "start\nid=7\nname=" + "a" * 100000 + "\n"), ("HTTP", "GET / HTTP/1.1\r\n\r\n"),
            ("a header alone", HEAD), ("twice", HEAD + "start\nid=7\nid=7\n"), ("all verbs", HEAD + "list show\n")):
        answer = ask(message)
        check(answer and re.fullmatch("error: [ -~]+\n", answer), f"{what}: {answer!r}")
    equal(ask(b""), None, "an empty message")
    equal(sorted(listed()), jobs, "jobs")
    wait_until(lambda: daemon.fds() == before, "no descriptor that was not there before")


@test_simulated
def ten_thousand_connections():
    daemon = simulated()
    before = daemon.fds_at_rest()
    refused = 0
    for i in range(10000):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            connection.connect(socket_path())
            if i % 2:
                connection.send(b"zernel 1 list\n" if i % 4 == 1 else b"x" * 5000)
            if i % 8 == 5:    # a descriptor that nobody asked for
                connection.sendmsg([b"zernel 1 list\n"],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", connection.fileno()))])
        except (BlockingIOError, BrokenPipeError, ConnectionResetError):
            refused += 1
        connection.close()
    check(refused < 10000, "some came through")
    said("list")
    wait_until(lambda: daemon.fds() == before, "no descriptor that was not there before")


@test_simulated
def clients_that_say_nothing():
    daemon = simulated(expect=[
        "quota: clients of the control socket: [0-9]+ refused, the last one to user 0, who holds [0-9]+ of 32"])
    before = daemon.fds_at_rest()
    idle = []
    for _ in range(100):
        with contextlib.suppress(BlockingIOError):
            idle.append(connect())
    check(zernel("start", "--slurm", env=SLURM).returncode == 0, "a hook among them")
    wait_until(lambda: "94711" in [j for j in try_list()], "room again, and the job")
    for connection in idle:
        connection.settimeout(PATIENCE)
        check(connection.recv(100).startswith(b"busy: "), "each was told")
        connection.close()
    wait_until(lambda: daemon.fds() == before, "no descriptor that was not there before")


@test
def a_flood_of_connections_keeps_no_hook_waiting():
    """Users who connect and leave at once are let in a few at a time, and root comes between them."""
    daemon = simulated(expect=["control: [0-9]+ requests refused, the last one of user 65534"])
    nobody = ["setpriv", f"--reuid={NOBODY}", "--clear-groups"]
    users = [Process([*nobody, "/usr/bin/python3", "-c", FLOODS, socket_path()], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE)
             for _ in range(4)]
    start = time.monotonic()
    for i in range(10):
        said("start", f"job{i}")
        check(f"job{i}" in listed(), "root is answered")
        said("end", f"job{i}")
    daemon.ticked(2)
    for user in users:
        user.process.stdin.close()
    connected = sum(int(user.process.stdout.read()) for user in users)
    most = 1200 + 2 * 6400 * (time.monotonic() - start)  # the queue, and twice 64 in 10 ms
    check(100 < connected < most, f"{connected} connections were taken, not more than {most:.0f}")


def try_list():
    done = zernel("list", "--json")
    return [j["job_id"] for j in json.loads(done.stdout)["jobs"]] if done.returncode == 0 else []


@test_simulated
def reports_of_forgotten_jobs():
    """From the folder: only what is a report of that job, and only for its owner and root."""
    frugal()
    said("start", "--slurm", env=SLURM)
    said("end", "--slurm", env=SLURM)
    report = report_of("94711.json")
    for name, text in (("50", json.dumps({**report, "job_id": "50"})),
                       ("51", json.dumps({**report, "job_id": "51", "uid": 1})),
                       ("52", json.dumps({**report, "job_id": "50"})), ("53", "{"), ("54", ""),
                       ("55_3", json.dumps({**report, "job_id": "55", "restart": 3})),
                       ("59_3", json.dumps({**report, "job_id": "59", "restart": 3, "uid": 1})),
                       ("59", json.dumps({**report, "job_id": "59", "end_ms": report["end_ms"] + 1})),
                       ("60_2", json.dumps({**report, "job_id": "60", "restart": 2})),
                       ("60", json.dumps({**report, "job_id": "60", "uid": 1, "end_ms": report["end_ms"] + 1})),
                       ("hang-report-of-job-59.1", json.dumps({"job_id": "59", "uid": report["uid"], "at_ms": 5})),
                       ("hang-report-of-job-59_2.3", json.dumps({"job_id": "59", "uid": report["uid"], "at_ms": 9})),
                       ("hang-report-of-job-59_2.4", json.dumps({"job_id": "59", "uid": 1, "at_ms": 11}))):
        with open(place(f"reports/{name}.json"), "w") as file:
            file.write(text)
    os.symlink("/etc/passwd", place("reports/56.json"))
    os.mkfifo(place("reports/57.json"))
    equal(parse_json(said("report", "50", "--json", user=NOBODY))["job_id"], "50", "its owner")
    equal(parse_json(said("report", "51", "--json"))["job_id"], "51", "root")
    equal(parse_json(said("report", "55", "--json"))["restart"], 3, "the last restart")
    equal(parse_json(said("report", "59", "--json"))["end_ms"], report["end_ms"] + 1, "ids began anew: the last run")
    equal(parse_json(said("report", "60", "--json", user=NOBODY))["restart"], 2, "the last run of his own")
    equal(parse_json(said("hang", "59", "--json", user=NOBODY))["at_ms"], 9, "the last hang of his own")
    equal(parse_json(said("hang", "59", "--json"))["at_ms"], 11, "the last hang")
    check("50" in said("report", "50") and len(said("report", "50", "--line")) > 10, "as a page, and as a line")
    for name, user in (("51", NOBODY), ("52", None), ("53", None), ("54", None), ("56", None), ("57", None),
            ("58", None)):
        done = zernel("report", name, "--json", user=user)
        equal((done.returncode, done.stdout), (1, ""), f"report {name} for {user}")
        equal(done.stderr, f"zernel: job: no report of job {name} here, or it is not yours\n", "what is said")


def leaves(verb, env):
    """A hook that nobody answers leaves a file; without a processor for 80 ms it leaves none, and is called again."""
    before = len(spool())

    def left():
        done = zernel(verb, "--slurm", env=env)
        equal((done.returncode, done.stdout, done.stderr), (0, "", ""), f"{verb} {env['SLURM_JOB_ID']}")
        return len(spool()) > before
    wait_until(left, "a file that was left")


@test_simulated
def a_daemon_that_was_stopped():
    """What hooks left meanwhile, and what waits in the queue of its socket, is one start and one end."""
    daemon = frugal()
    said("start", "4000")
    with daemon.stopped():
        for verb in ("start", "end"):
            leaves(verb, SLURM)
    report_of("94711.json")
    wait_until(lambda: spool() == ["job-4000"], "what was left is taken")
    daemon.ticked(2)
    equal([n for n in reports() if n.startswith("94711")], ["94711.json"], "reports")
    equal(listed().get("94711", {"state": "ended"})["state"], "ended", "the job")


@test_simulated
def a_daemon_that_was_down():
    """Jobs that ran before and after, began meanwhile, and ended meanwhile."""
    daemon = simulated()
    for job in ("100", "101"):
        said("start", "--slurm", env={**SLURM, "SLURM_JOB_ID": job})
    wait_until(lambda: spool() == ["job-100", "job-101"], "records")
    daemon.process.kill()
    daemon.wanted = -9
    daemon.process.wait()
    for verb, job in (("end", "101"), ("start", "102"), ("start", "103"), ("end", "103")):
        leaves(verb, {**SLURM, "SLURM_JOB_ID": job})
    with open(place("run/jobs.d/left-0000000000001-1"), "w") as file:
        file.write("zernel 1 start\nid=18446744073709551616\n")
    with open(place("run/jobs.d/left-0000000000002-1"), "w") as file:
        file.write("zernel 1 start\nid=9\nname=\x1b[2J\n")
    again = simulated(expect=["spool: left-0000000000001-1: id must be", "spool: left-0000000000002-1: name: a byte"])
    jobs = listed()
    equal({job: jobs.get(job, {}).get("state") for job in ("100", "102")}, {"100": "running", "102": "running"},
        "those that run")
    equal(shown("100")["partition"], "gpu", "what its prolog said")
    for job in ("101", "103"):
        equal(report_of(f"{job}.json")["job_id"], job, "a report")
    wait_until(lambda: spool() == ["job-100", "job-102"], "records, and nothing else")
    again.end()


@test_simulated
def a_clock_that_was_set():
    """What was left before a time server was asked says 1970; what is of another boot is told by that, whatever its
    time."""
    simulated().end()
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    uptime = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)
    for name, job, clock, of in (("left-0000000000001-1", 100, 1000, boot), ("job-101", 101, 2000, boot),
                                 ("left-0000000000002-1", 102, int(time.time() * 1000), "0" * 8 + boot[8:])):
        with open(place(f"run/jobs.d/{name}"), "w") as file:
            file.write(f"zernel 1 start\nid={job}\nuid=1234\npartition=gpu\ntime={clock}\nboot={of}\nuptime={uptime - 30000}\n")
    daemon = simulated(expect=["spool: left-0000000000002-1: it is from before the node was started; removed"])
    for job in ("100", "101"):
        equal((shown(job)["state"], shown(job)["partition"]), ("running", "gpu"), f"job {job}")
        check(30 <= shown(job)["elapsed_s"] < 90, f"since when job {job} runs: {shown(job)['elapsed_s']} s")
    check("102" not in listed(), "one of another boot")
    wait_until(lambda: spool() == ["job-100", "job-101"], "records")
    daemon.end()


@test_simulated
def a_socket_that_was_left():
    daemon = simulated()
    daemon.kill()
    check(os.path.exists(socket_path()), "it is still there")
    simulated()
    check("jobs" in parse_json(said("list", "--json")), "the next daemon answers")
    done = subprocess.run([daemon.process.args[0], "--simulate", "--metrics-port", "0", "--ws-port", "0", "--control",
        socket_path()],
                          text=True, capture_output=True, timeout=60)
    equal((done.returncode, done.stderr.count("\n")), (1, 1), f"a second one: {done.stderr}")
    check("another zerneld? choose --control" in done.stderr, done.stderr)


@test_simulated
def a_daemon_of_a_user():
    """Who simulates may tag, and nobody else but root."""
    user = pwd.getpwnam("games").pw_uid
    for name in ("run", "reports", "run/jobs.d"):
        os.mkdir(place(name))
        os.chmod(place(name), 0o755)
        os.chown(place(name), user, user)
    binary = shutil.copy(os.path.realpath(ZERNEL), place("zerneld"))
    simulated(argv=["setpriv", f"--reuid={user}", "--clear-groups", binary])
    equal(said("start", "7", user=user), "job 7: running\n", "its user")
    equal(said("start", "8"), "job 8: running\n", "root")
    equal(zernel("start", "9", user=NOBODY).returncode, 1, "nobody")


@test
def live():
    """A process that is tagged by hand; no capability is left to make or remove a file."""
    daemon = Daemon("--control", socket_path(), "--report-dir", place("reports"))
    sleeper = subprocess.Popen(["sleep", "100"])
    State.cleanup.callback(sleeper.kill)
    equal(said("start", "hand", "--pid", str(sleeper.pid), f"uid={NOBODY}"), "job hand: running\n", "start")
    done = zernel("start", "none", "--pid", "4194304")
    check(done.returncode == 1 and "4194304" in done.stderr, f"no such process: {done.stderr}")
    done = zernel("start", "none", "--cgroup", "/no/such/group")
    check(done.returncode == 1 and "group" in done.stderr, f"no such group: {done.stderr}")
    equal(sorted(listed()), ["hand"], "jobs")
    os.mkdir(place("run/jobs.d/left-folder"))
    with open(place("run/jobs.d/left-0000000000001-1"), "w") as file:
        file.write(f"zernel 1 end\nid=hand\ntime={int(time.time() * 1000)}\n")
    equal(report_of("hand.json")["uid"], NOBODY, "its report")
    wait_until(lambda: spool() == ["left-folder"], "what was left is taken, and the record has gone")
    daemon.expect = [r"spool: left-folder: ", r"writer: cannot remove .*/left-folder"]
    wait_until(lambda: any("cannot remove" in line for line in daemon.lines()), "the writer's complaint")
    os.rmdir(place("run/jobs.d/left-folder"))


if __name__ == "__main__":
    main()
