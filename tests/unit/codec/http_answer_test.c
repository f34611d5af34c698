/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_answer_test.c: heads of answers (http_answer.c): status, reasons, dates.
 */
#include <time.h>

#include "http.h"

static void answers(void)
{
	static const struct {
		const char *name;
		struct zn_http_res res;
		const char *want;
	} rows[] = {
		{"200", {.status = 200, .type = "text/plain", .length = 12, .date_s = 784111777},
			"HTTP/1.1 200 OK\r\nServer: zerneld\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
			"Content-Type: text/plain\r\nContent-Length: 12\r\n\r\n"},
		{"405", {.status = 405, .extra = "Allow: GET, HEAD\r\n", .close = true, .date_s = -1},
			"HTTP/1.1 405 Method Not Allowed\r\nServer: zerneld\r\nContent-Length: 0\r\n"
			"Connection: close\r\nAllow: GET, HEAD\r\n\r\n"},
		{"keep-alive", {.status = 200, .length = 3, .keep_alive = true, .date_s = -1},
			"HTTP/1.1 200 OK\r\nServer: zerneld\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\n"},
		{"close before keep-alive", {.status = 200, .close = true, .keep_alive = true, .date_s = -1},
			"HTTP/1.1 200 OK\r\nServer: zerneld\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"},
		{"100", {.status = 100, .length = 1, .date_s = -1}, "HTTP/1.1 100 Continue\r\nServer: zerneld\r\n\r\n"},
		{"204", {.status = 204, .length = 1, .date_s = -1},
			"HTTP/1.1 204 No Content\r\nServer: zerneld\r\n\r\n"},
		{"304", {.status = 304, .extra = "ETag: \"a\"\r\n", .length = 9, .date_s = -1},
			"HTTP/1.1 304 Not Modified\r\nServer: zerneld\r\nETag: \"a\"\r\n\r\n"},
		{"101", {.status = 101, .extra = "Connection: Upgrade\r\n", .no_length = true, .date_s = 0},
			"HTTP/1.1 101 Switching Protocols\r\nServer: zerneld\r\n"
			"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: Upgrade\r\n\r\n"},
		{"longest", {.status = 999, .length = UINT64_MAX, .date_s = INT64_MAX},
			"HTTP/1.1 999 Unknown\r\nServer: zerneld\r\nContent-Length: "
			"18446744073709551615\r\n\r\n"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		size_t len = strlen(rows[i].want);

		t_begin(rows[i].name);
		for (size_t cap = 0; cap <= len; cap++) {
			char *block = malloc(cap ? cap : 1);
			struct zn_out o = {.at = block, .cap = cap};

			zn_http_head(&o, &rows[i].res);
			CHECK_EQ(o.full, cap < len);
			if (cap == len)
				CHECK_MEM(block, o.len, rows[i].want, len);
			free(block);
		}
	}
}

/* Each status that is counted has a name of its own. */
T(reasons)
{
	static const int codes[] = {
#define X(code) code,
		ZN_CODES(X)
#undef X
	};

	for (size_t i = 0; i < ZN_LEN(codes); i++)
		CHECK(strcmp(zn_http_reason(codes[i]), "Unknown"));
}

/* Against the C library: a step of 25 h 1 min 1 s over four centuries, and the last second that has a date.
 */
T(dates)
{
	time_t last = 253402300799;

	for (time_t s = 0; s <= last; s = s < 12622780800 ? s + 90061 : s == last ? s + 1 : last) {
		struct zn_http_res res = {.status = 204, .no_length = true, .date_s = s};
		char want[128], got[128];
		struct zn_out o = {.at = got, .cap = sizeof(got)};
		struct tm tm;
		size_t len = strftime(want, sizeof(want),
			"HTTP/1.1 204 No Content\r\nServer: zerneld\r\nDate: %a, %d %b %Y %H:%M:%S "
			"GMT\r\n\r\n",
			gmtime_r(&s, &tm));

		zn_http_head(&o, &res);
		CHECK_MEM(got, o.len, want, len);
	}
}

int main(void)
{
	answers();
	RUN(reasons);
	RUN(dates);
	return t_end();
}
