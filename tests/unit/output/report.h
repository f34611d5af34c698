/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report.h: a node with one job whose every figure was put in by hand, over an arena of plain memory and with a
 * clock that the test moves, for the tests of this folder.
 */
#ifndef REPORT_H
#define REPORT_H

#define BOOT_MS 1709164800000ULL /* 2024-02-29, 00:00:00 UTC, when the node was started */

#include "job_node.h"
#include "no_libraries.h"

#define MIB (1ULL << 20)

const char zn_version[] = "1.2-test", zn_commit[] = "abc";
bool zn_ready;

/* What used() makes of it, as JSON. */
#define USE                                                                                                            \
	"\"cpu\":{\"seconds\":5,\"user_seconds\":3.75,\"system_seconds\":1.25,\"cpus\":2,\"efficiency\":0.7692,"       \
	"\"throttled_seconds\":0.5},\"memory\":{\"peak_bytes\":80740352,\"needed_peak_bytes\":59768832,"               \
	"\"limit_bytes\":104857600,\"efficiency\":0.57,\"swap_bytes\":null,"                                           \
	"\"highest_bytes\":{\"anon\":41943040,\"file\":20971520,\"shmem\":5242880,\"kernel\":4}},"                     \
	"\"pressure\":{\"cpu\":{\"some_seconds\":0.000001,\"full_seconds\":0},\"memory\":{\"some_seconds\":1,"         \
	"\"full_seconds\":0.000002},\"io\":{\"some_seconds\":0.000003,\"full_seconds\":0.000004}},"

static struct zn_probe probe;
static struct zn_writer writer;
static struct zn_options options;
static struct zn_state view;
static char text[1 << 20], page[1 << 20];

/* ---- In place of stats.c, find.c and cgroup.c. ---- */

uint64_t zn_stats_missed(struct zn_probe *p)
{
	return p == &probe ? 31 : 0;
}

int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a;
	(void)slot;
	(void)path;
	(void)why;
	return 0;
}

/* ---- A node with one job. ---- */

static inline void start(void)
{
	open_node();
	memset(&probe, 0, sizeof(probe));
	memset(&writer, 0, sizeof(writer));
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
		probe.available[f] = true;
	probe.kernel.method[ZN_FAM_SCHED] = probe.kernel.method[ZN_FAM_DATALOAD] = ZN_METHOD_TRACEPOINT;
	agg.measured = 1ULL << ZN_FAM_SCHED | 1ULL << ZN_FAM_DATALOAD;
	view = (struct zn_state){.options = &options,
		.agg = &agg,
		.alerts = &alerts,
		.jobs = &jobs,
		.probe = &probe,
		.writer = &writer,
		.node = "node7",
		.start_ns = clock_ns,
		.start_wall_ms = zn_wall_ms()};
	jobs.lost = zn_state_lost;
	jobs.state = &view;
}

static inline void say(enum zn_key key, const char *value)
{
	zn_message_set(&message, key, value);
}

static inline struct zn_job *told(void)
{
	char why[ZN_TEXT_MAX];

	CHECK_EQ(zn_jobs_start(&jobs, &message, ZN_JOB_BY_PROLOG, why), 0);
	return zn_jobs_find(&jobs, message.value[ZN_KEY_ID], ZN_UNKNOWN);
}

static inline struct zn_job *prolog(void)
{
	static const struct {
		enum zn_key key;
		const char *value;
	} said[] = {{ZN_KEY_ID, "4711"}, {ZN_KEY_RESTART, "2"}, {ZN_KEY_UID, "1000"}, {ZN_KEY_USER, "user1000"},
		{ZN_KEY_ACCOUNT, "physics"}, {ZN_KEY_PARTITION, "short"}, {ZN_KEY_NAME, "say \"hi\""},
		{ZN_KEY_ARRAY_JOB, "4700"}, {ZN_KEY_ARRAY_TASK, "11"}, {ZN_KEY_CLUSTER, "main"},
		{ZN_KEY_NODELIST, "node[7-8]"}, {ZN_KEY_NODES, "2"}, {ZN_KEY_GPUS, "0,1"}};

	for (size_t i = 0; i < ZN_LEN(said); i++)
		say(said[i].key, said[i].value);
	return told();
}

