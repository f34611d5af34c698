/* SPDX-License-Identifier: GPL-2.0 */
/*
 * auth.c: who may ask: by a token, by the name that was asked for, and, of web pages, by their origin.
 *
 * Limits: resolv.conf is read up to 16 KiB. It, and every header, may hold anything.
 */
#include <arpa/inet.h>
#include <strings.h>

#include "zernel.h"

#define FILE_BYTES  (16 * 1024)
#define RESOLV_CONF "/etc/resolv.conf"
#define SUBPROTOCOL "zernel.token."
#define BLANKS      " \t\r"

/* Names of hosts have no case (RFC 4343). */
static bool same_name(struct zn_str a, struct zn_str b)
{
	return a.len && a.len == b.len && !strncasecmp(a.at, b.at, a.len);
}

int zn_auth_reload(struct zn_auth *a, char why[ZN_TEXT_MAX])
{
	struct zn_tokens fresh = {0};
	int err = 0;

	why[0] = '\0';
	if (!a->options->token_file[0])
		return 0;
	err = zn_token_read(&fresh, a->options->token_file, why);
	if (!err) {
		zn_token_warn(a->options->token_file);
		a->token_set +=
			a->tokens.count != fresh.count || memcmp(a->tokens.token, fresh.token, sizeof(fresh.token));
		a->tokens = fresh;
	}
	explicit_bzero(&fresh, sizeof(fresh));
	return err;
}

/* ---- names ---- */

/* Letters, digits, - and _ in labels of up to 63, with dots between them. */
static bool is_name(struct zn_str s)
{
	struct zn_str label;

	if (!s.len || s.len > 253)
		return false;
	while (zn_str_split(&s, ".", &label)) {
		if (!label.len || label.len > 63)
			return false;
		for (size_t i = 0; i < label.len; i++)
			if (!zn_str_is_one_of(label.at[i] | 0x20, "abcdefghijklmnopqrstuvwxyz") &&
				!zn_str_is_one_of(label.at[i], "0123456789-_"))
				return false;
	}
	return true;
}

/* A name that ends with a dot is the same name (RFC 1034, section 3.1). */
static struct zn_str without_dot(struct zn_str name)
{
	if (name.len > 1 && name.at[name.len - 1] == '.')
		name.len--;
	return name;
}

/* The names of a "search" or "domain" line. As for the resolver, a later line takes the place of an earlier one. */
static void take_domains(struct zn_auth *a, struct zn_str line)
{
	struct zn_out to = {.at = a->domains, .cap = sizeof(a->domains) - 1};
	struct zn_str word;

	if (!zn_str_split(&line, BLANKS, &word) ||
		!(zn_str_equal(word, zn_str_of("search")) || zn_str_equal(word, zn_str_of("domain"))))
		return;
	while (zn_str_split(&line, BLANKS, &word)) {
		word = without_dot(word);
		if (!is_name(word) || word.len + 1 > to.cap - to.len)
			continue;
		if (to.len)
			zn_out_char(&to, ' ');
		zn_out_bytes(&to, word.at, word.len);
	}
	a->domains[to.len] = '\0';
}

static void read_domains(struct zn_auth *a, const char *path)
{
	char text[FILE_BYTES];
	ssize_t len = zn_file_read_regular(path, text, sizeof(text));
	struct zn_str rest = {text, len > 0 ? (size_t)len : 0}, line;

	while (zn_str_split(&rest, "\n", &line))
		if (rest.at || len < FILE_BYTES) /* the last line of a file that is too long may be half a line */
			take_domains(a, zn_str_trim(line, BLANKS));
}

int zn_auth_open(
	struct zn_auth *a, const struct zn_options *o, const char *node, const char *resolv_conf, char why[ZN_TEXT_MAX])
{
	*a = (struct zn_auth){.options = o, .node = node};
	read_domains(a, resolv_conf ? resolv_conf : RESOLV_CONF);
	return zn_auth_reload(a, why);
}

