/* SPDX-License-Identifier: GPL-2.0 */
/*
 * causes.c: what the time of jobs is lost to. At each tick the time of a process's launching threads is laid to
 * causes, by what they waited for and what explains that wait; the processes of a job are added up, and those of no
 * job as one more. A process has one second in a second, however many threads it has. Waits for the GPU are what a
 * GPU-bound job is made of, and lost to nothing, unless they are for a rank that does not come.
 */
#include "zernel.h"
#include <string.h>

#define STEP_NS      (ZN_CAUSE_STEP_S * ZN_NS_PER_S)
#define EARLY_NS     (50 * ZN_NS_PER_MS) /* by so much a tick that ends a step may come before its end */
#define HIDES_SHARE  5  /* of a tick, as 1/n: who waits that much for others or for data is not bound by its own CPU */
#define LATE_LEAST   10 /* of a tick, as 1/n, that a late rank costs others on their GPUs: less may be chance */
#define COPIES_LEAST 10 /* of a tick, as 1/n, in blocking copies */
#define RETRANSMITS  50 /* a second: segments that are sent again, of a job, from where on they hold it back */
/* Or fewer, where little gets through: a thousandth of what is sent, of a job that has a mebibyte or more to send.
 * TCP waits longer and longer for a connection that loses much, up to seconds without a segment. */
#define LOSS_SHARE    1000
#define SEGMENT       1448      /* bytes, of Ethernet; larger ones are counted too low */
#define TRAFFIC_LEAST (1 << 20) /* bytes, within half a minute or so */
#define READS_LEAST   (1 << 20) /* bytes a second: who reads so much on its own loads data, or it is not worth a word */
#define FADES         8         /* of what is of the last seconds this share is forgotten at each tick, as 1/n */
#define STANDS_OUT    10        /* points: so much more of its time a late rank spends otherwise than the others */

/* ---- One process over one tick. ---- */

struct tick {
	const struct zn_causes *c;
	const struct zn_proc *p;
	uint32_t row;
	uint64_t interval_ns;
	uint64_t stall_ns[ZN_STALL_COUNT]; /* all but sleep at most the interval together */
	uint64_t launch_ns, copy_ns;       /* in launches, and in blocking copies */
	bool launch_unknown;               /* how long it was in launches */
	uint64_t read_bytes, written_bytes, retransmits, sent;
	uint64_t lost_ns[ZN_CAUSE_COUNT], all_lost_ns;
	uint64_t gpu_lost_ns; /* of waits for the GPU: that much is lost */
	enum zn_stop stop;
	struct zn_cause_group *group;
};

static uint64_t at_most(uint64_t v, uint64_t limit)
{
	return v < limit ? v : limit;
}

static uint64_t sum_ns(const struct zn_agg *a, const struct zn_proc *p, enum zn_operation d)
{
	const struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

	return h ? h->sum_ns : 0;
}

/* Launches that ran and were not timed took as long as the others of this tick; if none was timed it is not known.
 * Those that were recorded into a graph are in neither count. */
static void read_launches(struct tick *t, struct zn_cause_row *r)
{
	const struct zn_hist *h = zn_arena_hist(t->c->agg->arena, t->p->hist[ZN_H_LAUNCH]);
	uint64_t timed = zn_counter_advance(&r->timed, h ? h->calls : 0);
	uint64_t ran = zn_counter_advance(&r->ran, ZN_LAUNCHES(t->p->count));

	t->launch_ns = zn_counter_advance(&r->launch_ns, h ? h->sum_ns : 0);
	t->launch_unknown = ran && !timed;
	if (ran > timed && timed)
		t->launch_ns = (uint64_t)((__uint128_t)t->launch_ns * ran / timed);
}

/* Of several threads each state has its share of the one second; that a thread sleeps beside others is no state. */
static void read_stalls(struct tick *t)
{
	const uint64_t *ns = t->c->agg->info[t->row].stall_tick_ns;
	uint64_t all_ns = 0;

	for (enum zn_stall s = 0; s < ZN_STALL_OTHER; s++)
		all_ns += ns[s];
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		t->stall_ns[s] = at_most(ns[s], t->interval_ns);
	for (enum zn_stall s = 0; all_ns > t->interval_ns && s < ZN_STALL_OTHER; s++)
		t->stall_ns[s] = (uint64_t)((__uint128_t)ns[s] * t->interval_ns / all_ns);
}

