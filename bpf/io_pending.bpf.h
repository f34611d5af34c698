/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operation that a thread is in: noted at the entry of a call, counted at its return.
 */
#ifndef ZN_IO_PENDING_BPF_H
#define ZN_IO_PENDING_BPF_H

#include "io_count.bpf.h"

#define FMODE_CREATED_ 0x100000u
#define PF_KTHREAD_    0x00200000u /* linux/sched.h */

static __always_inline __u32 owner_of(enum zn_io_kind kind)
{
	return ZN_IO_OWNER((__u32)bpf_get_current_pid_tgid(), kind);
}

static __always_inline void op_missed(struct zn_job_shared *job, __u32 op)
{
	if (op < ZN_IO_OP_COUNT)
		ZN_ADD(job->io_missed[op], 1);
}

#define NO_OP ZN_IO_OP_COUNT

/* An operation of a process, or the pair that it is, cannot be followed: what its job did is not known in full.
 * Whether an open() would have made its file is not known either. */
__noinline int ops_missed(__u32 tgid, __u32 op, __u32 also)
{
	struct zn_job_ref *tag = shared.jobs ? bpf_map_lookup_elem(&tasks, &tgid) : NULL;
	__u32 slot = tag ? tag->slot : ZN_JOBS_MAX;
	struct zn_job_shared *job = bpf_map_lookup_elem(&jobs, &slot);

	zn_lost(ZN_LOST_OPERATION);
	if (!tag || !job || job->serial != tag->serial)
		return 0;
	op_missed(job, op);
	op_missed(job, op == ZN_IO_OPEN ? ZN_IO_CREATE : also);
	return 0;
}

static __always_inline int ops_refused(enum zn_quota_table table, __u32 user, __u32 tgid, __u32 op, __u32 also)
{
	zn_quota_refuse(&shared.quota[table], user);
	return ops_missed(tgid, op, also);
}

#ifdef ZN_NO_FETCH
/* All entries of the set are taken. An entry says only which thread has it, not which user. */
static __noinline struct zn_io_pending *pending_crowded(__u32 owner, __u32 op, __u32 also)
{
	(void)owner;
	ops_missed(bpf_get_current_pid_tgid() >> 32, op, also);
	return NULL;
}

static __always_inline void pending_name(struct zn_io_pending *s, __u32 owner)
{
	(void)s, (void)owner;
}
#else
#define PENDING_AROUND 32

/* 1, or 0. Without a branch: the verifier would follow both ways of each. */
static __always_inline __u32 is_zero(__u64 v)
{
	ZN_OPAQUE(v);
	return (v - 1) >> 63;
}

/* How many entries a user has of those around a thread's own. */
__noinline __u32 pending_held(__u32 owner, __u32 user)
{
	__u32 held = 0;

	for (__u32 i = 0; i < PENDING_AROUND; i++) {
		__u32 at = ZN_IO_PLACE(owner, i);
		struct zn_io_pending *s = bpf_map_lookup_elem(&io_pending, &at);

		if (!s)
			return 0;
		held += is_zero(s->user ^ user) & ~is_zero(s->owner);
	}
	return held;
}

/* Place and 1 of the entry that its user has to give up for another one's thread: his who has most around there,
 * if that is still more than the other one has then. 0: there is none. */
__noinline __u32 pending_of_greediest(__u32 owner, __u32 user)
{
	__u32 most = pending_held(owner, user) + 1, found = 0;

	for (__u32 i = 0; i < ZN_IO_TRIES; i++) {
		__u32 at = ZN_IO_PLACE(owner, i), held;
		struct zn_io_pending *s = bpf_map_lookup_elem(&io_pending, &at);

		if (!s || s->user == user)
			continue;
		held = pending_held(owner, s->user);
		if (held > most) {
			most = held;
			found = at + 1;
		}
	}
	return found;
}

