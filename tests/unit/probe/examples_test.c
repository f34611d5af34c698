/* SPDX-License-Identifier: GPL-2.0 */
/*
 * examples_test.c: copies are overwritten when they are let go of; one owner's take a part of the time; and functions
 * of an example as nodes of the tree, which are there as a whole or not at all.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

#define MS ZN_NS_PER_MS

static struct zn_examples examples;

T(copies_are_overwritten)
{
	int fd = memfd_create("natives", 0);
	struct zn_native *n;
	uint32_t i = 0;

	CHECK_EQ(ftruncate(fd, sizeof(*n) * ZN_NATIVES), 0);
	CHECK_EQ(zn_examples_open(&examples, fd), 0);
	close(fd);
	CHECK(!zn_examples_next(&examples, &i));
	memset(&examples.native[5], 0x55, sizeof(*n));
	examples.native[5].state = ZN_NATIVE_READY;
	examples.native[6].state = ZN_NATIVE_BUSY;
	i = 0;
	n = zn_examples_next(&examples, &i);
	CHECK(n == &examples.native[5]);
	CHECK(!zn_examples_next(&examples, &i));
	zn_examples_free(n);
	for (size_t byte = 0; byte < sizeof(*n); byte++)
		if (((char *)n)[byte])
			T_FAIL("byte %zu is left", byte);
	zn_examples_close(&examples);
	zn_examples_close(&examples);
	i = 0;
	CHECK(!zn_examples_next(&examples, &i));
}

T(nothing_is_copied)
{
	uint32_t i = 0;

	CHECK_EQ(zn_examples_open(&examples, -1), 0);
	CHECK(!zn_examples_next(&examples, &i));
}

T(owners_take_turns)
{
	struct zn_examples e = {0};

	CHECK(zn_examples_may(&e, 1000, 1000 * MS));
	zn_examples_spent(&e, 1000, 1000 * MS, 1100 * MS);
	CHECK(!zn_examples_may(&e, 1001, 1199 * MS)); /* half of the time for all */
	CHECK(zn_examples_may(&e, 1001, 1200 * MS));
	CHECK(!zn_examples_may(&e, 1000, 3099 * MS));
	CHECK(zn_examples_may(&e, 1000, 3100 * MS));
	for (uint32_t i = 0; i < 100; i++)
		zn_examples_spent(&e, 2000 + i, 4000 * MS + i, 4001 * MS + i);
	CHECK(zn_examples_may(&e, 1000, 4100 * MS)); /* more than are remembered */
	CHECK(!zn_examples_may(&e, 2099, 4010 * MS));
}

static struct zn_stacks *stacks;
static struct zn_native_stack functions;

static uint32_t begin_tree(uint32_t *root)
{
	zn_stacks_close(stacks);
	CHECK_EQ(zn_stacks_open(&stacks), 0);
	*root = zn_stacks_root(stacks, &(struct zn_stacks_root){.pid = 7, .id = 7, .owner = 1000}, ZN_NS_PER_S);
	return zn_stacks_node(stacks, *root, ZN_STACKS_NO_NODE,
		zn_stacks_function(stacks, *root, zn_str_of("step"), zn_str_of("/p/a.py"), 1), 5);
}

static void expect_function(uint32_t *node, const char *name, const char *file)
{
	const struct zn_stacks_node *n = zn_stacks_node_at(stacks, *node);
	struct zn_stacks_function f = zn_stacks_function_at(stacks, n->function);

	CHECK_MEM(f.name.at, f.name.len, name, strlen(name));
	CHECK_MEM(f.file.at, f.file.len, file, strlen(file));
	*node = n->parent;
}

static void fill_functions(uint32_t count)
{
	functions.count = count;
	for (uint32_t i = 0; i < count; i++) {
		snprintf(functions.frame[i].name, sizeof(functions.frame[i].name), "f%u", i);
		snprintf(functions.frame[i].file, sizeof(functions.frame[i].file), "libx.so");
	}
}

