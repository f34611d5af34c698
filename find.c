/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Finds the libraries to hook, in every process, however late they are mapped, and learns from /proc what a process
 * was told to see. All of it runs on one thread of its own: the files belong to users, and a file system of theirs
 * (or a process that holds its own mmap lock) may block a reader for as long as it likes. The loop never waits for
 * it.
 *
 * The kernel tells about each executable mapping through a software perf event (PERF_RECORD_MMAP2); nothing runs in
 * the kernel for it but that. Only where it refuses, /proc is scanned now and then.
 */
#include "zernel.h"
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define GATHER_MS      10   /* a library is hooked this long after it was mapped, and the time to attach */
#define ROUND_MS       250  /* a round comes after this at the latest */
#define CHECK_MS       1000 /* between looks at which processes still live */
#define FULL_SCAN_MS   1000 /* from one full scan to the next, at least */
#define SCAN_MS        2000 /* between full scans where there are no mapping events */
#define CPUS_MAX       1024
#define RINGS_BYTES    (8 << 20) /* of all CPUs together */
#define RING_PAGES_MAX 64
#define PENDING_MAX    256 /* processes to look at in one round; more of them make it a full scan */
#define SIDE_MAX       64
#define MAPS_CHUNK     (64 * 1024)
#define ENVIRON_MAX    (4 << 20)

struct fact_slot {
	uint32_t wanted; /* zn_proc.id */
	uint32_t pid;
	struct zn_facts facts;
};

struct zn_find {
	struct zn_probe *probe;
	pthread_t thread;
	pthread_mutex_t lock; /* over fact[], and what is shown of libraries */
	int stop_fd;
	bool running;
	bool closing; /* probes are being taken away */
	bool by_events;
	int cpu_count;
	struct perf_event_mmap_page *ring[CPUS_MAX];
	int ring_fd[CPUS_MAX];
	struct zn_libraries *libraries;
	int pending[PENDING_MAX];
	uint32_t pending_count;
	bool scan_all;
	uint64_t round_ns, polled_ns, scanned_ns, left_ns, checked_ns; /* when each was done last */
	struct fact_slot fact[ZN_PROCS_MAX];
	uint32_t family_of[ZN_PROCS_MAX]; /* ids of processes whose children were looked for */
	bool facts_wanted;                /* of some row */
	char text[MAPS_CHUNK + 1];
};

static void lost(struct zn_find *f, enum zn_loss what)
{
	__atomic_fetch_add(&f->probe->arena.shared->lost[what], 1, __ATOMIC_RELAXED);
}

static void pending_add(struct zn_find *f, int pid)
{
	for (uint32_t i = 0; i < f->pending_count; i++)
		if (f->pending[i] == pid)
			return;
	if (f->pending_count == PENDING_MAX)
		f->scan_all = true;
	else
		f->pending[f->pending_count++] = pid;
}

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

/* The larger, the fewer CPUs there are to share a burst of processes. A power of two of pages, as the kernel demands. */
static size_t ring_size(void)
{
	static size_t size;
	size_t page = sysconf(_SC_PAGESIZE), pages = RING_PAGES_MAX;

	while (!size && pages > 1 && pages * page * cpus_possible() > RINGS_BYTES)
		pages /= 2;
	if (!size)
		size = pages * page;
	return size;
}

static int ring_open(struct zn_find *f, int cpu)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* executable mappings only */
		.mmap2 = 1,
		.watermark = 1,
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
	f->ring[cpu] = at;
	f->ring_fd[cpu] = fd;
	return 0;
}

/* Opens the rings that are missing. A CPU that is offline has none until it is tried again. */
static int rings_open(struct zn_find *f)
{
	int err = 0;

	for (int cpu = 0; cpu < f->cpu_count && !err; cpu++) {
		if (f->ring[cpu])
			continue;
		err = ring_open(f, cpu);
		if (!err)
			f->scan_all = true; /* for what was mapped there before */
		else if (err == -ENODEV)
			err = 0;
	}
	return err;
}

static void rings_close(struct zn_find *f)
{
	for (int cpu = 0; cpu < f->cpu_count && cpu < CPUS_MAX; cpu++) {
		if (!f->ring[cpu])
			continue;
		munmap(f->ring[cpu], ring_size() + sysconf(_SC_PAGESIZE));
		close(f->ring_fd[cpu]);
		f->ring[cpu] = NULL;
	}
}

