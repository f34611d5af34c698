/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http.c: parses the head of an HTTP/1.1 request and writes the head of an answer (RFC 9110, RFC 9112). It
 * holds no state: a head that is not complete is scanned again from its start, at most ZN_HTTP_HEAD_MAX
 * bytes. Bodies are never read; a request that announces one is answered and its connection closed. Every
 * verdict depends only on the bytes up to the one that decides it, so where TCP cuts the stream changes
 * nothing.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "zernel.h"

#define METHOD_MAX      32
#define EMPTY_LINES_MAX 2              /* before the request line, RFC 9112 section 2.2 */
#define MORE            1              /* beside 0 and -status: the bytes so far are fine, but end too soon */
#define LAST_SECOND     253402300799LL /* 9999-12-31 23:59:59 */
#define DAY_S           86400

enum { OPENMETRICS, TEXT_PLAIN, TEXT_ANY, ANY_ANY, TYPE_COUNT };
static const char *const types[TYPE_COUNT] = {"application/openmetrics-text", "text/plain", "text/*", "*/*"};

enum { GZIP, CODING_ANY, CODING_COUNT };
static const char *const codings[CODING_COUNT] = {"gzip", "*"};

struct head {
	const char *at;
	const char *end;
	struct zn_http_req *req;
	unsigned headers;
	unsigned hosts;
	struct zn_str length;
	bool absolute;          /* the target names the host, so the Host header does not (RFC 9112, 3.2.2) */
	bool coded, chunked;    /* Transfer-Encoding: there was one; its last coding so far is chunked */
	bool close, to_upgrade; /* tokens of Connection */
	bool websocket;         /* token of Upgrade */
	int type_q[TYPE_COUNT]; /* thousandths plus one, 0: not named */
	int coding_q[CODING_COUNT];
	bool done;
};

/* One bit per byte: RFC 9110 section 5.6.2, tchar. */
static const uint32_t token_bits[8] = {0, 0x03ff6cfa, 0xc7fffffe, 0x57ffffff};

static bool is_token(char c)
{
	return token_bits[(uint8_t)c >> 5] >> (c & 31) & 1;
}

/* Looser than RFC 3986, as browsers are: visible ASCII, but no fragment. */
static bool is_target(char c)
{
	return c > 0x20 && c < 0x7f && c != '#';
}

static bool is_value(char c)
{
	return c == '\t' || ((uint8_t)c >= 0x20 && c != 0x7f);
}

static bool is_host(char c)
{
	return isalnum((uint8_t)c) || (c && strchr("-._~!$&'()*+,;=", c));
}

static struct zn_str slice(const char *from, const char *to)
{
	return (struct zn_str){from, (size_t)(to - from)};
}

