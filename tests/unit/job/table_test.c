/* SPDX-License-Identifier: GPL-2.0 */
/*
 * table_test.c: the table of jobs over an arena of plain memory, with a clock that the test moves: who a job is, when it
 * ends and is forgotten, what its processes add up to, and how much of its GPUs' time it used.
 */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define GIB     (1ULL << 30)
#define BOOT_MS 1700000000000ULL /* wall clock when the node was started */
#define PID     4242
#include "clock.h"

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static char why[ZN_TEXT_MAX];
static struct zn_message message;

/* ---- In place of cgroup.c and control.c. ---- */

static int tag_result;

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char text[ZN_TEXT_MAX])
{
	struct zn_cgroup_key key = {.id = strlen(path)};

	if (tag_result) {
		snprintf(text, ZN_TEXT_MAX, "no %s", path);
		return tag_result;
	}
	return a->ops->job_cgroup(a, slot, &key, ZN_CGROUP_JOB, NULL);
}

/* ---- A node. ---- */

static struct {
	uint32_t started, ended;
	char id[ZN_JOB_NAME]; /* that ended last */
	uint32_t restart;
	uint64_t launches; /* of it, then */
} told;

static void on_started(void *owner, const struct zn_job *job)
{
	(void)job;
	CHECK(owner == &told);
	told.started++;
}

static void on_ended(void *owner, struct zn_job *job)
{
	CHECK(owner == &told);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	told.ended++;
	strcpy(told.id, job->id);
	told.restart = job->restart;
	told.launches = zn_job_counts(&jobs, job)[ZN_C_LAUNCH_KERNEL];
}

static void start(void)
{
	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	clock_ns = 1000 * ZN_NS_PER_S;
	if (zn_memory_open(&memory))
		abort();
	zn_agg_init(&agg, &memory.arena);
	memset(&alerts, 0, sizeof(alerts));
	if (zn_jobs_open(&jobs, &agg, &alerts))
		abort();
	memset(&told, 0, sizeof(told));
	jobs.started = on_started;
	jobs.ended = on_ended;
	jobs.owner = &told;
	tag_result = 0;
}

static void tick(void)
{
	zn_agg_tick(&agg, clock_ns);
	zn_jobs_tick(&jobs, clock_ns);
}

#define OTHER_ID "76543210-89ab-cdef-0123-456789abcdef"

static void pass_ms(uint64_t ms)
{
	clock_ns += ms * ZN_NS_PER_MS;
	tick();
}

static void pass(uint64_t s)
{
	for (; s; s--)
		pass_ms(1000);
}

/* "id=4711 uid=1000": values have no spaces. */
static const struct zn_message *say(const char *text)
{
	static const char *const keys[] = {
#define X(e, key, variable) key,
		ZN_KEYS(X)
#undef X
	};

	memset(&message, 0, sizeof(message));
	while (*text) {
		size_t name = strcspn(text, "="), value = strcspn(text + name + 1, " ");

		for (size_t k = 0; k < ZN_KEY_COUNT; k++)
			if (strlen(keys[k]) == name && !strncmp(keys[k], text, name))
				memcpy(message.value[k], text + name + 1, value);
		text += name + 1 + value;
		text += *text == ' ';
	}
	return &message;
}

static struct zn_job *prolog(const char *text)
{
	CHECK_EQ(zn_jobs_start(&jobs, say(text), ZN_JOB_BY_PROLOG, why), 0);
	return zn_jobs_find(&jobs, message.value[ZN_KEY_ID], ZN_UNKNOWN);
}

static void epilog(const char *text)
{
	CHECK_EQ(zn_jobs_end(&jobs, say(text), why), 0);
}

/* Root makes a job's control group: what the kernel's programs do then. Its slot. */
static uint32_t group(const char *name, uint64_t id)
{
	char padded[ZN_JOB_NAME] = "";
	struct zn_cgroup_key key = {.id = id};
	int slot;

	strncpy(padded, name, sizeof(padded) - 1);
	slot = memory.arena.ops->job_claim(&memory.arena, padded);
	if (slot < 0 || memory.arena.ops->job_cgroup(&memory.arena, slot, &key, ZN_CGROUP_JOB, NULL))
		abort();
	return slot;
}

