# SPDX-License-Identifier: GPL-2.0
"""Calls that fail: of CUDA by name and call, system calls on devices of RDMA by what they ask for and errno. The real
devices of the latter are not here: /dev/full and /dev/null stand in, whose major the daemon is given; they refuse
these very calls, and the kernel's own numbers are in what is handed to them."""
import re

from harness import CUDA, Actor, check, equal, main, test, wait_until
from jobs import Node

ERRORS, JOB_ERRORS = "zernel_cuda_errors_total", "zernel_job_cuda_errors_total"
RDMA, JOB_RDMA = "zernel_rdma_errors_total", "zernel_job_rdma_errors_total"
ILLEGAL, INVALID, NOT_READY, UNNAMED = 700, 1, 600, 12345

CALLS = """
import fcntl, os, struct
def fails(code, call):
    cuda.fake_cuda_set(b'fail_next', ctypes.c_long(code))
    ok(call(), code)
sync = lambda: cuda.cuStreamSynchronize(None)
launches = lambda: cuda.cuLaunchKernel(None, 1, 1, 1, 32, 1, 1, 0, None, None, None)
def allocates():
    at = c_void_p()
    return cuda.cuMemAlloc_v2(byref(at), c_size_t(1 << 20))
"""
# IB_USER_VERBS_CMD_REG_MR and CREATE_QP (extended) as they are written, and by ioctl(): create_cq, a driver's own
# object, and INVOKE_WRITE, behind another attribute, of IB_USER_VERBS_CMD_MODIFY_QP.
VERBS = """
full, null = os.open('/dev/full', os.O_WRONLY), os.open('/dev/null', os.O_RDWR)
def refused(call, *args):
    try:
        call(*args)
    except OSError as error:
        return error.errno
def verbs(object, method, *attributes):
    more = b''.join(struct.pack('HHHHQ', id, 8, 0, 0, data) for id, data in attributes)
    head = struct.pack('HHHHQII', 24 + len(more), object, method, len(attributes), 0, 0, 0)
    return refused(fcntl.ioctl, null, 0xc0181b01, bytearray(head + more))
answer = [refused(os.write, full, struct.pack('IHH', 9, 4, 4)), refused(os.write, full, struct.pack('IHH', 0x80000018, 4, 4)),
    verbs(3, 0), verbs(3, 0), verbs(0x1001, 0x1002), verbs(0, 0, (0, 5), (2, 26)), refused(fcntl.ioctl, null, 0x5413)]
os.write(null, b'well')
"""


def by(series, *labels):
    return {tuple(dict(k)[n] for n in labels): v for k, v in series.items()}


