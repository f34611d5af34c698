/* SPDX-License-Identifier: GPL-2.0 */
/* The tree of stacks: sums at its nodes, windows, shares of owners, and what is dropped when room is needed. */
#include "t.h"
#include "zernel.h"

#define S ZN_NS_PER_S

static struct zn_stacks *stacks;

static void begin(void)
{
	zn_stacks_close(stacks);
	CHECK_EQ(zn_stacks_open(&stacks), 0);
}

static uint32_t root_of(uint32_t pid, uint32_t owner)
{
	return zn_stacks_root(stacks, &(struct zn_stacks_root){.pid = pid, .id = pid, .owner = owner}, S);
}

static uint32_t function_of(uint32_t root, const char *name)
{
	return zn_stacks_function(stacks, root, zn_str_of(name), zn_str_of("/home/a/train.py"), 3);
}

static uint32_t below(uint32_t root, uint32_t parent, const char *name, int line)
{
	return zn_stacks_node(stacks, root, parent, function_of(root, name), line);
}

static void add(uint32_t node, enum zn_leaf leaf, uint64_t count, uint64_t value)
{
	zn_stacks_add(stacks, node, leaf, &(struct zn_stack_sum){count, value});
}

/* What is shown of a process and a cause. */
static struct zn_stack_sum shown(uint32_t root, uint32_t leaf)
{
	struct zn_stack_sum sum = {0};
	struct zn_stacks_shown s;

	for (uint32_t i = 0; zn_stacks_shown(stacks, i, &s); i++)
		if (s.root == root && s.leaf == leaf) {
			sum.count += s.sum.count;
			sum.value += s.sum.value;
		}
	return sum;
}

T(equal_stacks_are_one_node)
{
	uint32_t root, main_node, step;

	begin();
	root = root_of(7, 1000);
	main_node = below(root, ZN_STACKS_NO_NODE, "main", 10);
	step = below(root, main_node, "step", 20);
	CHECK_EQ(below(root, main_node, "step", 20), step);
	CHECK(below(root, main_node, "step", 21) != step);
	CHECK(below(root_of(8, 1000), ZN_STACKS_NO_NODE, "main", 10) != main_node);
	add(step, ZN_LEAF_GPU, 2, 500);
	add(step, ZN_LEAF_GPU, 1, 40);
	add(step, ZN_LEAF_LAUNCH, 3, 9);
	zn_stacks_show(stacks, 0, S);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).count, 3);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).value, 540);
	CHECK_EQ(shown(root, ZN_LEAF_LAUNCH).count, 3);
	CHECK_EQ(zn_stacks_node_at(stacks, step)->parent, main_node);
	CHECK(zn_str_is(zn_stacks_function_at(stacks, zn_stacks_node_at(stacks, step)->function).name, "step"));
}

T(the_last_seconds_are_shown)
{
	uint32_t root, node;

	begin();
	root = root_of(7, 1000);
	node = below(root, ZN_STACKS_NO_NODE, "main", 10);
	zn_stacks_tick(stacks, 100 * S);
	for (uint64_t s = 0; s < 60; s++) {
		add(node, ZN_LEAF_GPU, 1, 10);
		zn_stacks_tick(stacks, (101 + s) * S);
	}
	CHECK_EQ(zn_stacks_show(stacks, 10, 160 * S), 10 * S);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).count, 10);
	CHECK_EQ(zn_stacks_show(stacks, 12, 160 * S), 15 * S);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).count, 15);
	CHECK_EQ(zn_stacks_show(stacks, 1000, 160 * S), 60 * S);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).value, 600);
	CHECK_EQ(zn_stacks_show(stacks, 0, 160 * S), 0);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).count, 60);
	add(node, ZN_LEAF_GPU, 1, 10);
	CHECK_EQ(zn_stacks_show(stacks, 1, 162 * S), 2 * S);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).count, 1);
}

