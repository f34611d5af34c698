/* SPDX-License-Identifier: GPL-2.0 */
/*
 * walker.c: from stacks as the kernel has them to functions and lines. Ten times a second a thread of its own looks for
 * new processes with Python, and names the functions of new stacks while those can still be asked; each second it takes
 * what was added to the tree of model/stacks.c. What is in a process's memory another process reads for it (naming.c).
 *
 * A slot of the kernel's table is given back when nothing was added for a while, and at the latest after some seconds:
 * then its functions are looked up anew, for code that was freed may have become other code.
 */
#include "zernel.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUND_MS  ZN_WALKER_ROUND_MS
#define REST_MS   1000 /* while no process is tracked */
#define GATHER_MS 5    /* new stacks that come together are looked at together */
#define TAKE_NS   ZN_NS_PER_S
#define IDLE_NS   (3 * ZN_NS_PER_S)
#define AGE_NS    (10 * ZN_NS_PER_S)
#define TRIES     12 /* of finding Python, each twice as late as the one before */
#define NOT_ASKED 8  /* as after so many, while nobody can be asked: each 26 s, and they are not used up */
#define STOP_S    5
#define NO_ROOT   "its user, or all users, have as many processes with stacks as there is room for; it is tried again"

/* What is known of the process of a row. */
struct process {
	uint32_t id, pid, root, tries;
	bool there, plain; /* plain: it has no Python, and what its threads do is told without */
	uint8_t minor;
	int error;                 /* of the last try */
	uint64_t next_ns, root_ns; /* root_ns: when a root is looked for again */
	uint32_t root_tries;
	struct zn_every every;
	uint64_t cpu_ns; /* what it had been on CPUs when it was found */
	struct zn_stack_sum missed[ZN_MISSED_COUNT][ZN_LEAF_COUNT], workers_missed[ZN_MISSED_COUNT];
	struct zn_stack_sum sampled[ZN_LEAF_COUNT], due[ZN_LEAF_COUNT]; /* in this tick: by stack; exactly */
	struct zn_stack_sum told[ZN_LEAF_COUNT];                        /* since it was found */
	struct zn_python_process python;
	char why[96];
};

struct slot {
	bool used, leaving;
	bool folded; /* node is above what it should be: there was no room */
	uint32_t node;
	uint64_t hash, changed_ns;
	struct zn_stack_sum last[ZN_LEAF_COUNT];
};

struct zn_walker {
	struct zn_probe *probe;
	struct zn_naming *naming;
	struct zn_examples examples;
	struct zn_clocks clocks;
	struct zn_stacks *stacks;
	pthread_t thread;
	bool running;
	int stop_fd, wake_fd;
	struct zn_stack *table; /* of the kernel; NULL: no process had Python yet */
	struct zn_python *row;
	pthread_mutex_t lock; /* over what is shown of process[] */
	struct process process[ZN_PROCS_MAX];
	struct slot slot[ZN_STACKS_MAX];
	uint32_t used; /* slots */
	uint64_t pending[ZN_STACKS_MAX / 64];
	uint32_t generation;
	bool roomier; /* there is room since */
	uint64_t taken_ns, adapted_ns;
};

static struct zn_walker the_walker; /* large, and there is one daemon in a process */

uint32_t zn_walker_held(struct zn_walker *w)
{
	return zn_naming_held(w->naming);
}

/* ---- Processes. ---- */

/* The tables of the kernel as memory, once they are needed. */
static bool tables_map(struct zn_walker *w)
{
	void *at;
	int err;

	if (w->table)
		return true;
	at = mmap(NULL, sizeof(*w->row) * ZN_PROCS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED,
		w->probe->map_fd[ZN_MAP_PYTHONS], 0);
	if (at == MAP_FAILED)
		return false;
	w->row = at;
	at = mmap(NULL, sizeof(*w->table) * ZN_STACKS_MAX, PROT_READ | PROT_WRITE, MAP_SHARED,
		w->probe->map_fd[ZN_MAP_STACKS], 0);
	if (at == MAP_FAILED) {
		munmap(w->row, sizeof(*w->row) * ZN_PROCS_MAX);
		w->row = NULL;
		return false;
	}
	w->table = at;
	err = zn_examples_open(&w->examples, w->probe->natives_fd);
	if (err)
		zn_log(ZN_WARN, "stacks: cannot map the table of native stacks: %s", strerror(-err));
	return true;
}

