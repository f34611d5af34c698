/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ways_test.c: which way of its set is a thread's (zernel.h), where programs on a preemptible kernel took two for it.
 */
#include "t.h"
#include "zernel.h"

T(the_first_way_is_found_whatever_others_are)
{
	for (uint64_t found = 1; found < 1ULL << ZN_SCHED_WAYS; found++)
		CHECK_EQ(zn_sched_way_first(found), __builtin_ctzll(found));
}

/* As zn_sched_entry_only() gives back. */
T(the_other_one_of_two_ways_is_given_back)
{
	for (uint64_t a = 0; a < ZN_SCHED_WAYS; a++)
		for (uint64_t b = a + 1; b < ZN_SCHED_WAYS; b++) {
			uint64_t found = 1ULL << a | 1ULL << b;

			CHECK_EQ(zn_sched_way_first(found & (found - 1)), b);
		}
}

int main(void)
{
	RUN(the_first_way_is_found_whatever_others_are);
	RUN(the_other_one_of_two_ways_is_given_back);
	return t_end();
}
