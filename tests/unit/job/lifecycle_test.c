/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lifecycle_test.c: who a job is, when it begins, when it ends and when it is forgotten (lifecycle.c): by prologs
 * and epilogs, control groups, and tags; which alerts were about it.
 */
#include <errno.h>

#include "jobs.h"

#define OTHER_ID "76543210-89ab-cdef-0123-456789abcdef"

/* ---- Life. ---- */

T(prolog_then_group_then_both_signs)
{
	struct zn_job *job;
	uint32_t slot;

	start();
	job = prolog("id=4711 uid=1000 user=user1000 gpus=0 nodes=2");
	CHECK_EQ(job->uid, 1000);
	CHECK_EQ(job->restart, 0);
	CHECK_STR(job->about.value[ZN_KEY_USER], "user1000");
	CHECK_EQ(job->start_ns, clock_ns);
	CHECK_EQ(job->start_wall_ms, BOOT_MS + 1000000);
	slot = group("4711", 77);
	CHECK_EQ(slot, job->slot);
	pass(3);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	group_gone(77);
	pass(2);
	CHECK_EQ(job->state, ZN_JOB_ENDING);
	CHECK_EQ(told.ended, 0);
	epilog("id=4711 exit_code=0:9");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 1);
	CHECK_EQ(job->end_ns, clock_ns);
	CHECK_EQ(job->end_wall_ms, BOOT_MS + 1005000);
	CHECK_STR(job->about.value[ZN_KEY_EXIT_CODE], "0:9");
	CHECK_EQ(told.started, 1);
}

T(epilog_then_group)
{
	struct zn_job *job;

	start();
	job = prolog("id=4711 uid=1000");
	group("4711", 77);
	pass(3);
	epilog("id=4711");
	CHECK_EQ(job->state, ZN_JOB_ENDING);
	CHECK_EQ(told.started, 2); /* for its record */
	pass_ms(500);
	group_gone(77);
	pass_ms(500);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(job->end_ns, 1003500 * ZN_NS_PER_MS);
	CHECK_EQ(told.ended, 1);
}

T(one_sign_alone_counts_after_ten_seconds)
{
	for (int by_epilog = 0; by_epilog < 2; by_epilog++) {
		struct zn_job *job;

		start();
		job = prolog("id=4711 uid=1000");
		group("4711", 77);
		pass(3);
		if (by_epilog)
			epilog("id=4711");
		else
			group_gone(77);
		pass(9);
		CHECK_EQ(job->state, ZN_JOB_ENDING);
		pass(1);
		CHECK_EQ(job->state, ZN_JOB_ENDED);
		CHECK_EQ(job->end_ns, 1003 * ZN_NS_PER_S);
	}
}

T(a_group_that_comes_back_is_no_end)
{
	struct zn_job *job;

	start();
	job = prolog("id=4711 uid=1000");
	group("4711", 77);
	pass(1);
	group_gone(77);
	pass(5);
	CHECK_EQ(job->state, ZN_JOB_ENDING);
	CHECK_EQ(group("4711", 78), job->slot);
	pass(60);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	CHECK_EQ(told.ended, 0);
}

T(a_step_after_a_pause_goes_on_with_its_job)
{
	struct zn_job *job, *next;

	start();
	list_gpus(1);
	job = prolog("id=4711 uid=1000 gpus=0");
	group("4711", 77);
	launch(process_of(job->slot, PID), 7);
	pass(3);
	zn_memory_exit(&memory, zn_arena_proc(&memory.arena, agg.row[0]));
	group_gone(77);
	pass(30);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.launches, 7);
	CHECK_EQ(group("4711", 78), job->slot);
	launch(process_of(job->slot, PID + 1), 11);
	pass(1);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	CHECK_EQ(job->end_ns, 0);
	CHECK_EQ(told.started, 2);
	epilog("id=4711");
	group_gone(78);
	pass(1);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 2);
	CHECK_EQ(told.launches, 18);
	CHECK_EQ(gpu(job, "0")->busy_ns + gpu(job, "0")->idle_ns, 34 * ZN_NS_PER_S);
	next = prolog("id=4712 uid=1000");
	group("4712", 79);
	group_gone(79);
	pass(10);
	CHECK_EQ(next->state, ZN_JOB_ENDED);
	CHECK(prolog("id=4712 uid=1000") != next);
	CHECK(group("4712", 80) != next->slot);
	CHECK_EQ(job_count(), 3);
}

