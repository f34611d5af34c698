/* SPDX-License-Identifier: GPL-2.0 */
/*
 * aggregate_test.c: the aggregator over an arena of plain memory: rows and histograms that come and go, rates, sums
 * that never go down, and what a process holds on a GPU.
 */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define PID 4242

static struct zn_memory_arena memory;
static struct zn_agg agg;

static void start(void)
{
	zn_memory_close(&memory);
	if (zn_memory_open(&memory))
		abort();
	zn_agg_init(&agg, &memory.arena);
}

static struct zn_proc *claim(uint32_t tgid)
{
	struct zn_proc *p = zn_memory_claim(&memory, tgid, "python3");

	if (!p)
		abort();
	return p;
}

static uint32_t row_of(const struct zn_proc *p)
{
	return (uint32_t)(p - memory.arena.procs);
}

static uint64_t lost(enum zn_loss what)
{
	return memory.arena.shared->lost[what];
}

T(labels_of_operations)
{
	CHECK_STR(zn_operation_label(ZN_H_LAUNCH), "launch");
	CHECK_STR(zn_operation_label(ZN_H_SYNC_FREE), "mem_free");
	CHECK_STR(zn_operation_label(ZN_H_NCCL_ALL_REDUCE), "all_reduce");
	CHECK_STR(zn_operation_label(ZN_H_DATALOAD), "dataloader");
	CHECK_STR(zn_operation_label(ZN_OPERATION_COUNT), "unknown");
}

T(processes_come_and_go)
{
	struct zn_proc *a, *b, *c;

	start();
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 0);
	a = claim(PID);
	b = claim(PID + 1);
	c = claim(PID + 2);
	CHECK(a->id && b->id && c->id && a->id != b->id && b->id != c->id && a->id != c->id);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 3);
	CHECK(agg.row[0] < agg.row[1] && agg.row[1] < agg.row[2]);
	CHECK_STR(agg.info[row_of(b)].comm, "python3");
	zn_memory_exit(&memory, b);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 2);
	CHECK_EQ(agg.row[0] + agg.row[1], row_of(a) + row_of(c));
	CHECK_EQ(memory.arena.shared->row_tgid[row_of(b)], 0);
	CHECK_EQ(agg.info[row_of(b)].id, 0);
}

T(a_row_starts_anew)
{
	struct zn_proc *p;
	uint32_t row, id;

	start();
	p = claim(PID);
	row = row_of(p);
	id = p->id;
	p->count[ZN_C_LAUNCH_KERNEL] = 1000;
	p->gpu[0].peak_bytes = 77;
	zn_agg_tick(&agg, 5 * ZN_NS_PER_S);
	zn_memory_exit(&memory, p);
	zn_agg_tick(&agg, 6 * ZN_NS_PER_S);
	p = claim(PID);
	CHECK_EQ(row_of(p), row);
	CHECK(p->id != id);
	CHECK_EQ(p->count[ZN_C_LAUNCH_KERNEL], 0);
	zn_agg_tick(&agg, 7 * ZN_NS_PER_S);
	CHECK_EQ(agg.info[row].id, p->id);
	CHECK_EQ(agg.info[row].launches, 0);
	CHECK_EQ(agg.info[row].launch_rate, 0);
	CHECK_EQ(agg.info[row].resolved[0], false);
}

/* As programs find them: what a thread adds in place of its process's own counters. */
static struct zn_hist *shard_of(struct zn_proc *p, uint32_t at, uint32_t slot)
{
	p->shard[at] = slot;
	return zn_arena_hist(&memory.arena, slot);
}

static void launch_in(struct zn_hist *shard, uint64_t ns)
{
	zn_hist_add(shard, ns);
	shard->launches++;
	shard->hits[ZN_INSN_BRANCH]++;
}

T(launches_in_shards_are_those_of_their_process)
{
	const uint32_t hit = ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_BRANCH);
	struct zn_hist *first, *last;
	struct zn_proc *p;

	start();
	p = claim(PID);
	zn_memory_record(&memory, p, ZN_H_LAUNCH, 5000, 0);
	first = shard_of(p, 0, ZN_HISTS_MAX - 1);
	last = shard_of(p, ZN_SHARDS - 1, ZN_HISTS_MAX - 2);
	launch_in(first, 7000);
	launch_in(last, 9000);
	zn_agg_refresh(&agg);
	CHECK_EQ(p->count[ZN_C_LAUNCH_KERNEL], 2);
	CHECK_EQ(p->count[hit], 2);
	CHECK_EQ(zn_agg_merge_live(&agg, ZN_H_LAUNCH)->sum_ns, 21000);
	CHECK_EQ(zn_hist_count(zn_agg_merge_live(&agg, ZN_H_LAUNCH)), 3);
	CHECK_EQ(first->launches + first->hits[ZN_INSN_BRANCH] + zn_hist_count(first), 0);
	launch_in(last, 3000); /* after which it ends */
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.gone_count[ZN_C_LAUNCH_KERNEL], 3);
	CHECK_EQ(agg.gone_count[hit], 3);
	CHECK_EQ(zn_agg_merge(&agg, ZN_H_LAUNCH)->calls, 4);
}

static struct zn_proc *ending;

/* When the second shard is looked at: the first one was gathered. */
static int launch_and_end(struct zn_arena *a, uint32_t slot)
{
	a->hist_mapped[slot / 8] |= 1 << (slot % 8);
	if (slot == ZN_HISTS_MAX - 2 && !ending->exit_ns) {
		launch_in(zn_arena_hist(a, ZN_HISTS_MAX - 1), 4000);
		ending->exit_ns = 1;
	}
	return 0;
}

