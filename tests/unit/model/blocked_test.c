/* SPDX-License-Identifier: GPL-2.0 */
/*
 * blocked_test.c: the thread of a process that has been in uninterruptible sleep longest, by what the scheduler is said
 * to know and a /proc of the test's own, and that looks are bounded.
 */
#include "zernel.h"
#include "t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define S    ZN_NS_PER_S
#define MANY 100

static struct zn_memory_arena memory;
static struct zn_arena_ops ops;
static struct zn_agg agg;
static struct zn_stopped stopped;
static struct zn_blocked blocked;
static struct zn_proc *p;
static uint32_t row;
static uint64_t now_ns;
static char proc[] = "/tmp/zernel-blocked-XXXXXX";

/* What the scheduler knows. */
static struct zn_sched_entry threads[2 * MANY];
static uint32_t thread_count, whole_rounds;

static void sleepers(struct zn_arena *a, bool all, void (*sleeper)(void *, const struct zn_sched_entry *), void *to)
{
	(void)a;
	whole_rounds += all;
	for (uint32_t i = 0; i < thread_count; i++)
		if (threads[i].off_ns)
			sleeper(to, &threads[i]);
}

static bool still(struct zn_arena *a, uint32_t tid, uint64_t since_ns)
{
	(void)a;
	for (uint32_t i = 0; i < thread_count; i++)
		if (threads[i].tid == tid)
			return threads[i].off_ns == since_ns;
	return false;
}

static void state(uint32_t pid, uint32_t tid, char how)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "mkdir -p %s/%u/task/%u", proc, pid, tid);
	CHECK_EQ(system(path), 0);
	snprintf(path, sizeof(path), "%s/%u/task/%u/stat", proc, pid, tid);
	f = fopen(path, "w");
	CHECK(f != NULL);
	fprintf(f, "%u (a) D) %c 1 1 1 0 -1 4194304 1 1 1 1 7 3 0 0 20 0 1 0 5 6 7", tid, how);
	fclose(f);
}

static struct zn_sched_entry *thread(const struct zn_proc *of, uint32_t tid, uint64_t since_ns, char how)
{
	struct zn_sched_entry *t = &threads[thread_count++];

	*t = (struct zn_sched_entry){
		.tid = tid, .row = (uint32_t)(of - memory.arena.procs), .id = of->id, .off_ns = since_ns};
	state(of->tgid, tid, how);
	return t;
}

static void tick(uint64_t ns)
{
	now_ns += ns;
	zn_agg_tick(&agg, now_ns);
	zn_blocked_tick(&blocked, &agg, now_ns);
}

static struct zn_blocked_thread oldest_of(const struct zn_proc *of)
{
	struct zn_blocked_thread t;

	if (!zn_blocked_oldest(&blocked, (uint32_t)(of - memory.arena.procs), of, &t))
		t.tid = 0;
	return t;
}

static void start(void)
{
	now_ns = 1000 * S;
	zn_memory_close(&memory);
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	ops = *memory.arena.ops;
	ops.sleepers = sleepers;
	ops.still = still;
	memory.arena.ops = &ops;
	memset(&stopped, 0, sizeof(stopped));
	memset(&blocked, 0, sizeof(blocked));
	blocked.proc = proc;
	blocked.stopped = &stopped;
	thread_count = whole_rounds = 0;
	p = zn_memory_claim(&memory, 100, "python3");
	row = (uint32_t)(p - memory.arena.procs);
	tick(0);
}

T(the_oldest_of_its_threads)
{
	struct zn_sched_entry *young, *old;

	start();
	young = thread(p, 103, now_ns + 2 * S, 'D');
	old = thread(p, 102, now_ns, 'D');
	tick(4 * S);
	CHECK_EQ(oldest_of(p).tid, 0); /* a short sleep is none */
	tick(S);
	CHECK_EQ(oldest_of(p).tid, 102);
	CHECK_EQ(blocked.tick_ns - oldest_of(p).since_ns, 5 * S);
	tick(10 * S);
	CHECK_EQ(blocked.tick_ns - oldest_of(p).since_ns, 15 * S);
	CHECK_EQ(whole_rounds, 0);
	old->off_ns = now_ns; /* it woke, and fell asleep anew: the other one sleeps on */
	tick(S);
	CHECK_EQ(oldest_of(p).tid, 103);
	CHECK_EQ(blocked.tick_ns - oldest_of(p).since_ns, 14 * S);
	CHECK_EQ(whole_rounds, 1);
	young->off_ns = 0;
	tick(S);
	CHECK_EQ(oldest_of(p).tid, 0);
	tick(4 * S);
	CHECK_EQ(oldest_of(p).tid, 102);
	CHECK_EQ(blocked.tick_ns - oldest_of(p).since_ns, 6 * S);
}

