/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_cells.c: figures of a report of report.c as short texts, and sums over its lists. What is missing or null is
 * "-".
 */
#include <string.h>

#include "zernel.h"

#define JOULES_MAX 1e15

char *zn_sheet_none(char to[ZN_UNITS_CELL])
{
	strcpy(to, "-");
	return to;
}

double zn_sheet_number(struct zn_str json, const char *path)
{
	return zn_json_number(zn_path_find(json, path));
}

uint64_t zn_sheet_integer(struct zn_str json, const char *path)
{
	return zn_json_integer(zn_path_find(json, path));
}

char *zn_sheet_bytes(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? zn_units_bytes(to, zn_sheet_integer(json, path)) : zn_sheet_none(to);
}

char *zn_sheet_count(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? zn_units_count(to, zn_sheet_number(json, path)) : zn_sheet_none(to);
}

char *zn_sheet_span_of(char to[ZN_UNITS_CELL], double s)
{
	if (s < 0 || s > ZN_SHEET_SPAN_MAX)
		return zn_sheet_none(to);
	if (s >= 60)
		return zn_units_span(to, (uint64_t)s);
	return s > 0 ? zn_units_duration(to, 1e6 * s) : strcpy(to, "0s");
}

char *zn_sheet_span(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? zn_sheet_span_of(to, zn_sheet_number(json, path)) : zn_sheet_none(to);
}

/* Of microseconds, times scale. */
char *zn_sheet_duration(char to[ZN_UNITS_CELL], struct zn_str json, const char *path, double scale)
{
	return zn_path_known(json, path) ? zn_units_duration(to, scale * zn_sheet_number(json, path))
					 : zn_sheet_none(to);
}

char *zn_sheet_percent_of(char to[ZN_UNITS_CELL], double share)
{
	if (share < 0 || share > 1)
		return zn_sheet_none(to);
	snprintf(to, ZN_UNITS_CELL, "%.0f%%", 100 * share);
	return to;
}

char *zn_sheet_percent(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? zn_sheet_percent_of(to, zn_sheet_number(json, path)) : zn_sheet_none(to);
}

/* "2026-11-21 11:55:20 UTC" of a time in ISO 8601. */
char *zn_sheet_moment(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	char text[ZN_UNITS_CELL];

	if (strlen(zn_path_text(json, path, text, sizeof(text))) < sizeof("2026-11-21T11:55:20") - 1)
		return zn_sheet_none(to);
	snprintf(to, ZN_UNITS_CELL, "%.10s %.8s UTC", text, text + 11);
	return to;
}

bool zn_sheet_true(struct zn_str json, const char *path)
{
	return zn_str_is(zn_path_find(json, path), "true");
}

struct zn_gpu_sums zn_sheet_gpus(struct zn_str list)
{
	struct zn_gpu_sums sums = {0};
	struct zn_str key, g;

	for (size_t at = 0; zn_json_next(list, &at, &key, &g); sums.count++) {
		double busy_s = zn_sheet_number(g, "busy_seconds"), idle_s = zn_sheet_number(g, "idle_seconds");

		if (!zn_path_known(g, "peak_bytes"))
			sums.hidden = true;
		else if (!sums.highest.len ||
			zn_sheet_integer(g, "peak_bytes") > zn_sheet_integer(sums.highest, "peak_bytes"))
			sums.highest = g;
		sums.busy_s += busy_s;
		sums.all_s += busy_s + idle_s;
		sums.unused +=
			zn_sheet_true(g, "allocated") && zn_path_known(g, "busy_share") && busy_s == 0 && idle_s > 0;
	}
	if (sums.hidden) /* it may be the highest */
		sums.highest = (struct zn_str){0};
	return sums;
}

/* Of what may be more than the whole, as a thread runs on a CPU that its job was not given. */
char *zn_sheet_share(char to[ZN_UNITS_CELL], struct zn_str json, const char *path, const char *blank)
{
	double share = zn_path_known(json, path) ? zn_sheet_number(json, path) : -1;

	if (share < 0 || share > 1e3)
		return zn_sheet_none(to);
	snprintf(to, ZN_UNITS_CELL, "%.0f%s%%", 100 * share, blank);
	return to;
}

char *zn_sheet_energy(char to[ZN_UNITS_CELL], struct zn_str r, const char *path)
{
	double joules = zn_path_known(r, path) ? zn_sheet_number(r, path) : -1;

	if (joules < 0 || joules > JOULES_MAX)
		return zn_sheet_none(to);
	if (joules < 3600)
		snprintf(to, ZN_UNITS_CELL, "%.0f J", joules);
	else
		snprintf(to, ZN_UNITS_CELL, joules < 3.6e9 ? "%.3g kWh" : "%.0f kWh", joules / 3.6e6);
	return to;
}

/* The sum of a list's or an object's numbers: of its items' member, or, without one, of its own values. */
double zn_sheet_sum(struct zn_str list, const char *member)
{
	struct zn_str key, value;
	double all = 0;

	for (size_t at = 0; zn_json_next(list, &at, &key, &value);)
		all += zn_sheet_number(value, member);
	return all;
}
