/* SPDX-License-Identifier: GPL-2.0 */
/* link: -O2 -fno-sanitize=all build/bench/libzernel.a */
/*
 * scenario_test.c: each built-in rule fires and is resolved in a scenario of the simulation, and in no other one; and
 * what `zernel why` says there. All is as in the daemon, from the simulator's counters over the metrics to the rules,
 * but the clock, which is that of the simulation. With "day" as an argument: a day of pauses that are no fault.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"
#include "no_cgroups.h"
#include "no_libraries.h"
#include "resident.h"

#define HEALTHY_S  1300   /* as long as gpu_idle looks back and waits, and more */
#define CYCLES     2      /* by then a scenario's alerts are resolved */
#define GROWTH_MAX 524288 /* bytes */
#define DAY_S      86400

#define ALSO_DRIVER (1ull << ZN_SCENARIO_DRIVER)
#define ALSO_WAITS  (1ull << ZN_SCENARIO_HANG | ALSO_DRIVER | 1ull << ZN_SCENARIO_PAUSES) /* for a rank, for long */
#define ALSO_DATA   (1ull << ZN_SCENARIO_FEW_WORKERS | 1ull << ZN_SCENARIO_SLOW_FILES | 1ull << ZN_SCENARIO_SLOW_TRANSFER)
#define ALSO_NODES  (1ull << ZN_SCENARIO_NODE_HANG | 1ull << ZN_SCENARIO_NODE_HANG_PEER)

/* Which scenario makes a rule fire, and in which others it fires too. A built-in rule without a row fails the test. */
static const struct row {
	const char *alert;
	enum zn_scenario scenario;
	uint64_t also;
} rows[] = {
	{"gpu_oom_warning", ZN_SCENARIO_MEMORY_LEAK, 0},
	{"gpu_memory_growing", ZN_SCENARIO_MEMORY_LEAK, 0},
	{"gpu_allocation_failed", ZN_SCENARIO_MEMORY_LEAK, 0},
	{"data_starvation", ZN_SCENARIO_STARVATION, 0},
	{"stalled_on_data", ZN_SCENARIO_STARVATION, ALSO_DATA},
	{"gpu_idle", ZN_SCENARIO_IDLE_GPU, 0},
	{"gpu_nearly_idle", ZN_SCENARIO_NEARLY_IDLE, 0},
	{"nccl_straggler", ZN_SCENARIO_STRAGGLER, ALSO_WAITS},
	{"launch_latency_unusual", ZN_SCENARIO_SLOW_LAUNCH, 0},
	{"driver_contention", ZN_SCENARIO_CONTENTION, 0},
	{"tcp_retransmits", ZN_SCENARIO_RETRANSMITS, 0},
	{"probe_overhead", ZN_SCENARIO_OVERHEAD, 0},
	{"events_lost", ZN_SCENARIO_LOSSES, 0},
	{"oom_kill", ZN_SCENARIO_OOM, 0},
	{"host_memory_growing", ZN_SCENARIO_HOST_MEMORY, 0},
	{"gpu_ghost", ZN_SCENARIO_GHOSTS, 0},
	{"gpu_xid", ZN_SCENARIO_XID, 0},
	{"cuda_context_lost", ZN_SCENARIO_XID, 0},
	{"gpu_amdgpu", ZN_SCENARIO_AMDGPU, 0},
	{"gpu_throttled", ZN_SCENARIO_THROTTLED, 0},
	{"gpu_link_narrow", ZN_SCENARIO_LINK, 0},
	{"gpu_hardware_errors", ZN_SCENARIO_LINK, 0},
	{"gpu_lost", ZN_SCENARIO_LOST, 0},
	{"gpu_driver_not_answering", ZN_SCENARIO_SYSFS_HANG, 0},
	{"nccl_hang", ZN_SCENARIO_HANG, ALSO_DRIVER},
	{"job_stalled", ZN_SCENARIO_HANG,
		ALSO_DRIVER | ALSO_NODES | 1ull << ZN_SCENARIO_ALL_WAIT | 1ull << ZN_SCENARIO_STOPPED},
	{"driver_unresponsive", ZN_SCENARIO_DRIVER, 0},
	{"process_blocked", ZN_SCENARIO_DRIVER, 0},
	{"requests_unusual", ZN_SCENARIO_SERVER, 0},
	{"requests_failing", ZN_SCENARIO_SERVER, 0},
	{"requests_unread", ZN_SCENARIO_SERVER, 0},
};

