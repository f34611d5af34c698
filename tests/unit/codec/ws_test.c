/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ws_test.c: handshake, outgoing headers, and the reader. Each stream of frames is read whole, cut at every
 * byte, and byte by byte, from heap blocks of exactly that size; what it means must not depend on the cuts.
 */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define S(text) ((struct zn_str){text, sizeof(text) - 1})
#define LIMIT   70000 /* the largest message */

static void accepts(void)
{
	static const struct {
		struct zn_str key;
		const char *want; /* NULL: refused */
	} rows[] = {
		{S("dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="}, /* RFC 6455, section 1.3 */
		{S("x3JJHMbDL1EzLkh9GBhXDw=="), "HSmrc0sMlYUkAGmm5OPpG2HaGWk="},
		{S("AQIDBAUGBwgJCgsMDQ4PEA=="), "C/0nmHhBztSRGR1CwL6Tf4ZjwpY="},
		{S(""), NULL},
		{S("dGhlIHNhbXBsZSBub25jZQ="), NULL},
		{S("dGhlIHNhbXBsZSBub25jZQ"), NULL},
		{S("dGhlIHNhbXBsZSBub25jZQAA"), NULL},
		{S("dGhlIHNhbXBsZSBub25jZQA="), NULL},
		{S("dGhlIHNhbXBsZSBub25jZ==="), NULL},
		{S("dGhlIHNhbXBsZSBub25j ZQ=="), NULL},
		{S("dGhlIHNhbXBsZSB-b25jZQ=="), NULL},
		{S("dGhlIHNhbXBsZSB\0b25jZQ=="), NULL},
		{S("AQIDBAUGBwgJCgsMDQ4PEBESExQ="), NULL},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char got[ZN_WS_ACCEPT_LEN + 1] = "untouched";
		int err = zn_ws_accept(rows[i].key, got);

		t_begin(rows[i].key.len ? rows[i].key.at : "no key");
		CHECK_EQ(err, rows[i].want ? 0 : -EINVAL);
		CHECK_STR(got, rows[i].want ? rows[i].want : "untouched");
	}
}

#define ASK     "GET /ws HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
#define KEY     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define VERSION "Sec-WebSocket-Version: 13\r\n"
#define END     "\r\n"

static void handshakes(void)
{
	static const struct {
		const char *name;
		struct zn_str head;
		int want;
	} rows[] = {
		{"good", S(ASK KEY VERSION END), 0},
		{"POST",
			S("POST /ws HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" KEY VERSION
					END),
			400},
		{"HEAD",
			S("HEAD / HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" KEY VERSION
					END),
			400},
		{"1.0", S("GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" KEY VERSION END), 400},
		{"no Upgrade", S("GET / HTTP/1.1\r\nHost: n\r\nConnection: Upgrade\r\n" KEY VERSION END), 400},
		{"no key", S(ASK VERSION END), 400},
		{"short key", S(ASK "Sec-WebSocket-Key: dGhl\r\n" VERSION END), 400},
		{"two keys", S(ASK KEY KEY VERSION END), 400},
		{"no version", S(ASK KEY END), 400},
		{"version 8", S(ASK KEY "Sec-WebSocket-Version: 8\r\n" END), 426},
		{"version 14 and no key", S(ASK "Sec-WebSocket-Version: 14\r\n" END), 426},
		{"version 013", S(ASK KEY "Sec-WebSocket-Version: 013\r\n" END), 426},
		{"versions 13, 8", S(ASK KEY "Sec-WebSocket-Version: 13, 8\r\n" END), 426},
		{"version empty", S(ASK KEY "Sec-WebSocket-Version:\r\n" END), 426},
		{"body", S(ASK KEY VERSION "Content-Length: 1\r\n" END), 400},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_http_req req;

		t_begin(rows[i].name);
		CHECK_EQ(zn_http_parse(rows[i].head.at, rows[i].head.len, &req), rows[i].head.len);
		CHECK_EQ(zn_ws_handshake(&req), rows[i].want);
	}
}

static void headers(void)
{
	static const struct {
		const char *name;
		uint64_t len;
		struct zn_str want;
	} rows[] = {
		{"0 bytes", 0, S("\x81\x00")},
		{"125 bytes", 125, S("\x81\x7d")},
		{"126 bytes", 126, S("\x81\x7e\x00\x7e")},
		{"65535 bytes", 65535, S("\x81\x7e\xff\xff")},
		{"65536 bytes", 65536, S("\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00")},
		{"2^63 - 1 bytes", INT64_MAX, S("\x81\x7f\x7f\xff\xff\xff\xff\xff\xff\xff")},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		uint8_t got[10];
		size_t len = zn_ws_header(got, ZN_WS_TEXT, rows[i].len);

		t_begin(rows[i].name);
		CHECK_MEM((char *)got, len, rows[i].want.at, rows[i].want.len);
	}
}

T(close_frames)
{
	uint8_t *got = malloc(4 + ZN_WS_CONTROL_MAX);
	char reason[200];

	CHECK_MEM((char *)got, zn_ws_close_frame(got, 0, "x"), "\x88\x00", 2);
	CHECK_MEM((char *)got, zn_ws_close_frame(got, 1000, ""), "\x88\x02\x03\xe8", 4);
	CHECK_MEM((char *)got, zn_ws_close_frame(got, 1001, "bye"),
		"\x88\x05\x03\xe9"
		"bye",
		7);
	memset(reason, 'r', sizeof(reason));
	reason[123] = '\0';
	CHECK_EQ(zn_ws_close_frame(got, 1000, reason), 127);
	reason[123] = 'r';
	reason[199] = '\0';
	CHECK_EQ(zn_ws_close_frame(got, 1000, reason), 127);
	CHECK_EQ(got[1], 125);
	memcpy(reason + 121, "\xf0\x9f\x98\x80", 4);
	CHECK_EQ(zn_ws_close_frame(got, 1000, reason), 125);
	memcpy(reason + 119, "\xf0\x9f\x98\x80", 4);
	reason[123] = 'r';
	CHECK_EQ(zn_ws_close_frame(got, 1000, reason), 127);
	memset(reason, '\x80', 199);
	CHECK_EQ(zn_ws_close_frame(got, 1000, reason), 4);
	free(got);
}

/* Frames as a client sends them, with a mask of its own for each. */
static void frame(struct zn_out *o, uint8_t first, struct zn_str payload)
{
	static uint8_t seed;
	uint8_t head[10];
	size_t len = zn_ws_header(head, 0, payload.len);
	char mask[4];

	head[0] = first;
	head[1] |= 0x80;
	zn_out_bytes(o, head, len);
	for (int i = 0; i < 4; i++)
		mask[i] = (char)(seed += 77);
	zn_out_bytes(o, mask, 4);
	for (size_t i = 0; i < payload.len; i++)
		zn_out_char(o, (char)(payload.at[i] ^ mask[i & 3]));
}

/* What a stream means, in words: "text(abc) ping(x) close=1000(bye) ". */
struct story {
	struct zn_out out;
	size_t sure; /* data after this is forgotten if an error follows: how much of it was seen depends on
	                the cuts */
	bool in_message;
};

static void tell_data(struct story *s, const struct zn_ws_event *ev)
{
	if (!s->in_message)
		zn_out_text(&s->out, ev->op == ZN_WS_TEXT ? "text(" : "binary(");
	s->in_message = !ev->final;
	zn_out_bytes(&s->out, ev->data.at, ev->data.len);
	if (ev->final) {
		zn_out_text(&s->out, ") ");
		s->sure = s->out.len;
	}
}

static void tell(struct story *s, const struct zn_ws_event *ev)
{
	static const char *const names[] = {"", "", "ping", "pong", "close=", "error="};

	if (ev->type == ZN_WS_EV_NONE)
		return;
	if (ev->type == ZN_WS_EV_DATA) {
		tell_data(s, ev);
		return;
	}
	if (ev->type == ZN_WS_EV_ERROR)
		s->out.len = s->sure;
	zn_out_text(&s->out, names[ev->type]);
	if (ev->type >= ZN_WS_EV_CLOSE)
		zn_out_u64(&s->out, ev->code);
	zn_out_char(&s->out, '(');
	zn_out_bytes(&s->out, ev->data.at, ev->data.len);
	zn_out_text(&s->out, ") ");
	s->sure = s->out.len;
}

static void feed(struct zn_ws *ws, struct story *s, const char *from, size_t len)
{
	char *block = malloc(len ? len : 1);
	struct zn_ws_event ev;
	size_t at = 0;

	memcpy(block, from, len);
	while (at < len && !ws->done) {
		int used = zn_ws_read(ws, block + at, len - at, &ev);

		CHECK(used > 0 && (size_t)used <= len - at);
		if (used <= 0)
			break;
		at += (size_t)used;
		tell(s, &ev);
		if (ev.type >= ZN_WS_EV_CLOSE)
			CHECK_EQ(zn_ws_read(ws, block, 1, &ev), -1);
	}
	free(block);
}

/* Reads the stream in pieces: the first of that size, the others of step bytes. */
static void check_pieces(struct zn_str stream, size_t first, size_t step, struct zn_str want)
{
	static char text[4 * LIMIT];
	struct story s = {.out = {.at = text, .cap = sizeof(text)}};
	struct zn_ws ws;

	zn_ws_init(&ws, LIMIT);
	feed(&ws, &s, stream.at, first);
	for (size_t at = first; at < stream.len; at += step)
		feed(&ws, &s, stream.at + at, stream.len - at < step ? stream.len - at : step);
	CHECK_MEM(text, s.out.len, want.at, want.len);
}

static void check_stream(struct zn_str stream, const char *text)
{
	struct zn_str want = {text, strlen(text)};

	for (size_t cut = 0; cut <= stream.len; cut++)
		check_pieces(stream, cut, stream.len, want);
	check_pieces(stream, 0, 1, want);
}

#define SMILE "\xf0\x9f\x98\x80"
#define D10   "1234567890"
#define D120  D10 D10 D10 D10 D10 D10 D10 D10 D10 D10 D10 D10

static void streams(void)
{
	static const struct {
		const char *name;
		struct {
			uint8_t first;
			struct zn_str payload; /* at == NULL: no more frames */
		} frames[6];
		const char *want;
	} rows[] = {
		{"text", {{0x81, S("Hello")}}, "text(Hello) "},
		{"empty text", {{0x81, S("")}}, "text() "},
		{"binary", {{0x82, S("\xff\xfe")}}, "binary(\xff\xfe) "},
		{"two messages", {{0x81, S("a")}, {0x82, S("b")}}, "text(a) binary(b) "},
		{"fragments", {{0x01, S("Hel")}, {0x00, S("")}, {0x80, S("lo")}}, "text(Hello) "},
		{"empty last fragment", {{0x01, S("Hello")}, {0x80, S("")}}, "text(Hello) "},
		{"all fragments empty", {{0x02, S("")}, {0x00, S("")}, {0x80, S("")}}, "binary() "},
		{"ping between fragments", {{0x01, S("Hel")}, {0x89, S("p")}, {0x80, S("lo")}}, "text(Helping(p) lo) "},
		{"pings in a character", {{0x01, S("\xf0\x9f")}, {0x89, S("")}, {0x8a, S("q")}, {0x80, S("\x98\x80")}},
			"text(\xf0\x9fping() pong(q) \x98\x80) "},
		{"ping of 125 bytes", {{0x89, S(D120 "12345")}},
			"ping(" D120 "12345"
			") "},
		{"ping is binary", {{0x89, S("\xff")}}, "ping(\xff) "},
		{"close between fragments", {{0x01, S("a")}, {0x88, S("")}, {0x80, S("b")}}, "text(aclose=1005() "},
		{"nothing after close", {{0x88, S("\x03\xe8")}, {0x81, S("late")}}, "close=1000() "},
		{"text after ping", {{0x89, S("")}, {0x81, S(SMILE)}}, "ping() text(" SMILE ") "},

		{"reserved bit 1", {{0xc1, S("a")}}, "error=1002() "},
		{"reserved bit 2", {{0xa1, S("a")}}, "error=1002() "},
		{"reserved bit 3", {{0x91, S("a")}}, "error=1002() "},
		{"opcode 3", {{0x83, S("a")}}, "error=1002() "},
		{"opcode 7", {{0x87, S("a")}}, "error=1002() "},
		{"opcode 11", {{0x8b, S("a")}}, "error=1002() "},
		{"opcode 15", {{0x8f, S("a")}}, "error=1002() "},
		{"ping in fragments", {{0x09, S("a")}}, "error=1002() "},
		{"close in fragments", {{0x08, S("")}}, "error=1002() "},
		{"ping of 126 bytes",
			{{0x89,
				S(D120 "12345"
				       "6")}},
			"error=1002() "},
		{"continues nothing", {{0x80, S("a")}}, "error=1002() "},
		{"continues a message that ended", {{0x81, S("a")}, {0x80, S("b")}}, "text(a) error=1002() "},
		{"text within text", {{0x01, S("a")}, {0x81, S("b")}}, "error=1002() "},
		{"binary within text", {{0x01, S("a")}, {0x02, S("b")}}, "error=1002() "},

		{"overlong", {{0x81, S("ok\xc0\xaf")}}, "error=1007() "},
		{"surrogate", {{0x81, S("ok\xed\xa0\x80")}}, "error=1007() "},
		{"above U+10FFFF", {{0x81, S("\xf4\x90\x80\x80")}}, "error=1007() "},
		{"first bad byte in a fragment", {{0x01, S("\xf4\x90")}, {0x80, S("\x80\x80")}}, "error=1007() "},
		{"cut at the end of the message", {{0x81, S("\xf0\x9f\x98")}}, "error=1007() "},
		{"cut at the end of the last fragment", {{0x01, S("\xe2")}, {0x80, S("\x82")}}, "error=1007() "},
		{"cut, then an empty last fragment", {{0x01, S("\xe2\x82")}, {0x80, S("")}}, "error=1007() "},
		{"state is not kept", {{0x82, S("\xe2")}, {0x81, S("\x82")}}, "binary(\xe2) error=1007() "},
		{"good until the ping", {{0x01, S("a")}, {0x89, S("")}, {0x80, S("\xff")}},
			"text(aping() error=1007() "},

		{"close without code", {{0x88, S("")}}, "close=1005() "},
		{"close with a reason",
			{{0x88,
				S("\x03\xe9"
				  "bye " SMILE)}},
			"close=1001(bye " SMILE ") "},
		{"close of 125 bytes", {{0x88, S("\x0b\xb8" D120 "123")}}, "close=3000(" D120 "123) "},
		{"close of 1 byte", {{0x88, S("\x03")}}, "error=1002() "},
		{"close of 1 byte after a longer ping", {{0x89, S("a\xe8")}, {0x88, S("\x03")}},
			"ping(a\xe8) error=1002() "},
		{"close reason not UTF-8", {{0x88, S("\x03\xe8\xff")}}, "error=1007() "},
		{"close reason cut", {{0x88, S("\x03\xe8\xe2\x82")}}, "error=1007() "},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char bytes[1024];
		struct zn_out o = {.at = bytes, .cap = sizeof(bytes)};

		t_begin(rows[i].name);
		for (int f = 0; f < 6 && rows[i].frames[f].payload.at; f++)
			frame(&o, rows[i].frames[f].first, rows[i].frames[f].payload);
		CHECK(!o.full);
		check_stream((struct zn_str){bytes, o.len}, rows[i].want);
	}
}

/* Headers alone, without one byte of payload. */
static void bare_headers(void)
{
	static const struct {
		const char *name;
		struct zn_str bytes;
		const char *want;
	} rows[] = {
		{"not masked", S("\x81\x05"), "error=1002() "},
		{"not masked and empty", S("\x89\x00"), "error=1002() "},
		{"bad at two bytes", S("\xf1\x85"), "error=1002() "},
		{"long ping at two bytes", S("\x89\xfe"), "error=1002() "},
		{"text within text at two bytes", S("\x01\x80mask\x01\x80"), "error=1002() "},
		{"125 in 16 bits", S("\x82\xfe\x00\x7dmask"), "error=1002() "},
		{"126 in 16 bits", S("\x82\xfe\x00\x7emask"), ""},
		{"0 in 64 bits", S("\x82\xff\0\0\0\0\0\0\0\0mask"), "error=1002() "},
		{"65535 in 64 bits", S("\x82\xff\0\0\0\0\0\0\xff\xffmask"), "error=1002() "},
		{"65536 in 64 bits", S("\x82\xff\0\0\0\0\0\x01\0\0mask"), ""},
		{"the limit, 70000", S("\x82\xff\0\0\0\0\0\x01\x11\x70mask"), ""},
		{"one above the limit", S("\x82\xff\0\0\0\0\0\x01\x11\x71mask"), "error=1009() "},
		{"one above the limit in two fragments", S("\x02\x81maskm\x80\xff\0\0\0\0\0\x01\x11\x70mask"),
			"error=1009() "},
		{"the limit is that of one message", S("\x82\x81mask\x0c\x82\xff\0\0\0\0\0\x01\x11\x70mask"),
			"binary(a) "},
		{"2^63 - 1", S("\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xffmask"), "error=1009() "},
		{"2^63", S("\x82\xff\x80\0\0\0\0\0\0\0mask"), "error=1002() "},
		{"2^64 - 1 after a fragment", S("\x02\x81maskm\x80\xff\xff\xff\xff\xff\xff\xff\xff\xffmask"),
			"error=1002() "},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		check_stream(rows[i].bytes, rows[i].want);
	}
}

T(close_codes)
{
	for (unsigned code = 0; code < 65536; code++) {
		bool good = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
			(code >= 3000 && code <= 4999);
		char bytes[] = {(char)0x88, (char)0x82, 0, 0, 0, 0, (char)(code >> 8), (char)code};
		struct zn_ws_event ev;
		struct zn_ws ws;

		zn_ws_init(&ws, 0);
		CHECK_EQ(zn_ws_read(&ws, bytes, sizeof(bytes), &ev), sizeof(bytes));
		CHECK_EQ(ev.type, good ? ZN_WS_EV_CLOSE : ZN_WS_EV_ERROR);
		CHECK_EQ(ev.code, good ? code : 1002);
	}
}

static void long_messages(void)
{
	static const struct {
		const char *name;
		size_t len;
	} rows[] = {{"125 bytes", 125}, {"126 bytes", 126}, {"127 bytes", 127}, {"65535 bytes", 65535},
		{"65536 bytes", 65536}, {"70000 bytes", LIMIT}};
	static char payload[LIMIT], want[LIMIT + 16], bytes[LIMIT + 16];

	for (size_t i = 0; i < LIMIT; i++)
		payload[i] = (char)('a' + i % 23);
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_out o = {.at = bytes, .cap = sizeof(bytes)}, w = {.at = want, .cap = sizeof(want)};
		struct zn_str stream;

		t_begin(rows[i].name);
		frame(&o, 0x81, (struct zn_str){payload, rows[i].len});
		zn_out_text(&w, "text(");
		zn_out_bytes(&w, payload, rows[i].len);
		zn_out_text(&w, ") ");
		stream = (struct zn_str){bytes, o.len};
		for (size_t cut = 0; cut < 20; cut++)
			check_pieces(stream, cut, 4093, (struct zn_str){want, w.len});
		check_pieces(stream, 0, 1, (struct zn_str){want, w.len});
	}
}

