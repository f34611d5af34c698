/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tick TIMES [hang]: what a tick of the daemon, and the looks before it, cost with 64 processes, of one job, in 128
 * communicators of 16 ranks each. Prints the median and the longest of that many, as CPU time in ns. "hang": one
 * process in four is missing in all of its communicators, and the others wait for it; /proc is asked what it does, so
 * the processes are there.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ZN_BENCH_CGROUPS
#include "bench.h"
#include "simulated.h"

#define PROCESSES 64
#define RANKS     ZN_SKEW_RANKS
#define MISSING   4 /* one in so many */

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_counter_rates rates;
static struct zn_progress progress;
static struct zn_ranks ranks;
static struct zn_stopped stopped;
static struct zn_causes causes;
static struct zn_activity activity;
static struct zn_startup startup;
static struct zn_checkpoints checkpoints;
static struct zn_flights flights;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_io_sums io_sums;
static struct zn_jobs_progress jobs_progress;
static struct zn_state view;
static struct zn_proc *process[PROCESSES];
static pid_t child[PROCESSES];
static bool hang;

static void walk(
	void *of, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(of, wanted->metric, sample, to);
}

static void drop(void *owner, const char *name, struct zn_str text)
{
	(void)owner, (void)name, (void)text;
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork", "no process");
	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

static void join(uint32_t slot)
{
	struct zn_skew *s = &memory.arena.skews[slot];

	memory.arena.shared->skew_used[slot] = 1;
	s->of = ZN_SKEW_OF(0, slot + 1);
	s->hash = slot + 1;
	s->nranks = 2 * RANKS;
	for (uint32_t m = 0; m < RANKS; m++) {
		struct zn_proc *p = process[(slot * 7 + m) % PROCESSES];

		s->member[s->members++] = (struct zn_skew_rank){
			.tgid = p->tgid, .row = (uint32_t)(p - memory.arena.procs), .id = p->id, .rank = m};
	}
}

static void begin(void)
{
	static struct zn_options options = {.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
	char why[ZN_TEXT_MAX];

	if (zn_memory_open(&memory))
		die("arena", "no memory");
	zn_agg_init(&agg, &memory.arena);
	zn_ranks_init(&ranks, &agg, &progress, "/proc");
	zn_causes_init(&causes, &agg, &progress, &ranks);
	stopped.proc = causes.proc = "/proc";
	causes.stopped = &stopped;
	zn_startup_init(&startup, &agg, zn_now_ns());
	causes.startup = &startup;
	zn_checkpoints_init(&checkpoints, &agg);
	causes.checkpoints = &checkpoints;
	flights.state = &view;
	flights.write = drop;
	view = (struct zn_state){.options = &options,
		.agg = &agg,
		.alerts = &alerts,
		.jobs = &jobs,
		.rates = &rates,
		.progress = &progress,
		.ranks = &ranks,
		.stopped = &stopped,
		.causes = &causes,
		.jobs_progress = &jobs_progress,
		.startup = &startup,
		.checkpoints = &checkpoints,
		.flights = &flights,
		.node = "bench"};
	alerts.work.source = (struct zn_rule_source){walk, &view};
	if (zn_alerts_open(&alerts, &options, zn_metrics_type, why) || zn_jobs_open(&jobs, &agg, &alerts) ||
		zn_history_open(&view.history) || zn_baselines_open(&view.baselines))
		die("tables", "no memory");
	zn_io_sums_init(&io_sums, &memory.arena, &jobs);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		child[i] = start_child();
		process[i] = zn_memory_claim(&memory, (uint32_t)child[i], "python3");
	}
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++)
		join(slot);
}

static bool is_missing(uint32_t i)
{
	return hang && i % MISSING == 0;
}

static void work(uint32_t i)
{
	struct zn_proc *p = process[i];

	if (is_missing(i))
		return;
	p->count[ZN_C_STALL_GPU] += ZN_NS_PER_S;
	if (hang)
		return;
	p->count[ZN_C_LAUNCH_KERNEL] += 1000;
	for (int n = 0; n < 100; n++)
		zn_memory_record(&memory, p, ZN_H_LAUNCH, 5000, 0);
}

static void issue(uint64_t now_ns)
{
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		struct zn_skew *s = &memory.arena.skews[slot];

		for (uint32_t m = 0; m < RANKS; m++)
			if (!is_missing((slot * 7 + m) % PROCESSES))
				s->at_ns[s->member[m].issued++ % ZN_SKEW_WINDOW][m] = now_ns;
	}
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * ZN_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* In the order of the daemon's own. */
static uint64_t tick(uint64_t now_ns)
{
	uint64_t start_ns = cpu_ns();

	for (uint64_t ms = ZN_ACTIVITY_MS; ms <= 1000; ms += ZN_ACTIVITY_MS)
		zn_activity_look(&activity, &agg, &ranks, now_ns - ZN_NS_PER_S + ms * ZN_NS_PER_MS);
	zn_agg_tick(&agg, now_ns);
	zn_rates_tick(&rates, &agg, now_ns);
	zn_progress_tick(&progress, &agg, now_ns);
	zn_ranks_tick(&ranks, now_ns);
	zn_startup_tick(&startup, now_ns);
	zn_checkpoints_tick(&checkpoints, now_ns);
	zn_stopped_tick(&stopped, &agg, &progress, now_ns);
	zn_causes_tick(&causes, now_ns);
	zn_history_tick(view.history, &agg, now_ns);
	zn_baselines_tick(view.baselines, view.agg, view.history, now_ns);
	zn_alerts_tick(&alerts, now_ns);
	zn_flights_tick(&flights, now_ns);
	zn_jobs_tick(&jobs, now_ns);
	zn_io_sums_tick(&io_sums, now_ns);
	zn_io_sums_causes(&io_sums, &causes);
	zn_jobs_progress_tick(&jobs_progress, &jobs, &progress, &io_sums, now_ns);
	return cpu_ns() - start_ns;
}

int main(int argc, char **argv)
{
	unsigned long times = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	uint64_t now_ns = zn_now_ns(), *took = calloc(times ? times : 1, sizeof(*took));

	if (!times || !took)
		die("usage", "tick TIMES [hang]");
	zn_log_level = ZN_ERROR;
	begin();
	issue(now_ns);
	hang = argc > 2 && !strcmp(argv[2], "hang");
	issue(now_ns + 1);
	for (unsigned long n = 0; n < times; n++) {
		for (uint32_t i = 0; i < PROCESSES; i++)
			work(i);
		if (!hang)
			issue(now_ns);
		now_ns += ZN_NS_PER_S;
		took[n] = tick(now_ns);
	}
	qsort(took, times, sizeof(*took), by_size);
	printf("%llu %llu\n", (unsigned long long)took[times / 2], (unsigned long long)took[times - 1]);
	for (uint32_t i = 0; i < PROCESSES; i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
	return 0;
}
