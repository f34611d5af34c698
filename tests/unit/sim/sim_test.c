/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sim_test.c: the simulator's figures: the same for the same seed, near what they are meant to look like, and
 * a leak that raises the memory alert and takes it back. The last one runs the aggregator and the alerts over
 * it.
 */
#include <stdlib.h>

#include "zernel.h"
#include "alert_source.h"
#include "t.h"

#define GIB          (1ULL << 30)
#define LEAKING_RANK 7
#define LEAKING_GPU  3
#define STRAGGLER    3

static struct zn_sim sim, other;
static struct zn_agg agg;
static struct zn_hist_sum merged;

static const struct zn_hist *merge(struct zn_sim *s, enum zn_operation operation)
{
	memset(&merged, 0, sizeof(merged));
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++) {
		const struct zn_hist *h = zn_arena_hist(&s->memory.arena, s->rank[i]->hist[operation]);

		if (h)
			zn_hist_merge(&merged, h);
	}
	return &merged.hist;
}

static bool same_process(struct zn_sim *a, struct zn_sim *b, uint32_t rank)
{
	const struct zn_proc *p = a->rank[rank], *q = b->rank[rank];
	bool same = !memcmp(p->count, q->count, sizeof(p->count)) && !memcmp(p->gpu, q->gpu, sizeof(p->gpu));

	for (uint32_t d = 0; d < ZN_OPERATION_COUNT; d++) {
		const struct zn_hist *x = zn_arena_hist(&a->memory.arena, p->hist[d]);
		const struct zn_hist *y = zn_arena_hist(&b->memory.arena, q->hist[d]);

		same = same && !x == !y && (!x || !memcmp(x, y, sizeof(*x)));
	}
	return same;
}

static void open_both(uint64_t seed, uint64_t other_seed)
{
	if (zn_sim_open(&sim, seed) || zn_sim_open(&other, other_seed))
		abort();
}

static void close_both(void)
{
	zn_sim_close(&sim);
	zn_sim_close(&other);
}

T(same_seed_same_figures)
{
	open_both(5, 5);
	for (int i = 0; i < 6; i++) {
		zn_sim_step(&sim, 1000);
		zn_sim_step(&other, 1000);
	}
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++)
		CHECK(same_process(&sim, &other, i));
	CHECK(!memcmp(sim.memory.comms, other.memory.comms, sizeof(sim.memory.comms)));
	close_both();
}

T(steps_of_any_length_add_up)
{
	open_both(5, 5);
	zn_sim_step(&sim, 2000);
	for (uint64_t i = 0, step = 0; i < 2000; i += step) {
		step = step + 1 < 2000 - i ? step + 1 : 2000 - i;
		zn_sim_step(&other, step);
	}
	CHECK_EQ(other.elapsed_ms, 2000);
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++)
		CHECK(same_process(&sim, &other, i));
	zn_sim_step(&other, 0);
	CHECK_EQ(other.elapsed_ms, 2000);
	close_both();
}

T(other_seed_other_figures)
{
	open_both(5, 6);
	zn_sim_step(&sim, 1000);
	zn_sim_step(&other, 1000);
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++) {
		CHECK(!same_process(&sim, &other, i));
		CHECK(memcmp(sim.rank[i]->gpu[i / 2].uuid, other.rank[i]->gpu[i / 2].uuid, 16));
	}
	close_both();
}

T(ranks_and_gpus)
{
	open_both(1, 1);
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++) {
		const struct zn_proc *p = sim.rank[i];
		const struct zn_proc_gpu *gpu = &p->gpu[i / 2];

		CHECK_EQ(p->tgid, 1000 + i);
		CHECK_STR(p->comm, "python3");
		CHECK_EQ(gpu->total_bytes, 80 * GIB);
		CHECK(gpu->used_bytes > 0 && gpu->peak_bytes > gpu->used_bytes);
		CHECK(!memcmp(gpu->uuid, sim.rank[i ^ 1]->gpu[i / 2].uuid, sizeof(gpu->uuid)));
		CHECK(!memcmp(gpu->pci, sim.rank[i ^ 1]->gpu[i / 2].pci, sizeof(gpu->pci)));
		CHECK(memcmp(gpu->uuid, sim.rank[(i + 2) % 8]->gpu[(i + 2) % 8 / 2].uuid, sizeof(gpu->uuid)));
		CHECK_EQ(sim.memory.comms[i].rank, i % 4);
		CHECK_EQ(sim.memory.comms[i].nranks, 4);
		CHECK_EQ(sim.memory.comms[i].tgid, p->tgid);
		CHECK(sim.memory.comms[i].hash && sim.memory.comms[i].hash == sim.memory.comms[i / 4 * 4].hash);
		for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++)
			CHECK(o == i / 2 || !p->gpu[o].total_bytes);
	}
	CHECK_EQ(sim.memory.comm_count, ZN_SIM_RANKS);
	CHECK(sim.memory.comms[0].hash != sim.memory.comms[4].hash);
	close_both();
}

