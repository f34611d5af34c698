/* SPDX-License-Identifier: GPL-2.0 */
/*
 * metrics.h: a node whose every figure is known, and a strict reader of the text that /metrics gives, for the
 * tests of this folder. Probes and libraries are stand-ins: nothing here touches the kernel.
 */
#ifndef METRICS_H
#define METRICS_H

#include <stdlib.h>

#include "zernel.h"
#include "alert_source.h"
#include "t.h"
#include "no_cgroups.h"

#define TEXT_BYTES   (8 << 20)
#define SAMPLES_MAX  20000
#define FAMILIES_MAX 256
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
/* A view of nothing at all; simulated, as there is no probe. */
static inline void walk_view(
	void *of, const struct zn_rule_wanted *wanted, void (*sample)(void *to, const struct zn_sample *s), void *to)
{
	zn_metrics_walk(of, wanted->metric, sample, to);
}

static inline void start(void)
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

static inline void start_simulated(void)
{
	start();
	if (zn_sim_open(&sim, 1))
		abort();
	zn_agg_init(&agg, &sim.memory.arena);
	zn_agg_tick(&agg, zn_now_ns());
	zn_sim_step(&sim, 6000);
	zn_agg_tick(&agg, zn_now_ns() + ZN_NS_PER_S);
}

static inline struct zn_lib *add_lib(size_t i, enum zn_lib_kind kind, const char *path)
{
	libs[i] = (struct zn_lib){.used = true, .ready = true, .kind = kind, .dev = 0x801, .ino = 100 + i};
	snprintf(libs[i].path, sizeof(libs[i].path), "%s", path);
	return &libs[i];
}

/* With probes: three hooks, two libraries at one path. */
static inline void start_live(const char *path)
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
	bool openmetrics, ended, brief;
} page;

static inline char *skip_name(char *at)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";

	if (!*at || !strchr(letters, *at))
		return NULL;
	while (*at && (strchr(letters, *at) || (*at >= '0' && *at <= '9')))
		at++;
	return at;
}

/* The end of a quoted value, or NULL if anything in it is not as the format has it. */
static inline char *skip_value(char *at)
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

static inline char *skip_labels(char *at)
{
	do {
		at = skip_name(at + 1);
		if (!at || at[0] != '=' || at[1] != '"' || !(at = skip_value(at + 2)))
			return NULL;
	} while (*at == ',');
	return *at == '}' ? at + 1 : NULL;
}

static inline bool read_sample(char *line)
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
static inline bool read_help(char *name, char *end)
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
static inline bool read_comment(char *line)
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

static inline bool ends_with(const struct sample *s, const char *suffix)
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

static inline bool belongs(const struct sample *s)
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
static inline void check_unit(uint32_t family)
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

static inline int by_series(const void *a, const void *b)
{
	return strcmp(((const struct sample *)a)->series, ((const struct sample *)b)->series);
}

static inline void check_no_duplicates(void)
{
	static struct sample sorted[SAMPLES_MAX];

	memcpy(sorted, page.sample, page.samples * sizeof(sorted[0]));
	qsort(sorted, page.samples, sizeof(sorted[0]), by_series);
	for (uint32_t i = 1; i < page.samples; i++)
		if (!strcmp(sorted[i - 1].series, sorted[i].series))
			T_FAIL("two of %s", sorted[i].series);
}

/* The labels of a line of a group, without the one that only this line has and without the bracket. */
static inline size_t shared_labels(const struct sample *s, const char **labels)
{
	const char *own = strstr(s->series, "le=\"");

	if (ends_with(s, ""))
		own = strstr(s->series, "quantile=\"");
	*labels = s->series + s->name_len;
	if (own && (ends_with(s, "") || ends_with(s, "_bucket")))
		return (size_t)(own - 1 - *labels);
	return strlen(*labels) ? strlen(*labels) - 1 : 0;
}

static inline bool same_labels(const struct sample *a, const struct sample *b)
{
	const char *x, *y;
	size_t n = shared_labels(a, &x), m = shared_labels(b, &y);

	return n == m && !strncmp(x, y, n);
}

