/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report_test.c: what is said of a job whose every figure was put in by hand, over an arena of plain memory and with a
 * clock that the test moves: its report, byte by byte and at every capacity; its page and its line; /jobs.
 */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define BOOT_MS 1709164800000ULL /* 2024-02-29, 00:00:00 UTC, when the node was started */
#define MIB     (1ULL << 20)
#include "clock.h"

const char zn_version[] = "1.2-test", zn_commit[] = "abc";
bool zn_ready;

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_probe probe;
static struct zn_io_sums io_sums;
static struct zn_writer writer;
static struct zn_options options;
static struct zn_state view;
static struct zn_message message;
static char text[1 << 20], page[1 << 20];

/* ---- In place of stats.c, find.c and cgroup.c. ---- */

uint64_t zn_stats_missed(struct zn_probe *p)
{
	return p == &probe ? 31 : 0;
}

struct zn_libraries *zn_find_libraries(struct zn_find *f)
{
	(void)f;
	return NULL;
}

bool zn_libraries_hang(struct zn_libraries *l, struct zn_hang *to)
{
	(void)l, (void)to;
	return false;
}

void zn_libraries_visit(struct zn_libraries *l, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	(void)l;
	(void)visit;
	(void)to;
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

static void start(void)
{
	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	memset(&alerts, 0, sizeof(alerts));
	memset(&probe, 0, sizeof(probe));
	memset(&writer, 0, sizeof(writer));
	memset(&message, 0, sizeof(message));
	clock_ns = 1000 * ZN_NS_PER_S;
	if (zn_memory_open(&memory))
		abort();
	zn_agg_init(&agg, &memory.arena);
	if (zn_jobs_open(&jobs, &agg, &alerts))
		abort();
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

static void pass_ms(uint64_t ms)
{
	clock_ns += ms * ZN_NS_PER_MS;
	zn_agg_tick(&agg, clock_ns);
	zn_jobs_tick(&jobs, clock_ns);
}

/* A process has the first GPUs open, as it must have for what it says of those of the driver's list to be believed. */
static bool open_devices(void *owner, const struct zn_proc *p, struct zn_process_info *to)
{
	(void)owner;
	*to = (struct zn_process_info){.id = p->id, .minor_count = 4, .minors = {0, 1, 2, 3}, .slurm.uid = ZN_UNKNOWN};
	return true;
}

static void list_gpus(uint32_t n)
{
	agg.process_info = open_devices;
	agg.gpus = (struct zn_gpus){.count = n, .listed = n};
	for (uint32_t i = 0; i < n; i++) {
		uint8_t uuid[16] = {(uint8_t)(i + 1)};

		agg.gpus.gpu[i].minor = (int)i;
		snprintf(agg.gpus.gpu[i].id, sizeof(agg.gpus.gpu[i].id), "%u", i);
		zn_uuid_text(agg.gpus.gpu[i].uuid, uuid);
		agg.gpus.gpu[i].total_bytes = 80 << 10;
	}
}

static void say(enum zn_key key, const char *value)
{
	zn_message_set(&message, key, value);
}

static struct zn_job *told(void)
{
	char why[ZN_TEXT_MAX];

	CHECK_EQ(zn_jobs_start(&jobs, &message, ZN_JOB_BY_PROLOG, why), 0);
	return zn_jobs_find(&jobs, message.value[ZN_KEY_ID], ZN_UNKNOWN);
}

static struct zn_job *prolog(void)
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

static struct zn_proc *process_of(const struct zn_job *job, uint32_t tgid)
{
	struct zn_proc *p;

	if (memory.arena.ops->job_task(&memory.arena, job->slot, tgid))
		abort();
	p = zn_memory_claim(&memory, tgid, "python3");
	if (!p)
		abort();
	return p;
}

/* What a process did, in figures that differ from one another. All durations of one kind are alike. */
static void work(struct zn_proc *p)
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
static struct zn_job *busy_job(void)
{
	struct zn_cgroup_key group = {.id = 77};
	struct zn_job *job;
	struct zn_proc *p[2];
	struct zn_job_shared *row;

	list_gpus(2);
	job = prolog();
	memory.arena.ops->job_cgroup(&memory.arena, job->slot, &group, ZN_CGROUP_JOB, NULL);
	pass_ms(1000);
	for (uint32_t i = 0; i < 2; i++)
		p[i] = process_of(job, 100 + i);
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
	job->alert[0] = (struct zn_job_alert){"gpu_oom_warning", "1", zn_wall_ms(), 5};
	job->alert_count = 1;
	return job;
}

/* One call on a file of its. */
static void on_file(const struct zn_job *job, uint32_t dev, enum zn_io_op op, uint64_t ns, uint64_t bytes)
{
	struct zn_io_key key = {.job = {job->slot, job->serial}, .dev = dev, .op = op};
	struct zn_hist *h = zn_memory_io(&memory, &key, ns);

	if (!h)
		abort();
	h->bytes += bytes;
}

#define FILES (1ULL << ZN_FAM_VFS | 1ULL << ZN_FAM_META)

/* Its files on two mounts, and somebody else's. */
static void files_of(const struct zn_job *job)
{
	zn_io_sums_init(&io_sums, &memory.arena, &jobs);
	zn_mounts_fix(&io_sums.mounts, 40, "/home", "nfs4");
	zn_mounts_fix(&io_sums.mounts, 41, "/scratch/a \x1b[2J", "lustre");
	probe.kernel.method[ZN_FAM_VFS] = probe.kernel.method[ZN_FAM_META] = ZN_METHOD_TRACEPOINT;
	agg.measured |= FILES;
	strcpy(probe.kernel.why[ZN_FAM_VFS], "libaio is not seen");
	view.io_sums = &io_sums;
	for (int i = 0; i < 3; i++)
		on_file(job, 41, ZN_IO_READ, 5000, MIB);
	on_file(job, 41, ZN_IO_WRITE, 7000000, 1009);
	on_file(job, 41, ZN_IO_MMAP, 0, 4096);
	on_file(job, 40, ZN_IO_FSYNC, 20000000, 0);
	on_file(&(struct zn_job){0}, 40, ZN_IO_READ, 5000, 77 * MIB);
}

static void finish(void)
{
	char why[ZN_TEXT_MAX];

	say(ZN_KEY_EXIT_CODE, "0:15");
	CHECK_EQ(zn_jobs_end(&jobs, &message, why), 0);
	memory.arena.ops->job_cgroup_gone(&memory.arena, &(struct zn_cgroup_key){.id = 77});
	pass_ms(0);
}

static struct zn_str report(struct zn_job *job)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};

	zn_state_refresh(&view);
	zn_report_json(&o, &view, job);
	CHECK(!o.full);
	text[o.len] = '\0'; /* what an earlier one left is not found in it */
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	return (struct zn_str){text, o.len};
}

