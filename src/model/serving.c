/* SPDX-License-Identifier: GPL-2.0 */
/*
 * serving.c: services: servers and engines that serve together, as the finder joins them, in the table that
 * bpf/service.bpf.h divides work in; the slowest requests of a tick; what a request takes of its engines.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>

#define LOCK_TRIES 4096
#define MARK_NS    (10 * ZN_NS_PER_S)
#define LONGER     4                  /* a window is so many times as long as its requests, or says nothing of one */
#define SHOWN_NS   (60 * ZN_NS_PER_S) /* for so long the slowest of the last tick in which one ended are shown */

struct zn_work_kind {
	const char *key;
	int decimals;
};
static const struct zn_work_kind kinds[] = {
#define X(e, key, decimals) {key, decimals},
	ZN_WORKS(X)
#undef X
};

const char *zn_serving_work_key(enum zn_work work)
{
	return kinds[work].key;
}

int zn_serving_work_decimals(enum zn_work work)
{
	return kinds[work].decimals;
}

bool zn_serving_measured(const struct zn_agg *a, enum zn_work work)
{
	static const enum zn_family of[] = {[ZN_WORK_SYSCALLS] = ZN_FAM_SYSCALLS,
		[ZN_WORK_SWITCHES] = ZN_FAM_SCHED,
		[ZN_WORK_FAULTS] = ZN_FAM_SCHED,
		[ZN_WORK_QUEUED] = ZN_FAM_SCHED,
		[ZN_WORK_IOCTL] = ZN_FAM_IOCTL};

	if (work == ZN_WORK_LAUNCHES)
		return a->arena->shared->families >> ZN_FAM_CUDA_TRACE & 1;
	return zn_agg_measures(a, work < ZN_WORK_STALL ? of[work] : ZN_FAM_SCHED);
}

const struct zn_serving *zn_serving_at(const struct zn_arena *a, uint32_t index)
{
	const struct zn_serving *s = a->services && index < ZN_SERVICES_MAX ? &a->services[index] : NULL;

	return s && s->id ? s : NULL;
}

const struct zn_proc *zn_serving_engine(const struct zn_arena *a, const struct zn_serving *s, uint32_t i)
{
	const struct zn_proc *p;

	if (i >= s->engines || i >= ZN_ENGINES_MAX || s->row[i] >= ZN_PROCS_MAX)
		return NULL;
	p = zn_arena_proc((struct zn_arena *)a, s->row[i]);
	return p && p->id == s->row_id[i] && !p->exit_ns ? p : NULL;
}

/* A program that has it is done in a microsecond, unless it is preempted: then at the next tick. */
static bool lock_service(struct zn_serving *s)
{
	for (int i = 0; i < LOCK_TRIES; i++) {
		uint32_t none = 0;

		if (__atomic_compare_exchange_n(&s->lock, &none, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

static void unlock_service(struct zn_serving *s)
{
	__atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
}

/* ---- who belongs to it ---- */

static void count_lost(struct zn_arena *a)
{
	__atomic_fetch_add(&a->shared->lost[ZN_LOST_SERVICE], 1, __ATOMIC_RELAXED);
}

static int find_service(const struct zn_arena *a, uint32_t id)
{
	for (int i = 0; i < ZN_SERVICES_MAX; i++)
		if (a->services[i].id == id)
			return i;
	return -1;
}

/* One whose outermost server is this: its id is the service's. */
static int make_service(struct zn_servings *v, const struct zn_server *root)
{
	struct zn_arena *a = v->arena;
	int at = find_service(a, 0);

	if (at < 0 || !zn_quota_take(&a->shared->quota[ZN_QUOTA_SERVICE], root->owner)) {
		if (v->refused != root->id)
			count_lost(a);
		v->refused = root->id;
		return -1;
	}
	v->view[at] = (struct zn_serving_view){0};
	a->services[at].pid = root->tgid;
	a->services[at].owner = root->owner;
	__atomic_store_n(&a->services[at].id, root->id, __ATOMIC_RELEASE);
	return at;
}

/* The server of this index, of the time when the finder looked. */
static struct zn_server *server_of(const struct zn_arena *a, const struct zn_joined *j, uint32_t index)
{
	struct zn_server *s = index < ZN_SERVERS_MAX ? &a->servers[index] : NULL;

	return s && s->id && s->id == j->server[index].id && !s->gone_ns ? s : NULL;
}

static void join_server(struct zn_servings *v, const struct zn_joined *j, uint32_t index)
{
	struct zn_server *s = server_of(v->arena, j, index), *root, *above;
	int at;

	root = s ? server_of(v->arena, j, j->server[index].root) : NULL;
	if (!root)
		return;
	at = find_service(v->arena, root->id);
	if (at < 0)
		at = make_service(v, root);
	above = j->server[index].above ? server_of(v->arena, j, j->server[index].above - 1) : NULL;
	s->service = root->tgid;
	s->above = above ? j->server[index].above : 0;
	__atomic_store_n(&s->service_at, at >= 0 ? (uint32_t)at + 1 : 0, __ATOMIC_RELEASE);
}

static void join_engines(struct zn_servings *v, const struct zn_joined *j, uint32_t index)
{
	struct zn_serving *s = &v->arena->services[index];
	uint32_t row[ZN_ENGINES_MAX] = {0}, id[ZN_ENGINES_MAX] = {0}, count = 0, refused = 0;

	for (uint32_t r = 0; r < ZN_PROCS_MAX; r++) {
		const struct zn_server *root = j->engine[r].root ? server_of(v->arena, j, j->engine[r].root - 1) : NULL;

		if (!root || root->id != s->id)
			continue;
		refused += count == ZN_ENGINES_MAX;
		if (count == ZN_ENGINES_MAX)
			continue;
		row[count] = r;
		id[count++] = j->engine[r].id;
	}
	if (refused > s->refused)
		count_lost(v->arena);
	s->refused = refused;
	if (memcmp(row, s->row, sizeof(row)) == 0 && memcmp(id, s->row_id, sizeof(id)) == 0 && count == s->engines)
		return;
	if (!lock_service(s)) {
		v->again = true;
		return;
	}
	memcpy(s->row, row, sizeof(row));
	memcpy(s->row_id, id, sizeof(id));
	s->engines = count;
	unlock_service(s);
}

void zn_serving_join(struct zn_servings *v, const struct zn_joined *j)
{
	struct zn_arena *a = v->arena;

	if (!a || !a->services)
		return;
	v->again = false;
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)
		join_server(v, j, i);
	for (uint32_t i = 0; i < ZN_SERVICES_MAX; i++)
		if (a->services[i].id)
			join_engines(v, j, i);
}

/* ---- those that end ---- */

static bool has_servers(const struct zn_arena *a, uint32_t index)
{
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)
		if (a->servers[i].id && !a->servers[i].gone_ns && a->servers[i].service_at == index + 1)
			return true;
	return false;
}

static bool has_root(const struct zn_arena *a, uint32_t index)
{
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)
		if (a->servers[i].id == a->services[index].id && !a->servers[i].gone_ns)
			return true;
	return false;
}

static void leave_servers(struct zn_arena *a, uint32_t index)
{
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++)
		if (a->servers[i].service_at == index + 1)
			__atomic_store_n(&a->servers[i].service_at, 0, __ATOMIC_RELEASE);
}