T(functions_are_nodes)
{
	uint32_t root, node = begin_tree(&root), example;
	struct zn_stacks_shown s;

	fill_functions(2);
	functions.truncated = 1;
	example = zn_examples_add(stacks, root, node, &functions);
	CHECK(!zn_stacks_has_example(stacks, node, ZN_LEAF_GPU));
	zn_stacks_put_example(stacks, node, ZN_LEAF_GPU, example);
	CHECK(zn_stacks_has_example(stacks, node, ZN_LEAF_GPU) && !zn_stacks_has_example(stacks, node, ZN_LEAF_CPU));
	zn_stacks_show(stacks, 0, ZN_NS_PER_S);
	CHECK(zn_stacks_shown(stacks, 0, &s) && s.node == node && s.example == example);
	CHECK(!zn_stacks_shown(stacks, 1, &s)); /* who asks for it enters nothing */
	expect_function(&example, "f0", "libx.so");
	expect_function(&example, "f1", "libx.so");
	expect_function(&example, "(truncated)", "");
	expect_function(&example, ZN_STACKS_EXAMPLE, "");
	CHECK_EQ(example, node);
	functions.count = 0;
	CHECK_EQ(zn_examples_add(stacks, root, node, &functions), ZN_STACKS_NO_NODE);
}

/* What is before them goes, and all have other numbers. */
T(examples_move_with_their_nodes)
{
	uint32_t first, second, node = begin_tree(&first), example;
	struct zn_stacks_root other = {.pid = 9, .id = 9, .owner = 1100, .ended_ns = ZN_NS_PER_S};
	struct zn_stacks_shown s;

	for (int line = 1; line < 1000; line++)
		zn_stacks_node(stacks, first, node, 0, line);
	second = zn_stacks_root(stacks, &(struct zn_stacks_root){.pid = 8, .id = 8, .owner = 1001}, ZN_NS_PER_S);
	node = zn_stacks_node(stacks, second, ZN_STACKS_NO_NODE,
		zn_stacks_function(stacks, second, zn_str_of("main"), zn_str_of("/p/b.py"), 1), 5);
	fill_functions(3);
	functions.truncated = 0;
	example = zn_examples_add(stacks, second, node, &functions);
	CHECK(example != ZN_STACKS_NO_NODE);
	zn_stacks_put_example(stacks, node, ZN_LEAF_CPU, example);
	zn_stacks_root_at(stacks, first)->ended_ns = ZN_NS_PER_S;
	while (!zn_stacks_generation(stacks) && zn_stacks_root(stacks, &other, 1000 * ZN_NS_PER_S) != ZN_STACKS_NO_ROOT)
		;
	CHECK_EQ(zn_stacks_generation(stacks), 1);
	CHECK_EQ(zn_stacks_moved(stacks, node), 0);
	zn_stacks_show(stacks, 0, 1000 * ZN_NS_PER_S);
	CHECK(zn_stacks_shown(stacks, 0, &s) && s.node == 0);
	expect_function(&s.example, "f0", "libx.so");
	expect_function(&s.example, "f1", "libx.so");
	expect_function(&s.example, "f2", "libx.so");
	expect_function(&s.example, ZN_STACKS_EXAMPLE, "");
	CHECK_EQ(s.example, 0);
}

T(without_room_there_is_none)
{
	uint32_t root, node = begin_tree(&root), none = 0;

	fill_functions(40);
	for (int line = 1; line < ZN_STACKS_NODES; line++)
		zn_stacks_node(stacks, root, node, 0, line);
	for (uint32_t i = 0; i < 3; i++)
		none += zn_examples_add(stacks, root, node, &functions) == ZN_STACKS_NO_NODE;
	CHECK_EQ(none, 3);
	CHECK(!zn_stacks_has_example(stacks, node, ZN_LEAF_GPU));
	for (uint32_t below = node + 1; below < 2000; below++)
		for (int leaf = 0; leaf < ZN_LEAF_COUNT; leaf++)
			zn_stacks_add(stacks, below, leaf, &(struct zn_stack_sum){1, 1});
	CHECK(zn_stacks_has_example(stacks, node, ZN_LEAF_GPU)); /* there would be nothing that it is of */
}