/* What came since the last tick of a sum that only grows. */
static void read_tick(struct tick *t, struct zn_cause_row *r)
{
	const struct zn_agg *a = t->c->agg;
	bool fresh = r->id != t->p->id;

	if (fresh)
		*r = (struct zn_cause_row){.id = t->p->id};
	read_stalls(t);
	read_launches(t, r);
	t->copy_ns = zn_counter_advance(&r->copy_ns, sum_ns(a, t->p, ZN_H_SYNC_HTOD) + sum_ns(a, t->p, ZN_H_SYNC_DTOH));
	t->read_bytes = zn_counter_advance(&r->read_bytes, t->p->count[ZN_C_IO_READ_BYTES]);
	t->written_bytes = zn_counter_advance(&r->written_bytes, t->p->count[ZN_C_IO_WRITE_BYTES]);
	t->retransmits = zn_counter_advance(&r->retransmits, t->p->count[ZN_C_TCP_RETRANSMITS]);
	t->sent = zn_counter_advance(&r->sent, t->p->count[ZN_C_TCP_SENT]);
	if (fresh)
		t->launch_ns = t->sent = t->copy_ns = t->read_bytes = t->written_bytes = t->retransmits = 0;
	r->read_rate +=
		(t->interval_ns ? t->read_bytes * ZN_NS_PER_S / t->interval_ns : 0) / FADES - r->read_rate / FADES;
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		r->stall_ns[s] += t->stall_ns[s] - r->stall_ns[s] / FADES;
}

/* Never more than there is: calls that are timed at their end may have begun in another tick. */
static void lose_time(struct tick *t, enum zn_cause cause, uint64_t ns)
{
	ns = at_most(ns, t->interval_ns - t->all_lost_ns);
	t->lost_ns[cause] += ns;
	t->all_lost_ns += ns;
}

/* Of the tick before: the value of this tick is set later. */
static void tell_mount(struct zn_cause_group *g)
{
	memcpy(g->numbers.mount, g->mount, sizeof(g->numbers.mount));
}

/* Once in each step: of each that waits for data, as ranks mostly have CPUs of their own. */
static void ask_cpus(struct tick *t, struct zn_cause_row *r)
{
	if (r->cpus_step == t->group->steps + 1)
		return;
	r->cpus_step = t->group->steps + 1;
	r->cpus = t->c->proc ? zn_procfs_cpus(t->c->proc, t->p->tgid, &t->group->cpus[1]) : t->c->cpus;
}

/* There are more CPUs than workers: of the process, and of all processes of its job together. */
static bool has_cpus(const struct tick *t, const struct zn_cause_row *r)
{
	const struct zn_cause_group *g = t->group;
	uint32_t before = zn_procfs_cpus_in(&g->cpus[0]), now = zn_procfs_cpus_in(&g->cpus[1]);
	uint32_t cpus = !t->c->proc ? r->cpus : before > now ? before : now;

	return r->cpus > t->p->count[ZN_C_WORKERS] && cpus > g->workers_before;
}

/* Workers that are busy are too slow, or too few; where most of their time is in files, the files are. */
static void lose_to_data(struct tick *t, struct zn_cause_row *r)
{
	const uint64_t *worker_ns = t->c->agg->info[t->row].worker_tick_ns;
	uint64_t all_ns = worker_ns[0] + worker_ns[1], ns = t->stall_ns[ZN_STALL_DATA];
	struct zn_cause_group *g = t->group;

	ask_cpus(t, r);
	g->numbers.workers = (uint32_t)t->p->count[ZN_C_WORKERS];
	g->numbers.workers_busy = all_ns ? (uint32_t)((worker_ns[0] * 100 + all_ns / 2) / all_ns) : ZN_UNKNOWN;
	g->numbers.cpus = r->cpus;
	tell_mount(g);
	if (all_ns && worker_ns[0] < all_ns / 2)
		lose_time(t, ZN_CAUSE_INPUT_TRANSFER, ns);
	else if (g->files_rule)
		lose_time(t, ZN_CAUSE_INPUT_FILES, ns);
	else
		lose_time(t, has_cpus(t, r) ? ZN_CAUSE_INPUT_WORKERS : ZN_CAUSE_INPUT_CPU, ns);
}

