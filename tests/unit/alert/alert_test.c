/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alert_test.c: series of values, one a second, and the states that must follow; then each of the built-in rules, over
 * samples that make it fire and be resolved.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"
#include "alert_source.h"
#include "t.h"

#define MANY 300

static struct zn_options options;
static struct zn_alerts alerts;
static uint64_t now_ns;

/* What the source delivers: series of up to three labels. */
static struct series {
	const char *metric;
	const char *label[3][2];
	double value;
	struct zn_hist *hist;
	bool gone, hides_0;
	uint64_t since_ms;
} world[16];
static uint32_t world_count;
static uint32_t many;      /* series of the metric "many", numbered by the label i */
static char (*failing)[8]; /* the processes that were refused memory, MANY of them */
static double failures;

static void give(const struct series *s, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	struct zn_sample out = {.metric = s->metric,
		.value = s->value,
		.hist = s->hist,
		.since_ms = s->since_ms,
		.hides_0 = s->hides_0};

	for (size_t i = 0; i < ZN_LEN(s->label) && s->label[i][0]; i++)
		out.label[out.label_count++] = (struct zn_label){
			{s->label[i][0], strlen(s->label[i][0])}, {s->label[i][1], strlen(s->label[i][1])}};
	sample(to, &out);
}

static void walk(
	void *from, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	char number[12];

	(void)from;
	for (uint32_t i = 0; i < world_count; i++)
		if (!world[i].gone && !strcmp(world[i].metric, wanted->metric))
			give(&world[i], sample, to);
	for (uint32_t i = 0; i < many && !strcmp(wanted->metric, "many"); i++) {
		struct series s = {.metric = "many", .label = {{"i", number}}, .value = 1};

		snprintf(number, sizeof(number), "%u", i);
		give(&s, sample, to);
	}
	for (uint32_t i = 0; failing && i < MANY && !strcmp(wanted->metric, "zernel_gpu_alloc_failures_total"); i++)
		give(&(struct series){.metric = wanted->metric,
			     .label = {{"pid", failing[i]}, {"gpu_id", "0"}, {"reason", "oom"}},
			     .value = failures},
			sample, to);
}

static void start(void)
{
	options.overhead_budget = 10000;
	now_ns = 7777 * ZN_NS_PER_S;
	zn_log_level = ZN_ERROR;
	world_count = many = 0;
	open_alerts(&alerts, &options, type_of_name, (struct zn_rule_source){walk, NULL});
}

/* These rules and no others. */
static void rules(const char *text)
{
	char why[ZN_TEXT_MAX];

	start();
	memset(&alerts.book[0], 0, sizeof(alerts.book[0]));
	if (zn_rules_parse(&alerts.book[0], "test", (struct zn_str){text, strlen(text)}, &alerts.names, why))
		T_FAIL("%s", why);
}

static struct series *add(struct series s)
{
	world[world_count] = s;
	return &world[world_count++];
}

#define ADD(metric_, value_, ...) add((struct series){.metric = (metric_), .value = (value_), .label = {__VA_ARGS__}})

static void tick(void)
{
	now_ns += ZN_NS_PER_S;
	zn_alerts_tick(&alerts, now_ns);
}

static void ticks(int count)
{
	while (count--)
		tick();
}

static const struct zn_rule *rule(const char *name)
{
	for (uint32_t i = 0; i < alerts.rules->rule_count; i++)
		if (!strcmp(alerts.rules->rule[i].name, name))
			return &alerts.rules->rule[i];
	abort();
}

static enum zn_alert_state state_of(const char *name)
{
	return zn_alerts_rule_state(&alerts, rule(name));
}

static const struct zn_alert *find(const char *name, const char *label, const char *value)
{
	for (uint32_t i = 0; i < alerts.count; i++)
		if (!strcmp(alerts.alert[i].rule->name, name) &&
			!strcmp(zn_alert_label(&alerts.alert[i], label), value))
			return &alerts.alert[i];
	return NULL;
}

