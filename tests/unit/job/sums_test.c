/* SPDX-License-Identifier: GPL-2.0 */
/*
 * sums_test.c: what the processes of a job add up to (sums.c), also when they have gone.
 */
#include "jobs.h"

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

static uint64_t failed_of_none(void)
{
	static uint32_t rows[ZN_PROCS_MAX];
	struct zn_job_failed f;

	zn_job_failed(&jobs, NULL, rows, zn_job_failed_rows(&jobs, rows), &f);
	return f.cuda;
}

/* Its job is forgotten: its errors have not come now to that of no job. */
T(errors_of_a_process_that_outlives_its_job)
{
	struct zn_proc *p, *other;

	start();
	p = process_of(prolog("id=4711 uid=1000")->slot, PID);
	other = process(PID + 1);
	p->count[ZN_C_CUDA_ERRORS] = 7;
	other->count[ZN_C_CUDA_ERRORS] = 3;
	pass(1);
	CHECK_EQ(failed_of_none(), 3);
	epilog("id=4711");
	pass(400);
	CHECK(!zn_jobs_find(&jobs, "4711", ZN_UNKNOWN));
	CHECK_EQ(failed_of_none(), 3);
	zn_memory_exit(&memory, p);
	zn_memory_exit(&memory, other);
	pass(1);
	CHECK_EQ(failed_of_none(), 3);
}

T(losses_since_its_start)
{
	start();
	memory.arena.shared->lost[ZN_LOST_ALLOC] = 7;
	CHECK_EQ(prolog("id=4711")->lost_start[ZN_LOST_ALLOC], 7);
}

int main(void)
{
	RUN(sums_outlive_processes);
	RUN(a_job_between_two_ticks);
	RUN(a_process_of_a_job_nobody_told_of);
	RUN(a_stale_tag_is_no_tag);
	RUN(errors_of_a_process_that_outlives_its_job);
	RUN(losses_since_its_start);
	return t_end();
}