/* What drivers and the kernel count, since before the daemon. */
static inline bool is_of_driver(const struct sample *s)
{
	static const char *const names[] = {"zernel_gpu_ecc_errors_total", "zernel_gpu_pcie_errors_total",
		"zernel_gpu_pcie_replays_total", "zernel_gpu_nvlink_bytes_total", "zernel_gpu_energy_joules_total"};

	for (size_t i = 0; i < ZN_LEN(names); i++)
		if (s->name_len == strlen(names[i]) && !strncmp(s->series, names[i], s->name_len))
			return true;
	return false;
}

/* OpenMetrics: the line that says since when the series counts, after its others. */
static inline uint32_t check_created(const struct sample *s, const struct sample *first, uint32_t left)
{
	if (!page.openmetrics || page.brief || is_of_driver(first))
		return 0;
	if (!left || !ends_with(s, "_created") || !same_labels(s, first)) {
		T_FAIL("%s has no _created", first->series);
		return 0;
	}
	CHECK(strtod(s->value, NULL) > 1.7e9);
	return 1;
}

/* The lines of one summary or histogram series, from s on: growing values, then sum, then count. */
static inline uint32_t check_group(const struct sample *s, uint32_t left)
{
	const char *line = strcmp(page.type[s->family], "summary") ? "_bucket" : "";
	uint32_t n = 0;

	while (n < left && ends_with(&s[n], line)) {
		CHECK(n == 0 || strtod(s[n].value, NULL) >= strtod(s[n - 1].value, NULL));
		CHECK(same_labels(&s[n], s));
		n++;
	}
	if (page.brief && !*line)
		return n ? n : 1;
	CHECK(n + 2 <= left && ends_with(&s[n], "_sum") && ends_with(&s[n + 1], "_count"));
	CHECK(n + 2 <= left && same_labels(&s[n], s) && same_labels(&s[n + 1], s));
	if (!*line) {
		CHECK(n >= 2);
	} else if (n == ZN_LE_COUNT || n == ZN_LE_FINE_COUNT) {
		CHECK(strstr(s[n - 1].series, "le=\"+Inf\"") && !strcmp(s[n - 1].value, s[n + 1].value));
	} else {
		T_FAIL("%s has %u buckets", s->series, n);
	}
	return n + 2 + check_created(&s[n + 2], s, left - n - 2);
}

static inline void check_groups(void)
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

static inline void read_page(size_t len, bool openmetrics)
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

static uint32_t collect; /* of the next pages; 0: as --series says */

static inline void render(bool openmetrics)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_state_refresh(&view);
	page.brief = collect && zn_metrics_brief(collect);
	zn_metrics_text(&o, &view, openmetrics, collect);
	CHECK(!o.full);
	read_page(o.len, openmetrics);
}

static inline const char *value_of(const char *series)
{
	for (uint32_t i = 0; i < page.samples; i++)
		if (!strcmp(page.sample[i].series, series))
			return page.sample[i].value;
	return "absent";
}

static inline uint32_t count_with(const char *part)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < page.samples; i++)
		n += strstr(page.sample[i].series, part) != NULL;
	return n;
}

/* A process whose every figure is known. */
static inline struct zn_proc *known_process(void)
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
		p->count[i] = i >= ZN_C_CUDA_ERRORS && i <= ZN_C_ALLOC_DROPPED ? 0 : 1000 + i;
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

/* Its job has been told of in full. */
static inline struct zn_job *start_job(const char *id, const char *restart)
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

static inline void tag(struct zn_proc *p, const struct zn_job *job)
{
	p->job = (struct zn_job_ref){.slot = job->slot, .serial = job->serial};
}

static inline void start_jobs(void)
{
	start();
	if (zn_jobs_open(&jobs, &agg, &alerts))
		abort();
	view.jobs = &jobs;
}

/* Job 4711: the known process, what others of it did before, and two GPUs. */
static inline struct zn_job *known_job(void)
{
	struct zn_job *job;

	start_jobs();
	job = start_job("4711", "0");
	tag(known_process(), job);
	job->start_ns = view.start_ns + 5 * ZN_NS_PER_S;
	job->start_wall_ms = view.start_wall_ms + 5000;
	job->processes = 3;
	job->count[ZN_C_LAUNCH_KERNEL] = 100000;
	job->count[ZN_C_LAUNCH_COOPERATIVE] = 50000;
	job->count[ZN_C_LAUNCH_CAPTURED] = 7777777;
	job->gone[ZN_H_NCCL_SEND].hist.bytes = 1000000;
	job->gone[ZN_H_NCCL_INIT].hist.bytes = 7777777;
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

#endif
