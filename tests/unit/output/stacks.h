/* SPDX-License-Identifier: GPL-2.0 */
/* stacks.h: two processes with a few stacks, for the tests of what is made of them. */
#ifndef STACKS_H
#define STACKS_H

#include "t.h"
#include "zernel.h"

#define PACKAGE "/v/site-packages/torch/nn.py"

static struct zn_stacks *stacks;
static struct zn_agg agg;
static struct zn_options options;
static struct zn_state state = {.agg = &agg, .options = &options, .node = "node1"};
static char text[1 << 16];
static uint32_t root[2];

/* Functions, outermost first, as "name file line"; the last one may have no file. */
static void add_stack(uint32_t of, enum zn_leaf leaf, uint64_t count, uint64_t value, const char *const *frame)
{
	uint32_t node = ZN_STACKS_NO_NODE;

	for (; *frame; frame++) {
		char name[64], file[128] = "";
		int line = 0;

		sscanf(*frame, "%63s %127s %d", name, file, &line);
		node = zn_stacks_node(
			stacks, of, node, zn_stacks_function(stacks, of, zn_str_of(name), zn_str_of(file), 1), line);
	}
	zn_stacks_add(stacks, node, leaf, &(struct zn_stack_sum){count, value});
}

#define STACK(of, leaf, count, value, ...)                                                                             \
	add_stack(root[of], leaf, count, value, (const char *const[]){__VA_ARGS__, NULL})

static void open_stacks(void)
{
	struct zn_stacks_root who = {
		.pid = 70, .id = 1, .start_ns = 800, .minor = 12, .comm = "train", .estimated = 1u << ZN_LEAF_LAUNCH};

	zn_stacks_close(stacks);
	if (zn_stacks_open(&stacks))
		T_FAIL("%s", "no memory");
	state.stacks = stacks;
	root[0] = zn_stacks_root(stacks, &who, zn_now_ns());
	who = (struct zn_stacks_root){.pid = 71, .id = 2, .minor = 12, .comm = "x\";\n"};
	root[1] = zn_stacks_root(stacks, &who, zn_now_ns());
	STACK(0, ZN_LEAF_GPU, 3, 600, "main /p/a.py 9", "step /p/a.py 5", "f " PACKAGE " 1");
	STACK(0, ZN_LEAF_GPU, 2, 100, "main /p/a.py 9", "step /p/a.py 5", "g " PACKAGE " 2");
	STACK(0, ZN_LEAF_LAUNCH, 40, 7, "main /p/a.py 9", "step /p/a.py 5", "[thread]");
	STACK(1, ZN_LEAF_GPU, 1, 300, "main /p/a.py 9", "other /p/b.py 7");
	STACK(1, ZN_LEAF_ALLOC, 1, 4096, "lib;rary " PACKAGE " 3");
}

static struct zn_str rendered(
	void (*render)(struct zn_out *o, const struct zn_state *s, const struct zn_stacks_query *q),
	struct zn_stacks_query q)
{
	struct zn_out o = {.at = text, .cap = sizeof(text) - 1};

	render(&o, &state, &q);
	text[o.len] = '\0';
	return (struct zn_str){text, o.len};
}

#define ALL ((struct zn_stacks_query){.leaf = ZN_LEAF_COUNT})

#endif
