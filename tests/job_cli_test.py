#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""`zernel job` against daemons that are absent, stopped, slow, broken or well, as a prolog calls it and as people do.

Run as: python3 tests/job_cli_test.py PATH_TO_ZERNEL [part of a test's name]. Each of the four ways in which a daemon
does not answer is tried 1,000 times: the status is 0 each time, stdout stays empty, and no call takes longer than 250
ms. On a busy machine a call may wait for a processor for longer than it runs: one that took too long is tried again,
several times, as long as these are few. One in whose time a processor was nobody's here does not count.
"""
import concurrent.futures
import contextlib
import fcntl
import functools
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

BINARY = ""
CALLS = 1000
AT_A_TIME = 8
LIMIT_S = 0.25
ANSWER_S = 0.11  # so long, and 10 ms more, it waits for an answer
TRIES = 20
AGAIN_MAX = CALLS // 20  # tries of all calls that took too long; with 8 others on 2 CPUs there was none
HANG_S = 60
LOOK_S, GAP_S = 0.01, 0.1  # who sleeps so long and comes back so much later got no processor
FILES_MAX = 1000
SLURM = {"SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "1000", "SLURM_JOB_USER": "alice", "SLURM_JOB_PARTITION": "gpu",
         "SLURM_NODELIST": "n[1-4]", "SLURM_JOB_GPUS": "0,1", "SLURM_JOB_RESTART_COUNT": "1"}

checks = 0


class Absent(Exception):
    """This machine lacks what a test needs."""


def check(condition, what):
    global checks
    checks += 1
    if not condition:
        raise AssertionError(what)


def equal(got, want, what):
    check(got == want, f"{what}: {got!r}, not {want!r}")


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix="zernel-job-")
    os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Fake:
    """A control socket. answer(message) gives the answer; None: none, and the connection stays. Not listening at all,
    or not accepting, is a daemon that is stopped."""

    def __init__(self, path, answer=None, accepting=True, backlog=64, kind=socket.SOCK_SEQPACKET):
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        self.answer, self.messages, self.kept = answer, [], []
        self.sock = socket.socket(socket.AF_UNIX, kind)
        self.sock.bind(path)
        self.sock.listen(backlog)
        if accepting:
            threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.sock.accept()
                self.one(connection)

    def one(self, connection):
        if self.answer is None:
            self.kept.append(connection)
            return
        with connection:
            message = connection.recv(8192)
            self.messages.append(message.decode())
            with contextlib.suppress(BrokenPipeError):
                answer = self.answer(message)
                if answer:
                    connection.send(answer)

    def close(self):
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)    # wakes accept()
        self.sock.close()
        for connection in self.kept:
            connection.close()


def environment(where, env=None):
    """The command's: env or what Slurm sets, where the socket is, and no configuration of this machine."""
    return {**(SLURM if env is None else env), "ZERNEL_CONTROL": f"{where}/run/control.sock",
        "ZERNEL_CONFIG": "/dev/null"}


def call(where, *arguments, env=None, binary=None, **more):
    """The finished command; env: besides where the socket is."""
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more}
    return subprocess.run([binary or BINARY, "job", *arguments], env=environment(where, env), timeout=HANG_S, **more)


class Processor(threading.Thread):
    """Notes when this one was taken away from us."""

    def __init__(self, number):
        super().__init__(daemon=True)
        self.number, self.looked, self.gaps = number, time.monotonic(), []
        self.start()

    def run(self):
        with contextlib.suppress(OSError):  # it may be offline by now
            os.sched_setaffinity(0, {self.number})  # of this thread alone
        while True:
            time.sleep(LOOK_S)
            now = time.monotonic()
            if now - self.looked > GAP_S:
                self.gaps.append((self.looked, now))
            self.looked = now

    def was_away(self, start, end):
        while self.looked < end:  # what it will note
            time.sleep(LOOK_S)
        return any(gone < end and start < back for gone, back in self.gaps)


@functools.lru_cache
def processors():
    return [Processor(number) for number in sorted(os.sched_getaffinity(0))[:AT_A_TIME]]


