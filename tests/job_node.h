/* SPDX-License-Identifier: GPL-2.0 */
/*
 * job_node.h: a node with jobs: their table over an arena of plain memory, with a clock that the test moves. BOOT_MS is
 * defined before; see clock.h.
 */
#ifndef JOB_NODE_H
#define JOB_NODE_H

#include <stdlib.h>

#include "zernel.h"
#include "t.h"
#include "clock.h"

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_message message;

/* Again, as if there had been nothing before. */
static inline void open_node(void)
{
	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	memset(&alerts, 0, sizeof(alerts));
	memset(&message, 0, sizeof(message));
	clock_ns = 1000 * ZN_NS_PER_S;
	if (zn_memory_open(&memory))
		abort();
	zn_agg_init(&agg, &memory.arena);
	if (zn_jobs_open(&jobs, &agg, &alerts))
		abort();
}

static inline void pass_ms(uint64_t ms)
{
	clock_ns += ms * ZN_NS_PER_MS;
	zn_agg_tick(&agg, clock_ns);
	zn_jobs_tick(&jobs, clock_ns);
}

/* A process has the first GPUs open, as it must have for what it says of those of the driver's list to be believed. */
static inline bool open_devices(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	(void)owner;
	*to = (struct zn_process_info){.id = p->id, .minor_count = 4, .minors = {0, 1, 2, 3}, .slurm.uid = ZN_UNKNOWN};
	return true;
}

/* The driver's list of GPUs; the UUID of GPU i begins with byte i + 1. */
static inline void list_gpus(uint32_t n)
{
	agg.process_info = open_devices;
	agg.gpus = (struct zn_gpus){.count = n, .listed = n};
	for (uint32_t i = 0; i < n; i++) {
		uint8_t uuid[16] = {(uint8_t)(i + 1)};

		agg.gpus.gpu[i].minor = (int)i;
		snprintf(agg.gpus.gpu[i].id, sizeof(agg.gpus.gpu[i].id), "%u", i);
		zn_uuid_text(agg.gpus.gpu[i].uuid, uuid);
	}
}

static inline struct zn_proc *process(uint32_t tgid)
{
	struct zn_proc *p = zn_memory_claim(&memory, tgid, "python3");

	if (!p)
		abort();
	return p;
}

static inline struct zn_proc *process_of(uint32_t slot, uint32_t tgid)
{
	if (memory.arena.ops->job_task(&memory.arena, slot, tgid))
		abort();
	return process(tgid);
}

#endif
