/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rates_test.c: rates over a tick, the time two processes are inside a driver, and the numbers of devices.
 */
#include "zernel.h"
#include "t.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_counter_rates table;
static struct zn_rates rates;
static uint64_t clock_ns;
static bool clock_real; /* else clock_ns */

/* In place of log.c. */
enum zn_level zn_log_level;
unsigned zn_log_burst;
void zn_log(enum zn_level level, const char *format, ...)
{
	(void)level, (void)format;
}
uint64_t zn_now_ns(void)
{
	return clock_real ? __atomic_add_fetch(&clock_ns, 7, __ATOMIC_RELAXED) : clock_ns;
}
uint64_t zn_wall_ms(void)
{
	return clock_ns / 1000000;
}
/* In place of job/table.c. */
const struct zn_hist *zn_job_merge(struct zn_jobs *j, const struct zn_job *job, enum zn_operation operation)
{
	static const struct zn_hist none;

	(void)j, (void)job, (void)operation;
	return &none;
}

static struct zn_proc *start(void)
{
	zn_memory_close(&memory);
	clock_ns = 100 * ZN_NS_PER_S;
	clock_real = false;
	memset(&table, 0, sizeof(table));
	if (zn_memory_open(&memory))
		abort();
	zn_agg_init(&agg, &memory.arena);
	return zn_memory_claim(&memory, 4711, "python3");
}

static void tick(uint64_t ms)
{
	clock_ns += ms * ZN_NS_PER_MS;
	zn_agg_tick(&agg, clock_ns);
	zn_rates_tick(&table, &agg, clock_ns);
	if (agg.row_count)
		zn_rates_of(&table, agg.row[0], memory.arena.procs[agg.row[0]].id, &rates);
}

T(rates_are_of_the_last_tick)
{
	struct zn_proc *p = start();

	p->count[ZN_C_SYSCALLS] = 1000000;
	tick(1000);
	CHECK_EQ(rates.per_1000_s[ZN_RATED_SYSCALLS], ZN_NOT_KNOWN); /* how long the tick was is not known */
	p->count[ZN_C_SYSCALLS] += 701;
	p->count[ZN_C_SWITCH_VOLUNTARY] += 10;
	p->count[ZN_C_SWITCH_INVOLUNTARY] += 4;
	p->count[ZN_C_MIGRATE_CPU] += 3;
	p->count[ZN_C_LAUNCH_KERNEL] += 90;
	p->count[ZN_C_LAUNCH_GRAPH] += 10;
	p->count[ZN_C_LAUNCH_CAPTURED] += 1000;
	tick(500);
	CHECK_EQ(rates.per_1000_s[ZN_RATED_SYSCALLS], 1402000);
	CHECK_EQ(rates.syscalls_per_launch, 7010);
	CHECK_EQ(rates.switches_per_launch, 140);
	CHECK_EQ(rates.per_1000_s[ZN_RATED_MIGRATIONS], 6000);
	CHECK_EQ(rates.churn, ZN_NOT_KNOWN);
}

T(no_launch_is_no_ratio)
{
	struct zn_proc *p = start();

	tick(1000);
	p->count[ZN_C_SYSCALLS] += 5;
	tick(1000);
	CHECK_EQ(rates.per_1000_s[ZN_RATED_SYSCALLS], 5000);
	CHECK_EQ(rates.syscalls_per_launch, ZN_NOT_KNOWN);
	CHECK_EQ(rates.switches_per_launch, ZN_NOT_KNOWN);
}

T(churn_is_the_smaller_by_the_larger)
{
	struct zn_proc *p = start();

	tick(1000);
	p->count[ZN_C_MMAP_BYTES] += 4096;
	tick(1000);
	CHECK_EQ(rates.churn, 0);
	p->count[ZN_C_MMAP_BYTES] += 4096;
	p->count[ZN_C_MUNMAP_BYTES] += 3 * 4096;
	tick(1000);
	CHECK_EQ(rates.churn, 333);
}

/* A process that is new to a tick has lived for a part of it; one in the row of another has no past. */
T(a_new_process_has_its_own_time)
{
	struct zn_proc *p = start();

	tick(1000);
	zn_memory_exit(&memory, p);
	tick(1000);
	clock_ns += 750 * ZN_NS_PER_MS;
	p = zn_memory_claim(&memory, 4712, "python3");
	p->count[ZN_C_SYSCALLS] = 50;
	tick(250);
	CHECK_EQ(rates.per_1000_s[ZN_RATED_SYSCALLS], 200000);
	CHECK(!zn_rates_of(&table, agg.row[0], p->id + 1, &rates));
	CHECK_EQ(rates.per_1000_s[ZN_RATED_SYSCALLS], ZN_NOT_KNOWN);
	CHECK(!zn_rates_of(NULL, 0, p->id, &rates));
}

/* What the BPF programs do at a change. */
static void change(struct zn_gpu_calls *c, int by, uint64_t now)
{
	uint32_t before;

	__atomic_add_fetch(&c->begun, 1, __ATOMIC_SEQ_CST);
	before = __atomic_fetch_add(&c->processes, by, __ATOMIC_SEQ_CST);
	if (before + (by < 0 ? -1 : 0) == 0)
		__atomic_add_fetch(&c->busy_ns, by < 0 ? now : -now, __ATOMIC_SEQ_CST);
	else if (before + (by < 0 ? -1 : 0) == 1)
		__atomic_add_fetch(&c->contended_ns, by < 0 ? now : -now, __ATOMIC_SEQ_CST);
	__atomic_add_fetch(&c->done, 1, __ATOMIC_SEQ_CST);
}

