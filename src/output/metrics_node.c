/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_node.c: sums over all processes of the node, those that have gone included, and the GPU memory of each job: what
 * a site that does not collect processes would have to add up itself.
 */
#include "zernel.h"

void zn_metrics_node_counts(struct zn_walk *w)
{
	const struct zn_metric_counts *c = w->metric->arg;
	const struct zn_proc *p;

	for (uint32_t i = 0; i < c->count; i++) {
		uint64_t sum = w->state->agg->gone_count[c->first + i];

		ZN_EACH_PROC(w, r, p)
		sum += p->count[c->first + i];
		if (!sum)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, c->label, c->value[i]);
		zn_walk_scaled(w, sum, c->decimals);
	}
}

static uint64_t nccl_bytes(struct zn_walk *w, const struct zn_proc *p)
{
	uint64_t sum = 0;

	for (enum zn_operation i = ZN_H_NCCL_FIRST; i <= ZN_H_NCCL_LAST; i++) {
		const struct zn_hist *h = zn_arena_hist(w->state->agg->arena, p->hist[i]);

		sum += h ? h->bytes : 0;
	}
	return sum;
}

void zn_metrics_node_nccl_bytes(struct zn_walk *w)
{
	const struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;
	uint64_t sum = 0;

	for (enum zn_operation i = ZN_H_NCCL_FIRST; i <= ZN_H_NCCL_LAST; i++)
		sum += agg->gone[i].bytes;
	ZN_EACH_PROC(w, r, p)
	sum += nccl_bytes(w, p);
	if (sum)
		zn_walk_one(w, sum, 0);
}

/* ---- GPU memory by job; the last row is of what is of no job. ---- */

#define NO_JOB ZN_JOBS_MAX
static struct job_memory {
	bool any, partial, had[ZN_GPUS_MAX];
	uint64_t used_bytes[ZN_GPUS_MAX];
} memory[ZN_JOBS_MAX + 1];

static const struct zn_job *job_at(const struct zn_walk *w, uint32_t slot)
{
	const struct zn_job *job = slot < NO_JOB ? &w->state->jobs->job[slot] : NULL;

	return job && job->state != ZN_JOB_FREE && zn_jobs_find(w->state->jobs, job->id, ZN_UNKNOWN) == job ? job
													    : NULL;
}

static void add_process(struct zn_walk *w, struct job_memory *m, uint32_t row)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	size_t n = zn_agg_shares(w->state->agg, row, share);

	m->any = m->any || n;
	m->partial = m->partial || w->state->agg->info[row].ledger == ZN_LEDGER_PARTIAL;
	for (size_t i = 0; i < n; i++) {
		m->partial = m->partial || share[i].partial;
		m->had[share[i].gpu] = m->had[share[i].gpu] || share[i].sum.peak_bytes;
		m->used_bytes[share[i].gpu] += share[i].sum.used_bytes;
	}
}

/* Rows that are used are clean before and behind a walk: what nobody uses is not touched. */
static void each_memory(
	struct zn_walk *w, void (*series)(struct zn_walk *w, const char *job_id, const struct job_memory *m))
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		const struct zn_job *job = w->state->jobs ? zn_jobs_of(w->state->jobs, p) : NULL;

		add_process(w, &memory[job ? job->slot : NO_JOB], w->state->agg->row[r]);
	}
	for (uint32_t slot = 0; slot <= NO_JOB; slot++) {
		const struct zn_job *job = memory[slot].any || memory[slot].partial ? job_at(w, slot) : NULL;

		if (job || ((memory[slot].any || memory[slot].partial) && slot == NO_JOB))
			series(w, job ? job->id : "", &memory[slot]);
		if (memory[slot].any || memory[slot].partial)
			memory[slot] = (struct job_memory){0};
	}
}

static void memory_series(struct zn_walk *w, const char *job_id)
{
	zn_walk_series(w);
	zn_walk_label(w, "job_id", job_id);
}

static void used_memory(struct zn_walk *w, const char *job_id, const struct job_memory *m)
{
	for (uint32_t g = 0; g < w->state->agg->gpus.count && !m->partial; g++) {
		if (!m->had[g])
			continue;
		memory_series(w, job_id);
		zn_walk_label(w, "gpu_id", w->state->agg->gpus.gpu[g].id);
		zn_walk_integer(w, m->used_bytes[g]);
	}
}

static void complete_memory(struct zn_walk *w, const char *job_id, const struct job_memory *m)
{
	memory_series(w, job_id);
	zn_walk_integer(w, !m->partial);
}

void zn_metrics_node_job_memory(struct zn_walk *w)
{
	each_memory(w, used_memory);
}

void zn_metrics_node_job_complete(struct zn_walk *w)
{
	each_memory(w, complete_memory);
}
