/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ghosts.c: processes that hold a GPU which is not theirs: their job has ended; they are of no job, and no user of the
 * system's; or their job was given other GPUs. Who has a GPU open is told by probe/holders.c each ten seconds; who has
 * memory on a GPU by the ledger, each tick.
 *
 * Limits: on a node where no job was ever seen nobody is a ghost for being of none. What a job was given is what its
 * prolog said (SLURM_JOB_GPUS); instances of MIG are not compared, as Slurm numbers them apart.
 */
#include <string.h>

#include "zernel.h"

#define SERVICE_FIRST 61184 /* DynamicUser= of systemd.exec(5) */
#define SERVICE_LAST  65519

bool zn_ghosts_add(struct zn_ghosts *g, const struct zn_ghost *ghost)
{
	uint32_t own = 0;

	for (uint32_t i = 0; i < g->count; i++)
		own += g->ghost[i].uid == ghost->uid;
	if (own >= ZN_GHOSTS_MAX - g->count)
		return false;
	g->ghost[g->count++] = *ghost;
	return true;
}

/* Since when the same process has been one for the same reason. Its job may have been forgotten since. */
static void go_on(const struct zn_ghosts *g, uint32_t before_count, struct zn_ghost *ghost, uint64_t now_ns)
{
	ghost->since_ns = now_ns;
	for (uint32_t i = 0; i < before_count; i++) {
		const struct zn_ghost *b = &g->before[i];

		if (b->pid != ghost->pid || b->start_ticks != ghost->start_ticks || b->why != ghost->why ||
			strcmp(b->gpu, ghost->gpu))
			continue;
		ghost->since_ns = b->since_ns;
		if (!ghost->job[0])
			memcpy(ghost->job, b->job, sizeof(ghost->job));
	}
}

/* The tracked process of this number: its row; ZN_PROCS_MAX: none. */
static uint32_t row_of(const struct zn_agg *a, uint32_t pid)
{
	for (uint32_t i = 0; i < a->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[i]);

		if (p && p->tgid == pid && !p->exit_ns)
			return a->row[i];
	}
	return ZN_PROCS_MAX;
}

static uint64_t bytes_of(struct zn_agg *a, uint32_t pid)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	uint32_t row = row_of(a, pid);
	uint64_t sum = 0;

	if (row == ZN_PROCS_MAX || !zn_agg_memory_known(a, row))
		return ZN_NOT_KNOWN;
	for (size_t n = zn_agg_shares(a, row, share); n; n--)
		sum += share[n - 1].sum.used_bytes;
	return sum;
}

/* Users below are the system's, and so are those that systemd makes for a service while it runs, as of zernel-gpu. */
static bool is_of_people(uint32_t uid)
{
	return uid >= ZN_GHOST_UID && (uid < SERVICE_FIRST || uid > SERVICE_LAST);
}

#define MPS "nvidia-cuda-mps" /* nvidia-cuda-mps-server and -control, as the kernel cuts names off */

/* The server of MPS has the id of the user whom it serves, and is of no job: its daemon, which is root's, starts it. By
 * its own name alone any process could say that it is one. */
static bool is_mps_server(const struct zn_holder *h)
{
	struct zn_procfs_stat stat;
	char path[32], text[32];

	if (strcmp(h->comm, MPS) || !zn_procfs_stat("/proc", h->pid, &stat))
		return false;
	snprintf(path, sizeof(path), "/proc/%u/status", stat.parent);
	if (zn_procfs_status(path, "Name", text, sizeof(text)) != 1 || strcmp(text, MPS))
		return false;
	return zn_procfs_status(path, "Uid", text, sizeof(text)) == 1 && *text == '0';
}

/* Whether a holder is one. A job that is not known any more has ended. */
static bool is_ghost(const struct zn_ghosts *g, struct zn_jobs *jobs, const struct zn_holder *h, struct zn_ghost *to)
{
	const struct zn_job *job = zn_jobs_at(jobs, h->job);

	*to = (struct zn_ghost){.why = ZN_GHOST_JOB_ENDED, .pid = h->pid, .uid = h->uid, .start_ticks = h->start_ticks};
	memcpy(to->comm, h->comm, sizeof(to->comm));
	if (job)
		snprintf(to->job, sizeof(to->job), "%s", job->id);
	if (h->job.serial)
		return !job || !zn_job_runs(job);
	to->why = ZN_GHOST_NO_JOB;
	return g->slurm && is_of_people(h->uid) && !is_mps_server(h);
}

/* The same process, and not the next one of its number. */
static bool lives_on(const struct zn_holder *h)
{
	struct zn_procfs_stat stat;

	return zn_procfs_stat("/proc", h->pid, &stat) && stat.start_ticks == h->start_ticks && !zn_procfs_ended(&stat);
}

