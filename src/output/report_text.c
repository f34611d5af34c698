/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_text.c: a report of report.c as people read it: a page of at most 80 columns, and one line. Made from the JSON
 * alone, so that a report that lies in a file reads as one of a running job, and one of another version as far as it
 * goes: what it lacks is "-". All text is plain ASCII.
 */
#include <stdarg.h>
#include <string.h>

#include "zernel.h"

#define COLUMNS  80
#define LINE_MAX 250  /* of the one line */
#define S_MAX    1e12 /* a span that is longer is no span */

/* A cell's text; each returns to. The value is missing or null: "-". */
static char *put_none(char to[ZN_UNITS_CELL])
{
	strcpy(to, "-");
	return to;
}

static double number_at(struct zn_str json, const char *path)
{
	return zn_json_number(zn_path_find(json, path));
}

static uint64_t integer_at(struct zn_str json, const char *path)
{
	return zn_json_integer(zn_path_find(json, path));
}

static char *bytes_at(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? zn_units_bytes(to, integer_at(json, path)) : put_none(to);
}

static char *count_at(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? zn_units_count(to, number_at(json, path)) : put_none(to);
}

static char *span_of(char to[ZN_UNITS_CELL], double s)
{
	if (s < 0 || s > S_MAX)
		return put_none(to);
	if (s >= 60)
		return zn_units_span(to, (uint64_t)s);
	return s > 0 ? zn_units_duration(to, 1e6 * s) : strcpy(to, "0s");
}

static char *span_at(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? span_of(to, number_at(json, path)) : put_none(to);
}

/* Of microseconds, times scale. */
static char *duration_at(char to[ZN_UNITS_CELL], struct zn_str json, const char *path, double scale)
{
	return zn_path_known(json, path) ? zn_units_duration(to, scale * number_at(json, path)) : put_none(to);
}

static char *percent_of(char to[ZN_UNITS_CELL], double share)
{
	if (share < 0 || share > 1)
		return put_none(to);
	snprintf(to, ZN_UNITS_CELL, "%.0f%%", 100 * share);
	return to;
}

static char *percent_at(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	return zn_path_known(json, path) ? percent_of(to, number_at(json, path)) : put_none(to);
}

/* "2026-11-21 11:55:20 UTC" of a time in ISO 8601. */
static char *moment_at(char to[ZN_UNITS_CELL], struct zn_str json, const char *path)
{
	char text[ZN_UNITS_CELL];

	if (strlen(zn_path_text(json, path, text, sizeof(text))) < sizeof("2026-11-21T11:55:20") - 1)
		return put_none(to);
	snprintf(to, ZN_UNITS_CELL, "%.10s %.8s UTC", text, text + 11);
	return to;
}

