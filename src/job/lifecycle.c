/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lifecycle.c: begins and ends jobs, by messages about them and by their processes and control groups. No files and
 * no sockets, but for the tag of a whole control group.
 */
#include "zernel.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ROOM     16                  /* slots that are kept free while there are jobs that have ended */
#define SHOWN_NS (300 * ZN_NS_PER_S) /* after its end, however often it is scraped */
/* How long a job of which nothing is there may be behind Slurm's limit of its time, which can be moved: one that began
 * under this daemon should have told of its end, too. */
#define OVERDUE_NS      (3600 * ZN_NS_PER_S)
#define OVERDUE_HERE_NS (24 * OVERDUE_NS)

/* Nobody sends an epilog for it. */
static bool by_hand(const struct zn_job *job)
{
	return zn_job_said(job, ZN_KEY_CGROUP)[0] || zn_job_said(job, ZN_KEY_PID)[0];
}

static struct zn_job_seen *seen_of(struct zn_jobs *j, uint32_t row, const struct zn_proc *p)
{
	struct zn_job_seen *seen = &j->seen[row];

	if (seen->id != p->id)
		*seen = (struct zn_job_seen){.id = p->id};
	return seen;
}

/* Epilog and the last control group's end are both looked for; the later one counts. 0: there was neither. */
static uint64_t last_sign(struct zn_jobs *j, const struct zn_job *job)
{
	uint64_t gone_ns = zn_job_shared_of(j, job)->gone_ns, epilog_ns = job->epilog ? job->epilog_ns : 0;

	return gone_ns > epilog_ns ? gone_ns : epilog_ns;
}

/* What /proc/PID/environ of a process claims: believed only where it names a job that runs and whose owner it is. */
static void claim_process(struct zn_jobs *j, uint32_t row, const char *id, uint32_t uid)
{
	struct zn_arena *a = j->agg->arena;
	const struct zn_proc *p = zn_arena_proc(a, row);
	struct zn_job *job = id[0] ? zn_jobs_find_known(j, id, ZN_UNKNOWN) : NULL;

	if (!p || p->exit_ns || !job || !zn_job_runs(job) || last_sign(j, job))
		return;
	if (uid == ZN_UNKNOWN || job->uid != uid)
		return;
	if (!p->job.serial || !zn_jobs_of(j, p))
		a->ops->job_task(a, job->slot, p->tgid);
}

/* Whether the job did not have that key yet. */
static bool add_said(struct zn_job *job, enum zn_key key, const char *value)
{
	bool is_new = !zn_job_said(job, key)[0] && value[0];

	if (is_new)
		zn_message_set(&job->about, key, value);
	return is_new;
}

/* Labels that no prolog knows: they come from a process of the job, about its own job. */
static void describe_by(struct zn_job *job, const struct zn_slurm_env *c)
{
	if (strcmp(c->job, job->id) || c->uid == ZN_UNKNOWN || c->uid != job->uid)
		return;
	add_said(job, ZN_KEY_NAME, c->name);
	add_said(job, ZN_KEY_ARRAY_JOB, c->array_job);
	add_said(job, ZN_KEY_ARRAY_TASK, c->array_task);
}

/* The environment of a process is asked for once, and only while there is a job that it may name. */
static void ask_process(struct zn_jobs *j, const struct zn_proc *p, struct zn_job_seen *seen)
{
	struct zn_process_info process_info = {.slurm.uid = ZN_UNKNOWN};

	if (seen->asked || !j->agg->process_info)
		return;
	seen->asked = j->agg->process_info(j->agg->owner, p, &process_info);
	if (seen->asked)
		seen->slurm = process_info.slurm;
}

static void process_tick(struct zn_jobs *j, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(j->agg->arena, row);
	struct zn_job_seen *seen = p ? seen_of(j, row, p) : NULL;
	struct zn_job *job;

	if (!p)
		return;
	ask_process(j, p, seen);
	if (!zn_jobs_of(j, p) && seen->asked)
		claim_process(j, row, seen->slurm.job, seen->slurm.uid);
	job = zn_jobs_of(j, p);
	if (!job)
		return;
	if (seen->asked && zn_job_runs(job))
		describe_by(job, &seen->slurm);
	job->processes++;
	zn_job_gpus_note(j, job, row, p);
}

