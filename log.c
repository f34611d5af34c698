/* SPDX-License-Identifier: GPL-2.0 */
/*
 * log.c: the daemon's voice on stderr, and its two clocks. A line is at most 1 KiB and goes out with one
 * write(2), so that lines of several processes on one pipe or journal socket do not mix. A line that cannot
 * be written is lost.
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "zernel.h"

#define LINE_BYTES 1024
#define CUT        "...\n"

static const struct {
	const char *name;
	const char *prefix;
} levels[] = {
	[ZN_ERROR] = {"error", "zerneld: error: "},
	[ZN_WARN] = {"warn", "zerneld: warning: "},
	[ZN_INFO] = {"info", "zerneld: "},
	[ZN_DEBUG] = {"debug", "zerneld: debug: "},
};

enum zn_level zn_log_level = ZN_INFO;
unsigned zn_log_per_second;

/* A user can make events, but must not fill the log with them. Errors always pass. The number of lines that were held back
 * is told in the next second. Two threads may both pass the limit by a line; that is no harm. */
static bool passes(enum zn_level level, unsigned *held)
{
	static uint64_t second;
	static unsigned count, held_back;
	uint64_t now = zn_now_ns() / ZN_NS_PER_S;

	*held = 0;
	if (!zn_log_per_second || level == ZN_ERROR)
		return true;
	if (second != now) {
		*held = held_back;
		second = now;
		count = held_back = 0;
	}
	if (count++ < zn_log_per_second)
		return true;
	held_back++;
	return false;
}

/* Appends text to a line of LINE_BYTES, unprintable bytes as \xNN, and ends it: with "..." if not all of it
 * fits. */
static size_t finish_line(char *line, size_t len, const char *text)
{
	static const char hex[] = "0123456789abcdef";

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool printable = c >= 0x20 && c < 0x7f;

		if (len + (printable ? 1 : 4) > LINE_BYTES - strlen(CUT)) {
			memcpy(line + len, CUT, strlen(CUT));
			return len + strlen(CUT);
		}
		if (printable) {
			line[len++] = *text;
		} else {
			memcpy(line + len, (char[]){'\\', 'x', hex[c >> 4], hex[c & 15]}, 4);
			len += 4;
		}
	}
	line[len] = '\n';
	return len + 1;
}

static void put(enum zn_level level, const char *text)
{
	char line[LINE_BYTES];
	ssize_t sent;
	size_t len;

	len = strlen(levels[level].prefix);
	memcpy(line, levels[level].prefix, len);
	len = finish_line(line, len, text);
	do
		sent = write(STDERR_FILENO, line, len);
	while (sent < 0 && errno == EINTR);
}

void zn_log(enum zn_level level, const char *format, ...)
{
	char text[LINE_BYTES] = "";
	int saved = errno;
	unsigned held;
	va_list args;

	if (level > zn_log_level || !passes(level, &held))
		return;
	if (held) {
		snprintf(text, sizeof(text), "log: %u more lines in that second", held);
		put(ZN_WARN, text);
	}
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	put(level, text);
	errno = saved;
}

int zn_log_parse(const char *name)
{
	for (size_t i = 0; i < ZN_LEN(levels); i++)
		if (!strcmp(name, levels[i].name))
			return (int)i;
	return -EINVAL;
}

uint64_t zn_now_ns(void)
{
	return zn_clock_ns(CLOCK_MONOTONIC);
}

uint64_t zn_wall_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / ZN_NS_PER_MS;
}