static void write_file(const char *text)
{
	FILE *f = fopen(options.alerts, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}

/* One second of the one instance: H above, A exactly at the upper limit, M between, C exactly at the lower
 * one, L below, I infinite, N not measured, - no longer delivered. */
static void letter(struct series *s, char c)
{
	static const struct {
		char letter;
		double value;
	} values[] = {{'H', 20}, {'A', 10}, {'M', 7}, {'C', 5}, {'L', 1}, {'I', INFINITY}, {'N', NAN}};

	s->gone = c == '-';
	for (size_t i = 0; i < ZN_LEN(values); i++)
		if (values[i].letter == c)
			s->value = values[i].value;
}

static const struct {
	const char *name, *fields, *values, *states; /* . inactive, p pending, F firing */
} series[] = {
	{"nothing", "", "LCMA", "...."},
	{"at the limit is not above it", "", "AAAA", "...."},
	{"at once", "", "LHL", ".F."},
	{"infinite", "", "IL", "F."},
	{"waits before it fires", " for 3s", "HHHHHL", "pppFF."},
	{"a part of a tick is not enough", " for 2500ms", "HHHH", "pppF"},
	{"pending ends below", " for 2s", "HHLHHH", "pp.ppF"},
	{"pending ends at the lower limit", " for 2s", "HHCHHH", "pp.ppF"},
	{"pending does not wait to end", " for 2s\n keep_firing_for 5s", "HLL", "p.."},
	{"between: pending stays, and does not fire", " for 2s", "HMMMMA", "pppppp"},
	{"between: pending fires when above again", " for 2s", "HMMH", "pppF"},
	{"between: firing stays", "", "HMAMMC", "FFFFF."},
	{"between: inactive stays", "", "LMAM", "...."},
	{"stays for a while", " keep_firing_for 3s", "HLLLLL", "FFFF.."},
	{"the while starts again", " keep_firing_for 3s", "HLLMLLLL", "FFFFFFF."},
	{"the while starts again above", " keep_firing_for 3s", "HLLHLLLL", "FFFFFFF."},
	{"not measured: inactive", "", "NNH", "..F"},
	{"not measured: pending", " for 3s", "HNNNNNN", "ppppppp"},
	{"not measured: pending, then above", " for 3s", "HNNH", "pppF"},
	{"not measured: firing", "", "HNNNL", "FFFF."},
	{"not measured: firing, being kept", " keep_firing_for 3s", "HLNNNL", "FFFFF."},
	{"gone: pending", " for 3s", "H-HHHH", "p.pppF"},
	{"gone: firing", " keep_firing_for 60s", "H--", "F.."},
	{"gone, and back", "", "H-H", "F.F"},
	{"again and again", " for 1s\n keep_firing_for 1s", "HHLLHHLL", "pFF.pFF."},
};

static void states_follow_values(void)
{
	static const char *const clears[] = {"clear at 5", "clear when test <= 5"};
	char text[256];

	for (size_t i = 0; i < ZN_LEN(clears) * ZN_LEN(series); i++) {
		size_t n = i / ZN_LEN(clears);
		struct series *s;

		t_begin(series[n].name);
		snprintf(text, sizeof(text), "alert test\n expr test > 10\n %s\n%s\n", clears[i % ZN_LEN(clears)],
			series[n].fields);
		rules(text);
		s = ADD("test", 0, {"what", "x"});
		CHECK_EQ(strlen(series[n].values), strlen(series[n].states));
		for (size_t j = 0; series[n].values[j]; j++) {
			letter(s, series[n].values[j]);
			tick();
			CHECK_EQ(".pF"[state_of("test")], series[n].states[j]);
			CHECK_EQ(alerts.count, series[n].states[j] != '.');
		}
	}
}

T(an_alert_says_since_when)
{
	struct series *s;

	rules("alert test\n expr test > 10\n clear at 5\n for 2s\n keep_firing_for 2s\n");
	s = ADD("test", 20, {"what", "x"});
	tick();
	CHECK(alerts.alert[0].since_ns == now_ns);
	CHECK(alerts.alert[0].value > 19 && alerts.alert[0].value < 21);
	tick();
	CHECK_EQ(alerts.alert[0].since_ns, now_ns - ZN_NS_PER_S);
	tick();
	CHECK_EQ(alerts.alert[0].since_ns, now_ns);
	CHECK_EQ(alerts.alert[0].state, ZN_FIRING);
	s->value = 1;
	tick();
	CHECK_EQ(alerts.alert[0].since_ns, now_ns - ZN_NS_PER_S);
	CHECK(alerts.alert[0].value < 2);
}

/* What does not grow any more is never full; for a while the alert stays, and says what it said. */
T(an_alert_is_never_endless)
{
	struct series *s;

	rules("alert test\n expr time_to(test[4s], 1000) < 1h\n keep_firing_for 9s\n");
	s = ADD("test", 100, {"what", "x"});
	for (int n = 0; n < 15; n++) {
		s->value += n < 6 ? 10 : 0;
		tick();
	}
	CHECK_EQ(state_of("test"), ZN_FIRING);
	CHECK(alerts.alert[0].value > 0 && alerts.alert[0].value < 3600);
}

static const char *annotation(const struct zn_alert *alert, const char *name)
{
	static char text[256];
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};

	zn_alert_annotation(&o, alert, name);
	text[o.len] = '\0';
	return text;
}

static const struct zn_alert *summed(const char *name)
{
	return find(name, "summed", "true");
}

/* Three quarters of the table are for all rules. Whoever comes first gets half of them, the next one half of the
 * rest. */
#define FIRST  96
#define SECOND 48

T(a_rule_has_a_share)
{
	rules("alert many\n expr many > 0\n summary {{i}}\n description {{i}}\n runbook_url http://x/\n"
	      "alert again\n expr many > 0\nalert test\n expr test > 10\n");
	many = MANY;
	ADD("test", 20, {"what", "x"});
	tick();
	CHECK_EQ(alerts.count, FIRST + 1 + SECOND + 1 + 1);
	CHECK_EQ(zn_alerts_lost(&alerts), MANY - FIRST + MANY - SECOND);
	CHECK(find("many", "i", "95") && !find("many", "i", "96"));
	CHECK_EQ(state_of("test"), ZN_FIRING);
	CHECK_EQ(summed("many")->state, ZN_FIRING);
	CHECK(summed("many")->value == MANY - FIRST && summed("again")->value == MANY - SECOND);
	CHECK_STR(annotation(summed("many"), "summary"), "204 more of this alert, which have no place of their own");
	CHECK_STR(annotation(summed("many"), "description"), "");
	CHECK_STR(annotation(summed("many"), "runbook_url"), "http://x/");
	ticks(3);
	CHECK_EQ(alerts.count, FIRST + 1 + SECOND + 1 + 1);
	many = 3;
	tick();
	CHECK_EQ(alerts.count, 3 + 3 + 1);
	CHECK(!summed("many") && !summed("again"));
	many = 90;
	tick();
	CHECK_EQ(alerts.count, 90 + SECOND + 3 + 1 + 1); /* what is free is shared anew */
	CHECK(!summed("many") && summed("again"));
}

