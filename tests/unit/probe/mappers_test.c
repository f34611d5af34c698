/* SPDX-License-Identifier: GPL-2.0 */
/* mappers_test.c: which of many processes is blocked in the kernel: real ones that this program starts. */
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

/* ---- In place of objects.c and attach.c: there is no iterator. ---- */

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
	for (int n = 0; n < 5000 && state_of(pid) != state; n++)
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

/* How often it has slept is told behind its groups. */
T(one_of_many_groups_that_moves)
{
	uint32_t tgid = 0;
	pid_t pid = fork();

	if (pid == 0)
		stay_busy();
	list.tgid[list.count++] = (uint32_t)pid;
	wait_for('D', (uint32_t)pid);
	for (int i = 0; i < 10; i++)
		CHECK_EQ(zn_mappers_blocked(&list, &tgid), 0);
	end();
}

int main(void)
{
	RUN(the_last_of_many_is_blocked);
	RUN(hundreds_are_blocked);
	RUN(one_of_many_groups_that_moves);
	return t_end();
}