static void group_gone(uint64_t id)
{
	memory.arena.ops->job_cgroup_gone(&memory.arena, &(struct zn_cgroup_key){.id = id});
}

static struct zn_proc *process(uint32_t tgid)
{
	struct zn_proc *p = zn_memory_claim(&memory, tgid, "python3");

	if (!p)
		abort();
	return p;
}

static struct zn_proc *process_of(uint32_t slot, uint32_t tgid)
{
	if (memory.arena.ops->job_task(&memory.arena, slot, tgid))
		abort();
	return process(tgid);
}

static void launch(struct zn_proc *p, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		zn_memory_record(&memory, p, ZN_H_LAUNCH, 5000, 0);
	p->count[ZN_C_LAUNCH_KERNEL] += n;
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_OTHER)] += n;
}

/* A wait that began ns ago. */
static void come_back(struct zn_proc *p, uint64_t ns)
{
	zn_memory_record(&memory, p, ZN_H_SYNC_STREAM, ns, 0);
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_OTHER)]++;
}

static void hold(struct zn_proc *p, uint32_t ordinal, uint64_t bytes)
{
	p->gpu[ordinal].used_bytes = bytes;
	if (bytes > p->gpu[ordinal].peak_bytes)
		p->gpu[ordinal].peak_bytes = bytes;
	p->gpu[ordinal].uuid[0] = (uint8_t)(ordinal + 1);
}

/* A process has the first GPUs open, as it must have for what it says of those of the driver's list to be believed. */
static bool open_devices(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	(void)owner;
	*to = (struct zn_process_info){.id = p->id, .minor_count = 4, .minors = {0, 1, 2, 3}, .slurm.uid = ZN_UNKNOWN};
	return true;
}

/* The driver's list of GPUs; the UUID of GPU i begins with byte i + 1. */
static void list_gpus(uint32_t n)
{
	agg.process_info = open_devices;
	agg.gpus = (struct zn_gpus){.count = n, .listed = n};
	for (uint32_t i = 0; i < n; i++) {
		uint8_t uuid[16] = {(uint8_t)(i + 1)};

		agg.gpus.gpu[i].minor = (int)i;
		snprintf(agg.gpus.gpu[i].id, sizeof(agg.gpus.gpu[i].id), "%u", i);
		zn_uuid_text(agg.gpus.gpu[i].uuid, uuid);
	}
}

static const struct zn_job_gpu *gpu(const struct zn_job *job, const char *id)
{
	static const struct zn_job_gpu none;

	for (uint32_t i = 0; i < job->gpu_count; i++)
		if (!strcmp(job->gpu[i].id, id))
			return &job->gpu[i];
	return &none;
}

static enum zn_job_state state_of(const char *id)
{
	const struct zn_job *job = zn_jobs_find(&jobs, id, ZN_UNKNOWN);

	return job ? job->state : ZN_JOB_FREE;
}

static uint32_t job_count(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < ZN_JOBS_MAX; i++)
		n += jobs.job[i].state != ZN_JOB_FREE;
	return n;
}

/* ---- Life. ---- */

T(labels_of_states)
{
	CHECK_STR(zn_job_state_label(ZN_JOB_RUNNING), "running");
	CHECK_STR(zn_job_state_label(ZN_JOB_ENDING), "ending");
	CHECK_STR(zn_job_state_label(ZN_JOB_ENDED), "ended");
	CHECK_STR(zn_job_state_label(ZN_JOB_ENDED + 1), "unknown");
}

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

/* ---- Many. ---- */

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

/* ---- Sums. ---- */

