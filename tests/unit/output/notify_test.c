/* SPDX-License-Identifier: GPL-2.0 */
/* notify_test.c: what receivers are told as alerts come and go, with a sender that takes deliveries or does not. */
#include "zernel.h"
#include "t.h"

static struct zn_options options = {.notify_repeat_ms = 60000, .simulate = true};
static struct zn_rules rules = {.rule_count = 2, .rule = {{.for_ms = 600000}, {.for_ms = 30000}}};
static struct zn_alerts alerts = {.rules = &rules};
static struct zn_state view = {.options = &options, .alerts = &alerts, .node = "node7"};
static struct zn_sender sender;
static struct zn_notify n;
static uint64_t now_ns;
static bool takes;
static char text[ZN_TO_COUNT][ZN_DELIVERY_BYTES + 1];
static unsigned deliveries[ZN_TO_COUNT];

/* alert.c is here for the labels of an alert alone. */
void zn_log(enum zn_level level, const char *format, ...)
{
	(void)level, (void)format;
}

void zn_log_about(enum zn_level level, uint64_t subject, const char *format, ...)
{
	(void)level, (void)subject, (void)format;
}

uint64_t zn_log_lost(void)
{
	return 0;
}

uint64_t zn_now_ns(void)
{
	return now_ns;
}

uint64_t zn_wall_ms(void)
{
	return zn_state_wall_ms(&view, now_ns);
}

uint64_t zn_sender_send(struct zn_sender *c, enum zn_outbound to, struct zn_str delivery)
{
	if (!takes)
		return 0;
	CHECK_EQ(zn_json_check(delivery), 0);
	memcpy(text[to], delivery.at, delivery.len);
	text[to][delivery.len] = '\0';
	deliveries[to]++;
	return ++c->number[to];
}

static const struct zn_rule rule = {
	.name = "gpu_oom_warning", .severity = "critical", .summary = {"nearly \"full\"", 13}};

static char long_text[700];
static struct zn_rule wordy = {.name = "wordy", .severity = "warning"};

static void begin(void)
{
	alerts.count = 0;
	options.push_interval_ms = 1000;
	options.notify_repeat_ms = 60000;
	sender = (struct zn_sender){.worker.fd = 0, .destinations = {1, 1, 0}};
	memset(deliveries, 0, sizeof(deliveries));
	now_ns = view.start_ns = 1000 * ZN_NS_PER_S;
	view.start_wall_ms = 1711800000123;
	takes = true;
	zn_notify_init(&n, &view, &sender, 9091);
}

static uint64_t next_id = 1;

static void fire(const char *label)
{
	struct zn_alert *a = &alerts.alert[alerts.count++];

	*a = (struct zn_alert){.rule = &rule, .id = next_id++, .state = ZN_FIRING, .value = 0.97, .since_ns = now_ns};
	CHECK(zn_alert_label_add(a, (struct zn_str){"gpu_id", 6}, (struct zn_str){label, strlen(label)}));
	zn_notify_changed(&n, a);
}

static void resolve_all(void)
{
	while (alerts.count)
		zn_notify_changed(&n, &alerts.alert[--alerts.count]);
}

static void tick(void)
{
	now_ns += ZN_NS_PER_S;
	zn_notify_tick(&n, now_ns);
}

/* All deliveries so far were taken. */
static void settle(void)
{
	for (enum zn_outbound to = 0; to < ZN_TO_COUNT; to++)
		sender.sum[to].settled = sender.number[to];
}

#define LABELS                                                                                                         \
	"\"labels\":{\"alertname\":\"gpu_oom_warning\",\"severity\":\"critical\",\"gpu_id\":\"0\",\"node\":\"node7\"," \
	"\"source\":\"simulated\"},\"annotations\":{\"summary\":\"nearly \\\"full\\\"\"}"

