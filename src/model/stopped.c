/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stopped.c: which processes cannot go on: stopped by a signal or a debugger, frozen with their control group, or in
 * uninterruptible sleep. /proc is asked for those alone that have done nothing for some seconds.
 *
 * Limits: the state is that of a process's first thread.
 */
#include "zernel.h"
#include <string.h>

#define QUIET_NS (3 * ZN_NS_PER_S)
#define LOOK_NS  (ZN_NS_PER_MS / 4) /* of a tick: users may have many processes that are quiet */

static bool is_quiet(const struct zn_stopped *s, const struct zn_progress *g, const struct zn_info *info, uint32_t row)
{
	return !info->stall_tick_ns[ZN_STALL_CPU] && s->tick_ns - zn_progress_last(g, row, info->id) >= QUIET_NS;
}

enum zn_stop zn_stopped_kind(char state, const char *place)
{
	/* Of control groups of version 2, where do_freezer_trap() is inlined or not, and 1. */
	static const char *const frozen[] = {"get_signal", "do_freezer_trap", "__refrigerator"};

	if (state == 'T' || state == 't')
		return ZN_STOP_SIGNAL;
	for (size_t i = 0; i < ZN_LEN(frozen); i++)
		if (!strncmp(place, frozen[i], strlen(frozen[i])))
			return ZN_STOP_FROZEN;
	return state == 'D' ? ZN_STOP_BLOCKED : ZN_STOP_NONE;
}

const char *zn_stopped_label(enum zn_stop kind)
{
	static const char *const label[] = {
		[ZN_STOP_NONE] = "",
		[ZN_STOP_SIGNAL] = "signal",
		[ZN_STOP_FROZEN] = "frozen",
		[ZN_STOP_BLOCKED] = "uninterruptible",
	};

	return label[kind];
}

const char *zn_stopped_says(enum zn_stop kind)
{
	static const char *const says[] = {
		[ZN_STOP_NONE] = "is not stopped",
		[ZN_STOP_SIGNAL] = "is stopped by a signal or a debugger",
		[ZN_STOP_FROZEN] = "is in a frozen control group",
		[ZN_STOP_BLOCKED] = "is in uninterruptible sleep (state D)",
	};

	return says[kind];
}

/* A place that was not asked for of late is known by the next tick. Until then what was found last time stands. */
static bool has_to_wait(struct zn_stopped *s, uint32_t row, const struct zn_proc *p, char state, const char *place)
{
	bool known = s->id[row] == p->id && s->kind[row];

	if (!s->place || *place || (state != 'S' && state != 'D'))
		return false;
	s->again[s->again_count++] = row;
	return known || state == 'S';
}

static void look_at(struct zn_stopped *s, uint32_t row, const struct zn_proc *p, bool again)
{
	char place[ZN_PLACE_BYTES] = "";
	struct zn_procfs_stat stat = {0};
	enum zn_stop kind;

	zn_procfs_stat(s->proc, p->tgid, &stat);
	if (s->place)
		s->place(s->owner, p->tgid, p->owner, place);
	if (!again && has_to_wait(s, row, p, stat.state, place))
		return;
	kind = zn_stopped_kind(stat.state, place);
	if (s->id[row] != p->id || s->kind[row] != kind)
		s->since_ns[row] = 0;
	s->id[row] = p->id;
	s->kind[row] = (uint8_t)kind;
	if (!kind)
		s->since_ns[row] = 0;
	else if (!s->since_ns[row])
		s->since_ns[row] = s->tick_ns;
}

static void look_if_quiet(
	struct zn_stopped *s, const struct zn_agg *a, const struct zn_progress *progress, uint32_t row, bool again)
{
	const struct zn_proc *p = zn_arena_proc(a->arena, row);

	if (p && is_quiet(s, progress, &a->info[row], row))
		look_at(s, row, p, again);
}

/* For those that do something again no file is read, so none of them waits until its turn comes. */
static void forget_busy(struct zn_stopped *s, const struct zn_agg *a, const struct zn_progress *progress)
{
	for (uint32_t i = 0; i < a->row_count; i++) {
		uint32_t row = a->row[i];

		if (s->since_ns[row] && !is_quiet(s, progress, &a->info[row], row))
			s->since_ns[row] = 0;
	}
}

/* What was asked for at the last tick comes first: the places of users' sleeps are kept for few processes at a time. */
void zn_stopped_tick(struct zn_stopped *s, const struct zn_agg *a, const struct zn_progress *progress, uint64_t now_ns)
{
	uint64_t begin_ns = zn_now_ns();
	uint32_t again[ZN_STOPPED_AGAIN], count = s->again_count;

	memcpy(again, s->again, sizeof(again));
	s->again_count = 0;
	s->tick_ns = now_ns;
	forget_busy(s, a, progress);
	for (uint32_t i = 0; s->proc && i < count; i++)
		look_if_quiet(s, a, progress, again[i], true);
	for (uint32_t i = 0;
		s->proc && i < a->row_count && s->again_count < ZN_STOPPED_AGAIN && zn_now_ns() - begin_ns < LOOK_NS;
		i++)
		look_if_quiet(s, a, progress, a->row[s->next++ % a->row_count], false);
}

uint64_t zn_stopped_since(const struct zn_stopped *s, uint32_t row, uint32_t id)
{
	return s->id[row] == id ? s->since_ns[row] : 0;
}