/* Cuts http:// or https:// off an origin, and tells the port that it stands for. False: it has neither. */
static bool strip_scheme(struct zn_str *origin, uint32_t *port)
{
	static const struct {
		const char *prefix;
		uint32_t port;
	} schemes[] = {{"http://", 80}, {"https://", 443}};

	for (size_t i = 0; i < ZN_LEN(schemes); i++) {
		size_t len = strlen(schemes[i].prefix);

		if (origin->len > len && !memcmp(origin->at, schemes[i].prefix, len)) {
			*port = schemes[i].port;
			*origin = zn_str_skip(*origin, len);
			return true;
		}
	}
	return false;
}

/* The name before the port; an IPv6 address keeps its brackets. */
static struct zn_str name_of(struct zn_str authority)
{
	bool bracket = authority.len && *authority.at == '[';
	const char *end = authority.len ? memchr(authority.at, bracket ? ']' : ':', authority.len) : NULL;

	return end ? (struct zn_str){authority.at, (size_t)(end - authority.at) + bracket} : authority;
}

/* The port after the name, or `otherwise` if there is none. UINT32_MAX: what stands there is no port. */
static uint32_t port_of(struct zn_str authority, uint32_t otherwise)
{
	struct zn_str rest = zn_str_skip(authority, name_of(authority).len);
	uint32_t port = 0;

	if (!rest.len)
		return otherwise;
	if (*rest.at != ':')
		return UINT32_MAX;
	for (rest = zn_str_skip(rest, 1); rest.len; rest = zn_str_skip(rest, 1)) {
		if (*rest.at < '0' || *rest.at > '9')
			return UINT32_MAX;
		port = port * 10 + (uint32_t)(*rest.at - '0');
		if (port > UINT16_MAX)
			return UINT32_MAX;
	}
	return authority.at[authority.len - 1] == ':' ? otherwise : port;
}

static bool is_address(struct zn_str name)
{
	char text[INET6_ADDRSTRLEN] = "";
	struct in6_addr address;
	bool v6 = name.len > 2 && *name.at == '[' && name.at[name.len - 1] == ']';

	if (v6)
		name = (struct zn_str){name.at + 1, name.len - 2};
	if (name.len >= sizeof(text) || memchr(name.at, '\0', name.len))
		return false;
	memcpy(text, name.at, name.len);
	return inet_pton(v6 ? AF_INET6 : AF_INET, text, &address) == 1;
}

/* name is node, or node.domain. */
static bool is_in_domain(struct zn_str name, struct zn_str node, struct zn_str domain)
{
	return name.len > node.len && name.at[node.len] == '.' && same_name((struct zn_str){name.at, node.len}, node) &&
		same_name(zn_str_skip(name, node.len + 1), domain);
}

/* The node's name as the kernel has it, or the first label of that; alone, or in a domain of the search list. */
static bool is_node(const struct zn_auth *a, struct zn_str name)
{
	struct zn_str full = without_dot(zn_str_of(a->node)), rest = full, host;
	struct zn_str domains = zn_str_of(a->domains), domain;

	zn_str_split(&rest, ".", &host);
	if (same_name(name, full) || same_name(name, host))
		return true;
	while (host.len && zn_str_split(&domains, " ", &domain))
		if (is_in_domain(name, host, domain))
			return true;
	return false;
}

/* An item of --host-names: a name, or a suffix that begins with a dot. */
static bool name_fits(struct zn_str name, struct zn_str item)
{
	if (!item.len || item.at[0] != '.')
		return same_name(name, item);
	return name.len > item.len && same_name(zn_str_skip(name, name.len - item.len), item);
}

static bool is_listed(const struct zn_auth *a, struct zn_str name)
{
	struct zn_str names = zn_str_of(a->options->host_names), origins = zn_str_of(a->options->ws_origin), item;
	uint32_t port;

	while (zn_str_split(&names, ",", &item))
		if (name_fits(name, without_dot(item)))
			return true;
	while (zn_str_split(&origins, ",", &item))
		if (strip_scheme(&item, &port) && same_name(name, without_dot(name_of(item))))
			return true;
	return false;
}

