/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What file operations add to: the series of a job, a device and an operation, its histogram, and what is refused.
 */
#ifndef ZN_IO_COUNT_BPF_H
#define ZN_IO_COUNT_BPF_H

#include "place.bpf.h"
#include "quota.bpf.h"

enum { ERESTARTSYS = 512, ERESTART_LAST = 516, EAGAIN_ = 11, EINTR_ = 4, ERRNO_LAST = 4095 }; /* linux/errno.h */
#define STALE_NS 60000000000ULL

/* What an operation came to. ns 0: not known. file: of a request that may end in any thread; its user is the one
 * who opened the file. NULL: the operation is the calling thread's. */
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

/* Processes that still show the mounts of this process when it is gone: those that started it, and its container. */
static __always_inline __u64 elder_processes(void)
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
		ZN_ADD(shared.io_made, 1); /* behind it: who has seen this finds the row */
		zn_emit(ZN_EV_DEVICE, row.user, key->dev, elder_processes());
		return row.hist;
	}
	hist_give(&row);
	share_give(&row);
	known = bpf_map_lookup_elem(&io_rows, key); /* another CPU was faster, or the table is full */
	return known ? known->hist : series_refused(key);
}

/* The shard of the calling CPU of a series that is spread. While the table is filling up, the first shard is for
 * all. */
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

/* series: ZN_IO_SERIES. file: the address of one, see struct outcome. Not static, nor is coarse_add(): they are
 * verified once and not at each call, which made loading these programs take twice as long. */
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
static __always_inline __u32 series_of_pending(struct zn_io_pending *pending, __u64 series, __u32 tgid, __u64 change)
{
	__u64 *last = &pending->last[series >> 32 & 1], now_for = change << 32 | pending->owner;
	__u32 index;

	if (pending->last_for != now_for) {
		pending->last[0] = pending->last[1] = 0;
		pending->last_for = now_for;
	}
	if ((*last ^ series) << (64 - ZN_IO_SERIES_BITS) == 0)
		return *last >> ZN_IO_SERIES_BITS;
	index = series_find(series, tgid, 0);
	*last = series | (__u64)index << ZN_IO_SERIES_BITS;
	return index;
}

/* pending: the calling thread's own; NULL: it has none, or the operation is another one's. file: as in outcome. */
static __always_inline __u32 series_of(
	__u32 op, __u32 dev, __u32 tgid, struct file *file, struct zn_io_pending *pending)
{
	__u64 series = ZN_IO_SERIES(dev, op), change = *(volatile __u64 *)&shared.io_change;

	return pending ? series_of_pending(pending, series, tgid, change) : series_find(series, tgid, (__u64)file);
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
	__u32 op, __u32 dev, __u32 tgid, const struct outcome *o, struct zn_io_pending *pending)
{
	struct zn_proc *p;

	hist_add(series_of(op, dev, tgid, o->file, pending), o);
	p = op <= ZN_IO_WRITE ? zn_tracked(tgid) : NULL;
	if (!p)
		return;
	ZN_ADD(p->count[op == ZN_IO_READ ? ZN_C_IO_READ_BYTES : ZN_C_IO_WRITE_BYTES], o->bytes);
	ZN_ADD(p->count[op == ZN_IO_READ ? ZN_C_IO_READ_CALLS : ZN_C_IO_WRITE_CALLS], 1);
}

static __noinline int count_operation(
	__u32 op, __u32 dev, __u32 tgid, const struct outcome *o, struct zn_io_pending *pending)
{
	if (o)
		count_here(op, dev, tgid, o, pending);
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

#endif
