/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alert_test.c: series of values, one a second, and the states that must follow; then the default rules over
 * a view that is filled by hand.
 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "../zernel.h"
#include "t.h"

#define MANY 200

static struct zn_shared shared;
static struct zn_arena arena = {.shared = &shared};
static struct zn_agg agg;
static struct zn_probe probe;
static struct zn_options options;
static struct zn_alerts alerts;
static struct zn_view view = {.options = &options, .agg = &agg, .alerts = &alerts};
static uint64_t now_ns;

static void start(void)
{
	memset(&shared, 0, sizeof(shared));
	memset(&agg, 0, sizeof(agg));
	memset(&probe, 0, sizeof(probe));
	agg.arena = &arena;
	options = (struct zn_options){.overhead_budget = 10000};
	view.probe = NULL;
	now_ns = 77 * ZN_NS_PER_S;
	zn_log_level = ZN_ERROR;
	zn_alerts_init(&alerts, &options);
}

static void tick(void)
{
	now_ns += ZN_NS_PER_S;
	zn_alerts_tick(&alerts, &view, now_ns);
}

static const struct zn_rule *rule(const char *name)
{
	for (uint32_t i = 0; i < alerts.rule_count; i++)
		if (!strcmp(alerts.rule[i].name, name))
			return &alerts.rule[i];
	abort();
}

static const struct zn_alert *find(const char *name, const char *label)
{
	for (uint32_t i = 0; i < alerts.count; i++)
		if (!strcmp(alerts.alert[i].rule->name, name) && !strcmp(alerts.alert[i].label, label))
			return &alerts.alert[i];
	return NULL;
}

static enum zn_alert_state state_of(const char *name, const char *label)
{
	const struct zn_alert *alert = find(name, label);

	return alert ? alert->state : ZN_INACTIVE;
}

/* One second of the one instance: H above, A exactly at the upper limit, M between, C exactly at the lower
 * one, L below, I infinite, N not measured, - no longer delivered. */
static char letter;

static bool lettered(const struct zn_view *v, uint32_t i, double *value, char label[48])
{
	(void)v;
	if (i || letter == '-')
		return false;
	strcpy(label, "x");
	*value = letter == 'H'  ? 20
		: letter == 'A' ? 10
		: letter == 'M' ? 7
		: letter == 'C' ? 5
		: letter == 'I' ? INFINITY
		: letter == 'N' ? NAN
				: 1;
	return true;
}

static const struct {
	const char *name;
	uint64_t for_ms, keep_ms;
	const char *values, *states; /* . inactive, p pending, F firing */
} series[] = {
	{"nothing", 0, 0, "LCMA", "...."},
	{"at the limit is not above it", 0, 0, "AAAA", "...."},
	{"at once", 0, 0, "LHL", ".F."},
	{"infinite", 0, 0, "IL", "F."},
	{"waits before it fires", 3000, 0, "HHHHHL", "pppFF."},
	{"a part of a tick is not enough", 2500, 0, "HHHH", "pppF"},
	{"pending ends below", 2000, 0, "HHLHHH", "pp.ppF"},
	{"pending ends at the lower limit", 2000, 0, "HHCHHH", "pp.ppF"},
	{"pending does not wait to end", 2000, 5000, "HLL", "p.."},
	{"between: pending stays, and does not fire", 2000, 0, "HMMMMA", "pppppp"},
	{"between: pending fires when above again", 2000, 0, "HMMH", "pppF"},
	{"between: firing stays", 0, 0, "HMAMMC", "FFFFF."},
	{"between: inactive stays", 0, 0, "LMAM", "...."},
	{"stays for a while", 0, 3000, "HLLLLL", "FFFF.."},
	{"the while starts again", 0, 3000, "HLLMLLLL", "FFFFFFF."},
	{"the while starts again above", 0, 3000, "HLLHLLLL", "FFFFFFF."},
	{"not measured: inactive", 0, 0, "NNH", "..F"},
	{"not measured: pending", 3000, 0, "HNNNNNN", "ppppppp"},
	{"not measured: pending, then above", 3000, 0, "HNNH", "pppF"},
	{"not measured: firing", 0, 0, "HNNNL", "FFFF."},
	{"not measured: firing, being kept", 0, 3000, "HLNNNL", "FFFFF."},
	{"gone: pending", 3000, 0, "H-HHHH", "p.pppF"},
	{"gone: firing", 0, 60000, "H--", "F.."},
	{"gone, and back", 0, 0, "H-H", "F.F"},
	{"again and again", 1000, 1000, "HHLLHHLL", "pFF.pFF."},
};

