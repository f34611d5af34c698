/* SPDX-License-Identifier: GPL-2.0 */
/* lines_test.c: the heaviest lines of each cause, which line a stack has, and what is narrowed. */
#include "stacks.h"

static struct zn_str cause_of(struct zn_str answer, const char *name)
{
	struct zn_str key, cause;
	char label[16];

	for (size_t at = 0; zn_json_next(zn_path_find(answer, "causes"), &at, &key, &cause);)
		if (!strcmp(zn_path_text(cause, "cause", label, sizeof(label)), name))
			return cause;
	return zn_str_of("");
}

static struct zn_str line_at(struct zn_str cause, int n)
{
	struct zn_str key, line = zn_str_of("");
	size_t at = 0;

	for (int i = 0; i <= n; i++)
		if (!zn_json_next(zn_path_find(cause, "lines"), &at, &key, &line))
			return zn_str_of("");
	return line;
}

T(a_line_is_the_innermost_of_the_program)
{
	struct zn_str answer, cause, line;
	char got[64];

	open_stacks();
	answer = rendered(zn_lines_json, ALL);
	CHECK_EQ(zn_json_check(answer), 0);
	cause = cause_of(answer, "gpu");
	CHECK_EQ(zn_json_integer(zn_path_find(cause, "count")), 6);
	line = line_at(cause, 0);
	CHECK_STR(zn_path_text(line, "function", got, sizeof(got)), "step");
	CHECK_EQ(zn_json_integer(zn_path_find(line, "line")), 5);
	CHECK_EQ(zn_json_integer(zn_path_find(line, "count")), 5);
	CHECK_EQ(zn_json_integer(zn_path_find(line, "percent")), 70);
	CHECK_STR(zn_path_text(line, "through.function", got, sizeof(got)), "f"); /* what is heaviest below it */
	line = line_at(cause, 1);
	CHECK_STR(zn_path_text(line, "function", got, sizeof(got)), "other");
	CHECK_EQ(zn_json_integer(zn_path_find(line, "percent")), 30);
	CHECK(!zn_path_known(line, "through"));
}

T(launches_weigh_by_their_count)
{
	struct zn_str cause, line;
	char got[64];

	open_stacks();
	STACK(0, ZN_LEAF_LAUNCH, 10, 9000, "main /p/a.py 9", "slow /p/a.py 8");
	cause = cause_of(rendered(zn_lines_json, ALL), "launch");
	CHECK(zn_str_is(zn_path_find(cause, "estimated"), "true"));
	line = line_at(cause, 0);
	CHECK_STR(zn_path_text(line, "function", got, sizeof(got)), "step");
	CHECK_EQ(zn_json_integer(zn_path_find(line, "percent")), 80);
	CHECK_STR(zn_path_text(line, "thread", got, sizeof(got)), "[thread]");
}

T(a_library_alone_has_its_own_line)
{
	struct zn_str line;
	char got[64];

	open_stacks();
	line = line_at(cause_of(rendered(zn_lines_json, ALL), "alloc"), 0);
	CHECK_STR(zn_path_text(line, "function", got, sizeof(got)), "lib;rary");
	CHECK_EQ(zn_json_integer(zn_path_find(line, "value")), 4096);
}

T(a_query_narrows)
{
	struct zn_stacks_query q = ALL;

	open_stacks();
	q.pid = 71;
	CHECK_EQ(zn_json_integer(zn_path_find(cause_of(rendered(zn_lines_json, q), "gpu"), "count")), 1);
	q.pid = 0;
	q.leaf = ZN_LEAF_ALLOC;
	CHECK(!cause_of(rendered(zn_lines_json, q), "gpu").len && cause_of(rendered(zn_lines_json, q), "alloc").len);
	q = ALL;
	strcpy(q.job, "4711");
	CHECK(!cause_of(rendered(zn_lines_json, q), "gpu").len);
}

T(ten_lines_and_a_row_of_why)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
	struct zn_json j;

	open_stacks();
	for (int i = 0; i < 20; i++) {
		char frame[64];

		snprintf(frame, sizeof(frame), "fn%d /p/c.py %d", i, i + 1);
		STACK(0, ZN_LEAF_NCCL, 1, 100 + (uint64_t)i, frame);
	}
	CHECK(line_at(cause_of(rendered(zn_lines_json, ALL), "nccl"), 9).len);
	CHECK(!line_at(cause_of(rendered(zn_lines_json, ALL), "nccl"), 10).len);
	STACK(0, ZN_LEAF_GPU, 1, 1000 * ZN_NS_PER_S, "main /p/a.py 9", "step /p/a.py 5");
	zn_stacks_tick(stacks, zn_now_ns());
	zn_json_begin(&j, &o);
	zn_json_open(&j, '{');
	zn_lines_where(&j, &state, "");
	zn_json_close(&j, '}');
	text[o.len] = '\0';
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	CHECK(strstr(text, "waits for the GPU: a.py:5 in step (100 %)"));
}

T(no_room_is_no_answer)
{
	struct zn_out o = {.at = text};

	open_stacks();
	for (o.cap = 0; o.cap < 3000; o.cap += 7) {
		o.len = 0;
		o.full = false;
		zn_lines_json(&o, &state, &ALL);
		CHECK(o.len <= o.cap);
	}
	state.stacks = NULL;
	CHECK(strstr(rendered(zn_lines_json, ALL).at, "\"state\":\"absent\""));
}

int main(void)
{
	RUN(a_line_is_the_innermost_of_the_program);
	RUN(launches_weigh_by_their_count);
	RUN(a_library_alone_has_its_own_line);
	RUN(a_query_narrows);
	RUN(ten_lines_and_a_row_of_why);
	RUN(no_room_is_no_answer);
	zn_stacks_close(stacks);
	return t_end();
}
