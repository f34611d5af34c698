// SPDX-License-Identifier: GPL-2.0
/*
 * Launches, waits for the GPU, and copied bytes: entry and return of the functions of CUDA and HIP. Which function,
 * and what it means, comes with the attach cookie; see the table in src/probe/hooks.c.
 */
#include "failed.bpf.h"
#include "stack.bpf.h"
#include "hit.bpf.h"
#include "stall.bpf.h"

static __always_inline bool waits_for_gpu(__u32 shape)
{
	return shape == ZN_S_SYNC || shape == ZN_S_PEER_WAIT || shape == ZN_S_BOX ||
		(shape >= ZN_S_COPY && shape <= ZN_S_COPY_PITCH);
}

static __always_inline void stream_key(struct zn_ctx_key *key, struct zn_thread *t, __u64 stream)
{
	*key = (struct zn_ctx_key){.addr = stream, .id = t->id};
}

static __always_inline bool is_launch(__u32 shape)
{
	return shape >= ZN_S_LAUNCH && shape <= ZN_S_LAUNCH_EX;
}

static __always_inline bool launch_stream(struct pt_regs *ctx, __u32 shape, __u64 *to)
{
	__u64 ninth = ZN_STACK_ARG9(ctx), config = ZN_ARG1(ctx);

	ZN_OPAQUE(ninth);
	ZN_OPAQUE(config);
	if (shape == ZN_S_HIP_LAUNCH)
		return zn_late_argument(ctx, 8, to);
	return zn_read_user(to, sizeof(*to), shape == ZN_S_LAUNCH ? ninth : config + 32); /* CUlaunchConfig.hStream */
}

/* A launch on a capturing stream is recorded into a graph, not run. Nobody's stream is captured, most of the time. */
static __always_inline bool is_captured(struct zn_thread *t, struct pt_regs *ctx, __u32 shape)
{
	struct zn_ctx_key key;
	struct zn_proc *p;
	__u64 stream;

	if (ZN_USUAL(!shared.quota[ZN_QUOTA_STREAM].used))
		return false;
	p = zn_proc_of(t);
	if (!p || p->count[ZN_C_CAPTURES] == 0 || !launch_stream(ctx, shape, &stream))
		return false;
	stream_key(&key, t, stream);
	return bpf_map_lookup_elem(&streams, &key) != NULL;
}

/* A launch of a process that is spared is counted at its entry, whatever it will return. False: it is not spared. */
static __always_inline bool launch_spared(struct zn_thread *t, struct pt_regs *ctx, __u64 cookie)
{
	__u32 shape = ZN_COOKIE_SHAPE(cookie), kind = ZN_COOKIE_DETAIL(cookie);
	struct zn_proc *p = zn_proc_of(t);

	if (!p || !(p->calls & ZN_SPARES(ZN_SPARE_LAUNCHES)))
		return false;
	if (shape != ZN_S_GRAPH_LAUNCH && is_captured(t, ctx, shape))
		kind = ZN_C_LAUNCH_CAPTURED;
	ZN_OPAQUE(kind);
	if (kind > ZN_C_LAUNCH_CAPTURED)
		return false;
	ZN_ADD(p->count[kind], 1);
	ZN_ADD(p->count[ZN_C_LAUNCH_UNTIMED], 1);
	zn_call_count(
		t, p, cookie, ZN_FAM_CUDA_TRACE, zn_minus(shared.cost_ns[ZN_COOKIE_FIRST(cookie)], shared.return_ns));
	return true;
}

/* A kernel that was launched, by a thread that has a shard. What is rare is its process's own: errors are never more
 * than launches. */
static __always_inline bool launch_sharded(const struct zn_call *c, __u32 kind)
{
	struct zn_hist *shard = zn_shard_of(c->thread);

	if (!shard || kind != ZN_C_LAUNCH_KERNEL || c->result)
		return false;
	ZN_ADD(shard->launches, 1);
	zn_hist_record(shard, c->ns);
	return true;
}

