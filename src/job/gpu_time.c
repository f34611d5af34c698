/* SPDX-License-Identifier: GPL-2.0 */
/* gpu_time.c: what a job holds on each GPU, and for how long it uses it. */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>

#define HOLD_NS (60 * ZN_NS_PER_S) /* calls that wait longer for the GPU count as idle for the rest */

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

void zn_job_gpus_note(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p)
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
	uint64_t waited = zn_job_clamp_before(g->waited_ns, ns);

	if (waited > g->held_ns)
		waited = g->held_ns;
	g->busy_ns += ns + waited;
	g->idle_ns += g->held_ns - waited;
	g->quiet_ns = g->held_ns = 0;
}

/* The time since it was counted last, up to a moment. While a process did something on a GPU that could not be told, the
 * others are not said to be idle. */
void zn_job_gpus_count(struct zn_job *job, uint64_t now_ns)
{
	uint64_t ns = zn_job_clamp_before(now_ns, job->counted_ns);

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
