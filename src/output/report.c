/* SPDX-License-Identifier: GPL-2.0 */
/*
 * report.c: what a job did, as JSON. What was not measured is null and says why (report_gaps.c), never 0. How a
 * report reads to people is report_text.c.
 */
#include <string.h>

#include "zernel.h"

#define REPORT_VERSION 1
#define NS             9 /* decimals from nanoseconds to seconds, to milliseconds and to microseconds */
#define NS_MS          6
#define NS_US          3
#define MS_S           3

static void key_said(struct zn_json *j, const char *key, const char *text)
{
	if (*text)
		zn_json_key_text(j, key, text);
	else
		zn_json_key_null(j, key);
}

static void key_time(struct zn_json *j, const char *key, uint64_t ms)
{
	char text[48];
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	if (!ms) {
		zn_json_key_null(j, key);
		return;
	}
	zn_date_put(&o, ms);
	zn_json_key(j, key);
	zn_json_bytes(j, text, o.len);
}

/* Of a time of CLOCK_MONOTONIC within the job. Relative to the job's own start, so that a clock that was set meanwhile
 * moves nothing apart. */
static uint64_t wall_ms(const struct zn_job *job, uint64_t ns)
{
	if (ns >= job->start_ns)
		return job->start_wall_ms + (ns - job->start_ns) / ZN_NS_PER_MS;
	return job->start_wall_ms - (job->start_ns - ns) / ZN_NS_PER_MS;
}

static void put_identity(struct zn_json *j, const struct zn_report *r)
{
	static const struct {
		const char *key;
		enum zn_key from;
	} texts[] = {
		{"user", ZN_KEY_USER},
		{"account", ZN_KEY_ACCOUNT},
		{"partition", ZN_KEY_PARTITION},
		{"qos", ZN_KEY_QOS},
		{"name", ZN_KEY_NAME},
		{"array_job", ZN_KEY_ARRAY_JOB},
		{"array_task", ZN_KEY_ARRAY_TASK},
		{"het_job", ZN_KEY_HET_JOB},
		{"sluid", ZN_KEY_SLUID},
		{"cluster", ZN_KEY_CLUSTER},
		{"nodelist", ZN_KEY_NODELIST},
		{"nodes", ZN_KEY_NODES},
		{"tasks", ZN_KEY_TASKS},
		{"cpus", ZN_KEY_CPUS},
		{"allocated_gpus", ZN_KEY_GPUS},
		{"exit_code", ZN_KEY_EXIT_CODE},
	};

	zn_json_key_u64(j, "report", REPORT_VERSION);
	zn_json_key_text(j, "job_id", r->job->id);
	zn_json_key_u64(j, "restart", r->job->restart);
	zn_json_key_text(j, "state", zn_job_state_label(r->job->state));
	zn_job_json_uid(j, r->job->uid);
	for (size_t i = 0; i < ZN_LEN(texts); i++)
		key_said(j, texts[i].key, r->job->about.value[texts[i].from]);
	zn_json_key_text(j, "node", r->state->node);
	zn_json_key_text(j, "source", zn_state_source(r->state));
	zn_json_key_text(j, "version", zn_version);
}

static void put_times(struct zn_json *j, const struct zn_report *r)
{
	const struct zn_job *job = r->job;

	key_time(j, "start", job->start_wall_ms);
	zn_json_key_u64(j, "start_ms", job->start_wall_ms);
	key_time(j, "end", job->end_wall_ms);
	zn_json_key_known(j, "end_ms", job->end_wall_ms);
	zn_json_key_scaled(j, "wall_seconds", zn_job_elapsed_ns(job), NS);
	key_time(j, "measured_since", zn_gaps_since_ms(r));
	zn_json_key_u64(j, "processes", (uint64_t)job->processes + job->processes_gone);
	zn_json_key_u64(j, "processes_running", job->processes);
	zn_json_key_known(j, "memory_peak_bytes", zn_job_shared_of(r->state->jobs, job)->mem_peak_bytes);
	zn_use_json(j, r->state, job);
	zn_failed_json_job(j, r->state, job);
}

