/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The arena over BPF maps: how rows of it are given back, and what else is done with the maps while the daemon runs. A table's
 * entries count against the share of their owner here as they do in BPF.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int map_proc(struct zn_arena *a, uint32_t row)
{
	return zn_bpf_map_row((struct zn_probe *)a, ZN_MAP_PROCS, a->procs, a->proc_mapped, row);
}

static int map_hist(struct zn_arena *a, uint32_t slot)
{
	return zn_bpf_map_row((struct zn_probe *)a, ZN_MAP_HISTS, a->hists, a->hist_mapped, slot);
}

static int map_job(struct zn_arena *a, uint32_t slot)
{
	return zn_bpf_map_row((struct zn_probe *)a, ZN_MAP_JOBS, a->jobs, a->job_mapped, slot);
}

static int map_skew(struct zn_arena *a, uint32_t slot)
{
	return zn_bpf_map_row((struct zn_probe *)a, ZN_MAP_SKEWS, a->skews, a->skew_mapped, slot);
}

static int map_coarse(struct zn_arena *a, uint32_t index)
{
	return zn_bpf_map_row((struct zn_probe *)a, ZN_MAP_COARSE, a->coarse, a->coarse_mapped, index);
}

/* For the next series: nobody adds to it any more. */
static void hist_clear(struct zn_arena *a, uint32_t slot)
{
	struct zn_hist *h = zn_arena_hist(a, slot);

	if (!h)
		return;
	memset(h, 0, sizeof(*h));
	bpf_map_update_elem(((struct zn_probe *)a)->map_fd[ZN_MAP_FREE_HISTS], NULL, &slot, BPF_ANY);
}

/* One that a process or a communicator had. */
static void hist_free(struct zn_arena *a, uint32_t slot)
{
	struct zn_hist *h = zn_arena_hist(a, slot);

	if (!h)
		return;
	zn_quota_give(&a->shared->quota[ZN_QUOTA_HISTOGRAM], h->owner);
	hist_clear(a, slot);
}

/* It ended inside of ioctl() on a GPU, and that was missed. As zn_gpu_leave() in BPF. */
static void gpu_left(struct zn_gpu_calls *g)
{
	uint64_t now = zn_now_ns();
	uint32_t inside;

	__atomic_fetch_add(&g->begun, 1, __ATOMIC_SEQ_CST);
	inside = __atomic_fetch_sub(&g->processes, 1, __ATOMIC_SEQ_CST);
	if (inside == 1)
		__atomic_fetch_add(&g->busy_ns, now, __ATOMIC_SEQ_CST);
	else if (inside == 2)
		__atomic_fetch_add(&g->contended_ns, now, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&g->done, 1, __ATOMIC_SEQ_CST);
}

/* What a process held of tables that are swept later. */
static void holdings_give(struct zn_shared *s, const struct zn_proc *proc)
{
	zn_quota_give(&s->quota[ZN_QUOTA_PROCESS], proc->owner);
	zn_quota_give_many(&s->quota[ZN_QUOTA_ALLOC], proc->owner, (int32_t)proc->count[ZN_C_LIVE_ALLOCS]);
	zn_quota_give_many(&s->quota[ZN_QUOTA_STREAM], proc->owner, (int32_t)proc->count[ZN_C_CAPTURES]);
	zn_quota_give_many(&s->quota[ZN_QUOTA_CONTEXT], proc->owner, (int32_t)proc->ctxs);
	zn_quota_give_many(&s->quota[ZN_QUOTA_COMM], proc->owner, (int32_t)proc->comms);
}

#define BATCH 512
static struct {
	struct {
		uint64_t addr;
		uint32_t id, kind;
	} key[BATCH];
	char value[BATCH * sizeof(struct zn_alloc)];
	uint32_t count;
	uint64_t at, next;
} batch;

/* Reads the next entries of a hash. False: that was the last of them. */
static bool batch_read(int fd, bool first)
{
	uint32_t next = 0;
	int err;

	batch.count = BATCH;
	err = bpf_map_lookup_batch(fd, first ? NULL : &batch.at, &next, batch.key, batch.value, &batch.count, NULL);
	batch.at = next;
	if (err && err != -ENOENT)
		batch.count = 0;
	return err == 0;
}

