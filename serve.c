/* SPDX-License-Identifier: GPL-2.0 */
/*
 * serve.c: connections and routes of the read-only HTTP server. Connections and the buffers for answers lie
 * in one mapping made at the start, of which only what is used becomes resident. A request body is never
 * read. Where connections come from is listen.c, their WebSocket side push.c, the grammar http.c.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "zernel.h"

#define REQUEST_COST (ZN_WRITE_PER_TURN / 16) /* so that one client gets at most 16 answers in a turn */
#define HEAD_NS      (10 * ZN_NS_PER_S)
#define IDLE_NS      (75 * ZN_NS_PER_S) /* longer than a usual scrape interval */
#define WRITE_NS     (10 * ZN_NS_PER_S)
#define DRAIN_NS     (2 * ZN_NS_PER_S)
#define DRAIN_BYTES  (64 << 10)
#define KEEP_BYTES   (64 << 10) /* of a free body's memory, once it was larger than RETURN_BYTES */
#define RETURN_BYTES (512 << 10)
#define NO_STORE     "Cache-Control: no-store\r\n"
#define ALLOW        "Allow: GET, HEAD, OPTIONS\r\n"

static const int codes[ZN_CODE_COUNT] = {
#define X(code) code,
	ZN_CODES(X)
#undef X
};

/* What goes with a status: further headers, and the body of an answer that has no other. */
static const struct remark {
	int status;
	const char *extra;
	const char *line;
} remarks[] = {
	{200, NO_STORE, ""},
	{204, NO_STORE ALLOW, ""},
	{400, NO_STORE, "the request is not well-formed\n"},
	{403, NO_STORE, "this origin or host name may not open the WebSocket; see --ws-origin\n"},
	{404, NO_STORE, "nothing is here; / on the metrics port lists what there is\n"},
	{405, NO_STORE ALLOW, "only GET, HEAD and OPTIONS are answered\n"},
	{408, NO_STORE, "the request head took longer than 10 s\n"},
	{414, NO_STORE, "the request target is too long\n"},
	{417, NO_STORE, "no expectation but 100-continue is met here\n"},
	{426, NO_STORE "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
		"only WebSocket, version 13, is spoken here\n"},
	{431, NO_STORE, "the request head is too long\n"},
	{500, NO_STORE, "the answer does not fit into its buffer\n"},
	{501, NO_STORE, "this method is not known\n"},
	{503, NO_STORE "Retry-After: 1\r\n", "everything is in use; ask again in a second\n"},
	{505, NO_STORE, "only HTTP/1.0 and HTTP/1.1 are spoken\n"},
};

static const struct remark *remark_of(int status)
{
	size_t i = 0;

	while (i + 1 < ZN_LEN(remarks) && remarks[i].status != status)
		i++;
	return &remarks[i];
}

struct zn_body *zn_body_get(struct zn_serve *s)
{
	for (size_t i = 0; i < ZN_LEN(s->body); i++) {
		if (!s->body[i].refs) {
			s->body[i].refs = 1;
			s->body[i].len = 0;
			return &s->body[i];
		}
	}
	s->lost[ZN_LOST_RESPONSE]++;
	return NULL;
}

void zn_body_put(struct zn_body *b)
{
	if (--b->refs == 0 && b->len > RETURN_BYTES)
		madvise(b->at + KEEP_BYTES, ZN_BODY_BYTES - KEEP_BYTES, MADV_DONTNEED);
}

/* A buffer for an answer; false: there is none, and the answer is 503. */
static bool begin(struct zn_serve *s, struct zn_answer *to, struct zn_out *o)
{
	to->body = zn_body_get(s);
	to->status = to->body ? 200 : 503;
	if (to->body)
		*o = (struct zn_out){.at = to->body->at, .cap = ZN_BODY_BYTES};
	return to->body;
}

static void finish(struct zn_serve *s, struct zn_answer *to, const struct zn_out *o, const char *type)
{
	to->type = type;
	to->body->len = o->len;
	if (!o->full)
		return;
	zn_body_put(to->body);
	to->body = NULL;
	to->status = 500;
	s->lost[ZN_LOST_RESPONSE]++;
}

