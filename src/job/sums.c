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

static void add_lived(const struct zn_jobs *j, struct zn_spent *to, uint64_t *lived_ns, uint32_t row)
{
	const struct zn_proc *p = &j->agg->arena->procs[row];
	const struct zn_spent *s = zn_spare_spent(j->agg->arena, row, p->id);
	uint64_t end_ns = p->exit_ns ? p->exit_ns : zn_now_ns();

	*lived_ns += end_ns > p->first_ns ? end_ns - p->first_ns : 0;
	for (enum zn_spare i = 0; s && i < ZN_SPARE_COUNT; i++)
		to->unseen_ns[i] += s->unseen_ns[i];
}

uint32_t zn_job_seen_part(const struct zn_jobs *j, const struct zn_job *job, enum zn_spare part)
{
	uint64_t lived_ns = job->lived_ns;
	struct zn_spent all = {0};

	memcpy(all.unseen_ns, job->unseen_ns, sizeof(all.unseen_ns));
	for (uint32_t r = 0; r < j->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[r]);

		if (p && zn_jobs_of((struct zn_jobs *)j, p) == job)
			add_lived(j, &all, &lived_ns, j->agg->row[r]);
	}
	return zn_spare_seen(&all, part, lived_ns);
}

/* ---- calls that failed ---- */

static void add_failed(
	struct zn_failed *to, struct zn_failed_call *first, const struct zn_failed *f, const struct zn_proc *p)
{
	struct zn_failed_call last;

	zn_failed_add(to, f);
	if (zn_failed_last(f, p, &last) && zn_failed_before(&last, first))
		*first = last;
}

void zn_job_add_failed(struct zn_jobs *j, uint32_t row, const struct zn_proc *p)
{
	const struct zn_failed *f = zn_failed_of(j->agg->arena, row, p);

	if (f)
		zn_failed_add(&j->failed, f);
	j->failed_cuda += p->count[ZN_C_CUDA_ERRORS];
	j->failed_rdma += p->count[ZN_C_RDMA_ERRORS];
}

uint32_t zn_job_failed_rows(const struct zn_jobs *j, uint32_t to[ZN_PROCS_MAX])
{
	uint32_t count = 0;

	for (uint32_t r = 0; r < j->agg->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[r]);

		if (p && zn_failed_of(j->agg->arena, j->agg->row[r], p))
			to[count++] = j->agg->row[r];
	}
	return count;
}

/* What came of a process whose job has been forgotten is in no sum, so that it does not come to that of no job at once. */
void zn_job_failed(const struct zn_jobs *j, const struct zn_job *job, const uint32_t *rows, uint32_t row_count,
	struct zn_job_failed *to)
{
	*to = (struct zn_job_failed){.cuda = j->failed_cuda, .rdma = j->failed_rdma, .sum = j->failed};
	if (job)
		*to = (struct zn_job_failed){
			job->count[ZN_C_CUDA_ERRORS], job->count[ZN_C_RDMA_ERRORS], job->failed, job->failed_first};
	for (uint32_t r = 0; r < row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, rows[r]);
		const struct zn_failed *f = p ? zn_failed_of(j->agg->arena, rows[r], p) : NULL;

		if (!f || zn_jobs_of((struct zn_jobs *)j, p) != job || (!job && p->job.serial))
			continue;
		to->cuda += p->count[ZN_C_CUDA_ERRORS];
		to->rdma += p->count[ZN_C_RDMA_ERRORS];
		add_failed(&to->sum, &to->first, f, p);
	}
}

void zn_job_add_gone(struct zn_jobs *j, struct zn_job *job, uint32_t row, const struct zn_proc *p)
{
	const struct zn_failed *f = zn_failed_of(j->agg->arena, row, p);
	struct zn_spent gone = {0};

	if (f)
		add_failed(&job->failed, &job->failed_first, f, p);
	for (uint32_t d = 0; d < ZN_OPERATION_COUNT; d++) {
		const struct zn_hist *h = zn_arena_hist(j->agg->arena, p->hist[d]);

		if (h)
			zn_hist_merge(&job->gone[d], h);
	}
	for (uint32_t i = 0; i < ZN_COUNTER_COUNT; i++)
		if (!zn_counter_is_gauge(i))
			job->count[i] += zn_agg_count(j->agg, row, i);
	add_process_memory(&job->memory, p);
	add_lived(j, &gone, &job->lived_ns, row);
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++)
		job->unseen_ns[i] += gone.unseen_ns[i];
	job->processes_gone++;
	job->processes -= job->processes > 0;
}
