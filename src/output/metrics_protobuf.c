/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_protobuf.c: /metrics in Protocol Buffers: messages of io.prometheus.client, as Prometheus asks for them where
 * native histograms are switched on. The numbers below are the fields of its metrics.proto. A family without a series
 * is left out, as the libraries do.
 */
#include <string.h>

#include "zernel.h"

enum { FAMILY_NAME = 1, FAMILY_HELP, FAMILY_TYPE, FAMILY_METRIC, FAMILY_UNIT };
enum { TYPE_COUNTER, TYPE_GAUGE, TYPE_SUMMARY, TYPE_HISTOGRAM = 4 };
enum { METRIC_LABEL = 1, METRIC_GAUGE, METRIC_COUNTER, METRIC_SUMMARY, METRIC_HISTOGRAM = 7 };
enum { PAIR_NAME = 1, PAIR_VALUE };
enum { VALUE = 1, COUNTER_CREATED = 3 };
enum { SUMMARY_COUNT = 1, SUMMARY_SUM, SUMMARY_QUANTILE, SUMMARY_CREATED };
enum {
	HISTOGRAM_COUNT = 1,
	HISTOGRAM_SUM,
	HISTOGRAM_BUCKET,
	HISTOGRAM_SCHEMA = 5,
	HISTOGRAM_ZERO_THRESHOLD,
	HISTOGRAM_ZERO_COUNT,
	HISTOGRAM_SPAN = 12,
	HISTOGRAM_DELTA,
	HISTOGRAM_CREATED = 15
};
enum { BUCKET_COUNT = 1, BUCKET_LIMIT };
enum { SPAN_OFFSET = 1, SPAN_LENGTH };
enum { STAMP_S = 1, STAMP_NS };

#define GAP_MAX 2 /* empty buckets in a row that are written out: a new span would take as much */

struct page {
	struct zn_out *out;
	bool open, twin; /* the family at hand is; and is the histogram of a metric, not the metric */
	size_t family;   /* its mark */
};

