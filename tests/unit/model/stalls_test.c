/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stalls_test.c: the sentence that says why a GPU is idle, and where a process's time went, over an arena of plain
 * memory.
 */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <string.h>

#define PERCENT 10000000u

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_state view;

T(sentences)
{
	/* shares of cpu gpu data dist io runqueue other in per cent, workers, how busy in per cent (-1: not known), who
	 * is late */
	static const struct {
		uint8_t share[ZN_STALL_COUNT];
		uint32_t workers;
		int busy;
		uint32_t late_pid, late_rank;
		const char *says;
	} rows[] = {
		{{50, 9, 41}, 4, 97, 0, 0, "rank 3 waits for data 41 % of its time; its 4 loader workers are busy"},
		{{50, 9, 41}, 4, 3, 0, 0,
			"rank 3 waits for data 41 % of its time; its 4 loader workers are idle: the wait is in the pinning thread, or on the way"},
		{{50, 9, 41}, 1, 60, 0, 0, "rank 3 waits for data 41 % of its time; its 1 loader worker is busy"},
		{{50, 9, 41}, 0, -1, 0, 0, "rank 3 waits for data 41 % of its time"},
		{{50, 20, 0, 30}, 4, 97, 4711, 2,
			"rank 3 waits for other ranks 30 % of its time; rank 2 (pid 4711) is the straggler"},
		{{50, 20, 0, 30}, 0, -1, 4711, ZN_UNKNOWN,
			"rank 3 waits for other ranks 30 % of its time; process 4711 is the straggler"},
		{{50, 20, 0, 30}, 0, -1, 0, ZN_UNKNOWN, "rank 3 waits for other ranks 30 % of its time"},
		{{8, 90, 2}, 4, 97, 0, 0, "rank 3 keeps the GPU busy and waits for it 90 % of its time"},
		{{8, 90, 2}, 4, 97, 99, 1,
			"rank 3 waits for the GPU, or there for others, 90 % of its time; rank 1 (pid 99) is the last to communicate"},
		{{60, 31, 9}, 4, 97, 0, 0, "rank 3 runs on the CPU 60 % of its time"},
		{{70, 0, 0, 0, 30}, 0, -1, 0, 0, "rank 3 is blocked on files or page faults 30 % of its time"},
		{{68, 10, 0, 0, 0, 22}, 0, -1, 0, 0, "rank 3 finds no free CPU 22 % of its time"},
		{{60, 16, 0, 0, 0, 0, 24}, 0, -1, 0, 0, "rank 3 runs on the CPU 60 % of its time"},
		{{60, 10, 0, 0, 0, 0, 30}, 0, -1, 0, 0, "rank 3 sleeps, on a lock or a timer, 30 % of its time"},
		{{40, 0, 20, 30, 10}, 2, 90, 0, 0, "rank 3 waits for other ranks 30 % of its time"},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_stalls_summary f = {.who = "rank 3",
			.workers = rows[i].workers,
			.worker_busy = rows[i].busy < 0 ? ZN_UNKNOWN : (uint32_t)rows[i].busy * PERCENT,
			.late_pid = rows[i].late_pid,
			.late_rank = rows[i].late_rank};
		char says[ZN_SAYS_MAX];

		for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
			f.share[s] = rows[i].share[s] * PERCENT;
		zn_stalls_says(&f, says);
		CHECK_STR(says, rows[i].says);
	}
}

/* Of a server that is not told as a lock. */
T(who_is_asked_sleeps_until_then)
{
	struct zn_stalls_summary f = {.who = "process 7", .asked = true, .late_rank = ZN_UNKNOWN};
	char says[ZN_SAYS_MAX];

	f.share[ZN_STALL_OTHER] = 97 * PERCENT;
	zn_stalls_says(&f, says);
	CHECK_STR(says, "process 7 sleeps, until it is asked or for another reason, 97 % of its time");
	f.share[ZN_STALL_OTHER] = 60 * PERCENT;
	f.share[ZN_STALL_RUNQUEUE] = 70 * PERCENT;
	zn_stalls_says(&f, says);
	CHECK_STR(says, "process 7 finds no free CPU 70 % of its time");
}

