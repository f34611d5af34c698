/* SPDX-License-Identifier: GPL-2.0 */
/*
 * why.c: GET /why and the snapshot's key of that name: for each job that runs, and for the processes of none, what
 * its time was lost to over the last minute, longest first, with what to do next.
 */
#include "zernel.h"
#include <stddef.h>
#include <string.h>

#define WINDOW_STEPS (60 / ZN_CAUSE_STEP_S)
#define SECONDS      9 /* decimals from nanoseconds */

#define BAND_COLUMNS 60 /* of the line of 15 minutes that a terminal shows */
#define BAND_STEPS   (ZN_CAUSE_STEPS / BAND_COLUMNS)
#define BAND_LEVELS  8 /* eighths of a column's height */

const char *zn_why_job_id(const struct zn_state *state, uint32_t index, const struct zn_cause_group *g)
{
	const struct zn_job *job =
		state->jobs && g->serial ? zn_jobs_at(state->jobs, (struct zn_job_ref){index, g->serial}) : NULL;

	return job ? job->id : "";
}

/* ---- What NCCL's RAS service says. ---- */

static struct zn_job_ref tag_of(uint32_t index, const struct zn_cause_group *g)
{
	return index == ZN_JOBS_MAX ? (struct zn_job_ref){0} : (struct zn_job_ref){index, g->serial};
}

/* Of a job that is suspected to hang; NULL: there is nothing. */
static const struct zn_suspicion *suspicion_of(
	const struct zn_state *state, uint32_t index, const struct zn_cause_group *g)
{
	return zn_suspicion_of(state->suspicions, tag_of(index, g));
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

/* All that is said of a job. What loses time and what is wrong beside it are one list: a hang, what is critical,
 * what loses time, and the rest. */
struct answer {
	struct zn_why why[ZN_CAUSE_COUNT];
	struct zn_finding finding[ZN_FINDINGS_MAX + ZN_LATENCY_SIGNALS];
	size_t causes, findings, hangs, criticals;
};

/* Alerts that a cause of the same job says better. still: only one that goes on now. */
static const struct {
	const char *rule;
	enum zn_cause cause;
	bool still;
} same[] = {
	{"tcp_retransmits", ZN_CAUSE_NETWORK, false},
	{"job_stalled", ZN_CAUSE_HANG, true},
	{"job_stalled", ZN_CAUSE_ALL_WAIT, true},
	{"job_stalled", ZN_CAUSE_STOPPED, true},
};

static bool said_by_cause(const struct answer *a, const char *rule)
{
	for (size_t i = 0; i < ZN_LEN(same); i++)
		for (size_t n = 0; n < a->causes && !strcmp(same[i].rule, rule); n++)
			if (a->why[n].cause == same[i].cause && (a->why[n].still || !same[i].still))
				return true;
	return false;
}

/* Of a server whose requests are unusually slow what they wait for is said, which is more. */
static bool said_of_server(const struct zn_finding *f, const struct zn_finding *slow, size_t count)
{
	if (!strcmp(f->rule, "requests_unusual"))
		return count > 0;
	for (size_t i = 0; i < count && !strcmp(f->rule, "requests_unread"); i++)
		if (!strcmp(slow[i].metric, "zernel_request_unread_seconds"))
			return true;
	return false;
}

static void drop_said(struct answer *a, const struct zn_finding *slow, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < a->findings; i++)
		if (!said_by_cause(a, a->finding[i].rule) && !said_of_server(&a->finding[i], slow, count))
			a->finding[kept++] = a->finding[i];
	a->findings = kept;
}

/* Behind what is critical. */
static void insert_slow(struct answer *a, const struct zn_finding *slow, size_t count)
{
	memmove(a->finding + a->criticals + count, a->finding + a->criticals,
		(a->findings - a->criticals) * sizeof(a->finding[0]));
	memcpy(a->finding + a->criticals, slow, count * sizeof(a->finding[0]));
	a->findings += count;
}

static void find_answer(struct answer *a, const struct zn_state *state, uint32_t index, const struct zn_cause_group *g,
	const struct zn_cause_step *window)
{
	struct zn_finding_of of = {state->agg, {index, g->serial}, zn_why_job_id(state, index, g), state->ooms};
	struct zn_finding slow[ZN_LATENCY_SIGNALS];
	size_t slows = zn_slow_findings(state->slowness, state->agg->arena, tag_of(index, g), slow);

	a->causes = zn_why_list(g, window, state->causes->tick_ns, a->why);
	a->findings = state->alerts ? zn_findings(state->alerts, &of, a->finding) : 0;
	drop_said(a, slow, slows);
	a->hangs = a->causes && a->why[0].still;
	a->criticals = 0;
	while (a->criticals < a->findings && a->finding[a->criticals].critical)
		a->criticals++;
	insert_slow(a, slow, slows);
}