T(an_epilog_that_comes_late_is_the_end)
{
	struct zn_job *job;
	uint64_t start_ns;

	start();
	list_gpus(1);
	job = prolog("id=4711 uid=1000 gpus=0");
	start_ns = clock_ns;
	group("4711", 77);
	pass(3);
	group_gone(77);
	pass(30);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	epilog("id=4711 exit_code=1:0");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 2);
	CHECK_EQ(job->end_ns, start_ns + 33 * ZN_NS_PER_S);
	CHECK_STR(job->about.value[ZN_KEY_EXIT_CODE], "1:0");
	CHECK_EQ(gpu(job, "0")->idle_ns, 33 * ZN_NS_PER_S);
	epilog("id=4711 exit_code=2:0");
	CHECK_EQ(told.ended, 2);
	CHECK_STR(job->about.value[ZN_KEY_EXIT_CODE], "1:0");
}

T(an_epilog_alone_tells_the_number_of_a_sluid)
{
	struct zn_job *job;

	start();
	group("s0123456789ABC", 77);
	pass(1);
	job = zn_jobs_find(&jobs, "s0123456789ABC", ZN_UNKNOWN);
	CHECK(job);
	group_gone(77);
	epilog("id=4711 uid=1000 sluid=s0123456789ABC");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 1);
	CHECK_STR(told.id, "4711");
	CHECK(zn_jobs_find(&jobs, "4711", ZN_UNKNOWN) == job);
	CHECK(group("4711", 78) != job->slot);
}

T(without_groups_the_epilog_ends_it)
{
	struct zn_job *job;

	start();
	job = prolog("id=4711 uid=1000");
	pass(61);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	epilog("id=4711");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(job->end_ns - job->start_ns, 61 * ZN_NS_PER_S);
}

T(group_before_prolog)
{
	struct zn_job *job;
	uint32_t slot;

	start();
	slot = group("4711", 77);
	pass(2);
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	CHECK(job && job->source == ZN_JOB_BY_CGROUP && job->uid == ZN_UNKNOWN && !job->announced);
	CHECK(prolog("id=4711 uid=1000 restart=3") == job);
	CHECK_EQ(job->slot, slot);
	CHECK_EQ(job->restart, 3);
	CHECK_EQ(job->source, ZN_JOB_BY_PROLOG);
	CHECK_EQ(job->start_ns, 1000 * ZN_NS_PER_S);
	CHECK_EQ(job_count(), 1);
}

/* A process with seven launches, whose group has gone before the daemon reads anything of it. */
static struct zn_job *short_job(void)
{
	uint32_t slot;
	struct zn_proc *p;

	start();
	slot = group("4711", 77);
	p = process_of(slot, PID);
	launch(p, 7);
	zn_memory_exit(&memory, p);
	group_gone(77);
	return &jobs.job[slot];
}

T(a_prolog_that_is_read_after_its_job)
{
	struct zn_job *job = short_job();

	CHECK(prolog("id=4711 uid=1000 time=1700000999000") == job); /* said a second before the group */
	CHECK_EQ(job->start_ns, 999 * ZN_NS_PER_S);
	epilog("id=4711 time=1700001000000");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 1);
	CHECK_EQ(told.launches, 7);
	CHECK_EQ(job_count(), 1);
}

T(a_prolog_that_is_read_after_the_report)
{
	struct zn_job *job = short_job();

	pass(11);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK(prolog("id=4711 uid=1000 sluid=s0123456789ABC time=1700000999000") == job);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	epilog("id=4711 time=1700001000000");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(job->end_ns, 1000 * ZN_NS_PER_S);
	CHECK_EQ(job->uid, 1000);
	CHECK_EQ(told.ended, 2);
	CHECK_EQ(told.launches, 7);
	CHECK_EQ(job_count(), 1);
}

