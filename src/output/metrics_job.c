/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_job.c: what metrics of jobs yield: what they are, and sums over their processes, gone ones included. */
#include <string.h>

#include "zernel.h"

/* What the processes of a job did, those that have gone included. */
#define SUMMED_FIRST ZN_C_SWITCH_VOLUNTARY
#define SUMMED_LAST  ZN_C_TCP_RETRANSMITS
struct job_sum {
	uint64_t launches, nccl_bytes;
	uint64_t count[SUMMED_LAST - SUMMED_FIRST + 1]; /* by enum zn_counter, from the first on */
};

/* Scratch, as `taken` is: a walk over one metric shall not clear 64 KiB. */
static struct {
	const struct zn_job *job[ZN_JOBS_MAX]; /* those that are shown */
	uint32_t count;
	struct job_sum sum[ZN_JOBS_MAX]; /* by slot; of those that are shown */
} jobs;

/* Of the jobs of one id only the newest is shown: the labels of two would be the same. */
static void list_jobs(struct zn_walk *w)
{
	struct zn_jobs *j = w->state->jobs;

	if (w->jobs_listed)
		return;
	w->jobs_listed = true;
	jobs.count = j ? zn_jobs_newest(j, jobs.job) : 0;
}

static void sum_gone(struct job_sum *s, const struct zn_job *job)
{
	*s = (struct job_sum){.launches = ZN_LAUNCHES(job->count)};
	for (uint32_t i = 0; i < ZN_LEN(s->count); i++)
		s->count[i] += job->count[SUMMED_FIRST + i];
	for (enum zn_operation d = ZN_H_NCCL_FIRST; job->gone && d <= ZN_H_NCCL_LAST; d++)
		s->nccl_bytes += job->gone[d].hist.bytes;
}

static void sum_live(struct zn_walk *w, struct job_sum *s, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(w->state->agg->arena, row);

	s->launches += ZN_LAUNCHES(p->count);
	for (uint32_t i = 0; i < ZN_LEN(s->count); i++)
		s->count[i] += zn_agg_count(w->state->agg, row, SUMMED_FIRST + i);
	for (enum zn_operation d = ZN_H_NCCL_FIRST; d <= ZN_H_NCCL_LAST; d++) {
		const struct zn_hist *h = zn_arena_hist(w->state->agg->arena, p->hist[d]);

		s->nccl_bytes += h ? h->bytes : 0;
	}
}

/* In one pass over the processes, whatever the number of jobs, once for all metrics of a page. */
static void sum_jobs(struct zn_walk *w)
{
	struct zn_jobs *j = w->state->jobs;
	const struct zn_proc *p;

	w->jobs_summed = true;
	for (uint32_t i = 0; i < jobs.count; i++)
		sum_gone(&jobs.sum[jobs.job[i] - j->job], jobs.job[i]);
	ZN_EACH_PROC(w, r, p)
	{
		const struct zn_job *job = zn_jobs_of(j, p);

		if (job)
			sum_live(w, &jobs.sum[job - j->job], w->state->agg->row[r]);
	}
}

/* Of a job that is shown. */
static const struct job_sum *sum_of(struct zn_walk *w, const struct zn_job *job)
{
	if (!w->jobs_summed)
		sum_jobs(w);
	return &jobs.sum[job - w->state->jobs->job];
}

/* A job that began before the daemon is counted from the daemon's start on. */
static void job_series(struct zn_walk *w, const struct zn_job *job)
{
	zn_walk_series(w);
	zn_walk_label(w, "job_id", job->id);
	w->sample.since_ms = zn_state_job_wall_ms(w->state, job);
}

static void job_info(struct zn_walk *w, const struct zn_job *job)
{
	static const struct {
		const char *label;
		enum zn_key key;
	} said[] = {{"account", ZN_KEY_ACCOUNT}, {"partition", ZN_KEY_PARTITION}, {"name", ZN_KEY_NAME},
		{"nodes", ZN_KEY_NODES}, {"gpus", ZN_KEY_GPUS}};

	job_series(w, job);
	zn_walk_label(w, "user", job->about.value[ZN_KEY_USER]);
	if (job->uid != ZN_UNKNOWN)
		zn_walk_number(w, "uid", job->uid);
	else
		zn_walk_label(w, "uid", "");
	for (size_t i = 0; i < ZN_LEN(said); i++)
		zn_walk_label(w, said[i].label, job->about.value[said[i].key]);
	zn_walk_integer(w, 1);
}

static void job_processes(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, job->processes);
}

