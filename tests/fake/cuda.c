/* SPDX-License-Identifier: GPL-2.0 */
/*
 * cuda.c: a libcuda.so.1 without a GPU, for tests: the real names and arguments, simple but consistent
 * behaviour. No memory is behind its addresses and nothing is computed. Calls return at once unless a knob
 * says otherwise.
 *
 * Environment, read by cuInit: FAKE_CUDA_DEVICES (4, at most 16), FAKE_CUDA_TOTAL_MB (81920) of each device.
 * Knobs, set by fake_cuda_set(name, value): see knobs[]; and "fail_next", for the calling thread alone: its
 * next call does nothing and returns this CUresult. fake_cuda_calls(symbol) tells how often a function was
 * called.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "entries.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* the arguments are the vendor's */

#define EXPORT __attribute__((visibility("default"), noinline))

enum result {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	ILLEGAL_STATE = 401,
	CAPTURE_UNSUPPORTED = 900,
};

#define DEVICES_MAX  16
#define CONTEXTS_MAX 64
#define STACK_MAX    16
#define BLOCKS_MAX   16384
#define MAPPINGS_MAX 4096
#define CAPTURES_MAX 64
#define PITCH        512ULL
#define BASE         0x700000000000ULL /* of device addresses */
#define STEP         (1ULL << 37)      /* from one block's address to the next one's: more than a block can have */
#define HANDLE       0x5a000000ULL

#define DECLARE(name, args) FAKE_VISIBLE int name args FAKE_BODY(name);
CUDA_CALLS(DECLARE)
CUDA_CALLS(ENTRY)
EXPORT int fake_cuda_set(const char *what, long value);
EXPORT long fake_cuda_calls(const char *symbol);

#define NUMBER(name, args) CALL_##name,
#define NAME(name, args)   #name,
enum call { CUDA_CALLS(NUMBER) CALL_COUNT };
static const char *const call_name[] = {CUDA_CALLS(NAME)};
static atomic_long call_count[CALL_COUNT];

/* A context. The first DEVICES_MAX are the devices' primary ones. */
struct context {
	bool live;
	int device;
};

enum kind { UNUSED, DEVICE_MEMORY, HOST_MEMORY, PHYSICAL_MEMORY };

struct block {
	enum kind kind;
	int device;
	int handles; /* PHYSICAL_MEMORY: until both are 0, it is there */
	int mappings;
	uint64_t bytes;
	struct context *ctx; /* it goes with this one; NULL: with none */
};

struct mapping {
	uint64_t at;
	uint64_t bytes;
	struct block *block;
};

