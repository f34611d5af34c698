/* SPDX-License-Identifier: GPL-2.0 */
/*
 * hardware.c: the state of the GPUs themselves, whoever tells it: /sys, a dcgm-exporter, the companion zernel-gpu. Of
 * each figure the best source that is not silent is shown; what none tells is absent.
 *
 * Sources differ in age: a count that a DCGM exporter tells may be a minute older than NVML's. A count never falls
 * because another source tells it, only where one source itself has gone back, as after a reset.
 *
 * Limits: for how long a GPU was throttled is a sum over looks at whether it is.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "zernel.h"

/* So long after its last word a source is silent. */
static const uint64_t silent_ns[ZN_SOURCE_COUNT] = {
	[ZN_SOURCE_NVML] = 6 * ZN_NS_PER_S, [ZN_SOURCE_DCGM] = 50 * ZN_NS_PER_S, [ZN_SOURCE_SYS] = 10 * ZN_NS_PER_S};

#define FIGURE(f) (1ULL << ZN_FIGURE_##f)
/* Figures that only grow, until the driver is loaded anew or the GPU is reset. */
static const uint64_t counts = FIGURE(ENERGY) | FIGURE(ECC_CORRECTED) | FIGURE(ECC_UNCORRECTED) | FIGURE(NVLINK_SENT) |
	FIGURE(NVLINK_RECEIVED) | FIGURE(PCIE_REPLAYS) | FIGURE(PCIE_CORRECTABLE) | FIGURE(PCIE_NONFATAL) |
	FIGURE(PCIE_FATAL);

const char *zn_throttle_label(enum zn_throttle t)
{
	static const char *const labels[] = {
#define X(e, name) name,
		ZN_THROTTLES(X)
#undef X
	};

	return labels[t];
}

const char *zn_energy_label(enum zn_energy e)
{
	static const char *const labels[] = {
#define X(e, name) name,
		ZN_ENERGIES(X)
#undef X
			"gpu",
	};

	return labels[e];
}

const char *zn_source_label(enum zn_source s, enum zn_figure f)
{
	static const char *const labels[] = {[ZN_SOURCE_NVML] = "nvml", [ZN_SOURCE_DCGM] = "dcgm"};

	return s != ZN_SOURCE_SYS ? labels[s] : f < ZN_FIGURE_LINK_SPEED ? "drm" : "sysfs";
}

static bool same_text(const char *a, const char *b)
{
	return a[0] && !strcasecmp(a, b);
}

/* An address decides, where both have one. */
static bool is_device(const struct zn_device *d, const struct zn_reading *r)
{
	if (d->now.pci[0] && r->pci[0])
		return same_text(d->now.pci, r->pci);
	return same_text(d->now.uuid, r->uuid);
}

static struct zn_device *device_of(struct zn_hardware *h, const struct zn_reading *r)
{
	for (uint32_t i = 0; i < h->count; i++)
		if (is_device(&h->device[i], r))
			return &h->device[i];
	return NULL;
}

/* What the drivers' lists say of it; the first process that uses a GPU may wake it, and then it has a UUID. */
static void name_device(const struct zn_hardware *h, struct zn_device *d)
{
	const struct zn_gpus *g = h->gpus;

	d->listed = false;
	for (uint32_t i = 0; i < g->count && !d->listed; i++) {
		const struct zn_gpu *gpu = &g->gpu[i];

		if (!same_text(gpu->pci, d->now.pci))
			continue;
		d->listed = true;
		snprintf(d->id, sizeof(d->id), "%s", gpu->id);
		if (gpu->uuid[0])
			memcpy(d->now.uuid, gpu->uuid, sizeof(d->now.uuid));
	}
	if (!d->listed)
		snprintf(d->id, sizeof(d->id), "%s", d->now.pci);
}

static struct zn_device *add_device(struct zn_hardware *h, const struct zn_reading *r)
{
	struct zn_device *d = h->count < ZN_GPUS_MAX && r->pci[0] ? &h->device[h->count++] : NULL;

	if (d) {
		*d = (struct zn_device){0};
		memcpy(d->now.pci, r->pci, sizeof(d->now.pci));
		name_device(h, d);
	}
	return d;
}

void zn_hardware_init(struct zn_hardware *h, const struct zn_gpus *gpus)
{
	h->gpus = gpus;
}

