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

#define SCHEME       "http://"
#define HTTP_PORT    80
#define BEGINNING    "HTTP/1."
#define INTERIM_MAX  8 /* answers 1xx before the answer */
#define BACKOFF_MS   500
#define BACKOFF_MAX  60000
#define PATIENCE_MAX 120 /* s that an answer may put us off */

/* ---- URLs ---- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'    ? c - '0'
		: c >= 'a' && c <= 'f' ? c - 'a' + 10
		: c >= 'A' && c <= 'F' ? c - 'A' + 10
				       : -1;
}

/* Takes off what stands before the first `until`; false: there is none, and nothing is taken. */
static bool cut(struct zn_str *text, char until, struct zn_str *before)
{
	const char *at = text->len ? memchr(text->at, until, text->len) : NULL;

	if (!at)
		return false;
	*before = (struct zn_str){text->at, (size_t)(at - text->at)};
	text->len -= before->len + 1;
	text->at = at + 1;
	return true;
}

static void encode_group(const uint8_t *at, size_t len, char to[4])
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = (uint32_t)at[0] << 16 | (uint32_t)(len > 1 ? at[1] : 0) << 8 | (len > 2 ? at[2] : 0);

	for (size_t i = 0; i < 4; i++)
		to[i] = i <= len ? digits[bits >> (18 - 6 * i) & 63] : '=';
}

/* user:password in base64 (RFC 7617), its escapes decoded. A user is there, and a colon. */
static bool read_user(char to[ZN_BASIC_MAX], struct zn_str text)
{
	uint8_t plain[ZN_TEXT_MAX] = {0};
	size_t len = 0, at = 0;

	if (!text.len || *text.at == ':' || !memchr(text.at, ':', text.len))
		return false;
	for (size_t i = 0; i < text.len; i++) {
		int high = text.at[i] == '%' && i + 2 < text.len ? hex_digit(text.at[i + 1]) : -1;
		int low = high >= 0 ? hex_digit(text.at[i + 2]) : -1;

		if (text.at[i] == '%' && low < 0)
			return false;
		plain[len++] = (uint8_t)(low < 0 ? text.at[i] : high * 16 + low);
		i += low < 0 ? 0 : 2;
	}
	for (size_t i = 0; i < len; i += 3, at += 4)
		encode_group(plain + i, len - i < 3 ? len - i : 3, to + at);
	to[at] = '\0';
	return true;
}

static bool read_port(uint16_t *port, struct zn_str text)
{
	unsigned n = 0;

	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] < '0' || text.at[i] > '9' || i == 5)
			return false;
		n = n * 10 + (unsigned)(text.at[i] - '0');
	}
	*port = (uint16_t)n;
	return n && n <= 65535;
}

static bool is_name(const char *host)
{
	static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

	return *host && *host != '.' && !host[strspn(host, set)] && !strstr(host, "..");
}

static bool read_host(struct zn_url *u, struct zn_str *text)
{
	struct zn_str host;

	if (text->len && *text->at == '[') {
		text->at++, text->len--;
		if (!cut(text, ']', &host))
			return false;
	} else {
		for (host = (struct zn_str){text->at, 0}; host.len < text->len && text->at[host.len] != ':';)
			host.len++;
		text->at += host.len;
		text->len -= host.len;
	}
	if (host.len >= sizeof(u->host))
		return false;
	memcpy(u->host, host.at, host.len);
	u->host[host.len] = '\0';
	u->v6 = host.at[-1] == '[';
	return u->v6 ? inet_pton(AF_INET6, u->host, &(struct in6_addr){0}) == 1 : is_name(u->host);
}

static bool read_authority(struct zn_url *u, struct zn_str text)
{
	struct zn_str user;

	while (cut(&text, '@', &user)) {
		if (u->basic[0] || !read_user(u->basic, user))
			return false;
	}
	if (!read_host(u, &text))
		return false;
	if (!text.len)
		return true;
	return *text.at == ':' && read_port(&u->port, (struct zn_str){text.at + 1, text.len - 1});
}

