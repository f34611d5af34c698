/* SPDX-License-Identifier: GPL-2.0 */
/*
 * flight_test.c: when the record of a hang is written, of which process the threads are asked for, and that it is JSON
 * whatever the names in it are.
 */
#include "report.h"

static struct zn_causes causes;
static struct zn_progress progress;
static struct zn_flights flights;
static struct zn_rules book;
static struct zn_threads answer;
static bool answers;
static uint32_t asked_pid, records;
static char record_name[ZN_NAME_BYTES];
static struct zn_str record;

static bool look(void *owner, struct zn_threads *threads)
{
	(void)owner;
	asked_pid = threads->pid;
	if (!answers)
		return false;
	answer.pid = threads->pid;
	*threads = answer;
	return true;
}

static void keep(void *owner, const char *name, struct zn_str json)
{
	(void)owner;
	records++;
	snprintf(record_name, sizeof(record_name), "%s", name);
	memcpy(page, json.at, json.len);
	record = (struct zn_str){page, json.len};
	CHECK_EQ(zn_json_check(record), 0);
}

/* A job of two processes, 100 and 200, and process 300 of none. */
static struct zn_job *begin(void)
{
	struct zn_job *job;

	start();
	memset(&causes, 0, sizeof(causes));
	memset(&progress, 0, sizeof(progress));
	memset(&flights, 0, sizeof(flights));
	memset(&book, 0, sizeof(book));
	memset(&answer, 0, sizeof(answer));
	answers = answer.done = true;
	records = asked_pid = 0;
	view.causes = &causes;
	view.progress = &progress;
	flights.state = &view;
	flights.look = look;
	flights.write = keep;
	job = prolog();
	process(100)->job = process(200)->job = (struct zn_job_ref){job->slot, job->serial};
	process(300);
	zn_agg_tick(&agg, clock_ns);
	causes.group[job->slot].used = causes.group[ZN_JOBS_MAX].used = true;
	causes.group[job->slot].serial = job->serial;
	causes.group[job->slot].missing.rank = ZN_UNKNOWN;
	return job;
}

static struct zn_alert *fire(const char *rule, const char *label, const char *value)
{
	struct zn_rule *r = &book.rule[book.rule_count++];
	struct zn_alert *a = &alerts.alert[alerts.count++];

	snprintf(r->name, sizeof(r->name), "%s", rule);
	*a = (struct zn_alert){.rule = r, .state = ZN_FIRING};
	CHECK(zn_alert_label_add(a, (struct zn_str){label, strlen(label)}, (struct zn_str){value, strlen(value)}));
	return a;
}

static void tick(uint64_t ms)
{
	clock_ns += ms * ZN_NS_PER_MS;
	zn_flights_tick(&flights, clock_ns);
}

T(once_in_an_episode)
{
	struct zn_alert *a;

	begin();
	tick(1000);
	CHECK_EQ(records, 0);
	a = fire("nccl_hang", "job_id", "4711");
	for (int i = 0; i < 100; i++)
		tick(1000);
	CHECK_EQ(records, 1);
	CHECK_STR(record_name, "hang-report-of-job-4711_2.1.json");
	check_is(record, "job_id", "\"4711\"");
	check_is(record, "restart", "2");
	check_is(record, "uid", "1000");
	check_is(record, "episode", "1");
	check_is(record, "alert", "\"nccl_hang\"");
	a->state = ZN_INACTIVE;
	tick(1000);
	a->state = ZN_FIRING;
	tick(1000);
	CHECK_EQ(records, 2);
	check_is(record, "episode", "2");
	CHECK_STR(record_name, "hang-report-of-job-4711_2.2.json");
}

T(what_is_no_hang)
{
	begin();
	fire("gpu_temperature", "job_id", "4711");
	fire("nccl_hang", "job_id", "471");
	fire("nccl_hang", "pid", "999");
	fire("job_stalled", "job_id", "4711")->state = ZN_PENDING;
	fire("driver_unresponsive", "job_id", "4711")->summed = true;
	tick(1000);
	CHECK_EQ(records, 0);
	CHECK_EQ(asked_pid, 0);
}

