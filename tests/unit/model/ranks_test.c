/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ranks_test.c: which rank is missing, and what it does, over an arena of plain memory and a /proc of the test's own.
 * Times and states are the tests'; a tick is one second.
 */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define S     ZN_NS_PER_S
#define RANKS 4

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_progress progress;
static struct zn_ranks ranks;
static struct zn_proc *process[RANKS];
static enum zn_stall state[RANKS]; /* in which each spends its ticks; ZN_STALL_COUNT: it launches, too */
static char proc[] = "/tmp/zernel-ranks-XXXXXX";

static struct zn_skew *comm(uint32_t slot)
{
	return &memory.arena.skews[slot];
}

static void join(uint32_t slot, uint32_t rank)
{
	struct zn_skew *s = comm(slot);

	memory.arena.shared->skew_used[slot] = 1;
	s->of = ZN_SKEW_OF(0, slot + 1);
	s->hash = slot + 1;
	s->member[s->members++] = (struct zn_skew_rank){.tgid = process[rank]->tgid,
		.row = (uint32_t)(process[rank] - memory.arena.procs),
		.id = process[rank]->id,
		.rank = rank};
}

static void issue(uint32_t slot, uint32_t member)
{
	struct zn_skew_rank *r = &comm(slot)->member[member];

	comm(slot)->at_ns[r->issued++ % ZN_SKEW_WINDOW][member] = clock_ns;
}

static void folder_make(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", proc, name);
	mkdir(path, 0755);
}

static void proc_write(uint32_t pid, const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%u", proc, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%u/%s", proc, pid, name);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fputs(text, f);
	fclose(f);
}

static void stat_write(uint32_t pid, char how, unsigned ticks)
{
	char text[256];

	snprintf(text, sizeof(text), "%u (a) S 1 (b)) %c 1 1 1 0 -1 4194304 1 1 1 1 %u 3 0 0 20 0 1 0 5 6 7", pid, how,
		ticks);
	proc_write(pid, "stat", text);
}

static void end_of(uint32_t rank, uint32_t exit_code)
{
	process[rank]->exit_code = exit_code;
	zn_memory_exit(&memory, process[rank]);
	process[rank] = NULL;
}

/* So many seconds pass. */
static void pass(uint32_t seconds)
{
	while (seconds--) {
		clock_ns += S;
		for (uint32_t i = 0; i < RANKS; i++) {
			if (!process[i])
				continue;
			if (state[i] == ZN_STALL_COUNT)
				process[i]->count[ZN_C_LAUNCH_KERNEL]++;
			else
				process[i]->count[ZN_C_STALL_CPU + state[i]] += S;
		}
		zn_agg_tick(&agg, clock_ns);
		zn_progress_tick(&progress, &agg, clock_ns);
		zn_ranks_tick(&ranks, clock_ns);
	}
}

static uint64_t look_takes_ns;
static uint32_t looks;

static void place(void *owner, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES])
{
	(void)user;
	char path[256];

	CHECK(owner == &ranks);
	clock_ns += look_takes_ns;
	looks++;
	snprintf(path, sizeof(path), "%s/%u/wchan", proc, pid);
	zn_file_read(path, to, ZN_PLACE_BYTES);
}

/* Four ranks in one communicator have issued three collectives, and wait for their GPUs. */
static void start(void)
{
	clock_ns = 1000 * S;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	memset(&progress, 0, sizeof(progress));
	memset(&ranks, 0, sizeof(ranks));
	zn_ranks_init(&ranks, &agg, &progress, proc);
	ranks.place = place;
	ranks.owner = &ranks;
	for (uint32_t i = 0; i < RANKS; i++) {
		process[i] = zn_memory_claim(&memory, 100 + i, "rank");
		state[i] = ZN_STALL_GPU;
		stat_write(100 + i, 'S', 7);
		proc_write(100 + i, "wchan", "0");
		join(0, i);
	}
	pass(1);
	for (int n = 0; n < 3; n++)
		for (uint32_t i = 0; i < RANKS; i++)
			issue(0, i);
	pass(2);
}

/* All but one issue the next one. */
static void issue_but(uint32_t missing)
{
	for (uint32_t i = 0; i < RANKS; i++)
		if (i != missing && process[i])
			issue(0, i);
}

