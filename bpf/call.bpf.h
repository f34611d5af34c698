/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hooked call from its entry to its return: the frames of a thread, the duration without the probes' own, and the
 * histogram that it is added to. A part of zernel.bpf.h.
 */
#ifndef ZN_CALL_BPF_H
#define ZN_CALL_BPF_H

/* The call that a thread is in, if it is in one: depth is not 0. */
static __always_inline struct zn_frame *zn_frame_top(struct zn_thread *t, __u32 depth)
{
	return &t->frame[(depth - 1) & (ZN_FRAMES - 1)];
}

/* A frame that was left without a return (longjmp, an exception, a return probe that was not there yet) lies below the
 * live stack pointer, or on it when the same function is entered again. */
static __always_inline bool zn_frame_left(const struct zn_frame *top, __u64 sp, __u32 entered)
{
	return top->sp < sp || (top->sp == sp && top->cookie == entered);
}

/* What the thread was inside of before the outermost one of two calls that waits. Without a branch, both ways of which
 * the verifier would follow in each turn of the loop below. */
static __always_inline __u64 zn_frame_around(const struct zn_frame *outer, __u64 inner)
{
	__u64 around = outer->around, waits_not = around - 1;

	ZN_OPAQUE(waits_not);
	return around | (inner & (__u64)((__s64)waits_not >> 63));
}

/* The thread is inside of what it was before the calls that it left. */
static __noinline __u32 zn_frames_drop(struct zn_thread *t, __u64 sp, __u32 entered)
{
	__u32 depth = t ? t->depth : 0;
	__u64 around = 0;

	for (int i = 0; i < ZN_FRAMES; i++) {
		if (!t || depth == 0 || !zn_frame_left(zn_frame_top(t, depth), sp, entered))
			break;
		around = zn_frame_around(zn_frame_top(t, depth), around);
		depth--;
		zn_lost(ZN_LOST_INFLIGHT);
	}
	if (!t)
		return depth;
	t->depth = depth;
	if (around)
		zn_inside_again(t->row, t->id, t->state_at, bpf_ktime_get_ns(), around - 1);
	return depth;
}

/* How many calls the thread is in, without those that were left. */
static __always_inline __u32 zn_frames_live(struct zn_thread *t, __u64 sp, __u32 entered)
{
	__u32 depth = t->depth;

	if (ZN_RARE(depth && zn_frame_left(zn_frame_top(t, depth), sp, entered)))
		depth = zn_frames_drop(t, sp, entered);
	return depth;
}

/* Opens a call, which takes its place until it returns. The time is taken last, by zn_frame_start(). */
static __always_inline struct zn_frame *zn_frame_open(struct zn_thread *t, struct pt_regs *ctx, __u64 cookie)
{
	__u64 sp = ZN_SP_ENTRY(ctx);
	__u32 depth = zn_frames_live(t, sp, cookie);
	struct zn_frame *f;

	if (ZN_RARE(depth >= ZN_FRAMES)) {
		t->depth = ZN_FRAMES;
		zn_lost(ZN_LOST_INFLIGHT);
		return NULL;
	}
	f = &t->frame[depth & (ZN_FRAMES - 1)];
	f->sp = sp;
	f->cookie = cookie;
	f->nested_ns = 0;
	f->around = 0;
	t->depth = depth + 1;
	return f;
}

static __always_inline void zn_frame_keep(struct zn_frame *f, struct pt_regs *ctx)
{
	f->arg[0] = ZN_ARG1(ctx);
	f->arg[1] = ZN_ARG2(ctx);
	f->arg[2] = ZN_ARG3(ctx);
	f->arg[3] = ZN_ARG4(ctx);
	f->arg[4] = ZN_ARG5(ctx);
	f->arg[5] = ZN_ARG6(ctx);
}

/* The same, and keeps the arguments. */
static __always_inline struct zn_frame *zn_frame_push(struct zn_thread *t, struct pt_regs *ctx, __u64 cookie)
{
	struct zn_frame *f = zn_frame_open(t, ctx, cookie);

	if (f)
		zn_frame_keep(f, ctx);
	return f;
}

