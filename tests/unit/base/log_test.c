/* SPDX-License-Identifier: GPL-2.0 */
/* log_test.c: what a line of the log looks like, byte for byte. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define LINE_MAX_BYTES 1024

static int pipe_fds[2], saved = -1;
static char got[4 * LINE_MAX_BYTES];

/* In packet mode each read() returns what one write() wrote. */
static void listen_in(void)
{
	zn_log_level = ZN_INFO;
	saved = dup(STDERR_FILENO);
	if (saved < 0 || pipe2(pipe_fds, O_DIRECT | O_NONBLOCK | O_CLOEXEC) || dup2(pipe_fds[1], STDERR_FILENO) < 0)
		abort();
}

static const char *next_write(void)
{
	ssize_t n = read(pipe_fds[0], got, sizeof(got) - 1);

	got[n > 0 ? n : 0] = '\0';
	return got;
}

static void listen_no_more(void)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static const struct {
	const char *name, *text, *line;
} lines[] = {
	{"line: plain", "ready", "zerneld: ready\n"},
	{"line: empty", "", "zerneld: \n"},
	{"line: percent", "100 %d %s", "zerneld: 100 %d %s\n"},
	{"line: newline", "a\nzerneld: b", "zerneld: a\\x0azerneld: b\n"},
	{"line: escape sequence", "\x1b[2J", "zerneld: \\x1b[2J\n"},
	{"line: last printable, first that is not", "~\x7f", "zerneld: ~\\x7f\n"},
	{"line: first printable, last that is not", " \x1f", "zerneld:  \\x1f\n"},
	{"line: beyond ASCII", "\xc3\xa9\xff", "zerneld: \\xc3\\xa9\\xff\n"},
	{"line: backslash", "\\x41", "zerneld: \\x41\n"},
};

static void bytes_of_a_line(void)
{
	for (size_t i = 0; i < ZN_LEN(lines); i++) {
		t_begin(lines[i].name);
		listen_in();
		zn_log(ZN_INFO, "%s", lines[i].text);
		next_write();
		listen_no_more();
		CHECK_STR(got, lines[i].line);
	}
}

static unsigned lines_written(void)
{
	unsigned count = 0;

	while (*next_write())
		count++;
	return count;
}

/* Lines of one format are one kind: so many pass at a time. What is held back is counted, and said once a line could
 * pass. */
T(each_kind_of_line_has_a_limit)
{
	char seen[3][128];
	unsigned passed;

	zn_log_burst = 3;
	listen_in();
	for (int i = 0; i < 1000; i++)
		zn_log(ZN_WARN, "of a user %d", i);
	passed = lines_written();
	zn_log(ZN_ERROR, "an error");
	strcpy(seen[0], next_write());
	zn_log(ZN_WARN, "of something else");
	strcpy(seen[1], next_write());
	zn_log_tick(zn_now_ns());
	snprintf(seen[2], sizeof(seen[2]), "%s", next_write()); /* empty, unless all this took a second */
	zn_log_tick(zn_now_ns() + 10 * ZN_NS_PER_S);
	next_write();
	listen_no_more();
	zn_log_burst = 0;
	CHECK(passed >= 3 && passed < 500);
	CHECK_STR(seen[0], "zerneld: error: an error\n");
	CHECK_STR(seen[1], "zerneld: warning: of something else\n");
	CHECK(strstr(got, " more lines were held back like: of a user ") ||
		strstr(seen[2], " more lines were held back like: of a user "));
}

