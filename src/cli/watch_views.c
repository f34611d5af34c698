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
	const struct zn_column *columns;
	const struct growth {
		int column; /* below 0: the end */
		int most;
	} * growth; /* of columns, in this order, while there is room */
	int count;  /* of columns */
};

enum { COL_PID, COL_COMM, COL_JOB, COL_GPUS, COL_RATES = 11, COL_P99S };

static const struct zn_column process_columns[] = {
	[COL_PID] = {"PID", -7, zn_cell_text, "pid"},
	[COL_COMM] = {"COMMAND", 8, zn_cell_text, "comm"},
	[COL_JOB] = {"JOB", 6, zn_cell_text, "job_id", .when = ZN_COLUMN_IF_KNOWN},
	[COL_GPUS] = {"GPU", 3, zn_cell_gpus, "gpus"},
	{"MEM", -5, zn_cell_memory, "gpus"},
	{"LNCH/s", -6, zn_cell_count, "launch.rate", "launch.count"},
	{"p50", -6, zn_cell_launch, "p50", "launch.count"},
	{"p99", -6, zn_cell_launch, "p99", "launch.count"},
	{"NCCL", -5, zn_cell_count, "nccl.calls"},
	{"NCCL99", -6, zn_cell_nccl, "nccl.ops", .us = 1000},
	{"SYNC99", -6, zn_cell_duration, "sync.p99_us", "sync.count", 1},
	[COL_RATES] = {"LNCH/s, last 60 s", 0, NULL},
	[COL_P99S] = {"p99, last 60 s", 0, NULL, .count = "launch.recent"},
};
static const struct growth process_growth[] = {{COL_RATES, 8}, {COL_COMM, 15}, {COL_JOB, 12}, {COL_GPUS, 8},
	{COL_RATES, 20}, {COL_P99S, 20}, {COL_RATES, ZN_WATCH_SAMPLES}, {COL_P99S, ZN_WATCH_SAMPLES}, {-1, 0}};

static const struct zn_column nccl_columns[] = {
	[COL_PID] = {"PID", -7, zn_cell_text, "pid", .of = ZN_COLUMN_OF_PROCESS},
	[COL_COMM] = {"COMMAND", 8, zn_cell_text, "comm", .of = ZN_COLUMN_OF_PROCESS},
	{"RANK", -5, zn_cell_rank, "nccl.comms", .of = ZN_COLUMN_OF_PROCESS},
	{"OPERATION", 14, zn_cell_text, "op"},
	{"CALLS", -6, zn_cell_count, "calls"},
	{"BYTES", -6, zn_cell_bytes, "bytes"},
	{"ERRORS", -6, zn_cell_count, "errors"},
	{"p50", -6, zn_cell_duration, "p50_ms", "calls", 1000},
	{"p99", -6, zn_cell_duration, "p99_ms", "calls", 1000},
};

#define STALL(title, path)                                                                                             \
	{                                                                                                              \
		title, -4, zn_cell_share, "stalls." path, .when = ZN_COLUMN_IF_KNOWN                                   \
	}
static const struct zn_column wait_columns[] = {
	[COL_PID] = {"PID", -7, zn_cell_text, "pid"},
	[COL_COMM] = {"COMMAND", 8, zn_cell_text, "comm"},
	{"LOAD50", -6, zn_cell_duration, "dataloader.p50_ms", "dataloader.count", 1000},
	{"LOAD99", -6, zn_cell_duration, "dataloader.p99_ms", "dataloader.count", 1000},
	{"SYNC50", -6, zn_cell_duration, "sync.p50_us", "sync.count", 1},
	{"SYNC99", -6, zn_cell_duration, "sync.p99_us", "sync.count", 1},
	STALL("cpu", "cpu"),
	STALL("gpu", "gpu"),
	STALL("data", "data"),
	STALL("dist", "dist"),
	STALL("io", "io"),
	STALL("runq", "runqueue"),
	STALL("othr", "other"),
	{"LOADS", -6, zn_cell_count, "dataloader.count", .when = ZN_COLUMN_IF_ROOM},
	{"SYNCS", -6, zn_cell_count, "sync.count", .when = ZN_COLUMN_IF_ROOM},
	{"SYNCSUM", -7, zn_cell_duration, "sync.sum_ms", "sync.count", 1000, .when = ZN_COLUMN_IF_ROOM},
};
static const struct growth name_growth[] = {{COL_COMM, 15}, {-1, 0}};

