/* SPDX-License-Identifier: GPL-2.0 */
/*
 * matrix.c: every way to move bytes of a file, and the metadata operations, against what the daemon's tables say of
 * them, read from the kernel. One case after the other on file systems of its own, so that nothing else on the node
 * is in the figures. Prints a line for each case and "N passed, N failed". Static, as root, while one daemon runs.
 *
 * matrix DIR WAY [FILES]: DIR is an empty folder; WAY is the method of the daemon, for what it cannot count there; FILES is
 * a folder on a file system that nobody else uses, in place of a new tmpfs.
 * matrix DIR full: fills the daemon's tables, and checks that what is not counted then is counted as lost. The daemon is
 * stopped (SIGSTOP) meanwhile, as it would find series of devices that are none.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHUNK  65537 /* prime */
#define CHUNKS 61
#define TOTAL  (CHUNK * CHUNKS)
#define BLOCK  65536 /* for O_DIRECT */

static int passed, failed;
static char *buffer; /* TOTAL bytes, aligned */
static char tmp[128], ram[128], small[128];
static bool has_direct; /* tmpfs has O_DIRECT from 6.6 on */
static bool by_call;    /* the daemon stands on system calls */

struct sums {
	uint64_t calls[ZN_IO_OP_COUNT], errors[ZN_IO_OP_COUNT], bytes[ZN_IO_OP_COUNT];
};
static struct sums expected;

static void die(const char *what)
{
	fprintf(stderr, "matrix: %s: %s\n", what, strerror(errno));
	exit(2);
}

/* ---- the daemon's tables ---- */

static int bpf(int command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int info_read(int fd, void *info, uint32_t len)
{
	union bpf_attr attr = {.info = {.bpf_fd = fd, .info_len = len, .info = (uintptr_t)info}};

	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr);
}

/* The newest table of this name. */
static int map_open(const char *name)
{
	union bpf_attr attr = {0};
	int found = -1;

	while (bpf(BPF_MAP_GET_NEXT_ID, &attr) == 0) {
		struct bpf_map_info info = {0};
		union bpf_attr open_attr = {.map_id = attr.next_id};
		int fd = bpf(BPF_MAP_GET_FD_BY_ID, &open_attr);

		attr.start_id = attr.next_id;
		if (fd < 0)
			continue;
		if (info_read(fd, &info, sizeof(info)) || strcmp(info.name, name)) {
			close(fd);
			continue;
		}
		if (found >= 0)
			close(found);
		found = fd;
	}
	if (found < 0)
		die("no daemon's tables; is it running?");
	return found;
}

static int map_read(int fd, const void *key, void *value)
{
	union bpf_attr attr = {.map_fd = fd, .key = (uintptr_t)key, .value = (uintptr_t)value};

	return bpf(BPF_MAP_LOOKUP_ELEM, &attr);
}

static int map_next(int fd, const void *key, void *next)
{
	union bpf_attr attr = {.map_fd = fd, .key = (uintptr_t)key, .next_key = (uintptr_t)next};

	return bpf(BPF_MAP_GET_NEXT_KEY, &attr);
}

static uint32_t dev_of(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		die(path);
	return major(st.st_dev) << 20 | minor(st.st_dev);
}

static int rows_fd, hists_fd, coarse_fd, shared_fd;

/* Calls that the daemon lost, by its own account. */
static uint64_t lost_of(enum zn_loss what)
{
	static struct zn_shared shared;
	uint32_t zero = 0;

	if (map_read(shared_fd, &zero, &shared))
		die("the daemon's losses");
	return shared.lost[what];
}

/* Those whose return it missed. */
static uint64_t lost_read(void)
{
	return lost_of(ZN_LOST_INFLIGHT);
}

/* Hits that the kernel skipped, of all programs: a preemptible one does so, see kernel.c. */
static uint64_t skipped_read(void)
{
	union bpf_attr attr = {0};
	uint64_t n = 0;

	while (bpf(BPF_PROG_GET_NEXT_ID, &attr) == 0) {
		struct bpf_prog_info info = {0};
		union bpf_attr open_attr = {.prog_id = attr.next_id};
		int fd = bpf(BPF_PROG_GET_FD_BY_ID, &open_attr);

		attr.start_id = attr.next_id;
		if (fd >= 0 && info_read(fd, &info, sizeof(info)) == 0)
			n += info.recursion_misses;
		if (fd >= 0)
			close(fd);
	}
	return n;
}

