/* SPDX-License-Identifier: GPL-2.0 */
/*
 * watch_panels_test.c: the upper part of the screen, of answers that are whole, empty, wrong in every type, cut at each
 * byte, or of somebody who means harm.
 */
#include <stdlib.h>

#include "zernel.h"
#include "t.h"

static struct zn_watch w;
static char text[1 << 16];

static void begin(const char *snapshot, int cols, int rows)
{
	w.snapshot = (struct zn_str){snapshot, strlen(snapshot)};
	w.term = (struct zn_term){.out = {.at = text, .cap = sizeof(text) - 1}, .cols = cols, .rows = rows};
	zn_term_begin(&w.term);
	w.term.out.len = 0;
}

static const char *written(void)
{
	text[w.term.out.len] = 0;
	return text;
}

static const char *gpus(const char *snapshot, int cols)
{
	begin(snapshot, cols, 0);
	zn_panel_gpus(&w);
	return written();
}

static const char *details(const char *snapshot, int cols)
{
	begin(snapshot, cols, 0);
	zn_panel_details(&w);
	return written();
}

T(a_header)
{
	begin("{\"node\":\"n1\",\"source\":\"live\",\"version\":\"1.2\",\"uptime_s\":61}", 120, 0);
	w.data_ms = 0;
	zn_panel_header(&w);
	CHECK_STR(written(), "n1  live  zerneld 1.2  up 1 min 1 s  data of -\n");
	begin("{}", 120, 0);
	zn_panel_header(&w);
	CHECK_STR(written(), "-  -  zerneld -  up -  data of -\n");
}

T(a_gpu)
{
	CHECK_STR(gpus("{\"gpus\":[{\"gpu_id\":\"0\",\"used_bytes\":512,\"peak_bytes\":768,\"total_bytes\":1024,"
		       "\"processes\":2}]}",
			  64),
		"GPU 0  █████░░│░░  50%  512B of 1.00K  peak 768B  2 processes\n");
	CHECK(strstr(gpus("{\"gpus\":[{\"gpu_id\":\"0\",\"used_bytes\":512,\"total_bytes\":1024,\"processes\":1}]}",
			     64),
		      "  peak -  1 process\n") != NULL);
	CHECK_STR(gpus("{\"gpus\":[]}", 64), "GPU -  no GPU memory seen yet\n");
	CHECK_STR(gpus("{}", 64), "GPU -  no GPU memory seen yet\n");
}

/* More than there is, nothing at all, and what is not a number. */
T(gpus_whose_figures_are_wrong)
{
	CHECK(strstr(gpus("{\"gpus\":[{\"gpu_id\":\"0\",\"used_bytes\":18446744073709551615,\"peak_bytes\":1,"
			  "\"total_bytes\":1}]}",
			     64),
		      "██████████ 999%") != NULL);
	CHECK_STR(gpus("{\"gpus\":[{\"gpu_id\":\"0\",\"used_bytes\":1,\"total_bytes\":0}]}", 64),
		"GPU 0  1B of unknown size  peak -  - processes\n");
	CHECK_STR(gpus("{\"gpus\":[{\"memory_complete\":false,\"total_bytes\":1024}]}", 120),
		"GPU -  not known, of 1.00K: a process used it before the daemon came\n");
	CHECK_STR(gpus("{\"gpus\":[null,3,\"x\",[]]}", 64),
		"GPU -  - of unknown size  peak -  - processes\nGPU -  - of unknown size  peak -  - processes\n"
		"GPU -  - of unknown size  peak -  - processes\nGPU -  - of unknown size  peak -  - processes\n");
}

T(what_a_gpu_says_of_itself)
{
	const char *got = gpus("{\"gpus\":[{\"gpu_id\":\"1\",\"device\":{\"utilization\":0.5,\"power_watts\":300,"
			       "\"clock_hertz\":1410000000,\"throttled_by\":[\"power\",\"heat\"],\"lost\":1,"
			       "\"link_width_ratio\":0.5}}]}",
		160);

	CHECK(strstr(got,
		      "\n       50% busy  300 W  1410 MHz  lost: it has fallen off the bus, or must be reset"
		      "  throttled: power  throttled: heat  PCIe: 50% of its lanes\n") != NULL);
}

