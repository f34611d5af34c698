/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_gaps.c: what was not measured of a job, or not all of it, and why.
 */
#include "zernel.h"
#include <stdio.h>

bool zn_gaps_measures(const struct zn_state *state, enum zn_family f)
{
	return f >= ZN_FAMILY_COUNT ? zn_agg_measures(state->agg, f) : !state->probe || state->probe->available[f];
}

/* When the daemon came later than the job: since when there are figures; 0: from its beginning. */
uint64_t zn_gaps_since_ms(const struct zn_report *r)
{
	uint64_t daemon_ms = r->state->start_wall_ms, said_s = 0;
	bool older = r->job->found || r->job->start_ns < r->state->start_ns;

	for (const char *c = r->job->about.value[ZN_KEY_START_TIME]; *c >= '0' && *c <= '9' && said_s < UINT32_MAX; c++)
		said_s = 10 * said_s + (uint64_t)(*c - '0');
	return older || (said_s && 1000 * said_s < daemon_ms) ? daemon_ms : 0;
}

bool zn_gaps_has_io(const struct zn_state *state)
{
	return state->io_sums && (zn_agg_measures(state->agg, ZN_FAM_VFS) || zn_agg_measures(state->agg, ZN_FAM_META));
}

uint32_t zn_gaps_io_lost(const struct zn_report *r)
{
	if (!zn_gaps_has_io(r->state))
		return 0;
	return zn_io_sums_lost(r->state->io_sums, (struct zn_job_ref){r->job->slot, r->job->serial});
}

static uint32_t io_missed(const struct zn_report *r)
{
	return zn_gaps_io_lost(r)
		? zn_io_sums_missed(r->state->io_sums, (struct zn_job_ref){r->job->slot, r->job->serial})
		: 0;
}

static const char *io_beyond(const struct zn_report *r)
{
	return zn_gaps_io_lost(r) & ~io_missed(r) ? "more pairs of a mount and an operation than its share, see io_lost"
						  : NULL;
}

static const char *io_crowded(const struct zn_report *r)
{
	return io_missed(r) ? "more file operations under way at one time than its user's share, see io_lost" : NULL;
}

static const char *no_io(const struct zn_report *r)
{
	const struct zn_kernel *k = r->state->probe ? &r->state->probe->kernel : NULL;

	if (zn_gaps_has_io(r->state))
		return NULL;
	return k && k->why[ZN_FAM_VFS][0] ? k->why[ZN_FAM_VFS] : "not measured by this version";
}

/* Parts of it: what a method does not see. */
static const char *some_io(const struct zn_report *r)
{
	const struct zn_kernel *k = r->state->probe ? &r->state->probe->kernel : NULL;

	return k && zn_gaps_has_io(r->state) && k->why[ZN_FAM_VFS][0] ? k->why[ZN_FAM_VFS] : NULL;
}

static const char *some_metadata(const struct zn_report *r)
{
	const struct zn_kernel *k = r->state->probe ? &r->state->probe->kernel : NULL;

	return k && zn_gaps_has_io(r->state) && k->why[ZN_FAM_META][0] ? k->why[ZN_FAM_META] : NULL;
}

static const char *before_daemon(const struct zn_report *r)
{
	return zn_gaps_since_ms(r) ? "the daemon started after the job" : NULL;
}

static const char *no_peak(const struct zn_report *r)
{
	const struct zn_job_shared *row = zn_job_shared_of(r->state->jobs, r->job);

	if (row->mem_peak_bytes)
		return NULL;
	if (r->job->state != ZN_JOB_ENDED)
		return "read when the job's control group is removed";
	return row->cgroup_seen ? "its control groups have no memory controller, or their peak could not be read"
				: "the job had no control group";
}

static const char *why_without(const struct zn_state *state, enum zn_family f)
{
	if (zn_gaps_measures(state, f))
		return NULL;
	return f >= ZN_FAMILY_COUNT ? state->probe->kernel.why[f] : state->probe->why[f];
}