/* Whoever fills the tree finds his stacks folded into those above them, and others still find room. */
T(nobody_takes_it_from_others)
{
	uint32_t greedy, other, node, last;

	begin();
	greedy = root_of(7, 1000);
	other = root_of(8, 1001);
	node = last = below(greedy, ZN_STACKS_NO_NODE, "main", 1);
	for (int line = 2; line < 2 * ZN_STACKS_NODES; line++)
		last = below(greedy, node, "step", line);
	CHECK_EQ(last, node);
	CHECK(zn_stacks_root_at(stacks, greedy)->folded > ZN_STACKS_NODES);
	for (int i = 0; i < 2 * ZN_STACKS_FUNCTIONS; i++) {
		char name[300];

		snprintf(name, sizeof(name), "%0299d", i);
		function_of(greedy, name);
	}
	node = below(other, ZN_STACKS_NO_NODE, "other", 5);
	CHECK(node != ZN_STACKS_NO_NODE);
	CHECK(zn_stacks_node_at(stacks, node)->function != ZN_STACKS_NO_FUNCTION);
	add(node, ZN_LEAF_GPU, 1, 1);
	zn_stacks_show(stacks, 0, S);
	CHECK_EQ(shown(other, ZN_LEAF_GPU).count, 1);
}

static uint32_t depth_of(uint32_t node)
{
	uint32_t depth = 0;

	for (; node != ZN_STACKS_NO_NODE; node = zn_stacks_node_at(stacks, node)->parent)
		depth++;
	return depth;
}

/* What is shown of a process and a cause for which there was no room. */
static struct zn_stack_sum shown_without_room(uint32_t root, uint32_t leaf)
{
	struct zn_stack_sum sum = {0};
	struct zn_stacks_shown s;

	for (uint32_t i = 0; zn_stacks_shown(stacks, i, &s); i++) {
		const struct zn_stacks_node *n = zn_stacks_node_at(stacks, s.node);

		if (s.root != root || s.leaf != leaf || n->function != ZN_STACKS_NO_FUNCTION ||
			n->parent != ZN_STACKS_NO_NODE)
			continue;
		sum.count += s.sum.count;
		sum.value += s.sum.value;
	}
	return sum;
}

/* A user's share is full, and he starts one more process: what that does is told, as far as it can be. */
T(a_process_without_room_has_its_sums)
{
	uint32_t full, late, node, first;

	begin();
	zn_stacks_tick(stacks, 95 * S);
	full = root_of(7, 1000);
	node = below(full, ZN_STACKS_NO_NODE, "main", 1);
	for (uint64_t line = 0, before = zn_stacks_lacked(stacks); zn_stacks_lacked(stacks) == before; line++)
		below(full, node, "step", (int)line);
	late = root_of(8, 1000);
	first = below(late, ZN_STACKS_NO_NODE, "main", 1);
	node = below(late, below(late, first, "step", 2), "launch", 3);
	CHECK_EQ(node, first);
	CHECK(node != ZN_STACKS_NO_NODE && zn_stacks_has_example(stacks, node, ZN_LEAF_GPU)); /* or no room for one */
	add(node, ZN_LEAF_GPU, 2, 500);
	add(node, ZN_LEAF_CPU, 1, 20);
	zn_stacks_tick(stacks, 100 * S);
	add(node, ZN_LEAF_GPU, 1, 40);
	for (uint64_t seconds = 0; seconds <= 100; seconds += 100) {
		zn_stacks_show(stacks, seconds, 102 * S);
		CHECK_EQ(shown_without_room(late, ZN_LEAF_GPU).count, 3);
		CHECK_EQ(shown_without_room(late, ZN_LEAF_GPU).value, 540);
		CHECK_EQ(shown_without_room(late, ZN_LEAF_CPU).value, 20);
		CHECK_EQ(shown(full, ZN_LEAF_GPU).count, 0);
	}
	zn_stacks_show(stacks, 1, 102 * S);
	CHECK_EQ(shown(late, ZN_LEAF_GPU).value, 40);
}

