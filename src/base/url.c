/* SPDX-License-Identifier: GPL-2.0 */
/* url.c: reads a URL of the scheme http. Nothing is looked up, and any bytes may be handed in. */
#include <arpa/inet.h>
#include <errno.h>
#include <strings.h>

#include "zernel.h"

#define SCHEME    "http://"
#define HTTP_PORT 80

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
		int high = text.at[i] == '%' && i + 2 < text.len ? zn_str_hex_digit(text.at[i + 1]) : -1;
		int low = high >= 0 ? zn_str_hex_digit(text.at[i + 2]) : -1;

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
		if (!zn_str_cut(text, ']', &host))
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

	while (zn_str_cut(&text, '@', &user)) {
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
