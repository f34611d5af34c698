/* SPDX-License-Identifier: GPL-2.0 */
/*
 * table.c: the table of jobs: who they are, what they did, when they end. A job is known by its control group, found
 * in the arena, or because a prolog or a tag tells of it, in either order. No files and no sockets, but for the tag of a
 * whole control group.
 *
 * What a job did is the sum over its processes: those that live are read where they are, those that have gone were added
 * up before their rows were given back.
 */
#include "zernel.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LOOK_AHEAD 16                  /* claims that race for one name leave holes among the slots */
#define ROOM       16                  /* slots that are kept free while there are jobs that have ended */
#define SHOWN_NS   (300 * ZN_NS_PER_S) /* after its end, whoever scrapes and how often */
#define HOLD_NS    (60 * ZN_NS_PER_S)  /* calls that wait longer for the GPU count as idle for the rest */

#define GONE_BYTES (ZN_DETAIL_COUNT * sizeof(struct zn_hist))

const char *zn_job_state_label(enum zn_job_state s)
{
	static const char *const label[] = {[ZN_JOB_FREE] = "free",
		[ZN_JOB_RUNNING] = "running",
		[ZN_JOB_ENDING] = "ending",
		[ZN_JOB_ENDED] = "ended"};

	return s < ZN_LEN(label) ? label[s] : "unknown";
}

struct zn_job_row *zn_job_row(struct zn_jobs *j, const struct zn_job *job)
{
	return &j->agg->arena->jobs[job->slot]; /* mapped when it was adopted */
}

static bool runs(const struct zn_job *job)
{
	return job->state == ZN_JOB_RUNNING || job->state == ZN_JOB_ENDING;
}

static const char *said(const struct zn_job *job, enum zn_key key)
{
	return job->about.value[key];
}

/* Nobody sends an epilog for it. */
static bool by_hand(const struct zn_job *job)
{
	return said(job, ZN_KEY_CGROUP)[0] || said(job, ZN_KEY_PID)[0];
}

static uint64_t clamp_before(uint64_t from, uint64_t less)
{
	return from > less ? from - less : 0;
}

/* The wall clock's time of a moment that has passed. */
static uint64_t wall_ms_of(uint64_t ns)
{
	return clamp_before(zn_wall_ms(), clamp_before(zn_now_ns(), ns) / ZN_NS_PER_MS);
}

static bool number(const char *text, uint32_t *to)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || v >= ZN_UNKNOWN)
		return false;
	*to = (uint32_t)v;
	return true;
}

static uint32_t number_or_unknown(const char *text)
{
	uint32_t v = ZN_UNKNOWN;

	number(text, &v);
	return v;
}

/* ---- Finding. ---- */

/* Of several jobs of one id the newest; one that runs is newer than one that has ended. */
static bool newer(const struct zn_job *a, const struct zn_job *b)
{
	return !b || (runs(a) == runs(b) ? a->serial > b->serial : runs(a));
}

static struct zn_job *find(struct zn_jobs *j, const char *id, uint32_t restart)
{
	struct zn_job *found = NULL;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (job->state != ZN_JOB_FREE && strcmp(job->id, id) == 0 &&
			(restart == ZN_UNKNOWN || job->restart == restart) && newer(job, found))
			found = job;
	}
	return found;
}

static void note_losses(struct zn_jobs *j, uint64_t to[ZN_LOSS_COUNT])
{
	for (uint32_t i = 0; i < ZN_LOSS_COUNT; i++)
		to[i] = j->lost ? j->lost(j->view, i) : j->agg->arena->shared->lost[i];
}

/* The entry of a row that was claimed, here or in the kernel. Another job of this id is over: but who sums up may be in
 * the middle of it, so that ends at the next tick. */
static struct zn_job *adopt(struct zn_jobs *j, const struct zn_job_row *row, uint32_t slot)
{
	struct zn_job *job = &j->job[slot], *before;
	char id[ZN_JOB_NAME] = "";

	memcpy(id, row->name, sizeof(id) - 1);
	before = find(j, id, ZN_UNKNOWN);
	if (before && runs(before) && !before->next_ns)
		before->next_ns = row->start_ns;
	memset(job, 0, sizeof(*job));
	memcpy(job->id, id, sizeof(id));
	job->state = ZN_JOB_RUNNING;
	job->slot = slot;
	job->serial = row->serial;
	job->uid = ZN_UNKNOWN;
	job->start_ns = job->counted_ns = row->start_ns;
	job->start_wall_ms = wall_ms_of(row->start_ns);
	job->gone = (struct zn_hist *)((char *)j->memory + slot * GONE_BYTES);
	note_losses(j, job->lost_start);
	if (slot >= j->high)
		j->high = slot + 1;
	return job;
}

static struct zn_job *job_at(struct zn_jobs *j, uint32_t slot)
{
	struct zn_job *job = &j->job[slot];
	const struct zn_job_row *row;

	if (job->state != ZN_JOB_FREE)
		return job;
	row = zn_arena_job(j->agg->arena, slot);
	return row && __atomic_load_n(&row->serial, __ATOMIC_ACQUIRE) ? adopt(j, row, slot) : NULL;
}

