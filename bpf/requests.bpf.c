// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that servers answer: of processes that the daemon has marked (the map `served`), over TCP and Unix
 * sockets, by the bytes that they receive and send. Who receives a method is the server; no port and no accept() is
 * needed. The parser is in zernel.h.
 *
 * From 6.3 on with the tracepoints that sockets have, before that with fexit of what receives and sends. The bytes
 * are read in the caller's memory at the end of its call, when they were just copied.
 *
 * HTTP/1 is here, HTTP/2 in http2.bpf.h.
 *
 * Limits: what io_uring, recvmmsg() and sendmmsg() move is not read, nor what a 32-bit program does. A Unix socket
 * tells its end to a server that reads or writes (by an error, if the client had not read all), and nothing when the
 * server closes it: the daemon looks after those.
 */
#define ZN_HTTP1
#include "cast.bpf.h"

#define UNIX          1
#define IPV4          2
#define IPV6          10
#define STREAM        1
#define TCP           6
#define MSG_PEEK      2
#define TCP_LISTEN    10
#define PIECES        4 /* of a send whose bytes are gathered */
#define SCRATCH_TRIES 8
#define VECTOR        16     /* pieces whose lengths are added up */
#define SAME_STEP_NS  500000 /* events that are nearer are of one step: the first one names a role and has no text */
#define HIST_REFUSED  0xffffffffu
#define EPIPE         32
#define ECONNRESET    104

struct piece {
	__u64 base, len;
};

enum socket_kind { OTHER, IS_TCP, IS_UNIX };

static __always_inline enum socket_kind kind_of(struct sock *sk)
{
	__u16 family = sk ? ZN_FIELD(sk, struct sock, __sk_common.skc_family) : 0;

	if (family == UNIX)
		return ZN_FIELD(sk, struct sock, sk_type) == STREAM ? IS_UNIX : OTHER;
	return (family == IPV4 || family == IPV6) && ZN_FIELD(sk, struct sock, sk_protocol) == TCP ? IS_TCP : OTHER;
}

/* Whether it was accepted, of a connection whose beginning was not seen: what a client receives over HTTP/2 looks alike.
 * A socket that was accepted has its listener's name or port; a client's has none, or one that the kernel chose. */
#define CHOSEN_FIRST 32768 /* of the ports that the kernel chooses, as it comes */
/* Not static: room on the stack of its own, which is full where it is called. */
__noinline int is_accepted(__u64 at, __u32 port)
{
	struct sock *sk = (struct sock *)at;
	__u32 own, other;

	if (kind_of(sk) == IS_UNIX)
		return BPF_CORE_READ((struct unix_sock *)sk, addr) != NULL;
	own = BPF_CORE_READ(sk, __sk_common.skc_num);
	other = __builtin_bswap16(BPF_CORE_READ(sk, __sk_common.skc_dport));
	return own == port || (own < CHOSEN_FIRST && other >= CHOSEN_FIRST);
}

/* ---- the bytes ---- */

/* Where the bytes of the call are. count 0: they cannot be read. */
struct vector {
	__u64 at;    /* of one buffer, or of the pieces */
	__u32 count; /* of them; ONE: it is one buffer */
};
#define ONE 0xffffffffu

static __always_inline struct vector vector_of_message(__u64 message)
{
	__u64 piece[2] = {}; /* msg_iov, msg_iovlen of struct msghdr */

	if (bpf_probe_read_user(piece, sizeof(piece), (void *)(message + 16)))
		return (struct vector){};
	return (struct vector){piece[0], piece[1] > 1024 ? 0 : piece[1]};
}

static __always_inline struct vector vector_of_registers(struct task_struct *task, const struct pt_regs *regs)
{
	__u64 second = ZN_CALL_ARG2(regs), third = ZN_CALL_ARG3(regs);

	if (ZN_CALL_OF_32_BITS(&task->thread_info))
		return (struct vector){};
	switch ((__s64)ZN_CALL_NUMBER(regs)) {
	case ZN_NR_READ:
	case ZN_NR_WRITE:
	case ZN_NR_RECVFROM:
	case ZN_NR_SENDTO: return (struct vector){second, ONE};
	case ZN_NR_READV:
	case ZN_NR_WRITEV: return (struct vector){second, third & 0x7ff};
	case ZN_NR_RECVMSG:
	case ZN_NR_SENDMSG: return vector_of_message(second);
	}
	return (struct vector){};
}

