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


def families(answer):
    return {p["state"] for p in answer["probes"]}


def start_job(control):
    """As Slurm's prolog does; it waits for a moment, and then leaves its message as a file."""
    env = {"ZERNEL_CONTROL": control, "ZERNEL_CONFIG": "/dev/null", "SLURM_JOB_ID": "4711", "SLURM_JOB_UID": "0"}
    equal(run([ZERNEL, "job", "start", "--slurm"], env=env).returncode, 0, "the prolog of a job")


def join(daemon):
    s = socket.create_connection(("127.0.0.1", daemon.ws_port), timeout=PATIENCE)
    return Frames(s, handshake(s))


@test
def clients_come_while_probes_are_loaded():
    control = os.path.join(folder(), "run/control.sock")
    daemon = Loading("--control", control, "--push-interval-ms", "100")
    status, health = daemon.health()
    check(not daemon.is_loaded(), "it is still loading")
    equal((status, health["status"], health["source"]), (503, "loading", "live"), "health")
    equal(families(health), {"loading"}, "families")
    frames = join(daemon)
    said = run([ZERNEL, "health", f"http://127.0.0.1:{daemon.port}"])
    equal((said.returncode, said.stdout), (2, "ERROR: zernel: the daemon has just started\n"), "its health check")
    start_job(control)
    daemon.process.send_signal(signal.SIGHUP)
    equal(families(parse_json(frames.message())), {"loading"}, "families in the first snapshot")
    metrics = daemon.metrics()
    for name in "zernel_probe_attached", "zernel_oom_kills_total", "zernel_io_requests_total", "zernel_ghost_processes":
        equal(metrics.all(name), {}, f"{name} while it is loading")
    check(not daemon.is_loaded(), "that all came while it was loading")
    wait_until(lambda: daemon.health()[0] == 200, "health once it is loaded")
    wait_until(lambda: [j["job_id"] for j in daemon.json("/jobs")["jobs"]] == ["4711"], "the job")
    check("loading" not in families(daemon.health()[1]), "families once it is loaded")
    wait_until(lambda: "loading" not in families(parse_json(frames.message())), "a snapshot with probes")
    check(daemon.metrics().all("zernel_probe_attached"), "places of probes")
    equal(sum("SIGHUP: no token file" in line for line in daemon.lines()), 1, "SIGHUP in the log")


@test
def a_daemon_is_stopped_while_probes_are_loaded():
    daemon = Loading()
    equal(daemon.health()[1]["status"], "loading", "health")
    daemon.process.send_signal(signal.SIGTERM)
    equal(daemon.process.wait(PATIENCE), 0, "its exit status")
    check(not daemon.is_loaded(), "it never was ready")


if __name__ == "__main__":
    main()
