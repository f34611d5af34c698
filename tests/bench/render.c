/* SPDX-License-Identifier: GPL-2.0 */
/*
 * render TIMES [openmetrics | rules | baselines]: renders the text of a simulated node that often, without a daemon or
 * a socket around it, and prints the time of one, its bytes and its sample lines; or evaluates the built-in alert rules
 * over 256 processes, and prints the time of one evaluation, in ns; or takes that many steps of the baselines of 256
 * processes with all signals, and prints the time of one, in ns. Under `valgrind --tool=callgrind
 * --toggle-collect=zn_metrics_text` its instruction count is the same each time, on any machine.
 */
#include <string.h>

#include "bench.h"
#include "simulated.h"
#include "zernel.h"

static uint32_t lines(const struct zn_out *o)
{
	uint32_t count = 0;

	for (size_t i = 0; i < o->len; i++)
		count += o->at[i] == '\n' && i + 1 < o->len && o->at[i + 1] != '#';
	return count;
}

static void walk(
	void *view, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(view, wanted->metric, sample, to);
}

#define PROCESSES 256

static double rules(struct zn_state *view, struct zn_memory_arena *memory, unsigned long times)
{
	uint64_t now_ns = zn_now_ns(), took_ns = 0;

	zn_log_level = ZN_ERROR;
	for (uint32_t i = 0; i < PROCESSES - ZN_SIM_RANKS; i++) {
		struct zn_proc *p = zn_memory_claim(memory, 5000 + i, "python3");

		for (enum zn_operation d = 0; p && d <= ZN_H_DATALOAD; d += ZN_H_DATALOAD)
			zn_memory_record(memory, p, d, 100000, 0);
	}
	view->alerts->work.source = (struct zn_rule_source){walk, view};
	for (unsigned long i = 0; i < times; i++) {
		now_ns += ZN_NS_PER_S;
		zn_agg_tick(view->agg, now_ns);
		zn_alerts_tick(view->alerts, now_ns);
		took_ns += view->alerts->run_ns;
	}
	return (double)took_ns / (double)times;
}

/* Every signal of a process has a value, and another one at each step. */
static void work(struct zn_memory_arena *memory, struct zn_proc *p, uint64_t n)
{
	static const enum zn_operation operations[] = {
		ZN_H_LAUNCH, ZN_H_SYNC_STREAM, ZN_H_NCCL_ALL_REDUCE, ZN_H_RUNQUEUE, ZN_H_DATALOAD};

	for (size_t i = 0; i < sizeof(operations) / sizeof(*operations); i++)
		for (uint64_t k = 1; k < 8; k++)
			zn_memory_record(memory, p, operations[i], 10000 * k + (n * 7919 + p->id * 104729) % 99991, 0);
	for (enum zn_counter c = ZN_C_STALL_CPU; c <= ZN_C_STALL_OTHER; c++)
		p->count[c] += 100000 + (n * 31 + c * 17) % 1009;
	for (enum zn_counter c = ZN_C_SYSCALLS; c <= ZN_C_TCP_RETRANSMITS; c++)
		p->count[c] += 1000 + (n * 37 + c * 19) % 997;
	p->count[ZN_C_SWITCH_VOLUNTARY] += 1000 + n * 41 % 991;
	p->gpu[0].used_bytes = p->gpu[0].peak_bytes = (1 << 30) + (n * 43 % 983 << 20);
}

static double baselines(struct zn_state *view, struct zn_memory_arena *memory, unsigned long times)
{
	uint64_t now_ns = zn_now_ns(), took_ns = 0;

	if (zn_history_open(&view->history) || zn_baselines_open(&view->baselines))
		die("baselines", "no memory");
	for (uint32_t i = 0; i < PROCESSES - ZN_SIM_RANKS; i++)
		zn_memory_claim(memory, 5000 + i, "python3");
	for (unsigned long i = 0; i < times + ZN_BASELINE_POINTS; i++) {
		uint64_t start_ns;

		for (uint32_t r = 0; r < view->agg->row_count; r++)
			work(memory, zn_arena_proc(view->agg->arena, view->agg->row[r]), i);
		now_ns += ZN_HISTORY_STEP_MS * ZN_NS_PER_MS;
		zn_agg_tick(view->agg, now_ns);
		zn_history_tick(view->history, view->agg, now_ns);
		start_ns = zn_now_ns();
		zn_baselines_tick(view->baselines, view->agg, view->history, now_ns);
		took_ns += i < ZN_BASELINE_POINTS ? 0 : zn_now_ns() - start_ns;
	}
	return (double)took_ns / (double)times;
}

int main(int argc, char **argv)
{
	static struct zn_sim sim;
	static struct zn_agg agg;
	static struct zn_alerts alerts;
	static struct zn_options options = {.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
	static char text[1 << 20];
	struct zn_state view = {
		.options = &options, .agg = &agg, .alerts = &alerts, .node = "bench", .release = "bench"};
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	char why[ZN_TEXT_MAX];
	uint64_t start;

	if (!times || zn_sim_open(&sim, 1))
		die("usage", "render TIMES [openmetrics]");
	zn_agg_init(&agg, &sim.memory.arena);
	if (zn_alerts_open(&alerts, &options, zn_metrics_type, why))
		die("alerts", why);
	zn_sim_step(&sim, 60000);
	zn_agg_tick(&agg, zn_now_ns());
	if (argc > 2 && !strcmp(argv[2], "rules")) {
		printf("%.0f\n", rules(&view, &sim.memory, times));
		return 0;
	}
	if (argc > 2 && !strcmp(argv[2], "baselines")) {
		printf("%.0f\n", baselines(&view, &sim.memory, times));
		return 0;
	}
	start = zn_now_ns();
	for (unsigned long i = 0; i < times; i++) {
		o.len = 0;
		zn_state_refresh(&view);
		zn_metrics_text(&o, &view, argc > 2, 0);
	}
	printf("%.0f %zu %u\n", (double)(zn_now_ns() - start) / (double)times, o.len, lines(&o));
	return 0;
}
