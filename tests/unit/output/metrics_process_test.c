/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_process_test.c: series of processes (metrics_process.c), over rows made by hand.
 */
#include "metrics.h"
#include <unistd.h>

static const struct {
	const char *series, *value;
} known[] = {
	{"zernel_gpu_memory_used_bytes{pid=\"4242\"," GPU "}", "7"},
	{"zernel_gpu_memory_peak_bytes{pid=\"4242\"," GPU "}", "11"},
	{"zernel_gpu_memory_total_bytes{" GPU "}", "28"},
	{"zernel_gpu_memory_used_ratio{" GPU "}", "0.25"},
	{"zernel_gpu_memory_complete{" GPU "}", "1"},
	{"zernel_process_memory_complete{pid=\"4242\"}", "1"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"device\"}", "1"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"host\"}", "6"},
	{"zernel_gpu_alloc_bytes_total{pid=\"4242\"," GPU ",kind=\"managed\"}", "20"},
	{"zernel_gpu_alloc_bytes_total{pid=\"4242\"," GPU ",kind=\"vmm\"}", "50"},
	{"zernel_gpu_free_calls_total{pid=\"4242\"," GPU "}", "13"},
	{"zernel_gpu_alloc_failures_total{pid=\"4242\"," GPU ",reason=\"oom\"}", "17"},
	{"zernel_gpu_alloc_failures_total{pid=\"4242\"," GPU ",reason=\"other\"}", "19"},
	{"zernel_gpu_host_pinned_bytes{pid=\"4242\"}", "1014"},
	{"zernel_gpu_info{" GPU
	 ",uuid=\"GPU-ab000000-0000-0000-0000-000000000000\",pci=\"0000:3b:00.0\",minor=\"\",vendor=\"nvidia\"}",
		"1"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"kernel\"}", "1000"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"graph\"}", "1001"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"cooperative\"}", "1002"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"captured\"}", "1003"},
	{"zernel_cuda_launch_errors_total{pid=\"4242\"}", "1004"},
	{"zernel_cuda_memcpy_bytes_total{pid=\"4242\",direction=\"htod\"}", "1005"},
	{"zernel_cuda_memcpy_bytes_total{pid=\"4242\",direction=\"other\"}", "1008"},
	{"zernel_cuda_memcpy_calls_total{pid=\"4242\",direction=\"dtoh\"}", "1010"},
	{"zernel_cuda_launch_latency_seconds{pid=\"4242\",quantile=\"0.5\"}", "0.000999424"},
	{"zernel_cuda_launch_latency_seconds_sum{pid=\"4242\"}", "0.001"},
	{"zernel_cuda_launch_latency_seconds_count{pid=\"4242\"}", "1"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"0.000262144\"}", "0"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"0.001048576\"}", "1"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"+Inf\"}", "1"},
	{"zernel_cuda_sync_seconds_count{pid=\"4242\",call=\"stream_synchronize\"}", "2"},
	{"zernel_cuda_sync_seconds_count{pid=\"4242\",call=\"mem_free\"}", "7"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}", "8"},
	{"zernel_nccl_collective_duration_seconds_sum{op=\"all_reduce\"}", "0.064"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"recv\"}", "17"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"group\"}", "absent"},
	{"zernel_nccl_calls_total{pid=\"4242\",op=\"all_reduce\"}", "8"},
	{"zernel_nccl_bytes_total{pid=\"4242\",op=\"all_reduce\"}", "856"},
	{"zernel_nccl_errors_total{pid=\"4242\",op=\"send\"}", "3"},
	{"zernel_nccl_errors_total{pid=\"4242\",op=\"recv\"}", "0"},
	{"zernel_nccl_calls_total{pid=\"4242\",op=\"put\"}", "18"},
	{"zernel_nccl_calls_total{pid=\"4242\",op=\"window_register\"}", "21"},
	{"zernel_cuda_load_seconds_count{pid=\"4242\",call=\"module\"}", "30"},
	{"zernel_cuda_load_seconds_count{pid=\"4242\",call=\"graph\"}", "33"},
	{"zernel_nccl_group_seconds_count{pid=\"4242\"}", "22"},
	{"zernel_nccl_comm_init_seconds_count{pid=\"4242\"}", "23"},
	{"zernel_nccl_rank_info{pid=\"4242\",comm=\"000000000000beef\",rank=\"3\",nranks=\"4\"}", "1"},
	{"zernel_dataloader_wait_seconds_count{pid=\"4242\"}", "24"},
	{"zernel_alert_state{alert=\"gpu_oom_warning\",severity=\"critical\"}", "0"},
	{"zernel_kernel_info{release=\"6.1.0-test\"}", "1"},
	{"zernel_table_entries{table=\"processes\"}", "1"},
	{"zernel_table_entries{table=\"histograms\"}", "33"},
	{"zernel_table_entries{table=\"gpus\"}", "1"},
	{"zernel_table_entries{table=\"communicators\"}", "3"},
	{"zernel_table_limit{table=\"processes\"}", "1024"},
	{"zernel_table_limit{table=\"histograms\"}", "3199"},
	{"process_start_time_seconds", "1711800000.123"},
};

