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

#include "zernel.h"
#include "alert_source.h"
#include "t.h"

#define TEXT_BYTES   (8 << 20)
#define SAMPLES_MAX  20000
#define FAMILIES_MAX 192
#define PID          4242

const char zn_version[] = "1.2-test", zn_commit[] = "abc\"1\\";
bool zn_ready;

static struct zn_memory_arena memory;
static struct zn_sim sim;
static struct zn_agg agg;
static struct zn_alerts alerts;
static struct zn_jobs jobs;
static struct zn_probe probe;
static struct zn_options options;
static struct zn_http_stats http;
static struct zn_state view;
static struct zn_lib libs[2];
static char text[TEXT_BYTES];

uint64_t zn_stats_missed(struct zn_probe *p)
{
	CHECK(p == &probe);
	return 31;
}

uint64_t zn_stats_run_ns(struct zn_probe *p, uint32_t i, const char **name)
{
	CHECK(p == &probe);
	*name = i ? "others" : "cuda_entry";
	return i ? 0 : 1500000000;
}

static uint64_t finder_late_s;

uint64_t zn_find_round_ns(struct zn_find *f)
{
	CHECK(f == (struct zn_find *)libs);
	return zn_now_ns() - finder_late_s * ZN_NS_PER_S;
}

struct zn_libraries *zn_find_libraries(struct zn_find *f)
{
	CHECK(f == (struct zn_find *)libs);
	return (struct zn_libraries *)libs;
}

static uint64_t hang_ns;

bool zn_libraries_hang(struct zn_libraries *l, struct zn_hang *to)
{
	CHECK(l == (struct zn_libraries *)libs);
	*to = (struct zn_hang){.since_ns = zn_now_ns() - hang_ns,
		.path = "/lib/libcuda.so.1",
		.who = {.count = 1, .tgid = {4711}},
		.blocked_tgid = 4711};
	return hang_ns > 0;
}

void zn_libraries_visit(struct zn_libraries *l, void (*visit)(void *to, const struct zn_lib *lib), void *to)
{
	CHECK(l == (struct zn_libraries *)libs);
	for (size_t i = 0; i < ZN_LEN(libs); i++)
		if (libs[i].used)
			visit(to, &libs[i]);
}

/* No job of these tests is tagged by hand. */
int zn_cgroup_tag(struct zn_arena *a, uint32_t slot, const char *path, char why[ZN_TEXT_MAX])
{
	(void)a, (void)slot, (void)path, (void)why;
	return -1;
}

/* A view of nothing at all; simulated, as there is no probe. */
static void walk_view(
	void *of, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(of, wanted->metric, sample, to);
}

static void start(void)
{
	zn_log_level = ZN_ERROR;
	zn_jobs_close(&jobs);
	zn_memory_close(&memory);
	zn_sim_close(&sim);
	if (zn_memory_open(&memory))
		abort();
	options = (struct zn_options){.push_interval_ms = 1000, .overhead_budget = 10000, .families = 7};
	memset(&probe, 0, sizeof(probe));
	memset(libs, 0, sizeof(libs));
	memset(&http, 0, sizeof(http));
	zn_agg_init(&agg, &memory.arena);
	open_alerts(&alerts, &options, zn_metrics_type, (struct zn_rule_source){walk_view, &view});
	view = (struct zn_state){.options = &options, .agg = &agg, .alerts = &alerts, .node = "node1"};
	view.start_ns = zn_now_ns() - 77 * ZN_NS_PER_S;
	view.start_wall_ms = 1711800000123;
	strcpy(view.release, "6.1.0-test");
}

static void start_simulated(void)
{
	start();
	if (zn_sim_open(&sim, 1))
		abort();
	zn_agg_init(&agg, &sim.memory.arena);
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
	for (enum zn_insn i = 0; i < ZN_INSN_COUNT; i++)
		probe.bias[i] = (struct zn_bias){.samples = i ? 512 : 0,
			.sum_ns = 2048000,
			.p10_ns = 3900,
			.p50_ns = 4000,
			.p90_ns = 4100,
			.p99_ns = 5000,
			.call_ns = 9000};
	add_lib(0, ZN_LIB_CUDA, path)->symbol[0] = ZN_SYM_ATTACHED;
	add_lib(1, ZN_LIB_CUDA, path)->symbol[1] = ZN_SYM_FAILED;
	agg.measured = 0; /* of the kernel's families none is there */
	view.probe = &probe;
	view.find = (struct zn_find *)libs;
}