static uint64_t total_bytes(const struct zn_gpus *g, const char *id)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (strcmp(g->gpu[i].id, id) == 0)
			return g->gpu[i].total_bytes;
	return 0;
}

/* busy_share: to four digits after the point, and null if the job was too short for a tick, or if its calls may
 * have been on another GPU. */
static void gpu_time(struct zn_json *j, const struct zn_job *job, const struct zn_job_gpu *g)
{
	uint64_t all = g->busy_ns + g->idle_ns;

	zn_json_key_scaled(j, "busy_seconds", g->busy_ns, NS);
	zn_json_key_scaled(j, "active_seconds", g->active_ns, NS);
	zn_json_key_scaled(j, "idle_seconds", g->idle_ns, NS);
	if (all && !(g->partial && job->gpu_count > 1))
		zn_json_key_scaled(j, "busy_share", (uint64_t)((__uint128_t)g->busy_ns * 10000 / all), 4);
	else
		zn_json_key_null(j, "busy_share");
}

static void gpu_no_time(struct zn_json *j)
{
	zn_json_key_null(j, "busy_seconds");
	zn_json_key_null(j, "active_seconds");
	zn_json_key_null(j, "idle_seconds");
	zn_json_key_null(j, "busy_share");
}

static bool gpu_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_report *r = report;
	const struct zn_job_gpu *g = &r->job->gpu[i];

	if (i >= r->job->gpu_count)
		return false;
	zn_json_open(j, '{');
	zn_json_key_text(j, "gpu_id", g->id);
	zn_json_key(j, "allocated");
	zn_json_bool(j, g->allocated);
	zn_job_json_peak(j, g, zn_gaps_measures(r->state, ZN_FAM_GPU_MEM));
	zn_json_key_known(j, "total_bytes", total_bytes(&r->state->agg->gpus, g->id));
	if (zn_gaps_measures(r->state, ZN_FAM_CUDA_TRACE))
		gpu_time(j, r->job, g);
	else
		gpu_no_time(j);
	zn_json_close(j, '}');
	return true;
}

static const struct zn_hist *merge_job(const struct zn_report *r, enum zn_operation d)
{
	return zn_job_merge(r->state->jobs, r->job, d);
}

static void put_launches(struct zn_json *j, struct zn_report *r)
{
	static const char *const kind[] = {"kernel", "graph", "cooperative", "captured"};

	zn_json_key_u64(j, "count", ZN_LAUNCHES(r->count));
	for (uint32_t i = 0; i < ZN_LEN(kind); i++)
		zn_json_key_u64(j, kind[i], r->count[ZN_C_LAUNCH_KERNEL + i]);
	zn_json_key_u64(j, "errors", r->count[ZN_C_LAUNCH_ERRORS]);
}

static void put_latency(struct zn_json *j, struct zn_report *r)
{
	const struct zn_hist *h = merge_job(r, ZN_H_LAUNCH);
	struct zn_summary s = zn_hist_summary(h);

	zn_json_key_u64(j, "count", s.count);
	zn_json_key_scaled(j, "p50_us", s.p50_ns, NS_US);
	zn_json_key_scaled(j, "p99_us", s.p99_ns, NS_US);
	zn_json_key_scaled(j, "mean_us", s.count ? h->sum_ns / s.count : 0, NS_US);
}

static void sync_wait(struct zn_json *j, struct zn_report *r)
{
	uint64_t calls = 0, ns = 0;

	for (enum zn_operation d = ZN_H_SYNC_STREAM; d <= ZN_H_SYNC_FREE; d++) {
		const struct zn_hist *h = merge_job(r, d);

		calls += zn_hist_count(h);
		ns += h->sum_ns;
	}
	zn_json_key_u64(j, "calls", calls);
	zn_json_key_scaled(j, "seconds", ns, NS);
	zn_json_key_u64(j, "errors", r->count[ZN_C_SYNC_ERRORS]);
}

