/* SPDX-License-Identifier: GPL-2.0 */
/*
 * latency.c: requests of servers in the steps of history.c: what each route answered in the last half minute to a
 * minute, and how fast each server was in each step of the last 15 minutes. Both are differences of two readings of the
 * same histograms, so that quantiles are those of that time alone.
 */
#include "zernel.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW_STEPS 6 /* between two readings of a route that are kept */
#define POINTS       ZN_HISTORY_POINTS

struct buckets {
	uint32_t count[ZN_BUCKETS]; /* modulo 2^32, as in history.c */
};

/* A reading of a route. */
struct reading {
	uint64_t at_ns, done[ZN_OUTCOME_COUNT], events;
	struct buckets of[ZN_REQUEST_DURATIONS];
};

struct route {
	uint32_t id; /* of the server; 0: nobody's yet */
	struct reading old, mid;
	struct zn_latency_recent recent;
};

struct server {
	uint32_t id;
	uint32_t first; /* step of its first point */
	uint64_t done[ZN_OUTCOME_COUNT];
	struct buckets of[ZN_REQUEST_DURATIONS];
	struct zn_latency_point point[POINTS];
	struct zn_baseline baseline[ZN_LATENCY_SIGNALS];
	int32_t score[ZN_LATENCY_SIGNALS];
};

struct zn_latency {
	uint64_t steps, read_ns;
	bool began, rolls;  /* rolls: a reading of routes becomes the old one */
	struct zn_hist now; /* of the route or server at hand */
	struct route route[ZN_REQUEST_SERIES];
	struct server server[ZN_SERVERS_MAX];
};

int zn_latency_open(struct zn_latency **l)
{
	void *at = mmap(NULL, sizeof(**l), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*l = at == MAP_FAILED ? NULL : at;
	return *l ? 0 : -errno;
}

void zn_latency_close(struct zn_latency *l)
{
	if (l)
		munmap(l, sizeof(*l));
}

static void copy_buckets(struct buckets *to, const struct zn_hist *from)
{
	memset(to, 0, sizeof(*to));
	if (from)
		zn_hist_low_add(from, to->count);
}

/* Of what came since a reading. */
static struct zn_summary summarize_since(struct zn_hist *to, const struct buckets *before, const struct zn_hist *from)
{
	for (uint32_t i = 0; i < ZN_BUCKETS; i++)
		to->bucket[i] = -before->count[i];
	if (from)
		zn_hist_low_add(from, to->bucket);
	to->max_ns = from ? from->max_ns : 0; /* of all time: no less than that of these */
	return zn_hist_summary(to);
}

/* ---- Routes. ---- */

static void take_reading(struct reading *to, struct zn_arena *a, const struct zn_request_series *s, uint64_t now_ns)
{
	to->at_ns = now_ns;
	to->events = s->events;
	memcpy(to->done, s->done, sizeof(to->done));
	for (uint32_t d = 0; d < ZN_REQUEST_DURATIONS; d++)
		copy_buckets(&to->of[d], zn_request_hist(a, s->hist[d]));
}

static void read_route(
	struct zn_latency *l, struct zn_arena *a, uint32_t index, const struct zn_request_series *s, uint64_t now_ns)
{
	struct route *r = &l->route[index];
	struct zn_latency_recent *recent = &r->recent;

	if (r->id != s->id) { /* it came after the last reading, with empty histograms */
		*r = (struct route){.id = s->id};
		r->old.at_ns = r->mid.at_ns = l->read_ns;
	}
	recent->ns = now_ns - r->old.at_ns;
	recent->events = s->events - r->old.events;
	for (uint32_t code = 0; code < ZN_OUTCOME_COUNT; code++)
		recent->done[code] = s->done[code] - r->old.done[code];
	for (uint32_t d = 0; d < ZN_REQUEST_DURATIONS; d++)
		recent->of[d] = summarize_since(&l->now, &r->old.of[d], zn_request_hist(a, s->hist[d]));
	if (!l->rolls)
		return;
	r->old = r->mid;
	take_reading(&r->mid, a, s, now_ns);
}

/* ---- Servers. ---- */

static void sum_routes(struct zn_latency *l, struct zn_arena *a, const struct zn_server *s, uint32_t duration)
{
	memset(&l->now, 0, sizeof(l->now));
	for (enum zn_request_route route = 0; route < ZN_ROUTE_COUNT; route++) {
		const struct zn_request_series *r = zn_server_series(a, s, route);
		const struct zn_hist *h = r ? zn_request_hist(a, r->hist[duration]) : NULL;

		if (h)
			zn_hist_low_add(h, l->now.bucket);
		if (h && h->max_ns > l->now.max_ns)
			l->now.max_ns = h->max_ns;
	}
}

static void count_done(
	struct zn_arena *a, const struct zn_server *s, uint64_t done[ZN_OUTCOME_COUNT], int64_t *in_flight)
{
	memset(done, 0, ZN_OUTCOME_COUNT * sizeof(*done));
	*in_flight = 0;
	for (enum zn_request_route route = 0; route < ZN_ROUTE_COUNT; route++) {
		const struct zn_request_series *r = zn_server_series(a, s, route);

		for (uint32_t code = 0; r && code < ZN_OUTCOME_COUNT; code++)
			done[code] += r->done[code];
		*in_flight += r && r->in_flight > 0 ? r->in_flight : 0;
	}
}

/* What is usual for a server, by baseline.c: below 1 ms differences count, above it ratios; the least spread is 10 %,
 * as p99 of a step is of few requests. */
static const struct {
	const char *name;
	enum zn_request_duration of;
} signals[ZN_LATENCY_SIGNALS] = {{"first_event_p99", ZN_REQUEST_FIRST}, {"event_gap_p99", ZN_REQUEST_GAP}};

static const struct zn_baseline_scale scale = {1, 100};

static void score_point(struct server *v, const struct zn_latency_point *p, uint32_t step)
{
	for (uint32_t i = 0; i < ZN_LATENCY_SIGNALS; i++) {
		float ms = p->p99_ms[signals[i].of];

		v->score[i] = zn_baseline_take(&v->baseline[i], ms > 0 ? (double)ms : NAN, &scale, step);
	}
}

/* What it did since the last reading, ns ago. */
static struct zn_latency_point read_server(
	struct zn_latency *l, struct zn_arena *a, struct server *v, const struct zn_server *s, uint64_t ns)
{
	struct zn_latency_point p = {0};
	uint64_t done[ZN_OUTCOME_COUNT], all = 0;
	struct zn_summary sum;
	int64_t in_flight;

	count_done(a, s, done, &in_flight);
	for (uint32_t code = 0; code < ZN_OUTCOME_COUNT; code++)
		all += done[code] - v->done[code];
	p.rate = ns ? (float)((double)all * ZN_NS_PER_S / (double)ns) : 0;
	p.errors =
		ns ? (float)((double)(done[ZN_OUTCOME_5XX] - v->done[ZN_OUTCOME_5XX]) * ZN_NS_PER_S / (double)ns) : 0;
	p.in_flight = (float)in_flight;
	memcpy(v->done, done, sizeof(v->done));
	for (uint32_t d = 0; d < ZN_REQUEST_DURATIONS; d++) {
		struct buckets *before = &v->of[d];

		sum_routes(l, a, s, d);
		for (uint32_t i = 0; i < ZN_BUCKETS; i++) {
			uint32_t count = l->now.bucket[i];

			l->now.bucket[i] = count - before->count[i];
			before->count[i] = count;
		}
		sum = zn_hist_summary(&l->now);
		p.p50_ms[d] = (float)((double)sum.p50_ns / 1e6);
		p.p99_ms[d] = (float)((double)sum.p99_ns / 1e6);
	}
	return p;
}

static void read_servers(struct zn_latency *l, struct zn_arena *a, uint64_t steps, uint64_t now_ns)
{
	uint64_t kept = steps < POINTS ? steps : POINTS;

	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *s = zn_server_at(a, i);
		struct server *v = &l->server[i];
		struct zn_latency_point p;

		if (!s)
			continue;
		if (v->id != s->id) {
			memset(v, 0, sizeof(*v));
			v->id = s->id;
			v->first = (uint32_t)l->steps;
		}
		p = read_server(l, a, v, s, now_ns - l->read_ns);
		if (steps)
			score_point(v, &p, (uint32_t)(l->steps + steps));
		for (uint64_t n = kept; n; n--)
			v->point[(l->steps + steps - n) % POINTS] = p;
	}
}

