/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System calls of tracked processes: how many; mappings made and removed; time inside ioctl() on a GPU's device; when
 * a call begins that may send over TCP; calls on devices of RDMA that fail. Part of the one program at each end of a
 * system call, see vfs.bpf.c. Every other process pays one look-up by its id in an array per call, and at the return of
 * those that change mappings, of ioctl(), and of write() where it failed.
 *
 * An ioctl() whose purpose is to wait is not timed.
 *
 * Limits: numbers are those of 64-bit calls, as only 64-bit libraries are hooked; a 32-bit call of such a process
 * counts as one call, and may be taken for another one. brk() and mremap() make no mapping and are calls alone.
 */
#ifndef ZN_SYSCALLS_BPF_H
#define ZN_SYSCALLS_BPF_H

#include "place.bpf.h"

#define MAX_ERRNO    4095
#define MINOR_BITS   20 /* include/linux/kdev_t.h */
#define TYPE_OF_FILE 0170000
#define IS_CHARACTER 0020000

static __always_inline struct inode *device_of(__u32 fd)
{
	struct file *file = file_of(CURRENT(), fd);

	return file ? ZN_FIELD(file, struct file, f_inode) : NULL;
}

static __always_inline bool is_one_of(__u32 fd, const __u64 majors[ZN_MAJOR_WORDS])
{
	struct inode *inode = device_of(fd);
	__u32 major;

	if (!inode || (BPF_CORE_READ(inode, i_mode) & TYPE_OF_FILE) != IS_CHARACTER)
		return false;
	major = BPF_CORE_READ(inode, i_rdev) >> MINOR_BITS;
	return major < 64 * ZN_MAJOR_WORDS && majors[major / 64 & (ZN_MAJOR_WORDS - 1)] >> (major & 63) & 1;
}

/* Kind and number of an ioctl() (asm-generic/ioctl.h). */
#define COMMAND(kind, number) ((kind) << 8 | (number))
#define OF_AMDGPU             0x40 /* where a driver's own begin (DRM_COMMAND_BASE of drm.h) */

/* Sleeps until something is ready, for as long as that takes, and is not at work in the driver. A process of ROCm has a
 * thread that is in the first one all the time. (kfd_ioctl.h; drm.h; amdgpu_drm.h, whose numbers other drivers of DRM
 * have for calls that are short.) */
static __always_inline bool is_wait(__u32 command)
{
	switch (command & 0xffff) {
	case COMMAND('K', 0x0c):             /* AMDKFD_IOC_WAIT_EVENTS */
	case COMMAND('d', 0x3a):             /* WAIT_VBLANK */
	case COMMAND('d', 0xc3):             /* SYNCOBJ_WAIT */
	case COMMAND('d', 0xca):             /* SYNCOBJ_TIMELINE_WAIT */
	case COMMAND('d', OF_AMDGPU + 0x07): /* GEM_WAIT_IDLE */
	case COMMAND('d', OF_AMDGPU + 0x09): /* WAIT_CS */
	case COMMAND('d', OF_AMDGPU + 0x12): /* WAIT_FENCES */ return true;
	default: return false;
	}
}

static __always_inline void ioctl_enter(struct zn_proc *p, const struct pt_regs *regs)
{
	__u64 key = ZN_TIMED_KEY(bpf_get_current_pid_tgid(), ZN_TIMED_IOCTL);
	struct zn_timed_call *c;
	bool inside;

	if (is_wait(ZN_CALL_ARG2(regs)) || !is_one_of(ZN_CALL_ARG1(regs), shared.gpu_majors))
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

/* ---- devices of RDMA ---- */

#define RDMA_VERBS_IOCTL 0xc0181b01u /* of rdma_user_ioctl_cmds.h */
#define WRITE_EXTENDED   0x80000000u /* of ib_user_verbs.h */
#define INVOKE_WRITE     2           /* UVERBS_ATTR_WRITE_CMD: which command ioctl() carries */
#define ATTRIBUTES       4           /* that are looked through for it */
struct rdma_header {
	__u16 length, object, method, attributes;
	__u64 reserved;
	__u32 driver, reserved2;
};
struct rdma_attribute {
	__u16 id, len, flags, more;
	__u64 data;
};

static __always_inline __u32 rdma_byte(__u32 number)
{
	return number < ZN_RDMA_DRIVER ? number : ZN_RDMA_DRIVER;
}

static __always_inline __u32 rdma_command(__u64 at, __u32 error)
{
	__u32 command;

	if (bpf_probe_read_user(&command, sizeof(command), (void *)at))
		return ZN_RDMA_KEY(ZN_RDMA_OTHER, 0, 0, error);
	return ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, command & 0xff, error);
}

