/* SPDX-License-Identifier: GPL-2.0 */
/*
 * job_json_test.c: a job as an entry of /jobs and of the snapshot (job_json.c).
 */
#include "report.h"

static const char exact_jobs[] =
	"{\"node\":\"node7\",\"source\":\"live\",\"jobs\":[{\"job_id\":\"4711\",\"restart\":2,\"state\":\"ended\","
	"\"user\":\"user1000\",\"uid\":1000,\"account\":\"physics\",\"partition\":\"short\",\"name\":\"say \\\"hi\\\"\","
	"\"nodes\":\"2\",\"start_ms\":1709165800000,\"end_ms\":1709165803250,\"elapsed_s\":3.25,\"processes\":1,"
	"\"processes_gone\":1,\"launches\":612,\"nccl_bytes\":10116," USE
	"\"steps\":[{\"name\":\"batch\",\"running\":false,\"cpu_seconds\":null,\"memory_peak_bytes\":null},"
	"{\"name\":\"0123456789abcdef\",\"running\":false,\"cpu_seconds\":1.5,\"memory_peak_bytes\":52428800}],"
	"\"gpu_utilization\":null,\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,"
	"\"peak_bytes\":1200,\"busy_s\":1,\"active_s\":1,\"idle_s\":2.25,\"quiet_s\":1},{\"gpu_id\":\"1\",\"allocated\":true,"
	"\"peak_bytes\":0,\"busy_s\":0,\"active_s\":0,\"idle_s\":3.25,\"quiet_s\":3.25}]}]}";

static struct zn_str jobs_json(void)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_state_refresh(&view);
	zn_jobs_json(&o, &view);
	CHECK(!o.full);
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	return (struct zn_str){text, o.len};
}

T(list_of_one)
{
	struct zn_str got;

	start();
	busy_job();
	finish();
	got = jobs_json();
	CHECK_MEM(got.at, got.len, exact_jobs, strlen(exact_jobs));
}

static const char exact_row[] =
	"{\"job_id\":\"4711\",\"restart\":2,\"state\":\"ended\",\"user\":\"user1000\",\"name\":\"say \\\"hi\\\"\","
	"\"processes\":1,\"launches\":612,\"elapsed_s\":3.25}";

/* A name is cut, so that all jobs of a node have room in one answer. */
T(row_of_a_table)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_json j;
	struct zn_job *job;

	start();
	job = busy_job();
	finish();
	zn_json_begin(&j, &o);
	zn_job_json_row(&j, &view, job);
	CHECK_MEM(text, o.len, exact_row, strlen(exact_row));
	memset(job->about.value[ZN_KEY_NAME], 'n', ZN_VALUE_BYTES - 1);
	o.len = 0;
	zn_json_begin(&j, &o);
	zn_job_json_row(&j, &view, job);
	CHECK(strstr(text, "\"name\":\"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn\""));
}

T(list_of_none)
{
	start();
	check_is(jobs_json(), "jobs", "[]");
	view.jobs = NULL;
	check_is(jobs_json(), "jobs", "[]");
}

/* Those that run come first, so that they stay when the list is cut. */
T(list_of_all)
{
	struct zn_str got, key, job;
	char id[12], why[ZN_TEXT_MAX];
	size_t at = 0, all;
	int n = 0;

	start();
	for (int i = 0; i < 200; i++) {
		snprintf(id, sizeof(id), "%d", 1000 + i);
		say(ZN_KEY_ID, id);
		told();
		if (i % 2 == 0)
			CHECK_EQ(zn_jobs_end(&jobs, &message, why), 0);
	}
	got = jobs_json();
	while (zn_json_next(zn_json_member(got, "jobs"), &at, &key, &job))
		check_is(job, "state", n++ < 100 ? "\"running\"" : "\"ended\"");
	CHECK_EQ(n, 200);
	all = got.len;
	for (size_t cap = 0; cap < 3000; cap++) {
		struct zn_out o = {.at = malloc(cap ? cap : 1), .cap = cap};

		zn_jobs_json(&o, &view);
		CHECK(o.full || zn_json_check((struct zn_str){o.at, o.len}) == 0);
		CHECK(o.full || o.len < all);
		CHECK(o.full || memcmp(o.at + o.len - ZN_JSON_END, ",\"truncated\":true}", ZN_JSON_END) == 0);
		free(o.at);
	}
}

int main(void)
{
	RUN(list_of_one);
	RUN(row_of_a_table);
	RUN(list_of_none);
	RUN(list_of_all);
	return t_end();
}