static __always_inline void zn_frame_start(struct zn_frame *f)
{
	f->start_ns = bpf_ktime_get_ns();
}

/* The call that has started is one that waits: GPU or DIST. */
static __always_inline void zn_wait_begin(struct zn_thread *t, struct zn_frame *f, __u32 state)
{
	f->around = zn_inside(t, f->start_ns, state);
}

/* A call that has returned. proc is NULL for the daemon's own. */
struct zn_call {
	struct zn_thread *thread;
	struct zn_proc *proc;
	struct zn_frame *frame;
	__u64 end_ns;
	__u64 ns;        /* its duration without what the probes added */
	__u64 allocated; /* bytes of the GPU's memory; 0: it takes none */
	__u32 result;
	__u32 shape;
	__u32 detail;
};

static __always_inline __u64 zn_minus(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

static __always_inline void zn_hist_record(struct zn_hist *h, __u64 ns)
{
	__u32 bucket = zn_bucket_of(ns);

	ZN_ADD(h->calls, 1);
	ZN_ADD(h->sum_ns, ns);
	if (bucket < ZN_BUCKETS)
		ZN_ADD(h->bucket[bucket], 1);
	zn_raise(&h->max_ns, ns);
}

/* Records as any call does, into the histogram that is never handed out, so that the cost measured is the whole
 * cost. */
static __noinline int zn_calibrate(__u64 ns)
{
	__u32 at, none = 0;
	struct zn_hist *h = bpf_map_lookup_elem(&hists, &none);

	if (!h || shared.calib_count >= ZN_CALIB_MAX)
		return 0;
	zn_hist_record(h, ns);
	at = shared.calib_count++;
	shared.calib_ns[at & (ZN_CALIB_MAX - 1)] = ns;
	return 0;
}

/* A call of no process that is known: the daemon's own, or of one whose row was given back. */
static __always_inline void zn_call_astray(struct zn_thread *t, __u32 cookie, __u64 ns)
{
	if (ZN_COOKIE_SHAPE(cookie) == ZN_S_CALIBRATE) {
		zn_calibrate(ns);
		return;
	}
	if (t->row == ZN_ROW_NONE)
		return;
	zn_lost(ZN_LOST_THREAD);
	zn_thread_forget(t, (__u32)bpf_get_current_pid_tgid());
}

/* A histogram for this owner; 0: he has his share, or none is free. */
static __always_inline __u32 zn_hist_try(enum zn_quota_table table, __u32 owner)
{
	struct zn_hist *h;
	__u32 index = 0;

	if (!zn_quota_try_from(table, owner))
		return 0;
	h = bpf_map_pop_elem(&free_hists, &index) ? NULL : bpf_map_lookup_elem(&hists, &index);
	if (!h) {
		zn_quota_give_to(table, owner);
		return 0;
	}
	h->owner = owner;
	return index;
}

static __always_inline void zn_hist_refuse(__u32 owner)
{
	zn_quota_refuse(&shared.quota[ZN_QUOTA_HISTOGRAM], owner);
	zn_lost(zn_quota_loss[ZN_QUOTA_HISTOGRAM]);
}

/* Gives back a histogram that was not needed after all. */
__noinline __u32 zn_hist_give(__u32 table, __u32 index, __u32 owner)
{
	zn_quota_give_to(table, owner);
	return bpf_map_push_elem(&free_hists, &index, 0);
}

/* A thread's shard; NULL: it has none, or not yet. */
static __always_inline struct zn_hist *zn_shard_of(struct zn_thread *t)
{
	__u32 index = t->shard;

	return bpf_map_lookup_elem(&hists, &index);
}

static __always_inline void zn_call_hit(struct zn_call *c, __u32 first, int family)
{
	struct zn_hist *shard = family == ZN_FAM_CUDA_TRACE ? zn_shard_of(c->thread) : NULL;

	if (!shard || first >= ZN_INSN_COUNT) {
		ZN_ADD(c->proc->count[ZN_C_HIT(family, first)], 1);
		return;
	}
	ZN_OPAQUE(shard); /* else the compiler adds to it before it is known to be one */
	ZN_ADD(shard->hits[first], 1);
}

/* The duration without the probes: the traps lie between the two time stamps (the bias), and so does the whole
 * cost of hooked calls inside this one. The cost of this call is added to the call around it. */
static __always_inline void zn_call_time(struct zn_call *c, __u32 depth, int family)
{
	__u32 first = ZN_COOKIE_FIRST(c->frame->cookie);
	__u64 nested = c->frame->nested_ns;

	c->ns = zn_minus(c->end_ns - c->frame->start_ns, shared.bias_ns[first] + nested);
	if (ZN_RARE(depth))
		zn_frame_top(c->thread, depth)->nested_ns += shared.cost_ns[first] + nested;
	else if (ZN_RARE(c->thread->group_depth))
		c->thread->group_nested_ns += shared.cost_ns[first] + nested;
	zn_call_hit(c, first, family);
}

/* A call that is counted at its entry has no frame, but its cost is some call's around it, too. */
static __always_inline void zn_call_count(struct zn_thread *t, struct zn_proc *p, __u64 cookie, int family, __u64 cost)
{
	__u32 first = ZN_COOKIE_FIRST(cookie);

	if (t->depth)
		t->frame[(t->depth - 1) & (ZN_FRAMES - 1)].nested_ns += cost;
	else if (t->group_depth)
		t->group_nested_ns += cost;
	ZN_ADD(p->count[ZN_C_HIT(family, first)], 1);
}

/* One that is hooked at its entry only: it lacks what a return costs, or about half where that is not known. */
static __always_inline void zn_call_once(struct zn_thread *t, struct zn_proc *p, __u64 cookie, int family)
{
	__u64 whole = shared.cost_ns[ZN_COOKIE_FIRST(cookie)], less = shared.return_ns;
	__u64 cost = less ? zn_minus(whole, less) : whole / 2;

	zn_call_count(t, p, cookie, family, cost);
	ZN_ADD(p->count[ZN_C_SAVED_NS(family)], whole - cost);
}

/* While the daemon calibrates what a call costs whose return is spared, these are its own calls. */
static __always_inline bool zn_calibrates_entries(__u32 shape)
{
	return ZN_RARE(shape == ZN_S_CALIBRATE && shared.spared);
}

/* Closes the call that returns here: the stack pointer finds its frame, which has the cookie of its entry. False:
 * it began before the probe was there, or is nobody's. */
static __always_inline bool zn_call_return(struct zn_call *c, struct pt_regs *ctx, int family)
{
	__u64 sp = ZN_SP_RETURN(ctx);
	__u32 depth, cookie;

	c->end_ns = bpf_ktime_get_ns();
	c->allocated = 0;
	c->thread = zn_thread_returning(ctx);
	if (ZN_RARE(!c->thread))
		return false;
	depth = zn_frames_live(c->thread, sp, 0);
	if (ZN_RARE(depth == 0))
		return false;
	depth--;
	c->frame = &c->thread->frame[depth & (ZN_FRAMES - 1)];
	cookie = c->frame->cookie;
	if (ZN_RARE(c->frame->sp != sp || ZN_COOKIE_FAMILY(cookie) != family))
		return false;
	c->thread->depth = depth;
	c->proc = zn_proc_of(c->thread);
	if (ZN_RARE(!c->proc)) {
		zn_call_astray(c->thread, cookie, c->end_ns - c->frame->start_ns);
		return false;
	}
	c->result = ZN_RESULT(ctx);
	c->shape = ZN_COOKIE_SHAPE(cookie);
	c->detail = ZN_COOKIE_DETAIL(cookie);
	zn_call_time(c, depth, family);
	return true;
}

/* If it is one that waits, the thread is inside of what it was before: NCCL waits for the GPU on its own account, too,
 * and goes on to wait for other ranks. */
static __always_inline void zn_wait_end(const struct zn_call *c)
{
	struct zn_thread *t = c->thread;

	if (c->frame->around)
		zn_inside_again(t->row, t->id, t->state_at, c->end_ns, c->frame->around - 1);
}

/* Enters or changes what a process has under a key. held: how many it has; they are given back when it ends. */
static __always_inline int zn_put(void *map, const struct zn_ctx_key *key, const void *value, struct zn_proc *p,
	enum zn_quota_table table, __u32 *held)
{
	if (bpf_map_update_elem(map, key, value, BPF_EXIST) == 0 || !zn_quota_claim(table, p->owner))
		return 0;
	if (bpf_map_update_elem(map, key, value, BPF_NOEXIST) == 0) {
		ZN_ADD(*held, 1);
		return 0;
	}
	zn_quota_give_to(table, p->owner);
	if (bpf_map_update_elem(map, key, value, BPF_EXIST)) /* another thread may have put it there meanwhile */
		zn_lost(zn_quota_loss[table]);
	return 0;
}

static __noinline __u32 zn_hist_claim(struct zn_proc *p, __u32 operation)
{
	__u64 bit = 1ULL << (operation & (ZN_OPERATION_SLOTS - 1));
	__u32 index, old;

	index = p ? zn_hist_try(ZN_QUOTA_HISTOGRAM, p->owner) : 0;
	if (!p)
		return 0;
	if (!index) {
		if (!(__sync_fetch_and_or(&p->hist_refused, bit) & bit))
			zn_hist_refuse(p->owner);
		return 0;
	}
	old = __sync_val_compare_and_swap(&p->hist[operation & (ZN_OPERATION_SLOTS - 1)], 0, index);
	if (old == 0)
		return index;
	zn_hist_give(ZN_QUOTA_HISTOGRAM, index, p->owner);
	return old;
}

static __always_inline struct zn_hist *zn_hist_of(struct zn_proc *p, __u32 operation)
{
	__u32 index = p->hist[operation & (ZN_OPERATION_SLOTS - 1)];

	if (index == 0)
		index = zn_hist_claim(p, operation);
	return index ? bpf_map_lookup_elem(&hists, &index) : NULL;
}

static __always_inline void zn_record(struct zn_proc *p, __u32 operation, __u64 ns, __u64 bytes, bool error)
{
	struct zn_hist *h = zn_hist_of(p, operation);

	if (!h)
		return;
	zn_hist_record(h, ns);
	if (bytes)
		ZN_ADD(h->bytes, bytes);
	if (error)
		ZN_ADD(h->errors, 1);
}

/* ---- shards of launches ---- */

static __always_inline __u32 zn_shard_make(struct zn_proc *p, __u32 *place)
{
	__u32 index = zn_hist_try(ZN_QUOTA_SHARD, p->owner), old;

	if (!index)
		return ZN_SHARD_OWN;
	old = __sync_val_compare_and_swap(place, 0, index);
	if (old == 0)
		return index;
	zn_hist_give(ZN_QUOTA_SHARD, index, p->owner);
	return old;
}

/* A thread has launched for the first time. It adds to its process's own counters and histogram from now on if it is
 * the first one of it, or an eighth after that, if no shard is free, or if the process has no histogram to which a
 * shard could be added. */
static __noinline int zn_shard_claim(struct zn_thread *t, struct zn_proc *p)
{
	__u32 *place;
	__u64 turn;

	if (!t || !p)
		return 0;
	t->shard = ZN_SHARD_OWN;
	turn = __sync_fetch_and_add(&p->launchers, 1);
	ZN_OPAQUE(turn); /* older verifiers see the limits of a register of 64 bits alone */
	turn &= ZN_SHARDS;
	if (turn == 0 || !p->hist[ZN_H_LAUNCH])
		return 0;
	place = &p->shard[turn - 1];
	t->shard = *place ? *place : zn_shard_make(p, place);
	return 0;
}

#endif
