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
	RUN(room_is_made);
	RUN(samples_are_scaled);
	zn_stacks_close(stacks);
	return t_end();
}
