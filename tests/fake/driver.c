/* SPDX-License-Identifier: GPL-2.0 */
/*
 * driver.c: a program that calls the fake libcuda and libnccl in a known way and prints, as one JSON object
 * on stdout, what it did, so that a test can hold it against what the daemon says. It links neither library:
 * dlopen comes late. Each result is checked against what the fakes promise; another one ends the program with
 * status 1. Needs 4 devices.
 */
#include <dlfcn.h>
#include <getopt.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "api.h"

#define COUNT(a)    (sizeof(a) / sizeof((a)[0]))
#define KIB         1024ULL
#define MIB         (1024 * KIB)
#define GPUS        4
#define NO_GPU      GPUS /* calls of threads without a context */
#define LIVE_MAX    256
#define COMMS_MAX   16
#define SAMPLES_MAX 128
#define THREADS_MAX 64
#define NO_CONTEXT  201
#define TCP_BYTES   1009 /* of one send */

#define POINTER(name, args) int(*name) args;
static struct {
	CUDA_CALLS(POINTER)
	int (*set)(const char *what, long value);
} cuda;
static struct {
	NCCL_CALLS(POINTER)
	int (*set)(const char *what, long value);
} nccl;

#define CUDA_SYMBOL(name, args) {#name, (void **)&cuda.name},
#define NCCL_SYMBOL(name, args) {"nccl" #name, (void **)&nccl.name},
struct symbol {
	const char *name;
	void **to;
};
static const struct symbol cuda_symbols[] = {CUDA_CALLS(CUDA_SYMBOL){"fake_cuda_set", (void **)&cuda.set}};
static const struct symbol nccl_symbols[] = {NCCL_CALLS(NCCL_SYMBOL){"fake_nccl_set", (void **)&nccl.set}};

static struct {
	const char *cuda_path, *nccl_path;
	char *scenarios;
	long delay_ms, ready_ms, hold_ms;
	int threads, calls, rank;
	int hold_stdin, gate;
} opt = {.scenarios = (char[]){"idle"}, .threads = 4, .calls = 10007, .rank = 1};

/* What was done. Indices go with the tables of names. */
enum kind { DEVICE, MANAGED, ASYNC, POOL, VMM, HOST, KINDS };
enum launch_kind { KERNEL, GRAPH, COOPERATIVE, CAPTURED, LAUNCHES };
enum direction { HTOD, DTOH, DTOD, OTHER, DIRECTIONS };
enum sync { STREAM, EVENT, CTX, SYNC_DTOH, SYNC_HTOD, FREE, SYNCS };
enum op { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, REDUCE, ALL_TO_ALL, GATHER, SCATTER, SEND, RECV, OPS };
static const char *const kind_name[] = {"device", "managed", "async", "pool", "vmm", "host"};
static const char *const launch_name[] = {"kernel", "graph", "cooperative", "captured"};
static const char *const direction_name[] = {"htod", "dtoh", "dtod", "other"};
static const char *const sync_name[] = {
	"stream_synchronize", "event_synchronize", "ctx_synchronize", "memcpy_dtoh", "memcpy_htod", "mem_free"};
static const char *const op_name[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all",
	"gather", "scatter", "send", "recv"};
static const char *const gpu_name[] = {"0", "1", "2", "3", "unknown"};

struct gpu {
	uint64_t used, peak;
	uint64_t calls[KINDS], bytes[KINDS];
	uint64_t frees, oom, other;
};

struct nccl_op {
	uint64_t calls, bytes, errors;
};

struct comm {
	void *comm;
	int rank, nranks;
};

static struct {
	struct gpu gpu[GPUS + 1];
	uint64_t pinned, unmatched, free_refused;
	uint64_t launches[LAUNCHES], launch_errors;
	uint64_t copies[DIRECTIONS], copy_bytes[DIRECTIONS];
	uint64_t syncs[SYNCS], sync_ns[SYNCS], sync_errors[SYNCS];
	struct nccl_op op[OPS];
	uint64_t groups, comm_inits, comm_splits, comm_aborts;
	struct comm comms[COMMS_MAX];
	int comm_count;
	uint64_t sample_ns[SAMPLES_MAX], sample_count;
	uint64_t storm_ns;
	uint64_t tcp_sends, tcp_sent, tcp_received;
	bool devices;
} did;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "driver: %s: %s\n", what, why);
	exit(1);
}

static void must(int got, int want, const char *what)
{
	char why[64];

	if (got == want)
		return;
	snprintf(why, sizeof(why), "returned %d, not %d", got, want);
	die(what, why);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void sleep_ms(long ms)
{
	struct timespec t = {ms / 1000, ms % 1000 * 1000000};

	if (ms > 0)
		nanosleep(&t, NULL);
}

/* A way to make one call. */
#define VIA(name, args, call)                                                                                          \
	static int name args                                                                                           \
	{                                                                                                              \
		return call;                                                                                           \
	}

static void *use_gpu(int gpu)
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

#define MAP_AT 0x600000000000ULL

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
	failing_free(gpu);
	refused_memory(gpu);
	return NULL;
}

