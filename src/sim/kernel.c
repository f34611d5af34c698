/* SPDX-License-Identifier: GPL-2.0 */
/*
 * kernel.c: what the kernel sees of a simulated rank, from random numbers of its own: system calls and short sleeps at
 * each launch, the GPU's driver at some, and gradients to other nodes now and then.
 */
#include "zernel.h"

#define MIB              (1ULL << 20)
#define SYSCALLS_LEAST   3        /* per launch */
#define SYSCALLS_MORE    4        /* per millisecond, below this */
#define SWITCHES_MORE    3        /* per millisecond, below this */
#define OFFCPU_NS        61000ULL /* per launch */
#define PREEMPT_EVERY    23       /* context switches */
#define FAULT_EVERY      2        /* launches */
#define MIGRATE_EVERY    67       /* ms */
#define IOCTL_EVERY      19       /* ms with a launch */
#define IOCTL_NS         9000ULL
#define IOCTL_WAITS      80 /* ioctls */
#define IOCTL_WAIT_NS    610000ULL
#define MAP_EVERY_MS     100
#define SEND_EVERY_MS    50
#define SEND_NS          180000ULL
#define RETRANSMIT_EVERY 400 /* sends */

void zn_sim_kernel(struct zn_sim *s, uint32_t rank, uint64_t launches)
{
	struct zn_proc *p = s->rank[rank];
	struct zn_gpu_calls *gpu = &s->memory.arena.shared->gpu_calls;
	uint64_t *state = &s->kernel_state, at = s->elapsed_ms + rank * ZN_SIM_STAGGER_MS, ns;

	p->count[ZN_C_SYSCALLS] += SYSCALLS_LEAST * launches + zn_random_below(state, SYSCALLS_MORE);
	p->count[ZN_C_SWITCH_VOLUNTARY] += zn_random_below(state, SWITCHES_MORE);
	p->count[ZN_C_OFFCPU_FUTEX] += launches * zn_random_around(state, OFFCPU_NS);
	for (uint64_t n = launches; n; n--) {
		p->count[zn_random_below(state, PREEMPT_EVERY) ? ZN_C_SWITCH_VOLUNTARY : ZN_C_SWITCH_INVOLUNTARY]++;
		zn_memory_record(&s->memory, p, ZN_H_RUNQUEUE, zn_random_skewed(state, 2000, 90000), 0);
	}
	p->count[ZN_C_FAULTS_MINOR] += launches / FAULT_EVERY;
	p->count[ZN_C_MIGRATE_CPU] += zn_random_below(state, MIGRATE_EVERY) == 0;
	if (launches && zn_random_below(state, IOCTL_EVERY) == 0) {
		bool contended = s->phase == ZN_SCENARIO_CONTENTION,
		     waits = zn_random_below(state, IOCTL_WAITS) == 0 || contended;

		ns = zn_random_around(state, waits ? IOCTL_WAIT_NS : IOCTL_NS);
		zn_memory_record(&s->memory, p, ZN_H_IOCTL, ns, 0);
		gpu->busy_ns += ns;
		gpu->contended_ns += contended ? ns / 2 : waits ? ns / 8 : 0;
	}
	if (at % MAP_EVERY_MS == 0)
		for (uint32_t unmap = 0; unmap < 2; unmap++) {
			p->count[ZN_C_MMAP_CALLS + unmap]++;
			p->count[ZN_C_MMAP_BYTES + unmap] += 2 * MIB;
		}
	if (at % SEND_EVERY_MS == 0) {
		zn_memory_record(&s->memory, p, ZN_H_TCP_SEND, zn_random_around(state, SEND_NS), 0);
		p->count[ZN_C_TCP_SENT] += MIB;
		p->count[ZN_C_TCP_RECEIVED] += MIB;
		p->count[ZN_C_TCP_RETRANSMITS] += zn_random_below(state, RETRANSMIT_EVERY) == 0;
	}
}
