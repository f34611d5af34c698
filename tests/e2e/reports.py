#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Reports of a running daemon as files: whole or not there, whoever is killed and when; and a folder that cannot be
written. Jobs are told of over the control socket; the daemon simulates."""
import os
import signal
import socket

from harness import PATIENCE, ZERNELD, Daemon, check, equal, folder, main, parse_json, test_simulated, wait_until

HEAD = "zernel 1 "
JOBS = 101


def place(name):
    return os.path.join(folder(), name)


def simulated(*options, **more):
    return Daemon("--simulate", "--control", place("control.sock"), "--report-dir", place("reports"), *options, **more)


def ask(message):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(place("control.sock"))
        connection.send(message.encode())
        return connection.recv(1 << 18).decode()


def reports():
    return os.listdir(place("reports"))


def writer_of(daemon):
    """Its process."""
    with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children") as file:
        pids = file.read().split()
    equal(len(pids), 1, "children of the daemon")
    with open(f"/proc/{pids[0]}/comm") as file:
        equal(file.read(), "zerneld: writer\n", "its name")
    return int(pids[0])


def gone(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def run_jobs(count=JOBS):
    """Of which only a prolog and an epilog tell. Their names."""
    names = []
    for job in range(80000, 80000 + count):
        for verb in ("start", "end"):
            check(ask(f"{HEAD}{verb}\nid={job}\nuid=0\n").startswith("ok"), f"{verb} of job {job}")
        names.append(f"{job}.json")
    return names


def all_whole(names):
    wait_until(lambda: set(names) <= set(reports()), "all reports")
    for name in names:
        with open(place(f"reports/{name}")) as file:
            got = parse_json(file.read())
        equal((got["job_id"] + ".json", got["state"], got["report"]), (name, "ended", 1), name)


@test_simulated
def each_job_leaves_one_report():
    daemon = simulated()
    names = run_jobs()
    all_whole(names)
    equal(daemon.metrics().one("zernel_lost_total", what="report"), 0, "reports lost")
    writer = writer_of(daemon)
    daemon.end()
    wait_until(lambda: gone(writer), "the end of the process that writes")
    equal([n for n in reports() if n.startswith(".")], [], "nothing half written")


@test_simulated
def a_daemon_that_is_killed_loses_no_report():
    daemon = simulated()
    writer = writer_of(daemon)
    names = run_jobs()
    daemon.kill()
    all_whole(names)
    wait_until(lambda: gone(writer), "the end of the process that writes")


@test_simulated
def a_daemon_that_ends_loses_no_report():
    daemon = simulated()
    names = run_jobs()
    daemon.end()
    equal(set(names) <= set(reports()), True, "all reports are there when it has ended")
    all_whole(names)


@test_simulated
def what_writes_is_killed():
    daemon = simulated(expect=["writer: killed by signal 9; reports and records of jobs are lost"])
    run_jobs(3)
    writer = writer_of(daemon)
    os.kill(writer, signal.SIGKILL)
    wait_until(lambda: gone(writer), "its end")
    run_jobs(7)
    check(daemon.metrics().one("zernel_lost_total", what="report") >= 7, "lost reports are counted")
    equal(daemon.json("/health")["status"], "ok", "the daemon goes on")


@test_simulated
def signals_of_a_terminal_do_not_stop_it():
    daemon = simulated()
    writer = writer_of(daemon)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(writer, number)
    all_whole(run_jobs(11))
    check(not gone(writer), "it goes on")


@test_simulated
def standard_descriptors_that_are_closed():
    daemon = simulated(argv=["sh", "-c", 'exec "$@" <&- >&-', "sh", ZERNELD])
    for pid in (daemon.pid, writer_of(daemon)):
        equal([os.readlink(f"/proc/{pid}/fd/{fd}") for fd in (0, 1)], ["/dev/null"] * 2, "standard input and output")
    all_whole(run_jobs(11))
    equal(daemon.metrics().one("zernel_lost_total", what="report"), 0, "reports lost")


@test_simulated
def a_folder_that_cannot_be_made():
    with open(place("file"), "w"):
        pass
    daemon = simulated("--report-dir", place("file/reports"),
                       expect=["writer: cannot write to .*/file/reports: Not a directory; nothing is kept there"])
    run_jobs(5)
    equal(daemon.metrics().one("zernel_lost_total", what="report"), 5, "reports lost")
    answer = ask(f"{HEAD}report\nid=80004\njson=1\n")
    equal(parse_json(answer.partition("\n")[2])["job_id"], "80004", "a report while the job is shown")


@test_simulated
def a_folder_that_others_may_write_to():
    os.mkdir(place("reports"))
    os.chmod(place("reports"), 0o777)
    simulated(expect=["writer: .*/reports can be written to by others"])
    all_whole(run_jobs(2))


@test_simulated
def the_daemon_itself_holds_no_file_open_to_write():
    daemon = simulated()
    run_jobs(2)
    for fd, path, said in daemon.descriptors():
        flags = int(next(s for s in said.splitlines() if s.startswith("flags:")).split()[1], 8)
        check(flags & os.O_ACCMODE == os.O_RDONLY or not path.startswith("/") or fd <= 2, f"{path} is open to write")


if __name__ == "__main__":
    main()
