/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http.c: parses the head of an HTTP/1.1 request and writes the head of an answer (RFC 9110, RFC 9112). It
 * holds no state: a head that is not complete is scanned again from its start, at most ZN_HTTP_HEAD_MAX
 * bytes. Bodies are measured and thrown away; a request that announces one is answered and its connection
 * closed. Every verdict depends only on the bytes up to the one that decides it, so where TCP cuts the stream
 * changes nothing.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "zernel.h"

#define METHOD_MAX      32
#define EMPTY_LINES_MAX 2              /* before the request line, RFC 9112 section 2.2 */
#define MORE            1              /* beside 0 and -status: the bytes so far are fine, but end too soon */
#define LAST_SECOND     253402300799LL /* 9999-12-31 23:59:59 */
#define DAY_S           86400

#define PARAMETERS 2

/* What Accept and Accept-Encoding may name. A range of another version than the one that is spoken is another
 * type, and so is one without a parameter that must be there. */
struct choice {
	const char *name;
	struct {
		const char *name, *value;
		bool must;
	} parameter[PARAMETERS];
};
enum { OPENMETRICS, PROTOBUF, TEXT_PLAIN, TEXT_ANY, ANY_ANY, TYPE_COUNT };
static const struct choice types[TYPE_COUNT] = {
	[OPENMETRICS] = {"application/openmetrics-text", {{"version", "1.0.0", false}}},
	[PROTOBUF] = {"application/vnd.google.protobuf",
		{{"proto", "io.prometheus.client.MetricFamily", true}, {"encoding", "delimited", true}}},
	[TEXT_PLAIN] = {"text/plain", {{"version", "0.0.4", false}}},
	[TEXT_ANY] = {"text/*", {{0}}},
	[ANY_ANY] = {"*/*", {{0}}},
};
enum { GZIP, X_GZIP, CODING_ANY, IDENTITY, CODING_COUNT }; /* x-gzip is gzip (RFC 9110, 8.4.1.3) */
static const struct choice codings[CODING_COUNT] = {
	[GZIP] = {"gzip", {{0}}},
	[X_GZIP] = {"x-gzip", {{0}}},
	[CODING_ANY] = {"*", {{0}}},
	[IDENTITY] = {"identity", {{0}}},
};

struct head {
	const char *at;
	const char *end;
	struct zn_http_req *req;
	unsigned headers;
	unsigned hosts;
	bool sized;                   /* Content-Length: there was one */
	bool empty;                   /* it was a plain 0 */
	bool absolute;                /* the target names the host, so Host does not (RFC 9112, 3.2.2) */
	bool coded, chunked;          /* Transfer-Encoding: there was one; its last coding so far is chunked */
	bool recoded;                 /* it has a coding other than chunked */
	bool close, keep, to_upgrade; /* tokens of Connection */
	bool websocket;               /* token of Upgrade */
	int type_q[TYPE_COUNT];       /* thousandths plus one, 0: not named */
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

static struct zn_str str_between(const char *from, const char *to)
{
	return (struct zn_str){from, (size_t)(to - from)};
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
	*item = zn_str_trim((struct zn_str){list->at, i}, " \t");
	i += i < list->len;
	list->at += i;
	list->len -= i;
	return true;
}

bool zn_http_has_token(struct zn_str value, const char *token)
{
	struct zn_str item;

	while (next_item(&value, ',', &item))
		if (zn_str_is_nocase(item, token))
			return true;
	return false;
}

/* A weight in thousandths. A weight that breaks the grammar of RFC 9110, section 12.4.2, is not used. */
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

/* The value of a parameter if it has that name, else an empty slice. */
static struct zn_str parameter_of(struct zn_str parameter, const char *name)
{
	const char *mark = parameter.len ? memchr(parameter.at, '=', parameter.len) : NULL;

