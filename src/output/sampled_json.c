/* SPDX-License-Identifier: GPL-2.0 */
/* sampled_json.c: what is spared of a process or a server, as JSON. */
#include "zernel.h"

void zn_sampled_json(struct zn_json *j, const struct zn_agg *agg, uint32_t row, uint32_t id, uint64_t since_ns)
{
	const struct zn_spent *s = zn_spare_spent(agg->arena, row, id);

	if (!s)
		return;
	zn_json_key_open(j, "sampled", '{');
	for (enum zn_spare i = 0; i < ZN_SPARE_COUNT; i++) {
		if (!zn_spare_told(s, i))
			continue;
		zn_json_key_open(j, zn_spare_label(i), '{');
		zn_json_key_scaled(j, "now", zn_spare_now(s, i), 3);
		zn_json_key_scaled(
			j, "seen", zn_spare_seen(s, i, agg->tick_ns > since_ns ? agg->tick_ns - since_ns : 0), 3);
		zn_json_close(j, '}');
	}
	zn_json_close(j, '}');
}