static uint32_t shown(void)
{
	uint32_t n = 0;

	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++)
		for (uint32_t m = 0; m < ZN_SKEW_RANKS; m++)
			n += zn_missing_shown(&ranks, &ranks.missing[slot][m]);
	return n;
}

T(nobody_is_missing_where_all_have_issued)
{
	start();
	CHECK_EQ(shown(), 0);
	pass(60);
	CHECK_EQ(shown(), 0);
	CHECK(!zn_ranks_waited_for(&ranks, agg.row[0]));
}

/* A peer that was spared may have computed: only one that is inside of a call waits for anybody. */
T(who_was_not_seen_does_not_wait)
{
	struct zn_spent *spent;
	uint32_t waiters = 0;

	start();
	spent = &memory.arena.shared->spent[process[3] - memory.arena.procs];
	spent->id = process[3]->id;
	issue_but(2);
	for (int i = 0; i < 5; i++) {
		state[3] = i < 3 ? ZN_STALL_OTHER : ZN_STALL_GPU;
		spent->unseen_ns[ZN_SPARE_SWITCHES] += S;
		pass(1);
		waiters = ranks.missing[0][2].waiters;
		CHECK_EQ(waiters, i < 3 ? 1 | 2 : 1 | 2 | 8);
	}
}

T(who_is_missing_and_for_how_long)
{
	const struct zn_missing *m = &ranks.missing[0][2];
	uint64_t at;

	start();
	at = clock_ns;
	state[2] = ZN_STALL_OTHER;
	proc_write(102, "wchan", "anon_pipe_read");
	issue_but(2);
	pass(1);
	CHECK_EQ(shown(), 1);
	pass(40);
	CHECK_EQ(shown(), 1);
	CHECK(zn_missing_shown(&ranks, m));
	CHECK_EQ(m->since_ns, at);
	CHECK_EQ(m->waiters, 1 | 2 | 8);
	CHECK_EQ(m->tgid, 102);
	CHECK_EQ(m->rank, 2);
	CHECK_EQ(m->doing, ZN_DOING_ASLEEP);
	CHECK_EQ(clock_ns - m->doing_ns, 40 * S); /* from the first look on */
	CHECK_STR(m->in, "read() of a pipe");
	for (uint32_t i = 0; i < RANKS; i++)
		CHECK(zn_ranks_waited_for(&ranks, (uint32_t)(process[i] - memory.arena.procs)) == (i == 2 ? NULL : m));
	issue(0, 2);
	pass(1);
	CHECK_EQ(shown(), 0);
	CHECK_EQ(ranks.longest_ns[0], 42 * S);
}

