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
	uint32_t exemplar, exemplars; /* of the list below */
};
/* Scratch: pages are rendered one after the other. Each entry of a process stands for a histogram of its own. */
static struct duration durations[ZN_HISTS_MAX + ZN_IO_MAX];
/* Of the family at hand. */
static struct zn_exemplar exemplars[ZN_SERVICES_MAX * ZN_SLOWEST];

/* The text as it is written. A series is its labels, written once; further lines of it copy them from there. */
struct text {
	struct zn_out *out;
	bool openmetrics, brief;
	const struct zn_metric *metric; /* whose family is at hand */
	enum zn_metric_type type;       /* of the family */
	struct zn_str name, base;       /* of its samples; without _total */
	size_t head;                    /* where its first line begins; 0: its head is not written */
	size_t labels, labels_len;      /* of the series at hand, as above */
	size_t durations;               /* entries in use */
	uint32_t exemplars;             /* likewise */
	/* The last value of a label that had to be escaped: what it is, and how it is written. */
	size_t value_len, escaped_len;
	char escaped_value[ESCAPED_MAX / 3], escaped[ESCAPED_MAX];
	char twin[ZN_TWIN_BYTES]; /* the name of the twin at hand */
	bool twin_alone;          /* durations of the family at hand are buckets and nothing else */
	bool fine;                /* and are at powers of 2 */
	uint32_t histograms;      /* that are twins and were written */
	uint32_t libraries;       /* whose probes were written */
	size_t library;           /* where those of the library at hand begin */
};

/* ---- A line is written where there is room for the longest that it may be, which is asked for once. ---- */

#define LINE_REST                                                                                                      \
	(64 + ZN_TEXT_NUMBER) /* what comes behind the labels of a series: its quantile or bucket, its value */

static char *begin_line(struct zn_out *o, size_t longest)
{
	if (o->full || longest > o->cap - o->len) {
		o->full = true;
		return NULL;
	}
	return o->at + o->len;
}

static void end_line(struct zn_out *o, char *to)
{
	*to++ = '\n';
	o->len = (size_t)(to - o->at);
}

static char *copy_text(char *to, struct zn_str s)
{
	memcpy(to, s.at, s.len);
	return to + s.len;
}

#define EACH_BYTE(b) (0x0101010101010101 * (uint64_t)(b))

/* Not 0: one of eight bytes is one that a value cannot be written with as it is. Its highest bit is set, or it is 0
 * after an XOR, and one less sets that bit. Bits of bytes above it may be set by the borrow, those of no others. */
static inline uint64_t has_special(uint64_t eight)
{
	return (eight | ((eight ^ EACH_BYTE('\\')) - EACH_BYTE(1)) | ((eight ^ EACH_BYTE('"')) - EACH_BYTE(1)) |
		       ((eight ^ EACH_BYTE('\n')) - EACH_BYTE(1))) &
		EACH_BYTE(0x80);
}

/* A few bytes, up to eight at once: faster than a call of memcpy(). Returns has_special() of them. */
static inline __attribute__((always_inline)) uint64_t copy_looking(char *to, struct zn_str s)
{
	uint64_t eight = 0, special = 0;
	uint32_t first, last;

	if (s.len >= sizeof(eight)) {
		for (size_t i = 0; i + sizeof(eight) < s.len; i += sizeof(eight)) {
			memcpy(&eight, s.at + i, sizeof(eight));
			memcpy(to + i, &eight, sizeof(eight));
			special |= has_special(eight);
		}
		memcpy(&eight, s.at + s.len - sizeof(eight), sizeof(eight));
		memcpy(to + s.len - sizeof(eight), &eight, sizeof(eight));
	} else if (s.len >= sizeof(first)) {
		memcpy(&first, s.at, sizeof(first));
		memcpy(&last, s.at + s.len - sizeof(last), sizeof(last));
		memcpy(to, &first, sizeof(first));
		memcpy(to + s.len - sizeof(last), &last, sizeof(last));
		eight = (uint64_t)first << 32 | last;
	} else if (s.len) {
		to[0] = s.at[0];
		to[s.len / 2] = s.at[s.len / 2];
		to[s.len - 1] = s.at[s.len - 1];
		eight = (uint64_t)(uint8_t)to[0] << 16 | (uint64_t)(uint8_t)to[s.len / 2] << 8 | (uint8_t)to[s.len - 1];
	}
	return special | has_special(eight);
}

