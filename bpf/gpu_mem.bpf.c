// SPDX-License-Identifier: GPL-2.0
/*
 * The ledger of GPU memory: what CUDA or HIP has reserved for a process, on which GPU. Memory of the CUDA context and
 * of loaded modules never passes these functions and is not in it.
 *
 * Two rules keep the ledger exact under threads. An address enters at the *return* of the allocation and leaves at
 * the *entry* of the free: the driver may hand it out again before the free has returned. A free that fails puts it
 * back.
 */
#include "stall.bpf.h"
#include "uprobe.bpf.h"

#define CUDA_ERROR_OUT_OF_MEMORY 2

/* arg[] of a free, after its entry handler */
enum { FREED_ADDR, FREED_BYTES, FREED_CTX, FREED_GEN_GPU, FREED_KNOWN };
/* values of FREED_KNOWN */
enum { FREED_NOTHING, FREED_REFERENCE, FREED_MEMORY };

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
	ctx.gen = zn_next_id();
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

static __always_inline void alloc_failed(struct zn_call *c, __u32 gpu, __u64 bytes)
{
	struct zn_proc_gpu *g = gpu_of(c->proc, gpu);

	if (c->result == CUDA_ERROR_OUT_OF_MEMORY)
		ZN_ADD(g->fail_oom, 1);
	else
		ZN_ADD(g->fail_other, 1);
	zn_emit(ZN_EV_ALLOC_FAILED, c->thread->row, c->result, bytes);
}

/* The common end of every allocation: a holds bytes, kind, GPU and context; the address lies where arg[0] points, or is
 * arg[0] where memory that is there already is registered. */
static __always_inline void alloc_done(struct zn_call *c, struct zn_alloc *a, __u32 space)
{
	struct zn_proc_gpu *g = gpu_of(c->proc, a->gpu);
	struct zn_alloc_key key = {.id = c->thread->id, .kind = space};
	__u32 kind = a->kind;

	if (c->result) {
		alloc_failed(c, a->gpu, a->bytes);
		return;
	}
	ZN_OPAQUE(kind);
	if (kind >= ZN_KIND_COUNT)
		return;
	if (c->shape == ZN_S_HOST_REGISTER)
		key.addr = c->frame->arg[0];
	else if (!zn_read_user(&key.addr, sizeof(key.addr), c->frame->arg[0]))
		return;
	ZN_ADD(g->alloc_calls[kind], 1);
	ZN_ADD(g->alloc_bytes[kind], a->bytes);
	ledger_enter(c->proc, &key, a);
}

static __always_inline void alloc_return(struct zn_call *c)
{
	struct zn_alloc a = {.bytes = c->frame->arg[1], .kind = c->detail};

	current_ctx(c, &a);
	alloc_done(c, &a, a.kind == ZN_K_HOST ? ZN_K_HOST : 0);
}

/* (dptr *, pitch *, width, height, element size): the driver chooses the pitch. */
static __always_inline void pitch_return(struct zn_call *c)
{
	struct zn_alloc a = {.kind = ZN_K_DEVICE};
	__u64 pitch = c->frame->arg[2];

	if (c->result == 0 && !zn_read_user(&pitch, sizeof(pitch), c->frame->arg[1]))
		return;
	a.bytes = pitch * c->frame->arg[3];
	current_ctx(c, &a);
	alloc_done(c, &a, 0);
}

/* (handle *, size, const CUmemAllocationProp *, flags): prop+8 is the kind of place (1: device), prop+12 its ordinal.
 * Physical memory belongs to no context. */
static __always_inline void vmm_create_return(struct zn_call *c)
{
	struct zn_alloc a = {.bytes = c->frame->arg[1], .kind = ZN_K_VMM, .refs = 1, .gpu = ZN_PROC_GPUS};
	__u32 place[2];

	if (bpf_probe_read_user(place, sizeof(place), (const void *)(c->frame->arg[2] + 8))) {
		if (!c->result) /* a call that fails may have been given nothing */
			zn_lost(ZN_LOST_USER_READ);
	} else {
		if (place[0] == 1 && place[1] < ZN_PROC_GPUS)
			a.gpu = place[1];
		else if (place[0] != 1)
			a.kind = ZN_K_HOST;
	}
	alloc_done(c, &a, ZN_K_VMM);
}

/* Drops one reference, of a handle or of a mapping; the last one gives the memory back. Returns what went, in
 * `gone` too. */