/* One line, cut at the last column. A report's texts are other people's: whatever is not printable is '?'. */
static void put_line(struct zn_out *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_line(struct zn_out *o, const char *format, ...)
{
	char text[512];
	va_list args;
	size_t len;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	len = strlen(text);
	if (len > COLUMNS) {
		len = COLUMNS;
		memcpy(text + len - 3, "...", 3);
	}
	while (len && text[len - 1] == ' ')
		len--;
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			text[i] = '?';
	zn_out_bytes(o, text, len);
	zn_out_char(o, '\n');
}

static void put_heading(struct zn_out *o, const char *text)
{
	zn_out_char(o, '\n');
	put_line(o, "%s", text);
}

static void put_who(struct zn_out *o, struct zn_str r)
{
	char id[32], name[80], user[64], uid[32], account[80], partition[80], node[80], cluster[80];
	uint64_t restart = integer_at(r, "restart");

	zn_path_text(r, "job_id", id, sizeof(id));
	zn_path_text(r, "name", name, sizeof(name));
	if (restart)
		put_line(o, "Job %s, restarted %llu times: %s", id, (unsigned long long)restart, name);
	else
		put_line(o, "Job %s: %s", id, name);
	put_line(o, "  user %s (uid %s), account %s, partition %s", zn_path_text(r, "user", user, sizeof(user)),
		zn_path_text(r, "uid", uid, sizeof(uid)), zn_path_text(r, "account", account, sizeof(account)),
		zn_path_text(r, "partition", partition, sizeof(partition)));
	put_line(o, zn_path_known(r, "cluster") ? "  on node %s of cluster %s" : "  on node %s",
		zn_path_text(r, "node", node, sizeof(node)), zn_path_text(r, "cluster", cluster, sizeof(cluster)));
	if (zn_str_is(zn_path_find(r, "source"), "\"simulated\""))
		put_line(o, "  SIMULATED: these numbers are made up, no job is behind them");
}

static bool is_true(struct zn_str json, const char *path)
{
	return zn_str_is(zn_path_find(json, path), "true");
}

/* Of all GPUs: the one whose peak was highest, the share of their time that was used, and how many were not at all. */
struct gpu_sums {
	struct zn_str highest; /* empty: there is none, or memory was not measured on one of them */
	double busy_s, all_s;
	unsigned count, unused;
	bool hidden; /* the peak of one is not known */
};

static struct gpu_sums sum_gpus(struct zn_str list)
{
	struct gpu_sums sums = {0};
	struct zn_str key, g;

	for (size_t at = 0; zn_json_next(list, &at, &key, &g); sums.count++) {
		double busy_s = number_at(g, "busy_seconds"), idle_s = number_at(g, "idle_seconds");

		if (!zn_path_known(g, "peak_bytes"))
			sums.hidden = true;
		else if (!sums.highest.len || integer_at(g, "peak_bytes") > integer_at(sums.highest, "peak_bytes"))
			sums.highest = g;
		sums.busy_s += busy_s;
		sums.all_s += busy_s + idle_s;
		sums.unused += is_true(g, "allocated") && zn_path_known(g, "busy_share") && busy_s == 0 && idle_s > 0;
	}
	if (sums.hidden) /* it may be the highest */
		sums.highest = (struct zn_str){0};
	return sums;
}

/* Of what may be more than the whole, as a thread runs on a CPU that its job was not given. */
static char *share_at(char to[ZN_UNITS_CELL], struct zn_str json, const char *path, const char *blank)
{
	double share = zn_path_known(json, path) ? number_at(json, path) : -1;

	if (share < 0 || share > 1e3)
		return put_none(to);
	snprintf(to, ZN_UNITS_CELL, "%.0f%s%%", 100 * share, blank);
	return to;
}

static void gpus_in_a_line(struct zn_out *o, struct zn_str r)
{
	struct gpu_sums sums = sum_gpus(zn_path_find(r, "gpus"));
	char a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL];

	if (!sums.count)
		return;
	put_line(o, "GPU use            %s of the time of %u GPUs, %u unused; at most %s of %s",
		sums.all_s > 0 ? percent_of(a, sums.busy_s / sums.all_s) : put_none(a), sums.count, sums.unused,
		bytes_at(b, sums.highest, "peak_bytes"), bytes_at(c, sums.highest, "total_bytes"));
}

static const char *energy_at(char to[ZN_UNITS_CELL], struct zn_str r, const char *path)
{
	double joules = zn_path_known(r, path) ? number_at(r, path) : -1;

	if (joules < 0)
		return put_none(to);
	if (joules < 3600)
		snprintf(to, ZN_UNITS_CELL, "%.0f J", joules);
	else
		snprintf(to, ZN_UNITS_CELL, "%.*f kWh", joules < 360000 ? 4 : 2, joules / 3.6e6);
	return to;
}

/* Where nothing counts it, nothing is said. */
static void energy_in_a_line(struct zn_out *o, struct zn_str r)
{
	static const char *const parts[] = {
		"energy_joules.gpu", "energy_joules.cpu", "energy_joules.dram", "energy_joules.node"};
	char a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL];
	bool any = false;

	for (size_t i = 0; i < ZN_LEN(parts); i++)
		any |= zn_path_known(r, parts[i]);
	if (any)
		put_line(o, "Energy             GPUs %s, CPUs %s, memory %s, share of the node %s (estimated)",
			energy_at(a, r, parts[0]), energy_at(b, r, parts[1]), energy_at(c, r, parts[2]),
			energy_at(d, r, parts[3]));
}

