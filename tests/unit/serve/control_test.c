/* SPDX-License-Identifier: GPL-2.0 */
/*
 * control_test.c: the control socket and the spool (control.c, spool.c) with real sockets and files, on one thread: the loop
 * runs until nothing moves, so that nothing depends on timing. Time limits are tested by saying that it is later. The table
 * of jobs, reports and the writer are made up here, and say what they were asked for. Run by root, it connects as another
 * user too.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
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
#define A64 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

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
static void note(const char *format, ...)
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

static uint64_t clock_ns(clockid_t id)
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

static void add_job(uint32_t slot, const char *id, uint32_t uid, enum zn_job_state state)
{
	struct zn_job *job = &jobs.job[slot];

	*job = (struct zn_job){.state = state, .slot = slot, .uid = uid, .start_wall_ms = 1234};
	snprintf(job->id, sizeof(job->id), "%s", id);
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

void zn_job_json(struct zn_json *j, const struct zn_state *v, struct zn_job *job)
{
	(void)v;
	zn_json_open(j, '{');
	zn_json_key(j, "job_id");
	zn_json_text(j, job->id);
	zn_json_key(j, "secret");
	zn_json_text(j, job->about.value[ZN_KEY_NAME]);
	zn_json_close(j, '}');
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

void zn_report_line(struct zn_out *o, struct zn_str json)
{
	zn_out_text(o, "line of ");
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

bool zn_writer_remove(struct zn_writer *s, enum zn_directory directory, const char *name)
{
	char path[ZN_TEXT_MAX];

	(void)s;
	note("remove %d %s\n", directory, name);
	snprintf(path, sizeof(path), "%s/run/jobs.d/%s", folder, name);
	return !unlink(path);
}

/* ---- The ground the tests stand on. ---- */

static const char *at(const char *name)
{
	static char paths[4][ZN_TEXT_MAX];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, ZN_TEXT_MAX, "%s/%s", folder, name);
	return path;
}

static void write_bytes(const char *name, const char *text, size_t len)
{
	int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd))
		abort();
}

static void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

static bool there(const char *name)
{
	struct stat st;

	return !lstat(at(name), &st);
}

static void forget_all(void)
{
	memset(&jobs, 0, sizeof(jobs));
	said[0] = logged[0] = '\0';
	log_lines = 0;
	start_error = 0;
}

static void remove_run(void)
{
	char command[ZN_TEXT_MAX];

	snprintf(command, sizeof(command), "rm -rf %s/run %s/reports", folder, folder);
	if (system(command))
		abort();
}

static int open_control(char why[ZN_TEXT_MAX])
{
	return zn_control_open(&c, &loop, &view, at("run/control.sock"), why);
}

static void up(void)
{
	char why[ZN_TEXT_MAX] = "";

	if (zn_loop_open(&loop) || open_control(why)) {
		fprintf(stderr, "%s\n", why);
		abort();
	}
}

static void down(void)
{
	zn_control_close(c);
	zn_loop_close(&loop);
	c = NULL;
}

static void fresh(void)
{
	forget_all();
	remove_run();
	mkdir(at("reports"), 0755);
	options.simulate = true;
	snprintf(options.report_dir, sizeof(options.report_dir), "%s", at("reports"));
	writer.available[ZN_DIRECTORY_SPOOL] = true;
	up();
}

/* Until nothing moves; false if that takes for ever. */
static bool settle(void)
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

static int connect_as(uid_t uid)
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

static const char *receive(int fd)
{
	ssize_t len = recv(fd, answer, sizeof(answer) - 1, 0);

	if (len < 0 && errno == ECONNRESET)
		len = recv(fd, answer, sizeof(answer) - 1, 0);
	answer[len > 0 ? len : 0] = '\0';
	return len < 0 ? strerror(errno) : answer;
}

/* The daemon looks at nobody after many refusals, for 10 ms. */
static void outlast_pause(void)
{
	usleep(20000);
	settle();
}

static const char *ask_bytes(uid_t uid, const char *text, size_t len)
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

static const char *ask(const char *text)
{
	return ask_bytes(getuid(), text, strlen(text));
}

static unsigned open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

/* ---- What is asked. ---- */

