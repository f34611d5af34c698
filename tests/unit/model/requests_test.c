/* SPDX-License-Identifier: GPL-2.0 */
/*
 * requests_test.c: the parser that BPF has too, on dialogues as servers have them, cut at each byte of each side;
 * routes by the keys of paths; servers that come and go.
 */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

/* What bpf/requests.bpf.c keeps of one connection. */
struct connection {
	struct zn_request c;
	uint64_t keys[ZN_ROUTE_COUNT];
	uint32_t done[ZN_OUTCOME_COUNT], routes[ZN_ROUTE_COUNT], events, lost, in_flight, known[ZN_PROTOCOL_COUNT];
	uint64_t now, first_ns, gap_ns;
};

static void connection_init(struct connection *k)
{
	*k = (struct connection){.now = ZN_NS_PER_S};
	for (enum zn_request_route r = 1; r < ZN_ROUTE_COUNT; r++)
		k->keys[r] = zn_request_route_key(r);
}

static enum zn_request_route route_of(const struct connection *k)
{
	static const enum zn_route_key kinds[] = {ZN_ROUTE_EXACT, ZN_ROUTE_LAST, ZN_ROUTE_BELOW};

	for (size_t i = 0; i < ZN_LEN(kinds); i++)
		for (enum zn_request_route r = 1; r < ZN_ROUTE_COUNT; r++)
			if (k->keys[r] && k->keys[r] == zn_http1_key(&k->c, kinds[i]))
				return r;
	return ZN_ROUTE_OTHER;
}

static void finish(struct connection *k, enum zn_request_code code)
{
	CHECK_EQ(k->in_flight, 1);
	k->in_flight = 0;
	k->done[code]++;
	k->c.state = ZN_REQUEST_IDLE;
}

static struct zn_request_scratch *bytes_of(const char *text, size_t len)
{
	struct zn_request_scratch *s = calloc(1, sizeof(*s));
	size_t last = len < ZN_LAST_CHUNK ? len : ZN_LAST_CHUNK;

	s->have = len < ZN_REQUEST_BYTES ? len : ZN_REQUEST_BYTES;
	memcpy(s->bytes, text, s->have);
	s->last_len = last;
	memcpy(s->last, text + len - last, last);
	return s;
}

static void receive(struct connection *k, const char *text, size_t len)
{
	struct zn_request_scratch *s = bytes_of(text, len);
	uint32_t effects;

	s->have = s->have < ZN_LINE_MAX ? s->have : ZN_LINE_MAX;
	effects = zn_http1_received(&k->c, s, k->now);
	if (effects & ZN_DO_END)
		finish(k, zn_http1_code(&k->c));
	if (effects & ZN_DO_KNOWN)
		k->known[k->c.protocol - 1]++;
	if (effects & ZN_DO_BEGIN) {
		CHECK_EQ(k->in_flight, 0);
		k->routes[route_of(k)]++;
		zn_http1_begin(&k->c, k->now);
		k->in_flight = 1;
	}
	free(s);
}

static void transmit(struct connection *k, const char *text, size_t len)
{
	struct zn_request_scratch *s = bytes_of(text, len);
	uint32_t effects = k->c.protocol > ZN_PROTOCOL_HTTP1 + 1 ? 0 : zn_http1_sent(&k->c, s, len, k->now);

	if (effects & ZN_DO_LOST)
		k->lost++;
	if (effects & ZN_DO_EVENT) {
		if (!k->c.events++)
			k->first_ns = k->now - k->c.read_ns;
		else
			k->gap_ns += k->now - k->c.event_ns;
		k->c.event_ns = k->now;
		k->events++;
	}
	if (effects & ZN_DO_LATE)
		finish(k, zn_http1_code(&k->c));
	if (effects & ZN_DO_KNOWN)
		k->known[k->c.protocol - 1]++;
	free(s);
}

static void end(struct connection *k)
{
	if (k->in_flight)
		finish(k, zn_http1_is_aborted(&k->c) ? ZN_OUTCOME_ABORTED : zn_http1_code(&k->c));
}

