/* SPDX-License-Identifier: GPL-2.0 */
/*
 * alerts.c: `zernel alerts`: checks a file of rules, and tries rules on pages of metrics that were saved from /metrics,
 * or are asked of a daemon, as that would: page by page, a time apart. What a page holds is anybody's text.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "zernel.h"

#define USAGE                                                                                                          \
	"usage: zernel alerts check FILE\n"                                                                            \
	"       zernel alerts test FILE PAGE [PAGE]... [--every SECONDS] [--overhead-budget SHARE]"                    \
	" [--token-file FILE]\n"                                                                                       \
	"         a PAGE is a file, or a daemon: http://ADDRESS[:PORT] or unix:PATH\n"                                 \
	"       zernel alerts defaults\n"
#define PAGE_BYTES  ZN_BUFFER_BYTES
#define EVERY_S     15
#define FIRST_NS    (3600 * ZN_NS_PER_S) /* any time from which one can look back */
#define EXIT_USAGE  2
#define LABEL_BYTES 4096 /* of one line, unescaped */
#define METRICS     "/metrics"
#define UNIX        "unix:"

static int fail_usage(const char *what, const char *argument)
{
	fprintf(stderr, "zernel: alerts: %s%.64s\n" USAGE, what, argument);
	return EXIT_USAGE;
}

/* ---- A page, Prometheus text 0.0.4 or OpenMetrics, line by line. ---- */

struct page {
	const char *at, *end;
};

struct line {
	struct zn_str name, value;
	struct zn_label label[ZN_LABELS_MAX];
	uint32_t label_count;
	struct zn_str quantile;
	char text[LABEL_BYTES]; /* of the labels' values */
	size_t text_len;
};

/* A value between quotes, its escapes taken out; from behind the first quote. NULL: it does not end, or is too long. */
static const char *unescape_value(struct line *l, const char *at, const char *end, struct zn_str *to)
{
	to->at = l->text + l->text_len;
	for (; at < end && *at != '"'; at++) {
		bool escaped = *at == '\\';

		at += escaped;
		if (at == end || l->text_len == sizeof(l->text))
			return NULL;
		l->text[l->text_len++] = escaped && *at == 'n' ? '\n' : *at;
	}
	to->len = (size_t)(l->text + l->text_len - to->at);
	return at < end ? at + 1 : NULL;
}

/* A name is shown as it is. */
static bool is_label_name(struct zn_str name)
{
	for (size_t i = 0; i < name.len; i++)
		if (!isalnum((unsigned char)name.at[i]) && name.at[i] != '_')
			return false;
	return name.len > 0;
}

/* Labels from behind the bracket to behind the other one. NULL: they are not well-formed. */
static const char *read_labels(struct line *l, const char *at, const char *end)
{
	while (at && at < end && *at != '}') {
		const char *equals = memchr(at, '=', (size_t)(end - at));
		struct zn_label label = {.name = {at, equals ? (size_t)(equals - at) : 0}};

		if (!equals || equals + 1 == end || equals[1] != '"' || !is_label_name(label.name))
			return NULL;
		at = unescape_value(l, equals + 2, end, &label.value);
		if (label.name.len == 8 && !memcmp(label.name.at, "quantile", 8))
			l->quantile = label.value;
		else if (l->label_count < ZN_LABELS_MAX)
			l->label[l->label_count++] = label;
		else
			return NULL;
		if (at && at < end && *at == ',')
			at++;
	}
	return at && at < end ? at + 1 : NULL;
}

/* Reads one sample; false: this line has none. */
static bool read_line(struct line *l, const char *at, const char *end)
{
	const char *name = at;

	l->label_count = 0;
	l->text_len = 0;
	l->quantile = (struct zn_str){0};
	while (at < end && *at != '{' && *at != ' ' && *at != '#')
		at++;
	l->name = (struct zn_str){name, (size_t)(at - name)};
	if (at < end && *at == '{')
		at = read_labels(l, at + 1, end);
	if (!at || at == end || *at != ' ' || !l->name.len)
		return false;
	name = ++at;
	while (at < end && *at != ' ' && *at != '\r')
		at++;
	l->value = (struct zn_str){name, (size_t)(at - name)};
	return l->value.len > 0;
}

static double read_number(struct zn_str text)
{
	char copy[64], *end;
	double v;

	snprintf(copy, sizeof(copy), "%.*s", text.len < sizeof(copy) ? (int)text.len : 0, text.at);
	v = strtod(copy, &end);
	return *copy && !*end ? v : NAN;
}

static bool is_wanted(const struct line *l, const struct zn_rule_wanted *w)
{
	static const char *const suffixes[] = {
		[ZN_PART_VALUE] = "", [ZN_PART_SUM] = "_sum", [ZN_PART_COUNT] = "_count"};
	size_t len = strlen(w->metric), more = strlen(suffixes[w->part]);

	if (l->name.len != len + more || memcmp(l->name.at, w->metric, len) ||
		memcmp(l->name.at + len, suffixes[w->part], more))
		return false;
	return w->q ? l->quantile.len && lround(read_number(l->quantile) * 1000) == w->q : !l->quantile.len;
}

