# SPDX-License-Identifier: GPL-2.0
"""Requests over HTTP/2: gRPC's own C library over TCP and a Unix socket, and node's server."""
import json
import os
import subprocess
import sys
import time

from harness import CUDA, HERE, Daemon, Process, check, equal, folder, free_port, need, test, wait_until
from inference import SENT_S, Seen, Server, at_rest, of_node, watched

MODEL = os.path.join(HERE, "grpc_model.py")


class Model(Server):
    """A server of gRPC."""

    def __init__(self, address=None):
        address = address or str(free_port())
        self.target = f"unix:{address}" if "/" in address else address
        super().__init__("grpc", address=address, argv=[sys.executable, MODEL, "server", self.target, CUDA])


class Caller(Process):
    """Its client, on one connection."""

    def __init__(self, model):
        super().__init__([sys.executable, MODEL, "client", model.target], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         start_new_session=True)
        equal(self.line(), "ready", "the client")

    def line(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, *asks):
        self.process.stdin.write(json.dumps(asks) + "\n")
        self.process.stdin.flush()
        return self.line()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


STREAM = {"events": 11, "wait": 0.05, "gap": 0.01}


@test
def requests_of_grpc_are_counted():
    """Of what its library sends twice only the index is there the second time."""
    daemon = Daemon()
    model = Model()
    pid = watched(daemon, model)
    caller, clocked = Caller(model), []

    def ask(*asks):
        """The second event is sent once the call that sent the first one has returned, which is when that is counted;
        where there is none, all of it took longer."""
        begin = time.monotonic()
        said = caller.ask(*asks)
        clocked.extend(at[1] if len(at) > 1 else time.monotonic() - begin for at in said)
    ask(STREAM)
    ask(*[{**STREAM, "bytes": 100000}] * 13)
    for code, count in ((5, 3), (13, 2), (5, 4), (14, 5)):  # not found; internal; the same once more; unavailable
        ask(*[{"events": 2, "status": code}] * count)
    ask(*[{"events": 1, "size": 50000, "unary": True}] * 7)  # of several frames
    ask(*[{"events": 1000, "gap": 0.01, "cancel": 2}] * 3)
    seen = at_rest(daemon, pid)
    equal(seen.done("h2"), {"2xx": 14 + 7, "4xx": 3 + 4, "5xx": 2 + 5, "aborted": 3}, "requests")
    events, whole = seen.one("zernel_request_events_total", route="h2"), 14 * 11 + 14 * 2 + 7
    # of the last three it sees two each, and more are sent until the server hears that it wants no more
    check(whole + 3 * 2 <= events <= whole + 3 * 1000, f"events: {events}")
    equal(seen.one("zernel_request_connections_total", protocol="http2"), 1, "connections")
    equal(seen.lost(), {}, "lost")
    first = seen.one("zernel_request_first_event_seconds_sum", route="h2")
    check(14 * 0.05 <= first <= sum(clocked) + SENT_S, f"first events: {first} of {sum(clocked)}")
    gone = [{"events": 1000, "gap": 0.01, "wait": 0.1}] * 5  # the client ends amid them
    caller.process.stdin.write(json.dumps(gone) + "\n")
    caller.process.stdin.flush()
    wait_until(lambda: Seen(daemon, pid).in_flight() == 5, "five in flight")
    caller.kill()
    done = at_rest(daemon, pid).done("h2")  # the server may still send a status of its own
    equal((done["2xx"], done["4xx"], done["5xx"] + done["aborted"]), (14 + 7, 3 + 4, 2 + 5 + 3 + 5), "with those cut off")


@test
def grpc_over_a_unix_socket_from_before_the_daemon():
    """The codes of gRPC that it sent before are not known, that it answers is."""
    model = Model(os.path.join(folder(), "model.sock"))
    caller = Caller(model)
    caller.ask(STREAM)
    daemon = Daemon()
    pid = watched(daemon, model)
    caller.ask(*[STREAM] * 7)
    caller.ask(*[{"events": 2, "status": 5}] * 3)
    fresh = Caller(model)
    fresh.ask(*[STREAM] * 5)
    seen = at_rest(daemon, pid)
    equal(seen.done("h2"), {"unknown": 7, "4xx": 3, "2xx": 5}, "requests")
    equal(seen.one("zernel_request_events_total", route="h2"), 12 * 11 + 6, "events")
    equal(seen.one("zernel_request_connections_total", protocol="http2"), 2, "connections")
    equal(seen.lost(), {}, "lost")
    fresh.end()
    caller.end()


NODE = """
const http2 = require('http2'), {spawn} = require('child_process');
const [port, python, server, cuda] = process.argv.slice(2);
spawn(python, [server, 'gpu', port, cuda], {stdio: ['pipe', 'inherit', 'inherit']});
const sleep = s => new Promise(r => setTimeout(r, s * 1000));
http2.createServer(async (req, res) => {
  const status = Number(req.url.split('/').pop());
  for await (const part of req) {}
  if (status) {
    res.statusCode = status;
    return res.end(status === 204 ? undefined : 'text');
  }
  res.setHeader('content-type', 'text/event-stream');
  res.write(': ping\\n\\n');
  await sleep(0.05);
  for (let i = 0; i < 7; i++) {
    res.write(`data: {"id":"chatcmpl-1","n":${i}}\\n\\n`);
    await sleep(0.01);
  }
  res.write('data: [DONE]\\n\\n');
  res.end();
}).listen(Number(port), '127.0.0.1');
"""
ASKS = """
const client = require('http2').connect(`http://127.0.0.1:${process.argv[1]}`);
const first = [];
const ask = (path, method) => new Promise((end, fail) => {
  const stream = client.request({':path': path, ':method': method}), at = performance.now();
  let seen = method !== 'POST';
  stream.on('error', fail).on('data', (part) => {
    if (!seen && String(part).includes('data:')) first.push(performance.now() - at);
    seen ||= String(part).includes('data:');
  }).on('end', end);
  stream.end(method === 'POST' ? 'x'.repeat(100000) : undefined);
});
const many = (n, path, method) => Promise.all(Array.from({length: n}, () => ask(path, method)));
(async () => {
  await many(13, '/v1/chat/completions', 'POST');
  for (const [n, status] of [[3, 204], [5, 404], [7, 503], [2, 503], [2, 418], [11, 200]])
    await many(n, `/status/${status}`, 'GET');
  client.close();
  console.log(first.reduce((a, b) => a + b) / first.length / 1000);
})();
"""


