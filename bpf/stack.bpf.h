/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the return programs of libraries' functions do for the stacks of Python: they hand some of their calls to the
 * walker, stacks.bpf.c, by a tail call, which is the last thing that they do. The call's frame, which was just closed,
 * carries what the walker needs.
 */
#ifndef ZN_STACK_BPF_H
#define ZN_STACK_BPF_H

#include "uprobe.bpf.h"

enum { STACK_LEAF, STACK_WEIGHT, STACK_VALUE }; /* of arg[] */

#ifdef __TARGET_ARCH_x86 /* the only machine whose thread pointer leads to Python's state, see src/probe/python.c */
/* One in so many of the short calls is walked, at random; a long one always, for a walk is little beside it. */
static __always_inline int zn_stack(struct pt_regs *ctx, struct zn_call *c, enum zn_leaf leaf, __u64 value)
{
	__u32 row = c->thread->row, every;
	struct zn_python *py;

	if (!(c->proc->calls & ZN_HAS_PYTHON) || zn_spares(c->proc, ZN_SPARE_STACKS))
		return 0;
	py = bpf_map_lookup_elem(&pythons, &row);
	if (!py || py->id != c->proc->id)
		return 0;
	ZN_ADD(py->all[leaf].count, 1);
	ZN_ADD(py->all[leaf].value, value);
	every = py->every[leaf == ZN_LEAF_LAUNCH ? ZN_EVERY_LAUNCH : ZN_EVERY_OTHER];
	if (every > 1 && c->ns >= ZN_STACK_LONG_NS)
		every = 1;
	if (every > 1 && bpf_get_prandom_u32() % every)
		return 0;
	c->frame->arg[STACK_LEAF] = leaf;
	c->frame->arg[STACK_WEIGHT] = every ? every : 1;
	c->frame->arg[STACK_VALUE] = value;
	bpf_tail_call(ctx, &walkers, 0);
	return 0;
}
#else
static __always_inline int zn_stack(struct pt_regs *ctx, struct zn_call *c, enum zn_leaf leaf, __u64 value)
{
	return 0;
}
#endif

#endif
