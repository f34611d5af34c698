/* SPDX-License-Identifier: GPL-2.0 */
/*
 * parse_test.c: expressions and what comes out of them, one row for each production of the grammar; mistakes and where
 * they are said to be; the past of series; full tables.
 */
#include <math.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static struct zn_rules rules;
static struct zn_rule_work work;
static char why[ZN_TEXT_MAX];

static int type_of(const char *metric)
{
	static const struct {
		const char *name;
		enum zn_metric_type type;
	} types[] = {{"g", ZN_METRIC_GAUGE}, {"h", ZN_METRIC_GAUGE}, {"total", ZN_METRIC_GAUGE},
		{"many", ZN_METRIC_GAUGE}, {"crowd", ZN_METRIC_COUNTER}, {"c", ZN_METRIC_COUNTER},
		{"s", ZN_METRIC_SUMMARY}, {"s_count", ZN_METRIC_GAUGE}, {"wide", ZN_METRIC_GAUGE},
		{"zernel_anomaly_score", ZN_METRIC_GAUGE}};

	for (size_t i = 0; i < ZN_LEN(types); i++)
		if (!strcmp(metric, types[i].name))
			return (int)types[i].type;
	return -1;
}

/* g{a}: 1, 2, 3, NaN. h{a}: 10, 0, 30 and one of its own. total: 6. Two labels: wide{a,b}. */
static const struct {
	const char *metric, *a, *b;
	double value;
} world[] = {{"g", "1", NULL, 1}, {"g", "2", NULL, 2}, {"g", "3", NULL, 3}, {"g", "n", NULL, NAN}, {"h", "1", NULL, 10},
	{"h", "2", NULL, 0}, {"h", "3", NULL, 30}, {"h", "x", NULL, 99}, {"total", NULL, NULL, 6},
	{"wide", "1", "p", 5}, {"wide", "1", "q", 7}, {"wide", "2", "p", 9}, {"wide", "3", "", 11},
	{"zernel_anomaly_score", "1", "launch", 4}, {"zernel_anomaly_score", "1", "sync", 8}};

static double counter, counter_since_s; /* of c{a="1"}; since: 0: not known */
static uint32_t many, crowd;            /* series of the metrics of these names; labels: i, pid */
static uint32_t crowd_first;            /* of these, which are not there before it */
static uint64_t began_ns;               /* since when the rules look at all */
static bool gone, hides_0;
static struct zn_hist hist;

static struct zn_str text(const char *t)
{
	return (struct zn_str){t, strlen(t)};
}

static void walk(
	void *from, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	const char *b = strcmp(wanted->metric, "zernel_anomaly_score") ? "b" : "signal";
	char number[12];

	(void)from;
	for (size_t i = 0; i < ZN_LEN(world); i++) {
		struct zn_sample s = {.value = world[i].value};

		if (strcmp(world[i].metric, wanted->metric))
			continue;
		if (world[i].a)
			s.label[s.label_count++] = (struct zn_label){text("a"), text(world[i].a)};
		if (world[i].b)
			s.label[s.label_count++] = (struct zn_label){text(b), text(world[i].b)};
		sample(to, &s);
	}
	for (uint32_t i = 0,
		      count = !strcmp(wanted->metric, "many") ? many
			: !strcmp(wanted->metric, "crowd")    ? crowd
							      : 0;
		i < count; i++) {
		struct zn_sample s = {.label_count = 1, .value = i, .since_ms = 1, .hides_0 = hides_0};

		if (*wanted->metric == 'c' && i < crowd_first)
			continue;
		snprintf(number, sizeof(number), "%u", i);
		s.label[0] = (struct zn_label){text(*wanted->metric == 'm' ? "i" : "pid"), text(number)};
		sample(to, &s);
	}
	if (!gone && !strcmp(wanted->metric, "c"))
		sample(to,
			&(struct zn_sample){.label = {{text("a"), text("1")}},
				.label_count = 1,
				.value = counter,
				.since_ms = (uint64_t)(counter_since_s * 1000),
				.hides_0 = hides_0});
	if (!strcmp(wanted->metric, "s"))
		sample(to,
			&(struct zn_sample){
				.label = {{text("a"), text("1")}}, .label_count = 1, .value = NAN, .hist = &hist});
}

static const struct zn_rule_names names = {type_of, 0.01};

static int parse(const char *rule)
{
	memset(&rules, 0, sizeof(rules));
	return zn_rules_parse(&rules, "f", text(rule), &names, why);
}

static void expression(const char *expr)
{
	static char rule[1024]; /* a text must stay */

	snprintf(rule, sizeof(rule), "alert x\n  expr %s\n", expr);
	if (parse(rule))
		T_FAIL("%s", why);
}

/* What came out: "a=1:10 a=2:5? b=3:1-"; ? cannot be told, - does not hold. */
static char result[4096];
static size_t result_len;
static uint32_t result_count;
static char cleared[8]; /* c clear, h holds, - neither */