/* A page does not say when its counters began: those that an earlier page had not began after that, at 0. */
static void walk_page(
	void *from, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	static struct line l;
	const struct page *page = from;

	for (const char *at = page->at, *end; at < page->end; at = end + 1) {
		struct zn_sample s = {.metric = wanted->metric, .since_ms = 1, .hides_0 = true};

		end = memchr(at, '\n', (size_t)(page->end - at));
		end = end ? end : page->end;
		if (!read_line(&l, at, end) || !is_wanted(&l, wanted))
			continue;
		memcpy(s.label, l.label, sizeof(s.label));
		s.label_count = l.label_count;
		s.value = read_number(l.value);
		sample(to, &s);
	}
}

static bool complain_of(const char *page, const char *why)
{
	fprintf(stderr, "zernel: alerts: %s: %s\n", page, why);
	return false;
}

/* Reads a whole file; false after a line that says what is wrong. */
static bool read_page(const char *path, char *to, struct page *p)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : 1;
	size_t len = 0;

	while (got > 0 && len < PAGE_BYTES) {
		got = read(fd, to + len, PAGE_BYTES - len);
		len += got > 0 ? (size_t)got : 0;
	}
	*p = (struct page){to, to + len};
	if (got < 0)
		complain_of(path, strerror(errno));
	else if (len == PAGE_BYTES)
		complain_of(path, "16 MiB or more are too much for a page");
	if (fd >= 0)
		close(fd);
	return got >= 0 && len < PAGE_BYTES;
}

static bool is_url(const char *page)
{
	return !strncmp(page, UNIX, strlen(UNIX)) || strstr(page, "://");
}

/* The same of a daemon; buffer: ZN_CLIENT_BUFFER bytes. */
static bool fetch_page(const char *url, const char *token_file, char *buffer, struct page *p)
{
	static struct zn_client c;
	char address[ZN_TEXT_MAX];
	struct zn_client_args args = {
		.verb = "alerts", .usage = "see zernel alerts --help", .url = address, .token_file = token_file};
	size_t len = (size_t)snprintf(address, sizeof(address), "%s", url), tail = strlen(METRICS);

	if (*url != *UNIX && len > tail && len < sizeof(address) && !strcmp(address + len - tail, METRICS))
		address[len - tail] = '\0';
	if (zn_client_open(&c, &args, METRICS, buffer))
		return false;
	c.text = true;
	if (zn_client_get(&c))
		return complain_of(url, c.why);
	if (c.fd >= 0)
		close(c.fd);
	*p = (struct page){c.answer.at, c.answer.at + c.answer.len};
	return true;
}

static bool is_page(const char *name, const struct page *p)
{
	return memmem(p->at, (size_t)(p->end - p->at), "zernel_build_info", 17) ||
		complain_of(name, "no /metrics of zerneld: zernel_build_info is not there");
}

/* ---- Trying. ---- */

static struct zn_alerts alerts;

struct shown {
	uint32_t instances;
	bool any; /* is pending or firing */
};

/* The alert of the instance, or the one that stands for all instances of the rule without a place of their own. */
static const struct zn_alert *alert_of(const struct zn_rule *rule, const struct zn_instance *of)
{
	const struct zn_alert *summed = NULL;

	for (uint32_t i = 0; i < alerts.count; i++) {
		const struct zn_alert *alert = &alerts.alert[i];

		if (alert->rule != rule)
			continue;
		if (alert->summed)
			summed = alert;
		else if (alert->key == of->key)
			return alert;
	}
	return of->truth == ZN_YES ? summed : NULL;
}

static const struct zn_rule *shown_rule;

static void show_instance(void *to, const struct zn_instance *i)
{
	const struct zn_alert *alert = alert_of(shown_rule, i);
	struct shown *s = to;
	char value[32];
	struct zn_out o = {.at = value, .cap = sizeof(value) - 1};

	s->instances++;
	s->any |= alert != NULL;
	zn_out_double(&o, i->value);
	value[o.len] = '\0';
	printf("  %-8s %-12s ", zn_alert_state_label(alert ? alert->state : ZN_INACTIVE), value);
	for (uint32_t l = 0; l < i->label_count; l++) {
		const struct zn_label *label = &i->label[l].label;

		printf("%s%.*s=\"", l ? "," : "{", (int)label->name.len, label->name.at);
		for (size_t c = 0; c < label->value.len; c++)
			printf(label->value.at[c] >= ' ' && label->value.at[c] < 127 && label->value.at[c] != '"'
					? "%c"
					: "\\x%02x",
				(unsigned char)label->value.at[c]);
		printf("\"");
	}
	printf("%s%s\n", i->label_count ? "}" : "", i->truth == ZN_UNKNOWN_TRUTH ? " (not measured)" : "");
}