/* state of its threads; what moves; text of /proc/PID/wchan; state there; ticks of a second on the CPU */
static const struct {
	enum zn_stall state;
	enum zn_counter moves;
	uint64_t by;
	const char *wchan;
	char how;
	unsigned ticks;
	enum zn_doing doing;
	const char *says;
} doings[] = {
	{ZN_STALL_OTHER, 0, 0, "futex_wait_queue", 'S', 0, ZN_DOING_ASLEEP,
		"is asleep in futex(): a lock, or a thread of its own"},
	{ZN_STALL_OTHER, 0, 0, "do_epoll_wait", 'S', 1, ZN_DOING_ASLEEP, "is asleep in epoll_wait()"},
	{ZN_STALL_OTHER, 0, 0, "my_module_wait", 'S', 0, ZN_DOING_ASLEEP, "is asleep in the kernel's my_module_wait()"},
	{ZN_STALL_OTHER, 0, 0, "a \"b\"\n", 'S', 0, ZN_DOING_ASLEEP, "is asleep"},
	{ZN_STALL_OTHER, 0, 0, "0", 'S', 0, ZN_DOING_ASLEEP, "is asleep"},
	{ZN_STALL_CPU, 0, 0, "0", 'T', 0, ZN_DOING_CPU, "runs on the CPU"},
	{ZN_STALL_OTHER, 0, 0, "do_signal_stop", 'T', 0, ZN_DOING_ASLEEP,
		"is asleep, stopped by a signal or a debugger"},
	{ZN_STALL_OTHER, 0, 0, "ptrace_stop", 't', 0, ZN_DOING_ASLEEP, "is asleep, stopped by a signal or a debugger"},
	{ZN_STALL_OTHER, 0, 0, "do_freezer_trap", 'S', 0, ZN_DOING_ASLEEP, "is asleep in a frozen control group"},
	{ZN_STALL_OTHER, 0, 0, "futex_wait_queue", 'S', 90, ZN_DOING_CPU, "runs on the CPU"},
	{ZN_STALL_RUNQUEUE, 0, 0, "0", 'R', 0, ZN_DOING_CPU, "runs on the CPU"},
	{ZN_STALL_IO, 0, 0, "0", 'D', 0, ZN_DOING_IO, "reads or writes files"},
	{ZN_STALL_OTHER, ZN_C_IO_WRITE_BYTES, 1 << 20, "futex_wait_queue", 'S', 0, ZN_DOING_IO,
		"reads or writes files"},
	{ZN_STALL_DATA, 0, 0, "0", 'S', 0, ZN_DOING_DATA, "waits for data"},
	{ZN_STALL_GPU, 0, 0, "0", 'S', 0, ZN_DOING_GPU, "works on its own GPU, or waits for it"},
	{ZN_STALL_CPU, ZN_C_LAUNCH_KERNEL, 1, "0", 'R', 0, ZN_DOING_GPU, "works on its own GPU, or waits for it"},
};

T(what_it_does_instead)
{
	for (size_t i = 0; i < ZN_LEN(doings); i++) {
		const struct zn_missing *m = &ranks.missing[0][2];
		char says[ZN_DOING_TEXT];
		unsigned ticks = 10;

		start();
		state[2] = doings[i].state;
		proc_write(102, "wchan", doings[i].wchan);
		issue_but(2);
		for (int s = 0; s < 5; s++) {
			process[2]->count[doings[i].moves] += doings[i].by;
			stat_write(102, doings[i].how, ticks += doings[i].ticks);
			pass(1);
		}
		CHECK_EQ(m->doing, doings[i].doing);
		zn_missing_says(m, says);
		CHECK_STR(says, doings[i].says);
	}
}

T(what_it_started_may_use_the_cpu)
{
	unsigned ticks = 10;

	start();
	state[2] = ZN_STALL_OTHER;
	folder_make("102/task");
	folder_make("102/task/102");
	proc_write(102, "task/102/children", "900 902 90");
	folder_make("902");
	folder_make("902/task");
	folder_make("902/task/902");
	proc_write(902, "task/902/children", "901 ");
	issue_but(2);
	for (int s = 0; s < 5; s++) {
		stat_write(901, 'R', ticks += 50);
		pass(1);
	}
	CHECK_EQ(ranks.missing[0][2].doing, ZN_DOING_CPU);
	proc_write(102, "task/102/children", "");
}

static uint64_t ioctl_ns; /* since when rank 2 is inside of ioctl() */

static void ioctls(struct zn_arena *a, void (*call)(void *to, uint32_t id, uint64_t start_ns), void *to)
{
	(void)a;
	call(to, process[1]->id, clock_ns); /* others come and go */
	call(to, process[2]->id, clock_ns);
	call(to, process[2]->id, ioctl_ns);
	call(to, 12345, 1);
}

T(a_call_that_stays_in_the_driver)
{
	struct zn_arena_ops ops;

	start();
	ops = *memory.arena.ops;
	ops.ioctls = ioctls;
	memory.arena.ops = &ops;
	state[2] = ZN_STALL_OTHER;
	process[1]->in_ioctl = process[2]->in_ioctl = 1;
	ioctl_ns = clock_ns;
	issue_but(2);
	pass(5);
	CHECK_EQ(ranks.missing[0][2].doing, ZN_DOING_DRIVER);
	CHECK_EQ(zn_progress_stuck(&progress, ranks.missing[0][2].row, process[2]->id), 5 * S);
	CHECK_EQ(zn_progress_stuck(&progress, comm(0)->member[1].row, process[1]->id), 0);
	ioctl_ns = clock_ns + S; /* it came back, and went in again */
	pass(1);
	CHECK_EQ(ranks.missing[0][2].doing, ZN_DOING_ASLEEP);
	process[2]->in_ioctl = 0;
	pass(1);
	CHECK_EQ(zn_progress_stuck(&progress, ranks.missing[0][2].row, process[2]->id), 0);
}

