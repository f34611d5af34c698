/* SPDX-License-Identifier: GPL-2.0 */
/* clock_test.c: the two clocks. */
#include <time.h>

#include "zernel.h"
#include "t.h"

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * ZN_NS_PER_S + (uint64_t)t.tv_nsec;
}

T(clocks)
{
	uint64_t before = clock_ns(CLOCK_MONOTONIC), now = zn_now_ns(), after = clock_ns(CLOCK_MONOTONIC);
	uint64_t wall_before = clock_ns(CLOCK_REALTIME), wall = zn_wall_ms(), wall_after = clock_ns(CLOCK_REALTIME);

	CHECK(before <= now && now <= after);
	CHECK(wall_before / ZN_NS_PER_MS <= wall && wall <= wall_after / ZN_NS_PER_MS);
}

int main(void)
{
	RUN(clocks);
	return t_end();
}
