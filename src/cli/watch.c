/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch.c: `zernel watch`, the snapshot of a daemon in a terminal, fetched once a second; `zernel top`, the same with the
 * view of file I/O first.
 *
 * Limits: the first 1024 processes of an answer are shown, and as many mounts of jobs; names are cut to their column. Two
 * answers are kept, the one on show and the one that is coming in.
 */
#include "zernel.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FRAME_MAX  (1u << 20) /* some 2 KiB for each line of the largest screen take half of it */
#define SMALL_ROWS 16
#define SAMPLES    60                 /* seconds of a sparkline */
#define TRACKS     (2 * ZN_PROCS_MAX) /* so that all processes can change between two answers */
#define CELL       ZN_UNITS_CELL
#define SILENCE_NS (3 * ZN_NS_PER_S) /* after this the last answer is no longer shown as live */
#define IDLE_S     60                /* a job's GPU that nobody has used for so long stands out */

#define USAGE "usage: zernel watch|top [http://ADDRESS:PORT | unix:PATH] [--token-file FILE] [--once] [--json]"

#define KEY_CTRL_C    3
#define KEY_ESCAPE    27
#define KEY_PAGE_UP   'u'
#define KEY_PAGE_DOWN 'd'

static char answers[2][ZN_CLIENT_BUFFER];

static int at_least_one(int n)
{
	return n > 1 ? n : 1;
}

/* How many lines a list may take: one in `part` of the screen. */
static int share(const struct zn_term *t, int part)
{
	return t->rows ? at_least_one(t->rows / part) : INT_MAX;
}

static double number(struct zn_str object, const char *path)
{
	return zn_json_number(zn_client_find(object, path));
}

static uint64_t integer(struct zn_str object, const char *path)
{
	return zn_json_integer(zn_client_find(object, path));
}

static const char *text_of(struct zn_str object, const char *path, char to[CELL])
{
	return zn_client_text(object, path, to, CELL);
}

enum sort { SORT_PID, SORT_MEMORY, SORT_RATE, SORT_P99 };

struct row {
	struct zn_str process; /* in the answer on show */
	uint64_t pid;
	uint64_t memory;
	double rate;
	double p99;
	const struct track *track; /* NULL: none was free */
};

/* The files of a job on a mount. */
struct flow {
	struct zn_str flow; /* in the answer on show */
	double bytes;       /* per second */
	double ops;
};

/* Launches of one process; NAN where there was no answer. */
struct track {
	uint64_t pid;
	uint64_t launches;
	uint32_t seen; /* number of the last answer that had the process */
	float rate[SAMPLES];
	float p99[SAMPLES];
};

struct watch {
	struct zn_client client;
	struct zn_term term;
	bool once;
	bool json;
	bool quit;
	bool dirty;
	int status;

	uint64_t next_ns;      /* of the next fetch */
	uint64_t answer_ns;    /* of the last answer */
	uint64_t fresh_ns;     /* of the last answer with new data */
	bool failed;           /* the last fetch */
	uint32_t answer_count; /* from 1: those with new data */
	struct zn_str snapshot;
	uint64_t data_ms; /* the daemon's time of the data */
	uint32_t head;    /* newest column of all tracks */

	struct row rows[ZN_PROCS_MAX];
	int row_count;
	int rows_left_out;
	struct flow flows[ZN_FLOWS_MAX]; /* the busiest first */
	int flow_count;
	enum sort sort;
	uint32_t view; /* of the table `views` */
	int top;       /* first line of the view that is shown */
	int fits;      /* lines that found room */
	int lines;     /* that the view has */
	int line;      /* while they are put */
	bool help;

	int signals;
	int escape; /* state of the parser of keys */
	char parameter;
	struct track tracks[TRACKS];
};

/* The track of a process: that of the last answer, or a free one, all NAN. */
static struct track *find_track(struct watch *w, uint64_t pid, uint64_t launches)
{
	struct track *empty = NULL;

	for (size_t i = 0; i < TRACKS; i++) {
		struct track *t = &w->tracks[i];

		if (w->answer_count - t->seen > 1 || t->seen == 0)
			empty = empty ? empty : t;
		else if (t->pid == pid && t->seen != w->answer_count && t->launches <= launches)
			return t;
	}
	for (int i = 0; empty && i < SAMPLES; i++)
		empty->rate[i] = empty->p99[i] = NAN;
	return empty;
}

/* Notes a rate. It is a mean over the daemon's interval, so it stands for as many seconds, but for none before. */
static void add_sample(struct watch *w, struct row *row, uint32_t elapsed_s)
{
	uint64_t launches = integer(row->process, "launch.count");
	uint64_t valid_s = (integer(w->snapshot, "interval_ms") + 500) / 1000;
	struct track *t = find_track(w, row->pid, launches);
	float rate = row->rate < 1e30 ? (float)row->rate : 1e30f, p99 = NAN;

	row->track = t;
	if (!t)
		return;
	if (zn_client_known(row->process, "launch.recent"))
		p99 = row->p99 < 1e30 ? (float)row->p99 : 1e30f;
	for (uint32_t age = 0; age < elapsed_s; age++) {
		bool valid = age == 0 || age < valid_s;

		t->rate[(w->head + SAMPLES - age) % SAMPLES] = valid ? rate : NAN;
		t->p99[(w->head + SAMPLES - age) % SAMPLES] = valid ? p99 : NAN;
	}
	t->pid = row->pid;
	t->launches = launches;
	t->seen = w->answer_count;
}

static uint64_t sum_members(struct zn_str array, const char *key)
{
	struct zn_str name, value;
	uint64_t sum = 0;
	size_t at = 0;

	while (zn_json_next(array, &at, &name, &value))
		if (__builtin_add_overflow(sum, integer(value, key), &sum))
			return UINT64_MAX;
	return sum;
}

/* Of the last seconds where the daemon knows that, else since the process began. */
static double launch_us(struct zn_str process, const char *recent, const char *all)
{
	return number(process, zn_client_known(process, "launch.recent") ? recent : all);
}

/* elapsed_s: since the data shown before. */
static void load_rows(struct watch *w, uint32_t elapsed_s)
{
	struct zn_str processes = zn_json_member(w->snapshot, "processes"), key, process;
	size_t at = 0;

	w->row_count = w->rows_left_out = 0;
	while (zn_json_next(processes, &at, &key, &process)) {
		struct row *row = &w->rows[w->row_count];

		if (w->row_count == ZN_PROCS_MAX) {
			w->rows_left_out++;
			continue;
		}
		w->row_count++;
		*row = (struct row){.process = process, .pid = integer(process, "pid")};
		row->memory = sum_members(zn_json_member(process, "gpus"), "used_bytes");
		row->rate = number(process, "launch.rate");
		row->p99 = launch_us(process, "launch.recent.p99_us", "launch.p99_us");
		add_sample(w, row, elapsed_s);
	}
}

static double sum_numbers(struct zn_str array, const char *key)
{
	struct zn_str name, value;
	double sum = 0;
	size_t at = 0;

	while (zn_json_next(array, &at, &name, &value))
		sum += number(value, key);
	return sum;
}

static bool is_busier(const struct flow *a, const struct flow *b)
{
	return a->bytes != b->bytes ? a->bytes > b->bytes : a->ops > b->ops;
}

static void load_flows(struct watch *w)
{
	struct zn_str list = zn_json_member(w->snapshot, "io"), key, item;
	size_t at = 0;

	w->flow_count = 0;
	while (w->flow_count < ZN_FLOWS_MAX && zn_json_next(list, &at, &key, &item)) {
		struct flow flow = {.flow = item};
		int to = w->flow_count++;

		flow.bytes = number(item, "read_bytes_per_s") + number(item, "write_bytes_per_s");
		flow.ops = sum_numbers(zn_json_member(item, "ops"), "rate");
		for (; to > 0 && is_busier(&flow, &w->flows[to - 1]); to--)
			w->flows[to] = w->flows[to - 1];
		w->flows[to] = flow;
	}
}