int zn_url_read(struct zn_url *u, struct zn_str text)
{
	size_t scheme = strlen(SCHEME), len = 0;

	*u = (struct zn_url){.port = HTTP_PORT};
	if (text.len < scheme || text.len >= ZN_TEXT_MAX || strncasecmp(text.at, SCHEME, scheme))
		return -EINVAL;
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] <= ' ' || text.at[i] > '~' || strchr("#\"<>\\^`{|}", text.at[i]))
			return -EINVAL;
	text.at += scheme, text.len -= scheme;
	while (len < text.len && text.at[len] != '/' && text.at[len] != '?')
		len++;
	if (!read_authority(u, (struct zn_str){text.at, len}))
		return -EINVAL;
	if (len < text.len && text.at[len] == '?')
		u->target[0] = '/';
	memcpy(u->target + strlen(u->target), text.at + len, text.len - len);
	return 0;
}

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

static bool is_space(char c)
{
	return c == ' ' || c == '\t';
}

static struct zn_str trim(struct zn_str s)
{
	for (; s.len && is_space(*s.at); s.at++)
		s.len--;
	while (s.len && is_space(s.at[s.len - 1]))
		s.len--;
	return s;
}

static bool equals(struct zn_str s, const char *text)
{
	return s.len == strlen(text) && !strncasecmp(s.at, text, s.len);
}

/* Digits alone; -1: it is no such number, or beyond 2^62. */
static int64_t number(struct zn_str s)
{
	int64_t n = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9' || n > (INT64_MAX >> 1) / 10 - 1)
			return -1;
		n = n * 10 + s.at[i] - '0';
	}
	return s.len ? n : -1;
}

/* What the head says of the body. */
struct framing {
	int64_t length; /* -1: not said */
	bool chunked, coded, close, keep;
};

static bool read_header(struct zn_reply *r, struct framing *f, struct zn_str name, struct zn_str value)
{
	int64_t n;

	if (equals(name, "Content-Length")) {
		n = number(value);
		if (n < 0 || (f->length >= 0 && f->length != n))
			return false;
		f->length = n;
	} else if (equals(name, "Transfer-Encoding")) {
		f->coded |= f->chunked || !equals(value, "chunked");
		f->chunked = true;
	} else if (equals(name, "Connection")) {
		f->close |= zn_http_has_token(value, "close");
		f->keep |= zn_http_has_token(value, "keep-alive");
	} else if (equals(name, "Retry-After") && (n = number(value)) > 0) {
		r->retry_after_s = n > PATIENCE_MAX ? PATIENCE_MAX : (uint32_t)n;
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
	n = number((struct zn_str){line.at + at + 2, 3});
	return n >= 100 && n <= 599 ? (int)n : -1;
}

/* How the body ends decides whether the connection can be used again; one that is long, or ends with the connection, is
 * not read. */
static void settle(struct zn_reply *r, const struct framing *f, int status, bool http10)
{
	struct zn_http_req like = {.chunked = f->chunked, .length = f->length > 0 ? (uint64_t)f->length : 0};
	bool bodyless = status == 204 || status == 304;
	bool framed = f->chunked ? !f->coded && f->length < 0 : f->length >= 0 && f->length <= ZN_HTTP_BODY_MAX;

	r->status = status;
	r->keep_alive = (bodyless || framed) && !f->close && (!http10 || f->keep);
	r->done = !r->keep_alive || bodyless;
	zn_http_body_init(&r->body, &like);
	if (r->body.done)
		r->done = true;
}

static int read_head(struct zn_reply *r)
{
	struct zn_str text = {r->head, r->len - 2}, line, name;
	struct framing f = {.length = -1};
	int status = -1;

	if (!cut(&text, '\n', &line) || (status = read_status((struct zn_str){line.at, line.len - 1})) < 0)
		return -EBADMSG;
	while (cut(&text, '\n', &line)) {
		line.len--; /* its CR */
		if (memchr(line.at, '\r', line.len) || memchr(line.at, '\0', line.len) || !cut(&line, ':', &name) ||
			!name.len || memchr(name.at, ' ', name.len) || memchr(name.at, '\t', name.len) ||
			!read_header(r, &f, name, trim(line)))
			return -EBADMSG;
	}
	r->len = 0;
	if (status >= 200)
		settle(r, &f, status, r->head[strlen(BEGINNING)] == '0');
	return status == 101 || (status < 200 && ++r->interim > INTERIM_MAX) ? -EBADMSG : 0;
}

/* One byte of the head. A line ends in CR LF, the head in an empty one. */
static int take(struct zn_reply *r, char c)
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
		if (take(r, buf[used]))
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