enum { JOB_ID, JOB_USER = 2, JOB_NAME, JOB_GPUS = 5, JOB_IDLE };
static const struct zn_column job_columns[] = {
	[JOB_ID] = {"JOB", 7, zn_cell_text, "job_id"},
	{"STATE", 7, zn_cell_text, "state"},
	[JOB_USER] = {"USER", 8, zn_cell_text, "user"},
	[JOB_NAME] = {"NAME", 8, zn_cell_text, "name"},
	{"TIME", -8, zn_cell_elapsed, "elapsed_s"},
	[JOB_GPUS] = {"GPU", 7, zn_cell_gpus, "gpus"},
	[JOB_IDLE] = {"IDLE", 7, zn_cell_idle, "gpus"},
	{"BUSY", -4, zn_cell_busy, "gpus"},
	{"PROC", -4, zn_cell_text, "processes"},
	{"LNCHS", -5, zn_cell_count, "launches"},
	{"PEAK", -5, zn_cell_peak, "gpus", .when = ZN_COLUMN_IF_ROOM},
	{"NCCL", -5, zn_cell_bytes, "nccl_bytes", .when = ZN_COLUMN_IF_ROOM},
	{"PARTITION", 9, zn_cell_text, "partition", .when = ZN_COLUMN_IF_ROOM},
	{"ACCOUNT", 8, zn_cell_text, "account", .when = ZN_COLUMN_IF_ROOM},
	{"NODES", -5, zn_cell_text, "nodes", .when = ZN_COLUMN_IF_ROOM},
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
		struct zn_str value = zn_path_find(w->rows[i].process, path);

		if (value.len && (*value.at == '{' || strcmp(zn_value_text(value, "", text), "-")))
			return true;
	}
	return false;
}

static bool has_column(const struct zn_watch *w, const struct zn_column *c)
{
	if (!c->text) /* what moves is of no use on paper */
		return w->term.screen && (!c->count || any_knows(w, c->count));
	return c->when != ZN_COLUMN_IF_KNOWN || any_knows(w, c->path);
}

/* Widths of the columns, 0 for one that is left out: the least, and then what is left over, in the order of growth. */
static void fit_columns(const struct zn_watch *w, const struct view *v, int widths[COLUMNS_MAX])
{
	bool has[COLUMNS_MAX];
	int left = w->term.cols;

	for (int i = 0; i < v->count; i++) {
		int width = v->columns[i].width;

		has[i] =
			has_column(w, &v->columns[i]) && (v->columns[i].when != ZN_COLUMN_IF_ROOM || abs(width) < left);
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
		const struct zn_column *c = &v->columns[i];

		if (!widths[i])
			continue;
		snprintf(cell, sizeof(cell), "-");
		if (c->text) {
			c->text(c->of == ZN_COLUMN_OF_PROCESS && row ? row->process : item, c, cell);
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
		if (zn_watch_shows_line(w))
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
	zn_term_put(&w->term, "h a rank");
	zn_term_end(&w->term);
}

/* A letter for each part of its time, by what that went to. */
static void put_stalls(struct zn_term *t, struct zn_str stalls, int width)
{
	bool held = zn_watch_is_held(stalls);
	double sum = 0;
	int at = 0;

	zn_term_cell(t, "", BAR_INDENT);
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
		double share = zn_value_number(stalls, zn_stall_label(s));
		bool waits;

		sum += share > 0 && share <= 1 ? share : 0;
		waits = held && (s == ZN_STALL_GPU || s == ZN_STALL_DIST);
		zn_term_style(t, waits ? ZN_STYLE_LOUD : ZN_STYLE_CAUSE + s);
		for (; at < width && at < (int)(sum * width + 0.5); at++)
			zn_term_putf(t, "%c", waits ? 'h' : letters[s]);
	}
	zn_term_style(t, ZN_STYLE_PLAIN);
	zn_term_putf(t, "%*s", width - at, "");
}

static void stalls_item(struct zn_watch *w, struct zn_str stalls)
{
	bool wide = w->term.cols >= BAR_COLS;
	char says[512];

	zn_path_text(stalls, "says", says, sizeof(says));
	if (zn_watch_shows_line(w)) {
		put_stalls(&w->term, stalls, wide ? BAR_WIDTH : w->term.cols - BAR_INDENT);
		if (wide)
			zn_term_putf(&w->term, "  %s", says);
		zn_term_end(&w->term);
	}
	if (!wide && zn_watch_shows_line(w))
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "%*s%s", BAR_INDENT, "", says);
}

