/* SPDX-License-Identifier: GPL-2.0 */
/* slowness_test.c: what requests of a server wait for, step by step, and when that is unusual. */
#include "zernel.h"
#include "t.h"
#include <math.h>

#define MS ZN_NS_PER_MS
#define S  ZN_NS_PER_S

static struct zn_memory_arena arena;
static struct zn_agg agg;
static struct zn_latency *latency;
static struct zn_slowness *slowness;
static struct zn_server *server;
static struct zn_front_times front;
static bool front_known;
static uint64_t steps, now_ns;

static bool tell_front(void *of, uint32_t tgid, struct zn_front_times *to)
{
	(void)of;
	CHECK_EQ(tgid, 900);
	*to = front;
	return front_known;
}

static void take_step(void)
{
	steps++;
	now_ns += 5 * S;
	zn_latency_tick(latency, &arena.arena, steps, now_ns);
	zn_slowness_tick(slowness, latency, &agg, steps, now_ns);
}

static void begin(void)
{
	struct zn_server of = {.tgid = 900, .service = 900, .service_at = 1};

	zn_latency_close(latency);
	zn_slowness_close(slowness);
	zn_memory_close(&arena);
	CHECK(zn_memory_open(&arena) == 0 && zn_latency_open(&latency) == 0 && zn_slowness_open(&slowness) == 0);
	zn_slowness_front(slowness, tell_front, NULL);
	zn_agg_init(&agg, &arena.arena);
	agg.measured |= 1ull << ZN_FAM_SCHED;
	steps = 0;
	now_ns = 1000 * S;
	front = (struct zn_front_times){0};
	front_known = true;
	server = &arena.arena.servers[arena.arena.ops->server_add(&arena.arena, &of)];
	arena.arena.services[0].id = server->id;
	take_step();
}

static void record(uint32_t *slot, uint64_t ns)
{
	if (!*slot)
		*slot = zn_memory_hist(&arena);
	zn_hist_add(&arena.arena.hists[*slot], ns);
}

static void answer(uint64_t unread_ns, uint64_t first_ns, uint64_t gap_ns)
{
	struct zn_request_series *r = zn_memory_series(&arena, server, ZN_ROUTE_CHAT);

	record(&server->hist[ZN_SERVER_UNREAD], unread_ns);
	record(&r->hist[ZN_REQUEST_FIRST], first_ns);
	record(&r->hist[ZN_REQUEST_GAP], gap_ns);
	r->done[ZN_OUTCOME_2XX]++;
}

/* The engine, in ms of a step; the front end, in hundredths of its time. */
static void work(uint64_t gpu_ms, uint64_t other_ms, uint64_t busy_percent)
{
	uint64_t *of = (uint64_t *)arena.arena.services[0].work + ZN_WORK_STALL;

	of[ZN_STALL_GPU] += gpu_ms * MS;
	of[ZN_STALL_OTHER] += other_ms * MS;
	front.cpu_ns += busy_percent * 50 * MS;
	front.main_ns += busy_percent * 49 * MS;
	front.queued_ns += 500 * MS;
}

static const struct zn_slow_server *shown(void)
{
	return zn_slowness_of(slowness, 0, server->id);
}

static int is_near(double v, double wanted)
{
	return v > wanted * 0.98 && v < wanted * 1.02;
}

static void settle(void)
{
	for (uint32_t i = 0; i < ZN_BASELINE_WARM + 2; i++) {
		for (int k = 0; k < 10; k++)
			answer(4 * MS, 200 * MS, 20 * MS);
		work(4000, 1000, 20);
		take_step();
	}
}

