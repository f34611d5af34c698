/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The jobs of the arena over BPF maps: their names, groups and processes, as BPF itself enters them too.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

/* An entry of a job has gone from a table: a struct zn_job_ref, a struct zn_cgroup. */
static void job_gives(struct zn_probe *p, enum zn_map m, const void *entry)
{
	struct zn_quota *q = p->arena.shared->quota;

	if (m == ZN_MAP_TASKS)
		zn_quota_give(&q[ZN_QUOTA_TASK], ZN_OWNER_JOB(((const struct zn_job_ref *)entry)->slot));
	else if (m == ZN_MAP_CGROUPS)
		zn_quota_give(&q[ZN_QUOTA_CGROUP], zn_cgroup_owner(entry));
}

/* Takes out of a table what is of one job: names, groups and processes alike begin with its slot. */
static void slot_sweep(struct zn_probe *p, enum zn_map m, uint32_t slot)
{
	struct zn_batch b = zn_batch_begin(p, m);

	while (zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count; i++)
			if (memcmp(zn_batch_value(&b, i), &slot, sizeof(slot)) == 0 &&
				bpf_map_delete_elem(p->map_fd[m], zn_batch_key(&b, i)) == 0)
				job_gives(p, m, zn_batch_value(&b, i));
}

static uint32_t next_id(struct zn_arena *a)
{
	uint32_t id = __atomic_add_fetch(&a->shared->next_id, 1, __ATOMIC_RELAXED);

	return id ? id : __atomic_add_fetch(&a->shared->next_id, 1, __ATOMIC_RELAXED);
}

int zn_bpf_job_alias(struct zn_arena *a, uint32_t slot, const char name[ZN_JOB_NAME])
{
	struct zn_probe *p = (struct zn_probe *)a;
	char key[ZN_JOB_NAME] = "";
	uint32_t known;

	strncpy(key, name, sizeof(key) - 1);
	if (bpf_map_update_elem(p->map_fd[ZN_MAP_JOB_NAMES], key, &slot, BPF_NOEXIST) == 0)
		return 0;
	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_JOB_NAMES], key, &known))
		return -ENOSPC;
	return known == slot ? 0 : -EEXIST;
}

static bool job_known(struct zn_arena *a, const char key[ZN_JOB_NAME], uint32_t *slot)
{
	return bpf_map_lookup_elem(((struct zn_probe *)a)->map_fd[ZN_MAP_JOB_NAMES], key, slot) == 0 &&
		zn_arena_job(a, *slot);
}

static int job_lost(struct zn_arena *a)
{
	__atomic_fetch_add(&a->shared->lost[ZN_LOST_JOB], 1, __ATOMIC_RELAXED);
	return -ENOSPC;
}

/* BPF may enter the same name at the same time: the first of both has it. The row of the slot is mapped. */
int zn_bpf_job_claim(struct zn_arena *a, const char name[ZN_JOB_NAME])
{
	struct zn_probe *p = (struct zn_probe *)a;
	char key[ZN_JOB_NAME] = "";
	struct zn_job_shared *row;
	uint32_t slot, known;

	strncpy(key, name, sizeof(key) - 1);
	if (job_known(a, key, &known))
		return known;
	if (bpf_map_lookup_and_delete_elem(p->map_fd[ZN_MAP_FREE_JOBS], NULL, &slot))
		return job_lost(a);
	row = zn_arena_job(a, slot);
	if (row) {
		zn_job_shared_claim(row, key, next_id(a));
		__atomic_fetch_add(&a->shared->jobs, 1, __ATOMIC_RELAXED);
		if (zn_bpf_job_alias(a, slot, key) == 0)
			return slot;
		memset(row, 0, sizeof(*row));
		__atomic_fetch_sub(&a->shared->jobs, 1, __ATOMIC_RELAXED);
	}
	bpf_map_update_elem(p->map_fd[ZN_MAP_FREE_JOBS], NULL, &slot, BPF_ANY);
	return row && job_known(a, key, &known) ? (int)known : job_lost(a);
}

void zn_bpf_job_unname(struct zn_arena *a, uint32_t slot)
{
	slot_sweep((struct zn_probe *)a, ZN_MAP_JOB_NAMES, slot);
}

/* Without its serial no tag counts any more, so what BPF adds while the tables are swept is nobody's. */
void zn_bpf_job_forget(struct zn_arena *a, uint32_t slot)
{
	struct zn_probe *p = (struct zn_probe *)a;

	if (!a->jobs[slot].serial)
		return;
	__atomic_store_n(&a->jobs[slot].serial, 0, __ATOMIC_SEQ_CST);
	for (enum zn_map m = 0; m < ZN_MAP_COUNT; m++)
		if (zn_bpf_map_swept(m) == ZN_SWEPT_JOB)
			slot_sweep(p, m, slot);
	zn_io_changed(a->shared);
	zn_quotas_forget_job(a->shared, slot);
	memset(&a->jobs[slot], 0, sizeof(a->jobs[slot]));
	__atomic_fetch_sub(&a->shared->jobs, 1, __ATOMIC_RELAXED);
	bpf_map_update_elem(p->map_fd[ZN_MAP_FREE_JOBS], NULL, &slot, BPF_ANY);
}