static int compare(enum sort sort, const struct row *a, const struct row *b)
{
	if (sort == SORT_MEMORY && a->memory != b->memory)
		return a->memory > b->memory ? -1 : 1;
	if (sort == SORT_RATE && a->rate != b->rate)
		return a->rate > b->rate ? -1 : 1;
	if (sort == SORT_P99 && a->p99 != b->p99)
		return a->p99 > b->p99 ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* By insertion: the order changes little from one answer to the next, and qsort() may allocate. */
static void sort_rows(struct watch *w)
{
	for (int i = 1; i < w->row_count; i++) {
		struct row row = w->rows[i];
		int at = i;

		for (; at > 0 && compare(w->sort, &row, &w->rows[at - 1]) < 0; at--)
			w->rows[at] = w->rows[at - 1];
		w->rows[at] = row;
	}
}

static uint32_t elapsed_since(uint64_t before_ms, uint64_t now_ms)
{
	uint64_t s = now_ms > before_ms ? (now_ms - before_ms + 500) / 1000 : 1;

	return s < 1 ? 1 : s > SAMPLES ? SAMPLES : (uint32_t)s;
}

/* Takes the answer over and gives the client the other buffer, unless the answer holds nothing new. */
static void take_answer(struct watch *w, uint64_t now_ns)
{
	struct zn_client *c = &w->client;
	uint64_t ms = integer(c->answer, "last_update_ms");
	uint32_t elapsed_s = elapsed_since(w->data_ms, ms);

	w->answer_ns = now_ns;
	if (w->answer_count && zn_str_equal(c->answer, w->snapshot))
		return;
	c->buffer = answers[c->buffer == answers[0]];
	w->snapshot = c->answer;
	w->data_ms = ms;
	w->fresh_ns = now_ns;
	w->answer_count++;
	w->head = (w->head + elapsed_s) % SAMPLES;
	load_rows(w, elapsed_s);
	load_flows(w);
	sort_rows(w);
}

static bool is_simulated(const struct watch *w)
{
	char source[CELL];

	return !strcmp(text_of(w->snapshot, "source", source), "simulated");
}

static void put_header(struct watch *w)
{
	char node[CELL], source[CELL], version[CELL], up[CELL] = "-", at[CELL];
	struct zn_str s = w->snapshot;

	if (zn_client_known(s, "uptime_s"))
		zn_units_span(up, integer(s, "uptime_s"));
	zn_term_style(&w->term, ZN_STYLE_BOLD);
	zn_term_put(&w->term, text_of(s, "node", node));
	zn_term_style(&w->term, ZN_STYLE_PLAIN);
	zn_term_putf(&w->term, "  %s  zerneld %s  up %s  data of %s", text_of(s, "source", source),
		text_of(s, "version", version), up, zn_units_clock(at, w->data_ms));
	zn_term_end(&w->term);
}

/* Says since when there is nothing new; false while the data is live. */
static bool is_stale(const struct watch *w, char to[256])
{
	uint64_t limit_ns = SILENCE_NS, interval_ms = integer(w->snapshot, "interval_ms");
	char span[CELL], at[CELL];
	uint64_t now_ns = zn_now_ns();
	bool silent = w->failed || now_ns - w->answer_ns > limit_ns;
	uint64_t since_ns = silent ? w->answer_ns : w->fresh_ns;

	if (interval_ms > 1000 && interval_ms < 3600000)
		limit_ns = 3 * interval_ms * ZN_NS_PER_MS;
	if (!silent && now_ns - w->fresh_ns <= limit_ns)
		return false;
	zn_units_span(span, (now_ns - since_ns + ZN_NS_PER_S - 1) / ZN_NS_PER_S);
	snprintf(to, 256, "%s since %s; last data from %s%s%s",
		silent ? "no answer" : "the daemon answers, but nothing new", span, zn_units_clock(at, w->data_ms),
		w->failed ? ": " : "", w->failed ? w->client.why : "");
	return true;
}

static void put_alert(struct zn_term *t, struct zn_str alert, const char *state)
{
	char name[CELL], severity[CELL], gpu[CELL], value[CELL], limit[CELL], since[CELL], summary[512];
	bool firing = *state == 'f';

	zn_term_style(t, firing ? ZN_STYLE_BAD : *state == 'p' ? ZN_STYLE_WARN : ZN_STYLE_PLAIN);
	zn_term_putf(t, "%s %s %s", firing ? "FIRING " : state, text_of(alert, "severity", severity),
		text_of(alert, "alert", name));
	if (zn_client_known(alert, "gpu_id"))
		zn_term_putf(t, " gpu %s", text_of(alert, "gpu_id", gpu));
	zn_term_putf(t, " since %s: %s (value %s, threshold %s)", zn_units_clock(since, integer(alert, "since_ms")),
		zn_client_text(alert, "summary", summary, sizeof(summary)), text_of(alert, "value", value),
		text_of(alert, "threshold", limit));
	zn_term_end(t);
}

/* Alerts in one state; the number that found no room. */
static int put_alerts_in(struct zn_term *t, struct zn_str alerts, const char *state, int *room)
{
	struct zn_str key, alert;
	char text[CELL];
	int hidden = 0;
	size_t at = 0;

	while (zn_json_next(alerts, &at, &key, &alert)) {
		if (strcmp(text_of(alert, "state", text), state))
			continue;
		if (*room > 0)
			put_alert(t, alert, state);
		else
			hidden++;
		*room -= *room > 0;
	}
	return hidden;
}

static void put_alerts(struct watch *w)
{
	struct zn_str alerts = zn_client_find(w->snapshot, "alerts");
	int room = share(&w->term, 8), hidden;

	hidden = put_alerts_in(&w->term, alerts, "firing", &room);
	hidden += put_alerts_in(&w->term, alerts, "pending", &room);
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_WARN, "and %d more alerts", hidden);
}

static uint64_t seconds(struct zn_str object, const char *path)
{
	return (uint64_t)fmin(fmax(number(object, path), 0), 1e12);
}

/* A GPU that a running job keeps from others and does not use. */
static bool is_idle(struct zn_str job, struct zn_str gpu)
{
	char state[CELL];

	return !strcmp(text_of(job, "state", state), "running") && seconds(gpu, "quiet_s") >= IDLE_S;
}

/* "3 for 12 min" or "3 since it began"; the length. */
static size_t idle_text(struct zn_str gpu, char *to, size_t cap)
{
	char id[CELL], span[CELL];
	int len;

	text_of(gpu, "gpu_id", id);
	if (number(gpu, "busy_s") > 0)
		len = snprintf(to, cap, "%s for %s", id, zn_units_span(span, seconds(gpu, "quiet_s")));
	else
		len = snprintf(to, cap, "%s since it began", id);
	return (size_t)len < cap ? (size_t)len : cap - 1;
}

/* False: none is. */
static bool idle_gpus(struct zn_str job, char *to, size_t cap)
{
	struct zn_str gpus = zn_client_find(job, "gpus"), key, gpu;
	size_t at = 0, len = 0;

	while (zn_json_next(gpus, &at, &key, &gpu)) {
		if (!is_idle(job, gpu))
			continue;
		if (len && len + sizeof(", ") <= cap)
			len += (size_t)snprintf(to + len, cap - len, ", ");
		len += idle_text(gpu, to + len, cap - len);
	}
	return len > 0;
}