static bool row_lives(const struct zn_walker *w, uint32_t row, uint32_t id)
{
	return zn_clock_lives(&w->probe->arena, row, id);
}

static void root_open(struct zn_walker *w, struct process *p, uint32_t row, uint64_t now_ns)
{
	const struct zn_proc *proc = &w->probe->arena.procs[row];
	struct zn_stacks_root root = {.pid = p->pid,
		.id = p->id,
		.owner = proc->owner,
		.job = proc->job,
		.minor = p->minor,
		.start_ns = zn_start_ns((int)p->pid),
		.estimated = 1u << ZN_LEAF_CPU};
	uint32_t at;

	memcpy(root.comm, proc->comm, sizeof(root.comm));
	zn_stacks_lock(w->stacks);
	at = zn_stacks_root(w->stacks, &root, now_ns);
	zn_stacks_unlock(w->stacks);
	pthread_mutex_lock(&w->lock);
	p->root = at;
	p->root_ns = now_ns + ((uint64_t)ROUND_MS << p->root_tries) * ZN_NS_PER_MS;
	p->root_tries += p->root_tries < NOT_ASKED;
	pthread_mutex_unlock(&w->lock);
}

/* ---- Finding Python. ---- */

/* BPF walks the process's stacks from here on. */
static void row_open(struct zn_walker *w, struct process *p, uint32_t row)
{
	struct zn_python *r = &w->row[row];

	__atomic_store_n(&r->id, 0, __ATOMIC_SEQ_CST);
	memset((char *)r + sizeof(r->id), 0, sizeof(*r) - sizeof(r->id));
	memcpy((char *)r + sizeof(r->id), (char *)&p->python.row + sizeof(r->id), sizeof(*r) - sizeof(r->id));
	r->every[ZN_EVERY_LAUNCH] = r->every[ZN_EVERY_OTHER] = 1;
	r->every[ZN_EVERY_SLEEP] = w->probe->walker_fd[ZN_WALKER_SLEEPS] >= 0;
	__atomic_store_n(&r->id, p->id, __ATOMIC_RELEASE);
	__atomic_fetch_or(&w->probe->arena.procs[row].calls, ZN_HAS_PYTHON, __ATOMIC_RELEASE);
}

static int python_find(struct zn_walker *w, struct process *p, uint32_t row, char why[ZN_TEXT_MAX])
{
	struct zn_naming_of of = {.pid = p->pid, .id = p->id, .owner = w->probe->arena.procs[row].owner};
	int err = zn_naming_find(w->naming, &of, &p->python, why);

	return !err && !row_lives(w, row, p->id) ? -ESRCH : err;
}

static void slots_move(struct zn_walker *w, uint32_t row);
static void slots_new(struct zn_walker *w, uint64_t now_ns);
static void process_end(struct zn_walker *w, struct process *p, uint32_t row, uint64_t now_ns);
static void process_begin(struct zn_walker *w, struct process *p, uint32_t id, uint32_t pid);

/* A process without Python has its threads' names, and examples of what is below them. It may come to have one. */
static int plain_try(struct zn_walker *w, struct process *p, uint32_t row, int err, uint64_t now_ns)
{
	if (err != -ENOENT || w->probe->natives_fd < 0) {
		if (!err && p->plain) {
			struct zn_python_process found = p->python;

			process_end(w, p, row, now_ns);
			process_begin(w, p, w->probe->arena.procs[row].id, found.pid);
			p->python = found;
		}
		return err;
	}
	if (p->plain || !row_lives(w, row, p->id))
		return err;
	p->python = (struct zn_python_process){.pid = p->pid};
	p->plain = true;
	return 0;
}

