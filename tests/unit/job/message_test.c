/* SPDX-License-Identifier: GPL-2.0 */
/* message_test.c: messages, each from a heap block of exactly its size, and each cut at every byte. */
#include <errno.h>
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

#define H       "zernel 1 "
#define A16     "aaaaaaaaaaaaaaaa"
#define A64     A16 A16 A16 A16
#define A256    A64 A64 A64 A64
#define HEAD_IS "the first line is not \"zernel 1 VERB\""
#define VERB_IS "no such verb; it may be start, end, list, show, report, hang or annotate"
#define ID_IS                                                                                                          \
	"id must be a number from 1 to 4294967294, or a word of up to 15 of A-Z a-z 0-9 . _ -, but not NUMBER_NUMBER"

static int read_text(struct zn_message *m, const char *text, size_t len, char why[ZN_TEXT_MAX])
{
	char *block = malloc(len ? len : 1);
	int err;

	memcpy(block, text, len);
	memset(m, 0xaa, sizeof(*m));
	memset(why, 0xaa, ZN_TEXT_MAX);
	err = zn_message_read(m, block, len, why);
	free(block);
	return err;
}

#define BOOT  "01234567-89ab-cdef-0123-456789abcdef"
#define OTHER "76543210-89ab-cdef-0123-456789abcdef"

