/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_body_test.c: bodies of requests (http_body.c), of a length and in chunks, cut at every byte; requests in a row.
 */
#include "http.h"

/* Reads what is left of a body from a heap block of exactly that size: what zn_http_body_read() says. */
static int read_part(struct zn_http_body *b, struct zn_str text)
{
	char *block = malloc(text.len ? text.len : 1);
	int used;

	memcpy(block, text.at, text.len);
	used = zn_http_body_read(b, block, text.len);
	free(block);
	return used;
}

/* A body in pieces of `step` bytes, the first of `first` bytes: its length, 0 if it has no end, or an error. */
static int read_cut(const struct zn_http_req *req, struct zn_str text, size_t first, size_t step)
{
	struct zn_http_body b;
	size_t total = 0, end = first;
	int used = 0;

	zn_http_body_init(&b, req);
	for (; !b.done && used >= 0 && total < text.len; end += step) {
		size_t len = (end < text.len ? end : text.len) - total;

		used = read_part(&b, (struct zn_str){text.at + total, len});
		total += used > 0 ? (size_t)used : 0;
		CHECK(used < 0 || b.done || (size_t)used == len);
	}
	if (used < 0)
		CHECK_EQ(read_part(&b, S("0")), -400);
	else if (b.done)
		CHECK_EQ(read_part(&b, S("0")), 0);
	return used < 0 ? used : b.done ? (int)total : 0;
}

static void check_body(const struct zn_http_req *req, struct zn_str text, int want)
{
	for (size_t cut = 0; cut <= text.len; cut++)
		CHECK_EQ(read_cut(req, text, cut, text.len), want);
	CHECK_EQ(read_cut(req, text, 1, 1), want);
	CHECK_EQ(read_cut(req, text, 3, 7), want);
}

#define NEXT   "GET /x"
#define Z16    "0000000000000000"
#define X64    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
#define LAST   "0\r\n\r\n"
#define END(s) (sizeof(s) - 1)

