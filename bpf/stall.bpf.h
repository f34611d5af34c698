/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the time of a thread goes, written from two sides: by the thread as it enters and leaves the functions that
 * wait (uprobes), and by the scheduler as it comes and goes. Each of them closes the present segment and opens the
 * next one by one exchange of one word, so that no time is counted twice or by nobody. Who wakes it only notes when:
 * the waker's CPU has none of the counters at hand.
 */
#ifndef ZN_STALL_BPF_H
#define ZN_STALL_BPF_H

#include "zernel.bpf.h"

static __always_inline struct zn_sched_set *zn_sched_entry_set(__u32 tid)
{
	__u32 at = tid & shared.sched_mask;

	return bpf_map_lookup_elem(&sched_sets, &at);
}

/* The ways of a set that are a thread's, a bit each. An idle CPU's, whose number is that of a free way, are none. */
static __always_inline __u64 zn_sched_ways_of(const struct zn_sched_set *set, __u32 tid)
{
	__u64 found = 0, other, real = ((__u64)tid - 1) >> 63;

#pragma unroll
	for (int i = 0; i < ZN_SCHED_WAYS; i++) {
		other = set->way[i].tid ^ tid;
		ZN_OPAQUE(other);
		found |= (other - 1) >> 63 << i;
	}
	real -= 1; /* all ones, or 0 of thread 0. Without a branch: the verifier would follow both ways of each look-up */
	ZN_OPAQUE(real);
	found &= real;
	ZN_OPAQUE(found);
	return found;
}

/* The set has a few ways instead of a hash: thread ids are handed out one after the other and spread evenly. The
 * hash is asked only where some thread found its set full. */
static __always_inline struct zn_sched_entry *zn_sched_entry_find(__u32 tid)
{
	struct zn_sched_set *set = zn_sched_entry_set(tid);
	__u64 found = set ? zn_sched_ways_of(set, tid) : 0;

	if (!set)
		return NULL;
	if (found)
		return &set->way[zn_sched_way_first(found)];
	return set->spilled ? bpf_map_lookup_elem(&spilled, &tid) : NULL;
}

/* The process of a thread's place, or NULL if it has gone. */
static __always_inline struct zn_proc *zn_sched_entry_proc(struct zn_sched_entry *r)
{
	__u32 row = r->row;
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);

	return p && p->id == r->id ? p : NULL;
}

/* Gives back what an owner holds for a thread. */
static __always_inline void zn_sched_entry_give(__u32 owner, __u32 held)
{
	if (held & ZN_HELD_SCHED)
		zn_quota_give_to(ZN_QUOTA_SCHED, owner);
	if (held & ZN_HELD_SPILL)
		zn_quota_give_to(ZN_QUOTA_SPILL, owner);
	if (held & ZN_HELD_RESERVE)
		zn_quota_give_to(ZN_QUOTA_RESERVE, owner);
}

/* A free place in the thread's set, or one of a thread whose end was missed. */
static __always_inline struct zn_sched_entry *zn_sched_entry_place(__u32 tid)
{
	struct zn_sched_set *set = zn_sched_entry_set(tid);
	struct zn_sched_entry *r = NULL;

	if (!set)
		return NULL;
#pragma unroll
	for (int i = 0; i < ZN_SCHED_WAYS; i++)
		if (!r && __sync_val_compare_and_swap(&set->way[i].tid, 0, ZN_SCHED_BUSY) == 0)
			r = &set->way[i];
#pragma unroll
	for (int i = 0; i < ZN_SCHED_WAYS; i++) {
		__u32 old = set->way[i].tid, owner = set->way[i].owner;

		if (!r && old && old != ZN_SCHED_BUSY && !zn_sched_entry_proc(&set->way[i]) &&
			__sync_val_compare_and_swap(&set->way[i].tid, old, ZN_SCHED_BUSY) == old) {
			zn_sched_entry_give(owner, ZN_HELD_SCHED);
			r = &set->way[i];
		}
	}
	return r;
}

/* A place outside of the thread's set. */
static __noinline struct zn_sched_entry *zn_sched_entry_spill(__u32 tid)
{
	struct zn_sched_set *set = zn_sched_entry_set(tid);

	if (!set || bpf_map_update_elem(&spilled, &tid, &zero_sched_entry, BPF_NOEXIST))
		return NULL;
	ZN_ADD(set->spilled, 1);
	return bpf_map_lookup_elem(&spilled, &tid);
}

/* What the owner holds for a thread that gets no place in its set. Threads that launch have a reserve, also if the
 * owner's share of the sets is used up. 0: nothing. */
