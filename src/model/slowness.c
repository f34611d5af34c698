/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slowness.c: what the requests of a server wait for, in seconds per request, and what is usual of that, in the steps
 * of latency.c. A request lies unread in the socket; then the front end may wait for a CPU, and the engines do what
 * serving.c divides: the time to its first event is laid to that in the same proportions. These are averages over all
 * requests of a step, of which none is named.
 */
#include "zernel.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEPS_LEAST    2                                       /* on end that are unusual: one may be chance */
#define STALE_NS       (3 * ZN_HISTORY_STEP_MS * ZN_NS_PER_MS) /* a reading of /proc that is older says nothing */
#define UNREAD_LEAST   50                                      /* ms: less is no trouble of its own */
#define MAIN_SHARE     2 /* the main thread is the front end if it has this share of the CPU time, as 1/n */
#define FRONT_LEAST_NS (50 * ZN_NS_PER_MS) /* of CPU time within a step: less is in ticks of 10 ms of no use */

static const char *const keys[] = {
#define X(e, key) key,
	ZN_SLOW_PARTS(X)
#undef X
};

/* Durations differ by factors; shares by differences, of a tenth and more; numbers of requests by factors. */
static const struct zn_baseline_scale ms_scale = {1, 100}, share_scale = {0.1, 500}, count_scale = {1, 100};

struct sums {
	uint64_t ns, calls;
};

struct server {
	uint32_t id;      /* 0: none was here yet */
	uint32_t service; /* of which the sums below are; 0: none */
	bool read;        /* what follows was read before */
	struct sums unread, of[ZN_LATENCY_SIGNALS];
	uint64_t held[ZN_LATENCY_SIGNALS], stall_ns[ZN_STALL_COUNT];
	uint64_t step_ns, ioctl_ns, serving_ns, contended_ns;
	struct resent {
		uint32_t id; /* of the process; 0: none */
		uint64_t count;
	} resent[ZN_ENGINES_MAX];
	uint64_t front_ns; /* when the times were read; 0: never */
	struct zn_front_times front;
	struct zn_slow_server shown;
	struct zn_baseline part[ZN_LATENCY_SIGNALS][ZN_SLOW_PARTS], held_share[ZN_LATENCY_SIGNALS], busy, in_flight;
	struct zn_baseline resent_rate, driver, contended;
} __attribute__((aligned(4096)));

struct zn_slowness {
	uint64_t steps;
	bool began;
	bool (*front)(void *of, uint32_t tgid, struct zn_front_times *to);
	void *front_of;
	struct server server[ZN_SERVERS_MAX];
};

const char *zn_slowness_part(enum zn_slow_part part)
{
	return keys[part];
}

/* It takes no lock that a user could hold. */
static bool read_front(void *of, uint32_t tgid, struct zn_front_times *to)
{
	struct zn_procfs_stat stat;
	long tick = sysconf(_SC_CLK_TCK);

	(void)of;
	if (tick <= 0 || !zn_procfs_stat("/proc", tgid, &stat))
		return false;
	to->cpu_ns = stat.cpu_ticks * (ZN_NS_PER_S / (uint64_t)tick);
	return zn_procfs_schedstat("/proc", tgid, &to->main_ns, &to->queued_ns);
}

