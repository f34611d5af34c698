/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch.c: `zernel watch`, the snapshot of a daemon in a terminal, fetched once a second over one connection.
 *
 * Limits: numeric addresses and "localhost" only; an answer is at most 16 MiB; the first 1024 processes of an
 * answer are shown; names are cut to their column. Nothing that came over the network reaches the terminal
 * but printable characters. Two answers are kept, the one on show and the one that is coming in.
 */
#include "zernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define HEAD_MAX   16384
#define BODY_MAX   (16u << 20)
#define FRAME_MAX  (4u << 20)
#define COLS_MAX   512
#define ROWS_MAX   256
#define SMALL_ROWS 16
#define COLS_PIPE  120                /* width where there is no terminal to ask */
#define SAMPLES    60                 /* seconds of a sparkline */
#define TRACKS     (2 * ZN_PROCS_MAX) /* so that all processes can change between two answers */
#define CELL       64
#define FETCH_NS   (5 * ZN_NS_PER_S) /* an answer takes no longer */
#define SILENCE_NS (3 * ZN_NS_PER_S) /* after this the last answer is no longer shown as live */

#define USAGE "usage: zernel watch [http://ADDRESS:PORT] [--once] [--json]"

#define KEY_CTRL_C    3
#define KEY_ESCAPE    27
#define KEY_PAGE_UP   'u'
#define KEY_PAGE_DOWN 'd'

struct target {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} address;
	socklen_t len;
	char name[INET6_ADDRSTRLEN + 32]; /* as messages and the Host header show it */
};

static bool parse_port(const char *text, in_port_t *port)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long v = digits && digits <= 5 ? strtoul(text, NULL, 10) : 0;

	*port = htons((uint16_t)v);
	return v > 0 && v <= UINT16_MAX && text[digits] == '\0';
}

static bool set_target(struct target *t, const char *host, in_port_t port)
{
	if (inet_pton(AF_INET, host, &t->address.v4.sin_addr) == 1) {
		t->address.v4.sin_family = AF_INET;
		t->address.v4.sin_port = port;
		t->len = sizeof(t->address.v4);
		snprintf(t->name, sizeof(t->name), "%s:%u", host, ntohs(port));
		return true;
	}
	if (inet_pton(AF_INET6, host, &t->address.v6.sin6_addr) == 1) {
		t->address.v6.sin6_family = AF_INET6;
		t->address.v6.sin6_port = port;
		t->len = sizeof(t->address.v6);
		snprintf(t->name, sizeof(t->name), "[%s]:%u", host, ntohs(port));
		return true;
	}
	return false;
}

/* Cuts HOST, HOST:PORT, [HOST], [HOST]:PORT or a bare IPv6 address in place; *port is NULL if there is none.
 */
static bool split_host(char *text, char **host, char **port)
{
	char *colon = strchr(text, ':');

	*host = text;
	*port = NULL;
	if (*text == '[') {
		colon = strchr(text, ']');
		if (!colon)
			return false;
		*colon++ = '\0';
		*host = text + 1;
	} else if (!colon || strchr(colon + 1, ':')) {
		return true;
	}
	if (*colon == '\0')
		return true;
	*port = colon + 1;
	if (*colon != ':')
		return false;
	*colon = '\0';
	return true;
}

static bool parse_target(const char *url, struct target *t)
{
	char text[INET6_ADDRSTRLEN + 16], *host, *port_text;
	in_port_t port = htons(9091);
	int len;

	*t = (struct target){0};
	url += strncasecmp(url, "http://", 7) ? 0 : 7;
	len = snprintf(text, sizeof(text), "%s", url);
	if (len <= 0 || (size_t)len >= sizeof(text))
		return false;
	if (text[len - 1] == '/')
		text[len - 1] = '\0';
	if (!split_host(text, &host, &port_text) || (port_text && !parse_port(port_text, &port)))
		return false;
	return set_target(t, strcasecmp(host, "localhost") ? host : "127.0.0.1", port);
}

enum phase { CLOSED, CONNECTING, READING, IDLE };

/* Fetches /json over a connection that is kept. Zero but for target, fd = -1 and buffer is closed. */
struct client {
	const struct target *target;
	int fd;
	enum phase phase;
	bool reused; /* the request went over a kept connection, which the daemon may have closed meanwhile */
	bool unreachable; /* the last failure was a connection that did not come about */
	uint64_t deadline_ns;
	size_t len;  /* bytes received */
	size_t head; /* length of the head, 0: not complete */
	size_t body;
	bool keep;
	char why[128]; /* of the last failure */
	char *buffer;  /* where the next answer goes */
};

static char answers[2][HEAD_MAX + BODY_MAX];

static void client_close(struct client *c)
{
	if (c->phase != CLOSED)
		close(c->fd);
	c->phase = CLOSED;
	c->fd = -1;
}

static int client_fail(struct client *c, const char *why)
{
	c->unreachable = c->phase == CONNECTING;
	snprintf(c->why, sizeof(c->why), "%s", why);
	client_close(c);
	return -1;
}

static int client_send(struct client *c)
{
	char request[256];
	ssize_t sent,
	        len = snprintf(request, sizeof(request),
	                "GET /json HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\nUser-Agent: "
	                "zernel-watch\r\n\r\n",
	                c->target->name);

	c->len = 0;
	c->head = 0;
	sent = send(c->fd, request, (size_t)len, MSG_NOSIGNAL);
	if (sent != len)
		return client_fail(c, sent < 0 ? strerror(errno) : "the request was not taken whole");
	c->phase = READING;
	return 0;
}

