/* SPDX-License-Identifier: GPL-2.0 */
/* slow_test.c: what holds up the requests of a server, in words. */
#include "zernel.h"
#include "t.h"
#include <math.h>

static struct zn_slow_server slow;
static struct zn_finding f;

static void begin(void)
{
	static const struct zn_slow_figure none = {NAN, NAN};

	slow.busy = slow.in_flight = slow.resent = slow.driver = slow.contended = none;
	for (uint32_t i = 0; i < ZN_LATENCY_SIGNALS; i++) {
		slow.of[i] = (struct zn_slow){.unusual = i == 0, .p99_ms = {1200, 300}, .held = none};
		for (uint32_t part = 0; part < ZN_SLOW_PARTS; part++)
			slow.of[i].part_ms[part] = none;
	}
}

static void set_part(enum zn_slow_part part, double now, double usual)
{
	slow.of[0].part_ms[part] = (struct zn_slow_figure){now, usual};
}

#define SAYS(text)                                                                                                     \
	do {                                                                                                           \
		CHECK(zn_slow_says(&slow, 0, 900, &f));                                                                \
		CHECK_STR(f.says, text);                                                                               \
	} while (0)
#define HEAD "requests of the server 900 wait for the first event: p99 1.20s, usually 300ms"

T(what_is_usual_says_nothing)
{
	begin();
	CHECK(!zn_slow_says(&slow, 1, 900, &f));
	CHECK_STR(f.says, "");
}

T(parts_that_have_grown_are_said_the_longest_first)
{
	begin();
	set_part(ZN_SLOW_UNREAD, 800, 3);
	set_part(ZN_SLOW_GPU, 200, 210);
	set_part(ZN_SLOW_OTHER, 400, 20);
	set_part(ZN_SLOW_CPU, 60, 20); /* less than a tenth */
	SAYS(HEAD "; on average requests lie unread 800ms, usually 3.00ms; its engine sleeps 400ms, usually 20.0ms");
	CHECK_STR(f.metric, "zernel_request_unread_seconds");
	CHECK_STR(f.rule, "slow_first_event");
	set_part(ZN_SLOW_IO, 2000, 1);
	SAYS(HEAD "; on average its engine is blocked on files 2.00s, usually 1.00ms; "
		  "requests lie unread 800ms, usually 3.00ms");
	CHECK_STR(f.metric, "zernel_serving_stall_seconds_total");
}

T(a_part_whose_usual_length_is_not_known_says_nothing)
{
	begin();
	set_part(ZN_SLOW_UNREAD, 800, NAN);
	set_part(ZN_SLOW_GPU, NAN, 3);
	SAYS(HEAD);
	CHECK(strstr(f.next, "engine's own metrics") != NULL);
}

T(a_front_end_that_computes_and_held_bytes_and_load_stand_beside)
{
	begin();
	slow.busy = (struct zn_slow_figure){0.994, NAN};
	slow.of[0].held = (struct zn_slow_figure){0.96, 0.9}; /* as ever */
	SAYS(HEAD "; its front end computes 99 % of the time");
	slow.of[0].held.usual = 0.02;
	slow.in_flight = (struct zn_slow_figure){31, 8};
	SAYS(HEAD "; its front end computes 99 % of the time; TCP holds back 96 % of these events; "
		  "31 requests in flight, usually 8");
	CHECK_STR(f.metric, "zernel_request_held_total");
}