static void check_is(struct zn_str got, const char *path, const char *want)
{
	struct zn_str value = zn_path_find(got, path);

	if (value.len != strlen(want) || memcmp(value.at, want, value.len))
		T_FAIL("%s is %.*s, not %s", path, (int)value.len, value.at, want);
	t_checks++;
}

/* ---- The report. Quantiles are the middles of their slots. ---- */

#define USE                                                                                                            \
	"\"cpu\":{\"seconds\":5,\"user_seconds\":3.75,\"system_seconds\":1.25,\"cpus\":2,\"efficiency\":0.7692,"       \
	"\"throttled_seconds\":0.5},\"memory\":{\"peak_bytes\":80740352,\"needed_peak_bytes\":59768832,"               \
	"\"limit_bytes\":104857600,\"efficiency\":0.57,\"swap_bytes\":0,"                                              \
	"\"highest_bytes\":{\"anon\":41943040,\"file\":20971520,\"shmem\":5242880,\"kernel\":4}},"                     \
	"\"pressure\":{\"cpu\":{\"some_seconds\":0.000001,\"full_seconds\":0},\"memory\":{\"some_seconds\":1,"         \
	"\"full_seconds\":0.000002},\"io\":{\"some_seconds\":0.000003,\"full_seconds\":0.000004}},"

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
	"\"signals\":{\"syscalls\":null,\"gpu_ioctl\":null,\"sched\":{\"voluntary\":0,\"involuntary\":0,\"migrations\":0,"
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
	"\"steps\":[{\"name\":\"batch\",\"start\":\"2024-02-29T00:16:40.005Z\",\"end\":null,\"memory_peak_bytes\":null,\"cpu_seconds\":null},"
	"{\"name\":\"0123456789abcdef\",\"start\":\"2024-02-29T00:16:40.007Z\",\"end\":\"2024-02-29T00:16:41.234Z\","
	"\"memory_peak_bytes\":52428800,\"cpu_seconds\":1.5}]}";

static void annotate(const struct zn_job *job)
{
	const struct zn_annotation by = {.pid = 7, .at_wall_ms = 1709165803000};
	static struct zn_annotations annotations;
	struct zn_job_ref tag = {job->slot, job->serial};
	char why[ZN_TEXT_MAX];

	annotations = (struct zn_annotations){0};
	zn_annotations_say(&annotations, tag, &by, "epoch=3", why);
	annotations.group[job->slot].change[annotations.group[job->slot].changes++] =
		(struct zn_annotation){.key = "phase", .pid = 7, .at_wall_ms = 1709165803000};
	view.annotations = &annotations;
}

T(every_figure)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	annotate(job);
	finish();
	got = report(job);
	CHECK_MEM(got.at, got.len, exact, strlen(exact));
	memory.arena.shared->lost[ZN_LOST_COMM] += 3; /* later, and so of others */
	pass_ms(1000);
	got = report(job);
	CHECK_MEM(got.at, got.len, exact, strlen(exact));
}