struct sample {
	char *series; /* name and labels */
	size_t name_len;
	char *value;
	uint32_t family;
};
static struct {
	char *name[FAMILIES_MAX], *type[FAMILIES_MAX], *unit[FAMILIES_MAX];
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

/* A family's first line: its name was never there. */
static bool read_help(char *name, char *end)
{
	for (uint32_t i = 0; i < page.families; i++)
		if (!strcmp(page.name[i], name))
			return false;
	page.name[page.families] = name;
	page.type[page.families] = page.unit[page.families] = NULL;
	page.families++;
	return skip_name(name) == end && end[1] && !strpbrk(end + 1, "\\\"");
}

/* HELP, TYPE and, in OpenMetrics, UNIT of one name, in this order, and never again. */
static bool read_comment(char *line)
{
	char *name = line + strlen("# HELP "), *end = strchr(line, ' ') ? strchr(name, ' ') : NULL;
	uint32_t last = page.families - 1;
	char **to;

	if (!strcmp(line, "# EOF"))
		return page.ended = page.openmetrics;
	if (!end || page.families == FAMILIES_MAX)
		return false;
	*end = '\0';
	if (!strncmp(line, "# HELP ", 7))
		return read_help(name, end);
	if (!page.families || strcmp(page.name[last], name) ||
		(page.samples && page.sample[page.samples - 1].family == last))
		return false;
	to = !strncmp(line, "# TYPE ", 7)                          ? &page.type[last]
		: !strncmp(line, "# UNIT ", 7) && page.openmetrics ? &page.unit[last]
								   : NULL;
	if (!to || *to)
		return false;
	*to = end + 1;
	return true;
}

static bool ends_with(const struct sample *s, const char *suffix)
{
	size_t len = strlen(page.name[s->family]);

	return s->name_len == len + strlen(suffix) && !strncmp(s->series, page.name[s->family], len) &&
		!strncmp(s->series + len, suffix, strlen(suffix));
}

/* What a name of each type may end in. */
static const struct {
	const char *type;
	bool openmetrics, text;
	const char *suffix[5];
} endings[] = {
	{"counter", true, false, {"_total", "_created"}},
	{"counter", false, true, {""}},
	{"gauge", true, true, {""}},
	{"info", true, false, {"_info"}},
	{"summary", true, false, {"", "_sum", "_count", "_created"}},
	{"summary", false, true, {"", "_sum", "_count"}},
	{"histogram", true, false, {"_bucket", "_sum", "_count", "_created"}},
	{"histogram", false, true, {"_bucket", "_sum", "_count"}},
};

static bool belongs(const struct sample *s)
{
	const char *type = page.type[s->family];

	for (size_t i = 0; type && i < ZN_LEN(endings); i++) {
		if (strcmp(type, endings[i].type) || !(page.openmetrics ? endings[i].openmetrics : endings[i].text))
			continue;
		for (size_t k = 0; k < ZN_LEN(endings[i].suffix) && endings[i].suffix[k]; k++)
			if (ends_with(s, endings[i].suffix[k]))
				return true;
	}
	return false;
}

/* OpenMetrics: a unit is the end of the name, and families that end in one of ours name it. */
static void check_unit(uint32_t family)
{
	static const char *const units[] = {"_seconds", "_bytes", "_ratio"};
	const char *name = page.name[family], *unit = page.unit[family];
	const char *end = strrchr(name, '_');

	for (size_t i = 0; i < ZN_LEN(units); i++)
		if (page.openmetrics && end && !strcmp(end, units[i])) {
			CHECK_STR(unit ? unit : "none", units[i] + 1);
			return;
		}
	CHECK(!unit);
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

/* OpenMetrics: the line that says since when the series counts, after its others. */
static uint32_t check_created(const struct sample *s, const struct sample *first, uint32_t left)
{
	if (!page.openmetrics)
		return 0;
	if (!left || !ends_with(s, "_created") || !same_labels(s, first)) {
		T_FAIL("%s has no _created", first->series);
		return 0;
	}
	CHECK(strtod(s->value, NULL) > 1.7e9);
	return 1;
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
	return n + 2 + check_created(&s[n + 2], s, left - n - 2);
}

static void check_groups(void)
{
	uint32_t i = 0;

	while (i < page.samples) {
		const char *type = page.type[page.sample[i].family];

		if (type && (!strcmp(type, "summary") || !strcmp(type, "histogram")))
			i += check_group(&page.sample[i], page.samples - i);
		else if (type && !strcmp(type, "counter"))
			i += 1 + check_created(&page.sample[i + 1], &page.sample[i], page.samples - i - 1);
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
	for (uint32_t i = 0; i < page.families; i++)
		check_unit(i);
}

static void render(bool openmetrics)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_state_refresh(&view);
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

T(simulated_data_is_well_formed)
{
	start_simulated();
	render(false);
	CHECK(page.samples > 1000);
	CHECK_EQ(count_with("pid=\"1007\""), count_with("pid=\"1000\""));
	CHECK_STR(
		value_of("zernel_build_info{version=\"1.2-test\",commit=\"abc\\\"1\\\\\",source=\"simulated\"}"), "1");
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
	struct zn_proc *p = zn_memory_claim(&memory, PID, "pytho\xff\"\\\n\x1b");
	struct zn_proc_gpu *g = &p->gpu[2];

	*g = (struct zn_proc_gpu){.used_bytes = 7,
		.peak_bytes = 11,
		.alloc_calls = {1, 2, 3, 4, 5, 6},
		.alloc_bytes = {10, 20, 30, 40, 50, 60},
		.free_calls = 13,
		.fail_oom = 17,
		.fail_other = 19,
		.total_bytes = 28,
		.uuid = {0xab},
		.pci = "0000:3b:00.0"};
	for (uint32_t i = ZN_C_LAUNCH_KERNEL; i < ZN_C_HITS_END; i++)
		p->count[i] = i == ZN_C_ALLOC_DROPPED ? 0 : 1000 + i;
	for (enum zn_operation d = 0; d < ZN_OPERATION_COUNT; d++)
		for (uint64_t n = 0; n <= d; n++)
			zn_memory_record(&memory, p, d, 1000000 * (d + 1), 100 + d);
	memory.arena.hists[p->hist[ZN_H_NCCL_SEND]].errors = 3;
	memory.comms[0] = (struct zn_comm){.hash = 0xbeef, .rank = 3, .nranks = 4, .tgid = PID};
	memory.comms[1] = (struct zn_comm){.hash = 0xbeef, .rank = ZN_UNKNOWN, .nranks = 4, .tgid = PID};
	memory.comms[2] = (struct zn_comm){.hash = 0, .rank = 1, .nranks = 4, .tgid = PID};
	memory.comm_count = 3;
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
	{"zernel_gpu_memory_complete{" GPU "}", "1"},
	{"zernel_process_memory_complete{pid=\"4242\"}", "1"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"device\"}", "1"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"host\"}", "6"},
	{"zernel_gpu_alloc_bytes_total{pid=\"4242\"," GPU ",kind=\"managed\"}", "20"},
	{"zernel_gpu_alloc_bytes_total{pid=\"4242\"," GPU ",kind=\"vmm\"}", "50"},
	{"zernel_gpu_free_calls_total{pid=\"4242\"," GPU "}", "13"},
	{"zernel_gpu_alloc_failures_total{pid=\"4242\"," GPU ",reason=\"oom\"}", "17"},
	{"zernel_gpu_alloc_failures_total{pid=\"4242\"," GPU ",reason=\"other\"}", "19"},
	{"zernel_gpu_host_pinned_bytes{pid=\"4242\"}", "1014"},
	{"zernel_gpu_info{" GPU
	 ",uuid=\"GPU-ab000000-0000-0000-0000-000000000000\",pci=\"0000:3b:00.0\",minor=\"\",vendor=\"nvidia\"}",
		"1"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"kernel\"}", "1000"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"graph\"}", "1001"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"cooperative\"}", "1002"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"captured\"}", "1003"},
	{"zernel_cuda_launch_errors_total{pid=\"4242\"}", "1004"},
	{"zernel_cuda_memcpy_bytes_total{pid=\"4242\",direction=\"htod\"}", "1005"},
	{"zernel_cuda_memcpy_bytes_total{pid=\"4242\",direction=\"other\"}", "1008"},
	{"zernel_cuda_memcpy_calls_total{pid=\"4242\",direction=\"dtoh\"}", "1010"},
	{"zernel_cuda_launch_latency_seconds{pid=\"4242\",quantile=\"0.5\"}", "0.000999424"},
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
	{"zernel_nccl_calls_total{pid=\"4242\",op=\"put\"}", "18"},
	{"zernel_nccl_calls_total{pid=\"4242\",op=\"window_register\"}", "21"},
	{"zernel_cuda_load_seconds_count{pid=\"4242\",call=\"module\"}", "30"},
	{"zernel_cuda_load_seconds_count{pid=\"4242\",call=\"graph\"}", "33"},
	{"zernel_nccl_group_seconds_count{pid=\"4242\"}", "22"},
	{"zernel_nccl_comm_init_seconds_count{pid=\"4242\"}", "23"},
	{"zernel_nccl_rank_info{pid=\"4242\",comm=\"000000000000beef\",rank=\"3\",nranks=\"4\"}", "1"},
	{"zernel_dataloader_wait_seconds_count{pid=\"4242\"}", "24"},
	{"zernel_alert_state{alert=\"gpu_oom_warning\",severity=\"critical\"}", "0"},
	{"zernel_kernel_info{release=\"6.1.0-test\"}", "1"},
	{"zernel_table_entries{table=\"processes\"}", "1"},
	{"zernel_table_entries{table=\"histograms\"}", "33"},
	{"zernel_table_entries{table=\"gpus\"}", "1"},
	{"zernel_table_entries{table=\"communicators\"}", "3"},
	{"zernel_table_limit{table=\"processes\"}", "1024"},
	{"zernel_table_limit{table=\"histograms\"}", "3199"},
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

/* The same in OpenMetrics: what is there besides, and what is called differently. */
static const struct {
	const char *series, *value;
} known_openmetrics[] = {
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"graph\"}", "1001"},
	{"zernel_cuda_launches_created{pid=\"4242\",kind=\"graph\"}", "1711800020.123"},
	{"zernel_gpu_alloc_bytes_created{pid=\"4242\"," GPU ",kind=\"vmm\"}", "1711800020.123"},
	{"zernel_cuda_launch_latency_seconds_created{pid=\"4242\"}", "1711800020.123"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\",le=\"1.024e-06\"}", "0"},
	{"zernel_cuda_launch_latency_hist_seconds_created{pid=\"4242\"}", "1711800020.123"},
	{"zernel_nccl_bytes_created{pid=\"4242\",op=\"recv\"}", "1711800020.123"},
	{"zernel_nccl_collective_duration_seconds_created{op=\"recv\"}", "1711800000.123"},
	{"zernel_lost_created{what=\"ringbuf\"}", "1711800000.123"},
	{"zernel_probe_hits_created{family=\"nccl\"}", "1711800000.123"},
	{"process_cpu_seconds_created", "1711800000.123"},
	{"zernel_gpu_memory_used_bytes_created{pid=\"4242\"," GPU "}", "absent"},
	{"zernel_kernel_info{release=\"6.1.0-test\"}", "1"},
};
static const struct {
	const char *family, *type, *unit;
} families[] = {
	{"zernel_kernel", "info", ""},
	{"zernel_gpu", "info", ""},
	{"zernel_nccl_rank", "info", ""},
	{"zernel_build", "info", ""},
	{"zernel_gpu_alloc_bytes", "counter", "bytes"},
	{"process_cpu_seconds", "counter", "seconds"},
	{"zernel_gpu_memory_used_ratio", "gauge", "ratio"},
	{"zernel_cuda_launches", "counter", ""},
	{"zernel_cuda_sync_seconds", "summary", "seconds"},
	{"zernel_cuda_sync_hist_seconds", "histogram", "seconds"},
};

static void known_in_openmetrics(void)
{
	t_begin("known_in_openmetrics: well-formed");
	start();
	known_process()->first_ns = view.start_ns + 20 * ZN_NS_PER_S;
	render(true);
	for (size_t i = 0; i < ZN_LEN(known_openmetrics); i++) {
		t_begin(known_openmetrics[i].series);
		CHECK_STR(value_of(known_openmetrics[i].series), known_openmetrics[i].value);
	}
	for (size_t i = 0; i < ZN_LEN(families); i++) {
		uint32_t f = 0;

		t_begin(families[i].family);
		while (f + 1 < page.families && strcmp(page.name[f], families[i].family))
			f++;
		CHECK_STR(page.name[f], families[i].family);
		CHECK_STR(page.type[f], families[i].type);
		CHECK_STR(page.unit[f] ? page.unit[f] : "", families[i].unit);
	}
}

/* The samples of both formats are the same but for _created; so are their labels, le and quantile among them. */
T(openmetrics_differs_by_created_alone)
{
	static char *plain_series[SAMPLES_MAX];
	static char copy[TEXT_BYTES];
	uint32_t plain_count, n = 0;

	start_simulated();
	render(false);
	memcpy(copy, text, sizeof(copy));
	plain_count = page.samples;
	for (uint32_t i = 0; i < plain_count; i++)
		plain_series[i] = copy + (page.sample[i].series - text);
	render(true);
	for (uint32_t i = 0; i < page.samples && n < plain_count; i++) {
		if (ends_with(&page.sample[i], "_created"))
			continue;
		CHECK_STR(page.sample[i].series, plain_series[n]);
		n++;
	}
	CHECK_EQ(n, plain_count);
	CHECK(page.samples > plain_count + 100);
	render(false);
	CHECK_EQ(count_with("_created"), 0);
}

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
	char twin[96], le[64];

	zn_hist_spread(s->hist, &spread);
	walked_line(line_of(s, s->metric, "", "quantile=\"0.5\""), seconds(spread.p50_ns));
	walked_line(line_of(s, s->metric, "", "quantile=\"0.99\""), seconds(spread.p99_ns));
	snprintf(twin, sizeof(twin), "%.*s_hist_seconds", (int)strlen(s->metric) - 8, s->metric);
	for (uint32_t i = 0; i < ZN_LE_COUNT; i++) {
		snprintf(le, sizeof(le), i + 1 < ZN_LE_COUNT ? "le=\"%.12g\"" : "le=\"+Inf\"", seconds(zn_le_ns(i)));
		walked_line(line_of(s, twin, "_bucket", le), (double)spread.le[i]);
	}
	for (size_t i = 0; i < ZN_LEN(suffix); i++) {
		double value = i ? (double)spread.le[ZN_LE_COUNT - 1] : seconds(spread.sum_ns);

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

T(a_communicator_that_is_there_twice)
{
	start();
	for (uint32_t i = 0; i < 60; i++)
		memory.comms[i] = (struct zn_comm){.hash = 7 + i % 3, .rank = i % 2, .nranks = 2, .tgid = PID + i % 5};
	memory.comm_count = 60;
	zn_agg_tick(&agg, zn_now_ns());
	render(false);
	CHECK_EQ(count_with("zernel_nccl_rank_info{"), 30);
}

T(what_has_not_happened_has_no_series)
{
	struct zn_proc *p;

	start();
	p = zn_memory_claim(&memory, PID, "x");
	p->gpu[0].total_bytes = 5;
	zn_agg_refresh(&agg);
	render(false);
	CHECK_EQ(count_with("pid=\"4242\""), 0);
	p->gpu[0].peak_bytes = 4;
	render(false);
	CHECK_STR(value_of("zernel_gpu_memory_used_bytes{pid=\"4242\",gpu_id=\"unknown\"}"), "0");
	CHECK_STR(value_of("zernel_gpu_memory_peak_bytes{pid=\"4242\",gpu_id=\"unknown\"}"), "4");
	CHECK_STR(value_of("zernel_process_memory_complete{pid=\"4242\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_alloc_failures_total{pid=\"4242\",gpu_id=\"unknown\",reason=\"oom\"}"), "0");
	CHECK_STR(value_of("zernel_gpu_alloc_failures_total{pid=\"4242\",gpu_id=\"unknown\",reason=\"other\"}"), "0");
	CHECK_EQ(count_with("pid=\"4242\""), 5);
}

T(series_go_with_their_process)
{
	static char collectives[64];

	start_simulated();
	render(false);
	CHECK(count_with("pid=\"1003\"") > 50);
	strcpy(collectives, value_of("zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}"));
	CHECK(atoi(collectives) > 100);
	zn_memory_exit(&sim.memory, sim.rank[3]);
	sim.memory.comms[3] = sim.memory.comms[--sim.memory.comm_count];
	zn_agg_tick(&agg, zn_now_ns() + 2 * ZN_NS_PER_S);
	render(false);
	CHECK_EQ(count_with("pid=\"1003\""), 0);
	CHECK(count_with("pid=\"1004\"") > 50);
	CHECK_STR(value_of("zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}"), collectives);
	CHECK_STR(value_of("zernel_table_entries{table=\"processes\"}"), "7");
	render(true);
	CHECK_EQ(count_with("pid=\"1003\""), 0);
	for (uint32_t i = 0; i < ZN_SIM_RANKS; i++)
		zn_memory_exit(&sim.memory, sim.rank[i]);
	render(true);
	CHECK_EQ(count_with("pid=\""), 0);
}

T(probes_of_two_files_at_one_path)
{
	start_live("/home/u/libcuda.so.1");
	view.http = &http;
	memory.arena.shared->lost[ZN_LOST_MISSED] = 4;
	http.lost[ZN_LOST_WS_FRAME] = 5;
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
	CHECK_STR(value_of("zernel_probe_run_seconds_total{program=\"cuda_entry\"}"), "1.5");
	CHECK_EQ(count_with("zernel_probe_run_seconds_total{"), 1);
	CHECK_STR(value_of("zernel_lost_total{what=\"missed\"}"), "35");
	CHECK_STR(value_of("zernel_lost_total{what=\"ws_frame\"}"), "5");
	CHECK_STR(value_of("zernel_lost_total{what=\"ws_client\"}"), "0");
	CHECK_STR(value_of("zernel_table_entries{table=\"libraries\"}"), "2");
}

static const struct {
	const char *name, *path, *label;
} paths[] = {
	{"path: quotes", "/a\"b\\c\nd", "/a\\\"b\\\\c\\nd"},
	{"path: ends in a backslash", "/a\\", "/a\\\\"},
	{"path: not UTF-8", "/\xff\xc3", "/\xef\xbf\xbd\xef\xbf\xbd"},
	{"path: UTF-8", "/\xc3\xa9", "/\xc3\xa9"},
	{"path: forged series", "/x\"} 1\nzernel_forged 1", "/x\\\"} 1\\nzernel_forged 1"},
	{"path: other control characters", "/\r\t\x01\x7f", "/\r\t\x01\x7f"},
};

static void hostile_paths(void)
{
	char want[512];

	for (size_t i = 0; i < ZN_LEN(paths); i++) {
		t_begin(paths[i].name);
		start_live(paths[i].path);
		render(false);
		snprintf(want, sizeof(want),
			"zernel_probe_attached{family=\"cuda_trace\",symbol=\"cuLaunchKernel\",library=\"%s@801:100\"}",
			paths[i].label);
		CHECK_STR(value_of(want), "1");
	}
}

/* The longest path there can be, of each byte in turn. */
T(long_paths)
{
	char path[ZN_TEXT_MAX] = "";

	for (int byte = 1; byte < 256; byte++) {
		memset(path, byte, sizeof(path) - 1);
		start_live(path);
		strcpy(view.release, "\"\\\n\xff");
		memset(probe.hook[0].name, 'x', sizeof(probe.hook[0].name) - 1);
		render(byte & 1);
		CHECK_EQ(count_with("zernel_probe_attached{"), 4);
		CHECK_EQ(count_with(":101\"}"), 2);
	}
}

/* What a driver or an environment says of a GPU, of each byte in turn. */
T(hostile_gpus)
{
	struct zn_gpu *g = &agg.gpus.gpu[0];

	for (int byte = 1; byte < 256; byte++) {
		struct zn_proc *p;

		start();
		p = known_process();
		memset(p->gpu[2].uuid, 0, sizeof(p->gpu[2].uuid)); /* else it is known under its old name */
		memset(p->gpu[2].pci, 0, sizeof(p->gpu[2].pci));
		memset(g->id, byte, sizeof(g->id) - 1);
		memset(g->uuid, byte, sizeof(g->uuid) - 1);
		memset(g->pci, byte, sizeof(g->pci) - 1);
		render(byte & 1);
		CHECK_EQ(count_with("zernel_gpu_alloc_calls_total{"), ZN_KIND_COUNT);
		CHECK_EQ(count_with("zernel_gpu_info{"), 1);
	}
}

/* Its job has been told of in full. */
static struct zn_job *start_job(const char *id, const char *restart)
{
	static const struct {
		enum zn_key key;
		const char *value;
	} said[] = {{ZN_KEY_UID, "1000"}, {ZN_KEY_USER, "user1000"}, {ZN_KEY_ACCOUNT, "lab\\\""},
		{ZN_KEY_PARTITION, "gpu"}, {ZN_KEY_NAME, "train"}, {ZN_KEY_NODES, "4"}, {ZN_KEY_GPUS, "0-1"}};
	struct zn_message m = {.verb = ZN_VERB_START};
	char why[ZN_TEXT_MAX];

	zn_message_set(&m, ZN_KEY_ID, id);
	zn_message_set(&m, ZN_KEY_RESTART, restart);
	for (size_t i = 0; i < ZN_LEN(said); i++)
		zn_message_set(&m, said[i].key, said[i].value);
	CHECK_EQ(zn_jobs_start(&jobs, &m, ZN_JOB_BY_PROLOG, why), 0);
	return zn_jobs_find(&jobs, id, (uint32_t)atoi(restart));
}

static void tag(struct zn_proc *p, const struct zn_job *job)
{
	p->job = (struct zn_job_ref){.slot = job->slot, .serial = job->serial};
}

static void start_jobs(void)
{
	start();
	if (zn_jobs_open(&jobs, &agg, &alerts))
		abort();
	view.jobs = &jobs;
}

/* Job 4711: the known process, what others of it did before, and two GPUs. */
static struct zn_job *known_job(void)
{
	struct zn_job *job;

	start_jobs();
	job = start_job("4711", "0");
	tag(known_process(), job);
	job->start_wall_ms = view.start_wall_ms + 5000;
	job->processes = 3;
	job->count[ZN_C_LAUNCH_KERNEL] = 100000;
	job->count[ZN_C_LAUNCH_COOPERATIVE] = 50000;
	job->count[ZN_C_LAUNCH_CAPTURED] = 7777777;
	job->gone[ZN_H_NCCL_SEND].bytes = 1000000;
	job->gone[ZN_H_NCCL_INIT].bytes = 7777777;
	job->gpu_count = 3;
	job->gpu[0] = (struct zn_job_gpu){.allocated = true,
		.peak_bytes = 83,
		.busy_ns = 1500000000,
		.idle_ns = 250000000,
		.quiet_ns = 125000000};
	job->gpu[1] = (struct zn_job_gpu){.allocated = true, .idle_ns = 60000000001, .quiet_ns = 60000000001};
	strcpy(job->gpu[0].id, "0");
	job->gpu[2] = (struct zn_job_gpu){.peak_bytes = 89, .id = "unknown"};
	strcpy(job->gpu[1].id, "GPU-\"1");
	return job;
}

#define JOB "job_id=\"4711\""
static const struct {
	const char *series, *value;
} known_with_job[] = {
	{"zernel_gpu_memory_used_bytes{pid=\"4242\"," GPU "," JOB "}", "7"},
	{"zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"device\"," JOB "}", "1"},
	{"zernel_gpu_host_pinned_bytes{pid=\"4242\"," JOB "}", "1014"},
	{"zernel_cuda_launches_total{pid=\"4242\",kind=\"kernel\"," JOB "}", "1000"},
	{"zernel_cuda_launches_created{pid=\"4242\",kind=\"kernel\"," JOB "}", "1711800020.123"},
	{"zernel_cuda_launch_latency_seconds{pid=\"4242\"," JOB ",quantile=\"0.5\"}", "0.000999424"},
	{"zernel_cuda_launch_latency_seconds_sum{pid=\"4242\"," JOB "}", "0.001"},
	{"zernel_cuda_launch_latency_hist_seconds_bucket{pid=\"4242\"," JOB ",le=\"+Inf\"}", "1"},
	{"zernel_cuda_sync_seconds_count{pid=\"4242\",call=\"mem_free\"," JOB "}", "7"},
	{"zernel_nccl_collective_duration_seconds_count{op=\"all_reduce\"}", "8"},
	{"zernel_nccl_bytes_total{pid=\"4242\",op=\"all_reduce\"," JOB "}", "856"},
	{"zernel_nccl_rank_info{pid=\"4242\",comm=\"000000000000beef\",rank=\"3\",nranks=\"4\"," JOB "}", "1"},
	{"zernel_job_info{" JOB
	 ",user=\"user1000\",uid=\"1000\",account=\"lab\\\\\\\"\",partition=\"gpu\",name=\"train\",nodes=\"4\",gpus=\"0-1\"}",
		"1"},
	{"zernel_job_processes{" JOB "}", "3"},
	{"zernel_job_start_time_seconds{" JOB "}", "1711800005.123"},
	{"zernel_job_ended_time_seconds{" JOB "}", "absent"},
	{"zernel_job_gpu_memory_peak_bytes{" JOB ",gpu_id=\"0\"}", "83"},
	{"zernel_job_gpu_memory_peak_bytes{" JOB ",gpu_id=\"GPU-\\\"1\"}", "0"},
	{"zernel_job_gpu_busy_seconds_total{" JOB ",gpu_id=\"0\"}", "1.5"},
	{"zernel_job_gpu_busy_seconds_total{" JOB ",gpu_id=\"GPU-\\\"1\"}", "0"},
	{"zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"0\"}", "0.25"},
	{"zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"GPU-\\\"1\"}", "60.000000001"},
	{"zernel_job_gpu_memory_peak_bytes{" JOB ",gpu_id=\"unknown\"}", "89"},
	{"zernel_job_gpu_busy_seconds_total{" JOB ",gpu_id=\"unknown\"}", "absent"},
	{"zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"unknown\"}", "absent"},
	{"zernel_job_gpu_idle_seconds_created{" JOB ",gpu_id=\"0\"}", "1711800005.123"},
	/* 1000 + 1001 + 1002 of the process, without the captured ones */
	{"zernel_job_launches_total{" JOB "}", "153003"},
	{"zernel_job_launches_created{" JOB "}", "1711800005.123"},
	/* (d + 1) * (100 + d) of each operation's operation d, and what was sent before */
	{"zernel_job_nccl_bytes_total{" JOB "}", "1023268"},
	{"zernel_table_entries{table=\"jobs\"}", "1"},
	{"zernel_table_limit{table=\"jobs\"}", "256"},
};

static void known_figures_of_a_job(void)
{
	t_begin("known_figures_of_a_job: well-formed");
	known_job();
	memory.arena.procs[agg.row[0]].first_ns = view.start_ns + 20 * ZN_NS_PER_S;
	render(true);
	for (size_t i = 0; i < ZN_LEN(known_with_job); i++) {
		t_begin(known_with_job[i].series);
		CHECK_STR(value_of(known_with_job[i].series), known_with_job[i].value);
	}
}

/* Each series of a process has the job as its last shared label, and no series has a label "job". */
static uint32_t count_without_job(const char *pid, const char *job)
{
	uint32_t without = 0;

	for (uint32_t i = 0; i < page.samples; i++) {
		const char *labels;
		size_t len;

		if (!strstr(page.sample[i].series, pid))
			continue;
		len = shared_labels(&page.sample[i], &labels);
		without += len < strlen(job) || strncmp(labels + len - strlen(job), job, strlen(job));
	}
	return without;
}

T(every_series_of_a_process_names_its_job)
{
	const struct zn_job *job = known_job();
	struct zn_proc *other = zn_memory_claim(&memory, 77, "x");
	uint32_t of_job;

	tag(other, job);
	other->job.serial++; /* of a job that was there before, or is to come */
	other->count[ZN_C_LAUNCH_KERNEL] = 5;
	zn_memory_record(&memory, other, ZN_H_LAUNCH, 1000, 0);
	for (int openmetrics = 0; openmetrics < 2; openmetrics++) {
		render(openmetrics);
		of_job = count_with("pid=\"4242\"");
		CHECK(of_job > 100);
		CHECK_EQ(count_without_job("pid=\"4242\"", "," JOB), 0);
		CHECK(count_with("pid=\"77\"") > 10);
		CHECK_EQ(count_without_job("pid=\"77\"", "," JOB), count_with("pid=\"77\""));
		CHECK_STR(value_of("zernel_cuda_launches_total{pid=\"77\",kind=\"kernel\"}"), "5");
		CHECK_EQ(count_with("{job=\""), 0);
		CHECK_EQ(count_with(",job=\""), 0);
	}
	CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "153003");
}

/* The sums of a job are the same before and after its processes have gone. */
T(sums_of_a_job_outlive_its_processes)
{
	const struct zn_job *job = known_job();

	zn_memory_exit(&memory, &memory.arena.procs[agg.row[0]]);
	memory.comm_count = 0;
	render(false);
	CHECK_EQ(agg.row_count, 0);
	CHECK_EQ(count_with("pid=\"4242\""), 0);
	CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "153003");
	CHECK_STR(value_of("zernel_job_nccl_bytes_total{" JOB "}"), "1023268");
	CHECK_STR(value_of("zernel_job_gpu_idle_seconds_total{" JOB ",gpu_id=\"0\"}"), "0.25");
	CHECK_EQ(job->count[ZN_C_LAUNCH_KERNEL], 101000);
}

static void end_job(const char *id)
{
	struct zn_message m = {.verb = ZN_VERB_END};
	char why[ZN_TEXT_MAX];

	zn_message_set(&m, ZN_KEY_ID, id);
	CHECK_EQ(zn_jobs_end(&jobs, &m, why), 0);
	zn_jobs_tick(&jobs, zn_now_ns() + ZN_JOB_GRACE_NS + ZN_NS_PER_S);
}

T(a_job_that_has_ended_is_shown_however_often_it_is_scraped)
{
	struct zn_job *job = known_job();

	zn_memory_exit(&memory, &memory.arena.procs[agg.row[0]]);
	zn_agg_tick(&agg, zn_now_ns());
	end_job("4711");
	CHECK_EQ(job->state, ZN_JOB_ENDED);
	job->end_wall_ms = 1711800009001;
	zn_job_shared_of(&jobs, job)->oom_kills = 7;
	memory.arena.shared->oom_kills = 11;
	for (int i = 0; i < 7; i++) {
		render(false);
		CHECK_STR(value_of("zernel_oom_kills_total{" JOB "}"), "7");
		CHECK_STR(value_of("zernel_oom_kills_total{job_id=\"\"}"), "11");
		CHECK_STR(value_of("zernel_job_ended_time_seconds{" JOB "}"), "1711800009.001");
		CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "153003");
		zn_jobs_tick(&jobs, zn_now_ns() + (290 + (uint64_t)i) * ZN_NS_PER_S);
	}
	zn_jobs_tick(&jobs, zn_now_ns() + 2 * ZN_JOB_GRACE_NS + 300 * ZN_NS_PER_S);
	render(false);
	CHECK_EQ(count_with("job_id="), 1);
	CHECK_STR(value_of("zernel_oom_kills_total{job_id=\"\"}"), "11");
	CHECK_STR(value_of("zernel_table_entries{table=\"jobs\"}"), "0");
}

/* The page's reader finds series that are there twice. */
T(of_a_requeued_job_the_new_run_is_shown)
{
	struct zn_job *old = known_job(), *new;

	zn_memory_exit(&memory, &memory.arena.procs[agg.row[0]]);
	zn_agg_tick(&agg, zn_now_ns());
	end_job("4711");
	new = start_job("4711", "1");
	CHECK(new &&new != old && old->state == ZN_JOB_ENDED);
	new->count[ZN_C_LAUNCH_GRAPH] = 11;
	render(false);
	CHECK_EQ(count_with("zernel_job_info{"), 1);
	CHECK_STR(value_of("zernel_job_launches_total{" JOB "}"), "11");
	CHECK_STR(value_of("zernel_job_nccl_bytes_total{" JOB "}"), "0");
	CHECK_STR(value_of("zernel_table_entries{table=\"jobs\"}"), "2");
}

/* What a message cannot have, but a process may claim. */
T(hostile_jobs)
{
	for (int byte = 1; byte < 256; byte++) {
		struct zn_job *job = known_job();

		for (int key = 0; key < ZN_KEY_COUNT; key++)
			memset(job->about.value[key], byte, ZN_VALUE_BYTES - 1);
		memset(job->gpu[0].id, byte, sizeof(job->gpu[0].id) - 1);
		job->uid = ZN_UNKNOWN;
		render(byte & 1);
		CHECK_EQ(count_with("zernel_job_info{" JOB ",user="), 1);
		CHECK_EQ(count_with(",uid=\"\","), 1);
		CHECK_EQ(count_with("zernel_job_gpu_memory_peak_bytes{"), 3);
	}
}

T(a_walk_over_jobs_is_the_text)
{
	known_job();
	memory.arena.procs[agg.row[0]].first_ns = view.start_ns + 20 * ZN_NS_PER_S;
	walk_and_text_agree();
	CHECK(count_with("zernel_job_") > 10 && count_with("pid=\"4242\"") > 100);
}

T(all_jobs_there_can_be)
{
	char id[16];

	start_jobs();
	for (int i = 0; i < ZN_JOBS_MAX; i++) {
		snprintf(id, sizeof(id), "%d", 1000 + i);
		start_job(id, "0")->count[ZN_C_LAUNCH_KERNEL] = (uint64_t)i;
	}
	render(true);
	CHECK_EQ(count_with("zernel_job_info{"), ZN_JOBS_MAX);
	CHECK_STR(value_of("zernel_job_launches_total{job_id=\"1000\"}"), "0");
	CHECK_STR(value_of("zernel_job_launches_total{job_id=\"1255\"}"), "255");
	CHECK_STR(value_of("zernel_table_entries{table=\"jobs\"}"), "256");
}

T(errors_of_gpus)
{
	static struct zn_xids xids;

	start();
	view.xids = &xids;
	xids = (struct zn_xids){.fd = -1};
	render(false);
	CHECK_EQ(count_with("zernel_gpu_xid_errors_total{"), 0);
	CHECK_EQ(count_with("zernel_kernel_log_records_total{"), 0);
	xids = (struct zn_xids){.fd = 0, .kernel = 11, .other = 13, .lost = 17};
	for (int i = 0; i < 3; i++)
		zn_xids_add(&xids, "0000:3b:00.0", 79);
	zn_xids_add(&xids, "0000:c1:00.0", 31);
	zn_amdgpu_add(&xids, "0000:c3:00.0", ZN_AMDGPU_RESET);
	render(false);
	CHECK_EQ(count_with("zernel_gpu_xid_errors_total{"), 2);
	CHECK_EQ(count_with("zernel_gpu_amdgpu_errors_total{"), 1);
	CHECK_STR(value_of("zernel_gpu_amdgpu_errors_total{pci=\"0000:c3:00.0\",error=\"reset\"}"), "1");
	CHECK_STR(value_of("zernel_gpu_xid_errors_total{pci=\"0000:3b:00.0\",xid=\"79\"}"), "3");
	CHECK_STR(value_of("zernel_gpu_xid_errors_total{pci=\"0000:c1:00.0\",xid=\"31\"}"), "1");
	CHECK_STR(value_of("zernel_kernel_log_records_total{from=\"kernel\"}"), "11");
	CHECK_STR(value_of("zernel_kernel_log_records_total{from=\"others\"}"), "13");
	CHECK_STR(value_of("zernel_lost_total{what=\"kmsg\"}"), "17");
}

T(requests_by_path_and_code)
{
	start();
	view.http = &http;
	http.path[0] = "/metrics";
	http.path[1] = "/json";
	http.requests[0][ZN_CODE_200] = 5;
	http.requests[1][ZN_CODE_405] = 6;
	http.requests[ZN_ROUTES_MAX][ZN_CODE_404] = 7;
	http.lost[ZN_LOST_PEER] = 11;
	http.lost[ZN_LOST_TRUNCATED] = 12;
	http.conn_count = 8;
	options.max_connections = 1000;
	http.ws_count = 9;
	view.ticks = 10;
	render(false);
	CHECK_EQ(count_with("zernel_http_requests_total{"), 3);
	CHECK_STR(value_of("zernel_http_requests_total{path=\"/metrics\",code=\"200\"}"), "5");
	CHECK_STR(value_of("zernel_http_requests_total{path=\"/json\",code=\"405\"}"), "6");
	CHECK_STR(value_of("zernel_http_requests_total{path=\"other\",code=\"404\"}"), "7");
	CHECK_STR(value_of("zernel_http_connections"), "8");
	CHECK_STR(value_of("zernel_ws_clients"), "9");
	CHECK_STR(value_of("zernel_ticks_total"), "10");
	CHECK_STR(value_of("zernel_table_entries{table=\"connections\"}"), "8");
	CHECK_STR(value_of("zernel_table_limit{table=\"connections\"}"), "1000");
	CHECK_STR(value_of("zernel_lost_total{what=\"peer\"}"), "11");
	CHECK_STR(value_of("zernel_lost_total{what=\"truncated\"}"), "12");
}

/* Into blocks of many sizes: nothing is written past the end, and what was written is the beginning. The first `fixed`
 * bytes do not depend on the time, and all others together grow by less than `slack`. */
static void check_cut(void (*write)(struct zn_out *o), size_t fixed, size_t slack)
{
	struct zn_out whole = {.at = text, .cap = sizeof(text)};

	write(&whole);
	CHECK(!whole.full && whole.len > fixed && whole.len > slack);
	for (size_t cap = 0; cap + slack < whole.len; cap += cap < 1000 ? 1 : 997) {
		struct zn_out o = {.at = malloc(cap ? cap : 1), .cap = cap};

		write(&o);
		CHECK(o.full && o.len <= cap);
		CHECK(!memcmp(o.at, text, o.len < fixed ? o.len : fixed));
		free(o.at);
	}
}

static void write_text(struct zn_out *o)
{
	zn_state_refresh(&view);
	zn_metrics_text(o, &view, false);
}

static void write_openmetrics(struct zn_out *o)
{
	zn_state_refresh(&view);
	zn_metrics_text(o, &view, true);
}

static void write_snapshot(struct zn_out *o)
{
	zn_state_refresh(&view);
	zn_snapshot_json(o, &view, NULL);
}

static void write_alerts(struct zn_out *o)
{
	zn_snapshot_alerts(o, &view);
}

static void write_health(struct zn_out *o)
{
	zn_health_json(o, &view);
}

T(too_little_room)
{
	start_simulated();
	check_cut(write_text, 2000, 64);
	check_cut(write_openmetrics, 2000, 64);
}

/* Messages are moved as they end: none is written beyond a block of its own, whatever its size. */
T(too_little_room_for_messages)
{
	struct zn_out whole = {.at = text, .cap = sizeof(text)};

	start_live("/opt/\xff\"\n\\/libcuda.so.1");
	known_process();
	zn_state_refresh(&view);
	zn_metrics_proto(&whole, &view);
	CHECK(!whole.full && whole.len > 10000);
	for (size_t cap = 0; cap < whole.len; cap += cap < 2000 ? 1 : 37) {
		struct zn_out o = {.at = malloc(cap + 1), .cap = cap};

		zn_metrics_proto(&o, &view);
		CHECK(o.full && o.len <= cap);
		free(o.at);
	}
}

static struct zn_io_sums io_sums;

/* Every operation of a user on a mount with a long name. */
static void happens_on(uint32_t dev, uint32_t user)
{
	char point[ZN_MOUNT_BYTES];

	memset(point, '"', sizeof(point));
	snprintf(point, sizeof(point), "/%u", dev);
	point[strlen(point)] = '"';
	point[user == 2000 ? 9 : sizeof(point) - 1] = 0;
	zn_mounts_fix(&io_sums.mounts, dev, point, "tmpfs");
	memory.io_of = (struct zn_io_row){.owner = user, .user = user};
	for (enum zn_io_op op = 0; op < ZN_IO_OP_COUNT; op++) {
		struct zn_io_key key = {.dev = dev, .op = op};

		CHECK(zn_memory_io(&memory, &key, 12345));
	}
}

/* One user's mounts with long names take no room from another's. */
T(durations_of_files_that_do_not_fit)
{
	static char whole[ZN_BUFFER_BYTES];
	struct zn_out o = {.at = whole, .cap = sizeof(whole) - 1};
	size_t shown = 0;

	start();
	zn_io_sums_init(&io_sums, &memory.arena, NULL);
	view.io_sums = &io_sums;
	for (uint32_t i = 0; i < 270; i++)
		happens_on(100 + i, 1000);
	happens_on(999, 2000);
	zn_state_refresh(&view);
	zn_metrics_text(&o, &view, true);
	CHECK(!o.full);
	whole[o.len] = 0;
	CHECK(strstr(whole, "zernel_io_latency_seconds{job_id=\"\",mount=\"/999\\\"\\\""));
	for (const char *at = whole; (at = strstr(at, "zernel_io_latency_seconds_count{")); at++)
		shown++;
	CHECK(shown >= 40 * ZN_IO_OP_COUNT && shown < 271 * ZN_IO_OP_COUNT);
	CHECK(memory.arena.shared->lost[ZN_LOST_TRUNCATED] > 0);
	view.io_sums = NULL;
}

/* Kernels before 6.10 that count by tracepoint tell how much faults brought in, not how many there were. */
T(bytes_of_mapped_files_without_a_number)
{
	static const struct zn_io_key key = {.dev = 77, .op = ZN_IO_MMAP};

	start();
	zn_io_sums_init(&io_sums, &memory.arena, NULL);
	view.io_sums = &io_sums;
	zn_mounts_fix(&io_sums.mounts, key.dev, "/data", "ext4");
	memory.io_of = (struct zn_io_row){.owner = 1000, .user = 1000};
	*zn_memory_io(&memory, &key, 0) = (struct zn_hist){.bytes = 8192};
	render(false);
	CHECK_STR(value_of("zernel_io_mapped_bytes_total{job_id=\"\",mount=\"/data\",fstype=\"ext4\"}"), "8192");
	CHECK_STR(value_of("zernel_io_read_bytes_total{job_id=\"\",mount=\"/data\",fstype=\"ext4\"}"), "absent");
	view.io_sums = NULL;
}

T(a_scrape_is_timed)
{
	start_simulated();
	view.http = &http;
	http.scrape_ns = 1234567;
	render(false);
	CHECK_STR(value_of("zernel_scrape_render_seconds"), "0.001234567");
}

static struct zn_str json(void (*write)(struct zn_out *o))
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};
	struct zn_str whole;

	write(&o);
	whole = (struct zn_str){text, o.len};
	CHECK(!o.full);
	CHECK_EQ(zn_json_check(whole), 0);
	return whole;
}

