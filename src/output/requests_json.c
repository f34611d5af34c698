/* SPDX-License-Identifier: GPL-2.0 */
/* requests_json.c: servers and their requests, as JSON. */
#include "zernel.h"
#include <math.h>
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

static void put_summary(struct zn_json *j, const char *key, const struct zn_summary *s)
{
	zn_json_key_open(j, key, '{');
	zn_json_key_u64(j, "count", s->count);
	if (s->count) {
		zn_json_key_scaled(j, "p50_ms", s->p50_ns, MS);
		zn_json_key_scaled(j, "p99_ms", s->p99_ns, MS);
	} else {
		zn_json_key_null(j, "p50_ms");
		zn_json_key_null(j, "p99_ms");
	}
	zn_json_close(j, '}');
}

/* Of the last half minute to a minute. */
static void put_recent(struct zn_json *j, const struct zn_latency_recent *recent)
{
	static const char *const keys[] = {"duration", "first_event", "event_gap"};
	uint64_t done = 0;

	if (!recent) {
		zn_json_key_null(j, "recent");
		return;
	}
	for (uint32_t code = 0; code < ZN_OUTCOME_COUNT; code++)
		done += recent->done[code];
	zn_json_key_open(j, "recent", '{');
	zn_json_key_scaled(j, "seconds", recent->ns, S);
	zn_json_key_scaled(j, "rate", (uint64_t)((double)done * 1e12 / (double)recent->ns), 3);
	zn_json_key_open(j, "requests", '{');
	for (enum zn_request_code code = 0; code < ZN_OUTCOME_COUNT; code++)
		zn_json_key_u64(j, zn_request_code(code), recent->done[code]);
	zn_json_close(j, '}');
	if (done)
		zn_json_key_scaled(j, "error_ratio", recent->done[ZN_OUTCOME_5XX] * 10000 / done, 4);
	else
		zn_json_key_null(j, "error_ratio");
	zn_json_key_u64(j, "events", recent->events);
	for (uint32_t d = 0; d < ZN_REQUEST_DURATIONS; d++)
		put_summary(j, keys[d], &recent->of[d]);
	zn_json_close(j, '}');
}

static void put_route(
	struct zn_json *j, const struct zn_state *state, const struct zn_server *s, enum zn_request_route of)
{
	struct zn_arena *a = state->agg->arena;
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
	put_recent(j, zn_latency_recent(state->latency, (uint32_t)(r - a->request_series), s->id));
	zn_json_close(j, '}');
}

/* ---- Steps. ---- */

/* By key, in the order of struct zn_latency_point. */
static const struct {
	const char *key;
	size_t offset;
	bool null_if_0;
} lines[] = {
	{"duration_p50_ms", offsetof(struct zn_latency_point, p50_ms[ZN_REQUEST_WHOLE]), true},
	{"duration_p99_ms", offsetof(struct zn_latency_point, p99_ms[ZN_REQUEST_WHOLE]), true},
	{"first_event_p50_ms", offsetof(struct zn_latency_point, p50_ms[ZN_REQUEST_FIRST]), true},
	{"first_event_p99_ms", offsetof(struct zn_latency_point, p99_ms[ZN_REQUEST_FIRST]), true},
	{"event_gap_p50_ms", offsetof(struct zn_latency_point, p50_ms[ZN_REQUEST_GAP]), true},
	{"event_gap_p99_ms", offsetof(struct zn_latency_point, p99_ms[ZN_REQUEST_GAP]), true},
	{"rate", offsetof(struct zn_latency_point, rate), false},
	{"errors", offsetof(struct zn_latency_point, errors), false},
	{"in_flight", offsetof(struct zn_latency_point, in_flight), false},
};

static void put_figure(struct zn_json *j, const struct zn_latency_point *p, size_t line)
{
	float v;

	memcpy(&v, (const char *)p + lines[line].offset, sizeof(v));
	if (v == 0 && lines[line].null_if_0)
		zn_json_null(j);
	else
		zn_json_scaled(j, (uint64_t)((double)v * 1e3 + 0.5), 3);
}