T(while_it_runs)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	zn_job_shared_of(&jobs, job)->mem_peak_bytes = 0;
	pass_ms(500);
	got = report(job);
	check_is(got, "state", "\"running\"");
	check_is(got, "end", "null");
	check_is(got, "end_ms", "null");
	check_is(got, "wall_seconds", "3.75");
	check_is(got, "exit_code", "null");
	check_is(got, "memory_peak_bytes", "null");
	CHECK(strstr(text, "read when the job's control group is removed"));
}

/* A job of which only its control group is known. */
T(nothing_said)
{
	static const char *const unknown[] = {"uid", "user", "account", "partition", "qos", "name", "array_job",
		"array_task", "het_job", "sluid", "cluster", "nodelist", "nodes", "tasks", "cpus", "allocated_gpus",
		"exit_code"};
	char name[ZN_JOB_NAME] = "815";
	struct zn_str got;

	start();
	CHECK(memory.arena.ops->job_claim(&memory.arena, name) >= 0);
	got = report(zn_jobs_find(&jobs, "815", ZN_UNKNOWN));
	for (size_t i = 0; i < ZN_LEN(unknown); i++)
		check_is(got, unknown[i], "null");
	check_is(got, "job_id", "\"815\"");
	check_is(got, "gpus", "[]");
	check_is(got, "launches.count", "0");
	check_is(got, "launch_latency.p99_us", "0");
	check_is(got, "steps", "[]");
	check_is(got, "lost", "{}");
}

/* What is switched off is null and says why, never 0. */
T(not_measured)
{
	static const char *const of[ZN_FAMILY_COUNT][6] = {
		[ZN_FAM_GPU_MEM] = {"allocations"},
		[ZN_FAM_CUDA_TRACE] = {"launches", "launch_latency", "sync_wait", "memcpy"},
		[ZN_FAM_NCCL] = {"nccl_init"},
	};
	char why[32];

	for (enum zn_family off = 0; off < ZN_FAMILY_COUNT; off++) {
		struct zn_job *job;
		struct zn_str got;

		start();
		job = busy_job();
		probe.available[off] = false;
		snprintf(probe.why[off], sizeof(probe.why[off]), "reason %d", off);
		snprintf(why, sizeof(why), "\"why\":\"reason %d\"", off);
		got = report(job);
		for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
			for (size_t i = 0; of[f][i]; i++)
				CHECK_EQ(zn_path_known(got, of[f][i]), f != off);
		CHECK_EQ(!strstr(text, "\"peak_bytes\":null"), off != ZN_FAM_GPU_MEM);
		CHECK_EQ(!strstr(text, "\"busy_seconds\":null"), off != ZN_FAM_CUDA_TRACE);
		CHECK_EQ(!strstr(text, "all_reduce"), off == ZN_FAM_NCCL);
		CHECK(strstr(text, why));
	}
}

T(daemon_came_later)
{
	static const struct {
		const char *start_time; /* s since 1970 */
		const char *want;
	} rows[] = {{"", "null"}, {"1709165800", "null"}, {"1709165799", "\"2024-02-29T00:16:40.000Z\""},
		{"99999999999999999999", "null"}, {"x", "null"}};

	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		struct zn_job *job;

		start();
		say(ZN_KEY_START_TIME, rows[i].start_time);
		job = prolog();
		check_is(report(job), "measured_since", rows[i].want);
		CHECK_EQ(!strstr(text, "the daemon started after the job"), *rows[i].want == 'n');
	}
	start(); /* told by a file that the daemon before left */
	say(ZN_KEY_TIME, "1709165000000");
	check_is(report(prolog()), "measured_since", "\"2024-02-29T00:16:40.000Z\"");
	check_is(report(&jobs.job[0]), "start", "\"2024-02-29T00:03:20.000Z\"");
	start(); /* found by its control group, while nobody tells since when it runs */
	prolog();
	zn_jobs_found(&jobs);
	say(ZN_KEY_ID, "4712");
	check_is(report(told()), "measured_since", "null");
	check_is(report(&jobs.job[0]), "measured_since", "\"2024-02-29T00:16:40.000Z\"");
}

T(dates)
{
	static const struct {
		uint64_t ms;
		const char *want;
	} rows[] = {{1, "\"1970-01-01T00:00:00.001Z\""}, {951782399999, "\"2000-02-28T23:59:59.999Z\""},
		{951782400000, "\"2000-02-29T00:00:00.000Z\""}, {951868800000, "\"2000-03-01T00:00:00.000Z\""},
		{1709251199050, "\"2024-02-29T23:59:59.050Z\""}, {1735689599009, "\"2024-12-31T23:59:59.009Z\""},
		{1735689600000, "\"2025-01-01T00:00:00.000Z\""}, {4107542400000, "\"2100-03-01T00:00:00.000Z\""},
		{253402300800000, "\"10000-01-01T00:00:00.000Z\""}, {0, "null"}};
	struct zn_job *job;

	start();
	job = prolog();
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		job->start_wall_ms = rows[i].ms;
		check_is(report(job), "start", rows[i].want);
	}
}

