/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The table of metrics, and its forms: Prometheus text 0.0.4, OpenMetrics 1.0, values one by one for whoever has a form of
 * their own, the list of --list-metrics, and docs/METRICS.md. A metric is one row; nothing else names it.
 */
#include "zernel.h"
#include <string.h>
#include <time.h>

#define COUNTER ZN_METRIC_COUNTER
#define GAUGE   ZN_METRIC_GAUGE
#define INFO    ZN_METRIC_INFO
#define SUMMARY ZN_METRIC_SUMMARY

struct text;
struct metric {
	const char *name;
	enum zn_metric_type type;
	const char *labels;
	void (*emit)(struct text *t);
	const void *arg; /* of emit */
	const char *help;
};

/* What the processes of a job did, those that have gone included. */
#define SUMMED_FIRST ZN_C_SWITCH_VOLUNTARY
#define SUMMED_LAST  ZN_C_TCP_RETRANSMITS
struct job_sum {
	uint64_t launches, nccl_bytes;
	uint64_t count[SUMMED_LAST - SUMMED_FIRST + 1]; /* by enum zn_count, from the first on */
};

/* A walk: instead of lines of a page, each series becomes a value. */
struct walk {
	struct zn_sample sample; /* of the series at hand */
	void (*visit)(void *to, const struct zn_sample *s);
	void *to;
};

/* A page as it is written. A series is its labels, written once; further lines of it copy them from there. */
struct text {
	struct zn_out *out; /* in a walk: scratch for the numbers among the labels of one series */
	struct walk *walk;  /* NULL: a page is written */
	struct zn_view *view;
	bool openmetrics;
	const struct metric *metric;  /* whose family is at hand */
	struct zn_str name, base;     /* of its samples; without _total */
	size_t labels, labels_len;    /* of the series at hand: where they begin in out, without the closing bracket */
	uint64_t since_ms;            /* 1970: when the series at hand began to count */
	const char *job_id;           /* its last label; NULL or empty: it has none */
	bool jobs_taken, jobs_summed; /* what is in `jobs` is there */
};

static void put(struct zn_out *o, struct zn_str s)
{
	zn_out_bytes(o, s.at, s.len);
}

static struct zn_str str(const char *text)
{
	return (struct zn_str){text, strlen(text)};
}

static bool ends_in(struct zn_str name, const char *end)
{
	size_t len = strlen(end);

	return name.len > len && !memcmp(name.at + name.len - len, end, len);
}

static void comment(struct zn_out *o, const char *what, struct zn_str name, const char *text)
{
	zn_out_text(o, what);
	put(o, name);
	zn_out_char(o, ' ');
	zn_out_text(o, text);
	zn_out_char(o, '\n');
}

const char *zn_metrics_unit(struct zn_str name)
{
	static const char *const units[] = {"seconds", "bytes", "ratio"};

	if (ends_in(name, "_total"))
		name.len -= strlen("_total");
	for (size_t i = 0; i < ZN_LEN(units); i++)
		if (ends_in(name, units[i]))
			return units[i];
	return NULL;
}

/* The help texts of the table need no escapes in either format, and a test holds them to it. */
static void head(const struct text *t, struct zn_str name, const char *type, const char *help)
{
	const char *unit = t->openmetrics ? zn_metrics_unit(name) : NULL;

	comment(t->out, "# HELP ", name, help);
	comment(t->out, "# TYPE ", name, type);
	if (unit)
		comment(t->out, "# UNIT ", name, unit);
}

static const char *type_name(enum zn_metric_type type)
{
	static const char *const name[] = {"counter", "gauge", "info", "summary"};

	return name[type];
}

/* Opens a family. OpenMetrics names one without the _total or _info of its samples, and text 0.0.4 knows no info. */
static void family(struct text *t, const struct metric *m)
{
	struct zn_str name = str(m->name);

	t->metric = m;
	t->name = t->base = name;
	t->since_ms = t->view->start_wall_ms;
	if (t->walk) {
		t->walk->sample = (struct zn_sample){
			.metric = m->name, .help = m->help, .type = m->type, .value = __builtin_nan("")};
		return;
	}
	if (m->type == COUNTER)
		t->base.len -= strlen("_total");
	if (t->openmetrics && m->type == COUNTER)
		name.len -= strlen("_total");
	if (t->openmetrics && m->type == INFO)
		name.len -= strlen("_info");
	head(t, name, type_name(m->type == INFO && !t->openmetrics ? GAUGE : m->type), m->help);
}

/* Begins the first line of a series. Its labels follow, then its value. */
static void series(struct text *t)
{
	t->job_id = NULL;
	if (t->walk) {
		t->walk->sample.label_count = 0;
		t->out->len = 0;
		return;
	}
	put(t->out, t->name);
	t->labels = t->out->len;
}

static void walk_label(struct walk *w, const char *name, struct zn_str value)
{
	if (w->sample.label_count < ZN_LABELS_MAX)
		w->sample.label[w->sample.label_count++] = (struct zn_label){str(name), value};
}

/* The labels are there, and the value, or what it is taken from. */
static void walk_end(struct text *t)
{
	t->walk->sample.since_ms = t->since_ms;
	t->walk->visit(t->walk->to, &t->walk->sample);
}

/* What separates a label from what was written before: a value ends in a quote, and a name does not. */
static void separate(struct zn_out *o)
{
	zn_out_char(o, o->len && o->at[o->len - 1] == '"' ? ',' : '{');
}

static void label_name(struct text *t, const char *name)
{
	separate(t->out);
	zn_out_text(t->out, name);
	zn_out_text(t->out, "=\"");
}

/* A number comes between these two; where it begins is handed from one to the other. */
static size_t number_begin(struct text *t, const char *name)
{
	if (!t->walk)
		label_name(t, name);
	return t->out->len;
}

static void number_end(struct text *t, const char *name, size_t at)
{
	if (t->walk)
		walk_label(t->walk, name, (struct zn_str){t->out->at + at, t->out->len - at});
	else
		zn_out_char(t->out, '"');
}

/* A value of our own words, which needs no escapes. */
static void label_word(struct text *t, const char *name, const char *word)
{
	if (t->walk) {
		walk_label(t->walk, name, str(word));
		return;
	}
	label_name(t, name);
	zn_out_text(t->out, word);
	zn_out_char(t->out, '"');
}

/* Any bytes. Escapes what the format knows (backslash, quote, newline) on top of what UTF-8 demands. */
static void escaped(struct zn_out *o, const char *text)
{
	for (;;) {
		size_t plain = strcspn(text, "\\\"\n");

		zn_out_utf8(o, text, plain);
		text += plain;
		if (!*text)
			return;
		zn_out_char(o, '\\');
		zn_out_char(o, *text == '\n' ? 'n' : *text);
		text++;
	}
}

static void label(struct text *t, const char *name, const char *text)
{
	if (t->walk) {
		walk_label(t->walk, name, str(text));
		return;
	}
	label_name(t, name);
	escaped(t->out, text);
	zn_out_char(t->out, '"');
}

static void label_u64(struct text *t, const char *name, uint64_t v)
{
	size_t at = number_begin(t, name);

	zn_out_u64(t->out, v);
	number_end(t, name, at);
}

static void label_hex(struct text *t, const char *name, uint64_t v)
{
	size_t at = number_begin(t, name);

	zn_out_hex(t->out, v, 16);
	number_end(t, name, at);
}

/* A whole label that was made before, of this name and text. */
static void label_made(struct text *t, struct zn_str made, const char *name, const char *text)
{
	if (t->walk) {
		walk_label(t->walk, name, str(text));
		return;
	}
	separate(t->out);
	put(t->out, made);
}

/* The labels that all lines of the series share are written, but for the job's. */
static void labels_end(struct text *t)
{
	if (t->job_id && *t->job_id)
		label(t, "job_id", t->job_id);
	if (!t->walk)
		t->labels_len = t->out->len - t->labels;
}

/* One more line of the series. */
static void again(struct text *t, const char *suffix)
{
	struct zn_out *o = t->out;

	put(o, t->base);
	zn_out_text(o, suffix);
	if (!o->full) /* else they were not all written */
		zn_out_bytes(o, o->at + t->labels, t->labels_len);
}

static void before_value(struct zn_out *o)
{
	if (o->len && o->at[o->len - 1] == '"')
		zn_out_char(o, '}');
	zn_out_char(o, ' ');
}

static void value_u64(struct text *t, uint64_t v)
{
	before_value(t->out);
	zn_out_u64(t->out, v);
	zn_out_char(t->out, '\n');
}

static void value_scaled(struct text *t, uint64_t v, int decimals)
{
	before_value(t->out);
	zn_out_scaled(t->out, v, decimals);
	zn_out_char(t->out, '\n');
}

/* OpenMetrics: when a counter, summary or histogram was 0. */
static void created(struct text *t)
{
	if (!t->openmetrics)
		return;
	again(t, "_created");
	value_scaled(t, t->since_ms, 3);
}

static void end_u64(struct text *t, uint64_t v)
{
	labels_end(t);
	if (t->walk) {
		t->walk->sample.value = (double)v;
		walk_end(t);
		return;
	}
	value_u64(t, v);
	if (t->metric->type == COUNTER)
		created(t);
}

/* As a value it is the double that is nearest, as long as v is below 2^53: it is exact then, and so is 10^12. The
 * decimals are 0, 3, 6, 9 or 12. */
static void end_scaled(struct text *t, uint64_t v, int decimals)
{
	static const double power10[] = {1, 1e3, 1e6, 1e9, 1e12};

	labels_end(t);
	if (t->walk) {
		t->walk->sample.value = (double)v / power10[decimals / 3];
		walk_end(t);
		return;
	}
	value_scaled(t, v, decimals);
	if (t->metric->type == COUNTER)
		created(t);
}

/* A gauge that may be below 0, in thousandths. */
static void end_signed(struct text *t, int32_t v)
{
	labels_end(t);
	if (t->walk) {
		t->walk->sample.value = v / 1e3;
		walk_end(t);
		return;
	}
	before_value(t->out);
	if (v < 0)
		zn_out_char(t->out, '-');
	zn_out_scaled(t->out, (uint64_t)(v < 0 ? -(int64_t)v : v), 3);
	zn_out_char(t->out, '\n');
}

/* The one series of a family without labels. */
static void one_u64(struct text *t, uint64_t v)
{
	series(t);
	end_u64(t, v);
}

static void one_scaled(struct text *t, uint64_t v, int decimals)
{
	series(t);
	end_scaled(t, v, decimals);
}

static const struct zn_proc *proc_at(struct text *t, uint32_t r)
{
	return zn_arena_proc(t->view->agg->arena, t->view->agg->row[r]);
}

#define EACH_PROC(t, r, p)                                                                                             \
	for (uint32_t r = 0; r < (t)->view->agg->row_count; r++)                                                       \
		if ((p = proc_at(t, r)))

static uint64_t wall_ms(const struct zn_view *v, uint64_t ns)
{
	int64_t after_ns = (int64_t)(ns - v->start_ns);

	return v->start_wall_ms + (uint64_t)(after_ns / (int64_t)ZN_NS_PER_MS);
}

static const char *job_id(struct text *t, const struct zn_proc *p)
{
	return t->view->jobs && p ? zn_job_id(t->view->jobs, p) : NULL;
}

/* A series of a process begins with its first hooked call. */
static void proc_series(struct text *t, const struct zn_proc *p)
{
	series(t);
	label_u64(t, "pid", p->tgid);
	t->job_id = job_id(t, p);
	t->since_ms = wall_ms(t->view, p->first_ns);
}

/* A run of counters that differ in one label; a series appears with its first event. */
struct counts {
	enum zn_count first;
	uint32_t count;
	const char *label;
	const char *value[5];
	int decimals; /* as of end_scaled() */
};