/* Asks the helper: what follows is longer than that, and the verifier follows more of the other way (6.18). */
static __always_inline struct vector vector_of_call(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return vector_of_registers(task, (const struct pt_regs *)bpf_task_pt_regs(task));
}

static __always_inline bool piece_read(const struct vector *v, __u32 i, __u32 moved, struct piece *to)
{
	if (v->count == ONE) {
		*to = (struct piece){v->at, moved};
		return i == 0;
	}
	return i < v->count && bpf_probe_read_user(to, sizeof(*to), (void *)(v->at + i * sizeof(struct piece))) == 0;
}

/* The first bytes, of the first pieces together: node sends the size of a chunk as a piece of its own. */
static __always_inline void bytes_gather(struct zn_request_scratch *s, const struct vector *v, __u32 moved, __u32 most)
{
	__u32 have = 0;

#pragma unroll
	for (__u32 i = 0; i < PIECES; i++) {
		struct piece p;
		__u32 n = most - have;

		if (have >= most || have >= moved || !piece_read(v, i, moved, &p))
			break;
		if (n > moved - have)
			n = moved - have;
		if (n > p.len)
			n = p.len;
		if (n == 0)
			continue;
		ZN_OPAQUE(have); /* the compiler knows that both are small, the verifier of 6.1 does not */
		have &= ZN_REQUEST_BYTES - 1;
		ZN_OPAQUE(n);
		n &= ZN_REQUEST_BYTES - 1;
		if (bpf_probe_read_user(&s->bytes[have], n, (void *)p.base))
			break;
		have += n;
	}
	s->have = have < ZN_REQUEST_BYTES ? have : ZN_REQUEST_BYTES;
}

/* The end of the last piece of a send that went out whole. */
static __always_inline __u64 end_of(struct zn_request_scratch *s, const struct vector *v, __u32 sent)
{
	struct piece *all = (void *)&s->bytes[ZN_REQUEST_BYTES], last;
	__u64 sum = 0;
	__u32 n = v->count;

	if (v->count == ONE)
		return v->at + sent;
	if (n == 0 || !piece_read(v, n - 1, sent, &last) || last.len < ZN_LAST_CHUNK)
		return 0;
	if (n > VECTOR)
		return last.base + last.len;
	ZN_OPAQUE(n); /* as above */
	n &= 2 * VECTOR - 1;
	if (bpf_probe_read_user(all, n * sizeof(*all), (void *)v->at))
		return 0;
	for (__u32 i = 0; i < VECTOR; i++)
		if (i < n)
			sum += all[i].len;
	return sum == sent ? last.base + last.len : 0;
}

static __always_inline void last_read(struct zn_request_scratch *s, const struct vector *v, __u32 sent)
{
	__u64 end;

	if (s->have == sent && sent < ZN_LAST_CHUNK) {
		__builtin_memcpy(s->last, s->bytes, ZN_LAST_CHUNK);
		s->last_len = sent;
		return;
	}
	if (s->have == sent) {
		__u32 at = sent - ZN_LAST_CHUNK;

		ZN_OPAQUE(at);
		at &= ZN_REQUEST_BYTES - 1;
		__builtin_memcpy(s->last, &s->bytes[at], ZN_LAST_CHUNK);
		s->last_len = ZN_LAST_CHUNK;
		return;
	}
	end = end_of(s, v, sent);
	if (end && bpf_probe_read_user(s->last, ZN_LAST_CHUNK, (void *)(end - ZN_LAST_CHUNK)) == 0)
		s->last_len = ZN_LAST_CHUNK;
}

/* Where there is memory: two places are a CPU's own if there are few CPUs, as a thread that is preempted in here leaves
 * one busy; else what is free beside them. -1: none. Not static: verified once. */