static void python_try(struct zn_walker *w, struct process *p, uint32_t row, uint64_t now_ns)
{
	char why[ZN_TEXT_MAX] = "";
	int err;

	p->next_ns = now_ns + ((uint64_t)ROUND_MS << p->tries++) * ZN_NS_PER_MS;
	err = plain_try(w, p, row, python_find(w, p, row, why), now_ns);
	if (err == -EBUSY && p->tries > NOT_ASKED)
		p->tries = NOT_ASKED;
	if (err && p->plain)
		return;
	if (!err && !tables_map(w))
		err = -ENOMEM;
	pthread_mutex_lock(&w->lock);
	p->error = err;
	p->minor = p->python.minor;
	p->there = err == 0;
	snprintf(p->why, sizeof(p->why), "%.95s", why);
	pthread_mutex_unlock(&w->lock);
	if (err)
		return;
	p->cpu_ns = zn_clock_cpu_ns(p->pid);
	row_open(w, p, row);
	root_open(w, p, row, now_ns); /* it is shown from here on */
	slots_move(w, row);
	zn_clocks_begin(&w->clocks, p->pid);
	if (p->plain)
		zn_log(ZN_DEBUG, "stacks: process %u: without Python", p->pid);
	else
		zn_log(ZN_DEBUG, "stacks: process %u: CPython 3.%u", p->pid, p->minor);
}

static void missed_take(struct zn_walker *w, struct process *p, uint32_t row);

/* What it did last has a place while it is known whose that is. */
static void process_end(struct zn_walker *w, struct process *p, uint32_t row, uint64_t now_ns)
{
	struct zn_stacks_root *root;

	if (p->there) {
		slots_new(w, now_ns);
		zn_stacks_lock(w->stacks);
		memset(p->sampled, 0, sizeof(p->sampled)); /* what is left is told as it was sampled */
		memset(p->due, 0, sizeof(p->due));
		missed_take(w, p, row);
		root = zn_stacks_root_at(w->stacks, p->root);
		if (root)
			root->ended_ns = now_ns;
		zn_stacks_unlock(w->stacks);
		__atomic_store_n(&w->row[row].id, 0, __ATOMIC_SEQ_CST);
		zn_clocks_end(&w->clocks);
	}
	pthread_mutex_lock(&w->lock);
	*p = (struct process){0};
	pthread_mutex_unlock(&w->lock);
}

static void process_begin(struct zn_walker *w, struct process *p, uint32_t id, uint32_t pid)
{
	pthread_mutex_lock(&w->lock);
	*p = (struct process){.id = id, .pid = pid, .root = ZN_STACKS_NO_ROOT};
	pthread_mutex_unlock(&w->lock);
}

/* The loop maps a row before it uses it; a process that is so new that it did not yet is looked at in the next
 * round. */
static void rows_look(struct zn_walker *w, uint64_t now_ns)
{
	struct zn_arena *a = &w->probe->arena;

	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		uint32_t tgid = __atomic_load_n(&a->shared->row_tgid[row], __ATOMIC_ACQUIRE);
		uint8_t mapped = __atomic_load_n(&a->proc_mapped[row / 8], __ATOMIC_ACQUIRE);
		struct process *p = &w->process[row];
		uint32_t id =
			tgid && mapped >> (row % 8) & 1 ? __atomic_load_n(&a->procs[row].id, __ATOMIC_ACQUIRE) : 0;

		if (p->id && p->id != id)
			process_end(w, p, row, now_ns);
		if (!id)
			continue;
		if (!p->id)
			process_begin(w, p, id, tgid);
		if ((!p->there || p->plain) && p->tries < TRIES && p->next_ns <= now_ns && row_lives(w, row, id))
			python_try(w, p, row, now_ns);
		if (p->there && p->root == ZN_STACKS_NO_ROOT && p->root_ns <= now_ns && row_lives(w, row, id)) {
			root_open(w, p, row, now_ns);
			slots_move(w, row);
		}
	}
}

uint8_t zn_walker_python(struct zn_walker *w, uint32_t row, uint32_t id, char why[ZN_TEXT_MAX])
{
	struct process *p = &w->process[row];
	uint8_t minor = 0;

	why[0] = '\0';
	pthread_mutex_lock(&w->lock);
	if (p->id == id && p->there && p->root != ZN_STACKS_NO_ROOT)
		minor = p->minor;
	else if (p->id == id)
		snprintf(why, ZN_TEXT_MAX, "%s", !p->there ? p->why : p->root_tries ? NO_ROOT : "");
	pthread_mutex_unlock(&w->lock);
	return minor;
}

