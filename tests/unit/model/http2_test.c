/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http2_test.c: frames of HTTP/2 as servers send and receive them, whole and cut at each byte; what is read of header
 * blocks, by the examples of RFC 7541 and as C-core, nghttp2 and Go write them.
 */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define STREAMS 16

/* What bpf/http2.bpf.h keeps of a connection and its streams. */
struct connection {
	struct zn_request c, stream[STREAMS];
	uint32_t done[ZN_OUTCOME_COUNT], events, in_flight, begun, broken;
	uint64_t now;
};

static struct zn_request *stream_of(struct connection *k, bool sends)
{
	uint32_t id = zn_h2_stream(&k->c.h2.side[sends]);

	return &k->stream[id / 2 % STREAMS];
}

static void finish(struct connection *k, struct zn_request *r, enum zn_request_code code)
{
	k->done[code]++;
	k->in_flight--;
	*r = (struct zn_request){0};
}

static void frame_received(struct connection *k, uint32_t effects)
{
	const struct zn_h2_side *d = &k->c.h2.side[0];
	struct zn_request *r = stream_of(k, false);
	uint32_t id = zn_h2_stream(d);

	if (!(id & 1))
		return;
	if (!r->first_ns && d->head[3] == ZN_H2_HEADERS && effects & ZN_H2_BEGINS && id > k->c.length) {
		k->c.length = id;
		r->first_ns = k->now;
		zn_http1_begin(r, k->now);
		k->begun++;
		k->in_flight++;
	} else if (r->first_ns && d->head[3] == ZN_H2_RST && effects & ZN_H2_ENDS) {
		finish(k, r, ZN_OUTCOME_ABORTED);
	}
}

static void frame_sent(struct connection *k, uint32_t effects)
{
	struct zn_h2_side *d = &k->c.h2.side[1];
	struct zn_request *r = stream_of(k, true);
	bool last;

	if (!r->first_ns)
		return;
	if (d->head[3] == ZN_H2_DATA && effects & ZN_H2_BEGINS && zn_h2_is_event(r, d))
		k->events++;
	if (!(effects & ZN_H2_ENDS))
		return;
	last = zn_h2_is_last(r, d);
	if (zn_h2_is_block(d) && d->head[4] & ZN_H2_END_HEADERS)
		zn_h2_answered(r, &k->c.h2.block, last);
	if (last && d->head[3] == ZN_H2_DATA)
		r->flags &= ~ZN_H2_OF_GRPC;
	if (last)
		finish(k, r, zn_h2_code(r));
	else if (d->head[3] == ZN_H2_RST)
		finish(k, r, ZN_OUTCOME_ABORTED);
}

/* Each look at bytes has them in memory of exactly that size. */
static void move(struct connection *k, const uint8_t *at, size_t len, bool sends)
{
	k->now += ZN_NS_PER_MS;
	while (len && !k->c.broken) {
		struct zn_h2_side *d = &k->c.h2.side[sends];
		uint32_t look = zn_h2_look(d, sends), effects;
		size_t n = look ? look : d->left;
		struct zn_request_scratch *s = calloc(1, sizeof(*s));

		n = n < len ? n : len;
		if (look)
			memcpy(s->bytes, at, s->have = n);
		effects = zn_h2_feed(&k->c, s, n, sends);
		free(s);
		at += n;
		len -= n;
		if (effects & ZN_H2_BROKEN) {
			k->broken++;
			k->c.broken = 1;
		} else if (effects && sends) {
			frame_sent(k, effects);
		} else if (effects) {
			frame_received(k, effects);
		}
		if (effects & ZN_H2_ENDS)
			zn_h2_next(&k->c.h2.side[sends]);
	}
}

/* The bytes of a line of hexadecimal digits; of what stands in quotes as it is. */
static size_t bytes_of(const char *text, const char *end, uint8_t *to)
{
	size_t n = 0;

	while (text < end) {
		if (*text == '\'') {
			for (text++; *text != '\''; text++)
				to[n++] = (uint8_t)*text;
			text++;
		} else if (*text == ' ') {
			text++;
		} else {
			char pair[3] = {text[0], text[1], 0};

			to[n++] = (uint8_t)strtoul(pair, NULL, 16);
			text += 2;
		}
	}
	return n;
}

