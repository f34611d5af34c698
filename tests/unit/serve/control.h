/* SPDX-License-Identifier: GPL-2.0 */
/*
 * control.h: the control socket with its spool, for the tests of this folder: real sockets and files, on one
 * thread. The loop runs until nothing moves, so that nothing depends on timing. Time limits are tested by saying
 * that it is later. The table of jobs, reports and the writer are made up here, and say what they were asked for.
 * Run by root, it connects as another user too.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define H      "zernel 1 "
#define NOBODY 65534
/* CHECK_STR() looks twice at what it is given. */
#define CHECK_GOT(expression, want)                                                                                    \
	do {                                                                                                           \
		const char *text_ = (expression);                                                                      \
		CHECK_STR(text_, want);                                                                                \
	} while (0)

static char folder[] = "/tmp/zn_control_XXXXXX";
static struct zn_loop loop = {.fd = -1};
static struct zn_options options;
static struct zn_jobs jobs;
static struct zn_agg agg;
static struct zn_writer writer = {.worker.fd = -1};
static struct zn_annotations annotations;
static struct zn_state view = {
	.options = &options, .jobs = &jobs, .agg = &agg, .writer = &writer, .annotations = &annotations};
static struct zn_control *c;
static struct zn_annotator annotator;  /* who asked last */
static char annotated[ZN_VALUE_BYTES]; /* and what was said */
static char answer[ZN_ANSWER_BYTES + 1];

/* ---- What the modules around it would do. ---- */

static char said[4096]; /* what was asked of them, in order */
static char logged[ZN_TEXT_MAX];
static unsigned log_lines;
static int start_error;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void note(const char *format, ...)
{
	size_t len = strlen(said);
	va_list args;

	va_start(args, format);
	vsnprintf(said + len, sizeof(said) - len, format, args);
	va_end(args);
}

void zn_log(enum zn_level level, const char *format, ...)
{
	va_list args;

	(void)level;
	log_lines++;
	va_start(args, format);
	vsnprintf(logged, sizeof(logged), format, args);
	va_end(args);
}

static inline uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * ZN_NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t zn_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static int64_t clock_step_ms; /* by which the wall clock was set */

uint64_t zn_wall_ms(void)
{
	return clock_ns(CLOCK_REALTIME) / ZN_NS_PER_MS + (uint64_t)clock_step_ms;
}

#define BOOT_ID "01234567-89ab-cdef-0123-456789abcdef"
#define IS_BOOT "boot=" BOOT_ID "\n"

void zn_moment_now(struct zn_moment *m)
{
	*m = (struct zn_moment){zn_wall_ms(), clock_ns(CLOCK_BOOTTIME) / ZN_NS_PER_MS, BOOT_ID};
}

int zn_annotator_say(const struct zn_annotator *who, struct zn_annotations *a, struct zn_jobs *j,
	const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	(void)a;
	(void)j;
	annotator = *who;
	snprintf(annotated, sizeof(annotated), "%s", m->value[ZN_KEY_LABELS]);
	if (strcmp(annotated, "refused=1"))
		return 0;
	snprintf(why, ZN_TEXT_MAX, "refused, as was asked for");
	return -EPERM;
}

struct zn_job *zn_jobs_find(struct zn_jobs *j, const char *id, uint32_t restart)
{
	for (uint32_t i = 0; i < ZN_JOBS_MAX; i++)
		if (j->job[i].state != ZN_JOB_FREE && !strcmp(j->job[i].id, id) &&
			(restart == ZN_UNKNOWN || j->job[i].restart == restart))
			return &j->job[i];
	return NULL;
}

static inline void add_job(uint32_t slot, const char *id, uint32_t uid, enum zn_job_state state)
{
	struct zn_job *job = &jobs.job[slot];

	*job = (struct zn_job){.state = state, .slot = slot, .uid = uid, .start_wall_ms = 1234};
	snprintf(job->id, sizeof(job->id), "%.*s", (int)sizeof(job->id) - 1, id);
	zn_message_set(&job->about, ZN_KEY_ID, id);
}

int zn_jobs_start(struct zn_jobs *j, const struct zn_message *m, enum zn_job_source source, char why[ZN_TEXT_MAX])
{
	const char *id = m->value[ZN_KEY_ID];

	note("start %s by %d\n", id, source);
	if (start_error)
		snprintf(why, ZN_TEXT_MAX, "the table of jobs is full");
	else if (!zn_jobs_find(j, id, ZN_UNKNOWN))
		add_job(j->job[0].state ? 1 : 0, id, ZN_UNKNOWN, ZN_JOB_RUNNING);
	return start_error;
}

int zn_jobs_end(struct zn_jobs *j, const struct zn_message *m, char why[ZN_TEXT_MAX])
{
	struct zn_job *job = zn_jobs_find(j, m->value[ZN_KEY_ID], ZN_UNKNOWN);

	(void)why;
	note("end %s\n", m->value[ZN_KEY_ID]);
	if (job)
		job->state = ZN_JOB_ENDED;
	return 0;
}

int zn_jobs_describe(struct zn_jobs *j, const struct zn_message *m, uint32_t uid, char why[ZN_TEXT_MAX])
{
	struct zn_job *job = zn_jobs_find(j, m->value[ZN_KEY_ID], ZN_UNKNOWN);

	note("describe %s as %u\n", m->value[ZN_KEY_ID], uid);
	snprintf(why, ZN_TEXT_MAX, "not yours");
	return job && job->uid == uid ? m->value[ZN_KEY_NAME][0] != 0 : -EPERM;
}

const char *zn_job_state_label(enum zn_job_state s)
{
	return s == ZN_JOB_RUNNING ? "running" : s == ZN_JOB_ENDED ? "ended" : "other";
}

