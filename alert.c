/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alert.c: rules over the view, evaluated every tick. An instance of a rule is inactive, pending or firing;
 * only what is not inactive takes room in the table. States do not outlive the daemon, and nothing is sent
 * anywhere: what fires or resolves is one line in the log.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "zernel.h"

#define BUDGET_CLEAR 0.8 /* of the budget */
#define PPM          1e6

static bool gpu_memory(const struct zn_view *v, uint32_t i, double *value, char label[48])
{
	const struct zn_gpu *gpu = v->agg->gpus.gpu + i;

	if (i >= v->agg->gpus.count)
		return false;
	memcpy(label, gpu->id, sizeof(gpu->id));
	*value = NAN;
	if (gpu->total_bytes && strcmp(gpu->id, "unknown"))
		*value = (double)gpu->used_bytes / (double)gpu->total_bytes;
	return true;
}

/* Share of one core that a process spends in our probes. */
static bool hook_cost(const struct zn_view *v, uint32_t i, double *value, char label[48])
{
	const struct zn_agg *agg = v->agg;

	if (!v->probe || i >= agg->row_count)
		return false;
	snprintf(label, 48, "%" PRIu32, agg->arena->shared->row_tgid[agg->row[i]]);
	*value = (double)agg->info[agg->row[i]].cost_rate / 1000 / (double)ZN_NS_PER_S;
	return true;
}

static bool new_losses(const struct zn_view *v, uint32_t i, double *value, char label[48])
{
	static const enum zn_loss watched[] = {ZN_LOST_RINGBUF, ZN_LOST_SERIES, ZN_LOST_PROCESS, ZN_LOST_THREAD,
		ZN_LOST_ALLOC, ZN_LOST_JOB, ZN_LOST_TASK};
	static const char *const labels[] = {
#define X(e, text, help) [ZN_LOST_##e] = text,
		ZN_LOSSES(X)
#undef X
	};

	if (i >= ZN_LEN(watched))
		return false;
	snprintf(label, 48, "%s", labels[watched[i]]);
	*value = (double)v->alerts->new_losses[watched[i]];
	return true;
}

static const struct zn_rule rules[] = {
	{"gpu_oom_warning", "critical", "the memory of a GPU is nearly full", gpu_memory, "gpu_id", 0.95, 0.93,
		.for_ms = 10000},
	{"probe_overhead", "warning", "hooked calls cost a process more than --overhead-budget", hook_cost, "pid",
		.for_ms = 30000},
	{"events_lost", "warning", "a table was full, so something was not measured", new_losses, "what",
		.keep_ms = 60000},
};
_Static_assert(ZN_LEN(rules) <= ZN_LEN(((struct zn_alerts *)0)->rule), "struct zn_alerts has no room for another rule");

void zn_alerts_init(struct zn_alerts *a, const struct zn_options *o)
{
	*a = (struct zn_alerts){.rule_count = ZN_LEN(rules)};
	memcpy(a->rule, rules, sizeof(rules));
	for (uint32_t i = 0; i < a->rule_count; i++) {
		if (a->rule[i].value != hook_cost)
			continue;
		a->rule[i].above = (double)o->overhead_budget / PPM;
		a->rule[i].clear = a->rule[i].above * BUDGET_CLEAR;
	}
}

const char *zn_alert_state_label(enum zn_alert_state s)
{
	static const char *const labels[] = {
		[ZN_INACTIVE] = "inactive", [ZN_PENDING] = "pending", [ZN_FIRING] = "firing"};

	return s < ZN_LEN(labels) ? labels[s] : "unknown";
}

enum zn_alert_state zn_rule_state(const struct zn_alerts *a, const struct zn_rule *r)
{
	enum zn_alert_state highest = ZN_INACTIVE;

	for (uint32_t i = 0; i < a->count; i++)
		if (a->alert[i].rule == r && a->alert[i].state > highest)
			highest = a->alert[i].state;
	return highest;
}

