# SPDX-License-Identifier: GPL-2.0
"""What --list-probes says of one library."""
from harness import ZERNELD, run


def listed(path):
    """The lines about this library."""
    parts = run([ZERNELD, "--list-probes", "--libraries", path]).stdout.split("\n\n")
    own = next(part.splitlines() for part in parts if part.startswith(f"{path}\n"))
    return [line.split() for line in own[1:]]


def table(path):
    """{function: family} of all that a library of this kind may have."""
    return {row[1]: row[0] for row in listed(path)}


def places(path):
    """{function: (how far behind its entry, on what)}; a function that is missing is left out."""
    return {row[1]: (int(row[2]), row[3]) for row in listed(path) if row[2] != "missing"}
