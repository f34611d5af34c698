/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest_check.c: checks the daemon under the kernel of a virtual machine that runs nothing else. It starts the
 * daemon and the fake driver, and holds /metrics against what the driver says it did. Prints "@@ NAME ok",
 * "FAILED", or "-" for what this kernel cannot have; run.sh makes a table of these lines. Static, as root, in the
 * folder that has the programs, which is /t. The only time limit ends a wait for what never comes. With
 * CHECK=NAME,... on the kernel's command line (VM_APPEND of boot.sh) these checks are made alone.
 */
#include "zernel.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define WAIT_MS    120000
#define STEP_MS    5
#define UNMATCHED  5 /* allocations of the driver's scenario "early" */
#define THREADS    3
#define CALLS      1009
#define MOVES      211
#define CROWD      24 /* programs at a time */
#define CROWDS     16
#define CUDA       "/t/libcuda.so.1"
#define NCCL       "/t/libnccl.so.2"
#define THUNK      "/t/thunk/libcuda.so.1" /* begins as real drivers do */
#define LOST(what) "zernel_lost_total{what=\"" what "\"}"

struct program {
	pid_t pid;
	int in;          /* its standard input */
	const char *out; /* a file with what it says */
};

static struct program zerneld = {.out = "daemon.log"};
static struct program driver = {.out = "driver.out"};
static const char *cuda = CUDA; /* that the driver loads */
static unsigned port;
static char page[4 << 20], said[256 << 10];

/* ---- what went wrong ---- */

static const char *checking; /* the check that runs */
static int wrong;
static bool failed;

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
	failed |= !good;
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

static void show(const struct program *p)
{
	has_said(p, "");
	printf("   --- %s:\n%s", p->out, said);
}

/* What never comes ends all checks: this one has failed. */
static void until(bool (*condition)(void), const char *what)
{
	for (int ms = 0; ms < WAIT_MS; ms += STEP_MS) {
		if (condition())
			return;
		usleep(STEP_MS * 1000);
	}
	expect(false, what);
	verdict(checking);
	show(&zerneld);
	show(&driver);
	exit(EXIT_FAILURE);
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
	const char *at = has_said(&zerneld, "ready: ") ? strstr(said, "metrics on port ") : NULL;

	return at && sscanf(at, "metrics on port %u", &port) == 1;
}

static void daemon_start_with(char *option, char *argument)
{
	char *const argv[] = {"./zerneld", "--metrics-port", "0", "--ws-port", "0", "--control", "none", "--report-dir",
		"none", option, argument, NULL};

	unlink(zerneld.out);
	start(&zerneld, argv);
	until(daemon_ready, "the daemon is not ready");
}

static void daemon_start(void)
{
	daemon_start_with(NULL, NULL);
}

static int daemon_stop(int sig)
{
	kill(zerneld.pid, sig);
	return finish(&zerneld);
}

static bool driver_waits(void)
{
	return has_said(&driver, "ready\n");
}

/* The last key and what ends the report. */
static bool driver_reported(void)
{
	return has_said(&driver, "\"storm_ns\":") && said[strlen(said) - 2] == '}';
}

/* Up to its gate: the libraries are mapped, and what it is to do lies ahead. */
static void driver_start(char *scenario)
{
	static char threads[8], calls[8];
	char *const argv[] = {"./driver", "--cuda", (char *)cuda, "--nccl", NCCL, "--gate", "--hold-stdin", "--threads",
		threads, "--calls", calls, "--scenario", scenario, NULL};

	snprintf(threads, sizeof(threads), "%d", THREADS);
	snprintf(calls, sizeof(calls), "%d", CALLS);
	unlink(driver.out);
	start(&driver, argv);
	until(driver_waits, "the driver does not start");
}

static void driver_send(char byte)
{
	expect(write(driver.in, &byte, 1) == 1, "the driver is gone");
}

static void driver_go(void)
{
	driver_send('\n');
	until(driver_reported, "the driver does not come to its end");
}

