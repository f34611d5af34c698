// SPDX-License-Identifier: GPL-2.0
/*
 * Context switches of tracked processes. Everything else on the node pays one look-up of the count of tracked processes,
 * and while there is none these programs are not attached at all.
 */
#include "zernel.bpf.h"
#include <bpf/bpf_core_read.h>

/* (preempt, prev, next): the thread that runs is still prev. */
SEC("raw_tp/sched_switch")
int sched_switch(struct bpf_raw_tracepoint_args *ctx)
{
	struct zn_proc *p = zn_tracked(bpf_get_current_pid_tgid() >> 32);

	if (p)
		ZN_ADD(p->count[ctx->args[0] ? ZN_C_SWITCH_INVOLUNTARY : ZN_C_SWITCH_VOLUNTARY], 1);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