static void note(void *to, const struct zn_instance *i)
{
	(void)to;
	if (result_count < sizeof(cleared) - 1)
		cleared[result_count] = i->clear ? 'c' : i->truth == ZN_YES ? 'h' : '-';
	result_count++;
	if (result_len > sizeof(result) - 200)
		return;
	if (result_len)
		result[result_len++] = ' ';
	for (uint32_t l = 0; l < i->label_count; l++)
		result_len += (size_t)snprintf(result + result_len, 100, "%s%.*s=%.*s", l ? "," : "",
			(int)i->label[l].label.name.len, i->label[l].label.name.at, (int)i->label[l].label.value.len,
			i->label[l].label.value.at);
	result_len += (size_t)snprintf(result + result_len, 60, ":%.10g%s", i->value,
		i->truth == ZN_YES                     ? ""
			: i->truth == ZN_UNKNOWN_TRUTH ? "?"
						       : "-");
	if (i->clear && i->truth == ZN_YES)
		T_FAIL("%s", "clear, and it holds");
}

static void run_at(double seconds)
{
	work.source = (struct zn_rule_source){walk, NULL};
	work.rules = &rules;
	work.now_ns = (uint64_t)((seconds + 1000) * 1e9);
	work.wall_ms = (uint64_t)(seconds * 1000);
	result_len = result_count = 0;
	result[0] = '\0';
	memset(cleared, 0, sizeof(cleared));
	for (uint32_t i = 0; i < rules.selector_count; i++)
		rules.selector[i].began_ns = began_ns;
	for (uint32_t i = 0; i < rules.rule_count; i++)
		zn_rule_run(&work, &rules.rule[i], note, NULL);
	zn_rule_sweep(&work);
}

