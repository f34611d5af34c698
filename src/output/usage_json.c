/* SPDX-License-Identifier: GPL-2.0 */
/*
 * usage_json.c: CPU time and memory of a job as JSON, and who was killed for want of it, of an entry of the list of
 * jobs and of its report. What is not known is null.
 */
#include <string.h>

#include "zernel.h"

#define NS 9 /* decimals from nanoseconds to seconds */

static void key_scaled(struct zn_json *j, const char *key, uint64_t v, int decimals)
{
	if (v == ZN_NOT_KNOWN)
		zn_json_key_null(j, key);
	else
		zn_json_key_scaled(j, key, v, decimals);
}

static void put_cpu(struct zn_json *j, const struct zn_use *use)
{
	zn_json_key_open(j, "cpu", '{');
	key_scaled(j, "seconds", use->cpu_known ? use->cpu_ns : ZN_NOT_KNOWN, NS);
	key_scaled(j, "user_seconds", use->cpu_known ? use->cpu_user_ns : ZN_NOT_KNOWN, NS);
	key_scaled(j, "system_seconds", use->cpu_known ? use->cpu_system_ns : ZN_NOT_KNOWN, NS);
	key_scaled(j, "cpus", use->cpus_milli ? use->cpus_milli : ZN_NOT_KNOWN, 3);
	key_scaled(j, "efficiency", use->cpu_ratio, 4);
	key_scaled(j, "throttled_seconds", use->now.throttled_ns, NS);
	zn_json_close(j, '}');
}

static void put_kinds(struct zn_json *j, const struct zn_use *use, const uint64_t bytes[ZN_MEMORY_KINDS])
{
	static const char *const label[] = {
#define X(e, label) label,
		ZN_MEMORIES(X)
#undef X
	};

	for (enum zn_memory_kind k = 0; k < ZN_MEMORY_KINDS; k++)
		key_scaled(j, label[k], use->now.kinds_known ? bytes[k] : ZN_NOT_KNOWN, 0);
}

static void put_memory(struct zn_json *j, const struct zn_job *job, const struct zn_use *use)
{
	zn_json_key_open(j, "memory", '{');
	zn_json_key_known(j, "peak_bytes", use->peak);
	zn_json_key_known(j, "needed_peak_bytes", use->needed_peak);
	key_scaled(j, "limit_bytes", use->now.limit, 0);
	key_scaled(j, "efficiency", use->memory_ratio, 4);
	key_scaled(j, "swap_bytes", zn_job_runs(job) ? use->now.swap : ZN_NOT_KNOWN, 0);
	if (zn_job_runs(job)) {
		zn_json_key_open(j, "now_bytes", '{');
		put_kinds(j, use, use->now.memory);
		zn_json_close(j, '}');
	}
	zn_json_key_open(j, "highest_bytes", '{');
	put_kinds(j, use, use->now.kind_peak);
	zn_json_close(j, '}');
	zn_json_close(j, '}');
}

/* Absent where the kernel keeps no such accounts. */
static void put_pressure(struct zn_json *j, const struct zn_use *use)
{
	static const char *const resources[] = {"cpu", "memory", "io"};

	if (use->now.pressure_ns[ZN_PRESSURE_CPU][0] == ZN_NOT_KNOWN)
		return;
	zn_json_key_open(j, "pressure", '{');
	for (enum zn_pressure r = 0; r < ZN_PRESSURES; r++) {
		zn_json_key_open(j, resources[r], '{');
		key_scaled(j, "some_seconds", use->now.pressure_ns[r][0], NS);
		key_scaled(j, "full_seconds", use->now.pressure_ns[r][1], NS);
		zn_json_close(j, '}');
	}
	zn_json_close(j, '}');
}

/* An estimate; a part that nothing counts is null. */
static void put_energy(struct zn_json *j, const struct zn_state *state, const struct zn_job *job)
{
	zn_json_key_open(j, "energy_joules", '{');
	for (uint32_t part = 0; part <= ZN_ENERGY_COUNT; part++)
		key_scaled(j, zn_energy_label((enum zn_energy)part), zn_energies_of(state->energies, job, part), 6);
	zn_json_close(j, '}');
}

static void put_kill(struct zn_json *j, const struct zn_state *state, const struct zn_oom_kill *k)
{
	static const char *const keys[ZN_OOM_MEMORIES] = {"file_bytes", "anon_bytes", "shmem_bytes"};
	const struct zn_oom *oom = &k->oom;
	char says[ZN_OOM_TEXT];

	zn_oom_says(k, says);
	zn_json_open(j, '{');
	zn_json_key_u64(j, "at_ms", zn_state_wall_ms(state, k->oom.ns));
	zn_json_key_u64(j, "pid", oom->event.tgid);
	zn_json_key_text(j, "command", oom->comm);
	zn_json_key_text(j, "step", k->step);
	for (enum zn_oom_memory m = 0; m < ZN_OOM_MEMORIES; m++)
		key_scaled(j, keys[m], oom->bytes[m], 0);
	zn_json_key_text(j, "limit_of", zn_oom_label(oom->event.detail));
	zn_json_key_text(j, "group", oom->group);
	key_scaled(j, "group_used_bytes", oom->used, 0);
	key_scaled(j, "limit_bytes", oom->limit, 0);
	zn_json_key_open(j, "job_before", '{');
	for (enum zn_oom_memory m = 0; m < ZN_OOM_MEMORIES; m++)
		key_scaled(j, keys[m], k->job[m], 0);
	zn_json_close(j, '}');
	zn_json_key_text(j, "says", says);
	zn_json_close(j, '}');
}

/* The newest first. */
static void put_kills(struct zn_json *j, const struct zn_state *state, const struct zn_job *job)
{
	const struct zn_oom_kill *k;

	if (!state->ooms || !state->jobs)
		return;
	zn_json_key_u64(j, "oom_kills", zn_job_shared_of(state->jobs, job)->oom_kills);
	zn_json_key_open(j, "oom_killed", '[');
	for (uint32_t i = 0; (k = zn_oom_kill(state->ooms, (struct zn_job_ref){job->slot, job->serial}, i)); i++)
		put_kill(j, state, k);
	zn_json_close(j, ']');
}

void zn_use_json_steps(struct zn_json *j, const struct zn_state *state, const struct zn_job *job)
{
	struct zn_step step[ZN_STEPS_SHOWN];
	uint32_t count = state->uses ? zn_use_steps(state->uses, job, step) : 0;

	zn_json_key_open(j, "steps", '[');
	for (uint32_t i = 0; i < count; i++) {
		zn_json_open(j, '{');
		zn_json_key(j, "name");
		zn_json_bytes(j, step[i].name, strnlen(step[i].name, sizeof(step[i].name)));
		zn_json_key(j, "running");
		zn_json_bool(j, !step[i].end_ns && !job->end_ns);
		key_scaled(j, "cpu_seconds", step[i].cpu_ns ? step[i].cpu_ns : ZN_NOT_KNOWN, NS);
		zn_json_key_known(j, "memory_peak_bytes", step[i].mem_peak_bytes);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

void zn_use_json(struct zn_json *j, const struct zn_state *state, const struct zn_job *job)
{
	struct zn_use use;

	if (!state->uses)
		return;
	zn_use_of(state->uses, job, &use);
	put_cpu(j, &use);
	put_memory(j, job, &use);
	put_pressure(j, &use);
	if (state->energies)
		put_energy(j, state, job);
	zn_ports_json_job(j, state, job);
	put_kills(j, state, job);
}