/* The member at a path such as "gpus.0.used_bytes"; at == NULL: there is none. */
static struct zn_str member(struct zn_str at, const char *path)
{
	char part[64];

	while (at.at && *path) {
		size_t len = strcspn(path, "."), from = 0;
		struct zn_str key, value = {NULL, 0};

		snprintf(part, sizeof(part), "%.*s", (int)len, path);
		if (*at.at == '[')
			for (int i = atoi(part); i >= 0 && zn_json_next(at, &from, &key, &value); i--)
				;
		else
			value = zn_json_member(at, part);
		at = value.len ? value : (struct zn_str){NULL, 0};
		path += len + (path[len] == '.');
	}
	return at;
}

static void check_member(struct zn_str whole, const char *path, const char *want)
{
	struct zn_str got = member(whole, path);

	t_checks++;
	if (!got.at || got.len != strlen(want) || memcmp(got.at, want, got.len))
		T_FAIL("%s is %.*s, not %s", path, (int)got.len, got.at ? got.at : "", want);
}

static void check_keys(struct zn_str object, const char *const want[], size_t count, bool all)
{
	struct zn_str key, value;
	size_t at = 0, i = 0;

	for (; zn_json_next(object, &at, &key, &value); i++) {
		if (i < count)
			CHECK_MEM(key.at, key.len, want[i], strlen(want[i]));
		else if (all)
			T_FAIL("%.*s is one too many", (int)key.len, key.at);
	}
	CHECK(i >= count);
}

