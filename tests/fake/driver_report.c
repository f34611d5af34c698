/* SPDX-License-Identifier: GPL-2.0 */
/*
 * driver_report.c: what was done, as one JSON object.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"

static const char *const kind_name[] = {"device", "managed", "async", "pool", "vmm", "host"};
static const char *const launch_name[] = {"kernel", "graph", "cooperative", "captured"};
static const char *const direction_name[] = {"htod", "dtoh", "dtod", "other"};
const char *const sync_name[] = {
	"stream_synchronize", "event_synchronize", "ctx_synchronize", "memcpy_dtoh", "memcpy_htod", "mem_free"};
const char *const op_name[] = {"all_reduce", "broadcast", "all_gather", "reduce_scatter", "reduce", "all_to_all",
	"gather", "scatter", "send", "recv"};
static const char *const gpu_name[] = {"0", "1", "2", "3", "unknown"};

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
	for (i = 0; i <= GPUS; i++) {
		values = (const uint64_t *)(const void *)((const char *)&did.gpu[i] + field);
		printf("%s\"%s\":{", i ? "," : "", gpu_name[i]);
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

void print_report(void)
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