/* Others were inside for a moment at the ticks before it went in. */
T(a_call_that_stays_behind_others)
{
	struct zn_arena_ops ops;
	uint32_t row = comm(0)->member[2].row;

	start();
	ops = *memory.arena.ops;
	ops.ioctls = ioctls;
	memory.arena.ops = &ops;
	process[2]->in_ioctl = 1;
	for (int i = 0; i < 3; i++) {
		ioctl_ns = clock_ns + S / 2; /* it is another one at each */
		pass(1);
		CHECK_EQ(zn_progress_stuck(&progress, row, process[2]->id), 0);
	}
	pass(5);
	CHECK_EQ(zn_progress_stuck(&progress, row, process[2]->id), 11 * S / 2);
}

/* Looks that take long are spread over ticks, and each rank has its turn. */
T(looks_are_bounded)
{
	start();
	for (uint32_t slot = 1; slot < 4; slot++) {
		join(slot, 0);
		join(slot, 2); /* member 1 */
		issue(slot, 0);
	}
	issue_but(2);
	state[2] = ZN_STALL_OTHER;
	look_takes_ns = 5 * ZN_NS_PER_MS;
	for (int n = 0; n < 4; n++) {
		looks = 0;
		pass(1);
		CHECK_EQ(looks, 1);
	}
	look_takes_ns = 0;
	for (uint32_t slot = 1; slot < 4; slot++)
		CHECK(ranks.missing[slot][1].look_ns > 0);
	CHECK(ranks.missing[0][2].look_ns > 0);
	looks = 0;
	pass(1);
	CHECK_EQ(looks, 4);
}

T(what_it_does_now_is_timed_from_its_begin)
{
	const struct zn_missing *m = &ranks.missing[0][2];

	start();
	state[2] = ZN_STALL_CPU;
	issue_but(2);
	pass(60);
	CHECK_EQ(m->doing, ZN_DOING_CPU);
	state[2] = ZN_STALL_OTHER;
	pass(3);
	CHECK_EQ(m->doing, ZN_DOING_ASLEEP);
	CHECK_EQ(clock_ns - m->doing_ns, 2 * S);
	CHECK_EQ(clock_ns - m->since_ns, 63 * S);
}

T(nobody_waits_who_does_something_else)
{
	static const enum zn_stall busy[] = {ZN_STALL_CPU, ZN_STALL_IO, ZN_STALL_RUNQUEUE, ZN_STALL_COUNT};

	for (size_t i = 0; i < ZN_LEN(busy); i++) {
		start();
		for (uint32_t r = 0; r < RANKS; r++)
			state[r] = busy[i];
		issue_but(2);
		pass(30);
		CHECK_EQ(shown(), 0);
	}
}

/* exit code; whether it had issued as much as the others; shown; what is said */
static const struct {
	uint32_t exit_code;
	bool issued, shown;
	const char *says;
} ends[] = {
	{9, false, true, "was killed (SIGKILL)"},
	{9, true, true, "was killed (SIGKILL)"},
	{11 | 0x80, true, true, "was killed (SIGSEGV)"},
	{40, false, true, "was killed (signal 40)"},
	{1 << 8, false, true, "has ended with status 1"},
	{1 << 8, true, true, "has ended with status 1"},
	{0, false, true, "has ended with status 0"},
	{0, true, false, NULL},
	{ZN_UNKNOWN, false, true, "has ended"},
};

