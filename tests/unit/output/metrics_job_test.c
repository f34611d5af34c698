/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_job_test.c: series of jobs (metrics_job.c), and the label of the job that every series of a process has.
 */
#include "metrics.h"

#define JOB "job_id=\"4711\""
static const struct {
	const char *series, *value;
} known_with_job[] = {
	{"zernel_gpu_memory_used_bytes{pid=\"4242\"," GPU "," JOB "}", "7"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"device\"," JOB "}", "1"},
	{"zernel_gpu_host_pinned_bytes{pid=\"4242\"," JOB "}", "1014"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"kernel\"," JOB "}", "1000"},
	{"zernel_cuda_launches_created{pid=\"4242\",kind=\"kernel\"," JOB "}", "1711800020.123"},
	{"zernel_cuda_launch_latency_seconds{pid=\"4242\"," JOB ",quantile=\"0.5\"}", "0.000999424"},
	{"zernel_cuda_launch_latency_seconds_sum{pid=\"4242\"," JOB "}", "0.001"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\"," JOB ",le=\"+Inf\"}", "1"},
	{"zernel_cuda_sync_seconds_count{pid=\"4242\",call=\"mem_free\"," JOB "}", "7"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}", "8"},
	{"zernel_nccl_bytes_total{pid=\"4242\",op=\"all_reduce\"," JOB "}", "856"},
	{"zernel_nccl_rank_info{pid=\"4242\",comm=\"000000000000beef\",rank=\"3\",nranks=\"4\"," JOB "}", "1"},
	{"zernel_job_info{" JOB
	 ",user=\"user1000\",uid=\"1000\",account=\"lab\\\\\\\"\",partition=\"gpu\",name=\"train\",nodes=\"4\",gpus=\"0-1\"}",
		"1"},
	{"zernel_job_processes{" JOB "}", "3"},
	{"zernel_job_start_time_seconds{" JOB "}", "1711800005.123"},
	{"zernel_job_ended_time_seconds{" JOB "}", "absent"},
	{"zernel_job_gpu_memory_peak_bytes{" JOB ",gpu_id=\"0\"}", "83"},
	{"zernel_job_gpu_memory_peak_bytes{" JOB ",gpu_id=\"GPU-\\\"1\"}", "0"},
	{"zernel_job_gpu_busy_seconds_total{" JOB ",gpu_id=\"0\"}", "1.5"},
	{"zernel_job_gpu_busy_seconds_total{" JOB ",gpu_id=\"GPU-\\\"1\"}", "0"},
	{"zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"0\"}", "0.25"},
	{"zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"GPU-\\\"1\"}", "60.000000001"},
	{"zernel_job_gpu_memory_peak_bytes{" JOB ",gpu_id=\"unknown\"}", "89"},
	{"zernel_job_gpu_busy_seconds_total{" JOB ",gpu_id=\"unknown\"}", "absent"},
	{"zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"unknown\"}", "absent"},
	{"zernel_job_gpu_idle_seconds_created{" JOB ",gpu_id=\"0\"}", "1711800005.123"},
	/* 1000 + 1001 + 1002 of the process, without the captured ones */
	{"zernel_job_launches_total{" JOB "}", "153003"},
	{"zernel_job_launches_created{" JOB "}", "1711800005.123"},
	/* (d + 1) * (100 + d) of each operation's operation d, and what was sent before */
	{"zernel_job_nccl_bytes_total{" JOB "}", "1023268"},
	{"zernel_table_entries{table=\"jobs\"}", "1"},
	{"zernel_table_limit{table=\"jobs\"}", "256"},
};

static void known_figures_of_a_job(void)
{
	t_begin("known_figures_of_a_job: well-formed");
	known_job();
	memory.arena.procs[agg.row[0]].first_ns = view.start_ns + 20 * ZN_NS_PER_S;
	render(true);
	for (size_t i = 0; i < ZN_LEN(known_with_job); i++) {
		t_begin(known_with_job[i].series);
		CHECK_STR(value_of(known_with_job[i].series), known_with_job[i].value);
	}
}

