/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the time of a thread goes, written from two sides: by the thread as it enters and leaves the functions that wait
 * (uprobes), and by the scheduler as it comes and goes. Each of them closes the present segment and opens the next one by
 * one exchange of one word, so that no time is counted twice or by nobody. Who wakes it only notes when: the waker's CPU
 * has none of the counters at hand.
 */
#ifndef ZN_STALL_BPF_H
#define ZN_STALL_BPF_H

#include "zernel.bpf.h"

/* The set has a few ways instead of a hash: thread ids are handed out one after the other and spread evenly. */
static __always_inline struct zn_run *zn_run_find(__u32 tid)
{
	__u32 at = tid & (ZN_RUN_SETS - 1);
	struct zn_runs *set = bpf_map_lookup_elem(&runs, &at);

	if (!set)
		return NULL;
#pragma unroll
	for (int i = 0; i < ZN_RUN_WAYS; i++)
		if (set->way[i].tid == tid)
			return &set->way[i];
	return NULL;
}

/* The process of a thread's place, or NULL for one that has gone. */
static __always_inline struct zn_proc *zn_run_proc(struct zn_run *r)
{
	__u32 row = r->row;
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);

	return p && p->id == r->id ? p : NULL;
}

/* Only a thread's own CPU takes a place for it, so it is not looked for while it is filled. */
static __noinline struct zn_run *zn_run_claim(__u32 tid, __u32 row, __u32 id)
{
	__u32 at = tid & (ZN_RUN_SETS - 1);
	struct zn_runs *set = bpf_map_lookup_elem(&runs, &at);
	struct zn_run *r = NULL;

	if (!set)
		return NULL;
#pragma unroll
	for (int i = 0; i < ZN_RUN_WAYS; i++)
		if (!r && __sync_val_compare_and_swap(&set->way[i].tid, 0, ZN_RUN_BUSY) == 0)
			r = &set->way[i];
#pragma unroll
	for (int i = 0; i < ZN_RUN_WAYS; i++) {
		__u32 old = set->way[i].tid;

		/* one whose end was missed */
		if (!r && old != ZN_RUN_BUSY && !zn_run_proc(&set->way[i]) &&
			__sync_val_compare_and_swap(&set->way[i].tid, old, ZN_RUN_BUSY) == old)
			r = &set->way[i];
	}
	if (!r) {
		zn_lost(ZN_LOST_THREAD);
		return NULL;
	}
	r->off_ns = r->ready_ns = r->mark_ns = r->news_ns = r->wait_ns = r->limit_ns = r->busy_ns = r->file = 0;
	r->open = 0;
	r->kind = r->cause = r->news = r->flags = 0;
	r->row = row;
	r->id = id;
	*(volatile __u32 *)&r->tid = tid;
	return r;
}

/* index: 1 and up. */
static __always_inline struct zn_open *zn_open_at(__u32 row, __u32 index)
{
	struct zn_opens *o = index ? bpf_map_lookup_elem(&opens, &row) : NULL;

	return o ? &o->open[(index - 1) & (ZN_OPENS - 1)] : NULL;
}

/* A segment's time. */
static __always_inline void zn_stall_add(struct zn_proc *p, __u32 state, __u64 since, __u64 until)
{
	ZN_OPAQUE(state);
	if (state < ZN_STALL_COUNT && since && until > since)
		ZN_ADD(p->count[ZN_C_STALL_CPU + state], until - since);
}

/* What has lasted until now is over. */
static __always_inline void zn_stall_to(struct zn_open *o, struct zn_proc *p, __u64 now, __u32 state)
{
	__u64 old = __sync_lock_test_and_set(&o->word, ZN_OPEN_WORD(now, state));
	__u32 was = ZN_OPEN_STATE(old);

	zn_stall_add(p, was == ZN_STALL_PENDING ? ZN_STALL_CPU : was, ZN_OPEN_SINCE(old), now);
}