static int hist_read(uint32_t hist, struct zn_hist *to)
{
	uint32_t index = hist < ZN_HISTS_MAX ? hist : hist - ZN_HISTS_MAX;

	return map_read(hist < ZN_HISTS_MAX ? hists_fd : coarse_fd, &index, to);
}

static void sums_read(struct sums *to)
{
	const uint32_t devs[] = {dev_of(tmp), dev_of(ram), dev_of(small)};
	struct zn_io_key key, next;
	static struct zn_hist h; /* or the beginning of one, which is a coarse one */
	struct zn_io_row row;

	memset(to, 0, sizeof(*to));
	for (const void *at = NULL; map_next(rows_fd, at, &next) == 0; at = &key) {
		key = next;
		if ((key.dev != devs[0] && key.dev != devs[1] && key.dev != devs[2]) || key.op >= ZN_IO_OP_COUNT)
			continue;
		if (map_read(rows_fd, &key, &row) || hist_read(row.hist, &h))
			continue;
		to->calls[key.op] += h.calls;
		to->errors[key.op] += h.errors;
		to->bytes[key.op] += h.bytes;
	}
}

/* ---- what is moved ---- */

static void expect(enum zn_io_op op, ssize_t result)
{
	expected.calls[op]++;
	expected.bytes[op] += result > 0 ? result : 0;
	expected.errors[op] += result < 0;
}

static int file_open(const char *folder, const char *name, int flags)
{
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!has_direct)
		flags &= ~O_DIRECT;
	fd = open(path, flags | O_CLOEXEC, 0600);
	if (fd < 0)
		die(path);
	expect(flags & O_CREAT ? ZN_IO_CREATE : ZN_IO_OPEN, 0);
	return fd;
}

/* The file that all read, of TOTAL bytes. */
static int source(int flags)
{
	return file_open(tmp, "source", O_RDONLY | flags);
}

/* A new file, with no name. */
static int target(int flags)
{
	char path[256];
	int fd;

	fd = file_open(tmp, "target", O_RDWR | O_CREAT | O_EXCL | flags);
	snprintf(path, sizeof(path), "%s/target", tmp);
	if (unlink(path))
		die(path);
	if (!by_call)
		expect(ZN_IO_UNLINK, 0);
	return fd;
}

static void reads(int fd, ssize_t (*one)(int, int))
{
	for (int i = 0; i < CHUNKS; i++)
		expect(ZN_IO_READ, one(fd, i));
	close(fd);
}

static void writes(int fd, ssize_t (*one)(int, int))
{
	for (int i = 0; i < CHUNKS; i++)
		expect(ZN_IO_WRITE, one(fd, i));
	close(fd);
}

static ssize_t one_read(int fd, int i)
{
	(void)i;
	return read(fd, buffer, CHUNK);
}
static ssize_t one_pread(int fd, int i)
{
	return pread(fd, buffer, CHUNK, (off_t)i * CHUNK);
}
static ssize_t one_direct(int fd, int i)
{
	return pread(fd, buffer, BLOCK, (off_t)i * BLOCK);
}
static ssize_t one_write(int fd, int i)
{
	(void)i;
	return write(fd, buffer, CHUNK);
}
static ssize_t one_pwrite(int fd, int i)
{
	return pwrite(fd, buffer, CHUNK, (off_t)i * CHUNK);
}
static ssize_t one_direct_write(int fd, int i)
{
	return pwrite(fd, buffer, BLOCK, (off_t)i * BLOCK);
}

static const struct iovec *two(void)
{
	static struct iovec vec[2];

	vec[0] = (struct iovec){buffer, 7};
	vec[1] = (struct iovec){buffer + 7, CHUNK - 7};
	return vec;
}
static ssize_t one_readv(int fd, int i)
{
	(void)i;
	return readv(fd, two(), 2);
}
static ssize_t one_preadv(int fd, int i)
{
	return preadv(fd, two(), 2, (off_t)i * CHUNK);
}
static ssize_t one_preadv2(int fd, int i)
{
	return preadv2(fd, two(), 2, (off_t)i * CHUNK, 0);
}
static ssize_t one_writev(int fd, int i)
{
	(void)i;
	return writev(fd, two(), 2);
}
static ssize_t one_pwritev(int fd, int i)
{
	return pwritev(fd, two(), 2, (off_t)i * CHUNK);
}
static ssize_t one_pwritev2(int fd, int i)
{
	return pwritev2(fd, two(), 2, (off_t)i * CHUNK, 0);
}