T(a_prolog_that_was_said_after_the_group_is_of_another_run)
{
	for (int late = 0; late < 2; late++) {
		struct zn_job *job = short_job();

		pass(late ? 11 : 1);
		CHECK(prolog("id=4711 uid=1000 restart=1 time=1700001000500") != job);
		CHECK_EQ(job->state, ZN_JOB_ENDED);
		CHECK_EQ(told.ended, 1);
		CHECK_EQ(told.launches, 7);
		CHECK_EQ(job_count(), 2);
	}
}

T(group_alone)
{
	struct zn_job *job;

	start();
	group("4711", 77);
	pass(1);
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	group_gone(77);
	pass(10);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 1);
	CHECK_EQ(told.started, 0);
}

T(epilog_without_prolog)
{
	struct zn_job *job;

	start();
	group("4711", 77);
	group_gone(77);
	epilog("id=4711 uid=1000 user=user1000 restart=2");
	job = zn_jobs_find(&jobs, "4711", 2);
	CHECK(job && job->state == ZN_JOB_ENDED);
	CHECK_EQ(job->uid, 1000);
	CHECK_STR(job->about.value[ZN_KEY_USER], "user1000");
}

T(end_of_an_unknown_job)
{
	start();
	epilog("id=4711");
	epilog("id=4711 restart=1 sluid=s0123456789ABC");
	CHECK_EQ(job_count(), 0);
	CHECK_EQ(told.ended, 0);
}

T(told_twice_is_once)
{
	struct zn_job *job;

	start();
	job = prolog("id=4711 uid=1000 restart=1 account=a");
	pass(1);
	CHECK(prolog("id=4711 uid=1000 restart=1 qos=high") == job);
	CHECK_STR(job->about.value[ZN_KEY_ACCOUNT], "a");
	CHECK_STR(job->about.value[ZN_KEY_QOS], "high");
	CHECK_EQ(job->start_ns, 1000 * ZN_NS_PER_S);
	CHECK_EQ(job_count(), 1);
	epilog("id=4711 restart=1");
	epilog("id=4711 restart=1");
	CHECK_EQ(told.ended, 1);
}

T(a_requeued_job_is_another)
{
	struct zn_job *first, *second;

	start();
	first = prolog("id=4711 uid=1000 restart=0");
	group("4711", 77);
	launch(process_of(first->slot, PID), 7);
	pass(3);
	second = prolog("id=4711 uid=1000 restart=1");
	CHECK(second != first && second->slot != first->slot && second->serial != first->serial);
	CHECK_EQ(first->state, ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 1);
	CHECK_EQ(told.restart, 0);
	CHECK_EQ(told.launches, 7);
	CHECK_EQ(group("4711", 78), second->slot);
	launch(process_of(second->slot, PID + 1), 11);
	pass(1);
	CHECK_EQ(zn_job_counts(&jobs, second)[ZN_C_LAUNCH_KERNEL], 11);
	CHECK_EQ(zn_job_counts(&jobs, first)[ZN_C_LAUNCH_KERNEL], 7);
	CHECK(zn_jobs_find(&jobs, "4711", ZN_UNKNOWN) == second);
	CHECK(zn_jobs_find(&jobs, "4711", 0) == first);
	CHECK(zn_jobs_find(&jobs, "4711", 1) == second);
	CHECK(!zn_jobs_find(&jobs, "4711", 2));
	epilog("id=4711 restart=0"); /* late */
	CHECK_EQ(second->state, ZN_JOB_RUNNING);
	group_gone(78);
	epilog("id=4711 restart=1");
	CHECK_EQ(second->state, ZN_JOB_ENDED);
	CHECK_EQ(told.launches, 11);
}