static void put_idle(struct watch *w)
{
	struct zn_str jobs = zn_client_find(w->snapshot, "jobs"), key, job;
	int room = share(&w->term, 8), hidden = 0;
	char id[CELL], user[CELL], idle[512];
	size_t at = 0;

	while (zn_json_next(jobs, &at, &key, &job)) {
		if (!idle_gpus(job, idle, sizeof(idle)))
			continue;
		if (room-- > 0)
			zn_term_line(&w->term, ZN_STYLE_BAD, "IDLE    job %s of %s has GPUs that it does not use: %s",
				text_of(job, "job_id", id), text_of(job, "user", user), idle);
		else
			hidden++;
	}
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_BAD, "and %d more jobs with idle GPUs", hidden);
}

static int bar_cells(uint64_t part, uint64_t total, int width)
{
	return part >= total ? width : (int)((double)part / (double)total * width + 0.5);
}

/* Filled up to what is used, with a mark where the peak was. total is not 0. */
static void put_bar(struct zn_term *t, int width, struct zn_str gpu, uint64_t total)
{
	uint64_t used = integer(gpu, "used_bytes");
	int full = bar_cells(used, total, width), peak = bar_cells(integer(gpu, "peak_bytes"), total, width);
	double percent = 100 * (double)used / (double)total;

	zn_term_style(t, percent >= 95 ? ZN_STYLE_BAD : percent >= 80 ? ZN_STYLE_WARN : ZN_STYLE_GOOD);
	for (int i = 0; i < width; i++)
		zn_term_put(t, i < full ? "█" : i == peak - 1 ? "│" : "░");
	zn_term_style(t, ZN_STYLE_PLAIN);
	zn_term_putf(t, " %3.0f%%  ", percent < 999 ? percent : 999);
}

static const char *memory_text(struct zn_str object, const char *path, char to[CELL])
{
	if (!zn_client_known(object, path))
		return "-";
	return zn_units_bytes(to, integer(object, path));
}

static bool is_false(struct zn_str object, const char *key)
{
	return zn_str_equal(zn_json_member(object, key), (struct zn_str){"false", 5});
}

static void put_gpu(struct zn_term *t, struct zn_str gpu)
{
	char id[CELL], used[CELL], peak[CELL], total[CELL], users[CELL];
	int width = t->cols > 94 ? 40 : t->cols - 54;
	uint64_t size = integer(gpu, "total_bytes");

	zn_term_put(t, "GPU ");
	zn_term_cell(t, text_of(gpu, "gpu_id", id), zn_term_columns(id) > 2 ? 12 : 2);
	zn_term_put(t, " ");
	if (size && zn_client_known(gpu, "used_bytes"))
		put_bar(t, width < 6 ? 6 : width, gpu, size);
	if (is_false(gpu, "memory_complete")) {
		zn_term_putf(t, "not known, of %s: a process used it before the daemon came",
			size ? zn_units_bytes(total, size) : "unknown size");
		zn_term_end(t);
		return;
	}
	text_of(gpu, "processes", users);
	zn_term_putf(t, "%s of %s  peak %s  %s process%s", memory_text(gpu, "used_bytes", used),
		size ? zn_units_bytes(total, size) : "unknown size", memory_text(gpu, "peak_bytes", peak), users,
		strcmp(users, "1") ? "es" : "");
	zn_term_end(t);
}

static void put_gpus(struct watch *w)
{
	struct zn_str gpus = zn_client_find(w->snapshot, "gpus"), key, gpu;
	int room = share(&w->term, 3), count = 0;
	size_t at = 0;

	for (; zn_json_next(gpus, &at, &key, &gpu); count++)
		if (count < room)
			put_gpu(&w->term, gpu);
	if (count == 0)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "GPU -  no GPU memory seen yet");
	else if (count > room)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "and %d more GPUs", count - room);
}

/* The figures of the whole node: as many on a line as fit. */
static void put_node(struct watch *w)
{
	static const struct {
		const char *label;
		const char *path;
		int us;
	} figures[] = {
		{"launch p50", "cuda_latency_p50_us", 1},
		{"p99", "cuda_latency_p99_us", 1},
		{"all-reduce p50", "nccl_allreduce_p50_ms", 1000},
		{"p99", "nccl_allreduce_p99_ms", 1000},
		{"data loader p50", "dataloader_wait_p50_ms", 1000},
	};
	struct zn_term *t = &w->term;
	char text[2 * CELL], value[CELL];

	for (size_t i = 0; i < ZN_LEN(figures); i++) {
		int len = snprintf(text, sizeof(text), "%s %s", figures[i].label,
			zn_units_duration(value, figures[i].us * number(w->snapshot, figures[i].path)));

		if (t->col > 0 && t->col + 2 + len > t->cols)
			zn_term_end(t);
		zn_term_putf(t, "%s%s", t->col > 0 ? "  " : "", text);
	}
	if (zn_client_known(w->snapshot, "gpu_ioctl.contention"))
		zn_term_putf(t, "  GPU driver contended %.0f%%", 100 * number(w->snapshot, "gpu_ioctl.contention"));
	zn_term_end(t);
}

static void put_probes(struct watch *w)
{
	struct zn_str probes = zn_client_find(w->snapshot, "probes"), key, probe;
	char family[CELL], state[CELL], why[512];
	int room = share(&w->term, 8), hidden = 0;
	size_t at = 0;

	while (zn_json_next(probes, &at, &key, &probe)) {
		text_of(probe, "state", state);
		if (!strcmp(state, "attached") || !strcmp(state, "simulated"))
			continue;
		if (room-- > 0)
			zn_term_line(&w->term, *state == 'u' ? ZN_STYLE_WARN : ZN_STYLE_FAINT,
				"not attached: %s (%s): %s", text_of(probe, "family", family), state,
				zn_client_text(probe, "why", why, sizeof(why)));
		else
			hidden++;
	}
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_FAINT, "and %d more that are not attached", hidden);
}

static void put_losses(struct watch *w)
{
	struct zn_str lost = zn_client_find(w->snapshot, "lost"), key, value;
	char name[CELL], count[CELL];
	bool any = false;
	size_t at = 0;

	while (zn_json_next(lost, &at, &key, &value)) {
		if (!(zn_json_number(value) > 0))
			continue;
		zn_term_style(&w->term, ZN_STYLE_WARN);
		snprintf(name, sizeof(name), "%.*s", key.len < CELL ? (int)key.len : CELL - 1, key.at ? key.at : "");
		zn_term_putf(&w->term, "%s%s %s", any ? ", " : "lost: ", name, text_of(value, "", count));
		any = true;
	}
	if (any)
		zn_term_end(&w->term);
}

/* ---- views: what the lower part of the screen can show ---- */

struct column {
	const char *title;
	int width; /* the least; below 0: set against the right side */
	void (*text)(struct zn_str object, const struct column *c, char to[CELL]); /* NULL: a sparkline */
	const char *path;
	const char *
		count; /* what must be above 0 for the value to be one; of a sparkline, what must be known; of a sum, its member */
	int us; /* microseconds in one unit of the value */
	enum { OF_ITEM, OF_PROCESS } of;
	enum { ALWAYS, IF_KNOWN /* by some process */, IF_ROOM } when;
};

#define COLUMNS_MAX 16

/* Under a process's figures; on a narrow terminal the sentence has a line of its own. */
#define BAR_INDENT 8
#define BAR_WIDTH  36
#define BAR_COLS   120

struct view {
	int key;
	const char *name;
	const char *none; /* what it says when it is empty */
	void (*items)(struct watch *w, const struct view *v, const int *widths);
	bool sorted; /* by process */
	bool legend; /* of the bars */
	const struct column *columns;
	const struct growth {
		int column; /* below 0: the end */
		int most;
	} * growth; /* of columns, in this order, while there is room */
	int count;  /* of columns */
};

/* Counts one more line: whether it is one that is shown. */
static bool shows(struct watch *w)
{
	int line = w->line++;

	return line >= w->top && line < w->top + w->fits;
}

