/* SPDX-License-Identifier: GPL-2.0 */
/*
 * io_json.c: file I/O of a job on a mount, as JSON.
 */
#include "zernel.h"

#define US 3 /* decimals from nanoseconds to microseconds and to seconds */
#define S  9

static void key_whole(struct zn_json *j, const char *key, uint64_t v, bool whole)
{
	if (whole)
		zn_json_key_u64(j, key, v);
	else
		zn_json_key_null(j, key);
}

static void io_sum_op(
	struct zn_json *j, const struct zn_state *state, const struct zn_io_sum *f, enum zn_io_op op, bool rates)
{
	struct zn_io_sum_total sum = zn_io_sum_total(state->io_sums, f, op);
	const struct zn_hist *h;
	struct zn_summary s;

	if (!sum.calls)
		return;
	h = zn_io_sum_merge(state->io_sums, f, op, false);
	s = zn_hist_summary(h);
	zn_json_key_open(j, zn_io_label(op), '{');
	zn_json_key_u64(j, "count", sum.calls);
	zn_json_key_u64(j, "errors", sum.errors);
	if (rates)
		zn_json_key_scaled(j, "rate", f->op[op].call_rate, 3);
	else
		zn_json_key_scaled(j, "seconds", h->sum_ns, S);
	if (s.count) {
		zn_json_key_scaled(j, "p50_us", s.p50_ns, US);
		zn_json_key_scaled(j, "p99_us", s.p99_ns, US);
	} else {
		zn_json_key_null(j, "p50_us");
		zn_json_key_null(j, "p99_us");
	}
	zn_json_close(j, '}');
}

void zn_io_sum_json(struct zn_json *j, const struct zn_state *state, const struct zn_io_sum *f, bool rates)
{
	static const struct {
		const char *key;
		enum zn_io_op op;
	} bytes[] = {{"read_bytes", ZN_IO_READ}, {"write_bytes", ZN_IO_WRITE}, {"mapped_bytes", ZN_IO_MMAP},
		{"copied_bytes", ZN_IO_COPY}};
	const char *job = zn_io_sum_job(state->io_sums, f);
	uint32_t lost = zn_io_sums_lost(state->io_sums, f->job);

	zn_json_open(j, '{');
	if (rates)
		zn_json_key_text(j, "job_id", job ? job : "");
	zn_json_key_text(j, "mount", f->point);
	zn_json_key_text(j, "fstype", f->fstype);
	for (size_t i = 0; i < ZN_LEN(bytes); i++)
		key_whole(j, bytes[i].key, zn_io_sum_total(state->io_sums, f, bytes[i].op).bytes,
			zn_io_sum_whole(state->io_sums, f, bytes[i].op, lost));
	if (rates) {
		key_whole(j, "read_bytes_per_s", f->op[ZN_IO_READ].byte_rate,
			zn_io_sum_whole(state->io_sums, f, ZN_IO_READ, lost));
		key_whole(j, "write_bytes_per_s", f->op[ZN_IO_WRITE].byte_rate,
			zn_io_sum_whole(state->io_sums, f, ZN_IO_WRITE, lost));
	}
	zn_json_key_open(j, "ops", '{');
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		if (zn_io_sum_whole(state->io_sums, f, op, lost))
			io_sum_op(j, state, f, op, rates);
		else if (!rates)
			zn_json_key_null(j, zn_io_label(op));
	zn_json_close(j, '}');
	zn_json_close(j, '}');
}
