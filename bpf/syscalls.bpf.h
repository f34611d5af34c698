/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls of tracked processes: how many; mappings made and removed; time inside ioctl() on a GPU's device; when
 * a call begins that may send over TCP. Part of the one program at each end of a system call, see vfs.bpf.c. Every
 * other process pays one look-up by its id in an array per call, and at the return of those that change mappings and
 * of ioctl().
 *
 * Limits: numbers are those of 64-bit calls, as only 64-bit libraries are hooked; a 32-bit call of such a process
 * counts as one call, and may be taken for another one. brk() and mremap() make no mapping and are calls alone.
 */
#ifndef ZN_SYSCALLS_BPF_H
#define ZN_SYSCALLS_BPF_H

#include "zernel.bpf.h"
#include <bpf/bpf_core_read.h>

#define MAX_ERRNO    4095
#define MINOR_BITS   20 /* include/linux/kdev_t.h */
#define TYPE_OF_FILE 0170000
#define IS_CHARACTER 0020000

static __always_inline struct inode *device_of(__u32 fd)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd), *file = NULL;

	if (fd >= BPF_CORE_READ(table, max_fds) || bpf_probe_read_kernel(&file, sizeof(file), files + fd) || !file)
		return NULL;
	return BPF_CORE_READ(file, f_inode);
}

static __always_inline bool is_gpu(__u32 fd)
{
	struct inode *inode = device_of(fd);
	__u32 major;

	if (!inode || (BPF_CORE_READ(inode, i_mode) & TYPE_OF_FILE) != IS_CHARACTER)
		return false;
	major = BPF_CORE_READ(inode, i_rdev) >> MINOR_BITS;
	return major < 64 * ZN_MAJOR_WORDS && shared.gpu_majors[major / 64 & (ZN_MAJOR_WORDS - 1)] >> (major & 63) & 1;
}

static __always_inline void ioctl_enter(struct zn_proc *p, const struct pt_regs *regs)
{
	__u64 key = ZN_TIMED_KEY(bpf_get_current_pid_tgid(), ZN_TIMED_IOCTL);
	struct zn_timed_call *c;
	bool inside;

	if (!is_gpu(ZN_CALL_ARG1(regs)))
		return;
	c = bpf_map_lookup_elem(&calls, &key);
	inside = c && c->id == p->id; /* the end of its last one was missed */
	zn_timed_begin(p, ZN_TIMED_IOCTL, 0);
	c = bpf_map_lookup_elem(&calls, &key); /* none: it is not timed, so it will not leave either */
	if (c && !inside)
		zn_gpu_enter(p, c->start_ns);
}

static __always_inline void ioctl_exit(struct zn_proc *p, long result)
{
	__u64 now = bpf_ktime_get_ns();
	struct zn_timed_call c;

	if (!zn_timed_end(p, ZN_TIMED_IOCTL, &c))
		return;
	zn_gpu_leave(p, now);
	zn_record(p, ZN_H_IOCTL, zn_minus(now, c.start_ns), 0, result < 0);
}

/* Of a tracked process. */
static __always_inline void signals_enter(struct zn_proc *p, const struct pt_regs *regs, __u64 number)
{
	if (zn_is_on(ZN_FAM_SYSCALLS))
		ZN_ADD(p->count[ZN_C_SYSCALLS], 1);
	if (number == ZN_NR_IOCTL && zn_is_on(ZN_FAM_IOCTL))
		ioctl_enter(p, regs);
	else if (zn_is_send(number) && shared.by_call >> ZN_FAM_NET & 1)
		zn_send_begin(p); /* net.bpf.c tells at its end whether it is a connection */
}

/* Bytes in whole pages, as the kernel maps them. */
static __always_inline void count_mapped(struct zn_proc *p, const struct pt_regs *regs, bool unmapped)
{
	__u64 len = ZN_CALL_ARG2(regs), page;

	if (!zn_is_on(ZN_FAM_SYSCALLS))
		return;
	page = shared.page_bytes;
	ZN_ADD(p->count[unmapped ? ZN_C_MUNMAP_CALLS : ZN_C_MMAP_CALLS], 1);
	ZN_ADD(p->count[unmapped ? ZN_C_MUNMAP_BYTES : ZN_C_MMAP_BYTES], (len + page - 1) & -page);
}

/* The registers still hold the second argument of the call. */
static __always_inline void signals_leave(const struct pt_regs *regs, __s64 number, __u64 result)
{
	bool counts = number == ZN_NR_MMAP || number == ZN_NR_MUNMAP || number == ZN_NR_IOCTL;
	struct zn_proc *p = counts ? zn_tracked_current() : NULL;

	if (!p)
		return;
	if (number == ZN_NR_MMAP && result < -(__u64)MAX_ERRNO)
		count_mapped(p, regs, false);
	else if (number == ZN_NR_MUNMAP && result == 0)
		count_mapped(p, regs, true);
	else if (number == ZN_NR_IOCTL)
		ioctl_exit(p, result);
}

#endif