T(what_is_behind_the_engines_waits_stands_beside)
{
	begin();
	set_part(ZN_SLOW_DIST, 900, 40);
	slow.resent = (struct zn_slow_figure){12.4, 11}; /* as ever */
	SAYS(HEAD "; on average its engine waits for other ranks 900ms, usually 40.0ms");
	slow.resent.usual = 0;
	SAYS(HEAD "; on average its engine waits for other ranks 900ms, usually 40.0ms; "
		  "TCP of its engine sends 12 segments a second again");
	CHECK(strstr(f.next, "lost packets") && !strcmp(f.metric, "zernel_tcp_retransmits_total"));
	begin();
	set_part(ZN_SLOW_OTHER, 700, 20);
	slow.contended = (struct zn_slow_figure){0.62, 0.01};
	SAYS(HEAD "; on average its engine sleeps 700ms, usually 20.0ms"); /* others meet there, its engine does not */
	slow.driver = (struct zn_slow_figure){0.9, 0.1};
	SAYS(HEAD "; on average its engine sleeps 700ms, usually 20.0ms; "
		  "several processes are inside the GPU's driver 62 % of the time");
	CHECK(strstr(f.next, "which process") && !strcmp(f.metric, "zernel_gpu_ioctl_contended_seconds_total"));
	set_part(ZN_SLOW_UNREAD, 5000, 20); /* that is not by the driver */
	CHECK(zn_slow_says(&slow, 0, 900, &f));
	CHECK_STR(f.metric, "zernel_request_unread_seconds");
	slow.contended.usual = 0.6; /* as ever */
	CHECK(zn_slow_says(&slow, 0, 900, &f) && !strstr(f.says, "driver"));
}

T(a_piece_without_room_is_left_out_whole)
{
	begin();
	for (uint32_t part = 0; part < ZN_SLOW_PARTS; part++)
		set_part(part, 1e15, 1e14);
	slow.busy = (struct zn_slow_figure){1, 1};
	slow.of[0].held = (struct zn_slow_figure){1, 0};
	slow.in_flight = (struct zn_slow_figure){1e18, 1e17};
	CHECK(zn_slow_says(&slow, 0, UINT32_MAX, &f));
	CHECK(strlen(f.says) < sizeof(f.says));
	CHECK(strlen(f.says) > 100);
}

/* ---- The servers of a job. ---- */

static struct zn_memory_arena arena;
static struct zn_agg agg;

static struct zn_slow_request request_of(uint64_t unread_ns, uint16_t held)
{
	return (struct zn_slow_request){.unread_ns = unread_ns, .held = held};
}

T(a_slow_request_says_what_it_waited_for)
{
	char text[ZN_SLOW_TEXT];
	struct zn_slow_request r = request_of(823 * ZN_NS_PER_MS, 2);

	CHECK(zn_memory_open(&arena) == 0);
	zn_agg_init(&agg, &arena.arena);
	zn_slow_waited(&agg, &r, text);
	CHECK_STR(text, "unread 823ms, held by TCP 2 events");
	agg.measured |= 1ull << ZN_FAM_SCHED;
	r = request_of(0, 0);
	zn_slow_waited(&agg, &r, text);
	CHECK_STR(text, "");
	r.share[ZN_WORK_GPU] = 700ull << ZN_SHARE_BITS;
	r.share[ZN_WORK_CPU] = 250ull << ZN_SHARE_BITS;
	r.share[ZN_WORK_IO] = 50ull << ZN_SHARE_BITS;
	zn_slow_waited(&agg, &r, text);
	CHECK_STR(text, "engine waiting for the GPU 70 %, on the CPU 25 %");
	r.unread_ns = 5 * ZN_NS_PER_MS;
	zn_slow_waited(&agg, &r, text);
	CHECK_STR(text, "unread 5.00ms, engine waiting for the GPU 70 %, on the CPU 25 %");
	zn_memory_close(&arena);
}

int main(void)
{
	RUN(what_is_usual_says_nothing);
	RUN(parts_that_have_grown_are_said_the_longest_first);
	RUN(a_part_whose_usual_length_is_not_known_says_nothing);
	RUN(a_front_end_that_computes_and_held_bytes_and_load_stand_beside);
	RUN(what_is_behind_the_engines_waits_stands_beside);
	RUN(a_piece_without_room_is_left_out_whole);
	RUN(a_slow_request_says_what_it_waited_for);
	return t_end();
}
