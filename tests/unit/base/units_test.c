/* SPDX-License-Identifier: GPL-2.0 */
/*
 * units_test.c: figures for people (units.c): three digits and a unit, at the edges where the unit changes.
 */
#include "t.h"
#include "zernel.h"

T(bytes)
{
	static const struct {
		uint64_t v;
		const char *want;
	} rows[] = {{0, "0B"}, {999, "999B"}, {1000, "0.98K"}, {1024, "1.00K"}, {1536, "1.50K"}, {10 << 10, "10.0K"},
		{1 << 20, "1.00M"}, {(1 << 20) - 1, "1.00M"}, {80ULL << 30, "80.0G"}, {UINT64_MAX, "16.0E"}};
	char to[ZN_UNITS_CELL];

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		CHECK_STR(zn_units_bytes(to, rows[i].v), rows[i].want);
}

T(counts)
{
	static const struct {
		double v;
		const char *want;
	} rows[] = {{0, "0"}, {-1, "-"}, {0.05, "<0.1"}, {0.25, "0.2"}, {1, "1"}, {1.25, "1.2"}, {99.95, "100"},
		{999, "999"}, {999.5, "1.00k"}, {1930, "1.93k"}, {999499, "999k"}, {1e6, "1.00M"}, {1e18, "1e+06T"}};
	char to[ZN_UNITS_CELL];

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		CHECK_STR(zn_units_count(to, rows[i].v), rows[i].want);
}

T(durations)
{
	static const struct {
		double us;
		const char *want;
	} rows[] = {{0, "-"}, {0.0005, "<1ns"}, {0.001, "1.00ns"}, {0.5, "500ns"}, {1, "1.00us"}, {143, "143us"},
		{999.6, "1.00ms"}, {38800, "38.8ms"}, {1e6, "1.00s"}, {60e6, "60.0s"}};
	char to[ZN_UNITS_CELL];

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		CHECK_STR(zn_units_duration(to, rows[i].us), rows[i].want);
}

T(spans)
{
	static const struct {
		uint64_t s;
		const char *want;
	} rows[] = {{0, "0 s"}, {59, "59 s"}, {60, "1 min 0 s"}, {3599, "59 min 59 s"}, {3600, "1 h 0 min"},
		{86399, "23 h 59 min"}, {86400, "1 d 0 h"}, {100ULL * 86400 + 7200, "100 d 2 h"}};
	char to[ZN_UNITS_CELL];

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		CHECK_STR(zn_units_span(to, rows[i].s), rows[i].want);
}

T(no_time_of_day)
{
	char to[ZN_UNITS_CELL];

	CHECK_STR(zn_units_clock(to, 0), "-");
	CHECK_EQ(strlen(zn_units_clock(to, 1700000000000)), strlen("00:00:00"));
}

int main(void)
{
	RUN(bytes);
	RUN(counts);
	RUN(durations);
	RUN(spans);
	RUN(no_time_of_day);
	return t_end();
}