/* Nothing that begins otherwise changes anything of a connection, of whatever length; what is sent to servers does. */
T(what_may_begin_a_connection)
{
	static const char *const begins[] = {
		"POST /v1/chat/completions HTTP/1.1\r\n", "G", "PRI * HTTP/2.0\r\n", "\x16\x03\x01\x02\x00\x01\x00"};
	static const char frame[] =
		"\0\0\x20\x01\x04\0\0\0\x01\x83\x86\x45\x92\x41\x8a\xa0\xe4\x1d\x13\x9d\x09\xb8\xf8\xe0";
	struct connection k;
	char bytes[64] = "";

	for (size_t i = 0; i < ZN_LEN(begins); i++)
		CHECK(zn_http1_may_begin((uint8_t)begins[i][0], (uint32_t)strlen(begins[i])));
	CHECK(zn_http1_may_begin((uint8_t)frame[0], sizeof(frame) - 1));
	for (int first = 0; first < 256; first++) {
		for (uint32_t len = 1; len < sizeof(bytes); len++) {
			if (zn_http1_may_begin((uint8_t)first, len))
				continue;
			connection_init(&k);
			memcpy(bytes, frame, sizeof(frame));
			bytes[0] = (char)first;
			receive(&k, bytes, len);
			memcpy(bytes, "\x16\x03\x01\x02\x00\x01 / HTTP/1.1", 17);
			bytes[0] = (char)first;
			receive(&k, bytes, len);
			CHECK_EQ(k.in_flight + k.c.protocol + k.c.line + k.c.state, 0);
		}
	}
}

/* '>' is received, '<' is sent, "|" ends a piece. */
#define POST ">POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
#define GET  ">GET /health HTTP/1.1\r\nHost: x\r\n\r\n"
#define STREAM                                                                                                         \
	"<HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
#define WORD     "<10\r\ndata: {\"a\": 1}\n\n\r\n"
#define DONE     "<e\r\ndata: [DONE]\n\n\r\n"
#define LAST     "<0\r\n\r\n"
#define TRAILERS "<0\r\nDigest: x\r\nTook: 31\r\n\r\n"
#define PING     "<8\r\n: ping\n\n\r\n"
#define PLAIN    "<HTTP/1.1 200 OK\r\ncontent-length: 4\r\nContent-Type: application/json\r\n\r\ntext"
#define OF_NGINX                                                                                                       \
	"<HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\nDate: Fri, 27 Nov 2026 04:30:00 GMT\r\n"                          \
	"Content-Type: text/html\r\nContent-Length: 4\r\nLast-Modified: Fri, 27 Nov 2026 04:00:00 GMT\r\n"             \
	"Connection: keep-alive\r\nETag: \"6566aa00-4\"\r\nAccept-Ranges: bytes\r\n\r\ntext"
#define ALIKE                                                                                                          \
	"<HTTP/1.1 200 OK\r\nVia: transfer-encoding: chunked\r\nContent-Length-Old: 9\r\nContents: 8\r\nA:b\r\n"       \
	"content: 7\r\nx-content-type: text/event-stream\r\nContent-Range: content-length: 6\r\n"                      \
	"Note: content-length: 5\r\nCON\rTENT-LENGTH: 5\r\ntransfer-coding: chunked\r\nCONTENT-LENGTH:4\r\n\r\ntext"
#define NOTHING "<HTTP/1.1 204 No Content\r\n\r\n"