static __noinline int vmm_put(struct zn_proc *p, struct zn_alloc_key *key, struct zn_alloc *gone)
{
	struct zn_alloc *a;

	if (!p || !key || !gone)
		return FREED_NOTHING;
	a = bpf_map_lookup_elem(&allocs, key);
	if (!a)
		return FREED_NOTHING;
	if (__sync_fetch_and_add(&a->refs, -1) != 1)
		return FREED_REFERENCE;
	*gone = *a;
	if (bpf_map_delete_elem(&allocs, key) == 0)
		entry_give(p);
	ledger_credit(p, gone, key->id);
	return FREED_MEMORY;
}

static __always_inline void count_free(struct zn_proc *p, __u32 gpu)
{
	ZN_ADD(gpu_of(p, gpu)->free_calls, 1);
}

static __always_inline void count_unmatched(struct zn_proc *p)
{
	ZN_ADD(p->count[ZN_C_UNMATCHED_FREE], 1);
	zn_lost(ZN_LOST_UNMATCHED_FREE);
}

/* What a free took out of the table, kept in the frame until its return. */
static __always_inline void freed_keep(struct zn_frame *f, const struct zn_alloc *gone, __u64 known)
{
	f->arg[FREED_BYTES] = gone->bytes;
	f->arg[FREED_CTX] = gone->ctx;
	f->arg[FREED_GEN_GPU] = (__u64)gone->ctx_gen << 32 | gone->gpu << 16 | gone->kind;
	f->arg[FREED_KNOWN] = known;
}

static __always_inline __u32 freed_gpu(const struct zn_frame *f)
{
	return (__u16)(f->arg[FREED_GEN_GPU] >> 16);
}

static __always_inline __u32 freed_kind(const struct zn_frame *f)
{
	return (__u16)f->arg[FREED_GEN_GPU];
}

/* The free failed: what it took out is put back. */
static __always_inline void freed_undo(struct zn_call *c, __u32 space)
{
	struct zn_alloc_key key = {.addr = c->frame->arg[FREED_ADDR], .id = c->thread->id, .kind = space};
	__u64 packed = c->frame->arg[FREED_GEN_GPU];
	struct zn_alloc a = {
		.bytes = c->frame->arg[FREED_BYTES],
		.ctx = c->frame->arg[FREED_CTX],
		.ctx_gen = packed >> 32,
		.gpu = packed >> 16,
		.kind = packed,
		.refs = 1,
	};

	ledger_enter(c->proc, &key, &a);
}

static __always_inline void vmm_release_entry(struct zn_frame *f, struct zn_thread *t)
{
	struct zn_alloc_key key = {.addr = f->arg[FREED_ADDR], .id = t->id, .kind = ZN_K_VMM};
	struct zn_alloc gone = {};
	int known = vmm_put(zn_proc_of(t), &key, &gone);

	freed_keep(f, &gone, known);
}

static __always_inline void vmm_get(struct zn_call *c, __u64 handle)
{
	struct zn_alloc_key key = {.addr = handle, .id = c->thread->id, .kind = ZN_K_VMM};
	struct zn_alloc *a = bpf_map_lookup_elem(&allocs, &key);

	if (a)
		ZN_ADD(a->refs, 1);
}

static __always_inline void vmm_release_return(struct zn_call *c)
{
	__u64 known = c->frame->arg[FREED_KNOWN];

	if (c->result) {
		if (known == FREED_MEMORY)
			freed_undo(c, ZN_K_VMM);
		else if (known == FREED_REFERENCE)
			vmm_get(c, c->frame->arg[FREED_ADDR]);
	} else if (known == FREED_NOTHING) {
		count_unmatched(c->proc);
	} else if (known == FREED_MEMORY && c->frame->arg[FREED_BYTES]) {
		count_free(c->proc, freed_gpu(c->frame));
	}
}

/* (handle *, ...): memory of another process. It adds a reference, not bytes, and its release is no loss. */
static __always_inline void vmm_import_return(struct zn_call *c)
{
	struct zn_alloc_key key = {.id = c->thread->id, .kind = ZN_K_VMM};
	struct zn_alloc a = {.kind = ZN_K_VMM, .refs = 1, .gpu = ZN_PROC_GPUS};

	if (c->result == 0 && zn_read_user(&key.addr, sizeof(key.addr), c->frame->arg[0]))
		ledger_enter(c->proc, &key, &a);
}

static __always_inline void vmm_retain_return(struct zn_call *c)
{
	__u64 handle;

	if (c->result == 0 && zn_read_user(&handle, sizeof(handle), c->frame->arg[0]))
		vmm_get(c, handle);
}

/* (address, size, offset, handle, flags): memory stays alive while it is mapped, also after its handle was released. */
static __always_inline void vmm_map_return(struct zn_call *c)
{
	struct zn_alloc_key key = {.addr = c->frame->arg[0], .id = c->thread->id, .kind = ZN_ADDR_MAPPING};
	struct zn_alloc a = {.bytes = c->frame->arg[1], .ctx = c->frame->arg[3], .kind = ZN_ADDR_MAPPING};

	if (c->result)
		return;
	if (entry_put(c->proc, &key, &a, bpf_map_lookup_elem(&allocs, &key)))
		vmm_get(c, a.ctx);
}