T(after_its_end_an_id_is_a_new_job)
{
	struct zn_job *first, *second;

	start();
	first = prolog("id=4711 uid=1000");
	epilog("id=4711");
	second = prolog("id=4711 uid=1000");
	CHECK(first != second);
	CHECK_EQ(first->state, ZN_JOB_ENDED);
	CHECK_EQ(second->state, ZN_JOB_RUNNING);
	CHECK(zn_jobs_find(&jobs, "4711", ZN_UNKNOWN) == second);
	group("4711", 77);
	epilog("id=4711");
	CHECK_EQ(second->state, ZN_JOB_ENDING);
	CHECK(group("4711", 78) != second->slot); /* it runs again, and its prolog is lost */
	pass(1);
	CHECK_EQ(second->state, ZN_JOB_ENDED);
	CHECK_EQ(state_of("4711"), ZN_JOB_RUNNING);
	CHECK_EQ(job_count(), 3);
}

T(a_sluid_and_a_number_are_one_job)
{
	struct zn_job *job;

	start();
	job = prolog("id=4711 uid=1000 sluid=s0123456789ABC");
	CHECK_EQ(group("s0123456789ABC", 77), job->slot);
	CHECK_EQ(group("4711", 78), job->slot);
	group("s1123456789ABC", 79);
	pass(1);
	CHECK_EQ(state_of("s1123456789ABC"), ZN_JOB_RUNNING);
	job = zn_jobs_find(&jobs, "s1123456789ABC", ZN_UNKNOWN);
	CHECK(prolog("id=4712 uid=1000 sluid=s1123456789ABC") == job);
	CHECK_STR(job->id, "4712");
	CHECK_EQ(job_count(), 2);
}

T(from_a_file)
{
	struct zn_job *job;

	start();
	CHECK_EQ(zn_jobs_start(&jobs, say("id=4711 uid=1000 time=1700000900000"), ZN_JOB_BY_FILE, why), 0);
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	CHECK_EQ(job->start_ns, 900 * ZN_NS_PER_S);
	CHECK_EQ(job->start_wall_ms, 1700000900000);
	CHECK_STR(job->about.value[ZN_KEY_TIME], "");
	CHECK_EQ(zn_jobs_end(&jobs, say("id=4711 time=1700000990000"), why), 0);
	CHECK_EQ(job->end_ns, 990 * ZN_NS_PER_S);
	CHECK_EQ(zn_jobs_start(&jobs, say("id=4712 time=1699999999999"), ZN_JOB_BY_FILE, why), -ESTALE);
	CHECK_STR(why, "it is from before the node was started");
	CHECK_EQ(zn_jobs_start(&jobs, say("id=4713 time=1700009999999"), ZN_JOB_BY_FILE, why), 0);
	CHECK_EQ(zn_jobs_find(&jobs, "4713", ZN_UNKNOWN)->start_ns, clock_ns);
	CHECK_EQ(job_count(), 2);
}

/* A step of the clock by more than the node is up: at boot, when the first answer of a time server comes. */
T(from_a_file_that_is_older_than_the_clock)
{
	struct zn_job *job;

	start();
	clock_step_ms = 7LL * 365 * 86400 * 1000;
	CHECK_EQ(zn_jobs_start(&jobs, say("id=4711 uid=1000 time=1700000900000 boot=" BOOT_ID " uptime=900000"),
			 ZN_JOB_BY_FILE, why),
		0);
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	CHECK_EQ(job->start_ns, 900 * ZN_NS_PER_S);
	CHECK_EQ(job->start_wall_ms, 1700000900000 + (uint64_t)clock_step_ms);
	CHECK_STR(job->about.value[ZN_KEY_BOOT], "");
	CHECK_STR(job->about.value[ZN_KEY_UPTIME], "");
	CHECK_EQ(zn_jobs_end(&jobs, say("id=4711 time=1700000990000 boot=" BOOT_ID " uptime=990000"), why), 0);
	CHECK_EQ(job->end_ns, 990 * ZN_NS_PER_S);
	CHECK_EQ(zn_jobs_start(
			 &jobs, say("id=4712 time=1700000990000 boot=" OTHER_ID " uptime=990000"), ZN_JOB_BY_FILE, why),
		-ESTALE);
	CHECK_STR(why, "it is from before the node was started");
	clock_step_ms = 0;
}

