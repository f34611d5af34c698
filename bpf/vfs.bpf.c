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
#include "quota.bpf.h"
#include "syscalls.bpf.h"
#include <asm/unistd.h>

enum { ERESTARTSYS = 512, ERESTART_LAST = 516, EAGAIN_ = 11, EINTR_ = 4, ERRNO_LAST = 4095 }; /* linux/errno.h */
enum { S_TYPE = 0170000, S_DIRECTORY = 0040000, S_REGULAR = 0100000 };
#define FMODE_PATH_    0x4000u /* linux/fs.h */
#define FMODE_CREATED_ 0x100000u
#define SB_KERNMOUNT_  (1u << 22)
#define PF_KTHREAD_    0x00200000u /* linux/sched.h */
#define OVERLAYFS      0x794c7630  /* linux/magic.h */
#define ECRYPTFS       0xf15f
#define STALE_NS       60000000000ULL

/* ---- which file system ---- */

static __noinline int is_pseudo(__u32 magic)
{
	switch (magic) {
	case 0x9fa0:     /* proc */
	case 0x62656572: /* sysfs */
	case 0x27e0eb:   /* cgroup */
	case 0x63677270: /* cgroup2 */
	case 0x64626720: /* debugfs */
	case 0x74726163: /* tracefs */
	case 0xcafe4a11: /* bpf */
	case 0x1cd1:     /* devpts */
	case 0x73636673: /* securityfs */
	case 0x62656570: /* configfs */
	case 0x6165676c: /* pstore */
	case 0xde5e81e4: /* efivarfs */
	case 0xf97cff8c: /* selinuxfs */
	case 0x43415d53: /* smackfs */
	case 0x5a3c69f0: /* apparmorfs */
	case 0x42494e4d: /* binfmt_misc */
	case 0x65735543: /* fusectl */
	case 0x19800202: /* mqueue */
	case 0x7655821:  /* resctrl */
	case 0x67596969: /* rpc_pipefs */
	case 0x6e667364: /* nfsd */
	case 0x6e736673: /* nsfs */ return true;
	}
	return false;
}

/* Kernel memory, by the address of a field: directly where the verifier knows the pointer's type, which costs nothing. */
#define READ(typed, at, field) ((typed) ? (at)->field : BPF_CORE_READ(at, field))

/* One of two words of a context, by what is known once the program is loaded. Both are read before that: a context cannot
 * be read at a place that was worked out. */
static __always_inline __u64 either(bool first, __u64 one, __u64 other)
{
	ZN_OPAQUE(one);
	ZN_OPAQUE(other);
	return first ? one : other;
}

/* What an operation is on: a device, and whether its file system hands on to others. */
struct place {
	__u32 dev; /* 0: not counted */
	__u32 stacked;
};

static __always_inline struct place place_of_sb(bool typed, struct super_block *sb)
{
	__u32 magic = READ(typed, sb, s_magic);
	struct place p = {};

	if (is_pseudo(magic) || READ(typed, sb, s_flags) & SB_KERNMOUNT_)
		return p;
	p.dev = READ(typed, sb, s_dev);
	p.stacked = magic == OVERLAYFS || magic == ECRYPTFS;
	return p;
}

static __always_inline struct place place_of_inode(bool typed, struct inode *inode, bool directories)
{
	__u32 type = READ(typed, inode, i_mode) & S_TYPE;

	if (type != S_REGULAR && !(directories && type == S_DIRECTORY))
		return (struct place){};
	return place_of_sb(typed, READ(typed, inode, i_sb));
}

static __always_inline struct place place_of_file(bool typed, struct file *file, bool directories)
{
	return place_of_inode(typed, READ(typed, file, f_inode), directories);
}

#ifdef ZN_NO_FETCH /* as old as that, bpf_get_current_task_btf() is missing too (5.11) */
#define CURRENT()     ((struct task_struct *)bpf_get_current_task())
#define CURRENT_TYPED false
#else
#define CURRENT()     bpf_get_current_task_btf()
#define CURRENT_TYPED true
#endif

static __always_inline struct file *file_of(int fd)
{
	struct task_struct *task = CURRENT();
	struct files_struct *files = READ(CURRENT_TYPED, task, files);
	struct fdtable *table = files ? READ(CURRENT_TYPED, files, fdt) : NULL;
	struct file *file = NULL;

	if (!table || fd < 0 || (__u32)fd >= READ(CURRENT_TYPED, table, max_fds))
		return NULL;
	bpf_probe_read_kernel(&file, sizeof(file), READ(CURRENT_TYPED, table, fd) + fd);
	return file;
}

static __always_inline struct place place_of_fd(int fd, bool directories)
{
	struct file *file = file_of(fd);

	return file ? place_of_file(false, file, directories) : (struct place){};
}

/* ---- counting ---- */

/* What an operation came to. ns 0: not known. file: of a request that ends in whatever thread, so that its user is known by
 * who opened the file; NULL: it is the calling thread's. */
struct outcome {
	__u64 ns;
	__u64 bytes;
	struct file *file;
	bool error;
};

static __always_inline bool share_take(const struct zn_io_row *row)
{
	if (!zn_quota_take_from(ZN_QUOTA_IO_USER, row->user))
		return false;
	if (zn_quota_take_from(ZN_QUOTA_IO, row->owner))
		return true;
	zn_quota_give_to(ZN_QUOTA_IO_USER, row->user);
	return false;
}

static __always_inline void share_give(const struct zn_io_row *row)
{
	zn_quota_give_to(ZN_QUOTA_IO, row->owner);
	zn_quota_give_to(ZN_QUOTA_IO_USER, row->user);
}

/* A whole histogram for reads and writes, as long as there are some. False: there is none of either kind. */
static __always_inline bool hist_take(__u32 op, struct zn_io_row *row)
{
	__u32 index;

	if (op <= ZN_IO_WRITE && zn_quota_try_from(ZN_QUOTA_IO_HIST, row->owner)) {
		if (bpf_map_pop_elem(&free_hists, &index) == 0) {
			row->hist = index;
			return true;
		}
		zn_quota_give_to(ZN_QUOTA_IO_HIST, row->owner);
	}
	if (bpf_map_pop_elem(&free_coarse, &index))
		return false;
	row->hist = ZN_HISTS_MAX + index;
	return true;
}

