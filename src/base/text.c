/* SPDX-License-Identifier: GPL-2.0 */
/*
 * text.c: bounded text output, the UTF-8 automaton (RFC 3629), and slices of text that somebody else's bytes are cut
 * into.
 */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "zernel.h"

#define DECIMALS_MAX 19

#define RANGE(left, low, high) ((left) | (uint32_t)(low) << 8 | (uint32_t)(high) << 16)

/* RFC 3629, section 4: by first byte, how many bytes follow and what the next one may be. */
static const struct {
	uint8_t first, last;
	uint32_t state;
} leads[] = {
	{0x00, 0x7f, 0},
	{0xc2, 0xdf, RANGE(1, 0x80, 0xbf)},
	{0xe0, 0xe0, RANGE(2, 0xa0, 0xbf)},
	{0xe1, 0xec, RANGE(2, 0x80, 0xbf)},
	{0xed, 0xed, RANGE(2, 0x80, 0x9f)},
	{0xee, 0xef, RANGE(2, 0x80, 0xbf)},
	{0xf0, 0xf0, RANGE(3, 0x90, 0xbf)},
	{0xf1, 0xf3, RANGE(3, 0x80, 0xbf)},
	{0xf4, 0xf4, RANGE(3, 0x80, 0x8f)},
};

uint32_t zn_utf8_step(uint32_t state, uint8_t byte)
{
	if (state == ZN_UTF8_BAD)
		return state;
	if (state) {
		if (byte < (state >> 8 & 0xff) || byte > state >> 16)
			return ZN_UTF8_BAD;
		return (state & 0xff) == 1 ? 0 : RANGE((state & 0xff) - 1, 0x80, 0xbf);
	}
	for (size_t i = 0; i < ZN_LEN(leads); i++)
		if (byte >= leads[i].first && byte <= leads[i].last)
			return leads[i].state;
	return ZN_UTF8_BAD;
}

size_t zn_utf8_length(const char *at, size_t len)
{
	uint32_t state = 0;

	if (len && (uint8_t)*at < 0x80)
		return 1;
	for (size_t i = 0; i < len && i < 4; i++) {
		state = zn_utf8_step(state, (uint8_t)at[i]);
		if (!state)
			return i + 1;
	}
	return 0;
}

size_t zn_utf8_control(const char *at, size_t len)
{
	if (!len)
		return 0;
	if ((uint8_t)*at < 0x20 || *at == 0x7f)
		return 1;
	return len > 1 && (uint8_t)at[0] == 0xc2 && (uint8_t)at[1] >= 0x80 && (uint8_t)at[1] < 0xa0 ? 2 : 0;
}

static const char pairs[] = "0001020304050607080910111213141516171819"
			    "2021222324252627282930313233343536373839"
			    "4041424344454647484950515253545556575859"
			    "6061626364656667686970717273747576777879"
			    "8081828384858687888990919293949596979899";

/* Exact although written as doubles: 5^19 is below 2^53. */
static const uint64_t power10[DECIMALS_MAX + 1] = {
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};

static unsigned digit_count(uint64_t v)
{
	/* log10(2) is 1233 / 4096 to within what 64 bits need */
	unsigned bits = 64 - (unsigned)__builtin_clzll(v | 1), guess = bits * 1233 >> 12;

	return guess + 1 - ((v | 1) < power10[guess]);
}

/* Writes the decimal digits of v so that they end before end. */
static void put_digits(char *end, uint64_t v)
{
	for (; v >= 100; v /= 100)
		memcpy(end -= 2, pairs + 2 * (v % 100), 2);
	if (v >= 10)
		memcpy(end - 2, pairs + 2 * v, 2);
	else
		end[-1] = (char)('0' + v);
}

char *zn_text_u64(char *to, uint64_t v)
{
	unsigned count = digit_count(v);

	put_digits(to + count, v);
	return to + count;
}

/* Writes so many digits, with zeros in front, before end. */
static void put_padded(char *end, uint64_t v, unsigned digits)
{
	for (; digits >= 2; digits -= 2, v /= 100)
		memcpy(end -= 2, pairs + 2 * (v % 100), 2);
	if (digits)
		end[-1] = (char)('0' + v);
}

/* keep: digits behind the point that stay, even 0. */
static char *put_fraction(char *to, uint64_t v, unsigned decimals, unsigned keep)
{
	uint64_t whole = v < power10[decimals] ? 0 : v / power10[decimals], rest = v - whole * power10[decimals];
	char *least, *end;

	to = zn_text_u64(to, whole);
	if (!rest && !keep)
		return to;
	*to++ = '.';
	least = to + keep;
	end = to + decimals;
	put_padded(end, rest, decimals);
	while (end > least && end[-1] == '0')
		end--;
	return end;
}