/* As many nodes, or functions, as find room. */
static uint32_t count_room(uint32_t root, uint32_t node, bool functions_too)
{
	uint32_t count = 0, function = 0;
	char name[32];

	for (;; count++) {
		snprintf(name, sizeof(name), "python%u", count);
		if (functions_too)
			function = zn_stacks_function(stacks, root, zn_str_of(name), zn_str_of("/p/a.py"), 1);
		if (function == ZN_STACKS_NO_FUNCTION ||
			zn_stacks_node(stacks, root, node, function, (int)count + 100) == node)
			return count;
	}
}

/* Examples that are all different take no more than two thirds of what their owner can have. */
static uint32_t fill_with_examples(bool names, uint32_t *root)
{
	uint32_t node = begin_tree(root), parent = node, examples_added = 0;

	fill_functions(ZN_NATIVE_FRAMES);
	for (; zn_stacks_spares(stacks, *root); examples_added++) {
		for (uint32_t i = 0; names && i < ZN_NATIVE_FRAMES; i++)
			snprintf(functions.frame[i].name, sizeof(functions.frame[i].name), "f%u_%u", i, examples_added);
		parent = zn_stacks_node(stacks, *root, node, 0, (int)examples_added + 1);
		CHECK(zn_examples_add(stacks, *root, parent, &functions) != ZN_STACKS_NO_NODE);
	}
	CHECK(examples_added > 10);
	return node;
}

T(a_third_stays_for_what_is_counted)
{
	uint32_t root, node = fill_with_examples(false, &root), most = ZN_STACKS_NODES / 16 * 15 / 2;

	CHECK(count_room(root, node, false) >= most / 3);
	node = fill_with_examples(true, &root);
	most = ZN_STACKS_FUNCTIONS / 16 * 15 / 2;
	CHECK(count_room(root, node, true) >= most / 3);
	CHECK(!zn_stacks_spares(stacks, root));
}

/* ---- Which copies are read: a stand-in for who reads them. ---- */

static struct zn_stack table[ZN_STACKS_MAX];
static struct zn_examples_whose whose;
static uint32_t reads;

int zn_naming_native(struct zn_naming *n, const struct zn_naming_of *of, const struct zn_native *copied, bool python,
	struct zn_native_stack *to)
{
	(void)n, (void)of, (void)copied, (void)python;
	reads++;
	*to = functions;
	return 0;
}

static bool waits;

bool zn_naming_waits(struct zn_naming *n, uint32_t owner)
{
	(void)n, (void)owner;
	return waits;
}

static bool say_whose(void *owner, uint32_t at, struct zn_examples_whose *to)
{
	(void)owner, (void)at;
	*to = whose;
	return true;
}

static bool say_alive(void *owner, uint32_t at)
{
	(void)owner, (void)at;
	return true;
}

static void begin_copies(void)
{
	int fd = memfd_create("natives", 0);

	CHECK_EQ(ftruncate(fd, sizeof(struct zn_native) * ZN_NATIVES), 0);
	zn_examples_close(&examples);
	CHECK_EQ(zn_examples_open(&examples, fd), 0);
	close(fd);
	memset(table, 0, sizeof(table));
	whose.hash = 5;
	whose.node = begin_tree(&whose.root);
	fill_functions(3);
}

