/* SPDX-License-Identifier: GPL-2.0 */
/* usage.c: what is read of control groups in a tree of the test's own, of either version, and what is made of it. */
#include "t.h"
#include "clock.h"
#include "zernel.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1ULL << 20)
#define S   ZN_NS_PER_S

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_jobs jobs;
static struct zn_job_uses uses;
static struct zn_use use;
static char tree[] = "/tmp/zernel-usage-XXXXXX";
static bool version2, memory_gone;

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a, (void)slot, (void)path, (void)why;
	return 0;
}

static void find(const char *path, struct zn_cgroup_folders *to)
{
	CHECK_STR(path, "/slurm/job_4711");
	for (enum zn_controller c = 0; c < ZN_CONTROLLERS; c++) {
		snprintf(to->at[c], sizeof(to->at[c]), "%s", c == ZN_CONTROLLER_MEMORY && memory_gone ? "" : tree);
		to->v2[c] = version2;
	}
}

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", tree, name);
	f = fopen(path, "w");
	if (!f || fputs(text, f) < 0 || fclose(f))
		abort();
}

static void take_away(void)
{
	char command[256];

	snprintf(command, sizeof(command), "rm -rf %s/*", tree);
	if (system(command))
		abort();
}

/* A job with a group, whose files are empty yet. */
static struct zn_job *start(bool v2)
{
	static bool made;
	struct zn_job *job;
	int slot;

	if (!made && !mkdtemp(tree))
		abort();
	made = true;
	take_away();
	version2 = v2;
	zn_memory_close(&memory);
	zn_jobs_close(&jobs);
	if (zn_memory_open(&memory))
		abort();
	zn_agg_init(&agg, &memory.arena);
	if (zn_jobs_open(&jobs, &agg, NULL))
		abort();
	memset(&uses, 0, sizeof(uses));
	zn_use_init(&uses, &jobs, find);
	slot = memory.arena.ops->job_claim(&memory.arena, "4711");
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	if (slot < 0 || !job)
		abort();
	strcpy(memory.arena.jobs[slot].path, "/slurm/job_4711");
	memory.arena.jobs[slot].cgroups = 1;
	job->start_ns = clock_ns += 1000 * S;
	return job;
}

static void look(const struct zn_job *job, uint64_t after_s)
{
	clock_ns += after_s * S;
	zn_use_tick(&uses, clock_ns);
	zn_use_of(&uses, job, &use);
}

T(version_2)
{
	struct zn_job *job = start(true);

	put("cpu.stat",
		"usage_usec 8000000\nuser_usec 6000000\nsystem_usec 2000000\nnr_periods 3\nthrottled_usec 250000\n");
	put("cpuset.cpus.effective", "0-1,4,6-6\n");
	put("cpu.max", "max 100000\n");
	put("memory.stat", "anon 1048576\nfile 3145728\nkernel 4096\nkernel_stack 77\nshmem 2097152\nanon_thp 5\n");
	put("memory.max", "10485760\n");
	put("memory.peak", "7340032\n");
	put("memory.swap.current", "0\n");
	put("memory.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 total=5\n");
	look(job, 4);
	CHECK(use.cpu_known);
	CHECK_EQ(use.cpu_ns, 8 * S);
	CHECK_EQ(use.cpu_user_ns, 6 * S);
	CHECK_EQ(use.cpu_system_ns, 2 * S);
	CHECK_EQ(use.cpus_milli, 4000);
	CHECK_EQ(use.cpu_ratio, 5000);
	clock_ns += 4 * S; /* what is told between two looks is as of the last */
	zn_use_of(&uses, job, &use);
	CHECK_EQ(use.cpu_ratio, 5000);
	CHECK_EQ(use.now.throttled_ns, S / 4);
	CHECK_EQ(use.now.memory[ZN_MEMORY_ANON], MIB);
	CHECK_EQ(use.now.memory[ZN_MEMORY_FILE], MIB);
	CHECK_EQ(use.now.memory[ZN_MEMORY_SHMEM], 2 * MIB);
	CHECK_EQ(use.now.memory[ZN_MEMORY_KERNEL], 4096);
	CHECK_EQ(use.peak, 7 * MIB);
	CHECK_EQ(use.needed_peak, 6 * MIB); /* all but the cache, as it may have been between two looks */
	CHECK_EQ(use.memory_ratio, 6000);
	CHECK_EQ(use.now.swap, 0);
	CHECK_EQ(use.now.pressure_ns[ZN_PRESSURE_MEMORY][0], 7000);
	CHECK_EQ(use.now.pressure_ns[ZN_PRESSURE_MEMORY][1], 5000);
	CHECK(use.now.pressure_ns[ZN_PRESSURE_CPU][0] == ZN_NOT_KNOWN);
}