T(an_alert_fires_and_is_resolved)
{
	begin();
	tick();
	CHECK(!deliveries[ZN_TO_ALERTMANAGER] && !deliveries[ZN_TO_WEBHOOK]);
	fire("0");
	tick();
	CHECK_STR(text[ZN_TO_ALERTMANAGER],
		"[{" LABELS ",\"startsAt\":\"2024-03-30T12:00:01.123Z\",\"endsAt\":\"2024-03-30T12:03:02.123Z\","
		"\"generatorURL\":\"http://node7:9091/\"}]");
	CHECK_STR(text[ZN_TO_WEBHOOK],
		"{\"version\":1,\"node\":\"node7\",\"source\":\"simulated\",\"alerts\":[{"
		"\"status\":\"firing\",\"name\":\"gpu_oom_warning\",\"severity\":\"critical\"," LABELS
		",\"value\":0.97,\"since_ms\":1711800001123,\"ends_ms\":null}],\"complete\":false}");
	settle();
	resolve_all();
	tick();
	CHECK_STR(text[ZN_TO_ALERTMANAGER],
		"[{" LABELS ",\"startsAt\":\"2024-03-30T12:00:01.123Z\",\"endsAt\":\"2024-03-30T12:00:03.123Z\","
		"\"generatorURL\":\"http://node7:9091/\"}]");
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"status\":\"resolved\"") &&
		strstr(text[ZN_TO_WEBHOOK], "\"ends_ms\":1711800003123}"));
	settle();
	for (int i = 0; i < 200; i++)
		tick();
	CHECK(deliveries[ZN_TO_ALERTMANAGER] == 2 && deliveries[ZN_TO_WEBHOOK] == 2 && !n.count && !n.lost);
}

/* Else an Alertmanager would refuse it, as one that ends before it begins. */
T(the_clock_is_set_back_while_an_alert_fires)
{
	begin();
	tick();
	fire("0");
	tick();
	settle();
	view.start_wall_ms -= 3600 * 1000;
	for (int i = 0; i < 60; i++)
		tick();
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"since_ms\":1711800001123,"));
	CHECK(strstr(text[ZN_TO_ALERTMANAGER],
		"\"startsAt\":\"2024-03-30T11:00:01.123Z\",\"endsAt\":\"2024-03-30T11:04:01"));
	resolve_all();
	tick();
	CHECK(strstr(text[ZN_TO_ALERTMANAGER],
		"\"startsAt\":\"2024-03-30T11:00:01.123Z\",\"endsAt\":\"2024-03-30T11:01:03"));
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"status\":\"resolved\"") &&
		strstr(text[ZN_TO_WEBHOOK], "\"since_ms\":1711800001123,")); /* as it was told of */
}

/* A message goes at a tick: with few of these, what is told lasts longer. */
T(what_fires_lasts_until_the_next_tick)
{
	begin();
	options.push_interval_ms = 60000;
	options.notify_repeat_ms = 15000;
	tick();
	fire("0");
	tick();
	CHECK(strstr(text[ZN_TO_ALERTMANAGER],
		"\"startsAt\":\"2024-03-30T12:00:01.123Z\",\"endsAt\":\"2024-03-30T12:03:02"));
}

/* Three texts that have no room together: the address is whole, and what is cut off says so. */
T(long_texts)
{
	static char many[800];

	begin();
	memset(many, 'd', sizeof(many) - 1);
	wordy.summary = (struct zn_str){"It is too long.", 15};
	wordy.description = (struct zn_str){many, sizeof(many) - 1};
	wordy.runbook = (struct zn_str){"http://wiki/runbook", 19};
	fire("0");
	alerts.alert[0].rule = &wordy;
	tick();
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"summary\":\"It is too long.\""));
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"runbook_url\":\"http://wiki/runbook\""));
	CHECK(strstr(text[ZN_TO_WEBHOOK], "ddd...\""));
	wordy.description = wordy.runbook = (struct zn_str){NULL, 0};
}

