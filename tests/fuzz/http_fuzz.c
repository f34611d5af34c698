/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_fuzz.c: any bytes as a request, and as each of its parts. A shorter part of a head must ask for more or show
 * the error of the whole; a body must end at the same byte wherever it is cut; what a naive reader of the head finds
 * about its end and its body must be what the parser found; paths and pairs must be clean.
 */
#include <stdlib.h>

#include "json.c"
#include "http.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static char *copy_of(struct zn_str s)
{
	char *block = malloc(s.len ? s.len : 1);

	if (s.len)
		memcpy(block, s.at, s.len);
	return block;
}

static int parse_part(const char *data, size_t len, struct zn_http_req *req)
{
	char *block = copy_of((struct zn_str){data, len});
	int got = zn_http_parse(block, len, req);

	free(block);
	return got;
}

static void check_slices(struct zn_str head, const struct zn_http_req *req)
{
	const struct zn_str slices[] = {req->path, req->query, req->host, req->origin, req->if_none_match,
		req->authorization, req->ws_key, req->ws_version, req->ws_protocol[0],
		req->ws_protocol[ZN_WS_PROTOCOLS - 1]};

	for (size_t i = 0; i < ZN_LEN(slices); i++)
		if (slices[i].at && !zn_str_is(slices[i], "/") && !zn_str_is(slices[i], "*"))
			check(slices[i].at >= head.at && slices[i].at + slices[i].len <= head.at + head.len);
	check(req->path.len && (*req->path.at == '/' || zn_str_is(req->path, "*")));
	check(!req->http10 || !(req->upgrade || req->expect));
	check(req->http10 || req->host.len);
	check(!req->length || (!req->chunked && req->length <= ZN_HTTP_BODY_MAX));
}

static bool begins(struct zn_str line, const char *text)
{
	return line.len >= strlen(text) && !strncasecmp(line.at, text, strlen(text));
}

/* What is kept open, or upgraded, must have no line about a body but "Content-Length: 0". */
static void check_no_body(struct zn_str line)
{
	check(!begins(line, "transfer-encoding:"));
	if (begins(line, "content-length:")) {
		struct zn_str value = zn_str_trim((struct zn_str){line.at + 15, line.len - 15}, " \t");

		check(zn_str_is(value, "0"));
	}
}

/* Line by line: each ends in CRLF, the first empty one after another one is the end, exactly one names the host. */
static void check_head(struct zn_str head, const struct zn_http_req *req)
{
	size_t start = 0, hosts = 0;
	bool body = req->chunked || req->length;

	while (head.at[start] == '\r')
		start += 2;
	for (size_t at = start; at < head.len; at++) {
		struct zn_str line = {head.at + start, at - 1 - start};

		check(head.at[at] && (head.at[at] != '\r' || head.at[at + 1] == '\n'));
		if (head.at[at] != '\n')
			continue;
		check(at > start && head.at[at - 1] == '\r');
		check((line.len == 0) == (at + 1 == head.len));
		hosts += begins(line, "host:");
		if (req->keep_alive || req->upgrade)
			check_no_body(line);
		start = at + 1;
	}
	check(hosts == 1 || (req->http10 && !hosts));
	check(!body || !(req->keep_alive || req->upgrade));
}

static void check_parse(const char *text, size_t len, int want)
{
	size_t step = len / 128 + 1;
	struct zn_http_req req;
	int seen = 0;

	for (size_t at = 0; at < len; at += step) {
		int got = parse_part(text, at, &req);

		check(got == 0 || (got == want && (got < 0 || at >= (size_t)want)));
		check(seen == 0 || got == seen);
		check(want <= 0 || at < (size_t)want || got == want);
		seen = got;
	}
}

