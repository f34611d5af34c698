/* SPDX-License-Identifier: GPL-2.0 */
/*
 * naming.c: the functions and lines of a stack as the kernel has it, which become a node of the tree of
 * model/stacks.c. It reads the memory of the process, which may hold it up for as long as it likes: for how long it
 * has says zn_naming_held_ns().
 */
#include "zernel.h"
#include <string.h>
#include <unistd.h>

#define NAME_CHARS 256
#define NAME_BYTES (3 * NAME_CHARS)
#define FILE_BYTES (3 * ZN_PYTHON_TEXT)

void zn_naming_begin(struct zn_naming *n, uint32_t pid)
{
	__atomic_store_n(&n->reading_pid, pid, __ATOMIC_RELAXED);
	__atomic_store_n(&n->reading_ns, zn_now_ns(), __ATOMIC_RELEASE);
}

void zn_naming_end(struct zn_naming *n)
{
	__atomic_store_n(&n->reading_ns, 0, __ATOMIC_RELEASE);
}

uint64_t zn_naming_held_ns(struct zn_naming *n, uint32_t *pid)
{
	uint64_t since_ns = __atomic_load_n(&n->reading_ns, __ATOMIC_ACQUIRE), now_ns = zn_now_ns();

	*pid = __atomic_load_n(&n->reading_pid, __ATOMIC_RELAXED);
	return since_ns && now_ns > since_ns ? now_ns - since_ns : 0;
}

void zn_naming_open(struct zn_naming *n, const struct zn_arena *arena, struct zn_stacks *stacks)
{
	n->arena = arena;
	n->stacks = stacks;
	n->memory = -1;
}

void zn_naming_forget(struct zn_naming *n)
{
	memset(n->code, 0, sizeof(n->code));
}

void zn_naming_close(struct zn_naming *n)
{
	if (n->memory >= 0)
		close(n->memory);
	n->memory = -1;
	n->memory_id = 0;
}

/* What the process has in memory; it was opened while it lived, so it is no other one's. */
static bool memory_open(struct zn_naming *n, struct zn_walked *p, uint32_t row)
{
	if (n->memory_id == p->id)
		return n->memory >= 0;
	zn_naming_close(n);
	n->memory_id = p->id;
	n->memory = zn_python_memory(p->pid);
	if (n->memory >= 0 && !zn_naming_lives(n->arena, row, p->id)) {
		close(n->memory);
		n->memory = -1;
	}
	return n->memory >= 0;
}

static uint32_t place_of(uint32_t id, uint64_t key)
{
	return (uint32_t)((key ^ (uint64_t)id << 32) * 0x9e3779b97f4a7c15ULL >> 40);
}

static uint32_t function_put(
	struct zn_naming *n, struct zn_walked *p, struct zn_str name, struct zn_str file, int first)
{
	uint32_t function;

	zn_stacks_lock(n->stacks);
	function = zn_stacks_function(n->stacks, p->root, name, file, first);
	zn_stacks_unlock(n->stacks);
	return function;
}

static uint32_t function_word(struct zn_naming *n, struct zn_walked *p, const char *word)
{
	return function_put(n, p, zn_str_of(word), zn_str_of(""), 0);
}

/* False: its texts cannot be read, or are none. */
static bool function_read(struct zn_naming *n, struct zn_walked *p, const struct zn_python_code *is, uint32_t *function)
{
	char name[NAME_BYTES], file[FILE_BYTES];
	struct zn_out called = {.at = name, .cap = sizeof(name)}, in = {.at = file, .cap = sizeof(file)};

	if (!zn_python_text(&p->python, is->name, NAME_CHARS, false, &called) ||
		!zn_python_text(&p->python, is->file, ZN_PYTHON_TEXT, true, &in))
		return false;
	*function = function_put(n, p, (struct zn_str){name, called.len}, (struct zn_str){file, in.len}, is->first);
	return true;
}

