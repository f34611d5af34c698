/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_text_test.c: the form of the text (metrics_text.c): it is well formed with and without data, in both its
 * forms, and a buffer that is too small is never overrun.
 */
#include <unistd.h>

#include "metrics.h"

T(simulated_data_is_well_formed)
{
	start_simulated();
	render(false);
	CHECK(page.samples > 1000);
	CHECK_EQ(count_with("pid=\"1007\""), count_with("pid=\"1000\""));
	CHECK_STR(
		value_of("zernel_build_info{version=\"1.2-test\",commit=\"abc\\\"1\\\\\",source=\"simulated\"}"), "1");
	render(true);
	CHECK(page.samples > 1000);
}

/* Families are in the order of the table; one without a series is not there, neither before there is data nor later. */
static void check_families(void)
{
	const struct zn_metric *m;
	uint32_t family = 0, sample = 0;

	for (size_t i = 0; (m = zn_metrics_at(i)) && family < page.families; i++) {
		char twin[ZN_TWIN_BYTES] = "";

		if (!strcmp(page.name[family], m->name))
			family++;
		if (m->twin)
			zn_metrics_twin(twin, m->name);
		if (family < page.families && !strcmp(page.name[family], twin))
			family++;
	}
	CHECK_EQ(family, page.families);
	for (family = 0; family < page.families; family++) {
		CHECK(sample < page.samples && page.sample[sample].family == family);
		while (sample < page.samples && page.sample[sample].family == family)
			sample++;
	}
}

T(nothing_yet)
{
	start();
	render(false);
	CHECK(page.families > 10 && page.families < 100);
	check_families();
	CHECK_EQ(count_with("pid="), 0);
	CHECK_STR(value_of("zernel_lost_total{what=\"ringbuf\"}"), "0");
}

T(families_with_data)
{
	start_simulated();
	render(false);
	CHECK(page.families > 60);
	check_families();
}

T(help_needs_no_escapes)
{
	const struct zn_metric *m;

	for (size_t i = 0; (m = zn_metrics_at(i)); i++)
		CHECK(*m->help && !strpbrk(m->help, "\\\"\n"));
}

/* The same in OpenMetrics: what is there besides, and what is called differently. */
static const struct {
	const char *series, *value;
} known_openmetrics[] = {
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"graph\"}", "1001"},
	{"zernel_cuda_launches_created{pid=\"4242\",kind=\"graph\"}", "1711800020.123"},
	{"zernel_gpu_alloc_bytes_created{pid=\"4242\"," GPU ",kind=\"vmm\"}", "1711800020.123"},
	{"zernel_cuda_launch_latency_seconds_created{pid=\"4242\"}", "1711800020.123"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"1.024e-06\"}", "0"},
	{"zernel_cuda_launch_latency_hist_seconds_created{pid=\"4242\"}", "1711800020.123"},
	{"zernel_nccl_bytes_created{pid=\"4242\",op=\"recv\"}", "1711800020.123"},
	{"zernel_nccl_collective_duration_seconds_created{op=\"recv\"}", "1711800000.123"},
	{"zernel_lost_created{what=\"ringbuf\"}", "1711800000.123"},
	{"zernel_probe_hits_created{family=\"nccl\"}", "1711800000.123"},
	{"process_cpu_seconds_created", "1711800000.123"},
	{"zernel_gpu_memory_used_bytes_created{pid=\"4242\"," GPU "}", "absent"},
	{"zernel_kernel_info{release=\"6.1.0-test\"}", "1"},
};