static const struct zn_cause_row *row_of(const struct zn_causes *c, uint32_t pid)
{
	for (uint32_t i = 0; i < c->agg->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(c->agg->arena, c->agg->row[i]);

		if (p && p->tgid == pid && c->row[c->agg->row[i]].id == p->id)
			return &c->row[c->agg->row[i]];
	}
	return NULL;
}

static uint64_t sum_of(const uint64_t ns[ZN_STALL_COUNT])
{
	uint64_t all = 0;

	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		all += ns[s];
	return all;
}

static uint32_t percent_of(uint64_t part, uint64_t all)
{
	return all ? (uint32_t)((part * 100 + all / 2) / all) : 0;
}

/* What the late rank does for longer than the others of its job: its time in other waits is what they wait for. Waits
 * for its GPU are asked last, as the others, who wait for it, have less of their time left for theirs. */
static void compare_late(struct zn_cause_numbers *n, const struct zn_cause_group *g, const struct zn_cause_row *late)
{
	static const enum zn_stall asked[] = {
		ZN_STALL_DATA, ZN_STALL_IO, ZN_STALL_RUNQUEUE, ZN_STALL_CPU, ZN_STALL_OTHER, ZN_STALL_GPU};
	uint64_t own_ns = sum_of(late->stall_ns), all_ns = sum_of(g->stall_before_ns);

	n->late_in = ZN_STALL_COUNT;
	for (size_t i = 0; i < ZN_LEN(asked) && all_ns > own_ns; i++) {
		uint64_t before_ns = g->stall_before_ns[asked[i]], ns = late->stall_ns[asked[i]];
		uint32_t own = percent_of(ns, own_ns);
		uint32_t others = percent_of(before_ns > ns ? before_ns - ns : 0, all_ns - own_ns);

		if (own < others + STANDS_OUT || (asked[i] == ZN_STALL_GPU && n->late_in != ZN_STALL_COUNT) ||
			(n->late_in != ZN_STALL_COUNT && own - others <= n->late_percent - n->others_percent))
			continue;
		n->late_in = asked[i];
		n->late_percent = own;
		n->others_percent = others;
	}
}

static void note_late(struct tick *t, uint32_t pid, uint32_t rank, const struct zn_cause_row *row)
{
	struct zn_cause_numbers *n = &t->group->numbers;

	n->late_pid = pid;
	n->late_rank = rank;
	n->late_in = ZN_STALL_COUNT;
	n->late_likely = false;
	if (row)
		compare_late(n, t->group, row);
}

/* Collectives wait on the GPU, so that a wait for the GPU may be one for a rank: where one issues later than the
 * others, and waits less for its own GPU. By that much, and for no longer than it was late. A host that runs ahead of
 * its GPU is late at no cost, and waits for it as the others do. */
static void lose_gpu_to_late(struct tick *t)
{
	const struct zn_cause_row *own = &t->c->row[t->row], *late;
	uint32_t pid, rank;
	uint64_t ns = t->c->ranks ? zn_stalls_late_issue(t->c->ranks, t->p->tgid, &pid, &rank) : 0, more_ns;

	late = ns ? row_of(t->c, pid) : NULL;
	if (!late || own->stall_ns[ZN_STALL_GPU] <= late->stall_ns[ZN_STALL_GPU])
		return;
	more_ns = (own->stall_ns[ZN_STALL_GPU] - late->stall_ns[ZN_STALL_GPU]) / FADES;
	ns = at_most(at_most(ns, more_ns), t->stall_ns[ZN_STALL_GPU]);
	if (ns * LATE_LEAST < t->interval_ns)
		return;
	note_late(t, pid, rank, late);
	t->group->numbers.late_likely = true;
	t->gpu_lost_ns = ns;
	lose_time(t, ZN_CAUSE_STRAGGLER, ns);
}