@test
def calls_that_fail():
    daemon = Node("--push-interval-ms", "100", "--rdma-majors", "1",
        expect=[r'alert cuda_context_lost.*job_id="4711".*CUDA_ERROR_ILLEGAL_ADDRESS.* fires'])
    actor, other = Actor(("cuda", CUDA)), Actor(("cuda", CUDA))
    daemon.attached(CUDA)
    for one in (actor, other):
        one.do("ready(cuda); launch(cuda, 3)")
        one.do(CALLS)
    daemon.job("start", "4711", "--pid", str(actor.pid), "uid=0")
    pid = str(actor.pid)
    equal(daemon.metrics().all(ERRORS), {}, "errors before there was one")
    check("cuda_errors" not in daemon.process_json(actor.pid), "errors in the snapshot before there was one")

    actor.do(f"fails({INVALID}, allocates); fails({NOT_READY}, sync); fails({UNNAMED}, allocates)")
    actor.do(f"fails({ILLEGAL}, sync)")
    actor.do(f"for _ in range(7): fails({ILLEGAL}, launches)")
    wait_until(lambda: daemon.metrics().one(ERRORS, pid=pid, error="CUDA_ERROR_ILLEGAL_ADDRESS") == 8, "all errors")
    want = {("CUDA_ERROR_ILLEGAL_ADDRESS",): 8, ("CUDA_ERROR_INVALID_VALUE",): 1, ("other",): 1}
    equal(by(daemon.metrics().all(ERRORS, pid=pid), "error"), want, "errors by name")
    equal(by(daemon.metrics().all(JOB_ERRORS, job_id="4711"), "error"), want, "those of the job")
    told = daemon.process_json(actor.pid)["cuda_errors"]
    equal((told["count"], told["error"], told["call"], told["context_lost"]),
        (10, "CUDA_ERROR_ILLEGAL_ADDRESS", "cuStreamSynchronize", True), "the last error, and what returned it first")
    check(0 < told["last_age_s"] <= told["age_s"] < 60, told)
    equal({(c["call"], c["error"]): c["count"] for c in told["calls"]},
        {("cuMemAlloc_v2", "CUDA_ERROR_INVALID_VALUE"): 1, ("cuMemAlloc_v2", "other"): 1,
         ("cuStreamSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS"): 1, ("cuLaunchKernel", "CUDA_ERROR_ILLEGAL_ADDRESS"): 7},
        "by call")

    actor.do(f"fails({INVALID}, allocates)")
    wait_until(lambda: daemon.process_json(actor.pid)["cuda_errors"]["count"] == 11, "an error after that")
    told = daemon.process_json(actor.pid)["cuda_errors"]
    equal((told["error"], told["context_lost"]), ("CUDA_ERROR_ILLEGAL_ADDRESS", True), "what took the context is told")

    equal(actor.do(VERBS), [28, 28, 25, 25, 25, 25, 25], "what the stand-ins refuse")
    want = {("reg_mr", "ENOSPC"): 1, ("create_qp", "ENOSPC"): 1, ("create_cq", "ENOTTY"): 2, ("driver", "ENOTTY"): 1,
            ("modify_qp", "ENOTTY"): 1, ("ioctl", "ENOTTY"): 1}
    equal(by(daemon.metrics().all(RDMA, pid=pid), "call", "errno"), want, "failed calls of RDMA")
    equal(by(daemon.metrics().all(JOB_RDMA, job_id="4711"), "call", "errno"), want, "those of the job")
    told = daemon.process_json(actor.pid)["rdma_errors"]
    equal((told["count"], told["call"], told["errno"]), (7, "ioctl", "ENOTTY"), "the last one")
    other.do("import os; null = os.open('/dev/null', os.O_RDWR); os.write(null, b'well')")

    for number in range(2, 2 + 23):  # more results than have room: none is lost, and none is another one's
        other.do(f"fails({number}, launches)")
    got = by(daemon.metrics().all(ERRORS, pid=str(other.pid)), "error")
    equal(sum(got.values()), 23, "results of which some have no room")
    check(len(got) <= 17 and got[("CUDA_ERROR_OUT_OF_MEMORY",)] == 1, got)
    equal(daemon.metrics().all(RDMA, pid=str(other.pid)), {}, "of a process that had no such error")

    before = by(daemon.metrics().all(JOB_ERRORS, job_id=""), "error")
    for one in (actor, other):
        one.end()
    daemon.gone(actor.pid, other.pid)
    metrics = daemon.metrics()
    equal(metrics.one(JOB_ERRORS, job_id="4711", error="CUDA_ERROR_ILLEGAL_ADDRESS"), 8, "the job's, once it has ended")
    equal(by(metrics.all(JOB_ERRORS, job_id=""), "error"), before, "of no job, once it has ended")
    equal(by(metrics.all(JOB_RDMA, job_id="4711"), "call", "errno"), want, "of RDMA, once it has ended")
    told = [j for j in daemon.json("/jobs")["jobs"] if j["job_id"] == "4711"][0]["cuda_errors"]
    check(re.fullmatch(r"CUDA_ERROR_ILLEGAL_ADDRESS in cuStreamSynchronize of process \d+ \(python3\S*\): its context is lost",
        told["says"]) and told["pid"] == actor.pid, told)
    wait_until(lambda: daemon.metrics().one("zernel_alert_state", alert="cuda_context_lost") == 2, "the alert")
    equal(metrics.lost(), {}, "losses")
    daemon.job("end", "4711")
    text = wait_until(lambda: daemon.job("report", "4711").stdout, "the report")
    check("Calls that failed" in text and "CUDA or HIP: 11" in text and "RDMA: 7, the last one ioctl: ENOTTY" in text,
        text)


if __name__ == "__main__":
    main()