static void memcpy_bytes(struct zn_json *j, struct zn_report *r)
{
	static const char *const direction[] = {"htod", "dtoh", "dtod", "other"};

	for (uint32_t i = 0; i < ZN_LEN(direction); i++) {
		zn_json_key_open(j, direction[i], '{');
		zn_json_key_u64(j, "calls", r->count[ZN_C_COPY_CALLS_HTOD + i]);
		zn_json_key_u64(j, "bytes", r->count[ZN_C_COPY_BYTES_HTOD + i]);
		zn_json_close(j, '}');
	}
}

static void nccl_init(struct zn_json *j, struct zn_report *r)
{
	const struct zn_hist *h = merge_job(r, ZN_H_NCCL_INIT);

	zn_json_key_u64(j, "calls", h->calls);
	zn_json_key_u64(j, "errors", h->errors);
	zn_json_key_scaled(j, "seconds", h->sum_ns, NS);
}

static void put_allocations(struct zn_json *j, struct zn_report *r)
{
	struct zn_proc_gpu all = zn_job_memory(r->state->jobs, r->job);
	uint64_t calls = 0, bytes = 0;

	for (enum zn_alloc_kind k = 0; k < ZN_KIND_COUNT; k++) {
		calls += all.alloc_calls[k];
		bytes += all.alloc_bytes[k];
	}
	zn_json_key_u64(j, "calls", calls);
	zn_json_key_u64(j, "bytes", bytes);
	zn_json_key_u64(j, "frees", all.free_calls);
	zn_json_key_u64(j, "oom", all.fail_oom);
	zn_json_key_u64(j, "other_failures", all.fail_other);
}

/* Seconds of all launching threads, by cause. */
static void thread_time(struct zn_json *j, const struct zn_report *r)
{
	if (!zn_gaps_measures(r->state, ZN_FAM_SCHED)) {
		zn_json_key_null(j, "thread_time");
		return;
	}
	zn_json_key_open(j, "thread_time", '{');
	zn_stalls_seconds(j, r->count + ZN_C_STALL_CPU);
	zn_json_close(j, '}');
}

/* Seconds that its processes lost, by what they were lost to. */
static void lost_to(struct zn_json *j, const struct zn_report *r)
{
	const struct zn_cause_group *g = r->state->causes ? &r->state->causes->group[r->job->slot] : NULL;

	if (r->state->flights) /* how often it was recorded that it hung */
		zn_json_key_u64(j, "hangs",
			zn_flights_of(r->state->flights, (struct zn_job_ref){r->job->slot, r->job->serial}));
	if (!g || g->serial != r->job->serial || !zn_gaps_measures(r->state, ZN_FAM_SCHED))
		return;
	zn_json_key_open(j, "lost_to", '{');
	for (enum zn_cause cause = 0; cause < ZN_CAUSE_COUNT; cause++)
		if (g->lost_ns[cause])
			zn_json_key_scaled(j, zn_cause_label(cause), g->lost_ns[cause], 9);
	zn_json_close(j, '}');
}

/* Of its process that took longest to the first steady launch. */
static void put_checkpoints(struct zn_json *j, const struct zn_report *r)
{
	const struct zn_checkpoints *c = r->state->checkpoints;
	struct zn_checkpoint_sum sum;

	if (!c)
		return;
	sum = zn_checkpoints_of(c, (struct zn_job_ref){r->job->slot, r->job->serial});
	zn_json_key_open(j, "checkpoints", '{');
	zn_json_key_u64(j, "count", sum.count);
	zn_json_key_scaled(j, "seconds", sum.ns, 9);
	zn_json_key_u64(j, "bytes", sum.bytes);
	zn_json_close(j, '}');
}

static void put_startup(struct zn_json *j, const struct zn_report *r)
{
	const struct zn_startup *s = r->state->startup;
	const struct zn_startup_row *row =
		s ? zn_startup_job(s, (struct zn_job_ref){r->job->slot, r->job->serial}) : NULL;

	if (!row)
		return;
	zn_json_key_open(j, "startup", '{');
	for (enum zn_startup_phase phase = 0; phase < ZN_STARTUP_COUNT; phase++)
		zn_json_key_scaled(j, zn_startup_label(phase), row->phase_ns[phase], 9);
	zn_json_close(j, '}');
}

