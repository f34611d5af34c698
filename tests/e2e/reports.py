#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Reports of a running daemon as files: whole or not there, whoever is killed and when; and a folder that cannot be
written. Jobs are told of over the control socket; the daemon simulates."""
import ctypes
import os
import signal
from subprocess import run

import control_socket
from harness import (ZERNELD, Absent, Daemon, check, equal, folder, main, need, parse_json, state_of,
                     test_simulated, wait_until)

HEAD = "zernel 1 "
JOBS, LAST = 101, 11


def place(name):
    return os.path.join(folder(), name)


def simulated(*options, **more):
    return Daemon("--simulate", "--control", place("control.sock"), "--report-dir", place("reports"), *options, **more)


def ask(message):
    return (control_socket.ask(place("control.sock"), message.encode()) or b"").decode()


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
    return state_of(pid) == "Z"


def run_jobs(count=JOBS, first=80000):
    """Of which only a prolog and an epilog tell. Their names."""
    names = []
    for job in range(first, first + count):
        for verb in ("start", "end"):
            check(ask(f"{HEAD}{verb}\nid={job}\nuid=0\n").startswith("ok"), f"{verb} of job {job}")
        names.append(f"{job}.json")
    return names


def all_whole(names, where=None):
    where = where or place("reports")
    wait_until(lambda: set(names) <= set(os.listdir(where)), f"all reports in {where}")
    for name in names:
        with open(os.path.join(where, name)) as file:
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
    """Those of the last moment: the end waits 5 s for a disk that is slow."""
    daemon = simulated()
    names = run_jobs(JOBS - LAST)
    all_whole(names)
    names += run_jobs(LAST, first=90000)
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


def with_mounts(reports, *options, mount="true", **more):
    """A daemon that sees mounts of its own, the first of which is there at its start."""
    argv = [need("unshare"), "--mount", "--propagation", "private", "sh", "-c", f'{mount} && exec "$@"', "sh", ZERNELD]
    os.makedirs(reports, exist_ok=True)
    return simulated("--report-dir", reports, *options, argv=argv, **more)


def mount_for(daemon, *command):
    run([need("nsenter"), "--target", str(daemon.pid), "--mount", *command], check=True)


def seen_by(daemon, path):
    return f"/proc/{daemon.pid}/root{path}"


def said(daemon, what):
    return sum(what in line for line in daemon.lines())


def lost_reports(daemon):
    return daemon.metrics().one("zernel_lost_total", what="report")


DISK = "mount -t tmpfs -o size=4m,mode=750"


@test_simulated
def a_disk_that_is_read_only_at_the_start():
    path = place("reports")
    daemon = with_mounts(path, mount=f"{DISK},ro zernel {path}", expect=[
        "writer: cannot write to .*/reports: Read-only file system; each file is tried, and lost and counted until it",
        "writer: cannot write .*/reports/80000.json: Read-only file system; such files are lost, and counted"])
    run_jobs(7)
    wait_until(lambda: lost_reports(daemon) == 7, "seven reports that are lost")
    mount_for(daemon, "mount", "-o", "remount,rw", path)
    all_whole(run_jobs(11, first=90000), seen_by(daemon, path))
    equal((lost_reports(daemon), said(daemon, f"files are written to {path} from here on")), (7, 1), "lost, and said")


# Where the writer may go beside the folder of the reports of the start: Landlock's rule is of all that is below.
BELOW_RECORDS = "jobs.d/reports"
NO_RECORD = "spool: reports: not a file of ours"


@test_simulated
def a_disk_that_is_mounted_later():
    path = place(BELOW_RECORDS)
    daemon = with_mounts(path, expect=[NO_RECORD])
    all_whole(run_jobs(3), path)
    mount_for(daemon, *DISK.split(), "zernel", path)
    names = run_jobs(11, first=90000)
    all_whole(names, seen_by(daemon, path))
    equal(set(os.listdir(path)) & set(names), set(), "reports that nobody finds")
    equal((lost_reports(daemon), said(daemon, f"writer: {path} is another folder than before")), (0, 1), "lost, and said")


@test_simulated
def a_folder_that_is_moved_away_and_made_anew():
    path = place(BELOW_RECORDS)
    daemon = simulated("--report-dir", path, expect=[NO_RECORD])
    all_whole(run_jobs(3), path)
    os.rename(path, place("old"))
    os.mkdir(path, 0o750)
    names = run_jobs(11, first=90000)
    all_whole(names, path)
    equal((sorted(os.listdir(path)), said(daemon, "is another folder than before")), (names, 1), "files, and what is said")


def landlock():
    """Whether this kernel has it, and it is switched on."""
    create_ruleset, version = 444, 1
    return ctypes.CDLL(None).syscall(create_ruleset, None, 0, version) > 0


@test_simulated
def a_disk_that_is_mounted_where_the_writer_may_not_go():
    if not landlock():
        raise Absent("no Landlock")
    path = place("reports")
    daemon = with_mounts(path, expect=["writer: .*/reports is another folder than before, mounted over or replaced, and "
                                       "cannot be written to: Permission denied; until that works or zerneld is restarted"])
    all_whole(run_jobs(3), path)
    mount_for(daemon, *DISK.split(), "zernel", path)
    all_whole(run_jobs(11, first=90000), path)
    equal(os.listdir(seen_by(daemon, path)), [], "files on the disk")
    equal((lost_reports(daemon), said(daemon, "is another folder than before")), (0, 1), "lost, and said")
    mount_for(daemon, "umount", path)
    all_whole(run_jobs(2, first=91000), path)
    mount_for(daemon, *DISK.split(), "zernel", path)
    all_whole(run_jobs(2, first=92000), path)
    equal(said(daemon, "is another folder than before"), 2, "a line for each change")


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