static void wait_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++) {
		struct zn_str process = w->rows[i].process;

		if (zn_watch_shows_line(w))
			put_cells(w, v, widths, process, &w->rows[i]);
		if (zn_path_known(process, "stalls.says"))
			stalls_item(w, zn_path_find(process, "stalls"));
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

/* What is measured of a process in a part of the time, as its budget has no room for more. */
static void put_sampled(struct zn_term *t, struct zn_str sampled)
{
	struct zn_str key, part;
	size_t at = 0;

	zn_term_style(t, ZN_STYLE_WARN);
	zn_term_putf(t, "%*smeasured in a part of the time:", BAR_INDENT, "");
	while (zn_json_next(sampled, &at, &key, &part))
		zn_term_putf(t, "  %.*s %.3g %%", key.len < CELL ? (int)key.len : CELL, key.at ? key.at : "",
			100 * zn_value_number(part, "now"));
	zn_term_end(t);
}

static void signal_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++) {
		struct zn_str anomalies = zn_path_find(w->rows[i].process, "anomalies"), key, score;
		size_t at = 0;

		if (zn_watch_shows_line(w))
			put_cells(w, v, widths, w->rows[i].process, &w->rows[i]);
		zn_watch_failed(w, w->rows[i].process);
		if (zn_json_next(anomalies, &at, &key, &score) && zn_watch_shows_line(w))
			put_unusual(&w->term, anomalies);
		if (zn_path_known(w->rows[i].process, "sampled") && zn_watch_shows_line(w))
			put_sampled(&w->term, zn_path_find(w->rows[i].process, "sampled"));
	}
}

static void nccl_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->row_count; i++) {
		struct zn_str ops = zn_path_find(w->rows[i].process, "nccl.ops"), key, op;
		size_t at = 0;

		while (zn_json_next(ops, &at, &key, &op))
			if (zn_watch_shows_line(w))
				put_cells(w, v, widths, op, &w->rows[i]);
	}
}

static void io_sum_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	for (int i = 0; i < w->io_sum_count; i++)
		if (zn_watch_shows_line(w))
			put_cells(w, v, widths, w->io_sums[i].io_sum, NULL);
}

/* A line for each route of each server. */
static void request_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str servers = zn_path_find(w->snapshot, "servers"), key, inner, route;
	struct zn_watch_row row = {0};

	for (size_t at = 0; zn_json_next(servers, &at, &key, &row.process);)
		for (size_t in = 0; zn_json_next(zn_path_find(row.process, "routes"), &in, &inner, &route);)
			if (zn_watch_shows_line(w))
				put_cells(w, v, widths, route, &row);
}

