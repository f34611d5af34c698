#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Jobs of a real Slurm with our prolog and epilog, watched by a live daemon: each report must say what the job's
programs say they did. Runs all tests, or those whose name has the word that is given.

Everything runs in a mount namespace of its own with a /run of its own, so that the paths of the daemon and of its
client are the default ones and a daemon of this machine is left alone. Needs root and Slurm's packages.
"""
import ctypes
import importlib
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "e2e")]
PR_SET_CHILD_SUBREAPER = 36


def children():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def reap_until(pid):
    """The exit status of a child. Others, such as slurmstepd's that were left to init, are taken as they end."""
    while True:
        one, status = os.wait()
        if one == pid:
            return os.waitstatus_to_exitcode(status)


def end_the_rest():
    while children():
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        os.wait()


def outside():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    argv = [sys.executable, os.path.abspath(__file__), "--inside", *sys.argv[1:]]
    inner = subprocess.Popen(["unshare", "--mount", "--propagation", "private", *argv])
    status = reap_until(inner.pid)
    end_the_rest()
    sys.exit(1 if status else 0)


def inside():
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "run", "/run"], check=True)
    sys.argv.remove("--inside")
    jobs = importlib.import_module("jobs")
    with jobs.slurm():
        status = jobs.run_tests(sys.argv[1] if len(sys.argv) > 1 else "")
    sys.exit(status)


if __name__ == "__main__":
    inside() if "--inside" in sys.argv else outside()
