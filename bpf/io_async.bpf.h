/* SPDX-License-Identifier: GPL-2.0 */
/*
 * File I/O that ends in whatever thread: io_uring and libaio, by completion, for the process that made the request.
 */
#ifndef ZN_IO_ASYNC_BPF_H
#define ZN_IO_ASYNC_BPF_H

#include "io_pending.bpf.h"

enum { /* linux/io_uring.h: enum io_uring_op */
	READV = 1,
	WRITEV = 2,
	FSYNC = 3,
	READ_FIXED = 4,
	WRITE_FIXED = 5,
	READ_ = 22,
	WRITE_ = 23,
	READ_MULTISHOT = 49,
	READV_FIXED = 60,
	WRITEV_FIXED = 61,
};

/* The operation of a request; ZN_IO_OP_COUNT: none that is counted here. */
static __always_inline __u32 ring_op(__u8 opcode)
{
	switch (opcode) {
	case READV:
	case READ_FIXED:
	case READ_:
	case READ_MULTISHOT:
	case READV_FIXED: return ZN_IO_READ;
	case WRITEV:
	case WRITE_FIXED:
	case WRITE_:
	case WRITEV_FIXED: return ZN_IO_WRITE;
	}
	return ZN_IO_OP_COUNT;
}

static __always_inline __u32 ring_tgid(struct io_kiocb *req)
{
	if (bpf_core_field_exists(struct io_kiocb, tctx))
		return BPF_CORE_READ(req, tctx, task, tgid);
	return BPF_CORE_READ((struct io_kiocb___task *)req, task, tgid);
}

static __always_inline struct zn_io_request *ring_request(struct io_kiocb *req)
{
	__u32 at = (__u64)req >> 6 & (ZN_IO_REQUESTS - 1); /* they are 64-byte aligned */

	return bpf_map_lookup_elem(&io_requests, &at);
}

static __always_inline void ring_begin(struct io_kiocb *req)
{
	struct zn_io_request *request;

	if (ring_op(BPF_CORE_READ(req, opcode)) == ZN_IO_OP_COUNT)
		return;
	request = ring_request(req);
	if (!request)
		return;
	request->start_ns = bpf_ktime_get_ns();
	request->at = (__u64)req;
}

static __noinline int ring_end(struct io_kiocb *req, __s64 result)
{
	__u32 op = ring_op(BPF_CORE_READ(req, opcode));
	struct zn_io_request *request = ring_request(req);
	struct outcome o = {};
	struct file *file;
	__u32 dev;

	if (op == ZN_IO_OP_COUNT)
		return 0;
	file = BPF_CORE_READ(req, file);
	dev = file ? place_of_file(false, file, false).dev : 0;
	if (!dev || !outcome_of(&o, result))
		return 0;
	o.file = file;
	if (request && request->at == (__u64)req) {
		o.ns = zn_minus(bpf_ktime_get_ns(), request->start_ns);
		request->at = 0;
	}
	count_operation(op, dev, ring_tgid(req), &o, NULL);
	return 0;
}

/* The events changed their arguments; CO-RE tells which they are. That of a completion has the request from 5.18 on,
 * that of a submission from 5.14 on. */
typedef void (*btf_trace_io_uring_complete___cqe)(void *, struct io_ring_ctx *, void *, struct io_uring_cqe *);
typedef void (*btf_trace_io_uring_submit_sqe___req)(void *, struct io_kiocb *, bool);

SEC("raw_tp/io_uring_submit_req")
int ring_submit_req(struct bpf_raw_tracepoint_args *ctx)
{
	ring_begin((void *)ctx->args[0]);
	return 0;
}

SEC("raw_tp/io_uring_submit_sqe")
int ring_submit_sqe(struct bpf_raw_tracepoint_args *ctx)
{
	ring_begin((void *)either_word(
		bpf_core_type_exists(btf_trace_io_uring_submit_sqe___req), ctx->args[0], ctx->args[1]));
	return 0;
}

/* Before 5.18 the event of a completion does not say of which request (zn_bpf_ring_named()). A result is final where
 * the request's own function for it is called, or would be: kiocb_done() does without for one that was neither an error
 * nor polled for. */
#define SETUP_IOPOLL 1 /* linux/io_uring.h */

/* What a read had got before it was done again belongs to the result. EAGAIN: it is done again. */
static __always_inline void ring_complete_rw(struct kiocb *kiocb, __s64 result)
{
	struct io_kiocb___rw *req = (void *)kiocb; /* its first member */
	struct io_async_rw *rw = BPF_CORE_READ(req, async_data);
	__s64 before = rw ? BPF_CORE_READ(rw, bytes_done) : 0;

	if (result == -EAGAIN_)
		return;
	ring_end((void *)req, before <= 0 ? result : result < 0 ? before : before + result);
}

