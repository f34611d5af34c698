/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics.c: the table of metrics, the one walk over it, the list of --list-metrics, and docs/METRICS.md. A metric is one
 * row; nothing else names it. A row yields samples and does not know what becomes of them: text, Protocol Buffers, OTLP and
 * the alert rules are given the same ones.
 */
#include "zernel.h"
#include <string.h>
#include <time.h>

/* Type and twin of struct zn_metric. */
#define COUNTER   ZN_METRIC_COUNTER, false
#define GAUGE     ZN_METRIC_GAUGE, false
#define INFO      ZN_METRIC_INFO, false
#define SUMMARY   ZN_METRIC_SUMMARY, false
#define DURATIONS ZN_METRIC_SUMMARY, true

/* What the processes of a job did, those that have gone included. */
#define SUMMED_FIRST ZN_C_SWITCH_VOLUNTARY
#define SUMMED_LAST  ZN_C_TCP_RETRANSMITS
struct job_sum {
	uint64_t launches, nccl_bytes;
	uint64_t count[SUMMED_LAST - SUMMED_FIRST + 1]; /* by enum zn_count, from the first on */
};

static bool ends_in(struct zn_str name, const char *end)
{
	size_t len = strlen(end);

	return name.len > len && !memcmp(name.at + name.len - len, end, len);
}

const char *zn_metrics_unit(struct zn_str name)
{
	static const char *const units[] = {"seconds", "bytes", "ratio"};

	if (ends_in(name, "_total"))
		name.len -= strlen("_total");
	for (size_t i = 0; i < ZN_LEN(units); i++)
		if (ends_in(name, units[i]))
			return units[i];
	return NULL;
}

const char *zn_metrics_type_name(enum zn_metric_type type)
{
	static const char *const name[] = {"counter", "gauge", "info", "summary"};

	return name[type];
}

void zn_metrics_twin(char to[ZN_TWIN_BYTES], const char *name)
{
	snprintf(to, ZN_TWIN_BYTES, "%.*s_hist_seconds", (int)(strlen(name) - strlen("_seconds")), name);
}

/* ---- What rows call. ---- */

void zn_walk_series(struct zn_walk *w)
{
	w->job_id = NULL;
	w->sample.label_count = 0;
	w->digits.len = 0;
}

void zn_walk_digits(struct zn_walk *w, const char *name, size_t at)
{
	if (w->sample.label_count < ZN_LABELS_MAX)
		w->sample.label[w->sample.label_count++] =
			(struct zn_label){{name, strlen(name)}, {w->digits.at + at, w->digits.len - at}};
}

void zn_walk_number(struct zn_walk *w, const char *name, uint64_t v)
{
	size_t at = w->digits.len;

	zn_out_u64(&w->digits, v);
	zn_walk_digits(w, name, at);
}

static void end_series(struct zn_walk *w)
{
	if (w->job_id && *w->job_id)
		zn_walk_label(w, "job_id", w->job_id);
	w->visit(w->to, &w->sample);
}

/* As a double it is the one that is nearest, as long as v is below 2^53: it is exact then, and so is 10^12. */
void zn_walk_scaled(struct zn_walk *w, uint64_t v, int decimals)
{
	static const double power10[] = {1, 1e3, 1e6, 1e9, 1e12};

	w->sample.number = v;
	w->sample.decimals = decimals;
	w->sample.value = (double)v / power10[decimals / 3];
	end_series(w);
}

void zn_walk_signed(struct zn_walk *w, int32_t v)
{
	w->sample.number = (uint64_t)(v < 0 ? -(int64_t)v : v);
	w->sample.decimals = 3;
	w->sample.negative = v < 0;
	w->sample.value = v / 1e3;
	end_series(w);
}

void zn_walk_durations(struct zn_walk *w, const struct zn_hist *h)
{
	w->sample.hist = h;
	end_series(w);
}

void zn_walk_calibration(struct zn_walk *w, const struct zn_bias *b)
{
	w->sample.bias = b;
	end_series(w);
}

void zn_walk_one(struct zn_walk *w, uint64_t v, int decimals)
{
	zn_walk_series(w);
	zn_walk_scaled(w, v, decimals);
}

const struct zn_proc *zn_walk_proc(struct zn_walk *w, uint32_t r)
{
	return zn_arena_proc(w->view->agg->arena, w->view->agg->row[r]);
}

static uint64_t wall_ms(const struct zn_view *v, uint64_t ns)
{
	int64_t after_ns = (int64_t)(ns - v->start_ns);

	return v->start_wall_ms + (uint64_t)(after_ns / (int64_t)ZN_NS_PER_MS);
}

static const char *job_id(struct zn_walk *w, const struct zn_proc *p)
{
	return w->view->jobs && p ? zn_job_id(w->view->jobs, p) : NULL;
}

/* A series of a process begins with its first hooked call. */
static void process_series(struct zn_walk *w, const struct zn_proc *p)
{
	zn_walk_series(w);
	zn_walk_number(w, "pid", p->tgid);
	w->job_id = job_id(w, p);
	w->sample.since_ms = wall_ms(w->view, p->first_ns);
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
	struct zn_agg *agg = w->view->agg;
	const struct zn_proc *p;
	struct zn_rates rates;

	ZN_EACH_PROC(w, r, p)
	{
		uint64_t v, events = 0;

		for (enum zn_count i = f->first; i <= f->last; i++)
			events += p->count[i];
		zn_signals_rates(w->view->signals, agg->row[r], p->id, &rates);
		v = *(const uint64_t *)((const char *)&rates + f->offset);
		if (events == 0 || v == ZN_NOT_KNOWN)
			continue;
		process_series(w, p);
		zn_walk_scaled(w, v, 3);
	}
}

/* A field of struct zn_signals, once a GPU's driver was called. */
void zn_metrics_gpu_calls(struct zn_walk *w)
{
	const struct zn_signals *s = w->view->signals;

	if (s && s->gpu.busy_ns)
		zn_walk_one(w, *(const uint64_t *)((const char *)s + *(const size_t *)w->metric->arg), 9);
}

void zn_metrics_gpu_contention(struct zn_walk *w)
{
	uint64_t v = zn_signals_contention(w->view->signals);

	if (v != ZN_NOT_KNOWN)
		zn_walk_one(w, v, 6);
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
	const struct zn_agg *agg = w->view->agg;
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
		if (!had_pinned(p) || !zn_agg_memory_known(w->view->agg, w->view->agg->row[r]))
			continue;
		process_series(w, p);
		zn_walk_integer(w, p->count[ZN_C_HOST_PINNED]);
	}
}

