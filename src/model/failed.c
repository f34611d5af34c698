/* SPDX-License-Identifier: GPL-2.0 */
/*
 * failed.c: calls of CUDA and HIP that failed: the names of their results, sums over processes, and which one of a job
 * came first.
 *
 * Limits: a program may return whatever it likes from a library of its own: a result without a name is "other".
 */
#include "zernel.h"
#include <stdlib.h>
#include <string.h>

/* As CUresult of cuda.h and hipError_t of hip_runtime_api.h name them, one text after the other; 600, which only says
 * that work is not done, is no error. */
static const char cuda_names[] = "1 INVALID_VALUE\0"
				 "2 OUT_OF_MEMORY\0"
				 "3 NOT_INITIALIZED\0"
				 "4 DEINITIALIZED\0"
				 "5 PROFILER_DISABLED\0"
				 "6 PROFILER_NOT_INITIALIZED\0"
				 "7 PROFILER_ALREADY_STARTED\0"
				 "8 PROFILER_ALREADY_STOPPED\0"
				 "34 STUB_LIBRARY\0"
				 "36 CALL_REQUIRES_NEWER_DRIVER\0"
				 "46 DEVICE_UNAVAILABLE\0"
				 "100 NO_DEVICE\0"
				 "101 INVALID_DEVICE\0"
				 "102 DEVICE_NOT_LICENSED\0"
				 "200 INVALID_IMAGE\0"
				 "201 INVALID_CONTEXT\0"
				 "202 CONTEXT_ALREADY_CURRENT\0"
				 "205 MAP_FAILED\0"
				 "206 UNMAP_FAILED\0"
				 "207 ARRAY_IS_MAPPED\0"
				 "208 ALREADY_MAPPED\0"
				 "209 NO_BINARY_FOR_GPU\0"
				 "210 ALREADY_ACQUIRED\0"
				 "211 NOT_MAPPED\0"
				 "212 NOT_MAPPED_AS_ARRAY\0"
				 "213 NOT_MAPPED_AS_POINTER\0"
				 "214 ECC_UNCORRECTABLE\0"
				 "215 UNSUPPORTED_LIMIT\0"
				 "216 CONTEXT_ALREADY_IN_USE\0"
				 "217 PEER_ACCESS_UNSUPPORTED\0"
				 "218 INVALID_PTX\0"
				 "219 INVALID_GRAPHICS_CONTEXT\0"
				 "220 NVLINK_UNCORRECTABLE\0"
				 "221 JIT_COMPILER_NOT_FOUND\0"
				 "222 UNSUPPORTED_PTX_VERSION\0"
				 "223 JIT_COMPILATION_DISABLED\0"
				 "224 UNSUPPORTED_EXEC_AFFINITY\0"
				 "225 UNSUPPORTED_DEVSIDE_SYNC\0"
				 "226 CONTAINED\0"
				 "300 INVALID_SOURCE\0"
				 "301 FILE_NOT_FOUND\0"
				 "302 SHARED_OBJECT_SYMBOL_NOT_FOUND\0"
				 "303 SHARED_OBJECT_INIT_FAILED\0"
				 "304 OPERATING_SYSTEM\0"
				 "400 INVALID_HANDLE\0"
				 "401 ILLEGAL_STATE\0"
				 "402 LOSSY_QUERY\0"
				 "500 NOT_FOUND\0"
				 "700 ILLEGAL_ADDRESS\0"
				 "701 LAUNCH_OUT_OF_RESOURCES\0"
				 "702 LAUNCH_TIMEOUT\0"
				 "703 LAUNCH_INCOMPATIBLE_TEXTURING\0"
				 "704 PEER_ACCESS_ALREADY_ENABLED\0"
				 "705 PEER_ACCESS_NOT_ENABLED\0"
				 "708 PRIMARY_CONTEXT_ACTIVE\0"
				 "709 CONTEXT_IS_DESTROYED\0"
				 "710 ASSERT\0"
				 "711 TOO_MANY_PEERS\0"
				 "712 HOST_MEMORY_ALREADY_REGISTERED\0"
				 "713 HOST_MEMORY_NOT_REGISTERED\0"
				 "714 HARDWARE_STACK_ERROR\0"
				 "715 ILLEGAL_INSTRUCTION\0"
				 "716 MISALIGNED_ADDRESS\0"
				 "717 INVALID_ADDRESS_SPACE\0"
				 "718 INVALID_PC\0"
				 "719 LAUNCH_FAILED\0"
				 "720 COOPERATIVE_LAUNCH_TOO_LARGE\0"
				 "721 TENSOR_MEMORY_LEAK\0"
				 "800 NOT_PERMITTED\0"
				 "801 NOT_SUPPORTED\0"
				 "802 SYSTEM_NOT_READY\0"
				 "803 SYSTEM_DRIVER_MISMATCH\0"
				 "804 COMPAT_NOT_SUPPORTED_ON_DEVICE\0"
				 "805 MPS_CONNECTION_FAILED\0"
				 "806 MPS_RPC_FAILURE\0"
				 "807 MPS_SERVER_NOT_READY\0"
				 "808 MPS_MAX_CLIENTS_REACHED\0"
				 "809 MPS_MAX_CONNECTIONS_REACHED\0"
				 "810 MPS_CLIENT_TERMINATED\0"
				 "811 CDP_NOT_SUPPORTED\0"
				 "812 CDP_VERSION_MISMATCH\0"
				 "900 STREAM_CAPTURE_UNSUPPORTED\0"
				 "901 STREAM_CAPTURE_INVALIDATED\0"
				 "902 STREAM_CAPTURE_MERGE\0"
				 "903 STREAM_CAPTURE_UNMATCHED\0"
				 "904 STREAM_CAPTURE_UNJOINED\0"
				 "905 STREAM_CAPTURE_ISOLATION\0"
				 "906 STREAM_CAPTURE_IMPLICIT\0"
				 "907 CAPTURED_EVENT\0"
				 "908 STREAM_CAPTURE_WRONG_THREAD\0"
				 "909 TIMEOUT\0"
				 "910 GRAPH_EXEC_UPDATE_FAILURE\0"
				 "911 EXTERNAL_DEVICE\0"
				 "912 INVALID_CLUSTER_SIZE\0"
				 "913 FUNCTION_NOT_LOADED\0"
				 "914 INVALID_RESOURCE_TYPE\0"
				 "915 INVALID_RESOURCE_CONFIGURATION\0"
				 "916 KEY_ROTATION\0"
				 "999 UNKNOWN\0";