T(the_longest_sentence_fits)
{
	struct zn_stalls_summary f = {
		.who = "process 4294967295", .workers = 4294967295u, .late_pid = 4294967295u, .late_rank = 4294967294u};
	struct zn_missing m = {.tgid = 4294967295u, .rank = 4294967294u, .doing = ZN_DOING_ASLEEP, .waiters = 65535};
	char says[ZN_SAYS_MAX];

	f.now_ns = UINT64_MAX;
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
		memset(f.share, 0, sizeof(f.share));
		f.share[s] = 100 * PERCENT;
		zn_stalls_says(&f, says);
		CHECK(strlen(says) < ZN_SAYS_MAX - 1);
	}
	memset(m.in, 'x', sizeof(m.in) - 1);
	f.waits_for = &m;
	zn_stalls_says(&f, says);
	CHECK(strlen(says) < ZN_SAYS_MAX - 1);
	CHECK(strstr(says, ", for 1844674407") != NULL);
}

/* A rank that does not come explains all else, whatever the shares are. */
T(who_waits_for_a_missing_rank)
{
	static const struct {
		struct zn_missing missing;
		const char *waits, *keeps;
	} rows[] = {
		{{.tgid = 6389, .rank = 2, .waiters = 11, .doing = ZN_DOING_ASLEEP, .in = "read() of a pipe"},
			"rank 3 waits for rank 2 (process 6389), which is asleep in read() of a pipe, for 41 s",
			"rank 3 keeps 3 other ranks waiting for 41 s: it is asleep in read() of a pipe"},
		{{.tgid = 6389, .rank = ZN_UNKNOWN, .waiters = 8, .doing = ZN_DOING_CPU},
			"rank 3 waits for process 6389, which runs on the CPU, for 41 s",
			"rank 3 keeps 1 other rank waiting for 41 s: it runs on the CPU"},
		{{.tgid = 6389,
			 .rank = 2,
			 .waiters = 8,
			 .doing = ZN_DOING_ASLEEP,
			 .stop = ZN_STOP_SIGNAL,
			 .in = "sleep()"},
			"rank 3 waits for rank 2 (process 6389), which is asleep, stopped by a signal or a debugger, for 41 s",
			"rank 3 keeps 1 other rank waiting for 41 s: it is asleep, stopped by a signal or a debugger"},
		{{.tgid = 6389,
			 .rank = 2,
			 .waiters = 8,
			 .doing = ZN_DOING_ASLEEP,
			 .stop = ZN_STOP_BLOCKED,
			 .in = "the kernel's nfs_wait()"},
			"rank 3 waits for rank 2 (process 6389), which is in uninterruptible sleep in the kernel's nfs_wait(), for 41 s",
			"rank 3 keeps 1 other rank waiting for 41 s: it is in uninterruptible sleep in the kernel's nfs_wait()"},
		{{.tgid = 6389,
			 .rank = 2,
			 .waiters = 8,
			 .doing = ZN_DOING_GONE,
			 .exit_code = 9,
			 .gone_ns = 38 * ZN_NS_PER_S},
			"rank 3 waits for rank 2 (process 6389), which was killed (SIGKILL) 4 s ago", NULL},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_missing m = rows[i].missing;
		struct zn_stalls_summary f = {.who = "rank 3", .waits_for = &m, .now_ns = 42 * ZN_NS_PER_S};
		char says[ZN_SAYS_MAX];

		m.since_ns = ZN_NS_PER_S;
		f.share[ZN_STALL_GPU] = 100 * PERCENT;
		zn_stalls_says(&f, says);
		CHECK_STR(says, rows[i].waits);
		f.missing = &m;
		zn_stalls_says(&f, says);
		if (rows[i].keeps)
			CHECK_STR(says, rows[i].keeps);
	}
}

static struct zn_proc *start(void)
{
	struct zn_proc *p;

	clock_ns = 1000;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	agg.measured = 1ULL << ZN_FAM_SCHED | 1ULL << ZN_FAM_DATALOAD;
	view = (struct zn_state){.agg = &agg};
	p = zn_memory_claim(&memory, 4711, "python3");
	zn_agg_tick(&agg, clock_ns);
	return p;
}

