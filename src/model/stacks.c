/* SPDX-License-Identifier: GPL-2.0 */
/*
 * stacks.c: what calls did, by the stack of functions and lines that made them: a tree for each process, sums at its
 * nodes, and what was added in the last minutes. The walker's thread adds, the loop reads, both under one lock, which
 * is held for no longer than memory takes. Tables are fixed; each owner has his share of them (quota.c). What a process
 * that has ended left is dropped once room is needed. Where an owner found none, stacks of his to which nothing was
 * added for a while lose their inner half: a program that imports or compiles much before it works has as many of those
 * as his share is large. Their sums stay, with what is left of them. What found no room is added to who called it, or
 * else to a node that each process has outside of all shares: no sum is lost.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define ROOTS_MAX      ZN_STACKS_ROOTS
#define NODES_MAX      ZN_STACKS_NODES
#define FUNCTIONS_MAX  ZN_STACKS_FUNCTIONS
#define SUMS_MAX       16384
#define RESTS_MAX      (ROOTS_MAX * ZN_LEAF_COUNT) /* sums of what found no room, of each root and leaf */
#define SUMS_ALL       (SUMS_MAX + RESTS_MAX)
#define TEXTS_MAX      16384
#define TEXT_BYTES     (1 << 20)
#define TEXT_BLOCK     64 /* bytes that are counted as one against an owner's share */
#define EXAMPLE_NODES  (ZN_NATIVE_FRAMES + 2)
#define EXAMPLE_BLOCKS 6 /* of texts of one of its functions, at most */
#define PARTS_MAX      65536
#define WINDOWS_MAX    1024
#define WINDOW_NS      (5 * ZN_NS_PER_S)
#define KEEP_NS        (60 * ZN_NS_PER_S) /* of what has ended, at least */
#define COLD_WINDOWS   12                 /* without anything added */
#define CUT_NS         (10 * ZN_NS_PER_S)
#define RESERVE(n)     ((n) / 16)
#define NONE           UINT32_MAX
#define SCALE_MOST     4 /* see zn_stacks_scale() */

struct text {
	uint32_t at, len, owner, live;
};

struct function {
	uint32_t name, file; /* texts */
	int32_t first;
	uint32_t owner, live;
};

struct sum {
	uint32_t node, leaf;
	uint32_t example;              /* a node below, and 1; 0: none */
	uint32_t dropped;              /* examples that may have been of it, or of another leaf */
	uint64_t window;               /* in which something was added last */
	struct zn_stack_sum all, part; /* since the process began; of the window at hand */
};

struct part {
	uint32_t sum, count; /* NONE: what it was of has gone */
	uint64_t value;
};

struct window {
	uint64_t first, end_ns; /* part */
};

struct zn_stacks {
	pthread_mutex_t lock;
	struct zn_stacks_root root[ROOTS_MAX];
	struct zn_stacks_node node[ZN_STACKS_NODES_ALL]; /* from NODES_MAX on: of what found no room, by root */
	struct function function[FUNCTIONS_MAX];
	struct sum sum[SUMS_ALL]; /* from SUMS_MAX on: of those nodes, by root and leaf */
	struct text text[TEXTS_MAX];
	char bytes[TEXT_BYTES];
	uint32_t roots, nodes, functions, sums, texts, byte_count;
	uint32_t rests; /* roots that may have something without room are below this */
	/* Open addressing: indices and 1, 0: free. Twice as many places as entries. */
	uint32_t node_place[2 * NODES_MAX], function_place[2 * FUNCTIONS_MAX], sum_place[2 * SUMS_MAX],
		text_place[2 * TEXTS_MAX];
	struct zn_quota root_quota, node_quota, function_quota, byte_quota, sum_quota;
	/* By the last compaction: where each node is now, or what it was cut to; NONE: gone. */
	uint32_t moved[ZN_STACKS_NODES_ALL];
	uint32_t scratch[NODES_MAX];
	uint32_t generation;
	uint64_t lacked, cut_ns; /* what found no room; when stacks were cut last, or might have been */
	bool cut[ROOTS_MAX];
	struct part part[PARTS_MAX];
	uint64_t part_next;
	struct window window[WINDOWS_MAX];
	uint64_t window_next, window_ns; /* window_ns: when the one at hand began */
	struct zn_stack_sum shown[SUMS_ALL];
};