static const struct dialogue {
	const char *name, *text;
	uint32_t ok, failed, aborted, events, lost;
	bool cut_sends; /* the same if what is sent is cut anywhere, but for events */
} dialogues[] = {
	{"a stream", POST "|" STREAM "|" WORD "|" WORD "|" WORD "|" DONE "|" LAST, 1, 0, 0, 3, 0, true},
	{"two of them", POST "|" STREAM "|" WORD "|" DONE "|" LAST "|" POST "|" STREAM "|" WORD "|" LAST, 2, 0, 0, 2, 0,
		true},
	{"its head with the first event",
		POST "|" STREAM "10\r\ndata: {\"a\": 1}\n\n\r\n"
		     "|" WORD "|" LAST,
		1, 0, 0, 2, 0, true},
	{"the last event with the end",
		POST "|" STREAM "|" WORD "|<10\r\ndata: {\"a\": 1}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n", 1, 0, 0,
		2, 0, true},
	{"comments are no events", POST "|" STREAM "|" PING "|" WORD "|" PING "|" LAST, 1, 0, 0, 1, 0, true},
	{"an event with a name", POST "|" STREAM "|<1b\r\nevent: delta\ndata: {\"a\":1}\n\n\r\n|" LAST, 1, 0, 0, 1, 0,
		true},
	{"a size line by itself", POST "|" STREAM "|<10\r\n|<data: {\"a\": 1}\n\n|<\r\n|" LAST, 1, 0, 0, 1, 0, true},
	{"lines of JSON",
		POST "|<HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n|"
		     "<5\r\n{\"a\"}\n\r\n|<5\r\n{\"b\"}\n\r\n|" LAST,
		1, 0, 0, 2, 0, true},
	{"an answer with a length", POST "|" PLAIN, 1, 0, 0, 0, 0, true},
	{"kept alive", GET "|" PLAIN "|" GET "|" PLAIN "|" POST "|" PLAIN, 3, 0, 0, 0, 0, true},
	{"its body in pieces", GET "|<HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n|<te|<xt|<te|" GET "|" PLAIN, 2, 0, 0,
		0, 0, true},
	{"the body of a request in pieces", ">POST /generate HTTP/1.1\r\nContent-Length: 9\r\n\r\n|>GET |>POST |" PLAIN,
		1, 0, 0, 0, 0, true},
	{"no content", GET "|" NOTHING "|" GET "|" PLAIN, 2, 0, 0, 0, 0, true},
	{"not modified", GET "|<HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n|" GET "|" PLAIN, 2, 0, 0, 0, 0,
		true},
	{"HEAD", ">HEAD /health HTTP/1.1\r\n\r\n|<HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n|" GET "|" PLAIN, 2, 0,
		0, 0, 0, true},
	{"of no length", GET "|<HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n|" GET "|" PLAIN, 2, 0, 0, 0, 0, true},
	{"100-continue", POST "|<HTTP/1.1 100 Continue\r\n\r\n|>{}|" PLAIN, 1, 0, 0, 0, 0, true},
	{"100-continue in one",
		POST "|<HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 1\r\n\r\nx", 0, 1, 0, 0,
		0, true},
	{"failures",
		GET "|<HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx|" GET
		    "|<HTTP/1.1 503 x\r\nContent-Length: 1\r\n\r\nx",
		0, 2, 0, 0, 0, true},
	{"fields behind the last chunk", POST "|" STREAM "|" WORD "|" TRAILERS, 1, 0, 0, 1, 0, false},
	{"and another request", POST "|" STREAM "|" WORD "|" TRAILERS "|" GET "|" PLAIN, 2, 0, 0, 1, 0, false},
	{"left behind an event of lines of CR and LF", POST "|" STREAM "|<f\r\ndata: {\"a\"}\r\n\r\n\r\n", 0, 0, 1, 1,
		0, true},
	{"until the end", GET "|<HTTP/1.0 200 OK\r\n\r\n|<text", 1, 0, 0, 0, 0, true},
	{"left amid a stream", POST "|" STREAM "|" WORD, 0, 0, 1, 1, 0, true},
	{"left before the answer", POST, 0, 0, 1, 0, 0, true},
	{"left amid a body", GET "|<HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n|<te", 0, 0, 1, 0, 0, true},
	{"two at one time", GET "GET /health HTTP/1.1\r\n\r\n|" PLAIN "|" PLAIN, 1, 0, 0, 0, 1, false},
	{"two at one time, answered in one",
		GET "GET /health HTTP/1.1\r\n\r\n|" PLAIN "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\ntext|" GET
		    "|" PLAIN,
		2, 0, 0, 0, 1, false},
	{"bare line feeds", GET "|<HTTP/1.1 200 OK\ncontent-length: 1\n\nx|" GET "|" PLAIN, 2, 0, 0, 0, 0, true},
	{"a name that ends alike",
		GET "|<HTTP/1.1 200 OK\r\nx-content-length: 9\r\ncontent-length: 1\r\n\r\nx|" GET "|" PLAIN, 2, 0, 0, 0,
		0, true},
	{"a head as nginx has it", GET "|" OF_NGINX "|" GET "|" PLAIN, 2, 0, 0, 0, 0, true},
	{"fields that are not read", GET "|" ALIKE "|" GET "|" PLAIN, 2, 0, 0, 0, 0, true},
	{"a line that is not empty", GET "|<HTTP/1.1 200\r\n\r\r\nC\r\nContent-Length: 1\r\n\r\nx|" GET "|" PLAIN, 2, 0,
		0, 0, 0, true},
	{"data that look like an end", POST "|" STREAM "|<8\r\ndata: 0\n\r\n|" WORD "|" LAST, 1, 0, 0, 2, 0, true},
	{"no HTTP", ">\x01\x02\x03GET|<HTTP|>abc", 0, 0, 0, 0, 0, true},
	{"a client", ">HTTP/1.1 200 OK\r\n\r\n|<GET / HTTP/1.1\r\n\r\n", 0, 0, 0, 0, 0, true},
	{"an answer that is none", GET "|<hello, world", 0, 0, 1, 0, 0, true},
};

