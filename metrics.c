/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of metrics, and its forms: Prometheus text 0.0.4, OpenMetrics 1.0, the list of --list-metrics, and
 * docs/METRICS.md. A metric is one row; nothing else names it.
 */
#include "zernel.h"
#include <string.h>
#include <time.h>

enum type { COUNTER, GAUGE, SUMMARY };

struct text {
	struct zn_out *out;
	struct zn_view *view;
	bool openmetrics;
};

struct metric {
	const char *name;
	enum type type;
	const char *labels;
	void (*emit)(struct text *t, const struct metric *m);
	const void *arg; /* of emit */
	const char *help;
};

static void head(struct text *t, const char *name, size_t len, const char *type, const char *help)
{
	zn_out_text(t->out, "# HELP ");
	zn_out_bytes(t->out, name, len);
	zn_out_char(t->out, ' ');
	zn_out_text(t->out, help);
	zn_out_text(t->out, "\n# TYPE ");
	zn_out_bytes(t->out, name, len);
	zn_out_char(t->out, ' ');
	zn_out_text(t->out, type);
	zn_out_char(t->out, '\n');
}

static const char *type_name(const struct metric *m)
{
	static const char *const name[] = {"counter", "gauge", "summary"};

	return name[m->type];
}

/* Opens a family. OpenMetrics names a counter's family without its _total. */
static void family(struct text *t, const struct metric *m)
{
	size_t len = strlen(m->name);

	if (t->openmetrics && m->type == COUNTER)
		len -= strlen("_total");
	head(t, m->name, len, type_name(m), m->help);
}

/* The labels of a series, kept as text: many lines share them. The longest are those of a library, whose path and
 * inode may be ZN_TEXT_MAX + 64 bytes that all become U+FFFD, three bytes each. */
struct labels {
	char text[3 * (ZN_TEXT_MAX + 64) + 256];
	struct zn_out out;
};

static void labels_begin(struct labels *l)
{
	l->out = (struct zn_out){.at = l->text, .cap = sizeof(l->text)};
}

static void label_name(struct labels *l, const char *name)
{
	zn_out_char(&l->out, l->out.len ? ',' : '{');
	zn_out_text(&l->out, name);
	zn_out_text(&l->out, "=\"");
}

/* A value of our own words, which needs no escapes. */
static void label_word(struct labels *l, const char *name, const char *word)
{
	label_name(l, name);
	zn_out_text(&l->out, word);
	zn_out_char(&l->out, '"');
}

/* A value may be any bytes. Escapes what the format knows (backslash, quote, newline) on top of what UTF-8 demands. */
static void label_bytes(struct labels *l, const char *name, const char *bytes, size_t len)
{
	size_t from = 0;

	label_name(l, name);
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] != '\\' && bytes[i] != '"' && bytes[i] != '\n')
			continue;
		zn_out_utf8(&l->out, bytes + from, i - from);
		zn_out_text(&l->out, bytes[i] == '\n' ? "\\n" : bytes[i] == '"' ? "\\\"" : "\\\\");
		from = i + 1;
	}
	zn_out_utf8(&l->out, bytes + from, len - from);
	zn_out_char(&l->out, '"');
}

static void label(struct labels *l, const char *name, const char *text)
{
	label_bytes(l, name, text, strlen(text));
}

static void label_u64(struct labels *l, const char *name, uint64_t v)
{
	label_name(l, name);
	zn_out_u64(&l->out, v);
	zn_out_char(&l->out, '"');
}

/* Labels that were made before, after those that l has. */
static void label_more(struct labels *l, const struct labels *more)
{
	zn_out_char(&l->out, ',');
	zn_out_bytes(&l->out, more->text + 1, more->out.len - 1);
}

/* Writes name, suffix and labels; `more` is one label that only this line has. The value and a newline follow. */
static void line(struct text *t, const struct zn_str name, const char *suffix, const struct labels *l, const char *more)
{
	zn_out_bytes(t->out, name.at, name.len);
	zn_out_text(t->out, suffix);
	zn_out_bytes(t->out, l->text, l->out.len);
	if (more[0]) {
		zn_out_char(t->out, l->out.len ? ',' : '{');
		zn_out_text(t->out, more);
	}
	zn_out_text(t->out, l->out.len || more[0] ? "} " : " ");
}

static void value_u64(struct text *t, uint64_t v)
{
	zn_out_u64(t->out, v);
	zn_out_char(t->out, '\n');
}