static void tick(uint64_t ns)
{
	clock_ns += ns;
	zn_agg_tick(&agg, clock_ns);
}

T(shares_of_the_last_tick)
{
	struct zn_proc *p = start();
	struct zn_stall_ratios s;

	CHECK(!zn_stalls_shares(view.agg, agg.row[0], &s)); /* nothing was launched yet */
	p->count[ZN_C_STALL_CPU] = 600;
	p->count[ZN_C_STALL_GPU] = 400;
	tick(1000);
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
	CHECK_EQ(s.share[ZN_STALL_CPU], 60 * PERCENT);
	CHECK_EQ(s.share[ZN_STALL_GPU], 40 * PERCENT);
	p->count[ZN_C_STALL_IO] = 1000;
	tick(1000);
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
	CHECK_EQ(s.share[ZN_STALL_CPU], 0);
	CHECK_EQ(s.share[ZN_STALL_IO], 100 * PERCENT);
	CHECK_EQ(s.seconds_ns[ZN_STALL_CPU], 600);
	tick(1000); /* its threads have ended */
	CHECK(!zn_stalls_shares(view.agg, agg.row[0], &s));
}

/* Of what the scheduler tells, a half was seen; of waits in hooked calls all. */
T(shares_of_a_process_that_is_spared)
{
	struct zn_proc *p = start();
	struct zn_spent *spent = &memory.arena.shared->spent[agg.row[0]];
	struct zn_stall_ratios s;

	agg.measured |= 1ULL << ZN_FAM_DIST_SYNC;
	p->comms = 1;
	spent->id = p->id;
	spent->unseen_ns[ZN_SPARE_SWITCHES] = 500;
	p->count[ZN_C_STALL_CPU] = 200;
	p->count[ZN_C_STALL_IO] = 50;
	p->count[ZN_C_STALL_GPU] = 400;
	p->count[ZN_C_STALL_DIST] = 100;
	tick(1000);
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
	CHECK_EQ(s.share[ZN_STALL_CPU], 40 * PERCENT);
	CHECK_EQ(s.share[ZN_STALL_IO], 10 * PERCENT);
	CHECK_EQ(s.share[ZN_STALL_GPU], 40 * PERCENT);
	CHECK_EQ(s.share[ZN_STALL_DIST], 10 * PERCENT);
	CHECK_EQ(s.seconds_ns[ZN_STALL_CPU], 200);
	p->comms = 0; /* its waits for others are sleeps on sockets: they were seen in a half of the time, too */
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
	CHECK_EQ(s.share[ZN_STALL_DIST], 2000000000 / 11);
}

T(of_too_little_nothing_is_said)
{
	struct zn_proc *p = start();
	struct zn_spent *spent = &memory.arena.shared->spent[agg.row[0]];
	struct zn_stall_ratios s;

	spent->id = p->id;
	for (int i = 0; i < 3; i++) {
		static const uint64_t unseen[] = {751, 1000, 1050}; /* a slot may end later than the tick */

		spent->unseen_ns[ZN_SPARE_SWITCHES] += unseen[i];
		p->count[ZN_C_STALL_GPU] += 900;
		tick(1000);
		CHECK(!zn_stalls_shares(view.agg, agg.row[0], &s));
		CHECK_EQ(s.seconds_ns[ZN_STALL_GPU], 900 * (i + 1));
	}
	p->count[ZN_C_STALL_GPU] += 1000;
	tick(1000);
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
	CHECK_EQ(s.share[ZN_STALL_GPU], 100 * PERCENT);
	spent->id++; /* it is of another process's time */
	spent->unseen_ns[ZN_SPARE_SWITCHES] = 5000;
	p->count[ZN_C_STALL_GPU] += 1000;
	tick(1000);
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
}

