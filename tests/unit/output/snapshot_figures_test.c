/* SPDX-License-Identifier: GPL-2.0 */
/*
 * snapshot_figures_test.c: the figures of the JSON views (snapshot.c), of a node where each is known: the
 * snapshot, alerts and health. They agree with the text. How the snapshot fits into its buffer is for
 * snapshot_test.c.
 */
#include <math.h>
#include <unistd.h>

#include "metrics.h"

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
	"version", "uptime_s", "interval_ms", "history", "alerts", "why", "gpus", "ports", "lost", "probes", "jobs",
	"io", "servers", "processes"};
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
	{"processes.0.stalls.cpu", "0.14244186"},
	{"processes.0.stalls.other", "0.143272425"},
	{"processes.0.stalls.seconds.data", "0.000001031"},
	{"processes.0.stalls.says", "\"rank 3 finds no free CPU 14 % of its time\""},
	{"processes.0.signals.syscalls.munmap_bytes", "1044"},
	{"processes.0.signals.syscalls.rate", "null"},
	{"processes.0.signals.ioctl.count", "28"},
	{"processes.0.signals.sched.offcpu_other_s", "0.000001028"},
	{"processes.0.signals.sched.runqueue.count", "27"},
	{"processes.0.signals.tcp.retransmits", "1047"},
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
	"nodes", "start_ms", "end_ms", "elapsed_s", "processes", "processes_gone", "launches", "nccl_bytes", "steps",
	"gpu_utilization", "gpus"};
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

/* However long it takes: no tick is late before there are any. */
static void health_while_loading(void)
{
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	t_begin("health: probes are being loaded");
	start_live("/l");
	view.probe = NULL;
	view.find = NULL;
	view.loading = true;
	view.tick_ns = 0;
	view.start_ns = zn_now_ns() - 60 * ZN_NS_PER_S;
	CHECK_EQ(zn_health_json(&o, &view), 503);
	check_member(json(write_health), "status", "\"loading\"");
	check_member(json(write_health), "source", "\"live\"");
	view.loading = false;
}

int main(void)
{
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
	health_while_loading();
	return t_end();
}
