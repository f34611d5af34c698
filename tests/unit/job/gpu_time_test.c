/* SPDX-License-Identifier: GPL-2.0 */
/*
 * gpu_time_test.c: what a job holds on each GPU, and for how long it uses it (gpu_time.c).
 */
#include "jobs.h"

/* A wait that began ns ago. */
static void come_back(struct zn_proc *p, uint64_t ns)
{
	zn_memory_record(&memory, p, ZN_H_SYNC_STREAM, ns, 0);
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_OTHER)]++;
}

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

/* UUIDs say which GPUs are meant where minors and indices differ, numbers do not. */
T(numbers_where_minors_are_in_another_order)
{
	const struct zn_job *job;

	start();
	list_gpus(4);
	agg.gpus.nvidia = 4;
	CHECK_EQ(prolog("id=4711 gpus=0-1,3")->gpu_count, 3);
	agg.gpus.gpu[1].minor = 2, agg.gpus.gpu[2].minor = 1;
	CHECK_EQ(prolog("id=4712 gpus=0-1,3")->gpu_count, 0);
	job = prolog("id=4713 gpus=GPU-03");
	CHECK_EQ(job->gpu_count, 1);
	CHECK_STR(job->gpu[0].id, "2");
}

T(more_gpus_than_a_job_can_have)
{
	start();
	CHECK_EQ(prolog("id=4711 gpus=0-19")->gpu_count, ZN_PROC_GPUS);
	CHECK_EQ(memory.arena.shared->lost[ZN_LOST_GPU], 4);
}

/* Of a job by hand it is known only after some seconds. */
T(no_gpu_is_idle_behind_the_end)
{
	struct zn_proc *p = NULL;
	struct zn_job *job;

	start();
	list_gpus(1);
	pass(1);
	p = zn_memory_claim(&memory, PID, "train");
	hold(p, 0, GIB);
	CHECK_EQ(zn_jobs_start(&jobs, say("id=train pid=4242 gpus=0"), ZN_JOB_BY_TAG, why), 0);
	job = zn_jobs_find(&jobs, "train", ZN_UNKNOWN);
	for (int i = 0; i < 20; i++) {
		launch(p, 1);
		pass(1);
	}
	zn_memory_exit(&memory, p);
	pass(15);
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	CHECK_EQ(job->gpu_count, 1);
	CHECK(job->gpu[0].busy_ns >= 19 * ZN_NS_PER_S);
	CHECK(job->gpu[0].busy_ns + job->gpu[0].idle_ns <= job->end_ns - job->start_ns);
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

/* The clock is set back after the daemon's start: what comes then is younger all the same. */
T(a_job_after_the_clock_was_set_back)
{
	struct zn_state node;
	struct zn_job *job, *older;

	start();
	list_gpus(4);
	agg.partial_gpus = gpu_0_and_1;
	older = prolog("id=1 gpus=0");
	pass(1);
	node = (struct zn_state){.start_ns = clock_ns, .start_wall_ms = zn_wall_ms()};
	jobs.state = &node;
	pass(1);
	clock_step_ms = -3600 * 1000;
	job = prolog("id=2 gpus=1");
	pass(1);
	CHECK(gpu(older, "0")->partial && !gpu(job, "1")->partial);
	clock_step_ms = 0;
	jobs.state = NULL;
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

/* Of the GPUs that it has all must be known. */
T(utilization_as_a_source_tells_it)
{
	static struct zn_hardware h;
	struct zn_reading r = {.pci = "0000:1b:00.0", .uuid = "GPU-aa"};
	struct zn_job *job;

	start();
	job = prolog("id=4711 gpus=GPU-AA");
	CHECK(zn_job_gpus_utilization(NULL, job) == ZN_NOT_KNOWN);
	zn_hardware_init(&h, &agg.gpus);
	CHECK(zn_job_gpus_utilization(&h, job) == ZN_NOT_KNOWN);
	zn_reading_set(&r, ZN_FIGURE_UTILIZATION, 870000);
	zn_hardware_take(&h, ZN_SOURCE_SYS, &r, ZN_NS_PER_S);
	zn_hardware_tick(&h, ZN_NS_PER_S);
	CHECK_EQ(zn_job_gpus_utilization(&h, job), 870000);
	job = prolog("id=4712 gpus=GPU-aa,GPU-bb");
	CHECK(zn_job_gpus_utilization(&h, job) == ZN_NOT_KNOWN);
	r = (struct zn_reading){.pci = "0000:2b:00.0", .uuid = "GPU-bb"};
	zn_reading_set(&r, ZN_FIGURE_UTILIZATION, 130000);
	zn_hardware_take(&h, ZN_SOURCE_SYS, &r, ZN_NS_PER_S);
	zn_hardware_tick(&h, ZN_NS_PER_S);
	CHECK_EQ(zn_job_gpus_utilization(&h, job), 500000);
	zn_hardware_tick(&h, 60 * ZN_NS_PER_S); /* nobody says anything any more */
	CHECK(zn_job_gpus_utilization(&h, job) == ZN_NOT_KNOWN);
	job = prolog("id=4713");
	CHECK(zn_job_gpus_utilization(&h, job) == ZN_NOT_KNOWN);
}

int main(void)
{
	allocated_gpus();
	RUN(numbers_where_minors_are_in_another_order);
	RUN(more_gpus_than_a_job_can_have);
	RUN(no_gpu_is_idle_behind_the_end);
	RUN(idle_and_busy);
	RUN(a_wait_is_busy_once_it_is_over);
	RUN(a_gpu_that_cannot_be_told);
	RUN(the_only_gpu_of_a_job);
	RUN(peaks_of_a_job);
	RUN(the_peak_of_memory_that_was_not_seen);
	RUN(a_job_after_the_clock_was_set_back);
	RUN(the_time_of_a_process_whose_memory_was_not_seen);
	RUN(a_uuid_that_turns_out_to_be_an_index);
	RUN(utilization_as_a_source_tells_it);
	return t_end();
}