static int client_connect(struct client *c)
{
	c->reused = false;
	c->fd = socket(c->target->address.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return client_fail(c, strerror(errno));
	c->phase = CONNECTING;
	if (connect(c->fd, &c->target->address.any, c->target->len) && errno != EINPROGRESS)
		return client_fail(c, strerror(errno));
	return 0;
}

/* Begins to fetch. As the other client functions: 0 under way, 1 answer complete, -1 failed, with c->why set.
 */
static int client_start(struct client *c, uint64_t now_ns)
{
	c->deadline_ns = now_ns + FETCH_NS;
	if (c->phase == CLOSED)
		return client_connect(c);
	c->reused = true;
	return client_send(c) ? client_connect(c) : 0;
}

static bool parse_length(struct zn_str value, size_t *length)
{
	size_t v = 0;

	for (size_t i = 0; i < value.len; i++) {
		if (value.at[i] < '0' || value.at[i] > '9' || v > BODY_MAX)
			return false;
		v = 10 * v + (size_t)(value.at[i] - '0');
	}
	*length = v;
	return value.len > 0;
}

static struct zn_str trim(struct zn_str s)
{
	while (s.len && memchr(" \t\r\n", s.at[0], 4)) {
		s.at++;
		s.len--;
	}
	while (s.len && memchr(" \t\r\n", s.at[s.len - 1], 4))
		s.len--;
	return s;
}

/* Reads one header line into c. False if the length of the body cannot be known from it (RFC 9112,
 * section 6.3). */
static bool parse_header(struct client *c, struct zn_str line, bool *sized)
{
	const char *colon = memchr(line.at, ':', line.len);
	size_t name = colon ? (size_t)(colon - line.at) : 0, before = c->body;
	struct zn_str value;

	if (!colon)
		return false;
	value = trim((struct zn_str){colon + 1, line.len - name - 1});
	if (name == 17 && !strncasecmp(line.at, "Transfer-Encoding", name))
		return false;
	if (name == 10 && !strncasecmp(line.at, "Connection", name) && zn_http_has_token(value, "close"))
		c->keep = false;
	if (name != 14 || strncasecmp(line.at, "Content-Length", name))
		return true;
	if (!parse_length(value, &c->body) || (*sized && c->body != before))
		return false;
	*sized = true;
	return true;
}

/* Reads a complete head, whose last four bytes are the empty line. */
static int parse_head(struct client *c)
{
	const char *at = c->buffer, *end = c->buffer + c->head - 2;
	bool sized = false;
	char why[64];

	if (c->head < 16 || memcmp(at, "HTTP/1.", 7) || at[8] != ' ' || !memchr(" \r", at[12], 2))
		return client_fail(c, "it does not speak HTTP/1.1");
	if (memcmp(at + 9, "200", 3)) {
		snprintf(why, sizeof(why), "status %.3s for /json",
		        strspn(at + 9, "0123456789") == 3 ? at + 9 : "?");
		return client_fail(c, why);
	}
	c->keep = at[7] != '0';
	c->body = 0;
	at = (const char *)memchr(at, '\n', c->head) + 1;
	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));

		if (!stop || !parse_header(c, (struct zn_str){at, (size_t)(stop - at)}, &sized))
			return client_fail(c, "an HTTP head that makes no sense");
		at = stop + 1;
	}
	if (!sized || c->body > BODY_MAX)
		return client_fail(
		        c, sized ? "an answer of more than 16 MiB" : "an answer without Content-Length");
	return 0;
}

static int client_parse(struct client *c)
{
	if (!c->head) {
		size_t len = c->len < HEAD_MAX ? c->len : HEAD_MAX;
		const char *empty = memmem(c->buffer, len, "\r\n\r\n", 4);

		if (!empty)
			return len == HEAD_MAX ? client_fail(c, "an HTTP head without end") : 0;
		c->head = (size_t)(empty - c->buffer) + 4;
		if (parse_head(c))
			return -1;
	}
	if (c->len < c->head + c->body)
		return 0;
	if (c->keep && c->len == c->head + c->body)
		c->phase = IDLE;
	else
		client_close(c);
	return 1;
}

static int client_receive(struct client *c)
{
	ssize_t n = recv(c->fd, c->buffer + c->len, HEAD_MAX + BODY_MAX - c->len, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n > 0) {
		c->len += (size_t)n;
		return client_parse(c);
	}
	/* RFC 9112, section 9.3.1: a kept connection may end at any time, so an idempotent request is sent
	 * again */
	if (c->reused && c->len == 0) {
		client_close(c);
		return client_connect(c);
	}
	return client_fail(c,
	        n < 0            ? strerror(errno)
	                : c->len ? "an answer that was cut off"
	                         : "an empty answer");
}

static int client_ready(struct client *c)
{
	socklen_t len = sizeof(int);
	int err = 0;

	switch (c->phase) {
	case CONNECTING:
		if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) || err)
			return client_fail(c, strerror(err ? err : errno));
		return client_send(c);
	case READING: return client_receive(c);
	default:
		client_close(c);
		return 0; /* nothing may come unasked: this is the end of a kept connection */
	}
}

static bool client_busy(const struct client *c)
{
	return c->phase == CONNECTING || c->phase == READING;
}

enum style { PLAIN, BOLD, GOOD, WARN, BAD, LOUD, FAINT };

/* Text on a grid of columns: a frame, written as one. */
struct view {
	struct zn_out out;
	int cols;
	int rows;  /* 0: as many as it takes */
	int limit; /* no line is written from this one on */
	int row;
	int col;
	int edge;    /* column that text must not pass */
	bool screen; /* a terminal that is redrawn in place; else lines of plain text */
	bool color;
	bool dim; /* all of it is old */
};

/* Width in columns; -1 is never shown. In doubt wide, so that a line never wraps. All others take one. */
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

/* The first character of s, which is not empty: its length, and -1 for bytes that are no UTF-8 (RFC 3629). */
static size_t decode(struct zn_str s, uint32_t *c)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *p = (const unsigned char *)s.at;
	size_t n = p[0] < 0x80 ? 1 : p[0] >> 5 == 6 ? 2 : p[0] >> 4 == 14 ? 3 : p[0] >> 3 == 30 ? 4 : 0;
	uint32_t v = n == 1 ? p[0] : p[0] & (0x7fu >> n);

	*c = UINT32_MAX;
	if (n == 0 || n > s.len)
		return 1;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 1;
		v = v << 6 | (p[i] & 0x3fu);
	}
	if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
		return 1;
	*c = v;
	return n;
}

/* Writes text up to the edge, a '?' for each thing that cannot be shown. The rest of the line stays empty
 * once cut. */
static void put_bytes(struct view *v, struct zn_str s)
{
	uint32_t c;

	while (s.len && v->col < v->edge && v->row < v->limit) {
		size_t n = decode(s, &c);
		int width = c == UINT32_MAX ? -1 : width_of(c);

		if (v->col + abs(width) > v->edge) {
			v->edge = v->col;
			return;
		}
		if (width < 0)
			zn_out_char(&v->out, '?');
		else
			zn_out_bytes(&v->out, s.at, n);
		v->col += abs(width);
		s.at += n;
		s.len -= n;
	}
	if (s.len && v->row < v->limit)
		v->edge = v->col;
}

static void put(struct view *v, const char *text)
{
	put_bytes(v, (struct zn_str){text, strlen(text)});
}

__attribute__((format(printf, 2, 0))) static void vputf(struct view *v, const char *format, va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, args);
	put(v, text);
}

__attribute__((format(printf, 2, 3))) static void putf(struct view *v, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vputf(v, format, args);
	va_end(args);
}

static int columns_of(const char *text)
{
	struct zn_str s = {text, strlen(text)};
	int cols = 0;
	uint32_t c;

	while (s.len) {
		size_t n = decode(s, &c);

		cols += c == UINT32_MAX ? 1 : abs(width_of(c));
		s.at += n;
		s.len -= n;
	}
	return cols;
}

