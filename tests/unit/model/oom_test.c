// SPDX-License-Identifier: GPL-2.0
/* oom_test.c: who was killed for want of memory, kept by job and said in a sentence. */
#include "zernel.h"
#include "t.h"
#include <errno.h>

const char zn_version[] = "1.2-test", zn_commit[] = "abc";
bool zn_ready;

static struct zn_ooms ooms;
static struct zn_job_shared jobs[ZN_JOBS_MAX];
static uint32_t mapped;
static bool refuses;

/* As of a job of which no tick has heard yet. */
static int map_job(struct zn_arena *a, uint32_t slot)
{
	if (!refuses)
		a->job_mapped[slot / 8] |= 1 << (slot % 8);
	mapped++;
	return refuses ? -ENOMEM : 0;
}

static const struct zn_arena_ops ops = {.map_job = map_job};
static struct zn_arena arena = {.jobs = jobs, .ops = &ops};

static struct zn_oom killed(uint32_t tgid, uint32_t slot, uint32_t serial)
{
	return (struct zn_oom){.event = {.type = ZN_EV_OOM, .tgid = tgid, .row = ZN_STEPS_MAX},
		.job = {slot, serial},
		.bytes = {1 << 20, 2000 << 20, 47 << 20},
		.used = 4ULL << 30,
		.limit = 4ULL << 30,
		.comm = "python3"};
}

static uint32_t newest(uint32_t slot, uint32_t serial, uint32_t i)
{
	const struct zn_oom_kill *k = zn_oom_kill(&ooms, (struct zn_job_ref){slot, serial}, i);

	return k ? k->oom.event.tgid : 0;
}

T(the_last_ones_of_each_job_are_kept)
{
	struct zn_oom of_none = killed(900, 0, 0), odd = killed(901, ZN_JOBS_MAX + 7, 3);

	for (uint32_t i = 1; i <= 7; i++) {
		struct zn_oom oom = killed(100 + i, 5, 31);

		zn_oom_add(&ooms, &oom, &arena);
	}
	zn_oom_add(&ooms, &of_none, &arena);
	for (uint32_t i = 0; i < ZN_OOMS_KEPT; i++)
		CHECK_EQ(newest(5, 31, i), 107 - i);
	CHECK_EQ(newest(5, 31, ZN_OOMS_KEPT), 0);
	CHECK_EQ(newest(5, 32, 0), 0); /* the next job of this slot */
	CHECK_EQ(newest(6, 31, 0), 0);
	CHECK_EQ(newest(0, 0, 0), 900);
	CHECK_EQ(newest(0, 0, 1), 0);
	zn_oom_add(&ooms, &odd, &arena); /* of a slot that there is not */
	CHECK_EQ(newest(ZN_JOBS_MAX + 7, 3, 0), 901);
	CHECK_EQ(newest(0, 0, 0), 0);
}

T(a_sentence)
{
	static const struct {
		enum zn_oom_scope scope;
		const char *says;
	} rows[] = {
		{ZN_OOM_UNKNOWN, ""}, {ZN_OOM_NODE, "; the node had no memory left"},
		{ZN_OOM_JOB, "; the limit of the job, 4.00G, was reached"},
		{ZN_OOM_STEP, "; the limit of the step, 4.00G, was reached"},
		{ZN_OOM_BELOW, "; the limit of a group below the step, 4.00G, was reached"},
		{ZN_OOM_OTHER, "; the limit of a group above the job, 4.00G, was reached"},
		{ZN_OOM_SCOPES, ""}, /* hostile */
	};
	char says[ZN_OOM_TEXT], want[ZN_OOM_TEXT];

	jobs[5].serial = 31;
	jobs[5].step_count = 1;
	strcpy(jobs[5].step[0].name, "batch");
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_oom oom = killed(4242, 5, 31);

		oom.event.row = 0;
		oom.event.detail = rows[i].scope;
		zn_oom_says(zn_oom_add(&ooms, &oom, &arena), says);
		snprintf(want, sizeof(want),
			"out of memory: the kernel killed process 4242 (python3) of step batch: it had 2.00G, 47.0M of it shared%s",
			rows[i].says);
		CHECK_STR(says, want);
	}
}

T(what_is_not_known_is_not_said)
{
	struct zn_oom oom = killed(4242, 5, 31);
	char says[ZN_OOM_TEXT];

	oom.bytes[ZN_OOM_ANON] = oom.limit = ZN_NOT_KNOWN;
	oom.event.detail = ZN_OOM_STEP;
	oom.event.row = 1; /* a step that there is not */
	memset(oom.comm, 'x', sizeof(oom.comm));
	CHECK_EQ(zn_oom_bytes(&oom), ZN_NOT_KNOWN);
	zn_oom_says(zn_oom_add(&ooms, &oom, &arena), says);
	CHECK_STR(says,
		"out of memory: the kernel killed process 4242 (xxxxxxxxxxxxxxx); the limit of the step was reached");
}

/* Nobody has looked at a job that was made a moment ago: its row is mapped first, and if it cannot be, it is not read. */
T(a_kill_before_the_first_tick_of_its_job)
{
	struct zn_oom oom = killed(7, 9, 5);
	const struct zn_oom_kill *k;

	jobs[9].serial = 5;
	jobs[9].step_count = 1;
	strcpy(jobs[9].step[0].name, "extern");
	oom.event.row = 0;
	refuses = true;
	mapped = 0;
	k = zn_oom_add(&ooms, &oom, &arena);
	CHECK_STR(k->step, "");
	CHECK_EQ(mapped, 1);
	refuses = false;
	k = zn_oom_add(&ooms, &oom, &arena);
	CHECK_STR(k->step, "extern");
	CHECK_EQ(mapped, 2);
	k = zn_oom_add(&ooms, &oom, &arena);
	CHECK_STR(k->step, "extern");
	CHECK_EQ(mapped, 2);
}

int main(void)
{
	RUN(the_last_ones_of_each_job_are_kept);
	RUN(a_sentence);
	RUN(what_is_not_known_is_not_said);
	RUN(a_kill_before_the_first_tick_of_its_job);
	return t_end();
}
