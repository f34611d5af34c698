/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock.c: a clock for each thread of a process, that runs while the thread is on a CPU; by it stacks are walked (stacks.bpf.c).
 * It is an event of the thread, not of the CPU: processes without one pay nothing, and idle CPUs sleep on. The kernel gives one
 * to each thread that such a thread makes, and takes them away when the process starts another program or the daemon ends.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void zn_clocks_init(struct zn_clocks *c, int program)
{
	struct rlimit files = {0};

	*c = (struct zn_clocks){.program = program};
	getrlimit(RLIMIT_NOFILE, &files);
	c->quota.size = files.rlim_cur / 4 < ZN_CLOCKS_MAX ? (uint32_t)files.rlim_cur / 4 : ZN_CLOCKS_MAX;
	c->quota.reserve = c->quota.size / 16;
}

static int thread_open(int program, pid_t tid)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = ZN_CLOCK_NS,
		.inherit = 1,
		.inherit_thread = 1,
		.remove_on_exec = 1};
	int event = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC), link, err;

	if (event < 0)
		return -errno;
	link = bpf_link_create(program, event, BPF_PERF_EVENT, NULL);
	err = errno;
	close(event); /* the link holds it */
	return link < 0 ? -err : link;
}

/* All are listed before the first has a clock: what it makes from then on has one already. */
static uint32_t list_threads(uint32_t pid, pid_t tid[ZN_CLOCK_THREADS])
{
	char path[32];
	struct dirent *entry;
	uint32_t count = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = opendir(path);
	while (tasks && count < ZN_CLOCK_THREADS && (entry = readdir(tasks))) {
		long number = strtol(entry->d_name, NULL, 10);

		if (number > 0)
			tid[count++] = (pid_t)number;
	}
	if (tasks)
		closedir(tasks);
	return count;
}

int zn_clock_open(struct zn_clocks *all, struct zn_clock *c, uint32_t pid, uint32_t owner)
{
	pid_t tid[ZN_CLOCK_THREADS];
	uint32_t count = list_threads(pid, tid);
	int fd = -ESRCH;

	c->owner = owner;
	c->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		if (!zn_quota_try(&all->quota, owner))
			return c->count ? 0 : -EMFILE;
		fd = thread_open(all->program, tid[i]);
		if (fd >= 0) {
			c->fd[c->count++] = fd;
			continue;
		}
		zn_quota_give(&all->quota, owner);
		if (fd != -ESRCH) /* else it has ended meanwhile */
			break;
	}
	return c->count ? 0 : fd;
}

void zn_clock_close(struct zn_clocks *all, struct zn_clock *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		close(c->fd[i]);
		zn_quota_give(&all->quota, c->owner);
	}
	c->count = 0;
}

void zn_clock_why(int err, char why[ZN_TEXT_MAX])
{
	const char *hint = err == -EACCES || err == -EPERM ? "; perf_event_paranoid above 2 forbids it" : "";

	if (err == -EBUSY)
		snprintf(why, ZN_TEXT_MAX, "its threads switch so often that a clock would take more than its budget");
	else
		snprintf(why, ZN_TEXT_MAX, "no clock of its threads: %s%s", strerror(-err), hint);
}