#define SAYS_MAX (ZN_WHY_MAX + ZN_SUSPICION_TEXT + 32)

/* What goes on now is said with what is known of other nodes. */
static const char *say_cause(char to[SAYS_MAX], const struct zn_why *w, const struct zn_suspicion *s)
{
	char ras[ZN_SUSPICION_TEXT];

	if (!w->still || w->cause == ZN_CAUSE_STOPPED || !s || !zn_suspicion_says(s, ras))
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

/* The time that it costs is not known. */
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

/* Per cent of each step, oldest first, without the one at hand; null: the processes had no time in it. at: of a
 * field. */
static void put_line(struct zn_json *j, const struct zn_cause_group *g, uint32_t n, const char *label, size_t at)
{
	zn_json_key_open(j, label, '[');
	for (uint32_t i = n; i; i--) {
		const struct zn_cause_step *s = &g->step[(g->steps - i) % ZN_CAUSE_STEPS];

		if (s->time_ns)
			zn_json_u64(j, zn_why_percent(*(const uint64_t *)((const char *)s + at), s->time_ns));
		else
			zn_json_null(j);
	}
	zn_json_close(j, ']');
}

/* By cause. A cause without time is left out. */
static void put_timeline(struct zn_json *j, const struct zn_cause_group *g)
{
	uint32_t n = g->steps < ZN_CAUSE_STEPS - 1 ? g->steps : ZN_CAUSE_STEPS - 1;
	struct zn_cause_step all = zn_causes_window(g, ZN_CAUSE_STEPS);

	zn_json_key_open(j, "timeline", '{');
	zn_json_key_u64(j, "step_s", ZN_CAUSE_STEP_S);
	zn_json_key_u64(j, "steps", n);
	put_line(j, g, n, "gpu", offsetof(struct zn_cause_step, gpu_ns));
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
		if (zn_why_percent(all.lost_ns[cause], all.time_ns))
			put_line(j, g, n, zn_cause_label(cause),
				offsetof(struct zn_cause_step, lost_ns) + cause * sizeof(all.lost_ns[0]));
	zn_json_close(j, '}');
}

/* ---- Its state, in a word. ---- */

static bool job_progress(const struct zn_state *state, uint32_t index, const struct zn_cause_group *g, uint64_t *age_ns,
	uint64_t *limit_ns)
{
	const struct zn_job *job =
		state->jobs && g->serial ? zn_jobs_at(state->jobs, (struct zn_job_ref){index, g->serial}) : NULL;

	return job && state->jobs_progress && zn_job_progress(state->jobs_progress, job, age_ns, limit_ns);
}

/* The share of what is named. */
static uint32_t lost_percent(const struct answer *a)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < a->causes; i++)
		sum += a->why[i].percent;
	return sum < 100 ? sum : 100;
}

/* NCCL's RAS service names a rank that stands out. */
static bool ras_names(const struct zn_suspicion *s)
{
	bool names = false;

	for (uint32_t i = 0; s && s->state == ZN_SUSPICION_OVER && i < s->answer.count; i++)
		names |= s->answer.comm[i].odd > 0;
	return names;
}

/* That all ranks of this node wait is a hang if somebody is known to be missing elsewhere; one long kernel looks the
 * same. */
static const char *state_of_still(enum zn_cause cause, const struct zn_suspicion *s)
{
	if (cause == ZN_CAUSE_STOPPED)
		return "stopped";
	return cause == ZN_CAUSE_HANG || ras_names(s) ? "hangs" : NULL;
}

/* Nine tenths of what time there is: a job whose ranks begin one after the other starts until the last one has. */
static bool is_starting(const struct zn_cause_step *window)
{
	return window->lost_ns[ZN_CAUSE_STARTUP] >= window->time_ns - window->time_ns / 10;
}