char *zn_text_scaled(char *to, uint64_t v, int decimals)
{
	return put_fraction(to, v, (unsigned)decimals, 0);
}

void zn_out_u64(struct zn_out *o, uint64_t v)
{
	unsigned count = digit_count(v);

	if (o->full || count > o->cap - o->len) {
		o->full = true;
		return;
	}
	o->len += count;
	put_digits(o->at + o->len, v);
}

void zn_out_i64(struct zn_out *o, int64_t v)
{
	if (v < 0)
		zn_out_char(o, '-');
	zn_out_u64(o, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void zn_out_hex(struct zn_out *o, uint64_t v, int digits)
{
	char text[16];
	int at = 16;

	while (at && (v || 16 - at < digits)) {
		text[--at] = "0123456789abcdef"[v & 15];
		v >>= 4;
	}
	zn_out_bytes(o, text + at, (size_t)(16 - at));
}

void zn_out_fraction(struct zn_out *o, uint64_t v, unsigned decimals, unsigned keep)
{
	char text[ZN_TEXT_NUMBER];

	if (decimals > DECIMALS_MAX || keep > decimals) {
		o->full = true;
		return;
	}
	zn_out_bytes(o, text, (size_t)(put_fraction(text, v, decimals, keep) - text));
}

void zn_out_scaled(struct zn_out *o, uint64_t v, int decimals)
{
	zn_out_fraction(o, v, (unsigned)decimals, 0);
}

/* Rounds up at will; false if the text reads as another number. */
static bool put_double(char text[32], double v, int digits, bool up)
{
	if (up)
		fesetround(v < 0 ? FE_DOWNWARD : FE_UPWARD);
	snprintf(text, 32, "%.*g", digits, v);
	if (up)
		fesetround(FE_TONEAREST);
	return strtod(text, NULL) == v;
}

/* Fifteen digits tell normal doubles from any decimal that short, and %g leaves out zeros at the end, so there is no
 * need to try fewer; subnormal ones have less. The doubles below a power of two lie closer than those above it: the
 * nearest decimal may then read as the neighbour below, where the next one up would do. */
void zn_out_double(struct zn_out *o, double v)
{
	char text[32], whole[32];
	int exponent, digits = isnormal(v) ? 15 : 1;
	bool power = fabs(frexp(v, &exponent)) == 0.5;

	if (!isfinite(v)) {
		zn_out_text(o, isnan(v) ? "NaN" : v < 0 ? "-Inf" : "+Inf");
		return;
	}
	while (!put_double(text, v, digits, false) && !(power && put_double(text, v, digits, true)) && digits < 17)
		digits++;
	if (fabs(v) < 1e17 && put_double(whole, v, 17, false) && strlen(whole) < strlen(text))
		memcpy(text, whole, sizeof(text)); /* with fewer digits, %g has an exponent from 10^15 on */
	zn_out_text(o, text);
}

void zn_str_plain(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* How many bytes at the start of a text are ASCII. */
static size_t ascii_run(const char *at, size_t len)
{
	uint64_t eight;
	size_t n = 0;

	for (; len - n >= sizeof(eight); n += sizeof(eight)) {
		memcpy(&eight, at + n, sizeof(eight));
		if (eight & 0x8080808080808080)
			break;
	}
	while (n < len && (uint8_t)at[n] < 0x80)
		n++;
	return n;
}

void zn_out_utf8(struct zn_out *o, const char *bytes, size_t len)
{
	while (len) {
		size_t n = ascii_run(bytes, len);

		if (!n)
			n = zn_utf8_length(bytes, len);
		if (n)
			zn_out_bytes(o, bytes, n);
		else
			zn_out_text(o, ZN_UTF8_REPLACEMENT);
		bytes += n ? n : 1;
		len -= n ? n : 1;
	}
}

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

void zn_str_unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		bool escaped = from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] >= '0' &&
			from[2] <= '7' && from[3] >= '0' && from[3] <= '7';

		*to = escaped ? (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0')) : *from;
		if (!*to)
			*to = '?'; /* the kernel writes no NUL */
		from += escaped ? 4 : 1;
	}
	*to = 0;
}

uint64_t zn_str_hash(struct zn_str s)
{
	uint64_t h = ZN_FNV_BASIS;

	for (size_t i = 0; i < s.len; i++)
		h = (h ^ (uint8_t)s.at[i]) * ZN_FNV_PRIME;
	return h;
}
