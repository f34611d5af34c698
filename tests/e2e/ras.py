#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""NCCL's RAS service, asked about a job that hangs: by a server that stands in for it, which answers in both of its
forms, and in every way that is wrong. The hang is real; its ranks are those of the stand-in NCCL, which has no such
service."""
import json
import socket
import subprocess
import sys
import threading
import time

from harness import CUDA, HANG, NCCL, NOBODY, ROOT, ZERNEL, ZERNELD, Actor, Daemon, State, check, equal, free_port, \
    main, need, run, test, wait_until
from claims import job, live
from hangs import HELPERS, firing, let_go, wake
from waits import PREPARE

COMMANDS = ["CLIENT PROTOCOL 2", "TIMEOUT 5", "SET FORMAT json", "VERBOSE STATUS"]
FAR = ("10.255.0.9", 4711)  # where the rank is that is behind
REQUESTS = "zernel_ras_requests_total"
ASKED_S = 5  # the age of a hang about which the service is asked


class Service:
    """Takes connections on loopback, each on a thread. document: what to do with one that asks for the status; json:
    whether it knows that form; asked: the commands of each connection."""

    def __init__(self, document, json=True, hello="SERVER PROTOCOL 2\n"):
        self.document, self.json, self.hello, self.asked = document, json, hello, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        State.cleanup.callback(self.socket.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.asked.append([])
            threading.Thread(target=self.talk, args=(connection, self.asked[-1]), daemon=True).start()

    def talk(self, connection, asked):
        with connection, connection.makefile("r") as lines:
            try:
                for line in lines:
                    asked.append(line.rstrip("\n"))
                    if line.startswith("VERBOSE"):
                        self.document(connection)
                        return
                    connection.sendall(self.reply(line).encode())
            except OSError:
                return

    def reply(self, line):
        if line.startswith("CLIENT"):
            return self.hello
        return "OK\n" if self.json or not line.startswith("SET") else "ERROR: Unknown command SET FORMAT json\n"


def sends(text):
    return lambda connection: connection.sendall(text.encode())


def rank(number, host, pid, count):
    return {"rank": number, "host": host, "pid": pid, "cuda_dev": 0, "nvml_dev": 0,
            "status": {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False,
                       "abort_flag": False},
            "collective_counts": {"Broadcast": 1, "AllReduce": count}}


def communicator(ranks, missing=()):
    return {"hash": "0x27a079b828ff1a75", "secondary_hash": "0x1:0x2", "size": len(ranks) + len(missing),
            "ranks_count": len(ranks),
            "missing_ranks_count": len(missing), "ranks": ranks, "missing_ranks": list(missing)}


def status(*communicators):
    return json.dumps({"nccl_version": "2.28.9", "cuda_runtime_version": 13000,
        "communicators_count": len(communicators),
                       "communicators": communicators, "ras": {"collection_time_sec": 0.01, "timeouts_count": 0}},
                       indent=2)


def of_job(pids, behind=3):
    """What a healthy service says: all ranks have issued 7 but one, of another node."""
    own = [rank(n, "127.0.0.1", pid, 7) for n, pid in enumerate(pids)]
    return status(communicator([rank(0, "10.255.0.3", 1, 2)]),
        communicator([*own, rank(9, *FAR, 7 - behind), rank(10, FAR[0], 1, 7)]))


def text(*lines):
    return "\n".join(["NCCL version 2.27.3 compiled with CUDA 12.9",
        "CUDA runtime version 12090, driver version 12090", "",
                      "Communicators... (0.02s)", "=============", "", "Errors", "======", "", "Warnings", "========",
                      "", *lines, ""])


def behind_as_text(rank, host, pid):
    return text("#0-0 (27a079b828ff1a75) MISMATCH", "  Communicator ranks have different AllReduce operation counts",
                "  2 ranks have launched up to operation 7",
                f"  Rank {rank} has launched up to operation 6 -- GPU 0 managed by process {pid} on node {host}")


class Pair:
    """A job of two ranks, one of which sleeps while the other one waits for it."""

    def __init__(self, daemon, name, address, user=0, nranks=2):
        before = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else ()
        env = {"NCCL_RAS_ADDR": address} if address else None
        self.ranks = [Actor(("cuda", CUDA), ("nccl", NCCL), env=env, before=before) for _ in range(2)]
        self.pids = [a.pid for a in self.ranks]
        daemon.attached(CUDA, NCCL)
        for n, a in enumerate(self.ranks):
            a.do(PREPARE)
            a.do(f"init({n}, {nranks}, {name.encode()!r})")
            a.do(HELPERS)
        State.cleanup.callback(let_go, self.ranks)
        for a in self.ranks:
            a.do("step()")

    def hang(self):
        self.ranks[0].tell(f"wait_for_others({HANG})")

    def go_on(self):
        self.ranks[1].do("step()")
        wake(self.ranks[0])


def entry(daemon, name=None):
    found = [w for w in daemon.json("/why")["why"] if w["job_id"] == name]
    return found[0] if found else {"ras": None, "causes": []}


def waits_s(daemon):
    """For how long the missing rank has been waited for, once that is the job's first cause."""
    first = [c["cause"] for c in entry(daemon)["causes"][:1]]
    return max(daemon.metrics().all("zernel_nccl_missing_rank_seconds").values(), default=0) if first == ["hang"] else 0