static void value_scaled(struct text *t, uint64_t v, int decimals)
{
	zn_out_scaled(t->out, v, decimals);
	zn_out_char(t->out, '\n');
}

static struct zn_str name_of(const struct metric *m)
{
	return (struct zn_str){m->name, strlen(m->name)};
}

static void series_u64(struct text *t, const struct metric *m, const struct labels *l, uint64_t v)
{
	line(t, name_of(m), "", l, "");
	value_u64(t, v);
}

static void series_scaled(struct text *t, const struct metric *m, const struct labels *l, uint64_t v, int decimals)
{
	line(t, name_of(m), "", l, "");
	value_scaled(t, v, decimals);
}

static void series_one(struct text *t, const struct metric *m, uint64_t v)
{
	struct labels none;

	labels_begin(&none);
	series_u64(t, m, &none, v);
}

static const struct zn_proc *proc_at(struct text *t, uint32_t r)
{
	return zn_arena_proc(t->view->agg->arena, t->view->agg->row[r]);
}

#define EACH_PROC(t, r, p)                                                                                             \
	for (uint32_t r = 0; r < (t)->view->agg->row_count; r++)                                                       \
		if ((p = proc_at(t, r)))

static void proc_labels(struct labels *l, const struct zn_proc *p)
{
	labels_begin(l);
	label_u64(l, "pid", p->tgid);
}

/* A run of counters that differ in one label; a series appears with its first event. */
struct counts {
	enum zn_count first;
	uint32_t count;
	const char *label;
	const char *value[4];
};

static void emit_counts(struct text *t, const struct metric *m)
{
	const struct counts *c = m->arg;
	const struct zn_proc *p;
	struct labels l;

	family(t, m);
	EACH_PROC(t, r, p)
	{
		for (uint32_t i = 0; i < c->count; i++) {
			uint64_t v = p->count[c->first + i];

			if (v == 0)
				continue;
			proc_labels(&l, p);
			if (c->label)
				label_word(&l, c->label, c->value[i]);
			series_u64(t, m, &l, v);
		}
	}
}

/* A gauge stays when it is back at 0, but does not appear before there was something. */
static void emit_pinned(struct text *t, const struct metric *m)
{
	const struct zn_proc *p;
	struct labels l;

	family(t, m);
	EACH_PROC(t, r, p)
	{
		uint64_t calls = 0;

		for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++)
			calls += p->gpu[o].alloc_calls[ZN_K_HOST];
		if (calls == 0 && p->count[ZN_C_HOST_PINNED] == 0)
			continue;
		proc_labels(&l, p);
		series_u64(t, m, &l, p->count[ZN_C_HOST_PINNED]);
	}
}

/* One field of struct zn_proc_gpu, per GPU of each process. */
struct share_field {
	size_t offset;
	uint32_t count; /* of consecutive fields that differ in one label */
	const char *label;
	const char *value[ZN_KIND_COUNT];
	bool always; /* shown also while it is 0 */
};

static void emit_shares(struct text *t, const struct metric *m)
{
	const struct share_field *f = m->arg;
	struct zn_share share[ZN_PROC_GPUS + 1];
	struct zn_agg *agg = t->view->agg;
	const struct zn_proc *p;
	struct labels l;

	family(t, m);
	EACH_PROC(t, r, p)
	{
		size_t n = zn_agg_shares(agg, agg->row[r], share);

		for (size_t i = 0; i < n * f->count; i++) {
			const struct zn_share *s = &share[i / f->count];
			uint64_t v = ((const uint64_t *)((const char *)&s->sum + f->offset))[i % f->count];

			if (v == 0 && !(f->always && s->sum.peak_bytes))
				continue;
			proc_labels(&l, p);
			label(&l, "gpu_id", agg->gpus.gpu[s->gpu].id);
			if (f->label)
				label_word(&l, f->label, f->value[i % f->count]);
			series_u64(t, m, &l, v);
		}
	}
}

struct durations {
	enum zn_detail first, last;
	const char *label; /* whose value is the detail's name; NULL: none */
	bool by_pid;       /* false: all processes together, those that have gone included */
};

static void summary_lines(struct text *t, const struct metric *m, const struct labels *l, const struct zn_hist *h)
{
	struct zn_str name = name_of(m);
	struct zn_summary s = zn_hist_summary(h);

	line(t, name, "", l, "quantile=\"0.5\"");
	value_scaled(t, s.p50_ns, 9);
	line(t, name, "", l, "quantile=\"0.99\"");
	value_scaled(t, s.p99_ns, 9);
	line(t, name, "_sum", l, "");
	value_scaled(t, h->sum_ns, 9);
	line(t, name, "_count", l, "");
	value_u64(t, s.count);
}

