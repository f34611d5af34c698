#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""dist_test.py: what `make dist` gives away, and the systemd unit: the archives hold what they should, the package installs
and leaves nothing, the same commit gives the same bytes, the unit is valid and no weaker than docs/OPERATIONS.md says, and
the daemon runs with the unit's capabilities and system calls alone."""
import glob
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

UNIT = "contrib/systemd/zerneld.service"
passed = failed = 0
work = tempfile.mkdtemp()


def run(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)


def check(name, good, said=""):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAILED {name}: {said}")


def unit(key):
    """All values of a key of the unit, in one string."""
    with open(UNIT) as f:
        return " ".join(re.findall(rf"^{key}=(.*)$", f.read(), re.M))


def archives():
    made = run("make", "dist")
    check("make dist", made.returncode == 0, made.stderr)
    first = open("build/dist/SHA256SUMS").read()
    sums = run("sha256sum", "-c", "SHA256SUMS", cwd="build/dist")
    check("checksums", sums.returncode == 0, sums.stdout)
    run("make", "dist")
    check("the same bytes again", open("build/dist/SHA256SUMS").read() == first, "SHA256SUMS differ")
    tar, = glob.glob("build/dist/*-linux-*.tar.gz")
    run("tar", "-xzf", tar, "-C", work)
    top, = glob.glob(f"{work}/zerneld-*")
    for name in ("zerneld", "zernel", "README.md", "LICENSE", UNIT, "contrib/slurm/README.md", "docs/METRICS.md", "docs/grafana-dashboard.json",
                 "contrib/prometheus/prometheus.yml", "contrib/prometheus/slurm-file-sd.sh"):
        check(f"the archive has {name}", os.path.exists(f"{top}/{name}"))
    check("its program runs", run(f"{top}/zerneld", "--version").stdout.startswith("zerneld "))
    source, = [f for f in glob.glob("build/dist/zerneld-*.tar.gz") if f != tar]
    listed = run("tar", "-tzf", source).stdout
    check("the source has its version", re.search(r"/VERSION$", listed, re.M))


def package():
    deb, = glob.glob("build/dist/*.deb")
    root = f"{work}/root"
    os.makedirs(f"{root}/var/lib/dpkg/updates")
    os.makedirs(f"{root}/var/lib/dpkg/info")
    for name in ("status", "available"):
        open(f"{root}/var/lib/dpkg/{name}", "w").close()
    # no maintainer script runs here: there is no shell in this root
    tools = ("dpkg", f"--root={root}", "--force-script-chrootless", "--log=/dev/null")
    check("it installs", run(*tools, "-i", deb).returncode == 0, run(*tools, "-i", deb).stderr)
    files = run("dpkg", f"--root={root}", "-L", "zerneld").stdout.split()
    for name in ("/usr/sbin/zerneld", "/usr/bin/zernel", "/lib/systemd/system/zerneld.service",
                 "/usr/share/man/man8/zerneld.8.gz", "/etc/default/zerneld",
                 "/usr/share/doc/zerneld/prometheus/zernel.rules.yml", "/usr/share/doc/zerneld/grafana-dashboard.json"):
        check(f"the package has {name}", name in files, files)
    check("its verbs run", run(f"{root}/usr/bin/zernel", "--help").returncode == 0)
    check("it is purged", run(*tools, "--purge", "zerneld").returncode == 0)
    left = [os.path.join(d, f) for d, _, names in os.walk(root) for f in names if "/dpkg" not in d]
    check("nothing is left", left == [], left)
    said = [line for line in run("lintian", deb).stdout.splitlines() if line.startswith("E:")]
    known = ("statically-linked-binary", "embedded-library", "bogus-mail-host", "root-in-contact")
    check("lintian has no other errors", all(any(k in line for k in known) for line in said), said)


def unit_is_valid():
    binary = "/usr/sbin/zerneld"
    made = not os.path.exists(binary)
    if made:
        shutil.copy("build/zerneld", binary)
    try:
        said = [line for line in run("systemd-analyze", "verify", "--man=no", UNIT).stderr.splitlines() if "zerneld" in line]
    finally:
        if made:
            os.unlink(binary)
    check("systemd-analyze verify", said == [], said)
    text = run("systemd-analyze", "security", "--offline=true", UNIT).stdout
    score = float(re.search(r"Overall exposure level for zerneld.service: ([0-9.]+)", text).group(1))
    stated = float(re.search(r"exposure level of ([0-9.]+)", open("docs/OPERATIONS.md").read()).group(1))
    check("the score is what the document says", score <= stated, f"{score}, not {stated}")


def bounding():
    """The arguments of setpriv that leave what the unit leaves."""
    caps = ",".join("+" + c[4:].lower() for c in unit("CapabilityBoundingSet").split())
    return ["setpriv", f"--bounding-set=-all,{caps}", "--no-new-privs"]


def group(name):
    """The system calls of one of systemd's groups, those in it included."""
    calls = set()
    for line in run("systemd-analyze", "syscall-filter", name).stdout.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            calls |= group(word)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def allowed():
    calls = set()
    with open(UNIT) as f:
        for value in re.findall(r"^SystemCallFilter=(.*)$", f.read(), re.M):
            names = set()
            for word in value.lstrip("~").split():
                names |= group(word) if word.startswith("@") else {word}
            calls = calls - names if value.startswith("~") else calls | names
    return calls | group("@default")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def daemon_of_the_unit():
    """Live, with the unit's capabilities, under strace: what it calls must be what the unit allows."""
    port, ws, trace = free_port(), free_port(), f"{work}/trace"
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(f"{work}/notify")
    told.settimeout(60)
    command = [*bounding(), "build/zerneld", "--listen", "127.0.0.1", "--metrics-port", str(port), "--ws-port", str(ws),
               "--control", f"{work}/run/control", "--report-dir", f"{work}/reports"]
    # strace itself needs more than the unit leaves, so it stands outside
    daemon = subprocess.Popen(["strace", "-f", "-qq", "-o", trace, *command], stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "NOTIFY_SOCKET": f"{work}/notify"})
    try:
        check("it says that it is ready", told.recv(100) == b"READY=1")
        time.sleep(1.5)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=20) as answer:
            check("it is well", answer.status == 200)
        pid = int(re.search(r"^(\d+)", open(trace).read()).group(1))
        os.kill(pid, 1)
        time.sleep(0.5)
        os.kill(pid, 15)
        said = daemon.communicate(timeout=120)[1]
    finally:
        daemon.kill()
    check("it ends well", daemon.returncode == 0, said)
    check("it misses nothing", "absent" not in said, said)
    began, used = False, set()
    with open(trace) as f:
        for line in f:
            call = re.match(r"\d+ +(\w+)\(", line)
            began |= "execve(" in line and "build/zerneld" in line and "= 0" in line
            if call and began:
                used.add(call.group(1))
    check("many calls were seen", len(used) > 30, used)
    # the kernel makes these two itself when it returns from a probe (6.11 on), and does not filter them
    used -= {"execve", "uretprobe", "syscall_0x14f", "uprobe", "syscall_0x150"}
    check("the unit allows all of them", used <= allowed(), used - allowed())


os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
try:
    archives()
    package()
    unit_is_valid()
    if os.geteuid() == 0 and os.path.exists("/sys/kernel/btf/vmlinux"):
        daemon_of_the_unit()
    else:
        print("the daemon was NOT run with the unit's privileges: this needs root and a kernel with BTF")
finally:
    shutil.rmtree(work)
print(f"{passed} passed, {failed} failed")
sys.exit(failed != 0)