static int count(struct zn_str list)
{
	struct zn_str key, value;
	size_t at = 0;
	int n = 0;

	while (zn_json_next(list, &at, &key, &value))
		n++;
	return n;
}

/* All tables full, all texts as long and as nasty as they can be. */
static struct zn_job *largest_job(void)
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
	work(process_of(job, 100));
	pass_ms(1000);
	row->steps_lost = job->alerts_lost = 3;
	memset(view.node, 0xff, sizeof(view.node) - 1);
	return job;
}

T(largest)
{
	struct zn_str got = report(largest_job());

	CHECK(got.len < ZN_ANSWER_BYTES / 2);
	CHECK_EQ(count(zn_json_member(got, "steps")), ZN_STEPS_MAX);
	CHECK_EQ(count(zn_json_member(got, "alerts")), ZN_JOB_ALERTS);
	CHECK(strstr(text, "\"some of its steps\",\"why\":\"more than are told apart\""));
	CHECK(strstr(text, "\"some of its alerts\",\"why\":\"more than are kept\""));
	CHECK(!zn_json_member(got, "truncated").len);
}

/* A block of exactly this size: the document is whole, says if it was cut, or says that not even its head fits. */
static bool check_capacity(struct zn_job *job, size_t cap, size_t all)
{
	char *block = malloc(cap ? cap : 1);
	struct zn_out o = {.at = block, .cap = cap};
	struct zn_str got;

	zn_report_json(&o, &view, job);
	got = (struct zn_str){block, o.len};
	CHECK(o.len <= cap);
	if (!o.full) {
		CHECK_EQ(zn_json_check(got), 0);
		CHECK_EQ(zn_json_member(got, "truncated").len != 0, got.len != all);
		check_is(got, "job_id", "\"4711\"");
		check_is(got, "uid", "1000"); /* whose it is must be there: it decides who may read it */
	}
	free(block);
	return !o.full;
}

T(at_every_capacity)
{
	struct zn_job *job;
	bool fits = false;
	size_t all;

	start();
	job = busy_job();
	finish();
	all = report(job).len;
	for (size_t cap = 0; cap < all + ZN_JSON_END + 2; cap++) {
		bool now = check_capacity(job, cap, all);

		CHECK(now || !fits);
		fits = now;
	}
	CHECK(fits);
}

/* ---- As people read it. ---- */

static const char *page_of(struct zn_str json)
{
	struct zn_out o = {.at = page, .cap = sizeof(page) - 1};

	zn_report_page(&o, json);
	CHECK(!o.full);
	page[o.len] = '\0';
	return page;
}

static const char *line_of(struct zn_str json)
{
	struct zn_out o = {.at = page, .cap = sizeof(page) - 1};

	zn_report_line(&o, json);
	CHECK(!o.full);
	page[o.len] = '\0';
	return page;
}

static const char exact_page[] = "Job 4711, restarted 2 times: say \"hi\"\n"
				 "  user user1000 (uid 1000), account physics, partition short\n"
				 "  on node node7 of cluster main\n"
				 "\n"
				 "CPU efficiency     77 % of 2 CPUs: 5.00s of CPU time in 3.25s\n"
				 "Memory efficiency  57 % of 100M: 57.0M needed at most, 77.0M with cache of files\n"
				 "GPU use            15% of the time of 2 GPUs, 1 unused; at most 1.17K of 80.0K\n"
				 "\n"
				 "  started    2024-02-29 00:16:40 UTC\n"
				 "  ended      2024-02-29 00:16:43 UTC, after 3.25s, exit code 0:15\n"
				 "  processes  2 that used a GPU library\n"
				 "  memory     77.0M at its peak\n"
				 "\n"
				 "GPU                          PEAK       OF  BUSY        BUSY FOR        IDLE FOR\n"
				 "0                           1.17K    80.0K   31%           1.00s           2.25s\n"
				 "1                              0B    80.0K    0%              0s           3.25s\n"
				 "  GPU 0 was allocated and idle for 69 % of the time.\n"
				 "  GPU 1 was allocated and never used.\n"
				 "\n"
				 "Launches     612: 202 kernels, 204 graphs, 206 cooperative\n"
				 "             208 more captured into graphs, 34 failed\n"
				 "             each took p50 4.99us, p99 4.99us, mean 5.00us\n"
				 "Waits        8 for the GPU, 1.50s in all, 38 failed\n"
				 "Its threads  60 % cpu, 30 % gpu, 10 % data\n"
				 "Copies       to the GPU 3.91K, back 3.91K, between GPUs 3.92K, other 3.92K\n"
				 "Allocations  84 of 8.59K in all, 74 freed\n"
				 "  6 allocations failed because the GPU was full.\n"
				 "  4 allocations failed for other reasons.\n"
				 "NCCL         2 communicators set up in 3.00s\n"
				 "\n"
				 "NCCL                CALLS    BYTES   ERRORS         TIME      P50      P99\n"
				 "all_reduce             10    9.85K        2       20.0ms   2.00ms   2.00ms\n"
				 "send                    2      26B        0       6.00ms   2.95ms   2.95ms\n"
				 "\n"
				 "STEP             STARTED                 ENDED                   CPU TIME MEMORY\n"
				 "batch            2024-02-29 00:16:40 UTC -                              -      -\n"
				 "0123456789abcdef 2024-02-29 00:16:40 UTC 2024-02-29 00:16:41 UTC    1.50s  50.0M\n"
				 "\n"
				 "What the job said of itself (zernel annotate)\n"
				 "  after 3 s       epoch=3 (process 7)\n"
				 "  after 3 s       phase= (process 7)\n"
				 "\n"
				 "Alerts that fired\n"
				 "  gpu_oom_warning of 1, 5 times, at first 2024-02-29 00:16:43 UTC\n"
				 "\n"
				 "Lost by the whole node while the job ran\n"
				 "  alloc 23\n"
				 "  report 2\n"
				 "\n"
				 "Not measured\n"
				 "  I/O: not measured by this version\n";