	if (!mark || !zn_str_is_nocase(zn_str_trim(str_between(parameter.at, mark), " \t"), name))
		return (struct zn_str){0};
	return zn_str_trim(str_between(mark + 1, parameter.at + parameter.len), " \t");
}

static struct zn_str strip_quotes(struct zn_str s)
{
	return s.len > 1 && *s.at == '"' && s.at[s.len - 1] == '"' ? str_between(s.at + 1, s.at + s.len - 1) : s;
}

/* rest: the parameters of the range, which may have others besides. */
static bool is_choice(const struct choice *c, struct zn_str name, struct zn_str rest)
{
	bool fits = zn_str_is_nocase(name, c->name);

	for (size_t i = 0; fits && i < PARAMETERS && c->parameter[i].name; i++) {
		struct zn_str left = rest, item, value;
		bool there = false;

		while (next_item(&left, ';', &item)) {
			value = parameter_of(item, c->parameter[i].name);
			there |= value.at != NULL;
			fits &= !value.at || zn_str_is(strip_quotes(value), c->parameter[i].value);
		}
		fits &= there || !c->parameter[i].must;
	}
	return fits;
}

/* Notes the weight of each named choice, the highest if it comes more than once. */
static void weigh_choices(struct zn_str list, const struct choice *choices, size_t count, int *weights)
{
	struct zn_str item, name, parameter, value;

	while (next_item(&list, ',', &item)) {
		struct zn_str rest;
		int q = 1000;

		if (!next_item(&item, ';', &name))
			continue;
		rest = item;
		while (next_item(&item, ';', &parameter))
			if ((value = parameter_of(parameter, "q")).at)
				q = parse_q(value);
		for (size_t i = 0; i < count; i++)
			if (is_choice(&choices[i], name, rest) && weights[i] < q + 1)
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
		if (!bracket || !valid_ipv6(str_between(s.at + 1, bracket)))
			return false;
		at = bracket + 1;
	} else {
		while (at < end && is_host(*at))
			at++;
	}
	if (at == s.at || at == end)
		return at != s.at;
	return *at == ':' && valid_port(str_between(at + 1, end));
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
	h->keep |= zn_http_has_token(value, "keep-alive");
	h->to_upgrade |= zn_http_has_token(value, "upgrade");
	return 0;
}

static int take_upgrade(struct head *h, struct zn_str value)
{
	h->websocket |= zn_http_has_token(value, "websocket");
	return 0;
}

/* A length that does not fit into 64 bits is a length all the same: too long is as far as it is counted. */
static int take_length(struct head *h, struct zn_str value)
{
	uint64_t length = 0;

	if (h->sized || !value.len)
		return -400;
	for (size_t i = 0; i < value.len; i++) {
		if (!isdigit((uint8_t)value.at[i]))
			return -400;
		if (length <= ZN_HTTP_BODY_MAX)
			length = length * 10 + (uint64_t)(value.at[i] - '0');
	}
	h->sized = true;
	h->empty = zn_str_is(value, "0");
	h->req->length = length;
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
		h->chunked = zn_str_is_nocase(item, "chunked");
		h->recoded |= !h->chunked;
	}
	return 0;
}

/* RFC 9110 section 10.1.1: from HTTP/1.0 an expectation means nothing; an unknown expectation cannot be met. */
static int take_expect(struct head *h, struct zn_str value)
{
	struct zn_str item;

	while (!h->req->http10 && next_item(&value, ',', &item)) {
		if (!item.len)
			continue;
		if (!zn_str_is_nocase(item, "100-continue"))
			return -417;
		h->req->expect = true;
	}
	return 0;
}

static int take_accept(struct head *h, struct zn_str value)
{
	weigh_choices(value, types, TYPE_COUNT, h->type_q);
	return 0;
}

