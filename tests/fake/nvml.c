/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nvml.c: stands in for NVIDIA's management library. What it is like says the file that FAKE_NVML names, at each call:
 *   gpus N            so many; 2
 *   mig N             GPU 0 has so many instances
 *   lost N            GPU N has fallen off the bus; the second one is 1
 *   process PID       has memory on each GPU, and so has 4242; "long 1": as drivers 530 to 535.43 say it
 *   FUNCTION CODE     this function, without "nvml" and "DeviceGet", returns CODE
 *   hang FUNCTION     this one does not come back before the file says otherwise
 *   slow N            each call takes so many milliseconds
 * With FAKE_OLD it lacks what a driver of 2018 lacked, and has the first form of what was renamed since.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct fake_gpu {
	unsigned index, instance; /* instance: from 1; 0: the whole GPU */
} * device;

static struct fake_gpu whole[64];
#ifndef FAKE_OLD
static struct fake_gpu part[64][8];
#endif

/* The number behind a line's beginning, or -1. */
static long setting(const char *name)
{
	const char *path = getenv("FAKE_NVML");
	FILE *file = path ? fopen(path, "re") : NULL;
	char line[128];
	long found = -1;
	size_t len = strlen(name);

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, len) && line[len] == ' ')
			found = strtol(line + len + 1, NULL, 10);
	if (file)
		fclose(file);
	return found;
}

static int hangs(const char *function)
{
	const char *path = getenv("FAKE_NVML");
	FILE *file = path ? fopen(path, "re") : NULL;
	char line[128], wanted[128];
	int found = 0;

	snprintf(wanted, sizeof(wanted), "hang %s\n", function);
	while (file && fgets(line, sizeof(line), file))
		found |= !strcmp(line, wanted);
	if (file)
		fclose(file);
	return found;
}

static int answer(const char *function, device d)
{
	long code = setting(function);

	while (hangs(function))
		usleep(20000);
	if (setting("slow") > 0)
		usleep((useconds_t)setting("slow") * 1000);
	if (code >= 0)
		return (int)code;
	return d && setting("lost") == (long)d->index ? 15 : 0;
}

/* What a function begins with: d is the GPU that may be lost, or NULL. */
#define BEGIN(short_name, d)                                                                                           \
	int result_ = answer(short_name, d);                                                                           \
	if (result_)                                                                                                   \
		return result_;

