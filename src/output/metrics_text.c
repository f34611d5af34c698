/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_text.c: /metrics as Prometheus text 0.0.4 and as OpenMetrics 1.0. */
#include <string.h>

#include "zernel.h"

#define ROOM_AFTER  (3 << 20) /* for what follows the durations of file I/O */
#define ESCAPED_MAX 1024

/* A series of durations. It is there twice: as a summary, and in the histogram that is its twin, of the same moment. */
struct duration {
	size_t labels, labels_len; /* where in the text, with the opening bracket and without the closing one */
	uint64_t since_ms;
	struct zn_spread spread;
};
/* Scratch: pages are rendered one after the other. Each entry of a process stands for a histogram of its own. */
static struct duration durations[ZN_HISTS_MAX + ZN_IO_MAX];

/* The text as it is written. A series is its labels, written once; further lines of it copy them from there. */
struct text {
	struct zn_out *out;
	bool openmetrics, brief;
	enum zn_metric_type type;  /* of the family at hand */
	struct zn_str name, base;  /* of its samples; without _total */
	size_t labels, labels_len; /* of the series at hand, as above */
	size_t durations;          /* entries in use */
	/* The last long value of a label: what it is, and how it is written. It comes with each symbol of a library. */
	size_t long_len, escaped_len;
	char long_value[ESCAPED_MAX / 3], escaped[ESCAPED_MAX];
	char twin[ZN_TWIN_BYTES]; /* the name of the twin at hand */
	bool twin_alone;          /* durations of the family at hand are buckets and nothing else */
};

static void put_str(struct zn_out *o, struct zn_str s)
{
	zn_out_bytes(o, s.at, s.len);
}

static struct zn_str str_of(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

static void put_comment(struct zn_out *o, const char *what, struct zn_str name, const char *text)
{
	zn_out_text(o, what);
	put_str(o, name);
	zn_out_char(o, ' ');
	zn_out_text(o, text);
	zn_out_char(o, '\n');
}

/* The help texts of the table need no escapes in either format, and a test holds them to it. */
static void put_head(const struct text *t, struct zn_str name, const char *type, const char *help)
{
	const char *unit = t->openmetrics ? zn_metrics_unit(name) : NULL;

	put_comment(t->out, "# HELP ", name, help);
	put_comment(t->out, "# TYPE ", name, type);
	if (unit)
		put_comment(t->out, "# UNIT ", name, unit);
}

/* OpenMetrics names a family without the _total or _info of its samples, and text 0.0.4 knows no info. */
static void open_family(struct text *t, const struct zn_metric *m)
{
	struct zn_str name = str_of(m->name);

	t->type = m->type;
	t->name = t->base = name;
	t->durations = 0;
	if (m->type == ZN_METRIC_COUNTER)
		t->base.len -= strlen("_total");
	if (t->openmetrics && m->type == ZN_METRIC_COUNTER)
		name.len -= strlen("_total");
	if (t->openmetrics && m->type == ZN_METRIC_INFO)
		name.len -= strlen("_info");
	put_head(t, name,
		zn_metrics_type_name(m->type == ZN_METRIC_INFO && !t->openmetrics ? ZN_METRIC_GAUGE : m->type),
		m->help);
}

/* Any bytes. Escapes what the format knows (backslash, quote, newline) on top of what UTF-8 demands. */
static void put_escaped(struct zn_out *o, struct zn_str s)
{
	size_t from = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] != '\\' && s.at[i] != '"' && s.at[i] != '\n')
			continue;
		zn_out_utf8(o, s.at + from, i - from);
		zn_out_char(o, '\\');
		zn_out_char(o, s.at[i] == '\n' ? 'n' : s.at[i]);
		from = i + 1;
	}
	zn_out_utf8(o, s.at + from, s.len - from);
}

/* The longest text is one whose bytes all become U+FFFD, three bytes each. */
static void put_long(struct text *t, struct zn_str s)
{
	struct zn_out escaped = {.at = t->escaped, .cap = sizeof(t->escaped)};

	if (s.len > sizeof(t->long_value)) {
		put_escaped(t->out, s);
		return;
	}
	if (s.len != t->long_len || memcmp(s.at, t->long_value, s.len)) {
		put_escaped(&escaped, s);
		memcpy(t->long_value, s.at, s.len);
		t->long_len = s.len;
		t->escaped_len = escaped.len;
	}
	zn_out_bytes(t->out, t->escaped, t->escaped_len);
}

/* Bytes that a value cannot be written with as they are. */
static const bool special[256] = {['\\'] = true, ['"'] = true, ['\n'] = true, [0x80 ... 0xff] = true};

/* Copies a value as it is; there is room for it. False: it has to be escaped. */
static bool copy_plain(char *to, struct zn_str value)
{
	for (size_t i = 0; i < value.len; i++) {
		if (special[(uint8_t)value.at[i]])
			return false;
		to[i] = value.at[i];
	}
	return true;
}