static bool is_dead(const struct zn_probe *p, uint32_t id)
{
	for (uint32_t i = 0; i < p->dead_count; i++)
		if (p->dead[i] == id)
			return true;
	return false;
}

static void table_sweep(struct zn_probe *p, enum zn_map m)
{
	bool first = true, more;

	do {
		more = batch_read(p->map_fd[m], first);
		first = false;
		for (uint32_t i = 0; i < batch.count; i++)
			if (is_dead(p, batch.key[i].id))
				bpf_map_delete_elem(p->map_fd[m], &batch.key[i]);
	} while (more);
}

/* An id was unique, so what a process left in other tables is still told from what others have there. */
static void sweep(struct zn_arena *a)
{
	struct zn_probe *p = (struct zn_probe *)a;

	for (enum zn_map m = ZN_MAP_ALLOCS; p->dead_count && m <= ZN_MAP_STREAMS; m++)
		table_sweep(p, m);
	p->dead_count = 0;
}

/* Nobody finds the row from here on. Programs that found it before may write to it for a moment more, those of another process
 * (its last worker's end) too: so it rests before it is given back. */
static void release(struct zn_arena *a, uint32_t row)
{
	struct zn_probe *p = (struct zn_probe *)a;
	struct zn_proc *proc = &a->procs[row];

	if (p->dead_count == ZN_PROCS_MAX)
		sweep(a);
	p->dead[p->dead_count++] = proc->id;
	p->leaving[p->leaving_count++] = (struct zn_leaving){.row = row, .since_ns = zn_now_ns()};
	__atomic_store_n(&proc->tgid, 0, __ATOMIC_SEQ_CST); /* exit_ns stays, see zn_tracked() */
	__atomic_store_n(&proc->id, 0, __ATOMIC_SEQ_CST);
	a->shared->row_tgid[row] = 0;
}

/* Of a row that was released: whoever takes it finds it empty. */
static void row_give(struct zn_probe *p, uint32_t row)
{
	struct zn_arena *a = &p->arena;
	struct zn_proc *proc = &a->procs[row];
	struct zn_thread_states *opens = zn_bpf_map_opens(p, row);

	for (uint32_t d = 0; d < ZN_OPERATION_SLOTS; d++)
		hist_free(a, proc->hist[d]);
	if (opens)
		memset(opens, 0, sizeof(*opens));
	if (proc->in_ioctl)
		gpu_left(&a->shared->gpu_calls);
	holdings_give(a->shared, proc);
	memset(proc, 0, sizeof(*proc));
	__atomic_fetch_sub(&a->shared->procs, 1, __ATOMIC_RELAXED);
	bpf_map_update_elem(p->map_fd[ZN_MAP_FREE_ROWS], NULL, &row, BPF_ANY);
}

#define REST_NS (ZN_NS_PER_S / 10) /* programs take microseconds, and may be preempted */

static void reuse(struct zn_arena *a)
{
	struct zn_probe *p = (struct zn_probe *)a;
	uint64_t now = zn_now_ns();
	uint32_t n = 0;

	while (n < p->leaving_count && now - p->leaving[n].since_ns >= REST_NS)
		row_give(p, p->leaving[n++].row);
	p->leaving_count -= n;
	memmove(p->leaving, p->leaving + n, p->leaving_count * sizeof(p->leaving[0]));
}

static size_t comms(struct zn_arena *a, struct zn_comm *to, size_t cap)
{
	struct zn_probe *p = (struct zn_probe *)a;
	bool first = true, more;
	size_t n = 0;

	do {
		more = batch_read(p->map_fd[ZN_MAP_COMMS], first);
		first = false;
		if (batch.count > cap - n)
			batch.count = cap - n;
		memcpy(to + n, batch.value, batch.count * sizeof(*to));
		n += batch.count;
	} while (more && n < cap);
	return n;
}