/* A function that answers with one number. */
#define NUMBER(short_name, type, value)                                                                                \
	EXPORT int nvmlDeviceGet##short_name(device d, type *to);                                                      \
	int nvmlDeviceGet##short_name(device d, type *to)                                                              \
	{                                                                                                              \
		BEGIN(#short_name, d)                                                                                  \
		*to = value;                                                                                           \
		return 0;                                                                                              \
	}

EXPORT int nvmlSystemGetDriverVersion(char *to, unsigned len);
int nvmlSystemGetDriverVersion(char *to, unsigned len)
{
	BEGIN("SystemGetDriverVersion", NULL)
	snprintf(to, len, "550.54.15");
	return 0;
}

static unsigned gpu_count(void)
{
	long n = setting("gpus");

	return n < 0 ? 2 : (unsigned)n;
}

static int init(void)
{
	BEGIN("Init", NULL)
	return 0;
}

static int count(unsigned *n)
{
	BEGIN("Count", NULL)
	*n = gpu_count();
	return 0;
}

static int handle(unsigned i, device *d)
{
	BEGIN("HandleByIndex", NULL)
	if (i >= gpu_count())
		return 2;
	whole[i].index = i;
	*d = &whole[i];
	return 0;
}

static int pci(device d, void *to, int bytes)
{
	struct {
		char legacy[16];
		unsigned domain, bus, device, id, subsystem;
		char bus_id[32];
	} p = {.domain = 0, .bus = 0x1b + d->index, .device = 0};

	BEGIN("PciInfo", NULL)
	memcpy(to, &p, (size_t)bytes);
	return 0;
}

#ifdef FAKE_OLD
#define RENAMED(old, new) old
#else
#define RENAMED(old, new) new
#endif

EXPORT int RENAMED(nvmlInit, nvmlInit_v2)(void);
int RENAMED(nvmlInit, nvmlInit_v2)(void)
{
	return init();
}

EXPORT int RENAMED(nvmlDeviceGetCount, nvmlDeviceGetCount_v2)(unsigned *n);
int RENAMED(nvmlDeviceGetCount, nvmlDeviceGetCount_v2)(unsigned *n)
{
	return count(n);
}

EXPORT int RENAMED(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2)(unsigned i, device *d);
int RENAMED(nvmlDeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2)(unsigned i, device *d)
{
	return handle(i, d);
}

EXPORT int RENAMED(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v3)(device d, void *to);
int RENAMED(nvmlDeviceGetPciInfo, nvmlDeviceGetPciInfo_v3)(device d, void *to)
{
	return pci(d, to, RENAMED(36, 68));
}

EXPORT int nvmlDeviceGetUUID(device d, char *to, unsigned len);
int nvmlDeviceGetUUID(device d, char *to, unsigned len)
{
	BEGIN("UUID", NULL)
	snprintf(to, len, d->instance ? "MIG-%08x-%04x" : "GPU-%08x-%04x", 0x11111111 * (d->index + 1), d->instance);
	return 0;
}

EXPORT int nvmlDeviceGetName(device d, char *to, unsigned len);
int nvmlDeviceGetName(device d, char *to, unsigned len)
{
	BEGIN("Name", NULL)
	snprintf(to, len, d->instance ? "NVIDIA H100 MIG 1g.10gb" : "NVIDIA H100 80GB HBM3");
	return 0;
}

EXPORT int nvmlDeviceGetUtilizationRates(device d, unsigned to[2]);
int nvmlDeviceGetUtilizationRates(device d, unsigned to[2])
{
	BEGIN("UtilizationRates", d)
	to[0] = 87 - d->index;
	to[1] = 41;
	return 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(device d, unsigned long long to[3]);
int nvmlDeviceGetMemoryInfo(device d, unsigned long long to[3])
{
	BEGIN("MemoryInfo", d)
	to[0] = d->instance ? 10ULL << 30 : 80ULL << 30;
	to[2] = (d->instance ? 1ULL : 21ULL) << 30;
	to[1] = to[0] - to[2];
	return 0;
}

NUMBER(PowerUsage, unsigned, 413207)
NUMBER(EnforcedPowerLimit, unsigned, 700000)
NUMBER(TotalEnergyConsumption, unsigned long long, 52100000000ULL)

EXPORT int nvmlDeviceGetTemperature(device d, unsigned sensor, unsigned *to);
int nvmlDeviceGetTemperature(device d, unsigned sensor, unsigned *to)
{
	BEGIN("Temperature", d)
	*to = sensor ? 0 : 61;
	return 0;
}

EXPORT int nvmlDeviceGetClockInfo(device d, unsigned which, unsigned *to);
int nvmlDeviceGetClockInfo(device d, unsigned which, unsigned *to)
{
	BEGIN("ClockInfo", d)
	*to = which == 1 ? 1980 : 2619;
	return 0;
}

EXPORT int RENAMED(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetCurrentClocksEventReasons)(
	device d, unsigned long long *to);
int RENAMED(nvmlDeviceGetCurrentClocksThrottleReasons, nvmlDeviceGetCurrentClocksEventReasons)(
	device d, unsigned long long *to)
{
	BEGIN("CurrentClocksEventReasons", d)
	*to = 0x4 | 0x20;
	return 0;
}

EXPORT int nvmlDeviceGetTotalEccErrors(device d, unsigned kind, unsigned since, unsigned long long *to);
int nvmlDeviceGetTotalEccErrors(device d, unsigned kind, unsigned since, unsigned long long *to)
{
	BEGIN("TotalEccErrors", d)
	*to = since ? 99 : kind ? 3 : 17;
	return 0;
}

NUMBER(PcieReplayCounter, unsigned, 5)

EXPORT int nvmlDeviceGetPcieThroughput(device d, unsigned which, unsigned *to);
int nvmlDeviceGetPcieThroughput(device d, unsigned which, unsigned *to)
{
	BEGIN("PcieThroughput", d)
	*to = which ? 2000 : 1000;
	return 0;
}

#ifndef FAKE_OLD
EXPORT int nvmlDeviceGetMemoryInfo_v2(device d, void *to);
int nvmlDeviceGetMemoryInfo_v2(device d, void *to)
{
	struct {
		unsigned version;
		unsigned long long total, reserved, free, used;
	} *m = to;

	BEGIN("MemoryInfo_v2", d)
	if (m->version != (40 | 2 << 24))
		return 25;
	m->total = 80ULL << 30;
	m->reserved = 1ULL << 30;
	m->used = 20ULL << 30;
	m->free = 59ULL << 30;
	return 0;
}

EXPORT int nvmlDeviceGetRemappedRows(device d, unsigned *a, unsigned *b, unsigned *c, unsigned *e);
int nvmlDeviceGetRemappedRows(device d, unsigned *a, unsigned *b, unsigned *c, unsigned *e)
{
	BEGIN("RemappedRows", d)
	*a = 1, *b = 2, *c = 1, *e = 0;
	return 0;
}

struct field {
	unsigned id, scope;
	long long timestamp, latency;
	unsigned type;
	int result;
	unsigned long long value;
};

EXPORT int nvmlDeviceGetFieldValues(device d, int n, struct field *f);
int nvmlDeviceGetFieldValues(device d, int n, struct field *f)
{
	BEGIN("FieldValues", d)
	for (int i = 0; i < n; i++) {
		f[i].result = 0;
		f[i].type = f[i].id == 82 ? 1 : 3;
		if (f[i].id == 82)
			f[i].value = 0xdead00000000 | 73; /* what is beyond the number is of another type */
		else if (f[i].scope == UINT_MAX && (f[i].id == 138 || f[i].id == 139))
			f[i].value = f[i].id == 138 ? 1000 : 3000;
		else
			f[i].result = 3;
	}
	return 0;
}

EXPORT int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *later);
int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *later)
{
	BEGIN("MigMode", d)
	*now = *later = d->index == 0 && setting("mig") > 0;
	return 0;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *n);