static void states_follow_values(void)
{
	for (size_t i = 0; i < ZN_LEN(series); i++) {
		t_begin(series[i].name);
		start();
		alerts.rule[0] = (struct zn_rule){
			"test", "warning", "a test", lettered, "what", 10, 5, series[i].for_ms, series[i].keep_ms};
		alerts.rule_count = 1;
		CHECK_EQ(strlen(series[i].values), strlen(series[i].states));
		for (size_t j = 0; series[i].values[j]; j++) {
			letter = series[i].values[j];
			tick();
			CHECK_EQ(".pF"[state_of("test", "x")], series[i].states[j]);
			CHECK_EQ(".pF"[zn_rule_state(&alerts, &alerts.rule[0])], series[i].states[j]);
			CHECK_EQ(alerts.count, series[i].states[j] != '.');
		}
	}
}

T(an_alert_says_since_when)
{
	const struct zn_alert *alert;

	start();
	alerts.rule[0] = (struct zn_rule){"test", "warning", "a test", lettered, "what", 10, 5, 2000, 2000};
	alerts.rule_count = 1;
	letter = 'H';
	tick();
	alert = find("test", "x");
	CHECK(alert && alert->since_ns == now_ns && alert->since_wall_ms);
	CHECK(alert && alert->value > 19 && alert->value < 21);
	tick();
	CHECK_EQ(alerts.alert[0].since_ns, now_ns - ZN_NS_PER_S);
	tick();
	CHECK_EQ(alerts.alert[0].since_ns, now_ns);
	CHECK_EQ(alerts.alert[0].state, ZN_FIRING);
	letter = 'L';
	tick();
	CHECK_EQ(alerts.alert[0].since_ns, now_ns - ZN_NS_PER_S);
	CHECK(alerts.alert[0].value < 2);
}

/* As many instances as `many` says, each above; the label is its number. */
static uint32_t many;

static bool numbered(const struct zn_view *v, uint32_t i, double *value, char label[48])
{
	(void)v;
	snprintf(label, 48, "%u", i);
	*value = 1;
	return i < many;
}

T(full_table)
{
	start();
	alerts.rule[0] = (struct zn_rule){"many", "warning", "a test", numbered, "what", 0, 0, 0, 0};
	alerts.rule[1] = (struct zn_rule){"test", "warning", "a test", lettered, "what", 10, 5, 0, 0};
	alerts.rule_count = 2;
	many = MANY;
	letter = 'H';
	tick();
	CHECK_EQ(alerts.count, ZN_ALERTS_MAX);
	CHECK_EQ(alerts.lost, MANY - ZN_ALERTS_MAX + 1);
	CHECK_EQ(state_of("many", "127"), ZN_FIRING);
	CHECK(!find("many", "128"));
	CHECK_EQ(state_of("test", "x"), ZN_INACTIVE);
	many = 3;
	tick();
	CHECK_EQ(alerts.count, 3);
	tick();
	CHECK_EQ(alerts.count, 4);
	CHECK_EQ(state_of("many", "2"), ZN_FIRING);
	CHECK_EQ(state_of("test", "x"), ZN_FIRING);
	CHECK_EQ(alerts.lost, MANY - ZN_ALERTS_MAX + 2);
}

