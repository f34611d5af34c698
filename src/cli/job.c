/* SPDX-License-Identifier: GPL-2.0 */
/*
 * job.c: `zernel job`: one message to the daemon's control socket, and its answer. With --slurm it runs in a prolog
 * or epilog, where to fail or to be slow costs the node its jobs: it ends after 200 ms at the latest and with status
 * 0, says nothing on stdout and at most one line on stderr, starts nothing, and leaves the message as a file if no
 * daemon answers. Only a machine that gives it no processor makes it end later: the message is left then as well.
 */
#include "zernel.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#define USAGE                                                                                                            \
	"usage: zernel job start ID [--cgroup PATH | --pid N] [KEY=VALUE...]    a job begins (root)\n"                   \
	"       zernel job end ID [KEY=VALUE...]                                it has ended (root)\n"                   \
	"       zernel job start|end --slurm                                    the same in a prolog or epilog\n"        \
	"       zernel job list                                                 jobs of this node\n"                     \
	"       zernel job show ID                                              one of them\n"                           \
	"       zernel job report ID [--line | --mail]                          what it did: its owner and root\n"       \
	"       zernel job hang ID                                              what was known when it hung, likewise\n" \
	"       each also: --id ID, --restart N, --json, --control PATH\n"
#define EXIT_USAGE  2
#define PATIENCE_NS (10 * ZN_NS_PER_S)
/* With --slurm: for the daemon's answer, and then for the file. */
#define SLURM_ANSWER_MS 120
#define SLURM_FILE_MS   80
#define LEFT_MAX        1000 /* files that are left; beyond that the oldest go */

/* ---- What is said on stderr. ---- */

static bool in_hook;

/* A hook writes only what can be written at once. If somebody else fills the pipe meanwhile, the time limit ends it. */
static void write_stderr(const char *text, size_t len)
{
	struct pollfd fd = {.fd = STDERR_FILENO, .events = POLLOUT};

	if ((!in_hook || poll(&fd, 1, 0) > 0) && write(STDERR_FILENO, text, len) < 0)
		errno = 0; /* it is lost */
}

static void complain_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain_of(const char *format, ...)
{
	char text[2 * ZN_TEXT_MAX] = "zernel: job: ";
	size_t len = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + len, sizeof(text) - len - 1, format, args);
	va_end(args);
	zn_str_plain(text);
	len = strlen(text);
	text[len++] = '\n';
	write_stderr(text, len);
}

/* ---- Arguments. ---- */

#define BIT(verb)  (1u << ZN_VERB_##verb)
#define TAGS       (BIT(START) | BIT(END))
#define ABOUT_JOBS (TAGS | BIT(SHOW) | BIT(REPORT) | BIT(HANG))

static const struct argument {
	const char *name;
	enum zn_key key;
	unsigned verbs; /* bit 1 << enum zn_verb */
	bool flag;
} arguments[] = {
	{"--id", ZN_KEY_ID, ABOUT_JOBS, false},
	{"--restart", ZN_KEY_RESTART, ABOUT_JOBS, false},
	{"--cgroup", ZN_KEY_CGROUP, BIT(START), false},
	{"--pid", ZN_KEY_PID, BIT(START), false},
	{"--json", ZN_KEY_JSON, ABOUT_JOBS | BIT(LIST), true},
	{"--line", ZN_KEY_LINE, BIT(REPORT), true},
	{"--mail", ZN_KEY_MAIL, BIT(REPORT), true},
};

static bool fail_usage(const char *what, const char *argument)
{
	complain_of("%s '%.64s'; zernel job --help says what there is", what, argument);
	return false;
}

static bool say_key(struct zn_call *c, enum zn_key key, const char *value)
{
	char why[ZN_TEXT_MAX];

	if (c->message.value[key][0] && strcmp(c->message.value[key], value))
		return fail_usage("a second value of", zn_key_name(key));
	if (!zn_message_check(key, value, why))
		return fail_usage(why, value);
	zn_message_set(&c->message, key, value);
	return true;
}

