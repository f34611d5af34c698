#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What leaves the node: a real Alertmanager and a webhook are told of an alert and of its end, whatever other receivers
do; nothing of that reaches the daemon's own work; and the daemon outlives the process that makes connections."""
import os
import re
import shutil
import signal
import socket
import threading
import time
import urllib.request

from harness import CUDA, ZERNEL, ZERNELD, Actor, Daemon, Process, State, check, equal, folder, free_port, main, \
    need, parse_json, run, test, test_simulated, wait_until

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Receiver:
    """Takes connections on loopback, each on a thread. answer: what to do with one, given the connection and how many
    requests came before; it returns whether the connection stays."""

    def __init__(self, answer):
        self.answer, self.requests, self.heads = answer, [], []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        State.cleanup.callback(self.socket.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.talk, args=(connection,), daemon=True).start()

    def talk(self, connection):
        with connection, connection.makefile("rb") as file:
            while True:
                try:
                    head = b"".join(iter(file.readline, b"\r\n"))
                    if not head:
                        return
                    length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", head).group(1))
                    self.heads.append(head.decode())
                    self.requests.append(file.read(length))
                    if not self.answer(connection, len(self.requests) - 1):
                        return
                except OSError:
                    return

    def messages(self):
        return [parse_json(body) for body in list(self.requests)]


def good(connection, _):
    connection.sendall(OK)
    return True


def silent(connection, _):
    time.sleep(60)