/* A record may wrap around the end of the ring: it is copied out first. */
struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, generation;
	uint32_t prot, flags;
	char name[4096];
};

static void ring_copy(const struct perf_event_mmap_page *ring, uint64_t at, void *to, size_t len)
{
	const char *data = (const char *)ring + sysconf(_SC_PAGESIZE);
	size_t size = ring_size(), from = at % size, first = len < size - from ? len : size - from;

	memcpy(to, data + from, first);
	memcpy((char *)to + first, data, len - first);
}

static void record_take(struct zn_find *f, const struct mmap2_record *r, size_t len)
{
	size_t head = offsetof(struct mmap2_record, name);

	if (r->header.type == PERF_RECORD_LOST) {
		lost(f, ZN_LOST_MAPPING);
		f->scan_all = true;
	} else if (r->header.type == PERF_RECORD_MMAP2 && len > head &&
		zn_library_kind(r->name, strnlen(r->name, len - head)) >= 0) {
		pending_add(f, r->pid);
	}
}

static void ring_drain(struct zn_find *f, struct perf_event_mmap_page *ring)
{
	static struct mmap2_record r;
	uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE), tail = ring->data_tail;

	while (tail + sizeof(r.header) <= head) {
		size_t len;

		ring_copy(ring, tail, &r.header, sizeof(r.header));
		len = r.header.size;
		if (len < sizeof(r.header) || len > head - tail)
			break;
		ring_copy(ring, tail, &r, len < sizeof(r) ? len : sizeof(r));
		record_take(f, &r, len < sizeof(r) ? len : sizeof(r));
		tail += len;
	}
	__atomic_store_n(&ring->data_tail, head, __ATOMIC_RELEASE);
}

/* Start time in clock ticks, field 22 of /proc/PID/stat, counted from the last ')': the name before it is hostile. 0:
 * gone. */
uint64_t zn_start_ticks(int pid)
{
	char path[32], text[1024], *at;
	unsigned long long ticks = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (at)
		ticks = strtoull(at + 1, NULL, 10);
	return ticks;
}

/* One executable mapping under a library's name: "from-to perms offset maj:min inode path". */
static void maps_line(struct zn_find *f, int pid, const char *line, size_t len)
{
	unsigned long from, to;
	char perms[5];
	const char *path;

	if (len < 20 || zn_library_kind(line, len) < 0)
		return;
	path = memchr(line, '/', len);
	if (path && sscanf(line, "%lx-%lx %4s", &from, &to, perms) == 3 && perms[2] == 'x' &&
		zn_libraries_take(f->libraries, pid, from, to, (struct zn_str){path, len - (path - line)}) == -ENOENT)
		f->scan_all = true; /* it has gone since, but a child of it may have what it mapped */
}

/* Lines are cut at the chunk's end and completed by the next read; one longer than a chunk cannot be (paths end at 4
 * KiB). */
static bool pid_scan(struct zn_find *f, int pid)
{
	char path[32], *line, *end;
	size_t have = 0, total = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	if (pid == getpid())
		return true;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while ((n = read(fd, f->text + have, MAPS_CHUNK - have)) > 0) {
		have += n;
		total += n;
		f->text[have] = 0;
		for (line = f->text; (end = memchr(line, '\n', f->text + have - line)); line = end + 1) {
			*end = 0;
			maps_line(f, pid, line, end - line);
		}
		have = f->text + have - line;
		memmove(f->text, line, have);
	}
	close(fd);
	return total > 0;
}

void zn_dir_read(const char *path, bool (*visit)(void *to, int dir, const char *name), void *to)
{
	char buffer[4096] __attribute__((aligned(8))); /* of its own: visit may read another directory */
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool go_on = true;
	ssize_t n;

	while (fd >= 0 && go_on && (n = syscall(SYS_getdents64, fd, buffer, sizeof(buffer))) > 0)
		for (ssize_t at = 0; at < n && go_on;) {
			const struct dirent64 *e = (const void *)(buffer + at);

			go_on = visit(to, fd, e->d_name);
			at += e->d_reclen;
		}
	if (fd >= 0)
		close(fd);
}

