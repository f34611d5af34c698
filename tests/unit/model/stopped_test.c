/* SPDX-License-Identifier: GPL-2.0 */
/* stopped_test.c: which processes are stopped, by a /proc of the test's own, and that looks are bounded. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

static void place_of(void *owner, uint32_t pid, char to[ZN_PLACE_BYTES])
{
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

int main(void)
{
	CHECK(mkdtemp(proc) != NULL);
	RUN(who_is_stopped);
	RUN(what_it_is_stopped_by);
	RUN(who_is_not);
	RUN(who_works_is_not_looked_at);
	RUN(a_process_without_files_is_not_stopped);
	if (system(strcat(strcpy((char[64]){0}, "rm -r "), proc)))
		return 1;
	zn_memory_close(&memory);
	return t_end();
}