static struct {
	pthread_mutex_t lock;
	int device_count;
	uint64_t total_bytes;
	uint64_t used_bytes[DEVICES_MAX];
	struct context context[CONTEXTS_MAX];
	struct block block[BLOCKS_MAX];
	unsigned block_count; /* those after it were never used */
	unsigned spare[BLOCKS_MAX];
	unsigned spare_count;
	struct mapping mapping[MAPPINGS_MAX];
	void *capture[CAPTURES_MAX];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool ready;
static atomic_int capture_count;
static atomic_long launch_ns, launch_sleep_us, sync_ns, sync_sleep_us, sync_joined, free_sleep_us, load_sleep_us;
static __thread struct context *stack[STACK_MAX];
static __thread int stack_depth;
static __thread int fail_next;

static const struct knob {
	const char *name;
	atomic_long *value;
} knobs[] = {
	{"launch_ns", &launch_ns},             /* spin in each launch that is not captured */
	{"launch_sleep_us", &launch_sleep_us}, /* sleep there */
	{"sync_ns", &sync_ns},                 /* spin in each wait and blocking copy */
	{"sync_sleep_us", &sync_sleep_us},     /* sleep there */
	{"sync_joined", &sync_joined},         /* be there until the process's first thread sleeps */
	{"free_sleep_us", &free_sleep_us},     /* sleep in cuMemFree_v2 */
	{"load_sleep_us", &load_sleep_us},     /* sleep in what loads code or prepares a graph */
};
#define KNOB_COUNT (sizeof(knobs) / sizeof(knobs[0]))

int fake_cuda_set(const char *what, long value)
{
	size_t i;

	if (!strcmp(what, "fail_next")) {
		fail_next = (int)value;
		return 0;
	}
	for (i = 0; i < KNOB_COUNT; i++)
		if (!strcmp(what, knobs[i].name)) {
			atomic_store(knobs[i].value, value);
			return 0;
		}
	return -1;
}

long fake_cuda_calls(const char *symbol)
{
	int i;

	for (i = 0; i < CALL_COUNT; i++)
		if (!strcmp(symbol, call_name[i]))
			return atomic_load(&call_count[i]);
	return -1;
}

/* Counts the call; OK, or what it shall return without doing anything. */
static int enter(enum call call)
{
	int err = fail_next;

	atomic_fetch_add_explicit(&call_count[call], 1, memory_order_relaxed);
	fail_next = OK;
	if (err)
		return err;
	return ready || call == CALL_cuInit ? OK : NOT_INITIALIZED;
}

static struct context *current(void)
{
	return stack_depth ? stack[stack_depth - 1] : NULL;
}

static int enter_with_context(enum call call)
{
	int err = enter(call);

	if (err)
		return err;
	return current() && current()->live ? OK : INVALID_CONTEXT;
}

static int enter_with_device(enum call call, int device)
{
	int err = enter(call);

	if (err)
		return err;
	return device >= 0 && device < fake.device_count ? OK : INVALID_DEVICE;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void spin(long ns)
{
	uint64_t end = ns > 0 ? now_ns() + (uint64_t)ns : 0;

	while (end && now_ns() < end)
		;
}

static void sleep_us(long us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	if (us > 0)
		nanosleep(&t, NULL);
}

/* The process's first thread sleeps: it joins the thread that calls, if that is how the program is made. */
static void wait_for_first_thread(void)
{
	char path[64], line[128], state;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	for (int ms = 0; ms < 10000; ms++) {
		f = fopen(path, "re");
		state = f && fgets(line, sizeof(line), f) && strrchr(line, ')') ? strrchr(line, ')')[2] : 0;
		if (f)
			fclose(f);
		if (state == 'S')
			return;
		sleep_us(1000);
	}
}

static long setting(const char *name, long otherwise)
{
	const char *value = getenv(name);
	long n = value ? strtol(value, NULL, 10) : 0;

	return n > 0 ? n : otherwise;
}

int cuInit(unsigned flags)
{
	int err = enter(CALL_cuInit);
	long devices = setting("FAKE_CUDA_DEVICES", 4);

	if (err || ready)
		return err;
	fake.device_count = devices < DEVICES_MAX ? (int)devices : DEVICES_MAX;
	fake.total_bytes = (uint64_t)setting("FAKE_CUDA_TOTAL_MB", 81920) << 20;
	ready = true;
	return OK;
}

int cuDeviceGetCount(int *count)
{
	int err = enter(CALL_cuDeviceGetCount);

	if (!err)
		*count = fake.device_count;
	return err;
}

static int get_uuid(enum call call, struct cuda_uuid *uuid, int device)
{
	int err = enter_with_device(call, device);

	if (!err)
		*uuid = (struct cuda_uuid){{0xfa, 0xce, [15] = (unsigned char)device}};
	return err;
}

int cuDeviceGetUuid(struct cuda_uuid *uuid, int device)
{
	return get_uuid(CALL_cuDeviceGetUuid, uuid, device);
}

int cuDeviceGetUuid_v2(struct cuda_uuid *uuid, int device)
{
	return get_uuid(CALL_cuDeviceGetUuid_v2, uuid, device);
}

int cuDeviceGetPCIBusId(char *to, int len, int device)
{
	int err = enter_with_device(CALL_cuDeviceGetPCIBusId, device);

	if (err)
		return err;
	if (len < 13)
		return INVALID_VALUE;
	snprintf(to, (size_t)len, "0000:%02x:00.0", 0x10u + (unsigned)device);
	return OK;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	int err = enter_with_device(CALL_cuDeviceTotalMem_v2, device);

	if (!err)
		*bytes = fake.total_bytes;
	return err;
}

int cuMemGetInfo_v2(size_t *spare, size_t *total)
{
	int err = enter_with_context(CALL_cuMemGetInfo_v2);

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	*spare = fake.total_bytes - fake.used_bytes[current()->device];
	*total = fake.total_bytes;
	pthread_mutex_unlock(&fake.lock);
	return OK;
}

/* With the lock held. */
static void drop_block(struct block *b)
{
	if (b->kind != HOST_MEMORY)
		fake.used_bytes[b->device] -= b->bytes;
	*b = (struct block){0};
	fake.spare[fake.spare_count++] = (unsigned)(b - fake.block);
}

static void drop_blocks_of(const struct context *ctx)
{
	unsigned i;

	for (i = 0; i < fake.block_count; i++)
		if (fake.block[i].kind != UNUSED && fake.block[i].ctx == ctx)
			drop_block(&fake.block[i]);
}

int cuDevicePrimaryCtxRetain(void **ctx, int device)
{
	int err = enter_with_device(CALL_cuDevicePrimaryCtxRetain, device);

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	fake.context[device] = (struct context){.live = true, .device = device};
	*ctx = &fake.context[device];
	pthread_mutex_unlock(&fake.lock);
	return OK;
}

static int reset_primary(enum call call, int device)
{
	int err = enter_with_device(call, device);

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	drop_blocks_of(&fake.context[device]);
	pthread_mutex_unlock(&fake.lock);
	return OK;
}

static bool is_context(const void *ctx)
{
	const struct context *c = ctx;

	return c >= fake.context && c < fake.context + CONTEXTS_MAX && c->live;
}

static int push(struct context *ctx)
{
	if (stack_depth == STACK_MAX)
		return INVALID_VALUE;
	stack[stack_depth++] = ctx;
	return OK;
}

/* The lowest free one, so that the address of a destroyed context comes back. */
static int create_context(enum call call, void **ctx, int device)
{
	int i = DEVICES_MAX, err = enter_with_device(call, device);

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	while (i < CONTEXTS_MAX && fake.context[i].live)
		i++;
	if (i < CONTEXTS_MAX)
		fake.context[i] = (struct context){.live = true, .device = device};
	pthread_mutex_unlock(&fake.lock);
	if (i == CONTEXTS_MAX)
		return OUT_OF_MEMORY;
	*ctx = &fake.context[i];
	return push(&fake.context[i]);
}

static int destroy_context(enum call call, void *ctx)
{
	int err = enter(call);

	if (err)
		return err;
	if (!is_context(ctx))
		return INVALID_CONTEXT;
	pthread_mutex_lock(&fake.lock);
	drop_blocks_of(ctx);
	((struct context *)ctx)->live = false;
	pthread_mutex_unlock(&fake.lock);
	if (current() == ctx)
		stack_depth--;
	return OK;
}

int cuCtxSetCurrent(void *ctx)
{
	int err = enter(CALL_cuCtxSetCurrent);

	if (err)
		return err;
	if (ctx && !is_context(ctx))
		return INVALID_CONTEXT;
	if (stack_depth)
		stack_depth--;
	return ctx ? push(ctx) : OK;
}

static int push_context(enum call call, void *ctx)
{
	int err = enter(call);

	if (err)
		return err;
	return is_context(ctx) ? push(ctx) : INVALID_CONTEXT;
}

static int pop_context(enum call call, void **ctx)
{
	int err = enter(call);

	if (err)
		return err;
	if (!current())
		return INVALID_CONTEXT;
	if (ctx)
		*ctx = current();
	stack_depth--;
	return OK;
}

/* With the lock held: a block like `b`, or NULL. */
static struct block *take_block(struct block b)
{
	struct block *to;
	bool host = b.kind == HOST_MEMORY;

	if (!host && b.bytes > fake.total_bytes - fake.used_bytes[b.device])
		return NULL;
	if (fake.spare_count)
		to = &fake.block[fake.spare[--fake.spare_count]];
	else if (fake.block_count < BLOCKS_MAX)
		to = &fake.block[fake.block_count++];
	else
		return NULL;
	fake.used_bytes[b.device] += host ? 0 : b.bytes;
	*to = b;
	return to;
}

static int take(struct block b, uint64_t *at)
{
	struct block *to;

	if (b.bytes == 0)
		return INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	to = take_block(b);
	pthread_mutex_unlock(&fake.lock);
	if (!to)
		return OUT_OF_MEMORY;
	*at = (b.kind == PHYSICAL_MEMORY ? HANDLE : BASE) +
		(uint64_t)(to - fake.block) * (b.kind == PHYSICAL_MEMORY ? 1 : STEP);
	return OK;
}

static int take_in_context(enum call call, enum kind kind, uint64_t *at, size_t bytes)
{
	int err = enter_with_context(call);

	if (err)
		return err;
	return take((struct block){.kind = kind, .device = current()->device, .bytes = bytes, .ctx = current()}, at);
}

/* With the lock held. */
static struct block *block_at(uint64_t at, enum kind kind)
{
	uint64_t base = kind == PHYSICAL_MEMORY ? HANDLE : BASE, step = kind == PHYSICAL_MEMORY ? 1 : STEP;
	uint64_t i = (at - base) / step;

	if (at < base || (at - base) % step || i >= fake.block_count || fake.block[i].kind != kind)
		return NULL;
	return &fake.block[i];
}

static int give_back(enum call call, enum kind kind, uint64_t at)
{
	int err = enter(call);
	struct block *b;

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	b = block_at(at, kind);
	if (b)
		drop_block(b);
	pthread_mutex_unlock(&fake.lock);
	return b ? OK : INVALID_VALUE;
}

int cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
	return take_in_context(CALL_cuMemAlloc_v2, DEVICE_MEMORY, at, bytes);
}

int cuMemAllocManaged(uint64_t *at, size_t bytes, unsigned flags)
{
	return take_in_context(CALL_cuMemAllocManaged, DEVICE_MEMORY, at, bytes);
}

int cuMemAllocPitch_v2(uint64_t *at, size_t *pitch, size_t width, size_t height, unsigned element)
{
	size_t row = (width + PITCH - 1) / PITCH * PITCH;
	int err = take_in_context(CALL_cuMemAllocPitch_v2, DEVICE_MEMORY, at, row * height);

	if (!err)
		*pitch = row;
	return err;
}

#define TAKE(name, ...)                                                                                                \
	int name(uint64_t *at, size_t bytes, __VA_ARGS__)                                                              \
	{                                                                                                              \
		return take_in_context(CALL_##name, DEVICE_MEMORY, at, bytes);                                         \
	}
TAKE(cuMemAllocAsync, void *stream)
TAKE(cuMemAllocAsync_ptsz, void *stream)
TAKE(cuMemAllocFromPoolAsync, void *pool, void *stream)
TAKE(cuMemAllocFromPoolAsync_ptsz, void *pool, void *stream)

int cuMemFree_v2(uint64_t at)
{
	sleep_us(free_sleep_us);
	return give_back(CALL_cuMemFree_v2, DEVICE_MEMORY, at);
}

int cuMemFreeAsync(uint64_t at, void *stream)
{
	return give_back(CALL_cuMemFreeAsync, DEVICE_MEMORY, at);
}

int cuMemFreeAsync_ptsz(uint64_t at, void *stream)
{
	return give_back(CALL_cuMemFreeAsync_ptsz, DEVICE_MEMORY, at);
}

static int take_host(enum call call, void **at, size_t bytes)
{
	uint64_t addr = 0;
	int err = take_in_context(call, HOST_MEMORY, &addr, bytes);

	if (!err)
		*at = (void *)(uintptr_t)addr;
	return err;
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
	return take_host(CALL_cuMemHostAlloc, at, bytes);
}

int cuMemAllocHost_v2(void **at, size_t bytes)
{
	return take_host(CALL_cuMemAllocHost_v2, at, bytes);
}

int cuMemFreeHost(void *at)
{
	return give_back(CALL_cuMemFreeHost, HOST_MEMORY, (uintptr_t)at);
}

int cuMemCreate(uint64_t *handle, size_t bytes, const struct cuda_location_prop *prop, uint64_t flags)
{
	int err = enter_with_device(CALL_cuMemCreate, prop->device);

	if (err)
		return err;
	return take(
		(struct block){.kind = PHYSICAL_MEMORY, .device = prop->device, .handles = 1, .bytes = bytes}, handle);
}

/* Memory of somebody else: it takes hardly any room of ours. */
int cuMemImportFromShareableHandle(uint64_t *handle, void *os, int type)
{
	int err = enter(CALL_cuMemImportFromShareableHandle);

	(void)os;
	(void)type;
	return err ? err : take((struct block){.kind = PHYSICAL_MEMORY, .handles = 1, .bytes = 1}, handle);
}

/* With the lock held: one reference less of the kind that `count` holds. */
static int unreference(struct block *b, int *count)
{
	if (*count == 0)
		return INVALID_VALUE;
	--*count;
	if (b->handles == 0 && b->mappings == 0)
		drop_block(b);
	return OK;
}

int cuMemRelease(uint64_t handle)
{
	int err = enter(CALL_cuMemRelease);
	struct block *b;

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	b = block_at(handle, PHYSICAL_MEMORY);
	err = b ? unreference(b, &b->handles) : INVALID_VALUE;
	pthread_mutex_unlock(&fake.lock);
	return err;
}

/* With the lock held: the mapping that has this address; for 0, one that is free. */
static struct mapping *mapping_of(uint64_t at)
{
	struct mapping *m;

	for (m = fake.mapping; m < fake.mapping + MAPPINGS_MAX; m++)
		if (at ? at >= m->at && at - m->at < m->bytes : m->bytes == 0)
			return m;
	return NULL;
}

int cuMemRetainAllocationHandle(uint64_t *handle, void *at)
{
	int err = enter(CALL_cuMemRetainAllocationHandle);
	struct mapping *m;

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	m = mapping_of((uintptr_t)at);
	if (m) {
		m->block->handles++;
		*handle = HANDLE + (uint64_t)(m->block - fake.block);
	}
	pthread_mutex_unlock(&fake.lock);
	return m ? OK : INVALID_VALUE;
}

int cuMemMap(uint64_t at, size_t bytes, size_t offset, uint64_t handle, uint64_t flags)
{
	int err = enter(CALL_cuMemMap);
	struct mapping *m;
	struct block *b;

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	m = mapping_of(0);
	b = block_at(handle, PHYSICAL_MEMORY);
	if (!m || !b || offset || bytes != b->bytes || at == 0 || mapping_of(at)) {
		err = INVALID_VALUE;
	} else {
		*m = (struct mapping){at, bytes, b};
		b->mappings++;
	}
	pthread_mutex_unlock(&fake.lock);
	return err;
}

/* With the lock held: does the range hold whole mappings, one after the other? */
static bool is_mapped(uint64_t at, uint64_t bytes)
{
	struct mapping *m;

	for (; bytes; at += m->bytes, bytes -= m->bytes) {
		m = at ? mapping_of(at) : NULL;
		if (!m || m->at != at || m->bytes > bytes)
			return false;
	}
	return true;
}

int cuMemUnmap(uint64_t at, size_t bytes)
{
	int err = enter(CALL_cuMemUnmap);
	uint64_t end = at + bytes;
	struct mapping *m;

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	err = bytes && is_mapped(at, bytes) ? OK : INVALID_VALUE;
	while (!err && at < end) {
		m = mapping_of(at);
		at += m->bytes;
		unreference(m->block, &m->block->mappings);
		*m = (struct mapping){0};
	}
	pthread_mutex_unlock(&fake.lock);
	return err;
}

/* With the lock held: where this stream is noted; for NULL, a free place. */
static void **capture_of(void *stream)
{
	int i;

	for (i = 0; i < CAPTURES_MAX; i++)
		if (fake.capture[i] == stream)
			return &fake.capture[i];
	return NULL;
}

static bool is_capturing(void *stream)
{
	bool is;

	if (!stream || !capture_count)
		return false;
	pthread_mutex_lock(&fake.lock);
	is = capture_of(stream);
	pthread_mutex_unlock(&fake.lock);
	return is;
}

static int begin_capture(enum call call, void *stream)
{
	int err = enter_with_context(call);
	void **place;

	if (err || !stream)
		return err ? err : CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&fake.lock);
	place = capture_of(stream) ? NULL : capture_of(NULL);
	if (place) {
		*place = stream;
		capture_count++;
	}
	pthread_mutex_unlock(&fake.lock);
	return place ? OK : ILLEGAL_STATE;
}

static int end_capture(enum call call, void *stream, void **graph)
{
	int err = enter_with_context(call);
	void **place;

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	place = stream ? capture_of(stream) : NULL;
	if (place) {
		*graph = stream;
		*place = NULL;
		capture_count--;
	}
	pthread_mutex_unlock(&fake.lock);
	return place ? OK : ILLEGAL_STATE;
}

static int launch(enum call call, void *stream)
{
	int err = enter_with_context(call);

	if (err || is_capturing(stream))
		return err;
	spin(launch_ns);
	sleep_us(launch_sleep_us);
	return OK;
}

static int wait_for_gpu(enum call call)
{
	int err = enter_with_context(call);

	if (sync_joined) /* also without a context, which the threads of such a program have not */
		wait_for_first_thread();
	if (err)
		return err;
	spin(sync_ns);
	sleep_us(sync_sleep_us);
	return OK;
}

static int load(enum call call)
{
	int err = enter(call);

	sleep_us(load_sleep_us);
	return err;
}

/* A handle of a group of GPUs: it takes hardly any room. */
int cuMulticastCreate(uint64_t *handle, const void *prop)
{
	int err = enter(CALL_cuMulticastCreate);

	return err ? err : take((struct block){.kind = PHYSICAL_MEMORY, .handles = 1, .bytes = 1}, handle);
}

/* A green context is a byte behind the context that it is used by. */
int cuGreenCtxCreate(void **green, void *resources, int device, unsigned flags)
{
	void *ctx;
	int err = create_context(CALL_cuGreenCtxCreate, &ctx, device);

	if (err)
		return err;
	stack_depth--; /* it is current nowhere yet */
	*green = (char *)ctx + 1;
	return OK;
}

int cuCtxFromGreenCtx(void **ctx, void *green)
{
	int err = enter(CALL_cuCtxFromGreenCtx);

	if (!err)
		*ctx = (char *)green - 1;
	return err;
}

/* Calls that differ in their names and arguments only. */
#define CALL(name, args, body)                                                                                         \
	int name args                                                                                                  \
	{                                                                                                              \
		return body;                                                                                           \
	}
/* Begins with no push: for the benchmark of a call that the kernel has to step over. */
__attribute__((optimize("omit-frame-pointer"))) int cuStreamSynchronize(void *stream);
/* clang-format off */
CALL(cuLaunchKernel, LAUNCH_ARGS, launch(CALL_cuLaunchKernel, stream))
CALL(cuLaunchKernel_ptsz, LAUNCH_ARGS, launch(CALL_cuLaunchKernel_ptsz, stream))
CALL(cuLaunchKernelEx, LAUNCH_EX_ARGS, launch(CALL_cuLaunchKernelEx, config->stream))
CALL(cuLaunchKernelEx_ptsz, LAUNCH_EX_ARGS, launch(CALL_cuLaunchKernelEx_ptsz, config->stream))
CALL(cuLaunchCooperativeKernel, COOPERATIVE_ARGS, launch(CALL_cuLaunchCooperativeKernel, stream))
CALL(cuLaunchCooperativeKernel_ptsz, COOPERATIVE_ARGS, launch(CALL_cuLaunchCooperativeKernel_ptsz, stream))
CALL(cuGraphLaunch, (void *graph, void *stream), launch(CALL_cuGraphLaunch, stream))
CALL(cuGraphLaunch_ptsz, (void *graph, void *stream), launch(CALL_cuGraphLaunch_ptsz, stream))
CALL(cuDevicePrimaryCtxReset, (int device), reset_primary(CALL_cuDevicePrimaryCtxReset, device))
CALL(cuDevicePrimaryCtxReset_v2, (int device), reset_primary(CALL_cuDevicePrimaryCtxReset_v2, device))
CALL(cuCtxCreate, (void **ctx, unsigned flags, int device), create_context(CALL_cuCtxCreate, ctx, device))
CALL(cuCtxCreate_v2, (void **ctx, unsigned flags, int device), create_context(CALL_cuCtxCreate_v2, ctx, device))
CALL(cuCtxCreate_v3, (void **ctx, void *params, int count, unsigned flags, int device), create_context(CALL_cuCtxCreate_v3, ctx, device))
CALL(cuCtxCreate_v4, (void **ctx, void *params, unsigned flags, int device), create_context(CALL_cuCtxCreate_v4, ctx, device))
CALL(cuCtxDestroy, (void *ctx), destroy_context(CALL_cuCtxDestroy, ctx))
CALL(cuCtxDestroy_v2, (void *ctx), destroy_context(CALL_cuCtxDestroy_v2, ctx))
CALL(cuCtxPushCurrent, (void *ctx), push_context(CALL_cuCtxPushCurrent, ctx))
CALL(cuCtxPushCurrent_v2, (void *ctx), push_context(CALL_cuCtxPushCurrent_v2, ctx))
CALL(cuCtxPopCurrent, (void **ctx), pop_context(CALL_cuCtxPopCurrent, ctx))
CALL(cuCtxPopCurrent_v2, (void **ctx), pop_context(CALL_cuCtxPopCurrent_v2, ctx))
CALL(cuStreamBeginCapture, (void *stream), begin_capture(CALL_cuStreamBeginCapture, stream))
CALL(cuStreamBeginCapture_ptsz, (void *stream), begin_capture(CALL_cuStreamBeginCapture_ptsz, stream))
CALL(cuStreamBeginCapture_v2, (void *stream, int mode), begin_capture(CALL_cuStreamBeginCapture_v2, stream))
CALL(cuStreamBeginCapture_v2_ptsz, (void *stream, int mode), begin_capture(CALL_cuStreamBeginCapture_v2_ptsz, stream))
CALL(cuStreamBeginCaptureToGraph, CAPTURE_TO_GRAPH_ARGS, begin_capture(CALL_cuStreamBeginCaptureToGraph, stream))
CALL(cuStreamBeginCaptureToGraph_ptsz, CAPTURE_TO_GRAPH_ARGS, begin_capture(CALL_cuStreamBeginCaptureToGraph_ptsz, stream))
CALL(cuStreamEndCapture, (void *stream, void **graph), end_capture(CALL_cuStreamEndCapture, stream, graph))
CALL(cuStreamEndCapture_ptsz, (void *stream, void **graph), end_capture(CALL_cuStreamEndCapture_ptsz, stream, graph))

#define TO_DEVICE       (uint64_t to, const void *from, size_t bytes)
#define TO_HOST         (void *to, uint64_t from, size_t bytes)
#define ANY             (uint64_t to, uint64_t from, size_t bytes)
#define TO_DEVICE_ASYNC (uint64_t to, const void *from, size_t bytes, void *stream)
#define TO_HOST_ASYNC   (void *to, uint64_t from, size_t bytes, void *stream)
#define ANY_ASYNC       (uint64_t to, uint64_t from, size_t bytes, void *stream)
CALL(cuStreamSynchronize, (void *stream), wait_for_gpu(CALL_cuStreamSynchronize))
CALL(cuStreamSynchronize_ptsz, (void *stream), wait_for_gpu(CALL_cuStreamSynchronize_ptsz))
CALL(cuEventSynchronize, (void *event), wait_for_gpu(CALL_cuEventSynchronize))
CALL(cuCtxSynchronize, (void), wait_for_gpu(CALL_cuCtxSynchronize))
CALL(cuCtxSynchronize_v2, (void *ctx), wait_for_gpu(CALL_cuCtxSynchronize_v2))
CALL(cuMemcpyHtoD_v2, TO_DEVICE, wait_for_gpu(CALL_cuMemcpyHtoD_v2))
CALL(cuMemcpyHtoD_v2_ptds, TO_DEVICE, wait_for_gpu(CALL_cuMemcpyHtoD_v2_ptds))
CALL(cuMemcpyDtoH_v2, TO_HOST, wait_for_gpu(CALL_cuMemcpyDtoH_v2))
CALL(cuMemcpyDtoH_v2_ptds, TO_HOST, wait_for_gpu(CALL_cuMemcpyDtoH_v2_ptds))
CALL(cuMemcpyDtoD_v2, ANY, wait_for_gpu(CALL_cuMemcpyDtoD_v2))
CALL(cuMemcpyDtoD_v2_ptds, ANY, wait_for_gpu(CALL_cuMemcpyDtoD_v2_ptds))
CALL(cuMemcpy, ANY, wait_for_gpu(CALL_cuMemcpy))
CALL(cuMemcpy_ptds, ANY, wait_for_gpu(CALL_cuMemcpy_ptds))
CALL(cuMemcpyHtoDAsync_v2, TO_DEVICE_ASYNC, enter_with_context(CALL_cuMemcpyHtoDAsync_v2))
CALL(cuMemcpyHtoDAsync_v2_ptsz, TO_DEVICE_ASYNC, enter_with_context(CALL_cuMemcpyHtoDAsync_v2_ptsz))
CALL(cuMemcpyDtoHAsync_v2, TO_HOST_ASYNC, enter_with_context(CALL_cuMemcpyDtoHAsync_v2))
CALL(cuMemcpyDtoHAsync_v2_ptsz, TO_HOST_ASYNC, enter_with_context(CALL_cuMemcpyDtoHAsync_v2_ptsz))
CALL(cuMemcpyDtoDAsync_v2, ANY_ASYNC, enter_with_context(CALL_cuMemcpyDtoDAsync_v2))
CALL(cuMemcpyDtoDAsync_v2_ptsz, ANY_ASYNC, enter_with_context(CALL_cuMemcpyDtoDAsync_v2_ptsz))
CALL(cuMemcpyAsync, ANY_ASYNC, enter_with_context(CALL_cuMemcpyAsync))
CALL(cuMemcpyAsync_ptsz, ANY_ASYNC, enter_with_context(CALL_cuMemcpyAsync_ptsz))
CALL(cuMemcpyPeerAsync, PEER_ARGS, enter_with_context(CALL_cuMemcpyPeerAsync))
CALL(cuMemcpyPeerAsync_ptsz, PEER_ARGS, enter_with_context(CALL_cuMemcpyPeerAsync_ptsz))
CALL(cuMemcpy2D_v2, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy2D_v2))
CALL(cuMemcpy2D_v2_ptds, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy2D_v2_ptds))
CALL(cuMemcpy2DUnaligned_v2, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy2DUnaligned_v2))
CALL(cuMemcpy2DUnaligned_v2_ptds, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy2DUnaligned_v2_ptds))
CALL(cuMemcpy3D_v2, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy3D_v2))
CALL(cuMemcpy3D_v2_ptds, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy3D_v2_ptds))
CALL(cuMemcpy3DPeer, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy3DPeer))
CALL(cuMemcpy3DPeer_ptds, BOX_ARGS, wait_for_gpu(CALL_cuMemcpy3DPeer_ptds))
CALL(cuMemcpy2DAsync_v2, BOX_ASYNC_ARGS, enter_with_context(CALL_cuMemcpy2DAsync_v2))
CALL(cuMemcpy2DAsync_v2_ptsz, BOX_ASYNC_ARGS, enter_with_context(CALL_cuMemcpy2DAsync_v2_ptsz))
CALL(cuMemcpy3DAsync_v2, BOX_ASYNC_ARGS, enter_with_context(CALL_cuMemcpy3DAsync_v2))
CALL(cuMemcpy3DAsync_v2_ptsz, BOX_ASYNC_ARGS, enter_with_context(CALL_cuMemcpy3DAsync_v2_ptsz))
CALL(cuMemcpy3DPeerAsync, BOX_ASYNC_ARGS, enter_with_context(CALL_cuMemcpy3DPeerAsync))
CALL(cuMemcpy3DPeerAsync_ptsz, BOX_ASYNC_ARGS, enter_with_context(CALL_cuMemcpy3DPeerAsync_ptsz))
CALL(cuMemcpyPeer, PEER_WAIT_ARGS, wait_for_gpu(CALL_cuMemcpyPeer))
CALL(cuMemcpyPeer_ptds, PEER_WAIT_ARGS, wait_for_gpu(CALL_cuMemcpyPeer_ptds))
CALL(cuMemcpyBatchAsync, BATCH_ARGS, enter_with_context(CALL_cuMemcpyBatchAsync))
CALL(cuMemcpyBatchAsync_ptsz, BATCH_ARGS, enter_with_context(CALL_cuMemcpyBatchAsync_ptsz))
CALL(cuMemcpyBatchAsync_v2, BATCH_V2_ARGS, enter_with_context(CALL_cuMemcpyBatchAsync_v2))
CALL(cuMemcpyBatchAsync_v2_ptsz, BATCH_V2_ARGS, enter_with_context(CALL_cuMemcpyBatchAsync_v2_ptsz))
CALL(cuMemcpy3DBatchAsync, BATCH_3D_ARGS, enter_with_context(CALL_cuMemcpy3DBatchAsync))
CALL(cuMemcpy3DBatchAsync_ptsz, BATCH_3D_ARGS, enter_with_context(CALL_cuMemcpy3DBatchAsync_ptsz))
CALL(cuMemcpy3DBatchAsync_v2, BATCH_3D_V2_ARGS, enter_with_context(CALL_cuMemcpy3DBatchAsync_v2))
CALL(cuMemcpy3DBatchAsync_v2_ptsz, BATCH_3D_V2_ARGS, enter_with_context(CALL_cuMemcpy3DBatchAsync_v2_ptsz))
CALL(cuMemsetD8_v2, SET_ARGS, enter_with_context(CALL_cuMemsetD8_v2))
CALL(cuMemsetD8_v2_ptds, SET_ARGS, enter_with_context(CALL_cuMemsetD8_v2_ptds))
CALL(cuMemsetD8Async, SET_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD8Async))
CALL(cuMemsetD8Async_ptsz, SET_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD8Async_ptsz))
CALL(cuMemsetD2D8_v2, SET_2D_ARGS, enter_with_context(CALL_cuMemsetD2D8_v2))
CALL(cuMemsetD2D8_v2_ptds, SET_2D_ARGS, enter_with_context(CALL_cuMemsetD2D8_v2_ptds))
CALL(cuMemsetD2D8Async, SET_2D_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD2D8Async))
CALL(cuMemsetD2D8Async_ptsz, SET_2D_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD2D8Async_ptsz))
CALL(cuMemsetD16_v2, SET_ARGS, enter_with_context(CALL_cuMemsetD16_v2))
CALL(cuMemsetD16_v2_ptds, SET_ARGS, enter_with_context(CALL_cuMemsetD16_v2_ptds))
CALL(cuMemsetD16Async, SET_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD16Async))
CALL(cuMemsetD16Async_ptsz, SET_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD16Async_ptsz))
CALL(cuMemsetD2D16_v2, SET_2D_ARGS, enter_with_context(CALL_cuMemsetD2D16_v2))
CALL(cuMemsetD2D16_v2_ptds, SET_2D_ARGS, enter_with_context(CALL_cuMemsetD2D16_v2_ptds))
CALL(cuMemsetD2D16Async, SET_2D_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD2D16Async))
CALL(cuMemsetD2D16Async_ptsz, SET_2D_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD2D16Async_ptsz))
CALL(cuMemsetD32_v2, SET_ARGS, enter_with_context(CALL_cuMemsetD32_v2))
CALL(cuMemsetD32_v2_ptds, SET_ARGS, enter_with_context(CALL_cuMemsetD32_v2_ptds))
CALL(cuMemsetD32Async, SET_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD32Async))
CALL(cuMemsetD32Async_ptsz, SET_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD32Async_ptsz))
CALL(cuMemsetD2D32_v2, SET_2D_ARGS, enter_with_context(CALL_cuMemsetD2D32_v2))
CALL(cuMemsetD2D32_v2_ptds, SET_2D_ARGS, enter_with_context(CALL_cuMemsetD2D32_v2_ptds))
CALL(cuMemsetD2D32Async, SET_2D_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD2D32Async))
CALL(cuMemsetD2D32Async_ptsz, SET_2D_ASYNC_ARGS, enter_with_context(CALL_cuMemsetD2D32Async_ptsz))
CALL(cuModuleLoad, (void **module, const char *path), load(CALL_cuModuleLoad))
CALL(cuModuleLoadData, (void **module, const void *image), load(CALL_cuModuleLoadData))
CALL(cuModuleLoadDataEx, (void **module, const void *image, unsigned count, int *options, void **values), load(CALL_cuModuleLoadDataEx))
CALL(cuModuleLoadFatBinary, (void **module, const void *image), load(CALL_cuModuleLoadFatBinary))
CALL(cuLibraryLoadData, LIBRARY_ARGS, load(CALL_cuLibraryLoadData))
CALL(cuLibraryLoadFromFile, LIBRARY_ARGS, load(CALL_cuLibraryLoadFromFile))
CALL(cuModuleGetFunction, (void **function, void *module, const char *name), load(CALL_cuModuleGetFunction))
CALL(cuLibraryGetKernel, (void **kernel, void *library, const char *name), load(CALL_cuLibraryGetKernel))
CALL(cuKernelGetFunction, (void **function, void *kernel), load(CALL_cuKernelGetFunction))
CALL(cuGraphInstantiate, INSTANTIATE_ARGS, load(CALL_cuGraphInstantiate))
CALL(cuGraphInstantiate_v2, INSTANTIATE_ARGS, load(CALL_cuGraphInstantiate_v2))
CALL(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags), load(CALL_cuGraphInstantiateWithFlags))
CALL(cuGraphInstantiateWithParams, (void **exec, void *graph, void *params), load(CALL_cuGraphInstantiateWithParams))
CALL(cuGraphInstantiateWithParams_ptsz, (void **exec, void *graph, void *params), load(CALL_cuGraphInstantiateWithParams_ptsz))
CALL(cuGraphExecUpdate, (void *exec, void *graph, void *node, int *result), load(CALL_cuGraphExecUpdate))
CALL(cuGraphExecUpdate_v2, (void *exec, void *graph, void *result), load(CALL_cuGraphExecUpdate_v2))
CALL(cuGraphUpload, (void *exec, void *stream), load(CALL_cuGraphUpload))
CALL(cuGraphUpload_ptsz, (void *exec, void *stream), load(CALL_cuGraphUpload_ptsz))
CALL(cuMemHostRegister, (void *at, size_t bytes, unsigned flags), enter_with_context(CALL_cuMemHostRegister))
CALL(cuMemHostRegister_v2, (void *at, size_t bytes, unsigned flags), enter_with_context(CALL_cuMemHostRegister_v2))
CALL(cuMemHostUnregister, (void *at), enter_with_context(CALL_cuMemHostUnregister))
/* clang-format on */
