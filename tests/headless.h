/* SPDX-License-Identifier: GPL-2.0 */
/* headless.h: a process whose main thread ends and another one stays, as where one thread is stuck in a driver. */
#ifndef HEADLESS_H
#define HEADLESS_H

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"

static inline void *stay_behind(void *none)
{
	for (;;)
		pause();
	return none;
}

/* For a child, in place of its end. */
static inline void lose_main_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, stay_behind, NULL))
		_exit(1);
	pthread_exit(NULL);
}

static inline void wait_headless(pid_t pid)
{
	struct zn_procfs_stat stat;

	for (int n = 0; n < 60000; n++) {
		if (zn_procfs_stat("/proc", (uint32_t)pid, &stat) && zn_procfs_headless(&stat))
			return;
		usleep(1000);
	}
	abort();
}

#endif
