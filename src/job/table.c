/* SPDX-License-Identifier: GPL-2.0 */
/*
 * table.c: finds jobs in the table of jobs. A job is known by its control group, found in the arena, or by the
 * message of a prolog or a tag, in either order. No files and no sockets.
 */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>

#define LOOK_AHEAD 16 /* claims that race for one name leave holes among the slots */

const char *zn_job_state_label(enum zn_job_state s)
{
	static const char *const label[] = {[ZN_JOB_FREE] = "free",
		[ZN_JOB_RUNNING] = "running",
		[ZN_JOB_ENDING] = "ending",
		[ZN_JOB_ENDED] = "ended"};

	return s < ZN_LEN(label) ? label[s] : "unknown";
}

struct zn_job_shared *zn_job_shared_of(struct zn_jobs *j, const struct zn_job *job)
{
	return &j->agg->arena->jobs[job->slot]; /* mapped when it was adopted */
}

bool zn_job_runs(const struct zn_job *job)
{
	return job->state == ZN_JOB_RUNNING || job->state == ZN_JOB_ENDING;
}

const char *zn_job_said(const struct zn_job *job, enum zn_key key)
{
	return job->about.value[key];
}

uint64_t zn_job_clamp_before(uint64_t from, uint64_t less)
{
	return from > less ? from - less : 0;
}

/* The wall clock's time of a moment that has passed. */
static uint64_t wall_ms_of(uint64_t ns)
{
	return zn_job_clamp_before(zn_wall_ms(), zn_job_clamp_before(zn_now_ns(), ns) / ZN_NS_PER_MS);
}

bool zn_job_number(const char *text, uint32_t *to)
{
	char *end;
	unsigned long v = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end || v >= ZN_UNKNOWN)
		return false;
	*to = (uint32_t)v;
	return true;
}

uint32_t zn_job_number_or_unknown(const char *text)
{
	uint32_t v = ZN_UNKNOWN;

	zn_job_number(text, &v);
	return v;
}

/* Of several jobs of one id the newest counts. A running job is newer than an ended one. */
static bool is_newer(const struct zn_job *a, const struct zn_job *b)
{
	return !b || (zn_job_runs(a) == zn_job_runs(b) ? a->serial > b->serial : zn_job_runs(a));
}

struct zn_job *zn_jobs_find_known(struct zn_jobs *j, const char *id, uint32_t restart)
{
	struct zn_job *found = NULL;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (job->state != ZN_JOB_FREE && strcmp(job->id, id) == 0 &&
			(restart == ZN_UNKNOWN || job->restart == restart) && is_newer(job, found))
			found = job;
	}
	return found;
}

void zn_job_note_losses(struct zn_jobs *j, uint64_t to[ZN_LOSS_COUNT])
{
	for (uint32_t i = 0; i < ZN_LOSS_COUNT; i++)
		to[i] = j->lost ? j->lost(j->state, i) : j->agg->arena->shared->lost[i];
}

/* The entry of a row that was claimed, here or in the kernel. Another job of this id is over: but who sums up may be in
 * the middle of it, so that ends at the next tick. */
static struct zn_job *adopt_row(struct zn_jobs *j, const struct zn_job_shared *row, uint32_t slot)
{
	struct zn_job *job = &j->job[slot], *before;
	char id[ZN_JOB_NAME] = "";

	memcpy(id, row->name, sizeof(id) - 1);
	before = zn_jobs_find_known(j, id, ZN_UNKNOWN);
	if (before && zn_job_runs(before) && !before->next_ns)
		before->next_ns = row->start_ns;
	memset(job, 0, sizeof(*job));
	memcpy(job->id, id, sizeof(id));
	job->state = ZN_JOB_RUNNING;
	job->slot = slot;
	job->serial = row->serial;
	job->uid = ZN_UNKNOWN;
	job->start_ns = job->counted_ns = row->start_ns;
	job->start_wall_ms = wall_ms_of(row->start_ns);
	job->gone = (struct zn_hist_sum *)((char *)j->memory + slot * ZN_JOB_GONE_BYTES);
	zn_job_note_losses(j, job->lost_start);
	if (slot >= j->high)
		j->high = slot + 1;
	return job;
}