/* Physical memory needs no context: its device is an argument. */
static void *memory_without_context(void *arg)
{
	uint64_t at = 0;
	int i;

	for (i = 0; i < 5; i++, did.gpu[NO_GPU].other++)
		must(cuda.cuMemAlloc_v2(&at, MIB), NO_CONTEXT, "cuMemAlloc_v2 without a context");
	create_physical(2, 2 * MIB);
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
	void *first, *second, *third, *top;
	uint64_t before, at, pinned = did.pinned;

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

/* One thread after the other, so that the peaks are known. */
static void run_memory(void)
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

static void before_early(void)
{
	in_thread(take_early, 0);
}

static void run_early(void)
{
	size_t i;

	for (i = 0; i < COUNT(early); i++, did.unmatched++)
		must(put_device(early[i]), 0, "cuMemFree_v2");
}

/* Launches: each way with a stream. */
/* clang-format off */
VIA(kernel, (void *stream), cuda.cuLaunchKernel(&did, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL))
VIA(kernel_ptsz, (void *stream), cuda.cuLaunchKernel_ptsz(&did, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL))
VIA(cooperative, (void *stream), cuda.cuLaunchCooperativeKernel(&did, 1, 1, 1, 32, 1, 1, 0, stream, NULL))
VIA(cooperative_ptsz, (void *stream), cuda.cuLaunchCooperativeKernel_ptsz(&did, 1, 1, 1, 32, 1, 1, 0, stream, NULL))
VIA(graph, (void *stream), cuda.cuGraphLaunch(&did, stream))
VIA(graph_ptsz, (void *stream), cuda.cuGraphLaunch_ptsz(&did, stream))
/* clang-format on */

static int kernel_ex(void *stream)
{
	struct cuda_launch_config config = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = stream};

	return cuda.cuLaunchKernelEx(&config, &did, NULL, NULL);
}

static int kernel_ex_ptsz(void *stream)
{
	struct cuda_launch_config config = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = stream};

	return cuda.cuLaunchKernelEx_ptsz(&config, &did, NULL, NULL);
}

static const struct launch {
	const char *name;
	enum launch_kind kind;
	int (*call)(void *stream);
	int good, bad, captured;
} launches[] = {
	{"cuLaunchKernel", KERNEL, kernel, 41, 1, 3},
	{"cuLaunchKernel_ptsz", KERNEL, kernel_ptsz, 29, 0, 2},
	{"cuLaunchKernelEx", KERNEL, kernel_ex, 23, 1, 3},
	{"cuLaunchKernelEx_ptsz", KERNEL, kernel_ex_ptsz, 17, 0, 1},
	{"cuLaunchCooperativeKernel", COOPERATIVE, cooperative, 11, 0, 1},
	{"cuLaunchCooperativeKernel_ptsz", COOPERATIVE, cooperative_ptsz, 1, 0, 1},
	{"cuGraphLaunch", GRAPH, graph, 13, 3, 0},
	{"cuGraphLaunch_ptsz", GRAPH, graph_ptsz, 3, 0, 0},
};

static void launch_all(const struct launch *l, void *plain, void *capturing)
{
	int i;

	for (i = 0; i < l->good; i++, did.launches[l->kind]++)
		must(l->call(i % 2 ? plain : NULL), 0, l->name);
	for (i = 0; i < l->captured; i++, did.launches[CAPTURED]++)
		must(l->call(capturing), 0, l->name);
	for (i = 0; i < l->bad; i++, did.launches[l->kind]++, did.launch_errors++) {
		cuda.set("fail_next", 700);
		must(l->call(plain), 700, l->name);
	}
}

static void run_launches(void)
{
	void *streams[] = {(void *)0x5000, (void *)0x6000, (void *)0x7000}, *made;
	const struct launch *l;
	size_t half = COUNT(launches) / 2;

	use_gpu(0);
	must(cuda.cuStreamBeginCapture_v2(streams[1], 0), 0, "cuStreamBeginCapture_v2");
	must(cuda.cuStreamBeginCaptureToGraph(streams[2], &made, NULL, NULL, 0, 0), 0, "cuStreamBeginCaptureToGraph");
	must(cuda.cuStreamBeginCapture_v2(NULL, 0), 900, "cuStreamBeginCapture_v2 of the default stream");
	for (l = launches; l < launches + COUNT(launches); l++)
		launch_all(l, streams[0], l < launches + half ? streams[1] : streams[2]);
	must(cuda.cuStreamEndCapture(streams[1], &made), 0, "cuStreamEndCapture");
	must(cuda.cuStreamEndCapture_ptsz(streams[2], &made), 0, "cuStreamEndCapture_ptsz");
	must(kernel(streams[1]), 0, "cuLaunchKernel after a capture");
	must(cooperative(streams[2]), 0, "cuLaunchCooperativeKernel after a capture");
	did.launches[KERNEL]++;
	did.launches[COOPERATIVE]++;
}

