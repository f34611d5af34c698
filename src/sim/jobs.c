/* SPDX-License-Identifier: GPL-2.0 */
/*
 * jobs.c: jobs of the simulated node, with messages as Slurm's prolog and epilog send them, and control groups as the
 * kernel sees them. A daemon that starts again makes them up anew, so they need no record, as if they were only
 * found.
 */
#include <string.h>

#include "zernel.h"

#define KILL_EVERY_MS 5000
#define JOB_FIRST_ID  4711
#define STEP_BYTES    (61ULL << 30) /* of host memory, at its highest */
#define CACHE_BYTES   (4ULL << 30)  /* of files */
#define USED_GPUS     "2,3"         /* of the second one: 4 is not there to be used */

/* What their prologs say. */
static const struct {
	const char *uid, *user, *name, *gpus;
} jobs[ZN_SIM_JOBS] = {{"1000", "user1000", "pretrain", "0,1"}, {"1001", "user1001", "finetune", "2-4"}};
#define USED_GPUS "2,3" /* of the second one: 4 is not there to be used */

static struct zn_cgroup_key group_of(const struct zn_sim *s, uint32_t job, uint32_t level)
{
	return (struct zn_cgroup_key){.id = 10 * s->job[job] + level};
}

static const struct zn_message *message_of(const struct zn_sim *s, uint32_t job)
{
	static struct zn_message m;

	memset(&m, 0, sizeof(m));
	snprintf(m.value[ZN_KEY_ID], ZN_VALUE_BYTES, "%u", s->job[job]);
	snprintf(m.value[ZN_KEY_UID], ZN_VALUE_BYTES, "%s", jobs[job].uid);
	snprintf(m.value[ZN_KEY_USER], ZN_VALUE_BYTES, "%s", jobs[job].user);
	snprintf(m.value[ZN_KEY_NAME], ZN_VALUE_BYTES, "%s", jobs[job].name);
	snprintf(m.value[ZN_KEY_GPUS], ZN_VALUE_BYTES, "%s",
		job == 1 && s->scenario != ZN_SCENARIO_MIXED ? USED_GPUS : jobs[job].gpus);
	strcpy(m.value[ZN_KEY_ACCOUNT], "research");
	strcpy(m.value[ZN_KEY_PARTITION], "gpu");
	strcpy(m.value[ZN_KEY_NODES], "1");
	return &m;
}

void zn_sim_job_start(struct zn_sim *s, uint32_t job)
{
	struct zn_arena *a = &s->memory.arena;
	char why[ZN_TEXT_MAX];
	const struct zn_job *entry;

	s->job[job] = JOB_FIRST_ID + s->jobs_started++;
	if (zn_jobs_start(s->jobs, message_of(s, job), ZN_JOB_BY_CGROUP, why))
		return;
	entry = zn_jobs_find(s->jobs, message_of(s, job)->value[ZN_KEY_ID], ZN_UNKNOWN);
	for (uint32_t level = ZN_CGROUP_JOB; level <= ZN_CGROUP_STEP; level++) {
		struct zn_cgroup_key key = group_of(s, job, level);

		a->ops->job_cgroup(a, entry->slot, &key, level, level == ZN_CGROUP_STEP ? "batch" : NULL);
	}
	for (uint32_t i = 0; i < ZN_SIM_JOB_RANKS; i++)
		if (s->rank[job * ZN_SIM_JOB_RANKS + i])
			a->ops->job_task(a, entry->slot, s->rank[job * ZN_SIM_JOB_RANKS + i]->tgid);
}

void zn_sim_job_end(struct zn_sim *s, uint32_t job)
{
	struct zn_arena *a = &s->memory.arena;
	const struct zn_message *m = message_of(s, job);
	const struct zn_job *entry = zn_jobs_find(s->jobs, m->value[ZN_KEY_ID], ZN_UNKNOWN);
	char why[ZN_TEXT_MAX];

	if (entry)
		a->jobs[entry->slot].mem_peak_bytes = a->jobs[entry->slot].step[0].mem_peak_bytes = STEP_BYTES;
	for (uint32_t level = ZN_CGROUP_STEP; level >= ZN_CGROUP_JOB; level--) {
		struct zn_cgroup_key key = group_of(s, job, level);

		a->ops->job_cgroup_gone(a, &key);
	}
	zn_jobs_end(s->jobs, m, why);
}

void zn_sim_jobs(struct zn_sim *s, struct zn_jobs *table)
{
	s->jobs = table;
	for (uint32_t job = 0; job < ZN_SIM_JOBS; job++)
		zn_sim_job_start(s, job);
}

/* The CPUs of each, how much of them its processes use, and how much memory they have, as its group says. */
static const struct {
	uint64_t cpus, percent, needed_bytes, limit_bytes;
} uses[ZN_SIM_JOBS] = {{32, 71, 57ULL << 30, 128ULL << 30}, {24, 38, 44ULL << 30, 96ULL << 30}};

