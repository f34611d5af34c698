/* SPDX-License-Identifier: GPL-2.0 */
/* ghosts_test.c: who holds a GPU that is not his (ghosts.c), with this very process as the one that holds it. */
#include "jobs.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "headless.h"

static struct zn_ghosts ghosts;

static struct zn_holder holder_at(pid_t pid, uint32_t uid, struct zn_job_ref job)
{
	struct zn_holder h = {.pid = (uint32_t)pid, .uid = uid, .job = job, .comm = "python3"};
	struct zn_procfs_stat stat = {0};

	CHECK(zn_procfs_stat("/proc", h.pid, &stat));
	h.start_ticks = stat.start_ticks;
	return h;
}

static struct zn_holder holder(uint32_t uid, struct zn_job_ref job)
{
	return holder_at(getpid(), uid, job);
}

static void held_by(struct zn_holder h)
{
	ghosts.holders.count = 1;
	ghosts.holders.holder[0] = h;
}

static void look(void)
{
	pass(1);
	zn_ghosts_tick(&ghosts, &jobs, clock_ns);
}

static void begin(void)
{
	start();
	memset(&ghosts, 0, sizeof(ghosts));
}

T(of_a_job_that_has_ended)
{
	struct zn_job *job;

	begin();
	job = prolog("id=4711 uid=1000");
	held_by(holder(1000, (struct zn_job_ref){job->slot, job->serial}));
	look();
	CHECK_EQ(ghosts.count, 0);
	epilog("id=4711");
	pass(60);
	look();
	CHECK_EQ(ghosts.count, 1);
	CHECK_EQ(ghosts.ghost[0].why, ZN_GHOST_JOB_ENDED);
	CHECK_STR(ghosts.ghost[0].job, "4711");
	CHECK_EQ(ghosts.ghost[0].bytes, ZN_NOT_KNOWN);
	CHECK_EQ(zn_ghosts_count(&ghosts, ZN_GHOST_JOB_ENDED, clock_ns), 0);
	for (int i = 0; i < 61; i++)
		look();
	CHECK_EQ(zn_ghosts_count(&ghosts, ZN_GHOST_JOB_ENDED, clock_ns), 1);
	CHECK_EQ(zn_ghosts_count(&ghosts, ZN_GHOST_NO_JOB, clock_ns), 0);
	ghosts.holders.holder[0].start_ticks++; /* that process has gone, and this one has its number */
	look();
	CHECK_EQ(ghosts.count, 0);
}

/* It stays one without a pause, and whose it was stays known. */
T(of_a_job_that_is_forgotten_meanwhile)
{
	struct zn_job *job;

	begin();
	job = prolog("id=4711 uid=1000");
	held_by(holder(1000, (struct zn_job_ref){job->slot, job->serial}));
	epilog("id=4711");
	for (int i = 0; i < 400; i++)
		look();
	CHECK_EQ(job->state, ZN_JOB_FREE);
	CHECK_EQ(ghosts.count, 1);
	CHECK_STR(ghosts.ghost[0].job, "4711");
	CHECK_EQ(zn_ghosts_count(&ghosts, ZN_GHOST_JOB_ENDED, clock_ns), 1);
}

T(of_a_job_that_was_forgotten)
{
	begin();
	held_by(holder(1000, (struct zn_job_ref){3, 99}));
	look();
	CHECK_EQ(ghosts.count, 1);
	CHECK_STR(ghosts.ghost[0].job, "");
}

/* Its main thread has ended, and another one has not. Once that has too, it holds nothing any more. */
T(without_its_main_thread)
{
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		lose_main_thread();
	wait_headless(pid);
	begin();
	held_by(holder_at(pid, 1000, (struct zn_job_ref){3, 99}));
	look();
	CHECK_EQ(ghosts.count, 1);
	kill(pid, SIGKILL);
	CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	look();
	CHECK_EQ(ghosts.count, 0);
	waitpid(pid, NULL, 0);
}