T(version_1)
{
	struct zn_job *job = start(false);

	put("cpuacct.usage", "5000000000\n");
	put("cpuacct.stat", "user 300\nsystem 100\n");
	put("cpu.cfs_quota_us", "150000\n");
	put("cpu.cfs_period_us", "100000\n");
	put("cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_time 12345\n");
	put("cpuset.cpus", "0-63\n");
	put("memory.stat", "rss 1\ncache 2\ntotal_cache 4194304\ntotal_rss 1048576\ntotal_shmem 1048576\n");
	put("memory.limit_in_bytes", "9223372036854771712\n");
	put("memory.max_usage_in_bytes", "5242880\n");
	look(job, 10);
	CHECK_EQ(use.cpu_ns, 5 * S);
	CHECK_EQ(use.cpu_user_ns, 5 * S / 4 * 3);
	CHECK_EQ(use.cpus_milli, 1500);
	CHECK_EQ(use.cpu_ratio, 3333);
	CHECK_EQ(use.now.throttled_ns, 12345);
	CHECK_EQ(use.now.memory[ZN_MEMORY_FILE], 3 * MIB);
	CHECK(use.now.limit == ZN_NOT_KNOWN && use.memory_ratio == ZN_NOT_KNOWN);
	CHECK_EQ(use.peak, 5 * MIB);
	CHECK(use.now.pressure_ns[ZN_PRESSURE_IO][0] == ZN_NOT_KNOWN && use.now.swap == ZN_NOT_KNOWN);
}

/* Below the job's group, which is looked at first. */
T(a_step_that_runs)
{
	for (int v2 = 0; v2 < 2; v2++) {
		struct zn_job *job = start(v2);
		struct zn_step step = {.name = "batch", .start_ns = 1};
		char path[128];

		snprintf(path, sizeof(path), "%s/step_batch", tree);
		CHECK(!mkdir(path, 0755) || errno == EEXIST);
		put("step_batch/cpu.stat", "usage_usec 7000000\nuser_usec 6000000\nsystem_usec 1000000\n");
		put("step_batch/cpuacct.usage", "7000000000\n");
		put("step_batch/memory.peak", "41943040\n");
		put("step_batch/memory.max_usage_in_bytes", "41943040\n");
		zn_use_step(&uses, job, &step);
		CHECK_EQ(step.cpu_ns, 0); /* nobody has looked at the job yet */
		look(job, 1);
		zn_use_step(&uses, job, &step);
		CHECK_EQ(step.cpu_ns, 7 * S);
		CHECK_EQ(step.mem_peak_bytes, 40 * MIB);
		step.cpu_ns = 9 * S; /* groups of it that have gone had used more */
		zn_use_step(&uses, job, &step);
		CHECK_EQ(step.cpu_ns, 9 * S);
		step = (struct zn_step){.name = "batch", .end_ns = 1};
		zn_use_step(&uses, job, &step);
		CHECK_EQ(step.cpu_ns, 0);
		step = (struct zn_step){.name = "../../../../.."};
		zn_use_step(&uses, job, &step);
		CHECK_EQ(step.cpu_ns, 0);
	}
}

/* In turn, two at each look of the job. */
T(steps_are_looked_at)
{
	struct zn_step shown[ZN_STEPS_SHOWN];
	struct zn_job *job = start(true);
	struct zn_job_shared *row = &memory.arena.jobs[job->slot];
	char path[128], name[32];

	CHECK_EQ(zn_use_steps(&uses, job, shown), 0);
	for (uint32_t i = 0; i < 20; i++) {
		snprintf(row->step[i].name, sizeof(row->step[i].name), "%u", i);
		row->step[i].end_ns = i % 2 ? 0 : 5;
		row->step[i].cpu_ns = i % 2 ? 0 : S;
		snprintf(path, sizeof(path), "%s/step_%u", tree, i);
		CHECK(!mkdir(path, 0755));
		snprintf(name, sizeof(name), "step_%u/cpu.stat", i);
		put(name, "usage_usec 3000000\n");
		snprintf(name, sizeof(name), "step_%u/memory.peak", i);
		put(name, "1048576\n");
	}
	row->step_count = 20;
	look(job, 1);
	CHECK_EQ(zn_use_steps(&uses, job, shown), ZN_STEPS_SHOWN);
	CHECK_STR(shown[0].name, "1"); /* of those that have ended the oldest are left out */
	CHECK_STR(shown[1].name, "3");
	CHECK_STR(shown[4].name, "8");
	CHECK_STR(shown[15].name, "19");
	CHECK_EQ(shown[1].cpu_ns, 3 * S);
	CHECK_EQ(shown[1].mem_peak_bytes, MIB);
	CHECK_EQ(shown[4].cpu_ns, S);
	CHECK_EQ(shown[15].cpu_ns, 0); /* its turn has not come */
	for (int i = 0; i < 4; i++)
		look(job, 1);
	zn_use_steps(&uses, job, shown);
	CHECK_EQ(shown[15].cpu_ns, 3 * S);
	row->step[19].end_ns = 9; /* with what its group had used when it was removed */
	row->step[19].cpu_ns = 4 * S;
	take_away();
	zn_use_steps(&uses, job, shown);
	CHECK_EQ(shown[15].cpu_ns, 4 * S);
	CHECK_EQ(shown[15].mem_peak_bytes, MIB);
	uses.use[job->slot].serial++; /* what is known is of another job */
	zn_use_steps(&uses, job, shown);
	CHECK_EQ(shown[15].mem_peak_bytes, 0);
}