static void job_start(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_scaled(w, job->start_wall_ms, 3);
}

static void job_ended(struct zn_walk *w, const struct zn_job *job)
{
	if (job->state != ZN_JOB_ENDED)
		return;
	job_series(w, job);
	zn_walk_scaled(w, job->end_wall_ms, 3);
}

static void job_launches(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, sum_of(w, job)->launches);
}

static void job_nccl_bytes(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, sum_of(w, job)->nccl_bytes);
}

/* Waits for data are shown if there were some: a job's loaders may be known or not. */
static void job_stalls(struct zn_walk *w, const struct zn_job *job)
{
	const uint64_t *ns = sum_of(w, job)->count + (ZN_C_STALL_CPU - SUMMED_FIRST);
	uint64_t all = 0;

	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		all += ns[s];
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT && all; s++) {
		if (s == ZN_STALL_DATA && !ns[s])
			continue;
		job_series(w, job);
		zn_walk_label(w, "cause", zn_stall_label(s));
		zn_walk_scaled(w, ns[s], 9);
	}
}

static void each_job(struct zn_walk *w, void (*series)(struct zn_walk *w, const struct zn_job *job))
{
	list_jobs(w);
	for (uint32_t i = 0; i < jobs.count; i++)
		series(w, jobs.job[i]);
}

const struct zn_job *const *zn_metrics_job_list(struct zn_walk *w, uint32_t *count)
{
	list_jobs(w);
	*count = jobs.count;
	return jobs.job;
}

/* Counters of all processes of a job, which appear with their first event. */
void zn_metrics_job_counts(struct zn_walk *w)
{
	const struct zn_metric_counts *c = w->metric->arg;

	list_jobs(w);
	for (uint32_t i = 0; i < jobs.count * c->count; i++) {
		const struct zn_job *job = jobs.job[i / c->count];
		uint32_t n = i % c->count;
		uint64_t v = sum_of(w, job)->count[c->first - SUMMED_FIRST + n];

		if (v == 0)
			continue;
		job_series(w, job);
		if (c->label)
			zn_walk_label(w, c->label, c->value[n]);
		zn_walk_scaled(w, v, c->decimals);
	}
}

static void job_oom_kills(struct zn_walk *w, const struct zn_job *job)
{
	job_series(w, job);
	zn_walk_integer(w, zn_job_shared_of(w->state->jobs, job)->oom_kills);
}

void zn_metrics_job_ghosts(struct zn_walk *w)
{
	const struct zn_ghosts *g = w->state->loading ? NULL : w->state->ghosts;
	uint64_t now_ns = w->state->tick_ns ? w->state->tick_ns : zn_now_ns();

	for (enum zn_ghost_why why = 0; g && why < ZN_GHOST_WHYS; why++) {
		uint64_t count = zn_ghosts_count(g, why, now_ns);

		if (w->brief && !count)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "why", zn_ghost_label(why));
		zn_walk_integer(w, count);
	}
}

/* A process id that came twice names the newer process. */
static bool is_newest(const struct zn_ooms *ooms, struct zn_job_ref job, uint32_t i)
{
	const struct zn_oom_kill *k = zn_oom_kill(ooms, job, i);

	while (i)
		if (zn_oom_kill(ooms, job, --i)->oom.event.tgid == k->oom.event.tgid)
			return false;
	return true;
}

static void job_ooms(struct zn_walk *w, const struct zn_job *job)
{
	struct zn_job_ref ref = {job->slot, job->serial};
	bool time = *(const bool *)w->metric->arg;
	const struct zn_oom_kill *k;

	for (uint32_t i = 0; w->state->ooms && (k = zn_oom_kill(w->state->ooms, ref, i)); i++) {
		uint64_t bytes = zn_oom_bytes(&k->oom);

		if (!is_newest(w->state->ooms, ref, i) || (!time && bytes == ZN_NOT_KNOWN))
			continue;
		job_series(w, job);
		zn_walk_label(w, "step", k->step);
		zn_walk_number(w, "pid", k->oom.event.tgid);
		zn_walk_label(w, "command", k->oom.comm);
		zn_walk_label(w, "limit_of", zn_oom_label(k->oom.event.detail));
		zn_walk_scaled(w, time ? zn_state_wall_ms(w->state, k->oom.ns) : bytes, time ? 3 : 0);
	}
}

/* arg: true: when they were; false: what they had. */
void zn_metrics_job_ooms(struct zn_walk *w)
{
	each_job(w, job_ooms);
}