bool zn_auth_host(const struct zn_auth *a, struct zn_str host)
{
	struct zn_str name = without_dot(name_of(host));

	if (!name.len || port_of(host, 0) == UINT32_MAX)
		return false;
	return is_address(name) || same_name(name, zn_str_of("localhost")) || is_node(a, name) || is_listed(a, name);
}

bool zn_auth_origin(const struct zn_auth *a, const struct zn_http_req *req, bool ws_port, uint16_t metrics_port)
{
	struct zn_str listed = zn_str_of(a->options->ws_origin), item, origin = req->origin;
	uint32_t port;

	if (!origin.at)
		return true;
	while (zn_str_split(&listed, ",", &item))
		if (item.len && zn_str_equal(origin, item))
			return true;
	if (!strip_scheme(&origin, &port) || !zn_auth_host(a, req->host))
		return false;
	if (zn_str_equal(origin, req->host))
		return true;
	return ws_port && zn_str_equal(name_of(origin), name_of(req->host)) && port_of(origin, port) == metrics_port;
}

/* ---- tokens ---- */

/* Every byte of every slot is looked at, whatever is found, so that the time tells nothing of how much was right. */
static bool is_right(const struct zn_auth *a, struct zn_str given)
{
	char padded[ZN_TOKEN_MAX] = {0};
	unsigned bad = !zn_token_is_valid(given), right = 0;

	if (!bad)
		memcpy(padded, given.at, given.len);
	for (uint32_t i = 0; i < ZN_TOKENS_MAX; i++) {
		volatile unsigned differs = bad | (i >= a->tokens.count); /* volatile: no early end */

		for (size_t at = 0; at < ZN_TOKEN_MAX; at++)
			differs |= (unsigned char)(padded[at] ^ a->tokens.token[i][at]);
		right |= differs == 0;
	}
	explicit_bzero(padded, sizeof(padded));
	return right;
}

#define SCHEME "Bearer "

static bool is_bearer(struct zn_str header)
{
	return header.len > strlen(SCHEME) && !strncasecmp(header.at, SCHEME, strlen(SCHEME));
}

static bool bearer_good(const struct zn_auth *a, struct zn_str header)
{
	size_t len = strlen(SCHEME);

	while (len < header.len && header.at[len] == ' ') /* one or more, RFC 9110 section 11.4 */
		len++;
	return is_right(a, zn_str_skip(header, len));
}

/* Two digits to a byte; the bytes, or 0 for what is no hex or too long. */
static size_t decode_hex(struct zn_str hex, char to[ZN_TOKEN_MAX])
{
	if (hex.len % 2 || hex.len > 2 * ZN_TOKEN_MAX)
		return 0;
	for (size_t i = 0; i < hex.len; i += 2) {
		int high = zn_str_hex_digit(hex.at[i]), low = zn_str_hex_digit(hex.at[i + 1]);

		if (high < 0 || low < 0)
			return 0;
		to[i / 2] = (char)(high << 4 | low);
	}
	return hex.len / 2;
}

static bool subprotocol_good(const struct zn_auth *a, struct zn_str list)
{
	char token[ZN_TOKEN_MAX] = {0};
	size_t prefix = strlen(SUBPROTOCOL), len;
	struct zn_str item;
	bool right = false;

	while (zn_str_split(&list, ",", &item)) {
		item = zn_str_trim(item, BLANKS);
		if (item.len <= prefix || memcmp(item.at, SUBPROTOCOL, prefix))
			continue;
		len = decode_hex(zn_str_skip(item, prefix), token);
		right |= is_right(a, (struct zn_str){token, len});
	}
	explicit_bzero(token, sizeof(token));
	return right;
}

bool zn_auth_token(const struct zn_auth *a, const struct zn_http_req *req)
{
	bool right = false;

	if (!a->tokens.count)
		return true;
	if (is_bearer(req->authorization)) /* another scheme is between the client and a proxy */
		return bearer_good(a, req->authorization);
	for (size_t i = 0; i < ZN_WS_PROTOCOLS; i++)
		right |= req->upgrade && subprotocol_good(a, req->ws_protocol[i]);
	return right;
}