@test
def http2_of_node_is_counted():
    """Its library writes what is not in the static table with the code of Huffman."""
    daemon = Daemon()
    server = Server("node", **of_node(NODE))
    pid = watched(daemon, server)
    asked = subprocess.run([need("node"), "-e", ASKS, server.address], timeout=60, capture_output=True, text=True)
    equal((asked.returncode, asked.stderr), (0, ""), "the client")
    seen = at_rest(daemon, pid)
    equal(seen.done("h2"), {"2xx": 13 + 3 + 11, "4xx": 5 + 2, "5xx": 7 + 2}, "requests")
    equal(seen.one("zernel_request_events_total", route="h2"), 13 * 7, "events")
    equal(seen.lost(), {}, "lost")
    first = seen.one("zernel_request_first_event_seconds_sum", route="h2")
    check(13 * 0.045 <= first <= 13 * float(asked.stdout) + SENT_S,
        f"first events: {first} s, of which the client saw {asked.stdout} each")


BYTES = """
const net = require('net'), {spawn} = require('child_process');
const [port, python, server, cuda] = process.argv.slice(2);
spawn(python, [server, 'gpu', port, cuda], {stdio: ['pipe', 'inherit', 'inherit']});
net.createServer(socket => socket.setNoDelay().on('data', async (asked) => {
  for (const part of JSON.parse((String(asked).match(/\\["[^\\]]*\\]/) || ['[]'])[0])) {
    socket.write(Buffer.from(part, 'hex'));
    await new Promise(r => setTimeout(r, 10));
  }
})).listen(Number(port), '127.0.0.1');
"""
DATA, HEADERS, SETTINGS, CONTINUATION = 0, 1, 4, 9
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def message(text):
    return b"\0" + len(text).to_bytes(4, "big") + text


def begin(sock):
    sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))


def ask_for(sock, stream, *frames):
    """What the server is to answer is the body of the request."""
    parts = [frame(kind, flags, stream, payload) for kind, flags, payload in frames]
    sock.sendall(frame(HEADERS, END_HEADERS, stream, b"\x83\x86\x84") +
                 frame(DATA, END_STREAM, stream, json.dumps([part.hex() for part in parts]).encode()))
    left = sum(map(len, parts))
    while left:
        left -= len(sock.recv(65536))


@test
def headers_in_several_frames_end_a_stream_with_their_status():
    daemon = Daemon()
    server = Server("bytes", **of_node(BYTES))
    pid = watched(daemon, server)
    with server.connect() as sock:
        begin(sock)
        ask_for(sock, 1, (HEADERS, END_HEADERS | END_STREAM, b"\x88"))
        for stream in range(3, 3 + 2 * 7, 2):  # :status of which name and value are in two frames
            ask_for(sock, stream, (HEADERS, END_STREAM, b"\x08\x03"), (CONTINUATION, END_HEADERS, b"404"))
        for stream in range(31, 31 + 2 * 5, 2):
            ask_for(sock, stream, (HEADERS, END_HEADERS, b"\x88"), (DATA, 0, message(b"words")),
                    (HEADERS, END_STREAM, b"\0\x0bgrpc-"), (CONTINUATION, 0, b"status\x02"),
                    (CONTINUATION, END_HEADERS, b"14"))
        seen = at_rest(daemon, pid)
    equal(seen.done("h2"), {"2xx": 1, "4xx": 7, "5xx": 5}, "requests")
    equal(seen.one("zernel_request_events_total", route="h2"), 5, "events")
    equal(seen.lost(), {}, "lost")


@test
def a_message_that_begins_where_another_ends_hides_no_later_ones():
    """Of the bytes in the middle of the second one a length of 255 could be read."""
    daemon = Daemon()
    server = Server("bytes", **of_node(BYTES))
    pid = watched(daemon, server)
    first, second, word = message(b"four"), message(b"ab" + b"\0\0\0\0\xff"), message(b"words")
    with server.connect() as sock:
        begin(sock)
        for stream in range(1, 1 + 2 * 11, 2):
            ask_for(sock, stream, (HEADERS, END_HEADERS, b"\x88"), (DATA, 0, first[:7]),
                    (DATA, 0, first[7:] + second[:7]), (DATA, 0, second[7:]), *[(DATA, 0, word)] * 3,
                    (HEADERS, END_HEADERS | END_STREAM, b"\0\x0bgrpc-status\x010"))
        seen = at_rest(daemon, pid)
    equal(seen.done("h2"), {"2xx": 11}, "requests")
    equal(seen.one("zernel_request_events_total", route="h2"), 11 * 5, "events")
    equal(seen.lost(), {}, "lost")
