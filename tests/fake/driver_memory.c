/* SPDX-License-Identifier: GPL-2.0 */
/*
 * driver_memory.c: GPU memory, got and given back in each way that there is; contexts; what nobody watched.
 */
#include <pthread.h>
#include <string.h>

#include "driver.h"

void *use_gpu(int gpu)
{
	void *ctx = NULL;

	must(cuda.cuDevicePrimaryCtxRetain(&ctx, gpu), 0, "cuDevicePrimaryCtxRetain");
	must(cuda.cuCtxSetCurrent(ctx), 0, "cuCtxSetCurrent");
	return ctx;
}

/* Memory: one row for each way to get some and to give it back. */
/* clang-format off */
VIA(get_device, (uint64_t *at, uint64_t *bytes), cuda.cuMemAlloc_v2(at, *bytes))
VIA(get_managed, (uint64_t *at, uint64_t *bytes), cuda.cuMemAllocManaged(at, *bytes, 1))
VIA(get_async, (uint64_t *at, uint64_t *bytes), cuda.cuMemAllocAsync(at, *bytes, NULL))
VIA(get_async_ptsz, (uint64_t *at, uint64_t *bytes), cuda.cuMemAllocAsync_ptsz(at, *bytes, NULL))
VIA(get_pool, (uint64_t *at, uint64_t *bytes), cuda.cuMemAllocFromPoolAsync(at, *bytes, NULL, NULL))
VIA(get_pool_ptsz, (uint64_t *at, uint64_t *bytes), cuda.cuMemAllocFromPoolAsync_ptsz(at, *bytes, NULL, NULL))
VIA(get_host, (uint64_t *at, uint64_t *bytes), cuda.cuMemHostAlloc((void **)at, *bytes, 0))
VIA(get_host_plain, (uint64_t *at, uint64_t *bytes), cuda.cuMemAllocHost_v2((void **)at, *bytes))
VIA(put_async, (uint64_t at), cuda.cuMemFreeAsync(at, NULL))
VIA(put_async_ptsz, (uint64_t at), cuda.cuMemFreeAsync_ptsz(at, NULL))
VIA(put_host, (uint64_t at), cuda.cuMemFreeHost((void *)(uintptr_t)at))
/* clang-format on */

/* Rows of 1000 bytes; the fake makes them longer. */
static int get_pitch(uint64_t *at, uint64_t *bytes)
{
	size_t pitch = 0, height = *bytes / 1000;
	int err = cuda.cuMemAllocPitch_v2(at, &pitch, 1000, height, 4);

	*bytes = pitch * height;
	return err;
}

static int put_device(uint64_t at)
{
	uint64_t start = now_ns();
	int err = cuda.cuMemFree_v2(at);

	did.syncs[FREE]++;
	did.sync_ns[FREE] += now_ns() - start;
	did.sync_errors[FREE] += err != 0;
	return err;
}

struct way {
	const char *name;
	enum kind kind;
	int (*get)(uint64_t *at, uint64_t *bytes); /* bytes: in, what is asked for; out, what is reserved */
	int (*put)(uint64_t at);
	int takes[2]; /* how many are taken on GPU 0 and 1 */
	int gives[2]; /* how many of these are given back */
	uint64_t bytes;
};
static const struct way ways[] = {
	{"device", DEVICE, get_device, put_device, {6, 11}, {3, 3}, 16 * MIB + 256},
	{"managed", MANAGED, get_managed, put_device, {13, 17}, {7, 2}, 8 * MIB + 512},
	{"pitch", DEVICE, get_pitch, put_device, {10, 17}, {1, 1}, 5000 * KIB},
	{"async", ASYNC, get_async, put_async, {2, 3}, {2, 1}, 4 * MIB},
	{"async_ptsz", ASYNC, get_async_ptsz, put_async_ptsz, {3, 20}, {1, 11}, 3 * MIB},
	{"pool", POOL, get_pool, put_async, {2, 2}, {1, 1}, 2 * MIB},
	{"pool_ptsz", POOL, get_pool_ptsz, put_device, {29, 35}, {13, 19}, 1 * MIB},
	{"host", HOST, get_host, put_host, {31, 41}, {5, 7}, 64 * KIB},
	{"host_plain", HOST, get_host_plain, put_host, {12, 6}, {11, 5}, 32 * KIB},
};