/* A process that was there before the daemon, and has made no call since, has no row, but its device files are
 * known. */
static void older_jobs_tick(struct zn_jobs *j)
{
	uint64_t began_ns = j->state ? j->state->start_ns : 0;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (zn_job_runs(job) && (job->found || job->start_ns < began_ns))
			zn_job_gpus_partial(j, job, false);
	}
}

/* Momentary values are read again; sums since the last count stay. */
static void processes_tick(struct zn_jobs *j)
{
	for (uint32_t slot = 0; slot < j->high; slot++) {
		j->job[slot].processes = 0;
		for (uint32_t i = 0; i < j->job[slot].gpu_count; i++) {
			j->job[slot].gpu[i].used_bytes = 0;
			j->job[slot].gpu[i].open = false;
		}
	}
	for (uint32_t r = 0; r < j->agg->row_count; r++)
		process_tick(j, j->agg->row[r]);
	older_jobs_tick(j);
	for (uint32_t slot = 0; slot < j->high; slot++)
		for (uint32_t i = 0; i < j->job[slot].gpu_count; i++)
			if (j->job[slot].gpu[i].used_bytes > j->job[slot].gpu[i].peak_bytes)
				j->job[slot].gpu[i].peak_bytes = j->job[slot].gpu[i].used_bytes;
}

/* For agg->gone_row. */
static void gone_row(void *jobs, uint32_t row, const struct zn_proc *p)
{
	struct zn_jobs *j = jobs;
	struct zn_job *job = zn_jobs_of(j, p);

	if (!p->job.serial)
		zn_job_add_failed(j, row, p);
	if (!job)
		return;
	seen_of(j, row, p);
	zn_job_gpus_note(j, job, row, p);
	zn_job_add_gone(j, job, row, p);
	j->seen[row].id = 0;
}

int zn_jobs_describe(struct zn_jobs *j, const struct zn_message *m, uint32_t uid, char why[ZN_TEXT_MAX])
{
	static const enum zn_key taken[] = {ZN_KEY_NAME, ZN_KEY_ARRAY_JOB, ZN_KEY_ARRAY_TASK};
	struct zn_job *job = zn_jobs_find(j, m->value[ZN_KEY_ID], zn_job_number_or_unknown(m->value[ZN_KEY_RESTART]));
	int changes = 0;

	if (!job || !zn_job_runs(job) || uid == ZN_UNKNOWN || job->uid != uid) {
		snprintf(why, ZN_TEXT_MAX, "no job %.15s of this user runs here", m->value[ZN_KEY_ID]);
		return -EPERM;
	}
	for (size_t i = 0; i < ZN_LEN(taken); i++)
		changes += add_said(job, taken[i], m->value[taken[i]]);
	return changes;
}

/* Without PrologFlags=Contain a job has a control group only while a step of it runs, and it has no end before its
 * epilog: if a step comes later than expected, the job goes on, as long as it was not forgotten. */
static bool may_resume(const struct zn_job *job)
{
	return job->announced && !job->epilog && !job->next_ns && !by_hand(job);
}

static void reopen_job(struct zn_job *job)
{
	job->state = ZN_JOB_RUNNING;
	job->end_ns = job->end_wall_ms = 0;
	job->reported = false;
}

static void resume_job(struct zn_jobs *j, struct zn_job *job)
{
	const struct zn_job_shared *row = zn_job_shared_of(j, job);

	if (!may_resume(job) || !row->cgroups || row->gone_ns)
		return;
	reopen_job(job);
	if (j->started)
		j->started(j->owner, job);
}

static void finish_job(struct zn_jobs *j, struct zn_job *job, uint64_t at_ns)
{
	zn_job_gpus_count(j, job, at_ns);
	for (uint32_t i = 0; i < job->gpu_count; i++) {
		job->gpu[i].idle_ns += job->gpu[i].held_ns;
		job->gpu[i].held_ns = 0;
	}
	zn_job_note_losses(j, job->lost_end);
	job->state = ZN_JOB_ENDED;
	job->end_ns = at_ns > job->start_ns ? at_ns : job->start_ns;
	job->end_wall_ms = job->start_wall_ms + (job->end_ns - job->start_ns) / ZN_NS_PER_MS;
	if (!may_resume(job))
		j->agg->arena->ops->job_unname(j->agg->arena, job->slot);
	if (j->ended)
		j->ended(j->owner, job);
}

