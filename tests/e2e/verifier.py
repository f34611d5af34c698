#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""What the kernel's verifier is to take of each program: how many instructions it goes through, which bounds how long
the start takes; and how much stack a chain of calls has, which older kernels round up more than this one may."""
import functools
import glob
import os
import re

from badinput import bpf_objects
from harness import BUILD, Daemon, check, equal, main, run, test

MOST = 50000
STACK_MOST, STACK_ROUND = 512, 32  # bytes: MAX_BPF_STACK, and what each function of a chain is rounded up to


def functions_of(path):
    """Of an object's functions: the bytes of stack that they use, and the names of those that they call."""
    stack, calls, name = {}, {}, None
    for line in run(["llvm-objdump", "-dr", "--no-show-raw-insn", path]).stdout.splitlines():
        if found := re.match(r"[0-9a-f]+ <(?!LBB)(.+)>:", line):
            name = found[1]
            stack[name], calls[name] = 0, set()
        for at in re.findall(r"r10 - (\d+)", line) + re.findall(r"r\d \+= -(\d+)$", line):
            stack[name] = max(stack[name], int(at) if int(at) <= STACK_MOST else 0)
        if found := re.search(r"R_BPF_64_32\s+(\S+)", line):
            calls[name].add(found[1])
    return stack, calls


def deepest(path):
    """The most that a chain of calls has, and the chain."""
    stack, calls = functions_of(path)

    @functools.cache
    def below(name):
        own = -(-max(stack.get(name, 0), 1) // STACK_ROUND) * STACK_ROUND
        depth, chain = max((below(other) for other in calls.get(name, ())), default=(0, ()))
        return own + depth, (name, *chain)
    return max(map(below, stack))


@test
def programs_are_verified_in_few_instructions():
    """Linux tells it from 5.16 on."""
    daemon, names = Daemon(), bpf_objects("prog")
    took = {names[number]: int(verified) for _, _, said in daemon.descriptors()
        for number, verified in re.findall(r"(?ms)^prog_id:\s*(\d+).*^verified_insns:\s*(\d+)", said)
        if names.get(number)}
    check(len(took) > 20, f"programs of which it is known: {took}")
    more = {name: count for name, count in took.items() if count > MOST}
    equal(more, {}, "those that take more")


@test
def chains_of_calls_have_room_on_the_stack_of_old_kernels():
    """One of 512 bytes there is refused with one more."""
    objects = glob.glob(os.path.join(BUILD, "*.bpf.full.o"))
    check(len(objects) > 10, f"objects: {objects}")
    most = {os.path.basename(path): deepest(path) for path in objects}
    check(max(most.values())[0] > 256, f"chains that were seen: {most}")
    equal({name: chain for name, chain in most.items() if chain[0] > STACK_MOST}, {}, "what has more")


if __name__ == "__main__":
    main()