def over(daemon, name=None):
    ras = entry(daemon, name)["ras"]
    return ras if ras and ras["outcome"] != "under_way" else None


@test
def ras_names_a_rank_of_another_node():
    daemon = Daemon("--push-interval-ms", "250")
    service = Service(lambda c: sends(of_job(pair.pids))(c))
    pair = Pair(daemon, "one", service.address)
    time.sleep(3)
    equal((service.asked, entry(daemon)["ras"]), ([], None), "of a job that is well nobody is asked")
    began = time.monotonic()
    pair.hang()
    wait_until(lambda: over(daemon), "an answer", seen=lambda: entry(daemon))
    check(time.monotonic() - began > 4, f"after {time.monotonic() - began} s")
    said = "rank 9 on host 10.255.0.9, process 4711, has issued 3 collectives fewer than the others"
    why = entry(daemon)
    equal((why["ras"]["outcome"], why["ras"]["says"]), ("answered", said), "what it says")
    equal([(c["hash"], c["size"], c["heard"], c["odd"], c["most"], [r["rank"] for r in c["ranks"]])
        for c in why["ras"]["communicators"]],
          [("27a079b828ff1a75", 4, 4, 1, 8, [9])], "the communicator of the job alone")
    check(why["causes"][0]["cause"] == "hang" and why["causes"][0]["says"].endswith(f"; NCCL's RAS says: {said}"), why)
    shown = run([ZERNEL, "why", f"http://127.0.0.1:{daemon.port}"]).stdout
    check(f"  other nodes: NCCL's RAS says: {said}\n" in shown, shown)
    check("communicators" not in daemon.json("/json?topics=why")["why"][0]["ras"],
        "the snapshot has the sentence alone")
    wait_until(lambda: firing(daemon, "nccl_hang"), "nccl_hang fires")
    time.sleep(2)
    equal(service.asked, [COMMANDS], "it is asked once, and in these words")
    metrics = daemon.metrics()
    equal((metrics.one(REQUESTS, outcome="answered"), metrics.one(REQUESTS, outcome="no_answer")), (1, 0), "counted")
    pair.go_on()
    wait_until(lambda: entry(daemon)["ras"] is None, "what it said is of the past")
    pair.hang()
    wait_until(lambda: over(daemon), "the answer that still stands", seen=lambda: entry(daemon))
    equal(over(daemon)["says"], said, "what it says")
    equal(len(service.asked), 1, "it is the same episode a moment later")
    pair.go_on()


