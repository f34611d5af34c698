/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_self.c: what metrics of the daemon itself yield: its probes, alerts, clients, tables and drops. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "zernel.h"

void zn_metrics_self_alerts(struct zn_walk *w)
{
	const struct zn_alerts *a = w->state->alerts;

	for (uint32_t i = 0; i < a->rules->rule_count; i++) {
		const struct zn_rule *rule = &a->rules->rule[i];

		if (w->brief && !zn_alerts_rule_state(a, rule))
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "alert", rule->name);
		zn_walk_label(w, "severity", rule->severity);
		zn_walk_integer(w, zn_alerts_rule_state(a, rule));
	}
}

void zn_metrics_self_build(struct zn_walk *w)
{

	zn_walk_series(w);
	zn_walk_label(w, "version", zn_version);
	zn_walk_label(w, "commit", zn_commit);
	zn_walk_label(w, "source", zn_state_source(w->state));
	zn_walk_integer(w, 1);
}

void zn_metrics_self_kernel(struct zn_walk *w)
{

	zn_walk_series(w);
	zn_walk_label(w, "release", w->state->release);
	zn_walk_integer(w, 1);
}

/* Two files may have one path, in two mount namespaces or one after the other: the inode tells them apart. */
static void attached_series(void *to, const struct zn_lib *lib)
{
	struct zn_walk *w = to;
	const struct zn_probe *p = w->state->probe;
	char unique[ZN_TEXT_MAX + 64];

	if (w->has_library && w->has_library(w->to, lib))
		return;
	snprintf(unique, sizeof(unique), "%s@%lx:%lu", lib->path, lib->dev, lib->ino);
	for (uint32_t i = 0; i < p->hook_count; i++) {
		if (!zn_hook_fits(&p->hook[i], lib->kind))
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(p->hook[i].family));
		zn_walk_label(w, "symbol", p->hook[i].name);
		zn_walk_label(w, "library", unique);
		zn_walk_integer(w, lib->symbol[i] == ZN_SYM_ATTACHED);
	}
	if (w->had_library)
		w->had_library(w->to, lib);
}

/* A place has up to two programs, at its entry and its return. */
static bool is_second(const struct zn_kernel *k, uint32_t at)
{
	const struct zn_attach_point *s = &k->point[at];

	for (uint32_t i = at; i-- > 0 && k->point[i].family == s->family;)
		if (k->point[i].prog_fd >= 0 && strcmp(k->point[i].place, s->place) == 0)
			return true;
	return false;
}

/* Each place of the method in use once. */
static void attached_points(struct zn_walk *w, const struct zn_kernel *k)
{
	for (uint32_t i = 0; i < k->point_count; i++) {
		const struct zn_attach_point *s = &k->point[i], *with = s->of ? &k->point[s->of - 1] : s;

		if (with->prog_fd < 0 && s->state != ZN_SYM_FAILED)
			continue;
		if (is_second(k, i))
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(s->family));
		zn_walk_label(w, "symbol", s->place);
		zn_walk_label(w, "library", "kernel");
		zn_walk_integer(w, with->link_fd >= 0);
	}
}

void zn_metrics_self_attached(struct zn_walk *w)
{
	if (w->state->probe)
		attached_points(w, &w->state->probe->kernel);
	if (w->state->find)
		zn_libraries_visit(zn_find_libraries(w->state->find), attached_series, w);
}

struct library_counts {
	uint64_t hooked, waiting;
};

static void count_library(void *to, const struct zn_lib *lib)
{
	struct library_counts *n = to;

	*(lib->waiting ? &n->waiting : &n->hooked) += 1;
}

void zn_metrics_self_libraries(struct zn_walk *w)
{
	struct library_counts n = {0};

	if (!w->state->find)
		return;
	zn_libraries_visit(zn_find_libraries(w->state->find), count_library, &n);
	zn_walk_series(w);
	zn_walk_label(w, "state", "hooked");
	zn_walk_integer(w, n.hooked);
	zn_walk_series(w);
	zn_walk_label(w, "state", "waiting");
	zn_walk_integer(w, n.waiting);
}

void zn_metrics_self_hang(struct zn_walk *w)
{
	char why[ZN_TEXT_MAX];

	if (w->state->find)
		zn_walk_one(w, zn_state_hang(w->state, why), 9);
}

static uint64_t hits_of(const struct zn_agg *agg, enum zn_family f)
{
	uint64_t hits = 0;

	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++) {
		hits += agg->gone_count[ZN_C_HIT(f, first)];
		for (uint32_t r = 0; r < agg->row_count; r++)
			hits += agg->arena->procs[agg->row[r]].count[ZN_C_HIT(f, first)];
	}
	return hits;
}

void zn_metrics_self_hits(struct zn_walk *w)
{

	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(f));
		zn_walk_integer(w, hits_of(w->state->agg, f));
	}
}

void zn_metrics_self_bias(struct zn_walk *w)
{
	const struct zn_probe *p = w->state->probe;

	for (enum zn_insn i = 0; p && i < ZN_INSN_COUNT; i++) {
		if (!p->bias[i].samples)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "first_instruction", zn_insn_label(i));
		zn_walk_calibration(w, &p->bias[i]);
	}
}

