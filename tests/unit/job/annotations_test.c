/* SPDX-License-Identifier: GPL-2.0 */
/* annotations_test.c: labels, what is refused of them byte by byte, and what is kept of their changes. */
#include "zernel.h"
#include "t.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static struct zn_annotations all;
static const struct zn_job_ref job = {3, 7};
static char why[ZN_TEXT_MAX];
static uint64_t now_ns;

static void begin(void)
{
	memset(&all, 0, sizeof(all));
	now_ns = 0;
}

/* A second after what was said before, from a block of exactly its size. */
static int say_to(struct zn_job_ref tag, uint32_t owner, const char *labels)
{
	struct zn_annotation by = {.pid = 100 + owner, .owner = owner, .at_ns = now_ns += ZN_NS_PER_S};
	char *block = strdup(labels);
	int err;

	by.at_wall_ms = now_ns / ZN_NS_PER_MS;
	why[0] = '\0';
	err = zn_annotations_say(&all, tag, &by, block, why);
	free(block);
	return err;
}

static int say(const char *labels)
{
	return say_to(job, 1000, labels);
}

/* "a=1 b=2": the labels of a job. */
static const char *labels_of(struct zn_job_ref tag)
{
	const struct zn_annotation_group *g = zn_annotations_of(&all, tag);
	static char text[1024];

	text[0] = '\0';
	for (uint32_t i = 0; g && i < g->labels; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s=%s", i ? " " : "", g->label[i].key,
			g->label[i].value);
	return text;
}

static uint32_t changes_of(const char *key, uint32_t owner)
{
	const struct zn_annotation_group *g = zn_annotations_of(&all, job);
	uint32_t n = 0;

	for (uint32_t i = 0; g && i < g->changes; i++)
		n += g->change[i].owner == owner && !strcmp(g->change[i].key, key);
	return n;
}

T(labels_come_change_and_go)
{
	begin();
	CHECK(!zn_annotations_of(&all, job) && !zn_annotations_of(NULL, job));
	CHECK_EQ(say("step=1,phase=train"), 0);
	CHECK_STR(labels_of(job), "step=1 phase=train");
	CHECK_EQ(say("step=2"), 0);
	CHECK_EQ(say("note=a=b c"), 0);
	CHECK_STR(labels_of(job), "step=2 phase=train note=a=b c");
	CHECK_EQ(say("phase="), 0);
	CHECK_STR(labels_of(job), "step=2 note=a=b c");
	CHECK_EQ(changes_of("phase", 1000), 2);
	CHECK_EQ(say("phase="), 0);
	CHECK_EQ(changes_of("phase", 1000), 2);
}

T(said_again_is_no_change)
{
	const struct zn_annotation_group *g;

	begin();
	for (int i = 0; i < 5; i++)
		CHECK_EQ(say("epoch=3"), 0);
	g = zn_annotations_of(&all, job);
	CHECK_EQ(g->changes, 1);
	CHECK_EQ(g->change[0].at_wall_ms, 1000);
	CHECK_EQ(g->label[0].at_wall_ms, 5000);
	CHECK_EQ(g->label[0].pid, 1100);
}

static const struct {
	const char *name, *labels, *why;
} bad[] = {
	{"no sign", "step", "a label is KEY=VALUE, not: \"step\""},
	{"no pair between commas", "a=1,,b=2", "a label is KEY=VALUE, not: \"\""},
	{"no key", "=1", "the key of a label is 1 to 31 of A-Z a-z 0-9 _ . -, not: \"\""},
	{"blank in a key", "a b=1", "the key of a label is 1 to 31 of A-Z a-z 0-9 _ . -, not: \"a b\""},
	{"long key", "a123456789012345678901234567890x=1",
		"the key of a label is 1 to 31 of A-Z a-z 0-9 _ . -, not: \"a123456789012345678901234567890x\""},
	{"long value", "a=1234567890123456789012345678901234567890123456789012345678901234",
		"the value of a label is longer than 63 bytes: \"a\""},
	{"twice", "a=1,b=2,a=3", "a label is there twice: \"a=3\""},
	{"nine", "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1,i=1", "more than 8 labels at a time, from here on: \"i=1\""},
	{"a bad one behind a good one", "a=1,b", "a label is KEY=VALUE, not: \"b\""},
};

