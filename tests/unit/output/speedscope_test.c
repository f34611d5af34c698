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
	RUN(a_query_narrows);
	zn_stacks_close(stacks);
	return t_end();
}