T(a_daemon_that_comes_back)
{
	struct zn_job *job;
	uint32_t slot;

	start();
	slot = group("4711", 77); /* by the scan */
	launch(process_of(slot, PID), 13);
	CHECK_EQ(zn_jobs_start(&jobs, say("id=4711 uid=1000 restart=2 time=1700000500000"), ZN_JOB_BY_FILE, why), 0);
	job = zn_jobs_find(&jobs, "4711", 2);
	CHECK(job && job->slot == slot);
	CHECK_EQ(job->start_ns, 500 * ZN_NS_PER_S);
	pass(1);
	CHECK_EQ(job_count(), 1);
	CHECK_EQ(zn_job_counts(&jobs, job)[ZN_C_LAUNCH_KERNEL], 13);
	CHECK_EQ(job->processes, 1);
}

#define RECORD "id=4711 uid=1000 time=1700000900000 end_time=1700001010" /* a limit in ten seconds */

static struct zn_job *job_of_record(const char *text, enum zn_job_source source)
{
	start();
	CHECK_EQ(zn_jobs_start(&jobs, say(text), source, why), 0);
	return zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
}

T(a_job_that_only_its_record_tells_of_ends_behind_its_limit)
{
	struct zn_job *job = job_of_record(RECORD, ZN_JOB_BY_FILE);

	pass(10);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	pass(1);
	CHECK_EQ(job->state, ZN_JOB_ENDING);
	pass_ms(3598 * 1000);
	CHECK_EQ(told.ended, 0);
	pass(1);
	CHECK_EQ(told.ended, 1);
	CHECK_EQ(job->end_ns, 1010 * ZN_NS_PER_S);
	CHECK_EQ(job->state, ZN_JOB_FREE); /* an hour after its end it is not shown any more */
}

/* An epilog before ours failed, so that ours was not run, and Slurm has no control groups. Its limit may have been
 * moved, so it runs until then, and longer if it still had a process. */
T(a_job_whose_epilog_never_comes_ends_a_day_behind_its_limit)
{
	for (int used = 0; used < 2; used++) {
		struct zn_job *job = job_of_record(RECORD, ZN_JOB_BY_PROLOG);
		struct zn_proc *p = used ? process_of(job->slot, PID) : NULL;

		pass(11);
		if (p)
			zn_memory_exit(&memory, p);
		pass(1);
		CHECK_EQ(job->state, ZN_JOB_RUNNING);
		pass_ms((24 * 3600 - 3 + used) * 1000);
		CHECK_EQ(told.ended, 0);
		pass(1);
		CHECK_EQ(told.ended, 1);
		CHECK_EQ(job->end_ns, (1010 + used) * ZN_NS_PER_S);
	}
}

T(a_job_that_may_still_run_has_no_end_by_its_limit)
{
	static const char *const texts[] = {RECORD, RECORD, "id=4711 uid=1000",
		"id=4711 uid=1000 end_time=9223372036854775807", RECORD " cgroup=/app.slice"};

	for (size_t i = 0; i < 2 * ZN_LEN(texts); i++) {
		enum zn_job_source source = i % 2 ? ZN_JOB_BY_FILE : ZN_JOB_BY_PROLOG;
		struct zn_job *job = job_of_record(texts[i / 2], source);

		if (i / 2 == 0)
			group("4711", 77);
		if (i / 2 == 1)
			process_of(job->slot, PID);
		pass_ms(48 * 3600 * 1000);
		pass(1);
		CHECK_EQ(job->state, ZN_JOB_RUNNING);
		CHECK_EQ(told.ended, 0);
	}
}

