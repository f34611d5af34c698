/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http.c: parses the head of an HTTP/1.1 request (RFC 9110, RFC 9112). It holds no state: a head that is not complete
 * is scanned again from its start, at most ZN_HTTP_HEAD_MAX bytes. A request that announces a body is answered and its
 * connection closed. Every verdict depends only on the bytes up to the one that decides it, so where TCP cuts the
 * stream changes nothing.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "zernel.h"

#define METHOD_MAX      32
#define EMPTY_LINES_MAX 2 /* before the request line, RFC 9112 section 2.2 */
#define MORE            1 /* beside 0 and -status: the bytes so far are fine, but end too soon */

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

bool zn_http_is_token(char c)
{
	return token_bits[(uint8_t)c >> 5] >> (c & 31) & 1;
}

/* Looser than RFC 3986, as browsers are: visible ASCII, but no fragment. */
static bool is_target(char c)
{
	return c > 0x20 && c < 0x7f && c != '#';
}

bool zn_http_is_value(char c)
{
	return c == '\t' || ((uint8_t)c >= 0x20 && c != 0x7f);
}

static bool is_host(char c)
{
	return isalnum((uint8_t)c) || (c && strchr("-._~!$&'()*+,;=", c));
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

	if (!mark || !zn_str_is_nocase(zn_str_trim(zn_str_between(parameter.at, mark), " \t"), name))
		return (struct zn_str){0};
	return zn_str_trim(zn_str_between(mark + 1, parameter.at + parameter.len), " \t");
}

static struct zn_str strip_quotes(struct zn_str s)
{
	return s.len > 1 && *s.at == '"' && s.at[s.len - 1] == '"' ? zn_str_between(s.at + 1, s.at + s.len - 1) : s;
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
		if (!bracket || !valid_ipv6(zn_str_between(s.at + 1, bracket)))
			return false;
		at = bracket + 1;
	} else {
		while (at < end && is_host(*at))
			at++;
	}
	if (at == s.at || at == end)
		return at != s.at;
	return *at == ':' && valid_port(zn_str_between(at + 1, end));
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
	*word = zn_str_between(start, h->at);
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
	h->req->host = zn_str_between(target->at + scheme, at);
	*target = zn_str_between(at, end);
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
	req->path = mark ? zn_str_between(target.at, mark) : target;
	if (mark)
		req->query = zn_str_between(mark + 1, target.at + target.len);
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

	if ((err = eat_request_word(h, zn_http_is_token, &method, METHOD_MAX, -501)))
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
	while (h->at < h->end && zn_http_is_token(*h->at))
		h->at++;
	if (h->at == h->end)
		return MORE;
	name = zn_str_between(start, h->at);
	if (!name.len || *h->at++ != ':')
		return -400;
	start = h->at;
	while (h->at < h->end && zn_http_is_value(*h->at))
		h->at++;
	value = zn_str_trim(zn_str_between(start, h->at), " \t");
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
