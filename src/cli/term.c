/* SPDX-License-Identifier: GPL-2.0 */
/*
 * term.c: what the client verbs write: lines of styled text and cells, as a frame that is redrawn in place or as plain
 * lines.
 *
 * Limits: a screen of 512 columns and 256 lines; a width is a guess for characters that terminals disagree about.
 * Text may come from anywhere: what is no UTF-8 or could move the cursor is shown as '?'. One terminal per process.
 */
#include "zernel.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define COLS_MAX  512
#define ROWS_MAX  256
#define COLS_PIPE 120 /* width where there is no terminal to ask */

static struct termios saved;

/* Width in columns; -1 is never shown. Characters in doubt count as wide, so that a line never wraps. All others
 * take one column. */
static const struct range {
	uint32_t first;
	uint32_t last;
	int width;
} ranges[] = {
	{0x00, 0x1f, -1},
	{0x7f, 0x9f, -1},
	{0xad, 0xad, -1},
	{0x300, 0x36f, 0},
	{0x61c, 0x61c, -1},
	{0x1100, 0x115f, 2},
	{0x180e, 0x180e, -1},
	{0x200b, 0x200f, -1},
	{0x2028, 0x202e, -1},
	{0x2060, 0x206f, -1},
	{0x20d0, 0x20ff, 0},
	{0x231a, 0x23ff, 2},
	{0x2600, 0x27bf, 2},
	{0x2b00, 0x2bff, 2},
	{0x2e80, 0xa4cf, 2},
	{0xa960, 0xa97f, 2},
	{0xac00, 0xd7ff, 2},
	{0xf900, 0xfaff, 2},
	{0xfe00, 0xfe0f, 0},
	{0xfe10, 0xfe1f, 2},
	{0xfe20, 0xfe2f, 0},
	{0xfe30, 0xfe6f, 2},
	{0xfeff, 0xfeff, -1},
	{0xff00, 0xff60, 2},
	{0xffe0, 0xffe6, 2},
	{0xfff0, 0xffff, -1},
	{0x16fe0, 0x1b2ff, 2},
	{0x1f000, 0x1faff, 2},
	{0x20000, 0x3fffd, 2},
	{0xe0000, 0xe0fff, -1},
};

static int width_of(uint32_t c)
{
	for (size_t i = 0; i < ZN_LEN(ranges) && c >= ranges[i].first; i++)
		if (c <= ranges[i].last)
			return ranges[i].width;
	return 1;
}

/* The length and the width of the first character of s, which is not empty; bytes that are no UTF-8 (RFC 3629) are
 * never shown. */
static size_t decode_char(struct zn_str s, int *width)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)s.at;
	size_t n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
	uint32_t c = n == 1 ? p[0] : p[0] & (0x7fu >> n);

	*width = -1;
	if (n == 0 || n > s.len)
		return 1;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 1;
		c = c << 6 | (p[i] & 0x3fu);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 1;
	*width = width_of(c);
	return n;
}

int zn_term_columns(const char *text)
{
	struct zn_str s = {text, strlen(text)};
	int cols = 0, width;

	while (s.len) {
		size_t n = decode_char(s, &width);

		cols += abs(width);
		s.at += n;
		s.len -= n;
	}
	return cols;
}

size_t zn_term_break(const char *text, int width)
{
	struct zn_str s = {text, strlen(text)};
	size_t space = 0;
	int cols = 0, w;

	while (s.len) {
		size_t n = decode_char(s, &w);

		if (*s.at == ' ')
			space = (size_t)(s.at - text);
		cols += abs(w);
		if (cols > width)
			return space ? space : (size_t)(s.at - text) ? (size_t)(s.at - text) : n;
		s.at += n;
		s.len -= n;
	}
	return (size_t)(s.at - text);
}

/* Once something was cut, the rest of the line, or of the cell, stays empty. */
void zn_term_put(struct zn_term *t, const char *text)
{
	struct zn_str s = {text, strlen(text)};
	int width;

	if (t->row >= t->limit)
		return;
	while (s.len) {
		size_t n = decode_char(s, &width);

		if (t->col >= t->edge || t->col + abs(width) > t->edge) {
			t->edge = t->col;
			return;
		}
		if (width < 0)
			zn_out_char(&t->out, '?');
		else
			zn_out_bytes(&t->out, s.at, n);
		t->col += abs(width);
		s.at += n;
		s.len -= n;
	}
}

__attribute__((format(printf, 2, 0))) static void vputf(struct zn_term *t, const char *format, va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, args);
	zn_term_put(t, text);
}

void zn_term_putf(struct zn_term *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vputf(t, format, args);
	va_end(args);
}

void zn_term_cell(struct zn_term *t, const char *text, int width)
{
	int edge = t->edge, end = t->col + abs(width), gap = width < 0 ? -width - zn_term_columns(text) : 0;

	end = end < edge ? end : edge;
	t->edge = end;
	if (gap > 0)
		zn_term_putf(t, "%*s", gap, "");
	zn_term_put(t, text);
	t->edge = end;
	zn_term_putf(t, "%*s", end - t->col, "");
	t->edge = edge;
}

