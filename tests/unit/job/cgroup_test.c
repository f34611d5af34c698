/* SPDX-License-Identifier: GPL-2.0 */
/* link: -Wl,--wrap=zn_hierarchies_read */
/* cgroup.c: what paths mean, and what a scan of a made-up /proc finds. Live control groups are in tests/e2e/jobs.py. */
#include "t.h"
#include "zernel.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define J     ZN_CGROUP_JOB
#define S     ZN_CGROUP_STEP
#define B     ZN_CGROUP_BELOW
#define SCOPE "/system.slice/slurmstepd.scope"

static const struct {
	const char *name, *path, *job, *step; /* job NULL: it names none */
	uint32_t level;
} paths[] = {
	{"v2 job", SCOPE "/job_4711", "4711", "", J},
	{"v2 step", SCOPE "/job_4711/step_0", "4711", "0", S},
	{"v2 batch", SCOPE "/job_4711/step_batch", "4711", "batch", S},
	{"v2 extern", SCOPE "/job_4711/step_extern/user/task_special", "4711", "extern", B},
	{"v2 interactive", SCOPE "/job_1/step_interactive/slurm", "1", "interactive", B},
	{"v2 task", SCOPE "/job_4711/step_0/user/task_3", "4711", "0", B},
	{"v2 with the node's name", "/system.slice/n01_slurmstepd.scope/job_4711/step_0", "4711", "0", S},
	{"v2 in another slice", "/hpc.slice/hpc-slurm.slice/slurmstepd.scope/job_7/step_1/user/task_0", "7", "1", B},
	{"v2 at the top", "/slurmstepd.scope/job_7", "7", "", J},
	{"v2 in a container",
		"/kubepods.slice/kubepods-pod1.slice/cri-1.scope/system.slice/a_slurmstepd.scope/job_9/step_0", "9",
		"0", S},
	{"v2 with a long node's name",
		"/system.slice/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn_slurmstepd.scope/job_5",
		"5", "", J},
	{"v2 SLUID", SCOPE "/s0123456789ABC", "s0123456789ABC", "", J},
	{"v2 SLUID task", SCOPE "/sGHJKMNPQRSTVW/step_0/user/task_0", "sGHJKMNPQRSTVW", "0", B},
	{"v1 job", "/slurm/uid_1000/job_4711", "4711", "", J},
	{"v1 step", "/slurm/uid_1000/job_4711/step_batch", "4711", "batch", S},
	{"v1 task", "/slurm/uid_0/job_4711/step_0/task_0", "4711", "0", B},
	{"v1 with the node's name", "/slurm_n01/uid_0/job_4711/step_0", "4711", "0", S},
	{"v1 below a prefix", "/docker/1234/slurm/uid_0/job_4711", "4711", "", J},
	{"the largest id", SCOPE "/job_4294967294", "4294967294", "", J},
	{"a group of the job that is no step", SCOPE "/job_4711/other/step_0", "4711", "", B},
	{"a step of a heterogeneous job", SCOPE "/job_4711/step_0+1", "4711", "0+1", S},
	{"a step without a name", SCOPE "/job_4711/step_", "4711", "", S},
	{"a step's name is cut", SCOPE "/job_4711/step_0123456789abcdefgh", "4711", "0123456789abcde", S},
	{"nested job", SCOPE "/job_1/step_0/user/task_0" SCOPE "/job_2/step_5", "1", "0", B},
	{"nested job right below", SCOPE "/job_1/job_2", "1", "", B},
	{"more slashes", "//system.slice//slurmstepd.scope///job_4711//step_0/", "4711", "0", S},
	{"no leading slash", "slurmstepd.scope/job_4711", "4711", "", J},
	{"scope alone", SCOPE, NULL, NULL, 0},
	{"slurmd itself", "/system.slice/slurmd.service", NULL, NULL, 0},
	{"the scope's own process", SCOPE "/system", NULL, NULL, 0},
	{"empty", "", NULL, NULL, 0},
	{"root", "/", NULL, NULL, 0},
	{"no digits", SCOPE "/job_", NULL, NULL, 0},
	{"id 0", SCOPE "/job_0", NULL, NULL, 0},
	{"leading zero", SCOPE "/job_04711", NULL, NULL, 0},
	{"11 digits", SCOPE "/job_12345678901", NULL, NULL, 0},
	{"12 digits", SCOPE "/job_123456789012", NULL, NULL, 0},
	{"13 digits", SCOPE "/job_1234567890123", NULL, NULL, 0},
	{"2^32", SCOPE "/job_4294967296", NULL, NULL, 0},
	{"2^32 - 1", SCOPE "/job_4294967295", NULL, NULL, 0},
	{"2^64 + 4711", SCOPE "/job_18446744073709556327", NULL, NULL, 0},
	{"a letter after the id", SCOPE "/job_12x", NULL, NULL, 0},
	{"a sign", SCOPE "/job_-1", NULL, NULL, 0},
	{"a blank", SCOPE "/job_ 1", NULL, NULL, 0},
	{"removed", SCOPE "/job_12 (deleted)", NULL, NULL, 0},
	{"upper case", SCOPE "/JOB_12", NULL, NULL, 0},
	{"other prefix", SCOPE "/xjob_12", NULL, NULL, 0},
	{"a user's own", "/user.slice/user-1000.slice/user@1000.service/job_1", NULL, NULL, 0},
	{"a service's own", "/system.slice/web.service/job_1", NULL, NULL, 0},
	{"a name that only ends like the scope", "/system.slice/xslurmstepd.scope/job_1", NULL, NULL, 0},
	{"a name that only begins like the scope", "/system.slice/slurmstepd.scopes/job_1", NULL, NULL, 0},
	{"not right below the scope", SCOPE "/x/job_1", NULL, NULL, 0},
	{"v1 without a uid", "/slurm/job_1", NULL, NULL, 0},
	{"v1 with a bad uid", "/slurm/uid_x/job_1", NULL, NULL, 0},
	{"v1 without its top", "/uid_0/job_1", NULL, NULL, 0},
	{"v1 with another top", "/slurmx/uid_0/job_1", NULL, NULL, 0},
	{"v1 with a folder between", "/slurm/x/uid_0/job_1", NULL, NULL, 0},
	{"SLUID outside of a scope", "/slurm/uid_0/s0123456789ABC", NULL, NULL, 0},
	{"SLUID too short", SCOPE "/s0123456789AB", NULL, NULL, 0},
	{"SLUID too long", SCOPE "/s0123456789ABCD", NULL, NULL, 0},
	{"SLUID with a lower-case letter", SCOPE "/s0123456789ABc", NULL, NULL, 0},
	{"SLUID with a sign", SCOPE "/s0123456789AB-", NULL, NULL, 0},
};

