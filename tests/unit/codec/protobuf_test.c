/* SPDX-License-Identifier: GPL-2.0 */
/*
 * protobuf_test.c: bytes of the wire format, by the examples and rules of its specification, and buffers that are too
 * small.
 */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static char room[1 << 16];

static struct zn_out fresh(void)
{
	return (struct zn_out){.at = room, .cap = sizeof(room)};
}

#define CHECK_WIRE(o, bytes) CHECK_MEM((o).at, (o).len, bytes, sizeof(bytes) - 1)

static const struct {
	const char *name;
	uint64_t v;
	const char *bytes;
	size_t len;
} varints[] = {
	{"0", 0, "\0", 1},
	{"1", 1, "\x01", 1},
	{"127", 127, "\x7f", 1},
	{"128", 128, "\x80\x01", 2},
	{"150", 150, "\x96\x01", 2},
	{"16383", 16383, "\xff\x7f", 2},
	{"16384", 16384, "\x80\x80\x01", 3},
	{"2^63", 1ULL << 63, "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 10},
	{"2^64 - 1", UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10},
};

static void varint_vectors(void)
{
	for (size_t i = 0; i < ZN_LEN(varints); i++) {
		struct zn_out o = fresh();

		t_begin(varints[i].name);
		zn_protobuf_put(&o, varints[i].v);
		CHECK_MEM(o.at, o.len, varints[i].bytes, varints[i].len);
		CHECK(!o.full);
	}
}

static const struct {
	const char *name;
	int64_t v;
	uint64_t zigzag;
} signs[] = {
	{"zigzag 0", 0, 0},
	{"zigzag -1", -1, 1},
	{"zigzag 1", 1, 2},
	{"zigzag -2", -2, 3},
	{"zigzag 2^31 - 1", 0x7fffffff, 0xfffffffe},
	{"zigzag -2^31", -0x80000000LL, 0xffffffff},
	{"zigzag 2^63 - 1", INT64_MAX, UINT64_MAX - 1},
	{"zigzag -2^63", INT64_MIN, UINT64_MAX},
};

static void zigzag_vectors(void)
{
	for (size_t i = 0; i < ZN_LEN(signs); i++) {
		struct zn_out o = fresh(), want = {.at = room + 100, .cap = 100};

		t_begin(signs[i].name);
		zn_protobuf_put_signed(&o, signs[i].v);
		zn_protobuf_put(&want, signs[i].zigzag);
		CHECK_MEM(o.at, o.len, want.at, want.len);
	}
}

T(fields)
{
	struct zn_out o = fresh();

	zn_protobuf_u64(&o, 1, 150);
	CHECK_WIRE(o, "\x08\x96\x01");
	o.len = 0;
	zn_protobuf_word(&o, 2, "testing");
	CHECK_WIRE(o, "\x12\x07testing");
	o.len = 0;
	zn_protobuf_double(&o, 3, 1);
	CHECK_WIRE(o, "\x19\0\0\0\0\0\0\xf0\x3f");
	o.len = 0;
	zn_protobuf_fixed64(&o, 4, 0x0102030405060708);
	CHECK_WIRE(o, "\x21\x08\x07\x06\x05\x04\x03\x02\x01");
	o.len = 0;
	zn_protobuf_i64(&o, 16, -1);
	CHECK_WIRE(o, "\x80\x01\x01");
	o.len = 0;
	zn_protobuf_word(&o, 1, "");
	CHECK_WIRE(o, "\x0a\0");
}

T(texts_are_utf8)
{
	struct zn_out o = fresh();

	zn_protobuf_text(&o, 1, (struct zn_str){"a\xff\0z", 4});
	CHECK_WIRE(o,
		"\x0a\x06"
		"a\xef\xbf\xbd\0z");
}

T(nested_messages)
{
	struct zn_out o = fresh();
	size_t outer = zn_protobuf_open(&o, 3), inner;

	zn_protobuf_u64(&o, 1, 150);
	inner = zn_protobuf_open(&o, 2);
	zn_protobuf_close(&o, inner);
	zn_protobuf_close(&o, outer);
	CHECK_WIRE(o, "\x1a\x05\x08\x96\x01\x12\0");
	o.len = 0;
	outer = zn_protobuf_open(&o, 6); /* packed */
	zn_protobuf_put(&o, 3);
	zn_protobuf_put(&o, 270);
	zn_protobuf_put(&o, 86942);
	zn_protobuf_close(&o, outer);
	CHECK_WIRE(o, "\x32\x06\x03\x8e\x02\x9e\xa7\x05");
	o.len = 0;
	outer = zn_protobuf_open(&o, 0); /* delimited */
	zn_protobuf_u64(&o, 1, 1);
	zn_protobuf_close(&o, outer);
	CHECK_WIRE(o, "\x02\x08\x01");
}

/* Lengths around those where one more byte is needed, with something after the message. */
T(long_messages_are_moved)
{
	static const size_t sizes[] = {126, 127, 128, 129, 16383, 16384, 16385, 40000};

	for (size_t i = 0; i < ZN_LEN(sizes); i++) {
		struct zn_out o = fresh(), want = {.at = (char[16]){0}, .cap = 16};
		size_t mark = zn_protobuf_open(&o, 1), head;

		for (size_t k = 0; k < sizes[i]; k++)
			zn_out_char(&o, (char)(k * 7));
		zn_protobuf_close(&o, mark);
		zn_protobuf_u64(&o, 2, 5);
		zn_protobuf_put(&want, 0x0a);
		zn_protobuf_put(&want, sizes[i]);
		head = want.len;
		CHECK_MEM(o.at, head, want.at, head);
		CHECK_EQ(o.len, head + sizes[i] + 2);
		for (size_t k = 0; k < sizes[i]; k++)
			if (o.at[head + k] != (char)(k * 7)) {
				T_FAIL("byte %zu of %zu", k, sizes[i]);
				break;
			}
		CHECK_MEM(o.at + head + sizes[i], 2, "\x10\x05", 2);
	}
}

static void write_something(struct zn_out *o)
{
	size_t outer = zn_protobuf_open(o, 1), inner = zn_protobuf_open(o, 200);

	for (uint64_t i = 0; i < 40; i++)
		zn_protobuf_u64(o, 3, i << i);
	zn_protobuf_close(o, inner);
	zn_protobuf_double(o, 4, 0.1);
	zn_protobuf_word(o, 5, "text");
	zn_protobuf_close(o, outer);
}

/* Exactly as much room as there is, from a block of its own: what does not fit is not written, and it says so. */
T(too_little_room)
{
	struct zn_out whole = fresh();

	write_something(&whole);
	CHECK(!whole.full && whole.len > 128);
	for (size_t cap = 0; cap <= whole.len; cap++) {
		struct zn_out o = {.at = malloc(cap ? cap : 1), .cap = cap};

		write_something(&o);
		CHECK_EQ(o.full, cap < whole.len);
		CHECK(o.len <= cap);
		if (!o.full)
			CHECK_MEM(o.at, o.len, whole.at, whole.len);
		free(o.at);
	}
}

int main(void)
{
	varint_vectors();
	zigzag_vectors();
	RUN(fields);
	RUN(texts_are_utf8);
	RUN(nested_messages);
	RUN(long_messages_are_moved);
	RUN(too_little_room);
	return t_end();
}
