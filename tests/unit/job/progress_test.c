/* SPDX-License-Identifier: GPL-2.0 */
/* progress_test.c: for how long nothing of a job has moved, over an arena of plain memory. A tick is one second. */
#include <errno.h>

#include "zernel.h"
#include "t.h"
#include "clock.h"

#define S    ZN_NS_PER_S
#define HOME 7
#define IDLE ZN_STALL_COUNT

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_jobs jobs;
static struct zn_io_sums io_sums;
static struct zn_progress progress;
static struct zn_jobs_progress all;
static struct zn_proc *process;
static const struct zn_job *job;
static uint64_t age, limit;

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a, (void)slot, (void)path, (void)why;
	return -ENOENT;
}

static void tick(uint64_t interval_ns)
{
	clock_ns += interval_ns;
	zn_agg_tick(&agg, clock_ns);
	zn_progress_tick(&progress, &agg, clock_ns);
	zn_jobs_tick(&jobs, clock_ns);
	zn_io_sums_tick(&io_sums, clock_ns);
	zn_jobs_progress_tick(&all, &jobs, &progress, &io_sums, clock_ns);
}

/* So many seconds, in a state of its launching thread. */
static void pass(uint32_t seconds, enum zn_stall state)
{
	while (seconds--) {
		process->count[ZN_C_STALL_CPU + state] += state == IDLE ? 0 : S;
		tick(S);
	}
}

static void launch(void)
{
	process->count[ZN_C_LAUNCH_KERNEL]++;
	pass(1, ZN_STALL_CPU);
}

static bool known(void)
{
	return zn_job_progress(&all, job, &age, &limit);
}

/* A job with one process, which has launched once. */
static void start(void)
{
	struct zn_message m = {.verb = ZN_VERB_START, .value[ZN_KEY_ID] = "4711"};
	char why[ZN_TEXT_MAX];

	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	clock_ns = 1000 * S;
	CHECK_EQ(zn_memory_open(&memory), 0);
	zn_agg_init(&agg, &memory.arena);
	memset(&progress, 0, sizeof(progress));
	memset(&all, 0, sizeof(all));
	CHECK_EQ(zn_jobs_open(&jobs, &agg, NULL), 0);
	zn_io_sums_init(&io_sums, &memory.arena, &jobs);
	zn_mounts_fix(&io_sums.mounts, HOME, "/home", "nfs4");
	CHECK_EQ(zn_jobs_start(&jobs, &m, ZN_JOB_BY_PROLOG, why), 0);
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	CHECK_EQ(memory.arena.ops->job_task(&memory.arena, job->slot, 100), 0);
	process = zn_memory_claim(&memory, 100, "python3");
	pass(90, ZN_STALL_CPU);
	CHECK(!known()); /* it has not launched anything yet */
	launch();
	CHECK(known());
	CHECK_EQ(age, 0);
}

/* What moves, of the process's counters. */
T(what_is_progress)
{
	static const enum zn_counter moves[] = {ZN_C_LAUNCH_KERNEL, ZN_C_LAUNCH_GRAPH, ZN_C_LAUNCH_COOPERATIVE,
		ZN_C_COPY_CALLS_HTOD, ZN_C_COPY_CALLS_OTHER, ZN_C_MEMSET_CALLS, ZN_C_IO_READ_BYTES, ZN_C_IO_WRITE_BYTES,
		ZN_C_HIT(ZN_FAM_NCCL, ZN_INSN_PUSH)};
	static const enum zn_counter stays[] = {ZN_C_SYSCALLS, ZN_C_SWITCH_VOLUNTARY,
		ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_PUSH), ZN_C_TCP_SENT, ZN_C_MMAP_CALLS};

	for (size_t i = 0; i < ZN_LEN(moves); i++) {
		start();
		pass(5, ZN_STALL_GPU);
		process->count[moves[i]]++;
		pass(3, ZN_STALL_GPU);
		CHECK(known());
		CHECK_EQ(age, 2 * S);
	}
	for (size_t i = 0; i < ZN_LEN(stays); i++) {
		start();
		pass(5, ZN_STALL_GPU);
		process->count[stays[i]]++;
		pass(3, ZN_STALL_GPU);
		CHECK(known());
		CHECK_EQ(age, 8 * S);
	}
}

T(batches_are_progress)
{
	start();
	pass(5, ZN_STALL_DATA);
	zn_memory_record(&memory, process, ZN_H_DATALOAD, S, 0);
	pass(1, ZN_STALL_DATA);
	CHECK(known());
	CHECK_EQ(age, 0);
}

