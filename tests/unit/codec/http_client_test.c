/* SPDX-License-Identifier: GPL-2.0 */
/* http_client_test.c: URLs, the request, answers whole and cut at each byte, and how long a sender waits. */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static const struct {
	const char *text, *host;
	unsigned port; /* 0: it is none */
	const char *target, *basic;
	bool v6;
} urls[] = {
	{"http://a", "a", 80, "", "", false},
	{"HTTP://Node-7.x_y.z:9093", "Node-7.x_y.z", 9093, "", "", false},
	{"http://10.0.0.1:1/", "10.0.0.1", 1, "/", "", false},
	{"http://[::1]:65535/p/q?x=1&y=%20", "::1", 65535, "/p/q?x=1&y=%20", "", true},
	{"http://[fe80::1]", "fe80::1", 80, "", "", true},
	{"http://a?x=http://b@c", "a", 80, "/?x=http://b@c", "", false},
	{"http://u:p@a/x", "a", 80, "/x", "dTpw", false},
	{"http://user:pass%40word@a:81", "a", 81, "", "dXNlcjpwYXNzQHdvcmQ=", false},
	{"http://u:@a", "a", 80, "", "dTo=", false},
	{"http://a.", "a.", 80, "", "", false},
	{.text = "https://a"},
	{.text = "a:9093"},
	{.text = ""},
	{.text = "http://"},
	{.text = "http:///x"},
	{.text = "http://:80"},
	{.text = "http://a:"},
	{.text = "http://a:0"},
	{.text = "http://a:65536"},
	{.text = "http://a:000080"},
	{.text = "http://a:80x"},
	{.text = "http://a:-1"},
	{.text = "http://[::1"},
	{.text = "http://[::1]x"},
	{.text = "http://[a]"},
	{.text = "http://::1"},
	{.text = "http://[fe80::1%25eth0]"},
	{.text = "http://.a"},
	{.text = "http://a..b"},
	{.text = "http://a b"},
	{.text = "http://a/\r\nX: y"},
	{.text = "http://a/#x"},
	{.text = "http://a/\xc3\xa9"},
	{.text = "http://u@a"},
	{.text = "http://:p@a"},
	{.text = "http://u:p@v:q@a"},
	{.text = "http://u:%4@a"},
	{.text = "http://u:%zz@a"},
	{.text = "http://u:p@"},
};

static struct zn_url read_url(const char *text, int *err)
{
	struct zn_url u;
	size_t len = strlen(text);
	char *block = malloc(len ? len : 1); /* exactly as long, so that a sanitizer sees what is read beyond it */

	memcpy(block, text, len);
	*err = zn_url_read(&u, (struct zn_str){block, len});
	free(block);
	return u;
}

static void check_urls(void)
{
	for (size_t i = 0; i < ZN_LEN(urls); i++) {
		struct zn_url u;
		int err;

		t_begin(urls[i].text);
		u = read_url(urls[i].text, &err);
		CHECK_EQ(err, urls[i].port ? 0 : -EINVAL);
		if (err || !urls[i].port)
			continue;
		CHECK_STR(u.host, urls[i].host);
		CHECK_STR(u.target, urls[i].target);
		CHECK_STR(u.basic, urls[i].basic);
		CHECK_EQ(u.port, urls[i].port);
		CHECK_EQ(u.v6, urls[i].v6);
	}
}

T(longest_url)
{
	char text[ZN_TEXT_MAX + 1];
	int err;

	memset(text, 'a', sizeof(text));
	memcpy(text, "http://h/", 9);
	text[ZN_TEXT_MAX - 1] = '\0';
	read_url(text, &err);
	CHECK_EQ(err, 0);
	text[ZN_TEXT_MAX - 1] = 'a';
	text[ZN_TEXT_MAX] = '\0';
	read_url(text, &err);
	CHECK_EQ(err, -EINVAL);
}

static void check_post(const char *text, const char *token, const char *want)
{
	char head[1024];
	struct zn_out o = {.at = head, .cap = sizeof(head)};
	struct zn_url u;
	int err;

	u = read_url(text, &err);
	zn_post_head(&o,
		&(struct zn_post){
			.url = &u, .target = "/t?x", .type = "application/json", .token = token, .length = 17});
	CHECK(!err && !o.full);
	CHECK_MEM(head, o.len, want, strlen(want));
}