static const struct {
	const char *expr, *result;
} vectors[] = {
	{"g > 1", "a=1:1- a=2:2 a=3:3 a=n:nan?"},
	{"g >= 2", "a=1:1- a=2:2 a=3:3 a=n:nan?"},
	{"g < 2", "a=1:1 a=2:2- a=3:3- a=n:nan?"},
	{"g <= 2", "a=1:1 a=2:2 a=3:3- a=n:nan?"},
	{"g == 2", "a=1:1- a=2:2 a=3:3- a=n:nan?"},
	{"g != 2", "a=1:1 a=2:2- a=3:3 a=n:nan?"},
	{"2 < g", "a=1:1- a=2:2- a=3:3 a=n:nan?"},
	{"2 >= g", "a=1:1 a=2:2 a=3:3- a=n:nan?"},
	{"g{a=\"2\"} > 0", "a=2:2"},
	{"g{a='2',} > 0", "a=2:2"},
	{"g{} == 3", "a=1:1- a=2:2- a=3:3 a=n:nan?"},
	{"g{a!=\"n\"} > 9", "a=1:1- a=2:2- a=3:3-"},
	{"g{a=(\"1\", \"3\")} > 0", "a=1:1 a=3:3"},
	{"g{a!=(\"1\", \"n\")} > 0", "a=2:2 a=3:3"},
	{"g{a=\"2\", a!=\"2\"} > 0", ""},
	{"g{b=\"\"} > 2", "a=1:1- a=2:2- a=3:3 a=n:nan?"},
	{"wide{b=\"\"} > 2", "a=3:11"},
	{"wide{b=\"p\"} > 2", "a=1,b=p:5 a=2,b=p:9"},
	{"g{a=\"3\"} * 2 + 4 / 8 - 1 > 0", "a=3:5.5"},
	{"g{a=\"3\"} * (2 + 4) > 0", "a=3:18"},
	{"10 - g{a=\"3\"} - 2 > 0", "a=3:5"},
	{"-g{a=\"3\"} < -2", "a=3:-3"},
	{"g{a=\"3\"} > -(1 + 2)", "a=3:3"},
	{"g{a=\"3\"} > - 5", "a=3:3"},
	{"12 / h{a!=\"x\"} > 0", "a=1:1.2 a=3:0.4"},
	{"g / h > 0", "a=1:0.1 a=3:0.1"},
	{"h / g > 0", "a=1:10 a=2:0- a=3:10"},
	{"g{a=\"3\"} / total > 0", "a=3:0.5"},
	{"total / g > 0", "a=1:6 a=2:3 a=3:2 a=n:nan?"},
	{"wide - g > 0", "a=1,b=p:4 a=1,b=q:6 a=2,b=p:7 a=3:8"},
	{"g{a=\"1\"} - wide < 0", "a=1,b=p:-4 a=1,b=q:-6"},
	{"g < h", "a=1:1 a=2:2- a=3:3"},
	{"g > 1 and h > 5", "a=1:1- a=2:2- a=3:3 a=n:nan-"},
	{"g > 1 unless h > 5", "a=1:1- a=2:2 a=3:3- a=n:nan?"},
	{"g > 2 or h > 5", "a=1:10 a=2:2- a=3:3 a=n:nan? a=x:99"},
	{"g > 2 or h > 50", "a=1:1- a=2:2- a=3:3 a=n:nan? a=x:99"},
	{"g > 5 or g < 2 and g > 0", "a=1:1 a=2:2- a=3:3- a=n:nan?"},
	{"(g > 5 or g < 2) and g > 0", "a=1:1 a=2:2- a=3:3- a=n:nan?"},
	{"g > 1 and total > 5", "a=1:1- a=2:2 a=3:3 a=n:nan?"},
	{"g > 1 and total > 50", "a=1:1- a=2:2- a=3:3- a=n:nan-"},
	{"g > 1 and wide{b=\"p\"} > 8", "a=1:1- a=2:2 a=3:3- a=n:nan-"},
	{"wide > 6 and g > 1", "a=1,b=p:5- a=1,b=q:7- a=2,b=p:9 a=3:11"},
	{"g > 1\n and\n h > 5", "a=1:1- a=2:2- a=3:3 a=n:nan-"},
	{"(g\n >\n # why\n 1)", "a=1:1- a=2:2 a=3:3 a=n:nan?"},
	{"sum(g) > 0", ":6"},
	{"avg(g) > 0", ":2"},
	{"max(g) > 0", ":3"},
	{"min(g) > 0", ":1"},
	{"count(g) > 0", ":3"},
	{"sum by (a) (wide) > 0", "a=1:12 a=2:9 a=3:11"},
	{"sum(wide) by (a) > 0", "a=1:12 a=2:9 a=3:11"},
	{"max by (b) (wide) > 0", "b=p:9 b=q:7 :11"},
	{"avg by (a, b) (wide) > 6", "a=1,b=p:5- a=1,b=q:7 a=2,b=p:9 a=3:11"},
	{"min by (nothing) (wide) > 0", ":5"},
	{"count(g > 1) >= 2", ":2"},
	{"count(g > 5) >= 2", ":0-"},
	{"count by (a) (g > 1) > 0", "a=1:0- a=2:1 a=3:1 a=n:0-"},
	{"max(g > 5) > 0", ""},
	{"max(-1 * h) > -5", ":-0"},
	{"sum(g{a=\"none\"}) > 0", ""},
	{"g > sum(g) / 3", "a=1:1- a=2:2- a=3:3 a=n:nan?"},
	{"quantile(0.5, s) > 1ms", "a=1:0.001998848"},
	{"quantile(50%, s{a=\"1\"}) > 1s", "a=1:0.001998848-"},
	{"s_sum > 0", "a=1:0.006"},
	{"anomaly(\"launch\") > 3", "a=1,signal=launch:4"},
	{"g > overhead_budget * 200", "a=1:1- a=2:2- a=3:3 a=n:nan?"},
	{"h{a=\"1\"} > 50%", "a=1:10"},
	{"h{a=\"1\"} * 1GiB == 10240MiB", "a=1:1.073741824e+10"},
	{"h{a=\"1\"} * 1kB + 1B < 1e-3MB + 1e6", "a=1:10001"},
	{"h{a=\"1\"} == 10s and h{a=\"1\"} < 1m and h{a=\"1\"} < 1h and h{a=\"1\"} < 1d", "a=1:10"},
	{"h{a=\"1\"} > 10ms and h{a=\"1\"} > 10us and h{a=\"1\"} > 10ns", "a=1:10"},
	{"g{a=\"none\"} > 0", ""},
};

static void expressions(void)
{
	memset(&hist, 0, sizeof(hist));
	for (int i = 0; i < 3; i++)
		zn_hist_add(&hist, 2000000);
	for (size_t i = 0; i < ZN_LEN(vectors); i++) {
		t_begin(vectors[i].expr);
		expression(vectors[i].expr);
		run_at(1);
		CHECK_STR(result, vectors[i].result);
	}
}

