/* SPDX-License-Identifier: GPL-2.0 */
/*
 * routes.c: what is answered to a request: the routes, who may ask for them, and the head of each answer. An answer is
 * rendered once for all who ask for the same in one turn of the loop. The connections it goes to are conn.c.
 */
#include <string.h>

#include "zernel.h"

#define NOSNIFF  "X-Content-Type-Options: nosniff\r\n"
#define NO_STORE "Cache-Control: no-store\r\n" NOSNIFF
#define ALLOW    "Allow: GET, HEAD, OPTIONS\r\n"
#define HEAD_MAX 1536 /* of the header lines that are not on every answer */

/* What goes for a route. */
#define OPEN     1  /* without a token: it holds no data */
#define ANY_HOST 2  /* under any name: a scrape's target may be an alias, and /health says little */
#define PACKS    4  /* compressed for those who take that */
#define NARROWS  8  /* takes ?job= and ?topics= */
#define COLLECTS 64 /* takes ?collect[]= */
#define STACKS   32 /* takes ?pid=, ?job=, ?seconds= and ?cause= */
#define FRESH    16 /* what processes and files counted is added up before it */

static const int codes[ZN_CODE_COUNT] = {
#define X(code) code,
	ZN_CODES(X)
#undef X
};

/* What goes with a status: further headers, and the body of an answer that has no other. */
static const struct remark {
	int status;
	const char *extra;
	const char *line;
} remarks[] = {
	{200, NO_STORE, ""},
	{204, NO_STORE ALLOW, ""},
	{304, NO_STORE, ""},
	{400, NO_STORE, "the request is not well-formed"},
	{401, NO_STORE "WWW-Authenticate: Bearer realm=\"zerneld\"\r\n",
		"a token is asked for: Authorization: Bearer TOKEN, one of --token-file"},
	{403, NO_STORE, "this origin or host name may not open the WebSocket; see --ws-origin"},
	{404, NO_STORE,
		"nothing is here; there are /, /metrics, /json, /history, /alerts, /jobs, /why, /ghosts, /stacks, /debug/pprof/, /health and /ws"},
	{405, NO_STORE ALLOW, "only GET, HEAD and OPTIONS are answered"},
	{408, NO_STORE, "the request took longer than 10 s"},
	{413, NO_STORE, "the request's body is too long; none is wanted"},
	{414, NO_STORE, "the request target is too long"},
	{417, NO_STORE, "no expectation but 100-continue is met here"},
	{421, NO_STORE, "this node does not go by that name, see --host-names; nor by https"},
	{426, NO_STORE "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
		"only WebSocket, version 13, is spoken here"},
	{431, NO_STORE, "the request head is too long"},
	{500, NO_STORE, "the answer does not fit into its buffer"},
	{501, NO_STORE, "this method, or the coding of the body, is not known"},
	{503, NO_STORE "Retry-After: 1\r\n", "everything is in use; ask again in a second"},
	{505, NO_STORE, "only HTTP/1.0 and HTTP/1.1 are spoken"},
};
_Static_assert(ZN_HEAD_S == 10, "the line of 408 says so");

static const struct remark *remark_of(int status)
{
	size_t i = 0;

	while (i + 1 < ZN_LEN(remarks) && remarks[i].status != status)
		i++;
	return &remarks[i];
}

/* A buffer for an answer; false: there is none, and the answer is 503. */
static bool begin_answer(struct zn_serve *s, struct zn_answer *to, struct zn_out *o)
{
	to->body = zn_buffer_get(s);
	to->status = to->body ? 200 : 503;
	if (to->body)
		*o = (struct zn_out){.at = to->body->at, .cap = ZN_BUFFER_BYTES};
	return to->body;
}

static void finish_answer(struct zn_serve *s, struct zn_answer *to, const struct zn_out *o, const char *type)
{
	to->type = type;
	to->body->len = o->len;
	if (!o->full)
		return;
	zn_buffer_put(to->body);
	to->body = NULL;
	to->status = 500;
	s->stats.lost[ZN_LOST_RESPONSE]++;
}

static void get_page(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	(void)key;
	*to = (struct zn_answer){200, "text/html; charset=utf-8", &s->page[0]};
	to->body->refs++;
}

