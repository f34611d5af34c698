/* SPDX-License-Identifier: GPL-2.0 */
/*
 * control_verbs.c: what is asked for on the control socket, a function for each verb of a message.
 *
 * Limits: the report of a job that was forgotten is read from its file on the loop, so the report folder should be on a
 * disk of this node.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESTARTS_TRIED 64 /* of a job whose restart count was not given */

static int fail_with(struct zn_control_request *r, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
static int fail_with(struct zn_control_request *r, int err, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->why, sizeof(r->why), format, args);
	va_end(args);
	return err;
}

static bool may_see(const struct zn_control_request *r, const struct zn_job *job)
{
	return r->asker.any || (job->uid != ZN_UNKNOWN && job->uid == r->asker.uid);
}

/* ---- What is asked for. Each writes the text of the answer, or returns -errno with r->why. ---- */

static const char *value_of(const struct zn_control_request *r, enum zn_key key)
{
	return r->message.value[key];
}

static uint32_t restart_of(const struct zn_control_request *r)
{
	const char *text = value_of(r, ZN_KEY_RESTART);

	return *text ? (uint32_t)strtoul(text, NULL, 10) : ZN_UNKNOWN;
}

static struct zn_job *find_job(struct zn_control_request *r)
{
	return zn_jobs_find(r->state->jobs, value_of(r, ZN_KEY_ID), restart_of(r));
}

/* What everybody may know of a job. */
static void put_brief(struct zn_json *j, const struct zn_job *job)
{
	zn_json_open(j, '{');
	zn_json_key(j, "job_id");
	zn_json_text(j, job->id);
	zn_json_key(j, "restart");
	zn_json_u64(j, job->restart);
	zn_json_key(j, "state");
	zn_json_text(j, zn_job_state_label(job->state));
	zn_json_close(j, '}');
}

static void put_told(struct zn_control_request *r, struct zn_out *o)
{
	struct zn_job *job = find_job(r);
	struct zn_json j;

	zn_json_begin(&j, o);
	if (job)
		put_brief(&j, job);
	else
		zn_json_null(&j);
}

/* A task prolog runs as its job, and knows what no prolog is given. The record is written once for each label: a
 * user who repeats a message could else fill the writer's queue, and reports of others would be lost. */
static int describe_job(struct zn_control_request *r)
{
	int changes = zn_jobs_describe(r->state->jobs, &r->message, r->asker.uid, r->why);
	struct zn_job *job = changes > 0 ? find_job(r) : NULL;

	if (job)
		zn_spool_record(r->state->writer, job);
	return changes < 0 ? changes : 0;
}

static int start_job(struct zn_control_request *r, struct zn_out *o)
{
	enum zn_job_source by =
		*value_of(r, ZN_KEY_PID) || *value_of(r, ZN_KEY_CGROUP) ? ZN_JOB_BY_TAG : ZN_JOB_BY_PROLOG;
	int err = r->asker.any ? zn_jobs_start(r->state->jobs, &r->message, by, r->why) : describe_job(r);

	if (!err)
		put_told(r, o);
	return err;
}

static int end_job(struct zn_control_request *r, struct zn_out *o)
{
	int err;

	if (!r->asker.any)
		return fail_with(r, -EPERM, "only root may end a job");
	err = zn_jobs_end(r->state->jobs, &r->message, r->why);
	if (!err)
		put_told(r, o);
	return err;
}

/* Jobs that run come first, then those that have ended. */
static bool put_job(const void *owner, struct zn_json *j, uint32_t i)
{
	const struct zn_control_request *r = owner;
	struct zn_job *job = &r->state->jobs->job[i % ZN_JOBS_MAX];

	if (i == 2 * ZN_JOBS_MAX)
		return false;
	if (job->state == ZN_JOB_FREE || (job->state == ZN_JOB_ENDED) != (i >= ZN_JOBS_MAX))
		return true;
	if (!may_see(r, job))
		put_brief(j, job);
	else if (*value_of(r, ZN_KEY_JSON))
		zn_job_json(j, r->state, job);
	else
		zn_job_json_row(j, r->state, job);
	return true;
}

static int list_jobs(struct zn_control_request *r, struct zn_out *o)
{
	struct zn_json j;
	bool whole;

	zn_state_refresh(r->state);
	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "jobs", '[', put_job, r);
	zn_json_end(&j, whole);
	return 0;
}

