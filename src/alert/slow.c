/* SPDX-License-Identifier: GPL-2.0 */
/*
 * slow.c: what holds up the requests of a server, in words: of a server whose requests are unusually slow, what they
 * wait for longer than they usually do; of one request that was slow, what it waited for. Each number is in the
 * snapshot.
 */
#include "zernel.h"
#include <math.h>
#include <string.h>

#define PARTS_SAID  2   /* those that have grown most */
#define LEAST_MS    1.0 /* a part that has grown by less is not said, */
#define LEAST_SHARE 10  /* nor one that is less than this of all that has grown, as 1/n */
#define POINTS      0.1 /* a share that has grown by less is not said */
#define BUSY        0.8
#define HELD        0.2
#define MORE        1.5 /* times as many in flight, or sent again, as usual */
#define MET         0.1 /* of the time, and by as much more than usual */
#define RESENT      1.0 /* segments a second: less does not hold an engine up */

#define FRONT  "zernel_request_first_event_seconds"
#define UNREAD "zernel_request_unread_seconds"
#define HOLD   "zernel_request_held_total"
#define WORK   "zernel_serving_stall_seconds_total"
#define RESEND "zernel_tcp_retransmits_total"
#define MEET   "zernel_gpu_ioctl_contended_seconds_total"

static const struct {
	const char *cause, *what;
} signals[ZN_LATENCY_SIGNALS] = {{"slow_first_event", "the first event"}, {"slow_events", "the next event"}};

static const struct {
	const char *says, *next, *metric;
} parts[ZN_SLOW_PARTS] = {
	[ZN_SLOW_UNREAD] = {"requests lie unread",
		"give the front end more processes, or take work off the loop that reads: tokenizer, templates, logging",
		UNREAD},
	[ZN_SLOW_QUEUED] = {"its front end waits for a CPU",
		"give the front end CPUs of its own; see what else runs there (zernel watch, cpuset)", FRONT},
	[ZN_SLOW_CPU] = {"its engine runs on the CPU",
		"see what the engine does between launches: zernel why PID, py-spy; CUDA graphs, if it has none", WORK},
	[ZN_SLOW_GPU] = {"its engine waits for the GPU",
		"see how many requests it has at one time, and their length; whether the GPU's clocks are lowered",
		WORK},
	[ZN_SLOW_DATA] = {"its engine waits for data", "see what its loader's workers do: zernel why PID", WORK},
	[ZN_SLOW_DIST] = {"its engine waits for other ranks",
		"look at the other ranks of the engine: zernel why, the network", WORK},
	[ZN_SLOW_IO] = {"its engine is blocked on files",
		"see which files: weights or a cache that is swapped out (zernel watch, view i)", WORK},
	[ZN_SLOW_WAITS_CPU] = {"its engine waits for a CPU",
		"give the engine CPUs of its own; its limit may be used up (cpu.max)", WORK},
	[ZN_SLOW_OTHER] = {"its engine sleeps",
		"see who keeps the engine waiting: mostly the front end (tokenizer, scheduler), or a process between them",
		WORK},
};

/* ---- A server. ---- */

static double grown_of(const struct zn_slow *w, enum zn_slow_part part)
{
	const struct zn_slow_figure *f = &w->part_ms[part];

	return !isnan(f->now) && !isnan(f->usual) && f->now > f->usual ? f->now - f->usual : 0;
}

/* The parts that have grown most, the first one first: how many. */
static size_t find_parts(const struct zn_slow *w, enum zn_slow_part to[PARTS_SAID])
{
	double all = 0;
	size_t count = 0;

	for (enum zn_slow_part part = 0; part < ZN_SLOW_PARTS; part++)
		all += grown_of(w, part);
	for (enum zn_slow_part part = 0; part < ZN_SLOW_PARTS; part++) {
		double grown = grown_of(w, part);
		size_t at;

		if (grown < LEAST_MS || grown * LEAST_SHARE < all)
			continue;
		for (at = count < PARTS_SAID ? count++ : PARTS_SAID; at && grown > grown_of(w, to[at - 1]); at--)
			if (at < PARTS_SAID)
				to[at] = to[at - 1];
		if (at < PARTS_SAID)
			to[at] = part;
	}
	return count;
}

static void put_ms(struct zn_out *o, double ms)
{
	char text[ZN_UNITS_CELL];

	zn_out_text(o, zn_units_duration(text, ms * 1000));
}

static void put_percent(struct zn_out *o, double share)
{
	zn_out_u64(o, (uint64_t)lrint(share * 100));
	zn_out_text(o, " %");
}

/* A piece for which there is no room is left out whole. */
static void keep_whole(struct zn_out *o, size_t len)
{
	if (o->full)
		o->len = len;
	o->full = false;
}

static void put_part(struct zn_out *o, const struct zn_slow *w, enum zn_slow_part part, const char *before)
{
	size_t len = o->len;

	zn_out_text(o, before);
	zn_out_text(o, parts[part].says);
	zn_out_char(o, ' ');
	put_ms(o, w->part_ms[part].now);
	zn_out_text(o, ", usually ");
	put_ms(o, w->part_ms[part].usual);
	keep_whole(o, len);
}