/* ---- Hashes. ---- */

static uint32_t hash_words(const uint32_t *word, size_t count)
{
	uint64_t h = 0x9e3779b97f4a7c15ULL;

	for (size_t i = 0; i < count; i++) {
		h = (h ^ word[i]) * 0xff51afd7ed558ccdULL;
		h ^= h >> 32;
	}
	return (uint32_t)h;
}

static uint32_t node_hash(const struct zn_stacks_node *n)
{
	return hash_words((const uint32_t[]){n->root, n->parent, n->function, (uint32_t)n->line}, 4);
}

static bool node_same(const struct zn_stacks_node *a, const struct zn_stacks_node *b)
{
	return a->root == b->root && a->parent == b->parent && a->function == b->function && a->line == b->line;
}

static uint32_t function_hash(const struct function *f)
{
	return hash_words((const uint32_t[]){f->name, f->file, (uint32_t)f->first}, 3);
}

static uint32_t sum_hash(const struct sum *s)
{
	return hash_words((const uint32_t[]){s->node, s->leaf}, 2);
}

static uint32_t text_hash(const struct zn_stacks *s, const struct text *t)
{
	return (uint32_t)zn_str_hash((struct zn_str){s->bytes + t->at, t->len});
}

/* Enters the entry at an index, which is not there yet. */
static void place_put(uint32_t *place, uint32_t count, uint32_t hash, uint32_t index)
{
	while (place[hash & (count - 1)])
		hash++;
	place[hash & (count - 1)] = index + 1;
}

/* Where the sum of a root for what found no room is. */
static uint32_t rest_at(uint32_t root, uint32_t leaf)
{
	return SUMS_MAX + root * ZN_LEAF_COUNT + leaf;
}

/* NULL: there is none. */
static struct sum *sum_find(struct zn_stacks *s, uint32_t node, uint32_t leaf)
{
	struct sum key = {.node = node, .leaf = leaf};

	if (node >= NODES_MAX)
		return &s->sum[rest_at(node - NODES_MAX, leaf)];
	for (uint32_t at = sum_hash(&key);; at++) {
		uint32_t i = s->sum_place[at & (ZN_LEN(s->sum_place) - 1)];

		if (!i)
			return NULL;
		if (s->sum[i - 1].node == node && s->sum[i - 1].leaf == leaf)
			return &s->sum[i - 1];
	}
}

/* ---- Compaction. ---- */

static void places_fill(struct zn_stacks *s)
{
	memset(s->node_place, 0, sizeof(s->node_place));
	memset(s->function_place, 0, sizeof(s->function_place));
	memset(s->sum_place, 0, sizeof(s->sum_place));
	memset(s->text_place, 0, sizeof(s->text_place));
	for (uint32_t i = 0; i < s->nodes; i++)
		place_put(s->node_place, ZN_LEN(s->node_place), node_hash(&s->node[i]), i);
	for (uint32_t i = 0; i < s->functions; i++)
		place_put(s->function_place, ZN_LEN(s->function_place), function_hash(&s->function[i]), i);
	for (uint32_t i = 0; i < s->sums; i++)
		place_put(s->sum_place, ZN_LEN(s->sum_place), sum_hash(&s->sum[i]), i);
	for (uint32_t i = 0; i < s->texts; i++)
		place_put(s->text_place, ZN_LEN(s->text_place), text_hash(s, &s->text[i]), i);
}

static uint32_t text_blocks(uint32_t len)
{
	return len / TEXT_BLOCK + 1;
}

/* Nodes that stay keep their order, in which a parent comes before what is below it. uncut: those that stay of roots
 * that do; NULL: all. */
static void nodes_compact(struct zn_stacks *s, const uint32_t *uncut)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->nodes; i++) {
		struct zn_stacks_node n = s->node[i];
		bool used = s->root[n.root].used;

		if (!used || (uncut && !uncut[i])) {
			s->moved[i] = used ? s->moved[n.parent] : NONE;
			zn_quota_give(&s->node_quota, s->root[n.root].owner);
			continue;
		}
		s->moved[i] = kept;
		if (n.parent != ZN_STACKS_NO_NODE)
			n.parent = s->moved[n.parent];
		if (n.function != ZN_STACKS_NO_FUNCTION)
			s->function[n.function].live = 1;
		s->node[kept++] = n;
	}
	s->nodes = kept;
}