#define X "alert x\n expr g > 1\n"
#define E "alert x\n  expr "
static const struct {
	const char *rule, *why;
} mistakes[] = {
	{"x", "f:1:1: expected alert NAME or disable NAME at the start of a line, not 'x'"},
	{" alert x", "f:1:2: expected alert NAME or disable NAME at the start of a line, not 'alert'"},
	{"alert", "f:1:6: expected the name of a rule, not the end of the file"},
	{"alert 5", "f:1:7: expected the name of a rule, not '5'"},
	{"alert a:b", "f:1:7: expected a name of at most 31 letters, digits and _"},
	{"alert a_name_that_is_far_too_long_to_be", "f:1:7: expected a name of at most 31 letters, digits and _"},
	{"alert x y", "f:1:9: expected the end of the line, not 'y'"},
	{"alert x", "f:1:7: rule x has no expr"},
	{"alert x\n for 5s\n", "f:1:7: rule x has no expr"},
	{X X, "f:3:7: a second rule named x"},
	{"disable x", "f:1:9: there is no built-in rule x"},
	{X "disable x", "f:3:9: there is no built-in rule x"},
	{X " what 5",
		"f:3:2: expected expr, clear, for, keep_firing_for, severity, summary, description or runbook_url, not 'what'"},
	{X " expr g > 2", "f:3:2: expr twice in one rule"},
	{X " for 5", "f:3:6: expected a time with its unit, as in 30s or 5m"},
	{X " for 5%", "f:3:6: expected a time with its unit, as in 30s or 5m"},
	{X " for 5 s", "f:3:6: expected a time with its unit, as in 30s or 5m"},
	{X " for 8d", "f:3:6: expected a time of at most 604800 s"},
	{X " for x", "f:3:6: expected a number, not 'x'"},
	{X " keep_firing_for -5s", "f:3:18: expected a number, not '-5s'"},
	{X " severity 5", "f:3:11: expected a word, as in warning or critical, not '5'"},
	{X " severity abcdefghijklmnopq", "f:3:11: expected a word of at most 15 letters"},
	{X " severity a b", "f:3:13: expected the end of the line, not 'b'"},
	{X " summary\n", "f:3:9: expected a text, not the end of the line"},
	{X " summary {{a", "f:3:10: a {{ that is not closed on this line"},
	{X " summary a {{}}",
		"f:3:12: expected {{label}}, {{value}}, {{value|percent}}, {{value|bytes}} or {{value|duration}}"},
	{X " summary {{value|x}}",
		"f:3:10: expected {{label}}, {{value}}, {{value|percent}}, {{value|bytes}} or {{value|duration}}"},
	{X " clear 5", "f:3:8: expected at and a value, or when and a condition, not '5'"},
	{X " clear on 5", "f:3:8: expected at and a value, or when and a condition, not 'on'"},
	{X " clear at 5", "f:1:7: clear at 5 is on the wrong side of the limit, 1"},
	{X " clear at g", "f:3:11: expected a number after clear at; for conditions: clear when"},
	{X " clear when 5", "f:3:13: expected a comparison, as in x > 5: this is a number"},
	{"alert x\n expr g > h\n clear at 1\n",
		"f:1:7: clear at needs an expr that begins with x > NUMBER or x < NUMBER"},
	{"alert x\n expr g == 1\n clear at 1\n",
		"f:1:7: clear at needs an expr that begins with x > NUMBER or x < NUMBER"},
	{"alert x\n expr g > 1 or h > 1\n clear at 1\n",
		"f:1:7: clear at says nothing about an expr with or; say clear when"},
	{E "\n", "f:2:8: expected a metric, a function, a number or (, not the end of the line"},
	{E "g", "f:2:8: expected a comparison, as in x > 5: this is a number"},
	{E "g >\n", "f:3:1: expected a metric, a function, a number or (, not the end of the file"},
	{E "nothing > 1", "f:2:8: no metric 'nothing'; zerneld --list-metrics lists them"},
	{E "g_sum > 1", "f:2:8: no metric 'g_sum'; zerneld --list-metrics lists them"},
	{E "s > 1", "f:2:8: a summary: say quantile(0.99, ...), or its name with _sum or _count"},
	{E "g > 1 > 2", "f:2:8: expected a number or a metric on both sides of >, not a comparison"},
	{E "(g > 1) + 2 > 1", "f:2:9: expected a number or a metric on both sides of +, not a comparison"},
	{E "g and h > 1", "f:2:8: expected a comparison, as in x > 5, on both sides of and"},
	{E "g > 1 or h", "f:2:17: expected a comparison, as in x > 5, on both sides of or"},
	{E "-(g > 1) > 1", "f:2:8: a comparison is no number"},
	{E "1 > 2", "f:2:8: expected a metric on one side of >"},
	{E "1", "f:2:8: expected a comparison, as in x > 5: this is a number"},
	{E "g > 1 / 0", "f:2:12: this is no finite number"},
	{E "g / 0 > 1", "f:2:12: a division by zero"},
	{E "g > 1e999", "f:2:12: expected a number, as in 0.95 or 1e9, not '1e999'"},
	{E "g > 1.2.3", "f:2:12: expected a number, as in 0.95 or 1e9, not '1.2.3'"},
	{E "g > 5parsec", "f:2:13: expected a unit (% ns us ms s m h d B kB MB GB TB KiB MiB GiB TiB), not 'parsec'"},
	{E "g > 1 and", "f:2:17: expected a metric, a function, a number or (, not the end of the file"},
	{E "(g > 1", "f:2:14: expected an operator or ), not the end of the file"},
	{E "g) > 1", "f:2:8: expected a comparison, as in x > 5: this is a number"},
	{E "g > 1)", "f:2:13: expected the end of the line, not ')'"},
	{E "g{a} > 1", "f:2:11: expected = or !=; for one of several: label=(\"a\", \"b\"), not '}'"},
	{E "g{a=~\"x\"} > 1", "f:2:11: expected = or !=; for one of several: label=(\"a\", \"b\"), not '=~\"x\"}'"},
	{E "g{a=5} > 1", "f:2:12: expected a text in quotes, not '5}'"},
	{E "g{a=\"5} > 1\n", "f:2:12: a quote that is not closed on this line"},
	{E "g{a=\"5' > 1", "f:2:12: a quote that is not closed on this line"},
	{E "g{a=\"5\" > 1", "f:2:16: expected , or }, not '>'"},
	{E "g{a=(\"5\" > 1", "f:2:17: expected , or ), not '>'"},
	{E "g{5} > 1", "f:2:10: expected a label, or }, not '5}'"},
	{E "g[5s] > 1", "f:2:9: [...] is for rate(), increase(), slope() and time_to() alone"},
	{E "rate(c) > 1", "f:2:14: expected the time to look back on, as in [30s], not ')'"},
	{E "rate(c[5]) > 1", "f:2:15: expected a time with its unit, as in 30s or 5m"},
	{E "rate(c[2h]) > 1", "f:2:15: expected a time of at most 3600 s"},
	{E "rate(c[0s]) > 1", "f:2:13: expected a time above 0 to look back on"},
	{E "rate(g[5s]) > 1", "f:2:13: rate() and increase() need a counter; of a gauge, say slope()"},
	{E "rate(5) > 1", "f:2:13: expected a metric, not '5)'"},
	{E "rate c > 1", "f:2:13: expected (, not 'c'"},
	{E "rate(c[5s] > 1", "f:2:19: expected ), not '>'"},
	{E "slope(c[5s]) > 1", "f:2:14: slope() and time_to() need a gauge; of a counter, say rate()"},
	{E "time_to(g[5s]) > 1", "f:2:21: expected , and the value to reach, not ')'"},
	{E "quantile(s) > 1", "f:2:17: expected a number, not 's)'"},
	{E "quantile(2, s) > 1", "f:2:17: expected a quantile from 0.001 to 0.999"},
	{E "quantile(0.5 s) > 1", "f:2:21: expected , and a summary, not 's)'"},
	{E "quantile(0.5, g) > 1", "f:2:22: quantile() needs a summary, and this is none"},
	{E "anomaly(x) > 1", "f:2:16: expected a text in quotes, not 'x)'"},
	{E "sum g > 1", "f:2:12: expected ( or by, not 'g'"},
	{E "sum(5) > 1", "f:2:12: expected a metric in here, not a number alone"},
	{E "sum by a (g) > 1", "f:2:15: expected ( and the labels to keep, not 'a'"},
	{E "sum by () (g) > 1", "f:2:16: expected a label, not ')'"},
	{E "sum by (a) (g) by (a) > 1", "f:2:23: by (...) twice"},
	{E "((((((((((((((((((((g > 1", "f:2:24: nested more than 16 deep"},
	{E "----------------------g > 1", "f:2:24: nested more than 16 deep"},
	{E "g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g + g > 1",
		"f:2:8: a rule of more than 48 operations and operands"},
};

