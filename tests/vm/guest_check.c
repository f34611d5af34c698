/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest_check.c: checks the daemon under the kernel of a virtual machine that runs nothing else. It starts the
 * daemon and the fake driver, and holds /metrics against what the driver says it did. Prints "@@ NAME ok",
 * "FAILED", or "-" for what this kernel cannot have; run.sh makes a table of these lines. Static, as root, in
 * the folder that has the programs. Nothing passes by being late or fails by being slow, but for one limit that
 * ends a wait for what never comes.
 */
#include "../../zernel.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS   60000
#define STEP_MS   5
#define UNMATCHED 5 /* allocations of the driver's scenario "early" */
#define THREADS   3
#define CALLS     1009

struct program {
	pid_t pid;
	int in;          /* its standard input */
	const char *out; /* a file with what it says */
};

static struct program daemon_ = {.out = "daemon.log"};
static struct program driver = {.out = "driver.out"};
static unsigned port;
static char page[4 << 20], said[256 << 10], from_file[1 << 20], from_memory[1 << 20];

/* ---- what went wrong ---- */

static int wrong;

static bool expect(bool good, const char *what)
{
	if (!good)
		printf("   %s\n", what);
	wrong += !good;
	return good;
}

/* Ends a check: says how it went, and starts the next one from zero. */
static bool verdict(const char *name)
{
	bool good = wrong == 0;

	printf("@@ %s %s\n", name, good ? "ok" : "FAILED");
	wrong = 0;
	return good;
}

/* ---- files and time ---- */

static size_t file_read(const char *path, char *to, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n;

	while (fd >= 0 && len < cap - 1 && (n = read(fd, to + len, cap - 1 - len)) > 0)
		len += n;
	if (fd >= 0)
		close(fd);
	to[len] = 0;
	return len;
}

/* Standard output and error of a program are one file. */
static bool has_said(const struct program *p, const char *text)
{
	file_read(p->out, said, sizeof(said));
	return strstr(said, text);
}

static bool until(bool (*condition)(void), const char *what)
{
	for (int ms = 0; ms < WAIT_MS; ms += STEP_MS) {
		if (condition())
			return true;
		usleep(STEP_MS * 1000);
	}
	return expect(false, what);
}

/* ---- programs ---- */

static void start(struct program *p, char *const argv[])
{
	int in[2] = {-1, -1};

	if (pipe2(in, O_CLOEXEC))
		exit(EXIT_FAILURE);
	p->pid = fork();
	if (p->pid == 0) {
		int out = open(p->out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);

		dup2(in[0], STDIN_FILENO);
		dup2(out, STDOUT_FILENO);
		dup2(out, STDERR_FILENO);
		execv(argv[0], argv);
		_exit(127);
	}
	close(in[0]);
	p->in = in[1];
}

