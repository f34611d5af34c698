/* SPDX-License-Identifier: GPL-2.0 */
/*
 * conn.c: connections of the read-only HTTP server: their states, time limits, and what waits to be sent. The
 * grammar is http.c. What is answered, and all of the WebSocket, is behind struct zn_conn_ops.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"

#define DRAIN_BYTES   (64 << 10)               /* of what a client may still send while we wait for it to close */
#define IDLE_S        75                       /* between two requests; longer than a usual scrape interval */
#define PROGRESS_S    10                       /* without a byte taken by the client */
#define REQUEST_COST  (ZN_WRITE_PER_TURN / 16) /* of that: one client gets at most 16 answers in a turn */
#define SCRATCH_BYTES (16 << 10)               /* for what is read only to be thrown away */

static uint64_t after_s(uint64_t seconds)
{
	return zn_now_ns() + seconds * ZN_NS_PER_S;
}

static bool output_waits(const struct zn_conn *c)
{
	return c->out_at < c->out_len || c->body;
}

static void leave_push(struct zn_conn *c)
{
	if (c->state == ZN_CONN_PUSH)
		c->serve->ops->leave(c);
}

static void forget_conn(struct zn_conn *c)
{
	struct zn_serve *s = c->serve;

	if (c->io.fd < 0)
		return;
	leave_push(c);
	zn_loop_forget(&s->clients, &c->io);
	if (c->body)
		zn_buffer_put(c->body);
	c->body = NULL;
	if (c->refused)
		s->refused_count--;
	else
		zn_seat_leave(c);
	c->next = s->closed;
	s->closed = c;
}

/* For something else than before; a WebSocket has nothing to do with it. */
static void wait_anew(struct zn_conn *c, uint64_t seconds)
{
	uint64_t now_ns = zn_now_ns();

	c->deadline_ns = now_ns + seconds * ZN_NS_PER_S;
	if (c->state != ZN_CONN_PUSH)
		zn_seat_since(c, now_ns);
}

void zn_conn_queue(struct zn_conn *c, size_t len, struct zn_buffer *body)
{
	c->out_at = c->body_at = 0;
	c->out_len = len;
	c->body = body;
	wait_anew(c, PROGRESS_S);
}