static bool has_grown(const struct zn_slow_figure *f, double least)
{
	return !isnan(f->now) && f->now >= least && (isnan(f->usual) || f->now >= f->usual + POINTS);
}

static bool has_more(const struct zn_slow_figure *f)
{
	return !isnan(f->now) && !isnan(f->usual) && f->now >= f->usual + 1 && f->now >= f->usual * MORE;
}

/* What stands beside the parts. */
static void put_busy(struct zn_out *o, const struct zn_slow_server *s)
{
	size_t len = o->len;

	if (isnan(s->busy.now) || s->busy.now < BUSY)
		return;
	zn_out_text(o, "; its front end computes ");
	put_percent(o, s->busy.now);
	zn_out_text(o, " of the time");
	keep_whole(o, len);
}

static void put_held(struct zn_out *o, const struct zn_slow *w)
{
	size_t len = o->len;

	if (!has_grown(&w->held, HELD))
		return;
	zn_out_text(o, "; TCP holds back ");
	put_percent(o, w->held.now);
	zn_out_text(o, " of these events");
	keep_whole(o, len);
}

static void put_in_flight(struct zn_out *o, const struct zn_slow_server *s)
{
	uint64_t now = has_more(&s->in_flight) ? (uint64_t)lrint(s->in_flight.now) : 0;
	size_t len = o->len;

	if (!now)
		return;
	zn_out_text(o, "; ");
	zn_out_u64(o, now);
	zn_out_text(o, now == 1 ? " request in flight, usually " : " requests in flight, usually ");
	zn_out_u64(o, (uint64_t)lrint(s->in_flight.usual));
	keep_whole(o, len);
}

static bool sends_again(const struct zn_slow_server *s)
{
	const struct zn_slow_figure *f = &s->resent;

	return f->now >= RESENT && (isnan(f->usual) || has_more(f));
}

static void put_resent(struct zn_out *o, const struct zn_slow_server *s)
{
	size_t len = o->len;

	if (!sends_again(s))
		return;
	zn_out_text(o, "; TCP of its engine sends ");
	zn_out_u64(o, (uint64_t)lrint(s->resent.now));
	zn_out_text(o, " segments a second again");
	keep_whole(o, len);
}

/* Of the node: it is said only if its engine is there as well. */
static bool meets_others(const struct zn_slow_server *s)
{
	return has_grown(&s->contended, MET) && s->driver.now >= MET;
}

static void put_driver(struct zn_out *o, const struct zn_slow_server *s)
{
	size_t len = o->len;

	if (!meets_others(s))
		return;
	zn_out_text(o, "; several processes are inside the GPU's driver ");
	put_percent(o, s->contended.now);
	zn_out_text(o, " of the time");
	keep_whole(o, len);
}

/* What is behind the wait that has grown most, if that may be. */
static void advise_behind(struct zn_finding *to, const struct zn_slow_server *s, enum zn_slow_part most, bool has_part)
{
	if (has_part && most == ZN_SLOW_DIST && sends_again(s)) {
		to->next =
			"look for lost packets between its engines: links, switches, congestion (ethtool -S, ss -ti)";
		to->metric = RESEND;
	}
	if (!meets_others(s) || (has_part && most != ZN_SLOW_OTHER && most != ZN_SLOW_IO && most != ZN_SLOW_CPU))
		return;
	to->next =
		"see which process calls the driver beside its engine (zernel_gpu_ioctl_seconds by pid), and move it";
	to->metric = MEET;
}

static void put_head(struct zn_out *o, const struct zn_slow *w, uint32_t signal, uint32_t pid)
{
	zn_out_text(o, "requests of the server ");
	zn_out_u64(o, pid);
	zn_out_text(o, " wait for ");
	zn_out_text(o, signals[signal].what);
	zn_out_text(o, ": p99 ");
	put_ms(o, w->p99_ms.now);
	if (isnan(w->p99_ms.usual))
		return;
	zn_out_text(o, ", usually ");
	put_ms(o, w->p99_ms.usual);
}

bool zn_slow_says(const struct zn_slow_server *s, uint32_t signal, uint32_t pid, struct zn_finding *to)
{
	const struct zn_slow *w = &s->of[signal];
	struct zn_out o = {.at = to->says, .cap = sizeof(to->says) - 1};
	enum zn_slow_part part[PARTS_SAID];
	size_t count;

	*to = (struct zn_finding){.rule = signals[signal].cause};
	if (!w->unusual)
		return false;
	count = find_parts(w, part);
	to->next = count
		? parts[part[0]].next
		: "look at the engine's own metrics: its queue, its batches and its cache are not seen from here";
	to->metric = count ? parts[part[0]].metric : FRONT;
	put_head(&o, w, signal, pid);
	for (size_t i = 0; i < count; i++)
		put_part(&o, w, part[i], i ? "; " : "; on average ");
	if (has_grown(&w->held, HELD) && !count) {
		to->next = "let the server set TCP_NODELAY; behind a closed window the client reads too slowly";
		to->metric = HOLD;
	}
	advise_behind(to, s, count ? part[0] : ZN_SLOW_UNREAD, count);
	put_busy(&o, s);
	put_held(&o, w);
	put_resent(&o, s);
	put_driver(&o, s);
	put_in_flight(&o, s);
	to->says[o.len] = 0;
	return true;
}

