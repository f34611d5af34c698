/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gpu.c: memory of the simulated GPUs: what a rank holds comes and goes, and one GPU fills up.
 */
#include <string.h>

#include "zernel.h"

#define GIB          (1ULL << 30)
#define MIB          (1ULL << 20)
#define GPU_BYTES    (80 * GIB)
#define START_BYTES  (24 * GIB)
#define WORK_BYTES   (2 * GIB) /* held only for a moment, so that the peak differs */
#define PINNED_BYTES (512 * MIB)
#define FULL_BYTES   (GPU_BYTES - GIB / 2) /* of both ranks; more is refused */
#define CHUNK_BYTES  (32 * MIB)            /* of one allocation */

/* What a rank holds beyond START_BYTES comes and goes, except on the GPU that fills up. */
/* What a rank's model holds beyond START_BYTES. */
static const uint8_t model_gib[ZN_SIM_RANKS] = {0, 0, 3, 3, 7, 6, 0, 0};

#define CACHE_CHUNKS   64
#define CACHE_EVERY_MS 2000

/* Two ranks start with 48 GiB of a GPU; 160 MiB/s take it past 95 % of 80 GiB after three minutes. */
#define LEAKING_RANK  7
#define LEAK_BYTES    (160 * MIB)
#define LEAK_EVERY_MS 1000
#define LEAK_FREED_MS 240000

static const char *const pci[ZN_SIM_GPUS] = {"0000:1b:00.0", "0000:43:00.0", "0000:52:00.0", "0000:9d:00.0"};

const char *zn_sim_gpu_pci(uint32_t gpu)
{
	return pci[gpu];
}

static void allocate_memory(struct zn_proc *p, struct zn_proc_gpu *gpu, uint64_t bytes)
{
	p->count[ZN_C_HITS + ZN_FAM_GPU_MEM] += bytes / CHUNK_BYTES;
	p->count[ZN_C_LIVE_ALLOCS] += bytes / CHUNK_BYTES;
	gpu->alloc_calls[ZN_K_DEVICE] += bytes / CHUNK_BYTES;
	gpu->alloc_bytes[ZN_K_DEVICE] += bytes;
	gpu->used_bytes += bytes;
	if (gpu->used_bytes > gpu->peak_bytes)
		gpu->peak_bytes = gpu->used_bytes;
}

static void release_memory(struct zn_proc *p, struct zn_proc_gpu *gpu, uint64_t bytes)
{
	p->count[ZN_C_HITS + ZN_FAM_GPU_MEM] += bytes / CHUNK_BYTES;
	p->count[ZN_C_LIVE_ALLOCS] -= bytes / CHUNK_BYTES;
	gpu->free_calls += bytes / CHUNK_BYTES;
	gpu->used_bytes -= bytes;
}

static struct zn_proc_gpu *gpu_of(struct zn_sim *s, uint32_t rank)
{
	return &s->rank[rank]->gpu[rank / 2];
}

static uint64_t model_bytes(uint32_t rank)
{
	return START_BYTES + model_gib[rank] * GIB;
}

/* The allocator's cache grows and shrinks with the batches. */
void zn_sim_gpu_breathe(struct zn_sim *s, uint32_t rank)
{
	struct zn_proc_gpu *gpu = gpu_of(s, rank);
	uint64_t want;

	if (rank / 2 == LEAKING_RANK / 2 || s->elapsed_ms % CACHE_EVERY_MS)
		return;
	want = model_bytes(rank) + zn_random_below(&s->state, CACHE_CHUNKS) * CHUNK_BYTES;

	if (want > gpu->used_bytes)
		allocate_memory(s->rank[rank], gpu, want - gpu->used_bytes);
	else
		release_memory(s->rank[rank], gpu, gpu->used_bytes - want);
}

/* In a scenario three quarters of the bad half fill the GPU. */
static uint64_t leak_bytes(const struct zn_sim *s)
{
	uint64_t seconds = s->cycle_ms / 2 * 3 / 4 / LEAK_EVERY_MS;

	if (s->scenario == ZN_SCENARIO_MIXED)
		return LEAK_BYTES;
	return (FULL_BYTES - 2 * START_BYTES) / seconds / CHUNK_BYTES * CHUNK_BYTES;
}

static bool leak_ends(const struct zn_sim *s)
{
	if (s->scenario == ZN_SCENARIO_MIXED)
		return s->elapsed_ms % LEAK_FREED_MS == 0;
	return s->phase != ZN_SCENARIO_MEMORY_LEAK;
}

void zn_sim_gpu_leak(struct zn_sim *s)
{
	struct zn_proc *p = s->rank[LEAKING_RANK];
	struct zn_proc_gpu *gpu = gpu_of(s, LEAKING_RANK);
	uint64_t used = gpu->used_bytes + gpu_of(s, LEAKING_RANK - 1)->used_bytes;

	if (s->elapsed_ms % LEAK_EVERY_MS)
		return;
	if (leak_ends(s)) {
		release_memory(p, gpu, gpu->used_bytes - START_BYTES);
	} else if (used + leak_bytes(s) <= FULL_BYTES) {
		allocate_memory(p, gpu, leak_bytes(s));
	} else {
		p->count[ZN_C_HITS + ZN_FAM_GPU_MEM]++;
		gpu->fail_oom++;
	}
}

void zn_sim_gpu_start(struct zn_sim *s, uint32_t rank)
{
	struct zn_proc *p = s->rank[rank];
	struct zn_proc_gpu *gpu = gpu_of(s, rank);
	uint32_t ordinal = rank / 2;
	uint64_t state = s->seed + ordinal, half;

	for (size_t i = 0; i < sizeof(gpu->uuid); i += sizeof(half)) {
		half = zn_random_draw(&state);
		memcpy(gpu->uuid + i, &half, sizeof(half));
	}
	memcpy(gpu->pci, pci[ordinal], strlen(pci[ordinal]));
	gpu->total_bytes = GPU_BYTES;
	allocate_memory(p, gpu, model_bytes(rank) + WORK_BYTES);
	release_memory(p, gpu, WORK_BYTES);
	p->count[ZN_C_HOST_PINNED] = PINNED_BYTES;
}
