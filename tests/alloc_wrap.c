/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alloc_wrap.c: linked into a test build of the daemon with --wrap for each allocator function: counts the
 * calls made while the daemon is ready, of the C library's own code too, as the link is static. At the end it
 * says how many there were, and the exit status is 70 if there was one. Memory that is taken with mmap() is not
 * seen.
 */
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"

#define EXIT_ALLOCATED 70

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__real_memalign(size_t align, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);
void *__wrap_memalign(size_t align, size_t size);

static uint64_t calls;
static void *first; /* where the first came from */

static void count(void *caller)
{
	if (__atomic_load_n(&zn_ready, __ATOMIC_RELAXED) && !__atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED))
		first = caller;
}

void *__wrap_malloc(size_t size)
{
	count(__builtin_return_address(0));
	return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	count(__builtin_return_address(0));
	return __real_calloc(n, size);
}

void *__wrap_realloc(void *at, size_t size)
{
	count(__builtin_return_address(0));
	return __real_realloc(at, size);
}

void *__wrap_memalign(size_t align, size_t size)
{
	count(__builtin_return_address(0));
	return __real_memalign(align, size);
}

__attribute__((destructor)) static void report(void)
{
	if (!calls)
		return;
	fprintf(stderr, "allocation after ready: %llu\n", (unsigned long long)calls);
	fprintf(stderr, "the first came from %p: addr2line -fe FILE %p\n", first, first);
	_exit(EXIT_ALLOCATED);
}
