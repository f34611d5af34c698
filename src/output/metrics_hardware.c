/* SPDX-License-Identifier: GPL-2.0 */
/* metrics_hardware.c: what metrics of the GPUs' own state, and of the node's energy, yield. What no source tells has no
 * series. */
#include "zernel.h"

static void device_series(struct zn_walk *w, const struct zn_device *d)
{
	zn_walk_series(w);
	zn_walk_label(w, "gpu_id", d->id);
	zn_walk_label(w, "uuid", d->now.uuid);
}

/* What a brief form leaves out: what harms nobody, and how warm the memory is. */
static bool is_minor(enum zn_figure f)
{
	return f == ZN_FIGURE_MEMORY_TEMPERATURE || f == ZN_FIGURE_ECC_CORRECTED || f == ZN_FIGURE_PCIE_CORRECTABLE;
}

static void put_figures(struct zn_walk *w, const struct zn_device *d, const struct zn_metric_figures *m)
{
	for (uint8_t i = 0; i < m->count; i++) {
		enum zn_figure f = (enum zn_figure)(m->first + i);

		if (!zn_reading_has(&d->now, f) ||
			(w->brief && (is_minor(f) || (f == ZN_FIGURE_LOST && !d->now.value[f]))))
			continue;
		device_series(w, d);
		if (m->label)
			zn_walk_label(w, m->label, m->name[i]);
		zn_walk_scaled(w, d->now.value[f], zn_figure_decimals(f));
	}
}

/* What drivers and the kernel count has been growing since before the daemon: since when is not known. */
void zn_metrics_hardware_figures(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	w->sample.since_ms = 0;
	for (uint32_t i = 0; h && i < h->count; i++)
		put_figures(w, &h->device[i], w->metric->arg);
}

void zn_metrics_hardware_link(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;
	bool width = *(const bool *)w->metric->arg;

	for (uint32_t i = 0; h && i < h->count; i++) {
		uint64_t ppm = zn_hardware_link(&h->device[i], width);

		if (ppm == ZN_NOT_KNOWN)
			continue;
		device_series(w, &h->device[i]);
		zn_walk_scaled(w, ppm, 6);
	}
}

void zn_metrics_hardware_throttled(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (uint32_t i = 0; h && i < h->count; i++)
		for (enum zn_throttle t = 0; h->device[i].throttle_known && t < ZN_THROTTLE_COUNT; t++) {
			if (w->brief && !h->device[i].throttled_ns[t])
				continue;
			device_series(w, &h->device[i]);
			zn_walk_label(w, "reason", zn_throttle_label(t));
			zn_walk_scaled(w, h->device[i].throttled_ns[t], 9);
		}
}

/* A source is named once, though its figures are many. */
static void put_sources(struct zn_walk *w, const struct zn_device *d)
{
	static const enum zn_figure parts[] = {0, ZN_FIGURE_LINK_SPEED, ZN_FIGURE_COUNT};

	for (enum zn_source s = 0; s < ZN_SOURCE_COUNT; s++)
		for (size_t part = 0; part + 1 < ZN_LEN(parts); part++) {
			bool any = false;

			if (s != ZN_SOURCE_SYS && part)
				continue;
			for (enum zn_figure f = parts[part]; f < parts[s == ZN_SOURCE_SYS ? part + 1 : 2]; f++)
				any |= zn_reading_has(&d->now, f) && d->from[f] == s;
			if (!any)
				continue;
			device_series(w, d);
			zn_walk_label(w, "source", zn_source_label(s, parts[part]));
			zn_walk_integer(w, 1);
		}
}

void zn_metrics_hardware_sources(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (uint32_t i = 0; h && i < h->count; i++)
		put_sources(w, &h->device[i]);
}

/* What NVML said of GPU i; NULL: it is none that is known. */
static const struct zn_device *device_said(const struct zn_hardware *h, uint32_t i)
{
	for (uint32_t k = 0; k < h->count; k++)
		if (h->device[k].nvml == i + 1)
			return &h->device[k];
	return NULL;
}

