/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What every handler needs: the maps that all families share (by descriptor, see src/probe/objects.c), the thread, its
 * process, the stack of open calls, a histogram to add to. A probe hit takes at most one hash look-up (the thread);
 * everything else is an array access that the verifier inlines.
 *
 * ZN_NO_FETCH builds the same for kernels whose atomic operations return nothing (before 5.12): what differs is here,
 * a pair for each thing that is claimed. Processes are not tracked there.
 */
#ifndef ZN_ZERNEL_BPF_H
#define ZN_ZERNEL_BPF_H

#include <stdbool.h>
#include <stddef.h>
#include "kernel.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../zernel.h"

#include "maps.bpf.h"

/* The only variable of each object, so that libbpf's map of variables, .bss, is this. Unlike an element of an
 * array that is looked up it has a fixed address, which saves eight instructions or so wherever it is used. */
struct zn_shared shared;

#define ZN_IO_SERIES(dev, op) ((__u64)(dev) | (__u64)(op) << 32)
#define ZN_IO_SERIES_BITS     48
#define ZN_IO_REFUSED         0xffffu /* in place of a histogram: there is none, and what is done is lost */
_Static_assert(ZN_HISTS_MAX + ZN_IO_MAX <= ZN_IO_REFUSED && ZN_IO_OP_COUNT <= 0x100, "bits of a series");

const struct zn_thread zero_thread = {};
const struct zn_sched_entry zero_sched_entry = {};

/* Hides where a value came from, so that the compiler checks and uses the same register, as the verifier demands. */
#define ZN_OPAQUE(v) asm volatile("" : "+r"(v))

#define ZN_ADD(at, n) ((void)__sync_fetch_and_add(&(at), (n)))

/* What nearly every call takes: the compiler keeps it together, and all else out of its way. */
#define ZN_USUAL(condition) __builtin_expect(!!(condition), 1)
#define ZN_RARE(condition)  __builtin_expect(!!(condition), 0)

static __always_inline bool zn_is_on(enum zn_family f)
{
	return shared.families >> f & 1;
}

/* Whether a part of what is measured of a process is spared now. Nothing is, as a rule, and then its page is not read.
 *  */
static __always_inline bool zn_spares(const struct zn_proc *p, enum zn_spare part)
{
	return ZN_RARE(shared.spared & ZN_SPARES(part)) && p->calls & ZN_SPARES(part);
}

static __always_inline void zn_lost_many(enum zn_loss what, __u64 n)
{
	ZN_ADD(shared.lost[what], n);
}

static __always_inline void zn_lost(enum zn_loss what)
{
	zn_lost_many(what, 1);
}

#include "quota.bpf.h"

static __always_inline void zn_emit(__u32 type, __u32 row, __u32 detail, __u64 bytes)
{
	struct zn_event *ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);

	if (!ev) {
		zn_lost(ZN_LOST_RINGBUF);
		return;
	}
	*ev = (struct zn_event){
		.type = type,
		.tgid = bpf_get_current_pid_tgid() >> 32,
		.row = row,
		.detail = detail,
		.bytes = bytes,
	};
	bpf_ringbuf_submit(ev, 0);
}

/* What a user can make as often as he likes gives way: half of the ring is for all else. */
static __always_inline void zn_emit_at_will(__u32 type, __u32 row, __u32 detail)
{
	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > ZN_RING_BYTES / 2)
		zn_lost(ZN_LOST_RINGBUF);
	else
		zn_emit(type, row, detail, 0);
}

#ifdef ZN_NO_FETCH
/* Only jobs are numbered: with cgroup_mutex held, so by one at a time. The upper half of all numbers is for these, the
 * lower one for those that the daemon gives. */
static __always_inline __u32 zn_next_id(void)
{
	return 0x80000000u | ++shared.next_job_id;
}

/* Takes one off and returns what is left; where several do so at once, to all of them the same. */
static __always_inline __u32 zn_one_less(volatile __u32 *count)
{
	ZN_ADD(*count, -1);
	return *count;
}

/* Of two that raise it at the same time either may win. */
static __always_inline void zn_raise(volatile __u64 *max, __u64 to)
{
	if (to > *max)
		*max = to;
}
#else
/* A number that no process had before: never 0. Only where a process or a job begins: whoever could use up all of
 * them would have what others hold under theirs taken away. */
static __always_inline __u32 zn_next_id(void)
{
	__u32 id = __sync_fetch_and_add(&shared.next_id, 1) + 1;

	return id ? id : __sync_fetch_and_add(&shared.next_id, 1) + 1;
}