/* Place and 1 of the oldest fault of call_fault() among a thread's places, whoever's it is. 0: there is none. */
__noinline __u32 pending_of_fault(__u32 owner)
{
	__u64 oldest = ~0ULL;
	__u32 found = 0;

	for (__u32 i = 0; i < ZN_IO_TRIES; i++) {
		__u32 at = ZN_IO_PLACE(owner, i);
		struct zn_io_pending *s = bpf_map_lookup_elem(&io_pending, &at);

		if (!s || (s->owner & 3) != ZN_IO_FAULT || s->dev[0] != 1 || s->start_ns >= oldest)
			continue;
		oldest = s->start_ns;
		found = at + 1;
	}
	return found;
}

/*
 * The share of operations under way. They are not counted by user as they come and go: all CPUs would have to do so
 * in one place. So a thread looks only when its places are taken, and then it takes the entry of who has most. That
 * one's operation is lost: its return finds no entry. Place and 1; 0: its own is lost.
 *
 * A fault of call_fault() has no end, and its entry stays while its thread lives: it goes first, and with one that is
 * still under way nothing but itself is lost.
 */
__noinline __u32 pending_squeeze(__u32 owner, __u32 op, __u32 also)
{
	__u32 user = zn_owner_current(), found = pending_of_fault(owner), at, holder;
	struct zn_io_pending *s, was;

	at = (found ? found : pending_of_greediest(owner, user)) - 1;
	s = bpf_map_lookup_elem(&io_pending, &at);
	if (s) {
		was = *s;
		holder = was.owner;
		if (__sync_val_compare_and_swap(&s->owner, holder, owner) == holder) {
			s->stacked = 0;
			s->start_ns = 0;
			if (holder && ((holder & 3) != ZN_IO_FAULT || was.dev[0] != 1))
				ops_refused(ZN_QUOTA_IO_PENDING, was.user, was.tgid, was.op[0],
					was.dev[1] ? was.op[1] : NO_OP);
			return at + 1;
		}
	}
	ops_refused(ZN_QUOTA_IO_PENDING, user, bpf_get_current_pid_tgid() >> 32, op, also);
	return 0;
}

static __noinline struct zn_io_pending *pending_crowded(__u32 owner, __u32 op, __u32 also)
{
	__u32 at = pending_squeeze(owner, op, also) - 1;

	return bpf_map_lookup_elem(&io_pending, &at);
}

/* A thread's first operation in this entry. */
static __noinline int pending_named(struct zn_io_pending *s, __u32 owner)
{
	if (!s)
		return 0;
	s->user = zn_owner_current();
	s->tgid = bpf_get_current_pid_tgid() >> 32;
	s->last[0] = s->last[1] = 0;
	s->last_for = owner;
	return 0;
}

static __always_inline void pending_name(struct zn_io_pending *s, __u32 owner)
{
	if ((__u32)s->last_for != owner)
		pending_named(s, owner);
}
#endif

static __always_inline struct zn_io_pending *pending_take(__u32 owner, __u32 op, __u32 also)
{
	/* an operation on names may have another one of its own inside; by then a place before its own may be free */
	struct zn_io_pending *s = op > ZN_IO_WRITE ? zn_io_pending_find(owner) : NULL;

	if (!s)
		s = zn_io_pending_take(owner);
	if (!s)
		s = pending_crowded(owner, op, also);
	if (s)
		pending_name(s, owner);
	return s;
}

/* What a stacked file system (overlay) does on the one below is part of the same operation, and so is what an open()
 * does on any. A return that was missed would hide what comes after it: not on the same device, which is none of those
 * below, and elsewhere not for long; what it hid is counted as lost. also: the other operation of a pair, or NO_OP.
 * NULL: nothing is to be counted. */
