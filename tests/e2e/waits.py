# SPDX-License-Identifier: GPL-2.0
"""Who is late among the ranks of a node: when each of them issues the collectives of a communicator, against the ranks'
own clocks. Waits of data loaders and of gloo are tests/pytorch's business."""
import time

from harness import CUDA, NCCL, NOBODY, Actor, Daemon, check, equal, test, test_timed, wait_until

SKEW, LATE = "zernel_nccl_issue_skew_seconds", "zernel_nccl_issue_late_seconds_total"
WINDOW = 64  # ZN_SKEW_WINDOW
PREPARE = """
class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]
def init(rank, nranks, name):
    global comm
    comm = c_void_p()
    ok(nccl.ncclCommInitRank(byref(comm), nranks, Id(name), rank))
def reduce(count):
    taken = []
    for _ in range(count):
        taken.append(time.monotonic_ns())
        ok(nccl.ncclAllReduce(None, None, c_size_t(4), 7, 0, comm, None))
    return taken
ready(cuda)
launch(cuda, 1)
"""


def start(expect=()):
    daemon = Daemon("--push-interval-ms", "250", expect=expect)
    daemon.ready()
    return daemon


def rank(daemon, number, nranks=2, name=b"one", user=0):
    before = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else ()
    actor = Actor(("cuda", CUDA), ("nccl", NCCL), before=before)
    daemon.attached(CUDA, NCCL)
    actor.do(PREPARE)
    actor.do(f"init({number}, {nranks}, {name!r})")
    return actor


def reduce(actor, count=1):
    return actor.do(f"answer = reduce({count})")


def summary(daemon, name=SKEW):
    m = daemon.metrics()
    return m.one(name + "_count") or 0, m.one(name + "_sum") or 0


@test_timed
def skew_of_a_rank_that_is_late():
    daemon = start()
    ranks = [rank(daemon, n) for n in (0, 1)]
    skews = []
    for step in range(11):
        early = reduce(ranks[0])[0]
        time.sleep(0.05)
        skews.append(reduce(ranks[1])[0] - early)
    count, total = summary(daemon)
    equal(count, 11, "collectives compared")
    check(abs(total * 1e9 - sum(skews)) < 0.02 * sum(skews), f"skew {total} s, not {sum(skews) / 1e9} s")
    late = {dict(rest)["rank"]: v for rest, v in daemon.metrics().all(LATE).items()}
    equal(late["0"], 0, "the first one is never late")
    check(abs(late["1"] - total) < 1e-6, f"lateness {late}, not all of {total}")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_timed
def lateness_counts_each_moment_once():
    """One rank has queued all ten before the other one begins: that one is late once, for as long as it takes."""
    daemon = start()
    ranks = [rank(daemon, n) for n in (0, 1)]
    early, late = reduce(ranks[0], 10), []
    for _ in range(10):
        time.sleep(0.05)
        late += reduce(ranks[1])
    count, total = summary(daemon)
    equal(count, 10, "collectives compared")
    skews = sum(late) - sum(early)
    check(abs(total * 1e9 - skews) < 0.02 * skews, f"skew {total} s, not {skews / 1e9} s")
    took = late[-1] - early[0]
    lateness = {dict(rest)["rank"]: v for rest, v in daemon.metrics().all(LATE).items()}
    equal(lateness["0"], 0, "the first one is never late")
    check(abs(lateness["1"] * 1e9 - took) < 0.02 * took, f"lateness {lateness}, not {took / 1e9} s")


@test_timed
def skew_where_ranks_take_turns():
    """Each is late once; what has no partner is not compared."""
    daemon = start()
    ranks = [rank(daemon, n, 3) for n in (0, 1, 2)]
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        for n in order:
            reduce(ranks[n])
            time.sleep(0.02)
    equal(summary(daemon)[0], 3, "collectives compared")
    reduce(ranks[0], 5)
    reduce(ranks[1], 5)
    equal(summary(daemon)[0], 3, "collectives that not all have issued")
    reduce(ranks[2], 5)
    equal(summary(daemon)[0], 8, "collectives compared")
    ranks[0].do("nccl.ncclGroupStart(); reduce(3); nccl.ncclGroupEnd()")
    for n in (1, 2):
        reduce(ranks[n], 3)
    equal(summary(daemon)[0], 11, "collectives of a group")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_timed
