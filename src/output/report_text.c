/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_text.c: a report of report.c as people read it: a page of at most 80 columns, made from the JSON
 * alone, so that a report that lies in a file reads as one of a running job, and one of another version as far as it
 * goes: what it lacks is "-". All text is plain ASCII.
 */
#include <stdarg.h>
#include <string.h>

#include "zernel.h"

#define COLUMNS 80

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
	uint64_t restart = zn_sheet_integer(r, "restart");

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

/* Adds to a list with commas as long as it is narrower than a width. */
static void add_to_list(char text[COLUMNS], size_t width, const char *cell)
{
	size_t len = strlen(text);

	if (len + strlen(cell) + 2 < width)
		snprintf(text + len, COLUMNS - len, "%s%s", len ? ", " : "", cell);
}

static void gpus_in_a_line(struct zn_out *o, struct zn_str r)
{
	struct zn_gpu_sums sums = zn_sheet_gpus(zn_path_find(r, "gpus"));
	char a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL];

	if (sums.count)
		put_line(o, "GPU use            %s of the time of %u GPUs, %u unused; at most %s of %s",
			sums.all_s > 0 ? zn_sheet_percent_of(a, sums.busy_s / sums.all_s) : zn_sheet_none(a),
			sums.count, sums.unused, zn_sheet_bytes(b, sums.highest, "peak_bytes"),
			zn_sheet_bytes(c, sums.highest, "total_bytes"));
	else
		put_line(o, "GPU use            no GPU was used, or is known to be its own");
}

/* A report of an older version says nothing of it. */
static void energy_in_a_line(struct zn_out *o, struct zn_str r)
{
	static const struct {
		const char *what, *path;
	} parts[] = {{"GPUs", "energy_joules.gpu"}, {"CPUs", "energy_joules.cpu"}, {"memory", "energy_joules.dram"},
		{"node", "energy_joules.node"}};
	char text[COLUMNS] = "", cell[ZN_UNITS_CELL], one[2 * ZN_UNITS_CELL];

	if (!zn_path_known(r, "energy_joules"))
		return;
	for (size_t i = 0; i < ZN_LEN(parts); i++) {
		snprintf(one, sizeof(one), "%s %s", parts[i].what, zn_sheet_energy(cell, r, parts[i].path));
		if (zn_path_known(r, parts[i].path))
			add_to_list(text, sizeof(text), one);
	}
	if (*text)
		put_line(o, "Energy, estimated  %s", text);
	else
		put_line(o, "Energy             nothing on this node counts it");
}

/* The key of the largest number below a limit, which becomes that number; empty: there is none. */
static struct zn_str next_largest(struct zn_str list, double *limit)
{
	struct zn_str key, value, found = {0};
	double most = 0;

	for (size_t at = 0; zn_json_next(list, &at, &key, &value);)
		if (zn_sheet_number(value, "") < *limit && zn_sheet_number(value, "") > most) {
			most = zn_sheet_number(value, "");
			found = key;
		}
	*limit = most;
	return found;
}

/* The members of an object that are spans of time, longest first, as many as fit behind what they are; those below a
 * least one are left out. */
static void put_spans(struct zn_out *o, struct zn_str list, const char *what, double least)
{
	char text[COLUMNS] = "", cell[ZN_UNITS_CELL], time[ZN_UNITS_CELL];
	double seconds = ZN_SHEET_SPAN_MAX;
	struct zn_str key;

	while ((key = next_largest(list, &seconds)).len && seconds >= least) {
		snprintf(cell, sizeof(cell), "%.*s %.16s", key.len < 20 ? (int)key.len : 20, key.at,
			zn_sheet_span_of(time, seconds));
		add_to_list(text, COLUMNS - 1 - strlen(what), cell);
	}
	if (*text)
		put_line(o, "%s%s", what, text);
}

/* What its processes lost most of their time to. */
static void lost_to(struct zn_out *o, struct zn_str r)
{
	put_spans(o, zn_path_find(r, "lost_to"), "Lost to            ", 1);
}

