/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each owner may hold of the tables of the arena over BPF maps, and what he holds where programs do not count it.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <string.h>
#include <sys/mman.h>

/* A sixteenth of each table is root's alone. */
void zn_bpf_quota_open(struct zn_probe *p)
{
	const uint32_t size[ZN_QUOTA_COUNT] = {
		[ZN_QUOTA_PROCESS] = ZN_PROCS_MAX,
		[ZN_QUOTA_HISTOGRAM] = ZN_HISTS_MAX - ZN_HISTS_FIRST - ZN_IO_HISTS - ZN_SHARDS_MAX,
		[ZN_QUOTA_SHARD] = ZN_SHARDS_MAX,
		[ZN_QUOTA_THREAD] = p->sizes.threads,
		[ZN_QUOTA_LAUNCH] = ZN_LAUNCHES_MAX,
		[ZN_QUOTA_SCHED] = p->sizes.sched_entries,
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
		[ZN_QUOTA_IO_PENDING] = ZN_IO_PENDING_MAX,
		[ZN_QUOTA_AIO] = ZN_AIOS_MAX,
		[ZN_QUOTA_SKEW] = ZN_SKEWS_MAX,
		[ZN_QUOTA_CALL] = ZN_CALLS_MAX,
		[ZN_QUOTA_SOCKET] = ZN_SOCKS_MAX,
		[ZN_QUOTA_STACK] = ZN_STACKS_MAX,
		[ZN_QUOTA_SERVER] = ZN_SERVERS_MAX,
		[ZN_QUOTA_ROUTE] = ZN_REQUEST_SERIES,
		[ZN_QUOTA_REQUEST] = ZN_REQUEST_MAX,
		[ZN_QUOTA_SERVICE] = ZN_SERVICES_MAX,
	};

	for (enum zn_quota_table t = 0; t < ZN_QUOTA_COUNT; t++) {
		p->arena.shared->quota[t].size = size[t];
		p->arena.shared->quota[t].reserve = size[t] / 16;
	}
	p->arena.shared->sched_mask = p->sizes.sched_entries / ZN_SCHED_WAYS - 1;
}

/* For the next series: nobody adds to it any more. */
void zn_bpf_quota_hist_clear(struct zn_arena *a, uint32_t slot)
{
	struct zn_hist *h = zn_arena_hist(a, slot);

	if (!h)
		return;
	zn_hist_clear(h);
	bpf_map_update_elem(((struct zn_probe *)a)->map_fd[ZN_MAP_FREE_HISTS], NULL, &slot, BPF_ANY);
}

void zn_bpf_quota_hist_free(struct zn_arena *a, enum zn_quota_table table, uint32_t slot)
{
	struct zn_hist *h = zn_arena_hist(a, slot);

	if (!h)
		return;
	zn_quota_give(&a->shared->quota[table], h->owner);
	zn_bpf_quota_hist_clear(a, slot);
}

#define RECOUNT_NS (60 * ZN_NS_PER_S)

/* How many processes of each job there are, by slot. */
static void tasks_count(struct zn_probe *p, int32_t count[ZN_JOBS_MAX])
{
	struct zn_batch b = zn_batch_begin(p, ZN_MAP_TASKS);

	memset(count, 0, ZN_JOBS_MAX * sizeof(*count));
	while (zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count; i++) {
			uint32_t slot = ((const struct zn_job_ref *)zn_batch_value(&b, i))->slot;

			if (slot < ZN_JOBS_MAX)
				count[slot]++;
		}
}

/* A process that is moved to another job just as it ends may leave a job's count one too high or too low: nobody
 * sees the table and the counts at one time. A count that differs by the same amount twice in a row, a minute
 * apart, is corrected. */
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

/* Programs do not count what each owner has under way, which all CPUs would have to do in one place. It is counted
 * here, for what the log says, once somebody was refused. */
static void io_pending_count(struct zn_probe *p)
{
	struct zn_quota *q = &p->arena.shared->quota[ZN_QUOTA_IO_PENDING];
	const size_t len = ZN_IO_PENDING_MAX * sizeof(struct zn_io_pending);
	const struct zn_io_pending *pending;

	if (__atomic_load_n(&q->refused, __ATOMIC_RELAXED) == q->logged_refused)
		return;
	pending = mmap(NULL, len, PROT_READ, MAP_SHARED, p->map_fd[ZN_MAP_IO_PENDING], 0);
	if (pending == MAP_FAILED)
		return;
	for (uint32_t i = 0; i < ZN_QUOTA_OWNERS; i++)
		q->row[i].held = 0;
	q->rest.held = q->used = 0;
	for (uint32_t i = 0; i < ZN_IO_PENDING_MAX; i++)
		if (pending[i].owner)
			zn_quota_give_many(q, pending[i].user, -1);
	munmap((void *)pending, len);
}

void zn_bpf_quota_tick(struct zn_probe *p, uint64_t now_ns)
{
	io_pending_count(p);
	tasks_recount(p, now_ns);
	zn_quotas_tell(&p->arena, now_ns);
}