T(who_has_gone)
{
	for (size_t i = 0; i < ZN_LEN(ends); i++) {
		const struct zn_missing *m = &ranks.missing[0][2];
		char says[ZN_DOING_TEXT];
		uint64_t at;

		start();
		issue_but(ends[i].issued ? RANKS : 2);
		at = clock_ns;
		end_of(2, ends[i].exit_code);
		pass(3);
		CHECK_EQ(shown(), ends[i].shown);
		if (!ends[i].shown)
			continue;
		CHECK_EQ(m->doing, ZN_DOING_GONE);
		CHECK_EQ(m->gone_ns, at);
		CHECK_EQ(m->since_ns, at);
		zn_missing_says(m, says);
		CHECK_STR(says, ends[i].says);
		CHECK(zn_memory_claim(&memory, 500, "another") != NULL); /* it may get the row */
		pass(3);
		zn_missing_says(m, says);
		CHECK_STR(says, ends[i].says);
	}
}

/* It ended after the tick's time, and before it was looked at. */
T(who_goes_amid_a_tick)
{
	start();
	issue_but(RANKS);
	clock_ns += S + 1;
	end_of(2, 15);
	clock_ns -= S + 1;
	pass(1);
	CHECK_EQ(shown(), 0);
	pass(1);
	CHECK_EQ(shown(), 1);
	CHECK_EQ(clock_ns - ranks.missing[0][2].since_ns, S);
}

T(a_wait_is_over_when_the_rank_has_come)
{
	start();
	state[2] = ZN_STALL_CPU;
	issue_but(2);
	pass(10);
	for (uint32_t i = 0; i < RANKS; i++)
		state[i] = ZN_STALL_CPU; /* nobody waits for a moment */
	pass(1);
	CHECK_EQ(shown(), 0);
	CHECK_EQ(ranks.longest_ns[0], 0);
	state[0] = ZN_STALL_GPU;
	pass(9);
	CHECK_EQ(shown(), 1);
	issue(0, 2);
	pass(1);
	CHECK_EQ(ranks.longest_ns[0], 21 * S);
}

T(who_has_left_is_not_missing)
{
	start();
	issue_but(2);
	comm(0)->member[2].id = 0;
	pass(5);
	CHECK_EQ(shown(), 0);
}

/* Each step it is late for three seconds: for long by now, and never for longer than that. */
T(a_straggler_is_no_hang)
{
	const struct zn_missing *m = &ranks.missing[0][2];

	start();
	state[2] = ZN_STALL_CPU;
	for (int step = 0; step < 60; step++) {
		issue_but(2);
		pass(3);
		CHECK_EQ(shown(), 1);
		CHECK(clock_ns - m->doing_ns <= 3 * S);
		issue(0, 2);
	}
	pass(1);
	CHECK_EQ(ranks.longest_ns[0], 3 * S + S);
}

static void send_to(uint32_t from, uint32_t to)
{
	comm(0)->sent[from][to]++;
}

static void receive_from(uint32_t to, uint32_t from)
{
	comm(0)->received[to][from]++;
}

/* Stage 1 of four does not go on: stage 0 wants to send to it, 2 to receive from it, and 3 from 2. */
static void stop_stage(void)
{
	state[1] = ZN_STALL_OTHER;
	send_to(0, 1);
	receive_from(2, 1);
	receive_from(3, 2);
}

T(a_stage_of_a_pipeline)
{
	const struct zn_missing *m = &ranks.missing[0][1];
	uint64_t at;

	start();
	stop_stage();
	pass(1);
	at = clock_ns;
	pass(20);
	CHECK_EQ(shown(), 1);
	CHECK(zn_missing_shown(&ranks, m));
	CHECK_EQ(m->waiters, 1 | 4);
	CHECK_EQ(m->since_ns, at);
	CHECK_EQ(m->doing, ZN_DOING_ASLEEP);
	for (uint32_t i = 0; i < RANKS; i++)
		CHECK(zn_ranks_waited_for(&ranks, (uint32_t)(process[i] - memory.arena.procs)) == (i == 1 ? NULL : m));
	CHECK_EQ(ranks.late_ns[0][1], 0); /* it is late with no collective */
	receive_from(1, 0);               /* it does one of the two, and then has its time anew */
	pass(1);
	CHECK_EQ(m->waiters, 4);
	CHECK_EQ(m->since_ns, clock_ns);
	send_to(1, 2);
	send_to(2, 3);
	pass(1);
	CHECK_EQ(shown(), 0);
	CHECK_EQ(ranks.longest_ns[0], 22 * S); /* that stage 3 waited for stage 2 */
	comm(0)->member[1].late_ns += 3 * S;   /* with a collective, later */
	pass(1);
	CHECK_EQ(ranks.late_ns[0][1], 3 * S);
}