T(a_process_that_ends_while_it_is_gathered_keeps_its_last_launches)
{
	struct zn_arena_ops ops;

	start();
	ending = claim(PID);
	zn_memory_record(&memory, ending, ZN_H_LAUNCH, 5000, 0);
	launch_in(shard_of(ending, 0, ZN_HISTS_MAX - 1), 7000);
	ending->shard[1] = ZN_HISTS_MAX - 2;
	ops = *memory.arena.ops;
	ops.map_hist = launch_and_end;
	memory.arena.ops = &ops;
	for (int i = 0; i < 2; i++)
		zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 0);
	CHECK_EQ(agg.gone_count[ZN_C_LAUNCH_KERNEL], 2);
	CHECK_EQ(zn_agg_merge(&agg, ZN_H_LAUNCH)->calls, 3);
	start();
}

/* Whoever joins a communicator is counted before he is written down. */
T(a_place_for_skew_stays_while_its_first_rank_joins)
{
	struct zn_skew *s;
	struct zn_proc *p;

	start();
	p = claim(PID);
	s = &memory.arena.skews[0];
	memory.arena.shared->skew_used[0] = 1;
	s->of = ZN_SKEW_OF(0, 1);
	s->hash = 77;
	s->members = 1;
	zn_agg_tick(&agg, 5 * ZN_NS_PER_S);
	CHECK_EQ(s->hash, 77);
	s->member[0] = (struct zn_skew_rank){.tgid = PID, .row = row_of(p), .id = p->id};
	zn_agg_tick(&agg, 6 * ZN_NS_PER_S);
	CHECK_EQ(s->hash, 77);
	s->member[0].id = 0; /* it has left */
	zn_agg_tick(&agg, 7 * ZN_NS_PER_S);
	CHECK_EQ(s->hash, 0);
}

T(one_more_than_there_are_rows)
{
	static struct zn_proc *p[ZN_PROCS_MAX];

	start();
	for (uint32_t i = 0; i < ZN_PROCS_MAX; i++) {
		p[i] = claim(PID + i);
		zn_memory_record(&memory, p[i], ZN_H_LAUNCH, 5000, 0);
	}
	CHECK_EQ(lost(ZN_LOST_PROCESS), 0);
	CHECK(!zn_memory_claim(&memory, 1, "late"));
	CHECK(!zn_memory_claim(&memory, 2, "late"));
	CHECK_EQ(lost(ZN_LOST_PROCESS), 2);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, ZN_PROCS_MAX);
	CHECK_EQ(zn_agg_merge(&agg, ZN_H_LAUNCH)->calls, ZN_PROCS_MAX);
	zn_memory_exit(&memory, p[511]);
	zn_agg_refresh(&agg);
	CHECK_EQ(row_of(claim(3)), row_of(p[511]));
	for (uint32_t i = 0; i < ZN_PROCS_MAX; i++)
		zn_memory_exit(&memory, p[i]);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 0);
	CHECK_EQ(memory.row_count, ZN_PROCS_MAX);
	CHECK_EQ(memory.hist_count, ZN_HISTS_MAX - ZN_HISTS_FIRST);
	CHECK_EQ(zn_agg_merge(&agg, ZN_H_LAUNCH)->calls, ZN_PROCS_MAX);
}

static void live_and_die(uint32_t tgid)
{
	struct zn_proc *p = claim(tgid);

	for (enum zn_operation d = 0; d < ZN_OPERATION_COUNT; d++)
		CHECK(zn_memory_record(&memory, p, d, 1000 + d, d));
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 1);
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg);
}

T(two_thousand_in_turn_leak_nothing)
{
	start();
	for (uint32_t i = 0; i < 2000; i++)
		live_and_die(PID + i);
	CHECK_EQ(memory.row_count, ZN_PROCS_MAX);
	CHECK_EQ(memory.hist_count, ZN_HISTS_MAX - ZN_HISTS_FIRST);
	for (uint32_t i = 0; i < ZN_LOSS_COUNT; i++)
		CHECK_EQ(lost(i), 0);
	for (enum zn_operation d = 0; d < ZN_OPERATION_COUNT; d++) {
		CHECK_EQ(zn_agg_merge(&agg, d)->calls, 2000);
		CHECK_EQ(zn_agg_merge(&agg, d)->sum_ns, 2000 * (1000 + d));
		CHECK_EQ(zn_agg_merge(&agg, d)->bytes, 2000 * d);
		CHECK_EQ(zn_agg_merge_live(&agg, d)->calls, 0);
	}
}

T(one_more_than_there_are_histograms)
{
	struct zn_proc *first, *p;
	uint32_t left = ZN_HISTS_MAX - ZN_HISTS_FIRST;

	start();
	first = p = claim(PID);
	for (uint32_t d = 0; left; left--, d = (d + 1) % ZN_OPERATION_COUNT) {
		if (d == 0)
			p = claim(PID + left);
		CHECK(zn_memory_record(&memory, p, d, 1000, 0));
	}
	CHECK_EQ(lost(ZN_LOST_SERIES), 0);
	CHECK(!zn_memory_record(&memory, first, ZN_H_LAUNCH, 1000, 0));
	CHECK_EQ(lost(ZN_LOST_SERIES), 1);
	CHECK_EQ(first->hist[ZN_H_LAUNCH], 0);
	zn_agg_refresh(&agg);
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg);
	CHECK(zn_memory_record(&memory, first, ZN_H_LAUNCH, 1000, 0));
	CHECK_EQ(memory.arena.hists[first->hist[ZN_H_LAUNCH]].calls, 1);
	CHECK_EQ(lost(ZN_LOST_SERIES), 1);
}