/* What a process did, in figures that differ from one another. All durations of one kind are alike. */
static inline void work(struct zn_proc *p)
{
	for (int i = 0; i < 7; i++)
		zn_memory_record(&memory, p, ZN_H_LAUNCH, 5000, 0);
	for (int i = 0; i < 3; i++)
		zn_memory_record(&memory, p, ZN_H_SYNC_STREAM, 250000000, 0);
	zn_memory_record(&memory, p, ZN_H_SYNC_FREE, 1000, 0);
	for (int i = 0; i < 5; i++)
		zn_memory_record(&memory, p, ZN_H_NCCL_ALL_REDUCE, 2000000, 1009);
	zn_memory_record(&memory, p, ZN_H_NCCL_SEND, 3000000, 13);
	zn_memory_record(&memory, p, ZN_H_NCCL_INIT, 1500000000, 0);
	for (enum zn_operation d = 0; d < ZN_OPERATION_COUNT; d++)
		if (p->hist[d])
			memory.arena.hists[p->hist[d]].calls = zn_hist_count(&memory.arena.hists[p->hist[d]]);
	memory.arena.hists[p->hist[ZN_H_NCCL_ALL_REDUCE]].errors = 1;
	for (uint32_t i = 0; i < 4; i++) {
		p->count[ZN_C_LAUNCH_KERNEL + i] = 101 + i;
		p->count[ZN_C_COPY_BYTES_HTOD + i] = 2003 + i;
		p->count[ZN_C_COPY_CALLS_HTOD + i] = 31 + i;
	}
	p->count[ZN_C_LAUNCH_ERRORS] = 17;
	p->count[ZN_C_STALL_CPU] = 600000000;
	p->count[ZN_C_STALL_GPU] = 300000000;
	p->count[ZN_C_STALL_DATA] = 95000000;
	p->count[ZN_C_STALL_OTHER] = 5000000;
	p->count[ZN_C_SYNC_ERRORS] = 19;
	p->count[ZN_C_HIT(ZN_FAM_CUDA_TRACE, ZN_INSN_OTHER)] = 4001;
	p->gpu[0] = (struct zn_proc_gpu){.used_bytes = 600,
		.peak_bytes = 700,
		.total_bytes = 80 << 10,
		.uuid = {1},
		.alloc_calls = {41, 1},
		.alloc_bytes = {4300, 100},
		.free_calls = 37,
		.fail_oom = 3,
		.fail_other = 2};
}

/* What the last look at its groups saw: half of the cache was there when memory was highest. */
static void used(const struct zn_job *job)
{
	static struct zn_job_uses uses;

	zn_use_init(&uses, &jobs, NULL);
	uses.use[job->slot] = (struct zn_job_use){.serial = job->serial,
		.cpu = {4 * ZN_NS_PER_S, 3, 1},
		.cpus_milli = 2000,
		.throttled_ns = 500 * ZN_NS_PER_MS,
		.kinds_known = true,
		.memory = {MIB, 2 * MIB, 0, 3},
		.kind_peak = {40 * MIB, 20 * MIB, 5 * MIB, 4},
		.needed_peak = 45 * MIB,
		.limit = 100 * MIB,
		.swap = 0,
		.pressure_ns = {{1000, 0}, {ZN_NS_PER_S, 2000}, {3000, 4000}}};
	view.uses = &uses;
}

/* Two processes did the same; one has gone. */
static inline struct zn_job *busy_job(void)
{
	struct zn_cgroup_key group = {.id = 77};
	struct zn_job *job;
	struct zn_proc *p[2];
	struct zn_job_shared *row;

	list_gpus(2);
	agg.gpus.gpu[0].total_bytes = agg.gpus.gpu[1].total_bytes = 80 << 10;
	job = prolog();
	memory.arena.ops->job_cgroup(&memory.arena, job->slot, &group, ZN_CGROUP_JOB, NULL);
	pass_ms(1000);
	for (uint32_t i = 0; i < 2; i++)
		p[i] = process_of(job->slot, 100 + i);
	pass_ms(250);
	for (uint32_t i = 0; i < 2; i++)
		work(p[i]);
	pass_ms(1000);
	zn_memory_exit(&memory, p[0]);
	pass_ms(1000);
	row = zn_job_shared_of(&jobs, job);
	row->step_count = 2;
	row->step[0] = (struct zn_step){"batch", job->start_ns + 5000000, 0, 0, 0};
	row->step[1] = (struct zn_step){
		"0123456789abcdef", job->start_ns + 7000000, job->start_ns + 1234567890, 50 * MIB, 1500000000};
	row->mem_peak_bytes = 77 * MIB;
	row->cpu_gone = (struct zn_cpu_time){5 * ZN_NS_PER_S, 30, 10};
	used(job);
	memory.arena.shared->lost[ZN_LOST_ALLOC] += 23;
	writer.lost = 2;
	job->alert[0] = (struct zn_job_alert){"gpu_oom_warning", "1", clock_ns, 5};
	job->alert_count = 1;
	return job;
}

