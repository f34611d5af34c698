/* SPDX-License-Identifier: GPL-2.0 */
/*
 * oom.c: the last processes of each job that the kernel killed for want of memory, and those of none, as the kernel's
 * events (bpf/job.bpf.c) told of them. What is kept of a job is its own, so nobody's kills push out those of others.
 *
 * Limits: names of programs are theirs to choose.
 */
#include <string.h>

#include "zernel.h"

static struct zn_oom_job *place_of(struct zn_ooms *o, struct zn_job_ref job)
{
	bool known = job.serial && job.slot < ZN_JOBS_MAX;

	return &o->job[known ? job.slot : ZN_JOBS_MAX];
}

/* A job may have a kill before a tick has looked at it: then this is who maps its row. */
static void copy_step(struct zn_oom_kill *k, struct zn_arena *a)
{
	const struct zn_oom *oom = &k->oom;
	const struct zn_job_shared *row = zn_arena_job(a, oom->job.slot);

	if (row && row->serial == oom->job.serial && oom->event.row < ZN_STEPS_MAX && oom->event.row < row->step_count)
		memcpy(k->step, row->step[oom->event.row].name, sizeof(k->step) - 1);
}

struct zn_oom_kill *zn_oom_add(struct zn_ooms *o, const struct zn_oom *oom, struct zn_arena *a)
{
	struct zn_oom_job *at = place_of(o, oom->job);
	struct zn_oom_kill *k;

	if (at->serial != oom->job.serial)
		*at = (struct zn_oom_job){.serial = oom->job.serial};
	k = &at->kill[at->kills++ % ZN_OOMS_KEPT];
	*k = (struct zn_oom_kill){.oom = *oom, .job = {ZN_NOT_KNOWN, ZN_NOT_KNOWN, ZN_NOT_KNOWN}};
	k->oom.comm[sizeof(k->oom.comm) - 1] = k->oom.group[sizeof(k->oom.group) - 1] = 0;
	if (oom->job.serial)
		copy_step(k, a);
	return k;
}

const struct zn_oom_kill *zn_oom_kill(const struct zn_ooms *o, struct zn_job_ref job, uint32_t i)
{
	const struct zn_oom_job *at = place_of((struct zn_ooms *)o, job);

	if (at->serial != job.serial || i >= at->kills || i >= ZN_OOMS_KEPT)
		return NULL;
	return &at->kill[(at->kills - 1 - i) % ZN_OOMS_KEPT];
}

uint64_t zn_oom_bytes(const struct zn_oom *oom)
{
	uint64_t sum = 0;

	for (enum zn_oom_memory m = 0; m < ZN_OOM_MEMORIES; m++) {
		if (oom->bytes[m] == ZN_NOT_KNOWN)
			return ZN_NOT_KNOWN;
		sum += oom->bytes[m];
	}
	return sum;
}

const char *zn_oom_label(enum zn_oom_scope scope)
{
	static const char *const label[ZN_OOM_SCOPES] = {"unknown", "node", "job", "step", "below", "other"};

	return scope < ZN_OOM_SCOPES ? label[scope] : label[ZN_OOM_UNKNOWN];
}

static void say_memory(struct zn_out *o, const struct zn_oom *oom)
{
	char all[ZN_UNITS_CELL], shared[ZN_UNITS_CELL];

	if (zn_oom_bytes(oom) == ZN_NOT_KNOWN)
		return;
	zn_out_text(o, ": it had ");
	zn_out_text(o, zn_units_bytes(all, zn_oom_bytes(oom)));
	if (!oom->bytes[ZN_OOM_SHMEM])
		return;
	zn_out_text(o, ", ");
	zn_out_text(o, zn_units_bytes(shared, oom->bytes[ZN_OOM_SHMEM]));
	zn_out_text(o, " of it shared");
}

static void say_limit(struct zn_out *o, const struct zn_oom *oom)
{
	static const char *const whose[ZN_OOM_SCOPES] = {NULL, "; the node had no memory left",
		"; the limit of the job", "; the limit of the step", "; the limit of a group below the step",
		"; the limit of a group above the job"};
	const char *says = oom->event.detail < ZN_OOM_SCOPES ? whose[oom->event.detail] : NULL;
	char limit[ZN_UNITS_CELL];

	if (!says)
		return;
	zn_out_text(o, says);
	if (oom->event.detail == ZN_OOM_NODE)
		return;
	if (oom->limit != ZN_NOT_KNOWN) {
		zn_out_text(o, ", ");
		zn_out_text(o, zn_units_bytes(limit, oom->limit));
		zn_out_char(o, ',');
	}
	zn_out_text(o, " was reached");
}

void zn_oom_says(const struct zn_oom_kill *k, char to[ZN_OOM_TEXT])
{
	struct zn_out o = {.at = to, .cap = ZN_OOM_TEXT - 1};

	zn_out_text(&o, "out of memory: the kernel killed process ");
	zn_out_u64(&o, k->oom.event.tgid);
	if (k->oom.comm[0]) {
		zn_out_text(&o, " (");
		zn_out_text(&o, k->oom.comm);
		zn_out_char(&o, ')');
	}
	if (k->step[0]) {
		zn_out_text(&o, " of step ");
		zn_out_text(&o, k->step);
	}
	say_memory(&o, &k->oom);
	say_limit(&o, &k->oom);
	to[o.len] = 0;
}