/* When Slurm's limit of time was over. 0: something of the job is there, or it may still run. */
static uint64_t limit_passed(struct zn_jobs *j, const struct zn_job *job)
{
	uint64_t limit_s, now_s;

	if (by_hand(job) || job->processes || zn_job_shared_of(j, job)->cgroup_seen)
		return 0;
	limit_s = strtoull(zn_job_said(job, ZN_KEY_END_TIME), NULL, 10);
	now_s = zn_wall_ms() / 1000;
	return limit_s && now_s > limit_s ? zn_job_clamp_before(zn_now_ns(), (now_s - limit_s) * ZN_NS_PER_S) : 0;
}

/* A job that only a file tells of may have ended while no daemon ran. Of any other a sign of its end should come, but
 * an epilog before ours may have failed. 0: that is not to be thought yet. */
static uint64_t ended_unseen(struct zn_jobs *j, const struct zn_job *job, uint64_t now_ns)
{
	uint64_t limit_ns = limit_passed(j, job), last_ns = limit_ns > job->alive_ns ? limit_ns : job->alive_ns;
	uint64_t overdue_ns = job->source == ZN_JOB_BY_FILE ? OVERDUE_NS : OVERDUE_HERE_NS;

	if (job->source != ZN_JOB_BY_FILE && job->source != ZN_JOB_BY_PROLOG)
		return 0;
	return limit_ns && zn_job_clamp_before(now_ns, last_ns) >= overdue_ns ? last_ns : 0;
}

/* When it ended, if there was neither an epilog nor the end of a control group; 0: it has not. */
static uint64_t ended_without_sign(struct zn_jobs *j, const struct zn_job *job, uint64_t now_ns)
{
	uint64_t unseen_ns = ended_unseen(j, job, now_ns);

	if (unseen_ns)
		return unseen_ns;
	return job->empty_ns && zn_job_clamp_before(now_ns, job->empty_ns) >= ZN_JOB_GRACE_NS ? job->empty_ns : 0;
}

/* When it ended; 0: it has not. */
static uint64_t ended_at(struct zn_jobs *j, const struct zn_job *job, uint64_t now_ns)
{
	const struct zn_job_shared *row = zn_job_shared_of(j, job);
	uint64_t sign_ns = last_sign(j, job);

	if (job->next_ns)
		return sign_ns ? sign_ns : job->next_ns;
	if (!sign_ns)
		return ended_without_sign(j, job, now_ns);
	if (by_hand(job) || (job->epilog && (row->gone_ns || !row->cgroup_seen)))
		return sign_ns;
	return zn_job_clamp_before(now_ns, sign_ns) >= ZN_JOB_GRACE_NS ? sign_ns : 0;
}

static void count_task(void *to, const struct zn_job_ref *tag)
{
	struct zn_jobs *j = to;

	if (tag->slot < j->high && tag->serial == j->job[tag->slot].serial)
		j->tasks[tag->slot]++;
}

/* Nothing else shows the end of a process that was tagged by hand, or that a group had gone before it was tagged. */
static bool ends_with_processes(struct zn_jobs *j, const struct zn_job *job)
{
	return zn_job_runs(job) && by_hand(job) && !zn_job_shared_of(j, job)->cgroup_seen;
}

/* The table of tasks is read once for all jobs, and only if some job has no process that called a hooked library. */
static void note_empty(struct zn_jobs *j, uint64_t now_ns)
{
	struct zn_arena *a = j->agg->arena;
	bool counted = false;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];
		bool asks = ends_with_processes(j, job) && !job->processes;

		if (asks && !counted) {
			memset(j->tasks, 0, sizeof(j->tasks));
			a->ops->job_tasks(a, count_task, j);
			counted = true;
		}
		if (!asks || j->tasks[slot])
			job->empty_ns = 0;
		else if (!job->empty_ns)
			job->empty_ns = now_ns;
	}
}

