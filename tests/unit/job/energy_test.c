/* SPDX-License-Identifier: GPL-2.0 */
/* energy_test.c: the shares of jobs: by CPU time, by CPUs that idle, of GPUs; jobs of a moment, and what is not
 * known. */
#include <stdlib.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define S ZN_NS_PER_S
#define J 1000000ULL /* microjoules */

static struct zn_jobs jobs;
static struct zn_job_uses uses = {.jobs = &jobs};
static struct zn_gpus gpus;
static struct zn_hardware h;
static struct zn_energies e;
static struct zn_use used[ZN_JOBS_MAX];
static char proc[] = "/tmp/energy.XXXXXX";
static uint64_t now;

/* In place of usage.c. */
void zn_use_of(const struct zn_job_uses *all, const struct zn_job *job, struct zn_use *to)
{
	(void)all;
	*to = used[job->slot];
}

/* Hundredths of seconds of all CPUs. */
static void put_stat(unsigned long busy, unsigned long idle)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/stat", proc);
	f = fopen(path, "w");
	if (!f || fprintf(f, "cpu  %lu 0 0 %lu 0 0 0 0 0 0\ncpu0 1 2 3\n", busy, idle) < 0 || fclose(f))
		abort();
}

static void put_gpu(const char *pci, uint64_t mj)
{
	struct zn_reading r = {.known = 0};

	snprintf(r.pci, sizeof(r.pci), "%s", pci);
	zn_reading_set(&r, ZN_FIGURE_ENERGY, mj);
	zn_hardware_take(&h, ZN_SOURCE_SYS, &r, now);
	zn_hardware_tick(&h, now);
}

static struct zn_job *start_job(uint32_t slot, uint64_t cpus, bool found)
{
	struct zn_job *job = &jobs.job[slot];

	*job = (struct zn_job){
		.state = ZN_JOB_RUNNING, .slot = slot, .serial = slot + 7, .start_ns = now, .found = found};
	used[slot] = (struct zn_use){.cpu_known = true, .cpus_milli = 1000 * cpus};
	jobs.high = jobs.high > slot ? jobs.high : slot + 1;
	return job;
}

static void give_gpu(struct zn_job *job, const char *id)
{
	struct zn_job_gpu *g = &job->gpu[job->gpu_count++];

	*g = (struct zn_job_gpu){.allocated = true};
	snprintf(g->id, sizeof(g->id), "%s", id);
}

static void begin(void)
{
	memset(&jobs, 0, sizeof(jobs));
	memset(used, 0, sizeof(used));
	memset(&h, 0, sizeof(h));
	zn_hardware_init(&h, &gpus);
	zn_energies_init(&e, &uses, &h, proc);
	e.cpus = 10;
	now = 1000 * S;
	h.energy_known = 1U << ZN_ENERGY_CPU;
	put_stat(1000, 1000);
	zn_energies_tick(&e, now);
}

/* Ten seconds of ten CPUs, of which 40 % were busy, and 1,000 J. */
static void pass(void)
{
	now += 10 * S;
	h.energy_uj[ZN_ENERGY_CPU] += 1000 * J;
	put_stat(1000 + (now / S - 1000) * 400, 1000 + (now / S - 1000) * 600);
	zn_energies_tick(&e, now);
}

static void check_joules(const struct zn_job *job, uint32_t part, uint64_t want)
{
	uint64_t uj = zn_energies_of(&e, job, part);

	CHECK(uj == ZN_NOT_KNOWN || want == ZN_NOT_KNOWN ? uj == want : uj + 10 > want && uj < want + 10);
	if (t_bad)
		fprintf(stderr, "%llu, not %llu\n", (unsigned long long)uj, (unsigned long long)want);
}

/* 30 of 100 CPU seconds used, 6 of 10 CPUs given, which idle for 60 % of the time: 0.3 + 0.6 x 0.6. */
T(by_time_and_by_what_idles)
{
	struct zn_job *a, *b;

	begin();
	a = start_job(0, 6, false);
	b = start_job(1, 4, false);
	used[0].cpu_ns = 30 * S;
	used[1].cpu_ns = 10 * S;
	pass();
	check_joules(a, ZN_ENERGY_CPU, 660 * J);
	check_joules(b, ZN_ENERGY_CPU, 340 * J); /* together all of it: no CPU is left over, and nobody else ran */
	check_joules(a, ZN_ENERGY_DRAM, ZN_NOT_KNOWN);
	check_joules(a, ZN_ENERGY_COUNT, ZN_NOT_KNOWN);
	pass(); /* nothing more was used: what is given idles */
	check_joules(b, ZN_ENERGY_CPU, (340 + 240) * J);
}

