/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The arena over BPF maps: how rows of it are given back, and what else is done with the maps while the daemon runs.
 * A table's entries count against the share of their owner here as they do in BPF.
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

static int map_failed(struct zn_arena *a, uint32_t row)
{
	return zn_bpf_map_row((struct zn_probe *)a, ZN_MAP_FAILED, a->failed, a->failed_mapped, row);
}

static int map_coarse(struct zn_arena *a, uint32_t index)
{
	return zn_bpf_map_row((struct zn_probe *)a, ZN_MAP_COARSE, a->coarse, a->coarse_mapped, index);
}

/* Ends a call of ioctl() on a GPU in which the thread ended, which no program saw. The same as zn_gpu_leave() in
 * BPF. */
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

static bool is_dead(const struct zn_probe *p, uint32_t id)
{
	for (uint32_t i = 0; i < p->dead_count; i++)
		if (p->dead[i] == id)
			return true;
	return false;
}

static void table_sweep(struct zn_probe *p, enum zn_map m)
{
	struct zn_batch b = zn_batch_begin(p, m);
	uint32_t id;

	while (zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count; i++) {
			memcpy(&id, (const char *)zn_batch_key(&b, i) + 8, sizeof(id));
			if (is_dead(p, id))
				bpf_map_delete_elem(p->map_fd[m], zn_batch_key(&b, i));
		}
}

/* Ids are unique, so entries that a process left in other tables are still known as its own. */
static void sweep_maps(struct zn_arena *a)
{
	struct zn_probe *p = (struct zn_probe *)a;

	for (enum zn_map m = 0; p->dead_count && m < ZN_MAP_COUNT; m++)
		if (zn_bpf_map_swept(m) == ZN_SWEPT_PROCESS)
			table_sweep(p, m);
	p->dead_count = 0;
}

/* Nobody finds the row from here on. Programs that found it before may write to it for a moment more, those of
 * another process (its last worker's end) too: so it rests before it is given back. */
static void release_row(struct zn_arena *a, uint32_t row)
{
	struct zn_probe *p = (struct zn_probe *)a;
	struct zn_proc *proc = &a->procs[row];

	if (p->dead_count == ZN_PROCS_MAX)
		sweep_maps(a);
	p->dead[p->dead_count++] = proc->id;
	p->leaving[p->leaving_count++] = (struct zn_leaving){.row = row, .since_ns = zn_now_ns()};
	__atomic_store_n(&proc->tgid, 0, __ATOMIC_SEQ_CST); /* exit_ns stays, see zn_tracked() */
	__atomic_store_n(&proc->id, 0, __ATOMIC_SEQ_CST);
	a->shared->row_tgid[row] = 0;
}

/* Of a released row: its next process finds it empty. */
static void row_give(struct zn_probe *p, uint32_t row)
{
	struct zn_arena *a = &p->arena;
	struct zn_proc *proc = &a->procs[row];
	struct zn_thread_states *states = zn_bpf_map_thread_states(p, row);
	struct zn_failed *failed = zn_failed_of(a, row, proc);

	if (failed)
		memset(failed, 0, sizeof(*failed));
	for (uint32_t d = 0; d < ZN_OPERATION_SLOTS; d++)
		zn_bpf_quota_hist_free(a, ZN_QUOTA_HISTOGRAM, proc->hist[d]);
	for (uint32_t i = 0; i < ZN_SHARDS; i++)
		zn_bpf_quota_hist_free(a, ZN_QUOTA_SHARD, proc->shard[i]);
	if (states)
		memset(states, 0, sizeof(*states));
	if (proc->in_ioctl)
		gpu_left(&a->shared->gpu_calls);
	holdings_give(a->shared, proc);
	memset(proc, 0, sizeof(*proc));
	__atomic_fetch_sub(&a->shared->procs, 1, __ATOMIC_RELAXED);
	bpf_map_update_elem(p->map_fd[ZN_MAP_FREE_ROWS], NULL, &row, BPF_ANY);
}

#define REST_NS (ZN_NS_PER_S / 10) /* programs take microseconds, and may be preempted */

static void reuse_rows(struct zn_arena *a)
{
	struct zn_probe *p = (struct zn_probe *)a;
	uint64_t now = zn_now_ns();
	uint32_t n = 0;

	while (n < p->leaving_count && now - p->leaving[n].since_ns >= REST_NS)
		row_give(p, p->leaving[n++].row);
	p->leaving_count -= n;
	memmove(p->leaving, p->leaving + n, p->leaving_count * sizeof(p->leaving[0]));
}

