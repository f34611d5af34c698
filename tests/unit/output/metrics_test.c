/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_test.c: the one walk over the table of metrics (metrics.c, metrics_walk.c): it yields the same series as
 * the text, over simulated data, over rows made by hand, and over jobs. The documents name every metric.
 */
#include <math.h>

#include "metrics.h"

/* The lines of a page that a walk over the same view has named. */
static struct {
	bool named[SAMPLES_MAX];
	uint32_t count;
} walked;

static bool differs_with_time(const char *series)
{
	return !strncmp(series, "process_cpu_", 12) || !strncmp(series, "zernel_scrape_render_", 21);
}

/* The line of a series and its value, which is to be exactly the double that the text says. */
static void walked_line(const char *series, double value)
{
	for (uint32_t i = 0; i < page.samples; i++) {
		if (strcmp(page.sample[i].series, series))
			continue;
		CHECK(!walked.named[i]);
		walked.named[i] = true;
		walked.count++;
		if (strtod(page.sample[i].value, NULL) != value && !differs_with_time(series))
			T_FAIL("%s is %s, not %.17g", series, page.sample[i].value, value);
		return;
	}
	T_FAIL("no line of %s", series);
}

static void put_escaped(struct zn_out *o, struct zn_str s)
{
	for (size_t i = 0, n; i < s.len; i += n + 1) {
		for (n = 0; i + n < s.len && !memchr("\\\"\n", s.at[i + n], 3);)
			n++;
		zn_out_utf8(o, s.at + i, n);
		if (i + n < s.len) {
			zn_out_char(o, '\\');
			zn_out_char(o, s.at[i + n] == '\n' ? 'n' : s.at[i + n]);
		}
	}
}

