/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Ends of processes and threads that no program saw, as the kernel skips a program that interrupts another one. Once
 * that has happened, the tables are searched for entries of ended processes, a part of them each tick.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <stddef.h>

#define END_CHECKS 64  /* entries of each table that are looked at in a tick */
#define END_GROUPS 256 /* and how far it goes through places, most of which may be free */

/* The same as BPF does at the end of a data loader's worker. */
static void worker_end(struct zn_probe *p, uint32_t tgid)
{
	struct zn_arena *a = &p->arena;
	struct zn_proc *proc;
	struct zn_loader_worker w;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_WORKERS], &tgid, &w) ||
		bpf_map_delete_elem(p->map_fd[ZN_MAP_WORKERS], &tgid))
		return;
	zn_quota_give(&a->shared->quota[ZN_QUOTA_WORKER], w.owner);
	__atomic_fetch_sub(&a->shared->pid_filter[ZN_PID_FILTER_AT(tgid)], ZN_PID_WORKER, __ATOMIC_RELAXED);
	proc = zn_arena_proc(a, w.row);
	if (!proc || proc->id != w.id)
		return;
	__atomic_fetch_sub(&proc->count[ZN_C_CHILDREN], 1, __ATOMIC_RELAXED);
	if (w.loader)
		__atomic_fetch_sub(&proc->count[ZN_C_WORKERS], 1, __ATOMIC_RELAXED);
}

static void proc_end(struct zn_probe *p, uint32_t tgid)
{
	struct zn_proc *proc;
	uint32_t row;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_ROWS], &tgid, &row))
		return;
	proc = zn_arena_proc(&p->arena, row);
	if (!proc || proc->tgid != tgid || bpf_map_delete_elem(p->map_fd[ZN_MAP_ROWS], &tgid))
		return;
	__atomic_fetch_sub(&p->arena.shared->pid_filter[ZN_PID_FILTER_AT(tgid)], ZN_PID_TRACKED, __ATOMIC_RELAXED);
	proc->exit_ns = zn_now_ns();
}

/* What the owner of a thread holds for it, in this order in ZN_HELD_*. */
static void thread_gives(struct zn_probe *p, const enum zn_quota_table *of, uint32_t owner, uint32_t held)
{
	for (uint32_t i = 0; held >> i; i++)
		if (held >> i & 1)
			zn_quota_give(&p->arena.shared->quota[of[i]], owner);
}

static const enum zn_quota_table of_caller[] = {ZN_QUOTA_THREAD, ZN_QUOTA_LAUNCH};
static const enum zn_quota_table of_sched[] = {ZN_QUOTA_SCHED, ZN_QUOTA_SPILL, ZN_QUOTA_RESERVE};

/* A thread that called a hooked library. */
static void caller_end(struct zn_probe *p, uint32_t tid)
{
	struct zn_thread t;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_THREADS], &tid, &t) == 0 &&
		bpf_map_delete_elem(p->map_fd[ZN_MAP_THREADS], &tid) == 0)
		thread_gives(p, of_caller, t.owner, t.held);
}

static void thread_end(struct zn_probe *p, void *place, uint32_t tid)
{
	struct zn_thread *t = place;
	uint32_t owner = t->owner, held = t->held; /* the next one may take the place at once */

	t->stack = 0; /* if that is the next one's by now, its next call writes it again */
	if (__sync_bool_compare_and_swap(&t->tid, tid, 0))
		thread_gives(p, of_caller, owner, held & 3);
}

/* Stops following the time of a thread. */
static void state_end(struct zn_probe *p, const struct zn_sched_entry *r, uint32_t tid)
{
	struct zn_thread_states *all = r->state_at && r->state_at <= ZN_THREAD_STATES && r->row < ZN_PROCS_MAX
		? zn_bpf_map_thread_states(p, r->row)
		: NULL;
	struct zn_thread_state *o = all ? &all->thread[r->state_at - 1] : NULL;

	if (!o || o->tid != tid || o->id != r->id)
		return;
	o->word = 0;
	__atomic_store_n(&o->tid, 0, __ATOMIC_RELEASE);
}

static void sched_end(struct zn_probe *p, void *place, uint32_t tid)
{
	struct zn_sched_entry *r = place;
	uint32_t owner = r->owner, held = r->held;

	state_end(p, r, tid);
	if (__sync_bool_compare_and_swap(&r->tid, tid, 0))
		thread_gives(p, of_sched, owner, held & ZN_HELD_SCHED);
}

