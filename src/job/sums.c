/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sums.c: what a job did is the sum over its processes: those that live are read where they are, those that have gone
 * were added up before their rows were given back.
 */
#include "zernel.h"
#include <string.h>

const struct zn_hist *zn_job_merge(struct zn_jobs *j, const struct zn_job *job, enum zn_operation operation)
{
	memset(&j->merged, 0, sizeof(j->merged));
	if (job->gone[operation].hist.calls)
		zn_hist_merge(&j->merged, &job->gone[operation].hist);
	for (uint32_t r = 0; r < j->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[r]);
		const struct zn_hist *h =
			p && zn_jobs_of(j, p) == job ? zn_arena_hist(j->agg->arena, p->hist[operation]) : NULL;

		if (h && h->calls)
			zn_hist_merge(&j->merged, h);
	}
	return &j->merged.hist;
}

const uint64_t *zn_job_counts(struct zn_jobs *j, const struct zn_job *job)
{
	memcpy(j->count, job->count, sizeof(j->count));
	for (uint32_t r = 0; r < j->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[r]);

		for (uint32_t i = 0; p && zn_jobs_of(j, p) == job && i < ZN_COUNTER_COUNT; i++)
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

void zn_job_add_gone(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p)
{
	for (uint32_t d = 0; d < ZN_OPERATION_COUNT; d++) {
		const struct zn_hist *h = zn_arena_hist(j->agg->arena, p->hist[d]);

		if (h)
			zn_hist_merge(&job->gone[d], h);
	}
	for (uint32_t i = 0; i < ZN_COUNTER_COUNT; i++)
		if (!zn_counter_is_gauge(i))
			job->count[i] += zn_agg_count(j->agg, row, i);
	add_process_memory(&job->memory, p);
	job->processes_gone++;
	job->processes -= job->processes > 0;
}
