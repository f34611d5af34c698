/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sleepers.c: threads that the scheduler's programs saw fall into uninterruptible sleep and not wake. The table of
 * threads is read as memory, a part of it at a time; what lies beside its sets is read as a whole, if there is any.
 */
#include "zernel.h"
#include <bpf/bpf.h>

#define ROUND_NS (5 * ZN_NS_PER_S) /* in which the whole table is looked at */

static bool is_asleep(const struct zn_sched_entry *e)
{
	return (e->flags & (ZN_SCHED_DEEP | ZN_SCHED_WORKER)) == ZN_SCHED_DEEP && e->kind != ZN_SCHED_PREEMPTED &&
		e->off_ns && !e->ready_ns;
}

/* A thread may wake while its place is read, or leave it to another one. */
static bool entry_read(const struct zn_sched_entry *from, struct zn_sched_entry *to)
{
	*to = *from;
	return to->tid && to->tid != ZN_SCHED_BUSY && is_asleep(to) &&
		__atomic_load_n(&from->tid, __ATOMIC_ACQUIRE) == to->tid &&
		__atomic_load_n(&from->off_ns, __ATOMIC_ACQUIRE) == to->off_ns;
}

/* Sets that are looked at now, so that a round takes as long as it may, however often this is called. */
static uint32_t sets_due(struct zn_probe *p, uint32_t sets)
{
	uint64_t now_ns = zn_now_ns(), since_ns = now_ns - p->sleepers_ns;
	uint64_t due = since_ns < ROUND_NS ? sets * since_ns / ROUND_NS + 1 : sets;

	p->sleepers_ns = now_ns;
	return due < sets - p->sleepers_at ? (uint32_t)due : sets - p->sleepers_at;
}

static void beside_read(struct zn_probe *p, void (*sleeper)(void *to, const struct zn_sched_entry *thread), void *to)
{
	struct zn_batch b = zn_batch_begin(p, ZN_MAP_SPILLED);
	struct zn_sched_entry e;

	while (zn_batch_next(&b))
		for (uint32_t i = 0; i < b.count; i++)
			if (entry_read(zn_batch_value(&b, i), &e))
				sleeper(to, &e);
}

static void set_read(struct zn_probe *p, const struct zn_sched_set *set,
	void (*sleeper)(void *to, const struct zn_sched_entry *thread), void *to)
{
	struct zn_sched_entry e;

	p->sleepers_beside |= set->spilled;
	for (int i = 0; i < ZN_SCHED_WAYS; i++)
		if (entry_read(&set->way[i], &e))
			sleeper(to, &e);
}

void zn_sleepers_read(
	struct zn_arena *a, bool all, void (*sleeper)(void *to, const struct zn_sched_entry *thread), void *to)
{
	struct zn_probe *p = (struct zn_probe *)a;
	uint32_t sets = p->sizes.sched_entries / ZN_SCHED_WAYS, count;
	const struct zn_sched_set *set;
	struct zn_piece piece;

	p->sleepers_at = all ? 0 : p->sleepers_at;
	count = all ? sets : sets_due(p, sets);
	set = zn_bpf_map_piece(p, ZN_MAP_SCHED_SETS, p->sleepers_at * sizeof(*set), count * sizeof(*set), &piece);
	for (uint32_t i = 0; set && i < count; i++)
		set_read(p, &set[i], sleeper, to);
	zn_bpf_map_piece_end(&piece);
	p->sleepers_at += count;
	if (p->sleepers_at < sets)
		return;
	if (p->sleepers_beside)
		beside_read(p, sleeper, to);
	p->sleepers_at = 0;
	p->sleepers_beside = false;
}

bool zn_sleepers_still(struct zn_arena *a, uint32_t tid, uint64_t since_ns)
{
	struct zn_probe *p = (struct zn_probe *)a;
	uint32_t at = tid & a->shared->sched_mask;
	struct zn_sched_entry beside;
	struct zn_sched_set set;

	if (bpf_map_lookup_elem(p->map_fd[ZN_MAP_SCHED_SETS], &at, &set))
		return false;
	for (int i = 0; i < ZN_SCHED_WAYS; i++)
		if (set.way[i].tid == tid)
			return is_asleep(&set.way[i]) && set.way[i].off_ns == since_ns;
	return set.spilled && bpf_map_lookup_elem(p->map_fd[ZN_MAP_SPILLED], &tid, &beside) == 0 &&
		is_asleep(&beside) && beside.off_ns == since_ns;
}