/* Waits: each way, and the copies that wait. */
static char buffer[64 * KIB];

/* clang-format off */
VIA(sync_stream, (size_t bytes), bytes % 2 ? cuda.cuStreamSynchronize_ptsz(NULL) : cuda.cuStreamSynchronize(NULL))
VIA(sync_event, (size_t bytes), cuda.cuEventSynchronize(&buffer[bytes]))
VIA(sync_ctx, (size_t bytes), bytes % 2 ? cuda.cuCtxSynchronize_v2(buffer) : cuda.cuCtxSynchronize())
VIA(sync_dtoh, (size_t bytes), bytes % 2 ? cuda.cuMemcpyDtoH_v2_ptds(buffer, MAP_AT, bytes) : cuda.cuMemcpyDtoH_v2(buffer, MAP_AT, bytes))
VIA(sync_htod, (size_t bytes), bytes % 2 ? cuda.cuMemcpyHtoD_v2_ptds(MAP_AT, buffer, bytes) : cuda.cuMemcpyHtoD_v2(MAP_AT, buffer, bytes))
/* clang-format on */

static int (*const sync_call[])(size_t bytes) = {sync_stream, sync_event, sync_ctx, sync_dtoh, sync_htod};

/* Odd numbers of bytes go to the variants with per-thread default streams (or _v2). */
static void wait_once(enum sync sync, size_t bytes, int want)
{
	uint64_t start = now_ns();

	must(sync_call[sync](bytes), want, sync_name[sync]);
	did.sync_ns[sync] += now_ns() - start;
	did.syncs[sync]++;
	did.sync_errors[sync] += want != 0;
	if (sync == SYNC_DTOH || sync == SYNC_HTOD) {
		did.copies[sync == SYNC_DTOH ? DTOH : HTOD]++;
		did.copy_bytes[sync == SYNC_DTOH ? DTOH : HTOD] += bytes;
	}
}

static void run_syncs(void)
{
	static const size_t counts[] = {5, 11, 13, 17, 19};
	size_t sync, i;

	use_gpu(1);
	for (sync = 0; sync < COUNT(counts); sync++) {
		cuda.set("sync_sleep_us", 200 * (1 + (long)sync));
		for (i = 0; i < counts[sync]; i++)
			wait_once((enum sync)sync, 1000 + i, 0);
	}
	cuda.set("sync_sleep_us", 0);
	for (i = 0; i < 2; i++) {
		cuda.set("fail_next", 700);
		wait_once(STREAM, i, 700);
	}
}

/* Copies: those that do not wait, and the rare ones that do. */
/* clang-format off */
VIA(copy_htod, (size_t bytes), cuda.cuMemcpyHtoDAsync_v2(MAP_AT, buffer, bytes, NULL))
VIA(copy_htod_ptsz, (size_t bytes), cuda.cuMemcpyHtoDAsync_v2_ptsz(MAP_AT, buffer, bytes, NULL))
VIA(copy_dtoh, (size_t bytes), cuda.cuMemcpyDtoHAsync_v2(buffer, MAP_AT, bytes, NULL))
VIA(copy_dtoh_ptsz, (size_t bytes), cuda.cuMemcpyDtoHAsync_v2_ptsz(buffer, MAP_AT, bytes, NULL))
VIA(copy_dtod, (size_t bytes), cuda.cuMemcpyDtoDAsync_v2(MAP_AT, 2 * MAP_AT, bytes, NULL))
VIA(copy_dtod_ptsz, (size_t bytes), cuda.cuMemcpyDtoDAsync_v2_ptsz(MAP_AT, 2 * MAP_AT, bytes, NULL))
VIA(copy_peer, (size_t bytes), cuda.cuMemcpyPeerAsync(MAP_AT, buffer, 2 * MAP_AT, buffer, bytes, NULL))
VIA(copy_peer_ptsz, (size_t bytes), cuda.cuMemcpyPeerAsync_ptsz(MAP_AT, buffer, 2 * MAP_AT, buffer, bytes, NULL))
VIA(copy_any, (size_t bytes), cuda.cuMemcpyAsync(MAP_AT, 2 * MAP_AT, bytes, NULL))
VIA(copy_any_ptsz, (size_t bytes), cuda.cuMemcpyAsync_ptsz(MAP_AT, 2 * MAP_AT, bytes, NULL))
VIA(copy_dtod_wait, (size_t bytes), cuda.cuMemcpyDtoD_v2(MAP_AT, 2 * MAP_AT, bytes))
VIA(copy_dtod_wait_ptds, (size_t bytes), cuda.cuMemcpyDtoD_v2_ptds(MAP_AT, 2 * MAP_AT, bytes))
VIA(copy_any_wait, (size_t bytes), cuda.cuMemcpy(MAP_AT, 2 * MAP_AT, bytes))
VIA(copy_any_wait_ptds, (size_t bytes), cuda.cuMemcpy_ptds(MAP_AT, 2 * MAP_AT, bytes))
/* clang-format on */

