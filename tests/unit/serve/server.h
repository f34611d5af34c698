/* SPDX-License-Identifier: GPL-2.0 */
/*
 * server.h: a server with clients, for the tests of this folder: real sockets on one thread. The loop runs one
 * turn at a time, so that nothing depends on timing; a wait only ends a test that hangs. Time limits are tested by
 * telling zn_serve_tick() that it is later. What the daemon would render is made up here.
 */
#ifndef SERVER_H
#define SERVER_H

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <linux/sockios.h>
#include <unistd.h>

#include "t.h"
#include "zernel.h"

#define HANG_TURNS 12000                      /* of 1 ms each, once nothing moves */
#define KEY        "dGhlIHNhbXBsZSBub25jZQ==" /* RFC 6455, section 1.3 */
#define HANDSHAKE                                                                                                      \
	"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"                         \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " KEY "\r\n"

const char zn_version[] = "1.2.3", zn_commit[] = "0123abc";
/* <!doctype html><title>page</title>, as gzip makes it */
const char zn_page_gzip[] =
	"\037\213\010\0\0\0\0\0\002\003"
	"\263\121\114\311\117\056\251\054\110\125\310\050\311\315\261\263\051\311\054\311\111\265\053\110\114\117\265\321\207\260\001"
	"\010\201\167\167\042\0\0";
char zn_page[34];
const size_t zn_page_len = sizeof(zn_page), zn_page_gzip_len = sizeof(zn_page_gzip);
const char zn_page_etag[] = "\"0123456789abcdef\"";
const char zn_page_headers[] = "ETag: \"0123456789abcdef\"\r\nCache-Control: no-cache\r\n"
			       "Content-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\n";

static struct zn_options options;
static struct zn_state view = {.options = &options, .node = "node7"};
static struct zn_loop loop;
static struct zn_serve s;
static size_t metrics_bytes, snapshot_bytes;
static unsigned metrics_renders, snapshot_seq, refreshes;
static int health_status = 200;

/* Byte i of a long answer, so that a piece in the wrong place shows. */
static inline char pattern(size_t i)
{
	return (char)('a' + i % 23);
}

static inline void out_pattern(struct zn_out *o, size_t len)
{
	for (size_t i = 0; i < len; i++)
		zn_out_char(o, pattern(i));
}

void zn_state_refresh(const struct zn_state *v)
{
	(void)v;
	refreshes++;
}

static uint32_t asked_collect;

void zn_metrics_proto(struct zn_out *o, const struct zn_state *v, uint32_t collect)
{
	(void)v;
	asked_collect = collect;
	metrics_renders++;
	zn_out_text(o, "proto\n");
}

void zn_metrics_text(struct zn_out *o, const struct zn_state *v, bool openmetrics, uint32_t collect)
{
	(void)v;
	asked_collect = collect;
	metrics_renders++;
	if (metrics_bytes)
		out_pattern(o, metrics_bytes);
	else
		zn_out_text(o, openmetrics ? "open\n" : "text\n");
}

bool zn_snapshot_json(struct zn_out *o, const struct zn_state *v, const struct zn_filter *filter)
{
	(void)v;
	zn_out_u64(o, ++snapshot_seq);
	zn_out_char(o, ' ');
	if (filter->topics != ZN_TOPICS_ALL || *filter->job) {
		zn_out_text(o, "job \"");
		zn_out_text(o, filter->job);
		zn_out_text(o, "\" topics ");
		zn_out_u64(o, filter->topics);
		zn_out_char(o, ' ');
	}
	out_pattern(o, snapshot_bytes);
	return true;
}

void zn_snapshot_alerts(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_text(o, "[\"alerts\"]");
}

void zn_history_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_text(o, "{\"history\":1}");
}

void zn_ghosts_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_text(o, "{\"ghosts\":[]}");
}

void zn_jobs_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_text(o, "{\"jobs\":[]}");
}

void zn_why_json(struct zn_out *o, const struct zn_state *v, const struct zn_filter *filter)
{
	(void)v;
	zn_out_text(o, "{\"why\":[], \"job\": \"");
	zn_out_text(o, filter->job);
	zn_out_text(o, "\"}");
}

bool zn_why_item(struct zn_json *j, const struct zn_state *v, uint32_t i, const char *job, bool timeline)
{
	(void)j, (void)v, (void)i, (void)job, (void)timeline;
	return false;
}

int zn_health_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_text(o, "{\"health\":1}");
	return health_status;
}

static struct zn_io stopper;

static inline void stop_ready(struct zn_io *io, uint32_t events)
{
	(void)io;
	(void)events;
	loop.stop = true;
}

static inline void turn(void)
{
	loop.stop = false;
	CHECK_EQ(zn_loop_run(&loop), 0);
}