/* Each rule with its instances, as of the last page. 1: something is pending or firing. */
static int show_all(void)
{
	struct shown all = {0};

	for (uint32_t i = 0; i < alerts.rules->rule_count; i++) {
		struct shown s = {0};

		shown_rule = &alerts.rules->rule[i];
		printf("%s (%s)\n", shown_rule->name, zn_alert_state_label(zn_alerts_rule_state(&alerts, shown_rule)));
		zn_rule_run(&alerts.work, shown_rule, show_instance, &s);
		if (!s.instances)
			printf("  no instance: no such series on the page, or too little is known of its past\n");
		all.any |= s.any;
	}
	return all.any;
}

static int rules_open(const char *file, const char *budget)
{
	static struct zn_options options;
	char why[ZN_TEXT_MAX];
	char *end = "%";
	double share = budget ? strtod(budget, &end) : 1;

	if (strcmp(end, "%") || !(share > 0 && share <= 100))
		return fail_usage("not a share of a core, as in 1%: ", budget);
	if (strlen(file) >= sizeof(options.alerts))
		return fail_usage("a path that is too long: ", file);
	options.overhead_budget = (uint64_t)lround(share * 1e4);
	strcpy(options.alerts, file);
	if (!zn_alerts_open(&alerts, &options, zn_metrics_type, why))
		return 0;
	fprintf(stderr, "%s\n", why);
	return EXIT_USAGE;
}

static int check_rules(int argc, char **argv)
{
	int err;

	if (argc != 1)
		return fail_usage("check takes one file", "");
	err = rules_open(argv[0], NULL);
	if (!err)
		printf("%s: %u rules are in use with this file\n", argv[0], alerts.rules->rule_count);
	return err;
}

struct trial {
	char **page;
	int count;
	double every_s;
	const char *token_file;
};

static void wait_until(uint64_t then_ns)
{
	struct timespec t = {(time_t)(then_ns / ZN_NS_PER_S), (long)(then_ns % ZN_NS_PER_S)};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* A page after the other, as if that much time had passed; between two of daemons it does. */
static int run_pages(const struct trial *t)
{
	static char buffer[ZN_CLIENT_BUFFER];
	uint64_t every_ns = (uint64_t)(t->every_s * 1e9), asked_ns = 0;
	struct page p;

	alerts.work.source = (struct zn_rule_source){walk_page, &p};
	zn_log_level = ZN_ERROR; /* what changes from page to page is not what was asked for */
	for (int i = 0; i < t->count; i++) {
		char *page = t->page[i];
		bool url = is_url(page);

		if (url && asked_ns)
			wait_until(asked_ns + every_ns);
		asked_ns = url ? zn_now_ns() : 0;
		if (!(url ? fetch_page(page, t->token_file, buffer, &p) : read_page(page, buffer, &p)) ||
			!is_page(page, &p))
			return EXIT_USAGE;
		zn_alerts_tick(&alerts, FIRST_NS + (uint64_t)i * every_ns);
	}
	return show_all();
}

static int test_rules(int argc, char **argv)
{
	const char *value[3] = {0};
	static const char *const option[] = {"--every", "--overhead-budget", "--token-file"};
	struct trial t = {.page = argv + 1, .count = -1, .every_s = EVERY_S};
	char *end = "";

	for (int i = 0; i < argc; i++) {
		size_t o = 0;

		while (o < ZN_LEN(option) && strcmp(argv[i], option[o]))
			o++;
		if (o < ZN_LEN(option) && i + 1 == argc)
			return fail_usage("no value for ", argv[i]);
		if (o < ZN_LEN(option))
			value[o] = argv[++i];
		else if (argv[i][0] == '-')
			return fail_usage("no option ", argv[i]);
		else
			argv[++t.count] = argv[i];
	}
	if (value[0])
		t.every_s = strtod(value[0], &end);
	if ((*end && strcmp(end, "s")) || !(t.every_s >= 0.1 && t.every_s <= 86400))
		return fail_usage("--every needs 0.1 to 86400 seconds, not ", value[0]);
	if (t.count < 1)
		return fail_usage("test takes a file of rules and one or more pages, saved or of a daemon", "");
	t.token_file = value[2];
	return rules_open(argv[0], value[1]) ?: run_pages(&t);
}

int zn_alertctl_main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--help"))
		return fputs(USAGE, stdout) < 0;
	if (argc == 2 && !strcmp(argv[1], "defaults"))
		return fputs(zn_alerts_defaults, stdout) < 0;
	if (argc > 1 && !strcmp(argv[1], "check"))
		return check_rules(argc - 2, argv + 2);
	if (argc > 1 && !strcmp(argv[1], "test"))
		return test_rules(argc - 2, argv + 2);
	return fail_usage(argc > 1 ? "no command " : "check, test or defaults", argc > 1 ? argv[1] : "");
}