static void emit_counts(struct text *t)
{
	const struct counts *c = t->metric->arg;
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		for (uint32_t i = 0; i < c->count; i++) {
			uint64_t v = p->count[c->first + i];

			if (v == 0)
				continue;
			proc_series(t, p);
			if (c->label)
				label_word(t, c->label, c->value[i]);
			end_scaled(t, v, c->decimals);
		}
	}
}

/* A field of struct zn_rates; it appears with the first event of one of its counters. */
struct rate {
	size_t offset;
	enum zn_count first, last;
};

static void emit_rates(struct text *t)
{
	const struct rate *f = t->metric->arg;
	struct zn_agg *agg = t->view->agg;
	const struct zn_proc *p;
	struct zn_rates rates;

	EACH_PROC(t, r, p)
	{
		uint64_t v, events = 0;

		for (enum zn_count i = f->first; i <= f->last; i++)
			events += p->count[i];
		zn_signals_rates(t->view->signals, agg->row[r], p->id, &rates);
		v = *(const uint64_t *)((const char *)&rates + f->offset);
		if (events == 0 || v == ZN_NOT_KNOWN)
			continue;
		proc_series(t, p);
		end_scaled(t, v, 3);
	}
}

/* A field of struct zn_signals, once a GPU's driver was called. */
static void emit_gpu_calls(struct text *t)
{
	const struct zn_signals *s = t->view->signals;

	if (s && s->gpu.busy_ns)
		one_scaled(t, *(const uint64_t *)((const char *)s + *(const size_t *)t->metric->arg), 9);
}

static void emit_contention(struct text *t)
{
	uint64_t v = zn_signals_contention(t->view->signals);

	if (v != ZN_NOT_KNOWN)
		one_scaled(t, v, 6);
}

static bool had_memory(const struct zn_proc *p)
{
	uint64_t peak = 0;

	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++)
		peak |= p->gpu[o].peak_bytes;
	return peak;
}

static bool had_pinned(const struct zn_proc *p)
{
	uint64_t calls = 0;

	for (uint32_t o = 0; o <= ZN_PROC_GPUS; o++)
		calls |= p->gpu[o].alloc_calls[ZN_K_HOST];
	return calls || p->count[ZN_C_HOST_PINNED];
}

static void emit_memory_complete(struct text *t)
{
	const struct zn_agg *agg = t->view->agg;
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		uint8_t ledger = agg->info[agg->row[r]].ledger;

		if (ledger == ZN_LEDGER_UNKNOWN || (ledger == ZN_LEDGER_WHOLE && !had_pinned(p) && !had_memory(p)))
			continue;
		proc_series(t, p);
		end_u64(t, ledger == ZN_LEDGER_WHOLE);
	}
}

/* A gauge stays when it is back at 0, but does not appear before there was something. */
static void emit_pinned(struct text *t)
{
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		if (!had_pinned(p) || !zn_agg_memory_known(t->view->agg, t->view->agg->row[r]))
			continue;
		proc_series(t, p);
		end_u64(t, p->count[ZN_C_HOST_PINNED]);
	}
}

static void emit_stalls(struct text *t)
{
	const struct zn_proc *p;
	struct zn_shares shares;

	EACH_PROC(t, r, p)
	{
		if (!zn_wait_shares(t->view, t->view->agg->row[r], &shares))
			continue;
		for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++) {
			if (!shares.known[s])
				continue;
			proc_series(t, p);
			label_word(t, "cause", zn_stall_label(s));
			end_scaled(t, shares.share[s], 9);
		}
	}
}

static void emit_workers(struct text *t)
{
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		if (!zn_wait_loader(t->view, t->view->agg->row[r]))
			continue;
		proc_series(t, p);
		end_u64(t, p->count[ZN_C_WORKERS]);
	}
}

static void emit_worker_time(struct text *t)
{
	static const char *const state[] = {"busy", "idle"};
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		if (!zn_wait_loader(t->view, t->view->agg->row[r]))
			continue;
		for (uint32_t i = 0; i < ZN_LEN(state); i++) {
			if (p->count[ZN_C_WORKER_BUSY_NS + i] == 0)
				continue;
			proc_series(t, p);
			label_word(t, "state", state[i]);
			end_scaled(t, p->count[ZN_C_WORKER_BUSY_NS + i], 9);
		}
	}
}

/* One field of struct zn_proc_gpu, per GPU of each process. */
struct share_field {
	size_t offset;
	uint32_t count; /* of consecutive fields that differ in one label */
	const char *label;
	const char *value[ZN_KIND_COUNT];
	bool always; /* shown also while it is 0 */
	bool ledger; /* of what the process holds: not shown where that was not seen as a whole */
};

static void emit_shares(struct text *t)
{
	const struct share_field *f = t->metric->arg;
	struct zn_share share[ZN_PROC_GPUS + 1];
	struct zn_agg *agg = t->view->agg;
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		size_t n = zn_agg_shares(agg, agg->row[r], share);

		for (size_t i = 0; i < n * f->count; i++) {
			const struct zn_share *s = &share[i / f->count];
			uint64_t v = ((const uint64_t *)((const char *)&s->sum + f->offset))[i % f->count];

			if ((v == 0 && !(f->always && s->sum.peak_bytes)) || (f->ledger && s->partial))
				continue;
			proc_series(t, p);
			label(t, "gpu_id", agg->gpus.gpu[s->gpu].id);
			if (f->label)
				label_word(t, f->label, f->value[i % f->count]);
			end_u64(t, v);
		}
	}
}

/* NULL in its place: durations of file I/O, by job, mount and operation. */
struct durations {
	enum zn_detail first, last;
	const char *label; /* whose value is the detail's name; NULL: none */
	bool by_pid;       /* false: all processes together, those that have gone included */
};

/* A series of durations, taken at one moment for both of its families. */
struct taken {
	const struct zn_proc *proc; /* NULL: all */
	const struct zn_flow *flow; /* of file I/O instead, and its op; NULL: none */
	int detail;                 /* enum zn_detail, or enum zn_io_op */
	const struct zn_skew *skew; /* NULL: it is a process's, or all processes' */
	struct zn_spread spread;
};
/* Scratch: pages are rendered one after the other. Each entry of a process stands for a histogram of its own. */
static struct taken taken[ZN_HISTS_MAX + ZN_IO_MAX];

/* NULL: there is nothing to show. */
static const struct zn_hist *durations_of(struct text *t, const struct zn_proc *p, enum zn_detail i)
{
	struct zn_agg *agg = t->view->agg;
	const struct zn_hist *h = p ? zn_arena_hist(agg->arena, p->hist[i]) : zn_agg_merge(agg, i);

	return h && h->calls ? h : NULL;
}

/* ---- File I/O. ---- */

/* The flows that are shown, each for every operation of it. */
#define EACH_FLOW(t, i, f)                                                                                             \
	for (uint32_t i = 0; io_measured(t) && i < (t)->view->flows->high; i++)                                        \
		if ((f = flow_at(t, i)))

static bool io_measured(const struct text *t)
{
	return t->view->flows &&
		(zn_agg_measures(t->view->agg, ZN_FAM_VFS) || zn_agg_measures(t->view->agg, ZN_FAM_META));
}

static const struct zn_flow *flow_at(const struct text *t, uint32_t i)
{
	const struct zn_flow *f = &t->view->flows->flow[i];

	return f->used && zn_flow_job(t->view->flows, f) ? f : NULL;
}

/* The label job_id is always there: what is of no job has an empty one. */
static void flow_series(struct text *t, const struct zn_flow *f, bool fstype)
{
	const struct zn_job *job = f->job.serial ? zn_jobs_at(t->view->jobs, f->job) : NULL;

	series(t);
	label(t, "job_id", job ? job->id : "");
	label(t, "mount", f->point);
	if (fstype)
		label(t, "fstype", f->fstype);
	if (job && job->start_wall_ms > t->view->start_wall_ms)
		t->since_ms = job->start_wall_ms;
	else
		t->since_ms = t->view->start_wall_ms;
}

static void emit_io_bytes(struct text *t)
{
	enum zn_io_op op = *(const enum zn_io_op *)t->metric->arg;
	const struct zn_flow *f;

	EACH_FLOW(t, i, f)
	{
		struct zn_flow_sum sum = zn_flow_sum(t->view->flows, f, op);

		if (!sum.calls && !sum.bytes) /* some kernels tell bytes of faults, but not how many there were */
			continue;
		flow_series(t, f, true);
		end_u64(t, sum.bytes);
	}
}

/* A field of struct zn_flow_sum of every operation. */
static void emit_io_ops(struct text *t)
{
	size_t offset = *(const size_t *)t->metric->arg;
	const struct zn_flow *f;

	EACH_FLOW(t, i, f)
	{
		for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
			struct zn_flow_sum sum = zn_flow_sum(t->view->flows, f, op);
			uint64_t v = *(const uint64_t *)((const char *)&sum + offset);

			if (!v)
				continue;
			flow_series(t, f, true);
			label_word(t, "op", zn_io_label(op));
			end_u64(t, v);
		}
	}
}

/* Operations whose duration is not known have none. */
static const struct zn_hist *io_durations(struct text *t, const struct zn_flow *f, enum zn_io_op op)
{
	const struct zn_hist *h = f->op[op].first ? zn_flow_merge(t->view->flows, f, op, true) : NULL;

	return h && zn_hist_count(h) ? h : NULL;
}

/* ---- Durations of file I/O are most of a page where there are thousands of series, with names as long as users like. ---- */

#define LINES_OF_DURATIONS 24        /* of one series, in both families */
#define BYTES_OF_LINE      128       /* at most, besides the name of the mount */
#define ROOM_AFTER         (3 << 20) /* for what follows on the page */

static int32_t bytes_of_durations(const struct zn_flow *f)
{
	size_t name = 0, series = 0;

	for (const char *c = f->point; *c; c++)
		name += 1 + (*c == '"' || *c == '\\' || *c == '\n');
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++)
		series += f->op[op].first != 0;
	return (int32_t)(series * LINES_OF_DURATIONS * (name + BYTES_OF_LINE));
}

/* Whose part of the page it takes. */
static struct zn_quota_owner *owner_of(struct zn_quota *all, const struct zn_flow *f)
{
	return zn_quota_owner(all, f->job.serial ? ZN_OWNER_JOB(f->job.slot) : f->owner);
}

static int64_t sum_within(const struct zn_quota *all, int32_t share)
{
	int64_t sum = all->rest.held < share ? all->rest.held : share;

	for (uint32_t i = 0; i < ZN_QUOTA_OWNERS; i++)
		sum += all->row[i].held < share ? all->row[i].held : share;
	return sum;
}

/* Bytes that the durations of each owner may take, so that the page holds those of all: who takes little is not cut. */
static int32_t share_of_page(struct text *t)
{
	static struct zn_quota all;
	size_t used = t->out->len + ROOM_AFTER;
	int32_t room = t->out->cap > used ? (int32_t)(t->out->cap - used) : 0, share = INT32_MAX;
	const struct zn_flow *f;

	memset(&all, 0, sizeof(all));
	EACH_FLOW(t, i, f)
	{
		owner_of(&all, f)->held += bytes_of_durations(f);
	}
	if (sum_within(&all, share) <= room)
		return share;
	for (share = room; share && sum_within(&all, share) > room;)
		share -= share / 16 + 1;
	return share;
}

static size_t take_flow(struct text *t, const struct zn_flow *f, size_t n)
{
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT && n < ZN_LEN(taken); op++) {
		const struct zn_hist *h = io_durations(t, f, op);

		if (!h)
			continue;
		taken[n] = (struct taken){.flow = f, .detail = op};
		zn_hist_spread(h, &taken[n++].spread);
	}
	return n;
}

