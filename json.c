/* SPDX-License-Identifier: GPL-2.0 */
/*
 * json.c: a JSON writer and a JSON reader (RFC 8259). Nothing is stored and nothing allocated: the writer keeps one bit
 * per open bracket, the reader works on slices.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "zernel.h"

#define WRITER_DEPTH_MAX 32
#define READER_DEPTH_MAX 64
#define NUMBER_MAX       64 /* characters of a number that zn_json_number() looks at */
#define BAD_DIGIT        0xffffffffu

void zn_json_begin(struct zn_json *j, struct zn_out *out)
{
	*j = (struct zn_json){.out = out};
}

/* The comma before a key, or before a value that has none. */
static void put_comma(struct zn_json *j)
{
	uint32_t bit = j->depth ? 1u << (j->depth - 1) : 0;

	if (!j->after_key && j->nonempty & bit)
		zn_out_char(j->out, ',');
	j->nonempty |= bit;
	j->after_key = false;
}

void zn_json_open(struct zn_json *j, char bracket)
{
	put_comma(j);
	if (j->depth == WRITER_DEPTH_MAX) {
		j->out->full = true;
		return;
	}
	zn_out_char(j->out, bracket);
	j->nonempty &= ~(1u << j->depth++);
}

void zn_json_close(struct zn_json *j, char bracket)
{
	if (!j->depth) {
		j->out->full = true;
		return;
	}
	zn_out_char(j->out, bracket);
	j->depth--;
}