static bool is_same_code(const struct zn_python_code *a, const struct zn_python_code *b)
{
	return a->name == b->name && a->file == b->file && a->lines == b->lines && a->first == b->first;
}

/* The function of a code object as it is now. False: there is none any more. */
static bool function_of(
	struct zn_naming *n, struct zn_walked *p, uint64_t code, struct zn_python_code *is, uint32_t *function)
{
	struct zn_naming_code *known = &n->code[place_of(p->id, code) & (ZN_NAMING_CODES - 1)];

	if (!zn_python_code(&p->python, code, is))
		return false;
	if (known->id == p->id && known->code == code && is_same_code(&known->is, is)) {
		*function = known->function;
		return true;
	}
	if (!function_read(n, p, is, function))
		return false;
	*known = (struct zn_naming_code){.id = p->id, .function = *function, .code = code, .is = *is};
	return true;
}

static int line_of(struct zn_naming *n, struct zn_walked *p, const struct zn_python_code *is, uint64_t word)
{
	struct zn_naming_line *known = &n->line[place_of(p->id, word) & (ZN_NAMING_LINES - 1)];

	if (known->id != p->id || known->word != word || known->lines != is->lines || known->first != is->first)
		*known = (struct zn_naming_line){.id = p->id,
			.word = word,
			.lines = is->lines,
			.first = is->first,
			.line = zn_python_line(&p->python, is, ZN_STACK_WORD_INDEX(word))};
	return known->line;
}

static void node_add(struct zn_naming *n, struct zn_walked *p, uint32_t function, int line, uint32_t *node)
{
	zn_stacks_lock(n->stacks);
	*node = zn_stacks_node(n->stacks, p->root, *node, function, line);
	zn_stacks_unlock(n->stacks);
}

static void frame_add(struct zn_naming *n, struct zn_walked *p, bool readable, uint64_t word, uint32_t *node)
{
	struct zn_python_code is;
	uint32_t function;
	int line = ZN_PYCODE_GONE;

	if (readable && (word & ZN_STACK_NO_INDEX) != ZN_STACK_NO_INDEX &&
		function_of(n, p, ZN_STACK_WORD_CODE(word), &is, &function))
		line = line_of(n, p, &is, word);
	if (line == ZN_PYCODE_GONE)
		function = function_word(n, p, "(gone)");
	node_add(n, p, function, line, node);
}

uint32_t zn_naming_node(struct zn_naming *n, struct zn_walked *p, uint32_t row, const struct zn_stack *s)
{
	uint32_t node = ZN_STACKS_NO_NODE, depth = s->depth < ZN_STACK_FRAMES ? s->depth : ZN_STACK_FRAMES;
	char thread[64];
	bool readable;

	if (p->root == ZN_STACKS_NO_ROOT)
		return node;
	zn_naming_begin(n, p->pid);
	readable = depth && memory_open(n, p, row);
	p->python.memory = n->memory;
	if (s->flags & ZN_STACK_DEEPER)
		node_add(n, p, function_word(n, p, "(deeper)"), ZN_PYCODE_GONE, &node);
	for (uint32_t i = depth; i--;)
		frame_add(n, p, readable, s->frame[i], &node);
	zn_naming_end(n);
	if (s->flags & ZN_STACK_THREAD) {
		struct zn_out o = {.at = thread, .cap = sizeof(thread)};

		zn_out_text(&o, "[thread ");
		zn_pycode_text(&o, (const uint8_t *)s->comm, strnlen(s->comm, sizeof(s->comm)), 1);
		zn_out_text(&o, "]");
		node_add(n, p, function_put(n, p, (struct zn_str){thread, o.len}, zn_str_of(""), 0), ZN_PYCODE_GONE,
			&node);
	} else if (!depth) {
		node_add(n, p, function_word(n, p, "(no function)"), ZN_PYCODE_GONE, &node);
	}
	return node;
}