def skew_of_ranks_far_apart():
    daemon = start()
    ranks = [rank(daemon, n) for n in (0, 1)]
    reduce(ranks[0], WINDOW)
    reduce(ranks[1], WINDOW)
    equal(summary(daemon)[0], WINDOW, "collectives compared")
    reduce(ranks[0], WINDOW + 7)
    reduce(ranks[1], WINDOW + 7)
    equal(summary(daemon)[0], 2 * WINDOW, "collectives that were not overwritten")
    equal(daemon.metrics().lost(), {"skew": 7}, "what was lost")


@test_timed
def skew_ends_with_its_ranks():
    daemon = start()
    for _ in range(3):
        ranks = [rank(daemon, n, name=b"same") for n in (0, 1)]
        for a in ranks:
            reduce(a, 2)
        equal(summary(daemon)[0], 2, "collectives compared")
        ranks[0].do("nccl.ncclCommDestroy(comm)")
        ranks[0].end()
        ranks[1].end()
        wait_until(lambda: summary(daemon)[0] == 0, "no series of a communicator that is gone")
    equal(daemon.metrics().lost(), {}, "what was lost")


def compared(daemon):
    """{the end of a communicator's label: collectives}"""
    return {dict(labels)["comm"][16:]: n for labels, n in daemon.metrics().all(SKEW + "_count").items()}


@test
def who_knows_the_id_of_anothers_communicator_has_no_part_in_it():
    """He would be a rank that never issues anything, for which the others are waited for."""
    daemon = start()
    ranks = [rank(daemon, n) for n in (0, 1)]
    for a in ranks:
        reduce(a, 5)
    equal(compared(daemon), {"": 5}, "collectives compared")
    other = [rank(daemon, n, user=NOBODY) for n in (0, 1)]
    for a in ranks:
        reduce(a, 7)
    equal(compared(daemon), {"-0": 12}, "collectives compared")
    for a in other:
        reduce(a, 3)
    equal(compared(daemon), {"-0": 12, f"-{NOBODY}": 3}, "collectives compared, those of the other user too")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test
def communicators_of_one_user_leave_room_for_others():
    daemon = start([f"quota: communicators that are compared: 140 refused, the last one to user {NOBODY}, who holds "
                    f"60 of 128"])
    many = rank(daemon, 0, user=NOBODY)
    with daemon.stopped():  # all of them are refused before a tick tells how many
        many.do("for n in range(199):\n    init(0, 2, b'%d' % n)\n    reduce(3)")
    equal(daemon.metrics().lost(), {"skew": 140}, "communicators that were refused, each once")
    for n in range(20):
        ranks = [rank(daemon, r, name=b"other%d" % n, user=1000) for r in (0, 1)] if n == 0 else ranks
        for r, a in enumerate(ranks):
            a.do(f"init({r}, 2, {b'again%d' % n!r})")
        for a in ranks:
            reduce(a, 2)
    equal(sorted(daemon.metrics().all(SKEW + "_count").values()), [2] * 20, "communicators of another user")
    equal(daemon.metrics().lost(), {"skew": 140}, "what was lost")
    wait_until(lambda: any("that are compared" in line for line in daemon.lines()), "the line of the log")


@test_timed
def skew_of_ranks_that_a_group_split_off():
    daemon = start()
    ranks = [rank(daemon, n) for n in (0, 1)]
    for a in ranks:
        a.do("half = c_void_p(); ok(nccl.ncclGroupStart()); ok(nccl.ncclCommSplit(comm, 1, 0, byref(half), None)); "
             "ok(nccl.ncclGroupEnd()); comm = half")
    for a in ranks:
        reduce(a, 5)
    equal(sum(daemon.metrics().all(SKEW + "_count").values()), 5, "collectives compared")
    equal(daemon.metrics().lost(), {}, "what was lost")


@test_timed
def skew_of_one_rank_is_not_told():
    daemon = start()
    reduce(rank(daemon, 0, 8), 3)
    wait_until(lambda: daemon.metrics().all("zernel_nccl_calls_total"), "calls")
    equal(daemon.metrics().all(SKEW + "_count"), {}, "skew of a rank that is alone here")
