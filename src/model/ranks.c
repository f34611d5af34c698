/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ranks.c: which rank of a communicator the others of this node wait for, for how long, and what it does instead. A
 * rank is missing where a peer has issued a collective that it has not, and that peer waits; or where its process has
 * ended while its peers wait. Ranks on other nodes are not known, so they are never missing.
 *
 * Who is missing in one communicator may itself wait for somebody in another one: only the last of such a chain is
 * shown. Where all ranks of this node wait and none is missing, one on another node may be.
 */
#include "zernel.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_NS    ZN_NS_PER_S        /* a shorter wait is what collectives are for */
#define ALL_WAIT_NS (10 * ZN_NS_PER_S) /* a shorter one is what GPUs are for */
#define CHAIN_MAX   16
#define TREE_MAX    64                 /* processes that a rank has started, itself included */
#define BUSY_SHARE  10                 /* per cent of one CPU: a process that uses more is not asleep */
#define LOOK_NS     (ZN_NS_PER_MS / 2) /* of a tick, for looks into /proc */

/* ---- What is known of a process. ---- */

static const struct zn_proc *process_of(const struct zn_ranks *k, uint32_t row, uint32_t id)
{
	const struct zn_proc *p = row < ZN_PROCS_MAX ? zn_arena_proc(k->agg->arena, row) : NULL;

	return p && p->id == id && !p->exit_ns && k->agg->arena->shared->row_tgid[row] ? p : NULL;
}

/* Time of its launching threads over the last tick, ns; 0 also where the kernel does not tell. */
static uint64_t spent_ns(const struct zn_ranks *k, uint32_t row, enum zn_stall s)
{
	return k->agg->info[row].stall_tick_ns[s];
}

static bool has_moved(const struct zn_ranks *k, uint32_t row, uint32_t id, enum zn_progress_kind kind)
{
	return zn_progress_moved(k->progress, row, id, kind);
}

static bool works_on_gpu(const struct zn_ranks *k, uint32_t row, uint32_t id)
{
	return has_moved(k, row, id, ZN_PROGRESS_LAUNCH) || has_moved(k, row, id, ZN_PROGRESS_COPY) ||
		has_moved(k, row, id, ZN_PROGRESS_ISSUE);
}

/* One of its threads spent most of the tick in calls that wait for a GPU or for other ranks. */
static bool waits_in_call(const struct zn_ranks *k, uint32_t row)
{
	return spent_ns(k, row, ZN_STALL_GPU) + spent_ns(k, row, ZN_STALL_DIST) >= k->interval_ns / 2;
}

/* It waits in such a call, or all its threads slept, and none launched anything. In time that was spared they may not
 * have slept. */
static bool process_waits(const struct zn_ranks *k, uint32_t row, uint32_t id)
{
	uint64_t busy_ns;

	if (!process_of(k, row, id) || works_on_gpu(k, row, id))
		return false;
	busy_ns = spent_ns(k, row, ZN_STALL_CPU) + spent_ns(k, row, ZN_STALL_RUNQUEUE) + spent_ns(k, row, ZN_STALL_IO) +
		k->agg->info[row].unseen_tick_ns;
	return waits_in_call(k, row) || busy_ns < k->interval_ns / 2;
}

/* ---- Which rank is missing. ---- */

/* When a peer issued what this rank has not: of what the window holds no more, the oldest time that it has. */
static uint64_t issued_ns(const struct zn_skew *s, uint32_t peer, uint64_t n)
{
	uint64_t issued = s->member[peer].issued;

	if (issued - n > ZN_SKEW_WINDOW)
		n = issued;
	return s->at_ns[n & (ZN_SKEW_WINDOW - 1)][peer];
}

static uint32_t member_count(const struct zn_skew *s)
{
	return s->members < ZN_SKEW_RANKS ? s->members : ZN_SKEW_RANKS;
}

static void keep_first(uint64_t *since_ns, uint64_t ns)
{
	if (!*since_ns || ns < *since_ns)
		*since_ns = ns;
}

static void add_waiter(struct zn_missing *m, uint32_t peer, uint64_t since_ns)
{
	m->waiters |= 1u << peer;
	keep_first(&m->since_ns, since_ns);
}

