/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sleeps of threads that launch, and of workers of data loaders, by their stack of Python functions. It is walked when
 * the thread leaves its CPU (stacks.bpf.c), as later its memory is not at hand; the time is added when it runs again
 * and the cause is known. Until then the thread holds the slot of its stack. One in so many is walked, but each where
 * the last one was long.
 */
#ifndef ZN_SLEEP_BPF_H
#define ZN_SLEEP_BPF_H

#include "cast.bpf.h"
#include "stall.bpf.h"

static __always_inline void zn_sum_add(struct zn_stack_sum *sums, __u64 leaf, __u64 weight, __u64 value)
{
	ZN_OPAQUE(leaf);
	if (leaf >= ZN_LEAF_SLOTS)
		return;
	ZN_ADD(sums[leaf].count, weight);
	ZN_ADD(sums[leaf].value, value * weight);
}

/* The clock runs on CPUs that do this (src/probe/clock.c). */
static __always_inline void zn_cpu_ran(void)
{
	__u8 *ran = &shared.cpu_ran[bpf_get_smp_processor_id() & (ZN_CPUS_MAX - 1)];

	if (!*ran)
		*ran = 1;
}

#ifdef __TARGET_ARCH_x86
static __always_inline struct zn_python *sleep_python(const struct zn_sched_entry *r, const struct zn_proc *p)
{
	__u32 row = r->row;
	bool walks = p->calls & ZN_HAS_PYTHON && !zn_spares(p, ZN_SPARE_STACKS);
	struct zn_python *py = walks ? bpf_map_lookup_elem(&pythons, &row) : NULL;

	return py && py->id == p->id && py->every[ZN_EVERY_SLEEP] ? py : NULL;
}

/* Where it sleeps: by what it called, and how deep in its stack. */
static __always_inline __u32 sleep_place(struct task_struct *task)
{
	const struct pt_regs *regs = zn_registers_of(task);

	return (regs->ip ^ regs->sp) * 0x9e3779b97f4a7c15ULL >> 40 & (ZN_SLEEP_PLACES - 1);
}

/* A thread leaves its CPU. True: its stack is to be walked. */
static __always_inline bool zn_sleep_begin(
	struct zn_sched_entry *r, const struct zn_proc *p, struct task_struct *task, bool asleep)
{
	struct zn_python *py = sleep_python(r, p);
	__u32 weight;

	zn_sleep_drop(r); /* if it was not seen running since */
	if (!py || ((r->flags & ZN_SCHED_WORKER) ? r->flags & ZN_SCHED_ASKING : !r->state_at))
		return false;
	weight = py->every[ZN_EVERY_SLEEP] & ((1u << ZN_SLEEP_WEIGHT_BITS) - 1);
	if (asleep && py->slept_long[sleep_place(task)])
		weight = 1;
	if (bpf_get_prandom_u32() & ((1u << (weight - 1 & 31)) - 1))
		return false;
	r->stack = ZN_SLEEP_OF(0, weight);
	return true;
}

static __always_inline void sleep_add(struct zn_python *py, const struct zn_sched_entry *r, __u32 leaf, __u64 ns)
{
	__u32 slot = ZN_SLEEP_SLOT(r->stack), at = slot - 1;
	__u64 weight = 1ULL << (ZN_SLEEP_WEIGHT(r->stack) - 1 & 31);
	struct zn_stack *s;

	zn_sum_add(py->all, leaf, 1, ns);
	if (!slot)
		return;
	if (slot >= ZN_SLEEP_MISSED) {
		zn_sum_add(py->missed[slot & 1], leaf, weight, ns);
		return;
	}
	s = bpf_map_lookup_elem(&stacks, &at);
	if (s && s->id == r->id)
		zn_sum_add(s->leaf, leaf, weight, ns);
}

/* It runs again. It slept, and then waited for a CPU. inside: in a hooked call, whose time is counted as that. */
static __always_inline void zn_sleep_end(struct zn_sched_entry *r, const struct zn_proc *p, struct task_struct *task,
	bool inside, __u64 slept, __u64 queued)
{
	bool asleep = r->kind != ZN_SCHED_PREEMPTED, idle = r->flags & ZN_SCHED_ASKING;
	struct zn_python *py = sleep_python(r, p);

	if (!py || idle || (!(r->flags & ZN_SCHED_WORKER) && !r->state_at))
		return;
	if (asleep)
		py->slept_long[sleep_place(task)] = slept >= ZN_SLEEP_LONG_NS;
	if (asleep && !inside && r->cause >= ZN_STALL_DATA)
		sleep_add(py, r, ZN_LEAF_OF_STALL(r->cause), slept);
	if (queued)
		sleep_add(py, r, ZN_LEAF_RUNQUEUE, queued);
	zn_sleep_drop(r);
}
#else
static __always_inline bool zn_sleep_begin(
	struct zn_sched_entry *r, const struct zn_proc *p, struct task_struct *task, bool asleep)
{
	return false;
}

static __always_inline void zn_sleep_end(struct zn_sched_entry *r, const struct zn_proc *p, struct task_struct *task,
	bool inside, __u64 slept, __u64 queued)
{
}
#endif

#endif