static double seconds_of(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void put_labels(struct zn_out *o, const struct zn_sample *s)
{
	for (uint32_t i = 0; i < s->label_count; i++) {
		size_t mark = zn_protobuf_open(o, METRIC_LABEL);

		zn_protobuf_text(o, PAIR_NAME, s->label[i].name);
		zn_protobuf_text(o, PAIR_VALUE, s->label[i].value);
		zn_protobuf_close(o, mark);
	}
}

/* ms: 0: not known, and left out. */
static void put_stamp(struct zn_out *o, uint32_t field, uint64_t ms)
{
	size_t mark;

	if (!ms)
		return;
	mark = zn_protobuf_open(o, field);
	zn_protobuf_u64(o, STAMP_S, ms / 1000);
	zn_protobuf_u64(o, STAMP_NS, ms % 1000 * ZN_NS_PER_MS);
	zn_protobuf_close(o, mark);
}

static void put_value(struct zn_out *o, const struct zn_sample *s)
{
	bool counter = s->type == ZN_METRIC_COUNTER;
	size_t mark = zn_protobuf_open(o, counter ? METRIC_COUNTER : METRIC_GAUGE);

	zn_protobuf_double(o, VALUE, s->value);
	if (counter)
		put_stamp(o, COUNTER_CREATED, s->since_ms);
	zn_protobuf_close(o, mark);
}

static void put_quantile(struct zn_out *o, double quantile, uint64_t ns)
{
	size_t mark = zn_protobuf_open(o, SUMMARY_QUANTILE);

	zn_protobuf_double(o, 1, quantile);
	zn_protobuf_double(o, 2, seconds_of(ns));
	zn_protobuf_close(o, mark);
}

static void put_summary(struct zn_out *o, const struct zn_sample *s)
{
	size_t mark = zn_protobuf_open(o, METRIC_SUMMARY);
	struct zn_spread spread;

	if (s->hist) {
		zn_hist_spread(s->hist, false, &spread);
		zn_protobuf_u64(o, SUMMARY_COUNT, spread.count);
		zn_protobuf_double(o, SUMMARY_SUM, seconds_of(spread.sum_ns));
		put_quantile(o, 0.5, spread.p50_ns);
		put_quantile(o, 0.99, spread.p99_ns);
	} else {
		zn_protobuf_u64(o, SUMMARY_COUNT, s->bias->samples);
		zn_protobuf_double(o, SUMMARY_SUM, seconds_of(s->bias->sum_ns));
		put_quantile(o, 0.1, s->bias->p10_ns);
		put_quantile(o, 0.5, s->bias->p50_ns);
		put_quantile(o, 0.9, s->bias->p90_ns);
		put_quantile(o, 0.99, s->bias->p99_ns);
	}
	put_stamp(o, SUMMARY_CREATED, s->since_ms);
	zn_protobuf_close(o, mark);
}

/* Without the last one, +Inf: that is the count. */
static void put_classic(struct zn_out *o, const struct zn_spread *spread, bool fine)
{
	for (uint32_t i = 0; i < zn_le_count(fine) - 1; i++) {
		size_t mark = zn_protobuf_open(o, HISTOGRAM_BUCKET);

		zn_protobuf_u64(o, BUCKET_COUNT, spread->le[i]);
		zn_protobuf_double(o, BUCKET_LIMIT, seconds_of(zn_le_ns(i, fine)));
		zn_protobuf_close(o, mark);
	}
}

/* Whether bucket i begins a span: the first one, and one after a wide gap. */
static bool begins_span(const struct zn_exp_buckets *b, uint32_t i)
{
	return i == 0 || b->bucket[i].index - b->bucket[i - 1].index - 1 > GAP_MAX;
}

/* Prometheus numbers a bucket by its upper limit: its index is one more. An offset counts from the end of the span
 * before; the first one from 0. */
static void put_spans(struct zn_out *o, const struct zn_exp_buckets *b)
{
	int32_t end = 0;

	for (uint32_t i = 0, last; i < b->used; i = last + 1) {
		size_t mark = zn_protobuf_open(o, HISTOGRAM_SPAN);

		for (last = i; last + 1 < b->used && !begins_span(b, last + 1);)
			last++;
		zn_protobuf_i64(o, SPAN_OFFSET, b->bucket[i].index + 1 - end);
		end = b->bucket[last].index + 2;
		zn_protobuf_u64(o, SPAN_LENGTH, (uint64_t)((int64_t)b->bucket[last].index - b->bucket[i].index + 1));
		zn_protobuf_close(o, mark);
	}
}

/* Each count, those of empty buckets within a span too, as the difference from the one before. */
static void put_deltas(struct zn_out *o, const struct zn_exp_buckets *b)
{
	size_t mark = zn_protobuf_open(o, HISTOGRAM_DELTA);
	uint64_t before = 0;

	for (uint32_t i = 0; i < b->used; i++) {
		int32_t gap = begins_span(b, i) ? 0 : b->bucket[i].index - b->bucket[i - 1].index - 1;

		for (; gap > 0; gap--, before = 0)
			zn_protobuf_put_signed(o, -(int64_t)before);
		zn_protobuf_put_signed(o, (int64_t)(b->bucket[i].count - before));
		before = b->bucket[i].count;
	}
	zn_protobuf_close(o, mark);
}

static void put_native(struct zn_out *o, const struct zn_exp_buckets *b)
{
	zn_protobuf_i64(o, HISTOGRAM_SCHEMA, ZN_SCALE);
	zn_protobuf_double(o, HISTOGRAM_ZERO_THRESHOLD, ZN_ZERO_BELOW);
	zn_protobuf_u64(o, HISTOGRAM_ZERO_COUNT, b->zero);
	put_spans(o, b);
	put_deltas(o, b);
}

/* Both kinds of buckets must have the same count, so they are taken from one copy of what BPF adds to. */
static void put_histogram(struct zn_out *o, const struct zn_sample *s)
{
	static struct zn_hist_sum still;
	static struct zn_exp_buckets buckets;
	struct zn_spread spread;
	size_t mark = zn_protobuf_open(o, METRIC_HISTOGRAM);

	memset(&still, 0, sizeof(still));
	zn_hist_merge(&still, s->hist);
	zn_hist_spread(&still.hist, s->fine, &spread);
	zn_hist_buckets(&still.hist, &buckets);
	zn_protobuf_u64(o, HISTOGRAM_COUNT, buckets.count);
	zn_protobuf_double(o, HISTOGRAM_SUM, seconds_of(buckets.sum_ns));
	put_classic(o, &spread, s->fine);
	put_native(o, &buckets);
	put_stamp(o, HISTOGRAM_CREATED, s->since_ms);
	zn_protobuf_close(o, mark);
}

static void open_family(struct page *p, const struct zn_sample *s)
{
	static const uint8_t type[] = {TYPE_COUNTER, TYPE_GAUGE, TYPE_GAUGE, TYPE_SUMMARY};
	const char *name = s->metric, *unit;
	char twin[ZN_TWIN_BYTES];

	if (p->twin) {
		zn_metrics_twin(twin, name);
		name = twin;
	}
	unit = zn_metrics_unit((struct zn_str){name, strlen(name)});
	p->open = true;
	p->family = zn_protobuf_open(p->out, 0);
	zn_protobuf_word(p->out, FAMILY_NAME, name);
	zn_protobuf_word(p->out, FAMILY_HELP, s->help);
	zn_protobuf_u64(p->out, FAMILY_TYPE, p->twin ? TYPE_HISTOGRAM : type[s->type]);
	if (unit)
		zn_protobuf_word(p->out, FAMILY_UNIT, unit);
}

static void put_series(void *to, const struct zn_sample *s)
{
	struct page *p = to;
	struct zn_out *o = p->out;
	size_t mark;

	if (!p->open)
		open_family(p, s);
	mark = zn_protobuf_open(o, FAMILY_METRIC);
	put_labels(o, s);
	if (p->twin)
		put_histogram(o, s);
	else if (s->type == ZN_METRIC_SUMMARY)
		put_summary(o, s);
	else
		put_value(o, s);
	zn_protobuf_close(o, mark);
}

static void put_family(struct page *p, struct zn_walk *w, const struct zn_metric *m, bool twin)
{
	p->open = false;
	p->twin = twin;
	zn_walk_metric(w, m);
	if (p->open)
		zn_protobuf_close(p->out, p->family);
}

void zn_metrics_proto(struct zn_out *o, const struct zn_state *state, uint32_t collect)
{
	struct page p = {.out = o};
	const struct zn_metric *m;
	struct zn_walk w;

	collect = collect ? collect : zn_metrics_series(state->options);
	zn_walk_init(&w, state, put_series, &p);
	w.brief = zn_metrics_brief(collect);
	for (size_t i = 0; (m = zn_metrics_at(i)); i++) {
		if (zn_metrics_summary(m, collect))
			put_family(&p, &w, m, false);
		if (zn_metrics_twin_shown(m, collect))
			put_family(&p, &w, m, true);
	}
}
