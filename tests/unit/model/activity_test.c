/* SPDX-License-Identifier: GPL-2.0 */
/* activity_test.c: when a process has its GPU at work, by looks every 50 ms, over an arena of plain memory. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <string.h>

#define MS ZN_NS_PER_MS

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_ranks ranks;
static struct zn_activity activity;
static struct zn_proc *p;
static uint32_t row;
static uint64_t open_ns; /* since when it is inside of a wait that goes on; 0: it is not */

static void stalls(struct zn_arena *a, uint32_t at, uint64_t now_ns, uint64_t ns[ZN_STALL_COUNT])
{
	(void)a;
	if (at == row && open_ns)
		ns[ZN_STALL_GPU] += now_ns - open_ns;
}

static void look(void)
{
	clock_ns += ZN_ACTIVITY_MS * MS;
	zn_activity_look(&activity, &agg, &ranks, clock_ns);
}

static void looks(int count)
{
	while (count--)
		look();
}

static const struct zn_activity_row *now(void)
{
	return zn_activity_of(&activity, row, p->id);
}

static void start(void)
{
	static struct zn_arena_ops ops;

	clock_ns = 1000 * ZN_NS_PER_S;
	open_ns = 0;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	ops = *memory.arena.ops;
	ops.stalls = stalls;
	memory.arena.ops = &ops;
	zn_agg_init(&agg, &memory.arena);
	memset(&activity, 0, sizeof(activity));
	memset(&ranks, 0, sizeof(ranks));
	zn_ranks_init(&ranks, &agg, NULL, NULL);
	p = zn_memory_claim(&memory, 100, "python3");
	row = (uint32_t)(p - memory.arena.procs);
	zn_agg_tick(&agg, clock_ns);
	look();
	look();
}

T(what_was_there_before_is_not_counted_but_as_a_moment)
{
	start();
	CHECK_EQ(now()->busy_ns, 0);
	CHECK(!zn_activity_of(&activity, row, p->id + 1));
	CHECK(!zn_activity_of(&activity, row + 1, p->id));
}

/* Whose launches are in a shard until the next refresh. */
T(a_second_thread_that_launches_keeps_its_gpu_busy)
{
	struct zn_hist *shard;

	start();
	zn_memory_record(&memory, p, ZN_H_LAUNCH, 5000, 0);
	p->shard[2] = ZN_HISTS_MAX - 1;
	shard = zn_arena_hist(&memory.arena, p->shard[2]);
	for (int n = 0; n < 100; n++) {
		shard->launches++;
		look();
		if (n % 20 == 0)
			zn_agg_refresh(&agg);
	}
	CHECK_EQ(now()->busy_ns, 100 * ZN_ACTIVITY_MS * MS);
	looks(10); /* and what is moved to the process is no launch */
	zn_agg_refresh(&agg);
	looks(10);
	CHECK_EQ(now()->busy_ns, 100 * ZN_ACTIVITY_MS * MS);
	CHECK_EQ(shard->launches, 0);
	CHECK_EQ(p->count[ZN_C_LAUNCH_KERNEL], 100);
}

/* One a second: a twentieth of it, and at most a tenth more. */
T(one_launch_a_second_is_not_a_busy_gpu)
{
	start();
	for (int n = 0; n < 10; n++) {
		p->count[ZN_C_LAUNCH_KERNEL]++;
		looks(20);
	}
	CHECK_EQ(now()->busy_ns, 10 * 50 * MS);
	CHECK_EQ(now()->active_ns, 10 * 100 * MS);
}

T(what_is_captured_is_not_run)
{
	start();
	for (int n = 0; n < 10; n++) {
		p->count[ZN_C_LAUNCH_CAPTURED] += 100;
		looks(20);
	}
	CHECK_EQ(now()->active_ns, 0);
}