static char *copy(const char *text, size_t len)
{
	char *block = malloc(len + 1);

	memcpy(block, text, len);
	block[len] = 0;
	return block;
}

/* Whatever is left of a path: the names are texts, and the levels fit what was found. */
static void check_sound(const char *path)
{
	struct zn_cgroup_name name;

	memset(&name, 0xaa, sizeof(name));
	if (!zn_cgroup_name(path, &name))
		return;
	CHECK(strnlen(name.job, sizeof(name.job)) < sizeof(name.job) && name.job[0]);
	CHECK(strnlen(name.step, sizeof(name.step)) < sizeof(name.step));
	CHECK(name.level >= J && name.level <= B && (name.level != J || !name.step[0]));
}

static void every_path(void)
{
	for (size_t i = 0; i < ZN_LEN(paths); i++) {
		size_t len = strlen(paths[i].path);
		struct zn_cgroup_name name;

		t_begin(paths[i].name);
		for (size_t cut = 0; cut <= len; cut++) {
			char *block = copy(paths[i].path, cut);

			check_sound(block);
			if (cut == len)
				CHECK_EQ(zn_cgroup_name(block, &name), paths[i].level != 0);
			free(block);
		}
		if (!paths[i].level || !zn_cgroup_name(paths[i].path, &name))
			continue;
		CHECK_STR(name.job, paths[i].job);
		CHECK_STR(name.step, paths[i].step);
		CHECK_EQ(name.level, paths[i].level);
	}
}

/* ---- a scan ---- */