void zn_metrics_process_stalls(struct zn_walk *w)
{
	const struct zn_proc *p;
	struct zn_shares shares;

	ZN_EACH_PROC(w, r, p)
	{
		if (!zn_wait_shares(w->view, w->view->agg->row[r], &shares))
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
		if (!zn_wait_loader(w->view, w->view->agg->row[r]))
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
		if (!zn_wait_loader(w->view, w->view->agg->row[r]))
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
	struct zn_share share[ZN_PROC_GPUS + 1];
	struct zn_agg *agg = w->view->agg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		size_t n = zn_agg_shares(agg, agg->row[r], share);

		for (size_t i = 0; i < n * f->count; i++) {
			const struct zn_share *s = &share[i / f->count];
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
static const struct zn_hist *durations_of(struct zn_walk *w, const struct zn_proc *p, enum zn_detail i)
{
	struct zn_agg *agg = w->view->agg;
	const struct zn_hist *h = p ? zn_arena_hist(agg->arena, p->hist[i]) : zn_agg_merge(agg, i);

	return h && h->calls ? h : NULL;
}

/* ---- File I/O. ---- */

/* The flows that are shown, each for every operation of it. */
#define EACH_FLOW(w, i, f)                                                                                             \
	for (uint32_t i = 0; io_measured(w) && i < (w)->view->flows->high; i++)                                        \
		if ((f = flow_at(w, i)))

static bool io_measured(const struct zn_walk *w)
{
	return w->view->flows &&
		(zn_agg_measures(w->view->agg, ZN_FAM_VFS) || zn_agg_measures(w->view->agg, ZN_FAM_META));
}

static const struct zn_flow *flow_at(const struct zn_walk *w, uint32_t i)
{
	const struct zn_flow *f = &w->view->flows->flow[i];

	return f->used && zn_flow_job(w->view->flows, f) ? f : NULL;
}

/* The label job_id is always there: what is of no job has an empty one. */
static void flow_series(struct zn_walk *w, const struct zn_flow *f, bool fstype)
{
	const struct zn_job *job = f->job.serial ? zn_jobs_at(w->view->jobs, f->job) : NULL;

	zn_walk_series(w);
	zn_walk_label(w, "job_id", job ? job->id : "");
	zn_walk_label(w, "mount", f->point);
	if (fstype)
		zn_walk_label(w, "fstype", f->fstype);
	if (job && job->start_wall_ms > w->view->start_wall_ms)
		w->sample.since_ms = job->start_wall_ms;
	else
		w->sample.since_ms = w->view->start_wall_ms;
}

void zn_metrics_io_bytes(struct zn_walk *w)
{
	enum zn_io_op op = *(const enum zn_io_op *)w->metric->arg;
	const struct zn_flow *f;

	EACH_FLOW(w, i, f)
	{
		struct zn_flow_sum sum = zn_flow_sum(w->view->flows, f, op);

		if (!sum.calls && !sum.bytes) /* some kernels tell bytes of faults, but not how many there were */
			continue;
		flow_series(w, f, true);
		zn_walk_integer(w, sum.bytes);
	}
}

/* A field of struct zn_flow_sum of every operation. */
void zn_metrics_io_ops(struct zn_walk *w)
{
	size_t offset = *(const size_t *)w->metric->arg;
	const struct zn_flow *f;

	EACH_FLOW(w, i, f)
	{
		for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
			struct zn_flow_sum sum = zn_flow_sum(w->view->flows, f, op);
			uint64_t v = *(const uint64_t *)((const char *)&sum + offset);

			if (!v)
				continue;
			flow_series(w, f, true);
			zn_walk_label(w, "op", zn_io_label(op));
			zn_walk_integer(w, v);
		}
	}
}

/* Operations whose duration is not known have none. */
static const struct zn_hist *io_durations(struct zn_walk *w, const struct zn_flow *f, enum zn_io_op op)
{
	const struct zn_hist *h = f->op[op].first ? zn_flow_merge(w->view->flows, f, op, true) : NULL;

	return h && zn_hist_count(h) ? h : NULL;
}

/* ---- Durations of file I/O are most of a page where there are thousands of series, with names as long as users like. ---- */

#define LINES_OF_DURATIONS 24  /* of one series, in both families */
#define BYTES_OF_LINE      128 /* at most, besides the name of the mount */

static int32_t bytes_of_durations(const struct zn_flow *f)
{
	size_t name = 0, series = 0;

	for (const char *c = f->point; *c; c++)
		name += 1 + (*c == '"' || *c == '\\' || *c == '\n');
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		series += f->op[op].first != 0;
	return (int32_t)(series * LINES_OF_DURATIONS * (name + BYTES_OF_LINE));
}

/* Whose part of the page it takes. */
static struct zn_quota_owner *owner_of(struct zn_quota *all, const struct zn_flow *f)
{
	return zn_quota_owner(all, f->job.serial ? ZN_OWNER_JOB(f->job.slot) : f->owner);
}

static int64_t sum_within(const struct zn_quota *all, int32_t share)
{
	int64_t sum = all->rest.held < share ? all->rest.held : share;

	for (uint32_t i = 0; i < ZN_QUOTA_OWNERS; i++)
		sum += all->row[i].held < share ? all->row[i].held : share;
	return sum;
}

/* Bytes that the durations of each owner may take, so that what is written holds those of all: who takes little is not cut. */
static int32_t share_of_room(struct zn_walk *w)
{
	static struct zn_quota all;
	int32_t room = w->room ? w->room(w->to) : INT32_MAX, share = INT32_MAX;
	const struct zn_flow *f;

	if (!w->room)
		return share;
	memset(&all, 0, sizeof(all));
	EACH_FLOW(w, i, f)
	{
		owner_of(&all, f)->held += bytes_of_durations(f);
	}
	if (sum_within(&all, share) <= room)
		return share;
	for (share = room; share && sum_within(&all, share) > room;)
		share -= share / 16 + 1;
	return share;
}

static void flow_durations(struct zn_walk *w, const struct zn_flow *f)
{
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
		const struct zn_hist *h = io_durations(w, f, op);

		if (!h)
			continue;
		flow_series(w, f, false);
		zn_walk_label(w, "op", zn_io_label(op));
		zn_walk_durations(w, h);
	}
}

/* What does not fit is left out, all operations of a job on a mount at a time, and counted. */
void zn_metrics_io_durations(struct zn_walk *w)
{
	static struct zn_quota shown_of;
	int32_t share = share_of_room(w);
	const struct zn_flow *f;

	memset(&shown_of, 0, sizeof(shown_of));
	EACH_FLOW(w, i, f)
	{
		struct zn_quota_owner *o = owner_of(&shown_of, f);
		int32_t bytes = bytes_of_durations(f);

		if (w->room && bytes > share - o->held) {
			w->view->agg->arena->shared->lost[ZN_LOST_TRUNCATED]++;
			continue;
		}
		o->held += bytes;
		flow_durations(w, f);
	}
}

static void durations_between(struct zn_walk *w, const struct zn_metric_durations *d, const struct zn_proc *p)
{
	for (enum zn_detail i = d->first; i <= d->last; i++) {
		const struct zn_hist *h = durations_of(w, p, i);

		if (!h)
			continue;
		if (p)
			process_series(w, p);
		else
			zn_walk_series(w);
		if (d->label)
			zn_walk_label(w, d->label, zn_detail_label(i));
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

	w->hashes_compared = true;
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = zn_arena_skew(w->view->agg->arena, slot);

		hash_of_two[slot] = false;
		if (!s)
			continue;
		slots[count] = slot;
		hash[count] = s->hash;
		for (uint32_t i = 0; i < count; i++)
			if (hash[i] == hash[count])
				hash_of_two[slot] = hash_of_two[slots[i]] = true;
		count++;
	}
}

/* Two users' communicators have one hash only if one of them chose it so: their labels tell whose each is. */
static void skew_series(struct zn_walk *w, const struct zn_skew *s, uint32_t slot)
{
	size_t at;

	if (!w->hashes_compared)
		compare_hashes(w);
	zn_walk_series(w);
	at = w->digits.len;
	zn_out_hex(&w->digits, s->hash, 16);
	if (hash_of_two[slot]) {
		zn_out_char(&w->digits, '-');
		zn_out_u64(&w->digits, ZN_SKEW_OWNER(s->of));
	}
	zn_walk_digits(w, "comm", at);
}

/* A field of struct zn_hist for each NCCL operation of each process. */
void zn_metrics_process_nccl(struct zn_walk *w)
{
	size_t offset = *(const size_t *)w->metric->arg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		for (enum zn_detail i = ZN_H_NCCL_FIRST; i <= ZN_H_NCCL_LAST; i++) {
			const struct zn_hist *h = zn_arena_hist(w->view->agg->arena, p->hist[i]);

			if (!h || !h->calls)
				continue;
			process_series(w, p);
			zn_walk_label(w, "op", zn_detail_label(i));
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
static const struct zn_skew *skew_shown(struct zn_walk *w, uint32_t slot)
{
	const struct zn_skew *s = zn_arena_skew(w->view->agg->arena, slot);

	return s && s->hist && s->members > 1 ? s : NULL;
}

void zn_metrics_process_skew(struct zn_walk *w)
{
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = skew_shown(w, slot);
		const struct zn_hist *h = s ? zn_arena_hist(w->view->agg->arena, s->hist) : NULL;

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
		*ns += w->view->ranks ? w->view->ranks->late_ns[slot][i] : s->member[i].late_ns;
	}
	return true;
}

void zn_metrics_process_lateness(struct zn_walk *w)
{
	uint64_t ns;

	const struct zn_skew *s;

	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		if (!(s = skew_shown(w, slot)))
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

	return job_id(w, zn_arena_proc(w->view->agg->arena, row));
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
	const struct zn_ranks *k = w->view->ranks;
	const size_t *since = w->metric->arg;

	for (uint32_t slot = 0; k && slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = zn_arena_skew(w->view->agg->arena, slot);

		for (uint32_t i = 0; s && i < ZN_SKEW_RANKS && i < s->members; i++) {
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
	const struct zn_ranks *k = w->view->ranks;

	for (uint32_t slot = 0; k && slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = skew_shown(w, slot);

		if (!s)
			continue;
		skew_series(w, s, slot);
		zn_walk_scaled(w, k->longest_ns[slot], 9);
	}
}

void zn_metrics_process_driver_stuck(struct zn_walk *w)
{
	struct zn_agg *a = w->view->agg;

	for (uint32_t r = 0; w->view->progress && r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);
		uint64_t ns = p ? zn_progress_stuck(w->view->progress, a->row[r], p->id) : 0;

		if (!ns)
			continue;
		zn_walk_series(w);
		zn_walk_number(w, "pid", p->tgid);
		w->job_id = job_id(w, p);
		zn_walk_scaled(w, ns, 9);
	}
}

static void label_comm(struct zn_walk *w, uint64_t hash)
{
	size_t at = w->digits.len;

	zn_out_hex(&w->digits, hash, 16);
	zn_walk_digits(w, "comm", at);
}

void zn_metrics_process_ranks(struct zn_walk *w)
{
	struct zn_agg *agg = w->view->agg;
	uint16_t seen[SEEN] = {0};
	const struct zn_proc *p = NULL;

	for (size_t i = 0; i < agg->comm_count; i++) {
		const struct zn_comm *c = &agg->comms[i];

		if (c->rank == ZN_UNKNOWN || c->nranks == ZN_UNKNOWN || c->hash == 0 ||
			seen_before(seen, agg->comms, i))
			continue;
		if (!p || p->tgid != c->tgid)
			p = proc_of(w, c->tgid);
		zn_walk_series(w);
		zn_walk_number(w, "pid", c->tgid);
		w->job_id = job_id(w, p);
		label_comm(w, c->hash);
		zn_walk_number(w, "rank", c->rank);
		zn_walk_number(w, "nranks", c->nranks);
		zn_walk_integer(w, 1);
	}
}

static void gpu_series(struct zn_walk *w, const struct zn_gpu *g)
{
	zn_walk_series(w);
	zn_walk_label(w, "gpu_id", g->id);
}

static void gpu_total(struct zn_walk *w, const struct zn_gpu *g)
{
	if (!g->total_bytes)
		return;
	gpu_series(w, g);
	zn_walk_integer(w, g->total_bytes);
}

static void gpu_ratio(struct zn_walk *w, const struct zn_gpu *g)
{
	if (!g->total_bytes || g->partial)
		return;
	gpu_series(w, g);
	zn_walk_scaled(w, (uint64_t)((__uint128_t)g->used_bytes * 1000000 / g->total_bytes), 6);
}

static void gpu_complete(struct zn_walk *w, const struct zn_gpu *g)
{
	gpu_series(w, g);
	zn_walk_integer(w, !g->partial);
}

static void gpu_info(struct zn_walk *w, const struct zn_gpu *g)
{
	gpu_series(w, g);
	zn_walk_label(w, "uuid", g->uuid);
	zn_walk_label(w, "pci", g->pci);
	if (g->minor >= 0)
		zn_walk_number(w, "minor", g->minor);
	else
		zn_walk_label(w, "minor", "");
	zn_walk_label(w, "vendor", zn_vendor_label(g->vendor));
	zn_walk_integer(w, 1);
}

static void each_gpu(struct zn_walk *w, void (*series)(struct zn_walk *w, const struct zn_gpu *g))
{
	const struct zn_gpus *gpus = &w->view->agg->gpus;

	for (uint32_t i = 0; i < gpus->count; i++)
		if (zn_gpu_shown(&gpus->gpu[i]) && !zn_gpu_unknown(&gpus->gpu[i]))
			series(w, &gpus->gpu[i]);
}

void zn_metrics_gpu_total(struct zn_walk *w)
{
	each_gpu(w, gpu_total);
}

void zn_metrics_gpu_ratio(struct zn_walk *w)
{
	each_gpu(w, gpu_ratio);
}

void zn_metrics_gpu_complete(struct zn_walk *w)
{
	each_gpu(w, gpu_complete);
}

void zn_metrics_gpu_info(struct zn_walk *w)
{
	each_gpu(w, gpu_info);
}

/* Scratch, as `taken` is: a walk over one metric shall not clear 64 KiB. */
static struct {
	const struct zn_job *job[ZN_JOBS_MAX]; /* those that are shown */
	uint32_t count;
	struct job_sum sum[ZN_JOBS_MAX]; /* by slot; of those that are shown */
} jobs;

/* Of the jobs of one id only the newest is shown: the labels of two would be the same. */
static void list_jobs(struct zn_walk *w)
{
	struct zn_jobs *j = w->view->jobs;

	if (w->jobs_listed)
		return;
	w->jobs_listed = true;
	jobs.count = 0;
	for (uint32_t i = 0; j && i < ZN_JOBS_MAX; i++)
		if (j->job[i].state != ZN_JOB_FREE && zn_jobs_find(j, j->job[i].id, ZN_UNKNOWN) == &j->job[i])
			jobs.job[jobs.count++] = &j->job[i];
}

static void sum_gone(struct job_sum *s, const struct zn_job *job)
{
	*s = (struct job_sum){0};
	for (enum zn_count i = ZN_C_LAUNCH_KERNEL; i < ZN_C_LAUNCH_CAPTURED; i++)
		s->launches += job->count[i];
	for (uint32_t i = 0; i < ZN_LEN(s->count); i++)
		s->count[i] += job->count[SUMMED_FIRST + i];
	for (enum zn_detail d = ZN_H_NCCL_FIRST; job->gone && d <= ZN_H_NCCL_LAST; d++)
		s->nccl_bytes += job->gone[d].bytes;
}

static void sum_live(struct zn_walk *w, struct job_sum *s, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(w->view->agg->arena, row);

	for (enum zn_count i = ZN_C_LAUNCH_KERNEL; i < ZN_C_LAUNCH_CAPTURED; i++)
		s->launches += p->count[i];
	for (uint32_t i = 0; i < ZN_LEN(s->count); i++)
		s->count[i] += zn_agg_count(w->view->agg, row, SUMMED_FIRST + i);
	for (enum zn_detail d = ZN_H_NCCL_FIRST; d <= ZN_H_NCCL_LAST; d++) {
		const struct zn_hist *h = zn_arena_hist(w->view->agg->arena, p->hist[d]);

		s->nccl_bytes += h ? h->bytes : 0;
	}
}

/* In one pass over the processes, whatever the number of jobs, once for all metrics of a page. */
static void sum_jobs(struct zn_walk *w)
{
	struct zn_jobs *j = w->view->jobs;
	const struct zn_proc *p;

	w->jobs_summed = true;
	for (uint32_t i = 0; i < jobs.count; i++)
		sum_gone(&jobs.sum[jobs.job[i] - j->job], jobs.job[i]);
	ZN_EACH_PROC(w, r, p)
	{
		const struct zn_job *job = zn_jobs_of(j, p);

		if (job)
			sum_live(w, &jobs.sum[job - j->job], w->view->agg->row[r]);
	}
}

/* Of a job that is shown. */
static const struct job_sum *sum_of(struct zn_walk *w, const struct zn_job *job)
{
	if (!w->jobs_summed)
		sum_jobs(w);
	return &jobs.sum[job - w->view->jobs->job];
}

/* A job that began before the daemon is counted from the daemon's start on. */
static void job_series(struct zn_walk *w, const struct zn_job *job)
{
	zn_walk_series(w);
	zn_walk_label(w, "job_id", job->id);
	w->sample.since_ms = job->start_wall_ms > w->view->start_wall_ms ? job->start_wall_ms : w->view->start_wall_ms;
}

static void job_info(struct zn_walk *w, const struct zn_job *job)
{
	static const struct {
		const char *label;
		enum zn_key key;
	} said[] = {{"account", ZN_KEY_ACCOUNT}, {"partition", ZN_KEY_PARTITION}, {"name", ZN_KEY_NAME},
		{"nodes", ZN_KEY_NODES}, {"gpus", ZN_KEY_GPUS}};

	job_series(w, job);
	zn_walk_label(w, "user", job->about.value[ZN_KEY_USER]);
	if (job->uid != ZN_UNKNOWN)
		zn_walk_number(w, "uid", job->uid);
	else
		zn_walk_label(w, "uid", "");
	for (size_t i = 0; i < ZN_LEN(said); i++)
		zn_walk_label(w, said[i].label, job->about.value[said[i].key]);
	zn_walk_integer(w, 1);
}

static void job_processes(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, job->processes);
}

static void job_start(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_scaled(w, job->start_wall_ms, 3);
}

static void job_ended(struct zn_walk *w, const struct zn_job *job)
{
	if (job->state != ZN_JOB_ENDED)
		return;
	job_series(w, job);
	zn_walk_scaled(w, job->end_wall_ms, 3);
}

static void job_launches(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, sum_of(w, job)->launches);
}

static void job_nccl_bytes(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, sum_of(w, job)->nccl_bytes);
}

