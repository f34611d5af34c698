#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""dist_test.py: what `make dist` gives away, and the systemd unit: the archives hold what they should, the package
installs, is upgraded and leaves nothing, the same commit gives the same bytes, the unit is valid and no weaker than
docs/OPERATIONS.md says, and the daemon runs with the unit's capabilities and system calls alone, whatever option the
package offers is set."""
import atexit
import contextlib
import glob
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import confined

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "e2e"))
from harness import LATE, free_port  # noqa: E402

UNIT = "contrib/systemd/zerneld.service"
GPU_UNIT = "contrib/systemd/zernel-gpu.service"
passed = failed = 0
work = tempfile.mkdtemp()
MISSES = rf"(?m)^(?!.*({LATE})).*absent"
DIST = f"{work}/dist"  # others may make build/dist meanwhile


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)


def check(name, good, said=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAILED {name}: {str(said)[:2000]}")


def archives():
    made = run("make", "dist", f"DIST={DIST}")
    check("make dist", made.returncode == 0, made.stderr)
    first = open(f"{DIST}/SHA256SUMS").read()
    sums = run("sha256sum", "-c", "SHA256SUMS", cwd=DIST)
    check("checksums", sums.returncode == 0, sums.stdout)
    run("make", "dist", f"DIST={DIST}")
    check("the same bytes again", open(f"{DIST}/SHA256SUMS").read() == first, "SHA256SUMS differ")
    tar, = glob.glob(f"{DIST}/*-linux-*.tar.gz")
    run("tar", "-xzf", tar, "-C", work)
    top, = glob.glob(f"{work}/zerneld-*")
    for name in ("zerneld", "zernel", "zernel-gpu", "README.md", "LICENSE", UNIT, GPU_UNIT, "contrib/gpu/README.md",
                 "contrib/slurm/README.md", "docs/METRICS.md", "docs/grafana/zernel-job.json",
                 "contrib/prometheus/prometheus.yml", "contrib/prometheus/slurm-file-sd.sh"):
        check(f"the archive has {name}", os.path.exists(f"{top}/{name}"))
    check("its program runs", run(f"{top}/zerneld", "--version").stdout.startswith("zerneld "))
    commit = run("git", "rev-parse", "--short", "HEAD")
    if commit.returncode == 0:
        check("its program names its commit", f" {commit.stdout.strip()}" in run(f"{top}/zerneld", "--version").stdout)
    source, = [f for f in glob.glob(f"{DIST}/zerneld-*.tar.gz") if f != tar]
    listed = run("tar", "-tzf", source).stdout
    check("the source has its version", re.search(r"/VERSION$", listed, re.M))


def package_of(name, wanted, verb):
    """Into an empty root and out again."""
    deb, = glob.glob(f"{DIST}/{name}_*.deb")
    root = f"{work}/root-{name}"
    os.makedirs(f"{root}/var/lib/dpkg/updates")
    os.makedirs(f"{root}/var/lib/dpkg/info")
    for file in ("status", "available"):
        open(f"{root}/var/lib/dpkg/{file}", "w").close()
    # no maintainer script runs here: there is no shell in this root; see installed()
    tools = ("dpkg", f"--root={root}", "--force-script-chrootless", "--force-depends", "--log=/dev/null")
    check(f"{name} installs", run(*tools, "-i", deb).returncode == 0, run(*tools, "-i", deb).stderr)
    files = run("dpkg", f"--root={root}", "-L", name).stdout.split()
    for file in wanted:
        check(f"the package has {file}", file in files, files)
    check(f"{name}: its program runs", run(f"{root}{verb}", "--help").returncode == 0)
    if name == "zerneld":
        dead = [(file, link) for file in files if file.endswith(".md")
                for link in re.findall(r"\]\((?!https?:)([^)#]+)", open(root + file).read())
                if not os.path.exists(os.path.join(os.path.dirname(root + file), link))]
        check(f"{name}: links of its documents lead somewhere", dead == [], dead)
    check(f"{name} is purged", run(*tools, "--purge", name).returncode == 0)
    left = [os.path.join(d, f) for d, _, names in os.walk(root) for f in names if "/dpkg" not in d]
    check(f"{name}: nothing is left", left == [], left)
    said = [line for line in run("lintian", deb).stdout.splitlines() if line.startswith("E:")]
    known = ("statically-linked-binary", "embedded-library", "bogus-mail-host", "root-in-contact")
    check(f"{name}: lintian has no other errors", said and all(any(k in line for k in known) for line in said), said)


def package():
    package_of("zerneld", ("/usr/sbin/zerneld", "/usr/bin/zernel", "/lib/systemd/system/zerneld.service",
                           "/usr/share/man/man8/zerneld.8.gz", "/etc/default/zerneld",
                           "/usr/share/doc/zerneld/prometheus/zernel.rules.yml",
                           "/usr/share/doc/zerneld/grafana/zernel-job.json"), "/usr/bin/zernel")
    package_of("zernel-gpu", ("/usr/sbin/zernel-gpu", "/lib/systemd/system/zernel-gpu.service",
                              "/usr/share/man/man8/zernel-gpu.8.gz", "/usr/share/doc/zernel-gpu/README.md"), "/usr/sbin/zernel-gpu")


def installed():
    """With its own maintainer scripts, on this machine's files, of which nothing is changed: installed.sh."""
    deb, = glob.glob(f"{DIST}/zerneld_*.deb")
    made = run("tests/older.sh", deb, f"{work}/older.deb")
    check("a version before it", made.returncode == 0, made.stderr)
    said = subprocess.run(["tests/installed.sh", f"{work}/older.deb", deb], capture_output=True, text=True, timeout=900)
    for line in said.stdout.splitlines():
        good, _, name = line.partition(" ")
        check(f"installed: {name}", good == "ok")
    check("installed: all was tried", said.stdout.count("\n") == 18, said.stdout + said.stderr)