/* What a source tells alone stands alone, also where it is 0; of what none tells there is nothing, and no line. */
T(each_figure_alone)
{
	static const struct {
		const char *device, *line;
	} some[] = {{"", ""}, {"\"utilization\":0.0", "       0% busy\n"}, {"\"power_watts\":0.0", "       0 W\n"},
		{"\"temperature_celsius\":0.0", "       0 °C\n"}, {"\"clock_hertz\":0.0", "       0 MHz\n"},
		{"\"utilization\":null,\"power_watts\":null", ""}, {"\"link_width_ratio\":1.0", ""},
		{"\"link_width_ratio\":0.0", "       PCIe: 0% of its lanes\n"}, {"\"lost\":0.0", ""},
		{"\"throttled_s\":{},\"throttled_by\":[]", ""},
		{"\"sm_active\":0.0,\"ecc_uncorrected\":0.0,\"link_width\":0.0", ""}};
	char snapshot[256], want[256];

	for (size_t i = 0; i < ZN_LEN(some); i++) {
		snprintf(snapshot, sizeof(snapshot), "{\"gpus\":[{\"gpu_id\":\"0\",\"device\":{%s}}]}", some[i].device);
		snprintf(want, sizeof(want), "GPU 0  - of unknown size  peak -  - processes\n%s", some[i].line);
		CHECK_STR(gpus(snapshot, 120), want);
	}
}

/* A third of the screen at most: what found no room is told as a number. */
T(more_than_the_screen_has)
{
	static char many[1 << 14];
	int len = snprintf(many, sizeof(many), "{\"gpus\":[");

	for (int i = 0; i < 100; i++)
		len += snprintf(many + len, sizeof(many) - (size_t)len, "%s{\"gpu_id\":\"%d\"}", i ? "," : "", i);
	snprintf(many + len, sizeof(many) - (size_t)len, "]}");
	begin(many, 80, 30);
	zn_panel_gpus(&w);
	CHECK(strstr(written(), "GPU 9 ") != NULL);
	CHECK(strstr(written(), "GPU 10 ") == NULL);
	CHECK(strstr(written(), "and 90 more GPUs\n") != NULL);
	begin(many, 80, 3);
	zn_panel_gpus(&w);
	CHECK(strstr(written(), "and 99 more GPUs\n") != NULL);
}

T(alerts_that_fire_come_first)
{
	static const char alerts[] =
		"{\"alerts\":[{\"alert\":\"a\",\"state\":\"pending\",\"severity\":\"info\",\"summary\":\"first\",\"value\":1,"
		"\"threshold\":2},{\"alert\":\"b\",\"state\":\"resolved\"},{\"alert\":\"c\",\"state\":\"firing\","
		"\"severity\":\"critical\",\"gpu_id\":\"3\",\"summary\":\"second\",\"value\":9,\"threshold\":8}]}";

	begin(alerts, 160, 0);
	zn_panel_alerts(&w);
	CHECK_STR(written(),
		"FIRING  critical c gpu 3 since -: second (value 9, threshold 8)\n"
		"pending info a since -: first (value 1, threshold 2)\n");
	begin(alerts, 160, 8);
	zn_panel_alerts(&w);
	CHECK(strstr(written(), "FIRING ") == written());
	CHECK(strstr(written(), "\nand 1 more alerts\n") != NULL);
}

T(idle_jobs)
{
	begin("{\"jobs\":[{\"job_id\":\"7\",\"user\":\"u\",\"state\":\"running\",\"gpus\":[{\"gpu_id\":\"0\",\"quiet_s\":600},"
	      "{\"gpu_id\":\"1\",\"quiet_s\":0},{\"gpu_id\":\"2\",\"quiet_s\":1e300,\"busy_s\":1}]},"
	      "{\"job_id\":\"8\",\"state\":\"ended\",\"gpus\":[{\"gpu_id\":\"0\",\"quiet_s\":600}]}]}",
		200, 0);
	zn_panel_idle(&w);
	CHECK(strstr(written(), "IDLE    job 7 of u has GPUs that it does not use: 0 since it began, 2 for ") ==
		written());
	CHECK(strstr(written(), "job 8") == NULL);
}

T(what_is_not_attached_and_what_is_lost)
{
	const char *got = details(
		"{\"probes\":[{\"family\":\"vfs\",\"state\":\"unavailable\",\"why\":\"no fentry\"},"
		"{\"family\":\"cuda\",\"state\":\"attached\"}],\"lost\":{\"process\":3,\"elf\":0,\"bad\":\"x\"}}",
		120);

	CHECK(strstr(got, "not attached: vfs (unavailable): no fentry\n") != NULL);
	CHECK(strstr(got, "cuda (") == NULL);
	CHECK(strstr(got, "lost: process 3\n") != NULL);
}

T(names_of_somebody_who_means_harm)
{
	const char *got;

	begin("{\"node\":\"\\u001b]0;title\\u0007\",\"source\":\"\\u009b2J\",\"version\":\"\\u202e\\r\\n\"}", 120, 0);
	zn_panel_header(&w);
	got = written();
	CHECK(strstr(got, "?]0;title?  ?2J") == got);
	for (const char *at = got; *at; at++)
		CHECK((unsigned char)*at >= ' ' ? *at != 0x7f : *at == '\n' && !at[1]);
	got = details("{\"lost\":{\"\\u001b[2J\":1}}", 120);
	CHECK(strchr(got, '\033') == NULL);
}