static int take_accept_encoding(struct head *h, struct zn_str value)
{
	weigh_choices(value, codings, CODING_COUNT, h->coding_q);
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

static int take_if_none_match(struct head *h, struct zn_str value)
{
	h->req->if_none_match = value;
	return 0;
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
	for (size_t i = 0; i < ZN_WS_PROTOCOLS; i++)
		if (!h->req->ws_protocol[i].at)
			return take_once(&h->req->ws_protocol[i], value);
	return -400;
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
	{"if-none-match", take_if_none_match},
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
	*word = str_between(start, h->at);
	if (word->len > max)
		return too_long;
	if (h->at == h->end)
		return MORE;
	return word->len && *h->at++ == ' ' ? 0 : -400;
}

/* An unknown method is 501. A known method that is not served is left to the caller (RFC 9110, 9.1). CONNECT is
 * for proxies, so it is not known. */
static int take_method(struct head *h, struct zn_str word)
{
	static const char *const names[] = {[ZN_GET] = "GET",
		[ZN_HEAD] = "HEAD",
		[ZN_OPTIONS] = "OPTIONS",
		"POST",
		"PUT",
		"DELETE",
		"TRACE",
		"PATCH"};

	for (size_t i = 0; i < ZN_LEN(names); i++) {
		if (zn_str_is(word, names[i])) {
			h->req->method = i < ZN_OTHER_METHOD ? (enum zn_method)i : ZN_OTHER_METHOD;
			return 0;
		}
	}
	h->req->method = ZN_OTHER_METHOD;
	return -501;
}

/* Cuts "http://authority" off an absolute-form target. A request for https must not be answered in the clear (RFC
 * 9110, 7.4). */
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
	h->req->host = str_between(target->at + scheme, at);
	*target = str_between(at, end);
	if (!valid_host(h->req->host))
		return -400;
	return scheme == 8 ? -421 : 0;
}