static const struct {
	const char *name, *text, *answer, *said;
} asked[] = {
	{"start", H "start\nid=7\n", "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}", "start 7 by 1\n"},
	{"start by a process", H "start\nid=7\npid=1\n", "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}",
		"start 7 by 2\n"},
	{"start by a control group", H "start\nid=7\ncgroup=/a\n",
		"ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}", "start 7 by 2\n"},
	{"the end of an unknown job", H "end\nid=7\n", "ok\nnull", "end 7\n"},
	{"the end", H "end\nid=1000\n", "ok\n{\"job_id\":\"1000\",\"restart\":0,\"state\":\"ended\"}", "end 1000\n"},
	{"list", H "list\n", "ok\n{\"jobs\":[{\"job_id\":\"1000\",\"secret\":\"a\\\"b\\\\\"}]}", ""},
	{"show", H "show\nid=1000\n", "ok\n{\"job_id\":\"1000\",\"secret\":\"a\\\"b\\\\\"}", ""},
	{"show nothing", H "show\nid=7\n", "error: no job 7 here\n", ""},
	{"show another restart", H "show\nid=1000\nrestart=3\n", "error: no job 1000 here\n", ""},
	{"report", H "report\nid=1000\n", "ok\npage of {\"job_id\":\"1000\"}", ""},
	{"report as JSON", H "report\nid=1000\njson=1\n", "ok\n{\"job_id\":\"1000\"}", ""},
	{"report as a line", H "report\nid=1000\nline=1\n", "ok\nline of {\"job_id\":\"1000\"}", ""},
	{"no report", H "report\nid=7\n", "error: no report of job 7 here, or it is not yours\n", ""},
	{"annotate", H "annotate\nlabels=a=1,b=2\n", "ok\n", ""},
	{"annotate, refused", H "annotate\nlabels=refused=1\n", "error: refused, as was asked for\n", ""},
	{"no message", "hello\n", "error: the first line is not \"zernel 1 VERB\"\n", ""},
	{"GET", "GET / HTTP/1.1\r\n\r\n", "error: the first line is not \"zernel 1 VERB\"\n", ""},
	{"bad UTF-8", H "start\nid=7\nname=\xff\xfe\n", "error: name: a byte that is not printable ASCII\n", ""},
	{"path as id", H "report\nid=../../etc/passwd\n",
		"error: id must be a number from 1 to 4294967294, or a word of up to 15 of A-Z a-z 0-9 . _ -, but not NUMBER_NUMBER\n",
		""},
	{"id of 2^64", H "start\nid=18446744073709551616\n",
		"error: id must be a number from 1 to 4294967294, or a word of up to 15 of A-Z a-z 0-9 . _ -, but not NUMBER_NUMBER\n",
		""},
	{"line feed in a label", H "start\nid=7\nname=a\nb\n", "error: a line without '='\n", ""},
};

static void answers(void)
{
	for (size_t i = 0; i < ZN_LEN(asked); i++) {
		t_begin(asked[i].name);
		fresh();
		add_job(5, "1000", 1000, ZN_JOB_RUNNING);
		zn_message_set(&jobs.job[5].about, ZN_KEY_NAME, "a\"b\\");
		CHECK_GOT(ask(asked[i].text), asked[i].answer);
		CHECK_STR(said, asked[i].said);
		down();
	}
}

T(who_annotates)
{
	static const char message[] = H "annotate\nlabels=step=7\n";

	fresh();
	view.annotations = NULL;
	CHECK_GOT(ask(message), "error: this daemon keeps no annotations\n");
	view.annotations = &annotations;
	CHECK_GOT(ask(message), "ok\n");
	CHECK(annotator.any && annotator.uid == 0 && annotator.pid == (uint32_t)getpid());
	CHECK_STR(annotated, "step=7");
	CHECK_GOT(ask_bytes(NOBODY, message, strlen(message)), "ok\n");
	CHECK(!annotator.any && annotator.uid == NOBODY && annotator.owner == NOBODY);
	down();
}

T(a_full_table_is_told)
{
	fresh();
	start_error = -ENOSPC;
	CHECK_GOT(ask(H "start\nid=7\n"), "error: the table of jobs is full\n");
	down();
}

T(messages_of_any_size)
{
	static char text[300000] = H "start\nid=7\nname=";
	size_t head = strlen(text);

	fresh();
	memset(text + head, 'a', sizeof(text) - head);
	CHECK_GOT(ask_bytes(getuid(), text, 4097), "error: a message longer than 4096 bytes\n");
	CHECK_GOT(ask_bytes(getuid(), text, 100000), "error: a message longer than 4096 bytes\n");
	CHECK_GOT(ask_bytes(getuid(), text, 4096), "error: the last line has no end\n");
	CHECK_GOT(ask_bytes(getuid(), text, 0), ""); /* none: the end */
	CHECK_STR(said, "");
	down();
}

T(many_jobs_are_cut)
{
	struct zn_str list;

	fresh();
	for (uint32_t i = 0; i < ZN_JOBS_MAX; i++) {
		char id[ZN_JOB_NAME];

		snprintf(id, sizeof(id), "%u", 100000 + i);
		add_job(i, id, 1000, i % 2 ? ZN_JOB_RUNNING : ZN_JOB_ENDED);
		memset(jobs.job[i].about.value[ZN_KEY_NAME], '"', 256); /* twice as long in JSON */
	}
	ask(H "list\n");
	list = (struct zn_str){answer + 3, strlen(answer + 3)};
	CHECK_EQ(zn_json_check(list), 0);
	CHECK(zn_json_member(list, "truncated").len > 0);
	CHECK(list.len > 100000 && list.len < ZN_ANSWER_BYTES);
	CHECK(!strncmp(list.at, "{\"jobs\":[{\"job_id\":\"100001\"", 27)); /* one that runs */
	down();
}

