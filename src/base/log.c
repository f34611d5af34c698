/* SPDX-License-Identifier: GPL-2.0 */
/*
 * log.c: the daemon's voice on stderr. A line is at most 1 KiB and goes out with one
 * write(2), so that lines of several processes on one pipe or journal socket do not mix. A line that cannot
 * be written is lost, and counted: nothing waits for who takes the lines.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "zernel.h"

#define LINE_BYTES   1024
#define CUT          "...\n"
#define SAMPLE_BYTES 96
#define PATIENCE_MS  200 /* for who takes the lines, once */

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
unsigned zn_log_burst;

/* Kinds of lines are the owners of a rate, so that a user who makes lines of one kind hides none of another. The
 * library finder's thread logs too, hence the lock, which is held for no system call. */
static struct zn_rate kinds;
static char sample[ZN_RATE_OWNERS + 1][SAMPLE_BYTES]; /* of each place: the first line that was held back */
static bool locked;

static void take_lock(void)
{
	while (__atomic_test_and_set(&locked, __ATOMIC_ACQUIRE))
		;
}

static void drop_lock(void)
{
	__atomic_clear(&locked, __ATOMIC_RELEASE);
}

static char *sample_of(const struct zn_rate_owner *o)
{
	return sample[o == &kinds.rest ? ZN_RATE_OWNERS : o - kinds.row];
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

/* Of all threads of this process. */
static uint64_t lost, lost_of_late; /* the latter since a line was taken */

/* Who takes the lines may stand still, as a journal does whose disk hangs, or a terminal that is stopped. True also
 * where nobody can say. */
static bool is_room(void)
{
	struct pollfd to = {.fd = STDERR_FILENO, .events = POLLOUT};
	int ready;

	do
		ready = poll(&to, 1, __atomic_load_n(&lost_of_late, __ATOMIC_RELAXED) ? 0 : PATIENCE_MS);
	while (ready < 0 && errno == EINTR);
	return ready != 0;
}

static void lose_line(void)
{
	__atomic_add_fetch(&lost, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&lost_of_late, 1, __ATOMIC_RELAXED);
}

static void write_line(enum zn_level level, const char *text)
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
	if (sent < 0 && errno != EBADF) /* whoever closes it wants no lines */
		lose_line();
}

static void offer_line(enum zn_level level, const char *text)
{
	if (is_room())
		write_line(level, text);
	else
		lose_line();
}

/* The line that says what was lost may take the last room there is. */
static void put_line(enum zn_level level, const char *text)
{
	char said[SAMPLE_BYTES];
	uint64_t before;

	if (__atomic_load_n(&lost_of_late, __ATOMIC_RELAXED) && is_room()) {
		before = __atomic_exchange_n(&lost_of_late, 0, __ATOMIC_RELAXED);
		snprintf(said, sizeof(said), "log: lines lost before this one, which nobody took: %llu",
			(unsigned long long)before);
		write_line(ZN_WARN, said);
	}
	offer_line(level, text);
}

uint64_t zn_log_lost(void)
{
	return __atomic_load_n(&lost, __ATOMIC_RELAXED);
}

/* Whether a line may pass. *held is how many lines of its kind were held back since the last one passed; if this
 * line is held back, its number among those. Errors always pass. */
static bool passes_limit(enum zn_level level, uint64_t kind, uint32_t burst, uint32_t *held)
{
	uint64_t now_ns = zn_now_ns();
	struct zn_rate_owner *o;
	bool pass;

	*held = 0;
	if (!zn_log_burst || level == ZN_ERROR)
		return true;
	take_lock();
	o = zn_rate_owner(&kinds, kind, now_ns);
	pass = zn_rate_take(o, burst, ZN_NS_PER_S, now_ns);
	*held = o->refused;
	if (pass)
		o->refused = 0;
	drop_lock();
	return pass;
}

static void keep_sample(uint64_t kind, const char *text)
{
	take_lock();
	snprintf(sample_of(zn_rate_owner(&kinds, kind, zn_now_ns())), SAMPLE_BYTES, "%.*s", SAMPLE_BYTES - 1, text);
	drop_lock();
}

static void put_held(uint32_t count, const char *like)
{
	char text[LINE_BYTES];

	snprintf(text, sizeof(text), "log: %u more lines were held back like: %s", count, like);
	put_line(ZN_WARN, text);
}

static void log_line(enum zn_level level, uint64_t kind, uint32_t burst, const char *format, va_list args)
{
	char text[LINE_BYTES] = "";
	int saved = errno;
	uint32_t held;
	bool pass = passes_limit(level, kind, burst, &held);

	if (pass || held == 1) /* the others cost nothing */
		vsnprintf(text, sizeof(text), format, args);
	if (!pass && held == 1)
		keep_sample(kind, text);
	if (pass && held)
		put_held(held, text);
	if (pass)
		put_line(level, text);
	errno = saved;
}

void zn_log(enum zn_level level, const char *format, ...)
{
	va_list args;

	if (level > zn_log_level)
		return;
	va_start(args, format);
	log_line(level, (uintptr_t)format, zn_log_burst, format, args);
	va_end(args);
}

void zn_log_about(enum zn_level level, uint64_t subject, const char *format, ...)
{
	va_list args;

	if (level > zn_log_level)
		return;
	va_start(args, format);
	log_line(level, subject, ZN_LOG_SUBJECT, format, args);
	va_end(args);
}

/* Takes how many lines of a kind were held back, once the kind could log again. */
static uint32_t take_held(struct zn_rate_owner *o, uint64_t now_ns, char like[SAMPLE_BYTES])
{
	uint32_t held;

	take_lock();
	held = o->refused;
	if (held && zn_rate_take(o, o->burst, ZN_NS_PER_S, now_ns)) {
		memcpy(like, sample_of(o), SAMPLE_BYTES);
		o->refused = 0;
	} else {
		o->refused = held;
		held = 0;
	}
	drop_lock();
	return held;
}

void zn_log_tick(uint64_t now_ns)
{
	char like[SAMPLE_BYTES];
	uint32_t held;

	for (uint32_t i = 0; i <= ZN_RATE_OWNERS; i++)
		if ((held = take_held(i < ZN_RATE_OWNERS ? &kinds.row[i] : &kinds.rest, now_ns, like)))
			put_held(held, like);
}

int zn_log_parse(const char *name)
{
	for (size_t i = 0; i < ZN_LEN(levels); i++)
		if (!strcmp(name, levels[i].name))
			return (int)i;
	return -EINVAL;
}