static void chunked_bodies(void)
{
	static const struct {
		const char *name;
		struct zn_str text;
		int want;
	} rows[] = {
		{"chunked: nothing yet", S(""), 0},
		{"chunked: empty", S(LAST NEXT), END(LAST)},
		{"chunked: one", S("5\r\nhello\r\n" LAST NEXT), END("5\r\nhello\r\n" LAST)},
		{"chunked: two", S("1\r\na\r\n00b\r\n0123\r\n56789\r\n" LAST),
			END("1\r\na\r\n00b\r\n0123\r\n56789\r\n" LAST)},
		{"chunked: digits of both cases", S("A\r\n0123456789\r\na\r\n0123456789\r\n" LAST),
			END("A\r\n0123456789\r\na\r\n0123456789\r\n" LAST)},
		{"chunked: no last chunk", S("5\r\nhello\r\n"), 0},
		{"chunked: no end of the last chunk", S("0\r\n"), 0},
		{"chunked: last chunk of many zeros", S("000\r\n\r\n" NEXT), END("000\r\n\r\n")},
		{"chunked: the next request in the data", S("6\r\n" NEXT "\r\n" LAST), END("6\r\n" NEXT "\r\n" LAST)},

		{"chunked: no size", S("\r\n"), -400},
		{"chunked: size of a letter", S("g\r\n"), -400},
		{"chunked: size with a sign", S("+5\r\n"), -400},
		{"chunked: size below 0", S("-5\r\n"), -400},
		{"chunked: size with 0x", S("0x5\r\n"), -400},
		{"chunked: space before the size", S(" 5\r\n"), -400},
		{"chunked: space after the size", S("5 \r\n"), -400},
		{"chunked: tab after the size", S("5\t\r\n"), -400},
		{"chunked: two sizes", S("5 5\r\n"), -400},
		{"chunked: size with a comma", S("5,5\r\n"), -400},
		{"chunked: size with an underline", S("1_0\r\n"), -400},
		{"chunked: size with a NUL", S("5\0\r\n"), -400},
		{"chunked: size in other digits", S("\xd9\xa5\r\n"), -400},
		{"chunked: extension only", S(";a\r\n"), -400},
		{"chunked: LF after the size", S("5\nhello\r\n" LAST), -400},
		{"chunked: CR after the size", S("5\rhello\r\n" LAST), -400},
		{"chunked: CR CR LF after the size", S("5\r\r\nhello\r\n" LAST), -400},
		{"chunked: LF after the data", S("5\r\nhello\n" LAST), -400},
		{"chunked: CR after the data", S("5\r\nhello\r" LAST), -400},
		{"chunked: nothing after the data", S("5\r\nhello" LAST), -400},
		{"chunked: data too long", S("5\r\nhelloo\r\n" LAST), -400},
		{"chunked: data too short", S("5\r\nhell\r\n" LAST), -400},
		{"chunked: an empty line more", S("5\r\nhello\r\n\r\n" LAST), -400},
		{"chunked: LF at the end", S("0\r\n\n"), -400},
		{"chunked: LF LF at the end", S("0\n\n"), -400},
		{"chunked: CR and no LF at the end", S("0\r\n\rx"), -400},
		{"chunked: the next request for the end", S("0\r\nGET / HTTP/1.1\r\n\r\n"), -400},

		{"chunked: longest", S("10000\r\n"), 0},
		{"chunked: too long by one", S("10001\r\n"), -413},
		{"chunked: too long with the chunk before", S("1\r\na\r\n10000\r\n"), -413},
		{"chunked: 2^32", S("100000000\r\n"), -413},
		{"chunked: 2^64 - 1", S("ffffffffffffffff\r\n"), -413},
		{"chunked: 2^64 + 5", S("10000000000000005\r\n"), -413},
		{"chunked: zeros before the size", S(Z16 "00005\r\nhello\r\n" LAST),
			END(Z16 "00005\r\nhello\r\n" LAST)},

		{"extension: name", S("5;a\r\nhello\r\n" LAST), END("5;a\r\nhello\r\n" LAST)},
		{"extension: value", S("5;a=b\r\nhello\r\n0;c=d\r\n\r\n"), END("5;a=b\r\nhello\r\n0;c=d\r\n\r\n")},
		{"extension: two", S("0;a;b=c\r\n\r\n"), END("0;a;b=c\r\n\r\n")},
		{"extension: blanks", S("0 \t; a\t= b ;\tc ;d\r\n\r\n"), END("0 \t; a\t= b ;\tc ;d\r\n\r\n")},
		{"extension: quoted", S("0;a=\" ;\\\"\\\\=\xe9\t\";b\r\n\r\n"),
			END("0;a=\" ;\\\"\\\\=\xe9\t\";b\r\n\r\n")},
		{"extension: blanks in a row", S("0\t \t;\t a \t =\t b \t ;c\r\n\r\n"),
			END("0\t \t;\t a \t =\t b \t ;c\r\n\r\n")},
		{"extension: values in a row", S("0;a=b;c=\"d\";e=\"f\"\r\n\r\n"),
			END("0;a=b;c=\"d\";e=\"f\"\r\n\r\n")},
		{"extension: quoted empty", S("0;a=\"\" ;b\r\n\r\n"), END("0;a=\"\" ;b\r\n\r\n")},
		{"extension: no name", S("0;\r\n"), -400},
		{"extension: no name before the next", S("0;;a\r\n"), -400},
		{"extension: no name before the value", S("0;=a\r\n"), -400},
		{"extension: no value", S("0;a=\r\n"), -400},
		{"extension: no value before the next", S("0;a=;b\r\n"), -400},
		{"extension: two values", S("0;a=b c\r\n"), -400},
		{"extension: blank at the end", S("0;a \r\n"), -400},
		{"extension: blank after a value", S("0;a=b \r\n"), -400},
		{"extension: quotes open", S("0;a=\"b\r\n"), -400},
		{"extension: more after the quotes", S("0;a=\"b\"c\r\n"), -400},
		{"extension: escape at the end", S("0;a=\"\\\r\n"), -400},
		{"extension: LF", S("5;a\nhello\r\n" LAST), -400},
		{"extension: CR", S("5;a\rb\r\nhello\r\n" LAST), -400},
		{"extension: LF in quotes", S("5;a=\"\n\"\r\nhello\r\n" LAST), -400},
		{"extension: NUL", S("5;a=\"\0\"\r\nhello\r\n" LAST), -400},
		{"extension: high byte", S("0;\xc3\xa9\r\n\r\n"), -400},

		{"trailer: one", S("0\r\nA: b\r\n\r\n" NEXT), END("0\r\nA: b\r\n\r\n")},
		{"trailer: two", S("0\r\nA:\r\nB: \xe9\t c \r\n\r\n"), END("0\r\nA:\r\nB: \xe9\t c \r\n\r\n")},
		{"trailer: of framing", S("0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n" NEXT),
			END("0\r\nContent-Length: 5\r\nTransfer-Encoding: x\r\n\r\n")},
		{"trailer: no colon", S("0\r\nA\r\n\r\n"), -400},
		{"trailer: empty name", S("0\r\n: a\r\n\r\n"), -400},
		{"trailer: space before colon", S("0\r\nA : b\r\n\r\n"), -400},
		{"trailer: folded", S("0\r\nA: b\r\n c\r\n\r\n"), -400},
		{"trailer: LF", S("0\r\nA: b\n\r\n"), -400},
		{"trailer: CR in a value", S("0\r\nA: b\rc\r\n\r\n"), -400},
		{"trailer: NUL in a value", S("0\r\nA: \0\r\n\r\n"), -400},
		{"trailer: high byte in a name", S("0\r\n\xe9: b\r\n\r\n"), -400},
		{"trailer: bare CR at the end", S("0\r\nA: b\r\n\rGET"), -400},

		{"line: longest size",
			S(Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 "00000000000000\r\n\r\n"),
			ZN_HTTP_LINE_MAX + 2},
		{"line: size too long",
			S(Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 "000000000000000\r\n\r\n"), -400},
		{"line: size without end", S(Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 Z16 "0"),
			-400},
		{"line: longest extension",
			S("0;" X64 X64 X64 "=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			ZN_HTTP_LINE_MAX + 2},
		{"line: extension too long",
			S("0;" X64 X64 X64 "=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			-400},
		{"line: extension without end", S("0;" X64 X64 X64 X64), -400},
		{"line: longest trailers",
			S("0\r\nA:" X64 X64 "\r\nB:" X64
			  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			3 + ZN_HTTP_LINE_MAX},
		{"line: trailers too long",
			S("0\r\nA:" X64 X64 "\r\nB:" X64
			  "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n\r\n"),
			-400},
		{"line: trailers without end", S("0\r\nA:" X64 X64 X64 X64), -400},
	};
	static const struct zn_http_req req = {.chunked = true};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		check_body(&req, rows[i].text, rows[i].want);
	}
}

T(bodies_of_a_length)
{
	static const struct zn_http_req none = {0}, five = {.length = 5};

	check_body(&none, S(""), 0);
	CHECK_EQ(read_cut(&none, S(NEXT), 6, 1), 0);
	check_body(&five, S("hell"), 0);
	check_body(&five, S("hello"), 5);
	check_body(&five,
		S("\r\n\0\xff"
		  "0" NEXT),
		5);
}

/* The longest body of each form, and one byte more of content or of framing. */
T(longest_bodies)
{
	static char text[2 * ZN_HTTP_BODY_MAX + 64];
	static const struct zn_http_req chunked = {.chunked = true}, sized = {.length = ZN_HTTP_BODY_MAX};
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	memset(text, 'x', sizeof(text));
	CHECK_EQ(read_cut(&sized, (struct zn_str){text, sizeof(text)}, 1, 4099), ZN_HTTP_BODY_MAX);
	memcpy(text, "10000\r\n", 7);
	memcpy(text + 7 + ZN_HTTP_BODY_MAX, "\r\n" LAST, 7);
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, sizeof(text)}, 1, 4099), ZN_HTTP_BODY_MAX + 14);
	memcpy(text + 7 + ZN_HTTP_BODY_MAX, "\r\n1\r\na\r\n" LAST, 13);
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, sizeof(text)}, 1, 4099), -413);
	for (int i = 0; i < ZN_HTTP_BODY_MAX / 5; i++)
		zn_out_text(&o, "1\r\na\r\n");
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, o.len}, 1, 4099), 0);
	zn_out_char(&o, '0');
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, o.len}, 1, 4099), 0);
	zn_out_char(&o, '\r');
	CHECK_EQ(read_cut(&chunked, (struct zn_str){text, o.len}, 1, 4099), -413);
}

