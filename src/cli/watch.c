/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch.c: `zernel watch`, the snapshot of a daemon in a terminal, fetched once a second; `zernel top`, the same with
 * the view of file I/O first. Its input loop: keys, signals, answers.
 */
#include "zernel.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define FRAME_MAX (1u << 20) /* some 2 KiB for each line of the largest screen take half of it */

#define USAGE "usage: zernel watch|top [http://ADDRESS:PORT | unix:PATH] [--token-file FILE] [--once] [--json]"

#define CELL          ZN_UNITS_CELL
#define KEY_CTRL_C    3
#define KEY_ESCAPE    27
#define KEY_PAGE_UP   'u'
#define KEY_PAGE_DOWN 'd'

static bool is_simulated(const struct zn_watch *w)
{
	char source[CELL];

	return !strcmp(zn_value_text(w->snapshot, "source", source), "simulated");
}

static bool draw_screen(struct zn_watch *w)
{
	struct zn_term *t = &w->term;
	char stale[256];
	bool table;

	zn_term_measure(t);
	zn_term_begin(t);
	t->limit -= t->screen; /* the last line is the footer's */
	t->dim = zn_panel_is_stale(w, stale);
	table = !w->help && (!t->dim || t->color);
	zn_panel_header(w);
	if (is_simulated(w))
		zn_term_line(t, ZN_STYLE_LOUD, "*** SIMULATED: these numbers are made up, no job is behind them ***");
	if (t->dim)
		zn_term_line(t, ZN_STYLE_LOUD, "%s", stale);
	if (w->help)
		zn_panel_help(t);
	if (table)
		zn_views_body(w);
	if (t->screen)
		zn_views_footer(w, table);
	return zn_term_flush(t);
}

/* The answer on one line. On a terminal, control characters that JSON allows as they are become escapes. */
static bool print_json(struct zn_str s)
{
	bool terminal = isatty(STDOUT_FILENO);
	size_t from = 0;
	char escape[8];
	bool ok = true;

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i], next = i + 1 < s.len ? (unsigned char)s.at[i + 1] : 0;
		bool two = c == 0xc2 && next >= 0x80 && next < 0xa0;

		if (c != '\n' && c != '\r' && !(terminal && (two || c == 0x7f)))
			continue;
		snprintf(escape, sizeof(escape), c < ' ' ? " " : "\\u%04x", two ? next : c);
		ok = ok && zn_term_write(s.at + from, i - from) && zn_term_write(escape, strlen(escape));
		i += two;
		from = i + 1;
	}
	return ok && zn_term_write(s.at + from, s.len - from) && zn_term_write("\n", 1);
}

static int page_key(char parameter)
{
	return parameter == '5' ? KEY_PAGE_UP : parameter == '6' ? KEY_PAGE_DOWN : 0;
}

#define FIRST_PARAMETER 2 /* of an escape sequence; those behind it are of the keys held at the same time */
#define LATER_PARAMETER 3
#define NO_DIGIT        ' ' /* it has more than one */

/* The key that a byte completes, 0 for none: arrows are k and j. */
static int key_of(struct zn_watch *w, char c)
{
	int state = w->escape;

	w->escape = 0;
	if (c == KEY_ESCAPE)
		w->escape = 1;
	else if (state == 1 && (c == '[' || c == 'O'))
		w->escape = FIRST_PARAMETER;
	else if (state < FIRST_PARAMETER)
		return c;
	else if (c >= '@' && c <= '~')
		return c == 'A' ? 'k' : c == 'B' ? 'j' : c == '~' ? page_key(w->parameter) : 0;
	else
		w->escape = state == FIRST_PARAMETER && c != ';' ? FIRST_PARAMETER : LATER_PARAMETER;
	if (w->escape == FIRST_PARAMETER)
		w->parameter = state < FIRST_PARAMETER ? 0 : w->parameter ? NO_DIGIT : c;
	return 0;
}

static void press_key(struct zn_watch *w, int key)
{
	static const char sorts[] = {
		[ZN_SORT_PID] = 'p', [ZN_SORT_MEMORY] = 'm', [ZN_SORT_RATE] = 'l', [ZN_SORT_P99] = '9'};
	const char *sort = key ? memchr(sorts, key, sizeof(sorts)) : NULL;

	if (sort)
		w->sort = (enum zn_watch_sort)(sort - sorts);
	if (sort)
		zn_watch_sort_rows(w);
	zn_views_choose(w, key);
	switch (key) {
	case 'q':
	case KEY_CTRL_C: w->quit = true; break;
	case '?': w->help = !w->help; break;
	case '\t': zn_views_next(w); break;
	case 'j': w->top++; break;
	case 'k': w->top--; break;
	case KEY_PAGE_DOWN: w->top += zn_watch_at_least_one(w->fits); break;
	case KEY_PAGE_UP: w->top -= zn_watch_at_least_one(w->fits); break;
	}
	w->dirty = true;
}