/* From 0 on, as a job may have one such kill and no more. */
void zn_metrics_job_oom_kills(struct zn_walk *w)
{
	const struct zn_probe *probe = w->state->probe;

	if (w->state->loading || (probe && probe->job_on[ZN_LEN(probe->job_on) - 1].link < 0))
		return;
	zn_walk_series(w);
	zn_walk_label(w, "job_id", "");
	zn_walk_integer(w, w->state->agg->arena->shared->oom_kills);
	each_job(w, job_oom_kills);
}

void zn_metrics_job_info(struct zn_walk *w)
{
	each_job(w, job_info);
}

void zn_metrics_job_processes(struct zn_walk *w)
{
	each_job(w, job_processes);
}

void zn_metrics_job_start(struct zn_walk *w)
{
	each_job(w, job_start);
}

void zn_metrics_job_ended(struct zn_walk *w)
{
	each_job(w, job_ended);
}

static void job_progress_age(struct zn_walk *w, const struct zn_job *job)
{
	uint64_t age_ns, limit_ns;

	if (!w->state->jobs_progress || !zn_job_progress(w->state->jobs_progress, job, &age_ns, &limit_ns))
		return;
	job_series(w, job);
	zn_walk_scaled(w, age_ns, 9);
}

static void job_stall_limit(struct zn_walk *w, const struct zn_job *job)
{
	uint64_t age_ns, limit_ns;

	if (!w->state->jobs_progress || !zn_job_progress(w->state->jobs_progress, job, &age_ns, &limit_ns))
		return;
	job_series(w, job);
	zn_walk_scaled(w, limit_ns, 9);
}

void zn_metrics_job_progress_age(struct zn_walk *w)
{
	each_job(w, job_progress_age);
}

void zn_metrics_job_stall_limit(struct zn_walk *w)
{
	each_job(w, job_stall_limit);
}

static void job_causes(struct zn_walk *w, const struct zn_job *job)
{
	const struct zn_cause_group *g = w->state->causes ? &w->state->causes->group[job->slot] : NULL;

	for (enum zn_cause cause = 0; g && g->serial == job->serial && cause < ZN_CAUSE_COUNT; cause++) {
		if (!g->lost_ns[cause])
			continue;
		job_series(w, job);
		zn_walk_label(w, "cause", zn_cause_label(cause));
		zn_walk_scaled(w, g->lost_ns[cause], 9);
	}
}

void zn_metrics_job_causes(struct zn_walk *w)
{
	each_job(w, job_causes);
}

static void job_startup(struct zn_walk *w, const struct zn_job *job)
{
	const struct zn_startup *s = w->state->startup;
	const struct zn_startup_row *r = s ? zn_startup_job(s, (struct zn_job_ref){job->slot, job->serial}) : NULL;

	for (enum zn_startup_phase phase = 0; r && phase < ZN_STARTUP_COUNT; phase++) {
		job_series(w, job);
		zn_walk_label(w, "phase", zn_startup_label(phase));
		zn_walk_scaled(w, r->phase_ns[phase], 9);
	}
}

static void job_checkpoints(struct zn_walk *w, const struct zn_job *job)
{
	const struct zn_checkpoints *c = w->state->checkpoints;
	const struct zn_metric_checkpoint *f = w->metric->arg;
	struct zn_checkpoint_sum sum;

	if (!c)
		return;
	sum = zn_checkpoints_of(c, (struct zn_job_ref){job->slot, job->serial});
	job_series(w, job);
	zn_walk_scaled(w, *(const uint64_t *)((const char *)&sum + f->offset), f->decimals);
}

void zn_metrics_job_checkpoints(struct zn_walk *w)
{
	each_job(w, job_checkpoints);
}

void zn_metrics_job_startup(struct zn_walk *w)
{
	each_job(w, job_startup);
}

void zn_metrics_job_launches(struct zn_walk *w)
{
	each_job(w, job_launches);
}

/* Scratch: which processes each job has: by slot the first one, by process the next, each plus 1. */
static struct {
	uint16_t first[ZN_JOBS_MAX], next[ZN_PROCS_MAX];
	struct zn_hist_sum merged;
} of_job;

static void list_processes(struct zn_walk *w)
{
	const struct zn_proc *p;

	memset(of_job.first, 0, sizeof(of_job.first));
	ZN_EACH_PROC(w, r, p)
	{
		const struct zn_job *job = zn_jobs_of(w->state->jobs, p);

		if (!job)
			continue;
		of_job.next[r] = of_job.first[job->slot];
		of_job.first[job->slot] = (uint16_t)(r + 1);
	}
}

