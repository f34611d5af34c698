/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nest.c: calls the fake library through functions whose order is known, without frame pointers; two have names as of
 * C++. It does what the lines of its standard input say: "call" launches; "sleep" sleeps for 20 ms; "work" computes for
 * a while. As a library, nest_call() is what Python calls.
 * Arguments: the library; "thread": from a thread of its own.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP __attribute__((noinline, noclone, noipa))

typedef int launch(
	void *f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static launch *launch_kernel;
static volatile int sink;

int nest_inner(const void *a, const void *b) __asm__("_ZN4nest5inner7compareEPKvS2_");
void nest_middle(int n) __asm__("_ZN4nest6middleEi");
void nest_call(void *launch_at);
void nest_sleep(void);
void nest_work(void);
void nest_read(const char *line);

STEP int nest_inner(const void *a, const void *b)
{
	if (sink++ == 0)
		sink += launch_kernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	return *(const int *)a - *(const int *)b + sink * 0;
}

STEP void nest_middle(int n)
{
	int *list = __builtin_alloca(sizeof(int) * (unsigned)(n + 3));

	for (int i = 0; i < n + 3; i++)
		list[i] = -i;
	sink = 0;
	qsort(list, (unsigned)(n + 3), sizeof(int), nest_inner);
	sink = list[0];
}

STEP void nest_call(void *launch_at)
{
	*(void **)&launch_kernel = launch_at;
	nest_middle(1);
	sink++;
}

STEP void nest_sleep(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	sink++;
}

STEP void nest_work(void)
{
	struct timespec begin, now;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		for (int i = 0; i < 3000000; i++)
			sink += i;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begin.tv_sec < 1);
}

STEP void nest_read(const char *line)
{
	if (!strcmp(line, "call\n"))
		nest_call(*(void **)&launch_kernel);
	else if (!strcmp(line, "sleep\n"))
		nest_sleep();
	else if (!strcmp(line, "work\n"))
		nest_work();
	sink++;
}

static STEP void *nest_loop(void *arg)
{
	char line[64];

	(void)arg;
	while (fgets(line, sizeof(line), stdin)) {
		nest_read(line);
		puts("done");
		fflush(stdout);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	pthread_t thread;

	if (!library || !(*(void **)&launch_kernel = dlsym(library, "cuLaunchKernel")))
		return 2;
	puts("ready");
	fflush(stdout);
	if (argc > 2 && !pthread_create(&thread, NULL, nest_loop, NULL))
		pthread_join(thread, NULL);
	else
		nest_loop(NULL);
	return 0;
}