T(post)
{
	check_post("http://a:9093/x", "",
		"POST /t?x HTTP/1.1\r\nHost: a:9093\r\nUser-Agent: zerneld\r\nContent-Type: application/json\r\n"
		"Content-Length: 17\r\n\r\n");
	check_post("http://[::1]:81", "secret",
		"POST /t?x HTTP/1.1\r\nHost: [::1]:81\r\nUser-Agent: zerneld\r\nContent-Type: application/json\r\n"
		"Authorization: Bearer secret\r\nContent-Length: 17\r\n\r\n");
	check_post("http://u:p@a", "secret",
		"POST /t?x HTTP/1.1\r\nHost: a\r\nUser-Agent: zerneld\r\nContent-Type: application/json\r\n"
		"Authorization: Basic dTpw\r\nContent-Length: 17\r\n\r\n");
}

#define OK "HTTP/1.1 200 OK\r\n"
static const struct {
	const char *name, *text;
	int status; /* 0: more is needed; below: -EBADMSG */
	bool done, keep;
	uint32_t retry;
} replies[] = {
	{"length", OK "Content-Length: 5\r\n\r\nhello", 200, true, true, 0},
	{"no body", "HTTP/1.1 204 No Content\r\n\r\n", 204, true, true, 0},
	{"length of 204 is not read", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, true, true, 0},
	{"empty", OK "Content-Length: 0\r\n\r\n", 200, true, true, 0},
	{"no reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, true, true, 0},
	{"empty reason", "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", 200, true, true, 0},
	{"chunks", OK "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n", 200, true, true, 0},
	{"chunks in capitals", OK "TRANSFER-ENCODING:CHUNKED\r\n\r\n0\r\n\r\n", 200, true, true, 0},
	{"until the end", OK "\r\n", 200, true, false, 0},
	{"close", OK "Content-Length: 0\r\nConnection: x, close\r\n\r\n", 200, true, false, 0},
	{"1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true, false, 0},
	{"1.0 that stays", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, true, true,
		0},
	{"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" OK "Content-Length: 0\r\n\r\n",
		200, true, true, 0},
	{"later", "HTTP/1.1 503 No\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 503, true, true, 7},
	{"much later", "HTTP/1.1 429 No\r\nRetry-After: 99999999999999999999\r\nContent-Length: 0\r\n\r\n", 429, true,
		true, 0},
	{"an hour later", "HTTP/1.1 429 No\r\nRetry-After: 3600\r\nContent-Length: 0\r\n\r\n", 429, true, true, 120},
	{"on a day", "HTTP/1.1 429 No\r\nRetry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\nContent-Length: 0\r\n\r\n", 429,
		true, true, 0},
	{"redirect", "HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", 302, true, true, 0},
	{"both lengths", OK "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 200, true, false, 0},
	{"other coding", OK "Transfer-Encoding: gzip, chunked\r\n\r\n", 200, true, false, 0},
	{"a long body is not read", OK "Content-Length: 65537\r\n\r\n", 200, true, false, 0},
	{"a huge chunk is not read", OK "Transfer-Encoding: chunked\r\n\r\nffffffff", 200, true, false, 0},
	{"bad chunk", OK "Transfer-Encoding: chunked\r\n\r\nzz", 200, true, false, 0},
	{"same length twice", OK "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", 200, true, true, 0},
	{"body to come", OK "Content-Length: 5\r\n\r\nhell", 200, false, true, 0},
	{"cut in the head", OK "Content-Length: 0\r\n\r", 0, false, false, 0},
	{"nothing", "", 0, false, false, 0},
	{"two lengths", OK "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", -EBADMSG, false, false, 0},
	{"bad length", OK "Content-Length: -1\r\n\r\n", -EBADMSG, false, false, 0},
	{"no length", OK "Content-Length:\r\n\r\n", -EBADMSG, false, false, 0},
	{"huge length", OK "Content-Length: 18446744073709551616\r\n\r\n", -EBADMSG, false, false, 0},
	{"upgrade", "HTTP/1.1 101 Switching\r\n\r\n", -EBADMSG, false, false, 0},
	{"other version", "HTTP/2.0 200 OK\r\n\r\n", -EBADMSG, false, false, 0},
	{"minor version", "HTTP/1.2 200 OK\r\n\r\n", -EBADMSG, false, false, 0},
	{"SSH", "SSH-2.0-OpenSSH_9.2\r\n", -EBADMSG, false, false, 0},
	{"status of two digits", "HTTP/1.1 20 OK\r\n\r\n", -EBADMSG, false, false, 0},
	{"status of four digits", "HTTP/1.1 2000\r\n\r\n", -EBADMSG, false, false, 0},
	{"status 600", "HTTP/1.1 600 X\r\n\r\n", -EBADMSG, false, false, 0},
	{"bare LF", "HTTP/1.1 200 OK\n\n", -EBADMSG, false, false, 0},
	{"folded", OK "A: b\r\n c\r\n\r\n", -EBADMSG, false, false, 0},
	{"no colon", OK "A b\r\n\r\n", -EBADMSG, false, false, 0},
	{"no name", OK ": b\r\n\r\n", -EBADMSG, false, false, 0},
	{"blank before the colon", OK "A : b\r\n\r\n", -EBADMSG, false, false, 0},
	{"bare CR", OK "A: b\rc\r\n\r\n", -EBADMSG, false, false, 0},
};

/* In pieces, each in a block of its own size; the first error, or how much was used. */
static int read_cut(struct zn_reply *r, const char *text, size_t len, size_t at)
{
	int used = 0;

	zn_reply_init(r);
	for (size_t from = 0; from < len && used >= 0 && !r->done; from += (size_t)used) {
		size_t n = from < at ? at - from : len - from;
		char *block = malloc(n);

		memcpy(block, text + from, n);
		used = zn_reply_read(r, block, n);
		free(block);
		if (used == 0)
			break;
	}
	return used;
}

static void check_reply(size_t i, size_t at)
{
	struct zn_reply r;
	int used = read_cut(&r, replies[i].text, strlen(replies[i].text), at);

	if (replies[i].status < 0) {
		CHECK_EQ(used, -EBADMSG);
		return;
	}
	CHECK(used >= 0);
	CHECK_EQ(r.status, replies[i].status);
	CHECK_EQ(r.done, replies[i].done);
	CHECK_EQ(r.keep_alive, replies[i].keep);
	CHECK_EQ(r.retry_after_s, replies[i].retry);
}

static void check_replies(void)
{
	for (size_t i = 0; i < ZN_LEN(replies); i++) {
		t_begin(replies[i].name);
		for (size_t at = 0; at <= strlen(replies[i].text); at++)
			check_reply(i, at);
	}
}

T(what_follows_an_answer_is_not_used)
{
	static const char two[] = OK "Content-Length: 2\r\n\r\nabHTTP/1.1 500 No\r\n";
	struct zn_reply r;

	zn_reply_init(&r);
	CHECK_EQ(zn_reply_read(&r, two, sizeof(two) - 1), strstr(two, "ab") + 2 - two);
	CHECK(r.done && r.keep_alive && r.status == 200);
	CHECK_EQ(zn_reply_read(&r, two, sizeof(two) - 1), 0);
}

T(long_heads)
{
	static char text[2 * ZN_HTTP_HEAD_MAX];
	struct zn_reply r;

	memset(text, 'a', sizeof(text));
	memcpy(text, OK "A:", sizeof(OK) + 1);
	zn_reply_init(&r);
	CHECK_EQ(zn_reply_read(&r, text, ZN_HTTP_HEAD_MAX), ZN_HTTP_HEAD_MAX);
	CHECK_EQ(zn_reply_read(&r, text, 1), -EBADMSG);
	zn_reply_init(&r);
	memcpy(text + ZN_HTTP_HEAD_MAX - 4, "\r\n\r\n", 4);
	CHECK_EQ(zn_reply_read(&r, text, ZN_HTTP_HEAD_MAX), ZN_HTTP_HEAD_MAX);
	CHECK_EQ(r.status, 200);
}

T(interim_answers_end)
{
	static const char interim[] = "HTTP/1.1 102 Wait\r\n\r\n";
	struct zn_reply r;
	int taken = 0;

	zn_reply_init(&r);
	while (taken < 100 && zn_reply_read(&r, interim, sizeof(interim) - 1) > 0)
		taken++;
	CHECK_EQ(taken, 8);
}

T(long_bodies)
{
	static char zeros[70000];
	struct zn_reply r;

	zn_reply_init(&r);
	zn_reply_read(&r, OK "Content-Length: 65536\r\n\r\n", sizeof(OK) - 1 + 25);
	CHECK(!r.done && r.status == 200);
	CHECK_EQ(zn_reply_read(&r, zeros, 70000), 65536);
	CHECK(r.done && r.keep_alive);
}

T(waits)
{
	static const uint64_t most[] = {500, 500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};

	for (unsigned i = 0; i < ZN_LEN(most); i++)
		for (uint64_t random = 0; random <= UINT32_MAX; random += UINT32_MAX / 101) {
			uint64_t ms = zn_retry_ms(i, 0, (uint32_t)random);

			CHECK(ms >= 500 && ms >= most[i] / 2 && ms <= most[i]);
		}
	CHECK_EQ(zn_retry_ms(UINT32_MAX, 0, 0), 30000);
	CHECK_EQ(zn_retry_ms(1, 7, 0), 7500);
	CHECK_EQ(zn_retry_ms(1, UINT32_MAX, 0), 120500);
}

/* A head alone, for clients that read the body themselves. */
static const struct {
	const char *text;
	int status; /* 0: it is none */
	int64_t length;
	bool keeps, chunked;
} heads[] = {
	{"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, 7, true, false},
	{"HTTP/1.1 200 \r\ncontent-length:7 \r\nConnection: x, Close\r\n\r\n", 200, 7, false, false},
	{"HTTP/1.0 404 Not Found\r\n\r\n", 404, -1, false, false},
	{"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, 0, true, false},
	{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, -1, true, true},
	{.text = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nContent-Length: 8\r\n\r\n"},
	{.text = "HTTP/1.1 200 OK\r\nContent-Length: -7\r\n\r\n"},
	{.text = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"},
	{.text = "HTTP/1.1 200 OK\nContent-Length: 7\n\n"},
	{.text = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n"},
	{.text = "HTTP/1.1 200 OK\r\n\r\nmore"},
	{.text = "HTTP/1.1 200 OK\r\n\r\n\r\n"},
	{.text = "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"},
	{.text = "HTTP/1.1 200 OK\r\na b: c\r\n\r\n"},
	{.text = "HTTP/1.1 20 OK\r\n\r\n"},
	{.text = "HTTP/2.0 200 OK\r\n\r\n"},
	{.text = "\r\n"},
	{.text = "\r\nHTTP/1.1 200 OK\r\n\r\n"},
	{.text = ""},
};

T(heads_alone)
{
	struct zn_reply_head h;

	for (size_t i = 0; i < ZN_LEN(heads); i++) {
		struct zn_str whole = zn_str_of(heads[i].text);
		char *block = malloc(whole.len ? whole.len : 1); /* read past its end, ASan says so */
		bool is = zn_reply_head(&h, (struct zn_str){memcpy(block, whole.at, whole.len), whole.len}) == 0;

		CHECK_EQ(is, heads[i].status != 0);
		if (is && heads[i].status) {
			CHECK_EQ(h.status, heads[i].status);
			CHECK_EQ(h.length, heads[i].length);
			CHECK_EQ(zn_reply_keeps(&h), heads[i].keeps);
			CHECK_EQ(h.chunked, heads[i].chunked);
		}
		for (size_t cut = 0; is && cut < whole.len; cut++)
			CHECK(zn_reply_head(&h, (struct zn_str){block, cut}) != 0);
		free(block);
	}
}

int main(void)
{
	check_urls();
	RUN(longest_url);
	RUN(post);
	check_replies();
	RUN(what_follows_an_answer_is_not_used);
	RUN(long_heads);
	RUN(interim_answers_end);
	RUN(long_bodies);
	RUN(waits);
	RUN(heads_alone);
	return t_end();
}
