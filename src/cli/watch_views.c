/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_views.c: the tables of `zernel watch`, of which the lower part of the screen shows one. Names are cut to their
 * column.
 */
#include "zernel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_ROWS 16
#define CELL       ZN_UNITS_CELL

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
	void (*items)(struct zn_watch *w, const struct view *v, const int *widths);
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
static bool shows(struct zn_watch *w)
{
	int line = w->line++;

	return line >= w->top && line < w->top + w->fits;
}

static void text_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	zn_value_text(object, c->path, to);
}

static void count_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (zn_client_known(object, c->path) && (!c->count || zn_value_number(object, c->count) > 0))
		zn_units_count(to, zn_value_number(object, c->path));
}

static void duration_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (zn_value_number(object, c->count) > 0 && zn_client_known(object, c->path))
		zn_units_duration(to, c->us * zn_value_number(object, c->path));
}

/* Over all that an object or a list holds. */
static void sum_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (zn_client_known(object, c->path))
		zn_units_count(to, zn_value_sum(zn_client_find(object, c->path), c->count));
}

static void launch_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	bool p50 = !strcmp(c->path, "p50");

	if (zn_value_number(object, c->count) > 0)
		zn_units_duration(to,
			p50 ? zn_value_launch_us(object, "launch.recent.p50_us", "launch.p50_us")
			    : zn_value_launch_us(object, "launch.recent.p99_us", "launch.p99_us"));
}

static void bytes_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (zn_client_known(object, c->path))
		zn_units_bytes(to, zn_value_integer(object, c->path));
}

static void share_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	double v = 100 * zn_value_number(object, c->path);

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
		zn_units_bytes(to, zn_value_sum_integers(gpus, key));
}

static void memory_cell(struct zn_str object, const struct column *c, char to[CELL])
{
	if (!zn_value_is_false(object, "memory_complete"))
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
		if (!idle || zn_watch_is_idle(object, gpu))
			names_add(&names, zn_value_text(gpu, "gpu_id", id));
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
	double busy = zn_value_sum(gpus, "busy_s"), all = busy + zn_value_sum(gpus, "idle_s");

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
	unsigned long s = zn_value_seconds(object, c->path), day = 86400;

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
		double v = zn_value_number(op, "calls") > 0 ? zn_value_number(op, "p99_ms") : 0;

		if (strcmp(zn_value_text(op, "op", to), "comm_init") && v > most)
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
	{COL_RATES, 20}, {COL_P99S, 20}, {COL_RATES, ZN_WATCH_SAMPLES}, {COL_P99S, ZN_WATCH_SAMPLES}, {-1, 0}};

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
static bool any_knows(const struct zn_watch *w, const char *path)
{
	char text[CELL];

	for (int i = 0; i < w->row_count; i++) {
		struct zn_str value = zn_client_find(w->rows[i].process, path);

		if (value.len && (*value.at == '{' || strcmp(zn_value_text(value, "", text), "-")))
			return true;
	}
	return false;
}

static bool has_column(const struct zn_watch *w, const struct column *c)
{
	if (!c->text) /* what moves is of no use on paper */
		return w->term.screen && (!c->count || any_knows(w, c->count));
	return c->when != IF_KNOWN || any_knows(w, c->path);
}

/* Widths of the columns, 0 for one that is left out: the least, and then what is left over, in the order of growth. */
static void fit_columns(const struct zn_watch *w, const struct view *v, int widths[COLUMNS_MAX])
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
static void put_spark(struct zn_watch *w, const float *sample, int width)
{
	static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	float most = 0;

	for (int i = 0; sample && i < ZN_WATCH_SAMPLES; i++)
		most = sample[i] > most ? sample[i] : most;
	for (int age = width - 1; age >= 0; age--) {
		float v = sample ? sample[(w->head + ZN_WATCH_SAMPLES - (uint32_t)age) % ZN_WATCH_SAMPLES] : NAN;

		zn_term_put(&w->term, isnan(v) ? " " : levels[v > 0 ? (int)(v / most * 7) : 0]);
	}
}

