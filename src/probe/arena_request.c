/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Servers and their requests in the BPF maps: which processes are watched, and what of them is given back. A connection
 * over a Unix socket has no end that the kernel tells of, and one over TCP has none if its client has gone without a
 * word and its server sends nothing, so those that stand still are looked after here.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LOOK_NS (10 * ZN_NS_PER_S)
#define SETTLED_NS                                                                                                     \
	(60 * ZN_NS_PER_S) /* an answer without a length, over a Unix socket, on which nothing was sent for so long */
#define SILENT_NS (600 * ZN_NS_PER_S)       /* likewise any other request; a connection without one, over TCP too */
#define TCP_NS    (3600 * ZN_NS_PER_S)      /* a request over TCP, and a stream */
#define REST_NS   (24 * 3600 * ZN_NS_PER_S) /* a connection of HTTP/2, which rests between requests, and one not read */

/* Both are small: all of them are mapped. */
static void *table_map(struct zn_probe *p, enum zn_map m, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, p->map_fd[m], 0);

	return at == MAP_FAILED ? NULL : at;
}

static int routes_fill(struct zn_probe *p)
{
	for (uint32_t route = 1; route < ZN_ROUTE_COUNT; route++) {
		uint64_t key = zn_request_route_key(route);

		if (key && bpf_map_update_elem(p->map_fd[ZN_MAP_ROUTES], &key, &route, BPF_ANY))
			return -errno;
	}
	return 0;
}

int zn_bpf_request_open(struct zn_probe *p)
{
	struct zn_arena *a = &p->arena;
	struct timespec tick;

	if (!(p->families >> ZN_FAM_REQUESTS & 1))
		return 0;
	a->servers = table_map(p, ZN_MAP_SERVERS, ZN_SERVERS_MAX * sizeof(*a->servers));
	a->request_series = table_map(p, ZN_MAP_REQUEST_SERIES, ZN_REQUEST_SERIES * sizeof(*a->request_series));
	a->services = table_map(p, ZN_MAP_SERVICES, ZN_SERVICES_MAX * sizeof(*a->services));
	if (!a->servers || !a->request_series || !a->services)
		return -errno;
	clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
	a->shared->jiffy_ns = (uint32_t)tick.tv_nsec;
	return routes_fill(p);
}

void zn_bpf_request_close(struct zn_probe *p)
{
	struct zn_arena *a = &p->arena;

	if (a->servers)
		munmap(a->servers, ZN_SERVERS_MAX * sizeof(*a->servers));
	if (a->request_series)
		munmap(a->request_series, ZN_REQUEST_SERIES * sizeof(*a->request_series));
	if (a->services)
		munmap(a->services, ZN_SERVICES_MAX * sizeof(*a->services));
	a->servers = NULL;
	a->services = NULL;
	a->request_series = NULL;
}

static uint64_t filter_bit(uint32_t tgid)
{
	return 1ULL << (ZN_SERVED_AT(tgid) % 64);
}

static __u64 *filter_word(struct zn_arena *a, uint32_t tgid)
{
	return &a->shared->served_bits[ZN_SERVED_AT(tgid) / 64];
}

/* A server's process is not looked for any more: nor is any of these low bits, if no other server has them. */
static void filter_leave(struct zn_arena *a, uint32_t index)
{
	uint32_t tgid = a->servers[index].tgid;

	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)
		if (i != index && a->servers[i].id && !a->servers[i].gone_ns &&
			ZN_SERVED_AT(a->servers[i].tgid) == ZN_SERVED_AT(tgid))
			return;
	__atomic_fetch_and(filter_word(a, tgid), ~filter_bit(tgid), __ATOMIC_RELAXED);
}