/* The second job's grows in its scenario, nearly to its limit. */
static uint64_t needed_of(const struct zn_sim *s, uint32_t i)
{
	uint64_t needed = uses[i].needed_bytes, half_ms = s->cycle_ms / 2, at_ms = s->elapsed_ms % s->cycle_ms;

	if (i != 1 || s->phase != ZN_SCENARIO_HOST_MEMORY || at_ms < half_ms)
		return needed;
	return needed + (uses[i].limit_bytes - needed) / 100 * 98 / half_ms * (at_ms - half_ms);
}

static void use_of_job(const struct zn_sim *s, struct zn_job_use *to, const struct zn_job *job, uint32_t i)
{
	uint64_t elapsed_ns = zn_job_elapsed_ns(job), needed = needed_of(s, i);
	uint64_t ns = elapsed_ns * uses[i].cpus / 100 * uses[i].percent;

	*to = (struct zn_job_use){.serial = job->serial,
		.first_ns = job->start_ns,
		.last_ns = job->start_ns + elapsed_ns,
		.cpu = {ns, 9, 1},
		.cpus_milli = 1000 * uses[i].cpus,
		.kinds_known = true,
		.needed_peak = needed,
		.peak = needed + CACHE_BYTES,
		.limit = uses[i].limit_bytes};
	to->memory[ZN_MEMORY_ANON] = needed / 8 * 7;
	to->memory[ZN_MEMORY_SHMEM] = needed / 8;
	to->memory[ZN_MEMORY_FILE] = CACHE_BYTES;
	memcpy(to->kind_peak, to->memory, sizeof(to->memory));
	for (enum zn_pressure r = 0; r < ZN_PRESSURES; r++) {
		to->pressure_ns[r][0] = elapsed_ns / 50;
		to->pressure_ns[r][1] = to->pressure_ns[r][0] / 4;
	}
}

void zn_sim_job_use(const struct zn_sim *s, struct zn_job_uses *to)
{
	for (uint32_t i = 0; i < ZN_SIM_JOBS; i++) {
		const struct zn_job *job = zn_jobs_find(s->jobs, message_of(s, i)->value[ZN_KEY_ID], ZN_UNKNOWN);

		if (!job || !zn_job_runs(job))
			continue;
		use_of_job(s, &to->use[job->slot], job, i);
		to->step[job->slot][0] = (struct zn_step_use){to->use[job->slot].cpu.ns, to->use[job->slot].peak};
	}
}

/* A process of a job that has ended, and one of the second job on a GPU of the first. */
void zn_sim_job_ghosts(const struct zn_sim *s, struct zn_ghosts *to, uint64_t now_ns)
{
	struct zn_ghost gone = {.why = ZN_GHOST_JOB_ENDED,
		.pid = 70001,
		.uid = 1000,
		.bytes = 3ULL << 30,
		.comm = "python3",
		.job = "4700"};
	struct zn_ghost astray = {.why = ZN_GHOST_FOREIGN_GPU,
		.pid = 70002,
		.uid = 1001,
		.bytes = 512ULL << 20,
		.comm = "python3",
		.gpu = "0"};
	uint64_t for_ns = (s->elapsed_ms % s->cycle_ms - s->cycle_ms / 2) * ZN_NS_PER_MS;

	to->count = 0;
	if (s->phase != ZN_SCENARIO_GHOSTS)
		return;
	snprintf(astray.job, sizeof(astray.job), "%u", s->job[1]);
	gone.since_ns = astray.since_ns = now_ns - for_ns;
	zn_ghosts_add(to, &gone);
	zn_ghosts_add(to, &astray);
}

static void tell_kill(struct zn_sim *s, const struct zn_job *job)
{
	struct zn_oom oom = {.event = {.type = ZN_EV_OOM,
				     .tgid = 90000 + (uint32_t)(s->elapsed_ms / KILL_EVERY_MS),
				     .detail = ZN_OOM_JOB},
		.job = {job->slot, job->serial},
		.ns = zn_now_ns(),
		.bytes = {1ULL << 20, 9ULL << 30, 3ULL << 30},
		.used = uses[1].limit_bytes,
		.limit = uses[1].limit_bytes,
		.comm = "pt_data_worker",
		.group = "job"};

	if (s->ooms)
		zn_oom_add(s->ooms, &oom, &s->memory.arena);
}

/* The kernel kills a process of the second job that loads data. */
void zn_sim_job_kill(struct zn_sim *s)
{
	const struct zn_job *entry;

	if (s->phase != ZN_SCENARIO_OOM || !s->jobs || s->elapsed_ms % KILL_EVERY_MS)
		return;
	entry = zn_jobs_find(s->jobs, message_of(s, 1)->value[ZN_KEY_ID], ZN_UNKNOWN);
	if (!entry)
		return;
	s->memory.arena.jobs[entry->slot].oom_kills++;
	tell_kill(s, entry);
}