T(which_job)
{
	char to[ZN_PANEL_JOB], entry[256];

	CHECK_STR(zn_panel_job((struct zn_str){"{}", 2}, to), "processes of no job");
	CHECK_STR(zn_panel_job((struct zn_str){"{\"job_id\":\"7\"}", 14}, to), "job 7");
	snprintf(entry, sizeof(entry), "{\"job_id\":\"%0200d\"}", 0);
	CHECK_EQ(strlen(zn_panel_job((struct zn_str){entry, strlen(entry)}, to)), ZN_UNITS_CELL - 1 + 4);
}

T(since_when_nothing_is_new)
{
	char to[256];

	memset(&w, 0, sizeof(w));
	begin("{\"interval_ms\":1000}", 80, 0);
	w.answer_ns = w.fresh_ns = zn_now_ns();
	CHECK(!zn_panel_is_stale(&w, to));
	w.fresh_ns = w.answer_ns - 10 * ZN_NS_PER_S;
	CHECK(zn_panel_is_stale(&w, to));
	CHECK(strstr(to, "the daemon answers, but nothing new since ") == to);
	begin("{\"interval_ms\":60000}", 80, 0); /* nor is anything to be expected yet */
	CHECK(!zn_panel_is_stale(&w, to));
	begin("{\"interval_ms\":1e300}", 80, 0);
	CHECK(zn_panel_is_stale(&w, to));
	w.failed = true;
	memset(w.client.why, 'x', sizeof(w.client.why) - 1);
	CHECK(zn_panel_is_stale(&w, to));
	CHECK(strstr(to, "no answer since ") == to);
	CHECK(strlen(to) < sizeof(to));
}

static void put_all(void)
{
	zn_panel_header(&w);
	zn_panel_alerts(&w);
	zn_panel_idle(&w);
	zn_panel_gpus(&w);
	zn_panel_details(&w);
	CHECK(w.term.out.len < sizeof(text));
}

/* From a block of exactly its size, so that a step behind it is seen; and on screens of every size. */
T(an_answer_that_is_cut_anywhere)
{
	static const char whole[] =
		"{\"node\":\"n\",\"uptime_s\":5,\"interval_ms\":1000,\"gpus\":[{\"gpu_id\":\"0\",\"used_bytes\":1,\"peak_bytes\":2,"
		"\"total_bytes\":3,\"processes\":1,\"device\":{\"power_watts\":1.5,\"throttled_by\":[\"x\"]}}],\"alerts\":[{\"alert\":"
		"\"a\",\"state\":\"firing\",\"since_ms\":1}],\"jobs\":[{\"job_id\":\"1\",\"state\":\"running\",\"gpus\":[{\"gpu_id\":"
		"\"0\",\"quiet_s\":90}]}],\"probes\":[{\"family\":\"f\",\"state\":\"off\",\"why\":\"w\"}],\"lost\":{\"x\":1}}";

	for (size_t len = 0; len < sizeof(whole); len++) {
		char *block = malloc(len + 1);

		memcpy(block, whole, len);
		block[len] = 0;
		begin(block, 1 + (int)len % 130, (int)len % 40);
		w.snapshot.len = len;
		put_all();
		free(block);
	}
}

T(every_value_of_another_type)
{
	static const char *const values[] = {
		"null", "true", "-1", "1e999", "\"\"", "\"text\"", "[]", "{}", "[[[]]]", "99999999999999999999"};
	static const char *const keys[] = {"node", "uptime_s", "interval_ms", "gpus", "alerts", "jobs", "probes",
		"lost", "cuda_latency_p50_us", "gpu_ioctl"};
	char snapshot[1024];

	for (size_t v = 0; v < ZN_LEN(values); v++) {
		int len = snprintf(snapshot, sizeof(snapshot), "{");

		for (size_t k = 0; k < ZN_LEN(keys); k++)
			len += snprintf(snapshot + len, sizeof(snapshot) - (size_t)len, "%s\"%s\":%s", k ? "," : "",
				keys[k], values[v]);
		snprintf(snapshot + len, sizeof(snapshot) - (size_t)len, "}");
		begin(snapshot, 80, 24);
		put_all();
	}
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	RUN(a_header);
	RUN(a_gpu);
	RUN(gpus_whose_figures_are_wrong);
	RUN(what_a_gpu_says_of_itself);
	RUN(each_figure_alone);
	RUN(more_than_the_screen_has);
	RUN(alerts_that_fire_come_first);
	RUN(idle_jobs);
	RUN(what_is_not_attached_and_what_is_lost);
	RUN(names_of_somebody_who_means_harm);
	RUN(which_job);
	RUN(since_when_nothing_is_new);
	RUN(an_answer_that_is_cut_anywhere);
	RUN(every_value_of_another_type);
	return t_end();
}
