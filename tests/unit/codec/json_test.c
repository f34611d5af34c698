/* SPDX-License-Identifier: GPL-2.0 */
/*
 * json_test.c: bounded output, UTF-8, the JSON writer and reader. Buffers are heap blocks of exactly the size
 * that is allowed, so that AddressSanitizer sees every byte too far.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define S(text) ((struct zn_str){text, sizeof(text) - 1})

static char *exact(const char *from, size_t len)
{
	char *block = malloc(len ? len : 1);

	if (!block)
		abort();
	return len ? memcpy(block, from, len) : block;
}

/* What a case writes; it is run at every capacity from 0 up. */
typedef void writer(struct zn_out *o, const void *what);

static void check_output(writer *write, const void *what, const char *want, size_t len)
{
	for (size_t cap = 0; cap <= len + 1; cap++) {
		char *block = malloc(cap ? cap : 1);
		struct zn_out o = {.at = block, .cap = cap};

		write(&o, what);
		CHECK_EQ(o.full, cap < len);
		CHECK(o.len <= cap);
		if (cap >= len)
			CHECK_MEM(o.at, o.len, want, len);
		zn_out_bytes(&o, "x", cap < len ? 0 : cap - o.len + 1);
		CHECK(o.full);
		free(block);
	}
}

static void write_u64(struct zn_out *o, const void *what)
{
	zn_out_u64(o, *(const uint64_t *)what);
}

static void write_i64(struct zn_out *o, const void *what)
{
	zn_out_i64(o, *(const int64_t *)what);
}

static void check_u64(uint64_t v)
{
	char want[32];
	int len = snprintf(want, sizeof(want), "%" PRIu64, v);

	check_output(write_u64, &v, want, (size_t)len);
}

T(integers_around_each_power)
{
	static const int64_t some[] = {0, 1, -1, 42, -99, 100, INT64_MAX, INT64_MIN};
	uint64_t power = 1;

	for (int i = 0; i < 20; i++, power *= 10) {
		check_u64(power - 1);
		check_u64(power);
		check_u64(power + 1);
	}
	for (int i = 0; i < 64; i++)
		check_u64(1ULL << i);
	check_u64(UINT64_MAX);
	for (size_t i = 0; i < ZN_LEN(some); i++) {
		char want[32];
		int len = snprintf(want, sizeof(want), "%" PRId64, some[i]);

		check_output(write_i64, &some[i], want, (size_t)len);
	}
}

T(hexadecimal)
{
	static const struct {
		uint64_t v;
		int digits;
		const char *want;
	} rows[] = {{0, 4, "0000"}, {0x1f, 4, "001f"}, {0xabcdef, 2, "abcdef"}, {UINT64_MAX, 16, "ffffffffffffffff"},
		{1, 16, "0000000000000001"}, {1, 99, "0000000000000001"}, {7, 1, "7"}, {0, 1, "0"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char text[16];
		struct zn_out o = {.at = text, .cap = sizeof(text)};

		zn_out_hex(&o, rows[i].v, rows[i].digits);
		CHECK_MEM(text, o.len, rows[i].want, strlen(rows[i].want));
	}
}

struct scaled {
	uint64_t v;
	int decimals;
	const char *scaled;
	const char *decimal;
};

static void write_scaled(struct zn_out *o, const void *what)
{
	const struct scaled *row = what;

	zn_out_scaled(o, row->v, row->decimals);
}

static void write_decimal(struct zn_out *o, const void *what)
{
	const struct scaled *row = what;
	struct zn_json j;

	zn_json_begin(&j, o);
	zn_json_decimal(&j, row->v, row->decimals);
}

static void scaled_numbers(void)
{
	static const struct scaled rows[] = {
		{142500, 6, "0.1425", "0.1425"},
		{0, 0, "0", "0.0"},
		{0, 9, "0", "0.0"},
		{0, 19, "0", "0.0"},
		{7, 0, "7", "7.0"},
		{1420, 1, "142", "142.0"},
		{1000000000, 9, "1", "1.0"},
		{999999999, 9, "0.999999999", "0.999999999"},
		{1000000001, 9, "1.000000001", "1.000000001"},
		{1, 19, "0.0000000000000000001", "0.0000000000000000001"},
		{UINT64_MAX, 0, "18446744073709551615", "18446744073709551615.0"},
		{UINT64_MAX, 1, "1844674407370955161.5", "1844674407370955161.5"},
		{UINT64_MAX, 9, "18446744073.709551615", "18446744073.709551615"},
		{UINT64_MAX, 19, "1.8446744073709551615", "1.8446744073709551615"},
		{10000000000000000000u, 19, "1", "1.0"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].decimal);
		check_output(write_scaled, &rows[i], rows[i].scaled, strlen(rows[i].scaled));
		check_output(write_decimal, &rows[i], rows[i].decimal, strlen(rows[i].decimal));
	}
}