static const char *const snapshot_keys[] = {"gpu_utilization", "cuda_latency_p50_us", "cuda_latency_p99_us",
	"nccl_allreduce_p50_ms", "nccl_allreduce_p99_ms", "dataloader_wait_p50_ms", "last_update_ms", "node", "source",
	"version", "uptime_s", "interval_ms", "history", "alerts", "why", "gpus", "lost", "probes", "jobs", "io",
	"servers", "processes"};
static const char *const process_keys[] = {"pid", "comm", "job_id", "gpus", "pinned_bytes", "memory_complete", "launch",
	"sync", "nccl", "dataloader", "stalls", "signals", "io", "anomalies", "startup"};

T(snapshot_of_nothing)
{
	static const char first[] =
		"{\"gpu_utilization\":[],\"cuda_latency_p50_us\":0.0,\"cuda_latency_p99_us\":0.0,"
		"\"nccl_allreduce_p50_ms\":0.0,\"nccl_allreduce_p99_ms\":0.0,\"dataloader_wait_p50_ms\":0.0,"
		"\"last_update_ms\":";
	struct zn_str whole;

	start();
	whole = json(write_snapshot);
	CHECK_MEM(whole.at, sizeof(first) - 1, first, sizeof(first) - 1);
	check_keys(whole, snapshot_keys, ZN_LEN(snapshot_keys), true);
	check_member(whole, "node", "\"node1\"");
	check_member(whole, "source", "\"simulated\"");
	check_member(whole, "version", "\"1.2-test\"");
	check_member(whole, "uptime_s", "77");
	check_member(whole, "interval_ms", "1000");
	check_member(whole, "processes", "[]");
	check_member(whole, "gpus", "[]");
	check_member(whole, "jobs", "[]");
	check_member(whole, "alerts", "[]");
	check_member(whole, "lost.ringbuf", "0");
}