/* What the kernel had counted when the groups were removed is more than the last look saw. */
T(groups_that_have_gone)
{
	struct zn_job *job = start(true);
	struct zn_job_shared *row = zn_job_shared_of(&jobs, job);

	put("cpu.stat", "usage_usec 1000000\nuser_usec 1000000\nsystem_usec 0\n");
	look(job, 1);
	take_away();
	row->cgroups = 0;
	row->cpu_gone = (struct zn_cpu_time){1500 * ZN_NS_PER_MS, 2, 1};
	row->mem_peak_bytes = 9 * MIB;
	look(job, 1);
	CHECK_EQ(use.cpu_ns, 1500 * ZN_NS_PER_MS);
	CHECK_EQ(use.cpu_user_ns, S);
	CHECK_EQ(use.peak, 9 * MIB);
	CHECK_EQ(use.needed_peak, 9 * MIB);
	row->cpu_gone.ns = S / 2; /* some of them had gone before the daemon came */
	look(job, 1);
	CHECK_EQ(use.cpu_ns, S);
	job->state = ZN_JOB_ENDED;
	job->serial++; /* another job in its place has none of it */
	row->cpu_gone = (struct zn_cpu_time){0};
	row->mem_peak_bytes = 0;
	zn_use_of(&uses, job, &use);
	CHECK(!use.cpu_known && !use.peak && use.cpu_ratio == ZN_NOT_KNOWN && use.memory_ratio == ZN_NOT_KNOWN);
}

/* A job has a group for each step. What is read begins at 0 again, what is told goes on. */
T(a_group_that_is_made_anew)
{
	struct zn_job *job = start(true);
	struct zn_job_shared *row = zn_job_shared_of(&jobs, job);

	put("cpu.stat", "usage_usec 8000000\nuser_usec 6000000\nsystem_usec 2000000\nthrottled_usec 250000\n");
	put("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 total=5\n");
	look(job, 1);
	row->cpu_gone = (struct zn_cpu_time){9 * S, 65, 25}; /* it did more before it went */
	take_away();
	look(job, 1);
	CHECK_EQ(use.cpu_ns, 9 * S);
	put("cpu.stat", "usage_usec 3000000\nuser_usec 1000000\nsystem_usec 2000000\nthrottled_usec 50000\n");
	put("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=3\nfull avg10=0.00 total=1\n");
	look(job, 1);
	CHECK_EQ(use.cpu_ns, 11 * S); /* what the first one did since the last look at it is known at the end */
	CHECK_EQ(use.cpu_user_ns, 7 * S);
	CHECK_EQ(use.now.throttled_ns, 300 * ZN_NS_PER_MS);
	CHECK_EQ(use.now.pressure_ns[ZN_PRESSURE_IO][0], 10000);
	CHECK_EQ(use.now.pressure_ns[ZN_PRESSURE_IO][1], 6000);
	put("cpu.stat", "usage_usec 4000000\nuser_usec 2000000\nsystem_usec 2000000\nthrottled_usec 60000\n");
	look(job, 1);
	CHECK_EQ(use.cpu_ns, 12 * S);
	CHECK_EQ(use.now.throttled_ns, 310 * ZN_NS_PER_MS);
	take_away();
	row->cpu_gone = (struct zn_cpu_time){13 * S, 90, 40};
	look(job, 1);
	CHECK_EQ(use.cpu_ns, 13 * S);
	CHECK_EQ(use.now.throttled_ns, 310 * ZN_NS_PER_MS);
}

/* Another folder in the same place, while the one before it is still there: so it has another inode. */
static void replace_group(void)
{
	char other[sizeof(tree) + 2];

	snprintf(other, sizeof(other), "%s-2", tree);
	if (mkdir(other, 0755))
		abort();
	take_away();
	if (rename(other, tree))
		abort();
}