/* As the Prometheus libraries print the limits of zn_le_ns(), in seconds: these strings never change. */
#define LE(v)                                                                                                          \
	{                                                                                                              \
		"le=\"" v "\"} ", sizeof("le=\"" v "\"} ") - 1                                                         \
	}
static const struct zn_str le_label[ZN_LE_COUNT] = {LE("1.024e-06"), LE("4.096e-06"), LE("1.6384e-05"),
	LE("6.5536e-05"), LE("0.000262144"), LE("0.001048576"), LE("0.004194304"), LE("0.016777216"), LE("0.067108864"),
	LE("0.268435456"), LE("1.073741824"), LE("4.294967296"), LE("17.179869184"), LE("68.719476736"), LE("+Inf")};

/* The lines of all buckets begin alike: what the first one begins with is copied. */
static void bucket_lines(struct text *t, struct zn_str name, const struct labels *l, const uint64_t le[ZN_LE_COUNT])
{
	struct zn_out *o = t->out;
	const char *begin = o->at + o->len;
	size_t len;

	zn_out_bytes(o, name.at, name.len);
	zn_out_text(o, "_bucket");
	zn_out_bytes(o, l->text, l->out.len);
	zn_out_char(o, l->out.len ? ',' : '{');
	len = (size_t)(o->at + o->len - begin);
	for (uint32_t i = 0; i < ZN_LE_COUNT && !o->full; i++) {
		if (i)
			zn_out_bytes(o, begin, len);
		zn_out_bytes(o, le_label[i].at, le_label[i].len);
		value_u64(t, le[i]);
	}
}

static void histogram_lines(struct text *t, struct zn_str name, const struct labels *l, const struct zn_hist *h)
{
	uint64_t le[ZN_LE_COUNT];

	zn_hist_cumulate(h, le);
	bucket_lines(t, name, l, le);
	line(t, name, "_sum", l, "");
	value_scaled(t, h->sum_ns, 9);
	line(t, name, "_count", l, "");
	value_u64(t, le[ZN_LE_COUNT - 1]);
}

/* Calls lines for each series of the family: summary lines, or the buckets of its twin. */
static void each_duration(struct text *t, const struct metric *m, const struct zn_str *twin)
{
	const struct durations *d = m->arg;
	struct zn_agg *agg = t->view->agg;
	uint32_t procs = d->by_pid ? agg->row_count : 1;
	struct labels l;

	for (uint32_t r = 0; r < procs; r++) {
		const struct zn_proc *p = d->by_pid ? proc_at(t, r) : NULL;

		for (enum zn_detail i = d->first; i <= d->last; i++) {
			const struct zn_hist *h = !d->by_pid ? zn_agg_merge(agg, i)
				: p                          ? zn_arena_hist(agg->arena, p->hist[i])
							     : NULL;
			if (!h || !h->calls)
				continue;
			labels_begin(&l);
			if (p)
				label_u64(&l, "pid", p->tgid);
			if (d->label)
				label_word(&l, d->label, zn_detail_label(i));
			if (twin)
				histogram_lines(t, *twin, &l, h);
			else
				summary_lines(t, m, &l, h);
		}
	}
}

/* A summary and its twin, a histogram whose buckets can be added up across nodes. */
static void emit_durations(struct text *t, const struct metric *m)
{
	char name[96];
	struct zn_str twin = {name, 0};

	family(t, m);
	each_duration(t, m, NULL);
	twin.len =
		snprintf(name, sizeof(name), "%.*s_hist_seconds", (int)(strlen(m->name) - strlen("_seconds")), m->name);
	head(t, name, twin.len, "histogram", m->help);
	each_duration(t, m, &twin);
}

/* A field of struct zn_hist for each NCCL operation of each process. */
static void emit_nccl(struct text *t, const struct metric *m)
{
	size_t offset = *(const size_t *)m->arg;
	const struct zn_proc *p;
	struct labels l;

	family(t, m);
	EACH_PROC(t, r, p)
	{
		for (enum zn_detail i = ZN_H_NCCL_ALL_REDUCE; i <= ZN_H_NCCL_RECV; i++) {
			const struct zn_hist *h = zn_arena_hist(t->view->agg->arena, p->hist[i]);

			if (!h || !h->calls)
				continue;
			proc_labels(&l, p);
			label_word(&l, "op", zn_detail_label(i));
			series_u64(t, m, &l, *(const uint64_t *)((const char *)h + offset));
		}
	}
}