T(snapshot_of_simulated_data)
{
	struct zn_str whole, processes, value, key;
	size_t at = 0, n = 0;
	char key_7[64];

	start_simulated();
	whole = json(write_snapshot);
	check_keys(whole, snapshot_keys, ZN_LEN(snapshot_keys), true);
	CHECK(zn_json_number(member(whole, "cuda_latency_p50_us")) > 100);
	CHECK(zn_json_number(member(whole, "nccl_allreduce_p99_ms")) > 34);
	CHECK(zn_json_number(member(whole, "dataloader_wait_p50_ms")) > 7);
	CHECK(llabs((long long)zn_json_integer(member(whole, "last_update_ms")) - (long long)zn_wall_ms()) < 60000);
	processes = member(whole, "processes");
	for (; zn_json_next(processes, &at, &key, &value); n++)
		check_keys(value, process_keys, ZN_LEN(process_keys), true);
	CHECK_EQ(n, ZN_SIM_RANKS);
	snprintf(key_7, sizeof(key_7), "\"1007:%s\"", agg.gpus.gpu[3].id);
	check_member(whole, "gpu_utilization.7.key", key_7);
}

static const struct {
	const char *path, *want;
} known_json[] = {
	{"gpu_utilization.0.key", "\"4242:GPU-ab000000-0000-0000-0000-000000000000\""},
	{"gpu_utilization.0.current_bytes", "7"},
	{"gpu_utilization.0.peak_bytes", "11"},
	{"cuda_latency_p50_us", "999.424"},
	{"gpus.0.uuid", "\"GPU-ab000000-0000-0000-0000-000000000000\""},
	{"gpus.0.pci", "\"0000:3b:00.0\""},
	{"gpus.0.used_bytes", "7"},
	{"gpus.0.total_bytes", "28"},
	{"gpus.0.processes", "1"},
	{"processes.0.pid", "4242"},
	{"processes.0.comm", "\"pytho\xef\xbf\xbd\\\"\\\\\\n\\u001b\""},
	{"processes.0.job_id", "\"\""},
	{"processes.0.gpus.0.used_bytes", "7"},
	{"processes.0.pinned_bytes", "1014"},
	{"processes.0.launch.count", "1"},
	{"processes.0.launch.p50_us", "999.424"},
	{"processes.0.launch.errors", "1004"},
	{"processes.0.launch.kernel", "1000"},
	{"processes.0.launch.captured", "1003"},
	{"processes.0.sync.count", "27"},
	{"processes.0.sync.sum_ms", "139"},
	{"processes.0.nccl.calls", "203"},
	{"processes.0.nccl.errors", "3"},
	{"processes.0.nccl.ops.0.op", "\"all_reduce\""},
	{"processes.0.nccl.ops.0.calls", "8"},
	{"processes.0.nccl.ops.0.bytes", "856"},
	{"processes.0.nccl.ops.9.op", "\"recv\""},
	{"processes.0.nccl.comms.0.comm", "\"000000000000beef\""},
	{"processes.0.nccl.comms.0.rank", "3"},
	{"processes.0.dataloader.count", "24"},
	{"processes.0.dataloader.p50_ms", "23.59296"},
	{"processes.0.dataloader.loader", "\"pytorch\""},
	{"processes.0.dataloader.worker_idle.count", "25"},
	{"processes.0.stalls.cpu", "0.142441054"},
	{"processes.0.stalls.other", "0.143273231"},
	{"processes.0.stalls.seconds.data", "0.000001029"},
	{"processes.0.stalls.says", "\"rank 3 finds no free CPU 14 % of its time\""},
	{"processes.0.signals.syscalls.munmap_bytes", "1042"},
	{"processes.0.signals.syscalls.rate", "null"},
	{"processes.0.signals.ioctl.count", "28"},
	{"processes.0.signals.sched.offcpu_other_s", "0.000001026"},
	{"processes.0.signals.sched.runqueue.count", "27"},
	{"processes.0.signals.tcp.retransmits", "1045"},
	{"processes.0.signals.tcp.send.count", "29"},
	{"probes.0.family", "\"gpu_mem\""},
	{"probes.0.state", "\"simulated\""},
};