static size_t take_io(struct text *t)
{
	static struct zn_quota taken_by;
	int32_t share = share_of_page(t);
	const struct zn_flow *f;
	size_t n = 0;

	memset(&taken_by, 0, sizeof(taken_by));
	EACH_FLOW(t, i, f)
	{
		struct zn_quota_owner *o = owner_of(&taken_by, f);
		int32_t bytes = bytes_of_durations(f);

		if (bytes > share - o->held) {
			t->view->agg->arena->shared->lost[ZN_LOST_TRUNCATED]++;
			continue;
		}
		o->held += bytes;
		n = take_flow(t, f, n);
	}
	return n;
}

static void io_duration_labels(struct text *t, const struct zn_flow *f, enum zn_io_op op)
{
	flow_series(t, f, false);
	label_word(t, "op", zn_io_label(op));
	labels_end(t);
}

static void walk_io(struct text *t)
{
	const struct zn_flow *f;

	EACH_FLOW(t, i, f)
	{
		for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
			t->walk->sample.hist = io_durations(t, f, op);
			if (!t->walk->sample.hist)
				continue;
			io_duration_labels(t, f, op);
			walk_end(t);
		}
	}
}

static size_t take_of(struct text *t, const struct durations *d, const struct zn_proc *p, size_t n)
{
	for (enum zn_detail i = d->first; i <= d->last && n < ZN_LEN(taken); i++) {
		const struct zn_hist *h = durations_of(t, p, i);

		if (!h)
			continue;
		taken[n].proc = p;
		taken[n].flow = NULL;
		taken[n].detail = i;
		taken[n].skew = NULL;
		zn_hist_spread(h, &taken[n++].spread);
	}
	return n;
}

static size_t take(struct text *t, const struct durations *d)
{
	const struct zn_proc *p;
	size_t n = 0;

	if (!d)
		return take_io(t);
	if (!d->by_pid)
		return take_of(t, d, NULL, 0);
	EACH_PROC(t, r, p)
	n = take_of(t, d, p, n);
	return n;
}

static void duration_labels(struct text *t, const struct durations *d, const struct zn_proc *p, enum zn_detail i)
{
	if (p)
		proc_series(t, p);
	else
		series(t);
	if (d->label)
		label_word(t, d->label, zn_detail_label(i));
	labels_end(t);
}

/* Two users' communicators have one hash only if one of them chose it so. */
static bool is_of_two(struct text *t, const struct zn_skew *s)
{
	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *other = zn_arena_skew(t->view->agg->arena, slot);

		if (other && other != s && other->hash == s->hash)
			return true;
	}
	return false;
}

static void skew_labels(struct text *t, const struct zn_skew *s)
{
	size_t at;

	series(t);
	at = number_begin(t, "comm");
	zn_out_hex(t->out, s->hash, 16);
	if (is_of_two(t, s)) {
		zn_out_char(t->out, '-');
		zn_out_u64(t->out, ZN_SKEW_OWNER(s->of));
	}
	number_end(t, "comm", at);
}

static void taken_labels(struct text *t, const struct durations *d, const struct taken *of)
{
	if (of->flow) {
		io_duration_labels(t, of->flow, of->detail);
		return;
	}
	if (!of->skew) {
		duration_labels(t, d, of->proc, of->detail);
		return;
	}
	skew_labels(t, of->skew);
	labels_end(t);
}

static void quantile_line(struct text *t, const char *quantile, uint64_t ns)
{
	label_word(t, "quantile", quantile);
	value_scaled(t, ns, 9);
}

static void sum_and_count(struct text *t, uint64_t sum_ns, uint64_t count)
{
	again(t, "_sum");
	value_scaled(t, sum_ns, 9);
	again(t, "_count");
	value_u64(t, count);
	created(t);
}

static void summary_lines(struct text *t, const struct zn_spread *s)
{
	quantile_line(t, "0.5", s->p50_ns);
	again(t, "");
	quantile_line(t, "0.99", s->p99_ns);
	sum_and_count(t, s->sum_ns, s->le[ZN_LE_COUNT - 1]);
}

/* As the Prometheus libraries print the limits of zn_le_ns(), in seconds, and as OpenMetrics wants them: these strings
 * never change. */
#define LE(v)                                                                                                          \
	{                                                                                                              \
		"le=\"" v "\"} ", sizeof("le=\"" v "\"} ") - 1                                                         \
	}
static const struct zn_str le_label[ZN_LE_COUNT] = {LE("1.024e-06"), LE("4.096e-06"), LE("1.6384e-05"),
	LE("6.5536e-05"), LE("0.000262144"), LE("0.001048576"), LE("0.004194304"), LE("0.016777216"), LE("0.067108864"),
	LE("0.268435456"), LE("1.073741824"), LE("4.294967296"), LE("17.179869184"), LE("68.719476736"), LE("+Inf")};

/* The lines of all buckets begin alike: what the first one begins with, which is there, is copied. */
static void bucket_lines(struct zn_out *o, struct zn_str begin, const uint64_t le[ZN_LE_COUNT])
{
	for (uint32_t i = 0; i < ZN_LE_COUNT && !o->full; i++) {
		if (i)
			put(o, begin);
		put(o, le_label[i]);
		zn_out_u64(o, le[i]);
		zn_out_char(o, '\n');
	}
}

static void histogram_lines(struct text *t, const struct durations *d, const struct taken *of)
{
	struct zn_out *o = t->out;
	size_t at = o->len;

	taken_labels(t, d, of);
	separate(o);
	bucket_lines(o, (struct zn_str){o->at + at, o->len - at}, of->spread.le);
	sum_and_count(t, of->spread.sum_ns, of->spread.le[ZN_LE_COUNT - 1]);
}

static void walk_durations_of(struct text *t, const struct durations *d, const struct zn_proc *p)
{
	for (enum zn_detail i = d->first; i <= d->last; i++) {
		t->walk->sample.hist = durations_of(t, p, i);
		if (!t->walk->sample.hist)
			continue;
		duration_labels(t, d, p, i);
		walk_end(t);
	}
}

static void walk_durations(struct text *t, const struct durations *d)
{
	const struct zn_proc *p;

	if (!d)
		walk_io(t);
	else if (!d->by_pid)
		walk_durations_of(t, d, NULL);
	else
		EACH_PROC(t, r, p)
	walk_durations_of(t, d, p);
}

/* What was taken, as a summary and as its twin, a histogram whose buckets can be added up across nodes. */
static void taken_lines(struct text *t, const struct durations *d, size_t n)
{
	char bucket[96];

	for (size_t i = 0; i < n; i++) {
		taken_labels(t, d, &taken[i]);
		summary_lines(t, &taken[i].spread);
	}
	snprintf(bucket, sizeof(bucket), "%.*s_hist_seconds_bucket", (int)(t->name.len - strlen("_seconds")),
		t->name.at);
	t->name = t->base = str(bucket);
	t->base.len -= strlen("_bucket");
	head(t, t->base, "histogram", t->metric->help);
	for (size_t i = 0; i < n; i++)
		histogram_lines(t, d, &taken[i]);
}

static void emit_durations(struct text *t)
{
	const struct durations *d = t->metric->arg;

	if (t->walk)
		walk_durations(t, d);
	else
		taken_lines(t, d, take(t, d));
}

/* A field of struct zn_hist for each NCCL operation of each process. */
static void emit_nccl(struct text *t)
{
	size_t offset = *(const size_t *)t->metric->arg;
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		for (enum zn_detail i = ZN_H_NCCL_FIRST; i <= ZN_H_NCCL_LAST; i++) {
			const struct zn_hist *h = zn_arena_hist(t->view->agg->arena, p->hist[i]);

			if (!h || !h->calls)
				continue;
			proc_series(t, p);
			label_word(t, "op", zn_detail_label(i));
			end_u64(t, *(const uint64_t *)((const char *)h + offset));
		}
	}
}

#define SEEN (2 * ZN_COMMS_MAX)

/* A program that makes one communicator twice would make two lines alike, which spoils a scrape. seen: indices into
 * all, plus 1, by a hash of what a line shows. True: this one was there. */
static bool seen_before(uint16_t seen[SEEN], const struct zn_comm *all, size_t i)
{
	const struct zn_comm *c = &all[i];
	uint64_t at = (c->hash ^ (uint64_t)c->tgid << 32 ^ c->rank) * 0x9e3779b97f4a7c15ULL >> 32;

	for (at %= SEEN; seen[at]; at = (at + 1) % SEEN) {
		const struct zn_comm *other = &all[seen[at] - 1];

		if (other->hash == c->hash && other->tgid == c->tgid && other->rank == c->rank &&
			other->nranks == c->nranks)
			return true;
	}
	seen[at] = (uint16_t)(i + 1);
	return false;
}

/* NULL: it has no row. */
static const struct zn_proc *proc_of(struct text *t, uint32_t tgid)
{
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	if (p->tgid == tgid)
		return p;
	return NULL;
}

/* Communicators of which two ranks and more are on this node and have issued a collective. */
static const struct zn_skew *skew_shown(struct text *t, uint32_t slot)
{
	const struct zn_skew *s = zn_arena_skew(t->view->agg->arena, slot);

	return s && s->hist && s->members > 1 ? s : NULL;
}

static void emit_skew(struct text *t)
{
	const struct durations none = {0};
	const struct zn_skew *s;
	size_t n = 0;

	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_hist *h =
			(s = skew_shown(t, slot)) ? zn_arena_hist(t->view->agg->arena, s->hist) : NULL;

		if (!h || !h->calls)
			continue;
		if (t->walk) {
			t->walk->sample.hist = h;
			skew_labels(t, s);
			labels_end(t);
			walk_end(t);
			continue;
		}
		taken[n].flow = NULL;
		taken[n].skew = s;
		zn_hist_spread(h, &taken[n++].spread);
	}
	if (!t->walk)
		taken_lines(t, &none, n);
}

/* A process may join a communicator twice as the same rank: the two are one series. False: an earlier member has it. */
static bool lateness_of(const struct text *t, const struct zn_skew *s, uint32_t slot, uint32_t m, uint64_t *ns)
{
	*ns = 0;
	for (uint32_t i = 0; i < ZN_SKEW_RANKS && i < s->members; i++) {
		if (s->member[i].rank != s->member[m].rank)
			continue;
		if (i < m)
			return false;
		*ns += t->view->ranks ? t->view->ranks->late_ns[slot][i] : s->member[i].late_ns;
	}
	return true;
}

static void emit_lateness(struct text *t)
{
	uint64_t ns;

	const struct zn_skew *s;

	for (uint32_t slot = 0; slot < ZN_SKEWS_MAX; slot++) {
		if (!(s = skew_shown(t, slot)))
			continue;
		for (uint32_t m = 0; m < ZN_SKEW_RANKS && m < s->members; m++) {
			if (s->member[m].rank == ZN_UNKNOWN || !lateness_of(t, s, slot, m, &ns))
				continue;
			skew_labels(t, s);
			label_u64(t, "rank", s->member[m].rank);
			end_scaled(t, ns, 9);
		}
	}
}

/* ---- Ranks that others wait for. ---- */

/* The job of a rank whose process has ended is that of those who wait for it. */
static const char *missing_job(struct text *t, const struct zn_skew *s, const struct zn_missing *m)
{
	uint32_t row = s->member[__builtin_ctz(m->waiters)].row;

	return job_id(t, zn_arena_proc(t->view->agg->arena, row));
}

