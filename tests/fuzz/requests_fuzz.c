/* SPDX-License-Identifier: GPL-2.0 */
/*
 * requests_fuzz.c: any bytes as what a server receives and sends, in pieces of any size: no byte is read beyond them, a
 * request ends once if it begins, and there is never more than one at a time. The same bytes as frames of HTTP/2: a
 * frame that ends has no bytes left, and it does not matter where they are cut. Nor does it for the head of an answer.
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

/* As bpf/http2.bpf.h walks them. */
static void walk_frames(struct zn_request *c, struct zn_request *r, const uint8_t *at, size_t len, bool sends)
{
	struct zn_h2_side *d = &c->h2.side[sends];

	while (len && !c->broken) {
		uint32_t look = zn_h2_look(d, sends), left = d->left, effects;
		size_t n = look ? look : left;
		struct zn_request_scratch s = {0};

		check(look <= ZN_H2_PART && n);
		n = n < len ? n : len;
		if (look)
			memcpy(s.bytes, at, s.have = n);
		effects = zn_h2_feed(c, &s, n, sends);
		check(d->have <= ZN_H2_HEAD && d->want <= ZN_H2_HEAD);
		check(!(effects & ZN_H2_ENDS) || !d->left);
		if (sends && effects & ZN_H2_BEGINS && d->head[3] == ZN_H2_DATA)
			zn_h2_is_event(r, d);
		if (sends && effects & ZN_H2_ENDS && zn_h2_is_block(d))
			zn_h2_answered(r, &c->h2.block, zn_h2_is_last(r, d));
		check((uint32_t)zn_h2_code(r) < ZN_OUTCOME_COUNT);
		check(c->h2.block.next < ZN_H2_KNOWN);
		if (effects & ZN_H2_ENDS)
			zn_h2_next(d);
		c->broken = effects & ZN_H2_BROKEN;
		at += n;
		len -= n;
	}
}

static void try_frames(const uint8_t *data, size_t len)
{
	struct zn_request_scratch s = {.bytes = "PRI * "};
	struct zn_request c = {0}, r = {0}, cut, of_cut = {0};

	s.bytes[0] = len & 1 ? 'P' : 0;
	zn_h2_init(&c, &s, 1);
	cut = c;
	while (len >= 2) {
		size_t n = (data[0] & 0x7f) + 1u;

		n = n < len - 1 ? n : len - 1;
		walk_frames(&c, &r, data + 1, n, data[0] & 0x80);
		for (size_t i = 1; i <= n; i++)
			walk_frames(&cut, &of_cut, data + i, 1, data[0] & 0x80);
		check(c.broken == cut.broken);
		check(c.broken || (memcmp(&c.h2, &cut.h2, sizeof(c.h2)) == 0 && memcmp(&r, &of_cut, sizeof(r)) == 0));
		data += n + 1;
		len -= n + 1;
	}
}

/* The head of an answer is read alike, whole or byte by byte. */
static void try_head(const uint8_t *data, size_t len)
{
	struct zn_request_scratch s = {.have = len < ZN_REQUEST_BYTES ? (uint32_t)len : ZN_REQUEST_BYTES},
				  one = {.have = 1};
	struct zn_request c = {0}, cut = {0};
	uint32_t at = 0, of_cut = 0;

	memcpy(s.bytes, data, s.have);
	at = (uint32_t)zn_http1_head(&c, &s);
	if (at < s.have && c.head < ZN_HEAD_DONE)
		return; /* too many lines */
	while (of_cut < s.have && cut.head < ZN_HEAD_DONE) {
		one.bytes[0] = data[of_cut];
		of_cut += (uint32_t)zn_http1_head(&cut, &one);
	}
	check(at == of_cut && c.head == cut.head && c.status == cut.status);
	check(c.length == cut.length && c.flags == cut.flags);
	check(c.field == cut.field || (c.field <= ZN_FIELD_OTHER && cut.field <= ZN_FIELD_OTHER));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct zn_request c = {0};
	bool open = false;
	uint64_t now = 1;

	try_frames(data, len);
	try_head(data, len);
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
