/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alert_source.h: what alert rules need from the table of metrics, for tests that do not link it: types by the form of
 * a name, and one metric, the use of GPU memory.
 */
#ifndef ALERT_SOURCE_H
#define ALERT_SOURCE_H

#include <stdlib.h>
#include <string.h>

#include "zernel.h"

static inline bool name_ends_in(const char *name, const char *end)
{
	size_t len = strlen(name), n = strlen(end);

	return len >= n && !strcmp(name + len - n, end);
}

/* Seconds that are a gauge. */
static inline bool is_gauge_of_time(const char *name)
{
	static const char *const ends[] = {"time_seconds", "_doing_seconds", "_wait_seconds", "_age_seconds",
		"_limit_seconds", "_stuck_seconds", "_blocked_seconds"};

	for (size_t i = 0; i < ZN_LEN(ends); i++)
		if (name_ends_in(name, ends[i]) && !name_ends_in(name, "dataloader_wait_seconds"))
			return true;
	return false;
}

static inline int type_of_name(const char *name)
{
	if (name_ends_in(name, "_total"))
		return ZN_METRIC_COUNTER;
	if (name_ends_in(name, "_seconds") && !is_gauge_of_time(name))
		return ZN_METRIC_SUMMARY;
	return name_ends_in(name, "_sum") || name_ends_in(name, "_count") ? -1 : ZN_METRIC_GAUGE;
}

/* agg: struct zn_agg */
static inline void walk_gpus(
	void *agg, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	const struct zn_gpus *gpus = &((struct zn_agg *)agg)->gpus;

	for (uint32_t i = 0; i < gpus->count && !strcmp(wanted->metric, "zernel_gpu_memory_used_ratio"); i++) {
		const struct zn_gpu *g = &gpus->gpu[i];
		struct zn_sample s = {.label = {{{"gpu_id", 6}, {g->id, strlen(g->id)}}},
			.label_count = 1,
			.value = (double)g->used_bytes / (double)g->total_bytes};

		if (g->total_bytes)
			sample(to, &s);
	}
}

static inline void open_alerts(
	struct zn_alerts *a, const struct zn_options *o, int (*type)(const char *metric), struct zn_rule_source source)
{
	char why[ZN_TEXT_MAX];

	a->work.source = source;
	if (!zn_alerts_open(a, o, type, why))
		return;
	fprintf(stderr, "%s\n", why);
	abort();
}

#endif