/* A body in pieces: its length, 0 if it has no end, or the error; *at is where that was found. */
static int read_body(const struct zn_http_req *req, struct zn_str text, size_t step, size_t *at)
{
	struct zn_http_body b;
	int used = 0;

	zn_http_body_init(&b, req);
	for (*at = 0; !b.done && used >= 0 && *at<text.len; *at += used> 0 ? (size_t)used : 0) {
		struct zn_str piece = {text.at + *at, text.len - *at < step ? text.len - *at : step};
		char *block = copy_of(piece);

		used = zn_http_body_read(&b, block, piece.len);
		check(used < 0 ? used == -400 || used == -413 : b.done || (size_t)used == piece.len);
		check(b.content <= ZN_HTTP_BODY_MAX && b.framing <= ZN_HTTP_BODY_MAX + 1);
		check(used < 0 || b.line <= ZN_HTTP_LINE_MAX);
		free(block);
	}
	return used < 0 ? used : b.done ? (int)*at : 0;
}

static void check_body(const struct zn_http_req *req, struct zn_str text)
{
	size_t at;
	int whole = read_body(req, text, text.len, &at);

	check(read_body(req, text, 1, &at) == whole);
	check(read_body(req, text, 7, &at) == whole);
	check(whole <= 0 || read_body(req, (struct zn_str){text.at, (size_t)whole}, text.len, &at) == whole);
	check(whole <= 0 || read_body(req, (struct zn_str){text.at, (size_t)whole - 1}, text.len, &at) == 0);
	if (whole > 0 && req->chunked)
		check(text.at[whole - 2] == '\r' && text.at[whole - 1] == '\n');
}

static bool has_dots(struct zn_str path)
{
	struct zn_str part;

	while (path.len) {
		zn_str_split(&path, "/", &part);
		if (zn_str_is(part, ".") || zn_str_is(part, ".."))
			return true;
	}
	return false;
}

/* A path that was looked up has nothing left to take out, and one that has no '%' is looked up as itself. */
static void check_path(struct zn_str path)
{
	char *from = copy_of(path), *to = malloc(path.len + 1), *again = malloc(path.len + 1);
	size_t len = zn_http_path((struct zn_str){from, path.len}, to, path.len + 1);

	check(len <= path.len);
	check(!len || (*to == '/' && !memchr(to, 0, len) && !has_dots((struct zn_str){to, len})));
	if (len && !memchr(to, '%', len))
		check(zn_http_path((struct zn_str){to, len}, again, len) == len && !memcmp(to, again, len));
	if (len)
		check(zn_http_path((struct zn_str){from, path.len}, again, len - 1) == 0);
	free(from);
	free(to);
	free(again);
}

static void check_pairs(struct zn_str query)
{
	char *block = copy_of(query), *name = malloc(8), *value = malloc(16);
	struct zn_str left = {block, query.len};
	size_t before = left.len + 1;
	int got;

	while ((got = zn_http_pair(&left, name, 8, value, 16))) {
		check((got == 1 || got == -EINVAL) && left.len < before && left.at + left.len == block + query.len);
		check(memchr(name, 0, 8) && memchr(value, 0, 16));
		before = left.len;
	}
	check(!left.len);
	free(block);
	free(name);
	free(value);
}

static void check_tags(struct zn_str list)
{
	char *block = copy_of(list);
	struct zn_str s = {block, list.len};

	if (zn_http_etag_matches(s, "W/\"a\\\""))
		check(memmem(block, s.len, "\"a\\\"", 4) || zn_str_is(zn_str_trim(s, " \t"), "*"));
	free(block);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct zn_http_req chunked = {.chunked = true};
	const char *text = (const char *)data;
	struct zn_str all = {text, len};
	struct zn_http_req req;
	int want = zn_http_parse(text, len, &req);

	check(want <= (int)len && want <= ZN_HTTP_HEAD_MAX);
	if (want > 0) {
		check_slices((struct zn_str){text, (size_t)want}, &req);
		check_head((struct zn_str){text, (size_t)want}, &req);
		check_body(&req, (struct zn_str){text + want, len - (size_t)want});
		check_path(req.path);
		check_pairs(req.query);
		check_tags(req.if_none_match);
	}
	check_parse(text, len, want);
	check_body(&chunked, all);
	check_path(all);
	check_pairs(all);
	check_tags(all);
	return 0;
}