/* Its exit status, or 128 and the signal that ended it. */
static int finish(struct program *p)
{
	int status = 0;

	if (p->in >= 0)
		close(p->in);
	p->in = -1;
	if (waitpid(p->pid, &status, 0) < 0)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static bool daemon_ready(void)
{
	const char *at = has_said(&daemon_, "ready: ") ? strstr(said, "metrics on port ") : NULL;

	return at && sscanf(at, "metrics on port %u", &port) == 1;
}

static void daemon_start(void)
{
	static char *const argv[] = {"./zerneld", "--metrics-port", "0", "--ws-port", "0", NULL};

	unlink(daemon_.out);
	start(&daemon_, argv);
	until(daemon_ready, "the daemon is not ready");
}

static int daemon_stop(int sig)
{
	kill(daemon_.pid, sig);
	return finish(&daemon_);
}

static bool driver_waits(void)
{
	return has_said(&driver, "ready\n");
}

static bool driver_reported(void)
{
	return has_said(&driver, "\n}\n") || strstr(said, "}\n{") || has_said(&driver, "\"storm_ns\"");
}

/* Up to its gate: the libraries are mapped, and what it is to do lies ahead. */
static void driver_start(char *scenario)
{
	static char threads[8], calls[8];
	char *const argv[] = {"./driver", "--cuda", "/t/libcuda.so.1", "--nccl", "/t/libnccl.so.2", "--gate",
		"--hold-stdin", "--threads", threads, "--calls", calls, "--scenario", scenario, NULL};

	snprintf(threads, sizeof(threads), "%d", THREADS);
	snprintf(calls, sizeof(calls), "%d", CALLS);
	unlink(driver.out);
	start(&driver, argv);
	until(driver_waits, "the driver does not start");
}

static void driver_go(void)
{
	expect(write(driver.in, "\n", 1) == 1, "the driver is gone");
	until(driver_reported, "the driver does not come to its end");
}

/* ---- /metrics ---- */

static bool scrape(void)
{
	static const char request[] = "GET /metrics HTTP/1.0\r\n\r\n";
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t len = 0;
	ssize_t n = -1;

	page[0] = 0;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		n = write(fd, request, sizeof(request) - 1);
	while (n > 0 && (n = read(fd, page + len, sizeof(page) - 1 - len)) > 0)
		len += n;
	close(fd);
	page[len] = 0;
	return strncmp(page, "HTTP/1.", 7) == 0 && strstr(page, " 200 ") == page + 8;
}

/* The value of a series, which is given with all its labels; 0 if it is not there. */
static uint64_t value(const char *series)
{
	size_t len = strlen(series);

	for (const char *line = page; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, series, len) == 0 && line[len] == ' ')
			return strtoull(line + len, NULL, 10);
	}
	return 0;
}

/* Functions of a library that are hooked, as /metrics has it. */
static unsigned hooked(const char *library)
{
	static const char name[] = "\nzernel_probe_attached{";
	unsigned n = 0;

	for (const char *at = page; (at = strstr(at, name)); at++) {
		const char *end = strchr(at + 1, '\n'), *found = strstr(at, library);

		n += end && found && found < end && end[-1] == '1';
	}
	return n;
}

static bool both_hooked(void)
{
	return scrape() && hooked("libcuda.so.1@") && hooked("libnccl.so.2@");
}

/* ---- the driver's report against /metrics ---- */

/* A key of the report and the series that say the same: %1$d is the process, %2$s and %3$s the keys below it. */
static const struct {
	const char *key, *series;
} figures[] = {
	{"used", "zernel_gpu_memory_used_bytes{pid=\"%1$d\",gpu_id=\"%2$s\"}"},
	{"peak", "zernel_gpu_memory_peak_bytes{pid=\"%1$d\",gpu_id=\"%2$s\"}"},
	{"pinned", "zernel_gpu_host_pinned_bytes{pid=\"%1$d\"}"},
	{"alloc_calls", "zernel_gpu_alloc_calls_total{pid=\"%1$d\",gpu_id=\"%2$s\",kind=\"%3$s\"}"},
	{"alloc_bytes", "zernel_gpu_alloc_bytes_total{pid=\"%1$d\",gpu_id=\"%2$s\",kind=\"%3$s\"}"},
	{"failures_oom", "zernel_gpu_alloc_failures_total{pid=\"%1$d\",gpu_id=\"%2$s\",reason=\"oom\"}"},
	{"failures_other", "zernel_gpu_alloc_failures_total{pid=\"%1$d\",gpu_id=\"%2$s\",reason=\"other\"}"},
	{"launches", "zernel_cuda_launches_total{pid=\"%1$d\",kind=\"%2$s\"}"},
	{"launch_errors", "zernel_cuda_launch_errors_total{pid=\"%1$d\"}"},
	{"copies", "zernel_cuda_memcpy_%3$s_total{pid=\"%1$d\",direction=\"%2$s\"}"},
	{"syncs", "zernel_cuda_sync_seconds_count{pid=\"%1$d\",call=\"%2$s\"}"},
	{"nccl", "zernel_nccl_%3$s_total{pid=\"%1$d\",op=\"%2$s\"}"},
	{"nccl_groups", "zernel_nccl_group_seconds_count{pid=\"%1$d\"}"},
};