/* ---- Who asks. ---- */

static const struct {
	const char *name, *text, *answer, *said;
} nobodys[] = {
	{"nobody starts", H "start\nid=7\n", "error: not yours\n", "describe 7 as 65534\n"},
	{"nobody ends", H "end\nid=1000\n", "error: only root may end a job\n", ""},
	{"nobody ends its own", H "end\nid=65534\n", "error: only root may end a job\n", ""},
	{"nobody adds labels to its own", H "start\nid=65534\nname=x\n",
		"ok\n{\"job_id\":\"65534\",\"restart\":0,\"state\":\"running\"}",
		"describe 65534 as 65534\nwrite 1 job-65534: zernel 1 start\nid=65534\ntime=1234\n" IS_BOOT},
	{"nobody says nothing new of its own", H "start\nid=65534\n",
		"ok\n{\"job_id\":\"65534\",\"restart\":0,\"state\":\"running\"}", "describe 65534 as 65534\n"},
	{"nobody lists", H "list\n",
		"ok\n{\"jobs\":[{\"job_id\":\"1000\",\"restart\":0,\"state\":\"running\"},"
		"{\"job_id\":\"65534\",\"secret\":\"\"},{\"job_id\":\"9\",\"restart\":0,\"state\":\"running\"}]}",
		""},
	{"nobody shows another's", H "show\nid=1000\n", "ok\n{\"job_id\":\"1000\",\"restart\":0,\"state\":\"running\"}",
		""},
	{"nobody shows whose owner is not known", H "show\nid=9\n",
		"ok\n{\"job_id\":\"9\",\"restart\":0,\"state\":\"running\"}", ""},
	{"nobody shows its own", H "show\nid=65534\n", "ok\n{\"job_id\":\"65534\",\"secret\":\"\"}", ""},
	{"nobody reads another's report", H "report\nid=1000\n",
		"error: only its owner and root may read the report of job 1000\n", ""},
	{"nobody reads its own report", H "report\nid=65534\njson=1\n", "ok\n{\"job_id\":\"65534\"}", ""},
	{"nobody reads a kept report", H "report\nid=50\njson=1\n", "ok\n{\"job_id\":\"50\",\"uid\":65534}\n", ""},
	{"nobody reads another's kept report", H "report\nid=51\njson=1\n",
		"error: no report of job 51 here, or it is not yours\n", ""},
	{"nobody reads a kept report of unknown owner", H "report\nid=52\njson=1\n",
		"error: no report of job 52 here, or it is not yours\n", ""},
	{"nobody reads a kept report whose owner is text", H "report\nid=53\njson=1\n",
		"error: no report of job 53 here, or it is not yours\n", ""},
};

static void wrong_peers(void)
{
	for (size_t i = 0; i < ZN_LEN(nobodys) && !getuid(); i++) {
		t_begin(nobodys[i].name);
		fresh();
		add_job(5, "1000", 1000, ZN_JOB_RUNNING);
		add_job(6, "65534", NOBODY, ZN_JOB_RUNNING);
		add_job(7, "9", ZN_UNKNOWN, ZN_JOB_RUNNING);
		write_text("reports/50.json", "{\"job_id\":\"50\",\"uid\":65534}\n");
		write_text("reports/51.json", "{\"job_id\":\"51\",\"uid\":0}\n");
		write_text("reports/52.json", "{\"job_id\":\"52\",\"uid\":null}\n");
		write_text("reports/53.json", "{\"job_id\":\"53\",\"uid\":\"65534\"}\n");
		CHECK_GOT(ask_bytes(NOBODY, nobodys[i].text, strlen(nobodys[i].text)), nobodys[i].answer);
		CHECK_STR(said, nobodys[i].said);
		down();
	}
}

T(the_socket_is_for_all)
{
	struct stat st;

	fresh();
	CHECK(!stat(at("run/control.sock"), &st) && (st.st_mode & 07777) == 0666 && S_ISSOCK(st.st_mode));
	CHECK(!stat(at("run"), &st) && (st.st_mode & 07777) == 0755);
	down();
}

/* ---- Reports that were kept. ---- */

#define NO_REPORT(id) "error: no report of job " id " here, or it is not yours\n"

