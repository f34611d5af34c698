/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics_test.c: what /metrics and the JSON views say. The text is read back by a strict reader of the format, over
 * simulated data, over rows made by hand, and over names that a hostile user chose. Both forms must agree. Probes and
 * libraries are stand-ins: nothing here touches the kernel.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "../zernel.h"
#include "t.h"

#define TEXT_BYTES   (8 << 20)
#define SAMPLES_MAX  20000
#define FAMILIES_MAX 128
#define PID          4242

const char zn_version[] = "1.2-test", zn_commit[] = "abc\"1\\";
bool zn_ready;

static struct zn_plain plain;
static struct zn_sim sim;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_probe probe;
static struct zn_options options;
static struct zn_serve serve;
static struct zn_view view;
static struct zn_lib libs[2];
static char text[TEXT_BYTES];

uint64_t zn_probe_missed(const struct zn_probe *p)
{
	CHECK(p == &probe);
	return 31;
}

const char *zn_family_label(enum zn_family f)
{
	static const char *const label[] = {"gpu_mem", "cuda_trace", "nccl"};

	return label[f];
}

const char *zn_first_label(enum zn_first first)
{
	static const char *const label[] = {"nop", "push", "landing", "other"};

	return label[first];
}

void zn_find_visit(struct zn_find *f, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	CHECK(f == (struct zn_find *)libs);
	for (size_t i = 0; i < ZN_LEN(libs); i++)
		if (libs[i].used)
			visit(to, &libs[i]);
}

/* A view of nothing at all; simulated, as there is no probe. */
static void start(void)
{
	zn_log_level = ZN_ERROR;
	zn_plain_close(&plain);
	zn_sim_close(&sim);
	if (zn_plain_open(&plain))
		abort();
	options = (struct zn_options){.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
	memset(&probe, 0, sizeof(probe));
	memset(libs, 0, sizeof(libs));
	memset(&serve, 0, sizeof(serve));
	zn_agg_init(&agg, &plain.arena);
	zn_alerts_init(&alerts, &options);
	view = (struct zn_view){.options = &options, .agg = &agg, .alerts = &alerts, .node = "node1"};
	view.start_ns = zn_now_ns() - 77 * ZN_NS_PER_S;
	view.start_wall_ms = 1711800000123;
	strcpy(view.release, "6.1.0-test");
}

static void start_simulated(void)
{
	start();
	if (zn_sim_open(&sim, 1))
		abort();
	zn_agg_init(&agg, &sim.plain.arena);
	zn_agg_tick(&agg, zn_now_ns());
	zn_sim_step(&sim, 6000);
	zn_agg_tick(&agg, zn_now_ns() + ZN_NS_PER_S);
}

static struct zn_lib *add_lib(size_t i, enum zn_lib_kind kind, const char *path)
{
	libs[i] = (struct zn_lib){.used = true, .ready = true, .kind = kind, .dev = 0x801, .ino = 100 + i};
	snprintf(libs[i].path, sizeof(libs[i].path), "%s", path);
	return &libs[i];
}

/* With probes: three hooks, two libraries at one path. */
static void start_live(const char *path)
{
	static const struct zn_hook hooks[] = {{"cuLaunchKernel", ZN_FAM_CUDA_TRACE, ZN_S_LAUNCH, 0, 0},
		{"cuMemAlloc_v2", ZN_FAM_GPU_MEM, ZN_S_ALLOC, 0, 0}, {"ncclAllReduce", ZN_FAM_NCCL, ZN_S_COLL, 0, 0}};

	start();
	memcpy(probe.hook, hooks, sizeof(hooks));
	probe.hook_count = ZN_LEN(hooks);
	for (uint32_t f = 0; f < ZN_FAMILY_COUNT; f++)
		probe.available[f] = true;
	for (enum zn_first i = 0; i < ZN_FIRST_COUNT; i++)
		probe.bias[i] = (struct zn_bias){.samples = i ? 512 : 0, .sum_ns = 2048000, .p10_ns = 3900,
			.p50_ns = 4000, .p90_ns = 4100, .p99_ns = 5000, .call_ns = 9000};
	add_lib(0, ZN_LIB_CUDA, path)->symbol[0] = ZN_SYM_ATTACHED;
	add_lib(1, ZN_LIB_CUDA, path)->symbol[1] = ZN_SYM_FAILED;
	view.probe = &probe;
	view.find = (struct zn_find *)libs;
}

/* ---- a strict reader of the text format ---- */

struct sample {
	char *series; /* name and labels */
	size_t name_len;
	char *value;
	uint32_t family;
};
static struct {
	char *name[FAMILIES_MAX], *type[FAMILIES_MAX];
	uint32_t families;
	struct sample sample[SAMPLES_MAX];
	uint32_t samples;
	bool openmetrics, ended;
} page;

static char *skip_name(char *at)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

	if (!*at || !strchr(letters, *at))
		return NULL;
	while (*at && (strchr(letters, *at) || (*at >= '0' && *at <= '9')))
		at++;
	return at;
}