static void out_escape(struct zn_out *o, char c)
{
	static const char special[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
	const char *at = strchr(special, c);

	if (c && at) {
		zn_out_char(o, '\\');
		zn_out_char(o, letter[at - special]);
	} else {
		zn_out_text(o, "\\u");
		zn_out_hex(o, (uint8_t)c, 4);
	}
}

static bool is_plain(char c)
{
	return (uint8_t)c >= 0x20 && (uint8_t)c < 0x7f && c != '"' && c != '\\';
}

/* How many bytes at the start of a text stand for themselves. */
static size_t plain_run(const char *at, size_t len)
{
	size_t n = 0;

	while (n < len && is_plain(at[n]))
		n++;
	return n;
}

/* A character that is not plain: its bytes. What must be escaped is (RFC 8259, section 7), and the control characters
 * that need not be, as whoever reads JSON on a terminal must not have it steered: the last byte of those is their
 * number. */
static size_t out_other(struct zn_out *o, const char *bytes, size_t len)
{
	size_t n = *bytes == '"' || *bytes == '\\' ? 1 : zn_utf8_control(bytes, len);

	if (n)
		out_escape(o, bytes[n - 1]);
	else if ((n = zn_utf8_length(bytes, len)))
		zn_out_bytes(o, bytes, n);
	else
		zn_out_text(o, ZN_UTF8_REPLACEMENT);
	return n ? n : 1;
}

static void out_quoted(struct zn_out *o, const char *bytes, size_t len)
{
	zn_out_char(o, '"');
	for (size_t n; len; bytes += n, len -= n) {
		n = plain_run(bytes, len);
		if (n)
			zn_out_bytes(o, bytes, n);
		else
			n = out_other(o, bytes, len);
	}
	zn_out_char(o, '"');
}

void zn_json_key(struct zn_json *j, const char *key)
{
	put_comma(j);
	out_quoted(j->out, key, strlen(key));
	zn_out_char(j->out, ':');
	j->after_key = true;
}

void zn_json_text(struct zn_json *j, const char *text)
{
	zn_json_bytes(j, text, strlen(text));
}

void zn_json_bytes(struct zn_json *j, const char *bytes, size_t len)
{
	put_comma(j);
	out_quoted(j->out, bytes, len);
}

void zn_json_u64(struct zn_json *j, uint64_t v)
{
	put_comma(j);
	zn_out_u64(j->out, v);
}

void zn_json_scaled(struct zn_json *j, uint64_t v, int decimals)
{
	put_comma(j);
	zn_out_scaled(j->out, v, decimals);
}

void zn_json_decimal(struct zn_json *j, uint64_t v, int decimals)
{
	put_comma(j);
	zn_out_fraction(j->out, v, (unsigned)decimals, decimals > 0);
	if (decimals == 0)
		zn_out_text(j->out, ".0");
}

void zn_json_double(struct zn_json *j, double v)
{
	if (!isfinite(v)) {
		zn_json_null(j);
		return;
	}
	put_comma(j);
	zn_out_double(j->out, v);
}

void zn_json_bool(struct zn_json *j, bool v)
{
	put_comma(j);
	zn_out_text(j->out, v ? "true" : "false");
}

void zn_json_null(struct zn_json *j)
{
	put_comma(j);
	zn_out_text(j->out, "null");
}

void zn_json_key_open(struct zn_json *j, const char *key, char bracket)
{
	zn_json_key(j, key);
	zn_json_open(j, bracket);
}

void zn_json_key_text(struct zn_json *j, const char *key, const char *text)
{
	zn_json_key(j, key);
	zn_json_text(j, text);
}

void zn_json_key_u64(struct zn_json *j, const char *key, uint64_t v)
{
	zn_json_key(j, key);
	zn_json_u64(j, v);
}

void zn_json_key_scaled(struct zn_json *j, const char *key, uint64_t v, int decimals)
{
	zn_json_key(j, key);
	zn_json_scaled(j, v, decimals);
}

void zn_json_key_null(struct zn_json *j, const char *key)
{
	zn_json_key(j, key);
	zn_json_null(j);
}

void zn_json_key_known(struct zn_json *j, const char *key, uint64_t v)
{
	if (v)
		zn_json_key_u64(j, key, v);
	else
		zn_json_key_null(j, key);
}

struct zn_json_mark zn_json_mark(const struct zn_json *j)
{
	return (struct zn_json_mark){*j, *j->out};
}

void zn_json_back(struct zn_json *j, const struct zn_json_mark *mark)
{
	*j = mark->json;
	*j->out = mark->out;
}

void zn_json_reserve(struct zn_json *j, size_t bytes)
{
	if (bytes > j->out->cap - j->out->len)
		j->out->full = true;
	else
		j->out->cap -= bytes;
}

void zn_json_release(struct zn_json *j, size_t bytes)
{
	if (!j->out->full)
		j->out->cap += bytes;
}

bool zn_json_items(struct zn_json *j, bool (*item)(const void *owner, struct zn_json *j, uint32_t i), const void *owner)
{
	for (uint32_t i = 0;; i++) {
		struct zn_json_mark before = zn_json_mark(j);

		if (!item(owner, j, i))
			return true;
		if (j->out->full) {
			zn_json_back(j, &before);
			return false;
		}
	}
}

bool zn_json_list(struct zn_json *j, const char *key, char bracket,
	bool (*item)(const void *owner, struct zn_json *j, uint32_t i), const void *owner)
{
	struct zn_json_mark before = zn_json_mark(j);
	bool whole;

	zn_json_key(j, key);
	zn_json_open(j, bracket);
	zn_json_reserve(j, 1);
	if (j->out->full) {
		zn_json_back(j, &before);
		return false;
	}
	whole = zn_json_items(j, item, owner);
	zn_json_release(j, 1);
	zn_json_close(j, bracket == '[' ? ']' : '}');
	return whole;
}

void zn_json_end(struct zn_json *j, bool whole)
{
	zn_json_release(j, ZN_JSON_END);
	if (!whole) {
		zn_json_key(j, "truncated");
		zn_json_bool(j, true);
	}
	zn_json_close(j, '}');
}

/* Where the reader stands. The eat_*() functions step over one thing and say whether it was there. */
struct cursor {
	const char *at;
	const char *end;
};

static void skip_space(struct cursor *c)
{
	while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r'))
		c->at++;
}

static bool eat_char(struct cursor *c, char what)
{
	if (c->at == c->end || *c->at != what)
		return false;
	c->at++;
	return true;
}

static bool eat_word(struct cursor *c, const char *word)
{
	size_t len = strlen(word);

	if ((size_t)(c->end - c->at) < len || memcmp(c->at, word, len))
		return false;
	c->at += len;
	return true;
}

static bool eat_digits(struct cursor *c)
{
	const char *start = c->at;

	while (c->at < c->end && isdigit((uint8_t)*c->at))
		c->at++;
	return c->at > start;
}

static bool eat_number(struct cursor *c)
{
	eat_char(c, '-');
	if (!eat_char(c, '0') && !eat_digits(c))
		return false;
	if (eat_char(c, '.') && !eat_digits(c))
		return false;
	if (eat_char(c, 'e') || eat_char(c, 'E')) {
		if (!eat_char(c, '+'))
			eat_char(c, '-');
		return eat_digits(c);
	}
	return true;
}

/* The value of four hexadecimal digits, or BAD_DIGIT. */
static uint32_t eat_hex4(struct cursor *c)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++, c->at++) {
		if (c->at == c->end || !isxdigit((uint8_t)*c->at))
			return BAD_DIGIT;
		v = v << 4 | (uint32_t)(isdigit((uint8_t)*c->at) ? *c->at - '0' : (*c->at | 0x20) - 'a' + 10);
	}
	return v;
}