T(tagged_by_hand)
{
	struct zn_job *job;

	start();
	CHECK_EQ(zn_jobs_start(&jobs, say("id=train uid=1000 cgroup=/app.slice"), ZN_JOB_BY_TAG, why), 0);
	job = zn_jobs_find(&jobs, "train", ZN_UNKNOWN);
	pass(100);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	group_gone(strlen("/app.slice"));
	pass(1);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(zn_jobs_start(&jobs, say("id=train cgroup=/app.slice"), ZN_JOB_BY_TAG, why), 0);
	epilog("id=train");
	CHECK_EQ(state_of("train"), ZN_JOB_ENDED);
	CHECK_EQ(told.ended, 2);
	tag_result = -ENOENT;
	CHECK_EQ(zn_jobs_start(&jobs, say("id=other cgroup=/none"), ZN_JOB_BY_TAG, why), -ENOENT);
	CHECK_STR(why, "no /none");
	CHECK_EQ(state_of("other"), ZN_JOB_FREE);
}

/* A job that ended while no daemon ran: its record tells of a group, or of a process, that is not there. */
T(tagged_by_hand_and_gone)
{
	static const struct {
		const char *text;
		enum zn_job_source source;
	} records[] = {{"id=train uid=1000 cgroup=/none time=1700000900000", ZN_JOB_BY_FILE},
		{"id=train uid=1000 pid=4242 time=1700000900000", ZN_JOB_BY_OLD_FILE}};

	for (size_t i = 0; i < ZN_LEN(records); i++) {
		start();
		tag_result = -ENOENT;
		CHECK_EQ(zn_jobs_start(&jobs, say(records[i].text), records[i].source, why), 0);
		CHECK(why[0] && !memory.task_count);
		pass(10);
		CHECK_EQ(state_of("train"), ZN_JOB_RUNNING);
		pass(1);
		CHECK_EQ(state_of("train"), ZN_JOB_ENDED);
		CHECK_EQ(zn_jobs_find(&jobs, "train", ZN_UNKNOWN)->start_ns, 900 * ZN_NS_PER_S);
		pass(100);
		CHECK_EQ(told.ended, 1);
	}
}

/* What is left of its end counts, and not when it was missed. */
T(tagged_by_hand_and_gone_with_its_end)
{
	start();
	tag_result = -ENOENT;
	CHECK_EQ(zn_jobs_start(&jobs, say("id=train cgroup=/none time=1700000900000"), ZN_JOB_BY_FILE, why), 0);
	CHECK_EQ(zn_jobs_end(&jobs, say("id=train time=1700000990000"), why), 0);
	CHECK_EQ(state_of("train"), ZN_JOB_ENDED);
	CHECK_EQ(zn_jobs_find(&jobs, "train", ZN_UNKNOWN)->end_ns, 990 * ZN_NS_PER_S);
	CHECK_EQ(told.ended, 1);
}

T(a_tag_that_fails_changes_no_job)
{
	struct zn_job *job;

	start();
	prolog("id=4711 uid=1000 name=train");
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	tag_result = -ENOENT;
	CHECK_EQ(zn_jobs_start(&jobs, say("id=4711 uid=1001 name=other cgroup=/none"), ZN_JOB_BY_TAG, why), -ENOENT);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	CHECK_EQ(job->uid, 1000);
	CHECK_STR(job->about.value[ZN_KEY_NAME], "train");
	CHECK_STR(job->about.value[ZN_KEY_CGROUP], "");
	CHECK_EQ(job->source, ZN_JOB_BY_PROLOG);
	CHECK_EQ(told.started, 1);
}

T(a_tagged_process_ends_its_job)
{
	struct zn_proc *p = NULL;
	struct zn_job *job;

	start();
	p = process(PID);
	CHECK_EQ(zn_jobs_start(&jobs, say("id=train pid=4242"), ZN_JOB_BY_TAG, why), 0);
	job = zn_jobs_find(&jobs, "train", ZN_UNKNOWN);
	launch(p, 17);
	pass(100);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	CHECK_STR(zn_job_id(&jobs, p), "train");
	zn_memory_exit(&memory, p);
	pass(10);
	CHECK_EQ(job->state, ZN_JOB_RUNNING);
	pass(1);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(told.launches, 17);
	CHECK_EQ(job->end_ns, 1101 * ZN_NS_PER_S);
}

