/* SPDX-License-Identifier: GPL-2.0 */
/* The JSON views: the snapshot that every WebSocket client gets each tick, the alerts, and health. */
#include "zernel.h"
#include <string.h>

#define US      3 /* decimals from nanoseconds to microseconds, and to milliseconds */
#define MS      6
#define SECONDS 9

/* A starred number of the contract: always there, 0.0 when there is nothing. */
static void key_decimal(struct zn_json *j, const char *key, uint64_t v, int decimals)
{
	zn_json_key(j, key);
	zn_json_decimal(j, v, decimals);
}

static void key_bytes(struct zn_json *j, const char *key, const char *bytes, size_t cap)
{
	zn_json_key(j, key);
	zn_json_bytes(j, bytes, strnlen(bytes, cap));
}

static void key_if(struct zn_json *j, const char *key, bool known, uint64_t v)
{
	if (known)
		zn_json_key_u64(j, key, v);
	else
		zn_json_key_null(j, key);
}

/* What is being written, for the items of lists. */
struct scope {
	const struct zn_state *state;
	const char *job; /* empty: all */
};

static const char *job_id(const struct zn_state *state, const struct zn_proc *p)
{
	return state->jobs ? zn_job_id(state->jobs, p) : "";
}

/* Processes, jobs and I/O are narrowed to one job. */
static bool is_wanted(const struct scope *s, const char *job)
{
	return !*s->job || strcmp(s->job, job) == 0;
}

static bool utilization_item(const void *scope, struct zn_json *j, uint32_t i)
{
	struct zn_agg *a = ((const struct scope *)scope)->state->agg;
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	char key[80];
	size_t n;

	if (i >= a->row_count)
		return false;
	n = zn_agg_shares(a, a->row[i], share);
	for (size_t s = 0; s < n; s++) {
		if (!share[s].sum.peak_bytes || share[s].partial)
			continue;
		snprintf(key, sizeof(key), "%u:%s", a->arena->procs[a->row[i]].tgid, a->gpus.gpu[share[s].gpu].id);
		zn_json_open(j, '{');
		zn_json_key_text(j, "key", key);
		zn_json_key_u64(j, "current_bytes", share[s].sum.used_bytes);
		zn_json_key_u64(j, "peak_bytes", share[s].sum.peak_bytes);
		zn_json_close(j, '}');
	}
	return true;
}

/* The six starred numbers: their keys, and up to 20 digits and a point each. */
#define NUMBERS_MAX 320

static void put_numbers(struct zn_json *j, const struct zn_state *state)
{
	struct zn_summary s = zn_hist_summary(zn_agg_merge_live(state->agg, ZN_H_LAUNCH));

	key_decimal(j, "cuda_latency_p50_us", s.p50_ns, US);
	key_decimal(j, "cuda_latency_p99_us", s.p99_ns, US);
	s = zn_hist_summary(zn_agg_merge_live(state->agg, ZN_H_NCCL_ALL_REDUCE));
	key_decimal(j, "nccl_allreduce_p50_ms", s.p50_ns, MS);
	key_decimal(j, "nccl_allreduce_p99_ms", s.p99_ns, MS);
	s = zn_hist_summary(zn_agg_merge_live(state->agg, ZN_H_DATALOAD));
	key_decimal(j, "dataloader_wait_p50_ms", s.p50_ns, MS);
	zn_json_key_u64(j, "last_update_ms", zn_wall_ms());
}

/* The keys that are always there, first and in this order. */
static bool put_starred(struct zn_json *j, struct scope *s)
{
	bool whole;

	zn_json_key_open(j, "gpu_utilization", '[');
	zn_json_reserve(j, 1 + NUMBERS_MAX);
	whole = zn_json_items(j, utilization_item, s);
	zn_json_release(j, 1 + NUMBERS_MAX);
	zn_json_close(j, ']');
	put_numbers(j, s->state);
	return whole;
}

