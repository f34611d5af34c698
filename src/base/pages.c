/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pages.c: keeps out of memory what is not needed: large tables that are zero already, and what threads do not use of
 * their stacks.
 */
#include "zernel.h"
#include <sys/mman.h>
#include <unistd.h>

#define PIECE 4096

static bool is_zero(const char *at, size_t len)
{
	return len == 0 || (at[0] == 0 && !memcmp(at, at + 1, len - 1));
}

void zn_pages_clear(void *at, size_t len)
{
	for (size_t done = 0, n; done < len; done += n) {
		char *piece = (char *)at + done;

		n = PIECE - (uintptr_t)piece % PIECE;
		if (n > len - done)
			n = len - done;
		if (!is_zero(piece, n))
			memset(piece, 0, n);
	}
}

static char *page_up(char *at, size_t page)
{
	return at + (page - (uintptr_t)at % page) % page;
}

/* Whole pages of a range. */
static void drop_range(char *from, char *to)
{
	size_t page = sysconf(_SC_PAGESIZE);

	from = page_up(from, page);
	to -= (uintptr_t)to % page;
	if (from < to)
		madvise(from, (size_t)(to - from), MADV_DONTNEED);
}

/* Pages that were cleared and not written to since; only the calling thread uses them. */
static void drop_zero(char *from, const char *to)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *first;

	for (from = page_up(from, page); from + page <= to; from += page) {
		first = from;
		while (from + page <= to && is_zero(from, page))
			from += page;
		drop_range(first, from);
	}
}

#define OF_LIBRARY (2 * PIECE) /* at the end: the C library's own of a thread, which others write to */

void zn_pages_drop_stack(void)
{
	char *here = __builtin_frame_address(0), *low, *high;
	pthread_attr_t attr;
	void *stack;
	size_t bytes;

	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	if (pthread_attr_getstack(&attr, &stack, &bytes) == 0) {
		low = stack;
		high = low + bytes;
		if (here > low + 2 * PIECE && here < high) {
			drop_range(low, here - 2 * PIECE); /* but for callees of this one */
			drop_zero(here + PIECE, high - OF_LIBRARY);
		}
	}
	pthread_attr_destroy(&attr);
}