T(the_sum_waits_and_stays_like_any_alert)
{
	rules("alert many\n expr many > 0\n for 2s\n keep_firing_for 3s\n");
	many = MANY;
	ticks(2);
	CHECK_EQ(summed("many")->state, ZN_PENDING);
	tick();
	CHECK_EQ(summed("many")->state, ZN_FIRING);
	many = 3;
	ticks(3);
	CHECK_EQ(summed("many")->state, ZN_FIRING);
	CHECK(summed("many")->value == 0);
	tick();
	CHECK(!summed("many"));
}

/* 16 GPUs for 16 processes, or 300 processes: what was found to keep the most important alerts out. */
T(nobody_hides_an_error_of_a_gpu)
{
	struct series *xid, *loss;
	static char pid[MANY][8];

	start();
	for (uint32_t i = 0; i < MANY; i++)
		snprintf(pid[i], sizeof(pid[i]), "%u", 1000 + i);
	failing = pid;
	xid = ADD("zernel_gpu_xid_errors_total", 0, {"pci", "0000:3b:00.0"}, {"xid", "79"});
	loss = ADD("zernel_lost_total", 0, {"what", "alert"});
	tick();
	failures = 1;
	tick();
	CHECK(find("gpu_allocation_failed", "pid", "1000") && summed("gpu_allocation_failed"));
	xid->value = 1;
	loss->value = (double)zn_alerts_lost(&alerts);
	tick();
	CHECK_EQ(find("gpu_xid", "xid", "79")->state, ZN_FIRING);
	CHECK_EQ(find("events_lost", "what", "alert")->state, ZN_FIRING);
	failing = NULL;
	failures = 0;
}

/* Rules of all kinds are full: one that is critical has places of its own, and those of all as well. */
T(critical_alerts_have_places_of_their_own)
{
	char text[2048] = "";

	for (int i = 0; i < 12; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "alert many%d\n expr many > 0\n", i);
	strcat(text,
		"alert late\n expr test > 10\nalert worst\n expr test > 10\n severity critical\n"
		"alert all\n expr many > 0\n severity critical\n");
	rules(text);
	many = MANY;
	tick();
	ADD("test", 20, {"what", "x"});
	tick();
	CHECK(!find("late", "what", "x") && summed("late")->state == ZN_FIRING);
	CHECK(find("worst", "what", "x")->state == ZN_FIRING && !summed("worst"));
	CHECK(find("all", "i", "31") && !find("all", "i", "32"));
	CHECK(alerts.count <= ZN_ALERTS_MAX);
}

static uint32_t owner_of_pid(void *from, uint32_t pid)
{
	(void)from;
	return pid < 1200 ? 1001 : 1002;
}

/* The processes of one user do not hide those of another one behind the same rule. */
T(a_user_has_a_share_of_a_rule)
{
	static char pid[MANY][8];

	rules("alert failed\n expr zernel_gpu_alloc_failures_total > 0\n");
	alerts.work.whose = owner_of_pid;
	for (uint32_t i = 0; i < MANY; i++)
		snprintf(pid[i], sizeof(pid[i]), "%u", 1000 + i);
	failing = pid;
	failures = 1;
	tick();
	CHECK(find("failed", "pid", "1063") && !find("failed", "pid", "1064"));
	CHECK(find("failed", "pid", "1200") && find("failed", "pid", "1231") && !find("failed", "pid", "1232"));
	ticks(2);
	CHECK_EQ(alerts.count, FIRST + 1);
	failing = NULL;
	failures = 0;
	alerts.work.whose = NULL;
}

/* Labels that have no room make no alert of their own, rather than one that is like another. */
T(labels_without_room)
{
	char longest[ZN_ALERT_BYTES];

	rules("alert test\n expr test > 10\n");
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ADD("test", 20, {"what", longest});
	ADD("test", 20, {"what", longest + strlen("what") + 2});
	tick();
	CHECK_EQ(alerts.count, 2);
	CHECK_EQ(zn_alerts_lost(&alerts), 1);
	CHECK_EQ(strlen(zn_alert_label(&alerts.alert[0], "what")), sizeof(longest) - 1 - strlen("what") - 2);
	CHECK(summed("test") && summed("test")->value == 1);
}

T(the_highest_state)
{
	rules("alert a\n expr many > 0\n for 1s\nalert b\n expr many > 1\n");
	many = 1;
	tick();
	many = 2;
	tick();
	CHECK_EQ(find("a", "i", "0")->state, ZN_FIRING);
	CHECK_EQ(find("a", "i", "1")->state, ZN_PENDING);
	CHECK_EQ(state_of("a"), ZN_FIRING);
	CHECK_EQ(state_of("b"), ZN_INACTIVE);
	CHECK_STR(zn_alert_state_label(ZN_INACTIVE), "inactive");
	CHECK_STR(zn_alert_state_label(ZN_PENDING), "pending");
	CHECK_STR(zn_alert_state_label(ZN_FIRING), "firing");
}

/* ---- What others read of an alert. ---- */

static struct {
	uint64_t id;
	enum zn_alert_state state;
} told[8];
static uint32_t told_count;

static void note(void *owner, const struct zn_alert *alert)
{
	(void)owner;
	if (told_count < ZN_LEN(told)) {
		told[told_count].id = alert->id;
		told[told_count].state = alert->state;
	}
	told_count++;
}