static struct zn_arena_ops counting;
static void (*read_tasks)(struct zn_arena *a, void (*task)(void *to, const struct zn_job_ref *job), void *to);
static unsigned readings;

static void count_readings(struct zn_arena *a, void (*task)(void *to, const struct zn_job_ref *job), void *to)
{
	readings++;
	read_tasks(a, task, to);
}

/* However many jobs are followed by their processes, the table of those is read once at a tick. */
T(tasks_of_all_jobs_are_counted_in_one_reading)
{
	start();
	counting = *memory.arena.ops;
	read_tasks = counting.job_tasks;
	counting.job_tasks = count_readings;
	memory.arena.ops = &counting;
	for (uint32_t i = 1; i <= 200; i++) {
		char text[64];

		snprintf(text, sizeof(text), "id=%u pid=%u", i, 5000 + i);
		CHECK_EQ(zn_jobs_start(&jobs, say(text), ZN_JOB_BY_TAG, why), 0);
	}
	readings = 0;
	pass(30);
	CHECK_EQ(readings, 30);
	CHECK_EQ(job_count(), 200);
	CHECK_EQ(state_of("7"), ZN_JOB_RUNNING);
	for (uint32_t i = 0; i < memory.task_count; i++)
		if (memory.tasks[i].tgid == 5007)
			memory.tasks[i] = memory.tasks[--memory.task_count];
	pass(11);
	CHECK_EQ(state_of("7"), ZN_JOB_ENDED);
	CHECK_EQ(state_of("8"), ZN_JOB_RUNNING);
	CHECK_EQ(readings, 41);
}

T(shown_for_five_minutes)
{
	start();
	prolog("id=4711 uid=1000");
	epilog("id=4711");
	pass(299);
	CHECK_EQ(state_of("4711"), ZN_JOB_ENDED);
	pass(1);
	CHECK_EQ(state_of("4711"), ZN_JOB_FREE);
	CHECK_EQ(memory.arena.shared->jobs, 0);
	CHECK_EQ(told.ended, 1);
}

/* ---- Alerts. ---- */

static const struct zn_rule by_gpu = {.name = "gpu_oom_warning"};
static const struct zn_rule by_pid = {.name = "probe_overhead"};
static const struct zn_rule by_what = {.name = "events_lost"};
static const struct zn_rule by_job = {.name = "gpu_idle"};

static void label(const char *name, const char *value)
{
	CHECK(zn_alert_label_add(&alerts.alert[alerts.count - 1], (struct zn_str){name, strlen(name)},
		(struct zn_str){value, strlen(value)}));
}

static void fire(const struct zn_rule *rule, const char *value)
{
	struct zn_alert *alert = &alerts.alert[alerts.count++];

	*alert = (struct zn_alert){.rule = rule, .state = ZN_FIRING, .since_ns = clock_ns};
	label(rule == &by_gpu || rule == &by_job ? "gpu_id" : rule == &by_pid ? "pid" : "what", value);
}

T(alerts_of_a_job)
{
	struct zn_job *job, *other;

	start();
	list_gpus(2);
	job = prolog("id=4711 gpus=1");
	other = prolog("id=4712 gpus=0");
	process_of(job->slot, PID);
	pass(1);
	clock_ns += ZN_NS_PER_S;
	fire(&by_gpu, "1");
	fire(&by_pid, "4242");
	fire(&by_pid, "4243");
	fire(&by_what, "alloc");
	alerts.alert[2].state = ZN_PENDING;
	fire(&by_job, "1"); /* a GPU of the first job, but it says itself which one is meant */
	label("job_id", "4712");
	tick();
	CHECK_EQ(job->alert_count, 2);
	CHECK_STR(job->alert[0].name, "gpu_oom_warning");
	CHECK_STR(job->alert[0].label, "1");
	CHECK_EQ(job->alert[0].first_ns, 1002 * ZN_NS_PER_S);
	CHECK_STR(job->alert[1].label, "4242");
	CHECK_EQ(other->alert_count, 1);
	CHECK_STR(other->alert[0].name, "gpu_idle");
	CHECK_STR(other->alert[0].label, "1");
	pass(3); /* it goes on firing */
	CHECK_EQ(job->alert[0].times, 1);
	clock_ns += ZN_NS_PER_S;
	alerts.alert[0].since_ns = clock_ns; /* again */
	tick();
	CHECK_EQ(job->alert_count, 2);
	CHECK_EQ(job->alert[0].times, 2);
}

