/* SPDX-License-Identifier: GPL-2.0 */
/* speedscope_test.c: frames that all profiles share, a profile for each cause, and what is narrowed. */
#include "stacks.h"

T(a_profile_for_each_cause)
{
	struct zn_str answer;
	const char *at;

	open_stacks();
	answer = rendered(zn_speedscope_json, ALL);
	CHECK_EQ(zn_json_check(answer), 0);
	at = strstr(text, "\"shared\":{\"frames\":[");
	CHECK(at != NULL);
	at = strstr(
		text, "\"name\":\"gpu\",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":1000,\"samples\":[[");
	CHECK(at && strstr(at, "\"weights\":[600,100,300]"));
	at = strstr(text, "\"name\":\"launch\",\"unit\":\"none\",\"startValue\":0,\"endValue\":40,");
	CHECK(at && strstr(at, "\"weights\":[40]"));
	CHECK(strstr(text, "\"name\":\"alloc\",\"unit\":\"bytes\"") && !strstr(text, "\"name\":\"nccl\""));
}

/* main of both processes is one frame. */
T(a_frame_is_there_once)
{
	const char *at = text;
	int n = 0;

	open_stacks();
	rendered(zn_speedscope_json, ALL);
	while ((at = strstr(at, "\"file\":"))) {
		n++;
		at++;
	}
	CHECK_EQ(n, 6);
}

/* With all that can be there: the outermost function is the one that would be lost. */
T(the_deepest_stack_is_whole)
{
	uint32_t node = ZN_STACKS_NO_NODE, inner;
	char name[32];
	int n = 0;

	open_stacks();
	for (uint32_t i = 0; i < ZN_STACK_FRAMES + 3; i++) { /* [worker], (deeper), [thread] */
		snprintf(name, sizeof(name), "deep%u", i);
		node = zn_stacks_node(stacks, root[0], node,
			zn_stacks_function(stacks, root[0], zn_str_of(name), zn_str_of("/p/a.py"), 1), 1);
	}
	zn_stacks_add(stacks, node, ZN_LEAF_IO, &(struct zn_stack_sum){1, 1000});
	inner = node;
	for (uint32_t i = 0; i < ZN_NATIVE_FRAMES + 2; i++) { /* [native example], (truncated) */
		snprintf(name, sizeof(name), "native%u", i);
		inner = zn_stacks_node(stacks, root[0], inner,
			zn_stacks_function(stacks, root[0], zn_str_of(name), zn_str_of(""), 1), 0);
	}
	zn_stacks_put_example(stacks, node, ZN_LEAF_IO, inner);
	rendered(zn_pprof_folded, (struct zn_stacks_query){.leaf = ZN_LEAF_IO});
	CHECK(strstr(text, "deep0 ") && strstr(text, ";native65"));
	rendered(zn_speedscope_json, (struct zn_stacks_query){.leaf = ZN_LEAF_IO});
	for (const char *at = strstr(text, "\"samples\":[["); at && *at != ']'; at++)
		n += *at == ',';
	CHECK_EQ(n + 1, ZN_STACKS_DEPTH);
}

T(a_query_narrows)
{
	struct zn_stacks_query q = ALL;

	open_stacks();
	q.leaf = ZN_LEAF_ALLOC;
	rendered(zn_speedscope_json, q);
	CHECK(strstr(text, "\"frames\":[{\"name\":\"lib;rary\",\"file\":\"" PACKAGE "\",\"line\":3}]"));
	CHECK(strstr(text, "\"samples\":[[0]],\"weights\":[4096]}]}"));
	state.stacks = NULL;
	CHECK_EQ(zn_json_check(rendered(zn_speedscope_json, ALL)), 0);
	CHECK(strstr(text, "\"frames\":[]},\"profiles\":[]}"));
}

int main(void)
{
	RUN(a_profile_for_each_cause);
	RUN(a_frame_is_there_once);
	RUN(the_deepest_stack_is_whole);
	RUN(a_query_narrows);
	zn_stacks_close(stacks);
	return t_end();
}
