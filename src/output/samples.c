/* SPDX-License-Identifier: GPL-2.0 */
/* samples.c: what rules of alerts read: the metrics, sample by sample, and whose each process is. */
#include "zernel.h"

#define NOBODY 65534u

static void walk_metric(
	void *state, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(state, wanted->metric, sample, to);
}

/* /proc is asked once for each process. */
uint32_t zn_samples_owner(void *state, uint32_t pid)
{
	static struct {
		uint32_t id, owner;
	} known[ZN_PROCS_MAX];
	const struct zn_agg *a = ((const struct zn_state *)state)->agg;

	for (uint32_t r = 0; r < a->row_count; r++) {
		uint32_t row = a->row[r];
		const struct zn_proc *p = a->arena->shared->row_tgid[row] == pid ? zn_arena_proc(a->arena, row) : NULL;

		if (!p)
			continue;
		if (known[row].id != p->id) {
			known[row].id = p->id;
			known[row].owner = zn_owner_of((int)pid);
		}
		return known[row].owner;
	}
	return NOBODY;
}

struct zn_rule_source zn_samples_source(struct zn_state *state)
{
	return (struct zn_rule_source){walk_metric, state};
}