void zn_walker_clock(struct zn_walker *w, uint32_t id, char why[ZN_TEXT_MAX])
{
	why[0] = '\0';
	pthread_mutex_lock(&w->lock);
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (w->process[row].id == id)
			zn_clocks_why(&w->clocks, why);
	pthread_mutex_unlock(&w->lock);
}

/* ---- How often is walked. ---- */

static void estimate_mark(struct zn_walker *w, const struct process *p, uint32_t leaves)
{
	struct zn_stacks_root *root;

	if (!leaves)
		return;
	zn_stacks_lock(w->stacks);
	root = zn_stacks_root_at(w->stacks, p->root);
	if (root)
		root->estimated |= leaves;
	zn_stacks_unlock(w->stacks);
}

static void rates_adapt(struct zn_walker *w, uint64_t elapsed_ns)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX && w->row; row++) {
		struct process *p = &w->process[row];

		if (p->there)
			estimate_mark(w, p, zn_every_adapt(&p->every, &w->row[row], elapsed_ns));
	}
}

/* ---- Slots. ---- */

static struct zn_nodes nodes_of(const struct zn_walker *w)
{
	return (struct zn_nodes){w->probe, w->stacks, w->naming};
}

static struct zn_nodes_of process_at(const struct zn_walker *w, uint32_t row)
{
	const struct process *p = &w->process[row];

	return (struct zn_nodes_of){p->id, p->pid, row, p->root, &p->python};
}

static void slot_name(struct zn_walker *w, uint32_t at, const struct zn_nodes_of *of)
{
	uint64_t lacked = zn_stacks_lacked(w->stacks); /* this thread alone adds */
	struct zn_nodes nodes = nodes_of(w);

	w->slot[at].node = zn_nodes_stack(&nodes, of, &w->table[at]);
	w->slot[at].folded = zn_stacks_lacked(w->stacks) != lacked;
}

static void slot_new(struct zn_walker *w, uint32_t at, uint64_t now_ns)
{
	struct zn_stack *s = &w->table[at];
	struct zn_nodes_of of = process_at(w, s->row % ZN_PROCS_MAX);
	struct slot *slot = &w->slot[at];

	if (slot->used)
		return;
	*slot = (struct slot){.used = true, .node = ZN_STACKS_NO_NODE, .hash = s->hash, .changed_ns = now_ns};
	zn_examples_clear(&w->examples, at);
	w->used++;
	if (of.id == s->id)
		slot_name(w, at, &of);
}

/* The tree was made smaller: what is known of it by number is another one. */
static void follow_nodes(struct zn_walker *w)
{
	if (w->generation == zn_stacks_generation(w->stacks))
		return;
	w->generation = zn_stacks_generation(w->stacks);
	w->roomier = true;
	for (uint32_t at = 0; at < ZN_STACKS_MAX; at++)
		if (w->slot[at].used) {
			w->slot[at].node = zn_stacks_moved(w->stacks, w->slot[at].node);
			zn_examples_follow(&w->examples, w->stacks, at);
		}
}

/* What is in slots of a process already, of which it turned out that it has Python, goes on in its new root. */
static void slots_move(struct zn_walker *w, uint32_t row)
{
	struct zn_nodes_of of = process_at(w, row);

	zn_stacks_lock(w->stacks);
	follow_nodes(w); /* the new root may have made room; what follows is where it is by now */
	zn_stacks_unlock(w->stacks);
	for (uint32_t at = 0; at < ZN_STACKS_MAX; at++) {
		const struct zn_stack *s = &w->table[at];

		if (!w->slot[at].used || s->row != row || s->id != of.id)
			continue;
		zn_examples_clear(&w->examples, at);
		slot_name(w, at, &of);
	}
}

