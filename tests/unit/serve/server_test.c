/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=accept4 */
/*
 * server_test.c: the server (server.c, conn.c, body.c, routes.c, listen.c, push.c) against real sockets, on one
 * thread: the loop runs one turn at a time, so that nothing depends on timing. A wait only ends a test that hangs. The
 * time limits are tested by telling zn_serve_tick() that it is later. What the daemon would render is made up here, and
 * so are failures of accept4().
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <linux/sockios.h>
#include <unistd.h>
#include <zlib.h>

#include "t.h"
#include "zernel.h"

#define HANG_TURNS 12000                      /* of 1 ms each, once nothing moves */
#define KEY        "dGhlIHNhbXBsZSBub25jZQ==" /* RFC 6455, section 1.3 */
#define ACCEPT     "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
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
static char pattern(size_t i)
{
	return (char)('a' + i % 23);
}

static void out_pattern(struct zn_out *o, size_t len)
{
	for (size_t i = 0; i < len; i++)
		zn_out_char(o, pattern(i));
}

void zn_state_refresh(const struct zn_state *v)
{
	(void)v;
	refreshes++;
}

void zn_metrics_proto(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	metrics_renders++;
	zn_out_text(o, "proto\n");
}

void zn_metrics_text(struct zn_out *o, const struct zn_state *v, bool openmetrics)
{
	(void)v;
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

/* accept4() fails like this, 0: not at all, and how often it did. */
static int accept_error;
static unsigned accept_failures;
int __real_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
	if (!accept_error)
		return __real_accept4(fd, address, len, flags);
	accept_failures++;
	errno = accept_error;
	return -1;
}

static struct zn_io stopper;

static void stop_ready(struct zn_io *io, uint32_t events)
{
	(void)io;
	(void)events;
	loop.stop = true;
}

static void turn(void)
{
	loop.stop = false;
	CHECK_EQ(zn_loop_run(&loop), 0);
}

static void start_on(const char *addresses)
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

static void start(void)
{
	start_on("127.0.0.1");
}

static void stop(void)
{
	zn_serve_close(&s);
	zn_loop_forget(&loop, &stopper);
	zn_loop_close(&loop);
}

static void tick(uint64_t later_s)
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

static struct client dial_with(bool ws, int receive_bytes)
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

static struct client dial(bool ws)
{
	return dial_with(ws, 0);
}

/* Says it without running the server: it is there for the next turn. */
static void post(struct client *c, uint32_t slot, const char *text)
{
	int there = 0;

	CHECK_EQ(send(c->fd, text, strlen(text), 0), strlen(text));
	for (int i = 0; i < HANG_TURNS && there != (int)strlen(text); i++) {
		ioctl(s.conns[slot].io.fd, FIONREAD, &there);
		usleep(i > 100 ? 1000 : 0);
	}
	CHECK_EQ(there, strlen(text));
}

static void check_no_body_held(void)
{
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		CHECK_EQ(s.body[i].refs, 0);
}

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned count = 0;

	while (d && readdir(d))
		count++;
	if (d)
		closedir(d);
	return count;
}

static void hang_up(struct client *c)
{
	close(c->fd);
	free(c->data);
	*c = (struct client){.fd = -1};
}

/* Takes in at most max bytes that have come; true if there was anything, the end included. */
static bool hear(struct client *c, size_t max)
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
static bool await(struct client *c, size_t want)
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

static bool await_eof(struct client *c)
{
	await(c, SIZE_MAX);
	return c->eof;
}

/* The end of a connection whose server runs no more. */
static bool await_gone(struct client *c)
{
	for (int i = 0; i < HANG_TURNS && !c->eof && !c->reset; i++) {
		hear(c, 4096);
		usleep(i > 100 ? 1000 : 0);
	}
	return c->eof || c->reset;
}

static void say(struct client *c, const void *bytes, size_t len)
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
static void deliver(struct client *c, const void *bytes, size_t len)
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

static void say_text(struct client *c, const char *text)
{
	say(c, text, strlen(text));
}

static void take(struct client *c, size_t len)
{
	memmove(c->data, c->data + len, c->len - len + 1);
	c->len -= len;
}

/* Waits until the server has accepted `count` clients and read what they sent. */
static void settle(uint32_t count)
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
static bool await_reply(struct client *c, struct reply *r, bool head_only)
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

static void take_reply(struct client *c, const struct reply *r, bool head_only)
{
	if (r->body)
		take(c, (size_t)(r->body - c->data) + (head_only ? 0 : r->length));
}

static int get(struct client *c, const char *path)
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

static bool await_frame(struct client *c, struct frame *f)
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

static void take_frame(struct client *c, const struct frame *f)
{
	if (f->op >= 0)
		take(c, (size_t)(f->data - c->data) + f->len);
}

/* Appends a masked frame of under 126 bytes; its length. first: FIN, reserved bits and opcode. */
static size_t put_frame(char *to, int first, const void *data, size_t len)
{
	static const char mask[4] = {0x11, 0x22, 0x33, 0x44};

	to[0] = (char)first;
	to[1] = (char)(0x80 | len);
	memcpy(to + 2, mask, 4);
	for (size_t i = 0; i < len; i++)
		to[6 + i] = ((const char *)data)[i] ^ mask[i & 3];
	return 6 + len;
}