/* Beyond what every_figure has. The figures of the files, a mount in each row. */
static const char exact_io[] =
	"\"io\":[{\"mount\":\"/scratch/a \\u001b[2J\",\"fstype\":\"lustre\",\"read_bytes\":3145728,\"write_bytes\":1009,"
	"\"mapped_bytes\":4096,\"copied_bytes\":0,\"ops\":{"
	"\"read\":{\"count\":3,\"errors\":0,\"seconds\":0.000015,\"p50_us\":4.992,\"p99_us\":4.992},"
	"\"write\":{\"count\":1,\"errors\":0,\"seconds\":0.007,\"p50_us\":6946.816,\"p99_us\":6946.816},"
	"\"mmap\":{\"count\":1,\"errors\":0,\"seconds\":0,\"p50_us\":0,\"p99_us\":0}}},"
	"{\"mount\":\"/home\",\"fstype\":\"nfs4\",\"read_bytes\":0,\"write_bytes\":0,\"mapped_bytes\":0,\"copied_bytes\":0,"
	"\"ops\":{\"fsync\":{\"count\":1,\"errors\":0,\"seconds\":0.02,\"p50_us\":18350.08,\"p99_us\":18350.08}}}]";

static const char exact_files[] = "FILES ON                 TYPE         READ  WRITTEN     CALLS   FAILED      P99\n"
				  "/scratch/a ?[2J          lustre      3.00M    0.99K         5        0   6.95ms\n"
				  "/home                    nfs4           0B       0B         1        0   18.4ms\n";

/* Of the job alone; another one in its place has none of it. */
T(what_was_lost)
{
	static struct zn_causes causes;
	struct zn_cause_group *g;
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	view.causes = &causes;
	g = &causes.group[job->slot];
	*g = (struct zn_cause_group){.used = true, .serial = job->serial};
	g->lost_ns[ZN_CAUSE_HANG] = 41500 * ZN_NS_PER_MS;
	g->lost_ns[ZN_CAUSE_STORAGE] = 125 * ZN_NS_PER_S;
	g->lost_ns[ZN_CAUSE_CPUS] = 900 * ZN_NS_PER_MS;
	got = report(job);
	check_is(got, "lost_to", "{\"hang\":41.5,\"storage\":125,\"cpu_shortage\":0.9}");
	CHECK(strstr(page_of(got), "\nLost to      storage 2 min 5 s, hang 41.5s\n"));
	for (enum zn_cause c = 0; c < ZN_CAUSE_COUNT; c++)
		g->lost_ns[c] = (1000 + c) * ZN_NS_PER_S;
	for (const char *line = page_of(report(job)), *end; (end = strchr(line, '\n')); line = end + 1)
		CHECK(end - line <= 80);
	g->serial++;
	got = report(job);
	CHECK(!zn_path_known(got, "lost_to"));
	CHECK(!strstr(page_of(got), "Lost to"));
	view.causes = NULL;
}

T(files)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	files_of(job);
	for (int ended = 0; ended < 2; ended++) {
		got = report(job);
		CHECK(strstr(text, exact_io));
		CHECK(strstr(text, "{\"what\":\"some I/O\",\"why\":\"libaio is not seen\"}"));
		CHECK(!strstr(text, "\"what\":\"I/O\""));
		CHECK(strstr(page_of(got), exact_files));
		CHECK(strstr(line_of(got), " nccl=9.88K read=3.00M written=0.99K oom=6"));
		if (!ended)
			finish();
	}
	probe.kernel.method[ZN_FAM_VFS] = probe.kernel.method[ZN_FAM_META] =
		ZN_METHOD_NONE; /* no longer measured: null, not 0 */
	agg.measured &= ~FILES;
	got = report(job);
	check_is(got, "io", "null");
	CHECK(!strstr(page_of(got), "FILES ON"));
	CHECK(strstr(line_of(got), " read=- written=- "));
}

