/* SPDX-License-Identifier: GPL-2.0 */
/*
 * usage.c: CPU time and memory of jobs, as their control groups say, of either version. Groups that are there are read
 * in turn; what the kernel had counted when one was removed is in the job's row (bpf/job.bpf.c), so that a job of a
 * moment is whole.
 *
 * Limits: what memory was of which kind is known as of the looks alone, so its highest is that of a look. A limit that
 * is set on groups below the job's own is not seen.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "zernel.h"

#define TURN_LEAST 16           /* jobs that are looked at in one tick, if there are as many */
#define TURN_SHARE 8            /* of all jobs, in a tick: a job waits no longer than that many */
#define NO_LIMIT   (1ULL << 62) /* version 1 says a number near 2^63 */
#define TEXT_BYTES 8192         /* of one file of a group; memory.stat has some 2,000 */
#define CPU_MILLI  1000

#define STEPS_AT_A_LOOK 2

/* ---- one file of a group ---- */

static char text[TEXT_BYTES];

/* Reads a file into text, behind a line end. False: it is not there. */
static bool read_file(const char *folder, const char *name)
{
	char path[ZN_CGROUP_FOLDER + 32];

	text[0] = '\n';
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return folder[0] && zn_file_read(path, text + 1, sizeof(text) - 1) > 0;
}

/* The number behind a key, which begins with a line end, in text. */
static uint64_t number_at(const char *key)
{
	const char *at = strstr(text, key);

	at += at ? strlen(key) : 0;
	return at && isdigit((unsigned char)*at) ? strtoull(at, NULL, 10) : ZN_NOT_KNOWN;
}

static uint64_t number_in(const char *folder, const char *name)
{
	return read_file(folder, name) ? number_at("\n") : ZN_NOT_KNOWN;
}

static uint64_t scaled_up(uint64_t v, uint64_t by)
{
	return v == ZN_NOT_KNOWN || __builtin_mul_overflow(v, by, &v) ? ZN_NOT_KNOWN : v;
}

static uint64_t known_or_0(uint64_t v)
{
	return v == ZN_NOT_KNOWN ? 0 : v;
}

