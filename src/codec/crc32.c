/* SPDX-License-Identifier: GPL-2.0 */
/*
 * crc32.c: the checksum of gzip (RFC 1952, section 8), which takes zlib 1.2.13 three times as long. A processor with
 * carry-less multiplication folds the text to 16 bytes that have the same checksum: 16 bytes X that lie D bits before
 * others are the same as X * x^D mod P there. What is left, and all where it has no such instruction, is zlib's.
 */
#include <zlib.h>

#include "zernel.h"

static uint32_t crc_plain(uint32_t before, const char *bytes, size_t len)
{
	return (uint32_t)crc32_z(before, (const Bytef *)bytes, len);
}

#ifdef __x86_64__
#include <immintrin.h>

#define FOLDING __attribute__((target("pclmul")))
#define AT_ONCE 4 /* of 16 bytes, as a multiplication takes longer than until the next may begin */

/* x^(D - 32) and x^(D + 32) mod P for D of 512 and of 128 bits, for the later and the earlier half of 16 bytes; P is
 * 0x104c11db7. Bits are reflected, and one to the left: a product of reflected numbers comes out one to the right. */
#define FOLD_512 0x1c6e41596, 0x154442bd4
#define FOLD_128 0x0ccaa009e, 0x1751997d0

FOLDING static inline __m128i fold(__m128i x, __m128i by, __m128i onto)
{
	__m128i low = _mm_clmulepi64_si128(x, by, 0x00), high = _mm_clmulepi64_si128(x, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

FOLDING static inline __m128i sixteen(const char *at)
{
	return _mm_loadu_si128((const __m128i *)(const void *)at);
}

/* At least 64 bytes, a multiple of that. */
FOLDING static uint32_t crc_folded(const char *bytes, size_t len)
{
	const __m128i by_512 = _mm_set_epi64x(FOLD_512), by_128 = _mm_set_epi64x(FOLD_128);
	__m128i x[AT_ONCE];
	char left[sizeof(x[0])];

	for (int i = 0; i < AT_ONCE; i++)
		x[i] = sixteen(bytes + i * sizeof(x[0]));
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128(-1)); /* what a checksum begins with */
	for (size_t at = sizeof(x); at < len; at += sizeof(x))
		for (int i = 0; i < AT_ONCE; i++)
			x[i] = fold(x[i], by_512, sixteen(bytes + at + i * sizeof(x[0])));
	for (int i = 1; i < AT_ONCE; i++)
		x[i] = fold(x[i - 1], by_128, x[i]);
	_mm_storeu_si128((__m128i *)(void *)left, x[AT_ONCE - 1]);
	return crc_plain(UINT32_MAX, left, sizeof(left)); /* which begins with 0 inside */
}

uint32_t zn_crc32(const char *bytes, size_t len)
{
	size_t folded = len - len % (AT_ONCE * sizeof(__m128i));

	if (!folded || !__builtin_cpu_supports("pclmul"))
		return crc_plain(0, bytes, len);
	return crc_plain(crc_folded(bytes, folded), bytes + folded, len - folded);
}
#else
uint32_t zn_crc32(const char *bytes, size_t len)
{
	return crc_plain(0, bytes, len);
}
#endif