/* What a user asks first, in the words of seff. A report of an older version has none of it. */
static void put_efficiency(struct zn_out *o, struct zn_str r)
{
	char a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL];

	if (!zn_path_known(r, "cpu") || !zn_path_known(r, "memory"))
		return;
	zn_out_char(o, '\n');
	put_line(o, "CPU efficiency     %s of %s CPUs: %s of CPU time in %s", share_at(a, r, "cpu.efficiency", " "),
		count_at(b, r, "cpu.cpus"), span_at(c, r, "cpu.seconds"), span_at(d, r, "wall_seconds"));
	put_line(o, "Memory efficiency  %s of %s: %s needed at most, %s with cache of files",
		share_at(a, r, "memory.efficiency", " "), bytes_at(b, r, "memory.limit_bytes"),
		bytes_at(c, r, "memory.needed_peak_bytes"), bytes_at(d, r, "memory.peak_bytes"));
	gpus_in_a_line(o, r);
	energy_in_a_line(o, r);
}

static void put_when(struct zn_out *o, struct zn_str r)
{
	char state[32], code[32], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL];

	zn_out_char(o, '\n');
	put_line(o, "  started    %s", moment_at(a, r, "start"));
	if (zn_path_known(r, "end"))
		put_line(o, "  ended      %s, after %s, exit code %s", moment_at(a, r, "end"),
			span_at(b, r, "wall_seconds"), zn_path_text(r, "exit_code", code, sizeof(code)));
	else
		put_line(o, "  state      %s, for %s so far", zn_path_text(r, "state", state, sizeof(state)),
			span_at(b, r, "wall_seconds"));
	if (zn_path_known(r, "measured_since"))
		put_line(o, "  measured   since %s only", moment_at(a, r, "measured_since"));
	put_line(o, "  processes  %s that used a GPU library", count_at(a, r, "processes"));
	put_line(o, "  memory     %s at its peak", bytes_at(a, r, "memory_peak_bytes"));
}

/* What should not go unseen. */
static void gpu_sentence(struct zn_out *o, struct zn_str g)
{
	double share = number_at(g, "busy_share");
	char id[56];

	if (!is_true(g, "allocated") || !zn_path_known(g, "busy_share") || share >= 0.5)
		return;
	zn_path_text(g, "gpu_id", id, sizeof(id));
	if (share > 0)
		put_line(o, "  GPU %.24s was allocated and idle for %.0f %% of the time.", id, 100 * (1 - share));
	else
		put_line(o, "  GPU %.24s was allocated and never used.", id);
}

static void put_gpus(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "gpus"), key, g;
	char id[56], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL], e[ZN_UNITS_CELL];
	size_t at = 0;

	zn_out_char(o, '\n');
	if (!zn_json_next(list, &at, &key, &g)) {
		put_line(o, "No GPU was allocated or used.");
		return;
	}
	put_line(o, "%-24s %8s %8s %5s %15s %15s", "GPU", "PEAK", "OF", "BUSY", "BUSY FOR", "IDLE FOR");
	for (at = 0; zn_json_next(list, &at, &key, &g);)
		put_line(o, "%-24.24s %8s %8s %5s %15s %15s", zn_path_text(g, "gpu_id", id, sizeof(id)),
			bytes_at(a, g, "peak_bytes"), bytes_at(b, g, "total_bytes"), percent_at(c, g, "busy_share"),
			span_at(d, g, "busy_seconds"), span_at(e, g, "idle_seconds"));
	for (at = 0; zn_json_next(list, &at, &key, &g);)
		if (zn_str_is(zn_json_member(g, "gpu_id"), "\"unknown\"")) {
			put_line(o, "  It used a GPU that could not be told: which ones it left idle is not known.");
			return;
		}
	for (at = 0; zn_json_next(list, &at, &key, &g);)
		gpu_sentence(o, g);
}

/* The sum of a list's or an object's numbers: of its items' member, or, without one, of its own values. */
static double sum_of(struct zn_str list, const char *member)
{
	struct zn_str key, value;
	double all = 0;

	for (size_t at = 0; zn_json_next(list, &at, &key, &value);)
		all += number_at(value, member);
	return all;
}

/* The key of the largest number below a limit, which becomes that number; empty: there is none. */
static struct zn_str next_largest(struct zn_str list, double *limit)
{
	struct zn_str key, value, found = {0};
	double most = 0;

