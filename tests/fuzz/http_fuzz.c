/* SPDX-License-Identifier: GPL-2.0 */
/*
 * http_fuzz.c: any bytes as a request. Every shorter part must ask for more or show the error of the whole,
 * and slices must lie within the head.
 */
#include <stdlib.h>

#include "../../json.c"
#include "../../http.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static int parse_part(const char *data, size_t len, struct zn_http_req *req)
{
	char *block = malloc(len ? len : 1);
	int got;

	memcpy(block, data, len);
	got = zn_http_parse(block, len, req);
	free(block);
	return got;
}

static void check_slices(const char *data, size_t used, const struct zn_http_req *req)
{
	const struct zn_str slices[] = {req->path, req->query, req->host, req->origin, req->authorization, req->ws_key,
		req->ws_version, req->ws_protocol};

	for (size_t i = 0; i < ZN_LEN(slices); i++)
		if (slices[i].at && !same(slices[i], "/"))
			check(slices[i].at >= data && slices[i].at + slices[i].len <= data + used);
	check(!req->http10 || !(req->keep_alive || req->upgrade || req->expect));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const char *text = (const char *)data;
	size_t step = len / 128 + 1;
	struct zn_http_req req, whole;
	int want = zn_http_parse(text, len, &whole), seen = 0;

	if (want > 0)
		check_slices(text, (size_t)want, &whole);
	check(want <= (int)len && want <= ZN_HTTP_HEAD_MAX);
	for (size_t cut = 0; cut < len; cut += step) {
		int got = parse_part(text, cut, &req);

		check(got == 0 || (got == want && (got < 0 || cut >= (size_t)want)));
		check(seen == 0 || got == seen);
		check(want <= 0 || cut < (size_t)want || got == want);
		seen = got;
	}
	return 0;
}
