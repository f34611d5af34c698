# SPDX-License-Identifier: GPL-2.0
"""What runtimes of CUDA get from cuGetProcAddress: the addresses that are exported, on which the probes stand, or
others."""
import re

VERSIONS = (3020, 4000, 5000, 6050, 7000, 8000, 9020, 10000, 10010, 10020, 11000, 11010, 11020, 11030, 11040, 11070,
            11080, 12000, 12010, 12020, 12030, 12040, 12080, 12090, 13000)
STREAMS = (0, 1, 2)  # the default, the legacy stream, one of each thread
ASK = """
def exported(name):
    return ctypes.cast(getattr(cuda, name), c_void_p).value

def ask(name, version, streams):
    at = c_void_p()
    cuda.cuGetProcAddress(name.encode(), byref(at), version, u64(streams))
    return at.value
"""


def plain(name):
    return re.sub(r"(_v\d)?(_pt[sd][zs])?$", "", name)


def handed_out(actor, hooked, exported):
    """What is asked for by the names of hooked functions: how many answers are at no exported function, exported
    functions that are not hooked, and hooked ones that are never the answer. actor: it has `cuda`."""
    names = sorted({plain(f) for f in hooked})
    actor.do(ASK)
    actor.do(f"given = {{ask(n, v, s) for n in {names!r} for v in {VERSIONS!r} for s in {STREAMS!r}}} - {{None}}")
    at = dict(zip(exported, actor.do(f"answer = [exported(f) for f in {list(exported)!r}]")))
    given = set(actor.do("answer = sorted(given)"))
    known = {at[f] for f in hooked}
    others = {f for f in exported if at[f] in given - known}
    return len(given - set(at.values())), others, {f for f in hooked if at[f] not in given}
