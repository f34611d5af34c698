/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hip.c: a libamdhip64.so without a GPU, for tests: the real names and arguments of ROCm 6.4. Nothing is computed, and
 * no memory is behind its addresses; but a thread has a device, memory belongs to one, and a call that cannot be fails.
 *
 * Environment, read at the first call: FAKE_HIP_DEVICES (4, at most 16). fake_hip_fail(RESULT): the next call of this
 * thread does nothing and returns it. fake_hip_sleep(US): so long each call waits that may wait for the GPU.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" /* the arguments are the vendor's */

#define EXPORT __attribute__((visibility("default"), noinline))

enum result { OK = 0, INVALID_VALUE = 1, INVALID_DEVICE = 101 };

#define DEVICES_MAX 16
#define BLOCKS_MAX  4096
#define PITCH       256ULL
#define TOTAL       (192ULL << 30)

struct dim3 {
	unsigned x, y, z;
};
struct uuid {
	char bytes[16];
};
/* The beginning of hipDeviceProp_t from ROCm 6 on. */
struct properties {
	char name[256];
	struct uuid uuid;
	char luid[8];
	unsigned luid_mask;
	size_t total;
	char more[1176];
};
struct location {
	int type, id;
};
struct allocation {
	int type, handle_type;
	struct location location;
};

static struct {
	uint64_t at;
	int device;
} block[BLOCKS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_at = 0x7e0000000000ULL;
static long sleep_us;
static __thread int current, fail_next;

#define DECLARE(name, ...) EXPORT int name(__VA_ARGS__)

EXPORT void fake_hip_fail(int result);
void fake_hip_fail(int result)
{
	fail_next = result;
}

EXPORT void fake_hip_sleep(long us);
void fake_hip_sleep(long us)
{
	sleep_us = us;
}

static int enter(void)
{
	int result = fail_next;

	fail_next = OK;
	return result;
}

static int wait_for_gpu(void)
{
	if (sleep_us)
		usleep((useconds_t)sleep_us);
	return enter();
}

static int devices(void)
{
	const char *given = getenv("FAKE_HIP_DEVICES");

	return given ? atoi(given) : 4;
}

static int enter_with(int device)
{
	int result = enter();

	return result || (device >= 0 && device < devices()) ? result : INVALID_DEVICE;
}

static int block_add(void *to, size_t bytes, int device)
{
	int result = enter();

	if (result)
		return result;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < BLOCKS_MAX; i++)
		if (!block[i].at) {
			block[i].at = *(uint64_t *)to = next_at;
			block[i].device = device;
			next_at += (bytes | 0xfff) + 1;
			break;
		}
	pthread_mutex_unlock(&lock);
	return OK;
}

static int block_remove(const void *at)
{
	int result = enter(), found = !at;

	if (result)
		return result;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < BLOCKS_MAX && at; i++)
		if (block[i].at == (uintptr_t)at) {
			block[i].at = 0;
			found = 1;
		}
	pthread_mutex_unlock(&lock);
	return found ? OK : INVALID_VALUE;
}

/* ---- devices ---- */

DECLARE(hipSetDevice, int device);
int hipSetDevice(int device)
{
	int result = enter_with(device);

	if (!result)
		current = device;
	return result;
}

DECLARE(hipDeviceReset, void);
int hipDeviceReset(void)
{
	int result = enter();

	pthread_mutex_lock(&lock);
	for (int i = 0; i < BLOCKS_MAX && !result; i++)
		if (block[i].device == current)
			block[i].at = 0;
	pthread_mutex_unlock(&lock);
	return result;
}

static struct uuid uuid_of(int device)
{
	struct uuid uuid;
	char text[17];

	snprintf(text, sizeof(text), "fa5e0000000000%02x", device & 0xff);
	memcpy(uuid.bytes, text, sizeof(uuid.bytes));
	return uuid;
}

DECLARE(hipDeviceGetUuid, struct uuid *, int);
int hipDeviceGetUuid(struct uuid *to, int device)
{
	int result = enter_with(device);

	if (!result)
		*to = uuid_of(device);
	return result;
}

DECLARE(hipDeviceGetPCIBusId, char *, int, int);
int hipDeviceGetPCIBusId(char *to, int len, int device)
{
	int result = enter_with(device);

	if (!result)
		snprintf(to, (size_t)len, "0000:c%x:00.0", (unsigned)device);
	return result;
}