static uint64_t larger_of(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- CPU ---- */

static struct zn_cpu_time read_cpu_time(const struct zn_cgroup_folders *f)
{
	const char *folder = f->at[ZN_CONTROLLER_CPUACCT];
	struct zn_cpu_time t = {0};

	if (f->v2[ZN_CONTROLLER_CPUACCT] && read_file(folder, "cpu.stat")) {
		t = (struct zn_cpu_time){known_or_0(scaled_up(number_at("\nusage_usec "), 1000)),
			known_or_0(number_at("\nuser_usec ")), known_or_0(number_at("\nsystem_usec "))};
	} else if (!f->v2[ZN_CONTROLLER_CPUACCT]) {
		t.ns = known_or_0(number_in(folder, "cpuacct.usage"));
		if (read_file(folder, "cpuacct.stat"))
			t.user = known_or_0(number_at("\nuser ")), t.system = known_or_0(number_at("\nsystem "));
	}
	return t;
}

static struct zn_cpu_time both_times(const struct zn_cpu_time *a, const struct zn_cpu_time *b)
{
	return (struct zn_cpu_time){a->ns + b->ns, a->user + b->user, a->system + b->system};
}

/* What is read begins at 0 again, what is told goes on. */
static void cpu_anew(struct zn_job_use *u)
{
	u->cpu_before = both_times(&u->cpu_before, &u->cpu_read);
	u->cpu_read = (struct zn_cpu_time){0};
}

static void count_anew(struct zn_job_counter *c)
{
	c->before += c->read;
	c->read = 0;
}

static void count_cpu_time(struct zn_job_use *u, const struct zn_cgroup_folders *f)
{
	struct zn_cpu_time t = read_cpu_time(f);

	if (!t.ns)
		return;
	if (t.ns < u->cpu_read.ns)
		cpu_anew(u);
	u->cpu_read = t;
	u->cpu = both_times(&u->cpu_before, &t);
}

/* The same of a counter that nothing tells when its group goes: it is as of the last look. */
static uint64_t count_on(struct zn_job_counter *c, uint64_t reading)
{
	if (reading < c->read)
		count_anew(c);
	c->read = reading;
	return c->before + reading;
}

/* A job without PrologFlags=Contain has a group for each of its steps, one after another, all with the same path. A new
 * one may have more at its first look than the one before it had at its last. */
static void group_anew(struct zn_job_use *u)
{
	cpu_anew(u);
	count_anew(&u->throttled);
	for (size_t r = 0; r < ZN_PRESSURES; r++)
		for (size_t k = 0; k < ZN_LEN(u->pressure[r]); k++)
			count_anew(&u->pressure[r][k]);
}

/* 0: it is not there. */
static uint64_t inode_of(const char *folder)
{
	struct stat st;

	return folder[0] && stat(folder, &st) == 0 ? st.st_ino : 0;
}

static void read_throttling(struct zn_job_use *u, const struct zn_cgroup_folders *f)
{
	const char *folder = f->at[ZN_CONTROLLER_CPU];
	uint64_t ns;

	if (!read_file(folder, "cpu.stat"))
		return;
	ns = f->v2[ZN_CONTROLLER_CPU] ? scaled_up(number_at("\nthrottled_usec "), 1000)
				      : number_at("\nthrottled_time ");
	if (ns != ZN_NOT_KNOWN)
		u->throttled_ns = count_on(&u->throttled, ns);
}

/* SLURM_JOB_CPUS_PER_NODE is "8" or "8(x2)" where all nodes have the same; which of "8(x2),4" is this node's is not
 * said. */
uint32_t zn_use_told_cpus(const char *told)
{
	char *end;
	unsigned long n = isdigit((unsigned char)*told) ? strtoul(told, &end, 10) : 0;

	if (!n || n >= UINT16_MAX || strchr(told, ','))
		return 0;
	return *end == 0 || *end == '(' ? (uint32_t)n : 0;
}

/* Thousandths of a CPU that a quota allows; ZN_NOT_KNOWN: there is none. */
static uint64_t read_quota(const struct zn_cgroup_folders *f)
{
	const char *folder = f->at[ZN_CONTROLLER_CPU], *blank;
	uint64_t quota, period;

	if (f->v2[ZN_CONTROLLER_CPU]) {
		quota = read_file(folder, "cpu.max") ? number_at("\n") : ZN_NOT_KNOWN;
		blank = quota == ZN_NOT_KNOWN ? NULL : strchr(text, ' ');
		period = blank ? strtoull(blank + 1, NULL, 10) : 0;
	} else {
		quota = number_in(folder, "cpu.cfs_quota_us"); /* -1: none */
		period = known_or_0(number_in(folder, "cpu.cfs_period_us"));
	}
	quota = scaled_up(quota, CPU_MILLI);
	return period && quota != ZN_NOT_KNOWN ? quota / period : ZN_NOT_KNOWN;
}

static void read_cpus(struct zn_job_use *u, const struct zn_cgroup_folders *f, const struct zn_job *job)
{
	uint64_t milli = (uint64_t)CPU_MILLI * zn_use_told_cpus(zn_job_said(job, ZN_KEY_CPUS)), quota = read_quota(f);
	const char *set = f->v2[ZN_CONTROLLER_CPUSET] ? "cpuset.cpus.effective" : "cpuset.cpus";

	if (!milli && read_file(f->at[ZN_CONTROLLER_CPUSET], set))
		milli = (uint64_t)CPU_MILLI * zn_cpus_listed(text + 1);
	if (quota != ZN_NOT_KNOWN && (!milli || quota < milli))
		milli = quota;
	if (milli)
		u->cpus_milli = milli;
}

/* ---- memory ---- */

/* What counts as the kernel's on versions that do not say their sum. */
static uint64_t kernel_bytes(void)
{
	static const char *const parts[] = {"\nslab ", "\nkernel_stack ", "\npagetables ", "\npercpu ", "\nsock "};
	uint64_t sum = number_at("\nkernel ");

	if (sum != ZN_NOT_KNOWN)
		return sum;
	sum = 0;
	for (size_t i = 0; i < ZN_LEN(parts); i++)
		sum += known_or_0(number_at(parts[i]));
	return sum;
}

/* The cache has shared memory in it, which is need, as nothing but swap can take it. */
static bool read_kinds(uint64_t to[ZN_MEMORY_KINDS], const char *folder, bool v2)
{
	uint64_t cache;

	if (!read_file(folder, "memory.stat"))
		return false;
	to[ZN_MEMORY_ANON] = known_or_0(number_at(v2 ? "\nanon " : "\ntotal_rss "));
	to[ZN_MEMORY_SHMEM] = known_or_0(number_at(v2 ? "\nshmem " : "\ntotal_shmem "));
	cache = known_or_0(number_at(v2 ? "\nfile " : "\ntotal_cache "));
	to[ZN_MEMORY_FILE] = cache > to[ZN_MEMORY_SHMEM] ? cache - to[ZN_MEMORY_SHMEM] : 0;
	to[ZN_MEMORY_KERNEL] = v2 ? kernel_bytes() : known_or_0(number_in(folder, "memory.kmem.usage_in_bytes"));
	return true;
}

/* 0: not known. */
static uint64_t read_peak(const struct zn_cgroup_folders *f)
{
	bool v2 = f->v2[ZN_CONTROLLER_MEMORY];

	return known_or_0(number_in(f->at[ZN_CONTROLLER_MEMORY], v2 ? "memory.peak" : "memory.max_usage_in_bytes"));
}

static void read_memory(struct zn_job_use *u, const struct zn_cgroup_folders *f)
{
	const char *folder = f->at[ZN_CONTROLLER_MEMORY];
	bool v2 = f->v2[ZN_CONTROLLER_MEMORY];
	uint64_t needed;

	if (!read_file(folder, v2 ? "memory.max" : "memory.limit_in_bytes"))
		return; /* this group has gone before others of the job: what it said last stays */
	u->limit = number_at("\n");
	if (u->limit >= NO_LIMIT)
		u->limit = ZN_NOT_KNOWN;
	u->peak = larger_of(u->peak, read_peak(f));
	u->swap = v2 ? number_in(folder, "memory.swap.current") : ZN_NOT_KNOWN;
	if (!read_kinds(u->memory, folder, v2))
		return;
	u->kinds_known = true;
	for (enum zn_memory_kind k = 0; k < ZN_MEMORY_KINDS; k++)
		u->kind_peak[k] = larger_of(u->kind_peak[k], u->memory[k]);
	needed = u->memory[ZN_MEMORY_ANON] + u->memory[ZN_MEMORY_SHMEM] + u->memory[ZN_MEMORY_KERNEL];
	u->needed_peak = larger_of(u->needed_peak, needed);
}

/* ---- pressure ---- */

/* The total of a line in text. */
static uint64_t pressure_of(const char *kind)
{
	const char *line = strstr(text, kind), *at = line ? strstr(line, "total=") : NULL;

	return at ? scaled_up(strtoull(at + 6, NULL, 10), 1000) : ZN_NOT_KNOWN;
}

static void read_pressure(struct zn_job_use *u, const struct zn_cgroup_folders *f)
{
	static const char *const files[] = {"cpu.pressure", "memory.pressure", "io.pressure"};
	static const char *const kinds[] = {"\nsome ", "\nfull "};

	for (size_t r = 0; f->v2[ZN_CONTROLLER_CPUACCT] && r < ZN_PRESSURES; r++) {
		bool there = read_file(f->at[ZN_CONTROLLER_CPUACCT], files[r]);

		for (size_t k = 0; k < ZN_LEN(kinds); k++) {
			uint64_t ns = there ? pressure_of(kinds[k]) : ZN_NOT_KNOWN;

			if (ns != ZN_NOT_KNOWN)
				u->pressure_ns[r][k] = count_on(&u->pressure[r][k], ns);
		}
	}
}

/* ---- jobs in turn ---- */

static void use_begin(struct zn_job_uses *all, const struct zn_job *job)
{
	struct zn_job_use *u = &all->use[job->slot];

	*u = (struct zn_job_use){
		.serial = job->serial, .limit = ZN_NOT_KNOWN, .swap = ZN_NOT_KNOWN, .throttled_ns = ZN_NOT_KNOWN};
	memset(u->pressure_ns, 0xff, sizeof(u->pressure_ns));
	memset(&all->folders[job->slot], 0, sizeof(all->folders[job->slot]));
	memset(all->step[job->slot], 0, sizeof(all->step[job->slot]));
}

/* One hierarchy of version 1 after the other gets its group, so each new one is a reason to look again. */
static bool find_folders(struct zn_job_uses *all, struct zn_job_use *u, const struct zn_job_shared *row, uint32_t slot)
{
	if (!row->path[0] || !row->cgroups)
		return false;
	if (u->groups != row->cgroups) {
		char path[ZN_JOB_PATH];

		memcpy(path, row->path, sizeof(path));
		path[sizeof(path) - 1] = 0;
		all->find(path, &all->folders[slot]);
		u->groups = row->cgroups;
	}
	return true;
}

static uint32_t steps_of(const struct zn_job_shared *row)
{
	return row->step_count < ZN_STEPS_MAX ? row->step_count : ZN_STEPS_MAX;
}

/* A few of those that run, in turn: a job may have many. */
static void look_at_steps(struct zn_job_uses *all, const struct zn_job *job)
{
	const struct zn_job_shared *row = zn_job_shared_of(all->jobs, job);
	uint32_t count = steps_of(row), left = STEPS_AT_A_LOOK;

	for (uint32_t n = 0; n < count && left; n++) {
		uint32_t i = all->next_step[job->slot]++ % count;
		struct zn_step step = row->step[i];

		if (step.end_ns)
			continue;
		zn_use_step(all, job, &step);
		all->step[job->slot][i] = (struct zn_step_use){step.cpu_ns, step.mem_peak_bytes};
		left--;
	}
}

static void read_group(struct zn_job_use *u, const struct zn_cgroup_folders *f)
{
	uint64_t group = inode_of(f->at[ZN_CONTROLLER_CPUACCT]);
	struct zn_job_use before;

	if (u->group && group && group != u->group)
		group_anew(u);
	u->group = group ? group : u->group;
	before = *u;
	count_cpu_time(u, f);
	read_throttling(u, f);
	read_memory(u, f);
	read_pressure(u, f);
	if (inode_of(f->at[ZN_CONTROLLER_CPUACCT]) != group)
		*u = before; /* another one took its place meanwhile */
}

static void use_look(struct zn_job_uses *all, const struct zn_job *job, uint64_t now_ns)
{
	const struct zn_cgroup_folders *f = &all->folders[job->slot];
	struct zn_job_use *u = &all->use[job->slot];
	bool has_group;

	if (u->serial != job->serial)
		use_begin(all, job);
	has_group = find_folders(all, u, zn_job_shared_of(all->jobs, job), job->slot);
	read_cpus(u, f, job); /* what was told of it needs no group */
	if (!has_group)
		return;
	read_group(u, f);
	look_at_steps(all, job);
	if (!u->first_ns) {
		u->first_ns = now_ns;
		u->first_cpu_ns = u->cpu.ns;
	}
	u->last_ns = now_ns;
}

void zn_use_init(
	struct zn_job_uses *all, struct zn_jobs *jobs, void (*find)(const char *path, struct zn_cgroup_folders *to))
{
	all->jobs = jobs;
	all->find = find;
}

void zn_use_tick(struct zn_job_uses *all, uint64_t now_ns)
{
	struct zn_jobs *j = all->jobs;
	uint32_t running = 0, turn;

	for (uint32_t slot = 0; slot < j->high; slot++)
		running += zn_job_runs(&j->job[slot]);
	turn = running / TURN_SHARE > TURN_LEAST ? running / TURN_SHARE : TURN_LEAST;
	for (uint32_t n = 0; n < j->high && turn; n++) {
		uint32_t slot = all->next++ % j->high;

		if (!zn_job_runs(&j->job[slot]))
			continue;
		use_look(all, &j->job[slot], now_ns);
		turn--;
	}
}

/* ---- what is told of a job ---- */

/* In ten-thousandths, ZN_NOT_KNOWN of nothing. */
static uint64_t ratio_of(uint64_t part, double whole)
{
	return whole > 0 ? (uint64_t)(1e4 * (double)part / whole + 0.5) : ZN_NOT_KNOWN;
}

/* When what is told had been used: by the end, or when the last group went, or at the last look, if no group that has
 * gone since had used more. */
static uint64_t used_until_ns(
	const struct zn_use *use, const struct zn_job_use *u, const struct zn_job *job, const struct zn_job_shared *row)
{
	if (job->end_ns)
		return job->end_ns;
	if (row->gone_ns)
		return row->gone_ns;
	return u->last_ns && use->cpu_ns == u->cpu.ns ? u->last_ns : zn_now_ns();
}

/* Of a job that was there before the daemon, nobody knows when its groups began: what it used since the first look. */
static void fill_cpu_ratio(
	struct zn_use *to, const struct zn_job_use *u, const struct zn_job *job, const struct zn_job_shared *row)
{
	uint64_t since_ns = job->found ? u->first_ns : job->start_ns, end_ns = used_until_ns(to, u, job, row);
	uint64_t before_ns = job->found ? u->first_cpu_ns : 0;
	double wall_ns = since_ns && end_ns > since_ns ? (double)(end_ns - since_ns) : 0;

	to->cpu_ratio = ZN_NOT_KNOWN;
	if (to->cpu_known && to->cpus_milli)
		to->cpu_ratio = ratio_of(to->cpu_ns - before_ns, wall_ns * (double)to->cpus_milli / CPU_MILLI);
}

static void fill_cpu(struct zn_use *to, const struct zn_job_use *u, const struct zn_job_shared *row)
{
	const struct zn_cpu_time *most = &u->cpu;
	double both;

	if (row->cpu_gone.ns > most->ns)
		most = &row->cpu_gone;
	if (row->cpuacct_gone.ns > most->ns)
		most = &row->cpuacct_gone;
	both = (double)most->user + (double)most->system;
	to->cpu_known = most->ns > 0;
	to->cpu_ns = most->ns;
	to->cpu_user_ns = both > 0 ? (uint64_t)((double)most->ns * ((double)most->user / both)) : most->ns;
	if (to->cpu_user_ns > to->cpu_ns)
		to->cpu_user_ns = to->cpu_ns;
	to->cpu_system_ns = to->cpu_ns - to->cpu_user_ns;
}

/* The highest use may have been between two looks: all that was not cache then was needed. */
static void fill_memory(
	struct zn_use *to, const struct zn_job_use *u, const struct zn_job *job, const struct zn_job_shared *row)
{
	uint64_t cache = u->kind_peak[ZN_MEMORY_FILE];

	to->peak = larger_of(u->peak, row->mem_peak_bytes);
	to->needed_peak = larger_of(u->needed_peak, to->peak > cache ? to->peak - cache : 0);
	to->needed_ratio = ZN_NOT_KNOWN;
	if (u->kinds_known && u->limit != ZN_NOT_KNOWN && zn_job_runs(job))
		to->needed_ratio =
			ratio_of(u->memory[ZN_MEMORY_ANON] + u->memory[ZN_MEMORY_SHMEM] + u->memory[ZN_MEMORY_KERNEL],
				(double)u->limit);
	to->memory_ratio =
		to->peak && u->limit != ZN_NOT_KNOWN ? ratio_of(to->needed_peak, (double)u->limit) : ZN_NOT_KNOWN;
}

void zn_use_of(const struct zn_job_uses *all, const struct zn_job *job, struct zn_use *to)
{
	static const struct zn_job_use none = {.limit = ZN_NOT_KNOWN,
		.swap = ZN_NOT_KNOWN,
		.throttled_ns = ZN_NOT_KNOWN,
		.pressure_ns = {
			{ZN_NOT_KNOWN, ZN_NOT_KNOWN}, {ZN_NOT_KNOWN, ZN_NOT_KNOWN}, {ZN_NOT_KNOWN, ZN_NOT_KNOWN}}};
	const struct zn_job_use *u = &all->use[job->slot];
	const struct zn_job_shared *row = zn_job_shared_of(all->jobs, job);

	u = u->serial == job->serial ? u : &none;
	*to = (struct zn_use){.now = *u, .cpus_milli = u->cpus_milli};
	if (!to->cpus_milli)
		to->cpus_milli = (uint64_t)CPU_MILLI * zn_use_told_cpus(zn_job_said(job, ZN_KEY_CPUS));
	fill_cpu(to, u, row);
	fill_cpu_ratio(to, u, job, row);
	fill_memory(to, u, job, row);
}

/* Slurm calls its group so. The name may be cut, and the group have gone: nothing is known then. */
void zn_use_step(const struct zn_job_uses *all, const struct zn_job *job, struct zn_step *step)
{
	const struct zn_job_use *u = &all->use[job->slot];
	struct zn_cgroup_folders below = {0};

	if (u->serial != job->serial || step->end_ns || !zn_job_runs(job))
		return;
	for (enum zn_controller c = 0; c < ZN_CONTROLLERS; c++) {
		const char *folder = all->folders[job->slot].at[c];

		below.v2[c] = all->folders[job->slot].v2[c];
		if (folder[0] &&
			snprintf(below.at[c], sizeof(below.at[c]), "%s/step_%.16s", folder, step->name) >=
				(int)sizeof(below.at[c]))
			below.at[c][0] = 0;
	}
	step->cpu_ns = larger_of(step->cpu_ns, read_cpu_time(&below).ns);
	step->mem_peak_bytes = larger_of(step->mem_peak_bytes, read_peak(&below));
}

uint32_t zn_use_steps(const struct zn_job_uses *all, const struct zn_job *job, struct zn_step to[ZN_STEPS_SHOWN])
{
	const struct zn_job_shared *row = zn_job_shared_of(all->jobs, job);
	bool seen = all->use[job->slot].serial == job->serial;
	uint32_t count = steps_of(row), over = count > ZN_STEPS_SHOWN ? count - ZN_STEPS_SHOWN : 0, shown = 0;

	/* the oldest of those that have ended are passed over */
	for (uint32_t i = 0; i < count && shown < ZN_STEPS_SHOWN; i++) {
		const struct zn_step_use *u = &all->step[job->slot][i];

		if (row->step[i].end_ns && over) {
			over--;
			continue;
		}
		to[shown] = row->step[i];
		to[shown].cpu_ns = larger_of(to[shown].cpu_ns, seen ? u->cpu_ns : 0);
		to[shown].mem_peak_bytes = larger_of(to[shown].mem_peak_bytes, seen ? u->peak : 0);
		shown++;
	}
	return shown;
}
