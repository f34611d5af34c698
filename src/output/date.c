/* SPDX-License-Identifier: GPL-2.0 */
/*
 * date.c: a moment as people and programs read it.
 */
#include "zernel.h"

static void out_two(struct zn_out *o, unsigned v)
{
	zn_out_char(o, (char)('0' + v / 10));
	zn_out_char(o, (char)('0' + v % 10));
}

/* The day in the Gregorian calendar, counting years from March on, so that leap days come last. */
static void out_date(struct zn_out *o, uint64_t days)
{
	uint64_t d = days + 719468, era = d / 146097, year;
	unsigned of_era = (unsigned)(d % 146097);
	unsigned y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	unsigned of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;

	year = era * 400 + y + (m >= 10);
	zn_out_u64(o, year);
	zn_out_char(o, '-');
	out_two(o, m < 10 ? m + 3 : m - 9);
	zn_out_char(o, '-');
	out_two(o, of_year - (153 * m + 2) / 5 + 1);
}

/* libc's own function is not used: it reads files and allocates at first. */
void zn_date_put(struct zn_out *o, uint64_t ms)
{
	unsigned of_day = (unsigned)(ms / 1000 % 86400);

	out_date(o, ms / 86400000);
	zn_out_char(o, 'T');
	out_two(o, of_day / 3600);
	zn_out_char(o, ':');
	out_two(o, of_day / 60 % 60);
	zn_out_char(o, ':');
	out_two(o, of_day % 60);
	zn_out_char(o, '.');
	zn_out_char(o, (char)('0' + ms % 1000 / 100));
	out_two(o, ms % 100);
	zn_out_char(o, 'Z');
}
