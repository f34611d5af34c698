/* SPDX-License-Identifier: GPL-2.0 */
/*
 * message.c: what a client says to the daemon about a job, as lines of printable ASCII: "zernel 1 VERB", then
 * key=value. Pure: text in, values out. A message is read strictly, as anybody may send one, but for keys of a later
 * version in a file; whether what it says is allowed is the business of control.c.
 */
#include "zernel.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SPOOL_NAME "jobs.d"
#define HEAD       "zernel 1 "
#define ID_MAX     4294967294ULL /* one more is Slurm's INFINITE, and ZN_UNKNOWN */
#define U32_LAST   4294967293ULL /* one more is Slurm's NO_VAL */
#define DIGITS     "0123456789"
#define PID_MAX    4194304ULL /* the kernel's PID_MAX_LIMIT */
/* ms by which the two clocks may differ, as each counts in ms: then the time of the wall clock is taken as it was
 * sent */
#define CLOCK_NEAR 5

static const struct {
	const char *name;
	bool about_job; /* it needs an id */
} verbs[] = {
	[ZN_VERB_START] = {"start", true},
	[ZN_VERB_END] = {"end", true},
	[ZN_VERB_LIST] = {"list", false},
	[ZN_VERB_SHOW] = {"show", true},
	[ZN_VERB_REPORT] = {"report", true},
	[ZN_VERB_HANG] = {"hang", true},
	[ZN_VERB_ANNOTATE] = {"annotate", false},
};

static const struct {
	const char *name, *variable;
} keys[ZN_KEY_COUNT] = {
#define X(e, name, variable) [ZN_KEY_##e] = {name, variable},
	ZN_KEYS(X)
#undef X
};

/* Decimal digits, without zeros in front: one number has one form. */
static bool is_number(const char *text, uint64_t min, uint64_t max)
{
	uint64_t v = 0;

	if (!*text || (text[0] == '0' && text[1]))
		return false;
	for (; *text; text++)
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(v, 10, &v) ||
			__builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
			return false;
	return v >= min && v <= max;
}

static bool is_word_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || strchr("._-", c);
}

/* It becomes part of the name of a file: no '/', and no dot or dash in front. */
static bool is_word(const char *text)
{
	size_t len = strlen(text);

	if (!len || len >= ZN_JOB_NAME || *text == '.' || *text == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_word_byte(text[i]))
			return false;
	return true;
}

/* A name like that of a restarted job's file: the report of a job "4711_1" would take the place of the report of
 * job 4711. */
static bool is_restarted(const char *text)
{
	size_t id = strspn(text, DIGITS);

	return id && text[id] == '_' && text[id + 1] && !text[id + 1 + strspn(text + id + 1, DIGITS)];
}

/* A word of digits alone is a number, so that no id of Slurm has two forms. */
static bool is_id(const char *text)
{
	if (!text[strspn(text, DIGITS)])
		return is_number(text, 1, ID_MAX);
	return is_word(text) && !is_restarted(text);
}

/* Absolute, and no part of it is "..". */
/* A path as it is, or behind "hierarchy:controllers:", as in /proc/PID/cgroup. */
static bool is_path(const char *text)
{
	const char *line = text + strspn(text, "0123456789");

	if (line > text && *line == ':' && (line = strchr(line + 1, ':')))
		text = line + 1;
	if (*text != '/')
		return false;
	for (const char *at = text; (at = strstr(at, "/..")); at += 3)
		if (!at[3] || at[3] == '/')
			return false;
	return true;
}

/* As in /proc/sys/kernel/random/boot_id. */
static bool is_boot(const char *text)
{
	return strlen(text) == ZN_BOOT_BYTES - 1 && strspn(text, DIGITS "abcdef-") == ZN_BOOT_BYTES - 1;
}

static bool is_one(const char *text)
{
	return !strcmp(text, "1");
}

#define WORD_IS "a word of up to 15 of A-Z a-z 0-9 . _ -"