static void case_read(void)
{
	reads(source(0), one_read);
}
static void case_pread(void)
{
	reads(source(0), one_pread);
}
static void case_direct(void)
{
	reads(source(O_DIRECT), one_direct);
}
static void case_readv(void)
{
	reads(source(0), one_readv);
}
static void case_preadv(void)
{
	reads(source(0), one_preadv);
}
static void case_preadv2(void)
{
	reads(source(0), one_preadv2);
}
static void case_write(void)
{
	writes(target(0), one_write);
}
static void case_pwrite(void)
{
	writes(target(0), one_pwrite);
}
static void case_direct_write(void)
{
	writes(target(O_DIRECT), one_direct_write);
}
static void case_writev(void)
{
	writes(target(0), one_writev);
}
static void case_pwritev(void)
{
	writes(target(0), one_pwritev);
}
static void case_pwritev2(void)
{
	writes(target(0), one_pwritev2);
}
static void case_sync_write(void)
{
	writes(target(O_SYNC), one_write);
} /* no fsync is in it */

static void case_sendfile(void)
{
	int from = source(0), to = target(0);
	ssize_t n;

	while ((n = sendfile(to, from, NULL, CHUNK)) > 0) {
		expect(ZN_IO_READ, n);
		expect(ZN_IO_WRITE, n);
	}
	expect(ZN_IO_READ, n); /* the end */
	expect(ZN_IO_WRITE, n);
	close(from);
	close(to);
}

static void case_splice(void)
{
	int from = source(0), to = target(0), pipes[2];
	ssize_t n;

	if (pipe(pipes))
		die("pipe");
	while ((n = splice(from, NULL, pipes[1], NULL, CHUNK, 0)) > 0) {
		expect(ZN_IO_READ, n);
		for (ssize_t left = n; left > 0;) {
			ssize_t m = splice(pipes[0], NULL, to, NULL, left, 0);

			if (m <= 0)
				die("splice");
			expect(ZN_IO_WRITE, m);
			left -= m;
		}
	}
	expect(ZN_IO_READ, n);
	close(from);
	close(to);
	close(pipes[0]);
	close(pipes[1]);
}

static void case_copy(void)
{
	int from = source(0), to = target(0);
	ssize_t n;

	do {
		n = copy_file_range(from, NULL, to, NULL, CHUNK, 0);
		expect(ZN_IO_COPY, n);
	} while (n > 0);
	close(from);
	close(to);
}

/* Without this event, which 6.1 lacks, system calls leave no way to count faults. */
static bool has_fault_event(void)
{
	static const char folder[] = "/sys/kernel/tracing/events/filemap";

	return access(folder, F_OK) || access("/sys/kernel/tracing/events/filemap/mm_filemap_fault", F_OK) == 0;
}

/* A file of holes in memory: each page that is touched is brought in once. */
static void case_mmap(void)
{
	const size_t len = 509 * 4096;
	int fd = file_open(ram, "mapped", O_RDWR | O_CREAT | O_TRUNC);
	volatile char *at, seen = 0;

	if (ftruncate(fd, len))
		die("ftruncate");
	at = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		die("mmap");
	madvise((void *)at, len, MADV_RANDOM);
	for (size_t i = 0; i < len; i += 4096)
		seen += at[i];
	munmap((void *)at, len);
	close(fd);
	expected.bytes[ZN_IO_MMAP] = len;
	expected.calls[ZN_IO_MMAP] = by_call && !has_fault_event() ? 0 : len / 4096;
}

/* ---- io_uring ---- */

struct ring {
	int fd;
	struct io_uring_params p;
	char *sq, *cq;
	struct io_uring_sqe *sqes;
};