static void known_figures(void)
{
	t_begin("known_figures: well-formed");
	start();
	known_process();
	render(false);
	CHECK_EQ(count_with("zernel_nccl_rank_info"), 1);
	for (size_t i = 0; i < ZN_LEN(known); i++) {
		t_begin(known[i].series);
		CHECK_STR(value_of(known[i].series), known[i].value);
	}
}

T(a_communicator_that_is_there_twice)
{
	start();
	for (uint32_t i = 0; i < 60; i++)
		memory.comms[i] = (struct zn_comm){.hash = 7 + i % 3, .rank = i % 2, .nranks = 2, .tgid = PID + i % 5};
	memory.comm_count = 60;
	zn_agg_tick(&agg, zn_now_ns());
	render(false);
	CHECK_EQ(count_with("zernel_nccl_rank_info{"), 30);
}

/* Two users' communicators of one hash: in all metrics each has one label, by which they are joined. */
T(communicators_of_one_hash)
{
	static const struct zn_skew_rank ranks[] = {{.id = 1, .rank = 0}, {.id = 2, .rank = 1}};

	start();
	for (uint32_t i = 0; i < 4; i++)
		memory.comms[i] = (struct zn_comm){.hash = 7, .rank = 1, .nranks = 2, .tgid = PID + i};
	for (uint32_t i = 0; i < 3; i++) /* the last one found no room in the table of skews */
		memory.comms[i].skew = (uint16_t)(i + 1);
	memory.comms[2].hash = 8;
	memory.comm_count = 4;
	zn_agg_tick(&agg, zn_now_ns());
	for (uint32_t i = 0; i < 3; i++) {
		struct zn_skew *s = &memory.arena.skews[i];

		*s = (struct zn_skew){.of = ZN_SKEW_OF(1000 + i, memory.comms[i].hash),
			.hash = memory.comms[i].hash,
			.members = 2,
			.hist = zn_memory_hist(&memory)};
		memcpy(s->member, ranks, sizeof(ranks));
		memory.arena.shared->skew_used[i] = 1;
	}
	render(false);
	CHECK_EQ(count_with("zernel_nccl_issue_late_seconds_total{"), 6);
	for (uint32_t i = 0; i < 4; i++) {
		static const char *const comm[] = {
			"0000000000000007-1000", "0000000000000007-1001", "0000000000000008", "0000000000000007"};
		char series[160];

		snprintf(series, sizeof(series), "zernel_nccl_issue_late_seconds_total{comm=\"%s\",rank=\"1\"}",
			comm[i]);
		CHECK_STR(value_of(series), i < 3 ? "0" : "absent");
		snprintf(series, sizeof(series),
			"zernel_nccl_rank_info{pid=\"%u\",comm=\"%s\",rank=\"1\",nranks=\"2\"}", PID + i, comm[i]);
		CHECK_STR(value_of(series), "1");
	}
}