T(a_loader_that_is_not_known_has_no_share)
{
	struct zn_proc *p = start();
	struct zn_stall_ratios s;

	p->count[ZN_C_STALL_OTHER] = 600;
	p->count[ZN_C_WORKERS] = 3; /* whatever they are */
	tick(1000);
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
	CHECK(!s.known[ZN_STALL_DATA] && !s.known[ZN_STALL_DIST] && s.known[ZN_STALL_IO]);
	CHECK(!zn_stalls_loader(view.agg, agg.row[0]));
	zn_memory_record(&memory, p, ZN_H_WORKER_IDLE, 5000, 0);
	CHECK(zn_stalls_loader(view.agg, agg.row[0]));
	agg.measured |= 1ULL << ZN_FAM_DIST_SYNC;
	CHECK(zn_stalls_shares(view.agg, agg.row[0], &s));
	CHECK(s.known[ZN_STALL_DATA] && s.known[ZN_STALL_DIST]);
	agg.measured &= ~(1ULL << ZN_FAM_SCHED);
	CHECK(!zn_stalls_shares(view.agg, agg.row[0], &s));
}

static const char *json(uint32_t row)
{
	static char text[4096];
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};
	struct zn_json j;

	zn_json_begin(&j, &o);
	zn_json_open(&j, '{');
	zn_stalls_json(&j, &view, row);
	zn_stalls_loader_json(&j, &view, row);
	zn_json_end(&j, true);
	text[o.len] = 0;
	return text;
}

T(nothing_is_null_and_not_zero)
{
	start();
	CHECK(strstr(json(agg.row[0]), "\"stalls\":null,\"dataloader\":null"));
}

T(gloo_straggler_is_who_waits_least)
{
	struct zn_proc *p = start(), *late = zn_memory_claim(&memory, 4712, "python3"), *third;

	third = zn_memory_claim(&memory, 4713, "python3");
	agg.measured |= 1ULL << ZN_FAM_DIST_SYNC;
	zn_memory_record(&memory, late, ZN_H_DIST_SYNC, 10, 0);
	zn_memory_record(&memory, third, ZN_H_DIST_SYNC, 600, 0);
	p->count[ZN_C_STALL_DIST] = third->count[ZN_C_STALL_DIST] = 600;
	p->count[ZN_C_STALL_CPU] = third->count[ZN_C_STALL_CPU] = 400;
	late->count[ZN_C_STALL_CPU] = 990;
	late->count[ZN_C_STALL_DIST] = 10;
	tick(1000);
	CHECK(strstr(json((uint32_t)(p - memory.arena.procs)),
		"process 4711 waits for other ranks 60 % of its time; process 4712 is the straggler"));
	CHECK(strstr(json((uint32_t)(late - memory.arena.procs)), "process 4712 runs on the CPU 99 % of its time\""));
	late->owner = 1001; /* it is another user's, and of no job */
	CHECK(!strstr(json((uint32_t)(p - memory.arena.procs)), "straggler"));
	p->job = late->job = (struct zn_job_ref){1, 4}; /* whoever runs what is of one job */
	CHECK(strstr(json((uint32_t)(p - memory.arena.procs)), "process 4712 is the straggler"));
	late->job = (struct zn_job_ref){1, 5}; /* it is another job's, and late for nobody else */
	CHECK(!strstr(json((uint32_t)(p - memory.arena.procs)), "straggler"));
}

T(sums_never_fall)
{
	struct zn_proc *p = start();
	uint32_t row = agg.row[0];

	p->count[ZN_C_STALL_DATA] = 600;
	tick(1000);
	p->count[ZN_C_STALL_DATA] = 500; /* a wait that went on was seen longer than it was counted */
	tick(1000);
	CHECK_EQ(zn_agg_count(&agg, row, ZN_C_STALL_DATA), 600);
	p->count[ZN_C_STALL_DATA] = 900;
	CHECK_EQ(zn_agg_count(&agg, row, ZN_C_STALL_DATA), 900);
}

int main(void)
{
	RUN(sentences);
	RUN(who_is_asked_sleeps_until_then);
	RUN(the_longest_sentence_fits);
	RUN(who_waits_for_a_missing_rank);
	RUN(shares_of_the_last_tick);
	RUN(shares_of_a_process_that_is_spared);
	RUN(of_too_little_nothing_is_said);
	RUN(a_loader_that_is_not_known_has_no_share);
	RUN(nothing_is_null_and_not_zero);
	RUN(gloo_straggler_is_who_waits_least);
	RUN(sums_never_fall);
	zn_memory_close(&memory);
	return t_end();
}