/* Waits for data are told where there were some: whether a loader is one that is known cannot be told of a job. */
static void job_stalls(struct zn_walk *w, const struct zn_job *job)
{
	const uint64_t *ns = sum_of(w, job)->count + (ZN_C_STALL_CPU - SUMMED_FIRST);
	uint64_t all = 0;

	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		all += ns[s];
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT && all; s++) {
		if (s == ZN_STALL_DATA && !ns[s])
			continue;
		job_series(w, job);
		zn_walk_label(w, "cause", zn_stall_label(s));
		zn_walk_scaled(w, ns[s], 9);
	}
}

static void each_job(struct zn_walk *w, void (*series)(struct zn_walk *w, const struct zn_job *job))
{
	list_jobs(w);
	for (uint32_t i = 0; i < jobs.count; i++)
		series(w, jobs.job[i]);
}

/* Counters of all processes of a job, which appear with their first event. */
void zn_metrics_job_counts(struct zn_walk *w)
{
	const struct zn_metric_counts *c = w->metric->arg;

	list_jobs(w);
	for (uint32_t i = 0; i < jobs.count * c->count; i++) {
		const struct zn_job *job = jobs.job[i / c->count];
		uint32_t n = i % c->count;
		uint64_t v = sum_of(w, job)->count[c->first - SUMMED_FIRST + n];

		if (v == 0)
			continue;
		job_series(w, job);
		if (c->label)
			zn_walk_label(w, c->label, c->value[n]);
		zn_walk_scaled(w, v, c->decimals);
	}
}

static void job_oom_kills(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, zn_job_row(w->view->jobs, job)->oom_kills);
}

/* From 0 on, as a job may have one such kill and no more. */
void zn_metrics_job_oom_kills(struct zn_walk *w)
{
	const struct zn_probe *probe = w->view->probe;

	if (probe && probe->job_on[ZN_LEN(probe->job_on) - 1].link < 0)
		return;
	zn_walk_series(w);
	zn_walk_label(w, "job_id", "");
	zn_walk_integer(w, w->view->agg->arena->shared->oom_kills);
	each_job(w, job_oom_kills);
}

/* There only where the log is read. */
void zn_metrics_gpu_log_records(struct zn_walk *w)
{
	const struct zn_xids *x = w->view->xids;

	if (!x || x->fd < 0)
		return;
	zn_walk_series(w);
	zn_walk_label(w, "from", "kernel");
	zn_walk_integer(w, x->kernel);
	zn_walk_series(w);
	zn_walk_label(w, "from", "others");
	zn_walk_integer(w, x->other);
}

void zn_metrics_gpu_xids(struct zn_walk *w)
{
	const struct zn_xids *x = w->view->xids;

	for (uint32_t i = 0; x && i < x->count; i++) {
		if (x->xid[i].amdgpu)
			continue;
		w->sample.since_ms = x->xid[i].since_ms;
		zn_walk_series(w);
		zn_walk_label(w, "pci", x->xid[i].pci);
		zn_walk_number(w, "xid", x->xid[i].xid);
		zn_walk_integer(w, x->xid[i].times);
	}
}

void zn_metrics_gpu_amdgpu_errors(struct zn_walk *w)
{
	const struct zn_xids *x = w->view->xids;

	for (uint32_t i = 0; x && i < x->count; i++) {
		if (!x->xid[i].amdgpu)
			continue;
		w->sample.since_ms = x->xid[i].since_ms;
		zn_walk_series(w);
		zn_walk_label(w, "pci", x->xid[i].pci);
		zn_walk_label(w, "error", zn_amdgpu_label(x->xid[i].amdgpu));
		zn_walk_integer(w, x->xid[i].times);
	}
}

void zn_metrics_job_info(struct zn_walk *w)
{
	each_job(w, job_info);
}

void zn_metrics_job_processes(struct zn_walk *w)
{
	each_job(w, job_processes);
}

void zn_metrics_job_start(struct zn_walk *w)
{
	each_job(w, job_start);
}

void zn_metrics_job_ended(struct zn_walk *w)
{
	each_job(w, job_ended);
}

static void job_progress_age(struct zn_walk *w, const struct zn_job *job)
{
	uint64_t age_ns, limit_ns;

	if (!w->view->jobs_progress || !zn_job_progress(w->view->jobs_progress, job, &age_ns, &limit_ns))
		return;
	job_series(w, job);
	zn_walk_scaled(w, age_ns, 9);
}

static void job_stall_limit(struct zn_walk *w, const struct zn_job *job)
{
	uint64_t age_ns, limit_ns;

	if (!w->view->jobs_progress || !zn_job_progress(w->view->jobs_progress, job, &age_ns, &limit_ns))
		return;
	job_series(w, job);
	zn_walk_scaled(w, limit_ns, 9);
}

void zn_metrics_job_progress_age(struct zn_walk *w)
{
	each_job(w, job_progress_age);
}

void zn_metrics_job_stall_limit(struct zn_walk *w)
{
	each_job(w, job_stall_limit);
}

static void job_causes(struct zn_walk *w, const struct zn_job *job)
{
	const struct zn_cause_group *g = w->view->causes ? &w->view->causes->group[job->slot] : NULL;

	for (enum zn_cause cause = 0; g && g->serial == job->serial && cause < ZN_CAUSE_COUNT; cause++) {
		if (!g->lost_ns[cause])
			continue;
		job_series(w, job);
		zn_walk_label(w, "cause", zn_cause_label(cause));
		zn_walk_scaled(w, g->lost_ns[cause], 9);
	}
}

void zn_metrics_job_causes(struct zn_walk *w)
{
	each_job(w, job_causes);
}

void zn_metrics_job_launches(struct zn_walk *w)
{
	each_job(w, job_launches);
}

void zn_metrics_job_nccl_bytes(struct zn_walk *w)
{
	each_job(w, job_nccl_bytes);
}

void zn_metrics_job_stalls(struct zn_walk *w)
{
	each_job(w, job_stalls);
}

void zn_metrics_job_gpus(struct zn_walk *w)
{
	const struct zn_metric_job_gpu *f = w->metric->arg;

	list_jobs(w);
	for (uint32_t i = 0; i < jobs.count; i++) {
		for (uint32_t g = 0; g < jobs.job[i]->gpu_count; g++) {
			const struct zn_job_gpu *gpu = &jobs.job[i]->gpu[g];

			if (f->time ? !gpu->allocated : gpu->partial)
				continue;
			job_series(w, jobs.job[i]);
			zn_walk_label(w, "gpu_id", gpu->id);
			zn_walk_scaled(w, *(const uint64_t *)((const char *)gpu + f->offset), f->decimals);
		}
	}
}

void zn_metrics_self_alerts(struct zn_walk *w)
{
	const struct zn_alerts *a = w->view->alerts;

	for (uint32_t i = 0; i < a->rules->rule_count; i++) {
		const struct zn_rule *rule = &a->rules->rule[i];

		zn_walk_series(w);
		zn_walk_label(w, "alert", rule->name);
		zn_walk_label(w, "severity", rule->severity);
		zn_walk_integer(w, zn_rule_state(a, rule));
	}
}

void zn_metrics_self_build(struct zn_walk *w)
{

	zn_walk_series(w);
	zn_walk_label(w, "version", zn_version);
	zn_walk_label(w, "commit", zn_commit);
	zn_walk_label(w, "source", w->view->probe ? "live" : "simulated");
	zn_walk_integer(w, 1);
}

void zn_metrics_self_kernel(struct zn_walk *w)
{

	zn_walk_series(w);
	zn_walk_label(w, "release", w->view->release);
	zn_walk_integer(w, 1);
}

/* Two files may have one path, in two mount namespaces or one after the other: the inode tells them apart. */
static void attached_series(void *to, const struct zn_lib *lib)
{
	struct zn_walk *w = to;
	const struct zn_probe *p = w->view->probe;
	char unique[ZN_TEXT_MAX + 64];

	snprintf(unique, sizeof(unique), "%s@%lx:%lu", lib->path, lib->dev, lib->ino);
	for (uint32_t i = 0; i < p->hook_count; i++) {
		if (!zn_hook_fits(&p->hook[i], lib->kind))
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(p->hook[i].family));
		zn_walk_label(w, "symbol", p->hook[i].name);
		zn_walk_label(w, "library", unique);
		zn_walk_integer(w, lib->symbol[i] == ZN_SYM_ATTACHED);
	}
}