static void put_step(struct zn_json *j, const struct zn_latency *l, uint32_t i, uint32_t id)
{
	if (!zn_latency_points(l, i, id)) {
		zn_json_key_null(j, "step");
		return;
	}
	zn_json_key_open(j, "step", '{');
	for (size_t line = 0; line < ZN_LEN(lines); line++) {
		zn_json_key(j, lines[line].key);
		put_figure(j, zn_latency_point(l, i, 0), line);
	}
	zn_json_close(j, '}');
}

/* Of the last 15 minutes, for a terminal: each column is of 15 s, its height in eighths of the highest; a blank:
 * nothing of it happened. */
#define LINE_COLUMNS 60
#define LINE_STEPS   (ZN_HISTORY_POINTS / LINE_COLUMNS)

static float find_highest(
	const struct zn_latency *l, uint32_t i, enum zn_request_duration d, uint32_t from, uint32_t to)
{
	float most = 0;

	for (; from < to; from++) {
		float v = zn_latency_point(l, i, from)->p99_ms[d];

		most = v > most ? v : most;
	}
	return most;
}

static void put_line_of(struct zn_json *j, const struct zn_latency *l, uint32_t i, uint32_t points, const char *key,
	enum zn_request_duration d)
{
	float most = find_highest(l, i, d, 0, points);
	char levels[LINE_COLUMNS];
	size_t len = 0;

	for (uint32_t column = (points + LINE_STEPS - 1) / LINE_STEPS; column; column--) {
		uint32_t from = (column - 1) * LINE_STEPS, to = from + LINE_STEPS < points ? from + LINE_STEPS : points;
		float v = find_highest(l, i, d, from, to);

		levels[len++] = (char)(v > 0 ? '0' + (int)(8 * v / most + 0.5f) : ' ');
	}
	zn_json_key_open(j, key, '{');
	zn_json_key_scaled(j, "highest_ms", (uint64_t)((double)most * 1e3 + 0.5), 3);
	zn_json_key(j, "levels");
	zn_json_bytes(j, levels, len);
	zn_json_close(j, '}');
}

static void put_lines(struct zn_json *j, const struct zn_latency *l, uint32_t i, uint32_t id)
{
	uint32_t points = zn_latency_points(l, i, id);

	if (!points) {
		zn_json_key_null(j, "p99_lines");
		return;
	}
	zn_json_key_open(j, "p99_lines", '{');
	put_line_of(j, l, i, points, "first_event", ZN_REQUEST_FIRST);
	put_line_of(j, l, i, points, "event_gap", ZN_REQUEST_GAP);
	put_line_of(j, l, i, points, "duration", ZN_REQUEST_WHOLE);
	zn_json_close(j, '}');
}

bool zn_server_history(struct zn_json *j, const struct zn_state *state, uint32_t i)
{
	const struct zn_server *s = zn_server_at(state->agg->arena, i);
	uint32_t points = s ? zn_latency_points(state->latency, i, s->id) : 0;

	if (i >= ZN_SERVERS_MAX)
		return false;
	if (!points)
		return true;
	zn_json_open(j, '{');
	zn_json_key_u64(j, "pid", s->tgid);
	for (size_t line = 0; line < ZN_LEN(lines); line++) {
		zn_json_key_open(j, lines[line].key, '[');
		for (uint32_t ago = points; ago; ago--)
			put_figure(j, zn_latency_point(state->latency, i, ago - 1), line);
		zn_json_close(j, ']');
	}
	zn_json_close(j, '}');
	return true;
}

/* ---- Of a service. ---- */

static void put_work(struct zn_json *j, const struct zn_agg *agg, const char *key, const uint64_t *work, int more)
{
	zn_json_key_open(j, key, '{');
	for (enum zn_work w = 0; w < ZN_WORK_COUNT; w++)
		if (zn_serving_measured(agg, w))
			zn_json_key_scaled(j, zn_serving_work_key(w), work[w], zn_serving_work_decimals(w) + more);
	zn_json_close(j, '}');
}

