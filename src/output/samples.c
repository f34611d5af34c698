/* SPDX-License-Identifier: GPL-2.0 */
/* samples.c: what rules of alerts read: the metrics, sample by sample, and whose each process is. */
#include "zernel.h"

#define NOBODY 65534u

static void walk_metric(
	void *state, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(state, wanted->metric, sample, to);
}

/* One that waits for this rank, whose process has ended; 0: nobody does. */
static uint32_t waiter_for(const struct zn_state *state, uint32_t pid)
{
	const struct zn_ranks *k = state->ranks;

	for (uint32_t slot = 0; k && slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = zn_arena_skew(state->agg->arena, slot);

		for (uint32_t i = 0; s && i < ZN_SKEW_RANKS && i < s->members; i++)
			if (k->missing[slot][i].waiters && k->missing[slot][i].tgid == pid)
				return s->member[__builtin_ctz(k->missing[slot][i].waiters)].tgid;
	}
	return 0;
}

/* Of a process with a row; /proc is asked once for each. */
static bool owner_of(const struct zn_agg *a, uint32_t pid, uint32_t *owner)
{
	static struct {
		uint32_t id, owner;
	} known[ZN_PROCS_MAX];

	for (uint32_t r = 0; r < a->row_count; r++) {
		uint32_t row = a->row[r];
		const struct zn_proc *p = a->arena->shared->row_tgid[row] == pid ? zn_arena_proc(a->arena, row) : NULL;

		if (!p)
			continue;
		if (known[row].id != p->id) {
			known[row].id = p->id;
			known[row].owner = zn_owner_of((int)pid);
		}
		*owner = known[row].owner;
		return true;
	}
	return false;
}

uint32_t zn_samples_owner(void *state, uint32_t pid)
{
	const struct zn_state *s = state;
	uint32_t owner = NOBODY;

	if (!owner_of(s->agg, pid, &owner))
		owner_of(s->agg, waiter_for(s, pid), &owner);
	return owner;
}

struct zn_rule_source zn_samples_source(struct zn_state *state)
{
	return (struct zn_rule_source){walk_metric, state};
}
