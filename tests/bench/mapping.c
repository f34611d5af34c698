/* SPDX-License-Identifier: GPL-2.0 */
/* mapping LIBRARY: maps a library and prints how long it took, us, until a probe stood in its code. */
#include "bench.h"

#define WAIT_NS    5000000000ULL
#define BREAKPOINT 0xcc

int main(int argc, char **argv)
{
	uint64_t start = now_ns();
	const volatile uint8_t *code;

	if (argc != 2)
		die("usage", "mapping LIBRARY");
	code = symbol(library_open(argv[1]), "cuLaunchKernel");
	while (*code != BREAKPOINT && now_ns() - start < WAIT_NS)
		pause_us(50);
	if (*code != BREAKPOINT)
		die(argv[1], "no probe came within 5 s");
	printf("%lu\n", (now_ns() - start) / 1000);
	return 0;
}
