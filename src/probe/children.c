/* SPDX-License-Identifier: GPL-2.0 */
/*
 * children.c: workers of data loaders that were forked before their parent was tracked. Those that come later are seen
 * when they are forked, so that one look at a process is enough. It runs on the finder's thread, in slices.
 */
#include <errno.h>

#include "zernel.h"

static int add_worker(void *arena, const struct zn_tree_process *parent, uint32_t pid)
{
	struct zn_arena *a = arena;

	if (!a->ops->worker_add || a->procs[parent->index].id != parent->id)
		return -ESRCH;
	return a->ops->worker_add(a, parent->index, pid);
}

void zn_children_init(struct zn_children *c, struct zn_arena *arena)
{
	zn_tree_init(&c->tree, "/proc");
	c->tree.add = add_worker;
	c->tree.owner = arena;
	c->arena = arena;
}

void zn_children_close(struct zn_children *c)
{
	zn_tree_close(&c->tree);
}

bool zn_children_pending(const struct zn_children *c)
{
	return c->tree.rest != c->tree.end;
}

/* Processes that are tracked since the last round. The loop maps a row before it uses it, and a process that is so
 * new that it did not yet is looked at in the next round. */
static void find_parents(struct zn_children *c)
{
	struct zn_arena *a = c->arena;

	for (uint32_t row = 0; row < ZN_PROCS_MAX && a->shared->stalls; row++) {
		uint32_t tgid = __atomic_load_n(&a->shared->row_tgid[row], __ATOMIC_ACQUIRE);
		uint8_t mapped = __atomic_load_n(&a->proc_mapped[row / 8], __ATOMIC_ACQUIRE);
		struct zn_tree_process parent = {.pid = tgid, .index = row};

		if (!tgid || !(mapped >> (row % 8) & 1) || c->looked_for[row] == a->procs[row].id)
			continue;
		parent.id = a->procs[row].id;
		if (zn_tree_add(&c->tree, &parent))
			c->looked_for[row] = parent.id;
	}
}

void zn_children_find(struct zn_children *c, uint64_t until_ns)
{
	find_parents(c);
	while (zn_tree_step(&c->tree) && zn_now_ns() < until_ns)
		;
	for (; c->tree.dropped; c->tree.dropped--)
		__atomic_fetch_add(&c->arena->shared->lost[ZN_LOST_THREAD], 1, __ATOMIC_RELAXED);
}
