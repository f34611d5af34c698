/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_value_test.c: what is taken from a head (http_value.c): paths, queries, entity tags; tokens (http.c).
 */
#include <errno.h>

#include "http.h"

static void paths(void)
{
	static const struct {
		struct zn_str path;
		const char *want; /* "": refused */
	} rows[] = {
		{S("/"), "/"},
		{S("/metrics"), "/metrics"},
		{S("/a/b/"), "/a/b/"},
		{S("/%6detrics"), "/metrics"},
		{S("/%6D%65trics"), "/metrics"},
		{S("/%2565"), "/%65"},
		{S("/%252e%252e/a"), "/%2e%2e/a"},
		{S("/%25"), "/%"},
		{S("/a+b"), "/a+b"},
		{S("/%20%c3%a9%FF%0a"), "/ \xc3\xa9\xff\n"},
		{S("/%3f%23%5c"), "/?#\\"},
		{S("//"), "//"},
		{S("//a"), "//a"},
		{S("/a//b"), "/a//b"},

		{S("/."), "/"},
		{S("/./"), "/"},
		{S("/.."), "/"},
		{S("/../"), "/"},
		{S("/../../a"), "/a"},
		{S("/a/."), "/a/"},
		{S("/a/./b"), "/a/b"},
		{S("/a/.."), "/"},
		{S("/a/../"), "/"},
		{S("/a/../b"), "/b"},
		{S("/a/b/../c"), "/a/c"},
		{S("/a/b/../../../c"), "/c"},
		{S("/a//../b"), "/a/b"},
		{S("//.."), "/"},
		{S("/..//a"), "//a"},
		{S("/a/b/c/./../../g"), "/a/g"}, /* RFC 3986, 5.2.4 */
		{S("/%2e%2E/a"), "/a"},
		{S("/a/.%2e/b"), "/b"},
		{S("/a/%2e"), "/a/"},
		{S("/..."), "/..."},
		{S("/.../a"), "/.../a"},
		{S("/.a"), "/.a"},
		{S("/..a/b"), "/..a/b"},
		{S("/a./b"), "/a./b"},
		{S("/a../b"), "/a../b"},
		{S("/.;/a"), "/.;/a"},

		{S(""), ""},
		{S("*"), ""},
		{S("a/b"), ""},
		{S("%2fa"), ""},
		{S("/%2F"), ""},
		{S("/a%2fb"), ""},
		{S("/..%2fa"), ""},
		{S("/%00"), ""},
		{S("/a%00b"), ""},
		{S("/%"), ""},
		{S("/%4"), ""},
		{S("/%4g"), ""},
		{S("/%g4"), ""},
		{S("/%%41"), ""},
		{S("/% 1"), ""},
		{S("/%+1"), ""},
		{S("/%u0041"), ""},
		{S("/a\0b"), ""},
		{S("/0123456789012345678901234567890"), "/0123456789012345678901234567890"},
		{S("/01234567890123456789012345678901"), ""},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char *block = malloc(rows[i].path.len ? rows[i].path.len : 1), to[32];
		size_t len, want = strlen(rows[i].want);

		t_begin(rows[i].path.len ? rows[i].path.at : "no path");
		memcpy(block, rows[i].path.at, rows[i].path.len);
		len = zn_http_path((struct zn_str){block, rows[i].path.len}, to, sizeof(to));
		CHECK_MEM(to, len, rows[i].want, want);
		for (size_t cap = 0; cap < want; cap++) {
			char *room = malloc(cap ? cap : 1);

			CHECK_EQ(zn_http_path((struct zn_str){block, rows[i].path.len}, room, cap), 0);
			free(room);
		}
		free(block);
	}
}

