/* SPDX-License-Identifier: GPL-2.0 */
/*
 * driver.h: what the parts of the driver share: the libraries that it loads, its options, and what it did.
 */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdbool.h>

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
struct cuda_library {
	CUDA_CALLS(POINTER)
	int (*set)(const char *what, long value);
};

struct nccl_library {
	NCCL_CALLS(POINTER)
	int (*set)(const char *what, long value);
};

struct arguments {
	const char *cuda_path, *nccl_path;
	char *scenarios;
	long delay_ms, ready_ms, hold_ms;
	int threads, calls, rank;
	int hold_stdin, gate;
};

/* What was done. Indices go with the tables of names. */
enum kind { DEVICE, MANAGED, ASYNC, POOL, VMM, HOST, KINDS };
enum launch_kind { KERNEL, GRAPH, COOPERATIVE, CAPTURED, LAUNCHES };
enum direction { HTOD, DTOH, DTOD, OTHER, DIRECTIONS };
enum sync { STREAM, EVENT, CTX, SYNC_DTOH, SYNC_HTOD, FREE, SYNCS };
enum op { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, REDUCE, ALL_TO_ALL, GATHER, SCATTER, SEND, RECV, OPS };

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

struct done {
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
};

/* A way to make one call. */
#define VIA(name, args, call)                                                                                          \
	static int name args                                                                                           \
	{                                                                                                              \
		return call;                                                                                           \
	}

#define MAP_AT 0x600000000000ULL

/* driver.c */
extern struct cuda_library cuda;
extern struct nccl_library nccl;
extern struct arguments opt;
extern struct done did;
void die(const char *what, const char *why);
void must(int got, int want, const char *what);
uint64_t now_ns(void);

/* driver_memory.c */
void *use_gpu(int gpu);
/* One thread after the other, so that the peaks are known. */
void run_memory(void);
void before_early(void);
void run_early(void);

/* driver_calls.c */
void run_launches(void);
/* Waits: each way, and the copies that wait. */
extern char buffer[64 * KIB];
void run_syncs(void);
void run_copies(void);
void run_latency(void);
void run_storm(void);
/* Each send is received before the next one. */
void run_tcp(void);
void run_devices(void);

/* driver_nccl.c */
struct comm *made(void *comm, int rank, int nranks);
void run_nccl(void);

/* driver_report.c */
extern const char *const sync_name[];
extern const char *const op_name[];
void print_report(void);

#endif