/* Seconds since the start at which alerts of a rule fired first and were resolved last; 0: never. */
static struct {
	uint64_t fired, resolved;
	uint32_t firing;
} seen[ZN_LEN(rows)];
static uint64_t second;

const char zn_version[] = "1.2-test", zn_commit[] = "abc";
bool zn_ready;
enum zn_level zn_log_level;
unsigned zn_log_burst;

/* ---- The clock, in place of log.c's. ---- */

#define START_S 1000

uint64_t zn_now_ns(void)
{
	return (START_S + second) * ZN_NS_PER_S;
}

uint64_t zn_wall_ms(void)
{
	return 1700000000000 + second * 1000;
}

void zn_moment_now(struct zn_moment *m)
{
	*m = (struct zn_moment){zn_wall_ms(), (START_S + second) * 1000, ""};
}

void zn_log(enum zn_level level, const char *format, ...)
{
	(void)level, (void)format;
}

void zn_log_about(enum zn_level level, uint64_t subject, const char *format, ...)
{
	(void)level, (void)subject, (void)format;
}

uint64_t zn_log_lost(void)
{
	return 0;
}

/* ---- What a simulation has none of. ---- */

uint64_t zn_stats_missed(struct zn_probe *p)
{
	(void)p;
	return 0;
}

uint64_t zn_stats_run_ns(struct zn_probe *p, uint32_t i, const char **name)
{
	(void)p, (void)i, (void)name;
	return 0;
}

/* ---- A daemon that simulates. ---- */

static struct zn_options options = {.simulate = true, .push_interval_ms = 1000, .overhead_budget = 10000};
static struct zn_sim sim;
static struct zn_agg agg;
static struct zn_counter_rates rates;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_history *history;
static struct zn_baselines *baselines;
static struct zn_latency *latency;
static struct zn_slowness *slowness;
static struct zn_servings servings;
static struct zn_xids xids;
static struct zn_ooms ooms;
static struct zn_ghosts ghosts;
static struct zn_job_uses uses;
static struct zn_progress progress;
static struct zn_ranks ranks;
static struct zn_io_sums io_sums;
static struct zn_jobs_progress jobs_progress;
static struct zn_causes causes;
static struct zn_stopped stopped;
static struct zn_blocked blocked;
static struct zn_startup startup;
static struct zn_checkpoints checkpoints;
static struct zn_activity activity;
static struct zn_hardware hardware;
static struct zn_state view;

static size_t row_of(const char *alert)
{
	size_t i = 0;

	while (i < ZN_LEN(rows) && strcmp(rows[i].alert, alert))
		i++;
	return i;
}

static void note(void *owner, const struct zn_alert *alert)
{
	size_t i = row_of(alert->rule->name);

	(void)owner;
	if (i == ZN_LEN(rows))
		return;
	if (alert->state == ZN_FIRING) {
		seen[i].firing++;
		if (!seen[i].fired)
			seen[i].fired = second;
	} else if (--seen[i].firing == 0) {
		seen[i].resolved = second;
	}
}

static void walk(
	void *of, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(of, wanted->metric, sample, to);
}