T(changes_are_told_once)
{
	struct series *s;

	rules("alert test\n expr test > 10\n for 1s\n");
	alerts.changed = note;
	told_count = 0;
	s = ADD("test", 20, {"what", "x"});
	tick();
	CHECK_EQ(told_count, 0);
	s->value = 1;
	tick(); /* pending, and no more: nobody is told */
	CHECK_EQ(told_count, 0);
	s->value = 20;
	ticks(10);
	CHECK_EQ(told_count, 1);
	CHECK_EQ(told[0].state, ZN_FIRING);
	s->gone = true;
	ticks(5);
	CHECK_EQ(told_count, 2);
	CHECK_EQ(told[1].state, ZN_INACTIVE);
	CHECK_EQ(told[1].id, told[0].id);
	s->gone = false;
	ticks(5);
	CHECK_EQ(told_count, 3);
	CHECK(told[2].id != told[0].id);
}

T(labels_and_annotations)
{
	struct zn_label label[ZN_LABELS_MAX];

	rules("alert test\n expr test > 10\n severity page\n summary {{what}} has {{value}} of {{nothing}}.\n"
	      " description # {{ value|percent }} or {{value|bytes}} or {{value|duration}}\n");
	ADD("test", 20.5, {"what", "x\"y"}, {"empty", ""}, {"job_id", "4711"});
	tick();
	CHECK_EQ(zn_alert_labels(&alerts.alert[0], label), 4);
	CHECK_STR(label[0].name.at, "alertname");
	CHECK_STR(label[0].value.at, "test");
	CHECK_STR(label[1].name.at, "severity");
	CHECK_STR(label[1].value.at, "page");
	CHECK_STR(label[2].name.at, "what");
	CHECK_MEM(label[2].value.at, label[2].value.len, "x\"y", 3);
	CHECK_STR(label[3].name.at, "job_id");
	CHECK_STR(label[3].value.at, "4711");
	CHECK_STR(annotation(&alerts.alert[0], "summary"), "x\"y has 20.5 of .");
	CHECK_STR(annotation(&alerts.alert[0], "description"), "# 2050 % or 20.5 B or 20.5 s");
	CHECK_STR(annotation(&alerts.alert[0], "runbook_url"), "");
	CHECK_STR(annotation(&alerts.alert[0], "nothing"), "");
}

/* ---- The built-in rules. ---- */

static struct zn_hist hist;

T(gpu_memory)
{
	struct series *s;

	start();
	s = ADD("zernel_gpu_memory_used_ratio", 0.96, {"gpu_id", "1"});
	ADD("zernel_gpu_memory_used_ratio", 0.95, {"gpu_id", "2"});
	ticks(10);
	CHECK_EQ(state_of("gpu_oom_warning"), ZN_PENDING);
	tick();
	CHECK_EQ(state_of("gpu_oom_warning"), ZN_FIRING);
	CHECK_EQ(alerts.count, 1);
	s->value = 0.94;
	ticks(100);
	CHECK_EQ(state_of("gpu_oom_warning"), ZN_FIRING);
	s->value = 0.93;
	tick();
	CHECK_EQ(alerts.count, 0);
	s->value = 0.96;
	ticks(11);
	CHECK_EQ(state_of("gpu_oom_warning"), ZN_FIRING);
	s->gone = true;
	tick();
	CHECK_EQ(alerts.count, 0);
	CHECK_STR(rule("gpu_oom_warning")->severity, "critical");
}

/* 0.1 % a second: from 80 % on there are 200 s left. */
T(gpu_memory_grows)
{
	struct series *s;
	int first = 0;

	start();
	s = ADD("zernel_gpu_memory_used_ratio", 0.6, {"gpu_id", "1"});
	for (int i = 1; i <= 300; i++) {
		s->value += 0.001;
		tick();
		if (!first && state_of("gpu_memory_growing") == ZN_FIRING)
			first = i;
	}
	CHECK(first >= 230 && first <= 232); /* 30 s after 80 % */
	CHECK_STR(annotation(find("gpu_memory_growing", "gpu_id", "1"), "summary"),
		"the memory of GPU 1 grows: at this rate it is full in 1 min 40 s");
	ticks(30);
	CHECK_EQ(state_of("gpu_memory_growing"), ZN_FIRING);
	ticks(270); /* it stays at 90 %: the past without growth is as long as the window, and a minute more */
	CHECK_EQ(state_of("gpu_memory_growing"), ZN_INACTIVE);
}

/* 0.1 % a second: from half of the limit on there are 500 s left. */
T(host_memory_grows)
{
	struct series *s;

	start();
	s = ADD("zernel_job_memory_needed_ratio", 0.3, {"job_id", "7"});
	for (int i = 1; i <= 230; i++) {
		s->value += 0.001;
		tick();
		CHECK(i < 230 || find("host_memory_growing", "job_id", "7"));
		CHECK(i > 199 || state_of("host_memory_growing") == ZN_INACTIVE);
	}
	ticks(2);
	CHECK_EQ(state_of("host_memory_growing"), ZN_FIRING);
	CHECK_STR(annotation(find("host_memory_growing", "job_id", "7"), "summary"),
		"the memory of job 7 grows: at this rate its limit is reached in 7 min 54 s");
	s->value = 0.3;
	ticks(70);
	CHECK_EQ(state_of("host_memory_growing"), ZN_INACTIVE);
}

