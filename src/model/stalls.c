/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stalls.c: why a GPU is idle, in figures and in one sentence: where the time of the threads that launch its work went,
 * what their data loader's workers did meanwhile, and which rank the others wait for.
 */
#include "zernel.h"
#include <string.h>

#define SHARE_ONE 1000000000u
#define MS        6 /* decimals from nanoseconds */
#define NS        9
#define SEEN_PART 4 /* one in so many of a tick has to be seen, or nothing is said of the rest */

static uint64_t sum_of(const uint64_t *ns, size_t count)
{
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all += ns[i];
	return all;
}

static uint64_t share_of(uint64_t part, uint64_t all)
{
	return all ? (uint64_t)((__uint128_t)part * SHARE_ONE / all) : 0;
}

static bool has_calls(const struct zn_agg *a, const struct zn_proc *p, enum zn_operation d)
{
	const struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

	return h && h->calls;
}

bool zn_stalls_loader(const struct zn_agg *a, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(a->arena, row);

	return p && zn_agg_measures(a, ZN_FAM_DATALOAD) &&
		(has_calls(a, p, ZN_H_DATALOAD) || has_calls(a, p, ZN_H_WORKER_IDLE) ||
			a->info[row].stall_ns[ZN_STALL_DATA]);
}

/* Waits for data are shown only if the waits of the loader are known. */
static bool cause_known(const struct zn_agg *a, enum zn_stall s, bool loader)
{
	if (s == ZN_STALL_DATA)
		return loader;
	return s != ZN_STALL_DIST || zn_agg_measures(a, ZN_FAM_DIST_SYNC);
}

/* What is known of a process that is spared too: waits in hooked calls. Waits for other ranks are that with NCCL; over
 * sockets the scheduler alone knows them. */
static bool is_exact(const struct zn_proc *p, enum zn_stall s)
{
	return s == ZN_STALL_GPU || (s == ZN_STALL_DIST && p && p->comms);
}

/* Over the last tick, ns: what was seen of a part of it stands for all of it. Returns the sum; 0: too little was seen,
 * or there is none. */
static uint64_t ticks_of(const struct zn_agg *a, uint32_t row, uint64_t to[ZN_STALL_COUNT])
{
	const struct zn_info *info = &a->info[row];
	const struct zn_proc *p = zn_arena_proc(a->arena, row);
	uint64_t seen_ns = a->interval_ns > info->unseen_tick_ns ? a->interval_ns - info->unseen_tick_ns : 0;

	memcpy(to, info->stall_tick_ns, sizeof(info->stall_tick_ns));
	if (info->unseen_tick_ns && (!seen_ns || seen_ns < a->interval_ns / SEEN_PART))
		return 0;
	for (enum zn_stall s = 0; info->unseen_tick_ns && s < ZN_STALL_COUNT; s++)
		if (!is_exact(p, s))
			to[s] = (uint64_t)((__uint128_t)to[s] * a->interval_ns / seen_ns);
	return sum_of(to, ZN_STALL_COUNT);
}

bool zn_stalls_shares(const struct zn_agg *a, uint32_t row, struct zn_stall_ratios *to)
{
	uint64_t ns[ZN_STALL_COUNT], all = ticks_of(a, row, ns);
	bool loader = zn_stalls_loader(a, row);

	*to = (struct zn_stall_ratios){0};
	memcpy(to->seconds_ns, a->info[row].stall_ns, sizeof(to->seconds_ns));
	if (!all || !zn_agg_measures(a, ZN_FAM_SCHED))
		return false;
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
		to->known[s] = cause_known(a, s, loader);
		to->share[s] = (uint32_t)share_of(ns[s], all);
	}
	return true;
}

/* ---- the sentence ---- */

/* What a data loader's workers did over the last tick, as far as it is known. */
static const char *put_workers(const struct zn_stalls_summary *f, char to[64])
{
	if (!f->workers)
		return "";
	snprintf(to, 64, "; its %u loader worker%s %s", f->workers, f->workers == 1 ? "" : "s",
		f->workers == 1 ? "is" : "are");
	return to;
}

