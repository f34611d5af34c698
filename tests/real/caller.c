/* SPDX-License-Identifier: GPL-2.0 */
/*
 * caller LIBRARY: calls functions of a vendor's library, whatever they do, with arguments that are all 0; without a GPU each
 * returns an error at once. Reads lines "FUNCTION CALLS" and prints the result of the last call for each, or "missing";
 * "ready" when it begins.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* As many as any of them takes: NCCL's id of 128 bytes goes over the stack by value. */
#define ZEROS_22 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
typedef int function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
	uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
	uint64_t);

static void obey(void *library, const char *name, long calls)
{
	function *call = (function *)(uintptr_t)dlsym(library, name);
	int result = 0;

	for (long i = 0; call && i < calls; i++)
		result = call(ZEROS_22);
	if (call)
		printf("%s %d\n", name, result);
	else
		printf("%s missing\n", name);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	char line[256], name[128];
	long calls;

	if (!library) {
		fprintf(stderr, "caller: %s\n", argc == 2 ? dlerror() : "usage: caller LIBRARY");
		return EXIT_FAILURE;
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		if (sscanf(line, "%127s %ld", name, &calls) == 2)
			obey(library, name, calls);
	return EXIT_SUCCESS;
}
