/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_serving.c: the view of `zernel watch` on what is served: of each server how fast it answered, now and over 15
 * minutes, what its requests wait for where they are unusually slow, and the slowest of them.
 */
#include "zernel.h"
#include <string.h>

#define CELL       ZN_UNITS_CELL
#define LINE_COLS  60
#define NAME_WIDTH 14

static const struct {
	const char *title, *of;
} signals[] = {{"first event", "first_event"}, {"between events", "event_gap"}, {"whole request", "duration"}};

/* What of its requests is read, as its budget has no room for more. */
static void put_sampled(struct zn_watch *w, struct zn_str server)
{
	if (!zn_path_known(server, "sampled.requests.now"))
		return;
	zn_term_style(&w->term, ZN_STYLE_WARN);
	zn_term_putf(
		&w->term, ", measured in %.3g %% of the time", 100 * zn_value_number(server, "sampled.requests.now"));
	zn_term_style(&w->term, ZN_STYLE_PLAIN);
}

static void put_title(struct zn_watch *w, struct zn_str server)
{
	char comm[CELL], pid[CELL], service[CELL], rate[CELL], flight[CELL];
	double in_flight = zn_value_sum(zn_path_find(server, "routes"), "in_flight");

	zn_value_text(server, "pid", pid);
	zn_value_text(server, "service", service);
	zn_term_style(&w->term, ZN_STYLE_BOLD);
	zn_term_putf(&w->term, "%s, process %s", zn_value_text(server, "comm", comm), pid);
	zn_term_style(&w->term, ZN_STYLE_PLAIN);
	if (strcmp(pid, service))
		zn_term_putf(&w->term, ", service %s", service);
	zn_term_putf(&w->term, ": %s in flight", zn_units_count(flight, in_flight));
	if (zn_path_known(server, "step.rate"))
		zn_term_putf(&w->term, ", %s requests/s", zn_units_count(rate, zn_value_number(server, "step.rate")));
	if (zn_value_number(server, "step.errors") > 0)
		zn_term_putf(&w->term, ", %s/s answered by 5xx",
			zn_units_count(rate, zn_value_number(server, "step.errors")));
	put_sampled(w, server);
	zn_term_end(&w->term);
}

/* A terminal that has no colors may have no blocks. */
static void put_levels(struct zn_term *t, const char *levels)
{
	static const char *const blocks[] = {"▁", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

	for (int i = 0; levels[i] && i < LINE_COLS; i++)
		zn_term_put(t, levels[i] < '0' || levels[i] > '8' ? " " : blocks[levels[i] - '0']);
}

static const char *put_quantile(struct zn_str server, const char *of, const char *quantile, char to[CELL])
{
	char path[CELL];
	double ms;

	snprintf(path, sizeof(path), "step.%s_%s_ms", of, quantile);
	ms = zn_value_number(server, path);
	if (!zn_path_known(server, path) || ms <= 0)
		return "-";
	return zn_units_duration(to, 1000 * ms);
}

static void put_signal(struct zn_watch *w, struct zn_str server, size_t i)
{
	struct zn_term *t = &w->term;
	char p50[CELL], p99[CELL], path[CELL], levels[LINE_COLS + 1];
	double highest;

	snprintf(path, sizeof(path), "p99_lines.%s.highest_ms", signals[i].of);
	highest = zn_value_number(server, path);
	zn_term_put(t, "  ");
	zn_term_cell(t, signals[i].title, NAME_WIDTH);
	zn_term_putf(t, "  p50 %7s  p99 %7s", put_quantile(server, signals[i].of, "p50", p50),
		put_quantile(server, signals[i].of, "p99", p99));
	if (highest > 0) {
		zn_term_putf(t, "  15 min up to %7s ", zn_units_duration(p99, 1000 * highest));
		snprintf(path, sizeof(path), "p99_lines.%s.levels", signals[i].of);
		if (t->color)
			put_levels(t, zn_path_text(server, path, levels, sizeof(levels)));
	}
	zn_term_end(t);
}

static void put_waits(struct zn_watch *w, struct zn_str server)
{
	static const char *const of[] = {"waits.first_event.says", "waits.event_gap.says"};
	char says[512];

	for (size_t i = 0; i < ZN_LEN(of); i++)
		if (zn_path_find(server, of[i]).len > 2) /* more than its quotes */
			zn_watch_put_wrapped(w, ZN_STYLE_WARN, 2, zn_path_text(server, of[i], says, sizeof(says)));
}

static void put_slow(struct zn_watch *w, struct zn_str r)
{
	struct zn_term *t = &w->term;
	char route[CELL], code[CELL], took[CELL], first[CELL] = "-", events[CELL], waited[256];

	zn_term_put(t, "    ");
	zn_units_duration(took, 1000 * zn_value_number(r, "duration_ms"));
	if (zn_path_known(r, "first_event_ms"))
		zn_units_duration(first, 1000 * zn_value_number(r, "first_event_ms"));
	zn_term_cell(t, zn_value_text(r, "route", route), 22);
	zn_term_putf(t, " %-7s %7s %7s %6s  ", zn_value_text(r, "code", code), took, first,
		zn_value_text(r, "events", events));
	zn_path_text(r, "waited", waited, sizeof(waited));
	zn_term_putf(t, "%s%s", waited, zn_value_is_false(r, "exact") ? "" : ", alone");
	zn_term_end(t);
}

static void put_slowest(struct zn_watch *w, struct zn_str server)
{
	struct zn_str slowest = zn_path_find(server, "slowest"), key, r;
	bool any = false;

	for (size_t at = 0; zn_json_next(slowest, &at, &key, &r); any = true) {
		if (!any && zn_watch_shows_line(w))
			zn_term_line(&w->term, ZN_STYLE_FAINT, "    %-22s %-7s %7s %7s %6s  %s", "SLOWEST", "ENDED",
				"TOOK", "FIRST", "EVENTS", "WAITED");
		if (zn_watch_shows_line(w))
			put_slow(w, r);
	}
}

void zn_serving_view_items(struct zn_watch *w, const struct view *v, const int *widths)
{
	struct zn_str servers = zn_path_find(w->snapshot, "servers"), key, server;

	(void)v, (void)widths;
	for (size_t at = 0; zn_json_next(servers, &at, &key, &server);) {
		if (zn_watch_shows_line(w))
			put_title(w, server);
		put_waits(w, server);
		for (size_t i = 0; i < ZN_LEN(signals); i++)
			if (zn_watch_shows_line(w))
				put_signal(w, server, i);
		put_slowest(w, server);
	}
}
