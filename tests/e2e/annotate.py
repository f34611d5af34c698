#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""zernel annotate: what programs say of themselves, by the verb and by the lines of Python that docs/WHY.md has; of
whom a user may speak; containers; and bytes that are no labels. Real processes, users, control groups and
namespaces."""
import os
import re
import shutil
import subprocess

import control_socket
from claims import at_work, job, job_of, live, place
from control_socket import answered
from harness import NOBODY, PATIENCE, ROOT, ZERNEL, Daemon, Process, check, equal, main, parse_json, run, test, \
    wait_until
from jobs import Group

STRANGER = 1000


def snippet():
    """The lines of Python that the documentation has, for the socket of this test, and with more patience: a loop that
    gets no processor for a moment is no daemon that does not answer."""
    with open(os.path.join(ROOT, "docs/WHY.md")) as file:
        code, = re.findall(r"```python\n(import socket\n.*?)```", file.read(), re.S)
    check("/run/zernel/control.sock" in code and "settimeout(0.1)" in code, code)
    return code.replace("/run/zernel/control.sock", place("run/control.sock")).replace(
        "settimeout(0.1)", f"settimeout({PATIENCE})")


def program():
    path = place("zernel")
    if not os.path.exists(path):
        shutil.copy(os.path.realpath(ZERNEL), path)
    return path


def annotate(*arguments, user=None, before=()):
    drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    return answered(lambda: run([*drop, *before, program(), "annotate", *arguments, "--control",
                                 place("run/control.sock")]))


def said(*arguments, **more):
    done = annotate(*arguments, **more)
    equal((done.returncode, done.stdout, done.stderr), (0, "", ""), f"zernel annotate {' '.join(arguments)}")


def refused(why, *arguments, status=1, **more):
    done = annotate(*arguments, **more)
    equal((done.returncode, done.stdout, done.stderr.count("\n")), (status, "", 1), f"{arguments}: {done.stderr!r}")
    check(done.stderr.startswith("zernel: annotate: ") and why in done.stderr, f"{arguments}: {done.stderr}")


def labels(daemon, name, key="labels"):
    found = [w for w in daemon.json("/why")["why"] if w["job_id"] == name]
    return [(label["key"], label["value"], label["pid"]) for label in found[0][key]] if found else None


def sleeper(user=None, before=()):
    drop = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
    return Process([*drop, *before, "sleep", "1000"])


@test
def a_training_says_where_it_is():
    daemon = live()
    actor = at_work(daemon, 5)
    job("start", "4711", "--pid", str(actor.pid), "uid=0")
    wait_until(lambda: job_of(daemon, actor.pid) == "4711", "the job of the process")
    actor.do("import subprocess")
    argv = [ZERNEL, "annotate", "epoch=3", "phase=train", "--control", place("run/control.sock")]
    done = answered(lambda: subprocess.CompletedProcess(argv, *actor.do(
        f"done = subprocess.run({argv!r}, text=True, capture_output=True)\n"
        "answer = done.returncode, done.stdout, done.stderr")))
    equal((done.returncode, done.stdout, done.stderr), (0, "", ""), "zernel annotate, called by the training")
    wait_until(lambda: labels(daemon, "4711") == [("epoch", "3", actor.pid), ("phase", "train", actor.pid)],
        "its labels")
    actor.do(snippet())
    equal(actor.do("answer = annotate(step=1200, phase='evaluation')"), "ok\n", "the answer to Python")
    equal(actor.do("answer = annotate(step='a,b')"), 'error: a label is KEY=VALUE, not: "b"\n', "the answer to a comma")
    want = [("epoch", "3", actor.pid), ("phase", "evaluation", actor.pid), ("step", "1200", actor.pid)]
    wait_until(lambda: labels(daemon, "4711") == want, "its labels")
    equal(labels(daemon, "4711", "label_changes"), [("epoch", "3", actor.pid), ("phase", "train", actor.pid),
          ("step", "1200", actor.pid), ("phase", "evaluation", actor.pid)], "changes")
    shown = daemon.json("/json")["why"][0]
    check([label["value"] for label in shown["labels"]] == ["3", "evaluation", "1200"]
        and "label_changes" not in shown, shown)
    text = subprocess.run([ZERNEL, "why", f"http://127.0.0.1:{daemon.port}"], text=True, capture_output=True,
        timeout=60).stdout
    check("  says of itself: epoch=3 phase=evaluation step=1200\n" in text, text)
    actor.end()
    daemon.gone(actor.pid)
    said("--id", "4711", "phase=", "note=after its process")
    job("end", "4711")
    report = wait_until(lambda: os.path.exists(place("reports/4711.json"))
        and parse_json(open(place("reports/4711.json")).read()), "the report")
    equal([(c["key"], c["value"]) for c in report["labels"]],
        [("epoch", "3"), ("step", "1200"), ("note", "after its process")], "its labels")
    equal([c["value"] for c in report["label_changes"]], ["3", "train", "1200", "evaluation", "", "after its process"],
        "its changes")
    check(re.search(r"What the job said of itself .*\n  after .* epoch=3 \(process [0-9]+\)\n", job("report", "4711")),
        job("report", "4711"))
    equal(daemon.metrics().lost(), {}, "losses")


@test
def no_job_and_no_daemon():
    """Labels of processes of no job end with them; without a daemon nothing is lost but the word."""
    daemon = live()
    actor = at_work(daemon, 5)
    actor.do(snippet())
    equal(actor.do("answer = annotate(phase='mine')"), "ok\n", "the answer")
    wait_until(lambda: labels(daemon, None) == [("phase", "mine", actor.pid)], "its label")
    short = sleeper()
    said("--pid", str(short.pid), "phase=short", "other=1")
    wait_until(lambda: len(labels(daemon, None)) == 2, "labels")
    short.kill()
    wait_until(lambda: labels(daemon, None) == [], "no label")
    daemon.end()
    equal(actor.do("answer = annotate(phase='alone')"), None, "no daemon, by Python")
    refused("no daemon at ", "phase=alone")


@test
def of_whom_a_user_may_speak():
    daemon = live()
    job("start", "4711", "uid=0")
    job("start", "4712", f"uid={STRANGER}")
    ours, his = sleeper(), sleeper(STRANGER)
    refused(f"process {ours.pid} is not of user {STRANGER}", "--pid", str(ours.pid), "a=1", user=STRANGER)
    refused(f"process {his.pid} is not of user {NOBODY}", "--pid", str(his.pid), "a=1", user=NOBODY)
    refused("no job 4711 of this user runs here", "--id", "4711", "a=1", user=STRANGER)
    refused("no job 4712 of this user runs here", "--id", "4712", "a=1", user=NOBODY)
    refused("no job 4713 of this user runs here", "--id", "4713", "a=1")
    refused("no process 4194303", "--pid", "4194303", "a=1")
    for arguments in (["--id", "4711", "by=root"], ["--id", "4712", "--pid", str(his.pid), "by=root"]):
        said(*arguments)
    said("--id", "4712", "--pid", str(his.pid), "by=owner", user=STRANGER)
    job("end", "4712")
    report = wait_until(lambda: os.path.exists(place("reports/4712.json"))
        and parse_json(open(place("reports/4712.json")).read()), "the report")
    equal([(c["key"], c["value"], c["pid"]) for c in report["label_changes"]],
        [("by", "root", his.pid), ("by", "owner", his.pid)], "its changes")
    refused("no job 4712 of this user runs here", "--id", "4712", "late=1", user=STRANGER)
    ours.kill()
    his.kill()
    equal(daemon.metrics().lost(), {}, "losses")


@test
def a_control_group_makes_nobody_anothers():
    """The name of a group is its maker's word: it counts for jobs of the user who speaks."""
    Daemon("--simulate", "--control", place("run/control.sock"), "--report-dir", place("reports"))
    group = Group("v2", f"/e2e{os.getpid()}_slurmstepd.scope/job_94711/step_0")
    job("start", "94711", "uid=0")
    his = sleeper(STRANGER)
    group.enter(his.pid)
    said("--pid", str(his.pid), "whose=his", user=STRANGER)
    equal(parse_json(job("report", "94711", "--json"))["labels"], [], "root's job")
    job("end", "94711")
    job("start", "94711", "restart=1", f"uid={STRANGER}")
    said("--pid", str(his.pid), "whose=his", user=STRANGER)
    equal([c["value"] for c in parse_json(job("report", "94711", "--restart", "1", "--json"))["labels"]], ["his"],
        "his job")
    his.kill()