/* What makes the slot a communicator's is cleared last. */
static void skew_release(struct zn_arena *a, uint32_t slot)
{
	struct zn_skew *s = &a->skews[slot];
	uint32_t owner = ZN_SKEW_OWNER(s->of);

	a->shared->skew_used[slot] = 0;
	hist_free(a, s->hist);
	memset(&s->hash, 0, sizeof(*s) - offsetof(struct zn_skew, hash));
	__atomic_store_n(&s->of, 0, __ATOMIC_RELEASE);
	zn_quota_give(&a->shared->quota[ZN_QUOTA_SKEW], owner);
}

/* ---- file I/O ---- */

static size_t io(struct zn_arena *a, struct zn_io_entry *to, size_t cap)
{
	struct zn_probe *p = (struct zn_probe *)a;
	bool first = true, more;
	size_t n = 0;

	do {
		more = batch_read(p->map_fd[ZN_MAP_IO_ROWS], first);
		first = false;
		for (uint32_t i = 0; i < batch.count && n < cap; i++, n++) {
			memcpy(&to[n].key, &batch.key[i], sizeof(to[n].key));
			memcpy(&to[n].row, batch.value + i * sizeof(to[n].row), sizeof(to[n].row));
		}
	} while (more && n < cap);
	return n;
}

static void io_cut(struct zn_arena *a, const struct zn_io_key *key)
{
	bpf_map_delete_elem(((struct zn_probe *)a)->map_fd[ZN_MAP_IO_ROWS], key);
	zn_io_changed(a->shared);
}

/* For the next series: nobody adds to it any more. */
static void coarse_free(struct zn_arena *a, uint32_t index)
{
	struct zn_coarse_hist *h = zn_arena_coarse(a, index);

	if (!h)
		return;
	memset(h, 0, sizeof(*h));
	bpf_map_update_elem(((struct zn_probe *)a)->map_fd[ZN_MAP_FREE_COARSE], NULL, &index, BPF_ANY);
}

static void io_free(struct zn_arena *a, const struct zn_io_row *row)
{
	struct zn_quota *quota = a->shared->quota;

	if (row->hist < ZN_HISTS_MAX) {
		hist_clear(a, row->hist);
		zn_quota_give(&quota[ZN_QUOTA_IO_HIST], row->owner);
	} else {
		coarse_free(a, row->hist - ZN_HISTS_MAX);
	}
	zn_quota_give(&quota[ZN_QUOTA_IO], row->owner);
	zn_quota_give(&quota[ZN_QUOTA_IO_USER], row->user);
}

/* ---- waits ---- */

/* The segment that a thread is in. It may go on to the next one meanwhile, which is then told at the next tick. */
static void stall_open(const struct zn_thread_state *o, uint64_t now_ns, uint64_t ns[ZN_STALL_COUNT])
{
	uint64_t word = __atomic_load_n(&o->word, __ATOMIC_ACQUIRE), since = ZN_THREAD_STATE_SINCE(word);
	uint64_t ready = __atomic_load_n(&o->ready_ns, __ATOMIC_ACQUIRE);
	uint64_t until = ready > since && ready < now_ns ? ready : now_ns;

	if (!since || since >= now_ns || __atomic_load_n(&o->word, __ATOMIC_ACQUIRE) != word)
		return;
	if (ZN_THREAD_STATE_STATE(word) < ZN_STALL_COUNT)
		ns[ZN_THREAD_STATE_STATE(word)] += until - since;
	ns[ZN_STALL_RUNQUEUE] += now_ns - until;
}

/* The counters first: a segment that ends meanwhile is then in neither, and not in both. */
static void stalls(struct zn_arena *a, uint32_t row, uint64_t now_ns, uint64_t ns[ZN_STALL_COUNT])
{
	const struct zn_thread_states *all = zn_bpf_map_opens((struct zn_probe *)a, row);
	const struct zn_proc *proc = &a->procs[row];

	for (uint32_t i = 0; i < ZN_STALL_COUNT; i++)
		ns[i] = __atomic_load_n(&proc->count[ZN_C_STALL_CPU + i], __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; all && i < ZN_THREAD_STATES; i++)
		if (all->open[i].tid && all->open[i].id == proc->id)
			stall_open(&all->open[i], now_ns, ns);
}