/* Jobs that the kernel's programs claimed. Slots are handed out from the lowest on, so few rows are ever touched. */
static void discover(struct zn_jobs *j)
{
	const uint32_t *jobs = &j->agg->arena->shared->jobs;

	for (uint32_t slot = 0;
		__atomic_load_n(jobs, __ATOMIC_RELAXED) && slot < ZN_JOBS_MAX && slot < j->high + LOOK_AHEAD; slot++)
		job_at(j, slot);
}

void zn_jobs_found(struct zn_jobs *j)
{
	discover(j);
	for (uint32_t slot = 0; slot < j->high; slot++)
		j->job[slot].found = j->job[slot].state != ZN_JOB_FREE;
}

struct zn_job *zn_jobs_find(struct zn_jobs *j, const char *id, uint32_t restart)
{
	discover(j);
	return find(j, id, restart);
}

struct zn_job *zn_jobs_at(struct zn_jobs *j, struct zn_tag tag)
{
	struct zn_job *job;

	if (!tag.serial || tag.slot >= ZN_JOBS_MAX)
		return NULL;
	job = job_at(j, tag.slot);
	return job && job->serial == tag.serial ? job : NULL;
}

struct zn_job *zn_jobs_of(struct zn_jobs *j, const struct zn_proc *p)
{
	return zn_jobs_at(j, p->job);
}

const char *zn_job_id(struct zn_jobs *j, const struct zn_proc *p)
{
	const struct zn_job *job = zn_jobs_of(j, p);

	return job ? job->id : "";
}

/* ---- Sums. ---- */

const struct zn_hist *zn_job_merge(struct zn_jobs *j, const struct zn_job *job, enum zn_detail detail)
{
	memset(&j->merged, 0, sizeof(j->merged));
	if (job->gone[detail].calls)
		zn_hist_merge(&j->merged, &job->gone[detail]);
	for (uint32_t r = 0; r < j->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[r]);
		const struct zn_hist *h =
			p && zn_jobs_of(j, p) == job ? zn_arena_hist(j->agg->arena, p->hist[detail]) : NULL;

		if (h && h->calls)
			zn_hist_merge(&j->merged, h);
	}
	return &j->merged;
}

const uint64_t *zn_job_counts(struct zn_jobs *j, const struct zn_job *job)
{
	memcpy(j->count, job->count, sizeof(j->count));
	for (uint32_t r = 0; r < j->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[r]);

		for (uint32_t i = 0; p && zn_jobs_of(j, p) == job && i < ZN_COUNT_COUNT; i++)
			j->count[i] += zn_agg_count(j->agg, j->agg->row[r], i);
	}
	return j->count;
}

static void add_memory(struct zn_proc_gpu *to, const struct zn_proc_gpu *from)
{
	for (enum zn_alloc_kind k = 0; k < ZN_KIND_COUNT; k++) {
		to->alloc_calls[k] += from->alloc_calls[k];
		to->alloc_bytes[k] += from->alloc_bytes[k];
	}
	to->free_calls += from->free_calls;
	to->fail_oom += from->fail_oom;
	to->fail_other += from->fail_other;
}

static void add_process_memory(struct zn_proc_gpu *to, const struct zn_proc *p)
{
	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++)
		add_memory(to, &p->gpu[o]);
}

struct zn_proc_gpu zn_job_memory(struct zn_jobs *j, const struct zn_job *job)
{
	struct zn_proc_gpu all = job->memory;

	for (uint32_t r = 0; r < j->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[r]);

		if (p && zn_jobs_of(j, p) == job)
			add_process_memory(&all, p);
	}
	return all;
}

static void add_gone(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p)
{
	for (uint32_t d = 0; d < ZN_DETAIL_COUNT; d++) {
		const struct zn_hist *h = zn_arena_hist(j->agg->arena, p->hist[d]);

		if (h)
			zn_hist_merge(&job->gone[d], h);
	}
	for (uint32_t i = 0; i < ZN_COUNT_COUNT; i++)
		if (!zn_count_is_gauge(i))
			job->count[i] += zn_agg_count(j->agg, row, i);
	add_process_memory(&job->memory, p);
	job->processes_gone++;
	job->processes -= job->processes > 0;
}

/* ---- GPUs: what a job holds on each, and whether it uses it. ---- */

/* One that was listed by its UUID, before any process showed its index, keeps that name. */
static bool same_gpu(const struct zn_job_gpu *g, const struct zn_gpu *gpu)
{
	return strcmp(g->id, gpu->id) == 0 || (gpu->uuid[0] && strcasecmp(g->id, gpu->uuid) == 0);
}

static struct zn_job_gpu *gpu_add(struct zn_jobs *j, struct zn_job *job, const char *id)
{
	struct zn_job_gpu *g = &job->gpu[job->gpu_count];

	if (job->gpu_count == ZN_LEN(job->gpu)) {
		__atomic_fetch_add(&j->agg->arena->shared->lost[ZN_LOST_GPU], 1, __ATOMIC_RELAXED);
		return NULL;
	}
	*g = (struct zn_job_gpu){.gpu = ZN_GPUS_MAX};
	snprintf(g->id, sizeof(g->id), "%s", id);
	job->gpu_count++;
	return g;
}

static struct zn_job_gpu *gpu_named(struct zn_jobs *j, struct zn_job *job, const char *id)
{
	for (uint32_t i = 0; i < job->gpu_count; i++)
		if (strcasecmp(job->gpu[i].id, id) == 0)
			return &job->gpu[i];
	return gpu_add(j, job, id);
}

