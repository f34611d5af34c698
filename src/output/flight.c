/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flight.c: what is known of a job at the moment at which it hangs, as JSON, once per episode: who has issued what
 * and when, what each process waits for, what the threads of the one to blame do in the kernel, errors of GPUs, and
 * memory. The others wait for it, so it cannot be asked later.
 */
#include <stdlib.h>
#include <string.h>

#include "zernel.h"

#define FLIGHT_VERSION 1
#define PATIENCE_NS    (3 * ZN_NS_PER_S) /* for what the threads do */
#define COMMS_MAX      8                 /* of a job */
#define PROCESSES_MAX  64                /* of a job */
#define NS             9
#define SHOWN_DECIMALS 3

static const char *const rules[] = {"nccl_hang", "job_stalled", "driver_unresponsive"};

/* ---- Which job, and when. ---- */

static bool is_flight_rule(const char *name)
{
	for (size_t i = 0; i < ZN_LEN(rules); i++)
		if (!strcmp(rules[i], name))
			return true;
	return false;
}

static struct zn_finding_of group_of(const struct zn_state *state, uint32_t i)
{
	const struct zn_cause_group *g = &state->causes->group[i];

	return (struct zn_finding_of){state->agg, {i, g->serial}, zn_why_job_id(state, i, g), state->ooms};
}

/* The first of its alerts; NULL: it does not hang. */
static const struct zn_alert *alert_of(const struct zn_state *state, uint32_t i)
{
	struct zn_finding_of of = group_of(state, i);

	for (uint32_t n = 0; n < state->alerts->count; n++) {
		const struct zn_alert *a = &state->alerts->alert[n];

		if (a->state == ZN_FIRING && !a->summed && is_flight_rule(a->rule->name) && zn_finding_concerns(&of, a))
			return a;
	}
	return NULL;
}

/* The process whose threads are looked at: the rank that others wait for, the process of the alert, or the process
 * that has stood still the longest. */
static uint32_t suspect_of(const struct zn_state *state, uint32_t i, const struct zn_alert *a)
{
	const struct zn_missing *m = &state->causes->group[i].missing;
	struct zn_finding_of of = group_of(state, i);
	uint64_t oldest_ns = UINT64_MAX;
	uint32_t pid = 0;

	if (m->waiters && !m->gone_ns)
		return m->tgid;
	if (*zn_alert_label(a, "pid"))
		return (uint32_t)strtoul(zn_alert_label(a, "pid"), NULL, 10);
	for (uint32_t r = 0; r < state->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc_of(state->agg->arena, state->agg->row[r], of.job);
		uint64_t last_ns = p ? zn_progress_last(state->progress, state->agg->row[r], p->id) : UINT64_MAX;

		if (last_ns < oldest_ns) {
			oldest_ns = last_ns;
			pid = p->tgid;
		}
	}
	return pid;
}

/* ---- What is written. ---- */

struct flight {
	const struct zn_state *state;
	const struct zn_alert *alert;
	const struct zn_threads *threads; /* NULL: not known */
	struct zn_finding_of of;
	const struct zn_cause_group *group;
	uint32_t episode;
	uint32_t comm[COMMS_MAX], comms, process[PROCESSES_MAX], processes; /* slots and rows of its own */
};

/* Writes how many seconds before this moment something was. */
static void key_before(struct zn_json *j, const char *key, uint64_t then_ns, uint64_t now_ns)
{
	zn_json_key_scaled(j, key, now_ns > then_ns ? now_ns - then_ns : 0, NS);
}

static void put_alert(struct zn_json *j, const struct flight *f)
{
	char says[240];
	struct zn_out o = {.at = says, .cap = sizeof(says) - 1};

	zn_alert_annotation(&o, f->alert, "summary");
	says[o.len] = 0;
	zn_json_key_text(j, "alert", f->alert->rule->name);
	zn_json_key_text(j, "says", says);
}

static void put_missing(struct zn_json *j, const struct flight *f)
{
	const struct zn_missing *m = &f->group->missing;
	char does[ZN_DOING_TEXT];

	if (!m->waiters) {
		zn_json_key_null(j, "missing");
		return;
	}
	zn_missing_says(m, does);
	zn_json_key_open(j, "missing", '{');
	zn_json_key_u64(j, "pid", m->tgid);
	if (m->rank == ZN_UNKNOWN)
		zn_json_key_null(j, "rank");
	else
		zn_json_key_u64(j, "rank", m->rank);
	zn_json_key_text(j, "doing", zn_doing_label(m->doing));
	zn_json_key_text(j, "says", does);
	key_before(j, "waited_for_s", m->since_ns, f->state->causes->tick_ns);
	zn_json_close(j, '}');
}