static void check_near(uint64_t got, uint64_t least, uint64_t most)
{
	CHECK(got >= least && got <= most);
	if (got < least || got > most)
		fprintf(stderr, "%llu is not within %llu to %llu\n", (unsigned long long)got, (unsigned long long)least,
			(unsigned long long)most);
}

T(durations)
{
	static const uint64_t seeds[] = {0, 1, 42, UINT64_MAX};

	for (size_t i = 0; i < ZN_LEN(seeds); i++) {
		const struct zn_hist *h;

		open_both(seeds[i], 1);
		zn_sim_step(&sim, 20000);
		h = merge(&sim, ZN_H_LAUNCH);
		check_near(zn_hist_quantile(h, 500), 142000 * 95 / 100, 142000 * 105 / 100);
		check_near(zn_hist_quantile(h, 999), 800000, 2000000);
		check_near(h->max_ns, 1900000, 2000000);
		check_near(h->calls, 310000, 330000);
		h = merge(&sim, ZN_H_NCCL_ALL_REDUCE);
		check_near(zn_hist_quantile(h, 0), 34000000, 67000000);
		check_near(zn_hist_quantile(h, 500), 34000000, 67000000);
		check_near(h->max_ns, 34000000, 67000000);
		check_near(h->bytes / h->calls, 1 << 20, 1 << 30);
		h = merge(&sim, ZN_H_DATALOAD);
		check_near(zn_hist_quantile(h, 500), 7200000, 8800000);
		check_near(zn_hist_quantile(h, 990), 24000000, 64000000);
		close_both();
	}
}

static const struct zn_hist *hist_of(uint32_t rank, enum zn_operation operation)
{
	return zn_arena_hist(&sim.memory.arena, sim.rank[rank]->hist[operation]);
}

T(one_rank_is_late_and_the_others_wait)
{
	open_both(4, 4);
	zn_sim_step(&sim, 60000);
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++) {
		bool late = i == STRAGGLER;

		check_near(zn_hist_quantile(hist_of(i, ZN_H_DATALOAD), 500), late ? 22000000 : 7200000,
			late ? 26000000 : 8800000);
		check_near(zn_hist_quantile(hist_of(i, ZN_H_NCCL_ALL_REDUCE), 900), late ? 34000000 : 46000000,
			late ? 39000000 : 67000000);
	}
	close_both();
}

T(launches_swing_and_pause)
{
	uint64_t before = 0, least = UINT64_MAX, most = 0;

	open_both(4, 4);
	for (int s = 1; s <= 126; s++) {
		uint64_t calls;

		zn_sim_step(&sim, 1000);
		calls = merge(&sim, ZN_H_LAUNCH)->calls;
		if (s > 121)
			check_near(calls - before, 500, 2000);
		else if (s < 120) {
			least = calls - before < least ? calls - before : least;
			most = calls - before > most ? calls - before : most;
		}
		before = calls;
	}
	check_near(least, 14000, 15500);
	check_near(most, 16600, 18000);
	close_both();
}

T(memory_comes_and_goes)
{
	open_both(4, 4);
	for (int s = 0; s < 60; s++) {
		zn_sim_step(&sim, 1000);
		for (uint32_t i = 0; i < LEAKING_RANK - 1; i++)
			check_near(sim.rank[i]->gpu[i / 2].used_bytes, 24 * GIB, 34 * GIB);
	}
	CHECK(sim.rank[0]->gpu[0].free_calls > 100);
	close_both();
}

T(spikes_are_one_in_a_hundred)
{
	const struct zn_hist *h;
	uint64_t spikes = 0;

	open_both(3, 3);
	zn_sim_step(&sim, 20000);
	h = merge(&sim, ZN_H_LAUNCH);
	for (uint32_t i = zn_bucket_of(800000); i < ZN_BUCKETS; i++)
		spikes += zn_hist_bucket(h, i);
	check_near(spikes * 10000 / h->calls, 80, 130);
	close_both();
}