T(sums_outlive_processes)
{
	struct zn_job *job;
	struct zn_proc *p, *q, *other;

	start();
	job = prolog("id=4711 uid=1000");
	p = process_of(job->slot, PID);
	q = process_of(job->slot, PID + 1);
	other = process(PID + 2);
	launch(p, 101);
	launch(q, 211);
	launch(other, 1009);
	p->count[ZN_C_HOST_PINNED] = 77;
	p->gpu[1].alloc_calls[ZN_K_DEVICE] = 3;
	p->gpu[1].alloc_bytes[ZN_K_DEVICE] = 3000;
	p->gpu[2].free_calls = 2;
	p->gpu[2].fail_oom = 5;
	zn_memory_record(&memory, p, ZN_H_NCCL_ALL_REDUCE, 1000000, 4096);
	zn_memory_record(&memory, q, ZN_H_NCCL_ALL_REDUCE, 2000000, 8192);
	pass(1);
	CHECK_EQ(job->processes, 2);
	zn_memory_exit(&memory, p);
	pass(1);
	CHECK_EQ(job->processes, 1);
	CHECK_EQ(job->processes_gone, 1);
	CHECK_EQ(zn_job_merge(&jobs, job, ZN_H_LAUNCH)->calls, 312);
	CHECK_EQ(zn_job_merge(&jobs, job, ZN_H_NCCL_ALL_REDUCE)->bytes, 12288);
	CHECK_EQ(zn_job_merge(&jobs, job, ZN_H_NCCL_ALL_REDUCE)->sum_ns, 3000000);
	CHECK_EQ(zn_job_merge(&jobs, job, ZN_H_NCCL_ALL_REDUCE)->max_ns, 2000000);
	CHECK_EQ(zn_job_merge(&jobs, job, ZN_H_DATALOAD)->calls, 0);
	CHECK_EQ(zn_job_counts(&jobs, job)[ZN_C_LAUNCH_KERNEL], 312);
	CHECK_EQ(zn_job_counts(&jobs, job)[ZN_C_HOST_PINNED], 0);
	CHECK_EQ(job->memory.alloc_calls[ZN_K_DEVICE], 3);
	CHECK_EQ(job->memory.alloc_bytes[ZN_K_DEVICE], 3000);
	CHECK_EQ(job->memory.free_calls, 2);
	CHECK_EQ(job->memory.fail_oom, 5);
	zn_memory_exit(&memory, q);
	epilog("id=4711");
	CHECK_EQ(told.launches, 312);
	CHECK_EQ(job->processes_gone, 2);
	CHECK_EQ(zn_agg_merge(&agg, ZN_H_LAUNCH)->calls, 1321);
}

T(a_job_between_two_ticks)
{
	struct zn_proc *p;
	struct zn_job *job;

	start();
	pass(1);
	clock_ns += 100 * ZN_NS_PER_MS;
	p = process_of(group("4711", 77), PID);
	launch(p, 19);
	hold(p, 2, 5 * GIB);
	clock_ns += 200 * ZN_NS_PER_MS;
	zn_memory_exit(&memory, p);
	group_gone(77);
	epilog("id=4711 uid=1000");
	job = zn_jobs_find(&jobs, "4711", ZN_UNKNOWN);
	CHECK(job && job->state == ZN_JOB_ENDED);
	CHECK_EQ(job->start_ns, 1001100 * ZN_NS_PER_MS);
	CHECK_EQ(job->end_ns - job->start_ns, 200 * ZN_NS_PER_MS);
	CHECK_EQ(told.launches, 19);
	CHECK_EQ(job->processes_gone, 1);
	CHECK_EQ(job->gpu_count, 1);
	CHECK_EQ(job->gpu[0].peak_bytes, 5 * GIB);
	CHECK_EQ(job->gpu[0].busy_ns, 200 * ZN_NS_PER_MS);
	CHECK_EQ(job->gpu[0].idle_ns, 0);
}

T(a_process_of_a_job_nobody_told_of)
{
	struct zn_proc *p;

	start();
	p = process_of(group("4711", 77), PID);
	launch(p, 23);
	zn_memory_exit(&memory, p);
	zn_agg_refresh(&agg); /* before any tick */
	CHECK_EQ(zn_job_counts(&jobs, zn_jobs_find(&jobs, "4711", ZN_UNKNOWN))[ZN_C_LAUNCH_KERNEL], 23);
}

T(a_stale_tag_is_no_tag)
{
	struct zn_proc *p;
	struct zn_job *job;

	start();
	job = prolog("id=4711 uid=1000");
	p = process_of(job->slot, PID);
	epilog("id=4711");
	CHECK_STR(zn_job_id(&jobs, p), "4711");
	pass(300);
	CHECK_STR(zn_job_id(&jobs, p), "");
	CHECK(prolog("id=4712 uid=1000") == job);
	launch(p, 5);
	pass(1);
	CHECK(!zn_jobs_of(&jobs, p));
	CHECK_EQ(zn_job_counts(&jobs, job)[ZN_C_LAUNCH_KERNEL], 0);
	zn_memory_exit(&memory, p);
	pass(1);
	CHECK_EQ(job->processes_gone, 0);
}