/* Its share was used up: null, not 0, and said. */
T(files_beyond_its_share)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	files_of(job);
	zn_arena_job(&memory.arena, job->slot)->io_lost[ZN_IO_WRITE] = 7;
	got = report(job);
	check_is(got, "io_lost", "[\"write\"]");
	CHECK(strstr(text, "{\"mount\":\"/home\",\"fstype\":\"nfs4\",\"read_bytes\":0,\"write_bytes\":null,"));
	CHECK(strstr(text, "\"read_bytes\":3145728,\"write_bytes\":1009,")); /* counted from the first one on */
	CHECK(strstr(text, "{\"what\":\"some I/O\",\"why\":\"more pairs of a mount and an operation than its share, "));
	CHECK(strstr(
		page_of(got), "/home                    nfs4           0B        -         -        -   18.4ms\n"));
	CHECK(strstr(page_of(got), "some I/O: more pairs of a mount and an operation than its share"));
	CHECK(strstr(line_of(got), " read=3.00M written=- "));
}

/* It had too many under way at one time: nothing of that operation is whole, on no mount. */
T(files_beyond_what_is_followed)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	files_of(job);
	zn_arena_job(&memory.arena, job->slot)->io_missed[ZN_IO_WRITE] = 1;
	got = report(job);
	check_is(got, "io_lost", "[\"write\"]");
	CHECK(strstr(text, "\"read_bytes\":3145728,\"write_bytes\":null,"));
	CHECK(strstr(text, "{\"what\":\"some I/O\",\"why\":\"more file operations under way at one time than "));
	CHECK(!strstr(text, "more pairs of a mount"));
	CHECK(strstr(line_of(got), " read=3.00M written=- "));
}

/* It did nothing to files, and that is known. */
T(no_files)
{
	struct zn_job *job;

	start();
	job = busy_job();
	zn_io_sums_init(&io_sums, &memory.arena, &jobs);
	probe.kernel.method[ZN_FAM_VFS] = ZN_METHOD_FENTRY;
	agg.measured |= 1ULL << ZN_FAM_VFS;
	view.io_sums = &io_sums;
	check_is(report(job), "io", "[]");
	CHECK(strstr(line_of(report(job)), " read=0B written=0B "));
}

static const char exact_line[] =
	"cpu_eff=77% mem_eff=57% gpus=2 gpu_peak=1.17K/80.0K gpu_busy=15% gpu_unused=1 mem_peak=77.0M launches=612 "
	"p99=4.99us sync=1.50s nccl=9.88K read=- written=- oom=6 lost=25";

T(as_a_page)
{
	CHECK_STR(page_of((struct zn_str){exact, strlen(exact)}), exact_page);
}

T(as_a_line)
{
	CHECK_STR(line_of((struct zn_str){exact, strlen(exact)}), exact_line);
}

T(the_clients_read_what_is_written)
{
	struct zn_job *job = largest_job();

	CHECK(strlen(page_of(report(job))) > 2000);
	CHECK(strlen(line_of(report(job))) > 100);
}

static void check_plain(const char *all, size_t columns)
{
	while (*all) {
		size_t n = strcspn(all, "\n");

		CHECK(n <= columns);
		for (size_t i = 0; i < n; i++)
			CHECK(all[i] >= ' ' && all[i] <= '~');
		all += n + (all[n] == '\n');
	}
}

/* The peak of one GPU is not known: no sum and no sentence is made of it. */
T(memory_that_was_not_seen)
{
	struct zn_job *job;
	struct zn_str got;

	start();
	job = busy_job();
	CHECK(job->gpu_count == 2 && job->gpu[1].idle_ns);
	job->gpu[1].partial = true;
	got = report(job);
	CHECK(strstr(text, "\"gpu_id\":\"0\",\"allocated\":true,\"peak_bytes\":1200,"));
	CHECK(strstr(text,
		"\"gpu_id\":\"1\",\"allocated\":true,\"peak_bytes\":null,\"total_bytes\":81920,\"busy_seconds\":0,\"active_seconds\":0,"));
	CHECK_EQ(!strstr(text, "\"busy_share\":null"), false);
	CHECK(strstr(text, "\"what\":\"GPU memory where no peak is given\",\"why\":\"processes used the GPU before"));
	CHECK(strstr(line_of(got), "gpu_peak=-/- ") && strstr(line_of(got), " gpu_unused=0 "));
	CHECK(!strstr(page_of(got), "never used"));
	CHECK(strstr(page_of(got), "GPU memory where no peak is given"));
}