T(decimals_out_of_range_fill)
{
	char text[64];

	for (int i = 0; i < 2; i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};

		zn_out_scaled(&o, 1, i ? 20 : -1);
		CHECK(o.full);
		CHECK_EQ(o.len, 0);
	}
}

T(doubles_read_back)
{
	static const double rows[] = {0, -0.0, 1, -1, 0.1, 1.0 / 3, 1e300, 5e-324, 1.7976931348623157e308,
		123456789.125, 9007199254740993.0, 3.0000000000000004};
	char text[32];

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};

		zn_out_double(&o, rows[i]);
		CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
		CHECK(zn_json_number((struct zn_str){text, o.len}) == rows[i]);
	}
}

T(doubles_are_short)
{
	static const struct {
		double v;
		const char *want;
	} rows[] = {{5e-324, "5e-324"}, {1e-310, "1e-310"}, {0.1, "0.1"}, {1e22, "1e+22"},
		{0x1p-44, "5.684341886080802e-14"}, {-0x1p-44, "-5.684341886080802e-14"},
		{9007199254740993.0, "9007199254740992"}, {2.2250738585072014e-308, "2.2250738585072014e-308"}};
	char text[32];

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};

		zn_out_double(&o, rows[i].v);
		CHECK_MEM(text, o.len, rows[i].want, strlen(rows[i].want));
	}
}

T(doubles_that_json_lacks)
{
	static const struct {
		double v;
		const char *text;
	} rows[] = {{NAN, "NaN"}, {INFINITY, "+Inf"}, {-INFINITY, "-Inf"}};
	char text[32];

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};
		struct zn_json j;

		zn_out_double(&o, rows[i].v);
		CHECK_MEM(text, o.len, rows[i].text, strlen(rows[i].text));
		o.len = 0;
		zn_json_begin(&j, &o);
		zn_json_double(&j, rows[i].v);
		CHECK_MEM(text, o.len, "null", 4);
	}
}

#define FFFD "\xef\xbf\xbd"

static void write_utf8(struct zn_out *o, const void *what)
{
	const struct zn_str *s = what;

	zn_out_utf8(o, s->at, s->len);
}

