/* SPDX-License-Identifier: GPL-2.0 */
/* clock.c: the clocks, and a moment by all of them that outlive the daemon. */
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "zernel.h"

uint64_t zn_now_ns(void)
{
	return zn_clock_ns(CLOCK_MONOTONIC);
}

static const char *boot_id(void)
{
	static char id[ZN_BOOT_BYTES];
	int fd = id[0] ? -1 : open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && read(fd, id, sizeof(id) - 1) != sizeof(id) - 1)
		id[0] = '\0';
	if (fd >= 0)
		close(fd);
	return id;
}

void zn_moment_now(struct zn_moment *m)
{
	m->wall_ms = zn_wall_ms();
	m->uptime_ms = zn_clock_ns(CLOCK_BOOTTIME) / ZN_NS_PER_MS;
	snprintf(m->boot, sizeof(m->boot), "%s", boot_id());
}

uint64_t zn_wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / ZN_NS_PER_MS;
}