static const char *no_gpu_memory(const struct zn_report *r)
{
	return why_without(r->state, ZN_FAM_GPU_MEM);
}

static const char *some_gpu_memory(const struct zn_report *r)
{
	for (uint32_t i = 0; i < r->job->gpu_count; i++)
		if (r->job->gpu[i].partial)
			return "processes used the GPU before the daemon came, or its table of allocations was full";
	return NULL;
}

static const char *no_launches(const struct zn_report *r)
{
	return why_without(r->state, ZN_FAM_CUDA_TRACE);
}

static const char *no_nccl(const struct zn_report *r)
{
	return why_without(r->state, ZN_FAM_NCCL);
}

static const char *no_lines(const struct zn_report *r)
{
	const char *why = r->state->stacks ? NULL : why_without(r->state, ZN_FAM_STACKS);

	return why && *why ? why : NULL;
}

static const char *no_thread_time(const struct zn_report *r)
{
	return why_without(r->state, ZN_FAM_SCHED);
}

static const char *steps_lost(const struct zn_report *r)
{
	return zn_job_shared_of(r->state->jobs, r->job)->steps_lost ? "more than are told apart" : NULL;
}

/* Of its processes together, by the time that they lived. */
static const char *spared_part(const struct zn_report *r, enum zn_spare part)
{
	static char why[ZN_SPARE_COUNT][ZN_TEXT_MAX];
	uint32_t seen = zn_job_seen_part(r->state->jobs, r->job, part);

	if (seen == 1000)
		return NULL;
	snprintf(why[part], ZN_TEXT_MAX,
		"it would have cost more than --overhead-budget: measured for %u.%u %% of the time", seen / 10,
		seen % 10);
	return why[part];
}

static const char *spared_stacks(const struct zn_report *r)
{
	return spared_part(r, ZN_SPARE_STACKS);
}

static const char *spared_switches(const struct zn_report *r)
{
	return spared_part(r, ZN_SPARE_SWITCHES);
}

static const char *spared_files(const struct zn_report *r)
{
	return spared_part(r, ZN_SPARE_FILES);
}

static const char *spared_launches(const struct zn_report *r)
{
	return spared_part(r, ZN_SPARE_LAUNCHES);
}

static const char *alerts_lost(const struct zn_report *r)
{
	return r->job->alerts_lost ? "more than are kept" : NULL;
}

/* What is not there, or not all of it; why() says the reason, or NULL where it is. */
static const struct {
	const char *what;
	const char *(*why)(const struct zn_report *r);
} gaps[] = {
	{"the time before measured_since", before_daemon},
	{"GPU memory", no_gpu_memory},
	{"GPU memory where no peak is given", some_gpu_memory},
	{"launches, waits and copies", no_launches},
	{"NCCL", no_nccl},
	{"peak memory of the job", no_peak},
	{"some of its steps", steps_lost},
	{"some of its alerts", alerts_lost},
	{"where the launching threads' time went", no_thread_time},
	{"which lines of its programs did it", no_lines},
	{"I/O", no_io},
	{"some I/O", some_io},
	{"some I/O", io_beyond},
	{"some I/O", io_crowded},
	{"some operations on directories and names", some_metadata},
	{"some of these lines", spared_stacks},
	{"some of where the launching threads' time went", spared_switches},
	{"some I/O", spared_files},
	{"how long some launches took, and whether they failed", spared_launches},
};

bool zn_gaps_item(const void *report, struct zn_json *j, uint32_t i)
{
	const char *why = i < ZN_LEN(gaps) ? gaps[i].why(report) : NULL;

	if (why) {
		zn_json_open(j, '{');
		zn_json_key_text(j, "what", gaps[i].what);
		zn_json_key_text(j, "why", why);
		zn_json_close(j, '}');
	}
	return i < ZN_LEN(gaps);
}