/* ---- /metrics ---- */

static bool get(const char *path)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char request[256];
	size_t len = 0;
	ssize_t n = -1;

	page[0] = 0;
	snprintf(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		n = write(fd, request, strlen(request));
	while (n > 0 && (n = read(fd, page + len, sizeof(page) - 1 - len)) > 0)
		len += n;
	close(fd);
	page[len] = 0;
	return strncmp(page, "HTTP/1.", 7) == 0 && strstr(page, " 200 ") == page + 8;
}

static bool scrape(void)
{
	return get("/metrics");
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
	char library[64];

	snprintf(library, sizeof(library), "%s@", cuda);
	return scrape() && hooked(library) && hooked(NCCL "@");
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
	{"tcp_sends", "zernel_tcp_sendmsg_seconds_count{pid=\"%1$d\"}"},
	{"tcp_sent", "zernel_tcp_sent_bytes_total{pid=\"%1$d\"}"},
	{"tcp_received", "zernel_tcp_received_bytes_total{pid=\"%1$d\"}"},
};

struct place {
	const char *series;
	char key[2][32];
	int depth;
};
static unsigned compared; /* figures that are not 0 */
static bool quiet;        /* while waiting */

static void expect_value(const char *series, uint64_t want)
{
	uint64_t got = value(series);
	char what[400];

	snprintf(what, sizeof(what), "%s is %llu, not %llu", series, (unsigned long long)got, (unsigned long long)want);
	expect(got == want, what);
}

static void compare(const struct place *at, uint64_t want)
{
	char series[256];

	snprintf(series, sizeof(series), at->series, (int)driver.pid, at->key[0], at->key[1]);
	compared += want != 0;
	if (quiet)
		wrong += value(series) != want;
	else
		expect_value(series, want);
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
	for (int ms = 0; ms < WAIT_MS && !all_equal(); ms += STEP_MS)
		usleep(STEP_MS * 1000);
	compare_all();
	if (!expect(compared >= figures_min, "the driver's report says too little"))
		printf("   %u figures\n", compared);
}

/* What interrupts a program there keeps it from being run for others meanwhile: the kernel counts these. */
static bool preemptible(void)
{
	char modes[128]; /* the present one is in brackets */

	file_read("/sys/kernel/debug/sched/preempt", modes, sizeof(modes));
	return strstr(modes, "(full)") || strstr(modes, "(lazy)");
}

/* The number of hits is asked for once a tick. */
static bool is_told_of_misses(void)
{
	return scrape() && value(LOST("inflight")) <= value(LOST("missed"));
}

/* A kernel that interrupts programs has missed ends of file operations, each among the hits that it says. */
static void expect_loss(enum zn_loss loss, const char *series, uint64_t want)
{
	if (!preemptible() || (loss != ZN_LOST_MISSED && loss != ZN_LOST_INFLIGHT))
		expect_value(series, want);
	else if (loss == ZN_LOST_INFLIGHT)
		until(is_told_of_misses, "more calls have no end than hits were missed");
}

static void expect_no_loss(uint64_t unmatched)
{
	static const char *const losses[] = {
#define X(e, label, help) LOST(label),
		ZN_LOSSES(X)
#undef X
	};

	for (size_t i = 0; i < ZN_LEN(losses); i++)
		expect_loss(i, losses[i], i == ZN_LOST_UNMATCHED_FREE ? unmatched : 0);
}

/* ---- what a probe leaves in memory and in the kernel ---- */

struct text_range {
	unsigned long from, to, offset;
};

static bool text_of(pid_t pid, const char *library, struct text_range *r)
{
	char path[32], line[512];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		found = strstr(line, library) && sscanf(line, "%lx-%lx r-xp %lx", &r->from, &r->to, &r->offset) == 3;
	if (maps)
		fclose(maps);
	return found;
}

static size_t read_at(const char *path, char *to, size_t len, unsigned long offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, to, len, (off_t)offset);

	if (fd >= 0)
		close(fd);
	return n < 0 ? 0 : (size_t)n;
}