/* A second alert of the same episode changes nothing. */
T(two_alerts_are_one_hang)
{
	struct zn_alert *first;

	begin();
	first = fire("nccl_hang", "job_id", "4711");
	fire("job_stalled", "job_id", "4711");
	tick(1000);
	first->state = ZN_INACTIVE;
	tick(1000);
	CHECK_EQ(records, 1);
}

T(who_does_not_say_what_its_threads_do)
{
	begin();
	answers = false;
	fire("nccl_hang", "job_id", "4711");
	tick(0);
	tick(2999);
	CHECK_EQ(records, 0);
	tick(1);
	CHECK_EQ(records, 1);
	check_is(record, "threads", "null");
	tick(10000);
	CHECK_EQ(records, 1);
}

/* It is over before the threads are known: nothing is written, and the next one begins anew. */
T(a_hang_that_is_over_at_once)
{
	struct zn_alert *a;

	begin();
	answers = false;
	a = fire("nccl_hang", "job_id", "4711");
	tick(1000);
	a->state = ZN_INACTIVE;
	tick(1000);
	a->state = ZN_FIRING;
	tick(2500);
	CHECK_EQ(records, 0);
	answers = true;
	tick(100);
	CHECK_EQ(records, 1);
	check_is(record, "episode", "1");
}

T(whose_threads_are_asked_for)
{
	struct zn_job *job = begin();
	struct zn_missing *missing = &causes.group[job->slot].missing;

	for (uint32_t r = 0; r < agg.row_count; r++) {
		uint32_t row = agg.row[r];
		const struct zn_proc *p = &memory.arena.procs[row];

		progress.row[row] = (struct zn_progress_row){.id = p->id, .first_ns = p->tgid == 200 ? 5 : 7};
		if (p->tgid == 300)
			progress.row[row].first_ns = 1; /* of no job */
	}
	fire("nccl_hang", "job_id", "4711");
	tick(1000);
	CHECK_EQ(asked_pid, 200); /* it has stood still the longest */

	begin();
	fire("driver_unresponsive", "pid", "100");
	tick(1000);
	CHECK_EQ(asked_pid, 100); /* the alert names it */

	begin();
	*missing = (struct zn_missing){.waiters = 5, .tgid = 4242, .rank = 3};
	fire("driver_unresponsive", "pid", "100");
	tick(1000);
	CHECK_EQ(asked_pid, 4242); /* the others wait for it */
	check_is(record, "missing.rank", "3");

	begin();
	*missing = (struct zn_missing){.waiters = 5, .tgid = 4242, .gone_ns = 1};
	fire("nccl_hang", "pid", "100");
	tick(1000);
	CHECK_EQ(asked_pid, 100); /* whom they wait for has ended */
}

/* One job is looked at at a time; processes of no job are one. */
T(two_hangs_at_once)
{
	begin();
	answers = false;
	fire("nccl_hang", "job_id", "4711");
	fire("driver_unresponsive", "pid", "300");
	tick(1000);
	CHECK(asked_pid == 100 || asked_pid == 200);
	answers = true;
	tick(1000);
	CHECK_EQ(records, 2);
	CHECK_EQ(asked_pid, 300);
	CHECK_STR(record_name, "hang-report-of-no-job.1.json");
	check_is(record, "job_id", "null");
	check_is(record, "uid", "null");
}

/* Its slot is another job's: what was written of the first one says nothing of that. */
T(a_slot_that_is_used_again)
{
	struct zn_job *job = begin();

	fire("nccl_hang", "what", "node");
	tick(1000);
	CHECK_EQ(flights.group[job->slot].episodes, 1);
	causes.group[job->slot].serial++;
	records = 0;
	tick(1000);
	CHECK_EQ(records, 1);
	CHECK_EQ(flights.group[job->slot].episodes, 1);
	CHECK_EQ(flights.group[job->slot].serial, causes.group[job->slot].serial);
}

