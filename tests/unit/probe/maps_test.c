/* SPDX-License-Identifier: GPL-2.0 */
/*
 * maps_test.c: what the kernel's tables take on machines of any size, and what its types say (maps.c).
 */
#include <bpf/btf.h>

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

/* The types of a kernel whose event of a completion has these arguments behind the tracepoint's own: p, a pointer; u, a
 * u64, which is a typedef; i, an int. NULL: it has no such event. */
static bool is_ring_named(const char *arguments)
{
	struct btf *types = btf__new_empty();
	int number = btf__add_int(types, "unsigned long long", 8, 0), word = btf__add_typedef(types, "u64", number);
	int pointer = btf__add_ptr(types, 0), proto;
	bool named;

	if (arguments) {
		proto = btf__add_func_proto(types, 0);
		btf__add_func_param(types, "__data", pointer);
		for (const char *at = arguments; *at; at++)
			btf__add_func_param(types, "", *at == 'p' ? pointer : *at == 'u' ? word : number);
		btf__add_typedef(types, "btf_trace_io_uring_complete", btf__add_ptr(types, proto));
	}
	named = zn_bpf_ring_named(types);
	btf__free(types);
	return named;
}

/* What a program gives is no address. */
T(a_completion_names_its_request_or_does_not)
{
	CHECK(!is_ring_named("pui"));    /* 5.10 */
	CHECK(!is_ring_named("puii"));   /* 5.15 */
	CHECK(is_ring_named("ppuiiuu")); /* 5.18 */
	CHECK(is_ring_named("ppp"));     /* 6.16 */
	CHECK(is_ring_named("p"));
	CHECK(is_ring_named(NULL));
}

int main(void)
{
	RUN(a_completion_names_its_request_or_does_not);
	RUN(tables_stay_within_their_limit);
	RUN(a_cpu_takes_little);
	RUN(old_kernels_take_no_more);
	return t_end();
}