static void update_life(struct zn_jobs *j, struct zn_job *job, uint64_t now_ns)
{
	uint64_t at_ns = ended_at(j, job, now_ns);
	bool ends;

	if (job->processes)
		job->alive_ns = now_ns;
	if (at_ns) {
		finish_job(j, job, at_ns);
		return;
	}
	ends = last_sign(j, job) || (job->source == ZN_JOB_BY_FILE && limit_passed(j, job));
	job->state = ends ? ZN_JOB_ENDING : ZN_JOB_RUNNING;
	/* where it may have ended already nothing is counted: if it has not, the time is caught up with */
	if (job->state == ZN_JOB_RUNNING && !job->empty_ns && !limit_passed(j, job))
		zn_job_gpus_count(j, job, now_ns);
}

/* Jobs whose id runs again, before a record or a report of the new one takes the place of theirs. */
static void settle_ended(struct zn_jobs *j)
{
	for (uint32_t slot = 0; slot < j->high; slot++)
		if (zn_job_runs(&j->job[slot]) && j->job[slot].next_ns)
			finish_job(j, &j->job[slot], ended_at(j, &j->job[slot], 0));
}

static void forget_job(struct zn_jobs *j, struct zn_job *job)
{
	for (uint32_t d = 0; d < ZN_OPERATION_COUNT; d++)
		if (job->gone[d].hist.calls || job->gone[d].hist.errors || job->gone[d].hist.bytes)
			memset(&job->gone[d], 0, sizeof(job->gone[d]));
	j->agg->arena->ops->job_forget(j->agg->arena, job->slot);
	job->state = ZN_JOB_FREE;
	job->gpu_count = 0;
}

/* The job that ended longest ago makes room for others. False: none has ended. */
static bool forget_oldest(struct zn_jobs *j)
{
	struct zn_job *oldest = NULL;

	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (job->state == ZN_JOB_ENDED && (!oldest || job->end_ns < oldest->end_ns))
			oldest = job;
	}
	if (oldest)
		forget_job(j, oldest);
	return oldest;
}

static void make_room(struct zn_jobs *j, uint32_t room)
{
	const struct zn_shared *s = j->agg->arena->shared;

	while (ZN_JOBS_MAX - __atomic_load_n(&s->jobs, __ATOMIC_RELAXED) < room && forget_oldest(j))
		;
}

/* Series of file I/O come back some ticks after their job was forgotten: one job a tick is enough. */
static void forget_shown(struct zn_jobs *j, uint64_t now_ns)
{
	for (uint32_t slot = 0; slot < j->high; slot++) {
		struct zn_job *job = &j->job[slot];

		if (job->state == ZN_JOB_ENDED && zn_job_clamp_before(now_ns, job->end_ns) >= SHOWN_NS)
			forget_job(j, job);
	}
	make_room(j, ROOM);
	if (j->crowded)
		forget_oldest(j);
}

/* The GPU or the process that an alert is about, else whatever else its rule tells its instances by. */
static const char *alert_subject(const struct zn_alert *alert)
{
	static const char *const names[] = {"gpu_id", "pid", "xid", "pci", "comm", "mount", "op"};

	for (size_t i = 0; i < ZN_LEN(names); i++)
		if (*zn_alert_label(alert, names[i]))
			return zn_alert_label(alert, names[i]);
	return "";
}

static void note_alert(struct zn_job *job, const struct zn_alert *alert)
{
	const char *of = alert_subject(alert);
	struct zn_job_alert *to;

	for (uint32_t i = 0; i < job->alert_count; i++)
		if (!strcmp(job->alert[i].name, alert->rule->name) && !strcmp(job->alert[i].label, of)) {
			job->alert[i].times++;
			return;
		}
	if (job->alert_count == ZN_JOB_ALERTS) {
		job->alerts_lost++;
		return;
	}
	to = &job->alert[job->alert_count++];
	*to = (struct zn_job_alert){.first_ns = alert->since_ns, .times = 1};
	snprintf(to->name, sizeof(to->name), "%s", alert->rule->name);
	snprintf(to->label, sizeof(to->label), "%.*s", (int)sizeof(to->label) - 1, of);
}

