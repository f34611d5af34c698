/* SPDX-License-Identifier: GPL-2.0 */
/*
 * history_test.c: points over plain memory, with a clock of the test's own: rates, quantiles, rings that wrap, rows
 * that change hands, clocks that jump; and the JSON form, at every capacity.
 */
#include <math.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define S  ZN_NS_PER_S
#define US 1000

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_history *history;
static struct zn_state view;
static uint64_t now_ns;
static char text[8 << 20];

/* The first reading, which begins the first step. */
static void start(void)
{
	zn_memory_close(&memory);
	zn_history_close(history);
	if (zn_memory_open(&memory) || zn_history_open(&history))
		abort();
	zn_agg_init(&agg, &memory.arena);
	view = (struct zn_state){.agg = &agg, .history = history, .node = "node1"};
	now_ns = 1000 * S;
	zn_history_tick(history, &agg, now_ns);
}

static struct zn_proc *claim(uint32_t pid)
{
	struct zn_proc *p = zn_memory_claim(&memory, pid, "python3");

	if (!p)
		abort();
	return p;
}

static void launches(struct zn_proc *p, int count, uint64_t ns)
{
	p->count[ZN_C_LAUNCH_KERNEL] += (uint64_t)count;
	while (count--)
		zn_memory_record(&memory, p, ZN_H_LAUNCH, ns, 0);
}

static void pass(uint64_t ns)
{
	now_ns += ns;
	zn_agg_refresh(&agg);
	zn_history_tick(history, &agg, now_ns);
}

static const struct zn_point *last(const struct zn_proc *p)
{
	return zn_history_last(history, (uint32_t)(p - memory.arena.procs), p->id);
}

static struct zn_str json(void)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_history_json(&o, &view);
	CHECK(!o.full);
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	return (struct zn_str){text, o.len};
}

/* Element i of an array, or of one that lies under a key of element i; len 0: there is none. */
static struct zn_str element(struct zn_str array, int i)
{
	struct zn_str key, value = {0};
	size_t at = 0;

	while (i-- >= 0)
		if (!zn_json_next(array, &at, &key, &value))
			return (struct zn_str){0};
	return value;
}

static struct zn_str series(int process, const char *key)
{
	return zn_json_member(element(zn_json_member(json(), "processes"), process), key);
}

static int count(struct zn_str array)
{
	struct zn_str key, value;
	size_t at = 0;
	int n = 0;

	while (zn_json_next(array, &at, &key, &value))
		n++;
	return n;
}

#define CHECK_JSON(got, want)                                                                                          \
	do {                                                                                                           \
		struct zn_str json_ = (got);                                                                           \
		CHECK_MEM(json_.at, json_.len, want, strlen(want));                                                    \
	} while (0)

static void check_near(double got, double want)
{
	CHECK(fabs(got - want) <= want * 0.032);
	if (fabs(got - want) > want * 0.032)
		fprintf(stderr, "%g is not near %g\n", got, want);
}

T(nothing_yet)
{
	start();
	CHECK_JSON(json(),
		"{\"node\":\"node1\",\"source\":\"simulated\",\"step_ms\":5000,\"end_ms\":null,\"gpus\":[],"
		"\"processes\":[],\"servers\":[]}");
	CHECK_EQ(zn_history_steps(history), 0);
	view.history = NULL;
	CHECK_JSON(zn_json_member(json(), "processes"), "[]");
	CHECK_JSON(zn_json_member(json(), "end_ms"), "null");
}

T(rate_and_quantiles_of_each_step)
{
	struct zn_proc *p;

	start();
	p = claim(7);
	CHECK(!last(p));
	for (int step = 1; step <= 4; step++) {
		launches(p, 1000 * step, 100 * US * (uint64_t)step);
		launches(p, 20 * step, 9000 * US);
		pass(5 * S);
		CHECK_EQ(zn_history_steps(history), step);
		CHECK(last(p) && last(p)->rate == (float)(204.0 * step));
		check_near(last(p)->p50_us, 100.0 * step);
		check_near(last(p)->p99_us, 9000);
	}
	launches(p, 1, 3 * US);
	pass(5 * S);
	CHECK(last(p)->rate == 0.2f);
	check_near(last(p)->p50_us, 3);
	check_near(last(p)->p99_us, 3);
	CHECK_JSON(series(0, "rate"), "[204,408,612,816,0.2]");
	CHECK_JSON(series(0, "pid"), "7");
	CHECK_JSON(series(0, "comm"), "\"python3\"");
}

