/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls of CUDA and HIP that failed, by what was called and what it returned. A call that succeeds pays nothing: each
 * caller has looked at the result already. A part of the programs on those libraries.
 */
#ifndef ZN_FAILED_BPF_H
#define ZN_FAILED_BPF_H

#include "zernel.bpf.h"

#define CUDA_ERROR_NOT_READY 600 /* and hipErrorNotReady: whoever asks whether work is done is told that it is not */

/* Not static, so that it is verified once. */
__noinline int zn_failed_count(__u32 row, __u32 key)
{
	struct zn_failed *f = bpf_map_lookup_elem(&failed, &row);
	__u32 of_any_call = key & (ZN_FAILED_HIP | ZN_FAILED_RESULT_MAX);
	__u64 now = bpf_ktime_get_ns();
	int at;

	if (!f)
		return 0;
	at = zn_key_place(f->key, 0, ZN_FAILED_PAIRS, key);
	if (at < 0)
		at = zn_key_place(f->key, ZN_FAILED_PAIRS, ZN_FAILED_CUDA, of_any_call);
	if (at >= 0 && at < ZN_FAILED_CUDA)
		ZN_ADD(f->count[at], 1);
	f->last_ns = now;
	if ((f->since_key & (ZN_FAILED_HIP | ZN_FAILED_RESULT_MAX)) == of_any_call ||
		zn_failed_takes_context(ZN_FAILED_RESULT(f->since_key))) /* no later one says more */
		return 0;
	f->since_key = key;
	f->since_ns = now;
	return 0;
}

/* of: the frame's cookie above the result. One function, as several places of a program call it. */
static __noinline int failed_result(struct pt_regs *ctx, __u32 row, __u64 of)
{
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);
	__u32 result = of, cookie = of >> 32, key = result < ZN_FAILED_RESULT_MAX ? result : ZN_FAILED_RESULT_MAX;

	if (result == CUDA_ERROR_NOT_READY || !p)
		return 0;
	key |= cookie & ZN_COOKIE_HIP ? ZN_FAILED_HIP : 0;
	zn_failed_count(row, key | (__u32)ZN_COOKIE_CALL(bpf_get_attach_cookie(ctx)) << 16);
	ZN_ADD(p->count[ZN_C_CUDA_ERRORS], 1); /* last: what is not in the table is told as others */
	return 0;
}

static __always_inline void zn_failed(struct pt_regs *ctx, const struct zn_call *c)
{
	failed_result(ctx, c->thread->row, (__u64)c->frame->cookie << 32 | c->result);
}

#endif