static __always_inline void launch_return(struct pt_regs *ctx, struct zn_call *c)
{
	__u32 kind = c->detail;

	if (kind != ZN_C_LAUNCH_GRAPH && c->frame->arg[0])
		kind = ZN_C_LAUNCH_CAPTURED;
	ZN_OPAQUE(kind);
	if (kind > ZN_C_LAUNCH_CAPTURED || launch_sharded(c, kind))
		return;
	ZN_ADD(c->proc->count[kind], 1);
	if (ZN_RARE(c->result)) {
		ZN_ADD(c->proc->count[ZN_C_LAUNCH_ERRORS], 1);
		zn_failed(ctx, c);
	}
	if (kind == ZN_C_LAUNCH_CAPTURED)
		return;
	zn_record(c->proc, ZN_H_LAUNCH, c->ns, 0, c->result != 0);
	if (ZN_RARE(c->thread->shard == ZN_SHARD_NOT))
		zn_shard_claim(c->thread, c->proc);
}

static __always_inline void capture_return(struct zn_call *c, bool begin)
{
	struct zn_ctx_key key;
	__u32 on = 1;

	stream_key(&key, c->thread, c->frame->arg[0]);
	if (!begin) {
		if (bpf_map_delete_elem(&streams, &key))
			return;
		ZN_ADD(c->proc->count[ZN_C_CAPTURES], -1);
		zn_quota_give_to(ZN_QUOTA_STREAM, c->proc->owner);
		return;
	}
	if (c->result || bpf_map_lookup_elem(&streams, &key) || !zn_quota_claim(ZN_QUOTA_STREAM, c->proc->owner))
		return;
	if (bpf_map_update_elem(&streams, &key, &on, BPF_NOEXIST)) {
		zn_quota_give_to(ZN_QUOTA_STREAM, c->proc->owner);
		zn_lost(ZN_LOST_CONTEXT);
		return;
	}
	ZN_ADD(c->proc->count[ZN_C_CAPTURES], 1);
}

static __always_inline void copy_count(struct zn_proc *p, __u32 direction, __u64 bytes)
{
	ZN_OPAQUE(direction);
	if (direction > ZN_C_COPY_BYTES_OTHER - ZN_C_COPY_BYTES_HTOD)
		return;
	ZN_ADD(p->count[ZN_C_COPY_BYTES_HTOD + direction], bytes);
	ZN_ADD(p->count[ZN_C_COPY_CALLS_HTOD + direction], 1);
}

static __always_inline void sync_return(struct pt_regs *ctx, struct zn_call *c)
{
	bool error = c->result != 0 && c->result != CUDA_ERROR_NOT_READY;

	if (ZN_RARE(error)) {
		ZN_ADD(c->proc->count[ZN_C_SYNC_ERRORS], 1);
		zn_failed(ctx, c);
	}
	zn_record(c->proc, c->detail, c->ns, 0, error);
}

/* ---- copies ---- */

enum direction { HTOD, DTOH, DTOD, OTHER }; /* in the order of their counters */

/* hipMemcpyKind of hip_runtime_api.h: host to host, to device, device to host, to device, by the addresses, and
 * device to device without a compute unit. */
static __always_inline __u32 kind_direction(__u32 kind)
{
	return kind == 1 ? HTOD : kind == 2 ? DTOH : kind == 3 || kind == 1024 ? DTOD : OTHER;
}

/* arg[] of a blocking copy, after its entry handler */
enum { COPY_DIRECTION, COPY_BYTES = 2 };

/* Only two blocking copies wait long enough to be a histogram of their own. */
static __always_inline void copy_return(struct zn_call *c)
{
	__u32 direction = c->frame->arg[COPY_DIRECTION];
	__u64 bytes = c->frame->arg[COPY_BYTES];

	if (c->result == 0)
		copy_count(c->proc, direction, bytes);
	if (direction == HTOD)
		zn_record(c->proc, ZN_H_SYNC_HTOD, c->ns, bytes, c->result != 0);
	else if (direction == DTOH)
		zn_record(c->proc, ZN_H_SYNC_DTOH, c->ns, bytes, c->result != 0);
}

/* CUDA_MEMCPY2D and CUDA_MEMCPY3D (also _PEER) of cuda.h, which has them for all drivers with 64-bit addresses.
 * HIP's hip_Memcpy2D is like the former, but its types of memory have other numbers from 6.0 on, so its direction
 * is not known. */
