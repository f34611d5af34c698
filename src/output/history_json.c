/* SPDX-License-Identifier: GPL-2.0 */
/*
 * history_json.c: the last 15 minutes, for charts: GET /history.
 */
#include "zernel.h"

#include <math.h>
#include <string.h>

#define MILLI 3 /* decimals */

enum series { RATE, P50_US, P99_US, SERIES_COUNT };
static const struct {
	const char *key;
	size_t offset; /* in struct zn_point */
	bool null_if_0;
} series[SERIES_COUNT] = {
	{"rate", offsetof(struct zn_point, rate), false},
	{"p50_us", offsetof(struct zn_point, p50_us), true},
	{"p99_us", offsetof(struct zn_point, p99_us), true},
};

static void put_figure(struct zn_json *j, float v, bool null_if_0)
{
	if (v == 0 && null_if_0)
		zn_json_null(j);
	else
		zn_json_scaled(j, (uint64_t)llround((double)v * 1e3), MILLI);
}

static void put_figures(struct zn_json *j, const struct zn_point *p, enum series s)
{
	float v;

	memcpy(&v, (const char *)p + series[s].offset, sizeof(v));
	put_figure(j, v, series[s].null_if_0);
}

void zn_point_json(struct zn_json *j, const struct zn_point *p)
{
	if (!p) {
		zn_json_null(j);
		return;
	}
	zn_json_open(j, '{');
	for (enum series s = 0; s < SERIES_COUNT; s++) {
		zn_json_key(j, series[s].key);
		put_figures(j, p, s);
	}
	zn_json_close(j, '}');
}

static void used_point(struct zn_json *j, uint64_t used_bytes)
{
	if (used_bytes == ZN_NOT_KNOWN)
		zn_json_null(j);
	else
		zn_json_u64(j, used_bytes);
}

/* zn_json_list() items; they may be empty where there are no points. */
static bool gpu_item(const void *owner, struct zn_json *j, uint32_t i)
{
	const struct zn_history *h = ((const struct zn_state *)owner)->history;
	uint32_t points;
	const char *id = zn_history_gpu(h, i, &points);

	if (!id)
		return false;
	if (!points)
		return true;
	zn_json_open(j, '{');
	zn_json_key(j, "gpu_id");
	zn_json_text(j, id);
	zn_json_key(j, "used_bytes");
	zn_json_open(j, '[');
	while (points)
		used_point(j, zn_history_gpu_used(h, i, --points));
	zn_json_close(j, ']');
	zn_json_close(j, '}');
	return true;
}

static bool process_item(const void *owner, struct zn_json *j, uint32_t i)
{
	const struct zn_state *state = owner;
	const struct zn_history *h = state->history;
	uint32_t row = i < state->agg->row_count ? state->agg->row[i] : 0;
	const struct zn_proc *proc = zn_arena_proc(state->agg->arena, row);
	const char *comm = state->agg->info[row].comm;
	uint32_t points;

	if (i >= state->agg->row_count)
		return false;
	points = proc ? zn_history_points(h, row, proc->id) : 0;
	if (!points)
		return true;
	zn_json_open(j, '{');
	zn_json_key(j, "pid");
	zn_json_u64(j, proc->tgid);
	zn_json_key(j, "comm");
	zn_json_bytes(j, comm, strnlen(comm, sizeof(state->agg->info[row].comm)));
	for (enum series s = 0; s < SERIES_COUNT; s++) {
		zn_json_key(j, series[s].key);
		zn_json_open(j, '[');
		for (uint32_t ago = points; ago; ago--)
			put_figures(j, zn_history_point(h, row, ago - 1), s);
		zn_json_close(j, ']');
	}
	zn_json_close(j, '}');
	return true;
}

static bool server_item(const void *owner, struct zn_json *j, uint32_t i)
{
	return zn_server_history(j, owner, i);
}

static void put_head(struct zn_json *j, const struct zn_state *state)
{
	zn_json_key(j, "node");
	zn_json_text(j, state->node);
	zn_json_key(j, "source");
	zn_json_text(j, zn_state_source(state));
	zn_json_key(j, "step_ms");
	zn_json_u64(j, ZN_HISTORY_STEP_MS);
	zn_json_key_known(j, "end_ms", zn_history_end_ms(state->history));
}

static bool put_nothing(const void *owner, struct zn_json *j, uint32_t i)
{
	(void)owner, (void)j, (void)i;
	return false;
}

void zn_history_json(struct zn_out *o, const struct zn_state *state)
{
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	put_head(&j, state);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "gpus", '[', state->history ? gpu_item : put_nothing, state);
	whole &= zn_json_list(&j, "processes", '[', state->history ? process_item : put_nothing, state);
	whole &= zn_json_list(&j, "servers", '[', state->latency ? server_item : put_nothing, state);
	zn_json_end(&j, whole);
}