/* Objects: what a family of probes counted, or null where that is not measured. */
static const struct {
	const char *key;
	enum zn_family family;
	void (*fill)(struct zn_json *j, struct zn_report *r);
} objects[] = {
	{"launches", ZN_FAM_CUDA_TRACE, put_launches},
	{"launch_latency", ZN_FAM_CUDA_TRACE, put_latency},
	{"sync_wait", ZN_FAM_CUDA_TRACE, sync_wait},
	{"memcpy", ZN_FAM_CUDA_TRACE, memcpy_bytes},
	{"nccl_init", ZN_FAM_NCCL, nccl_init},
	{"allocations", ZN_FAM_GPU_MEM, put_allocations},
};

static bool nccl_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_report *r = report;
	enum zn_operation d = ZN_H_NCCL_FIRST + i;
	const struct zn_hist *h =
		d <= ZN_H_NCCL_LAST && zn_gaps_measures(r->state, ZN_FAM_NCCL) ? merge_job(r, d) : NULL;
	struct zn_summary s;

	if (!h)
		return false;
	if (!h->calls)
		return true;
	s = zn_hist_summary(h);
	zn_json_open(j, '{');
	zn_json_key_text(j, "op", zn_operation_label(d));
	zn_json_key_u64(j, "calls", h->calls);
	zn_json_key_u64(j, "bytes", h->bytes);
	zn_json_key_u64(j, "errors", h->errors);
	zn_json_key_scaled(j, "seconds", h->sum_ns, NS);
	zn_json_key_scaled(j, "p50_ms", s.p50_ns, NS_MS);
	zn_json_key_scaled(j, "p99_ms", s.p99_ns, NS_MS);
	zn_json_close(j, '}');
	return true;
}

static bool step_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_report *r = report;
	const struct zn_job_shared *row = zn_job_shared_of(r->state->jobs, r->job);
	struct zn_step s;

	if (i >= row->step_count || i >= ZN_STEPS_MAX)
		return false;
	s = row->step[i];
	if (r->state->uses)
		zn_use_step(r->state->uses, r->job, &s);
	zn_json_open(j, '{');
	zn_json_key(j, "name");
	zn_json_bytes(j, s.name, strnlen(s.name, sizeof(s.name)));
	key_time(j, "start", wall_ms(r->job, s.start_ns));
	key_time(j, "end", s.end_ns ? wall_ms(r->job, s.end_ns) : 0);
	zn_json_key_known(j, "memory_peak_bytes", s.mem_peak_bytes);
	if (s.cpu_ns)
		zn_json_key_scaled(j, "cpu_seconds", s.cpu_ns, NS);
	else
		zn_json_key_null(j, "cpu_seconds");
	zn_json_close(j, '}');
	return true;
}

static bool alert_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_job *job = ((const struct zn_report *)report)->job;
	const struct zn_job_alert *a = &job->alert[i];

	if (i >= job->alert_count || i >= ZN_JOB_ALERTS)
		return false;
	zn_json_open(j, '{');
	zn_json_key_text(j, "alert", a->name);
	zn_json_key_text(j, "of", a->label);
	key_time(j, "first", wall_ms(job, a->first_ns));
	zn_json_key_u64(j, "times", a->times);
	zn_json_close(j, '}');
	return true;
}

/* The node's losses while the job ran: some may be its own. */
static bool loss_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_report *r = report;
	uint64_t now, before;

	if (i >= ZN_LOSS_COUNT)
		return false;
	now = r->job->state == ZN_JOB_ENDED ? r->job->lost_end[i] : zn_state_lost(r->state, i);
	before = r->job->lost_start[i];
	if (now > before)
		zn_json_key_u64(j, zn_loss_label(i), now - before);
	return true;
}