/* Ages of what it issued, the newest first: when each collective was issued, as far as the window goes. */
static void put_issues(struct zn_json *j, const struct zn_skew *s, uint32_t member, uint64_t now_ns)
{
	const struct zn_skew_rank *r = &s->member[member];
	uint64_t kept = r->issued < ZN_SKEW_WINDOW ? r->issued : ZN_SKEW_WINDOW;

	zn_json_key_open(j, "issued_s_ago", '[');
	for (uint64_t n = 1; n <= kept; n++) {
		uint64_t at_ns = s->at_ns[(r->issued - n) & (ZN_SKEW_WINDOW - 1)][member];

		zn_json_decimal(j, (now_ns > at_ns ? now_ns - at_ns : 0) / ZN_NS_PER_MS, SHOWN_DECIMALS);
	}
	zn_json_close(j, ']');
}

static void put_member(struct zn_json *j, const struct zn_skew *s, uint32_t member, uint64_t now_ns)
{
	const struct zn_skew_rank *r = &s->member[member];

	zn_json_open(j, '{');
	if (r->rank == ZN_UNKNOWN)
		zn_json_key_null(j, "rank");
	else
		zn_json_key_u64(j, "rank", r->rank);
	zn_json_key_u64(j, "pid", r->tgid);
	zn_json_key_u64(j, "issued", r->issued);
	if (r->issued)
		key_before(j, "last_s_ago", s->at_ns[(r->issued - 1) & (ZN_SKEW_WINDOW - 1)][member], now_ns);
	put_issues(j, s, member, now_ns);
	zn_json_close(j, '}');
}

/* One of its ranks is a process of the job. */
static bool is_comm_of(const struct flight *f, const struct zn_skew *s)
{
	for (uint32_t m = 0; s && m < ZN_SKEW_RANKS && m < s->members; m++)
		if (s->member[m].id && zn_arena_proc_of(f->state->agg->arena, s->member[m].row, f->of.job))
			return true;
	return false;
}

static void find_comms(struct flight *f)
{
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX && f->comms < COMMS_MAX; slot++)
		if (is_comm_of(f, zn_arena_skew(f->state->agg->arena, slot)))
			f->comm[f->comms++] = slot;
}

static void find_processes(struct flight *f)
{
	const struct zn_agg *a = f->state->agg;

	for (uint32_t r = 0; r < a->row_count && f->processes < PROCESSES_MAX; r++)
		if (zn_arena_proc_of(a->arena, a->row[r], f->of.job))
			f->process[f->processes++] = a->row[r];
}

static bool comm_item(const void *flight, struct zn_json *j, uint32_t i)
{
	const struct flight *f = flight;
	const struct zn_skew *s = i < f->comms ? zn_arena_skew(f->state->agg->arena, f->comm[i]) : NULL;
	char hash[17];

	if (!s)
		return false;
	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)s->hash);
	zn_json_open(j, '{');
	zn_json_key_text(j, "comm", hash);
	if (s->nranks && s->nranks != ZN_UNKNOWN)
		zn_json_key_u64(j, "nranks", s->nranks);
	else
		zn_json_key_null(j, "nranks");
	zn_json_key_open(j, "ranks", '[');
	for (uint32_t m = 0; m < ZN_SKEW_RANKS && m < s->members; m++)
		put_member(j, s, m, f->state->causes->tick_ns);
	zn_json_close(j, ']');
	zn_json_close(j, '}');
	return true;
}

static bool process_item(const void *flight, struct zn_json *j, uint32_t i)
{
	const struct flight *f = flight;
	const struct zn_proc *p =
		i < f->processes ? zn_arena_proc_of(f->state->agg->arena, f->process[i], f->of.job) : NULL;

	if (!p)
		return false;
	zn_json_open(j, '{');
	zn_json_key_u64(j, "pid", p->tgid);
	key_before(j, "progress_s_ago", zn_progress_last(f->state->progress, f->process[i], p->id),
		f->state->progress->tick_ns);
	zn_stalls_json(j, f->state, f->process[i]);
	zn_json_close(j, '}');
	return true;
}

