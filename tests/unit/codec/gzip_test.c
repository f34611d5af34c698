/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gzip_test.c: what gzip.c makes is read back with zlib's own reader, from blocks of exactly its size.
 */
#include <stdlib.h>
#include <zlib.h>

#include "noise.h"
#include "t.h"
#include "zernel.h"

/* Text like that of metrics: repetitive, with figures that differ. */
static char *metrics_like(size_t len)
{
	char *text = malloc(len + 128);

	for (size_t at = 0, i = 0; at < len; i++)
		at += (size_t)sprintf(text + at, "zernel_cuda_launches_total{pid=\"%zu\"} %zu\n", 1000 + i % 64,
			i * 2654435761u % 1000003);
	return text;
}

static char *one_byte(size_t len)
{
	return memset(malloc(len + 1), 'a', len);
}

/* Each byte is half as frequent as the one before it: as many bits as there are bytes, if a code could have them. */
static char *steep(size_t len)
{
	char *bytes = noise(len);

	for (size_t i = 0, v = 1; i < len; i++) {
		v = v * 6364136223846793005 + 1442695040888963407;
		bytes[i] = (char)(__builtin_ctzll(v >> 33 | 1ULL << 30) * 7);
	}
	return bytes;
}

/* Noise that comes again as far behind as the format can say, and one byte farther. */
static char *comes_again(size_t len, size_t behind)
{
	char *bytes = noise(len);

	for (size_t i = behind; i < len; i++)
		if (i % behind < 300)
			bytes[i] = bytes[i - behind];
	return bytes;
}

static char *far(size_t len)
{
	return comes_again(len, 32768);
}

static char *too_far(size_t len)
{
	return comes_again(len, 32769);
}

/* The same at all distances and of all lengths. */
static char *all_lengths(size_t len)
{
	char *bytes = noise(len);

	for (size_t at = 300, same = 4; at + 4 * same < len; at += same + 1, same = same < 300 ? same + 1 : 4)
		memcpy(bytes + at, bytes + at - same - at / 7 % (at - same + 1) % 3000, same);
	return bytes;
}

/* Compresses into a block of `cap` bytes of which `before` are in use; the bytes added, 0 if it did not fit. */
static size_t pack(char *to, size_t before, size_t cap, const char *bytes, size_t len)
{
	struct zn_out o = {.at = to, .cap = cap, .len = before};
	bool fits = zn_gzip(&o, bytes, len);

	CHECK(!o.full);
	CHECK(fits || o.len == before);
	return fits ? o.len - before : 0;
}

static void check_unpacks(const char *packed, size_t packed_len, const char *want, size_t want_len)
{
	char *got = malloc(want_len + 1);
	z_stream z = {.next_in = (Bytef *)packed,
		.avail_in = (uInt)packed_len,
		.next_out = (Bytef *)got,
		.avail_out = (uInt)want_len + 1};

	CHECK_EQ(inflateInit2(&z, 15 + 16), Z_OK); /* gzip alone; checks CRC and length */
	CHECK_EQ(inflate(&z, Z_FINISH), Z_STREAM_END);
	CHECK_EQ(z.avail_in, 0);
	CHECK_EQ(z.total_out, want_len);
	CHECK(!memcmp(got, want, want_len));
	inflateEnd(&z);
	free(got);
}

static void check_size(char *(*make)(size_t), size_t len)
{
	size_t cap = len + len / 8 + 64, packed;
	char *bytes = make(len), *exact = malloc(len + 1), *to = malloc(cap), *tight;

	memcpy(exact, bytes, len);
	packed = pack(to, 0, cap, exact, len);
	CHECK(packed > 0);
	check_unpacks(to, packed, bytes, len);
	/* it fits into exactly that much, behind what is there, and not into less */
	tight = malloc(packed + 3);
	memcpy(tight, "abc", 3);
	CHECK_EQ(pack(tight, 3, packed + 3, exact, len), packed);
	CHECK(!memcmp(tight, "abc", 3));
	check_unpacks(tight + 3, packed, bytes, len);
	CHECK_EQ(pack(tight, 3, packed + 2, exact, len), 0);
	CHECK_EQ(pack(tight, packed + 3, packed + 3, exact, len), 0);
	free(tight);
	free(to);
	free(exact);
	free(bytes);
}

T(sizes)
{
	static const size_t sizes[] = {
		0, 1, 2, 63, ZN_GZIP_MIN, 32767, 32768, 32769, 65535, 65536, 300001, ZN_GZIP_MAX};

	for (size_t i = 0; i < ZN_LEN(sizes); i++) {
		check_size(metrics_like, sizes[i]);
		check_size(noise, sizes[i]);
		check_size(one_byte, sizes[i]);
	}
}

T(codes_of_all_shapes)
{
	static const size_t sizes[] = {3, 40, 8191, 8192, 8193, 100000, 300001};

	for (size_t i = 0; i < ZN_LEN(sizes); i++) {
		check_size(steep, sizes[i]);
		check_size(far, sizes[i]);
		check_size(too_far, sizes[i]);
		check_size(sizes[i] > 8000 ? all_lengths : noise, sizes[i]);
	}
}

T(shrinks_text)
{
	size_t len = 100000;
	char *text = metrics_like(len), *to = malloc(len);
	size_t packed = pack(to, 0, len, text, len);

	CHECK(packed > 0 && packed < len / 4);
	free(to);
	free(text);
}

/* The same bytes give the same answer, whatever came before: an answer that did not fit, too. */
T(keeps_no_trace)
{
	char *text = metrics_like(5000), *other = noise(70000), first[5000], again[5000];
	size_t len = pack(first, 0, sizeof(first), text, 5000);

	CHECK(len > 0);
	CHECK_EQ(pack(again, 0, sizeof(again), other, 70000), 0);
	CHECK_EQ(pack(again, 0, sizeof(again), text, 5000), len);
	CHECK_MEM(again, len, first, len);
	free(other);
	free(text);
}

T(full_before)
{
	char to[64];
	struct zn_out o = {.at = to, .cap = sizeof(to), .len = 5, .full = true};

	CHECK(!zn_gzip(&o, "abc", 3));
	CHECK_EQ(o.len, 5);
	CHECK(o.full);
}

/* One after the other, in any order. */
T(unpacks_what_it_packed)
{
	char *text = metrics_like(5000), packed[5000], plain[5000];
	size_t len = pack(packed, 0, sizeof(packed), text, 5000);
	struct zn_out o = {.at = plain, .cap = sizeof(plain)};

	CHECK(len > 0);
	CHECK(zn_gunzip(&o, packed, len));
	CHECK_MEM(plain, o.len, text, 5000);
	CHECK_EQ(pack(packed, 0, sizeof(packed), text, 5000), len);
	o.len = 0;
	CHECK(!zn_gunzip(&o, packed, len - 1));
	o.cap = 4999;
	CHECK(!zn_gunzip(&o, packed, len));
	CHECK(!zn_gunzip(&o, text, 5000));
	CHECK_EQ(o.len, 0);
	free(text);
}

int main(void)
{
	RUN(sizes);
	RUN(codes_of_all_shapes);
	RUN(unpacks_what_it_packed);
	RUN(shrinks_text);
	RUN(keeps_no_trace);
	RUN(full_before);
	return t_end();
}