/* Sends and receives of a member. */
static uint32_t pairs_of(const struct zn_skew *s, uint32_t member)
{
	uint32_t all = 0;

	for (uint32_t peer = 0; peer < ZN_SKEW_RANKS; peer++)
		all += s->sent[member][peer] + s->received[member][peer];
	return all;
}

/* The peer has asked to receive what this one has not sent, or has sent what this one has not asked for. */
static bool owes_peer(const struct zn_skew *s, uint32_t member, uint32_t peer)
{
	return (int32_t)(s->received[peer][member] - s->sent[member][peer]) > 0 ||
		(int32_t)(s->sent[peer][member] - s->received[member][peer]) > 0;
}

/* Peers that have issued what it has not, and wait. Point to point no times are kept: then from the tick on at
 * which it was seen first, or at which the rank sent or received last. */
static void note_waiters(const struct zn_ranks *k, const struct zn_skew *s, struct zn_missing *m, uint64_t before_ns)
{
	uint64_t n = s->member[m->member].issued, pair_ns = before_ns ? before_ns : k->tick_ns;

	for (uint32_t peer = 0; peer < member_count(s); peer++) {
		const struct zn_skew_rank *r = &s->member[peer];

		if (!r->id || r->tgid == m->tgid || !process_waits(k, r->row, r->id))
			continue;
		if (r->issued > n) {
			add_waiter(m, peer, issued_ns(s, peer, n));
			keep_first(&m->collective_since_ns, issued_ns(s, peer, n));
		} else if (owes_peer(s, m->member, peer) && waits_in_call(k, r->row))
			add_waiter(m, peer, pair_ns);
	}
}

/* Its part of a collective that all have issued may have died with it. A rank that ended well had nothing left to
 * do. */
static void note_waiters_of_dead(const struct zn_ranks *k, const struct zn_skew *s, struct zn_missing *m)
{
	for (uint32_t peer = 0; m->exit_code && peer < member_count(s); peer++) {
		const struct zn_skew_rank *r = &s->member[peer];

		if (r->id && r->tgid != m->tgid && r->issued && process_waits(k, r->row, r->id) &&
			waits_in_call(k, r->row))
			add_waiter(m, peer, m->gone_ns);
	}
}

/* How its process ended is kept for as long as its row is nobody else's. */
static void note_end(const struct zn_ranks *k, struct zn_missing *m)
{
	const struct zn_info *info = m->row < ZN_PROCS_MAX ? &k->agg->info[m->row] : NULL;

	if (m->gone_ns)
		return;
	m->exit_code = info && info->gone_id == m->id ? info->exit_code : ZN_UNKNOWN;
	m->gone_ns = info && info->gone_id == m->id ? info->gone_ns : k->tick_ns;
}

/* A usual wait of a communicator is a wait for a rank that came in the end. */
static void note_ended_wait(struct zn_ranks *k, const struct zn_missing *m)
{
	uint64_t took_ns = k->tick_ns - m->since_ns;

	if (!m->gone_ns && took_ns > k->longest_ns[m->slot])
		k->longest_ns[m->slot] = took_ns;
}

/* What came between the tick's time and the look at it came at the tick. */
static void not_after(uint64_t *ns, uint64_t tick_ns)
{
	if (*ns > tick_ns)
		*ns = tick_ns;
}

static void look_at_member(struct zn_ranks *k, const struct zn_skew *s, uint32_t slot, uint32_t member)
{
	struct zn_missing *m = &k->missing[slot][member], before = *m;
	const struct zn_skew_rank *r = &s->member[member];
	uint32_t pairs = pairs_of(s, member);
	bool came;

	if (m->id != r->id || m->comm != s->hash)
		before = (struct zn_missing){.slot = slot, .member = member, .comm = s->hash, .id = r->id};
	*m = before;
	came = r->issued != before.issued || pairs != before.pairs;
	m->tgid = r->tgid;
	m->row = r->row;
	m->rank = r->rank;
	m->waiters = 0;
	m->since_ns = m->collective_since_ns = 0;
	m->follows = m->cycle = false;
	m->stop = ZN_STOP_NONE;
	if (!r->id)
		return;
	note_waiters(k, s, m, came ? 0 : before.since_ns);
	if (!process_of(k, r->row, r->id)) {
		note_end(k, m);
		note_waiters_of_dead(k, s, m);
	}
	if (came && before.since_ns)
		note_ended_wait(k, &before);
	m->issued = r->issued;
	m->pairs = pairs;
	if (!m->waiters && !came) /* who waited does something else for a moment, and it has not come yet */
		m->since_ns = before.since_ns;
	if (!m->waiters || came)
		m->doing_ns = 0;
	if (!m->waiters)
		m->cpu_ticks = 0;
	not_after(&m->since_ns, k->tick_ns);
	not_after(&m->collective_since_ns, k->tick_ns);
	not_after(&m->gone_ns, k->tick_ns);
}