static const char *workers_do(const struct zn_stalls_summary *f)
{
	if (!f->workers)
		return "";
	if (f->worker_busy >= SHARE_ONE / 2)
		return " busy";
	return f->worker_busy == ZN_UNKNOWN ? " waited for" : " idle: the wait is in the pinning thread, or on the way";
}

static const char *late_one(const struct zn_stalls_summary *f, const char *what, char to[64])
{
	if (!f->late_pid)
		return "";
	if (f->late_rank == ZN_UNKNOWN)
		snprintf(to, 64, "; process %u %s", f->late_pid, what);
	else
		snprintf(to, 64, "; rank %u (pid %u) %s", f->late_rank, f->late_pid, what);
	return to;
}

static unsigned percent_of(const struct zn_stalls_summary *f, enum zn_stall s)
{
	return (unsigned)((f->share[s] + SHARE_ONE / 200) / (SHARE_ONE / 100));
}

/* A wait that takes at least so many per mille, the longest of them, comes before what follows from having work. */
static const struct {
	enum zn_stall cause;
	uint32_t least;
	const char *text;
} sentences[] = {
	{ZN_STALL_DATA, 100, "waits for data"},
	{ZN_STALL_DIST, 100, "waits for other ranks"},
	{ZN_STALL_IO, 100, "is blocked on files or page faults"},
	{ZN_STALL_RUNQUEUE, 100, "finds no free CPU"},
	{ZN_STALL_OTHER, 250, "sleeps, on a lock or a timer,"},
};

static int worst_sentence(const struct zn_stalls_summary *f)
{
	int found = -1;

	for (size_t i = 0; i < ZN_LEN(sentences); i++) {
		uint32_t share_ = f->share[sentences[i].cause];

		if (share_ >= sentences[i].least * (SHARE_ONE / 1000) &&
			(found < 0 || share_ > f->share[sentences[found].cause]))
			found = (int)i;
	}
	return found;
}

static void says_working(const struct zn_stalls_summary *f, char to[ZN_SAYS_MAX])
{
	char late[64];

	if (f->share[ZN_STALL_GPU] >= f->share[ZN_STALL_CPU] && f->late_pid) /* on its GPU it waits for that rank */
		snprintf(to, ZN_SAYS_MAX, "%s waits for the GPU, or there for others, %u %% of its time%s", f->who,
			percent_of(f, ZN_STALL_GPU), late_one(f, "is the last to communicate", late));
	else if (f->share[ZN_STALL_GPU] >= f->share[ZN_STALL_CPU])
		snprintf(to, ZN_SAYS_MAX, "%s keeps the GPU busy and waits for it %u %% of its time", f->who,
			percent_of(f, ZN_STALL_GPU));
	else
		snprintf(to, ZN_SAYS_MAX, "%s runs on the CPU %u %% of its time%s", f->who, percent_of(f, ZN_STALL_CPU),
			late_one(f, "is the last to communicate", late));
}

#define NAME_BYTES 40

static void name_missing(const struct zn_missing *m, char to[NAME_BYTES])
{
	if (m->rank == ZN_UNKNOWN)
		snprintf(to, NAME_BYTES, "process %u", m->tgid);
	else
		snprintf(to, NAME_BYTES, "rank %u (process %u)", m->rank, m->tgid);
}

/* A wait for a rank that does not come explains all other waits. */
static void says_waiting(const struct zn_stalls_summary *f, char to[ZN_SAYS_MAX])
{
	const struct zn_missing *m = f->waits_for;
	uint64_t since_ns = m->doing == ZN_DOING_GONE ? m->gone_ns : m->since_ns;
	unsigned long long seconds = (f->now_ns - since_ns) / ZN_NS_PER_S;
	char name[NAME_BYTES], does[ZN_DOING_TEXT];

	name_missing(m, name);
	zn_missing_says(m, does);
	if (m->doing == ZN_DOING_GONE)
		snprintf(to, ZN_SAYS_MAX, "%s waits for %s, which %s %llu s ago", f->who, name, does, seconds);
	else
		snprintf(to, ZN_SAYS_MAX, "%s waits for %s, which %s, for %llu s", f->who, name, does, seconds);
}

