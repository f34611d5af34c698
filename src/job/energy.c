/* SPDX-License-Identifier: GPL-2.0 */
/*
 * energy.c: an estimate of the energy of jobs. Of what the node's CPUs, their memory and the node as a whole use, a job
 * has its share by CPU time for as long as CPUs were busy, and by the CPUs that it was given for as long as they were
 * idle; of each of its GPUs it has all, or an equal part where several jobs have it.
 *
 * Limits: CPUs of both sockets count alike, and so does each second of CPU time. What a job did before the daemon came
 * is not known.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "zernel.h"

#define EVERY_NS       (10 * ZN_NS_PER_S)
#define SIMULATED_CPUS 64
#define SIMULATED_IDLE 0.25
#define TEXT_BYTES     1024

/* ---- what the node did since the last look ---- */

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal. False: it cannot be read. */
static bool read_idle(struct zn_energies *e)
{
	char path[ZN_TEXT_MAX], text[TEXT_BYTES], *at = text;
	uint64_t all = 0, idle = 0, v;

	snprintf(path, sizeof(path), "%s/stat", e->proc);
	if (zn_file_read(path, text, sizeof(text)) <= 0 || strncmp(text, "cpu ", 4))
		return false;
	at += 4;
	for (int field = 0; field < 8; field++) {
		v = strtoull(at, &at, 10);
		all += v;
		idle += field == 3 || field == 4 ? v : 0;
	}
	if (all > e->all)
		e->idle = idle > e->idle_sum ? (double)(idle - e->idle_sum) / (double)(all - e->all) : 0;
	e->idle = e->idle > 1 ? 1 : e->idle;
	e->all = all;
	e->idle_sum = idle;
	return true;
}

static void fill_since(const struct zn_energies *e, struct zn_energy_since *to, uint64_t now_ns)
{
	const struct zn_hardware *h = e->hardware;

	*to = (struct zn_energy_since){.ns = now_ns - e->last_ns, .now_ns = now_ns};
	for (enum zn_energy p = 0; p < ZN_ENERGY_COUNT; p++)
		if (h->energy_known >> p & 1 && h->energy_uj[p] > e->node_uj[p])
			to->node_uj[p] = h->energy_uj[p] - e->node_uj[p];
	for (uint32_t i = 0; i < h->count; i++) {
		uint64_t mj = h->device[i].now.value[ZN_FIGURE_ENERGY];

		if (zn_reading_has(&h->device[i].now, ZN_FIGURE_ENERGY) && e->gpu_known[i] && mj > e->gpu_mj[i])
			to->gpu_uj[i] = (mj - e->gpu_mj[i]) * 1000;
	}
}

/* From here on it is counted anew. */
static void begin_interval(struct zn_energies *e, uint64_t now_ns)
{
	const struct zn_hardware *h = e->hardware;

	memcpy(e->node_uj, h->energy_uj, sizeof(e->node_uj));
	for (uint32_t i = 0; i < h->count; i++) {
		if (!zn_reading_has(&h->device[i].now, ZN_FIGURE_ENERGY))
			continue; /* what it used until it is known again is found then */
		e->gpu_known[i] = true;
		e->gpu_mj[i] = h->device[i].now.value[ZN_FIGURE_ENERGY];
		e->gpu_given_uj[i] = 0;
	}
	e->last_ns = now_ns;
}

/* ---- one job ---- */

static void count_holders(struct zn_energies *e)
{
	const struct zn_jobs *j = e->uses->jobs;

	memset(e->holders, 0, sizeof(e->holders));
	for (uint32_t slot = 0; slot < j->high; slot++) {
		const struct zn_job *job = &j->job[slot];

		for (uint32_t g = 0; zn_job_runs(job) && g < job->gpu_count; g++) {
			uint32_t i = zn_hardware_named(e->hardware, job->gpu[g].id);

			if (i < ZN_GPUS_MAX && job->gpu[g].allocated)
				e->holders[i]++;
		}
	}
}

static struct zn_job_energy *energy_begin(struct zn_energies *e, const struct zn_job *job)
{
	struct zn_job_energy *to = &e->job[job->slot];

	if (to->serial != job->serial) {
		*to = (struct zn_job_energy){.serial = job->serial};
		to->since_ns = job->found ? e->last_ns : job->start_ns;
	}
	return to;
}

/* For how much of the interval the job was there. */
static uint64_t there_ns(const struct zn_job_energy *to, const struct zn_energy_since *since)
{
	if (to->since_ns > since->now_ns)
		return 0;
	return to->since_ns > since->now_ns - since->ns ? since->now_ns - to->since_ns : since->ns;
}