/* Counts of which a source says less than it did before. */
static uint64_t fallen_counts(const struct zn_reading *before, const struct zn_reading *now)
{
	uint64_t both = before->known & now->known & counts, fell = 0;

	for (enum zn_figure f = 0; f < ZN_FIGURE_COUNT; f++)
		if (both >> f & 1 && now->value[f] < before->value[f])
			fell |= 1ULL << f;
	return fell;
}

bool zn_hardware_take(struct zn_hardware *h, enum zn_source s, const struct zn_reading *r, uint64_t now_ns)
{
	struct zn_device *d = device_of(h, r);

	if (!d && s == ZN_SOURCE_SYS)
		d = add_device(h, r);
	if (!d)
		return false;
	d->by[s].at_ns = now_ns;
	d->by[s].fell |= fallen_counts(&d->by[s].reading, r);
	d->by[s].reading = *r;
	d->by[s].reading.known &= (1ULL << ZN_FIGURE_COUNT) - 1;
	if (r->uuid[0] && !d->now.uuid[0])
		memcpy(d->now.uuid, r->uuid, sizeof(d->now.uuid));
	return true;
}

/* One that is lost says nothing of itself, whoever repeats what it said before: what is left is the bus's word. */
static void tell_lost(struct zn_device *d, enum zn_source from)
{
	d->now.known &= ~((1ULL << ZN_FIGURE_LINK_SPEED) - 1);
	zn_reading_set(&d->now, ZN_FIGURE_LOST, 1);
	d->from[ZN_FIGURE_LOST] = from;
	d->sources |= 1ULL << from;
}

static bool is_audible(const struct zn_device *d, enum zn_source s, uint64_t now_ns)
{
	return d->by[s].at_ns && now_ns - d->by[s].at_ns <= silent_ns[s];
}

static bool is_lost(const struct zn_reading *r)
{
	return zn_reading_has(r, ZN_FIGURE_LOST) && r->value[ZN_FIGURE_LOST];
}

/* NVML, which has told of it, tells of others alone, though the kernel's driver still has it. */
static bool is_missed(const struct zn_hardware *h, const struct zn_device *d, uint64_t now_ns)
{
	return h->nvml_heard && h->nvml->count && d->nvml_knew && !d->nvml && is_audible(d, ZN_SOURCE_SYS, now_ns) &&
		d->by[ZN_SOURCE_SYS].reading.known;
}

/* Who was away from the kernel's driver has to be told of by NVML again before its silence says anything. */
static void forget_nvml(struct zn_device *d, uint64_t now_ns)
{
	if (is_audible(d, ZN_SOURCE_SYS, now_ns) && !(d->by[ZN_SOURCE_SYS].reading.known & ~(1ULL << ZN_FIGURE_LOST)))
		d->nvml_knew = false;
}

/* Any source's word is enough. */
static void choose_lost(const struct zn_hardware *h, struct zn_device *d, uint64_t now_ns)
{
	for (enum zn_source s = 0; s < ZN_SOURCE_COUNT; s++)
		if (is_audible(d, s, now_ns) && is_lost(&d->by[s].reading)) {
			tell_lost(d, s);
			return;
		}
	if (is_missed(h, d, now_ns))
		tell_lost(d, ZN_SOURCE_NVML);
}

/* A count that another source than the one it was last taken from tells lower is older, and what was shown stays. */
static void show_figure(struct zn_device *d, enum zn_source s, enum zn_figure f, uint64_t v)
{
	bool older = d->counted >> f & 1 && d->from[f] != s && v < d->now.value[f] && !(d->by[s].fell >> f & 1);

	zn_reading_set(&d->now, f, older ? d->now.value[f] : v);
	d->from[f] = older ? d->from[f] : s;
	d->counted |= counts & 1ULL << f;
}

/* From the best source to the worst. */
static void choose_figures(struct zn_device *d, uint64_t now_ns)
{
	d->now.known = d->sources = 0;
	for (enum zn_source s = 0; s < ZN_SOURCE_COUNT; s++) {
		const struct zn_reading *r = &d->by[s].reading;

		if (!is_audible(d, s, now_ns))
			continue;
		for (enum zn_figure f = 0; f < ZN_FIGURE_COUNT; f++)
			if (zn_reading_has(r, f) && !zn_reading_has(&d->now, f))
				show_figure(d, s, f, r->value[f]);
		if (r->known)
			d->sources |= 1ULL << s;
		d->by[s].fell = 0;
	}
}

