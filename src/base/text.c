/* SPDX-License-Identifier: GPL-2.0 */
/* text.c: slices of text that somebody else's bytes are cut into, and single characters. */
#include "zernel.h"

bool zn_str_cut(struct zn_str *text, char until, struct zn_str *before)
{
	const char *at = text->len ? memchr(text->at, until, text->len) : NULL;

	if (!at)
		return false;
	*before = (struct zn_str){text->at, (size_t)(at - text->at)};
	text->len -= before->len + 1;
	text->at = at + 1;
	return true;
}

struct zn_str zn_str_of(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

struct zn_str zn_str_skip(struct zn_str s, size_t n)
{
	return (struct zn_str){s.at + n, s.len - n};
}

bool zn_str_equal(struct zn_str a, struct zn_str b)
{
	return a.len == b.len && (!a.len || !memcmp(a.at, b.at, a.len));
}

bool zn_str_is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

struct zn_str zn_str_trim(struct zn_str s, const char *blanks)
{
	while (s.len && zn_str_is_one_of(s.at[0], blanks))
		s = zn_str_skip(s, 1);
	while (s.len && zn_str_is_one_of(s.at[s.len - 1], blanks))
		s.len--;
	return s;
}

bool zn_str_split(struct zn_str *rest, const char *separators, struct zn_str *to)
{
	size_t len = 0;

	if (!rest->at)
		return false;
	while (len < rest->len && !zn_str_is_one_of(rest->at[len], separators))
		len++;
	*to = (struct zn_str){rest->at, len};
	*rest = len < rest->len ? zn_str_skip(*rest, len + 1) : (struct zn_str){NULL, 0};
	return true;
}

int zn_str_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool zn_str_is_nocase(struct zn_str s, const char *text)
{
	return s.len == strlen(text) && (!s.len || !strncasecmp(s.at, text, s.len));
}
