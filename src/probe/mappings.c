/* SPDX-License-Identifier: GPL-2.0 */
/*
 * mappings.c: events of executable mappings, by a software perf event of each CPU (PERF_RECORD_MMAP2); nothing runs
 * in the kernel for it but that.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The highest number that a CPU may have, and one: "0-7" or "0-3,8-11". */
static int cpus_possible(void)
{
	char text[256] = "", *last = text;
	int fd = open("/sys/devices/system/cpu/possible", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return sysconf(_SC_NPROCESSORS_CONF);
	for (char *c = text; *c; c++)
		if (*c == '-' || *c == ',')
			last = c + 1;
	return atoi(last) + 1;
}

static size_t ring_size(void)
{
	static size_t size;
	size_t page = sysconf(_SC_PAGESIZE);

	if (!size)
		size = page * zn_ring_pages(cpus_possible(), page);
	return size;
}

static int ring_open(struct zn_mappings *m, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* executable mappings only */
		.mmap2 = 1,
		.watermark = 1,
		.sample_type = PERF_SAMPLE_TIME, /* behind each record */
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_BOOTTIME,
		.wakeup_watermark = 1, /* each record: what a process does right after it maps a library matters most */
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	void *at;

	if (fd < 0)
		return -errno;
	at = mmap(NULL, ring_size() + sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		int err = -errno;

		close(fd);
		return err;
	}
	m->ring[cpu] = at;
	m->fd[cpu] = fd;
	return 0;
}

static void ring_close(struct zn_mappings *m, int cpu)
{
	if (!m->ring[cpu])
		return;
	munmap(m->ring[cpu], ring_size() + sysconf(_SC_PAGESIZE));
	close(m->fd[cpu]);
	m->ring[cpu] = NULL;
}

/* A record may wrap around the end of the ring: it is copied out first. */
struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, generation;
	uint32_t prot, flags;
	char name[4096 + 8]; /* and the time of the record */
};

static void ring_copy(const struct perf_event_mmap_page *ring, uint64_t at, void *to, size_t len)
{
	const char *data = (const char *)ring + sysconf(_SC_PAGESIZE);
	size_t size = ring_size(), from = at % size, first = len < size - from ? len : size - from;

	memcpy(to, data + from, first);
	memcpy((char *)to + first, data, len - first);
}

/* The time of a record stands behind it. */
static void event_add(struct zn_mappings *m, const struct mmap2_record *r, size_t len)
{
	struct zn_map_event e = {
		.pid = r->pid,
		.from = r->addr,
		.to = r->addr + r->len,
		.ino = r->ino,
		.dev = r->maj << 20 | r->min,
	};

	if (zn_library_kind(r->name, strnlen(r->name, len - offsetof(struct mmap2_record, name))) != ZN_LIB_NCCL)
		memcpy(&e.mapped_ns, (const char *)r + len - sizeof(e.mapped_ns), sizeof(e.mapped_ns));
	m->mapped(m->owner, &e);
}

static void record_take(struct zn_mappings *m, const struct mmap2_record *r, size_t len)
{
	size_t head = offsetof(struct mmap2_record, name);

	if (r->header.type == PERF_RECORD_LOST)
		m->lost(m->owner);
	else if (r->header.type == PERF_RECORD_MMAP2 && len > head + sizeof(uint64_t) &&
		zn_library_kind(r->name, strnlen(r->name, len - head)) >= 0)
		event_add(m, r, len);
}

/* The kernel reports lost records only with the next record that has room, which may never come. */
static void ring_drain(struct zn_mappings *m, struct perf_event_mmap_page *ring)
{
	static struct mmap2_record r;
	uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE), tail = ring->data_tail;

	if (head - tail > ring_size() - sizeof(r))
		m->incomplete(m->owner);
	while (tail + sizeof(r.header) <= head) {
		size_t len;

		ring_copy(ring, tail, &r.header, sizeof(r.header));
		len = r.header.size;
		if (len < sizeof(r.header) || len > head - tail)
			break;
		ring_copy(ring, tail, &r, len < sizeof(r) ? len : sizeof(r));
		record_take(m, &r, len < sizeof(r) ? len : sizeof(r));
		tail += len;
	}
	__atomic_store_n(&ring->data_tail, head, __ATOMIC_RELEASE);
}

/* The ring of a CPU that is online, unless it has it. One from before the CPU was away is dead. */
static int ring_ensure(struct zn_mappings *m, int cpu)
{
	uint64_t stay = zn_cpus_stay((uint32_t)cpu);
	int err;

	if (m->ring[cpu] && (!stay || stay == m->stay[cpu]))
		return 0;
	if (m->ring[cpu])
		ring_drain(m, m->ring[cpu]);
	ring_close(m, cpu);
	err = ring_open(m, cpu);
	if (err)
		return err == -ENODEV ? 0 : err;
	m->stay[cpu] = stay;
	m->incomplete(m->owner); /* earlier mappings there caused no event */
	return 0;
}

int zn_mappings_open(struct zn_mappings *m)
{
	int err = 0;

	m->cpu_count = cpus_possible();
	if (m->cpu_count > ZN_MAPPINGS_CPUS)
		return -E2BIG;
	for (int cpu = 0; cpu < m->cpu_count && !err; cpu++)
		err = ring_ensure(m, cpu);
	return err;
}

void zn_mappings_close(struct zn_mappings *m)
{
	for (int cpu = 0; cpu < m->cpu_count && cpu < ZN_MAPPINGS_CPUS; cpu++)
		ring_close(m, cpu);
}

void zn_mappings_drain(struct zn_mappings *m)
{
	for (int cpu = 0; cpu < m->cpu_count; cpu++)
		if (m->ring[cpu])
			ring_drain(m, m->ring[cpu]);
}

int zn_mappings_poll(const struct zn_mappings *m, struct pollfd to[ZN_MAPPINGS_CPUS])
{
	int n = 0;

	for (int cpu = 0; cpu < m->cpu_count; cpu++)
		if (m->ring[cpu])
			to[n++] = (struct pollfd){.fd = m->fd[cpu], .events = POLLIN};
	return n;
}
