/* SPDX-License-Identifier: GPL-2.0 */
/* What a client asks to see of the snapshot, by the query of its request: ?interval_ms=&job=&topics= */
#include "zernel.h"
#include <errno.h>
#include <string.h>

#define PPROF_SECONDS 3600 /* that may be asked for */
#define NAME_BYTES    32
#define VALUE_BYTES   256

static const char *const topics[ZN_TOPIC_COUNT] = {
#define X(e, label) label,
	ZN_TOPICS(X)
#undef X
};

/* Digits only: strtoul() would take signs, spaces and more digits than it can hold. */
static bool read_interval(struct zn_filter *f, const char *value)
{
	uint32_t ms = 0;

	for (size_t i = 0; value[i]; i++) {
		if (value[i] < '0' || value[i] > '9' || ms > ZN_INTERVAL_MAX)
			return false;
		ms = 10 * ms + (uint32_t)(value[i] - '0');
	}
	f->interval_ms = ms;
	return ms >= ZN_INTERVAL_MIN && ms <= ZN_INTERVAL_MAX;
}

static bool job_byte(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c && strchr("._+-", c));
}

static bool read_job(struct zn_filter *f, const char *value)
{
	size_t len = strlen(value);

	if (len == 0 || len >= sizeof(f->job))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!job_byte(value[i]))
			return false;
	memcpy(f->job, value, len);
	return true;
}

static uint32_t topic_bit(const char *name, size_t len)
{
	for (uint32_t i = 0; i < ZN_TOPIC_COUNT; i++)
		if (strlen(topics[i]) == len && !memcmp(topics[i], name, len))
			return 1u << i;
	return 0;
}

static bool read_topics(struct zn_filter *f, const char *value)
{
	uint32_t all = 0;

	for (;;) {
		size_t len = strcspn(value, ",");
		uint32_t bit = topic_bit(value, len);

		if (!bit)
			return false;
		all |= bit;
		if (!value[len])
			break;
		value += len + 1;
	}
	f->topics = all;
	return true;
}

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

static const struct parameter {
	const char *name;
	bool (*read)(struct zn_filter *f, const char *value);
	const char *may_be; /* NULL: a list of topics */
} parameters[] = {
	{"job", read_job, "1 to 63 of A-Z a-z 0-9 . _ + -"},
	{"topics", read_topics, NULL},
	{"interval_ms", read_interval, "a whole number from " TEXT(ZN_INTERVAL_MIN) " to " TEXT(ZN_INTERVAL_MAX)},
};
#define INTERVAL 2 /* the last one: only a WebSocket knows it */

static const char *known_keys(bool interval)
{
	return interval ? "job, topics or interval_ms" : "job or topics";
}

static int bad_value(const struct parameter *p, char why[ZN_TEXT_MAX])
{
	size_t at =
		(size_t)snprintf(why, ZN_TEXT_MAX, "%s must be %s", p->name, p->may_be ? p->may_be : "one or more of ");

	for (size_t i = 0; !p->may_be && i < ZN_TOPIC_COUNT; i++)
		at += (size_t)snprintf(why + at, ZN_TEXT_MAX - at, "%s%s", i ? "," : "", topics[i]);
	return -EINVAL;
}

/* The name is the client's own: what could be taken for anything but a name is not repeated. */
static int bad_name(const char *name, bool interval, char why[ZN_TEXT_MAX])
{
	bool plain = *name;

	for (size_t i = 0; name[i]; i++)
		plain = plain && job_byte(name[i]);
	snprintf(why, ZN_TEXT_MAX, "unknown parameter%s%s; it may be %s", plain ? " " : "", plain ? name : "",
		known_keys(interval));
	return -EINVAL;
}

int zn_filter_read(struct zn_filter *f, struct zn_str query, bool interval, char why[ZN_TEXT_MAX])
{
	char name[NAME_BYTES], value[VALUE_BYTES];
	uint32_t seen = 0, i;
	int got;

	*f = (struct zn_filter){.topics = ZN_TOPICS_ALL};
	while ((got = zn_http_pair(&query, name, sizeof(name), value, sizeof(value))) > 0) {
		for (i = 0; i < ZN_LEN(parameters) && strcmp(parameters[i].name, name); i++)
			;
		if (i == ZN_LEN(parameters) || (i == INTERVAL && !interval))
			return bad_name(name, interval, why);
		if (seen >> i & 1) {
			snprintf(why, ZN_TEXT_MAX, "%s may come only once", name);
			return -EINVAL;
		}
		seen |= 1u << i;
		if (!parameters[i].read(f, value))
			return bad_value(&parameters[i], why);
	}
	if (got == 0)
		return 0;
	snprintf(why, ZN_TEXT_MAX, "the query has a parameter that is too long or not well-formed; it may be %s",
		known_keys(interval));
	return -EINVAL;
}

/* ---- What is asked of stacks. ---- */

