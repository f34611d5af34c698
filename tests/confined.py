#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""confined.py [UNIT] COMMAND...: runs a command with what a systemd unit leaves it, without a systemd: the bounding set
of its capabilities, its limit of open files, no new privileges, and its system-call filter, loaded into the kernel as
systemd does it (libseccomp, and systemd's own groups of calls). Namespaces of the unit (ProtectSystem and the like) are
not made here: tests/vm/package.sh has a real systemd. Needs root."""
import ctypes
import errno
import functools
import os
import re
import resource
import socket
import subprocess
import sys

UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../contrib/systemd/zerneld.service")
PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 23, 24, 38
ALLOW, REFUSE = 0x7fff0000, 0x00050000 | errno.EPERM  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM)
EQUAL, LAST_CAP = 4, 40  # SCMP_CMP_EQ


def values(key, unit=UNIT):
    """The words of all lines of a key, in order."""
    with open(unit) as f:
        return [word for line in re.findall(rf"^{key}=(.*)$", f.read(), re.M) for word in line.split()]


@functools.lru_cache(None)
def group(name):
    """The system calls of one of systemd's groups, those in it included."""
    said = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True,
        check=True).stdout
    calls = set()
    for line in said.splitlines()[1:]:
        word = line.strip()
        if word.startswith("@"):
            calls |= group(word)
        elif word and not word.startswith("#"):
            calls.add(word)
    return calls


def calls(unit=UNIT):
    """The names that SystemCallFilter= lets pass: its lines add and take away in their order."""
    allowed = set()
    with open(unit) as f:
        for line in re.findall(r"^SystemCallFilter=(.*)$", f.read(), re.M):
            names = set()
            for word in line.lstrip("~").split():
                names |= group(word) if word.startswith("@") else {word}
            allowed = allowed - names if line.startswith("~") else allowed | names
    return allowed | group("@default")


def capabilities(unit=UNIT):
    return {name.lower() for name in values("CapabilityBoundingSet", unit)}


class Compare(ctypes.Structure):
    _fields_ = [("argument", ctypes.c_uint), ("how", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def load_filter(unit):
    """Allows what the unit allows, and socket() for its address families alone."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(REFUSE))
    for name in sorted(calls(unit) - {"socket"}):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # the others are of other machines
            assert seccomp.seccomp_rule_add_array(context, ALLOW, number, 0, None) == 0, name
    for family in values("RestrictAddressFamilies", unit):
        equal = Compare(0, EQUAL, getattr(socket, family), 0)
        assert seccomp.seccomp_rule_add_array(
            context, ALLOW, seccomp.seccomp_syscall_resolve_name(b"socket"), 1, ctypes.byref(equal)) == 0
    assert seccomp.seccomp_load(context) == 0, "the filter was not taken"


def numbers():
    """{cap_name: number}"""
    with open("/usr/include/linux/capability.h") as f:
        return {name.lower(): int(n) for name, n in re.findall(r"#define (CAP_[A-Z_]+)\s+(\d+)\n", f.read())}


def drop_capabilities(unit):
    libc = ctypes.CDLL(None, use_errno=True)
    kept = {number for name, number in numbers().items() if name in capabilities(unit)}
    for cap in range(LAST_CAP + 1):
        if cap not in kept and libc.prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1:
            assert libc.prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0, cap
    assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def limit_files(unit):
    for value in values("LimitNOFILE", unit):
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(value), int(value)))


def main(arguments):
    unit = arguments.pop(0) if arguments[0].endswith(".service") else UNIT
    limit_files(unit)
    calls(unit)  # asks programs, while they can be run
    drop_capabilities(unit)
    load_filter(unit)
    os.execvp(arguments[0], arguments)


if __name__ == "__main__":
    main(sys.argv[1:])