/* Stacks that found no room when they were new, and still come. */
static void slots_again(struct zn_walker *w)
{
	if (!w->roomier)
		return;
	w->roomier = false;
	for (uint32_t at = 0; at < ZN_STACKS_MAX; at++) {
		const struct zn_stack *s = &w->table[at];
		struct zn_nodes_of of = process_at(w, s->row % ZN_PROCS_MAX);

		if (!w->slot[at].used || !w->slot[at].folded || of.id != s->id || !row_lives(w, of.row, of.id))
			continue;
		zn_examples_clear(&w->examples, at);
		slot_name(w, at, &of);
	}
}

static void slots_new(struct zn_walker *w, uint64_t now_ns)
{
	__u64 *fresh = w->probe->arena.shared->stacks_new;

	for (uint32_t i = 0; i < ZN_LEN(w->pending) && w->table; i++) {
		uint64_t bits = w->pending[i];

		if (__atomic_load_n(&fresh[i], __ATOMIC_RELAXED))
			bits |= __atomic_exchange_n(&fresh[i], 0, __ATOMIC_ACQ_REL);
		w->pending[i] = 0;
		for (; bits; bits &= bits - 1) {
			uint32_t at = i * 64 + (uint32_t)__builtin_ctzll(bits);

			if (__atomic_load_n(&w->table[at].ready, __ATOMIC_ACQUIRE))
				slot_new(w, at, now_ns);
			else
				w->pending[i] |= bits & -bits;
		}
	}
}

/* ---- Examples of what is below. ---- */

static bool example_whose(void *walker, uint32_t at, struct zn_examples_whose *to)
{
	struct zn_walker *w = walker;
	const struct slot *slot = &w->slot[at];
	const struct zn_stack *s = &w->table[at];
	const struct process *p = &w->process[s->row % ZN_PROCS_MAX];

	*to = (struct zn_examples_whose){.of = {.pid = s->pid, .id = p->id, .owner = s->owner},
		.root = p->root,
		.node = p->id == s->id ? slot->node : ZN_STACKS_NO_NODE,
		.hash = slot->hash};
	return slot->used;
}

static bool example_lives(void *walker, uint32_t at)
{
	struct zn_walker *w = walker;
	const struct zn_stack *s = &w->table[at];
	struct zn_nodes_of of = process_at(w, s->row % ZN_PROCS_MAX);
	struct zn_nodes nodes = nodes_of(w);

	return zn_nodes_lives(&nodes, &of, s->pid);
}

/* Reads copies, and says of whom none are to be made. */
static void examples_take(struct zn_walker *w)
{
	struct zn_examples_from from = {.stacks = w->stacks,
		.naming = w->naming,
		.table = w->table,
		.owner = w,
		.whose = example_whose,
		.lives = example_lives};

	zn_examples_take(&w->examples, &from);
	for (uint32_t row = 0; row < ZN_PROCS_MAX && w->examples.native; row++)
		if (w->process[row].there)
			__atomic_store_n(&w->row[row].no_natives,
				zn_examples_in_vain(
					&w->examples, &from, w->process[row].root, w->probe->arena.procs[row].owner),
				__ATOMIC_RELAXED);
}

/* ---- Sums. ---- */

static void sum_more(struct zn_stack_sum *to, struct zn_stack_sum more)
{
	to->count += more.count;
	to->value += more.value;
}

/* What came to a sum of the kernel's. */
static struct zn_stack_sum sum_since(const struct zn_stack_sum *now, const struct zn_stack_sum *last)
{
	return (struct zn_stack_sum){__atomic_load_n(&now->count, __ATOMIC_RELAXED) - last->count,
		__atomic_load_n(&now->value, __ATOMIC_RELAXED) - last->value};
}

static struct zn_stack_sum slot_more(const struct zn_walker *w, uint32_t at, int leaf)
{
	return sum_since(&w->table[at].leaf[leaf], &w->slot[at].last[leaf]);
}

static struct process *slot_process(struct zn_walker *w, uint32_t at)
{
	struct process *p = &w->process[w->table[at].row % ZN_PROCS_MAX];

	return p->id == w->table[at].id ? p : NULL;
}