def unit_is_valid(name, unit, stated):
    """stated: the words before its score in docs/OPERATIONS.md."""
    binary = f"/usr/sbin/{name}"
    made = not os.path.exists(binary)
    if made:
        shutil.copy(f"build/{name}", binary)
    try:
        said = [line for line in run("systemd-analyze", "verify", "--man=no", unit).stderr.splitlines()
                if name in line]
    finally:
        if made:
            os.unlink(binary)
    check(f"systemd-analyze verify {name}", said == [], said)
    text = run("systemd-analyze", "security", "--offline=true", unit).stdout
    score = float(re.search(rf"Overall exposure level for {name}.service: ([0-9.]+)", text).group(1))
    limit = float(re.search(rf"{stated} ([0-9.]+)", open("docs/OPERATIONS.md").read()).group(1))
    check(f"the score of {name} is what the document says", score <= limit, f"{score}, not {limit}")


def folders_of_the_unit():
    """No document has an administrator give a group to folders whose group systemd sets at each start."""
    folders = {f"/run/{name}" for name in confined.values("RuntimeDirectory")}
    folders |= {f"/var/lib/{name}" for name in confined.values("StateDirectory")}
    check("folders that systemd manages", folders == {"/run/zernel", "/var/lib/zernel", "/var/lib/zernel/jobs"}, folders)
    changes = re.compile(r"\b(?:chgrp|chown|chmod|install -d)\b[^`\n]*")
    told = {path: [p.rstrip("./") for command in changes.findall(open(path).read())
                   for p in re.findall(r"(?<=\s)/[\w./-]+", command)] for path in glob.glob("docs/**/*.md", recursive=True)}
    check("documents: the folder of its own is found", "/srv/reports" in told["docs/OPERATIONS.md"], told)
    for document, paths in told.items():
        check(f"documents: what {document} changes", folders.isdisjoint(paths), paths)
    text = open("docs/OPERATIONS.md").read()
    check("documents: the group of the service", re.search(r"^\[Service\]\nGroup=\w+$", text, re.M))


def name_of_the_unit():
    """The service sees the host's name, which may come after its start, and cannot set it."""
    for key in ("ProtectHostname", "PrivateNetwork", "PrivateUsers"):
        check(f"the host's name and network: {key}", set(confined.values(key)) <= {"no"}, confined.values(key))
    check("the host's name cannot be set", confined.calls().isdisjoint({"sethostname", "setdomainname"}))


