// SPDX-License-Identifier: GPL-2.0
/*
 * The ledger of GPU memory: what CUDA or HIP has reserved for a process, on which GPU. Memory of the CUDA context and
 * of loaded modules never passes these functions and is not in it.
 */
#include "failed.bpf.h"
#include "hit.bpf.h"
#include "ledger.bpf.h"

#define CUDA_ERROR_OUT_OF_MEMORY 2

/* arg[] of a free, after its entry handler */
enum { FREED_ADDR, FREED_BYTES, FREED_CTX, FREED_GEN_GPU, FREED_KNOWN };
/* values of FREED_KNOWN */
enum { FREED_NOTHING, FREED_REFERENCE, FREED_MEMORY };

static __always_inline void alloc_failed(struct zn_call *c, __u32 gpu)
{
	struct zn_proc_gpu *g = gpu_of(c->proc, gpu);

	if (c->result == CUDA_ERROR_OUT_OF_MEMORY)
		ZN_ADD(g->fail_oom, 1);
	else
		ZN_ADD(g->fail_other, 1);
}

/* The common end of every allocation: a holds bytes, kind, GPU and context; the address lies where arg[0] points, or is
 * arg[0] where memory that is there already is registered. */
static __always_inline void alloc_done(struct zn_call *c, struct zn_alloc *a, __u32 space)
{
	struct zn_proc_gpu *g = gpu_of(c->proc, a->gpu);
	struct zn_alloc_key key = {.id = c->thread->id, .kind = space};
	__u32 kind = a->kind;

	if (c->result) {
		alloc_failed(c, a->gpu);
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
	if (kind != ZN_K_HOST)
		c->allocated = a->bytes;
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

/* Memory of the host is no GPU's. */
static __always_inline void count_free(struct zn_proc *p, __u32 gpu, __u32 kind)
{
	if (kind != ZN_K_HOST)
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
	};

	if (space == ZN_K_VMM)
		a.refs = 1;
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
		count_free(c->proc, freed_gpu(c->frame), freed_kind(c->frame));
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

/* Takes one mapping out, and what it was the last reference of. Returns its bytes; 0: there is none, or another thread
 * was faster. It is not static, so that it is verified once: its arguments are numbers. */
__noinline __u64 unmap_one(__u32 row, __u32 id, __u64 at)
{
	struct zn_alloc_key key = {.addr = at, .id = id, .kind = ZN_ADDR_MAPPING};
	struct zn_alloc_key handle = {.id = id, .kind = ZN_K_VMM};
	struct zn_alloc *a = bpf_map_lookup_elem(&allocs, &key), gone = {};
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);
	__u64 bytes;

	if (!a || !p)
		return 0;
	handle.addr = a->ctx;
	bytes = a->bytes;
	if (bpf_map_delete_elem(&allocs, &key))
		return 0;
	entry_give(p);
	if (vmm_put(p, &handle, &gone) == FREED_MEMORY && gone.bytes)
		count_free(p, gone.gpu, gone.kind);
	return bytes;
}

#define UNMAP_STEPS 64 /* mappings that are looked at by one call of unmap_part() */
#define UNMAP_PARTS 64 /* of these for one cuMemUnmap() */

/* The next mappings of a range, which are taken out, or only looked at. Returns where it stopped; 0: at none. Like the
 * one above it is verified once. */
__noinline __u64 unmap_part(__u32 row, __u32 id, __u64 at, __u64 end, __u32 takes)
{
	struct zn_alloc_key key = {.id = id, .kind = ZN_ADDR_MAPPING};
	struct zn_alloc *a;
	__u64 bytes;

	for (int i = 0; i < UNMAP_STEPS && at < end; i++) {
		key.addr = at;
		a = takes ? NULL : bpf_map_lookup_elem(&allocs, &key);
		bytes = takes ? unmap_one(row, id, at) : a ? a->bytes : 0;
		if (!bytes)
			return 0;
		at += bytes;
	}
	return at;
}

static __always_inline __u64 unmap_range(struct zn_thread *t, __u64 at, __u64 end, bool takes)
{
	for (int i = 0; i < UNMAP_PARTS && at && at < end; i++)
		at = unmap_part(t->row, t->id, at, end, takes);
	return at;
}

/* (address, size): at its entry, because the last mapping of a released handle gives the handle back. The driver
 * demands whole mappings, one after the other. */
static __always_inline void vmm_unmap_entry(struct zn_frame *f, struct zn_thread *t)
{
	__u64 at = f->arg[0], end = at + f->arg[1], stopped;
	struct zn_proc *p = zn_proc_of(t);

	f->arg[FREED_KNOWN] = FREED_NOTHING;
	if (!p)
		return;
	stopped = unmap_range(t, at, end, false);
	if (stopped && stopped < end)
		ZN_ADD(p->count[ZN_C_ALLOC_DROPPED], 1); /* too many: from now on its memory is not known */
	if (stopped != end)
		return;
	f->arg[FREED_KNOWN] = FREED_REFERENCE;
	unmap_range(t, at, end, true);
}

static __always_inline void vmm_unmap_return(struct zn_call *c)
{
	if (c->result == 0 && c->frame->arg[FREED_KNOWN] == FREED_NOTHING)
		count_unmatched(c->proc);
}

/* Addresses of pinned memory are a space of their own. HIP gives back memory of both by one function, whichever is
 * called. */
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
	else if (!c->result)
		count_free(c->proc, freed_gpu(c->frame), freed_kind(c->frame));
}