/* A stack in a new slot, of which a copy was made. Whether it was read. */
static bool is_read(uint32_t leaf)
{
	uint32_t before = reads;

	memset(examples.turn, 0, sizeof(examples.turn));
	zn_examples_clear(&examples, 3);
	examples.native[0] =
		(struct zn_native){.state = ZN_NATIVE_READY, .at = 3, .hash = 5, .leaf = leaf, .since_ns = zn_now_ns()};
	zn_examples_take(&examples,
		&(struct zn_examples_from){.stacks = stacks, .table = table, .whose = say_whose, .lives = say_alive});
	CHECK_EQ(examples.native[0].state, ZN_NATIVE_FREE);
	return reads > before;
}

static void add_once(enum zn_leaf leaf)
{
	zn_stacks_add(stacks, whose.node, leaf, &(struct zn_stack_sum){1, 1000});
}

T(a_cause_is_read_once)
{
	begin_copies();
	CHECK(is_read(ZN_LEAF_GPU));
	CHECK(!is_read(ZN_LEAF_GPU));
	CHECK(is_read(ZN_LEAF_CPU));
	CHECK(!is_read(ZN_LEAF_COUNT) && !is_read(ZN_NATIVE_SLEEP + 1));
}

/* A slot lives for some seconds; the stack that is in the next one is the same place in the tree. */
T(a_sleep_is_read_once)
{
	begin_copies();
	CHECK(is_read(ZN_NATIVE_SLEEP));
	CHECK(examples.slot[3].asleep);
	table[3].leaf[ZN_LEAF_IO] = (struct zn_stack_sum){1, 1000};
	add_once(ZN_LEAF_IO);
	zn_examples_settle(&examples, stacks, &table[3], 3, whose.node);
	CHECK(zn_stacks_has_example(stacks, whose.node, ZN_LEAF_IO));
	CHECK(!is_read(ZN_NATIVE_SLEEP));
	CHECK(is_read(ZN_LEAF_GPU));
	add_once(ZN_LEAF_OTHER); /* another cause, which has none: tried, but not for good */
	for (int i = 0; i < 4; i++) {
		CHECK(is_read(ZN_NATIVE_SLEEP));
		zn_examples_settle(&examples, stacks, &table[3], 3, whose.node);
	}
	CHECK(!is_read(ZN_NATIVE_SLEEP));
}

static void settle(void)
{
	zn_examples_settle(&examples, stacks, &table[3], 3, whose.node);
	CHECK(!examples.slot[3].asleep);
}

/* It takes turns, so the cause of a copied one is not known; as that may change, it is tried some times. */
T(a_sleep_of_two_causes_is_read_some_times)
{
	begin_copies();
	add_once(ZN_LEAF_OTHER);
	add_once(ZN_LEAF_DATA);
	table[3].leaf[ZN_LEAF_OTHER] = table[3].leaf[ZN_LEAF_DATA] = (struct zn_stack_sum){1, 1000};
	for (int i = 0; i < 4; i++) {
		CHECK(is_read(ZN_NATIVE_SLEEP));
		settle();
	}
	CHECK(!is_read(ZN_NATIVE_SLEEP) && is_read(ZN_LEAF_GPU));
}

/* It was blocked on files at first. */
T(a_sleep_of_one_cause_by_now)
{
	begin_copies();
	add_once(ZN_LEAF_OTHER);
	add_once(ZN_LEAF_IO);
	table[3].leaf[ZN_LEAF_OTHER] = table[3].leaf[ZN_LEAF_IO] = (struct zn_stack_sum){1, 1000};
	CHECK(is_read(ZN_NATIVE_SLEEP));
	settle();
	CHECK(!zn_stacks_has_example(stacks, whose.node, ZN_LEAF_OTHER));
	table[3].leaf[ZN_LEAF_IO] = (struct zn_stack_sum){0};
	table[3].leaf[ZN_LEAF_RUNQUEUE] = (struct zn_stack_sum){1, 1000};
	CHECK(is_read(ZN_NATIVE_SLEEP));
	settle();
	CHECK(zn_stacks_has_example(stacks, whose.node, ZN_LEAF_OTHER));
}

