/* SPDX-License-Identifier: GPL-2.0 */
/*
 * why.c: GET /why and the snapshot's key of that name: for each job that runs, and for the processes of none, what its time
 * was lost to over the last minute, longest first, with what to do next.
 */
#include "zernel.h"
#include <string.h>

#define WINDOW_STEPS (60 / ZN_CAUSE_STEP_S)
#define SECONDS      9 /* decimals from nanoseconds */

const char *zn_why_job_id(const struct zn_view *v, uint32_t index, const struct zn_cause_group *g)
{
	const struct zn_job *job = v->jobs && g->serial ? zn_jobs_at(v->jobs, (struct zn_tag){index, g->serial}) : NULL;

	return job ? job->id : "";
}

/* ---- What NCCL's RAS service says. ---- */

/* Of a job that is suspected to hang; NULL: there is nothing. */
static const struct zn_suspicion *suspicion_of(const struct zn_view *v, uint32_t index, const struct zn_cause_group *g)
{
	bool none = index == ZN_JOBS_MAX;

	return zn_suspicion_of(v->suspicions, none ? (struct zn_tag){0} : (struct zn_tag){index, g->serial});
}

static void put_ras_rank(struct zn_json *j, const struct zn_ras_rank *r)
{
	zn_json_open(j, '{');
	if (r->rank == ZN_UNKNOWN)
		zn_json_key_null(j, "rank");
	else
		zn_json_key_u64(j, "rank", r->rank);
	zn_json_key_text(j, "host", r->host);
	zn_json_key_u64(j, "pid", r->pid);
	zn_json_key_text(j, "state", zn_ras_state_label(r->state));
	zn_json_key_u64(j, "issued", r->issued);
	zn_json_key_u64(j, "fewer", r->fewer);
	zn_json_close(j, '}');
}

static void put_ras_comm(struct zn_json *j, const struct zn_ras_comm *c)
{
	char hash[17] = "";
	struct zn_out o = {.at = hash, .cap = sizeof(hash) - 1};

	zn_out_hex(&o, c->hash, 16);
	zn_json_open(j, '{');
	zn_json_key_text(j, "hash", hash);
	zn_json_key_u64(j, "size", c->size);
	zn_json_key_u64(j, "heard", c->heard);
	zn_json_key_u64(j, "odd", c->odd);
	zn_json_key_u64(j, "most", c->most);
	zn_json_key_open(j, "ranks", '[');
	for (uint32_t i = 0; i < c->count; i++)
		put_ras_rank(j, &c->rank[i]);
	zn_json_close(j, ']');
	zn_json_close(j, '}');
}

static void put_ras(struct zn_json *j, const struct zn_suspicion *s, bool whole)
{
	char says[ZN_SUSPICION_TEXT];

	if (!s) {
		zn_json_key_null(j, "ras");
		return;
	}
	zn_suspicion_says(s, says);
	zn_json_key_open(j, "ras", '{');
	zn_json_key_text(j, "outcome", s->state == ZN_SUSPICION_OVER ? zn_inquiry_label(s->outcome) : "under_way");
	zn_json_key_text(j, "address", s->address);
	zn_json_key_text(j, "says", says);
	zn_json_key_u64(j, "bytes", s->bytes);
	if (whole) {
		zn_json_key_open(j, "communicators", '[');
		for (uint32_t i = 0; i < s->answer.count; i++)
			put_ras_comm(j, &s->answer.comm[i]);
		zn_json_close(j, ']');
	}
	zn_json_close(j, '}');
}

/* ---- Causes. ---- */

/* All that is said of a job. What loses time and what is wrong beside it are one list: a hang, what is critical, what loses time,
 * and the rest. */
struct answer {
	struct zn_why why[ZN_CAUSE_COUNT];
	struct zn_finding finding[ZN_FINDINGS_MAX];
	size_t causes, findings, hangs, criticals;
};

static void find_answer(struct answer *a, const struct zn_view *v, uint32_t index, const struct zn_cause_group *g,
	const struct zn_cause_step *window)
{
	struct zn_finding_of of = {v->agg, {index, g->serial}, zn_why_job_id(v, index, g)};

	a->causes = zn_why_list(g, window, v->causes->tick_ns, a->why);
	a->findings = v->alerts ? zn_findings(v->alerts, &of, a->finding) : 0;
	a->hangs = a->causes && a->why[0].still;
	a->criticals = 0;
	while (a->criticals < a->findings && a->finding[a->criticals].critical)
		a->criticals++;
}

