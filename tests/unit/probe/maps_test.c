/* SPDX-License-Identifier: GPL-2.0 */
/*
 * maps_test.c: what the kernel's tables take on machines of any size (maps.c).
 */
#include "t.h"
#include "zernel.h"

#define MIB     (1 << 20)
#define CPU_MAX 1024 /* bytes of all tables for a further CPU, beside what tables have that follow from the CPUs */

/* With all families on, and every table full. */
T(tables_stay_within_their_limit)
{
	static const uint32_t cpus[] = {1, 2, 128, 256, 512};

	for (size_t i = 0; i < sizeof(cpus) / sizeof(cpus[0]); i++) {
		uint64_t bytes = zn_bpf_map_most(cpus[i], true);

		CHECK(bytes <= 40ULL * MIB);
		CHECK(bytes > 30ULL * MIB);
		if (bytes > 40ULL * MIB)
			printf("%u CPUs: %.2f MiB\n", cpus[i], (double)bytes / MIB);
	}
}

/* No table is there for each CPU. */
T(a_cpu_takes_little)
{
	CHECK(zn_bpf_map_most(1024, true) - zn_bpf_map_most(512, true) < 512 * CPU_MAX);
	CHECK(zn_bpf_map_most(1024, true) > zn_bpf_map_most(512, true));
}

/* Hashes whose memory is there from the start have no spare bytes of the kernel's sizes. */
T(old_kernels_take_no_more)
{
	CHECK(zn_bpf_map_most(512, false) <= zn_bpf_map_most(512, true) + 512 * CPU_MAX);
}

int main(void)
{
	RUN(tables_stay_within_their_limit);
	RUN(a_cpu_takes_little);
	RUN(old_kernels_take_no_more);
	return t_end();
}
