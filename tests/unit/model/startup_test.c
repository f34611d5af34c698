/* SPDX-License-Identifier: GPL-2.0 */
/* startup_test.c: the phases of a process's start, over an arena of plain memory. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <string.h>

#define S  ZN_NS_PER_S
#define MS ZN_NS_PER_MS

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_startup startup;
static struct zn_proc *p;
static uint64_t start_ns;
static bool facts_there;

static bool process_info(void *owner, const struct zn_proc *proc, struct zn_process_info *to)
{
	(void)owner;
	*to = (struct zn_process_info){.id = proc->id, .start_ns = start_ns};
	return facts_there;
}

/* A daemon, and a process that began so many seconds after it, and made its first call 3 s later. */
static void begin(int64_t after_s)
{
	clock_ns = 1000 * S;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	agg.process_info = process_info;
	facts_there = true;
	memset(&startup, 0, sizeof(startup));
	zn_startup_init(&startup, &agg, clock_ns);
	start_ns = (uint64_t)((int64_t)clock_ns + after_s * (int64_t)S);
	clock_ns = start_ns + 3 * S;
	p = zn_memory_claim(&memory, 100, "python3");
	CHECK_EQ(p->first_ns, clock_ns);
}

static void tick(void)
{
	clock_ns += S;
	zn_agg_tick(&agg, clock_ns);
	zn_startup_tick(&startup, clock_ns);
}

static void launch_for(int seconds)
{
	for (; seconds; seconds--) {
		p->count[ZN_C_LAUNCH_KERNEL] += 7;
		tick();
	}
}

static const struct zn_startup_row *row(void)
{
	return zn_startup_of(&startup, agg.row[0], p->id);
}

static uint64_t phase(enum zn_startup_phase of)
{
	return row() ? row()->phase_ns[of] / MS : ZN_UNKNOWN;
}

T(phases_add_up)
{
	begin(5);
	for (int i = 0; i < 2; i++)
		tick();
	p->ctxs = 1;
	CHECK(zn_startup_goes_on(&startup, agg.row[0], p->id));
	for (int i = 0; i < 4; i++) {
		p->count[i % 2 ? ZN_C_IO_READ_BYTES : ZN_C_COPY_BYTES_HTOD] += 1 << 20;
		tick();
	}
	p->count[ZN_C_CAPTURES] = 1;
	tick();
	p->count[ZN_C_CAPTURES] = 0;
	for (int i = 0; i < 5; i++)
		tick();
	zn_memory_record(&memory, p, ZN_H_NCCL_INIT, 3 * S, 0);
	zn_memory_record(&memory, p, ZN_H_LOAD_MODULE, 1200 * MS, 0);
	tick();
	CHECK_EQ(zn_startup_sum(row()), clock_ns - start_ns);
	CHECK(row()->state == ZN_STARTUP_GOES_ON);
	launch_for(6);
	CHECK(row()->state == ZN_STARTUP_OVER);
	CHECK(!zn_startup_goes_on(&startup, agg.row[0], p->id));
	CHECK_EQ(zn_startup_sum(row()), clock_ns - 6 * S - start_ns);
	CHECK_EQ(phase(ZN_STARTUP_IMPORT), 3000);
	CHECK_EQ(phase(ZN_STARTUP_CONTEXT), 2000);
	CHECK_EQ(phase(ZN_STARTUP_MODEL), 4000);
	CHECK_EQ(phase(ZN_STARTUP_CAPTURE), 1000);
	CHECK_EQ(phase(ZN_STARTUP_NCCL), 3000);
	CHECK_EQ(phase(ZN_STARTUP_LIBRARY), 1200);
	CHECK_EQ(phase(ZN_STARTUP_REST), 1800);
	launch_for(3);
	CHECK_EQ(zn_startup_sum(row()), clock_ns - 9 * S - start_ns);
}

T(launches_that_stop_again_are_not_steady)
{
	begin(5);
	p->ctxs = 1;
	launch_for(3);
	for (int i = 0; i < 4; i++)
		tick();
	CHECK(row()->state == ZN_STARTUP_GOES_ON);
	CHECK(!zn_startup_goes_on(&startup, agg.row[0], p->id)); /* `why` has other causes from the first launch on */
	CHECK_EQ(zn_startup_sum(row()), clock_ns - start_ns);
	launch_for(1);
	tick(); /* a pause of one second */
	launch_for(4);
	CHECK(row()->state == ZN_STARTUP_OVER);
	CHECK_EQ(zn_startup_sum(row()), clock_ns - 6 * S - start_ns);
}

T(long_waits_for_the_gpu_are_steady)
{
	begin(5);
	p->ctxs = 1;
	launch_for(1);
	for (int i = 0; i < 5; i++) {
		p->count[ZN_C_STALL_CPU + ZN_STALL_GPU] += 900 * MS;
		tick();
	}
	CHECK(row()->state == ZN_STARTUP_OVER);
}

T(calls_that_took_more_than_there_was)
{
	begin(5);
	tick();
	for (int i = 0; i < 4; i++) /* four threads at one time */
		zn_memory_record(&memory, p, ZN_H_NCCL_INIT, 2 * S, 0);
	tick();
	CHECK_EQ(phase(ZN_STARTUP_NCCL), 2000);
	CHECK_EQ(zn_startup_sum(row()), clock_ns - start_ns);
}

T(what_is_not_known_is_not_told)
{
	begin(-1); /* before the daemon */
	tick();
	CHECK(!row());
	begin(5);
	start_ns = 0; /* it was gone */
	tick();
	CHECK(!row());
	begin(5);
	facts_there = false; /* and then, later, all of its time */
	tick();
	tick();
	CHECK(!row());
	facts_there = true;
	tick();
	CHECK_EQ(zn_startup_sum(row()), clock_ns - start_ns);
	begin(5);
	agg.process_info = NULL;
	tick();
	CHECK(!row());
}

T(that_of_a_job_is_its_longest)
{
	struct zn_job_ref job = {.slot = 3, .serial = 9}, other = {.slot = 3, .serial = 10};
	struct zn_proc *q;

	begin(5);
	p->job = job;
	tick();
	tick();
	q = zn_memory_claim(&memory, 101, "python3");
	start_ns = clock_ns;
	q->job = job;
	tick();
	CHECK_EQ(zn_startup_sum(zn_startup_job(&startup, job)), 6 * S);
	CHECK(!zn_startup_job(&startup, other));
	zn_memory_exit(&memory, p); /* its row is another one's from here on */
	tick();
	start_ns = clock_ns;
	zn_memory_claim(&memory, 102, "python3")->job = other;
	tick();
	CHECK_EQ(zn_startup_sum(zn_startup_job(&startup, job)), 6 * S);
	CHECK(zn_startup_job(&startup, other));
}

int main(void)
{
	CHECK_STR(zn_startup_label(ZN_STARTUP_NCCL), "nccl_init");
	RUN(phases_add_up);
	RUN(launches_that_stop_again_are_not_steady);
	RUN(long_waits_for_the_gpu_are_steady);
	RUN(calls_that_took_more_than_there_was);
	RUN(what_is_not_known_is_not_told);
	RUN(that_of_a_job_is_its_longest);
	return t_end();
}