/* Nodes of what found no room keep their places, and go with their roots. */
static void rests_compact(struct zn_stacks *s)
{
	for (uint32_t root = 0; root < s->rests; root++) {
		uint32_t node = NODES_MAX + root;

		s->moved[node] = s->root[root].used ? node : NONE;
		if (s->root[root].used)
			continue;
		s->node[node] = (struct zn_stacks_node){0};
		memset(&s->sum[rest_at(root, 0)], 0, sizeof(*s->sum) * ZN_LEAF_COUNT);
	}
}

static void sum_add(struct zn_stack_sum *to, const struct zn_stack_sum *what)
{
	to->count += what->count;
	to->value += what->value;
}

/* Two stacks were cut to one. */
static void sums_merge(struct zn_stacks *s, struct sum *to, const struct sum *from)
{
	sum_add(&to->all, &from->all);
	sum_add(&to->part, &from->part);
	to->window = from->window > to->window ? from->window : to->window;
	to->example = to->example ? to->example : from->example;
	zn_quota_give(&s->sum_quota, s->root[s->node[to->node].root].owner);
}

/* Where the sum of a part is now; old: how many there were that have their shares. */
static uint32_t sum_moved(const struct zn_stacks *s, uint32_t sum, uint32_t old)
{
	uint32_t rest = sum - SUMS_MAX;

	if (sum < old)
		return s->scratch[sum];
	return rest < RESTS_MAX && s->root[rest / ZN_LEAF_COUNT].used ? sum : NONE;
}

static void sums_compact(struct zn_stacks *s)
{
	uint32_t *to = s->scratch, kept = 0, old = s->sums;

	memset(s->sum_place, 0, sizeof(s->sum_place));
	for (uint32_t i = 0; i < old; i++) {
		struct sum sum = s->sum[i], *same;

		to[i] = NONE;
		if (s->moved[sum.node] == NONE)
			continue;
		sum.node = s->moved[sum.node];
		if (sum.example)
			sum.example = s->moved[sum.example - 1] + 1; /* of the same root, so it is there, too */
		same = sum_find(s, sum.node, sum.leaf);
		if (same) {
			sums_merge(s, same, &sum);
			to[i] = (uint32_t)(same - s->sum);
			continue;
		}
		place_put(s->sum_place, ZN_LEN(s->sum_place), sum_hash(&sum), kept);
		to[i] = kept;
		s->sum[kept++] = sum;
	}
	s->sums = kept;
	for (uint32_t i = 0; i < PARTS_MAX; i++)
		s->part[i].sum = sum_moved(s, s->part[i].sum, old);
}

static void functions_compact(struct zn_stacks *s)
{
	uint32_t *to = s->scratch, kept = 0;

	for (uint32_t i = 0; i < s->functions; i++) {
		struct function f = s->function[i];

		to[i] = f.live ? kept : NONE;
		if (!f.live) {
			zn_quota_give(&s->function_quota, f.owner);
			continue;
		}
		f.live = 0;
		s->text[f.name].live = s->text[f.file].live = 1;
		s->function[kept++] = f;
	}
	s->functions = kept;
	for (uint32_t i = 0; i < s->nodes; i++)
		if (s->node[i].function != ZN_STACKS_NO_FUNCTION)
			s->node[i].function = to[s->node[i].function];
}

static void texts_compact(struct zn_stacks *s)
{
	uint32_t *to = s->scratch, kept = 0, bytes = 0;

	for (uint32_t i = 0; i < s->texts; i++) {
		struct text t = s->text[i];

		to[i] = kept;
		if (!t.live) {
			zn_quota_give_many(&s->byte_quota, t.owner, (int32_t)text_blocks(t.len));
			continue;
		}
		memmove(s->bytes + bytes, s->bytes + t.at, t.len);
		t.at = bytes;
		t.live = 0;
		bytes += t.len;
		s->text[kept++] = t;
	}
	s->texts = kept;
	s->byte_count = bytes;
	for (uint32_t i = 0; i < s->functions; i++) {
		s->function[i].name = to[s->function[i].name];
		s->function[i].file = to[s->function[i].file];
	}
}

/* uncut: as of nodes_compact(). */
static void stacks_compact(struct zn_stacks *s, const uint32_t *uncut)
{
	nodes_compact(s, uncut);
	rests_compact(s);
	sums_compact(s);
	functions_compact(s);
	texts_compact(s);
	places_fill(s);
	s->generation++;
}