static bool take_control(struct zn_call *c, const char *value)
{
	return zn_call_at(c, value) || fail_usage("--control must be an absolute path of up to 107 bytes, not", value);
}

/* KEY=VALUE: labels, which have options of their own where they are more than that. */
static bool take_pair(struct zn_call *c, const char *arg)
{
	size_t len = strcspn(arg, "=");
	int key = zn_message_key((struct zn_str){arg, len});

	if (key < 0 || !zn_key_variable((enum zn_key)key) || !(TAGS >> c->message.verb & 1))
		return fail_usage("no such key:", arg);
	return say_key(c, (enum zn_key)key, arg + len + 1);
}

/* Takes argv[at], and the next one if that is its value: how many that were, or 0 after a line on stderr. */
static int take_option(struct zn_call *c, char **argv, int at)
{
	const char *arg = argv[at];
	size_t len = strcspn(arg, "=");
	const char *value = arg[len] ? arg + len + 1 : argv[at + 1];
	int used = arg[len] ? 1 : 2;

	if (len == strlen("--control") && !strncmp(arg, "--control", len))
		return value ? take_control(c, value) * used : fail_usage("a path must follow", arg);
	for (size_t i = 0; i < ZN_LEN(arguments); i++) {
		const struct argument *a = &arguments[i];

		if (strlen(a->name) != len || strncmp(a->name, arg, len) || !(a->verbs >> c->message.verb & 1))
			continue;
		if (a->flag)
			return arg[len] ? fail_usage("no value may follow", arg) : say_key(c, a->key, "1");
		return value ? say_key(c, a->key, value) * used : fail_usage("a value must follow", arg);
	}
	return fail_usage("unknown option", arg);
}

static bool take_verb(struct zn_call *c, const char *name)
{
	for (enum zn_verb verb = ZN_VERB_START; verb <= ZN_VERB_HANG; verb++)
		if (!strcmp(name, zn_verb_name(verb)))
			c->message.verb = verb;
	return c->message.verb || fail_usage("no such verb:", name);
}

static bool take_arguments(struct zn_call *c, int argc, char **argv)
{
	if (argc < 2) {
		complain_of("a verb must follow: start, end, list, show, report or hang");
		return false;
	}
	if (!take_verb(c, argv[1]))
		return false;
	for (int i = 2, used; i < argc; i += used) {
		if (!strcmp(argv[i], "--slurm") && TAGS >> c->message.verb & 1)
			used = 1;
		else if (*argv[i] == '-')
			used = take_option(c, argv, i);
		else if (strchr(argv[i], '='))
			used = take_pair(c, argv[i]);
		else
			used = c->message.verb == ZN_VERB_LIST ? fail_usage("unknown argument", argv[i])
							       : say_key(c, ZN_KEY_ID, argv[i]);
		if (!used)
			return false;
	}
	return true;
}

/* What a message carries is the whole value, but for a name. */
static bool may_carry(enum zn_key key, const char *value)
{
	return key == ZN_KEY_NAME || strlen(value) < ZN_VALUE_BYTES;
}

/* Values from Slurm's environment. A value that a message cannot carry is left out. Values of the command line stay. */
static void take_environment(struct zn_call *c)
{
	char why[ZN_TEXT_MAX];

	for (char **at = environ; at && *at; at++) {
		size_t len = strcspn(*at, "=");

		for (enum zn_key key = 0; key < ZN_KEY_COUNT; key++) {
			const char *variable = zn_key_variable(key);
			const char *given = *at + len + ((*at)[len] == '=');
			char *value = c->message.value[key];

			if (!variable || *value || strlen(variable) != len || memcmp(variable, *at, len))
				continue;
			if (may_carry(key, given))
				zn_message_set(&c->message, key, given);
			if (*value && !zn_message_check(key, value, why))
				*value = '\0';
		}
	}
}