static void count_taken(int gpu, enum kind kind, uint64_t bytes)
{
	struct gpu *g = &did.gpu[gpu];

	g->calls[kind]++;
	g->bytes[kind] += bytes;
	if (kind == HOST)
		did.pinned += bytes;
	else
		g->used += bytes;
	g->peak = g->used > g->peak ? g->used : g->peak;
}

static void count_given(int gpu, enum kind kind, uint64_t bytes)
{
	if (kind == HOST) {
		did.pinned -= bytes;
		return;
	}
	did.gpu[gpu].used -= bytes;
	did.gpu[gpu].frees++;
}

static void take_and_give(const struct way *w, int gpu)
{
	uint64_t at[LIVE_MAX], bytes[LIVE_MAX];
	int i;

	for (i = 0; i < w->takes[gpu]; i++) {
		bytes[i] = w->bytes + (uint64_t)i * 4096;
		must(w->get(&at[i], &bytes[i]), 0, w->name);
		count_taken(gpu, w->kind, bytes[i]);
	}
	for (i = 0; i < w->gives[gpu]; i++) {
		must(w->put(at[i]), 0, w->name);
		count_given(gpu, w->kind, bytes[i]);
	}
}

static uint64_t create_physical(int gpu, uint64_t bytes)
{
	struct cuda_location_prop prop = {.type = 1, .location_type = 1, .device = gpu};
	uint64_t handle = 0;

	must(cuda.cuMemCreate(&handle, bytes, &prop, 0), 0, "cuMemCreate");
	count_taken(gpu, VMM, bytes);
	return handle;
}

/* The last of two handles and two mappings frees it; one call unmaps both mappings. */
static void vmm_shared(int gpu, uint64_t bytes)
{
	uint64_t again = 0, handle = create_physical(gpu, bytes);

	must(cuda.cuMemMap(MAP_AT, bytes, 0, handle, 0), 0, "cuMemMap");
	must(cuda.cuMemMap(MAP_AT + bytes, bytes, 0, handle, 0), 0, "cuMemMap");
	must(cuda.cuMemRetainAllocationHandle(&again, (void *)(MAP_AT + 4096)), 0, "cuMemRetainAllocationHandle");
	must(again == handle, 1, "cuMemRetainAllocationHandle's handle");
	must(cuda.cuMemRelease(handle), 0, "cuMemRelease");
	must(cuda.cuMemRelease(handle), 0, "cuMemRelease");
	must(cuda.cuMemRelease(handle), 1, "cuMemRelease once too often");
	must(cuda.cuMemUnmap(MAP_AT, bytes - 1), 1, "cuMemUnmap of a part");
	must(cuda.cuMemUnmap(MAP_AT, 2 * bytes), 0, "cuMemUnmap");
	count_given(gpu, VMM, bytes);
	must(cuda.cuMemUnmap(MAP_AT, bytes), 1, "cuMemUnmap of nothing");
}

#define PIECES 150

/* A pool that grows by pieces, whose handles are released at once, and goes by one call. */
static void vmm_pool(int gpu, uint64_t bytes)
{
	for (uint64_t i = 0; i < PIECES; i++) {
		uint64_t handle = create_physical(gpu, bytes);

		must(cuda.cuMemMap(MAP_AT + i * bytes, bytes, 0, handle, 0), 0, "cuMemMap");
		must(cuda.cuMemRelease(handle), 0, "cuMemRelease");
	}
	must(cuda.cuMemUnmap(MAP_AT, PIECES * bytes), 0, "cuMemUnmap of a pool");
	for (int i = 0; i < PIECES; i++)
		count_given(gpu, VMM, bytes);
}

/* Released before and after its unmapping, never mapped, and one that stays. */
static void vmm_plain(int gpu, uint64_t bytes)
{
	uint64_t first = create_physical(gpu, bytes), second, third;

	must(cuda.cuMemMap(MAP_AT, bytes, 0, first, 0), 0, "cuMemMap");
	must(cuda.cuMemUnmap(MAP_AT, bytes), 0, "cuMemUnmap");
	must(cuda.cuMemRelease(first), 0, "cuMemRelease");
	count_given(gpu, VMM, bytes);
	second = create_physical(gpu, 3 * bytes);
	must(cuda.cuMemRelease(second), 0, "cuMemRelease");
	count_given(gpu, VMM, 3 * bytes);
	third = create_physical(gpu, 5 * bytes);
	must(cuda.cuMemMap((uint64_t)(5 + gpu) * MAP_AT, 5 * bytes, 0, third, 0), 0, "cuMemMap");
	must(cuda.cuMemRelease(third), 0, "cuMemRelease");
}