/* Takes one off and returns what is left. */
static __always_inline __u32 zn_one_less(__u32 *count)
{
	return __sync_fetch_and_sub(count, 1) - 1;
}

static __always_inline void zn_raise(__u64 *max, __u64 to)
{
	__u64 known = *max;

#pragma unroll
	for (int i = 0; i < 8; i++) {
		__u64 seen;

		if (to <= known)
			break;
		seen = __sync_val_compare_and_swap(max, known, to);
		if (seen == known)
			break;
		known = seen;
	}
}
#endif

/* ---- workers ---- */

static __always_inline struct zn_proc *zn_worker_proc(const struct zn_loader_worker *w)
{
	__u32 row = w->row;
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);

	return p && p->id == w->id ? p : NULL;
}

/* A worker has ended, or is tracked itself from here on. */
static __noinline void zn_worker_gone(__u32 tgid)
{
	struct zn_loader_worker *found = bpf_map_lookup_elem(&workers, &tgid), w;
	struct zn_proc *p;

	if (!found)
		return;
	w = *found;
	if (bpf_map_delete_elem(&workers, &tgid))
		return;
	ZN_ADD(shared.pid_filter[ZN_PID_FILTER_AT(tgid)], -ZN_PID_WORKER);
	zn_quota_give_to(ZN_QUOTA_WORKER, w.owner);
	p = zn_worker_proc(&w);
	if (!p)
		return;
	ZN_ADD(p->count[ZN_C_CHILDREN], -1);
	if (w.loader)
		ZN_ADD(p->count[ZN_C_WORKERS], -1);
}

/* ---- processes ---- */

/* A free row for a process of this owner. */
static __always_inline struct zn_proc *zn_row_take(__u32 tgid, __u32 owner, __u32 *row)
{
	bool taken = zn_quota_try_from(ZN_QUOTA_PROCESS, owner);

	if (taken && bpf_map_pop_elem(&free_rows, row) == 0)
		return bpf_map_lookup_elem(&procs, row);
	if (taken)
		zn_quota_give_to(ZN_QUOTA_PROCESS, owner);
	zn_quota_refuse_once(ZN_QUOTA_PROCESS, owner, ZN_REFUSED_PROCESS, tgid);
	return NULL;
}

static __always_inline void zn_row_give(struct zn_proc *p, __u32 row, __u32 owner)
{
	p->tgid = 0;
	zn_quota_give_to(ZN_QUOTA_PROCESS, owner);
	bpf_map_push_elem(&free_rows, &row, 0);
}

/* Takes a free row for a process that is seen for the first time. The row is complete before it can be found, but
 * for the job: a process is tagged in `tasks` first and then in its row, so here the row comes first. */
static __noinline __u32 zn_proc_claim(__u32 tgid)
{
	__u32 row = ZN_ROW_NONE, owner = zn_owner_current(), *other;
	struct zn_proc *p = zn_row_take(tgid, owner, &row);
	struct zn_job_ref *tag;

	if (!p)
		return ZN_ROW_NONE;
	p->id = zn_next_id();
	p->tgid = tgid;
	p->owner = owner;
	p->first_ns = bpf_ktime_get_ns();
	bpf_get_current_comm(p->comm, sizeof(p->comm));
	if (bpf_map_update_elem(&rows, &tgid, &row, BPF_NOEXIST)) {
		other = bpf_map_lookup_elem(&rows, &tgid);
		zn_row_give(p, row, owner);
		return other ? *other : ZN_ROW_NONE;
	}
	tag = shared.jobs ? bpf_map_lookup_elem(&tasks, &tgid) : NULL;
	if (tag)
		p->job = *tag;
	shared.row_tgid[row & (ZN_PROCS_MAX - 1)] = tgid;
	shared.mark_row[ZN_PID_FILTER_AT(tgid)] = row;
	ZN_ADD(shared.pid_filter[ZN_PID_FILTER_AT(tgid)], ZN_PID_TRACKED);
	ZN_ADD(shared.procs, 1);
	if (shared.pid_filter[ZN_PID_FILTER_AT(tgid)] >= ZN_PID_WORKER)
		zn_worker_gone(tgid);
	zn_emit(ZN_EV_PROC, row, 0, 0);
	return row;
}

/* Nearly every thread has the entry that the low bits of its id name. Only where that is another thread's already, the
 * hash is needed: both probes of a call together take 14 ns less without it (measured on 6.18). */
static __always_inline struct zn_thread *zn_thread_cached(__u32 tid)
{
	__u32 at = tid & (ZN_THREAD_CACHE - 1);

	return bpf_map_lookup_elem(&thread_cache, &at);
}