T(kept_reports)
{
	fresh();
	write_text("reports/50.json", "{\"job_id\":\"50\",\"uid\":1,\"restart\":0}");
	write_text("reports/50_2.json", "{\"job_id\":\"50\",\"uid\":1,\"restart\":2}");
	CHECK_GOT(ask(H "report\nid=50\njson=1\n"), "ok\n{\"job_id\":\"50\",\"uid\":1,\"restart\":2}");
	CHECK_GOT(ask(H "report\nid=50\nrestart=0\njson=1\n"), "ok\n{\"job_id\":\"50\",\"uid\":1,\"restart\":0}");
	CHECK_GOT(ask(H "report\nid=50\nrestart=1\njson=1\n"), NO_REPORT("50"));
	CHECK_GOT(ask(H "report\nid=50\nrestart=4294967293\njson=1\n"), NO_REPORT("50"));
	CHECK_GOT(ask(H "report\nid=50\nrestart=0\n"), "ok\npage of {\"job_id\":\"50\",\"uid\":1,\"restart\":0}");
	options.report_dir[0] = '\0';
	CHECK_GOT(ask(H "report\nid=50\njson=1\n"), NO_REPORT("50"));
	down();
}

T(what_is_no_report)
{
	static char huge[ZN_ANSWER_BYTES + 16];

	fresh();
	write_text("secret", "{\"job_id\":\"60\",\"uid\":0}");
	CHECK(!symlink(at("secret"), at("reports/60.json")));
	CHECK_GOT(ask(H "report\nid=60\n"), NO_REPORT("60"));
	CHECK(!mkfifo(at("reports/61.json"), 0600));
	CHECK_GOT(ask(H "report\nid=61\n"), NO_REPORT("61"));
	CHECK(!mkdir(at("reports/62.json"), 0700));
	CHECK_GOT(ask(H "report\nid=62\n"), NO_REPORT("62"));
	write_text("reports/63.json", "{\"job_id\":\"64\",\"uid\":0}");
	CHECK_GOT(ask(H "report\nid=63\n"), NO_REPORT("63"));
	write_text("reports/64.json", "{\"job_id\":\"64\",\"uid\":0");
	CHECK_GOT(ask(H "report\nid=64\n"), NO_REPORT("64"));
	write_text("reports/65.json", "");
	CHECK_GOT(ask(H "report\nid=65\n"), NO_REPORT("65"));
	memset(huge, ' ', sizeof(huge));
	memcpy(huge, "{\"job_id\":\"66\",\"uid\":0}", 23);
	write_bytes("reports/66.json", huge, sizeof(huge));
	CHECK_GOT(ask(H "report\nid=66\n"), NO_REPORT("66"));
	unlink(at("secret"));
	down();
}

/* ---- Connections. ---- */

T(too_many_clients)
{
	int fd[ZN_CONTROL_CLIENTS], more;

	fresh();
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		fd[i] = connect_as(getuid());
	settle();
	more = connect_as(getuid());
	send(more, H "list\n", 14, 0);
	settle();
	CHECK_GOT(receive(more), "busy: too many clients\n");
	close(more);
	CHECK(send(fd[3], H "list\n", 14, 0) == 14);
	settle();
	CHECK_GOT(receive(fd[3]), "ok\n{\"jobs\":[]}");
	CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}"); /* there is room again */
	zn_control_tick(c, zn_now_ns());
	CHECK_EQ(recv(fd[4], answer, sizeof(answer), 0), -1);
	zn_control_tick(c, zn_now_ns() + 3 * ZN_NS_PER_S);
	CHECK_GOT(receive(fd[4]), "busy: no message within 2 s\n");
	CHECK_GOT(receive(fd[4]), "");
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		close(fd[i]);
	down();
}

#define HIS_CLIENTS 12 /* half of what is not root's alone */

