/* SPDX-License-Identifier: GPL-2.0 */
/* http_value.c: what a request's target and its If-None-Match say: paths, queries, entity tags. */
#include <errno.h>
#include <string.h>

#include "zernel.h"

/* Takes a byte, or the escape that stands for one, off s, which is not empty. -1: a bad escape. */
static int decode_byte(struct zn_str *s)
{
	size_t len = *s->at == '%' ? 3 : 1;
	int c = (uint8_t)*s->at;

	if (len > s->len || (len == 3 && (zn_str_hex_digit(s->at[1]) < 0 || zn_str_hex_digit(s->at[2]) < 0)))
		return -1;
	if (len == 3)
		c = zn_str_hex_digit(s->at[1]) * 16 + zn_str_hex_digit(s->at[2]);
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

/* Takes the next entity tag, without W/, off a list. A tag that is not well-formed ends the list. A
 * backslash in a tag is a backslash, unlike in the lists that next_item() of http.c reads. */
static bool next_tag(struct zn_str *list, struct zn_str *tag)
{
	const char *end = list->at + list->len, *at = list->at, *close;

	while (at < end && (*at == ',' || zn_str_is_one_of(*at, " \t")))
		at++;
	if (end - at > 2 && at[0] == 'W' && at[1] == '/')
		at += 2;
	close = end - at > 1 && *at == '"' ? memchr(at + 1, '"', (size_t)(end - at - 1)) : NULL;
	if (!close)
		return false;
	*tag = zn_str_between(at, close + 1);
	*list = zn_str_between(close + 1, end);
	return !list->len || *list->at == ',' || zn_str_is_one_of(*list->at, " \t");
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