@test
def in_a_container():
    """Without a number it is the one that the kernel names; a number from inside would be another process's."""
    Daemon("--simulate", "--control", place("run/control.sock"), "--report-dir", place("reports"))
    job("start", "94711", "uid=0")
    inside = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    refused("pid: who asks is in a PID namespace of its own", "--id", "94711", "--pid", "1", "a=1", before=inside)
    said("--id", "94711", "a=1", before=inside)
    label, = parse_json(job("report", "94711", "--json"))["labels"]
    check(label["value"] == "1" and label["pid"] > 1, label)


def ask(message):
    return control_socket.ask(place("run/control.sock"), message)


@test
def every_byte():
    """As a value, as a key, and where a message has its own bytes: one line says what is wrong, or the very byte comes
    out again."""
    daemon = Daemon("--simulate", "--control", place("run/control.sock"), "--report-dir", place("reports"))
    job("start", "94711", "uid=0")
    head = b"zernel 1 annotate\nid=94711\nlabels="
    for byte in range(256):
        byte = bytes([byte])
        fine = b" " <= byte <= b"~" and byte != b","
        answer = ask(head + b"v=<" + byte + b">\n")
        equal(answer == b"ok\n", fine, f"{byte}: {answer}")
        check(fine or (answer.startswith(b"error: ") and answer.count(b"\n") == 1
            and all(b" " <= bytes([c]) <= b"~" for c in answer[:-1])), answer)
        if fine:
            shown, = [c for c in parse_json(job("report", "94711", "--json"))["labels"] if c["key"] == "v"]
            equal(shown["value"], f"<{byte.decode()}>", "what is shown")
        answer = ask(head + b"k" + byte + b"=1\n")
        equal(answer == b"ok\n", bool(re.fullmatch(rb"[A-Za-z0-9_.=-]", byte)), f"a key with {byte}: {answer}")
        if answer == b"ok\n":
            equal(ask(head + (b"k" + byte).split(b"=")[0] + b"=\n"), b"ok\n", "taken away")
        ask(b"zernel 1 annotate\n" + byte + b"=" + byte + b"\nlabels=a" + byte)
    equal(ask(b"zernel 1 annotate\nid=94711\n"), b"error: no labels\n", "no labels")
    equal(ask(b"zernel 1 annotate\nlabels=a=1\nlabels=b=1\n"), b"error: labels: it is there twice\n", "twice")
    equal(ask(head + b"a=" + b"x" * 250 + b"\n"), b'error: the value of a label is longer than 63 bytes: "a"\n',
        "a long value")
    equal(ask(head + b"a=" + b"x" * 255 + b"\n"), b"error: labels: longer than 256 bytes\n", "a long line")
    equal(daemon.metrics().lost(), {}, "losses")