static void missing_series(struct text *t, const struct zn_skew *s, const struct zn_missing *m)
{
	skew_labels(t, s);
	if (m->rank == ZN_UNKNOWN)
		label_word(t, "rank", "unknown");
	else
		label_u64(t, "rank", m->rank);
	label_u64(t, "pid", m->tgid);
	t->job_id = missing_job(t, s, m);
	label_word(t, "doing", zn_doing_label(m->doing));
}

/* A process may join a communicator twice as the same rank: the two are one series. */
static bool missing_again(const struct zn_ranks *k, const struct zn_missing *m)
{
	const struct zn_missing *of = k->missing[m->slot];

	for (uint32_t i = 0; i < m->member; i++)
		if (of[i].tgid == m->tgid && of[i].rank == m->rank && zn_missing_shown(k, &of[i]))
			return true;
	return false;
}

/* arg: the offset of the moment since when, in struct zn_missing. */
static void emit_missing(struct text *t)
{
	const struct zn_ranks *k = t->view->ranks;
	const size_t *since = t->metric->arg;

	for (uint32_t slot = 0; k && slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = zn_arena_skew(t->view->agg->arena, slot);

		for (uint32_t i = 0; s && i < ZN_SKEW_RANKS && i < s->members; i++) {
			const struct zn_missing *m = &k->missing[slot][i];

			if (!zn_missing_shown(k, m) || missing_again(k, m))
				continue;
			missing_series(t, s, m);
			end_scaled(t, k->tick_ns - *(const uint64_t *)((const char *)m + *since), 9);
		}
	}
}

static void emit_longest_wait(struct text *t)
{
	const struct zn_ranks *k = t->view->ranks;

	for (uint32_t slot = 0; k && slot < ZN_SKEWS_MAX; slot++) {
		const struct zn_skew *s = skew_shown(t, slot);

		if (!s)
			continue;
		skew_labels(t, s);
		end_scaled(t, k->longest_ns[slot], 9);
	}
}

static void emit_driver_stuck(struct text *t)
{
	struct zn_agg *a = t->view->agg;

	for (uint32_t r = 0; t->view->progress && r < a->row_count; r++) {
		const struct zn_proc *p = zn_arena_proc(a->arena, a->row[r]);
		uint64_t ns = p ? zn_progress_stuck(t->view->progress, a->row[r], p->id) : 0;

		if (!ns)
			continue;
		series(t);
		label_u64(t, "pid", p->tgid);
		t->job_id = job_id(t, p);
		end_scaled(t, ns, 9);
	}
}

static void emit_ranks(struct text *t)
{
	struct zn_agg *agg = t->view->agg;
	uint16_t seen[SEEN] = {0};
	const struct zn_proc *p = NULL;

	for (size_t i = 0; i < agg->comm_count; i++) {
		const struct zn_comm *c = &agg->comms[i];

		if (c->rank == ZN_UNKNOWN || c->nranks == ZN_UNKNOWN || c->hash == 0 ||
			seen_before(seen, agg->comms, i))
			continue;
		if (!p || p->tgid != c->tgid)
			p = proc_of(t, c->tgid);
		series(t);
		label_u64(t, "pid", c->tgid);
		t->job_id = job_id(t, p);
		label_hex(t, "comm", c->hash);
		label_u64(t, "rank", c->rank);
		label_u64(t, "nranks", c->nranks);
		end_u64(t, 1);
	}
}

static void gpu_series(struct text *t, const struct zn_gpu *g)
{
	series(t);
	label(t, "gpu_id", g->id);
}

static void gpu_total(struct text *t, const struct zn_gpu *g)
{
	if (!g->total_bytes)
		return;
	gpu_series(t, g);
	end_u64(t, g->total_bytes);
}

static void gpu_ratio(struct text *t, const struct zn_gpu *g)
{
	if (!g->total_bytes || g->partial)
		return;
	gpu_series(t, g);
	end_scaled(t, (uint64_t)((__uint128_t)g->used_bytes * 1000000 / g->total_bytes), 6);
}

static void gpu_complete(struct text *t, const struct zn_gpu *g)
{
	gpu_series(t, g);
	end_u64(t, !g->partial);
}

static void gpu_info(struct text *t, const struct zn_gpu *g)
{
	gpu_series(t, g);
	label(t, "uuid", g->uuid);
	label(t, "pci", g->pci);
	if (g->minor >= 0)
		label_u64(t, "minor", g->minor);
	else
		label(t, "minor", "");
	label(t, "vendor", zn_vendor_label(g->vendor));
	end_u64(t, 1);
}

static void each_gpu(struct text *t, void (*lines)(struct text *t, const struct zn_gpu *g))
{
	const struct zn_gpus *gpus = &t->view->agg->gpus;

	for (uint32_t i = 0; i < gpus->count; i++)
		if (zn_gpu_shown(&gpus->gpu[i]) && !zn_gpu_unknown(&gpus->gpu[i]))
			lines(t, &gpus->gpu[i]);
}

static void emit_gpu_total(struct text *t)
{
	each_gpu(t, gpu_total);
}

static void emit_gpu_ratio(struct text *t)
{
	each_gpu(t, gpu_ratio);
}

static void emit_gpu_complete(struct text *t)
{
	each_gpu(t, gpu_complete);
}

static void emit_gpu_info(struct text *t)
{
	each_gpu(t, gpu_info);
}

/* Scratch, as `taken` is: a walk over one metric shall not clear 64 KiB. */
static struct {
	const struct zn_job *job[ZN_JOBS_MAX]; /* those that are shown */
	uint32_t count;
	struct job_sum sum[ZN_JOBS_MAX]; /* by slot; of those that are shown */
} jobs;

/* Of the jobs of one id only the newest is shown: the labels of two would be the same. */
static void jobs_take(struct text *t)
{
	struct zn_jobs *j = t->view->jobs;

	if (t->jobs_taken)
		return;
	t->jobs_taken = true;
	jobs.count = 0;
	for (uint32_t i = 0; j && i < ZN_JOBS_MAX; i++)
		if (j->job[i].state != ZN_JOB_FREE && zn_jobs_find(j, j->job[i].id, ZN_UNKNOWN) == &j->job[i])
			jobs.job[jobs.count++] = &j->job[i];
}

static void sum_gone(struct job_sum *s, const struct zn_job *job)
{
	*s = (struct job_sum){0};
	for (enum zn_count i = ZN_C_LAUNCH_KERNEL; i < ZN_C_LAUNCH_CAPTURED; i++)
		s->launches += job->count[i];
	for (uint32_t i = 0; i < ZN_LEN(s->count); i++)
		s->count[i] += job->count[SUMMED_FIRST + i];
	for (enum zn_detail d = ZN_H_NCCL_FIRST; job->gone && d <= ZN_H_NCCL_LAST; d++)
		s->nccl_bytes += job->gone[d].bytes;
}

static void sum_live(struct text *t, struct job_sum *s, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(t->view->agg->arena, row);

	for (enum zn_count i = ZN_C_LAUNCH_KERNEL; i < ZN_C_LAUNCH_CAPTURED; i++)
		s->launches += p->count[i];
	for (uint32_t i = 0; i < ZN_LEN(s->count); i++)
		s->count[i] += zn_agg_count(t->view->agg, row, SUMMED_FIRST + i);
	for (enum zn_detail d = ZN_H_NCCL_FIRST; d <= ZN_H_NCCL_LAST; d++) {
		const struct zn_hist *h = zn_arena_hist(t->view->agg->arena, p->hist[d]);

		s->nccl_bytes += h ? h->bytes : 0;
	}
}

/* In one pass over the processes, whatever the number of jobs, once for all metrics of a page. */
static void jobs_sum(struct text *t)
{
	struct zn_jobs *j = t->view->jobs;
	const struct zn_proc *p;

	t->jobs_summed = true;
	for (uint32_t i = 0; i < jobs.count; i++)
		sum_gone(&jobs.sum[jobs.job[i] - j->job], jobs.job[i]);
	EACH_PROC(t, r, p)
	{
		const struct zn_job *job = zn_jobs_of(j, p);

		if (job)
			sum_live(t, &jobs.sum[job - j->job], t->view->agg->row[r]);
	}
}

/* Of a job that is shown. */
static const struct job_sum *sum_of(struct text *t, const struct zn_job *job)
{
	if (!t->jobs_summed)
		jobs_sum(t);
	return &jobs.sum[job - t->view->jobs->job];
}

/* A job that began before the daemon is counted from the daemon's start on. */
static void job_series(struct text *t, const struct zn_job *job)
{
	series(t);
	label(t, "job_id", job->id);
	t->since_ms = job->start_wall_ms > t->view->start_wall_ms ? job->start_wall_ms : t->view->start_wall_ms;
}

static void job_info(struct text *t, const struct zn_job *job)
{
	static const struct {
		const char *label;
		enum zn_key key;
	} said[] = {{"account", ZN_KEY_ACCOUNT}, {"partition", ZN_KEY_PARTITION}, {"name", ZN_KEY_NAME},
		{"nodes", ZN_KEY_NODES}, {"gpus", ZN_KEY_GPUS}};

	job_series(t, job);
	label(t, "user", job->about.value[ZN_KEY_USER]);
	if (job->uid != ZN_UNKNOWN)
		label_u64(t, "uid", job->uid);
	else
		label(t, "uid", "");
	for (size_t i = 0; i < ZN_LEN(said); i++)
		label(t, said[i].label, job->about.value[said[i].key]);
	end_u64(t, 1);
}

static void job_processes(struct text *t, const struct zn_job *job)
{
	job_series(t, job);
	end_u64(t, job->processes);
}

static void job_start(struct text *t, const struct zn_job *job)
{
	job_series(t, job);
	end_scaled(t, job->start_wall_ms, 3);
}

static void job_ended(struct text *t, const struct zn_job *job)
{
	if (job->state != ZN_JOB_ENDED)
		return;
	job_series(t, job);
	end_scaled(t, job->end_wall_ms, 3);
}

static void job_launches(struct text *t, const struct zn_job *job)
{
	job_series(t, job);
	end_u64(t, sum_of(t, job)->launches);
}

static void job_nccl_bytes(struct text *t, const struct zn_job *job)
{
	job_series(t, job);
	end_u64(t, sum_of(t, job)->nccl_bytes);
}

/* Waits for data are told where there were some: whether a loader is one that is known cannot be told of a job. */
static void job_stalls(struct text *t, const struct zn_job *job)
{
	const uint64_t *ns = sum_of(t, job)->count + (ZN_C_STALL_CPU - SUMMED_FIRST);
	uint64_t all = 0;

	for (enum zn_stall s = 0; s < ZN_STALL_COUNT; s++)
		all += ns[s];
	for (enum zn_stall s = 0; s < ZN_STALL_COUNT && all; s++) {
		if (s == ZN_STALL_DATA && !ns[s])
			continue;
		job_series(t, job);
		label_word(t, "cause", zn_stall_label(s));
		end_scaled(t, ns[s], 9);
	}
}

static void each_job(struct text *t, void (*lines)(struct text *t, const struct zn_job *job))
{
	jobs_take(t);
	for (uint32_t i = 0; i < jobs.count; i++)
		lines(t, jobs.job[i]);
}

/* Counters of all processes of a job, which appear with their first event. */
static void emit_job_counts(struct text *t)
{
	const struct counts *c = t->metric->arg;

	jobs_take(t);
	for (uint32_t i = 0; i < jobs.count * c->count; i++) {
		const struct zn_job *job = jobs.job[i / c->count];
		uint32_t n = i % c->count;
		uint64_t v = sum_of(t, job)->count[c->first - SUMMED_FIRST + n];

		if (v == 0)
			continue;
		job_series(t, job);
		if (c->label)
			label_word(t, c->label, c->value[n]);
		end_scaled(t, v, c->decimals);
	}
}

static void job_oom_kills(struct text *t, const struct zn_job *job)
{
	job_series(t, job);
	end_u64(t, zn_job_row(t->view->jobs, job)->oom_kills);
}