/* One duration a step, over the whole range of the histogram. */
T(quantiles_are_near)
{
	struct zn_proc *p;

	start();
	p = claim(7);
	for (uint64_t ns = 128; ns < 137 * S; ns += ns / 7 + 1) {
		launches(p, 3, ns);
		pass(5 * S);
		check_near(last(p)->p50_us, (double)ns / US);
		check_near(last(p)->p99_us, (double)ns / US);
	}
}

T(no_launch_no_latency)
{
	struct zn_proc *p;

	start();
	p = claim(7);
	pass(5 * S);
	CHECK(last(p) && last(p)->rate == 0 && last(p)->p50_us == 0);
	launches(p, 5, 142 * US);
	pass(5 * S);
	pass(5 * S);
	CHECK_JSON(series(0, "rate"), "[0,1,0]");
	CHECK_JSON(element(series(0, "p50_us"), 0), "null");
	CHECK_JSON(element(series(0, "p50_us"), 2), "null");
	CHECK_JSON(element(series(0, "p99_us"), 0), "null");
	CHECK(zn_json_number(element(series(0, "p99_us"), 1)) > 100);
}

T(a_step_ends_after_5_s)
{
	struct zn_proc *p;

	start();
	p = claim(7);
	launches(p, 500, US);
	for (int i = 0; i < 4; i++) {
		pass(S);
		CHECK_EQ(zn_history_steps(history), 0);
		CHECK(!last(p));
	}
	pass(S - 40 * ZN_NS_PER_MS); /* a tick that comes a little early after a late one */
	CHECK_EQ(zn_history_steps(history), 1);
	CHECK(fabs(last(p)->rate - 500 / 4.96) < 1e-3);
	pass(4 * S);
	CHECK_EQ(zn_history_steps(history), 1);
	pass(S + 40 * ZN_NS_PER_MS);
	CHECK_EQ(zn_history_steps(history), 2);
}

T(launches_before_the_first_reading)
{
	struct zn_proc *p;

	start();
	zn_history_close(history);
	if (zn_history_open(&history))
		abort();
	p = claim(7);
	launches(p, 1000, US);
	pass(S);
	launches(p, 50, US);
	pass(5 * S);
	CHECK(last(p)->rate == 10);
}

/* As bpf/cuda_trace.bpf.c does while launches are sampled. */
static void untimed(struct zn_proc *p, enum zn_counter kind, uint64_t count)
{
	p->count[kind] += count;
	p->count[ZN_C_LAUNCH_UNTIMED] += count;
}

/* Counted at their entry and not timed: the rate has them, the quantiles do not. What is recorded into a graph is no
 * launch, sampled or not. */
T(launches_that_were_not_timed)
{
	struct zn_proc *p;

	start();
	p = claim(7);
	launches(p, 10, 100 * US);
	untimed(p, ZN_C_LAUNCH_KERNEL, 980);
	untimed(p, ZN_C_LAUNCH_GRAPH, 10);
	untimed(p, ZN_C_LAUNCH_CAPTURED, 500);
	pass(5 * S);
	CHECK(last(p)->rate == 200);
	check_near(last(p)->p50_us, 100);
	untimed(p, ZN_C_LAUNCH_COOPERATIVE, 50);
	pass(5 * S);
	CHECK(last(p)->rate == 10);
	p->count[ZN_C_LAUNCH_CAPTURED] += 500;
	launches(p, 50, US);
	pass(5 * S);
	CHECK(last(p)->rate == 10);
}

T(a_process_that_comes_within_a_step)
{
	struct zn_proc *p, *q;

	start();
	p = claim(7);
	pass(5 * S);
	launches(p, 10, US);
	pass(3 * S);
	q = claim(8);
	launches(q, 20, US);
	CHECK(!last(q));
	pass(2 * S);
	CHECK(last(q)->rate == 4); /* over the whole step: the points add up to what was launched */
	CHECK_JSON(series(0, "rate"), "[0,2]");
	CHECK_JSON(series(1, "rate"), "[4]");
}

T(rings_wrap)
{
	struct zn_proc *p;

	start();
	p = claim(7);
	for (int step = 1; step <= ZN_HISTORY_POINTS + 70; step++) {
		launches(p, 5 * step, US);
		pass(5 * S);
		CHECK_EQ(last(p)->rate, step);
	}
	CHECK_EQ(count(series(0, "rate")), ZN_HISTORY_POINTS);
	CHECK_EQ(count(series(0, "p50_us")), ZN_HISTORY_POINTS);
	CHECK_JSON(element(series(0, "rate"), 0), "71");
	CHECK_JSON(element(series(0, "rate"), 1), "72");
	CHECK_JSON(element(series(0, "rate"), ZN_HISTORY_POINTS - 1), "250");
}

