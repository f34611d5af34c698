# SPDX-License-Identifier: GPL-2.0
"""A table of a BPF program as memory, by its id in the kernel."""
import ctypes
import mmap
import os

BPF, MAP_GET_FD_BY_ID = 321, 14  # of x86-64


def memory(number, size):
    """The table of this id; it was made to be mapped, and size is its bytes or fewer."""
    asked = (ctypes.c_uint32 * 3)(number)
    fd = ctypes.CDLL(None, use_errno=True).syscall(BPF, MAP_GET_FD_BY_ID, asked, ctypes.sizeof(asked))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "a table by its id")
    try:
        return mmap.mmap(fd, (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE)
    finally:
        os.close(fd)
