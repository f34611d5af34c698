/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_line.c: a report of report.c in one line, for Slurm's AdminComment, and as mail. Like its page, both are made
 * from the JSON alone, and plain ASCII.
 */
#include <string.h>

#include "zernel.h"

#define LINE_MAX  250 /* of the one line */
#define MAIL_TEXT 48  /* of a text in the subject of a mail */

static void line_gpus(struct zn_out *o, struct zn_str r)
{
	struct zn_gpu_sums sums = zn_sheet_gpus(zn_path_find(r, "gpus"));
	char cell[ZN_UNITS_CELL];

	zn_out_text(o, "gpus=");
	zn_out_u64(o, sums.count);
	zn_out_text(o, " gpu_peak=");
	zn_out_text(o, zn_sheet_bytes(cell, sums.highest, "peak_bytes"));
	zn_out_char(o, '/');
	zn_out_text(o, zn_sheet_bytes(cell, sums.highest, "total_bytes"));
	zn_out_text(o, " gpu_busy=");
	zn_out_text(o, sums.all_s > 0 ? zn_sheet_percent_of(cell, sums.busy_s / sums.all_s) : zn_sheet_none(cell));
	zn_out_text(o, " gpu_unused=");
	zn_out_u64(o, sums.unused);
}

/* All of it, or nothing, and nothing behind it either. */
static void put_pair(struct zn_out *o, const char *key, const char *value)
{
	size_t before = o->len;

	zn_out_char(o, ' ');
	zn_out_text(o, key);
	zn_out_char(o, '=');
	zn_out_text(o, value);
	if (o->full)
		o->len = before;
}

/* Over a list; known: what is there, and not null, if it was measured. */
static char *all_bytes(char to[ZN_UNITS_CELL], struct zn_str r, const char *known, const char *list, const char *member)
{
	double all = zn_sheet_sum(zn_path_find(r, list), member);

	if (!zn_path_known(r, known) || all < 0 || all >= 0x1p63)
		return zn_sheet_none(to);
	return zn_units_bytes(to, (uint64_t)all);
}

/* Over all mounts. Some may be missing if calls of this operation were lost. */
static char *file_bytes(char to[ZN_UNITS_CELL], struct zn_str r, const char *op, const char *member)
{
	struct zn_str list = zn_path_find(r, "io_lost"), key, value;
	char lost[16];

	for (size_t at = 0; zn_json_next(list, &at, &key, &value);)
		if (!strcmp(zn_path_text(value, "", lost, sizeof(lost)), op))
			return zn_sheet_none(to);
	return all_bytes(to, r, "io", "io", member);
}

/* What a meter of GPUs counted, and where there is none, the share of the node or of the CPUs, and of which. */
static void line_energy(struct zn_out *o, struct zn_str r)
{
	static const char *const part[][2] = {{"energy_gpu", "energy_joules.gpu"},
		{"energy_node", "energy_joules.node"}, {"energy_cpu", "energy_joules.cpu"}};
	char cell[ZN_UNITS_CELL], *blank;

	for (size_t i = 0; i < ZN_LEN(part); i++)
		if (zn_path_known(r, part[i][1])) {
			zn_sheet_energy(cell, r, part[i][1]);
			if ((blank = strchr(cell, ' ')))
				memmove(blank, blank + 1, strlen(blank));
			put_pair(o, part[i][0], cell);
		}
}

void zn_line_report(struct zn_out *o, struct zn_str json)
{
	char text[LINE_MAX], cell[ZN_UNITS_CELL];
	struct zn_out to = {.at = text, .cap = sizeof(text)};

	if (zn_json_check(json))
		return;
	if (zn_path_known(json, "cpu")) {
		zn_out_text(&to, "cpu_eff=");
		zn_out_text(&to, zn_sheet_share(cell, json, "cpu.efficiency", ""));
		put_pair(&to, "mem_eff", zn_sheet_share(cell, json, "memory.efficiency", ""));
		zn_out_char(&to, ' ');
	}
	line_gpus(&to, json);
	if (zn_path_known(json, "measured_since"))
		put_pair(&to, "measured", "partly");
	line_energy(&to, json);
	put_pair(&to, "mem_peak", zn_sheet_bytes(cell, json, "memory_peak_bytes"));
	put_pair(&to, "launches", zn_sheet_count(cell, json, "launches.count"));
	put_pair(&to, "p99", zn_sheet_duration(cell, json, "launch_latency.p99_us", 1));
	/* a span of a minute has spaces in it */
	put_pair(&to, "sync",
		zn_sheet_number(json, "sync_wait.seconds") < 60
			? zn_sheet_span(cell, json, "sync_wait.seconds")
			: zn_sheet_duration(cell, json, "sync_wait.seconds", 1e6));
	put_pair(&to, "nccl", all_bytes(cell, json, "nccl_init", "nccl", "bytes")); /* its list is there in any case */
	put_pair(&to, "read", file_bytes(cell, json, "read", "read_bytes"));
	put_pair(&to, "written", file_bytes(cell, json, "write", "write_bytes"));
	put_pair(&to, "oom", zn_sheet_count(cell, json, "allocations.oom"));
	put_pair(&to, "lost",
		zn_path_known(json, "lost") ? zn_units_count(cell, zn_sheet_sum(zn_path_find(json, "lost"), ""))
					    : zn_sheet_none(cell));
	zn_out_bytes(o, text, to.len);
}

/* Of a text that is a user's: printable, and short enough that a header stays one line. */
static void put_header_text(struct zn_out *o, struct zn_str r, const char *path)
{
	char text[MAIL_TEXT];

	zn_path_text(r, path, text, sizeof(text));
	for (char *at = text; *at; at++)
		zn_out_char(o, *at < ' ' || *at > '~' ? '?' : *at);
}

static void put_share(struct zn_out *o, const char *what, const char *cell)
{
	zn_out_text(o, what);
	zn_out_text(o, cell);
}

static void put_subject(struct zn_out *o, struct zn_str r)
{
	struct zn_gpu_sums sums = zn_sheet_gpus(zn_path_find(r, "gpus"));
	char cell[ZN_UNITS_CELL];

	zn_out_text(o, "Subject: Job ");
	put_header_text(o, r, "job_id");
	zn_out_text(o, " (");
	put_header_text(o, r, "name");
	zn_out_text(o, ") on ");
	put_header_text(o, r, "node");
	put_share(o, ": CPU ", zn_sheet_share(cell, r, "cpu.efficiency", ""));
	put_share(o, ", memory ", zn_sheet_share(cell, r, "memory.efficiency", ""));
	if (sums.count)
		put_share(o, ", GPU ",
			sums.all_s > 0 ? zn_sheet_percent_of(cell, sums.busy_s / sums.all_s) : zn_sheet_none(cell));
	zn_out_char(o, '\n');
}

void zn_line_mail(struct zn_out *o, struct zn_str json)
{
	if (zn_json_check(json))
		return;
	put_subject(o, json);
	zn_out_text(o,
		"Auto-Submitted: auto-generated\n"
		"MIME-Version: 1.0\n"
		"Content-Type: text/plain; charset=us-ascii\n"
		"\n");
	zn_report_page(o, json);
}