def timed(where, verb):
    """How long one call took, in seconds, how often it was made, how often too slow, and what it said."""
    made = slow = 0
    begin = time.monotonic()
    while slow < TRIES:
        start = time.monotonic()
        done = call(where, verb, "--slurm")
        end = time.monotonic()
        made += 1
        if (done.returncode, done.stdout) != (0, b""):
            raise AssertionError(f"status {done.returncode}, stdout {done.stdout!r}, stderr {done.stderr!r}")
        if end - start <= LIMIT_S:
            return end - start, made, slow, done.stderr
        slow += not any([p.was_away(start, end) for p in processors()])
        check(end - begin < HANG_S, f"{made} times longer than {LIMIT_S * 1e3:.0f} ms")
    raise AssertionError(f"{(end - start) * 1e3:.0f} ms, {TRIES} times, and {made} in a row were too slow")


def many(where, what, stderr):
    """CALLS calls; stderr: what each must say, a pattern."""
    verbs = ["start", "end"] * (CALLS // 2)
    processors()  # from here on they are looked at
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        results = list(pool.map(lambda verb: timed(where, verb), verbs))
    times = sorted(took for took, _, _, _ in results)
    again, slow = sum(made - 1 for _, made, _, _ in results), sum(slow for _, _, slow, _ in results)
    print(f"   {what}: {len(times)} calls, p50 {times[len(times) // 2] * 1e3:.0f} ms, "
          f"p99 {times[len(times) * 99 // 100] * 1e3:.0f} ms, longest {times[-1] * 1e3:.0f} ms; {again} tried again, "
          f"of which {slow} count",
          flush=True)
    equal(len(times), CALLS, what)
    check(slow <= AGAIN_MAX, f"{what}: {slow} of {CALLS} took longer than {LIMIT_S * 1e3:.0f} ms")
    for _, _, _, said in results:
        check(re.fullmatch(stderr, said.decode()), f"{what}: stderr {said!r}")
    return again + sum(took > LIMIT_S / 2 for took in times)    # how many may have come to the end of their time


def left(where):
    """What is in the spool, in the order of its names."""
    spool = f"{where}/run/jobs.d"
    names = sorted(os.listdir(spool)) if os.path.isdir(spool) else []
    texts = []
    for name in names:
        with open(f"{spool}/{name}") as file:
            texts.append(file.read())
    return names, texts


def check_left(where, cut):
    """The spool is full of whole messages of this job, and is its owner's alone. cut: how many may be half written."""
    names, texts = left(where)
    half = [name for name in names if name.startswith(".")]
    check(len(half) <= cut, f"half written: {half}")
    names, texts = names[len(half):], texts[len(half):]    # a dot sorts before a letter
    check(FILES_MAX - AT_A_TIME - cut <= len(names) <= FILES_MAX + AT_A_TIME, f"{len(names)} files")
    for name, text in zip(names, texts):
        check(re.fullmatch(r"left-\d{13}-\d+", name), name)
        check(re.match("zernel 1 (start|end)\nid=4711\n", text) and text.endswith("\n"), text)
        equal(os.stat(f"{where}/run/jobs.d/{name}").st_mode & 0o7777, 0o600, name)
    equal(os.stat(f"{where}/run/jobs.d").st_mode & 0o7777, 0o750, "the folder")


# ---- 1,000 calls

def test_absent_daemon():
    with folder() as where:
        cut = many(where, "absent", "")
        check_left(where, cut)


@contextlib.contextmanager
def zerneld(where):
    """The daemon itself, simulating."""
    os.symlink(os.path.realpath(BINARY), f"{where}/zerneld")
    env = {name: value for name, value in os.environ.items() if not name.startswith("ZERNEL_")}
    with open(f"{where}/log", "w") as log:
        daemon = subprocess.Popen([f"{where}/zerneld", "--simulate", "--metrics-port", "0", "--ws-port", "0",
            "--control",
                                   f"{where}/run/control.sock", "--report-dir", f"{where}/reports"], stderr=log,
                                   env=env)
    try:
        until(lambda: call(where, "list").returncode == 0, "the daemon")
        yield daemon
    finally:
        daemon.terminate()
        status = daemon.wait(HANG_S)
    with open(f"{where}/log") as log:
        lines = log.read().splitlines()
    slow = "writer: the disk is slow; "  # as it is where its process got no processor for 5 s
    bad = [line for line in lines if re.match(f"zerneld: (warning|error): (?!{slow})", line)]
    check(status == 0 and not bad, lines)


def until(probe, what):
    end = time.monotonic() + HANG_S
    while not probe():
        check(time.monotonic() < end, f"not within {HANG_S} s: {what}")
        time.sleep(0.05)


def test_stopped_daemon():
    """And when it goes on, it takes what was left, and then what waits in its queue, of which each was left as well."""
    with folder() as where, zerneld(where) as daemon:
        daemon.send_signal(signal.SIGSTOP)
        try:
            cut = many(where, "stopped", "")
            check_left(where, cut)
        finally:
            daemon.send_signal(signal.SIGCONT)
        until(lambda: not [n for n in os.listdir(f"{where}/run/jobs.d") if n.startswith("left-")],
            "what was left is taken")
        equal(call(where, "list").returncode, 0, "it answers")


def test_full_queue():
    """The few first wait for an answer, the others for room in the queue."""
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", accepting=False, backlog=8)
        tries = sum(timed(where, "start")[1] for _ in range(40))
        equal(len(left(where)[0]), tries, "files")
        fake.close()


def test_no_processor():
    """It gets none from when it waits for the daemon until all its time is over: the message is left all the same."""
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock")
        hook = subprocess.Popen([BINARY, "job", "start", "--slurm"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=environment(where))
        until(lambda: fake.kept, "it calls")
        hook.send_signal(signal.SIGSTOP)
        time.sleep(2 * LIMIT_S)
        hook.send_signal(signal.SIGCONT)
        equal((hook.communicate(timeout=HANG_S)[0], hook.returncode), (b"", 0), "what it says, and its status")
        equal([text[:23] for text in left(where)[1]], ["zernel 1 start\nid=4711\n"], "what is left")
        fake.close()


def test_slow_daemon():
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock")
        cut = many(where, "slow", "")
        check_left(where, cut)
        fake.close()


def test_full_disk():
    with folder() as where:
        os.mkdir(f"{where}/run")
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", f"{where}/run"],
                stderr=subprocess.DEVNULL).returncode:
            raise Absent("it needs to mount a file system")
        try:
            with contextlib.suppress(OSError), open(f"{where}/run/filler", "wb") as filler:
                while True:
                    filler.write(b"x" * 4096)
                    filler.flush()
            many(where, "full disk", r"zernel: job: job 4711: no daemon at \S+: .*; cannot leave a file for it: No "
                                     r"space left on device\n")
            equal(left(where), ([], []), "half written files")
        finally:
            subprocess.run(["umount", f"{where}/run"], check=True)


# ---- with a daemon that is well

def heard(where, fake, make):
    """What make() finished as, and what it said to the fake. That is a thread of ours, and has as little time for its
    answer as a daemon: on a busy machine it may come too late, and the message is left. Then the call is made again."""
    for _ in range(TRIES):
        names, count, begin = set(left(where)[0]), len(fake.messages), time.monotonic()
        done = make()
        took = time.monotonic() - begin
        until(lambda: len(fake.messages) > count, "the message")
        more = set(left(where)[0]) - names
        if not more:
            equal(len(fake.messages), count + 1, "messages of one call")
            return done, fake.messages[-1]
        check(took > ANSWER_S, f"left after {took * 1e3:.0f} ms, before its time was over")
        for name in more:
            os.unlink(f"{where}/run/jobs.d/{name}")
    raise AssertionError(f"left {TRIES} times, though it was answered")


def test_what_a_prolog_says():
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", lambda _: b'ok\n{"job_id":"4711","restart":1,"state":"running"}')
        before = int(time.time() * 1000)
        done, message = heard(where, fake, lambda: call(where, "start", "--slurm", env={
            **SLURM, "SLURM_JOB_COMMENT": "x", "SLURM_HET_JOB_ID": "", "PATH": "/bin"}))
        equal((done.returncode, done.stdout, done.stderr), (0, b"", b""), "start")
        lines = message.split("\n")
        equal(lines[0], "zernel 1 start", "the first line")
        pairs = dict(line.split("=", 1) for line in lines[1:-1])
        check(before <= int(pairs.pop("time")) <= time.time() * 1000, "its time")
        equal(pairs, {"id": "4711", "uid": "1000", "user": "alice", "partition": "gpu", "nodelist": "n[1-4]",
            "gpus": "0,1",
                      "restart": "1"}, "what is said")
        done, message = heard(where, fake, lambda: call(where, "end", "--slurm", env={
            **SLURM, "SLURM_JOB_EXIT_CODE2": "0:9"}))
        equal((done.returncode, done.stdout, done.stderr), (0, b"", b""), "end")
        check("exit_code=0:9\n" in message, message)
        equal(left(where), ([], []), "files")
        fake.close()


def test_what_the_command_line_says_wins():
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", lambda _: b"ok\nnull")
        _, message = heard(where, fake, lambda: call(where, "start", "--slurm", "--id", "9", "name=x y",
                                                     "--restart=2"))
        check(re.match("zernel 1 start\nid=9\nrestart=2\nuid=1000\n", message) and "name=x y\n" in message, message)
        fake.close()


def test_refusals_in_a_prolog():
    """One that stands is told, and not left for later; one that may pass is left."""
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", lambda _: b"error: the table of jobs is full\n")
        done, _ = heard(where, fake, lambda: call(where, "start", "--slurm"))
        equal((done.returncode, done.stdout, done.stderr),
              (0, b"", b"zernel: job: the daemon refused job 4711: the table of jobs is full\n"), "refused")
        equal(left(where), ([], []), "files")
        fake.answer, before = lambda _: b"busy: too many clients\n", len(fake.messages)
        done = call(where, "start", "--slurm")
        equal((done.returncode, done.stdout, done.stderr, len(left(where)[0])), (0, b"", b"", 1), "busy")
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        check(re.search(rf"\ntime=\d+\nboot={boot}\nuptime=\d+\n$", left(where)[1][0]),
            f"when it was left: {left(where)[1][0]}")
        until(lambda: len(fake.messages) > before, "its message")
        check("boot=" not in fake.messages[-1], "over the socket it is as it always was")
        fake.close()


def test_answers_of_something_else():
    for what, answer in (("nothing", b""), ("a web server", b"HTTP/1.1 400 Bad Request\r\n\r\n"), ("no end", b"error"),
                         ("bytes", bytes(range(256))), ("much", b"ok\n" + b"x" * 131070), ("a line feed", b"\n")):
        with folder() as where:
            fake = Fake(f"{where}/run/control.sock", lambda _, answer=answer: answer)
            done = call(where, "end", "--slurm")
            equal((done.returncode, done.stdout, done.stderr, len(left(where)[0])), (0, b"", b"", 1), what)
            done = call(where, "report", "7")
            equal((done.returncode, done.stdout, done.stderr.count(b"\n")), (1, b"", 1), what)
            fake.close()


def test_another_kind_of_socket():
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", accepting=False, kind=socket.SOCK_STREAM)
        done = call(where, "start", "--slurm")
        equal((done.returncode, done.stdout, done.stderr, len(left(where)[0])), (0, b"", b"", 1), "a stream")
        fake.close()


# ---- in bad company

def test_hostile_environment():
    """Values that are huge or no text; what cannot be said is left out, and the message is whole."""
    env = {name: value for name, value in SLURM.items() if name != "SLURM_JOB_RESTART_COUNT"}
    env.update({"SLURM_JOB_USER": "a\"b\n\x1b[2J", "SLURM_JOB_ACCOUNT": "x" * 100000, "SLURM_JOB_QOS": "q" * 256,
                "SLURM_JOB_RESTART_COUNT": "-1",
                "SLURM_ARRAY_TASK_ID": "4294967294", "SLURM_JOB_NAME": "\udcff\udcfe", "SLURM_JOB_PARTITION": "",
                "SLURM_CLUSTER_NAME": "a\\n=b"})
    env.update({f"X{i}": "y" * 1000 for i in range(500)})
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", lambda _: b"ok\nnull")
        done, message = heard(where, fake, lambda: call(where, "start", "--slurm", env=env))
        equal((done.returncode, done.stdout, done.stderr), (0, b"", b""), "start")
        pairs = dict(line.split("=", 1) for line in message.split("\n")[1:-1])
        del pairs["time"]
        equal(pairs, {"id": "4711", "uid": "1000", "user": 'a"b??[2J', "qos": "q" * 256, "name": "??",
                      "nodelist": "n[1-4]", "gpus": "0,1", "cluster": "a\\n=b"}, "what is said")
        fake.close()


def test_values_that_are_too_long():
    """A list of nodes that was cut would name too few, and its last one wrongly; of a name its beginning is shown."""
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", lambda _: b"ok\nnull")
        _, message = heard(where, fake, lambda: call(where, "start", "--slurm", env={
            **SLURM, "SLURM_NODELIST": "n" * 257, "SLURM_JOB_NAME": "a" * 300}))
        check("nodelist=" not in message, f"no list of nodes: {message}")
        check("\nname=" + "a" * 256 + "\n" in message, f"the name: {message}")
        fake.close()


def test_no_id():
    for value in (None, "", "0", "-1", "x/y", "18446744073709551616", "4711 "):
        with folder() as where:
            done = call(where, "start", "--slurm", env={} if value is None else {"SLURM_JOB_ID": value})
            equal((done.returncode, done.stdout, done.stderr),
                  (0, b"", b"zernel: job: SLURM_JOB_ID is not set, or is no id of a job\n"), f"id {value!r}")
            equal(left(where), ([], []), "files")


def test_misuse_in_a_prolog():
    with folder() as where:
        for arguments in (["start", "--slurm", "--wrong"], ["--slurm"], ["start", "--slurm", "--pid"],
                          ["stop", "--slurm"],
                          ["start", "--slurm", "x=1"], ["start", "--slurm", "--control", "x"], ["list", "--slurm"]):
            done = call(where, *arguments)
            equal((done.returncode, done.stdout, done.stderr.count(b"\n")), (0, b"", 1), f"{arguments}: {done.stderr}")


def closed(where, *fds, verb="start"):
    def close():
        for fd in fds:
            os.close(fd)
    return call(where, verb, "--slurm", stdin=None, stdout=None, stderr=None, preexec_fn=close)


def test_closed_streams():
    """The socket takes the place of none of them, and the file does not either."""
    for fds in ((0,), (1,), (2,), (0, 1, 2), (1, 2)):
        with folder() as where:
            equal(closed(where, *fds).returncode, 0, f"closed {fds}, absent")
            equal(len(left(where)[0]), 1, "files")
            equal(left(where)[1][0].count("zernel 1 start\n"), 1, "the message")
            fake = Fake(f"{where}/run/control.sock", lambda _: b"error: no\n")
            done, _ = heard(where, fake, lambda fds=fds: closed(where, *fds))
            equal(done.returncode, 0, f"closed {fds}, refused")
            fake.close()


def test_streams_that_nobody_reads():
    """A full pipe, and one without a reader; the flags of the full one are as they were."""
    with folder() as where:
        read, write = os.pipe()
        os.set_blocking(write, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(write, b"x" * 4096)
        os.set_blocking(write, True)
        flags = fcntl.fcntl(write, fcntl.F_GETFL)
        equal(call(where, "start", "--slurm", env={}, stderr=write, stdout=write).returncode, 0, "a full pipe")
        equal(fcntl.fcntl(write, fcntl.F_GETFL), flags, "flags")
        os.close(read)
        equal(call(where, "start", "--slurm", env={}, stderr=write, stdout=write).returncode, 0, "no reader")
        os.close(write)
        full, peer = socket.socketpair()
        full.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                full.send(b"x" * 4096)
        full.setblocking(True)
        equal(call(where, "start", "--slurm", env={}, stderr=full, stdout=full).returncode, 0, "a full socket")
        full.close()
        peer.close()
        with open("/dev/full", "wb") as device:
            equal(call(where, "start", "--slurm", env={}, stderr=device, stdout=device).returncode, 0, "a full device")


def test_signals_that_are_blocked():
    """SIGALRM is the last resort: it works although it was blocked and ignored."""
    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock")
        equal(call(where, "start", "--slurm", preexec_fn=block).returncode, 0, "status")
        equal(len(left(where)[0]), 1, "files")
        fake.close()


def test_file_size_limit():
    with folder() as where:
        done = call(where, "start", "--slurm", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)))
        equal((done.returncode, done.stdout), (0, b""), "status, stdout")
        check(b"File too large" in done.stderr, f"stderr {done.stderr!r}")
        equal(left(where), ([], []), "half written files")


