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

/* The one stack of its launches is what it says itself, line by line. */
static bool launches_told(void)
{
	char *line;

	has_said(&python, "");
	line = strchr(said, '\n') + 1;
	line[strlen(line) - 2] = '\n';
	line[strlen(line) - 1] = 0;
	return folded("launch") && strcmp(strstr(page, "\r\n\r\n") + 4, line) == 0;
}

/* Nanoseconds of stacks that go through its function. */
static uint64_t ns_of(const char *function)
{
	char *line, *rest = page;
	uint64_t ns = 0;

	while ((line = strsep(&rest, "\n")))
		if (strstr(line, function))
			ns += strtoull(strrchr(line, ' '), NULL, 10);
	return ns;
}

/* The clock came with 6.1. It samples 49 times a second, by chance, and an emulated machine loses what it has no
 * processor for: its own time goes on meanwhile. How much is told is held against the kernel by stacks_are_true. */
static bool second_told(void)
{
	uint64_t ns = folded("cpu") ? ns_of(";busy (") : 0;

	return ns > 100000000 && ns < 1500000000;
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
	until(second_told, "its second on the CPU is not told");
	expect(finish(&python) == 0, "the program failed");
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	expect_quiet_log();
	verdict("stacks");
}

#endif
