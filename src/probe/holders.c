/* SPDX-License-Identifier: GPL-2.0 */
/*
 * holders.c: which processes have a device of a GPU open, by the open files of all processes of users, and which job
 * each is of. It runs on the finder's thread, in slices, and reads nothing while the node has no driver of GPUs.
 *
 * Limits: of root's processes those of jobs alone are looked at: the others are the node's own. A user who has most
 * holders leaves as much room as he takes, so others are in the table too. Of one process the lowest 4,096 open files
 * are looked at: if no GPU is among them and there are more, it is counted as one that is not known, and is no holder;
 * so is one whose threads end and none of which shows its open files any more.
 */
#include <bpf/bpf.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zernel.h"

#define SWEEP_NS (10 * ZN_NS_PER_S)

void zn_holders_init(
	struct zn_holders *h, struct zn_probe *probe, const struct zn_options *options, pthread_mutex_t *lock)
{
	h->probe = probe;
	h->options = options;
	h->lock = lock;
	h->dir = -1;
}

void zn_holders_close(struct zn_holders *h)
{
	if (h->sweeping && h->dir >= 0)
		close(h->dir);
	h->dir = -1;
	h->sweeping = false;
}

static struct zn_job_ref job_of(const struct zn_holders *h, uint32_t pid)
{
	struct zn_job_ref job;

	if (!h->probe->job || bpf_map_lookup_elem(h->probe->map_fd[ZN_MAP_TASKS], &pid, &job))
		job = (struct zn_job_ref){0};
	return job;
}

/* Of a job that was forgotten no tag is left: it is known by the look before. */
static struct zn_job_ref job_before(const struct zn_holders *h, uint32_t pid, uint64_t start_ticks)
{
	for (uint32_t i = 0; i < h->list.count; i++)
		if (h->list.holder[i].pid == pid && h->list.holder[i].start_ticks == start_ticks)
			return h->list.holder[i].job;
	return (struct zn_job_ref){0};
}

static bool has_room(const struct zn_holders_list *l, uint32_t uid)
{
	uint32_t own = 0;

	for (uint32_t i = 0; i < l->count; i++)
		own += l->holder[i].uid == uid;
	return own < ZN_HOLDERS_MAX - l->count;
}

static void read_name(uint32_t pid, char to[16])
{
	char path[40];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%u/comm", pid);
	n = zn_file_read(path, to, 16);
	to[n > 0 ? strcspn(to, "\n") : 0] = 0;
}

static void look_at_process(struct zn_holders *h, uint32_t pid)
{
	uint64_t majors[ZN_MAJOR_WORDS], minors, start_ticks = zn_start_ticks((int)pid);
	uint32_t uid = zn_uid_of((int)pid);
	struct zn_holder *at = &h->found.holder[h->found.count];
	struct zn_job_ref job = job_of(h, pid);
	enum zn_open_gpus gpus;

	if (!job.serial)
		job = job_before(h, pid, start_ticks);
	if (uid == ZN_UNKNOWN || (!uid && !job.serial) || !start_ticks || !has_room(&h->found, uid))
		return;
	for (int i = 0; i < ZN_MAJOR_WORDS; i++)
		majors[i] = __atomic_load_n(&h->probe->arena.shared->gpu_majors[i], __ATOMIC_RELAXED);
	gpus = zn_open_gpus((int)pid, majors, h->options->gpu_majors, &minors);
	h->found.unknown += gpus == ZN_OPEN_GPUS_UNKNOWN;
	if (gpus != ZN_OPEN_GPUS_SOME)
		return;
	*at = (struct zn_holder){.pid = pid, .uid = uid, .start_ticks = start_ticks, .job = job};
	read_name(pid, at->comm);
	if (zn_start_ticks((int)pid) == start_ticks) /* else another one has this number by now */
		h->found.count++;
}

static void end_sweep(struct zn_holders *h)
{
	zn_holders_close(h);
	h->found.looks++;
	pthread_mutex_lock(h->lock);
	h->list = h->found;
	pthread_mutex_unlock(h->lock);
}

/* False: that was all. */
static bool sweep_step(struct zn_holders *h)
{
	const struct dirent64 *e = zn_names_next(&h->names, h->dir);
	uint32_t pid = e ? zn_names_number(e) : 0;

	if (pid)
		look_at_process(h, pid);
	if (!e)
		end_sweep(h);
	return e != NULL;
}

/* The number of DRM is looked for on each node, whether it has a device or not. */
static bool has_driver(const struct zn_holders *h)
{
	uint64_t any = 0;

	for (int i = 0; i < ZN_MAJOR_WORDS; i++)
		any |= __atomic_load_n(&h->probe->arena.shared->gpu_majors[i], __ATOMIC_RELAXED) &
			~(i == ZN_DRM_MAJOR / 64 ? 1ULL << ZN_DRM_MAJOR % 64 : 0);
	return any || access("/dev/dri", F_OK) == 0;
}

/* Without a driver nobody has a GPU open, which is an answer as well. Without a descriptor there is no look: that
 * nobody was seen would be none. */
static void begin_sweep(struct zn_holders *h, uint64_t now_ns)
{
	h->swept_ns = now_ns;
	h->names.at = h->names.have = 0;
	h->found.count = h->found.unknown = 0;
	if (!has_driver(h)) {
		end_sweep(h);
		return;
	}
	h->dir = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	h->sweeping = h->dir >= 0;
}

void zn_holders_run(struct zn_holders *h, uint64_t until_ns)
{
	uint64_t now_ns = zn_now_ns();

	if (!h->sweeping && now_ns - h->swept_ns >= SWEEP_NS)
		begin_sweep(h, now_ns);
	while (h->sweeping && sweep_step(h))
		if (zn_now_ns() > until_ns)
			return;
}