/* Thousandths of a count, ns of a time. */
static void put_share(struct zn_json *j, const struct zn_agg *agg, const struct zn_slow_request *r)
{
	zn_json_key_open(j, "share", '{');
	for (enum zn_work w = 0; w < ZN_WORK_COUNT; w++) {
		int decimals = zn_serving_work_decimals(w);
		uint64_t more = decimals ? 1 : 1000;

		if (zn_serving_measured(agg, w))
			zn_json_key_scaled(j, zn_serving_work_key(w),
				(uint64_t)(((__uint128_t)r->share[w] * more + (1 << (ZN_SHARE_BITS - 1))) >>
					ZN_SHARE_BITS),
				decimals ? decimals : 3);
	}
	zn_json_close(j, '}');
}

static void put_slow(struct zn_json *j, const struct zn_state *state, const struct zn_slow_request *r)
{
	uint64_t now_ns = state->tick_ns;
	char waited[ZN_SLOW_TEXT];

	zn_json_open(j, '{');
	zn_json_key_text(j, "route", zn_request_route(r->route));
	zn_json_key_text(j, "code", zn_request_code(r->code));
	zn_json_key_scaled(j, "duration_ms", r->ns, MS);
	if (r->events)
		zn_json_key_scaled(j, "first_event_ms", r->first_ns, MS);
	else
		zn_json_key_null(j, "first_event_ms");
	zn_json_key_u64(j, "events", r->events);
	zn_json_key_scaled(j, "unread_ms", r->unread_ns, MS);
	zn_json_key_u64(j, "held", r->held);
	zn_slow_waited(state->agg, r, waited);
	zn_json_key_text(j, "waited", waited);
	zn_json_key_scaled(j, "ago_s", now_ns > r->end_ns ? now_ns - r->end_ns : 0, S);
	zn_json_key(j, "exact");
	zn_json_bool(j, r->exact);
	put_share(j, state->agg, r);
	zn_json_close(j, '}');
}

/* Those of its service's slowest that this server answered. */
static void put_slowest(struct zn_json *j, const struct zn_state *state, const struct zn_server *s)
{
	const struct zn_serving_view *view = state->servings && s->service_at && s->service_at <= ZN_SERVICES_MAX
		? &state->servings->view[s->service_at - 1]
		: NULL;

	zn_json_key_open(j, "slowest", '[');
	for (uint32_t i = 0; view && i < view->slow_count; i++)
		if (view->slow[i].tgid == s->tgid)
			put_slow(j, state, &view->slow[i]);
	zn_json_close(j, ']');
}

