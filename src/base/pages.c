/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pages.c: keeps out of memory what is not needed: large tables that are zero already, what threads do not use of their
 * stacks, and what of the program runs at its start alone.
 */
#include "zernel.h"
#include <link.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

/* The tables are large and hold little: a page of 2 MiB for each place that is touched makes 45 MiB of 4. */
void zn_pages_small(void)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
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

extern const char __ehdr_start[]; /* by the linker: the program's own head, and what lies behind it */

/* What of it is used is mapped again from the file, in pieces of 64 KiB. Nothing that was written to is let go of. */
void zn_pages_drop_program(void)
{
	const ElfW(Ehdr) *head = (const void *)__ehdr_start;
	char *base = head->e_type == ET_DYN ? (char *)__ehdr_start : NULL;
	const ElfW(Phdr) *h = (const void *)(__ehdr_start + head->e_phoff);

	for (uint32_t i = 0; i < head->e_phnum; i++)
		if (h[i].p_type == PT_LOAD && !(h[i].p_flags & PF_W))
			drop_range(base + h[i].p_vaddr, page_up(base + h[i].p_vaddr + h[i].p_memsz, PIECE));
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

struct begin {
	void *(*run)(void *);
	void *arg;
	sem_t dropped;
};

static void *begin_thread(void *to)
{
	struct begin *b = to;
	void *(*run)(void *) = b->run;
	void *arg = b->arg;

	zn_pages_drop_stack();
	sem_post(&b->dropped); /* from here on there is no b */
	return run(arg);
}

int zn_pages_thread(pthread_t *thread, void *(*run)(void *), void *arg)
{
	struct begin b = {.run = run, .arg = arg};
	int err;

	sem_init(&b.dropped, 0, 0);
	err = -pthread_create(thread, NULL, begin_thread, &b);
	while (!err && sem_wait(&b.dropped))
		;
	sem_destroy(&b.dropped);
	return err;
}
