/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_jobs.c: the jobs on top of the screen of `zernel watch`: the state and the first cause of each, the last 15
 * minutes as one line, and its ranks beside each other.
 *
 * Limits: the first 64 ranks of a job are compared.
 */
#include "zernel.h"

#include <math.h>
#include <string.h>

#define CELL      ZN_UNITS_CELL
#define LINES     3 /* of a job */
#define RANKS_MAX 64
#define FAR       0.25 /* of its time: so far from the others' median is far */

/* Most trouble first. */
static const struct {
	const char *name, *says;
	enum zn_style style;
} states[] = {
	{"hangs", "hangs", ZN_STYLE_BAD},
	{"still", "stands still", ZN_STYLE_BAD},
	{"critical", "in trouble", ZN_STYLE_BAD},
	{"loses", "loses", ZN_STYLE_WARN},
	{"warned", "runs, with a warning", ZN_STYLE_WARN},
	{"idle", "idle", ZN_STYLE_WARN},
	{"unknown", "", ZN_STYLE_PLAIN},
	{"starting", "starting", ZN_STYLE_PLAIN},
	{"runs", "running fine", ZN_STYLE_GOOD},
	{"", "", ZN_STYLE_WARN},
};

static size_t state_of(struct zn_str job)
{
	char state[CELL];
	size_t i = 0;

	zn_value_text(job, "state", state);
	while (i + 1 < ZN_LEN(states) && strcmp(states[i].name, state))
		i++;
	return i;
}

/* What its programs said of themselves. */
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

static void put_state(struct zn_term *t, struct zn_str job)
{
	size_t state = state_of(job);
	char name[ZN_PANEL_JOB], says[512], span[CELL];

	zn_term_style(t, states[state].style);
	zn_term_putf(t, "%s%s%s", zn_panel_job(job, name), *states[state].says ? " " : "", states[state].says);
	if (!strcmp(states[state].name, "loses"))
		zn_term_putf(t, " %.0f %%", zn_value_number(job, "lost_percent"));
	if (!strcmp(states[state].name, "still"))
		zn_term_putf(t, " for %s", zn_units_span(span, zn_value_seconds(job, "progress_age_s")));
	zn_term_putf(t, ": %s", zn_path_text(job, "says", says, sizeof(says)));
	put_labels(t, job);
	zn_term_end(t);
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
	double share[ZN_STALL_COUNT];
	const char *odd; /* why it stands out; NULL: it does not */
};

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

/* Of the others' shares of one state. */
static double median_of_others(const struct rank *ranks, size_t count, size_t but, enum zn_stall s)
{
	double sorted[RANKS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		size_t at = n;

		if (i == but || !ranks[i].known)
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
		far[i] = ranks[i].known && is_far(ranks, count, i);
		known += ranks[i].known;
		odd += far[i];
	}
	for (size_t i = 0; i < count; i++) {
		if (known >= 3 && 2 * odd < known && far[i])
			ranks[i].odd = "other than the rest";
		if (late && ranks[i].pid == late)
			ranks[i].odd = "late";
		if (missing && ranks[i].pid == missing)
			ranks[i].odd = "does not come";
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
	if (r->known)
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

/* ---- All of them. ---- */

static void put_job(struct zn_watch *w, struct zn_str job, int room)
{
	put_state(&w->term, job);
	if (room >= LINES) {
		put_bands(&w->term, job);
		put_ranks(w, job);
	}
}

void zn_cards_put(struct zn_watch *w)
{
	struct zn_str list = zn_path_find(w->snapshot, "why"), key, job;
	int room = w->term.rows ? zn_watch_at_least_one(w->term.rows / 4) : 1 << 20, hidden = 0;
	size_t at;

	for (size_t state = 0; state < ZN_LEN(states); state++)
		for (at = 0; zn_json_next(list, &at, &key, &job);) {
			if (state_of(job) != state)
				continue;
			if (room > 0)
				put_job(w, job, room);
			else
				hidden++;
			room -= room >= LINES ? LINES : 1;
		}
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "and %d more jobs: key y", hidden);
}
