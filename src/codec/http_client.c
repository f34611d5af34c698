/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_client.c: HTTP/1.1 as a client that posts and wants to know whether it was taken (RFC 9110, 9112). Pure: bytes
 * in, bytes out. Of an answer the status and Retry-After count; its body is read past, so that the connection can be
 * kept, and only as long as it is short. Whoever answers is hostile.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <strings.h>

#include "zernel.h"

#define HTTP_PORT    80
#define BEGINNING    "HTTP/1."
#define INTERIM_MAX  8 /* answers 1xx before the answer */
#define BACKOFF_MS   500
#define BACKOFF_MAX  60000
#define PATIENCE_MAX 120 /* s that an answer may put us off */

/* ---- the request ---- */

void zn_post_head(struct zn_out *o, const struct zn_post *p)
{
	const struct zn_url *u = p->url;

	zn_out_text(o, "POST ");
	zn_out_text(o, p->target);
	zn_out_text(o, u->v6 ? " HTTP/1.1\r\nHost: [" : " HTTP/1.1\r\nHost: ");
	zn_out_text(o, u->host);
	zn_out_text(o, u->v6 ? "]" : "");
	if (u->port != HTTP_PORT) {
		zn_out_char(o, ':');
		zn_out_u64(o, u->port);
	}
	zn_out_text(o, "\r\nUser-Agent: zerneld\r\nContent-Type: ");
	zn_out_text(o, p->type);
	if (u->basic[0] || p->token[0]) {
		zn_out_text(o, u->basic[0] ? "\r\nAuthorization: Basic " : "\r\nAuthorization: Bearer ");
		zn_out_text(o, u->basic[0] ? u->basic : p->token);
	}
	zn_out_text(o, "\r\nContent-Length: ");
	zn_out_u64(o, p->length);
	zn_out_text(o, "\r\n\r\n");
}

/* ---- the answer ---- */

void zn_reply_init(struct zn_reply *r)
{
	r->status = 0;
	r->retry_after_s = 0;
	r->len = 0;
	r->interim = 0;
	r->keep_alive = r->done = false;
}

/* Digits alone; -1: it is no such number, or beyond 2^62. */
static int64_t read_number(struct zn_str s)
{
	int64_t n = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9' || n > (INT64_MAX >> 1) / 10 - 1)
			return -1;
		n = n * 10 + s.at[i] - '0';
	}
	return s.len ? n : -1;
}

static bool read_header(struct zn_reply_head *f, struct zn_str name, struct zn_str value)
{
	int64_t n;

	if (zn_str_is_nocase(name, "Content-Length")) {
		n = read_number(value);
		if (n < 0 || (f->length >= 0 && f->length != n))
			return false;
		f->length = n;
	} else if (zn_str_is_nocase(name, "Transfer-Encoding")) {
		f->coded |= f->chunked || !zn_str_is_nocase(value, "chunked");
		f->chunked = true;
	} else if (zn_str_is_nocase(name, "Connection")) {
		f->close |= zn_http_has_token(value, "close");
		f->keep |= zn_http_has_token(value, "keep-alive");
	} else if (zn_str_is_nocase(name, "Retry-After") && (n = read_number(value)) > 0) {
		f->retry_after_s = n > PATIENCE_MAX ? PATIENCE_MAX : (uint32_t)n;
	}
	return true;
}

/* "HTTP/1.1 200 OK": the status, or -1. */
static int read_status(struct zn_str line)
{
	size_t at = strlen(BEGINNING);
	int64_t n;

	if (line.len < at + 5 || memcmp(line.at, BEGINNING, at) || (line.at[at] != '0' && line.at[at] != '1') ||
		line.at[at + 1] != ' ' || (line.len > at + 5 && line.at[at + 5] != ' '))
		return -1;
	n = read_number((struct zn_str){line.at + at + 2, 3});
	return n >= 100 && n <= 599 ? (int)n : -1;
}