static bool io_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_report *r = report;
	struct zn_io_sums *io_sums = r->state->io_sums;

	if (!zn_gaps_has_io(r->state) || i >= io_sums->high)
		return false;
	if (zn_io_sum_of(&io_sums->io_sum[i], r->job))
		zn_io_sum_json(j, r->state, &io_sums->io_sum[i], false);
	return true;
}

/* The operations whose figures are not whole, on whatever mount. */
static bool io_lost_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_report *r = report;

	if (i < ZN_IO_OP_COUNT && zn_gaps_io_lost(r) >> i & 1)
		zn_json_text(j, zn_io_label(i));
	return i < ZN_IO_OP_COUNT;
}

static const struct zn_annotation_group *annotations_of(const struct zn_report *r)
{
	return zn_annotations_of(r->state->annotations, (struct zn_job_ref){r->job->slot, r->job->serial});
}

static bool label_item(const void *report, struct zn_json *j, uint32_t i)
{
	return zn_labels_item(j, annotations_of(report), i);
}

static bool label_change_item(const void *report, struct zn_json *j, uint32_t i)
{
	return zn_labels_change(j, annotations_of(report), i);
}

static bool line_item(const void *report, struct zn_json *j, uint32_t i)
{
	const struct zn_report *r = report;

	return zn_lines_item(j, r->state, r->job, i);
}

/* The largest last: where room is short, the last ones are cut. */
static const struct {
	const char *key;
	char bracket;
	bool (*item)(const void *report, struct zn_json *j, uint32_t i);
} lists[] = {
	{"gpus", '[', gpu_item},
	{"not_measured", '[', zn_gaps_item},
	{"nccl", '[', nccl_item},
	{"lost", '{', loss_item},
	{"io_lost", '[', io_lost_item},
	{"alerts", '[', alert_item},
	{"labels", '[', label_item},
	{"label_changes", '[', label_change_item},
	{"lines", '[', line_item},
	{"steps", '[', step_item},
	{"io", '[', io_item},
};

static bool add_object(struct zn_json *j, struct zn_report *r, size_t i)
{
	struct zn_json_mark before = zn_json_mark(j);

	zn_json_key(j, objects[i].key);
	if (zn_gaps_measures(r->state, objects[i].family)) {
		zn_json_open(j, '{');
		objects[i].fill(j, r);
		zn_json_close(j, '}');
	} else {
		zn_json_null(j);
	}
	if (!j->out->full)
		return true;
	zn_json_back(j, &before);
	return false;
}

void zn_report_json(struct zn_out *o, const struct zn_state *state, struct zn_job *job)
{
	struct zn_report r = {.state = state, .job = job, .count = zn_job_counts(state->jobs, job)};
	struct zn_json j;
	bool whole = true;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	put_identity(&j, &r);
	put_times(&j, &r);
	thread_time(&j, &r);
	lost_to(&j, &r);
	put_startup(&j, &r);
	put_checkpoints(&j, &r);
	zn_rates_job_json(&j, state, job, r.count);
	if (!zn_gaps_has_io(state))
		zn_json_key_null(&j, "io");
	zn_json_reserve(&j, ZN_JSON_END);
	for (size_t i = 0; i < ZN_LEN(objects); i++)
		whole &= add_object(&j, &r, i);
	for (size_t i = 0; i < ZN_LEN(lists); i++)
		if ((lists[i].item != io_item && lists[i].item != io_lost_item) || zn_gaps_has_io(state))
			whole &= zn_json_list(&j, lists[i].key, lists[i].bracket, lists[i].item, &r);
	zn_json_end(&j, whole);
}

bool zn_report_keep(const struct zn_state *state, struct zn_job *job)
{
	static char text[ZN_ANSWER_BYTES]; /* as much as `zernel job report` hands on */
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	char name[ZN_NAME_BYTES];

	zn_job_file(name, "", job->id, job->restart, ".json");
	zn_report_json(&o, state, job);
	return zn_writer_write(state->writer, ZN_DIRECTORY_REPORTS, name, (struct zn_str){text, o.len});
}