static const char *state_of(const struct zn_state *state, const struct answer *a, const struct zn_cause_step *window,
	bool still, const struct zn_suspicion *s)
{
	const char *stands = a->hangs ? state_of_still(a->why[0].cause, s) : NULL;

	if (stands)
		return stands;
	if (still)
		return "still";
	if (a->criticals)
		return "critical";
	if (!zn_agg_measures(state->agg, ZN_FAM_SCHED))
		return "unknown";
	if (a->hangs)
		return "waits";
	if (is_starting(window))
		return "starting";
	if (a->causes && a->why[0].cause == ZN_CAUSE_IDLE && a->why[0].percent >= 50)
		return "idle";
	if (a->causes)
		return "loses";
	return a->findings ? "warned" : "runs";
}

static void put_state(struct zn_json *j, const struct zn_state *state, uint32_t index, const struct zn_cause_group *g,
	const struct zn_cause_step *window, const struct answer *a)
{
	const struct zn_suspicion *ras = suspicion_of(state, index, g);
	uint64_t age_ns = 0, limit_ns = 0;
	bool known = job_progress(state, index, g, &age_ns, &limit_ns);

	zn_json_key_text(j, "state", state_of(state, a, window, known && age_ns >= limit_ns, ras));
	zn_json_key_u64(j, "lost_percent", is_starting(window) ? 0 : lost_percent(a));
	if (known)
		zn_json_key_scaled(j, "progress_age_s", age_ns, SECONDS);
	else
		zn_json_key_null(j, "progress_age_s");
}

/* ---- Its ranks that stand out. ---- */

static void put_pid(struct zn_json *j, const char *key, uint32_t pid)
{
	if (pid)
		zn_json_key_u64(j, key, pid);
	else
		zn_json_key_null(j, key);
}

/* The late rank counts as long as lateness is named as a cause. */
static uint32_t late_pid(const struct zn_cause_group *g, const struct answer *a)
{
	for (size_t i = 0; i < a->causes; i++)
		if (a->why[i].cause == ZN_CAUSE_STRAGGLER)
			return g->numbers.late_pid;
	return 0;
}

static void put_odd(struct zn_json *j, const struct zn_cause_group *g, const struct answer *a)
{
	const struct zn_missing *m = &g->missing;

	put_pid(j, "missing_pid", m->waiters ? m->tgid : 0);
	if (m->waiters && m->rank != ZN_UNKNOWN)
		zn_json_key_u64(j, "missing_rank", m->rank);
	else
		zn_json_key_null(j, "missing_rank");
	put_pid(j, "late_pid", late_pid(g, a));
}

/* ---- The last step, and the line of them all. ---- */

static void put_step(struct zn_json *j, const struct zn_cause_group *g)
{
	const struct zn_cause_step *s = &g->step[(g->steps + ZN_CAUSE_STEPS - 1) % ZN_CAUSE_STEPS];

	zn_json_key_u64(j, "steps", g->steps);
	if (!g->steps || !s->time_ns) {
		zn_json_key_null(j, "step");
		return;
	}
	zn_json_key_open(j, "step", '{');
	zn_json_key_u64(j, "gpu", zn_why_percent(s->gpu_ns, s->time_ns));
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
		if (zn_why_percent(s->lost_ns[cause], s->time_ns))
			zn_json_key_u64(j, zn_cause_label(cause), zn_why_percent(s->lost_ns[cause], s->time_ns));
	zn_json_close(j, '}');
}

/* The letters of the waits view, and h for a hang. */
static const char letters[ZN_CAUSE_COUNT] = {
	[ZN_CAUSE_HANG] = 'h',
	[ZN_CAUSE_ALL_WAIT] = 'n',
	[ZN_CAUSE_STRAGGLER] = 'n',
	[ZN_CAUSE_NETWORK] = 'n',
	[ZN_CAUSE_COMMUNICATION] = 'n',
	[ZN_CAUSE_INPUT_CPU] = 'd',
	[ZN_CAUSE_INPUT_WORKERS] = 'd',
	[ZN_CAUSE_INPUT_FILES] = 'd',
	[ZN_CAUSE_INPUT_TRANSFER] = 'd',
	[ZN_CAUSE_INPUT_ITSELF] = 'd',
	[ZN_CAUSE_CHECKPOINT] = 'i',
	[ZN_CAUSE_STORAGE] = 'i',
	[ZN_CAUSE_CPUS] = 'r',
	[ZN_CAUSE_THROTTLED] = 'r',
	[ZN_CAUSE_LAUNCHES] = 'c',
	[ZN_CAUSE_COPIES] = 'c',
	[ZN_CAUSE_HOST] = 'c',
	[ZN_CAUSE_IDLE] = 'o',
	[ZN_CAUSE_STARTUP] = 'o',
	[ZN_CAUSE_STOPPED] = 'o',
};