/* Bytes of libcuda's code in the driver that are not as in the file. -1: cannot be read. */
static long breakpoints(void)
{
	static char in_memory[256 << 10], in_file[256 << 10];
	struct text_range r;
	char path[32];
	long n = 0;
	size_t len;

	if (!text_of(driver.pid, CUDA, &r) || r.to - r.from > sizeof(in_file))
		return -1;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)driver.pid);
	len = read_at(CUDA, in_file, r.to - r.from, r.offset);
	if (len == 0 || read_at(path, in_memory, len, r.from) != len)
		return -1;
	for (size_t i = 0; i < len; i++)
		n += in_memory[i] != in_file[i];
	return n;
}

static bool no_breakpoints(void)
{
	return breakpoints() == 0;
}

static unsigned programs_before;

static unsigned programs(void)
{
	union bpf_attr attr = {0};
	unsigned n = 0;

	while (syscall(SYS_bpf, BPF_PROG_GET_NEXT_ID, &attr, sizeof(attr)) == 0) {
		attr.start_id = attr.next_id;
		n++;
	}
	return n;
}

static bool no_programs(void)
{
	return programs() == programs_before;
}

static void expect_nothing_left(void)
{
	until(no_breakpoints, "breakpoints stay in the driver");
	until(no_programs, "BPF programs stay in the kernel");
}

/* The driver does what alerts are for, as to stay refused memory for long, and gives up a communicator; where the
 * emulation has little of a processor, a change of probes takes long, or the kernel waits within it: one that never
 * ends is found by what the check waits for. */
static bool is_due(const char *line)
{
	static const char *const due[] = {"warning: alert ", "ncclCommAbort", ": attaching to ", " waits since ",
		"gauge: the kernel does not answer", "writer: its folders do not answer"};

	for (size_t i = 0; i < sizeof(due) / sizeof(due[0]); i++)
		if (strstr(line, due[i]))
			return true;
	return false;
}

static void expect_quiet_log(void)
{
	char *line, *rest = said;

	has_said(&zerneld, "");
	while ((line = strsep(&rest, "\n")))
		if (strstr(line, "warning: ") || strstr(line, "error: "))
			expect(is_due(line), line);
}

/* ---- the checks ---- */

#define TOO_OLD "this kernel is too old: 5.15 is needed"
enum way { NONE, PERF, MULTI, SESSION };
static const struct {
	const char *name, *phrase; /* of --check */
} ways[] = {
	[NONE] = {"none", TOO_OLD},
	[PERF] = {"perf", "one perf event per function"},
	[MULTI] = {"multi", "one multi-uprobe link"},
	[SESSION] = {"session", "one session"},
};
static enum way way;
static const char *release; /* of the kernel */
static const char *const family[] = {"gpu_mem", "cuda_trace", "nccl"};

/* bpf_get_attach_cookie() came with 5.15, the multi-uprobe link with 6.6, its session with 6.13. */
static enum way way_of_kernel(void)
{
	unsigned major = 0, minor = 0;

	sscanf(release, "%u.%u", &major, &minor);
	if (major < 5 || (major == 5 && minor < 15))
		return NONE;
	if (major < 6 || (major == 6 && minor < 6))
		return PERF;
	return major == 6 && minor < 13 ? MULTI : SESSION;
}

/* On the kernel itself, by the best way: where anything can be had there are trampolines. Files are counted on all
 * kernels; the others are about processes, which a kernel that is too old cannot track. */
static const struct {
	const char *name, *method;
	bool on_all;
} kernel_family[] = {{"vfs", "fentry", true}, {"meta", "fentry", true}, {"net", "fentry", false},
	{"sched", "tracepoint", false}, {"dataload", "tracepoint", false}, {"dist_sync", "tracepoint", false},
	{"syscalls", "tracepoint", false}, {"ioctl", "tracepoint", false}};