/* The GPU of a job that has but one; NULL: it has none, or several. */
static struct zn_job_gpu *only_gpu(struct zn_job *job)
{
	struct zn_job_gpu *only = NULL;

	for (uint32_t i = 0; i < job->gpu_count; i++) {
		if (only && job->gpu[i].allocated)
			return NULL;
		if (job->gpu[i].allocated)
			only = &job->gpu[i];
	}
	return only;
}

/* A GPU that could not be told, of a process that was gone too soon, is the job's, if it has but one. */
static struct zn_job_gpu *gpu_of(struct zn_jobs *j, struct zn_job *job, uint32_t index)
{
	const struct zn_gpu *gpu = &j->agg->gpus.gpu[index];
	struct zn_job_gpu *g = zn_gpu_unknown(gpu) ? only_gpu(job) : NULL;

	if (g)
		return g;
	for (uint32_t i = 0; i < job->gpu_count && !g; i++)
		if (same_gpu(&job->gpu[i], gpu))
			g = &job->gpu[i];
	if (!g && (g = gpu_add(j, job, gpu->id)))
		g->allocated = !zn_gpu_unknown(gpu);
	if (g)
		g->gpu = index;
	return g;
}

/* One entry of SLURM_JOB_GPUS: "2", "0-3" or "GPU-...". */
static void gpu_given(struct zn_jobs *j, struct zn_job *job, const char *item)
{
	uint32_t first, last;
	char id[48], *end;

	first = last = (uint32_t)strtoul(item, &end, 10);
	if (end > item && *end == '-')
		last = (uint32_t)strtoul(end + 1, &end, 10);
	if (end == item || *end || last < first || last - first >= ZN_GPUS_MAX)
		first = last = ZN_UNKNOWN;
	for (uint32_t i = first; i <= last; i++) {
		struct zn_job_gpu *g;
		char index[12];

		snprintf(index, sizeof(index), "%u", i);
		zn_gpus_name(&j->agg->gpus, i == ZN_UNKNOWN ? item : index, id);
		if ((g = gpu_named(j, job, id)))
			g->allocated = true;
		if (i == last) /* the highest number has none after it */
			break;
	}
}

static void gpus_given(struct zn_jobs *j, struct zn_job *job)
{
	const char *at = said(job, ZN_KEY_GPUS);
	char item[48];

	while (*at) {
		size_t n = strcspn(at, ", "), len = n < sizeof(item) ? n : sizeof(item) - 1;

		memcpy(item, at, len);
		item[len] = 0;
		if (n)
			gpu_given(j, job, item);
		at += n + (at[n] != 0);
	}
}

/* Whether a process launched, copied, waited or communicated since the last look, and at most how long one call took that
 * came back since. */
static bool activity(struct zn_jobs *j, uint32_t row, const struct zn_proc *p, uint64_t *waited_ns)
{
	struct zn_job_seen *seen = &j->seen[row];
	uint64_t calls = 0, sum_ns = 0, longest_ns = 0;
	bool active;

	for (enum zn_first first = 0; first < ZN_FIRST_COUNT; first++)
		calls += p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, first)] + p->count[ZN_C_HIT(ZN_FAM_NCCL, first)];
	for (enum zn_detail d = ZN_H_LAUNCH; d <= ZN_H_NCCL_INIT; d++) {
		const struct zn_hist *h = zn_arena_hist(j->agg->arena, p->hist[d]);

		sum_ns += h ? h->sum_ns : 0;
		if (h && h->max_ns > longest_ns)
			longest_ns = h->max_ns;
	}
	active = calls != seen->calls || sum_ns != seen->sum_ns;
	*waited_ns = sum_ns - seen->sum_ns < longest_ns ? sum_ns - seen->sum_ns : longest_ns;
	seen->calls = calls;
	seen->sum_ns = sum_ns;
	return active;
}

/* What a process holds on one GPU. It uses that GPU if it did something and has memory on it, or had some, if it has none
 * anywhere by now. */
static void note_share(struct zn_job_gpu *g, const struct zn_share *s, bool lives, bool uses, uint64_t waited_ns)
{
	if (lives)
		g->used_bytes += s->sum.used_bytes;
	if (s->sum.peak_bytes > g->peak_bytes)
		g->peak_bytes = s->sum.peak_bytes;
	g->open |= lives && s->sum.used_bytes;
	g->active |= uses;
	if (uses && waited_ns > g->waited_ns)
		g->waited_ns = waited_ns;
}

/* Where memory was not seen, the peak of a job is not known. The GPU of a process with a partial ledger is told by the device
 * files that it has open; without the driver's list of devices it may be any GPU of the job. */
static void note_partial(struct zn_jobs *j, struct zn_job *job, bool any)
{
	const struct zn_gpus *gpus = &j->agg->gpus;

	for (uint32_t i = 0; i < job->gpu_count; i++) {
		job->gpu[i].partial |= any;
		for (uint32_t n = 0; n < gpus->count && !job->gpu[i].partial; n++)
			job->gpu[i].partial = gpus->gpu[n].partial && same_gpu(&job->gpu[i], &gpus->gpu[n]);
	}
}