void zn_metrics_self_run(struct zn_walk *w)
{
	struct zn_probe *p = w->state->probe;
	const char *name;

	for (uint32_t i = 0; p && i < ZN_PROGRAMS; i++) {
		uint64_t ns = zn_stats_run_ns(p, i, &name);

		if (ns == 0)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "program", name);
		zn_walk_scaled(w, ns, 9);
	}
}

void zn_metrics_self_duty(struct zn_walk *w)
{

	for (enum zn_family f = 0; w->state->probe && f < ZN_FAMILY_COUNT; f++) {
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(f));
		zn_walk_scaled(w, w->state->agg->family_cost_rate[f], 12);
	}
}

void zn_metrics_self_lost(struct zn_walk *w)
{
	const struct zn_state *state = w->state;

	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++) {
		if (w->brief && !zn_state_lost(state, i))
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "what", zn_loss_label(i));
		zn_walk_integer(w, zn_state_lost(state, i));
	}
}

/* Of each kind of destination that is given. */
void zn_metrics_self_sent(struct zn_walk *w)
{
	const struct zn_sender *c = w->state->sender;

	for (enum zn_outbound to = 0; c && to < ZN_TO_COUNT; to++)
		for (enum zn_sent i = 0; c->destinations[to] && i < ZN_SENT_COUNT; i++) {
			zn_walk_series(w);
			zn_walk_label(w, "to", zn_outbound_label(to));
			zn_walk_label(w, "result", zn_sent_label(i));
			zn_walk_integer(w, c->sum[to].sent[i]);
		}
}

/* Questions to NCCL's RAS service, while it may be asked. */
void zn_metrics_self_ras(struct zn_walk *w)
{
	const struct zn_suspicions *s = w->state->suspicions;

	for (enum zn_inquiry_outcome i = 0; s && s->on && i < ZN_INQUIRY_COUNT; i++) {
		zn_walk_series(w);
		zn_walk_label(w, "outcome", zn_inquiry_label(i));
		zn_walk_integer(w, s->outcomes[i]);
	}
}

/* What a sender that has ended did not send is not known to be anywhere. */
void zn_metrics_self_outbound(struct zn_walk *w)
{
	const struct zn_sender *c = w->state->sender;
	const bool *waiting = w->metric->arg;

	for (enum zn_outbound to = 0; c && to < ZN_TO_COUNT; to++)
		if (c->destinations[to] && (!*waiting || c->worker.fd >= 0)) {
			zn_walk_series(w);
			zn_walk_label(w, "to", zn_outbound_label(to));
			zn_walk_integer(w, *waiting ? c->sum[to].queued : zn_sender_down(c, to));
		}
}

void zn_metrics_self_tables(struct zn_walk *w)
{
	const bool *limits = w->metric->arg;
	struct zn_usage usage[ZN_USAGES_MAX];
	size_t n = zn_state_usage(w->state, usage);

	for (size_t i = 0; i < n; i++) {
		zn_walk_series(w);
		zn_walk_label(w, "table", usage[i].table);
		zn_walk_integer(w, *limits ? usage[i].limit : usage[i].entries);
	}
}

void zn_metrics_self_requests(struct zn_walk *w)
{
	static const char *const code[] = {
#define X(n) #n,
		ZN_CODES(X)
#undef X
	};
	const struct zn_http_stats *s = w->state->http;

	for (uint32_t i = 0; s && i < (ZN_ROUTES_MAX + 1) * ZN_CODE_COUNT; i++) {
		uint32_t route = i / ZN_CODE_COUNT;

		if (s->requests[route][i % ZN_CODE_COUNT] == 0)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "path", route < ZN_ROUTES_MAX ? s->path[route] : "other");
		zn_walk_label(w, "code", code[i % ZN_CODE_COUNT]);
		zn_walk_integer(w, s->requests[route][i % ZN_CODE_COUNT]);
	}
}

void zn_metrics_self_connections(struct zn_walk *w)
{
	zn_walk_one(w, w->state->http ? w->state->http->conn_count : 0, 0);
}

void zn_metrics_self_clients(struct zn_walk *w)
{
	zn_walk_one(w, w->state->http ? w->state->http->ws_count : 0, 0);
}

void zn_metrics_self_ticks(struct zn_walk *w)
{
	zn_walk_one(w, w->state->ticks, 0);
}

void zn_metrics_self_render(struct zn_walk *w)
{
	zn_walk_one(w, w->state->http ? w->state->http->scrape_ns : 0, 9);
}

/* This series exists once there was an export. */
void zn_metrics_self_export(struct zn_walk *w)
{
	if (w->state->export && w->state->export->render_ns)
		zn_walk_one(w, w->state->export->render_ns, 9);
}

void zn_metrics_self_cpu(struct zn_walk *w)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	zn_walk_one(w, ts.tv_sec * ZN_NS_PER_S + ts.tv_nsec, 9);
}

void zn_metrics_self_resident(struct zn_walk *w)
{
	zn_walk_one(w, w->state->resident_bytes, 0);
}

void zn_metrics_self_fds(struct zn_walk *w)
{
	zn_walk_one(w, w->state->open_fds, 0);
}

void zn_metrics_self_start(struct zn_walk *w)
{
	zn_walk_one(w, w->state->start_wall_ms, 3);
}