@test
def ras_with_what_the_unit_allows():
    """A daemon as systemd starts it, whose system calls are filtered before it knows the addresses of its node."""
    need("systemd-analyze")
    daemon = Daemon("--push-interval-ms", "250", argv=[sys.executable, f"{ROOT}/tests/confined.py", ZERNELD])
    service = Service(lambda c: sends(of_job(pair.pids))(c))
    pair = Pair(daemon, "one", service.address)
    pair.hang()
    wait_until(lambda: over(daemon), "an answer", seen=lambda: entry(daemon))
    equal((over(daemon)["outcome"], service.asked), ("answered", [COMMANDS]), "it is asked, and answers")
    pair.go_on()


@test
def ras_where_all_ranks_of_this_node_wait():
    daemon = Daemon("--push-interval-ms", "250")
    service = Service(lambda c: sends(of_job(pair.pids, 1))(c))
    pair = Pair(daemon, "one", service.address, nranks=4)
    for a in pair.ranks:
        a.tell(f"wait_for_others({HANG})")
    wait_until(lambda: over(daemon), "an answer", seen=lambda: entry(daemon))
    said = "rank 9 on host 10.255.0.9, process 4711, has issued 1 collective fewer than the others"
    equal(over(daemon)["says"], said, "what it says")
    cause = entry(daemon)["causes"][0]
    check(cause["cause"] == "all_wait" and cause["says"].endswith(f"; NCCL's RAS says: {said}"), cause)
    equal(service.asked, [COMMANDS], "it is asked once")
    wake(*pair.ranks)


@test
def ras_of_a_version_before_json():
    daemon = Daemon("--push-interval-ms", "250")
    service = Service(sends(behind_as_text(9, *FAR)), json=False)
    pair = Pair(daemon, "one", service.address)
    pair.hang()
    wait_until(lambda: over(daemon), "an answer")
    said = "rank 9 on host 10.255.0.9, process 4711, has issued 1 collective fewer than the others"
    equal((over(daemon)["outcome"], over(daemon)["says"]), ("answered", said), "its text")
    equal(service.asked, [COMMANDS], "asked in the same words")
    pair.go_on()


def never_ending_line(connection):
    for _ in range(20):
        connection.sendall(b"x" * 65536)
        time.sleep(1)


def much(connection):
    connection.sendall(of_job([1])[:-3].encode())
    for _ in range(1600):
        connection.sendall(b'{"rank": 1}' * 6000)


# name: the service, given the processes' ids; the outcome; what is said
KINDS = {
    "broken": (lambda pids: Service(sends("Communicators..." + of_job(pids).replace(",\n", "\n").replace("}\n",
    "},\n"))), "answered",
               "rank 9 on host 10.255.0.9, process 4711, has issued 3 collectives fewer than the others"),
    "even": (lambda pids: Service(sends(of_job(pids, 0))), "answered",
             "no rank stands out: all have issued the same collectives"),
    "others": (lambda pids: Service(sends(of_job([1, 2]))), "answered", "nothing of this job"),
    "text_of_any": (lambda pids: Service(sends(behind_as_text(9, *FAR)), json=False), "answered",
                    "no rank of this job stands out"),
    "text_of_ours": (lambda pids: Service(sends(behind_as_text(1, "127.0.0.1", pids[1])), json=False), "answered",
                     "rank 1 on host 127.0.0.1, process {1}, has issued 1 collective fewer than the others"),
    "silent": (lambda pids: Service(lambda c: time.sleep(60)), "no_answer",
               "NCCL's RAS service at {a}: it does not answer"),
    "endless": (lambda pids: Service(never_ending_line), "not_understood",
                "NCCL's RAS service at {a}: its answer is not understood"),
    "much": (lambda pids: Service(much), "too_long", "NCCL's RAS service at {a}: its answer is too long"),
    "early": (lambda pids: Service(sends(of_job(pids)[:900])), "incomplete",
              "NCCL's RAS service at {a}: its answer was cut short"),
    "closed": (lambda pids: Service(sends("")), "no_answer", "NCCL's RAS service at {a}: it does not answer"),
    "web": (lambda pids: Service(sends(""), hello="HTTP/1.1 400 Bad Request\n"), "not_understood",
            "NCCL's RAS service at {a}: its answer is not understood"),
}


