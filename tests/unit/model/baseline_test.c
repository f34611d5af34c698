/* SPDX-License-Identifier: GPL-2.0 */
/*
 * baseline_test.c: false alarms and delays of scores, on series with fixed seeds and on a recording (tests/baseline),
 * held to what docs/ALERTS.md states; then which values scores are of, over an arena of plain memory; and what a step
 * costs. `baseline_test table` prints what was measured instead.
 */
#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "zernel.h"
#include "t.h"

#define DAY   17280 /* steps */
#define DAYS  20
#define LIMIT (ZN_ANOMALY_LIMIT * 1000)
#define CLEAR (LIMIT / 2)
#define FOR   6 /* steps: 30 s */

static bool table;

/* ---- Random numbers. ---- */

static uint64_t state;

static double uniform(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

/* ---- The recording: p50 and p99 of two processes that launch on a busy machine, in us; see its first lines. ---- */

#define RECORD "tests/baseline/launches.txt"
#define RUNS   4
static double recorded[2][RUNS][256]; /* p50, p99; by run and process */
static uint32_t recorded_count[RUNS];

static void recording_read(void)
{
	FILE *f = fopen(RECORD, "r");
	char line[128];
	uint32_t run;
	double p50, p99;

	if (!f) {
		perror(RECORD);
		exit(1);
	}
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%u %lf %lf", &run, &p50, &p99) == 3 && run < RUNS && recorded_count[run] < 256) {
			recorded[0][run][recorded_count[run]] = p50;
			recorded[1][run][recorded_count[run]++] = p99;
		}
	fclose(f);
}

/* ---- Series. ---- */

struct series {
	uint32_t step;
	double last;                 /* of a noise that remembers */
	double factor;               /* 1, or what a row multiplies the values by from some step on */
	uint32_t first_run, run, at; /* in the recording */
	uint32_t left;               /* steps of a burst */
};
typedef double series_fn(struct series *s, double p, double q);

/* Logarithms with a standard deviation of p; each takes the share q of the one before. 64 us as recorded. */
static double noise(struct series *s, double p, double q)
{
	s->last = q * s->last + sqrt(1 - q * q) * normal();
	return 64 * s->factor * exp(p * s->last);
}

/* Student's t with 3 degrees of freedom. */
static double heavy(struct series *s, double p, double q)
{
	double a = normal(), b = normal(), c = normal();

	(void)q;
	return 64 * s->factor * exp(p * normal() / sqrt((a * a + b * b + c * c) / 3));
}

/* Pieces of 20 to 60 values of the recording, each day of another process; p: 0 p50, 1 p99. */
static double replay(struct series *s, double p, double q)
{
	(void)q;
	if (!s->left) {
		s->run = (s->first_run + s->step / DAY) % RUNS;
		s->left = 20 + (uint32_t)(uniform() * 40);
		s->at = (uint32_t)(uniform() * (recorded_count[s->run] - s->left));
	}
	s->left--;
	return s->factor * recorded[(int)p][s->run][s->at++];
}

static double drift(struct series *s, double p, double q)
{
	return noise(s, p, 0) * pow(q, sin(2 * M_PI * s->step / DAY));
}

/* A share q of the values is 20 times as large. */
static double spikes(struct series *s, double p, double q)
{
	return noise(s, p, 0) * (uniform() < q ? 20 : 1);
}

/* Of 1 to 4 steps, 5 times as large, q steps apart on average. */
static double bursts(struct series *s, double p, double q)
{
	if (!s->left && uniform() < 1 / q)
		s->left = 1 + (uint32_t)(uniform() * 4);
	return noise(s, p, 0) * (s->left && s->left-- ? 5 : 1);
}

/* For p steps of each q values are 10 times as large. */
static double square(struct series *s, double p, double q)
{
	return noise(s, 0.1, 0) * (s->step % (uint32_t)q < (uint32_t)p ? 10 : 1);
}

/* For p steps of each q nothing is launched, so that there is no latency, and the rate is 0. */
static double square_down(struct series *s, double p, double q)
{
	return s->step % (uint32_t)q < (uint32_t)p ? 0 : noise(s, 0.02, 0);
}