CONFINED = [sys.executable, "tests/confined.py"]
KEPT = {"cap_sys_ptrace", "cap_dac_read_search", "cap_checkpoint_restore", "cap_bpf", "cap_perfmon"}
BESIDE = {"zerneld: writer": set(), "zernel: sender": set(), "zernel: gauge": {"cap_dac_read_search"},
          "zernel: readers": {"cap_sys_ptrace", "cap_dac_read_search", "cap_checkpoint_restore"}}


class Daemon:
    """zerneld on free ports with what the unit leaves it, as systemd starts it: it has said that it is ready."""

    def __init__(self, name, around=(), **environment):
        self.folder = f"{work}/{name}"
        os.mkdir(self.folder)
        self.port = free_port()
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind(f"{self.folder}/notify")
        told.settimeout(60)
        own = {"NOTIFY_SOCKET": f"{self.folder}/notify", "ZERNEL_LISTEN": "127.0.0.1",
               "ZERNEL_METRICS_PORT": str(self.port),
               "ZERNEL_WS_PORT": str(free_port()), "ZERNEL_CONTROL": f"{self.folder}/run/control",
               "ZERNEL_REPORT_DIR": f"{self.folder}/reports"}
        self.log = open(f"{self.folder}/log", "w+")
        # what looks at it from outside needs more than the unit leaves
        self.process = subprocess.Popen([*around, *CONFINED, "build/zerneld"], stderr=self.log,
            env={**os.environ, **own, **environment})
        try:
            self.ready = told.recv(100) == b"READY=1"
        except socket.timeout:
            self.ready = False
        self.pid = self.process.pid
        if around[:1] == ("strace",):
            with contextlib.suppress(OSError, IndexError), open(f"/proc/{self.pid}/task/{self.pid}/children") as f:
                self.pid = int(f.read().split()[0])
        atexit.register(self.kill)
        check(f"{name}: it says that it is ready", self.ready, self.said())

    def kill(self):
        """Also where a test broke off: live tests see every daemon."""
        with contextlib.suppress(ProcessLookupError):
            if self.process.poll() is None:
                os.kill(self.pid, 9)

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def get(self, path, **headers):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", headers=headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.read().decode()

    def children(self):
        """{name: process id} of the processes beside it."""
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as f:
            return {open(f"/proc/{pid}/comm").read().strip(): int(pid) for pid in f.read().split()}

    def stop(self):
        """What it logged. It ends well."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, 15)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
        said = self.said()
        check("it ends well", self.process.returncode == 0, said)
        check("it misses nothing", not re.search(MISSES, said), said)
        return said


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.rstrip("\n").split(":\t", 1) for line in f)


def capabilities(pid, which):
    """Of all its threads."""
    mask = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        mask |= int(status(thread)[which], 16)
    return {name for name, number in confined.numbers().items() if mask >> number & 1}


def calls_of(trace):
    """The system calls of the daemon in what strace wrote, from its beginning on."""
    began, used = False, set()
    with open(trace) as f:
        for line in f:
            call = re.match(r"\d+ +(\w+)\(", line)
            began |= "execve(" in line and "build/zerneld" in line and "= 0" in line
            if call and began:
                used.add(call.group(1))
    # the kernel makes these itself when it returns from a probe (6.11 on), and does not filter them
    return used - {"execve", "uretprobe", "syscall_0x14f", "uprobe", "syscall_0x150"}


def daemon_of_the_unit():
    """Live, under the unit's filter, and under strace: what it calls must be what the unit allows."""
    trace = f"{work}/trace"
    daemon = Daemon("unit", around=("strace", "-f", "-qq", "-o", trace), ZERNEL_OTLP=f"http://127.0.0.1:{free_port()}")
    if daemon.ready:
        time.sleep(1.5)
        check("it is well", '"status":"ok"' in daemon.get("/health"), daemon.get("/health"))
        os.kill(daemon.pid, 1)
        time.sleep(0.5)
    daemon.stop()
    used = calls_of(trace)
    check("many calls were seen", len(used) > 30, used)
    check("the unit allows all of them", used <= confined.calls(), used - confined.calls())