/* Processes that ended so long ago go, of one owner or of all (NONE). False: there are none. */
static bool ended_leave(struct zn_stacks *s, uint32_t owner, uint64_t age_ns, uint64_t now_ns)
{
	bool any = false;

	for (uint32_t i = 0; i < s->roots; i++) {
		struct zn_stacks_root *r = &s->root[i];

		if (!r->used || !r->ended_ns || now_ns - r->ended_ns < age_ns || (owner != NONE && owner != r->owner))
			continue;
		r->used = false;
		zn_quota_give(&s->root_quota, r->owner);
		any = true;
	}
	return any;
}

/* Drops what they had. */
static void left_drop(struct zn_stacks *s)
{
	/* sums name nodes by their old places, so they are counted off before those move */
	for (uint32_t i = 0; i < s->sums; i++)
		if (!s->root[s->node[s->sum[i].node].root].used)
			zn_quota_give(&s->sum_quota, s->root[s->node[s->sum[i].node].root].owner);
	stacks_compact(s, NULL);
}

/* Of those that ended a while ago. False: there is nothing. */
static bool drop_ended(struct zn_stacks *s, uint64_t now_ns)
{
	bool any = ended_leave(s, NONE, KEEP_NS, now_ns);

	if (any)
		left_drop(s);
	return any;
}

/* ---- What is cut. ---- */

/* All processes of owners of whom one found no room. False: there is none. */
static bool lacking_find(struct zn_stacks *s)
{
	bool any = false;

	memset(s->cut, 0, sizeof(s->cut));
	for (uint32_t i = 0; i < s->roots; i++) {
		if (!s->root[i].used || !s->root[i].lacks || s->cut[i])
			continue;
		any = true;
		for (uint32_t k = 0; k < s->roots; k++)
			s->cut[k] |= s->root[k].used && s->root[k].owner == s->root[i].owner;
	}
	return any;
}

static bool is_cold(const struct zn_stacks *s, const struct sum *sum)
{
	return s->cut[s->node[sum->node].root] && s->window_next - sum->window >= COLD_WINDOWS && !sum->part.count &&
		!sum->part.value;
}

static uint32_t outer_half(const struct zn_stacks *s, uint32_t node)
{
	uint32_t depth = 0;

	for (uint32_t at = node; at != ZN_STACKS_NO_NODE; at = s->node[at].parent)
		depth++;
	for (uint32_t up = depth / 2; up; up--)
		node = s->node[node].parent;
	return node;
}

static void node_keep(const struct zn_stacks *s, uint32_t *uncut, uint32_t node)
{
	for (; node != ZN_STACKS_NO_NODE && !uncut[node]; node = s->node[node].parent)
		uncut[node] = 1;
}

/* An outermost function always stays, and so does all of others. */
static void kept_find(struct zn_stacks *s, uint32_t *uncut)
{
	for (uint32_t i = 0; i < s->nodes; i++)
		uncut[i] = s->node[i].parent == ZN_STACKS_NO_NODE || !s->cut[s->node[i].root];
	for (uint32_t i = 0; i < s->sums; i++) {
		const struct sum *sum = &s->sum[i];

		if (is_cold(s, sum)) {
			node_keep(s, uncut, outer_half(s, sum->node));
			continue;
		}
		node_keep(s, uncut, sum->node);
		if (sum->example)
			node_keep(s, uncut, sum->example - 1);
	}
}

/* Examples of stacks that were cut are of what is not told any more. False: nothing is cut. */
static bool examples_drop(struct zn_stacks *s, const uint32_t *uncut)
{
	bool any = false;

	for (uint32_t i = 0; i < s->nodes && !any; i++)
		any = !uncut[i];
	for (uint32_t i = 0; i < s->sums && any; i++)
		if (!uncut[s->sum[i].node] || (s->sum[i].example && !uncut[s->sum[i].example - 1]))
			s->sum[i].example = 0;
	return any;
}

static void cut_cold(struct zn_stacks *s, uint64_t now_ns)
{
	if (now_ns - s->cut_ns < CUT_NS || !lacking_find(s))
		return;
	s->cut_ns = now_ns;
	kept_find(s, s->scratch);
	if (!examples_drop(s, s->scratch))
		return;
	for (uint32_t i = 0; i < s->roots; i++)
		s->root[i].lacks = false;
	stacks_compact(s, s->scratch);
}