T(losses_since_its_start)
{
	start();
	memory.arena.shared->lost[ZN_LOST_ALLOC] = 7;
	CHECK_EQ(prolog("id=4711")->lost_start[ZN_LOST_ALLOC], 7);
}

/* ---- GPUs. ---- */

T(allocated_gpus)
{
	static const struct {
		const char *name, *given, *ids;
	} rows[] = {
		{"one", "gpus=2", "2"},
		{"list", "gpus=0,2", "0 2"},
		{"range", "gpus=0-3", "0 1 2 3"},
		{"both", "gpus=0-1,3", "0 1 3"},
		{"twice", "gpus=1,0-2", "1 0 2"},
		{"uuid", "gpus=GPU-02000000-0000-0000-0000-000000000000", "1"},
		{"uuid cut short", "gpus=GPU-03", "2"},
		{"not here", "gpus=GPU-ff", "GPU-ff"},
		{"beyond the list", "gpus=9", "unknown"},
		{"backwards", "gpus=3-1", "3-1"},
		{"too many", "gpus=0-4294967295", "0-4294967295"},
		{"empty ones", "gpus=,,1,", "1"},
		{"none", "gpus=", ""},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		char ids[128] = "";
		const struct zn_job *job;

		t_begin(rows[i].name);
		start();
		list_gpus(4);
		snprintf(ids, sizeof(ids), "id=4711 %s", rows[i].given);
		job = prolog(ids);
		ids[0] = 0;
		for (uint32_t g = 0; g < job->gpu_count; g++) {
			CHECK(job->gpu[g].allocated);
			snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%s%s", g ? " " : "", job->gpu[g].id);
		}
		CHECK_STR(ids, rows[i].ids);
	}
}

T(more_gpus_than_a_job_can_have)
{
	start();
	CHECK_EQ(prolog("id=4711 gpus=0-19")->gpu_count, ZN_PROC_GPUS);
	CHECK_EQ(memory.arena.shared->lost[ZN_LOST_GPU], 4);
}

T(idle_and_busy)
{
	struct zn_job *job;
	struct zn_proc *p;

	start();
	list_gpus(4);
	pass(1);
	job = prolog("id=4711 uid=1000 gpus=0,1,2");
	p = process_of(job->slot, PID);
	hold(p, 1, 2 * GIB);
	pass_ms(700);
	CHECK_EQ(gpu(job, "0")->idle_ns, 700 * ZN_NS_PER_MS);
	CHECK_EQ(gpu(job, "1")->idle_ns, 0);
	CHECK_EQ(gpu(job, "1")->quiet_ns, 700 * ZN_NS_PER_MS); /* a wait may be under way */
	launch(p, 1);
	pass_ms(1300);
	CHECK_EQ(gpu(job, "0")->idle_ns, 2000 * ZN_NS_PER_MS);
	CHECK_EQ(gpu(job, "0")->quiet_ns, 2000 * ZN_NS_PER_MS);
	CHECK_EQ(gpu(job, "1")->busy_ns, 1300 * ZN_NS_PER_MS);
	CHECK_EQ(gpu(job, "1")->idle_ns, 700 * ZN_NS_PER_MS);
	CHECK_EQ(gpu(job, "1")->quiet_ns, 0);
	hold(p, 1, 0); /* it goes on without memory, where it had some */
	launch(p, 1);
	pass_ms(500);
	CHECK_EQ(gpu(job, "1")->busy_ns, 1800 * ZN_NS_PER_MS);
	hold(p, 3, GIB); /* not given to it, but used */
	launch(p, 1);
	pass_ms(300);
	CHECK_EQ(gpu(job, "1")->busy_ns, 1800 * ZN_NS_PER_MS);
	CHECK_EQ(gpu(job, "1")->quiet_ns, 300 * ZN_NS_PER_MS);
	CHECK_EQ(gpu(job, "3")->busy_ns, 300 * ZN_NS_PER_MS);
	CHECK(gpu(job, "3")->allocated);
	clock_ns += 200 * ZN_NS_PER_MS;
	epilog("id=4711");
	for (uint32_t i = 0; i < job->gpu_count; i++) {
		const struct zn_job_gpu *g = &job->gpu[i];

		CHECK_EQ(g->busy_ns + g->idle_ns, (strcmp(g->id, "3") ? 3000 : 500) * ZN_NS_PER_MS);
	}
	pass(7);
	CHECK_EQ(gpu(job, "0")->idle_ns, 3000 * ZN_NS_PER_MS);
}

