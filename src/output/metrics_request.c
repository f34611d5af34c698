/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_request.c: what metrics of servers and their requests yield. */
#include <string.h>

#include "zernel.h"

#define EACH_SERVER(w, i, s)                                                                                           \
	for (uint32_t i = zn_walk_server(w, 0); i < ZN_SERVERS_MAX; i = zn_walk_server(w, i + 1))                      \
		if ((s = zn_server_at((w)->state->agg->arena, i)))
#define EACH_SERVICE(w, i, v)                                                                                          \
	for (uint32_t i = zn_walk_service(w, 0); i < ZN_SERVICES_MAX; i = zn_walk_service(w, i + 1))                   \
		if ((v = zn_serving_at((w)->state->agg->arena, i)))
#define EACH_SERIES(w, s, route, r)                                                                                    \
	for (enum zn_request_route route = 0; route < ZN_ROUTE_COUNT; route++)                                         \
		if ((r = zn_server_series((w)->state->agg->arena, s, route)))

static void server_series(struct zn_walk *w, const struct zn_server *s)
{
	const struct zn_job *job = w->state->jobs && s->job.serial ? zn_jobs_at(w->state->jobs, s->job) : NULL;

	zn_walk_series(w);
	w->job_id = job ? job->id : NULL;
	w->sample.since_ms = zn_state_wall_ms(w->state, s->since_ns);
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

/* ---- Exemplars: the slowest requests of the last tick in which one ended. ---- */

/* At the last comma, if it is too long. */
static void copy_waited(char to[ZN_EXEMPLAR_WAITED], const char *text)
{
	size_t len = strlen(text);

	while (len >= ZN_EXEMPLAR_WAITED) {
		do
			len--;
		while (len && text[len] != ',');
	}
	memcpy(to, text, len);
	to[len] = 0;
}

static uint64_t time_of(const struct zn_slow_request *r, enum zn_request_duration d)
{
	if (d == ZN_REQUEST_WHOLE)
		return r->code == ZN_OUTCOME_ABORTED ? 0 : r->ns; /* aborted ones are in no histogram */
	return d == ZN_REQUEST_FIRST ? r->first_ns : 0;
}

/* Nobody reads a walk's exemplars later than its series. */
static void find_exemplars(
	struct zn_walk *w, const struct zn_server *s, enum zn_request_route route, enum zn_request_duration d)
{
	static struct zn_exemplar found[ZN_SLOWEST];
	const struct zn_state *state = w->state;
	const struct zn_serving_view *view = state->servings && s->service_at && s->service_at <= ZN_SERVICES_MAX
		? &state->servings->view[s->service_at - 1]
		: NULL;
	char waited[ZN_SLOW_TEXT];
	uint32_t count = 0;

	for (uint32_t i = 0; view && i < view->slow_count && i < ZN_SLOWEST; i++) {
		const struct zn_slow_request *r = &view->slow[i];

		if (r->tgid != s->tgid || r->route != route || !time_of(r, d))
			continue;
		found[count].ns = time_of(r, d);
		found[count].at_ms = zn_state_wall_ms(state, r->end_ns);
		found[count].events = r->events;
		found[count].alone = r->exact;
		zn_slow_waited(state->agg, r, waited);
		copy_waited(found[count++].waited, waited);
	}
	w->sample.exemplar = found;
	w->sample.exemplars = count;
}

/* The series of all routes of all servers that have durations of the metric's kind. begin: opens a series, or says
 * that there is none. */
static void walk_durations(
	struct zn_walk *w, bool (*begin)(struct zn_walk *, const struct zn_server *, enum zn_request_route))
{
	enum zn_request_duration d = *(const enum zn_request_duration *)w->metric->arg;
	const struct zn_request_series *r;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	EACH_SERIES(w, s, route, r)
	{
		const struct zn_hist *h = zn_request_hist(w->state->agg->arena, r->hist[d]);

		if (h && begin(w, s, route))
			zn_walk_durations(w, h);
	}
}

static bool begin_route(struct zn_walk *w, const struct zn_server *s, enum zn_request_route route)
{
	route_series(w, s, route);
	find_exemplars(w, s, route, *(const enum zn_request_duration *)w->metric->arg);
	return true;
}

void zn_metrics_request_durations(struct zn_walk *w)
{
	walk_durations(w, begin_route);
}

/* gen_ai.operation.name. Of the others nothing says what they generate, if they do. */
static const char *const operations[ZN_ROUTE_COUNT] = {
	[ZN_ROUTE_CHAT] = "chat",
	[ZN_ROUTE_RESPONSES] = "chat",
	[ZN_ROUTE_MESSAGES] = "chat",
	[ZN_ROUTE_API_CHAT] = "chat",
	[ZN_ROUTE_COMPLETIONS] = "text_completion",
	[ZN_ROUTE_COMPLETION] = "text_completion",
	[ZN_ROUTE_GENERATE] = "text_completion",
	[ZN_ROUTE_GENERATE_STREAM] = "text_completion",
	[ZN_ROUTE_API_GENERATE] = "text_completion",
	[ZN_ROUTE_MODEL_GENERATE] = "text_completion",
	[ZN_ROUTE_MODEL_STREAM] = "text_completion",
	[ZN_ROUTE_EMBEDDINGS] = "embeddings",
	[ZN_ROUTE_API_EMBED] = "embeddings",
};

/* Requests that another server of the service hands on are the same once more. Who makes the model is not known:
 * _OTHER, as the conventions have it for what is not on their lists. */
static bool begin_gen_ai(struct zn_walk *w, const struct zn_server *s, enum zn_request_route route)
{
	if (s->above || !operations[route])
		return false;
	server_series(w, s);
	zn_walk_number(w, "pid", s->tgid);
	zn_walk_label(w, "gen_ai.operation.name", operations[route]);
	zn_walk_label(w, "gen_ai.provider.name", "_OTHER");
	zn_walk_label(w, "http.route", zn_request_route(route));
	return true;
}

void zn_metrics_request_gen_ai(struct zn_walk *w)
{
	walk_durations(w, begin_gen_ai);
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

static void put_info(struct zn_walk *w, const struct zn_server *s)
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

/* Engines that are no servers. */
static void put_engines(struct zn_walk *w, const struct zn_serving *v)
{
	for (uint32_t i = 0; i < ZN_ENGINES_MAX; i++) {
		const struct zn_proc *p = zn_serving_engine(w->state->agg->arena, v, i);
		struct zn_server engine = {.role = ZN_ROLE_GPU, .service = v->pid};

		if (!p || zn_server_is(w->state->agg->arena, p->tgid))
			continue;
		engine.tgid = p->tgid;
		engine.job = p->job;
		engine.since_ns = p->first_ns;
		memcpy(engine.comm, p->comm, sizeof(engine.comm));
		put_info(w, &engine);
	}
}

void zn_metrics_server_info(struct zn_walk *w)
{
	const struct zn_serving *v;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	put_info(w, s);
	EACH_SERVICE(w, i, v)
	put_engines(w, v);
}

/* ---- services ---- */

static void service_series(struct zn_walk *w, const struct zn_serving *v)
{
	const struct zn_server *root = zn_server_by_id(w->state->agg->arena, v->id);

	if (root)
		server_series(w, root);
	else
		zn_walk_series(w);
	zn_walk_number(w, "service", v->pid);
}

void zn_metrics_serving_requests(struct zn_walk *w)
{
	const struct zn_serving *v;

	EACH_SERVICE(w, i, v)
	for (uint32_t alone = 0; alone < 2; alone++) {
		uint64_t exact = v->exact < v->done ? v->exact : v->done;

		service_series(w, v);
		zn_walk_label(w, "how", alone ? "alone" : "shared");
		zn_walk_integer(w, alone ? exact : v->done - exact);
	}
}

void zn_metrics_serving_seconds(struct zn_walk *w)
{
	const struct zn_serving *v;

	EACH_SERVICE(w, i, v)
	{
		service_series(w, v);
		zn_walk_scaled(w, v->serving_ns, 9);
	}
}

void zn_metrics_serving_stalls(struct zn_walk *w)
{
	const struct zn_serving *v;

	if (!zn_agg_measures(w->state->agg, ZN_FAM_SCHED))
		return;
	EACH_SERVICE(w, i, v)
	for (enum zn_stall cause = 0; cause < ZN_STALL_COUNT; cause++) {
		service_series(w, v);
		zn_walk_label(w, "cause", zn_stall_label(cause));
		zn_walk_scaled(w, v->work[ZN_WORK_STALL + cause], 9);
	}
}

void zn_metrics_serving_work(struct zn_walk *w)
{
	enum zn_work work = *(const enum zn_work *)w->metric->arg;
	const struct zn_serving *v;

	if (!zn_serving_measured(w->state->agg, work))
		return;
	EACH_SERVICE(w, i, v)
	{
		service_series(w, v);
		zn_walk_scaled(w, v->work[work], zn_serving_work_decimals(work));
	}
}

void zn_metrics_serving_per_request(struct zn_walk *w)
{
	enum zn_work work = *(const enum zn_work *)w->metric->arg;
	const struct zn_serving *v;

	if (!w->state->servings || !zn_serving_measured(w->state->agg, work))
		return;
	EACH_SERVICE(w, i, v)
	{
		const struct zn_serving_view *view = &w->state->servings->view[i];

		if (!view->per_request)
			continue;
		service_series(w, v);
		zn_walk_scaled(w, view->work[work], zn_serving_work_decimals(work) + 3);
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

/* ---- What servers cost: in metrics of processes. ---- */

static bool has_row(struct zn_walk *w, const struct zn_server *s)
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		if (p->tgid == s->tgid)
			return true;
	}
	return false;
}

/* Of those whose process has no row, and so no series. */
void zn_metrics_server_overhead(struct zn_walk *w)
{
	const struct zn_budget *b = w->state->budget;
	const struct zn_server *s;

	EACH_SERVER(w, i, s)
	{
		if (!b || !zn_budget_knows(b, ZN_SPENT_SERVER(i), s->id) || has_row(w, s))
			continue;
		server_series(w, s);
		zn_walk_number(w, "pid", s->tgid);
		zn_walk_scaled(w, 1000 * zn_budget_cost(b, ZN_SPENT_SERVER(i), s->id), 12);
	}
}

void zn_metrics_server_sampled(struct zn_walk *w)
{
	const struct zn_server *server;

	EACH_SERVER(w, i, server)
	{
		const struct zn_spent *s = zn_spare_spent(w->state->agg->arena, ZN_SPENT_SERVER(i), server->id);

		if (!s)
			continue;
		server_series(w, server);
		zn_walk_number(w, "pid", server->tgid);
		zn_walk_label(w, "family", zn_spare_label(ZN_SPARE_REQUESTS));
		zn_walk_scaled(w, zn_spare_now(s, ZN_SPARE_REQUESTS), 3);
	}
}