#define SAYS_MAX (ZN_WHY_MAX + ZN_SUSPICION_TEXT + 32)

/* What goes on now is said with what is known of other nodes. */
static const char *say_cause(char to[SAYS_MAX], const struct zn_why *w, const struct zn_suspicion *s)
{
	char ras[ZN_SUSPICION_TEXT];

	if (!w->still || !s || !zn_suspicion_says(s, ras))
		return w->says;
	snprintf(to, SAYS_MAX, "%s; NCCL's RAS says: %s", w->says, ras);
	return to;
}

static void put_cause(struct zn_json *j, const struct zn_why *w, const struct zn_suspicion *s)
{
	char says[SAYS_MAX];

	zn_json_open(j, '{');
	zn_json_key_text(j, "cause", zn_cause_label(w->cause));
	zn_json_key_u64(j, "percent", w->percent);
	zn_json_key_scaled(j, "lost_s", w->lost_ns, SECONDS);
	zn_json_key_text(j, "says", say_cause(says, w, s));
	zn_json_key_text(j, "next", w->next);
	zn_json_key_text(j, "sure", w->sure);
	zn_json_key_text(j, "metric", w->metric);
	zn_json_close(j, '}');
}

/* No time can be told that it costs. */
static void put_finding(struct zn_json *j, const struct zn_finding *f)
{
	zn_json_open(j, '{');
	zn_json_key_text(j, "cause", f->rule);
	zn_json_key_null(j, "percent");
	zn_json_key_null(j, "lost_s");
	zn_json_key_text(j, "says", f->says);
	zn_json_key_text(j, "next", f->next);
	zn_json_key_text(j, "sure", "measured");
	zn_json_key_text(j, "metric", f->metric);
	zn_json_close(j, '}');
}

static void put_causes(struct zn_json *j, const struct answer *a, const struct zn_suspicion *s)
{
	zn_json_key_open(j, "causes", '[');
	for (size_t i = 0; i < a->hangs; i++)
		put_cause(j, &a->why[i], s);
	for (size_t i = 0; i < a->criticals; i++)
		put_finding(j, &a->finding[i]);
	for (size_t i = a->hangs; i < a->causes; i++)
		put_cause(j, &a->why[i], s);
	for (size_t i = a->criticals; i < a->findings; i++)
		put_finding(j, &a->finding[i]);
	zn_json_close(j, ']');
}

/* The first one alone, or what there is instead. */
static void put_summary(struct zn_json *j, bool known, const struct answer *a, const struct zn_cause_step *window)
{
	char none[ZN_WHY_MAX];

	if (known)
		zn_why_none(window, none);
	else
		strcpy(none, "where the time goes is not known: the scheduler is not watched, see zerneld --check");
	if (a->criticals && !a->hangs)
		zn_json_key_text(j, "says", a->finding[0].says);
	else if (a->causes)
		zn_json_key_text(j, "says", a->why[0].says);
	else
		zn_json_key_text(j, "says", a->findings ? a->finding[0].says : none);
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
	const struct zn_suspicion *ras;
	const struct zn_cause_group *g;
	struct zn_cause_step window;
	struct answer a;

	if (!v->causes || i > ZN_JOBS_MAX)
		return false;
	g = &v->causes->group[i];
	if (!g->used || !g->processes || (*job && strcmp(job, zn_why_job_id(v, i, g))))
		return true;
	window = zn_causes_window(g, WINDOW_STEPS);
	ras = suspicion_of(v, i, g);
	zn_json_open(j, '{');
	if (*zn_why_job_id(v, i, g))
		zn_json_key_text(j, "job_id", zn_why_job_id(v, i, g));
	else
		zn_json_key_null(j, "job_id");
	zn_json_key_u64(j, "processes", g->processes);
	find_answer(&a, v, i, g, &window);
	put_summary(j, zn_agg_measures(v->agg, ZN_FAM_SCHED), &a, &window);
	put_causes(j, &a, ras);
	put_ras(j, ras, timeline);
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