/* First nothing begins in it any more, and a tick later it is free: programs that found it are done by then. */
static void end_service(struct zn_servings *v, uint32_t index)
{
	struct zn_serving *s = &v->arena->services[index];
	uint32_t owner = s->owner;

	if (!v->view[index].leaves) {
		leave_servers(v->arena, index);
		v->view[index].leaves = true;
		return;
	}
	if (!lock_service(s))
		return;
	memset(s, 0, sizeof(*s));
	zn_quota_give(&v->arena->shared->quota[ZN_QUOTA_SERVICE], owner);
	v->view[index] = (struct zn_serving_view){0};
}

/* ---- what is shown of one ---- */

static void take_slowest(struct zn_serving *s, struct zn_serving_view *view, uint64_t now_ns)
{
	uint32_t count, of;

	if (!s->slow_count && now_ns - view->slow_ns > SHOWN_NS)
		view->slow_count = 0;
	if (!s->slow_count || !lock_service(s))
		return;
	of = s->slow_of & 1;
	count = s->slow_count;
	s->slow_of = !of;
	s->slow_count = 0;
	unlock_service(s);
	view->slow_count = count < ZN_SLOWEST ? count : ZN_SLOWEST;
	memcpy(view->slow, s->slowest[of], view->slow_count * sizeof(view->slow[0]));
	view->slow_ns = now_ns;
	for (uint32_t i = 1; i < view->slow_count; i++)
		for (uint32_t k = i; k && view->slow[k].ns > view->slow[k - 1].ns; k--) {
			struct zn_slow_request slow = view->slow[k];

			view->slow[k] = view->slow[k - 1];
			view->slow[k - 1] = slow;
		}
}

static void take_mark(const struct zn_serving *s, struct zn_serving_view *view, uint64_t now_ns)
{
	const struct zn_serving_mark *last = &view->mark[(view->marks - 1) % ZN_SERVING_MARKS];
	struct zn_serving_mark *mark = &view->mark[view->marks % ZN_SERVING_MARKS];

	if (view->marks && now_ns - last->at_ns < MARK_NS)
		return;
	mark->at_ns = now_ns;
	mark->done = s->done;
	mark->open_ns = s->open_ns;
	memcpy(mark->work, s->work, sizeof(mark->work));
	view->marks++;
}

/* Over the last minute: what was done by how many requests ended. Their own length does not matter if the time is much
 * longer. */
static void divide_work(const struct zn_serving *s, struct zn_serving_view *view, uint64_t now_ns)
{
	uint32_t count = view->marks < ZN_SERVING_MARKS ? view->marks : ZN_SERVING_MARKS;
	const struct zn_serving_mark *from = count ? &view->mark[(view->marks - count) % ZN_SERVING_MARKS] : NULL;

	view->per_request = false;
	if (!from || s->done <= from->done || now_ns <= from->at_ns)
		return;
	view->requests = s->done - from->done;
	if ((s->open_ns - from->open_ns) / view->requests * LONGER > now_ns - from->at_ns)
		return;
	view->per_request = true;
	for (enum zn_work w = 0; w < ZN_WORK_COUNT; w++)
		view->work[w] = (uint64_t)((__uint128_t)(s->work[w] - from->work[w]) * 1000 / view->requests);
}

void zn_serving_init(struct zn_servings *v, struct zn_arena *a)
{
	zn_pages_clear(v, sizeof(*v));
	v->arena = a;
}

void zn_serving_tick(struct zn_servings *v, uint64_t now_ns)
{
	struct zn_arena *a = v->arena;

	for (uint32_t i = 0; a && a->services && i < ZN_SERVICES_MAX; i++) {
		struct zn_serving *s = &a->services[i];
		struct zn_serving_view *view = &v->view[i];

		if (!s->id)
			continue;
		if (view->leaves || !has_root(a, i) || !has_servers(a, i)) {
			end_service(v, i);
			continue;
		}
		take_slowest(s, view, now_ns);
		divide_work(s, view, now_ns);
		take_mark(s, view, now_ns);
	}
}
