// SPDX-License-Identifier: GPL-2.0
/* The least that can stand at two probes: what a hooked call costs before any of our work is done. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

SEC("uprobe")
int at_entry(void *ctx)
{
	(void)ctx;
	return 0;
}

SEC("uprobe")
int at_return(void *ctx)
{
	(void)ctx;
	return 0;
}

/* Of a session: one program at both, which knows not at which; and one whose return is spared. */
SEC("uprobe")
int at_both(void *ctx)
{
	(void)ctx;
	return 0;
}

SEC("uprobe")
int at_entry_alone(void *ctx)
{
	(void)ctx;
	return 1;
}

char LICENSE[] SEC("license") = "GPL";
