/* SPDX-License-Identifier: GPL-2.0 */
/*
 * activity.c: for how long each process had its GPU at work, by looks some twenty times a second: a launch costs
 * nothing more. Time in waits for the GPU is known to the nanosecond, also of a wait that goes on. A wait for a rank
 * that does not come is none.
 */
#include "zernel.h"
#include <string.h>

#define SINCE_NS (2 * ZN_ACTIVITY_MS * ZN_NS_PER_MS) /* what was launched, and is not waited for, is done by then */

static uint64_t at_most(uint64_t v, uint64_t limit)
{
	return v < limit ? v : limit;
}

/* Calls that give a GPU something to do. */
static uint64_t given_calls(struct zn_arena *a, const struct zn_proc *p)
{
	uint64_t all = p->count[ZN_C_MEMSET_CALLS] + zn_arena_launches(a, p);

	for (int i = 0; i < 4; i++)
		all += p->count[ZN_C_COPY_CALLS_HTOD + i];
	for (enum zn_insn first = 0; first < ZN_INSN_COUNT; first++)
		all += p->count[ZN_C_HIT(ZN_FAM_NCCL, first)];
	return all;
}

/* Where the scheduler is not watched, calls that have returned alone are known. */
static uint64_t waited_ns(const struct zn_agg *a, uint32_t row, const struct zn_proc *p, uint64_t now_ns)
{
	uint64_t ns[ZN_STALL_COUNT], all = 0;

	if (zn_agg_measures(a, ZN_FAM_SCHED)) {
		memcpy(ns, p->count + ZN_C_STALL_CPU, sizeof(ns));
		if (a->arena->ops->stalls)
			a->arena->ops->stalls(a->arena, row, now_ns, ns);
		return ns[ZN_STALL_GPU];
	}
	for (enum zn_operation d = ZN_H_SYNC_STREAM; d <= ZN_H_SYNC_FREE; d++) {
		const struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

		all += h ? h->sum_ns : 0;
	}
	return all;
}

static void look_at(struct zn_activity *t, struct zn_activity_row *r, uint64_t calls, uint64_t wait_ns, bool hangs)
{
	uint64_t passed_ns = t->interval_ns, more_ns = wait_ns > r->wait_ns ? wait_ns - r->wait_ns : 0, busy_ns;
	bool gives = calls != r->calls;

	r->calls = calls;
	r->wait_ns += more_ns;
	if (gives)
		r->gave_ns = t->look_ns;
	r->hangs = hangs;
	if (hangs)
		return;
	busy_ns = gives ? passed_ns : at_most(more_ns, passed_ns);
	r->busy_ns += busy_ns;
	r->active_ns += r->gave_ns && t->look_ns - r->gave_ns < SINCE_NS ? passed_ns : busy_ns;
}

void zn_activity_look(struct zn_activity *t, const struct zn_agg *a, const struct zn_ranks *k, uint64_t now_ns)
{
	t->interval_ns = t->look_ns && now_ns > t->look_ns ? now_ns - t->look_ns : 0;
	t->look_ns = now_ns;
	for (uint32_t i = 0; i < a->row_count; i++) {
		uint32_t row = a->row[i];
		const struct zn_proc *p = zn_arena_proc(a->arena, row);
		struct zn_activity_row *r = &t->row[row];

		if (!p)
			continue;
		if (r->id != p->id)
			*r = (struct zn_activity_row){.id = p->id, .wait_ns = waited_ns(a, row, p, now_ns)};
		else
			look_at(t, r, given_calls(a->arena, p), waited_ns(a, row, p, now_ns),
				k && zn_ranks_waited_for(k, row));
	}
}

const struct zn_activity_row *zn_activity_of(const struct zn_activity *t, uint32_t row, uint32_t id)
{
	return t->row[row].id == id ? &t->row[row] : NULL;
}
