/* SPDX-License-Identifier: GPL-2.0 */
/*
 * zernel-gpu: tells zerneld how the GPUs of NVIDIA are, as their management library (NVML) says. A process of its
 * own asks the library, as a call that the driver does not answer never comes back; this one hears what it says,
 * notices when it says nothing, and sends a message of lines each second to the socket of zerneld. It never waits
 * for the former, and for the latter a second at most.
 *
 * zerneld takes messages of root and of the user who owns /run/zernel-gpu. It may come and go at any time.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "zernel-gpu.h"

#ifndef ZN_VERSION
#define ZN_VERSION "unknown"
#endif

#define SOCKET_PATH     "/run/zernel/gpu.sock"
#define LIBRARY         "libnvidia-ml.so.1"
#define PATIENCE_ROUNDS 5   /* so long may the library take for one answer */
#define KILL_ROUNDS     30  /* after which the process is ended that waits for it */
#define RETRY_ROUNDS    30  /* until another one tries, where the library cannot be used */
#define GIVE_UP_ROUNDS  300 /* without a GPU: systemd starts this anew, and then looks anew which devices there are */
#define EX_TEMPFAIL     75

struct options {
	const char *socket, *library;
	unsigned interval_ms;
	bool once;
};

struct state {
	struct options options;
	struct watch *watch;
	pid_t sampler;     /* 0: none */
	int from;          /* its socket; below 0: none */
	int to;            /* zerneld's; below 0: none */
	uint32_t steps;    /* as of the last look */
	uint64_t alive_ms; /* when the library answered last, which a step tells; each message comes after one */
	uint64_t tried_ms, due_ms;
	bool killed, told_absent;
	char why[200]; /* the last one that was logged */
	struct message message;
};

static volatile sig_atomic_t ending;

static void on_end(int number)
{
	(void)number;
	ending = 1;
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- The process that asks the library ---- */

static void close_sampler(struct state *s)
{
	if (s->from >= 0)
		close(s->from);
	s->from = -1;
}

static void start_sampler(struct state *s)
{
	int ends[2];

	s->tried_ms = s->alive_ms = now_ms();
	s->killed = false;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return;
	fflush(NULL);
	s->sampler = fork();
	if (s->sampler == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, "zernel-gpu: ask");
		signal(SIGTERM, SIG_DFL);
		close(ends[0]);
		if (s->to >= 0)
			close(s->to);
		sample_loop(s->options.library, s->options.interval_ms, ends[1], s->watch, s->options.once);
		_exit(0);
	}
	close(ends[1]);
	s->from = ends[0];
	if (s->sampler > 0)
		return;
	s->sampler = 0;
	close_sampler(s);
}

/* As one does that the library takes down, or the kernel for want of memory. */
static void log_death(struct state *s, int status)
{
	if (!WIFSIGNALED(status) || s->killed)
		return;
	snprintf(s->why, sizeof(s->why), "the process that asks the library was ended by signal %d", WTERMSIG(status));
	fprintf(stderr, "zernel-gpu: %s while it asked %.31s; it is tried again every %u s\n", s->why, s->watch->step,
		RETRY_ROUNDS * s->options.interval_ms / 1000);
}

/* A round of many GPUs that have to wake up takes longer than one call may. */
static void look_for_answers(struct state *s)
{
	uint32_t steps = __atomic_load_n(&s->watch->steps, __ATOMIC_RELAXED);

	if (steps != s->steps)
		s->alive_ms = now_ms();
	s->steps = steps;
}

/* One that the driver keeps cannot be ended: no other is started beside it. */
static void look_after_sampler(struct state *s)
{
	uint64_t interval = s->options.interval_ms, now = now_ms();
	int status;

	if (s->sampler && waitpid(s->sampler, &status, WNOHANG) == s->sampler) {
		s->sampler = 0;
		log_death(s, status);
	}
	if (!s->sampler && now - s->tried_ms >= RETRY_ROUNDS * interval) {
		close_sampler(s);
		start_sampler(s);
	} else if (s->sampler && !s->killed && now - s->alive_ms >= KILL_ROUNDS * interval) {
		kill(s->sampler, SIGKILL);
		s->killed = true;
	}
}