#define UNMAP_MAX 64 /* mappings that one cuMemUnmap() may cover */

/* Of the range of a cuMemUnmap: true if it is whole known mappings, one after the other, as the driver demands. */
static __always_inline bool unmap_fits(__u64 at, __u64 end, __u32 id)
{
	struct zn_alloc_key key = {.addr = at, .id = id, .kind = ZN_ADDR_MAPPING};
	struct zn_alloc *a;

	for (int i = 0; i < UNMAP_MAX && key.addr < end; i++) {
		a = bpf_map_lookup_elem(&allocs, &key);
		if (!a || !a->bytes)
			return false;
		key.addr += a->bytes;
	}
	return key.addr == end;
}

/* (address, size): at its entry, because the last mapping of a released handle gives the handle back. */
static __always_inline void vmm_unmap_entry(struct zn_frame *f, struct zn_thread *t)
{
	struct zn_alloc_key key = {.addr = f->arg[0], .id = t->id, .kind = ZN_ADDR_MAPPING};
	struct zn_alloc_key handle = {.id = t->id, .kind = ZN_K_VMM};
	__u64 bytes, end = f->arg[0] + f->arg[1];
	struct zn_proc *p = zn_proc_of(t);
	struct zn_alloc *a, gone = {};

	f->arg[FREED_KNOWN] = FREED_NOTHING;
	if (!p || !unmap_fits(key.addr, end, t->id))
		return;
	f->arg[FREED_KNOWN] = FREED_REFERENCE;
	for (int i = 0; i < UNMAP_MAX && key.addr < end; i++) {
		a = bpf_map_lookup_elem(&allocs, &key);
		if (!a)
			return;
		handle.addr = a->ctx;
		bytes = a->bytes;
		if (bpf_map_delete_elem(&allocs, &key))
			return; /* another thread was faster */
		entry_give(p);
		if (vmm_put(p, &handle, &gone) == FREED_MEMORY && gone.bytes)
			count_free(p, gone.gpu);
		key.addr += bytes;
	}
}

static __always_inline void vmm_unmap_return(struct zn_call *c)
{
	if (c->result == 0 && c->frame->arg[FREED_KNOWN] == FREED_NOTHING)
		count_unmatched(c->proc);
}

/* Addresses of pinned memory are a space of their own. HIP gives back memory of both by one function, whichever is called. */
static __always_inline struct zn_alloc *freed_find(struct zn_alloc_key *key, __u64 cookie)
{
	struct zn_alloc *a;

	key->kind = ZN_COOKIE_DETAIL(cookie) == ZN_K_HOST ? ZN_K_HOST : 0;
	a = bpf_map_lookup_elem(&allocs, key);
	if (a || !(cookie & ZN_COOKIE_HIP))
		return a;
	key->kind = key->kind ? 0 : ZN_K_HOST;
	return bpf_map_lookup_elem(&allocs, key);
}

/* Takes the address out before the driver can hand it out again, and keeps what is needed to put it back. */
static __always_inline void free_entry(struct zn_frame *f, struct zn_thread *t, __u64 cookie)
{
	struct zn_alloc_key key = {.addr = f->arg[FREED_ADDR], .id = t->id};
	struct zn_proc *p = zn_proc_of(t);
	struct zn_alloc *a, gone;

	f->arg[FREED_KNOWN] = FREED_NOTHING;
	a = p ? freed_find(&key, cookie) : NULL;
	if (!a)
		return;
	gone = *a;
	if (bpf_map_delete_elem(&allocs, &key))
		return; /* another thread was faster */
	entry_give(p);
	ledger_credit(p, &gone, t->id);
	freed_keep(f, &gone, FREED_MEMORY);
}

static __always_inline void free_return(struct zn_call *c)
{
	__u64 known = c->frame->arg[FREED_KNOWN];
	bool host = freed_kind(c->frame) == ZN_K_HOST; /* if it is known */

	/* detail: cuMemFree may wait for the GPU, the others do not */
	if (c->detail == ZN_K_DEVICE)
		zn_record(c->proc, ZN_H_SYNC_FREE, c->ns, 0, c->result != 0);
	if (c->frame->arg[FREED_ADDR] == 0)
		return; /* freeing nothing is allowed and does nothing */
	if (c->result && known)
		freed_undo(c, host ? ZN_K_HOST : 0);
	else if (!c->result && !known)
		count_unmatched(c->proc);
	else if (!c->result && !host)
		count_free(c->proc, freed_gpu(c->frame));
}

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
		ctx->gen = zn_next_id();
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
	ctx.gen = zn_next_id();
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