static __always_inline struct zn_io_pending *pending_begin(__u32 tid, __u32 kind, __u32 op, __u32 also, struct place p)
{
	__u64 now = bpf_ktime_get_ns();
	struct zn_io_pending *s = p.dev ? pending_take(ZN_IO_OWNER(tid, kind), op, also) : NULL;

	if (!s)
		return NULL;
	if (s->stacked && s->dev[0] != p.dev && now - s->start_ns < STALE_NS) {
		s->inner++;
		if (kind != ZN_IO_FAULT)
			s->bytes++;
		return NULL;
	}
	if (s->start_ns && kind != ZN_IO_FAULT) /* its return was missed: a kretprobe has room for so many at a time */
		zn_lost_many(ZN_LOST_INFLIGHT, 1 + s->bytes);
	s->op[0] = op;
	s->dev[0] = p.dev;
	s->dev[1] = 0;
	s->stacked = p.stacked;
	s->inner = 0;
	s->bytes = 0;
	s->start_ns = now;
	return s;
}

/* Reads and writes of the calling process are spared now. */
static __noinline int is_process_spared(void)
{
	struct zn_proc *p = zn_tracked_current();

	return p && p->calls & ZN_SPARES(ZN_SPARE_FILES);
}

static __always_inline bool are_files_spared(void)
{
	return ZN_RARE(shared.spared & ZN_SPARES(ZN_SPARE_FILES)) && is_process_spared();
}

/* An operation that reads one file and writes another; either may be no regular file. */
static __always_inline void pair_begin(struct place from, struct place to)
{
	bool both = from.dev;
	__u32 also = both && to.dev ? ZN_IO_WRITE : NO_OP;
	struct zn_io_pending *s = pending_begin(
		bpf_get_current_pid_tgid(), ZN_IO_DATA, both ? ZN_IO_READ : ZN_IO_WRITE, also, both ? from : to);

	if (!s || !both)
		return;
	s->op[1] = ZN_IO_WRITE;
	s->dev[1] = to.dev;
}

static __noinline int begin_pair_at(__u32 from, __u32 to)
{
	if (are_files_spared())
		return 0;
	pair_begin((struct place){.dev = from}, (struct place){.dev = to});
	return 0;
}

static __always_inline void begin_pair(struct place from, struct place to)
{
	if (from.dev || to.dev)
		begin_pair_at(from.dev, to.dev);
}

/* An NFS server's threads and the like make no calls: their reads and writes take other ways, but not all else. */
static __always_inline bool is_of_kernel(__u32 op)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return op > ZN_IO_WRITE && op != ZN_IO_MMAP && BPF_CORE_READ(task, flags) & PF_KTHREAD_;
}

/* These are functions, and not copied into each program, for the size of it all. */
static __noinline int begin_at(__u32 kind, __u32 op, __u32 dev, __u32 stacked)
{
	if (is_of_kernel(op) || (op <= ZN_IO_WRITE && are_files_spared()))
		return 0;
	pending_begin(bpf_get_current_pid_tgid(), kind, op, NO_OP, (struct place){dev, stacked});
	return 0;
}

static __always_inline void begin_operation(enum zn_io_kind kind, __u32 op, struct place p)
{
	if (p.dev)
		begin_at(kind, op, p.dev, p.stacked);
}

/* Which file it opens is known when it returns. It stands for all that is done for it, as overlay copies a file when it
 * is opened to be written to. */
static __always_inline void begin_open(void)
{
	begin_operation(ZN_IO_META, ZN_IO_OPEN, (struct place){.dev = 1, .stacked = true});
}

/* False: it goes on, and what returns is a call inside of it. */
static __always_inline bool is_over(struct zn_io_pending *s)
{
	if (!s->inner)
		return true;
	s->inner--;
	return false;
}

static __noinline int end_operation(__u32 kind, __s64 result)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 owner = ZN_IO_OWNER((__u32)id, kind), tgid = id >> 32;
	struct zn_io_pending *s = zn_io_pending_find(owner);
	struct outcome o = {};

	if (!s || !is_over(s) || s->op[0] == ZN_IO_OPEN) /* that has an end of its own */
		return 0;
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	if (outcome_of(&o, result)) {
		if (kind == ZN_IO_META)
			o.bytes = 0; /* its result is no size */
		if (s->dev[0])
			count_operation(s->op[0], s->dev[0], tgid, &o, s);
		if (kind == ZN_IO_DATA && s->dev[1])
			count_operation(s->op[1], s->dev[1], tgid, &o, s);
	}
	zn_io_pending_free(s, owner);
	return 0;
}