static void get_index(struct zn_serve *s, const struct zn_http_req *req, struct zn_answer *to)
{
	struct zn_out o;

	(void)req;
	if (!begin(s, to, &o))
		return;
	zn_out_text(&o, "zerneld ");
	zn_out_text(&o, zn_version);
	zn_out_text(&o, ": what machine-learning jobs do on this node\nsource: commit ");
	zn_out_text(&o, zn_commit);
	zn_out_text(&o, ", GPL-2.0\n\n");
	for (const struct zn_route *r = s->routes; r->path; r++) {
		zn_out_text(&o, r->path);
		for (size_t len = strlen(r->path); len < 12; len++)
			zn_out_char(&o, ' ');
		zn_out_text(&o, r->help);
		zn_out_char(&o, '\n');
	}
	finish(s, to, &o, "text/plain; charset=utf-8");
}

static void get_metrics(struct zn_serve *s, const struct zn_http_req *req, struct zn_answer *to)
{
	struct zn_out o;

	if (!begin(s, to, &o))
		return;
	zn_metrics_text(&o, s->view, req->openmetrics);
	finish(s, to, &o,
		req->openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
				 : "text/plain; version=0.0.4; charset=utf-8");
}

static void get_json(struct zn_serve *s, const struct zn_http_req *req, struct zn_answer *to)
{
	struct zn_out o;

	(void)req;
	if (!begin(s, to, &o))
		return;
	zn_snapshot_json(&o, s->view, NULL);
	finish(s, to, &o, "application/json");
}

static void get_alerts(struct zn_serve *s, const struct zn_http_req *req, struct zn_answer *to)
{
	struct zn_out o;

	(void)req;
	if (!begin(s, to, &o))
		return;
	zn_alerts_json(&o, s->view);
	finish(s, to, &o, "application/json");
}

static void get_health(struct zn_serve *s, const struct zn_http_req *req, struct zn_answer *to)
{
	struct zn_out o;

	(void)req;
	if (!begin(s, to, &o))
		return;
	to->status = zn_health_json(&o, s->view);
	finish(s, to, &o, "application/json");
}

static const struct zn_route routes[] = {
	{"/", get_index, "this list"},
	{"/metrics", get_metrics, "Prometheus text 0.0.4, or OpenMetrics 1.0 when asked for"},
	{"/json", get_json, "the same as one JSON object"},
	{"/alerts", get_alerts, "alert states as JSON"},
	{"/health", get_health, "200 and what is live, or 503"},
	{"/ws", NULL, "WebSocket: /json at every tick"},
	{NULL, NULL, NULL},
};
_Static_assert(ZN_LEN(routes) - 1 <= ZN_ROUTES_MAX, "struct zn_serve has no room to count another route");

static bool path_is(struct zn_str path, const char *text)
{
	return path.len == strlen(text) && !memcmp(path.at, text, path.len);
}

/* On the WebSocket port, / and /ws alone exist, and both are the WebSocket. */
static const struct zn_route *find_route(const struct zn_conn *c, struct zn_str path)
{
	bool root = c->ws_port && path_is(path, "/");

	for (const struct zn_route *r = c->serve->routes; r->path; r++)
		if (c->ws_port ? !r->get && (root || path_is(path, r->path)) : path_is(path, r->path))
			return r;
	return NULL;
}

static bool waits(const struct zn_conn *c)
{
	return c->out_at < c->out_len || c->body;
}

static void leave_push(struct zn_conn *c)
{
	if (c->state == ZN_CONN_PUSH)
		zn_push_leave(c);
}

static void forget(struct zn_conn *c)
{
	struct zn_serve *s = c->serve;

	leave_push(c);
	zn_loop_forget(s->loop, &c->io);
	if (c->body)
		zn_body_put(c->body);
	c->body = NULL;
	s->conn_count--;
	c->next = s->closed;
	s->closed = c;
}