/* Who asks enters nothing. */
T(what_is_asked_for_is_not_entered)
{
	struct zn_stacks_shown s;
	uint32_t dropped = 7;
	bool lacks = true;

	begin_copies();
	zn_stacks_drop_example(stacks, whose.node, ZN_LEAF_IO);
	CHECK(!zn_stacks_find_example(stacks, whose.node, ZN_LEAF_IO, &dropped, &lacks) && dropped == 0 && !lacks);
	CHECK(!zn_stacks_has_example(stacks, whose.node, ZN_LEAF_IO));
	CHECK(!zn_stacks_shown(stacks, 0, &s));
	add_once(ZN_LEAF_IO);
	zn_stacks_drop_example(stacks, whose.node, ZN_LEAF_IO);
	CHECK(!zn_stacks_find_example(stacks, whose.node, ZN_LEAF_IO, &dropped, &lacks) && dropped == 1 && lacks);
	zn_stacks_put_example(stacks, whose.node, ZN_LEAF_IO, whose.node);
	CHECK(zn_stacks_find_example(stacks, whose.node, ZN_LEAF_IO, &dropped, &lacks));
}

/* Nothing is copied of whom nothing is read: held up, his turn is far away, or he has his share. */
T(nothing_is_copied_in_vain)
{
	struct zn_examples_from from = {.stacks = stacks};
	uint64_t now_ns = zn_now_ns();

	begin_copies();
	from.stacks = stacks;
	memset(examples.turn, 0, sizeof(examples.turn));
	CHECK(!zn_examples_in_vain(&examples, &from, whose.root, 1000));
	waits = true;
	CHECK(zn_examples_in_vain(&examples, &from, whose.root, 1000));
	waits = false;
	zn_examples_spent(&examples, 1000, now_ns, now_ns + 40 * MS); /* for a turn of 0.8 s it waits */
	CHECK(!zn_examples_in_vain(&examples, &from, whose.root, 1000));
	zn_examples_spent(&examples, 1000, now_ns, now_ns + 1000 * MS);
	CHECK(zn_examples_in_vain(&examples, &from, whose.root, 1000));
	CHECK(!zn_examples_in_vain(&examples, &from, whose.root, 1001));
	memset(examples.turn, 0, sizeof(examples.turn));
	for (int line = 1; zn_stacks_spares(stacks, whose.root); line++)
		zn_stacks_node(stacks, whose.root, whose.node, 0, line);
	CHECK(zn_examples_in_vain(&examples, &from, whose.root, 1000));
	CHECK(zn_examples_in_vain(&examples, &from, ZN_STACKS_NO_ROOT, 1000));
}

T(without_room_nothing_is_read)
{
	begin_copies();
	for (int line = 1; zn_stacks_spares(stacks, whose.root); line++)
		zn_stacks_node(stacks, whose.root, whose.node, 0, line);
	CHECK(!is_read(ZN_LEAF_GPU) && !is_read(ZN_NATIVE_SLEEP));
	zn_examples_close(&examples);
	zn_stacks_close(stacks);
	stacks = NULL;
}

int main(void)
{
	RUN(copies_are_overwritten);
	RUN(nothing_is_copied);
	RUN(owners_take_turns);
	RUN(functions_are_nodes);
	RUN(examples_move_with_their_nodes);
	RUN(without_room_there_is_none);
	RUN(a_third_stays_for_what_is_counted);
	RUN(a_cause_is_read_once);
	RUN(a_sleep_is_read_once);
	RUN(a_sleep_of_two_causes_is_read_some_times);
	RUN(a_sleep_of_one_cause_by_now);
	RUN(what_is_asked_for_is_not_entered);
	RUN(nothing_is_copied_in_vain);
	RUN(without_room_nothing_is_read);
	return t_end();
}