/* ---- What it does instead. ---- */

/* What the kernel calls the place where a task sleeps, and what that is. */
static const struct {
	const char *begins, *says;
} places[] = {
	{"pipe_read", "read() of a pipe"},
	{"anon_pipe_read", "read() of a pipe"},
	{"pipe_w", "write() to a pipe"},
	{"anon_pipe_write", "write() to a pipe"},
	{"futex_wait", "futex(): a lock, or a thread of its own"},
	{"hrtimer_nanosleep", "sleep()"},
	{"do_nanosleep", "sleep()"},
	{"common_nsleep", "sleep()"},
	{"ep_poll", "epoll_wait()"},
	{"do_epoll_wait", "epoll_wait()"},
	{"do_select", "select()"},
	{"do_sys_poll", "poll()"},
	{"poll_schedule", "poll()"},
	{"do_poll", "poll()"},
	{"unix_stream_read", "recv() of a Unix socket"},
	{"wait_woken", "recv() of a socket"},
	{"sk_wait_data", "recv() of a socket"},
	{"inet_csk_accept", "accept()"},
	{"do_wait", "wait() for a process it started"},
	{"kernel_wait4", "wait() for a process it started"},
	{"do_sigtimedwait", "sigwait()"},
	{"do_freezer_trap", "a frozen control group"},
	{"__refrigerator", "a frozen control group"},
};

static void name_place(struct zn_missing *m, const char *place)
{
	m->in[0] = 0;
	for (size_t i = 0; i < ZN_LEN(places); i++)
		if (!strncmp(place, places[i].begins, strlen(places[i].begins))) {
			snprintf(m->in, sizeof(m->in), "%s", places[i].says);
			return;
		}
	for (const char *c = place; *c; c++) /* a name of the kernel's, or of a module's */
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_' ||
			    *c == '.'))
			return;
	if (place[0] && strcmp(place, "0"))
		snprintf(m->in, sizeof(m->in), "the kernel's %.40s()", place);
}

/* Processes that the main thread of one has started, behind those that are there already. Returns how many there
 * are. */
static uint32_t add_children(const struct zn_ranks *k, uint32_t pid, uint32_t list[TREE_MAX], uint32_t count)
{
	char path[ZN_TEXT_MAX], text[1024], *at = text, *end;

	snprintf(path, sizeof(path), "%s/%u/task/%u/children", k->proc, pid, pid);
	if (zn_file_read(path, text, sizeof(text)) <= 0)
		return count;
	while (count < TREE_MAX) {
		unsigned long child = strtoul(at, &end, 10);

		if (end == at || *end != ' ') /* the last one may be cut */
			break;
		list[count++] = (uint32_t)child;
		at = end;
	}
	return count;
}

/* CPU time of the process, of what it has started, and so on, in clock ticks. */
static uint64_t cpu_ticks_of(const struct zn_ranks *k, uint32_t pid)
{
	uint32_t list[TREE_MAX] = {pid}, count = 1;
	struct zn_procfs_stat stat;
	uint64_t all = 0;

	for (uint32_t i = 0; i < count; i++) {
		all += zn_procfs_stat(k->proc, list[i], &stat) ? stat.cpu_ticks : 0;
		count = add_children(k, list[i], list, count);
	}
	return all;
}

/* Whether it, or what it started, used the CPU since it was looked at last. */
static bool uses_cpu(const struct zn_ranks *k, struct zn_missing *m)
{
	uint64_t now = cpu_ticks_of(k, m->tgid), before = m->cpu_ticks, passed_ns = k->tick_ns - m->look_ns;

	m->cpu_ticks = now;
	m->look_ns = k->tick_ns;
	return before && now > before && (now - before) * k->tick_hz_ns * 100 > passed_ns * BUSY_SHARE;
}

