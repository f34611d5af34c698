/* SPDX-License-Identifier: GPL-2.0 */
/*
 * growth WHAT N TIMES: how what the daemon does grows with what there is, over memory. WHAT: "scrape", of N processes,
 * 8 in a job; "jobs", the same with jobs and the node alone, as --series job has it; "tick", of N jobs with a process
 * each. Prints the least of TIMES as CPU time in ns, so that others on the machine hardly matter, the bytes of the
 * page, and the memory that became resident since the tables were empty.
 */
#include <string.h>
#include <unistd.h>

#define ZN_BENCH_CGROUPS
#include "bench.h"
#include "simulated.h"

#define JOB_PROCESSES 8
#define GPUS          8
#define FIRST_TGID    1000000 /* above any that there is: /proc has none of them */

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_options options = {.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
static struct zn_state view = {
	.options = &options, .agg = &agg, .alerts = &alerts, .jobs = &jobs, .node = "bench", .release = "bench"};
static char page[64 << 20];

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * ZN_NS_PER_S + (uint64_t)t.tv_nsec;
}

static uint64_t resident_bytes(void)
{
	unsigned long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%*u %lu", &pages) != 1)
		die("statm", "not read");
	fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void walk(
	void *of, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(of, wanted->metric, sample, to);
}

static void open_tables(void)
{
	char why[ZN_TEXT_MAX];

	if (zn_memory_open(&memory))
		die("arena", "no memory");
	zn_agg_init(&agg, &memory.arena);
	alerts.work.source = (struct zn_rule_source){walk, &view};
	if (zn_alerts_open(&alerts, &options, zn_metrics_type, why) || zn_jobs_open(&jobs, &agg, &alerts))
		die("tables", "no memory");
}

static void add_job(uint32_t id, uint32_t first, uint32_t processes)
{
	static struct zn_message m;
	char why[ZN_TEXT_MAX];

	memset(&m, 0, sizeof(m));
	snprintf(m.value[ZN_KEY_ID], ZN_VALUE_BYTES, "%u", id);
	if (zn_jobs_start(&jobs, &m, ZN_JOB_BY_CGROUP, why))
		die("job", why);
	for (uint32_t i = 0; i < processes; i++)
		memory.arena.ops->job_task(
			&memory.arena, zn_jobs_find(&jobs, m.value[ZN_KEY_ID], ZN_UNKNOWN)->slot, first + i);
}

/* Two histograms each: so many processes have that at one time. */
static void add_process(uint32_t i)
{
	struct zn_proc *p = zn_memory_claim(&memory, FIRST_TGID + i, "python3");

	if (!p)
		die("process", "there is no room");
	p->gpu[i % GPUS].used_bytes = p->gpu[i % GPUS].peak_bytes = 20ULL << 30;
	p->gpu[i % GPUS].alloc_calls[0] = 100;
	p->count[ZN_C_LAUNCH_KERNEL] = 1000000 + i;
	p->count[ZN_C_SYSCALLS] = 123456 + i;
	for (uint64_t n = 0; n < 200; n++) {
		zn_memory_record(&memory, p, ZN_H_LAUNCH, 3000 + n * 97, 0);
		zn_memory_record(&memory, p, ZN_H_SYNC_STREAM, 30000 + n * 971, 0);
	}
}

static void fill_tables(uint32_t processes, uint32_t by_job)
{
	for (uint32_t i = 0; i < processes; i++)
		add_process(i);
	for (uint32_t i = 0; i < processes; i += by_job)
		add_job(1 + i / by_job, FIRST_TGID + i, processes - i < by_job ? processes - i : by_job);
}

static void tick(uint64_t now_ns)
{
	zn_agg_tick(&agg, now_ns);
	zn_alerts_tick(&alerts, now_ns);
	zn_jobs_tick(&jobs, now_ns);
}

static size_t scrape(void)
{
	struct zn_out o = {.at = page, .cap = sizeof(page)};

	zn_state_refresh(&view);
	zn_metrics_text(&o, &view, true, 0);
	if (o.full)
		die("page", "it does not fit");
	return o.len;
}

int main(int argc, char **argv)
{
	uint32_t n = argc == 4 ? (uint32_t)atoi(argv[2]) : 0;
	unsigned long times = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	bool ticks = argc == 4 && !strcmp(argv[1], "tick");
	uint64_t now_ns = zn_now_ns(), least = UINT64_MAX, before;
	size_t bytes = 0;

	if (!n || !times || n > ZN_PROCS_MAX || (ticks && n > ZN_JOBS_MAX))
		die("usage", "growth scrape|jobs|tick N TIMES");
	zn_log_level = ZN_ERROR;
	options.series = strcmp(argv[1], "jobs") ? ZN_SERIES_PROCESS : ZN_SERIES_JOB;
	open_tables();
	tick(now_ns);
	scrape();
	before = resident_bytes();
	fill_tables(n, ticks ? 1 : JOB_PROCESSES);
	for (unsigned long i = 0; i < times; i++) {
		uint64_t start_ns;

		now_ns += ZN_NS_PER_S;
		start_ns = cpu_ns();
		if (ticks)
			tick(now_ns);
		else
			bytes = scrape();
		start_ns = cpu_ns() - start_ns;
		least = start_ns < least ? start_ns : least;
		if (!ticks)
			tick(now_ns);
	}
	printf("%llu %zu %llu\n", (unsigned long long)least, bytes, (unsigned long long)(resident_bytes() - before));
	return 0;
}
