/* SPDX-License-Identifier: GPL-2.0 */
/*
 * fleet CUDA NCCL PROCESSES RATE: that many processes which each use both fake libraries the way a training
 * job does (one GPU each, memory, launches, waits, copies, collectives), then launch RATE times a second (0:
 * rest). Begins when there are probes on both libraries, prints "ready" once all have begun, and ends them when
 * its standard input ends. With RATE -1 the processes map the libraries and call nothing.
 */
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../fake/api.h"
#include "bench.h"

#define PROCESSES_MAX 1024
#define PERIOD_NS     1000000
#define WORK_ROUNDS   7
#define WORLD         8
#define WAIT_NS       5000000000ULL
#define BREAKPOINT    0xcc

#define POINTER(name, args) int(*name) args;
static struct {
	CUDA_CALLS(POINTER)
} cuda;
static struct {
	NCCL_CALLS(POINTER)
} nccl;

#define CUDA_SYMBOL(name, args) {#name, (void **)&cuda.name},
#define NCCL_SYMBOL(name, args) {"nccl" #name, (void **)&nccl.name},
struct entry {
	const char *name;
	void **to;
};
static const struct entry cuda_entries[] = {CUDA_CALLS(CUDA_SYMBOL)};
static const struct entry nccl_entries[] = {NCCL_CALLS(NCCL_SYMBOL)};

static void load(const char *path, const struct entry *entries, size_t count)
{
	void *library = library_open(path);

	for (size_t i = 0; i < count; i++)
		*entries[i].to = symbol(library, entries[i].name);
}

static void *use_gpu(int index)
{
	int count = 1;
	void *ctx = NULL, *comm = NULL;
	struct nccl_id id = {"fleet"};
	size_t total;

	cuda.cuInit(0);
	cuda.cuDeviceGetCount(&count);
	cuda.cuDevicePrimaryCtxRetain(&ctx, index % count);
	cuda.cuCtxSetCurrent(ctx);
	cuda.cuDeviceTotalMem_v2(&total, index % count);
	nccl.CommInitRank(&comm, WORLD, id, index % WORLD);
	return comm;
}

static void use_memory(void)
{
	uint64_t kept, given;

	cuda.cuMemAlloc_v2(&kept, 64 << 20);
	cuda.cuMemAllocAsync(&kept, 1 << 20, NULL);
	cuda.cuMemAlloc_v2(&given, 1 << 20);
	cuda.cuMemFree_v2(given);
}

static void launch(void)
{
	cuda.cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void compute(void)
{
	static char buffer[4096];

	launch();
	cuda.cuMemcpyHtoD_v2(0x1000, buffer, sizeof(buffer));
	cuda.cuStreamSynchronize(NULL);
	cuda.cuEventSynchronize(NULL);
	cuda.cuMemcpyDtoH_v2(buffer, 0x1000, sizeof(buffer));
}

static void communicate(void *comm)
{
	nccl.GroupStart();
	nccl.AllReduce(NULL, NULL, 1000, 7, 0, comm, NULL);
	nccl.ReduceScatter(NULL, NULL, 1000, 7, 0, comm, NULL);
	nccl.AllGather(NULL, NULL, 1000, 7, comm, NULL);
	nccl.GroupEnd();
	nccl.Broadcast(NULL, NULL, 1000, 7, 0, comm, NULL);
}

/* In bursts once a millisecond: what was due and not done in time is done in the next burst. */
static void launch_paced(long rate)
{
	uint64_t start = now_ns(), done = 0;

	for (;;) {
		uint64_t due = (uint64_t)((__uint128_t)(now_ns() - start) * (uint64_t)rate / 1000000000);

		for (; done < due; done++)
			launch();
		pause_us(PERIOD_NS / 1000);
	}
}

static void work(int index)
{
	void *comm = use_gpu(index);

	use_memory();
	for (int i = 0; i < WORK_ROUNDS; i++) {
		compute();
		communicate(comm);
	}
}

static void child(int index, long rate, int ready)
{
	if (rate >= 0)
		work(index);
	if (write(ready, "", 1) != 1)
		die("write", "the fleet has gone");
	if (rate > 0)
		launch_paced(rate);
	for (;;)
		pause();
}

static void await_probes(void)
{
	const volatile uint8_t *launches = (void *)cuda.cuLaunchKernel, *reduces = (void *)nccl.AllReduce;
	uint64_t start = now_ns();

	while ((*launches != BREAKPOINT || *reduces != BREAKPOINT) && now_ns() - start < WAIT_NS)
		pause_us(1000);
	if (*launches != BREAKPOINT || *reduces != BREAKPOINT)
		die("fleet", "no probes came within 5 s");
}

static void wait_for(int fd, int count)
{
	char byte;

	while (count-- > 0)
		if (read(fd, &byte, 1) != 1)
			die("read", "a process ended early");
	puts("ready");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	static pid_t pid[PROCESSES_MAX];
	int count, ready[2];
	char byte;

	if (argc != 5 || (count = atoi(argv[3])) < 1 || count > PROCESSES_MAX || pipe(ready))
		die("usage", "fleet CUDA NCCL PROCESSES RATE");
	load(argv[1], cuda_entries, sizeof(cuda_entries) / sizeof(cuda_entries[0]));
	load(argv[2], nccl_entries, sizeof(nccl_entries) / sizeof(nccl_entries[0]));
	if (atol(argv[4]) >= 0)
		await_probes();
	for (int i = 0; i < count; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			close(STDIN_FILENO);
			close(ready[0]);
			child(i, atol(argv[4]), ready[1]);
		}
	}
	close(ready[1]);
	wait_for(ready[0], count);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	for (int i = 0; i < count; i++)
		if (pid[i] > 0)
			kill(pid[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	return 0;
}