void zn_term_style(struct zn_term *t, enum zn_style style)
{
	static const char *const codes[ZN_STYLE_COUNT] = {
		[ZN_STYLE_PLAIN] = "\033[0m",
		[ZN_STYLE_BOLD] = "\033[0;1m",
		[ZN_STYLE_GOOD] = "\033[0;32m",
		[ZN_STYLE_WARN] = "\033[0;33m",
		[ZN_STYLE_BAD] = "\033[0;31m",
		[ZN_STYLE_LOUD] = "\033[0;1;37;41m",
		[ZN_STYLE_FAINT] = "\033[0;2m",
		[ZN_STYLE_CAUSE + ZN_STALL_CPU] = "\033[0;30;44m",
		[ZN_STYLE_CAUSE + ZN_STALL_GPU] = "\033[0;30;42m",
		[ZN_STYLE_CAUSE + ZN_STALL_DATA] = "\033[0;30;41m",
		[ZN_STYLE_CAUSE + ZN_STALL_DIST] = "\033[0;30;43m",
		[ZN_STYLE_CAUSE + ZN_STALL_IO] = "\033[0;30;45m",
		[ZN_STYLE_CAUSE + ZN_STALL_RUNQUEUE] = "\033[0;30;46m",
		[ZN_STYLE_CAUSE + ZN_STALL_OTHER] = "\033[0;30;47m",
	};

	if (t->color && t->row < t->limit)
		zn_out_text(&t->out, codes[t->dim && style != ZN_STYLE_LOUD ? ZN_STYLE_FAINT : style]);
}

bool zn_term_write(const char *at, size_t len)
{
	struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};

	while (len) {
		ssize_t n = write(STDOUT_FILENO, at, len);

		if (n < 0 && errno == EAGAIN)
			poll(&out, 1, -1);
		else if (n < 0 && errno != EINTR)
			return false;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
	return true;
}

bool zn_term_flush(struct zn_term *t)
{
	size_t len = t->out.len;

	t->out.len = 0;
	return zn_term_write(t->out.at, len);
}

void zn_term_end(struct zn_term *t)
{
	if (t->row >= t->limit)
		return;
	if (t->color)
		zn_out_text(&t->out, "\033[0m");
	/* on a full line the cursor still stands on the last column, and erasing would take that */
	if (t->screen && t->col < t->cols)
		zn_out_text(&t->out, "\033[K");
	if (!t->screen)
		zn_out_char(&t->out, '\n');
	else if (t->row + 1 < t->rows)
		zn_out_text(&t->out, "\r\n");
	t->row++;
	t->col = 0;
	t->edge = t->cols;
	if (t->dim)
		zn_term_style(t, ZN_STYLE_PLAIN);
	if (!t->screen && t->out.len > t->out.cap / 2)
		zn_term_flush(t);
}

void zn_term_line(struct zn_term *t, enum zn_style style, const char *format, ...)
{
	va_list args;

	zn_term_style(t, style);
	va_start(args, format);
	vputf(t, format, args);
	va_end(args);
	zn_term_end(t);
}

void zn_term_measure(struct zn_term *t)
{
	const char *wanted = getenv("COLUMNS");
	long asked = wanted ? strtol(wanted, NULL, 10) : 0;
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		asked = size.ws_col ? size.ws_col : 80;
	else if (asked <= 0)
		asked = COLS_PIPE;
	t->cols = asked < COLS_MAX ? (int)asked : COLS_MAX;
	t->rows = size.ws_row ? size.ws_row : 24;
	t->rows = !t->screen ? 0 : t->rows < ROWS_MAX ? t->rows : ROWS_MAX;
}

void zn_term_begin(struct zn_term *t)
{
	t->out.len = 0;
	t->row = t->col = 0;
	t->edge = t->cols;
	t->limit = t->rows ? t->rows : INT_MAX;
	if (t->screen)
		zn_out_text(&t->out, "\033[H");
}

void zn_term_enter(const struct zn_term *t)
{
	/* the other screen, no cursor, no wrap at the right side */
	static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
	struct termios raw = saved;

	cfmakeraw(&raw);
	if (t->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	zn_term_write(enter, sizeof(enter) - 1);
}

bool zn_term_able(void)
{
	const char *term = getenv("TERM");

	return !term || strcmp(term, "dumb");
}

void zn_term_open(struct zn_term *t)
{
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");

	t->keys = tcgetattr(STDIN_FILENO, &saved) == 0;
	t->screen = true;
	t->color = term && *term && !(no_color && *no_color);
	zn_term_enter(t);
}

void zn_term_close(const struct zn_term *t)
{
	static const char leave[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

	zn_term_write(leave, sizeof(leave) - 1);
	if (t->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
}