static int task_lost(struct zn_arena *a)
{
	__atomic_fetch_add(&a->shared->lost[ZN_LOST_TASK], 1, __ATOMIC_RELAXED);
	return -ENOSPC;
}

/* The same as zn_task_put() in BPF. */
static bool task_put(struct zn_arena *a, uint32_t tgid, const struct zn_job_ref *tag)
{
	struct zn_quota *q = &a->shared->quota[ZN_QUOTA_TASK];
	int fd = ((struct zn_probe *)a)->map_fd[ZN_MAP_TASKS];
	uint32_t owner = ZN_OWNER_JOB(tag->slot);
	struct zn_job_ref old;

	if (bpf_map_lookup_elem(fd, &tgid, &old) == 0 && bpf_map_update_elem(fd, &tgid, tag, BPF_EXIST) == 0) {
		zn_quota_give(q, ZN_OWNER_JOB(old.slot));
		zn_quota_give_many(q, owner, -1);
		return true;
	}
	if (!zn_quota_take(q, owner))
		return false;
	if (bpf_map_update_elem(fd, &tgid, tag, BPF_NOEXIST) == 0)
		return true;
	zn_quota_give(q, owner);
	return false;
}

/* The same as zn_task_drop() in BPF. */
void zn_bpf_job_task_end(struct zn_probe *p, uint32_t tgid)
{
	struct zn_job_ref old;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_TASKS], &tgid, &old) == 0 &&
		bpf_map_delete_elem(p->map_fd[ZN_MAP_TASKS], &tgid) == 0)
		job_gives(p, ZN_MAP_TASKS, &old);
}

int zn_bpf_job_task(struct zn_arena *a, uint32_t slot, uint32_t tgid)
{
	struct zn_probe *p = (struct zn_probe *)a;
	struct zn_job_ref tag = {slot, a->jobs[slot].serial};
	struct zn_proc *proc;
	uint32_t row;

	if (!task_put(a, tgid, &tag))
		return task_lost(a);
	zn_io_changed(a->shared);
	if (zn_process_ended(tgid)) {
		zn_bpf_job_task_end(p, tgid);
		return -ESRCH;
	}
	proc = bpf_map_lookup_elem(p->map_fd[ZN_MAP_ROWS], &tgid, &row) ? NULL : zn_arena_proc(a, row);
	if (proc && proc->tgid == tgid)
		proc->job = tag;
	return 0;
}

void zn_bpf_job_tasks(struct zn_arena *a, void (*task)(void *to, const struct zn_job_ref *job), void *to)
{
	struct zn_batch b = zn_batch_begin((struct zn_probe *)a, ZN_MAP_TASKS);

	while (zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count; i++)
			task(to, zn_batch_value(&b, i));
}

void zn_bpf_job_cgroup_gone(struct zn_arena *a, const struct zn_cgroup_key *key)
{
	int fd = ((struct zn_probe *)a)->map_fd[ZN_MAP_CGROUPS];
	struct zn_cgroup group;
	struct zn_job_shared *row;

	if (bpf_map_lookup_elem(fd, key, &group) || bpf_map_delete_elem(fd, key))
		return;
	job_gives((struct zn_probe *)a, ZN_MAP_CGROUPS, &group);
	row = zn_arena_job(a, group.job.slot);
	if (row && group.job.serial == row->serial)
		zn_job_shared_group_gone(row, &group);
}

int zn_bpf_job_cgroup(
	struct zn_arena *a, uint32_t slot, const struct zn_cgroup_key *key, uint32_t level, const char *step)
{
	int fd = ((struct zn_probe *)a)->map_fd[ZN_MAP_CGROUPS];
	struct zn_quota *q = &a->shared->quota[ZN_QUOTA_CGROUP];
	struct zn_cgroup group;

	if (bpf_map_lookup_elem(fd, key, &group) == 0) {
		if (group.job.serial == a->jobs[slot].serial)
			return 0;
		zn_bpf_job_cgroup_gone(a, key); /* it was another job's, or still is */
	}
	group = (struct zn_cgroup){{slot, a->jobs[slot].serial}, level, ZN_STEPS_MAX};
	if (!zn_quota_take(q, zn_cgroup_owner(&group)))
		return task_lost(a);
	if (step)
		group.step = zn_job_shared_step(&a->jobs[slot], step);
	if (bpf_map_update_elem(fd, key, &group, BPF_NOEXIST)) {
		zn_quota_give(q, zn_cgroup_owner(&group));
		return errno == EEXIST ? 0 : task_lost(a);
	}
	zn_job_shared_group(&a->jobs[slot], &group);
	return 0;
}