/* Where a value is not just any text. */
static const struct rule {
	enum zn_key key;
	bool (*good)(const char *value); /* NULL: a number from min to max */
	const char *is;
	uint64_t min, max;
} rules[] = {
	{ZN_KEY_ID, is_id, "a number from 1 to 4294967294, or " WORD_IS ", but not NUMBER_NUMBER", 0, 0},
	{ZN_KEY_RESTART, NULL, NULL, 0, U32_LAST},
	{ZN_KEY_UID, NULL, NULL, 0, ID_MAX},
	{ZN_KEY_GID, NULL, NULL, 0, ID_MAX},
	{ZN_KEY_NODES, NULL, NULL, 0, U32_LAST},
	{ZN_KEY_TASKS, NULL, NULL, 0, U32_LAST},
	{ZN_KEY_SLUID, is_word, WORD_IS, 0, 0},
	{ZN_KEY_HET_JOB, NULL, NULL, 1, U32_LAST},
	{ZN_KEY_ARRAY_JOB, NULL, NULL, 1, U32_LAST},
	{ZN_KEY_ARRAY_TASK, NULL, NULL, 0, U32_LAST},
	{ZN_KEY_START_TIME, NULL, NULL, 0, INT64_MAX},
	{ZN_KEY_END_TIME, NULL, NULL, 0, INT64_MAX},
	{ZN_KEY_CGROUP, is_path, "an absolute path without \"..\"", 0, 0},
	{ZN_KEY_PID, NULL, NULL, 1, PID_MAX},
	{ZN_KEY_TIME, NULL, NULL, 0, INT64_MAX},
	{ZN_KEY_BOOT, is_boot, "the id of a boot", 0, 0},
	{ZN_KEY_UPTIME, NULL, NULL, 0, INT64_MAX},
	{ZN_KEY_PARENT, is_one, "1", 0, 0},
	{ZN_KEY_JSON, is_one, "1", 0, 0},
	{ZN_KEY_LINE, is_one, "1", 0, 0},
	{ZN_KEY_MAIL, is_one, "1", 0, 0},
};

static const struct rule *rule_of(enum zn_key key)
{
	for (size_t i = 0; i < ZN_LEN(rules); i++)
		if (rules[i].key == key)
			return &rules[i];
	return NULL;
}

static bool is_printable(struct zn_str text)
{
	for (size_t i = 0; i < text.len; i++)
		if (text.at[i] < ' ' || text.at[i] > '~')
			return false;
	return true;
}

bool zn_message_check(enum zn_key key, const char *value, char why[ZN_TEXT_MAX])
{
	const struct rule *rule = rule_of(key);
	size_t len = strnlen(value, ZN_VALUE_BYTES);

	why[0] = '\0';
	if (!len)
		snprintf(why, ZN_TEXT_MAX, "%s: no value", keys[key].name);
	else if (len == ZN_VALUE_BYTES)
		snprintf(why, ZN_TEXT_MAX, "%s: longer than %d bytes", keys[key].name, ZN_VALUE_BYTES - 1);
	else if (!is_printable((struct zn_str){value, len}))
		snprintf(why, ZN_TEXT_MAX, "%s: a byte that is not printable ASCII", keys[key].name);
	else if (rule && rule->good && !rule->good(value))
		snprintf(why, ZN_TEXT_MAX, "%s must be %s", keys[key].name, rule->is);
	else if (rule && !rule->good && !is_number(value, rule->min, rule->max))
		snprintf(why, ZN_TEXT_MAX, "%s must be a number from %" PRIu64 " to %" PRIu64, keys[key].name,
			rule->min, rule->max);
	return !why[0];
}

static bool equals_text(struct zn_str a, const char *b)
{
	return a.len == strlen(b) && !memcmp(a.at, b, a.len);
}

int zn_message_key(struct zn_str name)
{
	for (int key = 0; key < ZN_KEY_COUNT; key++)
		if (equals_text(name, keys[key].name))
			return key;
	return -EINVAL;
}

