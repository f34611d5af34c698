/* SPDX-License-Identifier: GPL-2.0 */
/*
 * inference.c: inference servers of the simulated node, and their requests, in one scenario: a front end that streams
 * answers, with its engine, and a server in one process. In the second half of a cycle the front end is busy: requests
 * lie unread, and some fail, while the engine has less to do. Work is divided among requests as in bpf/service.bpf.h.
 */
#include "zernel.h"

#define MS         1000000ULL
#define NS_PER_MS  ZN_NS_PER_MS
#define RTT_NS     180000ULL
#define SLOW_TIMES 4
#define UNREAD_NS  (3 * MS)
#define LATE_NS    (800 * MS) /* unread, while the front end is busy */
#define FAILS      12         /* one request in so many, likewise */
#define ABORTS     60         /* one request in so many */
#define LAUNCH_NS  4100ULL

/* What the clients of a server ask for: per mille of each millisecond; how the answer comes. */
static const struct asked {
	uint32_t server;
	enum zn_request_route route;
	uint32_t permill, events;
	uint64_t first_ns, gap_ns;
} asked[] = {
	{0, ZN_ROUTE_CHAT, 6, 40, 180 * MS, 24 * MS},
	{0, ZN_ROUTE_COMPLETIONS, 2, 0, 700 * MS, 0},
	{0, ZN_ROUTE_EMBEDDINGS, 3, 0, 9 * MS, 0},
	{1, ZN_ROUTE_COMPLETION, 1, 90, 60 * MS, 31 * MS},
};

static const struct zn_server servers[ZN_SIM_SERVERS] = {
	{.tgid = 900, .port = 8000, .comm = "vllm", .role = ZN_ROLE_FRONT, .service = 900},
	{.tgid = 940, .port = 8080, .comm = "llama-server", .role = ZN_ROLE_BOTH, .service = 940},
};

/* Their engines: the process, and its launches in a millisecond with a request in flight. */
static const struct {
	uint32_t tgid, launches;
	const char *comm;
} engines[ZN_SIM_SERVERS] = {{901, 3, "VLLM::EngineCor"}, {940, 2, "llama-server"}};

/* Where a millisecond of an engine's launching thread goes, in us, by enum zn_stall. */
enum { ENGINE_SERVES, ENGINE_STARVES, ENGINE_RESTS };
static const uint16_t spent_us[][ZN_STALL_COUNT] = {
	[ENGINE_SERVES] = {150, 780, 0, 0, 0, 10, 60},
	[ENGINE_STARVES] = {60, 300, 0, 0, 0, 10, 630},
	[ENGINE_RESTS] = {0, 0, 0, 0, 0, 0, 1000},
};

/* What the front end does in a millisecond, in ns: runs, on its main thread, waits for a CPU. */
static const struct zn_front_times front_calm = {260000, 250000, 2000}, front_busy = {1010000, 985000, 15000};

static bool server_is_busy(const struct zn_sim *s, uint32_t server)
{
	return server == 0 && s->phase == ZN_SCENARIO_SERVER;
}

/* Each server is a service of its own, at the same index. */
static void start_engine(struct zn_sim *s, uint32_t i)
{
	struct zn_serving *v = &s->memory.arena.services[i];
	struct zn_proc *p = zn_memory_claim(&s->memory, engines[i].tgid, engines[i].comm);

	s->engine[i] = p;
	if (!p)
		return;
	*v = (struct zn_serving){.pid = s->server[i]->tgid, .id = s->server[i]->id, .engines = 1};
	v->row[0] = (uint32_t)(p - s->memory.arena.procs);
	v->row_id[0] = p->id;
	v->at_ns = zn_now_ns();
	s->server[i]->service_at = i + 1;
}

void zn_sim_servers_start(struct zn_sim *s)
{
	struct zn_arena *a = &s->memory.arena;

	for (uint32_t i = 0; i < ZN_SIM_SERVERS; i++) {
		struct zn_server server = servers[i];
		int index;

		server.since_ns = zn_now_ns();
		index = a->ops->server_add(a, &server);
		s->server[i] = index < 0 ? NULL : &a->servers[index];
		if (s->server[i])
			start_engine(s, i);
	}
}

bool zn_sim_servers_front(void *sim, uint32_t tgid, struct zn_front_times *to)
{
	const struct zn_sim *s = sim;

	*to = s->front;
	return tgid == servers[0].tgid;
}

/* ---- Engines. ---- */

