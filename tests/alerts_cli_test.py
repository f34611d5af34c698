#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""`zernel alerts`: what it says of files of rules, of saved pages of metrics, and of pages of daemons, real and bad
ones.

Run as: python3 tests/alerts_cli_test.py PATH_TO_ZERNEL
"""
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

PATIENCE = 60
PAGE = """# HELP zernel_build_info x
# TYPE zernel_build_info gauge
zernel_build_info{version="x",commit="y",source="live"} 1
zernel_gpu_memory_used_ratio{gpu_id="0"} 0.97
zernel_gpu_memory_used_ratio{gpu_id="a\\"b\\n"} 0.5
zernel_gpu_memory_used_ratio{gpu_id="a\\\\nb"} 0.25
zernel_cuda_launches_total{pid="1",kind="kernel"} %d
zernel_cuda_launch_latency_seconds{pid="1",quantile="0.5"} 1e-05
zernel_cuda_launch_latency_seconds{pid="1",quantile="0.99"} 2e-05
zernel_cuda_launch_latency_seconds_sum{pid="1"} 3.5
zernel_cuda_launch_latency_seconds_count{pid="1"} 7
not a line {{{
zernel_gpu_memory_used_ratio{gpu_id="1
"""
RULES = """disable all
alert rate
  expr rate(zernel_cuda_launches_total[15s]) > 10
alert p99
  expr quantile(0.99, zernel_cuda_launch_latency_seconds) > 1s
alert mean
  expr zernel_cuda_launch_latency_seconds_sum / zernel_cuda_launch_latency_seconds_count == 0.5
alert full
  expr zernel_gpu_memory_used_ratio > 95%
  for 20s
"""
SHOWN = """rate (firing)
  firing   20           {pid="1",kind="kernel"}
p99 (inactive)
  inactive 2e-05        {pid="1"}
mean (firing)
  firing   0.5          {pid="1"}
full (%s)
  %-8s 0.97         {gpu_id="0"}
  inactive 0.5          {gpu_id="a\\x22b\\x0a"}
  inactive 0.25         {gpu_id="a\\nb"}
"""


RARE = """disable all
alert lost
  expr increase(zernel_job_cuda_errors_total[5m]) > 2
"""
ERRORS = PAGE % 1000 + """
zernel_job_cuda_errors_total{job_id="7",error="CUDA_ERROR_ASSERT"} 3
zernel_job_cuda_errors_total{\x1b]0;owned\x07="8"} 9
"""
RARE_SHOWN = """lost (firing)
  firing   3            {job_id="7",error="CUDA_ERROR_ASSERT"}
"""
RARE_BEFORE = """lost (inactive)
  no instance: no such series on the page, or too little is known of its past
"""


FAST = """disable all
alert rate
  expr rate(zernel_cuda_launches_total{kind="kernel"}[1s]) > 10
"""
NO_PAGE = "no /metrics of zerneld: zernel_build_info is not there"
SEE = "; see zernel alerts --help\n"
NO_ADDRESS = "no address (names other than localhost are not looked up): "


HELD = socket.socket()  # nobody listens on its port, nor gets it while this runs
HELD.bind(("127.0.0.1", 0))


class Server:
    """Answers each connection's request with the next of its answers, the last one again and again, and hangs up."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            with self.socket.accept()[0] as connection:
                self.requests.append(connection.recv(4096).decode())
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                connection.sendall(answer)


def http(body, status="200 OK", headers=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n{body}".encode()


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def bad_daemons(rules):
    """[(words, status, out, err)] of daemons that are none, or say no."""
    nobody = f"http://127.0.0.1:{HELD.getsockname()[1]}/metrics"
    cases = [(nobody, f"{nobody}: Connection refused\n"), ("unix:/none", "unix:/none: No such file or directory\n")]
    for url in ("https://127.0.0.1", "http://node1:9091", "http://127.0.0.1:0", "http://127.0.0.1:9091/json", "unix:"):
        cases.append((url, f"{NO_ADDRESS}'{url}'{SEE}"))
    cases.append(("http://node1/metrics", f"{NO_ADDRESS}'http://node1'{SEE}"))
    too_large = f"HTTP/1.1 200 OK\r\nContent-Length: {(16 << 20) + 1}\r\n\r\n".encode()
    no_length = "an answer without a Content-Length of at most 16 MiB"
    for answer, why in ((http("up 1\n"), NO_PAGE), (http("", "200 OK"), NO_PAGE),
                        (http("x", "404 Not Found"), "status 404 for /metrics"),
                        (http("x", "401 Unauthorized"), "it asks for a token: --token-file FILE"),
                        (http("x", "503 Service Unavailable"), "status 503: it is too busy to answer"),
                        (b"SSH-2.0-x\r\n\r\n", "it does not speak HTTP/1.1"), (b"", "an empty answer"),
                        (http("x" * 100)[:-1], "an answer that was cut off"), (too_large, no_length),
                        (b"HTTP/1.1 200 OK\r\n\r\n", no_length)):
        url = Server(answer).url
        cases.append((url, f"{url}: {why}\n"))
    return [(["test", rules, url], 2, "", f"zernel: alerts: {err}") for url, err in cases]


def good_daemon(fast, folder):
    """Two pages that a daemon gives a second apart, and what was asked for."""
    server = Server(http(PAGE % 1000), http(PAGE % 1300))
    token = write(folder, "token", "0123456789abcdef\n")
    os.chmod(token, 0o600)
    words = ["test", fast, server.url + "/metrics", server.url, "--every", "1s", "--token-file", token]
    return server, (words, 1, 'rate (firing)\n  firing   300          {pid="1",kind="kernel"}\n', "")


def asked_well(server, took):
    """Twice, a second apart: all of it took longer than that, whenever the requests came here."""
    heads = [r.split("\r\n") for r in server.requests]
    return len(heads) == 2 and took > 0.9 and all(
        h[0] == "GET /metrics HTTP/1.1" and "Authorization: Bearer 0123456789abcdef" in h and "Accept: text/plain" in h
        for h in heads)


def real_daemon(zernel, fast, folder):
    """The eight ranks of a simulated node all launch, some 2,000 times a second; by TCP and by a Unix socket. Two to
    four ticks of one second lie between the pages."""
    log = os.path.join(folder, "log")
    with open(log, "w", encoding="utf-8") as stderr:
        daemon = subprocess.Popen([zernel + "d", "--simulate", "--control", "none", "--metrics-port", "0", "--ws-port",
            "0",
                                   "--listen", f"127.0.0.1,unix:{folder}/socket"], stderr=stderr,
                                   stdin=subprocess.DEVNULL)
    try:
        ready, ranks, end = None, [], time.monotonic() + PATIENCE
        while len(ranks) < 8 and time.monotonic() < end:
            time.sleep(0.05)
            with open(log, encoding="utf-8") as text:
                ready = ready or re.search(r"metrics on port (\d+)", text.read())
            if ready:
                with urllib.request.urlopen(f"http://localhost:{ready.group(1)}/metrics", timeout=PATIENCE) as answer:
                    ranks = re.findall(r'launches_total\{pid="\d+",kind="kernel",job_id=', answer.read().decode())
        if len(ranks) < 8:
            print(f"not within {PATIENCE} s: eight ranks, but {len(ranks)}", file=sys.stderr)
            return [False, False]
        results = [run(zernel, ["test", fast, url, url, "--every", "3"])
                   for url in (f"http://localhost:{ready.group(1)}/metrics", f"unix:{folder}/socket")]
    finally:
        daemon.terminate()
        daemon.wait()
    return [r.returncode == 1 and len(re.findall(r"^  firing   \d{3,4}(?:\.\d+)? ", r.stdout, re.M)) == 8
        and not r.stderr for r in results]


def run(zernel, words):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ZERNEL_")}
    return subprocess.run([zernel, "alerts"] + words, capture_output=True, text=True, timeout=60, check=False,
        env=clean)


def main():
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        def file(name, text):
            return write(folder, name, text)

        rules, bad, quiet = file("rules", RULES), file("bad", "alert x\n expr up > 1\n"), file("quiet", "disable all\n")
        one, two = file("one", PAGE % 1000), file("two", PAGE % 1300)
        foreign = file("foreign", "up 1\n")
        rare, errors = file("rare", RARE), file("errors", ERRORS)
        firing, pending = SHOWN % ("firing", "firing"), SHOWN % ("pending", "pending")
        cases = [
            (["check", rules], 0, f"{rules}: 4 rules are in use with this file\n", ""),
            (["check", bad], 2, "", f"{bad}:2:7: no metric 'up'; zerneld --list-metrics lists them\n"),
            (["check", folder + "/none"], 2, "", f"{folder}/none: cannot read the rules: No such file or directory\n"),
            (["test", rules, one, two], 1, pending, ""),
            (["test", rules, one, two, "--every", "15s"], 1, pending, ""),
            (["test", rules, file("zero", PAGE % 700), one, two], 1, firing, ""),
            (["test", quiet, one], 0, "", ""),
            (["test", rare, errors], 0, RARE_BEFORE, ""),
            (["test", rare, one, errors], 1, RARE_SHOWN, ""),
            (["test", rules, foreign], 2, "",
             f"zernel: alerts: {foreign}: {NO_PAGE}\n"),
            (["test", rules, folder + "/none"], 2, "", f"zernel: alerts: {folder}/none: No such file or directory\n"),
        ]
        for words in (["test", rules], ["test"], ["check"], [], ["what"], ["test", rules, one, "--every", "0"],
                      ["test", rules, one, "--every"], ["test", rules, one, "--what"],
                      ["test", rules, one, "--token-file"],
                      ["test", rules, one, "--overhead-budget", "7"]):
            cases.append((words, 2, "", None))
        fast = file("fast", FAST)
        server, case = good_daemon(fast, folder)
        cases += [case, *bad_daemons(fast)]
        took = 0
        for words, status, out, err in cases:
            start = time.monotonic()
            r = run(sys.argv[1], words)
            took = time.monotonic() - start if words is case[0] else took
            usage = err is None and r.stderr.startswith("zernel: alerts: ") and "\nusage: zernel alerts" in r.stderr
            if (r.returncode, r.stdout) == (status, out) and (usage or r.stderr == err):
                passed += 1
            else:
                failed += 1
                print(f"{words}: {r.returncode}\n{r.stdout}{r.stderr}", file=sys.stderr)
        for name, ok in (("requests", asked_well(server, took)),
                *zip(("TCP", "socket"), real_daemon(sys.argv[1], fast, folder))):
            passed, failed = passed + ok, failed + (not ok)
            if not ok:
                print(f"{name}: not as they should be: {server.requests} in {took} s", file=sys.stderr)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
