/* SPDX-License-Identifier: GPL-2.0 */
/*
 * matrix_calls.c: ways to move bytes of a file by a system call each, and by mapping it.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "matrix.h"

void expect(enum zn_io_op op, ssize_t result)
{
	expected.calls[op]++;
	expected.bytes[op] += result > 0 ? result : 0;
	expected.errors[op] += result < 0;
}

int file_open(const char *folder, const char *name, int flags)
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

int source(int flags)
{
	return file_open(tmp, "source", O_RDONLY | flags);
}

int target(int flags)
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

const struct iovec *two(void)
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

const struct io_case call_cases[] = {
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
	{0},
};