T(slots_out_of_range)
{
	start();
	CHECK(!zn_arena_proc(&memory.arena, ZN_PROCS_MAX));
	CHECK(!zn_arena_proc(&memory.arena, UINT32_MAX));
	CHECK(!zn_arena_hist(&memory.arena, 0));
	CHECK(!zn_arena_hist(&memory.arena, ZN_HISTS_MAX));
	CHECK(!zn_arena_hist(&memory.arena, UINT32_MAX));
	CHECK(zn_arena_proc(&memory.arena, ZN_PROCS_MAX - 1) == memory.arena.procs + ZN_PROCS_MAX - 1);
	CHECK(zn_arena_hist(&memory.arena, 1) == memory.arena.hists + 1);
}

static uint32_t mapped, swept, refused_row;

static int map_proc(struct zn_arena *a, uint32_t row)
{
	if (row == refused_row)
		return -ENOMEM;
	mapped++;
	a->proc_mapped[row / 8] |= (uint8_t)(1u << row % 8);
	return 0;
}

static int map_no_hist(struct zn_arena *a, uint32_t slot)
{
	(void)a;
	(void)slot;
	return -ENOMEM;
}

static void sweep(struct zn_arena *a)
{
	(void)a;
	swept++;
}

T(what_cannot_be_mapped_is_passed_over)
{
	struct zn_arena_ops ops;
	struct zn_proc *a, *b;

	start();
	ops = *memory.arena.ops;
	ops.map_proc = map_proc;
	ops.map_hist = map_no_hist;
	ops.sweep = sweep;
	memory.arena.ops = &ops;
	a = claim(PID);
	b = claim(PID + 1);
	zn_memory_record(&memory, b, ZN_H_LAUNCH, 1000, 0);
	refused_row = row_of(a);
	mapped = swept = 0;
	zn_agg_refresh(&agg);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 1);
	CHECK_EQ(agg.row[0], row_of(b));
	CHECK_EQ(mapped, 1);
	CHECK_EQ(swept, 0);
	CHECK_EQ(zn_agg_merge(&agg, ZN_H_LAUNCH)->calls, 0);
	refused_row = ZN_ROW_NONE;
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 2);
	zn_memory_exit(&memory, b);
	zn_agg_refresh(&agg);
	zn_agg_refresh(&agg);
	CHECK_EQ(swept, 0); /* however many processes end */
	zn_agg_tick(&agg, ZN_NS_PER_S);
	CHECK_EQ(swept, 1);
}

T(communicators_are_read_at_a_tick)
{
	struct zn_arena_ops ops;
	struct zn_proc *p;

	start();
	memory.comms[0] = (struct zn_comm){.hash = 7, .rank = 1, .nranks = 2, .tgid = PID};
	memory.comm_count = 1;
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.comm_count, 0);
	zn_agg_tick(&agg, ZN_NS_PER_S);
	CHECK_EQ(agg.comm_count, 1);
	CHECK_EQ(agg.comms[0].hash, 7);
	memory.comms[1] = (struct zn_comm){.hash = 8, .tgid = PID + 1};
	memory.comm_count = 2;
	p = claim(PID + 1);
	zn_agg_tick(&agg, 2 * ZN_NS_PER_S);
	CHECK_EQ(agg.comm_count, 2);
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.comm_count, 1); /* those of a process that ended go at once */
	CHECK_EQ(agg.comms[0].hash, 7);
	ops = *memory.arena.ops;
	ops.comms = NULL;
	memory.arena.ops = &ops;
	zn_agg_tick(&agg, 3 * ZN_NS_PER_S);
	CHECK_EQ(agg.comm_count, 0);
}

T(sums_stay_when_a_process_ends)
{
	struct zn_hist before, after;
	struct zn_proc *a, *b;

	start();
	a = claim(PID);
	b = claim(PID + 1);
	for (uint64_t i = 0; i < 1009; i++)
		zn_memory_record(&memory, i % 3 ? a : b, ZN_H_NCCL_ALL_REDUCE, 100 * i * i, i);
	memory.arena.hists[a->hist[ZN_H_NCCL_ALL_REDUCE]].errors = 13;
	zn_agg_refresh(&agg);
	before = *zn_agg_merge(&agg, ZN_H_NCCL_ALL_REDUCE);
	CHECK_EQ(before.calls, 1009);
	CHECK_EQ(before.errors, 13);
	zn_memory_exit(&memory, a);
	zn_agg_refresh(&agg);
	after = *zn_agg_merge(&agg, ZN_H_NCCL_ALL_REDUCE);
	CHECK(!memcmp(&before, &after, sizeof(before)));
	CHECK_EQ(zn_agg_merge_live(&agg, ZN_H_NCCL_ALL_REDUCE)->calls, 337);
	zn_memory_exit(&memory, b);
	zn_agg_refresh(&agg);
	after = *zn_agg_merge(&agg, ZN_H_NCCL_ALL_REDUCE);
	CHECK(!memcmp(&before, &after, sizeof(before)));
	CHECK_EQ(zn_agg_merge_live(&agg, ZN_H_NCCL_ALL_REDUCE)->calls, 0);
}

