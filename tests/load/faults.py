# SPDX-License-Identifier: GPL-2.0
"""Each system call that the daemon makes fails once, by strace: at its first to fourth call while starting, and at the
next four while serving. While starting that is one clear line and exit status 1, or it does not matter; while serving
the daemon answers on, does not spin, and ends cleanly.
"""
import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from clients import Frames, handshake
from harness import ZERNELD, Absent, check, equal, folder, need, parse_json, parse_metrics, test, test_simulated

EXIT, GO, ANY = "exits", "goes on", "either"
TIMES = 4
AT_ONCE = 4
PATIENCE = 90
PORTS = re.compile(r"metrics on port (\d+), WebSocket on port (\d+)")
TURNS_MAX = 1000  # epoll_wait() calls in half a second in which nothing happens; one that spins makes tens of thousands

# (call, what its failure leads to, errors)
STARTING = [
    ("bind", EXIT, "EADDRINUSE EACCES ENOMEM"),
    ("bind", GO, "EADDRNOTAVAIL"),  # a machine without IPv6
    ("capget", ANY, "EPERM"),
    ("capset", ANY, "EPERM"),
    ("clone3", GO, "EAGAIN"),
    ("close", GO, "EINTR"),
    ("epoll_create1", EXIT, "EMFILE ENOMEM"),
    ("epoll_ctl", EXIT, "ENOMEM ENOSPC"),
    ("getsockname", EXIT, "ENOBUFS"),
    ("landlock_add_rule", GO, "ENOMEM"),
    ("landlock_create_ruleset", GO, "ENOSYS EOPNOTSUPP ENOMEM"),
    ("landlock_restrict_self", GO, "ENOMEM E2BIG"),
    ("listen", EXIT, "EADDRINUSE"),
    ("madvise", GO, "ENOMEM"),
    ("mmap", EXIT, "ENOMEM"),
    ("openat", ANY, "EMFILE ENOMEM EACCES"),
    ("poll", GO, "EINTR ENOMEM"),
    ("prctl", ANY, "EINVAL"),
    ("newfstatat", GO, "ENOMEM"),
    ("prlimit64", GO, "EPERM"),
    ("read", ANY, "EIO"),
    ("rt_sigprocmask", EXIT, "EINVAL"),
    ("sched_getaffinity", GO, "EPERM"),
    ("seccomp", EXIT, "EINVAL ENOMEM"),
    ("setsockopt", ANY, "ENOMEM"),
    ("signalfd4", EXIT, "EMFILE ENOMEM"),
    ("socket", EXIT, "EMFILE ENFILE ENOMEM EACCES"),
    ("timerfd_create", EXIT, "EMFILE ENOMEM"),
    ("timerfd_settime", EXIT, "ENOMEM"),
    ("uname", GO, "EFAULT"),
]
SERVING = [
    ("accept4", "EINTR EAGAIN ECONNABORTED EMFILE ENFILE ENOBUFS ENOMEM EPROTO"),
    ("close", "EINTR EIO"),
    ("epoll_ctl", "ENOMEM ENOSPC"),
    ("epoll_wait", "EINTR"),
    ("newfstatat", "ENOMEM"),
    ("openat", "EINTR EMFILE ENFILE ENOMEM"),
    ("read", "EINTR EAGAIN EIO ENOMEM"),
    ("recvfrom", "EINTR EAGAIN ECONNRESET ENOMEM ETIMEDOUT"),
    ("sendmsg", "EINTR EAGAIN EPIPE ECONNRESET ENOMEM ENOBUFS"),
    ("setsockopt", "ENOMEM ENOPROTOOPT"),
    ("shutdown", "ENOTCONN ENOMEM"),
]
# what libc does by itself before and after, and what cannot fail or whose failure cannot matter
OTHERS = set("""arch_prctl brk clock_gettime execve exit exit_group futex getpid getppid getrandom mprotect munmap
readlink rseq rt_sigaction rt_sigreturn set_robust_list set_tid_address write""".split())
OURS_FIRST = {"rt_sigprocmask"}  # all but the first are of libc, for threads, and cannot fail
AGAIN = 11  # not in step with the calls that one connection makes