T(counters_agree_with_histograms)
{
	open_both(9, 9);
	zn_sim_step(&sim, 5000);
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++) {
		const struct zn_proc *p = sim.rank[i];
		const struct zn_hist *h = zn_arena_hist(&sim.memory.arena, p->hist[ZN_H_LAUNCH]);
		const struct zn_hist *copy = zn_arena_hist(&sim.memory.arena, p->hist[ZN_H_SYNC_HTOD]);

		CHECK_EQ(p->count[ZN_C_LAUNCH_KERNEL] + p->count[ZN_C_LAUNCH_GRAPH], h->calls);
		CHECK(p->count[ZN_C_LAUNCH_GRAPH] > 0);
		CHECK_EQ(p->count[ZN_C_COPY_BYTES_HTOD], copy->bytes);
		CHECK_EQ(p->count[ZN_C_COPY_CALLS_HTOD], copy->calls);
		CHECK_EQ(p->count[ZN_C_COPY_CALLS_HTOD], 25);
		CHECK(p->count[ZN_C_COPY_BYTES_DTOH] > 0);
		CHECK(p->count[ZN_C_HITS + ZN_FAM_CUDA_TRACE] > h->calls);
		CHECK(p->count[ZN_C_HITS + ZN_FAM_NCCL] > 50);
		CHECK_EQ(zn_hist_count(h), h->calls);
	}
	close_both();
}

static void check_ledger(void)
{
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++) {
		const struct zn_proc *p = sim.rank[i];
		const struct zn_proc_gpu *gpu = &p->gpu[i / 2];

		CHECK_EQ(gpu->alloc_calls[ZN_K_DEVICE] - gpu->free_calls, p->count[ZN_C_LIVE_ALLOCS]);
		CHECK(gpu->used_bytes <= gpu->peak_bytes);
		CHECK(gpu->alloc_bytes[ZN_K_DEVICE] >= gpu->peak_bytes);
	}
	CHECK(sim.rank[LEAKING_RANK]->gpu[LEAKING_GPU].used_bytes +
			sim.rank[LEAKING_RANK - 1]->gpu[LEAKING_GPU].used_bytes <=
		80 * GIB);
}

/* A second of simulated time, seen by the aggregator and the alerts. */
static enum zn_alert_state second_of(const struct zn_state *v, uint64_t *now_ns)
{
	zn_sim_step(&sim, 1000);
	*now_ns += ZN_NS_PER_S;
	zn_agg_tick(v->agg, *now_ns);
	zn_alerts_tick(v->alerts, *now_ns);
	return zn_alerts_rule_state(v->alerts, &v->alerts->rules->rule[0]);
}

T(leak_fires_and_resolves)
{
	static struct zn_alerts alerts;
	struct zn_options options = {.overhead_budget = 10000};
	struct zn_state view = {.options = &options, .agg = &agg, .alerts = &alerts};
	uint64_t now_ns = zn_now_ns(), first = 0, last = 0, growing = 0;

	open_both(1, 1);
	zn_log_level = ZN_ERROR;
	zn_agg_init(&agg, &sim.memory.arena);
	open_alerts(&alerts, &options, type_of_name, (struct zn_rule_source){walk_gpus, &agg});
	for (uint64_t s = 1; s <= 300; s++) {
		if (second_of(&view, &now_ns) == ZN_FIRING) {
			first = first ? first : s;
			last = s;
			CHECK(alerts.count <= 2); /* of this GPU alone */
		}
		if (!growing && zn_alerts_rule_state(&alerts, &alerts.rules->rule[1]) == ZN_FIRING)
			growing = s;
		if (s % 20 == 0)
			check_ledger();
	}
	check_near(first, 170, 200);
	check_near(last, 230, 245);
	check_near(growing, 110, 160); /* well before it is nearly full */
	CHECK_EQ(zn_alerts_rule_state(&alerts, &alerts.rules->rule[1]), ZN_INACTIVE);
	check_near(last - first, 40, 70);
	CHECK(sim.rank[LEAKING_RANK]->gpu[LEAKING_GPU].fail_oom > 0);
	CHECK_EQ(agg.gpus.count, ZN_SIM_GPUS);
	CHECK_EQ(agg.row_count, ZN_SIM_RANKS);
	close_both();
}

/* In place of cgroup.c: the simulator tags no folder. */
int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a, (void)slot, (void)path, (void)why;
	abort();
}

static struct zn_jobs jobs;
static uint32_t ended;
static uint64_t ended_launches, ended_idle;

static void on_ended(void *owner, struct zn_job *job)
{
	const struct zn_job_shared *row = zn_job_shared_of(owner, job);

	ended++;
	ended_launches = zn_job_counts(owner, job)[ZN_C_LAUNCH_KERNEL];
	ended_idle = job->gpu[0].idle_ns + job->gpu[1].idle_ns;
	CHECK_EQ(job->gpu_count, 2);
	CHECK_EQ(job->processes, 0);
	CHECK_EQ(job->processes_gone, 4);
	CHECK(job->gpu[0].peak_bytes > 48 * GIB);
	CHECK_EQ(row->step_count, 1);
	CHECK_STR(row->step[0].name, "batch");
	CHECK(row->step[0].end_ns && row->step[0].mem_peak_bytes == row->mem_peak_bytes);
}