/* A head, its body and the next head, as one stream cut at every byte: where the second begins is never in doubt. */
T(requests_in_a_row)
{
	static const struct {
		struct zn_str text;
		size_t first;
	} rows[] = {
		{S(G H E G H E), END(G H E)},
		{S(G H L5 E "hello" G H E), END(G H L5 E "hello")},
		{S(G H L5 E "GET /" G H E), END(G H L5 E "GET /")},
		{S(G H "Transfer-Encoding: chunked\r\n" E "5;a\r\nGET /\r\n0\r\nA: b\r\n\r\n" G H E),
			END(G H "Transfer-Encoding: chunked\r\n" E "5;a\r\nGET /\r\n0\r\nA: b\r\n\r\n")},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		for (size_t cut = 0; cut <= rows[i].text.len; cut++) {
			struct zn_http_req req;
			int head = zn_http_parse(rows[i].text.at, rows[i].text.len, &req), body;
			struct zn_str rest = {rows[i].text.at + head, rows[i].text.len - (size_t)head};

			CHECK_EQ(
				parse_part(rows[i].text, cut, &(struct zn_http_req){0}), cut < (size_t)head ? 0 : head);
			body = read_cut(&req, rest, cut < rest.len ? cut : rest.len, rest.len);
			CHECK_EQ(head + body, rows[i].first);
			CHECK_EQ(zn_http_parse(rest.at + body, rest.len - (size_t)body, &req), END(G H E));
		}
	}
}

int main(void)
{
	chunked_bodies();
	RUN(bodies_of_a_length);
	RUN(longest_bodies);
	RUN(requests_in_a_row);
	return t_end();
}