static void errors(void)
{
	for (size_t i = 0; i < ZN_LEN(mistakes); i++) {
		t_begin(mistakes[i].rule);
		CHECK(parse(mistakes[i].rule) < 0);
		CHECK_STR(why, mistakes[i].why);
	}
}

/* A text that ends anywhere, in a block of exactly its size: an answer, and no byte behind it is read. */
T(cut_anywhere)
{
	static const char all[] =
		"# c\ndisable a\nalert b\n  expr sum by (a) (rate(c{a='1', b!=(\"x\", \"y\")}[5m])) / 2 >= 5.5e1%\n"
		"   and quantile(0.5, s) < 1s unless time_to(g[5s], -1) > 3\n  clear when g > 1\n  for 5s\n"
		"  summary {{a}} and {{value|bytes}}\n";

	for (size_t len = 0; len < sizeof(all); len++) {
		char *block = malloc(len ? len : 1);

		memcpy(block, all, len);
		memset(&rules, 0, sizeof(rules));
		strcpy(rules.rule[0].name, "a");
		rules.rule_count = 1;
		zn_rules_parse(&rules, "f", (struct zn_str){block, len}, &names, why);
		CHECK(strlen(why) < ZN_TEXT_MAX);
		free(block);
	}
	CHECK_STR(why, "");
	CHECK(zn_rules_parse(&rules, "f", (struct zn_str){"#\n\0", 3}, &names, why) < 0);
	CHECK_STR(why, "f:2:1: a NUL byte; this is no text");
}

