/* SPDX-License-Identifier: GPL-2.0 */
/* findings_test.c: which alerts are about a job, and in which order, over a table of alerts that the test fills. */
#include "zernel.h"
#include "t.h"

#include <string.h>

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_rules rules;
static struct zn_finding found[ZN_FINDINGS_MAX];
static const struct zn_finding_of job = {&agg, {3, 7}, "4711", NULL}, none = {&agg, {ZN_JOBS_MAX, 0}, "", NULL};

static void serve(uint32_t tgid, struct zn_job_ref of)
{
	struct zn_server server = {.tgid = tgid};
	int at = memory.arena.ops->server_add(&memory.arena, &server);

	CHECK(at >= 0);
	memory.arena.servers[at].job = of;
}

/* Process 100 is of the job, and 200 of none; so are the servers 900 and 901, which use no GPU themselves. */
static void start(void)
{
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	memset(&alerts, 0, sizeof(alerts));
	memset(&rules, 0, sizeof(rules));
	zn_memory_claim(&memory, 100, "python3")->job = (struct zn_job_ref){3, 7};
	zn_memory_claim(&memory, 200, "python3");
	serve(900, (struct zn_job_ref){3, 7});
	serve(901, (struct zn_job_ref){0});
	zn_agg_tick(&agg, ZN_NS_PER_S);
}

static struct zn_alert *fire(const char *rule, const char *severity, const char *label, const char *value)
{
	struct zn_rule *r = &rules.rule[rules.rule_count++];
	struct zn_alert *a = &alerts.alert[alerts.count++];

	snprintf(r->name, sizeof(r->name), "%s", rule);
	snprintf(r->severity, sizeof(r->severity), "%s", severity);
	*a = (struct zn_alert){.rule = r, .state = ZN_FIRING};
	if (label)
		CHECK(zn_alert_label_add(
			a, (struct zn_str){label, strlen(label)}, (struct zn_str){value, strlen(value)}));
	return a;
}

T(whom_an_alert_is_about)
{
	static const struct {
		const char *label, *value;
		bool of_job, of_none;
	} rows[] = {
		{"job_id", "4711", true, false},
		{"job_id", "471", false, false},
		{"pid", "100", true, false},
		{"pid", "200", false, true},
		{"pid", "300", false, false},
		{"pid", "900", true, false},
		{"pid", "901", false, true},
		{"gpu_id", "0", false, false}, /* nobody uses it */
		{"pci", "0000:01:00.0", false, false},
		{"what", "x", true, true}, /* the node */
		{NULL, NULL, true, true},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		start();
		fire("tcp_retransmits", "warning", rows[i].label, rows[i].value);
		CHECK_EQ(zn_findings(&alerts, &job, found), rows[i].of_job);
		CHECK_EQ(zn_findings(&alerts, &none, found), rows[i].of_none);
	}
}

T(what_a_cause_says_already_is_left_out)
{
	start();
	fire("stalled_on_data", "warning", NULL, NULL);
	fire("nccl_hang", "critical", NULL, NULL);
	fire("tcp_retransmits", "warning", NULL, NULL)->state = ZN_PENDING;
	fire("oom_kill", "critical", NULL, NULL)->summed = true; /* of whom is not known */
	CHECK_EQ(zn_findings(&alerts, &job, found), 0);
}

/* A program that failed, and after it the GPU that has fallen off the bus. */
T(the_worst_of_a_rule_is_said)
{
	static const char *const xids[] = {"31", "45", "79", "31"};

	start();
	for (size_t i = 0; i < ZN_LEN(xids); i++)
		CHECK(zn_alert_label_add(fire("gpu_xid", "warning", "job_id", "4711"), (struct zn_str){"xid", 3},
			(struct zn_str){xids[i], 2}));
	fire("own_critical", "critical", NULL, NULL);
	CHECK_EQ(zn_findings(&alerts, &job, found), 2);
	CHECK_STR(found[0].rule, "gpu_xid");
	CHECK(found[0].critical && !strncmp(found[0].says, "XID 79 ", 7));
	CHECK_EQ(found[0].more, 3);
}