static bool eat_escape(struct cursor *c)
{
	if (eat_char(c, 'u'))
		return eat_hex4(c) != BAD_DIGIT;
	if (c->at == c->end || !memchr("\"\\/bfnrt", *c->at, 8))
		return false;
	c->at++;
	return true;
}

static bool eat_string(struct cursor *c)
{
	if (!eat_char(c, '"'))
		return false;
	while (c->at < c->end) {
		size_t n = zn_utf8_length(c->at, (size_t)(c->end - c->at));

		if (eat_char(c, '"'))
			return true;
		if (!n || (uint8_t)*c->at < 0x20)
			return false;
		c->at += n;
		if (c->at[-1] == '\\' && !eat_escape(c))
			return false;
	}
	return false;
}

/* The slice is what stands between the quotes. */
static bool eat_key(struct cursor *c, struct zn_str *key)
{
	key->at = c->at + 1;
	if (!eat_string(c))
		return false;
	key->len = (size_t)(c->at - key->at) - 1;
	skip_space(c);
	return eat_char(c, ':');
}

static bool eat_value(struct cursor *c, int depth);

/* The rest of an object or array whose opening bracket is eaten. */
static bool eat_rest(struct cursor *c, char bracket, int depth)
{
	struct zn_str key;

	skip_space(c);
	if (eat_char(c, bracket))
		return true;
	do {
		skip_space(c);
		if (bracket == '}' && !eat_key(c, &key))
			return false;
		skip_space(c);
		if (!eat_value(c, depth))
			return false;
		skip_space(c);
	} while (eat_char(c, ','));
	return eat_char(c, bracket);
}

/* Recursion is bounded: depth is the number of brackets around the value. */
static bool eat_value(struct cursor *c, int depth)
{
	if (c->at == c->end)
		return false;
	switch (*c->at) {
	case '{': return depth < READER_DEPTH_MAX && eat_char(c, '{') && eat_rest(c, '}', depth + 1);
	case '[': return depth < READER_DEPTH_MAX && eat_char(c, '[') && eat_rest(c, ']', depth + 1);
	case '"': return eat_string(c);
	case 't': return eat_word(c, "true");
	case 'f': return eat_word(c, "false");
	case 'n': return eat_word(c, "null");
	default: return eat_number(c);
	}
}

static struct cursor cursor_of(struct zn_str s)
{
	static const char nothing[1];
	const char *at = s.len ? s.at : nothing;

	return (struct cursor){at, at + s.len};
}

int zn_json_check(struct zn_str text)
{
	struct cursor c = cursor_of(text);

	skip_space(&c);
	if (!eat_value(&c, 0))
		return -EINVAL;
	skip_space(&c);
	return c.at == c.end ? 0 : -EINVAL;
}