/* It goes with its process, and is nobody else's. */
T(what_found_no_room_goes_with_its_process)
{
	uint32_t full, late, node, kept;

	begin();
	zn_stacks_tick(stacks, 95 * S);
	full = root_of(7, ZN_OWNER_ROOT);
	node = below(full, ZN_STACKS_NO_NODE, "main", 1);
	for (int line = 1; line < ZN_STACKS_NODES; line++)
		below(full, node, "step", line);
	late = root_of(8, ZN_OWNER_ROOT);
	kept = root_of(9, ZN_OWNER_ROOT);
	node = below(late, ZN_STACKS_NO_NODE, "main", 1);
	add(node, ZN_LEAF_GPU, 2, 500);
	add(below(kept, ZN_STACKS_NO_NODE, "main", 1), ZN_LEAF_GPU, 3, 700);
	zn_stacks_tick(stacks, 100 * S);
	zn_stacks_root_at(stacks, late)->ended_ns = 100 * S;
	zn_stacks_room(stacks, 200 * S);
	CHECK_EQ(zn_stacks_moved(stacks, node), ZN_STACKS_NO_NODE);
	CHECK_EQ(root_of(10, 1001), late); /* its place is another one's */
	for (uint64_t seconds = 0; seconds <= 1000; seconds += 1000) {
		zn_stacks_show(stacks, seconds, 202 * S);
		CHECK_EQ(shown(late, ZN_LEAF_GPU).count, 0);
		CHECK_EQ(shown_without_room(kept, ZN_LEAF_GPU).value, 700);
	}
	node = below(late, ZN_STACKS_NO_NODE, "main", 1);
	add(node, ZN_LEAF_GPU, 1, 1);
	zn_stacks_show(stacks, 0, 202 * S);
	CHECK_EQ(shown_without_room(late, ZN_LEAF_GPU).value, 1);
}

/* Where there are no sums any more, a stack's amount is its caller's, or else the process's alone. */
T(an_amount_without_a_sum_is_its_callers)
{
	uint32_t root, other, outer, node = 0;
	struct zn_stack_sum before;
	uint64_t count = 0;

	begin();
	root = root_of(7, 1000);
	other = root_of(8, 1000);
	outer = below(root, ZN_STACKS_NO_NODE, "main", 1);
	add(outer, ZN_LEAF_GPU, 1, 3);
	for (uint64_t lacked = zn_stacks_lacked(stacks); zn_stacks_lacked(stacks) == lacked; count++) {
		node = below(root, outer, "step", (int)(count / (ZN_LEAF_COUNT - 1)));
		add(node, 1 + count % (ZN_LEAF_COUNT - 1), 1, 3); /* but launches */
	}
	node = below(root, below(root, outer, "step", 0), "late", 1);
	CHECK_EQ(depth_of(node), 3);
	zn_stacks_show(stacks, 0, S);
	before = shown(root, ZN_LEAF_GPU);
	add(node, ZN_LEAF_GPU, 2, 500);
	add(node, ZN_LEAF_LAUNCH, 7, 70);
	add(below(other, ZN_STACKS_NO_NODE, "main", 1), ZN_LEAF_LAUNCH, 5, 50);
	zn_stacks_show(stacks, 0, S);
	CHECK_EQ(shown_without_room(root, ZN_LEAF_GPU).count, 0);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).count, before.count + 2);
	CHECK_EQ(shown(root, ZN_LEAF_GPU).value, before.value + 500);
	CHECK_EQ(shown_without_room(root, ZN_LEAF_LAUNCH).count, 7);
	CHECK_EQ(shown(root, ZN_LEAF_LAUNCH).value, 70);
	CHECK_EQ(shown_without_room(other, ZN_LEAF_LAUNCH).value, 50);
}

