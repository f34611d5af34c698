/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_process.c: what metrics of processes yield: their calls, their share of GPUs, their communicators, what the
 * kernel sees of them.
 */
#include <string.h>

#include "zernel.h"

static const char *job_id(struct zn_walk *w, const struct zn_proc *p)
{
	return w->state->jobs && p ? zn_job_id(w->state->jobs, p) : NULL;
}

/* A series of a process begins with its first hooked call. */
static void process_series(struct zn_walk *w, const struct zn_proc *p)
{
	zn_walk_series(w);
	zn_walk_number(w, "pid", p->tgid);
	w->job_id = job_id(w, p);
	w->sample.since_ms = zn_state_wall_ms(w->state, p->first_ns);
}

void zn_metrics_process_counts(struct zn_walk *w)
{
	const struct zn_metric_counts *c = w->metric->arg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		for (uint32_t i = 0; i < c->count; i++) {
			uint64_t v = p->count[c->first + i];

			if (v == 0)
				continue;
			process_series(w, p);
			if (c->label)
				zn_walk_label(w, c->label, c->value[i]);
			zn_walk_scaled(w, v, c->decimals);
		}
	}
}

void zn_metrics_process_rates(struct zn_walk *w)
{
	const struct zn_metric_rate *f = w->metric->arg;
	struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;
	struct zn_rates rates;

	ZN_EACH_PROC(w, r, p)
	{
		uint64_t v, events = 0;

		for (enum zn_counter i = f->first; i <= f->last; i++)
			events += p->count[i];
		zn_rates_of(w->state->rates, agg->row[r], p->id, &rates);
		v = *(const uint64_t *)((const char *)&rates + f->offset);
		if (events == 0 || v == ZN_NOT_KNOWN)
			continue;
		process_series(w, p);
		zn_walk_scaled(w, v, 3);
	}
}

static bool had_memory(const struct zn_proc *p)
{
	uint64_t peak = 0;

	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++)
		peak |= p->gpu[o].peak_bytes;
	return peak;
}

static bool had_pinned(const struct zn_proc *p)
{
	uint64_t calls = 0;

	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++)
		calls |= p->gpu[o].alloc_calls[ZN_K_HOST];
	return calls || p->count[ZN_C_HOST_PINNED];
}

void zn_metrics_process_memory_complete(struct zn_walk *w)
{
	const struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		uint8_t ledger = agg->info[agg->row[r]].ledger;

		if (ledger == ZN_LEDGER_UNKNOWN || (ledger == ZN_LEDGER_WHOLE && !had_pinned(p) && !had_memory(p)))
			continue;
		process_series(w, p);
		zn_walk_integer(w, ledger == ZN_LEDGER_WHOLE);
	}
}

/* A gauge stays when it is back at 0, but does not appear before there was something. */
void zn_metrics_process_pinned(struct zn_walk *w)
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		if (!had_pinned(p) || !zn_agg_memory_known(w->state->agg, w->state->agg->row[r]))
			continue;
		process_series(w, p);
		zn_walk_integer(w, p->count[ZN_C_HOST_PINNED]);
	}
}

void zn_metrics_process_stalls(struct zn_walk *w)
{
	const struct zn_proc *p;
	struct zn_stall_ratios shares;

	ZN_EACH_PROC(w, r, p)
	{
		if (!zn_stalls_shares(w->state->agg, w->state->agg->row[r], &shares))
			continue;
		for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
			if (!shares.known[s])
				continue;
			process_series(w, p);
			zn_walk_label(w, "cause", zn_stall_label(s));
			zn_walk_scaled(w, shares.share[s], 9);
		}
	}
}

void zn_metrics_process_workers(struct zn_walk *w)
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		if (!zn_stalls_loader(w->state->agg, w->state->agg->row[r]))
			continue;
		process_series(w, p);
		zn_walk_integer(w, p->count[ZN_C_WORKERS]);
	}
}