static const char *const io_keys[] = {"read_bytes", "write_bytes", "reads", "writes"};

static void known_figures_as_json(void)
{
	struct zn_str whole;

	t_begin("known_figures_as_json: well-formed");
	start();
	known_process();
	whole = json(write_snapshot);
	for (size_t i = 0; i < ZN_LEN(known_json); i++) {
		t_begin(known_json[i].path);
		check_member(whole, known_json[i].path, known_json[i].want);
	}
	for (size_t i = 0; i < ZN_LEN(io_keys); i++) {
		char path[64], want[16];

		snprintf(path, sizeof(path), "processes.0.io.%s", io_keys[i]);
		snprintf(want, sizeof(want), "%zu", 1000 + ZN_C_IO_READ_BYTES + i);
		check_member(whole, path, want);
	}
}

static const char *const job_keys[] = {"job_id", "restart", "state", "user", "uid", "account", "partition", "name",
	"nodes", "start_ms", "end_ms", "elapsed_s", "processes", "processes_gone", "launches", "nccl_bytes", "gpus"};
static const char *const job_gpu_keys[] = {
	"gpu_id", "allocated", "peak_bytes", "busy_s", "active_s", "idle_s", "quiet_s"};
static const struct {
	const char *path, *want;
} known_job_json[] = {
	{"processes.0.job_id", "\"4711\""},
	{"jobs.0.job_id", "\"4711\""},
	{"jobs.0.restart", "0"},
	{"jobs.0.state", "\"running\""},
	{"jobs.0.user", "\"user1000\""},
	{"jobs.0.uid", "1000"},
	{"jobs.0.account", "\"lab\\\\\\\"\""},
	{"jobs.0.nodes", "\"4\""},
	{"jobs.0.start_ms", "1711800005123"},
	{"jobs.0.end_ms", "null"},
	{"jobs.0.processes", "3"},
	{"jobs.0.processes_gone", "0"},
	{"jobs.0.launches", "153003"},
	{"jobs.0.nccl_bytes", "1023268"},
	{"jobs.0.gpus.0.gpu_id", "\"0\""},
	{"jobs.0.gpus.0.allocated", "true"},
	{"jobs.0.gpus.0.peak_bytes", "83"},
	{"jobs.0.gpus.0.busy_s", "1.5"},
	{"jobs.0.gpus.0.idle_s", "0.25"},
	{"jobs.0.gpus.0.quiet_s", "0.125"},
	{"jobs.0.gpus.1.idle_s", "60.000000001"},
};

