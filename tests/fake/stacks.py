# SPDX-License-Identifier: GPL-2.0
"""Calls the fake library from many kinds of Python stacks, on the line that also notes which stack it was, and at its
end tells how often each was: what a walker of stacks must find, call by call. Runs under CPython 3.8 and later.
Arguments: the library, a word for what to do. It makes a hooked call for each line `call` on its standard input, and
begins with another line."""
import asyncio
import ctypes
import functools
import json
import os
import re
import sys
import threading
import time
from collections import Counter

lib = ctypes.CDLL(sys.argv[1])
seen = Counter()
lock = threading.Lock()
PACE = 0.012  # as slow as every call is walked
PER_THREAD = 7


def note():
    frame, stack = sys._getframe(1), []
    while frame:
        code = frame.f_code
        stack.append("%s (%s:%d)" % (getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno))
        frame = frame.f_back
    with lock:
        seen[";".join(reversed(stack))] += 1


def launch():
    return lib.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None), note(), time.sleep(PACE)


def generator(n):
    for _ in range(n):
        launch()
        yield 1


def delegating():
    yield from generator(1)


async def coroutine():
    launch()
    await asyncio.sleep(0)
    launch()


async def outer():
    await coroutine()


def recursion(n):
    if n == 0:
        return launch()
    return recursion(n - 1)


def even(n):
    return launch() if n == 0 else odd(n - 1)


def odd(n):
    return launch() if n == 0 else even(n - 1)


class Ordered:
    def __lt__(self, other):
        launch()
        return False

    def __enter__(self):
        launch()
        return self

    def __exit__(self, *error):
        launch()

    def __del__(self):
        launch()

    @property
    def value(self):
        return launch()

    @classmethod
    def of_class(cls):
        return launch()

    @staticmethod
    def static():
        return launch()

    def __call__(self):
        return launch()

    def __getattr__(self, name):
        return launch()


class Made:
    """Made often on one line, so that CPython calls its __init__ by the shorter way."""

    def __init__(self, calls):
        if calls:
            launch()


def decorated(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)
    return inner


@decorated
def with_decorator():
    return launch()


def many_lines():
    return [
        1,
        launch(),
        [launch()
         for _ in range(2)],
        launch(
        ),
    ]


def raises():
    try:
        raise ValueError
    except ValueError:
        launch()
    finally:
        launch()


def of_class_body():
    class Body:
        made = launch()
    return Body


def kinds():
    launch()
    list(generator(2))
    list(delegating())
    recursion(5)
    recursion(60)
    even(9)
    sorted([Ordered(), Ordered()])
    with Ordered() as o:
        o.value
        o.of_class()
        o.static()
        o()
        o.missing
    del o
    list(map(lambda x: launch(), (1, 2)))
    re.sub("a", lambda m: launch() and "b", "aa")
    with_decorator()
    many_lines()
    raises()
    of_class_body()
    functools.partial(recursion, 1)()
    functools.reduce(lambda a, b: launch() and 0, (1, 2, 3))
    [launch() for _ in range(2)]
    {launch() and i for i in range(2)}
    tuple(launch() for _ in range(2))
    max((1, 2), key=lambda x: launch() and x)
    (lambda: launch())()
    getattr(Ordered(), "other")
    for calls in 50 * [False] + 2 * [True]:
        Made(calls)


def run_loop():
    loop = asyncio.new_event_loop()
    loop.run_until_complete(outer())
    loop.close()


def all_kinds():
    kinds()


def truth():
    threads = [threading.Thread(target=all_kinds) for _ in range(2)]
    for t in threads:
        t.start()
    run_loop()
    for t in threads:
        t.join()


def deep():
    """Deeper than what is kept."""
    sys.setrecursionlimit(10000)
    for n in (120, 180, 330):
        recursion(n)


def short(n):
    for _ in range(n):
        launch()


def helper():
    """A thread without Python calls, and this line waits for it: the call does not return before it sleeps."""
    lib.fake_cuda_set(b"sync_joined", ctypes.c_long(1))
    c = ctypes.CDLL(None)
    thread = ctypes.c_ulong()
    for _ in range(13):
        c.pthread_create(ctypes.byref(thread), None, lib.cuCtxSynchronize, None)
        c.pthread_join(thread, None), note()