void zn_metrics_process_worker_time(struct zn_walk *w)
{
	static const char *const state[] = {"busy", "idle"};
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		if (!zn_stalls_loader(w->state->agg, w->state->agg->row[r]))
			continue;
		for (uint32_t i = 0; i < ZN_LEN(state); i++) {
			if (p->count[ZN_C_WORKER_BUSY_NS + i] == 0)
				continue;
			process_series(w, p);
			zn_walk_label(w, "state", state[i]);
			zn_walk_scaled(w, p->count[ZN_C_WORKER_BUSY_NS + i], 9);
		}
	}
}

void zn_metrics_process_shares(struct zn_walk *w)
{
	const struct zn_metric_share *f = w->metric->arg;
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		size_t n = zn_agg_shares(agg, agg->row[r], share);

		for (size_t i = 0; i < n * f->count; i++) {
			const struct zn_gpu_usage *s = &share[i / f->count];
			uint64_t v = ((const uint64_t *)((const char *)&s->sum + f->offset))[i % f->count];

			if ((v == 0 && !(f->always && s->sum.peak_bytes)) || (f->ledger && s->partial))
				continue;
			process_series(w, p);
			zn_walk_label(w, "gpu_id", agg->gpus.gpu[s->gpu].id);
			if (f->label)
				zn_walk_label(w, f->label, f->value[i % f->count]);
			zn_walk_integer(w, v);
		}
	}
}

/* NULL: there is nothing to show. */
static const struct zn_hist *durations_of(struct zn_walk *w, const struct zn_proc *p, enum zn_operation i)
{
	struct zn_agg *agg = w->state->agg;
	const struct zn_hist *h = p ? zn_arena_hist(agg->arena, p->hist[i]) : zn_agg_merge(agg, i);

	return h && h->calls ? h : NULL;
}

static void durations_between(struct zn_walk *w, const struct zn_metric_durations *d, const struct zn_proc *p)
{
	for (enum zn_operation i = d->first; i <= d->last; i++) {
		const struct zn_hist *h = durations_of(w, p, i);

		if (!h)
			continue;
		if (p)
			process_series(w, p);
		else
			zn_walk_series(w);
		if (d->label)
			zn_walk_label(w, d->label, zn_operation_label(i));
		zn_walk_durations(w, h);
	}
}

void zn_metrics_process_durations(struct zn_walk *w)
{
	const struct zn_metric_durations *d = w->metric->arg;
	const struct zn_proc *p;

	if (!d->by_pid) {
		durations_between(w, d, NULL);
		return;
	}
	ZN_EACH_PROC(w, r, p)
	{
		durations_between(w, d, p);
	}
}

/* Scratch: communicators whose hash another one has too. */
static bool hash_of_two[ZN_SKEWS_MAX];

static void compare_hashes(struct zn_walk *w)
{
	uint64_t hash[ZN_SKEWS_MAX];
	uint32_t slots[ZN_SKEWS_MAX], count = 0;
	const struct zn_skew *s;

	w->hashes_compared = true;
	ZN_EACH_SKEW(w, slot, s)
	{
		hash_of_two[slot] = false;
		slots[count] = slot;
		hash[count] = s->hash;
		for (uint32_t i = 0; i < count; i++)
			if (hash[i] == hash[count])
				hash_of_two[slot] = hash_of_two[slots[i]] = true;
		count++;
	}
}

/* Two users' communicators have one hash only if one of them chose it so: their labels tell whose each is. s: NULL: its
 * ranks are not compared. */
static void label_comm(struct zn_walk *w, uint64_t hash, const struct zn_skew *s, uint32_t slot)
{
	size_t at = w->digits.len;

	if (!w->hashes_compared)
		compare_hashes(w);
	zn_out_hex(&w->digits, hash, 16);
	if (s && hash_of_two[slot]) {
		zn_out_char(&w->digits, '-');
		zn_out_u64(&w->digits, ZN_SKEW_OWNER(s->of));
	}
	zn_walk_digits(w, zn_str_of("comm"), at);
}