static void ioctls(struct zn_arena *a, void (*call)(void *to, uint32_t id, uint64_t start_ns), void *to)
{
	const struct zn_timed_call *value = (const struct zn_timed_call *)batch.value;
	const uint64_t *key = (const uint64_t *)batch.key;
	bool first = true, more;

	do {
		more = batch_read(((struct zn_probe *)a)->map_fd[ZN_MAP_CALLS], first);
		first = false;
		for (uint32_t i = 0; i < batch.count; i++)
			if (key[i] >> 32 == ZN_TIMED_IOCTL)
				call(to, value[i].id, value[i].start_ns);
	} while (more);
}

/* As BPF does at a fork. */
static int worker_add(struct zn_arena *a, uint32_t row, uint32_t tgid)
{
	struct zn_probe *p = (struct zn_probe *)a;
	struct zn_proc *proc = zn_arena_proc(a, row);
	struct zn_worker w = {.row = row, .id = proc ? proc->id : 0, .start_ns = zn_now_ns()}, known;
	struct zn_quota *q = &a->shared->quota[ZN_QUOTA_WORKER];
	uint32_t other;

	if (!proc || bpf_map_lookup_elem(p->map_fd[ZN_MAP_ROWS], &tgid, &other) == 0 ||
		bpf_map_lookup_elem(p->map_fd[ZN_MAP_WORKERS], &tgid, &known) == 0)
		return -EEXIST;
	w.owner = proc->owner;
	if (!zn_quota_take(q, w.owner))
		return -ENOSPC;
	if (bpf_map_update_elem(p->map_fd[ZN_MAP_WORKERS], &tgid, &w, BPF_NOEXIST)) {
		zn_quota_give(q, w.owner);
		return -errno;
	}
	__atomic_fetch_add(&a->shared->mark[ZN_PID_FILTER_AT(tgid)], ZN_PID_WORKER, __ATOMIC_RELAXED);
	__atomic_fetch_add(&proc->count[ZN_C_CHILDREN], 1, __ATOMIC_RELAXED);
	if (!zn_process_ended(tgid) || bpf_map_delete_elem(p->map_fd[ZN_MAP_WORKERS], &tgid))
		return 0;
	zn_quota_give(q, w.owner);
	__atomic_fetch_sub(&a->shared->mark[ZN_PID_FILTER_AT(tgid)], ZN_PID_WORKER, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&proc->count[ZN_C_CHILDREN], 1, __ATOMIC_RELAXED);
	return -ESRCH;
}

/* ---- jobs ---- */

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
	static const struct {
		size_t key, value;
	} size[ZN_MAP_COUNT] = {
		[ZN_MAP_JOB_NAMES] = {ZN_JOB_NAME, sizeof(uint32_t)},
		[ZN_MAP_CGROUPS] = {sizeof(struct zn_cgroup_key), sizeof(struct zn_cgroup)},
		[ZN_MAP_TASKS] = {sizeof(uint32_t), sizeof(struct zn_job_ref)},
	};
	bool first = true, more;

	do {
		more = batch_read(p->map_fd[m], first);
		first = false;
		for (uint32_t i = 0; i < batch.count; i++)
			if (memcmp(batch.value + i * size[m].value, &slot, sizeof(slot)) == 0 &&
				bpf_map_delete_elem(p->map_fd[m], (char *)batch.key + i * size[m].key) == 0)
				job_gives(p, m, batch.value + i * size[m].value);
	} while (more);
}

static uint32_t next_id(struct zn_arena *a)
{
	uint32_t id = __atomic_add_fetch(&a->shared->next_id, 1, __ATOMIC_RELAXED);

	return id ? id : __atomic_add_fetch(&a->shared->next_id, 1, __ATOMIC_RELAXED);
}

static int job_alias(struct zn_arena *a, uint32_t slot, const char name[ZN_JOB_NAME])
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

/* BPF may claim the same name at the same time: whoever enters the name first has it. The row of the slot is mapped. */
static int job_claim(struct zn_arena *a, const char name[ZN_JOB_NAME])
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
		if (job_alias(a, slot, key) == 0)
			return slot;
		memset(row, 0, sizeof(*row));
		__atomic_fetch_sub(&a->shared->jobs, 1, __ATOMIC_RELAXED);
	}
	bpf_map_update_elem(p->map_fd[ZN_MAP_FREE_JOBS], NULL, &slot, BPF_ANY);
	return row && job_known(a, key, &known) ? (int)known : job_lost(a);
}