static __always_inline struct zn_thread *zn_thread_find(__u32 tid)
{
	struct zn_thread *t = zn_thread_cached(tid);

	return ZN_USUAL(t && t->tid == tid) ? t : bpf_map_lookup_elem(&threads, &tid);
}

/* An entry keeps the last one's stacks, so what says that they are empty is set here. */
static __always_inline struct zn_thread *zn_thread_new(__u32 tid)
{
	struct zn_thread *t = zn_thread_cached(tid);

	if (t && __sync_val_compare_and_swap(&t->tid, 0, tid) == 0) {
		t->depth = t->ctx_depth = t->group_depth = 0;
		t->group_start_ns = t->group_nested_ns = 0;
		t->state_at = 0;
		t->awaited = 0;
		t->stack = 0;
		return t;
	}
	if (bpf_map_update_elem(&threads, &tid, &zero_thread, BPF_ANY))
		return NULL;
	return bpf_map_lookup_elem(&threads, &tid);
}

/* What its owner holds for a new thread: ZN_HELD_*; 0: his share is used up. Threads that launch have a reserve. */
static __always_inline __u32 zn_thread_admit(__u32 owner, __u32 tid, bool launches)
{
	if (zn_quota_try_from(ZN_QUOTA_THREAD, owner))
		return ZN_HELD_THREAD;
	if (launches && zn_quota_try_from(ZN_QUOTA_LAUNCH, owner))
		return ZN_HELD_LAUNCH;
	zn_quota_refuse_once(ZN_QUOTA_THREAD, owner, ZN_REFUSED_THREAD, tid);
	return 0;
}

static __always_inline void zn_thread_give(__u32 owner, __u32 held)
{
	if (held)
		zn_quota_give_to(held & ZN_HELD_THREAD ? ZN_QUOTA_THREAD : ZN_QUOTA_LAUNCH, owner);
}

/* launches: this call makes the thread a launching one. */
static __noinline struct zn_thread *zn_thread_claim(__u32 tid, __u32 tgid, __u32 launches)
{
	__u32 row = ZN_ROW_NONE, held = 0, *known;
	struct zn_thread *t;
	struct zn_proc *p;

	if (tgid != shared.daemon_tgid) {
		known = bpf_map_lookup_elem(&rows, &tgid);
		row = known ? *known : zn_proc_claim(tgid);
		if (row == ZN_ROW_NONE)
			return NULL;
	}
	p = bpf_map_lookup_elem(&procs, &row);
	if (p) {
		held = zn_thread_admit(p->owner, tid, launches);
		if (!held)
			return NULL;
	}
	t = zn_thread_new(tid);
	if (!t) {
		zn_lost(ZN_LOST_THREAD);
		zn_thread_give(p ? p->owner : 0, held);
		return NULL;
	}
	t->row = row;
	t->held = held;
	t->owner = p ? p->owner : 0;
	t->id = p ? p->id : 0;
	t->tgid = tgid;
	t->shard = ZN_SHARD_NOT;
	return t;
}

static __always_inline void zn_thread_forget(struct zn_thread *t, __u32 tid)
{
	__u32 owner = t->owner, held = t->held;
	bool own;

	t->stack = 0;
	if (t->tid == tid)
		own = __sync_val_compare_and_swap(&t->tid, tid, 0) == tid;
	else
		own = bpf_map_delete_elem(&threads, &tid) == 0;
	if (own)
		zn_thread_give(owner, held);
}

/* An earlier thread of this id, whose end was missed, gives its entry to the one that has the id now. */
static __noinline struct zn_thread *zn_thread_replace(struct zn_thread *t, __u32 tid, __u32 tgid, __u32 launches)
{
	if (t) {
		zn_lost(ZN_LOST_THREAD);
		zn_thread_forget(t, tid);
	}
	return zn_thread_claim(tid, tgid, launches);
}

/*
 * A number that a thread has for as long as it lives, and no other one beside it: where its registers lie, on its
 * kernel stack. To have it costs nothing, while the kernel takes some 10 ns to tell the id of a thread. The next thread
 * may have the same stack, so it says which thread is meant only where a call returns whose entry was seen: that has
 * written it down, and knew the id.
 */
static __always_inline __u64 zn_stack_of(struct pt_regs *ctx)
{
	__u64 at = (__u64)ctx;

	asm volatile("%0 -= %1" : "+r"(at) : "r"(&shared)); /* of two addresses the verifier allows the difference */
	return at;
}

#define ZN_STACK_BITS       14 /* of an address within a kernel stack */
#define ZN_STACK_AT(number) ((number) >> ZN_STACK_BITS & (ZN_THREAD_CACHE - 1))