static const char hip_names[] = "1 InvalidValue\0"
				"2 OutOfMemory\0"
				"3 NotInitialized\0"
				"4 Deinitialized\0"
				"9 InvalidConfiguration\0"
				"17 InvalidDevicePointer\0"
				"35 InsufficientDriver\0"
				"53 PriorLaunchFailure\0"
				"98 InvalidDeviceFunction\0"
				"100 NoDevice\0"
				"101 InvalidDevice\0"
				"200 InvalidImage\0"
				"201 InvalidContext\0"
				"209 NoBinaryForGpu\0"
				"214 ECCNotCorrectable\0"
				"217 PeerAccessUnsupported\0"
				"304 OperatingSystem\0"
				"400 InvalidHandle\0"
				"401 IllegalState\0"
				"500 NotFound\0"
				"700 IllegalAddress\0"
				"701 LaunchOutOfResources\0"
				"702 LaunchTimeOut\0"
				"704 PeerAccessAlreadyEnabled\0"
				"705 PeerAccessNotEnabled\0"
				"709 ContextIsDestroyed\0"
				"710 Assert\0"
				"712 HostMemoryAlreadyRegistered\0"
				"713 HostMemoryNotRegistered\0"
				"719 LaunchFailure\0"
				"720 CooperativeLaunchTooLarge\0"
				"801 NotSupported\0"
				"900 StreamCaptureUnsupported\0"
				"901 StreamCaptureInvalidated\0"
				"906 StreamCaptureImplicit\0"
				"910 GraphExecUpdateFailure\0"
				"999 Unknown\0"
				"1052 RuntimeMemory\0"
				"1053 RuntimeOther\0";

static const char *name_of(const char *names, uint32_t result)
{
	char *name;

	for (; *names; names += strlen(names) + 1)
		if (strtoul(names, &name, 10) == result)
			return name + 1;
	return NULL;
}