/* 1024 fragments are a message, 1025 are an attack. */
T(fragments_are_bounded)
{
	for (int count = 1024; count <= 1025; count++) {
		struct zn_ws_event ev;
		struct zn_ws ws;

		zn_ws_init(&ws, LIMIT);
		for (int i = 1; i <= count; i++) {
			char bytes[] = {(char)(i == 1 ? 2 : i == count ? 0x80 : 0), (char)0x80, 0, 0, 0, 0};

			CHECK(zn_ws_read(&ws, bytes, sizeof(bytes), &ev) > 0);
		}
		CHECK_EQ(ev.type, count == 1024 ? ZN_WS_EV_DATA : ZN_WS_EV_ERROR);
		CHECK_EQ(ev.code, count == 1024 ? 0 : 1009);
	}
}

T(nothing_in_nothing_out)
{
	struct zn_ws_event ev;
	struct zn_ws ws;

	zn_ws_init(&ws, LIMIT);
	CHECK_EQ(zn_ws_read(&ws, NULL, 0, &ev), 0);
	CHECK_EQ(ev.type, ZN_WS_EV_NONE);
}

int main(void)
{
	accepts();
	handshakes();
	headers();
	RUN(close_frames);
	streams();
	bare_headers();
	RUN(close_codes);
	long_messages();
	RUN(fragments_are_bounded);
	RUN(nothing_in_nothing_out);
	return t_end();
}
