/* SPDX-License-Identifier: GPL-2.0 */
/*
 * progress.c: for how long nothing of a job has moved: no launch, copy, collective, batch of any of its processes, no
 * byte of a file of any, workers included; and how long may be usual for it, which its own pauses have taught.
 */
#include "zernel.h"
#include <string.h>

#define LEAST_NS     (60 * ZN_NS_PER_S)
#define COMPUTING_NS (600 * ZN_NS_PER_S) /* while its threads run, as a compiler's do */
#define PAUSES       5                   /* times the longest one so far */

static struct zn_job_progress *progress_of(struct zn_jobs_progress *t, const struct zn_job *job)
{
	struct zn_job_progress *p = &t->job[job->slot];

	if (p->serial != job->serial)
		*p = (struct zn_job_progress){.serial = job->serial};
	return p;
}

/* The first launch is the beginning: what is before it, imports and the like, is not compared with anything. In time
 * that was spared it may have computed. */
static void note_process(struct zn_job_progress *p, const struct zn_progress *g, const struct zn_agg *a, uint32_t row)
{
	const uint64_t *ns = a->info[row].stall_tick_ns;
	uint64_t busy_ns = ns[ZN_STALL_CPU] + ns[ZN_STALL_RUNQUEUE] + a->info[row].unseen_tick_ns;
	uint32_t id = a->info[row].id;
	uint64_t last_ns = zn_progress_last(g, row, id);

	if (!p->began_ns && zn_progress_moved(g, row, id, ZN_PROGRESS_LAUNCH))
		p->began_ns = g->tick_ns;
	p->processes++;
	if (last_ns > p->newest_ns)
		p->newest_ns = last_ns;
	if (busy_ns > p->tick_busy_ns)
		p->tick_busy_ns = busy_ns;
}

static bool is_halted(const struct zn_stopped *s, const struct zn_agg *a, uint32_t row)
{
	return s && zn_stopped_since(s, row, a->info[row].id) && s->kind[row] != ZN_STOP_BLOCKED;
}

static void note_processes(struct zn_jobs_progress *t, struct zn_jobs *j, const struct zn_progress *g)
{
	for (uint32_t i = 0; i < j->agg->row_count; i++) {
		uint32_t row = j->agg->row[i];
		const struct zn_proc *proc = zn_arena_proc(j->agg->arena, row);
		const struct zn_job *job = proc ? zn_jobs_of(j, proc) : NULL;
		struct zn_job_progress *p = job ? progress_of(t, job) : NULL;

		if (!p)
			continue;
		note_process(p, g, j->agg, row);
		p->halted += is_halted(t->stopped, j->agg, row);
	}
}

static bool moves_bytes(const struct zn_io_sum *f)
{
	return f->op[ZN_IO_READ].byte_rate || f->op[ZN_IO_WRITE].byte_rate || f->op[ZN_IO_COPY].byte_rate ||
		f->op[ZN_IO_MMAP].byte_rate;
}

/* Of all processes of the job, those that call no hooked library too. */
static void note_files(struct zn_jobs_progress *t, struct zn_jobs *j, const struct zn_io_sums *f)
{
	for (uint32_t i = 0; i < f->high; i++) {
		const struct zn_job *job =
			f->io_sum[i].used && moves_bytes(&f->io_sum[i]) ? zn_jobs_at(j, f->io_sum[i].job) : NULL;

		if (job)
			progress_of(t, job)->newest_ns = t->tick_ns;
	}
}

/* In which part of the tick's interval it moved is not known, so that the pause is what was quiet before. Else a tick
 * that comes late, as of a daemon that was stopped, would teach a pause that the job has not made; nor is one that it
 * was suspended for. */
static void note_job(struct zn_job_progress *p, uint64_t interval_ns)
{
	p->was_halted |= p->processes && p->halted == p->processes;
	if (p->newest_ns > p->last_ns) {
		uint64_t since_ns = p->began_ns && p->last_ns >= p->began_ns ? p->newest_ns - p->last_ns : 0;
		uint64_t pause_ns = since_ns > interval_ns ? since_ns - interval_ns : 0;

		if (pause_ns > p->longest_ns && !p->was_halted)
			p->longest_ns = pause_ns;
		p->was_halted = false;
		p->last_ns = p->newest_ns;
		p->busy_ns = 0;
	} else {
		p->busy_ns += p->tick_busy_ns < interval_ns ? p->tick_busy_ns : interval_ns;
	}
}

void zn_jobs_progress_tick(struct zn_jobs_progress *t, struct zn_jobs *j, const struct zn_progress *g,
	const struct zn_io_sums *f, uint64_t now_ns)
{
	uint64_t interval_ns = t->tick_ns ? now_ns - t->tick_ns : 0;

	t->tick_ns = now_ns;
	for (uint32_t slot = 0; slot < j->high; slot++)
		t->job[slot].processes = t->job[slot].halted = t->job[slot].tick_busy_ns = 0;
	note_processes(t, j, g);
	note_files(t, j, f);
	for (uint32_t slot = 0; slot < j->high; slot++)
		if (j->job[slot].state == ZN_JOB_RUNNING)
			note_job(progress_of(t, &j->job[slot]), interval_ns);
}

static uint64_t larger_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

bool zn_job_progress(const struct zn_jobs_progress *t, const struct zn_job *job, uint64_t *age_ns, uint64_t *limit_ns)
{
	const struct zn_job_progress *p = &t->job[job->slot];

	if (job->state != ZN_JOB_RUNNING || p->serial != job->serial || !p->began_ns || !p->processes)
		return false;
	*age_ns = t->tick_ns - p->last_ns;
	*limit_ns = larger_of(p->busy_ns > *age_ns / 2 ? COMPUTING_NS : LEAST_NS, PAUSES * p->longest_ns);
	return true;
}
