/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cpus.c: which CPUs there are now, and whether one has been away: an administrator, or a job's prolog, may switch SMT
 * off and on again at any time. A perf event of a CPU that goes offline is dead from then on (kernel/events/core.c,
 * perf_event_exit_cpu()): it stays open, and neither poll() nor anything else says that nothing comes of it any more.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "zernel.h"

#define SYS_CPU    "/sys/devices/system/cpu/"
#define LIST_BYTES 4096

uint32_t zn_cpus_listed(const char *list)
{
	unsigned long first, last, count = 0;
	char *end;

	for (; isdigit((unsigned char)*list); list = *end == ',' ? end + 1 : end) {
		first = last = strtoul(list, &end, 10);
		if (*end == '-' && isdigit((unsigned char)end[1]))
			last = strtoul(end + 1, &end, 10);
		if (last < first || last >= UINT16_MAX)
			return 0;
		count += last - first + 1;
	}
	return *list && *list != '\n' ? 0 : (uint32_t)count;
}

uint32_t zn_cpus_online(void)
{
	char list[LIST_BYTES];
	uint32_t cpus = zn_file_read(SYS_CPU "online", list, sizeof(list)) > 0 ? zn_cpus_listed(list) : 0;

	/* which may tell those that we may use alone (musl) */
	return cpus ? cpus : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
}

uint64_t zn_cpus_stay(uint32_t cpu)
{
	char path[80];
	struct stat dir;

	/* made anew, with another number, each time that the CPU comes (drivers/base/topology.c) */
	snprintf(path, sizeof(path), SYS_CPU "cpu%u/topology", cpu);
	return stat(path, &dir) == 0 ? dir.st_ino : 0;
}
