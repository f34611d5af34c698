/* SPDX-License-Identifier: GPL-2.0 */
/* zernel-gpu.h: what the two processes of zernel-gpu share: the one that talks to zerneld, and the one that asks NVML. */
#ifndef ZERNEL_GPU_H
#define ZERNEL_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MESSAGE_BYTES 98304 /* zerneld takes 131072 */
#define GPUS_MAX      64
#define VERSION_LINE  "zernel-gpu 1"

/* In memory that both see. */
struct watch {
	char step[32];        /* what the library is asked for at the moment */
	uint32_t steps;       /* how often that was something else: each is an answer, however long a round takes */
	uint32_t initialized; /* it has reported GPUs at least once */
};

struct message {
	size_t len;
	bool full; /* something did not fit */
	char text[MESSAGE_BYTES];
};
void message_begin(struct message *m, uint64_t now_ms);
void message_add(struct message *m, const char *form, ...) __attribute__((format(printf, 2, 3)));

uint64_t now_ms(void);

/* Asks the library each interval and sends what it says through fd, until it cannot go on: another process must begin
 * anew then. once: after the second round, which has what is a difference of two. */
void sample_loop(const char *library, unsigned interval_ms, int fd, struct watch *watch, bool once);
#endif