static void known_in_openmetrics(void)
{
	t_begin("known_in_openmetrics: well-formed");
	start();
	known_process()->first_ns = view.start_ns + 20 * ZN_NS_PER_S;
	render(true);
	for (size_t i = 0; i < ZN_LEN(known_openmetrics); i++) {
		t_begin(known_openmetrics[i].series);
		CHECK_STR(value_of(known_openmetrics[i].series), known_openmetrics[i].value);
	}
	for (size_t i = 0; i < ZN_LEN(families); i++) {
		uint32_t f = 0;

		t_begin(families[i].family);
		while (f + 1 < page.families && strcmp(page.name[f], families[i].family))
			f++;
		CHECK_STR(page.name[f], families[i].family);
		CHECK_STR(page.type[f], families[i].type);
		CHECK_STR(page.unit[f] ? page.unit[f] : "", families[i].unit);
	}
}

/* The samples of both formats are the same but for _created; so are their labels, le and quantile among them. */
T(openmetrics_differs_by_created_alone)
{
	static char *plain_series[SAMPLES_MAX];
	static char copy[TEXT_BYTES];
	uint32_t plain_count, n = 0;

	start_simulated();
	render(false);
	memcpy(copy, text, sizeof(copy));
	plain_count = page.samples;
	for (uint32_t i = 0; i < plain_count; i++)
		plain_series[i] = copy + (page.sample[i].series - text);
	render(true);
	for (uint32_t i = 0; i < page.samples && n < plain_count; i++) {
		if (ends_with(&page.sample[i], "_created"))
			continue;
		CHECK_STR(page.sample[i].series, plain_series[n]);
		n++;
	}
	CHECK_EQ(n, plain_count);
	CHECK(page.samples > plain_count + 100);
	render(false);
	CHECK_EQ(count_with("_created"), 0);
}

/* Into blocks of many sizes: nothing is written past the end, and what was written is the beginning. The first `fixed`
 * bytes do not depend on the time, and all others together grow by less than `slack`. */
static void check_cut(void (*write)(struct zn_out *o), size_t fixed, size_t slack)
{
	struct zn_out whole = {.at = text, .cap = sizeof(text)};

	write(&whole);
	CHECK(!whole.full && whole.len > fixed && whole.len > slack);
	for (size_t cap = 0; cap + slack < whole.len; cap += cap < 1000 ? 1 : 997) {
		struct zn_out o = {.at = malloc(cap ? cap : 1), .cap = cap};

		write(&o);
		CHECK(o.full && o.len <= cap);
		CHECK(!memcmp(o.at, text, o.len < fixed ? o.len : fixed));
		free(o.at);
	}
}

static void write_text(struct zn_out *o)
{
	zn_state_refresh(&view);
	zn_metrics_text(o, &view, false, 0);
}

static void write_openmetrics(struct zn_out *o)
{
	zn_state_refresh(&view);
	zn_metrics_text(o, &view, true, 0);
}

T(too_little_room)
{
	start_simulated();
	check_cut(write_text, 2000, 64);
	check_cut(write_openmetrics, 2000, 64);
}

/* Messages are moved as they end: none is written beyond a block of its own, whatever its size. */
T(too_little_room_for_messages)
{
	struct zn_out whole = {.at = text, .cap = sizeof(text)};

	start_live("/opt/\xff\"\n\\/libcuda.so.1");
	known_process();
	zn_state_refresh(&view);
	zn_metrics_proto(&whole, &view, 0);
	CHECK(!whole.full && whole.len > 10000);
	for (size_t cap = 0; cap < whole.len; cap += cap < 2000 ? 1 : 37) {
		struct zn_out o = {.at = malloc(cap + 1), .cap = cap};

		zn_metrics_proto(&o, &view, 0);
		CHECK(o.full && o.len <= cap);
		free(o.at);
	}
}

/* 8 processes in 2 jobs on 4 GPUs. */
static void start_both_jobs(void)
{
	uint64_t now_ns = zn_now_ns();

	start();
	if (zn_sim_open(&sim, 1))
		abort();
	zn_agg_init(&agg, &sim.memory.arena);
	if (zn_jobs_open(&jobs, &agg, NULL))
		abort();
	view.jobs = &jobs;
	zn_sim_jobs(&sim, &jobs);
	for (int i = 0; i < 8; i++) {
		zn_sim_step(&sim, 1000);
		now_ns += ZN_NS_PER_S;
		zn_agg_tick(&agg, now_ns);
		zn_jobs_tick(&jobs, now_ns);
	}
}