static void job_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str jobs = zn_path_find(w->snapshot, "jobs"), key, job;
	char idle[CELL];
	size_t at = 0;

	while (zn_json_next(jobs, &at, &key, &job)) {
		if (!zn_watch_shows_line(w))
			continue;
		if (zn_watch_idle_gpus(job, idle, sizeof(idle)))
			zn_term_style(&w->term, ZN_STYLE_BAD);
		put_cells(w, v, widths, job, NULL);
	}
}

static void alert_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str alerts = zn_path_find(w->snapshot, "alerts"), key, alert;
	char state[CELL], value[CELL], limit[CELL], summary[512];
	size_t at = 0;

	(void)v, (void)widths;
	while (zn_json_next(alerts, &at, &key, &alert)) {
		if (zn_watch_shows_line(w))
			zn_panel_alert(&w->term, alert, zn_value_text(alert, "state", state));
		if (!zn_watch_shows_line(w))
			continue;
		zn_path_text(alert, "summary", summary, sizeof(summary));
		if (zn_path_known(alert, "threshold"))
			zn_term_line(&w->term, ZN_STYLE_PLAIN, "  value %s, threshold %s: %s",
				zn_value_text(alert, "value", value), zn_value_text(alert, "threshold", limit),
				summary);
		else
			zn_term_line(&w->term, ZN_STYLE_PLAIN, "  %s", summary);
	}
}

static void why_of_job(struct zn_watch *w, struct zn_str job)
{
	char name[ZN_PANEL_JOB], text[1024], next[512];
	struct zn_str key, cause;
	bool any = false;

	if (zn_watch_shows_line(w))
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "%s", zn_panel_job(job, name));
	for (size_t in = 0; zn_json_next(zn_path_find(job, "causes"), &in, &key, &cause); any = true) {
		zn_watch_put_wrapped(w, ZN_STYLE_WARN, 2, zn_path_text(cause, "says", text, sizeof(text)));
		snprintf(text, sizeof(text), "next: %s", zn_path_text(cause, "next", next, sizeof(next)));
		zn_watch_put_wrapped(w, ZN_STYLE_PLAIN, 4, text);
	}
	if (!any)
		zn_watch_put_wrapped(w, ZN_STYLE_PLAIN, 2, zn_path_text(job, "says", text, sizeof(text)));
	if (!zn_path_known(job, "ras"))
		return;
	snprintf(text, sizeof(text), "other nodes: %s", zn_path_text(job, "ras.says", next, sizeof(next)));
	zn_watch_put_wrapped(w, ZN_STYLE_PLAIN, 2, text);
}

static void why_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str list = zn_path_find(w->snapshot, "why"), key, job;

	(void)v, (void)widths;
	for (size_t weight = 0; weight < ZN_CARDS_STATES; weight++)
		for (size_t at = 0; zn_json_next(list, &at, &key, &job);)
			if (zn_cards_weight(job) == weight)
				why_of_job(w, job);
}

static void library_item(struct zn_watch *w, struct zn_str library)
{
	char attached[CELL], symbols[CELL], path[512], why[512] = ": ";

	if (!zn_watch_shows_line(w))
		return;
	zn_path_text(library, "why", why + 2, sizeof(why) - 2);
	zn_term_line(&w->term, ZN_STYLE_PLAIN, "  %s of %s functions of %s%s",
		zn_value_text(library, "attached", attached), zn_value_text(library, "symbols", symbols),
		zn_path_text(library, "path", path, sizeof(path)), strcmp(why, ": -") ? why : "");
}

