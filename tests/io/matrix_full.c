/* SPDX-License-Identifier: GPL-2.0 */
/*
 * matrix_full.c: the daemon's tables when they are full.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "matrix.h"

/* Free histograms that are taken away. */
static struct pool {
	int fd;
	uint32_t spare[ZN_IO_MAX], count;
} whole, coarse;

static void pool_take(struct pool *p)
{
	union bpf_attr attr = {.map_fd = p->fd, .value = (uintptr_t)&p->spare[0]};

	while (p->count + 1 < ZN_IO_MAX && bpf(BPF_MAP_LOOKUP_AND_DELETE_ELEM, &attr) == 0)
		attr.value = (uintptr_t)&p->spare[++p->count];
}

static void pool_put(struct pool *p, uint32_t left)
{
	while (p->count > left) {
		union bpf_attr attr = {.map_fd = p->fd, .value = (uintptr_t)&p->spare[--p->count]};

		if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
			die("a free histogram");
	}
}

/* One whole histogram is left. */
static void hists_fill(void)
{
	pool_take(&whole);
	pool_put(&whole, whole.count - 1);
}

/* None is left of either kind. */
static void all_fill(void)
{
	pool_take(&whole);
	pool_take(&coarse);
}

static void hists_drain(void)
{
	pool_put(&whole, 0);
	pool_put(&coarse, 0);
}

static uint32_t fillers;

static int filler(int command, uint32_t i)
{
	struct zn_io_key key = {.dev = ~i};
	struct zn_io_row none = {0};
	union bpf_attr attr = {.map_fd = rows_fd, .key = (uintptr_t)&key};

	if (command == BPF_MAP_UPDATE_ELEM)
		attr.value = (uintptr_t)&none;
	return bpf(command, &attr);
}

static void rows_drain(void)
{
	while (fillers)
		filler(BPF_MAP_DELETE_ELEM, --fillers);
}

/* One free entry is left. */
static void rows_fill(void)
{
	while (fillers < ZN_IO_MAX && filler(BPF_MAP_UPDATE_ELEM, fillers) == 0)
		fillers++;
	if (!fillers || errno != E2BIG)
		die("the table of series has no end");
	filler(BPF_MAP_DELETE_ELEM, --fillers);
}

/* On a file system that has no series of reads yet; loses: those are lost. */
static void run_full(const char *name, const char *folder, void (*fill)(void), void (*drain)(void), bool loses)
{
	int fd = file_open(folder, "file", O_RDWR | O_CREAT);
	uint64_t lost, measured;
	struct sums before, sums;

	sums_read(&before);
	fill();
	lost = lost_of(ZN_LOST_IO);
	for (int i = 0; i < CHUNKS; i++)
		if (pwrite(fd, buffer, 1, i) != 1)
			die("pwrite");
	for (int i = 0; i < CHUNKS; i++)
		if (pread(fd, buffer, 1, i) != 1)
			die("pread");
	lost = lost_of(ZN_LOST_IO) - lost;
	drain();
	close(fd);
	sums_read(&sums);
	measured =
		sums.calls[ZN_IO_READ] + sums.calls[ZN_IO_WRITE] - before.calls[ZN_IO_READ] - before.calls[ZN_IO_WRITE];
	if ((lost > 0) == loses && measured + lost == 2 * CHUNKS) {
		printf("ok %s: %llu calls counted, %llu lost\n", name, (unsigned long long)measured,
			(unsigned long long)lost);
		passed++;
	} else {
		printf("FAILED %s: %llu calls counted, %llu lost, of %d\n", name, (unsigned long long)measured,
			(unsigned long long)lost, 2 * CHUNKS);
		failed++;
	}
}

void run_fulls(void)
{
	whole.fd = map_open("free_hists");
	coarse.fd = map_open("free_coarse");
	run_full("no whole histogram", small, hists_fill, hists_drain, false);
	run_full("no histogram", tmp, all_fill, hists_drain, true);
	run_full("no free entry", ram, rows_fill, rows_drain, true);
}