@test
def ras_answers_of_every_kind():
    """Each of a job of its own, all at the same time: they are asked one after the other."""
    daemon = live()
    services, pairs = {}, {}
    for name, (make, _, _) in KINDS.items():
        services[name] = Service(lambda c: None)
        pairs[name] = Pair(daemon, name, services[name].address)
        made = make(pairs[name].pids)
        for what in ("document", "json", "hello"):
            setattr(services[name], what, getattr(made, what))
        for pid in pairs[name].pids:
            job("start", name, "--pid", str(pid), "uid=0")
    for pair in pairs.values():
        pair.hang()
    wait_until(lambda: all(over(daemon, name) for name in KINDS), "all answers",
               seen=lambda: {name: entry(daemon, name)["ras"] for name in KINDS})
    for name, (_, outcome, says) in KINDS.items():
        ras = over(daemon, name)
        want = says.format(*pairs[name].pids, a=services[name].address)
        equal((ras["outcome"], ras["says"]), (outcome, want), name)
        equal(len(services[name].asked), 1, f"questions to {name}")
    check(4 << 20 <= over(daemon, "much")["bytes"] < 5 << 20, over(daemon, "much"))
    asked = {dict(k)["outcome"]: v for k, v in daemon.metrics().all(REQUESTS).items()}
    equal(sum(asked.values()), len(KINDS), f"counted: {asked}")
    for pair in pairs.values():
        for a in pair.ranks:
            a.kill()


@test
def ras_is_asked_of_this_node_and_this_user_alone():
    daemon = Daemon("--push-interval-ms", "250")
    service, nobodys = Service(sends("")), f"127.0.0.1:{free_port()}"
    cases = {  # user, address: what is said of it
        (1000, service.address): ("of_another_user",
                                  "who listens there is not known to be the user of the job, so nobody was asked"),
        (1001, nobodys): ("nobody_listens",
                          "nobody listens there: NCCL is older than 2.24, or its RAS is off or in another network "
                          "namespace"),
        (1002, "10.255.0.1:28028"): ("not_on_this_node", "that is no address of this node, so nobody was asked"),
        (NOBODY, 'exam"ple.org:28028'): ("not_on_this_node", "that is no address of this node, so nobody was asked"),
    }
    for (user, address), (outcome, says) in cases.items():
        pair = Pair(daemon, f"of {user}", address, user)
        pair.hang()
        shown = address.replace('"', "?")
        wait_until(lambda: (over(daemon) or {}).get("address") == shown, f"{address} is looked at",
            seen=lambda: entry(daemon)["ras"])
        ras = over(daemon)
        equal((ras["outcome"], ras["says"]), (outcome, f"NCCL's RAS service at {shown}: {says}"), address)
        for a in pair.ranks:
            a.kill()
    equal(service.asked, [], "nobody was asked")


@test
def ras_off():
    daemon = Daemon("--push-interval-ms", "250", "--ras", "off")
    service = Service(sends(""))
    pair = Pair(daemon, "one", service.address)
    pair.hang()
    wait_until(lambda: waits_s(daemon) > ASKED_S + 1, "the hang is known, and is as old as those that are asked about",
        seen=lambda: (entry(daemon), waits_s(daemon)))
    daemon.ticked(2)
    equal((service.asked, entry(daemon)["ras"]), ([], None), "nobody is asked")
    equal(daemon.metrics().all(REQUESTS), {}, "and nothing counted")
    names = subprocess.run(["ps", "-o", "comm=", "--ppid", str(daemon.pid)], text=True, capture_output=True).stdout
    check("sender" not in names, names)
    pair.go_on()


if __name__ == "__main__":
    main()