/* The keys are those that the page and `zernel watch` read. */
static void a_job_as_json(void)
{
	struct zn_str whole;

	t_begin("a_job_as_json: well-formed");
	known_job();
	whole = json(write_snapshot);
	check_keys(member(whole, "jobs.0"), job_keys, ZN_LEN(job_keys), true);
	check_keys(member(whole, "jobs.0.gpus.0"), job_gpu_keys, ZN_LEN(job_gpu_keys), true);
	check_keys(member(whole, "processes.0"), process_keys, ZN_LEN(process_keys), true);
	for (size_t i = 0; i < ZN_LEN(known_job_json); i++) {
		t_begin(known_job_json[i].path);
		check_member(whole, known_job_json[i].path, known_job_json[i].want);
	}
}

static enum zn_ledger ledger_is(void *owner, const struct zn_proc *p)
{
	(void)p;
	return *(enum zn_ledger *)owner;
}

/* Of a process with memory on one GPU. 1: the figure is there; 0: it is not. */
static const char *const from_the_ledger[] = {
	"zernel_gpu_memory_used_bytes{pid=\"4242\"," GPU "}",
	"zernel_gpu_memory_peak_bytes{pid=\"4242\"," GPU "}",
	"zernel_gpu_host_pinned_bytes{pid=\"4242\"}",
	"zernel_gpu_memory_used_ratio{" GPU "}",
};
static const struct {
	const char *name;
	enum zn_ledger ledger;
	const char *process, *gpu, *json;
} ledgers[] = {
	{"ledger: not known yet", ZN_LEDGER_UNKNOWN, "absent", "0", "false"},
	{"ledger: whole", ZN_LEDGER_WHOLE, "1", "1", "true"},
	{"ledger: partial", ZN_LEDGER_PARTIAL, "0", "0", "false"},
};

static void check_ledger_json(bool whole, const char *complete)
{
	static const char *const path[] = {"gpus.0.used_bytes", "gpus.0.peak_bytes", "gpus.0.processes",
		"processes.0.gpus.0.used_bytes", "processes.0.gpus.0.peak_bytes", "processes.0.pinned_bytes"};
	struct zn_str shown = json(write_snapshot);

	for (size_t i = 0; i < ZN_LEN(path); i++)
		CHECK_EQ(member(shown, path[i]).at[0] != 'n', whole);
	CHECK_EQ(member(shown, "gpu_utilization.0").at != NULL, whole);
	check_member(shown, "gpus.0.memory_complete", complete);
	check_member(shown, "processes.0.memory_complete", complete);
}

/* What a process holds is shown if all of it was seen; what it does is shown in any case. */
static void memory_that_was_not_seen(void)
{
	for (size_t i = 0; i < ZN_LEN(ledgers); i++) {
		enum zn_ledger ledger = ledgers[i].ledger;
		bool whole = ledger == ZN_LEDGER_WHOLE;

		t_begin(ledgers[i].name);
		start();
		agg.ledger = ledger_is;
		agg.owner = &ledger;
		known_process();
		render(false);
		for (size_t n = 0; n < ZN_LEN(from_the_ledger); n++)
			CHECK_EQ(strcmp(value_of(from_the_ledger[n]), "absent") != 0, whole);
		CHECK_STR(value_of("zernel_process_memory_complete{pid=\"4242\"}"), ledgers[i].process);
		CHECK_STR(value_of("zernel_gpu_memory_complete{" GPU "}"), ledgers[i].gpu);
		CHECK_STR(value_of("zernel_gpu_memory_total_bytes{" GPU "}"), "28");
		CHECK_STR(value_of("zernel_gpu_alloc_calls_total{pid=\"4242\"," GPU ",kind=\"device\"}"), "1");
		CHECK_STR(value_of("zernel_gpu_alloc_failures_total{pid=\"4242\"," GPU ",reason=\"oom\"}"), "17");
		check_ledger_json(whole, ledgers[i].json);
	}
}

T(null_where_nothing_is_known)
{
	struct zn_str whole;
	struct zn_proc *p;

	start();
	p = zn_memory_claim(&memory, PID, "x");
	p->gpu[0].peak_bytes = 9;
	p->gpu[0].used_bytes = 8;
	zn_agg_refresh(&agg);
	whole = json(write_snapshot);
	check_member(whole, "gpus.0.gpu_id", "\"unknown\"");
	check_member(whole, "gpus.0.total_bytes", "null");
	check_member(whole, "processes.0.dataloader", "null");
	check_member(whole, "processes.0.launch.count", "0");
	check_member(whole, "processes.0.launch.rate", "0");
	check_member(whole, "processes.0.sync.p99_us", "0");
	check_member(whole, "processes.0.nccl.ops", "[]");
	check_member(whole, "processes.0.nccl.comms", "[]");
	p->gpu[0].used_bytes = 0;
	whole = json(write_snapshot);
	check_member(whole, "gpus", "[]");
	check_member(whole, "gpu_utilization.0.current_bytes", "0");
}

/* Both forms of one figure of a simulated process. */
static const struct {
	const char *series, *path; /* the series lacks its first label, pid */
	double scale;
} both[] = {
	{"zernel_cuda_launches_total{%s,kind=\"kernel\"}", "launch.kernel", 1},
	{"zernel_cuda_launches_total{%s,kind=\"graph\"}", "launch.graph", 1},
	{"zernel_cuda_launch_latency_seconds{%s,quantile=\"0.5\"}", "launch.p50_us", 1e6},
	{"zernel_cuda_launch_latency_seconds{%s,quantile=\"0.99\"}", "launch.p99_us", 1e6},
	{"zernel_cuda_launch_latency_seconds_count{%s}", "launch.count", 1},
	{"zernel_gpu_host_pinned_bytes{%s}", "pinned_bytes", 1},
	{"zernel_dataloader_wait_seconds_count{%s}", "dataloader.count", 1},
	{"zernel_dataloader_wait_seconds{%s,quantile=\"0.5\"}", "dataloader.p50_ms", 1e3},
	{"zernel_nccl_calls_total{%s,op=\"all_reduce\"}", "nccl.ops.0.calls", 1},
	{"zernel_nccl_bytes_total{%s,op=\"all_reduce\"}", "nccl.ops.0.bytes", 1},
	{"zernel_gpu_memory_used_bytes{%s,gpu_id=\"%s\"}", "gpus.0.used_bytes", 1},
	{"zernel_gpu_memory_peak_bytes{%s,gpu_id=\"%s\"}", "gpus.0.peak_bytes", 1},
};

static double in_json[ZN_LEN(both)][ZN_SIM_RANKS];

T(text_and_json_agree)
{
	char path[96], pid[32], series[160];
	struct zn_str whole;

	start_simulated();
	whole = json(write_snapshot);
	for (size_t i = 0; i < ZN_LEN(both); i++)
		for (uint32_t rank = 0; rank < ZN_SIM_RANKS; rank++) {
			snprintf(path, sizeof(path), "processes.%u.%s", rank, both[i].path);
			in_json[i][rank] = zn_json_number(member(whole, path));
			CHECK(in_json[i][rank] > 0);
		}
	render(false);
	for (size_t i = 0; i < ZN_LEN(both); i++)
		for (uint32_t rank = 0; rank < ZN_SIM_RANKS; rank++) {
			double want = in_json[i][rank];

			snprintf(pid, sizeof(pid), "pid=\"%u\"", 1000 + rank);
			snprintf(series, sizeof(series), both[i].series, pid, agg.gpus.gpu[rank / 2].id);
			CHECK(fabs(strtod(value_of(series), NULL) * both[i].scale - want) <= want * 1e-9);
		}
}