/* Without root there is but one user, who may tag in a simulation. */
T(no_user_keeps_root_out)
{
	int fd[HIS_CLIENTS], roots[ZN_CONTROL_CLIENTS];

	if (getuid())
		return;
	fresh();
	for (int i = 0; i < HIS_CLIENTS; i++)
		fd[i] = connect_as(NOBODY);
	settle();
	CHECK_GOT(ask_bytes(NOBODY, H "list\n", 14), "busy: too many clients of one user; try again\n");
	CHECK_GOT(ask_bytes(NOBODY - 1, H "list\n", 14), "ok\n{\"jobs\":[]}");
	CHECK_GOT(ask(H "start\nid=7\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}");
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		roots[i] = connect_as(0);
	CHECK(settle());
	for (int i = 0; i < HIS_CLIENTS; i++)
		CHECK_GOT(receive(fd[i]), "busy: too many clients\n");
	CHECK_GOT(ask(H "list\n"), "busy: too many clients\n");
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(logged,
		"quota: clients of the control socket: 2 refused, the last one to user 0, who holds 32 of 32; what was "
		"refused is not shown");
	for (int i = 0; i < ZN_CONTROL_CLIENTS; i++)
		close(roots[i]);
	for (int i = 0; i < HIS_CLIENTS; i++)
		close(fd[i]);
	settle();
	CHECK(!strncmp(ask_bytes(NOBODY, H "list\n", 14), "ok\n", 3));
	down();
}

/* A user's loop of requests is turned away beyond his allowance; root's and other users' are answered in between. */
T(requests_of_a_user_are_limited)
{
	uint64_t start_ns, took_ns;
	unsigned answered = 0, refused = 0;
	int waiting;

	if (getuid())
		return;
	fresh();
	start_ns = zn_now_ns();
	for (int i = 0; i < 1000; i++) {
		const char *got = ask_bytes(NOBODY, H "list\n", 14);

		answered += !strncmp(got, "ok\n", 3);
		refused += !strcmp(got, strerror(EAGAIN)); /* it would have to wait */
		if (i % 100 == 99) {
			for (int pauses = 0; pauses < 3; pauses++)
				outlast_pause();
			CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}");
			CHECK_GOT(ask_bytes(NOBODY - 1, H "list\n", 14), "ok\n{\"jobs\":[]}");
		}
	}
	took_ns = zn_now_ns() - start_ns;
	CHECK_EQ(answered + refused, 1000);
	CHECK(answered >= 100 && answered <= 101 + 50 * took_ns / ZN_NS_PER_S);
	for (int i = 0; i < 1000; i++)
		ask(H "list\n");
	CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}");
	for (int i = 0; i < 1000 && !strncmp(ask_bytes(NOBODY, H "list\n", 14), "ok\n", 3); i++)
		;
	waiting = connect_as(NOBODY);
	send(waiting, H "list\n", 14, 0);
	settle();
	CHECK_GOT(receive(waiting), strerror(EAGAIN));
	log_lines = 0;
	zn_control_tick(c, zn_now_ns());
	CHECK_GOT(receive(waiting), "busy: more than 50 requests a second of one user; try again\n");
	CHECK_GOT(receive(waiting), "");
	close(waiting);
	zn_control_tick(c, zn_now_ns() + 30 * ZN_NS_PER_S);
	CHECK(refused ? log_lines == 1 || log_lines == 2
		      : log_lines == 0); /* his clients may have taken their share, too */
	CHECK(!refused ||
		strstr(logged, "requests refused, the last one of user 65534: more than 50 a second of one user"));
	down();
}

T(a_flood_of_connections_is_taken_a_few_at_a_time)
{
	int pauses = 0, root;

	if (getuid())
		return;
	fresh();
	for (int i = 0; i < 1000 && !strncmp(ask_bytes(NOBODY, H "list\n", 14), "ok\n", 3); i++)
		;
	outlast_pause();
	for (int i = 0; i < 640; i++)
		close(connect_as(NOBODY));
	root = connect_as(getuid());
	send(root, H "list\n", 14, 0);
	for (settle(); pauses < 100 && strncmp(receive(root), "ok\n", 3); pauses++)
		outlast_pause();
	CHECK(pauses >= 9 && pauses <= 11);
	close(root);
	CHECK(settle());
	log_lines = 0;
	zn_control_tick(c, zn_now_ns() + 120 * ZN_NS_PER_S);
	CHECK_EQ(log_lines, 1);
	down();
}

/* Sends a message with an open file in it. */
static void send_file(int fd, const char *text)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {(char *)text, strlen(text)};
	struct msghdr m = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	CHECK(sendmsg(fd, &m, 0) == (ssize_t)strlen(text));
}

T(ten_thousand_connections_leave_nothing)
{
	unsigned before, answered = 0;

	fresh();
	before = open_files();
	for (int i = 0; i < 10000; i++) {
		int fd = connect_as(getuid());

		if (i % 5 == 0)
			settle();
		if (i % 5 == 1)
			send(fd, H "list\n", 14, 0);
		if (i % 5 == 2)
			send_file(fd, H "list\n");
		if (i % 5 == 3)
			send(fd, "x", 1, 0);
		if (i % 5 == 4) {
			send(fd, H "list\n", 14, 0);
			CHECK(settle());
			answered += !strcmp(receive(fd), "ok\n{\"jobs\":[]}");
		}
		close(fd);
	}
	CHECK(settle());
	CHECK_EQ(answered, 2000);
	CHECK_EQ(open_files(), before);
	CHECK_STR(said, "");
	CHECK_EQ(log_lines, 0);
	down();
}

