/* SPDX-License-Identifier: GPL-2.0 */
/*
 * date_test.c: a moment as text (date.c): leap years, ends of months, centuries.
 */
#include "t.h"
#include "zernel.h"

T(dates)
{
	static const struct {
		uint64_t ms;
		const char *want;
	} rows[] = {{0, "1970-01-01T00:00:00.000Z"}, {1, "1970-01-01T00:00:00.001Z"},
		{951782399999, "2000-02-28T23:59:59.999Z"}, {951782400000, "2000-02-29T00:00:00.000Z"},
		{951868800000, "2000-03-01T00:00:00.000Z"}, {1709251199050, "2024-02-29T23:59:59.050Z"},
		{1735689599009, "2024-12-31T23:59:59.009Z"}, {1735689600000, "2025-01-01T00:00:00.000Z"},
		{4107542400000, "2100-03-01T00:00:00.000Z"}, {253402300800000, "10000-01-01T00:00:00.000Z"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char text[64];
		struct zn_out o = {.at = text, .cap = sizeof(text)};

		zn_date_put(&o, rows[i].ms);
		CHECK_MEM(o.at, o.len, rows[i].want, strlen(rows[i].want));
	}
}

int main(void)
{
	RUN(dates);
	return t_end();
}