def test_no_process_is_left():
    """Whoever waits for the end of stdout, as slurmd does, waits for this process alone."""
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock")
        read, write = os.pipe()
        done = call(where, "end", "--slurm", stdout=write)
        os.close(write)
        equal((done.returncode, os.read(read, 1)), (0, b""), "the end of stdout")
        os.close(read)
        fake.close()


# ---- the spool

def test_spool_of_somebody_else():
    """A folder that others can write to, or a link, is not written to."""
    with folder() as where:
        os.makedirs(f"{where}/run/jobs.d")
        os.chmod(f"{where}/run/jobs.d", 0o777)
        done = call(where, "start", "--slurm")
        equal((done.returncode, done.stderr.count(b"Operation not permitted")), (0, 1), "open to all")
        os.rmdir(f"{where}/run/jobs.d")
        os.makedirs(f"{where}/elsewhere")
        os.symlink(f"{where}/elsewhere", f"{where}/run/jobs.d")
        done = call(where, "start", "--slurm")
        equal((done.returncode, done.stderr.count(b"cannot leave a file")), (0, 1), "a link")
        equal(os.listdir(f"{where}/elsewhere"), [], "files elsewhere")


def test_oldest_files_go():
    with folder() as where:
        os.makedirs(f"{where}/run/jobs.d", mode=0o750)
        for i in range(FILES_MAX + 5):
            with open(f"{where}/run/jobs.d/{'.' * (i % 2)}left-{i:013d}-1", "w") as file:
                file.write("zernel 1 end\nid=1\n")
        with open(f"{where}/run/jobs.d/job-7", "w") as file:
            file.write("zernel 1 start\nid=7\n")
        equal(call(where, "start", "--slurm").returncode, 0, "status")
        names = [name.lstrip(".") for name in left(where)[0]]
        equal(len(names), FILES_MAX + 1, "files")
        check("job-7" in names, "a record of the daemon")
        equal([i for i in range(FILES_MAX + 5) if f"left-{i:013d}-1" not in names], list(range(6)), "those that went")


