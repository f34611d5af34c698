/* SPDX-License-Identifier: GPL-2.0 */
/*
 * message_fuzz.c: any bytes as a message. What is taken holds only values that may be said, and reads the same once it
 * is written; what is refused is refused with one printable line. Its labels are said of a job: what is kept of them is
 * text.
 */
#include <stdlib.h>

#include "json.c"
#include "src/job/message.c"

static bool is_printable_text(const char *text)
{
	return is_printable((struct zn_str){text, strlen(text)});
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check(bool ok)
{
	if (!ok)
		abort();
}

static void check_why(const char why[ZN_TEXT_MAX])
{
	size_t len = strnlen(why, ZN_TEXT_MAX);

	check(len > 0 && len < ZN_TEXT_MAX);
	check(is_printable((struct zn_str){why, len}));
}

static void check_labels(const char *labels)
{
	static struct zn_annotations all;
	static uint64_t now_ns;
	const struct zn_annotation by = {.owner = now_ns % 3, .at_ns = now_ns};
	const struct zn_annotation_group *g = &all.group[1];
	char why[ZN_TEXT_MAX];

	now_ns++;
	if (zn_annotations_say(&all, (struct zn_job_ref){1, 1}, &by, labels, why))
		check_why(why);
	check(g->labels <= ZN_ANNOTATION_LABELS && g->changes <= ZN_ANNOTATION_CHANGES);
	for (uint32_t i = 0; i < g->labels; i++)
		check(g->label[i].key[0] && g->label[i].value[0] && is_printable_text(g->label[i].value));
	for (uint32_t i = 0; i < g->changes; i++)
		check(g->change[i].key[0] && strspn(g->change[i].key, "=,") == 0);
}

static void check_taken(const struct zn_message *m)
{
	char text[ZN_MESSAGE_BYTES], why[ZN_TEXT_MAX], name[ZN_NAME_BYTES];
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_message again;

	check(m->verb >= ZN_VERB_START && m->verb <= ZN_VERB_LAST);
	for (enum zn_key key = 0; key < ZN_KEY_COUNT; key++)
		check(!m->value[key][0] || zn_message_check(key, m->value[key], why));
	check(zn_message_write(&o, m));
	check(!zn_message_read(&again, text, o.len, why) && !memcmp(&again, m, sizeof(again)));
	check_labels(m->value[ZN_KEY_LABELS]);
	zn_job_file(name, ZN_SPOOL_RECORD, m->value[ZN_KEY_ID], UINT32_MAX, ".json");
	check(!strchr(name, '/') && strlen(name) < ZN_NAME_BYTES - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *block = malloc(len ? len : 1), why[ZN_TEXT_MAX];
	struct zn_message m, lenient;

	memcpy(block, data, len);
	memset(why, 0xaa, sizeof(why));
	if (zn_message_read_file(&m, block, len, why))
		check_why(why);
	else
		check_taken(&m);
	lenient = m;
	if (zn_message_read(&m, block, len, why))
		check_why(why);
	else
		check(!memcmp(&m, &lenient, sizeof(m)));
	free(block);
	return 0;
}