/* What a caching allocator does: up and down by 4 % of the GPU, never near full. */
T(gpu_memory_breathes)
{
	struct series *s;

	start();
	s = ADD("zernel_gpu_memory_used_ratio", 0.82, {"gpu_id", "1"});
	for (uint32_t i = 1, random = 7; i <= 3000; i++) {
		if (i % 2 == 0)
			s->value = 0.81 + (random = random * 1103515245 + 12345, random >> 16) % 64 * (0.04 / 64);
		tick();
		CHECK(state_of("gpu_memory_growing") != ZN_FIRING);
	}
}

T(gpu_allocation_failed)
{
	struct series *s, *other;

	start();
	s = ADD("zernel_gpu_alloc_failures_total", 5, {"pid", "4242"}, {"gpu_id", "0"}, {"reason", "oom"});
	other = ADD("zernel_gpu_alloc_failures_total", 5, {"pid", "4242"}, {"gpu_id", "0"}, {"reason", "other"});
	ticks(3);
	CHECK_EQ(alerts.count, 0);
	other->value++;
	ticks(3);
	CHECK_EQ(alerts.count, 0);
	s->value += 7;
	tick();
	CHECK_EQ(state_of("gpu_allocation_failed"), ZN_FIRING);
	CHECK_STR(annotation(&alerts.alert[0], "summary"),
		"process 4242 was refused memory on GPU 0, 7 times in a minute");
	ticks(75);
	CHECK_EQ(alerts.count, 0);
}

/* Of a job that began ten minutes before. */
static struct series *add_old_errors(void)
{
	struct series *s =
		ADD("zernel_job_cuda_errors_total", 7, {"job_id", "4711"}, {"error", "CUDA_ERROR_ILLEGAL_ADDRESS"});

	s->since_ms = zn_wall_ms() - 600000;
	s->hides_0 = true;
	return s;
}

/* All of its errors come between two ticks, and then no more. */
T(the_first_errors_of_an_old_job)
{
	start();
	ticks(3);
	add_old_errors();
	tick();
	CHECK_EQ(state_of("cuda_context_lost"), ZN_FIRING);
	CHECK(alerts.alert[0].value == 7);
	ticks(299);
	CHECK_EQ(state_of("cuda_context_lost"), ZN_FIRING);
	ticks(50);
	CHECK_EQ(alerts.count, 0);
}

/* Errors that were there when the rules were first looked at are old ones; so are those that new rules find. */
T(errors_from_before_the_rules)
{
	char why[ZN_TEXT_MAX];
	struct series *s;

	start();
	s = add_old_errors();
	ticks(3);
	CHECK_EQ(alerts.count, 0);
	snprintf(options.alerts, sizeof(options.alerts), "/tmp/alert_test.%d", getpid());
	write_file("alert test\n expr increase(zernel_job_cuda_errors_total[1m]) > 0\n");
	CHECK_EQ(zn_alerts_reload(&alerts, why), 0);
	ticks(3);
	CHECK_EQ(alerts.count, 0);
	s->value++;
	tick();
	CHECK_EQ(state_of("test"), ZN_FIRING);
	CHECK_EQ(state_of("cuda_context_lost"), ZN_FIRING);
	unlink(options.alerts);
	options.alerts[0] = '\0';
}

/* Nor are they told where a rule that was off is on again: nobody looked meanwhile. */
T(errors_from_while_a_rule_was_off)
{
	char why[ZN_TEXT_MAX];

	snprintf(options.alerts, sizeof(options.alerts), "/tmp/alert_test.%d", getpid());
	write_file("disable cuda_context_lost\n");
	start();
	ticks(3);
	add_old_errors();
	ticks(3);
	write_file("");
	CHECK_EQ(zn_alerts_reload(&alerts, why), 0);
	ticks(3);
	CHECK_EQ(alerts.count, 0);
	unlink(options.alerts);
	options.alerts[0] = '\0';
}

/* The rules are read again between an error and the next tick. */
T(the_first_errors_before_rules_are_read_again)
{
	char why[ZN_TEXT_MAX];
	start();
	ticks(3);
	add_old_errors();
	CHECK_EQ(zn_alerts_reload(&alerts, why), 0);
	tick();
	CHECK_EQ(state_of("cuda_context_lost"), ZN_FIRING);
}

/* The value is that of clear at, and the condition holds. */
T(the_limit_itself_may_clear)
{
	struct series *s;

	rules("alert test\n expr test >= 10\n clear at 10\n for 2s\n");
	s = ADD("test", 10);
	ticks(5);
	CHECK_EQ(state_of("test"), ZN_FIRING);
	s->value = 9;
	tick();
	CHECK_EQ(state_of("test"), ZN_INACTIVE);
}

/* No number is above that of a budget that is off, and rules may reckon with it. */
T(a_multiple_of_no_budget)
{
	start();
	options.overhead_budget = 0;
	options.alerts[0] = '\0';
	snprintf(options.alerts, sizeof(options.alerts), "/tmp/alert_test.%d", getpid());
	write_file("alert test\n expr zernel_overhead_ratio > overhead_budget * 2\n");
	open_alerts(&alerts, &options, type_of_name, (struct zn_rule_source){walk, NULL});
	ADD("zernel_overhead_ratio", 50, {"pid", "4242"});
	ticks(40);
	CHECK_EQ(alerts.count, 0);
	unlink(options.alerts);
	options.alerts[0] = '\0';
}

