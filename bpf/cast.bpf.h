/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fields of the kernel's memory. From 6.2 on a program may say what an address is of (bpf_rdonly_cast()), and then
 * loads its fields without a call, which takes some 30 ns off each. An address that is not mapped reads as 0 in both
 * ways.
 *
 * The function is no helper, and kernels from 5.13 to 5.15 refuse a program that names one which they lack, even where
 * it is never called: a number stands for it, in place of which the daemon puts that of the kernel's own.
 */
#ifndef ZN_CAST_BPF_H
#define ZN_CAST_BPF_H

#include "zernel.bpf.h"
#include <bpf/bpf_core_read.h>

static void *(*const zn_cast_to)(const void *address, __u32 type) = (void *)ZN_CALL_OF_CAST;

#define ZN_CAST(address, type) ((type *)zn_cast_to((const void *)(address), bpf_core_type_id_kernel(type)))

#ifdef ZN_NO_FETCH
#define zn_casts false
#else
/* Whether the kernel has them; the verifier leaves out what this rules out. Static: not there where it is not used. */
static const volatile bool zn_casts SEC(".rodata.cast");
#endif

#define ZN_FIELD(address, type, field)                                                                                 \
	(zn_casts ? ZN_CAST(address, type)->field : BPF_CORE_READ((type *)(address), field))

/* The pointer at an address. */
static __always_inline void *zn_pointer_at(const void *address)
{
	void *to = NULL;

	if (zn_casts)
		return ZN_CAST(address, struct rb_root)->rb_node; /* which is but a pointer */
	bpf_probe_read_kernel(&to, sizeof(to), address);
	return to;
}

#ifndef ZN_NO_FETCH /* nor has it the helper (5.15) */
/* The registers with which a thread came into the kernel lie at the same place of each thread's stack, so the helper
 * that tells them is asked once: it takes as long as all that is done with the answer. Of a thread that did not come
 * from a program, as an idle one, it tells no place on that thread's stack. Both addresses are read as bytes: the
 * verifier allows no difference of what it knows for pointers. */
#define ZN_STACK_MOST (1 << 20) /* bytes of a kernel stack */
static __noinline int zn_registers_note(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	const void *at[2] = {(const void *)bpf_task_pt_regs(task), task->stack};
	__u64 number[2];

	if (bpf_probe_read_kernel(number, sizeof(number), at) == 0 && number[0] - number[1] < ZN_STACK_MOST)
		shared.regs_at = number[0] - number[1];
	return 0;
}

/* Before zn_registers_of(), in a call of a program, where all ways to it come by: the verifier follows this on each. */
static __always_inline void zn_registers_ready(void)
{
	if (zn_casts && ZN_RARE(!shared.regs_at))
		zn_registers_note();
}

static __always_inline const struct pt_regs *zn_registers_of(struct task_struct *task)
{
	return zn_casts ? ZN_CAST((__u64)task->stack + shared.regs_at, struct pt_regs)
			: (const struct pt_regs *)bpf_task_pt_regs(task);
}
#endif

#endif
