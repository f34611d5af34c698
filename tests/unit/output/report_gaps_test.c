/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_gaps_test.c: what a report says was not measured, and why (report_gaps.c).
 */
#include "report.h"

/* What is switched off is null and says why, never 0. */
T(not_measured)
{
	static const char *const of[ZN_FAMILY_COUNT][6] = {
		[ZN_FAM_GPU_MEM] = {"allocations"},
		[ZN_FAM_CUDA_TRACE] = {"launches", "launch_latency", "sync_wait", "memcpy"},
		[ZN_FAM_NCCL] = {"nccl_init"},
	};
	char why[32];

	for (enum zn_family off = 0; off < ZN_FAMILY_COUNT; off++) {
		struct zn_job *job;
		struct zn_str got;

		start();
		job = busy_job();
		probe.available[off] = false;
		snprintf(probe.why[off], sizeof(probe.why[off]), "reason %d", off);
		snprintf(why, sizeof(why), "\"why\":\"reason %d\"", off);
		got = report(job);
		for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
			for (size_t i = 0; of[f][i]; i++)
				CHECK_EQ(zn_path_known(got, of[f][i]), f != off);
		CHECK_EQ(!strstr(text, "\"peak_bytes\":null"), off != ZN_FAM_GPU_MEM);
		CHECK_EQ(!strstr(text, "\"busy_seconds\":null"), off != ZN_FAM_CUDA_TRACE);
		CHECK_EQ(!strstr(text, "all_reduce"), off == ZN_FAM_NCCL);
		CHECK(strstr(text, why));
	}
}

/* What cost too much is said with the part of the time that was seen, of processes that have gone too. */
T(what_was_spared)
{
	struct zn_job *job;

	start();
	job = busy_job();
	report(job);
	CHECK(!strstr(text, "--overhead-budget"));
	job->lived_ns += 1000 * ZN_NS_PER_S;
	job->unseen_ns[ZN_SPARE_FILES] = 400 * ZN_NS_PER_S;
	report(job);
	CHECK(strstr(
		text, "\"what\":\"some I/O\",\"why\":\"it would have cost more than --overhead-budget: measured for "));
	CHECK(!strstr(text, "some of these lines"));
	job->unseen_ns[ZN_SPARE_STACKS] = 1;
	report(job);
	CHECK(strstr(text, "some of these lines"));
	CHECK(strstr(text, "measured for 99."));
}

T(daemon_came_later)
{
	static const struct {
		const char *start_time; /* s since 1970 */
		const char *want;
	} rows[] = {{"", "null"}, {"1709165800", "null"}, {"1709165799", "\"2024-02-29T00:16:40.000Z\""},
		{"99999999999999999999", "null"}, {"x", "null"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_job *job;

		start();
		say(ZN_KEY_START_TIME, rows[i].start_time);
		job = prolog();
		check_is(report(job), "measured_since", rows[i].want);
		CHECK_EQ(!strstr(text, "the daemon started after the job"), *rows[i].want == 'n');
	}
	start(); /* told by a file that the daemon before left */
	say(ZN_KEY_TIME, "1709165000000");
	check_is(report(prolog()), "measured_since", "\"2024-02-29T00:16:40.000Z\"");
	check_is(report(&jobs.job[0]), "start", "\"2024-02-29T00:03:20.000Z\"");
	start();
	clock_step_ms = -3600 * 1000; /* the clock is set back between the daemon's start and the job's */
	check_is(report(prolog()), "measured_since", "null");
	clock_step_ms = 0;
	start(); /* found by its control group, while nobody tells since when it runs */
	prolog();
	zn_jobs_found(&jobs);
	say(ZN_KEY_ID, "4712");
	check_is(report(told()), "measured_since", "null");
	check_is(report(&jobs.job[0]), "measured_since", "\"2024-02-29T00:16:40.000Z\"");
}

/* Of the job alone; another one in its place has none of it. */
T(what_was_lost)
{
	static struct zn_causes causes;
	struct zn_cause_group *g;
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	view.causes = &causes;
	g = &causes.group[job->slot];
	*g = (struct zn_cause_group){.used = true, .serial = job->serial};
	g->lost_ns[ZN_CAUSE_HANG] = 41500 * ZN_NS_PER_MS;
	g->lost_ns[ZN_CAUSE_STORAGE] = 125 * ZN_NS_PER_S;
	g->lost_ns[ZN_CAUSE_CPUS] = 900 * ZN_NS_PER_MS;
	got = report(job);
	check_is(got, "lost_to", "{\"hang\":41.5,\"storage\":125,\"cpu_shortage\":0.9}");
	CHECK(strstr(page_of(got), "\nLost to            storage 2 min 5 s, hang 41.5s\n"));
	for (enum zn_cause c = 0; c < ZN_CAUSE_COUNT; c++)
		g->lost_ns[c] = (1000 + c) * ZN_NS_PER_S;
	for (const char *line = page_of(report(job)), *end; (end = strchr(line, '\n')); line = end + 1)
		CHECK(end - line <= 80);
	g->serial++;
	got = report(job);
	CHECK(!zn_path_known(got, "lost_to"));
	CHECK(!strstr(page_of(got), "Lost to"));
	view.causes = NULL;
}

/* The peak of one GPU is not known: no sum and no sentence is made of it. */
T(memory_that_was_not_seen)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	CHECK(job->gpu_count == 2 && job->gpu[1].idle_ns);
	job->gpu[1].partial = true;
	got = report(job);
	CHECK(strstr(text, "\"gpu_id\":\"0\",\"allocated\":true,\"peak_bytes\":1200,"));
	CHECK(strstr(text,
		"\"gpu_id\":\"1\",\"allocated\":true,\"peak_bytes\":null,\"total_bytes\":81920,\"busy_seconds\":0,\"active_seconds\":0,"));
	CHECK_EQ(!strstr(text, "\"busy_share\":null"), false);
	CHECK(strstr(text, "\"what\":\"GPU memory where no peak is given\",\"why\":\"processes used the GPU before"));
	CHECK(strstr(line_of(got), "gpu_peak=-/- ") && strstr(line_of(got), " gpu_unused=0 "));
	CHECK(!strstr(page_of(got), "never used"));
	CHECK(strstr(page_of(got), "GPU memory where no peak is given"));
}

int main(void)
{
	RUN(what_was_lost);
	RUN(not_measured);
	RUN(what_was_spared);
	RUN(memory_that_was_not_seen);
	RUN(daemon_came_later);
	return t_end();
}