/* A place has up to two programs, at its entry and its return. */
static bool is_second(const struct zn_kernel *k, uint32_t at)
{
	const struct zn_site *s = &k->site[at];

	for (uint32_t i = at; i-- > 0 && k->site[i].family == s->family;)
		if (k->site[i].prog_fd >= 0 && strcmp(k->site[i].place, s->place) == 0)
			return true;
	return false;
}

/* Each place of the tier in use once. */
static void attached_sites(struct zn_walk *w, const struct zn_kernel *k)
{
	for (uint32_t i = 0; i < k->site_count; i++) {
		const struct zn_site *s = &k->site[i], *with = s->of ? &k->site[s->of - 1] : s;

		if (with->prog_fd < 0 && s->state != ZN_SYM_FAILED)
			continue;
		if (is_second(k, i))
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(s->family));
		zn_walk_label(w, "symbol", s->place);
		zn_walk_label(w, "library", "kernel");
		zn_walk_integer(w, with->link_fd >= 0);
	}
}

void zn_metrics_self_attached(struct zn_walk *w)
{
	if (w->view->probe)
		attached_sites(w, &w->view->probe->kernel);
	if (w->view->find)
		zn_libraries_visit(zn_find_libraries(w->view->find), attached_series, w);
}

struct library_counts {
	uint64_t hooked, waiting;
};

static void count_library(void *to, const struct zn_lib *lib)
{
	struct library_counts *n = to;

	*(lib->waiting ? &n->waiting : &n->hooked) += 1;
}

void zn_metrics_self_libraries(struct zn_walk *w)
{
	struct library_counts n = {0};

	if (!w->view->find)
		return;
	zn_libraries_visit(zn_find_libraries(w->view->find), count_library, &n);
	zn_walk_series(w);
	zn_walk_label(w, "state", "hooked");
	zn_walk_integer(w, n.hooked);
	zn_walk_series(w);
	zn_walk_label(w, "state", "waiting");
	zn_walk_integer(w, n.waiting);
}

void zn_metrics_self_hang(struct zn_walk *w)
{
	char why[ZN_TEXT_MAX];

	if (w->view->find)
		zn_walk_one(w, zn_view_hang(w->view, why), 9);
}

static uint64_t hits_of(const struct zn_agg *agg, enum zn_family f)
{
	uint64_t hits = 0;

	for (enum zn_first first = 0; first < ZN_FIRST_COUNT; first++) {
		hits += agg->gone_count[ZN_C_HIT(f, first)];
		for (uint32_t r = 0; r < agg->row_count; r++)
			hits += agg->arena->procs[agg->row[r]].count[ZN_C_HIT(f, first)];
	}
	return hits;
}

void zn_metrics_self_hits(struct zn_walk *w)
{

	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(f));
		zn_walk_integer(w, hits_of(w->view->agg, f));
	}
}

void zn_metrics_self_bias(struct zn_walk *w)
{
	const struct zn_probe *p = w->view->probe;

	for (enum zn_first i = 0; p && i < ZN_FIRST_COUNT; i++) {
		if (!p->bias[i].samples)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "first_instruction", zn_first_label(i));
		zn_walk_calibration(w, &p->bias[i]);
	}
}

void zn_metrics_self_run(struct zn_walk *w)
{
	struct zn_probe *p = w->view->probe;
	const char *name;

	for (uint32_t i = 0; p && i < ZN_PROGRAMS; i++) {
		uint64_t ns = zn_stats_run_ns(p, i, &name);

		if (ns == 0)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "program", name);
		zn_walk_scaled(w, ns, 9);
	}
}

void zn_metrics_self_duty(struct zn_walk *w)
{

	for (enum zn_family f = 0; w->view->probe && f < ZN_FAMILY_COUNT; f++) {
		zn_walk_series(w);
		zn_walk_label(w, "family", zn_family_label(f));
		zn_walk_scaled(w, w->view->agg->family_cost_rate[f], 12);
	}
}

void zn_metrics_process_anomalies(struct zn_walk *w)
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		for (uint32_t i = 0; i < ZN_BASELINES; i++) {
			int32_t v = zn_baselines_score(w->view->baselines, w->view->agg->row[r], p->id, i);

			if (v == ZN_SCORE_NONE)
				continue;
			process_series(w, p);
			zn_walk_label(w, "signal", zn_baseline_name(i));
			zn_walk_signed(w, v);
		}
	}
}

void zn_metrics_process_overhead(struct zn_walk *w)
{
	const struct zn_agg *agg = w->view->agg;
	const struct zn_proc *p;

	if (!w->view->probe && !agg->arena->shared->cost_ns[0])
		return; /* what hooked calls cost is not known */
	ZN_EACH_PROC(w, r, p)
	{
		process_series(w, p);
		zn_walk_scaled(w, agg->info[agg->row[r]].cost_rate, 12);
	}
}

void zn_metrics_self_lost(struct zn_walk *w)
{
	struct zn_view *v = w->view;

	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++) {
		zn_walk_series(w);
		zn_walk_label(w, "what", zn_loss_label(i));
		zn_walk_integer(w, zn_view_lost(v, i));
	}
}

/* Of each kind of destination that is given. */
void zn_metrics_self_sent(struct zn_walk *w)
{
	const struct zn_courier *c = w->view->courier;

	for (enum zn_outbound to = 0; c && to < ZN_TO_COUNT; to++)
		for (enum zn_sent i = 0; c->senders[to] && i < ZN_SENT_COUNT; i++) {
			zn_walk_series(w);
			zn_walk_label(w, "to", zn_outbound_label(to));
			zn_walk_label(w, "result", zn_sent_label(i));
			zn_walk_integer(w, c->sum[to].sent[i]);
		}
}

/* What a courier that has ended did not send is not known to be anywhere. */
void zn_metrics_self_outbound(struct zn_walk *w)
{
	const struct zn_courier *c = w->view->courier;
	const bool *waiting = w->metric->arg;

	for (enum zn_outbound to = 0; c && to < ZN_TO_COUNT; to++)
		if (c->senders[to] && (!*waiting || c->child.fd >= 0)) {
			zn_walk_series(w);
			zn_walk_label(w, "to", zn_outbound_label(to));
			zn_walk_integer(w, *waiting ? c->sum[to].queued : zn_courier_down(c, to));
		}
}

void zn_metrics_self_tables(struct zn_walk *w)
{
	const bool *limits = w->metric->arg;
	struct zn_usage usage[ZN_USAGES_MAX];
	size_t n = zn_view_usage(w->view, usage);

	for (size_t i = 0; i < n; i++) {
		zn_walk_series(w);
		zn_walk_label(w, "table", usage[i].table);
		zn_walk_integer(w, *limits ? usage[i].limit : usage[i].entries);
	}
}

void zn_metrics_self_requests(struct zn_walk *w)
{
	static const char *const code[] = {
#define X(n) #n,
		ZN_CODES(X)
#undef X
	};
	const struct zn_http_stats *s = w->view->http;

	for (uint32_t i = 0; s && i < (ZN_ROUTES_MAX + 1) * ZN_CODE_COUNT; i++) {
		uint32_t route = i / ZN_CODE_COUNT;

		if (s->requests[route][i % ZN_CODE_COUNT] == 0)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "path", route < ZN_ROUTES_MAX ? s->path[route] : "other");
		zn_walk_label(w, "code", code[i % ZN_CODE_COUNT]);
		zn_walk_integer(w, s->requests[route][i % ZN_CODE_COUNT]);
	}
}

void zn_metrics_self_connections(struct zn_walk *w)
{
	zn_walk_one(w, w->view->http ? w->view->http->conn_count : 0, 0);
}

void zn_metrics_self_clients(struct zn_walk *w)
{
	zn_walk_one(w, w->view->http ? w->view->http->ws_count : 0, 0);
}

void zn_metrics_self_ticks(struct zn_walk *w)
{
	zn_walk_one(w, w->view->ticks, 0);
}

void zn_metrics_self_render(struct zn_walk *w)
{
	zn_walk_one(w, w->view->render_ns, 9);
}

/* There once there was an export. */
void zn_metrics_self_export(struct zn_walk *w)
{
	if (w->view->export && w->view->export->render_ns)
		zn_walk_one(w, w->view->export->render_ns, 9);
}

void zn_metrics_self_cpu(struct zn_walk *w)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	zn_walk_one(w, ts.tv_sec * ZN_NS_PER_S + ts.tv_nsec, 9);
}

void zn_metrics_self_resident(struct zn_walk *w)
{
	zn_walk_one(w, w->view->resident_bytes, 0);
}

void zn_metrics_self_fds(struct zn_walk *w)
{
	zn_walk_one(w, w->view->open_fds, 0);
}

void zn_metrics_self_start(struct zn_walk *w)
{
	zn_walk_one(w, w->view->start_wall_ms, 3);
}

static const struct zn_metric_share used = {offsetof(struct zn_proc_gpu, used_bytes), 1, NULL, {0}, true, true};
static const struct zn_metric_share peak = {offsetof(struct zn_proc_gpu, peak_bytes), 1, NULL, {0}, true, true};
static const struct zn_metric_share alloc_calls = {offsetof(struct zn_proc_gpu, alloc_calls), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false, false};
static const struct zn_metric_share alloc_bytes = {offsetof(struct zn_proc_gpu, alloc_bytes), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false, false};
static const struct zn_metric_share free_calls = {offsetof(struct zn_proc_gpu, free_calls), 1, NULL, {0}, false, false};
static const struct zn_metric_share failures = {
	offsetof(struct zn_proc_gpu, fail_oom), 2, "reason", {"oom", "other"}, true, false};

static const struct zn_metric_counts launches = {
	ZN_C_LAUNCH_KERNEL, 4, "kind", {"kernel", "graph", "cooperative", "captured"}, 0};
static const struct zn_metric_counts launch_errors = {ZN_C_LAUNCH_ERRORS, 1, NULL, {0}, 0};
static const struct zn_metric_counts copy_bytes = {
	ZN_C_COPY_BYTES_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}, 0};
static const struct zn_metric_counts copy_calls = {
	ZN_C_COPY_CALLS_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}, 0};

static const struct zn_metric_counts memset_bytes = {ZN_C_MEMSET_BYTES, 1, NULL, {0}, 0};
static const struct zn_metric_counts memset_calls = {ZN_C_MEMSET_CALLS, 1, NULL, {0}, 0};