static __always_inline __u32 rdma_method(__u64 at, __u32 error)
{
	struct rdma_attribute attribute;
	struct rdma_header h;

	if (bpf_probe_read_user(&h, sizeof(h), (void *)at))
		return ZN_RDMA_KEY(ZN_RDMA_OTHER, 0, 0, error);
	if (h.object || h.method)
		return ZN_RDMA_KEY(ZN_RDMA_IOCTL, rdma_byte(h.object), rdma_byte(h.method), error);
	for (int i = 0; i < ATTRIBUTES && i < h.attributes; i++) {
		if (bpf_probe_read_user(
			    &attribute, sizeof(attribute), (void *)(at + sizeof(h) + i * sizeof(attribute))))
			break;
		if (attribute.id == INVOKE_WRITE)
			return ZN_RDMA_KEY(ZN_RDMA_WRITE, 0, attribute.data & 0xff, error);
	}
	return ZN_RDMA_KEY(ZN_RDMA_IOCTL, 0, 0, error);
}

/* Not static, so that it is verified once. */
__noinline int rdma_count(__u32 key)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, *row = bpf_map_lookup_elem(&rows, &tgid);
	struct zn_failed *f = row ? bpf_map_lookup_elem(&failed, row) : NULL;
	int at;

	if (!f)
		return 0;
	f->rdma_ns = bpf_ktime_get_ns();
	f->rdma_last = key;
	at = zn_key_place(f->rdma_key, 0, ZN_FAILED_RDMA, key);
	if (at >= 0 && at < ZN_FAILED_RDMA)
		ZN_ADD(f->rdma_count[at], 1);
	return 0;
}

#define LAST_ERRNO 511 /* what is above it, the kernel keeps to itself: the call begins again */

/* Of a tracked process, after a call that failed; the descriptor is looked at now, as few calls fail. */
static __always_inline void rdma_failed(struct zn_proc *p, const struct pt_regs *regs, __s64 number, __u32 error)
{
	__u64 third = ZN_CALL_ARG3(regs);
	__u32 key = ZN_RDMA_KEY(ZN_RDMA_OTHER, 0, 0, error);

	if (!shared.rdma || error > LAST_ERRNO || !zn_is_on(ZN_FAM_IOCTL) ||
		!is_one_of(ZN_CALL_ARG1(regs), shared.rdma_majors))
		return;
	if (number == ZN_NR_WRITE)
		key = rdma_command(ZN_CALL_ARG2(regs), error);
	else if ((__u32)ZN_CALL_ARG2(regs) == RDMA_VERBS_IOCTL)
		key = rdma_method(third, error);
	rdma_count(key);
	ZN_ADD(p->count[ZN_C_RDMA_ERRORS], 1); /* last: what is not in the table is told as others */
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
	bool fails = result >= -(__u64)MAX_ERRNO, written = number == ZN_NR_WRITE && fails;
	bool counts = number == ZN_NR_MMAP || number == ZN_NR_MUNMAP || number == ZN_NR_IOCTL;
	struct zn_proc *p = counts || written ? zn_tracked_current() : NULL;

	if (!p)
		return;
	if (number == ZN_NR_MMAP && result < -(__u64)MAX_ERRNO)
		count_mapped(p, regs, false);
	else if (number == ZN_NR_MUNMAP && result == 0)
		count_mapped(p, regs, true);
	else if (number == ZN_NR_IOCTL)
		ioctl_exit(p, result);
	if (fails && (written || number == ZN_NR_IOCTL))
		rdma_failed(p, regs, number, -(__u32)result);
}

#endif