T(what_requests_wait_for_is_in_proportion_to_what_the_engine_does)
{
	const struct zn_slow *w;

	begin();
	settle();
	w = &shown()->of[0];
	CHECK(!w->unusual && is_near(w->part_ms[ZN_SLOW_UNREAD].now, 4) &&
		is_near(w->part_ms[ZN_SLOW_UNREAD].usual, 4));
	CHECK(is_near(w->part_ms[ZN_SLOW_GPU].now, 160) && is_near(w->part_ms[ZN_SLOW_GPU].usual, 160));
	CHECK(is_near(w->part_ms[ZN_SLOW_OTHER].now, 40));
	CHECK(is_near(w->part_ms[ZN_SLOW_QUEUED].now, 20)); /* 500 of 5000 ms */
	CHECK(is_near(shown()->busy.now, 0.196) && is_near(shown()->busy.usual, 0.196));
	w = &shown()->of[1];
	CHECK(isnan(w->part_ms[ZN_SLOW_UNREAD].now) && is_near(w->part_ms[ZN_SLOW_GPU].now, 16));
}

/* Its router has gone, and it has a service of its own, whose sums begin at 0: the first step says nothing of it. */
T(another_service_is_not_held_against_the_one_before)
{
	const struct zn_slow *w;
	uint64_t *of;

	begin();
	settle();
	arena.arena.services[1].id = server->id + 1;
	server->service_at = 2;
	of = (uint64_t *)arena.arena.services[1].work + ZN_WORK_STALL;
	for (int i = 0; i < 2; i++) {
		answer(4 * MS, 200 * MS, 20 * MS);
		of[ZN_STALL_IO] += 20 * MS;
		of[ZN_STALL_GPU] += 3980 * MS;
		take_step();
		w = &shown()->of[0];
		if (i == 0)
			CHECK(isnan(w->part_ms[ZN_SLOW_IO].now) && isnan(w->part_ms[ZN_SLOW_GPU].now));
	}
	CHECK(is_near(w->part_ms[ZN_SLOW_IO].now, 1) && is_near(w->part_ms[ZN_SLOW_GPU].now, 199));
}

T(one_step_is_chance_and_two_are_not)
{
	const struct zn_slow *w;

	begin();
	settle();
	answer(900 * MS, 1600 * MS, 20 * MS);
	work(1000, 4000, 100);
	take_step();
	w = &shown()->of[0];
	CHECK(!w->unusual && w->over == 1);
	answer(900 * MS, 1600 * MS, 20 * MS);
	work(1000, 4000, 100);
	take_step();
	CHECK(w->unusual && !shown()->of[1].unusual);
	CHECK(is_near(w->part_ms[ZN_SLOW_UNREAD].now, 900) && is_near(w->part_ms[ZN_SLOW_UNREAD].usual, 4));
	CHECK(is_near(w->part_ms[ZN_SLOW_OTHER].now, 1280) && is_near(shown()->busy.now, 0.98));
	answer(4 * MS, 200 * MS, 20 * MS);
	take_step();
	CHECK(!w->unusual);
}

T(what_is_behind_the_engines_waits_is_their_own_and_the_nodes)
{
	struct zn_serving *v;
	struct zn_proc *p;

	begin();
	CHECK(isnan(shown()->resent.now) && isnan(shown()->driver.now) && isnan(shown()->contended.now));
	v = &arena.arena.services[0];
	p = zn_memory_claim(&arena, 901, "engine");
	v->row[0] = (uint32_t)(p - arena.arena.procs);
	v->row_id[0] = p->id;
	v->engines = 1;
	agg.measured &= ~(1ull << ZN_FAM_NET | 1ull << ZN_FAM_IOCTL);
	p->count[ZN_C_TCP_RETRANSMITS] += 60;
	v->serving_ns += 2500 * MS;
	v->work[ZN_WORK_IOCTL] += 1250 * MS;
	arena.arena.shared->gpu_calls.contended_ns += 1500 * MS;
	take_step();
	CHECK(isnan(shown()->resent.now) && isnan(shown()->driver.now) && isnan(shown()->contended.now));
	agg.measured |= 1ull << ZN_FAM_NET | 1ull << ZN_FAM_IOCTL;
	p->count[ZN_C_TCP_RETRANSMITS] += 60;
	v->serving_ns += 2500 * MS;
	v->work[ZN_WORK_IOCTL] += 1250 * MS;
	arena.arena.shared->gpu_calls.contended_ns += 1500 * MS;
	take_step();
	CHECK(is_near(shown()->resent.now, 12) && is_near(shown()->driver.now, 0.5) &&
		is_near(shown()->contended.now, 0.3));
	take_step(); /* nothing was served: then nothing is known of the driver's part */
	CHECK(shown()->resent.now == 0 && isnan(shown()->driver.now) && shown()->contended.now == 0);
}