def failing_at_first(connection, before):
    connection.sendall(OK if before >= 3 else b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
    return True


def garbage(connection, _):
    connection.sendall(b"\x16\x03\x01\x02\x00" + os.urandom(2000))


def cut(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")


def endless(connection, _):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n")
    for _ in range(1600):
        connection.sendall(b"x" * 65536)


def redirecting(connection, _):
    connection.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n")
    return True


def alertmanager():
    """A real one: its URL, and a function that says which alerts it has."""
    here, port = folder(), free_port()
    with open(f"{here}/am.yml", "w") as f:
        f.write("route: {receiver: none}\nreceivers: [{name: none}]\n")
    process = Process([need("prometheus-alertmanager"), f"--config.file={here}/am.yml", f"--storage.path={here}/am",
                       f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
                      stderr=open(f"{here}/am.log", "w"))
    process.wanted = None
    State.cleanup.callback(process.kill)
    url = f"http://127.0.0.1:{port}"

    def alerts():
        with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=20) as answer:
            return parse_json(answer.read())

    def ready():
        try:
            return alerts() == []
        except OSError:
            return False
    wait_until(ready, "Alertmanager")
    return url, alerts


class Memory:
    """A process whose GPU memory is nearly full, or not."""

    def __init__(self, daemon):
        self.actor = Actor(("cuda", CUDA), env={"FAKE_CUDA_TOTAL_MB": "1000"})
        daemon.attached(CUDA)
        self.actor.do("ready(cuda); ok(cuda.cuDeviceTotalMem_v2(byref(c_size_t()), 0))")

    def fill(self):
        self.actor.do("most = alloc(cuda, 970 << 20)")

    def free(self):
        self.actor.do("ok(cuda.cuMemFree_v2(most))")


def sender_of(daemon):
    """The process id of the one that makes connections."""
    with open(f"/proc/{daemon.pid}/task/{daemon.pid}/children") as file:
        for pid in file.read().split():
            with open(f"/proc/{pid}/comm") as name:
                if "sender" in name.read():
                    return int(pid)
    raise AssertionError("no sender")


def resident(pid):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(r"VmRSS:\s*(\d+)", file.read()).group(1))


def sent(daemon, to):
    return {dict(labels)["result"]: int(v) for (name, labels), v in daemon.metrics().items()
            if name == "zernel_outbound_requests_total" and dict(labels)["to"] == to}


@test
def receivers_are_told_of_an_alert_and_of_its_end():
    am, alerts = alertmanager()
    hook, slow, dead = Receiver(good), Receiver(failing_at_first), f"http://127.0.0.1:{free_port()}"
    with open(f"{folder()}/token", "w") as f:
        f.write("s3cret-token-of-the-receiver\n")
    os.chmod(f"{folder()}/token", 0o600)
    daemon = Daemon("--push-interval-ms", "100", "--alertmanager", f"{am},{slow.url}/prefix,{dead}", "--webhook",
                    f"{hook.url}/a?b=c",
                    "--notify-repeat-ms", "1000", "--outbound-token-file", f"{folder()}/token",
                    expect=["alert gpu_oom_warning", "sender: alertmanager .*Connection refused",
                            "sender: alertmanager .*status 500"])
    memory = Memory(daemon)
    equal(hook.requests, [], "messages before anything fires")
    memory.fill()
    firing = wait_until(alerts, "the alert in Alertmanager", 40)
    node = daemon.json()["node"]
    equal([a["labels"] for a in firing],
        [{"alertname": "gpu_oom_warning", "severity": "critical", "gpu_id": "0", "node": node}], "labels")
    check(firing[0]["annotations"]["summary"], "a summary")
    equal(firing[0]["generatorURL"], f"http://{node}:{daemon.port}/", "generatorURL")
    wait_until(lambda: hook.requests, "a message to the webhook")
    message = hook.messages()[0]
    equal((message["version"], message["node"], message["source"]), (1, node, "live"), "whose message it is")
    equal([(a["status"], a["name"], a["severity"], a["value"], a["ends_ms"]) for a in message["alerts"]],
          [("firing", "gpu_oom_warning", "critical", 0.97, None)], "the alert in the webhook's message")
    check(hook.heads[0].startswith("POST /a?b=c HTTP/1.1\r\n"), "the target")
    check("\r\nAuthorization: Bearer s3cret-token-of-the-receiver\r\n" in hook.heads[0], "the token")
    wait_until(lambda: len(slow.requests) >= 5, "tries after status 500, and then repeats")
    check(slow.heads[0].startswith("POST /prefix/api/v2/alerts HTTP/1.1\r\n"), "the path behind a prefix")
    equal(len(hook.requests), 1, "messages to the webhook, which is told of changes alone")
    memory.free()
    wait_until(lambda: not alerts(), "its end in Alertmanager")
    wait_until(lambda: len(hook.requests) == 2, "its end in the webhook")
    equal([(a["status"], a["since_ms"]) for a in hook.messages()[1]["alerts"]],
        [("resolved", message["alerts"][0]["since_ms"])], "its end")
    wait_until(lambda: sent(daemon, "webhook") == {"ok": 2, "retried": 0, "refused": 0, "failed": 0},
        "the webhook's counts")
    counts = sent(daemon, "alertmanager")
    check(counts["ok"] > 5 and counts["retried"] >= 4 and counts["refused"] == 0, f"Alertmanagers' counts: {counts}")
    equal(daemon.metrics().one("zernel_outbound_down", to="alertmanager"), 1, "destinations that are down")
    said = run([ZERNEL, "status", f"http://127.0.0.1:{daemon.port}"])
    check(re.search(r"(?m)^alertmanager +down: 1 of 3 down$", said.stdout), f"zernel status: {said.stdout}")
    equal(daemon.metrics().lost(), {}, "losses")


@test_simulated
def a_simulated_alert_comes_to_alertmanager_and_goes():
    am, alerts = alertmanager()
    with open(f"{folder()}/rules", "w") as f:
        f.write("disable all\nalert gpu_oom_warning\n  expr zernel_gpu_memory_used_ratio > 95%\n  for 1s\n  severity "
                "critical\n")
    daemon = Daemon("--simulate", "--simulate-scenario", "memory-leak", "--simulate-cycle-s", "20",
                    "--push-interval-ms", "250",
                    "--alerts", f"{folder()}/rules", "--alertmanager", am, expect=["alert gpu_oom_warning"])
    firing = wait_until(alerts, "the alert in Alertmanager", 60)
    equal([a["labels"] for a in firing],
                                           [{"alertname": "gpu_oom_warning", "severity": "critical", "gpu_id": "3",
                                             "source": "simulated",
                                           "node": daemon.json()["node"]}], "labels")
    wait_until(lambda: not alerts(), "its end in Alertmanager", 60)


@test
def bad_receivers_harm_nobody():
    """Each kind for itself: the good one beside it is told all the same, memory stays as it was, ticks go on."""
    hook = Receiver(good)
    bad = [Receiver(kind) for kind in (silent, garbage, endless, cut)]
    daemon = Daemon("--push-interval-ms", "100", "--alertmanager", ",".join(r.url for r in bad), "--webhook", hook.url,
                    "--notify-repeat-ms", "1000",
                    expect=["alert gpu_oom_warning", "sender: alertmanager .*its answer is not HTTP"])
    daemon.expect += ["no answer in time"]
    memory = Memory(daemon)
    memory.fill()
    wait_until(lambda: hook.requests, "a message to the webhook", 40)
    sender = sender_of(daemon)
    before = resident(daemon.pid), resident(sender)
    daemon.ticked(75)
    wait_until(lambda: min(len(r.requests) for r in bad[1:]) >= 3, "every receiver was tried often")
    wait_until(lambda: any("no answer in time" in line for line in daemon.lines()), "the silent one is given up")
    after = resident(daemon.pid), resident(sender)
    check(after[0] < before[0] + 2048 and after[1] < before[1] + 1024, f"memory in KiB: {before}, then {after}")
    memory.free()
    wait_until(lambda: len(hook.requests) == 2, "the end in the webhook")
    equal([a["status"] for a in hook.messages()[1]["alerts"]], ["resolved"], "what it says")


@test
def what_is_refused_is_dropped_and_counted():
    hook = Receiver(redirecting)
    daemon = Daemon("--push-interval-ms", "100", "--webhook", hook.url,
                    expect=["alert gpu_oom_warning", "sender: webhook .*status 302"])
    memory = Memory(daemon)
    memory.fill()
    wait_until(lambda: sent(daemon, "webhook")["refused"] == 1, "a refusal", 40)
    memory.free()
    wait_until(lambda: sent(daemon, "webhook")["refused"] == 2, "a second one")
    equal(daemon.metrics().lost(), {"notification": 2}, "losses")
    equal(len(hook.requests), 2, "requests")
    equal(sum("status 302" in line for line in daemon.lines()), 1, "lines about it")


@test_simulated
def metrics_are_pushed_by_otlp():
    """What the requests say is looked at elsewhere; here: that they come, whole, and that a receiver that fails loses
    nothing but its own time."""
    receiver = Receiver(failing_at_first)
    daemon = Daemon("--simulate", "--push-interval-ms", "100", "--otlp", receiver.url, "--otlp-interval-ms", "1000",
                    expect=["sender: otlp .*status 500"])
    wait_until(lambda: sent(daemon, "otlp")["ok"] >= 5, "exports", 40)
    check(all(h.startswith("POST /v1/metrics HTTP/1.1\r\n") for h in receiver.heads), "the path")
    check("\r\nContent-Type: application/x-protobuf\r\n" in receiver.heads[0], "the type")
    bodies = list(receiver.requests)
    check(all(b"zernel_" in body for body in bodies), f"metrics in each: {[len(body) for body in bodies]}")
    check(b"zernel_cuda_launches" in b"".join(bodies), "launches in some")
    equal(sent(daemon, "otlp")["retried"], 3, "tries that were answered 500")
    equal(receiver.requests[0], receiver.requests[3], "what was tried again")
    check(daemon.metrics().one("zernel_otlp_render_seconds") > 0, "what an export takes")
    equal(daemon.metrics().lost(), {}, "losses")


@test_simulated
def a_new_token_is_read_while_it_runs():
    """In a folder of its own, which the daemon may read after its start too."""
    path, old, new = f"{folder()}/private/token", "the-old-0123456789", "the-new-0123456789"
    os.mkdir(os.path.dirname(path), 0o700)

    def hang_up(token, word):
        with open(f"{path}.new", "w") as f:
            f.write(f"{token}\n")
        os.rename(f"{path}.new", path)
        if not word:
            return
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("SIGHUP: " in line and word in line for line in daemon.lines()), word)

    def next_token():
        before = len(receiver.heads)
        wait_until(lambda: len(receiver.heads) > before + 1, "a request that began since")
        return re.search("Authorization: Bearer (.*)\r", receiver.heads[-1]).group(1)

    hang_up(old, None)
    receiver = Receiver(good)
    daemon = Daemon("--simulate", "--otlp", receiver.url, "--otlp-interval-ms", "1000", "--outbound-token-file", path,
                    expect=["SIGHUP: token file .*/private/token:1: .*; the old one stays",
                            "token file .*/private/token: every user may read it"])
    equal(next_token(), old, "the token at first")
    hang_up("short", "the old one stays")
    equal(next_token(), old, "the token after a bad file")
    hang_up(new, "outbound token read again")
    equal(next_token(), new, "the token after a good one")
    check(not any("no token file" in line for line in daemon.lines()), "there is a file")