static void emit_ranks(struct text *t, const struct metric *m)
{
	struct zn_agg *agg = t->view->agg;
	struct labels l;
	char hex[17];

	family(t, m);
	for (size_t i = 0; i < agg->comm_count; i++) {
		const struct zn_comm *c = &agg->comms[i];
		struct zn_out o = {.at = hex, .cap = sizeof(hex)};

		if (c->rank == ZN_UNKNOWN || c->nranks == ZN_UNKNOWN || c->hash == 0)
			continue;
		zn_out_hex(&o, c->hash, 16);
		labels_begin(&l);
		label_u64(&l, "pid", c->tgid);
		label_bytes(&l, "comm", hex, o.len);
		label_u64(&l, "rank", c->rank);
		label_u64(&l, "nranks", c->nranks);
		series_u64(t, m, &l, 1);
	}
}

enum gpu_what { GPU_TOTAL, GPU_RATIO, GPU_INFO };
static const enum gpu_what gpu_total = GPU_TOTAL, gpu_ratio = GPU_RATIO, gpu_info = GPU_INFO;

static void gpu_line(struct text *t, const struct metric *m, const struct zn_gpu *g, enum gpu_what what)
{
	struct labels l;

	labels_begin(&l);
	label(&l, "gpu_id", g->id);
	if (what == GPU_INFO) {
		label(&l, "uuid", g->uuid);
		label(&l, "pci", g->pci);
		if (g->minor >= 0)
			label_u64(&l, "minor", g->minor);
		else
			label(&l, "minor", "");
		series_u64(t, m, &l, 1);
	} else if (g->total_bytes && what == GPU_TOTAL) {
		series_u64(t, m, &l, g->total_bytes);
	} else if (g->total_bytes) {
		series_scaled(t, m, &l, (uint64_t)((__uint128_t)g->used_bytes * 1000000 / g->total_bytes), 6);
	}
}

static void emit_gpus(struct text *t, const struct metric *m)
{
	const struct zn_gpus *gpus = &t->view->agg->gpus;

	family(t, m);
	for (uint32_t i = 0; i < gpus->count; i++)
		if (zn_gpu_shown(&gpus->gpu[i]) && !zn_gpu_unknown(&gpus->gpu[i]))
			gpu_line(t, m, &gpus->gpu[i], *(const enum gpu_what *)m->arg);
}

static void emit_alerts(struct text *t, const struct metric *m)
{
	const struct zn_alerts *a = t->view->alerts;
	struct labels l;

	family(t, m);
	for (uint32_t i = 0; i < a->rule_count; i++) {
		labels_begin(&l);
		label(&l, "alert", a->rule[i].name);
		label(&l, "severity", a->rule[i].severity);
		series_u64(t, m, &l, zn_rule_state(a, &a->rule[i]));
	}
}

static void emit_build(struct text *t, const struct metric *m)
{
	struct labels l;

	family(t, m);
	labels_begin(&l);
	label(&l, "version", zn_version);
	label(&l, "commit", zn_commit);
	label(&l, "source", t->view->probe ? "live" : "simulated");
	series_u64(t, m, &l, 1);
}

static void emit_kernel(struct text *t, const struct metric *m)
{
	struct labels l;

	family(t, m);
	labels_begin(&l);
	label(&l, "release", t->view->release);
	series_u64(t, m, &l, 1);
}

struct attached {
	struct text *text;
	const struct metric *metric;
};

static void attached_lines(void *to, const struct zn_lib *lib)
{
	const struct attached *a = to;
	const struct zn_probe *p = a->text->view->probe;
	char unique[ZN_TEXT_MAX + 64];
	struct labels l, library;

	/* two files may have one path, in two mount namespaces or one after the other: the inode tells them
	 * apart */
	snprintf(unique, sizeof(unique), "%s@%lx:%lu", lib->path, lib->dev, lib->ino);
	labels_begin(&library);
	label(&library, "library", unique);
	for (uint32_t i = 0; i < p->hook_count; i++) {
		if (!zn_family_fits(p->hook[i].family, lib->kind))
			continue;
		labels_begin(&l);
		label_word(&l, "family", zn_family_label(p->hook[i].family));
		label_word(&l, "symbol", p->hook[i].name);
		label_more(&l, &library);
		series_u64(a->text, a->metric, &l, lib->symbol[i] == ZN_SYM_ATTACHED);
	}
}