/* ---- What is added. ---- */

static void lack_note(struct zn_stacks *s, uint32_t root)
{
	s->root[root].lacks = true;
	s->lacked++;
}

static uint32_t text_put(struct zn_stacks *s, uint32_t owner, struct zn_str text)
{
	uint32_t hash = (uint32_t)zn_str_hash(text), need = text_blocks((uint32_t)text.len), taken = 0;

	for (uint32_t at = hash;; at++) {
		uint32_t i = s->text_place[at & (ZN_LEN(s->text_place) - 1)];

		if (!i)
			break;
		if (s->text[i - 1].len == text.len && !memcmp(s->bytes + s->text[i - 1].at, text.at, text.len))
			return i - 1;
	}
	if (s->texts == TEXTS_MAX || text.len > TEXT_BYTES - s->byte_count)
		return NONE;
	while (taken < need && zn_quota_try(&s->byte_quota, owner))
		taken++;
	if (taken < need) {
		zn_quota_give_many(&s->byte_quota, owner, (int32_t)taken);
		return NONE;
	}
	memcpy(s->bytes + s->byte_count, text.at, text.len);
	s->text[s->texts] = (struct text){.at = s->byte_count, .len = (uint32_t)text.len, .owner = owner};
	s->byte_count += (uint32_t)text.len;
	place_put(s->text_place, ZN_LEN(s->text_place), hash, s->texts);
	return s->texts++;
}

uint32_t zn_stacks_function(struct zn_stacks *s, uint32_t root, struct zn_str name, struct zn_str file, int first)
{
	uint32_t owner = s->root[root].owner;
	struct function f = {.first = first, .owner = owner};
	uint32_t hash;

	f.name = text_put(s, owner, name);
	f.file = f.name == NONE ? NONE : text_put(s, owner, file);
	if (f.file == NONE) {
		lack_note(s, root);
		return ZN_STACKS_NO_FUNCTION;
	}
	hash = function_hash(&f);
	for (uint32_t at = hash;; at++) {
		uint32_t i = s->function_place[at & (ZN_LEN(s->function_place) - 1)];

		if (!i)
			break;
		if (s->function[i - 1].name == f.name && s->function[i - 1].file == f.file &&
			s->function[i - 1].first == first)
			return i - 1;
	}
	if (s->functions == FUNCTIONS_MAX || !zn_quota_try(&s->function_quota, owner)) {
		lack_note(s, root);
		return ZN_STACKS_NO_FUNCTION;
	}
	s->function[s->functions] = f;
	place_put(s->function_place, ZN_LEN(s->function_place), hash, s->functions);
	return s->functions++;
}

/* The node of what found no room. It is its own example, as there is no room for one. */
static uint32_t rest_node(struct zn_stacks *s, uint32_t root)
{
	uint32_t node = NODES_MAX + root;

	if (s->node[node].parent == ZN_STACKS_NO_NODE) /* it is there */
		return node;
	s->node[node] = (struct zn_stacks_node){
		.root = root, .parent = ZN_STACKS_NO_NODE, .function = ZN_STACKS_NO_FUNCTION, .line = ZN_PYCODE_GONE};
	for (uint32_t leaf = 0; leaf < ZN_LEAF_COUNT; leaf++)
		s->sum[rest_at(root, leaf)] = (struct sum){.node = node, .leaf = leaf, .example = node + 1};
	s->rests = root >= s->rests ? root + 1 : s->rests;
	return node;
}

uint32_t zn_stacks_node(struct zn_stacks *s, uint32_t root, uint32_t parent, uint32_t function, int line)
{
	struct zn_stacks_node n = {.root = root, .parent = parent, .function = function, .line = line};
	uint32_t hash = node_hash(&n);

	if (parent != ZN_STACKS_NO_NODE && parent >= NODES_MAX)
		return parent;
	for (uint32_t at = hash;; at++) {
		uint32_t i = s->node_place[at & (ZN_LEN(s->node_place) - 1)];

		if (!i)
			break;
		if (node_same(&s->node[i - 1], &n))
			return i - 1;
	}
	if (s->nodes == NODES_MAX || !zn_quota_try(&s->node_quota, s->root[root].owner)) {
		s->root[root].folded++;
		lack_note(s, root);
		return parent == ZN_STACKS_NO_NODE ? rest_node(s, root) : parent;
	}
	s->node[s->nodes] = n;
	place_put(s->node_place, ZN_LEN(s->node_place), hash, s->nodes);
	return s->nodes++;
}