static void skew_series(struct zn_walk *w, const struct zn_skew *s, uint32_t slot)
{
	zn_walk_series(w);
	label_comm(w, s->hash, s, slot);
}

/* A field of struct zn_hist for each NCCL operation of each process. */
void zn_metrics_process_nccl(struct zn_walk *w)
{
	size_t offset = *(const size_t *)w->metric->arg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		for (enum zn_operation i = ZN_H_NCCL_FIRST; i <= ZN_H_NCCL_LAST; i++) {
			const struct zn_hist *h = zn_arena_hist(w->state->agg->arena, p->hist[i]);

			if (!h || !h->calls)
				continue;
			process_series(w, p);
			zn_walk_label(w, "op", zn_operation_label(i));
			zn_walk_integer(w, *(const uint64_t *)((const char *)h + offset));
		}
	}
}

#define SEEN (2 * ZN_COMMS_MAX)

/* A program that makes one communicator twice would make two lines alike, which spoils a scrape. seen: indices into
 * all, plus 1, by a hash of what a line shows. True: this one was there. */
static bool seen_before(uint16_t seen[SEEN], const struct zn_comm *all, size_t i)
{
	const struct zn_comm *c = &all[i];
	uint64_t at = (c->hash ^ (uint64_t)c->tgid << 32 ^ c->rank) * 0x9e3779b97f4a7c15ULL >> 32;

	for (at %= SEEN; seen[at]; at = (at + 1) % SEEN) {
		const struct zn_comm *other = &all[seen[at] - 1];

		if (other->hash == c->hash && other->tgid == c->tgid && other->rank == c->rank &&
			other->nranks == c->nranks)
			return true;
	}
	seen[at] = (uint16_t)(i + 1);
	return false;
}

/* NULL: it has no row. */
static const struct zn_proc *proc_of(struct zn_walk *w, uint32_t tgid)
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	if (p->tgid == tgid)
		return p;
	return NULL;
}

/* Communicators of which two ranks and more are on this node and have issued a collective. */
static bool skew_shown(const struct zn_skew *s)
{
	return s->hist && s->members > 1;
}

void zn_metrics_process_skew(struct zn_walk *w)
{
	const struct zn_skew *s;

	ZN_EACH_SKEW(w, slot, s)
	{
		const struct zn_hist *h = skew_shown(s) ? zn_arena_hist(w->state->agg->arena, s->hist) : NULL;

		if (!h || !h->calls)
			continue;
		skew_series(w, s, slot);
		zn_walk_durations(w, h);
	}
}

/* A process may join a communicator twice as the same rank: the two are one series. False: an earlier member has it. */
static bool lateness_of(const struct zn_walk *w, const struct zn_skew *s, uint32_t slot, uint32_t m, uint64_t *ns)
{
	*ns = 0;
	for (uint32_t i = 0; i < ZN_SKEW_RANKS && i < s->members; i++) {
		if (s->member[i].rank != s->member[m].rank)
			continue;
		if (i < m)
			return false;
		*ns += zn_ranks_late(w->state->ranks, s, slot, i);
	}
	return true;
}

void zn_metrics_process_lateness(struct zn_walk *w)
{
	const struct zn_skew *s;
	uint64_t ns;

	ZN_EACH_SKEW(w, slot, s)
	{
		if (!skew_shown(s))
			continue;
		for (uint32_t m = 0; m < ZN_SKEW_RANKS && m < s->members; m++) {
			if (s->member[m].rank == ZN_UNKNOWN || !lateness_of(w, s, slot, m, &ns))
				continue;
			skew_series(w, s, slot);
			zn_walk_number(w, "rank", s->member[m].rank);
			zn_walk_scaled(w, ns, 9);
		}
	}
}

/* ---- Ranks that others wait for. ---- */

/* The job of a rank whose process has ended is that of those who wait for it. */
static const char *missing_job(struct zn_walk *w, const struct zn_skew *s, const struct zn_missing *m)
{
	uint32_t row = s->member[__builtin_ctz(m->waiters)].row;

	return job_id(w, zn_arena_proc(w->state->agg->arena, row));
}

