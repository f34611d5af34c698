/* SPDX-License-Identifier: GPL-2.0 */
/*
 * blocked.c: for how long a thread of a process has been in uninterruptible sleep (state D), of all its threads the one
 * that has been so longest: a driver or a file system does not answer. The scheduler's programs note since when a
 * thread sleeps and how; /proc is asked once for each long sleep whether it is so.
 *
 * Limits: of sleeps that began before the programs were there, and of processes whose switches are spared, those of
 * first threads alone are known, by stopped.c and as of its first look.
 */
#include "zernel.h"
#include <string.h>

#define LOOKS_MAX  64 /* files of /proc in a tick; one of each process */
#define PLACES_MAX 16 /* places that are asked for in a tick, which others ask for too */

static bool is_deep_asleep(const struct zn_blocked *b, const struct zn_proc *p, uint32_t tid)
{
	struct zn_procfs_stat stat;
	char path[ZN_TEXT_MAX];

	snprintf(path, sizeof(path), "%s/%u/task", b->proc, p->tgid);
	return zn_procfs_stat(path, tid, &stat) && stat.state == 'D';
}

static void note_sleeper(void *to, const struct zn_sched_entry *thread)
{
	struct zn_blocked *b = to;
	const struct zn_proc *p = zn_arena_proc(b->arena, thread->row);
	struct zn_blocked_thread *r = p && p->id == thread->id ? &b->row[thread->row] : NULL;

	if (!r || thread->off_ns + ZN_BLOCKED_LEAST_NS > b->tick_ns)
		return;
	if (r->id != p->id)
		*r = (struct zn_blocked_thread){.id = p->id};
	if ((r->tid && r->since_ns <= thread->off_ns) || r->looked_ns == b->tick_ns || b->looks == LOOKS_MAX)
		return;
	b->looks++;
	r->looked_ns = b->tick_ns;
	if (!is_deep_asleep(b, p, thread->tid))
		return;
	r->tid = thread->tid;
	r->since_ns = thread->off_ns;
	r->place[0] = 0;
}

/* False: the thread that is known of this process has woken. The place of its sleep may be known by the next tick. */
static bool is_still_so(struct zn_blocked *b, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(b->arena, row);
	struct zn_blocked_thread *r = &b->row[row];

	if (!r->tid)
		return true;
	if (!p || p->id != r->id || !b->arena->ops->still(b->arena, r->tid, r->since_ns)) {
		r->tid = 0;
		return false;
	}
	if (b->place && !r->place[0] && b->places < PLACES_MAX) {
		b->place(b->owner, r->tid, p->owner, r->place);
		b->places++;
	}
	return true;
}

void zn_blocked_tick(struct zn_blocked *b, const struct zn_agg *a, uint64_t now_ns)
{
	bool woken = false;

	b->arena = a->arena;
	b->tick_ns = now_ns;
	b->looks = b->places = 0;
	if (!b->proc || !a->row_count || !a->arena->ops->sleepers)
		return;
	for (uint32_t i = 0; i < a->row_count; i++)
		woken |= !is_still_so(b, a->row[i]);
	a->arena->ops->sleepers(a->arena, woken, note_sleeper, b); /* another one of its threads may sleep on */
}

/* It waits for another process, or its job was suspended: nothing fails to answer it. */
static bool is_of_its_own(const char *place)
{
	static const char *const places[] = {"kernel_clone", "_do_fork", "wait_for_vfork_done", "coredump_task_exit"};

	for (size_t i = 0; i < ZN_LEN(places); i++)
		if (!strncmp(place, places[i], strlen(places[i])))
			return true;
	return zn_stopped_kind('D', place) == ZN_STOP_FROZEN;
}

static bool first_is_blocked(const struct zn_blocked *b, uint32_t row, const struct zn_proc *p, uint64_t *since_ns)
{
	*since_ns = b->stopped ? zn_stopped_since(b->stopped, row, p->id) : 0;
	return *since_ns && b->stopped->kind[row] == ZN_STOP_BLOCKED;
}

bool zn_blocked_oldest(const struct zn_blocked *b, uint32_t row, const struct zn_proc *p, struct zn_blocked_thread *to)
{
	uint64_t since_ns;

	*to = b->row[row];
	if (to->id != p->id)
		to->tid = 0;
	if (first_is_blocked(b, row, p, &since_ns) && (!to->tid || since_ns < to->since_ns))
		*to = (struct zn_blocked_thread){.id = p->id, .tid = p->tgid, .since_ns = since_ns};
	return to->tid && to->since_ns + ZN_BLOCKED_LEAST_NS <= b->tick_ns && !is_of_its_own(to->place);
}