/* (free *, total *) of the current context: a second source of the total. */
static __always_inline void mem_info_return(struct zn_call *c)
{
	struct zn_alloc now = {};
	struct zn_proc_gpu *g;

	current_ctx(c, &now);
	if (c->result || now.gpu >= ZN_PROC_GPUS)
		return;
	g = gpu_of(c->proc, now.gpu);
	if (g->total_bytes == 0)
		zn_read_user(&g->total_bytes, sizeof(g->total_bytes), c->frame->arg[1]);
}

/* A node may have GPUs of both vendors, and processes of each. */
static __always_inline void note_library(const struct zn_call *c)
{
	__u32 bit = is_hip(c) ? ZN_CALLS_HIP : ZN_CALLS_CUDA;

	if (!(c->proc->calls & bit))
		__sync_fetch_and_or(&c->proc->calls, bit);
}

/* cuMemFree may wait for the GPU, the others do not */
static __always_inline bool waits_for_gpu(__u32 cookie)
{
	return ZN_COOKIE_SHAPE(cookie) == ZN_S_FREE && ZN_COOKIE_DETAIL(cookie) == ZN_K_DEVICE;
}

SEC("uprobe")
int gpu_mem_entry(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct zn_thread *t = zn_thread(false);
	struct zn_frame *f;

	if (!t)
		return zn_nothing(ctx);
	if (ZN_COOKIE_SHAPE(cookie) == ZN_S_CTX_SET) {
		ctx_set(t, ZN_ARG1(ctx), cookie);
		return 0;
	}
	f = zn_frame_push(t, ctx, cookie);
	if (!f)
		return 0;
	switch (ZN_COOKIE_SHAPE(cookie)) {
	case ZN_S_FREE: free_entry(f, t, cookie); break;
	case ZN_S_VMM_RELEASE: vmm_release_entry(f, t); break;
	case ZN_S_VMM_UNMAP: vmm_unmap_entry(f, t); break;
	case ZN_S_CTX_DESTROY: ctx_destroy_entry(f, t); break;
	}
	zn_frame_start(f);
	if (t->state_at && waits_for_gpu(cookie))
		zn_inside(t, f->start_ns, ZN_STALL_GPU);
	return 0;
}

SEC("uprobe")
int gpu_mem_return(struct pt_regs *ctx)
{
	struct zn_call c;

	if (!zn_call_return(&c, ctx, ZN_FAM_GPU_MEM))
		return zn_nothing(ctx);
	if (c.thread->state_at && waits_for_gpu(c.frame->cookie))
		zn_inside(c.thread, c.end_ns, ZN_STALL_CPU);
	note_library(&c);
	switch (c.shape) {
	case ZN_S_ALLOC:
	case ZN_S_HOST_REGISTER: alloc_return(&c); break;
	case ZN_S_ALLOC_PITCH: pitch_return(&c); break;
	case ZN_S_VMM_CREATE: vmm_create_return(&c); break;
	case ZN_S_VMM_RELEASE: vmm_release_return(&c); break;
	case ZN_S_VMM_RETAIN: vmm_retain_return(&c); break;
	case ZN_S_VMM_IMPORT: vmm_import_return(&c); break;
	case ZN_S_VMM_MAP: vmm_map_return(&c); break;
	case ZN_S_VMM_UNMAP: vmm_unmap_return(&c); break;
	case ZN_S_FREE: free_return(&c); break;
	case ZN_S_CTX_CREATE: ctx_create_return(&c); break;
	case ZN_S_GREEN_CREATE: green_create_return(&c); break;
	case ZN_S_GREEN_CTX: green_ctx_return(&c); break;
	case ZN_S_CTX_PUSH:
		if (c.result == 0)
			ctx_push(c.thread, c.frame->arg[0]);
		break;
	case ZN_S_CTX_POP:
		if (c.result == 0)
			ctx_pop(c.thread);
		break;
	case ZN_S_PRIMARY_RETAIN: primary_retain_return(&c); break;
	case ZN_S_PRIMARY_RESET: primary_reset_return(&c); break;
	case ZN_S_MEM_INFO: mem_info_return(&c); break;
	case ZN_S_HIP_SET_DEVICE: hip_set_device_return(&c); break;
	case ZN_S_HIP_RESET: hip_reset_return(&c); break;
	case ZN_S_HIP_PROPERTIES: hip_properties_return(&c); break;
	case ZN_S_DEVICE_UUID:
	case ZN_S_DEVICE_PCI:
	case ZN_S_DEVICE_TOTAL: device_return(&c); break;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
