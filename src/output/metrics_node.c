/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_node.c: sums over all processes of the node, those that have gone included: what a site that does not collect
 * processes would have to add up itself.
 */
#include "zernel.h"

void zn_metrics_node_counts(struct zn_walk *w)
{
	const struct zn_metric_counts *c = w->metric->arg;
	const struct zn_proc *p;

	for (uint32_t i = 0; i < c->count; i++) {
		uint64_t sum = w->state->agg->gone_count[c->first + i];

		ZN_EACH_PROC(w, r, p)
		sum += p->count[c->first + i];
		if (!sum)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, c->label, c->value[i]);
		zn_walk_scaled(w, sum, c->decimals);
	}
}

static uint64_t nccl_bytes(struct zn_walk *w, const struct zn_proc *p)
{
	uint64_t sum = 0;

	for (enum zn_operation i = ZN_H_NCCL_FIRST; i <= ZN_H_NCCL_LAST; i++) {
		const struct zn_hist *h = zn_arena_hist(w->state->agg->arena, p->hist[i]);

		sum += h ? h->bytes : 0;
	}
	return sum;
}

void zn_metrics_node_nccl_bytes(struct zn_walk *w)
{
	const struct zn_agg *agg = w->state->agg;
	const struct zn_proc *p;
	uint64_t sum = 0;

	for (enum zn_operation i = ZN_H_NCCL_FIRST; i <= ZN_H_NCCL_LAST; i++)
		sum += agg->gone[i].hist.bytes;
	ZN_EACH_PROC(w, r, p)
	sum += nccl_bytes(w, p);
	if (sum)
		zn_walk_one(w, sum, 0);
}
