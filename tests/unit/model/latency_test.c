/* SPDX-License-Identifier: GPL-2.0 */
/* latency_test.c: a server's requests by step, and a route's of the last half minute, from histograms that only
 * grow. */
#include "t.h"
#include "zernel.h"

#include <string.h>

#define S  ZN_NS_PER_S
#define MS (ZN_NS_PER_MS)

static struct zn_memory_arena arena;
static struct zn_latency *latency;
static struct zn_server *server;
static uint64_t steps, now_ns;

static void open_all(void)
{
	struct zn_server of = {.tgid = 900, .service = 900};

	zn_latency_close(latency);
	zn_memory_close(&arena);
	CHECK(zn_memory_open(&arena) == 0 && zn_latency_open(&latency) == 0);
	steps = 0;
	now_ns = 1000 * S;
	zn_latency_tick(latency, &arena.arena, steps, now_ns);
	server = &arena.arena.servers[arena.arena.ops->server_add(&arena.arena, &of)];
}

static void answer(enum zn_request_route route, enum zn_request_code code, uint64_t first_ns, uint64_t whole_ns)
{
	struct zn_request_series *r = zn_memory_series(&arena, server, route);
	uint64_t of[ZN_REQUEST_DURATIONS] = {[ZN_REQUEST_WHOLE] = whole_ns, [ZN_REQUEST_FIRST] = first_ns};

	r->done[code]++;
	for (uint32_t d = 0; d < ZN_REQUEST_DURATIONS; d++) {
		r->hist[d] = r->hist[d] ? r->hist[d] : zn_memory_hist(&arena);
		if (of[d])
			zn_hist_add(&arena.arena.hists[r->hist[d]], of[d]);
	}
}

static void step(uint64_t n)
{
	steps += n;
	now_ns += n * 5 * S;
	zn_latency_tick(latency, &arena.arena, steps, now_ns);
}

static const struct zn_latency_recent *recent_of(enum zn_request_route route)
{
	return zn_latency_recent(latency, server->series[route] - 1, server->id);
}

static int near_ms(float v, float wanted)
{
	return v > wanted * 0.967 && v < wanted * 1.033;
}

T(a_step_has_its_own_quantiles)
{
	const struct zn_latency_point *p;

	open_all();
	CHECK_EQ(zn_latency_points(latency, 0, server->id), 0);
	for (int i = 0; i < 10; i++)
		answer(ZN_ROUTE_CHAT, ZN_OUTCOME_2XX, 100 * MS, 900 * MS);
	server->series[ZN_ROUTE_OTHER] = 0;
	arena.arena.request_series[0].in_flight = 3;
	step(1);
	answer(ZN_ROUTE_CHAT, ZN_OUTCOME_5XX, 0, 40 * MS);
	answer(ZN_ROUTE_EMBEDDINGS, ZN_OUTCOME_2XX, 0, 40 * MS);
	step(1);
	CHECK_EQ(zn_latency_points(latency, 0, server->id), 2);
	CHECK_EQ(zn_latency_points(latency, 0, server->id + 1), 0);
	p = zn_latency_point(latency, 0, 1);
	CHECK(near_ms(p->p50_ms[ZN_REQUEST_FIRST], 100) && near_ms(p->p99_ms[ZN_REQUEST_WHOLE], 900));
	CHECK(p->rate == 2 && p->errors == 0 && p->in_flight == 3 && p->p50_ms[ZN_REQUEST_GAP] == 0);
	p = zn_latency_point(latency, 0, 0);
	CHECK(p->p50_ms[ZN_REQUEST_FIRST] == 0 && near_ms(p->p99_ms[ZN_REQUEST_WHOLE], 40));
	CHECK(p->rate > 0.39 && p->rate < 0.41 && p->errors > 0.19 && p->errors < 0.21);
}

