/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mappings_test.c: records in a ring of the kernel's: those that wrap around its end, those of other kinds, lost ones,
 * and such as no kernel writes; and CPUs that go and come. The ring is plain memory; stand-ins say which file has a
 * library's name, which CPUs were away, and what the kernel opens.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define CPUS_PATH "/sys/devices/system/cpu/possible"

struct record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, generation;
	uint32_t prot, flags;
	char name[32];
	uint64_t time;
};

static struct zn_mappings mappings;
static struct perf_event_mmap_page *ring;
static size_t page, bytes; /* bytes: of a ring */
static struct zn_map_event event[64];
static uint32_t events, lost, incomplete;

int zn_library_kind(const char *path, size_t len)
{
	CHECK(len < 4096 + 8);
	return len >= 7 && !memcmp(path, "libcuda", 7)    ? ZN_LIB_CUDA
		: len >= 7 && !memcmp(path, "libnccl", 7) ? ZN_LIB_NCCL
							  : -1;
}

static uint64_t stay_of_first = 7; /* the first CPU's */
static uint32_t opened;            /* rings, by the kernel */
static bool is_offline;

uint64_t zn_cpus_stay(uint32_t cpu)
{
	return cpu ? 1 : stay_of_first;
}

/* In place of the C library's: an event is a file as large as its ring. */
long syscall(long number, ...)
{
	int fd;

	CHECK_EQ(number, SYS_perf_event_open);
	if (is_offline) {
		errno = ENODEV;
		return -1;
	}
	opened++;
	fd = memfd_create("ring", MFD_CLOEXEC);
	CHECK_EQ(ftruncate(fd, (off_t)(page + bytes)), 0);
	return fd;
}

static void on_mapped(void *owner, struct zn_map_event *e)
{
	CHECK(owner == &events);
	if (events < ZN_LEN(event))
		event[events] = *e;
	events++;
}

static void on_lost(void *owner)
{
	(void)owner;
	lost++;
}

static void on_incomplete(void *owner)
{
	(void)owner;
	incomplete++;
}

/* As many bytes as rings have on this machine. The highest number of a CPU stands last. */
static size_t bytes_of_ring(void)
{
	char list[256] = "", *last = list;
	int cpus;

	if (zn_file_read(CPUS_PATH, list, sizeof(list)) > 0) {
		for (char *c = list; *c; c++)
			if (*c == '-' || *c == ',')
				last = c + 1;
		cpus = atoi(last) + 1;
	} else {
		cpus = (int)sysconf(_SC_NPROCESSORS_CONF);
	}
	return page * zn_ring_pages(cpus, page);
}

static void start(uint64_t at)
{
	page = (size_t)sysconf(_SC_PAGESIZE);
	bytes = bytes_of_ring();
	free(ring);
	ring = aligned_alloc(page, page + bytes);
	memset(ring, 0, page + bytes);
	ring->data_head = ring->data_tail = at;
	mappings = (struct zn_mappings){.cpu_count = 3,
		.ring = {[1] = ring},
		.fd = {-1, 9, -1},
		.owner = &events,
		.mapped = on_mapped,
		.lost = on_lost,
		.incomplete = on_incomplete};
	events = lost = incomplete = 0;
}

static void put_bytes(const void *from, size_t len)
{
	char *data = (char *)ring + page;

	for (size_t i = 0; i < len; i++)
		data[(ring->data_head + i) % bytes] = ((const char *)from)[i];
	ring->data_head += len;
}

static struct record record_of(const char *name, uint32_t pid)
{
	struct record r = {.header = {.type = PERF_RECORD_MMAP2, .size = sizeof(r)},
		.pid = pid,
		.addr = 0x7000,
		.len = 0x2000,
		.maj = 8,
		.min = 1,
		.ino = 4711,
		.time = 1234567};

	strncpy(r.name, name, sizeof(r.name));
	return r;
}

static void put_record(const char *name, uint32_t pid)
{
	struct record r = record_of(name, pid);

	put_bytes(&r, sizeof(r));
}

static void drain(void)
{
	zn_mappings_drain(&mappings);
	CHECK_EQ(ring->data_tail, ring->data_head);
}

T(libraries_alone)
{
	start(0);
	put_record("libcuda.so.1", 7);
	put_record("libc.so.6", 8);
	put_record("libnccl.so.2", 9);
	drain();
	CHECK_EQ(events, 2);
	CHECK_EQ(event[0].pid, 7);
	CHECK_EQ(event[0].from, 0x7000);
	CHECK_EQ(event[0].to, 0x9000);
	CHECK_EQ(event[0].ino, 4711);
	CHECK_EQ(event[0].dev, 8 << 20 | 1);
	CHECK_EQ(event[0].mapped_ns, 1234567);
	CHECK_EQ(event[1].pid, 9);
	CHECK_EQ(event[1].mapped_ns, 0); /* of the driver's library alone */
	drain();
	CHECK_EQ(events, 2);
}