/* What a process with a partial ledger holds may be on each GPU of its job: a call of it may wait for that one, too. */
static void note_unseen(struct zn_jobs *j, struct zn_job *job, bool lives)
{
	note_partial(j, job, !j->agg->gpus.listed);
	for (uint32_t i = 0; i < job->gpu_count; i++)
		job->gpu[i].open |= lives;
}

/* A process that did something, and on which GPU cannot be told. */
static void note_astray(struct zn_job *job, uint64_t waited_ns)
{
	struct zn_job_gpu *only = only_gpu(job);

	if (!only) {
		job->astray = true;
		return;
	}
	only->active = true;
	if (waited_ns > only->waited_ns)
		only->waited_ns = waited_ns;
}

static void note_process(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p)
{
	struct zn_share share[ZN_PROC_GPUS + 1];
	size_t n = zn_agg_shares(j->agg, row, share);
	uint64_t waited_ns;
	bool active = activity(j, row, p, &waited_ns), any = false, placed = false;
	bool partial = j->agg->info[row].ledger == ZN_LEDGER_PARTIAL;

	for (size_t i = 0; i < n; i++)
		any |= share[i].sum.used_bytes > 0;
	for (size_t i = 0; i < n; i++) {
		bool uses = active && (any ? share[i].sum.used_bytes : share[i].sum.peak_bytes);
		bool unknown = zn_gpu_unknown(&j->agg->gpus.gpu[share[i].gpu]);
		/* calls without a context fail on no GPU */
		struct zn_job_gpu *g = unknown && !share[i].sum.peak_bytes ? NULL : gpu_of(j, job, share[i].gpu);

		if (g)
			note_share(g, &share[i], !p->exit_ns, uses, waited_ns);
		placed |= uses && !unknown;
	}
	if (active && (!placed || partial))
		note_astray(job, waited_ns);
	if (partial)
		note_unseen(j, job, !p->exit_ns);
}

/* A GPU of which a process holds memory, and nothing is heard, may be idle, or a call waits for it and returns later: up to
 * HOLD_NS the time is held back until that is known, so that idle time never has to be taken back. */
static void gpu_quiet(struct zn_job_gpu *g, uint64_t ns)
{
	g->quiet_ns += ns;
	g->held_ns += ns;
	if (g->open && g->held_ns <= HOLD_NS)
		return;
	g->idle_ns += g->held_ns - (g->open ? HOLD_NS : 0);
	g->held_ns = g->open ? HOLD_NS : 0;
}

static void gpu_busy(struct zn_job_gpu *g, uint64_t ns)
{
	uint64_t waited = clamp_before(g->waited_ns, ns);

	if (waited > g->held_ns)
		waited = g->held_ns;
	g->busy_ns += ns + waited;
	g->idle_ns += g->held_ns - waited;
	g->quiet_ns = g->held_ns = 0;
}

/* The time since it was counted last, up to a moment. While a process did something on a GPU that could not be told, the
 * others are not said to be idle. */
static void count_gpus(struct zn_job *job, uint64_t now_ns)
{
	uint64_t ns = clamp_before(now_ns, job->counted_ns);

	for (uint32_t i = 0; i < job->gpu_count; i++) {
		struct zn_job_gpu *g = &job->gpu[i];

		if (g->active && g->allocated)
			gpu_busy(g, ns);
		else if (g->allocated && !job->astray)
			gpu_quiet(g, ns);
		else
			g->quiet_ns = 0; /* it may be that one */
		g->active = false;
		g->waited_ns = 0;
	}
	job->astray = false;
	if (now_ns > job->counted_ns)
		job->counted_ns = now_ns;
}

/* ---- Processes. ---- */

static struct zn_job_seen *seen_of(struct zn_jobs *j, uint32_t row, const struct zn_proc *p)
{
	struct zn_job_seen *seen = &j->seen[row];

	if (seen->id != p->id)
		*seen = (struct zn_job_seen){.id = p->id};
	return seen;
}

void zn_jobs_claim(struct zn_jobs *j, uint32_t row, const char *id, uint32_t uid)
{
	struct zn_arena *a = j->agg->arena;
	const struct zn_proc *p = zn_arena_proc(a, row);
	struct zn_job *job = id[0] ? find(j, id, ZN_UNKNOWN) : NULL;

	if (!p || p->exit_ns || !job || job->state != ZN_JOB_RUNNING || uid == ZN_UNKNOWN || job->uid != uid)
		return;
	if (!p->job.serial || !zn_jobs_of(j, p))
		a->ops->job_task(a, job->slot, p->tgid);
}

/* Whether that is news. */
static bool say(struct zn_job *job, enum zn_key key, const char *value)
{
	bool news = !said(job, key)[0] && value[0];

	if (news)
		zn_message_set(&job->about, key, value);
	return news;
}

/* Labels that no prolog is told: from a process of the job that speaks of the job it is in. */
static void describe_by(struct zn_job *job, const struct zn_claim *c)
{
	if (strcmp(c->job, job->id) || c->uid == ZN_UNKNOWN || c->uid != job->uid)
		return;
	say(job, ZN_KEY_NAME, c->name);
	say(job, ZN_KEY_ARRAY_JOB, c->array_job);
	say(job, ZN_KEY_ARRAY_TASK, c->array_task);
}