	for (size_t at = 0; zn_json_next(list, &at, &key, &value);)
		if (number_at(value, "") < *limit && number_at(value, "") > most) {
			most = number_at(value, "");
			found = key;
		}
	*limit = most;
	return found;
}

/* Adds to a list with commas as long as it fits on a line. */
static void add_to_list(char text[COLUMNS], const char *cell)
{
	size_t len = strlen(text);

	if (len + strlen(cell) + 2 < COLUMNS - 14)
		snprintf(text + len, COLUMNS - len, "%s%s", len ? ", " : "", cell);
}

/* The causes with most of the time first, as many as fit on a line; those below a percent are left out. */
static void thread_time(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "thread_time"), key;
	double seconds = S_MAX, all = sum_of(list, "");
	char text[COLUMNS] = "", cell[ZN_UNITS_CELL];

	while (all > 0 && (key = next_largest(list, &seconds)).len && seconds / all >= 0.01) {
		snprintf(cell, sizeof(cell), "%.0f %% %.*s", 100 * seconds / all, key.len < 10 ? (int)key.len : 10,
			key.at);
		add_to_list(text, cell);
	}
	if (*text)
		put_line(o, "Its threads  %s", text);
}

/* What its processes lost most of their time to, those below a second left out. */
static void lost_to(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "lost_to"), key;
	char text[COLUMNS] = "", cell[ZN_UNITS_CELL], time[ZN_UNITS_CELL];
	double seconds = S_MAX;

	while ((key = next_largest(list, &seconds)).len && seconds >= 1) {
		snprintf(cell, sizeof(cell), "%.*s %.16s", key.len < 20 ? (int)key.len : 20, key.at,
			span_of(time, seconds));
		add_to_list(text, cell);
	}
	if (*text)
		put_line(o, "Lost to      %s", text);
}

/* The phases of its start, longest first, those below a tenth of a second left out. */
static void put_startup(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "startup"), key;
	char text[COLUMNS] = "", cell[ZN_UNITS_CELL], time[ZN_UNITS_CELL];
	double seconds = S_MAX;

	while ((key = next_largest(list, &seconds)).len && seconds >= 0.1) {
		snprintf(cell, sizeof(cell), "%.*s %.16s", key.len < 20 ? (int)key.len : 20, key.at,
			span_of(time, seconds));
		add_to_list(text, cell);
	}
	if (*text)
		put_line(o, "Start-up     %s", text);
}

static void put_cuda(struct zn_out *o, struct zn_str r)
{
	char a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL];

	zn_out_char(o, '\n');
	put_line(o, "Launches     %s: %s kernels, %s graphs, %s cooperative", count_at(a, r, "launches.count"),
		count_at(b, r, "launches.kernel"), count_at(c, r, "launches.graph"),
		count_at(d, r, "launches.cooperative"));
	put_line(o, "             %s more captured into graphs, %s failed", count_at(a, r, "launches.captured"),
		count_at(b, r, "launches.errors"));
	put_line(o, "             each took p50 %s, p99 %s, mean %s", duration_at(a, r, "launch_latency.p50_us", 1),
		duration_at(b, r, "launch_latency.p99_us", 1), duration_at(c, r, "launch_latency.mean_us", 1));
	put_line(o, "Waits        %s for the GPU, %s in all, %s failed", count_at(a, r, "sync_wait.calls"),
		span_at(b, r, "sync_wait.seconds"), count_at(c, r, "sync_wait.errors"));
	thread_time(o, r);
	lost_to(o, r);
	put_startup(o, r);
	put_line(o, "Copies       to the GPU %s, back %s, between GPUs %s, other %s",
		bytes_at(a, r, "memcpy.htod.bytes"), bytes_at(b, r, "memcpy.dtoh.bytes"),
		bytes_at(c, r, "memcpy.dtod.bytes"), bytes_at(d, r, "memcpy.other.bytes"));
	put_line(o, "Allocations  %s of %s in all, %s freed", count_at(a, r, "allocations.calls"),
		bytes_at(b, r, "allocations.bytes"), count_at(c, r, "allocations.frees"));
	if (integer_at(r, "allocations.oom"))
		put_line(o, "  %s allocations failed because the GPU was full.", count_at(a, r, "allocations.oom"));
	if (integer_at(r, "allocations.other_failures"))
		put_line(o, "  %s allocations failed for other reasons.", count_at(a, r, "allocations.other_failures"));
}