static void get_metrics(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	static const char *const types[ZN_FORMAT_COUNT] = {
		[ZN_FORMAT_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
		[ZN_FORMAT_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
		[ZN_FORMAT_PROTO] = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
				    "encoding=delimited",
	};
	struct zn_out o;

	if (!begin_answer(s, to, &o))
		return;
	if (key->format == ZN_FORMAT_PROTO)
		zn_metrics_proto(&o, s->state, key->collect);
	else
		zn_metrics_text(&o, s->state, key->format == ZN_FORMAT_OPENMETRICS, key->collect);
	finish_answer(s, to, &o, types[key->format]);
}

static void get_json(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	if (!begin_answer(s, to, &o))
		return;
	if (!zn_snapshot_json(&o, s->state, &key->filter))
		s->stats.lost[ZN_LOST_TRUNCATED]++;
	finish_answer(s, to, &o, "application/json");
}

static void get_history(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	(void)key;
	if (!begin_answer(s, to, &o))
		return;
	zn_history_json(&o, s->state);
	finish_answer(s, to, &o, "application/json");
}

static void get_alerts(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	(void)key;
	if (!begin_answer(s, to, &o))
		return;
	zn_snapshot_alerts(&o, s->state);
	finish_answer(s, to, &o, "application/json");
}

static void get_jobs(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	(void)key;
	if (!begin_answer(s, to, &o))
		return;
	zn_jobs_json(&o, s->state);
	finish_answer(s, to, &o, "application/json");
}

static void get_why(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	if (!begin_answer(s, to, &o))
		return;
	zn_why_json(&o, s->state, &key->filter);
	finish_answer(s, to, &o, "application/json");
}

static void get_ghosts(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	(void)key;
	if (!begin_answer(s, to, &o))
		return;
	zn_ghosts_json(&o, s->state);
	finish_answer(s, to, &o, "application/json");
}

static void get_health(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	(void)key;
	if (!begin_answer(s, to, &o))
		return;
	to->status = zn_health_json(&o, s->state);
	finish_answer(s, to, &o, "application/json");
}

static void get_stacks(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	if (!begin_answer(s, to, &o))
		return;
	zn_lines_json(&o, s->state, &key->stacks);
	finish_answer(s, to, &o, "application/json");
}

static void get_folded(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	if (!begin_answer(s, to, &o))
		return;
	zn_pprof_folded(&o, s->state, &key->stacks);
	finish_answer(s, to, &o, "text/plain; charset=utf-8");
}

static void get_speedscope(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	if (!begin_answer(s, to, &o))
		return;
	zn_speedscope_json(&o, s->state, &key->stacks);
	finish_answer(s, to, &o, "application/json");
}

static struct zn_buffer *compress_buffer(struct zn_serve *s, const struct zn_buffer *plain, size_t least);

/* Compressed as a file, whatever the client takes: its readers unpack it themselves, if it is. */
static void get_profile(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_buffer *small;
	struct zn_out o;

	if (!begin_answer(s, to, &o))
		return;
	zn_pprof_profile(&o, s->state, &key->stacks);
	finish_answer(s, to, &o, "application/octet-stream");
	small = to->body ? compress_buffer(s, to->body, 1) : NULL;
	if (!small)
		return;
	zn_buffer_put(to->body);
	to->body = small;
}

/* Readers of profiles look for this page first. */
static void get_profiles(struct zn_serve *s, const struct zn_request_key *key, struct zn_answer *to)
{
	struct zn_out o;

	(void)key;
	if (!begin_answer(s, to, &o))
		return;
	zn_out_text(&o,
		"/debug/pprof/profile?seconds=&pid=&job=&cause=\n"
		"where time goes, by the Python functions that it goes to: see docs/STACKS.md\n");
	finish_answer(s, to, &o, "text/plain; charset=utf-8");
}

static const struct zn_route routes[] = {
	{"/", get_page, OPEN | PACKS},
	{"/metrics", get_metrics, ANY_HOST | PACKS | FRESH | COLLECTS},
	{"/json", get_json, PACKS | NARROWS | FRESH},
	{"/history", get_history, PACKS},
	{"/alerts", get_alerts, PACKS},
	{"/jobs", get_jobs, PACKS | FRESH},
	{"/health", get_health, ANY_HOST},
	{"/ws", NULL, 0},
	{"/why", get_why, PACKS | NARROWS},
	{"/ghosts", get_ghosts, PACKS},
	{"/stacks", get_stacks, PACKS | STACKS},
	{"/stacks/folded", get_folded, PACKS | STACKS},
	{"/stacks/speedscope", get_speedscope, PACKS | STACKS},
	{"/debug/pprof/", get_profiles, 0},
	{"/debug/pprof/profile", get_profile, STACKS},
	{NULL, NULL, 0},
};
_Static_assert(ZN_LEN(routes) - 1 <= ZN_ROUTES_MAX, "struct zn_serve has no room to count another route");

/* On the WebSocket port, / and /ws alone exist, and both are the WebSocket. */
static const struct zn_route *find_route(const struct zn_conn *c, struct zn_str path)
{
	bool root = c->ws_port && zn_str_is(path, "/");

	for (const struct zn_route *r = routes; r->path; r++)
		if (c->ws_port ? !r->get && (root || zn_str_is(path, r->path)) : zn_str_is(path, r->path))
			return r;
	return NULL;
}

static void count_request(struct zn_serve *s, const struct zn_route *route, int status)
{
	size_t code = 0;

	while (code + 1 < ZN_CODE_COUNT && codes[code] != status)
		code++;
	s->stats.requests[route ? (size_t)(route - routes) : ZN_ROUTES_MAX][code]++;
}

void zn_answer_drop(struct zn_serve *s)
{
	if (s->shared.body)
		zn_buffer_put(s->shared.body);
	if (s->packed)
		zn_buffer_put(s->packed);
	s->shared = (struct zn_answer){0};
	s->packed = NULL;
}

static bool is_same_stacks(const struct zn_stacks_query *a, const struct zn_stacks_query *b)
{
	return a->pid == b->pid && a->leaf == b->leaf && a->seconds == b->seconds && a->no_job == b->no_job &&
		!strncmp(a->job, b->job, sizeof(a->job));
}

static bool same_key(const struct zn_request_key *a, const struct zn_request_key *b)
{
	return a->route == b->route && a->format == b->format && a->collect == b->collect &&
		!memcmp(&a->filter, &b->filter, sizeof(a->filter)) && is_same_stacks(&a->stacks, &b->stacks);
}

/* Renders an answer, unless the same was asked for earlier in this turn of the loop. */
static void render_answer(struct zn_serve *s, const struct zn_request_key *key)
{
	uint64_t start_ns = zn_now_ns();

	if (s->shared.body && same_key(&s->key, key))
		return;
	zn_answer_drop(s);
	s->key = *key;
	if (key->route->flags & FRESH)
		zn_state_refresh(s->state);
	key->route->get(s, &s->key, &s->shared);
	if (key->route->get == get_metrics)
		s->stats.scrape_ns = zn_now_ns() - start_ns;
}

/* What is shorter than that may become longer by it. */
static struct zn_buffer *compress_buffer(struct zn_serve *s, const struct zn_buffer *plain, size_t least)
{
	struct zn_buffer *b = plain->len >= least && plain->len <= ZN_GZIP_MAX ? zn_buffer_free(s) : NULL;
	struct zn_out o = {.cap = plain->len < ZN_GZIP_MIN ? 2 * ZN_GZIP_MIN : plain->len};

	if (!b)
		return NULL;
	o.at = b->at;
	if (zn_gzip(&o, plain->at, plain->len)) {
		b->len = o.len;
		return b;
	}
	zn_buffer_put(b);
	return NULL;
}

/* Nearly all clients take the page compressed: it is unpacked for the first client that does not. */
static bool page_unpack(struct zn_serve *s)
{
	struct zn_out o = {.at = zn_page, .cap = zn_page_len};

	if (!s->page_unpacked)
		s->page_unpacked = zn_gunzip(&o, zn_page_gzip, zn_page_gzip_len);
	return s->page_unpacked;
}

/* The shared answer compressed, or as it is if that cannot be had. */
static struct zn_buffer *packed_answer(struct zn_serve *s)
{
	if (s->shared.body == &s->page[0])
		return &s->page[1];
	if (!s->packed)
		s->packed = compress_buffer(s, s->shared.body, ZN_GZIP_MIN);
	return s->packed ? s->packed : s->shared.body;
}

/* What is said of an answer besides its body. */
struct saying {
	const struct zn_route *route; /* NULL: none */
	bool http10, head_only, packed;
};

static void put_extra(struct zn_out *o, const struct zn_answer *a, const struct saying *say)
{
	bool page = say->route && say->route->get == get_page && (a->status == 200 || a->status == 304);

	zn_out_text(o, page ? zn_page_headers : remark_of(a->status)->extra);
	if (say->route && say->route->flags & PACKS && (a->body || page))
		zn_out_text(o, "Vary: Accept-Encoding\r\n");
	if (say->packed)
		zn_out_text(o, "Content-Encoding: gzip\r\n");
}

/* Queues an answer. HEAD gets the length of the body, and not the body. */
static void send_answer(struct zn_conn *c, const struct zn_answer *a, const struct saying *say)
{
	bool bare = a->status == 204 || a->status == 304; /* RFC 9110, sections 15.3.5 and 15.4.5 */
	const char *line = c->serve->why[0] ? c->serve->why : remark_of(a->status)->line;
	struct zn_out o = {.at = c->out, .cap = sizeof(c->out)};
	char extra[HEAD_MAX];
	struct zn_out more = {.at = extra, .cap = sizeof(extra) - 1};
	struct zn_http_res res = {.status = a->status,
		.type = bare      ? NULL
			: a->body ? a->type
				  : "text/plain; charset=utf-8",
		.extra = extra,
		.length = a->body ? a->body->len : strlen(line) + 1,
		.close = c->last,
		.keep_alive = say->http10 && !c->last,
		.no_length = bare,
		.date_s = (int64_t)(zn_wall_ms() / 1000)};

	put_extra(&more, a, say);
	extra[more.len] = '\0';
	zn_http_head(&o, &res);
	if (!a->body && !bare && !say->head_only) {
		zn_out_text(&o, line);
		zn_out_char(&o, '\n');
	}
	if (a->body && !say->head_only)
		a->body->refs++;
	zn_conn_queue(c, o.len, say->head_only ? NULL : a->body);
	c->serve->why[0] = '\0';
	c->answer_ns = zn_now_ns() + ZN_ANSWER_S * ZN_NS_PER_S;
}

/* Returns 0 if this client may have this, else the status that says why not. */
static int admit_client(const struct zn_conn *c, const struct zn_http_req *req, unsigned flags)
{
	const struct zn_auth *a = &c->serve->access;

	if (c->local)
		return 0;
	/* without a Host, which HTTP/1.0 may lack, it is no browser, and nobody was misled by a name */
	if (!(flags & ANY_HOST) && req->host.len && !zn_auth_host(a, req->host))
		return 421;
	return flags & OPEN || !a->tokens.count || zn_auth_token(a, req) ? 0 : 401;
}

/* A request for anything else on the port of the WebSocket is meant for the other port. */
static int not_found(struct zn_conn *c)
{
	if (c->ws_port)
		snprintf(c->serve->why, ZN_TEXT_MAX,
			"this port is for the WebSocket alone, at / and /ws; all else is on --metrics-port");
	return 404;
}

/* The status of a request that needs no body, 0: it needs one, and *key says which. After 101 the WebSocket is open. */
static int judge_request(struct zn_conn *c, const struct zn_http_req *req, struct zn_request_key *key)
{
	char path[ZN_HTTP_TARGET_MAX];
	size_t len = zn_http_path(req->path, path, sizeof(path));
	const struct zn_route *route = len ? find_route(c, (struct zn_str){path, len}) : NULL;
	bool all = req->method == ZN_OPTIONS && zn_str_is(req->path, "*");
	int status = admit_client(c, req, route ? route->flags : ANY_HOST);

	memset(key, 0, sizeof(*key)); /* they compare as memory */
	key->route = route;
	key->format = req->format;
	if (status)
		return status;
	if (!len && !all)
		return 400;
	if (req->method == ZN_OPTIONS && (route || all))
		return 204;
	if (!route)
		return not_found(c);
	if (req->method == ZN_OTHER_METHOD)
		return 405;
	if (!route->get)
		return req->upgrade ? zn_push_open(c, req, c->serve->why) : 426;
	if (route->get == get_page && req->if_none_match.at && zn_http_etag_matches(req->if_none_match, zn_page_etag))
		return 304;
	if (route->flags & STACKS && zn_filter_stacks(&key->stacks, req->query, c->serve->why))
		return 400;
	if (route->flags & COLLECTS && zn_filter_collect(&key->collect, req->query, c->serve->why))
		return 400;
	if (route->flags & NARROWS && zn_filter_read(&key->filter, req->query, false, c->serve->why))
		return 400;
	return 0;
}

void zn_answer_request(struct zn_conn *c, const struct zn_http_req *req)
{
	struct saying say = {.http10 = req->http10, .head_only = req->method == ZN_HEAD};
	struct zn_serve *s = c->serve;
	struct zn_answer a = {0};
	struct zn_request_key key;

	c->last = !req->keep_alive;
	s->why[0] = '\0';
	a.status = judge_request(c, req, &key);
	say.route = key.route;
	if (!a.status) {
		render_answer(s, &key);
		a = s->shared;
		if (a.body && req->gzip && key.route->flags & PACKS)
			a.body = packed_answer(s);
		say.packed = a.body != s->shared.body;
	}
	if (a.body == &s->page[0] && !say.head_only && !page_unpack(s)) {
		a = (struct zn_answer){.status = 500};
		s->stats.lost[ZN_LOST_RESPONSE]++;
	}
	count_request(s, key.route, a.status);
	if (a.status != 101)
		send_answer(c, &a, &say);
}

void zn_answer_error(struct zn_conn *c, int status, bool head_only)
{
	c->last = true;
	send_answer(c, &(struct zn_answer){.status = status}, &(struct saying){.head_only = head_only});
	if (!c->refused) /* else there was no request */
		count_request(c->serve, NULL, status);
}

void zn_answer_open(struct zn_serve *s)
{
	for (size_t i = 0; i + 1 < ZN_LEN(routes); i++)
		s->stats.path[i] = routes[i].path;
	s->page[0] = (struct zn_buffer){zn_page, zn_page_len, 1, 0};
	s->page[1] = (struct zn_buffer){(char *)zn_page_gzip, zn_page_gzip_len, 1, 0};
}