T(counters_stay_and_gauges_go)
{
	struct zn_proc *p;

	start();
	for (int round = 1; round <= 2; round++) {
		p = claim(PID);
		for (uint32_t i = 0; i < ZN_COUNTER_COUNT; i++)
			p->count[i] = 100 + i;
		zn_memory_exit(&memory, p);
		zn_agg_refresh(&agg);
		for (uint32_t i = 0; i < ZN_COUNTER_COUNT; i++) {
			bool gauge = i == ZN_C_HOST_PINNED || i == ZN_C_LIVE_ALLOCS || i == ZN_C_CAPTURES ||
				i == ZN_C_CHILDREN || i == ZN_C_WORKERS;

			CHECK_EQ(agg.gone_count[i], gauge ? 0 : (uint64_t)round * (100 + i));
		}
	}
}

T(ended_between_two_refreshes)
{
	struct zn_proc *p;

	start();
	p = claim(PID);
	zn_memory_record(&memory, p, ZN_H_LAUNCH, 1000, 0);
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.row_count, 0);
	CHECK_EQ(zn_agg_merge(&agg, ZN_H_LAUNCH)->calls, 1);
	CHECK_EQ(memory.row_count, ZN_PROCS_MAX);
}

static const struct {
	const char *name;
	uint64_t lived_ms; /* at the tick, which comes 1 s after the one before */
	uint64_t kernel, graph, cooperative, captured;
	uint64_t launch_rate; /* per 1000 s */
} rates[] = {
	{"rate: nothing", 5000, 0, 0, 0, 0, 0},
	{"rate: one", 5000, 1, 0, 0, 0, 1000},
	{"rate: each kind that runs", 5000, 100, 20, 3, 0, 123000},
	{"rate: captured do not run", 5000, 7, 0, 0, 1000, 7000},
	{"rate: came half a second ago", 500, 100, 0, 0, 0, 200000},
	{"rate: came just now", 0, 100, 0, 0, 0, 0},
	{"rate: very many", 5000, 1ULL << 40, 0, 0, 0, 1000ULL << 40},
};

static void rates_of_a_tick(void)
{
	for (size_t i = 0; i < ZN_LEN(rates); i++) {
		const uint64_t first = 1000 * ZN_NS_PER_S, second = first + ZN_NS_PER_S;
		struct zn_proc *p;

		t_begin(rates[i].name);
		start();
		zn_agg_tick(&agg, first);
		p = claim(PID);
		p->first_ns = second - rates[i].lived_ms * ZN_NS_PER_MS;
		p->count[ZN_C_LAUNCH_KERNEL] = rates[i].kernel;
		p->count[ZN_C_LAUNCH_GRAPH] = rates[i].graph;
		p->count[ZN_C_LAUNCH_COOPERATIVE] = rates[i].cooperative;
		p->count[ZN_C_LAUNCH_CAPTURED] = rates[i].captured;
		zn_agg_tick(&agg, second);
		CHECK_EQ(agg.info[row_of(p)].launch_rate, rates[i].launch_rate);
		zn_agg_tick(&agg, second + ZN_NS_PER_S);
		CHECK_EQ(agg.info[row_of(p)].launch_rate, 0);
	}
}

T(rates_of_what_probes_cost)
{
	struct zn_proc *a, *b;

	start();
	a = claim(PID);
	b = claim(PID + 1);
	a->first_ns = b->first_ns = 1;
	memory.arena.shared->cost_ns[ZN_INSN_NOP] = 1;
	memory.arena.shared->cost_ns[ZN_INSN_OTHER] = 2;
	zn_agg_tick(&agg, 10 * ZN_NS_PER_S);
	CHECK_EQ(agg.info[row_of(a)].cost_rate, 0);
	for (uint32_t f = 0; f < ZN_FAMILY_COUNT; f++) {
		a->count[ZN_C_HIT(f, ZN_INSN_NOP)] += 10 + f;
		b->count[ZN_C_HIT(f, ZN_INSN_OTHER)] += 3;
	}
	zn_agg_tick(&agg, 12 * ZN_NS_PER_S);
	CHECK_EQ(agg.info[row_of(a)].cost_rate, (10 + 11 + 12) * 1000 / 2);
	CHECK_EQ(agg.info[row_of(b)].cost_rate, 3 * 6 * 1000 / 2);
	CHECK_EQ(agg.info[row_of(a)].launch_rate, 0);
	CHECK_EQ(agg.family_cost_rate[1], (11 + 6) * 1000 / 2);
	b->count[ZN_C_HIT(1, ZN_INSN_OTHER)] += 20;
	zn_memory_exit(&memory, b);
	zn_agg_tick(&agg, 13 * ZN_NS_PER_S);
	CHECK_EQ(agg.family_cost_rate[0], 0);
	CHECK_EQ(agg.family_cost_rate[1], 40 * 1000);
}

