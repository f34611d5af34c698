/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock.c: a clock for each thread of a process, that runs while the thread is on a CPU; by it stacks are walked
 * (stacks.bpf.c). It is an event of the thread, not of the CPU: processes without one pay nothing, and idle CPUs sleep
 * on. The kernel gives one to each thread that such a thread makes, and takes them away when the process starts another
 * program or the daemon ends.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A clock adds some 1 to 2 us to each switch of its threads. A process that switches more often in a second has none,
 * from 3 s of that on until 10 s of half as much. */
#define SWITCHES_MOST 3000
#define BUSY_S        3
#define CALM_S        10

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
	struct zn_names names = {.have = 0};
	const struct dirent64 *entry;
	uint32_t count = 0;
	char path[32];
	int tasks;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (count < ZN_CLOCK_THREADS && (entry = zn_names_next(&names, tasks))) {
		uint32_t number = zn_names_number(entry);

		if (number)
			tid[count++] = (pid_t)number;
	}
	if (tasks >= 0)
		close(tasks);
	return count;
}

/* 0 if any of its threads has one, or -errno. */
static int clock_open(struct zn_clocks *all, struct zn_clock *c)
{
	pid_t tid[ZN_CLOCK_THREADS];
	uint32_t count = list_threads(c->pid, tid);
	int fd = -ESRCH;

	for (uint32_t i = 0; i < count; i++) {
		if (!zn_quota_try(&all->quota, c->owner))
			return c->count ? 0 : -EMFILE;
		fd = thread_open(all->program, tid[i]);
		if (fd >= 0) {
			c->fd[c->count++] = fd;
			continue;
		}
		zn_quota_give(&all->quota, c->owner);
		if (fd != -ESRCH) /* else it has ended meanwhile */
			break;
	}
	return c->count ? 0 : fd;
}

static void clock_close(struct zn_clocks *all, struct zn_clock *c)
{
	for (uint32_t i = 0; i < c->count; i++) {
		close(c->fd[i]);
		zn_quota_give(&all->quota, c->owner);
	}
	c->count = 0;
}

/* ---- Workers of data loaders. ---- */

static void worker_close(struct zn_clocks *all, struct zn_clock *k)
{
	clock_close(all, k);
	k->pid = 0;
}

static void workers_close(struct zn_clocks *all, uint32_t id)
{
	for (int i = 0; i < ZN_CLOCK_WORKERS; i++)
		if (all->worker[i].pid && all->worker[i].id == id)
			worker_close(all, &all->worker[i]);
}

static struct zn_clock *worker_of(struct zn_clocks *all, uint32_t pid, uint32_t id)
{
	struct zn_clock *unused = NULL;

	for (int i = 0; i < ZN_CLOCK_WORKERS; i++) {
		struct zn_clock *k = &all->worker[i];

		if (k->pid == pid && k->id == id)
			return k;
		if (!k->pid)
			unused = k;
	}
	return unused;
}

/* A child that was seen in the table of workers; it has clocks from the first time on. */
static void worker_look(struct zn_clocks *all, uint32_t pid, const struct zn_loader_worker *is)
{
	const struct zn_clock *c = is->row < ZN_PROCS_MAX ? &all->of[is->row] : NULL;
	struct zn_clock *k = c && c->id == is->id && c->count ? worker_of(all, pid, is->id) : NULL;

	if (!k)
		return;
	if (!k->pid) {
		*k = (struct zn_clock){.pid = pid, .id = is->id, .owner = is->owner};
		clock_open(all, k);
	}
	k->seen = true;
}

static void workers_look(struct zn_clocks *all)
{
	static struct zn_loader_worker value[256];
	static uint32_t key[256];
	uint32_t at = 0, count;
	bool begun = false;
	int err;

	do {
		count = ZN_LEN(key);
		err = bpf_map_lookup_batch(
			all->probe->map_fd[ZN_MAP_WORKERS], begun ? &at : NULL, &at, key, value, &count, NULL);
		for (uint32_t i = 0; (!err || errno == ENOENT) && i < count; i++)
			worker_look(all, key[i], &value[i]);
		begun = true;
	} while (!err);
	for (int i = 0; i < ZN_CLOCK_WORKERS; i++) {
		struct zn_clock *k = &all->worker[i];

		if (k->pid && !k->seen)
			worker_close(all, k);
		else if (k->pid)
			k->seen = false;
	}
}

