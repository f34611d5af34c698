/* SPDX-License-Identifier: GPL-2.0 */
/*
 * otlp.c: all metrics as ExportMetricsServiceRequest messages of OpenTelemetry's protocol, 1.x, each no larger than
 * its buffer. The numbers below are the fields of opentelemetry/proto. docs/EXPORT.md says what becomes of each
 * metric.
 */
#include <string.h>

#include "zernel.h"

#define OTLP_BYTES_MIN   (32 << 10) /* room that the longest series always fits into, with all around it */
#define OTLP_SERIES_BITS 20         /* of one metric, at most */

enum { REQUEST_RESOURCE_METRICS = 1 };
enum { RESOURCE = 1, SCOPE_METRICS };
enum { RESOURCE_ATTRIBUTE = 1 };
enum { SCOPE = 1, METRIC };
enum { SCOPE_NAME = 1, SCOPE_VERSION };
enum { METRIC_NAME = 1, METRIC_DESCRIPTION, METRIC_UNIT, GAUGE = 5, SUM = 7, EXPONENTIAL = 10, SUMMARY = 11 };
enum { POINT = 1, TEMPORALITY, MONOTONIC };
enum { CUMULATIVE = 2 };
enum { START = 2, TIME, COUNT, TOTAL }; /* of every kind of point; AS_DOUBLE is where others have their count */
enum { AS_DOUBLE = 4, QUANTILE = 6, NUMBER_ATTRIBUTE = 7 };
enum { EXPONENTIAL_ATTRIBUTE = 1, SCALE = 6, ZERO_COUNT, POSITIVE, MAX = 13, ZERO_THRESHOLD };
enum { OFFSET = 1, BUCKET_COUNTS };
enum { KEY = 1, ANY_VALUE };
enum { ANY_STRING = 1, ANY_INT = 3 };

#define END_BYTES 64 /* left free behind each point, for the lengths of the messages around it as they end */

/* Requests of inference servers once more, by the names of OpenTelemetry's conventions for generative AI, which are in
 * development. Tokens are not known, so that gen_ai.server.time_per_output_token is not there. */
#define GEN_AI "gen_ai."
static const enum zn_request_duration whole = ZN_REQUEST_WHOLE, first = ZN_REQUEST_FIRST;
static const struct zn_metric gen_ai[] = {
	{GEN_AI "server.request.duration", ZN_METRIC_SUMMARY, ZN_TWIN_WIDE, 0, false, "pid", zn_metrics_request_gen_ai,
		&whole,
		"From the first byte of a request that a server read to the last one of its answer that it sent; of those that ended with an error too."},
	{GEN_AI "server.time_to_first_token", ZN_METRIC_SUMMARY, ZN_TWIN_WIDE, 0, false, "pid",
		zn_metrics_request_gen_ai, &first,
		"From the last byte of a request that a server read to the first event of its answer, of streamed answers."},
};

static bool is_gen_ai(const char *name)
{
	return !strncmp(name, GEN_AI, strlen(GEN_AI));
}

/* One request while it is written. */
struct request {
	struct zn_out *out;
	uint64_t now_ns;     /* since 1970 */
	uint32_t skip, seen; /* series of the metric at hand: those in requests before, and those so far */
	uint32_t points;     /* in this request */
	bool stop;           /* the series numbered seen did not fit, nor do those after it */
	bool open;           /* a metric and its data are: */
	size_t metric, data; /* their marks */
};

/* Which message holds the points of a sample. */
static uint32_t data_of(const struct zn_sample *s)
{
	if (s->type == ZN_METRIC_SUMMARY)
		return s->hist ? EXPONENTIAL : SUMMARY;
	return s->type == ZN_METRIC_COUNTER ? SUM : GAUGE;
}

static void put_attribute(struct zn_out *o, uint32_t field, const char *key, struct zn_str value)
{
	size_t mark = zn_protobuf_open(o, field), any;

	zn_protobuf_word(o, KEY, key);
	any = zn_protobuf_open(o, ANY_VALUE);
	zn_protobuf_text(o, ANY_STRING, value);
	zn_protobuf_close(o, any);
	zn_protobuf_close(o, mark);
}

/* process.pid is a number by OpenTelemetry's conventions. Of no process there is none. */
static void put_pid(struct zn_out *o, uint32_t field, struct zn_str digits)
{
	uint64_t pid = 0;
	size_t mark, any;

	if (!digits.len)
		return;
	mark = zn_protobuf_open(o, field);
	for (size_t i = 0; i < digits.len; i++)
		pid = pid * 10 + (uint64_t)(digits.at[i] - '0');
	zn_protobuf_word(o, KEY, "process.pid");
	any = zn_protobuf_open(o, ANY_VALUE);
	zn_protobuf_u64(o, ANY_INT, pid);
	zn_protobuf_close(o, any);
	zn_protobuf_close(o, mark);
}