/* Calls that are hooked at their entry alone are charged for that alone, in each family by itself. */
T(calls_that_save_their_returns)
{
	struct zn_proc *p;

	start();
	p = claim(PID);
	p->first_ns = 1;
	memory.arena.shared->cost_ns[ZN_INSN_NOP] = 100;
	memory.arena.shared->cost_ns[ZN_INSN_OTHER] = 300;
	memory.arena.shared->return_ns = 60;
	zn_agg_tick(&agg, 10 * ZN_NS_PER_S);
	p->count[ZN_C_HIT(ZN_FAM_GPU_MEM, ZN_INSN_NOP)] += 7;
	p->count[ZN_C_SAVED_NS(ZN_FAM_GPU_MEM)] += 7 * 60;
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_NOP)] += 5 + 2;
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_OTHER)] += 3;
	p->count[ZN_C_SAVED_NS(ZN_FAM_CUDA_TRACE)] += 3 * 60;
	p->count[ZN_C_LAUNCH_UNTIMED] += 2;
	zn_agg_tick(&agg, 11 * ZN_NS_PER_S);
	CHECK_EQ(agg.family_cost_rate[ZN_FAM_GPU_MEM], 7 * 40 * 1000);
	CHECK_EQ(agg.family_cost_rate[ZN_FAM_CUDA_TRACE], (5 * 100 + 3 * 240 + 2 * 40) * 1000);
	CHECK_EQ(agg.info[row_of(p)].cost_rate, (7 * 40 + 5 * 100 + 3 * 240 + 2 * 40) * 1000);
	p->count[ZN_C_SAVED_NS(ZN_FAM_GPU_MEM)] += 1000; /* its call is not seen yet */
	zn_agg_tick(&agg, 12 * ZN_NS_PER_S);
	CHECK_EQ(agg.family_cost_rate[ZN_FAM_GPU_MEM], 0);
}

static void hold(struct zn_proc *p, uint32_t ordinal, uint64_t bytes)
{
	struct zn_proc_gpu *g = &p->gpu[ordinal];

	g->alloc_calls[ZN_K_DEVICE] += bytes > g->used_bytes;
	g->used_bytes = bytes;
	if (bytes > g->peak_bytes)
		g->peak_bytes = bytes;
	zn_agg_refresh(&agg);
}

static void name_gpu(struct zn_proc *p, uint32_t ordinal, uint8_t number)
{
	p->gpu[ordinal].uuid[0] = number;
	p->gpu[ordinal].total_bytes = 1000 * number;
}

static const struct zn_gpu *gpu(const char *id)
{
	for (uint32_t i = 0; i < agg.gpus.count; i++)
		if (!strcmp(agg.gpus.gpu[i].id, id))
			return &agg.gpus.gpu[i];
	return NULL;
}

T(two_ordinals_that_mean_one_gpu)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	struct zn_proc *p;

	start();
	p = claim(PID);
	name_gpu(p, 0, 9);
	name_gpu(p, 3, 9);
	hold(p, 0, 100);
	hold(p, 0, 0);
	hold(p, 3, 70);
	p->gpu[0].free_calls = 5;
	p->gpu[3].free_calls = 6;
	p->gpu[0].fail_oom = 1;
	p->gpu[3].fail_other = 2;
	CHECK_EQ(zn_agg_shares(&agg, row_of(p), share), 1);
	CHECK_EQ(share[0].sum.used_bytes, 70);
	CHECK_EQ(share[0].sum.peak_bytes, 100);
	CHECK_EQ(share[0].sum.alloc_calls[ZN_K_DEVICE], 2);
	CHECK_EQ(share[0].sum.free_calls, 11);
	CHECK_EQ(share[0].sum.fail_oom, 1);
	CHECK_EQ(share[0].sum.fail_other, 2);
	hold(p, 0, 60);
	CHECK_EQ(zn_agg_shares(&agg, row_of(p), share), 1);
	CHECK_EQ(share[0].sum.used_bytes, 130);
	CHECK_EQ(share[0].sum.peak_bytes, 130);
	hold(p, 3, 0);
	CHECK_EQ(zn_agg_shares(&agg, row_of(p), share), 1);
	CHECK_EQ(share[0].sum.used_bytes, 60);
	CHECK_EQ(share[0].sum.peak_bytes, 130);
	CHECK_EQ(agg.gpus.count, 1);
	CHECK_EQ(agg.gpus.gpu[0].used_bytes, 60);
	CHECK_EQ(agg.gpus.gpu[0].peak_bytes, 130);
	CHECK_EQ(agg.gpus.gpu[0].processes, 1);
}

T(shares_of_several_gpus)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	struct zn_proc *p;

	start();
	p = claim(PID);
	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++) {
		if (o < ZN_PROC_GPUS)
			name_gpu(p, o, 1 + o / 2);
		hold(p, o, 1 + o);
	}
	CHECK_EQ(zn_agg_shares(&agg, row_of(p), share), ZN_PROC_GPUS / 2 + 1);
	for (uint32_t i = 0; i < ZN_PROC_GPUS / 2; i++) {
		CHECK_EQ(share[i].sum.used_bytes, 4 * i + 3);
		CHECK_EQ(share[i].gpu, i);
	}
	CHECK_EQ(share[ZN_PROC_GPUS / 2].sum.used_bytes, ZN_PROC_GPUS + 1);
	CHECK_EQ(zn_agg_shares(&agg, row_of(p) + 1 < ZN_PROCS_MAX ? row_of(p) + 1 : 0, share), 0);
}

