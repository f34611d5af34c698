/* SPDX-License-Identifier: GPL-2.0 */
/*
 * scenario.c: what is wrong on the simulated node at a moment, and with which rank. It follows from the scenario and
 * the time alone; sim.c makes the figures of it.
 */
#include "zernel.h"

#define STRAGGLER       3
#define CHECKPOINT_MS   6000
#define IDLE_GPU        3
#define LITTLE_EVERY_MS 2000
#define WRITES_EVERY_MS 20000
#define WRITES_MS       8000

/* Of scenarios: from when to when in the second half of a cycle. 0: to its end. */
static const struct {
	enum zn_scenario scenario;
	enum zn_still still;
	uint32_t from_s, to_s;
} stills[] = {
	{ZN_SCENARIO_HANG, ZN_STILL_ASLEEP, 0, 0},
	{ZN_SCENARIO_DRIVER, ZN_STILL_DRIVER, 0, 0},
	{ZN_SCENARIO_ALL_WAIT, ZN_STILL_ALL, 0, 0},
	{ZN_SCENARIO_STOPPED, ZN_STILL_STOPPED, 0, 0},
	{ZN_SCENARIO_NODE_HANG, ZN_STILL_NODE, 0, 0},
	{ZN_SCENARIO_NODE_HANG_PEER, ZN_STILL_PEER, 0, 0},
	{ZN_SCENARIO_PAUSES, ZN_STILL_CHECKPOINT, 0, 25},
	{ZN_SCENARIO_PAUSES, ZN_STILL_EVALUATION, 40, 100},
	{ZN_SCENARIO_PAUSES, ZN_STILL_COMPILE, 120, 210},
};

bool zn_scenario_straggles(const struct zn_sim *s, uint32_t rank)
{
	return rank == STRAGGLER && (s->phase == ZN_SCENARIO_MIXED || s->phase == ZN_SCENARIO_STRAGGLER);
}

bool zn_scenario_suffers(const struct zn_sim *s, uint32_t rank, enum zn_scenario from)
{
	return s->phase == from && rank >= ZN_SIM_JOB_RANKS;
}

enum zn_still zn_scenario_still(const struct zn_sim *s)
{
	uint64_t at_s = (s->elapsed_ms % s->cycle_ms - s->cycle_ms / 2) / 1000;

	for (size_t i = 0; i < ZN_LEN(stills); i++)
		if (stills[i].scenario == s->phase && at_s >= stills[i].from_s &&
			(!stills[i].to_s || at_s < stills[i].to_s))
			return stills[i].still;
	return ZN_STILL_NOT;
}

uint32_t zn_scenario_still_kind(const struct zn_sim *s, uint32_t rank)
{
	return rank < ZN_SIM_JOB_RANKS ? ZN_STILL_NOT : s->still;
}

uint32_t zn_scenario_ranks(const struct zn_sim *s)
{
	bool larger = s->scenario == ZN_SCENARIO_ALL_WAIT ||
		(s->scenario >= ZN_SCENARIO_NODE_SLOW && s->scenario <= ZN_SCENARIO_NODE_HANG_PEER);

	return larger ? 2 * ZN_SIM_JOB_RANKS : ZN_SIM_JOB_RANKS;
}

enum zn_scenario zn_scenario_phase(const struct zn_sim *s)
{
	bool good = s->scenario != ZN_SCENARIO_MIXED && s->elapsed_ms % s->cycle_ms < s->cycle_ms / 2;

	return good ? ZN_SCENARIO_HEALTHY : s->scenario;
}

static bool is_checkpointing(const struct zn_sim *s)
{
	return s->elapsed_ms >= ZN_SIM_CHECKPOINT_MS && s->elapsed_ms % ZN_SIM_CHECKPOINT_MS < CHECKPOINT_MS;
}

bool zn_scenario_writes(const struct zn_sim *s, uint32_t rank)
{
	return is_checkpointing(s) ||
		(zn_scenario_suffers(s, rank, ZN_SCENARIO_CHECKPOINTS) && s->elapsed_ms % WRITES_EVERY_MS < WRITES_MS);
}

bool zn_scenario_idles(const struct zn_sim *s, uint32_t rank)
{
	bool now = s->phase == ZN_SCENARIO_IDLE_GPU ||
		(s->phase == ZN_SCENARIO_NEARLY_IDLE && s->elapsed_ms % LITTLE_EVERY_MS);

	return now && rank / 2 == IDLE_GPU;
}
