/* SPDX-License-Identifier: GPL-2.0 */
/* process_info_test.c: whether a process has a GPU open: this very one, with files of its own, and one that may not be
 * looked at; and which GPUs its environment names. */
#include <fcntl.h>
#include <signal.h>
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

/* What a process with that in its environment may see. */
static struct zn_visible visible_of(const char *value)
{
	static struct zn_process_info info;
	char entry[256], *environment[] = {entry, NULL}, byte;
	int started[2], tries = 0;
	pid_t pid;

	snprintf(entry, sizeof(entry), "CUDA_VISIBLE_DEVICES=%s", value);
	if (pipe2(started, O_CLOEXEC))
		abort();
	pid = fork();
	if (pid == 0) {
		execle("/bin/sleep", "sleep", "60", NULL, environment);
		_exit(1);
	}
	close(started[1]);
	CHECK_EQ(read(started[0], &byte, 1), 0);
	close(started[0]);
	do { /* the kernel closes descriptors before it says where the environment is */
		usleep(1000);
		memset(&info, 0, sizeof(info));
		zn_process_environ(pid, &info);
	} while (info.gone && tries++ < 60000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return info.cuda;
}

/* As the driver reads them: each like strtoul(), up to one that is none. */
static void lists(void)
{
	static const struct {
		const char *value;
		uint8_t count;
		int32_t index[5];
	} rows[] = {
		{"2,3", 2, {2, 3}},
		{"2, 3", 2, {2, 3}},
		{" 2 ,3 ", 2, {2, 3}},
		{"0, 1, 2, -1, 3", 3, {0, 1, 2}},
		{"1gpu2,2ampere", 2, {1, 2}},
		{"2, +3, -0, 5", 4, {2, 3, 0, 5}},
		{"1,,2", 1, {1}},
		{"1, ,2", 1, {1}},
		{"-1", 0, {0}},
		{"", 0, {0}},
		{"none", 0, {0}},
		{"1,99999999999999999999,2", 1, {1}},
		{"1,GPU-00000000-0000-0000-0000-000000000001,MIG-1,3", 4, {1, -1, -1, 3}},
		{"1,GPU-00000000-0000-0000-0000-000000000001-and-more,3", 1, {1}},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_visible v;

		t_begin(*rows[i].value ? rows[i].value : "empty");
		v = visible_of(rows[i].value);
		CHECK(v.set);
		CHECK_EQ(v.count, rows[i].count);
		for (uint8_t n = 0; n < v.count && n < rows[i].count; n++)
			CHECK_EQ(v.index[n], rows[i].index[n]);
	}
}

int main(void)
{
	RUN(a_device_that_is_open);
	RUN(more_files_than_are_looked_at);
	RUN(files_that_may_not_be_read);
	lists();
	return t_end();
}