T(a_row_that_changes_hands)
{
	struct zn_proc *p;
	uint32_t id;

	start();
	p = claim(7);
	launches(p, 100, US);
	pass(5 * S);
	pass(5 * S);
	id = p->id;
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg);
	CHECK(claim(8) == p);
	CHECK(p->id != id && !last(p));
	CHECK_EQ(count(zn_json_member(json(), "processes")), 0);
	launches(p, 25, 700 * US);
	pass(5 * S);
	CHECK(!zn_history_last(history, (uint32_t)(p - memory.arena.procs), id));
	CHECK(last(p)->rate == 5);
	check_near(last(p)->p50_us, 700);
	CHECK_JSON(series(0, "rate"), "[5]");
	CHECK_JSON(series(0, "pid"), "8");
}

T(gone_processes_are_not_shown)
{
	struct zn_proc *p, *q;

	start();
	p = claim(7);
	q = claim(8);
	launches(q, 5, US);
	pass(5 * S);
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg);
	CHECK_EQ(count(zn_json_member(json(), "processes")), 1);
	CHECK_JSON(series(0, "pid"), "8");
}

/* Ticks further apart than a step, a machine that was suspended: what is known is the average. */
T(clock_jumps)
{
	struct zn_proc *p;

	start();
	p = claim(7);
	launches(p, 50, US);
	pass(5 * S);
	launches(p, 600, 50 * US);
	pass(60 * S);
	CHECK_EQ(zn_history_steps(history), 13);
	CHECK_JSON(series(0, "rate"), "[10,10,10,10,10,10,10,10,10,10,10,10,10]");
	check_near(zn_json_number(element(series(0, "p50_us"), 1)), 50);
	launches(p, 3600 * 2, US);
	pass(3600 * S);
	CHECK_EQ(zn_history_steps(history), 733);
	CHECK_EQ(count(series(0, "rate")), ZN_HISTORY_POINTS);
	CHECK_JSON(element(series(0, "rate"), 0), "2");
	CHECK_JSON(element(series(0, "rate"), ZN_HISTORY_POINTS - 1), "2");
	now_ns -= 7 * S;
	pass(0);
	CHECK_EQ(zn_history_steps(history), 733);
	pass(7 * S);
	CHECK_EQ(zn_history_steps(history), 733);
	launches(p, 5, US);
	pass(5 * S);
	CHECK_EQ(last(p)->rate, 1);
}

T(counts_beyond_32_bits)
{
	struct zn_proc *p;
	struct zn_hist *h;

	start();
	p = claim(7);
	launches(p, 1, 500 * US);
	h = zn_arena_hist(&memory.arena, p->hist[ZN_H_LAUNCH]);
	h->bucket[zn_bucket_of(500 * US)] = 0xfffffff0;
	pass(5 * S);
	h->bucket[zn_bucket_of(500 * US)] += 100; /* past 2^32 */
	p->count[ZN_C_LAUNCH_KERNEL] += 100;
	pass(5 * S);
	CHECK_EQ(last(p)->rate, 20);
	check_near(last(p)->p50_us, 500);
}

T(end_is_the_newest_steps)
{
	long long end;

	start();
	claim(7);
	pass(5 * S);
	end = (long long)zn_json_integer(zn_json_member(json(), "end_ms"));
	CHECK(llabs(end - (long long)zn_wall_ms()) < 60000);
	pass(9 * S);
	CHECK(llabs((long long)zn_json_integer(zn_json_member(json(), "end_ms")) - (long long)zn_wall_ms() + 4000) <
		60000);
}

static void use_gpu(struct zn_proc *p, uint64_t bytes)
{
	p->gpu[0].uuid[0] = 0xab;
	p->gpu[0].total_bytes = 100;
	p->gpu[0].used_bytes = bytes;
	p->gpu[0].peak_bytes = 90;
}

