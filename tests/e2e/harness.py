# SPDX-License-Identifier: GPL-2.0
"""What the end-to-end tests share: daemons on free ports, strict readers of what they serve, the driver, and an actor
(a Python that calls libraries on command). A test is a function under @test; what it starts is stopped when it ends.

Limits: needs root, what `make tests` builds in build/, and a machine on which nobody else uses these libraries: a
daemon sees every process, and what is of the whole node is compared exactly too. Tests wait for one another, those of
other checkouts too. Time limits here only end a hang, they never decide; a test that holds times against each other
says so (test_timed), and is not believed while others keep the machine busy.
"""
import contextlib
import fcntl
import functools
import importlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.environ.get("E2E_BUILD", os.path.join(ROOT, "build"))
ZERNELD, ZERNEL = os.path.join(BUILD, "zerneld"), os.path.join(BUILD, "zernel")
TOOLS = os.path.join(BUILD, "test")
CUDA, NCCL = os.path.join(TOOLS, "libcuda.so.1"), os.path.join(TOOLS, "libnccl.so.2")
HIP = os.path.join(TOOLS, "libamdhip64.so.6")
DRIVER, BURST = os.path.join(TOOLS, "driver"), os.path.join(TOOLS, "burst")
PATIENCE = 60
HANG = 600
SLOWEST, SLOW_SECONDS = 20, 5  # as many tests that took so long are listed at the end
BUSY = 0.1  # share of all CPUs that others take: more, and times say nothing
ALONE = "/run/lock/zernel-tests"
NOBODY = 65534

tests = []


class Absent(Exception):
    """The machine lacks what a test needs: neither passed nor failed."""


class State:
    checks = 0
    cleanup = None
    folder = None
    simulated = False
    shared = False
    beside = None  # the process that runs the simulated tests


class Shared:
    """The daemon that tests under @test_shared have one after the other, its options, and what ends it."""
    daemon = None
    options = ()
    cleanup = None


def test(function):
    tests.append(function)
    return function


def test_timed(function):
    """A test that holds times against each other which other work on the machine can lengthen. One that fails is run
    again, and says so: what is wrong in the daemon is wrong twice on a machine that others leave alone."""
    function.timed = True
    return test(function)


def test_simulated(function):
    """A test whose daemons all simulate, in which no time decides. Such daemons see nothing of the machine, so these
    tests wait for no others, and run beside them."""
    function.simulated = True
    return test(function)


def test_shared(function):
    """A test that looks at nothing but its own processes and libraries: such tests have one daemon after the other,
    which is shared_daemon(), as a start takes two seconds of a CPU. It must not end it, nor fill a table of it."""
    function.shared = True
    return test(function)


def check(condition, what):
    State.checks += 1
    if not condition:
        raise AssertionError(what)


def equal(got, want, what):
    State.checks += 1
    if got == want:
        return
    if isinstance(got, dict) and isinstance(want, dict):
        keys = [k for k in sorted(set(got) | set(want), key=str) if got.get(k) != want.get(k)]
        what += ": " + "; ".join(f"{k}: {got.get(k)!r}, not {want.get(k)!r}" for k in keys[:6])
        raise AssertionError(what)
    raise AssertionError(f"{what}: {got!r}, not {want!r}")


def wait_until(probe, what, patience=PATIENCE, seen=None):
    """The first true value of probe(); fails if there is none within the patience, with what seen() finds then."""
    end = time.monotonic() + patience
    while True:
        got = probe()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience} s: {what}" + (f", but {seen()}" if seen else ""))
        time.sleep(0.05)


def need(path):
    if not (os.path.exists(path) if "/" in path else shutil.which(path)):
        raise Absent(f"no {path}")
    return path


def folder():
    """A directory that everybody may enter; it goes when the test ends."""
    if not State.folder:
        State.folder = tempfile.mkdtemp(prefix="zernel-e2e-")
        os.chmod(State.folder, 0o755)
        State.cleanup.callback(shutil.rmtree, State.folder, ignore_errors=True)
    return State.folder