T(alertmanagers_are_told_again)
{
	begin();
	fire("0");
	for (int i = 0; i < 181; i++) {
		tick();
		settle();
	}
	CHECK_EQ(deliveries[ZN_TO_ALERTMANAGER], 4);
	CHECK_EQ(deliveries[ZN_TO_WEBHOOK], 1);
}

/* What an earlier daemon told of and does not hold any more is in no message. */
T(the_webhook_is_told_what_fires_after_a_start)
{
	begin();
	for (int i = 0; i < 899; i++)
		tick();
	CHECK_EQ(deliveries[ZN_TO_WEBHOOK], 0);
	tick();
	CHECK_STR(text[ZN_TO_WEBHOOK],
		"{\"version\":1,\"node\":\"node7\",\"source\":\"simulated\",\"alerts\":[],\"complete\":true}");
	fire("0");
	for (int i = 0; i < 1000; i++)
		tick();
	CHECK_EQ(deliveries[ZN_TO_WEBHOOK], 2);
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"status\":\"firing\"") &&
		strstr(text[ZN_TO_WEBHOOK], "],\"complete\":true}"));
}

/* Who has a rule that waits for an hour is told all the same. */
T(a_rule_that_waits_long)
{
	begin();
	rules.rule[1].for_ms = 3600000;
	fire("0");
	for (int i = 0; i < 1199; i++)
		tick();
	CHECK_EQ(deliveries[ZN_TO_WEBHOOK], 1);
	takes = false;
	tick();
	takes = true;
	tick();
	CHECK_EQ(deliveries[ZN_TO_WEBHOOK], 2);
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"status\":\"firing\"") &&
		strstr(text[ZN_TO_WEBHOOK], "],\"complete\":true}"));
	rules.rule[1].for_ms = 30000;
}

/* Until all have taken it, every delivery says so. */
T(the_end_is_told_until_it_is_taken)
{
	begin();
	fire("0");
	tick();
	settle();
	resolve_all();
	tick();
	sender.sum[ZN_TO_WEBHOOK].settled = sender.number[ZN_TO_WEBHOOK];
	for (int i = 0; i < 121; i++)
		tick();
	CHECK_EQ(deliveries[ZN_TO_ALERTMANAGER], 4);
	CHECK(strstr(text[ZN_TO_ALERTMANAGER], "\"endsAt\":\"2024-03-30T12:00:02.123Z\""));
	settle();
	tick();
	CHECK(n.count == 0 && n.lost == 0);
}

T(an_end_that_nobody_takes_is_given_up)
{
	begin();
	fire("0");
	tick();
	settle();
	resolve_all();
	for (int i = 0; i < 903; i++)
		tick();
	CHECK(n.count == 0 && n.lost == 1);
}

T(a_courier_that_is_busy_is_asked_again)
{
	begin();
	takes = false;
	fire("0");
	tick();
	tick();
	takes = true;
	tick();
	CHECK(deliveries[ZN_TO_ALERTMANAGER] == 1 && deliveries[ZN_TO_WEBHOOK] == 1);
	settle();
	takes = false;
	resolve_all();
	tick();
	CHECK_EQ(n.notified[0].number[ZN_TO_WEBHOOK], 0);
	takes = true;
	tick();
	CHECK(deliveries[ZN_TO_WEBHOOK] == 2 && strstr(text[ZN_TO_WEBHOOK], "resolved"));
}

T(what_fires_again_is_told_after_its_end)
{
	begin();
	fire("0");
	tick();
	resolve_all();
	tick();
	fire("0");
	tick();
	CHECK_EQ(n.count, 2);
	CHECK(strstr(text[ZN_TO_WEBHOOK], "resolved") < strstr(text[ZN_TO_WEBHOOK], "firing"));
}

