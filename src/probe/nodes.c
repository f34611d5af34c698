/* SPDX-License-Identifier: GPL-2.0 */
/*
 * nodes.c: the place of a stack in the tree of model/stacks.c, by the names of its functions. What is in a process's
 * memory another process reads for it (naming.c), so this may take long.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>
#include <bpf/bpf.h>

static uint32_t function_put(
	const struct zn_nodes *n, const struct zn_nodes_of *p, struct zn_str name, struct zn_str file, int first)
{
	uint32_t function;

	zn_stacks_lock(n->stacks);
	function = zn_stacks_function(n->stacks, p->root, name, file, first);
	zn_stacks_unlock(n->stacks);
	return function;
}

static uint32_t function_word(const struct zn_nodes *n, const struct zn_nodes_of *p, const char *word)
{
	return function_put(n, p, zn_str_of(word), zn_str_of(""), 0);
}

static void node_add(const struct zn_nodes *n, const struct zn_nodes_of *p, uint32_t function, int line, uint32_t *node)
{
	zn_stacks_lock(n->stacks);
	*node = zn_stacks_node(n->stacks, p->root, *node, function, line);
	zn_stacks_unlock(n->stacks);
}

/* From 3.13 on CPython puts a frame of its own between who makes an object and __init__: a code object without lines
 * (_Py_InitCleanup of Python/specialize.c), which tracebacks leave out too. */
static bool is_cleanup(const struct zn_naming_frame *f)
{
	return f->line == ZN_PYCODE_NO_LINE && zn_str_is(f->file, "__init__") && zn_str_is(f->name, "__init__");
}

static void frame_add(const struct zn_nodes *n, const struct zn_nodes_of *p, uint32_t i, uint32_t *node)
{
	struct zn_naming_frame f = zn_naming_frame(n->naming, i);
	uint32_t function;

	if (is_cleanup(&f))
		return;
	function =
		f.line == ZN_PYCODE_GONE ? function_word(n, p, "(gone)") : function_put(n, p, f.name, f.file, f.first);
	node_add(n, p, function, f.line, node);
}

/* Whether a stack's memory is still that of the process, or of a worker of it. It is asked before and after
 * the memory is read. */
bool zn_nodes_lives(const struct zn_nodes *n, const struct zn_nodes_of *p, uint32_t pid)
{
	struct zn_loader_worker worker;

	if (pid == p->pid)
		return zn_clock_lives(&n->probe->arena, p->row, p->id);
	return bpf_map_lookup_elem(n->probe->map_fd[ZN_MAP_WORKERS], &pid, &worker) == 0 && worker.id == p->id;
}

/* From the outermost function to the innermost one. */
static void frames_add(const struct zn_nodes *n, const struct zn_nodes_of *p, const struct zn_stack *s, uint32_t *node)
{
	uint32_t depth = s->depth < ZN_STACK_FRAMES ? s->depth : ZN_STACK_FRAMES;
	struct zn_naming_of of = {.pid = s->pid, .id = p->id, .owner = s->owner};
	int err = -ESRCH;

	if (depth && zn_nodes_lives(n, p, s->pid))
		err = zn_naming_ask(n->naming, &of, p->python, s);
	if (!err && !zn_nodes_lives(n, p, s->pid)) /* it ran another program meanwhile, or ended */
		err = -ESRCH;
	if (s->flags & ZN_STACK_DEEPER)
		node_add(n, p, function_word(n, p, "(deeper)"), ZN_PYCODE_GONE, node);
	if (!depth)
		return;
	if (err && err != -ESRCH)
		node_add(n, p, function_word(n, p, "(not read)"), ZN_PYCODE_GONE, node);
	for (uint32_t i = depth; i-- && !err;)
		frame_add(n, p, i, node);
	if (err == -ESRCH)
		node_add(n, p, function_word(n, p, "(gone)"), ZN_PYCODE_GONE, node);
}

/* And then the thread that called for it. */
uint32_t zn_nodes_stack(const struct zn_nodes *n, const struct zn_nodes_of *p, const struct zn_stack *s)
{
	uint32_t node = ZN_STACKS_NO_NODE;
	char thread[64];
	struct zn_out o = {.at = thread, .cap = sizeof(thread)};

	if (p->root == ZN_STACKS_NO_ROOT)
		return node;
	if (s->flags & ZN_STACK_WORKER)
		node_add(n, p, function_word(n, p, "[worker]"), ZN_PYCODE_GONE, &node);
	frames_add(n, p, s, &node);
	if (s->flags & ZN_STACK_THREAD) {
		zn_out_text(&o, "[thread ");
		zn_pycode_text(&o, (const uint8_t *)s->comm, strnlen(s->comm, sizeof(s->comm)), 1);
		zn_out_text(&o, "]");
		node_add(n, p, function_put(n, p, (struct zn_str){thread, o.len}, zn_str_of(""), 0), ZN_PYCODE_GONE,
			&node);
	} else if (!s->depth) {
		node_add(n, p, function_word(n, p, "(no function)"), ZN_PYCODE_GONE, &node);
	}
	return node;
}