T(no_file_left_to_accept_with)
{
	struct rlimit limit, old;
	int fd, spare;

	fresh();
	fd = connect_as(getuid());
	spare = dup(0);
	getrlimit(RLIMIT_NOFILE, &old);
	limit = (struct rlimit){(rlim_t)spare, old.rlim_max};
	close(spare);
	setrlimit(RLIMIT_NOFILE, &limit);
	CHECK(settle()); /* it does not spin */
	CHECK_EQ(log_lines, 1);
	CHECK(strstr(logged, "cannot accept a connection"));
	zn_control_tick(c, zn_now_ns());
	CHECK(settle());
	setrlimit(RLIMIT_NOFILE, &old);
	zn_control_tick(c, zn_now_ns());
	send(fd, H "list\n", 14, 0);
	CHECK(settle());
	CHECK_GOT(receive(fd), "ok\n{\"jobs\":[]}");
	close(fd);
	down();
}

/* ---- Opening. ---- */

T(places_where_it_cannot_listen)
{
	char why[ZN_TEXT_MAX], path[ZN_TEXT_MAX];
	struct zn_control *other = (struct zn_control *)1;

	fresh();
	snprintf(path, sizeof(path), "%s", at("run/control.sock"));
	CHECK_EQ(zn_control_open(&other, &loop, &view, path, why), -EADDRINUSE);
	CHECK(!other && strstr(why, "another zerneld? choose --control"));
	down();
	up(); /* what was left of the one before is replaced */
	CHECK_GOT(ask(H "list\n"), "ok\n{\"jobs\":[]}");
	down();
	zn_loop_open(&loop);
	CHECK(!unlink(path));
	write_text("run/control.sock", "x");
	CHECK_EQ(zn_control_open(&other, &loop, &view, path, why), -EEXIST);
	CHECK(there("run/control.sock"));
	CHECK_EQ(zn_control_open(&other, &loop, &view, at("no/folder/c.sock"), why), -ENOENT);
	CHECK_EQ(zn_control_open(&other, &loop, &view, "/" A64 "/" A64, why), -ENAMETOOLONG);
	CHECK_EQ(zn_control_open(&other, &loop, &view, "relative", why), -ENAMETOOLONG);
	CHECK_EQ(zn_control_open(&other, &loop, &view, "", why), 0);
	CHECK(!other);
	zn_control_tick(NULL, 0);
	zn_control_close(NULL);
	zn_loop_close(&loop);
}

/* ---- The spool. ---- */

static void make_spool(void)
{
	mkdir(at("run"), 0755);
	mkdir(at("run/jobs.d"), 0750);
}

T(what_was_left_is_taken_in_order)
{
	fresh();
	down();
	forget_all();
	make_spool();
	write_text("run/jobs.d/left-3", H "end\nid=7\ntime=300\n");
	write_text("run/jobs.d/left-1", H "end\nid=6\ntime=9\n");
	write_text("run/jobs.d/left-2", H "start\nid=7\ntime=200\n");
	write_text("run/jobs.d/job-5", H "start\nid=5\ntime=100\n");
	write_text("run/jobs.d/.left-9", H "start\nid=9");
	up();
	CHECK_STR(said, "end 6\nstart 5 by 3\nstart 7 by 3\nend 7\n");
	CHECK_EQ(log_lines, 0);
	CHECK(!there("run/jobs.d/left-1") && !there("run/jobs.d/left-2") && !there("run/jobs.d/left-3"));
	CHECK(there("run/jobs.d/job-5") && there("run/jobs.d/.left-9"));
	down();
}

static const struct {
	const char *name, *text, *why;
} hostile[] = {
	{"spool: empty", "", "spool: left-1: the first line is not \"zernel 1 VERB\"; removed"},
	{"spool: cut", H "start\nid=7\nna", "spool: left-1: the last line has no end; removed"},
	{"spool: a question", H "list\n", "spool: left-1: it is neither of a start nor of an end; removed"},
	{"spool: a label that ends", H "start\nid=7\nname=\x1b[2J\n",
		"spool: left-1: name: a byte that is not printable ASCII; removed"},
	{"spool: id of 2^64", H "start\nid=18446744073709551616\n",
		"spool: left-1: id must be a number from 1 to 4294967294, or a word of up to 15 of A-Z a-z 0-9 . _ -, but not NUMBER_NUMBER; removed"},
};

static void hostile_files(void)
{
	for (size_t i = 0; i < ZN_LEN(hostile); i++) {
		t_begin(hostile[i].name);
		fresh();
		down();
		make_spool();
		write_text("run/jobs.d/left-1", hostile[i].text);
		up();
		CHECK_STR(said, "");
		CHECK_EQ(log_lines, 1);
		CHECK_STR(logged, hostile[i].why);
		CHECK(!there("run/jobs.d/left-1"));
		down();
	}
}