static enum zn_doing doing_by_counters(const struct zn_ranks *k, const struct zn_missing *m)
{
	uint64_t half = k->interval_ns / 2;
	uint32_t row = m->row;

	if (works_on_gpu(k, row, m->id) || waits_in_call(k, row))
		return ZN_DOING_GPU;
	if (spent_ns(k, row, ZN_STALL_DATA) >= half || has_moved(k, row, m->id, ZN_PROGRESS_BATCH))
		return ZN_DOING_DATA;
	if (spent_ns(k, row, ZN_STALL_IO) >= half || has_moved(k, row, m->id, ZN_PROGRESS_IO))
		return ZN_DOING_IO;
	if (spent_ns(k, row, ZN_STALL_CPU) + spent_ns(k, row, ZN_STALL_RUNQUEUE) >= half)
		return ZN_DOING_CPU;
	return ZN_DOING_ASLEEP;
}

/* What a sleep is. Users may have many ranks that sleep, each with many threads. A rank for which this tick has no
 * time keeps its last result, and comes first in the next tick. */
static enum zn_doing look_at_sleep(struct zn_ranks *k, struct zn_missing *m)
{
	const struct zn_proc *p = process_of(k, m->row, m->id);
	char place[ZN_PLACE_BYTES] = "";
	struct zn_procfs_stat stat = {0};
	uint64_t begin_ns = zn_now_ns();
	bool busy;

	if (!k->proc)
		return ZN_DOING_ASLEEP;
	if (k->looked_ns >= LOOK_NS) {
		k->next = k->next == ZN_SKEWS_MAX ? m->slot : k->next;
		return m->doing == ZN_DOING_ASLEEP ? ZN_DOING_ASLEEP : ZN_DOING_CPU;
	}
	busy = uses_cpu(k, m);
	zn_procfs_stat(k->proc, m->tgid, &stat);
	if (k->place && p)
		k->place(k->owner, m->tgid, p->owner, place);
	name_place(m, place);
	m->stop = zn_stopped_kind(stat.state, place);
	k->looked_ns += zn_now_ns() - begin_ns;
	return busy && m->stop != ZN_STOP_SIGNAL ? ZN_DOING_CPU : ZN_DOING_ASLEEP;
}

static enum zn_doing doing_now(struct zn_ranks *k, struct zn_missing *m)
{
	enum zn_doing doing;

	if (!process_of(k, m->row, m->id))
		return ZN_DOING_GONE;
	if (zn_progress_stuck(k->progress, m->row, m->id))
		return ZN_DOING_DRIVER;
	doing = doing_by_counters(k, m);
	return doing == ZN_DOING_ASLEEP ? look_at_sleep(k, m) : doing;
}

/* doing_ns 0: it was not missing at the last tick. */
static void note_doing(struct zn_ranks *k, struct zn_missing *m)
{
	enum zn_doing doing = doing_now(k, m);

	if (doing == ZN_DOING_GONE)
		m->doing_ns = m->gone_ns;
	else if (!m->doing_ns || m->doing != doing)
		m->doing_ns = k->tick_ns;
	m->doing = doing;
}

/* ---- Chains. ---- */

/* The rank that a process has waited for the longest. */
static void note_waits(struct zn_ranks *k, const struct zn_skew *s, const struct zn_missing *m)
{
	for (uint32_t peer = 0; peer < member_count(s); peer++) {
		const struct zn_missing **to;

		if (!(m->waiters >> peer & 1))
			continue;
		to = &k->waits_for[s->member[peer].row]; /* who waits has a row */
		k->waits_id[s->member[peer].row] = s->member[peer].id;
		if (!*to || m->since_ns < (*to)->since_ns)
			*to = m;
	}
}

/* The rank that a missing rank waits for itself; NULL: none. */
static const struct zn_missing *next_of(const struct zn_ranks *k, const struct zn_missing *m)
{
	return m->gone_ns ? NULL : k->waits_for[m->row];
}

/* Ranks that wait for each other in a circle follow nobody: the circle is all there is. */
static void note_chain(const struct zn_ranks *k, struct zn_missing *m)
{
	const struct zn_missing *next = next_of(k, m);

	for (int i = 0; next && i < CHAIN_MAX && !m->cycle; i++) {
		m->cycle = next->tgid == m->tgid;
		next = next_of(k, next);
	}
	m->follows = !m->cycle && next_of(k, m);
}

