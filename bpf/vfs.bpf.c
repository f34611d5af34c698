// SPDX-License-Identifier: GPL-2.0
/*
 * File I/O by job, device and operation: each byte once, whichever call moved it, from the entry of the call to its
 * return, and metadata operations. Regular files only for bytes; what lies on pseudo file systems (proc, sysfs,
 * cgroup, ...) or on mounts that are the kernel's own (pipes, sockets, memfd) is not I/O of a job.
 *
 * One core, three ways to it: fentry and fexit, kprobes, and system calls (by their number and the table of open files,
 * for kernels that allow nothing else, but are new enough for it). Functions that others of them call are not hooked
 * (vfs_iter_*, filemap_read, rw_verify_area, iter_file_splice_write, do_splice_read): they would count twice.
 *
 * The device is looked up at the entry: another thread may close the file before the return. A call that the kernel
 * itself starts again after a signal (ERESTART*) counts when it is through.
 */
#include "io_async.bpf.h"
#include "io_pending.bpf.h"
#include "syscalls.bpf.h"
#include <asm/unistd.h>

/* ---- fentry and fexit ---- */

#define FILE_AT(n) place_of_file(true, (struct file *)ctx[n], false)

#define UNLESS_SPARED(what)                                                                                            \
	if (!are_files_spared())                                                                                       \
	what

ENTER(vfs_read, UNLESS_SPARED(begin_data(bpf_get_current_pid_tgid(), ZN_IO_READ, FILE_AT(0))))
ENTER(vfs_write, UNLESS_SPARED(begin_data(bpf_get_current_pid_tgid(), ZN_IO_WRITE, FILE_AT(0))))
ENTER(vfs_readv, begin_operation(ZN_IO_DATA, ZN_IO_READ, FILE_AT(0)))
ENTER(vfs_writev, begin_operation(ZN_IO_DATA, ZN_IO_WRITE, FILE_AT(0)))
ENTER(do_sendfile, begin_pair(place_of_fd(ctx[1], false), place_of_fd(ctx[0], false)))
ENTER(do_splice, begin_pair(FILE_AT(0), FILE_AT(2)))
ENTER(vfs_copy_file_range, begin_operation(ZN_IO_DATA, ZN_IO_COPY, FILE_AT(2)))
LEAVE(vfs_read, end_data(ctx[4]))
LEAVE(vfs_write, end_data(ctx[4]))
LEAVE(vfs_readv, end_operation(ZN_IO_DATA, ctx[5]))
LEAVE(vfs_writev, end_operation(ZN_IO_DATA, ctx[5]))
LEAVE(do_sendfile, end_operation(ZN_IO_DATA, ctx[5]))
LEAVE(do_splice, end_operation(ZN_IO_DATA, ctx[6]))
LEAVE(vfs_copy_file_range, end_operation(ZN_IO_DATA, ctx[6]))

/* From 5.12 on, the map of ids of the mount comes before the folder. */
static __always_inline bool has_idmap(void)
{
	return bpf_core_type_exists(struct mnt_idmap) || bpf_core_field_exists(struct vfsmount, mnt_userns);
}

static __always_inline struct place place_of_folder(__u64 *ctx)
{
	return place_of_sb(true, ((struct inode *)either_word(has_idmap(), ctx[1], ctx[0]))->i_sb);
}

/* It takes a struct of what it took one by one before 5.12. */
static __always_inline struct place place_of_renamed(__u64 *ctx)
{
	if (bpf_core_type_exists(struct renamedata))
		return place_of_sb(true, ((struct renamedata *)ctx[0])->old_dentry->d_sb);
	return place_of_sb(true, ((struct inode *)ctx[0])->i_sb);
}

/* int returns leave the upper half of the register undefined, and from 6.15 on vfs_mkdir returns a pointer. */
static __always_inline __s64 error_of(__u64 result)
{
	bool is_int = result >> 32 == 0 || result >> 32 == 0xffffffff;
	__s32 low = result;

	return is_int && low < 0 && low >= -ERRNO_LAST ? low : 0;
}

/* Before 5.17 it is found by the number of arguments before it. */
static __always_inline __s64 result_at(__u64 *ctx, bool first, int one, int other)
{
	__u64 result;

	if (first) {
		result = ctx[one];
		ZN_OPAQUE(result); /* see either_word(); but here the other one may be none */
	} else {
		result = ctx[other];
		ZN_OPAQUE(result);
	}
	return error_of(result);
}

