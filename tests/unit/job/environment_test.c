/* SPDX-License-Identifier: GPL-2.0 */
/*
 * environment_test.c: what a process says of itself by its Slurm environment, and what the job table makes of that
 * (lifecycle.c).
 */
#include <errno.h>

#include "jobs.h"

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

/* The job's limit of time was moved, and a step begins behind it, on a node without control groups: nothing else says
 * whose its process is. One that comes behind the epilog is nobody's. */
T(a_claim_behind_the_limit_of_time)
{
	static const struct {
		enum zn_job_source source;
		bool epilog;
	} rows[] = {{ZN_JOB_BY_PROLOG, false}, {ZN_JOB_BY_FILE, false}, {ZN_JOB_BY_FILE, true}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_proc *p;

		start_with_claim((struct zn_slurm_env){.job = "4711", .uid = 1000});
		CHECK_EQ(zn_jobs_start(&jobs, say("id=4711 uid=1000 end_time=1700001010"), rows[i].source, why), 0);
		pass(20);
		if (rows[i].epilog)
			epilog("id=4711");
		p = process(PID);
		pass(2);
		CHECK_STR(zn_job_id(&jobs, p), rows[i].epilog ? "" : "4711");
	}
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

int main(void)
{
	claims();
	RUN(a_claim_of_a_job_that_comes_later);
	RUN(a_claim_that_comes_late);
	RUN(a_claim_moves_nobody);
	RUN(a_claim_behind_the_limit_of_time);
	RUN(names_that_no_prolog_is_told);
	RUN(described_by_its_owner);
	return t_end();
}