static inline void start_on(const char *addresses)
{
	char why[ZN_TEXT_MAX] = "";

	metrics_bytes = snapshot_bytes = metrics_renders = snapshot_seq = refreshes = 0;
	options.ws_origin[0] = '\0';
	options.max_connections = options.max_connections_per_peer = 0;
	snprintf(options.host_names, sizeof(options.host_names), "x");
	snprintf(options.listen, sizeof(options.listen), "%s", addresses);
	CHECK_EQ(zn_loop_open(&loop), 0);
	stopper = (struct zn_io){eventfd(1, EFD_CLOEXEC), stop_ready};
	CHECK_EQ(zn_loop_add(&loop, &stopper, EPOLLIN), 0);
	CHECK_EQ(zn_serve_open(&s, &loop, &view, why), 0);
	CHECK_STR(why, "");
}

static inline void start(void)
{
	start_on("127.0.0.1");
}

static inline void stop(void)
{
	zn_serve_close(&s);
	zn_loop_forget(&loop, &stopper);
	zn_loop_close(&loop);
}

static inline void tick(uint64_t later_s)
{
	zn_serve_tick(&s, zn_now_ns() + later_s * ZN_NS_PER_S);
	turn();
}

struct client {
	int fd;
	char *data; /* received and not yet taken; owned, NUL after it */
	size_t len, cap;
	bool eof, reset;
};

static inline struct client dial_with(bool ws, int receive_bytes)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct client c = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	to.sin_port = htons(zn_serve_port(&s, ws));
	setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* else a second piece waits 40 ms */
	if (receive_bytes)
		setsockopt(c.fd, SOL_SOCKET, SO_RCVBUF, &receive_bytes, sizeof(receive_bytes));
	CHECK(c.fd >= 0 && !connect(c.fd, (struct sockaddr *)&to, sizeof(to)));
	return c;
}

static inline struct client dial(bool ws)
{
	return dial_with(ws, 0);
}

/* Says it without running the server: it is there for the next turn. */
static inline void post(struct client *c, uint32_t slot, const char *text)
{
	int there = 0;

	CHECK_EQ(send(c->fd, text, strlen(text), 0), strlen(text));
	for (int i = 0; i < HANG_TURNS && there != (int)strlen(text); i++) {
		ioctl(s.conns[slot].io.fd, FIONREAD, &there);
		usleep(i > 100 ? 1000 : 0);
	}
	CHECK_EQ(there, strlen(text));
}

static inline void check_no_body_held(void)
{
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		CHECK_EQ(s.body[i].refs, 0);
}

static inline unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned count = 0;

	while (d && readdir(d))
		count++;
	if (d)
		closedir(d);
	return count;
}

static inline void hang_up(struct client *c)
{
	close(c->fd);
	free(c->data);
	*c = (struct client){.fd = -1};
}

/* Takes in at most max bytes that have come; true if there was anything, the end included. */
static inline bool hear(struct client *c, size_t max)
{
	ssize_t n;

	if (c->eof || c->reset)
		return false;
	if (c->cap - c->len <= max) {
		c->cap = 2 * c->cap + max + 1;
		c->data = realloc(c->data, c->cap);
	}
	n = recv(c->fd, c->data + c->len, max, MSG_DONTWAIT);
	c->eof = n == 0;
	c->reset = n < 0 && errno != EAGAIN;
	c->len += n > 0 ? (size_t)n : 0;
	c->data[c->len] = '\0';
	return n > 0 || c->eof || c->reset;
}

/* Lets the server run until at least `want` bytes are there; false: the connection ended, or it hangs. */
static inline bool await(struct client *c, size_t want)
{
	for (int idle = 0; c->len < want && !c->eof && !c->reset;) {
		turn();
		if (hear(c, 1 << 16))
			idle = 0;
		else if (idle++ == HANG_TURNS)
			return false;
		else if (idle > 100)
			usleep(1000);
	}
	return c->len >= want;
}

static inline bool await_eof(struct client *c)
{
	await(c, SIZE_MAX);
	return c->eof;
}

static inline void say(struct client *c, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = send(c->fd, (const char *)bytes + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN)
			return;
		at += n > 0 ? (size_t)n : 0;
		turn();
	}
}

/* Says it, and lets the server run until it has read it. For the only client, in slot 0. */
static inline void deliver(struct client *c, const void *bytes, size_t len)
{
	int unread = 1, unsent = 1;

	say(c, bytes, len);
	for (int i = 0; i < HANG_TURNS && (unread || unsent); i++) {
		turn();
		ioctl(c->fd, SIOCOUTQ, &unsent);
		if (ioctl(s.conns[0].io.fd, FIONREAD, &unread))
			return;
		usleep(i > 20 ? 1000 : 0); /* until a delayed acknowledgment */
	}
	CHECK_EQ(unread + unsent, 0);
}

