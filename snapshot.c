/* SPDX-License-Identifier: GPL-2.0 */
/* The JSON views: the snapshot that every WebSocket client gets each tick, the alerts, and health. */
#include "zernel.h"
#include <string.h>

#define US 3 /* decimals from nanoseconds to microseconds, and to milliseconds */
#define MS 6

static void key_text(struct zn_json *j, const char *key, const char *text)
{
	zn_json_key(j, key);
	zn_json_text(j, text);
}

static void key_u64(struct zn_json *j, const char *key, uint64_t v)
{
	zn_json_key(j, key);
	zn_json_u64(j, v);
}

static void key_scaled(struct zn_json *j, const char *key, uint64_t v, int decimals)
{
	zn_json_key(j, key);
	zn_json_scaled(j, v, decimals);
}

/* A starred number of the contract: always there, 0.0 when there is nothing. */
static void key_decimal(struct zn_json *j, const char *key, uint64_t v, int decimals)
{
	zn_json_key(j, key);
	zn_json_decimal(j, v, decimals);
}

static void key_null(struct zn_json *j, const char *key)
{
	zn_json_key(j, key);
	zn_json_null(j);
}

static void key_bytes(struct zn_json *j, const char *key, const char *bytes, size_t cap)
{
	zn_json_key(j, key);
	zn_json_bytes(j, bytes, strnlen(bytes, cap));
}

static void open_at(struct zn_json *j, const char *key, char bracket)
{
	zn_json_key(j, key);
	zn_json_open(j, bracket);
}

static void utilization(struct zn_json *j, struct zn_agg *a)
{
	struct zn_share share[ZN_PROC_GPUS + 1];
	char key[80];

	open_at(j, "gpu_utilization", '[');
	for (uint32_t r = 0; r < a->row_count; r++) {
		size_t n = zn_agg_shares(a, a->row[r], share);

		for (size_t i = 0; i < n; i++) {
			if (!share[i].sum.peak_bytes)
				continue;
			snprintf(key, sizeof(key), "%u:%s", a->arena->procs[a->row[r]].tgid,
				a->gpus.gpu[share[i].gpu].id);
			zn_json_open(j, '{');
			key_text(j, "key", key);
			key_u64(j, "current_bytes", share[i].sum.used_bytes);
			key_u64(j, "peak_bytes", share[i].sum.peak_bytes);
			zn_json_close(j, '}');
		}
	}
	zn_json_close(j, ']');
}

static void starred(struct zn_json *j, struct zn_view *v)
{
	const struct zn_hist *h;

	utilization(j, v->agg);
	h = zn_agg_merge_live(v->agg, ZN_H_LAUNCH);
	key_decimal(j, "cuda_latency_p50_us", zn_hist_quantile(h, 500), US);
	key_decimal(j, "cuda_latency_p99_us", zn_hist_quantile(h, 990), US);
	h = zn_agg_merge_live(v->agg, ZN_H_NCCL_ALL_REDUCE);
	key_decimal(j, "nccl_allreduce_p50_ms", zn_hist_quantile(h, 500), MS);
	key_decimal(j, "nccl_allreduce_p99_ms", zn_hist_quantile(h, 990), MS);
	h = zn_agg_merge_live(v->agg, ZN_H_DATALOAD);
	key_decimal(j, "dataloader_wait_p50_ms", zn_hist_quantile(h, 500), MS);
	key_u64(j, "last_update_ms", zn_wall_ms());
}