/* The kernel knows it by where it is. */
T(errors_of_a_jobs_gpu)
{
	static const struct zn_rule rule = {.name = "gpu_xid"};
	struct zn_job *job, *other;

	start();
	list_gpus(2);
	strcpy(agg.gpus.gpu[1].pci, "0000:1c:00.0");
	job = prolog("id=4711 gpus=1");
	other = prolog("id=4712 gpus=0");
	for (int i = 0; i < 2; i++) {
		alerts.alert[alerts.count++] =
			(struct zn_alert){.rule = &rule, .state = ZN_FIRING, .since_ns = clock_ns};
		label("pci", "0000:1c:00.0");
		label("xid", i ? "79" : "31");
	}
	tick();
	CHECK_EQ(job->alert_count, 2);
	CHECK_STR(job->alert[0].label, "31");
	CHECK_STR(job->alert[1].label, "79");
	CHECK_EQ(other->alert_count, 0);
}

T(more_alerts_than_are_kept)
{
	struct zn_job *job;

	start();
	job = prolog("id=4711 gpus=0-15");
	for (uint32_t i = 0; i < 19; i++) {
		char pid[12];

		process_of(job->slot, PID + i);
		snprintf(pid, sizeof(pid), "%u", PID + i);
		fire(&by_pid, pid);
	}
	tick();
	CHECK_EQ(job->alert_count, ZN_JOB_ALERTS);
	CHECK_EQ(job->alerts_lost, 3);
}

int main(void)
{
	RUN(prolog_then_group_then_both_signs);
	RUN(epilog_then_group);
	RUN(one_sign_alone_counts_after_ten_seconds);
	RUN(a_group_that_comes_back_is_no_end);
	RUN(a_step_after_a_pause_goes_on_with_its_job);
	RUN(an_epilog_that_comes_late_is_the_end);
	RUN(an_epilog_alone_tells_the_number_of_a_sluid);
	RUN(without_groups_the_epilog_ends_it);
	RUN(group_before_prolog);
	RUN(a_prolog_that_is_read_after_its_job);
	RUN(a_prolog_that_is_read_after_the_report);
	RUN(a_prolog_that_was_said_after_the_group_is_of_another_run);
	RUN(group_alone);
	RUN(epilog_without_prolog);
	RUN(end_of_an_unknown_job);
	RUN(told_twice_is_once);
	RUN(a_requeued_job_is_another);
	RUN(after_its_end_an_id_is_a_new_job);
	RUN(a_sluid_and_a_number_are_one_job);
	RUN(from_a_file);
	RUN(from_a_file_that_is_older_than_the_clock);
	RUN(a_daemon_that_comes_back);
	RUN(a_job_that_only_its_record_tells_of_ends_behind_its_limit);
	RUN(a_job_whose_epilog_never_comes_ends_a_day_behind_its_limit);
	RUN(a_job_that_may_still_run_has_no_end_by_its_limit);
	RUN(tagged_by_hand);
	RUN(tagged_by_hand_and_gone);
	RUN(tagged_by_hand_and_gone_with_its_end);
	RUN(a_tag_that_fails_changes_no_job);
	RUN(a_tagged_process_ends_its_job);
	RUN(tasks_of_all_jobs_are_counted_in_one_reading);
	RUN(shown_for_five_minutes);
	RUN(alerts_of_a_job);
	RUN(errors_of_a_jobs_gpu);
	RUN(more_alerts_than_are_kept);
	return t_end();
}