class Traced:
    """A daemon under strace, of which one call may fail."""

    def __init__(self, name, inject=None, trace=(), source=("--simulate",)):
        self.place = os.path.join(folder(), name)
        self.ports = None
        calls = ",".join({"epoll_wait", *trace})
        argv = [need("strace"), "-D", "-f", "-qq", "-o", f"{self.place}.trace", "-e", f"trace={calls}"]
        argv += ["-e", f"inject={inject}"] if inject else []
        argv += [ZERNELD, *source, "--push-interval-ms", "100", "--metrics-port", "0", "--ws-port", "0"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZERNEL_")}
        with open(f"{self.place}.log", "wb") as log:
            self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=log,
                                            env={**clean, "ZERNEL_CONTROL": "none", "ZERNEL_REPORT_DIR": "none"})

    def read(self, what):
        with open(f"{self.place}.{what}", errors="replace") as f:
            return f.read()

    def calls(self, name):
        return len(re.findall(rf"^\d+ +{name}\(", self.read("trace"), re.M))

    def injected(self):
        return "(INJECTED)" in self.read("trace")

    def serves(self):
        """One round of every kind of connection; an injected error may spoil one of them."""
        self.ports = self.ports or PORTS.search(self.read("log"))
        if not self.ports:
            return False
        port, ws_port = map(int, self.ports.groups())
        with contextlib.suppress(OSError):
            answers = [ask(port, path) for path in ("/metrics", "/json", "/health", "/nothing")]
            with socket.create_connection(("127.0.0.1", ws_port), 3) as s:
                frames = Frames(s, handshake(s))
                for _ in range(2):
                    parse_json(frames.message())
            parse_metrics(answers[0])
            parse_json(answers[1])
            return True
        return False

    def end(self):
        """The status; also that of one that ended by itself."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def ask(port, path):
    with socket.create_connection(("127.0.0.1", port), 3) as s:
        s.settimeout(3)
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        got = b""
        while more := s.recv(65536):
            got += more
    head, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    if not length or len(body) < int(length[1]):
        raise OSError(f"cut: {got[:80]!r}")
    return body.decode()


def until(probe, daemon=None):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if probe():
            return True
        if daemon and daemon.process.poll() is not None:
            return False
        time.sleep(0.02)
    return False


def looks_well(daemon):
    """What is wrong with a daemon that serves, or None."""
    if not until(daemon.serves, daemon):
        return "it does not answer any more"
    before = daemon.calls("epoll_wait")
    time.sleep(0.5)
    turns = daemon.calls("epoll_wait") - before
    if turns > TURNS_MAX:
        return f"it spins: {turns} turns in half a second"
    status = daemon.end()
    log = [line for line in daemon.read("log").splitlines() if not line.startswith("zerneld: ")]
    return f"exit status {status}" if status else f"it said {log}" if log else None


def ended_clearly(daemon, call):
    """2: that is the status for a configuration file that cannot be read."""
    lines = daemon.read("log").splitlines()
    if daemon.process.returncode not in ((1, 2) if call == "openat" else (1,)):
        return f"exit status {daemon.process.returncode}"
    # it would have gone on without; and it serves before the probes are there
    passed = ("zerneld: warning: ras: ", "zerneld: warning: gauge: ", "zerneld: serving: ")
    lines = [line for line in lines if not line.startswith(passed)]
    return None if len(lines) == 1 and re.match("zerneld: .{10}", lines[0]) else f"not one clear line: {lines}"


def while_starting(call, error, when, leads_to, *source):
    daemon = Traced(f"start-{call}-{error}-{when}", f"{call}:error={error}:when={when}", [call],
                    source or ("--simulate",))
    try:
        up = until(daemon.serves, daemon)
        if not daemon.injected():
            return "nothing was injected"
        if up:
            return "it goes on" if leads_to == EXIT else looks_well(daemon)
        return "it ends" if leads_to == GO else ended_clearly(daemon, call)
    finally:
        daemon.end()


def while_serving(call, error, when):
    daemon = Traced(f"serve-{call}-{error}-{when}", f"{call}:error={error}:when={when}", [call])
    try:
        until(lambda: daemon.serves() and daemon.injected(), daemon)
        return looks_well(daemon) if daemon.injected() else "nothing was injected"
    finally:
        daemon.end()


def calls_while_starting():
    """{call: how often a thread made it before the daemon said that it is ready}; all that it makes are in the tables.
    strace counts for each thread.
    """
    daemon = Traced("plain", trace=["all"])
    try:
        check(until(daemon.serves, daemon), f"it serves under strace: {daemon.read('log')}")
        trace = daemon.read("trace")
    finally:
        equal(daemon.end(), 0, "exit status")
    tables = {row[0] for row in STARTING + SERVING}
    equal(set(re.findall(r"^\d+ +(\w+)\(", trace, re.M)) - tables - OTHERS, set(), "calls that no test makes fail")
    start = trace[:trace.index("zerneld: ready")]
    return {call: max(Counter(re.findall(rf"^(\d+) +{call}\(", start, re.M)).values(), default=0) for call in tables}


def fail(function, cases, at_once=AT_ONCE):
    """No case, the arguments of the function, may return a word of what is wrong."""
    with ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(lambda case: function(*case), cases))
    wrong = [f"{' '.join(map(str, case))}: {result}" for case, result in zip(cases, results) if result]
    check(cases, "there are cases")
    check(not wrong, f"{len(wrong)} of {len(cases)}: " + "; ".join(wrong[:12]))
    print(f"{len(cases)} faults", flush=True)


@test_simulated
def calls_that_fail_while_starting():
    made = calls_while_starting()
    equal([call for call, _, _ in STARTING if not made[call]], [], "calls that are not made")
    fail(while_starting, [(call, error, n, leads_to) for call, leads_to, errors in STARTING for error in errors.split()
                          for n in range(1, min(1 if call in OURS_FIRST else TIMES, made[call]) + 1)])


@test_simulated
def calls_that_fail_while_serving():
    made = calls_while_starting()
    fail(while_serving, [(call, error, made[call] + n) for call, errors in SERVING for error in errors.split()
                         for n in range(1, TIMES + 1)])


@test_simulated
def calls_that_fail_again_and_again():
    """Some requests may get lost, but not all."""
    made = calls_while_starting()
    fail(while_serving, [(call, error, f"{made[call] + 2}+{AGAIN}") for call, errors in SERVING
                         for error in errors.split()])


# ---- live: the kernel's side, and other people's files

# The fifth bpf() asks whether the kernel knows types of functions. No kernel that the probes run on says no; the
# verifier would then take a minute and a half for what it refuses in the end.
LIVE = [
    ("bpf", ANY, "EPERM ENOMEM", (1, 2, 3, 4, 6, 60, 200)),
    ("capset", EXIT, "EPERM", (1,)),
    ("clone3", GO, "EAGAIN", (2, 3)),  # that load programs beside one another
    ("clone3", EXIT, "EAGAIN", (1, 6)),  # the one that loads, and the finder's
    ("eventfd2", ANY, "EMFILE", (1,)),
    ("perf_event_open", ANY, "EMFILE EACCES", (1, 2)),
    ("poll", ANY, "EINTR", (1, 2, 3, 4)),
]


def need_live():
    if os.geteuid() or not os.path.exists("/sys/kernel/btf/vmlinux"):
        raise Absent("it needs root and a kernel with BTF")


@test
def live_calls_that_fail_while_starting():
    """One after the other: daemons that calibrate at one time hit each other's probes."""
    need_live()
    fail(while_starting, [(call, error, n, leads_to, "--probes", "all") for call, leads_to, errors, when in LIVE
                          for error in errors.split() for n in when], at_once=1)