/* A client with its handshake done, and the first snapshot taken. */
static struct client open_ws(int receive_bytes)
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
	bool ws_port;
	const char *request; /* without the empty line at its end */
	int status;
	const char *head; /* part of it */
	const char *body; /* part of it; "": there is none */
	bool closes;
	int route, code; /* what is counted; route -1: none */
} rows[] = {
	{"page", 0, "GET / HTTP/1.1\r\nHost: x\r\n", 200, "Content-Type: text/html; charset=utf-8\r\n",
		"<title>page</title>", 0, PAGE, ZN_CODE_200},
	{"headers of the page", 0, "GET / HTTP/1.1\r\nHost: x\r\n", 200,
		"ETag: \"0123456789abcdef\"\r\nCache-Control: no-cache\r\nContent-Security-Policy: default-src 'none'\r\nX-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\n\r\n",
		"<title>page</title>", 0, PAGE, ZN_CODE_200},
	{"page compressed", 0, "GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n", 200,
		"Vary: Accept-Encoding\r\nContent-Encoding: gzip\r\n\r\n", "\037\213\010", 0, PAGE, ZN_CODE_200},
	{"page compressed, head", 0, "HEAD / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n", 200,
		"Content-Encoding: gzip\r\n\r\n", "", 0, PAGE, ZN_CODE_200},
	{"page not changed", 0, "GET / HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"a\", W/\"0123456789abcdef\"\r\n", 304,
		"ETag: \"0123456789abcdef\"\r\n", "", 0, PAGE, ZN_CODE_304},
	{"page changed", 0, "GET / HTTP/1.1\r\nHost: x\r\nIf-None-Match: \"0123456789abcdee\"\r\n", 200,
		"ETag: ", "<title>page</title>", 0, PAGE, ZN_CODE_200},
	{"page with a query", 0, "GET /?job=7 HTTP/1.1\r\nHost: x\r\n", 200, "ETag: ", "<title>page</title>", 0, PAGE,
		ZN_CODE_200},
	{"nothing else has a tag", 0, "GET /json HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n", 200,
		"Content-Type: application/json\r\n", "1 ", 0, JSON, ZN_CODE_200},
	{"history", 0, "GET /history HTTP/1.1\r\nHost: x\r\n", 200, "Content-Type: application/json\r\n",
		"{\"history\":1}", 0, HISTORY, ZN_CODE_200},
	{"data is not stored", 0, "GET /alerts HTTP/1.1\r\nHost: x\r\n", 200,
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\n\r\n", "alerts",
		0, ALERTS, ZN_CODE_200},
	{"errors are not stored", 0, "GET /job HTTP/1.1\r\nHost: x\r\n", 404,
		"Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\n", "/metrics", 0, -1, ZN_CODE_404},
	{"narrowed", 0, "GET /json?topics=gpus,alerts&job=a%2D7 HTTP/1.1\r\nHost: x\r\n", 200, "application/json",
		"job \"a-7\" topics 17 ", 0, JSON, ZN_CODE_200},
	{"narrowed by nothing known", 0, "GET /json?topic=gpus HTTP/1.1\r\nHost: x\r\n", 400, "text/plain", "topic", 0,
		JSON, ZN_CODE_400},
	{"narrowed by a bad value", 0, "GET /json?topics=gpu HTTP/1.1\r\nHost: x\r\n", 400, "text/plain", "topics", 0,
		JSON, ZN_CODE_400},
	{"interval is for the WebSocket", 0, "GET /json?interval_ms=500 HTTP/1.1\r\nHost: x\r\n", 400, "text/plain",
		"interval_ms", 0, JSON, ZN_CODE_400},
	{"escaped path", 0, "GET /%6Detrics HTTP/1.1\r\nHost: x\r\n", 200, "version=0.0.4", "text\n", 0, METRICS,
		ZN_CODE_200},
	{"dot segments", 0, "GET /a/../b/./../metrics HTTP/1.1\r\nHost: x\r\n", 200, "version=0.0.4", "text\n", 0,
		METRICS, ZN_CODE_200},
	{"decoded once", 0, "GET /%256Detrics HTTP/1.1\r\nHost: x\r\n", 404, "text/plain", "nothing is here", 0, -1,
		ZN_CODE_404},
	{"bad escape", 0, "GET /%6xetrics HTTP/1.1\r\nHost: x\r\n", 400, "text/plain", "not well-formed", 0, -1,
		ZN_CODE_400},
	{"escaped slash", 0, "GET /a%2fb HTTP/1.1\r\nHost: x\r\n", 400, "text/plain", "not well-formed", 0, -1,
		ZN_CODE_400},
	{"absolute form", 0, "GET http://x/metrics HTTP/1.1\r\nHost: x\r\n", 200, "version=0.0.4", "text\n", 0, METRICS,
		ZN_CODE_200},
	{"another name", 0, "GET /json HTTP/1.1\r\nHost: evil.example\r\n", 421, "text/plain", "--host-names", 0, JSON,
		ZN_CODE_421},
	{"another name in absolute form", 0, "GET http://evil.example/json HTTP/1.1\r\nHost: x\r\n", 421, "text/plain",
		"--host-names", 0, JSON, ZN_CODE_421},
	{"another name, page", 0, "GET / HTTP/1.1\r\nHost: evil.example\r\n", 421, "text/plain", "--host-names", 0,
		PAGE, ZN_CODE_421},
	{"another name, WebSocket", 1, "GET / HTTP/1.1\r\nHost: evil.example\r\n", 421, "text/plain", "--host-names", 0,
		WS, ZN_CODE_421},
	{"another name, metrics", 0, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n", 200, "version=0.0.4", "text\n",
		0, METRICS, ZN_CODE_200},
	{"another name, health", 0, "GET /health HTTP/1.1\r\nHost: evil.example\r\n", 200, "application/json",
		"{\"health\":1}", 0, HEALTH, ZN_CODE_200},
	{"an address for a name", 0, "GET /json HTTP/1.1\r\nHost: [::1]:1\r\n", 200, "application/json", "1 ", 0, JSON,
		ZN_CODE_200},
	{"no CORS", 0,
		"OPTIONS /json HTTP/1.1\r\nHost: x\r\nOrigin: http://y\r\nAccess-Control-Request-Method: GET\r\n", 204,
		"Allow: GET, HEAD, OPTIONS\r\n", "", 0, JSON, ZN_CODE_204},
	{"no name in HTTP/1.0", 0, "GET /json HTTP/1.0\r\n", 200, "Connection: close\r\n", "1 ", 1, JSON, ZN_CODE_200},
	{"http 1.0, kept", 0, "GET /alerts HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n", 200,
		"Connection: keep-alive\r\n", "alerts", 0, ALERTS, ZN_CODE_200},
	{"metrics", 0, "GET /metrics HTTP/1.1\r\nHost: x\r\n", 200,
		"Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n", "text\n", 0, METRICS, ZN_CODE_200},
	{"messages", 0,
		"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/vnd.google.protobuf;"
		"proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.9,text/plain;q=0.5\r\n",
		200,
		"Content-Type: application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited\r\n",
		"proto\n", 0, METRICS, ZN_CODE_200},
	{"openmetrics", 0, "GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text\r\n", 200,
		"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n", "open\n", 0, METRICS,
		ZN_CODE_200},
	{"query", 0, "GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n", 200, "Content-Length: 5\r\n", "text\n", 0, METRICS,
		ZN_CODE_200},
	{"json", 0, "GET /json HTTP/1.1\r\nHost: x\r\n", 200, "Content-Type: application/json\r\n", "1 ", 0, JSON,
		ZN_CODE_200},
	{"alerts", 0, "GET /alerts HTTP/1.1\r\nHost: x\r\n", 200, "Content-Type: application/json\r\n", "[\"alerts\"]",
		0, ALERTS, ZN_CODE_200},
	{"jobs", 0, "GET /jobs HTTP/1.1\r\nHost: x\r\n", 200, "Content-Type: application/json\r\n", "{\"jobs\":[]}", 0,
		JOBS, ZN_CODE_200},
	{"why", 0, "GET /why?job=4711 HTTP/1.1\r\nHost: x\r\n", 200, "Content-Type: application/json\r\n",
		"{\"why\":[], \"job\": \"4711\"}", 0, WHY, ZN_CODE_200},
	{"why of what is no job", 0, "GET /why?job= HTTP/1.1\r\nHost: x\r\n", 400, "text/plain", "job", 0, WHY,
		ZN_CODE_400},
	{"why under another name", 0, "GET /why HTTP/1.1\r\nHost: evil.example\r\n", 421, "text/plain", "--host-names",
		0, WHY, ZN_CODE_421},
	{"jobs under another name", 0, "GET /jobs HTTP/1.1\r\nHost: evil.example\r\n", 421, "text/plain",
		"--host-names", 0, JOBS, ZN_CODE_421},
	{"health", 0, "GET /health HTTP/1.1\r\nHost: x\r\n", 200, "Content-Type: application/json\r\n",
		"{\"health\":1}", 0, HEALTH, ZN_CODE_200},
	{"head", 0, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n", 200, "Content-Length: 5\r\n", "", 0, METRICS, ZN_CODE_200},
	{"head of an error", 0, "HEAD /no HTTP/1.1\r\nHost: x\r\n", 404, "Content-Length: ", "", 0, -1, ZN_CODE_404},
	{"options", 0, "OPTIONS /metrics HTTP/1.1\r\nHost: x\r\n", 204, "Allow: GET, HEAD, OPTIONS\r\n", "", 0, METRICS,
		ZN_CODE_204},
	{"options *", 0, "OPTIONS * HTTP/1.1\r\nHost: x\r\n", 204, "Allow: GET, HEAD, OPTIONS\r\n", "", 0, -1,
		ZN_CODE_204},
	{"options of nothing", 0, "OPTIONS /no HTTP/1.1\r\nHost: x\r\n", 404, "no-store", "nothing is here", 0, -1,
		ZN_CODE_404},
	{"post", 0, "POST /metrics HTTP/1.1\r\nHost: x\r\n", 405, "Allow: GET, HEAD, OPTIONS\r\n", "only GET", 0,
		METRICS, ZN_CODE_405},
	{"post with an empty body", 0, "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n", 405,
		"Allow: GET, HEAD, OPTIONS\r\n", "only GET", 0, JSON, ZN_CODE_405},
	{"post to nothing", 0, "POST /no HTTP/1.1\r\nHost: x\r\n", 404, "no-store", "nothing is here", 0, -1,
		ZN_CODE_404},
	{"a longer path", 0, "GET /metricss HTTP/1.1\r\nHost: x\r\n", 404, "text/plain", "nothing is here", 0, -1,
		ZN_CODE_404},
	{"a shorter path", 0, "GET /metric HTTP/1.1\r\nHost: x\r\n", 404, "text/plain", "nothing is here", 0, -1,
		ZN_CODE_404},
	{"ws without upgrade", 0, "GET /ws HTTP/1.1\r\nHost: x\r\n", 426,
		"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n", "only WebSocket", 0, WS,
		ZN_CODE_426},
	{"ws port /", 1, "GET / HTTP/1.1\r\nHost: x\r\n", 426, "Sec-WebSocket-Version: 13\r\n", "only WebSocket", 0, WS,
		ZN_CODE_426},
	{"ws port /ws", 1, "GET /ws HTTP/1.1\r\nHost: x\r\n", 426, "Sec-WebSocket-Version: 13\r\n", "only WebSocket", 0,
		WS, ZN_CODE_426},
	{"ws port /metrics", 1, "GET /metrics HTTP/1.1\r\nHost: x\r\n", 404, "no-store", "--metrics-port", 0, -1,
		ZN_CODE_404},
	{"ws port post", 1, "POST / HTTP/1.1\r\nHost: x\r\n", 405, "Allow: ", "only GET", 0, WS, ZN_CODE_405},
	{"ws with another version", 0,
		"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Version: 8\r\nSec-WebSocket-Key: " KEY "\r\n",
		426, "Sec-WebSocket-Version: 13\r\n", "only WebSocket", 0, WS, ZN_CODE_426},
	{"ws without a key", 0,
		"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
		400, "no-store", "not well-formed", 0, WS, ZN_CODE_400},
	{"upgrade of a page", 0, "GET /alerts HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n",
		200, "application/json", "[\"alerts\"]", 0, ALERTS, ZN_CODE_200},
	{"close", 0, "GET /alerts HTTP/1.1\r\nHost: x\r\nConnection: close\r\n", 200, "Connection: close\r\n",
		"[\"alerts\"]", 1, ALERTS, ZN_CODE_200},
	{"http 1.0", 0, "GET /alerts HTTP/1.0\r\n", 200, "Connection: close\r\n", "[\"alerts\"]", 1, ALERTS,
		ZN_CODE_200},
	{"http 2", 0, "GET /alerts HTTP/2.0\r\n", 505, "Connection: close\r\n", "only HTTP/1.0", 1, -1, ZN_CODE_505},
	{"no host", 0, "GET /alerts HTTP/1.1\r\n", 400, "Connection: close\r\n", "not well-formed", 1, -1, ZN_CODE_400},
	{"unknown method", 0, "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\n", 501,
		"Connection: close\r\n", "not known", 1, -1, ZN_CODE_501},
};

static void check_row(size_t i)
{
	bool head_only = !strncmp(rows[i].request, "HEAD", 4);
	struct client c = dial(rows[i].ws_port);
	size_t route = rows[i].route < 0 ? ZN_ROUTES_MAX : (size_t)rows[i].route;
	struct reply r;

	say_text(&c, rows[i].request);
	say_text(&c, "\r\n");
	CHECK(await_reply(&c, &r, head_only));
	CHECK_EQ(r.status, rows[i].status);
	CHECK(strstr(r.head, rows[i].head) != NULL);
	CHECK_EQ(r.has_length, r.status != 204 && r.status != 304);
	CHECK(strstr(r.head, "\r\nDate: ") != NULL);
	CHECK(!strstr(r.head, "Access-Control"));
	CHECK_EQ(strstr(r.head, "Connection: close\r\n") != NULL, rows[i].closes);
	CHECK(head_only || (r.body && strstr(r.body, rows[i].body)));
	CHECK_EQ(s.stats.requests[route][rows[i].code], 1);
	take_reply(&c, &r, head_only);
	if (rows[i].closes) {
		CHECK(await_eof(&c));
	} else {
		CHECK_EQ(get(&c, rows[i].ws_port ? "/ws" : "/alerts"), rows[i].ws_port ? 426 : 200);
		CHECK_EQ(c.len, 0);
	}
	hang_up(&c);
}

static void answers(void)
{
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		start();
		check_row(i);
		stop();
	}
}

/* The same in two pieces, wherever it is cut: the answer is the same but for its date. */
static void check_cuts(size_t i)
{
	bool head_only = !strncmp(rows[i].request, "HEAD", 4);
	char text[1024];
	size_t len = (size_t)snprintf(text, sizeof(text), "%s\r\n", rows[i].request);
	struct client c = dial(rows[i].ws_port);
	struct reply r;

	for (size_t cut = 1; cut < len; cut++) {
		say(&c, text, cut);
		say(&c, text + cut, len - cut);
		CHECK(await_reply(&c, &r, head_only));
		CHECK_EQ(r.status, rows[i].status);
		CHECK(strstr(r.head, rows[i].head) != NULL);
		take_reply(&c, &r, head_only);
		CHECK_EQ(c.len, 0);
		if (rows[i].closes) {
			CHECK(await_eof(&c));
			hang_up(&c);
			c = dial(rows[i].ws_port);
		}
	}
	hang_up(&c);
}

static void answers_cut_at_each_byte(void)
{
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		start();
		check_cuts(i);
		stop();
	}
}