static void lose_to_ranks(struct tick *t)
{
	uint32_t pid, rank;
	bool late = zn_stalls_late(t->c->agg, t->c->ranks, t->row, &pid, &rank);

	if (late)
		note_late(t, pid, rank, row_of(t->c, pid));
	if (t->group->network_rule && t->group->network_count) /* none while TCP waits */
		t->group->numbers.retransmits = t->group->network_count;
	if (t->group->network_rule)
		lose_time(t, ZN_CAUSE_NETWORK, t->stall_ns[ZN_STALL_DIST]);
	else
		lose_time(t, late ? ZN_CAUSE_STRAGGLER : ZN_CAUSE_COMMUNICATION, t->stall_ns[ZN_STALL_DIST]);
}

/* It has no workers, and reads files itself. */
static bool loads_itself(const struct tick *t)
{
	return !t->p->count[ZN_C_WORKERS] && t->c->row[t->row].read_rate >= READS_LEAST;
}

static void lose_to_host(struct tick *t, uint64_t ns)
{
	bool itself = ns && loads_itself(t);

	lose_time(t, itself ? ZN_CAUSE_INPUT_ITSELF : ZN_CAUSE_HOST, ns);
	if (!itself)
		return;
	t->group->numbers.read_rate = t->c->row[t->row].read_rate;
	tell_mount(t->group);
}

/* A process is held back by its own CPU time if it waits for little else. */
static void lose_to_cpu(struct tick *t)
{
	uint64_t waits_ns = t->stall_ns[ZN_STALL_GPU] + t->stall_ns[ZN_STALL_DIST] + t->stall_ns[ZN_STALL_DATA] +
		t->stall_ns[ZN_STALL_IO];
	uint64_t ns = t->stall_ns[ZN_STALL_CPU], launch_ns = at_most(t->launch_ns, ns);

	if (waits_ns * HIDES_SHARE >= t->interval_ns || t->launch_unknown)
		return;
	lose_time(t, ZN_CAUSE_LAUNCHES, launch_ns);
	lose_to_host(t, ns - launch_ns);
}

/* Of time that was spared nobody knows. */
static bool does_nothing(const struct tick *t)
{
	uint64_t busy_ns = t->c->agg->info[t->row].unseen_tick_ns;

	for (enum zn_stall s = 0; s < ZN_STALL_OTHER; s++)
		busy_ns += t->stall_ns[s];
	return busy_ns * HIDES_SHARE < t->interval_ns &&
		zn_progress_last(t->c->progress, t->row, t->p->id) < t->c->tick_ns;
}

/* In run queues: for others, or because its control group has had its share of the CPUs. */
static void lose_to_queues(struct tick *t)
{
	uint64_t ns = t->stall_ns[ZN_STALL_RUNQUEUE];

	lose_time(t, t->group->throttle_rule ? ZN_CAUSE_THROTTLED : ZN_CAUSE_CPUS, ns);
	t->group->queue_ns += ns;
	if (ns * HIDES_SHARE >= t->interval_ns)
		t->group->queue_pid = t->p->tgid;
}

static void note_stop(struct tick *t)
{
	const struct zn_stopped *s = t->c->stopped;

	t->stop = s && zn_stopped_since(s, t->row, t->p->id) ? (enum zn_stop)s->kind[t->row] : ZN_STOP_NONE;
	if (!t->stop)
		return;
	t->group->stopped_pid = t->p->tgid;
	t->group->stop = t->stop;
}

/* Whatever it waited for when it was stopped. In uninterruptible sleep a process may wait for its file. */
static bool lose_to_stop(struct tick *t)
{
	if (!t->stop || (t->stop == ZN_STOP_BLOCKED && !does_nothing(t)))
		return false;
	t->group->stopped++;
	lose_time(t, ZN_CAUSE_STOPPED, t->interval_ns);
	return true;
}

/* What explains all of its waits: a rank that does not come, that it is stopped itself, or a rank of another node.
 * True: it does. */
