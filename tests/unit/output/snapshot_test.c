/* SPDX-License-Identifier: GPL-2.0 */
/*
 * snapshot_test.c: a busy node's snapshot at every capacity, and narrowed: always a whole document, that says when
 * something is missing and only then. What the figures are is for snapshot_figures_test.c. Probes, libraries and jobs
 * are stand-ins.
 */
#include <stdlib.h>

#include "zernel.h"
#include "alert_source.h"
#include "t.h"
#include "no_libraries.h"

#define PROCESSES 12
#define GPUS      4
#define JOBS      5
#define LIST_MAX  20
#define RECENT    "{\"rate\":0,\"p50_us\":null,\"p99_us\":null}"

const char zn_version[] = "1.2-test", zn_commit[] = "abc";
bool zn_ready;

static struct zn_memory_arena memory;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_probe probe;
static struct zn_options options;
static struct zn_history *history;
static struct zn_state view;
static struct zn_lib lib;
static char text[1 << 20];

const struct zn_job_fabric *zn_fabric_of(const struct zn_fabric *f, const struct zn_job *job)
{
	(void)f, (void)job;
	return NULL;
}

const struct zn_job *const *zn_metrics_job_list(struct zn_walk *w, uint32_t *count)
{
	(void)w;
	*count = 0;
	return NULL;
}

uint64_t zn_stats_missed(struct zn_probe *p)
{
	return p == &probe ? 31 : 0;
}

uint64_t zn_find_round_ns(struct zn_find *f)
{
	(void)f;
	return zn_now_ns();
}

const char *zn_job_id(struct zn_jobs *j, const struct zn_proc *p)
{
	return p->job.serial ? j->job[p->job.slot].id : "";
}

struct zn_job *zn_jobs_at(struct zn_jobs *j, struct zn_job_ref tag)
{
	(void)j, (void)tag;
	return NULL;
}

bool zn_job_progress(const struct zn_jobs_progress *t, const struct zn_job *job, uint64_t *age_ns, uint64_t *limit_ns)
{
	(void)t, (void)job, (void)age_ns, (void)limit_ns;
	return false;
}

struct zn_job *zn_jobs_find(struct zn_jobs *j, const char *id, uint32_t restart)
{
	(void)j, (void)id, (void)restart;
	return NULL;
}

const struct zn_hist *zn_job_merge(struct zn_jobs *j, const struct zn_job *job, enum zn_operation operation)
{
	static const struct zn_hist none;

	(void)j, (void)job, (void)operation;
	return &none;
}

uint32_t zn_job_failed_rows(const struct zn_jobs *j, uint32_t to[ZN_PROCS_MAX])
{
	(void)j, (void)to;
	return 0;
}

void zn_job_failed(const struct zn_jobs *j, const struct zn_job *job, const uint32_t *rows, uint32_t row_count,
	struct zn_job_failed *to)
{
	(void)j, (void)job, (void)rows, (void)row_count;
	*to = (struct zn_job_failed){0};
}

void zn_job_json(struct zn_json *j, const struct zn_state *v, struct zn_job *job)
{
	CHECK(v == &view && job->state != ZN_JOB_FREE);
	zn_json_open(j, '{');
	zn_json_key(j, "job_id");
	zn_json_text(j, job->id);
	zn_json_key(j, "slot");
	zn_json_u64(j, (uint64_t)(job - jobs.job));
	zn_json_close(j, '}');
}

/* In every third slot. */
static void add_jobs(void)
{
	for (uint32_t i = 0; i < JOBS; i++) {
		struct zn_job *job = &jobs.job[3 * i];

		job->state = i == 1 ? ZN_JOB_ENDED : i == 2 ? ZN_JOB_ENDING : ZN_JOB_RUNNING;
		snprintf(job->id, sizeof(job->id), "%u", 100 + i);
	}
}

static void add_process(uint32_t i)
{
	static const enum zn_operation operations[] = {
		ZN_H_LAUNCH, ZN_H_SYNC_STREAM, ZN_H_NCCL_ALL_REDUCE, ZN_H_NCCL_SEND, ZN_H_DATALOAD};
	struct zn_proc *p = zn_memory_claim(&memory, 100 + i, "");
	struct zn_proc_gpu *gpu = &p->gpu[i % GPUS];

	for (size_t b = 0; b < sizeof(p->comm); b++)
		p->comm[b] = (char)(1 + (16 * i + b) % 255);
	for (size_t d = 0; d < ZN_LEN(operations); d++)
		for (uint32_t n = 0; n <= i; n++)
			zn_memory_record(&memory, p, operations[d], 1000 + 100 * i * n, 5);
	p->job.serial = i % 3 == 0; /* of the job in slot 0 */
	gpu->uuid[0] = (uint8_t)(1 + i % GPUS);
	gpu->total_bytes = 100 * PROCESSES / GPUS;
	gpu->peak_bytes = gpu->used_bytes = 99;
	if (memory.comm_count < ZN_LEN(memory.comms))
		memory.comms[memory.comm_count++] =
			(struct zn_comm){.hash = 1, .rank = i, .nranks = PROCESSES, .tgid = 100 + i};
}

