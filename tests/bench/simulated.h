/* SPDX-License-Identifier: GPL-2.0 */
/* simulated.h: what a benchmark over simulated data has none of: a version, probes and libraries. One file includes
 * it. */
#ifndef ZN_BENCH_SIMULATED_H
#define ZN_BENCH_SIMULATED_H

#include "zernel.h"
#include "tests/no_libraries.h"

const char zn_version[] = "bench", zn_commit[] = "bench";
bool zn_ready;

uint64_t zn_stats_missed(struct zn_probe *p)
{
	(void)p;
	return 0;
}

#ifndef ZN_BENCH_CGROUPS /* who links them defines it */
#include "tests/no_cgroups.h"
#endif

uint64_t zn_stats_run_ns(struct zn_probe *p, uint32_t i, const char **name)
{
	(void)p, (void)i;
	*name = "";
	return 0;
}

#endif