static void merge_launches(struct zn_walk *w, const struct zn_job *job)
{
	struct zn_hist_sum *to = &of_job.merged;

	memset(to, 0, sizeof(*to));
	if (job->gone[ZN_H_LAUNCH].hist.calls)
		zn_hist_merge(to, &job->gone[ZN_H_LAUNCH].hist);
	for (uint32_t r = of_job.first[job->slot]; r; r = of_job.next[r - 1]) {
		const struct zn_proc *p = zn_walk_proc(w, r - 1);
		const struct zn_hist *h = p ? zn_arena_hist(w->state->agg->arena, p->hist[ZN_H_LAUNCH]) : NULL;

		if (h && h->calls)
			zn_hist_merge(to, h);
	}
}

static void job_launch_latency(struct zn_walk *w, const struct zn_job *job)
{
	merge_launches(w, job);
	if (!of_job.merged.hist.calls)
		return;
	job_series(w, job);
	zn_walk_durations(w, &of_job.merged.hist);
}

/* In one pass over the processes, whatever the number of jobs. */
void zn_metrics_job_launch_latency(struct zn_walk *w)
{
	if (w->state->jobs)
		list_processes(w);
	each_job(w, job_launch_latency);
}

void zn_metrics_job_nccl_bytes(struct zn_walk *w)
{
	each_job(w, job_nccl_bytes);
}

void zn_metrics_job_stalls(struct zn_walk *w)
{
	each_job(w, job_stalls);
}

void zn_metrics_job_gpus(struct zn_walk *w)
{
	const struct zn_metric_job_gpu *f = w->metric->arg;

	list_jobs(w);
	for (uint32_t i = 0; i < jobs.count; i++) {
		for (uint32_t g = 0; g < jobs.job[i]->gpu_count; g++) {
			const struct zn_job_gpu *gpu = &jobs.job[i]->gpu[g];

			if (f->time ? !gpu->allocated : gpu->partial)
				continue;
			job_series(w, jobs.job[i]);
			zn_walk_label(w, "gpu_id", gpu->id);
			zn_walk_scaled(w, *(const uint64_t *)((const char *)gpu + f->offset), f->decimals);
		}
	}
}

/* ---- CPU time and memory, as control groups say ---- */

static void each_use(
	struct zn_walk *w, void (*series)(struct zn_walk *w, const struct zn_job *job, const struct zn_use *use))
{
	struct zn_use use;

	list_jobs(w);
	for (uint32_t i = 0; w->state->uses && i < jobs.count; i++) {
		zn_use_of(w->state->uses, jobs.job[i], &use);
		series(w, jobs.job[i], &use);
	}
}

/* A series with one label beside its job; value NULL: with none. */
static void use_series(
	struct zn_walk *w, const struct zn_job *job, const char *label, const char *value, uint64_t v, int decimals)
{
	job_series(w, job);
	if (value)
		zn_walk_label(w, label, value);
	zn_walk_scaled(w, v, decimals);
}

static void job_cpu_time(struct zn_walk *w, const struct zn_job *job, const struct zn_use *use)
{
	if (!use->cpu_known)
		return;
	use_series(w, job, "mode", "user", use->cpu_user_ns, 9);
	use_series(w, job, "mode", "system", use->cpu_system_ns, 9);
}

void zn_metrics_job_cpu_time(struct zn_walk *w)
{
	each_use(w, job_cpu_time);
}

static void one_figure(struct zn_walk *w, const struct zn_job *job, const struct zn_use *use)
{
	const struct zn_metric_job_use *f = w->metric->arg;
	uint64_t v = *(const uint64_t *)((const char *)use + f->offset);

	if (f->momentary && !zn_job_runs(job))
		return;
	if (v && v != ZN_NOT_KNOWN)
		use_series(w, job, NULL, NULL, v, f->decimals);
	else if (!v && f->from_zero)
		use_series(w, job, NULL, NULL, 0, 0);
}

void zn_metrics_job_use(struct zn_walk *w)
{
	each_use(w, one_figure);
}

static void job_energy(struct zn_walk *w, const struct zn_job *job, const struct zn_use *use)
{
	(void)use;
	for (uint32_t part = 0; part <= ZN_ENERGY_COUNT; part++) {
		uint64_t uj = zn_energies_of(w->state->energies, job, part);

		if (uj != ZN_NOT_KNOWN)
			use_series(w, job, "part", zn_energy_label((enum zn_energy)part), uj, 6);
	}
}

