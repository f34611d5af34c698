/* SPDX-License-Identifier: GPL-2.0 */
/* stopped_test.c: which processes are stopped, by a /proc of the test's own, and that looks are bounded. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define S ZN_NS_PER_S

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_progress progress;
static struct zn_stopped stopped;
static struct zn_proc *p;
static uint32_t row;
static char proc[] = "/tmp/zernel-stopped-XXXXXX";

static void state(char how)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/100", proc);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/100/stat", proc);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fprintf(f, "100 (a) T) %c 1 1 1 0 -1 4194304 1 1 1 1 7 3 0 0 20 0 1 0 5 6 7", how);
	fclose(f);
}

static void pass(int seconds)
{
	while (seconds--) {
		clock_ns += S;
		zn_agg_tick(&agg, clock_ns);
		zn_progress_tick(&progress, &agg, clock_ns);
		zn_stopped_tick(&stopped, &agg, &progress, clock_ns);
	}
}

static void start(void)
{
	clock_ns = 1000 * S;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	memset(&progress, 0, sizeof(progress));
	memset(&stopped, 0, sizeof(stopped));
	stopped.proc = proc;
	p = zn_memory_claim(&memory, 100, "python3");
	row = (uint32_t)(p - memory.arena.procs);
	p->count[ZN_C_LAUNCH_KERNEL] = 1;
	pass(1);
}

T(who_is_stopped)
{
	for (const char *how = "Tt"; *how; how++) {
		start();
		state(*how);
		pass(2);
		CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0); /* it may be about to do something */
		pass(5);
		CHECK_EQ(clock_ns - zn_stopped_since(&stopped, row, p->id), 4 * S);
		CHECK_EQ(zn_stopped_since(&stopped, row, p->id + 1), 0);
		state('S');
		pass(1);
		CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0);
	}
}

static char place[ZN_PLACE_BYTES];

static void place_of(void *owner, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES])
{
	(void)user;
	CHECK(owner == &stopped && pid == 100);
	strcpy(to, place);
}

T(what_it_is_stopped_by)
{
	static const struct {
		char state;
		const char *place;
		enum zn_stop kind;
	} cases[] = {
		{'T', "do_signal_stop", ZN_STOP_SIGNAL},
		{'t', "ptrace_stop", ZN_STOP_SIGNAL},
		{'S', "get_signal", ZN_STOP_FROZEN},
		{'S', "do_freezer_trap", ZN_STOP_FROZEN},
		{'D', "__refrigerator", ZN_STOP_FROZEN},
		{'D', "nfs_wait_bit_killable", ZN_STOP_BLOCKED},
		{'D', "", ZN_STOP_BLOCKED},
	};

	for (size_t i = 0; i < ZN_LEN(cases); i++) {
		start();
		stopped.place = place_of;
		stopped.owner = &stopped;
		strcpy(place, cases[i].place);
		state(cases[i].state);
		pass(7);
		CHECK_EQ(clock_ns - zn_stopped_since(&stopped, row, p->id), 4 * S);
		CHECK_EQ(stopped.kind[row], cases[i].kind);
	}
	state('T'); /* what is stopped in another way is so from now on */
	pass(1);
	CHECK_EQ(zn_stopped_since(&stopped, row, p->id), clock_ns);
	CHECK_STR(zn_stopped_says(stopped.kind[row]), "is stopped by a signal or a debugger");
	CHECK_STR(zn_stopped_says(ZN_STOP_FROZEN), "is in a frozen control group");
	CHECK_STR(zn_stopped_says(ZN_STOP_BLOCKED), "is in uninterruptible sleep (state D)");
}

T(who_is_not)
{
	for (const char *how = "SRZ"; *how; how++) {
		start();
		state(*how);
		pass(10);
		CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0);
	}
}

/* Its own counters say that it runs: /proc is not asked. */
T(who_works_is_not_looked_at)
{
	start();
	state('T');
	for (int n = 0; n < 10; n++) {
		p->count[ZN_C_LAUNCH_KERNEL]++;
		pass(1);
	}
	CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0);
	for (int n = 0; n < 10; n++) {
		p->count[ZN_C_STALL_CPU] += S / 2;
		pass(1);
	}
	CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0);
}

T(a_process_without_files_is_not_stopped)
{
	start();
	stopped.proc = "/nonexistent";
	pass(10);
	CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0);
	stopped.proc = NULL;
	pass(10);
	CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0);
}

#define CROWD 100

static uint32_t asked[2][ZN_STOPPED_AGAIN]; /* in the tick before, and in this one */
static uint64_t asked_ns;

/* As of a table with few places: what was asked for in the tick before is known, and nothing else. */
static void few_places(void *owner, uint32_t pid, uint32_t user, char to[ZN_PLACE_BYTES])
{
	size_t i = 0;

	(void)owner;
	(void)user;
	if (asked_ns != clock_ns) {
		memcpy(asked[0], asked[1], sizeof(asked[0]));
		memset(asked[1], 0, sizeof(asked[1]));
		asked_ns = clock_ns;
	}
	to[0] = '\0';
	for (size_t k = 0; k < ZN_STOPPED_AGAIN; k++)
		if (asked[0][k] == pid)
			strcpy(to, pid == 100 ? "get_signal" : "futex_wait_queue");
	while (i < ZN_STOPPED_AGAIN && asked[1][i])
		i++;
	if (i < ZN_STOPPED_AGAIN && !to[0])
		asked[1][i] = pid;
}

T(one_that_is_frozen_is_found_among_many_that_sleep)
{
	char path[256], target[256];

	start();
	stopped.place = few_places;
	state('S');
	snprintf(target, sizeof(target), "%s/100", proc);
	for (uint32_t n = 1; n < CROWD; n++) {
		zn_memory_claim(&memory, 100 + n, "python3")->count[ZN_C_LAUNCH_KERNEL] = 1;
		snprintf(path, sizeof(path), "%s/%u", proc, 100 + n);
		CHECK_EQ(symlink(target, path), 0);
	}
	pass(4 + 2 * CROWD / ZN_STOPPED_AGAIN);
	CHECK(zn_stopped_since(&stopped, row, p->id) != 0);
	CHECK_EQ(stopped.kind[row], ZN_STOP_FROZEN);
	for (int n = 0; n < 2 * CROWD / ZN_STOPPED_AGAIN; n++) { /* and stays so, while others are asked about */
		pass(1);
		CHECK(clock_ns - zn_stopped_since(&stopped, row, p->id) >= S * (uint64_t)n);
	}
	for (int n = 0; n < CROWD / ZN_STOPPED_AGAIN; n++) { /* nor does it wait for its turn when it goes on */
		pass(4 + 2 * CROWD / ZN_STOPPED_AGAIN + n);
		CHECK(zn_stopped_since(&stopped, row, p->id) != 0);
		p->count[ZN_C_STALL_CPU] += S / 2;
		pass(1);
		CHECK_EQ(zn_stopped_since(&stopped, row, p->id), 0);
	}
}

int main(void)
{
	CHECK(mkdtemp(proc) != NULL);
	RUN(who_is_stopped);
	RUN(what_it_is_stopped_by);
	RUN(who_is_not);
	RUN(who_works_is_not_looked_at);
	RUN(a_process_without_files_is_not_stopped);
	RUN(one_that_is_frozen_is_found_among_many_that_sleep);
	if (system(strcat(strcpy((char[64]){0}, "rm -r "), proc)))
		return 1;
	zn_memory_close(&memory);
	return t_end();
}
