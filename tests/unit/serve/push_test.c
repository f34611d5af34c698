/* SPDX-License-Identifier: GPL-2.0 */
/*
 * push_test.c: which WebSocket client gets which snapshot when, and how they are parted with. Clients are one end of a
 * socket pair, so that what one side writes is there for the other at once; the loop runs one turn at a time, and times
 * are told to the functions that ask for one. Nothing waits. What is rendered is made up: a number, topics, job.
 */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "t.h"
#include "zernel.h"

#define LONG "interval_ms=60000" /* an interval that does not end while a test runs */
#define ALL  "1ff"               /* topics, when none is named */
_Static_assert(ZN_TOPICS_ALL == 0x1ff, "ALL");

const char zn_version[] = "1", zn_commit[] = "2";
char zn_page[] = "page";
const char zn_page_gzip[] = "page", zn_page_headers[] = "", zn_page_etag[] = "\"e\"";
const size_t zn_page_len = 4, zn_page_gzip_len = 4;

static struct zn_options options = {.listen = "127.0.0.1"};
static struct zn_state view = {.options = &options, .node = "node7"};
static struct zn_loop loop;
static struct zn_serve s;
static struct zn_io stopper;
static unsigned renders;
static size_t more_bytes; /* of each snapshot */
static bool whole;

void zn_state_refresh(const struct zn_state *v)
{
	(void)v;
}

bool zn_snapshot_json(struct zn_out *o, const struct zn_state *v, const struct zn_filter *filter)
{
	char text[128];

	(void)v;
	CHECK_EQ(filter->interval_ms, 0);
	snprintf(text, sizeof(text), "%u %x %s", ++renders, filter->topics, filter->job);
	zn_out_text(o, text);
	for (size_t i = 0; i < more_bytes; i++)
		zn_out_char(o, '.');
	return whole;
}
void zn_metrics_proto(struct zn_out *o, const struct zn_state *v, uint32_t collect)
{
	zn_metrics_text(o, v, false, collect);
}

void zn_metrics_text(struct zn_out *o, const struct zn_state *v, bool openmetrics, uint32_t collect)
{
	(void)collect;
	(void)v;
	(void)openmetrics;
	zn_out_char(o, '\n');
}
void zn_snapshot_alerts(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_char(o, '\n');
}
void zn_jobs_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_char(o, '\n');
}
void zn_ghosts_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_char(o, '\n');
}
void zn_history_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_char(o, '\n');
}
int zn_health_json(struct zn_out *o, const struct zn_state *v)
{
	(void)v;
	zn_out_char(o, '\n');
	return 200;
}

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

static void start(void)
{
	char why[ZN_TEXT_MAX] = "";

	renders = 0;
	more_bytes = 0;
	whole = true;
	CHECK_EQ(zn_loop_open(&loop), 0);
	stopper = (struct zn_io){eventfd(1, EFD_CLOEXEC), stop_ready};
	CHECK_EQ(zn_loop_add(&loop, &stopper, EPOLLIN), 0);
	CHECK_EQ(zn_serve_open(&s, &loop, &view, why), 0);
	CHECK_STR(why, "");
}

static void stop(void)
{
	zn_serve_close(&s);
	zn_loop_forget(&loop, &stopper);
	zn_loop_close(&loop);
}

static void tick(void)
{
	zn_serve_tick(&s, zn_now_ns());
	turn();
}

/* Asks for a WebSocket, and takes the head of the answer into head. The server's end holds a few KiB only. */
static int ask(const char *query, const char *more, char head[1024])
{
	int pair[2], small = 2048;
	char text[512];
	size_t len = (size_t)snprintf(text, sizeof(text),
		"GET /ws%s%s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n",
		*query ? "?" : "", query, more);

	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	zn_conn_welcome(&s.listener[0], pair[1], 0);
	CHECK_EQ(send(pair[0], text, len, 0), len);
	memset(head, 0, 1024);
	len = 0;
	for (int turns = 0; turns < 1000 && !strstr(head, "\r\n\r\n"); turns++) { /* clients may have had their time */
		turn();
		while (len < 1023 && !strstr(head, "\r\n\r\n") && recv(pair[0], head + len, 1, 0) == 1)
			len++;
	}
	return pair[0];
}

static int dial(const char *query)
{
	char head[1024];
	int fd = ask(query, "", head);

	CHECK(!strncmp(head, "HTTP/1.1 101 ", 13));
	return fd;
}