static void says_missing(const struct zn_stalls_summary *f, char to[ZN_SAYS_MAX])
{
	unsigned waiters = (unsigned)__builtin_popcount(f->missing->waiters);
	unsigned long long seconds = (f->now_ns - f->missing->since_ns) / ZN_NS_PER_S;
	char does[ZN_DOING_TEXT];

	zn_missing_says(f->missing, does);
	snprintf(to, ZN_SAYS_MAX, "%s keeps %u other rank%s waiting for %llu s: it %s", f->who, waiters,
		waiters == 1 ? "" : "s", seconds, does);
}

static void says_still(const struct zn_stalls_summary *f, char to[ZN_SAYS_MAX])
{
	char text[ZN_ALL_WAIT_TEXT];

	if (f->stopped_ns) {
		snprintf(to, ZN_SAYS_MAX, "%s %s, for %llu s", f->who, zn_stopped_says(f->stop),
			(unsigned long long)((f->now_ns - f->stopped_ns) / ZN_NS_PER_S));
		return;
	}
	zn_all_wait_says(f->all_wait, f->now_ns, text);
	snprintf(to, ZN_SAYS_MAX, "%s: %s", f->who, text);
}

void zn_stalls_says(const struct zn_stalls_summary *f, char to[ZN_SAYS_MAX])
{
	int i = worst_sentence(f);
	char text[64];

	if (f->missing) {
		says_missing(f, to);
		return;
	}
	if (f->waits_for) {
		says_waiting(f, to);
		return;
	}
	if (f->all_wait || f->stopped_ns) {
		says_still(f, to);
		return;
	}
	if (i < 0) {
		says_working(f, to);
		return;
	}
	snprintf(to, ZN_SAYS_MAX, "%s %s %u %% of its time", f->who,
		f->asked && sentences[i].cause == ZN_STALL_OTHER ? "sleeps, until it is asked or for another reason,"
								 : sentences[i].text,
		percent_of(f, sentences[i].cause));
	if (sentences[i].cause == ZN_STALL_DATA) {
		strncat(to, put_workers(f, text), ZN_SAYS_MAX - strlen(to) - 1);
		strncat(to, workers_do(f), ZN_SAYS_MAX - strlen(to) - 1);
	} else if (sentences[i].cause == ZN_STALL_DIST) {
		strncat(to, late_one(f, "is the straggler", text), ZN_SAYS_MAX - strlen(to) - 1);
	}
}

/* The rank of a process in its largest communicator, which is the program's own rank. */
static uint32_t rank_of(const struct zn_agg *a, uint32_t tgid)
{
	const struct zn_comm *largest = NULL;

	for (size_t i = 0; i < a->comm_count; i++) {
		const struct zn_comm *c = &a->comms[i];

		if (c->tgid == tgid && c->rank != ZN_UNKNOWN && c->nranks != ZN_UNKNOWN &&
			(!largest || c->nranks > largest->nranks))
			largest = c;
	}
	return largest ? largest->rank : ZN_UNKNOWN;
}

#define LATE_LEAST 10 /* per cent of the last tick */

static bool is_in(const struct zn_skew *s, uint32_t tgid)
{
	for (uint32_t m = 0; s && m < ZN_SKEW_RANKS && m < s->members; m++)
		if (s->member[m].tgid == tgid)
			return true;
	return false;
}

/* The rank of a process's communicators that was later than the others for most of the last tick; not itself. */
static void late_by_issue(const struct zn_ranks *k, uint32_t tgid, struct zn_stalls_summary *f)
{
	uint64_t most_ns = k->interval_ns * LATE_LEAST / 100;

	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = zn_arena_skew(k->agg->arena, slot);
		uint32_t members = is_in(s, tgid) ? s->members : 0;

		for (uint32_t m = 0; m < ZN_SKEW_RANKS && m < members; m++) {
			const struct zn_skew_rank *rank = &s->member[m];

			if (!rank->id || !k->late_tick_ns[slot][m] || k->late_tick_ns[slot][m] < most_ns)
				continue;
			most_ns = k->late_tick_ns[slot][m];
			f->late_ns = most_ns;
			f->late_pid = rank->tgid == tgid ? 0 : rank->tgid;
			f->late_rank = rank->rank;
		}
	}
}

