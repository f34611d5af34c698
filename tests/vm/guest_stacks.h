/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Stacks of Python, a part of guest_check.c: what stacks.py says of itself. Before Linux 5.17 the daemon says that
 * there are none.
 */
#ifndef ZN_GUEST_STACKS_H
#define ZN_GUEST_STACKS_H

static bool is_before(unsigned major, unsigned minor)
{
	unsigned a = 0, b = 0;

	sscanf(release, "%u.%u", &a, &b);
	return a < major || (a == major && b < minor);
}

/* Before 5.15. */
#define NO_LIBRARIES "stacks         no family on libraries is there"

static struct program python = {.out = "python.out"};

/* Of a perf event for each function, some come later than others. */
static bool launches_hooked(void)
{
	char *line, *rest = page;
	bool found = false;

	if (!scrape())
		return false;
	while ((line = strsep(&rest, "\n")))
		found |= strstr(line, "zernel_probe_attached{") == line && strstr(line, CUDA "@") &&
			strstr(line, "\"cuLaunchKernel\"") && strstr(line, "} 1");
	return found;
}

static bool python_waits(void)
{
	return has_said(&python, "ready\n");
}

static bool python_found(void)
{
	char pid[32];

	expect(write(python.in, "call\n", 5) == 5, "the program is gone");
	snprintf(pid, sizeof(pid), "\"pid\":%d,", (int)python.pid);
	return get("/stacks") && strstr(page, pid);
}

static bool python_done(void)
{
	return has_said(&python, ".\n");
}

static bool folded(const char *cause)
{
	char path[64];

	snprintf(path, sizeof(path), "/stacks/folded?pid=%d&cause=%s", (int)python.pid, cause);
	return get(path);
}

/* What the lines say that have this in them, added up. */
static uint64_t sum_of(const char *text)
{
	const char *line = strstr(page, "\r\n\r\n");
	uint64_t sum = 0;
	char copy[1024];

	for (line = line ? line + 4 : ""; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "\n"), line);
		if (strstr(copy, text) && strrchr(copy, ' '))
			sum += strtoull(strrchr(copy, ' '), NULL, 10);
	}
	return sum;
}

/* Its launches have the one stack that it says itself, line by line. All are told, unless the emulation kept the daemon
 * from looking at some. */
static bool launches_told(void)
{
	char stack[512] = "";
	unsigned made = 0;

	has_said(&python, "");
	return sscanf(said, "ready %511[^\n] %u.", stack, &made) == 2 && folded("launch") && sum_of("") <= made &&
		sum_of(stack) > made / 2 && sum_of(stack) + sum_of("(not looked at)") == sum_of("");
}

/* The clock came with 6.1. It samples 49 times a second, by chance, and an emulated machine loses what it has no
 * processor for: it computes on until enough is told, of which there is never more than the kernel has counted. How
 * much is told is held against the kernel by stacks_are_true. */
static bool computing_told(void)
{
	struct timespec on_cpu = {0};
	int left = 0;
	clockid_t clock;
	uint64_t ns;

	if (ioctl(python.in, FIONREAD, &left) == 0 && left == 0)
		expect(write(python.in, "busy\n", 5) == 5, "the program is gone");
	ns = folded("cpu") ? sum_of(";busy (") : 0;
	expect(!clock_getcpuclockid(python.pid, &clock) && !clock_gettime(clock, &on_cpu), "it has no time on CPUs");
	expect(ns <= on_cpu.tv_sec * 1000000000ull + on_cpu.tv_nsec,
		"it is told to have computed for longer than the kernel knows");
	return ns > 100000000;
}

static void check_stacks(void)
{
	char *const argv[] = {"/usr/bin/python3", "-S", "/t/stacks.py", CUDA, NULL};
	char *const ask[] = {"./zerneld", "--check", NULL};
	struct program p = {.out = "check.out"};

	start(&p, ask);
	finish(&p);
	if (!has_said(&p, "stacks         ok")) {
		if (!expect(is_before(5, 17) && (has_said(&p, "needs Linux 5.17") || has_said(&p, NO_LIBRARIES)),
			    "stacks are absent, and it is not said why"))
			show(&p);
		expect(has_said(&p, "stacks 0.0,"), "there are tables for stacks that are absent");
		if (wrong)
			verdict("stacks");
		else
			printf("@@ stacks -\n");
		return;
	}
	/* as it comes with Debian's kernels: the clock of a CPU is kept from who has no CAP_SYS_ADMIN, as the daemon then */
	expect(file_write("/proc/sys/kernel/perf_event_paranoid", "3"), "perf_event_paranoid cannot be set");
	daemon_start_with("--overhead-budget", "0%"); /* of an emulated machine all else would spare some */
	start(&python, argv);
	until(python_waits, "Python does not start");
	until(launches_hooked, "launches are not hooked");
	until(python_found, "Python is not found");
	expect(write(python.in, "\n", 1) == 1, "the program is gone");
	until(python_done, "the program does not come to its end");
	until(launches_told, "its launches are not told as it says");
	until(computing_told, "what it computes is not told");
	expect(finish(&python) == 0, "the program failed");
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	expect_quiet_log();
	verdict("stacks");
}

#endif
