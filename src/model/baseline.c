/* SPDX-License-Identifier: GPL-2.0 */
/*
 * baseline.c: what is usual for a process, signal by signal, and how far from it the newest step of history.c (5 s) is.
 * All arithmetic is on whole numbers, so the same values give the same scores everywhere.
 *
 * A value x becomes y = 1000 asinh(x / unit): differences of small values, ratios of large ones, as latencies and rates
 * spread by factors and shares do not. The level is the median of the last ZN_BASELINE_POINTS values, the spread 1.4826
 * times the median distance from it (of normal noise: the standard deviation), and at least the signal's floor. The
 * score is (y - level) / spread. A single outlier moves neither, and a lasting step becomes usual once it fills half of
 * the window. What came twice is a habit, see is_habit(). tests/unit/model/baseline_test.c measures false alarms and
 * delays; docs/ALERTS.md states them.
 */
#include "zernel.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BASELINE_HOLD 2    /* steps without a value over which the last score stays */
#define ONE           1000 /* of y, and of scores */
#define Y_MAX         32000
#define MAD_NORMAL    1483                           /* standard deviation over the median distance, in thousandths */
#define HABIT_STEPS   (7200000 / ZN_HISTORY_STEP_MS) /* two hours */

/* ---- One baseline. ---- */

/* Index of the first that is not below y. */
static uint32_t place_of(const struct zn_baseline *b, uint32_t count, int16_t y)
{
	uint32_t from = 0, to = count;

	while (from < to) {
		uint32_t at = (from + to) / 2;

		if (b->sorted[at] < y)
			from = at + 1;
		else
			to = at;
	}
	return from;
}

static void forget_oldest(struct zn_baseline *b)
{
	uint32_t at = place_of(b, b->count, b->past[b->next]);

	b->count--;
	memmove(b->sorted + at, b->sorted + at + 1, (b->count - at) * sizeof(*b->sorted));
}

static void keep_point(struct zn_baseline *b, int16_t y)
{
	uint32_t at;

	if (b->count == ZN_BASELINE_POINTS)
		forget_oldest(b);
	at = place_of(b, b->count, y);
	memmove(b->sorted + at + 1, b->sorted + at, (b->count - at) * sizeof(*b->sorted));
	b->sorted[at] = b->past[b->next] = y;
	b->count++;
	b->next = (uint16_t)((b->next + 1) % ZN_BASELINE_POINTS);
}

/* Median distance from the level: the half of all values that is nearest to it lies side by side, and is searched
 * for. */
static int32_t median_distance(const struct zn_baseline *b, int32_t level)
{
	uint32_t half = b->count / 2 + 1, from = 0, to = b->count - half;
	int32_t below, above;

	while (from < to) {
		uint32_t at = (from + to) / 2;

		if (level - b->sorted[at] > b->sorted[at + half] - level)
			from = at + 1;
		else
			to = at;
	}
	below = level - b->sorted[from];
	above = b->sorted[from + half - 1] - level;
	return below > above ? below : above;
}

/* An excursion is over the limit, and goes on as long as it is over half of it. */
static void follow_excursion(struct zn_baseline *b, int32_t by, int32_t spread, uint32_t step)
{
	struct zn_excursion *now = &b->now;
	int32_t size = abs(by), limit = ZN_ANOMALY_LIMIT * spread;
	bool goes_on = now->steps && (by > 0) == (now->peak > 0) && 2 * size > limit;

	if (now->steps && !goes_on) {
		now->end = step;
		b->before[b->before_next++ % ZN_EXCURSIONS] = *now;
		*now = (struct zn_excursion){0};
	}
	if (!goes_on && size <= limit)
		return;
	if (now->steps < UINT16_MAX)
		now->steps++;
	if (size > abs(now->peak))
		now->peak = by;
}

/*
 * How far excursions to the same side go that a process makes now and then, as for checkpoints: the second farthest
 * of those that ended within two hours and were not much shorter than the one under way. So an excursion that comes a
 * third time is reported once it goes a quarter farther, or lasts half as long again; and a checkpoint that hangs is
 * reported.
 */
