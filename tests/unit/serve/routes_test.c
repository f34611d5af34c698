/* SPDX-License-Identifier: GPL-2.0 */
/*
 * routes_test.c: requests and their answers (routes.c): status, head and body of each route, tokens, compression,
 * and which requests share an answer.
 */
#include <zlib.h>

#include "server.h"

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
	{"collected", 0, "GET /metrics?collect[]=job HTTP/1.1\r\nHost: x\r\n", 200, "Content-Length: 5\r\n", "text\n",
		0, METRICS, ZN_CODE_200},
	{"collected, unknown", 0, "GET /metrics?collect[]=cpu HTTP/1.1\r\nHost: x\r\n", 400, "text/plain",
		"node, job, process or detail", 0, METRICS, ZN_CODE_400},
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

/* One who wants it compressed and one who does not share what is rendered; without a second buffer both get it
 * plain. */
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

int main(void)
{
	answers();
	answers_cut_at_each_byte();
	RUN(token);
	RUN(gzip);
	RUN(gzip_is_shared);
	RUN(not_shared_across_filters);
	RUN(unhealthy);
	RUN(too_large_or_no_buffer);
	RUN(shared_answer);
	RUN(figures_are_fresh);
	RUN(not_shared_across_formats);
	RUN(long_target_and_head);
	return t_end();
}
