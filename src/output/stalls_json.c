/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stalls_json.c: why a GPU is idle, as JSON of a process.
 */
#include "zernel.h"
#include <string.h>

#define NS 9 /* decimals from nanoseconds to seconds, and to milliseconds */
#define MS 6

static void key_share(struct zn_json *j, const char *key, bool known, uint64_t v)
{
	if (known)
		zn_json_key_scaled(j, key, v, NS);
	else
		zn_json_key_null(j, key);
}

void zn_stalls_seconds(struct zn_json *j, const uint64_t ns[ZN_STALL_COUNT])
{
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		if (s == ZN_STALL_DATA && !ns[s])
			zn_json_key_null(j, zn_stall_label(s));
		else
			zn_json_key_scaled(j, zn_stall_label(s), ns[s], NS);
}

/* Whom it waits for, so that nobody takes that for a wait for its GPU: the rank of this node that does not come, or,
 * with all others of this node, one that is not known. */
static void put_waits(struct zn_json *j, const struct zn_stalls_summary *f)
{
	if (f->waits_for)
		zn_json_key_u64(j, "waits_for_pid", f->waits_for->tgid);
	else
		zn_json_key_null(j, "waits_for_pid");
	if (f->stopped_ns)
		zn_json_key_text(j, "stopped", zn_stopped_label(f->stop));
	else
		zn_json_key_null(j, "stopped");
	zn_json_key(j, "all_wait");
	zn_json_bool(j, f->all_wait && !f->waits_for && !f->missing && !f->stopped_ns);
}

/* A rank that is missing, that waits for one, or that is stopped is shown even if its time is not known: a long
 * sleep has no cause yet. */
void zn_stalls_json(struct zn_json *j, const struct zn_state *state, uint32_t row)
{
	struct zn_stalls_summary f;
	struct zn_stall_ratios s;
	char says[ZN_SAYS_MAX];
	bool known = zn_stalls_shares(state->agg, row, &s);

	zn_stalls_summary(state->agg, state->ranks, state->stopped, row, &s, &f);
	if (!known && !f.missing && !f.waits_for && !f.all_wait && !f.stopped_ns) {
		zn_json_key_null(j, "stalls");
		return;
	}
	zn_stalls_says(&f, says);
	zn_json_key_open(j, "stalls", '{');
	for (enum zn_stall i = 0; i < ZN_STALL_COUNT; i++)
		key_share(j, zn_stall_label(i), s.known[i], s.share[i]);
	zn_json_key_open(j, "seconds", '{');
	zn_stalls_seconds(j, known ? s.seconds_ns : state->agg->info[row].stall_ns);
	zn_json_close(j, '}');
	zn_json_key_text(j, "says", says);
	put_waits(j, &f);
	zn_json_close(j, '}');
}

void zn_stalls_blocked_json(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p)
{
	struct zn_blocked_thread t;

	if (!state->blocked || !zn_blocked_oldest(state->blocked, row, p, &t))
		return;
	zn_json_key_open(j, "blocked", '{');
	zn_json_key_u64(j, "tid", t.tid);
	zn_json_key_scaled(j, "seconds", state->blocked->tick_ns - t.since_ns, NS);
	if (t.place[0] && strcmp(t.place, "0"))
		zn_json_key_text(j, "in", t.place);
	else
		zn_json_key_null(j, "in");
	zn_json_close(j, '}');
}

static void put_quantiles(struct zn_json *j, const struct zn_hist *h)
{
	struct zn_summary s = h ? zn_hist_summary(h) : (struct zn_summary){0};

	zn_json_key_u64(j, "count", s.count);
	zn_json_key_scaled(j, "p50_ms", s.p50_ns, MS);
	zn_json_key_scaled(j, "p99_ms", s.p99_ns, MS);
	zn_json_key_scaled(j, "sum_ms", h ? h->sum_ns : 0, MS);
}

void zn_stalls_loader_json(struct zn_json *j, const struct zn_state *state, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(state->agg->arena, row);
	uint32_t busy = zn_stalls_workers_busy(state->agg, row);

	if (!zn_stalls_loader(state->agg, row)) {
		zn_json_key_null(j, "dataloader");
		return;
	}
	zn_json_key_open(j, "dataloader", '{');
	put_quantiles(j, zn_arena_hist(state->agg->arena, p->hist[ZN_H_DATALOAD]));
	zn_json_key_text(j, "loader", "pytorch");
	zn_json_key_u64(j, "workers", p->count[ZN_C_WORKERS]);
	key_share(j, "workers_busy_ratio", busy != ZN_UNKNOWN, busy);
	zn_json_key_open(j, "worker_idle", '{');
	put_quantiles(j, zn_arena_hist(state->agg->arena, p->hist[ZN_H_WORKER_IDLE]));
	zn_json_close(j, '}');
	zn_json_close(j, '}');
}
