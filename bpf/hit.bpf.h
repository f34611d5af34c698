/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A hit of a program on a function of a library: is it the entry or the return, of which function, by which thread. A
 * family's program is one, loaded for its entries, for its returns, or, from Linux 6.13 on, for both as a session: one
 * link, of which the run at the entry says whether there will be one at the return.
 *
 * In a session all three are read where the kernel keeps them for the run (struct bpf_uprobe_multi_run_ctx), for the
 * price of one helper: it has a function for each, and on processors whose returns are guarded one takes as long as all
 * that is done with the answer.
 */
#ifndef ZN_HIT_BPF_H
#define ZN_HIT_BPF_H

#include "cast.bpf.h"
#include "uprobe.bpf.h"

const volatile __u32 zn_way SEC(".rodata.way"); /* enum zn_way; the verifier leaves out what it rules out */

struct zn_hit {
	__u64 id, cookie; /* as the helpers tell them; at entries alone */
};

/* True: it is a return. */
static __always_inline bool zn_hit_read(struct zn_hit *h, struct pt_regs *ctx)
{
	struct bpf_uprobe_multi_run_ctx *run;
	struct task_struct *task;

	if (zn_way == ZN_WAY_RETURN)
		return true;
	if (zn_way == ZN_WAY_ENTRY) {
		h->cookie = bpf_get_attach_cookie(ctx);
		h->id = bpf_get_current_pid_tgid();
		return false;
	}
	task = bpf_get_current_task_btf();
	run = ZN_CAST(task->bpf_ctx, struct bpf_uprobe_multi_run_ctx);
	if (run->session_ctx.is_return)
		return true;
	h->cookie = run->uprobe->cookie;
	h->id = (__u64)(__u32)task->tgid << 32 | (__u32)task->pid;
	return false;
}

__noinline int zn_inside_again(__u32 row, __u32 id, __u32 state_at, __u64 now, __u32 state)
{
	struct zn_thread_state *o = state_at == ZN_THREAD_STATE_NONE ? NULL : zn_thread_state_at(row, state_at);
	struct zn_proc *p = o ? bpf_map_lookup_elem(&procs, &row) : NULL;

	return p && p->id == id ? zn_inside_set(o, p, now, state) : 0;
}

/* What an entry returns after which the return is of no interest. */
static __always_inline int zn_no_return(void)
{
	return zn_way == ZN_WAY_SESSION;
}

#endif