static void add_step(struct zn_cause_step *to, const struct zn_cause_step *s)
{
	to->time_ns += s->time_ns;
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
		to->lost_ns[cause] += s->lost_ns[cause];
}

/* The longest cause and how high what is lost stands: "h8"; "g1": no cause takes much; ". ": it is not known. */
static void put_column(char to[2], const struct zn_cause_step *s)
{
	enum zn_cause longest = 0;
	char letter = 'g';
	uint64_t lost = 0;

	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++) {
		lost += s->lost_ns[cause];
		if (s->lost_ns[cause] > s->lost_ns[longest])
			longest = cause;
	}
	if (zn_why_percent(s->lost_ns[longest], s->time_ns) >= ZN_WHY_LEAST)
		letter = letters[longest];
	lost = s->time_ns ? (lost * BAND_LEVELS + s->time_ns / 2) / s->time_ns : 0;
	to[0] = s->time_ns ? letter : '.';
	to[1] = !s->time_ns ? ' ' : (char)('0' + (lost < BAND_LEVELS ? lost : BAND_LEVELS));
}

static void put_bands(struct zn_json *j, const struct zn_cause_group *g)
{
	uint32_t last = g->steps ? (g->steps - 1) / BAND_STEPS : 0, kept = ZN_CAUSE_STEPS - 1;
	uint32_t column = last >= BAND_COLUMNS ? last - BAND_COLUMNS + 1 : 0;
	char bands[2 * BAND_COLUMNS];
	size_t len = 0;

	for (; g->steps && column <= last; column++, len += 2) {
		struct zn_cause_step sum = {0};

		for (uint32_t i = column * BAND_STEPS; i < (column + 1) * BAND_STEPS && i < g->steps; i++)
			if (g->steps - i <= kept)
				add_step(&sum, &g->step[i % ZN_CAUSE_STEPS]);
		put_column(bands + len, &sum);
	}
	zn_json_key(j, "bands");
	zn_json_bytes(j, bands, len);
}

bool zn_why_item(struct zn_json *j, const struct zn_state *state, uint32_t i, const char *job, bool timeline)
{
	const struct zn_suspicion *ras;
	const struct zn_cause_group *g;
	struct zn_cause_step window;
	struct answer a;

	if (!state->causes || i > ZN_JOBS_MAX)
		return false;
	g = &state->causes->group[i];
	if (!g->used || !g->processes || (*job && strcmp(job, zn_why_job_id(state, i, g))))
		return true;
	window = zn_causes_window(g, WINDOW_STEPS);
	ras = suspicion_of(state, i, g);
	zn_json_open(j, '{');
	if (*zn_why_job_id(state, i, g))
		zn_json_key_text(j, "job_id", zn_why_job_id(state, i, g));
	else
		zn_json_key_null(j, "job_id");
	zn_json_key_u64(j, "processes", g->processes);
	find_answer(&a, state, i, g, &window);
	put_summary(j, zn_agg_measures(state->agg, ZN_FAM_SCHED), &a, &window);
	put_state(j, state, i, g, &window, &a);
	put_odd(j, g, &a);
	zn_labels_json(j, zn_annotations_of(state->annotations, tag_of(i, g)), timeline);
	put_causes(j, &a, ras);
	if (timeline)
		zn_lines_where(j, state, zn_why_job_id(state, i, g));
	put_ras(j, ras, timeline);
	put_step(j, g);
	put_bands(j, g);
	if (timeline)
		put_timeline(j, g);
	zn_json_close(j, '}');
	return true;
}

struct scope {
	const struct zn_state *state;
	const char *job;
};

static bool put_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct scope *s = scope;

	return zn_why_item(j, s->state, i, s->job, true);
}

void zn_why_json(struct zn_out *o, const struct zn_state *state, const struct zn_filter *filter)
{
	struct scope s = {.state = state, .job = filter ? filter->job : ""};
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "node", state->node);
	zn_json_key_text(&j, "source", zn_state_source(state));
	zn_json_key_u64(&j, "window_s", WINDOW_STEPS * ZN_CAUSE_STEP_S);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "why", '[', put_item, &s);
	zn_json_end(&j, whole);
}
