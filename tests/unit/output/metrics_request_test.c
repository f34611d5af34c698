/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_request_test.c: series of servers and their requests (metrics_request.c), with their exemplars. */
#include "metrics.h"

#define MS ZN_NS_PER_MS

static struct zn_servings servings;
static struct zn_server *server;

static void record(uint32_t *slot, uint64_t ns)
{
	if (!*slot)
		*slot = zn_memory_hist(&memory);
	zn_hist_add(&memory.arena.hists[*slot], ns);
}

/* A request that is among the slowest. */
static void answer(uint64_t ns, uint64_t first_ns, uint64_t unread_ns, enum zn_request_code code)
{
	struct zn_request_series *r = zn_memory_series(&memory, server, ZN_ROUTE_CHAT);
	struct zn_serving_view *of = &servings.view[0];
	struct zn_slow_request *slow = &of->slow[of->slow_count++];

	*slow = (struct zn_slow_request){.ns = ns, .first_ns = first_ns, .unread_ns = unread_ns};
	slow->end_ns = of->slow_count * 1000 * MS + zn_now_ns();
	slow->tgid = server->tgid;
	slow->events = first_ns ? 40 : 0;
	slow->route = ZN_ROUTE_CHAT;
	slow->code = (uint16_t)code;
	r->done[code]++;
	if (code != ZN_OUTCOME_ABORTED)
		record(&r->hist[ZN_REQUEST_WHOLE], ns);
	if (first_ns)
		record(&r->hist[ZN_REQUEST_FIRST], first_ns);
}

static void start_server(void)
{
	struct zn_server of = {.tgid = 900, .service = 900, .service_at = 1};

	start();
	zn_serving_init(&servings, &memory.arena);
	view.servings = &servings;
	of.since_ns = view.start_ns;
	server = &memory.arena.servers[memory.arena.ops->server_add(&memory.arena, &of)];
}

static const char *page_of(bool openmetrics)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};

	zn_state_refresh(&view);
	zn_metrics_text(&o, &view, openmetrics, 0);
	CHECK(!o.full);
	text[o.len] = 0;
	return text;
}

#define OF "{pid=\"900\",route=\"/v1/chat/completions\""

static const char *line_with(const char *whole, const char *begin)
{
	static char line[512];
	const char *at = strstr(whole, begin);

	snprintf(line, sizeof(line), "%.*s", at ? (int)strcspn(at, "\n") : 0, at ? at : "");
	return line;
}

T(durations_of_requests_have_buckets_at_powers_of_two)
{
	start_server();
	answer(1500 * MS, 700 * MS, 0, ZN_OUTCOME_2XX);
	answer(300 * MS, 0, 0, ZN_OUTCOME_5XX);
	render(false);
	CHECK_STR(value_of("zernel_request_duration_hist_seconds_bucket" OF ",le=\"0.268435456\"}"), "0");
	CHECK_STR(value_of("zernel_request_duration_hist_seconds_bucket" OF ",le=\"0.536870912\"}"), "1");
	CHECK_STR(value_of("zernel_request_duration_hist_seconds_bucket" OF ",le=\"2.147483648\"}"), "2");
	CHECK_STR(value_of("zernel_request_duration_hist_seconds_bucket" OF ",le=\"137.438953472\"}"), "2");
	CHECK_EQ(count_with("zernel_request_duration_hist_seconds_bucket"), ZN_LE_FINE_COUNT);
	CHECK_STR(value_of("zernel_request_first_event_hist_seconds_bucket" OF ",le=\"1.073741824\"}"), "1");
}

T(openmetrics_has_the_slowest_as_exemplars)
{
	const char *whole;

	start_server();
	answer(1500 * MS, 700 * MS, 820 * MS, ZN_OUTCOME_2XX);
	answer(1400 * MS, 300 * MS, 0, ZN_OUTCOME_2XX); /* in the same bucket, and not as slow */
	answer(9000 * MS, 0, 0, ZN_OUTCOME_ABORTED);
	whole = page_of(true);
	CHECK(strstr(line_with(whole, "zernel_request_duration_hist_seconds_bucket" OF ",le=\"2.147483648\"}"),
		"} 2 # {waited=\"unread 820ms\",events=\"40\",work=\"shared\"} 1.5 1711800078.123"));
	CHECK(!strchr(line_with(whole, "zernel_request_duration_hist_seconds_bucket" OF ",le=\"1.073741824\"}"), '#'));
	CHECK(!strchr(line_with(whole, "zernel_request_duration_hist_seconds_bucket" OF ",le=\"17.179869184\"}"), '#'));
	CHECK(strstr(line_with(whole, "zernel_request_first_event_hist_seconds_bucket" OF ",le=\"1.073741824\"}"),
		"} 2 # {waited=\"unread 820ms\",events=\"40\",work=\"shared\"} 0.7 "));
	CHECK(strstr(line_with(whole, "zernel_request_first_event_hist_seconds_bucket" OF ",le=\"0.536870912\"}"),
		"} 1 # {events=\"40\",work=\"shared\"} 0.3 "));
	CHECK(!strstr(whole, "_sum" OF "} # "));
	CHECK(!strstr(page_of(false), " # {"));
}

/* 128 characters for all labels of an exemplar. */
T(a_long_exemplar_ends_at_a_comma)
{
	struct zn_slow_request *slow = servings.view[0].slow;
	const char *at, *end;

	start_server();
	agg.measured |= 1ull << ZN_FAM_SCHED;
	answer(1500 * MS, 700 * MS, 820 * MS, ZN_OUTCOME_2XX);
	slow->held = 65535;
	slow->events = UINT32_MAX;
	slow->share[ZN_WORK_DIST] = 60ull << ZN_SHARE_BITS;
	slow->share[ZN_WORK_IO] = 40ull << ZN_SHARE_BITS;
	at = strstr(page_of(true), " # {");
	CHECK(at != NULL);
	CHECK(strstr(at, "waited=\"unread 820ms, held by TCP 65535 events, engine waiting for other ranks 60 %\",") !=
		NULL);
	end = strchr(at, '}');
	CHECK(end - at < 128);
}

static void count_exemplars(void *to, const struct zn_sample *s)
{
	CHECK(!s->exemplars || !strncmp(s->metric, "zernel_request_", 15));
	*(uint32_t *)to += s->exemplars;
}

/* A walk lies on the stack of who makes it, over whatever was there. */
T(no_other_series_has_exemplars)
{
	const struct zn_metric *m;
	struct zn_walk w;
	uint32_t count = 0;

	start_server();
	answer(1500 * MS, 700 * MS, 820 * MS, ZN_OUTCOME_2XX);
	memset(&w, 0x5a, sizeof(w));
	zn_walk_init(&w, &view, count_exemplars, &count);
	for (size_t i = 0; (m = zn_metrics_at(i)); i++)
		zn_walk_metric(&w, m);
	CHECK_EQ(count, 2);
}

int main(void)
{
	RUN(durations_of_requests_have_buckets_at_powers_of_two);
	RUN(openmetrics_has_the_slowest_as_exemplars);
	RUN(a_long_exemplar_ends_at_a_comma);
	RUN(no_other_series_has_exemplars);
	return t_end();
}