static void refused(void)
{
	for (size_t i = 0; i < ZN_LEN(bad); i++) {
		t_begin(bad[i].name);
		begin();
		CHECK_EQ(say(bad[i].labels), -EINVAL);
		CHECK_STR(why, bad[i].why);
		CHECK(!zn_annotations_of(&all, job)); /* nothing of it was taken */
	}
}

T(every_byte_of_a_key)
{
	for (int byte = 1; byte < 256; byte++) {
		char text[] = {'a', (char)byte, '=', '1', 0};
		bool good = (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
			(byte >= 'a' && byte <= 'z') || strchr("_.-", byte) || byte == '=';

		begin();
		CHECK_EQ(say(text), good ? 0 : -EINVAL);
	}
}

T(longest_key_and_value)
{
	begin();
	CHECK_EQ(say("a123456789012345678901234567890=123456789012345678901234567890123456789012345678901234567890123"),
		0);
	CHECK_EQ(strlen(zn_annotations_of(&all, job)->label[0].key), ZN_ANNOTATION_KEY - 1);
	CHECK_EQ(strlen(zn_annotations_of(&all, job)->label[0].value), ZN_ANNOTATION_VALUE - 1);
}

T(a_ninth_label_of_one_owner_is_refused)
{
	begin();
	CHECK_EQ(say("a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1"), 0);
	CHECK_EQ(say("a=2,i=1"), -ENOSPC);
	CHECK_STR(why, "8 labels at most, and there are 8; KEY= takes one away");
	CHECK_STR(labels_of(job), "a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1");
	CHECK_EQ(say("i=1,b=2,a="), 0);
	CHECK_STR(labels_of(job), "b=2 c=1 d=1 e=1 f=1 g=1 h=1 i=1");
}

T(who_holds_most_labels_makes_room)
{
	begin();
	CHECK_EQ(say_to((struct zn_job_ref){0}, 1, "a=1,b=1,c=1,d=1,e=1,f=1,g=1,h=1"), 0);
	CHECK_EQ(say_to((struct zn_job_ref){0}, 2, "x=1,y=1,z=1,w=1"), 0);
	CHECK_STR(labels_of((struct zn_job_ref){0}), "e=1 f=1 g=1 h=1 x=1 y=1 z=1 w=1");
	CHECK_EQ(say_to((struct zn_job_ref){0}, 2, "v=1"), -ENOSPC);
	CHECK_EQ(say_to((struct zn_job_ref){0}, 1, "a=1"), -ENOSPC);
	CHECK_EQ(say_to((struct zn_job_ref){0}, 3, "e=2,v=1"),
		0); /* the label that goes is one of those that are said */
	CHECK_STR(labels_of((struct zn_job_ref){0}), "f=1 g=1 h=1 y=1 z=1 w=1 e=2 v=1");
}

T(of_no_job_each_owner_has_labels_of_his_own)
{
	const struct zn_job_ref none = {0};

	begin();
	CHECK_EQ(say_to(none, 1, "step=5"), 0);
	CHECK_EQ(say_to(none, 2, "step=7"), 0);
	CHECK_STR(labels_of(none), "step=5 step=7");
	CHECK_EQ(say_to(none, 2, "step="), 0);
	CHECK_STR(labels_of(none), "step=5");
	CHECK_EQ(say_to(none, 2, "step="), 0);
	CHECK_STR(labels_of(none), "step=5");
	CHECK_EQ(say_to(job, 1, "step=5"), 0);
	CHECK_EQ(say_to(job, 0, "step=6"), 0); /* root says it of the same job */
	CHECK_STR(labels_of(job), "step=6");
}

T(a_label_that_changes_at_each_step_leaves_room_for_the_others)
{
	const struct zn_annotation_group *g;
	uint64_t widest_ns = 0, before_ns = 0;
	char text[64];

	begin();
	CHECK_EQ(say("phase=train"), 0);
	for (int step = 1; step <= 10000; step++) {
		snprintf(text, sizeof(text), "step=%d", step);
		CHECK_EQ(say(text), 0);
		if (step == 5000)
			CHECK_EQ(say("phase=evaluation"), 0);
	}
	g = zn_annotations_of(&all, job);
	CHECK_EQ(g->changes, ZN_ANNOTATION_CHANGES);
	CHECK_EQ(changes_of("phase", 1000), 2);
	CHECK_EQ(g->left_out, 10002 - ZN_ANNOTATION_CHANGES);
	CHECK_STR(g->change[1].value, "1");
	CHECK_STR(g->change[ZN_ANNOTATION_CHANGES - 1].value, "10000");
	for (uint32_t i = 0; i < g->changes; i++) {
		CHECK(g->change[i].at_ns > before_ns);
		if (g->change[i].at_ns - before_ns > widest_ns)
			widest_ns = g->change[i].at_ns - before_ns;
		before_ns = g->change[i].at_ns;
	}
	CHECK(widest_ns <= 10000 * ZN_NS_PER_S / 16); /* they stand all over the job, not at its end */
}

T(one_owner_does_not_push_out_the_others)
{
	char text[64];

	begin();
	CHECK_EQ(say_to(job, 1, "phase=train"), 0);
	CHECK_EQ(say_to(job, 1, "phase=evaluation"), 0);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "k%d=%d", i % 4, i);
		CHECK_EQ(say_to(job, 2, text), 0);
	}
	CHECK_EQ(changes_of("phase", 1), 2);
	CHECK_EQ(changes_of("k0", 2) + changes_of("k1", 2) + changes_of("k2", 2) + changes_of("k3", 2),
		ZN_ANNOTATION_CHANGES - 2);
}