static const struct copy {
	const char *name;
	enum direction direction;
	int (*call)(size_t bytes);
	size_t count, bytes;
} copies[] = {
	{"cuMemcpyHtoDAsync_v2", HTOD, copy_htod, 31, 4099},
	{"cuMemcpyHtoDAsync_v2_ptsz", HTOD, copy_htod_ptsz, 37, 65537},
	{"cuMemcpyDtoHAsync_v2", DTOH, copy_dtoh, 41, 1031},
	{"cuMemcpyDtoHAsync_v2_ptsz", DTOH, copy_dtoh_ptsz, 43, 2053},
	{"cuMemcpyDtoDAsync_v2", DTOD, copy_dtod, 47, 5 * MIB},
	{"cuMemcpyDtoDAsync_v2_ptsz", DTOD, copy_dtod_ptsz, 53, 6 * MIB},
	{"cuMemcpyPeerAsync", DTOD, copy_peer, 59, 7 * MIB},
	{"cuMemcpyPeerAsync_ptsz", DTOD, copy_peer_ptsz, 61, 8 * MIB},
	{"cuMemcpyDtoD_v2", DTOD, copy_dtod_wait, 2, 9 * MIB},
	{"cuMemcpyDtoD_v2_ptds", DTOD, copy_dtod_wait_ptds, 1, 10 * MIB},
	{"cuMemcpy", OTHER, copy_any_wait, 7, 11 * KIB},
	{"cuMemcpy_ptds", OTHER, copy_any_wait_ptds, 4, 13 * KIB},
	{"cuMemcpyAsync", OTHER, copy_any, 67, 3 * KIB},
	{"cuMemcpyAsync_ptsz", OTHER, copy_any_ptsz, 71, 5ULL << 30},
};

static void run_copies(void)
{
	const struct copy *c;
	size_t i;

	use_gpu(0);
	for (c = copies; c < copies + COUNT(copies); c++) {
		for (i = 0; i < c->count; i++)
			must(c->call(c->bytes), 0, c->name);
		did.copies[c->direction] += c->count;
		did.copy_bytes[c->direction] += c->count * c->bytes;
	}
	for (i = 0; i < 3; i++)
		wait_once(SYNC_HTOD, 10007, 0);
	for (i = 0; i < 5; i++)
		wait_once(SYNC_DTOH, 20011, 0);
}

/* NCCL: what is common to all operations. `variant` tells apart calls that count as the same one. */
static int do_op(enum op op, size_t count, int type, void *comm, int variant)
{
	switch (op) {
	case ALL_REDUCE: return nccl.AllReduce(buffer, buffer, count, type, 0, comm, NULL);
	case BROADCAST:
		return variant % 2 ? nccl.Bcast(buffer, count, type, 0, comm, NULL)
				   : nccl.Broadcast(buffer, buffer, count, type, 0, comm, NULL);
	case ALL_GATHER: return nccl.AllGather(buffer, buffer, count, type, comm, NULL);
	case REDUCE_SCATTER: return nccl.ReduceScatter(buffer, buffer, count, type, 0, comm, NULL);
	case REDUCE: return nccl.Reduce(buffer, buffer, count, type, 0, 0, comm, NULL);
	case ALL_TO_ALL: return (variant % 2 ? nccl.AllToAll : nccl.AlltoAll)(buffer, buffer, count, type, comm, NULL);
	case GATHER: return nccl.Gather(buffer, buffer, count, type, 0, comm, NULL);
	case SCATTER: return nccl.Scatter(buffer, buffer, count, type, 0, comm, NULL);
	case SEND: return nccl.Send(buffer, count, type, 0, comm, NULL);
	default: return nccl.Recv(buffer, count, type, 0, comm, NULL);
	}
}