void zn_metrics_job_energy(struct zn_walk *w)
{
	each_use(w, job_energy);
}

static const char *const memory_label[] = {
#define X(e, label) label,
	ZN_MEMORIES(X)
#undef X
};

/* What a job that has ended uses is of no moment. */
static void job_memory(struct zn_walk *w, const struct zn_job *job, const struct zn_use *use)
{
	for (enum zn_memory_kind k = 0; use->now.kinds_known && zn_job_runs(job) && k < ZN_MEMORY_KINDS; k++)
		use_series(w, job, "kind", memory_label[k], use->now.memory[k], 0);
}

void zn_metrics_job_memory(struct zn_walk *w)
{
	each_use(w, job_memory);
}

static void job_pressure(struct zn_walk *w, const struct zn_job *job, const struct zn_use *use)
{
	static const char *const resources[] = {"cpu", "memory", "io"}, *const kinds[] = {"some", "full"};

	for (uint32_t i = 0; i < 2 * ZN_PRESSURES; i++) {
		uint64_t ns = use->now.pressure_ns[i / 2][i % 2];

		if (ns == ZN_NOT_KNOWN)
			continue;
		job_series(w, job);
		zn_walk_label(w, "resource", resources[i / 2]);
		zn_walk_label(w, "kind", kinds[i % 2]);
		zn_walk_scaled(w, ns, 9);
	}
}

void zn_metrics_job_pressure(struct zn_walk *w)
{
	each_use(w, job_pressure);
}

static void job_efficiency(struct zn_walk *w, const struct zn_job *job, const struct zn_use *use)
{
	if (use->cpu_ratio != ZN_NOT_KNOWN)
		use_series(w, job, "resource", "cpu", use->cpu_ratio, 4);
	if (use->memory_ratio != ZN_NOT_KNOWN)
		use_series(w, job, "resource", "memory", use->memory_ratio, 4);
}

void zn_metrics_job_efficiency(struct zn_walk *w)
{
	each_use(w, job_efficiency);
}

void zn_metrics_job_utilization(struct zn_walk *w)
{
	list_jobs(w);
	for (uint32_t i = 0; i < jobs.count; i++) {
		uint64_t ppm = zn_job_gpus_utilization(w->state->hardware, jobs.job[i]);

		if (ppm != ZN_NOT_KNOWN)
			use_series(w, jobs.job[i], NULL, NULL, ppm, 6);
	}
}

static void step_series(struct zn_walk *w, const struct zn_job *job, const struct zn_step *s, bool memory)
{
	char name[sizeof(s->name) + 1];

	if (!(memory ? s->mem_peak_bytes : s->cpu_ns))
		return;
	snprintf(name, sizeof(name), "%.*s", (int)sizeof(s->name), s->name);
	use_series(w, job, "step", name, memory ? s->mem_peak_bytes : s->cpu_ns, memory ? 0 : 9);
}

void zn_metrics_job_steps(struct zn_walk *w)
{
	struct zn_step step[ZN_STEPS_SHOWN];

	list_jobs(w);
	for (uint32_t i = 0; w->state->uses && i < jobs.count; i++) {
		uint32_t count = zn_use_steps(w->state->uses, jobs.job[i], step);

		for (uint32_t s = 0; s < count; s++)
			step_series(w, jobs.job[i], &step[s], *(const bool *)w->metric->arg);
	}
}

/* ---- GPU memory by job; the last row is of what is of no job. ---- */

#define NO_JOB ZN_JOBS_MAX
static struct job_memory {
	bool any, partial, had[ZN_GPUS_MAX];
	uint64_t used_bytes[ZN_GPUS_MAX];
} memory[ZN_JOBS_MAX + 1];

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
	list_jobs(w);
	for (uint32_t i = 0; i <= jobs.count; i++) {
		const struct zn_job *job = i < jobs.count ? jobs.job[i] : NULL;
		const struct job_memory *m = &memory[job ? job->slot : NO_JOB];

		if (m->any || m->partial)
			series(w, job ? job->id : "", m);
	}
	for (uint32_t slot = 0; slot <= NO_JOB; slot++)
		if (memory[slot].any || memory[slot].partial)
			memory[slot] = (struct job_memory){0};
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

void zn_metrics_job_gpu_memory(struct zn_walk *w)
{
	each_memory(w, used_memory);
}

void zn_metrics_job_gpu_complete(struct zn_walk *w)
{
	each_memory(w, complete_memory);
}
