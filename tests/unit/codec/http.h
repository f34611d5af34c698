/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http.h: requests cut at every byte, each part in a heap block of exactly its size, for the tests of http.c.
 */
#ifndef HTTP_H
#define HTTP_H

#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define S(text) ((struct zn_str){text, sizeof(text) - 1})

static inline int parse_part(struct zn_str text, size_t len, struct zn_http_req *req)
{
	char *block = malloc(len ? len : 1);
	int got;

	memcpy(block, text.at, len);
	got = zn_http_parse(block, len, req);
	free(block);
	return got;
}

#define G "GET / HTTP/1.1\r\n"

#define H "Host: n1:9091\r\n"

#define E  "\r\n"
#define L5 "Content-Length: 5\r\n"

/* "GET /aaa HTTP/1.1", with a target of that length, then a header that fills the head up to a total length.
 */
static inline struct zn_str sized(char *to, size_t target, size_t total)
{
	struct zn_out o = {.at = to, .cap = 65536};

	zn_out_text(&o, "GET /");
	memset(o.at + o.len, 'a', target - 1);
	o.len += target - 1;
	zn_out_text(&o, " HTTP/1.1\r\n" H);
	if (total) {
		zn_out_text(&o, "A: ");
		memset(o.at + o.len, 'b', total - 4 - o.len);
		o.len = total - 4;
		zn_out_text(&o, E);
	}
	zn_out_text(&o, E);
	return (struct zn_str){to, o.len};
}

#endif
