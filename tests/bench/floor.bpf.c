// SPDX-License-Identifier: GPL-2.0
/* Empty programs where the kernel families have one each: what the kernel takes for calling them. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define EMPTY(name)                                                                                                    \
	SEC("raw_tp/" #name)                                                                                           \
	int name(void *ctx __attribute__((unused)))                                                                    \
	{                                                                                                              \
		return 0;                                                                                              \
	}

EMPTY(sys_enter)
EMPTY(sys_exit)
EMPTY(sched_switch)
EMPTY(sched_waking)

char LICENSE[] SEC("license") = "GPL";