T(what_the_driver_says_is_not_fatal_is_a_warning)
{
	struct zn_alert *a;

	start();
	a = fire("gpu_xid", "warning", "job_id", "4711");
	CHECK(zn_alert_label_add(a, zn_str_of("xid"), zn_str_of("145")));
	CHECK(zn_alert_label_add(a, zn_str_of("nonfatal"), zn_str_of("yes")));
	CHECK_EQ(zn_findings(&alerts, &job, found), 1);
	CHECK(!found[0].critical && strstr(found[0].says, "XID 145 ") && strstr(found[0].says, "not fatal"));
}

/* It has no job_id: the process was of none. */
T(a_kill_of_no_job_is_no_jobs)
{
	start();
	fire("oom_kill", "critical", NULL, NULL);
	fire("cuda_context_lost", "critical", NULL, NULL);
	CHECK_EQ(zn_findings(&alerts, &job, found), 0);
	CHECK_EQ(zn_findings(&alerts, &none, found), 2);
}

T(what_is_critical_comes_first)
{
	static const char *const order[] = {"oom_kill", "own_critical", "gpu_memory_growing", "tcp_retransmits", "own"};

	start();
	fire("own", "warning", NULL, NULL);
	fire("tcp_retransmits", "warning", NULL, NULL);
	fire("own_critical", "critical", NULL, NULL);
	fire("gpu_memory_growing", "warning", NULL, NULL);
	fire("oom_kill", "critical", "job_id", "4711");
	CHECK_EQ(zn_findings(&alerts, &job, found), 5);
	for (size_t i = 0; i < ZN_LEN(order); i++) {
		CHECK_STR(found[i].rule, order[i]);
		CHECK_EQ(found[i].critical, i < 2);
		CHECK(found[i].next[0] && found[i].says[0] && !strncmp(found[i].metric, "zernel_", 7));
	}
}

T(those_of_the_least_weight_are_left_out)
{
	static char names[2 * ZN_FINDINGS_MAX][16];

	start();
	for (int i = 0; i < 2 * ZN_FINDINGS_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "own%d", i);
		fire(names[i], "warning", NULL, NULL);
	}
	fire("oom_kill", "critical", "job_id", "4711");
	fire("tcp_retransmits", "warning", NULL, NULL);
	CHECK_EQ(zn_findings(&alerts, &job, found), ZN_FINDINGS_MAX);
	CHECK_STR(found[0].rule, "oom_kill");
	CHECK_STR(found[1].rule, "tcp_retransmits");
	CHECK_STR(found[2].rule, "own0");
	CHECK_STR(found[ZN_FINDINGS_MAX - 1].rule, "own5");
}

T(a_rule_that_fires_for_many_is_one_line)
{
	start();
	for (int i = 0; i < 20; i++)
		fire("tcp_retransmits", "warning", "pid", "100");
	fire("oom_kill", "critical", "job_id", "4711");
	CHECK_EQ(zn_findings(&alerts, &job, found), 2);
	CHECK_STR(found[0].rule, "oom_kill");
	CHECK_EQ(found[0].more, 0);
	CHECK_EQ(found[1].more, 19);
	CHECK(strstr(found[1].says, "; it fires for 19 more") != NULL);
}

int main(void)
{
	RUN(whom_an_alert_is_about);
	RUN(what_a_cause_says_already_is_left_out);
	RUN(the_worst_of_a_rule_is_said);
	RUN(what_the_driver_says_is_not_fatal_is_a_warning);
	RUN(a_kill_of_no_job_is_no_jobs);
	RUN(what_is_critical_comes_first);
	RUN(those_of_the_least_weight_are_left_out);
	RUN(a_rule_that_fires_for_many_is_one_line);
	zn_memory_close(&memory);
	return t_end();
}