/* A free that fails leaves the memory where it is. */
static void failing_free(int gpu)
{
	uint64_t at;

	must(cuda.cuMemAlloc_v2(&at, MIB), 0, "cuMemAlloc_v2");
	count_taken(gpu, DEVICE, MIB);
	cuda.set("fail_next", 719);
	must(put_device(at), 719, "cuMemFree_v2 made to fail");
	must(put_device(0x1234567000), 1, "cuMemFree_v2 of an unknown address");
	did.free_refused += 2;
}

static void refused_memory(int gpu)
{
	uint64_t at = 0;
	int i;

	for (i = 0; i < 3 + 2 * gpu; i++, did.gpu[gpu].oom++)
		must(cuda.cuMemAlloc_v2(&at, 1ULL << 60), 2, "cuMemAlloc_v2 of too much");
	for (i = 0; i < 2; i++, did.gpu[gpu].other++) {
		cuda.set("fail_next", 719);
		must(cuda.cuMemAllocAsync(&at, MIB, NULL), 719, "cuMemAllocAsync made to fail");
	}
}

static void *memory_on_gpu(void *arg)
{
	int gpu = *(int *)arg;
	size_t i;

	use_gpu(gpu);
	for (i = 0; i < COUNT(ways); i++)
		take_and_give(&ways[i], gpu);
	vmm_shared(gpu, (uint64_t)(gpu + 1) * 20 * MIB);
	vmm_plain(gpu, (uint64_t)(gpu + 1) * 2 * MIB);
	vmm_pool(gpu, 2 * MIB);
	failing_free(gpu);
	refused_memory(gpu);
	return NULL;
}

/* Physical memory of the host: released last, unmapped last, and one that stays. It is no GPU's. */
static void host_physical(void)
{
	struct cuda_location_prop prop = {.type = 1, .location_type = 2};
	uint64_t handle[3], bytes = 3 * MIB;
	int i;

	for (i = 0; i < 3; i++) {
		must(cuda.cuMemCreate(&handle[i], bytes, &prop, 0), 0, "cuMemCreate on the host");
		count_taken(NO_GPU, HOST, bytes);
	}
	must(cuda.cuMemRelease(handle[0]), 0, "cuMemRelease");
	count_given(NO_GPU, HOST, bytes);
	must(cuda.cuMemMap(9 * MAP_AT, bytes, 0, handle[1], 0), 0, "cuMemMap");
	must(cuda.cuMemRelease(handle[1]), 0, "cuMemRelease");
	must(cuda.cuMemUnmap(9 * MAP_AT, bytes), 0, "cuMemUnmap");
	count_given(NO_GPU, HOST, bytes);
}

/* Physical memory needs no context: its device is an argument. */
static void *memory_without_context(void *arg)
{
	uint64_t at = 0;
	int i;

	for (i = 0; i < 5; i++, did.gpu[NO_GPU].other++)
		must(cuda.cuMemAlloc_v2(&at, MIB), NO_CONTEXT, "cuMemAlloc_v2 without a context");
	create_physical(2, 2 * MIB);
	host_physical();
	return arg;
}

static void leave_in_context(int gpu, int count, uint64_t bytes)
{
	uint64_t at;
	int i;

	for (i = 0; i < count; i++) {
		must(cuda.cuMemAlloc_v2(&at, bytes), 0, "cuMemAlloc_v2");
		count_taken(gpu, DEVICE, bytes);
	}
}

