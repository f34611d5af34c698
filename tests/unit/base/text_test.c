/* SPDX-License-Identifier: GPL-2.0 */
/*
 * text_test.c: slices of text (text.c). What is written, and UTF-8, is for json_test.c.
 */
#include <stdlib.h>

#include "t.h"
#include "zernel.h"

#define S(text) ((struct zn_str){text, sizeof(text) - 1})

T(cut)
{
	struct zn_str text = S("a=b=c"), before;

	CHECK(zn_str_cut(&text, '=', &before));
	CHECK_MEM(before.at, before.len, "a", 1);
	CHECK_MEM(text.at, text.len, "b=c", 3);
	CHECK(!zn_str_cut(&text, ':', &before));
	CHECK_MEM(text.at, text.len, "b=c", 3); /* nothing was taken */
	text = S("=");
	CHECK(zn_str_cut(&text, '=', &before));
	CHECK_EQ(before.len, 0);
	CHECK_EQ(text.len, 0);
	CHECK(!zn_str_cut(&text, '=', &before));
}

/* Each item between two separators, empty ones too, the one at the end included. */
T(split)
{
	static const char *const want[] = {"a", "", "bc", ""};
	struct zn_str rest = S("a,;bc,"), item;
	size_t i = 0;

	for (; zn_str_split(&rest, ",;", &item); i++) {
		CHECK(i < ZN_LEN(want));
		CHECK_MEM(item.at, item.len, want[i], strlen(want[i]));
	}
	CHECK_EQ(i, ZN_LEN(want));
	CHECK(!zn_str_split(&rest, ",;", &item));
	rest = S("");
	CHECK(zn_str_split(&rest, ",", &item));
	CHECK_EQ(item.len, 0);
	CHECK(!zn_str_split(&rest, ",", &item));
}

T(trim)
{
	static const struct {
		struct zn_str text;
		const char *want;
	} rows[] = {{S(" \t a b \t"), "a b"}, {S("ab"), "ab"}, {S("   "), ""}, {S(""), ""}, {S("\0 a"), "\0 a"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		/* an exactly sized block, so that a look behind it is found */
		char *block = malloc(rows[i].text.len + !rows[i].text.len);
		struct zn_str got;

		memcpy(block, rows[i].text.at, rows[i].text.len);
		got = zn_str_trim((struct zn_str){block, rows[i].text.len}, " \t");
		CHECK_MEM(got.at, got.len, rows[i].want, i == 4 ? 3 : strlen(rows[i].want));
		free(block);
	}
}

T(compared)
{
	CHECK(zn_str_equal(S("ab"), S("ab")));
	CHECK(!zn_str_equal(S("ab"), S("abc")));
	CHECK(!zn_str_equal(S("ab"), S("aB")));
	CHECK(zn_str_equal((struct zn_str){0}, S("")));
	CHECK(zn_str_is(S("ab"), "ab"));
	CHECK(!zn_str_is(S("ab"), "a"));
	CHECK(zn_str_is((struct zn_str){0}, ""));
	CHECK(zn_str_is_nocase(S("Gzip"), "gZIP"));
	CHECK(!zn_str_is_nocase(S("gzip"), "gzi"));
	CHECK(!zn_str_is_nocase(S("["), "{")); /* they differ by the bit that letters differ by */
}

T(characters)
{
	static const char digits[] = "0123456789abcdef", capitals[] = "ABCDEF";

	CHECK(zn_str_is_one_of('b', "abc"));
	CHECK(!zn_str_is_one_of('d', "abc"));
	CHECK(!zn_str_is_one_of('\0', "abc"));
	for (int i = 0; digits[i]; i++)
		CHECK_EQ(zn_str_hex_digit(digits[i]), i);
	for (int i = 0; capitals[i]; i++)
		CHECK_EQ(zn_str_hex_digit(capitals[i]), 10 + i);
	CHECK_EQ(zn_str_hex_digit('g'), -1);
	CHECK_EQ(zn_str_hex_digit('/'), -1);
	CHECK_EQ(zn_str_hex_digit((char)0xff), -1);
}

/* As lists of mounts have them; never longer than before, and no NUL. */
T(unescaped)
{
	static const char *const texts[][2] = {{"", ""}, {"/plain", "/plain"}, {"/a\\040b\\134\\011", "/a b\\\t"},
		{"\\000x", "?x"}, {"\\377", "\377"}, {"\\400", "\\400"}, {"\\089", "\\089"}, {"\\04", "\\04"},
		{"\\", "\\"}, {"\\\\040", "\\ "}};

	for (size_t i = 0; i < ZN_LEN(texts); i++) {
		char *block = strdup(texts[i][0]);

		zn_str_unescape(block);
		CHECK_STR(block, texts[i][1]);
		free(block);
	}
}

/* The vectors of the authors, http://www.isthe.com/chongo/tech/comp/fnv/ */
T(hash)
{
	CHECK_EQ(zn_str_hash(S("")), 0xcbf29ce484222325ULL);
	CHECK_EQ(zn_str_hash(S("a")), 0xaf63dc4c8601ec8cULL);
	CHECK_EQ(zn_str_hash(S("foobar")), 0x85944171f73967e8ULL);
}

T(plain)
{
	char text[] = "a b~\x1b[2J\xc3\xa9\x7f\n", none[] = "";

	zn_str_plain(text);
	CHECK_STR(text, "a b~?[2J????");
	zn_str_plain(none);
	CHECK_STR(none, "");
}

int main(void)
{
	RUN(plain);
	RUN(cut);
	RUN(split);
	RUN(trim);
	RUN(compared);
	RUN(characters);
	RUN(unescaped);
	RUN(hash);
	return t_end();
}