/* The end of a quoted value, or NULL if anything in it is not as the format has it. */
static char *skip_value(char *at)
{
	uint32_t utf8 = 0;

	for (; *at != '"'; at++) {
		if (*at == '\\' && !strchr("\\\"n", *++at))
			return NULL;
		utf8 = zn_utf8_step(utf8, (uint8_t)*at);
		if (!*at || utf8 == ZN_UTF8_BAD)
			return NULL;
	}
	return utf8 ? NULL : at + 1;
}

static char *skip_labels(char *at)
{
	do {
		at = skip_name(at + 1);
		if (!at || at[0] != '=' || at[1] != '"' || !(at = skip_value(at + 2)))
			return NULL;
	} while (*at == ',');
	return *at == '}' ? at + 1 : NULL;
}

static bool read_sample(char *line)
{
	char *at = skip_name(line), *end;
	struct sample *s = &page.sample[page.samples];

	if (!at || !page.families || page.samples == SAMPLES_MAX)
		return false;
	*s = (struct sample){.series = line, .name_len = (size_t)(at - line), .family = page.families - 1};
	if (*at == '{' && !(at = skip_labels(at)))
		return false;
	if (*at != ' ')
		return false;
	*at = '\0';
	s->value = at + 1;
	strtod(s->value, &end);
	page.samples++;
	return end > s->value && !*end;
}

/* HELP and TYPE of one name, in this order, and never again. */
static bool read_comment(char *line)
{
	char *name = line + strlen("# HELP "), *end = strchr(line, ' ') ? strchr(name, ' ') : NULL;

	if (!strcmp(line, "# EOF"))
		return page.ended = page.openmetrics;
	if (!end || page.families == FAMILIES_MAX)
		return false;
	*end = '\0';
	if (!strncmp(line, "# HELP ", 7)) {
		for (uint32_t i = 0; i < page.families; i++)
			if (!strcmp(page.name[i], name))
				return false;
		page.name[page.families] = name;
		page.type[page.families++] = NULL;
		return skip_name(name) == end && end[1] && !strchr(end + 1, '\\');
	}
	if (strncmp(line, "# TYPE ", 7) || !page.families || strcmp(page.name[page.families - 1], name))
		return false;
	page.type[page.families - 1] = end + 1;
	return true;
}

static bool ends_with(const struct sample *s, const char *suffix)
{
	size_t len = strlen(page.name[s->family]);

	return s->name_len == len + strlen(suffix) && !strncmp(s->series, page.name[s->family], len) &&
		!strncmp(s->series + len, suffix, strlen(suffix));
}

