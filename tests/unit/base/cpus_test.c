/* SPDX-License-Identifier: GPL-2.0 */
/* cpus_test.c: lists of CPUs as /sys has them, and the CPUs of this machine (cpus.c). */
#include <unistd.h>

#include "t.h"
#include "zernel.h"

T(lists)
{
	static const struct {
		const char *list;
		uint32_t count;
	} rows[] = {{"0-3,8\n", 5}, {"7\n", 1}, {"\n", 0}, {"", 0}, {"3-1\n", 0}, {"0-\n", 0}, {"a\n", 0}, {"1,\n", 1},
		{"0-99999999999999999999\n", 0}, {"-1\n", 0}, {"0-511\n", 512}, {"0;1\n", 0}};

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		CHECK_EQ(zn_cpus_listed(rows[i].list), rows[i].count);
}

/* That the number of a stay is another one after it is held against a CPU that goes, in a virtual machine. */
T(this_machine)
{
	uint64_t stay = zn_cpus_stay(0);

	CHECK_EQ(zn_cpus_online(), sysconf(_SC_NPROCESSORS_ONLN));
	CHECK(stay != 0);
	CHECK_EQ(zn_cpus_stay(0), stay);
	CHECK_EQ(zn_cpus_stay(UINT16_MAX), 0);
}

int main(void)
{
	RUN(lists);
	RUN(this_machine);
	return t_end();
}