static struct zn_serving *service_of(struct zn_sim *s, uint32_t server)
{
	return s->engine[server] ? &s->memory.arena.services[server] : NULL;
}

static void run_front(struct zn_sim *s)
{
	const struct zn_front_times *more = server_is_busy(s, 0) ? &front_busy : &front_calm;

	s->front.cpu_ns += more->cpu_ns;
	s->front.main_ns += more->main_ns;
	s->front.queued_ns += more->queued_ns;
}

/* A millisecond of it, to `grown`. */
static void run_engine(struct zn_sim *s, uint32_t server, uint64_t grown[ZN_WORK_COUNT])
{
	struct zn_proc *p = s->engine[server];
	bool serves = s->memory.arena.services[server].in_flight > 0;
	uint32_t how = !serves ? ENGINE_RESTS : server_is_busy(s, server) ? ENGINE_STARVES : ENGINE_SERVES;
	uint32_t launches = serves ? engines[server].launches : 0;

	for (enum zn_stall c = 0; c < ZN_STALL_COUNT; c++) {
		grown[ZN_WORK_STALL + c] = spent_us[how][c] * 1000ULL;
		p->count[ZN_C_STALL_CPU + c] += grown[ZN_WORK_STALL + c];
	}
	for (uint32_t i = 0; i < launches; i++)
		zn_memory_record(&s->memory, p, ZN_H_LAUNCH, LAUNCH_NS, 0);
	p->count[ZN_C_LAUNCH_KERNEL] += launches;
	p->count[ZN_C_SYSCALLS] += 2 * launches;
	p->count[ZN_C_SWITCH_VOLUNTARY] += launches;
	p->count[ZN_C_FAULTS_MINOR] += launches;
	grown[ZN_WORK_LAUNCHES] = launches;
	grown[ZN_WORK_SYSCALLS] = 2 * launches;
	grown[ZN_WORK_SWITCHES] = launches;
	grown[ZN_WORK_FAULTS] = launches;
}

static void advance_clock(struct zn_sim *s, uint32_t server)
{
	struct zn_serving *v = service_of(s, server);
	uint64_t grown[ZN_WORK_COUNT] = {0};

	if (!v)
		return;
	run_engine(s, server, grown);
	for (uint32_t k = 0; k < ZN_WORK_COUNT; k++) {
		if (v->in_flight > 0) {
			v->clock[k] += (grown[k] << ZN_SHARE_BITS) / (uint32_t)v->in_flight;
			v->work[k] += grown[k];
		} else {
			v->idle[k] += grown[k];
		}
	}
	v->serving_ns += v->in_flight > 0 ? MS : 0;
	v->at_ns = zn_now_ns();
}

static void begin_share(struct zn_sim *s, struct zn_sim_request *q)
{
	struct zn_serving *v = service_of(s, asked[q->what].server);

	if (!v)
		return;
	q->begun = v->in_flight++ ? 0 : v->begun + 1;
	v->begun++;
	for (uint32_t k = 0; k < ZN_WORK_COUNT; k++)
		q->share[k] = v->clock[k];
}

static void keep_slow(struct zn_serving *v, const struct zn_slow_request *r)
{
	struct zn_slow_request *slow = v->slowest[v->slow_of & 1], *least = slow;

	if (v->slow_count < ZN_SLOWEST) {
		slow[v->slow_count++] = *r;
		return;
	}
	for (uint32_t i = 1; i < ZN_SLOWEST; i++)
		least = slow[i].ns < least->ns ? &slow[i] : least;
	if (least->ns < r->ns)
		*least = *r;
}

static void end_share(struct zn_sim *s, const struct zn_sim_request *q, enum zn_request_code code)
{
	struct zn_serving *v = service_of(s, asked[q->what].server);
	struct zn_slow_request r = {.ns = q->open_ns,
		.end_ns = zn_now_ns(),
		.first_ns = q->first_ns,
		.unread_ns = q->unread_ns,
		.tgid = servers[asked[q->what].server].tgid,
		.events = asked[q->what].events && q->first_ns ? asked[q->what].events - q->events : 0,
		.route = (uint16_t)asked[q->what].route,
		.code = (uint16_t)code};

	if (!v)
		return;
	r.exact = q->begun && q->begun == v->begun;
	for (uint32_t k = 0; k < ZN_WORK_COUNT; k++) {
		uint64_t share = v->clock[k] - q->share[k];
		uint64_t part = v->given_part[k] + (share & ((1 << ZN_SHARE_BITS) - 1));

		v->given[k] += (share >> ZN_SHARE_BITS) + (part >> ZN_SHARE_BITS);
		v->given_part[k] = part & ((1 << ZN_SHARE_BITS) - 1);
		r.share[k] = share;
	}
	v->in_flight--;
	v->done++;
	v->exact += r.exact;
	v->open_ns += q->open_ns;
	keep_slow(v, &r);
}