@test_simulated
def exports_that_nobody_takes_are_dropped_and_counted():
    receiver = Receiver(silent)
    daemon = Daemon("--simulate", "--push-interval-ms", "100", "--otlp", receiver.url, "--otlp-interval-ms", "1000",
                    "--webhook", f"http://127.0.0.1:{free_port()}", expect=["sender: otlp .*no answer in time"])
    sender = sender_of(daemon)
    wait_until(lambda: daemon.metrics().one("zernel_lost_total", what="otlp"), "a loss", 180)
    check(daemon.metrics().one("zernel_outbound_queue", to="otlp") <= 32, "the queue")
    check(resident(sender) < 16384, "the sender's memory")
    equal([o["to"] for o in daemon.json("/health")["outbound"] if o["state"] == "down"], ["otlp"], "what is down")


class NameServer:
    """Says of every name that it is this machine, over IPv4."""
    ADDRESS = "127.77.0.53"

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((self.ADDRESS, 53))
        State.cleanup.callback(self.socket.close)
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                question, asker = self.socket.recvfrom(512)
            except OSError:
                return
            record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04" + socket.inet_aton("127.0.0.1")
            is_ipv4 = question[-4:-2] == b"\0\x01"
            head = question[:2] + b"\x81\x80\0\x01" + (b"\0\x01" if is_ipv4 else b"\0\0") + bytes(4)
            self.socket.sendto(head + question[12:] + (record if is_ipv4 else b""), asker)