/* Writes text cut and filled up to a width; a negative one sets it against the right side. */
static void put_cell(struct view *v, const char *text, int width)
{
	int edge = v->edge, end = v->col + abs(width), gap = width < 0 ? -width - columns_of(text) : 0;

	v->edge = end < edge ? end : edge;
	if (gap > 0)
		putf(v, "%*s", gap, "");
	put(v, text);
	v->edge = end < edge ? end : edge;
	putf(v, "%*s", v->edge - v->col, "");
	v->edge = edge;
}

static void set_style(struct view *v, enum style style)
{
	static const char *const codes[] = {
	        [PLAIN] = "\033[0m",
	        [BOLD] = "\033[0;1m",
	        [GOOD] = "\033[0;32m",
	        [WARN] = "\033[0;33m",
	        [BAD] = "\033[0;31m",
	        [LOUD] = "\033[0;1;37;41m",
	        [FAINT] = "\033[0;2m",
	};

	if (v->color && v->row < v->limit)
		zn_out_text(&v->out, codes[v->dim && style != LOUD ? FAINT : style]);
}

static bool write_all(const char *at, size_t len)
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

static bool view_flush(struct view *v)
{
	size_t len = v->out.len;

	v->out.len = 0;
	return write_all(v->out.at, len);
}

static void end_line(struct view *v)
{
	if (v->row >= v->limit)
		return;
	if (v->color)
		zn_out_text(&v->out, "\033[0m");
	/* on a full line the cursor still stands on the last column, and erasing would take that */
	if (v->screen && v->col < v->cols)
		zn_out_text(&v->out, "\033[K");
	if (!v->screen)
		zn_out_char(&v->out, '\n');
	else if (v->row + 1 < v->rows)
		zn_out_text(&v->out, "\r\n");
	v->row++;
	v->col = 0;
	v->edge = v->cols;
	if (v->dim)
		set_style(v, PLAIN);
	if (!v->screen && v->out.len > FRAME_MAX / 2)
		view_flush(v);
}

/* One line of one style; what does not fit is cut off. */
__attribute__((format(printf, 3, 4))) static void put_line(
        struct view *v, enum style style, const char *format, ...)
{
	va_list args;

	set_style(v, style);
	va_start(args, format);
	vputf(v, format, args);
	va_end(args);
	end_line(v);
}

static int at_least_one(int n)
{
	return n > 1 ? n : 1;
}

/* How many lines a list may take: one in `part` of the screen. */
static int share(const struct view *v, int part)
{
	return v->rows ? at_least_one(v->rows / part) : INT_MAX;
}

static struct zn_str dig(struct zn_str value, const char *path)
{
	char key[32];

	while (*path && value.len) {
		size_t n = strcspn(path, ".");

		snprintf(key, sizeof(key), "%.*s", (int)n, path);
		value = zn_json_member(value, key);
		path += n + (path[n] == '.');
	}
	return value;
}

static bool known(struct zn_str value)
{
	return value.len && value.at[0] != 'n';
}

static double number(struct zn_str object, const char *path)
{
	return zn_json_number(dig(object, path));
}

static uint64_t integer(struct zn_str object, const char *path)
{
	return zn_json_integer(dig(object, path));
}

/* Of a string; of a number or a literal as it stands; "-" if it is empty, null or missing. */
static const char *text_of(struct zn_str object, const char *path, char *to, size_t cap)
{
	struct zn_str value = dig(object, path);

	if (!known(value) || strchr("{[", value.at[0]))
		*to = '\0';
	else if (value.at[0] == '"')
		zn_json_string(value, to, cap);
	else
		snprintf(to, cap, "%.*s", value.len < cap ? (int)value.len : (int)cap - 1, value.at);
	if (*to == '\0')
		snprintf(to, cap, "-");
	return to;
}

