/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The books of GPU memory by process and GPU, and the allocations in them. A part of gpu_mem.bpf.c.
 *
 * Two rules keep the ledger exact under threads. An address enters at the *return* of the allocation and leaves at
 * the *entry* of the free: the driver may hand it out again before the free has returned. A free that fails puts it
 * back.
 */
#ifndef ZN_LEDGER_BPF_H
#define ZN_LEDGER_BPF_H

#include "stack.bpf.h"
#include "stall.bpf.h"

static __always_inline struct zn_proc_gpu *gpu_of(struct zn_proc *p, __u32 gpu)
{
	if (gpu > ZN_PROC_GPUS)
		gpu = ZN_PROC_GPUS;
	ZN_OPAQUE(gpu);
	return &p->gpu[gpu <= ZN_PROC_GPUS ? gpu : 0];
}

static __always_inline struct zn_ctx *ctx_find(__u64 addr, __u32 id)
{
	struct zn_ctx_key key = {.addr = addr, .id = id};

	return bpf_map_lookup_elem(&ctxs, &key);
}

/* A context may have any number, as it is compared with that of the same address and process alone. */
static __always_inline __u32 next_gen(void)
{
	return __sync_fetch_and_add(&shared.next_gen, 1);
}

/* HIP has a device for each thread, 0 unless it sets one, and no contexts to speak of. A device that is used is
 * entered as a context, under an address where none can be. */
#define HIP_DEVICE(ordinal) (0x100 + (__u64)(ordinal))

static __always_inline bool is_hip(const struct zn_call *c)
{
	return c->frame->cookie & ZN_COOKIE_HIP;
}

/* Whether all that the calling thread called of HIP was seen: else it may have set a device before. */
static __always_inline bool is_seen_whole(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return BPF_CORE_READ(task, start_time) >= shared.since_ns;
}

/* The address of the current context of a thread; 0: not known. */
static __always_inline __u64 current_addr(const struct zn_call *c)
{
	__u32 depth = c->thread->ctx_depth;

	if (depth == 0)
		return is_hip(c) && is_seen_whole() ? HIP_DEVICE(0) : 0;
	return depth <= ZN_CTX_STACK ? c->thread->ctx[(depth - 1) & (ZN_CTX_STACK - 1)] : 0;
}

/* Unlike ctx_put(), this replaces nothing: another thread may have entered the device and allocated on it just now. */
static __noinline int hip_device_add(struct zn_proc *p, struct zn_ctx_key *key)
{
	struct zn_ctx ctx = {};

	if (!p || !key)
		return 0;
	ctx.gpu = key->addr - HIP_DEVICE(0);
	if (ctx.gpu >= ZN_PROC_GPUS || !zn_quota_claim(ZN_QUOTA_CONTEXT, p->owner))
		return 0;
	ctx.gen = next_gen();
	if (bpf_map_update_elem(&ctxs, key, &ctx, BPF_NOEXIST) == 0) {
		ZN_ADD(p->ctxs, 1);
		return 0;
	}
	zn_quota_give_to(ZN_QUOTA_CONTEXT, p->owner);
	if (!bpf_map_lookup_elem(&ctxs, key))
		zn_lost(ZN_LOST_CONTEXT);
	return 0;
}

static __always_inline struct zn_ctx *current_find(const struct zn_call *c, __u64 addr)
{
	struct zn_ctx_key key = {.addr = addr, .id = c->thread->id};
	struct zn_ctx *ctx = bpf_map_lookup_elem(&ctxs, &key);

	if (ctx || !is_hip(c) || addr < HIP_DEVICE(0))
		return ctx;
	hip_device_add(c->proc, &key);
	return bpf_map_lookup_elem(&ctxs, &key);
}

/* The current context of a thread: its GPU goes to a->gpu, itself to a->ctx. Unknown stays 0 and ZN_PROC_GPUS. */
static __always_inline void current_ctx(const struct zn_call *c, struct zn_alloc *a)
{
	__u64 addr = current_addr(c);
	struct zn_ctx *ctx = addr ? current_find(c, addr) : NULL;

	a->gpu = ZN_PROC_GPUS;
	if (!ctx)
		return;
	a->gpu = ctx->gpu;
	a->ctx = addr;
	a->ctx_gen = ctx->gen;
}