static void judge_holders(struct zn_ghosts *g, struct zn_jobs *jobs, uint32_t before_count, uint64_t now_ns)
{
	struct zn_ghost ghost;

	for (uint32_t i = 0; i < g->holders.count; i++) {
		const struct zn_holder *h = &g->holders.holder[i];

		if (!is_ghost(g, jobs, h, &ghost) || !lives_on(h))
			continue;
		go_on(g, before_count, &ghost, now_ns);
		ghost.bytes = bytes_of(jobs->agg, h->pid);
		zn_ghosts_add(g, &ghost);
	}
}

static bool is_named(const struct zn_job_gpu *g, const struct zn_gpu *gpu)
{
	return !strcasecmp(g->id, gpu->id) || (gpu->uuid[0] && !strcasecmp(g->id, gpu->uuid));
}

static bool is_known(const struct zn_gpus *gpus, const struct zn_job_gpu *g)
{
	for (uint32_t i = 0; i < gpus->count; i++)
		if (zn_gpu_shown(&gpus->gpu[i]) && !zn_gpu_unknown(&gpus->gpu[i]) && is_named(g, &gpus->gpu[i]))
			return true;
	return false;
}

/* Whether a job was given others than this one. A list with a name that is not known says nothing. */
static bool is_foreign(const struct zn_gpus *gpus, const struct zn_job *job, const struct zn_gpu *gpu)
{
	bool any = false;

	if (zn_gpu_unknown(gpu) || !strncmp(gpu->id, "MIG-", 4))
		return false;
	for (uint32_t i = 0; i < job->gpu_count; i++) {
		if (!job->gpu[i].given)
			continue;
		if (is_named(&job->gpu[i], gpu) || !is_known(gpus, &job->gpu[i]))
			return false;
		any = true;
	}
	return any;
}

static void judge_shares(
	struct zn_ghosts *g, struct zn_jobs *jobs, uint32_t row, uint32_t before_count, uint64_t now_ns)
{
	const struct zn_proc *p = zn_arena_proc(jobs->agg->arena, row);
	const struct zn_job *job = p && !p->exit_ns ? zn_jobs_of(jobs, p) : NULL;
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	size_t n = job && zn_job_runs(job) ? zn_agg_shares(jobs->agg, row, share) : 0;

	for (; n; n--) {
		const struct zn_gpu *gpu = &jobs->agg->gpus.gpu[share[n - 1].gpu];
		struct zn_ghost ghost = {.why = ZN_GHOST_FOREIGN_GPU, .pid = p->tgid, .uid = job->uid};

		if (!share[n - 1].sum.used_bytes || !is_foreign(&jobs->agg->gpus, job, gpu))
			continue;
		memcpy(ghost.comm, p->comm, sizeof(ghost.comm) - 1);
		snprintf(ghost.job, sizeof(ghost.job), "%s", job->id);
		snprintf(ghost.gpu, sizeof(ghost.gpu), "%s", gpu->id);
		ghost.bytes = share[n - 1].partial ? ZN_NOT_KNOWN : share[n - 1].sum.used_bytes;
		go_on(g, before_count, &ghost, now_ns);
		zn_ghosts_add(g, &ghost);
	}
}

void zn_ghosts_tick(struct zn_ghosts *g, struct zn_jobs *jobs, uint64_t now_ns)
{
	uint32_t before_count = g->count;

	memcpy(g->before, g->ghost, sizeof(*g->ghost) * g->count);
	g->count = 0;
	for (uint32_t slot = 0; !g->slurm && slot < jobs->high; slot++)
		g->slurm = jobs->job[slot].state != ZN_JOB_FREE;
	judge_holders(g, jobs, before_count, now_ns);
	for (uint32_t i = 0; i < jobs->agg->row_count; i++)
		judge_shares(g, jobs, jobs->agg->row[i], before_count, now_ns);
}

uint32_t zn_ghosts_count(const struct zn_ghosts *g, enum zn_ghost_why why, uint64_t now_ns)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < g->count; i++)
		count += g->ghost[i].why == why && now_ns - g->ghost[i].since_ns >= ZN_GHOST_NS;
	return count;
}

const char *zn_ghost_label(enum zn_ghost_why why)
{
	static const char *const label[] = {
#define X(e, label) [ZN_GHOST_##e] = label,
		ZN_GHOSTS(X)
#undef X
	};

	return label[why];
}

const char *zn_ghost_says(enum zn_ghost_why why)
{
	static const char *const says[] = {
		[ZN_GHOST_JOB_ENDED] = "its job has ended",
		[ZN_GHOST_NO_JOB] = "it is of no job",
		[ZN_GHOST_FOREIGN_GPU] = "its job was not given this GPU",
	};

	return says[why];
}