static struct zn_str trim(struct zn_str s)
{
	while (s.len && (*s.at == ' ' || *s.at == '\t'))
		s.at++, s.len--;
	while (s.len && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
}

static bool same(struct zn_str s, const char *text)
{
	return s.len == strlen(text) && !memcmp(s.at, text, s.len);
}

static bool same_nocase(struct zn_str s, const char *text)
{
	return s.len == strlen(text) && !strncasecmp(s.at, text, s.len);
}

/* Takes the next item off a list; a separator within a quoted string is none. False at the end. */
static bool next_item(struct zn_str *list, char separator, struct zn_str *item)
{
	bool quoted = false;
	size_t i;

	if (!list->len)
		return false;
	for (i = 0; i < list->len && (quoted || list->at[i] != separator); i++) {
		if (list->at[i] == '"')
			quoted = !quoted;
		else if (quoted && list->at[i] == '\\' && i + 1 < list->len)
			i++;
	}
	*item = trim((struct zn_str){list->at, i});
	i += i < list->len;
	list->at += i;
	list->len -= i;
	return true;
}

bool zn_http_has_token(struct zn_str value, const char *token)
{
	struct zn_str item;

	while (next_item(&value, ',', &item))
		if (same_nocase(item, token))
			return true;
	return false;
}

/* A weight in thousandths; one that breaks the grammar of RFC 9110 section 12.4.2 is none. */
static int parse_q(struct zn_str s)
{
	int q, unit = 100;

	if (!s.len || s.len > 5 || (*s.at != '0' && *s.at != '1') || (s.len > 1 && s.at[1] != '.'))
		return 0;
	q = (*s.at - '0') * 1000;
	for (size_t i = 2; i < s.len; i++, unit /= 10) {
		if (!isdigit((uint8_t)s.at[i]))
			return 0;
		q += (s.at[i] - '0') * unit;
	}
	return q > 1000 ? 0 : q;
}

/* Notes the weight of each named choice, the highest if it comes more than once. */
static void weigh(struct zn_str list, const char *const *names, size_t count, int *weights)
{
	struct zn_str item, name, parameter;

	while (next_item(&list, ',', &item)) {
		int q = 1000;

		if (!next_item(&item, ';', &name))
			continue;
		while (next_item(&item, ';', &parameter))
			if (parameter.len > 1 && !strncasecmp(parameter.at, "q=", 2))
				q = parse_q((struct zn_str){parameter.at + 2, parameter.len - 2});
		for (size_t i = 0; i < count; i++)
			if (same_nocase(name, names[i]) && weights[i] < q + 1)
				weights[i] = q + 1;
	}
}

static bool valid_port(struct zn_str s)
{
	unsigned port = 0;

	if (s.len > 5)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (!isdigit((uint8_t)s.at[i]))
			return false;
		port = port * 10 + (unsigned)(s.at[i] - '0');
	}
	return port <= 65535;
}

static bool valid_ipv6(struct zn_str s)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct in6_addr address;

	if (s.len >= sizeof(text) || memchr(s.at, 0, s.len))
		return false;
	memcpy(text, s.at, s.len);
	return inet_pton(AF_INET6, text, &address) == 1;
}

/* uri-host [":" port], RFC 9110 section 7.2; a name must not be empty, and no name has percent-escapes. */
static bool valid_host(struct zn_str s)
{
	const char *end = s.at + s.len, *at = s.at, *bracket;

	if (s.len && *s.at == '[') {
		bracket = memchr(s.at, ']', s.len);
		if (!bracket || !valid_ipv6(slice(s.at + 1, bracket)))
			return false;
		at = bracket + 1;
	} else {
		while (at < end && is_host(*at))
			at++;
	}
	if (at == s.at || at == end)
		return at != s.at;
	return *at == ':' && valid_port(slice(at + 1, end));
}

static int take_host(struct head *h, struct zn_str value)
{
	if (h->hosts++ || !valid_host(value))
		return -400;
	if (!h->absolute)
		h->req->host = value;
	return 0;
}

static int take_connection(struct head *h, struct zn_str value)
{
	h->close |= zn_http_has_token(value, "close");
	h->to_upgrade |= zn_http_has_token(value, "upgrade");
	return 0;
}

static int take_upgrade(struct head *h, struct zn_str value)
{
	h->websocket |= zn_http_has_token(value, "websocket");
	return 0;
}

static int take_length(struct head *h, struct zn_str value)
{
	uint64_t length = 0;

	if (!value.len)
		return -400;
	for (size_t i = 0; i < value.len; i++)
		if (!isdigit((uint8_t)value.at[i]) || __builtin_mul_overflow(length, 10, &length) ||
			__builtin_add_overflow(length, (uint64_t)(value.at[i] - '0'), &length))
			return -400;
	if (h->length.at && (h->length.len != value.len || memcmp(h->length.at, value.at, value.len)))
		return -400;
	h->length = value;
	return 0;
}

/* chunked comes once and last (RFC 9112, 6.1 and 6.3), or nobody knows where the body ends. */
static int take_coding(struct head *h, struct zn_str value)
{
	struct zn_str item;

	h->coded = true;
	while (next_item(&value, ',', &item)) {
		if (!item.len)
			continue;
		if (h->chunked)
			return -400;
		h->chunked = same_nocase(item, "chunked");
	}
	return 0;
}