static void put_nccl(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "nccl"), key, op;
	char name[32], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL], e[ZN_UNITS_CELL],
		f[ZN_UNITS_CELL];
	size_t at = 0;

	if (integer_at(r, "nccl_init.calls"))
		put_line(o, "NCCL         %s communicators set up in %s", count_at(a, r, "nccl_init.calls"),
			span_at(b, r, "nccl_init.seconds"));
	if (!zn_json_next(list, &at, &key, &op))
		return;
	zn_out_char(o, '\n');
	put_line(o, "%-16s %8s %8s %8s %12s %8s %8s", "NCCL", "CALLS", "BYTES", "ERRORS", "TIME", "P50", "P99");
	for (at = 0; zn_json_next(list, &at, &key, &op);)
		put_line(o, "%-16s %8s %8s %8s %12s %8s %8s", zn_path_text(op, "op", name, sizeof(name)),
			count_at(a, op, "calls"), bytes_at(b, op, "bytes"), count_at(c, op, "errors"),
			span_at(d, op, "seconds"), duration_at(e, op, "p50_ms", 1e3),
			duration_at(f, op, "p99_ms", 1e3));
}

static bool is_whole(struct zn_str ops)
{
	struct zn_str key, op;

	for (size_t at = 0; zn_json_next(ops, &at, &key, &op);)
		if (op.len && op.at[0] == 'n')
			return false;
	return true;
}

/* Of all operations of a mount: a member's sum, or its largest value. */
static double over_ops(struct zn_str ops, const char *member, bool largest)
{
	struct zn_str key, op;
	double all = 0;

	for (size_t at = 0; zn_json_next(ops, &at, &key, &op);) {
		double v = number_at(op, member);

		all = !largest ? all + v : v > all ? v : all;
	}
	return all;
}

static void put_files(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "io"), key, f;
	char mount[64], type[16], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL],
		e[ZN_UNITS_CELL];
	size_t at = 0;

	if (!zn_json_next(list, &at, &key, &f))
		return;
	zn_out_char(o, '\n');
	put_line(o, "%-24s %-8s %8s %8s %9s %8s %8s", "FILES ON", "TYPE", "READ", "WRITTEN", "CALLS", "FAILED", "P99");
	for (at = 0; zn_json_next(list, &at, &key, &f);) {
		struct zn_str ops = zn_path_find(f, "ops");

		bool whole = is_whole(ops);

		put_line(o, "%-24.24s %-8.8s %8s %8s %9s %8s %8s", zn_path_text(f, "mount", mount, sizeof(mount)),
			zn_path_text(f, "fstype", type, sizeof(type)), bytes_at(a, f, "read_bytes"),
			bytes_at(b, f, "write_bytes"),
			whole ? zn_units_count(c, over_ops(ops, "count", false)) : put_none(c),
			whole ? zn_units_count(d, over_ops(ops, "errors", false)) : put_none(d),
			zn_units_duration(e, over_ops(ops, "p99_us", true)));
	}
}

/* "  70 %  train.py:219 in step", under what it does. */
static void lines_of(struct zn_out *o, struct zn_str cause)
{
	struct zn_str list = zn_path_find(cause, "lines"), key, line;
	char says[40], file[160], function[80], number[ZN_UNITS_CELL], share[ZN_UNITS_CELL];
	const char *slash;

	put_line(o, "  %s%s", zn_path_text(cause, "says", says, sizeof(says)),
		is_true(cause, "estimated") ? ", estimated" : "");
	for (size_t at = 0; zn_json_next(list, &at, &key, &line);) {
		zn_path_text(line, "file", file, sizeof(file));
		slash = strrchr(file, '/');
		snprintf(number, sizeof(number), ":%llu", (unsigned long long)integer_at(line, "line"));
		put_line(o, "    %3s %%  %s%s in %s", zn_path_text(line, "percent", share, sizeof(share)),
			slash ? slash + 1 : file, zn_path_known(line, "line") ? number : "",
			zn_path_text(line, "function", function, sizeof(function)));
	}
}