static void gpus(struct zn_json *j, const struct zn_gpus *g)
{
	open_at(j, "gpus", '[');
	for (uint32_t i = 0; i < g->count; i++) {
		const struct zn_gpu *gpu = &g->gpu[i];

		if (!zn_gpu_shown(gpu))
			continue;
		zn_json_open(j, '{');
		key_text(j, "gpu_id", gpu->id);
		key_text(j, "uuid", gpu->uuid);
		key_text(j, "pci", gpu->pci);
		key_u64(j, "used_bytes", gpu->used_bytes);
		key_u64(j, "peak_bytes", gpu->peak_bytes);
		if (gpu->total_bytes)
			key_u64(j, "total_bytes", gpu->total_bytes);
		else
			key_null(j, "total_bytes");
		key_u64(j, "processes", gpu->processes);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void proc_gpus(struct zn_json *j, struct zn_agg *a, uint32_t row)
{
	struct zn_share share[ZN_PROC_GPUS + 1];
	size_t n = zn_agg_shares(a, row, share);

	open_at(j, "gpus", '[');
	for (size_t i = 0; i < n; i++) {
		zn_json_open(j, '{');
		key_text(j, "gpu_id", a->gpus.gpu[share[i].gpu].id);
		key_u64(j, "used_bytes", share[i].sum.used_bytes);
		key_u64(j, "peak_bytes", share[i].sum.peak_bytes);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static const struct zn_hist *hist_of(struct zn_agg *a, const struct zn_proc *p, enum zn_detail d)
{
	static const struct zn_hist none;
	const struct zn_hist *h = zn_arena_hist(a->arena, p->hist[d]);

	return h ? h : &none;
}

static void launch(struct zn_json *j, struct zn_agg *a, uint32_t row, const struct zn_proc *p)
{
	static const char *const kind[] = {"kernel", "graph", "cooperative", "captured"};
	const struct zn_hist *h = hist_of(a, p, ZN_H_LAUNCH);

	open_at(j, "launch", '{');
	key_u64(j, "count", zn_hist_count(h));
	key_scaled(j, "rate", a->info[row].launch_rate, 3);
	key_scaled(j, "p50_us", zn_hist_quantile(h, 500), US);
	key_scaled(j, "p99_us", zn_hist_quantile(h, 990), US);
	key_u64(j, "errors", p->count[ZN_C_LAUNCH_ERRORS]);
	for (uint32_t i = 0; i < ZN_LEN(kind); i++)
		key_u64(j, kind[i], p->count[ZN_C_LAUNCH_KERNEL + i]);
	zn_json_close(j, '}');
}

static void sync(struct zn_json *j, struct zn_agg *a, const struct zn_proc *p)
{
	struct zn_hist *all = &a->merged;

	memset(all, 0, sizeof(*all));
	for (enum zn_detail d = ZN_H_SYNC_STREAM; d <= ZN_H_SYNC_FREE; d++)
		if (p->hist[d])
			zn_hist_merge(all, hist_of(a, p, d));
	open_at(j, "sync", '{');
	key_u64(j, "count", zn_hist_count(all));
	key_scaled(j, "sum_ms", all->sum_ns, MS);
	key_scaled(j, "p50_us", zn_hist_quantile(all, 500), US);
	key_scaled(j, "p99_us", zn_hist_quantile(all, 990), US);
	zn_json_close(j, '}');
}

static void nccl_ops(struct zn_json *j, struct zn_agg *a, const struct zn_proc *p)
{
	open_at(j, "ops", '[');
	for (enum zn_detail d = ZN_H_NCCL_ALL_REDUCE; d <= ZN_H_NCCL_RECV; d++) {
		const struct zn_hist *h = hist_of(a, p, d);

		if (!h->calls)
			continue;
		zn_json_open(j, '{');
		key_text(j, "op", zn_detail_label(d));
		key_u64(j, "calls", h->calls);
		key_u64(j, "bytes", h->bytes);
		key_u64(j, "errors", h->errors);
		key_scaled(j, "p50_ms", zn_hist_quantile(h, 500), MS);
		key_scaled(j, "p99_ms", zn_hist_quantile(h, 990), MS);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void nccl_comms(struct zn_json *j, const struct zn_agg *a, uint32_t tgid)
{
	char hex[17];

	open_at(j, "comms", '[');
	for (size_t i = 0; i < a->comm_count; i++) {
		const struct zn_comm *c = &a->comms[i];
		struct zn_out o = {.at = hex, .cap = sizeof(hex)};

		if (c->tgid != tgid || c->rank == ZN_UNKNOWN || c->nranks == ZN_UNKNOWN || c->hash == 0)
			continue;
		zn_out_hex(&o, c->hash, 16);
		zn_json_open(j, '{');
		zn_json_key(j, "comm");
		zn_json_bytes(j, hex, o.len);
		key_u64(j, "rank", c->rank);
		key_u64(j, "nranks", c->nranks);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void nccl(struct zn_json *j, struct zn_agg *a, const struct zn_proc *p)
{
	uint64_t calls = 0, bytes = 0, errors = 0, ns = 0;

	for (enum zn_detail d = ZN_H_NCCL_ALL_REDUCE; d <= ZN_H_NCCL_RECV; d++) {
		const struct zn_hist *h = hist_of(a, p, d);

		calls += h->calls;
		bytes += h->bytes;
		errors += h->errors;
		ns += h->sum_ns;
	}
	open_at(j, "nccl", '{');
	key_u64(j, "calls", calls);
	key_u64(j, "bytes", bytes);
	key_u64(j, "errors", errors);
	key_scaled(j, "sum_ms", ns, MS);
	nccl_ops(j, a, p);
	nccl_comms(j, a, p->tgid);
	zn_json_close(j, '}');
}

static void dataloader(struct zn_json *j, struct zn_agg *a, const struct zn_proc *p)
{
	const struct zn_hist *h = hist_of(a, p, ZN_H_DATALOAD);

	if (!h->calls) {
		key_null(j, "dataloader");
		return;
	}
	open_at(j, "dataloader", '{');
	key_u64(j, "count", zn_hist_count(h));
	key_scaled(j, "p50_ms", zn_hist_quantile(h, 500), MS);
	key_scaled(j, "p99_ms", zn_hist_quantile(h, 990), MS);
	zn_json_close(j, '}');
}

static void process(struct zn_json *j, struct zn_agg *a, uint32_t row)
{
	const struct zn_proc *p = zn_arena_proc(a->arena, row);

	zn_json_open(j, '{');
	key_u64(j, "pid", p->tgid);
	key_bytes(j, "comm", a->info[row].comm, sizeof(a->info[row].comm));
	key_text(j, "job_id", "");
	proc_gpus(j, a, row);
	key_u64(j, "pinned_bytes", p->count[ZN_C_HOST_PINNED]);
	launch(j, a, row, p);
	sync(j, a, p);
	nccl(j, a, p);
	dataloader(j, a, p);
	key_null(j, "stalls");
	key_null(j, "signals");
	key_null(j, "io");
	zn_json_close(j, '}');
}

static void alerts(struct zn_json *j, const struct zn_alerts *a)
{
	open_at(j, "alerts", '[');
	for (uint32_t i = 0; i < a->count; i++) {
		const struct zn_alert *alert = &a->alert[i];

		zn_json_open(j, '{');
		key_text(j, "alert", alert->rule->name);
		key_text(j, "severity", alert->rule->severity);
		key_text(j, "state", zn_alert_state_label(alert->state));
		key_text(j, alert->rule->label_name, alert->label);
		zn_json_key(j, "value");
		zn_json_double(j, alert->value);
		zn_json_key(j, "threshold");
		zn_json_double(j, alert->rule->above);
		key_u64(j, "since_ms", alert->since_wall_ms);
		key_text(j, "summary", alert->rule->summary);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
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
	key_u64(f->json, "attached", attached);
	key_u64(f->json, "symbols", symbols);
	key_bytes(f->json, "why", lib->why, sizeof(lib->why));
	zn_json_close(f->json, '}');
}

static void family_state(struct zn_json *j, const struct zn_view *v, const struct family_libs *libs)
{
	const struct zn_probe *p = v->probe;
	const char *state = "attached", *why = "";
	enum zn_family f = libs->family;

	if (!p) {
		state = "simulated";
	} else if (!p->available[f]) {
		state = v->options->families >> f & 1 ? "unavailable" : "off";
		why = p->why[f];
	} else if (!libs->attached && libs->count) {
		state = "unavailable";
		why = "its functions could not be hooked in the libraries that are there";
	} else if (!libs->attached) {
		state = "waiting";
		why = f == ZN_FAM_NCCL ? "no process maps libnccl.so or librccl.so" : "no process maps libcuda.so";
	}
	key_text(j, "state", state);
	key_text(j, "why", why);
}

static void probes(struct zn_json *j, const struct zn_view *v)
{
	open_at(j, "probes", '[');
	for (enum zn_family f = 0; f < ZN_FAMILY_COUNT; f++) {
		struct family_libs libs = {.json = j, .probe = v->probe, .family = f};

		zn_json_open(j, '{');
		key_text(j, "family", zn_family_label(f));
		open_at(j, "libraries", '[');
		if (v->find)
			zn_find_visit(v->find, family_lib, &libs);
		zn_json_close(j, ']');
		family_state(j, v, &libs);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void losses(struct zn_json *j, const struct zn_view *v)
{
	open_at(j, "lost", '{');
	for (enum zn_loss i = 0; i < ZN_LOSS_COUNT; i++)
		key_u64(j, zn_loss_label(i), zn_view_lost(v, i));
	zn_json_close(j, '}');
}

static const char *source(const struct zn_view *v)
{
	return v->probe ? "live" : "simulated";
}

static uint64_t uptime_s(const struct zn_view *v)
{
	return (zn_now_ns() - v->start_ns) / ZN_NS_PER_S;
}

bool zn_snapshot_json(struct zn_out *o, struct zn_view *v, const struct zn_filter *filter)
{
	struct zn_json j;

	(void)filter;
	zn_agg_refresh(v->agg);
	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	starred(&j, v);
	key_text(&j, "node", v->node);
	key_text(&j, "source", source(v));
	key_text(&j, "version", zn_version);
	key_u64(&j, "uptime_s", uptime_s(v));
	key_u64(&j, "interval_ms", v->options->push_interval_ms);
	gpus(&j, &v->agg->gpus);
	open_at(&j, "processes", '[');
	for (uint32_t r = 0; r < v->agg->row_count; r++)
		process(&j, v->agg, v->agg->row[r]);
	zn_json_close(&j, ']');
	open_at(&j, "jobs", '[');
	zn_json_close(&j, ']');
	open_at(&j, "io", '[');
	zn_json_close(&j, ']');
	alerts(&j, v->alerts);
	probes(&j, v);
	losses(&j, v);
	zn_json_close(&j, '}');
	return true;
}

void zn_alerts_json(struct zn_out *o, struct zn_view *v)
{
	struct zn_json j;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	key_text(&j, "node", v->node);
	key_text(&j, "source", source(v));
	alerts(&j, v->alerts);
	zn_json_close(&j, '}');
}

#define FINDER_PATIENCE_NS (30 * ZN_NS_PER_S)

/* Unhealthy: live, but no family that was asked for can be had; or the ticks have stopped, or the
 * finder waits for a file system that does not answer. */
int zn_health_json(struct zn_out *o, struct zn_view *v)
{
	uint64_t late_ns = zn_now_ns() - (v->tick_ns ? v->tick_ns : v->start_ns);
	bool late = late_ns > 5 * ZN_NS_PER_S + v->options->push_interval_ms * ZN_NS_PER_MS;
	bool any = !v->probe || v->options->families == 0;
	uint64_t round_ns = v->find ? zn_find_round_ns(v->find) : 0; /* 0: it has not begun */
	bool stuck = round_ns && zn_now_ns() > round_ns + FINDER_PATIENCE_NS;
	struct zn_json j;

	for (enum zn_family f = 0; v->probe && f < ZN_FAMILY_COUNT; f++)
		any |= v->probe->available[f];
	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	key_text(&j, "status", late ? "stalled" : stuck ? "library finder stalled" : any ? "ok" : "no probes");
	key_text(&j, "node", v->node);
	key_text(&j, "source", source(v));
	key_text(&j, "version", zn_version);
	key_u64(&j, "uptime_s", uptime_s(v));
	probes(&j, v);
	zn_json_close(&j, '}');
	return any && !late && !stuck ? 200 : 503;
}
