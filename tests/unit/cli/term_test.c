/* SPDX-License-Identifier: GPL-2.0 */
/* term_test.c: whatever is put, what comes out moves no cursor, and takes the columns that it says. */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static char text[4096];
static struct zn_term t;

static void begin(int cols)
{
	t = (struct zn_term){.out = {.at = text, .cap = sizeof(text) - 1}, .cols = cols};
	zn_term_begin(&t);
	t.out.len = 0;
}

static const char *written(void)
{
	text[t.out.len] = 0;
	return text;
}

static const struct {
	const char *put, *shown;
	int columns;
} texts[] = {
	{"plain", "plain", 5},
	{"\033[2J\r\n\t\b\a\177", "?[2J??????", 10},
	{"\302\233"
	 "31m",
		"?31m", 4},                  /* CSI as one character of the upper half */
	{"a\314\201", "a\314\201", 1},       /* an accent takes no column */
	{"\344\270\255", "\344\270\255", 2}, /* a wide one takes two */
	{"\342\200\256x", "?x", 2},          /* turns the direction around */
	{"\357\273\277", "?", 1},            /* takes no place */
	{"\300\257", "??", 2},               /* no UTF-8: overlong */
	{"\355\240\200", "???", 3},          /* a surrogate */
	{"\364\220\200\200", "????", 4},     /* beyond the last one */
	{"\342\202", "??", 2},               /* cut */
	{"\377", "?", 1},
	{"", "", 0},
};

T(hostile_texts)
{
	for (size_t i = 0; i < ZN_LEN(texts); i++) {
		char *block = strdup(texts[i].put); /* read past its end, ASan says so */

		begin(120);
		zn_term_put(&t, block);
		CHECK_STR(written(), texts[i].shown);
		CHECK_EQ(t.col, texts[i].columns);
		CHECK_EQ(zn_term_columns(block), texts[i].columns);
		free(block);
	}
}

/* Each byte on its own, and before and behind a letter. */
T(no_byte_is_a_control)
{
	for (int b = 1; b < 256; b++) {
		char put[] = {'a', (char)b, 'b', 0};
		const char *got;

		begin(120);
		zn_term_put(&t, put);
		got = written();
		for (const char *at = got; *at; at++)
			CHECK((unsigned char)*at >= 0x20 && *at != 0x7f);
		CHECK_EQ(strlen(got), 3);
	}
}

T(cut_at_the_edge)
{
	begin(4);
	zn_term_put(&t, "abc\344\270\255x"); /* the wide one has no room, and what follows is left out too */
	CHECK_STR(written(), "abc");
	zn_term_put(&t, "y");
	CHECK_STR(written(), "abc");
	zn_term_end(&t);
	zn_term_put(&t, "next");
	CHECK_STR(written(), "abc\nnext");
}

T(cells)
{
	begin(20);
	zn_term_cell(&t, "ab", 4);
	zn_term_cell(&t, "cd", -4);
	zn_term_cell(&t, "too long", 3);
	zn_term_put(&t, "|");
	CHECK_STR(written(), "ab    cdtoo|");
	begin(5);
	zn_term_cell(&t, "ab", 4);
	zn_term_cell(&t, "cd", 4);
	CHECK_STR(written(), "ab  c");
}

T(a_full_buffer_is_no_error_of_memory)
{
	char small[8];

	t = (struct zn_term){.out = {.at = small, .cap = sizeof(small)}, .cols = 100, .screen = true};
	zn_term_begin(&t);
	for (int i = 0; i < 100; i++)
		zn_term_put(&t, "\344\270\255");
	CHECK(t.out.full && t.out.len <= sizeof(small));
}

T(breaks)
{
	CHECK_EQ(zn_term_break("", 10), 0);
	CHECK_EQ(zn_term_break("short", 10), 5);
	CHECK_EQ(zn_term_break("two words", 5), 3);
	CHECK_EQ(zn_term_break("unbroken", 5), 5);
	CHECK_EQ(zn_term_break("\344\270\255", 1), 3); /* at least one character, or the caller would not get on */
	CHECK_EQ(zn_term_break("\377\377", 1), 1);
}

int main(void)
{
	RUN(hostile_texts);
	RUN(no_byte_is_a_control);
	RUN(cut_at_the_edge);
	RUN(cells);
	RUN(a_full_buffer_is_no_error_of_memory);
	RUN(breaks);
	return t_end();
}