static __always_inline void hist_give(struct zn_io_row *row)
{
	__u32 index = row->hist;

	if (index < ZN_HISTS_MAX) {
		bpf_map_push_elem(&free_hists, &index, 0);
		zn_quota_give_to(ZN_QUOTA_IO_HIST, row->owner);
		return;
	}
	index -= ZN_HISTS_MAX;
	bpf_map_push_elem(&free_coarse, &index, 0);
}

/* How often the job of a series was refused one of its kind; NULL: it is of no job. */
static __always_inline __u64 *refused_of(const struct zn_io_key *key)
{
	__u32 slot = key->job.slot, op = key->op;
	struct zn_job_shared *job = key->job.serial ? bpf_map_lookup_elem(&jobs, &slot) : NULL;

	return job && job->serial == key->job.serial && op < ZN_IO_OP_COUNT ? &job->io_lost[op] : NULL;
}

static __always_inline __u32 series_refused(const struct zn_io_key *key)
{
	__u64 *refused = refused_of(key);

	if (refused)
		ZN_ADD(*refused, 1);
	return ZN_IO_REFUSED;
}

/* Who can tell of the mounts of this process when it is gone: the processes that began it, and its container. */
static __always_inline __u64 elders(void)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 init = (__u32)BPF_CORE_READ(task, nsproxy, pid_ns_for_children, child_reaper, tgid);

	return init << 32 | (__u32)BPF_CORE_READ(task, real_parent, tgid);
}

/* The histogram of a series that is seen for the first time; ZN_IO_REFUSED: there is none. */
static __noinline __u32 series_claim(const struct zn_io_key *key, struct file *file)
{
	struct zn_io_row row = {}, *known;
	__u64 *refused;

	if (!key)
		return ZN_IO_REFUSED;
	row.user = file ? zn_owner_of_cred((__u64)BPF_CORE_READ(file, f_cred)) : zn_owner_current();
	if (row.user >= ZN_OWNER_JOB(0))
		row.user = ZN_OWNER_NOBODY;
	row.owner = key->job.serial ? ZN_OWNER_JOB(key->job.slot) : row.user;
	refused = refused_of(key);
	row.partial = refused && *refused;
	if (!share_take(&row))
		return series_refused(key);
	if (!hist_take(key->op, &row)) {
		share_give(&row);
		return series_refused(key);
	}
	if (bpf_map_update_elem(&io_rows, key, &row, BPF_NOEXIST) == 0) {
		zn_emit(ZN_EV_DEVICE, row.user, key->dev, elders());
		return row.hist;
	}
	hist_give(&row);
	share_give(&row);
	known = bpf_map_lookup_elem(&io_rows, key); /* another CPU was faster, or the table is full */
	return known ? known->hist : series_refused(key);
}

/* The shard of the calling CPU of a series that is spread. While the table is filling up, the first shard is for all. */
static __noinline __u32 shard_find(struct zn_io_key *key, __u32 first, struct file *file)
{
	const struct zn_quota *q = &shared.quota[ZN_QUOTA_IO];
	struct zn_io_row *known;
	__u32 hist;

	if (!key)
		return first;
	key->shard = bpf_get_smp_processor_id() / ZN_IO_SHARD_CPUS % ZN_IO_SHARDS;
	known = key->shard ? bpf_map_lookup_elem(&io_rows, key) : NULL;
	if (known)
		return known->hist;
	if (!key->shard || 2 * q->used > (__s32)q->size)
		return first;
	hist = series_claim(key, file);
	return hist == ZN_IO_REFUSED ? first : hist;
}

/* series: ZN_IO_SERIES. file: the address of one, see struct outcome. Not static, nor is coarse_add(): they are verified once
 * and not at each call, which made loading these programs take twice as long. */
__noinline __u32 series_find(__u64 series, __u32 tgid, __u64 file)
{
	struct zn_io_key key = {.dev = series, .op = series >> 32};
	struct zn_job_ref *tag = shared.jobs ? bpf_map_lookup_elem(&tasks, &tgid) : NULL;
	struct zn_io_row *known;
	struct zn_hist *h;
	__u32 hist;

	if (tag)
		key.job = *tag;
	known = bpf_map_lookup_elem(&io_rows, &key);
	if (!known)
		return series_claim(&key, (struct file *)file);
	hist = known->hist;
	h = key.op <= ZN_IO_WRITE ? bpf_map_lookup_elem(&hists, &hist) : NULL;
	return h && h->spread ? shard_find(&key, hist, (struct file *)file) : hist;
}

/* As before, or else to be remembered; of change as it was before it is looked up. */
static __always_inline __u32 series_of_seat(struct zn_io_seat *seat, __u64 series, __u32 tgid, __u64 change)
{
	__u64 *last = &seat->last[series >> 32 & 1], now_for = change << 32 | seat->owner;
	__u32 slot;

	if (seat->last_for != now_for) {
		seat->last[0] = seat->last[1] = 0;
		seat->last_for = now_for;
	}
	if ((*last ^ series) << (64 - ZN_IO_SERIES_BITS) == 0)
		return *last >> ZN_IO_SERIES_BITS;
	slot = series_find(series, tgid, 0);
	*last = series | (__u64)slot << ZN_IO_SERIES_BITS;
	return slot;
}

/* seat: the calling thread's own; NULL: it has none, or the operation is another one's. file: as in outcome. */
static __always_inline __u32 series_of(__u32 op, __u32 dev, __u32 tgid, struct file *file, struct zn_io_seat *seat)
{
	__u64 series = ZN_IO_SERIES(dev, op), change = *(volatile __u64 *)&shared.io_change;

	return seat ? series_of_seat(seat, series, tgid, change) : series_find(series, tgid, (__u64)file);
}

