/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pprof.c: what calls did by stack, as a profile that `go tool pprof` and the like read
 * (https://github.com/google/pprof/blob/main/proto/profile.proto), and as folded lines for flame graphs. A sample is a
 * stack and a cause; it has a value for each cause's calls and for their time or bytes, and only those of its own are
 * not 0.
 */
#include <string.h>

#include "zernel.h"

enum {
	PROFILE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_LOCATION = 4,
	PROFILE_FUNCTION,
	PROFILE_STRING,
	PROFILE_TIME = 9,
	PROFILE_DURATION,
	PROFILE_DEFAULT = 14
};
enum { SAMPLE_LOCATIONS = 1, SAMPLE_VALUES, SAMPLE_LABEL };

/* Texts that each profile has, in the order of their numbers; "" is the first by definition. */
static const char *const words[] = {"", "count", "nanoseconds", "bytes", "pid", "job_id", "comm"};
enum { WORD_COUNT_ = 1, WORD_NS, WORD_BYTES, WORD_PID, WORD_JOB, WORD_COMM, WORDS };

static const struct {
	const char *calls, *value;
	uint32_t unit;
} types[ZN_LEAF_COUNT] = {
#define X(e, label, unit, ...) [ZN_LEAF_##e] = {label "_calls", label, WORD_##unit},
	ZN_LEAVES(X)
#undef X
};

/* What is in the profile at hand, and which number its first text has. One at a time: the loop renders. */
static struct {
	bool node[ZN_STACKS_NODES_ALL], function[ZN_STACKS_FUNCTIONS], root[ZN_STACKS_ROOTS], no_room;
	uint32_t function_text[ZN_STACKS_FUNCTIONS], root_text[ZN_STACKS_ROOTS], no_room_text, texts;
} used;

bool zn_pprof_wants(const struct zn_state *state, const struct zn_stacks_query *q, uint32_t root)
{
	const struct zn_stacks_root *r = zn_stacks_root_at(state->stacks, root);
	const struct zn_job *job;

	if (!r || (q->pid && (q->pid != r->pid || r->pid_reused)) || (q->no_job && r->job.serial))
		return false;
	if (!q->job[0])
		return true;
	job = state->jobs && r->job.serial ? zn_jobs_at(state->jobs, r->job) : NULL;
	return job && !strcmp(job->id, q->job);
}

static bool next_shown(
	const struct zn_state *state, const struct zn_stacks_query *q, uint32_t *i, struct zn_stacks_shown *to)
{
	while (zn_stacks_shown(state->stacks, (*i)++, to))
		if ((to->sum.count || to->sum.value) && (q->leaf == ZN_LEAF_COUNT || q->leaf == to->leaf) &&
			zn_pprof_wants(state, q, to->root))
			return true;
	return false;
}

static void mark_stack(const struct zn_state *state, uint32_t node)
{
	while (node != ZN_STACKS_NO_NODE && !used.node[node]) {
		const struct zn_stacks_node *n = zn_stacks_node_at(state->stacks, node);

		used.node[node] = true;
		if (n->function == ZN_STACKS_NO_FUNCTION)
			used.no_room = true;
		else
			used.function[n->function] = true;
		node = n->parent;
	}
}

static void number_texts(void)
{
	used.texts = WORDS + 2 * ZN_LEAF_COUNT;
	for (uint32_t i = 0; i < ZN_STACKS_FUNCTIONS; i++)
		if (used.function[i]) {
			used.function_text[i] = used.texts;
			used.texts += 2;
		}
	used.no_room_text = used.texts;
	used.texts += used.no_room ? 2 : 0;
	for (uint32_t i = 0; i < ZN_STACKS_ROOTS; i++)
		if (used.root[i]) {
			used.root_text[i] = used.texts;
			used.texts += 3;
		}
}

static void put_type(struct zn_out *o, uint32_t text, uint32_t unit)
{
	size_t mark = zn_protobuf_open(o, PROFILE_TYPE);

	zn_protobuf_u64(o, 1, text);
	zn_protobuf_u64(o, 2, unit);
	zn_protobuf_close(o, mark);
}

static void put_label(struct zn_out *o, uint32_t key, uint32_t text)
{
	size_t mark = zn_protobuf_open(o, SAMPLE_LABEL);

	zn_protobuf_u64(o, 1, key);
	zn_protobuf_u64(o, 2, text);
	zn_protobuf_close(o, mark);
}

static void put_sample(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_shown *s)
{
	size_t mark = zn_protobuf_open(o, PROFILE_SAMPLE), part = zn_protobuf_open(o, SAMPLE_LOCATIONS);

	for (uint32_t n = s->example; n != ZN_STACKS_NO_NODE; n = zn_stacks_node_at(state->stacks, n)->parent)
		zn_protobuf_put(o, n + 1);
	zn_protobuf_close(o, part);
	part = zn_protobuf_open(o, SAMPLE_VALUES);
	for (uint32_t leaf = 0; leaf < ZN_LEAF_COUNT; leaf++) {
		zn_protobuf_put(o, leaf == s->leaf ? s->sum.count : 0);
		zn_protobuf_put(o, leaf == s->leaf ? s->sum.value : 0);
	}
	zn_protobuf_close(o, part);
	put_label(o, WORD_PID, used.root_text[s->root]);
	put_label(o, WORD_COMM, used.root_text[s->root] + 1);
	if (zn_stacks_root_at(state->stacks, s->root)->job.serial)
		put_label(o, WORD_JOB, used.root_text[s->root] + 2);
	zn_protobuf_close(o, mark);
}

static void put_location(struct zn_out *o, const struct zn_stacks_node *n, uint32_t i)
{
	size_t mark = zn_protobuf_open(o, PROFILE_LOCATION), line;

	zn_protobuf_u64(o, 1, i + 1);
	line = zn_protobuf_open(o, 4);
	zn_protobuf_u64(o, 1, n->function == ZN_STACKS_NO_FUNCTION ? ZN_STACKS_FUNCTIONS + 1 : n->function + 1);
	if (n->line > 0)
		zn_protobuf_u64(o, 2, (uint64_t)n->line);
	zn_protobuf_close(o, line);
	zn_protobuf_close(o, mark);
}

static void put_function(struct zn_out *o, uint32_t id, uint32_t text, int first)
{
	size_t mark = zn_protobuf_open(o, PROFILE_FUNCTION);

	zn_protobuf_u64(o, 1, id);
	zn_protobuf_u64(o, 2, text);
	zn_protobuf_u64(o, 4, text + 1);
	if (first > 0)
		zn_protobuf_u64(o, 5, (uint64_t)first);
	zn_protobuf_close(o, mark);
}

static void put_root_texts(struct zn_out *o, const struct zn_state *state, uint32_t root)
{
	const struct zn_stacks_root *r = zn_stacks_root_at(state->stacks, root);
	const struct zn_job *job = state->jobs && r->job.serial ? zn_jobs_at(state->jobs, r->job) : NULL;
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", r->pid);
	zn_protobuf_word(o, PROFILE_STRING, pid);
	zn_protobuf_text(o, PROFILE_STRING, (struct zn_str){r->comm, strnlen(r->comm, sizeof(r->comm))});
	zn_protobuf_word(o, PROFILE_STRING, job ? job->id : "");
}

/* In the order of number_texts(). */
static void put_texts(struct zn_out *o, const struct zn_state *state)
{
	for (size_t i = 0; i < WORDS; i++)
		zn_protobuf_word(o, PROFILE_STRING, words[i]);
	for (size_t i = 0; i < ZN_LEAF_COUNT; i++) {
		zn_protobuf_word(o, PROFILE_STRING, types[i].calls);
		zn_protobuf_word(o, PROFILE_STRING, types[i].value);
	}
	for (uint32_t i = 0; i < ZN_STACKS_FUNCTIONS; i++)
		if (used.function[i]) {
			struct zn_stacks_function f = zn_stacks_function_at(state->stacks, i);

			zn_protobuf_text(o, PROFILE_STRING, f.name);
			zn_protobuf_text(o, PROFILE_STRING, f.file);
		}
	if (used.no_room) {
		zn_protobuf_word(o, PROFILE_STRING, "(no room)");
		zn_protobuf_word(o, PROFILE_STRING, "");
	}
	for (uint32_t i = 0; i < ZN_STACKS_ROOTS; i++)
		if (used.root[i])
			put_root_texts(o, state, i);
}

static void put_places(struct zn_out *o, const struct zn_state *state)
{
	for (uint32_t i = 0; i < ZN_STACKS_NODES_ALL; i++)
		if (used.node[i])
			put_location(o, zn_stacks_node_at(state->stacks, i), i);
	for (uint32_t i = 0; i < ZN_STACKS_FUNCTIONS; i++)
		if (used.function[i])
			put_function(o, i + 1, used.function_text[i], zn_stacks_function_at(state->stacks, i).first);
	if (used.no_room)
		put_function(o, ZN_STACKS_FUNCTIONS + 1, used.no_room_text, 0);
}

static void put_profile(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q)
{
	uint64_t now_ns = zn_now_ns(), span_ns = zn_stacks_show(state->stacks, q->seconds, now_ns);
	struct zn_stacks_shown s;

	memset(&used, 0, sizeof(used));
	for (uint32_t i = 0; next_shown(state, q, &i, &s);) {
		used.root[s.root] = true;
		mark_stack(state, s.example);
	}
	number_texts();
	for (uint32_t leaf = 0; leaf < ZN_LEAF_COUNT; leaf++) {
		put_type(o, WORDS + 2 * leaf, WORD_COUNT_);
		put_type(o, WORDS + 2 * leaf + 1, types[leaf].unit);
	}
	for (uint32_t i = 0; next_shown(state, q, &i, &s);)
		put_sample(o, state, &s);
	put_places(o, state);
	put_texts(o, state);
	zn_protobuf_u64(o, PROFILE_TIME, (zn_wall_ms() * ZN_NS_PER_MS) - span_ns);
	zn_protobuf_u64(o, PROFILE_DURATION, span_ns);
	zn_protobuf_u64(o, PROFILE_DEFAULT, WORDS + 2 * ZN_LEAF_GPU + 1);
}

void zn_pprof_profile(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q)
{
	if (!state->stacks) { /* an empty profile has its string "" */
		zn_protobuf_word(o, PROFILE_STRING, "");
		return;
	}
	zn_stacks_lock(state->stacks);
	put_profile(o, state, q);
	zn_stacks_unlock(state->stacks);
}

/* ---- Folded lines. ---- */

/* What separates frames, or lines, is no part of one. */
static void put_plain(struct zn_out *o, struct zn_str text)
{
	for (size_t i = 0; i < text.len; i++)
		zn_out_char(o, text.at[i] == ';' ? ':' : (unsigned char)text.at[i] < ' ' ? '?' : text.at[i]);
}

static void put_frame(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_node *n)
{
	struct zn_stacks_function f = zn_stacks_function_at(state->stacks, n->function);

	put_plain(o, f.name);
	if (!f.file.len)
		return;
	zn_out_text(o, " (");
	put_plain(o, f.file);
	if (n->line > 0) {
		zn_out_char(o, ':');
		zn_out_u64(o, (uint64_t)n->line);
	}
	zn_out_char(o, ')');
}

static void put_folded(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_shown *s)
{
	uint32_t path[ZN_STACKS_DEPTH], depth = 0;

	for (uint32_t n = s->example; n != ZN_STACKS_NO_NODE && depth < ZN_STACKS_DEPTH;
		n = zn_stacks_node_at(state->stacks, n)->parent)
		path[depth++] = n;
	while (depth--) {
		put_frame(o, state, zn_stacks_node_at(state->stacks, path[depth]));
		zn_out_char(o, ';');
	}
	zn_out_char(o, '[');
	zn_out_text(o, zn_leaf_label(s->leaf));
	zn_out_text(o, "] ");
	zn_out_u64(o, s->leaf == ZN_LEAF_LAUNCH ? s->sum.count : s->sum.value);
	zn_out_char(o, '\n');
}

void zn_pprof_folded(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q)
{
	struct zn_stacks_shown s;

	if (!state->stacks)
		return;
	zn_stacks_lock(state->stacks);
	zn_stacks_show(state->stacks, q->seconds, zn_now_ns());
	for (uint32_t i = 0; next_shown(state, q, &i, &s);)
		put_folded(o, state, &s);
	zn_stacks_unlock(state->stacks);
}
