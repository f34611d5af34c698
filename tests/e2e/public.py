#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""curl, Prometheus, a bare socket and Python's HTTP client as clients of a simulating daemon: versions, HEAD, gzip,
pipelining, formats.
"""
import gzip
import http.client
import os
import re
import socket
import subprocess

from clients import api, await_up, prometheus
from harness import Daemon, State, check, equal, main, need, parse_json, parse_metrics, run, test_simulated, wait_until

ROUTES = ("/", "/metrics", "/json", "/history", "/alerts", "/jobs", "/health")


def curl(daemon, path, *options):
    """(status line, {header: value}, body) of the last answer."""
    got = subprocess.run([need("curl"), "-sS", "-i", "--max-time", "20", *options,
                          f"http://127.0.0.1:{daemon.port}{path}"], capture_output=True, timeout=60)
    equal((got.returncode, got.stderr.decode()), (0, ""), f"curl {options} {path}")
    return split(got.stdout)


def split(answer):
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    names = [line.split(":", 1)[0].lower() for line in lines]
    equal(len(set(names)), len(names), f"headers that come once: {names}")
    return first, {line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip() for line in lines}, body


@test_simulated
def curl_gets_every_route():
    daemon = Daemon("--simulate")
    for path in ROUTES:
        for options in ((), ("--http1.0",), ("--compressed",), ("-H", "Connection: close")):
            status, headers, body = curl(daemon, path, *options)
            equal(status, "HTTP/1.1 200 OK", f"{path} {options}")
            check(body and headers["content-type"], f"{path} {options}: a body and its type")
            if "--compressed" in options:
                continue
            equal(len(body), int(headers["content-length"]), f"{path} {options}: length")


@test_simulated
def curl_is_told_the_same_by_head():
    """All but what depends on the moment: lengths of what changes, the date."""
    daemon = Daemon("--simulate")
    wait_until(lambda: daemon.metrics().all("zernel_nccl_calls_total"), "data")  # pages have their size from then on
    for path in ROUTES:
        for options in ((), ("--compressed",), ("-H", "Accept: application/openmetrics-text")):
            get, head = curl(daemon, path, *options), curl(daemon, path, "-I", *options)
            equal(head[2], b"", f"{path}: HEAD has no body")
            equal(head[0], get[0], f"{path}: status")
            equal(set(head[1]), set(get[1]), f"{path} {options}: headers")
            same = set(head[1]) - {"content-length", "date"}
            equal({k: head[1][k] for k in same}, {k: get[1][k] for k in same}, f"{path} {options}: values")


@test_simulated
def curl_makes_answers_smaller():
    daemon = Daemon("--simulate")
    wait_until(lambda: daemon.metrics().all("zernel_nccl_calls_total"), "data")
    for path in ("/", "/metrics", "/json"):
        status, headers, body = curl(daemon, path, "-H", "Accept-Encoding: gzip")
        equal(headers.get("content-encoding"), "gzip", f"{path}: coding")
        check("accept-encoding" in headers.get("vary", "").lower(), f"{path}: Vary")
        plain = gzip.decompress(body)
        check(len(body) < len(plain) / 3, f"{path}: {len(plain)} bytes as {len(body)}")
        for refused in ("gzip;q=0", "identity", "br, deflate", "*;q=0, identity", "gzip;q=0.000"):
            status, headers, body = curl(daemon, path, "-H", f"Accept-Encoding: {refused}")
            equal((status, headers.get("content-encoding")), ("HTTP/1.1 200 OK", None), f"{path}: {refused}")
    parse_metrics(gzip.decompress(curl(daemon, "/metrics", "-H", "Accept-Encoding: gzip")[2]).decode())
    parse_json(gzip.decompress(curl(daemon, "/json", "-H", "Accept-Encoding: gzip")[2]).decode())


@test_simulated
def curl_asks_for_formats():
    daemon = Daemon("--simulate")
    for accept, kind in (("*/*", "text/plain; version=0.0.4; charset=utf-8"),
                         ("application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
                          "application/openmetrics-text; version=1.0.0; charset=utf-8"),
                         ("application/openmetrics-text;q=0.1,text/plain;q=0.9",
                          "text/plain; version=0.0.4; charset=utf-8"),
                         ("application/openmetrics-text;q=0", "text/plain; version=0.0.4; charset=utf-8")):
        _, headers, body = curl(daemon, "/metrics", "-H", f"Accept: {accept}")
        equal(headers["content-type"], kind, f"type for {accept}")
        equal(body.endswith(b"\n# EOF\n"), "openmetrics" in kind, f"its end for {accept}")


@test_simulated
def curl_keeps_a_page_that_did_not_change():
    daemon = Daemon("--simulate")
    _, headers, body = curl(daemon, "/")
    tag = headers["etag"]
    opaque = tag.removeprefix("W/")
    for options in (("-H", f"If-None-Match: {tag}"), ("-H", f'If-None-Match: "x", W/{opaque}'),
                    ("-H", f"If-None-Match: {opaque}"), ("-H", "If-None-Match: *")):
        status, headers, body = curl(daemon, "/", *options)
        equal((status, body, headers.get("etag")), ("HTTP/1.1 304 Not Modified", b"", tag), f"{options}")
    equal(curl(daemon, "/", "-H", 'If-None-Match: "x"')[0], "HTTP/1.1 200 OK", "another page")


@test_simulated
def curl_keeps_one_connection():
    daemon = Daemon("--simulate")
    urls = [f"http://127.0.0.1:{daemon.port}{path}" for path in ROUTES * 3]
    got = run([need("curl"), "-sS", "-o", "/dev/null", "-w", "%{http_code} %{num_connects}\\n", *urls[:1],
               *[a for url in urls[1:] for a in ("-o", "/dev/null", url)]])
    equal((got.returncode, got.stderr), (0, ""), "curl")
    lines = got.stdout.split("\n")[:-1]
    equal(lines, ["200 1"] + ["200 0"] * (len(urls) - 1), "status, and connections made")


@test_simulated
def curl_is_refused_politely():
    daemon = Daemon("--simulate")
    rows = (("/nothing", (), 404), ("/metrics", ("-X", "DELETE"), 405), ("/metrics", ("-d", "x=1"), 405),
            ("/json?topics=x", (), 400), ("/ws", (), 426), ("/" + "a" * 4000, (), 414),
            ("/metrics", ("-H", "X-Long: " + "a" * 9000), 431), ("/json", ("-H", "Host: evil.example"), 421),
            ("/metrics", ("-X", "BREW"), 501),
            ("/metrics", ("-H", "Transfer-Encoding: chunked", "-d", "x=1"), 405))
    for path, options, status in rows:
        first, headers, body = curl(daemon, path, *options)
        equal(int(first.split()[1]), status, f"{path[:20]} {[o[:20] for o in options]}")
        check(len(body) == int(headers["content-length"]) and body.endswith(b"\n"), f"{status} says why")
        check(status != 405 or "GET" in headers["allow"], "405 says what is allowed")
    equal(curl(daemon, "/health")[0], "HTTP/1.1 200 OK", "it serves on")


# ---- a bare socket, as nc would be used

def bare(daemon, sent, half_close=True):
    """All that comes back."""
    with socket.create_connection(("127.0.0.1", daemon.port), 20) as s:
        s.sendall(sent)
        if half_close:
            s.shutdown(socket.SHUT_WR)
        got = b""
        while more := s.recv(65536):
            got += more
    return got


def answers(got):
    """The statuses of the answers in a stream, each of the length that it says."""
    statuses = []
    while got:
        first, headers, rest = split(got)
        length = int(headers.get("content-length", 0))
        check(len(rest) >= length, "an answer is cut")
        statuses.append(int(first.split()[1]))
        got = rest[length:]
    return statuses


@test_simulated
def requests_in_a_row_are_answered_in_a_row():
    daemon = Daemon("--simulate")
    paths = ["/health", "/nothing", "/metrics", "/json", "/alerts"] * 20
    sent = b"".join(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in paths)
    equal(answers(bare(daemon, sent)), [404 if path == "/nothing" else 200 for path in paths], "statuses, in order")


@test_simulated
def the_end_of_what_a_client_sends_is_not_its_end():
    daemon = Daemon("--simulate")
    for version in ("1.0", "1.1"):
        equal(answers(bare(daemon, f"GET /metrics HTTP/{version}\r\nHost: localhost\r\n\r\n".encode())), [200], version)
    equal(bare(daemon, b"GET /metrics HTTP/1.1\r\nHost: loc"), b"", "a head that never ends gets nothing but an end")


@test_simulated
def noise_gets_a_clean_end():
    daemon = Daemon("--simulate")
    hello = bytes.fromhex("16030100050100000103") + os.urandom(200)
    for sent in (hello, b"\x00" * 300, b"\xff" * 300, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"SSH-2.0-x\r\n",
            b"\r\n\r\nx\r\n\r\n"):
        got = bare(daemon, sent)
        check(not got or re.match(rb"HTTP/1\.1 (400|501|505) ", got), f"{sent[:10]!r}: {got[:60]!r}")
    equal(curl(daemon, "/health")[0], "HTTP/1.1 200 OK", "it serves on")


@test_simulated
def pythons_client_keeps_its_connection():
    daemon = Daemon("--simulate")
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=20)
    State.cleanup.callback(connection.close)
    for method, path in (("GET", "/json"), ("HEAD", "/json"), ("GET", "/metrics"), ("OPTIONS", "/metrics"),
            ("GET", "/health")):
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        check(answer.status in (200, 204) and not answer.will_close, f"{method} {path}: {answer.status}")
        equal(bool(body), method == "GET", f"{method} {path}: a body")


# ---- Prometheus

@test_simulated
def prometheus_finds_the_target_up():
    """Debian's Prometheus asks for OpenMetrics and gzip by itself."""
    daemon = Daemon("--simulate")
    process, server = prometheus(daemon)
    equal(await_up(server)["lastError"], "", "what is wrong with it")
    wait_until(lambda: api(server, "query", query="up == 1")["result"], "up")
    ours = {name for name, _ in daemon.metrics()}
    wait_until(lambda: ours <= set(api(server, "label/__name__/values")), f"all of {len(ours)} names")
    for query in ("zernel_gpu_memory_used_bytes", "rate(zernel_cuda_launches_total[10s])", "zernel_build_info",
                  "histogram_quantile(0.99, sum by (le) (zernel_cuda_launch_latency_hist_seconds_bucket))"):
        wait_until(lambda: api(server, "query", query=query)["result"], query)
    kinds = {name: rows[0]["type"] for name, rows in api(server, "metadata").items()}
    equal(kinds.get("zernel_gpu_memory_used_bytes"), "gauge", "a type that it knows")
    process.kill()


if __name__ == "__main__":
    main()
