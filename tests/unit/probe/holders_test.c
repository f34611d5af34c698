/* SPDX-License-Identifier: GPL-2.0 */
/* holders_test.c: which processes are said to have a GPU open: users' that this program starts, with /dev/null in the
 * place of one. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"
#include "descriptors.h"
#include "headless.h"

#define NOBODY     65534
#define OTHER      60 /* a major number that no driver has */
#define NULL_MAJOR 1
#define MANY       4100

static struct zn_memory_arena memory;
static struct zn_probe probe;
static struct zn_options options;
static struct zn_holders holders;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void live(int files, int tell, bool headless)
{
	struct rlimit limit = {2 * MANY, 2 * MANY};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setrlimit(RLIMIT_NOFILE, &limit) || (getuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY)))
		_exit(1);
	for (int i = 0; i < files; i++)
		if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
			_exit(1);
	if (write(tell, "", 1) != 1)
		_exit(1);
	if (!files && headless)
		close_range(0, ~0U, 0);
	if (headless)
		lose_main_thread();
	for (;;)
		pause();
}

static pid_t start_process(int files, bool headless)
{
	int tell[2];
	char ready;
	pid_t pid;

	if (pipe2(tell, O_CLOEXEC))
		abort();
	pid = fork();
	if (pid == 0)
		live(files, tell[1], headless);
	close(tell[1]);
	if (read(tell[0], &ready, 1) != 1)
		abort();
	close(tell[0]);
	return pid;
}

/* A user's process with so many files open. */
static pid_t start(int files)
{
	return start_process(files, false);
}

/* The same without a main thread; 0: with none open at all. */
static pid_t start_headless(int files)
{
	pid_t pid = start_process(files, true);

	wait_headless(pid);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A look at all processes, with that as the number of the driver of GPUs. */
static void look(uint32_t major)
{
	memset(&holders, 0, sizeof(holders));
	memset(memory.arena.shared->gpu_majors, 0, sizeof(memory.arena.shared->gpu_majors));
	memory.arena.shared->gpu_majors[major / 64] = 1ULL << major % 64;
	zn_holders_init(&holders, &probe, &options, &lock);
	zn_holders_run(&holders, UINT64_MAX);
	zn_holders_close(&holders);
}

static bool is_holder(pid_t pid)
{
	for (uint32_t i = 0; i < holders.list.count; i++)
		if (holders.list.holder[i].pid == (uint32_t)pid)
			return true;
	return false;
}

T(a_process_with_a_device_open)
{
	pid_t pid = start(1);

	look(NULL_MAJOR);
	CHECK_EQ(holders.list.looks, 1);
	CHECK(is_holder(pid));
	look(OTHER);
	CHECK(!is_holder(pid));
	end(pid);
}

/* What was found before stays. */
T(a_look_without_a_descriptor_is_none)
{
	pid_t pid = start(1);

	look(NULL_MAJOR);
	no_descriptors();
	holders.swept_ns = 0;
	zn_holders_run(&holders, UINT64_MAX);
	descriptors_again();
	CHECK_EQ(holders.list.looks, 1);
	CHECK(is_holder(pid));
	holders.swept_ns = 0;
	zn_holders_run(&holders, UINT64_MAX);
	CHECK_EQ(holders.list.looks, 2);
	CHECK(is_holder(pid));
	end(pid);
}

static void look_again(void)
{
	holders.swept_ns = 0;
	zn_holders_run(&holders, UINT64_MAX);
}

static struct zn_holder *holder_of(pid_t pid)
{
	for (uint32_t i = 0; i < holders.list.count; i++)
		if (holders.list.holder[i].pid == (uint32_t)pid)
			return &holders.list.holder[i];
	abort();
}

/* When it is forgotten, its tags go. The next process of that number has none of it. */
T(a_job_that_was_forgotten_is_remembered_by_its_process)
{
	pid_t pid = start(1);

	look(NULL_MAJOR);
	CHECK_EQ(holder_of(pid)->job.serial, 0);
	holder_of(pid)->job = (struct zn_job_ref){3, 99};
	look_again();
	look_again();
	CHECK_EQ(holder_of(pid)->job.slot, 3);
	CHECK_EQ(holder_of(pid)->job.serial, 99);
	holder_of(pid)->start_ticks--;
	look_again();
	CHECK_EQ(holder_of(pid)->job.serial, 0);
	end(pid);
}

/* Nobody has a GPU open where there is none: that is known, too. */
T(without_a_driver_nobody_is_one)
{
	pid_t pid = start(1);

	look(226); /* DRM's */
	CHECK_EQ(holders.list.looks, 1);
	CHECK(!is_holder(pid));
	look(NULL_MAJOR);
	CHECK(is_holder(pid));
	memory.arena.shared->gpu_majors[0] = 0; /* the driver goes */
	holders.swept_ns = 0;
	zn_holders_run(&holders, UINT64_MAX);
	CHECK_EQ(holders.list.looks, 2);
	CHECK(!is_holder(pid));
	end(pid);
}

/* It is not known of it, which is counted, and it is no holder. */
T(a_process_with_more_files_than_are_looked_at)
{
	pid_t pid = start(MANY);

	look(OTHER);
	CHECK(!is_holder(pid));
	CHECK(holders.list.unknown > 0);
	look(NULL_MAJOR);
	CHECK(is_holder(pid));
	end(pid);
}

/* A thread of a process that was killed may be stuck in the driver, and its main thread has no files any more. */
T(a_process_without_its_main_thread)
{
	pid_t pid = start_headless(1);
	uint32_t unknown;

	look(NULL_MAJOR);
	CHECK(is_holder(pid));
	look(OTHER);
	CHECK(!is_holder(pid));
	unknown = holders.list.unknown;
	end(pid);
	pid = start_headless(0); /* whether it holds one still is not known */
	look(NULL_MAJOR);
	CHECK(!is_holder(pid));
	CHECK_EQ(holders.list.unknown, unknown + 1);
	end(pid);
}

int main(void)
{
	if (zn_memory_open(&memory))
		abort();
	probe.arena = memory.arena;
	RUN(a_process_with_a_device_open);
	RUN(a_look_without_a_descriptor_is_none);
	RUN(a_job_that_was_forgotten_is_remembered_by_its_process);
	RUN(without_a_driver_nobody_is_one);
	RUN(a_process_with_more_files_than_are_looked_at);
	RUN(a_process_without_its_main_thread);
	zn_memory_close(&memory);
	return t_end();
}
