#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Services that have been as usual for some minutes and then are slow, each for a reason of its own: `zernel why` says
of each job which. What is usual takes three minutes to learn, so this is no part of `make check`; a daemon, engines and
front ends are real, the GPU is the stand-in.
"""
import os
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
from attribution import ask, has_engine
from claims import job, live, place
from harness import CUDA, ZERNEL, check, equal, free_port, main, run, test, wait_until
from inference import Client, Server, watched
from slow_service import CPU, GPU, SLEEP, UNREAD, USUAL
from why import causes, why

LEARN_S, TELL_S = 300, 60
REASONS = {"gpu": (GPU, "its engine waits for the GPU"), "cpu": (CPU, "its engine runs on the CPU"),
           "sleep": (SLEEP, "its engine sleeps"), "unread": (UNREAD, "requests lie unread"), "well": (USUAL, None)}


class Service:
    def __init__(self, daemon, name):
        self.name, self.mode_file = name, place(f"{name}.mode")
        with open(self.mode_file, "wb") as file:
            file.write(bytes([USUAL]))
        port = free_port()
        self.server = Server("front", address=port, argv=[sys.executable, os.path.join(HERE, "slow_service.py"),
            str(port), place(f"{name}.sock"), CUDA, self.mode_file])
        self.pid = watched(daemon, self.server)
        wait_until(lambda: has_engine(daemon, self.pid), "the engine is of the service")
        job("start", name, "--pid", self.pid, "uid=0")
        self.ended, self.wrong = threading.Event(), []
        self.clients = [threading.Thread(target=self.serve) for _ in range(3)]
        for client in self.clients:
            client.start()

    def serve(self):
        """Now and then a request of some events."""
        try:
            client = Client(self.server)
            while not self.ended.wait(0.25):
                ask(client, 4)
        except Exception as error:
            self.wrong.append(error)

    def become(self, mode):
        with open(self.mode_file, "r+b") as file:
            file.write(bytes([mode]))

    def end(self):
        self.ended.set()
        for client in self.clients:
            client.join()
        equal(self.wrong, [], f"what went wrong with the clients of {self.name}")


def learned(daemon, service):
    return daemon.metrics().one("zernel_request_anomaly_score", pid=service.pid, signal="first_event_p99") is not None


@test
def services_that_become_slow_say_why():
    daemon = live()
    services = [Service(daemon, name) for name in REASONS]
    wait_until(lambda: all(learned(daemon, s) for s in services), "what is usual", LEARN_S)
    for s in services:
        equal([c for c in causes(daemon, s.name) if c.startswith("slow_")], [], f"what is said of {s.name} as usual")
        s.become(REASONS[s.name][0])
    for s in services:
        reason = REASONS[s.name][1]
        if not reason:
            continue
        wait_until(lambda: "slow_first_event" in causes(daemon, s.name), f"{s.name} is slow", TELL_S,
            seen=lambda: why(daemon, s.name))
        cause = next(c for c in why(daemon, s.name)["causes"] if c["cause"] == "slow_first_event")
        print(f"   {s.name}: {cause['says']}", flush=True)
        check(reason in cause["says"], f"the reason of {s.name} is not: {reason}")
        text = run([ZERNEL, "why", s.name, f"http://127.0.0.1:{daemon.port}"]).stdout
        check(reason in text.replace("\n", " "), text)
    equal([c for c in causes(daemon, "well") if c.startswith("slow_")], [], "what is said of the one that is well")
    for s in services:
        s.become(USUAL)
    for s in services:
        wait_until(lambda: not [c for c in causes(daemon, s.name) if c.startswith("slow_")], f"{s.name} is well again",
            TELL_S, seen=lambda: why(daemon, s.name))
        s.end()


if __name__ == "__main__":
    main()