T(processes_on_one_gpu)
{
	struct zn_proc *a, *b;

	start();
	a = claim(PID);
	b = claim(PID + 1);
	name_gpu(a, 0, 5);
	name_gpu(b, 2, 5);
	hold(a, 0, 300);
	hold(b, 2, 500);
	CHECK_EQ(agg.gpus.count, 1);
	CHECK_EQ(agg.gpus.gpu[0].used_bytes, 800);
	CHECK_EQ(agg.gpus.gpu[0].processes, 2);
	CHECK_EQ(agg.gpus.gpu[0].total_bytes, 5000);
	hold(a, 0, 0);
	CHECK_EQ(agg.gpus.gpu[0].used_bytes, 500);
	CHECK_EQ(agg.gpus.gpu[0].processes, 1);
	zn_memory_exit(&memory, b);
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.gpus.gpu[0].used_bytes, 0);
	CHECK_EQ(agg.gpus.gpu[0].processes, 0);
	CHECK_EQ(agg.gpus.gpu[0].peak_bytes, 800);
}

T(a_gpu_that_is_not_known)
{
	struct zn_proc *p;

	start();
	p = claim(PID);
	p->gpu[ZN_PROC_GPUS].total_bytes = 123;
	hold(p, ZN_PROC_GPUS, 40);
	hold(p, 1, 2);
	CHECK_EQ(agg.gpus.count, 1);
	CHECK(gpu("unknown") && gpu("unknown")->used_bytes == 42);
	CHECK_EQ(agg.gpus.gpu[0].total_bytes, 0);
}

T(an_ordinal_that_did_nothing_is_not_named)
{
	struct zn_proc *p;

	start();
	p = claim(PID);
	name_gpu(p, 1, 3);
	p->gpu[1].total_bytes = 0;
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.gpus.count, 0);
	p->gpu[1].fail_oom = 1;
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.gpus.count, 1);
}

T(no_room_for_another_gpu)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	struct zn_proc *p = NULL;

	start();
	for (uint32_t i = 0; i <= ZN_GPUS_MAX; i++) {
		p = claim(PID + i);
		name_gpu(p, 0, (uint8_t)(1 + i));
		hold(p, 0, 10);
	}
	CHECK_EQ(agg.gpus.count, ZN_GPUS_MAX - ZN_PROC_GPUS); /* names, and the unknown one; the rest is for indices */
	CHECK_EQ(zn_agg_shares(&agg, row_of(p), share), 1);
	CHECK(zn_gpu_unknown(&agg.gpus.gpu[share[0].gpu]));
	CHECK_EQ(gpu("unknown")->used_bytes, 10 * (1 + ZN_PROC_GPUS + 1));
	CHECK(lost(ZN_LOST_GPU) > 0);
	CHECK_EQ(agg.row_count, ZN_GPUS_MAX + 1);
}

static bool facts_there;
static uint32_t facts_asked;

static bool process_info(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	facts_asked++;
	CHECK(owner == &memory);
	if (facts_there)
		*to = (struct zn_process_info){.id = p->id, .cuda.set = true, .cuda.count = 2, .cuda.index = {6, 4}};
	return facts_there;
}

static struct zn_proc *start_with_facts(bool there)
{
	struct zn_proc *p;

	start();
	agg.process_info = process_info;
	agg.owner = &memory;
	facts_there = there;
	facts_asked = 0;
	p = claim(PID);
	hold(p, 0, 60);
	return p;
}

T(facts_that_are_there)
{
	struct zn_proc *p = start_with_facts(true);

	CHECK(gpu("6") && gpu("6")->used_bytes == 60);
	hold(p, 1, 40);
	CHECK(gpu("4") && gpu("4")->used_bytes == 40);
	zn_agg_refresh(&agg);
	CHECK_EQ(facts_asked, 2);
}

static uint32_t looks, looks_asked;

/* As if all that is known of a process were so much older. */
static void pass_s(struct zn_proc *p, uint64_t s)
{
	agg.info[row_of(p)].first_tick_ns -= s * ZN_NS_PER_S;
	agg.info[row_of(p)].look_ns -= s * ZN_NS_PER_S;
}

static bool info_of_looks(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	(void)owner;
	*to = (struct zn_process_info){.id = p->id, .looks = looks, .minors = {5}, .minor_count = looks > 1};
	return true;
}

static void look(void *owner, const struct zn_proc *p)
{
	CHECK(owner == &memory && p->tgid == PID);
	looks_asked++;
}

/* Of a listed GPU, whose device was not open when the process was looked at first. */
T(a_device_that_is_opened_late)
{
	struct zn_proc *p;

	start();
	agg.process_info = info_of_looks;
	agg.look = look;
	agg.owner = &memory;
	agg.gpus.listed = agg.gpus.count = 1;
	strcpy(agg.gpus.gpu[0].id, "0");
	agg.gpus.gpu[0].minor = 5;
	looks = 1;
	looks_asked = 0;
	p = claim(PID);
	hold(p, 0, 60);
	CHECK_EQ(agg.gpus.gpu[0].used_bytes, 0);
	CHECK(!gpu("unknown")); /* it is waited for */
	CHECK_EQ(looks_asked, 1);
	zn_agg_refresh(&agg);
	CHECK_EQ(looks_asked, 1);
	pass_s(p, 3);
	zn_agg_refresh(&agg);
	CHECK(gpu("unknown") && gpu("unknown")->used_bytes == 60);
	CHECK_EQ(looks_asked, 2);
	looks = 2;
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.gpus.gpu[0].used_bytes, 60);
	CHECK(!gpu("unknown"));
	for (int i = 0; i < 1000; i++)
		zn_agg_refresh(&agg);
	CHECK_EQ(looks_asked, 2);
}