/* NULL: none is known. */
static const char *job_of_pid(struct zn_walk *w, uint32_t pid)
{
	const struct zn_proc *p;

	ZN_EACH_PROC(w, r, p)
	{
		if (p->tgid == pid)
			return w->state->jobs ? zn_job_id(w->state->jobs, p) : NULL;
	}
	return NULL;
}

void zn_metrics_hardware_processes(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (uint32_t i = 0; h && h->nvml_heard && i < h->nvml->processes; i++) {
		const struct zn_device *d = h->nvml->process[i].pid ? device_said(h, h->nvml->process[i].gpu) : NULL;
		char pid[12];

		if (!d)
			continue;
		snprintf(pid, sizeof(pid), "%u", h->nvml->process[i].pid);
		zn_walk_series(w);
		zn_walk_label(w, "pid", pid);
		zn_walk_label(w, "gpu_id", d->id);
		w->job_id = job_of_pid(w, h->nvml->process[i].pid);
		zn_walk_integer(w, h->nvml->process[i].bytes);
	}
}

void zn_metrics_hardware_instances(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (uint32_t i = 0; h && h->nvml_heard && i < h->nvml->instances; i++) {
		const struct zn_device *d = device_said(h, h->nvml->instance[i].gpu);

		for (int total = 0; d && h->nvml->instance[i].uuid[0] && total < 2; total++) {
			zn_walk_series(w);
			zn_walk_label(w, "gpu_id", h->nvml->instance[i].uuid);
			zn_walk_label(w, "of", d->id);
			zn_walk_label(w, "model", h->nvml->instance[i].model);
			zn_walk_label(w, "kind", total ? "total" : "used");
			zn_walk_integer(w, total ? h->nvml->instance[i].total_bytes : h->nvml->instance[i].used_bytes);
		}
	}
}

static void put_blocked(struct zn_walk *w, const char *file, uint64_t ns)
{
	zn_walk_series(w);
	zn_walk_label(w, "file", file);
	zn_walk_scaled(w, ns, 9);
}

void zn_metrics_hardware_blocked(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	if (h && h->blocked_ns)
		put_blocked(w, h->blocked, h->blocked_ns);
	if (h && h->nvml_heard && h->nvml->stale_ms)
		put_blocked(w, "nvml", h->nvml->stale_ms * ZN_NS_PER_MS);
}

void zn_metrics_hardware_nvml(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	if (h && h->nvml)
		zn_walk_one(w, h->nvml_heard && h->nvml->count, 0);
}

void zn_metrics_hardware_messages(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (int refused = 0; h && h->nvml_taken + h->nvml_refused && refused < 2; refused++) {
		zn_walk_series(w);
		zn_walk_label(w, "outcome", refused ? "refused" : "ok");
		zn_walk_integer(w, refused ? h->nvml_refused : h->nvml_taken);
	}
}

void zn_metrics_hardware_models(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (uint32_t i = 0; h && h->nvml_heard && i < h->count; i++) {
		const struct zn_device *d = &h->device[i];

		if (!d->nvml)
			continue;
		device_series(w, d);
		zn_walk_label(w, "model", h->nvml->model[d->nvml - 1]);
		zn_walk_label(w, "driver", h->nvml->driver);
		zn_walk_integer(w, 1);
	}
}

void zn_metrics_hardware_energy(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (enum zn_energy e = 0; h && e < ZN_ENERGY_COUNT; e++) {
		if (!(h->energy_known >> e & 1))
			continue;
		zn_walk_series(w);
		zn_walk_label(w, "part", zn_energy_label(e));
		zn_walk_scaled(w, h->energy_uj[e], 6);
	}
}

void zn_metrics_hardware_up(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	if (h && h->asked)
		zn_walk_one(w, h->scrape.up != 0, 0);
}

void zn_metrics_hardware_scrapes(struct zn_walk *w)
{
	const struct zn_hardware *h = w->state->hardware;

	for (enum zn_scrape_outcome o = 0; h && h->asked && o < ZN_SCRAPE_COUNT; o++) {
		zn_walk_series(w);
		zn_walk_label(w, "outcome", zn_scrape_label(o));
		zn_walk_integer(w, h->scrape.times[o]);
	}
}
