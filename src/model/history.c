/* SPDX-License-Identifier: GPL-2.0 */
/*
 * history.c: the last 15 minutes in steps of 5 s, for charts. A point is the difference of two readings of a process's
 * histogram of launches, so its quantiles are those of the step alone. Points of all rows lie at the same place of
 * their rings: the number of a step says where. Steps keep to a grid of 5 s; when ticks are further apart than that
 * (--push-interval-ms, a daemon that was stopped), the steps in between share one reading and so its averages.
 */
#include "zernel.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#define STEP_NS (ZN_HISTORY_STEP_MS * ZN_NS_PER_MS)

/* The tick that ends a step may come a little less than a whole step after the last one. */
#define EARLY_NS (50 * ZN_NS_PER_MS)

/* One page. Counts are kept modulo 2^32, which is enough for what is launched between two readings. */
struct process {
	uint32_t id;    /* zn_proc.id; 0: no process had this row yet */
	uint32_t first; /* step of its first point */
	uint32_t before[ZN_BUCKETS];
	struct zn_point point[ZN_HISTORY_POINTS];
};
_Static_assert(sizeof(struct process) == 4096, "a process is one page, so that only those in use become resident");

struct gpu {
	char id[sizeof(((struct zn_gpu *)0)->id)]; /* empty: none had this place yet */
	uint64_t first;
	uint64_t used_bytes[ZN_HISTORY_POINTS]; /* ZN_NOT_KNOWN: not known */
};

struct zn_history {
	uint64_t steps;     /* that are over */
	uint64_t end_ns;    /* of the newest one */
	uint64_t read_ns;   /* when the counts were last read; 0: never */
	uint64_t end_ms;    /* of the newest one, since 1970 */
	struct zn_hist now; /* launches since read_ns, of the process at hand */
	uint32_t gpu_count;
	struct gpu gpu[ZN_GPUS_MAX];
	uint64_t launches[ZN_PROCS_MAX]; /* that ran, at the last reading */
	struct process process[ZN_PROCS_MAX] __attribute__((aligned(4096)));
};