/* Who never opens one is looked at ever more rarely. */
T(looks_are_few)
{
	struct zn_proc *p;

	start();
	agg.process_info = info_of_looks;
	agg.look = look;
	agg.owner = &memory;
	agg.gpus.listed = agg.gpus.count = 1;
	strcpy(agg.gpus.gpu[0].id, "0");
	looks = 1;
	looks_asked = 0;
	p = claim(PID);
	hold(p, 0, 60);
	for (int i = 0; i < 3600; i++) {
		pass_s(p, 1);
		zn_agg_refresh(&agg);
	}
	CHECK(looks_asked > 50 && looks_asked < 70);
}

T(facts_that_come_late)
{
	struct zn_proc *p = start_with_facts(false);

	CHECK_EQ(agg.gpus.count, 0);
	hold(p, 1, 40);
	CHECK_EQ(agg.gpus.count, 0);
	CHECK_EQ(facts_asked, 2);
	facts_there = true;
	zn_agg_refresh(&agg);
	CHECK_EQ(facts_asked, 3);
	CHECK_EQ(agg.gpus.count, 2);
	CHECK(gpu("6") && gpu("6")->used_bytes == 60);
	CHECK(gpu("4") && gpu("4")->used_bytes == 40);
}

T(facts_that_do_not_come)
{
	struct zn_proc *p = start_with_facts(false);

	agg.info[row_of(p)].first_tick_ns -= 3 * ZN_NS_PER_S;
	agg.process_info = NULL;
	zn_agg_refresh(&agg);
	CHECK(gpu("unknown") && gpu("unknown")->used_bytes == 60);
	agg.process_info = process_info;
	facts_there = true;
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.gpus.count, 1);
	CHECK_EQ(facts_asked, 1);
}

T(patience_ends)
{
	struct zn_proc *p = start_with_facts(false);

	CHECK_EQ(agg.gpus.count, 0);
	agg.info[row_of(p)].first_tick_ns -= 3 * ZN_NS_PER_S;
	zn_agg_refresh(&agg);
	CHECK_EQ(agg.gpus.count, 1);
	CHECK(gpu("unknown") && gpu("unknown")->used_bytes == 60);
}

/* Of each process by its id: what is known of its memory; and the GPUs that processes without a row have open. */
static enum zn_ledger ledger_of[8];
static uint64_t partial_gpus;

static enum zn_ledger ledger(void *owner, const struct zn_proc *p)
{
	CHECK(owner == &memory);
	return ledger_of[p->tgid % 8];
}

static uint64_t gpus_of_partial(void *owner)
{
	CHECK(owner == &memory);
	return partial_gpus;
}

/* It has the first GPUs open, as it must have for those of the driver's list. */
static bool open_devices(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	CHECK(owner == &memory);
	*to = (struct zn_process_info){.id = p->id, .minor_count = 3, .minors = {0, 1, 2}};
	return true;
}

static void start_with_ledgers(uint32_t listed)
{
	start();
	agg.process_info = listed ? open_devices : NULL;
	agg.ledger = ledger;
	agg.partial_gpus = gpus_of_partial;
	agg.owner = &memory;
	partial_gpus = 0;
	for (size_t i = 0; i < ZN_LEN(ledger_of); i++)
		ledger_of[i] = ZN_LEDGER_WHOLE;
	agg.gpus = (struct zn_gpus){.count = listed, .listed = listed};
	for (uint32_t i = 0; i < listed; i++) {
		uint8_t uuid[16] = {(uint8_t)(i + 1)};

		agg.gpus.gpu[i].minor = (int)i;
		snprintf(agg.gpus.gpu[i].id, sizeof(agg.gpus.gpu[i].id), "%u", i);
		zn_uuid_text(agg.gpus.gpu[i].uuid, uuid);
	}
}

T(memory_of_a_gpu_is_known_if_that_of_all_is)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	struct zn_proc *a, *b;

	start_with_ledgers(3);
	a = claim(1);
	b = claim(2);
	name_gpu(a, 0, 1);
	name_gpu(b, 0, 1);
	name_gpu(b, 1, 2);
	ledger_of[1] = ZN_LEDGER_PARTIAL;
	hold(a, 0, 10);
	hold(b, 0, 100);
	hold(b, 1, 1000);
	CHECK(gpu("0")->partial);
	CHECK(!gpu("1")->partial && !gpu("2")->partial);
	CHECK_EQ(gpu("0")->peak_bytes, 0);
	CHECK_EQ(gpu("1")->peak_bytes, 1000);
	CHECK(!zn_agg_memory_known(&agg, row_of(a)) && zn_agg_memory_known(&agg, row_of(b)));
	CHECK_EQ(zn_agg_shares(&agg, row_of(a), share), 1);
	CHECK(share[0].partial);
	CHECK_EQ(zn_agg_shares(&agg, row_of(b), share), 2);
	CHECK(!share[0].partial && !share[1].partial);
	zn_memory_exit(&memory, a);
	zn_agg_refresh(&agg);
	CHECK(!gpu("0")->partial);
	CHECK_EQ(gpu("0")->used_bytes, 100);
	CHECK_EQ(gpu("0")->peak_bytes, 100);
}