T(a_tick_within_a_step_is_none)
{
	open_all();
	step(1);
	answer(ZN_ROUTE_CHAT, ZN_OUTCOME_2XX, 100 * MS, 900 * MS);
	zn_latency_tick(latency, &arena.arena, steps, now_ns + S);
	CHECK_EQ(zn_latency_points(latency, 0, server->id), 1);
	step(1);
	CHECK(near_ms(zn_latency_point(latency, 0, 0)->p50_ms[ZN_REQUEST_FIRST], 100));
}

T(steps_that_were_missed_share_a_reading)
{
	open_all();
	for (int i = 0; i < 30; i++)
		answer(ZN_ROUTE_CHAT, ZN_OUTCOME_2XX, 0, 5 * MS);
	step(3);
	CHECK_EQ(zn_latency_points(latency, 0, server->id), 3);
	for (uint32_t ago = 0; ago < 3; ago++)
		CHECK(zn_latency_point(latency, 0, ago)->rate == 2);
	step(1000);
	CHECK_EQ(zn_latency_points(latency, 0, server->id), ZN_HISTORY_POINTS);
	CHECK(zn_latency_point(latency, 0, ZN_HISTORY_POINTS - 1)->rate == 0);
}

T(a_route_forgets_what_is_older_than_a_minute)
{
	open_all();
	for (int i = 0; i < 7; i++)
		answer(ZN_ROUTE_CHAT, ZN_OUTCOME_2XX, 2000 * MS, 3000 * MS);
	step(1);
	CHECK_EQ(recent_of(ZN_ROUTE_CHAT)->done[ZN_OUTCOME_2XX], 7);
	CHECK_EQ(recent_of(ZN_ROUTE_CHAT)->of[ZN_REQUEST_FIRST].count, 7);
	for (int i = 0; i < 11; i++) {
		answer(ZN_ROUTE_CHAT, ZN_OUTCOME_5XX, 10 * MS, 20 * MS);
		step(1);
	}
	/* readings are kept at the 6th and the 12th step: of what came before the 6th nothing is left at the 13th */
	CHECK_EQ(recent_of(ZN_ROUTE_CHAT)->done[ZN_OUTCOME_2XX], 7);
	step(1);
	CHECK_EQ(recent_of(ZN_ROUTE_CHAT)->done[ZN_OUTCOME_2XX], 0);
	CHECK_EQ(recent_of(ZN_ROUTE_CHAT)->done[ZN_OUTCOME_5XX], 6);
	CHECK_EQ(recent_of(ZN_ROUTE_CHAT)->ns, 35 * S);
	CHECK(near_ms((float)recent_of(ZN_ROUTE_CHAT)->of[ZN_REQUEST_FIRST].p99_ns / 1e6f, 10));
	CHECK(!zn_latency_recent(latency, ZN_REQUEST_SERIES, server->id) && !zn_latency_recent(NULL, 0, server->id));
}

T(who_comes_next_begins_anew)
{
	struct zn_server of = {.tgid = 901, .service = 901};

	open_all();
	answer(ZN_ROUTE_CHAT, ZN_OUTCOME_2XX, 100 * MS, 900 * MS);
	step(2);
	arena.arena.ops->server_free(&arena.arena, 0);
	CHECK_EQ(arena.arena.ops->server_add(&arena.arena, &of), 0);
	step(1);
	CHECK_EQ(zn_latency_points(latency, 0, server->id), 1);
	CHECK(zn_latency_point(latency, 0, 0)->rate == 0);
	answer(ZN_ROUTE_CHAT, ZN_OUTCOME_2XX, 10 * MS, 90 * MS);
	step(1);
	CHECK_EQ(recent_of(ZN_ROUTE_CHAT)->done[ZN_OUTCOME_2XX], 1);
	CHECK(near_ms(zn_latency_point(latency, 0, 0)->p50_ms[ZN_REQUEST_FIRST], 10));
}

int main(void)
{
	RUN(a_step_has_its_own_quantiles);
	RUN(a_tick_within_a_step_is_none);
	RUN(steps_that_were_missed_share_a_reading);
	RUN(a_route_forgets_what_is_older_than_a_minute);
	RUN(who_comes_next_begins_anew);
	zn_latency_close(latency);
	zn_memory_close(&arena);
	return t_end();
}
