# SPDX-License-Identifier: GPL-2.0
"""What a process costs more than its budget is spared and marked; what is promised to be exact stays so, and
neighbours keep all of theirs. The budget is so small that these storms are beyond it on any machine."""
import os
import signal

from harness import CUDA, Absent, Daemon, check, equal, main, test, wait_until
from inference import CHAT, Client, Seen, Server, at_rest, watched
from signals import tracked

SOME = 101
BEYOND = "alert probe_overhead"  # a storm that lasts for 30 s, as on a busy machine
STORMS = """
import resource, sys, threading
def switches():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_nvcsw + used.ru_nivcsw
def reads(count):
    fd = os.open(sys.executable, os.O_RDONLY)
    for _ in range(count):
        os.pread(fd, 1, 0)
    os.close(fd)
def ping(count):
    there, back = os.pipe(), os.pipe()
    other = threading.Thread(target=lambda: [os.write(back[1], os.read(there[0], 1)) for _ in range(count)])
    other.start()
    for _ in range(count):
        os.write(there[1], b"x")
        os.read(back[0], 1)
    other.join()
    for fd in (*there, *back):
        os.close(fd)
"""


def storming(daemon):
    actor = tracked(daemon)
    actor.do(STORMS)
    return actor


def ratio(daemon, actor, family):
    return daemon.metrics().one("zernel_sampled_ratio", pid=str(actor.pid), family=family)


def storm_until(daemon, actor, family, code):
    def spared():
        actor.do(code)
        at = ratio(daemon, actor, family)
        return at is not None and at < 1
    wait_until(spared, f"{family} is measured in a part of the time", 60)


def count(daemon, actor, name, **labels):
    return sum(v for k, v in daemon.metrics().all(name).items()
               if ("pid", str(actor.pid)) in k and set(labels.items()) <= set(k))


def count_reads(daemon, actor):
    return daemon.process_json(actor.pid)["io"]["reads"]


def grown(daemon, actor, code, name, **labels):
    before = count(daemon, actor, name, **labels)
    actor.do(code)
    return count(daemon, actor, name, **labels) - before


@test
def a_budget_spares_what_costs_too_much_and_marks_it():
    daemon = Daemon("--overhead-budget", "0.05%", allow=[BEYOND])
    storm, quiet = storming(daemon), storming(daemon)
    storm_until(daemon, storm, "vfs", "reads(50000)")
    storm_until(daemon, storm, "sched", "reads(20000); ping(10000)")
    seen = grown(daemon, storm, "reads(20000)", "zernel_syscalls_total")
    check(20000 <= seen <= 20200, f"{seen} system calls in 20000 reads: they are counted always")
    equal(grown(daemon, storm, f"launch(cuda, {SOME})", "zernel_cuda_launches_total", kind="kernel"), SOME, "launches in the storm")
    reads = count_reads(daemon, storm)

    def missed():
        storm.do("made = globals().get('made', 0) + 50000; reads(50000); answer = made")
        return count_reads(daemon, storm) - reads < storm.do("answer = made")
    wait_until(missed, "a read that was spared")
    sampled = daemon.process_json(storm.pid)["sampled"]
    check(0 < sampled["vfs"]["now"] < 1 and 0 < sampled["vfs"]["seen"] < 1, f"what the snapshot says: {sampled}")
    # the neighbour
    before = count_reads(daemon, quiet)
    quiet.do(f"reads({SOME}); launch(cuda, {SOME})")
    equal(count_reads(daemon, quiet) - before, SOME, "reads of the neighbour")
    check("sampled" not in daemon.process_json(quiet.pid), "the neighbour is spared something")
    equal([k for k in daemon.metrics().all("zernel_sampled_ratio") if ("pid", str(quiet.pid)) in k], [], "its marks")
    check("measured in a part of the time" in "\n".join(daemon.lines()), "the log says nothing of it")
    # switches are counted always; both ends of a look differ by those of the look itself
    storm.do("before = switches()")
    shown = count(daemon, storm, "zernel_context_switches_total")
    made = storm.do("ping(5003); answer = switches() - before")
    shown = count(daemon, storm, "zernel_context_switches_total") - shown
    check(abs(made - shown) <= 100, f"{shown} switches are shown of {made}")
    # and back, once there is room; meanwhile it hangs in a wait that began while it was spared
    storm.tell("import signal; signal.signal(signal.SIGUSR1, lambda *_: None)\n"
               "cuda.fake_cuda_set(b'sync_sleep_us', ctypes.c_long(600000000)); cuda.cuStreamSynchronize(None)")
    wait_until(lambda: ratio(daemon, storm, "vfs") == 1 and ratio(daemon, storm, "sched") == 1, "all is measured again", 60)
    daemon.ticked(2)
    stalls = daemon.process_json(storm.pid)["stalls"]
    check(stalls and stalls["gpu"] > 0.99, f"the wait that it hangs in: {stalls}")
    os.kill(storm.pid, signal.SIGUSR1)
    storm.answer("its wait")
    before = count_reads(daemon, storm)
    storm.do(f"reads({SOME})")
    equal(count_reads(daemon, storm) - before, SOME, "reads after the storm")
    storm.end()
    daemon.gone(storm.pid)
    equal(daemon.metrics().lost(), {}, "losses")