static char root[] = "/tmp/zernel-cgroup-XXXXXX";
static struct zn_memory_arena memory;

static void make(const char *path)
{
	char text[512];

	for (size_t i = 1; i <= strlen(path); i++)
		if (path[i] == '/' || !path[i]) {
			snprintf(text, sizeof(text), "%s%.*s", root, (int)i, path);
			mkdir(text, 0755);
		}
}

static void put(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(const char *path, const char *format, ...)
{
	char text[512];
	va_list args;
	FILE *f;

	snprintf(text, sizeof(text), "%s%s", root, path);
	f = fopen(text, "w");
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fclose(f);
}

static void process(uint32_t pid, const char *groups)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	make(path);
	strcat(path, "/cgroup");
	put(path, "%s", groups);
}

static void scan(void)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/proc", root);
	zn_cgroup_scan(&memory.arena, path);
}

static uint32_t slot_of_task(uint32_t tgid)
{
	for (uint32_t i = 0; i < memory.task_count; i++)
		if (memory.tasks[i].tgid == tgid)
			return memory.tasks[i].job.slot;
	return ZN_UNKNOWN;
}

static const char *job_of_task(uint32_t tgid)
{
	uint32_t slot = slot_of_task(tgid);

	return slot == ZN_UNKNOWN ? "" : memory.arena.jobs[slot].name;
}

/* A hybrid machine: two hierarchies of version 1, one of version 2 whose mount point has a blank, and a bind mount. */
static void begin(void)
{
	zn_memory_open(&memory);
	strcpy(root, "/tmp/zernel-cgroup-XXXXXX");
	if (!mkdtemp(root))
		perror(root);
	make("/proc/self");
	make("/memory");
	make("/cpu,cpuacct");
	make("/v 2");
	put("/proc/self/mountinfo",
		"22 1 0:5 / / rw - ext4 /dev/sda rw\n"
		"32 31 0:29 / %s/cpu,cpuacct rw,relatime shared:7 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
		"33 31 0:30 / %s/memory rw - cgroup cgroup rw,memory\n"
		"34 31 0:31 / %s/v\\0402 rw - cgroup2 cgroup2 rw,nsdelegate\n"
		"35 31 0:31 / %s/missing rw - cgroup2 cgroup2 rw\nbad\n1 2 3\n",
		root, root, root, root);
	put("/proc/self/cgroup", "5:memory:/\n2:cpu,cpuacct:/\n0::/\n");
}

static void end(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	CHECK_EQ(system(command), 0);
	zn_memory_close(&memory);
}

T(scan_finds_jobs_of_both_versions)
{
	begin();
	make("/memory/slurm/uid_0/job_4711/step_0/task_0");
	make("/v 2" SCOPE "/job_12/step_batch/user/task_0");
	process(1, "5:memory:/\n2:cpu,cpuacct:/\n0::/init.scope\n");
	process(100, "5:memory:/slurm/uid_0/job_4711/step_0/task_0\n2:cpu,cpuacct:/\n0::/\n");
	process(200, "5:memory:/\n2:cpu,cpuacct:/\n0::" SCOPE "/job_12/step_batch/user/task_0\n");
	process(201, "0::" SCOPE "/job_12/step_batch/user/task_0\n");
	scan();
	CHECK_EQ(memory.task_count, 3);
	CHECK_STR(job_of_task(100), "4711");
	CHECK_STR(job_of_task(200), "12");
	CHECK_EQ(slot_of_task(200), slot_of_task(201));
	CHECK_EQ(memory.cgroup_count, 3 + 4);
	for (uint32_t slot = 0; slot < 2; slot++) {
		const struct zn_job_shared *row = &memory.arena.jobs[slot];

		CHECK_EQ(row->cgroups, 1);
		CHECK_EQ(row->cgroup_seen, 1);
		CHECK_EQ(row->step_count, 1);
		CHECK_STR(row->step[0].name, row->name[0] == '4' ? "0" : "batch");
	}
	CHECK_EQ(memory.arena.shared->jobs, 2);
	end();
}

static struct zn_causes causes;

