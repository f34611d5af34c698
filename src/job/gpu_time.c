/* SPDX-License-Identifier: GPL-2.0 */
/* gpu_time.c: what a job holds on each GPU, and for how long it uses it. */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>

#define HOLD_NS (60 * ZN_NS_PER_S) /* calls that wait longer for the GPU count as idle for the rest */

/* A GPU that was listed by its UUID, before any process showed its index, keeps that name. */
static bool same_gpu(const struct zn_job_gpu *g, const struct zn_gpu *gpu)
{
	return strcmp(g->id, gpu->id) == 0 || (gpu->uuid[0] && strcasecmp(g->id, gpu->uuid) == 0);
}

bool zn_job_gpus_has(const struct zn_job *job, const char *id)
{
	for (uint32_t i = 0; i < job->gpu_count; i++)
		if (!strcmp(job->gpu[i].id, id))
			return true;
	return false;
}

bool zn_job_gpus_has_at(const struct zn_jobs *j, const struct zn_job *job, const char *pci)
{
	const struct zn_gpus *gpus = &j->agg->gpus;

	for (uint32_t n = 0; n < gpus->count; n++)
		for (uint32_t i = 0; i < job->gpu_count && !strcmp(gpus->gpu[n].pci, pci); i++)
			if (same_gpu(&job->gpu[i], &gpus->gpu[n]))
				return true;
	return false;
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

/* An unknown GPU, of a process that ended too soon, is the job's GPU if the job has only one. */
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

/* One entry of SLURM_JOB_GPUS: "2", "0-3" or "GPU-...". A number that says nothing certain is left out: which GPUs the
 * job has, its processes' open devices show. */
static void gpu_given(struct zn_jobs *j, struct zn_job *job, const char *item)
{
	uint32_t first, last;
	char id[48], *end;

	first = last = (uint32_t)strtoul(item, &end, 10);
	if (end > item && *end == '-')
		last = (uint32_t)strtoul(end + 1, &end, 10);
	if (end == item || *end || last < first || last - first >= ZN_GPUS_MAX)
		first = last = ZN_UNKNOWN;
	if (first != ZN_UNKNOWN && !zn_gpus_numbered(&j->agg->gpus))
		return;
	for (uint32_t i = first; i <= last; i++) {
		struct zn_job_gpu *g;
		char index[12];

		snprintf(index, sizeof(index), "%u", i);
		zn_gpus_name(&j->agg->gpus, i == ZN_UNKNOWN ? item : index, id);
		if ((g = gpu_named(j, job, id)))
			g->given = g->allocated = true;
		if (i == last) /* the highest number has none after it */
			break;
	}
}

void zn_job_gpus_given(struct zn_jobs *j, struct zn_job *job)
{
	const char *at = zn_job_said(job, ZN_KEY_GPUS);
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

/* What a process did since the last look. */
struct deeds {
	bool active;                 /* it launched, copied, waited or communicated */
	bool hangs;                  /* it waits for a rank that does not come */
	uint64_t waited_ns;          /* at most how long one call took that came back */
	uint64_t busy_ns, active_ns; /* as of struct zn_activity_row; UINT64_MAX: nobody looks, so all of it */
};

static void read_calls(struct zn_jobs *j, uint32_t row, const struct zn_proc *p, struct deeds *d)
{
	struct zn_job_seen *seen = &j->seen[row];
	uint64_t calls = 0, sum_ns = 0, longest_ns = 0;

	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++)
		calls += p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, first)] + p->count[ZN_C_HIT(ZN_FAM_NCCL, first)];
	for (enum zn_operation i = ZN_H_LAUNCH; i <= ZN_H_NCCL_INIT; i++) {
		const struct zn_hist *h = zn_arena_hist(j->agg->arena, p->hist[i]);

		sum_ns += h ? h->sum_ns : 0;
		if (h && h->max_ns > longest_ns)
			longest_ns = h->max_ns;
	}
	d->active = calls != seen->calls || sum_ns != seen->sum_ns;
	d->waited_ns = sum_ns - seen->sum_ns < longest_ns ? sum_ns - seen->sum_ns : longest_ns;
	seen->calls = calls;
	seen->sum_ns = sum_ns;
}

/* Waits that go on are known where the scheduler is watched: then none is found out when it returns. */
static void read_activity(struct zn_jobs *j, uint32_t row, const struct zn_proc *p, struct deeds *d)
{
	const struct zn_activity_row *r = j->activity ? zn_activity_of(j->activity, row, p->id) : NULL;
	struct zn_job_seen *seen = &j->seen[row];

	if (!r) {
		d->busy_ns = d->active_ns = j->activity ? 0 : UINT64_MAX;
		return;
	}
	d->busy_ns = r->busy_ns - seen->busy_ns;
	d->active_ns = r->active_ns - seen->active_ns;
	d->hangs = r->hangs;
	d->active |= d->busy_ns > 0;
	if (zn_agg_measures(j->agg, ZN_FAM_SCHED))
		d->waited_ns = 0;
	seen->busy_ns = r->busy_ns;
	seen->active_ns = r->active_ns;
}

static struct deeds deeds_of(struct zn_jobs *j, uint32_t row, const struct zn_proc *p)
{
	struct deeds d = {0};

	read_calls(j, row, p, &d);
	read_activity(j, row, p, &d);
	return d;
}