static const char *piece_end(const char *at)
{
	const char *end = strchr(at, '|');

	return end ? end : at + strlen(at);
}

/* cut: before this byte of the dialogue the piece at hand is cut in two. */
static void play(struct connection *k, const char *text, const char *cut)
{
	connection_init(k);
	for (const char *at = text, *to; *at; at = *to ? to + 1 : to) {
		void (*move)(struct connection * k, const char *text, size_t len) = *at == '>' ? receive : transmit;
		const char *from = at + 1;

		to = piece_end(at);
		if (cut > from && cut < to) {
			move(k, from, cut - from);
			k->now += ZN_NS_PER_MS;
			from = cut;
		}
		move(k, from, to - from);
		k->now += ZN_NS_PER_MS;
	}
	end(k);
}

static void check_played(const struct dialogue *d, const struct connection *k, bool cut)
{
	CHECK_EQ(k->done[ZN_OUTCOME_2XX] + k->done[ZN_OUTCOME_3XX], d->ok);
	CHECK_EQ(k->done[ZN_OUTCOME_4XX] + k->done[ZN_OUTCOME_5XX], d->failed);
	CHECK_EQ(k->done[ZN_OUTCOME_ABORTED], d->aborted);
	CHECK_EQ(k->in_flight, 0);
	CHECK_EQ(k->lost, d->lost);
	if (cut)
		CHECK(k->events <= d->events + 1);
	else
		CHECK_EQ(k->events, d->events);
}

/* Which side the byte is of. */
static bool is_sent(const char *text, const char *at)
{
	while (at > text && at[-1] != '|')
		at--;
	return *at == '<';
}

static void dialogues_whole_and_cut(void)
{
	struct connection k;

	for (size_t i = 0; i < ZN_LEN(dialogues); i++) {
		const struct dialogue *d = &dialogues[i];

		t_begin(d->name);
		play(&k, d->text, NULL);
		check_played(d, &k, false);
		for (const char *cut = d->text; *cut; cut++) {
			if (is_sent(d->text, cut) ? !d->cut_sends : d->lost)
				continue;
			play(&k, d->text, cut);
			check_played(d, &k, is_sent(d->text, cut));
		}
	}
}

/* One byte at a time, of both sides. */
T(heads_byte_by_byte)
{
	static const char ask[] = "POST /v2/models/llama/infer?x=1 HTTP/1.1\r\n\r\n";
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
	struct connection k;

	connection_init(&k);
	for (int turn = 0; turn < 3; turn++) {
		for (size_t i = 0; i < sizeof(ask) - 1; i++)
			receive(&k, ask + i, 1);
		for (size_t i = 0; i < sizeof(answer) - 1; i++)
			transmit(&k, answer + i, 1);
	}
	CHECK_EQ(k.done[ZN_OUTCOME_2XX], 3);
	CHECK_EQ(k.routes[ZN_ROUTE_INFER], 3);
	CHECK_EQ(k.in_flight, 0);
}