/* Of what was sampled, as much as makes the sum of all stacks what it is known to be. */
static void scale_more(struct zn_walker *w, struct process *p, int leaf, struct zn_stack_sum *more)
{
	const struct zn_stacks_root *root = p ? zn_stacks_root_at(w->stacks, p->root) : NULL;

	if (!root)
		return;
	if (root->estimated >> leaf & 1 && p->sampled[leaf].count) {
		more->count = zn_stacks_scale(more->count, p->sampled[leaf].count, p->due[leaf].count);
		more->value = zn_stacks_scale(more->value, p->sampled[leaf].value, p->due[leaf].value);
	}
	sum_more(&p->told[leaf], *more);
}

/* Time on a CPU of a worker: it stays as it was sampled, as there are many of these. */
static bool is_workers(const struct zn_walker *w, uint32_t at, int leaf)
{
	return leaf == ZN_LEAF_CPU && w->table[at].flags & ZN_STACK_WORKER;
}

/* What came since it was last looked at. */
static bool slot_take(struct zn_walker *w, uint32_t at)
{
	struct process *p = slot_process(w, at);
	struct slot *slot = &w->slot[at];
	bool any = false;

	for (int leaf = 0; leaf < ZN_LEAF_COUNT; leaf++) {
		struct zn_stack_sum more = slot_more(w, at, leaf);

		if (!more.count && !more.value)
			continue;
		any = true;
		sum_more(&slot->last[leaf], more);
		if (!is_workers(w, at, leaf))
			scale_more(w, p, leaf, &more);
		zn_stacks_add(w->stacks, slot->node, leaf, &more);
	}
	zn_examples_settle(&w->examples, w->stacks, &w->table[at], at, slot->node);
	return any;
}

/* Nobody finds it any more, and nobody adds to it. */
static void slot_free(struct zn_walker *w, uint32_t at)
{
	struct zn_stack *s = &w->table[at];
	uint32_t owner = s->owner;

	slot_take(w, at);
	w->slot[at].used = false;
	w->used--;
	memset((char *)s + sizeof(s->hash), 0, sizeof(*s) - sizeof(s->hash));
	__atomic_store_n(&s->hash, 0, __ATOMIC_SEQ_CST);
	zn_quota_give(&w->probe->arena.shared->quota[ZN_QUOTA_STACK], owner);
}