/* hist: from ZN_HISTS_MAX on. In what there is none for, the operation is lost. */
__noinline int coarse_add(__u32 hist, __u64 ns, __u64 bytes, __u32 calls, __u32 errors)
{
	__u32 index = hist - ZN_HISTS_MAX, bucket = zn_coarse_bucket(ns);
	struct zn_coarse_hist *h = bpf_map_lookup_elem(&coarse_hists, &index);

	if (!h) {
		if (calls)
			zn_lost(ZN_LOST_IO);
		return 0;
	}
	ZN_ADD(h->calls, calls);
	ZN_ADD(h->bytes, bytes);
	if (errors)
		ZN_ADD(h->errors, errors);
	if (ns == 0)
		return 0;
	ZN_ADD(h->sum_ns, ns);
	if (bucket < ZN_COARSE_BUCKETS)
		ZN_ADD(h->bucket[bucket], 1);
	zn_raise(&h->max_ns, ns);
	return 0;
}

static __always_inline void hist_add(__u32 hist, const struct outcome *o)
{
	struct zn_hist *h = bpf_map_lookup_elem(&hists, &hist);

	if (!h) {
		coarse_add(hist, o->ns, o->bytes, 1, o->error);
		return;
	}
	if (o->ns)
		zn_hist_record(h, o->ns);
	else
		ZN_ADD(h->calls, 1);
	if (o->bytes)
		ZN_ADD(h->bytes, o->bytes);
	if (o->error)
		ZN_ADD(h->errors, 1);
}

static __always_inline void count_here(
	__u32 op, __u32 dev, __u32 tgid, const struct outcome *o, struct zn_io_seat *seat)
{
	struct zn_proc *p;

	hist_add(series_of(op, dev, tgid, o->file, seat), o);
	p = op <= ZN_IO_WRITE ? zn_tracked(tgid) : NULL;
	if (!p)
		return;
	ZN_ADD(p->count[op == ZN_IO_READ ? ZN_C_IO_READ_BYTES : ZN_C_IO_WRITE_BYTES], o->bytes);
	ZN_ADD(p->count[op == ZN_IO_READ ? ZN_C_IO_READ_CALLS : ZN_C_IO_WRITE_CALLS], 1);
}

static __noinline int count(__u32 op, __u32 dev, __u32 tgid, const struct outcome *o, struct zn_io_seat *seat)
{
	if (o)
		count_here(op, dev, tgid, o, seat);
	return 0;
}

/* Of a result. EAGAIN and EINTR are answers, not failures: the caller did not want to wait, or has a signal. False: the
 * call comes again. */
static __always_inline bool outcome_of(struct outcome *o, __s64 result)
{
	if (result <= -ERESTARTSYS && result >= -ERESTART_LAST)
		return false;
	o->bytes = result > 0 ? result : 0;
	o->error = result < 0 && result != -EAGAIN_ && result != -EINTR_;
	return true;
}

/* ---- the operation that a thread is in ---- */

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

/* An operation of a process, or the pair that it is, cannot be followed: what its job did is not known in full. Whether an open()
 * would have made its file is not known either. */
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
/* All seats are taken, by whomever: seats there say only which thread has them. */
static __noinline struct zn_io_seat *seat_crowded(__u32 owner, __u32 op, __u32 also)
{
	(void)owner;
	ops_missed(bpf_get_current_pid_tgid() >> 32, op, also);
	return NULL;
}

static __always_inline void seat_name(struct zn_io_seat *s, __u32 owner)
{
	(void)s, (void)owner;
}
#else
#define SEATS_AROUND 32

/* 1, or 0. Without a branch: the verifier would follow both ways of each. */
static __always_inline __u32 is_zero(__u64 v)
{
	ZN_OPAQUE(v);
	return (v - 1) >> 63;
}

/* How many seats a user has of those around a thread's own. */
__noinline __u32 seats_held(__u32 owner, __u32 user)
{
	__u32 held = 0;

	for (__u32 i = 0; i < SEATS_AROUND; i++) {
		__u32 at = ZN_IO_PLACE(owner, i);
		struct zn_io_seat *s = bpf_map_lookup_elem(&io_seats, &at);

		if (!s)
			return 0;
		held += is_zero(s->user ^ user) & ~is_zero(s->owner);
	}
	return held;
}

/* Place and 1 of the seat that its user has to give up for another one's thread: his who has most around there, if that is still
 * more than the other one has then. 0: there is none. */
__noinline __u32 seat_of_greediest(__u32 owner, __u32 user)
{
	__u32 most = seats_held(owner, user) + 1, found = 0;

	for (__u32 i = 0; i < ZN_IO_TRIES; i++) {
		__u32 at = ZN_IO_PLACE(owner, i), held;
		struct zn_io_seat *s = bpf_map_lookup_elem(&io_seats, &at);

		if (!s || s->user == user)
			continue;
		held = seats_held(owner, s->user);
		if (held > most) {
			most = held;
			found = at + 1;
		}
	}
	return found;
}

/*
 * The share of operations under way. They are not counted by user as they come and go: all CPUs would have to do so in one
 * place. So a thread looks only when its places are taken, and then it takes the seat of who has most. That one's operation
 * is lost: its return finds no seat. Place and 1; 0: its own is lost.
 *
 * A fault of call_fault() has no end: nothing is lost with its seat.
 */
__noinline __u32 seat_squeeze(__u32 owner, __u32 op, __u32 also)
{
	__u32 user = zn_owner_current(), at = seat_of_greediest(owner, user) - 1, holder;
	struct zn_io_seat *s = bpf_map_lookup_elem(&io_seats, &at), was;

	if (s) {
		was = *s;
		holder = was.owner;
		if (__sync_val_compare_and_swap(&s->owner, holder, owner) == holder) {
			s->stacked = 0;
			s->start_ns = 0;
			if (holder && ((holder & 3) != ZN_IO_FAULT || was.dev[0] != 1))
				ops_refused(ZN_QUOTA_IO_SEAT, was.user, was.tgid, was.op[0],
					was.dev[1] ? was.op[1] : NO_OP);
			return at + 1;
		}
	}
	ops_refused(ZN_QUOTA_IO_SEAT, user, bpf_get_current_pid_tgid() >> 32, op, also);
	return 0;
}

