// SPDX-License-Identifier: GPL-2.0
/*
 * Walks the stack of Python functions of the calling thread, from Python's own state in the process's memory, and adds a call to
 * what that stack did so far. It runs behind the return programs of libraries (stack.bpf.h). It reads with
 * bpf_probe_read_user() alone, which never waits for a page; what cannot be read ends the walk, and is counted.
 *
 * Where things lie differs by version and is in the row of `pythons`, as byte offsets that are masked here: one path for all.
 * What is both counted and used as an index lies in memory of a map, or the verifier would follow each of its values.
 */
#include "stack.bpf.h"
#include "quota.bpf.h"

#ifdef __TARGET_ARCH_x86
#define MULTIPLIER 0x9e3779b97f4a7c15ULL
#define TURNS      (ZN_STACK_FRAMES + 64) /* frames of the interpreter itself are passed over */
#define TRIES      8
#define ADDRESS    (~15ULL) /* objects are aligned; 3.14 keeps a mark in the lowest bit */
#define WALK_TRIES 4

struct at {
	__u32 walk, row;
};

static __always_inline void mix_word(struct zn_stack_walk *w, __u64 word)
{
	__u64 h = (w->hash ^ word) * MULTIPLIER;

	w->hash = h ^ h >> 29;
}

/* A walk's memory: not of a CPU, for a thread may be preempted inside of a program, and another one enter it. */
static __always_inline struct zn_stack_walk *walk_claim(__u32 *index)
{
	__u32 first = bpf_get_smp_processor_id() * WALK_TRIES;

#pragma unroll
	for (int i = 0; i < WALK_TRIES; i++) {
		__u32 at = (first + i) & (ZN_WALKS - 1);
		struct zn_stack_walk *w = bpf_map_lookup_elem(&walks, &at);

		if (w && __sync_val_compare_and_swap(&w->busy, 0, 1) == 0) {
			*index = at;
			return w;
		}
	}
	return NULL;
}

static __always_inline __u64 frame_field(struct zn_stack_walk *w, __u8 at)
{
	return *(__u64 *)&w->frame_bytes[at & (ZN_FRAME_BYTES - 1)];
}

/* Which instruction: in units of two bytes and 1, 0: not begun. ZN_STACK_NO_INDEX: it lies outside of the code. */
static __always_inline __u32 index_of(struct zn_python *py, __u64 code, __u64 instruction)
{
	__s64 index;

	if (py->kind == ZN_PY_LASTI_BYTES)
		index = (__s32)instruction >> 1;
	else if (py->kind == ZN_PY_LASTI_UNITS)
		index = (__s32)instruction;
	else
		index = (__s64)(instruction - code - py->first_at) >> 1;
	return index < -1 || index >= (__s64)ZN_STACK_NO_INDEX - 1 ? ZN_STACK_NO_INDEX : (__u32)(index + 1);
}

/* One frame. 1: that was the end of the walk, for the reason in w->end. */
static long walk_step(__u32 turn, struct at *at)
{
	struct zn_stack_walk *w = bpf_map_lookup_elem(&walks, &at->walk);
	struct zn_python *py = bpf_map_lookup_elem(&pythons, &at->row);
	__u64 code, word;
	__u32 len;

	(void)turn;
	if (!w || !py)
		return 1;
	if (!w->frame || w->depth >= ZN_STACK_FRAMES) {
		w->end = w->frame ? ZN_WALK_DEEPER : ZN_WALK_WHOLE;
		return 1;
	}
	len = py->frame_bytes & (ZN_FRAME_BYTES - 1);
	if (bpf_probe_read_user(w->frame_bytes, len, (const void *)w->frame)) {
		w->end = ZN_WALK_UNREADABLE;
		return 1;
	}
	w->frame = frame_field(w, py->back_at);
	if (w->frame_bytes[py->owner_at & (ZN_FRAME_BYTES - 1)] >= py->skip_from)
		return 0;
	code = frame_field(w, py->code_at) & ADDRESS;
	if (!code) {
		w->end = ZN_WALK_UNREADABLE;
		return 1;
	}
	word = ZN_STACK_WORD(code, index_of(py, code, frame_field(w, py->instruction_at)));
	w->word[w->depth & (ZN_STACK_WORDS - 1)] = word;
	mix_word(w, word);
	w->depth++;
	return 0;
}

