/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=clock_gettime,--wrap=bpf_iter_create,--wrap=bpf_map_update_elem */
/*
 * mappers_test.c: which processes map a file, of areas that are made up, and which of many is blocked in the kernel:
 * real ones that this program starts.
 */
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define CHILDREN 70

static struct zn_mapper_list list;

/* ---- CPU time, which may pass by a step at each look at it. ---- */

static uint64_t cpu_step_ns, cpu_ns;

int __real_clock_gettime(clockid_t clock, struct timespec *to);
int __wrap_clock_gettime(clockid_t clock, struct timespec *to);
int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags);
int __wrap_bpf_iter_create(int link);

int __wrap_clock_gettime(clockid_t clock, struct timespec *to)
{
	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return __real_clock_gettime(clock, to);
	cpu_ns += cpu_step_ns;
	*to = (struct timespec){.tv_sec = (time_t)(cpu_ns / ZN_NS_PER_S), .tv_nsec = (long)(cpu_ns % ZN_NS_PER_S)};
	return 0;
}

/* ---- In place of objects.c and attach.c: there is no iterator but a pipe. ---- */

static int areas[2] = {-1, -1};

int __wrap_bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags)
{
	(void)fd, (void)key, (void)value, (void)flags;
	return 0;
}

int __wrap_bpf_iter_create(int link)
{
	(void)link;
	close(areas[1]);
	return areas[0];
}

static void tell_of(uint32_t tgid, uint32_t flags)
{
	struct zn_mapping area = {.tgid = tgid, .flags = flags};

	CHECK_EQ(write(areas[1], &area, sizeof(area)), sizeof(area));
}

/* What the areas that were told of come to. */
static int list_mappers(void)
{
	static const struct zn_mappers m = {.link_fd = 1};
	static const struct zn_file_id id = {.ino = 1};

	return zn_mappers_list(&m, &id, &list);
}

const struct zn_blob zn_bpf_mappers;

struct bpf_object *zn_object_open(const struct zn_probe *p, const struct zn_blob *blob)
{
	(void)p, (void)blob;
	return NULL;
}

int zn_fd_keep(int fd)
{
	return fd;
}

void zn_fd_close(int *fd)
{
	*fd = -1;
}

/* ---- Processes. ---- */

static void stay(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

/* Waits in the kernel for a child that does not end, uninterruptibly. */
static void stay_blocked(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0);
	stay();
}

static void start(bool blocked)
{
	pid_t pid = fork();

	if (pid < 0)
		abort();
	if (pid == 0 && blocked)
		stay_blocked();
	if (pid == 0)
		stay();
	list.tgid[list.count++] = (uint32_t)pid;
}

static void end(void)
{
	while (list.count) {
		kill((pid_t)list.tgid[--list.count], SIGKILL);
		waitpid((pid_t)list.tgid[list.count], NULL, 0);
	}
}

static char state_of(uint32_t pid)
{
	struct zn_procfs_stat stat = {0};

	return zn_procfs_stat("/proc", pid, &stat) ? stat.state : 0;
}

static void wait_for(char state, uint32_t pid)
{
	for (int n = 0; n < 60000 && state_of(pid) != state; n++)
		usleep(1000);
	CHECK_EQ(state_of(pid), state);
}

/* Whichever of many it is. */
T(the_last_of_many_is_blocked)
{
	uint32_t tgid = 0;

	while (list.count < CHILDREN - 1)
		start(false);
	for (uint32_t i = 0; i < list.count; i++)
		wait_for('S', list.tgid[i]);
	CHECK_EQ(zn_mappers_blocked(&list, &tgid), 0);
	start(true);
	wait_for('D', list.tgid[CHILDREN - 1]);
	CHECK_EQ(zn_mappers_blocked(&list, &tgid), list.tgid[CHILDREN - 1]);
	CHECK_EQ(tgid, list.tgid[CHILDREN - 1]);
	end();
}

/* More of them than are looked at after one wait. */
T(hundreds_are_blocked)
{
	uint32_t tgid = 0;

	while (list.count < 8 * CHILDREN)
		start(true);
	for (uint32_t i = 0; i < list.count; i++)
		wait_for('D', list.tgid[i]);
	CHECK_EQ(zn_mappers_blocked(&list, &tgid), list.tgid[0]);
	CHECK_EQ(tgid, list.tgid[0]);
	end();
}

