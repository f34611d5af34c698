/* SPDX-License-Identifier: GPL-2.0 */
/* arena.c: the shared pages as memory: each is looked up, and mapped, when it is used first; what becomes of a
 * job's row. */
#include "zernel.h"
#include <string.h>

static bool bit_test(const uint8_t *bits, uint32_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

/* A row of a table that is mapped as its rows are used; map: NULL where all of it is there. */
static bool is_mapped(struct zn_arena *a, uint8_t *bits, uint32_t i, int (*map)(struct zn_arena *a, uint32_t i))
{
	if (!map)
		bits[i / 8] |= 1 << (i % 8);
	return !map || bit_test(bits, i) || map(a, i) == 0;
}

struct zn_proc *zn_arena_proc(struct zn_arena *a, uint32_t row)
{
	if (row >= ZN_PROCS_MAX)
		return NULL;
	return is_mapped(a, a->proc_mapped, row, a->ops->map_proc) ? &a->procs[row] : NULL;
}

struct zn_proc *zn_arena_proc_of(struct zn_arena *a, uint32_t row, struct zn_job_ref job)
{
	struct zn_proc *p = zn_arena_proc(a, row);

	return p && zn_job_ref_same(p->job, job) ? p : NULL;
}

struct zn_hist *zn_arena_hist(struct zn_arena *a, uint32_t slot)
{
	if (slot < ZN_HISTS_FIRST || slot >= ZN_HISTS_MAX)
		return NULL;
	return is_mapped(a, a->hist_mapped, slot, a->ops->map_hist) ? &a->hists[slot] : NULL;
}

uint64_t zn_arena_launches(struct zn_arena *a, const struct zn_proc *p)
{
	uint64_t all = ZN_LAUNCHES(p->count);

	for (uint32_t i = 0; i < ZN_SHARDS; i++) {
		const struct zn_hist *shard = zn_arena_hist(a, p->shard[i]);

		all += shard ? __atomic_load_n(&shard->launches, __ATOMIC_RELAXED) : 0;
	}
	return all;
}

void zn_arena_gather(struct zn_arena *a, struct zn_proc *p)
{
	struct zn_hist *own = zn_arena_hist(a, p->hist[ZN_H_LAUNCH]);

	for (uint32_t i = 0; own && i < ZN_SHARDS; i++) {
		struct zn_hist *shard = zn_arena_hist(a, p->shard[i]);

		if (!shard)
			continue;
		for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++)
			zn_move(&p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, first)], &shard->hits[first]);
		zn_move(&p->count[ZN_C_LAUNCH_KERNEL], &shard->launches);
		zn_hist_gather(own, shard);
	}
}

struct zn_failed *zn_arena_failed(struct zn_arena *a, uint32_t row)
{
	if (row >= ZN_PROCS_MAX || !a->failed)
		return NULL;
	return is_mapped(a, a->failed_mapped, row, a->ops->map_failed) ? &a->failed[row] : NULL;
}

struct zn_coarse_hist *zn_arena_coarse(struct zn_arena *a, uint32_t index)
{
	if (index >= ZN_IO_MAX || !a->coarse)
		return NULL;
	return is_mapped(a, a->coarse_mapped, index, a->ops->map_coarse) ? &a->coarse[index] : NULL;
}

/* So that those are mapped which no tick reads. */
static void map_unread(struct zn_arena *a)
{
	for (uint32_t i = 0; i < ZN_SKEWS_MAX; i++) {
		struct zn_skew *s = zn_arena_skew(a, i);

		if (s)
			zn_arena_hist(a, s->hist);
	}
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		for (uint32_t d = 0; bit_test(a->proc_mapped, row) && d < ZN_OPERATION_SLOTS; d++)
			zn_arena_hist(a, a->procs[row].hist[d]);
	for (uint32_t i = 0; a->servers && i < ZN_SERVERS_MAX; i++)
		for (uint32_t d = 0; d < ZN_LEN(a->servers[i].hist); d++)
			zn_arena_hist(a, a->servers[i].hist[d]);
}

void zn_arena_carry(struct zn_arena *a)
{
	map_unread(a);
	for (uint32_t i = ZN_HISTS_FIRST; i < ZN_HISTS_MAX; i++)
		if (bit_test(a->hist_mapped, i))
			zn_hist_carry(&a->hists[i], i);
	for (uint32_t i = 0; i < ZN_IO_MAX; i++)
		if (bit_test(a->coarse_mapped, i))
			zn_hist_carry_coarse(&a->coarse[i], i);
}

struct zn_job_shared *zn_arena_job(struct zn_arena *a, uint32_t slot)
{
	if (slot >= ZN_JOBS_MAX || !a->jobs)
		return NULL;
	return is_mapped(a, a->job_mapped, slot, a->ops->map_job) ? &a->jobs[slot] : NULL;
}

struct zn_skew *zn_arena_skew(struct zn_arena *a, uint32_t slot)
{
	if (slot >= ZN_SKEWS_MAX || !a->skews || !a->shared->skew_used[slot])
		return NULL;
	if (!is_mapped(a, a->skew_mapped, slot, a->ops->map_skew))
		return NULL;
	return a->skews[slot].hash ? &a->skews[slot] : NULL;
}

void zn_job_shared_claim(struct zn_job_shared *row, const char name[ZN_JOB_NAME], uint32_t serial)
{
	memset(row, 0, sizeof(*row));
	strncpy(row->name, name, sizeof(row->name) - 1);
	row->start_ns = zn_now_ns();
	__atomic_store_n(&row->serial, serial, __ATOMIC_RELEASE);
}

uint32_t zn_job_shared_step(struct zn_job_shared *row, const char *step)
{
	char name[sizeof(row->step[0].name)] = "";
	uint32_t i = 0;

	strncpy(name, step, sizeof(name) - 1);
	while (i < row->step_count && memcmp(row->step[i].name, name, sizeof(name)))
		i++;
	if (i == ZN_STEPS_MAX) {
		row->steps_lost++;
		return ZN_STEPS_MAX;
	}
	if (i == row->step_count) {
		memcpy(row->step[i].name, name, sizeof(name));
		row->step[i].start_ns = zn_now_ns();
		row->step_count = i + 1;
	}
	return i;
}

void zn_job_shared_group(struct zn_job_shared *row, const struct zn_cgroup *cgroup)
{
	if (cgroup->level == ZN_CGROUP_STEP && cgroup->step < ZN_STEPS_MAX)
		row->step[cgroup->step].end_ns = 0;
	if (cgroup->level != ZN_CGROUP_JOB)
		return;
	__atomic_fetch_add(&row->cgroups, 1, __ATOMIC_RELAXED);
	row->cgroup_seen = 1;
	row->gone_ns = 0;
}

void zn_job_shared_group_gone(struct zn_job_shared *row, const struct zn_cgroup *cgroup)
{
	if (cgroup->level == ZN_CGROUP_STEP && cgroup->step < ZN_STEPS_MAX)
		row->step[cgroup->step].end_ns = zn_now_ns();
	if (cgroup->level == ZN_CGROUP_JOB && __atomic_fetch_sub(&row->cgroups, 1, __ATOMIC_RELAXED) == 1)
		row->gone_ns = zn_now_ns();
}