/* What a user asks first, in the words of seff, and then why. A report of an older version has none of it. */
static void put_efficiency(struct zn_out *o, struct zn_str r)
{
	char a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL];

	if (!zn_path_known(r, "cpu") || !zn_path_known(r, "memory"))
		return;
	zn_out_char(o, '\n');
	put_line(o, "CPU efficiency     %s of %s CPUs: %s of CPU time in %s",
		zn_sheet_share(a, r, "cpu.efficiency", " "), zn_sheet_count(b, r, "cpu.cpus"),
		zn_sheet_span(c, r, "cpu.seconds"), zn_sheet_span(d, r, "wall_seconds"));
	put_line(o, "Memory efficiency  %s of %s: %s needed at most, %s with cache of files",
		zn_sheet_share(a, r, "memory.efficiency", " "), zn_sheet_bytes(b, r, "memory.limit_bytes"),
		zn_sheet_bytes(c, r, "memory.needed_peak_bytes"), zn_sheet_bytes(d, r, "memory.peak_bytes"));
	gpus_in_a_line(o, r);
	energy_in_a_line(o, r);
}

static void put_when(struct zn_out *o, struct zn_str r)
{
	char state[32], code[32], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL];

	zn_out_char(o, '\n');
	put_line(o, "  started    %s", zn_sheet_moment(a, r, "start"));
	if (zn_path_known(r, "end"))
		put_line(o, "  ended      %s, after %s, exit code %s", zn_sheet_moment(a, r, "end"),
			zn_sheet_span(b, r, "wall_seconds"), zn_path_text(r, "exit_code", code, sizeof(code)));
	else
		put_line(o, "  state      %s, for %s so far", zn_path_text(r, "state", state, sizeof(state)),
			zn_sheet_span(b, r, "wall_seconds"));
	if (zn_path_known(r, "measured_since"))
		put_line(o, "  measured   since %s only", zn_sheet_moment(a, r, "measured_since"));
	put_line(o, "  processes  %s that used a GPU library", zn_sheet_count(a, r, "processes"));
	put_line(o, "  memory     %s at its peak", zn_sheet_bytes(a, r, "memory_peak_bytes"));
}

/* What should not go unseen. */
static void gpu_sentence(struct zn_out *o, struct zn_str g)
{
	double share = zn_sheet_number(g, "busy_share");
	char id[56];

	if (!zn_sheet_true(g, "allocated") || !zn_path_known(g, "busy_share") || share >= 0.5)
		return;
	zn_path_text(g, "gpu_id", id, sizeof(id));
	if (zn_sheet_number(g, "busy_seconds") > 0)
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
		put_line(o, "No GPU was used, or is known to be the job's.");
		return;
	}
	put_line(o, "%-24s %8s %8s %5s %15s %15s", "GPU", "PEAK", "OF", "BUSY", "BUSY FOR", "IDLE FOR");
	for (at = 0; zn_json_next(list, &at, &key, &g);)
		put_line(o, "%-24.24s %8s %8s %5s %15s %15s", zn_path_text(g, "gpu_id", id, sizeof(id)),
			zn_sheet_bytes(a, g, "peak_bytes"), zn_sheet_bytes(b, g, "total_bytes"),
			zn_sheet_percent(c, g, "busy_share"), zn_sheet_span(d, g, "busy_seconds"),
			zn_sheet_span(e, g, "idle_seconds"));
	for (at = 0; zn_json_next(list, &at, &key, &g);)
		if (zn_str_is(zn_json_member(g, "gpu_id"), "\"unknown\"")) {
			put_line(o, "  It used a GPU that could not be told: which ones it left idle is not known.");
			return;
		}
	for (at = 0; zn_json_next(list, &at, &key, &g);)
		gpu_sentence(o, g);
}

/* The causes with most of the time first, as many as fit on a line; those below a percent are left out. */
static void thread_time(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "thread_time"), key;
	double seconds = ZN_SHEET_SPAN_MAX, all = zn_sheet_sum(list, "");
	char text[COLUMNS] = "", cell[ZN_UNITS_CELL];

	while (all > 0 && (key = next_largest(list, &seconds)).len && seconds / all >= 0.01) {
		snprintf(cell, sizeof(cell), "%.0f %% %.*s", 100 * seconds / all, key.len < 10 ? (int)key.len : 10,
			key.at);
		add_to_list(text, COLUMNS - 14, cell);
	}
	if (*text)
		put_line(o, "Its threads  %s", text);
}

