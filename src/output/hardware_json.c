/* SPDX-License-Identifier: GPL-2.0 */
/* hardware_json.c: the state of a GPU itself as JSON: an object of the figures that a source tells, by their names. */
#include "zernel.h"

static void put_throttled(struct zn_json *j, const struct zn_device *d)
{
	zn_json_key_open(j, "throttled_s", '{');
	for (enum zn_throttle t = 0; t < ZN_THROTTLE_COUNT; t++) {
		zn_json_key(j, zn_throttle_label(t));
		zn_json_decimal(j, d->throttled_ns[t], 9);
	}
	zn_json_close(j, '}');
	zn_json_key_open(j, "throttled_by", '[');
	for (enum zn_throttle t = 0; t < ZN_THROTTLE_COUNT; t++)
		if (zn_reading_has(&d->now, ZN_FIGURE_THROTTLE) && d->now.value[ZN_FIGURE_THROTTLE] >> t & 1)
			zn_json_text(j, zn_throttle_label(t));
	zn_json_close(j, ']');
}

static void put_ratio(struct zn_json *j, const char *key, uint64_t ppm)
{
	if (ppm == ZN_NOT_KNOWN)
		return;
	zn_json_key(j, key);
	zn_json_decimal(j, ppm, 6);
}

void zn_hardware_json(struct zn_json *j, const struct zn_device *d)
{
	zn_json_key_open(j, "device", '{');
	for (enum zn_figure f = 0; d && f < ZN_FIGURE_COUNT; f++)
		if (f != ZN_FIGURE_THROTTLE && zn_reading_has(&d->now, f)) {
			zn_json_key(j, zn_figure_name(f));
			zn_json_decimal(j, d->now.value[f], zn_figure_decimals(f));
		}
	if (d) {
		put_ratio(j, "link_ratio", zn_hardware_link(d, false));
		put_ratio(j, "link_width_ratio", zn_hardware_link(d, true));
	}
	if (d && d->throttle_known)
		put_throttled(j, d);
	zn_json_close(j, '}');
}

bool zn_hardware_json_item(struct zn_json *j, const struct zn_hardware *h, uint32_t i)
{
	static const char *const unknown[] = {
		"used_bytes", "peak_bytes", "total_bytes", "processes", "memory_complete"};
	const struct zn_device *d = NULL;

	for (uint32_t at = 0; h && at < h->count && !d; at++)
		if (!h->device[at].listed && i-- == 0)
			d = &h->device[at];
	if (!d)
		return false;
	zn_json_open(j, '{');
	zn_json_key_text(j, "gpu_id", d->id);
	zn_json_key_text(j, "uuid", d->now.uuid);
	zn_json_key_text(j, "pci", d->now.pci);
	for (size_t k = 0; k < ZN_LEN(unknown); k++)
		zn_json_key_null(j, unknown[k]);
	zn_hardware_json(j, d);
	zn_json_close(j, '}');
	return true;
}

void zn_hardware_json_energy(struct zn_json *j, const struct zn_hardware *h)
{
	if (!h)
		return;
	zn_json_key_open(j, "energy_joules", '{');
	for (enum zn_energy e = 0; e < ZN_ENERGY_COUNT; e++)
		if (h->energy_known >> e & 1) {
			zn_json_key(j, zn_energy_label(e));
			zn_json_decimal(j, h->energy_uj[e], 6);
		}
	zn_json_close(j, '}');
}
