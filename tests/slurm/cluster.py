# SPDX-License-Identifier: GPL-2.0
"""A Slurm of one node for the tests: munged, slurmdbd with its MariaDB, slurmctld and slurmd from Debian's packages, as
root, with everything they write in one temporary folder (the database's socket is in /run) and on ports of their own.
Prolog and epilog are those of contrib/slurm. The node has eight processors and four GPUs, which Slurm believes without
looking; processes are in control groups of version 1.
"""
import contextlib
import os
import re
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from harness import free_port

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CONTRIB = os.path.join(ROOT, "contrib", "slurm")
NODE = "zntest"
HIERARCHIES = ("freezer", "memory", "cpuacct")
PATIENCE = 60
SBIN = "/usr/sbin"

SLURM_CONF = """\
ClusterName=zntest
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
# a job that is queued again waits until the credential of its first run is no longer good: 120 s, and 5 at least
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CryptoType=crypto/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ReturnToService=2
FirstJobId={first_job}
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/cgroup
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={accounting_port}
AccountingStoragePass={folder}/munge/socket
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=1
MpiDefault=none
KillWait=2
MessageTimeout=100
BatchStartTimeout=300
GresTypes=gpu
PrologFlags=Alloc,Contain
Prolog={folder}/prolog.d/*
Epilog={folder}/epilog.d/*
TaskProlog={folder}/taskprolog.sh
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs=8 RealMemory=1000 Gres=gpu:4
PartitionName=short Nodes={node} Default=YES MaxTime=5 State=UP
"""
SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={accounting_port}
SlurmUser=root
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
"""
CGROUP_CONF = """\
CgroupPlugin=cgroup/v1
CgroupMountpoint=/sys/fs/cgroup
CgroupAutomount=no
ConstrainRAMSpace=yes
"""


def as_user(name):
    return ("setpriv", f"--reuid={name}", f"--regid={name}", "--clear-groups") if name else ()


def until(probe, what, patience=PATIENCE):
    end = time.monotonic() + patience
    while True:
        got = probe()
        if got:
            return got
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience} s: {what}")
        time.sleep(0.05)


class Cluster:
    """Up when it is made; close() takes it down. first_job: the id of its first job."""

    def __init__(self, zernel, first_job=4711):
        self.daemons = []
        self.folder = tempfile.mkdtemp(prefix="zernel-slurm-")
        os.chmod(self.folder, 0o755)
        self.env = {"PATH": "/usr/bin:/bin", "SLURM_CONF": f"{self.folder}/slurm.conf", "LANG": "C"}
        try:
            self.start_munge()
            self.configure(zernel, first_job)
            self.start_accounting()
            self.start_slurm()
        except BaseException:
            self.close()
            raise

    # what the folder has

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def install(self, name, zernel):
        """A script of contrib/slurm as an administrator installs it: with the path of the program set."""
        with open(os.path.join(CONTRIB, name)) as file:
            text = file.read()
        text, places = re.subn(r"(?<=zernel=)/usr/\S*bin/zernel\n", f"{zernel}\n", text)
        assert places, f"{name}: no line that says where the program is"
        self.write(name, text, 0o755)

    def configure(self, zernel, first_job):
        for name in ("prolog.d/50-zernel.sh", "epilog.d/50-zernel.sh", "taskprolog.sh"):
            self.install(name, zernel)
        for name in ("state", "spool", "dev"):
            os.mkdir(f"{self.folder}/{name}")
        for gpu in range(4):
            os.mknod(f"{self.folder}/dev/nvidia{gpu}", 0o20666, os.makedev(195, gpu))
        values = {"folder": self.folder, "host": socket.gethostname(), "node": NODE, "first_job": first_job,
                  "controller_port": free_port(), "node_port": free_port(), "accounting_port": free_port()}
        self.write("slurm.conf", SLURM_CONF.format(**values))
        self.write("slurmdbd.conf", SLURMDBD_CONF.format(**values), 0o600)
        self.write("gres.conf", f"NodeName={NODE} Name=gpu File={self.folder}/dev/nvidia[0-3]\n")
        self.write("cgroup.conf", CGROUP_CONF)

    # daemons

    def start_munge(self):
        """munged refuses keys and folders that are not its own user's."""
        user = pwd.getpwnam("munge")
        folder = f"{self.folder}/munge"
        os.mkdir(folder, 0o755)
        with open(f"{folder}/key", "wb") as key:
            key.write(os.urandom(128))
        os.chmod(f"{folder}/key", 0o400)
        for path in (folder, f"{folder}/key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        files = [f"--{what}={folder}/{name}" for what, name in (
            ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]
        self.start(f"{SBIN}/munged", "--foreground", *files, before=as_user("munge"))
        until(lambda: os.path.exists(f"{folder}/socket"), "munged")

    def start_accounting(self):
        """The database's socket is where its client looks for one: this /run is the tests' own."""
        data, place = f"{self.folder}/database", "/run/mysqld/mysqld.sock"
        os.makedirs(os.path.dirname(place), exist_ok=True)
        subprocess.run(["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--user=root", "--skip-test-db",
                        "--auth-root-authentication-method=socket"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        self.start(f"{SBIN}/mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={place}",
                   f"--pid-file={self.folder}/mariadbd.pid", "--skip-networking", "--innodb-log-file-size=8M")
        until(lambda: os.path.exists(place), "MariaDB")
        self.start(f"{SBIN}/slurmdbd", "-D")
        until(self.has_accounting, "slurmdbd")

    def has_accounting(self):
        with contextlib.suppress(AssertionError):
            return "zntest" in self.say("sacctmgr", "-n", "list", "cluster", "format=cluster") or not self.say(
                "sacctmgr", "-i", "add", "cluster", "zntest").startswith("error")

    def start_slurm(self):
        self.start(f"{SBIN}/slurmctld", "-D")
        self.start(f"{SBIN}/slurmd", "-D", "-N", NODE)
        until(lambda: self.node_state() == "idle", "an idle node")

    def start(self, *argv, before=()):
        argv = [*before, *argv]
        with open(f"{self.folder}/{os.path.basename(argv[len(before)])}.err", "w") as log:
            self.daemons.append(subprocess.Popen(argv, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    def close(self):
        if self.daemons and os.path.exists(self.env["SLURM_CONF"]):
            with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
                self.say("scancel", f"--nodelist={NODE}")
                until(lambda: not self.say("squeue", "-h"), "no job", 15)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self.remove_groups()
        if not os.environ.get("KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def remove_groups(self):
        for hierarchy in HIERARCHIES:
            top = f"/sys/fs/cgroup/{hierarchy}/slurm_{NODE}"
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)

    # commands

    def say(self, *argv, user=None):
        """What a command of Slurm prints; user: who asks."""
        done = subprocess.run([*as_user(user), *argv], env=self.env, cwd=self.folder, text=True, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr or done.stdout}"
        return done.stdout.strip()

    def node_state(self):
        with contextlib.suppress(AssertionError):
            return self.say("sinfo", "-h", "-o", "%T")

    def log(self):
        with open(f"{self.folder}/slurmd.log") as file:
            return file.read()

    def batch(self, script, *options, user=None):
        """Submits a job: its id. What it prints is in output(id)."""
        where = f"{self.folder}/out"
        os.makedirs(where, exist_ok=True)
        os.chmod(where, 0o1777)
        path = self.write("jobs/script", "#!/bin/sh\n" + script, 0o755)
        return self.say("sbatch", "--parsable", "-o", f"{where}/%j", *options, path, user=user)

    def output(self, job):
        with open(f"{self.folder}/out/{job}") as file:
            return file.read()

    def state(self, job):
        """PENDING, RUNNING, COMPLETED ...; of an array: all of them."""
        return self.say("squeue", "-h", "-r", "-t", "all", "-j", str(job), "-o", "%T").split()

    def end(self, job):
        """Ends a job if it has not ended; returns when the node has nothing of it."""
        with contextlib.suppress(AssertionError):
            self.say("scancel", str(job))
        self.wait(job, "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT")

    def wait(self, job, *states):
        until(lambda: (got := set(self.state(job))) and got <= set(states), f"job {job} in state {' or '.join(states)}")
