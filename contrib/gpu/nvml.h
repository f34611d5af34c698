/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nvml.h: what zernel-gpu uses of NVIDIA's management library, declared by ourselves. Names, meanings and parameters
 * are those of its public reference ("NVML API Reference Guide"), which does not have all numbers: those, the order of
 * fields and the versions of structs were held against the nvml.h of CUDA toolkits and of bindings for other languages
 * that are public, for drivers from 418 to 595. The library keeps them from one driver to the next: a struct that grew
 * has another function, whose name ends in _v2 or _v3. tests/fake/nvml.c was written from this file, so it does not
 * prove it; a real library has not been asked yet (docs/GPU.md).
 */
#ifndef ZERNEL_GPU_NVML_H
#define ZERNEL_GPU_NVML_H

#include <stddef.h>
#include <stdint.h>

enum nvml_result {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_NOT_SUPPORTED = 3,
	NVML_NO_PERMISSION = 4,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_LIBRARY_NOT_FOUND = 12,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_IS_LOST = 15,
	NVML_RESET_REQUIRED = 16,
	NVML_VERSION_MISMATCH = 18,
	NVML_UNKNOWN = 999,
};

typedef struct nvml_device *nvml_device; /* opaque */
typedef struct nvml_sample *nvml_sample; /* opaque, of GPM */

/* The beginning is alike in all versions; the rest differs in length. */
struct nvml_pci {
	char legacy[16];
	unsigned domain, bus, device;
	char rest[100];
};
struct nvml_use {
	unsigned gpu, memory; /* percent */
};
struct nvml_memory {
	unsigned long long total, free, used;
};
struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
#define NVML_MEMORY_V2 (sizeof(struct nvml_memory_v2) | 2U << 24)

struct nvml_field {
	unsigned id, scope;
	long long timestamp, latency;
	unsigned type;
	int result;
	union {
		double real;
		unsigned u32;
		unsigned long long u64;
		long long s64;
		int s32;
	} value;
};
enum { NVML_TYPE_REAL, NVML_TYPE_U32, NVML_TYPE_ULONG, NVML_TYPE_U64, NVML_TYPE_S64, NVML_TYPE_S32 };
enum nvml_field_id {
	NVML_RETIRED_SBE = 29,
	NVML_RETIRED_DBE = 30,
	NVML_MEMORY_TEMPERATURE = 82,
	NVML_NVLINK_SENT = 138, /* KiB of data; scope: a link, or all of them */
	NVML_NVLINK_RECEIVED = 139,
};
#define NVML_ALL_LINKS (~0U)

/* Drivers 530 to 535.43 added a number of 8 bytes to it without another name; later ones took it away again. */
struct nvml_process {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};
#define NVML_NO_VALUE (~0ULL)

enum { NVML_TEMPERATURE_GPU = 0 };
enum { NVML_CLOCK_SM = 1, NVML_CLOCK_MEMORY = 2 };
enum { NVML_ECC_CORRECTED = 0, NVML_ECC_UNCORRECTED = 1 };
enum { NVML_ECC_SINCE_LOADED = 0 };
enum { NVML_PCIE_SENT = 0, NVML_PCIE_RECEIVED = 1 };

/* GPM: activity of the units of a GPU between two samples, on Hopper and later. */
struct nvml_gpm_support {
	unsigned version, supported;
};
struct nvml_gpm_metric {
	unsigned id;
	int result;
	double value;
	char *names[3];
};
#define NVML_GPM_METRICS_MAX 512 /* more than any version has: the library reads and writes count of them */
struct nvml_gpm_get {
	unsigned version, count;
	nvml_sample from, to;
	struct nvml_gpm_metric metric[NVML_GPM_METRICS_MAX];
};
#define NVML_GPM_VERSION 1
enum nvml_gpm_id {
	NVML_GPM_SM = 2, /* percent */
	NVML_GPM_TENSOR = 5,
	NVML_GPM_DRAM = 10,
	NVML_GPM_PCIE_SENT = 20, /* MiB/s */
	NVML_GPM_PCIE_RECEIVED = 21,
};