static bool belongs(const struct sample *s)
{
	const char *type = page.type[s->family];

	if (!type)
		return false;
	if (!strcmp(type, "counter"))
		return page.openmetrics ? ends_with(s, "_total") : ends_with(s, "");
	if (!strcmp(type, "gauge"))
		return ends_with(s, "");
	if (!strcmp(type, "summary"))
		return ends_with(s, "") || ends_with(s, "_sum") || ends_with(s, "_count");
	return !strcmp(type, "histogram") &&
		(ends_with(s, "_bucket") || ends_with(s, "_sum") || ends_with(s, "_count"));
}

static int by_series(const void *a, const void *b)
{
	return strcmp(((const struct sample *)a)->series, ((const struct sample *)b)->series);
}

static void check_no_duplicates(void)
{
	static struct sample sorted[SAMPLES_MAX];

	memcpy(sorted, page.sample, page.samples * sizeof(sorted[0]));
	qsort(sorted, page.samples, sizeof(sorted[0]), by_series);
	for (uint32_t i = 1; i < page.samples; i++)
		if (!strcmp(sorted[i - 1].series, sorted[i].series))
			T_FAIL("two of %s", sorted[i].series);
}

/* The labels of a line of a group, without the one that only this line has and without the bracket. */
static size_t shared_labels(const struct sample *s, const char **labels)
{
	const char *own = strstr(s->series, "le=\"");

	if (ends_with(s, ""))
		own = strstr(s->series, "quantile=\"");
	*labels = s->series + s->name_len;
	if (own && (ends_with(s, "") || ends_with(s, "_bucket")))
		return (size_t)(own - 1 - *labels);
	return strlen(*labels) ? strlen(*labels) - 1 : 0;
}

static bool same_labels(const struct sample *a, const struct sample *b)
{
	const char *x, *y;
	size_t n = shared_labels(a, &x), m = shared_labels(b, &y);

	return n == m && !strncmp(x, y, n);
}

/* The lines of one summary or histogram series, from s on: growing values, then sum, then count. */
static uint32_t check_group(const struct sample *s, uint32_t left)
{
	const char *line = strcmp(page.type[s->family], "summary") ? "_bucket" : "";
	uint32_t n = 0;

	while (n < left && ends_with(&s[n], line)) {
		CHECK(n == 0 || strtod(s[n].value, NULL) >= strtod(s[n - 1].value, NULL));
		CHECK(same_labels(&s[n], s));
		n++;
	}
	CHECK(n + 2 <= left && ends_with(&s[n], "_sum") && ends_with(&s[n + 1], "_count"));
	CHECK(n + 2 <= left && same_labels(&s[n], s) && same_labels(&s[n + 1], s));
	if (!*line) {
		CHECK(n >= 2);
	} else if (n == ZN_LE_COUNT) {
		CHECK(strstr(s[n - 1].series, "le=\"+Inf\"") && !strcmp(s[n - 1].value, s[n + 1].value));
	} else {
		T_FAIL("%s has %u buckets", s->series, n);
	}
	return n + 2;
}

static void check_groups(void)
{
	uint32_t i = 0;

	while (i < page.samples) {
		const char *type = page.type[page.sample[i].family];

		if (type && (!strcmp(type, "summary") || !strcmp(type, "histogram")))
			i += check_group(&page.sample[i], page.samples - i);
		else
			i++;
	}
}

static void read_page(size_t len, bool openmetrics)
{
	char *end;

	page.families = page.samples = 0;
	page.openmetrics = openmetrics;
	page.ended = false;
	CHECK(len && text[len - 1] == '\n' && !memchr(text, '\0', len));
	for (char *line = text; line < text + len; line = end + 1) {
		end = memchr(line, '\n', (size_t)(text + len - line));
		*end = '\0';
		if (page.ended || !(*line == '#' ? read_comment(line) : read_sample(line)))
			T_FAIL("not well-formed: %s", line);
		else if (*line != '#' && !belongs(&page.sample[page.samples - 1]))
			T_FAIL("out of place: %s", line);
	}
	CHECK_EQ(page.ended, openmetrics);
	check_no_duplicates();
	check_groups();
}