T(rule_state_is_the_highest)
{
	start();
	alerts.rule[0] = (struct zn_rule){"a", "warning", "a test", numbered, "what", 0, 0, 1000, 0};
	alerts.rule[1] = (struct zn_rule){"b", "warning", "a test", lettered, "what", 10, 5, 0, 0};
	alerts.rule_count = 2;
	many = 1;
	letter = 'L';
	tick();
	many = 2;
	tick();
	CHECK_EQ(state_of("a", "0"), ZN_FIRING);
	CHECK_EQ(state_of("a", "1"), ZN_PENDING);
	CHECK_EQ(zn_rule_state(&alerts, &alerts.rule[0]), ZN_FIRING);
	CHECK_EQ(zn_rule_state(&alerts, &alerts.rule[1]), ZN_INACTIVE);
}

T(labels)
{
	CHECK_STR(zn_alert_state_label(ZN_INACTIVE), "inactive");
	CHECK_STR(zn_alert_state_label(ZN_PENDING), "pending");
	CHECK_STR(zn_alert_state_label(ZN_FIRING), "firing");
}

static void set_gpu(uint32_t i, const char *id, uint64_t used, uint64_t total)
{
	struct zn_gpu *gpu = &agg.gpus.gpu[i];

	*gpu = (struct zn_gpu){.used_bytes = used, .total_bytes = total};
	snprintf(gpu->id, sizeof(gpu->id), "%s", id);
	if (agg.gpus.count <= i)
		agg.gpus.count = i + 1;
}

static void ticks(int count)
{
	while (count--)
		tick();
}

T(gpu_memory)
{
	start();
	set_gpu(0, "0", 94, 100);
	set_gpu(1, "1", 96, 100);
	set_gpu(2, "2", 95, 100);
	set_gpu(3, "3", 96, 0);
	set_gpu(4, "unknown", 96, 100);
	ticks(10);
	CHECK_EQ(state_of("gpu_oom_warning", "1"), ZN_PENDING);
	tick();
	CHECK_EQ(state_of("gpu_oom_warning", "1"), ZN_FIRING);
	CHECK_EQ(alerts.count, 1);
	set_gpu(1, "1", 94, 100);
	ticks(100);
	CHECK_EQ(state_of("gpu_oom_warning", "1"), ZN_FIRING);
	set_gpu(1, "1", 93, 100);
	tick();
	CHECK_EQ(alerts.count, 0);
	set_gpu(1, "1", 96, 100);
	ticks(11);
	CHECK_EQ(state_of("gpu_oom_warning", "1"), ZN_FIRING);
	agg.gpus.count = 1;
	tick();
	CHECK_EQ(alerts.count, 0);
	CHECK_STR(rule("gpu_oom_warning")->severity, "critical");
	CHECK_STR(rule("gpu_oom_warning")->label_name, "gpu_id");
}

/* A hooked call costs 1 us: 10,000 calls a second are 1 % of a core. */
static void set_rate(uint64_t per_s)
{
	agg.row[0] = 7;
	agg.row_count = 1;
	shared.row_tgid[7] = 4242;
	agg.info[7].cost_rate = per_s * 1000 * 1000;
	view.probe = &probe;
}

T(probe_overhead)
{
	start();
	set_rate(10000);
	ticks(60);
	CHECK_EQ(alerts.count, 0);
	set_rate(10100);
	ticks(30);
	CHECK_EQ(state_of("probe_overhead", "4242"), ZN_PENDING);
	tick();
	CHECK_EQ(state_of("probe_overhead", "4242"), ZN_FIRING);
	CHECK(alerts.alert[0].value > 0.010099 && alerts.alert[0].value < 0.010101);
	set_rate(8100);
	ticks(60);
	CHECK_EQ(state_of("probe_overhead", "4242"), ZN_FIRING);
	set_rate(7900);
	tick();
	CHECK_EQ(alerts.count, 0);
}

T(probe_overhead_of_simulated_data)
{
	start();
	set_rate(1000000);
	view.probe = NULL;
	ticks(60);
	CHECK_EQ(alerts.count, 0);
}