struct zn_job *zn_job_in_slot(struct zn_jobs *j, uint32_t slot)
{
	struct zn_job *job = &j->job[slot];
	const struct zn_job_shared *row;

	if (job->state != ZN_JOB_FREE)
		return job;
	row = zn_arena_job(j->agg->arena, slot);
	return row && __atomic_load_n(&row->serial, __ATOMIC_ACQUIRE) ? adopt_row(j, row, slot) : NULL;
}

/* Jobs that the kernel's programs claimed. Slots are handed out from the lowest on, so few rows are ever touched. */
void zn_job_discover(struct zn_jobs *j)
{
	const uint32_t *jobs = &j->agg->arena->shared->jobs;

	if (j->loading)
		return;
	for (uint32_t slot = 0;
		__atomic_load_n(jobs, __ATOMIC_RELAXED) && slot < ZN_JOBS_MAX && slot < j->high + LOOK_AHEAD; slot++)
		zn_job_in_slot(j, slot);
}

void zn_jobs_found(struct zn_jobs *j)
{
	zn_job_discover(j);
	for (uint32_t slot = 0; slot < j->high; slot++)
		j->job[slot].found = j->job[slot].state != ZN_JOB_FREE;
}

struct zn_job *zn_jobs_find(struct zn_jobs *j, const char *id, uint32_t restart)
{
	zn_job_discover(j);
	return zn_jobs_find_known(j, id, restart);
}

static uint32_t hash_id(const char *id)
{
	uint32_t h = 2166136261u; /* FNV-1a */

	for (; *id; id++)
		h = (h ^ (uint8_t)*id) * 16777619u;
	return h;
}

/* A look-up for each job would compare all with all. */
uint32_t zn_jobs_newest(struct zn_jobs *j, const struct zn_job *to[ZN_JOBS_MAX])
{
	static uint16_t place[2 * ZN_JOBS_MAX],
		of[ZN_JOBS_MAX]; /* scratch: a slot plus 1 by the hash of its id; back */
	uint32_t count = 0;

	memset(place, 0, sizeof(place));
	zn_job_discover(j);
	for (uint32_t slot = 0; slot < j->high; slot++) {
		const struct zn_job *job = &j->job[slot];
		uint32_t at = hash_id(job->id) % ZN_LEN(place);

		if (job->state == ZN_JOB_FREE)
			continue;
		while (place[at] && strcmp(j->job[place[at] - 1].id, job->id))
			at = (at + 1) % ZN_LEN(place);
		if (!place[at] || is_newer(job, &j->job[place[at] - 1]))
			place[at] = (uint16_t)(slot + 1);
		of[slot] = (uint16_t)at;
	}
	for (uint32_t slot = 0; slot < j->high; slot++)
		if (j->job[slot].state != ZN_JOB_FREE && place[of[slot]] == slot + 1)
			to[count++] = &j->job[slot];
	return count;
}

struct zn_job *zn_jobs_at(struct zn_jobs *j, struct zn_job_ref tag)
{
	struct zn_job *job;

	if (!tag.serial || tag.slot >= ZN_JOBS_MAX)
		return NULL;
	job = zn_job_in_slot(j, tag.slot);
	return job && job->serial == tag.serial ? job : NULL;
}

struct zn_job *zn_jobs_of(struct zn_jobs *j, const struct zn_proc *p)
{
	return zn_jobs_at(j, p->job);
}

const char *zn_job_id(struct zn_jobs *j, const struct zn_proc *p)
{
	const struct zn_job *job = zn_jobs_of(j, p);

	return job ? job->id : "";
}

uint64_t zn_job_elapsed_ns(const struct zn_job *job)
{
	uint64_t end = job->end_ns ? job->end_ns : zn_now_ns();

	return end > job->start_ns ? end - job->start_ns : 0;
}