/* From 0 on, as a job may have one such kill and no more. */
static void emit_oom_kills(struct text *t)
{
	const struct zn_probe *probe = t->view->probe;

	if (probe && probe->job_on[ZN_LEN(probe->job_on) - 1].link < 0)
		return;
	series(t);
	label(t, "job_id", "");
	end_u64(t, t->view->agg->arena->shared->oom_kills);
	each_job(t, job_oom_kills);
}

/* There only where the log is read. */
static void emit_log_records(struct text *t)
{
	const struct zn_xids *x = t->view->xids;

	if (!x || x->fd < 0)
		return;
	series(t);
	label_word(t, "from", "kernel");
	end_u64(t, x->kernel);
	series(t);
	label_word(t, "from", "others");
	end_u64(t, x->other);
}

static void emit_xids(struct text *t)
{
	const struct zn_xids *x = t->view->xids;

	for (uint32_t i = 0; x && i < x->count; i++) {
		if (x->xid[i].amdgpu)
			continue;
		t->since_ms = x->xid[i].since_ms;
		series(t);
		label(t, "pci", x->xid[i].pci);
		label_u64(t, "xid", x->xid[i].xid);
		end_u64(t, x->xid[i].times);
	}
}

static void emit_amdgpu_errors(struct text *t)
{
	const struct zn_xids *x = t->view->xids;

	for (uint32_t i = 0; x && i < x->count; i++) {
		if (!x->xid[i].amdgpu)
			continue;
		t->since_ms = x->xid[i].since_ms;
		series(t);
		label(t, "pci", x->xid[i].pci);
		label_word(t, "error", zn_amdgpu_label(x->xid[i].amdgpu));
		end_u64(t, x->xid[i].times);
	}
}

static void emit_job_info(struct text *t)
{
	each_job(t, job_info);
}

static void emit_job_processes(struct text *t)
{
	each_job(t, job_processes);
}

static void emit_job_start(struct text *t)
{
	each_job(t, job_start);
}

static void emit_job_ended(struct text *t)
{
	each_job(t, job_ended);
}

static void job_progress_age(struct text *t, const struct zn_job *job)
{
	uint64_t age_ns, limit_ns;

	if (!t->view->jobs_progress || !zn_job_progress(t->view->jobs_progress, job, &age_ns, &limit_ns))
		return;
	job_series(t, job);
	end_scaled(t, age_ns, 9);
}

static void job_stall_limit(struct text *t, const struct zn_job *job)
{
	uint64_t age_ns, limit_ns;

	if (!t->view->jobs_progress || !zn_job_progress(t->view->jobs_progress, job, &age_ns, &limit_ns))
		return;
	job_series(t, job);
	end_scaled(t, limit_ns, 9);
}

static void emit_progress_age(struct text *t)
{
	each_job(t, job_progress_age);
}

static void emit_stall_limit(struct text *t)
{
	each_job(t, job_stall_limit);
}

static void job_causes(struct text *t, const struct zn_job *job)
{
	const struct zn_cause_group *g = t->view->causes ? &t->view->causes->group[job->slot] : NULL;

	for (enum zn_cause cause = 0; g && g->serial == job->serial && cause < ZN_CAUSE_COUNT; cause++) {
		if (!g->lost_ns[cause])
			continue;
		job_series(t, job);
		label_word(t, "cause", zn_cause_label(cause));
		end_scaled(t, g->lost_ns[cause], 9);
	}
}

static void emit_job_causes(struct text *t)
{
	each_job(t, job_causes);
}

static void emit_job_launches(struct text *t)
{
	each_job(t, job_launches);
}

static void emit_job_nccl_bytes(struct text *t)
{
	each_job(t, job_nccl_bytes);
}

static void emit_job_stalls(struct text *t)
{
	each_job(t, job_stalls);
}

/* A field of struct zn_job_gpu. */
struct job_gpu_field {
	size_t offset;
	int decimals;
	bool time; /* which is counted on GPUs that can be told alone */
};

static void emit_job_gpus(struct text *t)
{
	const struct job_gpu_field *f = t->metric->arg;

	jobs_take(t);
	for (uint32_t i = 0; i < jobs.count; i++) {
		for (uint32_t g = 0; g < jobs.job[i]->gpu_count; g++) {
			const struct zn_job_gpu *gpu = &jobs.job[i]->gpu[g];

			if (f->time ? !gpu->allocated : gpu->partial)
				continue;
			job_series(t, jobs.job[i]);
			label(t, "gpu_id", gpu->id);
			end_scaled(t, *(const uint64_t *)((const char *)gpu + f->offset), f->decimals);
		}
	}
}

static void emit_alerts(struct text *t)
{
	const struct zn_alerts *a = t->view->alerts;

	for (uint32_t i = 0; i < a->rules->rule_count; i++) {
		const struct zn_rule *rule = &a->rules->rule[i];

		series(t);
		label(t, "alert", rule->name);
		label(t, "severity", rule->severity);
		end_u64(t, zn_rule_state(a, rule));
	}
}

static void emit_build(struct text *t)
{

	series(t);
	label(t, "version", zn_version);
	label(t, "commit", zn_commit);
	label(t, "source", t->view->probe ? "live" : "simulated");
	end_u64(t, 1);
}

static void emit_kernel(struct text *t)
{

	series(t);
	label(t, "release", t->view->release);
	end_u64(t, 1);
}

/* Two files may have one path, in two mount namespaces or one after the other: the inode tells them apart. The longest
 * label is one whose bytes all become U+FFFD, three bytes each. */
static void attached_lines(void *to, const struct zn_lib *lib)
{
	struct text *t = to;
	const struct zn_probe *p = t->view->probe;
	char unique[ZN_TEXT_MAX + 64], library[3 * sizeof(unique) + 16];
	struct zn_out o = {.at = library, .cap = sizeof(library)};

	snprintf(unique, sizeof(unique), "%s@%lx:%lu", lib->path, lib->dev, lib->ino);
	zn_out_text(&o, "library=\"");
	escaped(&o, unique);
	zn_out_char(&o, '"');
	for (uint32_t i = 0; i < p->hook_count; i++) {
		if (!zn_hook_fits(&p->hook[i], lib->kind))
			continue;
		series(t);
		label_word(t, "family", zn_family_label(p->hook[i].family));
		label_word(t, "symbol", p->hook[i].name);
		label_made(t, (struct zn_str){o.at, o.len}, "library", unique);
		end_u64(t, lib->symbol[i] == ZN_SYM_ATTACHED);
	}
}

/* A place has up to two programs, at its entry and its return. */
static bool is_second(const struct zn_kernel *k, uint32_t at)
{
	const struct zn_site *s = &k->site[at];

	for (uint32_t i = at; i-- > 0 && k->site[i].family == s->family;)
		if (k->site[i].prog_fd >= 0 && strcmp(k->site[i].place, s->place) == 0)
			return true;
	return false;
}

/* Each place of the tier in use once. */
static void sites_attached(struct text *t, const struct zn_kernel *k)
{
	for (uint32_t i = 0; i < k->site_count; i++) {
		const struct zn_site *s = &k->site[i], *with = s->of ? &k->site[s->of - 1] : s;

		if (with->prog_fd < 0 && s->state != ZN_SYM_FAILED)
			continue;
		if (is_second(k, i))
			continue;
		series(t);
		label_word(t, "family", zn_family_label(s->family));
		label_word(t, "symbol", s->place);
		label_word(t, "library", "kernel");
		end_u64(t, with->link_fd >= 0);
	}
}

static void emit_attached(struct text *t)
{
	if (t->view->probe)
		sites_attached(t, &t->view->probe->kernel);
	if (t->view->find)
		zn_libraries_visit(zn_find_libraries(t->view->find), attached_lines, t);
}

struct library_counts {
	uint64_t hooked, waiting;
};

static void count_library(void *to, const struct zn_lib *lib)
{
	struct library_counts *n = to;

	*(lib->waiting ? &n->waiting : &n->hooked) += 1;
}

static void emit_libraries(struct text *t)
{
	struct library_counts n = {0};

	if (!t->view->find)
		return;
	zn_libraries_visit(zn_find_libraries(t->view->find), count_library, &n);
	series(t);
	label_word(t, "state", "hooked");
	end_u64(t, n.hooked);
	series(t);
	label_word(t, "state", "waiting");
	end_u64(t, n.waiting);
}

static void emit_hang(struct text *t)
{
	char why[ZN_TEXT_MAX];

	if (t->view->find)
		one_scaled(t, zn_view_hang(t->view, why), 9);
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

static void emit_hits(struct text *t)
{

	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		series(t);
		label(t, "family", zn_family_label(f));
		end_u64(t, hits_of(t->view->agg, f));
	}
}

static void bias_lines(struct text *t, const struct zn_bias *b, const char *first)
{
	series(t);
	label_word(t, "first_instruction", first);
	labels_end(t);
	if (t->walk) {
		t->walk->sample.bias = b;
		walk_end(t);
		return;
	}
	quantile_line(t, "0.1", b->p10_ns);
	again(t, "");
	quantile_line(t, "0.5", b->p50_ns);
	again(t, "");
	quantile_line(t, "0.9", b->p90_ns);
	again(t, "");
	quantile_line(t, "0.99", b->p99_ns);
	sum_and_count(t, b->sum_ns, b->samples);
}

static void emit_bias(struct text *t)
{
	const struct zn_probe *p = t->view->probe;

	for (enum zn_first i = 0; p && i < ZN_FIRST_COUNT; i++)
		if (p->bias[i].samples)
			bias_lines(t, &p->bias[i], zn_first_label(i));
}

static void emit_run(struct text *t)
{
	struct zn_probe *p = t->view->probe;
	const char *name;

	for (uint32_t i = 0; p && i < ZN_PROGRAMS; i++) {
		uint64_t ns = zn_stats_run_ns(p, i, &name);

		if (ns == 0)
			continue;
		series(t);
		label(t, "program", name);
		end_scaled(t, ns, 9);
	}
}

static void emit_duty(struct text *t)
{

	for (enum zn_family f = 0; t->view->probe && f < ZN_FAMILY_COUNT; f++) {
		series(t);
		label(t, "family", zn_family_label(f));
		end_scaled(t, t->view->agg->family_cost_rate[f], 12);
	}
}

static void emit_anomalies(struct text *t)
{
	const struct zn_proc *p;

	EACH_PROC(t, r, p)
	{
		for (uint32_t i = 0; i < ZN_BASELINES; i++) {
			int32_t v = zn_baselines_score(t->view->baselines, t->view->agg->row[r], p->id, i);

			if (v == ZN_SCORE_NONE)
				continue;
			proc_series(t, p);
			label_word(t, "signal", zn_baseline_name(i));
			end_signed(t, v);
		}
	}
}

static void emit_overhead(struct text *t)
{
	const struct zn_agg *agg = t->view->agg;
	const struct zn_proc *p;

	if (!t->view->probe && !agg->arena->shared->cost_ns[0])
		return; /* what hooked calls cost is not known */
	EACH_PROC(t, r, p)
	{
		proc_series(t, p);
		end_scaled(t, agg->info[agg->row[r]].cost_rate, 12);
	}
}

static void emit_lost(struct text *t)
{
	struct zn_view *v = t->view;

	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++) {
		series(t);
		label_word(t, "what", zn_loss_label(i));
		end_u64(t, zn_view_lost(v, i));
	}
}

