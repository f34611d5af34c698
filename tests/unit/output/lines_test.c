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

/* Below the innermost function of the heaviest stack. */
static void put_example(const char *const *f)
{
	struct zn_stacks_shown s;
	uint32_t node;

	zn_stacks_show(stacks, 0, zn_now_ns());
	zn_stacks_shown(stacks, 0, &s);
	node = s.node;
	for (; *f; f++)
		node = zn_stacks_node(stacks, root[0], node,
			zn_stacks_function(stacks, root[0], zn_str_of(*f), zn_str_of(**f == '[' ? "" : "libx.so"), 0),
			0);
	zn_stacks_put_example(stacks, s.node, ZN_LEAF_GPU, node);
}

#define EXAMPLE(...) put_example((const char *const[]){ZN_STACKS_EXAMPLE, __VA_ARGS__, NULL})

/* The line is the same, and what it is told with, the heaviest stack's. */
T(an_example_is_told_with_its_line)
{
	struct zn_str line, key, function = zn_str_of("");
	char got[64];
	size_t at = 0;

	open_stacks();
	EXAMPLE("a::outer", "a::inner");
	line = line_at(cause_of(rendered(zn_lines_json, ALL), "gpu"), 0);
	CHECK_STR(zn_path_text(line, "function", got, sizeof(got)), "step");
	CHECK_STR(zn_path_text(line, "through.function", got, sizeof(got)), "f");
	CHECK(zn_json_next(zn_path_find(line, "native_example"), &at, &key, &function));
	CHECK_STR(zn_path_text(function, "function", got, sizeof(got)), "a::inner");
	CHECK_STR(zn_path_text(function, "file", got, sizeof(got)), "libx.so");
	CHECK(zn_json_next(zn_path_find(line, "native_example"), &at, &key, &function));
	CHECK_STR(zn_path_text(function, "function", got, sizeof(got)), "a::outer");
	CHECK(!zn_json_next(zn_path_find(line, "native_example"), &at, &key, &function));
	rendered(zn_pprof_folded, ALL);
	CHECK(strstr(text, "f (" PACKAGE ":1);[native example];a::outer (libx.so);a::inner (libx.so);[gpu] 600\n"));
	CHECK(strstr(text, "g (" PACKAGE ":2);[gpu] 100\n"));
	rendered(zn_speedscope_json, ALL);
	CHECK(strstr(text, "{\"name\":\"a::inner\",\"file\":\"libx.so\"}"));
}

/* It has a limit, and lists that come after these lines. */
T(a_report_has_little_of_examples)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
	struct zn_job job = {.id = ""}; /* as in a query: all */
	struct zn_json j;
	const char *at;

	open_stacks();
	EXAMPLE("a::outer", "a::middle", "a::inner", "a::innermost");
	zn_json_begin(&j, &o);
	zn_json_open(&j, '[');
	CHECK(zn_lines_item(&j, &state, &job, ZN_LEAF_GPU));
	zn_json_close(&j, ']');
	text[o.len] = '\0';
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	at = strstr(text, "\"native_example\":[");
	CHECK(at && strstr(text, "\"function\":\"step\"") < at);
	CHECK(strstr(at, "\"a::innermost\"") && strstr(at, "\"a::middle\"") && !strstr(at, "\"a::outer\""));
	CHECK(!strstr(at + sizeof("\"native_example\""), "native_example")); /* the second line has none */
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

/* The row of `zernel why`, of what was added. */
static void write_where(void)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
	struct zn_json j;

	zn_stacks_tick(stacks, zn_now_ns());
	zn_json_begin(&j, &o);
	zn_json_open(&j, '{');
	zn_lines_where(&j, &state, "");
	zn_json_close(&j, '}');
	text[o.len] = '\0';
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
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

static uint32_t add_process(uint32_t id, uint64_t start_ns, const char *comm)
{
	struct zn_stacks_root who = {.pid = 70, .id = id, .start_ns = start_ns, .minor = 12};

	strcpy(who.comm, comm);
	return zn_stacks_root(stacks, &who, zn_now_ns());
}