static const struct zn_metric_durations launch = {ZN_H_LAUNCH, ZN_H_LAUNCH, NULL, true};
static const struct zn_metric_durations collective = {ZN_H_NCCL_FIRST, ZN_H_NCCL_LAST, "op", false};
static const struct zn_metric_durations dataloader = {ZN_H_DATALOAD, ZN_H_DATALOAD, NULL, true};
static const struct zn_metric_durations worker_idle = {ZN_H_WORKER_IDLE, ZN_H_WORKER_IDLE, NULL, true};
static const struct zn_metric_durations dist_sync = {ZN_H_DIST_SYNC, ZN_H_DIST_SYNC, NULL, true};
static const struct zn_metric_durations sync_calls = {ZN_H_SYNC_STREAM, ZN_H_SYNC_FREE, "call", true};
static const struct zn_metric_durations loads = {ZN_H_LOAD_MODULE, ZN_H_LOAD_GRAPH, "call", true};
static const struct zn_metric_durations group = {ZN_H_NCCL_GROUP, ZN_H_NCCL_GROUP, NULL, true};
static const struct zn_metric_durations comm_init = {ZN_H_NCCL_INIT, ZN_H_NCCL_INIT, NULL, true};

static const struct zn_metric_counts syscalls = {ZN_C_SYSCALLS, 1, NULL, {0}, 0};
static const struct zn_metric_counts mmap_calls = {ZN_C_MMAP_CALLS, 2, "call", {"mmap", "munmap"}, 0};
static const struct zn_metric_counts mmap_bytes = {ZN_C_MMAP_BYTES, 2, "call", {"mmap", "munmap"}, 0};
static const struct zn_metric_counts switches = {ZN_C_SWITCH_VOLUNTARY, 2, "kind", {"voluntary", "involuntary"}, 0};
static const struct zn_metric_counts migrations = {ZN_C_MIGRATE_CPU, 2, "scope", {"cpu", "numa"}, 0};
static const struct zn_metric_counts offcpu = {
	ZN_C_OFFCPU_IO, 5, "state", {"io", "futex", "poll", "sleep", "other"}, 9};
static const struct zn_metric_counts tcp_sent = {ZN_C_TCP_SENT, 1, NULL, {0}, 0};
static const struct zn_metric_counts tcp_received = {ZN_C_TCP_RECEIVED, 1, NULL, {0}, 0};
static const struct zn_metric_counts tcp_retransmits = {ZN_C_TCP_RETRANSMITS, 1, NULL, {0}, 0};
static const struct zn_metric_rate density = {
	offsetof(struct zn_rates, syscalls_per_launch), ZN_C_SYSCALLS, ZN_C_SYSCALLS};
static const struct zn_metric_rate churn = {offsetof(struct zn_rates, churn), ZN_C_MMAP_CALLS, ZN_C_MUNMAP_CALLS};
static const struct zn_metric_rate launch_switches = {
	offsetof(struct zn_rates, switches_per_launch), ZN_C_SWITCH_VOLUNTARY, ZN_C_SWITCH_INVOLUNTARY};
static const struct zn_metric_rate migration_rate = {
	offsetof(struct zn_rates, per_1000_s[ZN_SIGNAL_MIGRATIONS]), ZN_C_MIGRATE_CPU, ZN_C_MIGRATE_CPU};
static const struct zn_metric_durations gpu_ioctl = {ZN_H_IOCTL, ZN_H_IOCTL, NULL, true};
static const struct zn_metric_durations runqueue = {ZN_H_RUNQUEUE, ZN_H_RUNQUEUE, NULL, true};
static const struct zn_metric_durations tcp_send = {ZN_H_TCP_SEND, ZN_H_TCP_SEND, NULL, true};
static const size_t gpu_busy = offsetof(struct zn_signals, gpu.busy_ns);
static const size_t gpu_contended = offsetof(struct zn_signals, gpu.contended_ns);

static const enum zn_io_op io_read = ZN_IO_READ, io_write = ZN_IO_WRITE, io_mapped = ZN_IO_MMAP, io_copied = ZN_IO_COPY;
static const size_t io_calls = offsetof(struct zn_flow_sum, calls);
static const size_t io_errors = offsetof(struct zn_flow_sum, errors);
static const size_t nccl_calls = offsetof(struct zn_hist, calls);
static const size_t nccl_bytes = offsetof(struct zn_hist, bytes);
static const size_t nccl_errors = offsetof(struct zn_hist, errors);

static const bool entries = false, limit = true, waiting = true, down = false;

static const struct zn_metric_job_gpu job_peak = {offsetof(struct zn_job_gpu, peak_bytes), 0, false};
static const struct zn_metric_job_gpu job_busy = {offsetof(struct zn_job_gpu, busy_ns), 9, true};
static const size_t missing_since = offsetof(struct zn_missing, since_ns),
		    missing_doing = offsetof(struct zn_missing, doing_ns);
static const struct zn_metric_job_gpu job_idle = {offsetof(struct zn_job_gpu, idle_ns), 9, true};

