/* SPDX-License-Identifier: GPL-2.0 */
/*
 * inference.c: inference servers of the simulated node, and their requests, in one scenario: a front end that streams
 * answers, and a server in one process. In the second half of a cycle the front end is busy: requests lie unread, and
 * some fail.
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

static bool server_is_busy(const struct zn_sim *s, uint32_t server)
{
	return server == 0 && s->phase == ZN_SCENARIO_SERVER;
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
	}
}

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
	record_duration(s, &server->hist[ZN_SERVER_UNREAD], zn_random_around(state, busy ? LATE_NS : UNREAD_NS));
}

static void end_request(struct zn_sim *s, struct zn_sim_request *q)
{
	struct zn_request_series *r = q->series;
	enum zn_request_code code = q->fails ? ZN_OUTCOME_5XX : q->aborted ? ZN_OUTCOME_ABORTED : ZN_OUTCOME_2XX;

	r->in_flight--;
	r->done[code]++;
	r->open_ns += q->open_ns;
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
