// SPDX-License-Identifier: GPL-2.0
/* The floor of a family that tells how long threads run and wait: a program at switches that reads the clock, and one
 * at wakings that does nothing. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("raw_tp/sched_switch")
int sched_switch(void *ctx)
{
	(void)ctx;
	bpf_ktime_get_ns();
	return 0;
}

SEC("raw_tp/sched_waking")
int sched_waking(void *ctx)
{
	(void)ctx;
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
