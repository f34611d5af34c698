/* SPDX-License-Identifier: GPL-2.0 */
/* resident.h: how much memory the test itself has. The kernel may leave out some pages that it has not added up yet. */
#ifndef RESIDENT_H
#define RESIDENT_H

#include <stdio.h>
#include <unistd.h>

static inline size_t resident_bytes(void)
{
	size_t all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (f && fscanf(f, "%zu %zu", &all, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

#endif