static void text_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	text_of(object, c->path, to);
}

static void count_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (zn_client_known(object, c->path) && (!c->count || number(object, c->count) > 0))
		zn_units_count(to, number(object, c->path));
}

static void duration_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (number(object, c->count) > 0 && zn_client_known(object, c->path))
		zn_units_duration(to, c->us * number(object, c->path));
}

/* Over all that an object or a list holds. */
static void sum_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (zn_client_known(object, c->path))
		zn_units_count(to, sum_numbers(zn_client_find(object, c->path), c->count));
}

static void launch_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	bool p50 = !strcmp(c->path, "p50");

	if (number(object, c->count) > 0)
		zn_units_duration(to,
			p50 ? launch_us(object, "launch.recent.p50_us", "launch.p50_us")
			    : launch_us(object, "launch.recent.p99_us", "launch.p99_us"));
}

static void bytes_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (zn_client_known(object, c->path))
		zn_units_bytes(to, integer(object, c->path));
}

static void share_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	double v = 100 * number(object, c->path);

	if (zn_client_known(object, c->path))
		snprintf(to, CELL, "%.0f%%", v < 0 ? 0 : v < 999 ? v : 999);
}

/* Of a list of GPUs. Where one of them is not known, neither is the sum. */
static void known_sum(struct zn_str gpus, const char *key, char to[CELL])
{
	struct zn_str name, gpu;
	bool known = gpus.len > 0 && !zn_str_equal(gpus, (struct zn_str){"null", 4});

	for (size_t at = 0; known && zn_json_next(gpus, &at, &name, &gpu);)
		known = !zn_str_equal(zn_json_member(gpu, key), (struct zn_str){"null", 4});
	if (known)
		zn_units_bytes(to, sum_members(gpus, key));
}

static void memory_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (!is_false(object, "memory_complete"))
		known_sum(zn_client_find(object, c->path), "used_bytes", to);
}

/* Names with commas between them; numbers that follow one another become a range, so that eight GPUs find room. */
struct names {
	char *to;
	size_t len; /* CELL and more: it is full */
	uint32_t first, last;
	bool range; /* first to last are not written yet */
};

__attribute__((format(printf, 2, 3))) static void names_put(struct names *n, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (n->len < CELL)
		n->len += (size_t)vsnprintf(n->to + n->len, CELL - n->len, format, args);
	va_end(args);
}

static void names_end(struct names *n)
{
	if (!n->range)
		return;
	names_put(n, "%s%u", n->len ? "," : "", n->first);
	if (n->last > n->first)
		names_put(n, "%c%u", n->last > n->first + 1 ? '-' : ',', n->last);
	n->range = false;
}

static void names_add(struct names *n, const char *name)
{
	bool plain = strlen(name) < 6 && strspn(name, "0123456789") == strlen(name) && (*name != '0' || !name[1]);
	uint32_t number = plain ? (uint32_t)strtoul(name, NULL, 10) : 0;

	if (plain && n->range && number == n->last + 1) {
		n->last = number;
		return;
	}
	names_end(n);
	if (plain)
		n->first = n->last = number;
	else
		names_put(n, "%s%s", n->len ? "," : "", name);
	n->range = plain;
}

static void gpu_names(struct zn_str object, const struct column *c, bool idle, char to[CELL])
{
	struct zn_str gpus = zn_client_find(object, c->path), key, gpu;
	struct names names = {.to = to};
	char id[CELL];
	size_t at = 0;

	while (names.len < CELL && zn_json_next(gpus, &at, &key, &gpu))
		if (!idle || is_idle(object, gpu))
			names_add(&names, text_of(gpu, "gpu_id", id));
	names_end(&names);
}

static void gpus_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	gpu_names(object, c, false, to);
}

static void idle_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	gpu_names(object, c, true, to);
}

/* The share of their time in which its GPUs were used. */
static void busy_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	struct zn_str gpus = zn_client_find(object, c->path);
	double busy = sum_numbers(gpus, "busy_s"), all = busy + sum_numbers(gpus, "idle_s");

	if (all > 0 && busy >= 0 && busy <= all)
		snprintf(to, CELL, "%.0f%%", 100 * busy / all);
}

static void peak_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	known_sum(zn_client_find(object, c->path), "peak_bytes", to);
}

/* As Slurm shows it, but for the seconds of a job that has run for days. */
static void elapsed_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	unsigned long s = seconds(object, c->path), day = 86400;

	if (!zn_client_known(object, c->path))
		return;
	if (s < day)
		snprintf(to, CELL, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(to, CELL, "%lu-%02lu:%02lu", s / day, s / 3600 % 24, s / 60 % 60);
}

/* The largest p99 among the operations. Making a communicator is none: it takes seconds, once. */
static void nccl_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	struct zn_str ops = zn_client_find(object, c->path), key, op;
	double most = 0;
	size_t at = 0;

	while (zn_json_next(ops, &at, &key, &op)) {
		double v = number(op, "calls") > 0 ? number(op, "p99_ms") : 0;

		if (strcmp(text_of(op, "op", to), "comm_init") && v > most)
			most = v;
	}
	zn_units_duration(to, c->us * most);
}

/* Rank and size of the first communicator. */
static void rank_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	struct zn_str comms = zn_client_find(object, c->path), key, comm;
	char rank[CELL / 2], size[CELL / 2];
	size_t at = 0;

	if (zn_json_next(comms, &at, &key, &comm))
		snprintf(to, CELL, "%s/%s", zn_client_text(comm, "rank", rank, sizeof(rank)),
			zn_client_text(comm, "nranks", size, sizeof(size)));
}

enum { COL_PID, COL_COMM, COL_JOB, COL_GPUS, COL_RATES = 11, COL_P99S };

static const struct column process_columns[] = {
	[COL_PID] = {"PID", -7, text_cell, "pid"},
	[COL_COMM] = {"COMMAND", 8, text_cell, "comm"},
	[COL_JOB] = {"JOB", 6, text_cell, "job_id", .when = IF_KNOWN},
	[COL_GPUS] = {"GPU", 3, gpus_cell, "gpus"},
	{"MEM", -5, memory_cell, "gpus"},
	{"LNCH/s", -6, count_cell, "launch.rate", "launch.count"},
	{"p50", -6, launch_cell, "p50", "launch.count"},
	{"p99", -6, launch_cell, "p99", "launch.count"},
	{"NCCL", -5, count_cell, "nccl.calls"},
	{"NCCL99", -6, nccl_cell, "nccl.ops", .us = 1000},
	{"SYNC99", -6, duration_cell, "sync.p99_us", "sync.count", 1},
	[COL_RATES] = {"LNCH/s, last 60 s", 0, NULL},
	[COL_P99S] = {"p99, last 60 s", 0, NULL, .count = "launch.recent"},
};
static const struct growth process_growth[] = {{COL_RATES, 8}, {COL_COMM, 15}, {COL_JOB, 12}, {COL_GPUS, 8},
	{COL_RATES, 20}, {COL_P99S, 20}, {COL_RATES, SAMPLES}, {COL_P99S, SAMPLES}, {-1, 0}};

static const struct column nccl_columns[] = {
	[COL_PID] = {"PID", -7, text_cell, "pid", .of = OF_PROCESS},
	[COL_COMM] = {"COMMAND", 8, text_cell, "comm", .of = OF_PROCESS},
	{"RANK", -5, rank_cell, "nccl.comms", .of = OF_PROCESS},
	{"OPERATION", 14, text_cell, "op"},
	{"CALLS", -6, count_cell, "calls"},
	{"BYTES", -6, bytes_cell, "bytes"},
	{"ERRORS", -6, count_cell, "errors"},
	{"p50", -6, duration_cell, "p50_ms", "calls", 1000},
	{"p99", -6, duration_cell, "p99_ms", "calls", 1000},
};

