/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_test.c: the report of a job (report.c), byte by byte and at every capacity.
 */
#include "report.h"

static void annotate(const struct zn_job *job)
{
	const struct zn_annotation by = {.pid = 7, .at_wall_ms = 1709165803000};
	static struct zn_annotations annotations;
	struct zn_job_ref tag = {job->slot, job->serial};
	char why[ZN_TEXT_MAX];

	annotations = (struct zn_annotations){0};
	zn_annotations_say(&annotations, tag, &by, "epoch=3", why);
	annotations.group[job->slot].change[annotations.group[job->slot].changes++] =
		(struct zn_annotation){.key = "phase", .pid = 7, .at_wall_ms = 1709165803000};
	view.annotations = &annotations;
}

T(every_figure)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	annotate(job);
	finish();
	got = report(job);
	CHECK_MEM(got.at, got.len, exact, strlen(exact));
	memory.arena.shared->lost[ZN_LOST_COMM] += 3; /* later, and so of others */
	pass_ms(1000);
	got = report(job);
	CHECK_MEM(got.at, got.len, exact, strlen(exact));
}

T(while_it_runs)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	zn_job_shared_of(&jobs, job)->mem_peak_bytes = 0;
	pass_ms(500);
	got = report(job);
	check_is(got, "state", "\"running\"");
	check_is(got, "end", "null");
	check_is(got, "end_ms", "null");
	check_is(got, "wall_seconds", "3.75");
	check_is(got, "exit_code", "null");
	check_is(got, "memory_peak_bytes", "null");
	CHECK(strstr(text, "read when the job's control group is removed"));
}

/* A job of which only its control group is known. */
T(nothing_said)
{
	static const char *const unknown[] = {"uid", "user", "account", "partition", "qos", "name", "array_job",
		"array_task", "het_job", "sluid", "cluster", "nodelist", "nodes", "tasks", "cpus", "allocated_gpus",
		"exit_code"};
	char name[ZN_JOB_NAME] = "815";
	struct zn_str got;

	start();
	CHECK(memory.arena.ops->job_claim(&memory.arena, name) >= 0);
	got = report(zn_jobs_find(&jobs, "815", ZN_UNKNOWN));
	for (size_t i = 0; i < ZN_LEN(unknown); i++)
		check_is(got, unknown[i], "null");
	check_is(got, "job_id", "\"815\"");
	check_is(got, "gpus", "[]");
	check_is(got, "launches.count", "0");
	check_is(got, "launch_latency.p99_us", "0");
	check_is(got, "steps", "[]");
	check_is(got, "lost", "{}");
}

static int count(struct zn_str list)
{
	struct zn_str key, value;
	size_t at = 0;
	int n = 0;

	while (zn_json_next(list, &at, &key, &value))
		n++;
	return n;
}

T(largest)
{
	struct zn_str got = report(largest_job());

	CHECK(got.len < ZN_ANSWER_BYTES / 2);
	CHECK_EQ(count(zn_json_member(got, "steps")), ZN_STEPS_MAX);
	CHECK_EQ(count(zn_json_member(got, "alerts")), ZN_JOB_ALERTS);
	CHECK(strstr(text, "\"some of its steps\",\"why\":\"more than are told apart\""));
	CHECK(strstr(text, "\"some of its alerts\",\"why\":\"more than are kept\""));
	CHECK(!zn_json_member(got, "truncated").len);
}

/* A block of exactly this size: the document is whole, says if it was cut, or says that not even its head fits. */
static bool check_capacity(struct zn_job *job, size_t cap, size_t all)
{
	char *block = malloc(cap ? cap : 1);
	struct zn_out o = {.at = block, .cap = cap};
	struct zn_str got;

	zn_report_json(&o, &view, job);
	got = (struct zn_str){block, o.len};
	CHECK(o.len <= cap);
	if (!o.full) {
		CHECK_EQ(zn_json_check(got), 0);
		CHECK_EQ(zn_json_member(got, "truncated").len != 0, got.len != all);
		check_is(got, "job_id", "\"4711\"");
		check_is(got, "uid", "1000"); /* whose it is must be there: it decides who may read it */
	}
	free(block);
	return !o.full;
}

T(at_every_capacity)
{
	struct zn_job *job;
	bool fits = false;
	size_t all;

	start();
	job = busy_job();
	finish();
	all = report(job).len;
	for (size_t cap = 0; cap < all + ZN_JSON_END + 2; cap++) {
		bool now = check_capacity(job, cap, all);

		CHECK(now || !fits);
		fits = now;
	}
	CHECK(fits);
}

/* A moment that is not known. */
T(no_moment)
{
	struct zn_job *job;

	start();
	job = prolog();
	job->start_wall_ms = 0;
	check_is(report(job), "start", "null");
}

int main(void)
{
	RUN(every_figure);
	RUN(while_it_runs);
	RUN(nothing_said);
	RUN(no_moment);
	RUN(largest);
	RUN(at_every_capacity);
	return t_end();
}
