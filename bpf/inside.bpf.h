/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a launching thread is inside of: a function that waits for the GPU or for other ranks, or neither. A part of
 * zernel.bpf.h; the scheduler's side is in stall.bpf.h.
 */
#ifndef ZN_INSIDE_BPF_H
#define ZN_INSIDE_BPF_H

/* index: 1 and up. */
static __always_inline struct zn_thread_state *zn_thread_state_at(__u32 row, __u32 index)
{
	struct zn_thread_states *o = index ? bpf_map_lookup_elem(&thread_states, &row) : NULL;

	return o ? &o->thread[(index - 1) & (ZN_THREAD_STATES - 1)] : NULL;
}

/* A segment's time. */
static __always_inline void zn_stall_add(struct zn_proc *p, __u32 state, __u64 since, __u64 until)
{
	ZN_OPAQUE(state);
	if (state < ZN_STALL_COUNT && since && until > since)
		ZN_ADD(p->count[ZN_C_STALL_CPU + state], until - since);
}

/* What has lasted until now is over. */
static __always_inline void zn_stall_to(struct zn_thread_state *o, struct zn_proc *p, __u64 now, __u32 state)
{
	__u64 old = __sync_lock_test_and_set(&o->word, ZN_THREAD_STATE_WORD(now, state));
	__u32 was = ZN_THREAD_STATE_STATE(old);

	zn_stall_add(p, was == ZN_STALL_PENDING ? ZN_STALL_CPU : was, ZN_THREAD_STATE_SINCE(old), now);
}

/* What a thread of this process is inside of from now on. Returns 1 and what it was inside of until now. */
static __always_inline __u32 zn_inside_set(struct zn_thread_state *o, struct zn_proc *p, __u64 now, __u32 state)
{
	__u32 before = o->inside;

	if (before == state)
		return before + 1;
	o->inside = state;
	zn_stall_to(o, p, now, state == ZN_STALL_CPU && shared.stalls != ZN_STALLS_WATCHED ? ZN_STALL_PENDING : state);
	if (state == ZN_STALL_CPU && zn_spares(p, ZN_SPARE_SWITCHES))
		o->word = 0;
	return before + 1;
}

/* The thread is inside a function that waits (GPU, DIST), or has left it (CPU). That is known of a process that is
 * spared too; what its thread does outside is not, nor where switches are not watched yet. Returns 1 and what it was
 * inside of until now; 0: its time is not followed. */
static __always_inline __u32 zn_inside(struct zn_thread *t, __u64 now, __u32 state)
{
	struct zn_thread_state *o =
		t->state_at == ZN_THREAD_STATE_NONE ? NULL : zn_thread_state_at(t->row, t->state_at);
	struct zn_proc *p = o ? zn_proc_of(t) : NULL;

	return p ? zn_inside_set(o, p, now, state) : 0;
}

/* The same for the thread of this place in the row of this process. It is in hit.bpf.h: not static, so that it is
 * verified once, for any state. */
int zn_inside_again(__u32 row, __u32 id, __u32 state_at, __u64 now, __u32 state);

#endif
