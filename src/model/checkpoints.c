/* SPDX-License-Identifier: GPL-2.0 */
/*
 * checkpoints.c: times in which a job writes files while none of its processes launches, from the first to the last
 * tick that writes; a tick that is blocked on files, as in fsync(), prolongs it. What is written before the first
 * launch, or is less than EPISODE_LEAST, is no checkpoint.
 */
#include "zernel.h"

#define EPISODE_LEAST (16u << 20)       /* bytes */
#define TICK_LEAST    (64u << 10)       /* bytes in a tick: a log is no checkpoint */
#define PAUSE_NS      (5 * ZN_NS_PER_S) /* without a write: it is over */

static struct zn_checkpoint_job *job_of(struct zn_checkpoints *c, const struct zn_proc *p)
{
	bool none = !p->job.serial || p->job.slot >= ZN_JOBS_MAX;
	struct zn_checkpoint_job *g = &c->job[none ? ZN_JOBS_MAX : p->job.slot];

	if (!none && g->serial != p->job.serial)
		*g = (struct zn_checkpoint_job){.serial = p->job.serial};
	return g;
}

static void read_process(struct zn_checkpoints *c, uint32_t row, const struct zn_proc *p, uint64_t interval_ns)
{
	struct zn_checkpoint_row *r = &c->row[row];
	struct zn_checkpoint_job *g = job_of(c, p);
	bool fresh = r->id != p->id;
	uint64_t launches, written;

	if (fresh) /* the sums of the process that had the row before say nothing of this one */
		*r = (struct zn_checkpoint_row){.id = p->id};
	launches = zn_counter_advance(&r->launches, ZN_LAUNCHES(p->count));
	written = zn_counter_advance(&r->written, p->count[ZN_C_IO_WRITE_BYTES]);
	g->launched |= launches > 0;
	g->begun |= launches > 0;
	g->written += fresh ? 0 : written;
	g->blocked |= c->agg->info[row].stall_tick_ns[ZN_STALL_IO] * 2 > interval_ns;
}

static void end_episode(struct zn_checkpoint_job *g)
{
	g->sum = zn_checkpoint_sum(g);
	g->bytes = g->first_ns = 0;
}

/* Of the tick that began at before_ns. When in it something was written is not known. */
static void note_tick(struct zn_checkpoint_job *g, uint64_t before_ns, uint64_t now_ns)
{
	uint64_t until_ns = g->written >= TICK_LEAST || g->blocked ? before_ns : now_ns;

	if (g->first_ns && (g->launched || until_ns - g->last_ns >= PAUSE_NS))
		end_episode(g);
	if (g->launched || !g->begun)
		return;
	if (!g->first_ns && g->written >= TICK_LEAST)
		g->first_ns = before_ns;
	if (!g->first_ns || (g->written < TICK_LEAST && !g->blocked))
		return;
	g->bytes += g->written;
	g->last_ns = now_ns;
}

void zn_checkpoints_init(struct zn_checkpoints *c, struct zn_agg *agg)
{
	c->agg = agg;
}

void zn_checkpoints_tick(struct zn_checkpoints *c, uint64_t now_ns)
{
	uint64_t before_ns = c->tick_ns;

	c->tick_ns = now_ns;
	for (uint32_t i = 0; i <= ZN_JOBS_MAX; i++) {
		c->job[i].written = 0;
		c->job[i].launched = c->job[i].blocked = false;
	}
	for (uint32_t i = 0; i < c->agg->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(c->agg->arena, c->agg->row[i]);

		if (p)
			read_process(c, c->agg->row[i], p, now_ns - before_ns);
	}
	for (uint32_t i = 0; before_ns && i <= ZN_JOBS_MAX; i++)
		note_tick(&c->job[i], before_ns, now_ns);
}

struct zn_checkpoint_sum zn_checkpoint_sum(const struct zn_checkpoint_job *g)
{
	struct zn_checkpoint_sum sum = g->sum;

	if (!g->first_ns || g->bytes < EPISODE_LEAST)
		return sum;
	sum.count++;
	sum.last_ns = g->last_ns - g->first_ns;
	sum.last_bytes = g->bytes;
	sum.ns += sum.last_ns;
	sum.bytes += sum.last_bytes;
	return sum;
}

struct zn_checkpoint_sum zn_checkpoints_of(const struct zn_checkpoints *c, struct zn_job_ref job)
{
	const struct zn_checkpoint_job *g = job.slot < ZN_JOBS_MAX ? &c->job[job.slot] : NULL;

	return g && g->serial == job.serial ? zn_checkpoint_sum(g) : (struct zn_checkpoint_sum){0};
}