/* Of an instance, with a name that the alert has itself: Alertmanager's routes go by it. */
T(a_label_with_the_name_of_another)
{
	begin();
	fire("0");
	CHECK(zn_alert_label_add(&alerts.alert[0], zn_str_of("severity"), zn_str_of("fatal")));
	zn_notify_changed(&n, &alerts.alert[0]);
	tick();
	for (enum zn_outbound to = ZN_TO_ALERTMANAGER; to <= ZN_TO_WEBHOOK; to++) {
		CHECK(strstr(text[to], "\"severity\":\"critical\""));
		CHECK(strstr(text[to], "\"label_severity\":\"fatal\""));
		CHECK(!strstr(text[to], "\"severity\":\"fatal\""));
	}
}

/* As after a SIGHUP. Receivers know it by its labels: that with the old ones ends, and one with the new ones fires. */
T(a_rule_that_has_another_severity)
{
	struct zn_rule milder = rule;

	begin();
	fire("0");
	tick();
	settle();
	snprintf(milder.severity, sizeof(milder.severity), "warning");
	alerts.alert[0].rule = &milder;
	now_ns += options.notify_repeat_ms * ZN_NS_PER_MS;
	tick();
	for (enum zn_outbound to = 0; to < ZN_TO_OTLP; to++) { /* who knows it by these labels hears of the end first */
		const char *old = strstr(text[to], "\"severity\":\"critical\"");
		const char *new = strstr(text[to], "\"severity\":\"warning\"");

		CHECK(old && new &&old < new);
	}
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"status\":\"resolved\""));
	settle();
	tick();
	CHECK_EQ(n.count, 1);
	resolve_all();
	tick();
	CHECK(!strstr(text[ZN_TO_WEBHOOK], "\"severity\":\"critical\""));
}

T(a_label_of_any_bytes)
{
	begin();
	fire("a\"\\\n\xff");
	tick();
	CHECK(strstr(text[ZN_TO_ALERTMANAGER], "\"gpu_id\":\"a\\\"\\\\\\n\xef\xbf\xbd\""));
	begin();
	fire("");
	tick();
	CHECK(!strstr(text[ZN_TO_ALERTMANAGER], "gpu_id"));
}

T(as_many_as_there_can_be)
{
	char label[32];

	begin();
	for (int round = 0; round < 3; round++) {
		resolve_all();
		for (unsigned i = 0; i < ZN_ALERTS_MAX; i++) {
			snprintf(label, sizeof(label), "%d.%u", round, i);
			fire(label);
		}
		tick();
	}
	CHECK(n.count == ZN_NOTIFIED_MAX && n.lost == ZN_ALERTS_MAX);
	CHECK(strstr(text[ZN_TO_WEBHOOK], "\"2.0\"") && strstr(text[ZN_TO_WEBHOOK], "\"1.127\""));
	CHECK(!strstr(text[ZN_TO_WEBHOOK], "\"0.1\""));
}

/* Ends that one destination does not take neither take the room of what fires, nor are they told the other again. */
T(ends_that_one_does_not_take)
{
	char label[32];

	begin();
	wordy.summary = (struct zn_str){long_text, sizeof(long_text) - 1};
	memset(long_text, 'x', sizeof(long_text) - 1);
	for (int round = 0; round < 2; round++, resolve_all()) {
		for (unsigned i = 0; i < ZN_ALERTS_MAX; i++) {
			snprintf(label, sizeof(label), "%d.%u", round, i);
			fire(label);
			alerts.alert[i].rule = &wordy;
		}
		n.complete = true;
		tick();
		CHECK(strstr(text[ZN_TO_WEBHOOK], "],\"complete\":false}")); /* not all that fire are in it */
	}
	for (int i = 0; i < 12; i++) {
		tick();
		sender.sum[ZN_TO_WEBHOOK].settled = sender.number[ZN_TO_WEBHOOK];
	}
	CHECK_EQ(n.count, ZN_NOTIFIED_MAX);
	for (uint32_t i = 0; i < n.count; i++)
		CHECK(n.notified[i].number[ZN_TO_WEBHOOK]);
	CHECK_EQ(n.lost, 4); /* messages of more that fire than there is room for: two of each round */
	fire("new");
	tick();
	CHECK(strstr(text[ZN_TO_ALERTMANAGER], "\"new\"") && strstr(text[ZN_TO_WEBHOOK], "\"new\""));
	CHECK(strstr(text[ZN_TO_ALERTMANAGER], "\"0.1\"") && !strstr(text[ZN_TO_WEBHOOK], "resolved"));
}