static void add_throttled(struct zn_device *d, uint64_t ns)
{
	if (!zn_reading_has(&d->now, ZN_FIGURE_THROTTLE))
		return;
	d->throttle_known = true;
	for (enum zn_throttle t = 0; t < ZN_THROTTLE_COUNT; t++)
		if (d->now.value[ZN_FIGURE_THROTTLE] >> t & 1)
			d->throttled_ns[t] += ns;
}

void zn_hardware_scraped(struct zn_hardware *h, const struct zn_scrape_done *from,
	bool (*copy)(struct zn_scrape_done *to, const struct zn_scrape_done *from), uint64_t now_ns)
{
	struct zn_scrape_done *s = &h->scrape;
	uint64_t before = s->version;

	h->asked = true;
	if (!copy(s, from) || s->version == before || !s->up)
		return;
	for (uint32_t i = 0; i < s->count && i < ZN_GPUS_MAX; i++) {
		s->reading[i].pci[sizeof(s->reading[i].pci) - 1] = 0;
		s->reading[i].uuid[sizeof(s->reading[i].uuid) - 1] = 0;
		zn_hardware_take(h, ZN_SOURCE_DCGM, &s->reading[i], now_ns);
	}
}

/* What it said before holds no more: a library that does not answer says nothing of any GPU. */
void zn_hardware_heard(struct zn_hardware *h, const struct zn_nvml_said *said, uint64_t now_ns)
{
	h->nvml = said;
	h->nvml_ns = now_ns;
	for (uint32_t i = 0; i < h->count; i++)
		h->device[i].nvml = 0, h->device[i].by[ZN_SOURCE_NVML].at_ns = 0;
	for (uint32_t i = 0; i < said->count; i++) {
		struct zn_device *d = device_of(h, &said->reading[i]);

		if (d && zn_hardware_take(h, ZN_SOURCE_NVML, &said->reading[i], now_ns))
			d->nvml = i + 1, d->nvml_knew = true;
	}
}

void zn_hardware_tick(struct zn_hardware *h, uint64_t now_ns)
{
	uint64_t past_ns = h->tick_ns ? now_ns - h->tick_ns : 0;

	h->nvml_heard = h->nvml && now_ns - h->nvml_ns <= silent_ns[ZN_SOURCE_NVML];
	for (uint32_t i = 0; i < h->count; i++) {
		struct zn_device *d = &h->device[i];

		name_device(h, d);
		choose_figures(d, now_ns);
		forget_nvml(d, now_ns);
		choose_lost(h, d, now_ns);
		add_throttled(d, past_ns);
	}
	h->tick_ns = now_ns;
}

uint64_t zn_hardware_link(const struct zn_device *d, bool width)
{
	const uint64_t *v = d->now.value, need = 1ULL << ZN_FIGURE_LINK_WIDTH | 1ULL << ZN_FIGURE_LINK_WIDTH_MAX,
		       speeds = 1ULL << ZN_FIGURE_LINK_SPEED | 1ULL << ZN_FIGURE_LINK_SPEED_MAX;
	uint64_t part = v[ZN_FIGURE_LINK_WIDTH], whole = v[ZN_FIGURE_LINK_WIDTH_MAX];

	if ((d->now.known & need) != need || (!width && (d->now.known & speeds) != speeds))
		return ZN_NOT_KNOWN;
	if (!width)
		part *= v[ZN_FIGURE_LINK_SPEED], whole *= v[ZN_FIGURE_LINK_SPEED_MAX];
	return whole ? part * 1000000 / whole : ZN_NOT_KNOWN;
}

uint32_t zn_hardware_named(const struct zn_hardware *h, const char *id)
{
	for (uint32_t i = 0; i < h->count; i++)
		if (!strcmp(h->device[i].id, id) || same_text(h->device[i].now.uuid, id))
			return i;
	return ZN_GPUS_MAX;
}

const struct zn_device *zn_hardware_of(const struct zn_hardware *h, const struct zn_gpu *gpu)
{
	for (uint32_t i = 0; h && i < h->count; i++)
		if (same_text(h->device[i].now.pci, gpu->pci))
			return &h->device[i];
	return NULL;
}
