/* SPDX-License-Identifier: GPL-2.0 */
/* units.c: figures in a form for people. */
#include <stdio.h>
#include <time.h>

#include "zernel.h"

/* Three digits and a unit. */
static char *put_scaled(char to[ZN_UNITS_CELL], double v, double step, const char *const *unit)
{
	while (v >= 999.5 && unit[1]) {
		v /= step;
		unit++;
	}
	if (v > 99999)
		snprintf(to, ZN_UNITS_CELL, "%.0e%s", v, *unit);
	else
		snprintf(to, ZN_UNITS_CELL, "%.*f%s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, *unit);
	return to;
}

char *zn_units_bytes(char to[ZN_UNITS_CELL], uint64_t v)
{
	static const char *const units[] = {"B", "K", "M", "G", "T", "P", "E", NULL};

	if (v >= 1000)
		return put_scaled(to, (double)v, 1024, units);
	snprintf(to, ZN_UNITS_CELL, "%uB", (unsigned)v);
	return to;
}

char *zn_units_count(char to[ZN_UNITS_CELL], double v)
{
	static const char *const units[] = {"", "k", "M", "G", "T", NULL};

	if (v >= 999.5)
		return put_scaled(to, v, 1000, units);
	if (v < 0 || (v > 0 && v < 0.1))
		snprintf(to, ZN_UNITS_CELL, v < 0 ? "-" : "<0.1");
	else
		snprintf(to, ZN_UNITS_CELL, "%.*f", v == (double)(int)v || v >= 99.95 ? 0 : 1, v);
	return to;
}

char *zn_units_duration(char to[ZN_UNITS_CELL], double us)
{
	static const char *const units[] = {"ns", "us", "ms", "s", NULL};

	if (us >= 0.001)
		return put_scaled(to, 1000 * us, 1000, units);
	snprintf(to, ZN_UNITS_CELL, us > 0 ? "<1ns" : "-");
	return to;
}

char *zn_units_span(char to[ZN_UNITS_CELL], uint64_t s)
{
	if (s < 60)
		snprintf(to, ZN_UNITS_CELL, "%u s", (unsigned)s);
	else if (s < 3600)
		snprintf(to, ZN_UNITS_CELL, "%u min %u s", (unsigned)(s / 60), (unsigned)(s % 60));
	else if (s < 86400)
		snprintf(to, ZN_UNITS_CELL, "%u h %u min", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
	else
		snprintf(to, ZN_UNITS_CELL, "%llu d %u h", (unsigned long long)(s / 86400), (unsigned)(s / 3600 % 24));
	return to;
}

char *zn_units_clock(char to[ZN_UNITS_CELL], uint64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;

	if (!ms || !localtime_r(&s, &tm) || !strftime(to, ZN_UNITS_CELL, "%H:%M:%S", &tm))
		snprintf(to, ZN_UNITS_CELL, "-");
	return to;
}