static void libraries(void)
{
	static const struct zn_hook hooks[] = {{"cuLaunchKernel", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, 0, 0}};

	memcpy(probe.hook, hooks, sizeof(hooks));
	probe.hook_count = ZN_LEN(hooks);
	lib = (struct zn_lib){.used = true, .ready = true, .kind = ZN_LIB_CUDA};
	memset(lib.path, '"', sizeof(lib.path) - 1);
	strcpy(lib.why, "no\nway");
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++)
		probe.available[f] = true;
}

/* Of 12 processes on 4 full GPUs, two points of history, with alerts. */
static void start(void)
{
	uint64_t now_ns = zn_now_ns();

	zn_log_level = ZN_ERROR;
	options = (struct zn_options){.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
	if (zn_memory_open(&memory) || zn_history_open(&history))
		abort();
	libraries();
	add_jobs();
	zn_agg_init(&agg, &memory.arena);
	agg.measured = 0; /* of the kernel's families none is there */
	open_alerts(&alerts, &options, type_of_name, (struct zn_rule_source){walk_gpus, &agg});
	view = (struct zn_state){.options = &options,
		.agg = &agg,
		.alerts = &alerts,
		.jobs = &jobs,
		.probe = &probe,
		.history = history,
		.find = (struct zn_find *)&lib,
		.start_ns = now_ns};
	memset(view.node, 0xff, sizeof(view.node) - 1);
	for (uint32_t i = 0; i < PROCESSES; i++)
		add_process(i);
	for (int i = 0; i < 3; i++, now_ns += 6 * ZN_NS_PER_S) {
		for (uint32_t g = 0; g < agg.gpus.count; g++)
			agg.gpus.gpu[g].total_bytes = 100 * PROCESSES / GPUS;
		zn_agg_tick(&agg, now_ns);
		zn_history_tick(history, &agg, now_ns);
		zn_alerts_tick(&alerts, now_ns);
	}
}

static bool render(struct zn_out *o, const struct zn_filter *f)
{
	zn_state_refresh(&view);
	return zn_snapshot_json(o, &view, f);
}

static struct zn_str whole(const struct zn_filter *f)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	CHECK(render(&o, f));
	CHECK_EQ(zn_json_check((struct zn_str){text, o.len}), 0);
	return (struct zn_str){text, o.len};
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

static const char *const starred[] = {"gpu_utilization", "cuda_latency_p50_us", "cuda_latency_p99_us",
	"nccl_allreduce_p50_ms", "nccl_allreduce_p99_ms", "dataloader_wait_p50_ms", "last_update_ms"};
static const char *const node[] = {"node", "source", "version", "uptime_s", "interval_ms", "history"};
static const char *const lists[] = {
	"alerts", "why", "gpus", "ports", "lost", "probes", "jobs", "io", "servers", "processes"};

/* The keys of a snapshot are those starred, then some of the others in their order. */
static void check_keys(struct zn_str got)
{
	static const char *order[LIST_MAX];
	struct zn_str key, value;
	size_t at = 0, n = 0, i;

	if (!order[0]) {
		for (i = 0; i < ZN_LEN(node); i++)
			order[n++] = node[i];
		for (i = 0; i < ZN_LEN(lists); i++)
			order[n++] = lists[i];
		order[n++] = "truncated";
	}
	for (i = 0; i < ZN_LEN(starred); i++) {
		CHECK(zn_json_next(got, &at, &key, &value));
		CHECK_MEM(key.at, key.len, starred[i], strlen(starred[i]));
	}
	for (i = 0; zn_json_next(got, &at, &key, &value); i++) {
		while (i < LIST_MAX && order[i] && (strlen(order[i]) != key.len || memcmp(order[i], key.at, key.len)))
			i++;
		CHECK(i < LIST_MAX && order[i]);
	}
}

/* The list is the beginning of the whole one. True: and all of it. */
static bool check_part(struct zn_str part, struct zn_str all)
{
	if (!part.len)
		return false;
	CHECK(part.len <= all.len && part.len >= 2);
	CHECK(!memcmp(part.at, all.at, part.len - 1));
	CHECK_EQ(part.at[part.len - 1], all.at[all.len - 1]);
	return part.len == all.len;
}

/* True: the document was cut. */
static bool check_cut(struct zn_str got, struct zn_str all, size_t missing[ZN_LEN(lists)])
{
	bool cut = !check_part(zn_json_member(got, starred[0]), zn_json_member(all, starred[0]));

	check_keys(got);
	for (size_t i = 0; i < ZN_LEN(node); i++)
		cut |= !zn_json_member(got, node[i]).len;
	for (size_t i = 0; i < ZN_LEN(lists); i++) {
		struct zn_str list = zn_json_member(got, lists[i]), want = zn_json_member(all, lists[i]);

		missing[i] = check_part(list, want) ? 0 : (size_t)(1 + count(want) - count(list));
		cut |= missing[i] != 0;
	}
	return cut;
}

/* Returns the capacity at which nothing was missing any more, or 0. */
static size_t check_capacity(struct zn_str all, size_t cap, size_t *least)
{
	char *block = malloc(cap ? cap : 1);
	struct zn_out o = {.at = block, .cap = cap};
	size_t missing[ZN_LEN(lists)];
	bool said, cut = render(&o, NULL) ? false : true;
	struct zn_str got = {block, o.len};

	CHECK(o.len <= cap);
	if (o.full) {
		CHECK(cut && *least == 0);
	} else {
		*least = *least ? *least : cap;
		CHECK_EQ(zn_json_check(got), 0);
		said = zn_json_member(got, "truncated").len != 0;
		CHECK_EQ(said, cut);
		CHECK_EQ(check_cut(got, all, missing), cut);
		CHECK(!cut || o.len + 4096 > cap);
		/* what is small and matters is whole as soon as there is one process */
		if (count(zn_json_member(got, "processes")))
			for (size_t i = 0; i < ZN_LEN(lists) - 1; i++)
				CHECK_EQ(missing[i], 0);
	}
	free(block);
	return cut ? 0 : cap;
}

T(at_every_capacity)
{
	static char copy[sizeof(text)];
	struct zn_str all = whole(NULL);
	size_t least = 0, fits = 0;

	memcpy(copy, all.at, all.len);
	all.at = copy;
	CHECK_EQ(count(zn_json_member(all, "processes")), PROCESSES);
	CHECK_EQ(count(zn_json_member(all, "gpus")), GPUS);
	CHECK_EQ(count(zn_json_member(all, "alerts")), GPUS);
	for (size_t cap = 0; cap < 5000; cap++)
		check_capacity(all, cap, &least);
	for (size_t cap = 5000; cap < all.len - 200; cap += 97)
		check_capacity(all, cap, &least);
	for (size_t cap = all.len - 200; cap < all.len + 200; cap++) {
		size_t got = check_capacity(all, cap, &least);

		fits = fits ? fits : got;
		CHECK(!fits || got);
	}
	CHECK(least > 150 && least < 500);
	CHECK(fits >= all.len && fits <= all.len + ZN_JSON_END);
}

T(each_topic_alone)
{
	static const char *const labels[ZN_TOPIC_COUNT] = {
#define X(e, label) label,
		ZN_TOPICS(X)
#undef X
	};

	for (uint32_t t = 0; t < ZN_TOPIC_COUNT; t++) {
		struct zn_filter f = {.topics = 1u << t};
		struct zn_str got = whole(&f);

		check_keys(got);
		for (size_t i = 0; i < ZN_LEN(node); i++)
			CHECK(zn_json_member(got, node[i]).len);
		for (uint32_t i = 0; i < ZN_TOPIC_COUNT; i++)
			CHECK_EQ(zn_json_member(got, labels[i]).len != 0, i == t);
		CHECK(!zn_json_member(got, "truncated").len);
	}
}

T(no_topic_and_all_topics)
{
	struct zn_filter f = {.topics = 0};

	CHECK_EQ(count(whole(&f)), ZN_LEN(starred) + ZN_LEN(node));
	f.topics = ZN_TOPICS_ALL;
	CHECK_EQ(count(whole(&f)), ZN_LEN(starred) + ZN_LEN(node) + ZN_LEN(lists));
}

/* Which of them the list has, in its order, as "100 101". */
static void check_list(struct zn_str list, const char *key, const char *want)
{
	struct zn_str name, value;
	char got[256] = "", text_of[16];
	size_t at = 0;

	while (zn_json_next(list, &at, &name, &value)) {
		zn_json_string(zn_json_member(value, key), text_of, sizeof(text_of));
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s", *got ? " " : "", text_of);
	}
	CHECK_STR(got, want);
}

T(jobs_that_run_come_first)
{
	struct zn_str got = whole(NULL);

	check_list(zn_json_member(got, "jobs"), "job_id", "100 102 103 104 101");
	check_list(zn_json_member(got, "processes"), "job_id", "100   100   100   100  ");
}

static const struct {
	const char *name, *job, *jobs;
	int processes;
} narrowed[] = {
	{"narrowed: to a job", "100", "100", 4},
	{"narrowed: to one without processes", "104", "104", 0},
	{"narrowed: to one that has ended", "101", "101", 0},
	{"narrowed: to none", "123", "", 0},
	{"narrowed: to the beginning of an id", "10", "", 0},
	{"narrowed: to more than an id", "1000", "", 0},
	{"narrowed: not", "", "100 102 103 104 101", PROCESSES},
};

static void narrowed_to_a_job(void)
{
	for (size_t i = 0; i < ZN_LEN(narrowed); i++) {
		struct zn_filter f = {.topics = ZN_TOPICS_ALL};
		struct zn_str got;

		t_begin(narrowed[i].name);
		strcpy(f.job, narrowed[i].job);
		got = whole(&f);
		check_list(zn_json_member(got, "jobs"), "job_id", narrowed[i].jobs);
		CHECK_EQ(count(zn_json_member(got, "processes")), narrowed[i].processes);
		CHECK_EQ(count(zn_json_member(got, "gpus")), GPUS);
		CHECK_EQ(count(zn_json_member(got, "gpu_utilization")), PROCESSES);
	}
}

T(without_a_table_of_jobs)
{
	view.jobs = NULL;
	CHECK_EQ(count(zn_json_member(whole(NULL), "jobs")), 0);
	check_list(zn_json_member(whole(NULL), "processes"), "job_id", "");
	CHECK_EQ(count(zn_json_member(whole(NULL), "processes")), PROCESSES);
	view.jobs = &jobs;
}

T(recent_launches)
{
	struct zn_str key, p, got = whole(NULL), recent;
	size_t at = 0;

	CHECK_EQ(zn_json_integer(zn_json_member(zn_json_member(got, "history"), "steps")), 2);
	CHECK_EQ(zn_json_integer(zn_json_member(zn_json_member(got, "history"), "step_ms")), ZN_HISTORY_STEP_MS);
	CHECK(zn_json_next(zn_json_member(got, "processes"), &at, &key, &p));
	recent = zn_json_member(zn_json_member(p, "launch"), "recent");
	CHECK_MEM(recent.at, recent.len, RECENT, strlen(RECENT));
	view.history = NULL;
	got = whole(NULL);
	at = 0;
	CHECK(zn_json_next(zn_json_member(got, "processes"), &at, &key, &p));
	recent = zn_json_member(zn_json_member(p, "launch"), "recent");
	CHECK_MEM(recent.at, recent.len, "null", 4);
	view.history = history;
}

static void write_alerts(struct zn_out *o)
{
	zn_snapshot_alerts(o, &view);
}

static void write_health(struct zn_out *o)
{
	zn_health_json(o, &view);
}

/* Whole or full at every capacity, and the list is its beginning. */
static void check_small(void (*write)(struct zn_out *o), const char *list)
{
	struct zn_out all = {.at = text, .cap = sizeof(text)};
	struct zn_str want;

	write(&all);
	CHECK(!all.full);
	want = zn_json_member((struct zn_str){text, all.len}, list);
	for (size_t cap = 0; cap <= all.len + ZN_JSON_END; cap++) {
		struct zn_out o = {.at = malloc(cap ? cap : 1), .cap = cap};
		struct zn_str got;

		write(&o);
		got = (struct zn_str){o.at, o.len};
		CHECK(o.len <= cap);
		CHECK(!o.full || cap < 400);
		if (!o.full) {
			CHECK_EQ(zn_json_check(got), 0);
			CHECK_EQ(check_part(zn_json_member(got, list), want), !zn_json_member(got, "truncated").len);
		}
		free(o.at);
	}
}

T(alerts_at_every_capacity)
{
	check_small(write_alerts, "alerts");
}

T(health_at_every_capacity)
{
	check_small(write_health, "probes");
}

int main(void)
{
	shown_library = &lib;
	start();
	RUN(at_every_capacity);
	RUN(each_topic_alone);
	RUN(no_topic_and_all_topics);
	RUN(jobs_that_run_come_first);
	narrowed_to_a_job();
	RUN(without_a_table_of_jobs);
	RUN(recent_launches);
	RUN(alerts_at_every_capacity);
	RUN(health_at_every_capacity);
	return t_end();
}