/* The job of slot 1 has a process that is long in run queues; one second passes. */
static const struct zn_cause_group *throttle(uint32_t pid)
{
	struct zn_cause_group *g = &causes.group[1];
	char path[512];

	g->used = true;
	g->queue_pid = pid;
	g->queue_ns = ZN_NS_PER_S / 2;
	causes.interval_ns = ZN_NS_PER_S;
	causes.tick_ns += ZN_NS_PER_S;
	snprintf(path, sizeof(path), "%s/proc", root);
	for (int i = 0; i < 3; i++) /* one job at a time: each has its turn */
		zn_cgroup_throttle(&causes, path);
	return g;
}

#define STAT_V1 "nr_periods 7\nnr_throttled 3\nthrottled_time %u\n"
#define STAT_V2 "usage_usec 9\nuser_usec 1\nnr_throttled 3\nthrottled_usec %u\nnr_bursts 0\n"

T(limits_of_groups_and_of_those_above_are_found)
{
	memset(&causes, 0, sizeof(causes));
	begin();
	make("/cpu,cpuacct/a/b");
	make("/v 2/x/y");
	process(100, "5:memory:/\n2:cpu,cpuacct:/a/b\n0::/x\n");
	process(200, "0::/x/y\n");
	put("/cpu,cpuacct/a/cpu.stat", STAT_V1, 100000000);
	put("/cpu,cpuacct/a/b/cpu.stat", STAT_V1, 0);
	put("/v 2/x/cpu.stat", STAT_V2, 77);
	CHECK(!throttle(100)->throttle_rule); /* the first look says nothing */
	CHECK_EQ(causes.group[1].throttled_ns, 100000000);
	put("/cpu,cpuacct/a/b/cpu.stat", STAT_V1, 300000000);
	CHECK(throttle(100)->throttle_rule);
	CHECK_EQ(causes.group[1].throttled_ns, 400000000);
	CHECK_EQ(causes.group[1].throttled_percent, 30);
	put("/cpu,cpuacct/a/cpu.stat", STAT_V1, 200000000);
	CHECK(!throttle(100)->throttle_rule); /* less than half of what it waited */
	put("/v 2/x/y/cpu.stat", STAT_V2, 1000000);
	throttle(200);
	CHECK_EQ(causes.group[1].throttled_ns, 1000077000);
	end();
}

/* The processes of a job, or of none, may be in several groups: each has its own sum. */
T(limits_of_one_group_say_nothing_of_another)
{
	memset(&causes, 0, sizeof(causes));
	begin();
	make("/v 2/x");
	make("/v 2/y");
	process(100, "0::/x\n");
	process(101, "0::/x\n");
	process(200, "0::/y\n");
	put("/v 2/x/cpu.stat", STAT_V2, 1000);
	put("/v 2/y/cpu.stat", STAT_V2, 1000000000);
	throttle(100);
	CHECK(!throttle(200)->throttle_rule);
	CHECK_EQ(causes.group[1].throttled_percent, 0);
	throttle(100);
	put("/v 2/x/cpu.stat", STAT_V2, 401000);
	CHECK(throttle(101)->throttle_rule); /* which is in the same group */
	CHECK_EQ(causes.group[1].throttled_percent, 40);
	CHECK(!throttle(4711)->throttle_rule); /* it has gone */
	CHECK(!throttle(101)->throttle_rule);
	put("/v 2/x/cpu.stat", STAT_V2, 8401000); /* on eight CPUs */
	CHECK(throttle(101)->throttle_rule);
	CHECK_EQ(causes.group[1].throttled_percent, 100);
	put("/v 2/x/cpu.stat", STAT_V2, 17701000); /* 9.3 s: that times a tick times two is more than 64 bits hold */
	CHECK(throttle(101)->throttle_rule);
	end();
}

T(limits_that_cannot_be_read_are_none)
{
	static const char *const groups[] = {"", "0::/../..\n", "0::/missing\n", "2:cpu,cpuacct\n", "x\n", "0::\n"};

	memset(&causes, 0, sizeof(causes));
	begin();
	put("/v 2/cpu.stat", "throttled_usec 5\n"); /* no line before it */
	for (size_t i = 0; i < ZN_LEN(groups); i++) {
		process(100, groups[i]);
		CHECK(!throttle(100)->throttle_rule);
		CHECK_EQ(causes.group[1].throttled_ns, 0);
	}
	CHECK_EQ(throttle(4711)->throttled_ns, 0);
	end();
}

