/* SPDX-License-Identifier: GPL-2.0 */
/*
 * clock.c: a clock on each CPU that runs threads of processes with Python; by it their stacks are walked
 * (stacks.bpf.c). It is an event of the CPU, not of a thread: one of a thread is started and stopped at each of the
 * thread's switches, which was measured as 2 to 3 us a switch, while one of a CPU adds nothing to them. A CPU that ran
 * no such thread for a while has none, so that nobody else's CPU is woken for it; the program on the scheduler says
 * where such threads run.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HOLD_NS  (5 * ZN_NS_PER_S)  /* a CPU keeps its clock after the last time that it ran such a thread */
#define CLEAR_NS ZN_NS_PER_S        /* so often it is asked anew which CPUs do */
#define AWAY_NS  (10 * ZN_NS_PER_S) /* and so often whether one has been away */
#define RETRY_NS (10 * ZN_NS_PER_S) /* after a clock was refused */

/* Of Debian's and Ubuntu's kernels, where it is above 2: who may open an event now may not once the daemon runs. */
static bool is_forbidden_later(void)
{
	char level[16];

	return zn_file_read("/proc/sys/kernel/perf_event_paranoid", level, sizeof(level)) > 0 && atoi(level) > 2;
}

static int cpu_open(struct zn_clocks *c, uint32_t cpu)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = ZN_CLOCK_NS,
		.disabled = 1,
		.exclude_idle = 1};
	uint64_t stay = zn_cpus_stay(cpu);
	int event = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC), link, err;

	if (event < 0)
		return -errno;
	link = bpf_link_create(c->program, event, BPF_PERF_EVENT, NULL);
	err = errno;
	if (link < 0) {
		close(event);
		return -err;
	}
	c->event[cpu] = event;
	c->link[cpu] = link;
	c->stay[cpu] = stay;
	return 0;
}

static void cpu_close(struct zn_clocks *c, uint32_t cpu)
{
	if (!c->link[cpu])
		return;
	close(c->link[cpu]);
	close(c->event[cpu]);
	c->link[cpu] = c->event[cpu] = 0;
	c->runs[cpu] = false;
}

/* Its clock is kept where it could not be opened again. */
static void cpu_stop(struct zn_clocks *c, uint32_t cpu)
{
	if (!c->keeps)
		cpu_close(c, cpu);
	else if (c->runs[cpu])
		c->runs[cpu] = ioctl(c->event[cpu], PERF_EVENT_IOC_DISABLE, 0) != 0;
}

static void error_set(struct zn_clocks *c, int error)
{
	__atomic_store_n(&c->error, error, __ATOMIC_RELAXED);
}

/* Without one of its clocks the others would say that less was done than was: then there is none. */
static void clocks_refuse(struct zn_clocks *c, int error, uint64_t now_ns)
{
	zn_clocks_close(c);
	error_set(c, error);
	c->retry_ns = now_ns + RETRY_NS;
}

/* A CPU that is offline has no clock, and needs none. False: it was refused. */
static bool cpu_start(struct zn_clocks *c, uint32_t cpu, uint64_t now_ns)
{
	int err = c->link[cpu] ? 0 : cpu_open(c, cpu);

	if (!err && ioctl(c->event[cpu], PERF_EVENT_IOC_ENABLE, 0))
		err = -errno;
	if (!err) {
		error_set(c, 0);
		c->runs[cpu] = true;
	}
	if (!err || err == -ENODEV)
		return true;
	clocks_refuse(c, err, now_ns);
	return false;
}

/* Whether such a thread ran there since it was last asked. Where the scheduler is not watched, it may have. */
static bool cpu_ran(const struct zn_clocks *c, uint32_t cpu, bool clear)
{
	struct zn_shared *s = c->probe->arena.shared;

	if (!__atomic_load_n(&s->cpu_ran[cpu], __ATOMIC_RELAXED) && s->stalls)
		return false;
	if (clear)
		__atomic_store_n(&s->cpu_ran[cpu], 0, __ATOMIC_RELAXED);
	return true;
}

/* Its clock is from before the CPU was away, and dead. */
static bool cpu_was_away(const struct zn_clocks *c, uint32_t cpu)
{
	uint64_t stay = zn_cpus_stay(cpu);

	return stay && stay != c->stay[cpu];
}