T(two_at_once_are_contended)
{
	struct zn_gpu_calls *c;

	start();
	c = &memory.arena.shared->gpu_calls;
	tick(1000);
	CHECK_EQ(zn_rates_contention(&table), ZN_NOT_KNOWN);
	change(c, 1, clock_ns);
	change(c, 1, clock_ns + 300 * ZN_NS_PER_MS);
	tick(400); /* both are still inside */
	CHECK_EQ(table.gpu.busy_ns, 400 * ZN_NS_PER_MS);
	CHECK_EQ(table.gpu.contended_ns, 100 * ZN_NS_PER_MS);
	CHECK_EQ(zn_rates_contention(&table), 250000);
	change(c, 1, clock_ns + 100 * ZN_NS_PER_MS); /* a third one changes nothing */
	change(c, -1, clock_ns + 200 * ZN_NS_PER_MS);
	change(c, -1, clock_ns + 300 * ZN_NS_PER_MS);
	change(c, -1, clock_ns + 500 * ZN_NS_PER_MS);
	tick(1000);
	CHECK_EQ(table.gpu.busy_ns, 900 * ZN_NS_PER_MS);
	CHECK_EQ(table.gpu.contended_ns, 400 * ZN_NS_PER_MS);
	tick(1000);
	CHECK_EQ(table.gpu.busy_ns, 900 * ZN_NS_PER_MS);
	CHECK_EQ(zn_rates_contention(&table), ZN_NOT_KNOWN);
}

T(a_half_made_change_is_not_read)
{
	struct zn_gpu_calls *c;
	struct zn_gpu_time t;

	start();
	c = &memory.arena.shared->gpu_calls;
	c->begun++;
	CHECK(!zn_gpu_calls_read(memory.arena.shared, &t));
	c->done++;
	CHECK(zn_gpu_calls_read(memory.arena.shared, &t));
	CHECK_EQ(t.busy_ns, 0);
}

#define CHANGES 200000
static uint64_t inside_ns[2];

static void *changes(void *which)
{
	struct zn_gpu_calls *c = &memory.arena.shared->gpu_calls;

	for (int i = 0; i < CHANGES; i++) {
		uint64_t from = zn_now_ns(), to;

		change(c, 1, from);
		to = zn_now_ns();
		change(c, -1, to);
		inside_ns[*(int *)which] += to - from;
	}
	return NULL;
}

/* Each change adds its time to exactly one of the two sums: together they are what both were inside, to the nanosecond.
 * A reader beside them never sees a sum go back or a half of a change. */
T(nothing_is_lost_among_cpus)
{
	pthread_t thread[2];
	int which[2] = {0, 1};
	struct zn_gpu_time t, before = {0};

	start();
	clock_real = true;
	for (int i = 0; i < 2; i++)
		CHECK(pthread_create(&thread[i], NULL, changes, &which[i]) == 0);
	for (int i = 0; i < 1000; i++) {
		if (!zn_gpu_calls_read(memory.arena.shared, &t))
			continue;
		CHECK((int64_t)(t.busy_ns + t.contended_ns - before.busy_ns - before.contended_ns) > -1000000);
		CHECK(t.busy_ns < UINT64_MAX / 2);
		before = t;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	CHECK(zn_gpu_calls_read(memory.arena.shared, &t));
	CHECK_EQ(t.busy_ns + t.contended_ns, inside_ns[0] + inside_ns[1]);
	CHECK_EQ(memory.arena.shared->gpu_calls.processes, 0);
}

static void majors(const char *text, uint64_t to[ZN_MAJOR_WORDS])
{
	char path[] = "/tmp/signals_test.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
	zn_gpu_majors_read(path, to);
	unlink(path);
}

static bool has(const uint64_t bits[ZN_MAJOR_WORDS], uint32_t major)
{
	return bits[major / 64] >> (major % 64) & 1;
}

static uint32_t count(const uint64_t bits[ZN_MAJOR_WORDS])
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ZN_MAJOR_WORDS; i++)
		n += (uint32_t)__builtin_popcountll(bits[i]);
	return n;
}

T(devices_of_gpu_drivers)
{
	uint64_t got[ZN_MAJOR_WORDS];

	majors("Character devices:\n  1 mem\n195 nvidia\n195 nvidiactl\n226 drm\n234 nvidia-caps\n511 nvidia-uvm\n"
	       "242 kfd\n243 mydrm\n\nBlock devices:\n  7 loop\n259 nvidia-not\n",
		got);
	CHECK(has(got, 195) && has(got, 226) && has(got, 234) && has(got, 511) && has(got, 242));
	CHECK_EQ(count(got), 5);
	majors("", got);
	CHECK(has(got, 195) && has(got, 226));
	CHECK_EQ(count(got), 2);
	majors("nvidia\n99999999999999999999999 nvidia\n-1 nvidia\n512 nvidia\n 3", got);
	CHECK_EQ(count(got), 2);
	zn_gpu_majors_read("/nowhere/at/all", got);
	CHECK_EQ(count(got), 2);
}

int main(void)
{
	RUN(rates_are_of_the_last_tick);
	RUN(no_launch_is_no_ratio);
	RUN(churn_is_the_smaller_by_the_larger);
	RUN(a_new_process_has_its_own_time);
	RUN(two_at_once_are_contended);
	RUN(a_half_made_change_is_not_read);
	RUN(nothing_is_lost_among_cpus);
	RUN(devices_of_gpu_drivers);
	zn_memory_close(&memory);
	return t_end();
}