static void open_jobs(void)
{
	open_both(7, 7);
	zn_log_level = ZN_ERROR;
	zn_agg_init(&agg, &sim.memory.arena);
	agg.process_info = zn_sim_process_info;
	if (zn_jobs_open(&jobs, &agg, NULL))
		abort();
	ended = 0;
	jobs.ended = on_ended;
	jobs.owner = &jobs;
	zn_sim_jobs(&sim, &jobs);
}

static void second_of_jobs(uint64_t *now_ns)
{
	zn_sim_step(&sim, 1000);
	*now_ns += ZN_NS_PER_S;
	zn_agg_tick(&agg, *now_ns);
	zn_jobs_tick(&jobs, *now_ns);
}

T(two_jobs_and_an_idle_gpu)
{
	uint64_t now_ns = zn_now_ns();
	const struct zn_job *first, *second;

	open_jobs();
	for (int s = 0; s < 30; s++)
		second_of_jobs(&now_ns);
	first = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	second = zn_jobs_find(&jobs, "4712", ZN_UNKNOWN);
	CHECK(first && second && first->uid == 1000 && second->uid == 1001);
	CHECK_EQ(first->processes, 4);
	CHECK_EQ(second->processes, 4);
	CHECK_EQ(first->gpu_count, 2);
	CHECK_EQ(second->gpu_count, 3);
	CHECK_STR(second->gpu[2].id, "4");
	CHECK(second->gpu[2].allocated && !second->gpu[2].peak_bytes && !second->gpu[2].busy_ns);
	check_near(second->gpu[2].idle_ns, 29 * ZN_NS_PER_S, 31 * ZN_NS_PER_S);
	check_near(second->gpu[1].busy_ns, 29 * ZN_NS_PER_S, 31 * ZN_NS_PER_S);
	CHECK_EQ(second->gpu[1].idle_ns, 0);
	CHECK_STR(zn_job_id(&jobs, sim.rank[3]), "4711");
	CHECK_STR(zn_job_id(&jobs, sim.rank[4]), "4712");
	zn_jobs_close(&jobs);
	close_both();
}

T(one_job_follows_another)
{
	uint64_t now_ns = zn_now_ns();

	open_jobs();
	for (int s = 0; s < 305; s++)
		second_of_jobs(&now_ns);
	CHECK_EQ(ended, 1);
	check_near(ended_launches, 4 * 1900 * 280, 4 * 2100 * 300);
	check_near(ended_idle, 0, 20 * ZN_NS_PER_S);
	CHECK_EQ(agg.row_count, 4);
	CHECK_EQ(agg.comm_count, 4);
	CHECK_EQ(sim.rank[0] != NULL, 0);
	for (int s = 0; s < 10; s++)
		second_of_jobs(&now_ns);
	CHECK_EQ(agg.row_count, 8);
	CHECK_EQ(agg.comm_count, 8);
	CHECK_STR(zn_job_id(&jobs, sim.rank[0]), "4713");
	CHECK_EQ(sim.rank[0]->tgid, 1008);
	CHECK_STR(zn_job_id(&jobs, sim.rank[7]), "4712");
	CHECK_EQ(ended, 1);
	zn_jobs_close(&jobs);
	close_both();
}

/* Sums that have an example, after a second. */
static uint32_t examples_of(bool natives)
{
	struct zn_stacks_shown s;
	uint32_t count = 0;

	if (zn_sim_open(&sim, 1) || zn_stacks_open(&sim.stacks))
		T_FAIL("%s", "no memory");
	sim.natives = natives;
	for (int step = 0; step < 30; step++)
		zn_sim_step(&sim, 100);
	zn_stacks_show(sim.stacks, 0, zn_now_ns());
	for (uint32_t i = 0; zn_stacks_shown(sim.stacks, i, &s); i++)
		count += s.example != s.node;
	zn_stacks_close(sim.stacks);
	zn_sim_close(&sim);
	return count;
}

T(examples_if_they_are_asked_for)
{
	CHECK_EQ(examples_of(false), 0);
	CHECK_EQ(examples_of(true), 3 * ZN_SIM_RANKS);
}

int main(void)
{
	RUN(same_seed_same_figures);
	RUN(steps_of_any_length_add_up);
	RUN(other_seed_other_figures);
	RUN(ranks_and_gpus);
	RUN(durations);
	RUN(one_rank_is_late_and_the_others_wait);
	RUN(launches_swing_and_pause);
	RUN(memory_comes_and_goes);
	RUN(spikes_are_one_in_a_hundred);
	RUN(counters_agree_with_histograms);
	RUN(leak_fires_and_resolves);
	RUN(two_jobs_and_an_idle_gpu);
	RUN(one_job_follows_another);
	RUN(examples_if_they_are_asked_for);
	return t_end();
}