static void probe_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str probes = zn_path_find(w->snapshot, "probes"), key, probe, inner, library;
	char family[CELL], state[CELL], why[512];
	size_t at = 0, in;

	(void)v, (void)widths;
	while (zn_json_next(probes, &at, &key, &probe)) {
		zn_value_text(probe, "state", state);
		zn_path_text(probe, "why", why, sizeof(why));
		if (zn_watch_shows_line(w))
			zn_term_line(&w->term, *state == 'u' ? ZN_STYLE_WARN : ZN_STYLE_PLAIN, "%s: %s%s%s",
				zn_value_text(probe, "family", family), state, strcmp(why, "-") ? ": " : "",
				strcmp(why, "-") ? why : "");
		in = 0;
		while (zn_json_next(zn_path_find(probe, "libraries"), &in, &inner, &library))
			library_item(w, library);
	}
}

/* Says what a loss means. The text is empty if this program is older than the daemon. */
static const char *loss_help(const char *label)
{
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++)
		if (!strcmp(zn_loss_label(i), label))
			return zn_loss_help(i);
	return "";
}

static void loss_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str lost = zn_path_find(w->snapshot, "lost"), key, value;
	char name[CELL], count[CELL];
	size_t at = 0;

	(void)v, (void)widths;
	while (zn_json_next(lost, &at, &key, &value)) {
		if (!zn_watch_shows_line(w))
			continue;
		snprintf(name, sizeof(name), "%.*s", key.len < CELL ? (int)key.len : CELL - 1, key.at ? key.at : "");
		zn_term_line(&w->term, zn_json_number(value) > 0 ? ZN_STYLE_WARN : ZN_STYLE_PLAIN, "%-14s %8s  %s",
			name, zn_value_text(value, "", count), loss_help(name));
	}
}

static const struct zn_column signal_columns[] = {
	[COL_PID] = {"PID", -7, zn_cell_text, "pid"},
	[COL_COMM] = {"COMMAND", 8, zn_cell_text, "comm"},
	{"LNCH/s", -6, zn_cell_count, "launch.rate", "launch.count"},
	{"p99", -6, zn_cell_launch, "p99", "launch.count"},
	{"SYS/L", -6, zn_cell_count, "signals.syscalls.per_launch"},
	{"IOCT99", -6, zn_cell_duration, "signals.ioctl.p99_us", "signals.ioctl.count", 1},
	{"SW/L", -6, zn_cell_count, "signals.sched.switches_per_launch"},
	{"MIG/s", -5, zn_cell_count, "signals.sched.migration_rate"},
	{"RUNQ99", -6, zn_cell_duration, "signals.sched.runqueue.p99_us", "signals.sched.runqueue.count", 1},
	{"SENT/s", -6, zn_cell_bytes, "signals.tcp.sent_rate", .when = ZN_COLUMN_IF_KNOWN},
	{"RECV/s", -6, zn_cell_bytes, "signals.tcp.received_rate", .when = ZN_COLUMN_IF_KNOWN},
	{"SYS/s", -6, zn_cell_count, "signals.syscalls.rate", .when = ZN_COLUMN_IF_ROOM},
	{"CHURN", -5, zn_cell_share, "signals.syscalls.mmap_churn", .when = ZN_COLUMN_IF_ROOM},
	{"RETR", -5, zn_cell_count, "signals.tcp.retransmits", .when = ZN_COLUMN_IF_ROOM},
	{"SEND99", -6, zn_cell_duration, "signals.tcp.send.p99_us", "signals.tcp.send.count", 1,
		.when = ZN_COLUMN_IF_ROOM},
};

#define LATENCY(title, op, ...)                                                                                        \
	{                                                                                                              \
		title, -6, zn_cell_duration, "ops." op ".p99_us", "ops." op ".count", 1, __VA_ARGS__                   \
	}