/* One second, from begin to end between two looks. */
T(a_job_of_a_moment)
{
	struct zn_job *a;

	begin();
	pass();
	now += 2 * S;
	a = start_job(0, 5, false);
	now += S;
	used[0].cpu_ns = 4 * S;
	h.energy_uj[ZN_ENERGY_CPU] += 300 * J;
	a->state = ZN_JOB_ENDED;
	zn_energies_end(&e, a, now);
	check_joules(a, ZN_ENERGY_CPU, 70 * J); /* 300 J x (4 s + 0.6 x 5 x 1 s) of 30 s */
	now += 7 * S;
	zn_energies_tick(&e, now);
	check_joules(a, ZN_ENERGY_CPU, 70 * J);
}

/* A step came within the seconds after the last one: what the job had until its end is not counted again. */
T(a_job_that_goes_on)
{
	struct zn_job *a;

	begin();
	pass();
	a = start_job(0, 5, false);
	pass();
	now += S;
	h.energy_uj[ZN_ENERGY_CPU] += 300 * J;
	zn_energies_end(&e, a, now);
	check_joules(a, ZN_ENERGY_CPU, (300 + 90) * J); /* 300 J x (0.6 x 5 x 1 s) of 10 s */
	now += 9 * S;
	zn_energies_tick(&e, now); /* 300 J x (0.6 x 5 x 9 s) of 100 s */
	check_joules(a, ZN_ENERGY_CPU, (300 + 90 + 81) * J);
}

#define GPU "0000:01:00.0"

static struct zn_job *start_on_gpu(uint32_t slot)
{
	struct zn_job *job = start_job(slot, 1, false);

	give_gpu(job, GPU);
	return job;
}

static void end_job(struct zn_job *job)
{
	zn_energies_end(&e, job, now);
	job->state = ZN_JOB_ENDED;
}

/* Between two looks one ends and the next one begins. */
T(a_gpu_that_jobs_have_one_after_another)
{
	struct zn_job *a, *b, *c;

	begin();
	put_gpu(GPU, 1000);
	pass();
	a = start_on_gpu(0);
	c = start_on_gpu(2);
	pass();
	put_gpu(GPU, 501000);
	now += 5 * S;
	end_job(a);
	check_joules(a, ZN_ENERGY_COUNT, 250 * J);
	end_job(c);
	check_joules(c, ZN_ENERGY_COUNT, 250 * J);
	b = start_on_gpu(1);
	now -= 5 * S;
	put_gpu(GPU, 1001000);
	pass();
	check_joules(b, ZN_ENERGY_COUNT, 500 * J);
	put_gpu(GPU, 2001000);
	pass();
	check_joules(b, ZN_ENERGY_COUNT, 1500 * J);
}

T(a_gpu_that_was_nobodys_before)
{
	struct zn_job *a;

	begin();
	put_gpu(GPU, 1000);
	pass();
	now += 8 * S;
	a = start_on_gpu(0);
	now -= 8 * S;
	put_gpu(GPU, 1001000);
	pass();
	check_joules(a, ZN_ENERGY_COUNT, 200 * J);
}

/* Most of it is used before the first one ends. */
T(no_more_is_given_of_a_gpu_than_it_used)
{
	struct zn_job *a, *b;

	begin();
	put_gpu(GPU, 1000);
	a = start_on_gpu(0);
	b = start_on_gpu(1);
	pass();
	put_gpu(GPU, 901000);
	now += 5 * S;
	end_job(a);
	now -= 5 * S;
	put_gpu(GPU, 1001000);
	pass();
	check_joules(a, ZN_ENERGY_COUNT, 450 * J);
	check_joules(b, ZN_ENERGY_COUNT, 550 * J);
}