static void name_threads(void)
{
	answer.count = ZN_THREADS_SEEN;
	answer.all = UINT32_MAX;
	for (uint32_t i = 0; i < ZN_THREADS_SEEN; i++) {
		struct zn_thread_seen *t = &answer.thread[i];

		*t = (struct zn_thread_seen){.tid = i, .state = (char)(i * 4)};
		memset(t->name, i % 2 ? '"' : '\x01', sizeof(t->name) - 1);
		memset(t->place, i % 2 ? '\\' : '\xff', sizeof(t->place) - 1);
		memset(t->syscall, i % 2 ? '\n' : '\x80', sizeof(t->syscall) - 1);
	}
}

T(names_of_somebody_who_means_harm)
{
	struct zn_str threads;

	begin();
	name_threads();
	fire("nccl_hang", "job_id", "4711");
	tick(1000);
	CHECK_EQ(records, 1);
	threads = zn_json_member(record, "threads");
	check_is(threads, "count", "4294967295");
	CHECK(zn_json_member(record, "communicators").len > 0); /* and all that follows is there */
}

/* As many communicators as are shown, each with as many ranks, which issued something long ago: the last has no room. */
T(more_than_has_room)
{
	struct zn_skew *s;

	begin();
	name_threads();
	for (uint32_t slot = 0; slot < 8; slot++) {
		s = &memory.arena.skews[slot];
		memory.arena.shared->skew_used[slot] = 1;
		s->of = s->hash = UINT64_MAX - slot;
		s->nranks = s->members = ZN_SKEW_RANKS;
		for (uint32_t m = 0; m < ZN_SKEW_RANKS; m++)
			s->member[m] = (struct zn_skew_rank){.id = memory.arena.procs[agg.row[0]].id,
				.row = agg.row[0],
				.rank = m,
				.tgid = 100,
				.issued = UINT32_MAX};
	}
	causes.tick_ns = clock_ns + 15000000000 * ZN_NS_PER_S;
	fire("nccl_hang", "job_id", "4711");
	tick(1000);
	CHECK_EQ(records, 1);
	check_is(record, "truncated", "true");
	CHECK(!strncmp(zn_json_member(record, "processes").at, "[{\"pid\":", 8));
	CHECK(!strncmp(
		zn_json_member(record, "communicators").at, "[{\"comm\":\"ffffffffffffffff\",\"nranks\":16,", 40));
	CHECK(record.len > ZN_FLIGHT_TEXT * 7 / 8);
}

/* Figures of a moment that is yet to come, and of one that never was. */
T(times_that_cannot_be)
{
	struct zn_job *job = begin();

	causes.group[job->slot].missing = (struct zn_missing){.waiters = 1,
		.tgid = UINT32_MAX,
		.rank = ZN_UNKNOWN,
		.since_ns = UINT64_MAX,
		.doing = ZN_DOING_COUNT - 1};
	fire("nccl_hang", "job_id", "4711");
	tick(1000);
	CHECK_EQ(records, 1);
	check_is(record, "missing.waited_for_s", "0");
	check_is(record, "missing.rank", "null");
}

int main(void)
{
	RUN(once_in_an_episode);
	RUN(what_is_no_hang);
	RUN(two_alerts_are_one_hang);
	RUN(who_does_not_say_what_its_threads_do);
	RUN(a_hang_that_is_over_at_once);
	RUN(whose_threads_are_asked_for);
	RUN(two_hangs_at_once);
	RUN(a_slot_that_is_used_again);
	RUN(names_of_somebody_who_means_harm);
	RUN(more_than_has_room);
	RUN(times_that_cannot_be);
	return t_end();
}