static bool lose_to_hangs(struct tick *t)
{
	const struct zn_ranks *k = t->c->ranks;
	const struct zn_missing *missing = k ? zn_ranks_waited_for(k, t->row) : NULL;
	const struct zn_all_wait *all = k ? zn_ranks_all_wait(k, t->row) : NULL;

	if (k && !missing && does_nothing(t)) /* the one they wait for */
		missing = k->missing_of[t->row];
	if (!missing && lose_to_stop(t))
		return true;
	if (missing)
		t->group->missing = *missing;
	else if (all)
		t->group->all_wait = *all;
	else
		return false;
	lose_time(t, missing ? ZN_CAUSE_HANG : ZN_CAUSE_ALL_WAIT, t->interval_ns);
	return true;
}

static void lay_to_causes(struct tick *t, struct zn_cause_row *r)
{
	note_stop(t);
	if (lose_to_hangs(t) || !zn_agg_measures(t->c->agg, ZN_FAM_SCHED))
		return;
	if (does_nothing(t)) {
		lose_time(t, ZN_CAUSE_IDLE, t->interval_ns);
		return;
	}
	if (t->stall_ns[ZN_STALL_DATA])
		lose_to_data(t, r);
	if (t->stall_ns[ZN_STALL_DIST])
		lose_to_ranks(t);
	if (t->stall_ns[ZN_STALL_GPU])
		lose_gpu_to_late(t);
	if (t->stall_ns[ZN_STALL_IO])
		tell_mount(t->group);
	if (t->stall_ns[ZN_STALL_IO] && t->c->checkpoints)
		t->group->numbers.checkpoints = zn_checkpoint_sum(&t->c->checkpoints->job[t->group - t->c->group]);
	lose_time(
		t, t->written_bytes > t->read_bytes ? ZN_CAUSE_CHECKPOINT : ZN_CAUSE_STORAGE, t->stall_ns[ZN_STALL_IO]);
	lose_to_queues(t);
	if (t->copy_ns * COPIES_LEAST >= t->interval_ns)
		lose_time(t, ZN_CAUSE_COPIES, at_most(t->copy_ns, t->interval_ns));
	lose_to_cpu(t);
}

/* ---- A job. ---- */

/* Steps that were not begun are left as they are: a short job touches a page or two of memory here, and not eight. */
static void begin_group(struct zn_cause_group *g, uint32_t serial)
{
	memset(g, 0, offsetof(struct zn_cause_group, step));
	g->step[0] = (struct zn_cause_step){0};
	g->serial = serial;
}

static struct zn_cause_group *group_of(struct zn_causes *c, const struct zn_proc *p)
{
	bool none = !p->job.serial || p->job.slot >= ZN_JOBS_MAX;
	struct zn_cause_group *g = &c->group[none ? ZN_JOBS_MAX : p->job.slot];

	if (!none && g->serial != p->job.serial)
		begin_group(g, p->job.serial);
	return g;
}

/* Where the scheduler is not watched only what keeps the process from all is known. */
static bool is_time_known(const struct tick *t)
{
	uint64_t lost_ns = 0;

	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
		lost_ns += t->lost_ns[cause];
	return lost_ns || zn_agg_measures(t->c->agg, ZN_FAM_SCHED);
}

static void add_process(struct zn_cause_group *g, const struct tick *t)
{
	struct zn_cause_step *step = &g->step[g->steps % ZN_CAUSE_STEPS];

	g->processes++;
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		g->stall_ns[s] += t->c->row[t->row].stall_ns[s];
	g->workers += (uint32_t)t->p->count[ZN_C_WORKERS];
	g->workers_ns += t->c->agg->info[t->row].worker_tick_ns[0];
	g->retransmits += t->retransmits;
	g->sent += t->sent;
	g->launch_ns += t->launch_ns;
	step->time_ns += is_time_known(t) ? t->interval_ns : 0;
	step->gpu_ns += t->lost_ns[ZN_CAUSE_HANG] || t->lost_ns[ZN_CAUSE_ALL_WAIT] || t->lost_ns[ZN_CAUSE_STOPPED]
		? 0
		: t->stall_ns[ZN_STALL_GPU] -
			at_most(t->stall_ns[ZN_STALL_GPU], t->gpu_lost_ns + t->lost_ns[ZN_CAUSE_COPIES]);
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++) {
		step->lost_ns[cause] += t->lost_ns[cause];
		g->lost_ns[cause] += t->lost_ns[cause];
	}
}

