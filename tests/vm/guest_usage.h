/* SPDX-License-Identifier: GPL-2.0 */
/*
 * guest_usage.h: the CPU time of jobs that are over before anybody looks at them, which is read of each CPU as their
 * control group is removed. How each CPU's part of it is found depends on the kernel. A part of guest_check.c.
 */
#define SCOPE    GROUPS "/system.slice/slurmstepd.scope"
#define SHORT_MS 200
#define SHORT    5

static uint64_t cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* A job of one process, which is on a CPU all the time. */
static void short_job(unsigned id)
{
	char job[96], procs[128];
	pid_t pid;

	snprintf(job, sizeof(job), SCOPE "/job_%u", id);
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", job);
	expect(mkdir(job, 0755) == 0, job);
	pid = fork();
	if (pid == 0) {
		if (!file_write(procs, "0"))
			_exit(1);
		while (cpu_ms() < SHORT_MS)
			;
		_exit(0);
	}
	expect(waitpid(pid, NULL, 0) == pid && rmdir(job) == 0, "a job's group stays");
}

/* In thousandths of a second; modes are user and system. */
static uint64_t used_ms(unsigned id, const char *mode)
{
	char series[96];
	const char *at;

	snprintf(series, sizeof(series), "\nzernel_job_cpu_seconds_total{job_id=\"%u\",mode=\"%s\"} ", id, mode);
	at = strstr(page, series);
	return at ? (uint64_t)(strtod(at + strlen(series), NULL) * 1000) : 0;
}

static bool all_known(void)
{
	for (unsigned i = 0; i < SHORT; i++)
		if (!scrape() || !(used_ms(5000 + i, "user") + used_ms(5000 + i, "system")))
			return false;
	return true;
}

static void check_usage(void)
{
	expect(mount("cgroup", GROUPS, "cgroup2", 0, NULL) == 0 || errno == EBUSY, "control groups cannot be mounted");
	daemon_start();
	expect(mkdir(GROUPS "/system.slice", 0755) == 0 || errno == EEXIST, "there is no system.slice");
	expect(mkdir(SCOPE, 0755) == 0 || errno == EEXIST, "there is no scope");
	for (unsigned i = 0; i < SHORT; i++)
		short_job(5000 + i);
	until(all_known, "the CPU time of a short job is not known");
	for (unsigned i = 0; i < SHORT; i++) {
		uint64_t ms = used_ms(5000 + i, "user") + used_ms(5000 + i, "system");

		/* its begin and its end count too, and an emulated CPU may stand still in them */
		if (!expect(ms >= SHORT_MS - SHORT_MS / 20 && ms <= 50 * SHORT_MS, "a short job used another time"))
			printf("   job %u: %llu ms\n", 5000 + i, (unsigned long long)ms);
	}
	expect(daemon_stop(SIGTERM) == 0, "the daemon has the wrong exit status");
	if (!verdict("usage"))
		show(&zerneld);
}
