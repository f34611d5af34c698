/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_gpu.c: what metrics of GPUs, of their drivers and of errors in the kernel's log yield. */
#include "zernel.h"

/* A field of struct zn_counter_rates, once a GPU's driver was called. */
void zn_metrics_gpu_calls(struct zn_walk *w)
{
	const struct zn_counter_rates *s = w->state->rates;

	if (s && s->gpu.busy_ns)
		zn_walk_one(w, *(const uint64_t *)((const char *)s + *(const size_t *)w->metric->arg), 9);
}

void zn_metrics_gpu_contention(struct zn_walk *w)
{
	uint64_t v = zn_rates_contention(w->state->rates);

	if (v != ZN_NOT_KNOWN)
		zn_walk_one(w, v, 6);
}

static void gpu_series(struct zn_walk *w, const struct zn_gpu *g)
{
	zn_walk_series(w);
	zn_walk_label(w, "gpu_id", g->id);
}

static void gpu_total(struct zn_walk *w, const struct zn_gpu *g)
{
	if (!g->total_bytes)
		return;
	gpu_series(w, g);
	zn_walk_integer(w, g->total_bytes);
}

static void gpu_ratio(struct zn_walk *w, const struct zn_gpu *g)
{
	if (!g->total_bytes || g->partial)
		return;
	gpu_series(w, g);
	zn_walk_scaled(w, (uint64_t)((__uint128_t)g->used_bytes * 1000000 / g->total_bytes), 6);
}

static void gpu_complete(struct zn_walk *w, const struct zn_gpu *g)
{
	gpu_series(w, g);
	zn_walk_integer(w, !g->partial);
}

static void gpu_info(struct zn_walk *w, const struct zn_gpu *g)
{
	gpu_series(w, g);
	zn_walk_label(w, "uuid", g->uuid);
	zn_walk_label(w, "pci", g->pci);
	if (g->minor >= 0)
		zn_walk_number(w, "minor", g->minor);
	else
		zn_walk_label(w, "minor", "");
	zn_walk_label(w, "vendor", zn_vendor_label(g->vendor));
	zn_walk_integer(w, 1);
}

static void each_gpu(struct zn_walk *w, void (*series)(struct zn_walk *w, const struct zn_gpu *g))
{
	const struct zn_gpus *gpus = &w->state->agg->gpus;

	for (uint32_t i = 0; i < gpus->count; i++)
		if (zn_gpu_shown(&gpus->gpu[i]) && !zn_gpu_unknown(&gpus->gpu[i]))
			series(w, &gpus->gpu[i]);
}

void zn_metrics_gpu_total(struct zn_walk *w)
{
	each_gpu(w, gpu_total);
}

void zn_metrics_gpu_ratio(struct zn_walk *w)
{
	each_gpu(w, gpu_ratio);
}

void zn_metrics_gpu_complete(struct zn_walk *w)
{
	each_gpu(w, gpu_complete);
}

void zn_metrics_gpu_info(struct zn_walk *w)
{
	each_gpu(w, gpu_info);
}

/* These series exist only where the log is read. */
void zn_metrics_gpu_log_records(struct zn_walk *w)
{
	const struct zn_xids *x = w->state->xids;

	if (!x || x->fd < 0)
		return;
	zn_walk_series(w);
	zn_walk_label(w, "from", "kernel");
	zn_walk_integer(w, x->kernel);
	zn_walk_series(w);
	zn_walk_label(w, "from", "others");
	zn_walk_integer(w, x->other);
}

void zn_metrics_gpu_xids(struct zn_walk *w)
{
	const struct zn_xids *x = w->state->xids;

	for (uint32_t i = 0; x && i < x->count; i++) {
		if (x->xid[i].amdgpu)
			continue;
		w->sample.since_ms = zn_state_wall_ms(w->state, x->xid[i].since_ns);
		zn_walk_series(w);
		zn_walk_label(w, "pci", x->xid[i].pci);
		zn_walk_number(w, "xid", x->xid[i].xid);
		if (x->xid[i].nonfatal)
			zn_walk_label(w, "nonfatal", "yes");
		zn_walk_integer(w, x->xid[i].times);
	}
}

/* One series for each number of a GPU: the last one. */
void zn_metrics_gpu_xid_last(struct zn_walk *w)
{
	const struct zn_xids *x = w->state->xids;

	for (uint32_t i = 0; x && i < x->count; i++) {
		const struct zn_xid *e = &x->xid[i];
		const struct zn_xid_about *about = zn_xid_about(e->xid, e->nonfatal);

		if (e->amdgpu)
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "pci", e->pci);
		zn_walk_number(w, "xid", e->xid);
		zn_walk_label(w, "class", about ? about->class : "");
		zn_walk_label(w, "severity", about ? about->severity : "");
		if (e->pid)
			zn_walk_number(w, "pid", e->pid);
		else
			zn_walk_label(w, "pid", "");
		zn_walk_label(w, "command", e->command);
		zn_walk_label(w, "job_id", e->job);
		zn_walk_scaled(w, zn_state_wall_ms(w->state, e->last_ns), 3);
	}
}

void zn_metrics_gpu_amdgpu_errors(struct zn_walk *w)
{
	const struct zn_xids *x = w->state->xids;

	for (uint32_t i = 0; x && i < x->count; i++) {
		if (!x->xid[i].amdgpu)
			continue;
		w->sample.since_ms = zn_state_wall_ms(w->state, x->xid[i].since_ns);
		zn_walk_series(w);
		zn_walk_label(w, "pci", x->xid[i].pci);
		zn_walk_label(w, "error", zn_amdgpu_label(x->xid[i].amdgpu));
		zn_walk_integer(w, x->xid[i].times);
	}
}