static bool alert_concerns(struct zn_jobs *j, const struct zn_job *job, const struct zn_alert *alert)
{
	const struct zn_agg *a = j->agg;
	const char *id = zn_alert_label(alert, "job_id"), *gpu = zn_alert_label(alert, "gpu_id");
	const char *pci = zn_alert_label(alert, "pci");
	uint32_t pid;

	if (*id)
		return !strcmp(job->id, id);
	if (!zn_job_number(zn_alert_label(alert, "pid"), &pid))
		return *gpu ? zn_job_gpus_has(job, gpu) : *pci && zn_job_gpus_has_at(j, job, pci);
	for (uint32_t r = 0; r < a->row_count; r++)
		if (a->arena->shared->row_tgid[a->row[r]] == pid)
			return zn_jobs_of(j, &a->arena->procs[a->row[r]]) == job;
	return false;
}

/* Notes the alerts that began to fire since the last look. */
static void note_alerts(struct zn_jobs *j, uint64_t now_ns)
{
	const struct zn_alerts *a = j->alerts;

	for (uint32_t i = 0; a && i < a->count; i++) {
		if (a->alert[i].state != ZN_FIRING || a->alert[i].since_ns <= j->alerts_ns)
			continue;
		for (uint32_t slot = 0; slot < j->high; slot++)
			if (zn_job_runs(&j->job[slot]) && alert_concerns(j, &j->job[slot], &a->alert[i]))
				note_alert(&j->job[slot], &a->alert[i]);
	}
	j->alerts_ns = now_ns;
}

void zn_jobs_tick(struct zn_jobs *j, uint64_t now_ns)
{
	j->tick_ns = now_ns;
	zn_job_discover(j);
	if (j->agg->arena->shared->jobs)
		processes_tick(j);
	note_alerts(j, now_ns);
	note_empty(j, now_ns);
	for (uint32_t slot = 0; slot < j->high; slot++) {
		if (j->job[slot].state == ZN_JOB_ENDED)
			resume_job(j, &j->job[slot]);
		if (zn_job_runs(&j->job[slot]))
			update_life(j, &j->job[slot], now_ns);
	}
	forget_shown(j, now_ns);
}

/* When a message was said, by both clocks: it may have waited in a file. False: before this boot, so it is of no
 * job that runs. */
static bool said_at(const struct zn_message *m, uint64_t *ns, uint64_t *wall_ms, char why[ZN_TEXT_MAX])
{
	struct zn_moment now;
	uint64_t ago_ms;

	zn_moment_now(&now);
	if (!zn_message_ago(m, &now, &ago_ms)) {
		snprintf(why, ZN_TEXT_MAX, "it is from before the node was started");
		return false;
	}
	*ns = zn_job_clamp_before(zn_now_ns(), ago_ms * ZN_NS_PER_MS);
	*wall_ms = now.wall_ms - ago_ms;
	return true;
}

static uint32_t restart_of(const struct zn_message *m)
{
	return zn_job_number_or_unknown(m->value[ZN_KEY_RESTART]);
}

/* Whether a job that only its control group told of is meant by what was said then. A message that waited in a file may
 * be read after the group has gone; what was said after that is of another run. */
static bool ran_when_said(struct zn_jobs *j, const struct zn_job *job, uint64_t said_ns)
{
	uint64_t gone_ns = zn_job_shared_of(j, job)->gone_ns;

	return gone_ns ? said_ns < gone_ns : zn_job_runs(job);
}

/* The job that a start message is about, if it exists already: from an earlier message, or by its control group. */
static struct zn_job *find_meant(struct zn_jobs *j, const struct zn_message *m, uint64_t said_ns)
{
	uint32_t restart = restart_of(m);
	const char *sluid = m->value[ZN_KEY_SLUID];
	struct zn_job *job = zn_jobs_find_known(j, m->value[ZN_KEY_ID], ZN_UNKNOWN), *other = NULL;

