/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_walk.c: makes samples of what the rows of the table of metrics yield: a series begins, gets its labels, and
 * ends with its value. The caller of the walk is given each sample; a row does not know which form is made of it.
 */
#include <string.h>

#include "zernel.h"

void zn_walk_series(struct zn_walk *w)
{
	w->job_id = NULL;
	w->sample.label_count = 0;
	w->digits.len = 0;
}

void zn_walk_digits(struct zn_walk *w, struct zn_str name, size_t at)
{
	if (w->sample.label_count < ZN_LABELS_MAX)
		w->sample.label[w->sample.label_count++] =
			(struct zn_label){name, {w->digits.at + at, w->digits.len - at}};
}

void zn_walk_named(struct zn_walk *w, struct zn_str name, uint64_t v)
{
	size_t at = w->digits.len;

	zn_out_u64(&w->digits, v);
	zn_walk_digits(w, name, at);
}

static void end_series(struct zn_walk *w)
{
	if (w->job_id && *w->job_id)
		zn_walk_label(w, "job_id", w->job_id);
	w->visit(w->to, &w->sample);
}

/* The nearest double, as long as v is below 2^53: v is exact then, and so is 10^12. */
void zn_walk_scaled(struct zn_walk *w, uint64_t v, int decimals)
{
	static const double power10[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12};

	w->sample.number = v;
	w->sample.decimals = decimals;
	w->sample.value = (double)v / power10[decimals];
	end_series(w);
}

void zn_walk_signed(struct zn_walk *w, int32_t v)
{
	w->sample.number = (uint64_t)(v < 0 ? -(int64_t)v : v);
	w->sample.decimals = 3;
	w->sample.negative = v < 0;
	w->sample.value = v / 1e3;
	end_series(w);
}

void zn_walk_durations(struct zn_walk *w, const struct zn_hist *h)
{
	w->sample.hist = h;
	w->sample.fine = w->metric->twin == ZN_TWIN_FINE;
	end_series(w);
	w->sample.exemplars = 0;
}

void zn_walk_calibration(struct zn_walk *w, const struct zn_bias *b)
{
	w->sample.bias = b;
	end_series(w);
}

void zn_walk_one(struct zn_walk *w, uint64_t v, int decimals)
{
	zn_walk_series(w);
	zn_walk_scaled(w, v, decimals);
}

const struct zn_proc *zn_walk_proc(struct zn_walk *w, uint32_t r)
{
	return zn_arena_proc(w->state->agg->arena, w->state->agg->row[r]);
}

/* ---- Places of tables that are used. ---- */

static void note_used(uint64_t *used, uint32_t at)
{
	used[at / 64] |= 1ULL << at % 64;
}

static const struct zn_walk_used *list_used(struct zn_walk *w)
{
	struct zn_arena *a = w->state->agg->arena;

	if (w->used.listed)
		return &w->used;
	w->used = (struct zn_walk_used){.listed = true};
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)
		if (zn_server_at(a, i))
			note_used(w->used.servers, i);
	for (uint32_t i = 0; i < ZN_SERVICES_MAX; i++)
		if (zn_serving_at(a, i))
			note_used(w->used.services, i);
	for (uint32_t i = 0; i < ZN_SKEWS_MAX; i++)
		if (zn_arena_skew(a, i))
			note_used(w->used.skews, i);
	return &w->used;
}

static uint32_t next_used(const uint64_t *used, uint32_t from, uint32_t count)
{
	for (uint64_t left; from < count; from = (from / 64 + 1) * 64) {
		left = used[from / 64] >> from % 64;
		if (left)
			return from + (uint32_t)__builtin_ctzll(left);
	}
	return count;
}

uint32_t zn_walk_server(struct zn_walk *w, uint32_t from)
{
	return next_used(list_used(w)->servers, from, ZN_SERVERS_MAX);
}

uint32_t zn_walk_service(struct zn_walk *w, uint32_t from)
{
	return next_used(list_used(w)->services, from, ZN_SERVICES_MAX);
}

uint32_t zn_walk_skew(struct zn_walk *w, uint32_t from)
{
	return next_used(list_used(w)->skews, from, ZN_SKEWS_MAX);
}

void zn_walk_init(
	struct zn_walk *w, const struct zn_state *state, void (*visit)(void *to, const struct zn_sample *s), void *to)
{
	w->state = state;
	w->visit = visit;
	w->to = to;
	w->room = NULL;
	w->has_library = NULL;
	w->had_library = NULL;
	w->digits = (struct zn_out){.at = w->bytes, .cap = sizeof(w->bytes)};
	w->used.listed = w->jobs_listed = w->jobs_summed = w->hashes_compared = w->brief = false;
}

void zn_walk_metric(struct zn_walk *w, const struct zn_metric *m)
{
	w->metric = m;
	w->sample.metric = m->name;
	w->sample.help = m->help;
	w->sample.type = m->type;
	w->sample.value = __builtin_nan("");
	w->sample.negative = false;
	w->sample.hist = NULL;
	w->sample.bias = NULL;
	w->sample.fine = false;
	w->sample.exemplar = NULL;
	w->sample.exemplars = 0;
	w->sample.since_ms = w->state->start_wall_ms;
	w->sample.hides_0 = m->hides_0;
	m->emit(w);
}
