/* SPDX-License-Identifier: GPL-2.0 */
/* Lines and texts of CPython: tables as its compilers wrote them, cut at each byte, and texts of each width. */
#include "t.h"
#include "zernel.h"

#include <stdlib.h>

/* def f(): / return [1, / g(), / 2], in each form: what f_lineno said at the calls. Instructions are numbered from
 * 0. */
static const struct {
	const char *name;
	enum zn_pycode_lines form;
	uint8_t table[16];
	size_t len;
	int first, index, line;
} vectors[] = {
	{"pairs: before the first change", ZN_PYCODE_PAIRS, {0, 1, 2, 1, 6, 1}, 6, 10, 0, 11},
	{"pairs: between", ZN_PYCODE_PAIRS, {0, 1, 2, 1, 6, 1}, 6, 10, 1, 12},
	{"pairs: behind the last", ZN_PYCODE_PAIRS, {0, 1, 2, 1, 6, 1}, 6, 10, 4, 13},
	{"pairs: a line back", ZN_PYCODE_PAIRS, {2, 0xff}, 2, 10, 1, 9},
	{"pairs: not begun", ZN_PYCODE_PAIRS, {0, 1}, 2, 10, -1, 10},
	{"ranges: the first", ZN_PYCODE_RANGES, {4, 1, 4, 2}, 4, 10, 1, 11},
	{"ranges: the second", ZN_PYCODE_RANGES, {4, 1, 4, 2}, 4, 10, 2, 13},
	{"ranges: units of two bytes", ZN_PYCODE_RANGES, {4, 1, 4, 2}, 4, 10, 3, 13},
	{"ranges: no line", ZN_PYCODE_RANGES, {4, 0x80, 4, 2}, 4, 10, 0, ZN_PYCODE_NO_LINE},
	{"ranges: behind the end", ZN_PYCODE_RANGES, {4, 1, 4, 2}, 4, 10, 4, ZN_PYCODE_GONE},
	{"entries: short", ZN_PYCODE_ENTRIES, {0x80 | 3 << 3 | 1, 0x12}, 2, 10, 1, 10},
	{"entries: a line on", ZN_PYCODE_ENTRIES, {0x80 | 11 << 3 | 1, 4, 9, 0x80 | 12 << 3, 4, 9}, 6, 10, 2, 13},
	{"entries: long", ZN_PYCODE_ENTRIES, {0x80 | 14 << 3 | 7, 6, 0, 1, 2}, 5, 10, 7, 13},
	{"entries: long, back", ZN_PYCODE_ENTRIES, {0x80 | 14 << 3, 3, 0, 1, 2}, 5, 10, 0, 9},
	{"entries: two bytes of a number", ZN_PYCODE_ENTRIES, {0x80 | 13 << 3, 0x40, 2}, 3, 10, 0, 10 + 64},
	{"entries: none", ZN_PYCODE_ENTRIES, {0x80 | 15 << 3 | 1}, 1, 10, 1, ZN_PYCODE_NO_LINE},
	{"entries: behind the end", ZN_PYCODE_ENTRIES, {0x80 | 15 << 3 | 1}, 1, 10, 2, ZN_PYCODE_GONE},
	{"entries: no entry", ZN_PYCODE_ENTRIES, {0x11, 0x22}, 2, 10, 0, ZN_PYCODE_GONE},
	{"entries: far before the file", ZN_PYCODE_ENTRIES, {0x80 | 13 << 3, 0x7f, 0x7f, 0x3f}, 4, 1, 0,
		ZN_PYCODE_GONE},
	{"a first line that is none", ZN_PYCODE_PAIRS, {0, 1}, 2, -5, 1, ZN_PYCODE_GONE},
};

static uint8_t *exact(const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len ? len : 1);

	memcpy(copy, bytes, len);
	return copy;
}

static void lines(void)
{
	for (size_t i = 0; i < ZN_LEN(vectors); i++) {
		uint8_t *table = exact(vectors[i].table, vectors[i].len);

		t_begin(vectors[i].name);
		CHECK_EQ(zn_pycode_line(vectors[i].form, table, vectors[i].len, vectors[i].first, vectors[i].index),
			vectors[i].line);
		free(table);
		for (size_t len = 0; len < vectors[i].len; len++) {
			table = exact(vectors[i].table, len);
			CHECK(zn_pycode_line(vectors[i].form, table, len, vectors[i].first, vectors[i].index) >=
				ZN_PYCODE_GONE);
			free(table);
		}
	}
}

static const struct {
	const char *name;
	uint8_t bytes[16];
	size_t count;
	unsigned width;
	const char *text;
} texts[] = {
	{"ASCII", "train.py", 8, 1, "train.py"},
	{"Latin-1", {'a', 0xe4, 0xff}, 3, 1, "a\xc3\xa4\xc3\xbf"},
	{"two bytes", {0xac, 0x20, 'x', 0}, 2, 2, "\xe2\x82\xacx"},
	{"four bytes", {0x0d, 0xf4, 1, 0}, 1, 4, "\xf0\x9f\x90\x8d"},
	{"surrogates", {0x00, 0xd8}, 1, 2, "\xef\xbf\xbd"},
	{"behind the last", {0xff, 0xff, 0xff, 0xff}, 1, 4, "\xef\xbf\xbd"},
	{"control characters", {'a', '\n', 0x7f, 0x85}, 4, 1, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
};

static void characters(void)
{
	for (size_t i = 0; i < ZN_LEN(texts); i++) {
		uint8_t *bytes = exact(texts[i].bytes, texts[i].count * texts[i].width);
		char to[64];

		t_begin(texts[i].name);
		for (size_t cap = 0; cap <= strlen(texts[i].text); cap++) {
			struct zn_out o = {.at = to, .cap = cap};

			zn_pycode_text(&o, bytes, texts[i].count, texts[i].width);
			CHECK(o.len <= cap && !memcmp(to, texts[i].text, o.len));
			CHECK(o.full == (cap < strlen(texts[i].text)));
			CHECK(o.len == strlen(texts[i].text) || (texts[i].text[o.len] & 0xc0) != 0x80);
		}
		free(bytes);
	}
}

int main(void)
{
	lines();
	characters();
	return t_end();
}