static void enter(struct zn_alert *alert, enum zn_alert_state state, uint64_t now_ns)
{
	const struct zn_rule *rule = alert->rule;

	if (state == ZN_FIRING)
		zn_log(ZN_WARN, "alert %s{%s=\"%s\"} fires: %.4g is above %.4g; %s", rule->name, rule->label_name,
			alert->label, alert->value, rule->above, rule->summary);
	else if (alert->state == ZN_FIRING)
		zn_log(ZN_INFO, "alert %s{%s=\"%s\"} resolved after %llu s", rule->name, rule->label_name, alert->label,
			(now_ns - alert->since_ns) / ZN_NS_PER_S);
	alert->state = state;
	alert->since_ns = now_ns;
	alert->since_wall_ms = zn_wall_ms();
}

static struct zn_alert *find(struct zn_alerts *a, const struct zn_rule *rule, const char *label)
{
	for (uint32_t i = 0; i < a->count; i++)
		if (a->alert[i].rule == rule && !strcmp(a->alert[i].label, label))
			return &a->alert[i];
	return NULL;
}

static struct zn_alert *add(struct zn_alerts *a, const struct zn_rule *rule, const char label[48], uint64_t now_ns)
{
	struct zn_alert *alert = a->alert + a->count;

	if (a->count == ZN_ALERTS_MAX) {
		a->lost++;
		return NULL;
	}
	*alert = (struct zn_alert){.rule = rule, .seen = true};
	memcpy(alert->label, label, sizeof(alert->label));
	enter(alert, ZN_PENDING, now_ns);
	a->count++;
	return alert;
}

static void advance(struct zn_alert *alert, uint64_t now_ns)
{
	const struct zn_rule *rule = alert->rule;

	if (alert->value > rule->clear) {
		alert->cleared = false;
	} else if (!alert->cleared) {
		alert->cleared = true;
		alert->clear_since_ns = now_ns;
	}
	if (alert->state == ZN_PENDING && alert->value > rule->above &&
		now_ns - alert->since_ns >= rule->for_ms * ZN_NS_PER_MS)
		enter(alert, ZN_FIRING, now_ns);
	if (alert->cleared &&
		(alert->state == ZN_PENDING || now_ns - alert->clear_since_ns >= rule->keep_ms * ZN_NS_PER_MS))
		enter(alert, ZN_INACTIVE, now_ns);
}

static void evaluate(struct zn_alerts *a, const struct zn_rule *rule, const struct zn_view *v, uint64_t now_ns)
{
	char label[48] = "";
	double value;

	for (uint32_t i = 0; rule->value(v, i, &value, label); i++) {
		struct zn_alert *alert = find(a, rule, label);

		if (alert)
			alert->seen = true;
		if (isnan(value))
			continue;
		if (!alert && value > rule->above)
			alert = add(a, rule, label, now_ns);
		if (!alert)
			continue;
		alert->value = value;
		advance(alert, now_ns);
	}
}

/* Takes out what has become inactive or is no longer there; the rest keeps its order. */
static void sweep(struct zn_alerts *a, uint64_t now_ns)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < a->count; i++) {
		struct zn_alert *alert = &a->alert[i];

		if (!alert->seen)
			enter(alert, ZN_INACTIVE, now_ns);
		if (alert->state == ZN_INACTIVE)
			continue;
		alert->seen = false;
		a->alert[kept++] = *alert;
	}
	a->count = kept;
}

static void count_losses(struct zn_alerts *a, const struct zn_shared *shared)
{
	for (uint32_t i = 0; i < ZN_LOSS_COUNT; i++) {
		uint64_t now = shared->lost[i];

		a->new_losses[i] = now - a->losses[i];
		a->losses[i] = now;
	}
}

void zn_alerts_tick(struct zn_alerts *a, const struct zn_view *v, uint64_t now_ns)
{
	count_losses(a, v->agg->arena->shared);
	for (uint32_t i = 0; i < a->rule_count; i++)
		evaluate(a, &a->rule[i], v, now_ns);
	sweep(a, now_ns);
}
