#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Who may ask: tokens and their change while the daemon runs, names of the node, Unix sockets, and what `zernel`
says."""
import contextlib
import os
import re
import signal
import socket
import stat
import subprocess

from harness import (NOBODY, PATIENCE, TOOLS, ZERNEL, ZERNELD, Daemon, Process, check, copy_of, equal, folder, main,
                     need, parse_json, run, test, test_simulated, wait_until)

OLD, NEW = "old-token-0123456789", "new-token-0123456789"
ORIGIN_KEY = "dGhlIHNhbXBsZSBub25jZQ=="


def write(name, text, mode=0o600):
    path = os.path.join(folder(), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def replace(path, text, mode=0o600):
    """As secrets are exchanged by who knows how: in one step."""
    os.rename(write("fresh", text, mode), path)


def ask(where, path="/json", host="localhost", **headers):
    """Status and head of one answer. where: a port, or the path of a Unix socket."""
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}"] + [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
    local = isinstance(where, str)
    with socket.socket(socket.AF_UNIX if local else socket.AF_INET) as s:
        s.settimeout(PATIENCE)
        s.connect(where if local else ("127.0.0.1", where))
        s.sendall("\r\n".join(lines + ["", ""]).encode())
        data = b""
        while b"\r\n\r\n" not in data:
            more = s.recv(65536)
            check(more, f"an answer to {path}")
            data += more
    head = data.split(b"\r\n\r\n")[0].decode()
    return int(head.split(" ")[1]), head


def status(daemon, token=None, **more):
    return ask(daemon.port, **({"Authorization": f"Bearer {token}"} if token else {}), **more)[0]


def websocket(port, **headers):
    return ask(port, "/ws", Upgrade="websocket", Connection="Upgrade", Sec_WebSocket_Version="13",
               Sec_WebSocket_Key=ORIGIN_KEY, **headers)[0]


def hang_up(daemon, *words):
    """Sends SIGHUP and waits for what it says of tokens; a line of its rules may come after it."""
    before = len(daemon.lines())
    daemon.process.send_signal(signal.SIGHUP)
    line = wait_until(lambda: next((s for s in daemon.lines()[before:] if re.search("SIGHUP: (no )?token", s)), None),
        "an answer to SIGHUP")
    check(all(w in line for w in words), f"{line!r} has {words}")


@test_simulated
def token_is_asked_for_everywhere_but_on_the_page():
    tokens = write("tokens", f"# first\n{OLD}\n{NEW}\n")
    daemon = Daemon("--simulate", "--token-file", tokens)
    check("asking for a token" in daemon.lines()[0], "the first line says so")
    for path in ("/json", "/metrics", "/alerts", "/jobs", "/health", "/history"):
        code, head = ask(daemon.port, path)
        check(code == 401 and "\r\nWWW-Authenticate: Bearer" in head, f"{path}: {head}")
        equal([status(daemon, t, path=path) for t in (OLD, NEW, OLD[:-1], OLD + "x")], [200, 200, 401, 401], path)
    equal(ask(daemon.port, "/")[0], 200, "the page holds no data")
    code, head = ask(daemon.port, Authorization=f"Basic {OLD}")
    equal(code, 401, "another scheme")


@test_simulated
def token_opens_the_websocket():
    daemon = Daemon("--simulate", "--token-file", write("tokens", OLD))
    item = "zernel.token." + OLD.encode().hex()
    for port in (daemon.port, daemon.ws_port):
        equal(websocket(port), 401, "without a token")
        equal(websocket(port, Sec_WebSocket_Protocol="zernel.v1"), 401, "with a subprotocol only")
        equal(websocket(port, Authorization=f"Bearer {OLD}"), 101, "with the header")
        equal(websocket(port, Sec_WebSocket_Protocol=f"zernel.v1, {item}"), 101, "with the subprotocol of the token")
        equal(websocket(port, Sec_WebSocket_Protocol=f"zernel.v1, {item[:-2]}"), 401, "with a part of it")
        equal(websocket(port, Authorization=f"Bearer {OLD}", Origin="http://evil.example"), 403, "another site")
    equal(ask(daemon.port, Sec_WebSocket_Protocol=item)[0], 401, "the subprotocol is for the WebSocket")


@test
def tokens_change_while_it_runs():
    """The live daemon, which has given up all but reading by then; no allocation, whatever it reads."""
    tokens = write("tokens", OLD)
    expect = ["SIGHUP: token file .*the old tokens stay"]
    daemon = Daemon("--token-file", tokens, binary=os.path.join(TOOLS, "zerneld-alloc"), expect=expect)
    equal((status(daemon, OLD), status(daemon, NEW)), (200, 401), "at first")
    replace(tokens, f"{OLD}\n{NEW}\n")
    hang_up(daemon, "tokens in use: 2")
    equal((status(daemon, OLD), status(daemon, NEW)), (200, 200), "both, while the new one is handed out")
    replace(tokens, f"{NEW}\n")
    hang_up(daemon, "tokens in use: 1")
    equal((status(daemon, OLD), status(daemon, NEW)), (401, 200), "the new one alone")
    for text, why in (("x\n", ":1: a token is 16 to 128"), ("", "no token in it"), ("a" * 20000, "larger than"),
                      (f"{OLD}\n" * 9, ":9: more than 8 tokens")):
        replace(tokens, text)
        hang_up(daemon, "error: SIGHUP: token file", why, "the old tokens stay")
    os.unlink(tokens)
    hang_up(daemon, "No such file or directory", "the old tokens stay")
    equal((status(daemon, OLD), status(daemon, NEW)), (401, 200), "as before")
    equal(daemon.end(), 0, "exit status")


@test
def tokens_of_another_user_are_read_after_start():
    """In a directory that only its owner may enter: what is left of root's rights is enough to read it again."""
    path = write("private/tokens", OLD)
    os.chown(path, NOBODY, NOBODY)
    os.chown(os.path.dirname(path), NOBODY, NOBODY)
    os.chmod(os.path.dirname(path), 0o700)
    daemon = Daemon("--token-file", path)
    with open(path, "w") as f:
        f.write(NEW)
    hang_up(daemon, "tokens in use: 1")
    equal((status(daemon, OLD), status(daemon, NEW)), (401, 200), "tokens")