/* As many bytes as there are up to len, while the server runs. */
static size_t hear(int fd, char *to, size_t len)
{
	size_t at = 0;

	for (int idle = 0; at < len && idle < 3;) {
		ssize_t n = recv(fd, to + at, len - at, 0);

		if (n == 0)
			break;
		at += n > 0 ? (size_t)n : 0;
		idle = n > 0 ? 0 : idle + 1;
		turn();
	}
	return at;
}

/* The next frame: its payload as text, "close CODE", "none", or "cut" if the connection ends within it. */
static const char *frame(int fd)
{
	static char text[1 << 20];
	uint8_t head[10];
	size_t len, extra;

	if (hear(fd, (char *)head, 2) < 2)
		return "none";
	len = head[1] & 127;
	extra = len == 126 ? 2 : len == 127 ? 8 : 0;
	if (hear(fd, (char *)head + 2, extra) < extra)
		return "cut";
	for (size_t i = 0; i < extra; i++)
		len = (i ? len << 8 : 0) | head[2 + i];
	CHECK(len < sizeof(text));
	if (hear(fd, text, len) < len)
		return "cut";
	text[len] = '\0';
	if (head[0] == 0x88)
		sprintf(text, "close %d", len < 2 ? 0 : (uint8_t)text[0] << 8 | (uint8_t)text[1]);
	return text;
}

#define CHECK_FRAME(fd, want)                                                                                          \
	do {                                                                                                           \
		const char *frame_ = frame(fd);                                                                        \
		CHECK_STR(frame_, want);                                                                               \
	} while (0)

/* That nothing is left behind: buffers, variants, and the timer's rest. */
static void check_rest(void)
{
	struct itimerspec t;

	for (size_t i = 0; i < ZN_VARIANTS_MAX; i++)
		CHECK_EQ(s.variant[i].clients, 0);
	for (size_t i = 0; i < ZN_BUFFERS_MAX; i++)
		CHECK_EQ(s.body[i].refs, 0);
	CHECK_EQ(s.stats.ws_count + s.paced_count, 0);
	CHECK_EQ(timerfd_gettime(s.pace.fd, &t), 0);
	CHECK_EQ(t.it_interval.tv_nsec + t.it_value.tv_nsec, 0);
}

static void hang_up(int fd)
{
	close(fd);
	turn();
}

/* Those who want the same share it, whatever they call it. */
T(variants)
{
	static const struct {
		const char *query, *first, *second;
	} rows[] = {
		{"", "1 " ALL " ", "4 " ALL " "},
		{"topics=alerts,lost", "2 50 ", "5 50 "},
		{"topics=lost,alerts", "2 50 ", "5 50 "},
		{"topics=alerts%2clost", "2 50 ", "5 50 "},
		{"topics=alerts&job=7", "3 10 7", "6 10 7"},
		{"job=7&topics=alerts", "3 10 7", "6 10 7"},
		{"topics=gpus,processes,jobs,io,alerts,probes,lost,why,servers", "1 " ALL " ", "4 " ALL " "},
	};
	int fd[ZN_LEN(rows)];

	start();
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		fd[i] = dial(rows[i].query);
		CHECK_FRAME(fd[i], rows[i].first);
	}
	tick();
	CHECK_EQ(renders, 6);
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		CHECK_FRAME(fd[i], rows[i].second);
		CHECK_FRAME(fd[i], "none");
		hang_up(fd[i]);
	}
	check_rest();
	stop();
}

T(as_many_feeds_as_there_may_be)
{
	char query[64], head[1024];
	int fd[ZN_VARIANTS_MAX], more;

	start();
	for (int i = 1; i < ZN_VARIANTS_MAX; i++) {
		snprintf(query, sizeof(query), "job=%d", i);
		fd[i] = dial(query);
	}
	more = ask("job=x", "", head);
	CHECK(!strncmp(head, "HTTP/1.1 503 ", 13) && strstr(head, "\r\nRetry-After: "));
	hang_up(more);
	fd[0] = dial("topics=gpus,processes,jobs,io,alerts,probes,lost,why,servers"); /* its place was kept */
	CHECK_FRAME(fd[0], "16 " ALL " ");
	hang_up(dial(""));
	hang_up(dial("job=3"));
	hang_up(fd[3]);
	fd[3] = dial("job=x");
	CHECK_FRAME(fd[3], "17 " ALL " x");
	for (int i = 0; i < ZN_VARIANTS_MAX; i++)
		hang_up(fd[i]);
	check_rest();
	stop();
}

