// SPDX-License-Identifier: GPL-2.0
/* Programs at switches and wakings that read the clock and do nothing else: less than that no program can cost that
 * tells how long anything took. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define CLOCK(name)                                                                                                    \
	SEC("raw_tp/" #name)                                                                                           \
	int name(void *ctx __attribute__((unused)))                                                                    \
	{                                                                                                              \
		bpf_ktime_get_ns();                                                                                    \
		return 0;                                                                                              \
	}

CLOCK(sched_switch)
CLOCK(sched_waking)

char LICENSE[] SEC("license") = "GPL";
