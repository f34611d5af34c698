/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ws_cases_test.c: the cases of ws_cases.h. First against the codec and a message layer on top of it, in this process:
 * whole, in the case's own segments, byte by byte, and cut in two at each byte (long ones at some), from exactly sized
 * heap blocks; the answer must be the same bytes. Then over TCP against ws_echo, beside this program, at full size.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t.h"
#include "ws_cases.h"

#define SCALE       16   /* sizes of group 9 in this process */
#define EACH_BYTE   1500 /* longer ones are cut at some places only */
#define HANG_MS     30000
#define SEGMENT_MAX (256 << 10)

static char message[WS_BYTES], sent[WS_BYTES], wanted[WS_BYTES], got[WS_BYTES];
static struct ws_case one = {.send = {.at = sent, .cap = WS_BYTES}, .want = {.at = wanted, .cap = WS_BYTES}};
static unsigned cases;

/* ---- in this process ---- */

struct echo {
	struct zn_ws ws;
	struct zn_out message, out;
	bool closed;
};

static struct echo echo_open(void)
{
	struct echo e = {.message = {.at = message, .cap = WS_BYTES}, .out = {.at = got, .cap = WS_BYTES}};

	zn_ws_init(&e.ws, 16 << 20);
	return e;
}

static void act(struct echo *e, const struct zn_ws_event *ev)
{
	char code[2] = {(char)(ev->code >> 8), (char)ev->code};

	switch (ev->type) {
	case ZN_WS_EV_NONE:
	case ZN_WS_EV_PONG: break;
	case ZN_WS_EV_PING: ws_put(&e->out, 0x8a, ev->data.at, ev->data.len, false); break;
	case ZN_WS_EV_DATA:
		zn_out_bytes(&e->message, ev->data.at, ev->data.len);
		if (!ev->final)
			break;
		ws_put(&e->out, (uint8_t)(0x80 | ev->op), e->message.at, e->message.len, false);
		e->message.len = 0;
		break;
	case ZN_WS_EV_CLOSE:
	case ZN_WS_EV_ERROR: ws_put(&e->out, 0x88, code, ev->code == 1005 ? 0 : 2, false); e->closed = true;
	}
}

static void feed(struct echo *e, const char *from, size_t len)
{
	char *block = malloc(len ? len : 1);
	struct zn_ws_event ev;
	size_t at = 0;

	memcpy(block, from, len);
	while (at < len && !e->closed) {
		int used = zn_ws_read(&e->ws, block + at, len - at, &ev);

		CHECK(used > 0 && (size_t)used <= len - at);
		if (used <= 0)
			break;
		at += (size_t)used;
		act(e, &ev);
	}
	free(block);
}

static bool is_wanted(const struct zn_out *o, const struct ws_case *c)
{
	return !o->full && o->len == c->want.len && !memcmp(o->at, c->want.at, o->len);
}

/* In segments: the first of `first` bytes, the others of `step`. */
static void check_pieces(const struct ws_case *c, size_t first, size_t step)
{
	struct echo e = echo_open();

	feed(&e, c->send.at, first);
	for (size_t at = first; at < c->send.len; at += step)
		feed(&e, c->send.at + at, c->send.len - at < step ? c->send.len - at : step);
	t_checks++;
	if (!is_wanted(&e.out, c) || !e.closed)
		T_FAIL("cut at %zu, then every %zu: not what is wanted", first, step);
}

static void check_cuts(const struct ws_case *c)
{
	size_t len = c->send.len, places = len < 100000 ? 61 : 5;
	size_t step = len <= EACH_BYTE ? 1 : len / places;

	for (size_t cut = 0; cut <= len; cut += cut < 20 && step < 10000 ? 1 : step)
		check_pieces(c, cut, len);
	if (len < 200000)
		check_pieces(c, 0, 1);
}

