/* SPDX-License-Identifier: GPL-2.0 */
/*
 * every.c: one in how many calls and sleeps of a process is walked, so that walks keep to a small part of a thread.
 * It is said anew for each round of the walker.
 */
#include "zernel.h"

#define BUDGET_NS   50000 /* for walks of one kind, of a process, in a round: twice that at most, 0.1 % of a thread */
#define WALKS_LEAST 10    /* of one kind in a round: twice that at most */
#define EVERY_MOST  (1 << 20)
#define WALK_NS     1000 /* of a walk, as long as none was measured */

/* One in so many that walks take no more than their budget; it falls by half at most from round to round. */
static uint32_t every_of(uint32_t before, uint64_t calls, uint64_t walk_ns)
{
	uint64_t most = walk_ns ? BUDGET_NS / walk_ns : BUDGET_NS, every;

	every = calls / (most > WALKS_LEAST ? most : WALKS_LEAST);
	if (every < before / 2)
		every = before / 2;
	return every < 1 ? 1 : every > EVERY_MOST ? EVERY_MOST : (uint32_t)every;
}

/* A power of two, by its logarithm and 1: a sleeper keeps it in few bits. */
static uint32_t sleep_every(uint32_t before, uint64_t sleeps, uint64_t walk_ns)
{
	uint32_t every = every_of(before ? 1u << (before - 1) : 1, sleeps, walk_ns), log = 0;

	while (1u << log < every)
		log++;
	return log + 1;
}

static uint64_t count_of(const struct zn_python *r, int from, int to)
{
	uint64_t sum = 0;

	for (int leaf = from; leaf <= to; leaf++)
		sum += r->all[leaf].count;
	return sum;
}

/* The last round may have been long ago on a busy machine. */
static uint64_t per_round(uint64_t calls, uint64_t elapsed_ns)
{
	return calls * (ZN_WALKER_ROUND_MS * ZN_NS_PER_MS / 1000) / (elapsed_ns / 1000);
}

static uint32_t estimated_leaves(const struct zn_python *r)
{
	uint32_t launch = 1u << ZN_LEAF_LAUNCH, sleeps = ((1u << ZN_LEAF_COUNT) - 1) & ~((1u << ZN_LEAF_DATA) - 1);
	uint32_t others = ((1u << ZN_LEAF_CPU) - 1) & ~launch, estimated = 0;

	estimated |= r->every[ZN_EVERY_LAUNCH] > 1 ? launch : 0;
	estimated |= r->every[ZN_EVERY_OTHER] > 1 ? others : 0;
	estimated |= r->every[ZN_EVERY_SLEEP] > 1 ? sleeps : 0;
	return estimated;
}

uint32_t zn_every_adapt(struct zn_every *last, struct zn_python *r, uint64_t elapsed_ns)
{
	uint64_t launches = r->all[ZN_LEAF_LAUNCH].count;
	uint64_t others = count_of(r, ZN_LEAF_LAUNCH + 1, ZN_LEAF_CPU - 1);
	uint64_t sleeps = count_of(r, ZN_LEAF_DATA, ZN_LEAF_OTHER);
	uint64_t walks = r->walks - last->walks, walk_ns = walks ? (r->walk_ns - last->walk_ns) / walks : WALK_NS;

	r->every[ZN_EVERY_LAUNCH] =
		every_of(r->every[ZN_EVERY_LAUNCH], per_round(launches - last->launches, elapsed_ns), walk_ns);
	r->every[ZN_EVERY_OTHER] =
		every_of(r->every[ZN_EVERY_OTHER], per_round(others - last->others, elapsed_ns), walk_ns);
	if (r->every[ZN_EVERY_SLEEP])
		r->every[ZN_EVERY_SLEEP] =
			sleep_every(r->every[ZN_EVERY_SLEEP], per_round(sleeps - last->sleeps, elapsed_ns), walk_ns);
	*last = (struct zn_every){launches, others, sleeps, last->walks + walks, r->walk_ns};
	return estimated_leaves(r);
}