/* Requests with a body: its end is where the request ends, and the connection too. */
static const struct {
	const char *name, *request;
	int status;
	const char *body; /* of the answer */
} bodies[] = {
	{"body of a length", "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\nabcdefg", 405, "only GET"},
	{"GET with a body", "GET /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 200, "[\"alerts\"]"},
	{"HEAD with a body", "HEAD /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 200, ""},
	{"body in chunks",
		"POST /json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
		"5\r\nhello\r\n3;a=b\r\nxyz\r\n0\r\nA: b\r\n\r\n",
		405, "only GET"},
	{"a request within a body",
		"GET /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 34\r\n\r\n"
		"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
		200, "[\"alerts\"]"},
	{"a request after a body",
		"GET /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na"
		"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
		200, "[\"alerts\"]"},
	{"body of nothing known", "PUT /no HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na", 404, "nothing is here"},
	{"body that is too long", "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\nabc", 413,
		"too long"},
	{"HEAD with a body that is too long", "HEAD /json HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\nabc", 413,
		""},
	{"chunk that is too long", "POST /json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\nabc",
		413, "too long"},
	{"chunk that is none", "POST /json HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc", 400,
		"not well-formed"},
	{"length and chunks",
		"POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		400, "not well-formed"},
	{"who expects 100 gets the answer",
		"POST /json HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\n", 405, "only GET"},
	{"who expects 100 and goes on",
		"GET /alerts HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 7\r\n\r\nabcdefg", 200,
		"[\"alerts\"]"},
};

static void check_body(size_t i, size_t cut)
{
	const char *text = bodies[i].request;
	bool head_only = !strncmp(text, "HEAD", 4);
	struct client c = dial(false);
	struct reply r;

	say(&c, text, cut);
	say(&c, text + cut, strlen(text) - cut);
	CHECK(await_reply(&c, &r, head_only));
	CHECK_EQ(r.status, bodies[i].status);
	CHECK(strstr(r.head, "\r\nConnection: close\r\n") != NULL);
	CHECK(head_only || (r.body && !strncmp(r.body, bodies[i].body, strlen(bodies[i].body))) ||
		(r.body && strstr(r.body, bodies[i].body)));
	take_reply(&c, &r, head_only);
	CHECK(await_eof(&c));
	CHECK_EQ(c.len, 0);
	hang_up(&c);
}

static void bodies_cut_at_each_byte(void)
{
	for (size_t i = 0; i < ZN_LEN(bodies); i++) {
		t_begin(bodies[i].name);
		start();
		for (size_t cut = 1; cut <= strlen(bodies[i].request); cut++)
			check_body(i, cut);
		CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 0);
		stop();
	}
}

/* The longest body there may be, with a head that leaves no room beside it. */
T(long_body_after_a_long_head)
{
	static char head[ZN_HTTP_HEAD_MAX + 1], body[ZN_HTTP_BODY_MAX];
	int len = snprintf(
		head, sizeof(head), "GET /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\nA: ", sizeof(body));
	struct client c;
	struct reply r;

	start();
	memset(body, 'b', sizeof(body));
	memset(head + len, 'a', sizeof(head) - 5 - (size_t)len);
	memcpy(head + sizeof(head) - 5, "\r\n\r\n", 5);
	c = dial(false);
	say_text(&c, head);
	settle(1);
	CHECK(!hear(&c, 1));
	say(&c, body, sizeof(body) - 1);
	turn();
	CHECK(!hear(&c, 1));
	CHECK_EQ(s.conns[0].state, ZN_CONN_BODY);
	say(&c, body, 1);
	CHECK(await_reply(&c, &r, false));
	CHECK_EQ(r.status, 200);
	take_reply(&c, &r, false);
	CHECK(await_eof(&c));
	hang_up(&c);
	stop();
}

T(slow_body)
{
	uint64_t deadline_ns;
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	settle(1);
	say_text(&c, "GET /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n");
	deliver(&c, "abc", 3);
	CHECK_EQ(s.conns[0].state, ZN_CONN_BODY);
	deadline_ns = s.conns[0].deadline_ns;
	deliver(&c, "def", 3);
	CHECK_EQ(s.conns[0].deadline_ns, deadline_ns); /* the limit is for the whole body */
	tick(ZN_HEAD_S - 1);
	CHECK(!hear(&c, 1));
	tick(ZN_HEAD_S + 1);
	CHECK(await_reply(&c, &r, false));
	CHECK_EQ(r.status, 408);
	take_reply(&c, &r, false);
	CHECK(await_eof(&c));
	hang_up(&c);
	settle(0);
	/* one that ends within is no request */
	c = dial(false);
	say_text(&c, "GET /alerts HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nabc");
	shutdown(c.fd, SHUT_WR);
	CHECK(await_eof(&c));
	CHECK_EQ(c.len, 0);
	hang_up(&c);
	stop();
}

/* Hellos of TLS, old and new, and other noise get a 400 and an orderly end, wherever they are cut. */
T(noise)
{
	static const struct {
		const char *bytes;
		size_t len;
	} noises[] = {
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x20\x0d\x0a\x0d\x0a\x13\x01\x13\x02", 20},
		{"\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10", 11},
		{"\0\0\0\0", 4},
		{"\xff\xf4\xff\xfd\x06\r\n", 7},
		{"SSH-2.0-x\r\n", 11},
		{"\x05\x01\x00", 3},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24},
	};
	struct client c;
	struct reply r;

	start();
	for (size_t i = 0; i < ZN_LEN(noises); i++) {
		for (size_t cut = 1; cut < noises[i].len; cut++) {
			c = dial(false);
			say(&c, noises[i].bytes, cut);
			say(&c, noises[i].bytes + cut, noises[i].len - cut);
			CHECK(await_reply(&c, &r, false));
			CHECK_EQ(r.status, *noises[i].bytes == 'P' ? 505 : 400);
			take_reply(&c, &r, false);
			CHECK(await_eof(&c));
			CHECK(!c.reset && !c.len);
			hang_up(&c);
		}
	}
	stop();
}

/* Clients that vanish with a reset at any point of the exchange leave nothing behind. */
T(resets)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	unsigned before;

	start();
	metrics_bytes = 3 << 20;
	before = open_descriptors();
	for (size_t i = 0; i < 300; i++) {
		size_t said = i % sizeof(request);
		struct client c = dial(i % 7 == 0);

		if (i % 3)
			turn();
		CHECK_EQ(send(c.fd, request, said, 0), said);
		for (size_t t = i % 5; t; t--)
			turn();
		if (i % 2)
			hear(&c, 1000);
		setsockopt(c.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
		hang_up(&c);
	}
	settle(0);
	check_no_body_held();
	CHECK_EQ(open_descriptors(), before);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 0);
	stop();
}

static void make_token(char path[64])
{
	int fd;

	snprintf(path, 64, "/tmp/serve_test.XXXXXX");
	fd = mkstemp(path);
	CHECK(fd >= 0 && write(fd, "0123456789abcdef0123\n", 21) == 21);
	close(fd);
	snprintf(options.token_file, sizeof(options.token_file), "%s", path);
}

T(token)
{
	static const struct {
		const char *request, *token;
		int status;
		bool ws_port;
	} asks[] = {
		{"GET / HTTP/1.1\r\nHost: x\r\n", "", 200, 0},
		{"GET / HTTP/1.1\r\nHost: x\r\n", "", 401, 1},
		{"GET /metrics HTTP/1.1\r\nHost: x\r\n", "", 401, 0},
		{"GET /metrics HTTP/1.1\r\nHost: x\r\n", "Authorization: Bearer 0123456789abcdef0123\r\n", 200, 0},
		{"GET /metrics HTTP/1.1\r\nHost: x\r\n", "Authorization: Bearer 0123456789abcdef0124\r\n", 401, 0},
		{"GET /metrics HTTP/1.1\r\nHost: x\r\n", "Authorization: Basic 0123456789abcdef0123\r\n", 401, 0},
		{"GET /health HTTP/1.1\r\nHost: x\r\n", "", 401, 0},
		{"GET /no HTTP/1.1\r\nHost: x\r\n", "", 401, 0},
		{"OPTIONS /json HTTP/1.1\r\nHost: x\r\n", "", 401, 0},
		{"POST /json HTTP/1.1\r\nHost: x\r\n", "", 401, 0},
		{HANDSHAKE, "", 401, 1},
		{HANDSHAKE, "Authorization: Bearer 0123456789abcdef0123\r\n", 101, 1},
	};
	char path[64];

	make_token(path);
	start();
	for (size_t i = 0; i < ZN_LEN(asks); i++) {
		struct client c = dial(asks[i].ws_port);
		struct reply r;

		say_text(&c, asks[i].request);
		say_text(&c, asks[i].token);
		say_text(&c, "\r\n");
		CHECK(await_reply(&c, &r, false));
		CHECK_EQ(r.status, asks[i].status);
		CHECK_EQ(strstr(r.head, "\r\nWWW-Authenticate: Bearer realm=\"zerneld\"\r\n") != NULL, r.status == 401);
		hang_up(&c);
	}
	stop();
	unlink(path);
	options.token_file[0] = '\0';
}

static bool unpacks(const char *packed, size_t len, char *to, size_t want)
{
	z_stream z = {.next_in = (Bytef *)packed, .avail_in = (uInt)len, .next_out = (Bytef *)to};
	bool good;

	z.avail_out = (uInt)want;
	good = inflateInit2(&z, 15 + 16) == Z_OK && inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == want;
	inflateEnd(&z);
	return good;
}

#define ASK_GZIP(method) method " /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n"

/* Compressed or not by size; HEAD says the same as GET; both forms tell that they depend on Accept-Encoding. */
T(gzip)
{
	static const struct {
		size_t bytes;
		bool packs;
	} sizes[] = {{ZN_GZIP_MIN - 1, 0}, {ZN_GZIP_MIN, 1}, {100000, 1}, {ZN_GZIP_MAX, 1}, {ZN_GZIP_MAX + 1, 0}};
	static char plain[ZN_GZIP_MAX + 1];
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	for (size_t i = 0; i < ZN_LEN(sizes); i++) {
		size_t length;

		metrics_bytes = sizes[i].bytes;
		say_text(&c, ASK_GZIP("GET"));
		CHECK(await_reply(&c, &r, false));
		CHECK_EQ(strstr(r.head, "\r\nContent-Encoding: gzip\r\n") != NULL, sizes[i].packs);
		CHECK(strstr(r.head, "\r\nVary: Accept-Encoding\r\n") != NULL);
		CHECK_EQ(r.length < metrics_bytes, sizes[i].packs);
		if (sizes[i].packs)
			CHECK(unpacks(r.body, r.length, plain, metrics_bytes) && plain[0] == pattern(0) &&
				plain[metrics_bytes - 1] == pattern(metrics_bytes - 1));
		length = r.length;
		take_reply(&c, &r, false);
		say_text(&c, ASK_GZIP("HEAD"));
		CHECK(await_reply(&c, &r, true));
		CHECK_EQ(strstr(r.head, "\r\nContent-Encoding: gzip\r\n") != NULL, sizes[i].packs);
		CHECK_EQ(r.length, length);
		take_reply(&c, &r, true);
	}
	check_no_body_held();
	hang_up(&c);
	stop();
}

/* One who wants it compressed and one who does not share what is rendered; without a second buffer both get it plain. */
T(gzip_is_shared)
{
	struct zn_buffer *held[ZN_BUFFERS_MAX - 1];
	struct client c[3];
	struct reply r;

	start();
	metrics_bytes = 5000;
	for (int i = 0; i < 3; i++)
		c[i] = dial(false);
	settle(3);
	for (uint32_t i = 0; i < 3; i++)
		post(&c[i], i, i == 1 ? "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" : ASK_GZIP("GET"));
	turn();
	CHECK_EQ(metrics_renders, 1);
	for (int i = 0; i < 3; i++) {
		CHECK(await_reply(&c[i], &r, false));
		CHECK_EQ(r.length == 5000, i == 1);
		take_reply(&c[i], &r, false);
	}
	for (size_t i = 0; i < ZN_LEN(held); i++)
		held[i] = zn_buffer_get(&s);
	say_text(&c[0], ASK_GZIP("GET"));
	CHECK(await_reply(&c[0], &r, false));
	CHECK_EQ(r.length, 5000);
	CHECK(strstr(r.head, "Content-Encoding") == NULL);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 0);
	for (size_t i = 0; i < ZN_LEN(held); i++)
		zn_buffer_put(held[i]);
	check_no_body_held();
	for (int i = 0; i < 3; i++)
		hang_up(&c[i]);
	stop();
}

