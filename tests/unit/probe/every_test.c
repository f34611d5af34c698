/* SPDX-License-Identifier: GPL-2.0 */
/*
 * every_test.c: one in how many calls is walked (every.c): what it costs, how it falls, what is marked for it.
 */
#include "zernel.h"
#include "t.h"

#define ROUND_NS ((uint64_t)ZN_WALKER_ROUND_MS * 1000000)
#define LAUNCHES (1u << ZN_LEAF_LAUNCH)

static struct zn_every last;
static struct zn_python r;

static void start(void)
{
	last = (struct zn_every){0};
	r = (struct zn_python){.every = {1, 1, 1}};
}

/* A round with so many launches, and walks of so many ns each. */
static uint32_t round_of(uint64_t launches, uint64_t walks, uint64_t walk_ns, uint64_t elapsed_ns)
{
	r.all[ZN_LEAF_LAUNCH].count += launches;
	r.walks += walks;
	r.walk_ns += walks * walk_ns;
	return zn_every_adapt(&last, &r, elapsed_ns);
}

T(few_are_all_walked)
{
	start();
	CHECK_EQ(round_of(10, 10, 2000, ROUND_NS), 0);
	CHECK_EQ(r.every[ZN_EVERY_LAUNCH], 1);
	CHECK_EQ(r.every[ZN_EVERY_SLEEP], 1); /* its logarithm, and 1 */
}

/* 50 us a round buy 25 walks of 2 us: of 5,000 launches one in 200 is walked. */
T(many_are_passed_over_and_marked)
{
	start();
	CHECK_EQ(round_of(5000, 5000, 2000, ROUND_NS), LAUNCHES);
	CHECK_EQ(r.every[ZN_EVERY_LAUNCH], 200);
	CHECK_EQ(r.every[ZN_EVERY_OTHER], 1);
}

/* Walks that cost more than the budget are 10 a round all the same. */
T(some_are_walked_whatever_it_costs)
{
	start();
	round_of(5000, 5000, 1000000, ROUND_NS);
	CHECK_EQ(r.every[ZN_EVERY_LAUNCH], 500);
}

/* After a storm it is walked more often by and by, and not all at once: the next one may come. */
T(falls_by_half)
{
	start();
	round_of(5000, 5000, 2000, ROUND_NS);
	round_of(0, 0, 0, ROUND_NS);
	CHECK_EQ(r.every[ZN_EVERY_LAUNCH], 100);
	for (int i = 0; i < 8; i++)
		round_of(0, 0, 0, ROUND_NS);
	CHECK_EQ(r.every[ZN_EVERY_LAUNCH], 1);
	CHECK_EQ(round_of(0, 0, 0, ROUND_NS), 0);
}

/* A round that comes late has more launches, and no more of them a second. */
T(a_late_round_is_no_storm)
{
	start();
	round_of(50000, 50000, 2000, 10 * ROUND_NS);
	CHECK_EQ(r.every[ZN_EVERY_LAUNCH], 200);
}

T(is_bounded)
{
	start();
	round_of(UINT64_MAX / (ROUND_NS / 1000), 1, 2000, ROUND_NS);
	CHECK_EQ(r.every[ZN_EVERY_LAUNCH], 1 << 20);
}

/* Sleeps are told by powers of two; where none is walked, none comes to be. */
T(sleeps)
{
	start();
	r.all[ZN_LEAF_DATA].count = 5000;
	r.walks = 1, r.walk_ns = 2000;
	CHECK(zn_every_adapt(&last, &r, ROUND_NS) >> ZN_LEAF_DATA & 1);
	CHECK_EQ(r.every[ZN_EVERY_SLEEP], 9);
	start();
	r.every[ZN_EVERY_SLEEP] = 0;
	r.all[ZN_LEAF_DATA].count = 5000;
	CHECK_EQ(zn_every_adapt(&last, &r, ROUND_NS), 0);
	CHECK_EQ(r.every[ZN_EVERY_SLEEP], 0);
}

int main(void)
{
	RUN(few_are_all_walked);
	RUN(many_are_passed_over_and_marked);
	RUN(some_are_walked_whatever_it_costs);
	RUN(falls_by_half);
	RUN(a_late_round_is_no_storm);
	RUN(is_bounded);
	RUN(sleeps);
	return t_end();
}