#define PREFACE     ">'PRI * HTTP/2.0' 0d0a0d0a 'SM' 0d0a0d0a 000000 04 00 00000000|"
#define ASK(id)     ">000003 01 04 000000" id " 838684|>000003 00 01 000000" id " 'abc'|"
#define HEAD(id)    "<000001 01 04 000000" id " 88|"
#define WORD(id)    "<00000a 00 00 000000" id " 00 00000005 'words'|"
#define GRPC_OK(id) "<00000f 01 05 000000" id " 40 0b 'grpc-status' 01 '0'|"

static const struct dialogue {
	const char *name, *text;
	uint32_t ok, failed, server, aborted, unknown, events;
} dialogues[] = {
	{"a stream of gRPC", PREFACE ASK("01") HEAD("01") WORD("01") WORD("01") GRPC_OK("01"), 1, 0, 0, 0, 0, 2},
	{"its code as an index, behind other entries",
		PREFACE ASK("01") HEAD("01") WORD("01") GRPC_OK("01")
			ASK("03") "<000005 01 04 00000003 88 40 01 'a' 00|" WORD("03") "<000001 01 05 00000003 bf|",
		2, 0, 0, 0, 0, 2},
	{"an index from before", ASK("01") HEAD("01") WORD("01") "<000001 01 05 00000001 be|", 0, 0, 0, 0, 1, 1},
	{"a number under a name from before", ASK("01") HEAD("01") WORD("01") "<000003 01 05 00000001 7e 01 '5'|", 0, 0,
		0, 0, 1, 1},
	{"bytes that begin as a message does",
		PREFACE ASK("01") HEAD("01") "<00000a 00 01 00000001 00 00000005 'words'|", 1, 0, 0, 0, 0, 1},
	{"a code that lost its place to others",
		PREFACE ASK("01") HEAD("01") WORD("01") GRPC_OK("01") ASK("03")
			HEAD("03") "<00000f 01 05 00000003 40 0b 'grpc-status' 01 '1'|" ASK("05") HEAD(
				"05") "<00000f 01 05 00000005 40 0b 'grpc-status' 01 '3'|" ASK("07")
				HEAD("07") "<00000f 01 05 00000007 40 0b 'grpc-status' 01 '5'|" ASK("09") HEAD(
					"09") "<00000f 01 05 00000009 40 0b 'grpc-status' 01 '6'|" ASK("0b")
					HEAD("0b") "<00000f 01 05 0000000b 40 0b 'grpc-status' 01 '7'|" ASK("0d") HEAD(
						"0d") "<00000f 01 05 0000000d 40 0b 'grpc-status' 01 '9'|" ASK("0f")
						HEAD("0f") WORD("0f") "<000001 01 05 0000000f c4|",
		1, 6, 0, 0, 1, 2},
	{"only trailers", PREFACE ASK("01") "<000011 01 05 00000001 88 00 0b 'grpc-status' 02 '12'|", 0, 0, 1, 0, 0, 0},
	{"a code of the client's", PREFACE ASK("01") HEAD("01") "<00000f 01 05 00000001 00 0b 'grpc-status' 01 '5'|", 0,
		1, 0, 0, 0, 0},
	{"its name by the code of Huffman",
		PREFACE ASK("01") HEAD("01") "<00000d 01 05 00000001 40 88 9acac8b21234da8f 02 '14'|", 0, 0, 1, 0, 0,
		0},
	{"two at one time",
		PREFACE ASK("01") ASK("03") HEAD("03") HEAD("01") WORD("01") WORD("03") GRPC_OK("03") GRPC_OK("01"), 2,
		0, 0, 0, 0, 2},
	{"no content", PREFACE ASK("01") "<000001 01 05 00000001 89|", 1, 0, 0, 0, 0, 0},
	{"not found", PREFACE ASK("01") "<000001 01 04 00000001 8d|<000001 00 01 00000001 'x'|", 0, 1, 0, 0, 0, 0},
	{"503, then by its index",
		PREFACE ASK("01") "<000005 01 05 00000001 48 03 '503'|" ASK("03") "<000001 01 05 00000003 be|", 0, 0, 2,
		0, 0, 0},
	{"503 by the code of Huffman", PREFACE ASK("01") "<000004 01 05 00000001 48 82 6c19|", 0, 0, 1, 0, 0, 0},
	{"302 by the code of Huffman", PREFACE ASK("01") "<000004 01 05 00000001 48 82 6402|", 1, 0, 0, 0, 0, 0},
	{"100, then 200",
		PREFACE ASK("01") "<000005 01 04 00000001 08 03 '100'|" HEAD("01") "<000001 00 01 00000001 'x'|", 1, 0,
		0, 0, 0, 0},
	{"the size of the table before it", PREFACE ASK("01") "<000004 01 05 00000001 3fe11f 88|", 1, 0, 0, 0, 0, 0},
	{"a block in two frames", PREFACE ASK("01") "<000002 01 01 00000001 4803|<000003 09 04 00000001 '404'|", 0, 1,
		0, 0, 0, 0},
	{"trailers in three frames, with those of another stream behind them",
		PREFACE ASK("01") ASK("03") HEAD("01") HEAD("03")
			WORD("01") "<000001 01 01 00000001 40|<00000c 09 00 00000001 0b 'grpc-status'|"
				   "<000002 09 04 00000001 01 '5'|" WORD("03") GRPC_OK("03"),
		1, 1, 0, 0, 0, 2},
	{"a block in two frames that ends nothing",
		PREFACE ASK("01") "<000001 01 00 00000001 88|<000000 09 04 00000001|<000001 00 01 00000001 'x'|", 1, 0,
		0, 0, 0, 0},
	{"an answer that is no stream", PREFACE ASK("01") HEAD("01") "<000005 00 01 00000001 '{\"a\"}'|", 1, 0, 0, 0, 0,
		0},
	{"server-sent events",
		PREFACE ASK("01")
			HEAD("01") "<000008 00 00 00000001 ': ping' 0a0a|<00000b 00 00 00000001 'data: {\"a\"}'|"
				   "<00000c 00 00 00000001 'data: [DONE]'|<000000 00 01 00000001|",
		1, 0, 0, 0, 0, 1},
	{"a message in two frames",
		PREFACE ASK("01")
			HEAD("01") "<000007 00 00 00000001 00 00000004 0000|<000002 00 00 00000001 0000|" WORD("01")
				GRPC_OK("01"),
		1, 0, 0, 0, 0, 2},
	{"a message that begins in the frame in which another ends",
		PREFACE ASK("01") HEAD(
			"01") "<000007 00 00 00000001 00 00000004 0000|<000009 00 00 00000001 0000 00 00000007 'ab'|"
			      "<000005 00 00 00000001 00 000000ff|" WORD("01") WORD("01") GRPC_OK("01"),
		1, 0, 0, 0, 0, 4},
	{"two messages in one frame, of which one goes on in two more",
		PREFACE ASK("01")
			HEAD("01") "<00000c 00 00 00000001 00 00000001 'a' 00 0000000a 'b'|"
				   "<000007 00 00 00000001 00 00000400 'cc'|<000002 00 00 00000001 0000|" WORD("01")
					   WORD("01") GRPC_OK("01"),
		1, 0, 0, 0, 0, 5},
	{"the beginning of a message in two frames",
		PREFACE ASK("01") HEAD("01") "<000003 00 00 00000001 00 0000|<000007 00 00 00000001 0005 'words'|" WORD(
			"01") GRPC_OK("01"),
		1, 0, 0, 0, 0, 2},
	{"a message in two frames with padding",
		PREFACE ASK("01") HEAD("01") "<00000f 00 08 00000001 07 00 00000009 0000 00000000000000|"
					     "<000008 00 08 00000001 00 00 000000ff 0000|" WORD("01") WORD("01")
						     GRPC_OK("01"),
		1, 0, 0, 0, 0, 3},
	{"left by the client", PREFACE ASK("01") HEAD("01") WORD("01") ">000004 03 00 00000001 00000008|", 0, 0, 0, 1,
		0, 1},
	{"refused by the server", PREFACE ASK("01") "<000004 03 00 00000001 00000007|", 0, 0, 0, 1, 0, 0},
	{"what is of no stream",
		PREFACE ASK("01") ">000008 06 00 00000000 0001020304050607|>000004 08 00 00000000 00000001|"
				  "<000008 06 01 00000000 0001020304050607|<000004 08 00 00000001 00000001|" HEAD("01")
					  GRPC_OK("01"),
		1, 0, 0, 0, 0, 0},
	{"trailers of a request that has ended",
		PREFACE ASK("01") "<000001 01 05 00000001 88|>000003 01 05 00000001 838684|", 1, 0, 0, 0, 0, 0},
};