static inline void finish(void)
{
	char why[ZN_TEXT_MAX];

	say(ZN_KEY_EXIT_CODE, "0:15");
	CHECK_EQ(zn_jobs_end(&jobs, &message, why), 0);
	memory.arena.ops->job_cgroup_gone(&memory.arena, &(struct zn_cgroup_key){.id = 77});
	pass_ms(0);
}

static inline struct zn_str report(struct zn_job *job)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};

	zn_state_refresh(&view);
	zn_report_json(&o, &view, job);
	CHECK(!o.full);
	text[o.len] = '\0'; /* what an earlier one left is not found in it */
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	return (struct zn_str){text, o.len};
}

static inline void check_is(struct zn_str got, const char *path, const char *want)
{
	struct zn_str value = zn_path_find(got, path);

	if (value.len != strlen(want) || memcmp(value.at, want, value.len))
		T_FAIL("%s is %.*s, not %s", path, (int)value.len, value.at, want);
	t_checks++;
}

/* ---- Its report. Quantiles are the middles of their buckets. ---- */

static const char exact[] =
	"{\"report\":1,\"job_id\":\"4711\",\"restart\":2,\"state\":\"ended\",\"uid\":1000,\"user\":\"user1000\","
	"\"account\":\"physics\",\"partition\":\"short\",\"qos\":null,\"name\":\"say \\\"hi\\\"\",\"array_job\":\"4700\","
	"\"array_task\":\"11\",\"het_job\":null,\"sluid\":null,\"cluster\":\"main\",\"nodelist\":\"node[7-8]\","
	"\"nodes\":\"2\",\"tasks\":null,\"cpus\":null,\"allocated_gpus\":\"0,1\",\"exit_code\":\"0:15\",\"node\":\"node7\","
	"\"source\":\"live\",\"version\":\"1.2-test\","
	"\"start\":\"2024-02-29T00:16:40.000Z\",\"start_ms\":1709165800000,"
	"\"end\":\"2024-02-29T00:16:43.250Z\",\"end_ms\":1709165803250,\"wall_seconds\":3.25,\"measured_since\":null,"
	"\"processes\":2,\"processes_running\":1,\"memory_peak_bytes\":80740352," USE
	"\"thread_time\":{\"cpu\":1.2,\"gpu\":0.6,"
	"\"data\":0.19,\"dist\":0,\"io\":0,\"runqueue\":0,\"other\":0.01},"
	"\"signals\":{\"syscalls\":null,\"gpu_ioctl\":null,\"sched\":{\"voluntary\":0,\"involuntary\":0,"
	"\"minor_faults\":0,\"major_faults\":0,\"migrations\":0,"
	"\"numa_migrations\":0,\"offcpu_io_s\":0,\"offcpu_futex_s\":0,\"offcpu_poll_s\":0,\"offcpu_sleep_s\":0,"
	"\"offcpu_other_s\":0,\"runqueue\":{\"count\":0,\"p50_us\":0,\"p99_us\":0}},\"tcp\":null},\"io\":null,"
	"\"launches\":{\"count\":612,\"kernel\":202,\"graph\":204,\"cooperative\":206,\"captured\":208,\"errors\":34},"
	"\"launch_latency\":{\"count\":14,\"p50_us\":4.992,\"p99_us\":4.992,\"mean_us\":5},"
	"\"sync_wait\":{\"calls\":8,\"seconds\":1.500002,\"errors\":38},"
	"\"memcpy\":{\"htod\":{\"calls\":62,\"bytes\":4006},\"dtoh\":{\"calls\":64,\"bytes\":4008},"
	"\"dtod\":{\"calls\":66,\"bytes\":4010},\"other\":{\"calls\":68,\"bytes\":4012}},"
	"\"nccl_init\":{\"calls\":2,\"errors\":0,\"seconds\":3},"
	"\"allocations\":{\"calls\":84,\"bytes\":8800,\"frees\":74,\"oom\":6,\"other_failures\":4},"
	"\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,\"peak_bytes\":1200,\"total_bytes\":81920,\"busy_seconds\":1,\"active_seconds\":1,"
	"\"idle_seconds\":2.25,\"busy_share\":0.3076},"
	"{\"gpu_id\":\"1\",\"allocated\":true,\"peak_bytes\":0,\"total_bytes\":81920,\"busy_seconds\":0,\"active_seconds\":0,"
	"\"idle_seconds\":3.25,\"busy_share\":0}],"
	"\"not_measured\":[{\"what\":\"I/O\",\"why\":\"not measured by this version\"}],"
	"\"nccl\":[{\"op\":\"all_reduce\",\"calls\":10,\"bytes\":10090,\"errors\":2,\"seconds\":0.02,\"p50_ms\":1.998848,"
	"\"p99_ms\":1.998848},{\"op\":\"send\",\"calls\":2,\"bytes\":26,\"errors\":0,\"seconds\":0.006,\"p50_ms\":2.94912,\"p99_ms\":2.94912}],"
	"\"lost\":{\"alloc\":23,\"report\":2},"
	"\"alerts\":[{\"alert\":\"gpu_oom_warning\",\"of\":\"1\",\"first\":\"2024-02-29T00:16:43.250Z\",\"times\":5}],"
	"\"labels\":[{\"key\":\"epoch\",\"value\":\"3\",\"pid\":7,\"at_ms\":1709165803000}],"
	"\"label_changes\":[{\"key\":\"epoch\",\"value\":\"3\",\"pid\":7,\"at_ms\":1709165803000},"
	"{\"key\":\"phase\",\"value\":\"\",\"pid\":7,\"at_ms\":1709165803000}],"
	"\"lines\":[],"
	"\"steps\":[{\"name\":\"batch\",\"start\":\"2024-02-29T00:16:40.005Z\",\"end\":null,\"memory_peak_bytes\":null,\"cpu_seconds\":null},"
	"{\"name\":\"0123456789abcdef\",\"start\":\"2024-02-29T00:16:40.007Z\",\"end\":\"2024-02-29T00:16:41.234Z\","
	"\"memory_peak_bytes\":52428800,\"cpu_seconds\":1.5}]}";

