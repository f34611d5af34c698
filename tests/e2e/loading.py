#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The first second of a live daemon: it answers while its programs are loaded by another thread, and tells nothing that
it does not know yet."""
import os
import re
import signal
import socket

from clients import Frames, handshake
from harness import PATIENCE, ZERNEL, Daemon, check, equal, folder, main, parse_json, run, test, wait_until


class Loading(Daemon):
    """One whose clients come as soon as it listens."""

    def ready(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the daemon ended: {self.lines()}")
        return re.search(r"serving: listening on .*, ports (\d+) and (\d+); probes", "\n".join(self.lines()))

    def is_loaded(self):
        return any("ready: live data" in line for line in self.lines())


TRIES = 20


def before_loaded(see, name):
    """A daemon that was still loading at the end of see(daemon, control), and what that saw. It loads for most of a
    second: clients that get no processor in it come too late, and try with another daemon."""
    for n in range(TRIES):
        control = os.path.join(folder(), f"run{n}/control.sock")
        daemon = Loading("--control", control, "--push-interval-ms", "100")
        seen = see(daemon, control)
        if not daemon.is_loaded():
            return daemon, seen
        daemon.end()
    raise AssertionError(f"{TRIES} times, {name} came only once it was loaded")


def families(answer):
    return {p["state"] for p in answer["probes"]}


def start_job(control):
    """As Slurm's prolog does; it waits for a moment, and then leaves its message as a file."""
    env = {"ZERNEL_CONTROL": control, "ZERNEL_CONFIG": "/dev/null", "SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "0"}
    equal(run([ZERNEL, "job", "start", "--slurm"], env=env).returncode, 0, "the prolog of a job")


def join(daemon):
    s = socket.create_connection(("127.0.0.1", daemon.ws_port), timeout=PATIENCE)
    return Frames(s, handshake(s))


def see_it_load(daemon, control):
    """All that clients of each kind see."""
    status, health = daemon.health()
    frames = join(daemon)
    checked = run([ZERNEL, "health", f"http://127.0.0.1:{daemon.port}"])
    start_job(control)
    daemon.process.send_signal(signal.SIGHUP)
    return status, health, frames, checked, parse_json(frames.message()), daemon.metrics()


@test
def clients_come_while_probes_are_loaded():
    daemon, (status, health, frames, checked, snapshot, metrics) = before_loaded(see_it_load, "what clients see")
    equal((status, health["status"], health["source"]), (503, "loading", "live"), "health")
    equal(families(health), {"loading"}, "families")
    equal((checked.returncode, checked.stdout), (2, "ERROR: zernel: the daemon has just started\n"), "its health check")
    equal(families(snapshot), {"loading"}, "families in the first snapshot")
    for name in "zernel_probe_attached", "zernel_oom_kills_total", "zernel_io_requests_total", "zernel_ghost_processes":
        equal(metrics.all(name), {}, f"{name} while it is loading")
    wait_until(lambda: daemon.health()[0] == 200, "health once it is loaded")
    wait_until(lambda: [j["job_id"] for j in daemon.json("/jobs")["jobs"]] == ["4711"], "the job")
    check("loading" not in families(daemon.health()[1]), "families once it is loaded")
    wait_until(lambda: "loading" not in families(parse_json(frames.message())), "a snapshot with probes")
    check(daemon.metrics().all("zernel_probe_attached"), "places of probes")
    equal(sum("SIGHUP: no token file" in line for line in daemon.lines()), 1, "SIGHUP in the log")


def see_it_stop(daemon, _):
    health = daemon.health()[1]
    daemon.process.send_signal(signal.SIGTERM)
    equal(daemon.process.wait(PATIENCE), 0, "its exit status")
    return health


@test
def a_daemon_is_stopped_while_probes_are_loaded():
    """It never was ready."""
    _, health = before_loaded(see_it_stop, "its end")
    equal(health["status"], "loading", "health")


if __name__ == "__main__":
    main()