def method(daemon):
    return next(p["tier"] for p in daemon.json()["probes"] if p["family"] == "cuda_trace")


def launches(daemon, actor, **kind):
    return count(daemon, actor, "zernel_cuda_launches_total", **kind)


def timed(daemon, actor):
    return count(daemon, actor, "zernel_cuda_launch_latency_seconds_count")


STORM = 20011  # launches at once


@test
def a_storm_of_launches_is_counted_to_the_call_while_its_timing_is_spared():
    daemon = Daemon("--overhead-budget", "0.05%", allow=[BEYOND])
    if method(daemon) != "uprobe_session":
        raise Absent("this kernel has no uprobe sessions")
    storm, quiet, short = storming(daemon), storming(daemon), storming(daemon)
    storm.do("made = 0")
    begin = launches(daemon, storm, kind="kernel")
    storm_until(daemon, storm, "cuda_trace", f"launch(cuda, {STORM}); made += {STORM}")

    def untimed():
        made = storm.do(f"launch(cuda, {STORM}); made += {STORM}; answer = made")
        equal(launches(daemon, storm, kind="kernel") - begin, made, "launches in the storm")
        sampled = daemon.process_json(storm.pid).get("sampled", {}).get("cuda_trace")
        return timed(daemon, storm) < begin + made and sampled and 0 < sampled["now"] < 1 and 0 < sampled["seen"] < 1
    wait_until(untimed, "launches that were not timed, and what the snapshot says of them", 60)
    graphs = launches(daemon, storm, kind="graph")
    storm.do(f"[ok(cuda.cuGraphLaunch(None, None)) for _ in range({STORM})]")
    equal(launches(daemon, storm, kind="graph") - graphs, STORM, "graphs in the storm")
    waits = count(daemon, storm, "zernel_cuda_sync_seconds_count")
    storm.do(f"[ok(cuda.cuStreamSynchronize(None)) for _ in range({SOME})]")
    equal(count(daemon, storm, "zernel_cuda_sync_seconds_count") - waits, SOME, "waits in the storm: they are timed")
    # the neighbour, and one that ends in the midst of its own storm
    before = timed(daemon, quiet)
    quiet.do(f"launch(cuda, {SOME})")
    equal(timed(daemon, quiet) - before, SOME, "launches of the neighbour that were timed")
    check("sampled" not in daemon.process_json(quiet.pid), "the neighbour is spared something")
    storm_until(daemon, short, "cuda_trace", f"launch(cuda, {STORM})")
    short.tell("import threading; threading.Timer(0.3, os._exit, [0]).start(); launch(cuda, 100000000)")
    daemon.gone(short.pid)
    # and back
    wait_until(lambda: ratio(daemon, storm, "cuda_trace") == 1, "launches are timed again", 60)
    daemon.ticked(1)
    before = timed(daemon, storm)
    storm.do(f"launch(cuda, {SOME})")
    equal(timed(daemon, storm) - before, SOME, "launches that were timed after the storm")
    equal(daemon.metrics().lost(), {}, "losses")


EVENTS, FEW = 7, 23