static void put_job(struct zn_json *j, const struct zn_job *job, const char *key, const char *value)
{
	zn_json_open(j, '{');
	zn_json_key(j, "job_id");
	zn_json_text(j, job->id);
	zn_json_key(j, key);
	zn_json_text(j, value);
	zn_json_close(j, '}');
}

void zn_job_json_row(struct zn_json *j, const struct zn_state *v, struct zn_job *job)
{
	(void)v;
	put_job(j, job, "row", "of a table");
}

void zn_job_json(struct zn_json *j, const struct zn_state *v, struct zn_job *job)
{
	(void)v;
	put_job(j, job, "secret", job->about.value[ZN_KEY_NAME]);
}

void zn_state_refresh(const struct zn_state *v)
{
	(void)v;
}

void zn_report_json(struct zn_out *o, const struct zn_state *v, struct zn_job *job)
{
	(void)v;
	zn_out_text(o, "{\"job_id\":\"");
	zn_out_text(o, job->id);
	zn_out_text(o, "\"}");
}

void zn_report_page(struct zn_out *o, struct zn_str json)
{
	zn_out_text(o, "page of ");
	zn_out_bytes(o, json.at, json.len);
}

void zn_line_report(struct zn_out *o, struct zn_str json)
{
	zn_out_text(o, "line of ");
	zn_out_bytes(o, json.at, json.len);
}

void zn_line_mail(struct zn_out *o, struct zn_str json)
{
	zn_out_text(o, "mail of ");
	zn_out_bytes(o, json.at, json.len);
}

void zn_agg_refresh(struct zn_agg *a)
{
	(void)a;
}

bool zn_writer_write(struct zn_writer *s, enum zn_directory directory, const char *name, struct zn_str text)
{
	const char *uptime = memmem(text.at, text.len, "uptime=", 7);

	(void)s;
	note("write %d %s: %.*s", directory, name, (int)(uptime ? (size_t)(uptime - text.at) : text.len), text.at);
	return true;
}

static bool starting;

bool zn_writer_remove(struct zn_writer *s, enum zn_directory directory, const char *name)
{
	char path[ZN_TEXT_MAX];

	(void)s;
	if (!starting) /* the order of these is that of the folder */
		note("remove %d %s\n", directory, name);
	snprintf(path, sizeof(path), "%s/run/jobs.d/%s", folder, name);
	return !unlink(path);
}

/* ---- The ground the tests stand on. ---- */

static inline const char *at(const char *name)
{
	static char paths[4][ZN_TEXT_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, ZN_TEXT_MAX, "%s/%s", folder, name);
	return path;
}

static inline void write_bytes(const char *name, const char *text, size_t len)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd))
		abort();
}

static inline void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static inline bool there(const char *name)
{
	struct stat st;

	return !lstat(at(name), &st);
}

static inline void forget_all(void)
{
	memset(&jobs, 0, sizeof(jobs));
	said[0] = logged[0] = '\0';
	log_lines = 0;
	start_error = 0;
}

static inline void remove_run(void)
{
	char command[ZN_TEXT_MAX];

	snprintf(command, sizeof(command), "rm -rf %s/run %s/reports", folder, folder);
	if (system(command))
		abort();
}

static inline int open_control(char why[ZN_TEXT_MAX])
{
	int err = zn_control_open(&c, &loop, &view, at("run/control.sock"), why);

	starting = true;
	err = err ? err : zn_control_start(c);
	starting = false;
	return err;
}

static inline void up(void)
{
	char why[ZN_TEXT_MAX] = "";

	if (zn_loop_open(&loop) || open_control(why)) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
}

static inline void down(void)
{
	zn_control_close(c);
	zn_loop_close(&loop);
	c = NULL;
}

static inline void fresh(void)
{
	forget_all();
	remove_run();
	mkdir(at("reports"), 0755);
	options.simulate = true;
	snprintf(options.report_dir, sizeof(options.report_dir), "%s", at("reports"));
	writer.available[ZN_DIRECTORY_SPOOL] = writer.wanted[ZN_DIRECTORY_SPOOL] = true;
	up();
}

/* Until nothing moves; false if that takes for ever. */
static inline bool settle(void)
{
	struct epoll_event events[64];
	int count;

	for (int turns = 0; turns < 1000; turns++) {
		count = epoll_wait(loop.fd, events, 64, 0);
		if (count <= 0)
			return true;
		for (int i = 0; i < count; i++) {
			struct zn_io *io = events[i].data.ptr;

			if (io->fd >= 0)
				io->ready(io, events[i].events);
		}
	}
	return false;
}

static inline int connect_as(uid_t uid)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	strcpy(to.sun_path, at("run/control.sock"));
	if (seteuid(uid) || fd < 0)
		abort();
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		fd = -errno;
	}
	if (seteuid(getuid()))
		abort();
	return fd;
}

static inline const char *receive(int fd)
{
	ssize_t len = recv(fd, answer, sizeof(answer) - 1, 0);

	if (len < 0 && errno == ECONNRESET)
		len = recv(fd, answer, sizeof(answer) - 1, 0);
	answer[len > 0 ? len : 0] = '\0';
	return len < 0 ? strerror(errno) : answer;
}

static inline const char *ask_bytes(uid_t uid, const char *text, size_t len)
{
	int fd = connect_as(uid);
	const char *got;

	settle();
	send(fd, text, len, MSG_NOSIGNAL);
	settle();
	got = receive(fd);
	close(fd);
	settle();
	return got;
}

static inline const char *ask(const char *text)
{
	return ask_bytes(getuid(), text, strlen(text));
}

#endif