static void emit_attached(struct text *t, const struct metric *m)
{
	struct attached a = {t, m};

	family(t, m);
	if (t->view->find)
		zn_find_visit(t->view->find, attached_lines, &a);
}

static uint64_t hits_of(const struct zn_agg *agg, enum zn_family f)
{
	uint64_t hits = 0;

	for (enum zn_first first = 0; first < ZN_FIRST_COUNT; first++) {
		hits += agg->gone_count[ZN_C_HIT(f, first)];
		for (uint32_t r = 0; r < agg->row_count; r++)
			hits += agg->arena->procs[agg->row[r]].count[ZN_C_HIT(f, first)];
	}
	return hits;
}

static void emit_hits(struct text *t, const struct metric *m)
{
	struct labels l;

	family(t, m);
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		labels_begin(&l);
		label(&l, "family", zn_family_label(f));
		series_u64(t, m, &l, hits_of(t->view->agg, f));
	}
}

static void bias_lines(struct text *t, const struct metric *m, const struct zn_bias *b, const char *first)
{
	const struct {
		const char *quantile;
		uint64_t ns;
	} row[] = {{"quantile=\"0.1\"", b->p10_ns}, {"quantile=\"0.5\"", b->p50_ns}, {"quantile=\"0.9\"", b->p90_ns},
		{"quantile=\"0.99\"", b->p99_ns}};
	struct labels l;

	labels_begin(&l);
	label(&l, "first_instruction", first);
	for (size_t i = 0; i < ZN_LEN(row); i++) {
		line(t, name_of(m), "", &l, row[i].quantile);
		value_scaled(t, row[i].ns, 9);
	}
	line(t, name_of(m), "_sum", &l, "");
	value_scaled(t, b->sum_ns, 9);
	line(t, name_of(m), "_count", &l, "");
	value_u64(t, b->samples);
}

static void emit_bias(struct text *t, const struct metric *m)
{
	const struct zn_probe *p = t->view->probe;

	family(t, m);
	for (enum zn_first i = 0; p && i < ZN_FIRST_COUNT; i++)
		if (p->bias[i].samples)
			bias_lines(t, m, &p->bias[i], zn_first_label(i));
}

static void emit_run(struct text *t, const struct metric *m)
{
	const struct zn_probe *p = t->view->probe;
	const char *name;
	struct labels l;

	family(t, m);
	for (uint32_t i = 0; p && i < ZN_PROGRAMS; i++) {
		uint64_t ns = zn_probe_run_ns(p, i, &name);

		if (ns == 0)
			continue;
		labels_begin(&l);
		label(&l, "program", name);
		series_scaled(t, m, &l, ns, 9);
	}
}

static void emit_duty(struct text *t, const struct metric *m)
{
	struct labels l;

	family(t, m);
	for (enum zn_family f = 0; t->view->probe && f < ZN_FAMILY_COUNT; f++) {
		labels_begin(&l);
		label(&l, "family", zn_family_label(f));
		series_scaled(t, m, &l, t->view->agg->family_cost_rate[f], 12);
	}
}

static void emit_overhead(struct text *t, const struct metric *m)
{
	const struct zn_agg *agg = t->view->agg;
	const struct zn_proc *p;
	struct labels l;

	family(t, m);
	if (!t->view->probe)
		return;
	EACH_PROC(t, r, p)
	{
		proc_labels(&l, p);
		series_scaled(t, m, &l, agg->info[agg->row[r]].cost_rate, 12);
	}
}

static void emit_lost(struct text *t, const struct metric *m)
{
	struct zn_view *v = t->view;
	struct labels l;

	family(t, m);
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++) {
		labels_begin(&l);
		label_word(&l, "what", zn_loss_label(i));
		series_u64(t, m, &l, zn_view_lost(v, i));
	}
}

static void emit_tables(struct text *t, const struct metric *m)
{
	const bool *limits = m->arg;
	struct zn_usage usage[ZN_USAGES_MAX];
	size_t n = zn_view_usage(t->view, usage);
	struct labels l;

	family(t, m);
	for (size_t i = 0; i < n; i++) {
		labels_begin(&l);
		label_word(&l, "table", usage[i].table);
		series_u64(t, m, &l, *limits ? usage[i].limit : usage[i].entries);
	}
}