/* Of each kind of destination that is given. */
static void emit_sent(struct text *t)
{
	const struct zn_courier *c = t->view->courier;

	for (enum zn_outbound to = 0; c && to < ZN_TO_COUNT; to++)
		for (enum zn_sent i = 0; c->senders[to] && i < ZN_SENT_COUNT; i++) {
			series(t);
			label_word(t, "to", zn_outbound_label(to));
			label_word(t, "result", zn_sent_label(i));
			end_u64(t, c->sum[to].sent[i]);
		}
}

/* What a courier that has ended did not send is not known to be anywhere. */
static void emit_outbound(struct text *t)
{
	const struct zn_courier *c = t->view->courier;
	const bool *waiting = t->metric->arg;

	for (enum zn_outbound to = 0; c && to < ZN_TO_COUNT; to++)
		if (c->senders[to] && (!*waiting || c->child.fd >= 0)) {
			series(t);
			label_word(t, "to", zn_outbound_label(to));
			end_u64(t, *waiting ? c->sum[to].queued : zn_courier_down(c, to));
		}
}

static void emit_tables(struct text *t)
{
	const bool *limits = t->metric->arg;
	struct zn_usage usage[ZN_USAGES_MAX];
	size_t n = zn_view_usage(t->view, usage);

	for (size_t i = 0; i < n; i++) {
		series(t);
		label_word(t, "table", usage[i].table);
		end_u64(t, *limits ? usage[i].limit : usage[i].entries);
	}
}

static void emit_requests(struct text *t)
{
	static const char *const code[] = {
#define X(n) #n,
		ZN_CODES(X)
#undef X
	};
	const struct zn_http_stats *s = t->view->http;

	for (uint32_t i = 0; s && i < (ZN_ROUTES_MAX + 1) * ZN_CODE_COUNT; i++) {
		uint32_t route = i / ZN_CODE_COUNT;

		if (s->requests[route][i % ZN_CODE_COUNT] == 0)
			continue;
		series(t);
		label(t, "path", route < ZN_ROUTES_MAX ? s->path[route] : "other");
		label(t, "code", code[i % ZN_CODE_COUNT]);
		end_u64(t, s->requests[route][i % ZN_CODE_COUNT]);
	}
}

static void emit_connections(struct text *t)
{
	one_u64(t, t->view->http ? t->view->http->conn_count : 0);
}

static void emit_clients(struct text *t)
{
	one_u64(t, t->view->http ? t->view->http->ws_count : 0);
}

static void emit_ticks(struct text *t)
{
	one_u64(t, t->view->ticks);
}

static void emit_render(struct text *t)
{
	one_scaled(t, t->view->render_ns, 9);
}

/* There once there was an export. */
static void emit_export(struct text *t)
{
	if (t->view->export && t->view->export->render_ns)
		one_scaled(t, t->view->export->render_ns, 9);
}

static void emit_cpu(struct text *t)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	one_scaled(t, ts.tv_sec * ZN_NS_PER_S + ts.tv_nsec, 9);
}

static void emit_resident(struct text *t)
{
	one_u64(t, t->view->resident_bytes);
}

static void emit_fds(struct text *t)
{
	one_u64(t, t->view->open_fds);
}

static void emit_start(struct text *t)
{
	one_scaled(t, t->view->start_wall_ms, 3);
}

static const struct share_field used = {offsetof(struct zn_proc_gpu, used_bytes), 1, NULL, {0}, true, true};
static const struct share_field peak = {offsetof(struct zn_proc_gpu, peak_bytes), 1, NULL, {0}, true, true};
static const struct share_field alloc_calls = {offsetof(struct zn_proc_gpu, alloc_calls), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false, false};
static const struct share_field alloc_bytes = {offsetof(struct zn_proc_gpu, alloc_bytes), ZN_KIND_COUNT, "kind",
	{"device", "managed", "async", "pool", "vmm", "host"}, false, false};
static const struct share_field free_calls = {offsetof(struct zn_proc_gpu, free_calls), 1, NULL, {0}, false, false};
static const struct share_field failures = {
	offsetof(struct zn_proc_gpu, fail_oom), 2, "reason", {"oom", "other"}, true, false};

static const struct counts launches = {
	ZN_C_LAUNCH_KERNEL, 4, "kind", {"kernel", "graph", "cooperative", "captured"}, 0};
static const struct counts launch_errors = {ZN_C_LAUNCH_ERRORS, 1, NULL, {0}, 0};
static const struct counts copy_bytes = {ZN_C_COPY_BYTES_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}, 0};
static const struct counts copy_calls = {ZN_C_COPY_CALLS_HTOD, 4, "direction", {"htod", "dtoh", "dtod", "other"}, 0};

static const struct counts memset_bytes = {ZN_C_MEMSET_BYTES, 1, NULL, {0}, 0};
static const struct counts memset_calls = {ZN_C_MEMSET_CALLS, 1, NULL, {0}, 0};

static const struct durations launch = {ZN_H_LAUNCH, ZN_H_LAUNCH, NULL, true};
static const struct durations collective = {ZN_H_NCCL_FIRST, ZN_H_NCCL_LAST, "op", false};
static const struct durations dataloader = {ZN_H_DATALOAD, ZN_H_DATALOAD, NULL, true};
static const struct durations worker_idle = {ZN_H_WORKER_IDLE, ZN_H_WORKER_IDLE, NULL, true};
static const struct durations dist_sync = {ZN_H_DIST_SYNC, ZN_H_DIST_SYNC, NULL, true};
static const struct durations sync_calls = {ZN_H_SYNC_STREAM, ZN_H_SYNC_FREE, "call", true};
static const struct durations loads = {ZN_H_LOAD_MODULE, ZN_H_LOAD_GRAPH, "call", true};
static const struct durations group = {ZN_H_NCCL_GROUP, ZN_H_NCCL_GROUP, NULL, true};
static const struct durations comm_init = {ZN_H_NCCL_INIT, ZN_H_NCCL_INIT, NULL, true};

static const struct counts syscalls = {ZN_C_SYSCALLS, 1, NULL, {0}, 0};
static const struct counts mmap_calls = {ZN_C_MMAP_CALLS, 2, "call", {"mmap", "munmap"}, 0};
static const struct counts mmap_bytes = {ZN_C_MMAP_BYTES, 2, "call", {"mmap", "munmap"}, 0};
static const struct counts switches = {ZN_C_SWITCH_VOLUNTARY, 2, "kind", {"voluntary", "involuntary"}, 0};
static const struct counts migrations = {ZN_C_MIGRATE_CPU, 2, "scope", {"cpu", "numa"}, 0};
static const struct counts offcpu = {ZN_C_OFFCPU_IO, 5, "state", {"io", "futex", "poll", "sleep", "other"}, 9};
static const struct counts tcp_sent = {ZN_C_TCP_SENT, 1, NULL, {0}, 0};
static const struct counts tcp_received = {ZN_C_TCP_RECEIVED, 1, NULL, {0}, 0};
static const struct counts tcp_retransmits = {ZN_C_TCP_RETRANSMITS, 1, NULL, {0}, 0};
static const struct rate density = {offsetof(struct zn_rates, syscalls_per_launch), ZN_C_SYSCALLS, ZN_C_SYSCALLS};
static const struct rate churn = {offsetof(struct zn_rates, churn), ZN_C_MMAP_CALLS, ZN_C_MUNMAP_CALLS};
static const struct rate launch_switches = {
	offsetof(struct zn_rates, switches_per_launch), ZN_C_SWITCH_VOLUNTARY, ZN_C_SWITCH_INVOLUNTARY};
static const struct rate migration_rate = {
	offsetof(struct zn_rates, per_1000_s[ZN_SIGNAL_MIGRATIONS]), ZN_C_MIGRATE_CPU, ZN_C_MIGRATE_CPU};
static const struct durations gpu_ioctl = {ZN_H_IOCTL, ZN_H_IOCTL, NULL, true};
static const struct durations runqueue = {ZN_H_RUNQUEUE, ZN_H_RUNQUEUE, NULL, true};
static const struct durations tcp_send = {ZN_H_TCP_SEND, ZN_H_TCP_SEND, NULL, true};
static const size_t gpu_busy = offsetof(struct zn_signals, gpu.busy_ns);
static const size_t gpu_contended = offsetof(struct zn_signals, gpu.contended_ns);

static const enum zn_io_op io_read = ZN_IO_READ, io_write = ZN_IO_WRITE, io_mapped = ZN_IO_MMAP, io_copied = ZN_IO_COPY;
static const size_t io_calls = offsetof(struct zn_flow_sum, calls);
static const size_t io_errors = offsetof(struct zn_flow_sum, errors);
static const size_t nccl_calls = offsetof(struct zn_hist, calls);
static const size_t nccl_bytes = offsetof(struct zn_hist, bytes);
static const size_t nccl_errors = offsetof(struct zn_hist, errors);

static const bool entries = false, limit = true, waiting = true, down = false;

static const struct job_gpu_field job_peak = {offsetof(struct zn_job_gpu, peak_bytes), 0, false};
static const struct job_gpu_field job_busy = {offsetof(struct zn_job_gpu, busy_ns), 9, true};
static const size_t missing_since = offsetof(struct zn_missing, since_ns),
		    missing_doing = offsetof(struct zn_missing, doing_ns);
static const struct job_gpu_field job_idle = {offsetof(struct zn_job_gpu, idle_ns), 9, true};