def test_no_control_socket():
    with folder() as where:
        done = subprocess.run([BINARY, "job", "start", "--slurm"], env={**SLURM, "ZERNEL_CONTROL": "none"},
                              capture_output=True,
                              cwd=where, timeout=HANG_S)
        equal((done.returncode, done.stdout, done.stderr.count(b"control is none")), (0, b"", 1), "none")
        equal(os.listdir(where), [], "files")


def test_the_file_says_where():
    with folder() as where:
        with open(f"{where}/conf", "w") as file:
            file.write(f"control {where}/other/c.sock\n")
        env = {**SLURM, "ZERNEL_CONFIG": f"{where}/conf"}
        subprocess.run([BINARY, "job", "start", "--slurm"], env=env, check=True, timeout=HANG_S)
        equal(len(os.listdir(f"{where}/other/jobs.d")), 1, "files")


def test_user_without_privileges():
    """A task prolog is its job's: without a daemon nothing happens."""
    if os.getuid():
        raise Absent("it needs root, to be somebody else")
    with folder() as where:
        os.makedirs(f"{where}/run/jobs.d", mode=0o750)
        copy = shutil.copy(BINARY, f"{where}/zernel")
        done = call(where, "start", "--slurm", binary=copy, preexec_fn=lambda: os.setresuid(65534, 65534, 65534))
        equal((done.returncode, done.stdout, done.stderr.count(b"\n")), (0, b"", 1), "status")
        equal(left(where), ([], []), "files")


