// SPDX-License-Identifier: GPL-2.0
/* The least that times and counts calls by process: which function it is, the clock at the entry and at the return, one
 * look-up of the thread at each, one of the process, and three additions (calls, time, a bucket). No nesting, no lost
 * ends, no captures, no GPU time, nobody's share. What a probe costs that does more is held against it. */
#include <stdbool.h>
#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define THREADS   4096
#define PROCESSES 1024
#define BUCKETS   64

#define ARRAY(map, n, value_type)                                                                                      \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(max_entries, n);                                                                                \
		__type(key, __u32);                                                                                    \
		__type(value, value_type);                                                                             \
	} map SEC(".maps")

struct thread {
	__u64 cookie, start_ns;
	__u32 process, pad;
};
struct process {
	__u64 calls, sum_ns, bucket[BUCKETS], pad[512 - 2 - BUCKETS];
};
ARRAY(threads, THREADS, struct thread);
ARRAY(processes, PROCESSES, struct process);

static __always_inline struct thread *thread_now(void)
{
	__u32 at = bpf_get_current_pid_tgid() & (THREADS - 1);

	return bpf_map_lookup_elem(&threads, &at);
}

static __always_inline int enter(void *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct thread *t = thread_now();

	if (!t)
		return 0;
	t->cookie = cookie;
	t->start_ns = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int leave(void *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns(), ns;
	struct thread *t = thread_now();
	struct process *p;
	__u32 process;

	(void)ctx;
	if (!t)
		return 0;
	process = t->process;
	p = bpf_map_lookup_elem(&processes, &process);
	if (!p)
		return 0;
	ns = now_ns - t->start_ns;
	__sync_fetch_and_add(&p->calls, 1);
	__sync_fetch_and_add(&p->sum_ns, ns);
	__sync_fetch_and_add(&p->bucket[ns >> 7 & (BUCKETS - 1)], 1);
	return 0;
}

SEC("uprobe")
int at_entry(void *ctx)
{
	return enter(ctx);
}

SEC("uprobe")
int at_return(void *ctx)
{
	return leave(ctx);
}

extern bool bpf_session_is_return(void) __ksym __weak; /* from 6.10 to 6.19: later ones take an argument */

/* The same as a session. */
SEC("uprobe")
int at_both(void *ctx)
{
	return bpf_session_is_return() ? leave(ctx) : enter(ctx);
}

char LICENSE[] SEC("license") = "GPL";