@test_simulated
def tokens_need_no_root():
    need("setpriv")
    path = write("tokens", OLD)
    os.chown(path, NOBODY, NOBODY)
    argv = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", copy_of(ZERNELD, "zerneld")]
    daemon = Daemon("--simulate", "--token-file", path, argv=argv,
                    expect=["SIGHUP: .*Permission denied; the old tokens stay"])
    os.chown(path, 0, 0)
    hang_up(daemon, "Permission denied")
    os.chown(path, NOBODY, NOBODY)
    hang_up(daemon, "tokens in use: 1")
    equal(status(daemon, OLD), 200, "with the token")


@test_simulated
def a_token_file_for_all_is_a_warning():
    daemon = Daemon("--simulate", "--token-file", write("tokens", OLD, 0o644), expect=["every user may read it"])
    equal(sum("every user" in s for s in daemon.lines()), 1, "warnings")


@test_simulated
def hanging_up_without_tokens_does_nothing():
    daemon = Daemon("--simulate")
    check("no token asked for" in daemon.lines()[0], "the first line says so")
    for _ in range(3):
        hang_up(daemon, "no token file to read again")
    equal(status(daemon), 200, "an answer")


@test_simulated
def a_bad_token_file_ends_the_start():
    for path, why in (("/nowhere/tokens", "token file /nowhere/tokens: cannot read it: No such file or directory"),
                      (write("short", "\nx\n"), "short:2: a token is 16 to 128"), (folder(), "Is a directory")):
        got = run([ZERNELD, "--simulate", "--metrics-port", "0", "--ws-port", "0", "--token-file", path])
        equal((got.returncode, got.stdout, got.stderr.count("\n")), (2, "", 1), path)
        check(got.stderr.startswith("zerneld: ") and why in got.stderr, got.stderr)