	if ((!job || !zn_job_runs(job)) && sluid[0])
		other = zn_jobs_find_known(j, sluid, ZN_UNKNOWN);
	job = other ? other : job;
	if (!job || job->epilog)
		return NULL;
	if (!job->announced)
		return ran_when_said(j, job, said_ns) ? job : NULL;
	return zn_job_runs(job) && (restart == ZN_UNKNOWN || restart == job->restart) ? job : NULL;
}

/* An earlier job of the same id ends here. */
static struct zn_job *begin_job(struct zn_jobs *j, const char *id, char why[ZN_TEXT_MAX])
{
	struct zn_arena *a = j->agg->arena;
	struct zn_job *before = zn_jobs_find_known(j, id, ZN_UNKNOWN);
	int slot;

	if (before && zn_job_runs(before)) {
		before->next_ns = zn_now_ns();
		zn_agg_refresh(j->agg);
		settle_ended(j);
	}
	if (before) {
		j->regroup |= zn_job_shared_of(j, before)->cgroups > 0;
		a->ops->job_unname(a, before->slot);
	}
	make_room(j, 1);
	slot = a->ops->job_claim(a, id);
	if (slot >= 0)
		return zn_job_in_slot(j, (uint32_t)slot);
	j->refused++;
	snprintf(why, ZN_TEXT_MAX, "no room for job %.15s: %d jobs are followed already", id, ZN_JOBS_MAX);
	return NULL;
}

/* What is said of the job, and not of the message itself. */
static bool is_about_job(enum zn_key k)
{
	return k != ZN_KEY_TIME && k != ZN_KEY_BOOT && k != ZN_KEY_UPTIME && k != ZN_KEY_JSON && k != ZN_KEY_LINE &&
		k != ZN_KEY_MAIL;
}

static void learn_keys(struct zn_job *job, const struct zn_message *m)
{
	uint32_t restart = restart_of(m);

	for (enum zn_key k = 0; k < ZN_KEY_COUNT; k++)
		if (m->value[k][0] && is_about_job(k))
			memcpy(job->about.value[k], m->value[k], ZN_VALUE_BYTES);
	if (!job->announced && restart != ZN_UNKNOWN)
		job->restart = restart;
	if (m->value[ZN_KEY_UID][0])
		job->uid = zn_job_number_or_unknown(m->value[ZN_KEY_UID]);
	job->about.verb = ZN_VERB_START;
	job->announced = true;
}

/* Enters the names that the job has in paths: a number, and from Slurm 26.05 on a SLUID. */
static void name_job(struct zn_jobs *j, struct zn_job *job, const struct zn_message *m)
{
	static const enum zn_key names[] = {ZN_KEY_ID, ZN_KEY_SLUID};
	struct zn_arena *a = j->agg->arena;

	for (size_t i = 0; i < ZN_LEN(names); i++) {
		char padded[ZN_JOB_NAME] = "";
		const char *text = m->value[names[i]];

		if (!text[0] || strlen(text) >= sizeof(padded))
			continue;
		strcpy(padded, text);
		a->ops->job_alias(a, job->slot, padded);
	}
	snprintf(job->id, sizeof(job->id), "%.15s", m->value[ZN_KEY_ID]);
}

static int tag_job(struct zn_jobs *j, struct zn_job *job, const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	struct zn_arena *a = j->agg->arena;
	uint32_t pid;
	int err = 0;

	if (zn_job_number(m->value[ZN_KEY_PID], &pid))
		err = (a->job_tree ? a->job_tree : a->ops->job_task)(a, job->slot, pid);
	if (err)
		snprintf(why, ZN_TEXT_MAX, "cannot tag process %u: %s", pid, strerror(-err));
	if (!err && m->value[ZN_KEY_CGROUP][0])
		err = zn_cgroup_tag(a, job->slot, m->value[ZN_KEY_CGROUP], why);
	return err;
}

/* A job that a file tells of may have ended while no daemon ran. There is nothing of it to tag, and it has its report
 * all the same. */