# ---- for people

LIST = json.dumps({"jobs": [
    {"job_id": "4711", "restart": 0, "state": "running", "user": "alice", "uid": 1000, "name": "tr\x1bain",
     "processes": 8,
     "launches": 123456, "elapsed_s": 3723.5, "gpus": [{"gpu_id": "0", "allocated": True, "peak_bytes": 5}],
     "memory": {"peak_bytes": 77, "parts": {"file": 6}}},
    {"job_id": "4712", "restart": 2, "state": "ended"}]}).encode()


def answered(answer, *arguments):
    """What `zernel job` makes of an answer, and what it had asked."""
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", lambda _: answer)
        done = call(where, *arguments, env={})
        fake.close()
        asked = re.sub(r"time=\d+\n", "", fake.messages[0]) if fake.messages else None
        return done.returncode, done.stdout.decode(), done.stderr.decode(), asked


def test_list():
    status, out, err, asked = answered(b"ok\n" + LIST, "list")
    equal((status, err, asked), (0, "", "zernel 1 list\n"), "list")
    lines = [line.split() for line in out.splitlines()]
    equal(lines[0], ["JOB", "RESTART", "STATE", "USER", "NAME", "PROCS", "LAUNCHES", "ELAPSED"], "heads")
    equal(lines[1][:4] + lines[1][5:7], ["4711", "0", "running", "alice", "8", "123456"], "a job")
    equal(lines[2], ["4712", "2", "ended", "-", "-", "-", "-", "-"], "somebody else's")
    check("\x1b" not in out and len(lines) == 3, out)
    status, out, _, asked = answered(b"ok\n" + LIST, "list", "--json")
    equal((status, json.loads(out), asked), (0, json.loads(LIST), "zernel 1 list\njson=1\n"), "list as JSON")