/* Its environment is asked for once, and only while there is a job that it may speak of. */
static void ask(struct zn_jobs *j, const struct zn_proc *p, struct zn_job_seen *seen)
{
	struct zn_facts facts = {.claim.uid = ZN_UNKNOWN};

	if (seen->asked || !j->agg->facts)
		return;
	seen->asked = j->agg->facts(j->agg->owner, p, &facts);
	if (seen->asked)
		seen->claim = facts.claim;
}

static void process_tick(struct zn_jobs *j, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(j->agg->arena, row);
	struct zn_job_seen *seen = p ? seen_of(j, row, p) : NULL;
	struct zn_job *job;

	if (!p)
		return;
	ask(j, p, seen);
	if (!zn_jobs_of(j, p) && seen->asked)
		zn_jobs_claim(j, row, seen->claim.job, seen->claim.uid);
	job = zn_jobs_of(j, p);
	if (!job)
		return;
	if (seen->asked && runs(job))
		describe_by(job, &seen->claim);
	job->processes++;
	note_process(j, job, row, p);
}

/* A process that was there before the daemon, and has made no call since, has no row, but its device files are known. */
static void older_jobs_tick(struct zn_jobs *j)
{
	uint64_t began_ms = j->view ? j->view->start_wall_ms : 0;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (runs(job) && (job->found || job->start_wall_ms < began_ms))
			note_partial(j, job, false);
	}
}

/* What is of this moment is taken anew; what happened since the last count stays. */
static void processes_tick(struct zn_jobs *j)
{
	for (uint32_t slot = 0; slot < j->high; slot++) {
		j->job[slot].processes = 0;
		for (uint32_t i = 0; i < j->job[slot].gpu_count; i++) {
			j->job[slot].gpu[i].used_bytes = 0;
			j->job[slot].gpu[i].open = false;
		}
	}
	for (uint32_t r = 0; r < j->agg->row_count; r++)
		process_tick(j, j->agg->row[r]);
	older_jobs_tick(j);
	for (uint32_t slot = 0; slot < j->high; slot++)
		for (uint32_t i = 0; i < j->job[slot].gpu_count; i++)
			if (j->job[slot].gpu[i].used_bytes > j->job[slot].gpu[i].peak_bytes)
				j->job[slot].gpu[i].peak_bytes = j->job[slot].gpu[i].used_bytes;
}

/* For agg->gone_row. */
static void gone_row(void *jobs, uint32_t row, const struct zn_proc *p)
{
	struct zn_jobs *j = jobs;
	struct zn_job *job = zn_jobs_of(j, p);

	if (!job)
		return;
	seen_of(j, row, p);
	note_process(j, job, row, p);
	add_gone(j, job, row, p);
	j->seen[row].id = 0;
}

int zn_jobs_describe(struct zn_jobs *j, const struct zn_message *m, uint32_t uid, char why[ZN_TEXT_MAX])
{
	static const enum zn_key taken[] = {ZN_KEY_NAME, ZN_KEY_ARRAY_JOB, ZN_KEY_ARRAY_TASK};
	struct zn_job *job = zn_jobs_find(j, m->value[ZN_KEY_ID], number_or_unknown(m->value[ZN_KEY_RESTART]));
	int news = 0;

	if (!job || !runs(job) || uid == ZN_UNKNOWN || job->uid != uid) {
		snprintf(why, ZN_TEXT_MAX, "no job %.15s of this user runs here", m->value[ZN_KEY_ID]);
		return -EPERM;
	}
	for (size_t i = 0; i < ZN_LEN(taken); i++)
		news += say(job, taken[i], m->value[taken[i]]);
	return news;
}

/* ---- The end. ---- */

/* Without PrologFlags=Contain a job has a control group only while a step of it runs, and it has no end before its epilog:
 * if a step comes later than expected, the job goes on, as long as it was not forgotten. */
static bool may_resume(const struct zn_job *job)
{
	return job->told && !job->epilog && !job->next_ns && !by_hand(job);
}

static void reopen(struct zn_job *job)
{
	job->state = ZN_JOB_RUNNING;
	job->end_ns = job->end_wall_ms = 0;
	job->reported = false;
}

static void resume(struct zn_jobs *j, struct zn_job *job)
{
	const struct zn_job_row *row = zn_job_row(j, job);

	if (!may_resume(job) || !row->cgroups || row->gone_ns)
		return;
	reopen(job);
	if (j->started)
		j->started(j->owner, job);
}

static void finish(struct zn_jobs *j, struct zn_job *job, uint64_t at_ns)
{
	count_gpus(job, at_ns);
	for (uint32_t i = 0; i < job->gpu_count; i++) {
		job->gpu[i].idle_ns += job->gpu[i].held_ns;
		job->gpu[i].held_ns = 0;
	}
	note_losses(j, job->lost_end);
	job->state = ZN_JOB_ENDED;
	job->end_ns = at_ns > job->start_ns ? at_ns : job->start_ns;
	job->end_wall_ms = job->start_wall_ms + (job->end_ns - job->start_ns) / ZN_NS_PER_MS;
	if (!may_resume(job))
		j->agg->arena->ops->job_unname(j->agg->arena, job->slot);
	if (j->ended)
		j->ended(j->owner, job);
}