/* ---- The servers of a job. ---- */

/* Servers that others of their service ask come last, as these wait for them; then it is by how much. */
static double weight_of(const struct zn_server *s, const struct zn_slow *w)
{
	double times = isnan(w->p99_ms.usual) || w->p99_ms.usual <= 0 ? 1 : w->p99_ms.now / w->p99_ms.usual;

	return s->above ? times / (1 + times) : 1 + times;
}

static void say_more(struct zn_finding *f)
{
	struct zn_out o = {.at = f->says, .cap = sizeof(f->says) - 1, .len = strlen(f->says)};
	size_t len = o.len;

	if (!f->more)
		return;
	zn_out_text(&o, "; so do those of ");
	zn_out_u64(&o, f->more);
	zn_out_text(&o, " more");
	f->says[o.full ? len : o.len] = 0;
}

static bool find_worst(const struct zn_slowness *z, const struct zn_arena *a, struct zn_job_ref job, uint32_t signal,
	struct zn_finding *to)
{
	const struct zn_slow_server *worst = NULL;
	uint32_t pid = 0, count = 0;
	double most = 0;

	for (uint32_t i = 0; i < ZN_SERVERS_MAX; i++) {
		const struct zn_server *s = zn_server_at(a, i);
		const struct zn_slow_server *of = s ? zn_slowness_of(z, i, s->id) : NULL;
		struct zn_job_ref owner;

		if (!of || !of->of[signal].unusual)
			continue;
		owner = zn_slowness_job(a, s);
		if (owner.serial != job.serial || (job.serial && owner.slot != job.slot))
			continue;
		count++;
		if (weight_of(s, &of->of[signal]) <= most)
			continue;
		most = weight_of(s, &of->of[signal]);
		worst = of;
		pid = s->tgid;
	}
	if (!worst)
		return false;
	zn_slow_says(worst, signal, pid, to);
	to->more = count - 1;
	say_more(to);
	return true;
}

size_t zn_slow_findings(const struct zn_slowness *z, const struct zn_arena *a, struct zn_job_ref job,
	struct zn_finding to[ZN_LATENCY_SIGNALS])
{
	size_t count = 0;

	for (uint32_t signal = 0; z && signal < ZN_LATENCY_SIGNALS; signal++)
		count += find_worst(z, a, job, signal, &to[count]);
	return count;
}

/* ---- One request. ---- */

static const char *const engine_does[ZN_STALL_COUNT] = {
	[ZN_STALL_CPU] = "on the CPU",
	[ZN_STALL_GPU] = "waiting for the GPU",
	[ZN_STALL_DATA] = "waiting for data",
	[ZN_STALL_DIST] = "waiting for other ranks",
	[ZN_STALL_IO] = "blocked on files",
	[ZN_STALL_RUNQUEUE] = "waiting for a CPU",
	[ZN_STALL_OTHER] = "asleep",
};

/* In the request's share, of all that launching threads did. */
static void put_engine(struct zn_out *o, const struct zn_slow_request *r, const char *before)
{
	const __u64 *share = r->share + ZN_WORK_STALL;
	uint64_t all = 0;

	for (enum zn_stall c = 0; c < ZN_STALL_COUNT; c++)
		all += share[c] >> ZN_SHARE_BITS;
	for (uint32_t said = 0, done = 0; all && said < PARTS_SAID; said++) {
		enum zn_stall most = ZN_STALL_COUNT;

		for (enum zn_stall c = 0; c < ZN_STALL_COUNT; c++)
			if (!(done >> c & 1) && (most == ZN_STALL_COUNT || share[c] > share[most]))
				most = c;
		done |= 1u << most;
		if ((share[most] >> ZN_SHARE_BITS) * LEAST_SHARE < all)
			return;
		zn_out_text(o, said ? ", " : before);
		zn_out_text(o, said ? "" : "engine ");
		zn_out_text(o, engine_does[most]);
		zn_out_char(o, ' ');
		put_percent(o, (double)(share[most] >> ZN_SHARE_BITS) / (double)all);
	}
}

void zn_slow_waited(const struct zn_agg *agg, const struct zn_slow_request *r, char to[ZN_SLOW_TEXT])
{
	struct zn_out o = {.at = to, .cap = ZN_SLOW_TEXT - 1};

	if (r->unread_ns >= ZN_NS_PER_MS) {
		zn_out_text(&o, "unread ");
		put_ms(&o, (double)r->unread_ns / ZN_NS_PER_MS);
	}
	if (r->held) {
		zn_out_text(&o, o.len ? ", held by TCP " : "held by TCP ");
		zn_out_u64(&o, r->held);
		zn_out_text(&o, r->held == 1 ? " event" : " events");
	}
	if (zn_agg_measures(agg, ZN_FAM_SCHED))
		put_engine(&o, r, o.len ? ", " : "");
	to[o.len] = 0;
}