static int take_expect(struct head *h, struct zn_str value)
{
	h->req->expect |= !h->req->http10 && zn_http_has_token(value, "100-continue");
	return 0;
}

static int take_accept(struct head *h, struct zn_str value)
{
	weigh(value, types, TYPE_COUNT, h->type_q);
	return 0;
}

static int take_accept_encoding(struct head *h, struct zn_str value)
{
	weigh(value, codings, CODING_COUNT, h->coding_q);
	return 0;
}

static int take_once(struct zn_str *to, struct zn_str value)
{
	if (to->at)
		return -400;
	*to = value;
	return 0;
}

static int take_origin(struct head *h, struct zn_str value)
{
	return take_once(&h->req->origin, value);
}

static int take_authorization(struct head *h, struct zn_str value)
{
	return take_once(&h->req->authorization, value);
}

static int take_ws_version(struct head *h, struct zn_str value)
{
	return take_once(&h->req->ws_version, value);
}

static int take_ws_key(struct head *h, struct zn_str value)
{
	h->req->ws_keys++;
	h->req->ws_key = value;
	return 0;
}

static int take_ws_protocol(struct head *h, struct zn_str value)
{
	if (!h->req->ws_protocol.at)
		h->req->ws_protocol = value;
	return 0;
}

static const struct {
	const char *name;
	int (*take)(struct head *h, struct zn_str value);
} headers[] = {
	{"host", take_host},
	{"connection", take_connection},
	{"content-length", take_length},
	{"transfer-encoding", take_coding},
	{"accept", take_accept},
	{"accept-encoding", take_accept_encoding},
	{"expect", take_expect},
	{"upgrade", take_upgrade},
	{"origin", take_origin},
	{"authorization", take_authorization},
	{"sec-websocket-key", take_ws_key},
	{"sec-websocket-version", take_ws_version},
	{"sec-websocket-protocol", take_ws_protocol},
};

static int eat_crlf(struct head *h)
{
	if (h->at == h->end)
		return MORE;
	if (h->at[0] != '\r')
		return -400;
	if (h->at + 1 == h->end)
		return MORE;
	if (h->at[1] != '\n')
		return -400;
	h->at += 2;
	return 0;
}

static int skip_empty_lines(struct head *h)
{
	int err = 0;

	for (int i = 0; i < EMPTY_LINES_MAX && !err && h->at < h->end && *h->at == '\r'; i++)
		err = eat_crlf(h);
	return err;
}

/* A word of the request line and the one space after it. */
static int eat_request_word(struct head *h, bool (*is_part)(char), struct zn_str *word, size_t max, int too_long)
{
	const char *start = h->at;

	while (h->at < h->end && is_part(*h->at))
		h->at++;
	*word = slice(start, h->at);
	if (word->len > max)
		return too_long;
	if (h->at == h->end)
		return MORE;
	return word->len && *h->at++ == ' ' ? 0 : -400;
}

static enum zn_method method_of(struct zn_str word)
{
	static const char *const names[] = {[ZN_GET] = "GET", [ZN_HEAD] = "HEAD", [ZN_OPTIONS] = "OPTIONS"};

	for (size_t i = 0; i < ZN_LEN(names); i++)
		if (same(word, names[i]))
			return (enum zn_method)i;
	return ZN_OTHER_METHOD;
}

/* Cuts "http://authority" off an absolute-form target. */
static int take_authority(struct head *h, struct zn_str *target)
{
	const char *end = target->at + target->len, *at;
	size_t scheme = 0;

	if (target->len >= 8 && !strncasecmp(target->at, "https://", 8))
		scheme = 8;
	else if (target->len >= 7 && !strncasecmp(target->at, "http://", 7))
		scheme = 7;
	if (!scheme)
		return -400;
	for (at = target->at + scheme; at < end && *at != '/' && *at != '?'; at++)
		;
	h->absolute = true;
	h->req->host = slice(target->at + scheme, at);
	*target = slice(at, end);
	return valid_host(h->req->host) ? 0 : -400;
}