/* The page is whole before the process can be found by it. */
int zn_bpf_request_add(struct zn_arena *a, const struct zn_server *server)
{
	struct zn_probe *p = (struct zn_probe *)a;
	struct zn_quota *quota = &a->shared->quota[ZN_QUOTA_SERVER];
	uint32_t i = 0, tgid = server->tgid;

	while (a->servers && i < ZN_SERVERS_MAX && a->servers[i].id)
		i++;
	if (!a->servers || i == ZN_SERVERS_MAX || !zn_quota_take(quota, server->owner)) {
		__atomic_fetch_add(&a->shared->lost[ZN_LOST_SERVER], 1, __ATOMIC_RELAXED);
		return -ENOSPC;
	}
	a->servers[i] = *server;
	do
		a->servers[i].id = __atomic_add_fetch(&a->shared->next_id, 1, __ATOMIC_RELAXED);
	while (!a->servers[i].id);
	__atomic_fetch_or(filter_word(a, tgid), filter_bit(tgid), __ATOMIC_RELAXED);
	if (bpf_map_update_elem(p->map_fd[ZN_MAP_SERVED], &tgid, &i, BPF_ANY)) {
		filter_leave(a, i);
		memset(&a->servers[i], 0, sizeof(a->servers[i]));
		zn_quota_give(quota, server->owner);
		return -errno;
	}
	return (int)i;
}

void zn_bpf_request_gone(struct zn_arena *a, uint32_t index)
{
	uint32_t tgid = a->servers[index].tgid;

	bpf_map_delete_elem(((struct zn_probe *)a)->map_fd[ZN_MAP_SERVED], &tgid);
	filter_leave(a, index);
}

/* The request of an entry that was taken out. */
static void request_end(struct zn_arena *a, const struct zn_request *c, enum zn_request_code code)
{
	struct zn_request_series *s =
		c->series && c->series <= ZN_REQUEST_SERIES ? &a->request_series[c->series - 1] : NULL;

	zn_quota_give(&a->shared->quota[ZN_QUOTA_REQUEST], c->owner);
	if (c->service && c->service <= ZN_SERVICES_MAX && a->services[c->service - 1].id == c->service_id)
		__atomic_fetch_sub(&a->services[c->service - 1].in_flight, 1, __ATOMIC_RELAXED);
	if (!s || s->id != c->id)
		return;
	__atomic_fetch_add(&s->done[code], 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&s->in_flight, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&s->open_ns, c->last_ns > c->start_ns ? c->last_ns - c->start_ns : 0, __ATOMIC_RELAXED);
}

static bool is_of_gone(const struct zn_arena *a, const struct zn_request *c)
{
	return c->server >= ZN_SERVERS_MAX || a->servers[c->server].id != c->id || a->servers[c->server].gone_ns;
}

/* How long nothing was sent or received. */
static uint64_t still_ns(const struct zn_request *c, uint64_t now_ns)
{
	uint64_t last = c->last_ns > c->first_ns ? c->last_ns : c->first_ns;

	if (c->state != ZN_REQUEST_IDLE && c->read_ns > last)
		last = c->read_ns;
	return now_ns > last ? now_ns - last : 0;
}

/* How long that may be, of what is no stream. */
static uint64_t still_max(const struct zn_request *c)
{
	if (c->protocol >= ZN_PROTOCOL_HTTP2 + 1)
		return REST_NS;
	if (c->state == ZN_REQUEST_IDLE)
		return SILENT_NS;
	if (!c->is_unix)
		return TCP_NS;
	return c->state == ZN_REQUEST_BODY && !zn_http1_is_aborted(c) ? SETTLED_NS : SILENT_NS;
}

static bool is_over(const struct zn_arena *a, const struct zn_request *c, bool is_stream, uint64_t now_ns)
{
	return is_of_gone(a, c) || still_ns(c, now_ns) > (is_stream ? TCP_NS : still_max(c));
}

/* What became of the connection of a stream: 0 if it goes on. */
static enum zn_request_code stream_code(struct zn_probe *p, const struct zn_request *c)
{
	struct zn_request of;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_REQUESTS], &c->scan[0], &of) || of.scan[1] != c->scan[2])
		return p->arena.shared->h2_broken[c->scan[1] & (ZN_H2_BROKEN_KEPT - 1)] == (uint32_t)c->scan[1]
			? ZN_OUTCOME_UNKNOWN
			: ZN_OUTCOME_ABORTED;
	return of.broken || of.scan[0] != c->scan[1] ? ZN_OUTCOME_UNKNOWN : 0;
}

