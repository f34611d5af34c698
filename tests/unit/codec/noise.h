/* SPDX-License-Identifier: GPL-2.0 */
/*
 * noise.h: bytes without any order, the same ones each time, for the tests of gzip.c and crc32.c.
 */
#ifndef NOISE_H
#define NOISE_H

#include <stdint.h>
#include <stdlib.h>

/* In a block of exactly that size, which the caller frees. */
static inline char *noise(size_t len)
{
	char *bytes = malloc(len ? len : 1);
	uint32_t x = 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525 + 1013904223;
		bytes[i] = (char)(x >> 24);
	}
	return bytes;
}

#endif