enum { FLOW_JOB, FLOW_MOUNT };
static const struct zn_column io_sum_columns[] = {
	[FLOW_JOB] = {"JOB", 6, zn_cell_text, "job_id"},
	[FLOW_MOUNT] = {"MOUNT", 14, zn_cell_text, "mount"},
	{"TYPE", 6, zn_cell_text, "fstype", .when = ZN_COLUMN_IF_ROOM},
	{"READ/s", -6, zn_cell_bytes, "read_bytes_per_s"},
	{"WRIT/s", -6, zn_cell_bytes, "write_bytes_per_s"},
	{"OPS/s", -5, zn_cell_sum, "ops", "rate"},
	LATENCY("READ99", "read", ),
	LATENCY("WRIT99", "write", ),
	LATENCY("SYNC99", "fsync", ),
	{"ERRS", -5, zn_cell_sum, "ops", "errors"},
	{"READ", -6, zn_cell_bytes, "read_bytes", .when = ZN_COLUMN_IF_ROOM},
	{"WRITTN", -6, zn_cell_bytes, "write_bytes", .when = ZN_COLUMN_IF_ROOM},
	LATENCY("OPEN99", "open", .when = ZN_COLUMN_IF_ROOM),
	{"MAPPED", -6, zn_cell_bytes, "mapped_bytes", .when = ZN_COLUMN_IF_ROOM},
	{"OPS", -5, zn_cell_sum, "ops", "count", .when = ZN_COLUMN_IF_ROOM},
};
static const struct growth io_sum_growth[] = {{FLOW_MOUNT, 24}, {FLOW_JOB, 12}, {FLOW_MOUNT, CELL - 1}, {-1, 0}};

#define RECENT(title, of, quantile, ...)                                                                               \
	{                                                                                                              \
		title, -6, zn_cell_duration, "recent." of "." quantile "_ms", "recent." of ".count", 1000, __VA_ARGS__ \
	}
enum { REQUEST_PID, REQUEST_ROUTE, REQUEST_COMM = 10 };
static const struct zn_column request_columns[] = {
	[REQUEST_PID] = {"PID", -7, zn_cell_text, "pid", .of = ZN_COLUMN_OF_PROCESS},
	[REQUEST_ROUTE] = {"ROUTE", 14, zn_cell_text, "route"},
	{"FLY", -4, zn_cell_count, "in_flight"},
	{"REQ/s", -6, zn_cell_count, "recent.rate"},
	{"ERR", -4, zn_cell_share, "recent.error_ratio"},
	RECENT("TTFT50", "first_event", "p50", ),
	RECENT("TTFT99", "first_event", "p99", ),
	RECENT("GAP99", "event_gap", "p99", ),
	RECENT("DUR50", "duration", "p50", ),
	RECENT("DUR99", "duration", "p99", ),
	[REQUEST_COMM] = {"COMMAND", 8, zn_cell_text, "comm", .of = ZN_COLUMN_OF_PROCESS, .when = ZN_COLUMN_IF_ROOM},
	RECENT("GAP50", "event_gap", "p50", .when = ZN_COLUMN_IF_ROOM),
	{"ABORT", -5, zn_cell_count, "recent.requests.aborted", .when = ZN_COLUMN_IF_ROOM},
	{"UNRD99", -6, zn_cell_duration, "unread.p99_ms", "unread.count", 1000, .of = ZN_COLUMN_OF_PROCESS,
		.when = ZN_COLUMN_IF_ROOM},
	{"EVENTS", -6, zn_cell_count, "events", .when = ZN_COLUMN_IF_ROOM},
};
static const struct growth request_growth[] = {{REQUEST_ROUTE, 22}, {REQUEST_COMM, 15}, {REQUEST_ROUTE, 34}, {-1, 0}};
_Static_assert(ZN_LEN(signal_columns) <= COLUMNS_MAX && ZN_LEN(io_sum_columns) <= COLUMNS_MAX &&
		ZN_LEN(request_columns) <= COLUMNS_MAX,
	"columns");

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
	{'r', "requests", "no inference server is known on this node", request_items, false, false,
		COLUMNS(request_columns), .growth = request_growth},
	{'v', "serving", "no inference server is known on this node", zn_serving_view_items, .sorted = false},
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
	zn_panel_ports(w);
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