__noinline int scratch_find(__u32 cpu)
{
	for (__u32 i = 0; i < SCRATCH_TRIES; i++) {
		__u32 at = (2 * cpu + i) & (ZN_SCRATCHES - 1);
		struct zn_request_scratch *s = bpf_map_lookup_elem(&scratch, &at);

		if (s && __sync_val_compare_and_swap(&s->busy, 0, 1) == 0)
			return at;
	}
	return -1;
}

static __always_inline struct zn_request_scratch *scratch_take(void)
{
	__u32 at = scratch_find(bpf_get_smp_processor_id());
	struct zn_request_scratch *s = bpf_map_lookup_elem(&scratch, &at);

	if (s)
		s->slot = at;
	else
		zn_lost(ZN_LOST_REQUEST);
	return s;
}

static __always_inline void scratch_give(struct zn_request_scratch *s)
{
	s->have = 0;
	__sync_lock_test_and_set(&s->busy, 0);
}

#include "service.bpf.h"

/* ---- what is counted ---- */

static __always_inline struct zn_server *server_of(const struct zn_request *c)
{
	__u32 at = c->server;
	struct zn_server *server = bpf_map_lookup_elem(&servers, &at);

	return server && server->id == c->id ? server : NULL;
}

static __always_inline struct zn_request_series *series_at(__u32 index)
{
	__u32 at = index - 1;

	return index ? bpf_map_lookup_elem(&request_series, &at) : NULL;
}

/* What is not static is verified once, by itself. */

/* Returns a histogram, or 0. */
static __always_inline __u32 duration_claim(__u32 owner)
{
	__u32 slot = zn_hist_try(ZN_QUOTA_HISTOGRAM, owner);

	if (!slot)
		zn_hist_refuse(owner);
	return slot;
}

__noinline int duration_add(__u32 *hist, __u32 owner, __u64 ns)
{
	__u32 slot = hist ? *hist : HIST_REFUSED, old;
	struct zn_hist *h;

	if (hist && slot == 0) {
		slot = duration_claim(owner);
		old = __sync_val_compare_and_swap(hist, 0, slot ? slot : HIST_REFUSED);
		if (old && slot)
			zn_hist_give(ZN_QUOTA_HISTOGRAM, slot, owner);
		slot = old ? old : slot;
	}
	if (slot == 0 || slot == HIST_REFUSED)
		return 0;
	h = bpf_map_lookup_elem(&hists, &slot);
	if (h)
		zn_hist_record(h, ns);
	return 0;
}

#define SERIES_TRIES 8

/* An index and 1 of a free series. */
__noinline __u32 series_claim(__u32 id, __u32 owner, __u32 route)
{
	__u32 first = (id * 2654435761u >> 16) + route * 37;

	if (!zn_quota_claim(ZN_QUOTA_ROUTE, owner))
		return 0;
#pragma unroll
	for (__u32 i = 0; i < SERIES_TRIES; i++) {
		__u32 at = (first + i) & (ZN_REQUEST_SERIES - 1);
		struct zn_request_series *s = bpf_map_lookup_elem(&request_series, &at);

		if (!s || __sync_val_compare_and_swap(&s->id, 0, id) != 0)
			continue;
		s->owner = owner;
		s->route = route;
		return at + 1;
	}
	zn_quota_give_to(ZN_QUOTA_ROUTE, owner);
	zn_lost(ZN_LOST_ROUTE);
	return 0;
}

static __always_inline __u32 series_of(struct zn_server *server, __u32 route)
{
	__u32 *place = &server->series[route & (ZN_ROUTE_SLOTS - 1)], index = *place, old;
	struct zn_request_series *s;

	if (index || server->refused >> route & 1)
		return index;
	index = series_claim(server->id, server->owner, route);
	if (!index) {
		server->refused |= 1u << (route & 31);
		return 0;
	}
	old = __sync_val_compare_and_swap(place, 0, index);
	if (!old)
		return index;
	s = series_at(index);
	if (s)
		s->id = 0;
	zn_quota_give_to(ZN_QUOTA_ROUTE, server->owner);
	return old;
}