static bool gpu_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct zn_state *state = ((const struct scope *)scope)->state;
	const struct zn_gpus *g = &state->agg->gpus;
	const struct zn_gpu *gpu = &g->gpu[i];

	if (i >= g->count)
		return zn_hardware_json_item(j, state->hardware, i - g->count);
	if (!zn_gpu_shown(gpu))
		return true;
	zn_json_open(j, '{');
	zn_json_key_text(j, "gpu_id", gpu->id);
	zn_json_key_text(j, "uuid", gpu->uuid);
	zn_json_key_text(j, "pci", gpu->pci);
	key_if(j, "used_bytes", !gpu->partial, gpu->used_bytes);
	key_if(j, "peak_bytes", !gpu->partial, gpu->peak_bytes);
	if (gpu->total_bytes)
		zn_json_key_u64(j, "total_bytes", gpu->total_bytes);
	else
		zn_json_key_null(j, "total_bytes");
	key_if(j, "processes", !gpu->partial, gpu->processes);
	zn_json_key(j, "memory_complete");
	zn_json_bool(j, !gpu->partial);
	zn_hardware_json(j, zn_hardware_of(state->hardware, gpu));
	zn_json_close(j, '}');
	return true;
}

static void proc_gpus(struct zn_json *j, struct zn_agg *a, uint32_t row)
{
	struct zn_gpu_usage share[ZN_PROC_GPUS + 1];
	size_t n = zn_agg_shares(a, row, share);

	zn_json_key_open(j, "gpus", '[');
	for (size_t i = 0; i < n; i++) {
		zn_json_open(j, '{');
		zn_json_key_text(j, "gpu_id", a->gpus.gpu[share[i].gpu].id);
		key_if(j, "used_bytes", !share[i].partial, share[i].sum.used_bytes);
		key_if(j, "peak_bytes", !share[i].partial, share[i].sum.peak_bytes);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static const struct zn_hist *hist_of(struct zn_agg *a, const struct zn_proc *p, enum zn_operation d)
{
	static const struct zn_hist none;
	const struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

	return h ? h : &none;
}

/* Count, and two quantiles under keys with their unit. */
static void put_summary(struct zn_json *j, const struct zn_hist *h, int unit)
{
	struct zn_summary s = zn_hist_summary(h);

	zn_json_key_u64(j, "count", s.count);
	zn_json_key_scaled(j, unit == US ? "p50_us" : "p50_ms", s.p50_ns, unit);
	zn_json_key_scaled(j, unit == US ? "p99_us" : "p99_ms", s.p99_ns, unit);
}

static void put_launch(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p)
{
	static const char *const kind[] = {"kernel", "graph", "cooperative", "captured"};

	zn_json_key_open(j, "launch", '{');
	zn_json_key_scaled(j, "rate", state->agg->info[row].launch_rate, 3);
	put_summary(j, hist_of(state->agg, p, ZN_H_LAUNCH), US);
	zn_json_key(j, "recent");
	zn_point_json(j, state->history ? zn_history_last(state->history, row, p->id) : NULL);
	zn_json_key_u64(j, "errors", p->count[ZN_C_LAUNCH_ERRORS]);
	for (uint32_t i = 0; i < ZN_LEN(kind); i++)
		zn_json_key_u64(j, kind[i], p->count[ZN_C_LAUNCH_KERNEL + i]);
	zn_json_close(j, '}');
}

static void put_sync(struct zn_json *j, struct zn_agg *a, const struct zn_proc *p)
{
	struct zn_hist_sum *all = &a->merged;

	memset(all, 0, sizeof(*all));
	for (enum zn_operation d = ZN_H_SYNC_STREAM; d <= ZN_H_SYNC_FREE; d++) {
		const struct zn_hist *h = hist_of(a, p, d);

		if (h->calls)
			zn_hist_merge(all, h);
	}
	zn_json_key_open(j, "sync", '{');
	zn_json_key_scaled(j, "sum_ms", all->hist.sum_ns, MS);
	put_summary(j, &all->hist, US);
	zn_json_close(j, '}');
}

static void nccl_ops(struct zn_json *j, struct zn_agg *a, const struct zn_proc *p)
{
	zn_json_key_open(j, "ops", '[');
	for (enum zn_operation d = ZN_H_NCCL_FIRST; d <= ZN_H_NCCL_LAST; d++) {
		const struct zn_hist *h = hist_of(a, p, d);
		struct zn_summary s;

		if (!h->calls)
			continue;
		s = zn_hist_summary(h);
		zn_json_open(j, '{');
		zn_json_key_text(j, "op", zn_operation_label(d));
		zn_json_key_u64(j, "calls", h->calls);
		zn_json_key_u64(j, "bytes", h->bytes);
		zn_json_key_u64(j, "errors", h->errors);
		zn_json_key_scaled(j, "p50_ms", s.p50_ns, MS);
		zn_json_key_scaled(j, "p99_ms", s.p99_ns, MS);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

/* Where the ranks of a communicator are compared. */
static void put_issued(struct zn_json *j, const struct zn_state *state, const struct zn_comm *c)
{
	uint32_t slot = c->skew - 1u;
	const struct zn_skew *s = c->skew ? zn_arena_skew(state->agg->arena, slot) : NULL;

	if (!s || c->member >= ZN_SKEW_RANKS || s->member[c->member].tgid != c->tgid)
		return;
	zn_json_key_u64(j, "issued", s->member[c->member].issued);
	zn_json_key_scaled(j, "late_s", zn_ranks_late(state->ranks, s, slot, c->member), SECONDS);
}

static void nccl_comms(struct zn_json *j, const struct zn_state *state, uint32_t tgid)
{
	const struct zn_agg *a = state->agg;
	char hex[17];

	zn_json_key_open(j, "comms", '[');
	for (size_t i = 0; i < a->comm_count; i++) {
		const struct zn_comm *c = &a->comms[i];
		struct zn_out o = {.at = hex, .cap = sizeof(hex)};

		if (c->tgid != tgid || c->rank == ZN_UNKNOWN || c->nranks == ZN_UNKNOWN || c->hash == 0)
			continue;
		zn_out_hex(&o, c->hash, 16);
		zn_json_open(j, '{');
		zn_json_key(j, "comm");
		zn_json_bytes(j, hex, o.len);
		zn_json_key_u64(j, "rank", c->rank);
		zn_json_key_u64(j, "nranks", c->nranks);
		put_issued(j, state, c);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void put_nccl(struct zn_json *j, const struct zn_state *state, const struct zn_proc *p)
{
	struct zn_agg *a = state->agg;
	uint64_t calls = 0, bytes = 0, errors = 0, ns = 0;

	for (enum zn_operation d = ZN_H_NCCL_FIRST; d <= ZN_H_NCCL_LAST; d++) {
		const struct zn_hist *h = hist_of(a, p, d);

		calls += h->calls;
		bytes += h->bytes;
		errors += h->errors;
		ns += h->sum_ns;
	}
	zn_json_key_open(j, "nccl", '{');
	zn_json_key_u64(j, "calls", calls);
	zn_json_key_u64(j, "bytes", bytes);
	zn_json_key_u64(j, "errors", errors);
	zn_json_key_scaled(j, "sum_ms", ns, MS);
	nccl_ops(j, a, p);
	nccl_comms(j, state, p->tgid);
	zn_json_close(j, '}');
}

/* Of its own calls; a process is known from its first hooked call on. */
static void proc_io(struct zn_json *j, const struct zn_state *state, const struct zn_proc *p)
{
	if (!zn_agg_measures(state->agg, ZN_FAM_VFS)) {
		zn_json_key_null(j, "io");
		return;
	}
	zn_json_key_open(j, "io", '{');
	zn_json_key_u64(j, "read_bytes", p->count[ZN_C_IO_READ_BYTES]);
	zn_json_key_u64(j, "write_bytes", p->count[ZN_C_IO_WRITE_BYTES]);
	zn_json_key_u64(j, "reads", p->count[ZN_C_IO_READ_CALLS]);
	zn_json_key_u64(j, "writes", p->count[ZN_C_IO_WRITE_CALLS]);
	zn_json_close(j, '}');
}

/* Seconds by phase, and whether it launches steadily by now. */
static void proc_startup(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p)
{
	const struct zn_startup_row *r = state->startup ? zn_startup_of(state->startup, row, p->id) : NULL;

	if (!r) {
		zn_json_key_null(j, "startup");
		return;
	}
	zn_json_key_open(j, "startup", '{');
	zn_json_key(j, "over");
	zn_json_bool(j, r->state == ZN_STARTUP_OVER);
	for (enum zn_startup_phase phase = 0; phase < ZN_STARTUP_COUNT; phase++)
		zn_json_key_scaled(j, zn_startup_label(phase), r->phase_ns[phase], 9);
	zn_json_close(j, '}');
}

static void put_process(struct zn_json *j, const struct zn_state *state, uint32_t row, const struct zn_proc *p)
{
	struct zn_agg *a = state->agg;

	zn_json_open(j, '{');
	zn_json_key_u64(j, "pid", p->tgid);
	key_bytes(j, "comm", a->info[row].comm, sizeof(a->info[row].comm));
	zn_json_key_text(j, "job_id", job_id(state, p));
	proc_gpus(j, a, row);
	key_if(j, "pinned_bytes", zn_agg_memory_known(a, row), p->count[ZN_C_HOST_PINNED]);
	zn_json_key(j, "memory_complete");
	zn_json_bool(j, zn_agg_memory_known(a, row));
	put_launch(j, state, row, p);
	put_sync(j, a, p);
	put_nccl(j, state, p);
	zn_stalls_loader_json(j, state, row);
	zn_stalls_json(j, state, row);
	zn_rates_json(j, state, row, p);
	proc_io(j, state, p);
	zn_baselines_json(j, state, row, p->id);
	proc_startup(j, state, row, p);
	zn_sampled_json(j, a, row, p->id, p->first_ns);
	zn_failed_json(j, state, row, p);
	zn_stalls_blocked_json(j, state, row, p);
	zn_json_close(j, '}');
}

static bool process_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct scope *s = scope;
	struct zn_agg *a = s->state->agg;
	const struct zn_proc *p = i < a->row_count ? zn_arena_proc(a->arena, a->row[i]) : NULL;

	if (p && is_wanted(s, job_id(s->state, p)))
		put_process(j, s->state, a->row[i], p);
	return i < a->row_count;
}

/* At first those that run, then those that have ended. */
static bool job_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct scope *s = scope;
	struct zn_job *job = s->state->jobs ? &s->state->jobs->job[i % ZN_JOBS_MAX] : NULL;

	if (!job || i >= 2 * ZN_JOBS_MAX)
		return false;
	if (job->state != ZN_JOB_FREE && (job->state == ZN_JOB_ENDED) == (i >= ZN_JOBS_MAX) && is_wanted(s, job->id))
		zn_job_json(j, s->state, job);
	return true;
}

static bool io_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct scope *s = scope;
	struct zn_io_sums *io_sums = s->state->io_sums;
	const struct zn_io_sum *f = io_sums && i < io_sums->high ? &io_sums->io_sum[i] : NULL;
	const char *job = f && f->used ? zn_io_sum_job(io_sums, f) : NULL;

	if (job && is_wanted(s, job))
		zn_io_sum_json(j, s->state, f, true);
	return f;
}

/* A label with the name of another member is called label_<name>. */
static void alert_labels(struct zn_json *j, const struct zn_alert *alert)
{
	static const char *const members[] = {
		"alert", "severity", "state", "value", "threshold", "unit", "since_ms", "summary", "description"};
	struct zn_label label[ZN_LABELS_MAX];
	size_t n = zn_alert_labels(alert, label);
	char key[80];

	for (size_t i = 2; i < n; i++) {
		bool taken = false;

		for (size_t m = 0; m < ZN_LEN(members); m++)
			taken |= !strcmp(members[m], label[i].name.at);
		snprintf(key, sizeof(key), "%s%.64s", taken ? "label_" : "", label[i].name.at);
		zn_json_key_text(j, key, label[i].value.at);
	}
}

static void put_annotation(struct zn_json *j, const struct zn_alert *alert, const char *name)
{
	char text[1024];
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_alert_annotation(&o, alert, name);
	zn_json_key(j, name);
	zn_json_bytes(j, text, o.len);
}

static bool alert_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct zn_state *state = ((const struct scope *)scope)->state;
	const struct zn_alerts *a = state->alerts;
	const struct zn_alert *alert = &a->alert[i];

	if (i >= a->count)
		return false;
	zn_json_open(j, '{');
	zn_json_key_text(j, "alert", alert->rule->name);
	zn_json_key_text(j, "severity", alert->rule->severity);
	zn_json_key_text(j, "state", zn_alert_state_label(alert->state));
	alert_labels(j, alert);
	zn_json_key(j, "value");
	zn_json_double(j, alert->value);
	zn_json_key(j, "threshold");
	zn_json_double(j, alert->rule->limit);
	if (zn_alert_unit(alert))
		zn_json_key_text(j, "unit", zn_alert_unit(alert));
	zn_json_key_u64(j, "since_ms", zn_state_wall_ms(state, alert->since_ns));
	put_annotation(j, alert, "summary");
	if (alert->rule->description.len)
		put_annotation(j, alert, "description");
	zn_json_close(j, '}');
	return true;
}

struct family_libs {
	struct zn_json *json;
	const struct zn_probe *probe;
	enum zn_family family;
	uint32_t attached, count;
};

static void family_lib(void *to, const struct zn_lib *lib)
{
	struct family_libs *f = to;
	uint32_t attached = 0, symbols = 0;

	if (!zn_family_fits(f->family, lib->kind))
		return;
	for (uint32_t i = 0; i < f->probe->hook_count; i++) {
		if (f->probe->hook[i].family != f->family)
			continue;
		attached += lib->symbol[i] == ZN_SYM_ATTACHED;
		symbols += lib->symbol[i] != ZN_SYM_MISSING;
	}
	f->attached += attached;
	f->count++;
	zn_json_open(f->json, '{');
	key_bytes(f->json, "path", lib->path, sizeof(lib->path));
	zn_json_key_u64(f->json, "attached", attached);
	zn_json_key_u64(f->json, "symbols", symbols);
	key_bytes(f->json, "why", lib->why, sizeof(lib->why));
	zn_json_close(f->json, '}');
}

static void family_state(struct zn_json *j, const struct zn_state *state, const struct family_libs *libs)
{
	const struct zn_probe *p = state->probe;
	const char *status = "attached", *why = "";
	enum zn_family f = libs->family;

	if (state->loading) {
		status = "loading";
	} else if (!p) {
		status = "simulated";
	} else if (!p->available[f]) {
		status = state->options->families >> f & 1 ? "unavailable" : "off";
		why = p->why[f];
	} else if (!libs->attached && libs->count) {
		status = "unavailable";
		why = "its functions could not be hooked in the libraries that are there";
	} else if (!libs->attached) {
		status = "waiting";
		why = f == ZN_FAM_NCCL ? "no process maps libnccl.so or librccl.so"
				       : "no process maps libcuda.so or libamdhip64.so";
	}
	zn_json_key_text(j, "state", status);
	zn_json_key_text(j, "why", why);
}

/* The same keys as of a family on libraries, and which method of places it stands on. */
static void kernel_state(struct zn_json *j, const struct zn_state *state, enum zn_family f)
{
	const struct zn_kernel *k = state->probe ? &state->probe->kernel : NULL;
	const char *status = "attached", *why = k ? k->why[f] : "";

	if (state->loading)
		status = "loading";
	else if (!k)
		status = "simulated";
	else if (k->method[f] == ZN_METHOD_NONE)
		status = state->options->families >> f & 1 ? "unavailable" : "off";
	else if (!k->wanted && k->on_demand[f]) {
		status = "waiting";
		why = why[0] ? why : "no process has called a hooked function";
	}
	zn_json_key_open(j, "libraries", '[');
	zn_json_close(j, ']');
	zn_json_key_text(j, "state", status);
	zn_json_key_text(j, "why", why);
	if (k && k->method[f] != ZN_METHOD_NONE)
		zn_json_key_text(j, "tier", zn_method_label(k->method[f]));
}

static bool probe_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct zn_state *state = ((const struct scope *)scope)->state;
	struct family_libs libs = {.json = j, .probe = state->probe, .family = i};

	if (i >= ZN_FAM_ALL)
		return false;
	zn_json_open(j, '{');
	zn_json_key_text(j, "family", zn_family_label(i));
	if (i >= ZN_FAMILY_COUNT) {
		kernel_state(j, state, i);
		zn_json_close(j, '}');
		return true;
	}
	zn_json_key_open(j, "libraries", '[');
	if (state->find)
		zn_libraries_visit(zn_find_libraries(state->find), family_lib, &libs);
	zn_json_close(j, ']');
	family_state(j, state, &libs);
	if (state->probe && state->probe->available[i])
		zn_json_key_text(j, "tier", zn_method_label(zn_probe_method(state->probe)));
	zn_json_close(j, '}');
	return true;
}

static bool loss_item(const void *scope, struct zn_json *j, uint32_t i)
{
	if (i < ZN_LOSS_COUNT)
		zn_json_key_u64(j, zn_loss_label(i), zn_state_lost(((const struct scope *)scope)->state, i));
	return i < ZN_LOSS_COUNT;
}

static uint64_t uptime_s(const struct zn_state *state)
{
	return (zn_now_ns() - state->start_ns) / ZN_NS_PER_S;
}

/* Writes all keys of the node, or none. */
static bool put_node(struct zn_json *j, const struct zn_state *state)
{
	struct zn_json_mark before = zn_json_mark(j);

	zn_json_key_text(j, "node", state->node);
	zn_json_key_text(j, "source", zn_state_source(state));
	zn_json_key_text(j, "version", zn_version);
	zn_json_key_u64(j, "uptime_s", uptime_s(state));
	zn_json_key_u64(j, "interval_ms", state->options->push_interval_ms);
	zn_rates_node_json(j, state);
	zn_hardware_json_energy(j, state->hardware);
	zn_json_key_open(j, "history", '{');
	zn_json_key_u64(j, "step_ms", ZN_HISTORY_STEP_MS);
	zn_json_key_u64(j, "steps", state->history ? zn_history_steps(state->history) : 0);
	zn_json_close(j, '}');
	if (!j->out->full)
		return true;
	zn_json_back(j, &before);
	return false;
}

static bool server_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct scope *s = scope;

	return zn_server_json(j, s->state, s->job, i);
}

