/* SPDX-License-Identifier: GPL-2.0 */
/* lexer.c: words, signs, numbers and quoted texts of the language of alert rules, taken off a text one by one. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>

#include "zernel.h"

/* Only the first mistake is reported: later ones may follow from it. Always returns ZN_NO_NODE. */
__attribute__((format(printf, 3, 4))) int zn_lex_fail(struct zn_parser *p, const char *at, const char *format, ...)
{
	unsigned line = 1, column = 1;
	va_list args;
	int len;

	if (p->why[0])
		return ZN_NO_NODE;
	for (const char *c = p->start; c < at; c++) {
		column = *c == '\n' ? 1 : column + 1;
		line += *c == '\n';
	}
	len = snprintf(p->why, ZN_TEXT_MAX, "%.100s:%u:%u: ", p->name, line, column);
	va_start(args, format);
	vsnprintf(p->why + len, ZN_TEXT_MAX - (size_t)len, format, args);
	va_end(args);
	return ZN_NO_NODE;
}

/* Blanks and comments; the ends of lines too if `lines`. */
void zn_lex_skip(struct zn_parser *p, bool lines)
{
	for (; p->at < p->end; p->at++) {
		if (*p->at == '#')
			while (p->at + 1 < p->end && p->at[1] != '\n')
				p->at++;
		else if (!zn_str_is_one_of(*p->at, ZN_LEX_BLANKS) && !(lines && *p->at == '\n'))
			return;
	}
}

void zn_lex_skip_here(struct zn_parser *p)
{
	zn_lex_skip(p, p->depth > 0);
}

/* "expected X, not 'Y'", Y being what stands there. */
int zn_lex_expected(struct zn_parser *p, const char *what)
{
	char shown[24];
	size_t len = 0;

	if (p->at >= p->end)
		return zn_lex_fail(p, p->at, "expected %s, not the end of the file", what);
	if (*p->at == '\n')
		return zn_lex_fail(p, p->at, "expected %s, not the end of the line", what);
	for (const char *c = p->at; c < p->end && len < sizeof(shown) - 1 && !zn_str_is_one_of(*c, ZN_LEX_BLANKS "\n");
		c++)
		shown[len++] = isprint((unsigned char)*c) ? *c : '?';
	return zn_lex_fail(p, p->at, "expected %s, not '%.*s'", what, (int)len, shown);
}

/* The word that stands here, without taking it. Empty: there is none. */
struct zn_str zn_lex_word_here(struct zn_parser *p)
{
	const char *c = p->at;

	if (c < p->end && zn_str_is_one_of(*c, ZN_LEX_LETTERS))
		while (c < p->end && zn_str_is_one_of(*c, ZN_LEX_LETTERS ZN_LEX_DIGITS ":"))
			c++;
	return zn_str_between(p->at, c);
}

struct zn_str zn_lex_word(struct zn_parser *p, const char *what)
{
	struct zn_str word;

	zn_lex_skip_here(p);
	word = zn_lex_word_here(p);
	if (!word.len)
		zn_lex_expected(p, what);
	p->at += word.len;
	return word;
}

bool zn_lex_sign_here(struct zn_parser *p, const char *sign)
{
	size_t len = strlen(sign);

	zn_lex_skip_here(p);
	return (size_t)(p->end - p->at) >= len && !memcmp(p->at, sign, len);
}

bool zn_lex_sign(struct zn_parser *p, const char *sign)
{
	if (!zn_lex_sign_here(p, sign))
		return false;
	p->at += strlen(sign);
	return true;
}

bool zn_lex_need_sign(struct zn_parser *p, const char *sign, const char *what)
{
	return zn_lex_sign(p, sign) || zn_lex_expected(p, what) != ZN_NO_NODE;
}

bool zn_lex_open(struct zn_parser *p, const char *sign, const char *what)
{
	if (!zn_lex_need_sign(p, sign, what))
		return false;
	p->depth++;
	return true;
}

bool zn_lex_close(struct zn_parser *p, const char *sign, const char *what)
{
	bool there = zn_lex_need_sign(p, sign, what);

	p->depth--; /* of a text that is given up, too */
	return there;
}