/* clang-format off */
static const struct zn_metric table[] = {
	{"zernel_gpu_memory_used_bytes", GAUGE, "pid,gpu_id", zn_metrics_process_shares, &used,
		"GPU memory that a process has reserved from the driver and not freed; without the CUDA context itself, loaded modules, and pinned host memory. Absent where zernel_process_memory_complete is 0."},
	{"zernel_gpu_memory_peak_bytes", GAUGE, "pid,gpu_id", zn_metrics_process_shares, &peak,
		"Highest GPU memory use of a process since its first call. Absent where zernel_process_memory_complete is 0."},
	{"zernel_cuda_launch_latency_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &launch,
		"Host time from entry to return of a call that launches a kernel or a graph, since the process started; the time that the probes add is taken out."},
	{"zernel_nccl_collective_duration_seconds", DURATIONS, "op,quantile", zn_metrics_process_durations, &collective,
		"Host time in an NCCL operation, of all processes since the daemon started. A collective enqueues and returns: this is not the time it takes on the GPU."},
	{"zernel_dataloader_wait_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &dataloader,
		"Time that the training thread waits for a batch."},
	{"zernel_dataloader_worker_idle_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &worker_idle,
		"Time that a worker of a process's data loader sleeps until it is asked for another batch."},
	{"zernel_dataloader_workers", GAUGE, "pid", zn_metrics_process_workers, NULL,
		"Live processes that this one, or one of them, started and that call no hooked library; there once its data loader was seen to wait."},
	{"zernel_dataloader_worker_seconds_total", COUNTER, "pid,state", zn_metrics_process_worker_time, NULL,
		"Time of all data loader workers of a process: idle, asleep until they are asked for another batch, or busy."},
	{"zernel_dist_sync_wait_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &dist_sync,
		"Time that a launching thread waits for other ranks: in the creation of a communicator, at the end of a group, or asleep until a peer has answered over a socket."},
	{"zernel_step_stall_ratio", GAUGE, "pid,cause", zn_metrics_process_stalls, NULL,
		"Where the time of a process's launching threads went over the last tick; the causes add up to 1. Of a data loader that is not known there is no cause data: its waits are in other."},
	{"zernel_gpu_memory_total_bytes", GAUGE, "gpu_id", zn_metrics_gpu_total, NULL,
		"Memory of a GPU as the driver reports it to the processes; absent until one of them asked."},
	{"zernel_gpu_memory_used_ratio", GAUGE, "gpu_id", zn_metrics_gpu_ratio, NULL,
		"Memory used by all processes of a GPU, as a share of its total. Managed memory may exceed 1. Absent where zernel_gpu_memory_complete is 0."},
	{"zernel_process_memory_complete", GAUGE, "pid", zn_metrics_process_memory_complete, NULL,
		"1: all GPU memory of a process was seen. 0: it used a GPU before its library was hooked, as those do that run while the daemon is restarted, or the table of allocations was full; what it holds is then not known and not shown, as long as it lives."},
	{"zernel_gpu_memory_complete", GAUGE, "gpu_id", zn_metrics_gpu_complete, NULL,
		"1: the GPU memory of all processes that use a GPU is known. 0: a process has it open of which it is not; the memory used on that GPU is then not known, and not shown."},
	{"zernel_gpu_alloc_calls_total", COUNTER, "pid,gpu_id,kind", zn_metrics_process_shares, &alloc_calls,
		"Successful GPU memory allocations."},
	{"zernel_gpu_alloc_bytes_total", COUNTER, "pid,gpu_id,kind", zn_metrics_process_shares, &alloc_bytes,
		"Bytes of successful GPU memory allocations."},
	{"zernel_gpu_free_calls_total", COUNTER, "pid,gpu_id", zn_metrics_process_shares, &free_calls,
		"Successful frees of memory whose allocation was seen; of VMM memory, when its last reference went."},
	{"zernel_gpu_alloc_failures_total", COUNTER, "pid,gpu_id,reason", zn_metrics_process_shares, &failures,
		"Failed GPU memory allocations; oom: the driver answered out of memory. From 0 on where the process has had memory, so that the first one is a rise."},
	{"zernel_gpu_host_pinned_bytes", GAUGE, "pid", zn_metrics_process_pinned, NULL,
		"Pinned host memory that a process has reserved through the driver. Absent where zernel_process_memory_complete is 0."},
	{"zernel_gpu_xid_errors_total", COUNTER, "pci,xid", zn_metrics_gpu_xids, NULL,
		"Errors that NVIDIA's driver reported in the kernel's log since the daemon started."},
	{"zernel_gpu_amdgpu_errors_total", COUNTER, "pci,error", zn_metrics_gpu_amdgpu_errors, NULL,
		"Records of the kernel's log, since the daemon started, in which amdgpu reports a page fault, a timeout, a reset or hardware errors."},
	{"zernel_kernel_log_records_total", COUNTER, "from", zn_metrics_gpu_log_records, NULL,
		"Records of the kernel's log that were read, of the kernel itself and of others; errors of GPUs are looked for in the first. Absent where it cannot be read."},
	{"zernel_gpu_info", INFO, "gpu_id,uuid,pci,minor,vendor", zn_metrics_gpu_info, NULL,
		"Always 1; the identity of a GPU. gpu_id is its index in PCI order; AMD's GPUs follow NVIDIA's in the order of their render nodes, whose minor number they have."},
	{"zernel_cuda_launches_total", COUNTER, "pid,kind", zn_metrics_process_counts, &launches,
		"Calls that launch a kernel or replay a graph; captured: recorded into a graph, not run."},
	{"zernel_cuda_launch_errors_total", COUNTER, "pid", zn_metrics_process_counts, &launch_errors,
		"Launches that returned an error."},
	{"zernel_cuda_sync_seconds", DURATIONS, "pid,call,quantile", zn_metrics_process_durations, &sync_calls,
		"Time the host spends in a call that waits for the GPU, since the process started."},
	{"zernel_cuda_memcpy_bytes_total", COUNTER, "pid,direction", zn_metrics_process_counts, &copy_bytes,
		"Bytes of copies: of blocking ones when they succeed, of asynchronous ones when they are asked for."},
	{"zernel_cuda_memcpy_calls_total", COUNTER, "pid,direction", zn_metrics_process_counts, &copy_calls,
		"Copies: blocking ones when they succeed, asynchronous ones when they are asked for."},
	{"zernel_cuda_memset_bytes_total", COUNTER, "pid", zn_metrics_process_counts, &memset_bytes,
		"Bytes of memory that is set, as they are asked for."},
	{"zernel_cuda_memset_calls_total", COUNTER, "pid", zn_metrics_process_counts, &memset_calls,
		"Calls that set memory, as they are made."},
	{"zernel_cuda_load_seconds", DURATIONS, "pid,call,quantile", zn_metrics_process_durations, &loads,
		"Time the host spends in a call that loads code or prepares a graph, which is where a slow first step often comes from: a module or a library of kernels, a function of one (which is loaded when it is first asked for), or a graph that is instantiated, updated or uploaded."},
	{"zernel_nccl_calls_total", COUNTER, "pid,op", zn_metrics_process_nccl, &nccl_calls, "NCCL operations of this rank."},
	{"zernel_nccl_bytes_total", COUNTER, "pid,op", zn_metrics_process_nccl, &nccl_bytes,
		"Bytes of NCCL operations on this rank: elements times their size, as the call's arguments have them."},
	{"zernel_nccl_errors_total", COUNTER, "pid,op", zn_metrics_process_nccl, &nccl_errors,
		"NCCL operations that returned an error."},
	{"zernel_nccl_group_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &group,
		"Time from the outermost ncclGroupStart to its ncclGroupEnd."},
	{"zernel_nccl_comm_init_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &comm_init,
		"Time in the creation of a communicator, which waits for the other ranks."},
	{"zernel_nccl_issue_skew_seconds", DURATIONS, "comm,quantile", zn_metrics_process_skew, NULL,
		"Of the ranks of a communicator on this node: how long after the first one the last one issued the same collective. Operations with a root other than broadcast, and point-to-point ones, are not compared."},
	{"zernel_nccl_issue_late_seconds_total", COUNTER, "comm,rank", zn_metrics_process_lateness, NULL,
		"How long after the first rank of this node a rank issued its collectives: the straggler's grows."},
	{"zernel_nccl_missing_rank_seconds", GAUGE, "comm,rank,pid,doing", zn_metrics_process_missing, &missing_since,
		"For how long other ranks of this node have waited for one that has not issued what they have, or whose process has ended; there only from 1 s on. doing: what it does instead: gone, asleep, driver (inside of the GPU's), data, io, cpu or gpu. Of ranks that wait for one another in a chain the last one alone."},
	{"zernel_nccl_missing_rank_doing_seconds", GAUGE, "comm,rank,pid,doing", zn_metrics_process_missing, &missing_doing,
		"For how long such a rank has done nothing else meanwhile."},
	{"zernel_nccl_longest_wait_seconds", GAUGE, "comm", zn_metrics_process_longest_wait, NULL,
		"The longest time that ranks of this node have waited for one that came in the end: what may be usual for this program."},
	{"zernel_nccl_rank_info", INFO, "pid,comm,rank,nranks", zn_metrics_process_ranks, NULL,
		"Always 1; the rank of a process in a communicator. comm is equal on all ranks."},
	{"zernel_syscalls_total", COUNTER, "pid", zn_metrics_process_counts, &syscalls,
		"System calls that the threads of a process began; those that probes of the kernel make on the way are not among them."},
	{"zernel_syscall_density", GAUGE, "pid", zn_metrics_process_rates, &density,
		"System calls per launch: those that began over the last tick, by the launches of that tick; absent without one."},
	{"zernel_gpu_ioctl_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &gpu_ioctl,
		"Time from entry to return of ioctl() on a GPU's device, which is where a driver's locks are waited for."},
	{"zernel_gpu_driver_stuck_seconds", GAUGE, "pid", zn_metrics_process_driver_stuck, NULL,
		"For how long the oldest call of ioctl() on a GPU's device has not come back; there only while one has lasted longer than from one tick to the next."},
	{"zernel_gpu_ioctl_contention_ratio", GAUGE, "", zn_metrics_gpu_contention, NULL,
		"Share of the time with some process inside ioctl() on a GPU's device in which two or more were, over the last tick; absent if none was."},
	{"zernel_gpu_ioctl_busy_seconds_total", COUNTER, "", zn_metrics_gpu_calls, &gpu_busy,
		"Time with some process inside ioctl() on a GPU's device."},
	{"zernel_gpu_ioctl_contended_seconds_total", COUNTER, "", zn_metrics_gpu_calls, &gpu_contended,
		"Time with two or more processes inside ioctl() on GPU devices; threads of one process are one."},
	{"zernel_mmap_calls_total", COUNTER, "pid,call", zn_metrics_process_counts, &mmap_calls,
		"Calls of mmap and munmap that succeeded; brk and mremap are none."},
	{"zernel_mmap_bytes_total", COUNTER, "pid,call", zn_metrics_process_counts, &mmap_bytes,
		"Bytes that successful calls of mmap and munmap asked for, in whole pages."},
	{"zernel_mmap_churn_ratio", GAUGE, "pid", zn_metrics_process_rates, &churn,
		"Of the bytes mapped and the bytes unmapped over the last tick, the smaller by the larger: near 1, memory is given back and fetched anew; absent without either."},
	{"zernel_context_switches_total", COUNTER, "pid,kind", zn_metrics_process_counts, &switches,
		"Times a thread left its CPU: voluntary, to wait; involuntary, for another thread."},
	{"zernel_context_switches_per_launch", GAUGE, "pid", zn_metrics_process_rates, &launch_switches,
		"Context switches of a process over the last tick, by the launches of that tick; absent without one."},
	{"zernel_thread_migrations_total", COUNTER, "pid,scope", zn_metrics_process_counts, &migrations,
		"Times a thread was moved to another CPU; numa: those of them to another memory node."},
	{"zernel_thread_migrations_per_second", GAUGE, "pid", zn_metrics_process_rates, &migration_rate,
		"Migrations of a process's threads per second, over the last tick."},
	{"zernel_runqueue_wait_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &runqueue,
		"Time from when a thread could run to when it ran."},
	{"zernel_offcpu_seconds_total", COUNTER, "pid,state", zn_metrics_process_counts, &offcpu,
		"Time that threads slept, added up over threads, by what they slept in."},
	{"zernel_tcp_sent_bytes_total", COUNTER, "pid", zn_metrics_process_counts, &tcp_sent,
		"Bytes that a process gave to TCP, loopback included. RDMA and NVLink do not pass the kernel and are in no figure."},
	{"zernel_tcp_received_bytes_total", COUNTER, "pid", zn_metrics_process_counts, &tcp_received,
		"Bytes that a process took from TCP; what splice() takes is not seen."},
	{"zernel_tcp_retransmits_total", COUNTER, "pid", zn_metrics_process_counts, &tcp_retransmits,
		"Segments sent again on connections whose last sender is this process."},
	{"zernel_tcp_sendmsg_seconds", DURATIONS, "pid,quantile", zn_metrics_process_durations, &tcp_send,
		"Time in which a send gives its bytes to TCP, waits for room included. By tracepoints it is that of the whole call up to there, of write, writev, sendto and sendmsg alone."},
	{"zernel_job_info", INFO, "job_id,user,uid,account,partition,name,nodes,gpus", zn_metrics_job_info, NULL,
		"Always 1; what a job is. What was not said of it is an empty label; gpus are those that it was given."},
	{"zernel_oom_kills_total", COUNTER, "job_id", zn_metrics_job_oom_kills, NULL,
		"Processes that the kernel killed for want of memory: of a job, or of none that called a hooked library or load data for one that did."},
	{"zernel_job_processes", GAUGE, "job_id", zn_metrics_job_processes, NULL,
		"Processes of a job that run and have called a hooked library."},
	{"zernel_job_start_time_seconds", GAUGE, "job_id", zn_metrics_job_start, NULL,
		"Start of a job since the epoch, as far as it is known: when it was first heard of, if nobody said it."},
	{"zernel_job_ended_time_seconds", GAUGE, "job_id", zn_metrics_job_ended, NULL,
		"End of a job since the epoch; there only once it has ended."},
	{"zernel_job_gpu_memory_peak_bytes", GAUGE, "job_id,gpu_id", zn_metrics_job_gpus, &job_peak,
		"Highest GPU memory use of all processes of a job together, as seen at a tick, or of one of them at any time. Absent where the memory of one of them is not known."},
	{"zernel_job_gpu_busy_seconds_total", COUNTER, "job_id,gpu_id", zn_metrics_job_gpus, &job_busy,
		"Time of a job in which a process of it that had memory on that GPU called CUDA or NCCL: the ticks with such a call, and how long the call waited, up to a minute."},
	{"zernel_job_gpu_idle_seconds_total", COUNTER, "job_id,gpu_id", zn_metrics_job_gpus, &job_idle,
		"All other time of a job on a GPU that it was given or has used. It is told up to a minute late while a process of it has memory there."},
	{"zernel_job_progress_age_seconds", GAUGE, "job_id", zn_metrics_job_progress_age, NULL,
		"For how long nothing of a job has moved: no launch, copy, call to NCCL or batch of any of its processes, no byte of a file. There from its first launch on, while it has a process."},
	{"zernel_job_stall_limit_seconds", GAUGE, "job_id", zn_metrics_job_stall_limit, NULL,
		"For how long that may be: a minute (ten while its threads run on the CPU, as a compiler's do), or five times the longest pause that this job has made so far."},
	{"zernel_job_cause_seconds_total", COUNTER, "job_id,cause", zn_metrics_job_causes, NULL,
		"Time that the processes of a job lost, by what it was lost to; a process has one second in a second, whatever its threads do. docs/WHY.md says what the causes are."},
	{"zernel_job_launches_total", COUNTER, "job_id", zn_metrics_job_launches, NULL,
		"Launches of all processes of a job, those that have gone included; without captured ones."},
	{"zernel_job_nccl_bytes_total", COUNTER, "job_id", zn_metrics_job_nccl_bytes, NULL,
		"Bytes of NCCL operations of all processes of a job, those that have gone included."},
	{"zernel_job_stall_seconds_total", COUNTER, "job_id,cause", zn_metrics_job_stalls, NULL,
		"Where the time of all launching threads of a job went, those that have gone included; causes as of zernel_step_stall_ratio."},
	{"zernel_job_syscalls_total", COUNTER, "job_id", zn_metrics_job_counts, &syscalls,
		"System calls of all processes of a job that called a hooked library, those that have gone included."},
	{"zernel_job_context_switches_total", COUNTER, "job_id,kind", zn_metrics_job_counts, &switches,
		"Context switches of all processes of a job, likewise."},
	{"zernel_job_offcpu_seconds_total", COUNTER, "job_id,state", zn_metrics_job_counts, &offcpu,
		"Time that threads of all processes of a job slept, likewise."},
	{"zernel_job_tcp_sent_bytes_total", COUNTER, "job_id", zn_metrics_job_counts, &tcp_sent,
		"Bytes that all processes of a job gave to TCP, likewise."},
	{"zernel_job_tcp_received_bytes_total", COUNTER, "job_id", zn_metrics_job_counts, &tcp_received,
		"Bytes that all processes of a job took from TCP, likewise."},
	{"zernel_job_tcp_retransmits_total", COUNTER, "job_id", zn_metrics_job_counts, &tcp_retransmits,
		"Segments sent again of all processes of a job, likewise."},
	{"zernel_io_read_bytes_total", COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_read,
		"Bytes read from files, each counted once, whichever call moved it. Those of mapped files and of copy_file_range are apart. Of no job: job_id is empty."},
	{"zernel_io_write_bytes_total", COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_write,
		"Bytes written to files, as accepted by the call; likewise."},
	{"zernel_io_mapped_bytes_total", COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_mapped,
		"Bytes that page faults of mapped files brought into memory: whole pages, and what was read ahead."},
	{"zernel_io_copied_bytes_total", COUNTER, "job_id,mount,fstype", zn_metrics_io_bytes, &io_copied,
		"Bytes copied by copy_file_range, on the mount they were copied to; the file system may share them instead of moving them."},
	{"zernel_io_requests_total", COUNTER, "job_id,mount,fstype,op", zn_metrics_io_ops, &io_calls,
		"File operations; op is read, write, copy, mmap, open, create, unlink, mkdir, rmdir, rename, fsync or stat."},
	{"zernel_io_errors_total", COUNTER, "job_id,mount,fstype,op", zn_metrics_io_ops, &io_errors,
		"File operations that failed, where the file or its directory was found."},
	{"zernel_io_latency_seconds", DURATIONS, "job_id,mount,op,quantile", zn_metrics_io_durations, NULL,
		"Duration of file operations, from the call to its return; of asynchronous ones, where it is known, to their completion."},
	{"zernel_alert_state", GAUGE, "alert,severity", zn_metrics_self_alerts, NULL, "0 inactive, 1 pending, 2 firing."},
	{"zernel_anomaly_score", GAUGE, "pid,signal", zn_metrics_process_anomalies, NULL,
		"How far the last 5 s of a signal of a process are above (below: negative) what was usual in the 10 minutes before, in robust standard deviations, up to 100; docs/ALERTS.md has the signals. Absent for the first 3 minutes, and where there was no value."},
	{"zernel_build_info", INFO, "version,commit,source", zn_metrics_self_build, NULL,
		"Always 1; source is live, or simulated for invented data."},
	{"zernel_kernel_info", INFO, "release", zn_metrics_self_kernel, NULL, "Always 1; the running kernel."},
	{"zernel_probe_attached", GAUGE, "family,symbol,library", zn_metrics_self_attached, NULL,
		"1 if the function is hooked in that library, 0 if it is missing there or could not be hooked."},
	{"zernel_libraries", GAUGE, "state", zn_metrics_self_libraries, NULL,
		"Files with a library's name that processes map: hooked, or waiting, for which /health has the reasons."},
	{"zernel_probe_hang_seconds", GAUGE, "", zn_metrics_self_hang, NULL,
		"For how long a change of probes has been waiting for a process; while it does, forks may wait. 0: none does."},
	{"zernel_probe_hits_total", COUNTER, "family", zn_metrics_self_hits, NULL, "Hooked calls."},
	{"zernel_probe_bias_seconds", SUMMARY, "first_instruction,quantile", zn_metrics_self_bias, NULL,
		"What the probes themselves add to a measured interval, calibrated at start; the median is taken out of each. It depends on how the kernel executes the instruction that the probe stands on."},
	{"zernel_probe_run_seconds_total", COUNTER, "program", zn_metrics_self_run, NULL,
		"Time in each BPF program; there only while the kernel keeps statistics (sysctl kernel.bpf_stats_enabled)."},
	{"zernel_probe_duty_ratio", GAUGE, "family", zn_metrics_self_duty, NULL,
		"CPU time that all processes spent in our probes over the last tick, in cores: calls at their calibrated cost."},
	{"zernel_overhead_ratio", GAUGE, "pid", zn_metrics_process_overhead, NULL,
		"Share of one core that a process spent in our probes over the last tick: calls at their calibrated cost."},
	{"zernel_lost_total", COUNTER, "what", zn_metrics_self_lost, NULL, "Things that could not be counted or delivered."},
	{"zernel_outbound_requests_total", COUNTER, "to,result", zn_metrics_self_sent, NULL,
		"Requests that the daemon made, by destination and what became of them: retried ones are made again, refused ones are not, failed ones were given up for newer ones."},
	{"zernel_outbound_queue", GAUGE, "to", zn_metrics_self_outbound, &waiting, "Messages that wait to be sent."},
	{"zernel_outbound_down", GAUGE, "to", zn_metrics_self_outbound, &down,
		"Destinations that cannot be reached, or say that they cannot serve now."},
	{"zernel_table_entries", GAUGE, "table", zn_metrics_self_tables, &entries, "Entries in use of a fixed table."},
	{"zernel_table_limit", GAUGE, "table", zn_metrics_self_tables, &limit, "Size of a fixed table."},
	{"zernel_ticks_total", COUNTER, "", zn_metrics_self_ticks, NULL,
		"Ticks since the start of the daemon: at each, rates are made anew and alerts evaluated."},
	{"zernel_http_requests_total", COUNTER, "path,code", zn_metrics_self_requests, NULL, "Requests answered."},
	{"zernel_http_connections", GAUGE, "", zn_metrics_self_connections, NULL, "Open connections, WebSocket clients included."},
	{"zernel_ws_clients", GAUGE, "", zn_metrics_self_clients, NULL, "WebSocket clients."},
	{"zernel_scrape_render_seconds", GAUGE, "", zn_metrics_self_render, NULL,
		"Time it took to render the scrape before this."},
	{"zernel_otlp_render_seconds", GAUGE, "", zn_metrics_self_export, NULL,
		"Time it took to make and hand over the requests of the last OTLP export."},
	{"process_cpu_seconds_total", COUNTER, "", zn_metrics_self_cpu, NULL, "CPU time of the daemon."},
	{"process_resident_memory_bytes", GAUGE, "", zn_metrics_self_resident, NULL, "Resident memory of the daemon."},
	{"process_open_fds", GAUGE, "", zn_metrics_self_fds, NULL, "Open file descriptors of the daemon."},
	{"process_start_time_seconds", GAUGE, "", zn_metrics_self_start, NULL, "Start of the daemon since the epoch."},
};
/* clang-format on */

