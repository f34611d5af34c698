/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_data.c: the answer that `zernel watch` shows: its processes, the I/O of its jobs, and the last minute of each
 * process.
 *
 * Limits: the first 1024 processes of an answer are shown, and as many mounts of jobs. Two answers are kept, the one on
 * show and the one that is coming in.
 */
#include "zernel.h"

#include <math.h>
#include <string.h>

#define CELL   ZN_UNITS_CELL
#define IDLE_S 60 /* a job's GPU that nobody has used for so long stands out */

char zn_watch_answers[2][ZN_CLIENT_BUFFER];

bool zn_watch_shows_line(struct zn_watch *w)
{
	int line = w->line++;

	return line >= w->top && line < w->top + w->fits;
}

void zn_watch_put_wrapped(struct zn_watch *w, enum zn_style style, int indent, const char *text)
{
	int width = zn_watch_at_least_one(w->term.cols - indent - 2);

	for (int line = 0; *text; line++) {
		size_t len = zn_term_break(text, line ? width : width + 2);

		if (zn_watch_shows_line(w))
			zn_term_line(&w->term, style, "%*s%.*s", indent + 2 * (line > 0), "", (int)len, text);
		text += len;
		text += strspn(text, " ");
	}
}

int zn_watch_at_least_one(int n)
{
	return n > 1 ? n : 1;
}

double zn_value_number(struct zn_str object, const char *path)
{
	return zn_json_number(zn_path_find(object, path));
}

uint64_t zn_value_integer(struct zn_str object, const char *path)
{
	return zn_json_integer(zn_path_find(object, path));
}

const char *zn_value_text(struct zn_str object, const char *path, char to[CELL])
{
	return zn_path_text(object, path, to, CELL);
}

bool zn_watch_is_held(struct zn_str stalls)
{
	char all[CELL];

	return zn_value_integer(stalls, "waits_for_pid") || !strcmp(zn_value_text(stalls, "all_wait", all), "true");
}

/* The track of a process: that of the last answer, or a free one, all NAN. */
static struct zn_watch_track *find_track(struct zn_watch *w, uint64_t pid, uint64_t launches)
{
	struct zn_watch_track *empty = NULL;

	for (size_t i = 0; i < ZN_WATCH_TRACKS; i++) {
		struct zn_watch_track *t = &w->tracks[i];

		if (w->answer_count - t->seen > 1 || t->seen == 0)
			empty = empty ? empty : t;
		else if (t->pid == pid && t->seen != w->answer_count && t->launches <= launches)
			return t;
	}
	for (int i = 0; empty && i < ZN_WATCH_SAMPLES; i++)
		empty->rate[i] = empty->p99[i] = NAN;
	return empty;
}

/* Notes a rate. It is a mean over the daemon's interval, so it stands for as many seconds, but for none before. */
static void add_sample(struct zn_watch *w, struct zn_watch_row *row, uint32_t elapsed_s)
{
	uint64_t launches = zn_value_integer(row->process, "launch.count");
	uint64_t valid_s = (zn_value_integer(w->snapshot, "interval_ms") + 500) / 1000;
	struct zn_watch_track *t = find_track(w, row->pid, launches);
	float rate = row->rate < 1e30 ? (float)row->rate : 1e30f, p99 = NAN;

	row->track = t;
	if (!t)
		return;
	if (zn_path_known(row->process, "launch.recent"))
		p99 = row->p99 < 1e30 ? (float)row->p99 : 1e30f;
	for (uint32_t age = 0; age < elapsed_s; age++) {
		bool valid = age == 0 || age < valid_s;

		t->rate[(w->head + ZN_WATCH_SAMPLES - age) % ZN_WATCH_SAMPLES] = valid ? rate : NAN;
		t->p99[(w->head + ZN_WATCH_SAMPLES - age) % ZN_WATCH_SAMPLES] = valid ? p99 : NAN;
	}
	t->pid = row->pid;
	t->launches = launches;
	t->seen = w->answer_count;
}

uint64_t zn_value_sum_integers(struct zn_str array, const char *key)
{
	struct zn_str name, value;
	uint64_t sum = 0;
	size_t at = 0;

	while (zn_json_next(array, &at, &name, &value))
		if (__builtin_add_overflow(sum, zn_value_integer(value, key), &sum))
			return UINT64_MAX;
	return sum;
}

/* The figure of the last seconds where the daemon knows it, else since the process began. */
double zn_value_launch_us(struct zn_str process, const char *recent, const char *all)
{
	return zn_value_number(process, zn_path_known(process, "launch.recent") ? recent : all);
}

/* elapsed_s: since the data shown before. */
static void load_rows(struct zn_watch *w, uint32_t elapsed_s)
{
	struct zn_str processes = zn_json_member(w->snapshot, "processes"), key, process;
	size_t at = 0;

	w->row_count = w->rows_left_out = 0;
	while (zn_json_next(processes, &at, &key, &process)) {
		struct zn_watch_row *row = &w->rows[w->row_count];

		if (w->row_count == ZN_PROCS_MAX) {
			w->rows_left_out++;
			continue;
		}
		w->row_count++;
		*row = (struct zn_watch_row){.process = process, .pid = zn_value_integer(process, "pid")};
		row->memory = zn_value_sum_integers(zn_json_member(process, "gpus"), "used_bytes");
		row->rate = zn_value_number(process, "launch.rate");
		row->p99 = zn_value_launch_us(process, "launch.recent.p99_us", "launch.p99_us");
		add_sample(w, row, elapsed_s);
	}
}