static void slot_look(struct zn_walker *w, uint32_t at, uint64_t now_ns)
{
	struct zn_stack *s = &w->table[at];
	struct slot *slot = &w->slot[at];
	uint64_t idle_ns = w->used > ZN_STACKS_MAX / 3 ? TAKE_NS : IDLE_NS, hash = slot->hash;

	if (slot->leaving) {
		/* a sleeper of a process that has ended adds no more, and lets go no more */
		if (__atomic_load_n(&s->users, __ATOMIC_SEQ_CST) == 0 ||
			(now_ns - slot->changed_ns > 2 * AGE_NS && !row_lives(w, s->row % ZN_PROCS_MAX, s->id)))
			slot_free(w, at);
		return;
	}
	if (slot_take(w, at))
		slot->changed_ns = now_ns;
	if (now_ns - slot->changed_ns < idle_ns && now_ns - s->first_ns < AGE_NS)
		return;
	slot->leaving =
		__atomic_compare_exchange_n(&s->hash, &hash, ZN_STACK_GONE, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* ---- What was not walked. ---- */

static void word_add(
	struct zn_walker *w, struct process *p, const char *word, int leaf, const struct zn_stack_sum *more)
{
	uint32_t function;

	if (p->root == ZN_STACKS_NO_ROOT)
		return;
	function = zn_stacks_function(w->stacks, p->root, zn_str_of(word), zn_str_of(""), 0);
	if (more->count || more->value)
		zn_stacks_add(w->stacks,
			zn_stacks_node(w->stacks, p->root, ZN_STACKS_NO_NODE, function, ZN_PYCODE_GONE), leaf, more);
}

static struct zn_stack_sum missed_more(
	const struct zn_walker *w, const struct process *p, uint32_t row, int why, int leaf)
{
	return sum_since(&w->row[row].missed[why][leaf], &p->missed[why][leaf]);
}

/* What a process did while it had no root is not told later, either. */
static void due_lose(struct zn_walker *w, struct process *p, int leaf)
{
	sum_more(&p->told[leaf], p->due[leaf]);
	__atomic_fetch_add(&w->probe->arena.shared->lost[ZN_LOST_STACK], p->due[leaf].count, __ATOMIC_RELAXED);
}

/* What the samples say too little about: many short ones were passed over, and none was sampled for a while. */
static void rest_take(struct zn_walker *w, struct process *p, int leaf)
{
	const struct zn_stack_sum *all = &p->due[leaf], *some = &p->sampled[leaf];
	struct zn_stack_sum rest = {all->count - zn_stacks_scale(some->count, some->count, all->count),
		all->value - zn_stacks_scale(some->value, some->value, all->value)};

	if (!some->count || !(zn_stacks_root_at(w->stacks, p->root)->estimated >> leaf & 1))
		return;
	sum_more(&p->told[leaf], rest);
	word_add(w, p, "(not looked at)", leaf, &rest);
}

/* It stays as it was sampled: the clock that all else is scaled to is the process's alone. */
static void workers_missed_take(struct zn_walker *w, struct process *p, uint32_t row, int why, const char *word)
{
	struct zn_stack_sum more = sum_since(&w->row[row].workers_missed[why], &p->workers_missed[why]);

	sum_more(&p->workers_missed[why], more);
	word_add(w, p, word, ZN_LEAF_CPU, &more);
}

/* With the lock of stacks held. */
static void missed_take(struct zn_walker *w, struct process *p, uint32_t row)
{
	static const char *const word[ZN_MISSED_COUNT] = {"(unreadable)", "(no room)"};

	for (int leaf = 0; leaf < ZN_LEAF_COUNT; leaf++) {
		for (int why = 0; why < ZN_MISSED_COUNT; why++) {
			struct zn_stack_sum more = missed_more(w, p, row, why, leaf);

			sum_more(&p->missed[why][leaf], more);
			scale_more(w, p, leaf, &more);
			word_add(w, p, word[why], leaf, &more);
		}
		if (p->root == ZN_STACKS_NO_ROOT)
			due_lose(w, p, leaf);
		else
			rest_take(w, p, leaf);
	}
	for (int why = 0; why < ZN_MISSED_COUNT; why++)
		workers_missed_take(w, p, row, why, word[why]);
}

/* The clock's samples come to what the kernel says that the process was on CPUs. */
static void cpu_count(struct process *p)
{
	struct zn_stack_sum *due = &p->due[ZN_LEAF_CPU], *sampled = &p->sampled[ZN_LEAF_CPU];
	uint64_t ns = zn_clock_cpu_ns(p->pid), told = p->cpu_ns + p->told[ZN_LEAF_CPU].value;

	*due = *sampled;
	if (ns && p->cpu_ns)
		due->value = ns > told ? ns - told : 0;
}

/* What was sampled since the last tick, and what there was, of each process and cause. */
static void samples_count(struct zn_walker *w)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		struct process *p = &w->process[row];

		for (int leaf = 0; leaf < ZN_LEAF_COUNT && p->there; leaf++) {
			struct zn_stack_sum all = w->row[row].all[leaf], *told = &p->told[leaf];

			p->due[leaf].count = all.count > told->count ? all.count - told->count : 0;
			p->due[leaf].value = all.value > told->value ? all.value - told->value : 0;
			p->sampled[leaf] = (struct zn_stack_sum){0};
			for (int why = 0; why < ZN_MISSED_COUNT; why++)
				sum_more(&p->sampled[leaf], missed_more(w, p, row, why, leaf));
		}
	}
	for (uint32_t at = 0; at < ZN_STACKS_MAX && w->used; at++) {
		struct process *p = w->slot[at].used ? slot_process(w, at) : NULL;

		for (int leaf = 0; leaf < ZN_LEAF_COUNT && p; leaf++)
			if (!is_workers(w, at, leaf))
				sum_more(&p->sampled[leaf], slot_more(w, at, leaf));
	}
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++)
		if (w->process[row].there)
			cpu_count(&w->process[row]);
}