static void utf8_texts(void)
{
	static const struct {
		const char *name;
		struct zn_str text, want;
	} rows[] = {
		{"ASCII and NUL", S("a\0z\x7f"), S("a\0z\x7f")},
		{"first and last of 2 bytes", S("\xc2\x80\xdf\xbf"), S("\xc2\x80\xdf\xbf")},
		{"first and last of 3 bytes", S("\xe0\xa0\x80\xef\xbf\xbf"), S("\xe0\xa0\x80\xef\xbf\xbf")},
		{"around the surrogates", S("\xed\x9f\xbf\xee\x80\x80"), S("\xed\x9f\xbf\xee\x80\x80")},
		{"first and last of 4 bytes", S("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
			S("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf")},
		{"overlong 2 bytes", S("\xc0\xaf\xc1\xbf"), S(FFFD FFFD FFFD FFFD)},
		{"overlong 3 bytes", S("\xe0\x9f\xbf"), S(FFFD FFFD FFFD)},
		{"overlong 4 bytes", S("\xf0\x8f\xbf\xbf"), S(FFFD FFFD FFFD FFFD)},
		{"surrogate", S("\xed\xa0\x80"), S(FFFD FFFD FFFD)},
		{"above U+10FFFF", S("\xf4\x90\x80\x80"), S(FFFD FFFD FFFD FFFD)},
		{"5 and 6 byte forms", S("\xf8\xfd\xff"), S(FFFD FFFD FFFD)},
		{"lone continuation", S("a\x80z"), S("a" FFFD "z")},
		{"cut at the end", S("a\xe2\x82"), S("a" FFFD FFFD)},
		{"cut by a letter", S("\xe2\x82z\xf0\x9f\x98"), S(FFFD FFFD "z" FFFD FFFD FFFD)},
		{"cut by a character", S("\xe2\xc3\xa9"), S(FFFD "\xc3\xa9")},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_str text = {exact(rows[i].text.at, rows[i].text.len), rows[i].text.len};

		t_begin(rows[i].name);
		check_output(write_utf8, &text, rows[i].want.at, rows[i].want.len);
		free((char *)text.at);
	}
}

/* Against the arithmetic of the encoding, not against the table. */
T(utf8_automaton_knows_each_code_point)
{
	size_t wrong = 0;

	for (uint32_t v = 0; v < 0x120000; v++) {
		uint8_t bytes[4] = {(uint8_t)(0xf0 | v >> 18), (uint8_t)(0x80 | (v >> 12 & 63)),
			(uint8_t)(0x80 | (v >> 6 & 63)), (uint8_t)(0x80 | (v & 63))};
		size_t from = v < 0x80 ? 3 : v < 0x800 ? 2 : v < 0x10000 ? 1 : 0;
		uint32_t state = 0;

		if (from == 3)
			bytes[3] = (uint8_t)v;
		else if (from)
			bytes[from] |= from == 2 ? 0xc0 : 0xe0;
		for (size_t i = from; i < 4; i++) {
			state = zn_utf8_step(state, bytes[i]);
			wrong += i < 3 && state == 0;
		}
		wrong += (state == 0) != (v < 0xd800 || (v > 0xdfff && v < 0x110000));
	}
	CHECK_EQ(wrong, 0);
	CHECK_EQ(zn_utf8_step(ZN_UTF8_BAD, 'a'), ZN_UTF8_BAD);
}

static void write_document(struct zn_out *o, const void *what)
{
	struct zn_json j;

	(void)what;
	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key(&j, "text");
	zn_json_text(&j, "q\" b\\ \b\f\n\r\t \x01 \x1f \x7f \xc3\xa9 \xff");
	zn_json_key(&j, "list");
	zn_json_open(&j, '[');
	zn_json_u64(&j, UINT64_MAX);
	zn_json_open(&j, '[');
	zn_json_close(&j, ']');
	zn_json_open(&j, '{');
	zn_json_key(&j, "a\"");
	zn_json_null(&j);
	zn_json_close(&j, '}');
	zn_json_bool(&j, true);
	zn_json_bool(&j, false);
	zn_json_scaled(&j, 1500, 3);
	zn_json_decimal(&j, 142, 0);
	zn_json_double(&j, 0.25);
	zn_json_close(&j, ']');
	zn_json_key(&j, "empty");
	zn_json_open(&j, '{');
	zn_json_close(&j, '}');
	zn_json_close(&j, '}');
}

T(writer_document)
{
	static const char want[] =
		"{\"text\":\"q\\\" b\\\\ \\b\\f\\n\\r\\t \\u0001 \\u001f \\u007f \xc3\xa9 " FFFD "\","
		"\"list\":[18446744073709551615,[],{\"a\\\"\":null},true,false,1.5,142.0,0.25],\"empty\":{}}";

	check_output(write_document, NULL, want, strlen(want));
	CHECK_EQ(zn_json_check(S(want)), 0);
}

static void write_text(struct zn_out *o, const void *what)
{
	struct zn_json j;

	zn_json_begin(&j, o);
	zn_json_bytes(&j, ((const struct zn_str *)what)->at, ((const struct zn_str *)what)->len);
}

/* What steers a terminal is written by its number, and read back as it was. */
static void control_characters(void)
{
	static const struct {
		const char *name;
		struct zn_str text, want;
	} rows[] = {
		{"first and last of C1", S("\xc2\x80-\xc2\x9f"), S("\"\\u0080-\\u009f\"")},
		{"one that begins a sequence", S("a\xc2\x9b[2J"), S("\"a\\u009b[2J\"")},
		{"around them", S("~\x7f\xc2\xa0\xc3\x9b"), S("\"~\\u007f\xc2\xa0\xc3\x9b\"")},
		{"no character", S("\x9b\xc2"), S("\"" FFFD FFFD "\"")},
		{"cut", S("\xc2\x9b\xc2"), S("\"\\u009b" FFFD "\"")},
	};
	char got[16];

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_str text = {exact(rows[i].text.at, rows[i].text.len), rows[i].text.len};

		t_begin(rows[i].name);
		check_output(write_text, &text, rows[i].want.at, rows[i].want.len);
		CHECK_EQ(zn_json_check(rows[i].want), 0);
		if (i < 3)
			CHECK_MEM(got, zn_json_string(rows[i].want, got, sizeof(got)), text.at, text.len);
		free((char *)text.at);
	}
}

