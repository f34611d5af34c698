/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_jobs.c: the jobs on top of the screen of `zernel watch`: the state and the first cause of each with what to do
 * next, the last 15 minutes as one line, and its ranks beside each other.
 *
 * Limits: the first 64 ranks of a job are compared.
 */
#include "zernel.h"

#include <math.h>
#include <string.h>

#define CELL         ZN_UNITS_CELL
#define LINES        3 /* of a job, without its use of CPUs and memory */
#define SCREEN_SHARE 3 /* of the screen is theirs, as 1/n */
#define SMALL_ROWS   16
#define SAYS_MAX     3 /* lines of its sentence, and of what to do next */
#define RANKS_MAX    64
#define FAR          0.25 /* of its time: so far from the others' median is far */

/* Most trouble first. */
static const struct {
	const char *name, *says;
	enum zn_style style;
} states[] = {
	{"hangs", "hangs", ZN_STYLE_BAD},
	{"stopped", "is stopped", ZN_STYLE_BAD},
	{"still", "stands still", ZN_STYLE_BAD},
	{"critical", "in trouble", ZN_STYLE_BAD},
	{"waits", "all its ranks wait", ZN_STYLE_WARN},
	{"loses", "loses", ZN_STYLE_WARN},
	{"warned", "runs, with a warning", ZN_STYLE_WARN},
	{"idle", "idle", ZN_STYLE_WARN},
	{"unknown", "", ZN_STYLE_PLAIN},
	{"starting", "starting", ZN_STYLE_PLAIN},
	{"runs", "running fine", ZN_STYLE_GOOD},
	{"", "", ZN_STYLE_WARN},
};

_Static_assert(ZN_LEN(states) <= ZN_CARDS_STATES, "states");

size_t zn_cards_weight(struct zn_str job)
{
	char state[CELL];
	size_t i = 0;

	zn_value_text(job, "state", state);
	while (i + 1 < ZN_LEN(states) && strcmp(states[i].name, state))
		i++;
	return i;
}

/* Puts what its programs said of themselves. */
static void put_labels(struct zn_term *t, struct zn_str job)
{
	struct zn_str list = zn_path_find(job, "labels"), key, label;
	char name[CELL], value[ZN_ANNOTATION_VALUE];
	bool any = false;

	zn_term_style(t, ZN_STYLE_FAINT);
	for (size_t at = 0; zn_json_next(list, &at, &key, &label); any = true)
		zn_term_putf(t, "%s%s=%s", any ? " " : " [", zn_value_text(label, "key", name),
			zn_path_text(label, "value", value, sizeof(value)));
	if (any)
		zn_term_put(t, "]");
}

/* "job 4712 loses 43 %: 43 % of the time ..." */
static void write_state(struct zn_str job, char *to, size_t cap)
{
	size_t state = zn_cards_weight(job);
	char name[ZN_PANEL_JOB], says[512], span[CELL], more[CELL + 8] = "";

	if (!strcmp(states[state].name, "loses"))
		snprintf(more, sizeof(more), " %.0f %%", zn_value_number(job, "lost_percent"));
	if (!strcmp(states[state].name, "still"))
		snprintf(more, sizeof(more), " for %s", zn_units_span(span, zn_value_seconds(job, "progress_age_s")));
	snprintf(to, cap, "%s%s%s%s: %s", zn_panel_job(job, name), *states[state].says ? " " : "", states[state].says,
		more, zn_path_text(job, "says", says, sizeof(says)));
}

/* In up to so many lines, the first of them as it is and the others set in; how many it took. The last one is cut, and
 * has the labels where there is room. */
static int put_lines(
	struct zn_term *t, enum zn_style style, const char *text, int indent, int most, struct zn_str labels)
{
	int width = zn_watch_at_least_one(t->cols - indent), line = 0;

	for (; *text && line < most; line++) {
		size_t len = line + 1 == most ? strlen(text) : zn_term_break(text, line ? width : t->cols);

		zn_term_style(t, style);
		zn_term_putf(t, "%*s%.*s", line ? indent : 0, "", (int)len, text);
		text += len;
		text += strspn(text, " ");
		if (!*text && labels.len)
			put_labels(t, labels);
		zn_term_end(t);
	}
	return line;
}