/* Names of labels are short: a loop is faster than a call of memcpy(). */
static void put_label(struct text *t, char before, const struct zn_label *l)
{
	struct zn_out *o = t->out;
	char *to = o->at + o->len;

	if (o->full || l->name.len + l->value.len + strlen("{=\"\"") > o->cap - o->len) {
		o->full = true;
		return;
	}
	*to++ = before;
	for (size_t i = 0; i < l->name.len; i++)
		*to++ = l->name.at[i];
	*to++ = '=';
	*to++ = '"';
	o->len = (size_t)(to - o->at);
	if (copy_plain(to, l->value))
		o->len += l->value.len;
	else
		put_long(t, l->value);
	zn_out_char(o, '"');
}

/* From the name on to the last label, without the closing bracket. */
static void put_series(struct text *t, const struct zn_sample *s, const char *suffix)
{
	put_str(t->out, t->name);
	zn_out_text(t->out, suffix);
	t->labels = t->out->len;
	for (uint32_t i = 0; i < s->label_count; i++)
		put_label(t, i ? ',' : '{', &s->label[i]);
	t->labels_len = t->out->len - t->labels;
}

/* Writes one more line of the series. */
static void put_again(struct text *t, const char *suffix)
{
	struct zn_out *o = t->out;

	put_str(o, t->base);
	zn_out_text(o, suffix);
	if (!o->full) /* else they were not all written */
		zn_out_bytes(o, o->at + t->labels, t->labels_len);
}

/* A value of a label ends in a quote, and a name does not. */
static void before_value(struct zn_out *o)
{
	if (o->len && o->at[o->len - 1] == '"')
		zn_out_bytes(o, "} ", 2);
	else
		zn_out_char(o, ' ');
}

static void put_number(struct text *t, uint64_t v, int decimals)
{
	before_value(t->out);
	if (decimals)
		zn_out_scaled(t->out, v, decimals);
	else
		zn_out_u64(t->out, v);
	zn_out_char(t->out, '\n');
}

/* OpenMetrics: when a counter, summary or histogram was 0. */
static void put_created(struct text *t, uint64_t since_ms)
{
	if (!t->openmetrics || t->brief)
		return;
	put_again(t, "_created");
	put_number(t, since_ms, 3);
}

static void put_single(struct text *t, const struct zn_sample *s)
{
	put_series(t, s, "");
	if (s->negative) {
		before_value(t->out);
		zn_out_char(t->out, '-');
		zn_out_scaled(t->out, s->number, s->decimals);
		zn_out_char(t->out, '\n');
		return;
	}
	put_number(t, s->number, s->decimals);
	if (t->type == ZN_METRIC_COUNTER)
		put_created(t, s->since_ms);
}

static void put_quantile(struct text *t, const char *quantile, uint64_t ns)
{
	struct zn_out *o = t->out;

	zn_out_char(o, t->labels_len ? ',' : '{');
	zn_out_text(o, "quantile=\"");
	zn_out_text(o, quantile);
	zn_out_char(o, '"');
	put_number(t, ns, 9);
}

static void put_sum_and_count(struct text *t, uint64_t sum_ns, uint64_t count, uint64_t since_ms)
{
	put_again(t, "_sum");
	put_number(t, sum_ns, 9);
	put_again(t, "_count");
	put_number(t, count, 0);
	put_created(t, since_ms);
}

static void put_calibration(struct text *t, const struct zn_sample *s)
{
	const struct {
		const char *quantile;
		uint64_t ns;
	} lines[] = {{"0.1", s->bias->p10_ns}, {"0.5", s->bias->p50_ns}, {"0.9", s->bias->p90_ns},
		{"0.99", s->bias->p99_ns}};

	put_series(t, s, "");
	for (size_t i = 0; i < ZN_LEN(lines); i++) {
		if (i)
			put_again(t, "");
		put_quantile(t, lines[i].quantile, lines[i].ns);
	}
	put_sum_and_count(t, s->bias->sum_ns, s->bias->samples, s->since_ms);
}

/* A brief one is its 99th percentile. */
static void put_summary(struct text *t, const struct duration *d)
{
	if (!t->brief) {
		put_quantile(t, "0.5", d->spread.p50_ns);
		put_again(t, "");
	}
	put_quantile(t, "0.99", d->spread.p99_ns);
	if (!t->brief)
		put_sum_and_count(t, d->spread.sum_ns, d->spread.le[ZN_LE_COUNT - 1], d->since_ms);
}