T(a_wait_is_busy_once_it_is_over)
{
	struct zn_job *job;
	struct zn_proc *p;

	start();
	list_gpus(2);
	job = prolog("id=4711 uid=1000 gpus=0");
	p = process_of(job->slot, PID);
	hold(p, 0, GIB);
	launch(p, 1);
	pass(1);
	pass(30); /* inside a wait */
	CHECK_EQ(gpu(job, "0")->busy_ns, 1 * ZN_NS_PER_S);
	CHECK_EQ(gpu(job, "0")->idle_ns, 0);
	CHECK_EQ(gpu(job, "0")->quiet_ns, 30 * ZN_NS_PER_S);
	clock_ns += ZN_NS_PER_S;
	come_back(p, 23 * ZN_NS_PER_S);
	tick();
	CHECK_EQ(gpu(job, "0")->busy_ns, 24 * ZN_NS_PER_S);
	CHECK_EQ(gpu(job, "0")->idle_ns, 8 * ZN_NS_PER_S);
	CHECK_EQ(gpu(job, "0")->quiet_ns, 0);
	pass(89); /* longer than a wait is believed in */
	CHECK_EQ(gpu(job, "0")->idle_ns, (8 + 29) * ZN_NS_PER_S);
	clock_ns += ZN_NS_PER_S;
	come_back(p, 90 * ZN_NS_PER_S);
	tick();
	CHECK_EQ(gpu(job, "0")->busy_ns, (24 + 61) * ZN_NS_PER_S);
	CHECK_EQ(gpu(job, "0")->idle_ns, (8 + 29) * ZN_NS_PER_S);
	pass(5);
	zn_memory_exit(&memory, p); /* no wait is under way any more */
	pass(1);
	CHECK_EQ(gpu(job, "0")->idle_ns, (8 + 29 + 6) * ZN_NS_PER_S);
}

T(a_gpu_that_cannot_be_told)
{
	struct zn_job *one, *two;
	struct zn_proc *p, *q;

	start();
	list_gpus(4);
	one = prolog("id=1 gpus=3");
	two = prolog("id=2 gpus=0,1");
	p = process_of(one->slot, PID);
	q = process_of(two->slot, PID + 1);
	launch(p, 1); /* neither holds memory */
	launch(q, 1);
	pass(1);
	CHECK_EQ(gpu(one, "3")->busy_ns, ZN_NS_PER_S); /* it has no other */
	CHECK_EQ(gpu(two, "0")->busy_ns + gpu(two, "0")->idle_ns, 0);
	CHECK_EQ(gpu(two, "1")->busy_ns + gpu(two, "1")->idle_ns, 0);
	pass(2);
	CHECK_EQ(gpu(two, "0")->idle_ns, 2 * ZN_NS_PER_S);
	q->gpu[ZN_PROC_GPUS].used_bytes = q->gpu[ZN_PROC_GPUS].peak_bytes = 3 * GIB;
	launch(q, 1);
	pass(1);
	CHECK_EQ(gpu(two, "unknown")->peak_bytes, 3 * GIB);
	CHECK(!gpu(two, "unknown")->allocated);
	CHECK_EQ(gpu(two, "unknown")->busy_ns, 0);
	CHECK_EQ(gpu(two, "0")->idle_ns, 2 * ZN_NS_PER_S);
}

T(the_only_gpu_of_a_job)
{
	struct zn_job *job;
	struct zn_proc *p;

	start();
	list_gpus(4);
	job = prolog("id=4711 gpus=3");
	p = process_of(job->slot, PID);
	p->gpu[ZN_PROC_GPUS].used_bytes = p->gpu[ZN_PROC_GPUS].peak_bytes = 3 * GIB;
	launch(p, 1);
	pass(1);
	CHECK_EQ(job->gpu_count, 1);
	CHECK_EQ(gpu(job, "3")->peak_bytes, 3 * GIB);
	CHECK_EQ(gpu(job, "3")->busy_ns, ZN_NS_PER_S);
}