#define STALL(title, path)                                                                                             \
	{                                                                                                              \
		title, -4, share_cell, "stalls." path, .when = IF_KNOWN                                                \
	}
static const struct column wait_columns[] = {
	[COL_PID] = {"PID", -7, text_cell, "pid"},
	[COL_COMM] = {"COMMAND", 8, text_cell, "comm"},
	{"LOAD50", -6, duration_cell, "dataloader.p50_ms", "dataloader.count", 1000},
	{"LOAD99", -6, duration_cell, "dataloader.p99_ms", "dataloader.count", 1000},
	{"SYNC50", -6, duration_cell, "sync.p50_us", "sync.count", 1},
	{"SYNC99", -6, duration_cell, "sync.p99_us", "sync.count", 1},
	STALL("cpu", "cpu"),
	STALL("gpu", "gpu"),
	STALL("data", "data"),
	STALL("dist", "dist"),
	STALL("io", "io"),
	STALL("runq", "runqueue"),
	STALL("othr", "other"),
	{"LOADS", -6, count_cell, "dataloader.count", .when = IF_ROOM},
	{"SYNCS", -6, count_cell, "sync.count", .when = IF_ROOM},
	{"SYNCSUM", -7, duration_cell, "sync.sum_ms", "sync.count", 1000, .when = IF_ROOM},
};
static const struct growth name_growth[] = {{COL_COMM, 15}, {-1, 0}};

enum { JOB_ID, JOB_USER = 2, JOB_NAME, JOB_GPUS = 5, JOB_IDLE };
static const struct column job_columns[] = {
	[JOB_ID] = {"JOB", 7, text_cell, "job_id"},
	{"STATE", 7, text_cell, "state"},
	[JOB_USER] = {"USER", 8, text_cell, "user"},
	[JOB_NAME] = {"NAME", 8, text_cell, "name"},
	{"TIME", -8, elapsed_cell, "elapsed_s"},
	[JOB_GPUS] = {"GPU", 7, gpus_cell, "gpus"},
	[JOB_IDLE] = {"IDLE", 7, idle_cell, "gpus"},
	{"BUSY", -4, busy_cell, "gpus"},
	{"PROC", -4, text_cell, "processes"},
	{"LNCHS", -5, count_cell, "launches"},
	{"PEAK", -5, peak_cell, "gpus", .when = IF_ROOM},
	{"NCCL", -5, bytes_cell, "nccl_bytes", .when = IF_ROOM},
	{"PARTITION", 9, text_cell, "partition", .when = IF_ROOM},
	{"ACCOUNT", 8, text_cell, "account", .when = IF_ROOM},
	{"NODES", -5, text_cell, "nodes", .when = IF_ROOM},
};
static const struct growth job_growth[] = {
	{JOB_ID, 14}, {JOB_USER, 14}, {JOB_NAME, 24}, {JOB_GPUS, 15}, {JOB_IDLE, 15}, {-1, 0}};
_Static_assert(ZN_LEN(process_columns) <= COLUMNS_MAX && ZN_LEN(wait_columns) <= COLUMNS_MAX &&
		ZN_LEN(job_columns) <= COLUMNS_MAX,
	"columns");

/* Whether some process has what a column shows. */
static bool any_knows(const struct watch *w, const char *path)
{
	char text[CELL];

	for (int i = 0; i < w->row_count; i++) {
		struct zn_str value = zn_client_find(w->rows[i].process, path);

		if (value.len && (*value.at == '{' || strcmp(text_of(value, "", text), "-")))
			return true;
	}
	return false;
}

static bool has_column(const struct watch *w, const struct column *c)
{
	if (!c->text) /* what moves is of no use on paper */
		return w->term.screen && (!c->count || any_knows(w, c->count));
	return c->when != IF_KNOWN || any_knows(w, c->path);
}

/* Widths of the columns, 0 for one that is left out: the least, and then what is left over, in the order of growth. */
static void fit_columns(const struct watch *w, const struct view *v, int widths[COLUMNS_MAX])
{
	bool has[COLUMNS_MAX];
	int left = w->term.cols;

	for (int i = 0; i < v->count; i++) {
		int width = v->columns[i].width;

		has[i] = has_column(w, &v->columns[i]) && (v->columns[i].when != IF_ROOM || abs(width) < left);
		widths[i] = has[i] ? width : 0;
		left -= widths[i] ? abs(widths[i]) + 1 : 0;
	}
	for (const struct growth *g = v->growth; g && g->column >= 0; g++) {
		int *width = &widths[g->column], add = g->most - *width, gap = *width == 0 && g->column == COL_P99S;

		add = add < left - gap ? add : left - gap;
		if (add <= 0 || !has[g->column])
			continue;
		*width += add;
		left -= add + gap;
	}
}

/* The newest second is on the right; the highest of the minute is a full block; a gap is a second without data. */
static void put_spark(struct watch *w, const float *sample, int width)
{
	static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	float most = 0;

	for (int i = 0; sample && i < SAMPLES; i++)
		most = sample[i] > most ? sample[i] : most;
	for (int age = width - 1; age >= 0; age--) {
		float v = sample ? sample[(w->head + SAMPLES - (uint32_t)age) % SAMPLES] : NAN;

		zn_term_put(&w->term, isnan(v) ? " " : levels[v > 0 ? (int)(v / most * 7) : 0]);
	}
}

static void put_titles(struct watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < v->count; i++) {
		if (!widths[i])
			continue;
		zn_term_style(&w->term, ZN_STYLE_BOLD);
		zn_term_cell(&w->term, v->columns[i].title, widths[i]);
		zn_term_put(&w->term, " ");
	}
	if (v->count)
		zn_term_end(&w->term);
}

/* item: what the columns are about; row: the process that it belongs to, or NULL. */
static void put_cells(
	struct watch *w, const struct view *v, const int *widths, struct zn_str item, const struct row *row)
{
	const struct track *track = row ? row->track : NULL;
	char cell[CELL];

	for (int i = 0; i < v->count; i++) {
		const struct column *c = &v->columns[i];

		if (!widths[i])
			continue;
		snprintf(cell, sizeof(cell), "-");
		if (c->text) {
			c->text(c->of == OF_PROCESS && row ? row->process : item, c, cell);
			zn_term_cell(&w->term, cell, widths[i]);
		} else {
			put_spark(w, !track ? NULL : i == COL_P99S ? track->p99 : track->rate, widths[i]);
		}
		if (c->text || i + 1 < v->count)
			zn_term_put(&w->term, " ");
	}
	zn_term_end(&w->term);
}

static void process_items(struct watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++)
		if (shows(w))
			put_cells(w, v, widths, w->rows[i].process, &w->rows[i]);
}

/* By enum zn_stall. */
static const char letters[] = "cgdniro";
_Static_assert(sizeof(letters) == ZN_STALL_COUNT + 1, "letters");

static void put_legend(struct watch *w)
{
	zn_term_cell(&w->term, "", BAR_INDENT);
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
		zn_term_style(&w->term, ZN_STYLE_CAUSE + s);
		zn_term_putf(&w->term, "%c", letters[s]);
		zn_term_style(&w->term, ZN_STYLE_PLAIN);
		zn_term_putf(&w->term, " %s  ", zn_stall_label(s));
	}
	zn_term_end(&w->term);
}

/* A letter for each part of its time, by what that went to. */
static void put_stalls(struct zn_term *t, struct zn_str stalls, int width)
{
	double sum = 0;
	int at = 0;

	zn_term_cell(t, "", BAR_INDENT);
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
		double share = number(stalls, zn_stall_label(s));

		sum += share > 0 && share <= 1 ? share : 0;
		zn_term_style(t, ZN_STYLE_CAUSE + s);
		for (; at < width && at < (int)(sum * width + 0.5); at++)
			zn_term_putf(t, "%c", letters[s]);
	}
	zn_term_style(t, ZN_STYLE_PLAIN);
	zn_term_putf(t, "%*s", width - at, "");
}