/* The line of --check about a family: how it counts, NULL: as those on libraries do; or that it cannot. */
static void expect_family(const struct program *p, const char *name, const char *method, bool there)
{
	char line[96];

	if (there)
		snprintf(line, sizeof(line), "\n%-14s ok%s%s\n", name, method ? ", by " : "", method ? method : "");
	else
		snprintf(line, sizeof(line), "\n%-14s " TOO_OLD "\n", name);
	expect(has_said(p, line), line + 1);
}

static void check_options(void)
{
	static char *const argv[] = {"./zerneld", "--check", NULL};
	struct program p = {.out = "check.out"};

	start(&p, argv);
	expect(finish(&p) == (way == NONE), "--check has the wrong exit status");
	expect(has_said(&p, ways[way].phrase), "--check names another way to attach");
	expect(has_said(&p, "by mapping events"), "--check sees no mapping events");
	for (size_t i = 0; i < ZN_LEN(family); i++)
		expect_family(&p, family[i], NULL, way != NONE);
	for (size_t i = 0; i < ZN_LEN(kernel_family); i++)
		expect_family(
			&p, kernel_family[i].name, kernel_family[i].method, kernel_family[i].on_all || way != NONE);
	/* sockets have tracepoints from 6.3 on */
	expect_family(&p, "requests", way == PERF ? "fentry" : "tracepoint", way != NONE);
	expect_family(&p, "job", NULL, true);
	if (!verdict("check"))
		show(&p);
}

static void check_counts(void)
{
	daemon_start();
	driver_start("devices,memory,launches,syncs,copies,nccl,storm");
	until(both_hooked, "the libraries are not hooked");
	expect(breakpoints() > 0, "no breakpoints are seen in the driver");
	driver_go();
	expect_equal(80);
	expect_no_loss(0);
	verdict("counts");
}

static unsigned served; /* scrapes between the library's leaving /metrics and the end of its probes */

static bool detached(void)
{
	bool hidden = scrape() && !hooked(CUDA "@");
	bool done = has_said(&zerneld, "no process maps " CUDA);

	served += hidden && !done;
	return done && strstr(said, "no process maps " NCCL);
}

/* Where each function has a link of its own, detaching takes seconds: the loop must go on. */
static void check_detach(void)
{
	expect(finish(&driver) == 0, "the driver failed");
	until(detached, "the libraries stay hooked");
	if (way == PERF)
		expect(served > 0, "no scrapes were answered while the probes were taken off");
	expect(scrape() && value("zernel_table_entries{table=\"libraries\"}") == 0, "a library stays in the table");
	verdict("detach");
}

static void check_killed(void)
{
	driver_start("early,storm");
	until(both_hooked, "the libraries are not hooked");
	expect(breakpoints() > 0, "no breakpoints are seen in the driver");
	expect(daemon_stop(SIGKILL) == 128 + SIGKILL, "the daemon had ended before");
	expect_nothing_left();
	expect_quiet_log();
	verdict("killed");
}

/* A new daemon finds the driver that waits; it has not seen what the driver took before. */
static void check_restart(void)
{
	daemon_start();
	until(both_hooked, "the libraries are not hooked");
	driver_go();
	expect_equal(2);
	expect_no_loss(UNMATCHED);
	verdict("restart");
}