static double missing(struct series *s, double p, double q)
{
	double v = noise(s, p, 0);

	return uniform() < q ? NAN : v;
}

/* ---- The rule: pending above the limit until it is down to half of it, firing 30 s later if it is above still. ----
 *  */

struct rule {
	int sign;
	uint32_t since; /* step, 0: inactive */
	bool firing;
	uint32_t fired;
};

static void rule_step(struct rule *r, int32_t score, uint32_t step)
{
	if (score == ZN_SCORE_NONE || score * r->sign <= CLEAR) {
		r->since = 0;
		r->firing = false;
		return;
	}
	if (!r->since && score * r->sign > LIMIT)
		r->since = step;
	if (r->since && !r->firing && step - r->since >= FOR && score * r->sign > LIMIT) {
		r->firing = true;
		r->fired++;
	}
}

static const struct zn_baseline_scale us = {1, 60};

/* ---- False alarms. ---- */

struct alarms {
	double over, above, below; /* a day: steps beyond the limit, alarms of each side */
};

static struct alarms alarms_of(series_fn *make, double p, double q)
{
	static struct zn_baseline b;
	struct series s = {.factor = 1};
	struct rule above = {.sign = 1}, below = {.sign = -1};
	uint64_t over = 0;

	b = (struct zn_baseline){0};
	for (s.step = 1; s.step <= DAY * DAYS; s.step++) {
		int32_t score = zn_baseline_take(&b, make(&s, p, q), &us, s.step);

		over += score != ZN_SCORE_NONE && abs(score) > LIMIT;
		rule_step(&above, score, s.step);
		rule_step(&below, score, s.step);
	}
	return (struct alarms){(double)over / DAYS, (double)above.fired / DAYS, (double)below.fired / DAYS};
}

static const struct {
	const char *name;
	series_fn *make;
	double p, q;
	double over, alarms; /* at most, a day */
} quiet[] = {
	{"white noise, 10 %", noise, 0.1, 0, 1, 0},
	{"noise as of recorded p99: 35 %, a third of it stays for the next value", noise, 0.35, 0.36, 1, 0},
	{"noise as of recorded p50: 55 %, 60 % of it stays", noise, 0.55, 0.6, 1, 0},
	{"tails of Student's t with 3 degrees of freedom", heavy, 0.1, 0, 100, 0},
	{"the recording, p50", replay, 0, 0, 100, 1},
	{"the recording, p99", replay, 1, 0, 20, 0},
	{"drift by a factor of 2 up and down within a day", drift, 0.1, 2, 1, 0},
	{"single spikes, 20 times as high, 1 % of steps", spikes, 0.1, 0.01, 1, 0},
	{"bursts of 5 to 20 s, 5 times as high, each 10 minutes", bursts, 0.1, 120, 2, 0},
	{"30 s of each 5 minutes 10 times as high", square, 6, 60, 2, 0},
	{"1 minute of each 30 minutes 10 times as high", square, 12, 360, 3, 0.1},
	{"3 minutes of each hour 10 times as high", square, 36, 720, 10, 0.1},
	{"a rate that is 0 for 1 minute of each 30 minutes", square_down, 12, 360, 3, 0.1},
	{"white noise, 30 % of steps without a value", missing, 0.1, 0.3, 1, 0},
};

/* The limits are lines of docs/ALERTS.md. */
static void check_documented(const char *line)
{
	static char text[1 << 16];
	FILE *f = *text ? NULL : fopen("docs/ALERTS.md", "r");
	size_t len = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	if (f)
		fclose(f);
	if (len)
		text[len] = '\0';
	CHECK(strstr(text, line));
	if (!strstr(text, line))
		fputs(line, stderr);
}

static void false_alarms(void)
{
	for (uint32_t i = 0; i < ZN_LEN(quiet); i++) {
		struct alarms a;
		char line[160];

		t_begin(quiet[i].name);
		state = 88172645463325252ULL + i;
		a = alarms_of(quiet[i].make, quiet[i].p, quiet[i].q);
		if (table)
			printf("| %s | %.2f | %.2f | %.2f |\n", quiet[i].name, a.over, a.above, a.below);
		CHECK(a.over <= quiet[i].over);
		CHECK(a.above <= quiet[i].alarms && a.below <= quiet[i].alarms);
		snprintf(line, sizeof(line), "| %s | %g | %g |\n", quiet[i].name, quiet[i].over, quiet[i].alarms);
		check_documented(line);
	}
}