static const struct {
	const char *name, *text;
	enum zn_verb verb;
	struct {
		enum zn_key key;
		const char *value;
	} want[3];
} good[] = {
	{"list", H "list\n", ZN_VERB_LIST, {{0}}},
	{"list as JSON", H "list\njson=1\n", ZN_VERB_LIST, {{ZN_KEY_JSON, "1"}}},
	{"start", H "start\nid=4711\n", ZN_VERB_START, {{ZN_KEY_ID, "4711"}}},
	{"end", H "end\nid=4711\nexit_code=0:9\n", ZN_VERB_END, {{ZN_KEY_ID, "4711"}, {ZN_KEY_EXIT_CODE, "0:9"}}},
	{"annotate", H "annotate\npid=7\nlabels=a=1,b=x y\n", ZN_VERB_ANNOTATE,
		{{ZN_KEY_PID, "7"}, {ZN_KEY_LABELS, "a=1,b=x y"}}},
	{"annotate the parent", H "annotate\nparent=1\nlabels=a=\n", ZN_VERB_ANNOTATE, {{ZN_KEY_PARENT, "1"}}},
	{"show", H "show\nid=4711\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "4711"}}},
	{"report in a line", H "report\nline=1\nid=7\n", ZN_VERB_REPORT, {{ZN_KEY_ID, "7"}, {ZN_KEY_LINE, "1"}}},
	{"least id", H "show\nid=1\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "1"}}},
	{"largest id", H "show\nid=4294967294\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "4294967294"}}},
	{"SLUID", H "show\nid=s1ABCDEFGHJKMN\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "s1ABCDEFGHJKMN"}}},
	{"id of a word and a number", H "show\nid=train_1\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "train_1"}}},
	{"id of two numbers and more", H "show\nid=1_2_\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "1_2_"}}},
	{"id of a number and no other", H "show\nid=1_\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "1_"}}},
	{"id of digits and more", H "show\nid=00-1\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "00-1"}}},
	{"longest word", H "show\nid=a.b_c-d.e_f-g.h\n", ZN_VERB_SHOW, {{ZN_KEY_ID, "a.b_c-d.e_f-g.h"}}},
	{"sign in a value", H "start\nid=1\nname=a=b=\n", ZN_VERB_START, {{ZN_KEY_NAME, "a=b="}}},
	{"what would end a label", H "start\nid=1\nname=a\"} 1\\n\n", ZN_VERB_START, {{ZN_KEY_NAME, "a\"} 1\\n"}}},
	{"longest value", H "start\nid=1\nnodelist=" A256 "\n", ZN_VERB_START, {{ZN_KEY_NODELIST, A256}}},
	{"blank value", H "start\nid=1\nname= \n", ZN_VERB_START, {{ZN_KEY_NAME, " "}}},
	{"first restart", H "start\nid=1\nrestart=0\n", ZN_VERB_START, {{ZN_KEY_RESTART, "0"}}},
	{"root", H "start\nid=1\nuid=0\ngid=0\n", ZN_VERB_START, {{ZN_KEY_UID, "0"}, {ZN_KEY_GID, "0"}}},
	{"path", H "start\nid=1\ncgroup=/a/..b/c..\n", ZN_VERB_START, {{ZN_KEY_CGROUP, "/a/..b/c.."}}},
	{"line of /proc/PID/cgroup", H "start\nid=1\ncgroup=4:cpu,cpuacct:/a\n", ZN_VERB_START,
		{{ZN_KEY_CGROUP, "4:cpu,cpuacct:/a"}}},
	{"a boot", H "end\nid=1\nboot=" BOOT "\nuptime=0\n", ZN_VERB_END, {{ZN_KEY_BOOT, BOOT}, {ZN_KEY_UPTIME, "0"}}},
	{"last time", H "end\nid=1\ntime=9223372036854775807\n", ZN_VERB_END, {{ZN_KEY_TIME, "9223372036854775807"}}},
};

static void check_cuts(const char *text)
{
	char why[ZN_TEXT_MAX];
	struct zn_message m;

	for (size_t cut = 0; cut < strlen(text); cut++) {
		int err = read_text(&m, text, cut, why);

		CHECK(!err || (err == -EINVAL && *why && strnlen(why, ZN_TEXT_MAX) < ZN_TEXT_MAX));
		CHECK(err || (text[cut - 1] == '\n')); /* a line that is cut is not taken */
	}
}

/* What was read is written in a form that reads the same. */
static void check_again(const struct zn_message *m)
{
	char text[ZN_MESSAGE_BYTES], why[ZN_TEXT_MAX];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_message again;

	CHECK(zn_message_write(&o, m));
	CHECK_EQ(read_text(&again, text, o.len, why), 0);
	CHECK(!memcmp(&again, m, sizeof(again)));
}

static void good_messages(void)
{
	char why[ZN_TEXT_MAX];
	struct zn_message m;

	for (size_t i = 0; i < ZN_LEN(good); i++) {
		t_begin(good[i].name);
		CHECK_EQ(read_text(&m, good[i].text, strlen(good[i].text), why), 0);
		CHECK_EQ(m.verb, good[i].verb);
		for (size_t k = 0; k < ZN_LEN(good[i].want) && good[i].want[k].value; k++)
			CHECK_STR(m.value[good[i].want[k].key], good[i].want[k].value);
		check_cuts(good[i].text);
		check_again(&m);
	}
}

#define START H "start\nid=1\n"
#define BAD(n, t, w)                                                                                                   \
	{                                                                                                              \
		n, t, sizeof(t) - 1, w                                                                                 \
	}

static const struct {
	const char *name, *text;
	size_t len;
	const char *why;
} bad[] = {
	BAD("nothing", "", HEAD_IS),
	BAD("an empty line", "\n", HEAD_IS),
	BAD("no verb", "zernel 1\n", HEAD_IS),
	BAD("another version", "zernel 2 list\n", HEAD_IS),
	BAD("upper case", "Zernel 1 list\n", HEAD_IS),
	BAD("an empty verb", H "\n", VERB_IS),
	BAD("an unknown verb", H "stop\n", VERB_IS),
	BAD("the beginning of a verb", H "lis\n", VERB_IS),
	BAD("more than a verb", H "list \n", VERB_IS),
	BAD("a verb with a carriage return", H "list\r\n", VERB_IS),
	BAD("a verb with a NUL", H "list\0\n", VERB_IS),
	BAD("no id to start", H "start\n", "no id"),
	BAD("no id to end", H "end\nuid=7\n", "no id"),
	BAD("no id to show", H "show\n", "no id"),
	BAD("no id to report", H "report\n", "no id"),
	BAD("no end", START "uid=7", "the last line has no end"),
	BAD("no sign", START "uid\n", "a line without '='"),
	BAD("an empty line between", H "start\n\nid=1\n", "a line without '='"),
	BAD("an unknown key", START "comment=x\n", "an unknown key"),
	BAD("no key", START "=x\n", "an unknown key"),
	BAD("upper case key", START "UID=7\n", "an unknown key"),
	BAD("a key with a space", START "uid =7\n", "an unknown key"),
	BAD("twice", START "id=1\n", "id: it is there twice"),
	BAD("an empty value", START "name=\n", "name: no value"),
	BAD("too long", START "name=a" A256 "\n", "name: longer than 256 bytes"),
	BAD("far too long", START "name=" A256 A256 A256 "\n", "name: longer than 256 bytes"),
	BAD("a NUL", START "name=a\0b\n", "a NUL byte"),
	BAD("a NUL alone", START "name=\0\n", "a NUL byte"),
	BAD("a tab", START "name=a\tb\n", "name: a byte that is not printable ASCII"),
	BAD("an escape", START "name=\x1b[2J\n", "name: a byte that is not printable ASCII"),
	BAD("DEL", START "name=\x7f\n", "name: a byte that is not printable ASCII"),
	BAD("UTF-8", START "name=\xc3\xa9\n", "name: a byte that is not printable ASCII"),
	BAD("bad UTF-8", START "name=\xff\xfe\n", "name: a byte that is not printable ASCII"),
	BAD("id 0", H "end\nid=0\n", ID_IS),
	BAD("id of 2^32 - 1", H "end\nid=4294967295\n", ID_IS),
	BAD("id of 2^32", H "end\nid=4294967296\n", ID_IS),
	BAD("id of 2^64", H "end\nid=18446744073709551616\n", ID_IS),
	BAD("id of 2^64 + 1", H "end\nid=18446744073709551617\n", ID_IS),
	BAD("id with a zero in front", H "end\nid=07\n", ID_IS),
	BAD("signed id", H "end\nid=+7\n", ID_IS),
	BAD("negative id", H "end\nid=-7\n", ID_IS),
	BAD("id like the file of a restart", H "end\nid=4711_1\n", ID_IS),
	BAD("id with a space", H "end\nid= 7\n", ID_IS),
	BAD("path as id", H "end\nid=../7\n", ID_IS),
	BAD("folder as id", H "end\nid=..\n", ID_IS),
	BAD("hidden file as id", H "end\nid=.a\n", ID_IS),
	BAD("slash in an id", H "end\nid=a/b\n", ID_IS),
	BAD("word too long", H "end\nid=" A16 "\n", ID_IS),
	BAD("quote in an id", H "end\nid=a\"b\n", ID_IS),
	BAD("uid of 2^32 - 1", START "uid=4294967295\n", "uid must be a number from 0 to 4294967294"),
	BAD("uid of 2^64", START "uid=18446744073709551616\n", "uid must be a number from 0 to 4294967294"),
	BAD("negative uid", START "uid=-1\n", "uid must be a number from 0 to 4294967294"),
	BAD("hexadecimal uid", START "uid=0x7\n", "uid must be a number from 0 to 4294967294"),
	BAD("restart NO_VAL", START "restart=4294967294\n", "restart must be a number from 0 to 4294967293"),
	BAD("array job 0", START "array_job=0\n", "array_job must be a number from 1 to 4294967293"),
	BAD("pid 0", START "pid=0\n", "pid must be a number from 1 to 4194304"),
	BAD("large pid", START "pid=4194305\n", "pid must be a number from 1 to 4194304"),
	BAD("path from nowhere", START "cgroup=a/b\n", "cgroup must be an absolute path without \"..\""),
	BAD("path that climbs", START "cgroup=/a/../b\n", "cgroup must be an absolute path without \"..\""),
	BAD("line that climbs", START "cgroup=0::/a/../b\n", "cgroup must be an absolute path without \"..\""),
	BAD("line without its path", START "cgroup=0::\n", "cgroup must be an absolute path without \"..\""),
	BAD("line without a hierarchy", START "cgroup=::/a\n", "cgroup must be an absolute path without \"..\""),
	BAD("path that ends above", START "cgroup=/a/..\n", "cgroup must be an absolute path without \"..\""),
	BAD("JSON with a word", H "list\njson=yes\n", "json must be 1"),
};

static void bad_messages(void)
{
	char why[ZN_TEXT_MAX];
	struct zn_message m;

	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		t_begin(bad[i].name);
		CHECK_EQ(read_text(&m, bad[i].text, bad[i].len, why), -EINVAL);
		CHECK_STR(why, bad[i].why);
	}
}

/* A message of exactly len bytes: values, then one that is as long as it takes. */
static void long_text(char *to, size_t len)
{
	static const char *const names[] = {"user", "account", "partition", "name", "nodelist", "cpus", "gpus",
		"cluster", "qos", "exit_code", "uid", "gid"};
	size_t at = (size_t)sprintf(to, START);

	for (size_t i = 0; i < ZN_LEN(names) && at < len; i++) {
		size_t value = len - at - strlen(names[i]) - 2;

		if (value > 256)
			value = len - at - 256 - strlen(names[i]) - 2 < 20 ? 200 : 256;
		at += (size_t)sprintf(to + at, "%s=%.*s\n", names[i], (int)value, A256);
	}
}

T(longest_message)
{
	char text[ZN_MESSAGE_BYTES + 1], why[ZN_TEXT_MAX];
	struct zn_message m;

	long_text(text, 2000);
	CHECK_EQ(strlen(text), 2000);
	CHECK_EQ(read_text(&m, text, 2000, why), 0);
	memset(text, '\n', sizeof(text));
	CHECK_EQ(read_text(&m, text, ZN_MESSAGE_BYTES, why), -EINVAL);
	CHECK_STR(why, HEAD_IS);
	CHECK_EQ(read_text(&m, text, ZN_MESSAGE_BYTES + 1, why), -EINVAL);
	CHECK_STR(why, "longer than 4096 bytes");
}

/* Whatever a prolog's environment holds, what can be said of it fits into one message. */
T(everything_fits)
{
	char text[ZN_MESSAGE_BYTES], why[ZN_TEXT_MAX], huge[3000];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_message m = {.verb = ZN_VERB_START}, again;

	memset(huge, '1', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	for (enum zn_key key = 0; key < ZN_KEY_COUNT; key++) {
		zn_message_set(&m, key, huge);
		CHECK_EQ(strlen(m.value[key]), 256);
		if (!zn_message_check(key, m.value[key], why))
			strncpy(m.value[key],
				key == ZN_KEY_CGROUP         ? "/" A64
					: key == ZN_KEY_BOOT ? BOOT
							     : "1",
				ZN_VALUE_BYTES);
	}
	CHECK(zn_message_write(&o, &m));
	CHECK_EQ(read_text(&again, text, o.len, why), 0);
	CHECK(!memcmp(&again, &m, sizeof(m)));
	o = (struct zn_out){.at = text, .cap = o.len - 1};
	CHECK(!zn_message_write(&o, &m));
}

/* A node was started at uptime 0, and its wall clock says whatever it says. */
static const struct {
	const char *name;
	uint64_t time_ms, uptime_ms; /* of the message */
	const char *boot;            /* NULL: it says neither this nor the uptime */
	bool of_now;                 /* it says no uptime */
	bool good;
	uint64_t ago_ms;
} ages[] = {
	{"earlier version: this boot", 1000000 - 4000, 0, NULL, false, true, 4000},
	{"earlier version: before it", 1000000 - 60000, 0, NULL, false, false, 60000},
	{"earlier version: from the future", 1000001, 0, NULL, false, true, 0},
	{"no time", 0, 0, NULL, false, true, 0},
	{"this boot", 1000000 - 4000, 60000 - 4000, BOOT, false, true, 4000},
	{"clocks that count in ms differ by one", 1000000 - 4001, 60000 - 4000, BOOT, false, true, 4001},
	{"and the other way", 1000000 - 3999, 60000 - 4000, BOOT, false, true, 3999},
	{"the clock was set by a tenth of a second", 1000000 - 4100, 60000 - 4000, BOOT, false, true, 4000},
	{"the clock was set forward by years", 1, 60000 - 4000, BOOT, false, true, 4000},
	{"the clock was set back by years", 900000000, 60000 - 4000, BOOT, false, true, 4000},
	{"uptime of the future", 1000000, 60001, BOOT, false, true, 0},
	{"another boot of the same time", 1000000, 60000, OTHER, false, false, 0},
	{"now, with no uptime", 1000000 - 7, 0, BOOT, true, true, 7},
	{"now, and the clock is set meanwhile", 1, 0, BOOT, true, true, 0},
};

static void how_long_ago_it_was_said(void)
{
	const struct zn_moment now = {1000000, 60000, BOOT}, unknown = {1000000, 60000, ""};

	for (size_t i = 0; i < ZN_LEN(ages); i++) {
		struct zn_moment then = {ages[i].time_ms, ages[i].uptime_ms, ""};
		struct zn_message m = {.verb = ZN_VERB_END};
		uint64_t ago_ms;

		t_begin(ages[i].name);
		snprintf(then.boot, sizeof(then.boot), "%s", ages[i].boot ? ages[i].boot : "");
		zn_message_date(&m, &then);
		CHECK_EQ(!m.value[ZN_KEY_BOOT][0], !ages[i].boot);
		if (ages[i].of_now)
			m.value[ZN_KEY_UPTIME][0] = '\0';
		CHECK_EQ(zn_message_ago(&m, &now, &ago_ms), ages[i].good);
		CHECK(!ages[i].good || ago_ms == ages[i].ago_ms);
		m.value[ZN_KEY_BOOT][0] = '\0'; /* as if nobody could tell the boot: the wall clock decides */
		CHECK_EQ(zn_message_ago(&m, &unknown, &ago_ms), !ages[i].time_ms || ages[i].time_ms > 940000);
	}
}

T(set_makes_bytes_printable)
{
	struct zn_message m = {.verb = ZN_VERB_START};

	zn_message_set(&m, ZN_KEY_NAME, "a\nb\x01\x7f\xc3\xa9 \"~");
	CHECK_STR(m.value[ZN_KEY_NAME], "a?b???? \"~");
	zn_message_set(&m, ZN_KEY_NAME, "");
	CHECK_STR(m.value[ZN_KEY_NAME], "");
}

T(keys_have_names)
{
	for (enum zn_key key = 0; key < ZN_KEY_COUNT; key++)
		CHECK_EQ(zn_message_key((struct zn_str){zn_key_name(key), strlen(zn_key_name(key))}), key);
	CHECK_EQ(zn_message_key((struct zn_str){"", 0}), -EINVAL);
	CHECK_EQ(zn_message_key((struct zn_str){"idx", 3}), -EINVAL);
	CHECK_STR(zn_key_variable(ZN_KEY_ID), "SLURM_JOB_ID");
	CHECK(!zn_key_variable(ZN_KEY_PID));
	CHECK_STR(zn_verb_name(ZN_VERB_REPORT), "report");
}

T(files)
{
	char path[ZN_TEXT_MAX], name[ZN_NAME_BYTES], far[2 * ZN_TEXT_MAX];

	CHECK(zn_message_folder(path, ZN_CONTROL_PATH));
	CHECK_STR(path, "/run/zernel/jobs.d");
	CHECK(!zn_message_folder(path, ""));
	CHECK_STR(path, "");
	memset(far, '/', sizeof(far) - 1);
	far[sizeof(far) - 1] = '\0';
	CHECK(!zn_message_folder(path, far));
	CHECK_STR(path, "");
	zn_job_file(name, "", "4711", 0, ".json");
	CHECK_STR(name, "4711.json");
	zn_job_file(name, ZN_SPOOL_RECORD, "a.b_c-d.e_f-g.h", 4294967293, ".json");
	CHECK_STR(name, "job-a.b_c-d.e_f-g.h_4294967293.json");
}

int main(void)
{
	good_messages();
	bad_messages();
	RUN(longest_message);
	RUN(everything_fits);
	how_long_ago_it_was_said();
	RUN(set_makes_bytes_printable);
	RUN(keys_have_names);
	RUN(files);
	return t_end();
}