T(writer_depth)
{
	char text[256];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_json j;

	zn_json_begin(&j, &o);
	for (int i = 0; i < 32; i++)
		zn_json_open(&j, '[');
	for (int i = 0; i < 32; i++) {
		zn_json_u64(&j, 1);
		zn_json_u64(&j, 2);
		zn_json_close(&j, ']');
	}
	CHECK(!o.full);
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	zn_json_close(&j, ']');
	CHECK(o.full);
	o = (struct zn_out){.at = text, .cap = sizeof(text)};
	zn_json_begin(&j, &o);
	for (int i = 0; i < 33; i++)
		zn_json_open(&j, '[');
	CHECK(o.full);
}

/* Items of growing size, their members named by the owner; every third writes nothing. */
static bool list_item(const void *owner, struct zn_json *j, uint32_t i)
{
	if (i >= 12)
		return false;
	if (i % 3 == 2)
		return true;
	zn_json_open(j, '{');
	for (uint32_t k = 0; k <= i; k++) {
		zn_json_key(j, owner);
		zn_json_u64(j, k);
	}
	zn_json_close(j, '}');
	return true;
}

static int count_of(struct zn_str list)
{
	struct zn_str key, value;
	size_t at = 0;
	int n = 0;

	while (zn_json_next(list, &at, &key, &value))
		n++;
	return n;
}

/* Two lists and a value that must be there. False: it was cut. */
static bool write_cut(struct zn_out *o)
{
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key(&j, "must");
	zn_json_u64(&j, 7);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "one", '[', list_item, "k\n");
	whole &= zn_json_list(&j, "two", '[', list_item, "k\n");
	zn_json_end(&j, whole);
	return whole && !o->full;
}

T(documents_cut_between_items)
{
	char whole[1024];
	struct zn_out o = {.at = whole, .cap = sizeof(whole)};
	size_t least = strlen("{\"must\":7") + ZN_JSON_END;
	int before = 0;

	CHECK(write_cut(&o));
	CHECK_EQ(zn_json_check((struct zn_str){whole, o.len}), 0);
	for (size_t cap = 0; cap <= o.len + ZN_JSON_END; cap++) {
		char *block = malloc(cap ? cap : 1);
		struct zn_out part = {.at = block, .cap = cap};
		bool all = write_cut(&part);
		struct zn_str text = {block, part.len};
		int one = count_of(zn_json_member(text, "one")), two = count_of(zn_json_member(text, "two"));

		CHECK_EQ(part.full, cap < least);
		CHECK(!all || (part.len == o.len && !memcmp(block, whole, o.len)));
		if (!part.full) {
			CHECK_EQ(part.cap, cap);
			CHECK_EQ(zn_json_check(text), 0);
			CHECK_EQ(zn_json_integer(zn_json_member(text, "must")), 7);
			CHECK_EQ(all, one + two == 16);
			CHECK_EQ(all, !zn_json_member(text, "truncated").len);
			CHECK(one >= before);
			before = one;
		}
		free(block);
	}
	CHECK_EQ(before, 8);
}

