/* SPDX-License-Identifier: GPL-2.0 */
/*
 * why.c: GET /why and the snapshot's key of that name: for each job that runs, and for the processes of none, what its time
 * was lost to over the last minute, longest first, with what to do next.
 */
#include "zernel.h"
#include <string.h>

#define WINDOW_STEPS (60 / ZN_CAUSE_STEP_S)
#define SECONDS      9 /* decimals from nanoseconds */

static const char *job_id(const struct zn_view *v, uint32_t index, const struct zn_cause_group *g)
{
	const struct zn_job *job = v->jobs && g->serial ? zn_jobs_at(v->jobs, (struct zn_tag){index, g->serial}) : NULL;

	return job ? job->id : "";
}

static void put_causes(
	struct zn_json *j, const struct zn_cause_group *g, const struct zn_cause_step *window, uint64_t now_ns)
{
	struct zn_why list[ZN_CAUSE_COUNT];
	size_t n = zn_why_list(g, window, now_ns, list);

	zn_json_key_open(j, "causes", '[');
	for (size_t i = 0; i < n; i++) {
		zn_json_open(j, '{');
		zn_json_key_text(j, "cause", zn_cause_label(list[i].cause));
		zn_json_key_u64(j, "percent", list[i].percent);
		zn_json_key_scaled(j, "lost_s", list[i].lost_ns, SECONDS);
		zn_json_key_text(j, "says", list[i].says);
		zn_json_key_text(j, "next", list[i].next);
		zn_json_key_text(j, "sure", list[i].sure);
		zn_json_key_text(j, "metric", list[i].metric);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

/* The longest cause alone, or what there is instead. */
static void put_summary(struct zn_json *j, bool known, const struct zn_cause_group *g,
	const struct zn_cause_step *window, uint64_t now_ns)
{
	struct zn_why list[ZN_CAUSE_COUNT];
	char none[ZN_WHY_MAX];
	size_t n = zn_why_list(g, window, now_ns, list);

	if (known)
		zn_why_none(window, none);
	else
		strcpy(none, "where the time goes is not known: the scheduler is not watched, see zerneld --check");
	zn_json_key_text(j, "says", n ? list[0].says : none);
}

/* Per cent of each step by cause, oldest first, without the one at hand: a cause that has none of it is left out. */
static void put_timeline(struct zn_json *j, const struct zn_cause_group *g)
{
	uint32_t n = g->steps < ZN_CAUSE_STEPS - 1 ? g->steps : ZN_CAUSE_STEPS - 1;
	struct zn_cause_step all = zn_causes_window(g, ZN_CAUSE_STEPS);

	zn_json_key_open(j, "timeline", '{');
	zn_json_key_u64(j, "step_s", ZN_CAUSE_STEP_S);
	zn_json_key_u64(j, "steps", n);
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++) {
		if (zn_why_percent(all.lost_ns[cause], all.time_ns) == 0)
			continue;
		zn_json_key_open(j, zn_cause_label(cause), '[');
		for (uint32_t i = n; i; i--) {
			const struct zn_cause_step *s = &g->step[(g->steps - i) % ZN_CAUSE_STEPS];

			zn_json_u64(j, zn_why_percent(s->lost_ns[cause], s->time_ns));
		}
		zn_json_close(j, ']');
	}
	zn_json_close(j, '}');
}

bool zn_why_item(struct zn_json *j, const struct zn_view *v, uint32_t i, const char *job, bool timeline)
{
	const struct zn_cause_group *g;
	struct zn_cause_step window;

	if (!v->causes || i > ZN_JOBS_MAX)
		return false;
	g = &v->causes->group[i];
	if (!g->used || !g->processes || (*job && strcmp(job, job_id(v, i, g))))
		return true;
	window = zn_causes_window(g, WINDOW_STEPS);
	zn_json_open(j, '{');
	if (*job_id(v, i, g))
		zn_json_key_text(j, "job_id", job_id(v, i, g));
	else
		zn_json_key_null(j, "job_id");
	zn_json_key_u64(j, "processes", g->processes);
	put_summary(j, zn_agg_measures(v->agg, ZN_FAM_SCHED), g, &window, v->causes->tick_ns);
	put_causes(j, g, &window, v->causes->tick_ns);
	if (timeline)
		put_timeline(j, g);
	zn_json_close(j, '}');
	return true;
}

struct scope {
	const struct zn_view *view;
	const char *job;
};

static bool item(void *scope, struct zn_json *j, uint32_t i)
{
	const struct scope *s = scope;

	return zn_why_item(j, s->view, i, s->job, true);
}

void zn_why_json(struct zn_out *o, const struct zn_view *v, const struct zn_filter *filter)
{
	struct scope s = {.view = v, .job = filter ? filter->job : ""};
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "node", v->node);
	zn_json_key_text(&j, "source", v->probe ? "live" : "simulated");
	zn_json_key_u64(&j, "window_s", WINDOW_STEPS * ZN_CAUSE_STEP_S);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "why", '[', item, &s);
	zn_json_end(&j, whole);
}