def free_port():
    """A port on which nobody listens, to be used later: of those that the kernel gives to nobody by itself, so that it
    is still free by then."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        first, last = map(int, file.read().split())
    ports = [*range(10000, first), *range(last + 1, 65536)]
    for port in random.sample(ports, min(len(ports), 1000)):
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port
    with socket.socket() as s:  # the kernel gives all of them
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def copy_of(path, name):
    to = os.path.join(folder(), name)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    return shutil.copy(path, to)


# ---- the text format

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LINE = re.compile(rf"({NAME})(?:\{{(.*)\}})? ([^ ]+)")
SERIES = re.compile(rf"({NAME})(?:\{{(.*)\}})?")
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(?:,|$)')
SERIES_KEPT = 1 << 15
SUFFIXES = {"summary": ("", "_sum", "_count"), "histogram": ("_bucket", "_sum", "_count")}


def parse_labels(text):
    labels, at = [], 0
    while at < len(text):
        m = LABEL.match(text, at)
        assert m, f"labels {text!r}"
        labels.append((m.group(1), re.sub(r"\\(.)", lambda e: "\n" if e.group(1) == "n" else e.group(1), m.group(2))))
        at = m.end()
    assert len(dict(labels)) == len(labels), f"a label twice: {text!r}"
    return frozenset(labels)


@functools.lru_cache(SERIES_KEPT)
def parse_series(text):
    """(name, labels) of a line without its value: most lines of a response were in the one before it."""
    m = SERIES.fullmatch(text)
    assert m, f"series {text!r}"
    return m.group(1), parse_labels(m.group(2) or "")


def parse_metrics(text):
    """Prometheus text 0.0.4, strictly: {(name, labels): value}. Families lie together, each with HELP and TYPE."""
    assert text.endswith("\n"), "the last line is cut"
    values, family, helped, seen, names = {}, None, None, set(), ()
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            helped = line.split(" ", 3)[2]
            continue
        if line.startswith("# TYPE "):
            family, kind = line.split(" ")[2:]
            assert family == helped and family not in seen, f"TYPE without its HELP, or twice: {line}"
            seen.add(family)
            names = [family + s for s in SUFFIXES.get(kind, ("",))]
            continue
        text, space, value = line.rpartition(" ")
        assert space and value, f"line {line!r}"
        series = parse_series(text)
        assert series[0] in names, f"{series[0]} in family {family}"
        assert series not in values, f"twice: {line}"
        values[series] = float(value)
    return values


def no_duplicates(pairs):
    assert len(dict(pairs)) == len(pairs), "a key twice"
    return dict(pairs)


def parse_json(text):
    def refuse(constant):
        raise ValueError(constant)
    return json.loads(text, object_pairs_hook=no_duplicates, parse_constant=refuse)


class Metrics(dict):
    def one(self, name, **labels):
        """The value of the only series with these labels among its own; None if there is none."""
        found = [v for (n, ls), v in self.items() if n == name and labels.items() <= dict(ls).items()]
        assert len(found) <= 1, f"{len(found)} series of {name} with {labels}"
        return found[0] if found else None

    def all(self, name, **labels):
        """{the rest of the labels: value}, as sorted tuples."""
        return {tuple(sorted(ls - labels.items())): v for (n, ls), v in self.items()
                if n == name and labels.items() <= dict(ls).items()}

    def lost(self):
        """What is not 0. Mappings are left out: those are of all programs on this machine, which may map more in the
        time in which the daemon has no CPU than the kernel keeps for it; then it looks at all processes."""
        return {dict(ls)["what"]: v for (n, ls), v in self.items()
                if n == "zernel_lost_total" and v and dict(ls)["what"] != "mapping"}

    def pids(self):
        return {int(value) for _, labels in self for name, value in labels if name == "pid"}

    def library(self, path):
        """{symbol: 0 or 1} of the file that is at this path now."""
        st = os.stat(path)
        end = f"@{st.st_dev:x}:{st.st_ino}"
        return {dict(ls)["symbol"]: v for (n, ls), v in self.items()
                if n == "zernel_probe_attached" and dict(ls)["library"].endswith(end)}


# ---- processes

class Process:
    """One of ours. Its end is looked at when the test ends, unless the test did."""

    def __init__(self, argv, **more):
        self.process = subprocess.Popen(argv, text=True, **more)
        self.pid = self.process.pid
        self.wanted = 0
        State.cleanup.callback(self.end)

    def end(self):
        """Lets it end; it must do so with the status that is expected (None: any)."""
        if self.process.stdin and not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        if self.wanted is not None:
            wanted, self.wanted = self.wanted, None
            equal(status, wanted, f"exit status of {self.process.args[0]}")
        return status

    def kill(self):
        self.wanted = None
        self.process.kill()
        self.process.wait()


# What is told of the processes of a test, not of the daemon: tests look for it themselves. That includes how long
# probes took to come and go, which on a busy machine is as long as a process waits for a CPU.
NEWS = r"zerneld: warning: alert (?!events_lost|probe_overhead)"
SLOW = r"libraries: (putting probes on|taking probes from|attaching to|detaching from) .* (waits since|took) \d+ ms"
# A process beside the daemon that has no CPU for so long. What it does not read or write in the end is missed anyway;
# but nothing else tells of a thread that does not end, so "leaving without waiting for it" is none of these.
LATE = r"gauge: the kernel does not answer for |writer: its folders do not answer;"


def state_and_parent(of):
    """Of a process, or of a thread as PID/task/TID. Z and 0: it has ended."""
    try:
        with open(f"/proc/{of}/stat") as file:
            state, parent, *_ = file.read().rpartition(")")[2].split()
            return state, int(parent)
    except (FileNotFoundError, ProcessLookupError):
        return "Z", 0


def state_of(of):
    return state_and_parent(of)[0]


def parent_of(pid):
    return state_and_parent(pid)[1]


def is_ours(pid):
    """Whether these tests started it, and not those beside them or anybody else."""
    above = {pid}
    while pid > 1:
        pid = parent_of(pid)
        above.add(pid)
    return os.getpid() in above and State.beside not in above


class Daemon(Process):
    """zerneld on free ports, with no control socket and no budget (budget.py is about that) unless there is an option.
    expect: patterns of the warnings that must be there; allow: of those that may be; others must not."""

    def __init__(self, *options, expect=(), allow=(), binary=ZERNELD, argv=None, env=None, wanted=0):
        assert "--simulate" in options or not State.simulated, "a live daemon in a test of simulated ones"
        self.log = tempfile.TemporaryFile("w+")
        self.expect, self.allow, self.looked_at, self.skipped = expect, allow, False, 0
        ports = ["--metrics-port", "0", "--ws-port", "0"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("ZERNEL_")}
        super().__init__([*(argv or [binary]), *ports, *options], stderr=self.log, stdin=subprocess.DEVNULL,
                         env={**clean, "ZERNEL_CONTROL": "none", "ZERNEL_REPORT_DIR": "none",
                              **({} if "--simulate" in options else {"ZERNEL_OVERHEAD_BUDGET": "0%"}), **(env or {})})
        self.wanted, self.simulated = wanted, "--simulate" in options
        ready = wait_until(self.ready, "the daemon being ready")
        self.port, self.ws_port = int(ready.group(1)), int(ready.group(2))

    def lines(self):
        """What it has logged, since this test began if others had it before."""
        with open(f"/proc/self/fd/{self.log.fileno()}") as log:
            return log.read().splitlines()[self.skipped:]

    def lend(self, expect):
        """To a test that expects this in the log."""
        self.expect, self.looked_at = expect, False

    def take_back(self):
        """Looks at what it has logged since; what comes later is the next test's."""
        count = len(self.lines())
        try:
            self.look_at_log()
        finally:
            self.skipped += count

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended: {self.lines()}")
        return re.search(r"metrics on port (\d+), WebSocket on port (\d+)", "\n".join(self.lines()))

    def get(self, path, headers=None):
        url = f"http://127.0.0.1:{self.port}{path}"
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers or {}), timeout=PATIENCE) as answer:
            return answer.read().decode()

    def metrics(self):
        return Metrics(parse_metrics(self.get("/metrics")))

    def ticks(self):
        return self.metrics().one("zernel_ticks_total")

    @contextlib.contextmanager
    def stopped(self):
        """What happens meanwhile is over before the daemon can look."""
        self.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def ticked(self, count):
        """Waits until so many ticks have begun from now on."""
        first = self.ticks()
        wait_until(lambda: self.ticks() >= first + count, f"{count} ticks")

    def json(self, path="/json"):
        return parse_json(self.get(path))

    def health(self):
        """Its status and what it says, good or bad."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=PATIENCE) as answer:
                return answer.status, parse_json(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.code, parse_json(error.read().decode())

    def process_json(self, pid):
        return next((p for p in self.json()["processes"] if p["pid"] == pid), None)

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def fds_at_rest(self):
        """So many are open while nobody asks: a connection of a moment ago may still be there at one look."""
        seen = []
        for _ in range(20):
            seen.append(self.fds())
            time.sleep(0.03)
        return min(seen)

    def descriptors(self):
        """(number, what it is of, what the kernel says of it) of each; one that is closed meanwhile is left out."""
        for n in os.listdir(f"/proc/{self.pid}/fd"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{self.pid}/fdinfo/{n}") as f:
                yield int(n), os.readlink(f"/proc/{self.pid}/fd/{n}"), f.read()

    def attached(self, *paths):
        """Waits until all of these files are hooked."""
        for path in paths:
            wait_until(lambda: any(self.metrics().library(path).values()), f"probes on {path}")
        return self

    def detached(self, path):
        wait_until(lambda: not self.metrics().library(path), f"no probes on {path}")

    def gone(self, *pids):
        """Waits until no series has one of these pids."""
        wait_until(lambda: not self.metrics().pids() & set(pids), f"no series of {pids}")

    def end(self):
        try:
            if self.process.poll() is None:
                self.look_at_ghosts()
        finally:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            status = super().end()
        self.look_at_log()
        return status

    def look_at_ghosts(self):
        """Nobody of these tests is called one who is none: tests that make some end them first. A daemon that does not
        answer, or not everybody, is not asked. Its own parts have /dev/null open, which stands for a GPU in some."""
        with contextlib.suppress(OSError):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/ghosts", timeout=2) as answer:
                    ghosts = parse_json(answer.read().decode())["ghosts"]
            except urllib.error.HTTPError as error:
                check(error.code in (401, 503), f"/ghosts answers {error.code}")
                return
            others = [g for g in ghosts if is_ours(g["pid"]) and parent_of(g["pid"]) != self.pid]
            equal([] if self.simulated else others, [], "processes that are called ghosts")

    def kill(self):
        super().kill()
        self.look_at_log()

    def look_at_log(self):
        if self.looked_at:
            return
        self.looked_at = True
        lines = [s for s in self.lines() if re.match(r"zerneld: (warning|error): ", s) or not s.startswith("zerneld: ")]
        rest = [s for s in lines if not any(re.search(p, s) for p in (NEWS, SLOW, LATE, *self.expect, *self.allow))]
        equal(rest, [], "what the daemon complained about")
        for pattern in self.expect:
            check(any(re.search(pattern, s) for s in lines), f"the daemon said nothing like {pattern!r}")


def shared_daemon(*options, expect=()):
    """The daemon of the test before, if it has these options and lost nothing; else a new one."""
    assert State.shared, "a shared daemon in a test that is not under @test_shared"
    if Shared.daemon and (Shared.options != options or Shared.daemon.metrics().lost()):
        end_shared()
    if not Shared.daemon:
        own, State.cleanup = State.cleanup, contextlib.ExitStack()
        Shared.cleanup, Shared.options = State.cleanup, options
        try:
            Shared.daemon = Daemon(*options)
            Actor(*((f"library{n}", path) for n, path in enumerate((CUDA, NCCL, HIP))))  # they stay hooked
        except BaseException:
            Shared.cleanup.close()
            raise
        finally:
            State.cleanup = own
    wait_until(lambda: not Shared.daemon.metrics().pids(), "the processes of other tests being gone",
        seen=lambda: [(p["pid"], p["comm"]) for key in ("processes", "servers") for p in Shared.daemon.json()[key]])
    Shared.daemon.lend(expect)
    State.cleanup.callback(Shared.daemon.take_back)
    return Shared.daemon


def end_shared():
    """It must end in order, and without a complaint."""
    daemon, Shared.daemon = Shared.daemon, None
    if daemon:
        daemon.lend(())
        Shared.cleanup.close()


def application_env(more):
    """Ours, without what tells CUDA programs which GPUs there are."""
    return {**{k: v for k, v in os.environ.items() if not k.startswith(("CUDA_", "HIP_", "ROCR_", "SLURM_", "FAKE_"))},
        **(more or {})}


class Driver(Process):
    """The driver; gated unless gate=False. start() lets it run, and returns its report; it stays until the end."""

    def __init__(self, scenario, *options, gate=True, cuda=CUDA, nccl=None, env=None, before=(), program=DRIVER):
        argv = [*before, program, "--cuda", cuda, "--scenario", scenario, "--hold-stdin", *options]
        argv += ["--nccl", nccl] if nccl else []
        argv += ["--gate"] if gate else []
        super().__init__(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=application_env(env))
        self.gate = gate
        if gate:
            equal(self.process.stdout.readline(), "ready\n", "what the driver says first")

    def go(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def report(self):
        text = ""
        for line in self.process.stdout:
            text += line
            if line.endswith("}\n"):
                return parse_json(text)
        raise AssertionError(f"the driver's report is cut: {text!r}")

    def start(self):
        self.go()
        return self.report()


class Actor(Process):
    """A Python that runs the statements it is told, with ctypes and helpers at hand; see actor.py."""

    def __init__(self, *libraries, env=None, before=()):
        super().__init__([*before, sys.executable, os.path.join(HERE, "actor.py")], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, env=application_env(env))
        self.answer("its start")
        for name, path in libraries:
            self.do(f"{name} = CDLL({path!r})")

    def tell(self, code):
        self.process.stdin.write(json.dumps(code) + "\n")
        self.process.stdin.flush()

    def do(self, code):
        """Runs code; what it left in `answer`."""
        self.tell(code)
        return self.answer(code)

    def answer(self, what):
        line = self.process.stdout.readline()
        got = json.loads(line) if line else {"error": "it ended"}
        if "error" in got:
            raise AssertionError(f"actor: {what!r}: {got['error']}")
        return got["answer"]


def with_id(pid, make):
    """What make() starts, as a process with this id: a new one gets the id after the last one that was given."""
    for _ in range(100):
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(pid - 1))
        process = make()
        if process.pid == pid:
            return process
        process.end()
    raise Absent(f"no process got the id {pid}")


def run(argv, timeout=60, **more):
    """The finished command, with its output as text."""
    return subprocess.run(argv, text=True, capture_output=True, timeout=timeout, **more)


# ---- running

def import_topics(place):
    """Imports each file of a folder that has a test, so that there is none that nobody runs."""
    for name in sorted(name for name in os.listdir(place) if name.endswith(".py")):
        with open(os.path.join(place, name)) as file:
            if re.search(r"^@test", file.read(), re.M):
                importlib.import_module(name[:-3])


def places(error):
    """Which lines of the tests an error went through."""
    where = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(HERE)]
    return ", ".join(f"{os.path.basename(f.filename)}:{f.lineno}" for f in where)


def hangs(*_):
    raise AssertionError(f"it hangs: nothing for {HANG} s")


def run_one(function):
    """'passed', 'failed' or 'absent'."""
    State.checks, State.folder, State.simulated = 0, None, is_simulated(function)
    State.shared = is_shared(function)
    signal.signal(signal.SIGALRM, hangs)
    signal.alarm(HANG)
    start = time.monotonic()
    try:
        with contextlib.ExitStack() as State.cleanup:
            function()
        check(State.checks > 0, "this test checks nothing")
    except Absent as why:
        print(f"absent: {function.__name__}: {why}", flush=True)
        return "absent"
    except Exception as error:
        for e in (error.__context__, error):  # what happened first; what came of it when the test was ended
            if e:
                print(f"FAILED {function.__name__}: {type(e).__name__}: {e} ({places(e)})", flush=True)
        return "failed"
    finally:
        signal.alarm(0)
    print(f"ok {function.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
    return "passed"


def cpu_seconds():
    """What all CPUs did, and what of it we did, with all that we started and have waited for."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK"), sum(os.times()[:4])


