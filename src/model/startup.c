/* SPDX-License-Identifier: GPL-2.0 */
/*
 * startup.c: what processes do from their start to the first steady launch, in phases that add up to that time. A
 * phase has what calls of it took, where calls tell; the rest of a tick is laid to what moved in it. The first steady
 * launch is in the first tick from which on the process launches or waits for its GPU for STEADY_NS with no pause of
 * PAUSE_NS. What it does meanwhile is no start-up any more, unless it pauses. Only processes that began after the
 * daemon are told of.
 */
#include "zernel.h"
#include <string.h>

#define STEADY_NS   (5 * ZN_NS_PER_S)
#define PAUSE_NS    (2 * ZN_NS_PER_S)
#define LONGEST_NS  (1800 * ZN_NS_PER_S) /* a process that launches nothing for so long is no job that starts */
#define FILES_LEAST 1048576 /* bytes in a tick, read or copied to the GPU, that make it one of loading a model */

const char *zn_startup_label(enum zn_startup_phase phase)
{
	static const char *const label[] = {
#define X(e, text) text,
		ZN_STARTUP_PHASES(X)
#undef X
	};

	return phase < ZN_STARTUP_COUNT ? label[phase] : "unknown";
}

static uint64_t time_of(
	const struct zn_agg *a, const struct zn_proc *p, enum zn_operation first, enum zn_operation last)
{
	uint64_t sum_ns = 0;

	for (enum zn_operation d = first; d <= last; d++) {
		const struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

		sum_ns += h ? h->sum_ns : 0;
	}
	return sum_ns;
}

static bool has_context(const struct zn_proc *p)
{
	bool any = p->ctxs;

	for (size_t i = 0; i < ZN_LEN(p->gpu) && !any; i++)
		any = p->gpu[i].peak_bytes;
	return any;
}

/* What the rest of a tick is laid to. */
static enum zn_startup_phase phase_of(struct zn_startup_row *r, const struct zn_proc *p)
{
	uint64_t bytes = zn_counter_advance(&r->bytes, p->count[ZN_C_IO_READ_BYTES] + p->count[ZN_C_COPY_BYTES_HTOD]);
	uint64_t captured = zn_counter_advance(&r->captured, p->count[ZN_C_LAUNCH_CAPTURED]);

	if (p->count[ZN_C_CAPTURES] || captured)
		return ZN_STARTUP_CAPTURE;
	if (bytes >= FILES_LEAST)
		return ZN_STARTUP_MODEL;
	return has_context(p) ? ZN_STARTUP_REST : ZN_STARTUP_CONTEXT;
}

/* A call is known once it has returned: what it took was laid to other phases, but for what this tick has. */
static void take_back(struct zn_startup_row *r, enum zn_startup_phase to, uint64_t called_ns)
{
	static const enum zn_startup_phase from[] = {ZN_STARTUP_REST, ZN_STARTUP_CONTEXT, ZN_STARTUP_MODEL};

	for (size_t i = 0; i < ZN_LEN(from); i++) {
		uint64_t ns = r->phase_ns[from[i]] < called_ns ? r->phase_ns[from[i]] : called_ns;

		r->phase_ns[from[i]] -= ns;
		r->phase_ns[to] += ns;
		called_ns -= ns;
	}
}

uint64_t zn_startup_sum(const struct zn_startup_row *r)
{
	uint64_t sum_ns = 0;

	for (enum zn_startup_phase phase = 0; phase < ZN_STARTUP_COUNT; phase++)
		sum_ns += r->phase_ns[phase];
	return sum_ns;
}

/* Before its row is another process's. */
static void keep_of_job(struct zn_startup *s, const struct zn_startup_row *r)
{
	struct zn_startup_row *gone = r->phases_known && r->job.slot < ZN_JOBS_MAX ? &s->gone[r->job.slot] : NULL;

	if (gone && r->job.serial && (gone->job.serial != r->job.serial || zn_startup_sum(r) > zn_startup_sum(gone)))
		*gone = *r;
}

static void begin_row(struct zn_startup *s, struct zn_startup_row *r, const struct zn_proc *p)
{
	struct zn_process_info process_info = {0};

	if (r->id != p->id) {
		keep_of_job(s, r);
		*r = (struct zn_startup_row){.id = p->id};
	}
	r->job = p->job;
	if (r->state != ZN_STARTUP_UNKNOWN || !s->agg->process_info ||
		!s->agg->process_info(s->agg->owner, p, &process_info))
		return;
	r->state = ZN_STARTUP_OVER;
	if (process_info.start_ns < s->began_ns ||
		process_info.start_ns > p->first_ns) /* or it began before the daemon: not shown */
		return;
	r->state = ZN_STARTUP_GOES_ON;
	r->start_ns = process_info.start_ns;
	r->counted_ns = p->first_ns;
	r->phase_ns[ZN_STARTUP_IMPORT] = p->first_ns - process_info.start_ns;
	r->phases_known = true;
}