/* What has ended is dropped, and what stays is what it was, wherever it is now. */
T(room_is_made)
{
	uint32_t old, kept, node, gone, generation;
	struct zn_stacks_usage before, after;

	begin();
	old = root_of(7, 0);
	kept = root_of(8, 0);
	gone = below(old, ZN_STACKS_NO_NODE, "of the old one", 1);
	for (int line = 0; line < 1000; line++)
		add(below(old, gone, "old", line), ZN_LEAF_GPU, 1, 1);
	node = below(kept, below(kept, ZN_STACKS_NO_NODE, "outer", 3), "inner", 4);
	add(node, ZN_LEAF_NCCL, 5, 50);
	zn_stacks_tick(stacks, S);
	zn_stacks_tick(stacks, 6 * S);
	zn_stacks_root_at(stacks, old)->ended_ns = 6 * S;
	for (int line = 0; line < ZN_STACKS_NODES - 1500; line++)
		below(kept, node, "more", line);
	generation = zn_stacks_generation(stacks);
	zn_stacks_room(stacks, 7 * S);
	CHECK_EQ(zn_stacks_generation(stacks), generation); /* too young */
	zn_stacks_usage(stacks, &before);
	zn_stacks_room(stacks, 100 * S);
	zn_stacks_usage(stacks, &after);
	CHECK_EQ(zn_stacks_generation(stacks), generation + 1);
	CHECK_EQ(before.nodes - after.nodes, 1001);
	CHECK(after.functions == before.functions - 2 && after.bytes < before.bytes);
	CHECK_EQ(zn_stacks_moved(stacks, gone), ZN_STACKS_NO_NODE);
	node = zn_stacks_moved(stacks, node);
	CHECK(zn_str_is(zn_stacks_function_at(stacks, zn_stacks_node_at(stacks, node)->function).name, "inner"));
	CHECK_EQ(zn_stacks_node_at(stacks, zn_stacks_node_at(stacks, node)->parent)->line, 3);
	CHECK_EQ(below(kept, zn_stacks_node_at(stacks, node)->parent, "inner", 4), node);
	zn_stacks_show(stacks, 0, 100 * S);
	CHECK_EQ(shown(kept, ZN_LEAF_NCCL).value, 50);
	zn_stacks_show(stacks, 100, 100 * S);
	CHECK_EQ(shown(kept, ZN_LEAF_NCCL).value, 50);
	CHECK(!zn_stacks_root_at(stacks, old));
	CHECK_EQ(root_of(9, 0), old); /* its place is another one's */
}

/* Stacks of eight functions, of which the fifth is called from another line each time, until there is no room. */
static uint32_t fill(uint32_t root, uint32_t main_node, uint32_t *first)
{
	uint32_t count = 0;

	for (uint64_t before = zn_stacks_lacked(stacks); zn_stacks_lacked(stacks) == before; count++) {
		uint32_t node = main_node;

		for (int depth = 1; depth < 8; depth++)
			node = below(root, node, "compile", depth == 4 ? (int)count + 100 : depth);
		add(node, ZN_LEAF_CPU, 1, 10);
		*first = count ? *first : node;
	}
	return count;
}

/* What a program did before it began to work makes room for what it does then. */
T(cold_stacks_are_cut)
{
	uint32_t root, main_node, hot, hot_depth, late, first, count, generation, neighbour, other;
	uint64_t s;

	begin();
	neighbour = root_of(8, 1001);
	other = below(neighbour, below(neighbour, ZN_STACKS_NO_NODE, "main", 1), "cold", 2);
	add(other, ZN_LEAF_GPU, 1, 7);
	root = root_of(7, 1000);
	main_node = below(root, ZN_STACKS_NO_NODE, "main", 10);
	hot = below(root, below(root, below(root, main_node, "loop", 1), "step", 2), "launch", 3);
	hot_depth = depth_of(hot);
	zn_stacks_tick(stacks, 100 * S);
	count = fill(root, main_node, &first);
	CHECK(count > 1000);
	CHECK_EQ(depth_of(first), 8);
	for (s = 101; s < 155; s++) {
		add(hot, ZN_LEAF_LAUNCH, 1, 1);
		zn_stacks_tick(stacks, s * S);
	}
	generation = zn_stacks_generation(stacks);
	zn_stacks_room(stacks, s * S);
	CHECK_EQ(zn_stacks_generation(stacks), generation); /* not cold yet */
	for (; s < 175; s++) {
		add(hot, ZN_LEAF_LAUNCH, 1, 1);
		zn_stacks_tick(stacks, s * S);
	}
	CHECK_EQ(below(root, main_node, "late", 5), main_node);
	zn_stacks_room(stacks, s * S);
	CHECK_EQ(zn_stacks_generation(stacks), generation + 1);
	first = zn_stacks_moved(stacks, first);
	CHECK_EQ(depth_of(zn_stacks_moved(stacks, other)), 2); /* nobody pays for another */
	hot = zn_stacks_moved(stacks, hot);
	main_node = zn_stacks_moved(stacks, main_node);
	CHECK_EQ(depth_of(first), 4);
	CHECK_EQ(depth_of(hot), hot_depth);
	CHECK(zn_str_is(zn_stacks_function_at(stacks, zn_stacks_node_at(stacks, hot)->function).name, "launch"));
	late = below(root, main_node, "late", 5);
	CHECK_EQ(zn_stacks_node_at(stacks, late)->parent, main_node);
	add(late, ZN_LEAF_LAUNCH, 1, 1);
	add(first, ZN_LEAF_CPU, 1, 10);
	zn_stacks_show(stacks, 0, s * S);
	CHECK_EQ(shown(root, ZN_LEAF_CPU).count, count + 1);
	CHECK_EQ(shown(root, ZN_LEAF_CPU).value, 10 * (count + 1));
	CHECK_EQ(shown(root, ZN_LEAF_LAUNCH).count, 75);
	zn_stacks_show(stacks, 1000, s * S);
	CHECK_EQ(shown(root, ZN_LEAF_CPU).count, count + 1);
}