/* Each series of a process has the job as its last shared label, and no series has a label "job". */
static uint32_t count_without_job(const char *pid, const char *job)
{
	uint32_t without = 0;

	for (uint32_t i = 0; i < page.samples; i++) {
		const char *labels;
		size_t len;

		if (!strstr(page.sample[i].series, pid))
			continue;
		len = shared_labels(&page.sample[i], &labels);
		without += len < strlen(job) || strncmp(labels + len - strlen(job), job, strlen(job));
	}
	return without;
}

T(every_series_of_a_process_names_its_job)
{
	const struct zn_job *job = known_job();
	struct zn_proc *other = zn_memory_claim(&memory, 77, "x");
	uint32_t of_job;

	tag(other, job);
	other->job.serial++; /* of a job that was there before, or is to come */
	other->count[ZN_C_LAUNCH_KERNEL] = 5;
	zn_memory_record(&memory, other, ZN_H_LAUNCH, 1000, 0);
	for (int openmetrics = 0; openmetrics < 2; openmetrics++) {
		render(openmetrics);
		of_job = count_with("pid=\"4242\"");
		CHECK(of_job > 100);
		CHECK_EQ(count_without_job("pid=\"4242\"", "," JOB), 0);
		CHECK(count_with("pid=\"77\"") > 10);
		CHECK_EQ(count_without_job("pid=\"77\"", "," JOB), count_with("pid=\"77\""));
		CHECK_STR(value_of("zernel_cuda_launches_total{pid=\"77\",kind=\"kernel\"}"), "5");
		CHECK_EQ(count_with("{job=\""), 0);
		CHECK_EQ(count_with(",job=\""), 0);
	}
	CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "153003");
}

/* The sums of a job are the same before and after its processes have gone. */
T(sums_of_a_job_outlive_its_processes)
{
	const struct zn_job *job = known_job();

	zn_memory_exit(&memory, &memory.arena.procs[agg.row[0]]);
	memory.comm_count = 0;
	render(false);
	CHECK_EQ(agg.row_count, 0);
	CHECK_EQ(count_with("pid=\"4242\""), 0);
	CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "153003");
	CHECK_STR(value_of("zernel_job_nccl_bytes_total{" JOB "}"), "1023268");
	CHECK_STR(value_of("zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"0\"}"), "0.25");
	CHECK_EQ(job->count[ZN_C_LAUNCH_KERNEL], 101000);
}

static void end_job(const char *id)
{
	struct zn_message m = {.verb = ZN_VERB_END};
	char why[ZN_TEXT_MAX];

	zn_message_set(&m, ZN_KEY_ID, id);
	CHECK_EQ(zn_jobs_end(&jobs, &m, why), 0);
	zn_jobs_tick(&jobs, zn_now_ns() + ZN_JOB_GRACE_NS + ZN_NS_PER_S);
}

T(a_job_that_has_ended_is_shown_however_often_it_is_scraped)
{
	struct zn_job *job = known_job();

	zn_memory_exit(&memory, &memory.arena.procs[agg.row[0]]);
	zn_agg_tick(&agg, zn_now_ns());
	end_job("4711");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	job->end_wall_ms = 1711800009001;
	zn_job_shared_of(&jobs, job)->oom_kills = 7;
	memory.arena.shared->oom_kills = 11;
	for (int i = 0; i < 7; i++) {
		render(false);
		CHECK_STR(value_of("zernel_oom_kills_total{" JOB "}"), "7");
		CHECK_STR(value_of("zernel_oom_kills_total{job_id=\"\"}"), "11");
		CHECK_STR(value_of("zernel_job_ended_time_seconds{" JOB "}"), "1711800009.001");
		CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "153003");
		zn_jobs_tick(&jobs, zn_now_ns() + (290 + (uint64_t)i) * ZN_NS_PER_S);
	}
	zn_jobs_tick(&jobs, zn_now_ns() + 2 * ZN_JOB_GRACE_NS + 300 * ZN_NS_PER_S);
	render(false);
	CHECK_EQ(count_with("job_id="), 1);
	CHECK_STR(value_of("zernel_oom_kills_total{job_id=\"\"}"), "11");
	CHECK_STR(value_of("zernel_table_entries{table=\"jobs\"}"), "0");
}