/* What goes with its context or its reset is no free call. */
static void *memory_of_contexts(void *arg)
{
	void *oldest, *first, *second, *third, *top;
	uint64_t before, at, pinned = did.pinned;

	must(cuda.cuCtxCreate(&oldest, 0, 2), 0, "cuCtxCreate");
	leave_in_context(2, 4, 13 * MIB);
	must(cuda.cuCtxPopCurrent(&top), 0, "cuCtxPopCurrent");
	must(cuda.cuCtxCreate_v2(&first, 0, 2), 0, "cuCtxCreate_v2");
	leave_in_context(2, 2, 7 * MIB);
	before = did.gpu[3].used;
	must(cuda.cuCtxCreate_v3(&second, NULL, 0, 0, 3), 0, "cuCtxCreate_v3");
	leave_in_context(3, 3, 5 * MIB);
	must(cuda.cuCtxCreate_v4(&third, NULL, 0, 3), 0, "cuCtxCreate_v4");
	leave_in_context(3, 5, 3 * MIB);
	must(get_host(&at, &(uint64_t){64 * KIB}), 0, "cuMemHostAlloc");
	count_taken(3, HOST, 64 * KIB);
	must(cuda.cuCtxPopCurrent_v2(&top), 0, "cuCtxPopCurrent_v2");
	must(top == third, 1, "cuCtxPopCurrent_v2's context");
	leave_in_context(3, 2, MIB); /* in the second, which is current again */
	must(cuda.cuCtxPushCurrent_v2(first), 0, "cuCtxPushCurrent_v2");
	leave_in_context(2, 3, 11 * MIB);
	must(cuda.cuCtxPushCurrent(second), 0, "cuCtxPushCurrent");
	leave_in_context(3, 2, 17 * MIB);
	must(cuda.cuCtxPopCurrent_v2(&top), 0, "cuCtxPopCurrent_v2");
	leave_in_context(2, 1, 4 * MIB); /* in the first again */
	must(cuda.cuCtxDestroy(oldest), 0, "cuCtxDestroy");
	did.gpu[2].used -= 4 * 13 * MIB;
	must(cuda.cuCtxDestroy_v2(second), 0, "cuCtxDestroy_v2");
	must(cuda.cuCtxDestroy_v2(third), 0, "cuCtxDestroy_v2");
	did.gpu[3].used = before;
	did.pinned = pinned;
	return arg;
}

static void *memory_reset(void *arg)
{
	uint64_t before = did.gpu[3].used;

	use_gpu(3);
	leave_in_context(3, 11, 2 * MIB);
	must(cuda.cuDevicePrimaryCtxReset(3), 0, "cuDevicePrimaryCtxReset");
	did.gpu[3].used = before;
	leave_in_context(3, 5, 2 * MIB);
	must(cuda.cuDevicePrimaryCtxReset_v2(3), 0, "cuDevicePrimaryCtxReset_v2");
	did.gpu[3].used = before;
	leave_in_context(3, 2, 9 * MIB); /* it is still the current one */
	return arg;
}

/* Memory of another process is no bytes of ours, and its release is no loss. */
static void *memory_imported(void *arg)
{
	uint64_t handle;

	must(cuda.cuMemImportFromShareableHandle(&handle, NULL, 1), 0, "cuMemImportFromShareableHandle");
	must(cuda.cuMemRelease(handle), 0, "cuMemRelease");
	return arg;
}

static void in_thread(void *(*run)(void *), int arg)
{
	pthread_t thread;

	must(pthread_create(&thread, NULL, run, &arg), 0, "pthread_create");
	must(pthread_join(thread, NULL), 0, "pthread_join");
}

void run_memory(void)
{
	in_thread(memory_on_gpu, 0);
	in_thread(memory_on_gpu, 1);
	in_thread(memory_without_context, 0);
	in_thread(memory_of_contexts, 0);
	in_thread(memory_reset, 0);
	in_thread(memory_imported, 0);
}

/* Taken before the gate, when nobody watches, and given back after it. */
static uint64_t early[5];

static void *take_early(void *arg)
{
	size_t i;

	use_gpu(0);
	for (i = 0; i < COUNT(early); i++)
		must(cuda.cuMemAlloc_v2(&early[i], MIB), 0, "cuMemAlloc_v2");
	return arg;
}

void before_early(void)
{
	in_thread(take_early, 0);
}

void run_early(void)
{
	size_t i;

	for (i = 0; i < COUNT(early); i++, did.unmatched++)
		must(put_device(early[i]), 0, "cuMemFree_v2");
}