def test_show():
    entry = json.dumps(json.loads(LIST)["jobs"][0]).encode()
    status, out, _, asked = answered(b"ok\n" + entry, "show", "4711", "--restart", "0")
    equal((status, asked), (0, "zernel 1 show\nid=4711\nrestart=0\n"), "show")
    check(re.search(r"(?m)^user +alice$", out) and re.search(r"(?m)^  peak_bytes +5$", out), out)
    check(re.search(r"(?m)^memory\n  peak_bytes +77\n  parts\n    file +6$", out), out)
    equal(json.loads(answered(b"ok\n" + entry, "show", "--id=4711", "--json")[1]), json.loads(entry), "show as JSON")


def test_report():
    equal(answered(b"ok\nJob 7\n  wall\x1b[2J 1 s\n", "report", "7"),
          (0, "Job 7\n  wall?[2J 1 s\n", "", "zernel 1 report\nid=7\n"),
          "a page")
    equal(answered("ok\nname \x9b2J\x7f \xa0\xdb\n".encode(), "report", "7")[1], "name ??2J? \xa0\xdb\n", "C1")
    equal(answered(b"ok\njob 7", "report", "7", "--line"), (0, "job 7\n", "", "zernel 1 report\nid=7\nline=1\n"),
        "a line")
    equal(answered(b"ok\nSubject: Job 7\n\nJob 7\n", "report", "7", "--mail"),
          (0, "Subject: Job 7\n\nJob 7\n", "", "zernel 1 report\nid=7\nmail=1\n"), "a mail")
    equal(answered(b'ok\n{"id":"7"}', "report", "7", "--json")[:3], (0, '{"id":"7"}\n', ""), "JSON")