static void put_threads(struct zn_json *j, const struct zn_threads *t)
{
	if (!t || !t->done) {
		zn_json_key_null(j, "threads");
		return;
	}
	zn_json_key_open(j, "threads", '{');
	zn_json_key_u64(j, "pid", t->pid);
	zn_json_key_u64(j, "count", t->all);
	zn_json_key_open(j, "seen", '[');
	for (uint32_t i = 0; i < t->count; i++) {
		const struct zn_thread_seen *s = &t->thread[i];

		zn_json_open(j, '{');
		zn_json_key_u64(j, "tid", s->tid);
		zn_json_key_text(j, "name", s->name);
		zn_json_key_text(j, "state", (char[2]){s->state, 0});
		zn_json_key_text(j, "wchan", s->place);
		zn_json_key_text(j, "syscall", s->syscall);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
	zn_json_close(j, '}');
}

static bool gpu_error_item(const void *flight, struct zn_json *j, uint32_t i)
{
	const struct zn_xids *x = ((const struct flight *)flight)->state->xids;

	if (!x || i >= x->count)
		return false;
	zn_json_open(j, '{');
	zn_json_key_text(j, "pci", x->xid[i].pci);
	if (x->xid[i].amdgpu)
		zn_json_key_text(j, "amdgpu", zn_amdgpu_label(x->xid[i].amdgpu));
	else
		zn_json_key_u64(j, "xid", x->xid[i].xid);
	if (x->xid[i].nonfatal)
		zn_json_key_text(j, "nonfatal", "yes");
	zn_json_key_u64(j, "times", x->xid[i].times);
	zn_json_close(j, '}');
	return true;
}

static void key_memory(struct zn_json *j, const char *key, uint64_t v)
{
	if (v == ZN_NOT_KNOWN)
		zn_json_key_null(j, key);
	else
		zn_json_key_u64(j, key, v);
}

/* Of the control group of the process that is looked at: a job that is at its limit is slow before it is killed. */
static void put_memory(struct zn_json *j, const struct flight *f)
{
	const char *proc =
		f->state->causes->proc; /* NULL where processes are simulated: who has such an id is somebody else */
	struct zn_cgroup_memory m;

	if (!f->threads || !proc || !zn_cgroup_memory(proc, f->threads->pid, &m)) {
		zn_json_key_null(j, "memory");
		return;
	}
	zn_json_key_open(j, "memory", '{');
	key_memory(j, "used_bytes", m.used);
	key_memory(j, "limit_bytes", m.limit);
	key_memory(j, "oom_kills", m.oom_kills);
	zn_json_close(j, '}');
}

static void put_head(struct zn_json *j, const struct flight *f)
{
	const struct zn_job *job = f->of.job.serial ? zn_jobs_at(f->state->jobs, f->of.job) : NULL;

	zn_json_key_u64(j, "flight", FLIGHT_VERSION);
	if (job) {
		zn_json_key_text(j, "job_id", job->id);
		zn_json_key_u64(j, "restart", job->restart);
	} else {
		zn_json_key_null(j, "job_id");
	}
	if (job && job->uid != ZN_UNKNOWN)
		zn_json_key_u64(j, "uid", job->uid);
	else
		zn_json_key_null(j, "uid");
	zn_json_key_text(j, "node", f->state->node);
	zn_json_key_text(j, "source", zn_state_source(f->state));
	zn_json_key_u64(j, "at_ms", zn_wall_ms());
	zn_json_key_u64(j, "episode", f->episode);
}

static void put_flight(struct zn_out *o, const struct flight *f)
{
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	put_head(&j, f);
	put_alert(&j, f);
	put_missing(&j, f);
	zn_labels_json(&j, zn_annotations_of(f->state->annotations, f->of.job), false);
	put_threads(&j, f->threads);
	put_memory(&j, f);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "processes", '[', process_item, f);
	whole &= zn_json_list(&j, "communicators", '[', comm_item, f);
	whole &= zn_json_list(&j, "gpu_errors", '[', gpu_error_item, f);
	zn_json_end(&j, whole);
}

/* ---- The tick. ---- */

static void write_flight(
	struct zn_flights *t, uint32_t i, const struct zn_alert *alert, const struct zn_threads *threads)
{
	struct zn_out o = {.at = t->text, .cap = sizeof(t->text)};
	struct flight f = {.state = t->state,
		.alert = alert,
		.threads = threads,
		.of = group_of(t->state, i),
		.group = &t->state->causes->group[i],
		.episode = t->group[i].episodes};
	const struct zn_job *job = f.of.job.serial ? zn_jobs_at(t->state->jobs, f.of.job) : NULL;
	char name[ZN_NAME_BYTES];

	find_comms(&f);
	find_processes(&f);
	put_flight(&o, &f);
	zn_job_file_hang(name, job ? job->id : "", job ? job->restart : 0, f.episode);
	if (!o.full)
		t->write(t->owner, name, (struct zn_str){t->text, o.len});
}

/* An episode begins with its first alert, and is over when none of them fires. One job is looked at at a time. */
static void group_tick(struct zn_flights *t, uint32_t i)
{
	const struct zn_alert *alert = alert_of(t->state, i);
	struct zn_flight_group *g = &t->group[i];
	struct zn_threads *threads = &t->threads;

	if (g->serial != t->state->causes->group[i].serial)
		*g = (struct zn_flight_group){.serial = t->state->causes->group[i].serial};
	if (!alert) {
		g->written = false;
		t->asks &= t->asked != i;
	}
	if (!alert || g->written || (t->asks && t->asked != i))
		return;
	if (!t->asks) {
		*threads = (struct zn_threads){.pid = suspect_of(t->state, i, alert)};
		t->asks = true;
		t->asked = i;
		t->since_ns = t->now_ns;
	}
	if (t->look && !t->look(t->owner_of_look, threads) && t->now_ns - t->since_ns < PATIENCE_NS)
		return;
	t->asks = false;
	g->written = true;
	g->episodes++;
	write_flight(t, i, alert, threads);
}

void zn_flights_tick(struct zn_flights *t, uint64_t now_ns)
{
	t->now_ns = now_ns;
	for (uint32_t i = 0; i <= ZN_JOBS_MAX; i++)
		if (t->state->causes->group[i].used)
			group_tick(t, i);
}