static void put_startup(struct zn_out *o, struct zn_str r)
{
	put_spans(o, zn_path_find(r, "startup"), "Start-up     ", 0.1);
}

static void put_cuda(struct zn_out *o, struct zn_str r)
{
	char a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL];

	zn_out_char(o, '\n');
	put_line(o, "Launches     %s: %s kernels, %s graphs, %s cooperative", zn_sheet_count(a, r, "launches.count"),
		zn_sheet_count(b, r, "launches.kernel"), zn_sheet_count(c, r, "launches.graph"),
		zn_sheet_count(d, r, "launches.cooperative"));
	put_line(o, "             %s more captured into graphs, %s failed", zn_sheet_count(a, r, "launches.captured"),
		zn_sheet_count(b, r, "launches.errors"));
	put_line(o, "             each took p50 %s, p99 %s, mean %s",
		zn_sheet_duration(a, r, "launch_latency.p50_us", 1),
		zn_sheet_duration(b, r, "launch_latency.p99_us", 1),
		zn_sheet_duration(c, r, "launch_latency.mean_us", 1));
	put_line(o, "Waits        %s for the GPU, %s in all, %s failed", zn_sheet_count(a, r, "sync_wait.calls"),
		zn_sheet_span(b, r, "sync_wait.seconds"), zn_sheet_count(c, r, "sync_wait.errors"));
	thread_time(o, r);
	put_startup(o, r);
	put_line(o, "Copies       to the GPU %s, back %s, between GPUs %s, other %s",
		zn_sheet_bytes(a, r, "memcpy.htod.bytes"), zn_sheet_bytes(b, r, "memcpy.dtoh.bytes"),
		zn_sheet_bytes(c, r, "memcpy.dtod.bytes"), zn_sheet_bytes(d, r, "memcpy.other.bytes"));
	put_line(o, "Allocations  %s of %s in all, %s freed", zn_sheet_count(a, r, "allocations.calls"),
		zn_sheet_bytes(b, r, "allocations.bytes"), zn_sheet_count(c, r, "allocations.frees"));
	if (zn_sheet_integer(r, "allocations.oom"))
		put_line(o, "  %s allocations failed because the GPU was full.",
			zn_sheet_count(a, r, "allocations.oom"));
	if (zn_sheet_integer(r, "allocations.other_failures"))
		put_line(o, "  %s allocations failed for other reasons.",
			zn_sheet_count(a, r, "allocations.other_failures"));
}

static void put_nccl(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "nccl"), key, op;
	char name[32], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL], c[ZN_UNITS_CELL], d[ZN_UNITS_CELL], e[ZN_UNITS_CELL],
		f[ZN_UNITS_CELL];
	size_t at = 0;

	if (zn_sheet_integer(r, "nccl_init.calls"))
		put_line(o, "NCCL         %s communicators set up in %s", zn_sheet_count(a, r, "nccl_init.calls"),
			zn_sheet_span(b, r, "nccl_init.seconds"));
	if (!zn_json_next(list, &at, &key, &op))
		return;
	zn_out_char(o, '\n');
	put_line(o, "%-16s %8s %8s %8s %12s %8s %8s", "NCCL", "CALLS", "BYTES", "ERRORS", "TIME", "P50", "P99");
	for (at = 0; zn_json_next(list, &at, &key, &op);)
		put_line(o, "%-16s %8s %8s %8s %12s %8s %8s", zn_path_text(op, "op", name, sizeof(name)),
			zn_sheet_count(a, op, "calls"), zn_sheet_bytes(b, op, "bytes"), zn_sheet_count(c, op, "errors"),
			zn_sheet_span(d, op, "seconds"), zn_sheet_duration(e, op, "p50_ms", 1e3),
			zn_sheet_duration(f, op, "p99_ms", 1e3));
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
		double v = zn_sheet_number(op, member);

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
			zn_path_text(f, "fstype", type, sizeof(type)), zn_sheet_bytes(a, f, "read_bytes"),
			zn_sheet_bytes(b, f, "write_bytes"),
			whole ? zn_units_count(c, over_ops(ops, "count", false)) : zn_sheet_none(c),
			whole ? zn_units_count(d, over_ops(ops, "errors", false)) : zn_sheet_none(d),
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
		zn_sheet_true(cause, "estimated") ? ", estimated" : "");
	for (size_t at = 0; zn_json_next(list, &at, &key, &line);) {
		zn_path_text(line, "file", file, sizeof(file));
		slash = strrchr(file, '/');
		snprintf(number, sizeof(number), ":%llu", (unsigned long long)zn_sheet_integer(line, "line"));
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
			zn_sheet_moment(a, s, "start"), zn_sheet_moment(b, s, "end"),
			zn_sheet_duration(d, s, "cpu_seconds", 1e6), zn_sheet_bytes(c, s, "memory_peak_bytes"));
}