def test_old_reports_are_removed():
    """By the command in docs/JOBS.md. A folder in which nothing happened for a month stays."""
    with open(f"{os.path.dirname(os.path.abspath(__file__))}/../docs/JOBS.md", encoding="utf-8") as page:
        command = re.search(r"`find /var/lib/zernel/jobs( [^`]*)`", page.read()).group(1)
    with folder() as where:
        reports, month_ago = f"{where}/jobs", time.time() - 32 * 86400
        os.mkdir(reports)
        for left in [], ["2.json"]:
            for name in "1.json", *left:
                with open(f"{reports}/{name}", "w", encoding="utf-8"):
                    pass
            os.utime(f"{reports}/1.json", (month_ago, month_ago))
            os.utime(reports, (month_ago, month_ago))
            for _ in range(2):
                subprocess.run(["find", reports, *command.split()], check=True)
                equal(os.listdir(reports), left, "reports")
                os.utime(reports, (month_ago, month_ago))


def test_start_and_end():
    told = b'ok\n{"job_id":"x","restart":0,"state":"running"}'
    equal(answered(told, "start", "--id", "x", "--pid", "1", "name=a b", "user=alice"),
          (0, "job x: running\n", "", "zernel 1 start\nid=x\nuser=alice\nname=a b\npid=1\n"), "start")
    equal(answered(told, "start", "x", "--cgroup=/a/b")[3], "zernel 1 start\nid=x\ncgroup=/a/b\n", "by a control group")
    equal(answered(told, "start", "x", "--json")[1], told[3:].decode() + "\n", "start as JSON")
    equal(answered(b"ok\nnull", "end", "x"), (0, "job x: -\n", "", "zernel 1 end\nid=x\n"), "end of an unknown job")
    equal(answered(b"error: only root may end a job\n", "end", "x")[:3],
          (1, "", "zernel: job: only root may end a job\n"),
          "refused")