static const int type_bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/* A failing call has 0 elements, so that the bytes do not depend on whether failures count. */
static void one_op(enum op op, const struct comm *c, int i, int want)
{
	size_t count = want && want != 7 ? 0 : 1009 + (size_t)i;
	int type = i % (int)COUNT(type_bytes);
	struct nccl_op *to = &did.op[op];

	if (want)
		nccl.set("fail_next", want);
	must(do_op(op, count, type, c->comm, want ? 0 : i), want, op_name[op]);
	to->calls++;
	to->errors += want && want != 7;
	to->bytes += count * (size_t)type_bytes[type] * (op == ALL_TO_ALL ? (size_t)c->nranks : 1);
}

static struct comm *made(void *comm, int rank, int nranks)
{
	struct comm *c = &did.comms[did.comm_count++];

	must(did.comm_count <= COMMS_MAX, 1, "having room for communicators");
	*c = (struct comm){comm, rank, nranks};
	return c;
}

static void forget(struct comm *c)
{
	*c = did.comms[--did.comm_count];
}

static struct comm *join_world(void)
{
	struct nccl_id id;
	void *comm = NULL;

	must(nccl.GetUniqueId(&id), 0, "ncclGetUniqueId");
	must(nccl.CommInitRank(&comm, 4, id, opt.rank), 0, "ncclCommInitRank");
	did.comm_inits++;
	return made(comm, opt.rank, 4);
}

static void join_others(void)
{
	static const int devices[] = {0, 1, 2};
	void *comm = NULL, *all[3];
	struct nccl_id id;
	int i;

	must(nccl.GetUniqueId(&id), 0, "ncclGetUniqueId");
	must(nccl.CommInitRankConfig(&comm, 8, id, 5, NULL), 0, "ncclCommInitRankConfig");
	made(comm, 5, 8);
	must(nccl.CommInitRankScalable(&comm, 16, 11, 1, &id, NULL), 0, "ncclCommInitRankScalable");
	made(comm, 11, 16);
	must(nccl.CommInitAll(all, 3, devices), 0, "ncclCommInitAll");
	for (i = 0; i < 3; i++)
		made(all[i], i, 3);
	must(nccl.CommInitRank(&comm, 2, id, 2), 4, "ncclCommInitRank of a wrong rank");
	did.comm_inits += 4;
}

static void split(const struct comm *parent)
{
	int rank = -1, count = -1, device = -1;
	void *comm = NULL;

	nccl.set("split_nranks", 2);
	must(nccl.CommSplit(parent->comm, 1, 0, &comm, NULL), 0, "ncclCommSplit");
	must(nccl.CommUserRank(comm, &rank), 0, "ncclCommUserRank");
	must(nccl.CommCount(comm, &count), 0, "ncclCommCount");
	must(nccl.CommCuDevice(comm, &device), 0, "ncclCommCuDevice");
	made(comm, rank, count);
	must(nccl.CommSplit(parent->comm, -1, 0, &comm, NULL), 0, "ncclCommSplit without a color");
	must(comm == NULL, 1, "ncclCommSplit's communicator");
	did.comm_splits += 2;
}

static void nested_groups(const struct comm *c)
{
	int i, k;

	for (i = 0; i < 5; i++, did.groups++) {
		must(nccl.GroupStart(), 0, "ncclGroupStart");
		for (k = 0; k < 3; k++)
			one_op(SEND, c, k, 0);
		must(nccl.GroupStart(), 0, "ncclGroupStart");
		for (k = 0; k < 3; k++)
			one_op(RECV, c, k, 0);
		must(nccl.GroupEnd(), 0, "ncclGroupEnd");
		must(nccl.GroupEnd(), 0, "ncclGroupEnd");
	}
}

