// SPDX-License-Identifier: GPL-2.0
/*
 * Launches, waits for the GPU, and copied bytes: entry and return of libcuda's functions. Which function, and what it
 * means, comes with the attach cookie; see the probe table in probe.c.
 */
#include "stall.bpf.h"
#include "uprobe.bpf.h"

static __always_inline bool waits(__u32 shape)
{
	return shape == ZN_S_SYNC || shape == ZN_S_COPY;
}

static __always_inline void stream_key(struct zn_ctx_key *key, struct zn_thread *t, __u64 stream)
{
	*key = (struct zn_ctx_key){.addr = stream, .id = t->id};
}

/* A launch on a capturing stream is recorded into a graph, not run. The flag waits in arg[0] for the return. */
static __always_inline void launch_entry(struct zn_frame *f, struct zn_thread *t, __u64 stream_at)
{
	struct zn_proc *p = zn_proc_of(t);
	struct zn_ctx_key key;
	__u64 stream;

	f->arg[0] = 0;
	if (!p || p->count[ZN_C_CAPTURES] == 0)
		return;
	if (!zn_read_user(&stream, sizeof(stream), stream_at))
		return;
	stream_key(&key, t, stream);
	f->arg[0] = bpf_map_lookup_elem(&streams, &key) != NULL;
}

static __always_inline void launch_return(struct zn_call *c)
{
	__u32 kind = c->detail;

	if (kind != ZN_C_LAUNCH_GRAPH && c->frame->arg[0])
		kind = ZN_C_LAUNCH_CAPTURED;
	ZN_OPAQUE(kind);
	if (kind > ZN_C_LAUNCH_CAPTURED)
		return;
	ZN_ADD(c->proc->count[kind], 1);
	if (c->result)
		ZN_ADD(c->proc->count[ZN_C_LAUNCH_ERRORS], 1);
	if (kind != ZN_C_LAUNCH_CAPTURED)
		zn_record(c->proc, ZN_H_LAUNCH, c->ns, 0, c->result != 0);
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

#define CUDA_ERROR_NOT_READY 600

static __always_inline void sync_return(struct zn_call *c)
{
	bool error = c->result != 0 && c->result != CUDA_ERROR_NOT_READY;

	if (error)
		ZN_ADD(c->proc->count[ZN_C_SYNC_ERRORS], 1);
	zn_record(c->proc, c->detail, c->ns, 0, error);
}

/* detail is the direction; only these two blocking copies wait long enough to be a histogram of their own. */
static __always_inline void copy_return(struct zn_call *c)
{
	if (c->result == 0)
		copy_count(c->proc, c->detail, c->frame->arg[2]);
	if (c->detail == ZN_C_COPY_BYTES_HTOD - ZN_C_COPY_BYTES_HTOD)
		zn_record(c->proc, ZN_H_SYNC_HTOD, c->ns, c->frame->arg[2], c->result != 0);
	else if (c->detail == ZN_C_COPY_BYTES_DTOH - ZN_C_COPY_BYTES_HTOD)
		zn_record(c->proc, ZN_H_SYNC_DTOH, c->ns, c->frame->arg[2], c->result != 0);
}

/* Entry only: the call enqueues and returns at once, so there is nothing to time. */
static __always_inline void copy_async(struct pt_regs *ctx, struct zn_thread *t, __u64 cookie)
{
	__u64 third = ZN_ARG3(ctx), fifth = ZN_ARG5(ctx);
	struct zn_proc *p = zn_proc_of(t);

	if (!p)
		return;
	ZN_OPAQUE(third);
	ZN_OPAQUE(fifth);
	copy_count(p, ZN_COOKIE_DETAIL(cookie), ZN_COOKIE_SHAPE(cookie) == ZN_S_COPY_PEER ? fifth : third);
	zn_call_once(t, p, cookie, ZN_FAM_CUDA_TRACE);
}

SEC("uprobe")
int cuda_entry(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 shape = ZN_COOKIE_SHAPE(cookie);
	struct zn_thread *t = zn_thread(true);
	struct zn_frame *f;

	if (!t)
		return zn_nothing(ctx);
	zn_launching(t);
	if (shape == ZN_S_COPY_ASYNC || shape == ZN_S_COPY_PEER) {
		copy_async(ctx, t, cookie);
		return 0;
	}
	f = zn_frame_push(t, ctx, cookie);
	if (!f)
		return 0;
	if (shape == ZN_S_LAUNCH)
		launch_entry(f, t, ZN_STACK_ARG9(ctx));
	else if (shape == ZN_S_LAUNCH_EX)
		launch_entry(f, t, ZN_ARG1(ctx) + 32); /* CUlaunchConfig.hStream */
	zn_frame_start(f);
	if (waits(shape))
		zn_inside(t, f->start_ns, ZN_STALL_GPU);
	return 0;
}

SEC("uprobe")
int cuda_return(struct pt_regs *ctx)
{
	struct zn_call c;

	if (!zn_call_return(&c, ctx, ZN_FAM_CUDA_TRACE))
		return zn_nothing(ctx);
	if (waits(c.shape))
		zn_inside(c.thread, c.end_ns, ZN_STALL_CPU);
	switch (c.shape) {
	case ZN_S_LAUNCH:
	case ZN_S_LAUNCH_EX:
	case ZN_S_GRAPH_LAUNCH: launch_return(&c); break;
	case ZN_S_CAPTURE_BEGIN: capture_return(&c, true); break;
	case ZN_S_CAPTURE_END: capture_return(&c, false); break;
	case ZN_S_SYNC: sync_return(&c); break;
	case ZN_S_COPY: copy_return(&c); break;
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