struct box {
	__u64 bytes;
	__u32 direction;
};
enum { MEMORY_HOST = 1, MEMORY_DEVICE, MEMORY_ARRAY }; /* CUmemorytype */

static __always_inline bool is_on_device(__u32 type)
{
	return type == MEMORY_DEVICE || type == MEMORY_ARRAY;
}

static __always_inline __u32 box_direction(__u32 from, __u32 to)
{
	if (is_on_device(to))
		return from == MEMORY_HOST ? HTOD : is_on_device(from) ? DTOD : OTHER;
	return to == MEMORY_HOST && is_on_device(from) ? DTOH : OTHER;
}

/* hipMemcpy3DParms: its extent and its kind. Of arrays the extent is in elements. */
static __always_inline int hip_box_read(struct box *b, __u64 at)
{
	struct {
		__u64 extent[3];
		__u32 kind, pad;
	} p;

	if (!zn_read_user(&p, sizeof(p), at + 128))
		return 0;
	b->bytes = p.extent[0] * p.extent[1] * p.extent[2];
	b->direction = kind_direction(p.kind);
	return 1;
}

/* False: there is nothing to read, which the driver refuses, or it cannot be read, which is counted. */
static __noinline int box_read(struct box *b, __u64 at, __u32 type)
{
	__u64 plane = type == ZN_BOX_3D ? 8 : 0, extent[3] = {0, 0, 1};
	__u32 from, to;

	if (!b || !at)
		return 0;
	if (type == ZN_BOX_HIP_3D)
		return hip_box_read(b, at);
	if (!zn_read_user(&from, sizeof(from), at + 16 + 2 * plane) ||
		!zn_read_user(&to, sizeof(to), at + 72 + 6 * plane) ||
		!zn_read_user(extent, 2 * sizeof(extent[0]), at + 112 + 8 * plane))
		return 0;
	if (plane && !zn_read_user(&extent[2], sizeof(extent[2]), at + 192))
		return 0;
	b->bytes = extent[0] * extent[1] * extent[2];
	b->direction = type == ZN_BOX_HIP_2D ? OTHER : box_direction(from, to);
	return 1;
}

/* These are not static, so that they are verified once: their arguments are numbers. */

#define BATCH_MAX  1024
#define BATCH_READ 16 /* at once: a read takes as long for one as for all of them */
#define UNREADABLE (~0ULL)

/* Of the first ones of a batch. */
__noinline __u64 batch_part(__u64 at, __u64 count)
{
	__u64 size[BATCH_READ] = {}, sum = 0, bytes = count * sizeof(size[0]);

	ZN_OPAQUE(bytes);
	if (bytes > sizeof(size))
		bytes = sizeof(size);
	if (!zn_read_user(size, bytes, at))
		return UNREADABLE;
#pragma unroll
	for (int i = 0; i < BATCH_READ; i++)
		sum += size[i];
	return sum;
}

/* The sum of the sizes of a batch. Copies beyond the last that is read are counted as lost. */
__noinline __u64 batch_bytes(__u64 at, __u64 count)
{
	__u64 part, sum = 0, done;

	for (done = 0; done < BATCH_MAX && done < count; done += BATCH_READ) {
		part = batch_part(at + done * sizeof(part), count - done);
		if (part == UNREADABLE)
			return sum;
		sum += part;
	}
	if (done < count)
		zn_lost_many(ZN_LOST_BATCH, count - done);
	return sum;
}

#define BATCH_3D_MAX  256
#define OPERATION     112 /* sizeof(CUDA_MEMCPY3D_BATCH_OP) */
#define OPERATION_BOX 80  /* its extent; of arrays it is in elements */

__noinline __u64 batch_3d_bytes(__u64 at, __u64 count)
{
	__u64 extent[3], sum = 0, done;

	for (done = 0; done < BATCH_3D_MAX && done < count; done++) {
		if (!zn_read_user(extent, sizeof(extent), at + done * OPERATION + OPERATION_BOX))
			return sum;
		sum += extent[0] * extent[1] * extent[2];
	}
	if (done < count)
		zn_lost_many(ZN_LOST_BATCH, count - done);
	return sum;
}