static __always_inline __u32 route_of(const struct zn_request *c)
{
	__u64 key[3] = {
		zn_http1_key(c, ZN_ROUTE_EXACT), zn_http1_key(c, ZN_ROUTE_LAST), zn_http1_key(c, ZN_ROUTE_BELOW)};
	__u32 *route;

#pragma unroll
	for (__u32 i = 0; i < 3; i++) {
		route = bpf_map_lookup_elem(&routes, &key[i]);
		if (route)
			return *route;
	}
	return ZN_ROUTE_OTHER;
}

/* Once for each request, whoever comes first. */
__noinline int request_finish(struct zn_request *c, __u32 code, __u64 at)
{
	struct zn_request_series *s;
	__u64 ns;

	if (!c)
		return 0;
	s = series_at(__sync_lock_test_and_set(&c->series, 0));
	ns = c->spared ? 0 : zn_minus(at, c->start_ns);
	c->state = ZN_REQUEST_IDLE;
	if (!s || s->id != c->id || code >= ZN_OUTCOME_COUNT)
		return 0;
	ZN_ADD(s->done[code], 1);
	ZN_ADD(s->in_flight, -1);
	ZN_ADD(s->open_ns, ns);
	if (code != ZN_OUTCOME_ABORTED)
		duration_add(&s->hist[ZN_REQUEST_WHOLE], s->owner, ns);
	share_end(c, (s->route & 0xffff) | code << 16, at);
	return 0;
}

/* How long the last bytes lay in the socket. */
static __always_inline __u64 unread_add(struct zn_server *server, struct sock *sk)
{
	__u32 since = BPF_CORE_READ((struct tcp_sock *)sk, inet_conn.icsk_ack.lrcvtime);
	__u32 ticks = (__u32)bpf_jiffies64() - since;
	__u64 ns = (__u64)ticks * shared.jiffy_ns;

	if (ticks >= 1u << 20)
		return 0;
	duration_add(&server->hist[ZN_SERVER_UNREAD], server->owner, ns);
	return ns;
}

/* Requests that begin now of this server are only counted. */
static __always_inline bool is_spared(const struct zn_server *server)
{
	return ZN_RARE(shared.spared & ZN_SPARES(ZN_SPARE_REQUESTS)) && server->spares;
}

static __always_inline void request_begin(
	struct zn_request *c, struct zn_server *server, struct sock *sk, __u32 route, __u64 now)
{
	bool spared = c->protocol == ZN_PROTOCOL_HTTP1 + 1 && is_spared(server);
	__u32 index = series_of(server, spared ? ZN_ROUTE_NOT_READ : route);
	struct zn_request_series *s = series_at(index);

	zn_http1_begin(c, now);
	c->spared = spared;
	if (!s)
		return;
	ZN_ADD(s->in_flight, 1);
	c->series = index;
	c->held = 0;
	ZN_ADD(server->begun, 1);
	if (c->spared)
		return;
	c->unread_ns = c->is_unix ? 0 : unread_add(server, sk);
	if (!is_nested(c, server))
		share_begin(c, server->service_at, now);
}

/* ---- What requests take. ---- */

/* When a receive or a send begins that is measured; 0: it is not. */
static __always_inline __u64 charge_start(struct zn_server *server)
{
	if (server->until) {
		server->until--;
		return 0;
	}
	server->until = ZN_SPENT_REQUESTS - 1;
	return bpf_ktime_get_ns();
}

enum charge {
	CHARGE_READ,   /* all was read */
	CHARGE_SLOT,   /* the same, where in a slot in which requests are only counted it would be so too */
	CHARGE_PASSED, /* a request that is only counted */
};

/* What is sent for a request that is only counted is not measured: it takes no longer than what is received. Not
 * static: what it needs is not on the stack of its callers, which is full before 6.3. */