@test
def wrong_arguments():
    Daemon("--simulate", "--control", place("run/control.sock"), "--report-dir", "none")
    for why, arguments in (("a label must follow", []), ("no KEY=VALUE: 'step'", ["step"]),
                           ("unknown option '--step'", ["--step", "1"]),
                           ("a label has no comma: 'a=1,b=2'", ["a=1,b=2"]),
                           ("a value must follow '--pid'", ["a=1", "--pid"]),
                           ("pid must be a number", ["--pid", "x", "a=1"]),
                           ("a second value of 'pid'", ["--pid=1", "--pid=2", "a=1"]),
                           ("longer than 256 bytes", [f"k{i}=" + "x" * 60 for i in range(5)]),
                           ("a byte that is not printable ASCII", ["a=\u00e4"]),
                           ("id must be", ["--id", "1_2", "a=1"])):
        before = arguments.index("--pid") + 1 if arguments[-1:] == ["--pid"] else None
        done = subprocess.run([program(), "annotate", *arguments,
            *([] if before else ["--control", place("run/control.sock")])],
                              text=True, capture_output=True, timeout=60)
        equal((done.returncode, done.stderr.count("\n")), (2, 1), f"{arguments}: {done.stderr}")
        check(why in done.stderr, f"{arguments}: {done.stderr}")
    refused("a label is there twice", "a=1", "a=2")
    done = subprocess.run([program(), "annotate", "--help"], text=True, capture_output=True, timeout=60)
    check(done.returncode == 0 and done.stdout.startswith("usage: zernel annotate KEY=VALUE"), done.stdout)


if __name__ == "__main__":
    main()