/* cut: the piece of this number is cut in two before this byte of it. Returns whether there was one. */
static bool play(struct connection *k, const char *text, size_t piece, size_t cut)
{
	uint8_t bytes[256];
	struct zn_request_scratch s = {.bytes = "PRI * "};
	size_t at = 0;
	bool was = false;

	*k = (struct connection){.now = ZN_NS_PER_S};
	if (strncmp(text, PREFACE, 12) != 0)
		s.bytes[0] = 0;
	zn_h2_init(&k->c, &s, 1);
	for (const char *end; *text; text = end + 1, at++) {
		bool sends = *text == '<';
		size_t len;

		end = strchr(text, '|');
		len = bytes_of(text + 1, end, bytes);
		if (at == piece && cut < len) {
			move(k, bytes, cut, sends);
			move(k, bytes + cut, len - cut, sends);
			was = true;
		} else {
			move(k, bytes, len, sends);
		}
	}
	return was || at > piece;
}

static void check_played(const struct dialogue *d, const struct connection *k)
{
	CHECK_EQ(k->done[ZN_OUTCOME_2XX] + k->done[ZN_OUTCOME_3XX], d->ok);
	CHECK_EQ(k->done[ZN_OUTCOME_4XX], d->failed);
	CHECK_EQ(k->done[ZN_OUTCOME_5XX], d->server);
	CHECK_EQ(k->done[ZN_OUTCOME_ABORTED], d->aborted);
	CHECK_EQ(k->done[ZN_OUTCOME_UNKNOWN], d->unknown);
	CHECK_EQ(k->events, d->events);
	CHECK_EQ(k->in_flight, 0);
	CHECK_EQ(k->broken, 0);
}