@test_simulated
def names_of_the_node():
    daemon = Daemon("--simulate", "--host-names", "gpu7.cluster.example,.pool.example")
    for host in ("localhost", "127.0.0.1", f"127.0.0.1:{daemon.port}", "[::1]:9091", os.uname().nodename,
                 "GPU7.cluster.example:9091", "a.pool.example."):
        equal(ask(daemon.port, host=host)[0], 200, host)
    for host in ("evil.example", "pool.example", "cluster.example", "gpu7.cluster.example.evil.example"):
        equal(ask(daemon.port, host=host)[0], 421, host)
        for port in (daemon.port, daemon.ws_port):
            check(websocket(port, host=host, Origin=f"http://{host}") in (403, 421), f"rebinding to {host}")


@test
def a_node_that_is_named_while_it_runs():
    """By DHCP or cloud-init, say, which the start of a service need not wait for."""
    daemon = Daemon(argv=["unshare", "--uts", "sh", "-c", 'hostname localhost.localdomain; exec "$@"', "sh", ZERNELD])
    equal(daemon.json()["node"], "localhost.localdomain", "at the start")
    equal(ask(daemon.port, host="node12:9091")[0], 421, "a name that it does not have yet")
    run(["nsenter", "--target", str(daemon.pid), "--uts", "hostname", "node12"], check=True)
    wait_until(lambda: daemon.json()["node"] == "node12", "the new name")
    equal(ask(daemon.port, host="node12:9091")[0], 200, "the new name")
    equal(ask(daemon.port, host="localhost.localdomain")[0], 421, "the old one")
    equal(sum("node: its name is node12 now, and was localhost.localdomain" in line for line in daemon.lines()), 1, "log")


@test_simulated
def unix_socket_for_this_node():
    """Who may connect is a matter of the file's mode, so no token is asked for there."""
    path = os.path.join(folder(), "metrics.sock")
    tokens = write("tokens", OLD)
    daemon = Daemon("--simulate", "--token-file", tokens, "--listen", f"127.0.0.1,unix:{path}")
    check(f"unix:{path}" in daemon.lines()[0], "the first line says what listens")
    check(stat.S_ISSOCK(os.stat(path).st_mode) and not os.stat(path).st_mode & 0o007, "not for all")
    equal([ask(path, p)[0] for p in ("/json", "/metrics", "/")], [200, 200, 200], "answers")
    equal(websocket(path), 101, "WebSocket")
    for argv in (["watch", f"unix:{path}", "--once"], ["status", f"unix:{path}"]):
        got = run([ZERNEL, *argv])
        check(got.returncode == 0 and "simulated" in got.stdout.lower(), f"{argv}: {got}")


@test_simulated
def a_unix_socket_alone():
    """No port at all, and a second start where the first one left its socket behind."""
    path = os.path.join(folder(), "only.sock")
    for _ in range(2):
        with open(os.path.join(folder(), "log"), "w+") as log:
            daemon = subprocess.Popen([ZERNELD, "--simulate", "--listen", f"unix:{path}"], stderr=log)
            try:
                wait_until(lambda: os.path.getsize(log.name), "its first line")
                equal(ask(path)[0], 200, "an answer")
            finally:
                daemon.terminate()
                equal(daemon.wait(PATIENCE), 0, "exit status")
            log.seek(0)
            first = log.readline()
            check(first.startswith(f"zerneld: ready: simulated data, listening on unix:{path}, "), first)


