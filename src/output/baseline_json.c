/* SPDX-License-Identifier: GPL-2.0 */
/*
 * baseline_json.c: which figures of a process are unusual, as JSON.
 */
#include "zernel.h"

#include <stdlib.h>

#define ONE 1000 /* of scores */

void zn_baselines_json(struct zn_json *j, const struct zn_state *state, uint32_t row, uint32_t id)
{
	bool any = false;
	int32_t s;

	for (uint32_t i = 0; i < ZN_BASELINES; i++)
		any |= zn_baselines_score(state->baselines, row, id, i) != ZN_SCORE_NONE;
	if (!any) {
		zn_json_key_null(j, "anomalies");
		return;
	}
	zn_json_key_open(j, "anomalies", '{');
	for (uint32_t i = 0; i < ZN_BASELINES; i++) {
		s = zn_baselines_score(state->baselines, row, id, i);
		if (s == ZN_SCORE_NONE || abs(s) <= ZN_ANOMALY_LIMIT * ONE)
			continue;
		zn_json_key(j, zn_baseline_name(i));
		zn_json_double(j, s / 1e3);
	}
	zn_json_close(j, '}');
}