/* The one that is there, or a new one. NULL: there is no room. */
static struct sum *sum_of(struct zn_stacks *s, uint32_t node, uint32_t leaf)
{
	struct sum key = {.node = node, .leaf = leaf}, *sum = sum_find(s, node, leaf);

	if (sum)
		return sum;
	if (s->sums == SUMS_MAX || !zn_quota_try(&s->sum_quota, s->root[s->node[node].root].owner))
		return NULL;
	s->sum[s->sums] = key;
	place_put(s->sum_place, ZN_LEN(s->sum_place), sum_hash(&key), s->sums);
	return &s->sum[s->sums++];
}

/* The nearest caller's; or else that of what found no room. */
static struct sum *sum_above(struct zn_stacks *s, uint32_t node, uint32_t leaf)
{
	struct sum *sum = NULL;

	for (uint32_t at = s->node[node].parent; at != ZN_STACKS_NO_NODE && !sum; at = s->node[at].parent)
		sum = sum_find(s, at, leaf);
	return sum ? sum : sum_find(s, rest_node(s, s->node[node].root), leaf);
}

void zn_stacks_add(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf, const struct zn_stack_sum *what)
{
	struct sum *sum;

	if (node == ZN_STACKS_NO_NODE)
		return;
	sum = sum_of(s, node, leaf);
	if (!sum) {
		s->root[s->node[node].root].folded++;
		lack_note(s, s->node[node].root);
		sum = sum_above(s, node, leaf);
	}
	sum_add(&sum->all, what);
	sum_add(&sum->part, what);
	sum->window = s->window_next;
}

static bool sum_has_room(struct zn_stacks *s, uint32_t owner)
{
	return s->sums < SUMS_MAX && zn_quota_may(&s->sum_quota, zn_quota_owner(&s->sum_quota, owner), owner);
}

bool zn_stacks_has_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf)
{
	const struct sum *sum = sum_find(s, node, leaf);

	return sum ? sum->example : !sum_has_room(s, s->root[s->node[node].root].owner);
}

bool zn_stacks_find_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf, uint32_t *dropped, bool *lacks)
{
	const struct sum *sum = sum_find(s, node, leaf);

	*dropped = sum ? sum->dropped : 0;
	*lacks = sum && !sum->example;
	return sum && sum->example;
}

void zn_stacks_drop_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf)
{
	struct sum *sum = sum_find(s, node, leaf);

	if (sum)
		sum->dropped++;
}

/* What he has, and this, is less than two thirds of what he could have at all. */
static bool quota_spares(struct zn_quota *q, uint32_t owner, uint32_t need)
{
	int64_t free = (int64_t)q->size - q->used - q->reserve;

	return ((int64_t)zn_quota_owner(q, owner)->held + need) * 2 < free - need;
}

bool zn_stacks_spares(struct zn_stacks *s, uint32_t root)
{
	uint32_t owner = s->root[root].owner;

	return quota_spares(&s->node_quota, owner, EXAMPLE_NODES) &&
		quota_spares(&s->function_quota, owner, EXAMPLE_NODES) &&
		quota_spares(&s->byte_quota, owner, EXAMPLE_NODES * EXAMPLE_BLOCKS);
}

void zn_stacks_put_example(struct zn_stacks *s, uint32_t node, enum zn_leaf leaf, uint32_t example)
{
	struct sum *sum = sum_of(s, node, leaf);

	if (sum)
		sum->example = example + 1;
}

uint64_t zn_stacks_scale(uint64_t part, uint64_t sampled, uint64_t exact)
{
	if (exact / SCALE_MOST >= sampled)
		return part * SCALE_MOST;
	return (uint64_t)((unsigned __int128)part * exact / sampled);
}

static bool root_may(struct zn_stacks *s, uint32_t owner)
{
	return zn_quota_may(&s->root_quota, zn_quota_owner(&s->root_quota, owner), owner);
}

