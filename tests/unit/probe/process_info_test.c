/* SPDX-License-Identifier: GPL-2.0 */
/* process_info_test.c: whether a process has a GPU open: this very one, with files of its own, and one that may not be
 * looked at. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define NOBODY     65534
#define OTHER      60 /* a major number that no driver has */
#define MANY       4100
#define NULL_MAJOR 1
#define NULL_MINOR 3

static const uint64_t numbered[ZN_MAJOR_WORDS] = {1ULL << NULL_MAJOR};
static int files[MANY];

/* Of a process, if the driver of GPUs has that number; what minors says of it. */
static enum zn_open_gpus open_of(int pid, uint32_t major, uint64_t *minors)
{
	const uint64_t majors[ZN_MAJOR_WORDS] = {[0] = 1ULL << major};

	return zn_open_gpus(pid, majors, numbered, minors);
}

static void open_many(void)
{
	struct rlimit limit = {2 * MANY, 2 * MANY};

	if (setrlimit(RLIMIT_NOFILE, &limit))
		abort();
	for (int i = 0; i < MANY; i++)
		if ((files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) < 0)
			abort();
}

static void close_many(void)
{
	for (int i = 0; i < MANY; i++)
		close(files[i]);
}

T(a_device_that_is_open)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), path = open("/dev/null", O_PATH | O_CLOEXEC);
	uint64_t minors = ~0ULL;

	CHECK_EQ(open_of(getpid(), OTHER, &minors), ZN_OPEN_GPUS_NONE);
	CHECK_EQ(minors, 0);
	CHECK_EQ(open_of(getpid(), NULL_MAJOR, &minors), ZN_OPEN_GPUS_SOME);
	CHECK(minors & 1ULL << NULL_MINOR);
	close(path);
	close(fd);
}

/* That it has many is no proof that it has one, nor that it has none. */
T(more_files_than_are_looked_at)
{
	uint64_t minors;

	open_many();
	CHECK_EQ(open_of(getpid(), OTHER, &minors), ZN_OPEN_GPUS_UNKNOWN);
	CHECK_EQ(minors, 0);
	CHECK_EQ(open_of(getpid(), NULL_MAJOR, &minors), ZN_OPEN_GPUS_SOME);
	close_many();
	CHECK_EQ(open_of(getpid(), OTHER, &minors), ZN_OPEN_GPUS_NONE);
}

/* Process 1 is root's. */
T(files_that_may_not_be_read)
{
	uint64_t minors;
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(getuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) ? 99 : (int)open_of(1, OTHER, &minors));
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), ZN_OPEN_GPUS_UNKNOWN);
	CHECK_EQ(open_of(pid, OTHER, &minors), ZN_OPEN_GPUS_NONE); /* it has ended */
}

int main(void)
{
	RUN(a_device_that_is_open);
	RUN(more_files_than_are_looked_at);
	RUN(files_that_may_not_be_read);
	return t_end();
}