/* Of a function with so many arguments, besides the map of ids. */
static __always_inline __s64 result_of(__u64 *ctx, int arguments)
{
	__u64 result = 0;

	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_get_func_ret))
		return result_at(ctx, has_idmap(), arguments + 1, arguments);
	bpf_get_func_ret(ctx, &result);
	return error_of(result);
}

/* A part of a file is synced by msync(), and by what has just written to it with O_SYNC or the like: requests of libaio
 * and io_uring, and writes of those that are spared, of which no entry is seen here. Before 5.15 that it was opened so
 * must do. Parts by io_uring's own IORING_OP_FSYNC are not counted. */
#define O_DSYNC_ 0010000 /* asm-generic/fcntl.h */
#define WHOLE    0x7fffffffffffffff

static __always_inline bool is_synced_by_call(bool typed, struct file *file, __u64 end)
{
	if (end == WHOLE)
		return true;
#ifndef ZN_NO_FETCH
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs)) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

		return (__s64)ZN_CALL_NUMBER(regs) == __NR_msync;
	}
#endif
	return !(READ(typed, file, f_flags) & O_DSYNC_);
}

static __always_inline void begin_range(bool typed, struct file *file, __u64 end)
{
	if (is_synced_by_call(typed, file, end))
		begin_fsync(place_of_file(typed, file, true));
}

ENTER(do_filp_open, begin_open())
LEAVE(do_filp_open, end_open(true, (struct file *)ctx[3]))
ENTER(do_file_open, begin_open()) /* its name from 7.x on */
LEAVE(do_file_open, end_open(true, (struct file *)ctx[3]))
ENTER(vfs_mkdir, begin_operation(ZN_IO_META, ZN_IO_MKDIR, place_of_folder(ctx)))
ENTER(vfs_unlink, begin_operation(ZN_IO_META, ZN_IO_UNLINK, place_of_folder(ctx)))
ENTER(vfs_rename, begin_operation(ZN_IO_META, ZN_IO_RENAME, place_of_renamed(ctx)))
ENTER(vfs_fsync_range, begin_range(true, (struct file *)ctx[0], ctx[2]))
ENTER(vfs_getattr_nosec,
	begin_operation(ZN_IO_META, ZN_IO_STAT, place_of_sb(true, ((struct path *)ctx[0])->dentry->d_sb)))
LEAVE(vfs_mkdir, end_operation(ZN_IO_META, result_of(ctx, 3)))
LEAVE(vfs_unlink, end_operation(ZN_IO_META, result_of(ctx, 3)))
LEAVE(vfs_rename, end_operation(ZN_IO_META, result_at(ctx, bpf_core_type_exists(struct renamedata), 1, 6)))
LEAVE(vfs_fsync_range, end_operation(ZN_IO_META, error_of(ctx[4])))
LEAVE(vfs_getattr_nosec, end_operation(ZN_IO_META, error_of(ctx[4])))

#ifdef ZN_NO_FETCH
/* The first half of vfs_rmdir() is within do_rmdir() on Debian's 5.10. So it is begun and ended there, and the
 * owner of the folder is known once the security modules are asked. What a file system does below is not seen. */
#define KNOWN_LATER 0xffffffff

static __always_inline void rmdir_at(struct place p)
{
	struct zn_io_pending *s = zn_io_pending_find(owner_of(ZN_IO_META));

	if (!s || s->op[0] != ZN_IO_RMDIR || s->dev[0] != KNOWN_LATER)
		return;
	s->dev[0] = p.dev;
	s->stacked = p.stacked;
	s->start_ns = bpf_ktime_get_ns();
}

static __always_inline void rmdir_end(__s64 result)
{
	struct zn_io_pending *s = zn_io_pending_find(owner_of(ZN_IO_META));

	if (s && s->dev[0] == KNOWN_LATER)
		s->dev[0] = 0;
	end_operation(ZN_IO_META, result);
}

ENTER(do_rmdir, begin_operation(ZN_IO_META, ZN_IO_RMDIR, (struct place){.dev = KNOWN_LATER}))
LEAVE(do_rmdir, rmdir_end(error_of(ctx[2])))
ENTER(security_inode_rmdir, rmdir_at(place_of_sb(true, ((struct inode *)ctx[0])->i_sb)))
#else
ENTER(vfs_rmdir, begin_operation(ZN_IO_META, ZN_IO_RMDIR, place_of_folder(ctx)))
LEAVE(vfs_rmdir, end_operation(ZN_IO_META, result_of(ctx, 2)))
#endif

/* fdatasync() may have vfs_fsync_range() inside of itself (6.1 does), and fsync() (7.3). The first argument is the
 * registers. */