static const struct zn_metric *find(const char *name)
{
	for (size_t i = 0; i < ZN_LEN(table); i++)
		if (!strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

bool zn_metrics_known(const char *name)
{
	return find(name);
}

int zn_metrics_type(const char *name)
{
	const struct zn_metric *m = find(name);

	return m ? (int)m->type : -1;
}

const char *zn_metrics_name(size_t i)
{
	return i < ZN_LEN(table) ? table[i].name : NULL;
}

const struct zn_metric *zn_metrics_at(size_t i)
{
	return i < ZN_LEN(table) ? &table[i] : NULL;
}

void zn_walk_init(struct zn_walk *w, struct zn_view *v, void (*visit)(void *to, const struct zn_sample *s), void *to)
{
	w->view = v;
	w->visit = visit;
	w->to = to;
	w->room = NULL;
	w->digits = (struct zn_out){.at = w->bytes, .cap = sizeof(w->bytes)};
	w->jobs_listed = w->jobs_summed = w->hashes_compared = false;
}

void zn_walk_metric(struct zn_walk *w, const struct zn_metric *m)
{
	w->metric = m;
	w->sample.metric = m->name;
	w->sample.help = m->help;
	w->sample.type = m->type;
	w->sample.value = __builtin_nan("");
	w->sample.negative = false;
	w->sample.hist = NULL;
	w->sample.bias = NULL;
	w->sample.since_ms = w->view->start_wall_ms;
	m->emit(w);
}

void zn_metrics_walk(struct zn_view *v, const char *name, void (*visit)(void *to, const struct zn_sample *s), void *to)
{
	const struct zn_metric *m = name ? find(name) : table;
	size_t n = !m ? 0 : name ? 1 : ZN_LEN(table);
	struct zn_walk w;

	zn_walk_init(&w, v, visit, to);
	for (size_t i = 0; i < n; i++)
		zn_walk_metric(&w, &m[i]);
}

void zn_metrics_list(FILE *to)
{
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "%s{%s} %s\n    %s\n", table[i].name, table[i].labels, zn_metrics_type_name(table[i].type),
			table[i].help);
}

static const char docs_head[] =
	"# Metrics\n\nMade by `make docs` from the table in `metrics.c`; do not edit.\n\n"
	"Each summary has a twin histogram, `<name without _seconds>_hist_seconds`, with `le` at powers of 4 "
	"from 1.024e-06 "
	"(4^5 ns) to 68.719476736 s (4^18 ns): its buckets are exact and can be added up across nodes. A "
	"quantile is within "
	"3.2 % of the exact one from 128 ns on; of file I/O within 12.5 %, but for the first 1,024 series of reads and writes.\n\n"
	"A series of a process appears with its first event and goes when the process has ended. Once the process is known to "
	"belong to a job, each of its series has one label more, the last, `job_id`; the label `job` is Prometheus's own and never "
	"used.\n\n"
	"The sums of a job, `zernel_job_*`, hold what its processes did that have gone. They stay for five minutes "
	"after its end, less only where other jobs need the room. A job that is requeued runs again under its `job_id`: only the "
	"newest run is shown, from 0 on, which reads as a reset of a counter; the reports keep them apart.\n\n"
	"OpenMetrics 1.0, which Prometheus asks for by itself, has the same samples, and `<name>_created` beside each counter, "
	"summary and histogram: when it was 0, which is the process's first hooked call or the daemon's start. In text 0.0.4 "
	"an info is a gauge. Prometheus with native histograms asks for Protocol Buffers: docs/SERVING.md says what it gets.\n\n"
	"| metric | type | labels | meaning |\n|---|---|---|---|\n";
static const char docs_lost[] =
	"\n## What can be lost\n\n`zernel_lost_total{what=...}`: all of them stay 0 on a healthy node.\n\n"
	"| what | meaning |\n|---|---|\n";

void zn_metrics_docs(FILE *to)
{
	fputs(docs_head, to);
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "| `%s` | %s | %s | %s |\n", table[i].name, zn_metrics_type_name(table[i].type),
			table[i].labels, table[i].help);
	fputs(docs_lost, to);
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++)
		fprintf(to, "| `%s` | %s |\n", zn_loss_label(i), zn_loss_help(i));
}

/* ---- Prometheus text 0.0.4 and OpenMetrics 1.0. ---- */

#define ROOM_AFTER  (3 << 20) /* for what follows the durations of file I/O */
#define ESCAPED_MAX 1024

/* A series of durations. It is there twice: as a summary, and in the histogram that is its twin, of the same moment. */
struct duration {
	size_t labels, labels_len; /* where in the text, with the opening bracket and without the closing one */
	uint64_t since_ms;
	struct zn_spread spread;
};
/* Scratch: pages are rendered one after the other. Each entry of a process stands for a histogram of its own. */
static struct duration durations[ZN_HISTS_MAX + ZN_IO_MAX];

/* The text as it is written. A series is its labels, written once; further lines of it copy them from there. */
struct text {
	struct zn_out *out;
	bool openmetrics;
	enum zn_metric_type type;  /* of the family at hand */
	struct zn_str name, base;  /* of its samples; without _total */
	size_t labels, labels_len; /* of the series at hand, as above */
	size_t durations;          /* entries in use */
	/* The last long value of a label: what it is, and how it is written. It comes with each symbol of a library. */
	size_t long_len, escaped_len;
	char long_value[ESCAPED_MAX / 3], escaped[ESCAPED_MAX];
};

static void put(struct zn_out *o, struct zn_str s)
{
	zn_out_bytes(o, s.at, s.len);
}