/* A job that runs well has one line. */
static int put_state(struct zn_term *t, struct zn_str job, int room)
{
	size_t state = zn_cards_weight(job);
	bool trouble = states[state].style == ZN_STYLE_BAD || states[state].style == ZN_STYLE_WARN;
	int most = trouble && room > LINES ? room - LINES + 1 : 1;
	char text[1024];

	write_state(job, text, sizeof(text));
	return put_lines(t, states[state].style, text, 4, most < SAYS_MAX ? most : SAYS_MAX, job);
}

/* Puts what to do about the first of its causes. */
static int put_next(struct zn_term *t, struct zn_str job, int room)
{
	struct zn_str causes = zn_path_find(job, "causes"), key, cause;
	char text[1024] = "  next: ", next[512];
	size_t at = 0;

	if (room < 1 || !zn_json_next(causes, &at, &key, &cause) || !zn_path_known(cause, "next"))
		return 0;
	snprintf(text, sizeof(text), "  next: %s", zn_path_text(cause, "next", next, sizeof(next)));
	return put_lines(t, ZN_STYLE_PLAIN, text, 4, room < SAYS_MAX ? room : SAYS_MAX, (struct zn_str){0});
}

/* ---- The last 15 minutes. ---- */

static const struct {
	char letter;
	enum zn_style style;
} bands[] = {{'h', ZN_STYLE_BAD}, {'n', ZN_STYLE_CAUSE + ZN_STALL_DIST}, {'d', ZN_STYLE_CAUSE + ZN_STALL_DATA},
	{'i', ZN_STYLE_CAUSE + ZN_STALL_IO}, {'r', ZN_STYLE_CAUSE + ZN_STALL_RUNQUEUE},
	{'c', ZN_STYLE_CAUSE + ZN_STALL_CPU}, {'o', ZN_STYLE_CAUSE + ZN_STALL_OTHER}, {'g', ZN_STYLE_FAINT}};

/* Without colours the letter says what was lost to, instead of how much. */
static void put_column(struct zn_term *t, char letter, char level)
{
	static const char *const blocks[] = {"▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	size_t i = 0;

	while (i < ZN_LEN(bands) && bands[i].letter != letter)
		i++;
	if (i == ZN_LEN(bands) || level < '0' || level > '8') {
		zn_term_style(t, ZN_STYLE_FAINT);
		zn_term_put(t, ".");
		return;
	}
	zn_term_style(t, bands[i].style);
	if (t->color)
		zn_term_put(t, blocks[level - '0']);
	else
		zn_term_putf(t, "%c", letter == 'g' ? '-' : letter);
}

static void put_bands(struct zn_term *t, struct zn_str job)
{
	char line[2 * CELL + 64];

	if (!zn_path_known(job, "bands"))
		return;
	zn_path_text(job, "bands", line, sizeof(line));
	zn_term_put(t, "  15 min ");
	for (size_t at = 0, len = strlen(line); at + 1 < len; at += 2)
		put_column(t, line[at], line[at + 1]);
	zn_term_style(t, ZN_STYLE_FAINT);
	zn_term_put(t, "  h hang n ranks d data i files r CPU c host o idle");
	zn_term_end(t);
}

/* ---- Its ranks. ---- */

struct rank {
	uint64_t pid;
	double number; /* HUGE_VAL: of no communicator */
	bool known;
	bool held; /* it waits for a rank, whatever its call waits for */
	double share[ZN_STALL_COUNT];
	const char *stop; /* why it cannot go on; NULL: it can */
	const char *odd;  /* why it stands out; NULL: it does not */
};

/* Why a process cannot go on. */
static const struct {
	const char *label, *says;
} stops[] = {{"signal", "stopped"}, {"frozen", "in a frozen control group"}, {"uninterruptible", "in state D"}};

static void read_stop(struct rank *r, struct zn_str stalls)
{
	char stop[CELL];

	r->held = r->known && zn_watch_is_held(stalls);
	zn_value_text(stalls, "stopped", stop);
	for (size_t i = 0; r->known && i < ZN_LEN(stops); i++)
		if (!strcmp(stop, stops[i].label))
			r->stop = stops[i].says;
}

static void read_rank(struct rank *r, struct zn_str process)
{
	struct zn_str comms = zn_path_find(process, "nccl.comms"), stalls = zn_path_find(process, "stalls"), key, comm;
	size_t at = 0;
	double most = 0;

	*r = (struct rank){.pid = zn_value_integer(process, "pid"), .number = HUGE_VAL};
	while (zn_json_next(comms, &at, &key, &comm))
		if (zn_value_number(comm, "nranks") > most) {
			most = zn_value_number(comm, "nranks");
			r->number = zn_value_number(comm, "rank");
		}
	r->known = stalls.len && *stalls.at == '{';
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
		double share = r->known ? zn_value_number(stalls, zn_stall_label(s)) : 0;

		r->share[s] = share > 0 && share <= 1 ? share : 0;
	}
	read_stop(r, stalls);
}