int zn_slowness_open(struct zn_slowness **z)
{
	void *at = mmap(NULL, sizeof(**z), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*z = at == MAP_FAILED ? NULL : at;
	if (!*z)
		return -errno;
	zn_slowness_front(*z, read_front, NULL);
	return 0;
}

void zn_slowness_close(struct zn_slowness *z)
{
	if (z)
		munmap(z, sizeof(*z));
}

void zn_slowness_front(
	struct zn_slowness *z, bool (*front)(void *of, uint32_t tgid, struct zn_front_times *to), void *of)
{
	z->front = front;
	z->front_of = of;
}

/* ---- One server over one step. ---- */

struct step {
	struct server *v;
	const struct zn_server *s;
	const struct zn_agg *agg;
	const struct zn_serving *service; /* NULL: it has none */
	bool another;                     /* than in the step before, whose sums say nothing of this one's */
	bool first;                       /* there is no reading before */
	uint64_t steps, now_ns;           /* steps: so far, for the baselines */
	double mean_ms[ZN_LATENCY_SIGNALS], unread_ms;
	double stall[ZN_STALL_COUNT], queued, busy; /* shares of the time; NaN: not known */
	double resent, driver, contended;           /* as struct zn_slow_server has them */
};

static void add_hist(struct sums *to, struct zn_arena *a, uint32_t slot)
{
	const struct zn_hist *h = zn_request_hist(a, slot);

	to->ns += h ? h->sum_ns : 0;
	to->calls += h ? h->calls : 0;
}

/* What came since the last reading, in ms; NaN: nothing. calls: how many. */
static double read_mean(struct sums *before, const struct sums *now, uint64_t *calls)
{
	uint64_t ns = zn_counter_advance(&before->ns, now->ns);

	*calls = zn_counter_advance(&before->calls, now->calls);
	return *calls ? (double)ns / (double)*calls / ZN_NS_PER_MS : NAN;
}

static double share_of(uint64_t part, uint64_t all)
{
	return part < all ? (double)part / (double)all : 1;
}

static void read_durations(struct step *t)
{
	static const enum zn_request_duration of[ZN_LATENCY_SIGNALS] = {ZN_REQUEST_FIRST, ZN_REQUEST_GAP};
	struct zn_arena *a = t->agg->arena;
	struct sums unread = {0}, sum[ZN_LATENCY_SIGNALS] = {0};
	uint64_t calls;

	add_hist(&unread, a, t->s->hist[ZN_SERVER_UNREAD]);
	t->unread_ms = read_mean(&t->v->unread, &unread, &calls);
	for (uint32_t i = 0; i < ZN_LATENCY_SIGNALS; i++) {
		struct zn_slow_figure *held = &t->v->shown.of[i].held;
		uint64_t more;

		for (enum zn_request_route route = 0; route < ZN_ROUTE_COUNT; route++) {
			const struct zn_request_series *r = zn_server_series(a, t->s, route);

			if (r)
				add_hist(&sum[i], a, r->hist[of[i]]);
		}
		t->mean_ms[i] = read_mean(&t->v->of[i], &sum[i], &calls);
		more = zn_counter_advance(&t->v->held[i], t->s->held[i]);
		if (!t->first)
			held->now = calls ? share_of(more, calls) : NAN;
	}
}

/* A server gets another service when a router comes before it, or goes. */
static void read_service(struct step *t)
{
	const struct zn_serving *s = t->s->service_at ? zn_serving_at(t->agg->arena, t->s->service_at - 1) : NULL;
	uint32_t id = s ? s->id : 0;

	t->service = s;
	t->another = t->v->service != id;
	t->v->service = id;
	if (!t->another || !s)
		return;
	for (enum zn_stall c = 0; c < ZN_STALL_COUNT; c++)
		t->v->stall_ns[c] = s->work[ZN_WORK_STALL + c];
	t->v->ioctl_ns = s->work[ZN_WORK_IOCTL];
	t->v->serving_ns = s->serving_ns;
}

/* Of the launching threads of its service's engines, while a request was in flight: in which proportions. */
static void read_engines(struct step *t)
{
	const struct zn_serving *s = t->service;
	bool known = !t->first && !t->another && zn_agg_measures(t->agg, ZN_FAM_SCHED);
	uint64_t more[ZN_STALL_COUNT] = {0}, all = 0;

	for (enum zn_stall c = 0; c < ZN_STALL_COUNT; c++) {
		more[c] = zn_counter_advance(&t->v->stall_ns[c], s ? s->work[ZN_WORK_STALL + c] : 0);
		all += more[c];
	}
	for (enum zn_stall c = 0; c < ZN_STALL_COUNT; c++)
		t->stall[c] = all && known ? (double)more[c] / (double)all : NAN;
}

/* By the engines that were there in the step before. */
static uint64_t advance_resent(struct server *v, const struct zn_arena *a, const struct zn_serving *s)
{
	uint64_t resent = 0;

	for (uint32_t i = 0; s && i < ZN_ENGINES_MAX; i++) {
		const struct zn_proc *p = zn_serving_engine(a, s, i);
		struct resent *was = &v->resent[i];

		if (p && was->id == p->id)
			resent += zn_counter_advance(&was->count, p->count[ZN_C_TCP_RETRANSMITS]);
		else
			*was = (struct resent){p ? p->id : 0, p ? p->count[ZN_C_TCP_RETRANSMITS] : 0};
	}
	return resent;
}

/* What may be behind a wait of the engines: their network, and the GPU's driver. */
static void read_behind(struct step *t)
{
	const struct zn_arena *a = t->agg->arena;
	const struct zn_serving *s = t->service;
	uint64_t passed_ns = t->now_ns - t->v->step_ns, ioctl_ns, serving_ns, contended_ns, resent;
	struct zn_gpu_time gpu = {.contended_ns = t->v->contended_ns}; /* not read: the next step has this one's too */
	bool known = s && !t->first && !t->another && passed_ns;

	t->v->step_ns = t->now_ns;
	resent = advance_resent(t->v, a, s);
	ioctl_ns = zn_counter_advance(&t->v->ioctl_ns, s ? s->work[ZN_WORK_IOCTL] : 0);
	serving_ns = zn_counter_advance(&t->v->serving_ns, s ? s->serving_ns : 0);
	zn_gpu_calls_read(a->shared, &gpu);
	contended_ns = zn_counter_advance(&t->v->contended_ns, gpu.contended_ns);
	t->resent = t->driver = t->contended = NAN;
	if (known && zn_agg_measures(t->agg, ZN_FAM_NET))
		t->resent = (double)resent * ZN_NS_PER_S / (double)passed_ns;
	if (!known || !zn_agg_measures(t->agg, ZN_FAM_IOCTL))
		return;
	t->contended = share_of(contended_ns, passed_ns);
	if (serving_ns)
		t->driver = (double)ioctl_ns / (double)serving_ns;
}

/* Of many threads alike none stands for the front end: then nothing is known of it. */
static void read_process(struct step *t, const struct zn_slowness *z)
{
	struct server *v = t->v;
	struct zn_front_times now = {0}, before = v->front;
	uint64_t passed_ns = v->front_ns ? t->now_ns - v->front_ns : 0, cpu_ns, main_ns, queued_ns;

	t->queued = t->busy = NAN;
	v->front_ns = 0;
	if (!z->front(z->front_of, t->s->tgid, &now))
		return;
	v->front = now;
	v->front_ns = t->now_ns;
	cpu_ns = zn_counter_advance(&before.cpu_ns, now.cpu_ns);
	main_ns = zn_counter_advance(&before.main_ns, now.main_ns);
	queued_ns = zn_counter_advance(&before.queued_ns, now.queued_ns);
	if (!passed_ns || passed_ns > STALE_NS || cpu_ns < FRONT_LEAST_NS || main_ns * MAIN_SHARE < cpu_ns)
		return;
	t->busy = share_of(main_ns, passed_ns);
	t->queued = share_of(queued_ns, passed_ns);
}

static int32_t take_figure(struct zn_slow_figure *f, struct zn_baseline *b, double now,
	const struct zn_baseline_scale *scale, uint64_t steps)
{
	int32_t score = zn_baseline_take(b, now, scale, (uint32_t)steps);

	f->now = now;
	f->usual = zn_baseline_level(b, scale);
	return score;
}

static double part_of(const struct step *t, uint32_t signal, enum zn_slow_part part)
{
	if (part == ZN_SLOW_UNREAD)
		return signal == 0 && !isnan(t->mean_ms[0]) ? t->unread_ms : NAN;
	return t->mean_ms[signal] * (part == ZN_SLOW_QUEUED ? t->queued : t->stall[part - ZN_SLOW_CPU]);
}

/* Of a signal that has a value in this step. Unread time is not within the time to the first event: it may be unusual
 * by itself. */
static void judge_signal(struct step *t, uint32_t signal, int32_t score)
{
	struct zn_slow *w = &t->v->shown.of[signal];
	int32_t limit = w->over ? ZN_ANOMALY_LIMIT * 500 : ZN_ANOMALY_LIMIT * 1000;
	bool over = score != ZN_SCORE_NONE && score > limit;

	for (enum zn_slow_part part = 0; part < ZN_SLOW_PARTS; part++) {
		score = take_figure(
			&w->part_ms[part], &t->v->part[signal][part], part_of(t, signal, part), &ms_scale, t->steps);
		if (part == ZN_SLOW_UNREAD && score != ZN_SCORE_NONE && score > limit &&
			w->part_ms[part].now >= UNREAD_LEAST)
			over = true;
	}
	take_figure(&w->held, &t->v->held_share[signal], w->held.now, &share_scale, t->steps);
	w->over = over ? w->over + 1 : 0;
	w->unusual = w->over >= STEPS_LEAST;
}

static void take_step(struct step *t, const struct zn_latency *l, uint32_t index)
{
	struct zn_slow_server *shown = &t->v->shown;

	take_figure(&shown->busy, &t->v->busy, t->busy, &share_scale, t->steps);
	take_figure(&shown->in_flight, &t->v->in_flight, (double)zn_latency_point(l, index, 0)->in_flight, &count_scale,
		t->steps);
	take_figure(&shown->resent, &t->v->resent_rate, t->resent, &count_scale, t->steps);
	take_figure(&shown->driver, &t->v->driver, t->driver, &share_scale, t->steps);
	take_figure(&shown->contended, &t->v->contended, t->contended, &share_scale, t->steps);
	for (uint32_t i = 0; i < ZN_LATENCY_SIGNALS; i++) {
		struct zn_slow *w = &shown->of[i];
		int32_t score = zn_latency_score(l, index, t->s->id, i);
		double p99_ms = zn_latency_p99_ms(l, index, t->s->id, i);

		if (p99_ms > 0 && !isnan(t->mean_ms[i])) {
			w->p99_ms = (struct zn_slow_figure){p99_ms, zn_latency_usual_ms(l, index, t->s->id, i)};
			judge_signal(t, i, score);
		} else if (score == ZN_SCORE_NONE) { /* for some steps nothing came */
			w->over = 0;
			w->unusual = false;
		}
	}
}

static void forget_server(struct server *v, uint32_t id)
{
	static const struct zn_slow_figure none = {NAN, NAN};

	if (v->id) /* else nobody was here, and memory that nobody needs is not touched */
		memset(v, 0, sizeof(*v));
	v->id = id;
	v->shown.busy = v->shown.in_flight = v->shown.resent = v->shown.driver = v->shown.contended = none;
	for (uint32_t i = 0; i < ZN_LATENCY_SIGNALS; i++) {
		struct zn_slow *w = &v->shown.of[i];

		w->p99_ms = w->held = none;
		for (enum zn_slow_part part = 0; part < ZN_SLOW_PARTS; part++)
			w->part_ms[part] = none;
	}
}

void zn_slowness_tick(
	struct zn_slowness *z, const struct zn_latency *l, const struct zn_agg *agg, uint64_t steps, uint64_t now_ns)
{
	if (!agg->arena->servers || (z->began && steps == z->steps))
		return;
	z->began = true;
	z->steps = steps;
	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *s = zn_server_at(agg->arena, i);
		struct step t = {.v = &z->server[i], .s = s, .agg = agg, .steps = steps, .now_ns = now_ns};

		if (!s)
			continue;
		if (t.v->id != s->id)
			forget_server(t.v, s->id);
		t.first = !t.v->read;
		t.v->read = true;
		read_durations(&t);
		read_service(&t);
		read_engines(&t);
		read_behind(&t);
		read_process(&t, z);
		if (!t.first && zn_latency_points(l, i, s->id))
			take_step(&t, l, i);
	}
}

const struct zn_slow_server *zn_slowness_of(const struct zn_slowness *z, uint32_t server, uint32_t id)
{
	const struct server *v = z && server < ZN_SERVERS_MAX ? &z->server[server] : NULL;

	return v && v->id == id ? &v->shown : NULL;
}

struct zn_job_ref zn_slowness_job(const struct zn_arena *a, const struct zn_server *s)
{
	const struct zn_serving *v = s->service_at ? zn_serving_at(a, s->service_at - 1) : NULL;
	const struct zn_proc *engine = NULL;

	for (uint32_t i = 0; v && !engine && i < ZN_ENGINES_MAX; i++)
		engine = zn_serving_engine(a, v, i);
	return engine ? engine->job : s->job;
}