/* name here, parameters, name there, and what older drivers have in its place with the same parameters. */
#define NVML_FUNCTIONS(X)                                                                                              \
	X(init, (void), "nvmlInit_v2", "nvmlInit", "")                                                                 \
	X(driver, (char *, unsigned), "nvmlSystemGetDriverVersion", "", "")                                            \
	X(count, (unsigned *), "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount", "")                                      \
	X(handle, (unsigned, nvml_device *), "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex", "")        \
	X(pci, (nvml_device, struct nvml_pci *), "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2",                 \
		"nvmlDeviceGetPciInfo")                                                                                \
	X(uuid, (nvml_device, char *, unsigned), "nvmlDeviceGetUUID", "", "")                                          \
	X(name, (nvml_device, char *, unsigned), "nvmlDeviceGetName", "", "")                                          \
	X(use, (nvml_device, struct nvml_use *), "nvmlDeviceGetUtilizationRates", "", "")                              \
	X(memory, (nvml_device, struct nvml_memory *), "nvmlDeviceGetMemoryInfo", "", "")                              \
	X(memory_v2, (nvml_device, struct nvml_memory_v2 *), "nvmlDeviceGetMemoryInfo_v2", "", "")                     \
	X(power, (nvml_device, unsigned *), "nvmlDeviceGetPowerUsage", "", "")                                         \
	X(power_limit, (nvml_device, unsigned *), "nvmlDeviceGetEnforcedPowerLimit", "", "")                           \
	X(energy, (nvml_device, unsigned long long *), "nvmlDeviceGetTotalEnergyConsumption", "", "")                  \
	X(temperature, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetTemperature", "", "")                        \
	X(clock, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetClockInfo", "", "")                                \
	X(throttle, (nvml_device, unsigned long long *), "nvmlDeviceGetCurrentClocksEventReasons",                     \
		"nvmlDeviceGetCurrentClocksThrottleReasons", "")                                                       \
	X(ecc, (nvml_device, unsigned, unsigned, unsigned long long *), "nvmlDeviceGetTotalEccErrors", "", "")         \
	X(remapped, (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *), "nvmlDeviceGetRemappedRows", "",    \
		"")                                                                                                    \
	X(fields, (nvml_device, int, struct nvml_field *), "nvmlDeviceGetFieldValues", "", "")                         \
	X(replays, (nvml_device, unsigned *), "nvmlDeviceGetPcieReplayCounter", "", "")                                \
	X(throughput, (nvml_device, unsigned, unsigned *), "nvmlDeviceGetPcieThroughput", "", "")                      \
	X(mig_mode, (nvml_device, unsigned *, unsigned *), "nvmlDeviceGetMigMode", "", "")                             \
	X(mig_count, (nvml_device, unsigned *), "nvmlDeviceGetMaxMigDeviceCount", "", "")                              \
	X(mig_handle, (nvml_device, unsigned, nvml_device *), "nvmlDeviceGetMigDeviceHandleByIndex", "", "")           \
	X(gpu_instance, (nvml_device, unsigned *), "nvmlDeviceGetGpuInstanceId", "", "")                               \
	X(compute_instance, (nvml_device, unsigned *), "nvmlDeviceGetComputeInstanceId", "", "")                       \
	X(processes, (nvml_device, unsigned *, void *), "nvmlDeviceGetComputeRunningProcesses_v3",                     \
		"nvmlDeviceGetComputeRunningProcesses_v2", "")                                                         \
	X(gpm_support, (nvml_device, struct nvml_gpm_support *), "nvmlGpmQueryDeviceSupport", "", "")                  \
	X(gpm_alloc, (nvml_sample *), "nvmlGpmSampleAlloc", "", "")                                                    \
	X(gpm_sample, (nvml_device, nvml_sample), "nvmlGpmSampleGet", "", "")                                          \
	X(gpm_metrics, (struct nvml_gpm_get *), "nvmlGpmMetricsGet", "", "")

/* NULL: this driver's library has no such function. */
struct nvml {
#define X(name, parameters, ...) int(*name) parameters;
	NVML_FUNCTIONS(X)
#undef X
};

_Static_assert(offsetof(struct nvml_pci, domain) == 16 && offsetof(struct nvml_pci, device) == 24 &&
		sizeof(struct nvml_pci) >= 68,
	"as in the library, of which the longest has 68");
_Static_assert(sizeof(struct nvml_memory_v2) == 40 && NVML_MEMORY_V2 == 0x2000028, "as in the library");
_Static_assert(sizeof(struct nvml_field) == 40, "as in the library");
_Static_assert(sizeof(struct nvml_process) == 24, "as in the library");
_Static_assert(sizeof(struct nvml_gpm_metric) == 40, "as in the library");
_Static_assert(offsetof(struct nvml_gpm_get, from) == 8 && offsetof(struct nvml_gpm_get, metric) == 24, "likewise");
#endif