T(counts_of_sends_go_around)
{
	start();
	comm(0)->sent[0][1] = comm(0)->received[1][0] = UINT32_MAX;
	stop_stage();
	pass(5);
	CHECK_EQ(ranks.missing[0][1].waiters, 1 | 4);
}

/* Who sleeps has asked for nothing that holds it up: only calls that wait for a GPU do. */
T(who_owes_to_one_that_sleeps_is_not_missing)
{
	start();
	stop_stage();
	for (uint32_t i = 0; i < RANKS; i++)
		state[i] = ZN_STALL_OTHER;
	pass(5);
	CHECK_EQ(shown(), 0);
}

static const struct zn_all_wait *all_wait_of(uint32_t rank)
{
	return zn_ranks_all_wait(&ranks, (uint32_t)(process[rank] - memory.arena.procs));
}

T(all_ranks_wait)
{
	char says[ZN_ALL_WAIT_TEXT];

	start();
	comm(0)->nranks = 8;
	join(1, 0); /* of a smaller communicator, too */
	comm(1)->nranks = 2;
	for (uint32_t i = 0; i < RANKS; i++)
		process[i]->count[ZN_C_LAUNCH_KERNEL]++;
	pass(1);
	pass(9);
	CHECK(!all_wait_of(0));
	process[1]->count[ZN_C_IO_WRITE_BYTES] += 4096; /* a log */
	pass(32);
	for (uint32_t i = 0; i < RANKS; i++)
		CHECK(all_wait_of(i) == &ranks.all_wait[0]);
	zn_all_wait_says(all_wait_of(0), clock_ns, says);
	CHECK_STR(says, "all ranks of this node wait for 41 s: for the GPU, or for one of the 4 ranks of other nodes");
	comm(0)->nranks = ZN_UNKNOWN;
	pass(1);
	zn_all_wait_says(&ranks.all_wait[0], clock_ns, says);
	CHECK_STR(says, "all ranks of this node wait for 42 s: for the GPU, or for ranks of other nodes");
	for (uint32_t nranks = RANKS; nranks <= RANKS + 1; nranks++) {
		comm(0)->nranks = nranks;
		pass(1);
		zn_all_wait_says(&ranks.all_wait[0], clock_ns, says);
		CHECK(strstr(says,
			      nranks == RANKS ? " s: for the GPU: none of them is missing"
					      : " s: for the GPU, or for the one rank of another node") != NULL);
	}
	CHECK_EQ(shown(), 0);
	process[3]->count[ZN_C_LAUNCH_KERNEL]++;
	pass(1);
	CHECK(!all_wait_of(0));
}

T(not_all_wait)
{
	static const enum zn_stall other[] = {ZN_STALL_CPU, ZN_STALL_OTHER, ZN_STALL_DATA, ZN_STALL_IO};

	for (size_t i = 0; i < ZN_LEN(other); i++) {
		start();
		state[3] = other[i];
		pass(30);
		CHECK(!all_wait_of(0));
	}
	start();
	issue_but(2); /* one is missing */
	pass(30);
	CHECK(!all_wait_of(0) && zn_ranks_waited_for(&ranks, (uint32_t)(process[0] - memory.arena.procs)));
	start();
	end_of(2, 0);
	pass(30);
	CHECK(!all_wait_of(0));
}

T(all_end_one_after_another)
{
	start();
	for (uint32_t i = 0; i < RANKS; i++) {
		end_of(i, 0);
		pass(3);
		CHECK_EQ(shown(), 0);
	}
}

