#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""columns.py: prints each line of more than 120 columns. A line may be longer where it is data: with a text in quotes
of 40 characters or more, a pattern or a list within a longer text, or a row of a table of macros."""
import re
import subprocess
import sys

MAX = 120
LONG_TEXT = re.compile(r"""(["'`/])(?:(?!\\1)[^\\]|\\.){40,}?\1""")
MACRO_ROW = re.compile(r"\s*(X|CALL|VIA)\(|#define ")
WRITTEN = {"docs/METRICS.md", "docs/BENCHMARKS.md", "docs/SOAK.md"}  # by a program


def is_data(name, line):
    if LONG_TEXT.search(line) or MACRO_ROW.match(line):
        return True
    if name.endswith(".md"):
        return line.startswith(("|", "   "))  # a row of a table, or what a program says
    return name.endswith(".sh") and not line.lstrip().startswith("#")


def main():
    names = subprocess.run(["git", "ls-files", "*.c", "*.h", "*.py", "*.js", "*.mjs", "*.sh", "*.md"],
                           check=True, capture_output=True, text=True).stdout.split()
    broken = 0
    for name in names:
        if name in WRITTEN:
            continue
        fenced = False  # in what a program says
        with open(name, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                line = re.sub(r"\s*\\?\n$", "", line)
                fenced ^= name.endswith(".md") and line.startswith("```")
                if len(line) > MAX and not fenced and not is_data(name, line):
                    print(f"{name}:{number}: {len(line)} columns")
                    broken += 1
    sys.exit(broken > 0)


main()