static __noinline struct zn_io_seat *seat_crowded(__u32 owner, __u32 op, __u32 also)
{
	__u32 at = seat_squeeze(owner, op, also) - 1;

	return bpf_map_lookup_elem(&io_seats, &at);
}

/* A thread's first operation in this seat. */
static __noinline int seat_named(struct zn_io_seat *s, __u32 owner)
{
	if (!s)
		return 0;
	s->user = zn_owner_current();
	s->tgid = bpf_get_current_pid_tgid() >> 32;
	s->last[0] = s->last[1] = 0;
	s->last_for = owner;
	return 0;
}

static __always_inline void seat_name(struct zn_io_seat *s, __u32 owner)
{
	if ((__u32)s->last_for != owner)
		seat_named(s, owner);
}
#endif

static __always_inline struct zn_io_seat *seat_take(__u32 owner, __u32 op, __u32 also)
{
	struct zn_io_seat *s = zn_io_seat_take(owner);

	if (!s)
		s = seat_crowded(owner, op, also);
	if (s)
		seat_name(s, owner);
	return s;
}

/* What a stacked file system (overlay) does on the one below is part of the same operation. A return that was missed
 * would hide what comes after it: not on the same device, which is none of those below, and elsewhere not for long. also:
 * the other operation of a pair, or NO_OP. NULL: nothing is to be counted. */
static __always_inline struct zn_io_seat *seat_begin(__u32 kind, __u32 op, __u32 also, struct place p)
{
	__u64 now = bpf_ktime_get_ns();
	struct zn_io_seat *s = p.dev ? seat_take(owner_of(kind), op, also) : NULL;

	if (!s)
		return NULL;
	if (s->stacked && s->dev[0] != p.dev && now - s->start_ns < STALE_NS) {
		s->inner++;
		return NULL;
	}
	if (s->start_ns && kind != ZN_IO_FAULT)
		zn_lost(ZN_LOST_INFLIGHT); /* its return was missed: a kretprobe has room for so many calls at a time */
	s->op[0] = op;
	s->dev[0] = p.dev;
	s->dev[1] = 0;
	s->stacked = p.stacked;
	s->inner = 0;
	s->bytes = 0;
	s->start_ns = now;
	return s;
}

/* One that reads one file and writes another; either may be no regular file. */
static __always_inline void pair_begin(struct place from, struct place to)
{
	bool both = from.dev;
	__u32 also = both && to.dev ? ZN_IO_WRITE : NO_OP;
	struct zn_io_seat *s = seat_begin(ZN_IO_DATA, both ? ZN_IO_READ : ZN_IO_WRITE, also, both ? from : to);

	if (!s || !both)
		return;
	s->op[1] = ZN_IO_WRITE;
	s->dev[1] = to.dev;
}

static __noinline int begin_pair_at(__u32 from, __u32 to)
{
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
	if (is_of_kernel(op))
		return 0;
	seat_begin(kind, op, NO_OP, (struct place){dev, stacked});
	return 0;
}

static __always_inline void begin(enum zn_io_kind kind, __u32 op, struct place p)
{
	if (p.dev)
		begin_at(kind, op, p.dev, p.stacked);
}

/* False: it goes on, and what returns is a call inside of it. */
static __always_inline bool is_over(struct zn_io_seat *s)
{
	if (!s->inner)
		return true;
	s->inner--;
	return false;
}

static __noinline int end(__u32 kind, __s64 result)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 owner = ZN_IO_OWNER((__u32)id, kind), tgid = id >> 32;
	struct zn_io_seat *s = zn_io_seat_find(owner);
	struct outcome o = {};

	if (!s || !is_over(s))
		return 0;
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	if (outcome_of(&o, result)) {
		if (kind == ZN_IO_META)
			o.bytes = 0; /* its result is no size */
		if (s->dev[0])
			count(s->op[0], s->dev[0], tgid, &o, s);
		if (kind == ZN_IO_DATA && s->dev[1])
			count(s->op[1], s->dev[1], tgid, &o, s);
	}
	zn_io_seat_free(s, owner);
	return 0;
}

/* The same for what nearly all calls are, reads and writes, in one piece: without calls to other functions they take 69
 * instructions of 854 less (6.1). */
static __always_inline void begin_data(__u32 op, struct place p)
{
	if (p.dev)
		seat_begin(ZN_IO_DATA, op, NO_OP, p);
}

static __always_inline void end_data(__s64 result)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 owner = ZN_IO_OWNER((__u32)id, ZN_IO_DATA);
	struct zn_io_seat *s = zn_io_seat_find(owner);
	struct outcome o = {};

	if (!s || !is_over(s))
		return;
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	if (outcome_of(&o, result))
		count_here(s->op[0], s->dev[0], id >> 32, &o, s);
	zn_io_seat_free(s, owner);
}

/* A write to a file with O_SYNC is one write, no fsync besides. */
static __always_inline void begin_fsync(struct place p)
{
	struct zn_io_seat *s = zn_io_seat_find(owner_of(ZN_IO_META));

	if (s && s->op[0] == ZN_IO_FSYNC && (!s->stacked || s->dev[0] == p.dev))
		return; /* inside of the system call */
	if (!zn_io_seat_find(owner_of(ZN_IO_DATA)))
		begin(ZN_IO_META, ZN_IO_FSYNC, p);
}