static bool ring_open(struct ring *r, unsigned flags)
{
	size_t len;

	memset(r, 0, sizeof(*r));
	r->p.flags = flags;
	r->p.sq_thread_idle = 2000;
	r->fd = syscall(SYS_io_uring_setup, 8, &r->p);
	if (r->fd < 0)
		return false;
	len = r->p.sq_off.array + r->p.sq_entries * sizeof(unsigned);
	r->sq = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQ_RING);
	len = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
	r->cq = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_CQ_RING);
	len = r->p.sq_entries * sizeof(struct io_uring_sqe);
	r->sqes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, IORING_OFF_SQES);
	if (r->sq == MAP_FAILED || r->cq == MAP_FAILED || r->sqes == MAP_FAILED)
		die("io_uring");
	return true;
}

static unsigned *in_ring(char *base, unsigned offset)
{
	return (unsigned *)(base + offset);
}

/* Submits one request and waits for it. */
static ssize_t ring_do(struct ring *r, const struct io_uring_sqe *sqe)
{
	unsigned *tail = in_ring(r->sq, r->p.sq_off.tail), mask = *in_ring(r->sq, r->p.sq_off.ring_mask);
	unsigned *head = in_ring(r->cq, r->p.cq_off.head), at = *tail & mask, enter = IORING_ENTER_GETEVENTS;
	unsigned submit = r->p.flags & IORING_SETUP_SQPOLL ? 0 : 1;
	struct io_uring_cqe *cqe;

	r->sqes[at] = *sqe;
	in_ring(r->sq, r->p.sq_off.array)[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (*in_ring(r->sq, r->p.sq_off.flags) & IORING_SQ_NEED_WAKEUP)
		enter |= IORING_ENTER_SQ_WAKEUP;
	while (__atomic_load_n(in_ring(r->cq, r->p.cq_off.tail), __ATOMIC_ACQUIRE) == *head) {
		if (syscall(SYS_io_uring_enter, r->fd, submit, 1, enter, NULL, 0) < 0 && errno != EINTR)
			die("io_uring_enter");
		submit = 0;
	}
	cqe = (struct io_uring_cqe *)(r->cq + r->p.cq_off.cqes) + (*head & *in_ring(r->cq, r->p.cq_off.ring_mask));
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return cqe->res;
}

static void ring_run(unsigned setup, unsigned flags, int opcode)
{
	bool is_read = opcode == IORING_OP_READ || opcode == IORING_OP_READV || opcode == IORING_OP_READ_FIXED;
	bool is_vec = opcode == IORING_OP_READV || opcode == IORING_OP_WRITEV;
	struct iovec whole = {buffer, CHUNK};
	int fd = is_read ? source(0) : target(0);
	struct ring r;

	if (!ring_open(&r, setup))
		die("io_uring_setup");
	if ((opcode == IORING_OP_READ_FIXED || opcode == IORING_OP_WRITE_FIXED) &&
		syscall(SYS_io_uring_register, r.fd, IORING_REGISTER_BUFFERS, &whole, 1))
		die("io_uring_register");
	for (int i = 0; i < CHUNKS; i++) {
		struct io_uring_sqe sqe = {.opcode = opcode, .fd = fd, .flags = flags, .off = (uint64_t)i * CHUNK};

		sqe.addr = is_vec ? (uintptr_t)two() : (uintptr_t)buffer;
		sqe.len = is_vec ? 2 : CHUNK;
		expect(is_read ? ZN_IO_READ : ZN_IO_WRITE, ring_do(&r, &sqe));
	}
	close(r.fd);
	close(fd);
}

static void case_ring_read(void)
{
	ring_run(0, 0, IORING_OP_READ);
}
static void case_ring_write(void)
{
	ring_run(0, 0, IORING_OP_WRITE);
}
static void case_ring_readv(void)
{
	ring_run(0, 0, IORING_OP_READV);
}
static void case_ring_writev(void)
{
	ring_run(0, 0, IORING_OP_WRITEV);
}
static void case_ring_fixed(void)
{
	ring_run(0, 0, IORING_OP_READ_FIXED);
}
static void case_ring_fixed_write(void)
{
	ring_run(0, 0, IORING_OP_WRITE_FIXED);
}
static void case_ring_async(void)
{
	ring_run(0, IOSQE_ASYNC, IORING_OP_READ);
}
static void case_ring_async_write(void)
{
	ring_run(0, IOSQE_ASYNC, IORING_OP_WRITE);
}
static void case_ring_sqpoll(void)
{
	ring_run(IORING_SETUP_SQPOLL, 0, IORING_OP_READ);
}
static void case_ring_sqpoll_write(void)
{
	ring_run(IORING_SETUP_SQPOLL, 0, IORING_OP_WRITE);
}

/* ---- libaio ---- */

static void aio_run(int opcode)
{
	int fd = opcode == IOCB_CMD_PREAD ? source(0) : target(0);
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, 8, &context))
		die("io_setup");
	for (int i = 0; i < CHUNKS; i++) {
		struct iocb iocb = {.aio_lio_opcode = opcode,
			.aio_fildes = fd,
			.aio_buf = (uintptr_t)buffer,
			.aio_nbytes = CHUNK,
			.aio_offset = (int64_t)i * CHUNK};
		struct iocb *list = &iocb;
		struct io_event event;

		if (syscall(SYS_io_submit, context, 1, &list) != 1 ||
			syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
			die("libaio");
		if (!by_call)
			expect(opcode == IOCB_CMD_PREAD ? ZN_IO_READ : ZN_IO_WRITE, event.res);
	}
	syscall(SYS_io_destroy, context);
	close(fd);
}

