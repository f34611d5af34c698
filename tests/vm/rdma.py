# SPDX-License-Identifier: GPL-2.0
"""Calls of the library of verbs that fail, for rdma.sh. Arguments: the fake library and the device of RDMA. It makes a
hooked call for each line `call` on its standard input, opens the device at another line, at a third sends to nobody
until the device gives up, says `lost`, and at a fourth makes calls that the kernel refuses; it says of each what was
asked for, errno and how often, as `reg_mr EFAULT 5`, at last `.`, and ends at a fifth."""
import ctypes
import errno
import mmap
import os
import resource
import struct
import sys
import time

POINTER, INT, SIZE = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
RC, INIT, RTR, RTS, STATE = 2, 1, 2, 3, 1  # IBV_QPT_RC, IBV_QPS_INIT and so on, IBV_QP_STATE
NOBODY = 0xfffffe  # no pair of queues has this number
POLL, SEND = 11, 25  # where struct ibv_context_ops has these, which are no functions of the library
RETRIES_EXCEEDED = 12  # IBV_WC_RETRY_EXC_ERR
MANY = 1 << 24  # of what no device has as many
CAP_IPC_LOCK = 14

cuda = ctypes.CDLL(sys.argv[1])
verbs = ctypes.CDLL("libibverbs.so.1", use_errno=True)
libc = ctypes.CDLL(None, use_errno=True)
for name, result, *arguments in (
        ("get_device_list", ctypes.POINTER(POINTER), POINTER), ("get_device_name", ctypes.c_char_p, POINTER),
        ("open_device", POINTER, POINTER), ("alloc_pd", POINTER, POINTER), ("dealloc_pd", INT, POINTER),
        ("reg_mr", POINTER, POINTER, POINTER, SIZE, INT), ("create_cq", POINTER, POINTER, INT, POINTER, POINTER, INT),
        ("create_qp", POINTER, POINTER, POINTER), ("modify_qp", INT, POINTER, ctypes.c_char_p, INT)):
    function = getattr(verbs, "ibv_" + name)
    function.restype, function.argtypes = result, arguments


def made(what):
    if not what:
        sys.exit("it should not have failed: %s" % os.strerror(ctypes.get_errno()))
    return what


def open_device(name):
    devices = made(verbs.ibv_get_device_list(None))
    at = 0
    while devices[at] and verbs.ibv_get_device_name(devices[at]) != name.encode():
        at += 1
    return made(verbs.ibv_open_device(made(devices[at])))


def fails(times, asked, function, *arguments):
    """A call gives NULL and errno, or errno itself."""
    codes = set()
    for _ in range(times):
        result = function(*arguments)
        if function.restype is POINTER and result:
            sys.exit("it should have failed: %s" % asked)
        codes.add(result or ctypes.get_errno())
    code, = codes
    print(asked, errno.errorcode.get(code, code), times, flush=True)


def queue_pair(cq, sends):
    """struct ibv_qp_init_attr: context, two queues, none shared; room; kind."""
    return struct.pack("4Q5I2i", 0, cq, cq, 0, sends, 1, 1, 1, 0, RC, 0)


def operation(device, which, *arguments):
    """One of struct ibv_context: behind the device's pointer come those of its operations."""
    return ctypes.CFUNCTYPE(INT, *arguments)(POINTER.from_address(device + 8 * (1 + which)).value)


def modified(qp, mask, **fields):
    """A step of struct ibv_qp_attr: where each field is, and how wide."""
    at = {"state": (0, "i"), "path_mtu": (8, "i"), "rq_psn": (20, "I"), "sq_psn": (24, "I"), "dest_qp_num": (28, "I"),
          "gid": (56, "16s"), "gid_index": (76, "B"), "hop_limit": (77, "B"), "is_global": (85, "B"), "ah_port": (86, "B"), "port": (129, "B"),
          "timeout": (130, "B"), "retries": (131, "B")}
    attributes = ctypes.create_string_buffer(256)
    for name, value in fields.items():
        struct.pack_into("=" + at[name][1], attributes, at[name][0], value)
    code = verbs.ibv_modify_qp(qp, attributes.raw, mask)
    if code:
        sys.exit("modify_qp to state %d: %s" % (fields["state"], os.strerror(code)))