static int tag_if_there(struct zn_jobs *j, struct zn_job *job, const struct zn_message *m, enum zn_job_source source,
	char why[ZN_TEXT_MAX])
{
	int err;

	if (source == ZN_JOB_BY_OLD_FILE) {
		snprintf(why, ZN_TEXT_MAX, "the process that was tagged has ended");
		return 0;
	}
	err = tag_job(j, job, m, why);
	return source == ZN_JOB_BY_FILE && (err == -ENOENT || err == -ESRCH) ? 0 : err;
}

int zn_jobs_start(struct zn_jobs *j, const struct zn_message *m, enum zn_job_source source, char why[ZN_TEXT_MAX])
{
	struct zn_job *job;
	uint64_t start_ns, start_ms;
	bool fresh;
	int err;

	if (!said_at(m, &start_ns, &start_ms, why))
		return -ESTALE;
	zn_job_discover(j);
	settle_ended(j);
	job = find_meant(j, m, start_ns);
	fresh = !job;
	if (fresh && !(job = begin_job(j, m->value[ZN_KEY_ID], why)))
		return -ENOSPC;
	err = tag_if_there(j, job, m, source, why);
	if (err && fresh)
		forget_job(j, job);
	if (err) /* a job that ran before is as it was */
		return err;
	if (!zn_job_runs(job)) /* its report was written without what is said now */
		reopen_job(job);
	job->source = source;
	learn_keys(job, m);
	name_job(j, job, m);
	zn_job_gpus_given(j, job);
	if (start_ns < job->start_ns) {
		job->start_ns = start_ns;
		job->start_wall_ms = start_ms;
	}
	if (j->started)
		j->started(j->owner, job);
	return 0;
}

/* An epilog without a restart count is about the running job. A late epilog, as after a pause, ends the job all
 * the same and brings the exit code. */
static struct zn_job *meant_to_end(struct zn_jobs *j, const struct zn_message *m)
{
	uint32_t restart = restart_of(m);
	struct zn_job *job = zn_jobs_find(j, m->value[ZN_KEY_ID], ZN_UNKNOWN);

	if (job && job->announced && restart != ZN_UNKNOWN && job->restart != restart)
		job = zn_jobs_find_known(j, m->value[ZN_KEY_ID], restart);
	if (!job && m->value[ZN_KEY_SLUID][0])
		job = zn_jobs_find_known(j, m->value[ZN_KEY_SLUID], ZN_UNKNOWN);
	return job && (zn_job_runs(job) || may_resume(job)) ? job : NULL;
}

int zn_jobs_end(struct zn_jobs *j, const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	struct zn_job *job = meant_to_end(j, m);
	uint64_t end_ns;

	if (!job)
		return 0;
	if (!said_at(m, &end_ns, &(uint64_t){0}, why))
		return -ESTALE;
	learn_keys(job, m);
	name_job(j, job, m); /* of one whose prolog was not heard only the SLUID may be known */
	if (!zn_job_runs(job))
		reopen_job(job);
	if (!job->epilog) {
		job->epilog = true;
		job->epilog_ns = end_ns > job->start_ns ? end_ns : job->start_ns;
	}
	/* what it left of itself is of no further job; and who has exited by now is counted in */
	j->agg->arena->ops->job_unname(j->agg->arena, job->slot);
	zn_agg_refresh(j->agg);
	update_life(j, job, zn_now_ns());
	if (zn_job_runs(job) && j->started) /* nobody says it again, should the daemon end before the job does */
		j->started(j->owner, job);
	return 0;
}

int zn_jobs_open(struct zn_jobs *j, struct zn_agg *agg, struct zn_alerts *alerts)
{
	void *at = mmap(NULL, ZN_JOBS_MAX * ZN_JOB_GONE_BYTES, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return -errno;
	if (j->agg) /* a fresh one is zero, and memory that nobody needs is not touched */
		memset(j, 0, sizeof(*j));
	j->memory = at;
	j->agg = agg;
	j->alerts = alerts;
	agg->jobs = j;
	agg->gone_row = gone_row;
	return 0;
}

void zn_jobs_close(struct zn_jobs *j)
{
	if (j->memory)
		munmap(j->memory, ZN_JOBS_MAX * ZN_JOB_GONE_BYTES);
	if (j->agg) {
		j->agg->gone_row = NULL;
		j->agg->jobs = NULL;
	}
	j->memory = NULL;
}