static void case_aio_read(void)
{
	aio_run(IOCB_CMD_PREAD);
}
static void case_aio_write(void)
{
	aio_run(IOCB_CMD_PWRITE);
}

/* ---- ends and errors ---- */

static void case_past_end(void)
{
	int fd = source(0);

	expect(ZN_IO_READ, pread(fd, buffer, CHUNK, TOTAL - 11)); /* 11 */
	expect(ZN_IO_READ, pread(fd, buffer, CHUNK, TOTAL));      /* 0 */
	expect(ZN_IO_READ, pread(fd, buffer, CHUNK, 10L * TOTAL));
	close(fd);
}

static void case_no_space(void)
{
	int fd = file_open(small, "full", O_WRONLY | O_CREAT);
	ssize_t n;

	do {
		n = write(fd, buffer, CHUNK);
		expect(ZN_IO_WRITE, n);
	} while (n > 0);
	close(fd);
}

static void case_bad_fd(void)
{
	int fd = source(0), gone = dup(fd);

	expect(ZN_IO_WRITE, write(fd, buffer, CHUNK)); /* opened for reading alone */
	close(gone);
	if (read(gone, buffer, CHUNK) >= 0 || errno != EBADF) /* of no file: nothing */
		die("read");
	close(fd);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* Signals all the time; what a call returns counts, whatever came between. */
static void case_interrupted(void)
{
	struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
	int fd = target(0);

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < CHUNKS; i++)
		expect(ZN_IO_WRITE, pwrite(fd, buffer, TOTAL, 0));
	setitimer(ITIMER_REAL, &never, NULL);
	close(fd);
}

static void case_not_files(void)
{
	int pipes[2], proc = open("/proc/self/stat", O_RDONLY), memory = memfd_create("x", 0);

	if (pipe(pipes) || write(pipes[1], buffer, 7) != 7 || read(pipes[0], buffer, 7) != 7 ||
		read(proc, buffer, 7) != 7 || write(memory, buffer, 7) != 7)
		die("a pipe, /proc or a memfd");
	close(pipes[0]);
	close(pipes[1]);
	close(proc);
	close(memory);
}

/* ---- metadata ---- */

static void case_fsync(void)
{
	int fd = target(0);

	for (int i = 0; i < 7; i++)
		expect(ZN_IO_FSYNC, i % 2 ? fsync(fd) : fdatasync(fd));
	close(fd);
}

static void case_stat(void)
{
	int fd = source(0);
	struct stat st;

	for (int i = 0; i < 11; i++)
		expect(ZN_IO_STAT, fstat(fd, &st));
	close(fd);
}

static void by_path(enum zn_io_op op, int result)
{
	if (!by_call)
		expect(op, result);
}

static void case_folders(void)
{
	char a[160], b[160];

	snprintf(a, sizeof(a), "%s/a", tmp);
	snprintf(b, sizeof(b), "%s/b", tmp);
	for (int i = 0; i < 5; i++) {
		by_path(ZN_IO_MKDIR, mkdir(a, 0700));
		by_path(ZN_IO_RENAME, rename(a, b));
		by_path(ZN_IO_RMDIR, rmdir(b));
	}
	/* without O_EXCL, an NFS client of 5.10 takes it for new only if the folder's time has gone on */
	close(file_open(tmp, "a", O_WRONLY | O_CREAT | O_EXCL));
	by_path(ZN_IO_UNLINK, unlink(a));
}