T(files_replace_and_disable)
{
	memset(&rules, 0, sizeof(rules));
	CHECK_EQ(zn_rules_parse(&rules, "a", text("alert x\n expr g > 1\nalert y\n expr g > 2\nalert z\n expr g > 3\n"),
			 &names, why),
		0);
	CHECK_EQ(zn_rules_parse(&rules, "b", text("disable y\r\nalert w\r\n expr g > 4\r\nalert x\n expr g > 5\n"),
			 &names, why),
		0);
	CHECK_EQ(rules.rule_count, 3);
	CHECK_STR(rules.rule[0].name, "z");
	CHECK_STR(rules.rule[1].name, "w");
	CHECK_STR(rules.rule[2].name, "x");
	CHECK_MEM(rules.rule[2].expr.at, rules.rule[2].expr.len, "g > 5", 5);
	CHECK_EQ(zn_rules_parse(&rules, "c", text("disable all\nalert x\n expr g > 6\n"), &names, why), 0);
	CHECK_EQ(rules.rule_count, 1);
	CHECK(rules.rule[0].limit > 5.9);
}

/* As it is written, whatever is computed with it. */
T(a_limit_has_a_unit)
{
	static const struct {
		const char *expr;
		enum zn_unit unit;
	} rows[] = {{"g > 5", ZN_UNIT_NONE}, {"g > 500ms", ZN_UNIT_TIME}, {"g > 2 * 5m", ZN_UNIT_TIME},
		{"95% < g", ZN_UNIT_RATIO}, {"g > overhead_budget", ZN_UNIT_RATIO}, {"g > 4GiB", ZN_UNIT_BYTES},
		{"g > c / 30s", ZN_UNIT_NONE}};
	static char rule[64];

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		memset(&rules, 0, sizeof(rules));
		snprintf(rule, sizeof(rule), "alert x\n expr %s\n", rows[i].expr);
		CHECK_EQ(zn_rules_parse(&rules, "a", text(rule), &names, why), 0);
		CHECK_EQ(rules.rule[0].unit, rows[i].unit);
	}
}

T(full_tables)
{
	static char big[ZN_RULE_BYTES * 2];
	size_t len = 0;

	for (int i = 0; i <= ZN_RULES_MAX; i++)
		len += (size_t)snprintf(big + len, 64, "alert r%d\n expr g > 1\n", i);
	CHECK(parse(big) < 0);
	CHECK_STR(why, "f:129:7: more than 64 rules, the built-in ones included");
	len = 0;
	for (int r = 0; r < 10; r++) {
		len += (size_t)snprintf(big + len, 64, "alert r%d\n expr g", r);
		for (int i = 0; i < 20; i++)
			len += (size_t)snprintf(big + len, 64, " + g");
		len += (size_t)snprintf(big + len, 64, " > 1\n");
	}
	CHECK(parse(big) < 0);
	CHECK(strstr(why, "f:20:") == why && strstr(why, ": more than 192 metrics named in all rules"));
	len = (size_t)snprintf(big, 64, "alert x\n expr g{a=(");
	for (int i = 0; i < 300; i++)
		len += (size_t)snprintf(big + len, 64, "\"\",");
	CHECK(parse(big) < 0);
	CHECK(strstr(why, ": more than 255 values"));
	expression("many >= 0");
	many = ZN_ELEMENTS_MAX + 7;
	work.lost = 0;
	run_at(1);
	CHECK_EQ(result_count, ZN_ELEMENTS_MAX);
	CHECK_EQ(work.lost, 7);
	expression("slope(many[5s]) >= 0");
	work.lost = 0;
	run_at(2);
	CHECK_EQ(work.past_count, ZN_PASTS_MAX);
	CHECK_EQ(work.lost, ZN_ELEMENTS_MAX + 7 - ZN_PASTS_MAX);
	many = 5;
	run_at(6);
	CHECK_EQ(work.past_count, 5);
	CHECK_STR(result, "i=0:0 i=1:0 i=2:0 i=3:0 i=4:0");
	many = 0;
	run_at(7);
	CHECK_EQ(work.past_count, 0);
}

static uint32_t owner_of_pid(void *from, uint32_t pid)
{
	(void)from;
	return pid < ZN_PASTS_MAX ? 1001 : 1002;
}

/* The series of one user's processes leave room for those of others, and for what is about the node. */
T(a_user_has_a_share_of_the_pasts)
{
	uint32_t share = (ZN_PASTS_MAX - ZN_PASTS_MAX / 8) / 2;

	work.past_count = 0;
	work.past_quota = (struct zn_quota){0};
	memset(work.past_slot, 0, sizeof(work.past_slot));
	work.whose = owner_of_pid;
	expression("rate(crowd[2s]) >= 0 or slope(many[2s]) >= 0");
	crowd = ZN_PASTS_MAX + 7;
	many = 11;
	run_at(1);
	CHECK_EQ(work.past_count, share + 7 + 11);
	run_at(2);
	CHECK_EQ(result_count, share + 7); /* "or" leaves out what the left side has already */
	crowd = many = 0;
	run_at(3);
	CHECK_EQ(work.past_count, 0);
	CHECK_EQ(work.past_quota.used, 0);
	work.whose = NULL;
}