int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *n)
{
	BEGIN("MaxMigDeviceCount", d)
	*n = 7;
	return 0;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *to);
int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *to)
{
	BEGIN("MigDeviceHandleByIndex", d)
	if ((long)i >= setting("mig"))
		return 6;
	part[d->index][i] = (struct fake_gpu){d->index, i + 1};
	*to = &part[d->index][i];
	return 0;
}

NUMBER(GpuInstanceId, unsigned, d->instance + 6)
NUMBER(ComputeInstanceId, unsigned, 0)

/* The process that "process" names has memory on each GPU; with "long" each entry has 8 bytes more, as with 530.41. */
EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *n, unsigned char *to);
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *n, unsigned char *to)
{
	size_t bytes = setting("long") > 0 ? 32 : 24;
	struct {
		unsigned pid;
		unsigned long long used;
		unsigned gpu_instance, compute_instance;
		unsigned long long more;
	} p = {0, 0, UINT_MAX, UINT_MAX, 0};
	unsigned room = *n;

	BEGIN("ComputeRunningProcesses", d)
	*n = 2;
	if (room < 2)
		return 7;
	for (unsigned i = 0; i < 2; i++) {
		p.pid = i ? 4242 : (unsigned)setting("process");
		p.used = (i + 3ULL) << 30;
		memcpy(to + i * bytes, &p, bytes);
	}
	return 0;
}

/* GPM: a sample is a number, and between two the GPU was busy as much as they differ. */
EXPORT int nvmlGpmQueryDeviceSupport(device d, unsigned to[2]);
int nvmlGpmQueryDeviceSupport(device d, unsigned to[2])
{
	BEGIN("GpmQueryDeviceSupport", d)
	to[1] = to[0] == 1;
	return 0;
}

EXPORT int nvmlGpmSampleAlloc(unsigned **to);
int nvmlGpmSampleAlloc(unsigned **to)
{
	BEGIN("GpmSampleAlloc", NULL)
	*to = calloc(1, sizeof(**to));
	return 0;
}

EXPORT int nvmlGpmSampleGet(device d, unsigned *sample);
int nvmlGpmSampleGet(device d, unsigned *sample)
{
	static unsigned number;

	BEGIN("GpmSampleGet", d)
	*sample = ++number;
	return 0;
}

EXPORT int nvmlGpmMetricsGet(void *get);
int nvmlGpmMetricsGet(void *get)
{
	struct {
		unsigned version, count;
		unsigned *from, *to;
		struct {
			unsigned id;
			int result;
			double value;
			char *names[3];
		} metric[5];
	} *g = get;

	BEGIN("GpmMetricsGet", NULL)
	if (g->version != 1 || *g->to <= *g->from)
		return 2;
	for (unsigned i = 0; i < g->count; i++) {
		g->metric[i].result = g->metric[i].id == 10 ? 3 : 0;
		g->metric[i].value = g->metric[i].id == 2 ? 62.5 : g->metric[i].id == 5 ? 40 : 2;
	}
	return 0;
}
#endif