static __always_inline void books_add(struct zn_proc *p, const struct zn_alloc *a)
{
	struct zn_proc_gpu *g = gpu_of(p, a->gpu);

	if (a->kind == ZN_K_HOST)
		ZN_ADD(p->count[ZN_C_HOST_PINNED], a->bytes);
	else
		zn_raise(&g->peak_bytes, __sync_fetch_and_add(&g->used_bytes, a->bytes) + a->bytes);
}

static __always_inline void books_subtract(struct zn_proc *p, const struct zn_alloc *a)
{
	if (a->kind == ZN_K_HOST)
		ZN_ADD(p->count[ZN_C_HOST_PINNED], -a->bytes);
	else
		ZN_ADD(gpu_of(p, a->gpu)->used_bytes, -a->bytes);
}

/* Adds to what a context holds. False: the context is gone, and its memory was taken off the books with it. */
static __always_inline bool ctx_hold(const struct zn_alloc *a, __u32 id, bool add)
{
	struct zn_ctx *c;

	if (!a->ctx)
		return true;
	c = ctx_find(a->ctx, id);
	if (!c || c->gen != a->ctx_gen)
		return false;
	if (a->kind == ZN_K_HOST)
		ZN_ADD(c->live_host, add ? a->bytes : -a->bytes);
	else
		ZN_ADD(c->live_bytes, add ? a->bytes : -a->bytes);
	return true;
}

/* Entries of the table that a process holds: what it has when it ends is given back then. */
static __noinline int entry_take(struct zn_proc *p)
{
	if (!p || !zn_quota_claim(ZN_QUOTA_ALLOC, p->owner))
		return 0;
	ZN_ADD(p->count[ZN_C_LIVE_ALLOCS], 1);
	return 1;
}

static __noinline int entry_give(struct zn_proc *p)
{
	if (!p)
		return 0;
	ZN_ADD(p->count[ZN_C_LIVE_ALLOCS], -1);
	zn_quota_give_to(ZN_QUOTA_ALLOC, p->owner);
	return 0;
}

/* An allocation that is no longer: its entry is already out of the table, or about to be replaced. */
static __noinline int ledger_credit(struct zn_proc *p, struct zn_alloc *a, __u32 id)
{
	if (!p || !a)
		return 0;
	if (ctx_hold(a, id, false))
		books_subtract(p, a);
	return 0;
}

/* replaces: there was an entry of this key, which has its place. Each that comes anew is taken once, whatever
 * other threads do. */
static __always_inline bool entry_put(struct zn_proc *p, struct zn_alloc_key *key, struct zn_alloc *a, bool replaces)
{
	if (replaces && bpf_map_update_elem(&allocs, key, a, BPF_EXIST) == 0)
		return true;
	if (entry_take(p)) {
		if (bpf_map_update_elem(&allocs, key, a, BPF_NOEXIST) == 0)
			return true;
		entry_give(p);
		zn_lost(ZN_LOST_ALLOC);
	}
	ZN_ADD(p->count[ZN_C_ALLOC_DROPPED], 1); /* from now on the memory of the process is not known */
	return false;
}

static __noinline int ledger_enter(struct zn_proc *p, struct zn_alloc_key *key, struct zn_alloc *a)
{
	struct zn_alloc *old;

	if (!p || !key || !a)
		return 0;
	old = bpf_map_lookup_elem(&allocs, key);
	if (old) {
		/* the address was given out again, so its free went unseen (a context that is gone, a missed
		 * probe) */
		struct zn_alloc gone = *old;

		ledger_credit(p, &gone, key->id);
	}
	if (!entry_put(p, key, a, old))
		return 0;
	if (ctx_hold(a, key->id, true))
		books_add(p, a);
	return 0;
}

#endif