/* ---- Requests. ---- */

static struct zn_hist *hist_at(struct zn_sim *s, uint32_t *slot)
{
	if (!*slot)
		*slot = zn_memory_hist(&s->memory);
	return &s->memory.arena.hists[*slot];
}

static void record_duration(struct zn_sim *s, uint32_t *slot, uint64_t ns)
{
	struct zn_hist *h = hist_at(s, slot);

	if (*slot)
		zn_hist_add(h, ns);
}

static void begin_request(struct zn_sim *s, uint32_t what)
{
	const struct asked *k = &asked[what];
	struct zn_server *server = s->server[k->server];
	struct zn_request_series *r = zn_memory_series(&s->memory, server, k->route);
	uint64_t *state = &s->server_state;
	bool busy = server_is_busy(s, k->server);
	uint32_t i = 0;

	while (i < ZN_SIM_REQUESTS && s->request[i].series)
		i++;
	if (i == ZN_SIM_REQUESTS || !r)
		return;
	s->request[i] = (struct zn_sim_request){.series = r, .what = what, .events = k->events};
	s->request[i].fails = busy && zn_random_below(state, FAILS) == 0;
	s->request[i].aborted = zn_random_below(state, ABORTS) == 0;
	s->request[i].wait_ns = zn_random_around(state, k->first_ns * (busy ? SLOW_TIMES : 1));
	r->in_flight++;
	s->request[i].unread_ns = zn_random_around(state, busy ? LATE_NS : UNREAD_NS);
	record_duration(s, &server->hist[ZN_SERVER_UNREAD], s->request[i].unread_ns);
	begin_share(s, &s->request[i]);
}

static void end_request(struct zn_sim *s, struct zn_sim_request *q)
{
	struct zn_request_series *r = q->series;
	enum zn_request_code code = q->fails ? ZN_OUTCOME_5XX : q->aborted ? ZN_OUTCOME_ABORTED : ZN_OUTCOME_2XX;

	r->in_flight--;
	r->done[code]++;
	r->open_ns += q->open_ns;
	end_share(s, q, code);
	if (code != ZN_OUTCOME_ABORTED)
		record_duration(s, &r->hist[ZN_REQUEST_WHOLE], q->open_ns);
	record_duration(
		s, &s->server[asked[q->what].server]->hist[ZN_SERVER_RTT], zn_random_around(&s->server_state, RTT_NS));
	q->series = NULL;
}

/* What a request waited for has come: the first event, another one, or the whole answer. */
static void answer_request(struct zn_sim *s, struct zn_sim_request *q)
{
	const struct asked *k = &asked[q->what];
	struct zn_request_series *r = q->series;
	bool streams = k->events && !q->fails;

	q->open_ns += q->wait_ns;
	if (streams)
		record_duration(s, &r->hist[q->events == k->events ? ZN_REQUEST_FIRST : ZN_REQUEST_GAP], q->wait_ns);
	r->events += streams;
	q->first_ns = streams && !q->first_ns ? q->open_ns : q->first_ns;
	if (!streams || --q->events == 0 || (q->aborted && q->events == k->events / 2)) {
		end_request(s, q);
		return;
	}
	q->since_ns -= q->wait_ns;
	q->wait_ns = zn_random_around(&s->server_state, k->gap_ns);
}

void zn_sim_servers_run(struct zn_sim *s)
{
	if (s->scenario != ZN_SCENARIO_SERVER)
		return;
	run_front(s);
	for (uint32_t i = 0; i < ZN_SIM_SERVERS; i++)
		advance_clock(s, i);
	for (uint32_t what = 0; what < ZN_LEN(asked); what++)
		if (s->server[asked[what].server] && zn_random_below(&s->server_state, 1000) < asked[what].permill)
			begin_request(s, what);
	for (uint32_t i = 0; i < ZN_SIM_REQUESTS; i++) {
		struct zn_sim_request *q = &s->request[i];

		q->since_ns += q->series ? NS_PER_MS : 0;
		while (q->series && q->since_ns >= q->wait_ns)
			answer_request(s, q);
	}
}
