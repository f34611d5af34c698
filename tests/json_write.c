/* SPDX-License-Identifier: GPL-2.0 */
/*
 * json_write.c: writes what tests/json_strict.py asks for, one JSON value a line. A question is a byte that says what
 * it is, the length of the rest in four bytes, and the rest: s raw bytes, d a double, u an integer.
 */
#include <stdlib.h>

#include "zernel.h"

#define QUESTION_MAX (1 << 16)

static void answer(struct zn_json *j, char what, const char *bytes, uint32_t len)
{
	uint64_t v = 0;
	double d = 0;

	if (what == 's') {
		zn_json_bytes(j, bytes, len);
		return;
	}
	if (len != sizeof(v))
		abort();
	memcpy(&v, bytes, sizeof(v));
	memcpy(&d, bytes, sizeof(d));
	if (what == 'd')
		zn_json_double(j, d);
	else
		zn_json_u64(j, v);
}

int main(void)
{
	static char bytes[QUESTION_MAX], text[8 * QUESTION_MAX];
	uint32_t len;
	int what;

	while ((what = getchar()) != EOF) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};
		struct zn_json j;

		if (fread(&len, sizeof(len), 1, stdin) != 1 || len > sizeof(bytes) ||
			fread(bytes, 1, len, stdin) != len)
			return 1;
		zn_json_begin(&j, &o);
		answer(&j, (char)what, bytes, len);
		zn_out_char(&o, '\n');
		if (o.full || fwrite(text, 1, o.len, stdout) != o.len)
			return 1;
	}
	return fflush(stdout) ? 1 : 0;
}