static const char *find_line(const struct message *m, const char *beginning)
{
	return memmem(m->text, m->len, beginning, strlen(beginning));
}

static void log_why(struct state *s)
{
	const char *at = find_line(&s->message, "\nwhy "), *end;
	size_t len;

	if (!at) {
		s->why[0] = 0;
		return;
	}
	at += 5;
	end = memchr(at, '\n', (size_t)(s->message.text + s->message.len - at));
	len = end ? (size_t)(end - at) : 0;
	len = len < sizeof(s->why) ? len : sizeof(s->why) - 1;
	if (strlen(s->why) == len && !memcmp(s->why, at, len))
		return;
	memcpy(s->why, at, len);
	s->why[len] = 0;
	if (!s->options.once)
		fprintf(stderr, "zernel-gpu: %s; it is tried again every %u s\n", s->why,
			RETRY_ROUNDS * s->options.interval_ms / 1000);
}

/* False: it said nothing new. The last of what waits counts. */
static bool hear_sampler(struct state *s)
{
	bool heard = false;
	ssize_t n;

	while (s->from >= 0 && (n = recv(s->from, s->message.text, sizeof(s->message.text), MSG_DONTWAIT)) != -1) {
		if (n == 0) {
			close_sampler(s);
			break;
		}
		s->message.len = (size_t)n;
		heard = true;
	}
	if (heard)
		log_why(s);
	return heard;
}

/* ---- zerneld ---- */

static void hang_up(struct state *s)
{
	if (s->to >= 0)
		close(s->to);
	s->to = -1;
}

/* Where others have filled zerneld's queue, it stands in line with them: zerneld takes what waits once a second. */
static void call_zerneld(struct state *s)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	struct timeval patience = {.tv_sec = 1, .tv_usec = 100000};

	memcpy(at.sun_path, s->options.socket, strlen(s->options.socket));
	s->to = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (s->to >= 0 && !setsockopt(s->to, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) &&
		!connect(s->to, (const struct sockaddr *)&at, sizeof(at))) {
		s->told_absent = false;
		return;
	}
	if (!s->told_absent)
		fprintf(stderr, "zernel-gpu: zerneld does not listen on %s: %s; it is tried again each second\n",
			s->options.socket, strerror(errno));
	s->told_absent = true;
	hang_up(s);
}