/* Three digits and a unit. */
static char *scaled(char to[CELL], double v, double step, const char *const *unit)
{
	while (v >= 999.5 && unit[1]) {
		v /= step;
		unit++;
	}
	if (v > 99999)
		snprintf(to, CELL, "%.0e%s", v, *unit);
	else
		snprintf(to, CELL, "%.*f%s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, *unit);
	return to;
}

static char *bytes_text(char to[CELL], uint64_t v)
{
	static const char *const units[] = {"B", "K", "M", "G", "T", "P", "E", NULL};

	if (v >= 1000)
		return scaled(to, (double)v, 1024, units);
	snprintf(to, CELL, "%uB", (unsigned)v);
	return to;
}

static char *count_text(char to[CELL], double v)
{
	static const char *const units[] = {"", "k", "M", "G", "T", NULL};

	if (v >= 999.5)
		return scaled(to, v, 1000, units);
	if (v < 0 || (v > 0 && v < 0.1))
		snprintf(to, CELL, v < 0 ? "-" : "<0.1");
	else
		snprintf(to, CELL, "%.*f", v == (double)(int)v || v >= 99.95 ? 0 : 1, v);
	return to;
}

/* A duration of 0 is no measurement: every call takes time. */
static char *duration_text(char to[CELL], double us)
{
	static const char *const units[] = {"ns", "us", "ms", "s", NULL};

	if (us >= 0.001)
		return scaled(to, 1000 * us, 1000, units);
	snprintf(to, CELL, us > 0 ? "<1ns" : "-");
	return to;
}

static char *span_text(char to[CELL], uint64_t s)
{
	if (s < 60)
		snprintf(to, CELL, "%u s", (unsigned)s);
	else if (s < 3600)
		snprintf(to, CELL, "%u min %u s", (unsigned)(s / 60), (unsigned)(s % 60));
	else if (s < 86400)
		snprintf(to, CELL, "%u h %u min", (unsigned)(s / 3600), (unsigned)(s / 60 % 60));
	else
		snprintf(to, CELL, "%llu d %u h", (unsigned long long)(s / 86400), (unsigned)(s / 3600 % 24));
	return to;
}

/* Time of day, here, of a time since 1970. */
static char *clock_text(char to[CELL], uint64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;

	if (!ms || !localtime_r(&s, &tm) || !strftime(to, CELL, "%H:%M:%S", &tm))
		snprintf(to, CELL, "-");
	return to;
}

enum sort { SORT_PID, SORT_MEMORY, SORT_RATE, SORT_P99 };

struct row {
	struct zn_str process; /* in the answer on show */
	uint64_t pid;
	uint64_t memory;
	double rate;
	double p99;
	const struct track *track; /* NULL: none was free */
};

/* Launch rates of one process; NAN where there was no answer. */
struct track {
	uint64_t pid;
	uint64_t launches;
	uint32_t seen; /* number of the last answer that had the process */
	float rate[SAMPLES];
};

struct watch {
	struct client client;
	struct target target;
	struct view view;
	bool once;
	bool json;
	bool quit;
	bool dirty;
	int status;

	uint64_t next_ns;      /* of the next fetch */
	uint64_t answer_ns;    /* of the last answer */
	uint64_t fresh_ns;     /* of the last answer with new data */
	bool failed;           /* the last fetch */
	uint32_t answer_count; /* from 1: those with new data */
	struct zn_str snapshot;
	uint64_t data_ms; /* the daemon's time of the data */
	uint32_t head;    /* newest column of all tracks */

	struct row rows[ZN_PROCS_MAX];
	int row_count;
	int rows_left_out;
	enum sort sort;
	int top;  /* first process shown */
	int fits; /* processes that found room */
	bool help;

	struct termios saved;
	bool keys; /* standard input is a terminal, in raw mode */
	int signals;
	int escape; /* state of the parser of keys */
	char parameter;
	struct track tracks[TRACKS];
};

/* The track of a process: that of the last answer, or a free one, all NAN. */
static struct track *find_track(struct watch *w, uint64_t pid, uint64_t launches)
{
	struct track *empty = NULL;

	for (size_t i = 0; i < TRACKS; i++) {
		struct track *t = &w->tracks[i];

		if (w->answer_count - t->seen > 1 || t->seen == 0)
			empty = empty ? empty : t;
		else if (t->pid == pid && t->seen != w->answer_count && t->launches <= launches)
			return t;
	}
	for (int i = 0; empty && i < SAMPLES; i++)
		empty->rate[i] = NAN;
	return empty;
}

/* Notes a rate. It is a mean over the daemon's interval, so it stands for as many seconds, but for none
 * before. */
static void add_sample(struct watch *w, struct row *row, uint32_t elapsed_s)
{
	uint64_t launches = integer(row->process, "launch.count");
	uint64_t valid_s = (integer(w->snapshot, "interval_ms") + 500) / 1000;
	struct track *t = find_track(w, row->pid, launches);
	float rate = row->rate < 1e30 ? (float)row->rate : 1e30f;

	row->track = t;
	if (!t)
		return;
	for (uint32_t age = 0; age < elapsed_s; age++)
		t->rate[(w->head + SAMPLES - age) % SAMPLES] = age == 0 || age < valid_s ? rate : NAN;
	t->pid = row->pid;
	t->launches = launches;
	t->seen = w->answer_count;
}

static uint64_t sum_members(struct zn_str array, const char *key)
{
	struct zn_str name, value;
	uint64_t sum = 0;
	size_t at = 0;

	while (zn_json_next(array, &at, &name, &value))
		if (__builtin_add_overflow(sum, integer(value, key), &sum))
			return UINT64_MAX;
	return sum;
}

/* elapsed_s: since the data shown before. */
static void load_rows(struct watch *w, uint32_t elapsed_s)
{
	struct zn_str processes = zn_json_member(w->snapshot, "processes"), key, process;
	size_t at = 0;

	w->row_count = w->rows_left_out = 0;
	while (zn_json_next(processes, &at, &key, &process)) {
		struct row *row = &w->rows[w->row_count];

		if (w->row_count == ZN_PROCS_MAX) {
			w->rows_left_out++;
			continue;
		}
		w->row_count++;
		*row = (struct row){.process = process, .pid = integer(process, "pid")};
		row->memory = sum_members(zn_json_member(process, "gpus"), "used_bytes");
		row->rate = number(process, "launch.rate");
		row->p99 = number(process, "launch.p99_us");
		add_sample(w, row, elapsed_s);
	}
}

static int compare(enum sort sort, const struct row *a, const struct row *b)
{
	if (sort == SORT_MEMORY && a->memory != b->memory)
		return a->memory > b->memory ? -1 : 1;
	if (sort == SORT_RATE && a->rate != b->rate)
		return a->rate > b->rate ? -1 : 1;
	if (sort == SORT_P99 && a->p99 != b->p99)
		return a->p99 > b->p99 ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

/* By insertion: the order changes little from one answer to the next, and qsort() may allocate. */
static void sort_rows(struct watch *w)
{
	for (int i = 1; i < w->row_count; i++) {
		struct row row = w->rows[i];
		int at = i;

		for (; at > 0 && compare(w->sort, &row, &w->rows[at - 1]) < 0; at--)
			w->rows[at] = w->rows[at - 1];
		w->rows[at] = row;
	}
}

static uint32_t elapsed_since(uint64_t before_ms, uint64_t now_ms)
{
	uint64_t s = now_ms > before_ms ? (now_ms - before_ms + 500) / 1000 : 1;

	return s < 1 ? 1 : s > SAMPLES ? SAMPLES : (uint32_t)s;
}

static bool same(struct zn_str a, struct zn_str b)
{
	return a.len == b.len && !memcmp(a.at, b.at, a.len);
}

/* Takes over the answer in the client's buffer and gives it the other one, unless the answer holds nothing
 * new. */
static int take_answer(struct watch *w, uint64_t now_ns)
{
	struct client *c = &w->client;
	struct zn_str body = trim((struct zn_str){c->buffer + c->head, c->body});
	uint64_t ms;
	uint32_t elapsed_s;

	if (body.len == 0 || body.at[0] != '{' || zn_json_check(body))
		return client_fail(c, "an answer that is no JSON object");
	w->answer_ns = now_ns;
	if (w->answer_count && same(body, w->snapshot))
		return 1;
	c->buffer = answers[c->buffer == answers[0]];
	ms = integer(body, "last_update_ms");
	elapsed_s = elapsed_since(w->data_ms, ms);
	w->snapshot = body;
	w->data_ms = ms;
	w->fresh_ns = now_ns;
	w->answer_count++;
	w->head = (w->head + elapsed_s) % SAMPLES;
	load_rows(w, elapsed_s);
	sort_rows(w);
	return 1;
}

static bool is_simulated(const struct watch *w)
{
	char source[CELL];

	return !strcmp(text_of(w->snapshot, "source", source, sizeof(source)), "simulated");
}

static void put_header(struct watch *w)
{
	char node[CELL], source[CELL], version[CELL], up[CELL] = "-", at[CELL];
	struct zn_str s = w->snapshot;

	if (known(dig(s, "uptime_s")))
		span_text(up, integer(s, "uptime_s"));
	set_style(&w->view, BOLD);
	put(&w->view, text_of(s, "node", node, sizeof(node)));
	set_style(&w->view, PLAIN);
	putf(&w->view, "  %s  zerneld %s  up %s  data of %s", text_of(s, "source", source, sizeof(source)),
	        text_of(s, "version", version, sizeof(version)), up, clock_text(at, w->data_ms));
	end_line(&w->view);
}

/* Since when there is nothing new: an empty text while the data is live. */
static const char *stale_text(const struct watch *w, char *to, size_t cap, uint64_t now_ns)
{
	uint64_t limit_ns = SILENCE_NS, interval_ms = integer(w->snapshot, "interval_ms");
	char span[CELL], at[CELL];
	bool silent = w->failed || now_ns - w->answer_ns > limit_ns;
	uint64_t since_ns = silent ? w->answer_ns : w->fresh_ns;

	if (interval_ms > 1000 && interval_ms < 3600000)
		limit_ns = 3 * interval_ms * ZN_NS_PER_MS;
	*to = '\0';
	if (!silent && now_ns - w->fresh_ns <= limit_ns)
		return to;
	span_text(span, (now_ns - since_ns + ZN_NS_PER_S - 1) / ZN_NS_PER_S);
	snprintf(to, cap, "%s since %s; last data from %s%s%s",
	        silent ? "no answer" : "the daemon answers, but nothing new", span,
	        clock_text(at, w->data_ms), w->failed ? ": " : "", w->failed ? w->client.why : "");
	return to;
}

static void put_alert(struct view *v, struct zn_str alert, const char *state)
{
	char name[CELL], severity[CELL], gpu[CELL], value[CELL], limit[CELL], since[CELL], summary[512];
	bool firing = *state == 'f';

	set_style(v, firing ? BAD : WARN);
	putf(v, "%s %s %s", firing ? "FIRING " : "pending", text_of(alert, "severity", severity, CELL),
	        text_of(alert, "alert", name, CELL));
	if (known(dig(alert, "gpu_id")))
		putf(v, " gpu %s", text_of(alert, "gpu_id", gpu, CELL));
	putf(v, " since %s: %s (value %s, threshold %s)", clock_text(since, integer(alert, "since_ms")),
	        text_of(alert, "summary", summary, sizeof(summary)), text_of(alert, "value", value, CELL),
	        text_of(alert, "threshold", limit, CELL));
	end_line(v);
}

/* Alerts in one state; the number that found no room. */
static int put_alerts_in(struct view *v, struct zn_str alerts, const char *state, int *room)
{
	struct zn_str key, alert;
	char text[CELL];
	int hidden = 0;
	size_t at = 0;

	while (zn_json_next(alerts, &at, &key, &alert)) {
		if (strcmp(text_of(alert, "state", text, sizeof(text)), state))
			continue;
		if (*room > 0)
			put_alert(v, alert, state);
		else
			hidden++;
		*room -= *room > 0;
	}
	return hidden;
}

static void put_alerts(struct watch *w)
{
	struct zn_str alerts = dig(w->snapshot, "alerts");
	int room = share(&w->view, 8), hidden;

	hidden = put_alerts_in(&w->view, alerts, "firing", &room);
	hidden += put_alerts_in(&w->view, alerts, "pending", &room);
	if (hidden)
		put_line(&w->view, WARN, "and %d more alerts", hidden);
}

static int bar_cells(uint64_t part, uint64_t total, int width)
{
	return part >= total ? width : (int)((double)part / (double)total * width + 0.5);
}

/* Filled up to what is used, with a mark where the peak was. total is not 0. */
static void put_bar(struct view *v, int width, struct zn_str gpu, uint64_t total)
{
	uint64_t used = integer(gpu, "used_bytes");
	int full = bar_cells(used, total, width), peak = bar_cells(integer(gpu, "peak_bytes"), total, width);
	double percent = 100 * (double)used / (double)total;

	set_style(v, percent >= 95 ? BAD : percent >= 80 ? WARN : GOOD);
	for (int i = 0; i < width; i++)
		put(v, i < full ? "█" : i == peak - 1 ? "│" : "░");
	set_style(v, PLAIN);
	putf(v, " %3.0f%%  ", percent < 999 ? percent : 999);
}

static const char *memory_text(struct zn_str object, const char *path, char to[CELL])
{
	if (!known(dig(object, path)))
		return "-";
	return bytes_text(to, integer(object, path));
}

static void put_gpu(struct view *v, struct zn_str gpu)
{
	char id[CELL], used[CELL], peak[CELL], total[CELL], users[CELL];
	int width = v->cols > 94 ? 40 : v->cols - 54;
	uint64_t size = integer(gpu, "total_bytes");

	put(v, "GPU ");
	put_cell(v, text_of(gpu, "gpu_id", id, CELL), columns_of(id) > 2 ? 12 : 2);
	put(v, " ");
	if (size && known(dig(gpu, "used_bytes")))
		put_bar(v, width < 6 ? 6 : width, gpu, size);
	text_of(gpu, "processes", users, CELL);
	putf(v, "%s of %s  peak %s  %s process%s", memory_text(gpu, "used_bytes", used),
	        size ? bytes_text(total, size) : "unknown size", memory_text(gpu, "peak_bytes", peak), users,
	        strcmp(users, "1") ? "es" : "");
	end_line(v);
}

static void put_gpus(struct watch *w)
{
	struct zn_str gpus = dig(w->snapshot, "gpus"), key, gpu;
	int room = share(&w->view, 3), count = 0;
	size_t at = 0;

	for (; zn_json_next(gpus, &at, &key, &gpu); count++)
		if (count < room)
			put_gpu(&w->view, gpu);
	if (count == 0)
		put_line(&w->view, PLAIN, "GPU -  no GPU memory seen yet");
	else if (count > room)
		put_line(&w->view, PLAIN, "and %d more GPUs", count - room);
}

/* The figures of the whole node: as many on a line as fit. */
static void put_node(struct watch *w)
{
	static const struct {
		const char *label;
		const char *path;
		int us;
	} figures[] = {
	        {"launch p50", "cuda_latency_p50_us", 1},
	        {"p99", "cuda_latency_p99_us", 1},
	        {"all-reduce p50", "nccl_allreduce_p50_ms", 1000},
	        {"p99", "nccl_allreduce_p99_ms", 1000},
	        {"data loader p50", "dataloader_wait_p50_ms", 1000},
	};
	struct view *v = &w->view;
	char text[2 * CELL], value[CELL];

	for (size_t i = 0; i < ZN_LEN(figures); i++) {
		int len = snprintf(text, sizeof(text), "%s %s", figures[i].label,
		        duration_text(value, figures[i].us * number(w->snapshot, figures[i].path)));

		if (v->col > 0 && v->col + 2 + len > v->cols)
			end_line(v);
		putf(v, "%s%s", v->col > 0 ? "  " : "", text);
	}
	end_line(v);
}

static void put_probes(struct watch *w)
{
	struct zn_str probes = dig(w->snapshot, "probes"), key, probe;
	char family[CELL], state[CELL], why[512];
	int room = share(&w->view, 8), hidden = 0;
	size_t at = 0;

	while (zn_json_next(probes, &at, &key, &probe)) {
		text_of(probe, "state", state, CELL);
		if (!strcmp(state, "attached") || !strcmp(state, "simulated"))
			continue;
		if (room-- > 0)
			put_line(&w->view, *state == 'u' ? WARN : FAINT, "not attached: %s (%s): %s",
			        text_of(probe, "family", family, CELL), state,
			        text_of(probe, "why", why, sizeof(why)));
		else
			hidden++;
	}
	if (hidden)
		put_line(&w->view, FAINT, "and %d more that are not attached", hidden);
}

static void put_losses(struct watch *w)
{
	struct zn_str lost = dig(w->snapshot, "lost"), key, value;
	char name[CELL], count[CELL];
	bool any = false;
	size_t at = 0;

	while (zn_json_next(lost, &at, &key, &value)) {
		if (!(zn_json_number(value) > 0))
			continue;
		set_style(&w->view, WARN);
		snprintf(name, sizeof(name), "%.*s", key.len < CELL ? (int)key.len : CELL - 1,
		        key.at ? key.at : "");
		putf(&w->view, "%s%s %s", any ? ", " : "lost: ", name, text_of(value, "", count, CELL));
		any = true;
	}
	if (any)
		end_line(&w->view);
}

struct column {
	const char *title;
	int width; /* the least; below 0: set against the right side */
	void (*text)(struct zn_str process, const struct column *c, char to[CELL]); /* NULL: the sparkline */
	const char *path;
	const char *count; /* what must be above 0 for the value to be one */
	int us;            /* microseconds in one unit of the value */
};

static void text_cell(struct zn_str process, const struct column *c, char to[CELL])
{
	text_of(process, c->path, to, CELL);
}

static void count_cell(struct zn_str process, const struct column *c, char to[CELL])
{
	if (known(dig(process, c->path)) && (!c->count || number(process, c->count) > 0))
		count_text(to, number(process, c->path));
}

static void duration_cell(struct zn_str process, const struct column *c, char to[CELL])
{
	if (number(process, c->count) > 0)
		duration_text(to, c->us * number(process, c->path));
}

static void memory_cell(struct zn_str process, const struct column *c, char to[CELL])
{
	struct zn_str gpus = dig(process, c->path);

	if (known(gpus))
		bytes_text(to, sum_members(gpus, "used_bytes"));
}

static void gpus_cell(struct zn_str process, const struct column *c, char to[CELL])
{
	struct zn_str gpus = dig(process, c->path), key, gpu;
	size_t at = 0, len = 0;
	char id[CELL];

	while (len < CELL && zn_json_next(gpus, &at, &key, &gpu))
		len += (size_t)snprintf(
		        to + len, CELL - len, "%s%s", len ? "," : "", text_of(gpu, "gpu_id", id, CELL));
}

/* The largest p99 among the operations. Making a communicator is none: it takes seconds, once. */
static void nccl_cell(struct zn_str process, const struct column *c, char to[CELL])
{
	struct zn_str ops = dig(process, c->path), key, op;
	double most = 0;
	size_t at = 0;

	while (zn_json_next(ops, &at, &key, &op)) {
		double v = number(op, "calls") > 0 ? number(op, "p99_ms") : 0;

		if (strcmp(text_of(op, "op", to, CELL), "comm_init") && v > most)
			most = v;
	}
	duration_text(to, c->us * most);
}

enum { COL_COMM = 1, COL_JOB, COL_GPUS, COL_SPARK = 11, COL_COUNT };

static const struct column columns[] = {
        {"PID", -7, text_cell, "pid", NULL, 0},
        [COL_COMM] = {"COMMAND", 8, text_cell, "comm", NULL, 0},
        [COL_JOB] = {"JOB", 6, text_cell, "job_id", NULL, 0},
        [COL_GPUS] = {"GPU", 3, gpus_cell, "gpus", NULL, 0},
        {"MEM", -5, memory_cell, "gpus", NULL, 0},
        {"LNCH/s", -6, count_cell, "launch.rate", "launch.count", 0},
        {"p50", -6, duration_cell, "launch.p50_us", "launch.count", 1},
        {"p99", -6, duration_cell, "launch.p99_us", "launch.count", 1},
        {"NCCL", -5, count_cell, "nccl.calls", NULL, 0},
        {"NCCL99", -6, nccl_cell, "nccl.ops", NULL, 1000},
        {"SYNC99", -6, duration_cell, "sync.p99_us", "sync.count", 1},
        [COL_SPARK] = {"LNCH/s, last 60 s", 0, NULL, NULL, NULL, 0},
};
_Static_assert(ZN_LEN(columns) == COL_COUNT, "a column was added");

static bool any_job(const struct watch *w)
{
	char id[CELL];

	for (int i = 0; i < w->row_count; i++)
		if (strcmp(text_of(w->rows[i].process, "job_id", id, sizeof(id)), "-"))
			return true;
	return false;
}

/* Widths of the columns, 0 for one that is left out: the least, and then what is left over, in the order of
 * growth. */
static void fit_columns(const struct watch *w, int widths[COL_COUNT])
{
	static const struct {
		int column;
		int most;
	} growth[] = {{COL_SPARK, 8}, {COL_COMM, 15}, {COL_JOB, 12}, {COL_GPUS, 8}, {COL_SPARK, SAMPLES}};
	bool jobs = any_job(w);
	int left = w->view.cols;

	for (int i = 0; i < COL_COUNT; i++) {
		widths[i] = i == COL_JOB && !jobs ? 0 : columns[i].width;
		left -= widths[i] ? abs(widths[i]) + 1 : 0;
	}
	for (size_t i = 0; i < ZN_LEN(growth); i++) {
		int c = growth[i].column, add = growth[i].most - widths[c];

		add = add < left ? add : left;
		if (add <= 0 || (c == COL_JOB && !jobs) || (c == COL_SPARK && !w->view.screen))
			continue;
		widths[c] += add;
		left -= add;
	}
}

/* The newest second is on the right; the highest of the minute is a full block; a gap is a second without
 * data. */
static void put_spark(const struct watch *w, struct view *v, const struct track *track, int width)
{
	static const char *const levels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	float most = 0;

	for (int i = 0; track && i < SAMPLES; i++)
		most = track->rate[i] > most ? track->rate[i] : most;
	for (int age = width - 1; track && age >= 0; age--) {
		float rate = track->rate[(w->head + SAMPLES - (uint32_t)age) % SAMPLES];

		put(v, isnan(rate) ? " " : levels[rate > 0 ? (int)(rate / most * 7) : 0]);
	}
}

static void put_titles(struct watch *w, const int widths[COL_COUNT])
{
	for (int i = 0; i < COL_COUNT; i++) {
		if (!widths[i])
			continue;
		set_style(&w->view, BOLD);
		put_cell(&w->view, columns[i].title, widths[i]);
		put(&w->view, " ");
	}
	end_line(&w->view);
}

static void put_row(struct watch *w, const struct row *row, const int widths[COL_COUNT])
{
	char cell[CELL];

	for (int i = 0; i < COL_COUNT; i++) {
		const struct column *c = &columns[i];

		if (!widths[i])
			continue;
		snprintf(cell, sizeof(cell), "-");
		if (c->text) {
			c->text(row->process, c, cell);
			put_cell(&w->view, cell, widths[i]);
			put(&w->view, " ");
		} else {
			put_spark(w, &w->view, row->track, widths[i]);
		}
	}
	end_line(&w->view);
}

static void put_processes(struct watch *w)
{
	int widths[COL_COUNT], last;

	fit_columns(w, widths);
	put_titles(w, widths);
	w->fits = w->view.rows ? w->view.limit - w->view.row : w->row_count;
	w->fits = w->fits > 0 ? w->fits : 0;
	last = w->row_count - at_least_one(w->fits);
	w->top = w->top > last ? last : w->top;
	w->top = w->top < 0 ? 0 : w->top;
	for (int i = w->top; i < w->row_count && i < w->top + w->fits; i++)
		put_row(w, &w->rows[i], widths);
	if (w->row_count == 0)
		put_line(&w->view, PLAIN, "no process has called a hooked library yet");
	if (w->rows_left_out && !w->view.screen)
		put_line(&w->view, PLAIN, "and %d more processes", w->rows_left_out);
}

static void put_help(struct view *v)
{
	static const char *const lines[] = {
	        "q, Ctrl-C       quit",
	        "?               this help, and back",
	        "p m l 9         sort by pid, GPU memory, launches per second, p99 of the launch",
	        "up down, k j    scroll the processes; page up and page down by a screen",
	        "",
	        "LNCH/s          kernel launches per second, now and over the last minute",
	        "launch p50 p99  time the host spends in a launch: half, and 99 of 100, take no longer",
	        "before",
	        "NCCL, NCCL99    NCCL calls so far; the largest p99 among the operations",
	        "SYNC99          p99 of the host's waits for the GPU",
	        "GPU bars        filled: used now; the line: the peak",
	        "-               there is no measurement",
	};

	for (size_t i = 0; i < ZN_LEN(lines); i++)
		put_line(v, PLAIN, "%s", lines[i]);
}

static void put_footer(struct watch *w, bool table)
{
	static const char *const sorts[] = {[SORT_PID] = "pid",
	        [SORT_MEMORY] = "memory",
	        [SORT_RATE] = "launch rate",
	        [SORT_P99] = "p99"};
	struct view *v = &w->view;
	int end = w->top + w->fits;

	while (v->row < v->limit)
		end_line(v);
	v->limit = v->rows;
	set_style(v, FAINT);
	putf(v, "q quit  ? help  sort p m l 9: %s", sorts[w->sort]);
	if (table && w->row_count && w->fits)
		putf(v, "  %d-%d of %d processes", w->top + 1, end < w->row_count ? end : w->row_count,
		        w->row_count + w->rows_left_out);
	end_line(v);
}

static void measure(struct view *v)
{
	const char *wanted = getenv("COLUMNS");
	long asked = wanted ? strtol(wanted, NULL, 10) : 0;
	struct winsize size = {0};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
		asked = size.ws_col ? size.ws_col : 80;
	else if (asked <= 0)
		asked = COLS_PIPE;
	v->cols = asked < COLS_MAX ? (int)asked : COLS_MAX;
	v->rows = size.ws_row ? size.ws_row : 24;
	v->rows = !v->screen ? 0 : v->rows < ROWS_MAX ? v->rows : ROWS_MAX;
	v->limit = v->screen ? v->rows - 1 : INT_MAX;
}

static void put_details(struct watch *w)
{
	put_node(w);
	put_probes(w);
	put_losses(w);
}

/* On a small screen the processes come before the details. */
static void put_body(struct watch *w)
{
	bool small = w->view.rows && w->view.rows < SMALL_ROWS;

	put_alerts(w);
	put_gpus(w);
	if (!small)
		put_details(w);
	put_processes(w);
	if (small)
		put_details(w);
}

static bool draw(struct watch *w)
{
	struct view *v = &w->view;
	char stale[256];
	bool table;

	measure(v);
	v->out.len = 0;
	v->row = v->col = 0;
	v->edge = v->cols;
	stale_text(w, stale, sizeof(stale), zn_now_ns());
	v->dim = *stale != '\0';
	table = !w->help && (!v->dim || v->color);
	if (v->screen)
		zn_out_text(&v->out, "\033[H");
	put_header(w);
	if (is_simulated(w))
		put_line(v, LOUD, "*** SIMULATED: these numbers are made up, no job is behind them ***");
	if (v->dim)
		put_line(v, LOUD, "%s", stale);
	if (w->help)
		put_help(v);
	if (table)
		put_body(w);
	if (v->screen)
		put_footer(w, table);
	return view_flush(v);
}

/* The answer on one line. On a terminal, control characters that JSON allows as they are become escapes. */
static bool print_json(struct zn_str s)
{
	bool terminal = isatty(STDOUT_FILENO);
	size_t from = 0;
	char escape[8];
	bool ok = true;

	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i],
		              next = i + 1 < s.len ? (unsigned char)s.at[i + 1] : 0;
		bool two = c == 0xc2 && next >= 0x80 && next < 0xa0;

		if (c != '\n' && c != '\r' && !(terminal && (two || c == 0x7f)))
			continue;
		snprintf(escape, sizeof(escape), c < ' ' ? " " : "\\u%04x", two ? next : c);
		ok = ok && write_all(s.at + from, i - from) && write_all(escape, strlen(escape));
		i += two;
		from = i + 1;
	}
	return ok && write_all(s.at + from, s.len - from) && write_all("\n", 1);
}