/* Nor is one narrowed snapshot taken for another. */
T(not_shared_across_filters)
{
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	settle(1);
	post(&c, 0,
		"GET /json?topics=gpus HTTP/1.1\r\nHost: x\r\n\r\nGET /json?topics=alerts HTTP/1.1\r\nHost: x\r\n\r\n"
		"GET /json HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 3; i++) {
		static const char *const want[] = {"1 job \"\" topics 1 ", "2 job \"\" topics 16 ", "3 "};

		CHECK(await_reply(&c, &r, false));
		CHECK_MEM(r.body, r.length, want[i], strlen(want[i]));
		take_reply(&c, &r, false);
	}
	hang_up(&c);
	stop();
}

T(pipelining_cut_at_each_byte)
{
	static const char text[] = "GET /alerts HTTP/1.1\r\nHost: x\r\n\r\nHEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
				   "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
	static const char *const want[] = {"[\"alerts\"]", "", "{\"health\":1}"};
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	for (size_t cut = 1; cut < strlen(text); cut++) {
		say(&c, text, cut);
		say_text(&c, text + cut);
		for (int i = 0; i < 3; i++) {
			CHECK(await_reply(&c, &r, i == 1));
			CHECK_EQ(r.status, 200);
			CHECK(i == 1 || !strncmp(r.body, want[i], r.length));
			take_reply(&c, &r, i == 1);
		}
		CHECK_EQ(c.len, 0);
	}
	hang_up(&c);
	stop();
}

T(unhealthy)
{
	struct client c;
	struct reply r;

	start();
	health_status = 503;
	c = dial(false);
	say_text(&c, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(await_reply(&c, &r, false));
	CHECK_EQ(r.status, 503);
	CHECK_MEM(r.body, r.length, "{\"health\":1}", 12);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 0);
	health_status = 200;
	hang_up(&c);
	stop();
}

T(too_large_or_no_buffer)
{
	struct zn_buffer *held[ZN_BUFFERS_MAX];
	struct client c;

	start();
	c = dial(false);
	metrics_bytes = ZN_BUFFER_BYTES + 1;
	CHECK_EQ(get(&c, "/metrics"), 500);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 1);
	metrics_bytes = 0;
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		held[i] = zn_buffer_get(&s);
	CHECK(held[ZN_BUFFERS_MAX - 1] != NULL);
	CHECK_EQ(get(&c, "/metrics"), 503);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 2);
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		zn_buffer_put(held[i]);
	CHECK_EQ(get(&c, "/metrics"), 200);
	hang_up(&c);
	stop();
}

/* 50 requests in one write, of three kinds, are answered in order, at most 16 in a turn. */
T(pipelining)
{
	static const struct {
		const char *path, *body;
	} kinds[] = {{"/metrics", "text\n"}, {"/alerts", "[\"alerts\"]"}, {"/health", "{\"health\":1}"}};
	char text[50 * 64] = "";
	size_t len = 0;
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	for (size_t i = 0; i < 50; i++)
		len += (size_t)sprintf(text + len, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", kinds[i % 3].path);
	settle(1);
	post(&c, 0, text);
	CHECK_EQ(s.stats.requests[METRICS][ZN_CODE_200], 0);
	turn();
	CHECK(s.stats.requests[METRICS][ZN_CODE_200] <= 6);
	for (size_t i = 0; i < 50; i++) {
		CHECK(await_reply(&c, &r, false));
		CHECK_EQ(r.status, 200);
		CHECK_MEM(r.body, r.length, kinds[i % 3].body, strlen(kinds[i % 3].body));
		take_reply(&c, &r, false);
	}
	CHECK_EQ(c.len, 0);
	CHECK_EQ(s.stats.requests[METRICS][ZN_CODE_200], 17);
	hang_up(&c);
	stop();
}

/* Two clients who ask in the same turn get one rendered text; the next turn renders anew. */
T(shared_answer)
{
	static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
	struct client c[2];
	struct reply r;

	start();
	for (int i = 0; i < 2; i++)
		c[i] = dial(false);
	settle(2);
	for (uint32_t i = 0; i < 2; i++)
		post(&c[i], i, request);
	turn();
	CHECK_EQ(metrics_renders, 1);
	for (int i = 0; i < 2; i++) {
		CHECK(await_reply(&c[i], &r, false));
		CHECK_EQ(r.status, 200);
	}
	take_reply(&c[1], &r, false);
	CHECK_EQ(get(&c[1], "/metrics"), 200);
	CHECK_EQ(metrics_renders, 2);
	check_no_body_held();
	for (int i = 0; i < 2; i++)
		hang_up(&c[i]);
	stop();
}

/* What changes with every call is added up before it is rendered, and for nothing else; a scrape is timed. */
T(figures_are_fresh)
{
	static const struct {
		const char *path;
		unsigned refreshes;
	} kinds[] = {{"/metrics", 1}, {"/json", 1}, {"/jobs", 1}, {"/alerts", 0}, {"/history", 0}, {"/health", 0}};
	struct client c;

	start();
	c = dial(false);
	for (size_t i = 0; i < ZN_LEN(kinds); i++) {
		refreshes = 0;
		CHECK_EQ(get(&c, kinds[i].path), 200);
		CHECK_EQ(refreshes, kinds[i].refreshes);
		CHECK(s.stats.scrape_ns > 0);
	}
	hang_up(&c);
	stop();
}

/* The text of one format is not taken for that of the other. */
T(not_shared_across_formats)
{
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	settle(1);
	post(&c, 0,
		"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
		"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: application/openmetrics-text\r\n\r\n");
	CHECK(await_reply(&c, &r, false));
	CHECK_MEM(r.body, r.length, "text\n", 5);
	take_reply(&c, &r, false);
	CHECK(await_reply(&c, &r, false));
	CHECK_MEM(r.body, r.length, "open\n", 5);
	hang_up(&c);
	stop();
}

T(byte_by_byte)
{
	static const char request[] = "GET /alerts HTTP/1.1\r\nHost: x\r\nAccept: a/b\r\n\r\n";
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	settle(1);
	for (size_t i = 0; i < strlen(request); i++) {
		CHECK(!hear(&c, 1));
		say(&c, request + i, 1);
	}
	CHECK(await_reply(&c, &r, false));
	CHECK_MEM(r.body, r.length, "[\"alerts\"]", 10);
	hang_up(&c);
	stop();
}

T(half_close)
{
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	metrics_bytes = 3 << 20;
	say_text(&c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET /alerts HTTP/1.1\r\nHost: x\r\n\r\nGET");
	shutdown(c.fd, SHUT_WR);
	CHECK(await_reply(&c, &r, false));
	CHECK_EQ(r.length, 3 << 20);
	take_reply(&c, &r, false);
	CHECK(await_reply(&c, &r, false));
	CHECK_MEM(r.body, r.length, "[\"alerts\"]", 10);
	take_reply(&c, &r, false);
	CHECK(await_eof(&c));
	CHECK_EQ(c.len, 0);
	settle(0);
	hang_up(&c);
	stop();
}

static size_t resident_pages(const struct zn_buffer *b, size_t from)
{
	size_t pages = (ZN_BUFFER_BYTES - from) / 4096, count = 0;
	static unsigned char there[ZN_BUFFER_BYTES / 4096];

	CHECK_EQ(mincore(b->at + from, ZN_BUFFER_BYTES - from, there), 0);
	for (size_t i = 0; i < pages; i++)
		count += there[i] & 1;
	return count;
}

/* 10 MB in small sips arrive whole, others are answered meanwhile, and the memory goes back to the kernel. */
T(slow_reader)
{
	const size_t size = 10 * 1000 * 1000;
	size_t wrong = 0;
	uint64_t deadline_ns;
	struct client slow, other;
	struct reply r;

	start();
	metrics_bytes = size;
	slow = dial_with(false, 4096);
	other = dial(false);
	say_text(&slow, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	settle(2);
	for (int i = 0; i < 50; i++)
		turn();
	CHECK(s.conns[0].body != NULL);
	deadline_ns = s.conns[0].deadline_ns;
	CHECK(resident_pages(&s.body[0], 256 << 10) > 1000);
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK_EQ(s.conns[0].deadline_ns, deadline_ns);
	CHECK(await(&slow, size / 2) && s.conns[0].body);
	CHECK(s.conns[0].deadline_ns > deadline_ns);
	CHECK(await_reply(&slow, &r, false));
	CHECK_EQ(r.length, size);
	for (size_t i = 0; r.body && i < size; i++)
		wrong += r.body[i] != pattern(i);
	CHECK_EQ(wrong, 0);
	CHECK_EQ(s.body[0].refs, 0);
	CHECK_EQ(resident_pages(&s.body[0], 256 << 10), 0);
	hang_up(&slow);
	hang_up(&other);
	stop();
}

/* What one turn writes to a client that takes all is bounded. */
T(write_budget)
{
	struct client c;

	start();
	metrics_bytes = 8 << 20;
	c = dial(false);
	settle(1);
	setsockopt(s.conns[0].io.fd, SOL_SOCKET, SO_SNDBUFFORCE, &(int){32 << 20}, sizeof(int));
	post(&c, 0, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	for (size_t before = 0; c.len < metrics_bytes; before = s.conns[0].body_at) {
		turn();
		CHECK(s.conns[0].body_at - before <= ZN_WRITE_PER_TURN);
		hear(&c, 4 << 20);
	}
	CHECK_EQ(metrics_renders, 1);
	hang_up(&c);
	stop();
}

/* A client that is told of an error can read it, though it goes on sending; one that sends for ever is cut
 * off. */
T(error_survives_drain)
{
	static char garbage[30 << 10];
	struct client c;
	struct reply r;
	size_t sent = 0;

	start();
	memset(garbage, '(', sizeof(garbage));
	c = dial(false);
	CHECK_EQ(send(c.fd, garbage, sizeof(garbage), 0), sizeof(garbage));
	for (int i = 0; i < 50; i++)
		turn();
	CHECK(await_reply(&c, &r, false));
	CHECK_EQ(r.status, 400);
	take_reply(&c, &r, false);
	CHECK(await_eof(&c));
	CHECK_EQ(s.stats.conn_count, 1);
	for (; s.stats.conn_count && sent < 64 * sizeof(garbage); sent += sizeof(garbage))
		say(&c, garbage, sizeof(garbage));
	CHECK_EQ(s.stats.conn_count, 0);
	hang_up(&c);
	stop();
}

T(long_target_and_head)
{
	static char text[9000];
	static const struct {
		const char *start;
		int status;
	} longs[] = {{"GET /", 414}, {"GET / HTTP/1.1\r\nHost: x\r\nA: ", 431}};
	struct client c;
	struct reply r;

	start();
	for (size_t i = 0; i < ZN_LEN(longs); i++) {
		memset(text, 'a', sizeof(text));
		memcpy(text, longs[i].start, strlen(longs[i].start));
		c = dial(false);
		say(&c, text, sizeof(text));
		CHECK(await_reply(&c, &r, false));
		CHECK_EQ(r.status, longs[i].status);
		take_reply(&c, &r, false);
		CHECK(await_eof(&c));
		hang_up(&c);
	}
	stop();
}

T(silent_client)
{
	struct client c;

	start();
	c = dial(false);
	settle(1);
	tick(9);
	CHECK_EQ(s.stats.conn_count, 1);
	tick(10);
	CHECK(await_eof(&c));
	CHECK_EQ(c.len, 0);
	CHECK_EQ(s.stats.conn_count, 0);
	hang_up(&c);
	stop();
}

T(slow_head)
{
	uint64_t deadline_ns;
	struct client c;
	struct reply r;

	start();
	c = dial(false);
	settle(1);
	deliver(&c, "GET / HTTP/1.1\r\nHost", 20);
	CHECK_EQ(s.conns[0].in_len, 20);
	deadline_ns = s.conns[0].deadline_ns;
	tick(9);
	CHECK(!hear(&c, 1));
	deliver(&c, ":", 1);
	CHECK_EQ(s.conns[0].deadline_ns, deadline_ns); /* the limit is for the whole head */
	tick(11);
	CHECK(await_reply(&c, &r, false));
	CHECK_EQ(r.status, 408);
	CHECK_EQ(s.stats.requests[ZN_ROUTES_MAX][ZN_CODE_408], 1);
	take_reply(&c, &r, false);
	CHECK(await_eof(&c));
	CHECK_EQ(s.stats.conn_count, 1);
	tick(1);
	CHECK_EQ(s.stats.conn_count, 1);
	tick(2);
	CHECK_EQ(s.stats.conn_count, 0);
	hang_up(&c);
	stop();
}

T(idle_client)
{
	struct client c;

	start();
	c = dial(false);
	CHECK_EQ(get(&c, "/alerts"), 200);
	tick(74);
	CHECK_EQ(get(&c, "/alerts"), 200);
	tick(75);
	CHECK(await_eof(&c));
	CHECK_EQ(s.stats.conn_count, 0);
	hang_up(&c);
	stop();
}

T(stuck_reader)
{
	struct client c;

	start();
	metrics_bytes = 10 << 20;
	c = dial_with(false, 4096);
	say_text(&c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	settle(1);
	for (int i = 0; i < 50; i++)
		turn();
	tick(9);
	CHECK_EQ(s.stats.conn_count, 1);
	tick(11);
	CHECK_EQ(s.stats.conn_count, 0);
	CHECK_EQ(s.body[0].refs, 0);
	hang_up(&c);
	stop();
}

/* Who takes a byte now and then makes progress, but not for ever. */
T(trickle_reader)
{
	struct client c;

	start();
	metrics_bytes = 10 << 20;
	c = dial_with(false, 4096);
	say_text(&c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
	settle(1);
	for (int i = 0; i < 50; i++)
		turn();
	s.conns[0].deadline_ns += 2 * ZN_ANSWER_S * ZN_NS_PER_S; /* as if it made progress */
	tick(ZN_ANSWER_S - 1);
	CHECK_EQ(s.stats.conn_count, 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 0);
	tick(ZN_ANSWER_S + 1);
	CHECK_EQ(s.stats.conn_count, 0);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 1);
	check_no_body_held();
	hang_up(&c);
	stop();
}

/* Slow readers that hold all buffers: at first others get 503, then the one held longest is taken from who has it, but
 * never the newest snapshot. */
T(buffers_held_by_slow_readers)
{
	struct client slow[ZN_BUFFERS_MAX - 1], ws, other;
	struct reply r;

	start();
	ws = open_ws(0);
	metrics_bytes = 3 << 20;
	for (uint32_t i = 0; i < ZN_LEN(slow); i++) {
		slow[i] = dial_with(false, 4096);
		say_text(&slow[i], "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
		for (int t = 0; t < HANG_TURNS && !s.conns[i + 1].body; t++)
			turn();
		CHECK(s.conns[i + 1].body != NULL);
	}
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		s.body[i].since_ns = zn_now_ns() + 60 * ZN_NS_PER_S; /* however long that took */
	metrics_bytes = 0;
	other = dial(false);
	CHECK_EQ(get(&other, "/alerts"), 503);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 0);
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		s.body[i].since_ns = zn_now_ns() - (ZN_HOLD_S + 1) * ZN_NS_PER_S;
	s.conns[5].body->since_ns -= ZN_NS_PER_S;
	s.variant[0].body->since_ns -= 2 * ZN_NS_PER_S;
	CHECK_EQ(get(&other, "/alerts"), 200);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 1);
	settle(ZN_LEN(slow) + 1);
	CHECK_EQ(s.conns[5].io.fd, -1);
	CHECK(s.conns[0].io.fd >= 0 && s.variant[0].body->refs == 1);
	CHECK(await_reply(&slow[3], &r, false));
	CHECK(!await_reply(&slow[4], &r, false));
	for (size_t i = 0; i < ZN_LEN(slow); i++)
		hang_up(&slow[i]);
	hang_up(&ws);
	hang_up(&other);
	settle(0);
	check_no_body_held();
	stop();
}

static void start_with(uint64_t connections, uint64_t per_peer)
{
	start();
	s.conn_limit = (uint32_t)connections;
	s.peer_limit = (uint32_t)per_peer;
}

/* Refused clients: one that is here already, or goes on talking, hears why, and does not get a reset. */
static void check_refused(struct client *c, const char *line)
{
	struct reply r;

	say_text(c, "GET /alerts HTTP/1.1\r\nHost: x\r\n\r\n");
	CHECK(await_reply(c, &r, false));
	CHECK_EQ(r.status, 503);
	CHECK(strstr(r.head, "Retry-After: 1\r\n") && strstr(r.head, "Connection: close\r\n"));
	CHECK(r.body && strstr(r.body, line));
	take_reply(c, &r, false);
	CHECK(await_eof(c));
	CHECK_EQ(c->len, 0);
}

T(all_connections_in_use)
{
	enum { LIMIT = 20, MORE = 6 };
	struct client c[LIMIT + MORE];

	start_with(LIMIT, LIMIT);
	for (size_t i = 0; i < ZN_LEN(c); i++)
		c[i] = dial(false);
	for (int i = 0; i < HANG_TURNS && s.stats.lost[ZN_LOST_CONNECTION] < MORE; i++)
		turn();
	CHECK_EQ(s.stats.conn_count, LIMIT);
	CHECK_EQ(s.refused_count, MORE);
	for (size_t i = LIMIT; i < ZN_LEN(c); i++)
		check_refused(&c[i], "everything is in use");
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], MORE);
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], 0);
	CHECK_EQ(s.stats.requests[ZN_ROUTES_MAX][ZN_CODE_503], 0);
	CHECK_EQ(get(&c[0], "/alerts"), 200);
	hang_up(&c[2]);
	settle(LIMIT - 1);
	c[2] = dial(false);
	CHECK_EQ(get(&c[2], "/alerts"), 200);
	tick(ZN_DRAIN_S + 1);
	CHECK_EQ(s.refused_count, 0);
	for (size_t i = 0; i < ZN_LEN(c); i++)
		hang_up(&c[i]);
	settle(0);
	stop();
}