/* Writes a summary, and keeps it for its twin, a histogram whose buckets can be added up across nodes. */
static void put_durations(struct text *t, const struct zn_sample *s)
{
	struct duration *d = &durations[t->durations];

	if (t->durations == ZN_LEN(durations))
		return;
	t->durations++;
	zn_hist_spread(s->hist, &d->spread);
	put_series(t, s, "");
	d->since_ms = s->since_ms;
	put_summary(t, d);
	d->labels = t->labels;
	d->labels_len = t->labels_len;
}

/* The limits of zn_le_ns() in seconds, as the Prometheus libraries print them and OpenMetrics wants them: these
 * strings never change. */
#define LE(v)                                                                                                          \
	{                                                                                                              \
		"le=\"" v "\"} ", sizeof("le=\"" v "\"} ") - 1                                                         \
	}
static const struct zn_str le_label[ZN_LE_COUNT] = {LE("1.024e-06"), LE("4.096e-06"), LE("1.6384e-05"),
	LE("6.5536e-05"), LE("0.000262144"), LE("0.001048576"), LE("0.004194304"), LE("0.016777216"), LE("0.067108864"),
	LE("0.268435456"), LE("1.073741824"), LE("4.294967296"), LE("17.179869184"), LE("68.719476736"), LE("+Inf")};

/* The lines of all buckets begin alike: what the first one begins with, which is there, is copied. */
static void put_buckets(struct zn_out *o, struct zn_str begin, const uint64_t le[ZN_LE_COUNT])
{
	for (uint32_t i = 0; i < ZN_LE_COUNT && !o->full; i++) {
		if (i)
			put_str(o, begin);
		put_str(o, le_label[i]);
		zn_out_u64(o, le[i]);
		zn_out_char(o, '\n');
	}
}

static void put_histogram(struct text *t, const struct duration *d)
{
	struct zn_out *o = t->out;
	size_t at = o->len;

	t->labels = d->labels;
	t->labels_len = d->labels_len;
	put_again(t, "_bucket");
	zn_out_char(o, t->labels_len ? ',' : '{');
	put_buckets(o, (struct zn_str){o->at + at, o->len - at}, d->spread.le);
	put_sum_and_count(t, d->spread.sum_ns, d->spread.le[ZN_LE_COUNT - 1], d->since_ms);
}

/* The histogram without its summary. */
static void put_histogram_alone(struct text *t, const struct zn_sample *s)
{
	struct zn_out *o = t->out;
	size_t at = o->len;
	struct zn_spread spread;

	zn_hist_spread(s->hist, &spread);
	put_series(t, s, "_bucket");
	zn_out_char(o, t->labels_len ? ',' : '{');
	put_buckets(o, (struct zn_str){o->at + at, o->len - at}, spread.le);
	put_sum_and_count(t, spread.sum_ns, spread.le[ZN_LE_COUNT - 1], s->since_ms);
}

static void put_sample(void *to, const struct zn_sample *s)
{
	const struct text *t = to;

	if (s->hist && t->twin_alone)
		put_histogram_alone(to, s);
	else if (s->hist)
		put_durations(to, s);
	else if (s->bias)
		put_calibration(to, s);
	else
		put_single(to, s);
}

static void open_twin(struct text *t, const struct zn_metric *m)
{
	zn_metrics_twin(t->twin, m->name);
	t->type = m->type;
	t->name = t->base = str_of(t->twin);
	put_head(t, t->base, "histogram", m->help);
}

/* A metric with a twin is a summary, a histogram behind it, or one of the two. A family has its place even without a
 * series. */
static void put_metric(struct text *t, struct zn_walk *w, const struct zn_metric *m, uint32_t collect)
{
	bool twin = zn_metrics_twin_shown(m, collect);

	t->twin_alone = twin && !zn_metrics_summary(m, collect);
	if (t->twin_alone)
		open_twin(t, m);
	else
		open_family(t, m);
	zn_walk_metric(w, m);
	if (!twin || t->twin_alone)
		return;
	open_twin(t, m);
	for (size_t i = 0; i < t->durations && !t->out->full; i++)
		put_histogram(t, &durations[i]);
}

static int32_t room_for_files(void *to)
{
	const struct text *t = to;
	size_t taken = t->out->len + ROOM_AFTER;

	return t->out->cap > taken ? (int32_t)(t->out->cap - taken) : 0;
}

void zn_metrics_text(struct zn_out *o, const struct zn_state *state, bool openmetrics, uint32_t collect)
{
	struct text t = {.out = o, .openmetrics = openmetrics};
	const struct zn_metric *m;
	struct zn_walk w;

	collect = collect ? collect : zn_metrics_series(state->options);
	zn_walk_init(&w, state, put_sample, &t);
	t.brief = w.brief = zn_metrics_brief(collect);
	w.room = room_for_files;
	for (size_t i = 0; (m = zn_metrics_at(i)); i++)
		if (zn_metrics_collected(m, collect))
			put_metric(&t, &w, m, collect);
	if (openmetrics)
		zn_out_text(o, "# EOF\n");
}