/* ---- Delays. ---- */

#define TRIALS 101
#define BEFORE (2 * ZN_BASELINE_POINTS)
#define AFTER  (2 * ZN_BASELINE_POINTS)
struct delay {
	uint32_t found; /* trials in which the rule fired */
	uint32_t first, fires,
		told; /* medians of them: steps to the first score above the limit, to the alarm, and of it */
};

/* One trial: a lasting step by a factor, up or down. False: no alarm. */
static bool trial(series_fn *make, const double pq[2], double factor, uint32_t run, uint32_t to[3])
{
	static struct zn_baseline b;
	struct series s = {.factor = 1, .first_run = run};
	struct rule rule = {.sign = factor > 1 ? 1 : -1};
	uint32_t first = 0, fires = 0, told = 0;

	b = (struct zn_baseline){0};
	for (s.step = 1; s.step <= BEFORE + AFTER; s.step++) {
		int32_t score;

		s.factor = s.step > BEFORE ? factor : 1;
		score = zn_baseline_take(&b, make(&s, pq[0], pq[1]), &us, s.step);
		rule_step(&rule, s.step > BEFORE ? score : 0, s.step);
		if (s.step > BEFORE && !first && score * rule.sign > LIMIT)
			first = s.step - BEFORE;
		if (rule.firing && !fires)
			fires = s.step - BEFORE;
		told += rule.firing;
	}
	to[0] = first;
	to[1] = fires;
	to[2] = told;
	return fires;
}