/* A message for which there is no room is left out: the next one has all that is new. */
static void tell_zerneld(struct state *s)
{
	if (s->to >= 0 && recv(s->to, &(char){0}, 1, MSG_DONTWAIT) == 0)
		hang_up(s);
	if (s->to < 0)
		call_zerneld(s);
	if (s->to >= 0 && send(s->to, s->message.text, s->message.len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
		errno != EAGAIN && errno != EINTR && errno != ENOBUFS)
		hang_up(s);
}

static void put_stale(struct state *s, uint64_t now)
{
	char step[sizeof(s->watch->step)];

	memcpy(step, s->watch->step, sizeof(step));
	step[sizeof(step) - 1] = 0;
	message_begin(&s->message, now);
	message_add(&s->message, "stale %llu %s\n", (unsigned long long)(now - s->alive_ms), step);
}

static void do_round(struct state *s)
{
	bool heard = hear_sampler(s), late;
	uint64_t now;

	look_for_answers(s);
	look_after_sampler(s);
	now = now_ms(); /* not before what it is compared with */
	late = s->sampler && now - s->alive_ms >= PATIENCE_ROUNDS * (uint64_t)s->options.interval_ms;
	if (late)
		put_stale(s, now);
	else if (!heard && !s->sampler && s->why[0]) {
		message_begin(&s->message, now);
		message_add(&s->message, "why %s\n", s->why);
	} else if (!heard)
		return;
	tell_zerneld(s);
}

static void wait_round(struct state *s)
{
	struct pollfd one = {.fd = s->from, .events = POLLIN};
	uint64_t now = now_ms();

	if (now >= s->due_ms)
		s->due_ms = now + s->options.interval_ms;
	poll(&one, s->from >= 0, (int)(s->due_ms - now));
}

static int run_forever(struct state *s)
{
	uint64_t begun = now_ms();

	start_sampler(s);
	while (!ending) {
		do_round(s);
		if (!__atomic_load_n(&s->watch->initialized, __ATOMIC_RELAXED) && !s->sampler &&
			now_ms() - begun >= GIVE_UP_ROUNDS * (uint64_t)s->options.interval_ms)
			return EX_TEMPFAIL;
		wait_round(s);
	}
	if (s->sampler)
		kill(s->sampler, SIGKILL);
	return 0;
}

/* False: no message comes. */
static bool await_sampler(struct state *s)
{
	struct pollfd one = {.fd = s->from, .events = POLLIN};
	uint64_t wait_ms = (PATIENCE_ROUNDS + 2) * (uint64_t)s->options.interval_ms;

	while (s->from >= 0 && now_ms() - s->alive_ms < wait_ms) {
		if (poll(&one, 1, (int)s->options.interval_ms) == 1)
			return true;
		look_for_answers(s);
	}
	return false;
}

/* What it would send, for people. */
static int run_once(struct state *s)
{
	start_sampler(s);
	if (!await_sampler(s)) {
		fprintf(stderr, "zernel-gpu: the library does not answer: %.31s\n", s->watch->step);
		if (s->sampler)
			kill(s->sampler, SIGKILL);
		return 1;
	}
	if (!hear_sampler(s))
		return 1;
	fwrite(s->message.text, 1, s->message.len, stdout);
	return find_line(&s->message, "\nwhy ") ? 1 : 0;
}

/* ---- Options ---- */

static int show_help(void)
{
	puts("zernel-gpu: tells zerneld how the GPUs of NVIDIA are, as NVML says\n"
	     "  --socket PATH      zerneld's; " SOCKET_PATH "\n"
	     "  --library FILE     NVML; " LIBRARY "\n"
	     "  --interval-ms N    100 to 1000; 1000\n"
	     "  --once             print what would be sent, and end\n"
	     "  --version, --help");
	return 0;
}

static int bad_option(const char *option, const char *what)
{
	fprintf(stderr, "zernel-gpu: %s: %s\n", option, what);
	return 2;
}

/* 0, or the status to end with, less than 0: end well. */
static int read_options(struct options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		char *end = NULL;
		unsigned long number = value ? strtoul(value, &end, 10) : 0;

		if (!strcmp(option, "--help"))
			return show_help() - 1;
		if (!strcmp(option, "--version"))
			return printf("zernel-gpu %s\n", ZN_VERSION) < 0 ? 1 : -1;
		if (!strcmp(option, "--once")) {
			o->once = true;
			continue;
		}
		if (!value)
			return bad_option(option, "no such option, or it needs a value");
		i++;
		if (!strcmp(option, "--socket") && value[0] == '/' &&
			strlen(value) < sizeof(((struct sockaddr_un *)0)->sun_path))
			o->socket = value;
		else if (!strcmp(option, "--library") && value[0])
			o->library = value;
		else if (!strcmp(option, "--interval-ms") && end != value && !*end && number >= 100 && number <= 1000)
			o->interval_ms = (unsigned)number;
		else
			return bad_option(option, "no such option, or a value that it cannot have");
	}
	return 0;
}

int main(int argc, char **argv)
{
	static struct state s = {.from = -1, .to = -1};
	struct sigaction end = {.sa_handler = on_end};
	int status;

	s.options = (struct options){.socket = SOCKET_PATH, .library = LIBRARY, .interval_ms = 1000};
	status = read_options(&s.options, argc, argv);
	if (status)
		return status < 0 ? 0 : status;
	s.watch = mmap(NULL, sizeof(*s.watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (s.watch == MAP_FAILED) {
		perror("zernel-gpu: memory");
		return 1;
	}
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGINT, &end, NULL);
	return s.options.once ? run_once(&s) : run_forever(&s);
}