static long gpu_calls_of(uint32_t pid)
{
	struct zn_stacks_query q = ALL;

	q.pid = pid;
	return zn_json_integer(zn_path_find(cause_of(rendered(zn_lines_json, q), "gpu"), "count"));
}

/* A number is that of the process which has it now, or had it last; by job and in all there are both. */
T(a_number_is_used_again)
{
	struct zn_str list, key, process;
	bool reused[3] = {false};
	size_t at = 0;

	open_stacks();
	CHECK_EQ(gpu_calls_of(70), 5);
	zn_stacks_root_at(stacks, root[0])->ended_ns = zn_now_ns();
	CHECK_EQ(gpu_calls_of(70), 5);
	root[1] = add_process(3, 900, "later");
	CHECK_EQ(gpu_calls_of(70), 0);
	STACK(1, ZN_LEAF_GPU, 11, 1000, "main /p/c.py 1");
	CHECK_EQ(gpu_calls_of(70), 11);
	CHECK_EQ(gpu_calls_of(0), 5 + 1 + 11);
	list = zn_path_find(rendered(zn_lines_json, ALL), "processes");
	for (size_t i = 0; i < ZN_LEN(reused) && zn_json_next(list, &at, &key, &process); i++)
		reused[i] = zn_str_is(zn_path_find(process, "pid_reused"), "true");
	CHECK(reused[0] && !reused[1] && !reused[2]);
	zn_stacks_root_at(stacks, root[1])->ended_ns = zn_now_ns();
	CHECK_EQ(gpu_calls_of(70), 11);
	root[1] = add_process(4, 900, "as another program");
	STACK(1, ZN_LEAF_GPU, 2, 1000, "main /p/c.py 1");
	CHECK_EQ(gpu_calls_of(70), 13);
}

T(ten_lines_and_a_row_of_why)
{
	open_stacks();
	for (int i = 0; i < 20; i++) {
		char frame[64];

		snprintf(frame, sizeof(frame), "fn%d /p/c.py %d", i, i + 1);
		STACK(0, ZN_LEAF_NCCL, 1, 100 + (uint64_t)i, frame);
	}
	CHECK(line_at(cause_of(rendered(zn_lines_json, ALL), "nccl"), 9).len);
	CHECK(!line_at(cause_of(rendered(zn_lines_json, ALL), "nccl"), 10).len);
	STACK(0, ZN_LEAF_GPU, 1, 1000 * ZN_NS_PER_S, "main /p/a.py 9", "step /p/a.py 5");
	write_where();
	CHECK(strstr(text, "waits for the GPU: a.py:5 in step (100 %)\""));
}

/* Most of its time, however many launches another line has. */
T(a_row_of_why_is_of_what_costs_most)
{
	open_stacks();
	STACK(0, ZN_LEAF_LAUNCH, 1000000, 10 * ZN_NS_PER_S, "main /p/a.py 9", "often /p/a.py 5");
	STACK(0, ZN_LEAF_LAUNCH, 10, 990 * ZN_NS_PER_S, "main /p/a.py 9", "replay /p/b.py 7");
	write_where();
	CHECK(strstr(text, "launches work: b.py:7 in replay (99 %"));
}

T(a_row_of_why_has_its_example)
{
	open_stacks();
	STACK(0, ZN_LEAF_GPU, 1, 1000 * ZN_NS_PER_S, "main /p/a.py 9", "step /p/a.py 5", "f " PACKAGE " 1");
	EXAMPLE("a::outer", "a::inner");
	write_where();
	CHECK(strstr(text, "\"waits for the GPU: a.py:5 in step (100 %), for example in a::inner (libx.so)\""));
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
	RUN(an_example_is_told_with_its_line);
	RUN(a_report_has_little_of_examples);
	RUN(launches_weigh_by_their_count);
	RUN(a_library_alone_has_its_own_line);
	RUN(a_query_narrows);
	RUN(a_number_is_used_again);
	RUN(ten_lines_and_a_row_of_why);
	RUN(a_row_of_why_is_of_what_costs_most);
	RUN(a_row_of_why_has_its_example);
	RUN(no_room_is_no_answer);
	zn_stacks_close(stacks);
	return t_end();
}