static void queries(void)
{
	static const struct {
		struct zn_str query;
		const char *want; /* each pair as name=value; a '!' for one that is refused */
	} rows[] = {
		{S(""), ""},
		{S("a=b"), "a=b;"},
		{S("a=b&c=d"), "a=b;c=d;"},
		{S("a"), "a=;"},
		{S("a="), "a=;"},
		{S("=a"), "=a;"},
		{S("="), "=;"},
		{S("&"), ""},
		{S("&&a=b&&"), "a=b;"},
		{S("a=b=c"), "a=b=c;"},
		{S("a=b;c=d"), "a=b;c=d;"},
		{S("a+b=c+d"), "a b=c d;"},
		{S("a%2Bb=%26%3d"), "a+b=&=;"},
		{S("%61=%6a"), "a=j;"},
		{S("a=%252b"), "a=%2b;"},
		{S("a=1%2c2"), "a=1,2;"},
		{S("a=?b/c"), "a=?b/c;"},
		{S("a=%c3%a9"), "a=\xc3\xa9;"},
		{S("a=%"), "!"},
		{S("a=%4"), "!"},
		{S("a=%4g"), "!"},
		{S("%=a&b=c"), "!b=c;"},
		{S("a=%00"), "!"},
		{S("%00=a"), "!"},
		{S("a=b%4&1=c"), "!1=c;"},
		{S("a=\0"), "!"},
		{S("1234567=7654321"), "1234567=7654321;"},
		{S("12345678=1&a=b"), "!a=b;"},
		{S("a=12345678"), "!"},
		{S("%31%32%33%34%35%36%37=%31%32%33%34567"), "1234567=1234567;"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char *block = malloc(rows[i].query.len ? rows[i].query.len : 1), name[8], value[8], got[64];
		struct zn_str query = {block, rows[i].query.len};
		struct zn_out o = {.at = got, .cap = sizeof(got)};
		int pair;

		t_begin(rows[i].query.len ? rows[i].query.at : "no query");
		memcpy(block, rows[i].query.at, rows[i].query.len);
		while ((pair = zn_http_pair(&query, name, sizeof(name), value, sizeof(value)))) {
			CHECK(pair == 1 || pair == -EINVAL);
			zn_out_text(&o, pair == 1 ? name : "!");
			zn_out_text(&o, pair == 1 ? "=" : "");
			zn_out_text(&o, pair == 1 ? value : "");
			zn_out_text(&o, pair == 1 ? ";" : "");
		}
		CHECK_MEM(got, o.len, rows[i].want, strlen(rows[i].want));
		CHECK_EQ(query.len, 0);
		free(block);
	}
}

static void entity_tags(void)
{
	static const struct {
		struct zn_str list;
		const char *tag;
		bool want;
	} rows[] = {
		{S("\"a\""), "\"a\"", true},
		{S("W/\"a\""), "\"a\"", true},
		{S("\"a\""), "W/\"a\"", true},
		{S("W/\"a\""), "W/\"a\"", true},
		{S("\"b\""), "\"a\"", false},
		{S("\"A\""), "\"a\"", false},
		{S("w/\"a\""), "\"a\"", false},
		{S("*"), "\"a\"", true},
		{S(" * "), "\"a\"", true},
		{S("\"*\""), "\"a\"", false},
		{S("*, \"b\""), "\"a\"", false},
		{S("\"b\", \"a\""), "\"a\"", true},
		{S("\"b\",W/\"c\" ,\t\"a\""), "\"a\"", true},
		{S(",, \"a\" ,"), "\"a\"", true},
		{S("\"b,\\\", \"a\""), "\"a\"", true},
		{S("\"b\\\"a\""), "\"a\"", false},
		{S("\"\""), "\"\"", true},
		{S("\"\""), "\"a\"", false},
		{S("a"), "\"a\"", false},
		{S("a, \"a\""), "\"a\"", false},
		{S("\"a"), "\"a\"", false},
		{S("\""), "\"a\"", false},
		{S("W/"), "\"a\"", false},
		{S("W/a"), "\"a\"", false},
		{S("W"), "\"a\"", false},
		{S("\"ab\""), "\"a\"", false},
		{S("\"a\""), "\"ab\"", false},
		{S("\"a\"b, \"c\""), "\"c\"", false},
		{S("\"b\"\"a\""), "\"a\"", false},
		{S("\"a\""), "a", false},
		{S(""), "\"a\"", false},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char *block = malloc(rows[i].list.len ? rows[i].list.len : 1);

		t_begin(rows[i].list.len ? rows[i].list.at : "no tag");
		memcpy(block, rows[i].list.at, rows[i].list.len);
		CHECK_EQ(zn_http_etag_matches((struct zn_str){block, rows[i].list.len}, rows[i].tag), rows[i].want);
		free(block);
	}
	t_begin("no If-None-Match");
	CHECK(!zn_http_etag_matches((struct zn_str){0}, "\"a\""));
}

static void tokens(void)
{
	static const struct {
		struct zn_str value;
		bool want;
	} rows[] = {
		{S("close"), true},
		{S("CLOSE"), true},
		{S(" a,\tclose ,b"), true},
		{S(",,close"), true},
		{S(""), false},
		{S("clos"), false},
		{S("closer"), false},
		{S("a close"), false},
		{S("close;a"), false},
		{S("\"a,close\""), false},
		{S("\"\\\",close\""), false},
		{S("\"a\",close"), true},
		{S("\"close"), false},
		{S("\"\\"), false},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		t_begin(rows[i].value.len ? rows[i].value.at : "no token");
		CHECK_EQ(zn_http_has_token(rows[i].value, "close"), rows[i].want);
	}
}

int main(void)
{
	paths();
	queries();
	entity_tags();
	tokens();
	return t_end();
}
