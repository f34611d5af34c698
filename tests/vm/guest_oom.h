/* SPDX-License-Identifier: GPL-2.0 */
/* guest_oom.h: what the kernel kills for want of memory, in the control group of a job. A part of guest_check.c. */
#define GROUPS "/sys/fs/cgroup"
#define STEP   GROUPS "/system.slice/slurmstepd.scope/job_4711/step_0"
#define LIMIT  (48UL << 20)

static bool file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return done;
}

/* As systemd and Slurm make them: each has its controllers before there is one below. */
static void groups_make(void)
{
	static const char *const group[] = {GROUPS "/system.slice", GROUPS "/system.slice/slurmstepd.scope",
		GROUPS "/system.slice/slurmstepd.scope/job_4711", STEP};

	expect(file_write(GROUPS "/cgroup.subtree_control", "+memory"), "there is no controller of memory");
	for (size_t i = 0; i < ZN_LEN(group); i++) {
		char path[128];

		expect(mkdir(group[i], 0755) == 0, group[i]);
		snprintf(path, sizeof(path), "%s/cgroup.subtree_control", group[i]);
		expect(i + 1 == ZN_LEN(group) || file_write(path, "+memory"), path);
	}
}

static void eat_memory(void)
{
	for (;;) {
		char *at = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at != MAP_FAILED)
			memset(at, 1, 1 << 20);
	}
}

/* A process of the step takes memory until the kernel kills it. */
static pid_t killed_process(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		if (file_write("/proc/self/oom_score_adj", "1000") && file_write(STEP "/cgroup.procs", "0"))
			eat_memory();
		_exit(1);
	}
	expect(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		"a process that takes all memory is not killed");
	return pid;
}

static uint64_t record_of(pid_t pid, const char *limit_of)
{
	char series[160];

	snprintf(series, sizeof(series),
		"zernel_oom_kill_memory_bytes{job_id=\"4711\",step=\"0\",pid=\"%d\",command=\"guest_check\",limit_of=\"%s\"}",
		(int)pid, limit_of);
	return value(series);
}

static uint64_t kills_awaited;

static bool kills_counted(void)
{
	return scrape() && value("zernel_oom_kills_total{job_id=\"4711\"}") == kills_awaited;
}

static pid_t recorded;
static const char *recorded_limit;

static bool kill_recorded(void)
{
	return scrape() && record_of(recorded, recorded_limit);
}

/* A kill at a limit says whose it was, and so does one where the node has no memory left: that is known by the
 * kernel's function alone, which a kprobe watches. */
static void expect_kill(const char *limit_of, uint64_t least, uint64_t most)
{
	uint64_t bytes;

	recorded = killed_process();
	recorded_limit = limit_of;
	kills_awaited++;
	until(kills_counted, "a kill is not counted");
	until(kill_recorded, "a kill is not recorded as it was");
	bytes = record_of(recorded, limit_of);
	if (!expect(bytes >= least && bytes <= most, "a killed process had another amount of memory"))
		printf("   %s: %llu bytes\n", limit_of, (unsigned long long)bytes);
}

static void check_oom(void)
{
	char limit[24];

	expect(mount("cgroup", GROUPS, "cgroup2", 0, NULL) == 0, "control groups cannot be mounted");
	daemon_start();
	groups_make();
	snprintf(limit, sizeof(limit), "%lu", LIMIT);
	expect(file_write(STEP "/memory.max", limit), "the step has no limit");
	expect_kill("step", LIMIT - LIMIT / 8, LIMIT + LIMIT / 8);
	expect(file_write(STEP "/memory.max", "max"), "the step keeps its limit");
	expect_kill("node", 2 * LIMIT, UINT64_MAX - 1);
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	expect_quiet_log();
	if (!verdict("oom"))
		show(&zerneld);
}