static uint64_t sum_up_to_all(uint64_t a, uint64_t b)
{
	return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static void note_use(struct zn_job_gpu *g, const struct deeds *d)
{
	g->active = true;
	g->tick_busy_ns = sum_up_to_all(g->tick_busy_ns, d->busy_ns);
	g->tick_active_ns = sum_up_to_all(g->tick_active_ns, d->active_ns);
	if (d->waited_ns > g->waited_ns)
		g->waited_ns = d->waited_ns;
}

/* What a process holds on one GPU. It uses that GPU if it did something and has memory on it, or had some, if it
 * has none anywhere by now. */
static void note_share(struct zn_job_gpu *g, const struct zn_gpu_usage *s, bool lives, bool uses, const struct deeds *d)
{
	if (lives)
		g->used_bytes += s->sum.used_bytes;
	if (s->sum.peak_bytes > g->peak_bytes)
		g->peak_bytes = s->sum.peak_bytes;
	g->open |= lives && s->sum.used_bytes;
	g->hangs |= lives && d->hangs && s->sum.used_bytes;
	if (uses)
		note_use(g, d);
}

/* Where memory was not seen, the peak of a job is not known. The GPU of a process with a partial ledger is known
 * by the device files that it has open; without the driver's list of devices it may be any GPU of the job. */
void zn_job_gpus_partial(struct zn_jobs *j, struct zn_job *job, bool any)
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
	zn_job_gpus_partial(j, job, !j->agg->gpus.listed);
	for (uint32_t i = 0; i < job->gpu_count; i++)
		job->gpu[i].open |= lives;
}

/* A process that did something on an unknown GPU. */
static void note_astray(struct zn_job *job, const struct deeds *d)
{
	struct zn_job_gpu *only = only_gpu(job);

	if (only)
		note_use(only, d);
	else
		job->astray = true;
}

void zn_job_gpus_note(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	size_t n = zn_agg_shares(j->agg, row, share);
	struct deeds d = deeds_of(j, row, p);
	bool any = false, placed = false;
	bool partial = j->agg->info[row].ledger == ZN_LEDGER_PARTIAL;

	for (size_t i = 0; i < n; i++)
		any |= share[i].sum.used_bytes > 0;
	for (size_t i = 0; i < n; i++) {
		bool uses = d.active && (any ? share[i].sum.used_bytes : share[i].sum.peak_bytes);
		bool unknown = zn_gpu_unknown(&j->agg->gpus.gpu[share[i].gpu]);
		/* calls without a context fail on no GPU */
		struct zn_job_gpu *g = unknown && !share[i].sum.peak_bytes ? NULL : gpu_of(j, job, share[i].gpu);

		if (g)
			note_share(g, &share[i], !p->exit_ns, uses, &d);
		placed |= uses && !unknown;
	}
	if (d.active && (!placed || partial))
		note_astray(job, &d);
	if (partial)
		note_unseen(j, job, !p->exit_ns);
}

/* A GPU of which a process holds memory, and nothing is heard, may be idle, or a call waits for it and returns
 * later: up to HOLD_NS the time is held back until that is known, so that idle time never has to be taken back.
 * Nothing is held back where waits that go on are known, or the wait is for a rank that does not come. */
static void gpu_quiet(struct zn_job_gpu *g, uint64_t ns, bool waits_known)
{
	uint64_t hold_ns = g->open && !waits_known && !g->hangs ? HOLD_NS : 0;

	g->held_ns += ns;
	if (g->held_ns <= hold_ns)
		return;
	g->idle_ns += g->held_ns - hold_ns;
	g->held_ns = hold_ns;
}

/* Calls that came back may have waited in time that was held back. The rest of this time is quiet. */
static void gpu_busy(struct zn_job_gpu *g, uint64_t ns, bool waits_known)
{
	uint64_t busy_ns = g->tick_busy_ns < ns ? g->tick_busy_ns : ns;
	uint64_t waited_ns = zn_job_clamp_before(g->waited_ns, busy_ns);

	if (waited_ns > g->held_ns)
		waited_ns = g->held_ns;
	g->busy_ns += busy_ns + waited_ns;
	g->active_ns += (g->tick_active_ns < ns ? g->tick_active_ns : ns) + waited_ns;
	g->idle_ns += g->held_ns - waited_ns;
	g->quiet_ns = g->held_ns = 0;
	gpu_quiet(g, ns - busy_ns, waits_known);
}

uint64_t zn_job_gpus_utilization(const struct zn_hardware *h, const struct zn_job *job)
{
	uint64_t sum = 0;
	uint32_t count = 0;

	for (uint32_t g = 0; h && zn_job_runs(job) && g < job->gpu_count; g++) {
		uint32_t i = zn_hardware_named(h, job->gpu[g].id);

		if (!job->gpu[g].allocated)
			continue;
		if (i == ZN_GPUS_MAX || !zn_reading_has(&h->device[i].now, ZN_FIGURE_UTILIZATION))
			return ZN_NOT_KNOWN;
		sum += h->device[i].now.value[ZN_FIGURE_UTILIZATION];
		count++;
	}
	return count ? sum / count : ZN_NOT_KNOWN;
}

/* The time since it was counted last, up to a moment. While a process worked on an unknown GPU, no GPU of the job
 * counts as idle. */
void zn_job_gpus_count(const struct zn_jobs *j, struct zn_job *job, uint64_t now_ns)
{
	uint64_t ns = zn_job_clamp_before(now_ns, job->counted_ns);
	bool waits_known = j->activity && zn_agg_measures(j->agg, ZN_FAM_SCHED);

	for (uint32_t i = 0; i < job->gpu_count; i++) {
		struct zn_job_gpu *g = &job->gpu[i];

		g->quiet_ns += ns;
		if (g->active && g->allocated)
			gpu_busy(g, ns, waits_known);
		else if (g->allocated && !job->astray)
			gpu_quiet(g, ns, waits_known);
		else
			g->quiet_ns = 0; /* it may be that one */
		g->active = g->hangs = false;
		g->waited_ns = g->tick_busy_ns = g->tick_active_ns = 0;
	}
	job->astray = false;
	if (now_ns > job->counted_ns)
		job->counted_ns = now_ns;
}
