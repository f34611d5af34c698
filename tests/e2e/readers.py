# SPDX-License-Identifier: GPL-2.0
"""Other people's strict readers of what the daemon serves: JSON by Python, Node and jq, each fed through one pipe, and
what they understood compared; Prometheus text and OpenMetrics by their parsers; and a soak, which lets them read for a
while.
"""
import asyncio
import subprocess
import tempfile
import time

from clients import need_module
from harness import PATIENCE, State, check, equal, need, parse_json, parse_metrics, run

NODE = """
const strict = new TextDecoder("utf-8", {fatal: true});
const count = v => v && typeof v == "object" ? Object.values(v).reduce((n, x) => n + count(x), 1) : 1;
let rest = Buffer.alloc(0);
process.stdin.on("data", bytes => {
  rest = Buffer.concat([rest, bytes]);
  for (let at; (at = rest.indexOf(0x1e)) >= 0; rest = rest.subarray(at + 1)) {
    const d = JSON.parse(strict.decode(rest.subarray(0, at)));
    console.log(JSON.stringify([d.last_update_ms ?? null, count(d), (d.processes ?? []).map(p => p.comm)]));
  }
});
process.stdin.on("end", () => { if (rest.length) throw new Error("a document is cut"); });
"""
JQ = "[.last_update_ms, ([..] | length), [(.processes // [])[] | .comm]]"


def count(value):
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count, parts))


class Reader:
    """A process that reads documents from a pipe and says in one line what it found in each."""

    def __init__(self, argv, end):
        self.end, self.out = end, tempfile.TemporaryFile("w+")
        self.err = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=self.out, stderr=self.err)
        State.cleanup.callback(self.stop)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def feed(self, text):
        self.process.stdin.write(text.encode() + self.end)
        self.process.stdin.flush()

    def found(self):
        self.process.stdin.close()
        status = self.process.wait(60)
        self.err.seek(0)
        equal((status, self.err.read()[:300]), (0, ""), f"{self.process.args[0]}")
        self.out.seek(0)
        return [parse_json(line) for line in self.out.read().split("\n")[:-1]]


class Readers:
    """All three. feed() takes text of any route; agree() ends them and compares."""

    def __init__(self):
        self.seen = []
        self.others = [Reader([need("node"), "-e", NODE], b"\x1e"), Reader([need("jq"), "-c", JQ], b"\n")]

    def feed(self, text):
        document = parse_json(text)
        self.seen.append([document.get("last_update_ms"), count(document),
                          [p.get("comm") for p in document.get("processes", [])]])
        for other in self.others:
            other.feed(text)
        return document

    def agree(self):
        for other in self.others:
            found = other.found()
            equal(len(found), len(self.seen), f"documents that {other.process.args[0]} read")
            for ours, theirs in zip(self.seen, found):
                equal(theirs, ours, f"what {other.process.args[0]} reads, and Python")
        return len(self.seen)


OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


def read_by_all(daemon):
    """/metrics in both forms: our own strict reader, promtool, and both of prometheus_client's; {series: value}. The
    forms are of two moments: between them the last process with some figure may end, but not each time."""
    for _ in range(4):
        plain, lacking = read_once(daemon)
        if not lacking:
            break
    equal(lacking, {}, "names that one form has and the other has not")
    return plain


def read_once(daemon):
    """{series: value}, and {reader: names} that it did not see."""
    text, openmetrics = daemon.get("/metrics"), daemon.get("/metrics", OPENMETRICS)
    plain, lacking = parse_metrics(text), {}
    got = run([need("promtool"), "check", "metrics"], input=text)
    equal((got.returncode, got.stdout, got.stderr), (0, "", ""), "promtool check metrics")
    names = {name for name, _ in plain}
    for module, source in (("parser", text), ("openmetrics.parser", openmetrics)):
        parser = need_module(f"prometheus_client.{module}")
        series = [(s.name, frozenset(s.labels.items())) for f in parser.text_string_to_metric_families(source)
                  for s in f.samples]
        equal(len(series), len(set(series)), f"series twice for prometheus_client.{module}")
        if names - {name for name, _ in series}:
            lacking[module] = sorted(names - {name for name, _ in series})
    return plain, lacking


# ---- a soak

ROUTES = ("/json", "/history", "/alerts", "/health", "/json?topics=processes,alerts", "/json?topics=gpus")
STREAMS = ("/ws", "/ws?topics=processes,alerts&interval_ms=250", "/ws?topics=gpus,lost", "/ws?job=17")


async def stream(url, readers, end):
    """Every snapshot until then; how many."""
    count, newest = 0, 0
    async with need_module("websockets").connect(url, max_size=None) as socket:
        while time.monotonic() < end:
            snapshot = readers.feed(await asyncio.wait_for(socket.recv(), PATIENCE))
            check(snapshot["last_update_ms"] >= newest, f"{url}: none is older than the one before")
            newest = snapshot["last_update_ms"]
            count += 1
    return count


async def poll(daemon, readers, end):
    while time.monotonic() < end:
        for route in ROUTES:
            readers.feed(await asyncio.to_thread(daemon.get, route))
        await asyncio.to_thread(read_by_all, daemon)
        await asyncio.sleep(0.2)
    return 1


async def everything(daemons, readers, seconds):
    end = time.monotonic() + seconds
    work = [stream(f"ws://127.0.0.1:{daemon.port}{path}", readers, end) for daemon in daemons for path in STREAMS]
    return await asyncio.gather(*work, *(poll(daemon, readers, end) for daemon in daemons))


def soak(daemons, seconds):
    """Every snapshot and every route, each read by everybody."""
    readers = Readers()
    counts = asyncio.run(everything(daemons, readers, seconds))
    check(min(counts) > 0, f"every stream brought snapshots: {counts}")
    print(f"{readers.agree()} JSON documents of {len(daemons)} daemons in {seconds} s", flush=True)