static int32_t is_habit(const struct zn_baseline *b, int32_t by, uint32_t step)
{
	int32_t first = 0, second = 0;

	for (uint32_t i = 0; i < ZN_EXCURSIONS; i++) {
		const struct zn_excursion *e = &b->before[i];
		int32_t size = abs(e->peak);

		if (!e->steps || (e->peak > 0) != (by > 0) || step - e->end > HABIT_STEPS ||
			e->steps + e->steps / 2u + 1 < b->now.steps)
			continue;
		if (size > first) {
			second = first;
			first = size;
		} else if (size > second) {
			second = size;
		}
	}
	return second + second / 4;
}

static int32_t score_point(struct zn_baseline *b, int32_t y, int32_t floor, uint32_t step)
{
	int32_t level = b->sorted[b->count / 2], by = y - level;
	int32_t spread = median_distance(b, level) * MAD_NORMAL / ONE, usual;
	int64_t of_limit;

	if (spread < floor)
		spread = floor;
	follow_excursion(b, by, spread, step);
	usual = is_habit(b, by, step);
	of_limit = usual > ZN_ANOMALY_LIMIT * spread ? (int64_t)by * ONE * ZN_ANOMALY_LIMIT / usual
						     : (int64_t)by * ONE / spread;
	if (of_limit > ZN_SCORE_MAX)
		return ZN_SCORE_MAX;
	return of_limit < -ZN_SCORE_MAX ? -ZN_SCORE_MAX : (int32_t)of_limit;
}

int32_t zn_baseline_take(struct zn_baseline *b, double value, const struct zn_baseline_scale *scale, uint32_t step)
{
	double y = asinh(value / scale->unit) * ONE;

	if (!isfinite(y))
		return b->scored && step - b->scored_at <= BASELINE_HOLD ? b->score : ZN_SCORE_NONE;
	y = y > Y_MAX ? Y_MAX : y < -Y_MAX ? -Y_MAX : y;
	b->scored = b->count >= ZN_BASELINE_WARM;
	b->scored_at = step;
	b->score = b->scored ? score_point(b, (int32_t)lrint(y), scale->floor, step) : ZN_SCORE_NONE;
	keep_point(b, (int16_t)lrint(y));
	return b->score;
}

/* e^y, by its series for a small part of y: the C library's has a version of several KiB for each kind of CPU. */
static double power_of_e(double y)
{
	double sum = 1, term = 1;
	int halves = 0;

	for (; y > 0.5; y /= 2)
		halves++;
	for (int i = 1; i <= 12; i++) {
		term *= y / i;
		sum += term;
	}
	while (halves--)
		sum *= sum;
	return sum;
}

/* sinh(y): what asinh() was taken of. */
double zn_baseline_level(const struct zn_baseline *b, const struct zn_baseline_scale *scale)
{
	uint32_t middle = b->count / 2;
	double y = b->count ? (double)b->sorted[middle] / ONE : 0, e = power_of_e(fabs(y));

	return b->count < ZN_BASELINE_WARM ? NAN : copysign((e - 1 / e) / 2, y) * scale->unit;
}

/* ---- Signals. ---- */

enum group { GROUP_SYNC, GROUP_NCCL, GROUP_RUNQUEUE, GROUP_COUNT };
static const struct {
	enum zn_operation first, last;
} groups[] = {
	[GROUP_SYNC] = {ZN_H_SYNC_STREAM, ZN_H_SYNC_FREE},
	[GROUP_NCCL] = {ZN_H_NCCL_FIRST, ZN_H_NCCL_LAST},
	[GROUP_RUNQUEUE] = {ZN_H_RUNQUEUE, ZN_H_RUNQUEUE},
};

/* What a signal is read from, and what is of the process at hand. */
struct reading {
	struct zn_baselines *all;
	struct process *process;
	const struct zn_agg *agg;
	const struct zn_history *history;
	const struct zn_proc *proc;
	uint32_t row;
	double seconds;               /* since the last reading; 0: it is the first one, which gives no value */
	uint64_t *before;             /* of the signal at hand: a sum at the last reading */
	struct zn_stall_ratios stall; /* all not known: there is none */
	uint64_t stalled_ns;          /* over the step, of all causes */
};

/* How fast a sum grows. It may shrink. */
static double growth_of(struct reading *r, uint64_t sum)
{
	int64_t by = (int64_t)(sum - *r->before);

	*r->before = sum;
	return r->seconds > 0 ? (double)by / r->seconds : NAN;
}