class Asked:
    """A server, and how often it was asked."""

    def __init__(self, daemon):
        self.daemon, self.server = daemon, Server("uvicorn", CUDA)
        self.pid = watched(daemon, self.server)
        self.made = 0

    def ask(self, count):
        """Over connections that are kept alive, and then a stream over one of them."""
        clients = [Client(self.server) for _ in range(3)]
        for i in range(count - 1):
            clients[i % 3].ask("GET", "/status/404").read()
        clients[0].chat(EVENTS)
        for client in clients:
            client.close()
        self.made += count

    def ratio(self):
        return self.daemon.metrics().one("zernel_sampled_ratio", pid=self.pid, family="requests")

    def json(self):
        return next(s for s in self.daemon.json()["servers"] if str(s["pid"]) == self.pid)

    def counted(self):
        """Requests by whether they were read, when none is in flight."""
        seen, sums = at_rest(self.daemon, self.pid), {True: 0, False: 0}
        for labels, value in seen.m.all("zernel_requests_total", pid=self.pid).items():
            sums[dict(labels)["route"] != "not_read"] += int(value)
        return sums[True], sums[False]


def asked_between_ticks(daemon, server, count):
    """Whether no tick came in between. What is beyond the budget at one look alone spares nothing; spread over two it
    may be so at both."""
    daemon.ticked(1)
    before = daemon.ticks()
    server.ask(count)
    return daemon.ticks() == before


@test
def requests_beyond_the_budget_are_counted_and_not_read():
    daemon = Daemon("--overhead-budget", "0.02%", allow=[BEYOND])
    storm, quiet = Asked(daemon), Asked(daemon)

    def spared():
        storm.ask(2003)
        return storm.ratio() is not None and storm.ratio() < 1 and storm.counted()[1]
    wait_until(spared, "requests are read in a part of the time", 60)
    for _ in range(SOME):
        storm.ask(53)
    read, passed = storm.counted()
    equal(read + passed, storm.made, "requests in the storm, read or not")
    seen = Seen(daemon, storm.pid)
    equal(seen.done("not_read"), {"unknown": passed}, "requests that were not read")
    equal(set(seen.done("other")), {"4xx"}, "what those were answered with that were read")
    timed = sum(daemon.metrics().all("zernel_request_duration_seconds_count", pid=storm.pid).values())
    equal(timed, read, "durations")
    streams = seen.done(CHAT).get("2xx", 0)
    check(streams < SOME, f"{streams} streams were read, of more than {SOME}")
    equal(seen.one("zernel_request_events_total", route=CHAT) or 0, streams * EVENTS, "events of those that were read")
    sampled = storm.json()["sampled"]["requests"]
    check(0 < sampled["now"] < 1 and 0 < sampled["seen"] < 1, f"what the snapshot says: {sampled}")
    check(daemon.metrics().one("zernel_overhead_ratio", pid=storm.pid) > 0, "its requests cost something")
    # the neighbour
    equal(quiet.ratio(), None, "its mark while it is at rest")
    while not asked_between_ticks(daemon, quiet, FEW):
        quiet = Asked(daemon)
        daemon.ticked(3)  # what its start costs is over
    equal(quiet.counted(), (FEW, 0), "requests of the neighbour")
    equal(quiet.ratio(), None, "its mark")
    check("sampled" not in quiet.json(), "the neighbour is spared something")
    # and back
    wait_until(lambda: storm.ratio() == 1, "all are read again", 60)
    daemon.ticked(1)
    read, passed = storm.counted()
    storm.ask(SOME)
    equal(storm.counted(), (read + SOME, passed), "requests after the storm")
    equal(seen.lost(), {}, "losses")


@test
def by_two_links_every_launch_is_timed():
    daemon = Daemon("--overhead-budget", "0.05%", "--uprobes", "links")
    check(method(daemon) in ("uprobe_multi", "uprobe"), "libraries are hooked by sessions")
    storm = storming(daemon)
    before = timed(daemon, storm)
    for _ in range(5):
        storm.do(f"launch(cuda, {STORM})")
        daemon.ticked(1)
    equal(timed(daemon, storm) - before, 5 * STORM, "launches that were timed")
    equal(ratio(daemon, storm, "cuda_trace"), None, "the part of the time in which they are")
    equal(daemon.metrics().lost(), {}, "losses")


@test
def without_a_budget_all_is_measured():
    daemon = Daemon("--overhead-budget", "0%")
    actor = storming(daemon)
    before = count_reads(daemon, actor)
    for _ in range(4):
        actor.do("reads(50021)")
        daemon.ticked(1)
    equal(count_reads(daemon, actor) - before, 4 * 50021, "reads")
    equal(daemon.metrics().all("zernel_sampled_ratio"), {}, "what is spared")
    equal([a for a in daemon.json("/alerts")["alerts"] if a["alert"] == "probe_overhead" and a["state"] != "inactive"], [], "alerts")


if __name__ == "__main__":
    main()
