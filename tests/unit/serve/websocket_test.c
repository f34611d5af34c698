/* SPDX-License-Identifier: GPL-2.0 */
/*
 * websocket_test.c: a WebSocket client of the server (push.c, over conn.c): the handshake and who may make it,
 * frames cut at each byte, pings, Close in both directions, and clients that do not read. Which snapshot is sent
 * when is for push_test.c.
 */
#include "server.h"

#define ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

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
	tick(21);
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
	tick(56);
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
	tick(6);
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

int main(void)
{
	RUN(handshake);
	RUN(protocol_not_offered);
	RUN(one_snapshot_for_all);
	RUN(frames_cut_at_each_byte);
	RUN(one_pong);
	close_codes();
	RUN(close_for_unmasked_and_too_large);
	RUN(close_ignored);
	RUN(silence);
	RUN(slow_client_gets_newest);
	RUN(stuck_within_a_frame);
	RUN(stuck_between_frames);
	RUN(snapshot_does_not_fit);
	origin_policy();
	return t_end();
}