static void put_engines(struct zn_json *j, const struct zn_arena *a, const struct zn_serving *v)
{
	zn_json_key_open(j, "engines", '[');
	for (uint32_t i = 0; i < ZN_ENGINES_MAX; i++) {
		const struct zn_proc *p = zn_serving_engine(a, v, i);

		if (!p)
			continue;
		zn_json_open(j, '{');
		zn_json_key_u64(j, "pid", p->tgid);
		zn_json_key(j, "comm");
		zn_json_bytes(j, p->comm, strnlen(p->comm, sizeof(p->comm)));
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void put_shares(struct zn_json *j, const struct zn_agg *agg, const struct zn_serving *v)
{
	uint64_t sum[ZN_WORK_COUNT];

	for (enum zn_work w = 0; w < ZN_WORK_COUNT; w++)
		sum[w] = v->given[w] + (v->given_part[w] >> (ZN_SHARE_BITS - 1) & 1);
	put_work(j, agg, "shares", sum, 0);
}

/* Of its outermost server alone. */
static void put_serving(struct zn_json *j, const struct zn_state *state, const struct zn_server *s)
{
	const struct zn_arena *a = state->agg->arena;
	const struct zn_serving *v = s->service_at ? zn_serving_at(a, s->service_at - 1) : NULL;
	const struct zn_serving_view *view = v && state->servings ? &state->servings->view[s->service_at - 1] : NULL;

	if (!v || v->id != s->id) {
		zn_json_key_null(j, "serving");
		return;
	}
	zn_json_key_open(j, "serving", '{');
	zn_json_key_u64(j, "requests", v->done);
	zn_json_key_u64(j, "alone", v->exact);
	zn_json_key_u64(j, "in_flight", v->in_flight > 0 ? (uint64_t)v->in_flight : 0);
	zn_json_key_scaled(j, "serving_s", v->serving_ns, S);
	put_engines(j, a, v);
	put_work(j, state->agg, "work", (const uint64_t *)v->work, 0);
	put_shares(j, state->agg, v);
	put_work(j, state->agg, "idle", (const uint64_t *)v->idle, 0);
	if (view && view->per_request)
		put_work(j, state->agg, "per_request", view->work, 3);
	else
		zn_json_key_null(j, "per_request");
	zn_json_close(j, '}');
}

/* ---- What its requests wait for. ---- */

static void put_known(struct zn_json *j, const char *key, double v)
{
	if (isnan(v))
		zn_json_key_null(j, key);
	else
		zn_json_key_scaled(j, key, (uint64_t)(fmin(fmax(v, 0), 1e12) * 1000 + 0.5), 3);
}

/* Absent: it is not known now. */
static void put_now(struct zn_json *j, const char *key, const struct zn_slow_figure *f)
{
	if (isnan(f->now))
		return;
	zn_json_key_open(j, key, '{');
	put_known(j, "now", f->now);
	put_known(j, "usual", f->usual);
	zn_json_close(j, '}');
}

static void put_slow_signal(
	struct zn_json *j, const struct zn_server *s, const struct zn_slow_server *slow, uint32_t signal)
{
	static const char *const keys[ZN_LATENCY_SIGNALS] = {"first_event", "event_gap"};
	const struct zn_slow *w = &slow->of[signal];
	struct zn_finding f;

	zn_json_key_open(j, keys[signal], '{');
	zn_json_key(j, "unusual");
	zn_json_bool(j, w->unusual);
	zn_json_key_text(j, "says", zn_slow_says(slow, signal, s->tgid, &f) ? f.says : "");
	put_now(j, "p99_ms", &w->p99_ms);
	zn_json_key_open(j, "parts_ms", '{');
	for (enum zn_slow_part part = 0; part < ZN_SLOW_PARTS; part++)
		put_now(j, zn_slowness_part(part), &w->part_ms[part]);
	zn_json_close(j, '}');
	put_now(j, "held", &w->held);
	zn_json_close(j, '}');
}

static void put_waits(struct zn_json *j, const struct zn_state *state, const struct zn_server *s, uint32_t i)
{
	const struct zn_slow_server *slow = zn_slowness_of(state->slowness, i, s->id);

	if (!slow) {
		zn_json_key_null(j, "waits");
		return;
	}
	zn_json_key_open(j, "waits", '{');
	for (uint32_t signal = 0; signal < ZN_LATENCY_SIGNALS; signal++)
		put_slow_signal(j, s, slow, signal);
	put_now(j, "front_busy", &slow->busy);
	put_now(j, "in_flight", &slow->in_flight);
	put_now(j, "retransmits_per_s", &slow->resent);
	put_now(j, "engine_driver", &slow->driver);
	put_now(j, "driver_contended", &slow->contended);
	zn_json_close(j, '}');
}

/* ---- A server. ---- */

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
	zn_sampled_json(j, state->agg, ZN_SPENT_SERVER(i), s->id, s->since_ns);
	put_durations(j, a, "unread", s->hist[ZN_SERVER_UNREAD]);
	put_durations(j, a, "rtt", s->hist[ZN_SERVER_RTT]);
	put_step(j, state->latency, i, s->id);
	put_lines(j, state->latency, i, s->id);
	zn_json_key_open(j, "routes", '[');
	for (enum zn_request_route r = 0; r < ZN_ROUTE_COUNT; r++)
		put_route(j, state, s, r);
	zn_json_close(j, ']');
	put_waits(j, state, s, i);
	put_slowest(j, state, s);
	put_serving(j, state, s);
	zn_json_close(j, '}');
	return true;
}