/* Who follows the nodes does so once after each look. */
T(what_has_ended_goes_before_what_is_cold)
{
	uint32_t ended, gone, root, main_node, hot, first, generation;
	struct zn_stacks_usage usage;
	uint64_t s;

	begin();
	ended = root_of(9, 0);
	gone = below(ended, ZN_STACKS_NO_NODE, "gone", 1);
	root = root_of(7, 1000);
	main_node = below(root, ZN_STACKS_NO_NODE, "main", 10);
	hot = below(root, below(root, main_node, "loop", 1), "launch", 3);
	zn_stacks_tick(stacks, 100 * S);
	fill(root, main_node, &first);
	zn_stacks_usage(stacks, &usage);
	for (uint32_t line = usage.nodes; line < ZN_STACKS_NODES / 8 * 7 + 2; line++)
		below(ended, gone, "more", (int)line);
	zn_stacks_root_at(stacks, ended)->ended_ns = 100 * S;
	for (s = 101; s < 175; s++) {
		add(hot, ZN_LEAF_LAUNCH, 1, 1);
		zn_stacks_tick(stacks, s * S);
	}
	CHECK_EQ(below(root, main_node, "late", 5), main_node);
	generation = zn_stacks_generation(stacks);
	for (uint32_t i = 1; i <= 2; i++) {
		zn_stacks_room(stacks, s * S);
		CHECK_EQ(zn_stacks_generation(stacks), generation + i);
		hot = zn_stacks_moved(stacks, hot);
		CHECK(zn_str_is(
			zn_stacks_function_at(stacks, zn_stacks_node_at(stacks, hot)->function).name, "launch"));
	}
}

/* Again and again: a stack that is cut ends as its outermost function, and no share is lost on the way. */
T(what_is_cut_is_given_back)
{
	struct zn_stacks_usage usage;
	uint32_t root, main_node, first, least = UINT32_MAX;
	uint64_t now = 100;

	begin();
	root = root_of(7, 1000);
	main_node = below(root, ZN_STACKS_NO_NODE, "main", 10);
	zn_stacks_tick(stacks, now * S);
	for (int turn = 0; turn < 12; turn++) {
		uint32_t count = fill(root, main_node, &first);

		least = count < least ? count : least;
		for (uint64_t end = now + 200; now < end; now += 5) {
			zn_stacks_tick(stacks, now * S);
			zn_stacks_room(stacks, now * S);
		}
	}
	zn_stacks_usage(stacks, &usage);
	CHECK(least > 1000);
	CHECK(usage.nodes < 10);
	CHECK_EQ(zn_stacks_moved(stacks, main_node), main_node); /* it was the first one */
}

