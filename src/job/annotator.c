/* SPDX-License-Identifier: GPL-2.0 */
/*
 * annotator.c: which user may annotate which process or job. A user may annotate his own; the kernel's credentials of
 * the client decide.
 */
#include "zernel.h"
#include <errno.h>

static int refuse_with(int err, char why[ZN_TEXT_MAX], const char *format, ...) __attribute__((format(printf, 3, 4)));
static int refuse_with(int err, char why[ZN_TEXT_MAX], const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, ZN_TEXT_MAX, format, args);
	va_end(args);
	return err;
}

/* The process that the message is about: the asking process, its parent, or a process by its id as the daemon sees
 * it. */
static int find_process(
	struct zn_annotation *by, const struct zn_annotator *who, const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	struct zn_procfs_stat stat = {0};

	by->pid = who->pid;
	if (m->value[ZN_KEY_PARENT][0] && zn_procfs_stat("/proc", who->pid, &stat))
		by->pid = stat.parent;
	if (m->value[ZN_KEY_PID][0] && zn_procfs_contained("/proc", who->pid))
		return refuse_with(-EINVAL, why,
			"pid: who asks is in a PID namespace of its own; without it, the process that asks is meant");
	if (m->value[ZN_KEY_PID][0])
		zn_job_number(m->value[ZN_KEY_PID], &by->pid);
	if (!zn_procfs_stat("/proc", by->pid, &stat))
		return refuse_with(-ESRCH, why, "no process %u", by->pid);
	if (!who->any && zn_uid_of((int)by->pid) != who->uid)
		return refuse_with(-EPERM, why, "process %u is not of user %u", by->pid, who->uid);
	by->start_ticks = stat.start_ticks;
	return 0;
}

static bool is_own(const struct zn_annotator *who, const struct zn_job *job)
{
	return job && zn_job_runs(job) && (who->any || (job->uid != ZN_UNKNOWN && job->uid == who->uid));
}

static struct zn_job_ref tag_of(const struct zn_job *job)
{
	return (struct zn_job_ref){job->slot, job->serial};
}

/* The kernel's tags decide first. A control group may be named by a user, so its name counts for the user's own
 * jobs alone. */
static struct zn_job_ref find_tag(struct zn_jobs *j, const struct zn_annotator *who, uint32_t pid)
{
	struct zn_cgroup_name name;
	struct zn_job *job;

	for (uint32_t i = 0; i < j->agg->row_count; i++) {
		const struct zn_proc *p = zn_arena_proc(j->agg->arena, j->agg->row[i]);

		if (p && p->tgid == pid)
			return p->job;
	}
	job = zn_cgroup_of("/proc", pid, &name) ? zn_jobs_find(j, name.job, ZN_UNKNOWN) : NULL;
	return is_own(who, job) ? tag_of(job) : (struct zn_job_ref){0};
}

int zn_annotator_say(const struct zn_annotator *who, struct zn_annotations *a, struct zn_jobs *j,
	const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	struct zn_annotation by = {.owner = who->owner, .at_ns = zn_now_ns(), .at_wall_ms = zn_wall_ms()};
	const char *id = m->value[ZN_KEY_ID], *restart = m->value[ZN_KEY_RESTART];
	struct zn_job *job = *id ? zn_jobs_find(j, id, zn_job_number_or_unknown(restart)) : NULL;
	int err;

	if (!m->value[ZN_KEY_LABELS][0])
		return refuse_with(-EINVAL, why, "no labels");
	if (*id && !is_own(who, job))
		return refuse_with(-EPERM, why, "no job %.15s of this user runs here", id);
	err = find_process(&by, who, m, why);
	if (err)
		return err;
	return zn_annotations_say(a, job ? tag_of(job) : find_tag(j, who, by.pid), &by, m->value[ZN_KEY_LABELS], why);
}
