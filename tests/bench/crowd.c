/* SPDX-License-Identifier: GPL-2.0 */
/*
 * crowd IDLE RATE LIBRARY: a node of IDLE processes that sleep, on which RATE processes a second start and end. Every
 * second one of those maps LIBRARY for a moment, the others execute a program. Says "ready" when all sleep. Answers
 * "read" with the ns of CPU that it takes to read the maps of all processes once, and any other line with the number of
 * processes that it has started since it was ready. Ends with its input, and all of them with it.
 */
#include "bench.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TURN_MS 10

static void idle_start(void)
{
	int pid = fork();

	if (pid < 0)
		die("fork", "no room for that many processes");
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void map_library(int fd)
{
	void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	_exit(at == MAP_FAILED);
}

static void visitor_start(unsigned long n, int fd)
{
	int pid = n % 2 ? fork() : vfork();

	if (pid < 0)
		die("fork", "no room for one more process");
	if (pid)
		return;
	if (n % 2)
		map_library(fd);
	execl("/bin/true", "true", NULL);
	_exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void maps_read(const char *pid)
{
	char path[300], text[65536];
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, text, sizeof(text)) > 0)
		;
	if (fd >= 0)
		close(fd);
}

static uint64_t all_read(void)
{
	uint64_t start = cpu_ns();
	DIR *dir = opendir("/proc");
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]))
			maps_read(e->d_name);
	if (dir)
		closedir(dir);
	return cpu_ns() - start;
}

int main(int argc, char **argv)
{
	int fd = argc == 4 ? open(argv[3], O_RDONLY | O_CLOEXEC) : -1;
	struct pollfd input = {.fd = 0, .events = POLLIN};
	unsigned long started = 0, rate;
	uint64_t start;
	char line[64];

	if (fd < 0)
		die("usage", "crowd IDLE RATE LIBRARY");
	rate = strtoul(argv[2], NULL, 10);
	signal(SIGCHLD, SIG_IGN);
	for (long n = strtol(argv[1], NULL, 10); n > 0; n--)
		idle_start();
	puts("ready");
	fflush(stdout);
	for (start = now_ns();;) {
		for (; started < (now_ns() - start) * rate / 1000000000; started++)
			visitor_start(started, fd);
		if (!poll(&input, 1, TURN_MS))
			continue;
		if (read(0, line, sizeof(line)) <= 0)
			return 0;
		printf("%lu\n", strncmp(line, "read", 4) ? started : all_read());
		fflush(stdout);
	}
}