double zn_value_sum(struct zn_str array, const char *key)
{
	struct zn_str name, value;
	double sum = 0;
	size_t at = 0;

	while (zn_json_next(array, &at, &name, &value))
		sum += zn_value_number(value, key);
	return sum;
}

static bool is_busier(const struct zn_watch_io_sum *a, const struct zn_watch_io_sum *b)
{
	return a->bytes != b->bytes ? a->bytes > b->bytes : a->ops > b->ops;
}

static void load_io_sums(struct zn_watch *w)
{
	struct zn_str list = zn_json_member(w->snapshot, "io"), key, item;
	size_t at = 0;

	w->io_sum_count = 0;
	while (w->io_sum_count < ZN_IO_SUMS_MAX && zn_json_next(list, &at, &key, &item)) {
		struct zn_watch_io_sum io_sum = {.io_sum = item};
		int to = w->io_sum_count++;

		io_sum.bytes = zn_value_number(item, "read_bytes_per_s") + zn_value_number(item, "write_bytes_per_s");
		io_sum.ops = zn_value_sum(zn_json_member(item, "ops"), "rate");
		for (; to > 0 && is_busier(&io_sum, &w->io_sums[to - 1]); to--)
			w->io_sums[to] = w->io_sums[to - 1];
		w->io_sums[to] = io_sum;
	}
}

static int compare_rows(enum zn_watch_sort sort, const struct zn_watch_row *a, const struct zn_watch_row *b)
{
	if (sort == ZN_SORT_MEMORY && a->memory != b->memory)
		return a->memory > b->memory ? -1 : 1;
	if (sort == ZN_SORT_RATE && a->rate != b->rate)
		return a->rate > b->rate ? -1 : 1;
	if (sort == ZN_SORT_P99 && a->p99 != b->p99)
		return a->p99 > b->p99 ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* By insertion: the order changes little from one answer to the next, and qsort() may allocate. */
void zn_watch_sort_rows(struct zn_watch *w)
{
	for (int i = 1; i < w->row_count; i++) {
		struct zn_watch_row row = w->rows[i];
		int at = i;

		for (; at > 0 && compare_rows(w->sort, &row, &w->rows[at - 1]) < 0; at--)
			w->rows[at] = w->rows[at - 1];
		w->rows[at] = row;
	}
}

static uint32_t elapsed_since(uint64_t before_ms, uint64_t now_ms)
{
	uint64_t s = now_ms > before_ms ? (now_ms - before_ms + 500) / 1000 : 1;

	return s < 1 ? 1 : s > ZN_WATCH_SAMPLES ? ZN_WATCH_SAMPLES : (uint32_t)s;
}

/* Takes the answer over and gives the client the other buffer, unless the answer holds nothing new. */
void zn_watch_take_answer(struct zn_watch *w, uint64_t now_ns)
{
	struct zn_client *c = &w->client;
	uint64_t ms = zn_value_integer(c->answer, "last_update_ms");
	uint32_t elapsed_s = elapsed_since(w->data_ms, ms);

	w->answer_ns = now_ns;
	if (w->answer_count && zn_str_equal(c->answer, w->snapshot))
		return;
	c->buffer = zn_watch_answers[c->buffer == zn_watch_answers[0]];
	w->snapshot = c->answer;
	w->data_ms = ms;
	w->fresh_ns = now_ns;
	w->answer_count++;
	w->head = (w->head + elapsed_s) % ZN_WATCH_SAMPLES;
	load_rows(w, elapsed_s);
	load_io_sums(w);
	zn_watch_sort_rows(w);
}

uint64_t zn_value_seconds(struct zn_str object, const char *path)
{
	return (uint64_t)fmin(fmax(zn_value_number(object, path), 0), 1e12);
}

/* A GPU that a running job keeps from others and does not use. */
bool zn_watch_is_idle(struct zn_str job, struct zn_str gpu)
{
	char state[CELL];

	return !strcmp(zn_value_text(job, "state", state), "running") && zn_value_seconds(gpu, "quiet_s") >= IDLE_S;
}

/* "3 for 12 min" or "3 since it began"; the length. */
static size_t idle_text(struct zn_str gpu, char *to, size_t cap)
{
	char id[CELL], span[CELL];
	int len;

	zn_value_text(gpu, "gpu_id", id);
	if (zn_value_number(gpu, "busy_s") > 0)
		len = snprintf(to, cap, "%s for %s", id, zn_units_span(span, zn_value_seconds(gpu, "quiet_s")));
	else
		len = snprintf(to, cap, "%s since it began", id);
	return (size_t)len < cap ? (size_t)len : cap - 1;
}

/* False: none is. */
bool zn_watch_idle_gpus(struct zn_str job, char *to, size_t cap)
{
	struct zn_str gpus = zn_path_find(job, "gpus"), key, gpu;
	size_t at = 0, len = 0;

	while (zn_json_next(gpus, &at, &key, &gpu)) {
		if (!zn_watch_is_idle(job, gpu))
			continue;
		if (len && len + sizeof(", ") <= cap)
			len += (size_t)snprintf(to + len, cap - len, ", ");
		len += idle_text(gpu, to + len, cap - len);
	}
	return len > 0;
}

bool zn_value_is_false(struct zn_str object, const char *key)
{
	return zn_str_equal(zn_json_member(object, key), (struct zn_str){"false", 5});
}