static unsigned reads; /* of lists of mounts */

const struct zn_hierarchies *__real_zn_hierarchies_read(const char *proc_root);
const struct zn_hierarchies *__wrap_zn_hierarchies_read(const char *proc_root);
const struct zn_hierarchies *__wrap_zn_hierarchies_read(const char *proc_root)
{
	reads++;
	return __real_zn_hierarchies_read(proc_root);
}

/* How often the list of mounts is read in two ticks in which this process waits for CPUs. */
static unsigned reads_of_two_ticks(void)
{
	reads = 0;
	causes.group[1].used = true;
	causes.group[1].queue_pid = (uint32_t)getpid();
	zn_cgroup_throttle(&causes, "/proc");
	zn_cgroup_throttle(&causes, "/proc");
	return reads;
}

/* In a process of its own, whose mounts are nobody else's. */
static int read_after_changes(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		!__real_zn_hierarchies_read("/proc")->count)
		return 0; /* not here */
	if (reads_of_two_ticks() != 1 || reads_of_two_ticks() != 0)
		return 1;
	if (mount("none", root, "tmpfs", 0, NULL) || reads_of_two_ticks() != 1)
		return 2;
	return umount(root) || reads_of_two_ticks() != 1 ? 3 : 0;
}

/* A list of ten thousand mounts takes longer than a tick should. */
T(the_list_of_mounts_is_read_again_when_it_has_changed)
{
	int status;
	pid_t pid;

	memset(&causes, 0, sizeof(causes));
	begin();
	pid = fork();
	if (pid == 0)
		_exit(read_after_changes());
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	end();
}

T(two_hierarchies_are_one_job)
{
	begin();
	make("/memory/slurm/uid_0/job_4711/step_0");
	make("/cpu,cpuacct/slurm/uid_0/job_4711/step_0");
	process(100, "5:memory:/slurm/uid_0/job_4711/step_0\n2:cpu,cpuacct:/slurm/uid_0/job_4711/step_0\n0::/\n");
	scan();
	scan();
	CHECK_EQ(memory.arena.shared->jobs, 1);
	CHECK_EQ(memory.arena.jobs[0].cgroups, 2);
	CHECK_EQ(memory.arena.jobs[0].step_count, 1);
	CHECK_EQ(memory.task_count, 1);
	end();
}

T(what_is_not_there_is_left_alone)
{
	begin();
	make("/memory/slurm/uid_0");
	process(100, "5:memory:/slurm/uid_0/job_4711/step_0\n"); /* removed since */
	process(101, "5:memory:/slurm/uid_0/job_12 (deleted)\n");
	process(102, "9:pids:/slurm/uid_0/job_13\n"); /* not mounted */
	process(103, "0::/../../x" SCOPE "/job_14\n");
	process(104, "5:memory:/slurm/uid_0/job_15"); /* cut */
	process(105, "5memory:/slurm/uid_0/job_16\n:\n5::\n\n5:memory:slurm\n");
	make("/proc/106");
	scan();
	CHECK_EQ(memory.task_count, 0);
	CHECK_EQ(memory.cgroup_count, 0);
	CHECK_EQ(memory.arena.shared->jobs, 0);
	end();
}

T(a_users_folder_is_no_job)
{
	char path[512];

	begin();
	make("/v 2" SCOPE "/job_12");
	snprintf(path, sizeof(path), "%s/v 2" SCOPE "/job_12", root);
	if (geteuid() == 0)
		CHECK_EQ(chown(path, 65534, 65534), 0);
	process(100, "0::" SCOPE "/job_12\n");
	scan();
	CHECK_EQ(memory.arena.shared->jobs, geteuid() == 0 ? 0 : 1); /* nobody but root can give folders away */
	end();
}