/* The file that was opened, or an error. That nothing could be opened is on no device that is known here. */
static __always_inline void end_open(bool typed, struct file *file)
{
	__u32 owner = owner_of(ZN_IO_META), tgid = bpf_get_current_pid_tgid() >> 32, mode, dev;
	struct zn_io_seat *s = zn_io_seat_find(owner);
	struct outcome o = {};

	if (!s)
		return;
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	zn_io_seat_free(s, owner);
	if (!file || (unsigned long)file >= (unsigned long)-ERRNO_LAST)
		return;
	mode = READ(typed, file, f_mode);
	dev = mode & FMODE_PATH_ ? 0 : place_of_file(typed, file, true).dev;
	if (dev)
		count(mode & FMODE_CREATED_ ? ZN_IO_CREATE : ZN_IO_OPEN, dev, tgid, &o, NULL);
}

/* ---- fentry and fexit: the position of the result is that of the first one after the arguments ---- */

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
#define FILE_AT(n) place_of_file(true, (struct file *)ctx[n], false)

ENTER(vfs_read, begin_data(ZN_IO_READ, FILE_AT(0)))
ENTER(vfs_write, begin_data(ZN_IO_WRITE, FILE_AT(0)))
ENTER(vfs_readv, begin(ZN_IO_DATA, ZN_IO_READ, FILE_AT(0)))
ENTER(vfs_writev, begin(ZN_IO_DATA, ZN_IO_WRITE, FILE_AT(0)))
ENTER(do_sendfile, begin_pair(place_of_fd(ctx[1], false), place_of_fd(ctx[0], false)))
ENTER(do_splice, begin_pair(FILE_AT(0), FILE_AT(2)))
ENTER(vfs_copy_file_range, begin(ZN_IO_DATA, ZN_IO_COPY, FILE_AT(2)))
LEAVE(vfs_read, end_data(ctx[4]))
LEAVE(vfs_write, end_data(ctx[4]))
LEAVE(vfs_readv, end(ZN_IO_DATA, ctx[5]))
LEAVE(vfs_writev, end(ZN_IO_DATA, ctx[5]))
LEAVE(do_sendfile, end(ZN_IO_DATA, ctx[5]))
LEAVE(do_splice, end(ZN_IO_DATA, ctx[6]))
LEAVE(vfs_copy_file_range, end(ZN_IO_DATA, ctx[6]))

/* From 5.12 on, the map of ids of the mount comes before the folder. */
static __always_inline bool has_idmap(void)
{
	return bpf_core_type_exists(struct mnt_idmap) || bpf_core_field_exists(struct vfsmount, mnt_userns);
}