/* More refused clients than can be told so at one time: the others are closed at once, and all are counted. */
T(storm_of_refused)
{
	static struct client c[ZN_REFUSED_MAX + 10];

	start_with(1, 100);
	for (size_t i = 0; i < ZN_LEN(c); i++)
		c[i] = dial(false);
	for (int i = 0; i < HANG_TURNS && s.stats.lost[ZN_LOST_CONNECTION] < ZN_LEN(c) - 1; i++)
		turn();
	CHECK_EQ(s.stats.conn_count, 1);
	CHECK_EQ(s.refused_count, ZN_REFUSED_MAX);
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], ZN_LEN(c) - 1);
	for (size_t i = 0; i < ZN_LEN(c); i++)
		hang_up(&c[i]);
	settle(0);
	tick(ZN_DRAIN_S + 1);
	CHECK_EQ(s.refused_count, 0);
	check_no_body_held();
	stop();
}

static struct client dial_from(const char *from, bool v6)
{
	struct sockaddr_in6 own6 = {.sin6_family = AF_INET6}, to6 = own6;
	struct sockaddr_in own = {.sin_family = AF_INET}, to = own;
	struct client c = {.fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	to6.sin6_addr = in6addr_loopback;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to6.sin6_port = to.sin_port = htons(zn_serve_port(&s, false));
	inet_pton(AF_INET, from, &own.sin_addr);
	inet_pton(AF_INET6, from, &own6.sin6_addr);
	CHECK(!bind(c.fd, v6 ? (void *)&own6 : (void *)&own, v6 ? sizeof(own6) : sizeof(own)));
	CHECK(!connect(c.fd, v6 ? (void *)&to6 : (void *)&to, v6 ? sizeof(to6) : sizeof(to)));
	return c;
}

/* One address may have so many connections, and another one gets its own. */
T(connections_per_peer)
{
	struct client c[4], other, refused;

	start_with(20, ZN_LEN(c));
	for (size_t i = 0; i < ZN_LEN(c); i++)
		c[i] = dial_from("127.0.0.1", false);
	settle(ZN_LEN(c));
	refused = dial_from("127.0.0.1", false);
	check_refused(&refused, "--max-connections-per-peer");
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], 0);
	other = dial_from("127.0.0.2", false);
	CHECK_EQ(get(&other, "/alerts"), 200);
	hang_up(&c[1]);
	settle(ZN_LEN(c));
	c[1] = dial_from("127.0.0.1", false);
	CHECK_EQ(get(&c[1], "/alerts"), 200);
	CHECK_EQ(s.stats.lost[ZN_LOST_PEER], 1);
	for (size_t i = 0; i < ZN_LEN(c); i++)
		hang_up(&c[i]);
	hang_up(&other);
	hang_up(&refused);
	stop();
}

/* What connections are counted by: IPv4 however it came, IPv6 by /64. */
T(peers)
{
	static const struct {
		const char *listen, *from;
		bool v6;
		uint64_t peer;
	} cases[] = {
		{"127.0.0.1", "127.0.0.1", 0, 0xffff7f000001},
		{"127.0.0.1", "127.1.2.3", 0, 0xffff7f010203},
		{"*", "127.0.0.1", 0, 0xffff7f000001},
		{"::1", "::1", 1, 1},
	};
	int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	bool v6 = probe >= 0 && !bind(probe, (struct sockaddr *)&own, sizeof(own));

	close(probe);
	for (size_t i = 0; i < ZN_LEN(cases); i++) {
		struct client c;

		if (cases[i].v6 && !v6)
			continue;
		start_on(cases[i].listen);
		c = dial_from(cases[i].from, cases[i].v6);
		settle(1);
		CHECK_EQ(s.peer[0], cases[i].peer);
		hang_up(&c);
		settle(0);
		CHECK_EQ(s.peer[0], 0);
		stop();
	}
}

static unsigned turns_taken;
static void (*next_after)(void *owner);

static void count_turn(void *owner)
{
	turns_taken++;
	next_after(owner);
}

static void quit_ready(struct zn_io *io, uint32_t events)
{
	(void)events;
	zn_timer_count(io);
	loop.stop = true;
}

/* Runs the loop for some rests of the listeners, undisturbed: it may look again every 100 ms, and must not spin. */
static void run_starved(void)
{
	struct zn_io quit = {.ready = quit_ready};
	uint64_t start_ns = zn_now_ns(), allowed;

	zn_loop_change(&loop, &stopper, 0);
	CHECK_EQ(zn_timer_open(&quit, 250), 0);
	CHECK_EQ(zn_loop_add(&loop, &quit, EPOLLIN), 0);
	next_after = loop.after;
	loop.after = count_turn;
	turns_taken = accept_failures = 0;
	turn();
	allowed = 4 + 2 * (zn_now_ns() - start_ns) / (100 * ZN_NS_PER_MS);
	CHECK(turns_taken >= 2);
	CHECK(turns_taken <= allowed);
	CHECK(accept_failures <= allowed);
	zn_loop_forget(&loop, &quit);
	loop.after = next_after;
	zn_loop_change(&loop, &stopper, EPOLLIN);
}

