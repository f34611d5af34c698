/* SPDX-License-Identifier: GPL-2.0 */
/*
 * matrix_rest.c: ends and errors, metadata, and many threads at once.
 */
#include <sys/mman.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "matrix.h"

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

/* Only a mapping that could be written to is synced. On overlay it is one of the file below, and counts there. */
static void case_msync(void)
{
	int fd = target(0);
	void *at = mmap(NULL, CHUNK, PROT_READ, MAP_SHARED, fd, 0);
	struct statfs fs;

	if (at == MAP_FAILED || fstatfs(fd, &fs))
		die("mmap");
	for (int i = 0; i < 5; i++) {
		int done = msync(at, CHUNK, MS_SYNC);

		if (!by_call && fs.f_type != OVERLAYFS_SUPER_MAGIC)
			expect(ZN_IO_FSYNC, done);
	}
	munmap(at, CHUNK);
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

/* ---- threads that have faulted ---- */

#define FAULTED_THREADS 7001 /* of whom each keeps one of 8,192 places where the daemon stands on system calls */
#define READERS         101

static pthread_barrier_t faulted, counted;

/* Once, on a page that is there already: nothing tells the end of that. */
static void *fault_and_wait(void *fd)
{
	volatile char *page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, (int)(intptr_t)fd, 0);

	if (page == MAP_FAILED)
		die("mmap");
	*page = 1;
	pthread_barrier_wait(&faulted);
	pthread_barrier_wait(&counted);
	munmap((void *)page, 1);
	return NULL;
}

static void *read_once(void *fd)
{
	char byte;

	if (pread((int)(intptr_t)fd, &byte, 1, 0) != 1)
		die("pread");
	return NULL;
}

static void start_threads(pthread_t *thread, int count, void *(*run)(void *), intptr_t fd)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 15);
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread[i], &attr, run, (void *)fd))
			die("pthread_create");
}

static void join_threads(const pthread_t *thread, int count)
{
	for (int i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
}

static void case_faulted(void)
{
	static pthread_t idle[FAULTED_THREADS], reader[READERS];
	intptr_t fd;

	if (!by_call)
		return;
	fd = file_open(ram, "faulted", O_RDWR | O_CREAT);
	expect(ZN_IO_WRITE, write((int)fd, buffer, CHUNK));
	pthread_barrier_init(&faulted, NULL, FAULTED_THREADS + 1);
	pthread_barrier_init(&counted, NULL, FAULTED_THREADS + 1);
	start_threads(idle, FAULTED_THREADS, fault_and_wait, fd);
	pthread_barrier_wait(&faulted);
	start_threads(reader, READERS, read_once, fd);
	join_threads(reader, READERS);
	for (int i = 0; i < READERS; i++)
		expect(ZN_IO_READ, 1);
	pthread_barrier_wait(&counted);
	join_threads(idle, FAULTED_THREADS);
	close((int)fd);
}

const struct io_case rest_cases[] = {
	{"past the end", case_past_end},
	{"no space", case_no_space},
	{"bad descriptors", case_bad_fd},
	{"interrupted", case_interrupted},
	{"no files", case_not_files},
	{"fsync", case_fsync},
	{"msync", case_msync},
	{"stat", case_stat},
	{"folders", case_folders},
	{"folder errors", case_folder_errors},
	{"storm", case_storm},
	{"threads that have faulted", case_faulted},
	{0},
};
