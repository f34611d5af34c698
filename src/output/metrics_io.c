/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_io.c: what metrics of file I/O by job and mount yield. Where room is short, durations are left out, first
 * those of owners that have most.
 */
#include <string.h>

#include "zernel.h"

/* The sums that are shown, each for every operation of it. */
#define EACH_FLOW(w, i, f)                                                                                             \
	for (uint32_t i = 0; io_measured(w) && i < (w)->state->io_sums->high; i++)                                     \
		if ((f = io_sum_at(w, i)))

static bool io_measured(const struct zn_walk *w)
{
	return w->state->io_sums &&
		(zn_agg_measures(w->state->agg, ZN_FAM_VFS) || zn_agg_measures(w->state->agg, ZN_FAM_META));
}

static const struct zn_io_sum *io_sum_at(const struct zn_walk *w, uint32_t i)
{
	const struct zn_io_sum *f = &w->state->io_sums->io_sum[i];

	return f->used && zn_io_sum_job(w->state->io_sums, f) ? f : NULL;
}

/* The label job_id is always there: what is of no job has an empty one. */
static void io_sum_series(struct zn_walk *w, const struct zn_io_sum *f, bool fstype)
{
	const struct zn_job *job = f->job.serial ? zn_jobs_at(w->state->jobs, f->job) : NULL;

	zn_walk_series(w);
	zn_walk_label(w, "job_id", job ? job->id : "");
	zn_walk_label(w, "mount", f->point);
	if (fstype)
		zn_walk_label(w, "fstype", f->fstype);
	w->sample.since_ms = zn_state_job_wall_ms(w->state, job);
}

void zn_metrics_io_bytes(struct zn_walk *w)
{
	enum zn_io_op op = *(const enum zn_io_op *)w->metric->arg;
	const struct zn_io_sum *f;

	EACH_FLOW(w, i, f)
	{
		struct zn_io_sum_total sum = zn_io_sum_total(w->state->io_sums, f, op);

		if (!sum.calls && !sum.bytes) /* some kernels tell bytes of faults, but not how many there were */
			continue;
		io_sum_series(w, f, true);
		zn_walk_integer(w, sum.bytes);
	}
}

/* A field of struct zn_io_sum_total of every operation. */
void zn_metrics_io_ops(struct zn_walk *w)
{
	size_t offset = *(const size_t *)w->metric->arg;
	const struct zn_io_sum *f;

	EACH_FLOW(w, i, f)
	{
		for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
			struct zn_io_sum_total sum = zn_io_sum_total(w->state->io_sums, f, op);
			uint64_t v = *(const uint64_t *)((const char *)&sum + offset);

			if (!v)
				continue;
			io_sum_series(w, f, true);
			zn_walk_label(w, "op", zn_io_label(op));
			zn_walk_integer(w, v);
		}
	}
}

/* Operations whose duration is not known have none. */
static const struct zn_hist *io_durations(struct zn_walk *w, const struct zn_io_sum *f, enum zn_io_op op)
{
	const struct zn_hist *h = f->op[op].first ? zn_io_sum_merge(w->state->io_sums, f, op, true) : NULL;

	return h && zn_hist_count(h) ? h : NULL;
}

/* Durations are most of a text where there are thousands of series, with names as long as users like. */
#define LINES_OF_DURATIONS 24  /* of one series, in both families */
#define BYTES_OF_LINE      128 /* at most, besides the name of the mount */

static int32_t bytes_of_durations(const struct zn_io_sum *f)
{
	size_t name = 0, series = 0;

	for (const char *c = f->point; *c; c++)
		name += 1 + (*c == '"' || *c == '\\' || *c == '\n');
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		series += f->op[op].first != 0;
	return (int32_t)(series * LINES_OF_DURATIONS * (name + BYTES_OF_LINE));
}

/* Whose part of the room a series takes. */
static struct zn_quota_owner *owner_of(struct zn_quota *all, const struct zn_io_sum *f)
{
	return zn_quota_owner(all, f->job.serial ? ZN_OWNER_JOB(f->job.slot) : f->owner);
}

static int64_t sum_within(const struct zn_quota *all, int32_t share)
{
	int64_t sum = all->rest.held < share ? all->rest.held : share;

	for (uint32_t i = 0; i < ZN_QUOTA_OWNERS; i++)
		sum += all->row[i].held < share ? all->row[i].held : share;
	return sum;
}

/* Bytes that the durations of each owner may take, so that all owners' fit: an owner with few is not cut. */
static int32_t share_of_room(struct zn_walk *w)
{
	static struct zn_quota all;
	int32_t room = w->room ? w->room(w->to) : INT32_MAX, share = INT32_MAX;
	const struct zn_io_sum *f;

	if (!w->room)
		return share;
	memset(&all, 0, sizeof(all));
	EACH_FLOW(w, i, f)
	{
		owner_of(&all, f)->held += bytes_of_durations(f);
	}
	if (sum_within(&all, share) <= room)
		return share;
	for (share = room; share && sum_within(&all, share) > room;)
		share -= share / 16 + 1;
	return share;
}

static void io_sum_durations(struct zn_walk *w, const struct zn_io_sum *f)
{
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
		const struct zn_hist *h = io_durations(w, f, op);

		if (!h)
			continue;
		io_sum_series(w, f, false);
		zn_walk_label(w, "op", zn_io_label(op));
		zn_walk_durations(w, h);
	}
}

/* What does not fit is left out, all operations of a job on a mount at a time, and counted. */
void zn_metrics_io_durations(struct zn_walk *w)
{
	static struct zn_quota shown_of;
	int32_t share = share_of_room(w);
	const struct zn_io_sum *f;

	memset(&shown_of, 0, sizeof(shown_of));
	EACH_FLOW(w, i, f)
	{
		struct zn_quota_owner *o = owner_of(&shown_of, f);
		int32_t bytes = bytes_of_durations(f);

		if (w->room && bytes > share - o->held) {
			w->state->agg->arena->shared->lost[ZN_LOST_TRUNCATED]++;
			continue;
		}
		o->held += bytes;
		io_sum_durations(w, f);
	}
}