def run_measured(function):
    """The result, and the share of all CPUs that others took meanwhile."""
    start, (all_before, ours_before) = time.monotonic(), cpu_seconds()
    result = run_one(function)
    (all_after, ours_after), took = cpu_seconds(), time.monotonic() - start
    others = all_after - all_before - (ours_after - ours_before)
    return result, max(0, others) / (took * os.cpu_count() + 1e-9)


def run_tries(function):
    """One that holds times against each other fails if it does so twice while others leave the machine alone."""
    if not is_timed(function):
        return run_one(function)
    failed, shares = 0, []
    while failed < 2 and len(shares) < 4:
        result, share = run_measured(function)
        if result != "failed":
            return result
        failed += share <= BUSY
        shares.append(f"{share:.0%}")
        print(f"again: {function.__name__}, while others took {shares[-1]} of the machine", flush=True)
    if failed == 2:
        return "failed"
    print(f"absent: {function.__name__}: times say nothing on a machine of which others take {', '.join(shares)}",
        flush=True)
    return "absent"


@contextlib.contextmanager
def alone():
    """One test at a time on this machine, whichever checkout it is of: daemons see the processes and groups of all."""
    try:
        lock = os.open(ALONE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:  # who is not root runs what needs none, on simulated data
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def is_simulated(function):
    return getattr(function, "simulated", False)


def is_shared(function):
    return getattr(function, "shared", False)


def run_clocked(function):
    start = time.monotonic()
    return run_tries(function), time.monotonic() - start, function.__name__


def run_with_one_daemon(functions):
    """Tests that share one. It ends after a failure too, so that the next test has another one."""
    results = []
    for function in functions:
        results.append(run_clocked(function))
        if results[-1][0] == "failed" or function is functions[-1]:
            try:
                end_shared()
            except Exception as error:
                print(f"FAILED {function.__name__}: the daemon's end: {error}", flush=True)
                results[-1] = "failed", *results[-1][1:]
    return results


def run_in_turn(functions):
    """(result, seconds, name) of each; a test waits for those of others, but for one that disturbs nobody."""
    shared = [f for f in functions if is_shared(f)]
    results = []
    if shared:
        with alone():
            results += run_with_one_daemon(shared)
    for function in functions:
        if function not in shared:
            with contextlib.nullcontext() if is_simulated(function) else alone():
                results.append(run_clocked(function))
    return results


@contextlib.contextmanager
def run_beside(functions, results):
    """A process runs these tests meanwhile, in a session of its own, as main(); what it says is shown at the end, and
    its results are added."""
    said = tempfile.TemporaryFile("w+")
    sys.stdout.flush()
    pid = State.beside = os.fork()
    if not pid:
        try:
            os.setsid()
            os.nice(10)  # no time decides in these
            os.dup2(said.fileno(), 1)
            said.write("\n" + json.dumps(run_in_turn(functions)))
            said.flush()
        finally:
            os._exit(0)
    try:
        yield
    finally:
        os.waitpid(pid, 0)
    said.seek(0)
    *lines, last = said.read().split("\n")
    print("\n".join(lines).strip("\n"), flush=True)
    results.extend(map(tuple, json.loads(last)) if last.startswith("[") else [("failed", 0, "tests beside")])


def run_lanes(functions):
    """Simulated tests beside live ones; those that hold times against each other after both."""
    timed = [f for f in functions if is_timed(f)]
    simulated = [f for f in functions if is_simulated(f)]
    live = [f for f in functions if f not in timed and f not in simulated]
    if not live or not simulated:
        return run_in_turn(simulated + live + timed)
    results = []
    with run_beside(simulated, results):
        results += run_in_turn(live)
    return results + run_in_turn(timed)


def is_timed(function):
    return getattr(function, "timed", False)


CHOICES = {
    "--timed": is_timed,
    "--untimed": lambda function: not is_timed(function),
    "--simulated": is_simulated,
    "--live": lambda function: not is_timed(function) and not is_simulated(function),
}


def is_chosen(function, pattern):
    """A pattern is one of CHOICES, or a part of the name."""
    return CHOICES[pattern](function) if pattern in CHOICES else pattern in function.__name__


def list_slowest(results):
    """Where time can be saved: the tests that took longest, all tries together."""
    for _, seconds, name in sorted(results, key=lambda r: r[1], reverse=True)[:SLOWEST]:
        if seconds >= SLOW_SECONDS:
            print(f"slowest: {seconds:.1f} s {name}", flush=True)


def run_all(pattern, root):
    allowed = not root or not os.geteuid()
    if not allowed:
        print("absent: all end-to-end tests: they need root", flush=True)
    chosen = [f for f in tests if is_chosen(f, pattern) and allowed]
    results = run_lanes(chosen)
    lost = len(chosen) - len(results)  # of a process that ended before it could say
    ends = [result for result, _, _ in results]
    passed, failed = ends.count("passed"), ends.count("failed") + max(0, lost)
    list_slowest(results)
    print(f"{passed} passed, {failed} failed", flush=True)
    return 1 if failed or not passed else 0


def ends(*_):
    """Whoever breaks off has all end that was started here, which is of this session: at once who starts more, then the
    others in order, for a second."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    starter = os.getpid()
    if os.fork():
        signal.pause()
    os.kill(starter, signal.SIGKILL)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            with contextlib.suppress(ProcessLookupError):
                if pid != os.getpid() and os.getsid(pid) == os.getsid(0):
                    os.kill(pid, number)
        time.sleep(1)
    os._exit(143)


def main(root=True):
    """In a session of its own: who listens in the session of a process that uses a GPU is of its service, and beside
    these tests others have servers."""
    with contextlib.suppress(PermissionError):  # it leads one already
        os.setsid()
    signal.signal(signal.SIGTERM, ends)
    sys.exit(run_all(sys.argv[1] if len(sys.argv) > 1 else "", root))
