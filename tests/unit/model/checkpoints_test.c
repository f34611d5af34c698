/* SPDX-License-Identifier: GPL-2.0 */
/* checkpoints_test.c: when a job writes files and launches nothing, over an arena of plain memory. */
#include "zernel.h"
#include "clock.h"
#include "t.h"

#include <string.h>

#define S   ZN_NS_PER_S
#define MIB (1ULL << 20)

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_checkpoints c;
static struct zn_proc *p, *q;
static const struct zn_job_ref job = {.slot = 3, .serial = 9};

static struct zn_checkpoint_sum sum(void)
{
	return zn_checkpoints_of(&c, job);
}

/* A second in which the one launched so often, and the other wrote so much or was blocked. */
static void pass(uint64_t launches, uint64_t written, uint64_t blocked_ms)
{
	p->count[ZN_C_LAUNCH_KERNEL] += launches;
	q->count[ZN_C_IO_WRITE_BYTES] += written;
	q->count[ZN_C_STALL_CPU + ZN_STALL_IO] += blocked_ms * ZN_NS_PER_MS;
	clock_ns += S;
	zn_agg_tick(&agg, clock_ns);
	zn_checkpoints_tick(&c, clock_ns);
}

static void start(void)
{
	clock_ns = 1000 * S;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	memset(&c, 0, sizeof(c));
	zn_checkpoints_init(&c, &agg);
	p = zn_memory_claim(&memory, 100, "python3");
	q = zn_memory_claim(&memory, 101, "python3");
	p->job = q->job = job;
	pass(0, 50 * MIB, 0);
	for (int i = 0; i < 9; i++) /* before the first launch */
		pass(0, 50 * MIB, 0);
	CHECK_EQ(sum().count, 0);
	pass(7, 0, 0);
}

T(one_with_fsync)
{
	start();
	pass(0, 30 * MIB, 0);
	pass(0, 40 * MIB, 0);
	pass(0, 0, 900); /* fsync() */
	pass(0, 0, 900);
	CHECK_EQ(sum().count, 1); /* while it goes on */
	pass(0, 0, 0);
	pass(7, 0, 0);
	CHECK_EQ(sum().count, 1);
	CHECK_EQ(sum().ns, 4 * S);
	CHECK_EQ(sum().bytes, 70 * MIB);
	pass(0, 100 * MIB, 0);
	pass(7, 0, 0);
	CHECK_EQ(sum().count, 2);
	CHECK_EQ(sum().ns, 5 * S);
	CHECK_EQ(sum().last_ns, 1 * S);
	CHECK_EQ(sum().last_bytes, 100 * MIB);
}

/* Ticks may be further apart than the pause that ends one is long. */
T(one_over_long_ticks)
{
	start();
	for (int i = 0; i < 6; i++) {
		clock_ns += 9 * S;
		pass(0, 100 * MIB, 0);
	}
	pass(7, 0, 0);
	CHECK_EQ(sum().count, 1);
	CHECK_EQ(sum().ns, 60 * S);
	CHECK_EQ(sum().bytes, 600 * MIB);
}

T(what_is_none)
{
	start();
	for (int i = 0; i < 20; i++) /* it launches meanwhile */
		pass(7, 100 * MIB, 900);
	for (int i = 0; i < 20; i++) /* a log */
		pass(0, 1000, 0);
	for (int i = 0; i < 3; i++) { /* too small */
		pass(0, 10 * MIB, 0);
		pass(7, 0, 0);
	}
	for (int i = 0; i < 9; i++) /* blocked, and nothing was written */
		pass(0, 0, 900);
	CHECK_EQ(sum().count, 0);
}

T(a_pause_ends_one)
{
	struct zn_job_ref next = {.slot = 3, .serial = 10};

	start();
	for (int i = 0; i < 2; i++) {
		pass(0, 20 * MIB, 0);
		for (int n = 0; n < 5; n++)
			pass(0, 0, 0);
	}
	CHECK_EQ(sum().count, 2);
	CHECK_EQ(sum().ns, 2 * S);
	p->job = q->job = next; /* another job has its slot */
	pass(7, 0, 0);
	CHECK_EQ(sum().count, 0);
	CHECK_EQ(zn_checkpoints_of(&c, next).count, 0);
}

/* The process that had the rows before has launched and written more than the new one will for long. */
T(a_process_in_the_row_of_another)
{
	start();
	pass(1000000, 500 * MIB, 0);
	zn_memory_exit(&memory, p);
	zn_memory_exit(&memory, q);
	pass(0, 0, 0);
	CHECK(zn_memory_claim(&memory, 201, "python3") == q);
	CHECK(zn_memory_claim(&memory, 200, "python3") == p);
	p->job = q->job = (struct zn_job_ref){.slot = 3, .serial = 10};
	pass(7, 0, 0);
	pass(0, 30 * MIB, 0);
	pass(0, 40 * MIB, 0);
	pass(7, 0, 0);
	CHECK_EQ(zn_checkpoints_of(&c, p->job).count, 1);
	CHECK_EQ(zn_checkpoints_of(&c, p->job).bytes, 70 * MIB);
}

int main(void)
{
	RUN(one_with_fsync);
	RUN(one_over_long_ticks);
	RUN(what_is_none);
	RUN(a_pause_ends_one);
	RUN(a_process_in_the_row_of_another);
	return t_end();
}