/* ---- All ranks of this node wait. ---- */

/* When a process last did something that leads on with its GPU. Files are not asked: a log or a checkpoint that
 * another thread writes ends no wait. */
static uint64_t worked_ns(const struct zn_ranks *k, uint32_t row)
{
	const struct zn_progress_row *r = &k->progress->row[row];
	uint64_t last_ns = r->first_ns;

	for (enum zn_progress_kind kind = 0; kind < ZN_PROGRESS_COUNT; kind++)
		if (kind != ZN_PROGRESS_IO && r->moved_ns[kind] > last_ns)
			last_ns = r->moved_ns[kind];
	return last_ns;
}

static bool waits_for_nobody_here(const struct zn_ranks *k, const struct zn_skew_rank *r)
{
	return process_of(k, r->row, r->id) && waits_in_call(k, r->row) && !works_on_gpu(k, r->row, r->id) &&
		!k->waits_for[r->row];
}

/* All members have issued the same, wait, and none of them waits for another one. */
static struct zn_all_wait all_wait(const struct zn_ranks *k, const struct zn_skew *s)
{
	struct zn_all_wait w = {.comm = s->hash, .nranks = s->nranks == ZN_UNKNOWN ? 0 : s->nranks};
	uint64_t issued = 0;

	for (uint32_t m = 0; m < member_count(s); m++) {
		const struct zn_skew_rank *r = &s->member[m];

		if (!r->id)
			continue;
		if ((w.here && r->issued != issued) || !waits_for_nobody_here(k, r))
			return (struct zn_all_wait){0};
		issued = r->issued;
		w.here++;
		if (worked_ns(k, r->row) > w.since_ns)
			w.since_ns = worked_ns(k, r->row);
	}
	return w;
}

/* Of several communicators of a process the largest one says how many ranks its job has. */
static void note_all_wait(struct zn_ranks *k, const struct zn_skew *s, const struct zn_all_wait *w)
{
	for (uint32_t m = 0; m < member_count(s); m++) {
		const struct zn_all_wait **of = &k->all_wait_of[s->member[m].row];

		if (s->member[m].id && (!*of || (*of)->nranks < w->nranks))
			*of = w;
	}
}

/* Somebody of this communicator does something: what the others wait for may be that. */
static void note_not_all(struct zn_ranks *k, const struct zn_skew *s)
{
	for (uint32_t m = 0; m < member_count(s); m++)
		if (s->member[m].id && s->member[m].row < ZN_PROCS_MAX)
			k->all_wait_of[s->member[m].row] = NULL;
}

static void look_for_all_wait(struct zn_ranks *k)
{
	const struct zn_skew *s;

	memset(k->all_wait_of, 0, sizeof(k->all_wait_of));
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		s = zn_arena_skew(k->agg->arena, slot);
		k->all_wait[slot] = s ? all_wait(k, s) : (struct zn_all_wait){0};
		if (k->all_wait[slot].here)
			note_all_wait(k, s, &k->all_wait[slot]);
	}
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		s = zn_arena_skew(k->agg->arena, slot);
		if (s && !k->all_wait[slot].here)
			note_not_all(k, s);
	}
}

bool zn_all_wait_shown(const struct zn_ranks *k, const struct zn_all_wait *w)
{
	return w->here && k->tick_ns - w->since_ns >= ALL_WAIT_NS;
}

const struct zn_all_wait *zn_ranks_all_wait(const struct zn_ranks *k, uint32_t row)
{
	const struct zn_all_wait *w = k->all_wait_of[row];

	return w && zn_all_wait_shown(k, w) ? w : NULL;
}

/* ---- The tick. ---- */

/* For how long it has been late with a collective that it is waited for, beyond the time for which it was late with
 * the one before it, as BPF will add it up. */
static uint64_t late_now_ns(const struct zn_ranks *k, const struct zn_skew *s, const struct zn_missing *m)
{
	uint64_t since_ns = m->collective_since_ns,
		 last_ns = s->at_ns[(m->issued - 1) & (ZN_SKEW_WINDOW - 1)][m->member];

	if (!since_ns || m->gone_ns)
		return 0;
	since_ns = last_ns > since_ns ? last_ns : since_ns;
	return k->tick_ns > since_ns ? k->tick_ns - since_ns : 0;
}