T(every_kind_of_work_counts)
{
	static const enum zn_counter kinds[] = {ZN_C_LAUNCH_KERNEL, ZN_C_LAUNCH_GRAPH, ZN_C_LAUNCH_COOPERATIVE,
		ZN_C_COPY_CALLS_HTOD, ZN_C_COPY_CALLS_DTOH, ZN_C_MEMSET_CALLS, ZN_C_HIT(ZN_FAM_NCCL, 0)};

	for (size_t i = 0; i < ZN_LEN(kinds); i++) {
		start();
		for (int n = 0; n < 20; n++) {
			p->count[kinds[i]]++;
			look();
		}
		CHECK_EQ(now()->busy_ns, 1000 * MS);
		CHECK_EQ(now()->active_ns, 1000 * MS);
	}
}

/* To the nanosecond, while they go on, and not twice when they end. */
T(waits_count_as_they_are)
{
	start();
	open_ns = clock_ns + 20 * MS;
	look();
	CHECK_EQ(now()->busy_ns, 30 * MS);
	looks(200);
	CHECK_EQ(now()->busy_ns, 30 * MS + 200 * 50 * MS);
	p->count[ZN_C_STALL_GPU] += clock_ns + 10 * MS - open_ns;
	open_ns = 0;
	looks(20);
	CHECK_EQ(now()->busy_ns, 40 * MS + 200 * 50 * MS);
	CHECK_EQ(now()->active_ns, now()->busy_ns);
}

/* Two threads in waits are one second in a second. */
T(threads_do_not_add_up)
{
	start();
	for (int n = 0; n < 20; n++) {
		p->count[ZN_C_STALL_GPU] += 100 * MS;
		look();
	}
	CHECK_EQ(now()->busy_ns, 1000 * MS);
}

T(a_wait_for_a_rank_that_does_not_come_is_none)
{
	static struct zn_missing missing = {.waiters = 1, .since_ns = 1};

	start();
	ranks.tick_ns = clock_ns;
	ranks.waits_for[row] = &missing;
	ranks.waits_id[row] = p->id;
	open_ns = clock_ns;
	looks(100);
	CHECK(now()->hangs);
	CHECK_EQ(now()->busy_ns, 0);
	ranks.waits_for[row] = NULL; /* it has come, and the wait ends a moment later */
	p->count[ZN_C_STALL_GPU] += clock_ns + 7 * MS - open_ns;
	open_ns = 0;
	looks(10);
	CHECK(!now()->hangs);
	CHECK_EQ(now()->busy_ns, 7 * MS);
}

/* Where the scheduler is not watched, waits are known when they end. */
T(waits_that_are_known_late)
{
	start();
	agg.measured = 1 << ZN_FAM_CUDA_TRACE;
	look();
	zn_memory_record(&memory, p, ZN_H_SYNC_STREAM, 20 * MS, 0);
	look();
	CHECK_EQ(now()->busy_ns, 20 * MS);
	zn_memory_record(&memory, p, ZN_H_SYNC_CTX, 5000 * MS, 0); /* job/gpu_time.c knows what to do with the rest */
	look();
	CHECK_EQ(now()->busy_ns, 70 * MS);
}

T(a_row_that_is_another_process_begins_anew)
{
	start();
	p->count[ZN_C_LAUNCH_KERNEL]++;
	look();
	p->id++;
	look();
	CHECK_EQ(now()->busy_ns, 0);
}

int main(void)
{
	RUN(what_was_there_before_is_not_counted_but_as_a_moment);
	RUN(a_second_thread_that_launches_keeps_its_gpu_busy);
	RUN(one_launch_a_second_is_not_a_busy_gpu);
	RUN(what_is_captured_is_not_run);
	RUN(every_kind_of_work_counts);
	RUN(waits_count_as_they_are);
	RUN(threads_do_not_add_up);
	RUN(a_wait_for_a_rank_that_does_not_come_is_none);
	RUN(waits_that_are_known_late);
	RUN(a_row_that_is_another_process_begins_anew);
	zn_memory_close(&memory);
	return t_end();
}
