# SPDX-License-Identifier: GPL-2.0
"""A server that has as many connections as the limit on open files allows, for tests: many_server.py PORT SOCKET CUDA.
It listens on both, uses a GPU, and answers each end of a head that it reads; those of one read in one send.
"""
import os
import resource
import select
import socket
import sys

from llm_server import use_gpu

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntext"
END = b"\r\n\r\n"


class Server:
    def __init__(self, port, path):
        self.poll, self.clients, self.listeners = select.epoll(), {}, {}
        for family, address in ((socket.AF_INET, ("127.0.0.1", int(port))), (socket.AF_UNIX, path)):
            s = socket.socket(family)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(address)
            s.listen(4096)
            s.setblocking(False)
            self.listeners[s.fileno()] = s
            self.poll.register(s, select.EPOLLIN)
        self.poll.register(0, select.EPOLLIN)

    def accept(self, listener):
        while True:
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                return
            client.setblocking(False)
            self.clients[client.fileno()] = client, b""
            self.poll.register(client, select.EPOLLIN)

    def read(self, fd):
        client, before = self.clients[fd]
        try:
            got = client.recv(65536)
            heads = (before + got).count(END)
            if heads:
                client.send(ANSWER * heads)
        except OSError:
            got = b""
        if got:
            self.clients[fd] = client, (before + got)[-len(END) + 1:]
            return
        del self.clients[fd]
        client.close()

    def run(self):
        while True:
            for fd, _ in self.poll.poll():
                if fd in self.listeners:
                    self.accept(self.listeners[fd])
                elif fd:
                    self.read(fd)
                elif not os.read(0, 1):
                    return


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, 2 * [resource.getrlimit(resource.RLIMIT_NOFILE)[1]])
    use_gpu(sys.argv[3])
    Server(*sys.argv[1:3]).run()