/* origin-form, absolute-form and asterisk-form of RFC 9112 section 3.2; authority-form is CONNECT's. */
static int take_target(struct head *h, struct zn_str target)
{
	struct zn_http_req *req = h->req;
	bool options = req->method == ZN_OPTIONS;
	const char *mark;
	int err;

	if (options && zn_str_is(target, "*")) {
		req->path = target;
		return 0;
	}
	if (*target.at != '/' && (err = take_authority(h, &target)))
		return err;
	mark = target.len ? memchr(target.at, '?', target.len) : NULL;
	req->path = mark ? str_between(target.at, mark) : target;
	if (mark)
		req->query = str_between(mark + 1, target.at + target.len);
	if (!req->path.len)
		req->path = (struct zn_str){options && !mark ? "*" : "/", 1}; /* RFC 9110, 4.2.3 */
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

/* The version says what the other two words mean, so it is judged before them: HTTP/2 begins with a method and a target
 * that HTTP/1.1 does not know, and is 505. */
static int eat_request_line(struct head *h)
{
	struct zn_str method, target;
	int unknown, err;

	if ((err = eat_request_word(h, is_token, &method, METHOD_MAX, -501)))
		return err;
	unknown = take_method(h, method);
	if ((err = eat_request_word(h, is_target, &target, ZN_HTTP_TARGET_MAX, -414)))
		return err;
	if ((err = eat_version(h)))
		return err;
	return unknown ? unknown : take_target(h, target);
}

static int take_header(struct head *h, struct zn_str name, struct zn_str value)
{
	if (++h->headers > ZN_HTTP_HEADERS_MAX)
		return -431;
	for (size_t i = 0; i < ZN_LEN(headers); i++)
		if (zn_str_is_nocase(name, headers[i].name))
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
	name = str_between(start, h->at);
	if (!name.len || *h->at++ != ':')
		return -400;
	start = h->at;
	while (h->at < h->end && is_value(*h->at))
		h->at++;
	value = zn_str_trim(str_between(start, h->at), " \t");
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

static bool wants_gzip(const struct head *h)
{
	int gzip = first_of(h->coding_q, IDENTITY);

	return gzip > 1 && gzip >= h->coding_q[IDENTITY];
}

/* Where a body ends must be beyond doubt (RFC 9112, 6.1 and 6.3), and it must be short. */
static int judge_body(const struct head *h)
{
	if (h->coded && (h->req->http10 || !h->chunked || h->sized))
		return -400;
	if (h->recoded)
		return -501;
	return h->req->length > ZN_HTTP_BODY_MAX ? -413 : 0;
}

/* The form of the metrics that is wanted most: of two that are wanted alike, text before OpenMetrics, and the messages,
 * which nobody names by accident, before both. */
static enum zn_format preferred_type(const struct head *h)
{
	int text = first_of(h->type_q + TEXT_PLAIN, TYPE_COUNT - TEXT_PLAIN), open = h->type_q[OPENMETRICS];
	int proto = h->type_q[PROTOBUF];

	if (proto > 1 && proto >= text && proto >= open)
		return ZN_FORMAT_PROTO;
	return open > 1 && open > text ? ZN_FORMAT_OPENMETRICS : ZN_FORMAT_TEXT;
}

static int conclude_head(struct head *h)
{
	struct zn_http_req *req = h->req;
	bool body = h->coded || (h->sized && !h->empty);
	int err;

	if (!req->http10 && !h->hosts)
		return -400;
	if ((err = judge_body(h)))
		return err;
	req->chunked = h->chunked;
	req->keep_alive = !h->close && !body && (!req->http10 || h->keep);
	req->upgrade = !req->http10 && !body && h->to_upgrade && h->websocket;
	req->gzip = wants_gzip(h);
	req->format = preferred_type(h);
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
		err = conclude_head(&h);
	if (err == MORE)
		return part == ZN_HTTP_HEAD_MAX ? -431 : 0;
	return err ? err : (int)(h.at - buf);
}

static bool is_hex(char c)
{
	return isxdigit((uint8_t)c);
}

static int hex_value(char c)
{
	return isdigit((uint8_t)c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

enum {
	SIZE_FIRST,
	SIZE,
	SIZE_LF,
	EXT_FIRST,
	EXT_NAME,
	EXT_NAME_GAP,
	EXT_VALUE_FIRST,
	EXT_VALUE,
	EXT_QUOTED,
	EXT_ESCAPED,
	EXT_QUOTED_END,
	EXT_GAP,
	DATA,
	DATA_CR,
	DATA_LF,
	TRAILER_FIRST,
	TRAILER_NAME,
	TRAILER_VALUE,
	TRAILER_LF,
	LAST_LF,
	BAD
};

/* RFC 9112 section 7.1, byte by byte; the first row that fits counts, and a byte that fits none is bad. */
static const struct {
	uint8_t state;
	char byte; /* '\0': the bytes that `takes` takes */
	bool (*takes)(char);
	uint8_t next;
} steps[] = {
	{SIZE_FIRST, 0, is_hex, SIZE},
	{SIZE, 0, is_hex, SIZE},
	{SIZE, '\r', NULL, SIZE_LF},
	{SIZE, ';', NULL, EXT_FIRST},
	{SIZE, 0, is_blank, EXT_GAP},
	{SIZE_LF, '\n', NULL, DATA},
	{EXT_FIRST, 0, is_blank, EXT_FIRST},
	{EXT_FIRST, 0, is_token, EXT_NAME},
	{EXT_NAME, 0, is_token, EXT_NAME},
	{EXT_NAME, '=', NULL, EXT_VALUE_FIRST},
	{EXT_NAME, ';', NULL, EXT_FIRST},
	{EXT_NAME, '\r', NULL, SIZE_LF},
	{EXT_NAME, 0, is_blank, EXT_NAME_GAP},
	{EXT_NAME_GAP, 0, is_blank, EXT_NAME_GAP},
	{EXT_NAME_GAP, '=', NULL, EXT_VALUE_FIRST},
	{EXT_NAME_GAP, ';', NULL, EXT_FIRST},
	{EXT_VALUE_FIRST, 0, is_blank, EXT_VALUE_FIRST},
	{EXT_VALUE_FIRST, 0, is_token, EXT_VALUE},
	{EXT_VALUE_FIRST, '"', NULL, EXT_QUOTED},
	{EXT_VALUE, 0, is_token, EXT_VALUE},
	{EXT_VALUE, ';', NULL, EXT_FIRST},
	{EXT_VALUE, '\r', NULL, SIZE_LF},
	{EXT_VALUE, 0, is_blank, EXT_GAP},
	{EXT_QUOTED, '"', NULL, EXT_QUOTED_END},
	{EXT_QUOTED, '\\', NULL, EXT_ESCAPED},
	{EXT_QUOTED, 0, is_value, EXT_QUOTED},
	{EXT_ESCAPED, 0, is_value, EXT_QUOTED},
	{EXT_QUOTED_END, ';', NULL, EXT_FIRST},
	{EXT_QUOTED_END, '\r', NULL, SIZE_LF},
	{EXT_QUOTED_END, 0, is_blank, EXT_GAP},
	{EXT_GAP, 0, is_blank, EXT_GAP},
	{EXT_GAP, ';', NULL, EXT_FIRST},
	{DATA_CR, '\r', NULL, DATA_LF},
	{DATA_LF, '\n', NULL, SIZE_FIRST},
	{TRAILER_FIRST, '\r', NULL, LAST_LF},
	{TRAILER_FIRST, 0, is_token, TRAILER_NAME},
	{TRAILER_NAME, 0, is_token, TRAILER_NAME},
	{TRAILER_NAME, ':', NULL, TRAILER_VALUE},
	{TRAILER_VALUE, '\r', NULL, TRAILER_LF},
	{TRAILER_VALUE, 0, is_value, TRAILER_VALUE},
	{TRAILER_LF, '\n', NULL, TRAILER_FIRST},
	{LAST_LF, '\n', NULL, LAST_LF},
};

void zn_http_body_init(struct zn_http_body *b, const struct zn_http_req *req)
{
	*b = (struct zn_http_body){.left = req->length, .chunked = req->chunked};
	b->state = req->chunked ? SIZE_FIRST : DATA;
	b->done = !req->chunked && !req->length;
}

static uint8_t next_state(uint8_t state, char c)
{
	for (size_t i = 0; i < ZN_LEN(steps); i++)
		if (steps[i].state == state && (steps[i].takes ? steps[i].takes(c) : steps[i].byte == c))
			return steps[i].next;
	return BAD;
}

/* Adds a digit to a chunk's size. A size that would overflow is refused as too long. */
static int add_digit(struct zn_http_body *b, char c)
{
	b->left = b->left * 16 + (uint64_t)hex_value(c);
	return b->left > ZN_HTTP_BODY_MAX - b->content ? -413 : 0;
}

/* Takes one byte of the framing, which is no content. */
static int take_framing(struct zn_http_body *b, char c)
{
	uint8_t state = next_state(b->state, c);
	bool line_ends = c == '\n' && b->state != TRAILER_LF;

	if (state == BAD || ++b->line > ZN_HTTP_LINE_MAX)
		return -400;
	if (++b->framing > ZN_HTTP_BODY_MAX)
		return -413;
	b->done = b->state == LAST_LF;
	b->state = state == DATA && !b->left ? TRAILER_FIRST : state;
	if (line_ends)
		b->line = 0;
	return state == SIZE ? add_digit(b, c) : 0;
}

/* Content there is, of which len bytes have come; how many of them. */
static size_t take_content(struct zn_http_body *b, size_t len)
{
	size_t part = len < b->left ? len : (size_t)b->left;

	b->content += part;
	b->left -= part;
	if (!b->left)
		b->state = DATA_CR;
	b->done = !b->left && !b->chunked;
	return part;
}

int zn_http_body_read(struct zn_http_body *b, const char *buf, size_t len)
{
	size_t used = 0;
	int err = 0;

	if (len > INT_MAX)
		len = INT_MAX;
	while (used < len && !b->done && !err) {
		if (b->state == DATA)
			used += take_content(b, len - used);
		else
			err = take_framing(b, buf[used++]);
	}
	if (err)
		b->state = BAD;
	return err ? err : (int)used;
}

/* Takes a byte, or the escape that stands for one, off s, which is not empty. -1: a bad escape. */
static int decode_byte(struct zn_str *s)
{
	size_t len = *s->at == '%' ? 3 : 1;
	int c = (uint8_t)*s->at;

	if (len > s->len || (len == 3 && !(is_hex(s->at[1]) && is_hex(s->at[2]))))
		return -1;
	if (len == 3)
		c = hex_value(s->at[1]) * 16 + hex_value(s->at[2]);
	s->at += len;
	s->len -= len;
	return c;
}

/* Takes a last segment of one or two dots off a path, and what the second leads out of; the '/' before it stays. False:
 * it is another segment. */
static bool resolve_dots(const char *path, size_t *len)
{
	size_t start = *len;

	while (start && path[start - 1] != '/')
		start--;
	if (start == *len || *len - start > 2 || memcmp(path + start, "..", *len - start))
		return false;
	if (*len - start == 2 && start > 1)
		for (start--; path[start - 1] != '/'; start--)
			;
	*len = start;
	return true;
}

size_t zn_http_path(struct zn_str path, char *to, size_t cap)
{
	size_t len = 0;

	if (!path.len || *path.at != '/')
		return 0;
	while (path.len) {
		bool escaped = *path.at == '%';
		int c = decode_byte(&path);

		if (c <= 0 || (escaped && c == '/'))
			return 0;
		if (c == '/' && resolve_dots(to, &len))
			continue;
		if (len == cap)
			return 0;
		to[len++] = (char)c;
	}
	resolve_dots(to, &len);
	return len;
}

/* Takes what comes before the separator off s, and the separator. */
static struct zn_str cut_before(struct zn_str *s, char separator)
{
	const char *mark = s->len ? memchr(s->at, separator, s->len) : NULL;
	struct zn_str part = {s->at, mark ? (size_t)(mark - s->at) : s->len};

	s->at += part.len + (mark != NULL);
	s->len -= part.len + (mark != NULL);
	return part;
}

static int decode_text(struct zn_str s, char *to, size_t cap)
{
	size_t len = 0;

	to[0] = '\0';
	while (s.len) {
		bool plus = *s.at == '+';
		int c = decode_byte(&s);

		if (c <= 0 || len + 1 >= cap)
			return -EINVAL;
		to[len++] = plus ? ' ' : (char)c;
		to[len] = '\0';
	}
	return 0;
}

int zn_http_pair(struct zn_str *query, char *name, size_t name_cap, char *value, size_t value_cap)
{
	struct zn_str pair, first;
	int err;

	do {
		if (!query->len)
			return 0;
		pair = cut_before(query, '&');
	} while (!pair.len);
	first = cut_before(&pair, '=');
	err = decode_text(first, name, name_cap) | decode_text(pair, value, value_cap);
	return err ? -EINVAL : 1;
}

/* Takes the next entity tag, without W/, off a list. A tag that is not well-formed ends the list. Not next_item():
 * a backslash in a tag is a backslash. */
static bool next_tag(struct zn_str *list, struct zn_str *tag)
{
	const char *end = list->at + list->len, *at = list->at, *close;

	while (at < end && (*at == ',' || is_blank(*at)))
		at++;
	if (end - at > 2 && at[0] == 'W' && at[1] == '/')
		at += 2;
	close = end - at > 1 && *at == '"' ? memchr(at + 1, '"', (size_t)(end - at - 1)) : NULL;
	if (!close)
		return false;
	*tag = str_between(at, close + 1);
	*list = str_between(close + 1, end);
	return !list->len || *list->at == ',' || is_blank(*list->at);
}

bool zn_http_etag_matches(struct zn_str if_none_match, const char *etag)
{
	struct zn_str own = {etag, strlen(etag)}, tag, mine;

	if (zn_str_is(zn_str_trim(if_none_match, " \t"), "*"))
		return true;
	if (!next_tag(&own, &mine))
		return false;
	while (next_tag(&if_none_match, &tag))
		if (tag.len == mine.len && !memcmp(tag.at, mine.at, tag.len))
			return true;
	return false;
}

static const struct {
	int status;
	const char *reason;
} reasons[] = {
	{100, "Continue"},
	{101, "Switching Protocols"},
	{200, "OK"},
	{204, "No Content"},
	{304, "Not Modified"},
	{400, "Bad Request"},
	{401, "Unauthorized"},
	{403, "Forbidden"},
	{404, "Not Found"},
	{405, "Method Not Allowed"},
	{406, "Not Acceptable"},
	{408, "Request Timeout"},
	{413, "Content Too Large"},
	{414, "URI Too Long"},
	{417, "Expectation Failed"},
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

/* RFC 9110 section 8.6; that of 304 would be the length of what is not sent, which nobody knows here. */
static bool has_length(const struct zn_http_res *res)
{
	return !res->no_length && res->status >= 200 && res->status != 204 && res->status != 304;
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
	if (has_length(res)) {
		zn_out_text(o, "Content-Length: ");
		zn_out_u64(o, res->length);
		zn_out_text(o, "\r\n");
	}
	if (res->close || res->keep_alive)
		out_line(o, "Connection", res->close ? "close" : "keep-alive");
	zn_out_text(o, res->extra ? res->extra : "");
	zn_out_text(o, "\r\n");
}