/* Epilog and the last control group's end are both looked for; the later one counts. 0: there was neither. */
static uint64_t last_sign(struct zn_jobs *j, const struct zn_job *job)
{
	uint64_t gone_ns = zn_job_row(j, job)->gone_ns, epilog_ns = job->epilog ? job->epilog_ns : 0;

	return gone_ns > epilog_ns ? gone_ns : epilog_ns;
}

/* When it ended; 0: it has not. */
static uint64_t ended_at(struct zn_jobs *j, const struct zn_job *job, uint64_t now_ns)
{
	const struct zn_job_row *row = zn_job_row(j, job);
	uint64_t sign_ns = last_sign(j, job);

	if (job->next_ns)
		return sign_ns ? sign_ns : job->next_ns;
	if (!sign_ns)
		return job->empty_ns && clamp_before(now_ns, job->empty_ns) >= ZN_JOB_GRACE_NS ? job->empty_ns : 0;
	if (by_hand(job) || (job->epilog && (row->gone_ns || !row->cgroup_seen)))
		return sign_ns;
	return clamp_before(now_ns, sign_ns) >= ZN_JOB_GRACE_NS ? sign_ns : 0;
}

static void count_task(void *to, const struct zn_tag *tag)
{
	struct zn_jobs *j = to;

	if (tag->slot < j->high && tag->serial == j->job[tag->slot].serial)
		j->tasks[tag->slot]++;
}

/* Of a process that was tagged by hand nothing else tells the end. */
static bool ends_with_processes(struct zn_jobs *j, const struct zn_job *job)
{
	return runs(job) && said(job, ZN_KEY_PID)[0] && !zn_job_row(j, job)->cgroup_seen;
}

/* The table of tasks is read once for all jobs, and only if some job has no process that called a hooked library. */
static void note_empty(struct zn_jobs *j, uint64_t now_ns)
{
	struct zn_arena *a = j->agg->arena;
	bool counted = false;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];
		bool asks = ends_with_processes(j, job) && !job->processes;

		if (asks && !counted) {
			memset(j->tasks, 0, sizeof(j->tasks));
			a->ops->job_tasks(a, count_task, j);
			counted = true;
		}
		if (!asks || j->tasks[slot])
			job->empty_ns = 0;
		else if (!job->empty_ns)
			job->empty_ns = now_ns;
	}
}

static void life(struct zn_jobs *j, struct zn_job *job, uint64_t now_ns)
{
	uint64_t at_ns = ended_at(j, job, now_ns);

	if (at_ns) {
		finish(j, job, at_ns);
		return;
	}
	job->state = last_sign(j, job) ? ZN_JOB_ENDING : ZN_JOB_RUNNING;
	if (job->state == ZN_JOB_RUNNING)
		count_gpus(job, now_ns);
}

/* Jobs whose id runs again, before a record or a report of the new one takes the place of theirs. */
static void settle(struct zn_jobs *j)
{
	for (uint32_t slot = 0; slot < j->high; slot++)
		if (runs(&j->job[slot]) && j->job[slot].next_ns)
			finish(j, &j->job[slot], ended_at(j, &j->job[slot], 0));
}

static void forget(struct zn_jobs *j, struct zn_job *job)
{
	for (uint32_t d = 0; d < ZN_DETAIL_COUNT; d++)
		if (job->gone[d].calls || job->gone[d].errors || job->gone[d].bytes)
			memset(&job->gone[d], 0, sizeof(job->gone[d]));
	j->agg->arena->ops->job_forget(j->agg->arena, job->slot);
	job->state = ZN_JOB_FREE;
	job->gpu_count = 0;
}

/* The job that ended longest ago makes room for others. False: none has ended. */
static bool forget_oldest(struct zn_jobs *j)
{
	struct zn_job *oldest = NULL;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (job->state == ZN_JOB_ENDED && (!oldest || job->end_ns < oldest->end_ns))
			oldest = job;
	}
	if (oldest)
		forget(j, oldest);
	return oldest;
}

static void make_room(struct zn_jobs *j, uint32_t room)
{
	const struct zn_shared *s = j->agg->arena->shared;

	while (ZN_JOBS_MAX - __atomic_load_n(&s->jobs, __ATOMIC_RELAXED) < room && forget_oldest(j))
		;
}

/* Series of file I/O come back some ticks after their job was forgotten: one job a tick is enough. */
static void forget_shown(struct zn_jobs *j, uint64_t now_ns)
{
	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (job->state == ZN_JOB_ENDED && clamp_before(now_ns, job->end_ns) >= SHOWN_NS)
			forget(j, job);
	}
	make_room(j, ROOM);
	if (j->crowded)
		forget_oldest(j);
}

/* ---- Alerts. ---- */

/* The GPU or the process that an alert is about, else whatever else its rule tells its instances by. */
static const char *about(const struct zn_alert *alert)
{
	static const char *const names[] = {"gpu_id", "pid", "comm", "mount", "op"};

	for (size_t i = 0; i < ZN_LEN(names); i++)
		if (*zn_alert_label(alert, names[i]))
			return zn_alert_label(alert, names[i]);
	return "";
}

