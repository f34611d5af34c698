/* SPDX-License-Identifier: GPL-2.0 */
/*
 * conn_test.c: one connection (conn.c): requests cut at each byte and in a row, bodies that are passed over, how
 * much is written in one turn, and the time limits of a client that is slow or silent.
 */
#include "server.h"

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
	tick(ZN_HEAD_S - 4);
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

T(silent_client)
{
	struct client c;

	start();
	c = dial(false);
	settle(1);
	tick(6);
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
	tick(6);
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
	tick(0);
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
	tick(71);
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
	tick(6);
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
	tick(ZN_ANSWER_S - 4);
	CHECK_EQ(s.stats.conn_count, 1);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 0);
	tick(ZN_ANSWER_S + 1);
	CHECK_EQ(s.stats.conn_count, 0);
	CHECK_EQ(s.stats.lost[ZN_LOST_ANSWER], 1);
	check_no_body_held();
	hang_up(&c);
	stop();
}

int main(void)
{
	bodies_cut_at_each_byte();
	RUN(long_body_after_a_long_head);
	RUN(slow_body);
	RUN(noise);
	RUN(resets);
	RUN(pipelining_cut_at_each_byte);
	RUN(pipelining);
	RUN(byte_by_byte);
	RUN(half_close);
	RUN(write_budget);
	RUN(error_survives_drain);
	RUN(silent_client);
	RUN(slow_head);
	RUN(idle_client);
	RUN(stuck_reader);
	RUN(trickle_reader);
	return t_end();
}