/* Lateness that goes on counts while it does. BPF adds it up once all have issued the collective, but not where a peer
 * was too far ahead by then: what is missing a tick after that stays, so that what it adds later shows. The sum never
 * falls. */
static void note_lateness(struct zn_ranks *k, const struct zn_skew *s, uint32_t slot, uint32_t member)
{
	const struct zn_missing *m = &k->missing[slot][member];
	uint64_t *late_ns = &k->late_ns[slot][member], *extra_ns = &k->late_extra_ns[slot][member];
	uint64_t added_ns = s->member[member].late_ns, going_ns = late_now_ns(k, s, m);
	uint64_t now = added_ns + *extra_ns + going_ns, more = now > *late_ns ? now - *late_ns : 0;

	*late_ns += more;
	k->late_tick_ns[slot][member] = more < k->interval_ns ? more : k->interval_ns;
	if (going_ns)
		k->late_until[slot][member] = m->issued + 1;
	else if (k->done[slot] >= k->late_until[slot][member])
		*extra_ns = *late_ns - added_ns;
}

static void forget_slot(struct zn_ranks *k, uint32_t slot)
{
	memset(k->missing[slot], 0, sizeof(k->missing[slot]));
	memset(k->late_ns[slot], 0, sizeof(k->late_ns[slot]));
	memset(k->late_tick_ns[slot], 0, sizeof(k->late_tick_ns[slot]));
	memset(k->late_extra_ns[slot], 0, sizeof(k->late_extra_ns[slot]));
	memset(k->late_until[slot], 0, sizeof(k->late_until[slot]));
	k->longest_ns[slot] = 0;
}

/* Calls visit for each rank of each communicator, first those that there was no time for at the last tick. */
static void each_rank(
	struct zn_ranks *k, void (*visit)(struct zn_ranks *k, const struct zn_skew *s, struct zn_missing *m))
{
	for (uint32_t i = 0; i < ZN_SKEWS_MAX; i++) {
		uint32_t slot = (k->first + i) % ZN_SKEWS_MAX;
		const struct zn_skew *s = zn_arena_skew(k->agg->arena, slot);

		for (uint32_t m = 0; s && m < member_count(s); m++)
			visit(k, s, &k->missing[slot][m]);
	}
}

static void visit_waits(struct zn_ranks *k, const struct zn_skew *s, struct zn_missing *m)
{
	note_waits(k, s, m);
}

static void visit_chain(struct zn_ranks *k, const struct zn_skew *s, struct zn_missing *m)
{
	(void)s;
	if (!m->waiters)
		return;
	note_chain(k, m);
	note_doing(k, m);
	if (process_of(k, m->row, m->id) && zn_missing_shown(k, m))
		k->missing_of[m->row] = m;
}

static void look_at_slots(struct zn_ranks *k)
{
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = zn_arena_skew(k->agg->arena, slot);
		uint64_t hash = s ? s->hash : 0;

		if (k->of[slot] != hash)
			forget_slot(k, slot);
		k->of[slot] = hash;
		for (uint32_t m = 0; s && m < member_count(s); m++) {
			look_at_member(k, s, slot, m);
			note_lateness(k, s, slot, m);
		}
		k->done[slot] = s ? s->done : 0;
	}
}

void zn_ranks_init(struct zn_ranks *k, struct zn_agg *agg, const struct zn_progress *progress, const char *proc)
{
	k->agg = agg;
	k->progress = progress;
	k->proc = proc;
	k->tick_hz_ns = ZN_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK);
}

void zn_ranks_tick(struct zn_ranks *k, uint64_t now_ns)
{
	k->interval_ns = k->tick_ns ? now_ns - k->tick_ns : 0;
	k->tick_ns = now_ns;
	if (!k->interval_ns)
		return;
	look_at_slots(k);
	memset(k->waits_for, 0, sizeof(k->waits_for));
	memset(k->missing_of, 0, sizeof(k->missing_of));
	k->looked_ns = 0;
	k->next = ZN_SKEWS_MAX;
	each_rank(k, visit_waits);
	each_rank(k, visit_chain);
	look_for_all_wait(k);
	k->first = k->next % ZN_SKEWS_MAX;
}

