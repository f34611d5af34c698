/* SPDX-License-Identifier: GPL-2.0 */
/*
 * matrix.h: what the parts of the matrix share: where it works, what a case expects, and the tables of the daemon.
 */
#ifndef MATRIX_H
#define MATRIX_H

#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "zernel.h"

#define CHUNK  65537 /* prime */
#define CHUNKS 61
#define TOTAL  (CHUNK * CHUNKS)
#define BLOCK  65536 /* for O_DIRECT */

struct sums {
	uint64_t calls[ZN_IO_OP_COUNT], errors[ZN_IO_OP_COUNT], bytes[ZN_IO_OP_COUNT];
};

#define STORM_BYTES 127

struct io_case {
	const char *name;
	void (*run)(void);
};
extern const struct io_case call_cases[], ring_cases[], rest_cases[]; /* each ends with one without a name */

/* matrix.c */
extern int passed, failed;
extern char *buffer; /* TOTAL bytes, aligned */
extern char tmp[128], ram[128], small[128];
extern bool has_direct; /* tmpfs has O_DIRECT from 6.6 on */
extern bool by_call;    /* the daemon stands on system calls */
extern struct sums expected;
void die(const char *what);

/* matrix_tables.c */
int bpf(int command, union bpf_attr *attr);
/* The newest table of this name. */
int map_open(const char *name);
extern int rows_fd, hists_fd, coarse_fd, shared_fd;
/* Calls that the daemon lost, by its own account. */
uint64_t lost_of(enum zn_loss what);
/* Those whose return it missed. */
uint64_t lost_read(void);
/* Hits that the kernel skipped, of all programs: a preemptible one does so, see kernel.c. */
uint64_t skipped_read(void);
void sums_read(struct sums *to);

/* matrix_calls.c */
void expect(enum zn_io_op op, ssize_t result);
int file_open(const char *folder, const char *name, int flags);
/* The file that all read, of TOTAL bytes. */
int source(int flags);
/* A new file, with no name. */
int target(int flags);
const struct iovec *two(void);

/* matrix_full.c */
void run_fulls(void);

#endif