/* For one more process of an owner those go that ended a while ago, and then his own, those first that ended first. */
static void roots_room(struct zn_stacks *s, uint32_t owner, uint64_t now_ns)
{
	bool any = ended_leave(s, NONE, KEEP_NS, now_ns);

	for (uint64_t age_ns = KEEP_NS; age_ns && !root_may(s, owner);) {
		age_ns = age_ns > ZN_NS_PER_S ? age_ns / 2 : 0;
		any |= ended_leave(s, owner, age_ns, now_ns);
	}
	if (any)
		left_drop(s);
}

/* Processes that had its number before have ended, even if that is not known yet. */
static void pid_take(struct zn_stacks *s, uint32_t pid, uint64_t start_ns)
{
	for (uint32_t i = 0; i < s->roots && start_ns; i++) {
		struct zn_stacks_root *r = &s->root[i];

		r->pid_reused |= r->pid == pid && r->start_ns && r->start_ns != start_ns;
	}
}

uint32_t zn_stacks_root(struct zn_stacks *s, const struct zn_stacks_root *who, uint64_t now_ns)
{
	uint32_t i = 0;

	pid_take(s, who->pid, who->start_ns);
	if (!root_may(s, who->owner))
		roots_room(s, who->owner, now_ns);
	if (!zn_quota_try(&s->root_quota, who->owner))
		return ZN_STACKS_NO_ROOT;
	while (s->root[i].used) /* who has his share finds one */
		i++;
	s->root[i] = *who;
	s->root[i].used = true;
	s->roots = i >= s->roots ? i + 1 : s->roots;
	return i;
}

struct zn_stacks_root *zn_stacks_root_at(struct zn_stacks *s, uint32_t root)
{
	return root < s->roots && s->root[root].used ? &s->root[root] : NULL;
}

static bool is_nearly_full(const struct zn_stacks *s)
{
	return s->nodes > NODES_MAX / 8 * 7 || s->sums > SUMS_MAX / 8 * 7 || s->functions > FUNCTIONS_MAX / 8 * 7 ||
		s->texts > TEXTS_MAX / 8 * 7 || s->byte_count > TEXT_BYTES / 8 * 7;
}

/* One of both: where nodes are after a change is told from where they were before that one alone. */
void zn_stacks_room(struct zn_stacks *s, uint64_t now_ns)
{
	if (!is_nearly_full(s) || !drop_ended(s, now_ns))
		cut_cold(s, now_ns);
}

uint64_t zn_stacks_lacked(const struct zn_stacks *s)
{
	return s->lacked;
}

uint32_t zn_stacks_generation(const struct zn_stacks *s)
{
	return s->generation;
}

uint32_t zn_stacks_moved(const struct zn_stacks *s, uint32_t node)
{
	return node == ZN_STACKS_NO_NODE || s->moved[node] == NONE ? ZN_STACKS_NO_NODE : s->moved[node];
}

/* ---- Windows. ---- */

/* Where the i-th sum is, of all that there are; NONE: there are no more. */
static uint32_t sum_at(const struct zn_stacks *s, uint32_t i)
{
	if (i < s->sums)
		return i;
	return i - s->sums < s->rests * ZN_LEAF_COUNT ? SUMS_MAX + i - s->sums : NONE;
}

static void window_close(struct zn_stacks *s, uint64_t now_ns)
{
	struct window *w = &s->window[s->window_next++ % WINDOWS_MAX];

	w->first = s->part_next;
	w->end_ns = now_ns;
	for (uint32_t i = 0, at; (at = sum_at(s, i)) != NONE; i++) {
		struct sum *sum = &s->sum[at];

		if (!sum->part.count && !sum->part.value)
			continue;
		s->part[s->part_next++ % PARTS_MAX] = (struct part){.sum = at,
			.count = sum->part.count > UINT32_MAX ? UINT32_MAX : (uint32_t)sum->part.count,
			.value = sum->part.value};
		sum->part = (struct zn_stack_sum){0};
	}
	s->window_ns = now_ns;
}

void zn_stacks_tick(struct zn_stacks *s, uint64_t now_ns)
{
	if (!s->window_ns)
		s->window_ns = now_ns;
	if (now_ns - s->window_ns >= WINDOW_NS)
		window_close(s, now_ns);
}

/* All since each process began. */
static void show_all(struct zn_stacks *s)
{
	for (uint32_t i = 0, at; (at = sum_at(s, i)) != NONE; i++)
		s->shown[at] = s->sum[at].all;
}

