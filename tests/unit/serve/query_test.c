/* SPDX-License-Identifier: GPL-2.0 */
/* query_test.c: queries, each from a heap block of exactly its size, and each cut at every byte. */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define JOB_63 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde"
#define BIT(e) (1u << ZN_TOPIC_##e)

static int read_query(struct zn_filter *f, const char *text, size_t len, bool interval, char why[ZN_TEXT_MAX])
{
	char *block = malloc(len ? len : 1);
	int err;

	memcpy(block, text, len);
	memset(f, 0xaa, sizeof(*f));
	memset(why, 0xaa, ZN_TEXT_MAX);
	err = zn_filter_read(f, (struct zn_str){block, len}, interval, why);
	free(block);
	return err;
}

static const struct {
	const char *name, *query;
	struct zn_filter want;
} good[] = {
	{"nothing", "", {ZN_TOPICS_ALL, 0, ""}},
	{"empty pairs", "&&", {ZN_TOPICS_ALL, 0, ""}},
	{"least interval", "interval_ms=250", {ZN_TOPICS_ALL, 250, ""}},
	{"longest interval", "interval_ms=60000", {ZN_TOPICS_ALL, 60000, ""}},
	{"interval with zeros in front", "interval_ms=000001000", {ZN_TOPICS_ALL, 1000, ""}},
	{"a job", "job=123", {ZN_TOPICS_ALL, 0, "123"}},
	{"a job of an array", "job=123_4", {ZN_TOPICS_ALL, 0, "123_4"}},
	{"every kind of byte", "job=aZ09._-%2B", {ZN_TOPICS_ALL, 0, "aZ09._-+"}},
	{"longest job", "job=" JOB_63, {ZN_TOPICS_ALL, 0, JOB_63}},
	{"one topic", "topics=alerts", {BIT(ALERTS), 0, ""}},
	{"two topics", "topics=processes,alerts", {BIT(PROCESSES) | BIT(ALERTS), 0, ""}},
	{"a topic twice", "topics=lost,lost", {BIT(LOST), 0, ""}},
	{"all topics", "topics=gpus,processes,jobs,io,alerts,probes,lost,why,servers", {ZN_TOPICS_ALL, 0, ""}},
	{"escaped comma", "topics=gpus%2Cio", {BIT(GPUS) | BIT(IO), 0, ""}},
	{"escaped name", "%6aob=x", {ZN_TOPICS_ALL, 0, "x"}},
	{"all three", "topics=jobs&job=7&interval_ms=500", {BIT(JOBS), 500, "7"}},
};

static void good_queries(void)
{
	char why[ZN_TEXT_MAX];
	struct zn_filter f;

	for (size_t i = 0; i < ZN_LEN(good); i++) {
		t_begin(good[i].name);
		CHECK_EQ(read_query(&f, good[i].query, strlen(good[i].query), true, why), 0);
		CHECK_MEM((char *)&f, sizeof(f), (const char *)&good[i].want, sizeof(f));
		CHECK_EQ(read_query(&f, good[i].query, strlen(good[i].query), false, why),
			good[i].want.interval_ms ? -EINVAL : 0);
		for (size_t cut = 0; cut < strlen(good[i].query); cut++) {
			int err = read_query(&f, good[i].query, cut, true, why);

			CHECK(err == 0 || (err == -EINVAL && strlen(why) < ZN_TEXT_MAX));
		}
	}
}

#define TOPICS_MUST "topics must be one or more of gpus,processes,jobs,io,alerts,probes,lost,why,servers"
#define JOB_MUST    "job must be 1 to 63 of A-Z a-z 0-9 . _ + -"
#define MS_MUST     "interval_ms must be a whole number from 250 to 60000"
#define BAD_PAIR    "the query has a parameter that is too long or not well-formed; it may be job, topics or interval_ms"