static bool why_item(const void *scope, struct zn_json *j, uint32_t i)
{
	const struct scope *s = scope;

	return zn_why_item(j, s->state, i, s->job, false);
}

static bool port_item(const void *scope, struct zn_json *j, uint32_t i)
{
	return zn_ports_json_item(j, ((const struct scope *)scope)->state->hardware, i);
}

/* The most important first, the largest last: where room is short, the last ones are cut. */
static const struct {
	enum zn_topic topic;
	const char *key;
	char bracket;
	bool (*item)(const void *scope, struct zn_json *j, uint32_t i);
} lists[] = {
	{ZN_TOPIC_ALERTS, "alerts", '[', alert_item},
	{ZN_TOPIC_WHY, "why", '[', why_item},
	{ZN_TOPIC_GPUS, "gpus", '[', gpu_item},
	{ZN_TOPIC_GPUS, "ports", '[', port_item},
	{ZN_TOPIC_LOST, "lost", '{', loss_item},
	{ZN_TOPIC_PROBES, "probes", '[', probe_item},
	{ZN_TOPIC_JOBS, "jobs", '[', job_item},
	{ZN_TOPIC_IO, "io", '[', io_item},
	{ZN_TOPIC_SERVERS, "servers", '[', server_item},
	{ZN_TOPIC_PROCESSES, "processes", '[', process_item},
};

