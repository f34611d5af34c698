/* SPDX-License-Identifier: GPL-2.0 */
/* watch_panels.c: the upper part of the screen of `zernel watch`: the node, alerts, idle jobs, GPUs, ports, probes,
 * losses. */
#include "zernel.h"

#include <limits.h>
#include <string.h>

#define CELL       ZN_UNITS_CELL
#define SILENCE_NS (3 * ZN_NS_PER_S) /* after this the last answer is no longer shown as live */

/* How many lines a list may take: one in `part` of the screen. */
static int lines_of(const struct zn_term *t, int part)
{
	return t->rows ? zn_watch_at_least_one(t->rows / part) : INT_MAX;
}

void zn_panel_header(struct zn_watch *w)
{
	char node[CELL], source[CELL], version[CELL], up[CELL] = "-", at[CELL];
	struct zn_str s = w->snapshot;

	if (zn_path_known(s, "uptime_s"))
		zn_units_span(up, zn_value_integer(s, "uptime_s"));
	zn_term_style(&w->term, ZN_STYLE_BOLD);
	zn_term_put(&w->term, zn_value_text(s, "node", node));
	zn_term_style(&w->term, ZN_STYLE_PLAIN);
	zn_term_putf(&w->term, "  %s  zerneld %s  up %s  data of %s", zn_value_text(s, "source", source),
		zn_value_text(s, "version", version), up, zn_units_clock(at, w->data_ms));
	zn_term_end(&w->term);
}

/* Says since when there is nothing new; false while the data is live. */
bool zn_panel_is_stale(const struct zn_watch *w, char to[256])
{
	uint64_t limit_ns = SILENCE_NS, interval_ms = zn_value_integer(w->snapshot, "interval_ms");
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

void zn_panel_alert(struct zn_term *t, struct zn_str alert, const char *state)
{
	char name[CELL], severity[CELL], gpu[CELL], value[CELL], limit[CELL], since[CELL], summary[512];
	bool firing = *state == 'f';

	zn_term_style(t, firing ? ZN_STYLE_BAD : *state == 'p' ? ZN_STYLE_WARN : ZN_STYLE_PLAIN);
	zn_term_putf(t, "%s %s %s", firing ? "FIRING " : state, zn_value_text(alert, "severity", severity),
		zn_value_text(alert, "alert", name));
	if (zn_path_known(alert, "gpu_id"))
		zn_term_putf(t, " gpu %s", zn_value_text(alert, "gpu_id", gpu));
	zn_term_putf(t, " since %s: %s", zn_units_clock(since, zn_value_integer(alert, "since_ms")),
		zn_path_text(alert, "summary", summary, sizeof(summary)));
	if (zn_path_known(alert, "threshold"))
		zn_term_putf(t, " (value %s, threshold %s)", zn_value_text(alert, "value", value),
			zn_value_text(alert, "threshold", limit));
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
		if (strcmp(zn_value_text(alert, "state", text), state))
			continue;
		if (*room > 0)
			zn_panel_alert(t, alert, state);
		else
			hidden++;
		*room -= *room > 0;
	}
	return hidden;
}

void zn_panel_alerts(struct zn_watch *w)
{
	struct zn_str alerts = zn_path_find(w->snapshot, "alerts");
	int room = lines_of(&w->term, 8), hidden;

	hidden = put_alerts_in(&w->term, alerts, "firing", &room);
	hidden += put_alerts_in(&w->term, alerts, "pending", &room);
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_WARN, "and %d more alerts", hidden);
}

const char *zn_panel_job(struct zn_str why, char to[ZN_PANEL_JOB])
{
	char id[CELL];

	if (!zn_path_known(why, "job_id"))
		return "processes of no job";
	snprintf(to, ZN_PANEL_JOB, "job %s", zn_value_text(why, "job_id", id));
	return to;
}

