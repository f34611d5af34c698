/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What /proc says of one process: whether it has ended, when it began, its environment, which GPUs it has open.
 * Environments and open files may block their reader as long as a user likes, so they are for threads that may wait.
 */
#include "zernel.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK       (64 * 1024)
#define ENVIRON_MAX (4 << 20)
#define FDS_MAX     4096 /* of a process, the lowest ones, among which its GPUs are looked for */

/* Where the first process is hidden (hidepid, a namespace), others are too, and none can be said to have ended. */
bool zn_process_all_shown(void)
{
	struct stat st;

	return stat("/proc/1/stat", &st) == 0;
}

/* All its threads have ended. A tag that was set after that would be inherited by the next process with this id. False:
 * it lives, or cannot be asked. */
bool zn_process_ended(uint32_t tgid)
{
	char path[32], text[512] = "", state = 0;
	const char *at;
	uint32_t threads = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return (errno == ENOENT || errno == ESRCH) && zn_process_all_shown();
	if (read(fd, text, sizeof(text) - 1) < 0 && errno == ESRCH)
		state = 'X';
	close(fd);
	at = strrchr(text, ')'); /* the name before it may have any bytes */
	if (at)
		sscanf(at, ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %u", &state, &threads);
	return zn_procfs_ended(&(struct zn_procfs_stat){.state = state, .threads = threads});
}

/* Start time in clock ticks, field 22 of /proc/PID/stat, counted from the last ')': the name before it is hostile. 0:
 * gone. */
uint64_t zn_start_ticks(int pid)
{
	struct zn_procfs_stat s;

	return zn_procfs_stat("/proc", (uint32_t)pid, &s) ? s.start_ticks : 0;
}

uint64_t zn_start_ns(int pid)
{
	return zn_start_ticks(pid) * (ZN_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

struct names {
	bool (*visit)(void *to, int dir, const char *name);
	void *to;
	int dir;
};

static bool visit_name(void *names, const struct dirent64 *e)
{
	struct names *n = names;

	return n->visit(n->to, n->dir, e->d_name);
}

bool zn_dir_read(const char *path, bool (*visit)(void *to, int dir, const char *name), void *to)
{
	struct names n = {visit, to, open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};

	if (n.dir < 0)
		return false;
	zn_file_names(n.dir, visit_name, &n);
	close(n.dir);
	return true;
}

/* One entry of a list like "0, 2" or "GPU-1234,GPU-5678". Of a number blanks and a sign may come before it, and
 * anything behind it. False: it ends the list, as it does for CUDA and HIP. */
static bool visible_add(struct zn_visible *to, const char *at, size_t len)
{
	uint8_t i = to->count;
	char *end;
	long value;

	if (i == ZN_VISIBLE_MAX || len == 0)
		return false;
	if ((strncmp(at, "GPU-", 4) == 0 || strncmp(at, "MIG-", 4) == 0) && len < sizeof(to->uuid[i])) {
		to->index[i] = -1;
		memcpy(to->uuid[i], at, len);
		to->uuid[i][len] = 0;
	} else {
		value = strtol(at, &end, 10);
		if (end == at || value < 0 || value > 4096)
			return false;
		to->index[i] = (int32_t)value;
	}
	to->count++;
	return true;
}

static void visible_parse(struct zn_visible *to, const char *list)
{
	to->set = true;
	to->count = 0;
	while (visible_add(to, list, strcspn(list, ","))) {
		list += strcspn(list, ",");
		if (*list++ != ',')
			break;
	}
}

/* What the environment says of the GPUs that a process may see. */
struct visible_lists {
	struct zn_visible cuda, hip, rocr, slurm;
};

static void visible_settle(struct zn_process_info *to, const struct visible_lists *lists)
{
	to->cuda = lists->cuda.set ? lists->cuda : lists->slurm;
	zn_visible_hip(&to->hip, lists->hip.count ? &lists->hip : &lists->cuda, &lists->rocr);
}

/* What is longer than its place is no value that makes sense. */
static void claim_entry(struct zn_slurm_env *c, const char *entry)
{
	const struct {
		const char *name;
		char *to;
		size_t cap;
	} known[] = {
		{"SLURM_JOB_ID=", c->job, sizeof(c->job)},
		{"SLURM_JOB_NAME=", c->name, sizeof(c->name)},
		{"SLURM_ARRAY_JOB_ID=", c->array_job, sizeof(c->array_job)},
		{"SLURM_ARRAY_TASK_ID=", c->array_task, sizeof(c->array_task)},
		{"NCCL_RAS_ADDR=", c->ras, sizeof(c->ras)},
	};

	for (size_t i = 0; i < ZN_LEN(known); i++) {
		size_t n = strlen(known[i].name);

		if (strncmp(entry, known[i].name, n) == 0 && strlen(entry + n) < known[i].cap)
			strcpy(known[i].to, entry + n);
	}
}

static void environ_entry(struct zn_process_info *to, const char *entry, struct visible_lists *lists)
{
	const struct {
		const char *name;
		struct zn_visible *to;
	} known[] = {
		{"CUDA_VISIBLE_DEVICES=", &lists->cuda},
		{"HIP_VISIBLE_DEVICES=", &lists->hip},
		{"ROCR_VISIBLE_DEVICES=", &lists->rocr},
		{"SLURM_JOB_GPUS=", &lists->slurm},
	};

	claim_entry(&to->slurm, entry);
	if (strchr(entry, '='))
		to->gone = false; /* it is an environment, not what a program wrote over it */
	for (size_t i = 0; i < ZN_LEN(known); i++)
		if (strncmp(entry, known[i].name, strlen(known[i].name)) == 0)
			visible_parse(known[i].to, entry + strlen(known[i].name));
}

/* The strings of an environment as they come, each cut at 1 KiB: what is looked for is shorter. */
void zn_process_environ(int pid, struct zn_process_info *to)
{
	static char text[CHUNK];
	struct visible_lists lists = {0};
	char path[32], entry[1024];
	size_t len = 0, total = 0;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/environ", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	to->gone = true;
	while (fd >= 0 && total < ENVIRON_MAX && (n = read(fd, text, sizeof(text))) > 0) {
		total += n;
		for (ssize_t i = 0; i < n; i++) {
			entry[len] = text[i];
			if (text[i]) {
				len += len < sizeof(entry) - 1;
				continue;
			}
			len = 0;
			environ_entry(to, entry, &lists);
		}
	}
	visible_settle(to, &lists);
	if (fd >= 0)
		close(fd);
}

struct devices {
	struct zn_gpu_files files;
	struct zn_process_info *to;
	uint32_t seen;
};

static void minor_add(int32_t minors[ZN_VISIBLE_MAX], uint8_t *count, int minor)
{
	for (uint8_t i = 0; i < *count; i++)
		if (minors[i] == minor)
			return;
	if (*count < ZN_VISIBLE_MAX)
		minors[(*count)++] = minor;
}

static bool device_entry(void *arg, int dir, const char *name)
{
	struct devices *d = arg;
	uint32_t minor;
	int file = zn_gpu_file(&d->files, dir, name, &minor);

	if (file & ZN_GPU_FILE_GPU)
		minor_add(d->to->minors, &d->to->minor_count, (int)minor);
	if (file & ZN_GPU_FILE_RENDER)
		minor_add(d->to->renders, &d->to->render_count, (int)minor);
	if (file & ZN_GPU_FILE_INSTANCE)
		d->to->instances = true;
	return ++d->seen < FDS_MAX;
}

void zn_process_devices(const struct zn_gpu_files *files, int pid, struct zn_process_info *to)
{
	struct devices d = {.files = *files, .to = to};
	char path[32];

	if (!d.files.gpu)
		d.files = zn_gpu_files_read("/proc/devices"); /* drivers may be loaded at any time */
	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	zn_dir_read(path, device_entry, &d);
	to->looks++;
}

struct open_gpus {
	const uint64_t *majors, *numbered;
	uint64_t minors;
	enum zn_open_gpus open;
	int seen, pid;
};

static bool has_major(const uint64_t majors[ZN_MAJOR_WORDS], uint32_t major)
{
	return major < 64 * ZN_MAJOR_WORDS && majors[major / 64] >> (major % 64) & 1;
}

static bool open_gpu_entry(void *to, int dir, const char *name)
{
	struct open_gpus *gpus = to;
	uint32_t major, minor;

	if (!isdigit((unsigned char)name[0]))
		return true;
	if (gpus->seen++ >= FDS_MAX) {
		if (gpus->open == ZN_OPEN_GPUS_NONE)
			gpus->open = ZN_OPEN_GPUS_UNKNOWN;
		return false;
	}
	if (!zn_device_open(dir, name, &major, &minor) || !has_major(gpus->majors, major))
		return true;
	gpus->open = ZN_OPEN_GPUS_SOME;
	if (major == ZN_DRM_MAJOR)
		gpus->minors |= ZN_RENDER_BIT(minor);
	else if (has_major(gpus->numbered, major) && minor < 64)
		gpus->minors |= 1ULL << minor;
	return true;
}

/* Its threads share their open files, so those of the first that has any are all. */
static bool open_gpu_thread(void *to, int dir, const char *name)
{
	struct open_gpus *gpus = to;
	char path[64];

	(void)dir;
	snprintf(path, sizeof(path), "/proc/%d/task/%lu/fd", gpus->pid, strtoul(name, NULL, 10));
	zn_dir_read(path, open_gpu_entry, gpus);
	return !gpus->seen;
}

/* A main thread that has ended has no open files any more, while another one may be stuck in the driver of a GPU. */
static void look_behind_main(struct open_gpus *gpus)
{
	struct zn_procfs_stat stat;
	char path[32];

	if (gpus->seen || !zn_procfs_stat("/proc", (uint32_t)gpus->pid, &stat) || !zn_procfs_headless(&stat))
		return;
	snprintf(path, sizeof(path), "/proc/%d/task", gpus->pid);
	zn_dir_read(path, open_gpu_thread, gpus);
	if (!gpus->seen)
		gpus->open = ZN_OPEN_GPUS_UNKNOWN;
}

enum zn_open_gpus zn_open_gpus(
	int pid, const uint64_t majors[ZN_MAJOR_WORDS], const uint64_t numbered[ZN_MAJOR_WORDS], uint64_t *minors)
{
	static const uint64_t nvidia[ZN_MAJOR_WORDS] = {[ZN_NVIDIA_MAJOR / 64] = 1ULL << ZN_NVIDIA_MAJOR % 64},
			      none[ZN_MAJOR_WORDS];
	struct open_gpus gpus = {
		majors, memcmp(numbered, none, sizeof(none)) ? numbered : nvidia, 0, ZN_OPEN_GPUS_NONE, 0, pid};
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	if (!zn_dir_read(path, open_gpu_entry, &gpus) && zn_start_ticks(pid))
		gpus.open = ZN_OPEN_GPUS_UNKNOWN;
	else
		look_behind_main(&gpus);
	*minors = gpus.minors;
	return gpus.open;
}
