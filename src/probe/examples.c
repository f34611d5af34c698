/* SPDX-License-Identifier: GPL-2.0 */
/*
 * examples.c: an example of what is below a stack of Python functions: registers and the top of the stack, which BPF
 * copied once for that stack and cause (stacks.bpf.c), as the functions that they are of (native.c, in the process that
 * may be held up). The copy has the user's data: nobody shows it, and it is overwritten, in both of its places, once
 * its functions are found or it is given up. That is milliseconds later as a rule, 2 s where its user has to wait for
 * his turn, and up to 7 s more for each user who holds the reader up meanwhile.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define EXAMPLE_NS  (2 * ZN_NS_PER_S) /* a copy that was not read by then is let go of */
#define FAILED_MOST 4
#define OWNER_TIMES 20 /* as long as they took, nothing else of their owner is read */

int zn_examples_open(struct zn_examples *e, int fd)
{
	void *at;

	if (e->native || fd < 0)
		return 0;
	at = mmap(NULL, sizeof(*e->native) * ZN_NATIVES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	e->native = at;
	return 0;
}

void zn_examples_close(struct zn_examples *e)
{
	if (e->native)
		munmap(e->native, sizeof(*e->native) * ZN_NATIVES);
	e->native = NULL;
}

struct zn_native *zn_examples_next(struct zn_examples *e, uint32_t *i)
{
	while (e->native && *i < ZN_NATIVES) {
		struct zn_native *n = &e->native[(*i)++];

		if (__atomic_load_n(&n->state, __ATOMIC_ACQUIRE) == ZN_NATIVE_READY)
			return n;
	}
	return NULL;
}

void zn_examples_free(struct zn_native *n)
{
	explicit_bzero((char *)n + sizeof(n->state), sizeof(*n) - sizeof(n->state));
	__atomic_store_n(&n->state, ZN_NATIVE_FREE, __ATOMIC_RELEASE);
}

/* The first one is of all owners. */
bool zn_examples_may(const struct zn_examples *e, uint32_t owner, uint64_t now_ns)
{
	bool may = e->turn[0].until_ns <= now_ns;

	for (size_t i = 1; i < ZN_LEN(e->turn); i++)
		may &= e->turn[i].owner != owner || e->turn[i].until_ns <= now_ns;
	return may;
}

void zn_examples_spent(struct zn_examples *e, uint32_t owner, uint64_t begin_ns, uint64_t end_ns)
{
	struct zn_examples_turn *t = &e->turn[1];

	for (size_t i = 2; i < ZN_LEN(e->turn); i++)
		if (e->turn[i].until_ns < t->until_ns)
			t = &e->turn[i];
	*t = (struct zn_examples_turn){owner, end_ns + OWNER_TIMES * (end_ns - begin_ns)};
	e->turn[0].until_ns = end_ns + (end_ns - begin_ns);
}

/* False: there is no room. */
static bool add_node(struct zn_stacks *s, uint32_t root, const char *name, const char *file, uint32_t *node)
{
	uint32_t function = zn_stacks_function(s, root, zn_str_of(name), zn_str_of(file), 0), parent = *node;

	if (function == ZN_STACKS_NO_FUNCTION)
		return false;
	*node = zn_stacks_node(s, root, parent, function, ZN_PYCODE_NO_LINE);
	return *node != parent;
}

uint32_t zn_examples_add(struct zn_stacks *s, uint32_t root, uint32_t node, const struct zn_native_stack *n)
{
	bool ok = n->count && add_node(s, root, ZN_STACKS_EXAMPLE, "", &node);

	if (ok && n->truncated)
		ok = add_node(s, root, "(truncated)", "", &node);
	for (uint32_t i = n->count; ok && i--;)
		ok = add_node(s, root, n->frame[i].name, n->frame[i].file, &node);
	return ok ? node : ZN_STACKS_NO_NODE;
}

/* ---- Which example is of what. ---- */

void zn_examples_clear(struct zn_examples *e, uint32_t at)
{
	e->slot[at] = (struct zn_examples_slot){0};
}

void zn_examples_follow(struct zn_examples *e, const struct zn_stacks *s, uint32_t at)
{
	uint32_t *asleep = &e->slot[at].asleep;

	if (*asleep)
		*asleep = zn_stacks_moved(s, *asleep - 1) + 1; /* NO_NODE and 1 is 0 */
}

static bool is_sleep(int leaf)
{
	return leaf >= ZN_LEAF_DATA && leaf <= ZN_LEAF_OTHER && leaf != ZN_LEAF_RUNQUEUE;
}

/* A sleep's cause is known once it is over, as it is when nobody sleeps in this stack, or the thread does so again. If
 * all that was slept in it was for one cause, it was that one. */
void zn_examples_settle(
	struct zn_examples *e, struct zn_stacks *s, const struct zn_stack *stack, uint32_t at, uint32_t node)
{
	uint32_t *asleep = &e->slot[at].asleep, causes = 0;

	if (!*asleep ||
		(__atomic_load_n(&stack->users, __ATOMIC_ACQUIRE) &&
			__atomic_load_n(&stack->sleeper, __ATOMIC_ACQUIRE)))
		return;
	for (int leaf = 0; leaf < ZN_LEAF_COUNT; leaf++)
		if (is_sleep(leaf) && __atomic_load_n(&stack->leaf[leaf].count, __ATOMIC_RELAXED))
			causes |= 1u << leaf;
	if (causes && node != ZN_STACKS_NO_NODE) {
		if (!(causes & (causes - 1)) && !zn_stacks_has_example(s, node, __builtin_ctz(causes)))
			zn_stacks_put_example(s, node, __builtin_ctz(causes), *asleep - 1);
		else
			zn_stacks_drop_example(s, node, __builtin_ctz(causes));
	}
	*asleep = 0;
}

/* Not if each of its causes has one, or it was tried often enough: it sleeps for several causes in turn. */
static bool sleep_is_wanted(struct zn_stacks *s, uint32_t node)
{
	bool any = false, lack = false, lacks;
	uint32_t dropped, all = 0;

	for (int leaf = 0; leaf < ZN_LEAF_COUNT; leaf++) {
		if (!is_sleep(leaf))
			continue;
		any |= zn_stacks_find_example(s, node, leaf, &dropped, &lacks);
		lack |= lacks;
		all += dropped;
	}
	return (!any || lack) && all < FAILED_MOST;
}

static bool has_room(struct zn_stacks *s, uint32_t root)
{
	bool spares;

	zn_stacks_lock(s);
	spares = zn_stacks_root_at(s, root) && zn_stacks_spares(s, root);
	zn_stacks_unlock(s);
	return spares;
}

/* It would be given up before its owner's turn comes, too. */
bool zn_examples_in_vain(
	const struct zn_examples *e, const struct zn_examples_from *from, uint32_t root, uint32_t owner)
{
	return !zn_examples_may(e, owner, zn_now_ns() + EXAMPLE_NS) || zn_naming_waits(from->naming, owner) ||
		!has_room(from->stacks, root);
}

static bool is_wanted(
	struct zn_examples *e, struct zn_stacks *s, const struct zn_native *n, const struct zn_examples_whose *whose)
{
	bool wanted;

	if (n->leaf > ZN_NATIVE_SLEEP || (n->leaf == ZN_NATIVE_SLEEP && e->slot[n->at].asleep))
		return false;
	zn_stacks_lock(s);
	wanted = zn_stacks_spares(s, whose->root);
	if (n->leaf == ZN_NATIVE_SLEEP)
		wanted = wanted && sleep_is_wanted(s, whose->node);
	else
		wanted = wanted && n->leaf < ZN_LEAF_COUNT && !zn_stacks_has_example(s, whose->node, n->leaf);
	zn_stacks_unlock(s);
	return wanted;
}

/* Another one may be copied. */
static void copy_again(struct zn_examples *e, const struct zn_examples_from *from, const struct zn_native *n)
{
	if (e->slot[n->at].failed++ < FAILED_MOST)
		__atomic_fetch_and(&from->table[n->at].copied, ~(1u << n->leaf), __ATOMIC_ACQ_REL);
}

/* True: its functions are there. */
static bool read_functions(struct zn_examples *e, const struct zn_examples_from *from,
	const struct zn_examples_whose *whose, const struct zn_native *n, struct zn_native_stack *to)
{
	const struct zn_stack *s = &from->table[n->at];
	bool python = s->depth && !(s->flags & ZN_STACK_THREAD), ok;
	uint64_t begin_ns = zn_now_ns();

	ok = from->lives(from->owner, n->at) && !zn_naming_native(from->naming, &whose->of, n, python, to) &&
		from->lives(from->owner, n->at) && (to->count || !to->truncated);
	zn_examples_spent(e, whose->of.owner, begin_ns, zn_now_ns());
	return ok;
}

static void put_functions(struct zn_examples *e, const struct zn_examples_from *from,
	const struct zn_examples_whose *whose, const struct zn_native *n)
{
	static struct zn_native_stack functions;
	uint32_t example;

	if (!read_functions(e, from, whose, n, &functions)) {
		copy_again(e, from, n);
		return;
	}
	zn_stacks_lock(from->stacks);
	example = zn_examples_add(from->stacks, whose->root, whose->node, &functions);
	if (example != ZN_STACKS_NO_NODE && n->leaf == ZN_NATIVE_SLEEP)
		e->slot[n->at].asleep = example + 1;
	else if (example != ZN_STACKS_NO_NODE)
		zn_stacks_put_example(from->stacks, whose->node, n->leaf, example);
	zn_stacks_unlock(from->stacks);
}

/* False: it waits, until its stack is known and its owner may have something read again; but not for long. */
static bool take_copy(struct zn_examples *e, const struct zn_examples_from *from, const struct zn_native *n)
{
	uint64_t now_ns = zn_now_ns();
	bool is_old = now_ns - n->since_ns > EXAMPLE_NS, may;
	struct zn_examples_whose whose;

	if (!from->whose(from->owner, n->at, &whose))
		return is_old;
	if (n->hash != whose.hash || whose.node == ZN_STACKS_NO_NODE || !is_wanted(e, from->stacks, n, &whose))
		return true;
	may = zn_examples_may(e, whose.of.owner, now_ns);
	if (may)
		put_functions(e, from, &whose, n);
	else if (is_old)
		copy_again(e, from, n);
	return may || is_old;
}

void zn_examples_take(struct zn_examples *e, const struct zn_examples_from *from)
{
	struct zn_native *n;

	for (uint32_t i = 0; (n = zn_examples_next(e, &i));)
		if (n->at >= ZN_STACKS_MAX || take_copy(e, from, n))
			zn_examples_free(n);
}