static void note_alert(struct zn_job *job, const struct zn_alert *alert)
{
	const char *of = about(alert);
	struct zn_job_alert *to;

	for (uint32_t i = 0; i < job->alert_count; i++)
		if (!strcmp(job->alert[i].name, alert->rule->name) && !strcmp(job->alert[i].label, of)) {
			job->alert[i].times++;
			return;
		}
	if (job->alert_count == ZN_JOB_ALERTS) {
		job->alerts_lost++;
		return;
	}
	to = &job->alert[job->alert_count++];
	*to = (struct zn_job_alert){.first_wall_ms = alert->since_wall_ms, .times = 1};
	snprintf(to->name, sizeof(to->name), "%s", alert->rule->name);
	snprintf(to->label, sizeof(to->label), "%.*s", (int)sizeof(to->label) - 1, of);
}

static bool concerns(struct zn_jobs *j, const struct zn_job *job, const struct zn_alert *alert)
{
	const struct zn_agg *a = j->agg;
	const char *id = zn_alert_label(alert, "job_id"), *gpu = zn_alert_label(alert, "gpu_id");
	uint32_t pid;

	if (*id)
		return !strcmp(job->id, id);
	if (!number(zn_alert_label(alert, "pid"), &pid)) {
		for (uint32_t i = 0; i < job->gpu_count; i++)
			if (!strcmp(job->gpu[i].id, gpu))
				return true;
		return false;
	}
	for (uint32_t r = 0; r < a->row_count; r++)
		if (a->arena->shared->row_tgid[a->row[r]] == pid)
			return zn_jobs_of(j, &a->arena->procs[a->row[r]]) == job;
	return false;
}

/* Those that began to fire since the last look. */
static void note_alerts(struct zn_jobs *j, uint64_t now_ns)
{
	const struct zn_alerts *a = j->alerts;

	for (uint32_t i = 0; a && i < a->count; i++) {
		if (a->alert[i].state != ZN_FIRING || a->alert[i].since_ns <= j->alerts_ns)
			continue;
		for (uint32_t slot = 0; slot < j->high; slot++)
			if (runs(&j->job[slot]) && concerns(j, &j->job[slot], &a->alert[i]))
				note_alert(&j->job[slot], &a->alert[i]);
	}
	j->alerts_ns = now_ns;
}

void zn_jobs_tick(struct zn_jobs *j, uint64_t now_ns)
{
	j->tick_ns = now_ns;
	discover(j);
	if (j->agg->arena->shared->jobs)
		processes_tick(j);
	note_alerts(j, now_ns);
	note_empty(j, now_ns);
	for (uint32_t slot = 0; slot < j->high; slot++) {
		if (j->job[slot].state == ZN_JOB_ENDED)
			resume(j, &j->job[slot]);
		if (runs(&j->job[slot]))
			life(j, &j->job[slot], now_ns);
	}
	forget_shown(j, now_ns);
}

/* ---- What is told. ---- */

/* When a message was said, by both clocks: it may have waited in a file. False: before this boot, so it is of no job that
 * runs. */
static bool said_at(const struct zn_message *m, uint64_t *ns, uint64_t *wall_ms, char why[ZN_TEXT_MAX])
{
	struct zn_moment now;
	uint64_t ago_ms;

	zn_moment_now(&now);
	if (!zn_message_ago(m, &now, &ago_ms)) {
		snprintf(why, ZN_TEXT_MAX, "it is from before the node was started");
		return false;
	}
	*ns = clamp_before(zn_now_ns(), ago_ms * ZN_NS_PER_MS);
	*wall_ms = now.wall_ms - ago_ms;
	return true;
}

static uint32_t restart_of(const struct zn_message *m)
{
	return number_or_unknown(m->value[ZN_KEY_RESTART]);
}

/* The job that a start speaks of, if it is there already: told of before, or found by its control group. */
static struct zn_job *meant(struct zn_jobs *j, const struct zn_message *m)
{
	uint32_t restart = restart_of(m);
	const char *sluid = m->value[ZN_KEY_SLUID];
	struct zn_job *job = find(j, m->value[ZN_KEY_ID], ZN_UNKNOWN);

	if ((!job || !runs(job)) && sluid[0])
		job = find(j, sluid, ZN_UNKNOWN);
	if (!job || !runs(job) || job->epilog)
		return NULL;
	if (job->told)
		return restart == ZN_UNKNOWN || restart == job->restart ? job : NULL;
	return zn_job_row(j, job)->gone_ns ? NULL : job;
}

/* Who had this id before is over. */
static struct zn_job *begin(struct zn_jobs *j, const char *id, char why[ZN_TEXT_MAX])
{
	struct zn_arena *a = j->agg->arena;
	struct zn_job *before = find(j, id, ZN_UNKNOWN);
	int slot;

	if (before && runs(before)) {
		before->next_ns = zn_now_ns();
		zn_agg_refresh(j->agg);
		settle(j);
	}
	if (before)
		a->ops->job_unname(a, before->slot);
	make_room(j, 1);
	slot = a->ops->job_claim(a, id);
	if (slot >= 0)
		return job_at(j, (uint32_t)slot);
	j->refused++;
	snprintf(why, ZN_TEXT_MAX, "no room for job %.15s: %d jobs are followed already", id, ZN_JOBS_MAX);
	return NULL;
}

/* What is said of the job, and not of the message itself. */
static bool is_about_job(enum zn_key k)
{
	return k != ZN_KEY_TIME && k != ZN_KEY_BOOT && k != ZN_KEY_UPTIME && k != ZN_KEY_JSON && k != ZN_KEY_LINE;
}