static void check_recovered(struct client *c)
{
	struct itimerspec rest;

	CHECK_EQ(s.stats.conn_count, 0);
	CHECK_EQ(get(c, "/alerts"), 200);
	CHECK_EQ(timerfd_gettime(s.rest.io.fd, &rest), 0);
	CHECK(!rest.it_value.tv_sec && !rest.it_value.tv_nsec);
	CHECK_EQ(s.stats.lost[ZN_LOST_CONNECTION], 0);
}

/* The same with a true lack of descriptors. */
T(no_descriptors)
{
	struct rlimit old, low;
	struct client c;
	int spare;

	start();
	zn_log_level = ZN_ERROR;
	c = dial(false);
	getrlimit(RLIMIT_NOFILE, &old);
	spare = dup(0);
	CHECK(spare >= 0);
	close(spare);
	low = (struct rlimit){(rlim_t)spare + 1, old.rlim_max}; /* one more: the timer */
	setrlimit(RLIMIT_NOFILE, &low);
	run_starved();
	setrlimit(RLIMIT_NOFILE, &old);
	check_recovered(&c);
	zn_log_level = ZN_INFO;
	hang_up(&c);
	stop();
}

T(accept_fails)
{
	static const int errors[] = {EMFILE, ENFILE, ENOMEM, ENOBUFS, EPERM};

	zn_log_level = ZN_ERROR;
	for (size_t i = 0; i < ZN_LEN(errors); i++) {
		struct client c;

		start();
		c = dial(false);
		accept_error = errors[i];
		run_starved();
		CHECK(accept_failures > 0);
		accept_error = 0;
		check_recovered(&c);
		hang_up(&c);
		stop();
	}
	zn_log_level = ZN_INFO;
}

/* What is wrong with one client is no reason to let others wait. */
T(accept_fails_for_a_client)
{
	static const int errors[] = {ECONNABORTED, EPROTO, ENETDOWN, EINTR, EAGAIN};
	struct itimerspec rest;
	struct client c;

	start();
	c = dial(false);
	for (size_t i = 0; i < ZN_LEN(errors); i++) {
		accept_failures = 0;
		accept_error = errors[i];
		for (int t = 0; t < HANG_TURNS && !accept_failures; t++)
			turn();
		CHECK(accept_failures > 0);
		CHECK_EQ(timerfd_gettime(s.rest.io.fd, &rest), 0);
		CHECK(!rest.it_value.tv_sec && !rest.it_value.tv_nsec);
	}
	accept_error = 0;
	CHECK_EQ(get(&c, "/alerts"), 200);
	hang_up(&c);
	stop();
}

/* In a child: a hard limit once lowered may stay so. Its exit status: what the soft limit is, less what is wanted. */
static int files_after(rlim_t soft, rlim_t hard, rlim_t want)
{
	pid_t child = fork();
	struct rlimit files = {soft, hard};
	int status = -1;

	if (child == 0) {
		zn_log_level = ZN_ERROR;
		if (setrlimit(RLIMIT_NOFILE, &files))
			_exit(2);
		start();
		getrlimit(RLIMIT_NOFILE, &files);
		_exit(files.rlim_cur != want || files.rlim_max != hard);
	}
	waitpid(child, &status, 0);
	return status;
}

T(limit_of_open_files)
{
	const rlim_t need = ZN_CONNS + ZN_REFUSED_MAX + 1024;
	struct rlimit own;

	getrlimit(RLIMIT_NOFILE, &own);
	CHECK(own.rlim_max > need);
	CHECK_EQ(files_after(200, own.rlim_max, need), 0);
	CHECK_EQ(files_after(need + 1, own.rlim_max, need + 1), 0); /* never lowered */
	CHECK_EQ(files_after(200, 300, 300), 0);
}

static int try_listen(const char *addresses, uint64_t metrics_port, char why[ZN_TEXT_MAX])
{
	struct zn_serve other;
	int err;

	snprintf(options.listen, sizeof(options.listen), "%s", addresses);
	options.metrics_port = metrics_port;
	*why = '\0';
	err = zn_serve_open(&other, &loop, &view, why);
	zn_serve_close(&other);
	zn_serve_close(&other);
	options.metrics_port = 0;
	return err;
}

T(listening)
{
	static const char *const good[] = {"127.0.0.1", "*", "127.0.0.1,127.0.0.2", "0.0.0.0"};
	static const char *const bad[] = {"", "localhost", "127.0.0.1,", "127.0.0.1,,::1", "127.0.0.1:80",
		"[127.0.0.1]", "[::1", "::1]", "**", "127.0.0.1 ",
		"1.1.1.1111111111111111111111111111111111111111111111111",
		"127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1,127.0.0.1"};
	char why[ZN_TEXT_MAX], want[ZN_TEXT_MAX];
	unsigned before;
	uint16_t port;

	start();
	port = zn_serve_port(&s, false);
	CHECK(port && zn_serve_port(&s, true) && zn_serve_port(&s, true) != port);
	before = open_descriptors();
	for (size_t i = 0; i < ZN_LEN(good); i++) {
		CHECK_EQ(try_listen(good[i], 0, why), 0);
		CHECK_STR(why, "");
	}
	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		CHECK_EQ(try_listen(bad[i], 0, why), -EINVAL);
		CHECK(!strncmp(why, "--listen: ", 10));
	}
	CHECK_EQ(try_listen("127.0.0.2,127.0.0.1", port, why), -EADDRINUSE);
	snprintf(want, sizeof(want),
		"cannot listen on 127.0.0.1:%u: Address already in use; another zerneld? choose --metrics-port", port);
	CHECK_STR(why, want);
	CHECK_EQ(try_listen("192.0.2.1", 0, why), -EADDRNOTAVAIL);
	CHECK_STR(why,
		"cannot listen on 192.0.2.1:0: Cannot assign requested address; --listen takes addresses of this machine");
	CHECK_EQ(open_descriptors(), before);
	stop();
}

static struct client dial_local(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct client c = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};

	memcpy(to.sun_path, path, strlen(path));
	CHECK(!connect(c.fd, (struct sockaddr *)&to, sizeof(to)));
	return c;
}

static void make_folder(char folder[64], char path[128], char listen[160])
{
	snprintf(folder, 64, "/tmp/serve_test.XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, 128, "%s/m.sock", folder);
	snprintf(listen, 160, "unix:%s", path);
}

/* A Unix socket: no token, no name of the host, no limit per peer; /ws on it; no second port. */
T(local_clients)
{
	char folder[64], path[128], listen[160];
	struct client c[3];
	struct stat st;
	struct reply r;

	make_folder(folder, path, listen);
	start_on(listen);
	s.access.tokens.count = 1;
	s.peer_limit = 1;
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(st.st_mode, S_IFSOCK | 0660);
	CHECK_EQ(zn_serve_port(&s, false) + zn_serve_port(&s, true), 0);
	for (int i = 0; i < 3; i++)
		c[i] = dial_local(path);
	for (int i = 0; i < 2; i++) {
		say_text(&c[i], "GET /json HTTP/1.1\r\nHost: evil.example\r\n\r\n");
		CHECK(await_reply(&c[i], &r, false));
		CHECK_EQ(r.status, 200);
	}
	say_text(&c[2], HANDSHAKE "\r\n");
	CHECK(await_reply(&c[2], &r, true));
	CHECK_EQ(r.status, 101);
	CHECK_EQ(s.stats.conn_count, 3);
	for (int i = 0; i < 3; i++)
		hang_up(&c[i]);
	settle(0);
	stop();
	unlink(path);
	rmdir(folder);
}

T(listening_on_a_path)
{
	char folder[64], path[128], listen[160], why[ZN_TEXT_MAX], want[ZN_TEXT_MAX], text[192];
	struct stat before, after;
	mode_t mask = umask(0077);
	unsigned open;

	make_folder(folder, path, listen);
	start_on("127.0.0.1");
	open = open_descriptors();
	CHECK_EQ(try_listen(listen, 0, why), 0);
	CHECK_EQ(stat(path, &before), 0); /* left behind, as by a daemon that may not unlink any more */
	CHECK_EQ(before.st_mode, S_IFSOCK | 0660);
	snprintf(text, sizeof(text), "127.0.0.1,%s", listen);
	CHECK_EQ(try_listen(text, 0, why), 0);
	stop();

	start_on(listen);
	CHECK_EQ(stat(path, &before), 0);
	CHECK_EQ(try_listen(listen, 0, why), -EADDRINUSE);
	snprintf(want, sizeof(want), "cannot listen on %s: Address already in use; another zerneld?", path);
	CHECK_STR(why, want);
	CHECK_EQ(stat(path, &after), 0);
	CHECK_EQ(after.st_ino, before.st_ino);
	snprintf(text, sizeof(text), "unix:%s/no/m.sock", folder);
	CHECK_EQ(try_listen(text, 0, why), -ENOENT);
	CHECK(strstr(why, "; its folder must be there") != NULL);
	stop();

	start_on("127.0.0.1");
	unlink(path);
	CHECK_EQ(mkdir(path, 0700), 0);
	CHECK_EQ(try_listen(listen, 0, why), -EEXIST);
	snprintf(want, sizeof(want), "cannot listen on %s: File exists; it is no socket, and is left alone", path);
	CHECK_STR(why, want);
	CHECK_EQ(open_descriptors(), open);
	stop();
	umask(mask);
	rmdir(path);
	rmdir(folder);
}

T(length_of_a_path)
{
	char folder[64], path[128], listen[160], why[ZN_TEXT_MAX], text[160];
	size_t len;

	make_folder(folder, path, listen);
	start_on("127.0.0.1");
	for (size_t want = 107; want <= 108; want++) {
		len = (size_t)snprintf(text, sizeof(text), "unix:%s/", folder);
		memset(text + len, 'a', 5 + want - len);
		text[5 + want] = '\0';
		CHECK_EQ(try_listen(text, 0, why), want == 107 ? 0 : -EINVAL);
		if (want == 107)
			CHECK_EQ(unlink(text + 5), 0);
	}
	CHECK(strstr(why, "--listen: after unix: comes an absolute path of up to 107 bytes") == why);
	CHECK_EQ(try_listen("unix:", 0, why), -EINVAL);
	CHECK_EQ(try_listen("unix:m.sock", 0, why), -EINVAL);
	stop();
	rmdir(folder);
}

/* A WebSocket client is told that the daemon goes, and an answer that is under way gets as far as it can. */
T(farewell)
{
	struct client page, ws;
	struct frame f;
	struct reply r;

	start();
	ws = open_ws(0);
	page = dial(false);
	metrics_bytes = 50000;
	settle(2);
	post(&page, 1, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\nGET");
	turn();
	stop();
	CHECK(await_gone(&ws));
	CHECK(await_gone(&page));
	CHECK(ws.eof && page.eof);
	CHECK(await_frame(&ws, &f));
	CHECK_EQ(f.op, ZN_WS_CLOSE);
	CHECK_MEM(f.data, f.len, "\x03\xe9", 2);
	CHECK(await_reply(&page, &r, false));
	CHECK_EQ(r.length, 50000);
	hang_up(&page);
	hang_up(&ws);
}

/* Clients that are there at the end leave no descriptor behind. */
T(closing)
{
	unsigned before = open_descriptors();
	struct client page, ws;

	start();
	page = dial(false);
	CHECK_EQ(get(&page, "/alerts"), 200);
	ws = dial(true);
	settle(2);
	stop();
	CHECK(await_gone(&page));
	CHECK(await_gone(&ws));
	hang_up(&page);
	hang_up(&ws);
	CHECK_EQ(open_descriptors(), before);
}

/* IPv6 where the machine has it: bare, in brackets, and through "*". */
T(listening_on_ipv6)
{
	static const char *const forms[] = {"::1", "[::1]", "*"};
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int probe = socket(AF_INET6, SOCK_STREAM, 0);
	bool there = probe >= 0 && !bind(probe, (struct sockaddr *)&to, sizeof(to));
	char why[ZN_TEXT_MAX] = "";

	close(probe);
	for (size_t i = 0; i < ZN_LEN(forms); i++) {
		int fd = socket(AF_INET6, SOCK_STREAM, 0);

		CHECK_EQ(zn_loop_open(&loop), 0);
		snprintf(options.listen, sizeof(options.listen), "%s", forms[i]);
		CHECK_EQ(!zn_serve_open(&s, &loop, &view, why), there || *forms[i] == '*');
		to.sin6_port = htons(zn_serve_port(&s, false));
		CHECK_EQ(!connect(fd, (struct sockaddr *)&to, sizeof(to)), there);
		close(fd);
		if (*forms[i] == '*') {
			struct client v4 = dial(false);

			hang_up(&v4);
		}
		zn_serve_close(&s);
		zn_loop_close(&loop);
	}
}

T(handshake)
{
	char text[1024];
	struct client c;
	struct reply r;
	struct frame f;
	size_t len;

	start();
	c = dial(false);
	len = (size_t)snprintf(text, sizeof(text), HANDSHAKE "Sec-WebSocket-Protocol: a, zernel.v1\r\n\r\n");
	len += put_frame(text + len, 0x89, "now", 3); /* in the same segment */
	say(&c, text, len);
	CHECK(await_reply(&c, &r, true));
	CHECK_EQ(r.status, 101);
	CHECK(strstr(r.head, "\r\nSec-WebSocket-Accept: " ACCEPT "\r\n") != NULL);
	CHECK(strstr(r.head, "\r\nSec-WebSocket-Protocol: zernel.v1\r\n") != NULL);
	CHECK(strstr(r.head, "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n") != NULL);
	CHECK(!r.has_length);
	CHECK_EQ(s.stats.requests[WS][ZN_CODE_101], 1);
	take_reply(&c, &r, true);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_PONG);
	CHECK_MEM(f.data, f.len, "now", 3);
	take_frame(&c, &f);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_TEXT);
	CHECK_MEM(f.data, f.len, "1 ", 2);
	take_frame(&c, &f);
	tick(0);
	CHECK(await_frame(&c, &f));
	CHECK_MEM(f.data, f.len, "2 ", 2);
	hang_up(&c);
	settle(0);
	CHECK_EQ(s.stats.ws_count, 0);
	tick(0);
	check_no_body_held();
	CHECK_EQ(snapshot_seq, 2);
	stop();
}

