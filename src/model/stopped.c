/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stopped.c: which processes are stopped, by a signal or a debugger. /proc is asked for those alone that have done nothing for
 * some seconds.
 */
#include "zernel.h"

#define QUIET_NS (3 * ZN_NS_PER_S)
#define LOOK_NS  (ZN_NS_PER_MS / 4) /* of a tick: users may have many processes that are quiet */

static bool is_quiet(const struct zn_stopped *s, const struct zn_progress *g, const struct zn_info *info, uint32_t row)
{
	return !info->stall_tick_ns[ZN_STALL_CPU] && s->tick_ns - zn_progress_last(g, row, info->id) >= QUIET_NS;
}

static void look(struct zn_stopped *s, uint32_t row, const struct zn_proc *p)
{
	struct zn_procfs_stat stat;
	bool stopped = zn_procfs_stat(s->proc, p->tgid, &stat) && (stat.state == 'T' || stat.state == 't');

	if (s->id[row] != p->id)
		s->since_ns[row] = 0;
	s->id[row] = p->id;
	if (!stopped)
		s->since_ns[row] = 0;
	else if (!s->since_ns[row])
		s->since_ns[row] = s->tick_ns;
}

void zn_stopped_tick(struct zn_stopped *s, const struct zn_agg *a, const struct zn_progress *progress, uint64_t now_ns)
{
	uint64_t begin_ns = zn_now_ns();

	s->tick_ns = now_ns;
	for (uint32_t i = 0; s->proc && i < a->row_count && zn_now_ns() - begin_ns < LOOK_NS; i++) {
		uint32_t row = a->row[s->next++ % a->row_count];
		const struct zn_proc *p = zn_arena_proc(a->arena, row);

		if (p && is_quiet(s, progress, &a->info[row], row))
			look(s, row, p);
		else
			s->since_ns[row] = 0;
	}
}

uint64_t zn_stopped_since(const struct zn_stopped *s, uint32_t row, uint32_t id)
{
	return s->id[row] == id ? s->since_ns[row] : 0;
}