__noinline int charge_add(__u32 server, __u64 start, enum charge as)
{
	struct zn_spent *spent = &shared.spent[ZN_SPENT_SERVER(server & (ZN_SERVERS_MAX - 1))];
	struct zn_server *of = bpf_map_lookup_elem(&servers, &server);
	__u64 ns = zn_minus(bpf_ktime_get_ns(), start) * ZN_SPENT_REQUESTS;

	if (as == CHARGE_PASSED)
		ZN_ADD(spent->spared_ns, 2 * ns);
	else if (as == CHARGE_SLOT && of && is_spared(of))
		ZN_ADD(spent->spared_ns, ns);
	else
		ZN_ADD(spent->request_ns, ns);
	return 0;
}

static __always_inline void charge_begin(struct zn_request_scratch *s, struct zn_server *server, __u32 index)
{
	s->server = index;
	s->start_ns = charge_start(server);
}

static __always_inline void charge_end(struct zn_request_scratch *s, enum charge as)
{
	if (s->start_ns)
		charge_add(s->server, s->start_ns, as);
}

/* ---- Requests that are only counted: nothing of them is read. ---- */

/* What is received on a connection that rests begins one. */
static __always_inline bool request_pass(struct zn_request *c, struct zn_server *server, __u32 index)
{
	struct zn_request_series *s;
	__u64 start;

	if (!is_spared(server) || c->protocol != ZN_PROTOCOL_HTTP1 + 1 || c->line != ZN_LINE_NONE)
		return false;
	start = charge_start(server);
	if (c->state == ZN_REQUEST_BODY)
		request_finish(c, zn_http1_code(c), c->last_ns);
	c->state = ZN_REQUEST_ASKED;
	c->spared = 1;
	c->start_ns = c->last_ns = server->slot_ns;
	c->server = index;
	c->id = server->id;
	c->series = series_of(server, ZN_ROUTE_NOT_READ);
	s = series_at(c->series);
	if (s)
		ZN_ADD(s->in_flight, 1);
	ZN_ADD(server->begun, 1);
	if (start)
		charge_add(index, start, CHARGE_PASSED);
	return true;
}

/* What is sent first is taken for its answer. */
static __always_inline void request_passed(struct zn_request *c, __u32 sent)
{
	struct zn_request_series *s;

	if (c->state != ZN_REQUEST_ASKED || sent == ZN_CONTINUE_BYTES)
		return;
	c->state = ZN_REQUEST_IDLE;
	s = series_at(__sync_lock_test_and_set(&c->series, 0));
	if (!s || s->id != c->id)
		return;
	ZN_ADD(s->in_flight, -1);
	ZN_ADD(s->done[ZN_OUTCOME_UNKNOWN], 1);
}

__noinline int event_count(struct zn_request *c, struct zn_server *server, __u64 sk, __u64 now)
{
	struct tcp_sock *tcp = (void *)sk;
	struct zn_request_series *s;
	__u64 before;

	if (!c || !server)
		return 0;
	s = series_at(c->series);
	before = c->event_ns;
	c->event_ns = now;
	c->events++;
	if (!s || s->id != c->id)
		return 0;
	ZN_ADD(s->events, 1);
	if (!before)
		duration_add(&s->hist[ZN_REQUEST_FIRST], s->owner, zn_minus(now, c->read_ns));
	else if (now - before >= SAME_STEP_NS)
		duration_add(&s->hist[ZN_REQUEST_GAP], s->owner, now - before);
	if (!before)
		c->first_event_ns = now;
	else
		share_refresh(c, now);
	if (c->is_unix || BPF_CORE_READ(tcp, write_seq) == BPF_CORE_READ(tcp, snd_nxt))
		return 0;
	ZN_ADD(server->held[before ? 1 : 0], 1);
	if (c->held < 0xffff)
		c->held++;
	return 0;
}

static __always_inline void rtt_add(struct zn_server *server, struct sock *sk)
{
	__u32 us = BPF_CORE_READ((struct tcp_sock *)sk, srtt_us) >> 3;

	duration_add(&server->hist[ZN_SERVER_RTT], server->owner, (__u64)us * 1000);
}

