/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_request.c: what metrics of servers and their requests yield. */
#include <string.h>

#include "zernel.h"

#define EACH_SERVER(w, i, s)                                                                                           \
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)                                                                  \
		if ((s = zn_server_at((w)->state->agg->arena, i)))
#define EACH_SERIES(w, s, route, r)                                                                                    \
	for (enum zn_request_route route = 0; route < ZN_ROUTE_COUNT; route++)                                         \
		if ((r = zn_server_series((w)->state->agg->arena, s, route)))

static void server_series(struct zn_walk *w, const struct zn_server *s)
{
	const struct zn_job *job = w->state->jobs && s->job.serial ? zn_jobs_at(w->state->jobs, s->job) : NULL;
	int64_t after_ns = (int64_t)(s->since_ns - w->state->start_ns);

	zn_walk_series(w);
	w->job_id = job ? job->id : NULL;
	w->sample.since_ms = w->state->start_wall_ms + (uint64_t)(after_ns / (int64_t)ZN_NS_PER_MS);
}

static void route_series(struct zn_walk *w, const struct zn_server *s, enum zn_request_route route)
{
	server_series(w, s);
	zn_walk_number(w, "pid", s->tgid);
	zn_walk_label(w, "route", zn_request_route(route));
}

void zn_metrics_request_done(struct zn_walk *w)
{
	const struct zn_request_series *r;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	EACH_SERIES(w, s, route, r)
	for (enum zn_request_code code = 0; code < ZN_OUTCOME_COUNT; code++) {
		if (!r->done[code])
			continue;
		route_series(w, s, route);
		zn_walk_label(w, "code", zn_request_code(code));
		zn_walk_integer(w, r->done[code]);
	}
}

/* in_flight is a signed number, which is below 0 for a moment at most: then it is shown as 0. */
void zn_metrics_request_number(struct zn_walk *w)
{
	size_t offset = *(const size_t *)w->metric->arg;
	const struct zn_request_series *r;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	EACH_SERIES(w, s, route, r)
	{
		int64_t v = *(const int64_t *)((const char *)r + offset);

		route_series(w, s, route);
		zn_walk_integer(w, v > 0 ? (uint64_t)v : 0);
	}
}

void zn_metrics_request_durations(struct zn_walk *w)
{
	enum zn_request_duration d = *(const enum zn_request_duration *)w->metric->arg;
	const struct zn_request_series *r;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	EACH_SERIES(w, s, route, r)
	{
		const struct zn_hist *h = zn_request_hist(w->state->agg->arena, r->hist[d]);

		if (!h)
			continue;
		route_series(w, s, route);
		zn_walk_durations(w, h);
	}
}

void zn_metrics_request_seconds(struct zn_walk *w)
{
	const struct zn_request_series *r;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	EACH_SERIES(w, s, route, r)
	{
		route_series(w, s, route);
		zn_walk_scaled(w, r->open_ns, 9);
	}
}

void zn_metrics_server_durations(struct zn_walk *w)
{
	enum zn_server_duration d = *(const enum zn_server_duration *)w->metric->arg;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	{
		const struct zn_hist *h = zn_request_hist(w->state->agg->arena, s->hist[d]);

		if (!h)
			continue;
		server_series(w, s);
		zn_walk_number(w, "pid", s->tgid);
		zn_walk_durations(w, h);
	}
}

void zn_metrics_server_held(struct zn_walk *w)
{
	static const char *const what[] = {"first", "later"};
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	for (uint32_t n = 0; n < ZN_LEN(what); n++) {
		if (!s->held[n])
			continue;
		server_series(w, s);
		zn_walk_number(w, "pid", s->tgid);
		zn_walk_label(w, "what", what[n]);
		zn_walk_integer(w, s->held[n]);
	}
}

void zn_metrics_server_connections(struct zn_walk *w)
{
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	for (enum zn_request_protocol p = 0; p < ZN_PROTOCOL_COUNT; p++) {
		if (!s->connections[p])
			continue;
		server_series(w, s);
		zn_walk_number(w, "pid", s->tgid);
		zn_walk_label(w, "protocol", zn_request_protocol(p));
		zn_walk_integer(w, s->connections[p]);
	}
}

void zn_metrics_server_info(struct zn_walk *w)
{
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	{
		char comm[sizeof(s->comm) + 1] = "";

		memcpy(comm, s->comm, sizeof(s->comm));
		server_series(w, s);
		zn_walk_number(w, "service", s->service);
		zn_walk_number(w, "pid", s->tgid);
		zn_walk_label(w, "role", zn_server_role(s->role));
		zn_walk_number(w, "port", s->port);
		zn_walk_label(w, "comm", comm);
		zn_walk_integer(w, 1);
	}
}

void zn_metrics_request_anomalies(struct zn_walk *w)
{
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	for (uint32_t signal = 0; signal < ZN_LATENCY_SIGNALS; signal++) {
		int32_t v = zn_latency_score(w->state->latency, i, s->id, signal);

		if (v == ZN_SCORE_NONE)
			continue;
		server_series(w, s);
		zn_walk_number(w, "pid", s->tgid);
		zn_walk_label(w, "signal", zn_latency_signal(signal));
		zn_walk_signed(w, v);
	}
}