static void spilled_end(struct zn_probe *p, uint32_t tid)
{
	uint32_t set = tid & p->arena.shared->sched_mask;
	struct zn_sched_entry r;
	struct zn_sched_set *found;
	struct zn_piece piece;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_SPILLED], &tid, &r) ||
		bpf_map_delete_elem(p->map_fd[ZN_MAP_SPILLED], &tid))
		return;
	state_end(p, &r, tid);
	thread_gives(p, of_sched, r.owner, r.held & 7);
	found = zn_bpf_map_piece(p, ZN_MAP_SCHED_SETS, set * sizeof(*found), sizeof(*found), &piece);
	if (found)
		__atomic_fetch_sub(&found->spilled, 1, __ATOMIC_RELAXED);
	zn_bpf_map_piece_end(&piece);
}

/* Hashes whose keys are processes or threads. */
static const struct {
	enum zn_map map;
	void (*end)(struct zn_probe *p, uint32_t id);
} of_processes[ZN_END_HASHES] = {{ZN_MAP_ROWS, proc_end}, {ZN_MAP_WORKERS, worker_end},
	{ZN_MAP_TASKS, zn_bpf_job_task_end}, {ZN_MAP_THREADS, caller_end}, {ZN_MAP_SPILLED, spilled_end}};

/* Arrays of places of threads, the id of the thread at an offset; 0: free. A set of places is four of them and a
 * count. */
static const struct {
	enum zn_map map;
	size_t group, size, places, tid;
	void (*end)(struct zn_probe *p, void *place, uint32_t tid);
} of_threads[ZN_END_ARRAYS] = {{ZN_MAP_THREAD_CACHE, sizeof(struct zn_thread), sizeof(struct zn_thread), 1,
				       offsetof(struct zn_thread, tid), thread_end},
	{ZN_MAP_SCHED_SETS, sizeof(struct zn_sched_set), sizeof(struct zn_sched_entry), ZN_SCHED_WAYS,
		offsetof(struct zn_sched_entry, tid), sched_end}};

static uint32_t groups_of(const struct zn_probe *p, size_t i)
{
	return of_threads[i].map == ZN_MAP_THREAD_CACHE ? ZN_THREAD_CACHE : p->sizes.sched_entries / ZN_SCHED_WAYS;
}

/* Looks at the places of one group; returns how many threads were asked for. */
static int group_check(struct zn_probe *p, size_t i, char *group)
{
	int asked = 0;

	for (size_t n = 0; n < of_threads[i].places; n++) {
		void *place = group + n * of_threads[i].size;
		uint32_t tid = __atomic_load_n((uint32_t *)((char *)place + of_threads[i].tid), __ATOMIC_RELAXED);

		if (tid == 0 || tid == ZN_SCHED_BUSY)
			continue;
		asked++;
		if (zn_process_ended(tid))
			of_threads[i].end(p, place, tid);
	}
	return asked;
}

static void places_check(struct zn_probe *p, size_t i)
{
	uint32_t all = groups_of(p, i), *at = &p->end_group[i], n, last;
	struct zn_piece piece;
	char *from;
	int asked = 0;

	if (*at >= all)
		*at = 0;
	last = all - *at < END_GROUPS ? all : *at + END_GROUPS;
	from = zn_bpf_map_piece(
		p, of_threads[i].map, *at * of_threads[i].group, (last - *at) * of_threads[i].group, &piece);
	for (n = *at; from && n < last && asked < END_CHECKS; n++)
		asked += group_check(p, i, from + (n - *at) * of_threads[i].group);
	*at = from ? n : 0;
	zn_bpf_map_piece_end(&piece);
}

/* Goes on where the last tick left off. A key that has gone leads to the first one: so the next one is asked for before
 * one is taken out. */
static void table_check(struct zn_probe *p, size_t i)
{
	int fd = p->map_fd[of_processes[i].map];
	uint32_t *at = &p->end_at[i], tgid;

	if (!*at && bpf_map_get_next_key(fd, NULL, at))
		return;
	for (int n = 0; n < END_CHECKS && *at; n++) {
		tgid = *at;
		if (bpf_map_get_next_key(fd, &tgid, at))
			*at = 0;
		if (zn_process_ended(tgid))
			of_processes[i].end(p, tgid);
	}
}

/* Where none was missed so far, this is two system calls. */
void zn_ends_check(struct zn_probe *p)
{
	if (!zn_stats_raw_missed(p->exit, ZN_LEN(p->exit)) || !zn_process_all_shown())
		return;
	for (size_t i = 0; i < ZN_LEN(of_processes); i++)
		table_check(p, i);
	for (size_t i = 0; i < ZN_LEN(of_threads); i++)
		places_check(p, i);
}