/* Of two threads whose stacks are at one place of the table, the one that comes first loses it; then its id says who it
 * is. So it is with a thread that is not in the cache, too. */
static __noinline int zn_stack_note(struct zn_thread *t, __u32 tid, __u64 number)
{
	if (!t || t->tid != tid)
		return 0;
	t->stack = number;
	shared.stack_thread[ZN_STACK_AT(number)] = tid & (ZN_THREAD_CACHE - 1);
	return 0;
}

/* The thread that enters a function, by what bpf_get_current_pid_tgid() says. NULL: there is no room for it, which was
 * counted. */
static __always_inline struct zn_thread *zn_thread(struct pt_regs *ctx, __u64 id, bool launches)
{
	__u64 number = zn_stack_of(ctx);
	__u32 tid = id, tgid = id >> 32;
	struct zn_thread *t = zn_thread_find(tid);

	if (ZN_RARE(!t || t->tgid != tgid)) {
		t = zn_thread_replace(t, tid, tgid, launches);
		if (!t)
			return NULL;
	}
	if (ZN_RARE(t->stack != number))
		zn_stack_note(t, tid, number);
	return t;
}

/* The thread that returns from one. */
static __always_inline struct zn_thread *zn_thread_returning(struct pt_regs *ctx)
{
	__u64 number = zn_stack_of(ctx);
	struct zn_thread *t = zn_thread_cached(shared.stack_thread[ZN_STACK_AT(number)]);

	return ZN_USUAL(t && t->stack == number) ? t : zn_thread_find((__u32)bpf_get_current_pid_tgid());
}

/* The process of a thread, or NULL for the daemon's own threads and for a row that has been given back since. */
static __always_inline struct zn_proc *zn_proc_of(struct zn_thread *t)
{
	__u32 row = t->row;
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);

	return p && p->id == t->id ? p : NULL;
}

/* The row of a process by its thread group id, for programs on the kernel itself; NULL: it is not tracked. */
static __always_inline struct zn_proc *zn_tracked(__u32 tgid)
{
	struct zn_proc *p;
	__u32 row, *known;

	if (!(shared.pid_filter[ZN_PID_FILTER_AT(tgid)] & (ZN_PID_WORKER - 1)))
		return NULL;
	row = shared.mark_row[ZN_PID_FILTER_AT(tgid)];
	p = bpf_map_lookup_elem(&procs, &row);
	if (p && tgid && p->tgid == tgid && !p->exit_ns)
		return p;
	known = bpf_map_lookup_elem(&rows, &tgid);
	return known ? bpf_map_lookup_elem(&procs, known) : NULL;
}

static __always_inline struct zn_proc *zn_tracked_current(void)
{
	return zn_tracked(bpf_get_current_pid_tgid() >> 32);
}

/* ---- processes of jobs ---- */

/* A process is of this job from here on. False: the job's share of the table is used up; that was counted. A
 * process that moves from another job has its place already. */
static __always_inline bool zn_task_put(__u32 tgid, const struct zn_job_ref *tag)
{
	struct zn_job_ref *old = bpf_map_lookup_elem(&tasks, &tgid);
	__u32 owner = ZN_OWNER_JOB(tag->slot), before = old ? ZN_OWNER_JOB(old->slot) : 0;

	if (old && bpf_map_update_elem(&tasks, &tgid, tag, BPF_EXIST) == 0) {
		zn_quota_move(ZN_QUOTA_TASK, before, owner);
		return true;
	}
	if (!zn_quota_claim(ZN_QUOTA_TASK, owner))
		return false;
	if (bpf_map_update_elem(&tasks, &tgid, tag, BPF_NOEXIST) == 0)
		return true;
	zn_quota_give_to(ZN_QUOTA_TASK, owner);
	zn_lost(ZN_LOST_TASK);
	return false;
}

static __always_inline void zn_task_drop(__u32 tgid)
{
	struct zn_job_ref *old = bpf_map_lookup_elem(&tasks, &tgid);
	__u32 owner = old ? ZN_OWNER_JOB(old->slot) : 0;

	if (old && bpf_map_delete_elem(&tasks, &tgid) == 0)
		zn_quota_give_to(ZN_QUOTA_TASK, owner);
}

/* The calling thread begins something that is timed. A call that is there already is an earlier one whose end was
 * missed: a return probe has room for twice as many calls as there are CPUs, and calls that wait take it up. */