static void put_titles(struct zn_watch *w, const struct view *v, const int *widths)
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
	struct zn_watch *w, const struct view *v, const int *widths, struct zn_str item, const struct zn_watch_row *row)
{
	const struct zn_watch_track *track = row ? row->track : NULL;
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

static void process_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++)
		if (shows(w))
			put_cells(w, v, widths, w->rows[i].process, &w->rows[i]);
}

/* By enum zn_stall. */
static const char letters[] = "cgdniro";
_Static_assert(sizeof(letters) == ZN_STALL_COUNT + 1, "letters");

static void put_legend(struct zn_watch *w)
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
		double share = zn_value_number(stalls, zn_stall_label(s));

		sum += share > 0 && share <= 1 ? share : 0;
		zn_term_style(t, ZN_STYLE_CAUSE + s);
		for (; at < width && at < (int)(sum * width + 0.5); at++)
			zn_term_putf(t, "%c", letters[s]);
	}
	zn_term_style(t, ZN_STYLE_PLAIN);
	zn_term_putf(t, "%*s", width - at, "");
}

static void stalls_item(struct zn_watch *w, struct zn_str stalls)
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

static void wait_items(struct zn_watch *w, const struct view *v, const int *widths)
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

static void signal_items(struct zn_watch *w, const struct view *v, const int *widths)
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

static void nccl_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++) {
		struct zn_str ops = zn_client_find(w->rows[i].process, "nccl.ops"), key, op;
		size_t at = 0;

		while (zn_json_next(ops, &at, &key, &op))
			if (shows(w))
				put_cells(w, v, widths, op, &w->rows[i]);
	}
}

static void io_sum_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->io_sum_count; i++)
		if (shows(w))
			put_cells(w, v, widths, w->io_sums[i].io_sum, NULL);
}

static void job_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str jobs = zn_client_find(w->snapshot, "jobs"), key, job;
	char idle[CELL];
	size_t at = 0;

	while (zn_json_next(jobs, &at, &key, &job)) {
		if (!shows(w))
			continue;
		if (zn_watch_idle_gpus(job, idle, sizeof(idle)))
			zn_term_style(&w->term, ZN_STYLE_BAD);
		put_cells(w, v, widths, job, NULL);
	}
}

static void alert_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str alerts = zn_client_find(w->snapshot, "alerts"), key, alert;
	char state[CELL], value[CELL], limit[CELL], summary[512];
	size_t at = 0;

	(void)v, (void)widths;
	while (zn_json_next(alerts, &at, &key, &alert)) {
		if (shows(w))
			zn_panel_alert(&w->term, alert, zn_value_text(alert, "state", state));
		if (shows(w))
			zn_term_line(&w->term, ZN_STYLE_PLAIN, "  value %s, threshold %s: %s",
				zn_value_text(alert, "value", value), zn_value_text(alert, "threshold", limit),
				zn_client_text(alert, "summary", summary, sizeof(summary)));
	}
}

static void why_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str list = zn_client_find(w->snapshot, "why"), key, job, cause;
	char name[ZN_PANEL_JOB], text[512];
	size_t at = 0, in;

	(void)v, (void)widths;
	while (zn_json_next(list, &at, &key, &job)) {
		bool any = false;

		if (shows(w))
			zn_term_line(&w->term, ZN_STYLE_PLAIN, "%s", zn_panel_job(job, name));
		for (in = 0; zn_json_next(zn_client_find(job, "causes"), &in, &key, &cause); any = true) {
			if (shows(w))
				zn_term_line(&w->term, ZN_STYLE_WARN, "  %s",
					zn_client_text(cause, "says", text, sizeof(text)));
			if (shows(w))
				zn_term_line(&w->term, ZN_STYLE_PLAIN, "    next: %s",
					zn_client_text(cause, "next", text, sizeof(text)));
		}
		if (!any && shows(w))
			zn_term_line(&w->term, ZN_STYLE_PLAIN, "  %s", zn_client_text(job, "says", text, sizeof(text)));
	}
}