static bool scan_entry(void *to, int dir, const char *name)
{
	(void)dir;
	if (isdigit((unsigned char)name[0]))
		pid_scan(to, atoi(name));
	return true;
}

/* One entry of a list like "0,2" or "GPU-1234,GPU-5678". False: it ends the list, as it does for CUDA. */
static bool visible_add(struct zn_facts *to, const char *at, size_t len)
{
	uint8_t i = to->visible_count;
	char *end, number[12];
	long value;

	if (i == ZN_VISIBLE_MAX || len == 0)
		return false;
	if (isdigit((unsigned char)at[0]) && len < sizeof(number)) {
		memcpy(number, at, len);
		number[len] = 0;
		value = strtol(number, &end, 10);
		if (*end || value > 4096)
			return false;
		to->visible[i] = value;
	} else if ((strncmp(at, "GPU-", 4) == 0 || strncmp(at, "MIG-", 4) == 0) && len < sizeof(to->visible_uuid[i])) {
		to->visible[i] = -1;
		memcpy(to->visible_uuid[i], at, len);
		to->visible_uuid[i][len] = 0;
	} else {
		return false;
	}
	to->visible_count++;
	return true;
}

static void visible_parse(struct zn_facts *to, const char *list)
{
	to->visible_set = true;
	to->visible_count = 0;
	while (visible_add(to, list, strcspn(list, ","))) {
		list += strcspn(list, ",");
		if (*list++ != ',')
			break;
	}
}

/* What is longer than its place is no value of Slurm's. */
static void claim_entry(struct zn_claim *c, const char *entry)
{
	const struct {
		const char *name;
		char *to;
		size_t cap;
	} known[] = {
		{"SLURM_JOB_ID=", c->job, sizeof(c->job)},
		{"SLURM_JOB_NAME=", c->name, sizeof(c->name)},
		{"SLURM_ARRAY_JOB_ID=", c->array_job, sizeof(c->array_job)},
		{"SLURM_ARRAY_TASK_ID=", c->array_task, sizeof(c->array_task)},
	};

	for (size_t i = 0; i < ZN_LEN(known); i++) {
		size_t n = strlen(known[i].name);

		if (strncmp(entry, known[i].name, n) == 0 && strlen(entry + n) < known[i].cap)
			strcpy(known[i].to, entry + n);
	}
}

static void environ_entry(struct zn_facts *to, const char *entry, bool *cuda)
{
	claim_entry(&to->claim, entry);
	if (strchr(entry, '='))
		to->gone = false; /* it is an environment, not what a program wrote over it */
	if (strncmp(entry, "CUDA_VISIBLE_DEVICES=", 21) == 0) {
		visible_parse(to, entry + 21);
		*cuda = true;
	} else if (!*cuda && strncmp(entry, "SLURM_JOB_GPUS=", 15) == 0) {
		visible_parse(to, entry + 15);
	}
}

/* The strings of an environment as they come, each cut at 1 KiB: what is looked for is shorter. */
static void environ_read(struct zn_find *f, int pid, struct zn_facts *to)
{
	char path[32], entry[1024];
	size_t len = 0, total = 0;
	bool cuda = false;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	to->gone = true;
	while (fd >= 0 && total < ENVIRON_MAX && (n = read(fd, f->text, MAPS_CHUNK)) > 0) {
		total += n;
		for (ssize_t i = 0; i < n; i++) {
			entry[len] = f->text[i];
			if (f->text[i]) {
				len += len < sizeof(entry) - 1;
				continue;
			}
			len = 0;
			environ_entry(to, entry, &cuda);
		}
	}
	if (fd >= 0)
		close(fd);
}

/* The real user id of a process, from "Uid:" in its status; the name above it is hostile, but has no line of its own: the
 * kernel escapes line feeds in it. */
static uint32_t uid_of(int pid)
{
	char path[32], text[1024], *at;
	unsigned uid = ZN_UNKNOWN;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "\nUid:\t");
	if (!at || sscanf(at, "\nUid:\t%u", &uid) != 1)
		return ZN_UNKNOWN;
	return uid;
}