T(a_long_file_is_read_up_to_a_limit)
{
	char path[64] = "/proc/100";
	FILE *f;

	begin();
	make("/memory/slurm/uid_0/job_4711");
	make(path);
	snprintf(path, sizeof(path), "%s/proc/100/cgroup", root);
	f = fopen(path, "w");
	fputs("5:memory:/slurm/uid_0/job_4711\n0::/", f);
	for (int i = 0; i < 100000; i++)
		fputc('x', f);
	fputs("\n5:memory:/slurm/uid_0/job_12\n", f);
	fclose(f);
	scan();
	CHECK_STR(job_of_task(100), "4711");
	CHECK_EQ(memory.arena.shared->jobs, 1);
	end();
}

/* ---- the plain arena's tables, which stand for those of BPF ---- */

T(plain_jobs)
{
	static const struct zn_cgroup_key one = {.id = 1}, two = {.id = 2};
	const struct zn_arena_ops *ops;
	struct zn_arena *a = &memory.arena;
	struct zn_job_shared *row;
	int slot, other;

	zn_memory_open(&memory);
	ops = a->ops;
	slot = ops->job_claim(a, "4711");
	CHECK_EQ(ops->job_claim(a, "4711"), slot);
	CHECK_EQ(ops->job_alias(a, slot, "s0123456789ABC"), 0);
	CHECK_EQ(ops->job_alias(a, slot, "4711"), 0);
	CHECK_EQ(ops->job_claim(a, "s0123456789ABC"), slot);
	row = &a->jobs[slot];
	CHECK_EQ(ops->job_cgroup(a, slot, &one, J, NULL), 0);
	CHECK_EQ(ops->job_cgroup(a, slot, &two, S, "0"), 0);
	CHECK_EQ(row->cgroups, 1);
	ops->job_cgroup_gone(a, &two);
	CHECK(row->step[0].end_ns && !row->gone_ns);
	ops->job_cgroup_gone(a, &one);
	ops->job_cgroup_gone(a, &one);
	CHECK(row->cgroups == 0 && row->gone_ns);
	ops->job_unname(a, slot);
	other = ops->job_claim(a, "4711");
	CHECK(other >= 0 && other != slot && a->jobs[other].serial != row->serial);
	CHECK_EQ(ops->job_alias(a, slot, "4711"), -EEXIST);
	ops->job_forget(a, slot);
	CHECK_EQ(row->serial, 0);
	CHECK_EQ(a->shared->jobs, 1);
	CHECK_EQ(ops->job_claim(a, "4711"), other);
	zn_memory_close(&memory);
}

T(plain_tags)
{
	struct zn_arena *a = &memory.arena;
	struct zn_proc *before, *after;
	int slot, other;

	zn_memory_open(&memory);
	slot = a->ops->job_claim(a, "1");
	other = a->ops->job_claim(a, "2");
	before = zn_memory_claim(&memory, 10, "a");
	CHECK_EQ(before->job.serial, 0);
	CHECK_EQ(a->ops->job_task(a, slot, 10), 0);
	CHECK_EQ(before->job.serial, a->jobs[slot].serial);
	CHECK_EQ(a->ops->job_task(a, slot, 11), 0);
	after = zn_memory_claim(&memory, 11, "b");
	CHECK_EQ(after->job.serial, a->jobs[slot].serial);
	CHECK_EQ(a->ops->job_task(a, other, 11), 0);
	CHECK_EQ(after->job.slot, other);
	zn_memory_close(&memory);
}

T(plain_table_full)
{
	struct zn_arena *a = &memory.arena;
	char name[ZN_JOB_NAME];

	zn_memory_open(&memory);
	for (uint32_t i = 0; i < ZN_JOBS_MAX + 3; i++) {
		snprintf(name, sizeof(name), "%u", i + 1);
		CHECK_EQ(a->ops->job_claim(a, name), i < ZN_JOBS_MAX ? (int)i : -ENOSPC);
	}
	CHECK_EQ(a->shared->lost[ZN_LOST_JOB], 3);
	CHECK_EQ(a->shared->jobs, ZN_JOBS_MAX);
	zn_memory_close(&memory);
}