/* What had no room for its past was not 0 all the time that the rules looked. */
T(old_counts_of_a_series_that_had_no_room)
{
	const uint32_t share = (ZN_PASTS_MAX - ZN_PASTS_MAX / 8) / 2;
	char two[64];

	work.past_count = 0;
	work.past_quota = (struct zn_quota){0};
	memset(work.past_slot, 0, sizeof(work.past_slot));
	work.whose = owner_of_pid;
	expression("increase(crowd[4s]) >= 0");
	began_ns = 1000 * ZN_NS_PER_S;
	hides_0 = true;
	crowd = share + 2;
	for (int i = 0; i < 9; i++)
		run_at(1 + i);
	CHECK_EQ(work.past_count, share);
	crowd_first = share;
	run_at(10); /* the others go */
	run_at(11);
	CHECK_EQ(work.past_count, 2);
	CHECK_EQ(result_count, 0);
	run_at(12);
	snprintf(two, sizeof(two), "pid=%u:0 pid=%u:0", share, share + 1);
	CHECK_STR(result, two);
	crowd_first = crowd = 0;
	hides_0 = false;
	began_ns = 0;
	run_at(13);
	work.whose = NULL;
}

/* One value a second of the counter, and what the expression makes of it in each; "-": no instance. */
static void over_time(const char *expr, double since, const char *values, const char *want)
{
	char all[1024] = "", one[64];
	double second = 100;

	work.past_count = 0;
	memset(work.past_slot, 0, sizeof(work.past_slot));
	counter_since_s = since;
	expression(expr);
	for (const char *at = values; *at; at += strcspn(at, " "), at += *at == ' ') {
		gone = *at == '-';
		counter = atof(at);
		run_at(second++);
		snprintf(one, sizeof(one), "%s%s", *all ? " " : "", result_count ? strchr(result, ':') + 1 : "-");
		strcat(all, one);
	}
	gone = false;
	CHECK_STR(all, want);
}

T(past)
{
	over_time("rate(c[4s]) >= 0", 0, "5 6 7 8 9 9 9 9 9 9", "- - 1 1 1 0.75 0.5 0.25 0 0");
	over_time("increase(c[4s]) >= 0", 0, "5 6 7 8 9 9 9 9 9 9", "- 1 2 3 4 3 2 1 0 0");
	/* it began 2 s before it was seen: it was 0 then */
	over_time("increase(c[4s]) >= 0", 98, "5 6 7 8 9", "5 6 7 8 4");
	over_time("rate(c[4s]) >= 0", 98, "5 6", "2.5 2");
	/* and here so long ago that nothing is known of the last 4 s */
	over_time("increase(c[4s]) >= 0", 90, "5 6", "- 1");
	/* a counter that begins again */
	over_time("increase(c[8s]) >= 0", 0, "5 7 1 2 0 3", "- 2 3 4 4 7");
	/* it goes, and one of its labels comes later */
	over_time("increase(c[8s]) >= 0", 0, "5 7 - 90 91", "- 2 - - 1");
	over_time("rate(c[1s]) >= 0", 0, "5 7 8", "- 2 1");
}

/* It began long ago, and had no series as long as the rules looked: it was 0 then. */
T(the_first_of_what_is_rare)
{
	hides_0 = true;
	over_time("increase(c[4s]) >= 0", 50, "- - 5 6 6 6 6", "- - - 1 1 1 1"); /* nobody knows when they began */
	began_ns = 1100 * ZN_NS_PER_S; /* as the first value of over_time() comes */
	over_time("increase(c[4s]) >= 0", 50, "5 6", "- 1");
	over_time("increase(c[4s]) >= 0", 50, "- - 5 6 6 6 6", "- - 5 6 6 6 1");
	over_time("rate(c[4s]) >= 0", 50, "- - 5 6", "- - 2.5 2");
	over_time("increase(c[4s]) >= 0", 101, "- - 5", "- - 5");
	over_time("increase(c[4s]) >= 0", 0, "- - 5 6", "- - - 1");
	began_ns = 1050 * ZN_NS_PER_S;
	over_time("rate(c[4s]) >= 0", 50, "- - 8 8 8 8 8", "- - 2 2 2 2 0");
	hides_0 = false;
	over_time("increase(c[4s]) >= 0", 50, "- - 5 6", "- - - 1");
	began_ns = 0;
}

static double gauge_at; /* g of the second, for time_to() */

static void gauge(
	void *from, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	(void)from, (void)wanted;
	sample(to, &(struct zn_sample){.value = gauge_at});
}