static void count_time(struct zn_startup *s, struct zn_startup_row *r, const struct zn_proc *p)
{
	const struct zn_agg *a = s->agg;
	uint64_t load_ns = zn_counter_advance(&r->load_ns, time_of(a, p, ZN_H_LOAD_MODULE, ZN_H_LOAD_FUNCTION));
	uint64_t nccl_ns = zn_counter_advance(&r->nccl_ns, time_of(a, p, ZN_H_NCCL_INIT, ZN_H_NCCL_INIT));
	uint64_t ns = s->tick_ns > r->counted_ns ? s->tick_ns - r->counted_ns : 0;

	r->phase_ns[phase_of(r, p)] += ns;
	take_back(r, ZN_STARTUP_LIBRARY, load_ns);
	take_back(r, ZN_STARTUP_NCCL, nccl_ns);
}

/* Whether it works on its GPU: what it waits for was launched. */
static bool works_on_gpu(struct zn_startup *s, struct zn_startup_row *r, uint32_t row, const struct zn_proc *p)
{
	uint64_t ns = s->tick_ns > r->counted_ns ? s->tick_ns - r->counted_ns : 0;
	uint64_t launches = zn_counter_advance(&r->launches, ZN_LAUNCHES(p->count));

	return launches || (r->launches && s->agg->info[row].stall_tick_ns[ZN_STALL_GPU] * 2 > ns);
}

/* The time from the first launch of a steady run on is taken off when it has turned out to be one. */
static void look_for_steady(struct zn_startup *s, struct zn_startup_row *r, bool working, const uint64_t before[])
{
	if (working && !r->steady_ns) {
		r->steady_ns = r->counted_ns;
		memcpy(r->kept_ns, before, sizeof(r->kept_ns));
	}
	if (working)
		r->worked_ns = s->tick_ns;
	if (r->steady_ns && s->tick_ns - r->worked_ns >= PAUSE_NS)
		r->steady_ns = 0;
	if (!r->steady_ns || r->worked_ns - r->steady_ns < STEADY_NS)
		return;
	memcpy(r->phase_ns, r->kept_ns, sizeof(r->phase_ns));
	r->state = ZN_STARTUP_OVER;
}

static void note_process(struct zn_startup *s, uint32_t row, const struct zn_proc *p)
{
	struct zn_startup_row *r = &s->row[row];
	uint64_t before[ZN_STARTUP_COUNT];
	bool working;

	begin_row(s, r, p);
	if (r->state != ZN_STARTUP_GOES_ON)
		return;
	memcpy(before, r->phase_ns, sizeof(before));
	working = works_on_gpu(s, r, row, p);
	count_time(s, r, p);
	look_for_steady(s, r, working, before);
	r->counted_ns = s->tick_ns;
}

void zn_startup_init(struct zn_startup *s, struct zn_agg *agg, uint64_t now_ns)
{
	s->agg = agg;
	s->began_ns = now_ns;
}

void zn_startup_tick(struct zn_startup *s, uint64_t now_ns)
{
	s->tick_ns = now_ns;
	for (uint32_t i = 0; i < s->agg->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(s->agg->arena, s->agg->row[i]);

		if (p)
			note_process(s, s->agg->row[i], p);
	}
}

const struct zn_startup_row *zn_startup_of(const struct zn_startup *s, uint32_t row, uint32_t id)
{
	const struct zn_startup_row *r = row < ZN_PROCS_MAX ? &s->row[row] : NULL;

	return r && r->id == id && r->phases_known ? r : NULL;
}

/* Row by row, and what is kept of rows that were given back. */
const struct zn_startup_row *zn_startup_job(const struct zn_startup *s, struct zn_job_ref job)
{
	const struct zn_startup_row *longest = NULL;

	for (uint32_t i = 0; job.serial && job.slot < ZN_JOBS_MAX && i <= ZN_PROCS_MAX; i++) {
		const struct zn_startup_row *r = i < ZN_PROCS_MAX ? &s->row[i] : &s->gone[job.slot];

		if (r->phases_known && zn_job_ref_same(r->job, job) &&
			(!longest || zn_startup_sum(r) > zn_startup_sum(longest)))
			longest = r;
	}
	return longest;
}

bool zn_startup_goes_on(const struct zn_startup *s, uint32_t row, uint32_t id)
{
	const struct zn_startup_row *r = zn_startup_of(s, row, id);

	return r && r->state == ZN_STARTUP_GOES_ON && !r->launches && s->tick_ns - r->start_ns < LONGEST_NS;
}