T(probe_overhead_of_another_budget)
{
	start();
	options.overhead_budget = 500000;
	zn_alerts_init(&alerts, &options);
	set_rate(499999);
	ticks(60);
	CHECK_EQ(alerts.count, 0);
	set_rate(500001);
	ticks(31);
	CHECK_EQ(state_of("probe_overhead", "4242"), ZN_FIRING);
	set_rate(399999);
	tick();
	CHECK_EQ(alerts.count, 0);
}

T(losses_fire_and_stay_a_minute)
{
	static const struct {
		enum zn_loss loss;
		const char *label;
	} watched[] = {{ZN_LOST_RINGBUF, "ringbuf"}, {ZN_LOST_SERIES, "series"}, {ZN_LOST_PROCESS, "process"},
		{ZN_LOST_THREAD, "thread"}, {ZN_LOST_ALLOC, "alloc"}, {ZN_LOST_JOB, "job"}, {ZN_LOST_TASK, "task"}};

	for (size_t i = 0; i < ZN_LEN(watched); i++) {
		start();
		tick();
		shared.lost[watched[i].loss] += 3;
		tick();
		CHECK_EQ(alerts.count, 1);
		CHECK_EQ(state_of("events_lost", watched[i].label), ZN_FIRING);
		CHECK(alerts.count && alerts.alert[0].value > 2.9 && alerts.alert[0].value < 3.1);
		ticks(60);
		CHECK_EQ(alerts.count, 1);
		tick();
		CHECK_EQ(alerts.count, 0);
	}
}

T(losses_before_the_first_tick_count)
{
	start();
	shared.lost[ZN_LOST_ALLOC] = 1;
	tick();
	CHECK_EQ(state_of("events_lost", "alloc"), ZN_FIRING);
}

T(other_losses_do_not_fire)
{
	start();
	for (uint32_t i = 0; i < ZN_LOSS_COUNT; i++)
		if (i != ZN_LOST_RINGBUF && i != ZN_LOST_SERIES && i != ZN_LOST_PROCESS && i != ZN_LOST_THREAD &&
			i != ZN_LOST_ALLOC && i != ZN_LOST_JOB && i != ZN_LOST_TASK)
			shared.lost[i] = 9;
	tick();
	CHECK_EQ(alerts.count, 0);
	CHECK_EQ(alerts.new_losses[ZN_LOST_ELF], 9);
	tick();
	CHECK_EQ(alerts.new_losses[ZN_LOST_ELF], 0);
}

/* What the log said since the pipe was made. */
static size_t said(int fd, char *to, size_t cap)
{
	ssize_t len = read(fd, to, cap - 1);

	to[len > 0 ? len : 0] = '\0';
	return strlen(to);
}

T(one_line_for_each_change)
{
	int fds[2], saved = dup(STDERR_FILENO);
	char text[2048];

	start();
	zn_log_level = ZN_INFO;
	set_gpu(0, "0", 961, 1000);
	if (saved < 0 || pipe(fds))
		abort();
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	ticks(40);
	set_gpu(0, "0", 100, 1000);
	ticks(5);
	set_gpu(0, "0", 961, 1000);
	ticks(5);
	set_gpu(0, "0", 100, 1000);
	ticks(5);
	dup2(saved, STDERR_FILENO);
	close(saved);
	said(fds[0], text, sizeof(text));
	close(fds[0]);
	CHECK_STR(text,
		"zerneld: warning: alert gpu_oom_warning{gpu_id=\"0\"} fires: 0.961 is above 0.95; "
		"the memory of a GPU is nearly full\n"
		"zerneld: alert gpu_oom_warning{gpu_id=\"0\"} resolved after 30 s\n");
}

int main(void)
{
	states_follow_values();
	RUN(an_alert_says_since_when);
	RUN(full_table);
	RUN(rule_state_is_the_highest);
	RUN(labels);
	RUN(gpu_memory);
	RUN(probe_overhead);
	RUN(probe_overhead_of_simulated_data);
	RUN(probe_overhead_of_another_budget);
	RUN(losses_fire_and_stay_a_minute);
	RUN(losses_before_the_first_tick_count);
	RUN(other_losses_do_not_fire);
	RUN(one_line_for_each_change);
	return t_end();
}
