/* SPDX-License-Identifier: GPL-2.0 */
/*
 * table_test.c: the table of jobs (table.c) when there are many: it fills, makes room, and finds each of
 * thousands.
 */
#include <errno.h>

#include "jobs.h"

T(labels_of_states)
{
	CHECK_STR(zn_job_state_label(ZN_JOB_RUNNING), "running");
	CHECK_STR(zn_job_state_label(ZN_JOB_ENDING), "ending");
	CHECK_STR(zn_job_state_label(ZN_JOB_ENDED), "ended");
	CHECK_STR(zn_job_state_label(ZN_JOB_ENDED + 1), "unknown");
}

static struct zn_job *numbered(uint32_t i)
{
	char text[64];

	snprintf(text, sizeof(text), "id=%u uid=1000", i);
	return prolog(text);
}

T(the_table_is_full)
{
	struct zn_job *job, *last = NULL;

	start();
	for (uint32_t i = 1; i <= ZN_JOBS_MAX; i++) {
		last = numbered(i);
		launch(process_of(last->slot, PID + i), i);
	}
	CHECK_EQ(zn_jobs_start(&jobs, say("id=9999"), ZN_JOB_BY_PROLOG, why), -ENOSPC);
	CHECK_STR(why, "no room for job 9999: 256 jobs are followed already");
	CHECK_EQ(jobs.refused, 1);
	pass(1);
	CHECK_EQ(job_count(), ZN_JOBS_MAX);
	for (uint32_t i = 1; i <= ZN_JOBS_MAX; i++) {
		char id[12];

		snprintf(id, sizeof(id), "%u", i);
		job = zn_jobs_find(&jobs, id, ZN_UNKNOWN);
		CHECK(job && job->state == ZN_JOB_RUNNING && zn_job_counts(&jobs, job)[ZN_C_LAUNCH_KERNEL] == i);
	}
	epilog("id=7");
	epilog("id=11");
	job = zn_jobs_find(&jobs, "7", ZN_UNKNOWN);
	zn_jobs_find(&jobs, "11", ZN_UNKNOWN)->end_ns++;
	CHECK(numbered(9999) == job); /* where 7 was: it ended first */
	CHECK_EQ(state_of("11"), ZN_JOB_ENDED);
	numbered(9998);
	CHECK_EQ(state_of("11"), ZN_JOB_FREE);
	CHECK_EQ(told.ended, 2);
	CHECK_EQ(zn_jobs_start(&jobs, say("id=9997"), ZN_JOB_BY_PROLOG, why), -ENOSPC);
	CHECK_EQ(zn_jobs_start(&jobs, say("id=9998 qos=x"), ZN_JOB_BY_PROLOG, why), 0); /* not a newcomer */
	CHECK_EQ(jobs.refused, 2);
}

T(room_is_kept_for_the_kernel)
{
	start();
	for (uint32_t i = 1; i <= ZN_JOBS_MAX; i++)
		numbered(i);
	for (uint32_t i = 1; i <= 101; i++) {
		char text[32];

		snprintf(text, sizeof(text), "id=%u", i);
		epilog(text);
		pass_ms(10);
	}
	CHECK_EQ(memory.arena.shared->jobs, ZN_JOBS_MAX - 16);
	CHECK_EQ(state_of("16"), ZN_JOB_FREE);
	CHECK_EQ(state_of("17"), ZN_JOB_ENDED);
	CHECK_EQ(state_of("102"), ZN_JOB_RUNNING);
}

/* A job every 3.6 s: each is shown for its five minutes, and none is refused. */
T(a_thousand_short_jobs_an_hour)
{
	start();
	for (uint32_t i = 1; i <= 1000; i++) {
		char text[32], before[12];

		numbered(i);
		snprintf(text, sizeof(text), "id=%u", i);
		epilog(text);
		pass_ms(3600);
		snprintf(before, sizeof(before), "%u", i > 80 ? i - 80 : 1);
		CHECK_EQ(state_of(before), ZN_JOB_ENDED);
	}
	CHECK_EQ(jobs.refused, 0);
	CHECK_EQ(job_count(), 83);
}

/* Where series of file I/O run short, the oldest of those that have ended goes, one at a tick. */
T(jobs_that_have_ended_make_room_for_file_io)
{
	start();
	for (uint32_t i = 1; i <= 3; i++) {
		char text[32];

		numbered(i);
		snprintf(text, sizeof(text), "id=%u", i);
		epilog(text);
		pass(1);
	}
	numbered(4);
	jobs.crowded = true;
	pass(1);
	CHECK_EQ(state_of("1"), ZN_JOB_FREE);
	CHECK_EQ(state_of("2"), ZN_JOB_ENDED);
	pass(9);
	CHECK_EQ(job_count(), 1);
	CHECK_EQ(state_of("4"), ZN_JOB_RUNNING);
}

T(thousands_in_turn)
{
	uint64_t launches = 0;

	start();
	for (uint32_t i = 1; i <= 2003; i++) {
		uint32_t slot = group("5000", 1000 + i);
		struct zn_proc *p = process_of(slot, PID);

		launch(p, i % 7);
		hold(p, i % 3, GIB);
		zn_memory_exit(&memory, p);
		group_gone(1000 + i);
		epilog("id=5000 uid=1000");
		CHECK_EQ(told.ended, i);
		launches += told.launches;
		pass_ms(300 * 1000);
	}
	CHECK_EQ(launches, 6007);
	CHECK_EQ(job_count(), 0);
	CHECK_EQ(jobs.high, 1);
	CHECK_EQ(memory.task_count + memory.cgroup_count + memory.name_count, 0);
	CHECK_EQ(memory.row_count, ZN_PROCS_MAX);
	CHECK_EQ(memory.hist_count, ZN_HISTS_MAX - ZN_HISTS_FIRST);
	for (uint32_t i = 0; i < ZN_LOSS_COUNT; i++)
		CHECK_EQ(memory.arena.shared->lost[i], 0);
}

/* What is listed at once is what each would be found as, one by one: of an id that ran twice the newest. */
T(newest_of_each_id)
{
	const struct zn_job *list[ZN_JOBS_MAX];
	uint32_t count, expected = 0;
	char text[64];

	start();
	for (uint32_t i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "id=%u uid=1000 restart=%u", 5000 + i % 70, i / 70);
		prolog(text);
	}
	epilog("id=5069");
	pass(1);
	count = zn_jobs_newest(&jobs, list);
	for (uint32_t slot = 0; slot < ZN_JOBS_MAX; slot++) {
		const struct zn_job *job = &jobs.job[slot];

		if (job->state == ZN_JOB_FREE || zn_jobs_find(&jobs, job->id, ZN_UNKNOWN) != job)
			continue;
		CHECK(expected < count && list[expected] == job);
		expected++;
	}
	CHECK_EQ(count, 70);
	CHECK_EQ(expected, 70);
}

int main(void)
{
	RUN(labels_of_states);
	RUN(the_table_is_full);
	RUN(room_is_kept_for_the_kernel);
	RUN(a_thousand_short_jobs_an_hour);
	RUN(jobs_that_have_ended_make_room_for_file_io);
	RUN(thousands_in_turn);
	RUN(newest_of_each_id);
	return t_end();
}