/* The second step had used more by the first look at it than the first one by the last. */
T(a_group_that_is_made_anew_and_has_used_more)
{
	struct zn_job *job = start(true);

	put("cpu.stat", "usage_usec 3000000\nuser_usec 2000000\nsystem_usec 1000000\nthrottled_usec 50000\n");
	put("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 total=5\n");
	look(job, 1);
	replace_group();
	put("cpu.stat", "usage_usec 40000000\nuser_usec 30000000\nsystem_usec 10000000\nthrottled_usec 250000\n");
	put("io.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=8\nfull avg10=0.00 total=6\n");
	look(job, 1);
	CHECK_EQ(use.cpu_ns, 43 * S);
	CHECK_EQ(use.cpu_user_ns, 32 * S);
	CHECK_EQ(use.now.throttled_ns, 300 * ZN_NS_PER_MS);
	CHECK_EQ(use.now.pressure_ns[ZN_PRESSURE_IO][0], 15000);
	put("cpu.stat", "usage_usec 41000000\nuser_usec 31000000\nsystem_usec 10000000\nthrottled_usec 250000\n");
	look(job, 1);
	CHECK_EQ(use.cpu_ns, 44 * S);
}

/* Version 1 has a group in each hierarchy, and they go one after another. */
T(a_memory_group_that_goes_first)
{
	struct zn_job *job = start(false);
	struct zn_job_shared *row = zn_job_shared_of(&jobs, job);
	uint64_t ratio;

	put("memory.limit_in_bytes", "104857600\n");
	put("memory.max_usage_in_bytes", "52428800\n");
	put("memory.stat", "total_rss 41943040\ntotal_shmem 0\ntotal_cache 0\n");
	look(job, 1);
	ratio = use.memory_ratio;
	CHECK(ratio != ZN_NOT_KNOWN && use.now.limit == 100 * MIB);
	memory_gone = true;
	row->cgroups = 2;
	look(job, 1);
	memory_gone = false;
	row->cgroups = 0;
	look(job, 1);
	CHECK_EQ(use.memory_ratio, ratio);
	CHECK_EQ(use.peak, 50 * MIB);
}

/* Of a job that was there before the daemon, what it used since is held against the time since. */
T(found)
{
	struct zn_job *job = start(true);

	job->found = true;
	put("cpuset.cpus.effective", "3\n");
	put("cpu.stat", "usage_usec 900000000\nuser_usec 1\nsystem_usec 0\n");
	look(job, 100);
	put("cpu.stat", "usage_usec 907000000\nuser_usec 1\nsystem_usec 0\n");
	look(job, 10);
	CHECK_EQ(use.cpu_ns, 907 * S);
	CHECK_EQ(use.cpu_ratio, 7000);
}

static const struct {
	const char *told;
	uint32_t count;
} told[] = {{"8", 8}, {"8(x2)", 8}, {"8(x2),4", 0}, {"", 0}, {"x", 0}, {"99999999999", 0}, {"8 ", 0}};

T(cpus)
{
	for (size_t i = 0; i < ZN_LEN(told); i++)
		CHECK_EQ(zn_use_told_cpus(told[i].told), told[i].count);
}

/* Files that are not what they should be are as if they were not there. */
T(strange_files)
{
	static const char *const names[] = {"cpu.stat", "cpuset.cpus.effective", "cpu.max", "memory.stat", "memory.max",
		"memory.peak", "memory.swap.current", "cpu.pressure"};
	static const char *const texts[] = {"", "\n", "usage_usec", "usage_usec -5\n", "max",
		"99999999999999999999999\n", "some total=\nfull total=x\n", "1 0\n",
		"usage_usec 18446744073709551615\n"};

	for (size_t t = 0; t < ZN_LEN(texts); t++) {
		struct zn_job *job = start(true);

		for (size_t i = 0; i < ZN_LEN(names); i++)
			put(names[i], texts[t]);
		look(job, 1);
		CHECK(!use.cpu_known);
		CHECK(use.cpu_ratio == ZN_NOT_KNOWN);
	}
	take_away();
	rmdir(tree);
	zn_memory_close(&memory);
	zn_jobs_close(&jobs);
}

int main(void)
{
	RUN(version_2);
	RUN(version_1);
	RUN(a_step_that_runs);
	RUN(steps_are_looked_at);
	RUN(groups_that_have_gone);
	RUN(a_group_that_is_made_anew);
	RUN(a_group_that_is_made_anew_and_has_used_more);
	RUN(a_memory_group_that_goes_first);
	RUN(found);
	RUN(cpus);
	RUN(strange_files);
	return t_end();
}