/* Files of other versions, of nobody, and of an enemy: always plain text within its width. */
static const struct {
	const char *name, *json, *page, *line; /* what is in them */
} strange[] = {
	{"empty object", "{}", "Job -: -\n",
		"gpus=0 gpu_peak=-/- gpu_busy=- gpu_unused=0 mem_peak=- launches=- p99=- "},
	{"no JSON", "{\"job_id\":", "", ""},
	{"nothing", "", "", ""},
	{"a number", "7", "Job -: -\n", "launches=-"},
	{"a list", "[1,2]", "Job -: -\n", "launches=-"},
	{"of a later version", "{\"report\":99,\"job_id\":\"7\",\"new\":{\"a\":[1]},\"gpus\":[{\"gpu_id\":\"0\"}]}",
		"Job 7: -\n", "gpus=1 gpu_peak=-/- gpu_busy=- gpu_unused=0"},
	{"wrong types",
		"{\"job_id\":{\"a\":1},\"gpus\":{\"a\":7},\"launches\":[1],\"nccl\":\"x\",\"lost\":[1],\"steps\":true}",
		"Job -: -\n", "gpus=1 gpu_peak=-/-"},
	{"control characters", "{\"name\":\"a\\u001b[2Jb\\nJob 1: c\",\"node\":\"\\u009bz\\u202e\"}",
		"Job -: a?[2Jb?Job 1: c\n", "lost=-"},
	{"huge numbers",
		"{\"wall_seconds\":1e300,\"launches\":{\"count\":1e300},\"sync_wait\":{\"seconds\":1e300},"
		"\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,\"peak_bytes\":18446744073709551615,"
		"\"total_bytes\":18446744073709551615,\"busy_seconds\":1e308,\"active_seconds\":1e308,\"idle_seconds\":1e308,\"busy_share\":1e9}],"
		"\"nccl_init\":{\"calls\":1},\"nccl\":[{\"bytes\":1e300}],\"lost\":{\"a\":1e300}}",
		"16.0E", "gpu_peak=16.0E/16.0E"},
	{"negative numbers",
		"{\"wall_seconds\":-1,\"launches\":{\"count\":-5},\"launch_latency\":{\"p99_us\":-3},"
		"\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,\"busy_seconds\":-1,\"idle_seconds\":-2,\"busy_share\":-3}]}",
		"for - so far", "launches=-"},
	{"a second", "{\"sync_wait\":{\"seconds\":61.5}}", "1 min 1 s in all", "sync=61.5s"},
	{"no time", "{\"sync_wait\":{\"seconds\":0}}", "0s in all", "sync=0s"},
	{"an hour", "{\"sync_wait\":{\"seconds\":7200}}", "2 h 0 min in all", "sync=7200s"},
	{"partly", "{\"measured_since\":\"2024-02-29T00:16:40.000Z\",\"lost\":{}}",
		"since 2024-02-29 00:16:40 UTC only", "lost=0 measured=partly"},
	{"NCCL not measured", "{\"nccl_init\":null,\"nccl\":[]}", "", "nccl=-"},
	{"NCCL not used", "{\"nccl_init\":{\"calls\":0},\"nccl\":[]}", "", "nccl=0B"},
	{"I/O not measured", "{\"io\":null}", "", "read=- written=-"},
	{"I/O of a hostile file",
		"{\"io\":[{\"mount\":\"\\u0085\\ud83d\\ude80\",\"read_bytes\":1e300,\"write_bytes\":-5,\"ops\":7},7,null,"
		"{\"ops\":{\"a\":null,\"b\":{\"count\":1e300,\"p99_us\":\"x\"}}}]}",
		"FILES ON", "read=- written=-"},
	{"I/O of two mounts", "{\"io\":[{\"read_bytes\":1024,\"write_bytes\":0},{\"read_bytes\":1024}]}", "1.00K",
		"read=2.00K written=0B"},
	{"cut", "{\"truncated\":true}", "This report was cut", ""},
	{"simulated", "{\"source\":\"simulated\"}", "SIMULATED", ""},
	{"a GPU well used", "{\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,\"busy_share\":0.97}]}", " 97%", ""},
};

T(strange_reports)
{
	for (size_t i = 0; i < ZN_LEN(strange); i++) {
		size_t len = strlen(strange[i].json);
		char *block = malloc(len ? len : 1); /* exactly sized */

		t_begin(strange[i].name);
		memcpy(block, strange[i].json, len);
		CHECK(strstr(page_of((struct zn_str){block, len}), strange[i].page));
		check_plain(page, 80);
		CHECK(strstr(line_of((struct zn_str){block, len}), strange[i].line));
		check_plain(page, 250);
		CHECK(!strpbrk(page, "\"'`\\$\n"));
		free(block);
	}
}

