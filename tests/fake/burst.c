/* SPDX-License-Identifier: GPL-2.0 */
/*
 * burst.c: many processes that launch kernels, for tests: burst LIBCUDA CHILDREN CALLS [AT_ONCE].
 *
 * It prints "ready", and "done" after each line that it read and acted upon; it ends when there are no more lines.
 * With AT_ONCE a line makes CHILDREN processes, so many of them alive at one time, that make CALLS launches each
 * and end. Without it CHILDREN processes are there from the start, and at each line each of them makes CALLS
 * launches. Nobody has a context, so each launch returns an error, and only launches are made.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api.h"

#define NO_CONTEXT   201
#define CHILDREN_MAX 65536

static int(*launch) LAUNCH_ARGS;

/* What all processes share. Each round begins and ends with everybody at the barrier. */
static struct {
	pthread_barrier_t barrier;
	bool stop;
} * all;

static void die(const char *what)
{
	fprintf(stderr, "burst: %s\n", what);
	exit(1);
}

static void load(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*init)(unsigned flags);

	if (!library)
		die(dlerror());
	*(void **)&init = dlsym(library, "cuInit");
	*(void **)&launch = dlsym(library, "cuLaunchKernel");
	if (!init || !launch || init(0))
		die("cannot use the library");
}

static void make_calls(int calls)
{
	while (calls-- > 0)
		if (launch(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) != NO_CONTEXT)
			_exit(1);
}

static void reap(void)
{
	int status;

	if (wait(&status) < 0 || status)
		die("a child failed");
}

/* A new process, which ends with its parent; true in the child. */
static bool child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork");
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid == 0;
}

static void come_and_go(int children, int calls, int at_once)
{
	int i;

	for (i = 0; i < children; i++) {
		if (i >= at_once)
			reap();
		if (child()) {
			make_calls(calls);
			_exit(0);
		}
	}
	for (i = 0; i < children && i < at_once; i++)
		reap();
}

static void stay(int calls)
{
	for (;;) {
		pthread_barrier_wait(&all->barrier);
		if (all->stop)
			_exit(0);
		make_calls(calls);
		pthread_barrier_wait(&all->barrier);
	}
}

static void stay_begin(int children, int calls)
{
	pthread_barrierattr_t attr;
	int i;

	all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED || pthread_barrierattr_init(&attr) ||
		pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) ||
		pthread_barrier_init(&all->barrier, &attr, (unsigned)children + 1))
		die("cannot make a barrier");
	for (i = 0; i < children; i++)
		if (child())
			stay(calls);
}

static void stay_end(int children)
{
	all->stop = true;
	pthread_barrier_wait(&all->barrier);
	while (children-- > 0)
		reap();
}

static int number(const char *text)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (*end || n < 1 || n > CHILDREN_MAX)
		die("not a number that is possible here");
	return (int)n;
}

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int children, calls, at_once;
	char line[16];

	if (argc < 4 || argc > 5)
		die("usage: burst LIBCUDA CHILDREN CALLS [AT_ONCE]");
	load(argv[1]);
	children = number(argv[2]);
	calls = number(argv[3]);
	at_once = argc > 4 ? number(argv[4]) : 0;
	if (!at_once)
		stay_begin(children, calls);
	for (say("ready"); fgets(line, sizeof(line), stdin); say("done")) {
		if (at_once) {
			come_and_go(children, calls, at_once);
			continue;
		}
		pthread_barrier_wait(&all->barrier);
		pthread_barrier_wait(&all->barrier);
	}
	if (!at_once)
		stay_end(children);
	return 0;
}