/* The four forms of RFC 9112 section 3.2. */
static int take_target(struct head *h, struct zn_str method, struct zn_str target)
{
	struct zn_http_req *req = h->req;
	const char *mark;

	if (same(method, "CONNECT"))
		return valid_host(target) ? 0 : -400;
	if (req->method == ZN_OPTIONS && same(target, "*")) {
		req->path = target;
		return 0;
	}
	if (*target.at != '/' && take_authority(h, &target))
		return -400;
	mark = target.len ? memchr(target.at, '?', target.len) : NULL;
	req->path = mark ? slice(target.at, mark) : target;
	if (mark)
		req->query = slice(mark + 1, target.at + target.len);
	if (!req->path.len)
		req->path = (struct zn_str){"/", 1};
	return 0;
}

/* HTTP-version and the end of the line. A minor version above 1 is taken for 1 (RFC 9110, 2.5). */
static int eat_version(struct head *h)
{
	static const char form[] = "HTTP/#.#";

	for (size_t i = 0; i < 8; i++) {
		if (h->at + i == h->end)
			return MORE;
		if (form[i] == '#' ? !isdigit((uint8_t)h->at[i]) : h->at[i] != form[i])
			return -400;
	}
	if (h->at[5] != '1')
		return -505;
	h->req->http10 = h->at[7] == '0';
	h->at += 8;
	return eat_crlf(h);
}

static int eat_request_line(struct head *h)
{
	struct zn_str method, target;
	int err;

	if ((err = eat_request_word(h, is_token, &method, METHOD_MAX, -501)))
		return err;
	h->req->method = method_of(method);
	if ((err = eat_request_word(h, is_target, &target, ZN_HTTP_TARGET_MAX, -414)))
		return err;
	if ((err = take_target(h, method, target)))
		return err;
	return eat_version(h);
}

static int take_header(struct head *h, struct zn_str name, struct zn_str value)
{
	if (++h->headers > ZN_HTTP_HEADERS_MAX)
		return -431;
	for (size_t i = 0; i < ZN_LEN(headers); i++)
		if (same_nocase(name, headers[i].name))
			return headers[i].take(h, value);
	return 0;
}

/* A header line, or the empty line that ends the head. A name must touch its colon, and no line continues
 * another (RFC 9112, 5.1 and 5.2): a space is no part of a name. */
static int eat_line(struct head *h)
{
	const char *start = h->at;
	struct zn_str name, value;
	int err;

	if (h->at < h->end && *h->at == '\r') {
		h->done = true;
		return eat_crlf(h);
	}
	while (h->at < h->end && is_token(*h->at))
		h->at++;
	if (h->at == h->end)
		return MORE;
	name = slice(start, h->at);
	if (!name.len || *h->at++ != ':')
		return -400;
	start = h->at;
	while (h->at < h->end && is_value(*h->at))
		h->at++;
	value = trim(slice(start, h->at));
	err = eat_crlf(h);
	return err ? err : take_header(h, name, value);
}

/* The first choice that was named. */
static int first_of(const int *weights, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (weights[i])
			return weights[i];
	return 0;
}

static int conclude(struct head *h)
{
	struct zn_http_req *req = h->req;
	bool body = h->coded || (h->length.at && !same(h->length, "0"));

	if (!req->http10 && !h->hosts)
		return -400;
	if (h->coded && (req->http10 || !h->chunked || h->length.at))
		return -400;
	req->keep_alive = !req->http10 && !h->close && !body;
	req->upgrade = !req->http10 && !body && h->to_upgrade && h->websocket;
	req->gzip = first_of(h->coding_q, CODING_COUNT) > 1;
	req->openmetrics = h->type_q[OPENMETRICS] > 1 &&
		h->type_q[OPENMETRICS] > first_of(h->type_q + TEXT_PLAIN, TYPE_COUNT - TEXT_PLAIN);
	return 0;
}