def own_address(name):
    """The one of IPv4 among the port's identifiers: its index and its bytes."""
    for index in range(16):
        with open(f"/sys/class/infiniband/{name}/ports/1/gids/{index}") as file:
            gid = bytes.fromhex(file.read().strip().replace(":", ""))
        if gid[10:12] == b"\xff\xff":
            return index, gid
    sys.exit("the port has no address of IPv4")


def send_to_nobody(device, qp, cq, index, gid):
    """Over this device to itself, where nobody has the number; it gives up after a retry."""
    modified(qp, 0x39, state=INIT, port=1)
    modified(qp, 0x129181, state=RTR, path_mtu=1, dest_qp_num=NOBODY, gid=gid, gid_index=index, hop_limit=1,
        is_global=1, ah_port=1)
    modified(qp, 0x12e01, state=RTS, timeout=8, retries=1)
    request, bad = ctypes.create_string_buffer(struct.pack("3Q3i", 1, 0, 0, 0, 2, 2), 256), POINTER()
    send = operation(device, SEND, POINTER, POINTER, POINTER)
    code = send(qp, ctypes.addressof(request), ctypes.addressof(bad))
    if code:
        sys.exit("post_send: %s" % os.strerror(code))
    done, poll = ctypes.create_string_buffer(64), operation(device, POLL, POINTER, INT, POINTER)
    while poll(cq, 1, ctypes.addressof(done)) == 0:
        time.sleep(0.01)
    status, = struct.unpack_from("i", done, 8)
    if status != RETRIES_EXCEEDED:
        sys.exit("what was sent to nobody ended with status %d" % status)
    print("lost", flush=True)


def limit_locked(limit):
    """As a user whose locked memory is limited: without the right not to care."""
    head, data = struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24)
    made(libc.capget(head, data) == 0)
    rights = list(struct.unpack("6I", data.raw))
    rights[0] &= ~(1 << CAP_IPC_LOCK)
    made(libc.capset(head, struct.pack("6I", *rights)) == 0)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))


cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
print("ready", flush=True)
while sys.stdin.readline() == "call\n":
    cuda.cuLaunchKernel(None, 1, 1, 1, 1, 1, 1, 0, None, None, None)
device = open_device(sys.argv[2])
memory = mmap.mmap(-1, 1 << 20)
hole = mmap.mmap(-1, 1 << 20)
at, nowhere = (ctypes.addressof(ctypes.c_char.from_buffer(m)) for m in (memory, hole))
made(libc.munmap(POINTER(nowhere), SIZE(1 << 20)) == 0)
pd = made(verbs.ibv_alloc_pd(device))
cq = made(verbs.ibv_create_cq(device, 64, None, None, 0))
qp, other_qp = (made(verbs.ibv_create_qp(pd, queue_pair(cq, 16))) for _ in range(2))
mr = made(verbs.ibv_reg_mr(pd, at, 1 << 20, 1))
print("opened", flush=True)
sys.stdin.readline()
send_to_nobody(device, qp, cq, *own_address(sys.argv[2]))
sys.stdin.readline()

fails(5, "reg_mr", verbs.ibv_reg_mr, pd, nowhere, 1 << 20, 1)
fails(7, "create_cq", verbs.ibv_create_cq, device, MANY, None, None, 0)
fails(11, "create_qp", verbs.ibv_create_qp, pd, queue_pair(cq, MANY))
limit_locked(64 << 10)
fails(13, "reg_mr", verbs.ibv_reg_mr, pd, at, 1 << 20, 1)
fails(3, "dealloc_pd", verbs.ibv_dealloc_pd, pd)
fails(2, "modify_qp", verbs.ibv_modify_qp, other_qp, struct.pack("128i", RTS, *[0] * 127), STATE)
print(".", flush=True)
sys.stdin.readline()
os._exit(0)  # what it has made, the kernel takes back