/* A process gets a job by hand, and outlives it. */
T(old_errors_of_a_process_whose_job_changes)
{
	struct series *s;

	start();
	s = ADD("zernel_gpu_alloc_failures_total", 7, {"pid", "4242"}, {"reason", "oom"}, {"job_id", ""});
	s->since_ms = zn_wall_ms() - 600000;
	s->hides_0 = true;
	ticks(3);
	for (int i = 0; i < 2; i++) {
		s->label[2][1] = i ? "" : "4711";
		ticks(3);
		CHECK_EQ(alerts.count, 0);
	}
	s->value++;
	tick();
	CHECK_EQ(state_of("gpu_allocation_failed"), ZN_FIRING);
}

/* A server that has answered well for long, and then refuses 20 of 300 requests between two ticks. */
T(requests_failing)
{
	struct series *good, *bad;

	start();
	good = ADD("zernel_requests_total", 9000, {"pid", "4242"}, {"route", "other"}, {"code", "2xx"});
	good->since_ms = zn_wall_ms() - 600000;
	good->hides_0 = true;
	for (int i = 0; i < 100; i++, good->value += 5)
		tick();
	CHECK_EQ(alerts.count, 0);
	bad = ADD("zernel_requests_total", 20, {"pid", "4242"}, {"route", "other"}, {"code", "5xx"});
	bad->since_ms = good->since_ms;
	bad->hides_0 = true;
	for (int i = 0; i < 31; i++, good->value += 5)
		tick();
	CHECK_EQ(state_of("requests_failing"), ZN_FIRING);
	for (int i = 0; i < 70; i++, good->value += 5)
		tick();
	CHECK_EQ(alerts.count, 0);
}

T(data_starvation)
{
	start();
	memset(&hist, 0, sizeof(hist));
	ADD("zernel_dataloader_wait_seconds", NAN, {"pid", "4242"})->hist = &hist;
	for (int i = 0; i < 90; i++, hist.sum_ns += 290000000)
		tick();
	CHECK_EQ(alerts.count, 0);
	for (int i = 0; i < 120; i++, hist.sum_ns += 400000000)
		tick();
	CHECK_EQ(state_of("data_starvation"), ZN_FIRING);
	CHECK_STR(annotation(&alerts.alert[0], "summary"), "process 4242 spends 40 % of its time waiting for data");
	for (int i = 0; i < 90; i++, hist.sum_ns += 190000000)
		tick();
	CHECK_EQ(alerts.count, 0);
}

T(gpu_idle)
{
	struct series *idle, *busy, *ended;

	start();
	idle = ADD("zernel_job_gpu_idle_seconds_total", 100, {"job_id", "4711"}, {"gpu_id", "4"});
	busy = ADD("zernel_job_gpu_idle_seconds_total", 100, {"job_id", "4711"}, {"gpu_id", "0"});
	for (int i = 0; i < 1000; i++, idle->value++, busy->value += 0.5)
		tick();
	CHECK_EQ(alerts.count, 1);
	CHECK_EQ(state_of("gpu_idle"), ZN_FIRING);
	CHECK_STR(annotation(&alerts.alert[0], "summary"), "job 4711 has GPU 4 and does not use it");
	for (int i = 0; i < 120; i++, busy->value++) /* it is used */
		tick();
	CHECK_EQ(alerts.count, 0);
	for (int i = 0; i < 1000; i++, idle->value++)
		tick();
	CHECK_EQ(state_of("gpu_idle"), ZN_FIRING);
	ended = ADD("zernel_job_ended_time_seconds", 1.7e9, {"job_id", "4711"});
	tick();
	CHECK_EQ(alerts.count, 0);
	ended->gone = true;
}

/* A GPU that was busy, then hardly used, then not at all: each is said as that. */
T(gpu_nearly_idle)
{
	struct series *idle, *busy;

	start();
	idle = ADD("zernel_job_gpu_idle_seconds_total", 100, {"job_id", "4711"}, {"gpu_id", "4"});
	busy = ADD("zernel_job_gpu_busy_seconds_total", 100, {"job_id", "4711"}, {"gpu_id", "4"});
	for (int i = 0; i < 1000; i++, busy->value++)
		tick();
	CHECK_EQ(alerts.count, 0);
	for (int i = 0; i < 1000; i++, idle->value += 0.95, busy->value += 0.05)
		tick();
	CHECK_EQ(alerts.count, 1);
	CHECK_EQ(state_of("gpu_nearly_idle"), ZN_FIRING);
	CHECK_STR(annotation(&alerts.alert[0], "summary"), "job 4711 hardly uses GPU 4: it is idle 95 % of the time");
	for (int i = 0; i < 1000; i++, idle->value++)
		tick();
	CHECK_EQ(alerts.count, 1);
	CHECK_EQ(state_of("gpu_idle"), ZN_FIRING);
}

T(stalled_on_data)
{
	struct series *s;

	start();
	s = ADD("zernel_step_stall_ratio", 0.4, {"pid", "4242"}, {"cause", "data"});
	ADD("zernel_step_stall_ratio", 0.6, {"pid", "4242"}, {"cause", "gpu"});
	ticks(31);
	CHECK_EQ(alerts.count, 1);
	CHECK_EQ(state_of("stalled_on_data"), ZN_FIRING);
	s->value = 0.2;
	tick();
	CHECK_EQ(alerts.count, 0);
}