static inline void say_text(struct client *c, const char *text)
{
	say(c, text, strlen(text));
}

static inline void take(struct client *c, size_t len)
{
	memmove(c->data, c->data + len, c->len - len + 1);
	c->len -= len;
}

/* Waits until the server has accepted `count` clients and read what they sent. */
static inline void settle(uint32_t count)
{
	for (int i = 0; i < HANG_TURNS && s.stats.conn_count != count; i++) {
		turn();
		usleep(i > 100 ? 1000 : 0);
	}
	CHECK_EQ(s.stats.conn_count, count);
}

struct reply {
	int status;
	char head[1024];
	size_t length;
	char *body; /* into the client's data until take_reply() */
	bool has_length;
};

/* The next answer, without taking it: head and, but for HEAD and 101, the body. */
static inline bool await_reply(struct client *c, struct reply *r, bool head_only)
{
	char *end = NULL, *line;
	size_t head;

	*r = (struct reply){0};
	for (size_t want = 1; await(c, want); want = c->len + 1) {
		end = strstr(c->data, "\r\n\r\n");
		if (end)
			break;
	}
	CHECK(end != NULL);
	head = end ? (size_t)(end - c->data) + 4 : 0;
	if (!head || head >= sizeof(r->head))
		return false;
	memcpy(r->head, c->data, head);
	CHECK_EQ(sscanf(r->head, "HTTP/1.1 %d ", &r->status), 1);
	line = strstr(r->head, "\r\nContent-Length: ");
	r->has_length = line;
	r->length = line ? strtoul(line + 18, NULL, 10) : 0;
	if (!head_only && !await(c, head + r->length))
		return false;
	r->body = c->data + head;
	return true;
}

static inline void take_reply(struct client *c, const struct reply *r, bool head_only)
{
	if (r->body)
		take(c, (size_t)(r->body - c->data) + (head_only ? 0 : r->length));
}

static inline int get(struct client *c, const char *path)
{
	char text[256];
	struct reply r;

	snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path);
	say_text(c, text);
	await_reply(c, &r, false);
	take_reply(c, &r, false);
	return r.status;
}

struct frame {
	int op; /* -1: none */
	size_t len;
	char *data; /* into the client's data until take_frame() */
};

static inline bool await_frame(struct client *c, struct frame *f)
{
	size_t head = 2;

	*f = (struct frame){.op = -1};
	if (!await(c, 2))
		return false;
	f->len = c->data[1] & 127;
	CHECK(!(c->data[1] & 0x80));
	head += f->len == 126 ? 2 : f->len == 127 ? 8 : 0;
	if (!await(c, head))
		return false;
	for (size_t i = 2; i < head; i++)
		f->len = (i == 2 ? 0 : f->len << 8) | (uint8_t)c->data[i];
	if (!await(c, head + f->len))
		return false;
	f->op = c->data[0] & 15;
	f->data = c->data + head;
	return true;
}

static inline void take_frame(struct client *c, const struct frame *f)
{
	if (f->op >= 0)
		take(c, (size_t)(f->data - c->data) + f->len);
}

/* A client with its handshake done, and the first snapshot taken. */
static inline struct client open_ws(int receive_bytes)
{
	struct client c = dial_with(true, receive_bytes);
	struct reply r;
	struct frame f;

	say_text(&c, HANDSHAKE "\r\n");
	CHECK(await_reply(&c, &r, true));
	CHECK_EQ(r.status, 101);
	take_reply(&c, &r, true);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_TEXT);
	take_frame(&c, &f);
	return c;
}

enum { PAGE, METRICS, JSON, HISTORY, ALERTS, JOBS, HEALTH, WS, WHY };

static const struct {
	const char *name;
	int first;
	const char *data;
	size_t len;
	int code; /* 0: a Close without one */
} closes[] = {
	{"close 1000", 0x88, "\x03\xe8", 2, 1000},
	{"close without a code", 0x88, "", 0, 0},
	{"close 4999 with a reason", 0x88,
		"\x13\x87"
		"why",
		5, 4999},
	{"close of one byte", 0x88, "\x03", 1, 1002},
	{"close 1005", 0x88, "\x03\xed", 2, 1002},
	{"close 5000", 0x88, "\x13\x88", 2, 1002},
	{"close with bad UTF-8", 0x88, "\x03\xe8\xff", 3, 1007},
	{"text with bad UTF-8", 0x81, "\xff", 1, 1007},
	{"reserved bit", 0xc1, "a", 1, 1002},
	{"reserved opcode", 0x83, "a", 1, 1002},
	{"continuation of nothing", 0x80, "a", 1, 1002},
	{"ping in fragments", 0x09, "a", 1, 1002},
};

#endif