static size_t read_comms(struct zn_arena *a, struct zn_comm *to, size_t cap)
{
	struct zn_batch b = zn_batch_begin((struct zn_probe *)a, ZN_MAP_COMMS);
	size_t n = 0;

	while (n < cap && zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count && n < cap; i++) {
			memcpy(&to[n], zn_batch_value(&b, i), sizeof(*to));
			n += to[n].tgid != 0;
		}
	return n;
}

/* What makes the slot a communicator's is cleared last. */
static void skew_release(struct zn_arena *a, uint32_t slot)
{
	struct zn_skew *s = &a->skews[slot];
	uint32_t owner = ZN_SKEW_OWNER(s->of);

	a->shared->skew_used[slot] = 0;
	zn_bpf_quota_hist_free(a, ZN_QUOTA_HISTOGRAM, s->hist);
	memset(&s->hash, 0, sizeof(*s) - offsetof(struct zn_skew, hash));
	__atomic_store_n(&s->of, 0, __ATOMIC_RELEASE);
	zn_quota_give(&a->shared->quota[ZN_QUOTA_SKEW], owner);
}

/* ---- file I/O ---- */

static size_t read_io(struct zn_arena *a, struct zn_io_entry *to, size_t cap)
{
	struct zn_batch b = zn_batch_begin((struct zn_probe *)a, ZN_MAP_IO_ROWS);
	size_t n = 0;

	while (n < cap && zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count && n < cap; i++, n++) {
			memcpy(&to[n].key, zn_batch_key(&b, i), sizeof(to[n].key));
			memcpy(&to[n].row, zn_batch_value(&b, i), sizeof(to[n].row));
		}
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
	zn_hist_clear_coarse(h);
	bpf_map_update_elem(((struct zn_probe *)a)->map_fd[ZN_MAP_FREE_COARSE], NULL, &index, BPF_ANY);
}

static void io_free(struct zn_arena *a, const struct zn_io_row *row)
{
	struct zn_quota *quota = a->shared->quota;

	if (row->hist < ZN_HISTS_MAX) {
		zn_bpf_quota_hist_clear(a, row->hist);
		zn_quota_give(&quota[ZN_QUOTA_IO_HIST], row->owner);
	} else {
		coarse_free(a, row->hist - ZN_HISTS_MAX);
	}
	zn_quota_give(&quota[ZN_QUOTA_IO], row->owner);
	zn_quota_give(&quota[ZN_QUOTA_IO_USER], row->user);
}

/* ---- waits ---- */

/* The segment that a thread is in. The thread may go on to the next segment meanwhile, which is then counted at
 * the next tick. */
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
static void read_stalls(struct zn_arena *a, uint32_t row, uint64_t now_ns, uint64_t ns[ZN_STALL_COUNT])
{
	const struct zn_thread_states *all = zn_bpf_map_thread_states((struct zn_probe *)a, row);
	const struct zn_proc *proc = &a->procs[row];

	for (uint32_t i = 0; i < ZN_STALL_COUNT; i++)
		ns[i] = __atomic_load_n(&proc->count[ZN_C_STALL_CPU + i], __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; all && i < ZN_THREAD_STATES; i++)
		if (all->thread[i].tid && all->thread[i].id == proc->id)
			stall_open(&all->thread[i], now_ns, ns);
}

static void read_ioctls(struct zn_arena *a, void (*call)(void *to, uint32_t id, uint64_t start_ns), void *to)
{
	struct zn_batch b = zn_batch_begin((struct zn_probe *)a, ZN_MAP_CALLS);

	while (zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count; i++) {
			const struct zn_timed_call *value = zn_batch_value(&b, i);

			if (*(const uint64_t *)zn_batch_key(&b, i) >> 32 == ZN_TIMED_IOCTL)
				call(to, value->id, value->start_ns);
		}
}

