#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""`zernel watch` and `zernel status` against a server that serves what a test wants, in a terminal that knows only what
it may be sent.

Run as: python3 tests/watch_test.py PATH_TO_ZERNEL [part of a test's name]. Time limits here only end a hang.
"""
import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import unicodedata

import watch_terminal
from watch_terminal import (
    PATIENCE, Server, Terminal, answer, body_of, check, equal, free_port, is_one_line, job, job_gpu, live, once,
    process, raw, run, snapshot)


# ---- the tests

def test_no_daemon():
    port = free_port()
    want = ("zernel: watch: no daemon at 127.0.0.1:%d: Connection refused; start it with 'zerneld' or give its "
            "address: zernel watch http://ADDRESS:9091\n" % port)
    for args in (["--once"], ["--json"], ["--once", "--json"]):
        check(run("http://127.0.0.1:%d" % port, *args) == (1, b"", want), args)
    with Terminal("127.0.0.1:%d" % port) as t:
        check(t.p.wait(PATIENCE) == 1 and t.p.stderr.read().decode() == want, "in a terminal")
        check(not t.pump(0), "wrote to the terminal")


def test_bad_usage():
    for args in (["--bogus"], ["-x"], ["127.0.0.1", "::1"], ["node7:9091"], ["http://node7"], ["https://127.0.0.1"],
                 ["127.0.0.1:0"], ["127.0.0.1:65536"], ["127.0.0.1:99999999999999999999"], ["127.0.0.1:x"],
                 ["127.0.0.1:"], ["[::1"], ["[::1]9"], ["[::1]:"], [""], ["/"], [":9091"], ["1" * 300],
                 ["127.0.0.1/json"], ["300.1.1.1"], ["unix:"], ["unix:/" + "x" * 107], ["--token-file"],
                 ["--token-file="], ["--token-file", "/nowhere/x"], ["::1", "--token-files", "x"], []):
        status, out, err = run(*args) if not args else run(*args, "--once")
        check(status == 2 and out == b"" and is_one_line(err), "%s: %d %r %r" % (args, status, out, err))
    check("'--bogus'" in run("--bogus")[2], "the option is not named")
    status, out, err = run("--help")
    check(status == 0 and out.startswith(b"usage: ") and err == "", "--help")


def test_addresses():
    with live(snapshot()) as s:
        for form in ("127.0.0.1:%d", "http://127.0.0.1:%d", "http://127.0.0.1:%d/", "HTTP://localhost:%d",
                     "localhost:%d"):
            status, out, err = run(form % s.port, "--once")
            check(status == 0 and b"n1" in out, form + err)
        check(s.heads[0].startswith(b"GET /json HTTP/1.1\r\n"), s.heads[0])
        check(b"\r\nHost: 127.0.0.1:%d\r\n" % s.port in s.heads[0] + b"\r\n", s.heads[0])
    try:
        six = raw(answer(body_of(snapshot())), host="::1")
    except OSError:
        return
    with six as s:
        for form in ("[::1]:%d", "http://[::1]:%d/"):
            check(run(form % s.port, "--once")[0] == 0, form)
        check(b"Host: [::1]:%d" % s.port in s.heads[0], s.heads[0])


def test_unix_socket():
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/" + "s" * (106 - len(folder))    # the longest that the kernel takes
        with raw(answer(body_of(snapshot())), host=path) as s:
            status, out, err = run("unix:" + path, "--once")
            check(status == 0 and b"n1" in out, err)
            check(b"\r\nHost: localhost\r\n" in s.heads[0] + b"\r\n", s.heads[0])
            code, _, err = run("unix:" + path, verb="status")
            check(code == 0 and err == "", err)
        status, out, err = run("unix:%s/none" % folder, "--once")
        check(status == 1 and is_one_line(err) and "no daemon at unix:%s/none: No such file" % folder in err, err)


TOKEN = "0123456789abcdef"


def token_file(text, mode=0o600):
    f = tempfile.NamedTemporaryFile("w")
    f.write(text)
    f.flush()
    os.chmod(f.name, mode)
    return f


def test_token():
    want = b"\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n"
    with token_file("# ours\n%s\nanother-0123456789\n" % TOKEN, 0o644) as f, live(snapshot()) as s:
        url = "127.0.0.1:%d" % s.port
        for verb, more in (("watch", ["--once"]), ("status", [])):
            for args, env in ((["--token-file", f.name], None), (["--token-file=" + f.name], None),
                              ([], {"ZERNEL_TOKEN_FILE": f.name}),
                              (["--token-file", f.name], {"ZERNEL_TOKEN_FILE": "/nowhere"})):
                status, out, err = run(url, *more, *args, verb=verb, env=env)
                check(status == 0 and err == "" and want in s.heads[-1] + b"\r\n",
                    "%s: %s %r" % (args, err, s.heads[-1]))
        run(url, "--once", env={"ZERNEL_TOKEN_FILE": ""})
        check(b"Authorization" not in s.heads[-1], s.heads[-1])
    for text, why in (("short\n", ":1: a token is 16 to 128 of"), ("", "no token in it")):
        with token_file(text) as f:
            status, out, err = run("--once", "--token-file", f.name)
            check(status == 2 and out == b"" and is_one_line(err) and why in err and "short" not in err, err)


def test_refusals():
    def refusal(status):
        return answer(b"no\n", "HTTP/1.1 %d No\r\nContent-Length: %%d\r\n\r\n" % status)
    with token_file(TOKEN) as f:
        for status, args, why in ((401, [], "it asks for a token: --token-file FILE"),
                                  (401, ["--token-file", f.name], "it does not accept the token that was sent: --token-file FILE"),
                                  (421, [], "it does not know itself by this name"), (503, [], "it is too busy")):
            with raw(refusal(status)) as s:
                code, out, err = run("127.0.0.1:%d" % s.port, "--once", *args)
            check(code == 1 and out == b"" and is_one_line(err) and why in err and "no zerneld" not in err, err)
    reply = [answer(body_of(snapshot()))]
    with Server(lambda n: reply[0]) as s, Terminal("127.0.0.1:%d" % s.port, 120) as t:
        t.wait_text("python")
        reply[0] = refusal(401)
        t.wait_text("no answer since", "it asks for a token")
        t.quit()


def test_once_shows_everything():
    v = snapshot(
        alerts=[{"alert": "calm", "severity": "info", "state": "inactive", "summary": "nothing"},
                {"alert": "slow", "severity": "warning", "state": "pending", "gpu_id": None, "value": 3, "threshold": 2,
                 "since_ms": 1711800000000, "summary": "launches are slow"},
                {"alert": "gpu_oom_warning", "severity": "critical", "state": "firing", "gpu_id": "0", "value": 0.97,
                 "threshold": 0.95, "since_ms": 1711800000000, "summary": "GPU 0 is nearly full"}],
        probes=[{"family": "gpu_mem", "state": "attached", "why": "", "libraries": []},
                {"family": "nccl", "state": "waiting", "why": "no process maps libnccl.so yet", "libraries": []},
                {"family": "vfs", "state": "unavailable", "why": "needs CAP_BPF", "libraries": []}],
        lost={"ringbuf": 0, "series": 17}, processes=[process(1000, "python", job_id="4711")])
    out = once(v, env={"TZ": "UTC"})
    for text in ("n1  live  zerneld 0.1.0  up 12 s  data of 12:00:00", "critical gpu_oom_warning gpu 0 since 12:00:00",
                 "GPU 0 is nearly full (value 0.97, threshold 0.95)", "pending warning slow since", "launch p50 143us",
                 "p99 893us", "all-reduce p50 34.5ms", "p99 67.5ms", "data loader p50 8.25ms", "40.0G of 80.0G", " 50%",
                 "peak 60.0G", "2 processes", "not attached: nccl (waiting): no process maps libnccl.so yet",
                 "not attached: vfs (unavailable): needs CAP_BPF", "lost: series 17"):
        check(text in out, "%r is not in:\n%s" % (text, out))
    row = next(line for line in out.split("\n") if "python" in line).split()
    check(row == ["1000", "python", "4711", "0", "3.00G", "12.5", "142us", "891us", "7", "67.3ms", "9.25us"], row)
    check(out.index("FIRING") < out.index("pending") < out.index("GPU 0  "), "alerts are not on top")
    check("calm" not in out and "gpu_mem" not in out and "ringbuf" not in out, "shows what is well:\n" + out)
    check(out.count("█") == 20 and out.count("│") == 1, "the bar:\n" + out)
    check("SIMULATED" not in out, "live data called simulated")
    check(max(map(len, out.split("\n"))) <= 120, "wider than 120")
    narrow = once(v, env={"COLUMNS": "33"})
    check(max(map(len, narrow.split("\n"))) == 33, "wider than asked")


def test_unknown_size_has_no_bar():
    out = once(snapshot())
    line = next(li for li in out.split("\n") if li.startswith("GPU 1"))
    check("5.00G of unknown size  peak 6.00G" in line and "%" not in line and "░" not in line, line)


def test_no_data_is_a_dash():
    idle = process(77, "idle", launch={"count": 0, "rate": 0.0, "p50_us": 0.0, "p99_us": 0.0},
                   sync={"count": 0, "p99_us": 0.0}, nccl={"calls": 0, "ops": []})
    none = process(78, "none", launch={"count": 0, "rate": 1.0, "p50_us": 5.0, "p99_us": 6.0},
                   sync={"count": 0, "p99_us": 7.0},
                   nccl={"calls": 0, "ops": [{"op": "send", "calls": 0, "p99_ms": 8.0}]})
    v = snapshot(cuda_latency_p50_us=0.0, cuda_latency_p99_us=0.0, nccl_allreduce_p50_ms=0.0, nccl_allreduce_p99_ms=0.0,
                 dataloader_wait_p50_ms=0.0, processes=[idle, none])
    out = once(v)
    check("launch p50 -  p99 -  all-reduce p50 -  p99 -  data loader p50 -" in out, out)
    for row in ([line.split() for line in out.split("\n") if "idle" in line or "none" in line]):
        check(row[2:] == ["0", "3.00G", "-", "-", "-", "0", "-", "-"], row)
    check(not re.search(r"\b0\.0+[a-z]", out), "a zero that is no measurement:\n" + out)


def test_missing_fields():
    out = once({})
    check("-  -  zerneld -  up -  data of -" in out and "GPU -" in out and "no process" in out, out)
    full = snapshot(alerts=[{"alert": "a", "state": "firing"}], probes=[{"family": "f"}])
    for key in full:
        less = {k: v for k, v in full.items() if k != key}
        once(less)
        once({**less, key: None})
    for key in full["processes"][0]:
        row = {k: v for k, v in full["processes"][0].items() if k != key}
        once(snapshot(processes=[row]))
        once(snapshot(processes=[{**row, key: None}]))
    bare = once(snapshot(processes=[{"pid": 5}], gpus=[{}]))
    check(re.search(r"^ +5 -( +-)+ *$", bare, re.M), "a process of a pid only:\n" + bare)


def test_memory_that_is_not_known():
    """Of a process that used a GPU before the daemon came, and of that GPU, nothing is said; 0 would be wrong."""
    unknown = {"gpu_id": "0", "used_bytes": None, "peak_bytes": None}
    gpu = {**snapshot()["gpus"][0], "used_bytes": None, "peak_bytes": None, "processes": None, "memory_complete": False}
    half = [unknown, {"gpu_id": "1", "used_bytes": 1 << 30, "peak_bytes": 1 << 30}]
    out = once(snapshot(gpus=[gpu, snapshot()["gpus"][1]], jobs=[job(1, gpus=[job_gpu("0", 1.0, 1.0, peak=None)])],
                        processes=[process(6, "idle", gpus=[], memory_complete=False),
                                   process(7, "old", gpus=[unknown]),
                                   process(8, "half", gpus=half), process(9, "young")]),
               env={"COLUMNS": "160"})
    check(re.search(r"^GPU 0 +not known, of 80\.0G: a process used it before the daemon came *$", out, re.M), out)
    check(re.search(r"^GPU 1 +5\.00G of", out, re.M), out)
    cells = {line.split()[0]: line.split() for line in out.split("\n") if re.match(r" +[6-9] ", line)}
    check([[t for t in ("3.00G", "0B", "1.00G") if t in cells[n]] for n in "6789"] == [[], [], [], ["3.00G"]], out)


def test_wrong_types():
    for wrong in (5, -5, 1e308, -1e308, 18446744073709551615, 10 ** 40, "x", "", [], {}, [[]], [{}], {"a": {}}, True):
        base = snapshot(alerts=[{"state": "firing"}], probes=[{"family": "f"}])
        for key in base:
            once({**base, key: wrong})
        for key in base["processes"][0]:
            once(snapshot(processes=[process(1, "x", **{key: wrong})]))
        for key in job(1):
            once(snapshot(jobs=[job(1, **{key: wrong})]))
        for key in job_gpu("0", 1, 2):
            once(snapshot(jobs=[job(1, gpus=[{**job_gpu("0", 0.0, 99.0, 99.0), key: wrong}])]))
        for key in ("used_bytes", "peak_bytes", "total_bytes"):
            once(snapshot(gpus=[{**base["gpus"][0], key: wrong}]))
        for key in ("count", "rate", "p50_us", "p99_us"):
            once(snapshot(processes=[process(1, "x", launch={**base["processes"][0]["launch"], key: wrong})]))


def test_simulated_is_loud():
    out = once(snapshot(source="simulated"))
    check("SIMULATED" in out.split("\n")[1], out)
    with live(snapshot(source="simulated")) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        t.wait_text("SIMULATED", "python")
        t.quit()


def test_json_is_as_received():
    body = body_of(snapshot(processes=[process(1, "día")])) + b"\n"
    with raw(answer(body)) as s:
        check(run("127.0.0.1:%d" % s.port, "--once", "--json") == (0, body, ""), "differs")
    pretty = json.dumps(snapshot(), indent=2).encode()
    with raw(answer(pretty)) as s:
        status, out, _ = run("127.0.0.1:%d" % s.port, "--json", "--once")
        check(status == 0 and out.count(b"\n") == 1 and json.loads(out) == json.loads(pretty), "not one line")


def read_lines(p, count):
    lines = []
    while len(lines) < count:
        check(select.select([p.stdout], [], [], PATIENCE)[0], "no line came")
        lines.append(p.stdout.readline())
        check(lines[-1].endswith(b"\n"), "ended")
    return lines


def json_stream(server, count):
    p = subprocess.Popen([watch_terminal.BINARY, "watch", "--json", "localhost:%d" % server.port],
                         stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, bufsize=0)
    try:
        return [json.loads(line)["uptime_s"] for line in read_lines(p, count)]
    finally:
        p.terminate()
        err = p.communicate()[1]
        check(err == b"", err)


def test_json_stream_over_one_connection():
    with live(snapshot()) as s:
        check(json_stream(s, 3) == [1, 2, 3], "not each answer once, in order")
        check(s.connections == 1, "%d connections" % s.connections)


def test_closed_keepalive_is_no_failure():
    def respond(n):
        return answer(body_of(snapshot(uptime_s=n)))
    for way in ("hang_up", "drop_second"):
        with Server(respond, **{way: True}) as s:
            check(json_stream(s, 3) == [1, 2, 3], "not each answer once, in order")
            check(s.connections == 3, "%d connections, %s" % (s.connections, way))


def test_connection_close_and_http10():
    for head in ("HTTP/1.1 200 OK\r\nConnection: close\r\ncontent-length:%d\r\n\r\n",
                 "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n", "HTTP/1.1 200\r\nContent-Length: %d \r\n\r\n"):
        with Server(lambda n: answer(body_of(snapshot(uptime_s=n)), head)) as s:
            check(json_stream(s, 2) == [1, 2], head)


def test_answer_in_single_bytes():
    data = answer(body_of(snapshot(processes=[])))
    with Server(lambda n: [data[i:i + 1] for i in range(len(data))]) as s:
        check(run("127.0.0.1:%d" % s.port, "--once")[0] == 0, "cut at each byte")


def test_bad_answers():
    good = body_of(snapshot())
    cases = {
        "nothing": b"", "garbage": os.urandom(4096), "no HTTP": b"SSH-2.0-x\r\n\r\n", "NULs": bytes(70000),
        "not found": answer(b"x", "HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n"),
        "strange status": answer(good, "HTTP/1.1 2x0 OK\r\nContent-Length: %d\r\n\r\n"),
        "short status": answer(good, "HTTP/1.1\r\nContent-Length: %d\r\n\r\n"),
        "no length": b"HTTP/1.1 200 OK\r\n\r\n" + good,
        "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
        "negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
        "no digits": b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n{}",
        "over 2^64": b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551618\r\n\r\n{}",
        "over 16 MiB": b"HTTP/1.1 200 OK\r\nContent-Length: 16777217\r\n\r\n",
        "no colon": b"HTTP/1.1 200 OK\r\nContent-Length 2\r\n\r\n{}",
        "endless head": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20000,
        "cut head": b"HTTP/1.1 200 OK\r\nContent-Le", "cut body": answer(good)[:-1],
        "no JSON": answer(b"<html>"), "empty body": answer(b""), "array": answer(b"[]"), "number": answer(b"1"),
        "NUL after": answer(good + b"\0"), "no UTF-8": answer(b'{"node":"\xff"}'), "two values": answer(b"{}{}"),
        "deep": answer(b'{"a":' + b"[" * 100000 + b"]" * 100000 + b"}"),
        "raw control": answer(b'{"node":"\x1b[2J"}'),
    }
    for name, data in cases.items():
        with raw(data, hang_up=True) as s:
            status, out, err = run("127.0.0.1:%d" % s.port, "--once")
        check(status == 1 and out == b"" and is_one_line(err), "%s: %d %r %r" % (name, status, out, err))
        check("\x1b" not in err, name)


def test_cut_json():
    small = body_of({"node": "é", "gpus": [{"used_bytes": 1}], "processes": [{"pid": 1, "launch": {"rate": 1.5}}]})
    for cut in range(len(small)):
        with raw(answer(small[:cut])) as s:
            check(run("127.0.0.1:%d" % s.port, "--once")[0] == 1, "cut at %d" % cut)


def test_mutated_answers():
    rng = random.Random(20240330)
    whole = answer(body_of(snapshot(alerts=[{"alert": "a", "state": "firing", "summary": "x\\u001b"}])))
    for i in range(300):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 1, 2, 5))):
            data[rng.randrange(len(data))] = rng.choice(b'0123456789{}[]",:\\\r\n-e.\x00\xff\x9b'
                + bytes([rng.randrange(256)]))
        with raw(bytes(data), hang_up=True) as s:
            status, out, err = run("127.0.0.1:%d" % s.port, "--once")
        check(status in (0, 1) and (status == 0 or is_one_line(err)), "%d: %d %r\n%r" % (i, status, err, bytes(data)))
        check(not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", out), "%d: %r" % (i, out))


def test_huge_answers():
    many = once(snapshot(processes=[process(i, "p%d" % i) for i in range(1, 3001)]))
    check("p1024 " in many and "p1025 " not in many and "and 1976 more processes" in many, "3000 processes")
    once(snapshot(node="x" * (15 << 20)))
    once(snapshot(alerts=[{"alert": "a" * 100, "state": "firing", "summary": "é" * 900}] * 7000))
    head = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
    body = b'{"node":"n1"' + b" " * ((16 << 20) - 13) + b"}"
    check(len(body) == 16 << 20 and "n1" in once(body), "exactly 16 MiB")
    with raw(answer(body + b" ", head)) as s:
        check(run("127.0.0.1:%d" % s.port, "--once")[0] == 1, "16 MiB and a byte")


EVIL = ["\x1b[2J", "\x1b]0;owned\x07", "\x9b2J", "\x7f\x08\r\n\t", "\u202eabc", "\u200b\u2066", "\ufeff", "\x00x",
        "\ud800",
        "漢字漢字漢字漢字漢字", "e\u0301" * 20, "🚀" * 9, "\u0301", "\u00ad", "a\u2028b"]


def evil_body():
    rows = [process(i + 1, "%s%d" % (e, i), job_id=e, gpus=[{"gpu_id": e, "used_bytes": 1}])
        for i, e in enumerate(EVIL)]
    e = "".join(EVIL)
    jobs = [job(1, job_id=e, user=e, name=e, state=e), job(2, job_id=e, user=e, gpus=[job_gpu(e, 0.0, 99.0, 99.0)])]
    flows = [flow(x, job_id=x, fstype=x) for x in EVIL] + [flow(e, ops={e: {"count": e, "p99_us": e}})]
    ports = [{"device": e, "port": e, "link": e, "active": False, "bytes": {"sent": e}, "errors": {e: 3}}]
    v = snapshot(io=flows, node=e, source=e, version=e, processes=rows, jobs=jobs, gpus=[{"gpu_id": e, "processes": e}],
                 ports=ports, alerts=[{"alert": e, "severity": e, "state": "firing", "gpu_id": e, "value": e, "summary": e}],
                 probes=[{"family": e, "state": e, "why": e}], lost={"k\x1b[2J": 5})
    return json.dumps(v).encode()     # as escapes, so that even lone surrogates get there


def test_hostile_names():
    out = once(evil_body())
    check(not any(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") for c in out if c != "\n"), repr(out))
    raw_c1 = b'{"node":"a\xc2\x9b2Jb\x7fc","processes":[{"pid":1,"comm":"\xc2\x9d0;x\xc2\x9c"}]}'
    out = once(raw_c1)
    check("a?2Jb?c" in out and "?0;x?" in out, out)
    for cols, rows in ((80, 24), (200, 50), (33, 9)):
        with raw(answer(evil_body())) as s, Terminal("127.0.0.1:%d" % s.port, cols, rows) as t:
            t.wait(lambda s: "q quit" in s.text(), "a frame")
            for key in (b"i", b"s"):
                t.press(key + b"jjjj")
                t.wait_text("Tab " + {b"i": "I/O", b"s": "signals"}[key])
            t.press(b"?")
            t.wait_text("Ctrl-C")
            t.quit()
    with raw(answer(raw_c1)) as s, Terminal("127.0.0.1:%d" % s.port, args=["--json", "--once"]) as t:
        check(t.p.wait(PATIENCE) == 0, "--json on a terminal")
        got = b""
        while select.select([t.master], [], [], 0)[0]:
            got += os.read(t.master, 65536)
        check(json.loads(got) == json.loads(raw_c1) and b"\x9b" not in got and b"\x7f" not in got, got)


def test_sizes():
    v = snapshot(processes=[process(i, "proc%d" % i, job_id="job%d" % i) for i in range(1, 61)],
                 gpus=[{"gpu_id": str(i), "used_bytes": i << 30, "peak_bytes": 40 << 30, "total_bytes": 80 << 30,
                        "processes": 1} for i in range(8)],
                 alerts=[{"alert": "a%d" % i, "severity": "warning", "state": "firing", "summary": "s" * 300}
                         for i in range(9)],
                 probes=[{"family": "f%d" % i, "state": "off", "why": "w" * 300} for i in range(9)])
    with live(v) as s:
        for cols, rows in ((80, 24), (40, 10), (200, 50), (500, 80), (20, 3), (7, 2), (1, 1)):
            with Terminal("127.0.0.1:%d" % s.port, cols, rows) as t:
                first = "n1"[:cols] if rows > 1 else "q"
                t.wait(lambda s: s.text().startswith(first) and not s.lenient, "a frame at %dx%d" % (cols, rows))
                seen = s.requests
                t.wait(lambda _: s.requests > seen, "another answer")
                if (cols, rows) in ((80, 24), (200, 50)):
                    t.wait_text("GPU 7", "proc1 ", "and 6 more alerts" if rows == 24 else "and 3 more alerts", "job1")
                if rows == 10:
                    t.wait_text("PID", "proc1 ")
                t.quit()


def test_resize():
    with live(snapshot()) as s, Terminal("127.0.0.1:%d" % s.port, 80, 24) as t:
        t.wait_text("python", "q quit")
        for cols, rows in ((40, 10), (120, 40), (60, 12)):
            while t.pump(0):
                pass
            t.screen.resize(cols, rows)
            t.size(cols, rows)
            t.wait(lambda s: s.text().split("\n")[-1].startswith("q quit") and s.text().startswith("n1"), "a new frame")
        t.quit()


def pids_shown(screen):
    return [int(m) for m in re.findall(r"^ *(\d+) proc", screen.text(), re.M)]


def test_sorting_keys():
    rows = [process(pid, "proc%d" % pid, gpus=[{"gpu_id": "0", "used_bytes": memory << 20}],
                    launch={"count": 9, "rate": rate, "p50_us": 1.0, "p99_us": p99})
            for pid, memory, rate, p99 in ((3, 10, 7.0, 50.0), (1, 30, 5.0, 90.0), (2, 20, 9.0, 70.0))]
    with live(snapshot(processes=rows)) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        t.wait(lambda s: pids_shown(s) == [1, 2, 3], "by memory at first")
        for key, order, name in ((b"l", [2, 3, 1], "launch rate"), (b"m", [1, 2, 3], "memory"),
                                 (b"9", [1, 2, 3], "p99"),
                                 (b"l", [2, 3, 1], "launch rate"), (b"p", [1, 2, 3], "pid")):
            t.press(key)
            t.wait(lambda s: pids_shown(s) == order and "sort p m l 9: " + name in s.text(), "%r" % key)
        t.quit()


def test_scrolling():
    rows = [process(i, "proc%d" % i) for i in range(1, 101)]
    with live(snapshot(processes=rows)) as s, Terminal("127.0.0.1:%d" % s.port, 80, 12) as t:
        t.wait(lambda s: pids_shown(s)[:1] == [1] and "of 100 " in s.text(), "the top")
        page = len(pids_shown(t.screen))
        for keys, first in ((b"j", 2), (b"jj", 4), (b"k", 3), (b"\x1b[B", 4), (b"\x1bOB", 5), (b"\x1b[A", 4),
                            (b"kkkkkkkk", 1), (b"\x1b[6~", 1 + page), (b"\x1b[5~", 1), (b"\x1b[1;5C\x1b[H\x1bj", 2),
                            (b"\x1b[6;5~", 2 + page), (b"\x1b[15~", 2 + page), (b"\x1b[3;5~", 2 + page),
                            (b"\x1b[5;2~", 2),
                            (b"j" * 200, 101 - page), (b"k" * 200, 1)):
            t.press(keys)
            t.wait(lambda s: pids_shown(s)[:1] == [first], "%d after %r" % (first, keys))
        check(len(pids_shown(t.screen)) == page, "lines are missing")
        t.quit()


def test_help():
    with live(snapshot()) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        t.wait_text("python")
        t.press(b"?")
        t.wait_text("Ctrl-C", "sort by pid", "there is no measurement")
        t.wait_gone("python")
        t.press(b"?")
        t.wait_text("python")
        t.quit()


def flow(mount="/data", **more):
    """The files of a job on a mount, as the snapshot has them."""
    f = {"job_id": "4711", "mount": mount, "fstype": "nfs4", "read_bytes": 7 << 30, "write_bytes": 1 << 20,
         "mapped_bytes": 0,
         "copied_bytes": 0, "read_bytes_per_s": 3 << 20, "write_bytes_per_s": 1024,
         "ops": {"read": {"count": 70, "errors": 2, "rate": 12.5, "p50_us": 8.0, "p99_us": 450.0},
                 "write": {"count": 9, "errors": 1, "rate": 2.5, "p50_us": 1.0, "p99_us": 25.5},
                 "fsync": {"count": 4, "errors": 0, "rate": 0.0, "p50_us": None, "p99_us": None}}}
    f.update(more)
    return f


def server(number, **more):
    """An inference server, whose second route has answered nothing lately."""
    of = lambda count, p50, p99: {"count": count, "p50_ms": p50, "p99_ms": p99}
    recent = {"seconds": 40.0, "rate": 6.25, "requests": {"2xx": 240, "3xx": 0, "4xx": 0, "5xx": 10, "aborted": 3},
              "error_ratio": 0.04,
              "events": 9000, "duration": of(250, 1107.0, 1210.0), "first_event": of(250, 180.0, 2390.0),
              "event_gap": of(8000, 23.5, 34.5)}
    quiet = {"seconds": 40.0, "rate": 0, "requests": {}, "error_ratio": None, "events": 0,
             "duration": of(0, None, None),
             "first_event": of(0, None, None), "event_gap": of(0, None, None)}
    s = {"pid": number, "comm": "vllm", "role": "front", "service": number, "port": 8000, "job_id": "",
         "connections": {"http1": 7}, "held": {"first": 0, "later": 0},
         "unread": {"count": 260, "p50_ms": 3.0, "p99_ms": 812.0, "sum_ms": 9.0},
         "rtt": None,
         "step": {"rate": 9.5, "errors": 0.25, "in_flight": 12, "first_event_p50_ms": 180.0, "first_event_p99_ms": 2390.0,
                  "event_gap_p50_ms": 23.5, "event_gap_p99_ms": None},
         "p99_lines": {"first_event": {"highest_ms": 2390.0, "levels": "1 128"},
                       "event_gap": {"highest_ms": 0, "levels": "  "}},
         "waits": {"first_event": {"unusual": True, "says": "requests lie unread 814ms, usually 3.18ms"},
                   "event_gap": {"unusual": False, "says": ""}},
         "slowest": [{"route": "/v1/chat/completions", "code": "2xx", "duration_ms": 1500.0, "first_event_ms": 700.5,
                      "events": 40, "waited": "unread 823ms, engine asleep 63 %", "exact": False},
                     {"route": "other", "code": "aborted", "duration_ms": 20.0, "first_event_ms": None,
                      "events": 0, "waited": "", "exact": True}],
         "routes": [{"route": "/v1/chat/completions", "requests": {}, "in_flight": 12, "events": 12345,
                     "in_flight_s": 9.5, "duration": None,
                     "first_event": None, "event_gap": None, "recent": recent},
                    {"route": "other", "requests": {}, "in_flight": 0, "events": 0, "in_flight_s": 0, "duration": None,
                     "first_event": None, "event_gap": None, "recent": quiet}]}
    s.update(more)
    return s


STALLS = {"cpu": 0.5, "gpu": 0.25, "data": 0.125, "dist": 0.0, "io": 0.05, "runqueue": 0.05, "other": 0.025,
          "seconds": {"cpu": 1.5}, "says": "rank 3 waits for data 13 % of its time; its 4 loader workers are busy"}


WHY = [{"job_id": "4711", "processes": 4, "says": "75 % of the time is lost to a rank that does not come",
        "causes": [{"cause": "hang", "percent": 75, "says": "75 % of the time is lost to a rank that does not come",
                    "next": "look at process 7"},
                   {"cause": "idle", "percent": 12, "says": "12 % of the time passes", "next": "see"}] * 8},
       {"job_id": None, "processes": 1, "says": "no cause found: 71 % waits for the GPU", "causes": []}]


def full():
    """A snapshot with something in each view, and more than a screen holds in most."""
    rows = [process(i, "proc%d" % i, job_id="4711", stalls=STALLS,
                    dataloader={"count": 40 + i, "p50_ms": 8.0, "p99_ms": 12.5}) for i in range(1, 31)]
    alerts = [{"alert": "gpu_oom_warning", "severity": "critical", "state": "firing", "gpu_id": str(i), "value": 0.97,
               "threshold": 0.95, "since_ms": 1711800000000, "summary": "GPU %d is nearly full" % i} for i in range(20)]
    probes = [{"family": "nccl", "state": "attached", "why": "", "libraries": [
                  {"path": "/opt/libnccl.so.%d" % i, "attached": i, "symbols": 12, "why": ""} for i in range(20)]},
              {"family": "vfs", "state": "unavailable", "why": "needs CAP_BPF", "libraries": []}]
    jobs = [job(4711 + i) for i in range(20)]
    flows = [flow("/mnt/%d" % i, read_bytes_per_s=i << 20) for i in range(1, 31)]
    servers = [server(900 + i) for i in range(15)]
    return snapshot(processes=rows, alerts=alerts, probes=probes, jobs=jobs, io=flows, why=WHY, servers=servers,
                    lost={"ringbuf": 0, "series": 17, "of_the_future": 3})


# key, name, what its first screen shows, one line of it by columns
VIEWS = (
    (b"n", "NCCL", ["OPERATION", "BYTES"], r"1 proc1 +0/8 all_reduce +7 +123B +0 34\.0ms 67\.3ms"),
    (b"w", "waits", ["LOAD50", "runq"], r"1 proc1 +8\.00ms 12\.5ms 1\.50us 9\.25us +50% +25% +12% +0% +5% +5% +2%"),
    (b"s", "signals", ["SYS/L", "RUNQ99"], r"1 proc1 +12\.5 +891us +- +- +- +- +-"),
    (b"i", "I/O", ["MOUNT", "OPS/s", "SYNC99"], r"4711 +/mnt/30 +nfs4 +30\.0M +1\.00K +15 +450us 25\.5us +- +3"),
    (b"r", "requests", ["ROUTE", "TTFT99", "DUR50"],
     r"900 +/v1/chat/compl\S* +12 +6\.2 +4% +180ms +2\.39s 34\.5ms +1\.11s +1\.21s"),
    (b"v", "serving", ["vllm, process 900: 12 in flight, 9.5 requests/s, 0.2/s answered by 5xx", "SLOWEST",
                       "requests lie unread 814ms, usually 3.18ms"],
     r"first event +p50 +180ms +p99 +2\.39s +15 min up to +2\.39s"),
    (b"b", "jobs", ["STATE", "IDLE"], r"4711 +running user1000 +train +1:02:03 0,1 +- +75% +8 +123k"),
    (b"y", "why", ["job 4711"], r"next: look at process 7"),
    (b"a", "alerts", ["FIRING  critical"], r"value 0\.97, threshold 0\.95: GPU 0 is nearly full"),
    (b"h", "hooks", ["nccl: attached"], r"1 of 12 functions of /opt/libnccl\.so\.1"),
    (b"x", "losses", ["of_the_future"], r"series +17  histograms that a process or a series did not get"),
    (b"t", "processes", ["LNCH/s", "NCCL99"], r"1 proc1 +4711 +0 +3\.00G +12\.5 +142us +891us"),
)


def test_views():
    with live(full()) as s:
        for cols, rows in ((80, 24), (160, 50), (30, 8)):
            with Terminal("127.0.0.1:%d" % s.port, cols, rows) as t:
                t.wait_text("Tab processes")
                for key, name, texts, line in VIEWS:
                    t.press(key)
                    t.wait_text(("Tab " + name)[:cols - 16])
                    if cols >= 80:
                        t.wait(lambda s: all(x in s.text() for x in texts) and re.search(line, s.text()),
                            "view " + name)
                    t.press(b"j" * 100 + b"k" * 100)
                for key, name, _, _ in VIEWS:    # in the order of the table, from the first one on
                    t.press(b"\t")
                    t.wait_text(("Tab " + name)[:cols - 16])
                t.quit()


def test_an_alert_without_a_limit():
    """Its summary is all there is to say."""
    v = snapshot(alerts=[{"alert": "gpu_lost", "severity": "critical", "state": "firing", "gpu_id": "0", "value": 1,
                          "threshold": None, "since_ms": 1711800000000, "summary": "GPU 0 is lost"}])
    out = once(v)
    check(re.search(r": GPU 0 is lost\n", out) and "threshold" not in out, out)
    with live(v) as s, Terminal("127.0.0.1:%d" % s.port, 120, 50) as t:
        t.press(b"a")
        t.wait(lambda s: "Tab alerts" in s.text() and re.search(r"\n  GPU 0 is lost *\n", s.text()), "its summary")
        check("threshold" not in t.screen.text(), t.screen.text())
        t.quit()


BAR = "c" * 18 + "g" * 9 + "d" * 5 + "i" + "r" * 2 + "o"    # of 36


def test_what_the_slowest_requests_waited_for():
    with live(full()) as s, Terminal("127.0.0.1:%d" % s.port, 120, 50) as t:
        t.press(b"v")
        t.wait(lambda s: re.search(r"/v1/chat/completions +2xx +1\.50s +700ms +40 +unread 823ms, engine asleep 63 %\s",
                                   s.text()), "a request of many")
        t.wait(lambda s: re.search(r"other +aborted +20\.0ms +- +0 +-, alone", s.text()), "one that was alone")
        t.wait(lambda s: re.search(r"up to +2\.39s ▁ ▁▂█", s.text()), "the line of 15 minutes")
        t.quit()


def test_bars_of_waits():
    v = snapshot(processes=[process(1, "proc1", stalls=STALLS),
        process(2, "unknown", launch={"count": 9, "rate": 1.0})])
    with live(v) as s:
        for cols, says in ((160, BAR + "  " + STALLS["says"]), (80, " " * 8 + STALLS["says"])):
            with Terminal("127.0.0.1:%d" % s.port, cols, 24) as t:
                t.press(b"w")
                t.wait_text("c cpu  g gpu  d data  n dist  i io  r runqueue  o other", says)
                y = t.screen.row_with("ccccc")
                line = t.screen.text().split("\n")[y].strip()
                check(len(line) == (72 if cols == 80 else len(BAR) + 2 + len(STALLS["says"])), line)
                styles = {c: t.screen.styles[y][8 + line.index(c)] for c in "cgdiro"}
                check(len(set(styles.values())) == 6, "a colour for each: %s" % styles)
                y = t.screen.row_with("2 unknown")
                check(t.screen.text().split("\n")[y + 1].strip() in ("", "proc1"), "a bar of what is not known")
                t.quit()
        with Terminal("127.0.0.1:%d" % s.port, 160, 24, env={"NO_COLOR": "1"}) as t:
            t.press(b"w")
            t.wait_text(BAR)
            check(not t.screen.sgr_seen, "colours where there must be none")
            t.quit()


def test_bars_of_impossible_shares():
    for wrong in (-1, 1e300, 7, "x", None, [], True):
        odd = {**{k: wrong for k in STALLS}, "says": "it says"}
        rest = {**STALLS, "cpu": 1.0, "gpu": 1.0}
        with live(snapshot(processes=[process(1, "odd", stalls=odd), process(2, "rest", stalls=rest)])) as s:
            with Terminal("127.0.0.1:%d" % s.port, 120, 24) as t:
                t.press(b"w")
                t.wait_text("it says", "c" * 36 + "  rank 3")
                t.quit()


def test_views_scroll_to_their_ends():
    ends = {b"n": "30 proc30 .*comm_init", b"w": "30 proc30.*\n.*ccc", b"i": "/mnt/1 ",
            b"r": "914 +other +0 +0 +- +- +- ", b"b": "4730", b"a": "GPU 19 is nearly full",
            b"h": "vfs: unavailable: needs CAP_BPF", b"t": "30 proc30"}
    with live(full()) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        for key, last in ends.items():
            t.press(b"p" + key + b"j" * 200)
            t.wait(lambda s: re.search(last, s.text()) and re.search(r"-(\d+) of \1\b", s.text()), last)
        t.quit()


def test_empty_views():
    empty = snapshot(processes=[], jobs=[], alerts=[], why=[], probes=[], lost={})
    with live(empty) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        for key, text in ((b"t", "no process has called a hooked library"), (b"n", "no process has called NCCL"),
                          (b"i", "no file I/O has been counted"), (b"r", "no inference server is known"),
                          (b"v", "no inference server is known"),
                          (b"b", "no job is known"), (b"y", "nothing has launched work"),
                          (b"a", "no alert is pending"), (b"h", "nothing of its hooks"),
                          (b"x", "nothing of losses")):
            t.press(key)
            t.wait_text(text)
        t.quit()


def test_what_most_time_is_lost_to_is_on_top():
    with live(full()) as s, Terminal("127.0.0.1:%d" % s.port, 120, 50) as t:
        t.wait_text("job 4711: 75 % of the time is lost to a rank that does not come")
        text = t.screen.text()
        check(text.index("FIRING") < text.index("job 4711: 75 %") < text.index("GPU 0  "), "it is not on top")
        t.press(b"y")
        t.wait_text("processes of no job", "no cause found: 71 %")
        t.quit()


def why_of(job_id, state, says, **more):
    return {"job_id": job_id, "processes": 4, "says": says, "state": state, "lost_percent": 43, "progress_age_s": 70.5,
            "missing_pid": None,
            "missing_rank": None, "late_pid": None, "causes": [], "steps": 9, "step": {"gpu": 56}, "bands": "g0d4. h8",
            **more}


def rank_of(pid, rank, job_id="4712", **shares):
    return process(pid, "proc", job_id=job_id, stalls={**STALLS, "cpu": 0.0, "gpu": 0.0, "data": 0.0, "dist": 0.0,
        **shares},
                   nccl={"ops": [], "comms": [{"comm": "a", "rank": rank, "nranks": 4}]})


def test_each_job_is_on_top_with_its_line_and_its_ranks():
    ranks = [rank_of(10, 0, dist=0.9), rank_of(11, 1, dist=0.9), rank_of(12, 2, other=1.0), rank_of(13, 3, dist=0.9),
             rank_of(20, 0, "4711", gpu=0.9), rank_of(21, 1, "4711", gpu=0.9), rank_of(22, 2, "4711", data=0.75),
             rank_of(23, 3, "4711", gpu=0.9)]
    why = [why_of("4710", "runs", "no cause found"), why_of("4713", "still", "it sleeps"),
           why_of("4711", "loses", "43 % of the time is waiting for data",
                  labels=[{"key": "epoch", "value": "3"}, {"key": "phase", "value": "a b"}]),
           why_of("4712", "hangs", "75 % of the time is lost to a rank", missing_pid=12, missing_rank=2)]
    with live(snapshot(processes=ranks, why=why)) as s:
        with Terminal("127.0.0.1:%d" % s.port, 120, 60) as t:
            t.wait_text("job 4712 hangs: 75 %", "job 4713 stands still for",
                "job 4711 loses 43 %: 43 % of the time is waiting for data [epoch=3 phase=a b]",
                "job 4710 running fine: no cause")
            text = t.screen.text()
            places = [text.index("job %d " % job) for job in (4712, 4713, 4711, 4710)]
            check(places == sorted(places) and places[-1] < text.index("GPU 0  "), "most trouble first: %s" % places)
            check(text.count("15 min ▁▄.█ ") == 4, "the line of 15 minutes: " + text)
            check("ranks   !2 other 100% (12, does not come)  0 dist 90%  1 dist 90%  3 dist 90%" in text,
                "the missing one: " + text)
            check("ranks   !2 data 75% (22, other than the rest)  0 gpu 90%  1 gpu 90%  3 gpu 90%" in text,
                "the odd one: " + text)
            line = text.split("\n")[t.screen.row_with("15 min")]
            styles = [t.screen.styles[t.screen.row_with("15 min")][line.index("▁▄.█") + i] for i in (0, 1, 3)]
            check(len(set(styles)) == 3, "a colour for each cause: %s" % styles)
            t.quit()
        with Terminal("127.0.0.1:%d" % s.port, 120, 60, env={"NO_COLOR": "1"}) as t:
            t.wait_text("15 min -d.h  h hang n ranks d data")
            t.quit()
        with Terminal("127.0.0.1:%d" % s.port, 80, 20) as t:
            t.wait_text("job 4712 hangs", "ranks   !2", "job 4713 stands still", "and 2 more jobs: key y",
                "Tab processes")
            t.quit()
        with Terminal("127.0.0.1:%d" % s.port, 60, 10) as t:
            t.wait_text("job 4712 hangs", "Tab processes")
            check("15 min" not in t.screen.text(), "a small screen has the sentence alone")
            t.quit()
    two = [rank_of(10, 0, dist=0.9), rank_of(11, 1, gpu=0.9)]
    for odd in ({"bands": "zzz\x1b9"},
            {"bands": 5, "missing_pid": "x", "state": 7, "labels": [5, {"key": 3}, {"key": "a\x1b", "value": "\x07"}]},
            {"bands": "h", "late_pid": -1, "says": None, "lost_percent": []}):
        with live(snapshot(processes=two,
                why=[{**why_of("4712", "loses", "it"), **odd}])) as s, Terminal("127.0.0.1:%d" % s.port, 120, 40) as t:
            t.wait_text("job 4712", "ranks   0 dist 90%  1 gpu 90%")    # of two neither is the odd one
            t.quit()


def test_a_wait_for_a_rank_is_no_wait_for_the_gpu():
    ranks = [rank_of(10, 0, gpu=0.9, waits_for_pid=12, all_wait=False, stopped=None),
             rank_of(11, 1, gpu=0.5, dist=0.4, waits_for_pid=12),
             rank_of(12, 2, other=1.0, stopped="signal"), rank_of(20, 0, "4711", gpu=1.0, all_wait=True),
             rank_of(21, 1, "4711", gpu=1.0, all_wait=True)]
    says = "75 % of the time is lost to a rank that does not come: rank 2, process 12, is asleep, stopped by a signal or a debugger, for 41 s"
    why = [why_of("4710", "runs", "no cause found"), why_of("4711", "waits", "50 % of the time passes"),
           why_of("4713", "stopped", "it is stopped"),
           why_of("4712", "hangs", says, missing_pid=12, missing_rank=2,
                  ras={"says": "rank 9 is behind", "outcome": "answered"},
                  causes=[{"cause": "hang", "percent": 75, "says": says,
                           "next": "look at that process: its stack (py-spy dump --pid, gdb -p), its log, its node's "
                                   "kernel log"}])]
    with live(snapshot(processes=ranks, why=why)) as s:
        with Terminal("127.0.0.1:%d" % s.port, 120, 60) as t:
            t.wait_text("job 4712 hangs: 75 %", "ranks   !2 (12, stopped)  0 waits 90%  1 waits 90%",
                        "job 4713 is stopped: it is",
                        "job 4711 all its ranks wait: 50 %", "ranks   0 waits 100%  1 waits 100%",
                        "job 4710 running fine")
            t.press(b"w")
            t.wait(lambda s: re.search("h{30,}", s.text()) and "h a rank" in s.text(), "the wait is for a rank")
            t.quit()
        with Terminal("127.0.0.1:%d" % s.port, 80, 24) as t:
            t.wait_text("job 4712 hangs: 75 % of the time is lost to a rank that does not come: rank 2,",
                        "    process 12, is asleep, stopped by a signal or a debugger, for 41 s",
                        "  next: look at that process: its stack (py-spy dump --pid, gdb -p), its log,",
                        "    its node's kernel log", "ranks   !2 (12, stopped)", "more jobs: key y")
            t.press(b"y")
            t.wait_text("  75 % of the time is lost to a rank that does not come: rank 2, process 12, is",
                        "    asleep, stopped by a signal or a debugger, for 41 s",
                        "    next: look at", "      its node's kernel log", "  other nodes: rank 9 is behind")
            text = t.screen.text()
            places = [text.index("job %d" % job) for job in (4712, 4713, 4711, 4710)]
            check(places == sorted(places), "most trouble first: " + text)
            t.quit()


def test_views_survive_anything():
    for wrong in (None, 5, "x", [], {}, [[]], [{}], {"a": {}}, [5, "x", None]):
        v = full()
        for key in ("processes", "io", "jobs", "alerts", "why", "probes", "lost"):
            v[key] = wrong
        v["servers"] = [server(900, step=wrong, p99_lines=wrong, waits=wrong, slowest=wrong, routes=wrong),
                        server(901, slowest=[wrong], p99_lines={"duration": {"highest_ms": 1, "levels": wrong}}), wrong]
        odd = process(1, "odd", nccl=wrong, dataloader=wrong, stalls=wrong, sync=wrong,
                      launch={"count": 1, "recent": wrong},
                      signals=wrong, anomalies=wrong)
        for value in (v, {**full(), "processes": [odd]},
                {**full(), "io": [flow(wrong, ops=wrong), {"ops": {"read": wrong}}]}, json.loads(evil_body())):
            with raw(answer(json.dumps(value).encode())) as s, Terminal("127.0.0.1:%d" % s.port) as t:
                t.wait_text("q quit")
                for key, name, _, _ in VIEWS:
                    t.press(key)
                    t.wait_text("Tab " + name)
                t.quit()


def test_io_the_busiest_first():
    quiet = {"read": {"count": 5, "errors": 0, "rate": 0.0, "p50_us": 1.0, "p99_us": 2.0}}
    busy = {"stat": {"count": 5, "errors": 5, "rate": 900.0, "p50_us": None, "p99_us": None}}
    v = snapshot(io=[flow("/quiet", read_bytes_per_s=0, write_bytes_per_s=0, ops=quiet, job_id=""),
                     flow("/names", read_bytes_per_s=0, write_bytes_per_s=0, ops=busy),
                     flow("/written", read_bytes_per_s=1, write_bytes_per_s=5 << 30),
                     flow("/read", read_bytes_per_s=4 << 30)])
    with raw(answer(body_of(v))) as s:
        status, out, err = run("127.0.0.1:%d" % s.port, "--once", verb="top", env={"COLUMNS": "120"})
    check(status == 0, err)
    lines = out.decode().split("\n")
    at = next(i for i, text in enumerate(lines) if text.startswith("JOB "))
    equal([text.split()[1] for text in lines[at + 1:at + 5]], ["/written", "/read", "/names", "/quiet"])
    equal(lines[at].split(), "JOB MOUNT TYPE READ/s WRIT/s OPS/s READ99 WRIT99 SYNC99 ERRS READ WRITTN OPEN99 MAPPED "
                             "OPS".split())
    equal(lines[at + 1].split(), "4711 /written nfs4 1B 5.00G 15 450us 25.5us - 3 7.00G 1.00M - 0B 83".split())
    equal(lines[at + 3].split(), "4711 /names nfs4 0B 0B 900 - - - 5 7.00G 1.00M - 0B 5".split())
    equal(lines[at + 4].split(), "- /quiet nfs4 0B 0B 0 2.00us - - 0 7.00G 1.00M - 0B 5".split())


def test_unusual_signals():
    rows = [process(1, "calm", anomalies={}), process(2, "wild", anomalies={"launch_p99": 12.25, "syscalls": -8}),
            process(3, "new", anomalies=None)]
    with live(snapshot(processes=rows)) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        t.wait_text("Tab processes")
        t.press(b"ps")
        t.wait_text("unusual, in standard deviations:  launch_p99 +12.2  syscalls -8", "1-4 of 4")
        equal(t.screen.row_with("unusual"), t.screen.row_with("2 wild") + 1)
        equal(t.screen.text().count("unusual"), 1)
        t.quit()


def test_what_failed_of_a_process():
    lost = {"count": 1234567, "error": "CUDA_ERROR_ILLEGAL_ADDRESS", "call": "cuStreamSynchronize", "context_lost": True,
            "age_s": 62.5, "last_age_s": 1.5, "errors": [], "calls": []}
    rdma = {"count": 7, "call": "reg_mr", "errno": "ENOSPC", "last_age_s": 5.25, "calls": []}
    rows = [process(1, "calm"), process(2, "lost", cuda_errors=lost, rdma_errors=rdma),
            process(3, "odd", cuda_errors={**lost, "call": None, "context_lost": False, "error": "other\x1b[2J", "count": 1}),
            process(4, "asleep", blocked={"tid": 44, "seconds": 3725.5, "in": "nfs_wait_bit_killable"}),
            process(5, "deep", blocked={"tid": 55, "seconds": 9.5, "in": None})]
    with live(snapshot(processes=rows)) as s, Terminal("127.0.0.1:%d" % s.port, 120) as t:
        t.wait_text("Tab processes")
        t.press(b"ps")
        t.wait_text("CUDA_ERROR_ILLEGAL_ADDRESS in cuStreamSynchronize 1 min 2 s ago, its context is lost; calls that failed: 1.23M",
                    "RDMA: reg_mr ENOSPC 5 s ago; calls that failed: 7", "[2J 1 min 2 s ago; calls that failed: 1",
                    "thread 44 in state D for 1 h 2 min, in nfs_wait_bit_killable", "thread 55 in state D for 9 s")
        equal([t.screen.row_with(text) - t.screen.row_with("1 calm") for text in (
            "2 lost", "_ILLEGAL_ADDRESS", "RDMA", "3 odd", "[2J", "4 asleep", "thread 44", "5 deep", "thread 55")],
            list(range(1, 10)))
        equal(t.screen.text().count("context is lost"), 1)
        t.quit()


def test_jobs_with_idle_gpus_are_loud():
    idle = [job_gpu("0", 5.0, 725.0, 723.0), job_gpu("1", 800.5, 0.0), job_gpu("2", 0.0, 800.0, 800.0),
        job_gpu("3", 9.0, 9.0, 59.9)]
    v = snapshot(jobs=[job(4711), job(4712, user="", gpus=idle), job(4713, state="ending", gpus=idle),
                       job(4714, state="ended", end_ms=1711800000000, gpus=idle), job(4715, gpus=[])])
    line = "IDLE    job 4712 of - has GPUs that it does not use: 0 for 12 min 3 s, 2 since it began\n"
    out = once(v)
    check(out.count("IDLE") == 1 and line in out and out.index(line) < out.index("GPU 0  "), out)
    check("IDLE" not in once(snapshot(jobs=[job(4711)])), "a busy job")
    rows = ((4711, "running", "-"), (4712, "running", "0,2"), (4713, "ending", "-"), (4714, "ended", "-"))
    with live(v) as s, Terminal("127.0.0.1:%d" % s.port, 160) as t:
        t.wait_text("IDLE    job 4712", "q quit")
        t.press(b"b")
        for number, state, idles in rows:
            t.wait(lambda s: re.search(r"^%d +%s .* %s +\d+%%" % (number, state, idles), s.text(), re.M), "%d" % number)
        t.wait(lambda s: re.search(r"^4715 +running .* 1:02:03 - +- +- +8 +123k +0B +7\.00T gpu +lab +4", s.text(),
            re.M), "no GPU")
        t.wait(lambda s: "0;31" in s.styles[s.row_with("4712 ")] and "0;31" not in s.styles[s.row_with("4711 ")],
            "the row")
        t.quit()
    many = snapshot(jobs=[job(i, gpus=[job_gpu(str(g), 0, 900, 900) for g in range(200)]) for i in range(300)])
    with live(many) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        t.wait_text("IDLE    job 0 ", "IDLE    job 2 ", "and 297 more jobs with idle GPUs", "python")
        t.quit()


def test_ports_in_trouble_come_first():
    ports = [{"device": "mlx5_0", "port": 1, "link": "InfiniBand", "active": True, "rate_mbit": 400000,
              "bytes": {"sent": 3 << 30, "received": 2 << 30}, "errors": {"symbol": 0}},
             {"device": "mlx5_1", "port": 2, "link": "Ethernet", "active": True, "rate_mbit": None, "bytes": {},
              "errors": {"symbol": 7, "discard": 0, "ack_timeout": 2}},
             {"device": "mlx5_2", "port": 1, "link": "InfiniBand", "active": False, "rate_mbit": 2500, "bytes": {}}]
    out = once(snapshot(ports=ports))
    lines = [line for line in out.split("\n") if line.startswith("port ")]
    check(lines == ["port mlx5_1/2 Ethernet active  sent -  received -  7 symbol  2 ack_timeout",
                    "port mlx5_2/1 InfiniBand down 2.5 Gb/s  sent -  received -",
                    "port mlx5_0/1 InfiniBand active 400 Gb/s  sent 3.00G  received 2.00G"], lines)
    check("port " not in once(snapshot()), "a node without ports")
    with live(snapshot(ports=ports * 8)) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        t.wait_text("port mlx5_1/2", "more ports")
        t.quit()


def test_names_of_gpus():
    for ids, text in ((["0"], "0"), (["0", "1"], "0,1"), (["0", "1", "2"], "0-2"), (["3", "1", "2"], "3,1,2"),
                      (["0", "2", "3", "4", "9"], "0,2-4,9"),
                      (["1", "1"], "1,1"), (["unknown"], "unknown"), (["0", "x", "1"], "0,x,1"), (["00", "1"], "00,1"),
                      (["0", "01"], "0,01"),
                      ([], "-"), ([""], "-"), (["7", "", "8"], "7,-,8"), (["99999", "100000"], "99999,100000"),
                      ([str(i) for i in range(64)], "0-63")):
        out = once(snapshot(processes=[process(1, "proc1", gpus=[{"gpu_id": i, "used_bytes": 1} for i in ids])]),
            env={"COLUMNS": "120"})
        row = next(line for line in out.split("\n") if "proc1" in line).split()
        check(row[2] == text[:8] or row[2] == text, "%s: %s" % (ids, row))


def test_elapsed_time_of_jobs():
    for seconds, text in ((0, "0:00:00"), (59.9, "0:00:59"), (86399, "23:59:59"), (86400, "1-00:00"),
                          (1e6 + 0.5, "11-13:46"),
                          (-5, "0:00:00"), (None, "-"), ("x", "0:00:00")):
        v = snapshot(jobs=[job(4711, elapsed_s=seconds)])
        with live(v) as s, Terminal("127.0.0.1:%d" % s.port) as t:
            t.press(b"b")
            t.wait(lambda s: re.search(r"^4711 +running user1000 +train +%s " % text, s.text(), re.M), text)
            t.quit()


def test_recent_launches():
    """What happens now is shown where the daemon tells it, and else what was since the start."""
    recent = {"count": 9, "rate": 5.0, "p50_us": 142.0, "p99_us": 891.0,
        "recent": {"rate": 5.0, "p50_us": 11.0, "p99_us": 22.0}}
    idle = {**recent, "recent": {"rate": 0.0, "p50_us": 0.0, "p99_us": 0.0}}
    v = snapshot(processes=[process(1, "now", launch=recent), process(2, "idle", launch=idle),
                            process(3, "all", launch={**recent, "recent": None})])
    for name, p50, p99 in (("now", "11.0us", "22.0us"), ("idle", "-", "-"), ("all", "142us", "891us")):
        row = next(line for line in once(v).split("\n") if " %s " % name in line).split()
        check(row[5:7] == [p50, p99], row)
    with live(v) as s, Terminal("127.0.0.1:%d" % s.port, 200) as t:
        t.press(b"9")
        t.wait(lambda s: re.findall(r"^ +(\d) ", s.text(), re.M) == ["3", "1", "2"], "sorted by what is shown")
        t.wait_text("LNCH/s, last 60 s", "p99, last 60 s")
        t.quit()
    with live(snapshot()) as s, Terminal("127.0.0.1:%d" % s.port, 200) as t:
        t.wait_text("LNCH/s, last 60 s")
        check("p99, last 60 s" not in t.screen.text(), "a column of nothing")
        t.quit()


def test_dumb_terminal():
    with live(snapshot()) as s, Terminal("127.0.0.1:%d" % s.port, env={"TERM": "dumb"}) as t:
        check(t.p.wait(PATIENCE) == 2 and b"TERM=dumb cannot show a screen" in t.p.stderr.read(), "it tried")
        check(not t.pump(0), "wrote to the terminal")
    with live(snapshot()) as s, Terminal("127.0.0.1:%d" % s.port, env={"TERM": "dumb"}, args=["--once"]) as t:
        t.wait_text("python")
        check(t.p.wait(PATIENCE) == 0 and not t.screen.sgr_seen and not t.screen.alternate, "--once")


def test_ends():
    for how, status in ((b"q", 0), (b"\x03", 0), (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
        with live(snapshot()) as s, Terminal("127.0.0.1:%d" % s.port) as t:
            t.wait_text("python", "q quit")
            check(t.screen.alternate and not t.screen.cursor, "no screen of its own")
            check(termios.tcgetattr(t.slave) != t.before, "no raw mode")
            if isinstance(how, bytes):
                t.press(how)
            else:
                t.p.send_signal(how)
            check(t.end() == status, "%r: exit %s" % (how, t.p.returncode))


def test_colors():
    with live(snapshot()) as s:
        for env, want in (({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": ""}, False)):
            with Terminal("127.0.0.1:%d" % s.port, env=env) as t:
                t.wait_text("python", "q quit")
                check(t.screen.sgr_seen == want, env)
                t.quit()


def test_daemon_goes_and_comes_back():
    for env in ({}, {"NO_COLOR": "1"}):
        first = live(snapshot(), free_port())
        with first, Terminal("127.0.0.1:%d" % first.port, env={"TZ": "UTC", **env}) as t:
            t.wait_text("python", "q quit")
            check("no answer" not in t.screen.text(), "stale at once")
            first.stop()
            t.wait(lambda s: re.search(r"no answer since \d+ s; last data from 12:00:\d\d: Connection refused",
                s.text()),
                   "no answer")
            if env:
                t.wait_gone("python")
                check("143us" not in t.screen.text(), "stale numbers look live")
            else:
                t.wait(lambda s: "0;2" in s.styles[s.row_with("python")], "old numbers dimmed")
                row = t.screen.row_with("python")
                check(set(t.screen.styles[row][:60]) == {"0;2"}, "not all of it is dimmed")
            def since(s):
                return int((re.search(r"no answer since (\d+) s", s.text()) or [0, 0])[1])
            before = since(t.screen)
            t.wait(lambda s: since(s) > before, "the time going on")
            with Server(first.respond, port=first.port):
                t.wait_gone("no answer")
                t.wait_text("python", "143us")
                t.wait(lambda s: "0;2" not in s.styles[s.row_with("python")], "bright again")
                t.quit()


def test_garbage_while_watching():
    data = [answer(body_of(snapshot()))]
    with Server(lambda n: data[0]) as s, Terminal("127.0.0.1:%d" % s.port, 100) as t:
        t.wait_text("python")
        for bad, why in ((answer(b"{"), "no JSON"), (b"\x1b[2J\r\n\r\n", "does not speak HTTP"),
                         (answer(b"", "HTTP/1.1 503 \r\nContent-Length: %d\r\n\r\n"), "status 503")):
            data[0] = bad
            t.wait_text("no answer since", why)
            data[0] = answer(body_of(snapshot(uptime_s=random.randrange(10 ** 6))))
            t.wait_gone("no answer")
        t.quit()


def test_silent_server():
    with Server(lambda n: answer(body_of(snapshot())) if n == 1 else None) as s, Terminal("127.0.0.1:%d" % s.port) as t:
        t.wait_text("python")
        t.wait_text("no answer since")
        t.wait_text("no answer within 5 s")
        t.quit()
    with raw(None) as s:
        status, _, err = run("127.0.0.1:%d" % s.port, "--once")
        check(status == 1 and "no answer within 5 s" in err and is_one_line(err), err)


def test_frozen_data_is_not_live():
    with raw(answer(body_of(snapshot()))) as s, Terminal("127.0.0.1:%d" % s.port, env={"NO_COLOR": "1"}) as t:
        t.wait_text("python")
        t.wait_text("the daemon answers, but nothing new since")
        t.wait_gone("python")
        t.quit()


def test_json_goes_on_after_a_break():
    first = live(snapshot(), free_port())
    p = subprocess.Popen([watch_terminal.BINARY, "watch", "127.0.0.1:%d" % first.port, "--json"],
                         stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, bufsize=0)
    try:
        read_lines(p, 1)
        first.stop()
        check(select.select([p.stderr], [], [], PATIENCE)[0], "silent")
        check(is_one_line(p.stderr.readline().decode()), "no line on stderr")
        with Server(first.respond, port=first.port):
            read_lines(p, 1)
    finally:
        p.terminate()
        rest = p.communicate()[1]
        check(rest == b"", rest)


def test_sparkline():
    def value(n):
        rates = [0.0, 100.0, 50.0]
        return snapshot(processes=[process(1, "proc1", launch={"count": n, "rate": rates[(n - 1) % 3], "p50_us": 1.0,
                                                               "p99_us": 2.0})])
    with live(value) as s, Terminal("127.0.0.1:%d" % s.port, 150) as t:
        t.wait(lambda s: "▁█▄▁█▄" in s.text(), "the rates of six seconds")
        t.quit()


def test_sparkline_gap_and_new_process():
    first, count = [0], [10]
    def respond(n):
        row = process(1, "proc1", launch={"count": count[0] + n, "rate": 5.0, "p50_us": 1.0, "p99_us": 2.0})
        return answer(body_of(snapshot(processes=[row], last_update_ms=1711800000000 + 1000 * (n + first[0]))))
    with Server(respond) as s, Terminal("127.0.0.1:%d" % s.port, 150) as t:
        t.wait(lambda s: "██" in s.text().split("proc1")[-1], "two seconds")
        first[0] += 3
        t.wait(lambda s: re.search(r"██   █", s.text()), "a gap of three seconds")
        count[0] = -1000000    # fewer launches than before: another process under the same pid
        t.wait(lambda s: re.search(r"us +█\s*$", s.text(), re.M), "a line that starts anew")
        t.quit()


HEALTH = {"status": "ok", "node": "n1", "source": "live", "version": "0.1.0", "uptime_s": 3723,
          "probes": [{"family": "gpu_mem", "state": "attached", "why": "",
                      "libraries": [{"path": "/lib/libcuda.so.1", "attached": 31, "symbols": 32, "why": ""},
                                    {"path": "/opt/" + "x" * 200, "attached": 0, "symbols": 0, "why": "no ELF file"}]},
                     {"family": "nccl", "state": "waiting", "why": "no process maps libnccl.so", "libraries": []}]}
STATUS = """node         n1
source       live
version      0.1.0
uptime       1 h 2 min
status       %s
gpu_mem      attached
             31 of 32 functions of /lib/libcuda.so.1
             0 of 0 functions of /opt/%s: no ELF file
nccl         waiting: no process maps libnccl.so
"""


def status(data):
    with raw(data) as s:
        result = run("127.0.0.1:%d" % s.port, verb="status")
        check(s.heads[0].startswith(b"GET /health HTTP/1.1\r\n"), s.heads[0])
    return result


def test_status():
    got = status(answer(body_of(HEALTH)))
    check(got == (0, (STATUS % ("ok", "x" * 200)).encode(), ""), got)
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n"
    got = status(answer(body_of({**HEALTH, "status": "no probes"}), head))
    check(got == (1, (STATUS % ("no probes", "x" * 200)).encode(), ""), got)
    check(status(answer(b"{}"))[:2] == (0, b"node         -\nsource       -\nversion      -\nuptime       -\n"
                                           b"status       -\n"), "missing fields")
    e = "".join(EVIL)
    evil = {"node": e, "status": e,
        "probes": [{"family": e, "state": e, "why": e, "libraries": [{"path": e, "why": e}]}]}
    code, out, err = status(answer(json.dumps(evil).encode()))
    check(code == 0 and not any(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") for c in out.decode()
        if c != "\n"), out)


def test_status_without_a_daemon():
    port = free_port()
    want = ("zernel: status: no daemon at 127.0.0.1:%d: Connection refused; start it with 'zerneld' or give its "
            "address: zernel status http://ADDRESS:9091\n" % port)
    check(run("http://127.0.0.1:%d" % port, verb="status") == (1, b"", want), "no daemon")
    for data, why in ((answer(b"x", "HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n"), "status 404 for /health"),
                      (answer(b"ok"), "no JSON object")):
        code, out, err = status(data)
        check(code == 1 and out == b"" and "is no zerneld: " in err and why in err and err.count("\n") == 1, err)
    code, out, err = status(answer(b"everything is in use", "HTTP/1.1 503 No\r\nContent-Length: %d\r\n\r\n"))
    check(code == 1 and out == b"" and "too busy to answer" in err and "no zerneld" not in err, err)
    for args in (["--once"], ["node7"], ["127.0.0.1", "::1"], [""]):
        code, out, err = run(*args, verb="status")
        check(code == 2 and out == b"" and err.startswith("zernel: status: ") and err.count("\n") == 1, err)
    check(run("--help", verb="status")[::2] == (0, ""), "--help")


def test_flame():
    """What it prints for other tools is whole, and what the daemon says of a bad question is told."""
    def flame(data, *args):
        with Server(lambda _: data) as s:
            return run("127.0.0.1:%d" % s.port, *args, verb="flame")

    lines = b"main (/a.py:1);[gpu] 300\nmain (/a.py:9);[gpu] 700\n"
    check(flame(answer(lines), "--folded") == (0, lines, ""), flame(answer(lines), "--folded"))
    check(flame(answer(b"{}"), "--json") == (0, b"{}\n", ""), flame(answer(b"{}"), "--json"))
    bad = "HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n"
    code, out, err = flame(answer(b"cause must be launch or\x1b other\n", bad), "--cause", "cuda")
    check((code, out) == (2, b"") and err.endswith(": cause must be launch or? other\n") and "no zerneld" not in err, err)
    code, out, err = flame(answer(b"<html>400</html>", bad), "--cause", "cuda")
    check((code, out) == (1, b"") and "is no zerneld: status 400 for " in err, err)


def health(*alerts):
    def respond(n):
        return answer(body_of(HEALTH if n % 2 else {"alerts": list(alerts)}))
    with Server(respond) as s:
        return run("127.0.0.1:%d" % s.port, verb="health")


def firing(name, **more):
    return {"alert": name, "state": "firing", "summary": name + " fires", **more}


def test_health():
    well = b"OK: zernel: no fault of the node"
    check(health() == (0, well + b"\n", ""), health())
    check(health(firing("gpu_idle"), firing("gpu_xid", xid="31")) == (0, well + b"\n", ""), "what is about programs")
    check(health({**firing("gpu_lost"), "state": "pending"}) == (0, well + b"\n", ""), "what is not so yet")
    for fault, more in (("gpu_lost", {}), ("gpu_ghost", {}), ("gpu_amdgpu", {"error": "uncorrectable"}),
                        ("gpu_hardware_errors", {}), ("gpu_driver_not_answering", {})):
        want = "ERROR: zernel: %s: %s fires\n" % (fault, fault)
        check(health(firing(fault, **more), firing("driver_unresponsive")) == (1, want.encode(), ""), fault)
    check(health(firing("gpu_xid", xid="79"))[0] == 1, "an error that no program makes")


def test_health_is_no_users_to_decide():
    """What a program of a user's own can bring about is told, and drains no node."""
    for name, more in (("cuda_context_lost", {}), ("driver_unresponsive", {}), ("gpu_amdgpu", {"error": "page_fault"})):
        want = "OK: zernel: no fault of the node; %s: %s fires\n" % (name, name)
        check(health(firing(name, **more)) == (0, want.encode(), ""), health(firing(name, **more)))


def whys(*args, jobs=("4711", "train.py"), to=None):
    """The status, the output and the errors of `zernel why`, and what was asked for."""
    def respond(_):
        path = s.heads[-1].split()[1].decode()
        if path == "/json?topics=processes":
            return answer(body_of({"processes": [process(7, "python3"), process(4711, "python3")]}))
        wanted = path.partition("?job=")[2]
        return answer(body_of({"node": "n1", "window_s": 60, "why": [
            {"job_id": job, "processes": 1, "says": "it runs", "causes": []} for job in jobs if wanted in ("", job)]}))
    with Server(respond) as s:
        args = ("127.0.0.1:%d" % s.port, *args)
        if to:
            with open(to, "w") as out:
                p = subprocess.run([watch_terminal.BINARY, "why", *args], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.PIPE, timeout=PATIENCE)
            return p.returncode
        return (*run(*args, verb="why"), [head.split()[1].decode() for head in s.heads])


def test_why_as_json():
    """Of the job or the process that is named, and of no other one."""
    status, out, err, asked = whys("--json")
    check((status, err, asked) == (0, "", ["/why"]) and len(json.loads(out)["why"]) == 2, (status, out, err, asked))
    for job in ("4711", "train.py"):
        status, out, err, asked = whys(job, "--json")
        check((status, err, asked) == (0, "", ["/why?job=" + job]), (status, err, asked))
        equal([w["job_id"] for w in json.loads(out)["why"]], [job])
    status, out, err, asked = whys("7", "--json")
    check((status, err, asked) == (0, "", ["/why?job=7", "/json?topics=processes"]), (status, err, asked))
    equal(json.loads(out)["pid"], 7)
    for wanted in ("8", "eval.py"):
        status, out, err, _ = whys(wanted, "--json")
        equal((status, out, err), (1, b"", "zernel: why: no job or process %s is known here\n" % wanted))
        equal(whys(wanted)[:2], (1, b"no job or process %s is known here\n" % wanted.encode()))
    equal(whys("a&b", "--json")[0], 2)
    equal([whys(*args, "--json", to="/dev/full") for args in ([], ["4711"], ["7"])], [1, 1, 1])


def test_why_in_words():
    for args, text in ((["train.py"], b"job train.py (processes: 1; the last 60 s)\n  it runs\n"),
                       (["7"], b"process 7: "), ([], b"job 4711 ")):
        status, out, err, _ = whys(*args)
        check(status == 0 and out.startswith(text) and err == "", (args, status, out, err))


def ghost(**more):
    return {"pid": 7, "uid": 1000, "command": "python3", "why": "job_ended", "says": "its job has ended",
            "job_id": "4711", "gpu_id": "", "since_s": 61.512345678, "gpu_bytes": None, **more}


def ghosts(*args, to=None, **more):
    """The status, the output and the errors of `zernel ghosts`."""
    a = {"node": "n1", "source": "live", "after_s": 60, "looked": True, "unknown": 0, "ghosts": [], "idle_gpus": []}
    with raw(answer(body_of({**a, **more}))) as s:
        if not to:
            return run("127.0.0.1:%d" % s.port, *args, verb="ghosts")
        with open(to, "w") as out:
            p = subprocess.run([watch_terminal.BINARY, "ghosts", "127.0.0.1:%d" % s.port, *args], stdout=out,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=PATIENCE)
        return p.returncode, b"", p.stderr.decode()


def test_ghosts():
    equal(ghosts(), (0, b"no process holds a GPU that is not its own\n", ""))
    equal(ghosts(ghosts=[ghost(since_s=59.0)]), (0, b"no process holds a GPU that is not its own\n", ""))
    status, out, err = ghosts(ghosts=[ghost(), ghost(gpu_id="3", job_id="", says="it is of no job")])
    lines = out.decode().splitlines()
    check(status == 1 and err == "" and len(lines) == 3, (status, lines, err))
    check(re.fullmatch(r"7 +1000 +python3 +- +1 min 1 s +4711 +its job has ended", lines[1]), lines[1])
    check(re.fullmatch(r"7 +1000 +python3 +- +1 min 1 s +- +it is of no job: GPU 3", lines[2]), lines[2])


def test_ghosts_that_nobody_looked_for():
    """That there is none is not known then; one that is known is one."""
    for args in ([], ["--quiet"], ["--json"]):
        status, out, err = ghosts(*args, looked=False)
        check(status == 2 and (out[:1] == b"{") == (args == ["--json"]), (args, status, out))
        check(err.count("\n") == 1 and err.endswith(": nobody has looked yet\n"), err)
        status, out, err = ghosts(*args, looked=False, ghosts=[ghost()])
        check(status == 1 and err == "", (args, status, err))
    status, out, err = ghosts(looked=False, idle_gpus=[{"job_id": "4711", "gpu_id": "0", "idle_s": 700.5}])
    check(status == 2 and out == b"job 4711 has GPU 0 and has not used it for 11 min 40 s\n", (status, out))


def test_many_ghosts():
    """As many as no buffer of lines holds: the answer comes alone, or nothing does."""
    many = [ghost(pid=i, gpu_id="MIG-" + "0" * 36) for i in range(1, 600)]
    equal(ghosts("--quiet", ghosts=many), (1, b"", ""))
    status, out, _ = ghosts("--json", ghosts=many)
    check(status == 1 and len(json.loads(out)["ghosts"]) == 599, (status, out[:80]))


def test_ghosts_that_cannot_be_written():
    for args in ([], ["--json"]):
        status, _, err = ghosts(*args, to="/dev/full")
        check(status == 2 and err.count("\n") == 1 and "cannot be written: No space left" in err, (args, status, err))
        equal(ghosts(*args, to="/dev/full", ghosts=[ghost()])[0], 1)
    equal(ghosts("--quiet", to="/dev/full"), (0, b"", ""))


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: watch_test.py PATH_TO_ZERNEL [part of a test's name]")
    watch_terminal.BINARY = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    passed = failed = 0
    for name, test in list(globals().items()):
        if not name.startswith("test_") or wanted not in name:
            continue
        try:
            test()
            passed += 1
        except Exception as e:
            failed += 1
            print("%s: %s: %s" % (name, type(e).__name__, e))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