/* ---- Processes. ---- */

static void error_set(struct zn_clock *c, int error)
{
	__atomic_store_n(&c->error, error, __ATOMIC_RELAXED);
}

static void clock_start(struct zn_clocks *all, struct zn_clock *c, uint32_t row)
{
	int err = -EOPNOTSUPP;

	for (int i = 0; i < ZN_CLOCK_WORKERS; i++)
		if (all->worker[i].pid == c->pid)
			worker_close(all, &all->worker[i]);
	if (all->program >= 0)
		err = clock_open(all, c);
	if (!err && !zn_clock_lives(&all->probe->arena, row, c->id))
		clock_close(all, c);
	error_set(c, err);
}

/* Each second. */
static void clock_look(struct zn_clocks *all, struct zn_clock *c, uint32_t row, uint64_t elapsed_ns)
{
	const __u64 *count = all->probe->arena.procs[row].count;
	uint64_t switches = count[ZN_C_SWITCH_VOLUNTARY] + count[ZN_C_SWITCH_INVOLUNTARY];
	uint64_t rate = (switches - c->switches) * 1000 / (elapsed_ns / ZN_NS_PER_MS + 1);

	c->switches = switches;
	c->busy_s = rate > SWITCHES_MOST ? c->busy_s + 1 : 0;
	c->calm_s = rate < SWITCHES_MOST / 2 ? c->calm_s + 1 : 0;
	if (c->error == -EBUSY && c->calm_s >= CALM_S) {
		clock_start(all, c, row);
	} else if (c->count && c->busy_s >= BUSY_S) {
		clock_close(all, c);
		workers_close(all, c->id);
		error_set(c, -EBUSY);
	}
}

void zn_clocks_init(struct zn_clocks *c, const struct zn_probe *probe)
{
	struct rlimit files = {0};

	c->probe = probe;
	c->program = probe->walker_fd[ZN_WALKER_CLOCK];
	getrlimit(RLIMIT_NOFILE, &files);
	c->quota.size = files.rlim_cur / 4 < ZN_CLOCKS_MAX ? (uint32_t)files.rlim_cur / 4 : ZN_CLOCKS_MAX;
	c->quota.reserve = c->quota.size / 16;
}

void zn_clocks_end(struct zn_clocks *all, uint32_t row)
{
	struct zn_clock *c = &all->of[row];

	if (!c->id)
		return;
	all->used--;
	clock_close(all, c);
	workers_close(all, c->id);
	c->id = 0;
	error_set(c, 0);
}

void zn_clocks_begin(struct zn_clocks *all, uint32_t row, uint32_t id, uint32_t pid)
{
	struct zn_clock *c = &all->of[row];

	zn_clocks_end(all, row);
	all->used++;
	*c = (struct zn_clock){.id = id, .pid = pid, .owner = all->probe->arena.procs[row].owner};
	clock_start(all, c, row);
}

void zn_clocks_look(struct zn_clocks *all, uint64_t now_ns)
{
	uint64_t elapsed_ns = now_ns - all->looked_ns;

	if (all->program < 0 || !all->used || elapsed_ns < ZN_NS_PER_S)
		return;
	workers_look(all);
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (all->of[row].id && zn_clock_lives(&all->probe->arena, row, all->of[row].id))
			clock_look(all, &all->of[row], row, elapsed_ns);
	all->looked_ns = now_ns;
}

void zn_clocks_close(struct zn_clocks *all)
{
	for (int i = 0; i < ZN_CLOCK_WORKERS; i++)
		if (all->worker[i].pid)
			worker_close(all, &all->worker[i]);
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		clock_close(all, &all->of[row]);
}

void zn_clocks_why(const struct zn_clocks *all, uint32_t row, char why[ZN_TEXT_MAX])
{
	int err = __atomic_load_n(&all->of[row].error, __ATOMIC_RELAXED);
	const char *hint = err == -EACCES || err == -EPERM ? "; perf_event_paranoid above 2 forbids it" : "";

	if (!err)
		why[0] = '\0';
	else if (err == -EBUSY)
		snprintf(why, ZN_TEXT_MAX, "its threads switch so often that a clock would take more than its budget");
	else
		snprintf(why, ZN_TEXT_MAX, "no clock of its threads: %s%s", strerror(-err), hint);
}