static bool minor_entry(void *arg, int dir, const char *name)
{
	struct zn_facts *to = arg;
	char target[64];
	int minor, used;
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n <= 0)
		return true;
	target[n] = 0;
	if (sscanf(target, "/dev/nvidia%d%n", &minor, &used) != 1 || target[used])
		return true;
	for (uint8_t i = 0; i < to->minor_count; i++)
		if (to->minors[i] == minor)
			return true;
	to->minors[to->minor_count++] = minor;
	return to->minor_count < ZN_VISIBLE_MAX;
}

static void minors_read(int pid, struct zn_facts *to)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	zn_dir_read(path, minor_entry, to);
}

static void facts_answer(struct zn_find *f, struct fact_slot *slot)
{
	struct zn_facts facts = {.id = slot->wanted};
	int pid = slot->pid;

	pthread_mutex_unlock(&f->lock); /* these may block */
	environ_read(f, pid, &facts);
	minors_read(pid, &facts);
	facts.claim.uid = uid_of(pid);
	facts.owner = zn_owner_of(pid);
	pthread_mutex_lock(&f->lock);
	slot->facts = facts;
}

static void facts_serve(struct zn_find *f)
{
	pthread_mutex_lock(&f->lock);
	if (f->facts_wanted) {
		f->facts_wanted = false;
		for (int row = 0; row < ZN_PROCS_MAX; row++)
			if (f->fact[row].wanted != f->fact[row].facts.id)
				facts_answer(f, &f->fact[row]);
	}
	pthread_mutex_unlock(&f->lock);
}

bool zn_find_facts(void *find, const struct zn_proc *p, struct zn_facts *to)
{
	struct zn_find *f = find;
	uint32_t row = p - f->probe->arena.procs;
	bool ready;

	pthread_mutex_lock(&f->lock);
	ready = f->fact[row].facts.id == p->id;
	if (ready)
		*to = f->fact[row].facts;
	else
		f->facts_wanted = true;
	f->fact[row].wanted = p->id;
	f->fact[row].pid = p->tgid;
	pthread_mutex_unlock(&f->lock);
	return ready;
}

static void all_scan(struct zn_find *f)
{
	f->scan_all = false;
	f->pending_count = 0;
	zn_dir_read("/proc", scan_entry, f);
}

/* fork, and a mapping that was split, raise no event: before a library is let go, all processes are looked at once. */
static void libraries_check(struct zn_find *f)
{
	if (zn_libraries_check(f->libraries)) {
		all_scan(f);
		zn_libraries_release(f->libraries);
	}
	f->scan_all |= zn_libraries_again(f->libraries);
}

static bool due(uint64_t *last_ns, uint64_t now_ns, uint64_t every_ms)
{
	if (*last_ns && now_ns - *last_ns < every_ms * ZN_NS_PER_MS)
		return false;
	*last_ns = now_ns;
	return true;
}

/* Workers of data loaders that were forked before their parent was tracked. The loop maps a row before it uses it, and a
 * process that is so new that it did not yet is looked at in the next round. */
static void children_find(struct zn_find *f)
{
	struct zn_arena *a = &f->probe->arena;

	for (uint32_t row = 0; row < ZN_PROCS_MAX && a->shared->stalls; row++) {
		uint32_t tgid = __atomic_load_n(&a->shared->row_tgid[row], __ATOMIC_ACQUIRE);
		uint8_t mapped = __atomic_load_n(&a->proc_mapped[row / 8], __ATOMIC_ACQUIRE);

		if (!tgid || !(mapped >> (row % 8) & 1) || f->family_of[row] == a->procs[row].id)
			continue;
		f->family_of[row] = a->procs[row].id;
		zn_cgroup_children(a, row, tgid);
	}
}

static void round_run(struct zn_find *f)
{
	uint64_t now_ns = zn_now_ns();

	__atomic_store_n(&f->round_ns, now_ns, __ATOMIC_RELAXED);
	for (int cpu = 0; f->by_events && cpu < f->cpu_count; cpu++)
		if (f->ring[cpu])
			ring_drain(f, f->ring[cpu]);
	if (!f->by_events && due(&f->polled_ns, now_ns, SCAN_MS))
		f->scan_all = true;
	if (f->scan_all && due(&f->scanned_ns, now_ns, FULL_SCAN_MS))
		all_scan(f);
	for (uint32_t i = 0; i < f->pending_count; i++)
		if (!pid_scan(f, f->pending[i]))
			f->scan_all = true; /* it is gone already, but a child of it may have what it mapped */
	f->pending_count = 0;
	facts_serve(f);
	children_find(f);
	if (due(&f->left_ns, now_ns, ROUND_MS))
		zn_libraries_leave(f->libraries);
	if (!due(&f->checked_ns, now_ns, CHECK_MS))
		return;
	libraries_check(f);
	if (f->by_events)
		rings_open(f);
}