/* An older one that is seen later takes the place. */
T(the_order_does_not_matter)
{
	start();
	thread(p, 103, now_ns, 'D');
	tick(9 * S);
	CHECK_EQ(oldest_of(p).tid, 103);
	thread(p, 102, 990 * S, 'D');
	tick(S);
	CHECK_EQ(oldest_of(p).tid, 102);
	CHECK_EQ(oldest_of(p).since_ns, 990 * S);
}

T(proc_is_asked)
{
	for (const char *how = "SRTZX"; *how; how++) {
		start();
		thread(p, 102, now_ns, *how);
		tick(20 * S);
		CHECK_EQ(oldest_of(p).tid, 0);
	}
	start();
	thread(p, 102, now_ns, 'D');
	blocked.proc = "/nonexistent";
	tick(20 * S);
	CHECK_EQ(oldest_of(p).tid, 0);
	blocked.proc = NULL;
	tick(S);
	CHECK_EQ(oldest_of(p).tid, 0);
}

/* A row that another process has by now, and a thread of a process that has gone. */
T(whose_it_is)
{
	start();
	thread(p, 102, now_ns, 'D')->id++;
	thread(p, 103, now_ns, 'D')->row = ZN_PROCS_MAX;
	tick(20 * S);
	CHECK_EQ(oldest_of(p).tid, 0);
	threads[0].id = p->id;
	tick(S);
	CHECK_EQ(oldest_of(p).tid, 102);
	p->id++;
	CHECK_EQ(oldest_of(p).tid, 0);
}

/* What stopped.c knows of the first thread is older than what the programs saw, or all there is. */
T(the_first_thread_slept_before)
{
	start();
	tick(20 * S);
	stopped.id[row] = p->id;
	stopped.since_ns[row] = now_ns - 9 * S;
	stopped.kind[row] = ZN_STOP_SIGNAL;
	CHECK_EQ(oldest_of(p).tid, 0);
	stopped.kind[row] = ZN_STOP_BLOCKED;
	CHECK_EQ(oldest_of(p).tid, 100);
	CHECK_EQ(oldest_of(p).since_ns, now_ns - 9 * S);
	thread(p, 102, now_ns - 8 * S, 'D');
	tick(0);
	CHECK_EQ(oldest_of(p).tid, 100);
	thread(p, 103, now_ns - 10 * S, 'D');
	tick(S);
	CHECK_EQ(oldest_of(p).tid, 103);
}

static char place[ZN_PLACE_BYTES];

static void place_of(void *owner, uint32_t tid, uint32_t user, char to[ZN_PLACE_BYTES])
{
	CHECK(owner == &blocked && tid == 102 && user == p->owner);
	strcpy(to, place);
}

T(where_it_sleeps)
{
	start();
	blocked.place = place_of;
	blocked.owner = &blocked;
	strcpy(place, "folio_wait_bit");
	thread(p, 102, now_ns, 'D');
	tick(5 * S);
	CHECK_STR(oldest_of(p).place, ""); /* asked for by the next tick */
	tick(S);
	CHECK_STR(oldest_of(p).place, "folio_wait_bit");
}

/* Each process costs a look in a tick, and all of them no more than so many. */
T(looks_are_bounded)
{
	static struct zn_proc *other[MANY];
	uint32_t found = 0;

	start();
	for (uint32_t i = 0; i < MANY; i++)
		other[i] = zn_memory_claim(&memory, 1000 + i, "python3");
	for (uint32_t i = 0; i < MANY; i++)
		thread(p, 102 + i, now_ns - i, 'S');
	for (uint32_t i = 0; i < MANY; i++)
		thread(other[i], 2000 + i, now_ns, 'D');
	tick(10 * S);
	CHECK_EQ(blocked.looks, 64);
	tick(S);
	tick(S);
	for (uint32_t i = 0; i < MANY; i++)
		found += oldest_of(other[i]).tid == 2000 + i;
	CHECK_EQ(found, MANY); /* who has many that do not count hides nobody else's */
	tick(S);
	CHECK_EQ(blocked.looks, 1);
}

int main(void)
{
	char command[64];

	CHECK(mkdtemp(proc) != NULL);
	RUN(the_oldest_of_its_threads);
	RUN(the_order_does_not_matter);
	RUN(proc_is_asked);
	RUN(whose_it_is);
	RUN(the_first_thread_slept_before);
	RUN(where_it_sleeps);
	RUN(looks_are_bounded);
	snprintf(command, sizeof(command), "rm -rf %s", proc);
	CHECK_EQ(system(command), 0);
	zn_memory_close(&memory);
	return t_end();
}