/* In communicator 0 all wait for rank 2, which waits for rank 1 in communicator 1. */
T(the_last_of_a_chain_is_to_blame)
{
	uint32_t row[RANKS];

	start();
	for (uint32_t i = 0; i < RANKS; i++)
		row[i] = (uint32_t)(process[i] - memory.arena.procs);
	join(1, 1);
	join(1, 2);
	issue(1, 1); /* in step until here */
	issue(1, 2);
	issue(0, 0);
	issue(0, 3);
	issue(1, 2); /* waits for rank 1 */
	state[1] = ZN_STALL_OTHER;
	pass(5);
	CHECK(ranks.missing[0][2].waiters && ranks.missing[0][2].follows);
	CHECK(!zn_missing_shown(&ranks, &ranks.missing[0][2]));
	CHECK(zn_missing_shown(&ranks, &ranks.missing[1][0]));
	CHECK_EQ(zn_ranks_waited_for(&ranks, row[2])->tgid, 101);
	CHECK_EQ(zn_ranks_waited_for(&ranks, row[0])->tgid, 101);
	CHECK(!zn_ranks_waited_for(&ranks, row[1]));
}

T(a_circle_is_all_there_is)
{
	char says[ZN_DOING_TEXT];

	start();
	join(1, 1);
	join(1, 2);
	issue(0, 0);
	issue(0, 1); /* 1 waits for 2 here */
	issue(0, 3);
	issue(1, 1); /* 2 waits for 1 there */
	comm(1)->member[0].issued = 0;
	comm(1)->member[1].issued = 1;
	comm(1)->at_ns[0][1] = clock_ns;
	pass(5);
	CHECK_EQ(shown(), 2);
	CHECK(ranks.missing[0][2].cycle && ranks.missing[1][0].cycle);
	zn_missing_says(&ranks.missing[0][2], says);
	CHECK_STR(says, "waits for them in another communicator");
}

T(one_process_may_be_all_ranks)
{
	start();
	for (uint32_t i = 1; i < RANKS; i++) {
		comm(0)->member[i].tgid = 100;
		comm(0)->member[i].row = comm(0)->member[0].row;
		comm(0)->member[i].id = comm(0)->member[0].id;
	}
	issue_but(2);
	pass(10);
	CHECK_EQ(shown(), 0);
}

T(lateness_counts_while_it_lasts)
{
	uint64_t before;

	start();
	before = ranks.late_ns[0][2];
	state[2] = ZN_STALL_CPU;
	issue_but(2);
	pass(10);
	CHECK_EQ(ranks.late_ns[0][2] - before, 10 * S);
	CHECK_EQ(ranks.late_tick_ns[0][2], S);
	CHECK_EQ(ranks.late_ns[0][1], 0);
	issue(0, 2);
	comm(0)->member[2].late_ns += 10 * S; /* as BPF does */
	pass(1);
	CHECK_EQ(ranks.late_ns[0][2] - before, 10 * S);
	CHECK_EQ(ranks.late_tick_ns[0][2], 0);
	CHECK_EQ(zn_ranks_late(&ranks, comm(0), 0, 2), ranks.late_ns[0][2]);
	comm(0)->member[2].late_ns += 3 * S; /* since the tick */
	CHECK_EQ(zn_ranks_late(&ranks, comm(0), 0, 2), ranks.late_ns[0][2] + 3 * S);
	comm(0)->hash = 99; /* another one in its place, since the tick */
	comm(0)->member[2].late_ns = 5;
	CHECK_EQ(zn_ranks_late(&ranks, comm(0), 0, 2), 5);
}

/* A peer is so far ahead that BPF adds nothing of the wait: it stays, and what comes later is added to it. */
T(lateness_that_nobody_adds_stays)
{
	start();
	state[2] = ZN_STALL_CPU;
	issue_but(2);
	pass(10);
	issue(0, 2);
	comm(0)->done = comm(0)->member[2].issued;
	pass(2);
	CHECK_EQ(ranks.late_ns[0][2], 10 * S);
	comm(0)->member[2].late_ns += 3 * S;
	CHECK_EQ(zn_ranks_late(&ranks, comm(0), 0, 2), 13 * S);
	pass(1);
	CHECK_EQ(ranks.late_ns[0][2], 13 * S);
	CHECK_EQ(ranks.late_tick_ns[0][2], S);
	issue_but(2); /* and so does the next wait */
	pass(4);
	CHECK_EQ(ranks.late_ns[0][2], 17 * S);
}