/* What a user can log without end hides no alert, and a rule that flaps hides no other. */
T(alerts_are_not_held_back)
{
	unsigned passed[3] = {0};

	zn_log_burst = 3;
	listen_in();
	for (int i = 0; i < 1000; i++)
		zn_log(ZN_WARN, "a flood");
	lines_written();
	for (int i = 0; i < 40; i++) {
		zn_log_about(ZN_WARN, 7, "alert %d fires", i);
		passed[0] += lines_written();
	}
	for (int i = 0; i < 1000; i++) {
		zn_log_about(ZN_WARN, 7, "alert %d fires", i);
		zn_log_about(ZN_INFO, 7, "alert %d is resolved", i);
		passed[1] += lines_written();
	}
	zn_log_about(ZN_WARN, 9, "alert %d fires", 1);
	passed[2] = lines_written();
	listen_no_more();
	zn_log_burst = 0;
	CHECK_EQ(passed[0], 40);
	CHECK(passed[1] >= ZN_LOG_SUBJECT - 40 && passed[1] < 1500);
	CHECK_EQ(passed[2], 1);
}

/* More kinds than there are places: some share one, and none is lost for good. */
T(kinds_without_a_place_share_one)
{
	unsigned passed = 0;

	zn_log_burst = 3;
	listen_in();
	for (uint64_t subject = 1; subject <= 2000; subject++) {
		zn_log_about(ZN_WARN, subject, "%u", (unsigned)subject);
		passed += lines_written();
	}
	zn_log_tick(zn_now_ns() + 1000 * ZN_NS_PER_S);
	next_write();
	listen_no_more();
	zn_log_burst = 0;
	CHECK(passed >= ZN_RATE_OWNERS && passed < 2000);
	CHECK(strstr(got, " more lines were held back like: "));
}

T(a_prefix_for_each_level)
{
	static const char *const want[] = {
		"zerneld: error: 7\n", "zerneld: warning: 7\n", "zerneld: 7\n", "zerneld: debug: 7\n"};

	for (enum zn_level level = ZN_ERROR; level <= ZN_DEBUG; level++) {
		listen_in();
		zn_log_level = ZN_DEBUG;
		zn_log(level, "%d", 7);
		next_write();
		listen_no_more();
		CHECK_STR(got, want[level]);
	}
}

T(levels_above_are_silent)
{
	for (enum zn_level limit = ZN_ERROR; limit <= ZN_DEBUG; limit++)
		for (enum zn_level level = ZN_ERROR; level <= ZN_DEBUG; level++) {
			listen_in();
			zn_log_level = limit;
			zn_log(level, "x");
			next_write();
			listen_no_more();
			CHECK_EQ(got[0] != '\0', level <= limit);
		}
}

/* A line of `len` bytes c, and how it must end. */
static void check_long(size_t len, char c, const char *end)
{
	static char text[4 * LINE_MAX_BYTES];
	size_t n;

	memset(text, c, len);
	text[len] = '\0';
	listen_in();
	zn_log(ZN_INFO, "%s", text);
	next_write();
	listen_no_more();
	n = strlen(got);
	CHECK(n <= LINE_MAX_BYTES);
	CHECK(n >= strlen(end) && !strcmp(got + n - strlen(end), end));
	CHECK(strchr(got, '\n') == got + n - 1);
}

T(long_lines_are_cut)
{
	const size_t room = LINE_MAX_BYTES - strlen("zerneld: ") - strlen("...\n");

	for (size_t len = 1; len <= room; len++)
		check_long(len, 'a', "a\n");
	for (size_t len = room + 1; len < 4 * LINE_MAX_BYTES; len += 17)
		check_long(len, 'a', "a...\n");
	for (size_t len = 1; len <= room / 4; len++)
		check_long(len, '\x01', "\\x01\n");
	for (size_t len = room / 4 + 1; len < 4 * LINE_MAX_BYTES; len += 17)
		check_long(len, '\x01', "\\x01...\n");
}

T(one_write_for_a_line)
{
	char first[64], second[64];

	listen_in();
	zn_log(ZN_INFO, "one");
	zn_log(ZN_ERROR, "two");
	snprintf(first, sizeof(first), "%s", next_write());
	snprintf(second, sizeof(second), "%s", next_write());
	next_write();
	listen_no_more();
	CHECK_STR(first, "zerneld: one\n");
	CHECK_STR(second, "zerneld: error: two\n");
	CHECK_STR(got, "");
}