static void job_unname(struct zn_arena *a, uint32_t slot)
{
	slot_sweep((struct zn_probe *)a, ZN_MAP_JOB_NAMES, slot);
}

/* Without its serial no tag counts any more, so what BPF adds while the tables are swept is nobody's. */
static void job_forget(struct zn_arena *a, uint32_t slot)
{
	struct zn_probe *p = (struct zn_probe *)a;

	if (!a->jobs[slot].serial)
		return;
	__atomic_store_n(&a->jobs[slot].serial, 0, __ATOMIC_SEQ_CST);
	for (enum zn_map m = ZN_MAP_JOB_NAMES; m <= ZN_MAP_TASKS; m++)
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

/* As zn_task_put() in BPF. */
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

/* As zn_task_drop() in BPF. */
void zn_bpf_arena_task_end(struct zn_probe *p, uint32_t tgid)
{
	struct zn_job_ref old;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_TASKS], &tgid, &old) == 0 &&
		bpf_map_delete_elem(p->map_fd[ZN_MAP_TASKS], &tgid) == 0)
		job_gives(p, ZN_MAP_TASKS, &old);
}

static int job_task(struct zn_arena *a, uint32_t slot, uint32_t tgid)
{
	struct zn_probe *p = (struct zn_probe *)a;
	struct zn_job_ref tag = {slot, a->jobs[slot].serial};
	struct zn_proc *proc;
	uint32_t row;

	if (!task_put(a, tgid, &tag))
		return task_lost(a);
	zn_io_changed(a->shared);
	if (zn_process_ended(tgid)) {
		zn_bpf_arena_task_end(p, tgid);
		return -ESRCH;
	}
	proc = bpf_map_lookup_elem(p->map_fd[ZN_MAP_ROWS], &tgid, &row) ? NULL : zn_arena_proc(a, row);
	if (proc && proc->tgid == tgid)
		proc->job = tag;
	return 0;
}

static void job_tasks(struct zn_arena *a, void (*task)(void *to, const struct zn_job_ref *job), void *to)
{
	const struct zn_job_ref *tag = (const struct zn_job_ref *)batch.value;
	bool first = true, more;

	do {
		more = batch_read(((struct zn_probe *)a)->map_fd[ZN_MAP_TASKS], first);
		first = false;
		for (uint32_t i = 0; i < batch.count; i++)
			task(to, &tag[i]);
	} while (more);
}

static void job_cgroup_gone(struct zn_arena *a, const struct zn_cgroup_key *key)
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

static int job_cgroup(
	struct zn_arena *a, uint32_t slot, const struct zn_cgroup_key *key, uint32_t level, const char *step)
{
	int fd = ((struct zn_probe *)a)->map_fd[ZN_MAP_CGROUPS];
	struct zn_quota *q = &a->shared->quota[ZN_QUOTA_CGROUP];
	struct zn_cgroup group;

