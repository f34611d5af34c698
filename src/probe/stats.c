/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kernel counts of our own programs: the hits that it skipped, and their run time.
 */
#include "zernel.h"
#include <bpf/bpf.h>

#define STATS_AGE_NS (100 * ZN_NS_PER_MS) /* asking costs 1 us for each program: too much for every scrape */

/* All zero for a program that is not there. */
static struct bpf_prog_info info_of(int prog_fd)
{
	struct bpf_prog_info info = {0};
	uint32_t len = sizeof(info);

	if (prog_fd < 0 || bpf_obj_get_info_by_fd(prog_fd, &info, &len))
		return (struct bpf_prog_info){0};
	return info;
}

/* Programs on the kernel. While one is interrupted, as preemptible kernels do, it is not run for others on its
 * CPU. */
uint64_t zn_stats_raw_missed(const struct zn_raw *r, size_t count)
{
	uint64_t missed = 0;

	for (size_t i = 0; i < count; i++)
		missed += info_of(r[i].prog).recursion_misses;
	return missed;
}

/* A program at several places has one count. */
static uint64_t points_missed(const struct zn_kernel *k)
{
	uint32_t seen[ZN_ATTACH_POINTS_MAX], count = 0, j;
	uint64_t missed = 0;

	for (uint32_t i = 0; i < k->point_count; i++) {
		struct bpf_prog_info info = info_of(k->point[i].prog_fd);

		for (j = 0; j < count && seen[j] != info.id; j++)
			;
		if (j < count)
			continue;
		seen[count++] = info.id;
		missed += info.recursion_misses;
	}
	return missed;
}

static void stats_read(struct zn_probe *p)
{
	uint64_t now = zn_now_ns();

	if (p->stats_ns && now - p->stats_ns < STATS_AGE_NS)
		return;
	p->stats_ns = now;
	p->missed = points_missed(&p->kernel) + zn_stats_raw_missed(p->exit, ZN_LEN(p->exit));
	p->missed += zn_stats_raw_missed(p->job_on, ZN_LEN(p->job_on));
	for (uint32_t i = 0; i < ZN_PROGRAMS; i++) {
		struct bpf_prog_info info = info_of(i % 2 ? p->return_fd[i / 2] : p->entry_fd[i / 2]);

		p->missed += info.recursion_misses;
		p->run_ns[i] = info.run_time_ns;
	}
}

uint64_t zn_stats_missed(struct zn_probe *p)
{
	stats_read(p);
	return p->missed;
}

uint64_t zn_stats_run_ns(struct zn_probe *p, uint32_t i, const char **name)
{
	*name = zn_object_program(i / 2, i % 2 ? ZN_WAY_RETURN : p->session ? ZN_WAY_SESSION : ZN_WAY_ENTRY);
	stats_read(p);
	return p->run_ns[i];
}
