/* SPDX-License-Identifier: GPL-2.0 */
/*
 * url_test.c: URLs of the scheme http (url.c), each from a block of exactly its size.
 */
#include <errno.h>
#include <stdlib.h>

#include "t.h"
#include "zernel.h"

static const struct {
	const char *text, *host, *target, *basic; /* host NULL: it is none */
	unsigned port;
	bool v6;
} rows[] = {
	{"http://node7", "node7", "", "", 80, 0},
	{"HTTP://node7:9093", "node7", "", "", 9093, 0},
	{"http://10.0.0.1:1/", "10.0.0.1", "/", "", 1, 0},
	{"http://a_b.example:65535/x/y?z=1&w", "a_b.example", "/x/y?z=1&w", "", 65535, 0},
	{"http://node7?x", "node7", "/?x", "", 80, 0},
	{"http://[::1]:9093/a", "::1", "/a", "", 9093, 1},
	{"http://user:pass@node7/", "node7", "/", "dXNlcjpwYXNz", 80, 0},
	{"http://u:p%40%3a@node7", "node7", "", "dTpwQDo=", 80, 0},
	{"http://u:@[::1]", "::1", "", "dTo=", 80, 1},
	{"https://node7", NULL, "", "", 0, 0},
	{"node7:9093", NULL, "", "", 0, 0},
	{"http://", NULL, "", "", 0, 0},
	{"http:///x", NULL, "", "", 0, 0},
	{"http://:80", NULL, "", "", 0, 0},
	{"http://node7:", NULL, "", "", 0, 0},
	{"http://node7:0", NULL, "", "", 0, 0},
	{"http://node7:65536", NULL, "", "", 0, 0},
	{"http://node7:000080", NULL, "", "", 0, 0},
	{"http://node7:8a", NULL, "", "", 0, 0},
	{"http://.node7", NULL, "", "", 0, 0},
	{"http://a..b", NULL, "", "", 0, 0},
	{"http://a b/", NULL, "", "", 0, 0},
	{"http://a/b\r\nHost: c", NULL, "", "", 0, 0},
	{"http://a/#b", NULL, "", "", 0, 0},
	{"http://[::1", NULL, "", "", 0, 0},
	{"http://[node7]", NULL, "", "", 0, 0},
	{"http://[::1]x", NULL, "", "", 0, 0},
	{"http://user@node7", NULL, "", "", 0, 0},
	{"http://:pass@node7", NULL, "", "", 0, 0},
	{"http://u:p@v:q@node7", NULL, "", "", 0, 0},
	{"http://u:p%4@node7", NULL, "", "", 0, 0},
	{"http://u:p%zz@node7", NULL, "", "", 0, 0},
};

static void urls(void)
{
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		size_t len = strlen(rows[i].text);
		char *block = malloc(len);
		struct zn_url u;

		t_begin(rows[i].text);
		memcpy(block, rows[i].text, len);
		CHECK_EQ(zn_url_read(&u, (struct zn_str){block, len}), rows[i].host ? 0 : -EINVAL);
		free(block);
		if (!rows[i].host)
			continue;
		CHECK_STR(u.host, rows[i].host);
		CHECK_STR(u.target, rows[i].target);
		CHECK_STR(u.basic, rows[i].basic);
		CHECK_EQ(u.port, rows[i].port);
		CHECK_EQ(u.v6, rows[i].v6);
	}
}

/* As long as may be, and one byte more. */
T(lengths)
{
	char text[2 * ZN_TEXT_MAX];
	struct zn_url u;

	for (size_t len = ZN_TEXT_MAX - 1; len <= ZN_TEXT_MAX; len++) {
		memset(text, 'a', sizeof(text));
		memcpy(text, "http://h/", 9);
		CHECK_EQ(zn_url_read(&u, (struct zn_str){text, len}), len < ZN_TEXT_MAX ? 0 : -EINVAL);
	}
	memset(text, 'a', sizeof(text));
	memcpy(text, "http://u:", 9);
	memcpy(text + ZN_TEXT_MAX - 3, "@h", 2);
	CHECK_EQ(zn_url_read(&u, (struct zn_str){text, ZN_TEXT_MAX - 1}), 0);
	CHECK_EQ(strlen(u.basic), (ZN_TEXT_MAX - 3 - 7 + 2) / 3 * 4);
}

int main(void)
{
	urls();
	RUN(lengths);
	return t_end();
}