static __always_inline struct place place_of_folder(__u64 *ctx)
{
	return place_of_sb(true, ((struct inode *)either(has_idmap(), ctx[1], ctx[0]))->i_sb);
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

/* Before 5.17 it is told by how many arguments come before it. */
static __always_inline __s64 result_at(__u64 *ctx, bool first, int one, int other)
{
	__u64 result;

	if (first) {
		result = ctx[one];
		ZN_OPAQUE(result); /* see either(); but here the other one may be none */
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

ENTER(do_filp_open, begin(ZN_IO_META, ZN_IO_OPEN, (struct place){.dev = 1}))
LEAVE(do_filp_open, end_open(true, (struct file *)ctx[3]))
ENTER(do_file_open, begin(ZN_IO_META, ZN_IO_OPEN, (struct place){.dev = 1})) /* its name from 7.x on */
LEAVE(do_file_open, end_open(true, (struct file *)ctx[3]))
ENTER(vfs_mkdir, begin(ZN_IO_META, ZN_IO_MKDIR, place_of_folder(ctx)))
ENTER(vfs_unlink, begin(ZN_IO_META, ZN_IO_UNLINK, place_of_folder(ctx)))
ENTER(vfs_rename, begin(ZN_IO_META, ZN_IO_RENAME, place_of_renamed(ctx)))
ENTER(vfs_fsync_range, begin_fsync(place_of_file(true, (struct file *)ctx[0], true)))
ENTER(vfs_getattr_nosec, begin(ZN_IO_META, ZN_IO_STAT, place_of_sb(true, ((struct path *)ctx[0])->dentry->d_sb)))
LEAVE(vfs_mkdir, end(ZN_IO_META, result_of(ctx, 3)))
LEAVE(vfs_unlink, end(ZN_IO_META, result_of(ctx, 3)))
LEAVE(vfs_rename, end(ZN_IO_META, result_at(ctx, bpf_core_type_exists(struct renamedata), 1, 6)))
LEAVE(vfs_fsync_range, end(ZN_IO_META, error_of(ctx[4])))
LEAVE(vfs_getattr_nosec, end(ZN_IO_META, error_of(ctx[4])))

#ifdef ZN_NO_FETCH
/* The first half of vfs_rmdir() is within do_rmdir() on Debian's 5.10. So it is begun and ended there, and whose folder it is
 * is known once the security modules are asked. What a file system does below is not seen. */
#define KNOWN_LATER 0xffffffff

static __always_inline void rmdir_at(struct place p)
{
	struct zn_io_seat *s = zn_io_seat_find(owner_of(ZN_IO_META));

	if (!s || s->op[0] != ZN_IO_RMDIR || s->dev[0] != KNOWN_LATER)
		return;
	s->dev[0] = p.dev;
	s->stacked = p.stacked;
	s->start_ns = bpf_ktime_get_ns();
}

static __always_inline void rmdir_end(__s64 result)
{
	struct zn_io_seat *s = zn_io_seat_find(owner_of(ZN_IO_META));

	if (s && s->dev[0] == KNOWN_LATER)
		s->dev[0] = 0;
	end(ZN_IO_META, result);
}

ENTER(do_rmdir, begin(ZN_IO_META, ZN_IO_RMDIR, (struct place){.dev = KNOWN_LATER}))
LEAVE(do_rmdir, rmdir_end(error_of(ctx[2])))
ENTER(security_inode_rmdir, rmdir_at(place_of_sb(true, ((struct inode *)ctx[0])->i_sb)))
#else
ENTER(vfs_rmdir, begin(ZN_IO_META, ZN_IO_RMDIR, place_of_folder(ctx)))
LEAVE(vfs_rmdir, end(ZN_IO_META, result_of(ctx, 2)))
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
		end(ZN_IO_META, error_of(ctx[1]));                                                                     \
		return 0;                                                                                              \
	}
SYNC(fsync)
SYNC(fdatasync)

/* ---- kprobes on the same functions ---- */

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
#define FILE_IN(arg, directories) place_of_file(false, (struct file *)(arg), directories)
#define FOLDER_IN(ctx)                                                                                                 \
	place_of_sb(false, BPF_CORE_READ((struct inode *)either(has_idmap(), ZN_ARG2(ctx), ZN_ARG1(ctx)), i_sb))

AT_ENTRY(on_read, begin(ZN_IO_DATA, ZN_IO_READ, FILE_IN(ZN_ARG1(ctx), false)))
AT_ENTRY(on_write, begin(ZN_IO_DATA, ZN_IO_WRITE, FILE_IN(ZN_ARG1(ctx), false)))
AT_ENTRY(on_sendfile, begin_pair(place_of_fd(ZN_ARG2(ctx), false), place_of_fd(ZN_ARG1(ctx), false)))
AT_ENTRY(on_splice, begin_pair(FILE_IN(ZN_ARG1(ctx), false), FILE_IN(ZN_ARG3(ctx), false)))
AT_ENTRY(on_copy, begin(ZN_IO_DATA, ZN_IO_COPY, FILE_IN(ZN_ARG3(ctx), false)))
AT_RETURN(after_data, end(ZN_IO_DATA, ZN_RESULT_LONG(ctx)))

AT_ENTRY(on_open, begin(ZN_IO_META, ZN_IO_OPEN, (struct place){.dev = 1}))
AT_RETURN(after_open, end_open(false, (struct file *)ZN_RESULT_LONG(ctx)))
AT_ENTRY(on_mkdir, begin(ZN_IO_META, ZN_IO_MKDIR, FOLDER_IN(ctx)))
#ifdef ZN_NO_FETCH
AT_ENTRY(on_do_rmdir, begin(ZN_IO_META, ZN_IO_RMDIR, (struct place){.dev = KNOWN_LATER}))
AT_RETURN(after_do_rmdir, rmdir_end(error_of(ZN_RESULT_LONG(ctx))))
AT_ENTRY(on_rmdir_folder, rmdir_at(place_of_sb(false, BPF_CORE_READ((struct inode *)ZN_ARG1(ctx), i_sb))))
#else
AT_ENTRY(on_rmdir, begin(ZN_IO_META, ZN_IO_RMDIR, FOLDER_IN(ctx)))
AT_RETURN(after_rmdir, end(ZN_IO_META, error_of(ZN_RESULT_LONG(ctx))))
#endif
AT_ENTRY(on_unlink, begin(ZN_IO_META, ZN_IO_UNLINK, FOLDER_IN(ctx)))
AT_ENTRY(on_rename,
	begin(ZN_IO_META, ZN_IO_RENAME,
		place_of_sb(false,
			bpf_core_type_exists(struct renamedata)
				? BPF_CORE_READ((struct renamedata *)ZN_ARG1(ctx), old_dentry, d_sb)
				: BPF_CORE_READ((struct inode *)ZN_ARG1(ctx), i_sb))))
AT_ENTRY(on_fsync, begin_fsync(FILE_IN(ZN_ARG1(ctx), true)))
AT_ENTRY(on_stat,
	begin(ZN_IO_META, ZN_IO_STAT, place_of_sb(false, BPF_CORE_READ((struct path *)ZN_ARG1(ctx), dentry, d_sb))))
SEC("kprobe")
int on_sync(struct pt_regs *ctx)
{
	struct pt_regs regs;

	if (bpf_probe_read_kernel(&regs, sizeof(regs), (void *)ZN_ARG1(ctx)) == 0)
		begin_fsync(place_of_fd(ZN_ARG1(&regs), true));
	return 0;
}

AT_RETURN(after_meta, end(ZN_IO_META, error_of(ZN_RESULT_LONG(ctx))))

/* ---- io_uring: by completion, in whatever thread that happens, for the process that made the request ---- */

enum { /* linux/io_uring.h: enum io_uring_op */
	READV = 1,
	WRITEV = 2,
	FSYNC = 3,
	READ_FIXED = 4,
	WRITE_FIXED = 5,
	READ_ = 22,
	WRITE_ = 23,
	READ_MULTISHOT = 49,
	READV_FIXED = 60,
	WRITEV_FIXED = 61,
};

/* The operation of a request; ZN_IO_OP_COUNT: none that is counted here. */
static __always_inline __u32 ring_op(__u8 opcode)
{
	switch (opcode) {
	case READV:
	case READ_FIXED:
	case READ_:
	case READ_MULTISHOT:
	case READV_FIXED: return ZN_IO_READ;
	case WRITEV:
	case WRITE_FIXED:
	case WRITE_:
	case WRITEV_FIXED: return ZN_IO_WRITE;
	}
	return ZN_IO_OP_COUNT;
}

static __always_inline __u32 ring_tgid(struct io_kiocb *req)
{
	if (bpf_core_field_exists(struct io_kiocb, tctx))
		return BPF_CORE_READ(req, tctx, task, tgid);
	return BPF_CORE_READ((struct io_kiocb___task *)req, task, tgid);
}

static __always_inline struct zn_io_request *ring_seat(struct io_kiocb *req)
{
	__u32 at = (__u64)req >> 6 & (ZN_IO_REQUESTS - 1); /* they are 64-byte aligned */

	return bpf_map_lookup_elem(&io_requests, &at);
}

static __always_inline void ring_begin(struct io_kiocb *req)
{
	struct zn_io_request *seat;

	if (ring_op(BPF_CORE_READ(req, opcode)) == ZN_IO_OP_COUNT)
		return;
	seat = ring_seat(req);
	if (!seat)
		return;
	seat->start_ns = bpf_ktime_get_ns();
	seat->at = (__u64)req;
}

static __always_inline void ring_end(struct io_kiocb *req, __s64 result)
{
	__u32 op = ring_op(BPF_CORE_READ(req, opcode));
	struct zn_io_request *seat = ring_seat(req);
	struct outcome o = {};
	struct file *file;
	__u32 dev;

	if (op == ZN_IO_OP_COUNT)
		return;
	file = BPF_CORE_READ(req, file);
	dev = file ? place_of_file(false, file, false).dev : 0;
	if (!dev || !outcome_of(&o, result))
		return;
	o.file = file;
	if (seat && seat->at == (__u64)req) {
		o.ns = zn_minus(bpf_ktime_get_ns(), seat->start_ns);
		seat->at = 0;
	}
	count(op, dev, ring_tgid(req), &o, NULL);
}

/* The events changed their arguments; CO-RE tells which they are. Before 5.18 they lack the request. */
typedef void (*btf_trace_io_uring_complete___cqe)(void *, struct io_ring_ctx *, void *, struct io_uring_cqe *);
typedef void (*btf_trace_io_uring_submit_sqe___req)(void *, struct io_kiocb *, bool);

SEC("raw_tp/io_uring_submit_req")
int ring_submit_req(struct bpf_raw_tracepoint_args *ctx)
{
	ring_begin((void *)ctx->args[0]);
	return 0;
}

SEC("raw_tp/io_uring_submit_sqe")
int ring_submit_sqe(struct bpf_raw_tracepoint_args *ctx)
{
	ring_begin(
		(void *)either(bpf_core_type_exists(btf_trace_io_uring_submit_sqe___req), ctx->args[0], ctx->args[1]));
	return 0;
}

#ifdef ZN_NO_FETCH
/* There the event of a completion does not say of which request. A result is final where the request's own function for it
 * is called, or would be: kiocb_done() does without for one that was neither an error nor polled for. */
#define SETUP_IOPOLL 1 /* linux/io_uring.h */

/* What a read had got before it was done again belongs to the result. EAGAIN: it is done again. */
static __always_inline void ring_complete_rw(struct kiocb *kiocb, __s64 result)
{
	struct io_kiocb___rw *req = (void *)kiocb; /* its first member */
	struct io_async_rw *rw = BPF_CORE_READ(req, async_data);
	__s64 before = rw ? BPF_CORE_READ(rw, bytes_done) : 0;

	if (result == -EAGAIN_)
		return;
	ring_end((void *)req, before <= 0 ? result : result < 0 ? before : before + result);
}

static __always_inline void ring_done(struct kiocb *kiocb, __s64 result)
{
	struct io_kiocb___rw *req = (void *)kiocb;

	if (result >= 0 && !(BPF_CORE_READ(req, ctx, flags) & SETUP_IOPOLL))
		ring_complete_rw(kiocb, result);
}

ENTER(kiocb_done, ring_done((void *)ctx[0], ctx[1]))
ENTER(io_complete_rw, ring_complete_rw((void *)ctx[0], ctx[1]))
ENTER(io_complete_rw_iopoll, ring_complete_rw((void *)ctx[0], ctx[1]))
AT_ENTRY(on_kiocb_done, ring_done((void *)ZN_ARG1(ctx), ZN_ARG2(ctx)))
AT_ENTRY(on_complete_rw, ring_complete_rw((void *)ZN_ARG1(ctx), ZN_ARG2(ctx)))
#else
SEC("raw_tp/io_uring_complete")
int ring_complete(struct bpf_raw_tracepoint_args *ctx)
{
	struct io_kiocb *req = (void *)ctx->args[1];
	struct io_uring_cqe *cqe = (void *)ctx->args[2];

	if (!req)
		return 0; /* an event of the ring's own, no request's */
	if (bpf_core_type_exists(btf_trace_io_uring_complete___cqe))
		ring_end(req, BPF_CORE_READ(cqe, res));
	else
		ring_end(req, (__s32)ctx->args[3]);
	return 0;
}
#endif

/* ---- libaio: completions run anywhere ---- */

/* False: there is none at this address. */
static __always_inline bool aio_take_out(__u64 kiocb, struct zn_aio *aio)
{
	struct zn_aio *found = bpf_map_lookup_elem(&aios, &kiocb);

	if (!found)
		return false;
	*aio = *found;
	if (bpf_map_delete_elem(&aios, &kiocb))
		return false;
	zn_quota_give_to(ZN_QUOTA_AIO, aio->owner);
	return true;
}

static __noinline int aio_begin_at(__u64 kiocb, __u32 op)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct zn_aio aio;
	bool taken;

	aio_take_out(kiocb, &aio); /* its end was missed */
	aio = (struct zn_aio){.start_ns = bpf_ktime_get_ns(), .owner = zn_owner_current(), .tgid = tgid, .op = op};
	taken = zn_quota_try_from(ZN_QUOTA_AIO, aio.owner);
	if (taken && bpf_map_update_elem(&aios, &kiocb, &aio, BPF_NOEXIST) == 0)
		return 0;
	if (taken)
		zn_quota_give_to(ZN_QUOTA_AIO, aio.owner);
	return ops_refused(ZN_QUOTA_AIO, aio.owner, tgid, op, NO_OP);
}

static __always_inline void aio_begin(struct kiocb *kiocb, __u32 op)
{
	aio_begin_at((__u64)kiocb, op);
}

/* Refused before it began: it will not complete. */
static __always_inline void aio_refused(struct kiocb *kiocb, __s64 result)
{
	struct zn_aio aio;

	if (result < 0)
		aio_take_out((__u64)kiocb, &aio);
}

static __always_inline void aio_end(struct kiocb *kiocb, __s64 result)
{
	struct file *file = BPF_CORE_READ(kiocb, ki_filp);
	struct outcome o = {.file = file};
	struct zn_aio aio;
	__u32 dev;

	if (!aio_take_out((__u64)kiocb, &aio))
		return;
	dev = file ? place_of_file(false, file, false).dev : 0;
	o.ns = zn_minus(bpf_ktime_get_ns(), aio.start_ns);
	if (dev && outcome_of(&o, result))
		count(aio.op, dev, aio.tgid, &o, NULL);
}

ENTER(aio_read, aio_begin((void *)ctx[0], ZN_IO_READ))
ENTER(aio_write, aio_begin((void *)ctx[0], ZN_IO_WRITE))
LEAVE(aio_read, aio_refused((void *)ctx[0], (__s32)ctx[4]))
LEAVE(aio_write, aio_refused((void *)ctx[0], (__s32)ctx[4]))
ENTER(aio_complete_rw, aio_end((void *)ctx[0], ctx[1]))
AT_ENTRY(on_aio_read, aio_begin((void *)ZN_ARG1(ctx), ZN_IO_READ))
AT_ENTRY(on_aio_write, aio_begin((void *)ZN_ARG1(ctx), ZN_IO_WRITE))
AT_ENTRY(on_aio_complete, aio_end((void *)ZN_ARG1(ctx), ZN_ARG2(ctx)))

/* ---- mapped files: what their page faults bring in ---- */

static __always_inline void end_fault(void)
{
	__u32 owner = owner_of(ZN_IO_FAULT);
	struct zn_io_seat *s = zn_io_seat_find(owner);
	struct outcome o = {};

	if (!s)
		return;
	o.ns = zn_minus(bpf_ktime_get_ns(), s->start_ns);
	o.bytes = s->bytes;
	if (o.bytes)
		count(ZN_IO_MMAP, s->dev[0], bpf_get_current_pid_tgid() >> 32, &o, s);
	zn_io_seat_free(s, owner);
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
	struct zn_io_seat *s = zn_io_seat_find(owner_of(ZN_IO_FAULT));

	if (s)
		s->bytes += folio_bytes((void *)ctx->args[0]);
	return 0;
}

ENTER(filemap_fault,
	begin(ZN_IO_FAULT, ZN_IO_MMAP, place_of_file(true, ((struct vm_fault *)ctx[0])->vma->vm_file, false)))
LEAVE(filemap_fault, end_fault())
AT_ENTRY(on_fault,
	begin(ZN_IO_FAULT, ZN_IO_MMAP,
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

static __always_inline bool is_of_32_bits(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return ZN_CALL_OF_32_BITS(&task->thread_info);
}

static __always_inline void file_enter(const struct pt_regs *regs, __u32 nr)
{
	__u32 op = table[nr].op, way = table[nr].way;
	int fd;

	if (!is_wanted(op) || is_of_32_bits())
		return;
	fd = call_argument(regs, table[nr].first);
	if (way == PAIR)
		begin_pair(place_of_fd(fd, false), place_of_fd(call_argument(regs, table[nr].second), false));
	else if (way == OPENS)
		begin(ZN_IO_META, op, (struct place){.dev = 1});
	else if (way == FD && op <= ZN_IO_MMAP)
		begin_data(op, place_of_fd(fd, false));
	else if (way == FD || call_argument(regs, table[nr].second) & AT_EMPTY_PATH)
		begin(ZN_IO_META, op, place_of_fd(fd, true));
}

static __always_inline void file_leave(__u32 nr, __s64 result)
{
	if (!is_wanted(table[nr].op))
		return;
	if (table[nr].way == OPENS)
		end_open(false, result < 0 ? NULL : file_of(result));
	else if (table[nr].way == PAIR)
		end(ZN_IO_DATA, result);
	else if (table[nr].op <= ZN_IO_MMAP)
		end_data(result);
	else
		end(ZN_IO_META, error_of(result));
}

/* (regs, number). The one program at the entry of system calls, for all families: a second one would cost every call of
 * the node 48 ns more (6.18), as the kernel calls a single one directly and several by their addresses. */
SEC("tp_btf/sys_enter")
int call_enter(__u64 *ctx)
{
	const struct pt_regs *regs = (void *)ctx[0];
	__u64 nr = ctx[1];
	struct zn_proc *p = ZN_NR_OF_PROBE(nr) ? NULL : zn_tracked_current();

	if (p)
		signals_enter(p, regs, nr);
	if (nr < CALLS && table[nr].way)
		file_enter(regs, nr);
	return 0;
}

/* (regs, result), and the one at their end. */
SEC("tp_btf/sys_exit")
int call_leave(__u64 *ctx)
{
	const struct pt_regs *regs = (void *)ctx[0];
	__u64 nr = ZN_CALL_NUMBER(regs);

	if (nr < CALLS && table[nr].way)
		file_leave(nr, ctx[1]);
	signals_leave(regs, nr, ctx[1]);
	return 0;
}

/* (mapping, index), from 6.10 on: a fault begins. */
SEC("raw_tp/mm_filemap_fault")
int call_fault(void *ctx __attribute__((unused)))
{
	begin(ZN_IO_FAULT, ZN_IO_MMAP, (struct place){.dev = 1});
	return 0;
}

/* (folio): only where an exception came in from a program: that is a fault, which has no event at its end. */
SEC("raw_tp/mm_filemap_add_to_page_cache")
int call_page_added(struct bpf_raw_tracepoint_args *ctx)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());
	struct folio *folio = (void *)ctx->args[0];
	struct zn_io_seat *s;
	__u32 owner = owner_of(ZN_IO_FAULT), dev, hist;

	if ((__s64)ZN_CALL_NUMBER(regs) != -1)
		return 0;
	dev = place_of_inode(false, BPF_CORE_READ(folio, mapping, host), false).dev;
	if (!dev)
		return 0;
	hist = series_of(ZN_IO_MMAP, dev, bpf_get_current_pid_tgid() >> 32, NULL, NULL);
	s = zn_io_seat_find(owner); /* NULL: more of the same fault */
	coarse_add(hist, 0, folio_bytes(folio), s ? 1 : 0, 0);
	if (s)
		zn_io_seat_free(s, owner);
	return 0;
}
#endif

char LICENSE[] SEC("license") = "GPL";