/* A pipe that is full, whose end to write to waits: a journal that stands still. */
static void listen_to_nothing(void)
{
	listen_in();
	memset(got, 'x', LINE_MAX_BYTES);
	while (write(pipe_fds[1], got, LINE_MAX_BYTES) > 0)
		;
	fcntl(pipe_fds[1], F_SETFL, O_DIRECT);
	alarm(60);
}

T(nobody_is_waited_for)
{
	uint64_t before = zn_log_lost(), lost[2];
	char first[128];

	listen_to_nothing();
	for (int i = 0; i < 1000; i++)
		zn_log(ZN_ERROR, "%d", i);
	lost[0] = zn_log_lost() - before;
	while (*next_write())
		;
	zn_log(ZN_INFO, "on");
	snprintf(first, sizeof(first), "%s", next_write());
	next_write();
	lost[1] = zn_log_lost() - before;
	alarm(0);
	listen_no_more();
	CHECK_EQ(lost[0], 1000);
	CHECK_STR(first, "zerneld: warning: log: lines lost before this one, which nobody took: 1000\n");
	CHECK_STR(got, "zerneld: on\n");
	CHECK_EQ(lost[1], 1000);
}

/* What is said of the lost lines takes it, and the line itself is lost. */
T(room_for_one_line)
{
	uint64_t before = zn_log_lost();
	char last[128] = "";

	listen_to_nothing();
	zn_log(ZN_INFO, "a");
	next_write();
	zn_log(ZN_INFO, "b");
	while (*next_write())
		snprintf(last, sizeof(last), "%.*s", (int)sizeof(last) - 1, got);
	alarm(0);
	listen_no_more();
	CHECK_STR(last, "zerneld: warning: log: lines lost before this one, which nobody took: 1\n");
	CHECK_EQ(zn_log_lost() - before, 2);
}

/* Whoever has closed it wants no lines: none is lost. */
T(no_log_at_all)
{
	uint64_t before = zn_log_lost();

	listen_in();
	close(STDERR_FILENO);
	zn_log(ZN_INFO, "x");
	listen_no_more();
	CHECK_EQ(zn_log_lost(), before);
}

T(errno_is_kept)
{
	int written, failed;

	listen_in();
	errno = ENOTTY;
	zn_log(ZN_INFO, "x");
	written = errno;
	dup2(pipe_fds[0], STDERR_FILENO);
	errno = EDOM;
	zn_log(ZN_INFO, "cannot be written");
	failed = errno;
	listen_no_more();
	CHECK_EQ(written, ENOTTY);
	CHECK_EQ(failed, EDOM);
}

T(names_of_levels)
{
	static const char *const no_level[] = {"", "Error", "errors", "warning", "trace", " info", "info\n"};

	CHECK_EQ(zn_log_parse("error"), ZN_ERROR);
	CHECK_EQ(zn_log_parse("warn"), ZN_WARN);
	CHECK_EQ(zn_log_parse("info"), ZN_INFO);
	CHECK_EQ(zn_log_parse("debug"), ZN_DEBUG);
	for (size_t i = 0; i < ZN_LEN(no_level); i++)
		CHECK_EQ(zn_log_parse(no_level[i]), -EINVAL);
}

int main(void)
{
	bytes_of_a_line();
	RUN(each_kind_of_line_has_a_limit);
	RUN(alerts_are_not_held_back);
	RUN(kinds_without_a_place_share_one);
	RUN(a_prefix_for_each_level);
	RUN(levels_above_are_silent);
	RUN(long_lines_are_cut);
	RUN(one_write_for_a_line);
	RUN(nobody_is_waited_for);
	RUN(room_for_one_line);
	RUN(no_log_at_all);
	RUN(errno_is_kept);
	RUN(names_of_levels);
	return t_end();
}