/* Processes of a user as many as he can have at a time; they end at once, or live on. */
static uint32_t take_roots(uint32_t owner, uint64_t ended_ns)
{
	struct zn_stacks_root who = {.owner = owner, .ended_ns = ended_ns};
	uint32_t count = 0, generation = zn_stacks_generation(stacks);

	for (who.pid = who.id = 1000 * owner; count < 2 * ZN_STACKS_ROOTS; count++, who.pid++, who.id++)
		if (zn_stacks_root(stacks, &who, S) == ZN_STACKS_NO_ROOT || zn_stacks_generation(stacks) != generation)
			break;
	return count;
}

/* A user whose processes come and go, or stay, takes none from another one. */
T(processes_have_shares)
{
	begin();
	CHECK(take_roots(1000, S / 2) < ZN_STACKS_ROOTS);
	CHECK(root_of(7, 1001) != ZN_STACKS_NO_ROOT);
	begin();
	CHECK(take_roots(1000, 0) < ZN_STACKS_ROOTS);
	CHECK_EQ(root_of(6, 1000), ZN_STACKS_NO_ROOT);
	CHECK(root_of(7, 1001) != ZN_STACKS_NO_ROOT);
	CHECK(root_of(8, 1001) != ZN_STACKS_NO_ROOT);
}

/* What he has of processes that ended goes, those that ended first, and nobody else's; then it can be had again. */
T(own_ended_processes_go_first)
{
	uint32_t other, lasting, node, old, generation;

	begin();
	other = root_of(1, 1001);
	zn_stacks_root_at(stacks, other)->ended_ns = S - 2;
	add(below(other, ZN_STACKS_NO_NODE, "main", 1), ZN_LEAF_GPU, 1, 7);
	lasting = root_of(2, 1000);
	node = below(lasting, ZN_STACKS_NO_NODE, "main", 1);
	old = root_of(3, 1000);
	add(node, ZN_LEAF_GPU, 5, 50);
	CHECK(take_roots(1000, 0) > 100);
	CHECK_EQ(root_of(4, 1000), ZN_STACKS_NO_ROOT);
	generation = zn_stacks_generation(stacks);
	zn_stacks_root_at(stacks, old)->ended_ns = S - 1;
	CHECK_EQ(root_of(4, 1000), old); /* though it ended just now */
	CHECK_EQ(zn_stacks_generation(stacks), generation + 1);
	CHECK_EQ(root_of(5, 1000), ZN_STACKS_NO_ROOT);
	node = zn_stacks_moved(stacks, node);
	add(node, ZN_LEAF_GPU, 1, 10);
	zn_stacks_show(stacks, 0, S);
	CHECK_EQ(shown(lasting, ZN_LEAF_GPU).value, 60);
	CHECK_EQ(shown(other, ZN_LEAF_GPU).value, 7);
}

/* All of them do not go for one. */
T(of_own_ended_processes_the_newest_stay)
{
	uint32_t count, left = 0;

	begin();
	for (count = 0; !zn_stacks_generation(stacks) && count < ZN_STACKS_ROOTS; count++) {
		struct zn_stacks_root who = {
			.pid = count, .id = count, .owner = 1000, .ended_ns = 100 * S + 50 * S * count / 1024};

		zn_stacks_root(stacks, &who, who.ended_ns);
	}
	for (uint32_t i = 0; i < ZN_STACKS_ROOTS; i++)
		left += zn_stacks_root_at(stacks, i) != NULL;
	CHECK(count > 500);
	CHECK(left > count / 4 && left < count);
}

static uint32_t by_chance(uint32_t below_this)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(state >> 33) % below_this;
}

/* One stack of a process, with some thousand others that are like it; its sum goes up. */
static void add_by_chance(uint32_t root, struct zn_stack_sum *sum)
{
	uint32_t node = below(root, ZN_STACKS_NO_NODE, "main", 1), depth = 1 + by_chance(20);

	while (depth--)
		node = below(root, node, depth % 2 ? "odd" : "even", (int)(by_chance(20) ? 3 : by_chance(2000)));
	add(node, ZN_LEAF_GPU, 1, 3);
	sum->count++;
	sum->value += 3;
}