T(memory_of_gpus)
{
	struct zn_proc *p;
	struct zn_str gpu;

	start();
	p = claim(7);
	pass(5 * S);
	use_gpu(p, 40);
	pass(5 * S);
	use_gpu(p, 60);
	pass(11 * S);
	gpu = element(zn_json_member(json(), "gpus"), 0);
	CHECK_JSON(zn_json_member(gpu, "gpu_id"), "\"GPU-ab000000-0000-0000-0000-000000000000\"");
	CHECK_JSON(zn_json_member(gpu, "used_bytes"), "[40,60,60]");
	p->count[ZN_C_ALLOC_DROPPED] = 1;
	pass(5 * S);
	gpu = element(zn_json_member(json(), "gpus"), 0);
	CHECK_JSON(zn_json_member(gpu, "used_bytes"), "[40,60,60,null]");
	zn_memory_exit(&memory, p);
	pass(5 * S);
	CHECK_JSON(zn_json_member(json(), "gpus"), "[]");
	p = claim(8);
	use_gpu(p, 5);
	pass(5 * S);
	CHECK_JSON(zn_json_member(element(zn_json_member(json(), "gpus"), 0), "used_bytes"), "[5]");
}

T(recent_point_as_json)
{
	static const struct {
		struct zn_point point;
		const char *want;
	} rows[] = {
		{{2, 1.5f, 250}, "{\"rate\":2,\"p50_us\":1.5,\"p99_us\":250}"},
		{{0, 0, 0}, "{\"rate\":0,\"p50_us\":null,\"p99_us\":null}"},
		{{1e7f, 137438953, 137438953}, "{\"rate\":10000000,\"p50_us\":137438960,\"p99_us\":137438960}"},
	};

	for (size_t i = 0; i <= ZN_LEN(rows); i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};
		struct zn_json j;

		zn_json_begin(&j, &o);
		zn_point_json(&j, i < ZN_LEN(rows) ? &rows[i].point : NULL);
		CHECK_MEM(text, o.len, i < ZN_LEN(rows) ? rows[i].want : "null",
			strlen(i < ZN_LEN(rows) ? rows[i].want : "null"));
	}
}

/* The names of processes are any bytes; what does not fit is left out, whole processes at a time. */
T(cut_at_every_capacity)
{
	size_t whole;
	int seen = 0;

	start();
	for (uint32_t i = 0; i < 6; i++) {
		struct zn_proc *p = claim(100 + i);

		memset(p->comm, (int)(250 + i), sizeof(p->comm));
		launches(p, 5, 142 * US);
		use_gpu(p, 3);
	}
	for (int i = 0; i < 4; i++)
		pass(5 * S);
	whole = json().len;
	for (size_t cap = 0; cap <= whole + ZN_JSON_END; cap++) {
		char *block = malloc(cap ? cap : 1);
		struct zn_out o = {.at = block, .cap = cap};
		struct zn_str got, processes;

		zn_history_json(&o, &view);
		got = (struct zn_str){block, o.len};
		CHECK(o.len <= cap);
		if (!o.full) {
			processes = zn_json_member(got, "processes");
			CHECK_EQ(zn_json_check(got), 0);
			CHECK(zn_json_member(got, "step_ms").len);
			CHECK(count(processes) >= seen);
			CHECK_EQ(zn_json_member(got, "truncated").len != 0,
				count(processes) != 6 || !zn_json_member(got, "servers").len);
			seen = count(processes);
		} else {
			CHECK(cap < 160);
		}
		free(block);
	}
	CHECK_EQ(seen, 6);
}

T(every_row_in_use)
{
	struct zn_proc *p = NULL;
	struct zn_str last_one;

	start();
	for (uint32_t i = 0; i < ZN_PROCS_MAX; i++) {
		p = claim(1 + i);
		launches(p, 1, 142 * US);
	}
	pass(2 * ZN_HISTORY_POINTS * 5 * S);
	CHECK_EQ(count(zn_json_member(json(), "processes")), ZN_PROCS_MAX);
	last_one = series(ZN_PROCS_MAX - 1, "p99_us");
	CHECK_EQ(count(last_one), ZN_HISTORY_POINTS);
	check_near(zn_json_number(element(last_one, 0)), 142);
}

int main(void)
{
	RUN(nothing_yet);
	RUN(rate_and_quantiles_of_each_step);
	RUN(quantiles_are_near);
	RUN(no_launch_no_latency);
	RUN(a_step_ends_after_5_s);
	RUN(launches_before_the_first_reading);
	RUN(launches_that_were_not_timed);
	RUN(a_process_that_comes_within_a_step);
	RUN(rings_wrap);
	RUN(a_row_that_changes_hands);
	RUN(gone_processes_are_not_shown);
	RUN(clock_jumps);
	RUN(counts_beyond_32_bits);
	RUN(end_is_the_newest_steps);
	RUN(memory_of_gpus);
	RUN(recent_point_as_json);
	RUN(cut_at_every_capacity);
	RUN(every_row_in_use);
	return t_end();
}
