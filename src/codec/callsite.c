/* SPDX-License-Identifier: GPL-2.0 */
/*
 * callsite.c: whether code ends with a call, which is what stands before an address that a function returns to. x86-64
 * alone (Intel's manual, volume 2, chapter 2: ModRM and SIB). Other bytes may look like one; a call never does not.
 */
#include "zernel.h"

/* Bytes of a ModRM byte and what follows it. */
static size_t modrm_len(const uint8_t *at, size_t left)
{
	uint8_t mod = at[0] >> 6, rm = at[0] & 7;
	size_t len = 1 + (mod == 1 ? 1 : mod == 2 ? 4 : 0);

	if (mod == 3)
		return 1;
	if (rm == 4) {
		if (left < 2)
			return 0;
		len += 1 + (mod == 0 && (at[1] & 7) == 5 ? 4 : 0);
	}
	return len + (mod == 0 && rm == 5 ? 4 : 0);
}

/* Whether code of so many bytes ends with a call: E8 with a distance, or FF /2 with a register or memory. */
bool zn_callsite_ends(const uint8_t *code, size_t len)
{
	if (len >= 5 && code[len - 5] == 0xe8)
		return true;
	for (size_t n = 2; n <= 7 && n <= len; n++) {
		const uint8_t *at = code + len - n;

		if (at[0] == 0xff && (at[1] >> 3 & 7) == 2 && modrm_len(at + 1, n - 1) == n - 1)
			return true;
	}
	return false;
}