def gives_up(daemon):
    """What is left after the start; probes that are perf events want CAP_SYS_ADMIN for good."""
    kept = KEPT | {"cap_sys_admin"} if "perf event" in run("build/zerneld", "--check").stdout else KEPT
    for which in ("CapEff", "CapPrm", "CapBnd"):
        check(f"what it keeps: {which}", capabilities(daemon.pid, which) == kept, capabilities(daemon.pid, which))
    beside = daemon.children()
    check("the processes beside it", set(beside) == set(BESIDE), beside)
    for name, pid in beside.items():
        kept = capabilities(pid, "CapPrm") | capabilities(pid, "CapBnd")
        check(f"what {name} keeps", kept == BESIDE.get(name), (kept, status(pid)))
    who = status(beside.get("zernel: sender", "self"))
    check("who makes connections is nobody", who["Uid"].split() == who["Gid"].split() == ["65534"] * 4, who)
    check("and in no group", who["Groups"].strip() == "", who)


class Receiver(http.server.BaseHTTPRequestHandler):
    """Counts what is posted, by path."""
    came = {}

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        Receiver.came[self.path] = Receiver.came.get(self.path, 0) + 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def offered():
    """{name: value} of what /etc/default/zerneld offers, commented out."""
    return dict(re.findall(r"^#(ZERNEL_\w+)=(.*)$", open("contrib/deb/default").read(), re.M))


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def options_of_the_package():
    """Each option of /etc/default/zerneld by itself, and with them all at once every kind of connection."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with open(f"{work}/token", "w") as f:
        f.write("a-token-of-this-test\n")
    with open(f"{work}/rules", "w") as f:
        f.write("alert always\n  expr zernel_build_info == 1\n")
    os.chmod(f"{work}/token", 0o600)
    values = {"ZERNEL_TOKEN_FILE": f"{work}/token", "ZERNEL_ALERTMANAGER": url, "ZERNEL_WEBHOOK": f"{url}/hook",
              "ZERNEL_OTLP": f"{url}/otlp", "ZERNEL_LOG": "info"}
    check("each offered option is tried", set(offered()) <= set(values), offered())
    for name, value in values.items():
        Daemon(name, **{name: value}).stop()
    Receiver.came.clear()
    daemon = Daemon("all", **values, ZERNEL_ALERTS=f"{work}/rules", ZERNEL_OTLP_INTERVAL_MS="1000")
    if daemon.ready:
        wanted = {"/api/v2/alerts", "/hook", "/otlp"}
        check("all three are told", wait_until(lambda: wanted <= set(Receiver.came)), Receiver.came)
        gives_up(daemon)
        check("it is well", '"status":"ok"' in daemon.get("/health", Authorization="Bearer a-token-of-this-test"))
    daemon.stop()
    server.shutdown()


# As ProtectHome=yes has it.
HOME_HIDDEN = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /home && exec "$@"', "sh")


def native_examples_of_the_unit():
    """--stacks native: the functions of a program whose files lie where the service itself sees nothing."""
    home = tempfile.mkdtemp(dir="/home")
    for name in ("nest", "libcuda.so.1"):
        shutil.copy(f"build/test/{name}", home)
    daemon = Daemon("native", around=HOME_HIDDEN, ZERNEL_STACKS="native")
    program = subprocess.Popen([f"{home}/nest", f"{home}/libcuda.so.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True)

    def told():
        program.stdin.write("call\n")
        program.stdin.flush()
        program.stdout.readline()
        return "nest_read (nest);nest_call (nest);nest::middle (nest);" in daemon.get(
            f"/stacks/folded?pid={program.pid}&cause=launch")

    try:
        check("the daemon does not see the files", not os.path.exists(f"/proc/{daemon.pid}/root{home}/nest"), home)
        if daemon.ready:
            check("an example of what is below", wait_until(told), daemon.get("/stacks/folded") + daemon.get("/stacks"))
        daemon.stop()
    finally:
        program.stdin.close()
        program.wait()
        shutil.rmtree(home)


def shown(without=(), files=16384, options="/nowhere"):
    """What `systemctl show` says of the unit, but for what an administrator took away from it."""
    capabilities = " ".join(sorted(confined.capabilities() - set(without)))
    return (f"LoadState=loaded\nCapabilityBoundingSet={capabilities}\nSystemCallFilter={' '.join(sorted(confined.calls() - set(without)))}\n"
            f"LimitNOFILE={files}\nEnvironmentFiles={options} (ignore_errors=yes)\n")


def check_under(said):
    """--check where systemctl says so, in a mount namespace of its own."""
    with open(f"{work}/show", "w") as f:
        f.write(said)
    with open(f"{work}/systemctl", "w") as f:
        f.write(f"#!/bin/sh\ncat {work}/show\n")
    os.chmod(f"{work}/systemctl", 0o755)
    script = f"mount -t tmpfs run /run && mkdir -p /run/systemd/system && mount --bind {work}/systemctl $(command -v systemctl) && exec build/zerneld --check"
    return run("unshare", "--mount", "sh", "-c", script)


def check_of_the_service():
    """--check has no more than the service, whoever runs it, and names what that lacks."""
    trace = {"cap_bpf", "cap_perfmon", "cap_sys_admin"}
    with open(f"{work}/options", "w") as f:
        f.write("ZERNEL_WEBHOOK='http://127.0.0.1:1/x'\nZERNEL_KMSG=none\n")
    for name, said, status, lines in (
            ("as it is", shown(), 0, ["limits +as zerneld.service has them: 10 of 41 capabilities$", "gpu_mem +ok$",
                                      "new libraries +by mapping events$"]),
            ("no BPF", shown(trace), 1, ["needs CAP_BPF and CAP_PERFMON, which were taken from this root"]),
            ("BPF alone", shown(trace - {"cap_bpf"}), 1, ["CAP_BPF is there: needs CAP_PERFMON as well"]),
            ("a filter", shown({"bpf"}), 1,
             ["limits .*; its SystemCallFilter refuses bpf$",
              "nothing .*CAP_SYS_ADMIN is there: a filter of system calls"]),
            ("a filter, and no SYS_ADMIN", shown({"bpf", "cap_sys_admin"}), 1,
             ["nothing .*: this kernel wants CAP_SYS_ADMIN as well"]),
            ("its options", shown(options=f"{work}/options"), 0,
             ["connections +ok", "errors of GPUs +none: --kmsg none$"]),
            ("no nobody", shown({"cap_setuid"}, options=f"{work}/options"), 1,
             ["connections +cannot start .*Operation not permitted; needs CAP_SETUID"]),
            ("few files", shown(files=64), 1, ["nothing +the hard limit of open files is 64, and the start needs "]),
            ("no such service", "LoadState=not-found\n", 0, ["gpu_mem +ok$"])):
        got = check_under(said)
        check(f"--check: {name}", got.returncode == status
              and all(re.search(f"(?m){line}", got.stdout) for line in lines),
              got.stdout + got.stderr)
    check("--check: there is no service", "limits" not in got.stdout, got.stdout)
    got = run("prlimit", "--nofile=64:64", "build/zerneld", "--metrics-port", "0", "--ws-port", "0", "--listen",
        "127.0.0.1")
    check("a start with few files", got.returncode == 1 and got.stderr.count("\n") == 1 and
          got.stderr.startswith("zerneld: the hard limit of open files is 64, and the start needs "), got.stderr)


os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    archives()
    package()
    unit_is_valid("zerneld", UNIT, "exposure level of")
    unit_is_valid("zernel-gpu", GPU_UNIT, "`zernel-gpu.service` has")
    folders_of_the_unit()
    name_of_the_unit()
    if os.geteuid() == 0:
        installed()
    if os.geteuid() == 0 and os.path.exists("/sys/kernel/btf/vmlinux"):
        daemon_of_the_unit()
        options_of_the_package()
        native_examples_of_the_unit()
        check_of_the_service()
    else:
        print("the daemon was NOT run with the unit's privileges: this needs root and a kernel with BTF")
finally:
    shutil.rmtree(work)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