int zn_reply_head(struct zn_reply_head *f, struct zn_str head)
{
	struct zn_str line, name;

	*f = (struct zn_reply_head){.length = -1};
	while (zn_str_cut(&head, '\n', &line) && line.len && line.at[line.len - 1] == '\r') {
		if (--line.len == 0)
			return f->status && !head.len ? 0 : -EBADMSG;
		if (!f->status) {
			f->status = read_status(line);
			f->http10 = f->status > 0 && line.at[strlen(BEGINNING)] == '0';
			if (f->status < 0)
				return -EBADMSG;
		} else if (memchr(line.at, '\r', line.len) || memchr(line.at, '\0', line.len) ||
			!zn_str_cut(&line, ':', &name) || !name.len || memchr(name.at, ' ', name.len) ||
			memchr(name.at, '\t', name.len) || !read_header(f, name, zn_str_trim(line, " \t"))) {
			return -EBADMSG;
		}
	}
	return -EBADMSG;
}

bool zn_reply_keeps(const struct zn_reply_head *f)
{
	return !f->close && (!f->http10 || f->keep);
}

/* The end of the body decides whether the connection can be used again. A long body, or a body that ends with the
 * connection, is not read. */
static void settle_framing(struct zn_reply *r, const struct zn_reply_head *f)
{
	struct zn_http_req like = {.chunked = f->chunked, .length = f->length > 0 ? (uint64_t)f->length : 0};
	bool bodyless = f->status == 204 || f->status == 304;
	bool framed = f->chunked ? !f->coded && f->length < 0 : f->length >= 0 && f->length <= ZN_HTTP_BODY_MAX;

	r->status = f->status;
	r->retry_after_s = f->retry_after_s;
	r->keep_alive = (bodyless || framed) && zn_reply_keeps(f);
	r->done = !r->keep_alive || bodyless;
	zn_http_body_init(&r->body, &like);
	if (r->body.done)
		r->done = true;
}

static int read_head(struct zn_reply *r)
{
	struct zn_reply_head f;

	if (zn_reply_head(&f, (struct zn_str){r->head, r->len}))
		return -EBADMSG;
	r->len = 0;
	if (f.status >= 200)
		settle_framing(r, &f);
	return f.status == 101 || (f.status < 200 && ++r->interim > INTERIM_MAX) ? -EBADMSG : 0;
}

/* Takes one byte of the head. A line ends in CR LF, the head in an empty line. */
static int take_head_byte(struct zn_reply *r, char c)
{
	if (r->len == sizeof(r->head) || (r->len < strlen(BEGINNING) && c != BEGINNING[r->len]))
		return -EBADMSG;
	if (c == '\n' && (!r->len || r->head[r->len - 1] != '\r'))
		return -EBADMSG;
	r->head[r->len++] = c;
	return r->len >= 4 && !memcmp(r->head + r->len - 4, "\r\n\r\n", 4) ? read_head(r) : 0;
}

int zn_reply_read(struct zn_reply *r, const char *buf, size_t len)
{
	size_t used = 0;
	int n;

	for (; used < len && !r->status; used++)
		if (take_head_byte(r, buf[used]))
			return -EBADMSG;
	if (!r->status || r->done)
		return (int)used;
	n = zn_http_body_read(&r->body, buf + used, len - used);
	if (n < 0)
		r->keep_alive = false;
	r->done = n < 0 || r->body.done;
	return (int)(n < 0 ? len : used + (size_t)n);
}

uint64_t zn_retry_ms(unsigned failures, uint32_t retry_after_s, uint32_t random)
{
	uint64_t most = failures > 7 ? BACKOFF_MAX : (uint64_t)BACKOFF_MS << (failures ? failures - 1 : 0);
	uint64_t ms, least = (uint64_t)(retry_after_s > PATIENCE_MAX ? PATIENCE_MAX : retry_after_s) * 1000;

	if (most > BACKOFF_MAX)
		most = BACKOFF_MAX;
	ms = most / 2 + random % (most / 2 + 1);
	return ms < BACKOFF_MS ? BACKOFF_MS + least : ms + least;
}