bool zn_json_next(struct zn_str container, size_t *at, struct zn_str *key, struct zn_str *value)
{
	struct cursor c = cursor_of(container);
	const char *start = c.at;
	char opening;

	skip_space(&c);
	opening = c.at < c.end ? *c.at : 0;
	if ((opening != '{' && opening != '[') || *at > container.len)
		return false;
	if (*at)
		c.at = start + *at;
	skip_space(&c);
	if (!eat_char(&c, *at ? ',' : opening))
		return false;
	skip_space(&c);
	*key = (struct zn_str){0};
	if (opening == '{' && !eat_key(&c, key))
		return false;
	skip_space(&c);
	value->at = c.at;
	if (!eat_value(&c, 0))
		return false;
	value->len = (size_t)(c.at - value->at);
	*at = (size_t)(c.at - start);
	return true;
}

struct zn_str zn_json_member(struct zn_str object, const char *key)
{
	struct zn_str name, value;
	size_t at = 0;

	while (zn_json_next(object, &at, &name, &value))
		if (name.at && name.len == strlen(key) && !memcmp(name.at, key, name.len))
			return value;
	return (struct zn_str){0};
}

double zn_json_number(struct zn_str value)
{
	struct cursor c = cursor_of(value);
	char text[NUMBER_MAX + 1] = "";
	double v;

	if (value.len > NUMBER_MAX || !eat_number(&c) || c.at != c.end)
		return 0.0;
	memcpy(text, value.at, value.len);
	v = strtod(text, NULL);
	return isfinite(v) ? v : 0.0;
}

uint64_t zn_json_integer(struct zn_str value)
{
	struct cursor c = cursor_of(value);
	uint64_t v = 0;

	if (!eat_number(&c) || c.at != c.end)
		return 0;
	for (size_t i = 0; i < value.len; i++)
		if (!isdigit((uint8_t)value.at[i]) || __builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(value.at[i] - '0'), &v))
			return 0;
	return v;
}

/* The code point after "\u"; half a surrogate pair reads as U+FFFD. */
static uint32_t eat_code_point(struct cursor *c)
{
	uint32_t v = eat_hex4(c), low;
	struct cursor ahead = *c;

	if (v < 0xd800 || v > 0xdfff)
		return v;
	if (v > 0xdbff || !eat_word(&ahead, "\\u"))
		return 0xfffd;
	low = eat_hex4(&ahead);
	if (low < 0xdc00 || low > 0xdfff)
		return 0xfffd;
	*c = ahead;
	return 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
}

static size_t encode_utf8(uint32_t v, char to[4])
{
	size_t n = v < 0x80 ? 1 : v < 0x800 ? 2 : v < 0x10000 ? 3 : 4;

	for (size_t i = n; i-- > 1; v >>= 6)
		to[i] = (char)(0x80 | (v & 0x3f));
	to[0] = (char)(n == 1 ? v : (0xf00u >> n & 0xff) | v);
	return n;
}

/* The next character of a string that eat_string() has accepted. */
static size_t decode_char(struct cursor *c, char to[4])
{
	static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	size_t n;

	if (eat_char(c, '\\')) {
		if (eat_char(c, 'u'))
			return encode_utf8(eat_code_point(c), to);
		to[0] = meanings[strchr(letters, *c->at++) - letters];
		return 1;
	}
	n = zn_utf8_length(c->at, (size_t)(c->end - c->at));
	memcpy(to, c->at, n);
	c->at += n;
	return n;
}

size_t zn_json_string(struct zn_str value, char *to, size_t cap)
{
	struct zn_out out = {.at = to, .cap = cap ? cap - 1 : 0};
	struct cursor c = cursor_of(value), whole = c;
	char piece[4];

	if (!eat_string(&whole) || whole.at != whole.end)
		return zn_json_string((struct zn_str){"\"\"", 2}, to, cap);
	c.at++;
	c.end--;
	while (c.at < c.end && !out.full)
		zn_out_bytes(&out, piece, decode_char(&c, piece));
	if (cap)
		to[out.len] = '\0';
	return out.len;
}