def test_no_daemon():
    with folder() as where:
        done = call(where, "list", env={})
        equal((done.returncode, done.stdout, done.stderr.decode()),
              (1, b"", f"zernel: job: no daemon at {where}/run/control.sock: No such file or directory\n"), "absent")
        equal(call(where, "start", "7", env={}).returncode, 1, "start")
        equal(os.listdir(where), [], "no file is left for people")


def test_misuse():
    with folder() as where:
        for arguments, why in (
                ([], "a verb must follow"), (["stop"], "no such verb: 'stop'"),
                (["show"], "the id of a job must follow"),
                (["list", "7"], "unknown argument '7'"), (["show", "7", "8"], "a second value of 'id'"),
                (["show", "7", "--slurm"], None), (["list", "--line"], "unknown option '--line'"),
                (["end", "7", "--pid", "1"], "unknown option '--pid'"),
                (["start", "7", "--pid"], "a value must follow '--pid'"),
                (["start", "7", "--pid", "0"], "pid must be a number"),
                (["start", "7", "pid=1"], "no such key: 'pid=1'"),
                (["start", "7", "colour=red"], "no such key: 'colour=red'"), (["show", "7", "name=x"], "no such key"),
                (["start", "7", "name="], "name: no value"), (["start", "7", "name=a\nb"], "not printable ASCII"),
                (["show", "../7"], "id must be a number"), (["show", "18446744073709551616"], "id must be a number"),
                (["list", "--json=1"], "no value may follow '--json=1'"), (["list", "--control"], "a path must follow"),
                (["list", "--control", "x"], "absolute path"),
                (["list", "--control", "/" + "x" * 107], "absolute path"),
                (["start", "7", "--cgroup", "/a/../b"], "cgroup must be an absolute path")):
            done = call(where, *arguments, env={})
            if why is None:
                continue
            equal((done.returncode, done.stdout, done.stderr.count(b"\n")), (2, b"", 1), f"{arguments}: {done.stderr}")
            check(done.stderr.startswith(b"zernel: job: ") and why.encode() in done.stderr,
                f"{arguments}: {done.stderr}")
        done = call(where, "--help", env={})
        check(done.returncode == 0 and done.stdout.startswith(b"usage: zernel job start"), done.stdout)


def test_stdout_that_cannot_be_written():
    with folder() as where:
        fake = Fake(f"{where}/run/control.sock", lambda _: b"ok\n" + LIST)
        with open("/dev/full", "wb") as device:
            equal(call(where, "list", env={}, stdout=device).returncode, 1, "a full device")
        equal(call(where, "list", env={}, stdout=None, preexec_fn=lambda: os.close(1)).returncode, 1, "closed")
        fake.close()


def run_one(name, function):
    global checks
    checks = 0
    start = time.monotonic()
    try:
        function()
        check(checks, "this test checks nothing")
    except Absent as why:
        print(f"absent: {name}: {why}", flush=True)
        return None
    except Exception as error:    # pylint: disable=broad-except
        print(f"FAILED {name}: {type(error).__name__}: {error}", flush=True)
        return False
    print(f"ok {name} ({time.monotonic() - start:.1f} s)", flush=True)
    return True


def main():
    global BINARY
    BINARY = os.path.realpath(sys.argv[1])
    pattern = sys.argv[2] if len(sys.argv) > 2 else ""
    with tempfile.TemporaryDirectory() as links:    # the verbs go by the name of the program
        os.symlink(BINARY, f"{links}/zernel")
        os.chmod(links, 0o755)
        BINARY = f"{links}/zernel"
        results = [run_one(name, function) for name, function in list(globals().items())
                   if name.startswith("test_") and pattern in name]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    sys.exit(1 if False in results or True not in results else 0)


main()