/* name + suffix, labels of s, one label more. */
static const char *line_of(const struct zn_sample *s, const char *name, const char *suffix, const char *more)
{
	static char line[1 << 14];
	struct zn_out o = {.at = line, .cap = sizeof(line)};

	zn_out_text(&o, name);
	zn_out_text(&o, suffix);
	for (uint32_t i = 0; i < s->label_count; i++) {
		zn_out_char(&o, i ? ',' : '{');
		zn_out_bytes(&o, s->label[i].name.at, s->label[i].name.len);
		zn_out_text(&o, "=\"");
		put_escaped(&o, s->label[i].value);
		zn_out_char(&o, '"');
	}
	if (more) {
		zn_out_char(&o, s->label_count ? ',' : '{');
		zn_out_text(&o, more);
	}
	if (more || s->label_count)
		zn_out_char(&o, '}');
	zn_out_char(&o, '\0');
	CHECK(!o.full);
	return line;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void walked_calibration(const struct zn_sample *s)
{
	const struct {
		const char *label;
		uint64_t ns;
	} quantiles[] = {{"quantile=\"0.1\"", s->bias->p10_ns}, {"quantile=\"0.5\"", s->bias->p50_ns},
		{"quantile=\"0.9\"", s->bias->p90_ns}, {"quantile=\"0.99\"", s->bias->p99_ns}};

	for (size_t i = 0; i < ZN_LEN(quantiles); i++)
		walked_line(line_of(s, s->metric, "", quantiles[i].label), seconds(quantiles[i].ns));
	walked_line(line_of(s, s->metric, "_sum", NULL), seconds(s->bias->sum_ns));
	walked_line(line_of(s, s->metric, "_count", NULL), (double)s->bias->samples);
}

static void walked_durations(const struct zn_sample *s)
{
	static const char *const suffix[] = {"_sum", "_count"};
	struct zn_spread spread;
	uint32_t limits = zn_le_count(s->fine);
	char twin[96], le[64];

	zn_hist_spread(s->hist, s->fine, &spread);
	walked_line(line_of(s, s->metric, "", "quantile=\"0.5\""), seconds(spread.p50_ns));
	walked_line(line_of(s, s->metric, "", "quantile=\"0.99\""), seconds(spread.p99_ns));
	snprintf(twin, sizeof(twin), "%.*s_hist_seconds", (int)strlen(s->metric) - 8, s->metric);
	for (uint32_t i = 0; i < limits; i++) {
		snprintf(
			le, sizeof(le), i + 1 < limits ? "le=\"%.12g\"" : "le=\"+Inf\"", seconds(zn_le_ns(i, s->fine)));
		walked_line(line_of(s, twin, "_bucket", le), (double)spread.le[i]);
	}
	for (size_t i = 0; i < ZN_LEN(suffix); i++) {
		double value = i ? (double)spread.count : seconds(spread.sum_ns);

		walked_line(line_of(s, s->metric, suffix[i], NULL), value);
		walked_line(line_of(s, twin, suffix[i], NULL), value);
	}
}

static void walked_series(void *to, const struct zn_sample *s)
{
	static const char *const types[] = {"counter", "gauge", "info", "summary"};
	const char *type = "none";

	CHECK(to == &walked);
	for (uint32_t i = 0; i < page.families; i++)
		if (!strcmp(page.name[i], s->metric))
			type = page.type[i];
	CHECK_STR(type, s->type == ZN_METRIC_INFO ? "gauge" : types[s->type]);
	CHECK(s->since_ms >= view.start_wall_ms && s->help[0]);
	CHECK_EQ(isnan(s->value) != 0, s->type == ZN_METRIC_SUMMARY);
	if (s->bias)
		walked_calibration(s);
	else if (s->hist)
		walked_durations(s);
	else
		walked_line(line_of(s, s->metric, "", NULL), s->value);
}

/* All series of the text, no others, and their values; all at once, and metric by metric. */
static void walk_and_text_agree(void)
{
	render(false);
	memset(&walked, 0, sizeof(walked));
	zn_metrics_walk(&view, NULL, walked_series, &walked);
	CHECK_EQ(walked.count, page.samples);
	memset(&walked, 0, sizeof(walked));
	for (size_t i = 0; zn_metrics_name(i); i++) {
		CHECK(zn_metrics_known(zn_metrics_name(i)));
		zn_metrics_walk(&view, zn_metrics_name(i), walked_series, &walked);
	}
	CHECK_EQ(walked.count, page.samples);
}

T(a_walk_over_simulated_data_is_the_text)
{
	start_simulated();
	walk_and_text_agree();
	CHECK(walked.count > 1000);
}

T(a_walk_over_what_is_live_is_the_text)
{
	start_live("/opt/\xff\"\n\\/libcuda.so.1");
	known_process()->first_ns = view.start_ns + 20 * ZN_NS_PER_S;
	walk_and_text_agree();
	CHECK_EQ(count_with("zernel_probe_bias_seconds_sum"), ZN_INSN_COUNT - 1);
	CHECK_EQ(count_with("zernel_probe_attached"), 4);
}

static void never(void *to, const struct zn_sample *s)
{
	T_FAIL("%s of %s", s->metric, (const char *)to);
}

T(a_walk_of_what_is_not_there)
{
	static const char *const names[] = {"", "zernel_", "zernel_cuda_launches",
		"zernel_cuda_launch_latency_hist_seconds", "zernel_cuda_launch_latency_seconds_sum",
		"zernel_cuda_launches_total "};

	start_simulated();
	for (size_t i = 0; i < ZN_LEN(names); i++) {
		CHECK(!zn_metrics_known(names[i]));
		zn_metrics_walk(&view, names[i], never, (void *)names[i]);
	}
	start();
	zn_metrics_walk(&view, "zernel_cuda_launches_total", never, "nothing");
	zn_metrics_walk(&view, "zernel_job_launches_total", never, "nothing");
	CHECK(zn_metrics_known("zernel_cuda_launches_total"));
}

T(a_walk_over_jobs_is_the_text)
{
	known_job();
	memory.arena.procs[agg.row[0]].first_ns = view.start_ns + 20 * ZN_NS_PER_S;
	walk_and_text_agree();
	CHECK(count_with("zernel_job_") > 10 && count_with("pid=\"4242\"") > 100);
}

T(docs_name_every_loss_and_metric)
{
	static char docs[1 << 17];
	FILE *f = fmemopen(docs, sizeof(docs), "w");
	char row[128];

	start();
	render(false);
	zn_metrics_docs(f);
	fclose(f);
	CHECK(!strncmp(docs, "# Metrics\n", 10));
	for (uint32_t i = 0; i < page.families; i++) {
		snprintf(row, sizeof(row), "\n| `%s` | ", page.name[i]);
		CHECK(strstr(docs, row) || strstr(page.name[i], "_hist_seconds"));
	}
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++) {
		snprintf(row, sizeof(row), "\n| `%s` | %s |\n", zn_loss_label(i), zn_loss_help(i));
		CHECK(strstr(docs, row));
	}
}

int main(void)
{
	RUN(a_walk_over_simulated_data_is_the_text);
	RUN(a_walk_over_what_is_live_is_the_text);
	RUN(a_walk_of_what_is_not_there);
	RUN(a_walk_over_jobs_is_the_text);
	RUN(docs_name_every_loss_and_metric);
	return t_end();
}