bool zn_missing_shown(const struct zn_ranks *k, const struct zn_missing *m)
{
	return m->waiters && !m->follows && k->tick_ns - m->since_ns >= SHOWN_NS;
}

const struct zn_missing *zn_ranks_waited_for(const struct zn_ranks *k, uint32_t row)
{
	const struct zn_missing *m = k->waits_id[row] == k->agg->info[row].id ? k->waits_for[row] : NULL;

	for (int i = 0; m && m->follows && i < CHAIN_MAX; i++)
		m = next_of(k, m);
	return m && zn_missing_shown(k, m) ? m : NULL;
}

/* The value of now, or of the last tick plus the wait that goes on: the larger of both. */
uint64_t zn_ranks_late(const struct zn_ranks *k, const struct zn_skew *s, uint32_t slot, uint32_t member)
{
	bool is_known = k && k->of[slot] == s->hash;
	uint64_t now = s->member[member].late_ns + (is_known ? k->late_extra_ns[slot][member] : 0);
	uint64_t ticked = is_known ? k->late_ns[slot][member] : 0;

	return now > ticked ? now : ticked;
}

/* ---- In words. ---- */

static void say_end(const struct zn_missing *m, char to[ZN_DOING_TEXT])
{
	int sig = m->exit_code == ZN_UNKNOWN ? 0 : (int)(m->exit_code & 0x7f);
	const char *name = sig ? sigabbrev_np(sig) : NULL;

	if (m->exit_code == ZN_UNKNOWN)
		snprintf(to, ZN_DOING_TEXT, "has ended");
	else if (name)
		snprintf(to, ZN_DOING_TEXT, "was killed (SIG%s)", name);
	else if (sig)
		snprintf(to, ZN_DOING_TEXT, "was killed (signal %d)", sig);
	else
		snprintf(to, ZN_DOING_TEXT, "has ended with status %u", m->exit_code >> 8 & 0xff);
}

/* Missing ranks are known of this node alone. */
void zn_all_wait_for(const struct zn_all_wait *w, char to[ZN_ALL_WAIT_TEXT])
{
	uint32_t elsewhere = w->nranks > w->here ? w->nranks - w->here : 0;

	if (!w->nranks)
		snprintf(to, ZN_ALL_WAIT_TEXT, "for the GPU, or for ranks of other nodes");
	else if (elsewhere > 1)
		snprintf(to, ZN_ALL_WAIT_TEXT, "for the GPU, or for one of the %u ranks of other nodes", elsewhere);
	else if (elsewhere)
		snprintf(to, ZN_ALL_WAIT_TEXT, "for the GPU, or for the one rank of another node");
	else
		snprintf(to, ZN_ALL_WAIT_TEXT, "for the GPU: none of them is missing");
}

void zn_all_wait_says(const struct zn_all_wait *w, uint64_t now_ns, char to[ZN_ALL_WAIT_TEXT])
{
	const char *who = w->here == 1 ? "the only rank of this node waits" : "all ranks of this node wait";
	char text[ZN_ALL_WAIT_TEXT];

	zn_all_wait_for(w, text);
	snprintf(to, ZN_ALL_WAIT_TEXT, "%s for %llu s: %.64s", who,
		(unsigned long long)((now_ns - w->since_ns) / ZN_NS_PER_S), text);
}

void zn_missing_says(const struct zn_missing *m, char to[ZN_DOING_TEXT])
{
	static const char *const says[] = {
#define X(e, label, says) says,
		ZN_DOINGS(X)
#undef X
	};

	if (m->doing == ZN_DOING_GONE)
		say_end(m, to);
	else if (m->cycle)
		snprintf(to, ZN_DOING_TEXT, "waits for them in another communicator");
	else if (m->stop == ZN_STOP_SIGNAL)
		snprintf(to, ZN_DOING_TEXT, "is asleep, stopped by a signal or a debugger");
	else if (m->doing == ZN_DOING_ASLEEP && m->stop == ZN_STOP_BLOCKED)
		snprintf(to, ZN_DOING_TEXT, "is in uninterruptible sleep%s%s", m->in[0] ? " in " : "", m->in);
	else if (m->doing == ZN_DOING_ASLEEP && m->in[0])
		snprintf(to, ZN_DOING_TEXT, "is asleep in %s", m->in);
	else
		snprintf(to, ZN_DOING_TEXT, "%s", says[m->doing]);
}