static void show_part(struct zn_stacks *s, const struct part *p)
{
	if (p->sum == NONE)
		return;
	s->shown[p->sum].count += p->count;
	s->shown[p->sum].value += p->value;
}

/* The window at hand, and closed ones from the newest on, as far as they are wanted and there. */
static uint64_t show_windows(struct zn_stacks *s, uint64_t wanted_ns, uint64_t now_ns)
{
	uint64_t from_ns = s->window_ns, end = s->part_next;

	for (uint32_t i = 0, at; (at = sum_at(s, i)) != NONE; i++)
		s->shown[at] = s->sum[at].part;
	for (uint64_t n = s->window_next; n && s->window_next - n < WINDOWS_MAX - 1 && now_ns - from_ns < wanted_ns;
		n--) {
		const struct window *w = &s->window[(n - 1) % WINDOWS_MAX];

		if (s->part_next - w->first > PARTS_MAX)
			break;
		for (uint64_t i = w->first; i < end; i++)
			show_part(s, &s->part[i % PARTS_MAX]);
		end = w->first;
		from_ns = n > 1 && s->window_next - n < WINDOWS_MAX - 2 ? s->window[(n - 2) % WINDOWS_MAX].end_ns
									: w->end_ns - WINDOW_NS;
	}
	return now_ns > from_ns ? now_ns - from_ns : 0;
}

uint64_t zn_stacks_show(struct zn_stacks *s, uint64_t seconds, uint64_t now_ns)
{
	if (seconds)
		return show_windows(s, seconds * ZN_NS_PER_S, now_ns);
	show_all(s);
	return 0;
}

bool zn_stacks_shown(const struct zn_stacks *s, uint32_t i, struct zn_stacks_shown *to)
{
	uint32_t at = sum_at(s, i);
	const struct sum *sum;

	if (at == NONE)
		return false;
	sum = &s->sum[at];
	to->node = sum->node;
	to->leaf = sum->leaf;
	to->example = sum->example ? sum->example - 1 : sum->node;
	to->root = s->node[sum->node].root;
	to->sum = s->shown[at];
	return true;
}

const struct zn_stacks_node *zn_stacks_node_at(const struct zn_stacks *s, uint32_t node)
{
	return &s->node[node];
}

static struct zn_str text_at(const struct zn_stacks *s, uint32_t text)
{
	return (struct zn_str){s->bytes + s->text[text].at, s->text[text].len};
}

struct zn_stacks_function zn_stacks_function_at(const struct zn_stacks *s, uint32_t function)
{
	const struct function *f = &s->function[function];

	if (function == ZN_STACKS_NO_FUNCTION)
		return (struct zn_stacks_function){.name = zn_str_of("(no room)"), .file = zn_str_of("")};
	return (struct zn_stacks_function){text_at(s, f->name), text_at(s, f->file), f->first};
}

void zn_stacks_usage(struct zn_stacks *s, struct zn_stacks_usage *to)
{
	zn_stacks_lock(s);
	*to = (struct zn_stacks_usage){s->nodes, NODES_MAX, s->functions, FUNCTIONS_MAX, s->byte_count, TEXT_BYTES};
	zn_stacks_unlock(s);
}

/* ---- All of it. ---- */

void zn_stacks_lock(struct zn_stacks *s)
{
	pthread_mutex_lock(&s->lock);
}

void zn_stacks_unlock(struct zn_stacks *s)
{
	pthread_mutex_unlock(&s->lock);
}

static void quota_set(struct zn_quota *q, uint32_t size)
{
	q->size = size;
	q->reserve = RESERVE(size);
}

int zn_stacks_open(struct zn_stacks **to)
{
	struct zn_stacks *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	*to = s == MAP_FAILED ? NULL : s;
	if (s == MAP_FAILED)
		return -errno;
	quota_set(&s->root_quota, ROOTS_MAX);
	quota_set(&s->node_quota, NODES_MAX);
	quota_set(&s->function_quota, FUNCTIONS_MAX);
	quota_set(&s->byte_quota, TEXT_BYTES / TEXT_BLOCK);
	quota_set(&s->sum_quota, SUMS_MAX);
	return -pthread_mutex_init(&s->lock, NULL);
}

void zn_stacks_close(struct zn_stacks *s)
{
	if (s)
		munmap(s, sizeof(*s));
}