/* Alerts about a rank whose process has ended go on the account of the user whose rank waits for it. */
T(a_rank_that_is_gone_is_of_who_waits_for_it)
{
	static struct zn_ranks ranks;
	struct zn_skew *s = &memory.arena.skews[3];
	const struct zn_ranks *were = view.ranks;

	start();
	zn_memory_claim(&memory, (uint32_t)getpid(), "waits");
	zn_agg_refresh(&agg);
	*s = (struct zn_skew){.of = ZN_SKEW_OF(1000, 7), .hash = 7, .members = 2};
	s->member[0] = (struct zn_skew_rank){.tgid = (uint32_t)getpid(), .id = 1};
	s->member[1] = (struct zn_skew_rank){.tgid = PID, .id = 2, .rank = 1};
	memory.arena.shared->skew_used[3] = 1;
	view.ranks = &ranks;
	CHECK_EQ(zn_samples_owner(&view, PID), 65534);
	ranks.missing[3][1] = (struct zn_missing){.slot = 3, .member = 1, .tgid = PID, .waiters = 1};
	CHECK_EQ(zn_samples_owner(&view, PID), zn_owner_of(getpid()));
	CHECK_EQ(zn_samples_owner(&view, PID + 1), 65534);
	view.ranks = were;
}

T(what_has_not_happened_has_no_series)
{
	struct zn_proc *p;

	start();
	p = zn_memory_claim(&memory, PID, "x");
	p->gpu[0].total_bytes = 5;
	zn_agg_refresh(&agg);
	render(false);
	CHECK_EQ(count_with("pid=\"4242\""), 0);
	p->gpu[0].peak_bytes = 4;
	render(false);
	CHECK_STR(value_of("zernel_gpu_memory_used_bytes{pid=\"4242\",gpu_id=\"unknown\"}"), "0");
	CHECK_STR(value_of("zernel_gpu_memory_peak_bytes{pid=\"4242\",gpu_id=\"unknown\"}"), "4");
	CHECK_STR(value_of("zernel_process_memory_complete{pid=\"4242\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_alloc_failures_total{pid=\"4242\",gpu_id=\"unknown\",reason=\"oom\"}"), "0");
	CHECK_STR(value_of("zernel_gpu_alloc_failures_total{pid=\"4242\",gpu_id=\"unknown\",reason=\"other\"}"), "0");
	CHECK_EQ(count_with("pid=\"4242\""), 5);
}

T(series_go_with_their_process)
{
	static char collectives[64];

	start_simulated();
	render(false);
	CHECK(count_with("pid=\"1003\"") > 50);
	strcpy(collectives, value_of("zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}"));
	CHECK(atoi(collectives) > 100);
	zn_memory_exit(&sim.memory, sim.rank[3]);
	sim.memory.comms[3] = sim.memory.comms[--sim.memory.comm_count];
	zn_agg_tick(&agg, zn_now_ns() + 2 * ZN_NS_PER_S);
	render(false);
	CHECK_EQ(count_with("pid=\"1003\""), 0);
	CHECK(count_with("pid=\"1004\"") > 50);
	CHECK_STR(value_of("zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}"), collectives);
	CHECK_STR(value_of("zernel_table_entries{table=\"processes\"}"), "7");
	render(true);
	CHECK_EQ(count_with("pid=\"1003\""), 0);
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++)
		zn_memory_exit(&sim.memory, sim.rank[i]);
	render(true);
	CHECK_EQ(count_with("pid=\""), 0);
}

int main(void)
{
	known_figures();
	RUN(a_communicator_that_is_there_twice);
	RUN(communicators_of_one_hash);
	RUN(a_rank_that_is_gone_is_of_who_waits_for_it);
	RUN(what_has_not_happened_has_no_series);
	RUN(series_go_with_their_process);
	return t_end();
}