static __always_inline void protocol_count(const struct zn_request *c, struct zn_server *server)
{
	__u32 protocol = c->protocol - 1;

	if (protocol < ZN_PROTOCOL_COUNT)
		ZN_ADD(server->connections[protocol], 1);
}

/* ---- connections ---- */

static __always_inline void entry_drop(struct zn_request *c, __u64 sk)
{
	__u32 owner = c->owner;

	if (bpf_map_delete_elem(&requests, &sk) == 0)
		zn_quota_give_to(ZN_QUOTA_REQUEST, owner);
}

static __always_inline void request_close(struct zn_request *c, __u64 sk, __u64 now)
{
	bool is_h2 = c->protocol == ZN_PROTOCOL_HTTP2 + 1;

	if (c->series && zn_http1_is_aborted(c))
		request_finish(c, ZN_OUTCOME_ABORTED, now);
	else if (c->series)
		request_finish(c, zn_http1_code(c), c->last_ns);
	entry_drop(c, sk);
	if (is_h2)
		shared.h2_closed = 1;
}

/* An entry for a connection whose first bytes are those of a request, or of another protocol that is counted. */
static __always_inline struct zn_request *entry_make(__u64 sk, struct zn_request *fresh)
{
	if (!zn_quota_claim(ZN_QUOTA_REQUEST, fresh->owner))
		return NULL;
	if (bpf_map_update_elem(&requests, &sk, fresh, BPF_NOEXIST)) {
		zn_quota_give_to(ZN_QUOTA_REQUEST, fresh->owner);
		zn_lost(ZN_LOST_CONNECTION_STATE);
		return NULL;
	}
	return bpf_map_lookup_elem(&requests, &sk);
}

#include "http2.bpf.h"

/* Returns the connection, if it is one of HTTP/2 that is followed from here on. */
static __always_inline struct zn_request *received_bytes(
	struct zn_request_scratch *s, struct zn_request *c, struct zn_server *server, __u32 at, struct sock *sk)
{
	__u64 now = bpf_ktime_get_ns(), key = (__u64)sk;
	struct zn_request *to = c ? c : &s->fresh;
	__u32 effects;

	if (!c) {
		__builtin_memset(&s->fresh, 0, sizeof(s->fresh));
		s->fresh.is_unix = kind_of(sk) == IS_UNIX;
		s->fresh.owner = server->owner;
		s->fresh.nested = s->fresh.is_unix && is_asked_by_service(sk, server);
	}
	to->server = at;
	effects = zn_http1_received(to, s, now);
	if (effects & ZN_DO_END)
		request_finish(to, zn_http1_code(to), to->last_ns);
	to->id = server->id;
	if (!c && !(effects & ZN_DO_KNOWN) && to->line == ZN_LINE_NONE)
		return NULL; /* nothing that is counted */
	if (!c && to->protocol == ZN_PROTOCOL_HTTP2 + 1 && s->bytes[0] != 'P' && !is_accepted(key, server->port))
		return NULL;
	if (!c)
		c = entry_make(key, &s->fresh);
	if (!c)
		return NULL;
	if (effects & ZN_DO_KNOWN)
		protocol_count(c, server);
	if (effects & ZN_DO_BEGIN)
		request_begin(c, server, sk, route_of(c), now);
	if (c->protocol != ZN_PROTOCOL_HTTP2 + 1)
		return NULL;
	connection_begin(c, s);
	c->scan[1] = c->scan[0];
	return c;
}

/* Most that is not counted is told by its first byte: what processes of PyTorch send each other, what NCCL does. */
static __always_inline bool may_begin(struct task_struct *task, __u32 received)
{
	struct vector v = vector_of_registers(task, zn_registers_of(task));
	struct piece first;
	__u8 byte;

	if (!v.count)
		return false;
	if (!piece_read(&v, 0, received, &first) || !first.len)
		return true;
	return bpf_probe_read_user(&byte, sizeof(byte), (void *)first.base) == 0 && zn_http1_may_begin(byte, received);
}