static void start(enum zn_scenario scenario)
{
	char why[ZN_TEXT_MAX];

	second = 0;
	memset(seen, 0, sizeof(seen));
	if (zn_sim_open(&sim, 1))
		abort();
	zn_sim_scenario(&sim, scenario, 0);
	xids = (struct zn_xids){.fd = -1};
	sim.xids = &xids;
	sim.ooms = &ooms;
	memset(&ooms, 0, sizeof(ooms));
	memset(&ghosts, 0, sizeof(ghosts));
	memset(&uses, 0, sizeof(uses));
	zn_use_init(&uses, &jobs, NULL);
	zn_agg_init(&agg, &sim.memory.arena);
	agg.process_info = zn_sim_process_info;
	memset(&rates, 0, sizeof(rates));
	memset(&progress, 0, sizeof(progress));
	memset(&ranks, 0, sizeof(ranks));
	memset(&jobs_progress, 0, sizeof(jobs_progress));
	memset(&causes, 0, sizeof(causes));
	memset(&activity, 0, sizeof(activity));
	zn_ranks_init(&ranks, &agg, &progress, NULL);
	zn_causes_init(&causes, &agg, &progress, &ranks);
	zn_startup_init(&startup, &agg, zn_now_ns());
	zn_checkpoints_init(&checkpoints, &agg);
	memset(&stopped, 0, sizeof(stopped));
	memset(&hardware, 0, sizeof(hardware));
	zn_hardware_init(&hardware, &agg.gpus);
	causes.stopped = blocked.stopped = &stopped;
	causes.startup = &startup;
	causes.checkpoints = &checkpoints;
	alerts.work.source = (struct zn_rule_source){walk, &view};
	if (zn_alerts_open(&alerts, &options, zn_metrics_type, why) || zn_jobs_open(&jobs, &agg, &alerts) ||
		zn_history_open(&history) || zn_baselines_open(&baselines) || zn_latency_open(&latency) ||
		zn_slowness_open(&slowness))
		abort();
	zn_slowness_front(slowness, zn_sim_servers_front, &sim);
	zn_serving_init(&servings, &sim.memory.arena);
	jobs.activity = &activity;
	alerts.changed = note;
	view = (struct zn_state){.options = &options,
		.agg = &agg,
		.alerts = &alerts,
		.jobs = &jobs,
		.rates = &rates,
		.history = history,
		.latency = latency,
		.slowness = slowness,
		.servings = &servings,
		.baselines = baselines,
		.xids = &xids,
		.ooms = &ooms,
		.ghosts = &ghosts,
		.uses = &uses,
		.progress = &progress,
		.ranks = &ranks,
		.jobs_progress = &jobs_progress,
		.stopped = &stopped,
		.blocked = &blocked,
		.causes = &causes,
		.hardware = &hardware,
		.node = "node1"};
	zn_io_sums_init(&io_sums, &sim.memory.arena, &jobs);
	zn_sim_mounts(&io_sums.mounts);
	zn_sim_jobs(&sim, &jobs);
}

static void stop(void)
{
	zn_latency_close(latency);
	zn_slowness_close(slowness);
	zn_baselines_close(baselines);
	zn_history_close(history);
	zn_jobs_close(&jobs);
	zn_sim_close(&sim);
}

static void one_second(void)
{
	uint64_t before = zn_now_ns(), now = before + ZN_NS_PER_S;

	second++;
	for (uint64_t ms = 100; ms <= 1000; ms += 100) {
		zn_sim_step(&sim, 100);
		zn_activity_look(&activity, &agg, &ranks, before + ms * ZN_NS_PER_MS);
	}
	zn_agg_tick(&agg, now);
	zn_rates_tick(&rates, &agg, now);
	zn_progress_tick(&progress, &agg, now);
	zn_ranks_tick(&ranks, now);
	zn_stopped_tick(&stopped, &agg, &progress, now);
	zn_sim_stop(&sim, &stopped);
	zn_blocked_tick(&blocked, &agg, now);
	zn_startup_tick(&startup, now);
	zn_checkpoints_tick(&checkpoints, now);
	zn_causes_tick(&causes, now);
	zn_sim_hardware(&sim, &hardware, now);
	zn_hardware_tick(&hardware, now);
	zn_history_tick(history, &agg, now);
	zn_latency_tick(latency, &sim.memory.arena, zn_history_steps(history), now);
	zn_serving_tick(&servings, now);
	zn_slowness_tick(slowness, latency, &agg, zn_history_steps(history), now);
	zn_baselines_tick(baselines, view.agg, view.history, now);
	zn_alerts_tick(&alerts, now);
	zn_jobs_tick(&jobs, now);
	zn_sim_job_use(&sim, &uses);
	zn_sim_job_ghosts(&sim, &ghosts, now);
	view.tick_ns = now;
	zn_io_sums_tick(&io_sums, now);
	zn_io_sums_causes(&io_sums, &causes);
	zn_sim_limits(&sim, &causes);
	zn_jobs_progress_tick(&jobs_progress, &jobs, &progress, &io_sums, now);
}

/* ---- The tests. ---- */

static const char *const names[] = {
#define X(e, name) name,
	ZN_SCENARIOS(X)
#undef X
};

static bool fires_in(size_t i, enum zn_scenario scenario)
{
	return rows[i].scenario == scenario || rows[i].also >> scenario & 1;
}

/* All that are of this scenario have fired, and none is firing any more. */
static bool is_over(enum zn_scenario scenario)
{
	bool over = true;

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		over &= !fires_in(i, scenario) || (seen[i].fired && !seen[i].firing);
	return over;
}