void zn_failed_name(uint32_t key, char to[ZN_FAILED_NAME])
{
	bool hip = key & ZN_FAILED_HIP;
	const char *name = name_of(hip ? hip_names : cuda_names, ZN_FAILED_RESULT(key));

	if (name)
		snprintf(to, ZN_FAILED_NAME, "%s%s", hip ? "hipError" : "CUDA_ERROR_", name);
	else
		snprintf(to, ZN_FAILED_NAME, "other");
}

struct zn_failed *zn_failed_of(struct zn_arena *a, uint32_t row, const struct zn_proc *p)
{
	return p->count[ZN_C_CUDA_ERRORS] || p->count[ZN_C_RDMA_ERRORS] ? zn_arena_failed(a, row) : NULL;
}

bool zn_failed_is_fatal(uint32_t key)
{
	return zn_failed_takes_context(ZN_FAILED_RESULT(key));
}

static bool add_to(uint64_t *count, uint32_t *keys, int from, int to, uint32_t key, uint64_t n)
{
	int at = zn_key_place(keys, from, to, key);

	if (at >= 0)
		count[at] += n;
	return at >= 0;
}

/* As BPF finds a place for one. */
void zn_failed_count(struct zn_failed *f, uint32_t key, uint64_t n)
{
	uint32_t of_any_call = key & (ZN_FAILED_HIP | ZN_FAILED_RESULT_MAX);

	if (!add_to((uint64_t *)f->count, f->key, 0, ZN_FAILED_PAIRS, key, n))
		add_to((uint64_t *)f->count, f->key, ZN_FAILED_PAIRS, ZN_FAILED_CUDA, of_any_call, n);
}

/* Sums are by result, whatever the call. The last places are for results that take a context; what has no name is told
 * as "other" without a place. */
static void add_result(struct zn_failed *to, uint32_t key, uint64_t n)
{
	uint32_t result = key & (ZN_FAILED_HIP | ZN_FAILED_RESULT_MAX);

	if (!name_of(key & ZN_FAILED_HIP ? hip_names : cuda_names, ZN_FAILED_RESULT(key)))
		return;
	if (!add_to((uint64_t *)to->count, to->key, 0, ZN_FAILED_PAIRS, result, n) && zn_failed_is_fatal(result))
		add_to((uint64_t *)to->count, to->key, ZN_FAILED_PAIRS, ZN_FAILED_CUDA, result, n);
}

void zn_failed_add(struct zn_failed *to, const struct zn_failed *from)
{
	for (uint32_t i = 0; i < ZN_FAILED_CUDA; i++)
		if (from->key[i])
			add_result(to, from->key[i], from->count[i]);
	zn_rdma_add(to, from);
}

uint32_t zn_failed_results(const struct zn_failed *f, uint64_t all, struct zn_failed_result to[ZN_FAILED_RESULTS])
{
	uint64_t count[ZN_FAILED_CUDA] = {0}, named = 0;
	uint32_t key[ZN_FAILED_CUDA] = {0}, n = 0;
	char name[ZN_FAILED_NAME];

	for (uint32_t i = 0; i < ZN_FAILED_CUDA; i++) {
		uint32_t result = f->key[i] & (ZN_FAILED_HIP | ZN_FAILED_RESULT_MAX);

		if (!f->key[i])
			continue;
		zn_failed_name(result, name);
		if (strcmp(name, "other") && add_to(count, key, 0, ZN_FAILED_CUDA, result, f->count[i]))
			named += f->count[i];
	}
	for (; n < ZN_FAILED_CUDA && key[n]; n++)
		to[n] = (struct zn_failed_result){key[n], count[n]};
	if (all > named)
		to[n++] = (struct zn_failed_result){0, all - named};
	return n;
}

bool zn_failed_last(const struct zn_failed *f, const struct zn_proc *p, struct zn_failed_call *to)
{
	*to = (struct zn_failed_call){
		.pid = p->tgid, .key = f->since_key, .since_ns = f->since_ns, .last_ns = f->last_ns};
	memcpy(to->comm, p->comm, sizeof(to->comm) - 1);
	return to->key && to->since_ns;
}

bool zn_failed_before(const struct zn_failed_call *a, const struct zn_failed_call *b)
{
	bool fatal_a = zn_failed_is_fatal(a->key), fatal_b = zn_failed_is_fatal(b->key);

	if (!a->key || !b->key)
		return a->key != 0;
	return fatal_a != fatal_b ? fatal_a : a->since_ns < b->since_ns;
}