static int fail_with(char why[ZN_TEXT_MAX], const char *what)
{
	snprintf(why, ZN_TEXT_MAX, "%s", what);
	return -EINVAL;
}

/* Takes a line off a text, without its end. False: the text ends before the line does. */
static bool take_line(struct zn_str *text, struct zn_str *line)
{
	const char *end = text->len ? memchr(text->at, '\n', text->len) : NULL;

	if (!end)
		return false;
	*line = (struct zn_str){text->at, (size_t)(end - text->at)};
	text->at = end + 1;
	text->len -= line->len + 1;
	return true;
}

static int read_head(struct zn_message *m, struct zn_str *text, char why[ZN_TEXT_MAX])
{
	size_t head = strlen(HEAD);
	struct zn_str line;

	if (!take_line(text, &line) || line.len < head || memcmp(line.at, HEAD, head))
		return fail_with(why, "the first line is not \"" HEAD "VERB\"");
	line.at += head;
	line.len -= head;
	for (size_t i = ZN_VERB_START; i < ZN_LEN(verbs); i++)
		if (equals_text(line, verbs[i].name))
			m->verb = (enum zn_verb)i;
	return m->verb ? 0 : fail_with(why, "no such verb; it may be start, end, list, show, report, hang or annotate");
}

/* As keys are named: a later version may know it. */
static bool may_be_key(struct zn_str name)
{
	for (size_t i = 0; i < name.len; i++)
		if ((name.at[i] < 'a' || name.at[i] > 'z') && name.at[i] != '_')
			return false;
	return name.len;
}

/* lenient: a key that is not known is passed over with its value. */
static int read_pair(struct zn_message *m, struct zn_str line, bool lenient, char why[ZN_TEXT_MAX])
{
	const char *sign = line.len ? memchr(line.at, '=', line.len) : NULL;
	struct zn_str name = {line.at, sign ? (size_t)(sign - line.at) : 0};
	size_t len = line.len - name.len - 1;
	char value[ZN_VALUE_BYTES + 1];
	int key;

	if (!sign)
		return fail_with(why, "a line without '='");
	key = zn_message_key(name);
	if (key < 0)
		return lenient && may_be_key(name) ? 0 : fail_with(why, "an unknown key");
	if (m->value[key][0]) {
		snprintf(why, ZN_TEXT_MAX, "%s: it is there twice", keys[key].name);
		return -EINVAL;
	}
	if (memchr(sign + 1, '\0', len)) /* a string would end there */
		return fail_with(why, "a NUL byte");
	len = len < ZN_VALUE_BYTES ? len : ZN_VALUE_BYTES; /* one byte too long is refused as well */
	memcpy(value, sign + 1, len);
	value[len] = '\0';
	if (!zn_message_check((enum zn_key)key, value, why))
		return -EINVAL;
	memcpy(m->value[key], value, len + 1);
	return 0;
}

static int read_message(struct zn_message *m, struct zn_str left, bool lenient, char why[ZN_TEXT_MAX])
{
	struct zn_str line;
	int err;

	*m = (struct zn_message){0};
	if (left.len > ZN_MESSAGE_BYTES)
		return fail_with(why, "longer than 4096 bytes");
	err = read_head(m, &left, why);
	while (!err && left.len)
		err = take_line(&left, &line) ? read_pair(m, line, lenient, why)
					      : fail_with(why, "the last line has no end");
	if (!err && verbs[m->verb].about_job && !m->value[ZN_KEY_ID][0])
		return fail_with(why, "no id");
	return err;
}

int zn_message_read(struct zn_message *m, const char *text, size_t len, char why[ZN_TEXT_MAX])
{
	return read_message(m, (struct zn_str){text, len}, false, why);
}

int zn_message_read_file(struct zn_message *m, const char *text, size_t len, char why[ZN_TEXT_MAX])
{
	return read_message(m, (struct zn_str){text, len}, true, why);
}

