#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Processes and libraries whose names are chosen to break whoever prints or parses them, alive while everything that
the daemon says is read by strict readers.
"""
import os
import re
import subprocess
import sys
import threading

from clients import read_snapshots
from harness import (CUDA, DRIVER, HERE, ZERNEL, Actor, Daemon, Driver, check, copy_of, equal, main, run, test,
    wait_until)
from readers import Readers, read_by_all, soak

LAUNCHES = "zernel_cuda_launches_total"
NAMES = [
    b"",
    b" ",
    b'"quo\\ted"',
    b"new\nline\r\t",
    b"\n# EOF\n",
    b'x"} 1\nzernel_x',
    b'\\',
    b")( 1 2 3",
    b"S R 1 2 3) S 1",
    b") R 1 1 1 0 -1",
    b"\xff\xfe\x80\xc0",
    b"\xc3(\xe2\x82\xf0\x9f\x98",
    b"\xed\xa0\x80\xf4\x90\x80\x80\xc0\xaf",
    b"\x01\x1b[31m\x07\x7f\x9b2J",
    b"\xe2\x80\xae\xe2\x80\xa8\xc2\x85",  # turns the text round, ends lines
    b"</script><!--",
    b"%s%n%99999999d",
    "é".encode() * 7 + b"\xc3",  # cut inside a character
    b"0123456789abcdef",
]
FOLDERS = [b"new\nline", b'quo"te\\', b"\xff\xfe", b"a b (deleted)", b"\x1b[31m", b"\\012", b"x\r\n7f0000-7f0001 r-xp"]


def named(names):
    """Actors with these names; each one has launched 3 times once its library is hooked."""
    actors = [Actor(("cuda", CUDA)) for _ in names]
    for actor, name in zip(actors, names):
        actor.do(f"import ctypes; ok(CDLL(None).prctl(15, ctypes.c_char_p({name!r})))")
    return actors


def busy(actor):
    actor.do("ready(cuda); alloc(cuda, 4096); launch(cuda, 3)")


def hostile_node():
    daemon, actors = Daemon(), named(NAMES)
    daemon.attached(CUDA)
    for actor in actors:
        busy(actor)
    wait_until(lambda: len(daemon.json()["gpu_utilization"]) == len(NAMES), "all processes")
    return daemon, actors


def squeezed(text):
    """How many U+FFFD stand for a cut character is nobody's business."""
    return re.sub("\ufffd+", "\ufffd", text)


def shown_of(name):
    """As the kernel keeps it, with U+FFFD for what is not UTF-8."""
    return squeezed(name[:15].decode(errors="replace"))


def names_in(snapshot):
    return {p["pid"]: squeezed(p["comm"]) for p in snapshot["processes"]}


@test
def names_spoil_no_json():
    daemon, actors = hostile_node()
    wanted = {actor.pid: shown_of(name) for actor, name in zip(actors, NAMES)}
    readers = Readers()
    for route in ("/json", "/alerts", "/health", "/history"):
        readers.feed(daemon.get(route))
    for port, path in ((daemon.ws_port, "/"), (daemon.port, "/ws")):
        for _, snapshot in read_snapshots(port, path, 2, readers.feed):
            equal(names_in(snapshot), wanted, "names over the WebSocket")
    equal(names_in(daemon.json()), wanted, "names")
    readers.agree()


@test
def names_spoil_no_metrics():
    daemon, actors = hostile_node()
    series = read_by_all(daemon)
    got = {int(dict(labels)["pid"]): value for (name, labels), value in series.items() if name == LAUNCHES and value}
    equal(got, {actor.pid: 3 for actor in actors}, "launches")


def plain_text(text):
    """No control character but the ends of lines, and none of Unicode that turns, hides or breaks text."""
    bad = re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]", text)
    equal(bad, [], f"what a terminal could act upon, in {text!r}")