T(nccl_straggler)
{
	struct series *s;

	start();
	s = ADD("zernel_nccl_issue_late_seconds_total", 10, {"comm", "ab"}, {"rank", "3"});
	ADD("zernel_nccl_issue_late_seconds_total", 10, {"comm", "ab"}, {"rank", "2"});
	ADD("zernel_nccl_rank_info", 1, {"pid", "4243"}, {"comm", "ab"}, {"rank", "3"});
	ADD("zernel_nccl_rank_info", 1, {"pid", "4242"}, {"comm", "ab"}, {"rank", "2"});
	for (int i = 0; i < 100; i++, s->value += 0.25)
		tick();
	CHECK_EQ(alerts.count, 1);
	CHECK_EQ(state_of("nccl_straggler"), ZN_FIRING);
	CHECK_STR(annotation(&alerts.alert[0], "summary"),
		"rank 3, process 4243, issues its collectives late: 25 % of the time the others wait for it");
	CHECK_STR(zn_alert_label(&alerts.alert[0], "pid"), "4243");
	ticks(75);
	CHECK_EQ(alerts.count, 0);
}

T(driver_contention)
{
	struct series *s;

	start();
	s = ADD("zernel_gpu_ioctl_contention_ratio", 0.3, {0});
	ticks(40);
	CHECK_EQ(alerts.count, 0);
	s->value = 0.31;
	ticks(31);
	CHECK_EQ(state_of("driver_contention"), ZN_FIRING);
	s->value = 0.2;
	tick();
	CHECK_EQ(alerts.count, 0);
}

T(tcp_retransmits)
{
	struct series *s;

	start();
	s = ADD("zernel_tcp_retransmits_total", 1000, {"pid", "4242"});
	for (int i = 0; i < 100; i++, s->value += 49)
		tick();
	CHECK_EQ(alerts.count, 0);
	for (int i = 0; i < 200; i++, s->value += 60)
		tick();
	CHECK_EQ(state_of("tcp_retransmits"), ZN_FIRING);
	CHECK_STR(annotation(&alerts.alert[0], "summary"), "process 4242 sends 60 TCP segments a second again");
	ticks(70);
	CHECK_EQ(alerts.count, 0);
}

T(launch_latency_unusual)
{
	struct series *s;

	start();
	ADD("zernel_anomaly_score", 50, {"signal", "syscall_rate"}, {"pid", "4242"});
	s = ADD("zernel_anomaly_score", 5, {"signal", "launch_p99"}, {"pid", "4242"});
	ticks(60);
	CHECK_EQ(alerts.count, 0);
	s->value = 7.25;
	ticks(30);
	CHECK_EQ(state_of("launch_latency_unusual"), ZN_PENDING);
	s->value = 3; /* still above half of the limit */
	ticks(5);
	s->value = 8.5;
	tick();
	CHECK_EQ(state_of("launch_latency_unusual"), ZN_FIRING);
	CHECK_STR(annotation(&alerts.alert[0], "summary"),
		"launch_p99 of process 4242 is 8.5 standard deviations above what was usual for it");
	s->value = 2.5;
	tick();
	CHECK_EQ(alerts.count, 0);
}

T(probe_overhead)
{
	struct series *s;

	start();
	s = ADD("zernel_overhead_ratio", 0.01, {"pid", "4242"});
	ticks(60);
	CHECK_EQ(alerts.count, 0);
	s->value = 0.0101;
	ticks(30);
	CHECK_EQ(state_of("probe_overhead"), ZN_PENDING);
	tick();
	CHECK_EQ(state_of("probe_overhead"), ZN_FIRING);
	s->value = 0.0081;
	ticks(60);
	CHECK_EQ(state_of("probe_overhead"), ZN_FIRING);
	s->value = 0.0079;
	tick();
	CHECK_EQ(alerts.count, 0);
}

T(no_probe_overhead_without_a_budget)
{
	start();
	options.overhead_budget = 0;
	open_alerts(&alerts, &options, type_of_name, alerts.work.source);
	ADD("zernel_overhead_ratio", 0.9, {"pid", "4242"});
	ticks(60);
	CHECK_EQ(alerts.count, 0);
}

T(probe_overhead_of_another_budget)
{
	struct series *s;

	start();
	options.overhead_budget = 500000;
	open_alerts(&alerts, &options, type_of_name, alerts.work.source);
	s = ADD("zernel_overhead_ratio", 0.499, {"pid", "4242"});
	ticks(60);
	CHECK_EQ(alerts.count, 0);
	s->value = 0.501;
	ticks(31);
	CHECK_EQ(state_of("probe_overhead"), ZN_FIRING);
	s->value = 0.399;
	tick();
	CHECK_EQ(alerts.count, 0);
}

T(losses_fire_and_stay_a_minute)
{
	static const char *const watched[] = {
		"ringbuf", "series", "process", "thread", "alloc", "job", "task", "alert"};

	for (size_t i = 0; i < ZN_LEN(watched); i++) {
		struct series *s;

		start();
		s = ADD("zernel_lost_total", 9, {"what", watched[i]});
		ADD("zernel_lost_total", 9, {"what", "elf"});
		ticks(20);
		CHECK_EQ(alerts.count, 0);
		s->value += 3;
		world[1].value += 3;
		tick();
		CHECK_EQ(alerts.count, 1);
		CHECK_EQ(state_of("events_lost"), ZN_FIRING);
		CHECK(alerts.alert[0].value > 2.9 && alerts.alert[0].value < 3.1);
		ticks(60);
		CHECK_EQ(alerts.count, 1);
		ticks(15);
		CHECK_EQ(alerts.count, 0);
	}
}