static bool is_before(const struct rank *a, const struct rank *b)
{
	return a->number < b->number || (!(a->number > b->number) && a->pid < b->pid);
}

static size_t read_ranks(const struct zn_watch *w, const char *job, struct rank to[RANKS_MAX])
{
	char of[CELL];
	size_t count = 0;

	for (int i = 0; i < w->row_count && count < RANKS_MAX; i++) {
		struct rank r;
		size_t at = count;

		if (strcmp(zn_value_text(w->rows[i].process, "job_id", of), job))
			continue;
		read_rank(&r, w->rows[i].process);
		for (; at && is_before(&r, &to[at - 1]); at--)
			to[at] = to[at - 1];
		to[at] = r;
		count++;
	}
	return count;
}

/* The median of the others' shares of one state. */
static double median_of_others(const struct rank *ranks, size_t count, size_t but, enum zn_stall s)
{
	double sorted[RANKS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		size_t at = n;

		if (i == but || !ranks[i].known || ranks[i].held)
			continue;
		for (; at && sorted[at - 1] > ranks[i].share[s]; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = ranks[i].share[s];
		n++;
	}
	return n ? (sorted[n / 2] + sorted[(n - 1) / 2]) / 2 : 0;
}

static bool is_far(const struct rank *ranks, size_t count, size_t i)
{
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		if (fabs(ranks[i].share[s] - median_of_others(ranks, count, i, s)) > FAR)
			return true;
	return false;
}

/* The same rule as oddRanks() of the page: if half of the ranks are far from the others, there are two kinds of
 * ranks and no odd rank. */
static void mark_odd(struct rank *ranks, size_t count, struct zn_str job)
{
	uint64_t missing = zn_value_integer(job, "missing_pid"), late = zn_value_integer(job, "late_pid");
	bool far[RANKS_MAX] = {false};
	size_t known = 0, odd = 0;

	for (size_t i = 0; i < count; i++) {
		far[i] = ranks[i].known && !ranks[i].held && is_far(ranks, count, i);
		known += ranks[i].known && !ranks[i].held;
		odd += far[i];
	}
	for (size_t i = 0; i < count; i++) {
		if (known >= 3 && 2 * odd < known && far[i])
			ranks[i].odd = "other than the rest";
		if (late && ranks[i].pid == late)
			ranks[i].odd = "late";
		if (missing && ranks[i].pid == missing)
			ranks[i].odd = "does not come";
		if (ranks[i].stop)
			ranks[i].odd = ranks[i].stop;
	}
}

static void put_rank(struct zn_term *t, const struct rank *r)
{
	enum zn_stall most = 0;

	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		if (r->share[s] > r->share[most])
			most = s;
	zn_term_style(t, r->odd ? ZN_STYLE_BAD : ZN_STYLE_PLAIN);
	if (r->number < HUGE_VAL)
		zn_term_putf(t, "  %s%.0f", r->odd ? "!" : "", r->number);
	else
		zn_term_putf(t, "  %s%llu", r->odd ? "!" : "", (unsigned long long)r->pid);
	if (r->held)
		zn_term_putf(t, " waits %.0f%%", 100 * (r->share[ZN_STALL_GPU] + r->share[ZN_STALL_DIST]));
	else if (r->known && !r->stop)
		zn_term_putf(t, " %s %.0f%%", zn_stall_label(most), 100 * r->share[most]);
	if (r->odd)
		zn_term_putf(t, " (%llu, %s)", (unsigned long long)r->pid, r->odd);
}

static void put_ranks(struct zn_watch *w, struct zn_str job)
{
	static struct rank ranks[RANKS_MAX];
	char id[CELL];
	size_t count;

	if (!zn_path_known(job, "job_id"))
		strcpy(id, "-");
	else
		zn_value_text(job, "job_id", id);
	count = read_ranks(w, id, ranks);
	if (!count)
		return;
	mark_odd(ranks, count, job);
	zn_term_put(&w->term, "  ranks ");
	for (int odd = 1; odd >= 0; odd--)
		for (size_t i = 0; i < count; i++)
			if ((ranks[i].odd != NULL) == odd)
				put_rank(&w->term, &ranks[i]);
	zn_term_end(&w->term);
}

/* ---- What seff would say. ---- */

static char *put_share(char to[CELL], struct zn_str job, const char *path)
{
	if (!zn_path_known(job, path))
		return strcpy(to, "-");
	snprintf(to, CELL, "%.0f %%", 100 * zn_json_number(zn_path_find(job, path)));
	return to;
}

static char *put_bytes(char to[CELL], struct zn_str job, const char *path)
{
	return zn_path_known(job, path) ? zn_units_bytes(to, zn_json_integer(zn_path_find(job, path)))
					: strcpy(to, "-");
}

/* Those that run, as far as the line goes. Slurm's own, which waits, says nothing. */
static void put_steps(struct zn_term *t, struct zn_str job)
{
	struct zn_str list = zn_path_find(job, "steps"), key, step;
	char name[CELL], a[CELL], b[CELL];

	for (size_t at = 0; zn_json_next(list, &at, &key, &step);) {
		if (!zn_str_is(zn_path_find(step, "running"), "true") ||
			!strcmp(zn_value_text(step, "name", name), "extern"))
			continue;
		zn_term_putf(t, "  step %s %s %s", name,
			zn_path_known(step, "cpu_seconds") ? zn_units_span(a, zn_value_seconds(step, "cpu_seconds"))
							   : "-",
			put_bytes(b, step, "memory_peak_bytes"));
	}
}

/* False: nothing is known of it. */
static bool put_use(struct zn_watch *w, const char *id)
{
	struct zn_str list = zn_path_find(w->snapshot, "jobs"), key, job;
	char of[CELL], a[CELL], b[CELL], c[CELL];

	for (size_t at = 0; zn_json_next(list, &at, &key, &job);) {
		if (strcmp(zn_value_text(job, "job_id", of), id) || !zn_path_known(job, "cpu"))
			continue;
		zn_term_putf(&w->term, "  CPU %s", put_share(a, job, "cpu.efficiency"));
		if (zn_path_known(job, "cpu.cpus"))
			zn_term_putf(&w->term, " of %.3g", zn_json_number(zn_path_find(job, "cpu.cpus")));
		if (zn_path_known(job, "gpu_utilization"))
			zn_term_putf(&w->term, "  GPU %s", put_share(a, job, "gpu_utilization"));
		zn_term_putf(&w->term, "  memory %s", put_share(a, job, "memory.efficiency"));
		zn_term_putf(&w->term, " of %s: %s, %s with cache of files", put_bytes(b, job, "memory.limit_bytes"),
			put_bytes(a, job, "memory.needed_peak_bytes"), put_bytes(c, job, "memory.peak_bytes"));
		put_steps(&w->term, job);
		zn_term_end(&w->term);
		return true;
	}
	return false;
}

/* ---- All of them. ---- */

/* How many lines it took. */
static int put_job(struct zn_watch *w, struct zn_str job, int room)
{
	int lines = put_state(&w->term, job, room);
	char id[CELL];

	lines += put_next(&w->term, job, room - lines - (LINES - 1));
	if (room - lines < LINES - 1)
		return lines;
	if (room - lines >= LINES && zn_path_known(job, "job_id"))
		lines += put_use(w, zn_value_text(job, "job_id", id));
	put_bands(&w->term, job);
	put_ranks(w, job);
	return lines + LINES - 1;
}

void zn_cards_put(struct zn_watch *w)
{
	struct zn_str list = zn_path_find(w->snapshot, "why"), key, job;
	int share = w->term.rows < SMALL_ROWS ? SCREEN_SHARE + 1 : SCREEN_SHARE, hidden = 0;
	int room = w->term.rows ? zn_watch_at_least_one(w->term.rows / share) : 1 << 20;
	size_t at;

	for (size_t state = 0; state < ZN_LEN(states); state++)
		for (at = 0; zn_json_next(list, &at, &key, &job);) {
			if (zn_cards_weight(job) != state)
				continue;
			if (room > 0)
				room -= put_job(w, job, room);
			else
				hidden++;
		}
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "and %d more jobs: key y", hidden);
}