/* All tables full, all texts as long and as nasty as they can be. */
static inline struct zn_job *largest_job(void)
{
	struct zn_job *job;
	struct zn_job_shared *row;

	start();
	say(ZN_KEY_ID, "4294967294");
	job = told();
	row = zn_job_shared_of(&jobs, job);
	for (enum zn_key k = ZN_KEY_USER; k < ZN_KEY_COUNT; k++)
		memset(job->about.value[k], '"', ZN_VALUE_BYTES - 1);
	row->step_count = ZN_STEPS_MAX + 1; /* as a race may show it */
	for (uint32_t i = 0; i < ZN_STEPS_MAX; i++) {
		row->step[i] = (struct zn_step){"", clock_ns, clock_ns, UINT64_MAX, UINT64_MAX};
		memset(row->step[i].name, 1, sizeof(row->step[i].name));
	}
	job->gpu_count = ZN_PROC_GPUS;
	for (uint32_t i = 0; i < ZN_PROC_GPUS; i++)
		memset(job->gpu[i].id, '\\', sizeof(job->gpu[i].id) - 1);
	job->alert_count = ZN_JOB_ALERTS;
	for (uint32_t i = 0; i < ZN_JOB_ALERTS; i++)
		memset(job->alert[i].label, 0xff, sizeof(job->alert[i].label) - 1);
	for (uint32_t i = 0; i < ZN_LOSS_COUNT; i++)
		memory.arena.shared->lost[i] += UINT64_MAX / 2;
	work(process_of(job->slot, 100));
	pass_ms(1000);
	row->steps_lost = job->alerts_lost = 3;
	memset(view.node, 0xff, sizeof(view.node) - 1);
	return job;
}

/* ---- As people read it. ---- */

static inline const char *page_of(struct zn_str json)
{
	struct zn_out o = {.at = page, .cap = sizeof(page) - 1};

	zn_report_page(&o, json);
	CHECK(!o.full);
	page[o.len] = '\0';
	return page;
}

static inline const char *line_of(struct zn_str json)
{
	struct zn_out o = {.at = page, .cap = sizeof(page) - 1};

	zn_line_report(&o, json);
	CHECK(!o.full);
	page[o.len] = '\0';
	return page;
}

static inline const char *mail_of(struct zn_str json)
{
	struct zn_out o = {.at = page, .cap = sizeof(page) - 1};

	zn_line_mail(&o, json);
	CHECK(!o.full);
	page[o.len] = '\0';
	return page;
}

#endif