#include "context.bpf.h"

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

static __always_inline int gpu_mem_entry(struct pt_regs *ctx, const struct zn_hit *hit)
{
	__u64 cookie = hit->cookie;
	struct zn_thread *t = zn_thread(ctx, hit->id, false);
	struct zn_frame *f;

	if (!t)
		return zn_no_return() | zn_nothing(ctx);
	if (zn_calibrates_entries(ZN_COOKIE_SHAPE(cookie)))
		return zn_no_return();
	if (ZN_COOKIE_SHAPE(cookie) == ZN_S_CTX_SET) {
		ctx_set(t, ZN_ARG1(ctx), cookie);
		return zn_no_return();
	}
	f = zn_frame_push(t, ctx, cookie);
	if (!f)
		return zn_no_return();
	switch (ZN_COOKIE_SHAPE(cookie)) {
	case ZN_S_FREE: free_entry(f, t, cookie); break;
	case ZN_S_VMM_RELEASE: vmm_release_entry(f, t); break;
	case ZN_S_VMM_UNMAP: vmm_unmap_entry(f, t); break;
	case ZN_S_CTX_DESTROY: ctx_destroy_entry(f, t); break;
	}
	zn_frame_start(f);
	if (t->state_at && waits_for_gpu(cookie))
		zn_wait_begin(t, f, ZN_STALL_GPU);
	return 0;
}

static __always_inline int stack_return(struct pt_regs *ctx, struct zn_call *c)
{
	if (c->allocated)
		return zn_stack(ctx, c, ZN_LEAF_ALLOC, c->allocated);
	return waits_for_gpu(c->frame->cookie) ? zn_stack(ctx, c, ZN_LEAF_GPU, c->ns) : 0;
}

static __always_inline int gpu_mem_return(struct pt_regs *ctx)
{
	struct zn_call c;

	if (!zn_call_return(&c, ctx, ZN_FAM_GPU_MEM))
		return zn_nothing(ctx);
	zn_wait_end(&c);
	note_library(&c);
	if (ZN_RARE(c.result))
		zn_failed(ctx, &c);
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
	return stack_return(ctx, &c);
}

SEC("uprobe")
int gpu_mem_call(struct pt_regs *ctx)
{
	struct zn_hit hit;

	return zn_hit_read(&hit, ctx) ? gpu_mem_return(ctx) : gpu_mem_entry(ctx, &hit);
}

char LICENSE[] SEC("license") = "GPL";