static void stalls_item(struct watch *w, struct zn_str stalls)
{
	bool wide = w->term.cols >= BAR_COLS;
	char says[512];

	zn_client_text(stalls, "says", says, sizeof(says));
	if (shows(w)) {
		put_stalls(&w->term, stalls, wide ? BAR_WIDTH : w->term.cols - BAR_INDENT);
		if (wide)
			zn_term_putf(&w->term, "  %s", says);
		zn_term_end(&w->term);
	}
	if (!wide && shows(w))
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "%*s%s", BAR_INDENT, "", says);
}

static void wait_items(struct watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++) {
		struct zn_str process = w->rows[i].process;

		if (shows(w))
			put_cells(w, v, widths, process, &w->rows[i]);
		if (zn_client_known(process, "stalls.says"))
			stalls_item(w, zn_client_find(process, "stalls"));
	}
}

/* The signals of a process that are far from what is usual for it. */
static void put_unusual(struct zn_term *t, struct zn_str anomalies)
{
	struct zn_str key, score;
	size_t at = 0;

	zn_term_style(t, ZN_STYLE_WARN);
	zn_term_putf(t, "%*sunusual, in standard deviations:", BAR_INDENT, "");
	while (zn_json_next(anomalies, &at, &key, &score))
		zn_term_putf(t, "  %.*s %+.3g", key.len < CELL ? (int)key.len : CELL, key.at ? key.at : "",
			zn_json_number(score));
	zn_term_end(t);
}

static void signal_items(struct watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++) {
		struct zn_str anomalies = zn_client_find(w->rows[i].process, "anomalies"), key, score;
		size_t at = 0;

		if (shows(w))
			put_cells(w, v, widths, w->rows[i].process, &w->rows[i]);
		if (zn_json_next(anomalies, &at, &key, &score) && shows(w))
			put_unusual(&w->term, anomalies);
	}
}

static void nccl_items(struct watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++) {
		struct zn_str ops = zn_client_find(w->rows[i].process, "nccl.ops"), key, op;
		size_t at = 0;

		while (zn_json_next(ops, &at, &key, &op))
			if (shows(w))
				put_cells(w, v, widths, op, &w->rows[i]);
	}
}

static void flow_items(struct watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->flow_count; i++)
		if (shows(w))
			put_cells(w, v, widths, w->flows[i].flow, NULL);
}

static void job_items(struct watch *w, const struct view *v, const int *widths)
{
	struct zn_str jobs = zn_client_find(w->snapshot, "jobs"), key, job;
	char idle[CELL];
	size_t at = 0;

	while (zn_json_next(jobs, &at, &key, &job)) {
		if (!shows(w))
			continue;
		if (idle_gpus(job, idle, sizeof(idle)))
			zn_term_style(&w->term, ZN_STYLE_BAD);
		put_cells(w, v, widths, job, NULL);
	}
}

static void alert_items(struct watch *w, const struct view *v, const int *widths)
{
	struct zn_str alerts = zn_client_find(w->snapshot, "alerts"), key, alert;
	char state[CELL], value[CELL], limit[CELL], summary[512];
	size_t at = 0;

	(void)v, (void)widths;
	while (zn_json_next(alerts, &at, &key, &alert)) {
		if (shows(w))
			put_alert(&w->term, alert, text_of(alert, "state", state));
		if (shows(w))
			zn_term_line(&w->term, ZN_STYLE_PLAIN, "  value %s, threshold %s: %s",
				text_of(alert, "value", value), text_of(alert, "threshold", limit),
				zn_client_text(alert, "summary", summary, sizeof(summary)));
	}
}

static void library_item(struct watch *w, struct zn_str library)
{
	char attached[CELL], symbols[CELL], path[512], why[512] = ": ";

	if (!shows(w))
		return;
	zn_client_text(library, "why", why + 2, sizeof(why) - 2);
	zn_term_line(&w->term, ZN_STYLE_PLAIN, "  %s of %s functions of %s%s", text_of(library, "attached", attached),
		text_of(library, "symbols", symbols), zn_client_text(library, "path", path, sizeof(path)),
		strcmp(why, ": -") ? why : "");
}

static void probe_items(struct watch *w, const struct view *v, const int *widths)
{
	struct zn_str probes = zn_client_find(w->snapshot, "probes"), key, probe, inner, library;
	char family[CELL], state[CELL], why[512];
	size_t at = 0, in;

	(void)v, (void)widths;
	while (zn_json_next(probes, &at, &key, &probe)) {
		text_of(probe, "state", state);
		zn_client_text(probe, "why", why, sizeof(why));
		if (shows(w))
			zn_term_line(&w->term, *state == 'u' ? ZN_STYLE_WARN : ZN_STYLE_PLAIN, "%s: %s%s%s",
				text_of(probe, "family", family), state, strcmp(why, "-") ? ": " : "",
				strcmp(why, "-") ? why : "");
		in = 0;
		while (zn_json_next(zn_client_find(probe, "libraries"), &in, &inner, &library))
			library_item(w, library);
	}
}

/* What a loss means; empty if this program is older than the daemon. */
static const char *loss_help(const char *label)
{
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++)
		if (!strcmp(zn_loss_label(i), label))
			return zn_loss_help(i);
	return "";
}

static void loss_items(struct watch *w, const struct view *v, const int *widths)
{
	struct zn_str lost = zn_client_find(w->snapshot, "lost"), key, value;
	char name[CELL], count[CELL];
	size_t at = 0;

	(void)v, (void)widths;
	while (zn_json_next(lost, &at, &key, &value)) {
		if (!shows(w))
			continue;
		snprintf(name, sizeof(name), "%.*s", key.len < CELL ? (int)key.len : CELL - 1, key.at ? key.at : "");
		zn_term_line(&w->term, zn_json_number(value) > 0 ? ZN_STYLE_WARN : ZN_STYLE_PLAIN, "%-14s %8s  %s",
			name, text_of(value, "", count), loss_help(name));
	}
}

static const struct column signal_columns[] = {
	[COL_PID] = {"PID", -7, text_cell, "pid"},
	[COL_COMM] = {"COMMAND", 8, text_cell, "comm"},
	{"LNCH/s", -6, count_cell, "launch.rate", "launch.count"},
	{"p99", -6, launch_cell, "p99", "launch.count"},
	{"SYS/L", -6, count_cell, "signals.syscalls.per_launch"},
	{"IOCT99", -6, duration_cell, "signals.ioctl.p99_us", "signals.ioctl.count", 1},
	{"SW/L", -6, count_cell, "signals.sched.switches_per_launch"},
	{"MIG/s", -5, count_cell, "signals.sched.migration_rate"},
	{"RUNQ99", -6, duration_cell, "signals.sched.runqueue.p99_us", "signals.sched.runqueue.count", 1},
	{"SENT/s", -6, bytes_cell, "signals.tcp.sent_rate", .when = IF_KNOWN},
	{"RECV/s", -6, bytes_cell, "signals.tcp.received_rate", .when = IF_KNOWN},
	{"SYS/s", -6, count_cell, "signals.syscalls.rate", .when = IF_ROOM},
	{"CHURN", -5, share_cell, "signals.syscalls.mmap_churn", .when = IF_ROOM},
	{"RETR", -5, count_cell, "signals.tcp.retransmits", .when = IF_ROOM},
	{"SEND99", -6, duration_cell, "signals.tcp.send.p99_us", "signals.tcp.send.count", 1, .when = IF_ROOM},
};