#if defined(__TARGET_ARCH_x86)
#define SYSTEM_CALL(name) "__x64_sys_" #name
#else
#define SYSTEM_CALL(name) "__arm64_sys_" #name
#endif
#define SYNC(name)                                                                                                     \
	SEC("fentry/" SYSTEM_CALL(name))                                                                               \
	int name##_enter(__u64 *ctx)                                                                                   \
	{                                                                                                              \
		begin_fsync(place_of_fd(ZN_ARG1((struct pt_regs *)ctx[0]), true));                                     \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("fexit/" SYSTEM_CALL(name))                                                                                \
	int name##_leave(__u64 *ctx)                                                                                   \
	{                                                                                                              \
		end_operation(ZN_IO_META, error_of(ctx[1]));                                                           \
		return 0;                                                                                              \
	}
SYNC(fsync)
SYNC(fdatasync)

/* ---- kprobes on the same functions ---- */

#define FILE_IN(arg, directories) place_of_file(false, (struct file *)(arg), directories)
#define FOLDER_IN(ctx)                                                                                                 \
	place_of_sb(false, BPF_CORE_READ((struct inode *)either_word(has_idmap(), ZN_ARG2(ctx), ZN_ARG1(ctx)), i_sb))

AT_ENTRY(on_read, begin_operation(ZN_IO_DATA, ZN_IO_READ, FILE_IN(ZN_ARG1(ctx), false)))
AT_ENTRY(on_write, begin_operation(ZN_IO_DATA, ZN_IO_WRITE, FILE_IN(ZN_ARG1(ctx), false)))
AT_ENTRY(on_sendfile, begin_pair(place_of_fd(ZN_ARG2(ctx), false), place_of_fd(ZN_ARG1(ctx), false)))
AT_ENTRY(on_splice, begin_pair(FILE_IN(ZN_ARG1(ctx), false), FILE_IN(ZN_ARG3(ctx), false)))
AT_ENTRY(on_copy, begin_operation(ZN_IO_DATA, ZN_IO_COPY, FILE_IN(ZN_ARG3(ctx), false)))
AT_RETURN(after_data, end_operation(ZN_IO_DATA, ZN_RESULT_LONG(ctx)))

AT_ENTRY(on_open, begin_open())
AT_RETURN(after_open, end_open(false, (struct file *)ZN_RESULT_LONG(ctx)))
AT_ENTRY(on_mkdir, begin_operation(ZN_IO_META, ZN_IO_MKDIR, FOLDER_IN(ctx)))
#ifdef ZN_NO_FETCH
AT_ENTRY(on_do_rmdir, begin_operation(ZN_IO_META, ZN_IO_RMDIR, (struct place){.dev = KNOWN_LATER}))
AT_RETURN(after_do_rmdir, rmdir_end(error_of(ZN_RESULT_LONG(ctx))))
AT_ENTRY(on_rmdir_folder, rmdir_at(place_of_sb(false, BPF_CORE_READ((struct inode *)ZN_ARG1(ctx), i_sb))))
#else
AT_ENTRY(on_rmdir, begin_operation(ZN_IO_META, ZN_IO_RMDIR, FOLDER_IN(ctx)))
AT_RETURN(after_rmdir, end_operation(ZN_IO_META, error_of(ZN_RESULT_LONG(ctx))))
#endif
AT_ENTRY(on_unlink, begin_operation(ZN_IO_META, ZN_IO_UNLINK, FOLDER_IN(ctx)))
AT_ENTRY(on_rename,
	begin_operation(ZN_IO_META, ZN_IO_RENAME,
		place_of_sb(false,
			bpf_core_type_exists(struct renamedata)
				? BPF_CORE_READ((struct renamedata *)ZN_ARG1(ctx), old_dentry, d_sb)
				: BPF_CORE_READ((struct inode *)ZN_ARG1(ctx), i_sb))))
AT_ENTRY(on_fsync, begin_range(false, (struct file *)ZN_ARG1(ctx), ZN_ARG3(ctx)))
AT_ENTRY(on_stat,
	begin_operation(
		ZN_IO_META, ZN_IO_STAT, place_of_sb(false, BPF_CORE_READ((struct path *)ZN_ARG1(ctx), dentry, d_sb))))
SEC("kprobe")
int on_sync(struct pt_regs *ctx)
{
	struct pt_regs regs;

	if (bpf_probe_read_kernel(&regs, sizeof(regs), (void *)ZN_ARG1(ctx)) == 0)
		begin_fsync(place_of_fd(ZN_ARG1(&regs), true));
	return 0;
}

AT_RETURN(after_meta, end_operation(ZN_IO_META, error_of(ZN_RESULT_LONG(ctx))))

/* ---- mapped files: what their page faults bring in ---- */

static __always_inline void end_fault(void)
{
	__u32 owner = owner_of(ZN_IO_FAULT);
	struct zn_io_pending *s = zn_io_pending_find(owner);
	struct outcome o = {};

	if (!s)
		return;
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	o.bytes = s->bytes;
	if (o.bytes)
		count_operation(ZN_IO_MMAP, s->dev[0], bpf_get_current_pid_tgid() >> 32, &o, s);
	zn_io_pending_free(s, owner);
}

static __always_inline __u64 folio_bytes(struct folio *folio)
{
	struct folio___order *before = (void *)folio;
	unsigned long flags = 0;
	__u32 order;

	bpf_probe_read_kernel(&flags, sizeof(flags), folio);
	if (!bpf_core_type_exists(struct folio)) /* before 5.16: pages, one by one */
		order = 0;
	else if (!(flags >> bpf_core_enum_value(enum pageflags, PG_head) & 1))
		order = 0;
	else if (bpf_core_field_exists(struct folio___order, _folio_order))
		order = BPF_CORE_READ(before, _folio_order);
	else
		order = BPF_CORE_READ(folio, _flags_1) & 0xff;
	return (__u64)shared.page_bytes << (order & 31);
}

/* (folio): what a thread reads ahead inside of a fault is the fault's. */
SEC("raw_tp/mm_filemap_add_to_page_cache")
int page_added(struct bpf_raw_tracepoint_args *ctx)
{
	struct zn_io_pending *s = zn_io_pending_find(owner_of(ZN_IO_FAULT));

	if (s)
		s->bytes += folio_bytes((void *)ctx->args[0]);
	return 0;
}

ENTER(filemap_fault,
	begin_operation(ZN_IO_FAULT, ZN_IO_MMAP, place_of_file(true, ((struct vm_fault *)ctx[0])->vma->vm_file, false)))
LEAVE(filemap_fault, end_fault())
AT_ENTRY(on_fault,
	begin_operation(ZN_IO_FAULT, ZN_IO_MMAP,
		place_of_file(false, BPF_CORE_READ((struct vm_fault *)ZN_ARG1(ctx), vma, vm_file), false)))
AT_RETURN(after_fault, end_fault())

/* ---- system calls ---- */

#ifndef ZN_NO_FETCH /* nor has it the registers of a thread (5.15) */
enum way { NONE, FD, PAIR, OPENS, AT_FD /* an empty path and AT_EMPTY_PATH among its flags */ };
static const struct {
	__u8 way, op, first, second; /* second: the argument with the file that is written, or the flags */
} table[512] = {
	[__NR_read] = {FD, ZN_IO_READ, 0, 0},
	[__NR_pread64] = {FD, ZN_IO_READ, 0, 0},
	[__NR_readv] = {FD, ZN_IO_READ, 0, 0},
	[__NR_preadv] = {FD, ZN_IO_READ, 0, 0},
	[__NR_preadv2] = {FD, ZN_IO_READ, 0, 0},
	[__NR_write] = {FD, ZN_IO_WRITE, 0, 0},
	[__NR_pwrite64] = {FD, ZN_IO_WRITE, 0, 0},
	[__NR_writev] = {FD, ZN_IO_WRITE, 0, 0},
	[__NR_pwritev] = {FD, ZN_IO_WRITE, 0, 0},
	[__NR_pwritev2] = {FD, ZN_IO_WRITE, 0, 0},
	[__NR_copy_file_range] = {FD, ZN_IO_COPY, 2, 0},
	[__NR_sendfile] = {PAIR, ZN_IO_READ, 1, 0},
	[__NR_splice] = {PAIR, ZN_IO_READ, 0, 2},
	[__NR_fsync] = {FD, ZN_IO_FSYNC, 0, 0},
	[__NR_fdatasync] = {FD, ZN_IO_FSYNC, 0, 0},
	[__NR_fstat] = {FD, ZN_IO_STAT, 0, 0},
	[__NR_statx] = {AT_FD, ZN_IO_STAT, 0, 2},
#ifdef __NR_newfstatat
	[__NR_newfstatat] = {AT_FD, ZN_IO_STAT, 0, 3},
#endif
#ifdef __NR_open
	[__NR_open] = {OPENS, ZN_IO_OPEN, 0, 0},
	[__NR_creat] = {OPENS, ZN_IO_OPEN, 0, 0},
#endif
	[__NR_openat] = {OPENS, ZN_IO_OPEN, 0, 0},
	[__NR_openat2] = {OPENS, ZN_IO_OPEN, 0, 0},
};
#define CALLS         (sizeof(table) / sizeof(table[0]))
#define AT_EMPTY_PATH 0x1000 /* linux/fcntl.h */

/* Which of these families stand on system calls. */
static __always_inline bool is_wanted(__u32 op)
{
	__u32 family = op <= ZN_IO_MMAP ? ZN_FAM_VFS : ZN_FAM_META;

	return shared.by_call >> family & 1;
}

static __always_inline __u64 call_argument(const struct pt_regs *regs, __u32 n)
{
	switch (n) {
	case 0: return ZN_ARG1(regs);
	case 1: return ZN_ARG2(regs);
	case 2: return ZN_ARG3(regs);
	}
	return ZN_CALL_ARG4(regs);
}

static __always_inline void file_enter(struct task_struct *task, const struct pt_regs *regs, __u32 nr)
{
	__u32 op = table[nr].op, way = table[nr].way;
	int fd;

	if (!is_wanted(op) || ZN_CALL_OF_32_BITS(&task->thread_info) || (op <= ZN_IO_WRITE && are_files_spared()))
		return;
	fd = call_argument(regs, table[nr].first);
	if (way == PAIR)
		begin_pair(place_of_task_fd(task, fd, false),
			place_of_task_fd(task, call_argument(regs, table[nr].second), false));
	else if (way == OPENS)
		begin_open();
	else if (way == FD && op <= ZN_IO_MMAP)
		begin_data(task->pid, op, place_of_task_fd(task, fd, false));
	else if (way == FD || call_argument(regs, table[nr].second) & AT_EMPTY_PATH)
		begin_operation(ZN_IO_META, op, place_of_task_fd(task, fd, true));
}

static __always_inline void file_leave(__u32 nr, __s64 result)
{
	if (!is_wanted(table[nr].op))
		return;
	if (table[nr].way == OPENS)
		end_open(false, result < 0 ? NULL : file_of(CURRENT(), result));
	else if (table[nr].way == PAIR)
		end_operation(ZN_IO_DATA, result);
	else if (table[nr].op <= ZN_IO_MMAP)
		end_data(result);
	else
		end_operation(ZN_IO_META, error_of(result));
}

/* (regs, number). The one program at the entry of system calls, for all families: a second one would cost every call of
 * the node 48 ns more (6.18), as the kernel calls a single one directly and several by their addresses. */
SEC("tp_btf/sys_enter")
int call_enter(__u64 *ctx)
{
	const struct pt_regs *regs = (void *)ctx[0];
	__u64 nr = ctx[1];
	struct task_struct *task;
	struct zn_proc *p;

	if (ZN_NR_OF_PROBE(nr))
		return 0;
	task = bpf_get_current_task_btf();
	p = zn_tracked(task->tgid);
	if (p)
		signals_enter(p, regs, nr);
	if (nr < CALLS && table[nr].way)
		file_enter(task, regs, nr);
	return 0;
}

/* (regs, result), and the one at their end. */
SEC("tp_btf/sys_exit")
int call_leave(__u64 *ctx)
{
	const struct pt_regs *regs = (void *)ctx[0];
	__u64 nr = ZN_CALL_NUMBER(regs);

	ZN_OPAQUE(nr);
	if (nr < CALLS && table[nr].way)
		file_leave(nr, ctx[1]);
	signals_leave(regs, nr, ctx[1]);
	return 0;
}

/* (mapping, index), from 6.10 on: a fault begins. */
SEC("raw_tp/mm_filemap_fault")
int call_fault(void *ctx __attribute__((unused)))
{
	begin_operation(ZN_IO_FAULT, ZN_IO_MMAP, (struct place){.dev = 1});
	return 0;
}

/* (folio): only where an exception came in from a program: that is a fault, which has no event at its end. */
SEC("raw_tp/mm_filemap_add_to_page_cache")
int call_page_added(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct folio *folio = (void *)ctx->args[0];
	struct zn_io_pending *s;
	__u32 owner = owner_of(ZN_IO_FAULT), dev, hist;

	if ((__s64)ZN_CALL_NUMBER(regs) != -1)
		return 0;
	dev = place_of_inode(false, BPF_CORE_READ(folio, mapping, host), false).dev;
	if (!dev)
		return 0;
	hist = series_of(ZN_IO_MMAP, dev, bpf_get_current_pid_tgid() >> 32, NULL, NULL);
	s = zn_io_pending_find(owner); /* NULL: more of the same fault */
	coarse_add(hist, 0, folio_bytes(folio), s ? 1 : 0, 0);
	if (s)
		zn_io_pending_free(s, owner);
	return 0;
}
#endif

char LICENSE[] SEC("license") = "GPL";
