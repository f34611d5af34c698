/* SPDX-License-Identifier: GPL-2.0 */
/* stopped_test.c: which processes are stopped, by a /proc of the test's own, and that looks are bounded. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define S ZN_NS_PER_S

static struct zn_memory_arena plain;
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
	zn_memory_close(&plain);
	CHECK_EQ(zn_memory_open(&plain), 0);
	zn_agg_init(&agg, &plain.arena);
	memset(&progress, 0, sizeof(progress));
	memset(&stopped, 0, sizeof(stopped));
	stopped.proc = proc;
	p = zn_memory_claim(&plain, 100, "python3");
	row = (uint32_t)(p - plain.arena.procs);
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

T(who_is_not)
{
	for (const char *how = "SRDZ"; *how; how++) {
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
	RUN(who_is_not);
	RUN(who_works_is_not_looked_at);
	RUN(a_process_without_files_is_not_stopped);
	if (system(strcat(strcpy((char[64]){0}, "rm -r "), proc)))
		return 1;
	zn_memory_close(&plain);
	return t_end();
}