static void bad_queries(void)
{
	static const char *const rows[][2] = {{"interval_ms=249", "interval_ms"}, {"interval_ms=60001", "interval_ms"},
		{"interval_ms=", "interval_ms"}, {"interval_ms=1e3", "interval_ms"},
		{"interval_ms=-250", "interval_ms"}, {"interval_ms=18446744073709551866", "interval_ms"},
		{"topics=", "topics"}, {"topics=all", "topics"}, {"topics=alerts,", "topics"}, {"job=", "job"},
		{"job=a%20b", "job"}, {"job=%00", "not well-formed"}, {"job=%zz", "not well-formed"},
		{"job=1&job=1", "only once"}, {"jobs=1", "jobs"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char head[1024], body[512] = "";
		size_t len;
		int fd;

		t_begin(rows[i][0]);
		start();
		fd = ask(rows[i][0], "", head);
		CHECK(!strncmp(head, "HTTP/1.1 400 ", 13));
		len = strstr(head, "\r\nContent-Length: ")
			? strtoul(strstr(head, "\r\nContent-Length: ") + 18, NULL, 10)
			: 0;
		CHECK_EQ(hear(fd, body, sizeof(body) - 1), len);
		CHECK(strstr(body, rows[i][1]) && len && body[len - 1] == '\n');
		CHECK_EQ(s.stats.ws_count, 0);
		hang_up(fd);
		check_rest();
		stop();
	}
}

/* A client with an interval of its own gets one when that is over, not at a tick, and one however late it is. */
T(pace)
{
	uint64_t due;
	int fd;

	start();
	fd = dial(LONG);
	CHECK_FRAME(fd, "1 " ALL " ");
	due = s.conns[0].next_ns;
	CHECK(due > zn_now_ns() + 29 * ZN_NS_PER_S && due < zn_now_ns() + 91 * ZN_NS_PER_S);
	tick();
	zn_push_pace(&s, due - 1);
	CHECK_FRAME(fd, "none");
	CHECK_EQ(renders, 1);
	zn_push_pace(&s, due);
	CHECK_FRAME(fd, "2 " ALL " ");
	zn_push_pace(&s, due + 59 * ZN_NS_PER_S);
	CHECK_FRAME(fd, "none");
	zn_push_pace(&s, due + 200 * ZN_NS_PER_S);
	CHECK_FRAME(fd, "3 " ALL " ");
	zn_push_pace(&s, due + 239 * ZN_NS_PER_S);
	CHECK_FRAME(fd, "none");
	zn_push_pace(&s, due + 240 * ZN_NS_PER_S);
	CHECK_FRAME(fd, "4 " ALL " ");
	hang_up(fd);
	check_rest();
	stop();
}

/* Clients of one variant whose times fall into one look share what is rendered; those of every tick are not
 * disturbed. */
T(pace_shared)
{
	uint64_t due;
	int a, b, c, d;

	start();
	a = dial(LONG);
	b = dial(LONG);
	c = dial("topics=lost&interval_ms=30000");
	CHECK_EQ(s.paced_count, 3);
	CHECK_FRAME(a, "1 " ALL " ");
	CHECK_FRAME(b, "1 " ALL " ");
	CHECK_FRAME(c, "2 40 ");
	CHECK_EQ(s.conns[0].next_ns, s.conns[1].next_ns);
	d = dial("");
	due = s.conns[0].next_ns;
	frame(d);
	zn_push_pace(&s, due);
	CHECK_FRAME(a, "3 " ALL " ");
	CHECK_FRAME(b, "3 " ALL " ");
	CHECK_FRAME(c, "4 40 ");
	CHECK_FRAME(d, "none");
	tick();
	CHECK_FRAME(d, "5 " ALL " ");
	CHECK_FRAME(a, "none");
	CHECK_FRAME(c, "none");
	hang_up(a);
	hang_up(b);
	CHECK_EQ(s.paced_count, 1);
	tick();
	CHECK_FRAME(d, "6 " ALL " ");
	hang_up(c);
	hang_up(d);
	check_rest();
	stop();
}

/* A newcomer among clients with long intervals is not given what is as old as that. */
T(first_is_new)
{
	int a, b;

	start();
	a = dial(LONG);
	s.variant[0].rendered_ns -= ZN_NS_PER_S;
	b = dial(LONG);
	CHECK_FRAME(a, "1 " ALL " ");
	CHECK_FRAME(b, "2 " ALL " ");
	hang_up(a);
	hang_up(b);
	stop();
}

T(pace_timer)
{
	struct itimerspec t;
	int fd;

	start();
	check_rest();
	fd = dial("interval_ms=250");
	CHECK_EQ(timerfd_gettime(s.pace.fd, &t), 0);
	CHECK_EQ(t.it_interval.tv_nsec, 50 * 1000 * 1000);
	CHECK_FRAME(fd, "1 " ALL " ");
	for (int i = 0; i < 20000 && renders < 3; i++) {
		turn();
		usleep(1000);
	}
	CHECK_FRAME(fd, "2 " ALL " ");
	CHECK_FRAME(fd, "3 " ALL " ");
	hang_up(fd);
	check_rest();
	stop();
}

T(truncated_is_counted)
{
	int fd;

	start();
	fd = dial("");
	CHECK_FRAME(fd, "1 " ALL " ");
	whole = false;
	tick();
	CHECK_FRAME(fd, "2 " ALL " ");
	CHECK_EQ(s.stats.lost[ZN_LOST_TRUNCATED], 1);
	hang_up(fd);
	stop();
}

/* With every buffer in use a tick is passed over, and counted; nobody is closed. */
T(no_buffer)
{
	struct zn_buffer *held[ZN_BUFFERS_MAX];
	int fd, n = 0;

	start();
	fd = dial("");
	CHECK_FRAME(fd, "1 " ALL " ");
	while (n < ZN_BUFFERS_MAX - 1)
		held[n++] = zn_buffer_get(&s);
	tick();
	CHECK_FRAME(fd, "none");
	CHECK_EQ(s.stats.lost[ZN_LOST_RESPONSE], 1);
	while (n)
		zn_buffer_put(held[--n]);
	tick();
	CHECK_FRAME(fd, "2 " ALL " ");
	hang_up(fd);
	check_rest();
	stop();
}

/* One that takes its snapshot so slowly that it always makes progress is closed all the same; the others get theirs. */
T(trickle)
{
	uint64_t now_ns = zn_now_ns();
	char byte[512];
	int slow, other;

	start();
	slow = dial("");
	other = dial("");
	frame(slow);
	frame(other);
	more_bytes = 60000;
	zn_serve_tick(&s, now_ns);
	more_bytes = 0;
	turn();
	CHECK(strlen(frame(other)) > more_bytes);
	for (unsigned second = 1; second < ZN_PUSH_FRAME_S; second++) {
		CHECK(recv(slow, byte, sizeof(byte), 0) > 0);
		turn();
		s.conns[0].deadline_ns = now_ns + 1000 * ZN_NS_PER_S; /* as progress would make it, were it that late */
		zn_serve_tick(&s, now_ns + second * ZN_NS_PER_S);
		CHECK_EQ(s.stats.conn_count, 2);
		CHECK(*frame(other) != 'n');
	}
	CHECK_EQ(s.stats.lost[ZN_LOST_WS_CLIENT], 0);
	zn_serve_tick(&s, now_ns + (ZN_PUSH_FRAME_S + 2) * ZN_NS_PER_S);
	turn();
	CHECK_EQ(s.stats.conn_count, 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_WS_CLIENT], 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_WS_FRAME], ZN_PUSH_FRAME_S - 2);
	while (recv(slow, byte, sizeof(byte), 0) > 0)
		;
	CHECK_EQ(recv(slow, byte, sizeof(byte), 0), 0);
	hang_up(slow);
	hang_up(other);
	check_rest();
	stop();
}