void zn_panel_idle(struct zn_watch *w)
{
	struct zn_str jobs = zn_path_find(w->snapshot, "jobs"), key, job;
	int room = lines_of(&w->term, 8), hidden = 0;
	char id[CELL], user[CELL], idle[512];
	size_t at = 0;

	while (zn_json_next(jobs, &at, &key, &job)) {
		if (!zn_watch_idle_gpus(job, idle, sizeof(idle)))
			continue;
		if (room-- > 0)
			zn_term_line(&w->term, ZN_STYLE_BAD, "IDLE    job %s of %s has GPUs that it does not use: %s",
				zn_value_text(job, "job_id", id), zn_value_text(job, "user", user), idle);
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

/* The bar is filled up to what is used; a line shows where the peak was. total is not 0. */
static void put_bar(struct zn_term *t, int width, struct zn_str gpu, uint64_t total)
{
	uint64_t used = zn_value_integer(gpu, "used_bytes");
	int full = bar_cells(used, total, width), peak = bar_cells(zn_value_integer(gpu, "peak_bytes"), total, width);
	double percent = 100 * (double)used / (double)total;

	zn_term_style(t, percent >= 95 ? ZN_STYLE_BAD : percent >= 80 ? ZN_STYLE_WARN : ZN_STYLE_GOOD);
	for (int i = 0; i < width; i++)
		zn_term_put(t, i < full ? "█" : i == peak - 1 ? "│" : "░");
	zn_term_style(t, ZN_STYLE_PLAIN);
	zn_term_putf(t, " %3.0f%%  ", percent < 999 ? percent : 999);
}

static const char *memory_text(struct zn_str object, const char *path, char to[CELL])
{
	if (!zn_path_known(object, path))
		return "-";
	return zn_units_bytes(to, zn_value_integer(object, path));
}

static void put_gpu(struct zn_term *t, struct zn_str gpu)
{
	char id[CELL], used[CELL], peak[CELL], total[CELL], users[CELL];
	int width = t->cols > 94 ? 40 : t->cols - 54;
	uint64_t size = zn_value_integer(gpu, "total_bytes");

	zn_term_put(t, "GPU ");
	zn_term_cell(t, zn_value_text(gpu, "gpu_id", id), zn_term_columns(id) > 2 ? 12 : 2);
	zn_term_put(t, " ");
	if (size && zn_path_known(gpu, "used_bytes"))
		put_bar(t, width < 6 ? 6 : width, gpu, size);
	if (zn_value_is_false(gpu, "memory_complete")) {
		zn_term_putf(t, "not known, of %s: a process used it before the daemon came",
			size ? zn_units_bytes(total, size) : "unknown size");
		zn_term_end(t);
		return;
	}
	zn_value_text(gpu, "processes", users);
	zn_term_putf(t, "%s of %s  peak %s  %s process%s", memory_text(gpu, "used_bytes", used),
		size ? zn_units_bytes(total, size) : "unknown size", memory_text(gpu, "peak_bytes", peak), users,
		strcmp(users, "1") ? "es" : "");
	zn_term_end(t);
}

/* Puts its use and its state, as far as a source says them. Returns how many lines that takes. */
static int put_state(struct zn_term *t, struct zn_str gpu)
{
	static const struct {
		const char *path, *format;
		double times;
	} figures[] = {{"device.utilization", "  %.0f%% busy", 100}, {"device.power_watts", "  %.0f W", 1},
		{"device.temperature_celsius", "  %.0f °C", 1}, {"device.clock_hertz", "  %.0f MHz", 1e-6}};
	struct zn_str by = zn_path_find(gpu, "device.throttled_by"), key, reason;
	double width =
		zn_path_known(gpu, "device.link_width_ratio") ? zn_value_number(gpu, "device.link_width_ratio") : 1;
	char name[CELL];
	size_t at = 0;
	bool lost = zn_value_number(gpu, "device.lost") > 0, any = width < 1 || lost;

	for (size_t i = 0; i < ZN_LEN(figures); i++)
		any |= zn_path_known(gpu, figures[i].path);
	if (!any)
		return 0;
	zn_term_put(t, "     ");
	for (size_t i = 0; i < ZN_LEN(figures); i++)
		if (zn_path_known(gpu, figures[i].path))
			zn_term_putf(t, figures[i].format, figures[i].times * zn_value_number(gpu, figures[i].path));
	zn_term_style(t, ZN_STYLE_BAD);
	if (lost)
		zn_term_put(t, "  lost: it has fallen off the bus, or must be reset");
	while (zn_json_next(by, &at, &key, &reason))
		zn_term_putf(t, "  throttled: %s", zn_value_text(reason, "", name));
	if (width < 1)
		zn_term_putf(t, "  PCIe: %.0f%% of its lanes", 100 * width);
	zn_term_end(t);
	return 1;
}

void zn_panel_gpus(struct zn_watch *w)
{
	struct zn_str gpus = zn_path_find(w->snapshot, "gpus"), key, gpu;
	int room = lines_of(&w->term, 3), count = 0, hidden = 0;
	size_t at = 0;

	for (; zn_json_next(gpus, &at, &key, &gpu); count++) {
		if (room <= 0) {
			hidden++;
			continue;
		}
		put_gpu(&w->term, gpu);
		room -= 1 + put_state(&w->term, gpu);
	}
	if (count == 0)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "GPU -  no GPU memory seen yet");
	else if (hidden)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "and %d more GPUs", hidden);
}