/* However often stacks are cut, and processes go: the sums of those that are there are what was added to them. */
T(sums_stay_what_they_are)
{
	enum { PROCESSES = 6 };
	struct zn_stack_sum sum[PROCESSES] = {{0}};
	uint32_t root[PROCESSES], generation;
	struct zn_stacks_usage usage;
	uint64_t s = 1000;

	begin();
	generation = zn_stacks_generation(stacks);
	for (uint32_t i = 0; i < PROCESSES; i++)
		root[i] = root_of(i + 1, i / 2);
	for (uint32_t turn = 0; turn < 400; turn++, s += 5) {
		for (uint32_t n = 0; n < 300; n++) {
			uint32_t i = by_chance(turn % 100 < 20 ? PROCESSES : 2);

			add_by_chance(root[i], &sum[i]);
		}
		zn_stacks_tick(stacks, s * S);
		zn_stacks_room(stacks, s * S);
		if (turn % 50)
			continue;
		zn_stacks_show(stacks, 0, s * S);
		for (uint32_t i = 0; i < PROCESSES; i++) {
			CHECK_EQ(shown(root[i], ZN_LEAF_GPU).count, sum[i].count);
			CHECK_EQ(shown(root[i], ZN_LEAF_GPU).value, sum[i].value);
		}
	}
	CHECK(zn_stacks_generation(stacks) > generation + 5);
	for (uint32_t i = 0; i < PROCESSES; i++)
		zn_stacks_root_at(stacks, root[i])->ended_ns = s * S;
	for (uint64_t line = 0, before = zn_stacks_lacked(stacks); zn_stacks_lacked(stacks) == before; line++)
		below(root[5], below(root[5], ZN_STACKS_NO_NODE, "main", 1), "last", (int)line);
	for (uint32_t i = 0; i + 1 < PROCESSES; i++)
		for (uint64_t line = 0, before = zn_stacks_lacked(stacks); zn_stacks_lacked(stacks) == before; line++)
			below(root[i], below(root[i], ZN_STACKS_NO_NODE, "main", 1), "last", (int)line);
	zn_stacks_room(stacks, (s + 100) * S);
	zn_stacks_usage(stacks, &usage);
	CHECK_EQ(usage.nodes + usage.functions + usage.bytes, 0); /* all was given back */
	CHECK(below(root_of(9, 0), ZN_STACKS_NO_NODE, "main", 1) != ZN_STACKS_NO_NODE);
}

static void samples_are_scaled(void)
{
	CHECK_EQ(zn_stacks_scale(10, 100, 100), 10);
	CHECK_EQ(zn_stacks_scale(10, 100, 103), 10);
	CHECK_EQ(zn_stacks_scale(100, 300, 150), 50);
	CHECK_EQ(zn_stacks_scale(10, 100, 0), 0);
	CHECK_EQ(zn_stacks_scale(10, 100, 399), 39);
	CHECK_EQ(zn_stacks_scale(10, 100, 4000), 40); /* too little is known about the rest */
	CHECK_EQ(zn_stacks_scale(0, 0, 5), 0);
	CHECK_EQ(zn_stacks_scale(1ULL << 60, 1ULL << 61, 1ULL << 62), 1ULL << 61);
}

int main(void)
{
	RUN(equal_stacks_are_one_node);
	RUN(the_last_seconds_are_shown);
	RUN(nobody_takes_it_from_others);
	RUN(a_process_without_room_has_its_sums);
	RUN(what_found_no_room_goes_with_its_process);
	RUN(an_amount_without_a_sum_is_its_callers);
	RUN(room_is_made);
	RUN(cold_stacks_are_cut);
	RUN(what_has_ended_goes_before_what_is_cold);
	RUN(what_is_cut_is_given_back);
	RUN(processes_have_shares);
	RUN(own_ended_processes_go_first);
	RUN(of_own_ended_processes_the_newest_stay);
	RUN(sums_stay_what_they_are);
	RUN(samples_are_scaled);
	zn_stacks_close(stacks);
	return t_end();
}