bool zn_snapshot_json(struct zn_out *o, const struct zn_state *state, const struct zn_filter *filter)
{
	struct scope s = {.state = state, .job = filter ? filter->job : ""};
	uint32_t topics = filter ? filter->topics : ZN_TOPICS_ALL;
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_reserve(&j, ZN_JSON_END);
	whole = put_starred(&j, &s);
	whole &= put_node(&j, state);
	for (size_t i = 0; i < ZN_LEN(lists); i++)
		if (topics >> lists[i].topic & 1)
			whole &= zn_json_list(&j, lists[i].key, lists[i].bracket, lists[i].item, &s);
	zn_json_end(&j, whole);
	return whole && !o->full;
}

void zn_snapshot_alerts(struct zn_out *o, const struct zn_state *state)
{
	struct scope s = {.state = state};
	struct zn_json j;
	bool whole;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "node", state->node);
	zn_json_key_text(&j, "source", zn_state_source(state));
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "alerts", '[', alert_item, &s);
	zn_json_end(&j, whole);
}

#define FINDER_PATIENCE_NS (30 * ZN_NS_PER_S)

static bool outbound_item(const void *owner, struct zn_json *j, uint32_t i)
{
	const struct zn_sender *c = ((const struct scope *)owner)->state->sender;

	if (!c || i >= ZN_TO_COUNT)
		return false;
	if (!c->destinations[i])
		return true;
	zn_json_open(j, '{');
	zn_json_key_text(j, "to", zn_outbound_label(i));
	zn_json_key_text(j, "state", c->worker.fd < 0 ? "ended" : c->sum[i].down ? "down" : "ok");
	zn_json_key_u64(j, "destinations", c->destinations[i]);
	zn_json_key_u64(j, "down", zn_sender_down(c, i));
	zn_json_key_u64(j, "queued", c->sum[i].queued);
	zn_json_close(j, '}');
	return true;
}