/* One that reads nothing: what was not begun gives way to a Close. */
T(stuck_is_counted_once)
{
	const char *got;
	int fd;

	start();
	fd = dial("");
	while (!s.conns[0].body || s.conns[0].out_at)
		tick();
	zn_serve_tick(&s, zn_now_ns() + 11 * ZN_NS_PER_S);
	zn_serve_tick(&s, zn_now_ns());
	CHECK_EQ(s.stats.lost[ZN_LOST_WS_CLIENT], 1);
	CHECK_EQ(s.stats.conn_count, 1);
	do
		got = frame(fd);
	while (*got != 'c' && *got != 'n');
	CHECK_STR(got, "close 1013");
	hang_up(fd);
	check_rest();
	stop();
}

static size_t fill(int fd)
{
	size_t len = 0;

	while (send(fd, "x", 1, 0) == 1)
		len++;
	return len;
}

/* What was begun cannot be replaced by a Close: a frame whose first byte is gone, and the answer to the handshake. A
 * client that has sent its own Close and reads nothing is no loss. */
T(no_room_for_a_close)
{
	static const char close_1000[] = "\x88\x82\0\0\0\0\x03\xe8";
	int fd[3];

	start();
	for (int i = 0; i < 3; i++) {
		fd[i] = dial("");
		frame(fd[i]);
		fill(s.conns[i].io.fd);
	}
	zn_serve_tick(&s, zn_now_ns());
	CHECK(s.conns[0].body && !s.conns[0].out_at);
	s.conns[0].out_at = 1;
	s.conns[1].frame_deadline_ns = 0; /* as if this were still the answer */
	CHECK_EQ(send(fd[2], close_1000, sizeof(close_1000) - 1, 0), sizeof(close_1000) - 1);
	turn();
	CHECK(s.conns[2].closing);
	zn_serve_tick(&s, zn_now_ns() + 11 * ZN_NS_PER_S);
	turn();
	CHECK_EQ(s.stats.conn_count, 0);
	CHECK_EQ(s.stats.lost[ZN_LOST_WS_CLIENT], 2);
	for (int i = 0; i < 3; i++)
		hang_up(fd[i]);
	check_rest();
	stop();
}