static __always_inline __u32 zn_sched_entry_admit(__u32 owner, __u32 held, bool launches)
{
	if (launches && zn_quota_try_from(ZN_QUOTA_RESERVE, owner))
		return held | ZN_HELD_RESERVE;
	if (held && zn_quota_try_from(ZN_QUOTA_SPILL, owner))
		return held | ZN_HELD_SPILL;
	return 0;
}

/* Only a thread's own CPU takes a place for it, so it is not looked for while it is filled, but where the thread is
 * preempted in a function of a library: see zn_sched_entry_only(). */
static __noinline struct zn_sched_entry *zn_sched_entry_claim(__u32 tid, __u32 row, struct zn_proc *p, __u32 launches)
{
	__u32 owner, held, beside;
	struct zn_sched_entry *r;

	if (!p)
		return NULL;
	owner = p->owner;
	held = zn_quota_try_from(ZN_QUOTA_SCHED, owner) ? ZN_HELD_SCHED : 0;
	r = held ? zn_sched_entry_place(tid) : NULL;
	if (!r) {
		beside = zn_sched_entry_admit(owner, held, launches);
		held |= beside;
		r = beside ? zn_sched_entry_spill(tid) : NULL;
	}
	if (!r) {
		zn_sched_entry_give(owner, held);
		zn_quota_refuse_once(ZN_QUOTA_SCHED, owner, ZN_REFUSED_THREAD, tid);
		return NULL;
	}
	r->off_ns = r->ready_ns = r->mark_ns = r->wake_ns = r->wait_ns = r->limit_ns = r->busy_ns = r->file = 0;
	r->minor_faults = r->major_faults = 0;
	r->state_at = 0;
	r->stack = 0;
	r->kind = r->cause = r->wake_cause = r->flags = 0;
	r->row = row;
	r->id = p->id;
	r->owner = owner;
	r->held = held;
	*(volatile __u32 *)&r->tid = tid;
	return r;
}

/* Lets go of the stack that a thread sleeps in. A slot that was cleared meanwhile is nobody's. */
static __always_inline void zn_sleep_drop(struct zn_sched_entry *r)
{
	__u32 slot = ZN_SLEEP_SLOT(r->stack), at = slot - 1;
	struct zn_stack *s = slot ? bpf_map_lookup_elem(&stacks, &at) : NULL;

	r->stack = 0;
	if (s && s->id == r->id)
		ZN_ADD(s->users, -1);
}

/* Gives a place back. */
static __noinline int zn_sched_entry_drop(struct zn_sched_entry *r, __u32 tid)
{
	__u32 owner, held;
	struct zn_sched_set *set;

	if (!r)
		return 0;
	zn_sleep_drop(r);
	owner = r->owner;
	held = r->held;
	if (held & (ZN_HELD_SPILL | ZN_HELD_RESERVE)) {
		if (bpf_map_delete_elem(&spilled, &tid))
			return 0;
		set = zn_sched_entry_set(tid);
		if (set)
			ZN_ADD(set->spilled, -1);
	} else if (__sync_val_compare_and_swap(&r->tid, tid, 0) != tid) {
		return 0;
	}
	zn_sched_entry_give(owner, held);
	return 0;
}

/* What has lasted until now is over, and what comes is not known. */
static __always_inline void zn_stall_blind(struct zn_thread_state *o, struct zn_proc *p, __u64 now)
{
	if (!o->word)
		return;
	zn_stall_to(o, p, now, ZN_STALL_OTHER);
	o->word = 0;
}

/* It runs again. Until ready it slept, for a cause that may have been found out since, and then it was in a run
 * queue. */
static __always_inline void zn_stall_on(
	struct zn_thread_state *o, struct zn_proc *p, __u64 ready, __u64 now, __u32 cause)
{
	__u64 old = __sync_lock_test_and_set(&o->word, ZN_THREAD_STATE_WORD(now, o->inside)),
	      since = ZN_THREAD_STATE_SINCE(old);
	__u32 was = ZN_THREAD_STATE_STATE(old);

	o->ready_ns = 0; /* behind the word: who reads it meanwhile sees that the word has changed */
	if (ready > now) /* clocks of two CPUs */
		ready = now;
	if (ready < since)
		ready = since;
	zn_stall_add(p, was == ZN_STALL_PENDING ? cause : was, since, ready);
	zn_stall_add(p, ZN_STALL_RUNQUEUE, since ? ready : 0, now);
}