/* ZN_UNKNOWN: it has no time, or too little was seen. */
static uint64_t dist_share(const struct zn_agg *a, uint32_t row)
{
	uint64_t ns[ZN_STALL_COUNT], all = ticks_of(a, row, ns);

	return all ? share_of(ns[ZN_STALL_DIST], all) : ZN_UNKNOWN;
}

/* Outside of jobs, programs of several owners are no ranks of one program. */
static bool may_be_ranks(const struct zn_proc *a, const struct zn_proc *b)
{
	return a->job.serial == b->job.serial && (a->job.serial || a->owner == b->owner);
}

/* Ranks that talk over sockets: of those of the same job that wait for one another, the rank that waits least, if
 * that is less than half of what this rank waits. */
static void late_by_waits(const struct zn_agg *a, uint32_t row, struct zn_stalls_summary *f)
{
	const struct zn_proc *own = zn_arena_proc(a->arena, row);
	uint64_t own_share = dist_share(a, row), least = own_share == ZN_UNKNOWN ? 0 : own_share / 2;

	for (uint32_t r = 0; r < a->row_count; r++) {
		const struct zn_proc *p = a->row[r] == row ? NULL : zn_arena_proc(a->arena, a->row[r]);

		if (!p || !may_be_ranks(p, own) || !has_calls(a, p, ZN_H_DIST_SYNC) ||
			dist_share(a, a->row[r]) >= least)
			continue;
		least = dist_share(a, a->row[r]);
		f->late_pid = p->tgid;
		f->late_rank = rank_of(a, p->tgid);
	}
}

bool zn_stalls_late(struct zn_agg *a, const struct zn_ranks *k, uint32_t row, uint32_t *pid, uint32_t *rank)
{
	const struct zn_proc *p = zn_arena_proc(a->arena, row);
	struct zn_stalls_summary f = {.late_rank = ZN_UNKNOWN};

	if (p)
		late_by_waits(a, row, &f);
	if (p && k)
		late_by_issue(k, p->tgid, &f);
	*pid = f.late_pid;
	*rank = f.late_rank;
	return f.late_pid;
}

uint64_t zn_stalls_late_issue(const struct zn_ranks *k, uint32_t tgid, uint32_t *pid, uint32_t *rank)
{
	struct zn_stalls_summary f = {.late_rank = ZN_UNKNOWN};

	late_by_issue(k, tgid, &f);
	*pid = f.late_pid;
	*rank = f.late_rank;
	return f.late_pid ? f.late_ns : 0;
}

uint32_t zn_stalls_workers_busy(const struct zn_agg *a, uint32_t row)
{
	const struct zn_info *info = &a->info[row];
	uint64_t worked = sum_of(info->worker_tick_ns, ZN_LEN(info->worker_tick_ns));

	return worked ? (uint32_t)share_of(info->worker_tick_ns[0], worked) : ZN_UNKNOWN;
}

void zn_stalls_summary(const struct zn_agg *a, const struct zn_ranks *k, const struct zn_stopped *stopped, uint32_t row,
	const struct zn_stall_ratios *s, struct zn_stalls_summary *f)
{
	const struct zn_proc *p = zn_arena_proc(a->arena, row);
	uint32_t rank = rank_of(a, p->tgid);

	*f = (struct zn_stalls_summary){.late_rank = ZN_UNKNOWN, .worker_busy = zn_stalls_workers_busy(a, row)};
	if (rank == ZN_UNKNOWN)
		snprintf(f->who, sizeof(f->who), "process %u", p->tgid);
	else
		snprintf(f->who, sizeof(f->who), "rank %u", rank);
	memcpy(f->share, s->share, sizeof(f->share));
	f->asked = p->calls & ZN_IS_ASKED;
	if (zn_stalls_loader(a, row))
		f->workers = (uint32_t)p->count[ZN_C_WORKERS];
	late_by_waits(a, row, f);
	if (!k)
		return;
	late_by_issue(k, p->tgid, f);
	f->waits_for = zn_ranks_waited_for(k, row);
	f->missing = k->missing_of[row];
	f->all_wait = zn_ranks_all_wait(k, row);
	f->stopped_ns = stopped ? zn_stopped_since(stopped, row, p->id) : 0;
	f->stop = f->stopped_ns ? stopped->kind[row] : ZN_STOP_NONE;
	f->now_ns = k->tick_ns;
}

/* ---- JSON ---- */