static int no_job(struct zn_control_request *r)
{
	return fail_with(r, -ENOENT, "no job %s here", value_of(r, ZN_KEY_ID));
}

static int show_job(struct zn_control_request *r, struct zn_out *o)
{
	struct zn_job *job = find_job(r);
	struct zn_json j;

	if (!job)
		return no_job(r);
	zn_state_refresh(r->state);
	zn_json_begin(&j, o);
	if (may_see(r, job))
		zn_job_json(&j, r->state, job);
	else
		put_brief(&j, job);
	return 0;
}

/* Reads a plain file of our folder; an empty text is none that could be read. */
static struct zn_str read_file(struct zn_control_request *r, const char *name)
{
	char path[ZN_TEXT_MAX + ZN_NAME_BYTES];
	struct zn_str text = {r->report, 0};
	struct stat st;
	ssize_t got = 0;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", r->state->options->report_dir, name);
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0)
		return text;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		while (text.len < sizeof(r->report) &&
			(got = read(fd, r->report + text.len, sizeof(r->report) - text.len)) > 0)
			text.len += (size_t)got;
	close(fd);
	if (got < 0 || text.len == sizeof(r->report))
		text.len = 0;
	return text;
}

/* Others may be able to write into the folder: the file must be about this job, and name the owner of that. */
static bool may_read(struct zn_control_request *r, struct zn_str report)
{
	struct zn_str whose = zn_json_member(report, "uid");
	char id[ZN_JOB_NAME];

	zn_json_string(zn_json_member(report, "job_id"), id, sizeof(id));
	if (strcmp(id, value_of(r, ZN_KEY_ID)))
		return false;
	return r->asker.any ||
		(whose.len && *whose.at >= '0' && *whose.at <= '9' && zn_json_integer(whose) == r->asker.uid);
}

/* The newest of some files that the asker may read. */
struct kept {
	char name[ZN_NAME_BYTES]; /* empty: none so far */
	uint64_t ms;
};

/* An empty text: it is not to be had, or not for the asker. */
static struct zn_str read_for(struct zn_control_request *r, const char *name)
{
	struct zn_str text = read_file(r, name);

	return text.len && !zn_json_check(text) && may_read(r, text) ? text : (struct zn_str){r->report, 0};
}

/* when: the member that says of when it is */
static void keep_newer(struct zn_control_request *r, struct kept *k, const char *name, const char *when)
{
	struct zn_str text = read_for(r, name);
	uint64_t ms = text.len ? zn_json_integer(zn_json_member(text, when)) : 0;

	if (!text.len || (k->name[0] && ms <= k->ms))
		return;
	k->ms = ms;
	snprintf(k->name, sizeof(k->name), "%s", name);
}

/* An empty text: there is none. The file may be another one by now. */
static struct zn_str read_kept(struct zn_control_request *r, const struct kept *k)
{
	return k->name[0] ? read_for(r, k->name) : (struct zn_str){r->report, 0};
}

/* Restarts of a job whose files are looked at: the one that was asked for, else that of the job, else all; none without
 * a folder. */
struct restarts {
	uint32_t first, end;
};

static struct restarts restarts_of(struct zn_control_request *r)
{
	uint32_t asked = restart_of(r);
	const struct zn_job *job = find_job(r);

	if (!r->state->options->report_dir[0])
		return (struct restarts){0, 0};
	if (asked == ZN_UNKNOWN && job)
		asked = job->restart;
	return asked == ZN_UNKNOWN ? (struct restarts){0, RESTARTS_TRIED} : (struct restarts){asked, asked + 1};
}

/* Ids begin anew in time, so the highest restart need not be the last run. */
static struct zn_str kept_report(struct zn_control_request *r)
{
	struct restarts of = restarts_of(r);
	struct kept k = {0};
	char name[ZN_NAME_BYTES];

	for (uint32_t i = of.end; i-- > of.first;) {
		zn_job_file(name, "", value_of(r, ZN_KEY_ID), i, ".json");
		keep_newer(r, &k, name, "end_ms");
	}
	return read_kept(r, &k);
}

