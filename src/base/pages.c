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

#define PIECE  4096
#define MAPPED (32 * 1024L) /* of the program around what is used */

static bool is_zero(const char *at, size_t len)
{
	return len == 0 || (at[0] == 0 && !memcmp(at, at + 1, len - 1));
}

/* Of `len` bytes, up to the next page. */
static size_t piece_of(const char *at, size_t len)
{
	size_t n = PIECE - (uintptr_t)at % PIECE;

	return n < len ? n : len;
}

void zn_pages_clear(void *at, size_t len)
{
	char *piece = at;

	for (size_t n; len; piece += n, len -= n) {
		n = piece_of(piece, len);
		if (!is_zero(piece, n))
			memset(piece, 0, n);
	}
}

void zn_pages_copy(void *to, const void *from, size_t len)
{
	char *piece = to;
	const char *source = from;

	for (size_t n; len; piece += n, source += n, len -= n) {
		n = piece_of(piece, len);
		if (memcmp(piece, source, n) != 0)
			memcpy(piece, source, n);
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

void zn_pages_drop(void *at, size_t len)
{
	drop_range(at, (char *)at + len);
}

extern const char __ehdr_start[]; /* by the linker: the program's own head, and what lies behind it */

/*
 * What is used of a file is mapped with all around it that is in memory, as far as the mapping goes: 64 KiB of it, and
 * from 6.18 on as much as lies together in memory, which may be all of the program. Neighbours of which one has an
 * advice and the other has not are two mappings.
 */
static void cut_range(char *from, const char *to)
{
	for (; from < to; from += 2 * MAPPED)
		madvise(from, to - from < MAPPED ? (size_t)(to - from) : MAPPED, MADV_NOHUGEPAGE);
}

/* What of it is used is mapped again from the file. Nothing that was written to is let go of. */
void zn_pages_drop_program(void)
{
	const ElfW(Ehdr) *head = (const void *)__ehdr_start;
	char *base = head->e_type == ET_DYN ? (char *)__ehdr_start : NULL;
	const ElfW(Phdr) *h = (const void *)(__ehdr_start + head->e_phoff);

	for (uint32_t i = 0; i < head->e_phnum; i++) {
		char *from = base + h[i].p_vaddr, *to = page_up(from + h[i].p_memsz, PIECE);

		if (h[i].p_type != PT_LOAD || h[i].p_flags & PF_W)
			continue;
		cut_range(from - (uintptr_t)from % PIECE, to);
		drop_range(from, to);
	}
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

bool zn_pages_joined(pthread_t thread, int seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
}
