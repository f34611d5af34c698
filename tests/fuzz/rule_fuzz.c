/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rule_fuzz.c: any bytes as a file of rules: they are refused with a line that says where, or can be run over some
 * samples, more than once, without a byte read behind the text. With a "\n%\n" in them, what follows is a page for
 * `zernel alerts test`.
 */
#define ZN_IN_alert /* what zernel.h keeps for the files of src/alert */
#define ZN_IN_cli   /* and of src/cli, whose alerts.c is part of this */
#include <stdlib.h>

#include "src/cli/alerts.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int zn_metrics_type(const char *metric)
{
	size_t n = strlen(metric);

	return n == 1 && strchr("cgis", *metric) ? (int)(strchr("cgis", *metric) - "cgis") : -1;
}

static void check_that(bool ok)
{
	if (!ok)
		abort();
}

static void count(void *to, const struct zn_instance *i)
{
	char text[64];
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	(*(uint32_t *)to)++;
	zn_out_double(&o, i->value);
	check_that(
		!o.full && i->truth <= ZN_YES && !(i->clear && i->truth == ZN_YES) && i->label_count <= ZN_LABELS_MAX);
}

static struct zn_str no_label(const void *of, struct zn_str name)
{
	(void)of, (void)name;
	return (struct zn_str){"", 0};
}

static void run(const struct zn_rules *rules, struct page *p)
{
	static struct zn_rule_work work;
	char text[256];

	work.past_count = 0;
	memset(work.past_slot, 0, sizeof(work.past_slot));
	work.source = (struct zn_rule_source){walk_page, p};
	work.rules = rules;
	for (uint64_t s = 1; s <= 3; s++) {
		uint32_t instances = 0;

		work.now_ns = 1000 * s * ZN_NS_PER_S;
		work.wall_ms = 1000 * s;
		for (uint32_t i = 0; i < rules->rule_count; i++)
			zn_rule_run(&work, &rules->rule[i], count, &instances);
		zn_rule_sweep(&work);
		check_that(work.past_count <= ZN_PASTS_MAX);
	}
	for (uint32_t i = 0; i < rules->rule_count; i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};

		zn_fill_text(&o, rules->rule[i].summary, 1e30, no_label, NULL);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct zn_rule_names names = {zn_metrics_type, 0.01};
	static const char otherwise[] =
		"c{a=\"1\"} 5\nc{a=\"2\"} 6\ng{a=\"1\"} 7\ni 1\ns{a=\"1\",quantile=\"0.5\"} 3\ns_sum 4\n";
	static struct zn_rules rules;
	const uint8_t *page = memmem(data, len, "\n%\n", 3);
	size_t rules_len = page ? (size_t)(page - data) : len;
	struct page p = {otherwise, otherwise + sizeof(otherwise) - 1};
	char why[ZN_TEXT_MAX], *text = malloc(rules_len ? rules_len : 1), *samples = NULL;

	memcpy(text, data, rules_len);
	if (page) {
		size_t page_len = len - rules_len - 3;

		samples = malloc(page_len ? page_len : 1);
		memcpy(samples, page + 3, page_len);
		p = (struct page){samples, samples + page_len};
	}
	rules.rule_count = rules.selector_count = rules.word_count = 0;
	if (zn_rules_parse(&rules, "f", (struct zn_str){text, rules_len}, &names, why) == 0)
		run(&rules, &p);
	else
		check_that(!strncmp(why, "f:", 2) && strlen(why) < ZN_TEXT_MAX);
	free(text);
	free(samples);
	return 0;
}