@test_simulated
def clients_say_what_is_asked_for():
    tokens, wrong = write("tokens", OLD), write("wrong", NEW)
    daemon = Daemon("--simulate", "--token-file", tokens)
    url = f"http://127.0.0.1:{daemon.port}"
    for verb, more in (("watch", ["--once"]), ("status", [])):
        for args, why in (([], "it asks for a token: --token-file FILE"),
                          (["--token-file", wrong], "it does not accept the token that was sent: --token-file FILE")):
            got = run([ZERNEL, verb, url, *more, *args])
            equal((got.returncode, got.stdout), (1, ""), verb)
            equal(got.stderr, f"zernel: {verb}: 127.0.0.1:{daemon.port}: {why}\n", verb)
        got = run([ZERNEL, verb, url, *more, "--token-file", tokens])
        check(got.returncode == 0 and "simulated" in got.stdout.lower(), f"{verb}: {got}")
    got = run([ZERNEL, "watch", url, "--once", "--json"], env={**os.environ, "ZERNEL_TOKEN_FILE": tokens})
    equal(parse_json(got.stdout)["source"], "simulated", "token file of the environment")


VERBS = [["watch", "--once"], ["top", "--once"], ["status"], ["why"], ["flame", "--folded"], ["health"], ["ghosts"]]


def verbs(conf, argv=(), env=None):
    """{verb: how it ended} of each verb that asks the daemon, without a URL, where conf is /etc/zernel.conf."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("ZERNEL_")}
    return {verb[0]: run([*argv, copy_of(ZERNEL, "zernel"), *verb], env={**clean, "ZERNEL_CONFIG": conf, **(env or {})})
            for verb in VERBS}


def all_answered(done, said=""):
    for verb, got in done.items():
        check(got.returncode == 0 and got.stderr == said.format(verb=verb), f"{verb}: {got}")


@test_simulated
def clients_ask_this_node_as_its_options_say():
    path, tokens = os.path.join(folder(), "own.sock"), write("tokens", OLD)
    daemon = Daemon("--simulate", "--simulate-scenario", "healthy", "--token-file", tokens,
                    "--listen", f"127.0.0.3,unix:{path}")
    address = f"127.0.0.3:{daemon.port}"
    here = f"listen = 127.0.0.3\nmetrics-port = {daemon.port}\n"
    all_answered(verbs(write("conf", f"listen = unix:{path}\n")))
    all_answered(verbs(write("conf", f"{here}token-file = {tokens}\n")))
    all_answered(verbs(write("conf", here), env={"ZERNEL_TOKEN_FILE": tokens}))
    all_answered(verbs(write("conf", "listen = nowhere\n"), env={"ZERNEL_LISTEN": f"unix:{path}"}),
                 f"zernel: {{verb}}: warning: {folder()}/conf:1: listen: 'nowhere' is not up to 8 of *, IPv4 and IPv6 "
                 "addresses, unix:/PATH, with commas between them; * stands for all addresses; "
                 f"unix:{path} is asked\n")
    status = run([ZERNEL, "status", f"http://{address}"],
                 env={**os.environ, "ZERNEL_CONFIG": write("conf", f"{here}token-file = {tokens}\n")})
    check(status.returncode == 1 and "it asks for a token" in status.stderr, f"the token goes to no URL: {status}")
    os.chmod(folder(), 0o711)
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    why = f"{address}: it asks for a token: --token-file FILE"
    for verb, got in verbs(write("conf", f"{here}token-file = {tokens}\n", 0o644), user).items():
        equal(got.returncode, 2 if verb in ("health", "ghosts") else 1, verb)
        equal(got.stderr, f"zernel: {verb}: {why} (token file {tokens}: cannot read it: Permission denied)\n", verb)
        equal(got.stdout, f"ERROR: zernel: {why}\n" if verb == "health" else "", verb)


@test_simulated
def a_user_may_ask_where_no_token_is_wanted():
    """Neither a file of options nor a file of tokens that is root's alone is in his way, nor makes it noise."""
    daemon = Daemon("--simulate", "--simulate-scenario", "healthy")
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    os.chmod(folder(), 0o711)
    port = {"ZERNEL_METRICS_PORT": str(daemon.port)}
    all_answered(verbs(write("conf", f"token-file = {write('tokens', OLD)}\n", 0o644), user, port))
    all_answered(verbs(write("conf", "metrics-port = 1\n"), user, port))