#define LATENCY(title, op, ...)                                                                                        \
	{                                                                                                              \
		title, -6, duration_cell, "ops." op ".p99_us", "ops." op ".count", 1, __VA_ARGS__                      \
	}
enum { FLOW_JOB, FLOW_MOUNT };
static const struct column flow_columns[] = {
	[FLOW_JOB] = {"JOB", 6, text_cell, "job_id"},
	[FLOW_MOUNT] = {"MOUNT", 14, text_cell, "mount"},
	{"TYPE", 6, text_cell, "fstype", .when = IF_ROOM},
	{"READ/s", -6, bytes_cell, "read_bytes_per_s"},
	{"WRIT/s", -6, bytes_cell, "write_bytes_per_s"},
	{"OPS/s", -5, sum_cell, "ops", "rate"},
	LATENCY("READ99", "read", ),
	LATENCY("WRIT99", "write", ),
	LATENCY("SYNC99", "fsync", ),
	{"ERRS", -5, sum_cell, "ops", "errors"},
	{"READ", -6, bytes_cell, "read_bytes", .when = IF_ROOM},
	{"WRITTN", -6, bytes_cell, "write_bytes", .when = IF_ROOM},
	LATENCY("OPEN99", "open", .when = IF_ROOM),
	{"MAPPED", -6, bytes_cell, "mapped_bytes", .when = IF_ROOM},
	{"OPS", -5, sum_cell, "ops", "count", .when = IF_ROOM},
};
static const struct growth flow_growth[] = {{FLOW_MOUNT, 24}, {FLOW_JOB, 12}, {FLOW_MOUNT, CELL - 1}, {-1, 0}};
_Static_assert(ZN_LEN(signal_columns) <= COLUMNS_MAX && ZN_LEN(flow_columns) <= COLUMNS_MAX, "columns");

#define COLUMNS(of) of, .count = ZN_LEN(of)
static const struct view views[] = {
	{'t', "processes", "no process has called a hooked library yet", process_items, true, false,
		COLUMNS(process_columns), .growth = process_growth},
	{'n', "NCCL", "no process has called NCCL yet", nccl_items, true, false, COLUMNS(nccl_columns),
		.growth = name_growth},
	{'w', "waits", "no process has called a hooked library yet", wait_items, true, true, COLUMNS(wait_columns),
		.growth = name_growth},
	{'s', "signals", "no process has called a hooked library yet", signal_items, true, false,
		COLUMNS(signal_columns), .growth = name_growth},
	{'i', "I/O", "no file I/O has been counted", flow_items, false, false, COLUMNS(flow_columns),
		.growth = flow_growth},
	{'b', "jobs", "no job is known on this node", job_items, false, false, COLUMNS(job_columns),
		.growth = job_growth},
	{'a', "alerts", "no alert is pending or firing", alert_items, .sorted = false},
	{'h', "hooks", "the daemon says nothing of its hooks", probe_items, .sorted = false},
	{'x', "losses", "the daemon says nothing of losses", loss_items, .sorted = false},
};

/* The view is gone through twice: at first to count its lines, with room for none. */
static void put_view(struct watch *w)
{
	const struct view *v = &views[w->view];
	int widths[COLUMNS_MAX], last;

	fit_columns(w, v, widths);
	put_titles(w, v, widths);
	if (v->legend && any_knows(w, "stalls"))
		put_legend(w);
	w->fits = w->line = 0;
	v->items(w, v, widths);
	w->lines = w->line;
	w->fits = w->term.rows ? w->term.limit - w->term.row : w->lines;
	w->fits = w->fits > 0 ? w->fits : 0;
	last = w->lines - at_least_one(w->fits);
	w->top = w->top > last ? last : w->top;
	w->top = w->top < 0 ? 0 : w->top;
	w->line = 0;
	v->items(w, v, widths);
	if (w->lines == 0)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "%s", v->none);
	if (w->rows_left_out && !w->term.screen)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "and %d more processes", w->rows_left_out);
}

static void put_help(struct zn_term *t)
{
	static const char *const lines[] = {
		"q, Ctrl-C       quit            ?  this help, and back",
		"Tab             the next view; or at once: t processes, n NCCL by operation,",
		"                w waits, s signals, i file I/O by job and mount, b jobs,",
		"                a alerts, h hooks and what is not attached, x losses",
		"p m l 9         sort by pid, GPU memory, launches per second, p99 of the launch",
		"up down, k j    scroll; page up and page down by a screen",
		"",
		"LNCH/s          kernel launches per second, now and over the last minute",
		"p50 p99         time the host spends in a launch: half, and 99 of 100, take no",
		"                longer; of the last seconds, or where the daemon does not know",
		"                these, since the process began (as in the line above the table)",
		"NCCL, NCCL99    NCCL calls so far; the largest p99 among the operations",
		"SYNC, LOAD      the host's waits for the GPU, and for the data loader",
		"BUSY, IDLE      share of a job's time in which its GPUs were used; those that",
		"                it has not used for a minute",
		"SYS/L, SW/L     system calls and context switches per launch, over the last",
		"                tick; IOCT99: calls of the GPU's driver, RUNQ99: waits for a CPU",
		"READ99, WRIT99  p99 of calls on files since the mount was first used",
		"cpu to othr     where the launching thread's time went; the bar shows it",
		"GPU bars        filled: used now; the line: the peak",
		"-               there is no measurement",
	};

	for (size_t i = 0; i < ZN_LEN(lines); i++)
		zn_term_line(t, ZN_STYLE_PLAIN, "%s", lines[i]);
}

static void put_footer(struct watch *w, bool table)
{
	static const char *const sorts[] = {
		[SORT_PID] = "pid", [SORT_MEMORY] = "memory", [SORT_RATE] = "launch rate", [SORT_P99] = "p99"};
	struct zn_term *t = &w->term;
	const struct view *v = &views[w->view];
	int end = w->top + w->fits;

	while (t->row < t->limit)
		zn_term_end(t);
	t->limit = t->rows;
	zn_term_style(t, ZN_STYLE_FAINT);
	zn_term_putf(t, "q quit  ? help  Tab %s", v->name);
	if (table && w->lines && w->fits)
		zn_term_putf(t, " %d-%d of %d", w->top + 1, end < w->lines ? end : w->lines,
			w->lines + (w->view == 0 ? w->rows_left_out : 0));
	if (v->sorted)
		zn_term_putf(t, "  sort p m l 9: %s", sorts[w->sort]);
	zn_term_end(t);
}

static void put_details(struct watch *w)
{
	put_node(w);
	put_probes(w);
	put_losses(w);
}

/* On a small screen the view comes before the details. */
static void put_body(struct watch *w)
{
	bool small = w->term.rows && w->term.rows < SMALL_ROWS;

	if (views[w->view].items != alert_items)
		put_alerts(w);
	put_idle(w);
	put_gpus(w);
	if (!small)
		put_details(w);
	put_view(w);
	if (small)
		put_details(w);
}

static bool draw(struct watch *w)
{
	struct zn_term *t = &w->term;
	char stale[256];
	bool table;

	zn_term_measure(t);
	zn_term_begin(t);
	t->limit -= t->screen; /* the last line is the footer's */
	t->dim = is_stale(w, stale);
	table = !w->help && (!t->dim || t->color);
	put_header(w);
	if (is_simulated(w))
		zn_term_line(t, ZN_STYLE_LOUD, "*** SIMULATED: these numbers are made up, no job is behind them ***");
	if (t->dim)
		zn_term_line(t, ZN_STYLE_LOUD, "%s", stale);
	if (w->help)
		put_help(t);
	if (table)
		put_body(w);
	if (t->screen)
		put_footer(w, table);
	return zn_term_flush(t);
}

