// SPDX-License-Identifier: GPL-2.0
/*
 * TCP of tracked processes: bytes, the time in which a send gives them to the kernel, and what had to be sent again.
 * Best with functions of the kernel (fentry or kprobes); else with the tracepoints that sockets have from 6.3 on.
 *
 * Limits: what splice() takes out of a socket is not seen. Only what a call of the process moves is its own; a
 * retransmission happens long after that, so it is the last sender's of the connection.
 */
#include "cast.bpf.h"

#define IPV4     2
#define IPV6     10
#define TCP      6
#define MSG_PEEK 2

static __always_inline bool is_tcp(struct sock *sk)
{
	__u16 family = sk ? ZN_FIELD(sk, struct sock, __sk_common.skc_family) : 0;

	return (family == IPV4 || family == IPV6) && ZN_FIELD(sk, struct sock, sk_protocol) == TCP;
}

static __always_inline void count_received(struct zn_proc *p, struct sock *sk, int result, __u32 flags)
{
	if (result > 0 && !(flags & MSG_PEEK) && is_tcp(sk))
		ZN_ADD(p->count[ZN_C_TCP_RECEIVED], result);
}

#define ID_OF(sk) ((__u32)((sk) >> 10)) /* for what was refused: a socket of TCP is larger than that */

/* From 6.18 on the verifier knows a pointer on the stack for one, and allows no shift of it. */
static __always_inline __u32 id_of_key(const __u64 *sk)
{
	__u64 number = 0;

	bpf_probe_read_kernel(&number, sizeof(number), sk);
	return ID_OF(number);
}

static __always_inline void count_unowned(__u32 owner)
{
	zn_quota_give_to(ZN_QUOTA_SOCKET, owner);
	zn_lost(ZN_LOST_SOCKET);
}

/* The row of a process is found by its id, and the address of a connection stays its own until it is destroyed. */
static __always_inline void own_connection(struct zn_proc *p, __u64 sk)
{
	struct zn_sock *known = bpf_map_lookup_elem(&socks, &sk), mine = {.id = ZN_SOCK_ID(p->id), .owner = p->owner};
	__u32 tgid = p->tgid, before = known ? known->owner : 0, *row;

	if (known && known->id == mine.id)
		return;
	row = bpf_map_lookup_elem(&rows, &tgid);
	if (!row)
		return;
	mine.row = *row;
	if (known && bpf_map_update_elem(&socks, &sk, &mine, BPF_EXIST) == 0)
		zn_quota_move(ZN_QUOTA_SOCKET, before, mine.owner);
	else if (!zn_quota_try_from(ZN_QUOTA_SOCKET, mine.owner))
		zn_quota_refuse_once(ZN_QUOTA_SOCKET, mine.owner, ZN_REFUSED_SOCKET, id_of_key(&sk));
	else if (bpf_map_update_elem(&socks, &sk, &mine, BPF_NOEXIST))
		count_unowned(mine.owner);
}

static __always_inline void send_begin(struct sock *sk)
{
	struct zn_proc *p = zn_tracked_current();

	if (!p)
		return;
	own_connection(p, (__u64)sk); /* before the bytes are on their way */
	zn_send_begin(p);
}

static __always_inline void send_end(int result)
{
	struct zn_proc *p = zn_tracked_current();

	if (!p)
		return;
	zn_send_end(p, bpf_ktime_get_ns(), result);
	if (result > 0)
		ZN_ADD(p->count[ZN_C_TCP_SENT], result);
}

/* ---- fentry, fexit: the arguments, and behind them the result ---- */

SEC("fentry/tcp_sendmsg")
int fentry_send(__u64 *ctx)
{
	send_begin((struct sock *)ctx[0]);
	return 0;
}

SEC("fexit/tcp_sendmsg")
int fexit_send(__u64 *ctx)
{
	send_end(ctx[3]);
	return 0;
}

/* (sock, msg, size, flags): unlike those of tcp_recvmsg, the same in all kernels. */
static __always_inline int fexit_received(__u64 *ctx)
{
	struct zn_proc *p = zn_tracked_current();

	if (p)
		count_received(p, BPF_CORE_READ((struct socket *)ctx[0], sk), ctx[4], ctx[3]);
	return 0;
}

SEC("fexit/inet_recvmsg")
int fexit_receive(__u64 *ctx)
{
	return fexit_received(ctx);
}