/* What programs said of themselves, as far as there was room. */
static void put_labels(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "label_changes"), key, change;
	char name[ZN_ANNOTATION_KEY], value[ZN_ANNOTATION_VALUE], after[ZN_UNITS_CELL], pid[ZN_UNITS_CELL];
	uint64_t start_ms = zn_sheet_integer(r, "start_ms"), ms;

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &change); n++) {
		if (!n)
			put_heading(o, "What the job said of itself (zernel annotate)");
		ms = zn_sheet_integer(change, "at_ms");
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
			put_line(o, "Killed by the kernel: %s in all, the last ones",
				zn_sheet_count(of, r, "oom_kills"));
		}
		put_sentence(o, zn_path_text(kill, "says", says, sizeof(says)));
	}
}

static void put_failed(struct zn_out *o, struct zn_str r)
{
	struct zn_str cuda = zn_path_find(r, "cuda_errors"), rdma = zn_path_find(r, "rdma_errors");
	char says[ZN_FAILED_SAYS], call[32], error[32], a[ZN_UNITS_CELL];

	if (cuda.len || rdma.len)
		put_heading(o, "Calls that failed");
	if (cuda.len) {
		put_line(o, "  CUDA or HIP: %s", zn_sheet_count(a, cuda, "count"));
		put_sentence(o, zn_path_text(cuda, "says", says, sizeof(says)));
	}
	if (rdma.len)
		put_line(o, "  RDMA: %s, the last one %s: %s", zn_sheet_count(a, rdma, "count"),
			zn_path_text(rdma, "call", call, sizeof(call)),
			zn_path_text(rdma, "errno", error, sizeof(error)));
}

static void put_alerts(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "alerts"), key, alert;
	char name[40], of[56], a[ZN_UNITS_CELL], b[ZN_UNITS_CELL];

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &alert); n++) {
		if (!n)
			put_heading(o, "Alerts that fired");
		put_line(o, "  %s of %s, %s times, at first %s", zn_path_text(alert, "alert", name, sizeof(name)),
			zn_path_text(alert, "of", of, sizeof(of)), zn_sheet_count(a, alert, "times"),
			zn_sheet_moment(b, alert, "first"));
	}
}

static void put_losses(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "lost"), key, value;
	char a[ZN_UNITS_CELL];

	for (size_t at = 0, n = 0; zn_json_next(list, &at, &key, &value); n++) {
		if (!n)
			put_heading(o, "Lost by the whole node while the job ran");
		put_line(o, "  %.*s %s", (int)(key.len < 40 ? key.len : 40), key.at, zn_sheet_count(a, value, ""));
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
	if (zn_sheet_true(r, "truncated"))
		put_line(o, "This report was cut: more was known than fits.");
}

void zn_report_page(struct zn_out *o, struct zn_str json)
{
	static void (*const parts[])(struct zn_out * o, struct zn_str r) = {put_who, put_efficiency, lost_to, put_when,
		put_gpus, put_cuda, put_nccl, put_files, put_lines, put_steps, put_kills, put_failed, put_labels,
		put_alerts, put_losses, put_gaps};

	if (zn_json_check(json))
		return;
	for (size_t i = 0; i < ZN_LEN(parts); i++)
		parts[i](o, json);
}
