/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Contexts of CUDA and devices of HIP: which one is current on a thread, which GPU it is of, and what ends with it. A
 * part of gpu_mem.bpf.c.
 */
#ifndef ZN_CONTEXT_BPF_H
#define ZN_CONTEXT_BPF_H

#include "ledger.bpf.h"

/* Everything that was allocated in a context goes with it. Its entries stay in the table until their address is
 * reused or the process ends; their old generation tells that they no longer count. A primary context that is reset
 * stays current where it was, under a new generation. */
static __always_inline void ctx_drop(struct zn_proc *p, struct zn_ctx_key *key, bool keep)
{
	struct zn_ctx *ctx = bpf_map_lookup_elem(&ctxs, key);
	__u64 bytes, host;
	__u32 gpu;

	if (!ctx)
		return;
	gpu = ctx->gpu;
	if (keep) {
		ctx->gen = next_gen();
		bytes = __sync_lock_test_and_set(&ctx->live_bytes, 0);
		host = __sync_lock_test_and_set(&ctx->live_host, 0);
	} else {
		bytes = ctx->live_bytes;
		host = ctx->live_host;
		if (bpf_map_delete_elem(&ctxs, key))
			return; /* another thread was faster */
		ZN_ADD(p->ctxs, -1);
		zn_quota_give_to(ZN_QUOTA_CONTEXT, p->owner);
	}
	ZN_ADD(gpu_of(p, gpu)->used_bytes, -bytes);
	ZN_ADD(p->count[ZN_C_HOST_PINNED], -host);
}

/* A context, or the record of a device. */
static __noinline int ctx_put(struct zn_proc *p, struct zn_ctx_key *key, struct zn_ctx *ctx)
{
	return p && key && ctx ? zn_put(&ctxs, key, ctx, p, ZN_QUOTA_CONTEXT, &p->ctxs) : 0;
}

static __always_inline void ctx_add(struct zn_call *c, __u64 addr, __u32 gpu)
{
	struct zn_ctx_key key = {.addr = addr, .id = c->thread->id};
	struct zn_ctx ctx = {.gpu = gpu};

	if (gpu >= ZN_PROC_GPUS)
		return;
	ctx.gen = next_gen();
	ctx_put(c->proc, &key, &ctx);
}

static __always_inline void ctx_push(struct zn_thread *t, __u64 addr)
{
	__u32 depth = t->ctx_depth, at = depth;

	ZN_OPAQUE(at); /* else the compiler leaves out the mask, and older verifiers do not see why they may */
	if (depth < ZN_CTX_STACK)
		t->ctx[at & (ZN_CTX_STACK - 1)] = addr;
	else
		zn_lost(ZN_LOST_CONTEXT); /* until it is popped, the GPU of this thread is unknown */
	t->ctx_depth = depth + 1;
}

static __always_inline void ctx_pop(struct zn_thread *t)
{
	if (t->ctx_depth)
		t->ctx_depth--;
}

/* cuCtxSetCurrent replaces the top of the stack; NULL takes it off. Entry only: it is called very often. */
static __always_inline void ctx_set(struct zn_thread *t, __u64 addr, __u64 cookie)
{
	struct zn_proc *p = zn_proc_of(t);

	if (p)
		zn_call_once(t, p, cookie, ZN_FAM_GPU_MEM);
	ctx_pop(t);
	if (addr)
		ctx_push(t, addr);
}

static __always_inline void ctx_create_return(struct zn_call *c)
{
	__u64 addr, gpu = c->detail <= 3 ? c->frame->arg[2] : c->detail == 4 ? c->frame->arg[3] : c->frame->arg[4];

	if (c->result || !zn_read_user(&addr, sizeof(addr), c->frame->arg[0]))
		return;
	ctx_add(c, addr, gpu);
	ctx_push(c->thread, addr);
}

/* (green context *, resources, device): a part of a device. The handle is entered as a context is; no memory is
 * its own. */
static __always_inline void green_create_return(struct zn_call *c)
{
	__u64 handle;

	if (c->result == 0 && zn_read_user(&handle, sizeof(handle), c->frame->arg[0]))
		ctx_add(c, handle, c->frame->arg[2]);
}

/* (context *, green context): the context by which a green one is used. It may be asked for again; what was
 * allocated in it stays when the green context goes. */