/* The webhook is away while an alert ends, and back once a newer message, with no room for that, has taken the place of
 * the one which says so. */
T(an_end_whose_message_was_replaced)
{
	char label[32];
	int told = 0;

	begin();
	wordy.summary = (struct zn_str){long_text, sizeof(long_text) - 1};
	memset(long_text, 'x', sizeof(long_text) - 1);
	fire("the old one");
	alerts.alert[0].rule = &wordy;
	tick();
	resolve_all();
	tick();
	CHECK(strstr(text[ZN_TO_WEBHOOK], "the old one"));
	for (unsigned i = 0; i < ZN_ALERTS_MAX; i++) {
		snprintf(label, sizeof(label), "%u", i);
		fire(label);
		alerts.alert[i].rule = &wordy;
	}
	tick();
	CHECK(!strstr(text[ZN_TO_WEBHOOK], "the old one"));
	settle();
	resolve_all();
	for (int i = 0; i < 12; i++) {
		tick();
		told += strstr(text[ZN_TO_WEBHOOK], "the old one") != NULL;
		settle();
	}
	CHECK(told > 0);
}

T(pending_ones_are_not_told)
{
	begin();
	fire("0");
	alerts.alert[0].state = ZN_PENDING;
	tick();
	CHECK_EQ(n.count, 0);
}

T(without_a_sender)
{
	begin();
	sender.worker.fd = -1;
	fire("0");
	tick();
	CHECK_EQ(deliveries[ZN_TO_WEBHOOK], 0);
}

static const struct {
	uint64_t ms;
	const char *want;
} dates[] = {
	{951782400000, "2000-02-29T00:00:00.000Z"},
	{4107542399999, "2100-02-28T23:59:59.999Z"},
	{4107542400000, "2100-03-01T00:00:00.000Z"},
	{1735689599001, "2024-12-31T23:59:59.001Z"},
	{1735689600000, "2025-01-01T00:00:00.000Z"},
	{1000, "1970-01-01T00:00:01.000Z"},
};

static void check_dates(void)
{
	for (size_t i = 0; i < ZN_LEN(dates); i++) {
		char want[64];

		t_begin(dates[i].want);
		begin();
		view.start_wall_ms = dates[i].ms;
		fire("0");
		tick();
		snprintf(want, sizeof(want), "\"startsAt\":\"%s\"", dates[i].want);
		CHECK(strstr(text[ZN_TO_ALERTMANAGER], want));
	}
}

int main(void)
{
	RUN(an_alert_fires_and_is_resolved);
	RUN(the_clock_is_set_back_while_an_alert_fires);
	RUN(what_fires_lasts_until_the_next_tick);
	RUN(long_texts);
	RUN(alertmanagers_are_told_again);
	RUN(the_webhook_is_told_what_fires_after_a_start);
	RUN(a_rule_that_waits_long);
	RUN(the_end_is_told_until_it_is_taken);
	RUN(an_end_that_nobody_takes_is_given_up);
	RUN(a_courier_that_is_busy_is_asked_again);
	RUN(what_fires_again_is_told_after_its_end);
	RUN(a_label_with_the_name_of_another);
	RUN(a_rule_that_has_another_severity);
	RUN(a_label_of_any_bytes);
	RUN(as_many_as_there_can_be);
	RUN(ends_that_one_does_not_take);
	RUN(an_end_whose_message_was_replaced);
	RUN(pending_ones_are_not_told);
	RUN(without_a_sender);
	check_dates();
	return t_end();
}