/* What a site that does not collect processes gets: no series of a process but its rank, no zeros, durations in one
 * form. */
T(jobs_and_node_alone)
{
	static const uint32_t set = ZN_COLLECT_NODE | ZN_COLLECT_JOB;

	start_both_jobs();
	collect = set;
	for (int openmetrics = 0; openmetrics < 2; openmetrics++) {
		render(openmetrics);
		CHECK(page.samples > 100 && page.samples <= 300);
		CHECK_EQ(count_with("pid="), count_with("zernel_nccl_rank_info{"));
		CHECK_EQ(count_with("_created"), 0);
		CHECK_EQ(count_with("zernel_lost_total"), 0);
		CHECK_EQ(count_with("quantile="), count_with("zernel_io_latency_seconds{"));
		CHECK_EQ(count_with("zernel_node_launch_latency_hist_seconds_bucket{"), ZN_LE_COUNT);
		CHECK_EQ(count_with("zernel_node_launch_latency_seconds"), 0);
		CHECK(count_with("zernel_job_launch_latency_hist_seconds_bucket{job_id=") >= ZN_LE_COUNT);
		CHECK(count_with("zernel_job_gpu_memory_used_bytes{job_id=") >= 4);
	}
	collect = 0;
	options.series = ZN_SERIES_JOB;
	render(false);
	CHECK(page.samples <= 300);
	options.series = ZN_SERIES_PROCESS;
}

/* The four kinds are all there is, and each series is of one of them. */
T(kinds_add_up)
{
	uint32_t process, detail, job, node;

	start_both_jobs();
	collect = ZN_COLLECT_PROCESS;
	render(true);
	process = page.samples;
	CHECK_EQ(count_with("pid=") + count_with("service="), process);
	collect = ZN_COLLECT_PROCESS | ZN_COLLECT_DETAIL;
	render(true);
	detail = page.samples - process;
	collect = ZN_COLLECT_PROCESS | ZN_COLLECT_JOB;
	render(true);
	job = page.samples - process;
	collect = ZN_COLLECT_PROCESS | ZN_COLLECT_NODE;
	render(true);
	node = page.samples - process;
	collect = 0;
	render(true);
	CHECK(process && detail && job && node);
	CHECK_EQ(page.samples, process + detail + job + node);
}

/* Sums of a node are those of its processes. */
T(node_sums)
{
	uint64_t sum = 0, bytes = 0;

	start_both_jobs();
	render(false);
	for (uint32_t i = 0; i < page.samples; i++) {
		sum += strstr(page.sample[i].series, "zernel_cuda_launches_total{")
			? strtoull(page.sample[i].value, NULL, 10)
			: 0;
		bytes += strstr(page.sample[i].series, "zernel_gpu_memory_used_bytes{")
			? strtoull(page.sample[i].value, NULL, 10)
			: 0;
	}
	for (uint32_t i = 0; i < page.samples; i++) {
		sum -= strstr(page.sample[i].series, "zernel_node_launches_total{")
			? strtoull(page.sample[i].value, NULL, 10)
			: 0;
		bytes -= strstr(page.sample[i].series, "zernel_job_gpu_memory_used_bytes{")
			? strtoull(page.sample[i].value, NULL, 10)
			: 0;
	}
	CHECK_EQ(sum, 0);
	CHECK_EQ(bytes, 0);
}

int main(void)
{
	RUN(simulated_data_is_well_formed);
	RUN(nothing_yet);
	RUN(families_with_data);
	RUN(help_needs_no_escapes);
	known_in_openmetrics();
	RUN(openmetrics_differs_by_created_alone);
	RUN(jobs_and_node_alone);
	RUN(kinds_add_up);
	RUN(node_sums);
	RUN(too_little_room);
	RUN(too_little_room_for_messages);
	return t_end();
}
