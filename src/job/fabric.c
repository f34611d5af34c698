/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fabric.c: what the ports of InfiniBand and RoCE carried for jobs. The ports do not know whose their bytes are, so a
 * job has what they counted between two looks, ten seconds apart, in which it ran and no other job did. What a node
 * with several jobs carries is of the node alone.
 */
#include "zernel.h"

/* The ports were read some time before it is known here: a job may have begun since. */
static bool ran_between(const struct zn_job *job, uint64_t from_ns, uint64_t to_ns)
{
	return job->state != ZN_JOB_FREE && job->start_ns < to_ns && (zn_job_runs(job) || job->end_ns > from_ns);
}

static bool ran_all_of(const struct zn_job *job, uint64_t from_ns, uint64_t to_ns)
{
	return job->start_ns <= from_ns && (zn_job_runs(job) || job->end_ns >= to_ns);
}

/* The one job of the interval, if it ran all of it; NULL: there is none, or there are several. */
static const struct zn_job *find_alone(const struct zn_jobs *jobs, uint64_t from_ns, uint64_t to_ns)
{
	const struct zn_job *alone = NULL;

	for (uint32_t slot = 0; slot < jobs->high; slot++) {
		const struct zn_job *job = &jobs->job[slot];

		if (!ran_between(job, from_ns, to_ns))
			continue;
		if (alone)
			return NULL;
		alone = job;
	}
	return alone && ran_all_of(alone, from_ns, to_ns) ? alone : NULL;
}

static void add_interval(struct zn_fabric *f, const struct zn_job *job)
{
	struct zn_job_fabric *to = &f->job[job->slot];

	if (to->serial != job->serial || !to->known)
		*to = (struct zn_job_fabric){.serial = job->serial};
	to->known |= f->ports->summed;
	for (uint32_t i = 0; i < ZN_FABRIC_SUMS; i++)
		to->sum[i] += f->ports->sum[i] - f->last[i];
}

void zn_fabric_init(struct zn_fabric *f, const struct zn_ports *ports, const struct zn_jobs *jobs)
{
	f->ports = ports;
	f->jobs = jobs;
}

void zn_fabric_tick(struct zn_fabric *f)
{
	const struct zn_job *alone;

	if (!f->ports->count || f->round == f->ports->round)
		return;
	alone = f->round && !f->ports->beyond ? find_alone(f->jobs, f->last_ns, f->ports->at_ns) : NULL;
	if (alone)
		add_interval(f, alone);
	f->round = f->ports->round;
	f->last_ns = f->ports->at_ns;
	for (uint32_t i = 0; i < ZN_FABRIC_SUMS; i++)
		f->last[i] = f->ports->sum[i];
}

const struct zn_job_fabric *zn_fabric_of(const struct zn_fabric *f, const struct zn_job *job)
{
	const struct zn_job_fabric *of = f ? &f->job[job->slot] : NULL;

	return of && of->known && of->serial == job->serial ? of : NULL;
}