static void dialogues_whole_and_cut(void)
{
	struct connection k;

	for (size_t i = 0; i < ZN_LEN(dialogues); i++) {
		const struct dialogue *d = &dialogues[i];

		t_begin(d->name);
		for (size_t piece = 0, cut = 0; play(&k, d->text, piece, cut); cut++) {
			check_played(d, &k);
			if (cut < 64)
				continue;
			cut = 0;
			piece++;
		}
	}
}

T(what_is_no_frame)
{
	static const char *const bad[] = {
		"<000001 00 00 00000000 00|",         /* data of no stream */
		"<000003 03 00 00000001 000000|",     /* a reset of another length */
		"<000005 04 00 00000000 0000000000|", /* settings likewise */
		"<000004 08 00 80000001 00000000|",   /* a bit that is 0 */
		"<'HTTP/1.1 200 OK'|",
	};
	struct connection k;

	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		play(&k, bad[i], 99, 0);
		CHECK_EQ(k.broken, 1);
	}
}

/* A connection from before: what begins with the headers of a request. */
T(requests_that_are_adopted)
{
	static const struct {
		const char *text;
		bool asked;
	} row[] = {
		{"000020 01 04 00000005 838684 bebfc0c1c2c3c4c5c6c7c8c9|", true},
		{"000020 01 25 00000005 8000000010 838684 bebfc0c1c2c3c4c5|", true},
		{"000020 01 04 00000004 838684 bebfc0c1c2c3c4c5c6c7c8c9|", false},
		{"000020 01 00 00000005 838684 bebfc0c1c2c3c4c5c6c7c8c9|", false},
		{"000020 00 04 00000005 838684 bebfc0c1c2c3c4c5c6c7c8c9|", false},
		{"000020 01 04 00000005 008684 bebfc0c1c2c3c4c5c6c7c8c9|", false},
		{"000020 01 04 00000005 838684|", false},
		{"'GET / HTTP/1.1' 0d0a 'Host: localhost' 0d0a0d0a|", false},
	};

	for (size_t i = 0; i < ZN_LEN(row); i++) {
		struct zn_request_scratch s = {0};
		struct zn_request c = {0};

		s.have = bytes_of(row[i].text, strchr(row[i].text, '|'), s.bytes);
		CHECK_EQ(zn_h2_is_asked(&s) != 0, row[i].asked);
		CHECK(!row[i].asked || zn_http1_may_begin(s.bytes[0], s.have));
		zn_http1_received(&c, &s, 1);
		CHECK_EQ(c.protocol == ZN_PROTOCOL_HTTP2 + 1, row[i].asked);
	}
}

T(keys_of_streams_are_no_addresses)
{
	struct zn_request c = {.scan = {0xffffffff}};

	CHECK(ZN_H2_IS_STREAM(zn_h2_key(&c, 0x7fffffff)));
	CHECK(!ZN_H2_IS_STREAM(0xffff888000000000ULL));
}

int main(void)
{
	dialogues_whole_and_cut();
	RUN(what_is_no_frame);
	RUN(requests_that_are_adopted);
	RUN(keys_of_streams_are_no_addresses);
	return t_end();
}