/* Time unread is not within the time to the first event. */
T(unread_time_is_unusual_by_itself)
{
	begin();
	settle();
	for (int i = 0; i < 2; i++) {
		answer(600 * MS, 200 * MS, 20 * MS);
		take_step();
	}
	CHECK(shown()->of[0].unusual);
	begin();
	settle();
	for (int i = 0; i < 2; i++) { /* ten times as long, and no trouble */
		answer(40 * MS, 200 * MS, 20 * MS);
		take_step();
	}
	CHECK(!shown()->of[0].unusual);
}

/* An outlier before a silence is one step, however long the silence is. */
T(a_silence_is_no_step)
{
	begin();
	settle();
	answer(900 * MS, 1600 * MS, 20 * MS);
	for (int i = 0; i < 5; i++)
		take_step();
	CHECK(!shown()->of[0].unusual);
}

T(of_many_threads_none_is_the_front_end)
{
	begin();
	answer(4 * MS, 200 * MS, 20 * MS);
	front.cpu_ns += 4000 * MS;
	front.main_ns += 100 * MS;
	take_step();
	CHECK(isnan(shown()->busy.now) && isnan(shown()->of[0].part_ms[ZN_SLOW_QUEUED].now));
	front_known = false;
	answer(4 * MS, 200 * MS, 20 * MS);
	take_step();
	CHECK(isnan(shown()->busy.now));
}

T(who_comes_next_begins_anew)
{
	struct zn_server of = {.tgid = 900, .service = 901};

	begin();
	settle();
	arena.arena.ops->server_free(&arena.arena, 0);
	CHECK(!zn_slowness_of(slowness, 0, 0) && !zn_slowness_of(NULL, 0, 1));
	CHECK_EQ(arena.arena.ops->server_add(&arena.arena, &of), 0);
	take_step();
	CHECK(isnan(shown()->of[0].p99_ms.now) && isnan(shown()->of[0].part_ms[ZN_SLOW_UNREAD].usual));
}

T(a_service_is_of_the_job_of_its_engine)
{
	struct zn_serving *v;
	struct zn_proc *p;

	begin();
	v = &arena.arena.services[0];
	server->job = (struct zn_job_ref){3, 7};
	CHECK_EQ(zn_slowness_job(&arena.arena, server).serial, 7);
	p = zn_memory_claim(&arena, 901, "engine");
	p->job = (struct zn_job_ref){4, 9};
	v->row[0] = (uint32_t)(p - arena.arena.procs);
	v->row_id[0] = p->id;
	v->engines = 1;
	CHECK_EQ(zn_slowness_job(&arena.arena, server).serial, 9);
}

int main(void)
{
	RUN(what_requests_wait_for_is_in_proportion_to_what_the_engine_does);
	RUN(another_service_is_not_held_against_the_one_before);
	RUN(one_step_is_chance_and_two_are_not);
	RUN(what_is_behind_the_engines_waits_is_their_own_and_the_nodes);
	RUN(unread_time_is_unusual_by_itself);
	RUN(a_silence_is_no_step);
	RUN(of_many_threads_none_is_the_front_end);
	RUN(who_comes_next_begins_anew);
	RUN(a_service_is_of_the_job_of_its_engine);
	return t_end();
}