T(more_keys_than_room_for_changes)
{
	char text[64];

	begin();
	for (int i = 0; i < 500; i++) {
		snprintf(text, sizeof(text), "key%d=1", i);
		CHECK_EQ(say(text), 0);
		snprintf(text, sizeof(text), "key%d=", i);
		CHECK_EQ(say(text), 0);
	}
	CHECK_EQ(zn_annotations_of(&all, job)->changes, ZN_ANNOTATION_CHANGES);
	CHECK_EQ(zn_annotations_of(&all, job)->labels, 0);
}

T(a_slot_that_another_job_has_says_nothing_of_the_one_before)
{
	begin();
	CHECK_EQ(say("a=1"), 0);
	CHECK(!zn_annotations_of(&all, (struct zn_job_ref){3, 8}));
	CHECK(!zn_annotations_of(&all, (struct zn_job_ref){4, 7}));
	CHECK(!zn_annotations_of(&all, (struct zn_job_ref){0}));
	CHECK_EQ(say_to((struct zn_job_ref){3, 8}, 1000, "b=1"), 0);
	CHECK_STR(labels_of((struct zn_job_ref){3, 8}), "b=1");
	CHECK_STR(labels_of(job), "");
}

T(labels_of_no_job_end_with_their_process)
{
	struct zn_procfs_stat stat;
	struct zn_annotation by = {.pid = (uint32_t)getpid(), .owner = 1};

	begin();
	CHECK(zn_procfs_stat("/proc", by.pid, &stat) && stat.parent == (uint32_t)getppid());
	by.start_ticks = stat.start_ticks;
	CHECK_EQ(zn_annotations_say(&all, (struct zn_job_ref){0}, &by, "mine=1", why), 0);
	by.start_ticks++; /* the process had this number before us */
	CHECK_EQ(zn_annotations_say(&all, (struct zn_job_ref){0}, &by, "before=1", why), 0);
	by.pid = 0;
	CHECK_EQ(zn_annotations_say(&all, (struct zn_job_ref){0}, &by, "nobody=1", why), 0);
	CHECK_EQ(zn_annotations_say(&all, job, &by, "job=1", why), 0);
	zn_annotations_tick(&all);
	CHECK_STR(labels_of((struct zn_job_ref){0}), "mine=1");
	CHECK_STR(labels_of(job), "job=1");
}

int main(void)
{
	RUN(labels_come_change_and_go);
	RUN(said_again_is_no_change);
	refused();
	RUN(every_byte_of_a_key);
	RUN(longest_key_and_value);
	RUN(a_ninth_label_of_one_owner_is_refused);
	RUN(who_holds_most_labels_makes_room);
	RUN(of_no_job_each_owner_has_labels_of_his_own);
	RUN(a_label_that_changes_at_each_step_leaves_room_for_the_others);
	RUN(one_owner_does_not_push_out_the_others);
	RUN(more_keys_than_room_for_changes);
	RUN(a_slot_that_another_job_has_says_nothing_of_the_one_before);
	RUN(labels_of_no_job_end_with_their_process);
	return t_end();
}