/* The newest frame of a thread's state. False: the state cannot be read. */
static __always_inline bool frame_of(struct zn_python *py, __u64 state, __u64 *frame)
{
	*frame = 0;
	if (bpf_probe_read_user(frame, sizeof(*frame), (const void *)(state + py->frame_at)))
		return false;
	if (py->cframe_at == ZN_PY_NO_CFRAME || !*frame)
		return true;
	return bpf_probe_read_user(frame, sizeof(*frame), (const void *)(*frame + py->cframe_at)) == 0;
}

/* A thread without Python works for whoever sleeps in Python until it is done: the process's first thread, if that is asleep. */
static __always_inline __u64 main_frame(struct zn_python *py, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	__u64 frame;

	if (!py->main_state || leader == task || !leader->__state || leader->thread.fsbase != py->main_pointer)
		return 0;
	return frame_of(py, py->main_state, &frame) ? frame : 0;
}

/* Where the walk begins: 0: there is no Python to be seen. */
static __always_inline __u64 first_frame(struct zn_python *py, struct zn_stack_walk *w)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 state = 0, frame = 0;

	if (bpf_probe_read_user(&state, sizeof(state), (const void *)(task->thread.fsbase + py->slot)))
		state = 0;
	if (state && frame_of(py, state, &frame) && frame)
		return frame;
	w->flags = ZN_STACK_THREAD;
	bpf_get_current_comm(w->comm, sizeof(w->comm));
	mix_word(w, *(__u64 *)w->comm);
	mix_word(w, *(__u64 *)(w->comm + 8));
	return main_frame(py, task);
}

/* Fills a slot that was just claimed. */
static __always_inline void slot_fill(struct zn_stack *s, struct zn_stack_walk *w, struct zn_proc *p, __u32 row)
{
	s->id = p->id;
	s->owner = p->owner;
	s->row = row;
	s->depth = w->depth;
	s->flags = w->flags | (w->end == ZN_WALK_DEEPER ? ZN_STACK_DEEPER : 0);
	s->first_ns = bpf_ktime_get_ns();
	__builtin_memcpy(s->comm, w->comm, sizeof(s->comm));
	bpf_probe_read_kernel(s->frame, sizeof(s->frame), w->word);
	ZN_ADD(s->ready, 1);
}

/* The daemon is told of the first of 64 neighbours that are new since it looked. */
static __always_inline void slot_tell(__u32 row, __u32 at)
{
	__u64 *word = &shared.stacks_new[(at >> 6) & (ZN_STACKS_MAX / 64 - 1)];

	if (__sync_fetch_and_or(word, 1ULL << (at & 63)) == 0)
		zn_emit(ZN_EV_STACK, row, at, 0);
}

static __always_inline struct zn_stack *slot_at(__u64 hash, int i, __u32 *at)
{
	*at = ((__u32)(hash >> 32) + i) & (ZN_STACKS_MAX - 1);
	return bpf_map_lookup_elem(&stacks, at);
}

/* A free one, for this stack from here on. NULL: there is none within reach, or the owner has his share. */
static __always_inline struct zn_stack *slot_claim(struct zn_stack_walk *w, struct zn_proc *p, __u32 row)
{
	__u64 hash = w->hash, seen;
	struct zn_stack *s;
	__u32 at;

	if (!zn_quota_take_from(ZN_QUOTA_STACK, p->owner))
		return NULL;
	for (int i = 0; i < TRIES; i++) {
		s = slot_at(hash, i, &at);
		if (!s)
			break;
		seen = __sync_val_compare_and_swap(&s->hash, 0, hash);
		if (seen == 0) {
			slot_fill(s, w, p, row);
			slot_tell(row, at);
			return s;
		}
		if (seen == hash) {
			zn_quota_give_to(ZN_QUOTA_STACK, p->owner);
			return s;
		}
	}
	zn_quota_give_to(ZN_QUOTA_STACK, p->owner);
	return NULL;
}

