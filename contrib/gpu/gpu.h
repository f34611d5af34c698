/* SPDX-License-Identifier: GPL-2.0 */
/* gpu.h: what zernel-gpu knows of a GPU, and how it says that: for the process that asks the library. */
#ifndef ZERNEL_GPU_GPU_H
#define ZERNEL_GPU_GPU_H

#include "nvml.h"
#include "zernel-gpu.h"

#define PROCESSES_MAX 1024 /* of a GPU; NVML names none where there are more */
#define MIGS_MAX      16   /* of a GPU; the driver makes at most 7 or 8 */

/* By the names that zerneld has for them, and in its units: whole numbers of the last decimal. */
#define FIGURES(X)                                                                                                     \
	X(utilization)                                                                                                 \
	X(sm_active)                                                                                                   \
	X(tensor_active)                                                                                               \
	X(dram_active)                                                                                                 \
	X(vram_used_bytes)                                                                                             \
	X(vram_total_bytes)                                                                                            \
	X(power_watts)                                                                                                 \
	X(power_limit_watts)                                                                                           \
	X(energy_joules)                                                                                               \
	X(temperature_celsius)                                                                                         \
	X(memory_celsius)                                                                                              \
	X(clock_hertz)                                                                                                 \
	X(memory_clock_hertz)                                                                                          \
	X(throttle_reasons)                                                                                            \
	X(ecc_corrected)                                                                                               \
	X(ecc_uncorrected)                                                                                             \
	X(remapped_correctable)                                                                                        \
	X(remapped_uncorrectable)                                                                                      \
	X(remapped_pending)                                                                                            \
	X(remapped_failed)                                                                                             \
	X(retired_correctable)                                                                                         \
	X(retired_uncorrectable)                                                                                       \
	X(nvlink_sent_bytes)                                                                                           \
	X(nvlink_received_bytes)                                                                                       \
	X(pcie_sent_bytes_per_second)                                                                                  \
	X(pcie_received_bytes_per_second)                                                                              \
	X(pcie_replays)                                                                                                \
	X(mig)
enum figure {
#define X(name) F_##name,
	FIGURES(X)
#undef X
		FIGURE_COUNT
};

struct process {
	unsigned pid;
	unsigned long long bytes;
};
struct mig {
	unsigned gpu_instance, compute_instance;
	char uuid[96], name[96];
	unsigned long long used, total;
};
struct gpu {
	nvml_device device;
	char pci[32], uuid[96], name[96];
	unsigned lost_rounds; /* 0: it is there */
	unsigned rest[32];    /* by step: rounds until it is asked again */
	uint64_t known;       /* bit 1 << figure */
	unsigned long long value[FIGURE_COUNT];
	nvml_sample sample[2]; /* of GPM: the one before, the last */
	bool sampled;
	unsigned process_count, mig_count;
	struct process process[PROCESSES_MAX];
	struct mig mig[MIGS_MAX];
};

/* In place of what would end a line, "?". */
const char *one_line(char *text);

/* A GPU with its share of the processes and instances that a message has room for; gpus: how many there are. */
void message_add_gpu(struct message *m, struct gpu *g, unsigned gpus);

/* A whole message: why there is nothing, by what the library returned. */
void message_set_why(struct message *m, const char *what, int result);
#endif