/* Any beginning of a report, and one with any byte changed. */
T(damaged_reports)
{
	size_t len = strlen(exact);
	char *block = malloc(len);

	for (size_t i = 0; i < len; i++) {
		memcpy(block, exact, len);
		block[i] ^= 1 + i % 127;
		check_plain(page_of((struct zn_str){block, len}), 80);
		check_plain(line_of((struct zn_str){block, len}), 250);
		check_plain(page_of((struct zn_str){exact, i}), 80);
	}
	free(block);
}

/* A page and a line that do not fit say so, and write nothing past the end. */
T(sheets_at_every_capacity)
{
	struct zn_str json = {exact, strlen(exact)};
	size_t all = strlen(exact_page);

	for (size_t cap = 0; cap <= all; cap++) {
		char *block = malloc(cap ? cap : 1);
		struct zn_out o = {.at = block, .cap = cap};

		zn_report_page(&o, json);
		CHECK_EQ(o.full, cap < all);
		o = (struct zn_out){.at = block, .cap = cap};
		zn_report_line(&o, json);
		CHECK_EQ(o.full, cap < strlen(exact_line));
		free(block);
	}
}

/* ---- /jobs, and the snapshot's entry. ---- */

static const char exact_jobs[] =
	"{\"node\":\"node7\",\"source\":\"live\",\"jobs\":[{\"job_id\":\"4711\",\"restart\":2,\"state\":\"ended\","
	"\"user\":\"user1000\",\"uid\":1000,\"account\":\"physics\",\"partition\":\"short\",\"name\":\"say \\\"hi\\\"\","
	"\"nodes\":\"2\",\"start_ms\":1709165800000,\"end_ms\":1709165803250,\"elapsed_s\":3.25,\"processes\":1,"
	"\"processes_gone\":1,\"launches\":612,\"nccl_bytes\":10116," USE
	"\"gpus\":[{\"gpu_id\":\"0\",\"allocated\":true,"
	"\"peak_bytes\":1200,\"busy_s\":1,\"active_s\":1,\"idle_s\":2.25,\"quiet_s\":1},{\"gpu_id\":\"1\",\"allocated\":true,"
	"\"peak_bytes\":0,\"busy_s\":0,\"active_s\":0,\"idle_s\":3.25,\"quiet_s\":3.25}]}]}";

static struct zn_str jobs_json(void)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_state_refresh(&view);
	zn_jobs_json(&o, &view);
	CHECK(!o.full);
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	return (struct zn_str){text, o.len};
}

T(list_of_one)
{
	struct zn_str got;

	start();
	busy_job();
	finish();
	got = jobs_json();
	CHECK_MEM(got.at, got.len, exact_jobs, strlen(exact_jobs));
}

T(list_of_none)
{
	start();
	check_is(jobs_json(), "jobs", "[]");
	view.jobs = NULL;
	check_is(jobs_json(), "jobs", "[]");
}

/* Those that run come first, so that they stay when the list is cut. */
T(list_of_all)
{
	struct zn_str got, key, job;
	char id[12], why[ZN_TEXT_MAX];
	size_t at = 0, all;
	int n = 0;

	start();
	for (int i = 0; i < 200; i++) {
		snprintf(id, sizeof(id), "%d", 1000 + i);
		say(ZN_KEY_ID, id);
		told();
		if (i % 2 == 0)
			CHECK_EQ(zn_jobs_end(&jobs, &message, why), 0);
	}
	got = jobs_json();
	while (zn_json_next(zn_json_member(got, "jobs"), &at, &key, &job))
		check_is(job, "state", n++ < 100 ? "\"running\"" : "\"ended\"");
	CHECK_EQ(n, 200);
	all = got.len;
	for (size_t cap = 0; cap < 3000; cap++) {
		struct zn_out o = {.at = malloc(cap ? cap : 1), .cap = cap};

		zn_jobs_json(&o, &view);
		CHECK(o.full || zn_json_check((struct zn_str){o.at, o.len}) == 0);
		CHECK(o.full || o.len < all);
		CHECK(o.full || memcmp(o.at + o.len - ZN_JSON_END, ",\"truncated\":true}", ZN_JSON_END) == 0);
		free(o.at);
	}
}

int main(void)
{
	RUN(every_figure);
	RUN(what_was_lost);
	RUN(while_it_runs);
	RUN(nothing_said);
	RUN(not_measured);
	RUN(memory_that_was_not_seen);
	RUN(daemon_came_later);
	RUN(dates);
	RUN(largest);
	RUN(at_every_capacity);
	RUN(files);
	RUN(files_beyond_its_share);
	RUN(files_beyond_what_is_followed);
	RUN(no_files);
	RUN(as_a_page);
	RUN(as_a_line);
	RUN(the_clients_read_what_is_written);
	strange_reports();
	RUN(damaged_reports);
	RUN(sheets_at_every_capacity);
	RUN(list_of_one);
	RUN(list_of_none);
	RUN(list_of_all);
	return t_end();
}