/* At the end everybody is told, but not within a frame, and not twice. */
T(bye)
{
	static const char close_1000[] = "\x88\x82\0\0\0\0\x03\xe8";
	int quiet, owed, closed, within;
	const char *got;

	start();
	quiet = dial("");
	owed = dial("");
	closed = dial("");
	within = dial("");
	frame(quiet);
	frame(owed);
	frame(closed);
	frame(within);
	tick();
	frame(quiet);
	frame(closed);
	more_bytes = 60000;
	tick();
	while (*(got = frame(quiet)) != 'n')
		CHECK(*got != 'c');
	CHECK_EQ(send(closed, close_1000, sizeof(close_1000) - 1, 0), sizeof(close_1000) - 1);
	while (*(got = frame(closed)) != 'c')
		CHECK(*got != 'n');
	CHECK_STR(got, "close 1000");
	CHECK(s.conns[3].body_at > 0);
	zn_serve_close(&s);
	loop.after = NULL;
	CHECK_FRAME(quiet, "close 1001");
	CHECK_FRAME(quiet, "none");
	CHECK_FRAME(closed, "none");
	while (*(got = frame(within)) != 'c')
		CHECK(*got != 'n');
	CHECK_STR(got, "cut");
	close(quiet);
	close(owed);
	close(closed);
	close(within);
	stop();
}

/* Who was let in by a token that may be gone has to show one again. */
static void tokens_changed(void)
{
	const char *got;
	int there;

	start();
	there = dial("");
	frame(there);
	tick();
	CHECK(*frame(there) != 'c');
	s.access.token_set++;
	tick();
	while (*(got = frame(there)) != 'c')
		CHECK(*got != 'n');
	CHECK_STR(got, "close 1008");
	hang_up(there);
	there = dial("");
	frame(there);
	tick();
	CHECK(*frame(there) != 'c');
	hang_up(there);
	stop();
}

/* A browser sends its token as a subprotocol; the answer names ours and never the token. */
static void subprotocols(void)
{
	static const struct {
		const char *offered, *chosen; /* chosen NULL: the answer is 401 */
	} rows[] = {
		{"zernel.v1", NULL},
		{"zernel.v1, zernel.token.30313233343536373839616263646566", "zernel.v1"},
		{"zernel.token.30313233343536373839616263646566, zernel.v1", "zernel.v1"},
		{"zernel.token.30313233343536373839616263646566", ""},
		{"zernel.v1, zernel.token.30313233343536373839616263646567", NULL},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char more[256], want[128], head[1024];
		int fd;

		t_begin(rows[i].offered);
		start();
		s.access.tokens.count = 1;
		strcpy(s.access.tokens.token[0], "0123456789abcdef");
		snprintf(more, sizeof(more), "Sec-WebSocket-Protocol: %s\r\n", rows[i].offered);
		snprintf(
			want, sizeof(want), "\r\nSec-WebSocket-Protocol: %s\r\n", rows[i].chosen ? rows[i].chosen : "");
		fd = ask("", more, head);
		CHECK(!strncmp(head, rows[i].chosen ? "HTTP/1.1 101 " : "HTTP/1.1 401 ", 13));
		CHECK_EQ(strstr(head, want) != NULL, rows[i].chosen && *rows[i].chosen);
		CHECK(!strstr(head, "zernel.token"));
		hang_up(fd);
		stop();
	}
}

int main(void)
{
	RUN(variants);
	RUN(as_many_feeds_as_there_may_be);
	bad_queries();
	RUN(pace);
	RUN(pace_shared);
	RUN(first_is_new);
	RUN(pace_timer);
	RUN(truncated_is_counted);
	RUN(no_buffer);
	RUN(trickle);
	RUN(stuck_is_counted_once);
	RUN(no_room_for_a_close);
	RUN(bye);
	RUN(tokens_changed);
	subprotocols();
	return t_end();
}