static __always_inline void receive_read(
	struct zn_request *c, struct zn_server *server, __u32 index, __u64 key, __u32 received)
{
	bool is_known = c && c->protocol == ZN_PROTOCOL_HTTP2 + 1;
	struct vector v = vector_of_call();
	struct zn_request_scratch *s;

	if (!v.count && is_known && !c->broken)
		connection_break(c);
	if (!v.count)
		return;
	s = scratch_take();
	if (!s) {
		if (is_known && !c->broken)
			connection_leave(c);
		return;
	}
	charge_begin(s, server, index);
	if (!is_known) {
		bytes_gather(s, &v, received, ZN_LINE_MAX);
		c = s->have ? received_bytes(s, c, server, index, (struct sock *)key) : NULL;
	} else if (c->broken && !is_mended(c, s, &v, received)) {
		c = NULL;
	}
	if (c)
		frames_walk(c, s, &v, received, 0, key);
	charge_end(s, CHARGE_SLOT);
	scratch_give(s);
}

/* Whether any connection of the node is known: on most nodes with GPUs nobody serves, and none is looked up. */
static __always_inline bool is_any_known(void)
{
	return ZN_RARE(shared.quota[ZN_QUOTA_REQUEST].used);
}

/* Nearly every other process of the node is told by this. */
static __always_inline bool may_be_served(__u32 tgid)
{
	__u32 at = ZN_SERVED_AT(tgid);

	return shared.served_bits[at / 64] >> (at & 63) & 1;
}

static __always_inline int on_received(__u64 key, int result, __u32 flags)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = task->tgid, *at = may_be_served(tgid) ? bpf_map_lookup_elem(&served, &tgid) : NULL, index;
	struct zn_server *server;
	struct zn_request *c;

	if (!at || flags & MSG_PEEK)
		return 0;
	zn_registers_ready();
	index = *at;
	c = is_any_known() ? bpf_map_lookup_elem(&requests, &key) : NULL;
	if (!c && (result <= 0 || kind_of((struct sock *)key) == OTHER || !may_begin(task, result)))
		return 0;
	server = bpf_map_lookup_elem(&servers, &index);
	if (!server || server->tgid != tgid)
		return 0;
	if (result <= 0) {
		if (c && c->is_unix && (result == 0 || result == -ECONNRESET))
			request_close(c, key, bpf_ktime_get_ns());
		return 0;
	}
	if (c && c->state == ZN_REQUEST_ASKED) {
		c->read_ns = bpf_ktime_get_ns();
		return 0;
	}
	if (c && c->protocol > ZN_PROTOCOL_HTTP2 + 1)
		return 0;
	if (!c || !request_pass(c, server, index))
		receive_read(c, server, index, key, result);
	return 0;
}

static __always_inline void sent_bytes(
	struct zn_request_scratch *s, struct zn_request *c, struct zn_server *server, __u32 sent, struct sock *sk)
{
	__u64 now = bpf_ktime_get_ns();
	__u32 effects = zn_http1_sent(c, s, sent, now);

	if (effects & ZN_DO_LOST)
		zn_lost(ZN_LOST_REQUEST);
	if (effects & ZN_DO_EVENT)
		event_count(c, server, (__u64)sk, now);
	if (effects & ZN_DO_LATE) {
		if (!c->is_unix && c->series)
			rtt_add(server, sk);
		request_finish(c, zn_http1_code(c), now);
	}
	if (effects & ZN_DO_KNOWN)
		protocol_count(c, server);
}

static __always_inline int on_frames_sent(struct zn_request *c, __u64 key, __u32 sent)
{
	struct vector v = vector_of_call();
	struct zn_request_scratch *s = v.count ? scratch_take() : NULL;
	struct zn_server *server;

	if (!v.count)
		connection_break(c);
	else if (!s)
		connection_leave(c);
	if (!s)
		return 0;
	s->start_ns = 0;
	server = server_of(c);
	if (server)
		charge_begin(s, server, c->server);
	frames_walk(c, s, &v, sent, 1, key);
	charge_end(s, CHARGE_SLOT);
	scratch_give(s);
	return 0;
}