T(what_is_no_file_of_a_client)
{
	static char huge[9000] = H "start\nid=7\n";

	fresh();
	down();
	make_spool();
	write_text("secret", H "start\nid=7\n");
	CHECK(!symlink(at("secret"), at("run/jobs.d/left-1")));
	CHECK(!mkfifo(at("run/jobs.d/left-2"), 0600));
	write_bytes("run/jobs.d/left-3", huge, sizeof(huge));
	write_text("run/jobs.d/left-4", H "start\nid=7\n");
	chmod(at("run/jobs.d/left-4"), 0622);
	write_text("run/jobs.d/notes", H "start\nid=7\n");
	up();
	CHECK_STR(said, "");
	CHECK_EQ(log_lines, 5);
	CHECK(there("run/jobs.d/notes") && there("secret"));
	for (char name[] = "run/jobs.d/left-1"; name[16] <= '4'; name[16]++)
		CHECK(!there(name));
	unlink(at("secret"));
	down();
}

T(a_folder_that_others_can_write_is_not_read)
{
	fresh();
	down();
	make_spool();
	chmod(at("run/jobs.d"), 0777);
	write_text("run/jobs.d/left-1", H "start\nid=7\n");
	up();
	CHECK_STR(said, "");
	CHECK_EQ(log_lines, 1);
	zn_control_tick(c, zn_now_ns());
	CHECK_EQ(log_lines, 1);
	CHECK(there("run/jobs.d/left-1"));
	down();
	remove_run();
	mkdir(at("run"), 0755);
	mkdir(at("elsewhere"), 0750);
	CHECK(!symlink(at("elsewhere"), at("run/jobs.d")));
	write_text("elsewhere/left-1", H "start\nid=7\n");
	up();
	CHECK_STR(said, "");
	down();
	unlink(at("elsewhere/left-1"));
	rmdir(at("elsewhere"));
}

T(what_is_left_while_it_runs)
{
	fresh();
	make_spool();
	zn_control_tick(c, zn_now_ns());
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=1\n");
	write_text("run/jobs.d/job-8", H "start\nid=8\ntime=1\n"); /* our own */
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 3\nremove 1 left-1\n");
	zn_control_tick(c, zn_now_ns());
	writer.available[ZN_DIRECTORY_SPOOL] = false; /* nobody could remove it */
	write_text("run/jobs.d/left-2", H "start\nid=9\ntime=2\n");
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 3\nremove 1 left-1\n");
	down();
}