static void put_lines(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "lines"), key, cause;

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &cause); n++) {
		if (!n)
			put_heading(o, "Lines of its programs that did most of what");
		lines_of(o, cause);
	}
}

static void put_steps(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "steps"), key, s;
	char name[32], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL];
	size_t at = 0;

	if (!zn_json_next(list, &at, &key, &s))
		return;
	zn_out_char(o, '\n');
	put_line(o, "%-16s %-23s %-23s %8s %6s", "STEP", "STARTED", "ENDED", "CPU TIME", "MEMORY");
	for (at = 0; zn_json_next(list, &at, &key, &s);)
		put_line(o, "%-16s %-23s %-23s %8s %6s", zn_path_text(s, "name", name, sizeof(name)),
			moment_at(a, s, "start"), moment_at(b, s, "end"), duration_at(d, s, "cpu_seconds", 1e6),
			bytes_at(c, s, "memory_peak_bytes"));
}

/* What programs said of themselves, as far as there was room. */
static void put_labels(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "label_changes"), key, change;
	char name[ZN_ANNOTATION_KEY], value[ZN_ANNOTATION_VALUE], after[ZN_UNITS_CELL], pid[ZN_UNITS_CELL];
	uint64_t start_ms = integer_at(r, "start_ms"), ms;

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &change); n++) {
		if (!n)
			put_heading(o, "What the job said of itself (zernel annotate)");
		ms = integer_at(change, "at_ms");
		zn_units_span(after, ms > start_ms ? (ms - start_ms) / 1000 : 0);
		zn_json_string(zn_path_find(change, "value"), value, sizeof(value));
		put_line(o, "  after %-9s %s=%s (process %s)", after, zn_path_text(change, "key", name, sizeof(name)),
			value, zn_path_text(change, "pid", pid, sizeof(pid)));
	}
}

/* A sentence is longer than a line. */
static void put_sentence(struct zn_out *o, const char *text)
{
	for (size_t len = strlen(text), cut; len; text += cut, len -= cut) {
		cut = len;
		if (len > COLUMNS - 2)
			for (cut = COLUMNS - 2; cut > COLUMNS / 2 && text[cut] != ' ';)
				cut--;
		put_line(o, "  %.*s", (int)cut, text);
		while (text[cut] == ' ')
			cut++;
	}
}

static void put_kills(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "oom_killed"), key, kill;
	char says[ZN_OOM_TEXT], of[ZN_UNITS_CELL];

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &kill); n++) {
		if (!n) {
			zn_out_char(o, '\n');
			put_line(o, "Killed by the kernel: %s in all, the last ones", count_at(of, r, "oom_kills"));
		}
		put_sentence(o, zn_path_text(kill, "says", says, sizeof(says)));
	}
}

static void put_alerts(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "alerts"), key, alert;
	char name[40], of[56], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL];

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &alert); n++) {
		if (!n)
			put_heading(o, "Alerts that fired");
		put_line(o, "  %s of %s, %s times, at first %s", zn_path_text(alert, "alert", name, sizeof(name)),
			zn_path_text(alert, "of", of, sizeof(of)), count_at(a, alert, "times"),
			moment_at(b, alert, "first"));
	}
}

static void put_losses(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "lost"), key, value;
	char a[ZN_UNITS_CELL];

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &value); n++) {
		if (!n)
			put_heading(o, "Lost by the whole node while the job ran");
		put_line(o, "  %.*s %s", (int)(key.len < 40 ? key.len : 40), key.at, count_at(a, value, ""));
	}
}

static void put_gaps(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "not_measured"), key, gap;
	char what[80], why[160];

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &gap); n++) {
		if (!n)
			put_heading(o, "Not measured");
		put_line(o, "  %s: %s", zn_path_text(gap, "what", what, sizeof(what)),
			zn_path_text(gap, "why", why, sizeof(why)));
	}
	if (is_true(r, "truncated"))
		put_line(o, "This report was cut: more was known than fits.");
}

