// SPDX-License-Identifier: GPL-2.0
/* Empty programs where file I/O is counted, by the kernel's functions: what the kernel takes for calling them. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define EMPTY(way, name)                                                                                               \
	SEC(#way "/" #name)                                                                                            \
	int name##_##way(void *ctx __attribute__((unused)))                                                            \
	{                                                                                                              \
		return 0;                                                                                              \
	}

EMPTY(fentry, vfs_read)
EMPTY(fexit, vfs_read)
EMPTY(fentry, vfs_write)
EMPTY(fexit, vfs_write)
EMPTY(kprobe, vfs_read)
EMPTY(kretprobe, vfs_read)
EMPTY(kprobe, vfs_write)
EMPTY(kretprobe, vfs_write)

char LICENSE[] SEC("license") = "GPL";