/* Sleeps uninterruptibly again and again, as a user of so many groups that his status is longer than 6 kB. */
static void stay_busy(void)
{
	static gid_t group[600];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint32_t i = 0; i < ZN_LEN(group); i++)
		group[i] = 1000000000 + i;
	if (getuid() == 0 && setgroups(ZN_LEN(group), group))
		_exit(1);
	for (;;)
		if (vfork() == 0) {
			usleep(2000);
			_exit(0);
		}
}

/* How often it has slept is told behind its groups. Where it gets no processor for a moment it does not move. */
T(one_of_many_groups_that_moves)
{
	uint32_t tgid = 0, looks;
	pid_t pid = fork();

	if (pid == 0)
		stay_busy();
	list.tgid[list.count++] = (uint32_t)pid;
	wait_for('D', (uint32_t)pid);
	for (looks = 0; looks < 2000 && zn_mappers_blocked(&list, &tgid) != 0; looks++)
		;
	CHECK(looks < 2000);
	end();
}

/* Threads with files of their own are told of one by one, and those of several processes in turn. */
T(a_process_is_listed_once)
{
	CHECK_EQ(pipe(areas), 0);
	for (int thread = 0; thread < 101; thread++) {
		tell_of(71, ZN_MAPPING_ASKED);
		tell_of(71 + (1 << 13), ZN_MAPPING_ASKED);
		tell_of(5, ZN_MAPPING_FUSE | ZN_MAPPING_USER_NS); /* does not map it */
	}
	CHECK_EQ(list_mappers(), 0);
	CHECK_EQ(list.count, 2);
	CHECK_EQ(list.tgid[0], 71);
	CHECK_EQ(list.tgid[1], 71 + (1 << 13));
	CHECK_EQ(list.fuse_tgid, 0);
	CHECK_EQ(pipe(areas), 0);
	tell_of(71, ZN_MAPPING_ASKED);
	tell_of(72, ZN_MAPPING_ASKED);
	tell_of(71, ZN_MAPPING_ASKED);
	tell_of(71, ZN_MAPPING_FUSE | ZN_MAPPING_USER_NS); /* since just now */
	CHECK_EQ(list_mappers(), 0);
	CHECK_EQ(list.count, 2);
	CHECK_EQ(list.fuse_tgid, 71);
	list.count = 0;
}

/* The pipe is filled beside, as it has no room for all of them. */
T(more_processes_than_are_listed)
{
	pid_t pid;

	CHECK_EQ(pipe(areas), 0);
	pid = fork();
	for (uint32_t tgid = 1; pid == 0 && tgid <= 2 * ZN_MAPPERS_MAX; tgid++)
		tell_of(tgid * 512, ZN_MAPPING_ASKED);
	if (pid == 0)
		_exit(0);
	CHECK_EQ(list_mappers(), 0);
	CHECK_EQ(list.count, ZN_MAPPERS_MAX + 1);
	CHECK_EQ(list.tgid[ZN_MAPPERS_MAX - 1], ZN_MAPPERS_MAX * 512);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	list.count = 0;
}

/* No user's areas or threads keep the finder for long. Nobody is accused for it. */
T(looks_that_take_too_long)
{
	uint32_t tgid = 0;

	CHECK_EQ(pipe(areas), 0);
	tell_of(71, ZN_MAPPING_ASKED);
	cpu_step_ns = 6 * ZN_NS_PER_S;
	CHECK_EQ(list_mappers(), -EAGAIN);
	list.count = 0;
	while (list.count < 11)
		start(false);
	cpu_step_ns = ZN_NS_PER_S;
	CHECK_EQ(zn_mappers_blocked(&list, &tgid), UINT32_MAX);
	CHECK_EQ(tgid, 0);
	cpu_step_ns = ZN_NS_PER_MS;
	for (uint32_t i = 0; i < list.count; i++)
		wait_for('S', list.tgid[i]);
	CHECK_EQ(zn_mappers_blocked(&list, &tgid), 0);
	cpu_step_ns = 0;
	end();
}

int main(void)
{
	RUN(a_process_is_listed_once);
	RUN(more_processes_than_are_listed);
	RUN(the_last_of_many_is_blocked);
	RUN(hundreds_are_blocked);
	RUN(one_of_many_groups_that_moves);
	RUN(looks_that_take_too_long);
	return t_end();
}