/* Of who has waited for too long nobody knows whether an answer would have come. */
static enum zn_request_code code_of(const struct zn_arena *a, const struct zn_request *c, bool is_stream)
{
	if (!is_stream && !zn_http1_is_aborted(c))
		return zn_http1_code(c);
	return is_of_gone(a, c) ? ZN_OUTCOME_ABORTED : ZN_OUTCOME_UNKNOWN;
}

/* Takes it out, if it is over. Meanwhile the address may have become that of a connection of another server. */
static void request_look(struct zn_probe *p, uint64_t key, struct zn_request *c, uint64_t now_ns)
{
	bool is_stream = ZN_H2_IS_STREAM(key);
	enum zn_request_code code = is_stream ? stream_code(p, c) : 0;

	if (!code && !is_over(&p->arena, c, is_stream, now_ns))
		return;
	if (bpf_map_lookup_and_delete_elem(p->map_fd[ZN_MAP_REQUESTS], &key, c))
		return;
	if (!is_stream && !is_over(&p->arena, c, false, now_ns) &&
		!bpf_map_update_elem(p->map_fd[ZN_MAP_REQUESTS], &key, c, BPF_NOEXIST))
		return;
	if (!code)
		code = code_of(&p->arena, c, is_stream);
	request_end(&p->arena, c, code);
}

static void requests_sweep(struct zn_probe *p, uint64_t now_ns)
{
	struct zn_batch b = zn_batch_begin(p, ZN_MAP_REQUESTS);

	while (zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count; i++) {
			struct zn_request c;
			uint64_t key;

			memcpy(&c, zn_batch_value(&b, i), sizeof(c));
			memcpy(&key, zn_batch_key(&b, i), sizeof(key));
			request_look(p, key, &c, now_ns);
		}
}

static void series_free(struct zn_arena *a, struct zn_request_series *s)
{
	uint32_t owner = s->owner;

	for (uint32_t i = 0; i < ZN_REQUEST_DURATIONS; i++)
		if (s->hist[i] < ZN_HISTS_MAX)
			zn_bpf_quota_hist_free(a, ZN_QUOTA_HISTOGRAM, s->hist[i]);
	memset((char *)s + sizeof(s->id), 0, sizeof(*s) - sizeof(s->id));
	__atomic_store_n(&s->id, 0, __ATOMIC_RELEASE);
	zn_quota_give(&a->shared->quota[ZN_QUOTA_ROUTE], owner);
}

void zn_bpf_request_free(struct zn_arena *a, uint32_t index)
{
	struct zn_server *server = &a->servers[index];
	uint32_t owner = server->owner;

	requests_sweep((struct zn_probe *)a, zn_now_ns());
	for (uint32_t i = 0; i < ZN_REQUEST_SERIES; i++)
		if (a->request_series[i].id == server->id)
			series_free(a, &a->request_series[i]);
	for (uint32_t i = 0; i < ZN_SERVER_DURATIONS; i++)
		if (server->hist[i] < ZN_HISTS_MAX)
			zn_bpf_quota_hist_free(a, ZN_QUOTA_HISTOGRAM, server->hist[i]);
	memset(server, 0, sizeof(*server));
	zn_quota_give(&a->shared->quota[ZN_QUOTA_SERVER], owner);
}

void zn_bpf_request_tick(struct zn_probe *p, uint64_t now_ns)
{
	uint32_t *closed = &p->arena.shared->h2_closed;

	if (!p->arena.servers || !p->kernel.serves)
		return;
	if (now_ns - p->requests_ns < LOOK_NS && !__atomic_exchange_n(closed, 0, __ATOMIC_RELAXED))
		return;
	p->requests_ns = now_ns;
	requests_sweep(p, now_ns);
}