T(peaks_of_a_job)
{
	struct zn_job *job;
	struct zn_proc *p, *q;

	start();
	list_gpus(2);
	job = prolog("id=4711 gpus=0");
	p = process_of(job->slot, PID);
	q = process_of(job->slot, PID + 1);
	hold(p, 0, 7 * GIB);
	hold(q, 0, 5 * GIB);
	pass(1);
	CHECK_EQ(gpu(job, "0")->peak_bytes, 12 * GIB);
	hold(p, 0, 1 * GIB);
	hold(q, 0, 3 * GIB);
	pass(1);
	CHECK_EQ(gpu(job, "0")->peak_bytes, 12 * GIB);
	q->gpu[0].peak_bytes = 13 * GIB; /* between two ticks */
	pass(1);
	CHECK_EQ(gpu(job, "0")->peak_bytes, 13 * GIB);
	zn_memory_exit(&memory, p);
	zn_memory_exit(&memory, q);
	pass(1);
	CHECK_EQ(gpu(job, "0")->peak_bytes, 13 * GIB);
}

static enum zn_ledger partial_of_pid(void *owner, const struct zn_proc *p)
{
	(void)owner;
	return p->tgid == PID ? ZN_LEDGER_PARTIAL : ZN_LEDGER_WHOLE;
}

static uint64_t gpu_0_and_1(void *owner)
{
	(void)owner;
	return 3;
}

/* A process that has GPUs 0 and 1 open, and was there before the daemon. */
static void start_partial(void)
{
	start();
	list_gpus(4);
	agg.ledger = partial_of_pid;
	agg.partial_gpus = gpu_0_and_1;
}

T(the_peak_of_memory_that_was_not_seen)
{
	struct zn_job *job, *other, *found;
	struct zn_proc *p, *q;

	start_partial();
	job = prolog("id=1 gpus=0,1,2");
	other = prolog("id=2 gpus=0");
	found = prolog("id=3 gpus=1,3");
	found->found = true;
	p = process_of(job->slot, PID);
	q = process_of(other->slot, PID + 1);
	hold(p, 0, GIB);
	hold(q, 0, 2 * GIB);
	launch(p, 1);
	pass(1);
	CHECK(gpu(job, "0")->partial && gpu(job, "1")->partial);
	CHECK(!gpu(job, "2")->partial);
	CHECK(!gpu(other, "0")->partial); /* its own process was seen, whoever else is there */
	CHECK_EQ(gpu(other, "0")->peak_bytes, 2 * GIB);
	CHECK(gpu(found, "1")->partial && !gpu(found, "3")->partial); /* it may have a process that makes no call */
	zn_memory_exit(&memory, p);
	pass(1);
	CHECK(gpu(job, "0")->partial);
}

/* Its calls may be on each of its GPUs, so none of the others is said to be idle. */
T(the_time_of_a_process_whose_memory_was_not_seen)
{
	struct zn_job *job, *single;
	struct zn_proc *p;

	start_partial();
	job = prolog("id=1 gpus=0,1");
	p = process_of(job->slot, PID);
	hold(p, 0, GIB);
	pass(30);
	CHECK_EQ(gpu(job, "1")->idle_ns, 0); /* a call may be under way */
	launch(p, 1);
	pass(1);
	CHECK_EQ(gpu(job, "0")->busy_ns, ZN_NS_PER_S);
	CHECK_EQ(gpu(job, "1")->busy_ns, 0);
	CHECK_EQ(gpu(job, "1")->quiet_ns, 0);
	CHECK_EQ(gpu(job, "1")->idle_ns, 0);
	start_partial();
	single = prolog("id=2 gpus=1");
	p = process_of(single->slot, PID);
	launch(p, 1);
	pass(1);
	CHECK_EQ(gpu(single, "1")->busy_ns, ZN_NS_PER_S);
	CHECK(gpu(single, "1")->partial);
}