T(what_was_before_the_daemon_is_not_counted)
{
	struct zn_job *a;

	begin();
	a = start_job(0, 0, true);
	used[0].cpu_ns = 5000 * S;
	pass();
	check_joules(a, ZN_ENERGY_CPU, 0);
	used[0].cpu_ns += 20 * S;
	pass();
	check_joules(a, ZN_ENERGY_CPU, 200 * J);
	used[0].cpu_ns += 100000 * S; /* never more than there was */
	pass();
	check_joules(a, ZN_ENERGY_CPU, 1200 * J);
}

/* Many jobs are looked at one after another. */
T(a_job_from_before_the_daemon_that_is_looked_at_late)
{
	struct zn_job *a;

	begin();
	a = start_job(0, 5, true);
	used[0].cpu_known = false;
	pass();
	check_joules(a, ZN_ENERGY_CPU, ZN_NOT_KNOWN);
	used[0] = (struct zn_use){.cpu_known = true, .cpus_milli = 5000, .cpu_ns = 5000 * S};
	pass();
	check_joules(a, ZN_ENERGY_CPU, 0);
	used[0].cpu_ns += 20 * S;
	pass();
	check_joules(a, ZN_ENERGY_CPU, (200 + 300) * J); /* and half of what idles */
}

T(gpus_are_whole_or_in_equal_parts)
{
	struct zn_job *a, *b;

	begin();
	put_gpu("0000:01:00.0", 5000);
	put_gpu("0000:02:00.0", 1000);
	pass();
	a = start_job(0, 1, false);
	b = start_job(1, 1, false);
	give_gpu(a, "0000:01:00.0");
	give_gpu(a, "0000:02:00.0");
	give_gpu(b, "0000:02:00.0");
	put_gpu("0000:01:00.0", 15000);
	put_gpu("0000:02:00.0", 7000);
	pass();
	check_joules(a, ZN_ENERGY_COUNT, (10 + 3) * J);
	check_joules(b, ZN_ENERGY_COUNT, 3 * J);
	put_gpu("0000:02:00.0", 10); /* it was set back */
	put_gpu("0000:01:00.0", 15000);
	pass();
	check_joules(b, ZN_ENERGY_COUNT, 3 * J);
	give_gpu(b, "0000:09:00.0"); /* of which nobody says anything */
	pass();
	check_joules(b, ZN_ENERGY_COUNT, ZN_NOT_KNOWN);
}

/* It used a GPU that has no name, which nobody measures. */
T(a_gpu_that_is_not_known_has_no_energy)
{
	struct zn_job *job;

	begin();
	job = start_job(0, 1, false);
	give_gpu(job, "unknown");
	job->gpu[0].allocated = false;
	pass();
	pass();
	check_joules(job, ZN_ENERGY_COUNT, ZN_NOT_KNOWN);
}

T(a_job_whose_cpu_time_nobody_counts)
{
	struct zn_job *a;

	begin();
	a = start_job(0, 5, false);
	used[0].cpu_known = false;
	pass();
	check_joules(a, ZN_ENERGY_CPU, ZN_NOT_KNOWN);
	CHECK(zn_energies_of(NULL, a, 0) == ZN_NOT_KNOWN);
	a->serial++; /* another one in its place */
	check_joules(a, ZN_ENERGY_CPU, ZN_NOT_KNOWN);
}

int main(void)
{
	char command[64];

	if (!mkdtemp(proc))
		abort();
	RUN(by_time_and_by_what_idles);
	RUN(a_job_of_a_moment);
	RUN(a_job_that_goes_on);
	RUN(a_gpu_that_jobs_have_one_after_another);
	RUN(a_gpu_that_was_nobodys_before);
	RUN(no_more_is_given_of_a_gpu_than_it_used);
	RUN(what_was_before_the_daemon_is_not_counted);
	RUN(a_job_from_before_the_daemon_that_is_looked_at_late);
	RUN(gpus_are_whole_or_in_equal_parts);
	RUN(a_gpu_that_is_not_known_has_no_energy);
	RUN(a_job_whose_cpu_time_nobody_counts);
	snprintf(command, sizeof(command), "rm -r %s", proc);
	CHECK(system(command) == 0);
	return t_end();
}