/* A descriptor of the event and one of what its program is attached by. */
static void files_raise(uint32_t cpus)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return;
	files.rlim_cur = files.rlim_max - files.rlim_cur < 2 * cpus ? files.rlim_max : files.rlim_cur + 2 * cpus;
	setrlimit(RLIMIT_NOFILE, &files); /* up to the hard limit it cannot fail */
}

/* All of them, while it is allowed; none of them runs. */
static void clocks_open(struct zn_clocks *c)
{
	int err = 0;

	for (uint32_t cpu = 0; cpu < c->cpus && (!err || err == -ENODEV); cpu++)
		err = cpu_open(c, cpu);
	if (err && err != -ENODEV)
		clocks_refuse(c, err, 0);
}

void zn_clocks_init(struct zn_clocks *c, const struct zn_probe *probe)
{
	c->probe = probe;
	c->program = probe->walker_fd[ZN_WALKER_CLOCK];
	c->cpus = probe->arena.shared->cpu_count;
	c->error = c->program < 0 ? -EOPNOTSUPP : c->cpus ? 0 : -E2BIG;
	if (c->error)
		return;
	files_raise(c->cpus);
	c->keeps = is_forbidden_later();
	if (c->keeps)
		clocks_open(c);
}

/* Its threads may run on for long without a switch: so the CPUs that it may use have a clock until that is known. */
void zn_clocks_begin(struct zn_clocks *c, uint32_t pid)
{
	unsigned long may[ZN_CPUS_MAX / (8 * sizeof(unsigned long))] = {0};
	const uint32_t bits = 8 * sizeof(*may);

	c->used++;
	if (syscall(SYS_sched_getaffinity, pid, sizeof(may), may) < 0)
		return;
	for (uint32_t cpu = 0; cpu < c->cpus; cpu++)
		if (may[cpu / bits] >> cpu % bits & 1)
			__atomic_store_n(&c->probe->arena.shared->cpu_ran[cpu], 1, __ATOMIC_RELAXED);
}

void zn_clocks_end(struct zn_clocks *c)
{
	if (--c->used)
		return;
	for (uint32_t cpu = 0; cpu < c->cpus; cpu++)
		cpu_stop(c, cpu);
}

void zn_clocks_look(struct zn_clocks *c, uint64_t now_ns)
{
	bool clear = now_ns - c->cleared_ns >= CLEAR_NS, away = now_ns - c->asked_ns >= AWAY_NS;

	if (!c->used || c->program < 0 || now_ns < c->retry_ns)
		return;
	for (uint32_t cpu = 0; cpu < c->cpus; cpu++) {
		if (cpu_ran(c, cpu, clear)) {
			c->ran_ns[cpu] = now_ns;
			if (away && c->link[cpu] && cpu_was_away(c, cpu))
				cpu_close(c, cpu);
			if (!c->runs[cpu] && !cpu_start(c, cpu, now_ns))
				return;
		} else if (now_ns - c->ran_ns[cpu] > HOLD_NS) {
			cpu_stop(c, cpu);
		}
	}
	if (clear)
		c->cleared_ns = now_ns;
	if (away)
		c->asked_ns = now_ns;
}

void zn_clocks_close(struct zn_clocks *c)
{
	for (uint32_t cpu = 0; cpu < c->cpus; cpu++)
		cpu_close(c, cpu);
}

void zn_clocks_why(const struct zn_clocks *c, char why[ZN_TEXT_MAX])
{
	int err = __atomic_load_n(&c->error, __ATOMIC_RELAXED);
	const char *hint = err == -EACCES || err == -EPERM
		? "; perf_event_paranoid above 2 may forbid it but to a daemon that starts: restart it"
		: "";

	if (!err)
		why[0] = '\0';
	else if (err == -E2BIG)
		snprintf(why, ZN_TEXT_MAX, "this machine may have more than %d CPUs", ZN_CPUS_MAX);
	else
		snprintf(why, ZN_TEXT_MAX, "no clock of its CPUs: %s%s", strerror(-err), hint);
}

uint64_t zn_clock_cpu_ns(uint32_t pid)
{
	const clockid_t whole_process = (clockid_t)(~pid << 3 | 2); /* CPUCLOCK_SCHED of the kernel's posix-timers.h */
	struct timespec t;

	return clock_gettime(whole_process, &t) == 0 ? (uint64_t)t.tv_sec * ZN_NS_PER_S + (uint64_t)t.tv_nsec : 0;
}
