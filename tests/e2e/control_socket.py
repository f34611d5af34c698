# SPDX-License-Identifier: GPL-2.0
"""Who asks on the control socket of a daemon that may get no processor for a moment, or gets none himself."""
import contextlib
import re
import socket

from harness import PATIENCE, ZERNEL, equal, run, wait_until


def ask(path, message):
    """The answer to a message, both as bytes; None: the connection ended without one. Who gets no CPU between
    connecting and sending is told that nothing was sent: then once more."""
    while True:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(path)
            with contextlib.suppress(BrokenPipeError):  # it was told, and is hung up on
                connection.send(message)
            try:
                answer = connection.recv(1 << 18) or None
            except ConnectionResetError:
                return None
        if answer != b"busy: no message within 2 s\n":
            return answer


def answered(make):
    """What make() finished as, a call of the program, once the daemon answers it. The program waits for a moment, in
    which on a busy machine the daemon may get no processor, and it may get none itself; said again, a message is what
    it was."""
    def once():
        done = make()
        return None if re.search("the daemon does not answer|no message within 2 s", done.stderr) else done
    return wait_until(once, "an answer of the daemon")


def asked(path, *arguments):
    """What `zernel job` finished as."""
    return answered(lambda: run([ZERNEL, "job", *arguments, "--control", path]))


def told(path, *arguments):
    """What it prints, of one that must succeed."""
    done = asked(path, *arguments)
    equal((done.returncode, done.stderr), (0, ""), f"zernel job {' '.join(arguments)}")
    return done.stdout
