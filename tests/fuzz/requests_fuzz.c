/* SPDX-License-Identifier: GPL-2.0 */
/*
 * requests_fuzz.c: any bytes as what a server receives and sends, in pieces of any size: no byte is read beyond them, a
 * request ends once if it begins, and there is never more than one at a time.
 */
#include <stdlib.h>

#include "zernel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static uint32_t moved(struct zn_request *c, const uint8_t *at, size_t n, bool sends, uint64_t now)
{
	struct zn_request_scratch *s = calloc(1, sizeof(*s));
	uint32_t effects;

	s->have = n;
	memcpy(s->bytes, at, n);
	s->last_len = n < ZN_LAST_CHUNK ? n : ZN_LAST_CHUNK;
	memcpy(s->last, at + n - s->last_len, s->last_len);
	if (sends)
		effects = c->protocol > ZN_PROTOCOL_HTTP1 + 1 ? 0 : zn_http1_sent(c, s, n, now);
	else
		effects = zn_http1_received(c, s, now);
	free(s);
	return effects;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct zn_request c = {0};
	bool open = false;
	uint64_t now = 1;

	while (len >= 2) {
		size_t n = (data[0] & 0x7f) + 1u;
		bool sends = data[0] & 0x80;
		uint32_t effects;

		data++;
		len--;
		n = n < len ? n : len;
		effects = moved(&c, data, n, sends, now++);
		check(!(effects & (ZN_DO_END | ZN_DO_LATE | ZN_DO_EVENT)) || open);
		if (effects & (ZN_DO_END | ZN_DO_LATE)) {
			check((uint32_t)zn_http1_code(&c) < ZN_OUTCOME_COUNT);
			c.state = ZN_REQUEST_IDLE;
			open = false;
		}
		if (effects & ZN_DO_BEGIN) {
			check(!open);
			zn_http1_begin(&c, now);
			open = true;
		}
		check(open == (c.state != ZN_REQUEST_IDLE));
		data += n;
		len -= n;
	}
	return 0;
}