static inline char *copy_few(char *to, struct zn_str s)
{
	copy_looking(to, s);
	return to + s.len;
}

#define TEXT(literal) ((struct zn_str){literal, sizeof(literal) - 1})

/* "# HELP <name> <text>", and so on. */
static char *put_comment(char *to, struct zn_str what, struct zn_str name, struct zn_str text)
{
	to = copy_text(copy_few(to, what), name);
	*to++ = ' ';
	to = copy_text(to, text);
	*to++ = '\n';
	return to;
}

/* The help texts of the table need no escapes in either format, and a test holds them to it. */
static void put_head(const struct text *t, struct zn_str name, const char *type, const char *help)
{
	const char *unit = t->openmetrics ? zn_metrics_unit(name) : NULL;
	struct zn_str said = zn_str_of(help);
	char *to = begin_line(t->out, 3 * name.len + said.len + LINE_REST);

	if (!to)
		return;
	to = put_comment(to, TEXT("# HELP "), name, said);
	to = put_comment(to, TEXT("# TYPE "), name, zn_str_of(type));
	if (unit)
		to = put_comment(to, TEXT("# UNIT "), name, zn_str_of(unit));
	t->out->len = (size_t)(to - t->out->at);
}

/* OpenMetrics names a family without the _total or _info of its samples, and text 0.0.4 knows no info. */
static void open_family(struct text *t, const struct zn_metric *m)
{
	struct zn_str name = zn_str_of(m->name);

	t->type = m->type;
	t->name = t->base = name;
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

#define ESCAPED 3 /* times as long as a value, at most: a byte that is not of UTF-8 becomes U+FFFD */

static char *put_escaped_value(char *to, struct zn_str s)
{
	struct zn_out escaped = {.at = to, .cap = ESCAPED * s.len};

	put_escaped(&escaped, s);
	return to + escaped.len;
}

/* A value that has to be escaped. That of a library comes with each of its symbols: how it is written is kept. */
static char *put_kept(struct text *t, char *to, struct zn_str s)
{
	if (s.len > sizeof(t->escaped_value))
		return put_escaped_value(to, s);
	if (s.len != t->value_len || memcmp(s.at, t->escaped_value, s.len)) {
		t->escaped_len = (size_t)(put_escaped_value(t->escaped, s) - t->escaped);
		memcpy(t->escaped_value, s.at, s.len);
		t->value_len = s.len;
	}
	return copy_text(to, (struct zn_str){t->escaped, t->escaped_len});
}

static inline char *put_value(struct text *t, char *to, struct zn_str s)
{
	return copy_looking(to, s) ? put_kept(t, to, s) : to + s.len;
}

static char *put_label(struct text *t, char *to, char before, const struct zn_label *l)
{
	*to++ = before;
	to = copy_few(to, l->name);
	*to++ = '=';
	*to++ = '"';
	to = put_value(t, to, l->value);
	*to++ = '"';
	return to;
}

static size_t longest_series(const struct text *t, const struct zn_sample *s, struct zn_str suffix)
{
	size_t len = t->name.len + suffix.len + LINE_REST;

	for (uint32_t i = 0; i < s->label_count; i++)
		len += s->label[i].name.len + ESCAPED * s->label[i].value.len + strlen("{=\"\"");
	return len;
}

/* Begins a line, from the name on to the last label, without the closing bracket. NULL: there is no room for it. */
static char *begin_series(struct text *t, const struct zn_sample *s, struct zn_str suffix)
{
	char *to = begin_line(t->out, longest_series(t, s, suffix)), *labels;

	if (!to)
		return NULL;
	to = labels = copy_few(copy_text(to, t->name), suffix);
	for (uint32_t i = 0; i < s->label_count; i++)
		to = put_label(t, to, i ? ',' : '{', &s->label[i]);
	t->labels = (size_t)(labels - t->out->at);
	t->labels_len = (size_t)(to - labels);
	return to;
}

/* Begins one more line of the series. */
static char *begin_again(struct text *t, struct zn_str suffix)
{
	char *to = begin_line(t->out, t->base.len + suffix.len + t->labels_len + LINE_REST);

	if (!to)
		return NULL;
	to = copy_few(copy_text(to, t->base), suffix);
	return copy_text(to, (struct zn_str){t->out->at + t->labels, t->labels_len});
}

/* Ends a line whose labels are those of the series. to: NULL: it has no room. */
static void put_number(struct text *t, char *to, uint64_t v, int decimals)
{
	if (!to)
		return;
	if (t->labels_len)
		*to++ = '}';
	*to++ = ' ';
	end_line(t->out, decimals ? zn_text_scaled(to, v, decimals) : zn_text_u64(to, v));
}

/* OpenMetrics: when a counter, summary or histogram was 0, if that is known. */
static void put_created(struct text *t, uint64_t since_ms)
{
	if (t->openmetrics && !t->brief && since_ms)
		put_number(t, begin_again(t, TEXT("_created")), since_ms, 3);
}

static void put_negative(struct text *t, char *to, const struct zn_sample *s)
{
	to = copy_few(to, t->labels_len ? TEXT("} -") : TEXT(" -"));
	end_line(t->out, zn_text_scaled(to, s->number, s->decimals));
}

static void put_single(struct text *t, const struct zn_sample *s)
{
	char *to = begin_series(t, s, TEXT(""));

	if (to && s->negative)
		put_negative(t, to, s);
	else
		put_number(t, to, s->number, s->decimals);
	if (t->type == ZN_METRIC_COUNTER && !s->negative)
		put_created(t, s->since_ms);
}

/* Ends a line that begins with the labels of the series. */
static void put_quantile(struct text *t, char *to, struct zn_str quantile, uint64_t ns)
{
	if (!to)
		return;
	*to++ = t->labels_len ? ',' : '{';
	to = copy_few(to, TEXT("quantile=\""));
	to = copy_few(to, quantile);
	to = copy_few(to, TEXT("\"} "));
	end_line(t->out, zn_text_scaled(to, ns, 9));
}

static void put_sum_and_count(struct text *t, uint64_t sum_ns, uint64_t count, uint64_t since_ms)
{
	put_number(t, begin_again(t, TEXT("_sum")), sum_ns, 9);
	put_number(t, begin_again(t, TEXT("_count")), count, 0);
	put_created(t, since_ms);
}

static void put_calibration(struct text *t, const struct zn_sample *s)
{
	put_quantile(t, begin_series(t, s, TEXT("")), TEXT("0.1"), s->bias->p10_ns);
	put_quantile(t, begin_again(t, TEXT("")), TEXT("0.5"), s->bias->p50_ns);
	put_quantile(t, begin_again(t, TEXT("")), TEXT("0.9"), s->bias->p90_ns);
	put_quantile(t, begin_again(t, TEXT("")), TEXT("0.99"), s->bias->p99_ns);
	put_sum_and_count(t, s->bias->sum_ns, s->bias->samples, s->since_ms);
}

/* to: where its first line begins, up to its labels. A brief one is its 99th percentile. */
static void put_summary(struct text *t, char *to, const struct duration *d)
{
	if (!t->brief) {
		put_quantile(t, to, TEXT("0.5"), d->spread.p50_ns);
		to = begin_again(t, TEXT(""));
	}
	put_quantile(t, to, TEXT("0.99"), d->spread.p99_ns);
	if (!t->brief)
		put_sum_and_count(t, d->spread.sum_ns, d->spread.count, d->since_ms);
}

/* Their source is gone when the twin is written. */
static void keep_exemplars(struct text *t, const struct zn_sample *s, struct duration *d)
{
	d->exemplar = t->exemplars;
	d->exemplars = 0;
	if (!t->openmetrics)
		return;
	while (d->exemplars < s->exemplars && t->exemplars < ZN_LEN(exemplars))
		exemplars[t->exemplars++] = s->exemplar[d->exemplars++];
}

/* Writes a summary, and keeps it for its twin, a histogram whose buckets can be added up across nodes. */
static void put_durations(struct text *t, const struct zn_sample *s)
{
	struct duration *d = &durations[t->durations];

	if (t->durations == ZN_LEN(durations))
		return;
	t->durations++;
	zn_hist_spread(s->hist, t->fine, &d->spread);
	d->since_ms = s->since_ms;
	keep_exemplars(t, s, d);
	put_summary(t, begin_series(t, s, TEXT("")), d);
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
static const struct zn_str le_fine_label[ZN_LE_FINE_COUNT] = {LE("0.001048576"), LE("0.002097152"), LE("0.004194304"),
	LE("0.008388608"), LE("0.016777216"), LE("0.033554432"), LE("0.067108864"), LE("0.134217728"),
	LE("0.268435456"), LE("0.536870912"), LE("1.073741824"), LE("2.147483648"), LE("4.294967296"),
	LE("8.589934592"), LE("17.179869184"), LE("34.359738368"), LE("68.719476736"), LE("137.438953472"), LE("+Inf")};

/* The labels of an exemplar have 128 characters at most, by OpenMetrics. */
static void put_exemplar(struct zn_out *o, const struct zn_exemplar *e)
{
	zn_out_text(o, " # {");
	if (*e->waited) {
		zn_out_text(o, "waited=\"");
		zn_out_text(o, e->waited);
		zn_out_text(o, "\",");
	}
	zn_out_text(o, "events=\"");
	zn_out_u64(o, e->events);
	zn_out_text(o, "\",work=\"");
	zn_out_text(o, e->alone ? "alone\"} " : "shared\"} ");
	zn_out_scaled(o, e->ns, 9);
	zn_out_char(o, ' ');
	zn_out_scaled(o, e->at_ms, 3);
}

/* A bucket of [from, to) that has something. */
static void put_exemplar_of(struct text *t, const struct duration *d, uint64_t from_ns, uint64_t to_ns)
{
	for (uint32_t i = 0; i < d->exemplars; i++) {
		const struct zn_exemplar *e = &exemplars[d->exemplar + i];

		if (e->ns < from_ns || e->ns >= to_ns)
			continue;
		put_exemplar(t->out, e);
		return;
	}
}

/* The lines of all buckets begin alike, up to `le`; this one has no room: NULL. */
static struct zn_str begin_buckets(struct text *t, char *begin, char *to)
{
	if (!to)
		return (struct zn_str){0};
	*to++ = t->labels_len ? ',' : '{';
	return zn_str_between(begin, to);
}

/* begin: what is there of the first line, which is copied for the others. */
static void put_buckets(struct text *t, struct zn_str begin, const struct duration *d)
{
	const struct zn_str *label = t->fine ? le_fine_label : le_label;
	struct zn_out *o = t->out;
	struct zn_str count = {0};

	for (uint32_t i = 0; i < zn_le_count(t->fine); i++) {
		char *to = begin_line(o, begin.len + LINE_REST);
		const uint64_t *le = &d->spread.le[i];

		if (!to || !begin.at)
			return;
		to = copy_few(i ? copy_text(to, begin) : to + begin.len, label[i]);
		count = i && le[0] == le[-1] ? zn_str_between(to, copy_few(to, count))
					     : zn_str_between(to, zn_text_u64(to, *le));
		o->len = (size_t)(count.at + count.len - o->at);
		if (d->exemplars && *le > (i ? le[-1] : 0))
			put_exemplar_of(t, d, i ? zn_le_ns(i - 1, t->fine) : 0, zn_le_ns(i, t->fine));
		zn_out_char(o, '\n');
	}
}

static void make_histogram(struct text *t, const struct duration *d)
{
	char *begin = t->out->at + t->out->len;

	t->labels = d->labels;
	t->labels_len = d->labels_len;
	put_buckets(t, begin_buckets(t, begin, begin_again(t, TEXT("_bucket"))), d);
	put_sum_and_count(t, d->spread.sum_ns, d->spread.count, d->since_ms);
}

/* Exemplars are not kept. */
static void put_histogram(struct text *t, const struct duration *d)
{
	struct zn_kept_hist kept = {.name = t->metric->name,
		.labels = {t->out->at + d->labels, d->labels_len},
		.labels_at = t->base.len + strlen("_bucket"),
		.since_ms = t->openmetrics && !t->brief ? d->since_ms : UINT64_MAX,
		.spread = &d->spread,
		.fine = t->fine};
	size_t begin = t->out->len;
	uint32_t i = t->histograms++;

	if (d->exemplars) {
		make_histogram(t, d);
	} else if (!zn_kept_hist_put(t->out, i, &kept)) {
		make_histogram(t, d);
		zn_kept_hist_note(t->out, begin, i, &kept);
	}
}

/* The histogram without its summary. */
static void put_histogram_alone(struct text *t, const struct zn_sample *s)
{
	char *begin = t->out->at + t->out->len;
	struct duration d = {.exemplars = 0};

	zn_hist_spread(s->hist, t->fine, &d.spread);
	put_buckets(t, begin_buckets(t, begin, begin_series(t, s, TEXT("_bucket"))), &d);
	put_sum_and_count(t, d.spread.sum_ns, d.spread.count, s->since_ms);
}

static void open_twin(struct text *t, const struct zn_metric *m)
{
	zn_metrics_twin(t->twin, m->name);
	t->type = m->type;
	t->name = t->base = zn_str_of(t->twin);
	put_head(t, t->base, "histogram", m->help);
}

/* Writes the head of the family at hand, once. One without a series is left out: on most nodes two of three are, and
 * their heads would be a fifth of the page. */
static void need_head(struct text *t)
{
	if (t->head)
		return;
	(t->twin_alone ? open_twin : open_family)(t, t->metric);
	t->head = t->out->len;
}

static void put_sample(void *to, const struct zn_sample *s)
{
	const struct text *t = to;

	need_head(to);
	if (s->hist && t->twin_alone)
		put_histogram_alone(to, s);
	else if (s->hist)
		put_durations(to, s);
	else if (s->bias)
		put_calibration(to, s);
	else
		put_single(to, s);
}

/* A metric with a twin is a summary, a histogram behind it, or one of the two. */
static void put_metric(struct text *t, struct zn_walk *w, const struct zn_metric *m, uint32_t collect)
{
	bool twin = zn_metrics_twin_shown(m, collect);
	size_t begin = t->out->len;

	t->metric = m;
	t->head = t->durations = t->exemplars = 0;
	t->twin_alone = twin && !zn_metrics_summary(m, collect);
	t->fine = m->twin == ZN_TWIN_FINE;
	zn_walk_metric(w, m);
	if (t->out->len == t->head)
		t->out->len = begin; /* a library without a probe */
	if (!twin || t->twin_alone)
		return;
	if (t->durations)
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

static bool has_library(void *to, const struct zn_lib *lib)
{
	struct text *t = to;
	uint32_t i = t->libraries++;

	need_head(t);
	t->library = t->out->len;
	return zn_kept_put(t->out, i, lib);
}

static void had_library(void *to, const struct zn_lib *lib)
{
	const struct text *t = to;

	zn_kept_note(t->out, t->library, t->libraries - 1, lib);
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
	w.has_library = has_library;
	w.had_library = had_library;
	for (size_t i = 0; (m = zn_metrics_at(i)); i++)
		if (zn_metrics_collected(m, collect))
			put_metric(&t, &w, m, collect);
	if (openmetrics)
		zn_out_text(o, "# EOF\n");
}
