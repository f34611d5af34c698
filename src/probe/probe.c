/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Opens all probes and what they write to, in order, and closes them; reads the events of the ring buffer.
 */
#include "zernel.h"
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define PER_CPU  " __per_cpu_offset\n"
#define LOG_TAIL 700 /* bytes: the verifier says its reason at the end */

/* At the start only, as memory is taken for a line. */
static int to_libbpf_log(enum libbpf_print_level level, const char *format, va_list args)
{
	char *line;
	int len;

	if (level == LIBBPF_DEBUG || zn_log_level < ZN_DEBUG)
		return 0;
	len = vasprintf(&line, format, args);
	if (len < 0)
		return 0;
	zn_log(ZN_DEBUG, "probe: %s", len > LOG_TAIL ? line + len - LOG_TAIL : line);
	free(line);
	return 0;
}

#define CONSUME_MAX 4096 /* events in one turn of the loop */

static int on_event(void *owner, void *data, size_t size)
{
	struct zn_probe *p = owner;

	const struct zn_event *ev = data;

	if (size >= sizeof(*ev) && (ev->type != ZN_EV_OOM || size >= sizeof(struct zn_oom)) && p->event)
		p->event(p->owner, data);
	return ++p->consumed < CONSUME_MAX ? 0 : -EAGAIN; /* the rest at the next turn */
}

static void fds_clear(struct zn_probe *p)
{
	memset(p->entry_fd, -1, sizeof(p->entry_fd));
	memset(p->return_fd, -1, sizeof(p->return_fd));
	memset(p->map_fd, -1, sizeof(p->map_fd));
	memset(p->exit, -1, sizeof(p->exit));
	memset(p->job_on, -1, sizeof(p->job_on));
	for (int i = 0; i < ZN_WALKER_COUNT; i++)
		p->walker_fd[i] = -1;
	p->natives_fd = -1;
	memset(p->oom_on, -1, sizeof(p->oom_on));
}

static int refuse_open(struct zn_probe *p, char why[ZN_TEXT_MAX], const char *what, int err)
{
	snprintf(why, ZN_TEXT_MAX, "cannot %s: %s; %s", what, strerror(-err), zn_object_hint(err));
	zn_probe_close(p);
	return err;
}

static uint64_t find_per_cpu_offset(const char *path)
{
	char text[512];
	FILE *f = fopen(path, "re");
	uint64_t found = 0;

	while (f && !found && fgets(text, sizeof(text), f)) /* address, type, name */
		if (strstr(text, PER_CPU))
			found = strtoull(text, NULL, 16);
	if (f)
		fclose(f);
	return found;
}

/* Where the kernel's table of its CPUs' variables is, of which job.bpf.c adds up what control groups used. 0: it needs
 * none, as from kernel 5.19 on, or it is not told. The service's unit hides the file (ProtectKernelTunables) from its
 * own view of the tree, not from that of the first process. */
static uint64_t per_cpu_offset(void)
{
	bool needed = libbpf_probe_bpf_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_map_lookup_percpu_elem, NULL) != 1;
	uint64_t found = needed ? find_per_cpu_offset("/proc/kallsyms") : 0;

	return found || !needed ? found : find_per_cpu_offset("/proc/1/root/proc/kallsyms");
}

static void *load_jobs(void *arg)
{
	zn_object_load_jobs(arg);
	zn_pages_drop_stack();
	return NULL;
}

/* Jobs and the kernel's families beside each other: nearly all of the time is the kernel's verifier. */
static void open_kernel(struct zn_probe *p, uint64_t families, enum zn_probe_method method)
{
	pthread_t jobs;
	bool beside = !pthread_create(&jobs, NULL, load_jobs, p);

	if (!beside)
		zn_object_load_jobs(p);
	zn_kernel_open(p, families, method);
	if (beside)
		pthread_join(jobs, NULL);
}

static int open_tables(struct zn_probe *p, uint64_t families, char why[ZN_TEXT_MAX])
{
	int err;

	if (access("/sys/kernel/btf/vmlinux", R_OK))
		return refuse_open(p, why, "read /sys/kernel/btf/vmlinux", -errno);
	p->families = families;
	err = zn_object_load_base(p);
	if (err)
		return refuse_open(p, why, "load BPF programs", err);
	err = zn_bpf_arena_open(p);
	if (err)
		return refuse_open(p, why, "map the tables", err);
	p->ring = ring_buffer__new(p->map_fd[ZN_MAP_EVENTS], on_event, p, NULL);
	if (!p->ring)
		return refuse_open(p, why, "map the ring buffer", -errno);
	return 0;
}

