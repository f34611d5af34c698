/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hang.c: the record of a hang as people read it. Made from the JSON alone, as report_text.c makes its page. What a
 * file of another version lacks is left out. All text is that of a file that others may have written: control bytes
 * do not get through.
 */
#include <string.h>

#include "zernel.h"

#define CELL 256

/* Printable ASCII alone. */
static const char *text_of(struct zn_str json, const char *path, char to[CELL])
{
	zn_path_text(json, path, to, CELL);
	for (char *at = to; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return to;
}

static void put_value(struct zn_out *o, const char *before, struct zn_str json, const char *path, const char *after)
{
	char text[CELL];

	if (!zn_path_known(json, path))
		return;
	zn_out_text(o, before);
	zn_out_text(o, text_of(json, path, text));
	zn_out_text(o, after);
}

static void put_seconds(struct zn_out *o, const char *before, struct zn_str json, const char *path, const char *after)
{
	char text[ZN_UNITS_CELL];

	if (!zn_path_known(json, path))
		return;
	zn_out_text(o, before);
	zn_out_text(o, zn_units_duration(text, zn_json_number(zn_path_find(json, path)) * 1e6));
	zn_out_text(o, after);
}

static void put_bytes(struct zn_out *o, const char *before, struct zn_str json, const char *path)
{
	char text[ZN_UNITS_CELL];

	if (!zn_path_known(json, path))
		return;
	zn_out_text(o, before);
	zn_out_text(o, zn_units_bytes(text, zn_json_integer(zn_path_find(json, path))));
}

static void put_head(struct zn_out *o, struct zn_str r)
{
	put_value(o, "", r, "alert", ": ");
	put_value(o, "", r, "says", "\n");
	put_value(o, "job ", r, "job_id", ", ");
	put_value(o, "node ", r, "node", "");
	put_value(o, ", hang ", r, "episode", " of it\n");
	put_value(o, "rank ", r, "missing.rank", ", ");
	put_value(o, "process ", r, "missing.pid", " ");
	put_value(o, "", r, "missing.says", "");
	put_seconds(o, "; waited for ", r, "missing.waited_for_s", "\n");
	put_bytes(o, "memory of its control group: ", r, "memory.used_bytes");
	put_bytes(o, " of ", r, "memory.limit_bytes");
	put_value(o, "; processes killed for want of it: ", r, "memory.oom_kills", "");
	if (zn_path_known(r, "memory"))
		zn_out_char(o, '\n');
}

static void put_labels(struct zn_out *o, struct zn_str r)
{
	struct zn_str list = zn_path_find(r, "labels"), key, label;
	bool any = false;

	for (size_t at = 0; zn_json_next(list, &at, &key, &label); any = true) {
		put_value(o, any ? " " : "the job said of itself: ", label, "key", "=");
		put_value(o, "", label, "value", "");
	}
	if (any)
		zn_out_char(o, '\n');
}

static void put_each(struct zn_out *o, struct zn_str r, const char *path, const char *title,
	void (*item)(struct zn_out *o, struct zn_str item))
{
	struct zn_str list = zn_path_find(r, path), key, value;
	bool any = false;

	for (size_t at = 0; zn_json_next(list, &at, &key, &value); any = true) {
		if (!any) {
			zn_out_char(o, '\n');
			zn_out_text(o, title);
			zn_out_char(o, '\n');
		}
		item(o, value);
	}
}

static void put_thread(struct zn_out *o, struct zn_str t)
{
	put_value(o, "  ", t, "tid", "");
	put_value(o, " ", t, "state", "");
	put_value(o, " ", t, "name", "");
	put_value(o, "  in ", t, "wchan", "");
	put_value(o, "  system call ", t, "syscall", "");
	zn_out_char(o, '\n');
}

static void put_process(struct zn_out *o, struct zn_str p)
{
	put_value(o, "  ", p, "pid", "  ");
	put_seconds(o, "last progress ", p, "progress_s_ago", " ago");
	put_value(o, "  ", p, "stalls.says", "");
	zn_out_char(o, '\n');
}

static void put_rank(struct zn_out *o, struct zn_str m)
{
	put_value(o, "  rank ", m, "rank", "");
	put_value(o, "  process ", m, "pid", "");
	put_value(o, "  collectives issued: ", m, "issued", "");
	put_seconds(o, ", the last one ", m, "last_s_ago", " ago");
	zn_out_char(o, '\n');
}

static void put_comm(struct zn_out *o, struct zn_str c)
{
	struct zn_str list = zn_path_find(c, "ranks"), key, value;

	put_value(o, "communicator ", c, "comm", "");
	put_value(o, " of ", c, "nranks", " ranks");
	zn_out_char(o, '\n');
	for (size_t at = 0; zn_json_next(list, &at, &key, &value);)
		put_rank(o, value);
}

static void put_error(struct zn_out *o, struct zn_str e)
{
	put_value(o, "  GPU at ", e, "pci", "");
	put_value(o, ": XID ", e, "xid", "");
	put_value(o, ", nonfatal: ", e, "nonfatal", "");
	put_value(o, ": amdgpu ", e, "amdgpu", "");
	put_value(o, ", times: ", e, "times", "\n");
}

void zn_hang_page(struct zn_out *o, struct zn_str json)
{
	put_head(o, json);
	put_labels(o, json);
	put_each(o, json, "processes", "Processes:", put_process);
	put_each(o, json, "threads.seen", "Threads of the process that is waited for:", put_thread);
	put_each(o, json, "communicators", "Communicators:", put_comm);
	put_each(o, json, "gpu_errors", "Errors of GPUs since the daemon started:", put_error);
	if (zn_path_known(json, "truncated"))
		zn_out_text(o, "(and more, for which there is no room)\n");
}