/* ---- The file that is left when no daemon answers. ---- */

static int open_folder(const struct zn_call *c, const char *path)
{
	char above[ZN_TEXT_MAX];
	struct stat st;
	int fd;

	snprintf(above, sizeof(above), "%s", c->socket);
	*strrchr(above, '/') = '\0';
	if ((*above && mkdir(above, 0755) && errno != EEXIST) || (mkdir(path, 0750) && errno != EEXIST))
		return -errno;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return fd;
	close(fd);
	return -EPERM;
}

/* How many files were left, half written ones included, and the name of the oldest, which the time in it tells. */
static unsigned count_left(int folder, char oldest[ZN_NAME_BYTES])
{
	struct zn_names names = {.have = 0};
	const struct dirent64 *d;
	unsigned count = 0;

	lseek(folder, 0, SEEK_SET);
	while ((d = zn_names_next(&names, folder))) {
		const char *name = d->d_name + (*d->d_name == '.');

		if (strncmp(name, ZN_SPOOL_LEFT, strlen(ZN_SPOOL_LEFT)) || strlen(name) >= ZN_NAME_BYTES - 1)
			continue;
		if (!count++ || strcmp(name, oldest + (*oldest == '.')) < 0)
			strcpy(oldest, d->d_name);
	}
	return count;
}

static int write_file(struct zn_call *c, int folder, const char *name)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	ssize_t put = fd < 0 ? -1 : write(fd, c->text, c->len);
	int err = put == (ssize_t)c->len ? 0 : put < 0 ? -errno : -ENOSPC;

	if (fd < 0)
		return err;
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(folder, name, folder, name + 1)) /* without its dot: from here on it is there */
		err = -errno;
	if (err)
		unlinkat(folder, name, 0);
	return err;
}

/* A file may wait until the wall clock was set, or for another boot. Over the socket this is not said: who listens
 * there may be of an earlier version, which knows no such keys. */
static void date_message(struct zn_call *c)
{
	struct zn_out o = {.at = c->text, .cap = sizeof(c->text)};
	static struct zn_message dated;

	dated = c->message;
	zn_message_date(&dated, &c->said);
	if (!zn_message_write(&o, &dated)) { /* too long with it */
		o.len = 0;
		o.full = false;
		zn_message_write(&o, &c->message);
	}
	c->len = o.len;
}

static volatile sig_atomic_t is_at_file; /* the daemon is not waited for any more */

static void limit_time(int ms)
{
	struct itimerval limit = {.it_value.tv_usec = ms * 1000};

	setitimer(ITIMER_REAL, &limit, NULL);
}

static void begin_file(void)
{
	is_at_file = true;
	limit_time(SLURM_FILE_MS);
}

/* The file comes first: it is what matters, should the time be over before there is order. */
static int leave_message(struct zn_call *c)
{
	char path[ZN_TEXT_MAX], name[ZN_NAME_BYTES], oldest[ZN_NAME_BYTES];
	int folder, err;

	begin_file();
	folder = zn_message_folder(path, c->socket) ? open_folder(c, path) : -ENOENT;
	if (folder < 0)
		return folder;
	date_message(c);
	snprintf(name, sizeof(name), "." ZN_SPOOL_LEFT "%013llu-%d", (unsigned long long)zn_wall_ms(), getpid());
	err = write_file(c, folder, name);
	while (count_left(folder, oldest) > LEFT_MAX && !unlinkat(folder, oldest, 0))
		;
	close(folder);
	return err;
}

/* ---- In a prolog or epilog. ---- */

/* The time is over: the program ends, whatever it waits for. One that still waits for the daemon had no processor when
 * that wait was to end, and the message is not left yet: the signal ends the wait, and the time of the file begins. */
static void too_late(int signal)
{
	(void)signal;
	if (is_at_file)
		_exit(EXIT_SUCCESS);
	begin_file();
}