uint64_t zn_find_round_ns(struct zn_find *f)
{
	return __atomic_load_n(&f->round_ns, __ATOMIC_RELAXED);
}

/* Sleeps until something was mapped (or forked, or has ended), or until the next round. False: for good. */
static bool round_wait(struct zn_find *f)
{
	static struct pollfd wait[1 + CPUS_MAX];
	int n = 0;

	wait[n++] = (struct pollfd){.fd = f->stop_fd, .events = POLLIN};
	poll(wait, n, GATHER_MS); /* what comes together is looked at together */
	for (int cpu = 0; f->by_events && cpu < f->cpu_count; cpu++)
		if (f->ring[cpu])
			wait[n++] = (struct pollfd){.fd = f->ring_fd[cpu], .events = POLLIN};
	poll(wait, n, ROUND_MS);
	return !(wait[0].revents & POLLIN);
}

static void *run(void *arg)
{
	struct zn_find *f = arg;

	zn_libraries_system(f->libraries);
	do
		round_run(f);
	while (round_wait(f));
	__atomic_store_n(&f->closing, true, __ATOMIC_RELAXED);
	zn_libraries_close(f->libraries); /* here, as it reads what other threads may not */
	return NULL;
}

static struct zn_find the_find; /* large, and there is one daemon in a process */

int zn_find_open(struct zn_find **to, struct zn_probe *probe, const struct zn_options *options)
{
	struct zn_find *f = &the_find;
	int err;

	f->probe = probe;
	pthread_mutex_init(&f->lock, NULL);
	f->libraries = zn_libraries_open(probe, options, &f->lock);
	f->cpu_count = cpus_possible();
	err = f->cpu_count > CPUS_MAX ? -E2BIG : rings_open(f);
	f->by_events = err == 0;
	if (err) {
		rings_close(f);
		zn_log(ZN_WARN, "find: no mapping events: %s; new libraries are found by scanning /proc every %d s",
			strerror(-err), SCAN_MS / 1000);
	}
	f->scan_all = true; /* after the events are on: what is mapped in between is seen twice, never missed */
	f->stop_fd = eventfd(0, EFD_CLOEXEC);
	if (f->stop_fd < 0)
		return -errno;
	*to = f;
	return 0;
}

int zn_find_start(struct zn_find *f)
{
	int err = pthread_create(&f->thread, NULL, run, f);

	f->running = err == 0;
	return -err;
}

#define STOP_PATIENCE_S 5  /* for a round to end */
#define AWAY_PATIENCE_S 55 /* for probes to go: systemd's patience is 60 s, and before 6.6 each takes 0.1 s */

static bool is_joined(struct zn_find *f, int seconds)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	return pthread_timedjoin_np(f->thread, NULL, &until) == 0;
}

/* False: the thread is stuck in a read that does not return, or probes do not go. */
static bool thread_stop(struct zn_find *f)
{
	eventfd_write(f->stop_fd, 1);
	if (is_joined(f, STOP_PATIENCE_S))
		return true;
	return __atomic_load_n(&f->closing, __ATOMIC_RELAXED) && is_joined(f, AWAY_PATIENCE_S - STOP_PATIENCE_S);
}

void zn_find_close(struct zn_find *f)
{
	if (!f)
		return;
	if (f->running && !thread_stop(f)) {
		zn_log(ZN_WARN, "find: %s; leaving without waiting for it",
			f->closing ? "the kernel does not take probes away" : "a file system does not answer");
		_exit(EXIT_SUCCESS); /* the kernel takes the probes away */
	}
	if (!f->running)
		zn_libraries_close(f->libraries);
	f->running = false;
	f->libraries = NULL;
	rings_close(f);
	if (f->stop_fd > 0)
		close(f->stop_fd);
	f->stop_fd = -1;
}

struct zn_libraries *zn_find_libraries(struct zn_find *f)
{
	return f->libraries;
}

bool zn_find_by_events(const struct zn_find *f)
{
	return f->by_events;
}