/* What the log says while a series goes up to 0.961 and back. */
static const char *said_of(struct series *s)
{
	static char text[2048];
	int fds[2], saved = dup(STDERR_FILENO);
	ssize_t len;

	zn_log_level = ZN_INFO;
	if (saved < 0 || pipe(fds))
		abort();
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	s->value = 0.961;
	ticks(40);
	s->value = 0.1;
	ticks(5);
	s->value = 0.961;
	ticks(5);
	s->value = 0.1;
	ticks(5);
	dup2(saved, STDERR_FILENO);
	close(saved);
	len = read(fds[0], text, sizeof(text) - 1);
	text[len > 0 ? len : 0] = '\0';
	close(fds[0]);
	return text;
}

T(one_line_for_each_change)
{
	const char *said;

	start();
	said = said_of(ADD("zernel_gpu_memory_used_ratio", 0.961, {"gpu_id", "0"}));
	CHECK_STR(said,
		"zerneld: warning: alert gpu_oom_warning{gpu_id=\"0\"} fires at 0.961: "
		"the memory of GPU 0 is nearly full: 96.1 %\n"
		"zerneld: alert gpu_oom_warning{gpu_id=\"0\"} resolved after 30 s\n");
}

/* ---- A file. ---- */

T(reload)
{
	char why[ZN_TEXT_MAX];
	const struct zn_rules *before;
	uint64_t id;

	snprintf(options.alerts, sizeof(options.alerts), "/tmp/alert_test.%d", getpid());
	write_file("disable events_lost\nalert test\n expr test > 10\nalert other\n expr test > 11\n");
	start();
	CHECK_EQ(alerts.rules->rule[alerts.rules->rule_count - 2].built_in, false);
	ADD("test", 20, {"what", "x"});
	tick();
	CHECK_EQ(alerts.count, 2);
	id = find("test", "what", "x")->id;
	before = alerts.rules;
	write_file("alert test\n expr test > 10\n clear at 11\n");
	CHECK_EQ(zn_alerts_reload(&alerts, why), -EINVAL);
	CHECK(strstr(why, ":1:7: clear at 11 is on the wrong side of the limit, 10"));
	CHECK(alerts.rules == before);
	tick();
	CHECK_EQ(alerts.count, 2);
	write_file("alert test\n expr test > 5\n");
	told_count = 0;
	alerts.changed = note;
	CHECK_EQ(zn_alerts_reload(&alerts, why), 0);
	CHECK_EQ(told_count, 1); /* the other one is resolved */
	CHECK_EQ(told[0].state, ZN_INACTIVE);
	tick();
	CHECK_EQ(alerts.count, 1);
	CHECK_EQ(find("test", "what", "x")->id, id);
	CHECK(rule("events_lost"));
	unlink(options.alerts);
	CHECK_EQ(zn_alerts_reload(&alerts, why), -EINVAL);
	CHECK(strstr(why, "cannot read the rules: No such file or directory"));
	options.alerts[0] = '\0';
}

T(a_line_without_a_summary)
{
	const char *said;

	snprintf(options.alerts, sizeof(options.alerts), "/tmp/alert_test.%d", getpid());
	write_file("disable all\nalert test\n expr test > 50%\n for 10s\n");
	start();
	said = said_of(ADD("test", 0.961, {0}));
	CHECK_STR(said, "zerneld: warning: alert test fires at 0.961\nzerneld: alert test resolved after 30 s\n");
	unlink(options.alerts);
	options.alerts[0] = '\0';
}

/* docs/ALERTS.md shows the built-in rules as they are. */
T(documented)
{
	static char text[1 << 16];
	FILE *f = fopen("docs/ALERTS.md", "r");
	size_t len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	CHECK(f && fclose(f) == 0);
	text[len] = '\0';
	CHECK(strstr(text, zn_alerts_defaults));
}

int main(void)
{
	states_follow_values();
	RUN(an_alert_says_since_when);
	RUN(an_alert_is_never_endless);
	RUN(a_rule_has_a_share);
	RUN(the_sum_waits_and_stays_like_any_alert);
	RUN(nobody_hides_an_error_of_a_gpu);
	RUN(critical_alerts_have_places_of_their_own);
	RUN(a_user_has_a_share_of_a_rule);
	RUN(labels_without_room);
	RUN(the_highest_state);
	RUN(changes_are_told_once);
	RUN(labels_and_annotations);
	RUN(gpu_memory);
	RUN(gpu_memory_grows);
	RUN(host_memory_grows);
	RUN(gpu_memory_breathes);
	RUN(gpu_allocation_failed);
	RUN(the_first_errors_of_an_old_job);
	RUN(errors_from_before_the_rules);
	RUN(errors_from_while_a_rule_was_off);
	RUN(the_first_errors_before_rules_are_read_again);
	RUN(the_limit_itself_may_clear);
	RUN(a_multiple_of_no_budget);
	RUN(old_errors_of_a_process_whose_job_changes);
	RUN(requests_failing);
	RUN(data_starvation);
	RUN(gpu_idle);
	RUN(gpu_nearly_idle);
	RUN(stalled_on_data);
	RUN(nccl_straggler);
	RUN(driver_contention);
	RUN(tcp_retransmits);
	RUN(launch_latency_unusual);
	RUN(probe_overhead);
	RUN(probe_overhead_of_another_budget);
	RUN(no_probe_overhead_without_a_budget);
	RUN(losses_fire_and_stay_a_minute);
	RUN(one_line_for_each_change);
	RUN(reload);
	RUN(a_line_without_a_summary);
	RUN(documented);
	return t_end();
}