void zn_report_page(struct zn_out *o, struct zn_str json)
{
	static void (*const parts[])(struct zn_out * o, struct zn_str r) = {put_who, put_efficiency, put_when, put_gpus,
		put_cuda, put_nccl, put_files, put_lines, put_steps, put_kills, put_labels, put_alerts, put_losses,
		put_gaps};

	if (zn_json_check(json))
		return;
	for (size_t i = 0; i < ZN_LEN(parts); i++)
		parts[i](o, json);
}

static void line_gpus(struct zn_out *o, struct zn_str r)
{
	struct gpu_sums sums = sum_gpus(zn_path_find(r, "gpus"));
	char cell[ZN_UNITS_CELL];

	zn_out_text(o, "gpus=");
	zn_out_u64(o, sums.count);
	zn_out_text(o, " gpu_peak=");
	zn_out_text(o, bytes_at(cell, sums.highest, "peak_bytes"));
	zn_out_char(o, '/');
	zn_out_text(o, bytes_at(cell, sums.highest, "total_bytes"));
	zn_out_text(o, " gpu_busy=");
	zn_out_text(o, sums.all_s > 0 ? percent_of(cell, sums.busy_s / sums.all_s) : put_none(cell));
	zn_out_text(o, " gpu_unused=");
	zn_out_u64(o, sums.unused);
}

static void put_pair(struct zn_out *o, const char *key, const char *value)
{
	zn_out_char(o, ' ');
	zn_out_text(o, key);
	zn_out_char(o, '=');
	zn_out_text(o, value);
}

/* Over a list; known: what is there, and not null, if it was measured. */
static char *all_bytes(char to[ZN_UNITS_CELL], struct zn_str r, const char *known, const char *list, const char *member)
{
	double all = sum_of(zn_path_find(r, list), member);

	if (!zn_path_known(r, known) || all < 0 || all >= 0x1p63)
		return put_none(to);
	return zn_units_bytes(to, (uint64_t)all);
}

/* Over all mounts. Some may be missing if calls of this operation were lost. */
static char *file_bytes(char to[ZN_UNITS_CELL], struct zn_str r, const char *op, const char *member)
{
	struct zn_str list = zn_path_find(r, "io_lost"), key, value;
	char lost[16];

	for (size_t at = 0; zn_json_next(list, &at, &key, &value);)
		if (!strcmp(zn_path_text(value, "", lost, sizeof(lost)), op))
			return put_none(to);
	return all_bytes(to, r, "io", "io", member);
}

void zn_report_line(struct zn_out *o, struct zn_str json)
{
	char text[LINE_MAX], cell[ZN_UNITS_CELL];
	struct zn_out to = {.at = text, .cap = sizeof(text)};

	if (zn_json_check(json))
		return;
	if (zn_path_known(json, "cpu")) {
		zn_out_text(&to, "cpu_eff=");
		zn_out_text(&to, share_at(cell, json, "cpu.efficiency", ""));
		put_pair(&to, "mem_eff", share_at(cell, json, "memory.efficiency", ""));
		zn_out_char(&to, ' ');
	}
	line_gpus(&to, json);
	put_pair(&to, "mem_peak", bytes_at(cell, json, "memory_peak_bytes"));
	put_pair(&to, "launches", count_at(cell, json, "launches.count"));
	put_pair(&to, "p99", duration_at(cell, json, "launch_latency.p99_us", 1));
	/* a span of a minute has spaces in it */
	put_pair(&to, "sync",
		number_at(json, "sync_wait.seconds") < 60 ? span_at(cell, json, "sync_wait.seconds")
							  : duration_at(cell, json, "sync_wait.seconds", 1e6));
	put_pair(&to, "nccl", all_bytes(cell, json, "nccl_init", "nccl", "bytes")); /* its list is there in any case */
	put_pair(&to, "read", file_bytes(cell, json, "read", "read_bytes"));
	put_pair(&to, "written", file_bytes(cell, json, "write", "write_bytes"));
	put_pair(&to, "oom", count_at(cell, json, "allocations.oom"));
	put_pair(&to, "lost",
		zn_path_known(json, "lost") ? zn_units_count(cell, sum_of(zn_path_find(json, "lost"), ""))
					    : put_none(cell));
	if (zn_path_known(json, "measured_since"))
		put_pair(&to, "measured", "partly");
	zn_out_bytes(o, text, to.len);
}
