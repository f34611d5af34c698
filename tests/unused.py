#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Prints each name that zernel.h declares once and at most one source file has: it belongs into that file, or nowhere.
Fields and values of enums are not looked at. Limits may stay: they are all in one place."""
import collections
import glob
import os
import re

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))


def words(path):
    with open(path, encoding="utf-8") as f:
        return collections.Counter(re.findall(r"\b[A-Za-z_]\w*\b", f.read()))


def main():
    with open("zernel.h", encoding="utf-8") as f:
        header = f.read()
    declared = set(re.findall(r"^(?!static inline)[^\n{]*?\b(zn_\w+)\([^\n]*", header, re.M))
    declared |= set(re.findall(r"^#define (ZN_\w+)", header, re.M))
    count = collections.Counter(re.findall(r"\b[A-Za-z_]\w*\b", header))
    sources = {path: words(path) for path in glob.glob("*.c") + glob.glob("src/*/*.c") + glob.glob("bpf/*.[ch]")}
    tests = [words(path) for path in glob.glob("tests/**/*.[ch]", recursive=True)]
    for name in sorted(declared):
        users = [path for path, has in sources.items() if has[name]]
        if count[name] == 1 and len(users) <= 1 and not any(has[name] for has in tests):
            print(f"{name}: {users[0] if users else 'nobody'}")


if __name__ == "__main__":
    main()