/* The same for what nearly all calls are, reads and writes, in one piece: without calls to other functions they take 69
 * instructions of 854 less (6.1). */
static __always_inline void begin_data(__u32 tid, __u32 op, struct place p)
{
	if (p.dev)
		pending_begin(tid, ZN_IO_DATA, op, NO_OP, p);
}

static __always_inline void end_data(__s64 result)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 owner = ZN_IO_OWNER((__u32)id, ZN_IO_DATA);
	struct zn_io_pending *s = zn_io_pending_find(owner);
	struct outcome o = {};

	if (!s || !is_over(s))
		return;
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	if (outcome_of(&o, result))
		count_here(s->op[0], s->dev[0], id >> 32, &o, s);
	zn_io_pending_free(s, owner);
}

/* Of a file, or of the whole of it by io_uring. A write to a file with O_SYNC is one write, no fsync besides. */
static __always_inline void begin_fsync(struct place p)
{
	struct zn_io_pending *s = zn_io_pending_find(owner_of(ZN_IO_META));

	if (s && s->op[0] == ZN_IO_FSYNC && (!s->stacked || s->dev[0] == p.dev))
		return; /* inside of the system call */
	if (!zn_io_pending_find(owner_of(ZN_IO_DATA)))
		begin_operation(ZN_IO_META, ZN_IO_FSYNC, p);
}

/* The file that was opened, or an error. That nothing could be opened is on no device that is known here. */
static __always_inline void end_open(bool typed, struct file *file)
{
	__u32 owner = owner_of(ZN_IO_META), tgid = bpf_get_current_pid_tgid() >> 32, mode, dev;
	struct zn_io_pending *s = zn_io_pending_find(owner);
	struct outcome o = {};

	if (!s)
		return;
	if (s->op[0] != ZN_IO_OPEN) { /* this one is within an operation of overlay's, or its entry was missed */
		is_over(s);
		return;
	}
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	zn_io_pending_free(s, owner);
	if (!file || (unsigned long)file >= (unsigned long)-ERRNO_LAST)
		return;
	mode = READ(typed, file, f_mode);
	dev = mode & FMODE_PATH_ ? 0 : place_of_file(typed, file, true).dev;
	if (dev)
		count_operation(mode & FMODE_CREATED_ ? ZN_IO_CREATE : ZN_IO_OPEN, dev, tgid, &o, NULL);
}

/* Programs of one statement: fentry and fexit, whose result stands behind the arguments; kprobes. */
#define ENTER(function, what)                                                                                          \
	SEC("fentry/" #function)                                                                                       \
	int function##_enter(__u64 *ctx __attribute__((unused)))                                                       \
	{                                                                                                              \
		what;                                                                                                  \
		return 0;                                                                                              \
	}
#define LEAVE(function, what)                                                                                          \
	SEC("fexit/" #function)                                                                                        \
	int function##_leave(__u64 *ctx __attribute__((unused)))                                                       \
	{                                                                                                              \
		what;                                                                                                  \
		return 0;                                                                                              \
	}
#define AT_ENTRY(name, what)                                                                                           \
	SEC("kprobe")                                                                                                  \
	int name(struct pt_regs *ctx __attribute__((unused)))                                                          \
	{                                                                                                              \
		what;                                                                                                  \
		return 0;                                                                                              \
	}
#define AT_RETURN(name, what)                                                                                          \
	SEC("kretprobe")                                                                                               \
	int name(struct pt_regs *ctx __attribute__((unused)))                                                          \
	{                                                                                                              \
		what;                                                                                                  \
		return 0;                                                                                              \
	}

#endif