T(tags_of_groups_that_do_not_exist)
{
	static const char *const bad[] = {"/no/such/group", "0::/no/such/group", "77:memory:/x", "/etc/passwd",
		"/sys/fs/cgroup/..", "", "0::", "0::x", "relative", "/sys/../etc"};
	char why[ZN_TEXT_MAX];

	zn_memory_open(&memory);
	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		why[0] = 0;
		CHECK(zn_cgroup_tag(&memory.arena, 0, bad[i], why) < 0);
		CHECK(why[0]);
	}
	CHECK_EQ(memory.task_count, 0);
	zn_memory_close(&memory);
}

/* ---- what processes have started ---- */

#define FOUND_MAX 4096

static struct zn_tree tree;
static struct {
	uint32_t pid, index;
} found[FOUND_MAX];
static uint32_t found_count, refused_pid;

static int found_add(void *owner, const struct zn_tree_process *parent, uint32_t pid)
{
	CHECK(owner == &tree && found_count < FOUND_MAX);
	if (pid == refused_pid)
		return -EEXIST;
	found[found_count].pid = pid;
	found[found_count++].index = parent->index;
	return 0;
}

/* Of which index this process was found; found twice or never: ZN_UNKNOWN. */
static uint32_t index_of(uint32_t pid)
{
	uint32_t index = ZN_UNKNOWN, times = 0;

	for (uint32_t i = 0; i < found_count; i++)
		if (found[i].pid == pid) {
			index = found[i].index;
			times++;
		}
	return times == 1 ? index : ZN_UNKNOWN;
}

static void thread(uint32_t pid, uint32_t tid, const char *children)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u/task/%u", pid, tid);
	make(path);
	strcat(path, "/children");
	put(path, "%s", children);
}

static void parent(uint32_t pid, uint32_t of)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%u", pid);
	make(path);
	strcat(path, "/stat");
	put(path, "%u (a ) b) S %u 1 1 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0", pid, of);
}

static void tree_begin(bool lists)
{
	static char path[64];

	begin();
	make("/proc/thread-self");
	if (lists)
		put("/proc/thread-self/children", "%s", "");
	snprintf(path, sizeof(path), "%s/proc", root);
	zn_tree_init(&tree, path);
	tree.add = found_add;
	tree.owner = &tree;
	found_count = refused_pid = 0;
}

static void tree_add(uint32_t pid, uint32_t index)
{
	CHECK(zn_tree_add(&tree, &(struct zn_tree_process){.pid = pid, .index = index}));
}

static uint32_t tree_steps(void)
{
	uint32_t steps = 1;

	while (zn_tree_step(&tree))
		steps++;
	return steps;
}

static void tree_end(void)
{
	zn_tree_close(&tree);
	zn_tree_close(&tree);
	end();
}

T(children_of_all_threads_and_theirs)
{
	tree_begin(true);
	thread(10, 10, "20 21 ");
	thread(10, 11, "22 ");
	thread(20, 20, "30 ");
	thread(21, 21, "31 "); /* of a process that is refused */
	thread(30, 30, "");
	thread(30, 33, "1000000");
	thread(50, 50, "60 ");
	refused_pid = 21;
	tree_add(10, 1);
	tree_add(50, 5);
	tree_add(99, 9); /* it has ended */
	CHECK(!zn_tree_step(&(struct zn_tree){0}));
	tree_steps();
	CHECK_EQ(found_count, 5);
	CHECK_EQ(index_of(20), 1);
	CHECK_EQ(index_of(22), 1);
	CHECK_EQ(index_of(30), 1);
	CHECK_EQ(index_of(1000000), 1);
	CHECK_EQ(index_of(60), 5);
	CHECK(!zn_tree_step(&tree));
	tree_end();
}

T(a_long_list_of_children_is_cut_anywhere)
{
	char text[8 * 1500] = "";
	size_t len = 0;

	tree_begin(true);
	for (uint32_t i = 0; i < 1500; i++)
		len += snprintf(text + len, sizeof(text) - len, "%u ", 30000 + i);
	thread(10, 10, text);
	tree_add(10, 1);
	tree_steps();
	CHECK_EQ(found_count, 1500);
	for (uint32_t i = 0; i < 1500; i++)
		CHECK_EQ(index_of(30000 + i), 1);
	tree_end();
}