static void check_sync(const struct ws_case *c)
{
	struct echo e = echo_open();

	feed(&e, c->send.at, c->sync);
	CHECK_EQ(e.out.len, c->sync_want);
}

static void run_here(struct ws_case *c)
{
	t_begin(c->name);
	cases++;
	CHECK(!c->send.full && !c->want.full);
	if (c->chop && c->chop != BY_FRAMES)
		check_pieces(c, 0, c->chop);
	check_cuts(c);
	if (c->sync)
		check_sync(c);
}

/* ---- over TCP ---- */

static uint16_t port;
static const char ask[] = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
static const char accepted[] = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"; /* RFC 6455, section 1.3 */

static pid_t start_server(const char *self)
{
	char path[512], text[16] = "";
	int out[2];
	pid_t pid;

	snprintf(path, sizeof(path), "%.*s/ws_echo", (int)(strrchr(self, '/') ? strrchr(self, '/') - self : 0), self);
	CHECK_EQ(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], STDOUT_FILENO);
		execl(path, "ws_echo", "0", NULL);
		perror(path);
		_exit(127);
	}
	close(out[1]);
	CHECK(read(out[0], text, sizeof(text) - 1) > 1);
	close(out[0]);
	port = (uint16_t)atoi(text);
	return pid;
}

/* A connection with its handshake done, which is read byte by byte so that no frame is taken with it. */
static int dial(void)
{
	struct sockaddr_in to = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}, {0}};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char head[512] = "";

	CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
	CHECK_EQ(send(fd, ask, sizeof(ask) - 1, 0), sizeof(ask) - 1);
	for (size_t len = 0; len < sizeof(head) - 1 && !strstr(head, "\r\n\r\n") && recv(fd, head + len, 1, 0) == 1;)
		len++;
	CHECK(!strncmp(head, "HTTP/1.1 101 ", 13) && strstr(head, accepted));
	return fd;
}

/* How much may be sent now: up to the end of the segment, and not past a place to wait at. */
static size_t segment(const struct ws_case *c, size_t at, size_t received)
{
	size_t end = at + (c->chop && c->chop != BY_FRAMES ? c->chop : SEGMENT_MAX);

	for (uint32_t i = 0; c->chop == BY_FRAMES && i < c->frames; i++)
		if (c->end[i] > at && c->end[i] < end)
			end = c->end[i];
	if (c->sync && received < c->sync_want && end > c->sync)
		end = c->sync;
	return (end < c->send.len ? end : c->send.len) - at;
}

static void run_over_tcp(struct ws_case *c)
{
	struct pollfd p = {.fd = dial()};
	struct zn_out o = {.at = got, .cap = WS_BYTES};
	bool ended = false;
	size_t at = 0;
	ssize_t n;

	t_begin(c->name);
	while (!ended) {
		size_t may = segment(c, at, o.len);

		p.events = POLLIN | (may ? POLLOUT : 0);
		if (poll(&p, 1, HANG_MS) <= 0)
			break;
		n = may && p.revents & POLLOUT ? send(p.fd, c->send.at + at, may, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
		at += n > 0 ? (size_t)n : 0;
		n = recv(p.fd, got + o.len, WS_BYTES - o.len, MSG_DONTWAIT);
		o.len += n > 0 ? (size_t)n : 0;
		ended = n == 0 || (n < 0 && errno != EAGAIN);
	}
	CHECK(ended && n == 0);
	t_checks++;
	if (!is_wanted(&o, c))
		T_FAIL("over TCP: %zu bytes came back, not the %zu that are wanted", o.len, c->want.len);
	close(p.fd);
}

int main(int argc, char **argv)
{
	pid_t pid;

	ws_run_cases(&one, SCALE, run_here);
	t_begin("all cases");
	CHECK_EQ(cases, WS_CASES);
	CHECK_EQ(argc, 1);
	pid = start_server(argv[0]);
	ws_run_cases(&one, 1, run_over_tcp);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	return t_end();
}