static void learn(struct zn_job *job, const struct zn_message *m)
{
	uint32_t restart = restart_of(m);

	for (enum zn_key k = 0; k < ZN_KEY_COUNT; k++)
		if (m->value[k][0] && is_about_job(k))
			memcpy(job->about.value[k], m->value[k], ZN_VALUE_BYTES);
	if (!job->told && restart != ZN_UNKNOWN)
		job->restart = restart;
	if (m->value[ZN_KEY_UID][0])
		job->uid = number_or_unknown(m->value[ZN_KEY_UID]);
	job->about.verb = ZN_VERB_START;
	job->told = true;
}

/* Its names in paths: a number, and from Slurm 26.05 on a SLUID. */
static void name(struct zn_jobs *j, struct zn_job *job, const struct zn_message *m)
{
	static const enum zn_key names[] = {ZN_KEY_ID, ZN_KEY_SLUID};
	struct zn_arena *a = j->agg->arena;

	for (size_t i = 0; i < ZN_LEN(names); i++) {
		char padded[ZN_JOB_NAME] = "";
		const char *text = m->value[names[i]];

		if (!text[0] || strlen(text) >= sizeof(padded))
			continue;
		strcpy(padded, text);
		a->ops->job_alias(a, job->slot, padded);
	}
	snprintf(job->id, sizeof(job->id), "%.15s", m->value[ZN_KEY_ID]);
}

static int tag(struct zn_jobs *j, struct zn_job *job, const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	struct zn_arena *a = j->agg->arena;
	uint32_t pid;
	int err = 0;

	if (number(m->value[ZN_KEY_PID], &pid))
		err = (a->job_tree ? a->job_tree : a->ops->job_task)(a, job->slot, pid);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot tag process %u: %s", pid, strerror(-err));
	if (!err && m->value[ZN_KEY_CGROUP][0])
		err = zn_cgroup_tag(a, job->slot, m->value[ZN_KEY_CGROUP], why);
	return err;
}

int zn_jobs_start(struct zn_jobs *j, const struct zn_message *m, enum zn_job_source source, char why[ZN_TEXT_MAX])
{
	struct zn_job *job;
	uint64_t start_ns, start_ms;
	bool fresh;
	int err;

	if (!said_at(m, &start_ns, &start_ms, why))
		return -ESTALE;
	discover(j);
	settle(j);
	job = meant(j, m);
	fresh = !job;
	if (fresh && !(job = begin(j, m->value[ZN_KEY_ID], why)))
		return -ENOSPC;
	err = tag(j, job, m, why);
	if (err && fresh)
		forget(j, job);
	if (err) /* a job that ran before is as it was */
		return err;
	job->source = source;
	learn(job, m);
	name(j, job, m);
	gpus_given(j, job);
	if (start_ns < job->start_ns) {
		job->start_ns = start_ns;
		job->start_wall_ms = start_ms;
	}
	if (j->started)
		j->started(j->owner, job);
	return 0;
}

/* An epilog that names no restart count is of the job that runs. One that comes late, as after a pause, is the end all the
 * same, and has the exit code. */
static struct zn_job *meant_to_end(struct zn_jobs *j, const struct zn_message *m)
{
	uint32_t restart = restart_of(m);
	struct zn_job *job = zn_jobs_find(j, m->value[ZN_KEY_ID], ZN_UNKNOWN);

	if (job && job->told && restart != ZN_UNKNOWN && job->restart != restart)
		job = find(j, m->value[ZN_KEY_ID], restart);
	if (!job && m->value[ZN_KEY_SLUID][0])
		job = find(j, m->value[ZN_KEY_SLUID], ZN_UNKNOWN);
	return job && (runs(job) || may_resume(job)) ? job : NULL;
}

int zn_jobs_end(struct zn_jobs *j, const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	struct zn_job *job = meant_to_end(j, m);
	uint64_t end_ns;

	if (!job)
		return 0;
	if (!said_at(m, &end_ns, &(uint64_t){0}, why))
		return -ESTALE;
	learn(job, m);
	name(j, job, m); /* of one whose prolog was not heard only the SLUID may be known */
	if (!runs(job))
		reopen(job);
	if (!job->epilog) {
		job->epilog = true;
		job->epilog_ns = end_ns > job->start_ns ? end_ns : job->start_ns;
	}
	/* what it left of itself is of no further job; and who has exited by now is counted in */
	j->agg->arena->ops->job_unname(j->agg->arena, job->slot);
	zn_agg_refresh(j->agg);
	life(j, job, zn_now_ns());
	return 0;
}

int zn_jobs_open(struct zn_jobs *j, struct zn_agg *agg, struct zn_alerts *alerts)
{
	void *at = mmap(NULL, ZN_JOBS_MAX * GONE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	if (j->agg) /* a fresh one is zero, and memory that nobody needs is not touched */
		memset(j, 0, sizeof(*j));
	j->memory = at;
	j->agg = agg;
	j->alerts = alerts;
	agg->jobs = j;
	agg->gone_row = gone_row;
	return 0;
}

void zn_jobs_close(struct zn_jobs *j)
{
	if (j->memory)
		munmap(j->memory, ZN_JOBS_MAX * GONE_BYTES);
	if (j->agg) {
		j->agg->gone_row = NULL;
		j->agg->jobs = NULL;
	}
	j->memory = NULL;
}
