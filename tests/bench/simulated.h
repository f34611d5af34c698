/* SPDX-License-Identifier: GPL-2.0 */
/* simulated.h: what a benchmark over simulated data has none of: a version, probes and libraries. One file includes it. */
#ifndef ZN_BENCH_SIMULATED_H
#define ZN_BENCH_SIMULATED_H

#include "zernel.h"

const char zn_version[] = "bench", zn_commit[] = "bench";
bool zn_ready;

uint64_t zn_stats_missed(struct zn_probe *p)
{
	(void)p;
	return 0;
}

#ifndef ZN_BENCH_CGROUPS /* who links them defines it */
int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a, (void)slot, (void)path, (void)why;
	return -1;
}
#endif

uint64_t zn_stats_run_ns(struct zn_probe *p, uint32_t i, const char **name)
{
	(void)p, (void)i;
	*name = "";
	return 0;
}

struct zn_libraries *zn_find_libraries(struct zn_find *f)
{
	(void)f;
	return NULL;
}

bool zn_libraries_hang(struct zn_libraries *l, struct zn_hang *to)
{
	(void)l, (void)to;
	return false;
}

void zn_libraries_visit(struct zn_libraries *l, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	(void)l, (void)visit, (void)to;
}

#endif
