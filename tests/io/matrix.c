/* SPDX-License-Identifier: GPL-2.0 */
#define CHUNK 65537 /* prime */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "matrix.h"

int passed, failed;
char *buffer; /* TOTAL bytes, aligned */
char tmp[128], ram[128], small[128];
bool has_direct; /* tmpfs has O_DIRECT from 6.6 on */
bool by_call;    /* the daemon stands on system calls */

struct sums expected;

void die(const char *what)
{
	fprintf(stderr, "matrix: %s: %s\n", what, strerror(errno));
	exit(2);
}

static const struct io_case *const cases[] = {call_cases, ring_cases, rest_cases};

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

static void run_case(const struct io_case *c)
{
	const char *name = c->name;
	struct sums before, after;
	uint64_t lost = lost_read(), skipped = skipped_read();
	bool wrong;

	memset(&expected, 0, sizeof(expected));
	if (!by_call) /* the tables are read between two looks at the three folders */
		expected.calls[ZN_IO_STAT] = 3;
	sums_read(&before);
	c->run();
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

static void mounted(char path[128], const char *folder, const char *name, const char *type, const char *options)
{
	snprintf(path, 128, "%s/%s", folder, name);
	if ((mkdir(path, 0700) && errno != EEXIST) || mount("zernel", path, type, 0, options))
		die(path);
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
		for (const struct io_case *c = cases[i]; c->name; c++)
			run_case(c);
	if (argc < 4)
		umount2(tmp, MNT_DETACH);
	umount(ram);
	umount(small);
	printf("%d passed, %d failed\n", passed, failed);
	return failed != 0;
}
