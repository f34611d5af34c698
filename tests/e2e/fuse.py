# SPDX-License-Identifier: GPL-2.0
"""A small FUSE file system (linux/fuse.h, protocol 7.31): a folder of files, some of which are read only once the test
says so. A process that waits for one of those holds what the kernel gave it to wait with."""
import ctypes
import errno
import os
import struct
import tempfile
import time
import traceback

from harness import Absent, State, folder, wait_until

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, FLUSH, INIT, OPENDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 25, 26, 27, 29, 36, 42)
SILENT = (FORGET, INTERRUPT, BATCH_FORGET)  # requests that get no answer
DIRECT_IO = 1
HOLD_S = 15  # a read is answered after this at the latest: whoever should release it may be waiting for it
ROOT = 1
libc = ctypes.CDLL(None, use_errno=True)


class Server:
    """The process behind the mount. Nodes are numbered from 2 on, in the order of the files."""

    def __init__(self, fd, files, silent, direct, gate, hold_s):
        self.fd, self.names, self.data = fd, list(files), list(files.values())
        self.silent, self.direct, self.gate, self.held, self.until = silent, direct, gate, [], None
        self.hold_s = hold_s

    def attributes(self, node):
        size, mode = (0, 0o40755) if node == ROOT else (len(self.data[node - 2]), 0o100755)
        return struct.pack("<6Q10I", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 65534, 65534, 0, 4096,
            0)

    def init(self, node, body):
        return struct.pack("<4I2HII2HII6I", 7, 31, 65536, 0, 16, 12, 65536, 1, 0, 0, 0, 0, *[0] * 6)

    def lookup(self, node, body):
        name = body.rstrip(b"\0").decode()
        if name not in self.names:
            raise OSError(errno.ENOENT, name)
        node = self.names.index(name) + 2
        return struct.pack("<4Q2I", node, 0, 3600, 3600, 0, 0) + self.attributes(node)

    def getattr(self, node, body):
        return struct.pack("<Q2I", 3600, 0, 0) + self.attributes(node)

    def open(self, node, body):
        """Root reads past the page cache, where the test wants it."""
        return struct.pack("<Q2I", 0, DIRECT_IO if node != ROOT and self.names[node - 2] in self.direct
            and self.uid == 0 else 0, 0)

    def read(self, node, body):
        _, offset, size = struct.unpack_from("<QQI", body)
        return self.data[node - 2][offset:offset + size]

    def statfs(self, node, body):
        return struct.pack("<5Q4I24x", 0, 0, 0, 0, 0, 4096, 255, 4096, 0)

    def nothing(self, node, body):
        return b""

    ANSWERS = {INIT: init, LOOKUP: lookup, GETATTR: getattr, OPEN: open, OPENDIR: open, READ: read, STATFS: statfs,
               RELEASE: nothing, RELEASEDIR: nothing, FLUSH: nothing}

    def answer(self, request):
        _, code, unique, node, self.uid = struct.unpack_from("<IIQQI", request)
        if code in SILENT:
            return
        error, body = 0, b""
        try:
            body = self.ANSWERS.get(code, self.refuse)(self, node,
                request[40:]) if code in self.ANSWERS else self.refuse()
        except OSError as e:
            error = -e.errno
        os.write(self.fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    def refuse(self):
        raise OSError(errno.ENOSYS, "")

    def is_held(self, request):
        _, code, _, node, _ = struct.unpack_from("<IIQQI", request)
        return code == READ and self.names[node - 2] in self.silent and not os.path.exists(self.gate)

    def run(self):
        os.set_blocking(self.fd, False)
        while True:
            try:
                request = os.read(self.fd, 1 << 20)
            except BlockingIOError:
                request = None
            except OSError:
                return  # unmounted
            if request and self.is_held(request):
                self.held.append(request)
                self.until = self.until or time.monotonic() + self.hold_s
                open(self.gate + ".held", "w").close()
            elif request:
                self.answer(request)
            if self.until and time.monotonic() > self.until:
                open(self.gate, "w").close()
            if self.held and os.path.exists(self.gate):
                self.answer(self.held.pop(0))
            elif not request:
                ctypes.CDLL(None).usleep(1000)


class Fuse:
    """files: {name: bytes}; reads of the silent ones are answered after release(); root's opens of the direct ones
    bypass the page cache. Mounted as fusermount does it for a user: user_id, and others only with allow_other."""

    def __init__(self, files, silent=(), direct=(), user=65534, allow_other=False, source="test",
                 hold_s=HOLD_S):
        if not os.path.exists("/dev/fuse"):
            raise Absent("no /dev/fuse")
        self.place = tempfile.mkdtemp(prefix="fuse-", dir=folder())
        os.chmod(self.place, 0o755)
        self.gate = os.path.join(folder(), os.path.basename(self.place) + ".gate")
        fd = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={fd},rootmode=40000,user_id={user},group_id={user}" + (",allow_other" if allow_other else "")
        if libc.mount(source.encode(), self.place.encode(), b"fuse", 0, options.encode()):
            raise Absent(f"cannot mount FUSE: {os.strerror(ctypes.get_errno())}")
        self.server = os.fork()
        if not self.server:
            try:
                Server(fd, files, silent, direct, self.gate, hold_s).run()
            except BaseException:
                traceback.print_exc()
            os._exit(0)
        os.close(fd)
        State.cleanup.callback(self.close)

    def path(self, name):
        return os.path.join(self.place, name)

    def release(self):
        open(self.gate, "w").close()

    def holds(self):
        """Waits until somebody waits for a silent file."""
        wait_until(lambda: os.path.exists(self.gate + ".held"), "a read that is held")

    def close(self):
        self.release()
        libc.umount2(self.place.encode(), 2)
        os.kill(self.server, 9)
        os.waitpid(self.server, 0)