static void emit_requests(struct text *t, const struct metric *m)
{
	static const char *const code[] = {
#define X(n) #n,
		ZN_CODES(X)
#undef X
	};
	const struct zn_serve *s = t->view->serve;
	struct labels l;

	family(t, m);
	for (uint32_t i = 0; s && i < (ZN_ROUTES_MAX + 1) * ZN_CODE_COUNT; i++) {
		uint32_t route = i / ZN_CODE_COUNT;

		if (s->requests[route][i % ZN_CODE_COUNT] == 0)
			continue;
		labels_begin(&l);
		label(&l, "path", route < ZN_ROUTES_MAX ? s->routes[route].path : "other");
		label(&l, "code", code[i % ZN_CODE_COUNT]);
		series_u64(t, m, &l, s->requests[route][i % ZN_CODE_COUNT]);
	}
}

static void emit_connections(struct text *t, const struct metric *m)
{
	family(t, m);
	series_one(t, m, t->view->serve ? t->view->serve->conn_count : 0);
}

static void emit_clients(struct text *t, const struct metric *m)
{
	family(t, m);
	series_one(t, m, t->view->serve ? t->view->serve->ws_count : 0);
}

static void one_scaled(struct text *t, const struct metric *m, uint64_t v, int decimals)
{
	struct labels none;

	family(t, m);
	labels_begin(&none);
	series_scaled(t, m, &none, v, decimals);
}

static void emit_render(struct text *t, const struct metric *m)
{
	one_scaled(t, m, t->view->render_ns, 9);
}

static void emit_cpu(struct text *t, const struct metric *m)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	one_scaled(t, m, ts.tv_sec * ZN_NS_PER_S + ts.tv_nsec, 9);
}

static void emit_resident(struct text *t, const struct metric *m)
{
	family(t, m);
	series_one(t, m, t->view->resident_bytes);
}

static void emit_fds(struct text *t, const struct metric *m)
{
	family(t, m);
	series_one(t, m, t->view->open_fds);
}

static void emit_start(struct text *t, const struct metric *m)
{
	one_scaled(t, m, t->view->start_wall_ms, 3);
}

static const struct share_field used = {offsetof(struct zn_proc_gpu, used_bytes), 1, NULL, {0}, true};
static const struct share_field peak = {offsetof(struct zn_proc_gpu, peak_bytes), 1, NULL, {0}, true};
static const struct share_field alloc_calls = {offsetof(struct zn_proc_gpu, alloc_calls), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false};
static const struct share_field alloc_bytes = {offsetof(struct zn_proc_gpu, alloc_bytes), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false};
static const struct share_field free_calls = {offsetof(struct zn_proc_gpu, free_calls), 1, NULL, {0}, false};
static const struct share_field failures = {
	offsetof(struct zn_proc_gpu, fail_oom), 2, "reason", {"oom", "other"}, false};

static const struct counts launches = {ZN_C_LAUNCH_KERNEL, 4, "kind", {"kernel", "graph", "cooperative", "captured"}};
static const struct counts launch_errors = {ZN_C_LAUNCH_ERRORS, 1, NULL, {0}};
static const struct counts copy_bytes = {ZN_C_COPY_BYTES_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}};
static const struct counts copy_calls = {ZN_C_COPY_CALLS_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}};

static const struct durations launch = {ZN_H_LAUNCH, ZN_H_LAUNCH, NULL, true};
static const struct durations collective = {ZN_H_NCCL_ALL_REDUCE, ZN_H_NCCL_RECV, "op", false};
static const struct durations dataloader = {ZN_H_DATALOAD, ZN_H_DATALOAD, NULL, true};
static const struct durations sync_calls = {ZN_H_SYNC_STREAM, ZN_H_SYNC_FREE, "call", true};
static const struct durations group = {ZN_H_NCCL_GROUP, ZN_H_NCCL_GROUP, NULL, true};
static const struct durations comm_init = {ZN_H_NCCL_INIT, ZN_H_NCCL_INIT, NULL, true};

static const size_t nccl_calls = offsetof(struct zn_hist, calls);
static const size_t nccl_bytes = offsetof(struct zn_hist, bytes);
static const size_t nccl_errors = offsetof(struct zn_hist, errors);

static const bool entries = false, limit = true;