static void check_row(size_t i, enum zn_scenario scenario, uint64_t half)
{
	if (!fires_in(i, scenario)) {
		CHECK_EQ(seen[i].fired, 0);
		if (seen[i].fired)
			fprintf(stderr, "%s fires in %s\n", rows[i].alert, names[scenario]);
		return;
	}
	CHECK(seen[i].fired >= half && seen[i].fired <= 2 * half);
	CHECK(seen[i].resolved > seen[i].fired && seen[i].resolved < 3 * half);
	if (getenv("ZN_SHOW"))
		printf("%-12s %-22s fires after %llu s, resolved after %llu s\n", names[scenario], rows[i].alert,
			(unsigned long long)seen[i].fired, (unsigned long long)seen[i].resolved);
}

/* What is first in the list of the job with the fault as that ends, or in its middle; NULL: nothing. A scenario without
 * a row fails the test. */
static const struct {
	enum zn_scenario scenario;
	const char *first;
	bool middle;
} whys[] = {
	{ZN_SCENARIO_MEMORY_LEAK, "gpu_oom_warning", false},
	{ZN_SCENARIO_STARVATION, "input_cpu", false},
	{ZN_SCENARIO_STRAGGLER, "straggler", false},
	{ZN_SCENARIO_IDLE_GPU, "idle", false},
	{ZN_SCENARIO_NEARLY_IDLE, "idle", false},
	{ZN_SCENARIO_SLOW_LAUNCH, "launch_latency_unusual", true},
	{ZN_SCENARIO_CONTENTION, "driver_contention", false},
	{ZN_SCENARIO_RETRANSMITS, "network", false},
	{ZN_SCENARIO_OVERHEAD, "probe_overhead", false},
	{ZN_SCENARIO_LOSSES, NULL, false},
	{ZN_SCENARIO_OOM, "oom_kill", false},
	{ZN_SCENARIO_HOST_MEMORY, "host_memory_growing", false},
	{ZN_SCENARIO_GHOSTS, "gpu_ghost", false},
	{ZN_SCENARIO_XID, "cuda_context_lost", false},
	{ZN_SCENARIO_AMDGPU, "gpu_amdgpu", false},
	{ZN_SCENARIO_THROTTLED, "gpu_throttled", false},
	{ZN_SCENARIO_LINK, "gpu_hardware_errors", false},
	{ZN_SCENARIO_LOST, "gpu_lost", false},
	{ZN_SCENARIO_SYSFS_HANG, "gpu_driver_not_answering", false},
	{ZN_SCENARIO_HANG, "hang", false},
	{ZN_SCENARIO_DRIVER, "hang", false},
	{ZN_SCENARIO_ALL_WAIT, "all_wait", false},
	{ZN_SCENARIO_PAUSES, NULL, false},
	{ZN_SCENARIO_COMMUNICATION, "communication", false},
	{ZN_SCENARIO_CPU_SHORTAGE, "cpu_shortage", false},
	{ZN_SCENARIO_STORAGE, "storage", false},
	{ZN_SCENARIO_HOST_CODE, "host_code", false},
	{ZN_SCENARIO_OWN_LOADER, "input_in_process", false},
	{ZN_SCENARIO_STOPPED, "stopped", false},
	{ZN_SCENARIO_HOST_COPIES, "host_copies", false},
	{ZN_SCENARIO_CPU_LIMIT, "cpu_throttled", false},
	{ZN_SCENARIO_FEW_WORKERS, "input_workers", false},
	{ZN_SCENARIO_SLOW_FILES, "input_files", false},
	{ZN_SCENARIO_SLOW_TRANSFER, "input_transfer", false},
	{ZN_SCENARIO_LAUNCH_BOUND, "launch_bound", false},
	{ZN_SCENARIO_CHECKPOINTS, "checkpoint", false},
	{ZN_SCENARIO_STARTUP, "startup", false},
	{ZN_SCENARIO_NODE_HANG, "idle", false},
	{ZN_SCENARIO_NODE_HANG_PEER, "all_wait", false},
	{ZN_SCENARIO_NODE_SLOW, NULL, false},
	{ZN_SCENARIO_NODE_SLOW_PEER, NULL, false},
	{ZN_SCENARIO_SERVER, "slow_first_event", true},
};

/* Whether a job is said to be in this state. */
static bool is_in_state(const char *text, const char *state)
{
	char key[32];

	snprintf(key, sizeof(key), "\"state\":\"%s\"", state);
	return strstr(text, key) != NULL;
}