static void check_stop(void)
{
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	expect_nothing_left();
	expect_quiet_log();
	expect(finish(&driver) == 0, "the driver failed");
	if (!verdict("stop"))
		show(&zerneld);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* Nothing of a process can be had: the daemon says so, once for each family, and neither it nor the driver comes to
 * harm. */
static void check_refused(void)
{
	char line[128];

	daemon_start();
	has_said(&zerneld, "");
	for (size_t i = 0; i < ZN_LEN(family); i++) {
		snprintf(line, sizeof(line), "probe: %s: " TOO_OLD "; its metrics are absent\n", family[i]);
		expect(count(said, line) == 1, line);
	}
	driver_start("memory,nccl");
	driver_go();
	expect(scrape() && hooked(CUDA "@") == 0, "/metrics is not served, or something is hooked");
	expect(!strstr(page, "pid="), "/metrics has figures of a process");
	expect(finish(&driver) == 0, "the driver failed");
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	until(no_programs, "BPF programs stay in the kernel");
	verdict("refused");
}

/* A count of the driver's process. */
static uint64_t of_driver(const char *name, const char *labels)
{
	char series[128];

	snprintf(series, sizeof(series), "%s{pid=\"%d\"%s}", name, (int)driver.pid, labels);
	return value(series);
}

/* What only tracked processes need is attached when the first one launches: from then on each byte that the driver
 * reads is a system call that is counted. */
static bool calls_counted(void)
{
	driver_send('x');
	return scrape() && of_driver("zernel_syscalls_total", "") > 0;
}

static void expect_tier(char *method)
{
	char *const argv[] = {"./zerneld", "--check", "--tier", method, NULL};
	struct program p = {.out = "check.out"};
	char line[64];

	start(&p, argv);
	finish(&p);
	snprintf(line, sizeof(line), "%-14s ok, by %s\n", "net", method);
	if (!expect(has_said(&p, line), "TCP cannot be counted so, or not all of it"))
		show(&p);
}

/* The driver, which waits for bytes, is sent to a CPU: it moves at once, or when the byte wakes it. */
static void driver_move(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	expect(sched_setaffinity(driver.pid, sizeof(set), &set) == 0, "the driver cannot be sent to a CPU");
	driver_send('x');
}

static const char moved[] = "zernel_thread_migrations_total";
static const char *const scopes[] = {",scope=\"cpu\"", ",scope=\"numa\""};

/* It has come to where it reads what it is sent, and its other threads are over. */
static bool driver_reads(void)
{
	int left = 0;

	return ioctl(driver.in, FIONREAD, &left) == 0 && left == 0;
}

static bool moves_counted(void)
{
	driver_move(0);
	driver_move(1);
	return scrape() && of_driver(moved, scopes[0]) > 0;
}

/* Between two CPUs, each with a memory node of its own (boot.sh). */
static void expect_moves(void)
{
	uint64_t before[ZN_LEN(scopes)];

	until(driver_reads, "the driver does not come to where it waits");
	until(moves_counted, "migrations are not counted");
	expect(scrape(), "/metrics is not served");
	for (size_t i = 0; i < ZN_LEN(scopes); i++)
		before[i] = of_driver(moved, scopes[i]);
	for (int i = 0; i < MOVES; i++)
		driver_move(i % 2);
	expect(scrape(), "/metrics is not served");
	for (size_t i = 0; i < ZN_LEN(scopes); i++)
		if (!expect(of_driver(moved, scopes[i]) - before[i] == MOVES, scopes[i]))
			printf("   %llu migrations, not %d\n",
				(unsigned long long)(of_driver(moved, scopes[i]) - before[i]), MOVES);
}

/* What the kernel says of the driver's process: TCP and migrations exactly, by the way that is asked for; of the others
 * that they count. */
static void check_signals(char *method)
{
	expect_tier(method);
	daemon_start_with("--tier", method);
	driver_start("storm,gate,tcp");
	until(both_hooked, "the libraries are not hooked");
	driver_send('\n');
	until(calls_counted, "system calls are not counted");
	expect_moves();
	driver_go();
	expect_equal(4);
	expect(of_driver("zernel_syscalls_total", "") >= 2 * CALLS, "too few system calls");
	expect(of_driver("zernel_context_switches_total", ",kind=\"voluntary\"") > 0, "no switches");
	expect_no_loss(0);
	expect(finish(&driver) == 0, "the driver failed");
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	expect_quiet_log();
}

static void check_fentry(void)
{
	check_signals("fentry");
	verdict("fentry");
}

static void check_kprobe(void)
{
	check_signals("kprobe");
	verdict("kprobe");
}

static const char rows[] = "zernel_table_entries{table=\"processes\"}";

static bool all_rows(void)
{
	return scrape() && value(rows) == CROWD;
}

/* Nor any thread: what a missed end leaves behind counts in its owner's share. */
static bool no_rows(void)
{
	return scrape() && value(rows) == 0 && value("zernel_table_entries{table=\"threads\"}") == 0 &&
		value("zernel_table_entries{table=\"sched_threads\"}") == 0 &&
		value("zernel_table_entries{table=\"workers\"}") == 0;
}

static bool cuda_hooked(void)
{
	return scrape() && hooked(CUDA "@");
}

/* They launch once the library is hooked, and end together. */
static void crowd(void)
{
	char *const argv[] = {"./driver", "--cuda", CUDA, "--scenario", "launches", "--threads", "2", "--calls", "11",
		"--gate", "--hold-stdin", NULL};
	struct program p[CROWD];

	for (int i = 0; i < CROWD; i++) {
		p[i].out = "crowd.out";
		start(&p[i], argv);
	}
	until(cuda_hooked, "the library is not hooked");
	for (int i = 0; i < CROWD; i++)
		expect(write(p[i].in, "\n", 1) == 1, "the driver is gone");
	until(all_rows, "not all processes are tracked");
	for (int i = 0; i < CROWD; i++) {
		close(p[i].in);
		p[i].in = -1;
	}
	for (int i = 0; i < CROWD; i++)
		expect(finish(&p[i]) == 0, "the driver failed");
}

/* Where the kernel does not tell of each end, the daemon finds it out. */
static void check_ends(void)
{
	daemon_start();
	for (int i = 0; i < (preemptible() ? CROWDS : 1); i++)
		crowd();
	until(no_rows, "processes or threads that have ended stay in the tables");
	expect(value(LOST("missed")) == 0 || preemptible(), "hits were missed");
	printf("   %llu hits were missed\n", (unsigned long long)value(LOST("missed")));
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	expect_quiet_log();
	verdict("ends");
}

/* Probes behind what the kernel would have to step over: what it emulates there is the kernel's. */
static void check_entries(void)
{
	cuda = THUNK;
	daemon_start();
	driver_start("devices,memory,launches,syncs,copies,storm");
	until(both_hooked, "the libraries are not hooked");
	driver_go();
	expect_equal(60);
	expect_no_loss(0);
	expect(finish(&driver) == 0, "the driver failed");
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	expect_quiet_log();
	cuda = CUDA;
	verdict("entries");
}

#include "guest_oom.h"
#include "guest_usage.h"
#include "guest_stacks.h"
#include "guest_verified.h"

static const struct {
	const char *name;
	void (*run)(void);
	enum { NEW, OLD, BOTH } on; /* for kernels that can have nothing, or for the others */
} checks[] = {
	{"counts", check_counts, NEW},
	{"detach", check_detach, NEW},
	{"killed", check_killed, NEW},
	{"restart", check_restart, NEW},
	{"stop", check_stop, NEW},
	{"fentry", check_fentry, NEW},
	{"kprobe", check_kprobe, NEW},
	{"ends", check_ends, NEW},
	{"entries", check_entries, NEW},
	{"oom", check_oom, NEW},
	{"usage", check_usage, BOTH},
	{"stacks", check_stacks, BOTH},
	{"verified", check_verified, BOTH},
	{"refused", check_refused, OLD},
};

int main(void)
{
	const char *only = getenv("CHECK");
	struct utsname u;

	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGPIPE, SIG_IGN);
	uname(&u);
	release = u.release;
	way = way_of_kernel();
	printf("@@ kernel %s\n@@ way %s\n", u.release, ways[way].name);
	programs_before = programs();
	check_options();
	for (size_t i = 0; i < ZN_LEN(checks); i++)
		if ((checks[i].on == BOTH || (checks[i].on == OLD) == (way == NONE)) &&
			(!only || strstr(only, checks[i].name))) {
			checking = checks[i].name;
			checks[i].run();
		} else {
			printf("@@ %s -\n", checks[i].name);
		}
	return failed;
}