T(hostile_names_in_json)
{
	char path[ZN_TEXT_MAX] = "";
	struct zn_str whole;

	for (int byte = 1; byte < 256; byte++) {
		memset(path, byte, sizeof(path) - 1);
		start_live(path);
		memset(libs[1].why, byte, sizeof(libs[1].why) - 1);
		memset(view.node, byte, sizeof(view.node) - 1);
		known_process();
		memset(agg.info[agg.row[0]].comm, byte, sizeof(agg.info[0].comm));
		whole = json(write_snapshot);
		check_keys(whole, snapshot_keys, ZN_LEN(snapshot_keys), true);
		CHECK(member(whole, "processes.0.comm").len >= 2 + sizeof(agg.info[0].comm));
		json(write_health);
		json(write_alerts);
	}
	check_member(json(write_snapshot), "source", "\"live\"");
}

T(states_of_families)
{
	struct zn_str whole;

	start_live("/l");
	probe.available[ZN_FAM_GPU_MEM] = false;
	strcpy(probe.why[ZN_FAM_GPU_MEM], "no\nway");
	whole = json(write_snapshot);
	check_member(whole, "probes.0.state", "\"unavailable\"");
	check_member(whole, "probes.0.why", "\"no\\nway\"");
	check_member(whole, "probes.1.state", "\"attached\"");
	check_member(whole, "probes.1.libraries.0.path", "\"/l\"");
	check_member(whole, "probes.1.libraries.0.attached", "1");
	check_member(whole, "probes.1.libraries.1.attached", "0");
	check_member(whole, "probes.2.state", "\"waiting\"");
	check_member(whole, "probes.2.libraries", "[]");
	add_lib(1, ZN_LIB_NCCL, "/n")->symbol[2] = ZN_SYM_ATTACHED;
	options.families = 1 << ZN_FAM_CUDA_TRACE;
	whole = json(write_snapshot);
	check_member(whole, "probes.0.state", "\"off\"");
	check_member(whole, "probes.2.state", "\"attached\"");
	check_member(whole, "probes.2.libraries.0.path", "\"/n\"");
}

T(alerts_as_json)
{
	struct zn_str whole;

	start();
	known_process();
	agg.gpus.gpu[0].used_bytes = 28;
	zn_alerts_tick(&alerts, 100 * ZN_NS_PER_S);
	whole = json(write_alerts);
	check_member(whole, "node", "\"node1\"");
	check_member(whole, "alerts.0.alert", "\"gpu_oom_warning\"");
	check_member(whole, "alerts.0.severity", "\"critical\"");
	check_member(whole, "alerts.0.state", "\"pending\"");
	check_member(whole, "alerts.0.gpu_id", "\"GPU-ab000000-0000-0000-0000-000000000000\"");
	check_member(whole, "alerts.0.value", "1");
	check_member(whole, "alerts.0.threshold", "0.95");
	check_member(json(write_snapshot), "alerts.0.state", "\"pending\"");
	render(false);
	CHECK_STR(value_of("zernel_alert_state{alert=\"gpu_oom_warning\",severity=\"critical\"}"), "1");
	CHECK_STR(value_of("zernel_table_entries{table=\"alerts\"}"), "1");
}

/* Of a GPU that is not known to be empty it is not said how full it is. */
T(no_alert_on_memory_that_was_not_seen)
{
	enum zn_ledger ledger = ZN_LEDGER_PARTIAL;

	start();
	agg.ledger = ledger_is;
	agg.owner = &ledger;
	known_process();
	agg.gpus.gpu[0].used_bytes = 28;
	zn_alerts_tick(&alerts, 100 * ZN_NS_PER_S);
	CHECK_EQ(alerts.count, 0);
	ledger = ZN_LEDGER_WHOLE;
	zn_agg_refresh(&agg);
	agg.gpus.gpu[0].used_bytes = 28;
	zn_alerts_tick(&alerts, 101 * ZN_NS_PER_S);
	CHECK_EQ(alerts.count, 1);
}

static const struct {
	const char *name;
	bool live;
	unsigned available, families, late_s, finder_late_s, hang_s;
	int status;
	const char *want;
} healths[] = {
	{"health: simulated", false, 0, 7, 0, 0, 0, 200, "\"ok\""},
	{"health: all families", true, 7, 7, 0, 0, 0, 200, "\"ok\""},
	{"health: one family of three", true, 2, 7, 0, 0, 0, 200, "\"ok\""},
	{"health: no family", true, 0, 7, 0, 0, 0, 503, "\"no probes\""},
	{"health: none was asked for", true, 0, 0, 0, 0, 0, 200, "\"ok\""},
	{"health: a little late", true, 7, 7, 4, 0, 0, 200, "\"ok\""},
	{"health: the finder is slow", true, 7, 7, 0, 29, 0, 200, "\"ok\""},
	{"health: the finder is stuck", true, 7, 7, 0, 31, 0, 503, "\"library finder stalled\""},
	{"health: a process holds up the kernel", true, 7, 7, 0, 0, 2, 503, "\"a change of probes hangs\""},
	{"health: ticks have stopped", true, 7, 7, 9, 0, 0, 503, "\"stalled\""},
	{"health: stopped, simulated", false, 0, 7, 9, 0, 0, 503, "\"stalled\""},
};

static void health(void)
{
	for (size_t i = 0; i < ZN_LEN(healths); i++) {
		struct zn_out o = {.at = text, .cap = sizeof(text)};

		t_begin(healths[i].name);
		start_live("/l");
		view.probe = healths[i].live ? &probe : NULL;
		view.find = healths[i].live ? view.find : NULL;
		for (uint32_t f = 0; f < ZN_FAMILY_COUNT; f++)
			probe.available[f] = healths[i].available >> f & 1;
		options.families = healths[i].families;
		finder_late_s = healths[i].finder_late_s;
		hang_ns = healths[i].hang_s * ZN_NS_PER_S;
		view.tick_ns = zn_now_ns() - healths[i].late_s * ZN_NS_PER_S;
		CHECK_EQ(zn_health_json(&o, &view), healths[i].status);
		check_member(json(write_health), "status", healths[i].want);
	}
	hang_ns = 0;
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

static uint64_t fds_open(void)
{
	uint64_t n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

T(figures_of_the_daemon)
{
	uint64_t before = fds_open();
	int fd[3];

	start();
	zn_state_tick(&view);
	CHECK_EQ(view.open_fds, before);
	CHECK(view.resident_bytes > 100000);
	for (size_t i = 0; i < ZN_LEN(fd); i++)
		fd[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	zn_state_tick(&view);
	CHECK_EQ(view.open_fds, before + ZN_LEN(fd));
	for (size_t i = 0; i < ZN_LEN(fd); i++)
		close(fd[i]);
	view.resident_bytes = 12345;
	render(false);
	CHECK_STR(value_of("process_resident_memory_bytes"), "12345");
	CHECK(strtod(value_of("process_cpu_seconds_total"), NULL) > 0);
}

int main(void)
{
	RUN(simulated_data_is_well_formed);
	RUN(nothing_yet);
	known_figures();
	known_in_openmetrics();
	RUN(openmetrics_differs_by_created_alone);
	RUN(a_walk_over_simulated_data_is_the_text);
	RUN(a_walk_over_what_is_live_is_the_text);
	RUN(a_walk_of_what_is_not_there);
	RUN(a_communicator_that_is_there_twice);
	RUN(what_has_not_happened_has_no_series);
	RUN(series_go_with_their_process);
	RUN(probes_of_two_files_at_one_path);
	hostile_paths();
	RUN(long_paths);
	RUN(hostile_gpus);
	known_figures_of_a_job();
	RUN(every_series_of_a_process_names_its_job);
	RUN(sums_of_a_job_outlive_its_processes);
	RUN(a_job_that_has_ended_is_shown_however_often_it_is_scraped);
	RUN(of_a_requeued_job_the_new_run_is_shown);
	RUN(hostile_jobs);
	RUN(a_walk_over_jobs_is_the_text);
	RUN(all_jobs_there_can_be);
	RUN(errors_of_gpus);
	RUN(requests_by_path_and_code);
	RUN(too_little_room);
	RUN(too_little_room_for_messages);
	RUN(durations_of_files_that_do_not_fit);
	RUN(bytes_of_mapped_files_without_a_number);
	RUN(a_scrape_is_timed);
	RUN(snapshot_of_nothing);
	RUN(snapshot_of_simulated_data);
	known_figures_as_json();
	memory_that_was_not_seen();
	a_job_as_json();
	RUN(null_where_nothing_is_known);
	RUN(text_and_json_agree);
	RUN(hostile_names_in_json);
	RUN(states_of_families);
	RUN(alerts_as_json);
	RUN(no_alert_on_memory_that_was_not_seen);
	health();
	RUN(docs_name_every_loss_and_metric);
	RUN(figures_of_the_daemon);
	return t_end();
}