FORGER = '''
import http.server, sys

class Forger(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        said = {"/health": b'{"status": "ok"}',
                "/alerts": b'{"alerts": [{"alert": "gpu_lost", "state": "firing", "summary": "forged"}]}'}
        text = said.get(self.path, b"{}")
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
        print(self.headers, flush=True)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Forger)
print(server.server_port, flush=True)
server.serve_forever()
'''


def forger():
    """Nobody has a port, and answers as no daemon did: the process, and the port."""
    process = Process(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c",
                       FORGER], stdout=subprocess.PIPE)
    return process, int(process.process.stdout.readline())


@test_simulated
def nobody_answers_in_place_of_the_daemon():
    process, port = forger()
    conf = write("conf", f"metrics-port = {port}\ntoken-file = {write('tokens', OLD)}\n", 0o644)
    why = f"127.0.0.1:{port}: it is held by user {NOBODY}, not by the daemon of this node"
    for verb, got in verbs(conf).items():
        equal(got.returncode, 2 if verb in ("health", "ghosts") else 1, verb)
        equal(got.stderr, f"zernel: {verb}: {why}\n", verb)
        equal(got.stdout, f"ERROR: zernel: {why}\n" if verb == "health" else "", verb)
    os.chmod(folder(), 0o711)
    own = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    equal(verbs(conf, own)["health"].returncode, 1, "his own is his own to believe")
    equal(run([ZERNEL, "health", f"http://127.0.0.1:{port}"]).returncode, 1, "and so is one that is asked by its address")
    process.kill()
    check(OLD not in process.process.stdout.read(), "no token is sent")


def missing(path):
    """Ports that others have, as /health says on a Unix socket."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        return parse_json(s.makefile().read().partition("\n\n")[2]).get("ports_missing", 0)


@test_simulated
def a_service_starts_without_its_port():
    process, port = forger()
    path = os.path.join(folder(), "own.sock")
    options = ["--simulate", "--listen", f"127.0.0.1,unix:{path}", "--metrics-port", str(port)]
    by_hand = run([ZERNELD, *options, "--ws-port", "0", "--control", "none"])
    equal((by_hand.returncode, "another zerneld? choose --metrics-port" in by_hand.stderr), (1, True), "by hand")
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(os.path.join(folder(), "notify"))
    daemon = Daemon(*options, env={"NOTIFY_SOCKET": os.path.join(folder(), "notify")},
                    expect=[f"cannot listen on 127.0.0.1:{port}: Address already in use by user {NOBODY}; "])
    equal(told.recv(100), b"READY=1", "what systemd hears")
    equal(missing(path), 1, "ports that others have")
    equal(run([ZERNEL, "health", f"unix:{path}"]).returncode, 0, "it is no fault of the node")
    process.kill()
    wait_until(lambda: missing(path) == 0, "the port")
    equal(ask(port, "/health")[0], 200, "who answers there now")
    check(any(f"port {port} is free" in line for line in daemon.lines()), daemon.lines())


def low_port():
    """A socket that listens on a port below 1024, and the port."""
    for port in range(1023, 600, -1):
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            held.bind(("127.0.0.1", port))
            held.listen()
            return held, port
        held.close()
    raise AssertionError("no port below 1024 is free")


@test
def a_service_takes_a_low_port_once_it_is_free():
    """By then it has given up what it does not need."""
    held, port = low_port()
    path = os.path.join(folder(), "own.sock")
    told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.bind(os.path.join(folder(), "notify"))
    daemon = Daemon("--listen", f"127.0.0.1,unix:{path}", "--metrics-port", str(port),
                    env={"NOTIFY_SOCKET": os.path.join(folder(), "notify")},
                    expect=[f"cannot listen on 127.0.0.1:{port}: Address already in use"])
    equal(missing(path), 1, "ports that others have")
    held.close()
    wait_until(lambda: missing(path) == 0, "the port")
    equal(ask(port, "/health")[0], 200, "who answers there now")
    check(any(f"port {port} is free" in line for line in daemon.lines()), daemon.lines())


if __name__ == "__main__":
    main()
