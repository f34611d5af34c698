/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock.h: in place of log.c, for tests whose clock is their own: clock_ns is the monotonic one, BOOT_MS (0 unless it
 * is defined before) the wall clock when that began. Nothing is logged.
 */
#ifndef CLOCK_H
#define CLOCK_H

#include "zernel.h"

#ifndef BOOT_MS
#define BOOT_MS 0
#endif

static uint64_t clock_ns;
enum zn_level zn_log_level;
unsigned zn_log_burst;

void zn_log(enum zn_level level, const char *format, ...)
{
	(void)level, (void)format;
}

void zn_log_about(enum zn_level level, uint64_t subject, const char *format, ...)
{
	(void)level, (void)subject, (void)format;
}

uint64_t zn_log_lost(void)
{
	return 0;
}

uint64_t zn_now_ns(void)
{
	return clock_ns;
}

#define BOOT_ID "01234567-89ab-cdef-0123-456789abcdef"

static int64_t clock_step_ms; /* by which the wall clock was set */

uint64_t zn_wall_ms(void)
{
	return BOOT_MS + clock_ns / ZN_NS_PER_MS + (uint64_t)clock_step_ms;
}

void zn_moment_now(struct zn_moment *m)
{
	*m = (struct zn_moment){zn_wall_ms(), clock_ns / ZN_NS_PER_MS, BOOT_ID};
}

#endif
