/* SPDX-License-Identifier: GPL-2.0 */
/*
 * groups TIMES ROOT...: what a tick costs in which the control groups of 64 jobs are read, each with three steps that
 * run. ROOT: the mount point of a hierarchy in which it may make groups, as root. Prints the median and the longest of
 * that many ticks, as CPU time in ns, and for how many ticks the longest waited for its turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench.h"
#include "simulated.h"

#define JOBS  64
#define STEPS 3

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_jobs jobs;
static struct zn_job_uses uses;
static char top[64];

#define GROUPS (1 + JOBS * (STEPS + 1)) /* the topmost, then each job's own before those of its steps */

static void path_of(char to[256], const char *root, int group)
{
	int job = (group - 1) / (STEPS + 1), step = (group - 1) % (STEPS + 1);

	if (group == 0)
		snprintf(to, 256, "%s%s", root, top);
	else if (step == 0)
		snprintf(to, 256, "%s%s/job_%d", root, top, 1000 + job);
	else
		snprintf(to, 256, "%s%s/job_%d/step_%d", root, top, 1000 + job, step - 1);
}

/* Version 2 has files of a controller only where the group above says so. */
static void delegate(const char *path)
{
	static const char want[] = "+cpu +memory";
	char file[300];
	int fd;

	snprintf(file, sizeof(file), "%s/cgroup.subtree_control", path);
	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, want, strlen(want)) < 0)
		fprintf(stderr, "groups: %s: %s\n", file, strerror(errno));
	close(fd);
}

static void make_groups(char **roots)
{
	char path[256];

	for (; *roots; roots++)
		for (int i = 0; i < GROUPS; i++) {
			path_of(path, *roots, i);
			if (mkdir(path, 0755))
				die(path, strerror(errno));
			delegate(path);
		}
}

static void take_groups(char **roots)
{
	char path[256];

	for (; *roots; roots++)
		for (int i = GROUPS; i-- > 0;) {
			path_of(path, *roots, i);
			rmdir(path);
		}
}

static void start_job(int i)
{
	char id[16];
	int slot;
	struct zn_job_shared *row;

	snprintf(id, sizeof(id), "%d", 1000 + i);
	slot = memory.arena.ops->job_claim(&memory.arena, id);
	if (slot < 0 || !zn_jobs_find(&jobs, id, ZN_UNKNOWN))
		die("job_claim", id);
	row = &memory.arena.jobs[slot];
	snprintf(row->path, sizeof(row->path), "%s/job_%s", top, id);
	row->cgroups = 1;
	for (row->step_count = 0; row->step_count < STEPS; row->step_count++)
		snprintf(row->step[row->step_count].name, sizeof(row->step[0].name), "%u", row->step_count);
}

static void begin(void)
{
	if (zn_memory_open(&memory))
		die("open", "no memory");
	zn_agg_init(&agg, &memory.arena);
	if (zn_jobs_open(&jobs, &agg, NULL))
		die("open", "no memory");
	zn_use_init(&uses, &jobs, zn_cgroup_folders);
	for (int i = 0; i < JOBS; i++)
		start_job(i);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* All of them have been looked at, and what their groups say is known. */
static bool all_known(void)
{
	for (uint32_t slot = 0; slot < jobs.high; slot++)
		if (zn_job_runs(&jobs.job[slot]) && (!uses.use[slot].last_ns || !uses.use[slot].kinds_known))
			return false;
	return true;
}

int main(int argc, char **argv)
{
	unsigned long times = argc > 2 ? strtoul(argv[1], NULL, 10) : 0, rounds = 0;
	uint64_t *took = calloc(times + 1, sizeof(*took)), now_ns = zn_now_ns();

	if (!times || !took)
		die("usage", "groups TIMES ROOT...");
	zn_log_level = ZN_ERROR;
	snprintf(top, sizeof(top), "/slurm_bench%d", getpid());
	begin();
	make_groups(argv + 2);
	for (unsigned long n = 0; n < times; n++) {
		uint64_t before = cpu_ns();

		now_ns += ZN_NS_PER_S;
		zn_use_tick(&uses, now_ns);
		took[n] = cpu_ns() - before;
		rounds += rounds == n && !all_known();
	}
	take_groups(argv + 2);
	if (rounds + 1 >= times)
		die("groups", "of some jobs nothing is known");
	qsort(took, times, sizeof(*took), by_size);
	printf("%llu %llu %lu\n", (unsigned long long)took[times / 2], (unsigned long long)took[times - 1], rounds + 1);
	return 0;
}