/* Whatever is wrong with a folder that is not empty is the file system's answer. */
static void case_folder_errors(void)
{
	char a[160], in[192];

	snprintf(a, sizeof(a), "%s/a", tmp);
	snprintf(in, sizeof(in), "%s/in", a);
	by_path(ZN_IO_MKDIR, mkdir(a, 0700));
	by_path(ZN_IO_MKDIR, mkdir(in, 0700));
	by_path(ZN_IO_RMDIR, rmdir(a));
	by_path(ZN_IO_RMDIR, rmdir(in));
	by_path(ZN_IO_RMDIR, rmdir(a));
}

/* ---- many threads ---- */

#define STORM_THREADS 128
#define STORM_CALLS   307
#define STORM_BYTES   127

static void *storm(void *fd)
{
	char bytes[STORM_BYTES] = {0};

	for (int i = 0; i < STORM_CALLS; i++)
		if (pwrite((int)(intptr_t)fd, bytes, sizeof(bytes), 0) != sizeof(bytes))
			die("pwrite");
	return NULL;
}

static void case_storm(void)
{
	pthread_t thread[STORM_THREADS];
	intptr_t fd = target(0);

	for (int i = 0; i < STORM_THREADS; i++)
		if (pthread_create(&thread[i], NULL, storm, (void *)fd))
			die("pthread_create");
	for (int i = 0; i < STORM_THREADS; i++)
		pthread_join(thread[i], NULL);
	close(fd);
	expected.calls[ZN_IO_WRITE] += STORM_THREADS * STORM_CALLS;
	expected.bytes[ZN_IO_WRITE] += (uint64_t)STORM_THREADS * STORM_CALLS * STORM_BYTES;
}

/* ---- running ---- */

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{"read", case_read},
	{"pread", case_pread},
	{"O_DIRECT", case_direct},
	{"readv", case_readv},
	{"preadv", case_preadv},
	{"preadv2", case_preadv2},
	{"write", case_write},
	{"pwrite", case_pwrite},
	{"O_DIRECT write", case_direct_write},
	{"writev", case_writev},
	{"pwritev", case_pwritev},
	{"pwritev2", case_pwritev2},
	{"O_SYNC write", case_sync_write},
	{"sendfile", case_sendfile},
	{"splice", case_splice},
	{"copy_file_range", case_copy},
	{"mmap", case_mmap},
	{"io_uring read", case_ring_read},
	{"io_uring write", case_ring_write},
	{"io_uring readv", case_ring_readv},
	{"io_uring writev", case_ring_writev},
	{"io_uring fixed read", case_ring_fixed},
	{"io_uring fixed write", case_ring_fixed_write},
	{"io_uring async read", case_ring_async},
	{"io_uring async write", case_ring_async_write},
	{"io_uring sqpoll read", case_ring_sqpoll},
	{"io_uring sqpoll write", case_ring_sqpoll_write},
	{"libaio read", case_aio_read},
	{"libaio write", case_aio_write},
	{"past the end", case_past_end},
	{"no space", case_no_space},
	{"bad descriptors", case_bad_fd},
	{"interrupted", case_interrupted},
	{"no files", case_not_files},
	{"fsync", case_fsync},
	{"stat", case_stat},
	{"folders", case_folders},
	{"folder errors", case_folder_errors},
	{"storm", case_storm},
};

static bool differs(const char *name, const char *what, const uint64_t got[], const uint64_t want[])
{
	bool found = false;

	for (int op = 0; op < ZN_IO_OP_COUNT; op++)
		if (got[op] != want[op]) {
			static const char *const label[] = {
#define X(e, text) text,
				ZN_IO_OPS(X)
#undef X
			};

			printf("FAILED %s: %s %s: %llu, not %llu\n", name, label[op], what, (unsigned long long)got[op],
				(unsigned long long)want[op]);
			found = true;
		}
	return found;
}

static uint64_t all(const uint64_t of[ZN_IO_OP_COUNT])
{
	uint64_t n = 0;

	for (int op = 0; op < ZN_IO_OP_COUNT; op++)
		n += of[op];
	return n;
}

