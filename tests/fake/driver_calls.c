/* SPDX-License-Identifier: GPL-2.0 */
/*
 * driver_calls.c: launches, waits for the GPU, copies, calls of one duration and from many threads; TCP, device
 * files.
 */
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "driver.h"

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

void run_launches(void)
{
	void *streams[] = {(void *)0x5000, (void *)0x6000, (void *)0x7000, (void *)0x8000}, *made;
	const struct launch *l;
	size_t half = COUNT(launches) / 2;

	use_gpu(0);
	must(cuda.cuStreamBeginCapture(streams[1]), 0, "cuStreamBeginCapture");
	must(cuda.cuStreamBeginCaptureToGraph(streams[2], &made, NULL, NULL, 0, 0), 0, "cuStreamBeginCaptureToGraph");
	must(cuda.cuStreamBeginCapture_v2(NULL, 0), 900, "cuStreamBeginCapture_v2 of the default stream");
	must(cuda.cuStreamBeginCapture_v2(streams[3], 0), 0, "cuStreamBeginCapture_v2");
	must(kernel(streams[3]), 0, "cuLaunchKernel in a third capture");
	did.launches[CAPTURED]++;
	must(cuda.cuStreamEndCapture(streams[3], &made), 0, "cuStreamEndCapture");
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
char buffer[64 * KIB];

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

void run_syncs(void)
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

void run_copies(void)
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

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

void run_latency(void)
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

void run_storm(void)
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

void run_tcp(void)
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

void run_devices(void)
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