/* Which part of all seconds of all CPUs in the interval were the job's. */
static double share_of(const struct zn_energies *e, const struct zn_job_energy *to, const struct zn_use *use,
	const struct zn_energy_since *since)
{
	uint64_t cpu_ns = use->cpu_ns > to->cpu_ns ? use->cpu_ns - to->cpu_ns : 0;
	double all_ns = (double)e->cpus * (double)since->ns, own_ns = (double)cpu_ns;

	own_ns += e->idle * (double)use->cpus_milli / 1000 * (double)there_ns(to, since);
	return all_ns <= 0 ? 0 : own_ns < all_ns ? own_ns / all_ns : 1;
}

/* What a GPU used while the job was there, as if it used as much at any time, in equal parts for its holders. Not more
 * than jobs that have ended left of it. */
static uint64_t gpu_part(const struct zn_energies *e, const struct zn_job_energy *to,
	const struct zn_energy_since *since, uint32_t i, bool ends)
{
	uint64_t uj = since->gpu_uj[i], left_uj = uj > e->gpu_given_uj[i] ? uj - e->gpu_given_uj[i] : 0;
	uint32_t holders = e->holders[i] + !to->counted;

	holders += !holders;
	if (since->ns)
		uj = (uint64_t)((double)uj * (double)there_ns(to, since) / (double)since->ns);
	uj /= holders;
	left_uj /= ends ? 1 : holders; /* the others have theirs of it in this tick */
	return uj < left_uj ? uj : left_uj;
}

/* Of GPUs it is known as a whole, or not at all. */
static void add_gpus(struct zn_energies *e, struct zn_job_energy *to, const struct zn_job *job,
	const struct zn_energy_since *since, bool ends)
{
	bool known = true, any = false;

	for (uint32_t g = 0; g < job->gpu_count; g++) {
		uint32_t i = job->gpu[g].allocated ? zn_hardware_named(e->hardware, job->gpu[g].id) : ZN_GPUS_MAX;
		bool counts = i < ZN_GPUS_MAX && e->gpu_known[i];
		uint64_t uj = counts ? gpu_part(e, to, since, i, ends) : 0;

		to->uj[ZN_ENERGY_COUNT] += uj;
		if (counts && ends)
			e->gpu_given_uj[i] += uj;
		any |= counts;
		known &= counts || !job->gpu[g].allocated;
	}
	to->known = known && any ? to->known | 1ULL << ZN_ENERGY_COUNT : to->known & ~(1ULL << ZN_ENERGY_COUNT);
}

/* counted: it is among the holders of its GPUs. Else it ends. What a job that was there before the daemon has used is
 * counted from the first look at its CPU time on, which may come later than that at the job: see zn_use_tick(). */
static void add_job(struct zn_energies *e, const struct zn_job *job, const struct zn_energy_since *since, bool counted)
{
	struct zn_job_energy *to;
	struct zn_use use;
	double share;

	zn_use_of(e->uses, job, &use);
	to = energy_begin(e, job);
	to->counted |= counted;
	add_gpus(e, to, job, since, !counted);
	if (!use.cpu_known)
		return;
	share = to->seen || !job->found ? share_of(e, to, &use, since) : 0;
	for (enum zn_energy p = 0; p < ZN_ENERGY_COUNT; p++) {
		to->uj[p] += (uint64_t)(share * (double)since->node_uj[p]);
		to->known |= e->hardware->energy_known & 1ULL << p;
	}
	to->cpu_ns = use.cpu_ns;
	to->seen = true;
}

void zn_energies_init(
	struct zn_energies *e, const struct zn_job_uses *uses, const struct zn_hardware *hardware, const char *proc)
{
	*e = (struct zn_energies){.uses = uses, .hardware = hardware, .proc = proc, .idle = SIMULATED_IDLE};
	e->cpus = proc ? zn_cpus_online() : SIMULATED_CPUS;
}

void zn_energies_tick(struct zn_energies *e, uint64_t now_ns)
{
	const struct zn_jobs *j = e->uses->jobs;
	struct zn_energy_since since;

	if (e->last_ns && now_ns - e->last_ns < EVERY_NS)
		return;
	if (e->proc && !read_idle(e))
		return;
	fill_since(e, &since, now_ns);
	if (!e->last_ns)
		since = (struct zn_energy_since){.now_ns = now_ns};
	count_holders(e);
	for (uint32_t slot = 0; slot < j->high; slot++)
		if (zn_job_runs(&j->job[slot]))
			add_job(e, &j->job[slot], &since, true);
	begin_interval(e, now_ns);
}

/* The rest, since the last look. */
void zn_energies_end(struct zn_energies *e, const struct zn_job *job, uint64_t now_ns)
{
	struct zn_energy_since since;

	if (!e->last_ns)
		return;
	fill_since(e, &since, now_ns);
	add_job(e, job, &since, false);
	e->job[job->slot].since_ns = now_ns; /* it may go on */
}

uint64_t zn_energies_of(const struct zn_energies *e, const struct zn_job *job, uint32_t part)
{
	const struct zn_job_energy *of = e ? &e->job[job->slot] : NULL;

	return of && of->serial == job->serial && of->known >> part & 1 ? of->uj[part] : ZN_NOT_KNOWN;
}