static void rows_take(struct zn_walker *w)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		struct process *p = &w->process[row];
		struct zn_stacks_root *root = zn_stacks_root_at(w->stacks, p->root);

		if (!p->there)
			continue;
		missed_take(w, p, row);
		if (root && row_lives(w, row, p->id))
			root->job = w->probe->arena.procs[row].job;
	}
}

static void take_sums(struct zn_walker *w, uint64_t now_ns)
{
	w->taken_ns = now_ns;
	zn_stacks_lock(w->stacks);
	samples_count(w);
	for (uint32_t at = 0; at < ZN_STACKS_MAX && w->used; at++)
		if (w->slot[at].used)
			slot_look(w, at, now_ns);
	rows_take(w);
	zn_stacks_tick(w->stacks, now_ns);
	zn_stacks_room(w->stacks, now_ns);
	follow_nodes(w);
	zn_stacks_unlock(w->stacks);
}

/* ---- The thread. ---- */

static void round_run(struct zn_walker *w)
{
	uint64_t now_ns = zn_now_ns();

	rows_look(w, now_ns);
	zn_clocks_look(&w->clocks, now_ns);
	zn_stacks_lock(w->stacks);
	follow_nodes(w); /* a new process may have made room */
	zn_stacks_unlock(w->stacks);
	slots_again(w);
	slots_new(w, now_ns);
	examples_take(w);
	if (now_ns - w->adapted_ns >= ROUND_MS * ZN_NS_PER_MS) {
		rates_adapt(w, now_ns - w->adapted_ns);
		w->adapted_ns = now_ns;
	}
	if (now_ns - w->taken_ns >= TAKE_NS)
		take_sums(w, now_ns);
}

/* False: for good. */
static bool round_wait(struct zn_walker *w)
{
	struct pollfd wait[2] = {{.fd = w->stop_fd, .events = POLLIN}, {.fd = w->wake_fd, .events = POLLIN}};
	eventfd_t count;

	poll(wait, 2, w->probe->arena.shared->procs || w->used ? ROUND_MS : REST_MS);
	if (wait[1].revents & POLLIN && eventfd_read(w->wake_fd, &count) == 0 && !wait[0].revents)
		poll(wait, 1, GATHER_MS);
	return !wait[0].revents;
}

static void *run_walker(void *arg)
{
	struct zn_walker *w = arg;

	do
		round_run(w);
	while (round_wait(w));
	return NULL;
}

void zn_walker_wake(struct zn_walker *w)
{
	eventfd_write(w->wake_fd, 1);
}

int zn_walker_open(struct zn_walker **to, struct zn_probe *probe, struct zn_stacks *stacks, struct zn_naming *naming)
{
	struct zn_walker *w = &the_walker;

	w->probe = probe;
	w->stacks = stacks;
	w->naming = naming;
	zn_clocks_init(&w->clocks, probe);
	pthread_mutex_init(&w->lock, NULL);
	w->stop_fd = eventfd(0, EFD_CLOEXEC);
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	*to = w;
	return w->stop_fd < 0 || w->wake_fd < 0 ? -errno : 0;
}

int zn_walker_start(struct zn_walker *w)
{
	int err = zn_pages_thread(&w->thread, run_walker, w);

	w->running = err == 0;
	return err;
}

void zn_walker_close(struct zn_walker *w)
{
	if (!w)
		return;
	if (w->running) {
		eventfd_write(w->stop_fd, 1);
		zn_reader_hang_up(&w->naming->reader);
		if (!zn_pages_joined(w->thread, STOP_S)) {
			zn_log(ZN_WARN,
				"stacks: a process does not let its memory be read; leaving without waiting for it");
			_exit(EXIT_SUCCESS); /* the kernel takes the probes away */
		}
	}
	w->running = false;
	zn_clocks_close(&w->clocks);
	if (w->table) {
		munmap(w->table, sizeof(*w->table) * ZN_STACKS_MAX);
		munmap(w->row, sizeof(*w->row) * ZN_PROCS_MAX);
	}
	w->table = NULL;
	w->row = NULL;
	zn_examples_close(&w->examples);
	zn_fd_close(&w->stop_fd);
	zn_fd_close(&w->wake_fd);
}