static int by_size(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

static struct delay delay_of(series_fn *make, const double pq[2], double factor)
{
	uint32_t all[3][TRIALS], to[3], n = 0;

	for (uint32_t i = 0; i < TRIALS; i++) {
		if (!trial(make, pq, factor, i % RUNS, to))
			continue;
		for (uint32_t k = 0; k < 3; k++)
			all[k][n] = to[k];
		n++;
	}
	for (uint32_t k = 0; k < 3; k++)
		qsort(all[k], n, sizeof(**all), by_size);
	return n ? (struct delay){n, all[0][n / 2], all[1][n / 2], all[2][n / 2]} : (struct delay){0};
}

static const struct {
	const char *name;
	series_fn *make;
	double pq[2], factor;
	uint32_t found, fires, told; /* at least per cent, at most steps, at least steps */
} steps[] = {
	{"white noise, 2 %: times 1.5", noise, {0.02, 0}, 1.5, 100, 7, 50},
	{"white noise, 2 %: divided by 1.5", noise, {0.02, 0}, 1 / 1.5, 100, 7, 50},
	{"white noise, 2 %: down to 0", noise, {0.02, 0}, 0, 100, 7, 50},
	{"white noise, 10 %: times 2", noise, {0.1, 0}, 2, 95, 7, 30},
	{"white noise, 10 %: divided by 2", noise, {0.1, 0}, 0.5, 95, 7, 30},
	{"white noise, 10 %, 30 % of steps without a value: times 2", missing, {0.1, 0.3}, 2, 95, 8, 30},
	{"noise as of recorded p99: times 4", noise, {0.35, 0.36}, 4, 10, 12, 4},
	{"noise as of recorded p99: times 10", noise, {0.35, 0.36}, 10, 95, 7, 24},
	{"the recording, p99: times 4", replay, {1}, 4, 20, 12, 4},
	{"the recording, p99: times 10", replay, {1}, 10, 95, 7, 24},
	{"the recording, p50: times 10", replay, {0}, 10, 40, 12, 12},
};

static void delays(void)
{
	for (uint32_t i = 0; i < ZN_LEN(steps); i++) {
		struct delay d;
		char line[160];

		t_begin(steps[i].name);
		state = 1181783497276652981ULL + i;
		d = delay_of(steps[i].make, steps[i].pq, steps[i].factor);
		if (table)
			printf("| %s | %u %% | %u s | %u s | %u s |\n", steps[i].name, d.found * 100 / TRIALS,
				d.first * 5, d.fires * 5, d.told * 5);
		CHECK(d.found * 100 >= steps[i].found * TRIALS);
		CHECK(d.fires <= steps[i].fires);
		CHECK(d.told >= steps[i].told);
		snprintf(line, sizeof(line), "| %s | %u %% | %u s | %u s |\n", steps[i].name, steps[i].found,
			steps[i].fires * 5, steps[i].told * 5);
		check_documented(line);
	}
}

/* ---- One baseline. ---- */

static struct zn_baseline b;
static uint32_t step;

static int32_t take(double value)
{
	return zn_baseline_take(&b, value, &us, ++step);
}

/* A triangle about 64 us, 2 % wide: its median distance is half of that, so its spread is the floor. */
static void settle(uint32_t count)
{
	b = (struct zn_baseline){0};
	for (step = 0; step < count;)
		take(64 * (1 + 0.01 * (step % 3)));
}

T(no_score_before_enough_values)
{
	settle(ZN_BASELINE_WARM - 1);
	CHECK_EQ(take(NAN), ZN_SCORE_NONE);
	CHECK_EQ(take(INFINITY), ZN_SCORE_NONE);
	CHECK_EQ(take(64), ZN_SCORE_NONE);
	CHECK_EQ(take(64.64), 0);
}

/* A doubling is a distance of 0.693 in logarithms. */
T(scores_are_what_they_say)
{
	settle(90);
	CHECK(labs(take(64.64 * 2) - 693 * 1000 / 60) < 40);
	settle(90);
	CHECK(labs(take(64.64 / 2) + 693 * 1000 / 60) < 40);
	settle(90);
	CHECK_EQ(take(1e300), ZN_SCORE_MAX);
	CHECK_EQ(take(-1e300), -ZN_SCORE_MAX);
}

/* However far it is off. */
T(one_outlier_moves_nothing)
{
	int32_t usual, after;

	settle(90);
	usual = take(100);
	settle(90);
	take(1e9);
	after = take(100);
	CHECK(labs(after - usual) < 200);
}

T(a_pause_freezes)
{
	int32_t last;

	settle(90);
	last = take(200);
	CHECK_EQ(take(NAN), last);
	CHECK_EQ(take(NAN), last);
	for (int i = 0; i < 10000; i++)
		CHECK_EQ(take(NAN), ZN_SCORE_NONE);
	CHECK(labs(take(200) - last) < 200);
	CHECK_EQ(take(64.64), 0);
}

static int32_t plateau(double value, uint32_t count)
{
	int32_t got = 0;

	for (uint32_t i = 0; i < count; i++)
		got = take(value);
	return got;
}

static void usual(uint32_t count)
{
	while (count--)
		take(64 * (1 + 0.01 * (step % 3)));
}

/* What came twice is a habit, unless it goes farther, lasts longer, goes the other way, or was more than two hours
 * ago. */
static void twice(void)
{
	settle(ZN_BASELINE_POINTS);
	for (int i = 0; i < 2; i++) {
		CHECK(plateau(640, 6) > LIMIT);
		usual(60);
	}
}

T(habits)
{
	twice();
	CHECK(plateau(640, 6) <= LIMIT);
	twice();
	CHECK(plateau(1280, 6) > LIMIT);
	twice();
	CHECK(plateau(640, 11) > LIMIT);
	twice();
	CHECK(plateau(6.4, 6) < -LIMIT);
	twice();
	step += 1440;
	CHECK(plateau(640, 6) > LIMIT);
}

T(a_checkpoint_that_hangs_is_told)
{
	static struct zn_baseline_scale rate = {1, 60};
	struct rule rule = {.sign = -1};

	b = (struct zn_baseline){0};
	for (step = 1; step < 2 * DAY; step++)
		zn_baseline_take(&b, step % 360 < 12 ? 0 : 1000 + step % 7, &rate, step);
	for (uint32_t i = 1; i < 30 && !rule.firing; i++, step++)
		rule_step(&rule, zn_baseline_take(&b, 0, &rate, step), step);
	CHECK(rule.firing);
	CHECK(step - rule.since < 12);
}

/* ---- Signals, over an arena of plain memory. ---- */

#define STEP_NS ((uint64_t)ZN_HISTORY_STEP_MS * ZN_NS_PER_MS)
static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_history *history;
static struct zn_baselines *baselines;
static struct zn_state view;
static uint64_t now_ns;

static void start(void)
{
	zn_memory_close(&memory);
	zn_history_close(history);
	zn_baselines_close(baselines);
	if (zn_memory_open(&memory) || zn_history_open(&history) || zn_baselines_open(&baselines))
		abort();
	zn_agg_init(&agg, &memory.arena);
	view = (struct zn_state){.agg = &agg, .history = history, .baselines = baselines};
	now_ns = 1000 * STEP_NS;
}

static void tick(uint64_t ns)
{
	now_ns += ns;
	zn_agg_tick(&agg, now_ns);
	zn_history_tick(history, &agg, now_ns);
	zn_baselines_tick(baselines, view.agg, view.history, now_ns);
}

static void records(struct zn_proc *p, enum zn_operation d, uint64_t ns, int count)
{
	while (count--)
		zn_memory_record(&memory, p, d, ns, 0);
}

/* One step of a process, each figure times `by`. */
static void work(struct zn_proc *p, uint32_t by)
{
	p->count[ZN_C_LAUNCH_KERNEL] += 1000 * by;
	records(p, ZN_H_LAUNCH, 10000 * by, (int)(100 * by));
	records(p, ZN_H_SYNC_STREAM, 500000, 99);
	records(p, ZN_H_SYNC_CTX, 30000000 * by, 20);
	records(p, ZN_H_NCCL_ALL_REDUCE, 30000000 * by, 20);
	records(p, ZN_H_RUNQUEUE, 10000000 * by, 20);
	records(p, ZN_H_DATALOAD, 20000000 * by, 20);
	p->gpu[0].used_bytes += (uint64_t)(by - 1) << 26;
	p->gpu[0].peak_bytes = 1ULL << 34;
	p->count[ZN_C_STALL_CPU] += STEP_NS;
	p->count[ZN_C_STALL_DATA] += STEP_NS / 8 * (by - 1);
	p->count[ZN_C_STALL_DIST] += STEP_NS / 8 * (by - 1);
	p->count[ZN_C_SYSCALLS] += 5000 * by;
	p->count[ZN_C_SWITCH_VOLUNTARY] += 3000 * by;
	p->count[ZN_C_SWITCH_INVOLUNTARY] += 2000 * by;
	p->count[ZN_C_TCP_SENT] += 1000;
	p->count[ZN_C_TCP_RETRANSMITS] += 100 * (by - 1);
}

static int32_t score_of(const struct zn_proc *p, uint32_t signal)
{
	return zn_baselines_score(baselines, (uint32_t)(p - memory.arena.procs), p->id, signal);
}

static struct zn_proc *claim(uint32_t pid)
{
	struct zn_proc *p = zn_memory_claim(&memory, pid, "python3");

	if (!p)
		abort();
	return p;
}

static void warm(struct zn_proc *p, uint32_t values)
{
	for (uint32_t i = 0; i <= values; i++) { /* the first one may be of a part of a step */
		if (p)
			work(p, 1);
		tick(STEP_NS);
	}
}

/* Each begins after 3 minutes, and sees all that it is of rise to eight times. */
T(each_signal_sees_a_change)
{
	struct zn_proc *p;

	start();
	tick(STEP_NS);
	p = claim(4242);
	warm(p, ZN_BASELINE_WARM);
	for (uint32_t i = 0; i < ZN_BASELINES; i++) {
		if (score_of(p, i) != ZN_SCORE_NONE)
			T_FAIL("%s comes too early", zn_baseline_name(i));
	}
	warm(p, 1);
	for (uint32_t i = 0; i < ZN_BASELINES; i++) {
		CHECK_EQ(score_of(p, i), 0);
		if (score_of(p, i))
			T_FAIL("%s is not what was usual", zn_baseline_name(i));
	}
	work(p, 8);
	tick(STEP_NS);
	for (uint32_t i = 0; i < ZN_BASELINES; i++)
		if (score_of(p, i) < LIMIT)
			T_FAIL("%s sees nothing: %d", zn_baseline_name(i), score_of(p, i));
}

T(a_step_of_the_history_is_one_value)
{
	struct zn_proc *p;

	start();
	tick(STEP_NS);
	p = claim(4242);
	for (uint32_t i = 0; i < 5 * ZN_BASELINE_WARM + 4; i++) {
		records(p, ZN_H_LAUNCH, 10000, 10);
		p->count[ZN_C_LAUNCH_KERNEL] += 10;
		tick(STEP_NS / 5);
		CHECK_EQ(score_of(p, 0), ZN_SCORE_NONE);
	}
	for (int i = 0; i < 10; i++)
		tick(STEP_NS / 5);
	CHECK(score_of(p, 0) < 0);
}

/* What a process does not do, or is not measured, has no score; a rate of launches that is 0 is a value. */
T(nothing_from_nothing)
{
	struct zn_proc *p;

	start();
	tick(STEP_NS);
	p = claim(4242);
	for (uint32_t i = 0; i < 3 * ZN_BASELINE_WARM; i++)
		tick(STEP_NS);
	CHECK_EQ(score_of(p, 0), 0);
	for (uint32_t i = 1; i < ZN_BASELINES; i++)
		CHECK_EQ(score_of(p, i), ZN_SCORE_NONE);
	CHECK_EQ(zn_baselines_score(NULL, 1, 1, 0), ZN_SCORE_NONE);
	CHECK_EQ(zn_baselines_score(baselines, ZN_PROCS_MAX, 1, 0), ZN_SCORE_NONE);
}

/* Who gets the row of a process that has gone begins anew. */
T(a_row_that_changes_hands)
{
	struct zn_proc *p;
	uint32_t row, id;

	start();
	tick(STEP_NS);
	p = claim(4242);
	row = (uint32_t)(p - memory.arena.procs);
	id = p->id;
	warm(p, ZN_BASELINE_WARM + 1);
	CHECK_EQ(score_of(p, 0), 0);
	zn_memory_exit(&memory, p);
	tick(STEP_NS);
	tick(STEP_NS);
	p = claim(4243);
	CHECK_EQ(p - memory.arena.procs, row);
	CHECK_EQ(score_of(p, 0), ZN_SCORE_NONE);
	warm(p, ZN_BASELINE_WARM);
	CHECK_EQ(zn_baselines_score(baselines, row, id, 0), ZN_SCORE_NONE);
	CHECK_EQ(score_of(p, 0), ZN_SCORE_NONE);
	warm(p, 1);
	CHECK_EQ(score_of(p, 0), 0);
}

static const char *json(const struct zn_proc *p)
{
	static char text[1024];
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
	struct zn_json j;

	zn_json_begin(&j, &o);
	zn_json_open(&j, '{');
	zn_baselines_json(&j, &view, (uint32_t)(p - memory.arena.procs), p->id);
	zn_json_close(&j, '}');
	text[o.len] = '\0';
	return text;
}

T(the_snapshot_has_those_beyond_the_limit)
{
	struct zn_proc *p;

	start();
	tick(STEP_NS);
	p = claim(4242);
	warm(p, ZN_BASELINE_WARM);
	CHECK_STR(json(p), "{\"anomalies\":null}");
	warm(p, 1);
	CHECK_STR(json(p), "{\"anomalies\":{}}");
	work(p, 1);
	p->count[ZN_C_SYSCALLS] += 1000000;
	tick(STEP_NS);
	CHECK_STR(json(p), "{\"anomalies\":{\"syscall_rate\":88.4}}");
}

int main(int argc, char **argv)
{
	table = argc == 2 && !strcmp(argv[1], "table");
	(void)argv;
	recording_read();
	false_alarms();
	delays();
	RUN(no_score_before_enough_values);
	RUN(scores_are_what_they_say);
	RUN(one_outlier_moves_nothing);
	RUN(a_pause_freezes);
	RUN(habits);
	RUN(a_checkpoint_that_hangs_is_told);
	RUN(each_signal_sees_a_change);
	RUN(a_step_of_the_history_is_one_value);
	RUN(nothing_from_nothing);
	RUN(a_row_that_changes_hands);
	RUN(the_snapshot_has_those_beyond_the_limit);
	return t_end();
}
