/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ghosts_json.c: GET /ghosts: processes that hold a GPU which is not theirs, and the GPUs of running jobs that nobody
 * uses.
 */
#include "zernel.h"

#define NS          9
#define GPU_IDLE_NS (600 * ZN_NS_PER_S) /* as the alert gpu_idle has it */

static uint64_t now_of(const struct zn_state *state)
{
	return state->tick_ns ? state->tick_ns : zn_now_ns();
}

static bool ghost_item(const void *owner, struct zn_json *j, uint32_t i)
{
	const struct zn_state *state = owner;
	const struct zn_ghost *g = state->ghosts && i < state->ghosts->count ? &state->ghosts->ghost[i] : NULL;
	uint64_t now_ns = now_of(state);

	if (!g)
		return false;
	zn_json_open(j, '{');
	zn_json_key_u64(j, "pid", g->pid);
	zn_job_json_uid(j, g->uid);
	zn_json_key_text(j, "command", g->comm);
	zn_json_key_text(j, "why", zn_ghost_label(g->why));
	zn_json_key_text(j, "says", zn_ghost_says(g->why));
	zn_json_key_text(j, "job_id", g->job);
	zn_json_key_text(j, "gpu_id", g->gpu);
	zn_json_key_scaled(j, "since_s", now_ns > g->since_ns ? now_ns - g->since_ns : 0, NS);
	if (g->bytes == ZN_NOT_KNOWN)
		zn_json_key_null(j, "gpu_bytes");
	else
		zn_json_key_u64(j, "gpu_bytes", g->bytes);
	zn_json_close(j, '}');
	return true;
}

static bool idle_item(const void *owner, struct zn_json *j, uint32_t i)
{
	const struct zn_state *state = owner;
	const struct zn_job *job = state->jobs && i < ZN_JOBS_MAX ? &state->jobs->job[i] : NULL;

	if (!job)
		return false;
	for (uint32_t g = 0; job->state != ZN_JOB_FREE && zn_job_runs(job) && g < job->gpu_count; g++) {
		if (!job->gpu[g].allocated || job->gpu[g].quiet_ns < GPU_IDLE_NS)
			continue;
		zn_json_open(j, '{');
		zn_json_key_text(j, "job_id", job->id);
		zn_json_key_text(j, "gpu_id", job->gpu[g].id);
		zn_json_key_scaled(j, "idle_s", job->gpu[g].quiet_ns, NS);
		zn_json_close(j, '}');
	}
	return true;
}

void zn_ghosts_json(struct zn_out *o, const struct zn_state *state)
{
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "node", state->node);
	zn_json_key_text(&j, "source", zn_state_source(state));
	zn_json_key_u64(&j, "after_s", ZN_GHOST_NS / ZN_NS_PER_S);
	/* whether the open files of all processes were looked at by now */
	zn_json_key(&j, "looked");
	zn_json_bool(&j, state->ghosts && !state->loading && (!state->probe || state->ghosts->holders.looks));
	zn_json_key_u64(&j, "unknown", state->ghosts ? state->ghosts->holders.unknown : 0);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "ghosts", '[', ghost_item, state);
	whole &= zn_json_list(&j, "idle_gpus", '[', idle_item, state);
	zn_json_end(&j, whole);
}
