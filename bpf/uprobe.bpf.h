/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What programs on functions of libraries need to be safe where the kernel is preemptible. From 6.13 on, a program
 * that uses 64 bytes of stack or more gets a stack per CPU, for the kernel sees to it that no program runs twice on
 * one CPU at a time; but for uprobes it does not. There one thread may be preempted inside a program and another one
 * enter it: they write over each other's pointers, and the kernel oopses in the job's thread (seen on 6.18 and 7.3).
 *
 * A program with a tail call keeps to the stack of its thread (kernel/bpf/verifier.c, check_max_stack_depth()). So
 * each of these programs has one, which leads nowhere and does nothing.
 */
#ifndef ZN_UPROBE_BPF_H
#define ZN_UPROBE_BPF_H

#include "zernel.bpf.h"
#include <bpf/bpf_core_read.h>

enum priv_stack_mode { PRIV_STACK_ADAPTIVE = 2 }; /* linux/bpf_verifier.h */

ZN_MAP(nowhere, BPF_MAP_TYPE_PROG_ARRAY, 1, __u32, __u32, 0); /* always empty */

/* For the rare end of a program that has nothing to count; its result. Where there are no such stacks, the
 * verifier drops the call: some of these kernels would refuse it (arm64 before 6.0). */
static __always_inline int zn_nothing(struct pt_regs *ctx)
{
	if (bpf_core_enum_value_exists(enum priv_stack_mode, PRIV_STACK_ADAPTIVE))
		bpf_tail_call(ctx, &nowhere, 0);
	return 0;
}

/* Argument 7 or 8. The compiler shall not share an address inside of the context with other branches: the verifier
 * refuses it. */
static __always_inline bool zn_late_argument(struct pt_regs *ctx, int number, __u64 *to)
{
	ZN_OPAQUE(ctx);
#ifdef ZN_ARG7
	*to = number == 7 ? ZN_ARG7(ctx) : ZN_ARG8(ctx);
	return true;
#else
	return zn_read_user(to, sizeof(*to), number == 7 ? ZN_STACK_ARG7(ctx) : ZN_STACK_ARG8(ctx));
#endif
}

#endif