void zn_latency_tick(struct zn_latency *l, struct zn_arena *a, uint64_t steps, uint64_t now_ns)
{
	bool due = !l->began || steps != l->steps;

	if (!l->read_ns)
		l->read_ns = now_ns;
	if (!due || !a->servers)
		return;
	l->rolls = !l->began || steps / WINDOW_STEPS != l->steps / WINDOW_STEPS;
	read_servers(l, a, l->began ? steps - l->steps : 0, now_ns);
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *s = zn_server_at(a, i);

		for (enum zn_request_route route = 0; s && route < ZN_ROUTE_COUNT; route++) {
			const struct zn_request_series *r = zn_server_series(a, s, route);

			if (r)
				read_route(l, a, (uint32_t)(r - a->request_series), r, now_ns);
		}
	}
	l->began = true;
	l->steps = steps;
	l->read_ns = now_ns;
}

uint32_t zn_latency_points(const struct zn_latency *l, uint32_t server, uint32_t id)
{
	const struct server *v = l && server < ZN_SERVERS_MAX ? &l->server[server] : NULL;
	uint32_t n = v && v->id == id ? (uint32_t)l->steps - v->first : 0;

	return n < POINTS ? n : POINTS;
}

const struct zn_latency_point *zn_latency_point(const struct zn_latency *l, uint32_t server, uint32_t ago)
{
	return &l->server[server].point[(l->steps - 1 - ago) % POINTS];
}

const struct zn_latency_recent *zn_latency_recent(const struct zn_latency *l, uint32_t series, uint32_t id)
{
	const struct route *r = l && series < ZN_REQUEST_SERIES ? &l->route[series] : NULL;

	return r && r->id == id && r->recent.ns ? &r->recent : NULL;
}

const char *zn_latency_signal(uint32_t signal)
{
	return signals[signal].name;
}

int32_t zn_latency_score(const struct zn_latency *l, uint32_t server, uint32_t id, uint32_t signal)
{
	return zn_latency_points(l, server, id) ? l->server[server].score[signal] : ZN_SCORE_NONE;
}

double zn_latency_p99_ms(const struct zn_latency *l, uint32_t server, uint32_t id, uint32_t signal)
{
	return zn_latency_points(l, server, id) ? (double)zn_latency_point(l, server, 0)->p99_ms[signals[signal].of]
						: 0;
}

double zn_latency_usual_ms(const struct zn_latency *l, uint32_t server, uint32_t id, uint32_t signal)
{
	return zn_latency_points(l, server, id) ? zn_baseline_level(&l->server[server].baseline[signal], &scale) : NAN;
}
