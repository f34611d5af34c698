/* SPDX-License-Identifier: GPL-2.0 */
/* descriptors.h: a program that is left without a free descriptor for a while. Those that are open stay so. Needs t.h. */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include <sys/resource.h>

static struct rlimit descriptors;

static inline void no_descriptors(void)
{
	struct rlimit none;

	CHECK_EQ(getrlimit(RLIMIT_NOFILE, &descriptors), 0);
	none = (struct rlimit){0, descriptors.rlim_max};
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static inline void descriptors_again(void)
{
	CHECK_EQ(setrlimit(RLIMIT_NOFILE, &descriptors), 0);
}
#endif