static void put_attributes(struct zn_out *o, uint32_t field, const struct zn_sample *s)
{
	for (uint32_t i = 0; i < s->label_count; i++) {
		const struct zn_label *l = &s->label[i];
		char name[64];

		if (l->name.len == 3 && !memcmp(l->name.at, "pid", 3)) {
			put_pid(o, field, l->value);
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)l->name.len, l->name.at);
		put_attribute(o, field, name, l->value);
	}
}

static double seconds_of(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void put_times(const struct request *r, const struct zn_sample *s)
{
	uint64_t start_ns = s->since_ms * ZN_NS_PER_MS;

	/* The clock may have been set back since: a point does not begin after it ends. */
	if (data_of(s) != GAUGE && start_ns)
		zn_protobuf_fixed64(r->out, START, start_ns < r->now_ns ? start_ns : r->now_ns);
	zn_protobuf_fixed64(r->out, TIME, r->now_ns);
}

static void put_exponential(struct zn_out *o, const struct zn_hist *h)
{
	static struct zn_exp_buckets b;
	size_t positive, counts;
	int32_t index;

	zn_hist_buckets(h, &b);
	zn_protobuf_fixed64(o, COUNT, b.count);
	zn_protobuf_double(o, TOTAL, seconds_of(b.sum_ns));
	zn_protobuf_i64(o, SCALE, ZN_SCALE);
	zn_protobuf_fixed64(o, ZERO_COUNT, b.zero);
	zn_protobuf_double(o, MAX, seconds_of(b.max_ns));
	zn_protobuf_double(o, ZERO_THRESHOLD, ZN_ZERO_BELOW);
	if (!b.used)
		return;
	positive = zn_protobuf_open(o, POSITIVE);
	index = b.bucket[0].index;
	zn_protobuf_i64(o, OFFSET, index);
	counts = zn_protobuf_open(o, BUCKET_COUNTS);
	for (uint32_t i = 0; i < b.used; index++)
		zn_protobuf_put(o, b.bucket[i].index == index ? b.bucket[i++].count : 0);
	zn_protobuf_close(o, counts);
	zn_protobuf_close(o, positive);
}

static void put_quantiles(struct zn_out *o, const struct zn_bias *b)
{
	const struct {
		double quantile;
		uint64_t ns;
	} rows[] = {{0.1, b->p10_ns}, {0.5, b->p50_ns}, {0.9, b->p90_ns}, {0.99, b->p99_ns}};

	zn_protobuf_fixed64(o, COUNT, b->samples);
	zn_protobuf_double(o, TOTAL, seconds_of(b->sum_ns));
	for (size_t i = 0; i < ZN_LEN(rows); i++) {
		size_t mark = zn_protobuf_open(o, QUANTILE);

		zn_protobuf_double(o, 1, rows[i].quantile);
		zn_protobuf_double(o, 2, seconds_of(rows[i].ns));
		zn_protobuf_close(o, mark);
	}
}

static void put_point(const struct request *r, const struct zn_sample *s)
{
	struct zn_out *o = r->out;
	size_t mark = zn_protobuf_open(o, POINT);

	put_times(r, s);
	put_attributes(o, s->hist ? EXPONENTIAL_ATTRIBUTE : NUMBER_ATTRIBUTE, s);
	if (s->hist)
		put_exponential(o, s->hist);
	else if (s->bias)
		put_quantiles(o, s->bias);
	else
		zn_protobuf_double(o, AS_DOUBLE, s->value);
	zn_protobuf_close(o, mark);
}

static const char *unit_of(const char *name)
{
	static const char *const units[][2] = {{"seconds", "s"}, {"bytes", "By"}, {"ratio", "1"}};
	const char *unit = zn_metrics_unit((struct zn_str){name, strlen(name)});

	if (is_gen_ai(name)) /* durations, all of them */
		return "s";
	for (size_t i = 0; unit && i < ZN_LEN(units); i++)
		if (!strcmp(units[i][0], unit))
			return units[i][1];
	return NULL;
}

/* A metric and its data, up to the first point. Durations go by the name of the twin histogram, which they are. */
static void open_metric(struct request *r, const struct zn_sample *s)
{
	const char *unit = unit_of(s->metric), *name = s->metric;
	uint32_t data = data_of(s);
	struct zn_out *o = r->out;
	char twin[ZN_TWIN_BYTES];

	if (s->hist && !is_gen_ai(name)) {
		zn_metrics_twin(twin, name);
		name = twin;
	}
	r->metric = zn_protobuf_open(o, METRIC);
	zn_protobuf_word(o, METRIC_NAME, name);
	zn_protobuf_word(o, METRIC_DESCRIPTION, s->help);
	if (unit)
		zn_protobuf_word(o, METRIC_UNIT, unit);
	r->data = zn_protobuf_open(o, data);
	if (data == SUM || data == EXPONENTIAL)
		zn_protobuf_u64(o, TEMPORALITY, CUMULATIVE);
	if (data == SUM)
		zn_protobuf_u64(o, MONOTONIC, true);
	r->open = true;
}

/* A series that does not fit is taken back, with its metric if it is the first one. */
static void put_series(void *to, const struct zn_sample *s)
{
	struct request *r = to;
	size_t before = r->out->len;
	bool opened = false;

	if (r->stop || r->seen < r->skip) {
		r->seen += !r->stop;
		return;
	}
	if (!r->open) {
		open_metric(r, s);
		opened = true;
	}
	put_point(r, s);
	if (r->out->full || r->out->cap - r->out->len < END_BYTES) {
		r->out->full = false;
		r->out->len = before;
		r->stop = true;
		r->open &= !opened;
		return;
	}
	r->seen++;
	r->points++;
}

static void put_resource(struct zn_out *o, const struct zn_state *state)
{
	const struct {
		const char *key, *value;
	} rows[] = {{"service.name", "zerneld"}, {"service.version", zn_version}, {"service.instance.id", state->node},
		{"host.name", state->node}};
	size_t mark = zn_protobuf_open(o, RESOURCE);

	for (size_t i = 0; i < ZN_LEN(rows); i++)
		put_attribute(
			o, RESOURCE_ATTRIBUTE, rows[i].key, (struct zn_str){rows[i].value, strlen(rows[i].value)});
	zn_protobuf_close(o, mark);
}

static void put_scope(struct zn_out *o)
{
	size_t mark = zn_protobuf_open(o, SCOPE);

	zn_protobuf_word(o, SCOPE_NAME, "zerneld");
	zn_protobuf_word(o, SCOPE_VERSION, zn_version);
	zn_protobuf_close(o, mark);
}

static const struct zn_metric *metric_at(size_t i)
{
	static size_t count;

	while (zn_metrics_at(count))
		count++;
	if (i < count)
		return zn_metrics_at(i);
	return i - count < ZN_LEN(gen_ai) ? &gen_ai[i - count] : NULL;
}

/* From the series *at on, until they end or one does not fit. *at: the metric's number, and the series' within it. */
static void put_metrics(struct request *r, const struct zn_state *state, uint32_t *at)
{
	uint32_t row = *at >> OTLP_SERIES_BITS, collect = zn_metrics_series(state->options);
	const struct zn_metric *m;
	struct zn_walk w;

	zn_walk_init(&w, state, put_series, r);
	w.brief = zn_metrics_brief(collect);
	r->skip = *at & ((1u << OTLP_SERIES_BITS) - 1);
	for (; !r->stop && (m = metric_at(row)); row += !r->stop) {
		r->seen = 0;
		r->open = false;
		if (zn_metrics_collected(m, collect))
			zn_walk_metric(&w, m);
		if (r->open) {
			zn_protobuf_close(r->out, r->data);
			zn_protobuf_close(r->out, r->metric);
		}
		r->skip = 0;
	}
	*at = row << OTLP_SERIES_BITS | (r->stop ? r->seen : 0);
}

bool zn_otlp_next(struct zn_out *o, const struct zn_state *state, uint64_t now_wall_ms, uint32_t *at)
{
	struct request r = {.out = o, .now_ns = now_wall_ms * ZN_NS_PER_MS};
	size_t before = o->len, resource, scope;

	if (o->cap - o->len < OTLP_BYTES_MIN) {
		o->full = true;
		return false;
	}
	resource = zn_protobuf_open(o, REQUEST_RESOURCE_METRICS);
	put_resource(o, state);
	scope = zn_protobuf_open(o, SCOPE_METRICS);
	put_scope(o);
	put_metrics(&r, state, at);
	zn_protobuf_close(o, scope);
	zn_protobuf_close(o, resource);
	if (!r.points)
		*o = (struct zn_out){.at = o->at, .cap = o->cap, .len = before, .full = r.stop};
	return r.points;
}