/* It runs again. Until ready it slept, for a cause that may have been found out since, and then it was in a run queue. */
static __always_inline void zn_stall_on(struct zn_open *o, struct zn_proc *p, __u64 ready, __u64 now, __u32 cause)
{
	__u64 old = __sync_lock_test_and_set(&o->word, ZN_OPEN_WORD(now, o->inside)), since = ZN_OPEN_SINCE(old);
	__u32 was = ZN_OPEN_STATE(old);

	o->ready_ns = 0; /* behind the word: who reads it meanwhile sees that the word has changed */
	if (ready > now) /* clocks of two CPUs */
		ready = now;
	if (ready < since)
		ready = since;
	zn_stall_add(p, was == ZN_STALL_PENDING ? cause : was, since, ready);
	zn_stall_add(p, ZN_STALL_RUNQUEUE, since ? ready : 0, now);
}

/* A launching thread's first launch: its time is followed from here on. */
static __noinline void zn_open_claim(struct zn_thread *t)
{
	__u32 tid = bpf_get_current_pid_tgid(), row = t->row;
	struct zn_opens *all = bpf_map_lookup_elem(&opens, &row);
	struct zn_run *r;

	t->open = ZN_OPEN_NONE;
	if (!all || !shared.stalls)
		return;
	r = zn_run_find(tid);
	if (r && (r->row != row || r->id != t->id)) { /* an earlier thread's of this id, whose end was missed */
		r->tid = 0;
		r = NULL;
	}
	if (!r)
		r = zn_run_claim(tid, row, t->id);
	if (!r)
		return;
#pragma unroll
	for (int i = 0; i < ZN_OPENS; i++) {
		struct zn_open *o = &all->open[i];

		if (t->open != ZN_OPEN_NONE || __sync_val_compare_and_swap(&o->tid, 0, tid))
			continue;
		o->id = t->id;
		o->inside = ZN_STALL_CPU;
		/* not shown until the scheduler says that it was seen: the tracepoints may come a moment later */
		o->word = ZN_OPEN_WORD(bpf_ktime_get_ns(), ZN_STALL_PENDING);
		r->open = t->open = i + 1;
	}
	if (t->open == ZN_OPEN_NONE)
		zn_lost(ZN_LOST_THREAD);
}

/* At the entry of anything that makes a thread a launching one. */
static __always_inline void zn_launching(struct zn_thread *t)
{
	if (!t->open)
		zn_open_claim(t);
}

/* The thread is inside a function that waits (GPU, DIST), or has left it (CPU). */
static __always_inline void zn_inside(struct zn_thread *t, __u64 now, __u32 state)
{
	struct zn_open *o = t->open == ZN_OPEN_NONE ? NULL : zn_open_at(t->row, t->open);
	struct zn_proc *p = o ? zn_proc_of(t) : NULL;

	if (!p || o->inside == state)
		return;
	o->inside = state;
	zn_stall_to(o, p, now, state);
}

/* ---- workers ---- */

static __always_inline struct zn_proc *zn_worker_proc(const struct zn_worker *w)
{
	__u32 row = w->row;
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);

	return p && p->id == w->id ? p : NULL;
}

/* A worker has ended, or is tracked itself from here on. */
static __noinline void zn_worker_gone(__u32 tgid)
{
	struct zn_worker *found = bpf_map_lookup_elem(&workers, &tgid), w;
	struct zn_proc *p;

	if (!found)
		return;
	w = *found;
	if (bpf_map_delete_elem(&workers, &tgid))
		return;
	ZN_ADD(shared.mark[ZN_MARK_AT(tgid)], -ZN_MARK_WORKER);
	p = zn_worker_proc(&w);
	if (!p)
		return;
	ZN_ADD(p->count[ZN_C_CHILDREN], -1);
	if (w.loader)
		ZN_ADD(p->count[ZN_C_WORKERS], -1);
}

/* The end of a thread. */
static __always_inline void zn_run_gone(__u32 tid)
{
	struct zn_run *r = zn_run_find(tid);
	struct zn_open *o = r ? zn_open_at(r->row, r->open) : NULL;
	struct zn_proc *p = o ? zn_run_proc(r) : NULL;

	if (p) {
		zn_stall_to(o, p, bpf_ktime_get_ns(), ZN_STALL_COUNT);
		o->word = 0;
		o->tid = 0;
	}
	if (r)
		r->tid = 0;
}

#endif