static void missing_series(struct zn_walk *w, const struct zn_skew *s, const struct zn_missing *m)
{
	skew_series(w, s, m->slot);
	if (m->rank == ZN_UNKNOWN)
		zn_walk_label(w, "rank", "unknown");
	else
		zn_walk_number(w, "rank", m->rank);
	zn_walk_number(w, "pid", m->tgid);
	w->job_id = missing_job(w, s, m);
	zn_walk_label(w, "doing", zn_doing_label(m->doing));
}

/* A process may join a communicator twice as the same rank: the two are one series. */
static bool missing_again(const struct zn_ranks *k, const struct zn_missing *m)
{
	const struct zn_missing *of = k->missing[m->slot];

	for (uint32_t i = 0; i < m->member; i++)
		if (of[i].tgid == m->tgid && of[i].rank == m->rank && zn_missing_shown(k, &of[i]))
			return true;
	return false;
}

/* arg: the offset of the moment since when, in struct zn_missing. */
void zn_metrics_process_missing(struct zn_walk *w)
{
	const struct zn_ranks *k = w->state->ranks;
	const size_t *since = w->metric->arg;
	const struct zn_skew *s;

	ZN_EACH_SKEW(w, slot, s)
	{
		for (uint32_t i = 0; k && i < ZN_SKEW_RANKS && i < s->members; i++) {
			const struct zn_missing *m = &k->missing[slot][i];

			if (!zn_missing_shown(k, m) || missing_again(k, m))
				continue;
			missing_series(w, s, m);
			zn_walk_scaled(w, k->tick_ns - *(const uint64_t *)((const char *)m + *since), 9);
		}
	}
}

void zn_metrics_process_longest_wait(struct zn_walk *w)
{
	const struct zn_ranks *k = w->state->ranks;
	const struct zn_skew *s;

	ZN_EACH_SKEW(w, slot, s)
	{
		if (!k || !skew_shown(s))
			continue;
		skew_series(w, s, slot);
		zn_walk_scaled(w, k->longest_ns[slot], 9);
	}
}

void zn_metrics_process_all_wait(struct zn_walk *w)
{
	const struct zn_ranks *k = w->state->ranks;
	const struct zn_skew *s;

	ZN_EACH_SKEW(w, slot, s)
	{
		if (!k || !zn_all_wait_shown(k, &k->all_wait[slot]))
			continue;
		skew_series(w, s, slot);
		zn_walk_scaled(w, k->tick_ns - k->all_wait[slot].since_ns, 9);
	}
}

/* Of the members that have not left: what the one farthest behind has issued. *first is the first of them. */
static uint64_t least_issued(const struct zn_skew *s, const struct zn_skew_rank **first)
{
	uint64_t least = UINT64_MAX;

	*first = NULL;
	for (uint32_t i = 0; i < ZN_SKEW_RANKS && i < s->members; i++) {
		if (!s->member[i].id)
			continue;
		*first = *first ? *first : &s->member[i];
		least = s->member[i].issued < least ? s->member[i].issued : least;
	}
	return least;
}

/* Compared between nodes, by no clock. More local members than are compared: the least is not known. */
void zn_metrics_process_issued(struct zn_walk *w)
{
	const struct zn_skew *s;

	ZN_EACH_SKEW(w, slot, s)
	{
		const struct zn_skew_rank *first;
		uint64_t least = s->members <= ZN_SKEW_RANKS ? least_issued(s, &first) : UINT64_MAX;

		if (least == UINT64_MAX)
			continue;
		skew_series(w, s, slot);
		w->job_id =
			job_id(w, first->row < ZN_PROCS_MAX ? zn_arena_proc(w->state->agg->arena, first->row) : NULL);
		zn_walk_integer(w, least);
	}
}

