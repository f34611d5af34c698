/* SPDX-License-Identifier: GPL-2.0 */
/*
 * job_json.c: a job as an entry of the snapshot, and of the list at /jobs.
 */
#include "zernel.h"

#define NS         9  /* decimals from nanoseconds to seconds */
#define NAME_SHOWN 32 /* bytes of a job's name in a table */

/* Bytes alone, of all operations: a whole merge of each would cost a page of memory each time. */
static uint64_t nccl_bytes(const struct zn_state *state, const struct zn_job *job)
{
	const struct zn_agg *a = state->agg;
	uint64_t bytes = 0;

	for (enum zn_operation d = ZN_H_NCCL_FIRST; d <= ZN_H_NCCL_LAST; d++)
		bytes += job->gone[d].hist.bytes;
	for (uint32_t r = 0; r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);

		if (!p || zn_jobs_of(state->jobs, p) != job)
			continue;
		for (enum zn_operation d = ZN_H_NCCL_FIRST; d <= ZN_H_NCCL_LAST; d++) {
			const struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

			bytes += h ? h->bytes : 0;
		}
	}
	return bytes;
}

void zn_job_json_peak(struct zn_json *j, const struct zn_job_gpu *g, bool is_measured)
{
	if (is_measured && !g->partial)
		zn_json_key_u64(j, "peak_bytes", g->peak_bytes);
	else
		zn_json_key_null(j, "peak_bytes");
}

static void entry_gpus(struct zn_json *j, const struct zn_job *job)
{
	zn_json_key_open(j, "gpus", '[');
	for (uint32_t i = 0; i < job->gpu_count; i++) {
		const struct zn_job_gpu *g = &job->gpu[i];

		zn_json_open(j, '{');
		zn_json_key_text(j, "gpu_id", g->id);
		zn_json_key(j, "allocated");
		zn_json_bool(j, g->allocated);
		zn_job_json_peak(j, g, true);
		zn_json_key_scaled(j, "busy_s", g->busy_ns, NS);
		zn_json_key_scaled(j, "active_s", g->active_ns, NS);
		zn_json_key_scaled(j, "idle_s", g->idle_ns, NS);
		zn_json_key_scaled(j, "quiet_s", g->quiet_ns, NS);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void entry_utilization(struct zn_json *j, uint64_t ppm)
{
	if (ppm == ZN_NOT_KNOWN)
		zn_json_key_null(j, "gpu_utilization");
	else
		zn_json_key_scaled(j, "gpu_utilization", ppm, 6);
}

void zn_job_json_uid(struct zn_json *j, uint32_t uid)
{
	if (uid == ZN_UNKNOWN)
		zn_json_key_null(j, "uid");
	else
		zn_json_key_u64(j, "uid", uid);
}

static void entry_who(struct zn_json *j, const struct zn_job *job)
{
	zn_json_key_text(j, "job_id", job->id);
	zn_json_key_u64(j, "restart", job->restart);
	zn_json_key_text(j, "state", zn_job_state_label(job->state));
	zn_json_key_text(j, "user", job->about.value[ZN_KEY_USER]);
}

void zn_job_json(struct zn_json *j, const struct zn_state *state, struct zn_job *job)
{
	static const struct {
		const char *key;
		enum zn_key from;
	} texts[] = {{"account", ZN_KEY_ACCOUNT}, {"partition", ZN_KEY_PARTITION}, {"name", ZN_KEY_NAME},
		{"nodes", ZN_KEY_NODES}};

	zn_json_open(j, '{');
	entry_who(j, job);
	zn_job_json_uid(j, job->uid);
	for (size_t i = 0; i < ZN_LEN(texts); i++)
		zn_json_key_text(j, texts[i].key, job->about.value[texts[i].from]);
	zn_json_key_u64(j, "start_ms", job->start_wall_ms);
	zn_json_key_known(j, "end_ms", job->end_wall_ms);
	zn_json_key_scaled(j, "elapsed_s", zn_job_elapsed_ns(job), NS);
	zn_json_key_u64(j, "processes", job->processes);
	zn_json_key_u64(j, "processes_gone", job->processes_gone);
	zn_json_key_u64(j, "launches", ZN_LAUNCHES(zn_job_counts(state->jobs, job)));
	zn_json_key_u64(j, "nccl_bytes", nccl_bytes(state, job));
	zn_use_json(j, state, job);
	zn_use_json_steps(j, state, job);
	entry_utilization(j, zn_job_gpus_utilization(state->hardware, job));
	zn_failed_json_job(j, state, job);
	entry_gpus(j, job);
	zn_json_close(j, '}');
}

void zn_job_json_row(struct zn_json *j, const struct zn_state *state, struct zn_job *job)
{
	char name[NAME_SHOWN + 1];

	snprintf(name, sizeof(name), "%.*s", NAME_SHOWN, job->about.value[ZN_KEY_NAME]);
	zn_json_open(j, '{');
	entry_who(j, job);
	zn_json_key_text(j, "name", name);
	zn_json_key_u64(j, "processes", job->processes);
	zn_json_key_u64(j, "launches", ZN_LAUNCHES(zn_job_counts(state->jobs, job)));
	zn_json_key_scaled(j, "elapsed_s", zn_job_elapsed_ns(job), NS);
	zn_json_close(j, '}');
}

/* At first those that run, then those that have ended. */
static bool job_item(const void *owner, struct zn_json *j, uint32_t i)
{
	const struct zn_state *state = owner;
	struct zn_job *job = state->jobs ? &state->jobs->job[i % ZN_JOBS_MAX] : NULL;

	if (!job || i >= 2 * ZN_JOBS_MAX)
		return false;
	if (job->state != ZN_JOB_FREE && (job->state == ZN_JOB_ENDED) == (i >= ZN_JOBS_MAX))
		zn_job_json(j, state, job);
	return true;
}

void zn_jobs_json(struct zn_out *o, const struct zn_state *state)
{
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "node", state->node);
	zn_json_key_text(&j, "source", zn_state_source(state));
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "jobs", '[', job_item, state);
	zn_json_end(&j, whole);
}
