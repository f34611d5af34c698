/* SPDX-License-Identifier: GPL-2.0 */
/*
 * caller LIBRARY: calls functions of a vendor's library, whatever they do, with arguments that are all 0; without a GPU
 * each returns an error at once. Reads lines "FUNCTION CALLS [POINTER]" and prints the result of the last call for
 * each, or "missing"; "ready" when it begins. POINTER: the first arguments, so many of them, point to zeros instead.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* As many as any of them takes: NCCL's id of 128 bytes goes over the stack by value. */
#define ZEROS_18 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
typedef int function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
	uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
	uint64_t);

static uint64_t zeros[1 << 16];

static void obey(void *library, const char *name, long calls, int pointers)
{
	function *call = (function *)(uintptr_t)dlsym(library, name);
	uint64_t arg[4];
	int result = 0;

	for (int i = 0; i < 4; i++)
		arg[i] = i < pointers ? (uintptr_t)zeros : 0;
	for (long i = 0; call && i < calls; i++)
		result = call(arg[0], arg[1], arg[2], arg[3], ZEROS_18);
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
	int pointers, given;
	long calls;

	if (!library) {
		fprintf(stderr, "caller: %s\n", argc == 2 ? dlerror() : "usage: caller LIBRARY");
		return EXIT_FAILURE;
	}
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		given = sscanf(line, "%127s %ld %d", name, &calls, &pointers);
		if (given >= 2)
			obey(library, name, calls, given == 3 ? pointers : 0);
	}
	return EXIT_SUCCESS;
}
