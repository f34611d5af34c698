/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_failed.c: what metrics of failed calls yield: of CUDA and HIP by their result, system calls on devices of
 * RDMA by what they asked for and errno; of each process, and of each job with those of its processes that have gone.
 */
#include <string.h>

#include "zernel.h"

/* Whose they are: a process, or a job, or, with neither, what is of no job. */
struct whose {
	const struct zn_proc *proc;
	const struct zn_job *job;
};

static void begin_series(struct zn_walk *w, const struct whose *of)
{
	zn_walk_series(w);
	w->sample.since_ms =
		of->proc ? zn_state_wall_ms(w->state, of->proc->first_ns) : zn_state_job_wall_ms(w->state, of->job);
	if (of->proc) {
		zn_walk_number(w, "pid", of->proc->tgid);
		w->job_id = w->state->jobs ? zn_job_id(w->state->jobs, of->proc) : NULL;
		return;
	}
	zn_walk_label(w, "job_id", of->job ? of->job->id : "");
}

static void cuda_series(struct zn_walk *w, const struct whose *of, const struct zn_failed *f, uint64_t all)
{
	struct zn_failed_result result[ZN_FAILED_RESULTS];
	uint32_t count = zn_failed_results(f, all, result);
	char name[ZN_FAILED_NAME];

	for (uint32_t i = 0; i < count; i++) {
		zn_failed_name(result[i].key, name);
		begin_series(w, of);
		zn_walk_label(w, "error", name);
		zn_walk_integer(w, result[i].count);
	}
}

/* Two keys may have one name: a call that has none is told as ioctl or write. The first of them has the sum. */
static bool is_named_before(const struct zn_failed *f, uint32_t i, uint64_t *sum)
{
	*sum = 0;
	for (uint32_t k = 0; k < ZN_FAILED_RDMA && f->rdma_key[k]; k++) {
		if (strcmp(zn_rdma_call(f->rdma_key[k]), zn_rdma_call(f->rdma_key[i])) ||
			strcmp(zn_rdma_error(f->rdma_key[k]), zn_rdma_error(f->rdma_key[i])))
			continue;
		if (k < i)
			return true;
		*sum += f->rdma_count[k];
	}
	return false;
}

static void rdma_series(struct zn_walk *w, const struct whose *of, const struct zn_failed *f, uint64_t all)
{
	uint64_t named = 0, sum;

	for (uint32_t i = 0; i < ZN_FAILED_RDMA && f->rdma_key[i]; i++) {
		if (is_named_before(f, i, &sum))
			continue;
		named += sum;
		begin_series(w, of);
		zn_walk_label(w, "call", zn_rdma_call(f->rdma_key[i]));
		zn_walk_label(w, "errno", zn_rdma_error(f->rdma_key[i]));
		zn_walk_integer(w, sum);
	}
	if (all <= named)
		return;
	begin_series(w, of);
	zn_walk_label(w, "call", "other");
	zn_walk_label(w, "errno", "other");
	zn_walk_integer(w, all - named);
}

/* arg: true: of RDMA; false: of CUDA. */
void zn_metrics_failed_process(struct zn_walk *w)
{
	bool rdma = *(const bool *)w->metric->arg;
	struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		uint64_t all = p->count[rdma ? ZN_C_RDMA_ERRORS : ZN_C_CUDA_ERRORS];
		const struct zn_failed *f = all ? zn_arena_failed(agg->arena, agg->row[r]) : NULL;

		if (f && rdma)
			rdma_series(w, &(struct whose){.proc = p}, f, all);
		else if (f)
			cuda_series(w, &(struct whose){.proc = p}, f, all);
	}
}

/* Those of no job too, so that the end of a process hides nothing. */
void zn_metrics_failed_job(struct zn_walk *w)
{
	static uint32_t rows[ZN_PROCS_MAX];
	bool rdma = *(const bool *)w->metric->arg;
	struct zn_jobs *jobs = w->state->jobs;
	uint32_t count, row_count = jobs ? zn_job_failed_rows(jobs, rows) : 0;
	const struct zn_job *const *shown = zn_metrics_job_list(w, &count);
	struct zn_job_failed failed;

	for (uint32_t i = 0; jobs && i <= count; i++) {
		struct whose of = {.job = i < count ? shown[i] : NULL};

		zn_job_failed(jobs, of.job, rows, row_count, &failed);
		if (rdma && failed.rdma)
			rdma_series(w, &of, &failed.sum, failed.rdma);
		else if (!rdma && failed.cuda)
			cuda_series(w, &of, &failed.sum, failed.cuda);
	}
}