T(protocol_not_offered)
{
	struct client c;
	struct reply r;

	start();
	c = dial(true);
	say_text(&c, HANDSHAKE "Sec-WebSocket-Protocol: zernel.v10\r\n\r\n");
	CHECK(await_reply(&c, &r, true));
	CHECK_EQ(r.status, 101);
	CHECK(strstr(r.head, "Sec-WebSocket-Protocol") == NULL);
	hang_up(&c);
	stop();
}

/* All clients of a tick get the same snapshot, rendered once. */
T(one_snapshot_for_all)
{
	struct client c[3];
	struct frame f;

	start();
	for (int i = 0; i < 3; i++)
		c[i] = open_ws(0);
	CHECK_EQ(snapshot_seq, 1);
	CHECK_EQ(s.stats.ws_count, 3);
	tick(0);
	CHECK_EQ(snapshot_seq, 2);
	for (int i = 0; i < 3; i++) {
		CHECK(await_frame(&c[i], &f));
		CHECK_MEM(f.data, f.len, "2 ", 2);
		hang_up(&c[i]);
	}
	CHECK_EQ(s.stats.lost[ZN_LOST_WS_FRAME], 0);
	stop();
}

/* A ping, a text in two fragments with a ping between them, and a Close, cut in two at each byte. A ping is
 * answered unless the Close comes with it (RFC 6455, section 5.5.2), the newest of two. */
T(frames_cut_at_each_byte)
{
	char text[64];
	size_t first = put_frame(text, 0x89, "one", 3), len = first, second;
	struct frame f;

	len += put_frame(text + len, 0x01, "h\xc3", 2);
	len += put_frame(text + len, 0x89, "two", 3);
	second = len;
	len += put_frame(text + len, 0x80, "\xa4", 1);
	len += put_frame(text + len, 0x88,
		"\x0f\xa0"
		"bye",
		5);
	start();
	for (size_t cut = 1; cut < len; cut++) {
		struct client c = open_ws(0);

		deliver(&c, text, cut);
		deliver(&c, text + cut, len - cut);
		CHECK(await_frame(&c, &f));
		if (cut >= first) {
			CHECK_EQ(f.op, ZN_WS_PONG);
			CHECK_MEM(f.data, f.len, cut < second ? "one" : "two", 3);
			take_frame(&c, &f);
			CHECK(await_frame(&c, &f));
		}
		CHECK_EQ(f.op, ZN_WS_CLOSE);
		CHECK_MEM(f.data, f.len, "\x0f\xa0", 2);
		take_frame(&c, &f);
		CHECK(await_eof(&c));
		CHECK_EQ(c.len, 0);
		hang_up(&c);
		settle(0);
	}
	CHECK_EQ(s.stats.ws_count, 0);
	stop();
}

/* Of pings that come together only the newest is answered. */
T(one_pong)
{
	char text[128];
	size_t len = 0;
	struct client c;
	struct frame f;

	start();
	c = open_ws(0);
	for (int i = 0; i < 10; i++)
		len += put_frame(text + len, 0x89, &"0123456789"[i], 1);
	CHECK_EQ(send(c.fd, text, len, 0), len);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_PONG);
	CHECK_MEM(f.data, f.len, "9", 1);
	take_frame(&c, &f);
	turn();
	CHECK(!hear(&c, 1));
	hang_up(&c);
	stop();
}

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

static void check_close(struct client *c, int code)
{
	struct frame f;

	CHECK(await_frame(c, &f));
	CHECK_EQ(f.op, ZN_WS_CLOSE);
	CHECK_EQ(f.len, code ? 2 : 0);
	if (f.len == 2)
		CHECK_EQ((uint8_t)f.data[0] << 8 | (uint8_t)f.data[1], code);
	take_frame(c, &f);
	CHECK_EQ(s.stats.ws_count, 0);
	tick(0);
	CHECK(await_eof(c));
	CHECK_EQ(c->len, 0);
}

static void close_codes(void)
{
	char text[128];

	for (size_t i = 0; i < ZN_LEN(closes); i++) {
		struct client c;

		t_begin(closes[i].name);
		start();
		c = open_ws(0);
		say(&c, text, put_frame(text, closes[i].first, closes[i].data, closes[i].len));
		check_close(&c, closes[i].code);
		hang_up(&c);
		settle(0);
		stop();
	}
}

T(close_for_unmasked_and_too_large)
{
	struct client c;

	start();
	c = open_ws(0);
	say(&c,
		"\x81\x01"
		"a",
		3);
	check_close(&c, 1002);
	hang_up(&c);
	c = open_ws(0);
	say(&c,
		"\x82\xff\0\0\0\0\0\x01\0\x01"
		"mask",
		14); /* 65537 bytes announced */
	check_close(&c, 1009);
	hang_up(&c);
	stop();
}

/* A peer that ignores our Close is dropped after 2 s. */
T(close_ignored)
{
	struct client c;

	start();
	c = open_ws(0);
	say(&c,
		"\x81\x01"
		"a",
		3);
	check_close(&c, 1002);
	CHECK_EQ(s.stats.conn_count, 1);
	tick(3);
	CHECK_EQ(s.stats.conn_count, 0);
	hang_up(&c);
	stop();
}

T(silence)
{
	struct client c;
	struct frame f;
	char pong[16];

	start();
	c = open_ws(0);
	tick(24);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_TEXT);
	take_frame(&c, &f);
	tick(26);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_PING);
	take_frame(&c, &f);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_TEXT);
	take_frame(&c, &f);
	tick(59);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_TEXT);
	take_frame(&c, &f);
	deliver(&c, pong, put_frame(pong, 0x8a, "", 0));
	CHECK(!s.conns[0].pinged);
	tick(26);
	CHECK(await_frame(&c, &f));
	CHECK_EQ(f.op, ZN_WS_PING);
	tick(61);
	CHECK_EQ(s.stats.conn_count, 0);
	CHECK_EQ(s.stats.ws_count, 0);
	hang_up(&c);
	stop();
}

/* Ticks may be a minute apart; time limits are not looked at that late, and nobody gets a snapshot for it. */
T(limits_between_ticks)
{
	struct itimerspec every;
	struct client slow, ws;
	struct frame f;

	options.push_interval_ms = 60000;
	start();
	options.push_interval_ms = 0;
	CHECK_EQ(timerfd_gettime(s.limits.fd, &every), 0);
	CHECK_EQ(every.it_interval.tv_sec, ZN_LIMITS_MS / 1000);
	ws = open_ws(0);
	slow = dial(false);
	settle(2);
	deliver(&slow, "G", 1);
	s.conns[0].heard_ns = zn_now_ns() - ZN_PUSH_PING_S * ZN_NS_PER_S;
	s.conns[1].deadline_ns = 0;
	CHECK_EQ(zn_timer_set(&s.limits, 1), 0);
	CHECK_EQ(poll(&(struct pollfd){s.limits.fd, POLLIN, 0}, 1, -1), 1);
	turn();
	CHECK_EQ(s.stats.requests[ZN_ROUTES_MAX][ZN_CODE_408], 1);
	CHECK(await_frame(&ws, &f));
	CHECK_EQ(f.op, ZN_WS_PING);
	take_frame(&ws, &f);
	CHECK_EQ(snapshot_seq, 1);
	hang_up(&ws);
	hang_up(&slow);
	stop();
	start();
	CHECK_EQ(s.limits.fd, -1); /* ticks are close enough */
	stop();
}

/* A client that does not read for 20 ticks is not sent 20 snapshots afterwards, but ends with the newest. */
T(slow_client_gets_newest)
{
	unsigned last = 0, frames = 0;
	struct client c;
	struct frame f;

	start();
	snapshot_bytes = 300000;
	c = open_ws(4096);
	for (int i = 0; i < 20; i++)
		tick(0);
	CHECK_EQ(snapshot_seq, 21);
	CHECK(s.stats.lost[ZN_LOST_WS_FRAME] >= 15);
	while (last < 21 && await_frame(&c, &f)) {
		unsigned seq = (unsigned)strtoul(f.data, NULL, 10);

		CHECK(seq > last);
		CHECK_EQ(f.op, ZN_WS_TEXT);
		CHECK_EQ(f.data[f.len - 1], pattern(snapshot_bytes - 1));
		last = seq;
		frames++;
		take_frame(&c, &f);
	}
	CHECK_EQ(last, 21);
	CHECK_EQ(frames + s.stats.lost[ZN_LOST_WS_FRAME], 20);
	hang_up(&c);
	stop();
}

