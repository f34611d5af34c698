/* SPDX-License-Identifier: GPL-2.0 */
/*
 * speedscope.c: what calls did by stack, in the file format of speedscope
 * (https://www.speedscope.app/file-format-schema.json): a profile for each cause, over frames that all share. A frame
 * is a function at a line.
 */
#include "zernel.h"

#include <string.h>

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"
#define PLACES (2 * ZN_STACKS_NODES) /* a power of two */

/* Numbers of frames in the file at hand. One at a time: the loop renders. */
static struct {
	uint32_t place[PLACES];                    /* node and 1, by function and line; 0: free */
	uint32_t frame_and_1[ZN_STACKS_NODES_ALL]; /* of a node; 0: not in the file */
	uint32_t frames;
} used;

/* Launches are told by how many there are, as in folded lines. */
static uint64_t weight_of(const struct zn_stacks_shown *s)
{
	return s->leaf == ZN_LEAF_LAUNCH ? s->sum.count : s->sum.value;
}

static const char *unit_of(uint32_t leaf)
{
	return leaf == ZN_LEAF_LAUNCH ? "none" : leaf == ZN_LEAF_ALLOC ? "bytes" : "nanoseconds";
}

static bool next_shown(const struct zn_state *state, const struct zn_stacks_query *q, uint32_t leaf, uint32_t *i,
	struct zn_stacks_shown *to)
{
	while (zn_stacks_shown(state->stacks, (*i)++, to))
		if (weight_of(to) && (leaf == ZN_LEAF_COUNT || leaf == to->leaf) &&
			(q->leaf == ZN_LEAF_COUNT || q->leaf == to->leaf) && zn_pprof_wants(state, q, to->root))
			return true;
	return false;
}

static void put_frame(struct zn_json *j, const struct zn_state *state, const struct zn_stacks_node *n)
{
	struct zn_stacks_function f = zn_stacks_function_at(state->stacks, n->function);

	zn_json_open(j, '{');
	zn_json_key(j, "name");
	zn_json_bytes(j, f.name.at, f.name.len);
	if (f.file.len) {
		zn_json_key(j, "file");
		zn_json_bytes(j, f.file.at, f.file.len);
	}
	if (n->line > 0)
		zn_json_key_u64(j, "line", (uint64_t)n->line);
	zn_json_close(j, '}');
}

/* The frame of a node, which is written if no other node has had it. */
static void number_frame(struct zn_json *j, const struct zn_state *state, uint32_t node)
{
	const struct zn_stacks_node *n = zn_stacks_node_at(state->stacks, node), *other;
	uint32_t at = (n->function * 2654435761u ^ (uint32_t)n->line * 40503u) >> 4;

	for (;; at++) {
		uint32_t *place = &used.place[at & (PLACES - 1)];

		if (!*place) {
			*place = node + 1;
			used.frame_and_1[node] = ++used.frames;
			put_frame(j, state, n);
			return;
		}
		other = zn_stacks_node_at(state->stacks, *place - 1);
		if (other->function == n->function && other->line == n->line) {
			used.frame_and_1[node] = used.frame_and_1[*place - 1];
			return;
		}
	}
}

static void put_frames(struct zn_json *j, const struct zn_state *state, const struct zn_stacks_query *q)
{
	struct zn_stacks_shown s;

	memset(&used, 0, sizeof(used));
	for (uint32_t i = 0; next_shown(state, q, ZN_LEAF_COUNT, &i, &s);)
		for (uint32_t n = s.example; n != ZN_STACKS_NO_NODE && !used.frame_and_1[n];
			n = zn_stacks_node_at(state->stacks, n)->parent)
			number_frame(j, state, n);
}

/* Outermost first. */
static void put_stack(struct zn_json *j, const struct zn_state *state, uint32_t node)
{
	uint32_t path[ZN_STACKS_DEPTH], depth = 0;

	for (uint32_t n = node; n != ZN_STACKS_NO_NODE && depth < ZN_STACKS_DEPTH;
		n = zn_stacks_node_at(state->stacks, n)->parent)
		path[depth++] = n;
	zn_json_open(j, '[');
	while (depth--)
		zn_json_u64(j, used.frame_and_1[path[depth]] - 1);
	zn_json_close(j, ']');
}

static void put_profile(struct zn_json *j, const struct zn_state *state, const struct zn_stacks_query *q, uint32_t leaf)
{
	struct zn_stacks_shown s;
	uint64_t all = 0;

	for (uint32_t i = 0; next_shown(state, q, leaf, &i, &s);)
		all += weight_of(&s);
	if (!all)
		return;
	zn_json_open(j, '{');
	zn_json_key_text(j, "type", "sampled");
	zn_json_key_text(j, "name", zn_leaf_label(leaf));
	zn_json_key_text(j, "unit", unit_of(leaf));
	zn_json_key_u64(j, "startValue", 0);
	zn_json_key_u64(j, "endValue", all);
	zn_json_key_open(j, "samples", '[');
	for (uint32_t i = 0; next_shown(state, q, leaf, &i, &s);)
		put_stack(j, state, s.example);
	zn_json_close(j, ']');
	zn_json_key_open(j, "weights", '[');
	for (uint32_t i = 0; next_shown(state, q, leaf, &i, &s);)
		zn_json_u64(j, weight_of(&s));
	zn_json_close(j, ']');
	zn_json_close(j, '}');
}

void zn_speedscope_json(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q)
{
	char exporter[32];
	struct zn_json j;

	snprintf(exporter, sizeof(exporter), "zerneld@%s", zn_version);
	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "$schema", SCHEMA);
	zn_json_key_text(&j, "exporter", exporter);
	zn_json_key_text(&j, "name", state->node);
	if (state->stacks) {
		zn_stacks_lock(state->stacks);
		zn_stacks_show(state->stacks, q->seconds, zn_now_ns());
	}
	zn_json_key_open(&j, "shared", '{');
	zn_json_key_open(&j, "frames", '[');
	if (state->stacks)
		put_frames(&j, state, q);
	zn_json_close(&j, ']');
	zn_json_close(&j, '}');
	zn_json_key_open(&j, "profiles", '[');
	for (uint32_t leaf = 0; state->stacks && leaf < ZN_LEAF_COUNT; leaf++)
		put_profile(&j, state, q, leaf);
	zn_json_close(&j, ']');
	zn_json_close(&j, '}');
	if (state->stacks)
		zn_stacks_unlock(state->stacks);
}
