/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gzip_fuzz.c: any bytes, repeated with a few that differ so that they fill several blocks, compressed into as little
 * room as any: zlib's own reader makes the same of it, no byte is written beyond the room, and what does not fit leaves
 * nothing.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "zernel.h"

#define HEAD 4 /* bytes at the beginning: times, what differs, how much less room there is */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_same(const char *packed, size_t packed_len, const char *bytes, size_t len)
{
	char *got = malloc(len + 1);
	z_stream z = {.next_in = (Bytef *)packed,
		.avail_in = (uInt)packed_len,
		.next_out = (Bytef *)got,
		.avail_out = (uInt)len + 1};

	check(inflateInit2(&z, 15 + 16) == Z_OK);
	check(inflate(&z, Z_FINISH) == Z_STREAM_END && !z.avail_in);
	check(z.total_out == len && !memcmp(got, bytes, len));
	inflateEnd(&z);
	free(got);
}

/* In a block of its own, so that a byte beyond it is seen. */
static size_t pack(const char *bytes, size_t len, size_t room)
{
	struct zn_out o = {.at = malloc(room ? room : 1), .cap = room};
	bool fits = zn_gzip(&o, bytes, len);

	check(fits ? o.len <= room : !o.len);
	if (fits)
		check_same(o.at, o.len, bytes, len);
	free(o.at);
	return o.len;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	size_t times = len > HEAD ? data[0] % 64 + 1u : 0, one = len - HEAD, whole = times * one, packed;
	char *bytes;

	if (!times)
		return 0;
	bytes = malloc(whole);
	for (size_t i = 0; i < times; i++) {
		memcpy(bytes + i * one, data + HEAD, one);
		bytes[i * one + data[1] * i % one] ^= (char)(data[2] + i);
	}
	packed = pack(bytes, whole, whole + whole / 8 + 256);
	check(packed > 0);
	check(pack(bytes, whole, packed) == packed);
	pack(bytes, whole, packed > data[3] ? packed - data[3] : 0);
	free(bytes);
	return 0;
}