static void paths(void)
{
	static const struct {
		const char *path;
		enum zn_request_route route;
	} row[] = {
		{"/v1/chat/completions", ZN_ROUTE_CHAT},
		{"/v1/chat/completions?user=secret", ZN_ROUTE_CHAT},
		{"/v1/chat/completions/", ZN_ROUTE_OTHER},
		{"/v1/completions", ZN_ROUTE_COMPLETIONS},
		{"/v1/completion", ZN_ROUTE_OTHER},
		{"/V1/completions", ZN_ROUTE_OTHER},
		{"/predictions/resnet", ZN_ROUTE_PREDICTIONS},
		{"/predictions/resnet/1.0", ZN_ROUTE_PREDICTIONS},
		{"/predictions", ZN_ROUTE_OTHER},
		{"/v2/models/a/infer", ZN_ROUTE_INFER},
		{"/v2/models/a/versions/3/infer", ZN_ROUTE_INFER},
		{"/v2/models/a/generate", ZN_ROUTE_MODEL_GENERATE},
		{"/v2/models/a/generate_stream", ZN_ROUTE_MODEL_STREAM},
		{"/v2/models/infer", ZN_ROUTE_OTHER},
		{"/v2/models/a/ready", ZN_ROUTE_OTHER},
		{"/v3/models/a/infer", ZN_ROUTE_OTHER},
		{"/generate", ZN_ROUTE_GENERATE},
		{"/", ZN_ROUTE_OTHER},
		{"", ZN_ROUTE_OTHER},
		{"*", ZN_ROUTE_OTHER},
	};
	char text[256];

	for (size_t i = 0; i < ZN_LEN(row); i++) {
		struct connection k;

		t_begin(row[i].path);
		connection_init(&k);
		receive(&k, text, (size_t)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n\r\n", row[i].path));
		CHECK_EQ(k.routes[row[i].route], 1);
	}
}

/* A path of any length is one of other, and ends the look at it. */
T(long_paths)
{
	char text[2048] = "GET /v1/chat/completions";

	memset(text + 24, 'x', sizeof(text) - 24);
	for (size_t first = 1; first < 200; first++) {
		struct connection k;

		connection_init(&k);
		receive(&k, text, first);
		receive(&k, text + first, 1000);
		CHECK_EQ(k.routes[ZN_ROUTE_OTHER], 1);
		CHECK_EQ(k.in_flight, 1);
		end(&k);
	}
}

T(each_route_has_a_key_of_its_own)
{
	for (enum zn_request_route a = 1; a < ZN_ROUTE_H2; a++) {
		CHECK(zn_request_route_key(a) != 0);
		for (enum zn_request_route b = 1; b < a; b++)
			CHECK(zn_request_route_key(a) != zn_request_route_key(b));
	}
	CHECK_EQ(zn_request_route_key(ZN_ROUTE_OTHER), 0);
	CHECK_EQ(zn_request_route_key(ZN_ROUTE_H2), 0);
	CHECK_EQ(zn_request_route_key(ZN_ROUTE_NOT_READ), 0);
}

/* An upload is not the model's time; the last byte begins it. */
T(times)
{
	struct connection k;

	connection_init(&k);
	receive(&k, "POST /generate HTTP/1.1\r\n\r\n", 27);
	k.now += 5 * ZN_NS_PER_MS;
	receive(&k, "body", 4);
	k.now += 7 * ZN_NS_PER_MS;
	transmit(&k, STREAM + 1, strlen(STREAM) - 1);
	k.now += 11 * ZN_NS_PER_MS;
	transmit(&k, PING + 1, strlen(PING) - 1);
	k.now += 13 * ZN_NS_PER_MS;
	transmit(&k, WORD + 1, strlen(WORD) - 1);
	CHECK_EQ(k.first_ns, 31 * ZN_NS_PER_MS);
	k.now += 17 * ZN_NS_PER_MS;
	transmit(&k, PING + 1, strlen(PING) - 1);
	k.now += 1 * ZN_NS_PER_MS;
	transmit(&k, WORD + 1, strlen(WORD) - 1);
	CHECK_EQ(k.gap_ns, 18 * ZN_NS_PER_MS);
	CHECK_EQ(k.c.start_ns, ZN_NS_PER_S);
	end(&k);
}

T(other_protocols)
{
	static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00", h2[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	struct connection k;

	connection_init(&k);
	receive(&k, hello, sizeof(hello) - 1);
	receive(&k, "GET / HTTP/1.1\r\n", 16);
	CHECK_EQ(k.known[ZN_PROTOCOL_TLS], 1);
	CHECK_EQ(k.in_flight, 0);
	connection_init(&k);
	receive(&k, h2, sizeof(h2) - 1);
	CHECK_EQ(k.known[ZN_PROTOCOL_HTTP2], 1);
	connection_init(&k);
	receive(&k, "GET /ws HTTP/1.1\r\n\r\n", 20);
	transmit(&k, "HTTP/1.1 101 Switching Protocols\r\n\r\n", 36);
	receive(&k, "GET / HTTP/1.1\r\n", 16);
	CHECK_EQ(k.known[ZN_PROTOCOL_UPGRADED], 1);
	CHECK_EQ(k.in_flight, 0);
	CHECK_EQ(k.done[ZN_OUTCOME_2XX], 1);
}

/* ---- servers ---- */

static struct zn_server servers[ZN_SERVERS_MAX];
static struct zn_request_series series[ZN_REQUEST_SERIES];
static uint32_t freed;

static int server_add(struct zn_arena *a, const struct zn_server *server)
{
	for (uint32_t i = 0; i < 3; i++)
		if (!a->servers[i].id) {
			a->servers[i] = *server;
			a->servers[i].id = i + 100;
			return (int)i;
		}
	return -1;
}

static void server_gone(struct zn_arena *a, uint32_t index)
{
	(void)a;
	(void)index;
}

static void server_free(struct zn_arena *a, uint32_t index)
{
	a->servers[index] = (struct zn_server){0};
	freed++;
}

static bool is_even(uint32_t tgid)
{
	return tgid % 2 == 0;
}

T(servers_come_and_go)
{
	static const struct zn_arena_ops ops = {
		.server_add = server_add, .server_gone = server_gone, .server_free = server_free};
	static struct zn_shared shared;
	static struct zn_proc procs[3];
	static struct zn_arena a;
	struct zn_requests r;

	a.ops = &ops;
	a.servers = servers;
	a.request_series = series;
	zn_requests_init(&r, &a);
	r.ended = is_even;
	for (uint32_t tgid = 1; tgid <= 2; tgid++)
		zn_requests_found(&r, &(struct zn_server){.tgid = tgid});
	zn_requests_found(&r, &(struct zn_server){.tgid = 1});
	CHECK_EQ(r.count, 2);
	zn_requests_tick(&r, 5 * ZN_NS_PER_S);
	CHECK_EQ(r.count, 1);
	CHECK(zn_server_at(&a, 0) && !zn_server_at(&a, 1));
	CHECK_EQ(freed, 0);
	zn_requests_tick(&r, 6 * ZN_NS_PER_S);
	CHECK_EQ(freed, 1);
	CHECK_EQ(r.count, 1);
	CHECK_EQ(servers[1].gone_ns, 0);
	CHECK(!zn_server_at(&a, ZN_SERVERS_MAX));
	servers[0].series[ZN_ROUTE_CHAT] = 8;
	series[7].id = 100;
	CHECK(zn_server_series(&a, &servers[0], ZN_ROUTE_CHAT) == &series[7]);
	a.shared = &shared;
	a.procs = procs;
	memset(a.proc_mapped, 0xff, sizeof(a.proc_mapped));
	zn_requests_tick(&r, 6 * ZN_NS_PER_S);
	CHECK_EQ(procs[2].calls, 0);
	servers[0].begun = 1;
	shared.row_tgid[2] = 1;
	shared.row_tgid[1] = 3;
	procs[2].calls = ZN_CALLS_CUDA;
	zn_requests_tick(&r, 7 * ZN_NS_PER_S);
	CHECK_EQ(procs[2].calls, ZN_CALLS_CUDA | ZN_IS_ASKED);
	CHECK_EQ(procs[1].calls, 0);
	series[7].id = 101;
	CHECK(!zn_server_series(&a, &servers[0], ZN_ROUTE_CHAT));
	CHECK(!zn_server_series(&a, &servers[0], ZN_ROUTE_OTHER));
	servers[0].series[ZN_ROUTE_CHAT] = ZN_REQUEST_SERIES + 1;
	CHECK(!zn_server_series(&a, &servers[0], ZN_ROUTE_CHAT));
}

T(labels)
{
	CHECK_STR(zn_request_route(ZN_ROUTE_CHAT), "/v1/chat/completions");
	CHECK_STR(zn_request_route(ZN_ROUTE_COUNT), "unknown");
	CHECK_STR(zn_request_code(ZN_OUTCOME_ABORTED), "aborted");
	CHECK_STR(zn_request_protocol(ZN_PROTOCOL_TLS), "tls");
	CHECK_STR(zn_server_role(ZN_ROLE_BOTH), "both");
}

int main(void)
{
	dialogues_whole_and_cut();
	paths();
	RUN(what_may_begin_a_connection);
	RUN(heads_byte_by_byte);
	RUN(long_paths);
	RUN(each_route_has_a_key_of_its_own);
	RUN(times);
	RUN(other_protocols);
	RUN(servers_come_and_go);
	RUN(labels);
	return t_end();
}