/* Without progress for 10 s: within a frame the connection just ends. */
T(stuck_within_a_frame)
{
	struct client c;
	struct frame f = {0};
	char ping[16];

	start();
	snapshot_bytes = 5 << 20;
	c = open_ws(4096);
	tick(0);
	for (int i = 0; i < 20; i++)
		turn();
	CHECK(s.conns[0].body_at > 0);
	deliver(&c, ping, put_frame(ping, 0x89, "hm", 2)); /* it is listened to all the same */
	CHECK(s.conns[0].pong_due);
	tick(9);
	CHECK_EQ(s.stats.conn_count, 1);
	tick(11);
	CHECK_EQ(s.stats.conn_count, 0);
	CHECK(!await_frame(&c, &f));
	hang_up(&c);
	stop();
}

/* Between two frames it ends with a Close that says "try again later". */
T(stuck_between_frames)
{
	struct client c;
	struct frame f = {0};
	int code = 0;

	start();
	snapshot_bytes = 1000;
	c = open_ws(4096);
	for (int i = 0; i < 20000 && !(s.conns[0].body && !s.conns[0].out_at); i++) {
		tick(0);
		if (s.conns[0].body && s.conns[0].out_at)
			hear(&c, 4096); /* cut within a frame: make room and try again */
	}
	CHECK(s.conns[0].body != NULL);
	tick(11);
	CHECK_EQ(s.stats.conn_count, 1);
	while (await_frame(&c, &f) && f.op == ZN_WS_TEXT)
		take_frame(&c, &f);
	CHECK_EQ(f.op, ZN_WS_CLOSE);
	if (f.op == ZN_WS_CLOSE && f.len == 2)
		code = (uint8_t)f.data[0] << 8 | (uint8_t)f.data[1];
	CHECK_EQ(code, 1013);
	take_frame(&c, &f);
	CHECK(await_eof(&c));
	hang_up(&c);
	settle(0);
	tick(0);
	check_no_body_held();
	stop();
}

T(snapshot_does_not_fit)
{
	struct client c;
	struct frame f;

	start();
	c = open_ws(0);
	snapshot_bytes = ZN_BUFFER_BYTES;
	tick(0);
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 1);
	CHECK(!hear(&c, 1));
	snapshot_bytes = 0;
	tick(0);
	CHECK(await_frame(&c, &f));
	CHECK_MEM(f.data, f.len, "3 ", 2);
	hang_up(&c);
	stop();
}

/* M and W stand for the ports of metrics and WebSocket. */
static const struct {
	const char *name;
	bool ws_port;
	const char *host, *origin, *allowed; /* allowed: --ws-origin */
	int status;
} origins[] = {
	{"no origin", 1, "node7", NULL, "", 101},
	{"no origin, another name", 1, "evil.example", NULL, "", 421},
	{"same origin, address", 1, "127.0.0.1:W", "http://127.0.0.1:W", "", 101},
	{"same origin, https", 1, "127.0.0.1:W", "https://127.0.0.1:W", "", 101},
	{"same origin, IPv6", 1, "[::1]:W", "http://[::1]:W", "", 101},
	{"same origin, localhost", 0, "localhost:M", "http://localhost:M", "", 101},
	{"same origin, node", 0, "node7:M", "http://node7:M", "", 101},
	{"page of the metrics port", 1, "node7:W", "http://node7:M", "", 101},
	{"page of the metrics port, IPv6", 1, "[::1]:W", "http://[::1]:M", "", 101},
	{"page of the WebSocket port on the other", 0, "node7:M", "http://node7:W", "", 403},
	{"page of the metrics port, another host", 1, "node7:W", "http://localhost:M", "", 403},
	{"host without its port", 0, "node7", "http://node7:M", "", 403},
	{"another port", 1, "node7:W", "http://node7:1", "", 403},
	{"port with letters", 1, "node7:W", "http://node7:Mx", "", 403},
	{"no port", 1, "node7:W", "http://node7", "", 403},
	{"another origin", 1, "127.0.0.1:W", "http://evil.example", "", 403},
	{"origin begins like the host", 1, "127.0.0.1:W", "http://127.0.0.1:W.evil.example", "", 403},
	{"null", 1, "127.0.0.1:W", "null", "", 403},
	{"empty", 1, "127.0.0.1:W", "", "", 403},
	{"no scheme", 1, "127.0.0.1:W", "127.0.0.1:W", "", 403},
	{"scheme alone", 1, "127.0.0.1:W", "http://", "", 403},
	{"another scheme", 1, "127.0.0.1:W", "ftp://127.0.0.1:W", "", 403},
	{"rebinding", 1, "evil.example:W", "http://evil.example:W", "", 421},
	{"rebinding, metrics port", 1, "evil.example:W", "http://evil.example:M", "", 421},
	{"name begins like the node", 1, "node77:W", "http://node77:W", "", 421},
	{"given origin, node", 1, "node7:W", "https://dash.example", "https://dash.example", 101},
	{"given origin, its own host", 1, "dash.example:W", "https://dash.example", "https://dash.example", 101},
	{"given origin, another scheme", 1, "node7:W", "http://dash.example", "https://dash.example", 403},
	{"given origin, another host", 1, "evil.example:W", "https://dash.example", "https://dash.example", 421},
};

static void put_ports(char *to, const char *text)
{
	for (; *text; text++) {
		if (*text == 'M' || *text == 'W')
			to += sprintf(to, "%u", zn_serve_port(&s, *text == 'W'));
		else
			*to++ = *text;
	}
	*to = '\0';
}

static void origin_policy(void)
{
	char host[128], origin[128], text[1024];

	for (size_t i = 0; i < ZN_LEN(origins); i++) {
		struct client c;
		struct reply r;

		t_begin(origins[i].name);
		start();
		snprintf(options.ws_origin, sizeof(options.ws_origin), "%s", origins[i].allowed);
		put_ports(host, origins[i].host);
		put_ports(origin, origins[i].origin ? origins[i].origin : "");
		c = dial(origins[i].ws_port);
		snprintf(text, sizeof(text),
			"GET /ws HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " KEY "\r\n%s%s%s\r\n",
			host, origins[i].origin ? "Origin: " : "", origin, origins[i].origin ? "\r\n" : "");
		say_text(&c, text);
		CHECK(await_reply(&c, &r, true));
		CHECK_EQ(r.status, origins[i].status);
		CHECK_EQ(s.stats.ws_count, r.status == 101);
		CHECK_EQ(s.stats.requests[WS][r.status == 101 ? ZN_CODE_101
					 : r.status == 421    ? ZN_CODE_421
							      : ZN_CODE_403],
			1);
		hang_up(&c);
		stop();
	}
}

struct waiter {
	struct zn_io io; /* first */
	struct waiter *other;
	unsigned woken;
};

static void waiter_ready(struct zn_io *io, uint32_t events)
{
	struct waiter *w = (struct waiter *)io;

	(void)events;
	w->woken++;
	zn_loop_forget(&loop, &w->other->io);
	loop.stop = true;
}

/* Of two that are ready in one batch, the first closes the second: the second is passed over. */
T(closed_within_the_batch)
{
	struct waiter w[2] = {{.other = &w[1]}, {.other = &w[0]}};

	loop = (struct zn_loop){0};
	CHECK_EQ(zn_loop_open(&loop), 0);
	for (int i = 0; i < 2; i++) {
		w[i].io = (struct zn_io){eventfd(1, EFD_CLOEXEC), waiter_ready};
		CHECK_EQ(zn_loop_add(&loop, &w[i].io, EPOLLIN), 0);
	}
	CHECK_EQ(zn_loop_run(&loop), 0);
	CHECK_EQ(w[0].woken + w[1].woken, 1);
	for (int i = 0; i < 2; i++) {
		zn_loop_forget(&loop, &w[i].io);
		CHECK_EQ(w[i].io.fd, -1);
	}
	zn_loop_close(&loop);
	zn_loop_close(&loop);
}

T(timer)
{
	struct zn_io t = {.ready = quit_ready};

	CHECK_EQ(zn_loop_open(&loop), 0);
	CHECK_EQ(zn_timer_open(&t, 0), 0);
	CHECK_EQ(zn_timer_count(&t), 0);
	CHECK_EQ(zn_loop_add(&loop, &t, EPOLLIN), 0);
	CHECK_EQ(zn_timer_set(&t, 1), 0);
	CHECK_EQ(zn_loop_run(&loop), 0);
	poll(&(struct pollfd){.fd = t.fd, .events = POLLIN}, 1, -1);
	CHECK(zn_timer_count(&t) >= 1);
	CHECK_EQ(zn_timer_set(&t, 0), 0);
	CHECK_EQ(zn_timer_count(&t), 0);
	zn_loop_forget(&loop, &t);
	CHECK_EQ(zn_timer_set(&t, 1), -EBADF);
	zn_loop_close(&loop);
}

int main(void)
{
	RUN(closed_within_the_batch);
	RUN(timer);
	answers();
	answers_cut_at_each_byte();
	bodies_cut_at_each_byte();
	RUN(long_body_after_a_long_head);
	RUN(slow_body);
	RUN(noise);
	RUN(resets);
	RUN(token);
	RUN(gzip);
	RUN(gzip_is_shared);
	RUN(not_shared_across_filters);
	RUN(pipelining_cut_at_each_byte);
	RUN(unhealthy);
	RUN(too_large_or_no_buffer);
	RUN(pipelining);
	RUN(shared_answer);
	RUN(figures_are_fresh);
	RUN(not_shared_across_formats);
	RUN(byte_by_byte);
	RUN(half_close);
	RUN(slow_reader);
	RUN(write_budget);
	RUN(error_survives_drain);
	RUN(long_target_and_head);
	RUN(silent_client);
	RUN(slow_head);
	RUN(idle_client);
	RUN(stuck_reader);
	RUN(trickle_reader);
	RUN(buffers_held_by_slow_readers);
	RUN(all_connections_in_use);
	RUN(storm_of_refused);
	RUN(connections_per_peer);
	RUN(peers);
	RUN(no_descriptors);
	RUN(accept_fails);
	RUN(accept_fails_for_a_client);
	RUN(limit_of_open_files);
	RUN(listening);
	RUN(local_clients);
	RUN(listening_on_a_path);
	RUN(length_of_a_path);
	RUN(farewell);
	RUN(closing);
	RUN(listening_on_ipv6);
	RUN(handshake);
	RUN(protocol_not_offered);
	RUN(one_snapshot_for_all);
	RUN(frames_cut_at_each_byte);
	RUN(one_pong);
	close_codes();
	RUN(close_for_unmasked_and_too_large);
	RUN(close_ignored);
	RUN(silence);
	RUN(limits_between_ticks);
	RUN(slow_client_gets_newest);
	RUN(stuck_within_a_frame);
	RUN(stuck_between_frames);
	RUN(snapshot_does_not_fit);
	origin_policy();
	return t_end();
}