static __always_inline void ring_done(struct kiocb *kiocb, __s64 result)
{
	struct io_kiocb___rw *req = (void *)kiocb;

	if (result >= 0 && !(BPF_CORE_READ(req, ctx, flags) & SETUP_IOPOLL))
		ring_complete_rw(kiocb, result);
}

ENTER(kiocb_done, ring_done((void *)ctx[0], ctx[1]))
ENTER(io_complete_rw, ring_complete_rw((void *)ctx[0], ctx[1]))
ENTER(io_complete_rw_iopoll, ring_complete_rw((void *)ctx[0], ctx[1]))
AT_ENTRY(on_kiocb_done, ring_done((void *)ZN_ARG1(ctx), ZN_ARG2(ctx)))
AT_ENTRY(on_complete_rw, ring_complete_rw((void *)ZN_ARG1(ctx), ZN_ARG2(ctx)))

#ifndef ZN_NO_FETCH
SEC("raw_tp/io_uring_complete")
int ring_complete(struct bpf_raw_tracepoint_args *ctx)
{
	struct io_kiocb *req = (void *)ctx->args[1];
	struct io_uring_cqe *cqe = (void *)ctx->args[2];

	if (!req)
		return 0; /* an event of the ring's own, no request's */
	if (bpf_core_type_exists(btf_trace_io_uring_complete___cqe))
		ring_end(req, BPF_CORE_READ(cqe, res));
	else
		ring_end(req, (__s32)ctx->args[3]);
	return 0;
}
#endif

/* ---- libaio: completions run anywhere ---- */

/* False: there is none at this address. */
static __always_inline bool aio_take_out(__u64 kiocb, struct zn_aio *aio)
{
	struct zn_aio *found = bpf_map_lookup_elem(&aios, &kiocb);

	if (!found)
		return false;
	*aio = *found;
	if (bpf_map_delete_elem(&aios, &kiocb))
		return false;
	zn_quota_give_to(ZN_QUOTA_AIO, aio->owner);
	return true;
}

static __noinline int aio_begin_at(__u64 kiocb, __u32 op)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct zn_aio aio;
	bool taken;

	aio_take_out(kiocb, &aio); /* its end was missed */
	aio = (struct zn_aio){.start_ns = bpf_ktime_get_ns(), .owner = zn_owner_current(), .tgid = tgid, .op = op};
	taken = zn_quota_try_from(ZN_QUOTA_AIO, aio.owner);
	if (taken && bpf_map_update_elem(&aios, &kiocb, &aio, BPF_NOEXIST) == 0)
		return 0;
	if (taken)
		zn_quota_give_to(ZN_QUOTA_AIO, aio.owner);
	return ops_refused(ZN_QUOTA_AIO, aio.owner, tgid, op, NO_OP);
}

static __always_inline void aio_begin(struct kiocb *kiocb, __u32 op)
{
	aio_begin_at((__u64)kiocb, op);
}

/* Refused before it began: it will not complete. */
static __always_inline void aio_refused(struct kiocb *kiocb, __s64 result)
{
	struct zn_aio aio;

	if (result < 0)
		aio_take_out((__u64)kiocb, &aio);
}

static __always_inline void aio_end(struct kiocb *kiocb, __s64 result)
{
	struct file *file = BPF_CORE_READ(kiocb, ki_filp);
	struct outcome o = {.file = file};
	struct zn_aio aio;
	__u32 dev;

	if (!aio_take_out((__u64)kiocb, &aio))
		return;
	dev = file ? place_of_file(false, file, false).dev : 0;
	o.ns = zn_minus(bpf_ktime_get_ns(), aio.start_ns);
	if (dev && outcome_of(&o, result))
		count_operation(aio.op, dev, aio.tgid, &o, NULL);
}

ENTER(aio_read, aio_begin((void *)ctx[0], ZN_IO_READ))
ENTER(aio_write, aio_begin((void *)ctx[0], ZN_IO_WRITE))
LEAVE(aio_read, aio_refused((void *)ctx[0], (__s32)ctx[4]))
LEAVE(aio_write, aio_refused((void *)ctx[0], (__s32)ctx[4]))
ENTER(aio_complete_rw, aio_end((void *)ctx[0], ctx[1]))
AT_ENTRY(on_aio_read, aio_begin((void *)ZN_ARG1(ctx), ZN_IO_READ))
AT_ENTRY(on_aio_write, aio_begin((void *)ZN_ARG1(ctx), ZN_IO_WRITE))
AT_ENTRY(on_aio_complete, aio_end((void *)ZN_ARG1(ctx), ZN_ARG2(ctx)))

#endif
