/* SPDX-License-Identifier: GPL-2.0 */
/*
 * forks.c: forks COUNT processes that do nothing, for tests: forks COUNT. It begins when it reads a line, prints
 * "done", and ends with all of them when its input does. They share its memory, so that thousands of them are cheap.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define STACK 4096

static int wait_for_the_end(void *arg)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (getppid() == *(pid_t *)arg)
		pause();
	return 0;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void fork_all(int count)
{
	static pid_t own;
	char *stack = mmap(NULL, (size_t)count * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (stack == MAP_FAILED)
		die("mmap");
	own = getpid();
	for (int i = 0; i < count; i++)
		if (clone(wait_for_the_end, stack + (size_t)(i + 1) * STACK, CLONE_VM | SIGCHLD, &own) < 0)
			die("clone");
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc != 2 || !fgets(line, sizeof(line), stdin))
		return 1;
	fork_all(atoi(argv[1]));
	puts("done");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