T(a_uuid_that_turns_out_to_be_an_index)
{
	struct zn_job *job;
	struct zn_proc *p;

	start();
	job = prolog("id=4711 gpus=GPU-01000000-0000-0000-0000-000000000000");
	p = process_of(job->slot, PID);
	hold(p, 0, GIB);
	launch(p, 1);
	pass(1);
	CHECK_EQ(job->gpu_count, 1);
	CHECK_EQ(job->gpu[0].busy_ns, ZN_NS_PER_S);
	CHECK_EQ(job->gpu[0].peak_bytes, GIB);
}

/* ---- What a process says of itself. ---- */

static struct zn_slurm_env claim;
static uint32_t asked;

static bool process_info(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	CHECK(owner == &claim);
	asked++;
	*to = (struct zn_process_info){.id = p->id, .slurm = claim};
	return claim.uid != 0;
}

static void start_with_claim(struct zn_slurm_env c)
{
	start();
	claim = c;
	asked = 0;
	agg.process_info = process_info;
	agg.owner = &claim;
}

T(claims)
{
	static const struct {
		const char *name, *jobs;
		struct zn_slurm_env slurm;
		const char *id;
	} rows[] = {
		{"its own job", "id=4711 uid=1000", {.job = "4711", .uid = 1000}, "4711"},
		{"of another user", "id=4711 uid=1001", {.job = "4711", .uid = 1000}, ""},
		{"of an owner not known", "id=4711", {.job = "4711", .uid = 1000}, ""},
		{"by a user not known", "id=4711 uid=1000", {.job = "4711", .uid = ZN_UNKNOWN}, ""},
		{"not here", "id=4711 uid=1000", {.job = "4712", .uid = 1000}, ""},
		{"none", "id=4711 uid=1000", {.uid = 1000}, ""},
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_proc *p;

		t_begin(rows[i].name);
		start_with_claim(rows[i].slurm);
		p = process(PID);
		prolog(rows[i].jobs);
		pass(2);
		CHECK_STR(zn_job_id(&jobs, p), rows[i].id);
		CHECK_EQ(asked, 1);
	}
}

T(a_claim_of_a_job_that_comes_later)
{
	struct zn_proc *p;

	start_with_claim((struct zn_slurm_env){.job = "4711", .uid = 1000});
	p = process(PID);
	pass(3);
	CHECK_EQ(asked, 0); /* there is no job yet */
	prolog("id=1 uid=1000");
	pass(3);
	CHECK_EQ(asked, 1);
	prolog("id=4711 uid=1000");
	pass(1);
	CHECK_STR(zn_job_id(&jobs, p), "4711");
	CHECK_EQ(asked, 1);
}

T(a_claim_that_comes_late)
{
	struct zn_proc *p;

	start_with_claim((struct zn_slurm_env){.uid = 0}); /* not read yet */
	p = process(PID);
	prolog("id=4711 uid=1000");
	pass(2);
	CHECK_STR(zn_job_id(&jobs, p), "");
	claim = (struct zn_slurm_env){.job = "4711", .uid = 1000};
	pass(1);
	CHECK_STR(zn_job_id(&jobs, p), "4711");
}

T(a_claim_moves_nobody)
{
	struct zn_proc *p;
	struct zn_job *job;

	start_with_claim((struct zn_slurm_env){.job = "4712", .uid = 1000, .name = "mine"});
	job = prolog("id=4711 uid=1000");
	prolog("id=4712 uid=1000");
	p = process_of(job->slot, PID);
	pass(2);
	CHECK_STR(zn_job_id(&jobs, p), "4711");
	CHECK_STR(job->about.value[ZN_KEY_NAME], "");
	CHECK_STR(zn_jobs_find(&jobs, "4712", ZN_UNKNOWN)->about.value[ZN_KEY_NAME], "");
}

T(names_that_no_prolog_is_told)
{
	struct zn_slurm_env c = {.job = "4711", .uid = 1000, .name = "train", .array_job = "4700", .array_task = "11"};
	struct zn_job *job;

	start_with_claim(c);
	job = prolog("id=4711 uid=1000 array_task=13");
	process_of(job->slot, PID);
	pass(1);
	CHECK_STR(job->about.value[ZN_KEY_NAME], "train");
	CHECK_STR(job->about.value[ZN_KEY_ARRAY_JOB], "4700");
	CHECK_STR(job->about.value[ZN_KEY_ARRAY_TASK], "13");
	strcpy(claim.name, "other");
	process_of(job->slot, PID + 1);
	pass(1);
	CHECK_STR(job->about.value[ZN_KEY_NAME], "train");
}

