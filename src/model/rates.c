/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rates.c: what the kernel's counters of a process say over the last tick, beside its launches; how long GPU drivers
 * were in use, and by two processes at once; and which devices are GPUs. What a tick does not tell is marked as
 * unknown.
 */
#include "zernel.h"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void signals_of(const struct zn_proc *p, uint64_t to[ZN_RATED_COUNT])
{
	to[ZN_RATED_LAUNCHES] = ZN_LAUNCHES(p->count);
	to[ZN_RATED_SYSCALLS] = p->count[ZN_C_SYSCALLS];
	to[ZN_RATED_MAPPED] = p->count[ZN_C_MMAP_BYTES];
	to[ZN_RATED_UNMAPPED] = p->count[ZN_C_MUNMAP_BYTES];
	to[ZN_RATED_SWITCHES] = p->count[ZN_C_SWITCH_VOLUNTARY] + p->count[ZN_C_SWITCH_INVOLUNTARY];
	to[ZN_RATED_MIGRATIONS] = p->count[ZN_C_MIGRATE_CPU];
	to[ZN_RATED_SENT] = p->count[ZN_C_TCP_SENT];
	to[ZN_RATED_RECEIVED] = p->count[ZN_C_TCP_RECEIVED];
}

static void row_tick(struct zn_rated_row *row, const struct zn_proc *p, uint64_t ns, uint64_t now_ns)
{
	uint64_t lived_ns = now_ns > p->first_ns ? now_ns - p->first_ns : 0, all[ZN_RATED_COUNT];

	if (row->id != p->id)
		*row = (struct zn_rated_row){.id = p->id};
	signals_of(p, all);
	for (uint32_t i = 0; i < ZN_RATED_COUNT; i++) {
		row->tick[i] = all[i] - row->all[i];
		row->all[i] = all[i];
	}
	row->ns = lived_ns < ns ? lived_ns : ns;
}

#define READS 1000 /* of the few loads, until no change fell between them */

bool zn_gpu_calls_read(const struct zn_shared *s, struct zn_gpu_time *to)
{
	const struct zn_gpu_calls *c = &s->gpu_calls;

	for (int i = 0; i < READS; i++) {
		uint64_t done = __atomic_load_n(&c->done, __ATOMIC_ACQUIRE);
		uint64_t busy = __atomic_load_n(&c->busy_ns, __ATOMIC_ACQUIRE);
		uint64_t contended = __atomic_load_n(&c->contended_ns, __ATOMIC_ACQUIRE);
		uint32_t inside = __atomic_load_n(&c->processes, __ATOMIC_ACQUIRE);
		uint64_t now = zn_now_ns();

		if (__atomic_load_n(&c->begun, __ATOMIC_ACQUIRE) != done)
			continue;
		to->busy_ns = inside >= 1 ? busy + now : busy;
		to->contended_ns = inside >= 2 ? contended + now : contended;
		return true;
	}
	return false;
}

/* Clocks of two CPUs may be some nanoseconds apart, and a counter never goes down. */
static void gpu_tick(struct zn_counter_rates *s, const struct zn_shared *shared)
{
	struct zn_gpu_time now;

	s->gpu_tick = (struct zn_gpu_time){0};
	if (!zn_gpu_calls_read(shared, &now))
		return; /* the next tick has this one's too */
	s->gpu_tick.busy_ns = zn_counter_advance(&s->gpu.busy_ns, now.busy_ns);
	s->gpu_tick.contended_ns = zn_counter_advance(&s->gpu.contended_ns, now.contended_ns);
	if (s->gpu_tick.contended_ns > s->gpu_tick.busy_ns)
		s->gpu_tick.contended_ns = s->gpu_tick.busy_ns;
}

void zn_rates_tick(struct zn_counter_rates *s, struct zn_agg *a, uint64_t now_ns)
{
	uint64_t ns = s->tick_ns ? now_ns - s->tick_ns : 0;

	for (uint32_t r = 0; r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);

		if (p)
			row_tick(&s->row[a->row[r]], p, ns, now_ns);
	}
	gpu_tick(s, a->arena->shared);
	s->tick_ns = now_ns;
}

static uint64_t ratio_of(uint64_t part, uint64_t whole, uint64_t scale)
{
	__uint128_t v = whole ? (__uint128_t)part * scale / whole : ZN_NOT_KNOWN;

	return v < ZN_NOT_KNOWN ? (uint64_t)v : ZN_NOT_KNOWN;
}

bool zn_rates_of(const struct zn_counter_rates *s, uint32_t row, uint32_t id, struct zn_rates *to)
{
	const struct zn_rated_row *r = s ? &s->row[row] : NULL;
	uint64_t in, out;

	for (uint32_t i = 0; i < ZN_RATED_COUNT; i++)
		to->per_1000_s[i] = ZN_NOT_KNOWN;
	to->syscalls_per_launch = to->switches_per_launch = to->churn = ZN_NOT_KNOWN;
	if (!r || r->id != id || r->ns == 0)
		return false;
	for (uint32_t i = 0; i < ZN_RATED_COUNT; i++)
		to->per_1000_s[i] = ratio_of(r->tick[i], r->ns, 1000 * ZN_NS_PER_S);
	to->syscalls_per_launch = ratio_of(r->tick[ZN_RATED_SYSCALLS], r->tick[ZN_RATED_LAUNCHES], 1000);
	to->switches_per_launch = ratio_of(r->tick[ZN_RATED_SWITCHES], r->tick[ZN_RATED_LAUNCHES], 1000);
	in = r->tick[ZN_RATED_MAPPED];
	out = r->tick[ZN_RATED_UNMAPPED];
	to->churn = in < out ? ratio_of(in, out, 1000) : ratio_of(out, in, 1000);
	return true;
}

uint64_t zn_rates_contention(const struct zn_counter_rates *s)
{
	return s ? ratio_of(s->gpu_tick.contended_ns, s->gpu_tick.busy_ns, 1000000) : ZN_NOT_KNOWN;
}

/* ---- devices ---- */

static bool is_gpu_driver(const char *name)
{
	return !strncmp(name, "nvidia", 6) || !strcmp(name, "drm") || !strcmp(name, "kfd");
}

static void major_set(uint64_t to[ZN_MAJOR_WORDS], unsigned long major)
{
	if (major < 64 * ZN_MAJOR_WORDS)
		to[major / 64] |= 1ULL << (major % 64);
}

static bool is_rdma_driver(const char *name)
{
	return !strncmp(name, "infiniband_verbs", 16);
}

static void read_majors(const char *path, bool (*is_driver)(const char *name), uint64_t to[ZN_MAJOR_WORDS])
{
	char text[8192], *line, *rest = text, *name;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	text[len > 0 ? len : 0] = 0;
	while ((line = strsep(&rest, "\n")) && strcmp(line, "Block devices:")) {
		unsigned long major = strtoul(line, &name, 10);

		name += strspn(name, " ");
		if (name > line && is_driver(name))
			major_set(to, major);
	}
}

void zn_gpu_majors_read(const char *path, uint64_t to[ZN_MAJOR_WORDS])
{
	memset(to, 0, ZN_MAJOR_WORDS * sizeof(*to));
	major_set(to, 195); /* NVIDIA's and DRM's are always these */
	major_set(to, 226);
	read_majors(path, is_gpu_driver, to);
}

void zn_rdma_majors_read(const char *path, uint64_t to[ZN_MAJOR_WORDS])
{
	memset(to, 0, ZN_MAJOR_WORDS * sizeof(*to));
	read_majors(path, is_rdma_driver, to);
}