static double read_point(struct reading *r, uint32_t offset)
{
	const struct zn_point *p = zn_history_last(r->history, r->row, r->proc->id);
	float v;

	if (!p || r->seconds <= 0)
		return NAN;
	memcpy(&v, (const char *)p + offset, sizeof(v));
	return v > 0 || offset == offsetof(struct zn_point, rate) ? (double)v : NAN;
}

static double read_group(struct reading *r, uint32_t group);

static double read_wait(struct reading *r, uint32_t operation)
{
	const struct zn_hist *h = zn_arena_hist(r->agg->arena, r->proc->hist[operation]);

	return h && h->calls ? growth_of(r, h->sum_ns) / 1e9 : NAN;
}

static double read_memory(struct reading *r, uint32_t arg)
{
	uint64_t used = 0, peak = 0;

	(void)arg;
	if (!zn_agg_memory_known(r->agg, r->row))
		return NAN;
	for (uint32_t i = 0; i < ZN_LEN(r->proc->gpu); i++) {
		used += r->proc->gpu[i].used_bytes;
		peak += r->proc->gpu[i].peak_bytes;
	}
	return peak ? growth_of(r, used) : NAN;
}

static double read_stall(struct reading *r, uint32_t cause)
{
	uint64_t ns = r->stall.seconds_ns[cause] - *r->before;

	*r->before = r->stall.seconds_ns[cause];
	return r->stall.known[cause] && r->stalled_ns && r->seconds > 0 ? (double)ns / (double)r->stalled_ns : NAN;
}

static double read_count(struct reading *r, uint32_t count)
{
	return r->proc->count[count] ? growth_of(r, r->proc->count[count]) : NAN;
}

static double read_switches(struct reading *r, uint32_t count)
{
	uint64_t sum = r->proc->count[count] + r->proc->count[count + 1];

	return sum ? growth_of(r, sum) : NAN;
}

/* None are usual, of a process that sends something. */
static double read_retransmits(struct reading *r, uint32_t count)
{
	return r->proc->count[ZN_C_TCP_SENT] ? growth_of(r, r->proc->count[count]) : NAN;
}

/* Units: below it a value is small, and differences of it count; floor: in thousandths, so 60 is 6 % of what is
 * large. */
static const struct signal {
	const char *name;
	double (*read)(struct reading *r, uint32_t arg); /* NaN: there is no value */
	uint32_t arg;
	struct zn_baseline_scale scale;
} signals[] = {
	{"launch_rate", read_point, offsetof(struct zn_point, rate), {1, 60}},
	{"launch_p50", read_point, offsetof(struct zn_point, p50_us), {1, 60}},
	{"launch_p99", read_point, offsetof(struct zn_point, p99_us), {1, 60}},
	{"sync_p99", read_group, GROUP_SYNC, {1000, 60}},
	{"nccl_p99", read_group, GROUP_NCCL, {1000, 60}},
	{"dataloader_wait", read_wait, ZN_H_DATALOAD, {1, 20}},
	{"gpu_memory_growth", read_memory, 0, {1 << 20, 500}},
	{"stall_data", read_stall, ZN_STALL_DATA, {1, 20}},
	{"stall_dist", read_stall, ZN_STALL_DIST, {1, 20}},
	{"syscall_rate", read_count, ZN_C_SYSCALLS, {10, 60}},
	{"context_switch_rate", read_switches, ZN_C_SWITCH_VOLUNTARY, {10, 60}},
	{"runqueue_p99", read_group, GROUP_RUNQUEUE, {10000, 60}},
	{"tcp_retransmit_rate", read_retransmits, ZN_C_TCP_RETRANSMITS, {1, 500}},
};
_Static_assert(ZN_LEN(signals) == ZN_BASELINES, "each signal has its baseline");

struct process {
	uint32_t id; /* zn_proc.id; 0: no process had this row yet */
	uint64_t before[ZN_BASELINES];
	uint64_t stalls_before, unseen_before, calls[GROUP_COUNT];
	uint32_t buckets[GROUP_COUNT][ZN_BUCKETS]; /* modulo 2^32, as in history.c */
	int32_t score[ZN_BASELINES];
	struct zn_baseline baseline[ZN_BASELINES];
} __attribute__((aligned(4096)));

struct zn_baselines {
	uint64_t steps;   /* of the history, at the last reading */
	uint64_t read_ns; /* 0: never */
	struct zn_hist now;
	struct process process[ZN_PROCS_MAX];
};