static struct zn_str str(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

static void put_comment(struct zn_out *o, const char *what, struct zn_str name, const char *text)
{
	zn_out_text(o, what);
	put(o, name);
	zn_out_char(o, ' ');
	zn_out_text(o, text);
	zn_out_char(o, '\n');
}

/* The help texts of the table need no escapes in either format, and a test holds them to it. */
static void put_head(const struct text *t, struct zn_str name, const char *type, const char *help)
{
	const char *unit = t->openmetrics ? zn_metrics_unit(name) : NULL;

	put_comment(t->out, "# HELP ", name, help);
	put_comment(t->out, "# TYPE ", name, type);
	if (unit)
		put_comment(t->out, "# UNIT ", name, unit);
}

/* OpenMetrics names a family without the _total or _info of its samples, and text 0.0.4 knows no info. */
static void open_family(struct text *t, const struct zn_metric *m)
{
	struct zn_str name = str(m->name);

	t->type = m->type;
	t->name = t->base = name;
	t->durations = 0;
	if (m->type == ZN_METRIC_COUNTER)
		t->base.len -= strlen("_total");
	if (t->openmetrics && m->type == ZN_METRIC_COUNTER)
		name.len -= strlen("_total");
	if (t->openmetrics && m->type == ZN_METRIC_INFO)
		name.len -= strlen("_info");
	put_head(t, name,
		zn_metrics_type_name(m->type == ZN_METRIC_INFO && !t->openmetrics ? ZN_METRIC_GAUGE : m->type),
		m->help);
}

/* Any bytes. Escapes what the format knows (backslash, quote, newline) on top of what UTF-8 demands. */
static void put_escaped(struct zn_out *o, struct zn_str s)
{
	size_t from = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] != '\\' && s.at[i] != '"' && s.at[i] != '\n')
			continue;
		zn_out_utf8(o, s.at + from, i - from);
		zn_out_char(o, '\\');
		zn_out_char(o, s.at[i] == '\n' ? 'n' : s.at[i]);
		from = i + 1;
	}
	zn_out_utf8(o, s.at + from, s.len - from);
}

/* The longest text is one whose bytes all become U+FFFD, three bytes each. */
static void put_long(struct text *t, struct zn_str s)
{
	struct zn_out escaped = {.at = t->escaped, .cap = sizeof(t->escaped)};

	if (s.len > sizeof(t->long_value)) {
		put_escaped(t->out, s);
		return;
	}
	if (s.len != t->long_len || memcmp(s.at, t->long_value, s.len)) {
		put_escaped(&escaped, s);
		memcpy(t->long_value, s.at, s.len);
		t->long_len = s.len;
		t->escaped_len = escaped.len;
	}
	zn_out_bytes(t->out, t->escaped, t->escaped_len);
}

/* Bytes that a value cannot be written with as they are. */
static const bool special[256] = {['\\'] = true, ['"'] = true, ['\n'] = true, [0x80 ... 0xff] = true};

/* There is room for a value as it is. False: it has to be escaped. */
static bool copy_plain(char *to, struct zn_str value)
{
	for (size_t i = 0; i < value.len; i++) {
		if (special[(uint8_t)value.at[i]])
			return false;
		to[i] = value.at[i];
	}
	return true;
}

/* Names of labels are short: a loop is faster than a call of memcpy(). */
static void put_label(struct text *t, char before, const struct zn_label *l)
{
	struct zn_out *o = t->out;
	char *to = o->at + o->len;

	if (o->full || l->name.len + l->value.len + strlen("{=\"\"") > o->cap - o->len) {
		o->full = true;
		return;
	}
	*to++ = before;
	for (size_t i = 0; i < l->name.len; i++)
		*to++ = l->name.at[i];
	*to++ = '=';
	*to++ = '"';
	o->len = (size_t)(to - o->at);
	if (copy_plain(to, l->value))
		o->len += l->value.len;
	else
		put_long(t, l->value);
	zn_out_char(o, '"');
}

/* From the name on to the last label, without the closing bracket. */
static void put_series(struct text *t, const struct zn_sample *s)
{
	put(t->out, t->name);
	t->labels = t->out->len;
	for (uint32_t i = 0; i < s->label_count; i++)
		put_label(t, i ? ',' : '{', &s->label[i]);
	t->labels_len = t->out->len - t->labels;
}

/* One more line of the series. */
static void put_again(struct text *t, const char *suffix)
{
	struct zn_out *o = t->out;

	put(o, t->base);
	zn_out_text(o, suffix);
	if (!o->full) /* else they were not all written */
		zn_out_bytes(o, o->at + t->labels, t->labels_len);
}

/* A value of a label ends in a quote, and a name does not. */
static void before_value(struct zn_out *o)
{
	if (o->len && o->at[o->len - 1] == '"')
		zn_out_bytes(o, "} ", 2);
	else
		zn_out_char(o, ' ');
}

static void put_number(struct text *t, uint64_t v, int decimals)
{
	before_value(t->out);
	if (decimals)
		zn_out_scaled(t->out, v, decimals);
	else
		zn_out_u64(t->out, v);
	zn_out_char(t->out, '\n');
}

/* OpenMetrics: when a counter, summary or histogram was 0. */
static void put_created(struct text *t, uint64_t since_ms)
{
	if (!t->openmetrics)
		return;
	put_again(t, "_created");
	put_number(t, since_ms, 3);
}

static void put_single(struct text *t, const struct zn_sample *s)
{
	put_series(t, s);
	if (s->negative) {
		before_value(t->out);
		zn_out_char(t->out, '-');
		zn_out_scaled(t->out, s->number, s->decimals);
		zn_out_char(t->out, '\n');
		return;
	}
	put_number(t, s->number, s->decimals);
	if (t->type == ZN_METRIC_COUNTER)
		put_created(t, s->since_ms);
}

static void put_quantile(struct text *t, const char *quantile, uint64_t ns)
{
	struct zn_out *o = t->out;

	zn_out_char(o, t->labels_len ? ',' : '{');
	zn_out_text(o, "quantile=\"");
	zn_out_text(o, quantile);
	zn_out_char(o, '"');
	put_number(t, ns, 9);
}

static void put_sum_and_count(struct text *t, uint64_t sum_ns, uint64_t count, uint64_t since_ms)
{
	put_again(t, "_sum");
	put_number(t, sum_ns, 9);
	put_again(t, "_count");
	put_number(t, count, 0);
	put_created(t, since_ms);
}

static void put_calibration(struct text *t, const struct zn_sample *s)
{
	const struct {
		const char *quantile;
		uint64_t ns;
	} lines[] = {{"0.1", s->bias->p10_ns}, {"0.5", s->bias->p50_ns}, {"0.9", s->bias->p90_ns},
		{"0.99", s->bias->p99_ns}};

	put_series(t, s);
	for (size_t i = 0; i < ZN_LEN(lines); i++) {
		if (i)
			put_again(t, "");
		put_quantile(t, lines[i].quantile, lines[i].ns);
	}
	put_sum_and_count(t, s->bias->sum_ns, s->bias->samples, s->since_ms);
}

/* As a summary, and kept for its twin, a histogram whose buckets can be added up across nodes. */
static void put_durations(struct text *t, const struct zn_sample *s)
{
	struct duration *d = &durations[t->durations];

	if (t->durations == ZN_LEN(durations))
		return;
	t->durations++;
	zn_hist_spread(s->hist, &d->spread);
	put_series(t, s);
	put_quantile(t, "0.5", d->spread.p50_ns);
	put_again(t, "");
	put_quantile(t, "0.99", d->spread.p99_ns);
	put_sum_and_count(t, d->spread.sum_ns, d->spread.le[ZN_LE_COUNT - 1], s->since_ms);
	d->labels = t->labels;
	d->labels_len = t->labels_len;
	d->since_ms = s->since_ms;
}

static void put_sample(void *to, const struct zn_sample *s)
{
	if (s->hist)
		put_durations(to, s);
	else if (s->bias)
		put_calibration(to, s);
	else
		put_single(to, s);
}

/* As the Prometheus libraries print the limits of zn_le_ns(), in seconds, and as OpenMetrics wants them: these strings
 * never change. */
#define LE(v)                                                                                                          \
	{                                                                                                              \
		"le=\"" v "\"} ", sizeof("le=\"" v "\"} ") - 1                                                         \
	}
static const struct zn_str le_label[ZN_LE_COUNT] = {LE("1.024e-06"), LE("4.096e-06"), LE("1.6384e-05"),
	LE("6.5536e-05"), LE("0.000262144"), LE("0.001048576"), LE("0.004194304"), LE("0.016777216"), LE("0.067108864"),
	LE("0.268435456"), LE("1.073741824"), LE("4.294967296"), LE("17.179869184"), LE("68.719476736"), LE("+Inf")};

/* The lines of all buckets begin alike: what the first one begins with, which is there, is copied. */
static void put_buckets(struct zn_out *o, struct zn_str begin, const uint64_t le[ZN_LE_COUNT])
{
	for (uint32_t i = 0; i < ZN_LE_COUNT && !o->full; i++) {
		if (i)
			put(o, begin);
		put(o, le_label[i]);
		zn_out_u64(o, le[i]);
		zn_out_char(o, '\n');
	}
}

static void put_histogram(struct text *t, const struct duration *d)
{
	struct zn_out *o = t->out;
	size_t at = o->len;

	t->labels = d->labels;
	t->labels_len = d->labels_len;
	put_again(t, "_bucket");
	zn_out_char(o, t->labels_len ? ',' : '{');
	put_buckets(o, (struct zn_str){o->at + at, o->len - at}, d->spread.le);
	put_sum_and_count(t, d->spread.sum_ns, d->spread.le[ZN_LE_COUNT - 1], d->since_ms);
}

/* The twin has its place even without a series. */
static void close_family(struct text *t, const struct zn_metric *m)
{
	char twin[ZN_TWIN_BYTES];

	if (!m->twin)
		return;
	zn_metrics_twin(twin, m->name);
	t->name = t->base = str(twin);
	put_head(t, t->base, "histogram", m->help);
	for (size_t i = 0; i < t->durations && !t->out->full; i++)
		put_histogram(t, &durations[i]);
}

static int32_t room_for_files(void *to)
{
	const struct text *t = to;
	size_t taken = t->out->len + ROOM_AFTER;

	return t->out->cap > taken ? (int32_t)(t->out->cap - taken) : 0;
}

void zn_metrics_text(struct zn_out *o, struct zn_view *v, bool openmetrics)
{
	struct text t = {.out = o, .openmetrics = openmetrics};
	uint64_t start = zn_now_ns();
	const struct zn_metric *m;
	struct zn_walk w;

	zn_agg_refresh(v->agg);
	if (v->flows)
		zn_flows_refresh(v->flows);
	zn_walk_init(&w, v, put_sample, &t);
	w.room = room_for_files;
	for (size_t i = 0; (m = zn_metrics_at(i)); i++) {
		open_family(&t, m);
		zn_walk_metric(&w, m);
		close_family(&t, m);
	}
	if (openmetrics)
		zn_out_text(o, "# EOF\n");
	v->render_ns = zn_now_ns() - start;
}