static const struct metric table[] = {
	{"zernel_gpu_memory_used_bytes", GAUGE, "pid,gpu_id", emit_shares, &used,
		"GPU memory that a process has reserved from the driver and not freed; without the CUDA context itself, loaded modules, and pinned host memory."},
	{"zernel_gpu_memory_peak_bytes", GAUGE, "pid,gpu_id", emit_shares, &peak,
		"Highest GPU memory use of a process since its first call."},
	{"zernel_cuda_launch_latency_seconds", SUMMARY, "pid,quantile", emit_durations, &launch,
		"Host time from entry to return of a call that launches a kernel or a graph, since the process started; the time that the probes add is taken out."},
	{"zernel_nccl_collective_duration_seconds", SUMMARY, "op,quantile", emit_durations, &collective,
		"Host time in an NCCL operation, of all processes since the daemon started. A collective enqueues and returns: this is not the time it takes on the GPU."},
	{"zernel_dataloader_wait_seconds", SUMMARY, "pid,quantile", emit_durations, &dataloader,
		"Time that the training thread waits for a batch."},
	{"zernel_gpu_memory_total_bytes", GAUGE, "gpu_id", emit_gpus, &gpu_total,
		"Memory of a GPU as the driver reports it to the processes; absent until one of them asked."},
	{"zernel_gpu_memory_used_ratio", GAUGE, "gpu_id", emit_gpus, &gpu_ratio,
		"Memory used by all processes of a GPU, as a share of its total. Managed memory may exceed 1."},
	{"zernel_gpu_alloc_calls_total", COUNTER, "pid,gpu_id,kind", emit_shares, &alloc_calls,
		"Successful GPU memory allocations."},
	{"zernel_gpu_alloc_bytes_total", COUNTER, "pid,gpu_id,kind", emit_shares, &alloc_bytes,
		"Bytes of successful GPU memory allocations."},
	{"zernel_gpu_free_calls_total", COUNTER, "pid,gpu_id", emit_shares, &free_calls,
		"Successful frees of memory whose allocation was seen; of VMM memory, when its last reference went."},
	{"zernel_gpu_alloc_failures_total", COUNTER, "pid,gpu_id,reason", emit_shares, &failures,
		"Failed GPU memory allocations; oom: the driver answered out of memory."},
	{"zernel_gpu_host_pinned_bytes", GAUGE, "pid", emit_pinned, NULL,
		"Pinned host memory that a process has reserved through the driver."},
	{"zernel_gpu_info", GAUGE, "gpu_id,uuid,pci,minor", emit_gpus, &gpu_info,
		"Always 1; the identity of a GPU. gpu_id is its index in PCI order."},
	{"zernel_cuda_launches_total", COUNTER, "pid,kind", emit_counts, &launches,
		"Calls that launch a kernel or replay a graph; captured: recorded into a graph, not run."},
	{"zernel_cuda_launch_errors_total", COUNTER, "pid", emit_counts, &launch_errors,
		"Launches that returned an error."},
	{"zernel_cuda_sync_seconds", SUMMARY, "pid,call,quantile", emit_durations, &sync_calls,
		"Time the host spends in a call that waits for the GPU, since the process started."},
	{"zernel_cuda_memcpy_bytes_total", COUNTER, "pid,direction", emit_counts, &copy_bytes,
		"Bytes of copies: of blocking ones when they succeed, of asynchronous ones when they are asked for."},
	{"zernel_cuda_memcpy_calls_total", COUNTER, "pid,direction", emit_counts, &copy_calls,
		"Copies: blocking ones when they succeed, asynchronous ones when they are asked for."},
	{"zernel_nccl_calls_total", COUNTER, "pid,op", emit_nccl, &nccl_calls, "NCCL operations of this rank."},
	{"zernel_nccl_bytes_total", COUNTER, "pid,op", emit_nccl, &nccl_bytes,
		"Bytes of NCCL operations on this rank: elements times their size, as the call's arguments have them."},
	{"zernel_nccl_errors_total", COUNTER, "pid,op", emit_nccl, &nccl_errors,
		"NCCL operations that returned an error."},
	{"zernel_nccl_group_seconds", SUMMARY, "pid,quantile", emit_durations, &group,
		"Time from the outermost ncclGroupStart to its ncclGroupEnd."},
	{"zernel_nccl_comm_init_seconds", SUMMARY, "pid,quantile", emit_durations, &comm_init,
		"Time in the creation of a communicator, which waits for the other ranks."},
	{"zernel_nccl_rank_info", GAUGE, "pid,comm,rank,nranks", emit_ranks, NULL,
		"Always 1; the rank of a process in a communicator. comm is equal on all ranks."},
	{"zernel_alert_state", GAUGE, "alert,severity", emit_alerts, NULL, "0 inactive, 1 pending, 2 firing."},
	{"zernel_build_info", GAUGE, "version,commit,source", emit_build, NULL,
		"Always 1; source is live, or simulated for invented data."},
	{"zernel_kernel_info", GAUGE, "release", emit_kernel, NULL, "Always 1; the running kernel."},
	{"zernel_probe_attached", GAUGE, "family,symbol,library", emit_attached, NULL,
		"1 if the function is hooked in that library, 0 if it is missing there or could not be hooked."},
	{"zernel_probe_hits_total", COUNTER, "family", emit_hits, NULL, "Hooked calls."},
	{"zernel_probe_bias_seconds", SUMMARY, "first_instruction,quantile", emit_bias, NULL,
		"What the probes themselves add to a measured interval, calibrated at start; the median is taken out of each. It depends on how the kernel executes the first instruction of a function."},
	{"zernel_probe_run_seconds_total", COUNTER, "program", emit_run, NULL,
		"Time in each BPF program; there only while the kernel keeps statistics (sysctl kernel.bpf_stats_enabled)."},
	{"zernel_probe_duty_ratio", GAUGE, "family", emit_duty, NULL,
		"CPU time that all processes spent in our probes over the last tick, in cores: calls at their calibrated cost."},
	{"zernel_overhead_ratio", GAUGE, "pid", emit_overhead, NULL,
		"Share of one core that a process spent in our probes over the last tick: calls at their calibrated cost."},
	{"zernel_lost_total", COUNTER, "what", emit_lost, NULL, "Things that could not be counted or delivered."},
	{"zernel_table_entries", GAUGE, "table", emit_tables, &entries, "Entries in use of a fixed table."},
	{"zernel_table_limit", GAUGE, "table", emit_tables, &limit, "Size of a fixed table."},
	{"zernel_http_requests_total", COUNTER, "path,code", emit_requests, NULL, "Requests answered."},
	{"zernel_http_connections", GAUGE, "", emit_connections, NULL, "Open connections, WebSocket clients included."},
	{"zernel_ws_clients", GAUGE, "", emit_clients, NULL, "WebSocket clients."},
	{"zernel_scrape_render_seconds", GAUGE, "", emit_render, NULL,
		"Time it took to render the scrape before this."},
	{"process_cpu_seconds_total", COUNTER, "", emit_cpu, NULL, "CPU time of the daemon."},
	{"process_resident_memory_bytes", GAUGE, "", emit_resident, NULL, "Resident memory of the daemon."},
	{"process_open_fds", GAUGE, "", emit_fds, NULL, "Open file descriptors of the daemon."},
	{"process_start_time_seconds", GAUGE, "", emit_start, NULL, "Start of the daemon since the epoch."},
};