T(described_by_its_owner)
{
	struct zn_job *job;

	start();
	job = prolog("id=4711 uid=1000 user=user1000");
	CHECK_EQ(zn_jobs_describe(&jobs, say("id=4711 name=train user=root uid=0 array_job=17"), 1000, why), 2);
	CHECK_STR(job->about.value[ZN_KEY_NAME], "train");
	CHECK_STR(job->about.value[ZN_KEY_ARRAY_JOB], "17");
	CHECK_STR(job->about.value[ZN_KEY_USER], "user1000");
	CHECK_EQ(job->uid, 1000);
	CHECK_EQ(zn_jobs_describe(&jobs, say("id=4711 name=other"), 1000, why), 0);
	CHECK_STR(job->about.value[ZN_KEY_NAME], "train");
	CHECK_EQ(zn_jobs_describe(&jobs, say("id=4711 array_task=2"), 1001, why), -EPERM);
	CHECK_STR(why, "no job 4711 of this user runs here");
	CHECK_EQ(zn_jobs_describe(&jobs, say("id=4712"), 1000, why), -EPERM);
	CHECK_EQ(zn_jobs_describe(&jobs, say("id=4711 array_task=2"), ZN_UNKNOWN, why), -EPERM);
	epilog("id=4711");
	CHECK_EQ(zn_jobs_describe(&jobs, say("id=4711 array_task=2"), 1000, why), -EPERM);
	CHECK_STR(job->about.value[ZN_KEY_ARRAY_TASK], "");
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

	*alert = (struct zn_alert){
		.rule = rule, .state = ZN_FIRING, .since_ns = clock_ns, .since_wall_ms = zn_wall_ms()};
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
	CHECK_EQ(job->alert[0].first_wall_ms, BOOT_MS + 1002000);
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
	RUN(labels_of_states);
	RUN(prolog_then_group_then_both_signs);
	RUN(epilog_then_group);
	RUN(one_sign_alone_counts_after_ten_seconds);
	RUN(a_group_that_comes_back_is_no_end);
	RUN(a_step_after_a_pause_goes_on_with_its_job);
	RUN(an_epilog_that_comes_late_is_the_end);
	RUN(an_epilog_alone_tells_the_number_of_a_sluid);
	RUN(without_groups_the_epilog_ends_it);
	RUN(group_before_prolog);
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
	RUN(tagged_by_hand);
	RUN(a_tag_that_fails_changes_no_job);
	RUN(a_tagged_process_ends_its_job);
	RUN(tasks_of_all_jobs_are_counted_in_one_reading);
	RUN(shown_for_five_minutes);
	RUN(the_table_is_full);
	RUN(room_is_kept_for_the_kernel);
	RUN(a_thousand_short_jobs_an_hour);
	RUN(jobs_that_have_ended_make_room_for_file_io);
	RUN(thousands_in_turn);
	RUN(sums_outlive_processes);
	RUN(a_job_between_two_ticks);
	RUN(a_process_of_a_job_nobody_told_of);
	RUN(a_stale_tag_is_no_tag);
	RUN(losses_since_its_start);
	allocated_gpus();
	RUN(more_gpus_than_a_job_can_have);
	RUN(idle_and_busy);
	RUN(a_wait_is_busy_once_it_is_over);
	RUN(a_gpu_that_cannot_be_told);
	RUN(the_only_gpu_of_a_job);
	RUN(peaks_of_a_job);
	RUN(the_peak_of_memory_that_was_not_seen);
	RUN(the_time_of_a_process_whose_memory_was_not_seen);
	RUN(a_uuid_that_turns_out_to_be_an_index);
	claims();
	RUN(a_claim_of_a_job_that_comes_later);
	RUN(a_claim_that_comes_late);
	RUN(a_claim_moves_nobody);
	RUN(names_that_no_prolog_is_told);
	RUN(described_by_its_owner);
	RUN(alerts_of_a_job);
	RUN(more_alerts_than_are_kept);
	return t_end();
}
