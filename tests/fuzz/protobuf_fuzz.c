/* SPDX-License-Identifier: GPL-2.0 */
/*
 * protobuf_fuzz.c: any bytes as a list of calls of the writer, into a buffer of any size. A reader of its own finds the
 * same calls in what was written; where the buffer was too small, nothing is beyond it.
 */
#include <stdlib.h>

#include "json.c"
#include "src/codec/protobuf.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define DEPTH_MAX 8
#define CALLS_MAX 512

/* What was called, in order; a message's end has field 0. */
static struct call {
	uint32_t field;
	enum wire wire;
	uint64_t v; /* of a text: where it is; 0: a message begins */
	size_t len; /* of a text */
} calls[CALLS_MAX];
static size_t call_count;

static void check(bool ok)
{
	if (!ok)
		abort();
}

static uint64_t take(const uint8_t **data, size_t *len, size_t bytes)
{
	uint64_t v = 0;

	for (; bytes && *len; bytes--, (*len)--)
		v = v << 8 | *(*data)++;
	return v;
}

static void note(uint32_t field, enum wire wire, uint64_t v, size_t len)
{
	calls[call_count++] = (struct call){field, wire, v, len};
}

static void write_calls(struct zn_out *o, const uint8_t *data, size_t len)
{
	size_t mark[DEPTH_MAX], depth = 0;

	while (len && call_count + DEPTH_MAX + 1 < CALLS_MAX) {
		uint32_t what = (uint32_t)take(&data, &len, 1), field = 1 + (uint32_t)take(&data, &len, 2);
		uint64_t v = what & 8 ? take(&data, &len, 8) : take(&data, &len, 1);

		if (what % 8 == 0 && depth < DEPTH_MAX) {
			mark[depth++] = zn_protobuf_open(o, field);
			note(field, LENGTH, 0, 0);
		} else if (what % 8 == 1 && depth) {
			zn_protobuf_close(o, mark[--depth]);
			note(0, LENGTH, 0, 0);
		} else if (what % 8 == 2) {
			size_t n = v % (len + 1);

			zn_protobuf_text(o, field, (struct zn_str){(const char *)data, n});
			note(field, LENGTH, (uintptr_t)data, n);
			data += n, len -= n;
		} else if (what % 8 == 3) {
			zn_protobuf_fixed64(o, field, v);
			note(field, FIXED64, v, 0);
		} else if (what % 8 == 4) {
			zn_protobuf_i64(o, field, (int64_t)v);
			note(field, VARINT, v << 1 ^ (uint64_t) - (int64_t)(v >> 63), 0);
		} else {
			zn_protobuf_u64(o, field, v);
			note(field, VARINT, v, 0);
		}
	}
	while (depth) {
		zn_protobuf_close(o, mark[--depth]);
		note(0, LENGTH, 0, 0);
	}
}

/* A varint in its shortest form. */
static uint64_t read_varint(const char *at, size_t end, size_t *pos)
{
	uint64_t v = 0;
	uint32_t shift = 0;

	for (;; shift += 7) {
		check(*pos < end && shift < 70);
		v |= (uint64_t)(at[*pos] & 0x7f) << shift;
		if (!(at[(*pos)++] & 0x80))
			break;
	}
	check(!shift || at[*pos - 1]);
	return v;
}

static void read_text(const struct zn_out *o, const struct call *c, size_t end, size_t *pos)
{
	static char text[1 << 17];
	struct zn_out want = {.at = text, .cap = sizeof(text)};
	size_t len = read_varint(o->at, end, pos);

	zn_out_utf8(&want, (const char *)(uintptr_t)c->v, c->len);
	check(!want.full && len == want.len && len <= end - *pos && !memcmp(o->at + *pos, text, len));
	*pos += len;
}

static void read_calls(const struct zn_out *o)
{
	size_t end[DEPTH_MAX + 1] = {o->len}, depth = 0, pos = 0;

	for (size_t i = 0; i < call_count; i++) {
		const struct call *c = &calls[i];
		uint64_t v = 0;

		if (!c->field) {
			check(pos == end[depth--]);
			continue;
		}
		check(read_varint(o->at, end[depth], &pos) == ((uint64_t)c->field << 3 | c->wire));
		if (c->wire == LENGTH && c->v) {
			read_text(o, c, end[depth], &pos);
		} else if (c->wire == LENGTH) {
			size_t len = read_varint(o->at, end[depth], &pos);

			check(len <= end[depth] - pos);
			end[++depth] = pos + len;
		} else if (c->wire == FIXED64) {
			check(end[depth] - pos >= 8);
			memcpy(&v, o->at + pos, 8);
			check(v == c->v);
			pos += 8;
		} else {
			check(read_varint(o->at, end[depth], &pos) == c->v);
		}
	}
	check(depth == 0 && pos == o->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	size_t cap = take(&data, &len, 2) + 1;
	struct zn_out o = {.at = malloc(cap), .cap = cap};

	call_count = 0;
	write_calls(&o, data, len);
	check(o.len <= cap);
	if (!o.full)
		read_calls(&o);
	free(o.at);
	return 0;
}
