// SPDX-License-Identifier: GPL-2.0
/* Empty programs where requests of servers are counted: what the kernel takes for calling them. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define EMPTY(name)                                                                                                    \
	SEC("raw_tp/" #name)                                                                                           \
	int name(void *ctx __attribute__((unused)))                                                                    \
	{                                                                                                              \
		return 0;                                                                                              \
	}

EMPTY(sock_send_length)
EMPTY(sock_recv_length)
EMPTY(tcp_destroy_sock)
EMPTY(inet_sock_set_state)

char LICENSE[] SEC("license") = "GPL";