/* ---- Ports of InfiniBand and RoCE. ---- */

static uint64_t errors_of(struct zn_str port)
{
	struct zn_str list = zn_path_find(port, "errors"), key, n;
	uint64_t sum = 0;

	for (size_t at = 0; zn_json_next(list, &at, &key, &n);)
		sum += zn_json_integer(n);
	return sum;
}

/* Those in trouble come first. */
static bool is_port_bad(struct zn_str port)
{
	return zn_value_is_false(port, "active") || errors_of(port);
}

static void put_port(struct zn_term *t, struct zn_str port)
{
	struct zn_str list = zn_path_find(port, "errors"), key, n;
	char device[CELL], number[CELL], link[CELL], a[CELL], b[CELL];

	zn_term_style(t, is_port_bad(port) ? ZN_STYLE_BAD : ZN_STYLE_PLAIN);
	zn_term_putf(t, "port %s/%s %s", zn_value_text(port, "device", device), zn_value_text(port, "port", number),
		zn_value_text(port, "link", link));
	zn_term_put(t, zn_value_is_false(port, "active") ? " down" : " active");
	if (zn_path_known(port, "rate_mbit"))
		zn_term_putf(t, " %.3g Gb/s", zn_value_number(port, "rate_mbit") / 1000);
	zn_term_putf(t, "  sent %s  received %s", memory_text(port, "bytes.sent", a),
		memory_text(port, "bytes.received", b));
	for (size_t at = 0; zn_json_next(list, &at, &key, &n);)
		if (zn_json_integer(n))
			zn_term_putf(t, "  %llu %.*s", (unsigned long long)zn_json_integer(n),
				key.len < 32 ? (int)key.len : 32, key.at);
	zn_term_end(t);
}

void zn_panel_ports(struct zn_watch *w)
{
	struct zn_str list = zn_path_find(w->snapshot, "ports"), key, port;
	int room = lines_of(&w->term, 8), hidden = 0;

	for (int bad = 1; bad >= 0; bad--)
		for (size_t at = 0; zn_json_next(list, &at, &key, &port);) {
			if (is_port_bad(port) != bad)
				continue;
			if (room-- > 0)
				put_port(&w->term, port);
			else
				hidden++;
		}
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_PLAIN, "and %d more ports", hidden);
}