static const struct {
	const char *name, *query, *why;
} bad[] = {
	{"interval too short", "interval_ms=249", MS_MUST},
	{"interval too long", "interval_ms=60001", MS_MUST},
	{"interval that wraps", "interval_ms=4294967796", MS_MUST},
	{"interval of many digits", "interval_ms=999999999999999999999999999999", MS_MUST},
	{"negative interval", "interval_ms=-500", MS_MUST},
	{"signed interval", "interval_ms=%2B500", MS_MUST},
	{"interval with a space", "interval_ms=500+", MS_MUST},
	{"interval with a unit", "interval_ms=500ms", MS_MUST},
	{"hexadecimal interval", "interval_ms=0x200", MS_MUST},
	{"no interval", "interval_ms=", MS_MUST},
	{"no value", "interval_ms", MS_MUST},
	{"empty job", "job=", JOB_MUST},
	{"job too long", "job=" JOB_63 "x", JOB_MUST},
	{"job with a space", "job=a+b", JOB_MUST},
	{"job with a slash", "job=a%2Fb", JOB_MUST},
	{"job with a quote", "job=%22", JOB_MUST},
	{"job that is not ASCII", "job=%C3%A9", JOB_MUST},
	{"unknown topic", "topics=gpu", TOPICS_MUST},
	{"empty topic", "topics=", TOPICS_MUST},
	{"empty topic between", "topics=gpus,,io", TOPICS_MUST},
	{"empty topic at the end", "topics=gpus,", TOPICS_MUST},
	{"topic with a space", "topics=gpus,+io", TOPICS_MUST},
	{"upper case topic", "topics=GPUS", TOPICS_MUST},
	{"unknown parameter", "jobs=1", "unknown parameter jobs; it may be job, topics or interval_ms"},
	{"upper case name", "Job=1", "unknown parameter Job; it may be job, topics or interval_ms"},
	{"hostile name", "%0d%0aX%3a+y=1", "unknown parameter; it may be job, topics or interval_ms"},
	{"no name", "=1", "unknown parameter; it may be job, topics or interval_ms"},
	{"twice", "job=1&job=1", "job may come only once"},
	{"twice, the second bad", "topics=io&topics=", "topics may come only once"},
	{"bad escape", "job=%4", BAD_PAIR},
	{"NUL", "job=1%00", BAD_PAIR},
	{"long name", JOB_63 "=1", BAD_PAIR},
	{"long value", "job=" JOB_63 JOB_63 JOB_63 JOB_63 JOB_63, BAD_PAIR},
};

static void bad_queries(void)
{
	char why[ZN_TEXT_MAX];
	struct zn_filter f;

	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		t_begin(bad[i].name);
		CHECK_EQ(read_query(&f, bad[i].query, strlen(bad[i].query), true, why), -EINVAL);
		CHECK_STR(why, bad[i].why);
		CHECK_EQ(read_query(&f, bad[i].query, strlen(bad[i].query), false, why), -EINVAL);
	}
}

T(interval_where_there_is_none)
{
	char why[ZN_TEXT_MAX];
	struct zn_filter f;

	CHECK_EQ(read_query(&f, "interval_ms=500", 15, false, why), -EINVAL);
	CHECK_STR(why, "unknown parameter interval_ms; it may be job or topics");
}

static const struct {
	const char *name, *query, *why;
	uint32_t collect;
} collects[] = {
	{"no query", "", NULL, 0},
	{"one", "collect[]=node", NULL, ZN_COLLECT_NODE},
	{"escaped, two", "collect%5B%5D=job&collect%5b%5d=node", NULL, ZN_COLLECT_NODE | ZN_COLLECT_JOB},
	{"all", "collect[]=node&collect[]=job&collect[]=process&collect[]=detail", NULL, ZN_COLLECT_ALL},
	{"twice", "collect[]=job&collect[]=job", NULL, ZN_COLLECT_JOB},
	{"others' parameters", "a=b&collect[]=job&target=x", NULL, ZN_COLLECT_JOB},
	{"others' long names", "a_parameter_name_that_has_more_than_32_letters=1&collect[]=job", NULL, ZN_COLLECT_JOB},
	{"others' values that are not well-formed", "t=100%&u=%zz&v=%00&collect[]=node", NULL, ZN_COLLECT_NODE},
	{"a long name that begins alike", "collect_parameter_name_that_has_more_than_32_letters=1",
		"the query has a parameter that is too long or not well-formed; it may be collect[]=node, job, process or detail",
		0},
	{"unknown value", "collect[]=jobs",
		"unknown value of collect[]; it may be collect[]=node, job, process or detail", 0},
	{"no value", "collect[]=", "unknown value of collect[]; it may be collect[]=node, job, process or detail", 0},
	{"without brackets", "collect=job", "unknown parameter; it may be collect[]=node, job, process or detail", 0},
	{"exclude", "exclude[]=job", "unknown parameter; it may be collect[]=node, job, process or detail", 0},
	{"bad escape", "collect[]=%4",
		"the query has a parameter that is too long or not well-formed; it may be collect[]=node, job, process or detail",
		0},
};

static void collect_queries(void)
{
	for (size_t i = 0; i < ZN_LEN(collects); i++) {
		char why[ZN_TEXT_MAX] = "";
		uint32_t collect;
		int err =
			zn_filter_collect(&collect, (struct zn_str){collects[i].query, strlen(collects[i].query)}, why);

		t_begin(collects[i].name);
		CHECK_EQ(err, collects[i].why ? -EINVAL : 0);
		if (collects[i].why)
			CHECK_STR(why, collects[i].why);
		else
			CHECK_EQ(collect, collects[i].collect);
	}
}

int main(void)
{
	good_queries();
	bad_queries();
	collect_queries();
	RUN(interval_where_there_is_none);
	return t_end();
}