static bool read_number(const char *value, uint64_t most, uint64_t *to)
{
	*to = 0;
	for (size_t i = 0; value[i]; i++) {
		if (value[i] < '0' || value[i] > '9' || i >= 10)
			return false;
		*to = 10 * *to + (uint64_t)(value[i] - '0');
	}
	return *value && *to && *to <= most;
}

static bool read_pid(struct zn_stacks_query *q, const char *value)
{
	uint64_t pid;
	bool good = read_number(value, INT32_MAX, &pid);

	q->pid = (uint32_t)pid;
	return good;
}

static bool read_seconds(struct zn_stacks_query *q, const char *value)
{
	return read_number(value, PPROF_SECONDS, &q->seconds);
}

static bool read_stacks_job(struct zn_stacks_query *q, const char *value)
{
	struct zn_filter f = {0};

	_Static_assert(sizeof(f.job) == sizeof(q->job), "both hold a job's name");
	if (!read_job(&f, value))
		return false;
	memcpy(q->job, f.job, sizeof(q->job));
	return true;
}

static bool read_cause(struct zn_stacks_query *q, const char *value)
{
	for (q->leaf = 0; q->leaf < ZN_LEAF_COUNT; q->leaf++)
		if (!strcmp(zn_leaf_label(q->leaf), value))
			return true;
	return false;
}

static const struct {
	const char *name;
	bool (*read)(struct zn_stacks_query *q, const char *value);
	const char *may_be;
} stacks_parameters[] = {
	{"pid", read_pid, "the id of a process"},
	{"job", read_stacks_job, "1 to 63 of A-Z a-z 0-9 . _ + -"},
	{"seconds", read_seconds, "a whole number from 1 to " TEXT(PPROF_SECONDS)},
	{"cause", read_cause, "launch, gpu, nccl, alloc, load, cpu, data, dist, io, runqueue or other"},
};

int zn_filter_stacks(struct zn_stacks_query *q, struct zn_str query, char why[ZN_TEXT_MAX])
{
	char name[NAME_BYTES], value[VALUE_BYTES];
	uint32_t seen = 0, i;
	int got;

	memset(q, 0, sizeof(*q));
	q->leaf = ZN_LEAF_COUNT;
	while ((got = zn_http_pair(&query, name, sizeof(name), value, sizeof(value))) > 0) {
		for (i = 0; i < ZN_LEN(stacks_parameters) && strcmp(stacks_parameters[i].name, name); i++)
			;
		if (i < ZN_LEN(stacks_parameters) && !(seen >> i & 1) && stacks_parameters[i].read(q, value)) {
			seen |= 1u << i;
			continue;
		}
		if (i == ZN_LEN(stacks_parameters))
			snprintf(why, ZN_TEXT_MAX, "unknown parameter; it may be pid, job, seconds or cause");
		else if (seen >> i & 1)
			snprintf(why, ZN_TEXT_MAX, "%s may come only once", stacks_parameters[i].name);
		else
			snprintf(why, ZN_TEXT_MAX, "%s must be %s", stacks_parameters[i].name,
				stacks_parameters[i].may_be);
		return -EINVAL;
	}
	if (got == 0)
		return 0;
	snprintf(why, ZN_TEXT_MAX,
		"the query has a parameter that is too long or not well-formed; it may be pid, job, seconds or cause");
	return -EINVAL;
}

/* ---- What is asked of metrics. ---- */

static const char *const collects[ZN_COLLECT_COUNT] = {
#define X(e, label) label,
	ZN_COLLECTS(X)
#undef X
};

static int bad_collect(const char *what, char why[ZN_TEXT_MAX])
{
	size_t at = (size_t)snprintf(why, ZN_TEXT_MAX, "%s; it may be collect[]=", what);

	for (uint32_t i = 0; i < ZN_COLLECT_COUNT; i++)
		at += (size_t)snprintf(why + at, ZN_TEXT_MAX - at, "%s%s",
			!i                                 ? ""
				: i + 1 < ZN_COLLECT_COUNT ? ", "
							   : " or ",
			collects[i]);
	return -EINVAL;
}

/* Of what another parameter holds, nothing is asked here: not even that it is well-formed. */
int zn_filter_collect(uint32_t *collect, struct zn_str query, char why[ZN_TEXT_MAX])
{
	char name[NAME_BYTES], value[VALUE_BYTES];
	uint32_t i;
	int got;

	*collect = 0;
	while ((got = zn_http_pair(&query, name, sizeof(name), value, sizeof(value))) != 0) {
		if (strncmp(name, "collect", 7) && strncmp(name, "exclude", 7))
			continue;
		if (got < 0)
			return bad_collect("the query has a parameter that is too long or not well-formed", why);
		if (strcmp(name, "collect[]"))
			return bad_collect("unknown parameter", why);
		for (i = 0; i < ZN_COLLECT_COUNT && strcmp(collects[i], value); i++)
			;
		if (i == ZN_COLLECT_COUNT)
			return bad_collect("unknown value of collect[]", why);
		*collect |= 1u << i;
	}
	return 0;
}