/* The figures of the whole node: as many on a line as fit. */
static void put_node(struct zn_watch *w)
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
			zn_units_duration(value, figures[i].us * zn_value_number(w->snapshot, figures[i].path)));

		if (t->col > 0 && t->col + 2 + len > t->cols)
			zn_term_end(t);
		zn_term_putf(t, "%s%s", t->col > 0 ? "  " : "", text);
	}
	if (zn_path_known(w->snapshot, "gpu_ioctl.contention"))
		zn_term_putf(
			t, "  GPU driver contended %.0f%%", 100 * zn_value_number(w->snapshot, "gpu_ioctl.contention"));
	zn_term_end(t);
}

static void put_probes(struct zn_watch *w)
{
	struct zn_str probes = zn_path_find(w->snapshot, "probes"), key, probe;
	char family[CELL], state[CELL], why[512];
	int room = lines_of(&w->term, 8), hidden = 0;
	size_t at = 0;

	while (zn_json_next(probes, &at, &key, &probe)) {
		zn_value_text(probe, "state", state);
		if (!strcmp(state, "attached") || !strcmp(state, "simulated"))
			continue;
		if (room-- > 0)
			zn_term_line(&w->term, *state == 'u' ? ZN_STYLE_WARN : ZN_STYLE_FAINT,
				"not attached: %s (%s): %s", zn_value_text(probe, "family", family), state,
				zn_path_text(probe, "why", why, sizeof(why)));
		else
			hidden++;
	}
	if (hidden)
		zn_term_line(&w->term, ZN_STYLE_FAINT, "and %d more that are not attached", hidden);
}

static void put_losses(struct zn_watch *w)
{
	struct zn_str lost = zn_path_find(w->snapshot, "lost"), key, value;
	char name[CELL], count[CELL];
	bool any = false;
	size_t at = 0;

	while (zn_json_next(lost, &at, &key, &value)) {
		if (!(zn_json_number(value) > 0))
			continue;
		zn_term_style(&w->term, ZN_STYLE_WARN);
		snprintf(name, sizeof(name), "%.*s", key.len < CELL ? (int)key.len : CELL - 1, key.at ? key.at : "");
		zn_term_putf(&w->term, "%s%s %s", any ? ", " : "lost: ", name, zn_value_text(value, "", count));
		any = true;
	}
	if (any)
		zn_term_end(&w->term);
}

void zn_panel_help(struct zn_term *t)
{
	static const char *const lines[] = {
		"q, Ctrl-C       quit            ?  this help, and back",
		"Tab             the next view; or at once: t processes, n NCCL, w waits,",
		"                s signals, i file I/O, b jobs, r requests, v serving, y why,",
		"                a alerts, h hooks and what is not attached, x losses",
		"p m l 9         sort by pid, GPU memory, launches per second, p99 of the launch",
		"up down, k j    scroll; page up and page down by a screen",
		"",
		"LNCH/s          kernel launches per second, now and over the last minute",
		"p50 p99         time the host spends in a launch: half, and 99 of 100, take no",
		"                longer; of the last seconds, or since the process began",
		"NCCL, NCCL99    NCCL calls so far; the largest p99 among the operations",
		"SYNC, LOAD      the host's waits for the GPU, and for the data loader",
		"BUSY, IDLE      share of time a job used its GPUs; those unused for a minute",
		"SYS/L, SW/L     system calls and context switches per launch, over the last",
		"                tick; IOCT99: calls of the GPU's driver, RUNQ99: waits for a CPU",
		"TTFT, GAP, DUR  of requests, of the last half minute to a minute: to the first",
		"                event, between events, whole; FLY: in flight, ERR: answered by 5xx",
		"READ99, WRIT99  p99 of calls on files since the mount was first used",
		"cpu to othr     where the launching thread's time went; the bar shows it",
		"15 min, ranks   a job's last 15 minutes, height: time lost; ! marks its odd rank",
		"GPU bars        filled: used now; the line: the peak",
		"-               there is no measurement",
	};

	for (size_t i = 0; i < ZN_LEN(lines); i++)
		zn_term_line(t, ZN_STYLE_PLAIN, "%s", lines[i]);
}

void zn_panel_details(struct zn_watch *w)
{
	put_node(w);
	put_probes(w);
	put_losses(w);
}