static void render(bool openmetrics)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_metrics_text(&o, &view, openmetrics);
	CHECK(!o.full);
	read_page(o.len, openmetrics);
}

static const char *value_of(const char *series)
{
	for (uint32_t i = 0; i < page.samples; i++)
		if (!strcmp(page.sample[i].series, series))
			return page.sample[i].value;
	return "absent";
}

static uint32_t count_with(const char *part)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < page.samples; i++)
		n += strstr(page.sample[i].series, part) != NULL;
	return n;
}

/* ---- /metrics ---- */

T(simulated_data_is_well_formed)
{
	start_simulated();
	render(false);
	CHECK(page.samples > 1000);
	CHECK_EQ(count_with("pid=\"1007\""), count_with("pid=\"1000\""));
	CHECK_STR(value_of("zernel_build_info{version=\"1.2-test\",commit=\"abc\\\"1\\\\\",source=\"simulated\"}"), "1");
	render(true);
	CHECK(page.samples > 1000);
}

/* Every metric of the list has its place on the page, even without a sample. */
T(nothing_yet)
{
	static char list[1 << 16];
	FILE *f = fmemopen(list, sizeof(list), "w");
	uint32_t listed = 0, summaries = 0;

	start();
	render(false);
	zn_metrics_list(f);
	fclose(f);
	for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n")) {
		size_t len = strcspn(line, "{");

		if (*line == ' ')
			continue;
		CHECK(listed + summaries < page.families);
		CHECK_MEM(page.name[listed + summaries], strlen(page.name[listed + summaries]), line, len);
		listed++;
		summaries += !strcmp(line + strlen(line) - 7, "summary") && !strstr(line, "_bias_");
	}
	CHECK(listed > 40);
	CHECK_EQ(listed + summaries, page.families);
	CHECK_EQ(count_with("pid="), 0);
	CHECK_STR(value_of("zernel_lost_total{what=\"ringbuf\"}"), "0");
}

/* A process whose every figure is known. */
static struct zn_proc *known_process(void)
{
	struct zn_proc *p = zn_plain_claim(&plain, PID, "pytho\xff\"\\\n\x1b");
	struct zn_proc_gpu *g = &p->gpu[2];

	*g = (struct zn_proc_gpu){.used_bytes = 7, .peak_bytes = 11, .alloc_calls = {1, 2, 3, 4, 5, 6},
		.alloc_bytes = {10, 20, 30, 40, 50, 60}, .free_calls = 13, .fail_oom = 17, .fail_other = 19,
		.total_bytes = 28, .uuid = {0xab}, .pci = "0000:3b:00.0"};
	for (uint32_t i = ZN_C_LAUNCH_KERNEL; i < ZN_C_HITS_END; i++)
		p->count[i] = 1000 + i;
	for (enum zn_detail d = 0; d < ZN_DETAIL_COUNT; d++)
		for (uint64_t n = 0; n <= d; n++)
			zn_plain_record(&plain, p, d, 1000000 * (d + 1), 100 + d);
	plain.arena.hists[p->hist[ZN_H_NCCL_SEND]].errors = 3;
	plain.comms[0] = (struct zn_comm){.hash = 0xbeef, .rank = 3, .nranks = 4, .tgid = PID};
	plain.comms[1] = (struct zn_comm){.hash = 0xbeef, .rank = ZN_UNKNOWN, .nranks = 4, .tgid = PID};
	plain.comms[2] = (struct zn_comm){.hash = 0, .rank = 1, .nranks = 4, .tgid = PID};
	plain.comm_count = 3;
	zn_agg_tick(&agg, zn_now_ns());
	return p;
}