DECLARE(hipDeviceTotalMem, size_t *, int);
int hipDeviceTotalMem(size_t *to, int device)
{
	int result = enter_with(device);

	if (!result)
		*to = TOTAL;
	return result;
}

DECLARE(hipGetDevicePropertiesR0600, struct properties *, int);
int hipGetDevicePropertiesR0600(struct properties *to, int device)
{
	int result = enter_with(device);

	if (!result)
		*to = (struct properties){.name = "stand-in", .uuid = uuid_of(device), .total = TOTAL};
	return result;
}

DECLARE(hipMemGetInfo, size_t *, size_t *);
int hipMemGetInfo(size_t *free, size_t *total)
{
	*free = *total = TOTAL;
	return enter();
}

/* ---- memory ---- */

#define ALLOCATES(name, ...)                                                                                           \
	DECLARE(name, void **to, size_t bytes, ##__VA_ARGS__);                                                         \
	int name(void **to, size_t bytes, ##__VA_ARGS__)                                                               \
	{                                                                                                              \
		return block_add(to, bytes, current);                                                                  \
	}
ALLOCATES(hipMalloc)
ALLOCATES(hipExtMallocWithFlags, unsigned flags)
ALLOCATES(hipMallocManaged, unsigned flags)
ALLOCATES(hipMallocAsync, void *stream)
ALLOCATES(hipMallocFromPoolAsync, void *pool, void *stream)
ALLOCATES(hipHostMalloc, unsigned flags)
ALLOCATES(hipHostAlloc, unsigned flags)
ALLOCATES(hipMallocHost)

/* As in ROCm 5: by the exported name. */
DECLARE(hipMemAllocHost, void **, size_t);
int hipMemAllocHost(void **to, size_t bytes)
{
	return hipHostMalloc(to, bytes, 0);
}

#define ALLOCATES_ROWS(name, ...)                                                                                      \
	DECLARE(name, void **to, size_t *pitch, size_t width, size_t height, ##__VA_ARGS__);                           \
	int name(void **to, size_t *pitch, size_t width, size_t height, ##__VA_ARGS__)                                 \
	{                                                                                                              \
		*pitch = (width + PITCH - 1) / PITCH * PITCH;                                                          \
		return block_add(to, *pitch * height, current);                                                        \
	}
ALLOCATES_ROWS(hipMallocPitch)

DECLARE(hipMemAllocPitch, void **, size_t *, size_t, size_t, unsigned);
int hipMemAllocPitch(void **to, size_t *pitch, size_t width, size_t height, unsigned element)
{
	return hipMallocPitch(to, pitch, width, height);
}

#define FREES(name, ...)                                                                                               \
	DECLARE(name, void *at, ##__VA_ARGS__);                                                                        \
	int name(void *at, ##__VA_ARGS__)                                                                              \
	{                                                                                                              \
		return block_remove(at);                                                                               \
	}
FREES(hipFreeAsync, void *stream)
FREES(hipHostFree)
FREES(hipFreeHost)
FREES(hipMemRelease)

DECLARE(hipFree, void *);
int hipFree(void *at)
{
	if (sleep_us)
		usleep((useconds_t)sleep_us);
	return block_remove(at);
}

DECLARE(hipMemCreate, void **, size_t, const struct allocation *, unsigned long long);
int hipMemCreate(void **to, size_t bytes, const struct allocation *of, unsigned long long flags)
{
	return block_add(to, bytes, of->location.id);
}

DECLARE(hipMemRetainAllocationHandle, void **, void *);
int hipMemRetainAllocationHandle(void **to, void *at)
{
	*to = at;
	return enter();
}

DECLARE(hipMemImportFromShareableHandle, void **, void *, int);
int hipMemImportFromShareableHandle(void **to, void *handle, int type)
{
	return block_add(to, 0, current);
}

/* ---- contexts: as many as devices, each a pointer ---- */

static char contexts[DEVICES_MAX];

DECLARE(hipDevicePrimaryCtxRetain, void **, int);
int hipDevicePrimaryCtxRetain(void **to, int device)
{
	int result = enter_with(device);

	if (!result)
		*to = &contexts[device];
	return result;
}

DECLARE(hipCtxCreate, void **, unsigned, int);
int hipCtxCreate(void **to, unsigned flags, int device)
{
	int result = enter_with(device);

	if (!result)
		*to = &contexts[device];
	return result;
}

/* ---- what does nothing here ---- */

#define CALL(name, ...)                                                                                                \
	DECLARE(name, __VA_ARGS__);                                                                                    \
	int name(__VA_ARGS__)                                                                                          \
	{                                                                                                              \
		return enter();                                                                                        \
	}
#define WAITS(name, ...)                                                                                               \
	DECLARE(name, __VA_ARGS__);                                                                                    \
	int name(__VA_ARGS__)                                                                                          \
	{                                                                                                              \
		return wait_for_gpu();                                                                                 \
	}

CALL(hipCtxSetCurrent, void *context)
CALL(hipCtxPushCurrent, void *context)
CALL(hipCtxPopCurrent, void **context)
CALL(hipCtxDestroy, void *context)
CALL(hipDevicePrimaryCtxReset, int device)
WAITS(hipCtxSynchronize, void)
CALL(hipHostRegister, void *at, size_t bytes, unsigned flags)
CALL(hipHostUnregister, void *at)
CALL(hipMemMap, void *at, size_t bytes, size_t offset, void *handle, unsigned long long flags)
CALL(hipMemUnmap, void *at, size_t bytes)

#define LAUNCHES(name, ...)                                                                                            \
	CALL(name, const void *f, struct dim3 blocks, struct dim3 threads, void **args, size_t shared, void *stream,   \
		##__VA_ARGS__)
LAUNCHES(hipLaunchKernel)
LAUNCHES(hipLaunchKernel_spt)
LAUNCHES(hipLaunchCooperativeKernel)
LAUNCHES(hipLaunchCooperativeKernel_spt)
LAUNCHES(hipExtLaunchKernel, void *start, void *stop, int flags)
#define LAUNCHES_MODULE(name, ...)                                                                                     \
	CALL(name, void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,              \
		unsigned shared, void *stream, void **args, ##__VA_ARGS__)
LAUNCHES_MODULE(hipModuleLaunchKernel, void **extra)
LAUNCHES_MODULE(hipModuleLaunchCooperativeKernel)
LAUNCHES_MODULE(hipExtModuleLaunchKernel, void **extra, void *start, void *stop, unsigned flags)
/* Under their C++ names alone in ROCm 5. */
#define ext_of_5 _Z24hipExtModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_j
#define hcc_of_5 _Z24hipHccModuleLaunchKernelP18ihipModuleSymbol_tjjjjjjmP12ihipStream_tPPvS4_P11ihipEvent_tS6_
LAUNCHES_MODULE(ext_of_5, void **extra, void *start, void *stop, unsigned flags)
LAUNCHES_MODULE(hcc_of_5, void **extra, void *start, void *stop)
CALL(hipLaunchKernelExC, const void *config, const void *f, void **args)
CALL(hipDrvLaunchKernelEx, const void *config, void *f, void **args, void **extra)
CALL(hipGraphLaunch, void *graph, void *stream)
CALL(hipGraphLaunch_spt, void *graph, void *stream)
CALL(hipStreamBeginCapture, void *stream, int mode)
CALL(hipStreamBeginCapture_spt, void *stream, int mode)
CALL(hipStreamBeginCaptureToGraph, void *stream, void *graph, const void *nodes, const void *data, size_t count,
	int mode)
CALL(hipStreamEndCapture, void *stream, void **graph)
CALL(hipStreamEndCapture_spt, void *stream, void **graph)

WAITS(hipStreamSynchronize, void *stream)
WAITS(hipStreamSynchronize_spt, void *stream)
WAITS(hipEventSynchronize, void *event)
WAITS(hipDeviceSynchronize, void)

WAITS(hipMemcpy, void *to, const void *from, size_t bytes, int kind)
WAITS(hipMemcpy_spt, void *to, const void *from, size_t bytes, int kind)
WAITS(hipMemcpyWithStream, void *to, const void *from, size_t bytes, int kind, void *stream)
CALL(hipMemcpyAsync, void *to, const void *from, size_t bytes, int kind, void *stream)
CALL(hipMemcpyAsync_spt, void *to, const void *from, size_t bytes, int kind, void *stream)
WAITS(hipMemcpyHtoD, void *to, const void *from, size_t bytes)
WAITS(hipMemcpyDtoH, void *to, const void *from, size_t bytes)
WAITS(hipMemcpyDtoD, void *to, const void *from, size_t bytes)
CALL(hipMemcpyHtoDAsync, void *to, const void *from, size_t bytes, void *stream)
CALL(hipMemcpyDtoHAsync, void *to, const void *from, size_t bytes, void *stream)
CALL(hipMemcpyDtoDAsync, void *to, const void *from, size_t bytes, void *stream)
#define SYMBOL const void *symbol, const void *from, size_t bytes, size_t offset, int kind
WAITS(hipMemcpyToSymbol, SYMBOL)
WAITS(hipMemcpyToSymbol_spt, SYMBOL)
WAITS(hipMemcpyFromSymbol, SYMBOL)
WAITS(hipMemcpyFromSymbol_spt, SYMBOL)
CALL(hipMemcpyToSymbolAsync, SYMBOL, void *stream)
CALL(hipMemcpyToSymbolAsync_spt, SYMBOL, void *stream)
CALL(hipMemcpyFromSymbolAsync, SYMBOL, void *stream)
CALL(hipMemcpyFromSymbolAsync_spt, SYMBOL, void *stream)
WAITS(hipMemcpyPeer, void *to, int to_device, const void *from, int from_device, size_t bytes)
CALL(hipMemcpyPeerAsync, void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream)
#define ROWS void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind
WAITS(hipMemcpy2D, ROWS)
WAITS(hipMemcpy2D_spt, ROWS)
CALL(hipMemcpy2DAsync, ROWS, void *stream)
CALL(hipMemcpy2DAsync_spt, ROWS, void *stream)
WAITS(hipMemcpyParam2D, const void *box)
WAITS(hipDrvMemcpy2DUnaligned, const void *box)
CALL(hipMemcpyParam2DAsync, const void *box, void *stream)
WAITS(hipMemcpy3D, const void *box)
WAITS(hipMemcpy3D_spt, const void *box)
CALL(hipMemcpy3DAsync, const void *box, void *stream)
CALL(hipMemcpy3DAsync_spt, const void *box, void *stream)

CALL(hipMemset, void *at, int value, size_t bytes)
CALL(hipMemset_spt, void *at, int value, size_t bytes)
CALL(hipMemsetAsync, void *at, int value, size_t bytes, void *stream)
CALL(hipMemsetAsync_spt, void *at, int value, size_t bytes, void *stream)
CALL(hipMemsetD8, void *at, unsigned char value, size_t count)
CALL(hipMemsetD16, void *at, unsigned short value, size_t count)
CALL(hipMemsetD32, void *at, int value, size_t count)
CALL(hipMemsetD8Async, void *at, unsigned char value, size_t count, void *stream)
CALL(hipMemsetD16Async, void *at, unsigned short value, size_t count, void *stream)
CALL(hipMemsetD32Async, void *at, int value, size_t count, void *stream)
CALL(hipMemset2D, void *at, size_t pitch, int value, size_t width, size_t height)
CALL(hipMemset2D_spt, void *at, size_t pitch, int value, size_t width, size_t height)
CALL(hipMemset2DAsync, void *at, size_t pitch, int value, size_t width, size_t height, void *stream)
CALL(hipMemset2DAsync_spt, void *at, size_t pitch, int value, size_t width, size_t height, void *stream)

CALL(hipModuleLoad, void **module, const char *path)
CALL(hipModuleLoadData, void **module, const void *image)
CALL(hipModuleLoadDataEx, void **module, const void *image, unsigned count, int *options, void **values)
CALL(hipModuleGetFunction, void **f, void *module, const char *name)
CALL(hipGraphInstantiate, void **exec, void *graph, void *node, char *log, size_t bytes)
CALL(hipGraphInstantiateWithFlags, void **exec, void *graph, unsigned long long flags)
CALL(hipGraphInstantiateWithParams, void **exec, void *graph, void *params)
CALL(hipGraphExecUpdate, void *exec, void *graph, void **node, int *result)
CALL(hipGraphUpload, void *exec, void *stream)