void zn_conn_queue(struct zn_conn *c, size_t len, struct zn_body *body)
{
	c->out_at = c->body_at = 0;
	c->out_len = len;
	c->body = body;
	c->deadline_ns = zn_now_ns() + WRITE_NS;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

static void note_sent(struct zn_conn *c, size_t sent)
{
	size_t of_out = smaller(sent, c->out_len - c->out_at);
	uint64_t now_ns = zn_now_ns();

	c->budget -= sent;
	c->out_at += of_out;
	c->body_at += sent - of_out;
	c->deadline_ns = now_ns + WRITE_NS;
	if (c->out_at < c->out_len || (c->body && c->body_at < c->body->len))
		return;
	if (c->body)
		zn_body_put(c->body);
	c->body = NULL;
	if (c->state == ZN_CONN_HTTP)
		c->deadline_ns = now_ns + (c->in_len ? HEAD_NS : IDLE_NS);
}

/* Sends what waits, as far as the budget goes. 0: all is gone; 1: some waits; -errno. */
static int flush(struct zn_conn *c)
{
	while (waits(c)) {
		struct iovec part[2] = {{c->out + c->out_at, smaller(c->out_len - c->out_at, c->budget)}};
		struct msghdr message = {.msg_iov = part, .msg_iovlen = 2};
		ssize_t sent;

		if (!c->budget)
			return 1;
		if (c->body) {
			part[1].iov_base = c->body->at + c->body_at;
			part[1].iov_len = smaller(c->body->len - c->body_at, c->budget - part[0].iov_len);
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
	c->deadline_ns = zn_now_ns() + DRAIN_NS;
}

static void count(struct zn_serve *s, const struct zn_route *route, int status)
{
	size_t code = 0;

	while (code + 1 < ZN_CODE_COUNT && codes[code] != status)
		code++;
	s->requests[route ? (size_t)(route - s->routes) : ZN_ROUTES_MAX][code]++;
}

/* Queues an answer. HEAD gets the length of the body, and not the body. */
static void respond(struct zn_conn *c, const struct zn_answer *a, bool head_only)
{
	const struct remark *remark = remark_of(a->status);
	const char *line = *a->why ? a->why : remark->line, *end = *a->why ? "\n" : "";
	struct zn_out o = {.at = c->out, .cap = sizeof(c->out)};
	struct zn_http_res res = {.status = a->status,
		.type = a->body ? a->type : "text/plain; charset=utf-8",
		.extra = remark->extra,
		.length = a->body ? a->body->len : strlen(line) + strlen(end),
		.close = c->last,
		.no_length = a->status == 204,
		.date_s = (int64_t)(zn_wall_ms() / 1000)};

	if (a->status == 204)
		res.type = NULL;
	zn_http_head(&o, &res);
	if (!a->body && !head_only) {
		zn_out_text(&o, line);
		zn_out_text(&o, end);
	}
	if (a->body && !head_only)
		a->body->refs++;
	zn_conn_queue(c, o.len, head_only ? NULL : a->body);
}

static void drop_shared(struct zn_serve *s)
{
	if (s->shared.body)
		zn_body_put(s->shared.body);
	s->shared = (struct zn_answer){0};
	s->shared_route = NULL;
}

/* Renders an answer, unless the same was asked for earlier in this turn of the loop. */
static void render(struct zn_serve *s, const struct zn_route *route, const struct zn_http_req *req)
{
	if (s->shared_route == route && s->shared_openmetrics == req->openmetrics && s->shared.body)
		return;
	drop_shared(s);
	s->shared_route = route;
	s->shared_openmetrics = req->openmetrics;
	route->get(s, req, &s->shared);
}

/* The status of a request that needs no body, 0: it needs one. After 101 the WebSocket is open. */
static int judge(struct zn_conn *c, const struct zn_http_req *req, const struct zn_route *route, char why[ZN_TEXT_MAX])
{
	if (req->method == ZN_OPTIONS && (route || path_is(req->path, "*")))
		return 204;
	if (!route)
		return 404;
	if (req->method == ZN_OTHER_METHOD)
		return 405;
	if (route->get)
		return 0;
	return req->upgrade ? zn_push_open(c, req, why) : 426;
}

static void handle(struct zn_conn *c, const struct zn_http_req *req)
{
	const struct zn_route *route = find_route(c, req->path);
	struct zn_answer a = {0};

	c->last = !req->keep_alive;
	a.status = judge(c, req, route, a.why);
	if (!a.status) {
		render(c->serve, route, req);
		a = c->serve->shared;
	}
	count(c->serve, route, a.status);
	if (a.status != 101)
		respond(c, &a, req->method == ZN_HEAD);
}

static void refuse(struct zn_conn *c, int status, bool head_only)
{
	c->last = true;
	count(c->serve, NULL, status);
	respond(c, &(struct zn_answer){.status = status}, head_only);
}

/* Answers the next request that has come in whole; false: there is none. */
static bool next_request(struct zn_conn *c)
{
	struct zn_http_req req;
	int used = c->in_len ? zn_http_parse(c->in, c->in_len, &req) : 0;

	if (!used)
		return false;
	c->budget -= smaller(c->budget, REQUEST_COST);
	if (used < 0) {
		refuse(c, -used, req.method == ZN_HEAD);
		return true;
	}
	handle(c, &req);
	c->in_len -= (size_t)used;
	memmove(c->in, c->in + used, c->in_len);
	if (c->state == ZN_CONN_PUSH)
		zn_push_read(c);
	return true;
}

/* Queues what comes next when nothing waits; false: nothing does. */
static bool step(struct zn_conn *c)
{
	if (c->state == ZN_CONN_DRAIN)
		return false;
	if (c->last) {
		begin_drain(c);
		return false;
	}
	return c->state == ZN_CONN_PUSH ? zn_push_next(c) : next_request(c);
}

/* Input is left in the kernel while output waits; a WebSocket is listened to until its Close. */
static void wait_for(struct zn_conn *c, bool output)
{
	bool input = !output || (c->state == ZN_CONN_PUSH && !c->closing);
	uint32_t events = (input ? EPOLLIN : 0) | (output ? EPOLLOUT : 0);

	if (events == c->events)
		return;
	c->events = events;
	if (zn_loop_change(c->serve->loop, &c->io, events))
		forget(c);
}

/* As far as input and output go now. A spent budget counts as output that waits: the socket is writable, so
 * the loop comes back after the others had their turn. */
static void advance(struct zn_conn *c)
{
	int left = 0;

	while (c->budget && !(left = flush(c)) && step(c))
		;
	if (left < 0)
		forget(c);
	else
		wait_for(c, left || !c->budget);
}

void zn_conn_advance(struct zn_conn *c)
{
	c->budget = ZN_WRITE_PER_TURN;
	advance(c);
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
		c->deadline_ns = c->heard_ns + HEAD_NS;
	c->in_len += len;
	if (c->state == ZN_CONN_PUSH)
		zn_push_read(c);
	return true;
}

/* One read; false: the connection is of no more use. Nothing is read while a request waits for its answer, so after
 * the client's last byte no answer is owed. */
static bool receive(struct zn_conn *c)
{
	ssize_t len = recv(c->io.fd, c->in + c->in_len, sizeof(c->in) - c->in_len, 0);

	if (len < 0)
		return errno == EAGAIN || errno == EINTR;
	return len && note_received(c, (size_t)len);
}

static void conn_ready(struct zn_io *io, uint32_t events)
{
	struct zn_conn *c = (struct zn_conn *)io;

	c->budget = ZN_WRITE_PER_TURN;
	if (events & EPOLLERR || (events & (EPOLLIN | EPOLLHUP) && !receive(c)))
		forget(c);
	else
		advance(c);
}

static struct zn_conn *take_slot(struct zn_serve *s)
{
	struct zn_conn *c = s->free;

	if (c)
		s->free = c->next;
	else if (s->conn_high < ZN_CONNS_MAX)
		c = &s->conns[s->conn_high++];
	if (c)
		memset(c, 0, offsetof(struct zn_conn, pong));
	return c;
}

/* All connections are in use. The answer may be lost: nobody waits for this client. */
static void turn_away(struct zn_serve *s, int fd)
{
	const struct remark *remark = remark_of(503);
	struct zn_http_res res = {.status = 503, .type = "text/plain; charset=utf-8", .extra = remark->extra};
	char text[512];
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	res.length = strlen(remark->line);
	res.close = true;
	res.date_s = -1;
	zn_http_head(&o, &res);
	zn_out_text(&o, remark->line);
	send(fd, text, o.len, MSG_NOSIGNAL | MSG_DONTWAIT);
	shutdown(fd, SHUT_WR);
	close(fd);
	s->lost[ZN_LOST_CONNECTION]++;
}

void zn_conn_welcome(struct zn_listener *from, int fd)
{
	struct zn_serve *s = from->serve;
	struct zn_conn *c = take_slot(s);

	if (!c) {
		turn_away(s, fd);
		return;
	}
	c->io = (struct zn_io){fd, conn_ready};
	c->serve = s;
	c->ws_port = from->ws;
	c->deadline_ns = zn_now_ns() + HEAD_NS;
	c->events = EPOLLIN;
	s->conn_count++;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	if (zn_loop_add(s->loop, &c->io, EPOLLIN)) {
		forget(c);
		s->lost[ZN_LOST_CONNECTION]++;
	}
}

static void after_turn(void *owner)
{
	struct zn_serve *s = owner;
	struct zn_conn *c;

	drop_shared(s);
	while ((c = s->closed)) {
		s->closed = c->next;
		c->next = s->free;
		s->free = c;
	}
}

static size_t conns_bytes(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (sizeof(struct zn_conn) * ZN_CONNS_MAX + page - 1) / page * page;
}

static size_t memory_bytes(void)
{
	return conns_bytes() + (size_t)ZN_BODIES_MAX * ZN_BODY_BYTES;
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
	for (size_t i = 0; i < ZN_BODIES_MAX; i++)
		s->body[i].at = at + conns_bytes() + i * ZN_BODY_BYTES;
	return 0;
}

int zn_serve_open(struct zn_serve *s, struct zn_loop *loop, struct zn_view *view, char why[ZN_TEXT_MAX])
{
	int err;

	*s = (struct zn_serve){.loop = loop, .view = view, .routes = routes, .rest.io.fd = -1, .pace.fd = -1};
	err = map_memory(s);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot serve: no address space: %s", strerror(-err));
	else
		err = zn_listen_open(s, why);
	if (!err && (err = zn_push_start(s)))
		snprintf(why, ZN_TEXT_MAX, "cannot serve: no timer: %s", strerror(-err));
	if (err) {
		zn_serve_close(s);
		return err;
	}
	loop->after = after_turn;
	loop->owner = s;
	return 0;
}

void zn_serve_close(struct zn_serve *s)
{
	if (!s->loop)
		return;
	zn_listen_close(s);
	for (uint32_t i = 0; i < s->conn_high; i++) {
		if (s->conns[i].io.fd >= 0 && s->conns[i].state == ZN_CONN_PUSH)
			zn_push_bye(&s->conns[i]);
		zn_loop_forget(s->loop, &s->conns[i].io);
	}
	zn_loop_forget(s->loop, &s->pace);
	if (s->loop->owner == s)
		s->loop->after = NULL;
	if (s->memory)
		munmap(s->memory, memory_bytes());
	*s = (struct zn_serve){0};
}

/* The time limits of HTTP; false: give the client up. One that has sent part of a head is told why. */
static bool tick_http(struct zn_conn *c, uint64_t now_ns)
{
	if (now_ns < c->deadline_ns)
		return true;
	if (waits(c) || !c->in_len)
		return false;
	refuse(c, 408, false);
	return true;
}

static void tick_conn(struct zn_conn *c, uint64_t now_ns)
{
	bool stays = c->state == ZN_CONN_PUSH ? zn_push_tick(c, now_ns) : tick_http(c, now_ns);

	if (stays)
		zn_conn_advance(c);
	else
		forget(c);
}

void zn_serve_tick(struct zn_serve *s, uint64_t now_ns)
{
	zn_push_render(s, now_ns);
	for (uint32_t i = 0; i < s->conn_high; i++)
		if (s->conns[i].io.fd >= 0)
			tick_conn(&s->conns[i], now_ns);
}