static __always_inline void send_read(
	struct zn_request *c, struct zn_request_scratch *s, struct zn_server *server, __u32 sent, struct sock *sk)
{
	struct vector v = vector_of_call();

	s->have = s->last_len = 0;
	if (v.count) {
		bytes_gather(s, &v, sent, ZN_REQUEST_BYTES - 1);
		last_read(s, &v, sent);
	}
	sent_bytes(s, c, server, sent, sk);
}

/* sk: the socket, on the caller's stack, which has no room for it twice. */
static __always_inline int on_sent(const __u64 *sk, int result)
{
	struct zn_request *c = is_any_known() ? bpf_map_lookup_elem(&requests, sk) : NULL;
	struct zn_request_scratch *s;
	struct zn_server *server;

	if (c && c->is_unix && (result == -EPIPE || result == -ECONNRESET))
		request_close(c, *sk, bpf_ktime_get_ns());
	if (!c || result <= 0 || c->protocol > ZN_PROTOCOL_HTTP2 + 1 || c->broken)
		return 0;
	if (c->protocol == ZN_PROTOCOL_HTTP2 + 1)
		return on_frames_sent(c, *sk, result);
	if (c->spared) {
		request_passed(c, result);
		return 0;
	}
	server = server_of(c);
	s = server ? scratch_take() : NULL;
	if (!s || !server)
		return 0;
	charge_begin(s, server, c->server);
	send_read(c, s, server, result, (struct sock *)*sk);
	charge_end(s, CHARGE_READ);
	scratch_give(s);
	return 0;
}

/* ---- tracepoints ---- */

/* (sk, result, flags) */
SEC("raw_tp/sock_send_length")
int request_send(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 sk = ctx->args[0];

	on_sent(&sk, ctx->args[1]);
	return 0;
}

SEC("raw_tp/sock_recv_length")
int request_receive(struct bpf_raw_tracepoint_args *ctx)
{
	on_received(ctx->args[0], ctx->args[1], ctx->args[2]);
	return 0;
}

/* ---- fexit, before 6.3 ---- */

/* (sock, msg, size, flags) and the result */
#define RECEIVES(function)                                                                                             \
	SEC("fexit/" #function)                                                                                        \
	int function##_request(__u64 *ctx)                                                                             \
	{                                                                                                              \
		on_received((__u64)BPF_CORE_READ((struct socket *)ctx[0], sk), ctx[4], ctx[3]);                        \
		return 0;                                                                                              \
	}
RECEIVES(inet_recvmsg)
RECEIVES(inet6_recvmsg)
RECEIVES(unix_stream_recvmsg)

/* Its socket is read as bytes, so that it is a number: functions that are verified on their own take no pointer
 * for one. */
SEC("fexit/tcp_sendmsg")
int tcp_sendmsg_request(__u64 *ctx)
{
	__u64 sk;

	if (bpf_probe_read_kernel(&sk, sizeof(sk), ctx) == 0)
		on_sent(&sk, ctx[3]);
	return 0;
}

SEC("fexit/unix_stream_sendmsg")
int unix_stream_sendmsg_request(__u64 *ctx)
{
	__u64 sk = (__u64)BPF_CORE_READ((struct socket *)ctx[0], sk);

	on_sent(&sk, ctx[3]);
	return 0;
}

/* ---- of both ---- */

SEC("raw_tp/tcp_destroy_sock")
int request_destroy(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 sk = ctx->args[0];
	struct zn_request *c = is_any_known() ? bpf_map_lookup_elem(&requests, &sk) : NULL;

	if (c)
		request_close(c, sk, bpf_ktime_get_ns());
	return 0;
}

/* (sk, old, new): in the context of who calls listen() */
SEC("raw_tp/inet_sock_set_state")
int request_listen(struct bpf_raw_tracepoint_args *ctx)
{
	struct sock *sk = (struct sock *)ctx->args[0];

	if (ctx->args[2] == TCP_LISTEN)
		zn_emit_at_will(ZN_EV_LISTEN, ZN_ROW_NONE, BPF_CORE_READ(sk, __sk_common.skc_num));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