#define GPU "gpu_id=\"GPU-ab000000-0000-0000-0000-000000000000\""
static const struct {
	const char *series, *value;
} known[] = {
	{"zernel_gpu_memory_used_bytes{pid=\"4242\"," GPU "}", "7"},
	{"zernel_gpu_memory_peak_bytes{pid=\"4242\"," GPU "}", "11"},
	{"zernel_gpu_memory_total_bytes{" GPU "}", "28"},
	{"zernel_gpu_memory_used_ratio{" GPU "}", "0.25"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"device\"}", "1"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"host\"}", "6"},
	{"zernel_gpu_alloc_bytes_total{pid=\"4242\"," GPU ",kind=\"managed\"}", "20"},
	{"zernel_gpu_alloc_bytes_total{pid=\"4242\"," GPU ",kind=\"vmm\"}", "50"},
	{"zernel_gpu_free_calls_total{pid=\"4242\"," GPU "}", "13"},
	{"zernel_gpu_alloc_failures_total{pid=\"4242\"," GPU ",reason=\"oom\"}", "17"},
	{"zernel_gpu_alloc_failures_total{pid=\"4242\"," GPU ",reason=\"other\"}", "19"},
	{"zernel_gpu_host_pinned_bytes{pid=\"4242\"}", "1014"},
	{"zernel_gpu_info{" GPU ",uuid=\"GPU-ab000000-0000-0000-0000-000000000000\",pci=\"0000:3b:00.0\",minor=\"\"}",
		"1"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"kernel\"}", "1000"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"graph\"}", "1001"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"cooperative\"}", "1002"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"captured\"}", "1003"},
	{"zernel_cuda_launch_errors_total{pid=\"4242\"}", "1004"},
	{"zernel_cuda_memcpy_bytes_total{pid=\"4242\",direction=\"htod\"}", "1005"},
	{"zernel_cuda_memcpy_bytes_total{pid=\"4242\",direction=\"other\"}", "1008"},
	{"zernel_cuda_memcpy_calls_total{pid=\"4242\",direction=\"dtoh\"}", "1010"},
	{"zernel_cuda_launch_latency_seconds{pid=\"4242\",quantile=\"0.5\"}", "0.001"},
	{"zernel_cuda_launch_latency_seconds_sum{pid=\"4242\"}", "0.001"},
	{"zernel_cuda_launch_latency_seconds_count{pid=\"4242\"}", "1"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"0.000262144\"}", "0"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"0.001048576\"}", "1"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"+Inf\"}", "1"},
	{"zernel_cuda_sync_seconds_count{pid=\"4242\",call=\"stream_synchronize\"}", "2"},
	{"zernel_cuda_sync_seconds_count{pid=\"4242\",call=\"mem_free\"}", "7"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}", "8"},
	{"zernel_nccl_collective_duration_seconds_sum{op=\"all_reduce\"}", "0.064"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"recv\"}", "17"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"group\"}", "absent"},
	{"zernel_nccl_calls_total{pid=\"4242\",op=\"all_reduce\"}", "8"},
	{"zernel_nccl_bytes_total{pid=\"4242\",op=\"all_reduce\"}", "856"},
	{"zernel_nccl_errors_total{pid=\"4242\",op=\"send\"}", "3"},
	{"zernel_nccl_errors_total{pid=\"4242\",op=\"recv\"}", "0"},
	{"zernel_nccl_group_seconds_count{pid=\"4242\"}", "18"},
	{"zernel_nccl_comm_init_seconds_count{pid=\"4242\"}", "19"},
	{"zernel_nccl_rank_info{pid=\"4242\",comm=\"000000000000beef\",rank=\"3\",nranks=\"4\"}", "1"},
	{"zernel_dataloader_wait_seconds_count{pid=\"4242\"}", "20"},
	{"zernel_alert_state{alert=\"gpu_oom_warning\",severity=\"critical\"}", "0"},
	{"zernel_kernel_info{release=\"6.1.0-test\"}", "1"},
	{"zernel_table_entries{table=\"processes\"}", "1"},
	{"zernel_table_entries{table=\"histograms\"}", "20"},
	{"zernel_table_entries{table=\"gpus\"}", "1"},
	{"zernel_table_entries{table=\"communicators\"}", "3"},
	{"zernel_table_limit{table=\"processes\"}", "1024"},
	{"zernel_table_limit{table=\"histograms\"}", "4095"},
	{"process_start_time_seconds", "1711800000.123"},
};