static void hold_to_time(void)
{
	struct sigaction action = {.sa_handler = too_late};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	sigaction(SIGALRM, &action, NULL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	limit_time(SLURM_ANSWER_MS + SLURM_FILE_MS);
}

static int run_slurm(struct zn_call *c, int argc, char **argv)
{
	enum zn_call_result result;
	struct zn_out o = {.at = c->text, .cap = sizeof(c->text)};
	int err;

	if (!take_arguments(c, argc, argv))
		return EXIT_SUCCESS;
	take_environment(c);
	if (!c->message.value[ZN_KEY_ID][0]) {
		complain_of("SLURM_JOB_ID is not set, or is no id of a job");
		return EXIT_SUCCESS;
	}
	zn_message_write(&o, &c->message);
	c->len = o.len;
	result = zn_call(c);
	if (result == ZN_CALL_REFUSED)
		complain_of("the daemon refused job %s: %s", c->message.value[ZN_KEY_ID], c->why);
	if (result == ZN_CALL_UNANSWERED && (err = leave_message(c)))
		complain_of("job %s: %s; cannot leave a file for it: %s", c->message.value[ZN_KEY_ID], c->why,
			strerror(-err));
	return EXIT_SUCCESS;
}

/* ---- What is shown. ---- */

static bool print_text(struct zn_str text)
{
	char *at = (char *)text.at;

	for (size_t i = 0, n; i < text.len; i += n ? n : 1) {
		n = at[i] == '\n' ? 0 : zn_utf8_control(at + i, text.len - i);
		memset(at + i, '?', n);
	}
	return zn_term_write(at, text.len) && (!text.len || at[text.len - 1] == '\n' || zn_term_write("\n", 1));
}

static void put_state(struct zn_term *t, struct zn_str job, const char *id)
{
	char state[ZN_UNITS_CELL];

	zn_term_line(t, ZN_STYLE_PLAIN, "job %s: %s", id, zn_path_text(job, "state", state, sizeof(state)));
}

static const struct {
	const char *title, *path;
	int width;
} columns[] = {
	{"JOB", "job_id", 16},
	{"RESTART", "restart", -7},
	{"STATE", "state", 8},
	{"USER", "user", 12},
	{"NAME", "name", 20},
	{"PROCS", "processes", -6},
	{"LAUNCHES", "launches", -12},
};

static void put_entry(struct zn_term *t, struct zn_str job)
{
	char text[ZN_VALUE_BYTES], span[ZN_UNITS_CELL] = "-";

	for (size_t i = 0; i < ZN_LEN(columns); i++) {
		zn_term_cell(t, zn_path_text(job, columns[i].path, text, sizeof(text)), columns[i].width);
		zn_term_put(t, " ");
	}
	if (zn_path_known(job, "elapsed_s"))
		zn_units_span(span, (uint64_t)zn_json_number(zn_path_find(job, "elapsed_s")));
	zn_term_cell(t, span, -10);
	zn_term_end(t);
}

static void put_list(struct zn_term *t, struct zn_str answer)
{
	struct zn_str jobs = zn_json_member(answer, "jobs"), key, job;
	size_t at = 0;

	for (size_t i = 0; i < ZN_LEN(columns); i++) {
		zn_term_cell(t, columns[i].title, columns[i].width);
		zn_term_put(t, " ");
	}
	zn_term_cell(t, "ELAPSED", -10);
	zn_term_end(t);
	while (zn_json_next(jobs, &at, &key, &job))
		put_entry(t, job);
	if (zn_path_known(answer, "truncated"))
		zn_term_line(t, ZN_STYLE_PLAIN, "(and more, for which there is no room)");
}

/* What is in a member stands below it, further to the right. */
static void put_members(struct zn_term *t, struct zn_str object, int indent)
{
	struct zn_str key, value, element, none;
	char name[ZN_UNITS_CELL], text[ZN_VALUE_BYTES];
	size_t at = 0, in = 0;

	while (zn_json_next(object, &at, &key, &value)) {
		snprintf(name, sizeof(name), "%.*s", key.len < sizeof(name) ? (int)key.len : (int)sizeof(name) - 1,
			key.at);
		if (value.len && (*value.at == '[' || *value.at == '{')) {
			zn_term_line(t, ZN_STYLE_PLAIN, "%*s%s", indent, "", name);
			for (in = 0; *value.at == '[' && zn_json_next(value, &in, &none, &element);)
				put_members(t, element, indent + 2);
			if (*value.at == '{')
				put_members(t, value, indent + 2);
			continue;
		}
		zn_term_line(t, ZN_STYLE_PLAIN, "%*s%-16s %s", indent, "", name,
			zn_path_text(object, name, text, sizeof(text)));
	}
}

static bool print_answer(struct zn_call *c)
{
	static char lines[1 << 16];
	struct zn_term t = {.out = {.at = lines, .cap = sizeof(lines)}, .cols = INT_MAX};
	struct zn_str answer = {c->answer + 3, c->answer_len - 3};

	if (c->message.verb == ZN_VERB_REPORT && !c->message.value[ZN_KEY_JSON][0])
		return print_text(answer);
	if (zn_json_check(answer)) {
		complain_of("an answer that is no JSON");
		return false;
	}
	if (c->message.value[ZN_KEY_JSON][0])
		return print_text(answer);
	zn_term_begin(&t);
	if (c->message.verb == ZN_VERB_HANG)
		zn_hang_page(&t.out, answer);
	else if (c->message.verb == ZN_VERB_LIST)
		put_list(&t, answer);
	else if (c->message.verb == ZN_VERB_SHOW)
		put_members(&t, answer, 0);
	else
		put_state(&t, answer, c->message.value[ZN_KEY_ID]);
	return zn_term_flush(&t);
}

static int run_verb(struct zn_call *c, int argc, char **argv)
{
	struct zn_out o = {.at = c->text, .cap = sizeof(c->text)};

	if (!take_arguments(c, argc, argv))
		return EXIT_USAGE;
	if (c->message.verb != ZN_VERB_LIST && !c->message.value[ZN_KEY_ID][0]) {
		complain_of("the id of a job must follow");
		return EXIT_USAGE;
	}
	if (!zn_message_write(&o, &c->message)) {
		complain_of("the values together are longer than %d bytes", ZN_MESSAGE_BYTES);
		return EXIT_USAGE;
	}
	c->len = o.len;
	if (zn_call(c) != ZN_CALL_ANSWERED) {
		complain_of("%s", c->why);
		return EXIT_FAILURE;
	}
	return print_answer(c) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* A socket must not become a stream that was closed: what is opened here can neither be read nor written. */
static void hold_streams(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/", O_PATH | O_DIRECTORY | O_CLOEXEC) < 0)
			return;
}

static bool is_given(int argc, char **argv, const char *what)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], what))
			return true;
	return false;
}

int zn_jobctl_main(int argc, char **argv)
{
	static struct zn_call c;
	uint64_t now_ns = zn_now_ns();
	char time[24];

	c.fd = -1;
	in_hook = is_given(argc, argv, "--slurm");
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* write() says so as well */
	if (in_hook)
		hold_to_time();
	hold_streams();
	if (!in_hook && is_given(argc, argv, "--help"))
		return fputs(USAGE, stdout) < 0;
	c.deadline_ns = now_ns + (in_hook ? SLURM_ANSWER_MS * ZN_NS_PER_MS : PATIENCE_NS);
	zn_options_control(c.socket);
	zn_moment_now(&c.said);
	snprintf(time, sizeof(time), "%llu", (unsigned long long)c.said.wall_ms);
	zn_message_set(&c.message, ZN_KEY_TIME, time);
	return in_hook ? run_slurm(&c, argc, argv) : run_verb(&c, argc, argv);
}