static __always_inline void green_ctx_return(struct zn_call *c)
{
	struct zn_ctx *green = ctx_find(c->frame->arg[1], c->thread->id), *known;
	__u64 addr;
	__u32 gpu;

	if (c->result || !green || !zn_read_user(&addr, sizeof(addr), c->frame->arg[0]))
		return;
	gpu = green->gpu;
	known = ctx_find(addr, c->thread->id);
	if (!known || known->gpu != gpu)
		ctx_add(c, addr, gpu);
}

/* At its entry: the pointer may be given out again before it returns. A context that is asked to go is gone,
 * whatever the call answers: errors of earlier work come back from here. */
static __always_inline void ctx_destroy_entry(struct zn_frame *f, struct zn_thread *t)
{
	struct zn_ctx_key key = {.addr = f->arg[0], .id = t->id};
	struct zn_proc *p = zn_proc_of(t);

	if (p)
		ctx_drop(p, &key, false);
	if (t->ctx_depth && t->ctx[(t->ctx_depth - 1) & (ZN_CTX_STACK - 1)] == key.addr)
		ctx_pop(t);
}

/* Retained again and again; a new pointer for a device, or a pointer that was another's, tells that the old
 * context is gone. */
static __always_inline void primary_retain_return(struct zn_call *c)
{
	struct zn_ctx_key device = {.addr = (__u32)c->frame->arg[1], .id = c->thread->id};
	struct zn_ctx_key key = {.id = c->thread->id};
	struct zn_ctx *known, record = {};

	if (c->result || device.addr >= ZN_PROC_GPUS)
		return;
	if (!zn_read_user(&record.primary, sizeof(record.primary), c->frame->arg[0]))
		return;
	known = bpf_map_lookup_elem(&ctxs, &device);
	if (known && known->primary == record.primary)
		return;
	if (known) {
		key.addr = known->primary;
		ctx_drop(c->proc, &key, false);
	}
	key.addr = record.primary;
	ctx_drop(c->proc, &key, false);
	ctx_add(c, record.primary, device.addr);
	ctx_put(c->proc, &device, &record);
}

static __always_inline void primary_reset_return(struct zn_call *c)
{
	struct zn_ctx *record = ctx_find((__u32)c->frame->arg[0], c->thread->id);
	struct zn_ctx_key key = {.id = c->thread->id};

	if (c->result || !record || !record->primary)
		return;
	key.addr = record->primary;
	ctx_drop(c->proc, &key, true);
}

/* (device): a device that cannot exist is not set. An ordinal that is not followed is unknown, as its context is
 * never found. */
static __always_inline void hip_set_device_return(struct zn_call *c)
{
	if (c->result)
		return;
	ctx_pop(c->thread);
	ctx_push(c->thread, HIP_DEVICE((__u32)c->frame->arg[0]));
}

static __always_inline void hip_reset_return(struct zn_call *c)
{
	struct zn_ctx_key key = {.addr = current_addr(c), .id = c->thread->id};

	if (c->result == 0)
		ctx_drop(c->proc, &key, true);
}

#define HIP_NAME_BYTES 256 /* of hipDeviceProp_t; a UUID follows */
#define HIP_TOTAL      288 /* its totalGlobalMem */

static __always_inline void hip_properties_return(struct zn_call *c)
{
	__u32 ordinal = c->frame->arg[1];
	struct zn_proc_gpu *g;

	if (c->result || ordinal >= ZN_PROC_GPUS)
		return;
	g = gpu_of(c->proc, ordinal);
	zn_read_user(g->uuid, sizeof(g->uuid), c->frame->arg[0] + HIP_NAME_BYTES);
	zn_read_user(&g->total_bytes, sizeof(g->total_bytes), c->frame->arg[0] + HIP_TOTAL);
}

static __always_inline void device_return(struct zn_call *c)
{
	__u32 ordinal = c->shape == ZN_S_DEVICE_PCI ? c->frame->arg[2] : c->frame->arg[1];
	struct zn_proc_gpu *g;

	if (c->result || ordinal >= ZN_PROC_GPUS)
		return;
	g = gpu_of(c->proc, ordinal);
	if (c->shape == ZN_S_DEVICE_UUID)
		zn_read_user(g->uuid, sizeof(g->uuid), c->frame->arg[0]);
	else if (c->shape == ZN_S_DEVICE_TOTAL)
		zn_read_user(&g->total_bytes, sizeof(g->total_bytes), c->frame->arg[0]);
	else if (bpf_probe_read_user_str(g->pci, sizeof(g->pci), (void *)c->frame->arg[0]) < 0)
		zn_lost(ZN_LOST_USER_READ);
}

#endif