static __always_inline struct zn_stack *slot_find(__u64 hash)
{
	struct zn_stack *s;
	__u32 at;

	for (int i = 0; i < TRIES; i++) {
		s = slot_at(hash, i, &at);
		if (s && s->hash == hash)
			return s;
	}
	return NULL;
}

struct event {
	__u64 leaf, weight, value;
};

static __always_inline void sum_add(struct zn_stack_sum *to, const struct event *e)
{
	ZN_ADD(to->count, e->weight);
	ZN_ADD(to->value, e->value * e->weight);
}

/* It is counted as used before its hash is looked at again, so the daemon gives back no slot that is added to. */
static __always_inline bool slot_add(struct zn_stack *s, __u64 hash, const struct event *e)
{
	bool same;

	ZN_ADD(s->users, 1);
	same = *(volatile __u64 *)&s->hash == hash;
	if (same)
		sum_add(&s->leaf[e->leaf & (ZN_LEAF_SLOTS - 1)], e);
	ZN_ADD(s->users, -1);
	return same;
}

static __always_inline void count_miss(struct zn_python *py, enum zn_stack_miss why, const struct event *e)
{
	sum_add(&py->missed[why][e->leaf & (ZN_LEAF_SLOTS - 1)], e);
}

static __always_inline void walk_done(
	struct zn_stack_walk *w, struct zn_python *py, struct zn_proc *p, __u32 row, struct event *e)
{
	struct zn_stack *s;

	if (w->end == ZN_WALK_UNREADABLE) {
		count_miss(py, ZN_MISSED_UNREADABLE, e);
		return;
	}
	mix_word(w, w->end);
	w->hash |= 3; /* neither 0 nor ZN_STACK_GONE */
	s = slot_find(w->hash);
	if (!s)
		s = slot_claim(w, p, row);
	if (!s || !slot_add(s, w->hash, e)) {
		count_miss(py, ZN_MISSED_ROOM, e);
		zn_lost(ZN_LOST_STACK);
	}
}

static __always_inline void walk_stack(struct zn_python *py, struct zn_proc *p, __u32 row, struct event *e)
{
	struct at at = {.row = row};
	struct zn_stack_walk *w = walk_claim(&at.walk);

	if (!w) {
		count_miss(py, ZN_MISSED_ROOM, e);
		zn_lost(ZN_LOST_STACK);
		return;
	}
	w->depth = 0;
	w->flags = 0;
	w->end = ZN_WALK_DEEPER; /* unless it ends before */
	w->hash = (__u64)p->id * MULTIPLIER;
	__builtin_memset(w->comm, 0, sizeof(w->comm));
	w->frame = first_frame(py, w);
	bpf_loop(TURNS, walk_step, &at, 0);
	walk_done(w, py, p, row, e);
	__sync_lock_test_and_set(&w->busy, 0);
}

/* What the walk took is not of the call around this one. */
static __always_inline void account_walk(struct zn_thread *t, struct zn_python *py, __u64 ns)
{
	ZN_ADD(py->walk_ns, ns);
	ZN_ADD(py->walks, 1);
	if (t->depth)
		t->frame[(t->depth - 1) & (ZN_FRAMES - 1)].nested_ns += ns;
	else if (t->group_depth)
		t->group_nested_ns += ns;
}

SEC("uprobe")
int stacks_walk(struct pt_regs *ctx)
{
	__u64 start_ns = bpf_ktime_get_ns();
	struct zn_thread *t = zn_thread_find((__u32)bpf_get_current_pid_tgid());
	struct zn_python *py;
	struct zn_frame *f;
	struct zn_proc *p;
	struct event e;
	__u32 row;

	if (!t)
		return zn_nothing(ctx);
	row = t->row;
	p = zn_proc_of(t);
	py = bpf_map_lookup_elem(&pythons, &row);
	if (!p || !py || py->id != p->id)
		return 0;
	f = &t->frame[t->depth & (ZN_FRAMES - 1)];
	e = (struct event){f->arg[STACK_LEAF], f->arg[STACK_WEIGHT], f->arg[STACK_VALUE]};
	walk_stack(py, p, row, &e);
	account_walk(t, py, bpf_ktime_get_ns() - start_ns);
	return 0;
}
#endif

char LICENSE[] SEC("license") = "GPL";