@test_simulated
def a_resolver_that_is_set_up_while_it_runs():
    """As systemd-resolved and NetworkManager do: /etc/resolv.conf is a link to a file below /run, whose folder is not
    there yet."""
    hook, names, etc = Receiver(good), NameServer(), f"{folder()}/etc"
    place = f"/run/zernel-test-{os.getpid()}"
    os.mkdir(etc)
    with open(f"{etc}/hosts", "w") as f:
        f.write("127.0.0.1 localhost\n")
    os.symlink(f"{place}/resolv.conf", f"{etc}/resolv.conf")
    State.cleanup.callback(shutil.rmtree, place, ignore_errors=True)
    daemon = Daemon("--simulate", "--push-interval-ms", "100", "--otlp", hook.url.replace("127.0.0.1", "otlp.example"),
                    "--otlp-interval-ms", "1000", expect=["sender: otlp .*no name server answers"],
                    argv=[need("unshare"), "--mount", "--propagation", "private", "sh", "-c",
                          f'mount --bind {etc} /etc && exec "$@"', "sh", ZERNELD])
    wait_until(lambda: any("no name server answers" in line for line in daemon.lines()), "that none is there", 40)
    os.mkdir(place)
    with open(f"{place}/resolv.conf", "w") as f:
        f.write(f"nameserver {names.ADDRESS}\n")
    wait_until(lambda: hook.requests, "an export, once there is one", 60)


@test_simulated
def the_daemon_outlives_the_sender():
    hook = Receiver(good)
    daemon = Daemon("--simulate", "--push-interval-ms", "100", "--webhook", hook.url,
        expect=["sender: killed by signal 9"])
    sender = sender_of(daemon)
    with open(f"/proc/{sender}/status") as file:
        status = dict(re.findall(r"(?m)^(\w+):\s*(.*)$", file.read()))
    equal((status["Uid"].split("\t"), int(status["CapPrm"], 16), status["Seccomp"]), (["65534"] * 4, 0, "2"),
        "what it may do")
    equal(daemon.metrics().one("zernel_outbound_down", to="webhook"), 0, "destinations that are down")
    os.kill(sender, signal.SIGKILL)
    wait_until(lambda: daemon.metrics().one("zernel_outbound_down", to="webhook") == 1, "that it has ended")
    equal(daemon.metrics().one("zernel_outbound_queue", to="webhook"), None, "a queue that nobody has")
    equal([o["state"] for o in daemon.json("/health")["outbound"]], ["ended"], "/health")
    daemon.ticked(2)


@test_simulated
def the_sender_ends_with_the_daemon():
    daemon = Daemon("--simulate", "--webhook", "http://127.0.0.1:1")
    sender = sender_of(daemon)
    daemon.kill()
    wait_until(lambda: not os.path.exists(f"/proc/{sender}"), "the end of the sender")
    daemon = Daemon("--simulate", "--webhook", "http://127.0.0.1:1")
    sender = sender_of(daemon)
    daemon.end()
    check(not os.path.exists(f"/proc/{sender}"), "it has ended before the daemon")


if __name__ == "__main__":
    main()
