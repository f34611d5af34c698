/* SPDX-License-Identifier: GPL-2.0 */
/*
 * requests.c: the servers whose requests are counted, from when they are found until they end. What is counted of them
 * is in the arena, where bpf/requests.bpf.c writes it.
 */
#include <string.h>

#include "zernel.h"

#define REST_NS ZN_NS_PER_S /* programs that found a server may write to it for a moment more */

/* As the parser makes it of a path: of the pattern itself, whose "*" is a name like any other. */
uint64_t zn_request_route_key(enum zn_request_route route)
{
	static const char *const pattern[] = {
#define X(e, text, pattern) pattern,
		ZN_REQUEST_ROUTES(X)
#undef X
	};
	struct zn_request_scratch s = {.have = 0};
	struct zn_request c = {.line = ZN_LINE_METHOD};
	const char *star;

	if (route >= ZN_ROUTE_COUNT || !*pattern[route])
		return 0;
	s.have = (uint32_t)snprintf((char *)s.bytes, ZN_REQUEST_BYTES, "GET %s ", pattern[route]);
	zn_http1_line(&c, &s);
	star = strchr(pattern[route], '*');
	return zn_http1_key(&c, !star ? ZN_ROUTE_EXACT : star[1] ? ZN_ROUTE_LAST : ZN_ROUTE_BELOW);
}

const struct zn_server *zn_server_by_id(const struct zn_arena *a, uint32_t id)
{
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *server = zn_server_at(a, i);

		if (server && server->id == id)
			return server;
	}
	return NULL;
}

bool zn_server_is(const struct zn_arena *a, uint32_t tgid)
{
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *server = zn_server_at(a, i);

		if (server && server->tgid == tgid)
			return true;
	}
	return false;
}

const struct zn_request_series *zn_server_series(
	const struct zn_arena *a, const struct zn_server *server, enum zn_request_route route)
{
	uint32_t index = server->series[route];
	const struct zn_request_series *s = index && index <= ZN_REQUEST_SERIES ? &a->request_series[index - 1] : NULL;

	return s && s->id == server->id ? s : NULL;
}

const struct zn_hist *zn_request_hist(struct zn_arena *a, uint32_t slot)
{
	const struct zn_hist *h = slot < ZN_HISTS_MAX ? zn_arena_hist(a, slot) : NULL;

	return h && h->calls ? h : NULL;
}

void zn_requests_init(struct zn_requests *r, struct zn_arena *a)
{
	*r = (struct zn_requests){.arena = a};
}

void zn_requests_found(void *requests, const struct zn_server *server)
{
	struct zn_requests *r = requests;
	struct zn_arena *a = r->arena;

	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *known = zn_server_at(a, i);

		if (known && known->tgid == server->tgid)
			return;
	}
	if (a->ops->server_add && a->ops->server_add(a, server) >= 0)
		r->count++;
}

/* Of a process that uses a GPU: what its threads wait for at sockets of TCP is no other rank. */
static void asked_mark(struct zn_arena *a, const struct zn_server *server)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		struct zn_proc *p = a->shared->row_tgid[row] == server->tgid ? zn_arena_proc(a, row) : NULL;

		if (p && !(p->calls & ZN_IS_ASKED))
			__atomic_fetch_or(&p->calls, ZN_IS_ASKED, __ATOMIC_RELAXED);
	}
}

void zn_requests_tick(struct zn_requests *r, uint64_t now_ns)
{
	struct zn_arena *a = r->arena;

	for (uint32_t i = 0; a->servers && i < ZN_SERVERS_MAX; i++) {
		struct zn_server *server = &a->servers[i];

		if (!server->id)
			continue;
		if (server->gone_ns) {
			if (now_ns - server->gone_ns >= REST_NS)
				a->ops->server_free(a, i);
			continue;
		}
		if (!r->ended || !r->ended(server->tgid)) {
			if (server->begun)
				asked_mark(a, server);
			continue;
		}
		a->ops->server_gone(a, i);
		server->gone_ns = now_ns;
		r->count--;
	}
}