T(slopes)
{
	static const struct {
		const char *expr;
		double per_s, want;
	} rows[] = {{"slope(g[10s]) != 77", 2, 2}, {"slope(g[10s]) != 77", -3, -3}, {"time_to(g[10s], 100) > 0", 2, 30},
		{"time_to(g[10s], 100) > 0", -2, INFINITY}, {"time_to(g[10s], 100) > 0", 0, INFINITY},
		{"time_to(g[10s], -60) > 0", -2, 10}, {"time_to(g[10s], 60) >= 0", 1, INFINITY}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		double got = 0;

		work.past_count = 0;
		memset(work.past_slot, 0, sizeof(work.past_slot));
		expression(rows[i].expr);
		for (int s = 0; s <= 20; s++) {
			gauge_at = rows[i].per_s * s + (i == 6 ? 50 : 0);
			work.rules = &rules;
			work.source = (struct zn_rule_source){gauge, NULL};
			work.now_ns = (uint64_t)(1000 + s) * ZN_NS_PER_S;
			work.wall_ms = 1000;
			result_len = result_count = 0;
			result[0] = '\0';
			zn_rule_run(&work, &rules.rule[0], note, NULL);
			zn_rule_sweep(&work);
			CHECK_EQ(result_count, s >= 5);
			got = result_count ? atof(result + 1) : 0;
		}
		CHECK(got == rows[i].want);
	}
}

/* The same past in two rules is one. */
T(pasts_are_shared)
{
	work.past_count = 0;
	memset(work.past_slot, 0, sizeof(work.past_slot));
	CHECK_EQ(parse("alert x\n expr rate(c[4s]) > 0\nalert y\n expr increase(c[4s]) > 0 and rate(c[5s]) > 0\n"), 0);
	counter_since_s = 0;
	for (int i = 0; i < 6; i++) {
		counter = i * 3;
		run_at(100 + i);
	}
	CHECK_EQ(work.past_count, 2);
	CHECK_STR(result, "a=1:3 a=1:12");
}

T(clearing)
{
	static const struct {
		const char *rule;
		const char *clear; /* of g: a letter for 1, 2, 3 and NaN: c clear, h holds, - neither */
	} rows[] = {{"expr g > 2", "cch-"}, {"expr g > 2\n clear at 1", "c-h-"}, {"expr g >= 2\n clear at 1", "-hh-"},
		{"expr g >= 2\n clear at 2", "chh-"}, {"expr g <= 2\n clear at 2", "hhc-"},
		{"expr g > 2\n clear at 2", "cch-"}, {"expr g < 2\n clear at 3", "h-c-"},
		{"expr g > 2 and total > 1\n clear at 1", "c-h-"}, {"expr g > 2 and total > 9\n clear at 1", "cccc"},
		{"expr g > 2 unless total > 1\n clear at 1", "cccc"}, {"expr g > 2\n clear when g == 2", "-ch-"},
		{"expr g > 2\n clear when total == 6", "cchc"}, {"expr g > 2\n clear when h > 0", "c-h-"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		static char rule[256];

		snprintf(rule, sizeof(rule), "alert x\n %s\n", rows[i].rule);
		CHECK_EQ(parse(rule), 0);
		run_at(1);
		CHECK_STR(cleared, rows[i].clear);
	}
}

static struct zn_str label_of(const void *of, struct zn_str name)
{
	(void)of;
	return name.len == 1 ? text("one") : text("");
}

T(filling_in)
{
	static const struct {
		const char *text;
		double value;
		const char *want;
	} rows[] = {{"", 1, ""}, {"plain", 1, "plain"}, {"{{a}}", 1, "one"}, {"{{ a }}{{other}}.", 1, "one."},
		{"{{value}}", 1234567, "1.235e+06"}, {"{{value|percent}}", 0.955, "95.5 %"},
		{"{{value|bytes}}", 0, "0 B"}, {"{{value|bytes}}", 1536, "1.5 KiB"},
		{"{{value|bytes}}", 3e15, "2728 TiB"}, {"{{value|duration}}", 0, "0 s"},
		{"{{value|duration}}", 90.4, "1 min 30 s"}, {"{{value|duration}}", 59.99, "60 s"},
		{"{{value|duration}}", 7384, "2 h 3 min"}, {"{{value|duration}}", 0.0025, "2.5 ms"},
		{"{{value|duration}}", 3e-6, "3 us"}, {"{{value|duration}}", INFINITY, "inf s"},
		{"a }} b", 1, "a }} b"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char to[256];
		struct zn_out o = {.at = to, .cap = sizeof(to)};

		zn_fill_text(&o, text(rows[i].text), rows[i].value, label_of, NULL);
		CHECK_MEM(to, o.len, rows[i].want, strlen(rows[i].want));
	}
}

int main(void)
{
	expressions();
	errors();
	RUN(cut_anywhere);
	RUN(files_replace_and_disable);
	RUN(a_limit_has_a_unit);
	RUN(full_tables);
	RUN(a_user_has_a_share_of_the_pasts);
	RUN(old_counts_of_a_series_that_had_no_room);
	RUN(past);
	RUN(the_first_of_what_is_rare);
	RUN(slopes);
	RUN(pasts_are_shared);
	RUN(clearing);
	RUN(filling_in);
	return t_end();
}