T(a_process_without_a_row_hides_the_gpus_it_has_open)
{
	start_with_ledgers(3);
	partial_gpus = 1 << 2 | 1 << 0;
	zn_agg_refresh(&agg);
	CHECK(gpu("0")->partial && !gpu("1")->partial && gpu("2")->partial);
	name_gpu(claim(1), 0, 9); /* an instance of one of them, which nobody lists */
	zn_agg_refresh(&agg);
	CHECK(agg.gpus.count == 4 && agg.gpus.gpu[3].partial);
	start_with_ledgers(0); /* without the driver's list a GPU has the name of its device */
	hold(claim(1), ZN_PROC_GPUS, 5);
	partial_gpus = 1 << 7;
	strcpy(agg.gpus.gpu[0].id, "7");
	zn_agg_refresh(&agg);
	CHECK(gpu("7")->partial);
}

/* A user's process, which may say what it likes, has no GPU open: it hides none of a node whose GPUs are known. */
T(memory_on_a_gpu_that_cannot_be_told)
{
	struct zn_proc *p;

	start_with_ledgers(2);
	ledger_of[1] = ZN_LEDGER_PARTIAL;
	hold(claim(1), ZN_PROC_GPUS, 5);
	CHECK(gpu("unknown")->partial && !gpu("0")->partial && !gpu("1")->partial);
	start_with_ledgers(0);
	p = claim(2);
	name_gpu(p, 0, 3);
	hold(p, 0, 1);
	CHECK(!agg.gpus.gpu[0].partial);
	ledger_of[1] = ZN_LEDGER_PARTIAL;
	hold(claim(1), ZN_PROC_GPUS, 5);
	CHECK(agg.gpus.gpu[0].partial && agg.gpus.gpu[1].partial);
}

T(an_allocation_without_room_is_told_of)
{
	struct zn_proc *p;

	start_with_ledgers(1);
	p = claim(1);
	name_gpu(p, 0, 1);
	hold(p, 0, 10);
	CHECK(zn_agg_memory_known(&agg, row_of(p)) && !gpu("0")->partial);
	p->count[ZN_C_ALLOC_DROPPED]++;
	zn_agg_refresh(&agg);
	CHECK(!zn_agg_memory_known(&agg, row_of(p)) && gpu("0")->partial);
}

static void series_of_files(void)
{
	struct zn_io_key key = {.dev = 8 << 20, .op = ZN_IO_READ};
	static struct zn_io_entry got[ZN_LEN(memory.io)];
	uint32_t n = 0;

	start();
	while (zn_memory_io(&memory, &key, 1000)) {
		n++;
		key.dev++;
	}
	CHECK_EQ(n, ZN_HISTS_MAX - ZN_HISTS_FIRST);
	CHECK_EQ(lost(ZN_LOST_IO), 1);
	key.dev--;
	zn_memory_io(&memory, &key, 1000)->bytes += 4096;
	CHECK_EQ(memory.arena.ops->io(&memory.arena, got, 7), 7);
	CHECK_EQ(memory.arena.ops->io(&memory.arena, got, ZN_LEN(got)), n);
	CHECK_EQ(zn_arena_hist(&memory.arena, got[n - 1].row.hist)->calls, 2);
	CHECK_EQ(zn_arena_hist(&memory.arena, got[n - 1].row.hist)->bytes, 4096);
	memory.arena.ops->io_cut(&memory.arena, &key);
	memory.arena.ops->io_cut(&memory.arena, &key); /* there is none any more */
	CHECK_EQ(memory.arena.ops->io(&memory.arena, got, ZN_LEN(got)), n - 1);
	CHECK_EQ(zn_arena_hist(&memory.arena, got[n - 1].row.hist)->bytes, 4096);
	memory.arena.ops->io_free(&memory.arena, &got[n - 1].row);
	CHECK_EQ(zn_memory_io(&memory, &key, 1000)->bytes, 0);
}

int main(void)
{
	RUN(labels_of_operations);
	RUN(processes_come_and_go);
	RUN(a_row_starts_anew);
	RUN(launches_in_shards_are_those_of_their_process);
	RUN(a_process_that_ends_while_it_is_gathered_keeps_its_last_launches);
	RUN(a_place_for_skew_stays_while_its_first_rank_joins);
	RUN(one_more_than_there_are_rows);
	RUN(two_thousand_in_turn_leak_nothing);
	RUN(one_more_than_there_are_histograms);
	RUN(slots_out_of_range);
	RUN(what_cannot_be_mapped_is_passed_over);
	RUN(series_of_files);
	RUN(communicators_are_read_at_a_tick);
	RUN(sums_stay_when_a_process_ends);
	RUN(counters_stay_and_gauges_go);
	RUN(ended_between_two_refreshes);
	rates_of_a_tick();
	RUN(rates_of_what_probes_cost);
	RUN(calls_that_save_their_returns);
	RUN(two_ordinals_that_mean_one_gpu);
	RUN(shares_of_several_gpus);
	RUN(processes_on_one_gpu);
	RUN(a_gpu_that_is_not_known);
	RUN(an_ordinal_that_did_nothing_is_not_named);
	RUN(no_room_for_another_gpu);
	RUN(facts_that_are_there);
	RUN(a_device_that_is_opened_late);
	RUN(looks_are_few);
	RUN(facts_that_come_late);
	RUN(facts_that_do_not_come);
	RUN(patience_ends);
	RUN(memory_of_a_gpu_is_known_if_that_of_all_is);
	RUN(a_process_without_a_row_hides_the_gpus_it_has_open);
	RUN(memory_on_a_gpu_that_cannot_be_told);
	RUN(an_allocation_without_room_is_told_of);
	return t_end();
}