static void note_process(struct zn_causes *c, uint32_t row, const struct zn_proc *p, uint64_t interval_ns)
{
	struct tick t = {.c = c, .p = p, .row = row, .interval_ns = interval_ns, .group = group_of(c, p)};

	read_tick(&t, &c->row[row]);
	if (c->progress->row[row].moved_ns[ZN_PROGRESS_LAUNCH])
		lay_to_causes(&t, &c->row[row]);
	else if (c->startup && zn_startup_goes_on(c->startup, row, p->id))
		lose_time(&t, ZN_CAUSE_STARTUP, interval_ns);
	else /* it has not begun */
		return;
	add_process(t.group, &t);
}

/* Whether TCP sends so much again that it holds the job back. */
static bool is_lossy(struct zn_cause_group *g, uint64_t interval_ns)
{
	g->resent_lately += 256 * g->retransmits - g->resent_lately / 4;
	g->sent_lately += g->sent - g->sent_lately / 4;
	g->sent_long += g->sent - g->sent_long / 32;
	if (interval_ns && g->retransmits * ZN_NS_PER_S >= RETRANSMITS * interval_ns)
		return true;
	return g->sent_long >= TRAFFIC_LEAST && g->resent_lately >= 256 &&
		g->resent_lately * SEGMENT * LOSS_SHARE >= g->sent_lately * 256;
}

/* What the last tick as a whole, of so long an interval, says of waits. A loader's workers wait for files if they
 * did so for at least half of their busy time; while none is busy that stays as it was. */
static void begin_tick(struct zn_cause_group *g, uint64_t interval_ns)
{
	if (g->workers_ns)
		g->files_rule = g->files_ns * 2 >= g->workers_ns;
	g->workers_before = g->workers;
	g->network_count = interval_ns ? g->retransmits * ZN_NS_PER_S / interval_ns : 0;
	g->network_rule = is_lossy(g, interval_ns);
	g->throttle_rule &= g->queue_pid != 0;
	if (!g->mount_ns)
		g->mount[0] = 0;
	memcpy(g->stall_before_ns, g->stall_ns, sizeof(g->stall_ns));
	memset(g->stall_ns, 0, sizeof(g->stall_ns));
	g->processes = g->workers = g->stopped = 0;
	g->workers_ns = g->launch_ns = g->files_ns = g->mount_ns = 0;
	g->retransmits = g->sent = g->queue_ns = 0;
	g->queue_pid = g->stopped_pid = 0;
	g->missing = (struct zn_missing){0};
	g->all_wait = (struct zn_all_wait){0};
}

/* Goes on when a job has ended, and writes nothing then. */
static void next_step(struct zn_cause_group *g)
{
	g->steps++;
	zn_pages_clear(&g->step[g->steps % ZN_CAUSE_STEPS], sizeof(g->step[0]));
	g->cpus[0] = g->cpus[1];
	g->cpus[1] = (struct zn_cpu_set){0};
}

void zn_causes_init(
	struct zn_causes *c, struct zn_agg *agg, const struct zn_progress *progress, const struct zn_ranks *ranks)
{
	c->agg = agg;
	c->progress = progress;
	c->ranks = ranks;
}

/* How many steps are over. They keep to a grid, from the first tick on, as those of history.c do. */
static uint64_t steps_over(struct zn_causes *c, uint64_t now_ns)
{
	uint64_t steps;

	if (!c->step_ns)
		c->step_ns = now_ns;
	if (now_ns + EARLY_NS < c->step_ns + STEP_NS)
		return 0;
	steps = (now_ns + EARLY_NS - c->step_ns) / STEP_NS;
	c->step_ns += steps * STEP_NS;
	return steps;
}