static void load_libraries(struct zn_probe *p)
{
	zn_object_load_families(p, p->families);
	zn_calib_families(p);
}

static void load_kernel(struct zn_probe *p)
{
	p->arena.shared->per_cpu_offset = per_cpu_offset();
	p->arena.shared->cpu_count = p->cpus_possible <= ZN_CPUS_MAX ? p->cpus_possible : 0;
	p->arena.shared->families = p->families;
	zn_cost_before(p);
	open_kernel(p, p->families, p->method);
}

static void load_rest(struct zn_probe *p)
{
	zn_object_load_stacks(p);
	p->arena.shared->wall_ns = zn_wall_ms() * ZN_NS_PER_MS - zn_now_ns();
	p->arena.shared->stalls =
		p->kernel.method[ZN_FAM_SCHED] == ZN_METHOD_NONE ? ZN_STALLS_NOT : ZN_STALLS_ONCE_WATCHED;
}

void zn_probe_load(struct zn_probe *p)
{
	static void (*const steps[])(struct zn_probe * p) = {load_libraries, load_kernel, load_rest};

	for (size_t i = 0; i < ZN_LEN(steps) && !zn_probe_cancelled(p); i++)
		steps[i](p);
	zn_object_share_types(false);
}

void zn_probe_cancel(struct zn_probe *p)
{
	__atomic_store_n(&p->cancelled, true, __ATOMIC_RELAXED);
}

/* For each program a descriptor, and one for what it is attached to; twice as many tables as there are while they
 * are handed to an object; and for each CPU its mapping events. */
#define START_FILES 512

int zn_probe_files(char why[ZN_TEXT_MAX])
{
	rlim_t need = START_FILES + zn_cpus_online(), most = START_FILES + (rlim_t)libbpf_num_possible_cpus();
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= most)
		return 0;
	if (files.rlim_max < need) {
		snprintf(why, ZN_TEXT_MAX,
			"the hard limit of open files is %llu, and the start needs %llu: raise it with LimitNOFILE= of the "
			"service, nofile in limits.conf, or ulimit -n as root",
			(unsigned long long)files.rlim_max, (unsigned long long)need);
		return -EMFILE;
	}
	files.rlim_cur = most < files.rlim_max ? most : files.rlim_max; /* CPUs may come later */
	return setrlimit(RLIMIT_NOFILE, &files) ? -errno : 0;
}

int zn_probe_open(
	struct zn_probe *p, uint64_t families, enum zn_probe_method method, uint32_t cpus, char why[ZN_TEXT_MAX])
{
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	int err, possible = libbpf_num_possible_cpus();

	zn_pages_clear(p, sizeof(*p));
	p->method = method;
	p->cpus_possible = possible > 0 ? (uint32_t)possible : 0;
	p->cpus = cpus ? cpus : possible > 0 ? (uint32_t)possible : 1;
	fds_clear(p);
	zn_hooks_fill(p);
	zn_kernel_table(&p->kernel);
	libbpf_set_print(to_libbpf_log);
	setrlimit(RLIMIT_MEMLOCK, &all); /* kernels before 5.11 account maps to it */
	zn_object_share_types(true);
	err = open_tables(p, families, why);
	if (err)
		zn_object_share_types(false);
	return err;
}

void zn_probe_close(struct zn_probe *p)
{
	if (p->hook_count == 0)
		return; /* was never opened */
	p->hook_count = 0;
	ring_buffer__free(p->ring);
	p->ring = NULL;
	zn_raw_close(p->exit, ZN_LEN(p->exit));
	zn_raw_close(p->job_on, ZN_LEN(p->job_on));
	zn_raw_close(p->oom_on, ZN_LEN(p->oom_on));
	zn_kernel_close(&p->kernel);
	for (int i = 0; i < ZN_WALKER_COUNT; i++)
		zn_fd_close(&p->walker_fd[i]);
	zn_fd_close(&p->natives_fd);
	for (int f = 0; f < ZN_FAMILY_COUNT; f++) {
		zn_fd_close(&p->entry_fd[f]);
		zn_fd_close(&p->return_fd[f]);
	}
	for (size_t i = 0; i < ZN_LEN(p->map_fd); i++)
		zn_fd_close(&p->map_fd[i]);
	zn_bpf_arena_close(p);
}

int zn_probe_ring_fd(const struct zn_probe *p)
{
	return ring_buffer__epoll_fd(p->ring);
}

void zn_probe_consume(struct zn_probe *p)
{
	p->consumed = 0;
	ring_buffer__consume(p->ring);
}