/* The answer on one line. On a terminal, control characters that JSON allows as they are become escapes. */
static bool print_json(struct zn_str s)
{
	bool terminal = isatty(STDOUT_FILENO);
	size_t from = 0;
	char escape[8];
	bool ok = true;

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i], next = i + 1 < s.len ? (unsigned char)s.at[i + 1] : 0;
		bool two = c == 0xc2 && next >= 0x80 && next < 0xa0;

		if (c != '\n' && c != '\r' && !(terminal && (two || c == 0x7f)))
			continue;
		snprintf(escape, sizeof(escape), c < ' ' ? " " : "\\u%04x", two ? next : c);
		ok = ok && zn_term_write(s.at + from, i - from) && zn_term_write(escape, strlen(escape));
		i += two;
		from = i + 1;
	}
	return ok && zn_term_write(s.at + from, s.len - from) && zn_term_write("\n", 1);
}

static int page_key(char parameter)
{
	return parameter == '5' ? KEY_PAGE_UP : parameter == '6' ? KEY_PAGE_DOWN : 0;
}

/* The key that a byte completes, 0 for none: arrows are k and j. */
static int key_of(struct watch *w, char c)
{
	int state = w->escape;

	w->escape = 0;
	if (c == KEY_ESCAPE)
		w->escape = 1;
	else if (state == 1 && (c == '[' || c == 'O'))
		w->escape = 2;
	else if (state != 2)
		return c;
	else if (c >= '@' && c <= '~')
		return c == 'A' ? 'k' : c == 'B' ? 'j' : c == '~' ? page_key(w->parameter) : 0;
	else
		w->escape = 2;
	w->parameter = c;
	return 0;
}

static void choose_view(struct watch *w, uint32_t view)
{
	w->view = view;
	w->top = 0;
	w->help = false;
}

/* The view that a key stands for, if it stands for one. */
static void choose_by_key(struct watch *w, int key)
{
	for (uint32_t i = 0; i < ZN_LEN(views); i++)
		if (key == views[i].key)
			choose_view(w, i);
}

static void choose_next(struct watch *w)
{
	choose_view(w, (w->view + 1) % ZN_LEN(views));
}

static void press(struct watch *w, int key)
{
	static const char sorts[] = {[SORT_PID] = 'p', [SORT_MEMORY] = 'm', [SORT_RATE] = 'l', [SORT_P99] = '9'};
	const char *sort = key ? memchr(sorts, key, sizeof(sorts)) : NULL;

	if (sort)
		w->sort = (enum sort)(sort - sorts);
	if (sort)
		sort_rows(w);
	choose_by_key(w, key);
	switch (key) {
	case 'q':
	case KEY_CTRL_C: w->quit = true; break;
	case '?': w->help = !w->help; break;
	case '\t': choose_next(w); break;
	case 'j': w->top++; break;
	case 'k': w->top--; break;
	case KEY_PAGE_DOWN: w->top += at_least_one(w->fits); break;
	case KEY_PAGE_UP: w->top -= at_least_one(w->fits); break;
	}
	w->dirty = true;
}

static void read_keys(struct watch *w)
{
	char bytes[64];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		w->quit = true;
	for (ssize_t i = 0; i < n; i++)
		press(w, key_of(w, bytes[i]));
}

static void read_signals(struct watch *w)
{
	struct signalfd_siginfo info;

	while (read(w->signals, &info, sizeof(info)) == sizeof(info)) {
		w->dirty = true;
		if (info.ssi_signo == SIGCONT)
			zn_term_enter(&w->term);
		else if (info.ssi_signo != SIGWINCH) {
			w->quit = true;
			w->status = 128 + (int)info.ssi_signo;
		}
	}
}

static void finish_fetch(struct watch *w, int result, uint64_t now_ns)
{
	if (result == 0)
		return;
	if (result > 0)
		take_answer(w, now_ns);
	w->failed = result < 0;
	w->dirty = true;
}

static void tick(struct watch *w, uint64_t now_ns)
{
	if (now_ns < w->next_ns)
		return;
	w->next_ns += ZN_NS_PER_S;
	if (w->next_ns <= now_ns)
		w->next_ns = now_ns + ZN_NS_PER_S;
	w->dirty = w->dirty || w->term.screen;
	if (!zn_client_busy(&w->client))
		finish_fetch(w, zn_client_start(&w->client, now_ns), now_ns);
}

/* Waits for the next thing and does what it asks for. */
static void turn(struct watch *w)
{
	struct zn_client *c = &w->client;
	bool deadline = zn_client_busy(c) && c->deadline_ns < w->next_ns;
	struct pollfd fds[] = {
		{.fd = w->term.keys ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = w->term.screen ? w->signals : -1, .events = POLLIN},
		zn_client_poll(c),
	};
	uint64_t now_ns;

	poll(fds, ZN_LEN(fds), zn_client_ms_until(deadline ? c->deadline_ns : w->next_ns));
	if (fds[0].revents)
		read_keys(w);
	if (fds[1].revents)
		read_signals(w);
	now_ns = zn_now_ns();
	finish_fetch(w, zn_client_step(c, fds[2].revents, now_ns), now_ns);
	tick(w, now_ns);
}

static void catch_signals(struct watch *w)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ZN_LEN(caught); i++)
		sigaddset(&set, caught[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int run_screen(struct watch *w)
{
	catch_signals(w);
	zn_term_open(&w->term);
	while (!w->quit) {
		if (w->dirty && !draw(w))
			break;
		w->dirty = false;
		turn(w);
	}
	zn_term_close(&w->term);
	return w->status;
}

static int run_json(struct watch *w)
{
	bool complained = false;

	for (;;) {
		if (w->dirty && !w->failed && !print_json(w->snapshot))
			return 1;
		if (w->dirty && w->failed && !complained)
			fprintf(stderr, "zernel: watch: no answer from %s: %s; trying again\n", w->client.name,
				w->client.why);
		complained = w->failed;
		w->dirty = false;
		turn(w);
	}
}

/* -1 to go on, or the exit status. */
static int parse_options(struct watch *w, int argc, char **argv)
{
	struct zn_client_args args = {.verb = argv[0], .usage = USAGE};

	for (int i = 1, used = 1; i < argc; i += used, used = 1) {
		if (!strcmp(argv[i], "--once"))
			w->once = true;
		else if (!strcmp(argv[i], "--json"))
			w->json = true;
		else if (!strcmp(argv[i], "--help"))
			return puts(USAGE) < 0;
		else if ((used = zn_client_argument(&args, argv, i)) < 0)
			return 2;
	}
	if (zn_client_open(&w->client, &args, "/json", answers[0]))
		return 2;
	if (!w->once && !w->json && (!isatty(STDOUT_FILENO) || !zn_term_able())) {
		fprintf(stderr, "zernel: %s: %s: use --once or --json\n", argv[0],
			isatty(STDOUT_FILENO) ? "TERM=dumb cannot show a screen" : "standard output is no terminal");
		return 2;
	}
	return -1;
}

int zn_watch_main(int argc, char **argv)
{
	static char frame[FRAME_MAX];
	static struct watch w;
	int status = parse_options(&w, argc, argv);

	if (status >= 0)
		return status;
	if (zn_client_get(&w.client))
		return zn_client_complain(&w.client, argv[0]);
	w.sort = SORT_MEMORY;
	if (!strcmp(argv[0], "top"))
		press(&w, 'i');
	w.term.out = (struct zn_out){.at = frame, .cap = sizeof(frame)};
	finish_fetch(&w, 1, zn_now_ns());
	w.next_ns = w.answer_ns + ZN_NS_PER_S;
	if (w.once)
		return (w.json ? print_json(w.snapshot) : draw(&w)) ? 0 : 1;
	return w.json ? run_json(&w) : run_screen(&w);
}