/* Wherever the end of the ring cuts a record. */
T(wraps)
{
	for (size_t before = 0; before <= sizeof(struct record); before += 8) {
		start(5 * bytes - before);
		put_record("libcuda.so.1", 7);
		drain();
		CHECK_EQ(events, 1);
		CHECK_EQ(event[0].pid, 7);
		CHECK_EQ(event[0].mapped_ns, 1234567);
	}
}

/* A name that has no end within its record is not read beyond it. */
T(name_without_end)
{
	struct record r = record_of("", 7);

	start(0);
	memset(r.name, 'x', sizeof(r.name));
	memcpy(r.name, "libcuda", 7);
	put_bytes(&r, sizeof(r));
	drain();
	CHECK_EQ(events, 1);
}

T(records_of_other_kinds)
{
	struct record r = record_of("libcuda.so.1", 7);

	start(0);
	r.header.type = PERF_RECORD_COMM;
	put_bytes(&r, sizeof(r));
	r.header.type = PERF_RECORD_LOST;
	put_bytes(&r, sizeof(r));
	put_record("libcuda.so.1", 8);
	drain();
	CHECK_EQ(lost, 1);
	CHECK_EQ(events, 1);
	CHECK_EQ(event[0].pid, 8);
}

/* Too short for a name and a time: nothing is taken for one. */
T(short_records)
{
	for (size_t len = sizeof(struct perf_event_header); len <= offsetof(struct record, name) + sizeof(uint64_t);
		len += 8) {
		struct record r = record_of("libcuda.so.1", 7);

		start(0);
		r.header.size = (uint16_t)len;
		put_bytes(&r, len);
		drain();
		CHECK_EQ(events, 0);
	}
}

/* What no kernel writes ends the reading, and what comes later is read again. */
T(impossible_records)
{
	struct record r = record_of("libcuda.so.1", 7);

	start(0);
	r.header.size = 4;
	put_bytes(&r, sizeof(r));
	drain();
	CHECK_EQ(events, 0);
	r.header.size = 65000; /* longer than all that there is */
	put_bytes(&r, sizeof(r));
	drain();
	CHECK_EQ(events, 0);
	put_record("libcuda.so.1", 8);
	drain();
	CHECK_EQ(events, 1);
}

/* The kernel says that it dropped some only in the next record that has room. */
T(full)
{
	start(0);
	ring->data_head = bytes - 64;
	zn_mappings_drain(&mappings);
	CHECK_EQ(incomplete, 1);
}

T(whom_to_wait_for)
{
	static struct pollfd to[ZN_MAPPINGS_CPUS];

	start(0);
	CHECK_EQ(zn_mappings_poll(&mappings, to), 1); /* CPUs that are offline have no ring */
	CHECK_EQ(to[0].fd, 9);
	CHECK_EQ(to[0].events, POLLIN);
}

/* Opens what is missing, and says how many rings that were. */
static uint32_t open_more(void)
{
	uint32_t before = opened;

	CHECK_EQ(zn_mappings_open(&mappings), 0);
	CHECK_EQ(incomplete, opened); /* earlier mappings there may have caused no event */
	return opened - before;
}

/* An event of a CPU that was offline in between says nothing any more. */
T(cpu_that_was_away)
{
	static struct pollfd to[ZN_MAPPINGS_CPUS];
	uint32_t cpus;

	start(0);
	mappings.ring[1] = NULL;
	cpus = open_more();
	CHECK(cpus >= 1);
	CHECK_EQ(open_more(), 0);
	free(ring);
	ring = mappings.ring[0];
	put_record("libcuda.so.1", 4711);
	stay_of_first = 0; /* away, or it cannot be told */
	CHECK_EQ(open_more(), 0);
	CHECK_EQ(events, 0);
	stay_of_first = 9;
	CHECK_EQ(open_more(), 1);
	CHECK_EQ(events, 1); /* that from before */
	CHECK_EQ(event[0].pid, 4711);
	CHECK_EQ(open_more(), 0);
	stay_of_first = 11;
	is_offline = true;
	CHECK_EQ(open_more(), 0); /* on its way, and not there yet */
	CHECK_EQ(zn_mappings_poll(&mappings, to), cpus - 1);
	is_offline = false;
	CHECK_EQ(open_more(), 1);
	zn_mappings_close(&mappings);
	CHECK_EQ(zn_mappings_poll(&mappings, to), 0);
	ring = NULL;
}

int main(void)
{
	RUN(libraries_alone);
	RUN(wraps);
	RUN(name_without_end);
	RUN(records_of_other_kinds);
	RUN(short_records);
	RUN(impossible_records);
	RUN(full);
	RUN(whom_to_wait_for);
	RUN(cpu_that_was_away);
	return t_end();
}