T(many_threads_keep_nobody_waiting)
{
	tree_begin(true);
	for (uint32_t i = 0; i < 300; i++)
		thread(1000, 1000 + i, i == 299 ? "7 " : "");
	thread(40, 40, "41 ");
	tree_add(1000, 1);
	tree_add(40, 4);
	zn_tree_step(&tree);
	zn_tree_step(&tree);
	CHECK_EQ(index_of(41), 4);
	for (int i = 0; i < 3; i++) /* within the threads of the first one */
		CHECK(zn_tree_step(&tree));
	thread(42, 42, "43 ");
	tree_add(42, 4);
	zn_tree_step(&tree);
	zn_tree_step(&tree); /* the folder may have told of 7 already */
	CHECK_EQ(index_of(43), 4);
	tree_steps();
	CHECK_EQ(index_of(7), 1);
	tree_end();
}

/* As many as there are in /proc, and not times the number of processes whose children are looked for. */
T(without_lists_one_pass_is_for_all)
{
	uint32_t one, all;

	tree_begin(false);
	for (uint32_t i = 0; i < 300; i++) {
		parent(1000 + i, 1);
		parent(2000 + i, 1000 + i);
		parent(500 + i, 2000 + i); /* a pid that was used anew: its parent has a larger one */
	}
	tree_add(1000, 0);
	one = tree_steps();
	CHECK_EQ(found_count, 2);
	CHECK_EQ(index_of(500), 0);
	found_count = 0;
	for (uint32_t i = 0; i < 300; i++)
		tree_add(1000 + i, i);
	all = tree_steps();
	CHECK_EQ(found_count, 600);
	for (uint32_t i = 0; i < 300; i++) {
		CHECK_EQ(index_of(2000 + i), i);
		CHECK_EQ(index_of(500 + i), i);
	}
	CHECK(all <= one + 2);
	CHECK(one > 300 / 40); /* it goes in slices */
	tree_end();
}

T(one_that_comes_during_a_pass_has_a_whole_one)
{
	tree_begin(false);
	for (uint32_t i = 0; i < 200; i++)
		parent(1000 + i, i % 2 ? 5 : 6);
	tree_add(5, 5);
	zn_tree_step(&tree);
	zn_tree_step(&tree);
	tree_add(6, 6);
	tree_steps();
	CHECK_EQ(found_count, 200);
	for (uint32_t i = 0; i < 200; i++)
		CHECK_EQ(index_of(1000 + i), i % 2 ? 5 : 6);
	tree_end();
}

T(a_tree_without_room)
{
	tree_begin(true);
	for (uint32_t i = 0; i < ZN_TREE_MAX; i++)
		tree_add(100000, i);
	CHECK(!zn_tree_add(&tree, &(struct zn_tree_process){.pid = 10}));
	CHECK_EQ(tree.dropped, 1);
	tree_steps();
	CHECK_EQ(found_count, 0);
	thread(10, 10, "11 ");
	tree_add(10, 3);
	tree_steps();
	CHECK_EQ(index_of(11), 3);
	tree_end();
}

int main(void)
{
	every_path();
	RUN(scan_finds_jobs_of_both_versions);
	RUN(limits_of_groups_and_of_those_above_are_found);
	RUN(limits_of_one_group_say_nothing_of_another);
	RUN(limits_that_cannot_be_read_are_none);
	RUN(the_list_of_mounts_is_read_again_when_it_has_changed);
	RUN(two_hierarchies_are_one_job);
	RUN(what_is_not_there_is_left_alone);
	RUN(a_users_folder_is_no_job);
	RUN(a_long_file_is_read_up_to_a_limit);
	RUN(plain_jobs);
	RUN(plain_tags);
	RUN(plain_table_full);
	RUN(tags_of_groups_that_do_not_exist);
	RUN(children_of_all_threads_and_theirs);
	RUN(a_long_list_of_children_is_cut_anywhere);
	RUN(many_threads_keep_nobody_waiting);
	RUN(without_lists_one_pass_is_for_all);
	RUN(one_that_comes_during_a_pass_has_a_whole_one);
	RUN(a_tree_without_room);
	return t_end();
}