SEC("fexit/inet6_recvmsg")
int fexit_receive6(__u64 *ctx)
{
	return fexit_received(ctx);
}

/* ---- kprobes ---- */

SEC("kprobe/tcp_sendmsg")
int kprobe_send(struct pt_regs *ctx)
{
	send_begin((struct sock *)ZN_ARG1(ctx));
	return 0;
}

SEC("kretprobe/tcp_sendmsg")
int kreturn_send(struct pt_regs *ctx)
{
	send_end(ZN_RESULT(ctx));
	return 0;
}

/* inet_recvmsg and inet6_recvmsg */
SEC("kprobe/inet_recvmsg")
int kprobe_receive(struct pt_regs *ctx)
{
	struct zn_proc *p = zn_tracked_current();
	struct sock *sk = NULL;

	if (!p)
		return 0;
	if (!(ZN_ARG4(ctx) & MSG_PEEK)) /* else there is nothing to count */
		sk = BPF_CORE_READ((struct socket *)ZN_ARG1(ctx), sk);
	zn_timed_begin(p, ZN_TIMED_RECEIVE, (__u64)sk);
	return 0;
}

SEC("kretprobe/inet_recvmsg")
int kreturn_receive(struct pt_regs *ctx)
{
	struct zn_proc *p = zn_tracked_current();
	struct zn_timed_call c;

	if (p && zn_timed_end(p, ZN_TIMED_RECEIVE, &c))
		count_received(p, (struct sock *)c.arg, ZN_RESULT(ctx), 0);
	return 0;
}

/* ---- tracepoints ---- */

/* When it began was noted at the entry of the system call, see syscalls.bpf.h. One call is one send here: what other
 * calls send (sendfile, sendmmsg, io_uring) is counted and not timed. */
static __always_inline void send_time(struct zn_proc *p, int result, __u64 now)
{
	const struct pt_regs *regs = zn_registers_of(bpf_get_current_task_btf());

	if (zn_is_send((__s64)ZN_CALL_NUMBER(regs)))
		zn_send_end(p, now, result);
}

/* (sk, result, flags), once the bytes are with the kernel */
SEC("raw_tp/sock_send_length")
int sock_send(struct bpf_raw_tracepoint_args *ctx)
{
	struct zn_proc *p = zn_tracked_current();
	struct sock *sk = (struct sock *)ctx->args[0];
	int result = ctx->args[1];
	__u64 now;

	if (!p || !is_tcp(sk))
		return 0;
	now = bpf_ktime_get_ns();
	zn_registers_ready();
	own_connection(p, (__u64)sk);
	send_time(p, result, now);
	if (result > 0)
		ZN_ADD(p->count[ZN_C_TCP_SENT], result);
	return 0;
}

SEC("raw_tp/sock_recv_length")
int sock_receive(struct bpf_raw_tracepoint_args *ctx)
{
	struct zn_proc *p = zn_tracked_current();

	if (p)
		count_received(p, (struct sock *)ctx->args[0], ctx->args[1], ctx->args[2]);
	return 0;
}

/* ---- of all of them ---- */

/* (sk, skb), on whatever thread the timer or the answer found */
SEC("raw_tp/tcp_retransmit_skb")
int tcp_retransmit(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 sk = ctx->args[0];
	struct zn_sock *owner = bpf_map_lookup_elem(&socks, &sk);
	__u32 row = owner ? owner->row : ZN_ROW_NONE;
	struct zn_proc *p = bpf_map_lookup_elem(&procs, &row);

	if (p && owner && ZN_SOCK_ID(p->id) == owner->id)
		ZN_ADD(p->count[ZN_C_TCP_RETRANSMITS], 1);
	return 0;
}

/* Always attached, so that no connection is left that outlives its process. */
SEC("raw_tp/tcp_destroy_sock")
int tcp_destroy(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 sk = ctx->args[0];
	struct zn_sock *known = bpf_map_lookup_elem(&socks, &sk);
	__u32 owner = known ? known->owner : 0;

	zn_quota_refused_end(ZN_REFUSED_SOCKET, ID_OF(sk));
	if (known && bpf_map_delete_elem(&socks, &sk) == 0)
		zn_quota_give_to(ZN_QUOTA_SOCKET, owner);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