/* What is not counted must be counted as lost. Only the storm can lose anything, so each is a write of its size. */
static uint64_t lost_add(struct sums *to, uint64_t lost, uint64_t skipped)
{
	uint64_t missing;

	to->calls[ZN_IO_WRITE] += lost;
	missing = expected.calls[ZN_IO_WRITE] - to->calls[ZN_IO_WRITE];
	if (to->calls[ZN_IO_WRITE] > expected.calls[ZN_IO_WRITE] || missing > skipped)
		missing = 0;
	to->calls[ZN_IO_WRITE] += missing;
	to->bytes[ZN_IO_WRITE] += (lost + missing) * STORM_BYTES;
	return lost + missing;
}

static void run(size_t i)
{
	const char *name = cases[i].name;
	struct sums before, after;
	uint64_t lost = lost_read(), skipped = skipped_read();
	bool wrong;

	memset(&expected, 0, sizeof(expected));
	if (!by_call) /* the tables are read between two looks at the three folders */
		expected.calls[ZN_IO_STAT] = 3;
	sums_read(&before);
	cases[i].run();
	sums_read(&after);
	lost = lost_read() - lost;
	for (int op = 0; op < ZN_IO_OP_COUNT; op++) {
		after.calls[op] -= before.calls[op];
		after.errors[op] -= before.errors[op];
		after.bytes[op] -= before.bytes[op];
	}
	lost = lost_add(&after, lost, skipped_read() - skipped);
	wrong = differs(name, "bytes", after.bytes, expected.bytes);
	wrong |= differs(name, "calls", after.calls, expected.calls);
	wrong |= differs(name, "errors", after.errors, expected.errors);
	if (!wrong)
		printf("ok %s: %llu bytes, %llu calls, %llu errors, %llu lost\n", name,
			(unsigned long long)all(after.bytes), (unsigned long long)all(after.calls),
			(unsigned long long)all(after.errors), (unsigned long long)lost);
	passed += !wrong;
	failed += wrong;
}

/* ---- full tables ---- */

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

static void mounted(char path[128], const char *folder, const char *name, const char *type, const char *options)
{
	snprintf(path, 128, "%s/%s", folder, name);
	if ((mkdir(path, 0700) && errno != EEXIST) || mount("zernel", path, type, 0, options))
		die(path);
}

static void run_fulls(void)
{
	whole.fd = map_open("free_hists");
	coarse.fd = map_open("free_coarse");
	run_full("no whole histogram", small, hists_fill, hists_drain, false);
	run_full("no histogram", tmp, all_fill, hists_drain, true);
	run_full("no free entry", ram, rows_fill, rows_drain, true);
}

int main(int argc, char **argv)
{
	int fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc < 3 || argc > 4) {
		fprintf(stderr, "usage: matrix DIR fentry|kprobe|tracepoint|full [FILES]\n");
		return 2;
	}
	by_call = strcmp(argv[2], "tracepoint") == 0;
	buffer = mmap(NULL, TOTAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	rows_fd = map_open("io_rows");
	hists_fd = map_open("hists");
	coarse_fd = map_open("coarse_hists");
	shared_fd = map_open("zernel.bss");
	if (argc == 4)
		snprintf(tmp, sizeof(tmp), "%s", argv[3]);
	else
		mounted(tmp, argv[1], "tmpfs", "tmpfs", "size=64m");
	mounted(ram, argv[1], "ramfs", "ramfs", NULL);
	mounted(small, argv[1], "small", "tmpfs", "size=256k");
	fd = file_open(tmp, "source", O_WRONLY | O_CREAT);
	if (write(fd, buffer, TOTAL) != TOTAL)
		die("write");
	close(fd);
	fd = openat(open(tmp, O_PATH | O_CLOEXEC), "source", O_RDONLY | O_DIRECT | O_CLOEXEC);
	has_direct = fd >= 0;
	close(fd);
	if (strcmp(argv[2], "full") == 0)
		run_fulls();
	for (size_t i = 0; i < ZN_LEN(cases) && strcmp(argv[2], "full"); i++)
		run(i);
	if (argc < 4)
		umount2(tmp, MNT_DETACH);
	umount(ram);
	umount(small);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