/* (to, pitch, from, pitch, width, height, kind) */
static __always_inline bool pitch_read(struct box *b, struct pt_regs *ctx)
{
	__u64 kind;

	if (!zn_late_argument(ctx, 7, &kind))
		return false;
	b->bytes = ZN_ARG5(ctx) * ZN_ARG6(ctx);
	b->direction = kind_direction(kind);
	return true;
}

/* At the entry of a blocking copy. */
static __always_inline void copy_entry(struct zn_frame *f, struct pt_regs *ctx, __u64 cookie)
{
	__u32 shape = ZN_COOKIE_SHAPE(cookie);
	struct box b = {.direction = OTHER};

	if (shape == ZN_S_BOX) {
		box_read(&b, ZN_ARG1(ctx), ZN_COOKIE_DETAIL(cookie));
		f->arg[COPY_DIRECTION] = b.direction;
		f->arg[COPY_BYTES] = b.bytes;
		return;
	}
	if (shape == ZN_S_COPY_PITCH) {
		pitch_read(&b, ctx);
		f->arg[COPY_DIRECTION] = b.direction;
		f->arg[COPY_BYTES] = b.bytes;
		return;
	}
	f->arg[COPY_DIRECTION] = shape == ZN_S_COPY_KIND ? kind_direction(ZN_ARG4(ctx)) : ZN_COOKIE_DETAIL(cookie);
	if (shape == ZN_S_PEER_WAIT)
		f->arg[COPY_BYTES] = ZN_ARG5(ctx);
}

static __always_inline void memset_count(struct zn_proc *p, __u64 bytes)
{
	ZN_ADD(p->count[ZN_C_MEMSET_BYTES], bytes);
	ZN_ADD(p->count[ZN_C_MEMSET_CALLS], 1);
}

static __always_inline bool is_once(__u32 shape)
{
	return (shape >= ZN_S_COPY_ASYNC && shape <= ZN_S_COPY_PITCH_ASYNC) ||
		(shape >= ZN_S_BOX_ASYNC && shape <= ZN_S_MEMSET_2D);
}

/* Entry only: the call enqueues and returns at once, so there is nothing to time. */
static __always_inline void count_once(struct pt_regs *ctx, struct zn_thread *t, __u64 cookie)
{
	__u64 third = ZN_ARG3(ctx), fourth = ZN_ARG4(ctx), fifth = ZN_ARG5(ctx);
	__u32 detail = ZN_COOKIE_DETAIL(cookie);
	struct zn_proc *p = zn_proc_of(t);
	struct box b;

	if (!p)
		return;
	ZN_OPAQUE(third);
	ZN_OPAQUE(fourth);
	ZN_OPAQUE(fifth);
	switch (ZN_COOKIE_SHAPE(cookie)) {
	case ZN_S_COPY_ASYNC: copy_count(p, detail, third); break;
	case ZN_S_COPY_PEER: copy_count(p, detail, fifth); break;
	case ZN_S_COPY_KIND_ASYNC: copy_count(p, kind_direction(fourth), third); break;
	case ZN_S_COPY_PITCH_ASYNC:
		if (pitch_read(&b, ctx))
			copy_count(p, b.direction, b.bytes);
		break;
	case ZN_S_BOX_ASYNC:
		if (box_read(&b, ZN_ARG1(ctx), detail))
			copy_count(p, b.direction, b.bytes);
		break;
	case ZN_S_BATCH: copy_count(p, OTHER, batch_bytes(third, fourth)); break;
	case ZN_S_BATCH_3D: copy_count(p, OTHER, batch_3d_bytes(ZN_ARG2(ctx), ZN_ARG1(ctx))); break;
	case ZN_S_MEMSET: memset_count(p, third * detail); break;
	case ZN_S_MEMSET_2D: memset_count(p, fourth * fifth * detail); break;
	}
	zn_call_once(t, p, cookie, ZN_FAM_CUDA_TRACE);
}

static __always_inline void load_return(struct zn_call *c)
{
	zn_record(c->proc, c->detail, c->ns, 0, c->result != 0);
}

/* Neither launches nor waits for all that there is: their arguments are needed at the return. */
static __always_inline void rare_entry(struct zn_frame *f, struct pt_regs *ctx, __u64 cookie)
{
	zn_frame_keep(f, ctx);
	if (waits_for_gpu(ZN_COOKIE_SHAPE(cookie)))
		copy_entry(f, ctx, cookie);
}