	if (bpf_map_lookup_elem(fd, key, &group) == 0) {
		if (group.job.serial == a->jobs[slot].serial)
			return 0;
		job_cgroup_gone(a, key); /* it was another job's, or still is */
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

static const struct zn_arena_ops arena_ops = {
	.map_proc = map_proc,
	.map_hist = map_hist,
	.map_job = map_job,
	.map_skew = map_skew,
	.release = release,
	.reuse = reuse,
	.sweep = sweep,
	.comms = comms,
	.skew_release = skew_release,
	.job_claim = job_claim,
	.job_alias = job_alias,
	.job_unname = job_unname,
	.job_forget = job_forget,
	.job_task = job_task,
	.job_tasks = job_tasks,
	.job_cgroup = job_cgroup,
	.job_cgroup_gone = job_cgroup_gone,
	.io = io,
	.io_cut = io_cut,
	.io_free = io_free,
	.map_coarse = map_coarse,
	.stalls = stalls,
	.worker_add = worker_add,
	.ioctls = ioctls,
};

#define SHARED_BYTES ((sizeof(struct zn_shared) + 4095) & ~4095UL)

/* Highest first: the lowest is taken first. */
static int free_list_fill(int fd, uint32_t first, uint32_t end)
{
	for (uint32_t i = end; i-- > first;)
		if (bpf_map_update_elem(fd, NULL, &i, BPF_ANY))
			return -errno;
	return 0;
}

/* A sixteenth of each table is root's alone. */
static void quotas_open(struct zn_probe *p)
{
	const uint32_t size[ZN_QUOTA_COUNT] = {
		[ZN_QUOTA_PROCESS] = ZN_PROCS_MAX,
		[ZN_QUOTA_HISTOGRAM] = ZN_HISTS_MAX - ZN_HISTS_FIRST - ZN_IO_HISTS,
		[ZN_QUOTA_THREAD] = p->sizes.threads,
		[ZN_QUOTA_LAUNCH] = ZN_LAUNCHES_MAX,
		[ZN_QUOTA_RUN] = p->sizes.runs,
		[ZN_QUOTA_SPILL] = ZN_SPILLED_MAX,
		[ZN_QUOTA_RESERVE] = ZN_RESERVED_MAX,
		[ZN_QUOTA_WORKER] = ZN_WORKERS_MAX,
		[ZN_QUOTA_ALLOC] = ZN_ALLOCS_MAX,
		[ZN_QUOTA_CONTEXT] = ZN_CTXS_MAX,
		[ZN_QUOTA_STREAM] = ZN_STREAMS_MAX,
		[ZN_QUOTA_COMM] = ZN_COMMS_MAX,
		[ZN_QUOTA_TASK] = ZN_TASKS_MAX,
		[ZN_QUOTA_CGROUP] = ZN_CGROUPS_MAX,
		[ZN_QUOTA_IO] = ZN_IO_MAX,
		[ZN_QUOTA_IO_USER] = ZN_IO_OF_USER,
		[ZN_QUOTA_IO_HIST] = ZN_IO_HISTS,
		[ZN_QUOTA_IO_SEAT] = ZN_IO_SEATS,
		[ZN_QUOTA_AIO] = ZN_AIOS_MAX,
		[ZN_QUOTA_SKEW] = ZN_SKEWS_MAX,
		[ZN_QUOTA_CALL] = ZN_CALLS_MAX,
		[ZN_QUOTA_SOCKET] = ZN_SOCKS_MAX,
	};

	for (enum zn_quota_table t = 0; t < ZN_QUOTA_COUNT; t++) {
		p->arena.shared->quota[t].size = size[t];
		p->arena.shared->quota[t].reserve = size[t] / 16;
	}
	p->arena.shared->run_mask = p->sizes.runs / ZN_SCHED_WAYS - 1;
}

int zn_bpf_arena_open(struct zn_probe *p)
{
	void *shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, p->map_fd[ZN_MAP_SHARED], 0);
	struct zn_arena *a = &p->arena;
	int err;

	if (shared == MAP_FAILED)
		return -errno;
	a->ops = &arena_ops;
	a->shared = shared;
	if (!(a->procs = zn_bpf_map_reserve(ZN_MAP_PROCS)) || !(a->hists = zn_bpf_map_reserve(ZN_MAP_HISTS)) ||
		!(a->jobs = zn_bpf_map_reserve(ZN_MAP_JOBS)) || !(a->skews = zn_bpf_map_reserve(ZN_MAP_SKEWS)) ||
		!(p->opens = zn_bpf_map_reserve(ZN_MAP_OPENS)) || !(a->coarse = zn_bpf_map_reserve(ZN_MAP_COARSE)))
		return -errno;
	a->shared->daemon_tgid = getpid();
	a->shared->page_bytes = sysconf(_SC_PAGESIZE);
	quotas_open(p);
	err = free_list_fill(p->map_fd[ZN_MAP_FREE_ROWS], 0, ZN_PROCS_MAX);
	if (!err)
		err = free_list_fill(p->map_fd[ZN_MAP_FREE_HISTS], ZN_HISTS_FIRST, ZN_HISTS_MAX);
	if (!err)
		err = free_list_fill(p->map_fd[ZN_MAP_FREE_COARSE], 0, ZN_IO_MAX);
	return err ? err : free_list_fill(p->map_fd[ZN_MAP_FREE_JOBS], 0, ZN_JOBS_MAX);
}

void zn_bpf_arena_close(struct zn_probe *p)
{
	struct zn_arena *a = &p->arena;

	if (a->shared)
		munmap(a->shared, SHARED_BYTES);
	zn_bpf_map_unreserve(ZN_MAP_PROCS, a->procs);
	zn_bpf_map_unreserve(ZN_MAP_HISTS, a->hists);
	zn_bpf_map_unreserve(ZN_MAP_COARSE, a->coarse);
	zn_bpf_map_unreserve(ZN_MAP_JOBS, a->jobs);
	zn_bpf_map_unreserve(ZN_MAP_SKEWS, a->skews);
	zn_bpf_map_unreserve(ZN_MAP_OPENS, p->opens);
	p->opens = NULL;
	memset(p->opens_mapped, 0, sizeof(p->opens_mapped));
	memset(a, 0, sizeof(*a));
}

/* ---- shares ---- */

#define RECOUNT_NS (60 * ZN_NS_PER_S)

/* How many processes of each job there are, by slot. */
static void tasks_count(struct zn_probe *p, int32_t count[ZN_JOBS_MAX])
{
	const struct zn_job_ref *tag = (const struct zn_job_ref *)batch.value;
	bool first = true, more;

	memset(count, 0, ZN_JOBS_MAX * sizeof(*count));
	do {
		more = batch_read(p->map_fd[ZN_MAP_TASKS], first);
		first = false;
		for (uint32_t i = 0; i < batch.count; i++)
			if (tag[i].slot < ZN_JOBS_MAX)
				count[tag[i].slot]++;
	} while (more);
}

/* A process that is moved to another job just as it ends may leave a job's count one too high or too low: nobody sees the table
 * and the counts at one time. What differs by as much twice in a row, a minute apart, is set right. */
static void tasks_recount(struct zn_probe *p, uint64_t now_ns)
{
	static int32_t count[ZN_JOBS_MAX], held[ZN_QUOTA_OWNERS + 1];
	struct zn_quota *q = &p->arena.shared->quota[ZN_QUOTA_TASK];

	if (now_ns - p->recount_ns < RECOUNT_NS || q->used == 0)
		return;
	p->recount_ns = now_ns;
	tasks_count(p, count);
	memset(held, 0, sizeof(held));
	for (uint32_t slot = 0; slot < ZN_JOBS_MAX; slot++)
		if (count[slot])
			held[zn_quota_at(q, ZN_OWNER_JOB(slot))] += count[slot];
	zn_quota_correct(q, held, p->recounted);
}

/* Programs do not count what each owner has under way, which all CPUs would have to do in one place. It is counted here, for what
 * the log says, once somebody was refused. */
static void seats_count(struct zn_probe *p)
{
	struct zn_quota *q = &p->arena.shared->quota[ZN_QUOTA_IO_SEAT];
	const size_t len = ZN_IO_SEATS * sizeof(struct zn_io_seat);
	const struct zn_io_seat *seat;

	if (__atomic_load_n(&q->refused, __ATOMIC_RELAXED) == q->told_refused)
		return;
	seat = mmap(NULL, len, PROT_READ, MAP_SHARED, p->map_fd[ZN_MAP_IO_SEATS], 0);
	if (seat == MAP_FAILED)
		return;
	for (uint32_t i = 0; i < ZN_QUOTA_OWNERS; i++)
		q->row[i].held = 0;
	q->rest.held = q->used = 0;
	for (uint32_t i = 0; i < ZN_IO_SEATS; i++)
		if (seat[i].owner)
			zn_quota_give_many(q, seat[i].user, -1);
	munmap((void *)seat, len);
}

void zn_bpf_arena_quotas(struct zn_probe *p, uint64_t now_ns)
{
	seats_count(p);
	tasks_recount(p, now_ns);
	zn_quotas_tell(&p->arena, now_ns);
}