/* Unhealthy: live, but no family that was asked for can be had, or they are being loaded; or the ticks have stopped, or
 * the finder waits for a file system that does not answer. */
int zn_health_json(struct zn_out *o, const struct zn_state *state)
{
	uint64_t late_ns = zn_now_ns() - (state->tick_ns ? state->tick_ns : state->start_ns);
	bool late = !state->loading && late_ns > 5 * ZN_NS_PER_S + state->options->push_interval_ms * ZN_NS_PER_MS;
	bool any = (!state->probe && !state->loading) || state->options->families == 0;
	uint64_t round_ns = state->find ? zn_find_round_ns(state->find) : 0; /* 0: it has not begun */
	char why[ZN_TEXT_MAX];
	bool hangs = zn_state_hang(state, why) > 0;
	bool stuck = round_ns && zn_now_ns() > round_ns + FINDER_PATIENCE_NS;
	struct scope s = {.state = state};
	struct zn_json j;
	bool whole;

	for (enum zn_family f = 0; state->probe && f < ZN_FAMILY_COUNT; f++)
		any |= state->probe->available[f];
	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "status",
		late                     ? "stalled"
			: hangs          ? "a change of probes hangs"
			: stuck          ? "library finder stalled"
			: state->loading ? "loading"
			: any            ? "ok"
					 : "no probes");
	if (hangs)
		zn_json_key_text(&j, "why", why);
	zn_json_key_text(&j, "node", state->node);
	zn_json_key_text(&j, "source", zn_state_source(state));
	zn_json_key_text(&j, "version", zn_version);
	zn_json_key_u64(&j, "uptime_s", uptime_s(state));
	if (state->http && state->http->ports_missing)
		zn_json_key_u64(&j, "ports_missing", state->http->ports_missing);
	zn_json_reserve(&j, ZN_JSON_END);
	whole = zn_json_list(&j, "outbound", '[', outbound_item, &s);
	whole &= zn_json_list(&j, "probes", '[', probe_item, &s);
	zn_json_end(&j, whole);
	return any && !late && !hangs && !stuck && !state->loading ? 200 : 503;
}