/* clang-format off */
static const struct metric table[] = {
	{"zernel_gpu_memory_used_bytes", GAUGE, "pid,gpu_id", emit_shares, &used,
		"GPU memory that a process has reserved from the driver and not freed; without the CUDA context itself, loaded modules, and pinned host memory. Absent where zernel_process_memory_complete is 0."},
	{"zernel_gpu_memory_peak_bytes", GAUGE, "pid,gpu_id", emit_shares, &peak,
		"Highest GPU memory use of a process since its first call. Absent where zernel_process_memory_complete is 0."},
	{"zernel_cuda_launch_latency_seconds", SUMMARY, "pid,quantile", emit_durations, &launch,
		"Host time from entry to return of a call that launches a kernel or a graph, since the process started; the time that the probes add is taken out."},
	{"zernel_nccl_collective_duration_seconds", SUMMARY, "op,quantile", emit_durations, &collective,
		"Host time in an NCCL operation, of all processes since the daemon started. A collective enqueues and returns: this is not the time it takes on the GPU."},
	{"zernel_dataloader_wait_seconds", SUMMARY, "pid,quantile", emit_durations, &dataloader,
		"Time that the training thread waits for a batch."},
	{"zernel_dataloader_worker_idle_seconds", SUMMARY, "pid,quantile", emit_durations, &worker_idle,
		"Time that a worker of a process's data loader sleeps until it is asked for another batch."},
	{"zernel_dataloader_workers", GAUGE, "pid", emit_workers, NULL,
		"Live processes that this one, or one of them, started and that call no hooked library; there once its data loader was seen to wait."},
	{"zernel_dataloader_worker_seconds_total", COUNTER, "pid,state", emit_worker_time, NULL,
		"Time of all data loader workers of a process: idle, asleep until they are asked for another batch, or busy."},
	{"zernel_dist_sync_wait_seconds", SUMMARY, "pid,quantile", emit_durations, &dist_sync,
		"Time that a launching thread waits for other ranks: in the creation of a communicator, at the end of a group, or asleep until a peer has answered over a socket."},
	{"zernel_step_stall_ratio", GAUGE, "pid,cause", emit_stalls, NULL,
		"Where the time of a process's launching threads went over the last tick; the causes add up to 1. Of a data loader that is not known there is no cause data: its waits are in other."},
	{"zernel_gpu_memory_total_bytes", GAUGE, "gpu_id", emit_gpu_total, NULL,
		"Memory of a GPU as the driver reports it to the processes; absent until one of them asked."},
	{"zernel_gpu_memory_used_ratio", GAUGE, "gpu_id", emit_gpu_ratio, NULL,
		"Memory used by all processes of a GPU, as a share of its total. Managed memory may exceed 1. Absent where zernel_gpu_memory_complete is 0."},
	{"zernel_process_memory_complete", GAUGE, "pid", emit_memory_complete, NULL,
		"1: all GPU memory of a process was seen. 0: it used a GPU before its library was hooked, as those do that run while the daemon is restarted, or the table of allocations was full; what it holds is then not known and not shown, as long as it lives."},
	{"zernel_gpu_memory_complete", GAUGE, "gpu_id", emit_gpu_complete, NULL,
		"1: the GPU memory of all processes that use a GPU is known. 0: a process has it open of which it is not; the memory used on that GPU is then not known, and not shown."},
	{"zernel_gpu_alloc_calls_total", COUNTER, "pid,gpu_id,kind", emit_shares, &alloc_calls,
		"Successful GPU memory allocations."},
	{"zernel_gpu_alloc_bytes_total", COUNTER, "pid,gpu_id,kind", emit_shares, &alloc_bytes,
		"Bytes of successful GPU memory allocations."},
	{"zernel_gpu_free_calls_total", COUNTER, "pid,gpu_id", emit_shares, &free_calls,
		"Successful frees of memory whose allocation was seen; of VMM memory, when its last reference went."},
	{"zernel_gpu_alloc_failures_total", COUNTER, "pid,gpu_id,reason", emit_shares, &failures,
		"Failed GPU memory allocations; oom: the driver answered out of memory. From 0 on where the process has had memory, so that the first one is a rise."},
	{"zernel_gpu_host_pinned_bytes", GAUGE, "pid", emit_pinned, NULL,
		"Pinned host memory that a process has reserved through the driver. Absent where zernel_process_memory_complete is 0."},
	{"zernel_gpu_xid_errors_total", COUNTER, "pci,xid", emit_xids, NULL,
		"Errors that NVIDIA's driver reported in the kernel's log since the daemon started."},
	{"zernel_gpu_amdgpu_errors_total", COUNTER, "pci,error", emit_amdgpu_errors, NULL,
		"Records of the kernel's log, since the daemon started, in which amdgpu reports a page fault, a timeout, a reset or hardware errors."},
	{"zernel_kernel_log_records_total", COUNTER, "from", emit_log_records, NULL,
		"Records of the kernel's log that were read, of the kernel itself and of others; errors of GPUs are looked for in the first. Absent where it cannot be read."},
	{"zernel_gpu_info", INFO, "gpu_id,uuid,pci,minor,vendor", emit_gpu_info, NULL,
		"Always 1; the identity of a GPU. gpu_id is its index in PCI order; AMD's GPUs follow NVIDIA's in the order of their render nodes, whose minor number they have."},
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
	{"zernel_cuda_memset_bytes_total", COUNTER, "pid", emit_counts, &memset_bytes,
		"Bytes of memory that is set, as they are asked for."},
	{"zernel_cuda_memset_calls_total", COUNTER, "pid", emit_counts, &memset_calls,
		"Calls that set memory, as they are made."},
	{"zernel_cuda_load_seconds", SUMMARY, "pid,call,quantile", emit_durations, &loads,
		"Time the host spends in a call that loads code or prepares a graph, which is where a slow first step often comes from: a module or a library of kernels, a function of one (which is loaded when it is first asked for), or a graph that is instantiated, updated or uploaded."},
	{"zernel_nccl_calls_total", COUNTER, "pid,op", emit_nccl, &nccl_calls, "NCCL operations of this rank."},
	{"zernel_nccl_bytes_total", COUNTER, "pid,op", emit_nccl, &nccl_bytes,
		"Bytes of NCCL operations on this rank: elements times their size, as the call's arguments have them."},
	{"zernel_nccl_errors_total", COUNTER, "pid,op", emit_nccl, &nccl_errors,
		"NCCL operations that returned an error."},
	{"zernel_nccl_group_seconds", SUMMARY, "pid,quantile", emit_durations, &group,
		"Time from the outermost ncclGroupStart to its ncclGroupEnd."},
	{"zernel_nccl_comm_init_seconds", SUMMARY, "pid,quantile", emit_durations, &comm_init,
		"Time in the creation of a communicator, which waits for the other ranks."},
	{"zernel_nccl_issue_skew_seconds", SUMMARY, "comm,quantile", emit_skew, NULL,
		"Of the ranks of a communicator on this node: how long after the first one the last one issued the same collective. Operations with a root other than broadcast, and point-to-point ones, are not compared."},
	{"zernel_nccl_issue_late_seconds_total", COUNTER, "comm,rank", emit_lateness, NULL,
		"How long after the first rank of this node a rank issued its collectives: the straggler's grows."},
	{"zernel_nccl_missing_rank_seconds", GAUGE, "comm,rank,pid,doing", emit_missing, &missing_since,
		"For how long other ranks of this node have waited for one that has not issued what they have, or whose process has ended; there only from 1 s on. doing: what it does instead: gone, asleep, driver (inside of the GPU's), data, io, cpu or gpu. Of ranks that wait for one another in a chain the last one alone."},
	{"zernel_nccl_missing_rank_doing_seconds", GAUGE, "comm,rank,pid,doing", emit_missing, &missing_doing,
		"For how long such a rank has done nothing else meanwhile."},
	{"zernel_nccl_longest_wait_seconds", GAUGE, "comm", emit_longest_wait, NULL,
		"The longest time that ranks of this node have waited for one that came in the end: what may be usual for this program."},
	{"zernel_nccl_rank_info", INFO, "pid,comm,rank,nranks", emit_ranks, NULL,
		"Always 1; the rank of a process in a communicator. comm is equal on all ranks."},
	{"zernel_syscalls_total", COUNTER, "pid", emit_counts, &syscalls,
		"System calls that the threads of a process began; those that probes of the kernel make on the way are not among them."},
	{"zernel_syscall_density", GAUGE, "pid", emit_rates, &density,
		"System calls per launch: those that began over the last tick, by the launches of that tick; absent without one."},
	{"zernel_gpu_ioctl_seconds", SUMMARY, "pid,quantile", emit_durations, &gpu_ioctl,
		"Time from entry to return of ioctl() on a GPU's device, which is where a driver's locks are waited for."},
	{"zernel_gpu_driver_stuck_seconds", GAUGE, "pid", emit_driver_stuck, NULL,
		"For how long the oldest call of ioctl() on a GPU's device has not come back; there only while one has lasted longer than from one tick to the next."},
	{"zernel_gpu_ioctl_contention_ratio", GAUGE, "", emit_contention, NULL,
		"Share of the time with some process inside ioctl() on a GPU's device in which two or more were, over the last tick; absent if none was."},
	{"zernel_gpu_ioctl_busy_seconds_total", COUNTER, "", emit_gpu_calls, &gpu_busy,
		"Time with some process inside ioctl() on a GPU's device."},
	{"zernel_gpu_ioctl_contended_seconds_total", COUNTER, "", emit_gpu_calls, &gpu_contended,
		"Time with two or more processes inside ioctl() on GPU devices; threads of one process are one."},
	{"zernel_mmap_calls_total", COUNTER, "pid,call", emit_counts, &mmap_calls,
		"Calls of mmap and munmap that succeeded; brk and mremap are none."},
	{"zernel_mmap_bytes_total", COUNTER, "pid,call", emit_counts, &mmap_bytes,
		"Bytes that successful calls of mmap and munmap asked for, in whole pages."},
	{"zernel_mmap_churn_ratio", GAUGE, "pid", emit_rates, &churn,
		"Of the bytes mapped and the bytes unmapped over the last tick, the smaller by the larger: near 1, memory is given back and fetched anew; absent without either."},
	{"zernel_context_switches_total", COUNTER, "pid,kind", emit_counts, &switches,
		"Times a thread left its CPU: voluntary, to wait; involuntary, for another thread."},
	{"zernel_context_switches_per_launch", GAUGE, "pid", emit_rates, &launch_switches,
		"Context switches of a process over the last tick, by the launches of that tick; absent without one."},
	{"zernel_thread_migrations_total", COUNTER, "pid,scope", emit_counts, &migrations,
		"Times a thread was moved to another CPU; numa: those of them to another memory node."},
	{"zernel_thread_migrations_per_second", GAUGE, "pid", emit_rates, &migration_rate,
		"Migrations of a process's threads per second, over the last tick."},
	{"zernel_runqueue_wait_seconds", SUMMARY, "pid,quantile", emit_durations, &runqueue,
		"Time from when a thread could run to when it ran."},
	{"zernel_offcpu_seconds_total", COUNTER, "pid,state", emit_counts, &offcpu,
		"Time that threads slept, added up over threads, by what they slept in."},
	{"zernel_tcp_sent_bytes_total", COUNTER, "pid", emit_counts, &tcp_sent,
		"Bytes that a process gave to TCP, loopback included. RDMA and NVLink do not pass the kernel and are in no figure."},
	{"zernel_tcp_received_bytes_total", COUNTER, "pid", emit_counts, &tcp_received,
		"Bytes that a process took from TCP; what splice() takes is not seen."},
	{"zernel_tcp_retransmits_total", COUNTER, "pid", emit_counts, &tcp_retransmits,
		"Segments sent again on connections whose last sender is this process."},
	{"zernel_tcp_sendmsg_seconds", SUMMARY, "pid,quantile", emit_durations, &tcp_send,
		"Time in which a send gives its bytes to TCP, waits for room included. By tracepoints it is that of the whole call up to there, of write, writev, sendto and sendmsg alone."},
	{"zernel_job_info", INFO, "job_id,user,uid,account,partition,name,nodes,gpus", emit_job_info, NULL,
		"Always 1; what a job is. What was not said of it is an empty label; gpus are those that it was given."},
	{"zernel_oom_kills_total", COUNTER, "job_id", emit_oom_kills, NULL,
		"Processes that the kernel killed for want of memory: of a job, or of none that called a hooked library or load data for one that did."},
	{"zernel_job_processes", GAUGE, "job_id", emit_job_processes, NULL,
		"Processes of a job that run and have called a hooked library."},
	{"zernel_job_start_time_seconds", GAUGE, "job_id", emit_job_start, NULL,
		"Start of a job since the epoch, as far as it is known: when it was first heard of, if nobody said it."},
	{"zernel_job_ended_time_seconds", GAUGE, "job_id", emit_job_ended, NULL,
		"End of a job since the epoch; there only once it has ended."},
	{"zernel_job_gpu_memory_peak_bytes", GAUGE, "job_id,gpu_id", emit_job_gpus, &job_peak,
		"Highest GPU memory use of all processes of a job together, as seen at a tick, or of one of them at any time. Absent where the memory of one of them is not known."},
	{"zernel_job_gpu_busy_seconds_total", COUNTER, "job_id,gpu_id", emit_job_gpus, &job_busy,
		"Time of a job in which a process of it that had memory on that GPU called CUDA or NCCL: the ticks with such a call, and how long the call waited, up to a minute."},
	{"zernel_job_gpu_idle_seconds_total", COUNTER, "job_id,gpu_id", emit_job_gpus, &job_idle,
		"All other time of a job on a GPU that it was given or has used. It is told up to a minute late while a process of it has memory there."},
	{"zernel_job_progress_age_seconds", GAUGE, "job_id", emit_progress_age, NULL,
		"For how long nothing of a job has moved: no launch, copy, call to NCCL or batch of any of its processes, no byte of a file. There from its first launch on, while it has a process."},
	{"zernel_job_stall_limit_seconds", GAUGE, "job_id", emit_stall_limit, NULL,
		"For how long that may be: a minute (ten while its threads run on the CPU, as a compiler's do), or five times the longest pause that this job has made so far."},
	{"zernel_job_cause_seconds_total", COUNTER, "job_id,cause", emit_job_causes, NULL,
		"Time that the processes of a job lost, by what it was lost to; a process has one second in a second, whatever its threads do. docs/WHY.md says what the causes are."},
	{"zernel_job_launches_total", COUNTER, "job_id", emit_job_launches, NULL,
		"Launches of all processes of a job, those that have gone included; without captured ones."},
	{"zernel_job_nccl_bytes_total", COUNTER, "job_id", emit_job_nccl_bytes, NULL,
		"Bytes of NCCL operations of all processes of a job, those that have gone included."},
	{"zernel_job_stall_seconds_total", COUNTER, "job_id,cause", emit_job_stalls, NULL,
		"Where the time of all launching threads of a job went, those that have gone included; causes as of zernel_step_stall_ratio."},
	{"zernel_job_syscalls_total", COUNTER, "job_id", emit_job_counts, &syscalls,
		"System calls of all processes of a job that called a hooked library, those that have gone included."},
	{"zernel_job_context_switches_total", COUNTER, "job_id,kind", emit_job_counts, &switches,
		"Context switches of all processes of a job, likewise."},
	{"zernel_job_offcpu_seconds_total", COUNTER, "job_id,state", emit_job_counts, &offcpu,
		"Time that threads of all processes of a job slept, likewise."},
	{"zernel_job_tcp_sent_bytes_total", COUNTER, "job_id", emit_job_counts, &tcp_sent,
		"Bytes that all processes of a job gave to TCP, likewise."},
	{"zernel_job_tcp_received_bytes_total", COUNTER, "job_id", emit_job_counts, &tcp_received,
		"Bytes that all processes of a job took from TCP, likewise."},
	{"zernel_job_tcp_retransmits_total", COUNTER, "job_id", emit_job_counts, &tcp_retransmits,
		"Segments sent again of all processes of a job, likewise."},
	{"zernel_io_read_bytes_total", COUNTER, "job_id,mount,fstype", emit_io_bytes, &io_read,
		"Bytes read from files, each counted once, whichever call moved it. Those of mapped files and of copy_file_range are apart. Of no job: job_id is empty."},
	{"zernel_io_write_bytes_total", COUNTER, "job_id,mount,fstype", emit_io_bytes, &io_write,
		"Bytes written to files, as accepted by the call; likewise."},
	{"zernel_io_mapped_bytes_total", COUNTER, "job_id,mount,fstype", emit_io_bytes, &io_mapped,
		"Bytes that page faults of mapped files brought into memory: whole pages, and what was read ahead."},
	{"zernel_io_copied_bytes_total", COUNTER, "job_id,mount,fstype", emit_io_bytes, &io_copied,
		"Bytes copied by copy_file_range, on the mount they were copied to; the file system may share them instead of moving them."},
	{"zernel_io_requests_total", COUNTER, "job_id,mount,fstype,op", emit_io_ops, &io_calls,
		"File operations; op is read, write, copy, mmap, open, create, unlink, mkdir, rmdir, rename, fsync or stat."},
	{"zernel_io_errors_total", COUNTER, "job_id,mount,fstype,op", emit_io_ops, &io_errors,
		"File operations that failed, where the file or its directory was found."},
	{"zernel_io_latency_seconds", SUMMARY, "job_id,mount,op,quantile", emit_durations, NULL,
		"Duration of file operations, from the call to its return; of asynchronous ones, where it is known, to their completion."},
	{"zernel_alert_state", GAUGE, "alert,severity", emit_alerts, NULL, "0 inactive, 1 pending, 2 firing."},
	{"zernel_anomaly_score", GAUGE, "pid,signal", emit_anomalies, NULL,
		"How far the last 5 s of a signal of a process are above (below: negative) what was usual in the 10 minutes before, in robust standard deviations, up to 100; docs/ALERTS.md has the signals. Absent for the first 3 minutes, and where there was no value."},
	{"zernel_build_info", INFO, "version,commit,source", emit_build, NULL,
		"Always 1; source is live, or simulated for invented data."},
	{"zernel_kernel_info", INFO, "release", emit_kernel, NULL, "Always 1; the running kernel."},
	{"zernel_probe_attached", GAUGE, "family,symbol,library", emit_attached, NULL,
		"1 if the function is hooked in that library, 0 if it is missing there or could not be hooked."},
	{"zernel_libraries", GAUGE, "state", emit_libraries, NULL,
		"Files with a library's name that processes map: hooked, or waiting, for which /health has the reasons."},
	{"zernel_probe_hang_seconds", GAUGE, "", emit_hang, NULL,
		"For how long a change of probes has been waiting for a process; while it does, forks may wait. 0: none does."},
	{"zernel_probe_hits_total", COUNTER, "family", emit_hits, NULL, "Hooked calls."},
	{"zernel_probe_bias_seconds", SUMMARY, "first_instruction,quantile", emit_bias, NULL,
		"What the probes themselves add to a measured interval, calibrated at start; the median is taken out of each. It depends on how the kernel executes the instruction that the probe stands on."},
	{"zernel_probe_run_seconds_total", COUNTER, "program", emit_run, NULL,
		"Time in each BPF program; there only while the kernel keeps statistics (sysctl kernel.bpf_stats_enabled)."},
	{"zernel_probe_duty_ratio", GAUGE, "family", emit_duty, NULL,
		"CPU time that all processes spent in our probes over the last tick, in cores: calls at their calibrated cost."},
	{"zernel_overhead_ratio", GAUGE, "pid", emit_overhead, NULL,
		"Share of one core that a process spent in our probes over the last tick: calls at their calibrated cost."},
	{"zernel_lost_total", COUNTER, "what", emit_lost, NULL, "Things that could not be counted or delivered."},
	{"zernel_outbound_requests_total", COUNTER, "to,result", emit_sent, NULL,
		"Requests that the daemon made, by destination and what became of them: retried ones are made again, refused ones are not, failed ones were given up for newer ones."},
	{"zernel_outbound_queue", GAUGE, "to", emit_outbound, &waiting, "Messages that wait to be sent."},
	{"zernel_outbound_down", GAUGE, "to", emit_outbound, &down,
		"Destinations that cannot be reached, or say that they cannot serve now."},
	{"zernel_table_entries", GAUGE, "table", emit_tables, &entries, "Entries in use of a fixed table."},
	{"zernel_table_limit", GAUGE, "table", emit_tables, &limit, "Size of a fixed table."},
	{"zernel_ticks_total", COUNTER, "", emit_ticks, NULL,
		"Ticks since the start of the daemon: at each, rates are made anew and alerts evaluated."},
	{"zernel_http_requests_total", COUNTER, "path,code", emit_requests, NULL, "Requests answered."},
	{"zernel_http_connections", GAUGE, "", emit_connections, NULL, "Open connections, WebSocket clients included."},
	{"zernel_ws_clients", GAUGE, "", emit_clients, NULL, "WebSocket clients."},
	{"zernel_scrape_render_seconds", GAUGE, "", emit_render, NULL,
		"Time it took to render the scrape before this."},
	{"zernel_otlp_render_seconds", GAUGE, "", emit_export, NULL,
		"Time it took to make and hand over the requests of the last OTLP export."},
	{"process_cpu_seconds_total", COUNTER, "", emit_cpu, NULL, "CPU time of the daemon."},
	{"process_resident_memory_bytes", GAUGE, "", emit_resident, NULL, "Resident memory of the daemon."},
	{"process_open_fds", GAUGE, "", emit_fds, NULL, "Open file descriptors of the daemon."},
	{"process_start_time_seconds", GAUGE, "", emit_start, NULL, "Start of the daemon since the epoch."},
};
/* clang-format on */