T(coming_back_to_a_mark)
{
	char text[16];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_json_mark mark;
	struct zn_json j;

	zn_json_begin(&j, &o);
	zn_json_open(&j, '[');
	mark = zn_json_mark(&j);
	zn_json_open(&j, '{');
	zn_json_key(&j, "longer than the room");
	CHECK(o.full);
	zn_json_back(&j, &mark);
	zn_json_u64(&j, 1);
	mark = zn_json_mark(&j);
	zn_json_text(&j, "longer than the room");
	zn_json_back(&j, &mark);
	zn_json_u64(&j, 2);
	zn_json_close(&j, ']');
	CHECK_MEM(text, o.len, "[1,2]", 5);
	CHECK(!o.full);
	o.full = true;
	mark = zn_json_mark(&j);
	zn_json_back(&j, &mark);
	CHECK(o.full);
}

T(process_name_of_all_bytes)
{
	char name[256], text[2048], back[1024];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_str whole;
	struct zn_json j;
	size_t len;

	for (int i = 0; i < 256; i++)
		name[i] = (char)i;
	zn_json_begin(&j, &o);
	zn_json_bytes(&j, name, sizeof(name));
	whole = (struct zn_str){text, o.len};
	CHECK(!o.full);
	CHECK_EQ(zn_json_check(whole), 0);
	len = zn_json_string(whole, back, sizeof(back));
	CHECK_EQ(len, 128 + 3 * 128);
	CHECK_MEM(back, 128, name, 128);
	for (size_t i = 128; i < len; i += 3)
		CHECK_MEM(back + i, 3, FFFD, 3);
}

#define DEEP_32 "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
#define UNDO_32 "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"

/* whole: a document of which no proper prefix is one too. */
static void documents(void)
{
	static const struct {
		const char *name;
		struct zn_str text;
		int want;
		bool whole;
	} rows[] = {
		{"empty", S(""), -EINVAL, 0},
		{"space only", S(" \t\r\n"), -EINVAL, 0},
		{"null", S(" null "), 0, 0},
		{"true", S("true"), 0, 1},
		{"false", S("false"), 0, 1},
		{"word with a tail", S("nullx"), -EINVAL, 0},
		{"upper case word", S("True"), -EINVAL, 0},
		{"NaN", S("NaN"), -EINVAL, 0},
		{"Infinity", S("-Infinity"), -EINVAL, 0},
		{"zero", S("0"), 0, 1},
		{"minus zero", S("-0"), 0, 1},
		{"every part of a number", S("[-12.340e+56]"), 0, 1},
		{"exponent without sign", S("[1E5,1e-5]"), 0, 1},
		{"leading zero", S("01"), -EINVAL, 0},
		{"plus", S("+1"), -EINVAL, 0},
		{"no whole part", S(".5"), -EINVAL, 0},
		{"no fraction", S("5."), -EINVAL, 0},
		{"no exponent", S("[5e]"), -EINVAL, 0},
		{"exponent of signs", S("[5e+-1]"), -EINVAL, 0},
		{"minus alone", S("-"), -EINVAL, 0},
		{"hexadecimal", S("0x10"), -EINVAL, 0},
		{"array", S("[1, \"a\" ,[],{} , null]"), 0, 1},
		{"object", S("{\"a\":1 , \"b\" : [true]}"), 0, 1},
		{"trailing comma in array", S("[1,]"), -EINVAL, 0},
		{"trailing comma in object", S("{\"a\":1,}"), -EINVAL, 0},
		{"leading comma", S("[,1]"), -EINVAL, 0},
		{"no comma", S("[1 2]"), -EINVAL, 0},
		{"no colon", S("{\"a\" 1}"), -EINVAL, 0},
		{"no value", S("{\"a\":}"), -EINVAL, 0},
		{"key not a string", S("{1:2}"), -EINVAL, 0},
		{"wrong bracket", S("[1}"), -EINVAL, 0},
		{"two documents", S("[] []"), -EINVAL, 0},
		{"comment", S("[/**/]"), -EINVAL, 0},
		{"byte order mark", S("\xef\xbb\xbf[]"), -EINVAL, 0},
		{"NUL after the end", S("[]\0"), -EINVAL, 0},
		{"vertical tab as space", S("[\v]"), -EINVAL, 0},
		{"escapes", S("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\uDE00\""), 0, 1},
		{"half a surrogate pair is grammar", S("\"\\ud800\""), 0, 1},
		{"unknown escape", S("\"\\x\""), -EINVAL, 0},
		{"short \\u", S("\"\\u12\""), -EINVAL, 0},
		{"no digit in \\u", S("\"\\u12g4\""), -EINVAL, 0},
		{"escaped quote at the end", S("\"a\\\""), -EINVAL, 0},
		{"escaped backslash at the end", S("\"a\\\\\""), 0, 1},
		{"quote alone", S("\""), -EINVAL, 0},
		{"newline in a string", S("\"\n\""), -EINVAL, 0},
		{"last control byte in a string", S("\"\x1f\""), -EINVAL, 0},
		{"NUL in a string", S("\"\0\""), -EINVAL, 0},
		{"DEL in a string", S("\"\x7f\""), 0, 1},
		{"4 byte character", S("\"\xf0\x9f\x98\x80\""), 0, 1},
		{"not UTF-8", S("\"\xff\""), -EINVAL, 0},
		{"cut UTF-8", S("\"\xe2\x82\""), -EINVAL, 0},
		{"surrogate in UTF-8", S("\"\xed\xa0\x80\""), -EINVAL, 0},
		{"64 deep", S(DEEP_32 DEEP_32 UNDO_32 UNDO_32), 0, 1},
		{"65 deep", S("[" DEEP_32 DEEP_32 UNDO_32 UNDO_32 "]"), -EINVAL, 0},
		{"open only", S(DEEP_32 DEEP_32 DEEP_32), -EINVAL, 0},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].name);
		for (size_t cut = 0; cut <= rows[i].text.len; cut++) {
			char *block = exact(rows[i].text.at, cut);
			int got = zn_json_check((struct zn_str){block, cut});

			if (cut == rows[i].text.len)
				CHECK_EQ(got, rows[i].want);
			else if (rows[i].whole)
				CHECK_EQ(got, -EINVAL);
			free(block);
		}
	}
}

