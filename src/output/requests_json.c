/* SPDX-License-Identifier: GPL-2.0 */
/* requests_json.c: servers and their requests, as JSON. */
#include "zernel.h"
#include <string.h>

#define MS 6 /* decimals from nanoseconds to milliseconds */
#define S  9

static void put_durations(struct zn_json *j, struct zn_arena *a, const char *key, uint32_t slot)
{
	const struct zn_hist *h = zn_request_hist(a, slot);
	struct zn_summary s = h ? zn_hist_summary(h) : (struct zn_summary){0};

	if (!h) {
		zn_json_key_null(j, key);
		return;
	}
	zn_json_key_open(j, key, '{');
	zn_json_key_u64(j, "count", s.count);
	zn_json_key_scaled(j, "p50_ms", s.p50_ns, MS);
	zn_json_key_scaled(j, "p99_ms", s.p99_ns, MS);
	zn_json_key_scaled(j, "sum_ms", h->sum_ns, MS);
	zn_json_close(j, '}');
}

static void put_route(struct zn_json *j, struct zn_arena *a, const struct zn_server *s, enum zn_request_route of)
{
	const struct zn_request_series *r = zn_server_series(a, s, of);

	if (!r)
		return;
	zn_json_open(j, '{');
	zn_json_key_text(j, "route", zn_request_route(of));
	zn_json_key_open(j, "requests", '{');
	for (enum zn_request_code code = 0; code < ZN_OUTCOME_COUNT; code++)
		zn_json_key_u64(j, zn_request_code(code), r->done[code]);
	zn_json_close(j, '}');
	zn_json_key_u64(j, "in_flight", r->in_flight > 0 ? (uint64_t)r->in_flight : 0);
	zn_json_key_u64(j, "events", r->events);
	zn_json_key_scaled(j, "in_flight_s", r->open_ns, S);
	put_durations(j, a, "duration", r->hist[ZN_REQUEST_WHOLE]);
	put_durations(j, a, "first_event", r->hist[ZN_REQUEST_FIRST]);
	put_durations(j, a, "event_gap", r->hist[ZN_REQUEST_GAP]);
	zn_json_close(j, '}');
}

bool zn_server_json(struct zn_json *j, const struct zn_state *state, const char *job, uint32_t i)
{
	struct zn_arena *a = state->agg->arena;
	const struct zn_server *s = zn_server_at(a, i);
	const struct zn_job *of = s && s->job.serial && state->jobs ? zn_jobs_at(state->jobs, s->job) : NULL;

	if (i >= ZN_SERVERS_MAX)
		return false;
	if (!s || (*job && strcmp(job, of ? of->id : "")))
		return true;
	zn_json_open(j, '{');
	zn_json_key_u64(j, "pid", s->tgid);
	zn_json_key(j, "comm");
	zn_json_bytes(j, s->comm, strnlen(s->comm, sizeof(s->comm)));
	zn_json_key_text(j, "role", zn_server_role(s->role));
	zn_json_key_u64(j, "service", s->service);
	zn_json_key_u64(j, "port", s->port);
	zn_json_key_text(j, "job_id", of ? of->id : "");
	zn_json_key_open(j, "connections", '{');
	for (enum zn_request_protocol p = 0; p < ZN_PROTOCOL_COUNT; p++)
		zn_json_key_u64(j, zn_request_protocol(p), s->connections[p]);
	zn_json_close(j, '}');
	zn_json_key_open(j, "held", '{');
	zn_json_key_u64(j, "first", s->held[0]);
	zn_json_key_u64(j, "later", s->held[1]);
	zn_json_close(j, '}');
	put_durations(j, a, "unread", s->hist[ZN_SERVER_UNREAD]);
	put_durations(j, a, "rtt", s->hist[ZN_SERVER_RTT]);
	zn_json_key_open(j, "routes", '[');
	for (enum zn_request_route r = 0; r < ZN_ROUTE_COUNT; r++)
		put_route(j, a, s, r);
	zn_json_close(j, ']');
	zn_json_close(j, '}');
	return true;
}