static void library_item(struct zn_watch *w, struct zn_str library)
{
	char attached[CELL], symbols[CELL], path[512], why[512] = ": ";

	if (!shows(w))
		return;
	zn_client_text(library, "why", why + 2, sizeof(why) - 2);
	zn_term_line(&w->term, ZN_STYLE_PLAIN, "  %s of %s functions of %s%s",
		zn_value_text(library, "attached", attached), zn_value_text(library, "symbols", symbols),
		zn_client_text(library, "path", path, sizeof(path)), strcmp(why, ": -") ? why : "");
}

static void probe_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str probes = zn_client_find(w->snapshot, "probes"), key, probe, inner, library;
	char family[CELL], state[CELL], why[512];
	size_t at = 0, in;

	(void)v, (void)widths;
	while (zn_json_next(probes, &at, &key, &probe)) {
		zn_value_text(probe, "state", state);
		zn_client_text(probe, "why", why, sizeof(why));
		if (shows(w))
			zn_term_line(&w->term, *state == 'u' ? ZN_STYLE_WARN : ZN_STYLE_PLAIN, "%s: %s%s%s",
				zn_value_text(probe, "family", family), state, strcmp(why, "-") ? ": " : "",
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

static void loss_items(struct zn_watch *w, const struct view *v, const int *widths)
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
			name, zn_value_text(value, "", count), loss_help(name));
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
static const struct column io_sum_columns[] = {
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
static const struct growth io_sum_growth[] = {{FLOW_MOUNT, 24}, {FLOW_JOB, 12}, {FLOW_MOUNT, CELL - 1}, {-1, 0}};
_Static_assert(ZN_LEN(signal_columns) <= COLUMNS_MAX && ZN_LEN(io_sum_columns) <= COLUMNS_MAX, "columns");

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
	{'i', "I/O", "no file I/O has been counted", io_sum_items, false, false, COLUMNS(io_sum_columns),
		.growth = io_sum_growth},
	{'b', "jobs", "no job is known on this node", job_items, false, false, COLUMNS(job_columns),
		.growth = job_growth},
	{'y', "why", "nothing has launched work on a GPU", why_items, .sorted = false},
	{'a', "alerts", "no alert is pending or firing", alert_items, .sorted = false},
	{'h', "hooks", "the daemon says nothing of its hooks", probe_items, .sorted = false},
	{'x', "losses", "the daemon says nothing of losses", loss_items, .sorted = false},
};

/* The view is gone through twice: at first to count its lines, with room for none. */
static void put_view(struct zn_watch *w)
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
	last = w->lines - zn_watch_at_least_one(w->fits);
	w->top = w->top > last ? last : w->top;
	w->top = w->top < 0 ? 0 : w->top;
	w->line = 0;
	v->items(w, v, widths);
	if (w->lines == 0)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "%s", v->none);
	if (w->rows_left_out && !w->term.screen)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "and %d more processes", w->rows_left_out);
}

void zn_views_footer(struct zn_watch *w, bool table)
{
	static const char *const sorts[] = {[ZN_SORT_PID] = "pid",
		[ZN_SORT_MEMORY] = "memory",
		[ZN_SORT_RATE] = "launch rate",
		[ZN_SORT_P99] = "p99"};
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

/* On a small screen the view comes before the details. */
void zn_views_body(struct zn_watch *w)
{
	bool small = w->term.rows && w->term.rows < SMALL_ROWS;

	if (views[w->view].items != alert_items)
		zn_panel_alerts(w);
	if (views[w->view].items != why_items)
		zn_cards_put(w);
	zn_panel_idle(w);
	zn_panel_gpus(w);
	if (!small)
		zn_panel_details(w);
	put_view(w);
	if (small)
		zn_panel_details(w);
}

static void choose_view(struct zn_watch *w, uint32_t view)
{
	w->view = view;
	w->top = 0;
	w->help = false;
}

/* The view that a key stands for, if it stands for one. */
void zn_views_choose(struct zn_watch *w, int key)
{
	for (uint32_t i = 0; i < ZN_LEN(views); i++)
		if (key == views[i].key)
			choose_view(w, i);
}

void zn_views_next(struct zn_watch *w)
{
	choose_view(w, (w->view + 1) % ZN_LEN(views));
}