static void check_slice(struct zn_str got, const char *want)
{
	CHECK_MEM(got.at, got.len, want, strlen(want));
}

T(reader_members)
{
	struct zn_str object = S(" { \"a\" : 1,\"ab\":[1, 2] , \"b\":{\"a\":\"x,}\"},\"a\":3,\"\":null } ");
	struct zn_str b = zn_json_member(object, "b");

	CHECK_EQ(zn_json_check(object), 0);
	check_slice(zn_json_member(object, "a"), "1");
	check_slice(zn_json_member(object, "ab"), "[1, 2]");
	check_slice(b, "{\"a\":\"x,}\"}");
	check_slice(zn_json_member(b, "a"), "\"x,}\"");
	check_slice(zn_json_member(object, ""), "null");
	CHECK_EQ(zn_json_member(object, "c").len, 0);
	CHECK_EQ(zn_json_member(S("[\"a\",1]"), "a").len, 0);
	CHECK_EQ(zn_json_member(S("[1]"), "").len, 0);
	CHECK_EQ(zn_json_member(S("7"), "a").len, 0);
	CHECK_EQ(zn_json_member((struct zn_str){0}, "a").len, 0);
}

T(reader_elements)
{
	static const char *const want[] = {"1", "\"]\"", "{}", "[2,[3]]", "null"};
	struct zn_str array = S("[1 , \"]\",{} ,[2,[3]], null ]"), key, value;
	size_t at = 0, n = 0;

	while (zn_json_next(array, &at, &key, &value) && n < ZN_LEN(want)) {
		CHECK_EQ(key.len, 0);
		check_slice(value, want[n++]);
	}
	CHECK_EQ(n, ZN_LEN(want));
	CHECK(!zn_json_next(array, &at, &key, &value));
	at = 0;
	CHECK(!zn_json_next(S("[]"), &at, &key, &value));
	CHECK(!zn_json_next(S(" { } "), &at, &key, &value));
	CHECK(!zn_json_next(S("\"[1]\""), &at, &key, &value));
	CHECK(zn_json_next(S("{\"k\":2}"), &at, &key, &value));
	check_slice(key, "k");
	check_slice(value, "2");
	at = 99;
	CHECK(!zn_json_next(array, &at, &key, &value));
}