int zn_history_open(struct zn_history **h)
{
	void *at = mmap(NULL, sizeof(**h), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*h = at == MAP_FAILED ? NULL : at;
	return *h ? 0 : -errno;
}

void zn_history_close(struct zn_history *h)
{
	if (h)
		munmap(h, sizeof(*h));
}

/* The growth of a process's histogram of launches since it was last read. */
static void take_difference(struct zn_hist *to, struct process *p, const struct zn_hist *from)
{
	static const struct zn_hist none;

	zn_hist_low(from ? from : &none, to->bucket);
	for (uint32_t i = 0; i < ZN_BUCKETS; i++) {
		uint32_t count = to->bucket[i];

		to->bucket[i] -= p->before[i];
		p->before[i] = count;
	}
	to->max_ns = from ? from->max_ns : 0; /* of all time: no less than that of the step */
}

/* ran: launches, of which those in the histogram are the ones that were timed. */
static struct zn_point point_of(const struct zn_hist *timed, uint64_t ran, uint64_t ns)
{
	struct zn_summary s = zn_hist_summary(timed);

	return (struct zn_point){
		.rate = (float)((double)ran * ZN_NS_PER_S / (double)ns),
		.p50_us = (float)((double)s.p50_ns / 1e3),
		.p99_us = (float)((double)s.p99_ns / 1e3),
	};
}

/* Of that many points, those that the rings have. */
static uint64_t newest_points(uint64_t points)
{
	return points < ZN_HISTORY_POINTS ? points : ZN_HISTORY_POINTS;
}

/* `steps` new points that are all the same. */
static void process_read(struct zn_history *h, struct zn_agg *a, uint32_t row, uint64_t steps, uint64_t ns)
{
	const struct zn_proc *proc = zn_arena_proc(a->arena, row);
	struct process *p = &h->process[row];
	struct zn_point point;
	uint64_t ran;

	if (!proc)
		return;
	if (p->id != proc->id) {
		/* it came after the last reading, with empty histograms */
		memset(p->before, 0, sizeof(p->before));
		h->launches[row] = 0;
		p->id = proc->id;
		p->first = (uint32_t)h->steps;
	}
	take_difference(&h->now, p, zn_arena_hist(a->arena, proc->hist[ZN_H_LAUNCH]));
	ran = zn_counter_advance(&h->launches[row], ZN_LAUNCHES(proc->count));
	if (!steps)
		return;
	point = point_of(&h->now, ran, ns);
	for (uint64_t i = newest_points(steps); i; i--)
		p->point[(h->steps + steps - i) % ZN_HISTORY_POINTS] = point;
}

static void gpu_read(struct zn_history *h, const struct zn_gpu *gpu, uint32_t index, uint64_t steps)
{
	uint64_t used_bytes = gpu->partial ? ZN_NOT_KNOWN : gpu->used_bytes;
	struct gpu *g = &h->gpu[index];

	if (!zn_gpu_shown(gpu)) {
		g->id[0] = 0;
		return;
	}
	if (strcmp(g->id, gpu->id) != 0) {
		memcpy(g->id, gpu->id, sizeof(g->id));
		g->first = h->steps;
	}
	for (uint64_t i = newest_points(steps); i; i--)
		g->used_bytes[(h->steps + steps - i) % ZN_HISTORY_POINTS] = used_bytes;
}

static void read_all(struct zn_history *h, struct zn_agg *a, uint64_t steps, uint64_t now_ns)
{
	for (uint32_t r = 0; r < a->row_count; r++)
		process_read(h, a, a->row[r], steps, now_ns - h->read_ns);
	for (uint32_t i = 0; i < a->gpus.count; i++)
		gpu_read(h, &a->gpus.gpu[i], i, steps);
	for (uint32_t i = a->gpus.count; i < h->gpu_count; i++)
		h->gpu[i].id[0] = 0;
	h->gpu_count = a->gpus.count;
	h->steps += steps;
	h->read_ns = now_ns;
}

void zn_history_tick(struct zn_history *h, struct zn_agg *a, uint64_t now_ns)
{
	uint64_t steps;

	if (!h->read_ns) {
		read_all(h, a, 0, now_ns);
		h->end_ns = now_ns;
		return;
	}
	if (now_ns + EARLY_NS < h->end_ns + STEP_NS)
		return;
	steps = (now_ns + EARLY_NS - h->end_ns) / STEP_NS;
	read_all(h, a, steps, now_ns);
	h->end_ns += steps * STEP_NS;
	h->end_ms = zn_wall_ms() - (uint64_t)(((int64_t)now_ns - (int64_t)h->end_ns) / (int64_t)ZN_NS_PER_MS);
}

const struct zn_point *zn_history_last(const struct zn_history *h, uint32_t row, uint32_t id)
{
	const struct process *p = &h->process[row];

	if (row >= ZN_PROCS_MAX || p->id != id || (uint32_t)h->steps == p->first)
		return NULL;
	return &p->point[(h->steps - 1) % ZN_HISTORY_POINTS];
}

uint64_t zn_history_steps(const struct zn_history *h)
{
	return h->steps;
}

uint32_t zn_history_points(const struct zn_history *h, uint32_t row, uint32_t id)
{
	return zn_history_last(h, row, id) ? (uint32_t)newest_points((uint32_t)h->steps - h->process[row].first) : 0;
}

const struct zn_point *zn_history_point(const struct zn_history *h, uint32_t row, uint32_t ago)
{
	return &h->process[row].point[(h->steps - 1 - ago) % ZN_HISTORY_POINTS];
}

const char *zn_history_gpu(const struct zn_history *h, uint32_t i, uint32_t *points)
{
	if (i >= h->gpu_count)
		return NULL;
	*points = h->gpu[i].id[0] ? (uint32_t)newest_points(h->steps - h->gpu[i].first) : 0;
	return h->gpu[i].id;
}

uint64_t zn_history_gpu_used(const struct zn_history *h, uint32_t i, uint32_t ago)
{
	return h->gpu[i].used_bytes[(h->steps - 1 - ago) % ZN_HISTORY_POINTS];
}

uint64_t zn_history_end_ms(const struct zn_history *h)
{
	return h && h->steps ? h->end_ms : 0;
}
