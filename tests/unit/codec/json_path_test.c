/* SPDX-License-Identifier: GPL-2.0 */
/*
 * json_path_test.c: what lies at a path of keys in an object (json_path.c).
 */
#include "t.h"
#include "zernel.h"

static struct zn_str str(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

static const char object[] =
	"{\"a\":{\"b\":{\"c\":\"deep\"}},\"n\":12.5,\"t\":true,\"null\":null,\"s\":\"\",\"l\":[1,2],"
	"\"e\":\"\\u00e9\\n\",\"a.b\":1}";

static const struct {
	const char *path, *found, *text;
	bool known;
} rows[] = {
	{"a.b.c", "\"deep\"", "deep", true},
	{"a.b", "{\"c\":\"deep\"}", "-", true},
	{"n", "12.5", "12.5", true},
	{"t", "true", "true", true},
	{"null", "null", "-", false},
	{"s", "\"\"", "-", true},
	{"l", "[1,2]", "-", true},
	{"e", "\"\\u00e9\\n\"", "\xc3\xa9\n", true},
	{"x", "", "-", false},
	{"a.x", "", "-", false},
	{"n.x", "", "-", false},
	{"a.b.c.d", "", "-", false},
	{"a_key_that_is_longer_than_any_of_ours_is", "", "-", false},
};

static void paths(void)
{
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_str found = zn_path_find(str(object), rows[i].path);
		char text[64];

		t_begin(rows[i].path);
		CHECK_MEM(found.at, found.len, rows[i].found, strlen(rows[i].found));
		CHECK_EQ(zn_path_known(str(object), rows[i].path), rows[i].known);
		CHECK_STR(zn_path_text(str(object), rows[i].path, text, sizeof(text)), rows[i].text);
	}
}

T(the_value_itself)
{
	struct zn_str found = zn_path_find(str(object), "");

	CHECK_MEM(found.at, found.len, object, strlen(object));
}

/* A number is cut to the room there is; nothing is written behind it. */
T(little_room)
{
	char text[5] = "____";

	CHECK_STR(zn_path_text(str("{\"n\":123456}"), "n", text, 4), "123");
	CHECK_EQ(text[4], 0);
	CHECK_STR(zn_path_text(str("{\"n\":123456}"), "x", text, 2), "-");
}

int main(void)
{
	paths();
	RUN(the_value_itself);
	RUN(little_room);
	return t_end();
}