@test
def names_reach_no_terminal():
    daemon, actors = hostile_node()
    url = f"http://127.0.0.1:{daemon.port}"
    for width in ("60", "200"):
        got = run([ZERNEL, "watch", url, "--once"], env={**os.environ, "COLUMNS": width, "LINES": "60"})
        equal(got.returncode, 0, got.stderr)
        plain_text(got.stdout)
        for actor in actors:
            lines = [s for s in got.stdout.splitlines() if re.match(rf"\s*{actor.pid}\b", s)]
            equal(len(lines), 1, f"lines of process {actor.pid} in {got.stdout}")
    got = run([ZERNEL, "status", url])
    equal(got.returncode, 0, got.stderr)
    plain_text(got.stdout)


def run_driver_named(name):
    """The driver as a program of this name, so that exec() and not prctl() sets it."""
    program = copy_of(DRIVER, name)
    os.chmod(program, 0o755)
    return Driver("launches", program=program)


@test
def programs_with_such_names_are_counted():
    daemon = Daemon()
    names = [n for n in NAMES if n.strip(b" ") and b"/" not in n] + [b" ("]
    drivers = [run_driver_named(os.fsdecode(name)) for name in names]
    daemon.attached(CUDA)
    for name, driver in zip(names, drivers):
        report = driver.start()
        got = {dict(k)["kind"]: v for k, v in daemon.metrics().all(LAUNCHES, pid=str(driver.pid)).items()}
        equal(got, report["launches"], f"launches of {name!r}")
        equal(names_in(daemon.json())[driver.pid], shown_of(name), "its name")
    equal(daemon.metrics().lost(), {}, "what was lost")
    for driver in drivers:
        driver.end()
    daemon.gone(*(driver.pid for driver in drivers))


@test
def folders_with_such_names_are_hooked():
    daemon = Daemon()
    paths = [copy_of(CUDA, os.path.join(os.fsdecode(name), "libcuda.so.1")) for name in FOLDERS]
    actors = [Actor(("cuda", path)) for path in paths]
    daemon.attached(*paths)
    for actor in actors:
        busy(actor)
    metrics = daemon.metrics()
    for actor, name in zip(actors, FOLDERS):
        equal(metrics.one(LAUNCHES, pid=str(actor.pid), kind="kernel"), 3, f"launches with the library in {name!r}")
    read_by_all(daemon)
    readers = Readers()
    snapshot = readers.feed(daemon.get("/json"))
    libraries = {library["path"] for probe in snapshot["probes"] for library in probe["libraries"]}
    labels = {dict(k)["library"] for k in metrics.all("zernel_probe_attached", symbol="cuInit")}
    check(len(libraries) >= len(paths), f"a path each: {libraries}")
    check(all(any(label.startswith(path) for path in libraries) for label in labels),
          f"paths are the same in both forms: {labels} {libraries}")
    readers.agree()
    for verb in (["watch", "--once"], ["status"]):
        got = run([ZERNEL, verb[0], f"http://127.0.0.1:{daemon.port}", *verb[1:]])
        equal(got.returncode, 0, got.stderr)
        plain_text(got.stdout)
    log = "\n".join(daemon.lines())
    plain_text(log)
    for actor in actors:
        actor.end()
    for path in paths:
        daemon.detached(path)


class Coming(threading.Thread):
    """Processes of all these names that come, call, and go, until it is told to stop."""

    def __init__(self):
        super().__init__()
        self.stopped, self.rounds = threading.Event(), 0
        self.start()

    def run(self):
        while not self.stopped.is_set():
            script = f"import sys; sys.path.insert(0, {HERE!r}); import actor\nfrom ctypes import *\n" \
                     f"name = {NAMES[self.rounds % len(NAMES)]!r}; CDLL(None).prctl(15, c_char_p(name))\n" \
                     f"cuda = CDLL({CUDA!r}); actor.ready(cuda); actor.alloc(cuda, 1 << 20); actor.launch(cuda, 101)"
            subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
            self.rounds += 1

    def stop(self):
        self.stopped.set()
        self.join()


@test
def a_soak_of_processes_that_come_and_go():
    daemon, actors = Daemon("--push-interval-ms", "100"), named(NAMES[:5])
    daemon.attached(CUDA)
    for actor in actors:
        busy(actor)
    coming = [Coming(), Coming()]
    try:
        soak([daemon], 15)
        wait_until(lambda: min(thread.rounds for thread in coming) > 3, "processes that came and went")
    finally:
        for thread in coming:
            thread.stop()


if __name__ == "__main__":
    main()