/* Index and 1 of a free one for the calling thread; 0: as many of its process are followed as can be. */
static __always_inline __u32 zn_thread_state_take(struct zn_thread_states *all, __u32 tid)
{
#pragma unroll
	for (int i = 0; i < ZN_THREAD_STATES; i++)
		if (__sync_val_compare_and_swap(&all->thread[i].tid, 0, tid) == 0)
			return i + 1;
	return 0;
}

/* On a fully preemptible kernel a thread may be preempted while it takes its place, which the scheduler does not find
 * yet, and so takes one, too. Gives the later one of two back. NULL: there is none, which was counted. */
static __always_inline struct zn_sched_entry *zn_sched_entry_only(__u32 tid)
{
	struct zn_sched_set *set = zn_sched_entry_set(tid);
	__u64 found = set ? zn_sched_ways_of(set, tid) : 0, other = found & (found - 1);

	if (set && ZN_RARE(other))
		zn_sched_entry_drop(&set->way[zn_sched_way_first(other)], tid);
	return zn_sched_entry_find(tid);
}

/* The calling thread's place; NULL: there is none, which was counted. */
static __always_inline struct zn_sched_entry *zn_sched_entry_launching(struct zn_thread *t, struct zn_proc *p)
{
	__u32 tid = bpf_get_current_pid_tgid();
	struct zn_sched_entry *r = zn_sched_entry_find(tid);

	if (r && r->row == t->row && r->id == t->id)
		return r;
	if (r)
		zn_sched_entry_drop(r, tid); /* an earlier thread's of this id, whose end was missed */
	zn_sched_entry_claim(tid, t->row, p, true);
	return zn_sched_entry_only(tid);
}

/* A launching thread's first launch: its time is followed from here on. */
static __noinline void zn_thread_state_claim(struct zn_thread *t)
{
	__u32 tid = bpf_get_current_pid_tgid(), row = t->row, index;
	struct zn_thread_states *all = bpf_map_lookup_elem(&thread_states, &row);
	struct zn_proc *p = zn_proc_of(t);
	struct zn_thread_state *o;
	struct zn_sched_entry *r;

	t->state_at = ZN_THREAD_STATE_NONE;
	if (!all || !p || !shared.stalls)
		return;
	t->state_at = zn_thread_state_take(all, tid);
	index = *(volatile __u16 *)&t->state_at; /* or else the verifier follows all below for each value by itself */
	t->state_at = ZN_THREAD_STATE_NONE;
	o = zn_thread_state_at(row, index);
	if (!o) {
		zn_lost(ZN_LOST_THREAD);
		return;
	}
	r = zn_sched_entry_launching(t, p);
	if (!r) {
		o->tid = 0;
		return;
	}
	o->id = t->id;
	o->inside = ZN_STALL_CPU;
	/* not shown until the scheduler says that it was seen: the tracepoints may come a moment later */
	o->word = ZN_THREAD_STATE_WORD(bpf_ktime_get_ns(), ZN_STALL_PENDING);
	r->state_at = t->state_at = index;
}

/* At the entry of anything that makes a thread a launching one. */
static __always_inline void zn_launching(struct zn_thread *t)
{
	if (!t->state_at)
		zn_thread_state_claim(t);
}

/* ---- page faults ---- */

/* Page faults of a thread up to now, by the kernel's own account of it, of which the low bits do. Of a thread from
 * before its process was known it is from the first look on. */
static __always_inline void zn_faults_add(
	struct zn_sched_entry *r, struct zn_proc *p, __u32 minor, __u32 major, bool before)
{
	__s32 more_minor = minor - r->minor_faults, more_major = major - r->major_faults; /* below 0: it is another's */
	bool known = !before || r->flags & ZN_SCHED_FAULTS;

	r->flags |= ZN_SCHED_FAULTS;
	if (known && more_minor > 0)
		ZN_ADD(p->count[ZN_C_FAULTS_MINOR], more_minor);
	if (known && more_major > 0)
		ZN_ADD(p->count[ZN_C_FAULTS_MAJOR], more_major);
	r->minor_faults = minor;
	r->major_faults = major;
}

/* The end of a thread. */
static __always_inline void zn_sched_entry_gone(__u32 tid)
{
	struct zn_sched_entry *r = zn_sched_entry_find(tid);
	struct zn_thread_state *o = r ? zn_thread_state_at(r->row, r->state_at) : NULL;
	struct zn_proc *p = o ? zn_sched_entry_proc(r) : NULL;

	if (p) {
		zn_stall_to(o, p, bpf_ktime_get_ns(), ZN_STALL_COUNT);
		o->word = 0;
		o->tid = 0;
	}
	if (r)
		zn_sched_entry_drop(r, tid);
}

#endif