static uint64_t take_part(uint64_t *whole, uint64_t n)
{
	uint64_t part = *whole / n;

	*whole -= part;
	return part;
}

/* A tick that is longer than a step is shared among those that began in it, as the readings of history.c are. */
static void share_out(struct zn_cause_group *g, uint64_t steps)
{
	struct zn_cause_step *last = &g->step[g->steps % ZN_CAUSE_STEPS];

	for (uint64_t n = steps; n > 1; n--) {
		struct zn_cause_step *to = &g->step[(g->steps + 1 - n) % ZN_CAUSE_STEPS];

		to->time_ns = take_part(&last->time_ns, n);
		to->gpu_ns = take_part(&last->gpu_ns, n);
		for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
			to->lost_ns[cause] = take_part(&last->lost_ns[cause], n);
	}
}

void zn_causes_tick(struct zn_causes *c, uint64_t now_ns)
{
	uint64_t interval_ns = c->tick_ns ? now_ns - c->tick_ns : 0, before_ns = c->interval_ns;
	uint64_t steps = at_most(steps_over(c, now_ns), ZN_CAUSE_STEPS);

	c->tick_ns = now_ns;
	c->interval_ns = interval_ns;
	for (uint32_t i = 0; i <= ZN_JOBS_MAX; i++) {
		if (!c->group[i].used)
			continue;
		for (uint64_t step = 0; step < steps; step++)
			next_step(&c->group[i]);
		begin_tick(&c->group[i], before_ns);
	}
	for (uint32_t i = 0; interval_ns && i < c->agg->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(c->agg->arena, c->agg->row[i]);

		if (!p)
			continue;
		group_of(c, p)->used = true;
		note_process(c, c->agg->row[i], p, interval_ns);
	}
	for (uint32_t i = 0; steps > 1 && i <= ZN_JOBS_MAX; i++)
		if (c->group[i].used && c->group[i].steps >= steps)
			share_out(&c->group[i], steps);
}

void zn_causes_files(struct zn_causes *c, struct zn_job_ref job, uint64_t ns, const char *mount)
{
	struct zn_cause_group *g = &c->group[job.serial && job.slot < ZN_JOBS_MAX ? job.slot : ZN_JOBS_MAX];

	if (!g->used || (job.serial && g->serial != job.serial))
		return;
	g->files_ns += ns;
	if (ns <= g->mount_ns)
		return;
	g->mount_ns = ns;
	snprintf(g->mount, sizeof(g->mount), "%.*s", (int)sizeof(g->mount) - 1, mount);
}

/* Of what the processes of a job waited in run queues over that time, at least half is due to the limit. What other
 * control groups had at the last look says nothing of these. Each CPU of a group counts, so the sum may be more
 * than the time that passed. */
void zn_causes_throttled(struct zn_causes *c, struct zn_cause_group *g, uint64_t of, uint64_t ns)
{
	uint64_t passed_ns = c->tick_ns - g->throttle_look_ns,
		 more_ns = ns > g->throttled_ns ? ns - g->throttled_ns : 0;
	bool first = !g->throttle_look_ns || g->throttle_of != of;

	if (!passed_ns)
		return;
	g->throttle_of = of;
	g->throttled_ns = ns;
	g->throttle_look_ns = c->tick_ns;
	g->throttled_percent = first ? 0 : (uint32_t)at_most(more_ns * 100 / passed_ns, 100);
	g->throttle_rule = !first && (__uint128_t)more_ns * c->interval_ns * 2 >= (__uint128_t)g->queue_ns * passed_ns;
}

struct zn_cause_step zn_causes_window(const struct zn_cause_group *g, uint32_t steps)
{
	struct zn_cause_step all = {0};

	for (uint32_t i = 0; i <= steps && i <= g->steps && i < ZN_CAUSE_STEPS; i++) {
		const struct zn_cause_step *s = &g->step[(g->steps - i) % ZN_CAUSE_STEPS];

		all.time_ns += s->time_ns;
		all.gpu_ns += s->gpu_ns;
		for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
			all.lost_ns[cause] += s->lost_ns[cause];
	}
	return all;
}
