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
#define MILLI   3 /* decimals */

/* A tick that should be the one that ends a step comes a little earlier after its last one than a whole step. */
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

/* What came to a process's histogram of launches since it was last read. */
static void difference(struct zn_hist *to, struct process *p, const struct zn_hist *from)
{
	for (uint32_t i = 0; i < ZN_BUCKETS; i++) {
		uint32_t count = from ? (uint32_t)__atomic_load_n(&from->slot[i], __ATOMIC_RELAXED) : 0;

		to->slot[i] = count - p->before[i];
		p->before[i] = count;
	}
	to->max_ns = from ? from->max_ns : 0; /* of all time: no less than that of the step */
}

static struct zn_point point_of(const struct zn_hist *launches, uint64_t ns)
{
	struct zn_summary s = zn_hist_summary(launches);

	return (struct zn_point){
		.rate = (float)((double)s.count * ZN_NS_PER_S / (double)ns),
		.p50_us = (float)((double)s.p50_ns / 1e3),
		.p99_us = (float)((double)s.p99_ns / 1e3),
	};
}

/* Of that many points, those that the rings have. */
static uint64_t newest(uint64_t points)
{
	return points < ZN_HISTORY_POINTS ? points : ZN_HISTORY_POINTS;
}

/* `steps` new points that are all the same. */
static void process_read(struct zn_history *h, struct zn_agg *a, uint32_t row, uint64_t steps, uint64_t ns)
{
	const struct zn_proc *proc = zn_arena_proc(a->arena, row);
	struct process *p = &h->process[row];
	struct zn_point point;

	if (!proc)
		return;
	if (p->id != proc->id) {
		/* it came after the last reading, with empty histograms */
		memset(p->before, 0, sizeof(p->before));
		p->id = proc->id;
		p->first = (uint32_t)h->steps;
	}
	difference(&h->now, p, zn_arena_hist(a->arena, proc->hist[ZN_H_LAUNCH]));
	if (!steps)
		return;
	point = point_of(&h->now, ns);
	for (uint64_t i = newest(steps); i; i--)
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
	for (uint64_t i = newest(steps); i; i--)
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

enum series { RATE, P50_US, P99_US, SERIES_COUNT };
static const struct {
	const char *key;
	size_t offset; /* in struct zn_point */
	bool null_if_0;
} series[SERIES_COUNT] = {
	{"rate", offsetof(struct zn_point, rate), false},
	{"p50_us", offsetof(struct zn_point, p50_us), true},
	{"p99_us", offsetof(struct zn_point, p99_us), true},
};

static void figure(struct zn_json *j, float v, bool null_if_0)
{
	if (v == 0 && null_if_0)
		zn_json_null(j);
	else
		zn_json_scaled(j, (uint64_t)llround((double)v * 1e3), MILLI);
}

static void figures(struct zn_json *j, const struct zn_point *p, enum series s)
{
	float v;

	memcpy(&v, (const char *)p + series[s].offset, sizeof(v));
	figure(j, v, series[s].null_if_0);
}

void zn_point_json(struct zn_json *j, const struct zn_point *p)
{
	if (!p) {
		zn_json_null(j);
		return;
	}
	zn_json_open(j, '{');
	for (enum series s = 0; s < SERIES_COUNT; s++) {
		zn_json_key(j, series[s].key);
		figures(j, p, s);
	}
	zn_json_close(j, '}');
}

static void used_point(struct zn_json *j, uint64_t used_bytes)
{
	if (used_bytes == ZN_NOT_KNOWN)
		zn_json_null(j);
	else
		zn_json_u64(j, used_bytes);
}

/* zn_json_list() items; they may be empty where there are no points. */
static bool gpu_item(void *view, struct zn_json *j, uint32_t i)
{
	const struct zn_history *h = ((struct zn_view *)view)->history;
	const struct gpu *g = &h->gpu[i];

	if (i >= h->gpu_count)
		return false;
	if (!g->id[0] || h->steps == g->first)
		return true;
	zn_json_open(j, '{');
	zn_json_key(j, "gpu_id");
	zn_json_text(j, g->id);
	zn_json_key(j, "used_bytes");
	zn_json_open(j, '[');
	for (uint64_t n = newest(h->steps - g->first); n; n--)
		used_point(j, g->used_bytes[(h->steps - n) % ZN_HISTORY_POINTS]);
	zn_json_close(j, ']');
	zn_json_close(j, '}');
	return true;
}

static bool process_item(void *view, struct zn_json *j, uint32_t i)
{
	struct zn_view *v = view;
	const struct zn_history *h = v->history;
	uint32_t row = i < v->agg->row_count ? v->agg->row[i] : 0;
	const struct zn_proc *proc = zn_arena_proc(v->agg->arena, row);
	const struct process *p = &h->process[row];
	const char *comm = v->agg->info[row].comm;

	if (i >= v->agg->row_count)
		return false;
	if (!proc || !zn_history_last(h, row, proc->id))
		return true;
	zn_json_open(j, '{');
	zn_json_key(j, "pid");
	zn_json_u64(j, proc->tgid);
	zn_json_key(j, "comm");
	zn_json_bytes(j, comm, strnlen(comm, sizeof(v->agg->info[row].comm)));
	for (enum series s = 0; s < SERIES_COUNT; s++) {
		zn_json_key(j, series[s].key);
		zn_json_open(j, '[');
		for (uint64_t n = newest((uint32_t)h->steps - p->first); n; n--)
			figures(j, &p->point[(h->steps - n) % ZN_HISTORY_POINTS], s);
		zn_json_close(j, ']');
	}
	zn_json_close(j, '}');
	return true;
}

static void head(struct zn_json *j, const struct zn_view *v)
{
	zn_json_key(j, "node");
	zn_json_text(j, v->node);
	zn_json_key(j, "source");
	zn_json_text(j, v->probe ? "live" : "simulated");
	zn_json_key(j, "step_ms");
	zn_json_u64(j, ZN_HISTORY_STEP_MS);
	zn_json_key(j, "end_ms");
	if (v->history && v->history->steps)
		zn_json_u64(j, v->history->end_ms);
	else
		zn_json_null(j);
}

static bool nothing(void *view, struct zn_json *j, uint32_t i)
{
	(void)view, (void)j, (void)i;
	return false;
}

void zn_history_json(struct zn_out *o, struct zn_view *v)
{
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	head(&j, v);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "gpus", '[', v->history ? gpu_item : nothing, v);
	whole &= zn_json_list(&j, "processes", '[', v->history ? process_item : nothing, v);
	zn_json_end(&j, whole);
}
