/* SPDX-License-Identifier: GPL-2.0 */
/*
 * progress.c: when each process last did something for its work: launched, copied, communicated, took a batch, moved
 * a byte of a file; and whether a thread of it stays inside of the GPU's driver. Counters are compared at each tick,
 * so a time is that of the tick after it.
 */
#include "zernel.h"
#include <string.h>

static uint64_t sum_of(const __u64 *count, size_t n)
{
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += count[i];
	return all;
}

static uint64_t count_issues(const struct zn_proc *p)
{
	uint64_t all = 0;

	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++)
		all += p->count[ZN_C_HIT(ZN_FAM_NCCL, first)];
	return all;
}

static uint64_t count_batches(const struct zn_agg *a, const struct zn_proc *p)
{
	const struct zn_hist *taken = zn_arena_hist(a->arena, p->hist[ZN_H_DATALOAD]),
			     *asked = zn_arena_hist(a->arena, p->hist[ZN_H_WORKER_IDLE]);

	return (taken ? taken->calls : 0) + (asked ? asked->calls : 0);
}

static void read_counts(const struct zn_agg *a, const struct zn_proc *p, uint64_t to[ZN_PROGRESS_COUNT])
{
	to[ZN_PROGRESS_LAUNCH] = sum_of(p->count + ZN_C_LAUNCH_KERNEL, 4);
	to[ZN_PROGRESS_COPY] = sum_of(p->count + ZN_C_COPY_CALLS_HTOD, 4) + p->count[ZN_C_MEMSET_CALLS];
	to[ZN_PROGRESS_ISSUE] = count_issues(p);
	to[ZN_PROGRESS_BATCH] = count_batches(a, p);
	to[ZN_PROGRESS_IO] = p->count[ZN_C_IO_READ_BYTES] + p->count[ZN_C_IO_WRITE_BYTES];
}

/* A process that is new has just begun, whatever it did before it was seen. */
static void note_process(struct zn_progress_row *r, const struct zn_agg *a, const struct zn_proc *p, uint64_t now_ns)
{
	uint64_t now[ZN_PROGRESS_COUNT];
	bool fresh = r->id != p->id;

	if (fresh)
		*r = (struct zn_progress_row){.id = p->id, .first_ns = now_ns};
	read_counts(a, p, now);
	for (enum zn_progress_kind k = 0; k < ZN_PROGRESS_COUNT; k++)
		if (now[k] != r->seen[k] || (fresh && now[k]))
			r->moved_ns[k] = now_ns;
	memcpy(r->seen, now, sizeof(now));
}

/* ---- Calls that stay in the driver. ---- */

/* At two ticks in a row somebody was inside: then one and the same call may be there since before the former. */
static void note_inside(struct zn_progress *g, struct zn_progress_row *r, const struct zn_proc *p)
{
	r->stuck_ns = 0;
	if (!p->in_ioctl)
		r->inside_ns = 0;
	else if (!r->inside_ns)
		r->inside_ns = g->tick_ns;
	else
		g->asks = true;
}

static void note_call(void *to, uint32_t id, uint64_t start_ns)
{
	struct zn_progress *g = to;

	for (uint32_t i = 0; i < ZN_PROCS_MAX; i++) {
		struct zn_progress_row *r = &g->row[i];

		if (r->id == id && r->inside_ns && r->inside_ns <= g->before_ns && start_ns <= g->before_ns &&
			(!r->stuck_ns || start_ns < r->stuck_ns))
			r->stuck_ns = start_ns;
	}
}

void zn_progress_tick(struct zn_progress *g, struct zn_agg *a, uint64_t now_ns)
{
	g->before_ns = g->tick_ns;
	g->tick_ns = now_ns;
	g->asks = false;
	for (uint32_t i = 0; i < a->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[i]);

		if (!p)
			continue;
		note_process(&g->row[a->row[i]], a, p, now_ns);
		note_inside(g, &g->row[a->row[i]], p);
	}
	if (g->asks && a->arena->ops->ioctls)
		a->arena->ops->ioctls(a->arena, note_call, g);
}

uint64_t zn_progress_stuck(const struct zn_progress *g, uint32_t row, uint32_t id)
{
	return g->row[row].id == id && g->row[row].stuck_ns ? g->tick_ns - g->row[row].stuck_ns : 0;
}

bool zn_progress_moved(const struct zn_progress *g, uint32_t row, uint32_t id, enum zn_progress_kind kind)
{
	return g->row[row].id == id && g->row[row].moved_ns[kind] == g->tick_ns;
}

uint64_t zn_progress_last(const struct zn_progress *g, uint32_t row, uint32_t id)
{
	const struct zn_progress_row *r = &g->row[row];
	uint64_t last = r->first_ns;

	for (enum zn_progress_kind k = 0; k < ZN_PROGRESS_COUNT; k++)
		if (r->moved_ns[k] > last)
			last = r->moved_ns[k];
	return r->id == id ? last : 0;
}