void zn_metrics_process_driver_stuck(struct zn_walk *w)
{
	struct zn_agg *a = w->state->agg;

	for (uint32_t r = 0; w->state->progress && r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);
		uint64_t ns = p ? zn_progress_stuck(w->state->progress, a->row[r], p->id) : 0;

		if (!ns)
			continue;
		zn_walk_series(w);
		zn_walk_number(w, "pid", p->tgid);
		w->job_id = job_id(w, p);
		zn_walk_scaled(w, ns, 9);
	}
}

void zn_metrics_process_blocked(struct zn_walk *w)
{
	const struct zn_blocked *b = w->state->blocked;
	struct zn_agg *a = w->state->agg;

	for (uint32_t r = 0; b && r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);
		struct zn_blocked_thread t;

		if (!p || !zn_blocked_oldest(b, a->row[r], p, &t))
			continue;
		zn_walk_series(w);
		zn_walk_number(w, "pid", p->tgid);
		w->job_id = job_id(w, p);
		zn_walk_scaled(w, b->tick_ns - t.since_ns, 9);
	}
}

static void rank_series(struct zn_walk *w, const struct zn_comm *c, const struct zn_proc *p)
{
	const struct zn_skew *s = c->skew ? zn_arena_skew(w->state->agg->arena, c->skew - 1u) : NULL;

	zn_walk_series(w);
	zn_walk_number(w, "pid", c->tgid);
	w->job_id = job_id(w, p);
	label_comm(w, c->hash, s && s->hash == c->hash ? s : NULL, c->skew - 1u);
	zn_walk_number(w, "rank", c->rank);
	zn_walk_number(w, "nranks", c->nranks);
	zn_walk_integer(w, 1);
}

void zn_metrics_process_ranks(struct zn_walk *w)
{
	struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p = NULL;
	uint16_t seen[SEEN];

	memset(seen, 0, agg->comm_count ? sizeof(seen) : 0);
	for (size_t i = 0; i < agg->comm_count; i++) {
		const struct zn_comm *c = &agg->comms[i];

		if (c->rank == ZN_UNKNOWN || c->nranks == ZN_UNKNOWN || c->hash == 0 ||
			seen_before(seen, agg->comms, i))
			continue;
		if (!p || p->tgid != c->tgid)
			p = proc_of(w, c->tgid);
		rank_series(w, c, p);
	}
}

void zn_metrics_process_anomalies(struct zn_walk *w)
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		for (uint32_t i = 0; i < ZN_BASELINES; i++) {
			int32_t v = zn_baselines_score(w->state->baselines, w->state->agg->row[r], p->id, i);

			if (v == ZN_SCORE_NONE)
				continue;
			process_series(w, p);
			zn_walk_label(w, "signal", zn_baseline_name(i));
			zn_walk_signed(w, v);
		}
	}
}

static uint64_t parts_cost(const struct zn_walk *w, uint32_t row, uint32_t id)
{
	return w->state->budget ? zn_budget_cost(w->state->budget, row, id) : 0;
}

void zn_metrics_process_overhead(struct zn_walk *w)
{
	const struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;

	if (!w->state->probe && !agg->arena->shared->cost_ns[0])
		return; /* what hooked calls cost is not known */
	ZN_EACH_PROC(w, r, p)
	{
		process_series(w, p);
		zn_walk_scaled(w, agg->info[agg->row[r]].cost_rate + 1000 * parts_cost(w, agg->row[r], p->id), 12);
	}
	zn_metrics_server_overhead(w);
}

void zn_metrics_process_sampled(struct zn_walk *w)
{
	const struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		const struct zn_spent *s = zn_spare_spent(agg->arena, agg->row[r], p->id);

		for (enum zn_spare i = 0; s && i < ZN_SPARE_COUNT; i++) {
			if (!zn_spare_told(s, i))
				continue;
			process_series(w, p);
			zn_walk_label(w, "family", zn_spare_label(i));
			zn_walk_scaled(w, zn_spare_now(s, i), 3);
		}
	}
	zn_metrics_server_sampled(w);
}