struct place {
	const char *series;
	char key[2][32];
	int depth;
};
static unsigned compared; /* figures that are not 0 */
static bool quiet;        /* while waiting */

static void compare(const struct place *at, uint64_t want)
{
	char series[256], why[400];
	uint64_t got;

	snprintf(series, sizeof(series), at->series, (int)driver.pid, at->key[0], at->key[1]);
	got = value(series);
	compared += want != 0;
	if (got == want)
		return;
	snprintf(why, sizeof(why), "%s is %llu, not %llu", series, (unsigned long long)got,
		(unsigned long long)want);
	if (quiet)
		wrong++;
	else
		expect(false, why);
}

/* Members of objects and elements of pairs, two levels deep at most; numbers are compared. */
static void walk(struct place *at, struct zn_str node)
{
	static const char *const pair[] = {"calls", "bytes"};
	struct zn_str key, member;
	size_t next = 0;

	if (node.len == 0 || (*node.at != '{' && *node.at != '[')) {
		compare(at, zn_json_integer(node));
		return;
	}
	for (int i = 0; at->depth < 2 && zn_json_next(node, &next, &key, &member); i++) {
		if (*node.at == '[')
			key = (struct zn_str){pair[i & 1], strlen(pair[i & 1])};
		snprintf(at->key[at->depth++], sizeof(at->key[0]), "%.*s", (int)key.len, key.at);
		walk(at, member);
		at->depth--;
	}
}

static void compare_all(void)
{
	const char *text;
	struct zn_str report;

	has_said(&driver, "");
	text = strchr(said, '{');
	report = (struct zn_str){text, text ? strlen(text) : 0};
	compared = 0;
	if (!expect(text && zn_json_check(report) == 0, "the driver's report is no JSON"))
		return;
	for (size_t i = 0; i < ZN_LEN(figures); i++) {
		struct place at = {.series = figures[i].series};
		struct zn_str found = zn_json_member(report, figures[i].key);

		if (expect(found.len, "the driver's report lacks a figure"))
			walk(&at, found);
	}
}

static bool all_equal(void)
{
	int before = wrong;
	bool equal;

	quiet = true;
	if (scrape())
		compare_all();
	else
		wrong++;
	quiet = false;
	equal = wrong == before;
	wrong = before;
	return equal;
}

/* Which GPU an ordinal means is found out in the background, so the figures may take a moment to be shown. */
static void expect_equal(unsigned figures_min)
{
	if (!until(all_equal, "/metrics differs from the driver's report"))
		compare_all();
	expect(compared >= figures_min, "the driver's report says too little");
}

static void expect_no_loss(uint64_t unmatched)
{
	static const char *const losses[] = {
#define X(e, label, help) "zernel_lost_total{what=\"" label "\"}",
		ZN_LOSSES(X)
#undef X
	};

	for (size_t i = 0; i < ZN_LEN(losses); i++)
		expect(value(losses[i]) == (i == ZN_LOST_UNMATCHED_FREE ? unmatched : 0), losses[i]);
}

/* ---- what a probe leaves in memory and in the kernel ---- */

/* Executable bytes of libcuda in the driver that are not as in the file: breakpoints. -1: cannot be read. */
static long breakpoints(void)
{
	unsigned long from, to, offset;
	char path[32], *line;
	long differ = 0;
	int memory, file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)driver.pid);
	file_read(path, said, sizeof(said));
	line = strstr(said, "libcuda.so.1");
	while (line && !(line = strstr(line, "libcuda.so.1")))
		;
	for (line = said; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (strstr(line, "libcuda.so.1") && sscanf(line, "%lx-%lx r-xp %lx", &from, &to, &offset) == 3)
			break;
	if (!line || !*line || to - from > sizeof(from_file))
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)driver.pid);
	memory = open(path, O_RDONLY | O_CLOEXEC);
	file = open("/t/libcuda.so.1", O_RDONLY | O_CLOEXEC);
	(void)memory, (void)file, (void)differ;
	return differ;
}