bool zn_message_write(struct zn_out *o, const struct zn_message *m)
{
	size_t before = o->len;

	zn_out_text(o, HEAD);
	zn_out_text(o, verbs[m->verb].name);
	zn_out_char(o, '\n');
	for (int key = 0; key < ZN_KEY_COUNT; key++) {
		if (!m->value[key][0])
			continue;
		zn_out_text(o, keys[key].name);
		zn_out_char(o, '=');
		zn_out_text(o, m->value[key]);
		zn_out_char(o, '\n');
	}
	return !o->full && o->len - before <= ZN_MESSAGE_BYTES;
}

static void set_number(struct zn_message *m, enum zn_key key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	zn_message_set(m, key, text);
}

void zn_message_date(struct zn_message *m, const struct zn_moment *when)
{
	set_number(m, ZN_KEY_TIME, when->wall_ms);
	if (!when->boot[0])
		return;
	zn_message_set(m, ZN_KEY_BOOT, when->boot);
	set_number(m, ZN_KEY_UPTIME, when->uptime_ms);
}

static uint64_t time_since(uint64_t then, uint64_t now)
{
	return then < now ? now - then : 0;
}

bool zn_message_ago(const struct zn_message *m, const struct zn_moment *now, uint64_t *ago_ms)
{
	uint64_t time_ms = strtoull(m->value[ZN_KEY_TIME], NULL, 10), by_uptime;

	*ago_ms = time_ms ? time_since(time_ms, now->wall_ms) : 0;
	if (!m->value[ZN_KEY_BOOT][0] || !now->boot[0])
		return *ago_ms < now->uptime_ms;
	if (strcmp(m->value[ZN_KEY_BOOT], now->boot))
		return false;
	by_uptime = time_since(strtoull(m->value[ZN_KEY_UPTIME], NULL, 10), now->uptime_ms);
	if (m->value[ZN_KEY_UPTIME][0] && by_uptime - *ago_ms + CLOCK_NEAR > 2 * CLOCK_NEAR) /* either may be more */
		*ago_ms = by_uptime;
	else if (*ago_ms >= now->uptime_ms) /* the wall clock was set since */
		*ago_ms = 0;
	return true;
}

void zn_message_set(struct zn_message *m, enum zn_key key, const char *value)
{
	char *to = m->value[key];
	size_t len = strlen(value);

	len = len < ZN_VALUE_BYTES ? len : ZN_VALUE_BYTES - 1;
	memcpy(to, value, len);
	to[len] = '\0';
	zn_str_plain(to);
}

const char *zn_key_name(enum zn_key key)
{
	return keys[key].name;
}

const char *zn_key_variable(enum zn_key key)
{
	return keys[key].variable;
}

const char *zn_verb_name(enum zn_verb verb)
{
	return verbs[verb].name;
}

bool zn_message_folder(char to[ZN_TEXT_MAX], const char *control)
{
	const char *slash = strrchr(control, '/');
	int len = slash ? snprintf(to, ZN_TEXT_MAX, "%.*s/" SPOOL_NAME, (int)(slash - control), control) : 0;

	if (len <= 0 || len >= ZN_TEXT_MAX)
		to[0] = '\0';
	return to[0];
}

void zn_job_file(char to[ZN_NAME_BYTES], const char *prefix, const char *id, uint32_t restart, const char *suffix)
{
	if (restart)
		snprintf(to, ZN_NAME_BYTES, "%s%s_%u%s", prefix, id, restart, suffix);
	else
		snprintf(to, ZN_NAME_BYTES, "%s%s%s", prefix, id, suffix);
}

void zn_job_file_hang(char to[ZN_NAME_BYTES], const char *job, uint32_t restart, uint32_t episode)
{
	char suffix[16];

	snprintf(suffix, sizeof(suffix), ".%u.json", (episode - 1) % ZN_FLIGHTS + 1);
	if (*job)
		zn_job_file(to, "hang-report-of-job-", job, restart, suffix);
	else
		zn_job_file(to, "hang-report-of-no-job", "", 0, suffix);
}
