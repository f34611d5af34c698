/* SPDX-License-Identifier: GPL-2.0 */
/*
 * storm LIBRARY: a process that uses a GPU and does one thing as often as it can. Each line is what to do, and how
 * often: "reads", "calls", "switches" or "launches", and a number; it answers with the ns that it took.
 */
#include "bench.h"
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static int (*launch)(
	void *f, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
static int file, there[2], back[2];

static void *echo(void *count)
{
	char byte;

	for (long i = *(long *)count; i > 0 && read(there[0], &byte, 1) == 1; i--)
		if (write(back[1], &byte, 1) != 1)
			break;
	return NULL;
}

static void do_switches(long count)
{
	pthread_t other;
	char byte = 0;

	if (pthread_create(&other, NULL, echo, &count))
		die("pthread_create", "no thread");
	for (long i = 0; i < count; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			die("pipe", "is cut");
	pthread_join(other, NULL);
}

static void do_many(const char *what, long count)
{
	char byte;

	if (!strcmp(what, "switches"))
		do_switches(count);
	for (long i = 0; i < count && !strcmp(what, "reads"); i++)
		if (pread(file, &byte, 1, 0) != 1)
			die("pread", "cannot read");
	for (long i = 0; i < count && !strcmp(what, "calls"); i++)
		if (read(-1, &byte, 0) == 0)
			die("read", "should fail");
	for (long i = 0; i < count && !strcmp(what, "launches"); i++)
		launch(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL);
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? library_open(argv[1]) : NULL;
	int (*init)(unsigned) = library ? (int (*)(unsigned))dlsym(library, "cuInit") : NULL;
	char line[64], what[32];
	long count;

	launch = library ? dlsym(library, "cuLaunchKernel") : NULL;
	file = open(argv[0], O_RDONLY);
	if (!init || !launch || init(0) || file < 0 || pipe(there) || pipe(back))
		die("storm", "usage: storm LIBRARY");
	while (fgets(line, sizeof(line), stdin) && sscanf(line, "%31s %ld", what, &count) == 2) {
		uint64_t start_ns = now_ns();

		do_many(what, count);
		printf("%llu\n", (unsigned long long)(now_ns() - start_ns));
		fflush(stdout);
	}
	return 0;
}