static __always_inline void zn_timed_begin(struct zn_proc *p, enum zn_timed what, __u64 arg)
{
	__u64 key = ZN_TIMED_KEY(bpf_get_current_pid_tgid(), what);
	struct zn_timed_call c = {.start_ns = bpf_ktime_get_ns(), .arg = arg, .id = p->id, .owner = p->owner};
	struct zn_timed_call *old = bpf_map_lookup_elem(&calls, &key);
	__u32 before = old ? old->owner : 0;

	if (old && old->id == p->id)
		zn_lost(ZN_LOST_CALL);
	if (old && bpf_map_update_elem(&calls, &key, &c, BPF_EXIST) == 0) {
		zn_quota_move(ZN_QUOTA_CALL, before, c.owner);
		return;
	}
	if (!zn_quota_claim(ZN_QUOTA_CALL, c.owner) || bpf_map_update_elem(&calls, &key, &c, BPF_NOEXIST) == 0)
		return;
	zn_quota_give_to(ZN_QUOTA_CALL, c.owner);
	zn_lost(ZN_LOST_CALL);
}

/* It ends. False: it began before it was timed, or another program of the same process began it. */
static __always_inline bool zn_timed_end(struct zn_proc *p, enum zn_timed what, struct zn_timed_call *to)
{
	__u64 key = ZN_TIMED_KEY(bpf_get_current_pid_tgid(), what);
	struct zn_timed_call *c = bpf_map_lookup_elem(&calls, &key);

	if (!c)
		return false;
	*to = *c;
	if (bpf_map_delete_elem(&calls, &key) == 0)
		zn_quota_give_to(ZN_QUOTA_CALL, to->owner);
	return to->id == p->id;
}

static __always_inline bool zn_is_send(long number)
{
	return number == ZN_NR_WRITE || number == ZN_NR_WRITEV || number == ZN_NR_SENDTO || number == ZN_NR_SENDMSG;
}

/* See struct zn_gpu_calls. */
static __always_inline void zn_gpu_enter(struct zn_proc *p, __u64 now_ns)
{
	__u32 inside;

	if (__sync_fetch_and_add(&p->in_ioctl, 1) != 0)
		return;
	ZN_ADD(shared.gpu_calls.begun, 1);
	inside = __sync_fetch_and_add(&shared.gpu_calls.processes, 1);
	if (inside == 0)
		ZN_ADD(shared.gpu_calls.busy_ns, -now_ns);
	else if (inside == 1)
		ZN_ADD(shared.gpu_calls.contended_ns, -now_ns);
	ZN_ADD(shared.gpu_calls.done, 1);
}

static __always_inline void zn_gpu_leave(struct zn_proc *p, __u64 now_ns)
{
	__u32 inside;

	if (__sync_fetch_and_add(&p->in_ioctl, -1) != 1)
		return;
	ZN_ADD(shared.gpu_calls.begun, 1);
	inside = __sync_fetch_and_add(&shared.gpu_calls.processes, -1);
	if (inside == 1)
		ZN_ADD(shared.gpu_calls.busy_ns, now_ns);
	else if (inside == 2)
		ZN_ADD(shared.gpu_calls.contended_ns, now_ns);
	ZN_ADD(shared.gpu_calls.done, 1);
}

#include "pending.bpf.h"
#include "inside.bpf.h"
#include "call.bpf.h"

/* ---- sends ---- */

static __always_inline struct zn_send *zn_send_of(__u32 tid)
{
	__u32 at = tid & (ZN_THREAD_CACHE - 1);

	return bpf_map_lookup_elem(&sends, &at);
}

/* The calling thread begins to send, or may do so. */
static __always_inline void zn_send_begin(struct zn_proc *p)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct zn_send *s = zn_send_of(tid);

	if (!s)
		return;
	s->tid = tid;
	s->id = p->id;
	s->start_ns = bpf_ktime_get_ns();
}

/* It was a send over TCP, which ended now. */
static __always_inline void zn_send_end(struct zn_proc *p, __u64 now, int result)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct zn_send *s = zn_send_of(tid);

	if (!s || s->id == 0)
		return;
	if (s->tid != tid) {
		zn_lost(ZN_LOST_CALL);
		return;
	}
	if (s->id == p->id && s->start_ns)
		zn_record(p, ZN_H_TCP_SEND, zn_minus(now, s->start_ns), 0, result < 0);
	s->start_ns = 0;
}

/* Reads the caller's memory; counted when it cannot be read. */
static __always_inline bool zn_read_user(void *to, __u32 len, __u64 from)
{
	if (bpf_probe_read_user(to, len, (const void *)from) == 0)
		return true;
	zn_lost(ZN_LOST_USER_READ);
	return false;
}

#endif