/* Who was not answered in time leaves what it said, and the daemon reads it twice, in either order. */
T(what_is_told_twice_is_told_once)
{
	fresh();
	make_spool();
	CHECK_GOT(ask(H "start\nid=7\ntime=5\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}");
	CHECK_GOT(ask(H "end\nid=7\ntime=6\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"ended\"}");
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=5\n");
	write_text("run/jobs.d/left-2", H "end\nid=7\ntime=6\n");
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 1\nend 7\nremove 1 left-1\nremove 1 left-2\n");
	said[0] = '\0';
	write_text("run/jobs.d/left-3", H "start\nid=8\ntime=7\n");
	CHECK_GOT(ask(H "start\nid=8\ntime=7\n"), "ok\n{\"job_id\":\"8\",\"restart\":0,\"state\":\"running\"}");
	CHECK_STR(said, "start 8 by 3\nremove 1 left-3\n"); /* the file came first */
	CHECK(there("run/jobs.d/left-3") == false);
	down();
}

/* A message that was left names its boot and the time since then, which tell the order however the clock was set meanwhile. Over
 * the socket it has neither, and is the same message. */
T(messages_from_before_the_clock_was_set)
{
	uint64_t uptime_ms = clock_ns(CLOCK_BOOTTIME) / ZN_NS_PER_MS;
	char text[256];

	fresh();
	make_spool();
	CHECK_GOT(ask(H "start\nid=7\ntime=5\n"), "ok\n{\"job_id\":\"7\",\"restart\":0,\"state\":\"running\"}");
	snprintf(text, sizeof(text), H "start\nid=7\ntime=5\n" IS_BOOT "uptime=%llu\n",
		(unsigned long long)uptime_ms - 1);
	write_text("run/jobs.d/left-1", text);
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "start 7 by 1\nremove 1 left-1\n");
	said[0] = '\0';
	snprintf(text, sizeof(text), H "end\nid=7\ntime=%llu\n" IS_BOOT "uptime=%llu\n",
		(unsigned long long)zn_wall_ms(), (unsigned long long)uptime_ms - 50);
	write_text("run/jobs.d/left-2", text);
	snprintf(text, sizeof(text), H "start\nid=8\ntime=1234\n" IS_BOOT "uptime=%llu\n",
		(unsigned long long)uptime_ms - 20);
	write_text("run/jobs.d/left-1", text); /* the clock was at 1970 again */
	zn_control_tick(c, zn_now_ns());
	CHECK_STR(said, "end 7\nremove 1 left-2\nstart 8 by 3\nremove 1 left-1\n");
	down();
}

T(a_full_table_refuses_files_too)
{
	fresh();
	down();
	make_spool();
	start_error = -ENOSPC;
	write_text("run/jobs.d/left-1", H "start\nid=7\ntime=1\n");
	write_text("run/jobs.d/job-8", H "start\nid=8\ntime=2\n");
	up();
	CHECK_EQ(log_lines, 2);
	CHECK_STR(logged, "spool: job-8: the table of jobs is full; removed");
	CHECK(!there("run/jobs.d/left-1") && !there("run/jobs.d/job-8"));
	down();
}

T(records_of_processes)
{
	char text[256];

	fresh();
	down();
	forget_all();
	make_spool();
	snprintf(text, sizeof(text), H "start\nid=1\npid=%d\ntime=%llu\n", getpid(), (unsigned long long)zn_wall_ms());
	write_text("run/jobs.d/job-1", text);
	snprintf(text, sizeof(text), H "start\nid=2\npid=%d\ntime=1711800000000\n", getpid()); /* before it began */
	write_text("run/jobs.d/job-2", text);
	write_text("run/jobs.d/job-3", H "start\nid=3\npid=4194304\ntime=1\n"); /* no process can have it */
	snprintf(text, sizeof(text), H "start\nid=4\npid=%d\ntime=1234\n" IS_BOOT "uptime=%llu\n", getpid(),
		(unsigned long long)(clock_ns(CLOCK_BOOTTIME) / ZN_NS_PER_MS - 500)); /* the clock was set since */
	write_text("run/jobs.d/job-4", text);
	up();
	CHECK_STR(said, "start 4 by 3\nstart 1 by 3\n");
	CHECK_EQ(log_lines, 2);
	CHECK(strstr(logged, "the process that was tagged has ended; removed"));
	CHECK(there("run/jobs.d/job-4"));
	CHECK(there("run/jobs.d/job-1") && !there("run/jobs.d/job-2") && !there("run/jobs.d/job-3"));
	down();
}

T(more_files_than_it_can_sort)
{
	char name[64], text[64];

	fresh();
	down();
	make_spool();
	for (int i = 0; i < 2100; i++) {
		snprintf(name, sizeof(name), "run/jobs.d/left-%d", i);
		snprintf(text, sizeof(text), H "end\nid=7\ntime=%d\n", i);
		write_text(name, text);
	}
	up();
	zn_control_tick(c, zn_now_ns());
	CHECK_EQ(log_lines, 0);
	for (int i = 0; i < 2100; i++) {
		snprintf(name, sizeof(name), "run/jobs.d/left-%d", i);
		CHECK(!there(name));
	}
	down();
}

T(records)
{
	fresh();
	add_job(3, "70", 1000, ZN_JOB_RUNNING);
	jobs.job[3].restart = 2;
	zn_spool_record(&writer, &jobs.job[3]);
	zn_spool_forget(&writer, &jobs.job[3]);
	CHECK_STR(said, "write 1 job-70_2: zernel 1 start\nid=70\ntime=1234\n" IS_BOOT "remove 1 job-70_2\n");
	said[0] = '\0';
	jobs.job[3].about = (struct zn_message){0}; /* known by its control group alone */
	zn_spool_record(&writer, &jobs.job[3]);
	zn_spool_record(NULL, &jobs.job[3]);
	zn_spool_forget(NULL, &jobs.job[3]);
	CHECK_STR(said, "");
	down();
}

int main(void)
{
	int status;

	if (!mkdtemp(folder) || chmod(folder, 0755))
		return 1;
	answers();
	RUN(who_annotates);
	RUN(a_full_table_is_told);
	RUN(messages_of_any_size);
	RUN(many_jobs_are_cut);
	wrong_peers();
	RUN(the_socket_is_for_all);
	RUN(kept_reports);
	RUN(what_is_no_report);
	RUN(too_many_clients);
	RUN(no_user_keeps_root_out);
	RUN(requests_of_a_user_are_limited);
	RUN(a_flood_of_connections_is_taken_a_few_at_a_time);
	RUN(ten_thousand_connections_leave_nothing);
	RUN(no_file_left_to_accept_with);
	RUN(places_where_it_cannot_listen);
	RUN(what_was_left_is_taken_in_order);
	hostile_files();
	RUN(what_is_no_file_of_a_client);
	RUN(a_folder_that_others_can_write_is_not_read);
	RUN(what_is_left_while_it_runs);
	RUN(what_is_told_twice_is_told_once);
	RUN(messages_from_before_the_clock_was_set);
	RUN(a_full_table_refuses_files_too);
	RUN(records_of_processes);
	RUN(more_files_than_it_can_sort);
	RUN(records);
	status = t_end();
	remove_run();
	rmdir(folder);
	return status;
}