/* Sums of a group's buckets into now; how many calls there are in all. One histogram is the rule, and is only
 * copied. */
static uint64_t group_sum(struct zn_hist *now, const struct reading *r, uint32_t group)
{
	uint64_t calls = 0;
	bool any = false;

	for (enum zn_operation d = groups[group].first; d <= groups[group].last; d++) {
		const struct zn_hist *h = zn_arena_hist(r->agg->arena, r->proc->hist[d]);

		if (!h || !h->calls)
			continue;
		calls += h->calls;
		if (any) {
			zn_hist_low_add(h, now->bucket);
			now->max_ns = h->max_ns > now->max_ns ? h->max_ns : now->max_ns;
		} else {
			zn_hist_low(h, now->bucket);
			now->max_ns = h->max_ns;
		}
		any = true;
	}
	return calls;
}

/* The 99th percentile of a group's durations over the step, in ns. */
static double read_group(struct reading *r, uint32_t group)
{
	struct zn_hist *now = &r->all->now;
	uint32_t *restrict before = r->process->buckets[group];
	uint64_t calls = group_sum(now, r, group);

	if (calls == r->process->calls[group])
		return NAN;
	r->process->calls[group] = calls;
#pragma GCC unroll 8
	for (uint32_t i = 0; i < ZN_BUCKETS; i++) {
		uint32_t count = now->bucket[i];

		now->bucket[i] = count - before[i];
		before[i] = count;
	}
	calls = r->seconds > 0 ? zn_hist_quantile(now, 990) : 0; /* 0 of none, too */
	return calls ? (double)calls : NAN;
}

int zn_baselines_open(struct zn_baselines **b)
{
	void *at = mmap(NULL, sizeof(**b), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*b = at == MAP_FAILED ? NULL : at;
	return *b ? 0 : -errno;
}

void zn_baselines_close(struct zn_baselines *b)
{
	if (b)
		munmap(b, sizeof(*b));
}

static void stalls_read(struct reading *r)
{
	uint64_t all = 0;

	zn_stalls_shares(r->agg, r->row, &r->stall);
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		all += r->agg->info[r->row].stall_ns[s];
	r->stalled_ns = all - r->process->stalls_before;
	r->process->stalls_before = all;
	if (zn_counter_advance(&r->process->unseen_before, r->agg->info[r->row].unseen_ns))
		r->stalled_ns = 0; /* sums of a step of which a part was spared compare with nothing */
}

static void row_read(const struct reading *begin, uint32_t row)
{
	struct zn_baselines *b = begin->all;
	struct reading r = *begin;

	r.row = row;
	r.process = &b->process[row];
	r.proc = zn_arena_proc(r.agg->arena, row);
	if (!r.proc)
		return;
	if (r.process->id != r.proc->id) {
		if (r.process->id) /* else nobody had this row, and memory that nobody needs is not touched */
			memset(r.process, 0, sizeof(*r.process));
		r.process->id = r.proc->id;
		r.seconds = 0; /* it may have come late in the step */
	}
	stalls_read(&r);
	for (uint32_t i = 0; i < ZN_BASELINES; i++) {
		double value;

		r.before = &r.process->before[i];
		value = signals[i].read(&r, signals[i].arg);
		r.process->score[i] =
			zn_baseline_take(&r.process->baseline[i], value, &signals[i].scale, (uint32_t)b->steps);
	}
}

void zn_baselines_tick(
	struct zn_baselines *b, const struct zn_agg *a, const struct zn_history *history, uint64_t now_ns)
{
	struct reading begin = {.all = b, .agg = a, .history = history};
	uint64_t steps = zn_history_steps(history);

	if (b->read_ns && steps == b->steps)
		return;
	b->steps = steps;
	begin.seconds = b->read_ns ? (double)(now_ns - b->read_ns) / 1e9 : 0;
	for (uint32_t r = 0; r < a->row_count; r++)
		row_read(&begin, a->row[r]);
	b->read_ns = now_ns;
}

int32_t zn_baselines_score(const struct zn_baselines *b, uint32_t row, uint32_t id, uint32_t signal)
{
	if (!b || row >= ZN_PROCS_MAX || b->process[row].id != id)
		return ZN_SCORE_NONE;
	return b->process[row].score[signal];
}

const char *zn_baseline_name(uint32_t signal)
{
	return signals[signal].name;
}