def pairs(path, depth):
    """Two lines at each depth, so that each path is a stack of its own."""
    if depth == 0:
        return lib.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    if path & 1:
        return pairs(path >> 1, depth - 1)
    return pairs(path >> 1, depth - 1)


def many():
    for path in range(4096):
        pairs(path, 12)


def memory():
    p = ctypes.c_uint64()
    lib.cuInit(0)
    lib.cuDevicePrimaryCtxRetain(ctypes.byref(p), 0)
    lib.cuCtxSetCurrent(p)
    for _ in range(5):
        lib.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)), note()


def gone():
    """Functions that are made at run time, used once, and thrown away."""
    for i in range(50):
        space = {"launch": launch}
        exec("def made_%d():\n    return launch()" % i, space)
        space["made_%d" % i]()
        del space


def child():
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        while os.getppid() == parent:
            short(10)  # its Python is found meanwhile
        os._exit(0)
    seen[str(pid)] += 1


def bare(n):
    for _ in range(n):
        lib.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)


kept = []


def hold():
    """The path of a function lies in a mapped file whose file system does not answer: whoever reads it waits."""
    c, path, size = ctypes.CDLL(None, use_errno=True), "x" * (1 << 20), os.stat(sys.argv[3]).st_size
    made = type(bare)(bare.__code__.replace(co_filename=path), globals())
    begin = (id(path) + 4096) & ~4095
    if id(path) + sys.getsizeof(path) - begin > size:
        raise ValueError("the file is too small")
    c.mmap.restype = ctypes.c_void_p
    c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    with open(sys.argv[3], "rb") as file:
        if c.mmap(begin, id(path) + sys.getsizeof(path) - begin, 1, 0x12, file.fileno(), 0) != begin:  # private, there
            raise OSError(ctypes.get_errno(), "mmap")
    kept.append(made)  # what has gone by the time it is read for is not waited for
    made(3)


def threads():
    """A thousand of them at a time, each of which computes a little and then sleeps."""
    gate = threading.Event()
    threading.stack_size(1 << 17)

    def one():
        busy(0.002)
        gate.wait()
    some = [threading.Thread(target=one) for _ in range(1000)]
    for t in some:
        t.start()
    launch()
    gate.set()
    for t in some:
        t.join()


def again():
    """Another program in the same process, which waits as the first one did."""
    short(3)
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
    time.sleep(1)  # its functions are asked for their names while it is there
    os.execv(sys.executable, [sys.executable, *sys.argv[:2], "short", *sys.argv[3:]])


def fast():
    for _ in range(200000):
        lib.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)


def busy(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(50))


def asleep(seconds):
    return time.sleep(seconds)


def work_of_a_child():
    busy(1)


def where():
    """Time on the CPU and asleep, here and in a child, by the program's own clocks, in microseconds."""
    launch()  # sleeps are told of threads that do
    busy(1)
    begin = time.monotonic()
    for _ in range(40):
        asleep(0.02)
    for _ in range(3000):  # more of them than are looked at one by one
        asleep(0.0001)
    seen["asleep"] = int((time.monotonic() - begin) * 1e6)
    pid = os.fork()
    if pid == 0:
        time.sleep(1.5)  # the daemon sees new children each second
        work_of_a_child()
        os._exit(0)
    os.waitpid(pid, 0)


print("ready", flush=True)
while sys.stdin.readline() == "call\n":
    # hooked, and no cause of its own
    lib.cuMemGetInfo_v2(ctypes.byref(ctypes.c_size_t()), ctypes.byref(ctypes.c_size_t()))
{"truth": truth, "deep": deep, "helper": helper, "many": many, "memory": memory, "gone": gone, "child": child,
 "fast": fast, "where": where, "threads": threads, "again": again, "hold": hold,
 "short": lambda: short(3)}[sys.argv[2]]()
print(json.dumps(seen), flush=True)
if sys.argv[-1] != "leave":
    sys.stdin.readline()
