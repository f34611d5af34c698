/* SPDX-License-Identifier: GPL-2.0 */
/* why_test.c: every cause has its words, whatever its figures are; what is longest comes first, and what stands still
 * before that. */
#include "zernel.h"
#include "t.h"

static struct zn_cause_group group;
static struct zn_cause_step window;
static struct zn_why list[ZN_CAUSE_COUNT];

static void begin(void)
{
	memset(&group, 0, sizeof(group));
	memset(&window, 0, sizeof(window));
	memset(list, 0, sizeof(list));
	group.missing.rank = group.numbers.workers_busy = ZN_UNKNOWN;
}

static void check_words(const struct zn_why *w)
{
	char number[ZN_UNITS_CELL];

	CHECK(w->next && strlen(w->next) > 10);
	CHECK(w->metric && !strncmp(w->metric, "zernel_", 7));
	CHECK(!strcmp(w->sure, "measured") || !strcmp(w->sure, "likely"));
	CHECK(memchr(w->says, 0, sizeof(w->says)) != NULL);
	snprintf(number, sizeof(number), "%u %% of the time ", w->percent);
	CHECK(!strncmp(w->says, number, strlen(number)) && strlen(w->says) > strlen(number));
}

T(each_cause_alone)
{
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++) {
		begin();
		window.time_ns = 100 * ZN_NS_PER_S;
		window.lost_ns[cause] = 50 * ZN_NS_PER_S;
		CHECK_EQ(zn_why_list(&group, &window, ZN_NS_PER_S, list), 1);
		CHECK_EQ(list[0].cause, cause);
		CHECK_EQ(list[0].percent, 50);
		check_words(&list[0]);
	}
}

/* All figures as large as they can be, and a mount's name that fills its room. */
T(figures_that_are_too_large)
{
	begin();
	memset(&group.numbers, 0xff, sizeof(group.numbers));
	memset(group.numbers.mount, 'm', sizeof(group.numbers.mount) - 1);
	group.numbers.mount[sizeof(group.numbers.mount) - 1] = 0;
	group.numbers.late_likely = true;
	group.numbers.late_in = ZN_STALL_COUNT;
	group.stopped = group.stopped_pid = group.processes = UINT32_MAX;
	group.throttled_percent = UINT32_MAX;
	window.time_ns = UINT64_MAX / 100;
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
		window.lost_ns[cause] = window.time_ns / 2;
	CHECK_EQ(zn_why_list(&group, &window, UINT64_MAX, list), ZN_CAUSE_COUNT);
	for (size_t i = 0; i < ZN_CAUSE_COUNT; i++)
		check_words(&list[i]);
}

T(the_longest_first)
{
	begin();
	window.time_ns = 1000;
	window.lost_ns[ZN_CAUSE_STORAGE] = 200;
	window.lost_ns[ZN_CAUSE_HOST] = 500;
	window.lost_ns[ZN_CAUSE_IDLE] = 300;
	window.lost_ns[ZN_CAUSE_COPIES] = 94; /* too little to be shown; 95 would be rounded up to ten per cent */
	CHECK_EQ(zn_why_list(&group, &window, 0, list), 3);
	CHECK_EQ(list[0].cause, ZN_CAUSE_HOST);
	CHECK_EQ(list[1].cause, ZN_CAUSE_IDLE);
	CHECK_EQ(list[2].cause, ZN_CAUSE_STORAGE);
	window.lost_ns[ZN_CAUSE_COPIES] = 95;
	CHECK_EQ(zn_why_list(&group, &window, 0, list), 4);
}

/* A hang has lost nothing yet at the moment at which it begins, and is all that matters. */
T(what_stands_still_is_on_top)
{
	begin();
	window.time_ns = 1000;
	window.lost_ns[ZN_CAUSE_HOST] = 900;
	group.missing.waiters = 3;
	CHECK_EQ(zn_why_list(&group, &window, 10 * ZN_NS_PER_S, list), 2);
	CHECK_EQ(list[0].cause, ZN_CAUSE_HANG);
	CHECK(list[0].still && !list[1].still);
	CHECK_EQ(list[1].cause, ZN_CAUSE_HOST);
	check_words(&list[0]);
}

T(percent)
{
	CHECK_EQ(zn_why_percent(0, 0), 0);
	CHECK_EQ(zn_why_percent(7, 0), 0);
	CHECK_EQ(zn_why_percent(1, 3), 33);
	CHECK_EQ(zn_why_percent(2, 3), 67);
	CHECK_EQ(zn_why_percent(10, 10), 100);
}

T(none)
{
	char says[ZN_WHY_MAX];

	begin();
	zn_why_none(&window, says);
	CHECK_STR(says, "nothing has launched work on a GPU yet");
	window.time_ns = 100;
	window.gpu_ns = 80;
	zn_why_none(&window, says);
	CHECK(strstr(says, "80 % waits for the GPU") != NULL);
	window.gpu_ns = 20;
	zn_why_none(&window, says);
	CHECK(strstr(says, "nothing takes 10 % of the time") != NULL);
}

int main(void)
{
	RUN(each_cause_alone);
	RUN(figures_that_are_too_large);
	RUN(the_longest_first);
	RUN(what_stands_still_is_on_top);
	RUN(percent);
	RUN(none);
	return t_end();
}