static int find_report(struct zn_control_request *r, struct zn_str *report)
{
	struct zn_out o = {.at = r->report, .cap = sizeof(r->report)};
	struct zn_job *job = find_job(r);

	if (job && !may_see(r, job))
		return fail_with(
			r, -EPERM, "only its owner and root may read the report of job %s", value_of(r, ZN_KEY_ID));
	if (job) {
		zn_state_refresh(r->state);
		zn_report_json(&o, r->state, job);
		*report = (struct zn_str){o.at, o.full ? 0 : o.len};
		return o.full ? fail_with(r, -EMSGSIZE, "the report is too long") : 0;
	}
	*report = kept_report(r);
	if (!report->len)
		return fail_with(r, -ENOENT, "no report of job %s here, or it is not yours", value_of(r, ZN_KEY_ID));
	return 0;
}

static int send_report(struct zn_control_request *r, struct zn_out *o)
{
	struct zn_str json;
	int err = find_report(r, &json);

	if (err)
		return err;
	if (*value_of(r, ZN_KEY_JSON))
		zn_out_bytes(o, json.at, json.len);
	else if (*value_of(r, ZN_KEY_LINE))
		zn_line_report(o, json);
	else if (*value_of(r, ZN_KEY_MAIL))
		zn_line_mail(o, json);
	else
		zn_report_page(o, json);
	return 0;
}

static struct zn_str kept_hang(struct zn_control_request *r)
{
	struct restarts of = restarts_of(r);
	struct kept k = {0};
	char name[ZN_NAME_BYTES];

	for (uint32_t i = of.end; i-- > of.first;)
		for (uint32_t n = 1; n <= ZN_FLIGHTS; n++) {
			zn_job_file_hang(name, value_of(r, ZN_KEY_ID), i, n);
			keep_newer(r, &k, name, "at_ms");
		}
	return read_kept(r, &k);
}

static int send_hang(struct zn_control_request *r, struct zn_out *o)
{
	struct zn_str json = kept_hang(r);

	if (!json.len)
		return fail_with(
			r, -ENOENT, "no hang of job %s was recorded here, or it is not yours", value_of(r, ZN_KEY_ID));
	zn_out_bytes(o, json.at, json.len);
	return 0;
}

/* An annotation, like all that a program says of itself, changes nothing but what is shown. */
static int annotate_job(struct zn_control_request *r, struct zn_out *o)
{
	(void)o;
	if (!r->state->annotations)
		return fail_with(r, -ENOSYS, "this daemon keeps no annotations");
	return zn_annotator_say(&r->asker, r->state->annotations, r->state->jobs, &r->message, r->why);
}

static int (*const verbs[])(struct zn_control_request *r, struct zn_out *o) = {
	[ZN_VERB_START] = start_job,
	[ZN_VERB_END] = end_job,
	[ZN_VERB_LIST] = list_jobs,
	[ZN_VERB_SHOW] = show_job,
	[ZN_VERB_REPORT] = send_report,
	[ZN_VERB_HANG] = send_hang,
	[ZN_VERB_ANNOTATE] = annotate_job,
};

/* Messages in the spool come before this one. A message that was acted on already is answered again, and not acted
 * on twice: its sender gave up and left it in the spool. */
int zn_control_act(struct zn_control_request *r, size_t len, struct zn_out *o)
{
	struct zn_moment now;
	bool tags;

	if (len > sizeof(r->text))
		return fail_with(r, -EMSGSIZE, "a message longer than %d bytes", ZN_MESSAGE_BYTES);
	if (zn_message_read(&r->message, r->text, len, r->why))
		return -EINVAL;
	if (!r->state->jobs)
		return fail_with(r, -ENOSYS, "this daemon keeps no jobs");
	zn_moment_now(&now);
	if (!*value_of(r, ZN_KEY_BOOT)) /* who says it now is of this boot, however the wall clock was set meanwhile */
		zn_message_set(&r->message, ZN_KEY_BOOT, now.boot);
	tags = r->asker.any && (r->message.verb == ZN_VERB_START || r->message.verb == ZN_VERB_END);
	if (tags)
		zn_spool_check(r->spool);
	if (tags && *value_of(r, ZN_KEY_TIME) && zn_spool_taken(r->spool, (struct zn_str){r->text, len})) {
		put_told(r, o);
		return 0;
	}
	return verbs[r->message.verb](r, o);
}