void zn_metrics_text(struct zn_out *o, struct zn_view *v, bool openmetrics)
{
	struct text t = {.out = o, .view = v, .openmetrics = openmetrics};
	uint64_t start = zn_now_ns();

	zn_agg_refresh(v->agg);
	for (size_t i = 0; i < ZN_LEN(table); i++)
		table[i].emit(&t, &table[i]);
	if (openmetrics)
		zn_out_text(o, "# EOF\n");
	v->render_ns = zn_now_ns() - start;
}

void zn_metrics_list(FILE *to)
{
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "%s{%s} %s\n    %s\n", table[i].name, table[i].labels, type_name(&table[i]), table[i].help);
}

static const char docs_head[] =
	"# Metrics\n\nMade by `make docs` from the table in `metrics.c`; do not edit.\n\n"
	"Each summary has a twin histogram, `<name without _seconds>_hist_seconds`, with `le` at powers of 4 "
	"from 1.024e-06 "
	"(4^5 ns) to 68.719476736 s (4^18 ns): its buckets are exact and can be added up across nodes. A "
	"quantile is within "
	"3.2 % of the exact one from 128 ns on.\n\n"
	"A series of a process appears with its first event and goes when the process has ended.\n\n"
	"| metric | type | labels | meaning |\n|---|---|---|---|\n";
static const char docs_lost[] =
	"\n## What can be lost\n\n`zernel_lost_total{what=...}`: all of them stay 0 on a healthy node.\n\n"
	"| what | meaning |\n|---|---|\n";

void zn_metrics_docs(FILE *to)
{
	fputs(docs_head, to);
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "| `%s` | %s | %s | %s |\n", table[i].name, type_name(&table[i]), table[i].labels,
			table[i].help);
	fputs(docs_lost, to);
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++)
		fprintf(to, "| `%s` | %s |\n", zn_loss_label(i), zn_loss_help(i));
}
