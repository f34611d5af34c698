/* SPDX-License-Identifier: GPL-2.0 */
/*
 * calls FOLDER [LIBRARY]: system calls that programs on the kernel are asked at, timed, on one CPU and at real-time
 * priority if that is allowed, so that nobody else's switches are among them. With the fake libcuda, line "track" makes
 * this a process that calls a hooked library. Reads lines: time KIND BLOCKS CALLS prints the median over the blocks of
 * the time of one call, ns; track calls the library; priority prints "real-time" or "normal". Kinds: getppid; pread and
 * pwrite, of one byte of a file in FOLDER; openat, of that file, with its close; switch, a byte that goes back and
 * forth between two threads on one CPU, per context switch; send, of one byte over TCP.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

#define BLOCKS_MAX 1000
#define REST_US    200 /* after each block, for who else wants this CPU */

static void *library;
static char path[512];
static int file_fd, send_fd, to[2], from[2];
static bool real_time;

static void check(bool good, const char *what)
{
	if (!good)
		die(what, "failed");
}

/* ---- what is timed ---- */

static void call_getppid(void)
{
	syscall(SYS_getppid);
}

static void call_pread(void)
{
	char byte;

	check(pread(file_fd, &byte, 1, 0) == 1, "pread");
}

static void call_pwrite(void)
{
	check(pwrite(file_fd, "x", 1, 0) == 1, "pwrite");
}

static void call_openat(void)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	check(fd >= 0, "open");
	close(fd);
}

static void call_switch(void)
{
	char byte = 'x';

	check(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1, "pipe");
}

static void call_send(void)
{
	check(send(send_fd, "x", 1, 0) == 1, "send");
}

static const struct {
	const char *name;
	void (*call)(void);
	int parts; /* that one turn is made of */
} kinds[] = {{"getppid", call_getppid, 1}, {"pread", call_pread, 1}, {"pwrite", call_pwrite, 1},
	{"openat", call_openat, 1}, {"switch", call_switch, 2}, {"send", call_send, 1}};

/* ---- the other ends ---- */

static void *answer(void *arg)
{
	char byte;

	while (read(to[0], &byte, 1) == 1)
		if (write(from[1], &byte, 1) != 1)
			break;
	return arg;
}

static void *drain(void *arg)
{
	static char buffer[1 << 16];

	while (read(*(int *)arg, buffer, sizeof(buffer)) > 0)
		;
	return NULL;
}

static void ends_open(void)
{
	static int accepted;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	pthread_t thread;

	check(pipe(to) == 0 && pipe(from) == 0, "pipe");
	check(pthread_create(&thread, NULL, answer, NULL) == 0, "thread");
	check(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0 &&
			getsockname(listener, (struct sockaddr *)&at, &len) == 0,
		"listen");
	send_fd = socket(AF_INET, SOCK_STREAM, 0);
	check(connect(send_fd, (struct sockaddr *)&at, len) == 0, "connect");
	accepted = accept(listener, NULL, NULL);
	check(pthread_create(&thread, NULL, drain, &accepted) == 0, "thread");
}

/* ---- lines ---- */

static double block_time(void (*call)(void), long calls)
{
	uint64_t start = now_ns();

	for (long i = 0; i < calls; i++)
		call();
	return (double)(now_ns() - start) / (double)calls;
}

static void time_calls(const char *name, long blocks, long calls)
{
	static double ns[BLOCKS_MAX];
	size_t k = 0;

	while (k < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[k].name, name))
		k++;
	if (k == sizeof(kinds) / sizeof(kinds[0]))
		die(name, "no such kind of call");
	block_time(kinds[k].call, calls);
	for (long i = 0; i < blocks; i++) {
		ns[i] = block_time(kinds[k].call, calls) / kinds[k].parts;
		pause_us(REST_US);
	}
	qsort(ns, (size_t)blocks, sizeof(ns[0]), by_value);
	printf("%.2f\n", ns[blocks / 2]);
}

static void track(void)
{
	void *context;

	if (!library)
		die("track", "no library was given");
	((int (*)(void **, int))symbol(library, "cuDevicePrimaryCtxRetain"))(&context, 0);
	((int (*)(void *))symbol(library, "cuCtxSetCurrent"))(context);
	puts("tracked");
}

static void obey(const char *line)
{
	char name[64];
	long blocks, calls;

	if (sscanf(line, "time %63s %ld %ld", name, &blocks, &calls) == 3 && blocks > 0 && blocks <= BLOCKS_MAX &&
		calls > 0)
		time_calls(name, blocks, calls);
	else if (strcmp(line, "track\n") == 0)
		track();
	else if (strcmp(line, "priority\n") == 0)
		puts(real_time ? "real-time" : "normal");
	else
		die("not understood", line);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct sched_param priority = {.sched_priority = 1};
	cpu_set_t cpu;
	char line[256];

	if (argc != 2 && argc != 3)
		die("usage", "calls FOLDER [LIBRARY]");
	CPU_ZERO(&cpu);
	CPU_SET((int)sysconf(_SC_NPROCESSORS_ONLN) - 1, &cpu);
	check(sched_setaffinity(0, sizeof(cpu), &cpu) == 0, "sched_setaffinity");
	real_time = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
	snprintf(path, sizeof(path), "%s/calls.%d", argv[1], getpid());
	file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	check(file_fd >= 0 && pwrite(file_fd, "x", 1, 0) == 1, path);
	ends_open();
	if (argc == 3) {
		library = library_open(argv[2]);
		((int (*)(unsigned))symbol(library, "cuInit"))(0);
	}
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	unlink(path);
	return 0;
}
