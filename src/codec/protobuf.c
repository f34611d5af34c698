/* SPDX-License-Identifier: GPL-2.0 */
/*
 * protobuf.c: writes the wire format of Protocol Buffers into a bounded buffer
 * (https://protobuf.dev/programming-guides/encoding/). Nothing is allocated. A nested message is written in place
 * behind one byte for its length; one of 128 bytes and more is moved a little when it ends, so that each length has its
 * shortest form.
 */
#include <string.h>

#include "zernel.h"

#define PROTO_VARINT_MAX 10 /* bytes */

enum wire { VARINT = 0, FIXED64 = 1, LENGTH = 2 };

void zn_protobuf_put(struct zn_out *o, uint64_t v)
{
	char bytes[PROTO_VARINT_MAX];
	size_t n = 0;

	for (; v >= 0x80; v >>= 7)
		bytes[n++] = (char)(v | 0x80);
	bytes[n++] = (char)v;
	zn_out_bytes(o, bytes, n);
}

void zn_protobuf_put_signed(struct zn_out *o, int64_t v)
{
	zn_protobuf_put(o, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_tag(struct zn_out *o, uint32_t field, enum wire wire)
{
	zn_protobuf_put(o, (uint64_t)field << 3 | wire);
}

void zn_protobuf_u64(struct zn_out *o, uint32_t field, uint64_t v)
{
	put_tag(o, field, VARINT);
	zn_protobuf_put(o, v);
}

void zn_protobuf_i64(struct zn_out *o, uint32_t field, int64_t v)
{
	put_tag(o, field, VARINT);
	zn_protobuf_put_signed(o, v);
}

void zn_protobuf_fixed64(struct zn_out *o, uint32_t field, uint64_t v)
{
	uint8_t bytes[8];

	put_tag(o, field, FIXED64);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(v >> 8 * i);
	zn_out_bytes(o, bytes, sizeof(bytes));
}

void zn_protobuf_double(struct zn_out *o, uint32_t field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	zn_protobuf_fixed64(o, field, bits);
}

size_t zn_protobuf_open(struct zn_out *o, uint32_t field)
{
	if (field)
		put_tag(o, field, LENGTH);
	zn_out_char(o, 0);
	return o->len;
}

void zn_protobuf_close(struct zn_out *o, size_t mark)
{
	char bytes[PROTO_VARINT_MAX];
	struct zn_out length = {.at = bytes, .cap = sizeof(bytes)};
	size_t len = o->len - mark;

	if (o->full)
		return;
	zn_protobuf_put(&length, len);
	zn_out_bytes(o, bytes, length.len - 1); /* room: what is written here is overwritten */
	if (o->full)
		return;
	memmove(o->at + mark - 1 + length.len, o->at + mark, len);
	memcpy(o->at + mark - 1, bytes, length.len);
}

void zn_protobuf_text(struct zn_out *o, uint32_t field, struct zn_str s)
{
	size_t mark = zn_protobuf_open(o, field);

	zn_out_utf8(o, s.at, s.len);
	zn_protobuf_close(o, mark);
}

void zn_protobuf_word(struct zn_out *o, uint32_t field, const char *word)
{
	zn_protobuf_text(o, field, (struct zn_str){word, strlen(word)});
}
