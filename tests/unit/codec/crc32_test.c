/* SPDX-License-Identifier: GPL-2.0 */
/*
 * crc32_test.c: the checksum is that of the standard's own example and zlib's, for every length around those that are
 * folded, from any address, each text in a block of exactly its size.
 */
#include <stdlib.h>
#include <zlib.h>

#include "noise.h"
#include "t.h"
#include "zernel.h"

#define LENGTHS 600 /* nine times what is folded at once */
#define LONG    (1 << 20)

static uint32_t of_zlib(const char *bytes, size_t len)
{
	return (uint32_t)crc32(0, (const Bytef *)bytes, (uInt)len);
}

/* The check value of CRC-32/ISO-HDLC, by which catalogues tell checksums apart. */
T(what_catalogues_say)
{
	CHECK_EQ(zn_crc32("123456789", 9), 0xcbf43926);
	CHECK_EQ(zn_crc32("", 0), 0);
}

T(lengths_and_addresses)
{
	for (size_t len = 0; len < LENGTHS; len++) {
		char *bytes = noise(len);

		for (size_t from = 0; from < 16 && from <= len; from++)
			CHECK_EQ(zn_crc32(bytes + from, len - from), of_zlib(bytes + from, len - from));
		free(bytes);
	}
}

T(a_long_text)
{
	char *bytes = noise(LONG);

	CHECK_EQ(zn_crc32(bytes, LONG), of_zlib(bytes, LONG));
	bytes[LONG / 2] ^= 1;
	CHECK_EQ(zn_crc32(bytes, LONG), of_zlib(bytes, LONG));
	free(bytes);
}

int main(void)
{
	RUN(what_catalogues_say);
	RUN(lengths_and_addresses);
	RUN(a_long_text);
	return t_end();
}