/* The page's reader finds series that are there twice. */
T(of_a_requeued_job_the_new_run_is_shown)
{
	struct zn_job *old = known_job(), *new;

	zn_memory_exit(&memory, &memory.arena.procs[agg.row[0]]);
	zn_agg_tick(&agg, zn_now_ns());
	end_job("4711");
	new = start_job("4711", "1");
	CHECK(new &&new != old && old->state == ZN_JOB_ENDED);
	new->count[ZN_C_LAUNCH_GRAPH] = 11;
	render(false);
	CHECK_EQ(count_with("zernel_job_info{"), 1);
	CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "11");
	CHECK_STR(value_of("zernel_job_nccl_bytes_total{" JOB "}"), "0");
	CHECK_STR(value_of("zernel_table_entries{table=\"jobs\"}"), "2");
}

/* What the ports carried for each of two runs: each job has one series of a kind, which began with that run. */
T(ports_of_a_requeued_job)
{
	static struct zn_fabric fabric;
	struct zn_job *old = known_job(), *new;

	zn_memory_exit(&memory, &memory.arena.procs[agg.row[0]]);
	zn_agg_tick(&agg, zn_now_ns());
	end_job("4711");
	new = start_job("4711", "1");
	new->start_ns = view.start_ns + 7 * ZN_NS_PER_S;
	fabric.job[old->slot] = (struct zn_job_fabric){.serial = old->serial, .known = 7, .sum = {1, 2, 3}};
	fabric.job[new->slot] = (struct zn_job_fabric){.serial = new->serial, .known = 5, .sum = {10, 0, 30}};
	view.fabric = &fabric;
	render(true);
	CHECK_EQ(count_with("zernel_job_ib_bytes_total{"), 1);
	CHECK_STR(value_of("zernel_job_ib_bytes_total{" JOB ",direction=\"sent\"}"), "10");
	CHECK_STR(value_of("zernel_job_ib_errors_total{" JOB "}"), "30");
	CHECK_STR(value_of("zernel_job_ib_errors_created{" JOB "}"), "1711800007.123");
}

static bool is_firing(const char *rule)
{
	for (uint32_t i = 0; i < alerts.count; i++)
		if (!strcmp(alerts.alert[i].rule->name, rule))
			return alerts.alert[i].state == ZN_FIRING;
	return false;
}

/* The job began long ago, all its errors come between two ticks, and before them it has no series of errors. */
T(the_first_errors_of_an_old_job)
{
	struct zn_proc *p;

	known_job();
	p = &memory.arena.procs[agg.row[0]];
	for (int s = 1; s < 4; s++)
		zn_alerts_tick(&alerts, view.start_ns + s * ZN_NS_PER_S);
	CHECK(!is_firing("cuda_context_lost"));
	p->count[ZN_C_CUDA_ERRORS] = 3;
	zn_failed_count(&memory.arena.failed[agg.row[0]], ZN_FAILED_KEY(0, 700), 3);
	zn_alerts_tick(&alerts, view.start_ns + 4 * ZN_NS_PER_S);
	CHECK(is_firing("cuda_context_lost"));
}

/* What a message cannot have, but a process may claim. */
T(hostile_jobs)
{
	for (int byte = 1; byte < 256; byte++) {
		struct zn_job *job = known_job();

		for (int key = 0; key < ZN_KEY_COUNT; key++)
			memset(job->about.value[key], byte, ZN_VALUE_BYTES - 1);
		memset(job->gpu[0].id, byte, sizeof(job->gpu[0].id) - 1);
		job->uid = ZN_UNKNOWN;
		render(byte & 1);
		CHECK_EQ(count_with("zernel_job_info{" JOB ",user="), 1);
		CHECK_EQ(count_with(",uid=\"\","), 1);
		CHECK_EQ(count_with("zernel_job_gpu_memory_peak_bytes{"), 3);
	}
}