/* It has ten yet to issue, and does so one by one. Another one is later than it, so that BPF adds nothing yet. */
T(each_moment_of_lateness_counts_once)
{
	start();
	state[2] = state[3] = ZN_STALL_CPU;
	for (int n = 0; n < 10; n++)
		issue(0, 0), issue(0, 1);
	pass(5);
	CHECK_EQ(ranks.late_ns[0][2], 5 * S);
	issue(0, 2);
	pass(3);
	CHECK_EQ(ranks.late_ns[0][2], 5 * S);
	pass(3);
	CHECK_EQ(ranks.late_ns[0][2], 6 * S);
	for (int n = 0; n < 9; n++)
		issue(0, 2);
	clock_ns += 2 * S;
	issue(0, 0); /* since the tick began */
	clock_ns -= 2 * S;
	pass(1);
	CHECK_EQ(ranks.late_ns[0][2], 6 * S);
}

T(far_behind_is_since_the_oldest_time_kept)
{
	uint64_t at;

	start();
	state[2] = ZN_STALL_CPU;
	for (uint32_t n = 0; n < 2 * ZN_SKEW_WINDOW; n++, clock_ns += S)
		issue(0, 1);
	at = clock_ns - ZN_SKEW_WINDOW * S;
	state[0] = state[3] = ZN_STALL_CPU; /* they are late too, and wait for nobody */
	pass(2);
	CHECK_EQ(ranks.missing[0][2].since_ns, at);
	CHECK_EQ(ranks.missing[0][2].waiters, 2);
}

T(another_communicator_in_its_place_begins_anew)
{
	start();
	state[2] = ZN_STALL_OTHER;
	issue_but(2);
	pass(10);
	issue(0, 2);
	pass(1);
	CHECK(ranks.longest_ns[0] > 0);
	memset(comm(0), 0, sizeof(*comm(0)));
	for (uint32_t i = 0; i < RANKS; i++)
		join(0, i);
	comm(0)->hash = 77;
	pass(2);
	CHECK_EQ(ranks.longest_ns[0], 0);
	CHECK_EQ(shown(), 0);
}

/* What members say is written by the processes of users. */
T(rows_out_of_range_are_nobody)
{
	start();
	comm(0)->member[2].row = ZN_PROCS_MAX + 5;
	comm(0)->member[3].row = ZN_UNKNOWN;
	comm(0)->members = ZN_SKEW_RANKS + 3;
	issue_but(2);
	pass(3);
	CHECK_EQ(ranks.missing[0][2].doing, ZN_DOING_GONE);
}

int main(void)
{
	if (!mkdtemp(proc))
		return 1;
	RUN(nobody_is_missing_where_all_have_issued);
	RUN(who_was_not_seen_does_not_wait);
	RUN(who_is_missing_and_for_how_long);
	RUN(what_it_does_instead);
	RUN(what_it_started_may_use_the_cpu);
	RUN(a_call_that_stays_in_the_driver);
	RUN(a_call_that_stays_behind_others);
	RUN(looks_are_bounded);
	RUN(what_it_does_now_is_timed_from_its_begin);
	RUN(nobody_waits_who_does_something_else);
	RUN(who_has_gone);
	RUN(who_goes_amid_a_tick);
	RUN(a_wait_is_over_when_the_rank_has_come);
	RUN(who_has_left_is_not_missing);
	RUN(a_straggler_is_no_hang);
	RUN(a_stage_of_a_pipeline);
	RUN(counts_of_sends_go_around);
	RUN(who_owes_to_one_that_sleeps_is_not_missing);
	RUN(all_ranks_wait);
	RUN(not_all_wait);
	RUN(all_end_one_after_another);
	RUN(the_last_of_a_chain_is_to_blame);
	RUN(a_circle_is_all_there_is);
	RUN(one_process_may_be_all_ranks);
	RUN(lateness_counts_while_it_lasts);
	RUN(lateness_that_nobody_adds_stays);
	RUN(each_moment_of_lateness_counts_once);
	RUN(far_behind_is_since_the_oldest_time_kept);
	RUN(another_communicator_in_its_place_begins_anew);
	RUN(rows_out_of_range_are_nobody);
	zn_memory_close(&memory);
	if (system(strcat(strcpy((char[64]){0}, "rm -r "), proc)))
		return 1;
	return t_end();
}