/* 1: nothing is to be done at the return. */
static __always_inline int cuda_entry(struct pt_regs *ctx, const struct zn_hit *hit)
{
	__u64 cookie = hit->cookie;
	__u32 shape = ZN_COOKIE_SHAPE(cookie);
	struct zn_thread *t = zn_thread(ctx, hit->id, true);
	struct zn_frame *f;

	if (ZN_RARE(!t))
		return zn_no_return() | zn_nothing(ctx);
	zn_launching(t);
	if (ZN_RARE(shared.spared & ZN_SPARES(ZN_SPARE_LAUNCHES)) && (is_launch(shape) || shape == ZN_S_GRAPH_LAUNCH) &&
		zn_way == ZN_WAY_SESSION && launch_spared(t, ctx, cookie))
		return 1;
	if (ZN_RARE(is_once(shape))) {
		count_once(ctx, t, cookie);
		return zn_no_return();
	}
	f = zn_frame_open(t, ctx, cookie);
	if (ZN_RARE(!f))
		return zn_no_return();
	if (ZN_USUAL(is_launch(shape))) {
		f->arg[0] = is_captured(t, ctx, shape);
		zn_frame_start(f);
		return 0;
	}
	if (zn_calibrates_entries(shape)) {
		t->depth = 0;
		return zn_no_return();
	}
	if (shape != ZN_S_SYNC)
		rare_entry(f, ctx, cookie);
	zn_frame_start(f);
	if (waits_for_gpu(shape))
		zn_wait_begin(t, f, ZN_STALL_GPU);
	return 0;
}

/* A launch that was recorded into a graph did not run. */
static __always_inline int stack_return(struct pt_regs *ctx, struct zn_call *c)
{
	if (is_launch(c->shape) || c->shape == ZN_S_GRAPH_LAUNCH) {
		if (c->shape != ZN_S_GRAPH_LAUNCH && c->frame->arg[0])
			return 0;
		return zn_stack(ctx, c, ZN_LEAF_LAUNCH, c->ns);
	}
	if (waits_for_gpu(c->shape))
		return zn_stack(ctx, c, ZN_LEAF_GPU, c->ns);
	return c->shape == ZN_S_LOAD ? zn_stack(ctx, c, ZN_LEAF_LOAD, c->ns) : 0;
}

static __always_inline void rare_return(struct pt_regs *ctx, struct zn_call *c)
{
	if (c->result && c->shape != ZN_S_GRAPH_LAUNCH)
		zn_failed(ctx, c);
	switch (c->shape) {
	case ZN_S_GRAPH_LAUNCH: launch_return(ctx, c); break;
	case ZN_S_CAPTURE_BEGIN: capture_return(c, true); break;
	case ZN_S_CAPTURE_END: capture_return(c, false); break;
	case ZN_S_COPY:
	case ZN_S_COPY_KIND:
	case ZN_S_COPY_PITCH:
	case ZN_S_PEER_WAIT:
	case ZN_S_BOX: copy_return(c); break;
	case ZN_S_LOAD: load_return(c); break;
	}
}

static __always_inline int cuda_return(struct pt_regs *ctx)
{
	struct zn_call c;

	if (ZN_RARE(!zn_call_return(&c, ctx, ZN_FAM_CUDA_TRACE)))
		return zn_nothing(ctx);
	if (ZN_USUAL(is_launch(c.shape))) {
		launch_return(ctx, &c);
	} else {
		zn_wait_end(&c);
		if (ZN_USUAL(c.shape == ZN_S_SYNC))
			sync_return(ctx, &c);
		else
			rare_return(ctx, &c);
	}
	return ZN_RARE(c.proc->calls & ZN_HAS_PYTHON) ? stack_return(ctx, &c) : 0;
}

SEC("uprobe")
int cuda_call(struct pt_regs *ctx)
{
	struct zn_hit hit;

	return zn_hit_read(&hit, ctx) ? cuda_return(ctx) : cuda_entry(ctx, &hit);
}

char LICENSE[] SEC("license") = "GPL";