/* The same as BPF does at a fork. */
static int worker_add(struct zn_arena *a, uint32_t row, uint32_t tgid)
{
	struct zn_probe *p = (struct zn_probe *)a;
	struct zn_proc *proc = zn_arena_proc(a, row);
	struct zn_loader_worker w = {.row = row, .id = proc ? proc->id : 0, .start_ns = zn_now_ns()}, known;
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
	__atomic_fetch_add(&a->shared->pid_filter[ZN_PID_FILTER_AT(tgid)], ZN_PID_WORKER, __ATOMIC_RELAXED);
	__atomic_fetch_add(&proc->count[ZN_C_CHILDREN], 1, __ATOMIC_RELAXED);
	if ((!zn_process_ended(tgid) && bpf_map_lookup_elem(p->map_fd[ZN_MAP_ROWS], &tgid, &other)) ||
		bpf_map_delete_elem(p->map_fd[ZN_MAP_WORKERS], &tgid))
		return 0;
	zn_quota_give(q, w.owner);
	__atomic_fetch_sub(&a->shared->pid_filter[ZN_PID_FILTER_AT(tgid)], ZN_PID_WORKER, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&proc->count[ZN_C_CHILDREN], 1, __ATOMIC_RELAXED);
	return -ESRCH;
}

static const struct zn_arena_ops arena_ops = {
	.map_proc = map_proc,
	.map_hist = map_hist,
	.map_job = map_job,
	.map_skew = map_skew,
	.map_failed = map_failed,
	.release = release_row,
	.reuse = reuse_rows,
	.sweep = sweep_maps,
	.comms = read_comms,
	.skew_release = skew_release,
	.job_claim = zn_bpf_job_claim,
	.job_alias = zn_bpf_job_alias,
	.job_unname = zn_bpf_job_unname,
	.job_forget = zn_bpf_job_forget,
	.job_task = zn_bpf_job_task,
	.job_tasks = zn_bpf_job_tasks,
	.job_cgroup = zn_bpf_job_cgroup,
	.job_cgroup_gone = zn_bpf_job_cgroup_gone,
	.io = read_io,
	.io_cut = io_cut,
	.io_free = io_free,
	.map_coarse = map_coarse,
	.stalls = read_stalls,
	.worker_add = worker_add,
	.ioctls = read_ioctls,
	.sleepers = zn_sleepers_read,
	.still = zn_sleepers_still,
	.server_add = zn_bpf_request_add,
	.server_gone = zn_bpf_request_gone,
	.server_free = zn_bpf_request_free,
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
		!(p->thread_states = zn_bpf_map_reserve(ZN_MAP_THREAD_STATES)) ||
		!(a->failed = zn_bpf_map_reserve(ZN_MAP_FAILED)) || !(a->coarse = zn_bpf_map_reserve(ZN_MAP_COARSE)))
		return -errno;
	a->shared->daemon_tgid = getpid();
	a->shared->page_bytes = sysconf(_SC_PAGESIZE);
	zn_bpf_quota_open(p);
	err = free_list_fill(p->map_fd[ZN_MAP_FREE_ROWS], 0, ZN_PROCS_MAX);
	if (!err)
		err = free_list_fill(p->map_fd[ZN_MAP_FREE_HISTS], ZN_HISTS_FIRST, ZN_HISTS_MAX);
	if (!err)
		err = free_list_fill(p->map_fd[ZN_MAP_FREE_COARSE], 0, ZN_IO_MAX);
	if (!err)
		err = free_list_fill(p->map_fd[ZN_MAP_FREE_JOBS], 0, ZN_JOBS_MAX);
	return err ? err : zn_bpf_request_open(p);
}

void zn_bpf_arena_close(struct zn_probe *p)
{
	struct zn_arena *a = &p->arena;

	if (a->shared)
		munmap(a->shared, SHARED_BYTES);
	zn_bpf_map_unreserve(ZN_MAP_PROCS, a->procs);
	zn_bpf_map_unreserve(ZN_MAP_HISTS, a->hists);
	zn_bpf_map_unreserve(ZN_MAP_COARSE, a->coarse);
	zn_bpf_map_unreserve(ZN_MAP_FAILED, a->failed);
	zn_bpf_map_unreserve(ZN_MAP_JOBS, a->jobs);
	zn_bpf_map_unreserve(ZN_MAP_SKEWS, a->skews);
	zn_bpf_map_unreserve(ZN_MAP_THREAD_STATES, p->thread_states);
	zn_bpf_request_close(p);
	p->thread_states = NULL;
	memset(p->states_mapped, 0, sizeof(p->states_mapped));
	memset(a, 0, sizeof(*a));
}