static size_t smaller_of(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void note_sent(struct zn_conn *c, size_t sent)
{
	size_t of_out = smaller_of(sent, c->out_len - c->out_at);

	c->budget -= sent;
	c->out_at += of_out;
	c->body_at += sent - of_out;
	if (c->out_at < c->out_len || (c->body && c->body_at < c->body->len)) {
		c->deadline_ns = after_s(PROGRESS_S);
		return;
	}
	if (c->body)
		zn_buffer_put(c->body);
	c->body = NULL;
	if (c->state == ZN_CONN_HTTP)
		wait_anew(c, c->in_len ? ZN_HEAD_S : IDLE_S);
}

/* Sends what waits, as far as the budget goes. 0: all is gone; 1: some waits; -errno. */
static int flush_output(struct zn_conn *c)
{
	while (output_waits(c)) {
		struct iovec part[2] = {{c->out + c->out_at, smaller_of(c->out_len - c->out_at, c->budget)}};
		struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
		ssize_t sent;

		if (!c->budget)
			return 1;
		if (c->body) {
			part[1].iov_base = c->body->at + c->body_at;
			part[1].iov_len = smaller_of(c->body->len - c->body_at, c->budget - part[0].iov_len);
		}
		sent = sendmsg(c->io.fd, &message, MSG_NOSIGNAL);
		if (sent < 0)
			return errno == EAGAIN || errno == EINTR ? 1 : -errno;
		note_sent(c, (size_t)sent);
	}
	return 0;
}

/* Closing at once would make the kernel answer what is still to come with a reset, which destroys an answer
 * that the client has not read yet (RFC 9112, section 9.6). */
static void begin_drain(struct zn_conn *c)
{
	leave_push(c);
	shutdown(c->io.fd, SHUT_WR);
	c->state = ZN_CONN_DRAIN;
	c->in_len = c->drained = 0;
	wait_anew(c, ZN_DRAIN_S);
}

static void refuse_request(struct zn_conn *c, int status, bool head_only)
{
	c->state = ZN_CONN_HTTP;
	c->serve->why[0] = '\0';
	c->serve->ops->refuse(c, status, head_only);
}

/* For a body that is not well-formed, too long or too slow. */
static void refuse_body(struct zn_conn *c, int status)
{
	struct zn_http_req req;

	zn_http_parse(c->in, c->in_len, &req);
	refuse_request(c, status, req.method == ZN_HEAD);
}

static void drop_input(struct zn_conn *c, size_t len)
{
	c->in_len -= len;
	memmove(c->in, c->in + len, c->in_len);
}

/* An answer to HEAD is made as any other, and sends next to nothing: its time counts too. */
static void answer_request(struct zn_conn *c, const struct zn_http_req *req)
{
	uint64_t start_ns = zn_now_ns();

	c->serve->ops->answer(c, req);
	c->budget -= smaller_of(c->budget, zn_now_ns() - start_ns);
}

/* The body has ended. Its head was kept, because what it asks for lies in it; nothing comes after it. */
static void answer_kept(struct zn_conn *c)
{
	struct zn_http_req req;

	zn_http_parse(c->in, c->in_len, &req);
	c->state = ZN_CONN_HTTP;
	c->in_len = 0;
	answer_request(c, &req);
}

static void skip_body(struct zn_conn *c, const char *bytes, size_t len)
{
	int used = zn_http_body_read(&c->skip, bytes, len);

	if (used < 0)
		refuse_body(c, -used);
	else if (c->skip.done)
		answer_kept(c);
}

/* A body is read to its end before the answer, else the client's own writing could fail before it has read that. A
 * client that expects 100 (Continue) gets the answer instead (RFC 9110, section 10.1.1) and sends no body. */
static void begin_body(struct zn_conn *c, const struct zn_http_req *req, size_t head)
{
	size_t have = c->in_len - head;

	c->state = ZN_CONN_BODY;
	wait_anew(c, ZN_HEAD_S);
	zn_http_body_init(&c->skip, req);
	c->in_len = head;
	skip_body(c, c->in + head, have);
}

/* Answers the next request that has come in whole; false: there is none. */
static bool next_request(struct zn_conn *c)
{
	struct zn_http_req req;
	int used = c->in_len ? zn_http_parse(c->in, c->in_len, &req) : 0;

	if (!used)
		return false;
	c->budget -= smaller_of(c->budget, REQUEST_COST);
	if (used < 0) {
		refuse_request(c, -used, req.method == ZN_HEAD);
		return true;
	}
	if ((req.length || req.chunked) && !req.expect) {
		begin_body(c, &req, (size_t)used);
		return true;
	}
	answer_request(c, &req);
	drop_input(c, (size_t)used);
	if (c->state == ZN_CONN_PUSH) {
		zn_seat_since(c, 0);
		c->serve->ops->input(c);
	}
	return true;
}

/* Queues what comes next when nothing waits; false: nothing does. */
static bool queue_next(struct zn_conn *c)
{
	if (c->state == ZN_CONN_DRAIN)
		return false;
	if (c->last) {
		begin_drain(c);
		return false;
	}
	if (c->state == ZN_CONN_BODY)
		return false;
	return c->state == ZN_CONN_PUSH ? c->serve->ops->next(c) : next_request(c);
}

/* Input is left in the kernel while output waits; a WebSocket is listened to until its Close. */
static void wait_for(struct zn_conn *c, bool output)
{
	bool input = !output || (c->state == ZN_CONN_PUSH && !c->closing);
	uint32_t events = (input ? EPOLLIN : 0) | (output ? EPOLLOUT : 0);

	if (events == c->events)
		return;
	c->events = events;
	if (zn_loop_change(&c->serve->clients, &c->io, events))
		forget_conn(c);
}

/* Goes on as far as input and output allow now. A spent budget counts as output that waits: the socket is
 * writable, so the loop comes back after the others had their turn. */
static void advance_conn(struct zn_conn *c)
{
	int left = 0;

	while (c->budget && !(left = flush_output(c)) && queue_next(c))
		;
	if (left < 0)
		forget_conn(c);
	else
		wait_for(c, left || !c->budget);
}

void zn_conn_advance(struct zn_conn *c)
{
	c->budget = ZN_WRITE_PER_TURN;
	advance_conn(c);
}

static bool note_received(struct zn_conn *c, size_t len)
{
	c->heard_ns = zn_now_ns();
	c->pinged = false;
	if (c->state == ZN_CONN_DRAIN) {
		c->drained += len;
		return c->drained <= DRAIN_BYTES;
	}
	if (c->state == ZN_CONN_HTTP && !c->in_len)
		wait_anew(c, ZN_HEAD_S);
	c->in_len += len;
	if (c->state == ZN_CONN_PUSH)
		c->serve->ops->input(c);
	return true;
}

/* Reads once; false: the connection is of no more use. Nothing is read while a request waits for its answer, so
 * after the client's last byte no answer is owed. */
static bool receive_input(struct zn_conn *c)
{
	char scratch[SCRATCH_BYTES];
	bool skips = c->state == ZN_CONN_BODY;
	char *to = skips ? scratch : c->in + c->in_len;
	ssize_t len = recv(c->io.fd, to, skips ? sizeof(scratch) : sizeof(c->in) - c->in_len, 0);

	if (len < 0)
		return errno == EAGAIN || errno == EINTR;
	if (len && skips)
		skip_body(c, scratch, (size_t)len);
	return len && (skips || note_received(c, (size_t)len));
}

static void conn_ready(struct zn_io *io, uint32_t events)
{
	struct zn_conn *c = (struct zn_conn *)io;

	c->budget = ZN_WRITE_PER_TURN;
	if (events & EPOLLERR || (events & (EPOLLIN | EPOLLHUP) && !receive_input(c)))
		forget_conn(c);
	else
		advance_conn(c);
}

static struct zn_conn *take_slot(struct zn_serve *s)
{
	struct zn_conn *c = s->free;

	if (c)
		s->free = c->next;
	else if (s->conn_high < ZN_CONN_SLOTS)
		c = &s->conns[s->conn_high++];
	if (c)
		memset(c, 0, offsetof(struct zn_conn, pong));
	return c;
}

/* Beyond a limit: in a slot of its own, so that the answer is not lost to a reset. */
static void turn_away(struct zn_conn *c, enum zn_loss what)
{
	c->refused = true;
	c->budget = ZN_WRITE_PER_TURN;
	c->serve->refused_count++;
	c->serve->why[0] = '\0';
	if (what == ZN_LOST_PEER)
		snprintf(c->serve->why, ZN_TEXT_MAX,
			"this address has too many connections; see --max-connections-per-peer");
	c->serve->ops->refuse(c, 503, false);
}

/* Closes one for the next to come in: of the same peer, so that nobody's newcomers end what others are at, and else any
 * if that helps. A client whose idle connection is closed asks on another. */
static bool make_room(struct zn_serve *s, uint64_t peer, enum zn_loss passed)
{
	struct zn_conn *c = peer ? zn_seat_oldest(s, peer) : NULL;

	if (!c && passed == ZN_LOST_CONNECTION)
		c = zn_seat_oldest(s, 0);
	if (c)
		forget_conn(c);
	return c;
}

void zn_conn_welcome(struct zn_listener *from, int fd, uint64_t peer)
{
	struct zn_serve *s = from->serve;
	enum zn_loss passed = zn_seat_limit(s, peer);
	bool full = passed != ZN_LOSS_COUNT, refused = full && !make_room(s, peer, passed);
	struct zn_conn *c = refused && s->refused_count == ZN_REFUSED_MAX ? NULL : take_slot(s);

	if (full || !c)
		s->stats.lost[full ? passed : ZN_LOST_CONNECTION]++;
	if (!c) {
		close(fd);
		return;
	}
	c->io = (struct zn_io){fd, conn_ready};
	c->serve = s;
	c->ws_port = from->ws;
	c->local = from->local;
	c->events = EPOLLIN;
	if (!c->local)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (refused) {
		turn_away(c, passed);
	} else {
		zn_seat_take(c, peer);
		wait_anew(c, ZN_HEAD_S);
	}
	if (zn_loop_add(&s->clients, &c->io, EPOLLIN)) {
		forget_conn(c);
		s->stats.lost[ZN_LOST_CONNECTION] += !refused;
	} else if (refused) {
		advance_conn(c);
	}
}

void zn_conn_reuse(struct zn_serve *s)
{
	struct zn_conn *c;

	while ((c = s->closed)) {
		s->closed = c->next;
		c->next = s->free;
		s->free = c;
	}
}

/* The time limits of HTTP; false: give the client up. A client that has sent part of a request gets the reason as
 * its answer. */
static bool tick_http(struct zn_conn *c, uint64_t now_ns)
{
	if (output_waits(c)) {
		bool late = now_ns >= c->deadline_ns || now_ns >= c->answer_ns;

		c->serve->stats.lost[ZN_LOST_ANSWER] += late && !c->refused;
		return !late;
	}
	if (now_ns < c->deadline_ns)
		return true;
	if (!c->in_len)
		return false;
	if (c->state == ZN_CONN_BODY)
		refuse_body(c, 408);
	else
		refuse_request(c, 408, false);
	return true;
}

void zn_conn_tick(struct zn_conn *c, uint64_t now_ns)
{
	bool stays = c->state == ZN_CONN_PUSH ? c->serve->ops->tick(c, now_ns) : tick_http(c, now_ns);

	if (stays)
		zn_conn_advance(c);
	else
		forget_conn(c);
}

/* What the client sent must be read, or closing would make a reset of it. */
void zn_conn_close(struct zn_conn *c)
{
	char scratch[SCRATCH_BYTES];

	if (c->io.fd < 0)
		return;
	c->budget = ZN_WRITE_PER_TURN;
	flush_output(c);
	shutdown(c->io.fd, SHUT_WR);
	for (size_t got = 0; got < DRAIN_BYTES;) {
		ssize_t len = recv(c->io.fd, scratch, sizeof(scratch), MSG_DONTWAIT);

		if (len <= 0)
			break;
		got += (size_t)len;
	}
	forget_conn(c);
}