void zn_metrics_text(struct zn_out *o, struct zn_view *v, bool openmetrics)
{
	struct text t = {.out = o, .view = v, .openmetrics = openmetrics};
	uint64_t start = zn_now_ns();

	zn_agg_refresh(v->agg);
	if (v->flows)
		zn_flows_refresh(v->flows);
	for (size_t i = 0; i < ZN_LEN(table); i++) {
		family(&t, &table[i]);
		table[i].emit(&t);
	}
	if (openmetrics)
		zn_out_text(o, "# EOF\n");
	v->render_ns = zn_now_ns() - start;
}

static const struct metric *find(const char *name)
{
	for (size_t i = 0; i < ZN_LEN(table); i++)
		if (!strcmp(table[i].name, name))
			return &table[i];
	return NULL;
}

bool zn_metrics_known(const char *name)
{
	return find(name);
}

int zn_metrics_type(const char *name)
{
	const struct metric *m = find(name);

	return m ? (int)m->type : -1;
}

const char *zn_metrics_name(size_t i)
{
	return i < ZN_LEN(table) ? table[i].name : NULL;
}

void zn_metrics_walk(struct zn_view *v, const char *name, void (*visit)(void *to, const struct zn_sample *s), void *to)
{
	char numbers[128]; /* of the series with most of them, zernel_nccl_rank_info: 46 digits */
	struct zn_out o = {.at = numbers, .cap = sizeof(numbers)};
	struct walk w = {.visit = visit, .to = to};
	struct text t = {.out = &o, .walk = &w, .view = v};
	const struct metric *m = name ? find(name) : table;
	size_t n = !m ? 0 : name ? 1 : ZN_LEN(table);

	for (size_t i = 0; i < n; i++) {
		family(&t, &m[i]);
		m[i].emit(&t);
	}
}

void zn_metrics_list(FILE *to)
{
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "%s{%s} %s\n    %s\n", table[i].name, table[i].labels, type_name(table[i].type),
			table[i].help);
}

static const char docs_head[] =
	"# Metrics\n\nMade by `make docs` from the table in `metrics.c`; do not edit.\n\n"
	"Each summary has a twin histogram, `<name without _seconds>_hist_seconds`, with `le` at powers of 4 "
	"from 1.024e-06 "
	"(4^5 ns) to 68.719476736 s (4^18 ns): its buckets are exact and can be added up across nodes. A "
	"quantile is within "
	"3.2 % of the exact one from 128 ns on; of file I/O within 12.5 %, but for the first 1,024 series of reads and writes.\n\n"
	"A series of a process appears with its first event and goes when the process has ended. Once the process is known to "
	"belong to a job, each of its series has one label more, the last, `job_id`; the label `job` is Prometheus's own and never "
	"used.\n\n"
	"The sums of a job, `zernel_job_*`, hold what its processes did that have gone. They stay for five minutes "
	"after its end, less only where other jobs need the room. A job that is requeued runs again under its `job_id`: only the "
	"newest run is shown, from 0 on, which reads as a reset of a counter; the reports keep them apart.\n\n"
	"OpenMetrics 1.0, which Prometheus asks for by itself, has the same samples, and `<name>_created` beside each counter, "
	"summary and histogram: when it was 0, which is the process's first hooked call or the daemon's start. In text 0.0.4 "
	"an info is a gauge. Prometheus with native histograms asks for Protocol Buffers: docs/SERVING.md says what it gets.\n\n"
	"| metric | type | labels | meaning |\n|---|---|---|---|\n";
static const char docs_lost[] =
	"\n## What can be lost\n\n`zernel_lost_total{what=...}`: all of them stay 0 on a healthy node.\n\n"
	"| what | meaning |\n|---|---|\n";

void zn_metrics_docs(FILE *to)
{
	fputs(docs_head, to);
	for (size_t i = 0; i < ZN_LEN(table); i++)
		fprintf(to, "| `%s` | %s | %s | %s |\n", table[i].name, type_name(table[i].type), table[i].labels,
			table[i].help);
	fputs(docs_lost, to);
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++)
		fprintf(to, "| `%s` | %s |\n", zn_loss_label(i), zn_loss_help(i));
}
