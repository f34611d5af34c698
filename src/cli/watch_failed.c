/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_failed.c: of a process in `zernel watch`, what failed of it: calls of CUDA and HIP, system calls of RDMA; and
 * the thread that has not come out of an uninterruptible sleep. A process without any has no line.
 */
#include "zernel.h"

#define INDENT 8

static void put_cuda(struct zn_term *t, struct zn_str cuda)
{
	char error[ZN_FAILED_NAME], call[64], age[ZN_UNITS_CELL], count[ZN_UNITS_CELL];
	bool has_call = zn_path_known(cuda, "call");
	bool is_lost = zn_str_equal(zn_json_member(cuda, "context_lost"), (struct zn_str){"true", 4});

	zn_path_text(cuda, "error", error, sizeof(error));
	zn_path_text(cuda, "call", call, sizeof(call));
	zn_units_span(age, zn_value_seconds(cuda, "age_s"));
	zn_units_count(count, zn_value_number(cuda, "count"));
	zn_term_line(t, ZN_STYLE_BAD, "%*s%s%s%s %s ago%s; calls that failed: %s", INDENT, "", error,
		has_call ? " in " : "", has_call ? call : "", age, is_lost ? ", its context is lost" : "", count);
}

static void put_rdma(struct zn_term *t, struct zn_str rdma)
{
	char call[64], error[ZN_UNITS_CELL], age[ZN_UNITS_CELL], count[ZN_UNITS_CELL];

	zn_path_text(rdma, "call", call, sizeof(call));
	zn_value_text(rdma, "errno", error);
	zn_units_span(age, zn_value_seconds(rdma, "last_age_s"));
	zn_units_count(count, zn_value_number(rdma, "count"));
	zn_term_line(
		t, ZN_STYLE_WARN, "%*sRDMA: %s %s %s ago; calls that failed: %s", INDENT, "", call, error, age, count);
}

static void put_blocked(struct zn_term *t, struct zn_str blocked)
{
	char tid[ZN_UNITS_CELL], place[ZN_PLACE_BYTES], age[ZN_UNITS_CELL];
	bool has_place = zn_path_known(blocked, "in");

	zn_value_text(blocked, "tid", tid);
	zn_path_text(blocked, "in", place, sizeof(place));
	zn_units_span(age, zn_value_seconds(blocked, "seconds"));
	zn_term_line(t, ZN_STYLE_BAD, "%*sthread %s in state D for %s%s%s", INDENT, "", tid, age,
		has_place ? ", in " : "", has_place ? place : "");
}

void zn_watch_failed(struct zn_watch *w, struct zn_str process)
{
	static const struct {
		const char *key;
		void (*put)(struct zn_term *t, struct zn_str value);
	} lines[] = {{"blocked", put_blocked}, {"cuda_errors", put_cuda}, {"rdma_errors", put_rdma}};

	for (size_t i = 0; i < ZN_LEN(lines); i++)
		if (zn_path_known(process, lines[i].key) && zn_watch_shows_line(w))
			lines[i].put(&w->term, zn_path_find(process, lines[i].key));
}