static void numbers(void)
{
	static const struct {
		const char *text;
		double number;
		uint64_t integer;
	} rows[] = {
		{"0", 0, 0},
		{"18446744073709551615", 18446744073709551615.0, UINT64_MAX},
		{"18446744073709551616", 18446744073709551616.0, 0},
		{"99999999999999999999", 99999999999999999999.0, 0},
		{"-1", -1, 0},
		{"1.0", 1, 0},
		{"12.5e-1", 1.25, 0},
		{"1e2", 100, 0},
		{"1e999", 0, 0},
		{"1 ", 0, 0},
		{"", 0, 0},
		{"nan", 0, 0},
		{"0x10", 0, 0},
		{"007", 0, 0},
		{"\"5\"", 0, 0},
		{"0.00000000000000000000000000000000000000000000000000000000000001", 1e-62, 0},
		{"0.000000000000000000000000000000000000000000000000000000000000001", 0, 0},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		size_t len = strlen(rows[i].text);
		char *block = exact(rows[i].text, len);

		t_begin(len ? rows[i].text : "no number");
		CHECK(zn_json_number((struct zn_str){block, len}) == rows[i].number);
		CHECK_EQ(zn_json_integer((struct zn_str){block, len}), rows[i].integer);
		free(block);
	}
}

/* At every capacity the text ends with its NUL, between two characters, and no more than one of them was left
 * out. */
static void strings(void)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{"\"\"", ""},
		{"\"plain\"", "plain"},
		{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t"},
		{"\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
		{"\"\\ud800\"", FFFD},
		{"\"\\udc00x\"", FFFD "x"},
		{"\"\\ud800\\u0041\"", FFFD "A"},
		{"\"\\ud800\\ud800\\udc00\"", FFFD "\xf0\x90\x80\x80"},
		{"\"\\udc00\\udc00\"", FFFD FFFD},
		{"\"\\ud800\\ue000\"", FFFD "\xee\x80\x80"},
		{"\"\\udbff\\udfff\"", "\xf4\x8f\xbf\xbf"},
		{"\"open", ""},
		{"\"a\"b\"", ""},
		{"12", ""},
		{"", ""},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		size_t len = strlen(rows[i].text), full = strlen(rows[i].want);
		char *block = exact(rows[i].text, len);

		t_begin(len ? rows[i].text : "no string");
		CHECK_EQ(zn_json_string((struct zn_str){block, len}, NULL, 0), 0);
		for (size_t cap = 1; cap <= full + 1; cap++) {
			char *to = malloc(cap);
			size_t got = zn_json_string((struct zn_str){block, len}, to, cap);

			CHECK(got < cap && to[got] == '\0' && got + 4 >= cap);
			CHECK_MEM(to, got, rows[i].want, got);
			CHECK(((uint8_t)rows[i].want[got] & 0xc0) != 0x80);
			if (cap > full)
				CHECK_EQ(got, full);
			free(to);
		}
		free(block);
	}
}

int main(void)
{
	RUN(integers_around_each_power);
	RUN(hexadecimal);
	scaled_numbers();
	RUN(decimals_out_of_range_fill);
	RUN(doubles_read_back);
	RUN(doubles_are_short);
	RUN(doubles_that_json_lacks);
	utf8_texts();
	RUN(utf8_automaton_knows_each_code_point);
	RUN(writer_document);
	control_characters();
	RUN(writer_depth);
	RUN(documents_cut_between_items);
	RUN(coming_back_to_a_mark);
	RUN(process_name_of_all_bytes);
	documents();
	RUN(reader_members);
	RUN(reader_elements);
	numbers();
	strings();
	return t_end();
}