static void run_nccl(void)
{
	static const int counts[OPS] = {98, 60, 54, 47, 43, 37, 31, 29, 2, 8};
	struct comm *world;
	int op, i;

	if (!nccl.set)
		die("nccl", "needs --nccl");
	use_gpu(0);
	world = join_world();
	for (op = 0; op < OPS; op++)
		for (i = 0; i < counts[op]; i++)
			one_op((enum op)op, world, i, 0);
	for (i = 0; i < 3; i++)
		one_op(ALL_REDUCE, world, i, 5);
	one_op(BROADCAST, world, 0, 1);
	for (i = 0; i < 5; i++)
		one_op(ALL_GATHER, world, i, 7);
	nested_groups(world);
	join_others();
	split(world);
	must(nccl.CommFinalize(did.comms[1].comm), 0, "ncclCommFinalize");
	must(nccl.CommDestroy(did.comms[1].comm), 0, "ncclCommDestroy");
	forget(&did.comms[1]);
	must(nccl.CommAbort(did.comms[2].comm), 0, "ncclCommAbort");
	did.comm_aborts++;
	forget(&did.comms[2]);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void run_latency(void)
{
	static const struct {
		int count;
		long sleep_us;
	} steps[] = {{41, 10}, {29, 100}, {19, 1000}, {7, 10000}, {3, 100000}, {2, 1000000}};
	uint64_t start;
	size_t s;
	int i;

	use_gpu(0);
	for (s = 0; s < COUNT(steps); s++) {
		cuda.set("launch_sleep_us", steps[s].sleep_us);
		for (i = 0; i < steps[s].count && did.sample_count < SAMPLES_MAX; i++, did.launches[KERNEL]++) {
			start = now_ns();
			must(kernel(NULL), 0, "cuLaunchKernel");
			did.sample_ns[did.sample_count++] = now_ns() - start;
		}
	}
	cuda.set("launch_sleep_us", 0);
	qsort(did.sample_ns, did.sample_count, sizeof(did.sample_ns[0]), by_size);
}

static void *storm(void *arg)
{
	int i;

	use_gpu(0);
	for (i = 0; i < opt.calls; i++)
		must(kernel(NULL), 0, "cuLaunchKernel");
	return arg;
}

static void run_storm(void)
{
	uint64_t start = now_ns();
	pthread_t thread[THREADS_MAX];
	int i;

	for (i = 0; i < opt.threads; i++)
		must(pthread_create(&thread[i], NULL, storm, NULL), 0, "pthread_create");
	for (i = 0; i < opt.threads; i++)
		must(pthread_join(thread[i], NULL), 0, "pthread_join");
	did.storm_ns += now_ns() - start;
	did.launches[KERNEL] += (uint64_t)opt.threads * (uint64_t)opt.calls;
}

/* Two ends of a connection over the loopback interface. */
static void tcp_open(int ends[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	must(bind(listener, (void *)&at, len), 0, "bind");
	must(listen(listener, 1), 0, "listen");
	must(getsockname(listener, (void *)&at, &len), 0, "getsockname");
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	must(connect(ends[0], (void *)&at, len), 0, "connect");
	ends[1] = accept(listener, NULL, NULL);
	must(ends[1] < 0, false, "accept");
	close(listener);
}

/* Each send is received before the next one. */
static void run_tcp(void)
{
	char bytes[TCP_BYTES] = {0};
	int ends[2], i;

	tcp_open(ends);
	for (i = 0; i < opt.calls; i++) {
		must((int)send(ends[0], bytes, sizeof(bytes), 0), sizeof(bytes), "send");
		must((int)recv(ends[1], bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes), "recv");
	}
	did.tcp_sends += (uint64_t)opt.calls;
	did.tcp_sent += (uint64_t)opt.calls * sizeof(bytes);
	did.tcp_received += (uint64_t)opt.calls * sizeof(bytes);
	close(ends[0]);
	close(ends[1]);
}

static void run_devices(void)
{
	size_t bytes, spare;
	struct cuda_uuid uuid;
	char pci[16];
	int gpu;

	for (gpu = 0; gpu < GPUS; gpu++) {
		must((gpu % 2 ? cuda.cuDeviceGetUuid_v2 : cuda.cuDeviceGetUuid)(&uuid, gpu), 0, "cuDeviceGetUuid");
		must(cuda.cuDeviceGetPCIBusId(pci, sizeof(pci), gpu), 0, "cuDeviceGetPCIBusId");
		must(cuda.cuDeviceTotalMem_v2(&bytes, gpu), 0, "cuDeviceTotalMem_v2");
		use_gpu(gpu);
		must(cuda.cuMemGetInfo_v2(&spare, &bytes), 0, "cuMemGetInfo_v2");
	}
	did.devices = true;
}

static void read_line(void)
{
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n')
		;
}

static void run_idle(void)
{
}

/* `before`, where there is one, runs in front of the gate. */
static const struct scenario {
	const char *name;
	void (*before)(void);
	void (*run)(void);
} scenarios[] = {
	{"memory", NULL, run_memory},
	{"early", before_early, run_early},
	{"launches", NULL, run_launches},
	{"syncs", NULL, run_syncs},
	{"copies", NULL, run_copies},
	{"nccl", NULL, run_nccl},
	{"latency", NULL, run_latency},
	{"storm", NULL, run_storm},
	{"tcp", NULL, run_tcp},
	{"devices", NULL, run_devices},
	{"gate", NULL, read_line}, /* another one, between two others; each byte up to the line's end is a call */
	{"idle", NULL, run_idle},
};

static const struct scenario *scenario_named(const char *name)
{
	const struct scenario *s;

	for (s = scenarios; s < scenarios + COUNT(scenarios); s++)
		if (!strcmp(s->name, name))
			return s;
	die(name, "no such scenario");
	return NULL;
}

static void each_scenario(bool before)
{
	char *names = strdup(opt.scenarios), *rest = names, *name;
	const struct scenario *s;

	while ((name = strsep(&rest, ","))) {
		s = scenario_named(name);
		if (!before)
			s->run();
		else if (s->before)
			s->before();
	}
	free(names);
}

/* The report. */
static void print_list(const char *key, const char *const *names, const uint64_t *values, size_t count)
{
	size_t i;

	printf(",\n\"%s\":{", key);
	for (i = 0; i < count; i++)
		printf("%s\"%s\":%llu", i ? "," : "", names[i], (unsigned long long)values[i]);
	printf("}");
}

static void print_number(const char *key, uint64_t value)
{
	printf(",\n\"%s\":%llu", key, (unsigned long long)value);
}

/* One number of each GPU; the calls without a context come last, as "unknown". */
static void print_gpus(const char *key, size_t field)
{
	uint64_t values[GPUS + 1];
	int i;

	for (i = 0; i <= GPUS; i++)
		memcpy(&values[i], (const char *)&did.gpu[i] + field, sizeof(values[i]));
	print_list(key, gpu_name, values, GPUS + 1);
}

static void print_kinds(const char *key, size_t field)
{
	const uint64_t *values;
	int i, k;

	printf(",\n\"%s\":{", key);
	for (i = 0; i < GPUS; i++) {
		values = (const uint64_t *)(const void *)((const char *)&did.gpu[i] + field);
		printf("%s\"%d\":{", i ? "," : "", i);
		for (k = 0; k < KINDS; k++)
			printf("%s\"%s\":%llu", k ? "," : "", kind_name[k], (unsigned long long)values[k]);
		printf("}");
	}
	printf("}");
}

static void print_memory(void)
{
	uint64_t oom = 0, other = 0;
	int i;

	for (i = 0; i <= GPUS; i++) {
		oom += did.gpu[i].oom;
		other += did.gpu[i].other;
	}
	print_gpus("used", offsetof(struct gpu, used));
	print_gpus("peak", offsetof(struct gpu, peak));
	print_number("pinned", did.pinned);
	print_kinds("alloc_calls", offsetof(struct gpu, calls));
	print_kinds("alloc_bytes", offsetof(struct gpu, bytes));
	print_gpus("free_calls", offsetof(struct gpu, frees));
	print_list("failures", (const char *const[]){"oom", "other"}, (uint64_t[]){oom, other}, 2);
	print_gpus("failures_oom", offsetof(struct gpu, oom));
	print_gpus("failures_other", offsetof(struct gpu, other));
	print_number("unmatched", did.unmatched);
	print_number("free_refused", did.free_refused);
}

static void print_calls(void)
{
	int i;

	print_list("launches", launch_name, did.launches, LAUNCHES);
	print_number("launch_errors", did.launch_errors);
	printf(",\n\"copies\":{");
	for (i = 0; i < DIRECTIONS; i++)
		printf("%s\"%s\":[%llu,%llu]", i ? "," : "", direction_name[i], (unsigned long long)did.copies[i],
			(unsigned long long)did.copy_bytes[i]);
	printf("}");
	print_list("syncs", sync_name, did.syncs, SYNCS);
	print_list("sync_ns", sync_name, did.sync_ns, SYNCS);
	print_list("sync_errors", sync_name, did.sync_errors, SYNCS);
}

static void print_nccl(void)
{
	const struct nccl_op *o = did.op;
	int i;

	printf(",\n\"nccl\":{");
	for (i = 0; i < OPS; i++, o++)
		printf("%s\"%s\":{\"calls\":%llu,\"bytes\":%llu,\"errors\":%llu}", i ? "," : "", op_name[i],
			(unsigned long long)o->calls, (unsigned long long)o->bytes, (unsigned long long)o->errors);
	printf("},\n\"comms\":[");
	for (i = 0; i < did.comm_count; i++)
		printf("%s{\"rank\":%d,\"nranks\":%d}", i ? "," : "", did.comms[i].rank, did.comms[i].nranks);
	printf("]");
	print_number("nccl_groups", did.groups);
	print_number("comm_inits", did.comm_inits);
	print_number("comm_splits", did.comm_splits);
	print_number("comm_aborts", did.comm_aborts);
}

/* A quantile is the smallest sample that has at least this share of the samples at or below it. */
static uint64_t quantile(uint64_t percent)
{
	return did.sample_ns[(did.sample_count * percent + 99) / 100 - 1];
}

static void print_latency(void)
{
	uint64_t i, sum = 0;

	if (did.sample_count == 0)
		return;
	printf(",\n\"latency\":{\"sorted_ns\":[");
	for (i = 0; i < did.sample_count; i++) {
		sum += did.sample_ns[i];
		printf("%s%llu", i ? "," : "", (unsigned long long)did.sample_ns[i]);
	}
	printf("],\"count\":%llu,\"sum_ns\":%llu,\"p50_ns\":%llu,\"p99_ns\":%llu}",
		(unsigned long long)did.sample_count, (unsigned long long)sum, (unsigned long long)quantile(50),
		(unsigned long long)quantile(99));
}

static void print_devices(void)
{
	struct cuda_uuid uuid;
	size_t bytes, i;
	char pci[16];
	int gpu;

	printf(",\n\"devices\":[");
	for (gpu = 0; did.devices && gpu < GPUS; gpu++) {
		must(cuda.cuDeviceGetUuid(&uuid, gpu), 0, "cuDeviceGetUuid");
		must(cuda.cuDeviceGetPCIBusId(pci, sizeof(pci), gpu), 0, "cuDeviceGetPCIBusId");
		must(cuda.cuDeviceTotalMem_v2(&bytes, gpu), 0, "cuDeviceTotalMem_v2");
		printf("%s{\"ordinal\":%d,\"uuid\":\"GPU-", gpu ? "," : "", gpu);
		for (i = 0; i < sizeof(uuid.bytes); i++)
			printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
		printf("\",\"pci\":\"%s\",\"total_bytes\":%zu}", pci, bytes);
	}
	printf("]");
}

static void print_report(void)
{
	printf("{\"pid\":%d,\n\"scenarios\":\"%s\"", (int)getpid(), opt.scenarios);
	print_memory();
	print_calls();
	print_nccl();
	print_latency();
	print_devices();
	print_number("tcp_sends", did.tcp_sends);
	print_number("tcp_sent", did.tcp_sent);
	print_number("tcp_received", did.tcp_received);
	print_number("storm_ns", did.storm_ns);
	printf("}\n");
	fflush(stdout);
}

static void load(const char *path, const struct symbol *symbols, size_t count)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	size_t i;

	if (!library)
		die("dlopen", dlerror());
	for (i = 0; i < count; i++) {
		*symbols[i].to = dlsym(library, symbols[i].name);
		if (!*symbols[i].to)
			die(symbols[i].name, "not in the library");
	}
}

static void load_libraries(void)
{
	int count = 0;

	sleep_ms(opt.delay_ms);
	if (!opt.cuda_path)
		return;
	load(opt.cuda_path, cuda_symbols, COUNT(cuda_symbols));
	if (opt.nccl_path)
		load(opt.nccl_path, nccl_symbols, COUNT(nccl_symbols));
	must(cuda.cuInit(0), 0, "cuInit");
	must(cuda.cuDeviceGetCount(&count), 0, "cuDeviceGetCount");
	must(count >= GPUS, 1, "having 4 devices");
}

static void wait_at_gate(void)
{
	sleep_ms(opt.ready_ms);
	if (!opt.gate)
		return;
	printf("ready\n");
	fflush(stdout);
	read_line();
}

static void hold(void)
{
	char bytes[256];

	sleep_ms(opt.hold_ms);
	while (opt.hold_stdin && read(STDIN_FILENO, bytes, sizeof(bytes)) > 0)
		;
}

static const struct option options[] = {
	{"cuda", required_argument, NULL, 'c'},
	{"nccl", required_argument, NULL, 'n'},
	{"delay-ms", required_argument, NULL, 'd'},
	{"ready-ms", required_argument, NULL, 'r'},
	{"hold-ms", required_argument, NULL, 'h'},
	{"hold-stdin", no_argument, &opt.hold_stdin, 1},
	{"gate", no_argument, &opt.gate, 1},
	{"scenario", required_argument, NULL, 's'},
	{"threads", required_argument, NULL, 't'},
	{"calls", required_argument, NULL, 'l'},
	{"rank", required_argument, NULL, 'k'},
	{0},
};

static int number(int most)
{
	char *end;
	long n = strtol(optarg, &end, 10);

	if (*end || n < 0 || n > most)
		die(optarg, "not a number that is possible here");
	return (int)n;
}

static void parse(int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		switch (c) {
		case 'c': opt.cuda_path = optarg; break;
		case 'n': opt.nccl_path = optarg; break;
		case 'd': opt.delay_ms = number(3600000); break;
		case 'r': opt.ready_ms = number(3600000); break;
		case 'h': opt.hold_ms = number(3600000); break;
		case 's': opt.scenarios = optarg; break;
		case 't': opt.threads = number(THREADS_MAX); break;
		case 'l': opt.calls = number(1000000000); break;
		case 'k': opt.rank = number(3); break;
		case 0: break;
		default: exit(2);
		}
	if (!opt.cuda_path && strcmp(opt.scenarios, "idle"))
		die(opt.scenarios, "needs --cuda");
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	load_libraries();
	each_scenario(true);
	wait_at_gate();
	each_scenario(false);
	print_report();
	hold();
	return 0;
}