/* Text between quotes of either kind; what it holds is taken as it is. */
bool zn_lex_quoted(struct zn_parser *p, struct zn_str *to)
{
	const char *from, *close;

	zn_lex_skip_here(p);
	if (p->at >= p->end || !zn_str_is_one_of(*p->at, "\"'"))
		return zn_lex_expected(p, "a text in quotes") != ZN_NO_NODE;
	from = p->at + 1;
	for (close = from; close < p->end && *close != *p->at && *close != '\n'; close++)
		;
	if (close == p->end || *close != *p->at)
		return zn_lex_fail(p, p->at, "a quote that is not closed on this line") != ZN_NO_NODE;
	*to = zn_str_between(from, close);
	p->at = close + 1;
	return true;
}

static const struct {
	const char *name;
	double times, over; /* two, so that 95% is the number nearest to 0.95 */
	enum zn_unit unit;
} units[] = {{"%", 1, 100, ZN_UNIT_RATIO}, {"ns", 1, 1e9, ZN_UNIT_TIME}, {"us", 1, 1e6, ZN_UNIT_TIME},
	{"ms", 1, 1e3, ZN_UNIT_TIME}, {"s", 1, 1, ZN_UNIT_TIME}, {"m", 60, 1, ZN_UNIT_TIME},
	{"h", 3600, 1, ZN_UNIT_TIME}, {"d", 86400, 1, ZN_UNIT_TIME}, {"B", 1, 1, ZN_UNIT_BYTES},
	{"kB", 1e3, 1, ZN_UNIT_BYTES}, {"MB", 1e6, 1, ZN_UNIT_BYTES}, {"GB", 1e9, 1, ZN_UNIT_BYTES},
	{"TB", 1e12, 1, ZN_UNIT_BYTES}, {"KiB", 1024, 1, ZN_UNIT_BYTES}, {"MiB", 1048576, 1, ZN_UNIT_BYTES},
	{"GiB", 1073741824, 1, ZN_UNIT_BYTES}, {"TiB", 1099511627776, 1, ZN_UNIT_BYTES}};

/* What stands right behind the digits of a number. */
static bool take_unit(struct zn_parser *p, double *number, enum zn_unit *unit)
{
	struct zn_str name = zn_lex_word_here(p);

	*unit = ZN_UNIT_NONE;
	if (p->at < p->end && *p->at == '%')
		name.len = 1;
	if (!name.len)
		return true;
	for (size_t i = 0; i < ZN_LEN(units); i++)
		if (zn_str_is(name, units[i].name)) {
			*number = *number * units[i].times / units[i].over;
			*unit = units[i].unit;
			p->at += name.len;
			return true;
		}
	return zn_lex_expected(p, "a unit (% ns us ms s m h d B kB MB GB TB KiB MiB GiB TiB)") != ZN_NO_NODE;
}

bool zn_lex_number_here(struct zn_parser *p)
{
	zn_lex_skip_here(p);
	return p->at < p->end && zn_str_is_one_of(*p->at, ZN_LEX_DIGITS ".");
}

bool zn_lex_number(struct zn_parser *p, double *number, enum zn_unit *unit)
{
	char text[32];
	size_t len = 0;
	char *end;

	if (!zn_lex_number_here(p))
		return zn_lex_expected(p, "a number") != ZN_NO_NODE;
	for (const char *c = p->at; c < p->end && len < sizeof(text) - 1 && zn_str_is_one_of(*c, ZN_LEX_DIGITS ".eE+-");
		c++) {
		if (zn_str_is_one_of(*c, "eE") ? !(c + 1 < p->end && zn_str_is_one_of(c[1], ZN_LEX_DIGITS "+-"))
					       : zn_str_is_one_of(*c, "+-") && !zn_str_is_one_of(c[-1], "eE"))
			break;
		text[len++] = *c;
	}
	text[len] = '\0';
	*number = strtod(text, &end);
	if (end != text + len || len == sizeof(text) - 1 || !isfinite(*number))
		return zn_lex_expected(p, "a number, as in 0.95 or 1e9") != ZN_NO_NODE;
	p->at += len;
	return take_unit(p, number, unit);
}

/* In seconds, above 0 unless zero is allowed, up to max. */
bool zn_lex_duration(struct zn_parser *p, double *seconds, double max)
{
	const char *at;
	enum zn_unit unit;

	zn_lex_skip_here(p);
	at = p->at;
	if (!zn_lex_number(p, seconds, &unit))
		return false;
	if (unit != ZN_UNIT_TIME)
		return zn_lex_fail(p, at, "expected a time with its unit, as in 30s or 5m") != ZN_NO_NODE;
	if (*seconds > max)
		return zn_lex_fail(p, at, "expected a time of at most %g s", max) != ZN_NO_NODE;
	return true;
}