T(of_no_job)
{
	static const struct {
		uint32_t uid;
		bool slurm;
		uint32_t count;
	} rows[] = {{1000, false, 0}, {1000, true, 1}, {999, true, 0}, {0, true, 0}, {61183, true, 1}, {61184, true, 0},
		{65519, true, 0}, {65520, true, 1}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		begin();
		if (rows[i].slurm)
			prolog("id=4711 uid=1000");
		held_by(holder(rows[i].uid, (struct zn_job_ref){0}));
		look();
		CHECK_EQ(ghosts.count, rows[i].count);
	}
}

/* The parent is this process, which is root's where the tests are. */
T(of_the_server_of_mps)
{
	char before[16];
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	prctl(PR_GET_NAME, before);
	for (int i = 0; i < 2; i++) {
		struct zn_holder h;

		begin();
		prolog("id=4711 uid=1000");
		h = holder_at(pid, 1000, (struct zn_job_ref){0});
		strcpy(h.comm, "nvidia-cuda-mps");
		held_by(h);
		look();
		CHECK_EQ(ghosts.count, i == 0 || getuid() ? 1 : 0);
		prctl(PR_SET_NAME, "nvidia-cuda-mps");
	}
	prctl(PR_SET_NAME, before);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

T(on_a_gpu_that_was_not_given)
{
	static const struct {
		const char *said;
		uint32_t gpu, count;
	} rows[] = {
		{"id=4711 uid=1000 gpus=0,1", 1, 0}, {"id=4711 uid=1000 gpus=0,1", 3, 1},
		{"id=4711 uid=1000 gpus=GPU-04", 3, 0},
		{"id=4711 uid=1000 gpus=0,9", 3, 0}, /* which ones is not known as a whole */
		{"id=4711 uid=1000", 3, 0},          /* nor here */
	};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_job *job;

		t_begin(rows[i].said);
		begin();
		list_gpus(4);
		pass(1);
		job = prolog(rows[i].said);
		hold(process_of(job->slot, PID), rows[i].gpu, GIB);
		look();
		look();
		CHECK_EQ(ghosts.count, rows[i].count);
		if (!ghosts.count)
			continue;
		CHECK_EQ(ghosts.ghost[0].why, ZN_GHOST_FOREIGN_GPU);
		CHECK_EQ(ghosts.ghost[0].pid, PID);
		CHECK_EQ(ghosts.ghost[0].bytes, GIB);
		CHECK_EQ(clock_ns - ghosts.ghost[0].since_ns, ZN_NS_PER_S);
		CHECK_STR(ghosts.ghost[0].gpu, "3");
		CHECK_STR(ghosts.ghost[0].job, "4711");
	}
}

/* The number may be of the device's file, as on a DGX A100 with a static gres.conf. */
T(of_numbers_that_may_be_minors)
{
	const struct zn_job *job;

	begin();
	list_gpus(4);
	agg.gpus.nvidia = 4;
	agg.gpus.gpu[0].minor = 3, agg.gpus.gpu[3].minor = 0;
	pass(1);
	job = prolog("id=4711 uid=1000 gpus=0");
	CHECK_EQ(job->gpu_count, 0);
	hold(process_of(job->slot, PID), 3, GIB);
	look();
	look();
	CHECK_EQ(ghosts.count, 0);
	CHECK_EQ(job->gpu_count, 1); /* the device that it has open is the one */
	CHECK(!strcmp(job->gpu[0].id, "3") && job->gpu[0].allocated);
}

/* Whoever has most leaves as much room as he takes. */
T(a_share)
{
	struct zn_ghost ghost = {.uid = 1000};
	uint32_t count = 0;

	begin();
	while (zn_ghosts_add(&ghosts, &ghost))
		count++;
	CHECK_EQ(count, ZN_GHOSTS_MAX / 2);
	ghost.uid = 1001;
	CHECK(zn_ghosts_add(&ghosts, &ghost));
}

int main(void)
{
	RUN(of_a_job_that_has_ended);
	RUN(of_a_job_that_is_forgotten_meanwhile);
	RUN(of_a_job_that_was_forgotten);
	RUN(without_its_main_thread);
	RUN(of_no_job);
	RUN(of_the_server_of_mps);
	on_a_gpu_that_was_not_given();
	RUN(of_numbers_that_may_be_minors);
	RUN(a_share);
	return t_end();
}