/* Bytes of any process of the job, as of a worker that calls no hooked library. */
T(files_of_workers_are_progress)
{
	struct zn_io_key key = {{job->slot, job->serial}, HOME, ZN_IO_READ, 0, {0}};
	struct zn_hist *h;

	start();
	key.job = (struct zn_job_ref){job->slot, job->serial};
	pass(5, ZN_STALL_DATA);
	h = zn_memory_io(&memory, &key, 1000);
	CHECK(h != NULL);
	h->bytes += 4096;
	pass(1, ZN_STALL_DATA);
	CHECK(known());
	CHECK_EQ(age, 0);
	key.op = ZN_IO_STAT;
	CHECK(zn_memory_io(&memory, &key, 1000) != NULL);
	pass(4, ZN_STALL_DATA);
	CHECK(known());
	CHECK_EQ(age, 4 * S);
}

T(a_job_teaches_its_own_limit)
{
	start();
	pass(30, ZN_STALL_GPU);
	CHECK(known());
	CHECK_EQ(limit, 60 * S);
	pass(9, ZN_STALL_IO);
	launch();
	pass(1, ZN_STALL_GPU);
	CHECK(known());
	CHECK_EQ(age, S);
	CHECK_EQ(limit, 5 * 39 * S);
	launch();
	CHECK(known());
	CHECK_EQ(limit, 5 * 39 * S); /* the longest one stays */
}

/* The job launched all the time while the daemon was stopped, or its ticks are far apart. */
T(a_pause_of_the_daemon_is_none_of_the_job)
{
	start();
	for (int i = 0; i < 9; i++) {
		launch();
		process->count[ZN_C_LAUNCH_KERNEL] += 1000;
		tick(i == 4 ? 1200 * S : 60 * S);
	}
	CHECK(known());
	CHECK_EQ(age, 0);
	CHECK_EQ(limit, 60 * S);
	tick(1200 * S); /* nothing of it moved */
	launch();
	CHECK(known());
	CHECK_EQ(limit, 5 * 1200 * S);
}

/* A job that is suspended has made no pause itself. One that waits for a disk has. */
T(a_suspension_teaches_nothing)
{
	static const enum zn_stop kinds[] = {ZN_STOP_SIGNAL, ZN_STOP_FROZEN, ZN_STOP_BLOCKED};
	static struct zn_stopped stopped;
	uint32_t row;

	for (size_t i = 0; i < ZN_LEN(kinds); i++) {
		start();
		all.stopped = &stopped;
		row = (uint32_t)(process - memory.arena.procs);
		pass(4, ZN_STALL_OTHER);
		stopped.id[row] = process->id;
		stopped.kind[row] = (uint8_t)kinds[i];
		stopped.since_ns[row] = clock_ns;
		pass(7200, ZN_STALL_OTHER);
		stopped.since_ns[row] = 0;
		launch();
		CHECK(known());
		CHECK_EQ(limit, kinds[i] == ZN_STOP_BLOCKED ? 5 * 7204 * S : 60 * S);
		pass(29, ZN_STALL_GPU); /* what it does by itself teaches again */
		launch();
		CHECK(known());
		CHECK_EQ(limit, kinds[i] == ZN_STOP_BLOCKED ? 5 * 7204 * S : 5 * 29 * S);
	}
}

T(who_computes_has_more_time)
{
	start();
	pass(90, ZN_STALL_CPU);
	CHECK(known());
	CHECK_EQ(age, 90 * S);
	CHECK_EQ(limit, 600 * S);
	pass(91, ZN_STALL_OTHER);
	CHECK(known());
	CHECK_EQ(limit, 60 * S);
}

/* In time that was spared it may have computed: that it was not seen to says nothing. */
T(who_is_spared_has_the_time_of_who_computes)
{
	struct zn_spent *spent;

	start();
	spent = &memory.arena.shared->spent[process - memory.arena.procs];
	spent->id = process->id;
	for (int i = 0; i < 90; i++) {
		spent->unseen_ns[ZN_SPARE_SWITCHES] += S * 63 / 64;
		pass(1, IDLE);
	}
	CHECK(known());
	CHECK_EQ(age, 90 * S);
	CHECK_EQ(limit, 600 * S);
	pass(95, IDLE); /* all is seen again */
	CHECK(known());
	CHECK_EQ(limit, 60 * S);
}

T(a_job_that_does_not_run_has_none)
{
	struct zn_message m = {.verb = ZN_VERB_END, .value[ZN_KEY_ID] = "4711"};
	char why[ZN_TEXT_MAX];

	start();
	zn_memory_exit(&memory, process);
	pass(1, IDLE);
	CHECK(!known()); /* no process is left */
	CHECK_EQ(zn_jobs_end(&jobs, &m, why), 0);
	process = zn_memory_claim(&memory, 101, "python3");
	pass(1, IDLE);
	CHECK(!known());
}

int main(void)
{
	RUN(what_is_progress);
	RUN(batches_are_progress);
	RUN(files_of_workers_are_progress);
	RUN(a_job_teaches_its_own_limit);
	RUN(a_pause_of_the_daemon_is_none_of_the_job);
	RUN(a_suspension_teaches_nothing);
	RUN(who_computes_has_more_time);
	RUN(who_is_spared_has_the_time_of_who_computes);
	RUN(a_job_that_does_not_run_has_none);
	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	return t_end();
}