int zn_http_parse(const char *buf, size_t len, struct zn_http_req *req)
{
	size_t part = len < ZN_HTTP_HEAD_MAX ? len : ZN_HTTP_HEAD_MAX;
	struct head h = {.at = buf, .end = buf + part, .req = req};
	int err;

	*req = (struct zn_http_req){0};
	err = skip_empty_lines(&h);
	if (!err)
		err = eat_request_line(&h);
	while (!err && !h.done)
		err = eat_line(&h);
	if (!err)
		err = conclude(&h);
	if (err == MORE)
		return part == ZN_HTTP_HEAD_MAX ? -431 : 0;
	return err ? err : (int)(h.at - buf);
}

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{101, "Switching Protocols"},
	{200, "OK"},
	{204, "No Content"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{414, "URI Too Long"},
	{421, "Misdirected Request"},
	{426, "Upgrade Required"},
	{429, "Too Many Requests"},
	{431, "Request Header Fields Too Large"},
	{500, "Internal Server Error"},
	{501, "Not Implemented"},
	{503, "Service Unavailable"},
	{505, "HTTP Version Not Supported"},
};

const char *zn_http_reason(int status)
{
	for (size_t i = 0; i < ZN_LEN(reasons); i++)
		if (reasons[i].status == status)
			return reasons[i].reason;
	return "Unknown";
}

static void out_two(struct zn_out *o, int64_t v, char after)
{
	zn_out_char(o, (char)('0' + v / 10));
	zn_out_char(o, (char)('0' + v % 10));
	zn_out_char(o, after);
}

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* IMF-fixdate, RFC 9110 section 5.6.7. By hand: gmtime_r() of glibc reads files and allocates. */
static void out_date(struct zn_out *o, int64_t s)
{
	static const char weekdays[] = "ThuFriSatSunMonTueWed", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	static const uint8_t lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int64_t days = s / DAY_S, year = 1970;
	size_t month = 0;

	zn_out_bytes(o, weekdays + days % 7 * 3, 3);
	zn_out_text(o, ", ");
	for (; days >= 365 + is_leap(year); year++)
		days -= 365 + is_leap(year);
	for (; days >= lengths[month] + (month == 1 && is_leap(year)); month++)
		days -= lengths[month] + (month == 1 && is_leap(year));
	out_two(o, days + 1, ' ');
	zn_out_bytes(o, months + month * 3, 3);
	zn_out_char(o, ' ');
	zn_out_i64(o, year);
	zn_out_char(o, ' ');
	out_two(o, s / 3600 % 24, ':');
	out_two(o, s / 60 % 60, ':');
	out_two(o, s % 60, ' ');
	zn_out_text(o, "GMT");
}

static void out_line(struct zn_out *o, const char *name, const char *value)
{
	zn_out_text(o, name);
	zn_out_text(o, ": ");
	zn_out_text(o, value);
	zn_out_text(o, "\r\n");
}

void zn_http_head(struct zn_out *o, const struct zn_http_res *res)
{
	zn_out_text(o, "HTTP/1.1 ");
	zn_out_i64(o, res->status);
	zn_out_char(o, ' ');
	zn_out_text(o, zn_http_reason(res->status));
	zn_out_text(o, "\r\nServer: zerneld\r\n");
	if (res->date_s >= 0 && res->date_s <= LAST_SECOND) {
		zn_out_text(o, "Date: ");
		out_date(o, res->date_s);
		zn_out_text(o, "\r\n");
	}
	if (res->type)
		out_line(o, "Content-Type", res->type);
	if (!res->no_length) {
		zn_out_text(o, "Content-Length: ");
		zn_out_u64(o, res->length);
		zn_out_text(o, "\r\n");
	}
	if (res->close)
		out_line(o, "Connection", "close");
	zn_out_text(o, res->extra ? res->extra : "");
	zn_out_text(o, "\r\n");
}