static const char *state_of_rule(const char *rule)
{
	static const char *const critical[] = {"gpu_oom_warning", "oom_kill", "cuda_context_lost",
		"gpu_hardware_errors", "gpu_lost", "gpu_driver_not_answering"};

	for (size_t i = 0; i < ZN_LEN(critical); i++)
		if (!strcmp(rule, critical[i]))
			return "critical";
	return "warned";
}

/* The first cause that is said of any job; "": none. An alert alone is a state of its own. */
static void first_cause(char to[64])
{
	static char text[1 << 18];
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
	const char *at;

	zn_why_json(&o, &view, NULL);
	text[o.len] = 0;
	at = strstr(text, "{\"cause\":\"");
	snprintf(to, 64, "%.*s", at ? (int)strcspn(at + 10, "\"") : 0, at ? at + 10 : "");
	if (row_of(to) < ZN_LEN(rows))
		CHECK(is_in_state(text, state_of_rule(to)));
}

static void check_why(enum zn_scenario scenario, uint64_t half)
{
	char first[64];
	size_t i = 0;

	while (i < ZN_LEN(whys) && whys[i].scenario != scenario)
		i++;
	if (i == ZN_LEN(whys)) {
		T_FAIL("nothing is known of why in %s", names[scenario]);
		return;
	}
	if (second != (whys[i].middle ? 3 * half / 2 : 2 * half - 1))
		return;
	first_cause(first);
	CHECK_STR(first, whys[i].first ? whys[i].first : "");
}

static void scenarios_fire_and_resolve(void)
{
	for (enum zn_scenario scenario = ZN_SCENARIO_HEALTHY + 1; scenario < ZN_SCENARIO_COUNT; scenario++) {
		uint64_t half;

		t_begin(names[scenario]);
		start(scenario);
		half = sim.cycle_ms / 2000;
		while (second < CYCLES * 2 * half && (second < 2 * half || !is_over(scenario))) {
			one_second();
			check_why(scenario, half);
		}
		for (size_t i = 0; i < ZN_LEN(rows); i++)
			check_row(i, scenario, half);
		stop();
	}
}

T(nothing_fires_on_a_healthy_node)
{
	start(ZN_SCENARIO_HEALTHY);
	while (second < HEALTHY_S)
		one_second();
	for (size_t i = 0; i < ZN_LEN(rows); i++)
		check_row(i, ZN_SCENARIO_HEALTHY, 0);
	stop();
}

/* Checkpoints of 25 s and evaluations of one rank, compiles of 90 s, jobs that end and begin: none is a hang, or stands
 * still; and what is held after the first quarter is what is held in the end. */
T(a_day_without_a_fault)
{
	uint64_t longest_ns = 0, early_bytes;

	start(ZN_SCENARIO_PAUSES);
	while (second < DAY_S / 4)
		one_second();
	early_bytes = resident_bytes();
	CHECK(early_bytes > 0);
	while (second < DAY_S)
		one_second();
	CHECK(resident_bytes() < early_bytes + GROWTH_MAX);
	for (size_t i = 0; i < ZN_LEN(rows); i++)
		if (strcmp(rows[i].alert, "nccl_straggler"))
			CHECK_EQ(seen[i].fired, 0);
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++)
		longest_ns = ranks.longest_ns[slot] > longest_ns ? ranks.longest_ns[slot] : longest_ns;
	CHECK(longest_ns >= 60 * ZN_NS_PER_S); /* they were there */
	stop();
}

T(every_built_in_rule_has_a_scenario)
{
	start(ZN_SCENARIO_HEALTHY);
	for (uint32_t i = 0; i < alerts.rules->rule_count; i++)
		if (row_of(alerts.rules->rule[i].name) == ZN_LEN(rows))
			T_FAIL("%s is in no scenario", alerts.rules->rule[i].name);
	CHECK_EQ(alerts.rules->rule_count, ZN_LEN(rows));
	stop();
}

T(every_cause_is_first_in_a_scenario)
{
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++) {
		bool found = false;

		for (size_t i = 0; i < ZN_LEN(whys); i++)
			found |= whys[i].first && !strcmp(whys[i].first, zn_cause_label(cause));
		if (!found)
			T_FAIL("%s is first in no scenario", zn_cause_label(cause));
		CHECK(found);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "day")) {
		RUN(a_day_without_a_fault);
		return t_end();
	}
	RUN(every_built_in_rule_has_a_scenario);
	RUN(every_cause_is_first_in_a_scenario);
	RUN(nothing_fires_on_a_healthy_node);
	scenarios_fire_and_resolve();
	return t_end();
}