static void known_figures(void)
{
	t_begin("known_figures: well-formed");
	start();
	known_process();
	render(false);
	CHECK_EQ(count_with("zernel_nccl_rank_info"), 1);
	for (size_t i = 0; i < ZN_LEN(known); i++) {
		t_begin(known[i].series);
		CHECK_STR(value_of(known[i].series), known[i].value);
	}
}

T(what_has_not_happened_has_no_series)
{
	struct zn_proc *p;

	start();
	p = zn_plain_claim(&plain, PID, "x");
	p->gpu[0].total_bytes = 5;
	zn_agg_refresh(&agg);
	render(false);
	CHECK_EQ(count_with("pid=\"4242\""), 0);
	p->gpu[0].peak_bytes = 4;
	render(false);
	CHECK_STR(value_of("zernel_gpu_memory_used_bytes{pid=\"4242\",gpu_id=\"unknown\"}"), "0");
	CHECK_STR(value_of("zernel_gpu_memory_peak_bytes{pid=\"4242\",gpu_id=\"unknown\"}"), "4");
	CHECK_EQ(count_with("pid=\"4242\""), 2);
}

T(series_go_with_their_process)
{
	static char collectives[64];

	start_simulated();
	render(false);
	CHECK(count_with("pid=\"1003\"") > 50);
	strcpy(collectives, value_of("zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}"));
	CHECK(atoi(collectives) > 100);
	zn_plain_exit(&sim.plain, sim.rank[3]);
	sim.plain.comms[3] = sim.plain.comms[--sim.plain.comm_count];
	zn_agg_tick(&agg, zn_now_ns() + 2 * ZN_NS_PER_S);
	render(false);
	CHECK_EQ(count_with("pid=\"1003\""), 0);
	CHECK(count_with("pid=\"1004\"") > 50);
	CHECK_STR(value_of("zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}"), collectives);
	CHECK_STR(value_of("zernel_table_entries{table=\"processes\"}"), "7");
}

T(probes_of_two_files_at_one_path)
{
	start_live("/home/u/libcuda.so.1");
	view.serve = &serve;
	shared_calls:
	plain.arena.shared->lost[ZN_LOST_MISSED] = 4;
	serve.lost_frame = 5;
	render(true);
	CHECK_EQ(count_with("zernel_probe_attached{"), 4);
	CHECK_EQ(count_with("symbol=\"ncclAllReduce\""), 0);
	CHECK_STR(value_of("zernel_probe_attached{family=\"cuda_trace\",symbol=\"cuLaunchKernel\","
			   "library=\"/home/u/libcuda.so.1@801:100\"}"),
		"1");
	CHECK_STR(value_of("zernel_probe_attached{family=\"gpu_mem\",symbol=\"cuMemAlloc_v2\","
			   "library=\"/home/u/libcuda.so.1@801:101\"}"),
		"0");
	CHECK_STR(value_of("zernel_probe_bias_seconds{first_instruction=\"push\",quantile=\"0.5\"}"), "0.000004");
	CHECK_STR(value_of("zernel_probe_bias_seconds_count{first_instruction=\"nop\"}"), "absent");
	CHECK_STR(value_of("zernel_lost_total{what=\"missed\"}"), "35");
	CHECK_STR(value_of("zernel_lost_total{what=\"ws_frame\"}"), "5");
	CHECK_STR(value_of("zernel_table_entries{table=\"libraries\"}"), "2");
}
