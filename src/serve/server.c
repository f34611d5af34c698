/* SPDX-License-Identifier: GPL-2.0 */
/*
 * server.c: opens and closes the read-only HTTP server, and joins its parts. Connections and the buffers for answers
 * lie in one mapping made at the start, of which only what is used becomes resident.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "zernel.h"

#define OTHER_FILES      1024 /* open files besides clients: libraries, probes, listeners */
#define CLIENTS_PER_TURN 8    /* then the tick, the control socket and the kernel have theirs */

static void after_turn(void *owner)
{
	struct zn_serve *s = owner;

	zn_answer_drop(s);
	zn_conn_reuse(s);
}

static size_t whole_pages(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

static size_t conns_bytes(void)
{
	return whole_pages(sizeof(struct zn_conn) * ZN_CONN_SLOTS);
}

static size_t seats_bytes(void)
{
	return whole_pages(sizeof(struct zn_seat) * ZN_CONN_SLOTS);
}

static size_t memory_bytes(void)
{
	return conns_bytes() + seats_bytes() + (size_t)ZN_BUFFERS_MAX * ZN_BUFFER_BYTES;
}

static int map_memory(struct zn_serve *s)
{
	char *at =
		mmap(NULL, memory_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	madvise(at, memory_bytes(), MADV_NOHUGEPAGE); /* a page touched shall be a page, not 2 MiB */
	s->memory = at;
	s->conns = (struct zn_conn *)at;
	s->seat = (struct zn_seat *)(at + conns_bytes());
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		s->body[i].at = at + conns_bytes() + seats_bytes() + i * ZN_BUFFER_BYTES;
	return 0;
}

static void enforce_limits(struct zn_serve *s, uint64_t now_ns)
{
	for (uint32_t i = 0; i < s->conn_high; i++)
		if (s->conns[i].io.fd >= 0)
			zn_conn_tick(&s->conns[i], now_ns);
}

static void clients_ready(struct zn_io *io, uint32_t events)
{
	(void)events;
	zn_loop_turn(
		&((struct zn_serve *)((char *)io - offsetof(struct zn_serve, clients_io)))->clients, CLIENTS_PER_TURN);
}

static int clients_open(struct zn_serve *s)
{
	int err = zn_loop_open(&s->clients);

	s->clients_io = (struct zn_io){s->clients.fd, clients_ready};
	return err ? err : zn_loop_add(s->loop, &s->clients_io, EPOLLIN);
}

static void limits_ready(struct zn_io *io, uint32_t events)
{
	(void)events;
	zn_timer_count(io);
	enforce_limits((struct zn_serve *)((char *)io - offsetof(struct zn_serve, limits)), zn_now_ns());
}

static int limits_open(struct zn_serve *s)
{
	int err;

	if (s->state->options->push_interval_ms <= ZN_LIMITS_MS)
		return 0;
	s->limits.ready = limits_ready;
	err = zn_timer_open(&s->limits, ZN_LIMITS_MS);
	return err ? err : zn_loop_add(s->loop, &s->limits, EPOLLIN);
}

/* Raises the soft limit of open files as far as the connections may need it. */
static void raise_files(const struct zn_serve *s)
{
	rlim_t need = s->conn_limit + ZN_REFUSED_MAX + OTHER_FILES;
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= need)
		return;
	if (files.rlim_max < need)
		zn_log(ZN_WARN,
			"serve: the hard limit of open files is %llu, but %u connections may need %llu; those beyond "
			"it will have to wait",
			(unsigned long long)files.rlim_max, s->conn_limit, (unsigned long long)need);
	files.rlim_cur = files.rlim_max < need ? files.rlim_max : need;
	setrlimit(RLIMIT_NOFILE, &files); /* up to the hard limit it cannot fail */
}

static uint32_t limit_of(uint64_t asked, uint32_t otherwise)
{
	return asked == 0 ? otherwise : asked < ZN_CONNS_MAX ? (uint32_t)asked : ZN_CONNS_MAX;
}

static const struct zn_conn_ops ops = {
	.answer = zn_answer_request,
	.refuse = zn_answer_error,
	.input = zn_push_read,
	.next = zn_push_next,
	.tick = zn_push_tick,
	.leave = zn_push_leave,
};

int zn_serve_open(struct zn_serve *s, struct zn_loop *loop, const struct zn_state *state, char why[ZN_TEXT_MAX])
{
	const struct zn_options *o = state->options;
	int err;

	*s = (struct zn_serve){
		.loop = loop, .state = state, .rest.io.fd = -1, .pace.fd = -1, .limits.fd = -1, .clients_io.fd = -1};
	s->ops = &ops;
	s->accepted = zn_conn_welcome;
	s->conn_limit = limit_of(o->max_connections, ZN_CONNS);
	s->peer_limit = limit_of(o->max_connections_per_peer, ZN_CONNS_PER_PEER);
	zn_answer_open(s);
	raise_files(s);
	err = map_memory(s);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot serve: no address space: %s", strerror(-err));
	if (!err && (err = clients_open(s)))
		snprintf(why, ZN_TEXT_MAX, "cannot serve: no room for clients: %s", strerror(-err));
	if (!err)
		err = zn_auth_open(&s->access, o, state->node, NULL, why);
	if (!err)
		err = zn_listen_open(s, why);
	if (!err && ((err = zn_push_start(s, zn_serve_port(s, false))) || (err = limits_open(s))))
		snprintf(why, ZN_TEXT_MAX, "cannot serve: no timer: %s", strerror(-err));
	if (err) {
		zn_serve_close(s);
		return err;
	}
	loop->after = after_turn;
	loop->owner = s;
	return 0;
}

/* Nobody is waited for; a WebSocket gets its Close. */
static void end_conn(struct zn_conn *c)
{
	if (c->io.fd >= 0 && c->state == ZN_CONN_PUSH)
		zn_push_bye(c);
	zn_conn_close(c);
}

void zn_serve_close(struct zn_serve *s)
{
	if (!s->loop)
		return;
	zn_listen_close(s);
	for (uint32_t i = 0; i < s->conn_high; i++)
		end_conn(&s->conns[i]);
	zn_loop_forget(s->loop, &s->clients_io);
	zn_loop_forget(s->loop, &s->pace);
	zn_loop_forget(s->loop, &s->limits);
	if (s->loop->owner == s)
		s->loop->after = NULL;
	if (s->memory)
		munmap(s->memory, memory_bytes());
	*s = (struct zn_serve){0};
}

void zn_serve_tick(struct zn_serve *s, uint64_t now_ns)
{
	zn_listen_tick(s, now_ns);
	zn_push_render(s, now_ns);
	enforce_limits(s, now_ns); /* who was offered the new snapshot gets it there */
}

uint16_t zn_serve_port(const struct zn_serve *s, bool ws)
{
	for (uint32_t i = 0; i < s->listener_count; i++)
		if (s->listener[i].ws == ws && !s->listener[i].local)
			return s->listener[i].port;
	return 0;
}