static void screen_enter(struct watch *w)
{
	/* the other screen, no cursor, no wrap at the right side */
	static const char enter[] = "\033[?1049h\033[?25l\033[?7l\033[2J";
	struct termios raw = w->saved;

	cfmakeraw(&raw);
	if (w->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	write_all(enter, sizeof(enter) - 1);
	w->dirty = true;
}

static void screen_open(struct watch *w)
{
	static const int caught[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGCONT};
	const char *term = getenv("TERM"), *no_color = getenv("NO_COLOR");
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ZN_LEN(caught); i++)
		sigaddset(&set, caught[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	w->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	w->keys = tcgetattr(STDIN_FILENO, &w->saved) == 0;
	w->view.screen = true;
	w->view.color = term && *term && strcmp(term, "dumb") && !(no_color && *no_color);
	screen_enter(w);
}

static void screen_close(struct watch *w)
{
	static const char leave[] = "\033[0m\033[?7h\033[?25h\033[?1049l";

	write_all(leave, sizeof(leave) - 1);
	if (w->keys)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &w->saved);
}

static int page_key(char parameter)
{
	return parameter == '5' ? KEY_PAGE_UP : parameter == '6' ? KEY_PAGE_DOWN : 0;
}

/* The key that a byte completes, 0 for none: arrows are k and j. */
static int key_of(struct watch *w, char c)
{
	int state = w->escape;

	w->escape = 0;
	if (c == KEY_ESCAPE)
		w->escape = 1;
	else if (state == 1 && (c == '[' || c == 'O'))
		w->escape = 2;
	else if (state != 2)
		return c;
	else if (c >= '@' && c <= '~')
		return c == 'A' ? 'k' : c == 'B' ? 'j' : c == '~' ? page_key(w->parameter) : 0;
	else
		w->escape = 2;
	w->parameter = c;
	return 0;
}

static void press(struct watch *w, int key)
{
	static const char sorts[] = {
	        [SORT_PID] = 'p', [SORT_MEMORY] = 'm', [SORT_RATE] = 'l', [SORT_P99] = '9'};
	const char *sort = key ? memchr(sorts, key, sizeof(sorts)) : NULL;

	if (sort)
		w->sort = (enum sort)(sort - sorts);
	sort_rows(w);
	switch (key) {
	case 'q':
	case KEY_CTRL_C: w->quit = true; break;
	case '?': w->help = !w->help; break;
	case 'j': w->top++; break;
	case 'k': w->top--; break;
	case KEY_PAGE_DOWN: w->top += at_least_one(w->fits); break;
	case KEY_PAGE_UP: w->top -= at_least_one(w->fits); break;
	}
	w->dirty = true;
}

static void read_keys(struct watch *w)
{
	char bytes[64];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		w->quit = true;
	for (ssize_t i = 0; i < n; i++)
		press(w, key_of(w, bytes[i]));
}

static void read_signals(struct watch *w)
{
	struct signalfd_siginfo info;

	while (read(w->signals, &info, sizeof(info)) == sizeof(info)) {
		w->dirty = true;
		if (info.ssi_signo == SIGCONT)
			screen_enter(w);
		else if (info.ssi_signo != SIGWINCH) {
			w->quit = true;
			w->status = 128 + (int)info.ssi_signo;
		}
	}
}

static void finish_fetch(struct watch *w, int result, uint64_t now_ns)
{
	if (result > 0)
		result = take_answer(w, now_ns);
	if (result == 0)
		return;
	w->failed = result < 0;
	w->dirty = true;
}

static void start_fetch(struct watch *w, uint64_t now_ns)
{
	if (client_busy(&w->client))
		return;
	finish_fetch(w, client_start(&w->client, now_ns), now_ns);
}

static int until(const struct watch *w, uint64_t now_ns)
{
	uint64_t next_ns = w->next_ns;

	if (client_busy(&w->client) && w->client.deadline_ns < next_ns)
		next_ns = w->client.deadline_ns;
	return next_ns > now_ns ? (int)((next_ns - now_ns + ZN_NS_PER_MS - 1) / ZN_NS_PER_MS) : 0;
}

static void tick(struct watch *w, uint64_t now_ns)
{
	if (client_busy(&w->client) && now_ns >= w->client.deadline_ns)
		finish_fetch(w, client_fail(&w->client, "no answer within 5 s"), now_ns);
	if (now_ns < w->next_ns)
		return;
	w->next_ns += ZN_NS_PER_S;
	if (w->next_ns <= now_ns)
		w->next_ns = now_ns + ZN_NS_PER_S;
	w->dirty = w->dirty || w->view.screen;
	start_fetch(w, now_ns);
}

/* Waits for the next thing and does what it asks for. */
static void turn(struct watch *w)
{
	struct client *c = &w->client;
	struct pollfd fds[] = {
	        {.fd = w->keys ? STDIN_FILENO : -1, .events = POLLIN},
	        {.fd = w->view.screen ? w->signals : -1, .events = POLLIN},
	        {.fd = c->phase == CLOSED ? -1 : c->fd, .events = c->phase == CONNECTING ? POLLOUT : POLLIN},
	};

	poll(fds, ZN_LEN(fds), until(w, zn_now_ns()));
	if (fds[0].revents)
		read_keys(w);
	if (fds[1].revents)
		read_signals(w);
	if (fds[2].revents)
		finish_fetch(w, client_ready(c), zn_now_ns());
	tick(w, zn_now_ns());
}

static int complain_first(const struct watch *w)
{
	const struct client *c = &w->client;

	if (c->unreachable)
		fprintf(stderr,
		        "zernel: watch: no daemon at %s: %s; start it with 'zerneld' or give its address: "
		        "zernel watch http://ADDRESS:9091\n",
		        w->target.name, c->why);
	else
		fprintf(stderr, "zernel: watch: %s is no zerneld: %s\n", w->target.name, c->why);
	return 1;
}

static int run_screen(struct watch *w)
{
	screen_open(w);
	while (!w->quit) {
		if (w->dirty && !draw(w))
			break;
		w->dirty = false;
		turn(w);
	}
	screen_close(w);
	return w->status;
}

static int run_json(struct watch *w)
{
	bool complained = false;

	for (;;) {
		if (w->dirty && !w->failed && !print_json(w->snapshot))
			return 1;
		if (w->dirty && w->failed && !complained)
			fprintf(stderr, "zernel: watch: no answer from %s: %s; trying again\n",
			        w->target.name, w->client.why);
		complained = w->failed;
		w->dirty = false;
		turn(w);
	}
}

static int usage_error(const char *what, const char *argument)
{
	fprintf(stderr, "zernel: watch: %s '%s'; " USAGE "\n", what, argument);
	return 2;
}

/* -1 to go on, or the exit status. */
static int parse_options(struct watch *w, int argc, char **argv)
{
	const char *url = NULL;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--once"))
			w->once = true;
		else if (!strcmp(argv[i], "--json"))
			w->json = true;
		else if (!strcmp(argv[i], "--help"))
			return puts(USAGE) < 0;
		else if (*argv[i] == '-')
			return usage_error("unknown option", argv[i]);
		else if (url)
			return usage_error("a second address", argv[i]);
		else
			url = argv[i];
	}
	if (!parse_target(url ? url : "127.0.0.1", &w->target))
		return usage_error("no address (names other than localhost are not looked up):", url);
	if (!w->once && !w->json && !isatty(STDOUT_FILENO)) {
		fputs("zernel: watch: standard output is no terminal: use --once or --json\n", stderr);
		return 2;
	}
	return -1;
}

int zn_watch_main(int argc, char **argv)
{
	static char frame[FRAME_MAX];
	static struct watch w;
	int status;

	w.sort = SORT_MEMORY;
	w.view.out = (struct zn_out){.at = frame, .cap = sizeof(frame)};
	w.client = (struct client){.target = &w.target, .fd = -1, .buffer = answers[0]};
	status = parse_options(&w, argc, argv);
	if (status >= 0)
		return status;
	while (!w.answer_count && !w.failed)
		turn(&w);
	if (w.failed)
		return complain_first(&w);
	if (w.once)
		return (w.json ? print_json(w.snapshot) : draw(&w)) ? 0 : 1;
	return w.json ? run_json(&w) : run_screen(&w);
}
