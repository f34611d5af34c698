/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pages_test.c: memory that is not needed (pages.c).
 */
#include "resident.h"
#include "t.h"
#include "zernel.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PAGES 64
#define LARGE (32UL << 20)

/* Zero afterwards, from any byte to any other, and nothing beside it is touched; what was zero is not taken. */
T(clears_what_is_not_zero)
{
	char *at = mmap(NULL, PAGES * 4096UL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	memset(at + 4096, 7, 3 * 4096);
	zn_pages_clear(at + 4097, 3 * 4096 - 2);
	CHECK(at[4096] == 7 && at[4 * 4096 - 1] == 7);
	for (uint32_t i = 4097; i < 4 * 4096 - 1; i++)
		if (at[i])
			CHECK_EQ(i, 0);
	munmap(at, PAGES * 4096UL);
}

/* Equal afterwards, from any byte to any other, and nothing beside it is touched; a page that was equal is not taken. */
T(copies_what_differs)
{
	char *to = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *from = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before;

	CHECK(to != MAP_FAILED && from != MAP_FAILED);
	madvise(to, LARGE, MADV_NOHUGEPAGE);
	madvise(from, LARGE, MADV_NOHUGEPAGE);
	memset(from, 5, 4 * 4096);
	before = resident_bytes();
	zn_pages_copy(to + 3, from + 3, LARGE - 7);
	CHECK(resident_bytes() < before + LARGE / 4);
	CHECK(!to[2] && !memcmp(to + 3, from + 3, LARGE - 3));
	memset(from, 6, 4096);
	zn_pages_copy(to, from + 4000, 90);
	CHECK(to[89] == 6 && to[90] == 5);
	munmap(to, LARGE);
	munmap(from, LARGE);
}

static __thread char own[16 * 4096], used[4096];

static void *run_thread(void *to)
{
	uint32_t *sum = to;

	own[8 * 4096] = 5;
	memset(used, 3, sizeof(used));
	zn_pages_drop_stack();
	for (size_t i = 0; i < sizeof(own); i++)
		*sum += (uint8_t)own[i];
	for (size_t i = 0; i < sizeof(used); i++)
		*sum += (uint8_t)used[i];
	return NULL;
}

/* A thread finds its variables as they were, and its stack is whole. */
T(variables_of_a_thread_stay)
{
	pthread_t thread;
	uint32_t sum = 0;

	CHECK_EQ(pthread_create(&thread, NULL, run_thread, &sum), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(sum, 5 + 3 * 4096);
}

T(what_is_zero_is_not_taken)
{
	char *at = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before = resident_bytes();

	CHECK(at != MAP_FAILED && before > 0);
	madvise(at, LARGE, MADV_NOHUGEPAGE);
	zn_pages_clear(at, LARGE);
	CHECK(resident_bytes() < before + LARGE / 4);
	memset(at, 1, LARGE);
	CHECK(resident_bytes() > before + LARGE / 2);
	munmap(at, LARGE);
}

static size_t resident_of_files(void)
{
	char line[256];
	size_t kib = 0;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "RssFile: %zu", &kib);
	if (f)
		fclose(f);
	return kib;
}

/* KiB of the mappings that begin within a range, exactly. */
static size_t mapped_kib(const char *from, const char *to)
{
	char line[512];
	unsigned long begin = 0, end;
	size_t kib = 0, n;
	FILE *f = fopen("/proc/self/smaps", "re");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx ", &begin, &end) != 2 && sscanf(line, "Rss: %zu", &n) == 1 &&
			begin >= (unsigned long)from && begin < (unsigned long)to)
			kib += n;
	if (f)
		fclose(f);
	return kib;
}

static const char constants[1 << 20] = {1};
static int written = 7;

/* Less of the file is in memory; what was written stays, and the code runs on. */
T(program_is_given_back)
{
	const volatile char *at = constants;
	size_t before;
	int sum = 0;

	for (size_t i = 0; i < sizeof(constants); i += 4096)
		sum += at[i];
	before = resident_of_files();
	written = 11;
	zn_pages_drop_program();
	CHECK(resident_of_files() < before - 512);
	CHECK_EQ(written + sum + at[0], 13);
	CHECK(zn_bucket_of(128) == 1);
}

/* A byte that is used brings back what is around it, and no more; mappings begin each 32 KiB. */
T(what_is_used_comes_back_alone)
{
	const volatile char *at = constants;
	const char *from = constants + 65536, *to = constants + sizeof(constants) - 65536;
	int sum = 0;

	for (size_t i = 0; i < sizeof(constants); i += 4096)
		sum += at[i];
	zn_pages_drop_program();
	CHECK_EQ(mapped_kib(from, to), 0);
	sum += at[sizeof(constants) / 2];
	CHECK(mapped_kib(from, to) > 0);
	CHECK(mapped_kib(from, to) <= 32);
	CHECK_EQ(sum, 1);
}

/* Where pages of 2 MiB are the rule, a table of 16 MiB with one byte written has one page. */
T(pages_are_small)
{
	char *at;
	size_t before;

	zn_pages_small();
	CHECK_EQ(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 1);
	at = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(at != MAP_FAILED);
	madvise(at, LARGE, MADV_HUGEPAGE);
	before = resident_bytes();
	at[LARGE / 2] = 1;
	CHECK(resident_bytes() < before + (1 << 20));
	munmap(at, LARGE);
}

int main(void)
{
	RUN(clears_what_is_not_zero);
	RUN(copies_what_differs);
	RUN(variables_of_a_thread_stay);
	RUN(what_is_zero_is_not_taken);
	RUN(program_is_given_back);
	RUN(what_is_used_comes_back_alone);
	RUN(pages_are_small);
	return t_end();
}