/* What is not known of a step has no series, and a name ends where its field does. */
T(steps_of_a_job)
{
	static struct zn_job_uses uses;
	struct zn_job *job = known_job();
	struct zn_job_shared *row = &memory.arena.jobs[job->slot];

	zn_use_init(&uses, &jobs, NULL);
	view.uses = &uses;
	row->step_count = 3;
	row->step[0] = (struct zn_step){.name = "batch", .cpu_ns = 1500000000};
	row->step[1] = (struct zn_step){.name = "0", .end_ns = 1, .mem_peak_bytes = 4096};
	memset(row->step[2].name, '"', sizeof(row->step[2].name));
	row->step[2].cpu_ns = 7;
	render(true);
	CHECK_STR(value_of("zernel_job_step_cpu_seconds_total{" JOB ",step=\"batch\"}"), "1.5");
	CHECK_STR(value_of("zernel_job_step_memory_peak_bytes{" JOB ",step=\"0\"}"), "4096");
	CHECK_EQ(count_with("zernel_job_step_cpu_seconds_total{"), 2);
	CHECK_EQ(count_with("zernel_job_step_memory_peak_bytes{"), 1);
	CHECK_EQ(count_with(",step=\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\\\"\"}"),
		2); /* and when it began */
	view.uses = NULL;
}

static void check_use(bool runs)
{
	static const char *const momentary[] = {"cpus", "memory_swap_bytes", "memory_limit_bytes"},
				 *const kept[] = {"cpu_throttled_seconds_total", "memory_peak_bytes"};
	char name[64];

	render(true);
	for (size_t i = 0; i < ZN_LEN(momentary); i++) {
		snprintf(name, sizeof(name), "zernel_job_%s{" JOB "}", momentary[i]);
		CHECK_EQ(count_with(name), runs);
	}
	for (size_t i = 0; i < ZN_LEN(kept); i++) {
		snprintf(name, sizeof(name), "zernel_job_%s{" JOB "}", kept[i]);
		CHECK_EQ(count_with(name), 1);
	}
}

/* What it was given, and what it has in swap, is nobody's any more; what it used in all is. */
T(what_a_job_has_is_of_no_moment_once_it_has_ended)
{
	static struct zn_job_uses uses;
	struct zn_job *job = known_job();

	zn_use_init(&uses, &jobs, NULL);
	uses.use[job->slot] = (struct zn_job_use){
		.serial = job->serial, .cpus_milli = 2000, .throttled_ns = 1, .peak = 4096, .limit = 8192, .swap = 0};
	view.uses = &uses;
	check_use(true);
	job->state = ZN_JOB_ENDED;
	check_use(false);
	view.uses = NULL;
}

T(all_jobs_there_can_be)
{
	char id[16];

	start_jobs();
	for (int i = 0; i < ZN_JOBS_MAX; i++) {
		snprintf(id, sizeof(id), "%d", 1000 + i);
		start_job(id, "0")->count[ZN_C_LAUNCH_KERNEL] = (uint64_t)i;
	}
	render(true);
	CHECK_EQ(count_with("zernel_job_info{"), ZN_JOBS_MAX);
	CHECK_STR(value_of("zernel_job_launches_total{job_id=\"1000\"}"), "0");
	CHECK_STR(value_of("zernel_job_launches_total{job_id=\"1255\"}"), "255");
	CHECK_STR(value_of("zernel_table_entries{table=\"jobs\"}"), "256");
}

int main(void)
{
	known_figures_of_a_job();
	RUN(every_series_of_a_process_names_its_job);
	RUN(sums_of_a_job_outlive_its_processes);
	RUN(a_job_that_has_ended_is_shown_however_often_it_is_scraped);
	RUN(of_a_requeued_job_the_new_run_is_shown);
	RUN(ports_of_a_requeued_job);
	RUN(the_first_errors_of_an_old_job);
	RUN(hostile_jobs);
	RUN(steps_of_a_job);
	RUN(what_a_job_has_is_of_no_moment_once_it_has_ended);
	RUN(all_jobs_there_can_be);
	return t_end();
}