static void read_keys(struct zn_watch *w)
{
	char bytes[64];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		w->quit = true;
	for (ssize_t i = 0; i < n; i++)
		press_key(w, key_of(w, bytes[i]));
}

static void read_signals(struct zn_watch *w)
{
	struct signalfd_siginfo info;

	while (read(w->signals, &info, sizeof(info)) == sizeof(info)) {
		w->dirty = true;
		if (info.ssi_signo == SIGCONT)
			zn_term_enter(&w->term);
		else if (info.ssi_signo != SIGWINCH) {
			w->quit = true;
			w->status = 128 + (int)info.ssi_signo;
		}
	}
}

static void finish_fetch(struct zn_watch *w, int result, uint64_t now_ns)
{
	if (result == 0)
		return;
	if (result > 0)
		zn_watch_take_answer(w, now_ns);
	w->failed = result < 0;
	w->dirty = true;
}

static void fetch_due(struct zn_watch *w, uint64_t now_ns)
{
	if (now_ns < w->next_ns)
		return;
	w->next_ns += ZN_NS_PER_S;
	if (w->next_ns <= now_ns)
		w->next_ns = now_ns + ZN_NS_PER_S;
	w->dirty = w->dirty || w->term.screen;
	if (!zn_client_busy(&w->client))
		finish_fetch(w, zn_client_start(&w->client, now_ns), now_ns);
}

/* Waits for the next thing and does what it asks for. */
static void run_turn(struct zn_watch *w)
{
	struct zn_client *c = &w->client;
	bool deadline = zn_client_busy(c) && c->deadline_ns < w->next_ns;
	struct pollfd fds[] = {
		{.fd = w->term.keys ? STDIN_FILENO : -1, .events = POLLIN},
		{.fd = w->term.screen ? w->signals : -1, .events = POLLIN},
		zn_client_poll(c),
	};
	uint64_t now_ns;

	poll(fds, ZN_LEN(fds), zn_client_ms_until(deadline ? c->deadline_ns : w->next_ns));
	if (fds[0].revents)
		read_keys(w);
	if (fds[1].revents)
		read_signals(w);
	now_ns = zn_now_ns();
	finish_fetch(w, zn_client_step(c, fds[2].revents, now_ns), now_ns);
	fetch_due(w, now_ns);
}

static void catch_signals(struct zn_watch *w)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ZN_LEN(caught); i++)
		sigaddset(&set, caught[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int run_screen(struct zn_watch *w)
{
	catch_signals(w);
	zn_term_open(&w->term);
	while (!w->quit) {
		if (w->dirty && !draw_screen(w))
			break;
		w->dirty = false;
		run_turn(w);
	}
	zn_term_close(&w->term);
	return w->status;
}

static int run_json(struct zn_watch *w)
{
	bool complained = false;

	for (;;) {
		if (w->dirty && !w->failed && !print_json(w->snapshot))
			return 1;
		if (w->dirty && w->failed && !complained)
			fprintf(stderr, "zernel: watch: no answer from %s: %s; trying again\n", w->client.name,
				w->client.why);
		complained = w->failed;
		w->dirty = false;
		run_turn(w);
	}
}

/* -1 to go on, or the exit status. */
static int parse_options(struct zn_watch *w, int argc, char **argv)
{
	struct zn_client_args args = {.verb = argv[0], .usage = USAGE};

	for (int i = 1, used = 1; i < argc; i += used, used = 1) {
		if (!strcmp(argv[i], "--once"))
			w->once = true;
		else if (!strcmp(argv[i], "--json"))
			w->json = true;
		else if (!strcmp(argv[i], "--help"))
			return puts(USAGE) < 0;
		else if ((used = zn_client_argument(&args, argv, i)) < 0)
			return 2;
	}
	if (zn_client_open(&w->client, &args, "/json", zn_watch_answers[0]))
		return 2;
	if (!w->once && !w->json && (!isatty(STDOUT_FILENO) || !zn_term_able())) {
		fprintf(stderr, "zernel: %s: %s: use --once or --json\n", argv[0],
			isatty(STDOUT_FILENO) ? "TERM=dumb cannot show a screen" : "standard output is no terminal");
		return 2;
	}
	return -1;
}

int zn_watch_main(int argc, char **argv)
{
	static char frame[FRAME_MAX];
	static struct zn_watch w;
	int status = parse_options(&w, argc, argv);

	if (status >= 0)
		return status;
	if (zn_client_get(&w.client))
		return zn_client_complain(&w.client, argv[0]);
	w.sort = ZN_SORT_MEMORY;
	if (!strcmp(argv[0], "top"))
		press_key(&w, 'i');
	w.term.out = (struct zn_out){.at = frame, .cap = sizeof(frame)};
	finish_fetch(&w, 1, zn_now_ns());
	w.next_ns = w.answer_ns + ZN_NS_PER_S;
	if (w.once)
		return (w.json ? print_json(w.snapshot) : draw_screen(&w)) ? 0 : 1;
	return w.json ? run_json(&w) : run_screen(&w);
}
