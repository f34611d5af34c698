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
#include <bpf/bpf.h>

#define ROUND_MS    100
#define REST_MS     1000 /* while no process is tracked */
#define GATHER_MS   5    /* new stacks that come together are looked at together */
#define TAKE_NS     ZN_NS_PER_S
#define IDLE_NS     (3 * ZN_NS_PER_S)
#define AGE_NS      (10 * ZN_NS_PER_S)
#define TRIES       12    /* of finding Python, each twice as late as the one before */
#define BUDGET_NS   50000 /* for walks of one kind, of a process, in a round: twice that at most, 0.1 % of a thread */
#define WALKS_LEAST 10    /* of one kind in a round: twice that at most */
#define EVERY_MOST  (1 << 20)
#define WALK_NS     1000 /* of a walk, as long as none was measured */
#define STOP_S      5

/* What is known of the process of a row. */
struct process {
	uint32_t id, pid, root, tries;
	bool there;
	uint8_t minor;
	int error; /* of the last try */
	uint64_t next_ns;
	uint64_t launches, others, sleeps, walks, walk_ns; /* at the last round */
	struct zn_stack_sum missed[ZN_MISSED_COUNT][ZN_LEAF_COUNT];
	struct zn_stack_sum sampled[ZN_LEAF_COUNT], due[ZN_LEAF_COUNT]; /* in this tick: by stack; exactly */
	struct zn_stack_sum told[ZN_LEAF_COUNT];                        /* since it was found */
	struct zn_python_process python;
	char why[96];
};

struct slot {
	bool used, leaving;
	uint32_t node;
	uint64_t hash, changed_ns;
	struct zn_stack_sum last[ZN_LEAF_COUNT];
};

struct zn_walker {
	struct zn_probe *probe;
	struct zn_naming *naming;
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
		.estimated = 1u << ZN_LEAF_CPU};

	memcpy(root.comm, proc->comm, sizeof(root.comm));
	zn_stacks_lock(w->stacks);
	p->root = zn_stacks_root(w->stacks, &root, now_ns);
	zn_stacks_unlock(w->stacks);
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

static void python_try(struct zn_walker *w, struct process *p, uint32_t row, uint64_t now_ns)
{
	char why[ZN_TEXT_MAX] = "";
	int err = python_find(w, p, row, why);

	p->next_ns = now_ns + ((uint64_t)ROUND_MS << p->tries++) * ZN_NS_PER_MS;
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
	root_open(w, p, row, now_ns);
	row_open(w, p, row);
	zn_clocks_begin(&w->clocks, p->pid);
	zn_log(ZN_DEBUG, "stacks: process %u: CPython 3.%u", p->pid, p->minor);
}

static void missed_take(struct zn_walker *w, struct process *p, uint32_t row);

static void process_end(struct zn_walker *w, struct process *p, uint32_t row, uint64_t now_ns)
{
	struct zn_stacks_root *root;

	if (p->there) {
		zn_stacks_lock(w->stacks);
		memset(p->sampled, 0, sizeof(p->sampled)); /* what is left is told as it was sampled */
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
		if (!p->there && p->tries < TRIES && p->next_ns <= now_ns && row_lives(w, row, id))
			python_try(w, p, row, now_ns);
	}
}

uint8_t zn_walker_python(struct zn_walker *w, uint32_t row, uint32_t id, char why[ZN_TEXT_MAX])
{
	struct process *p = &w->process[row];
	uint8_t minor = 0;

	why[0] = '\0';
	pthread_mutex_lock(&w->lock);
	if (p->id == id && p->there)
		minor = p->minor;
	else if (p->id == id)
		snprintf(why, ZN_TEXT_MAX, "%s", p->why);
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

/* One in so many that walks take no more than their budget; it falls by half at most from round to round. */
static uint32_t every_of(uint32_t before, uint64_t calls, uint64_t walk_ns)
{
	uint64_t most = walk_ns ? BUDGET_NS / walk_ns : BUDGET_NS, every;

	every = calls / (most > WALKS_LEAST ? most : WALKS_LEAST);
	if (every < before / 2)
		every = before / 2;
	return every < 1 ? 1 : every > EVERY_MOST ? EVERY_MOST : (uint32_t)every;
}

static uint64_t count_of(const struct zn_python *r, int from, int to)
{
	uint64_t sum = 0;

	for (int leaf = from; leaf <= to; leaf++)
		sum += r->all[leaf].count;
	return sum;
}

/* A power of two, by its logarithm and 1: a sleeper keeps it in few bits. */
static uint32_t sleep_every(uint32_t before, uint64_t sleeps, uint64_t walk_ns)
{
	uint32_t every = every_of(before ? 1u << (before - 1) : 1, sleeps, walk_ns), log = 0;

	while (1u << log < every)
		log++;
	return log + 1;
}

static void estimate_mark(struct zn_walker *w, const struct process *p, const struct zn_python *r)
{
	uint32_t launch = 1u << ZN_LEAF_LAUNCH, sleeps = ((1u << ZN_LEAF_COUNT) - 1) & ~((1u << ZN_LEAF_DATA) - 1);
	uint32_t others = ((1u << ZN_LEAF_CPU) - 1) & ~launch, estimated = 0;
	struct zn_stacks_root *root;

	estimated |= r->every[ZN_EVERY_LAUNCH] > 1 ? launch : 0;
	estimated |= r->every[ZN_EVERY_OTHER] > 1 ? others : 0;
	estimated |= r->every[ZN_EVERY_SLEEP] > 1 ? sleeps : 0;
	if (!estimated)
		return;
	zn_stacks_lock(w->stacks);
	root = zn_stacks_root_at(w->stacks, p->root);
	if (root)
		root->estimated |= estimated;
	zn_stacks_unlock(w->stacks);
}

/* calls: since the last round, which may have been long ago on a busy machine. */
static uint64_t per_round(uint64_t calls, uint64_t elapsed_ns)
{
	return calls * (ROUND_MS * ZN_NS_PER_MS / 1000) / (elapsed_ns / 1000);
}

static void rates_adapt(struct zn_walker *w, uint64_t elapsed_ns)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		struct process *p = &w->process[row];
		struct zn_python *r = w->row ? &w->row[row] : NULL;
		uint64_t launches, others, sleeps, walks, walk_ns;

		if (!p->there || !r)
			continue;
		launches = r->all[ZN_LEAF_LAUNCH].count;
		others = count_of(r, ZN_LEAF_LAUNCH + 1, ZN_LEAF_CPU - 1);
		sleeps = count_of(r, ZN_LEAF_DATA, ZN_LEAF_OTHER);
		walks = r->walks - p->walks;
		walk_ns = walks ? (r->walk_ns - p->walk_ns) / walks : WALK_NS;
		r->every[ZN_EVERY_LAUNCH] =
			every_of(r->every[ZN_EVERY_LAUNCH], per_round(launches - p->launches, elapsed_ns), walk_ns);
		r->every[ZN_EVERY_OTHER] =
			every_of(r->every[ZN_EVERY_OTHER], per_round(others - p->others, elapsed_ns), walk_ns);
		if (r->every[ZN_EVERY_SLEEP])
			r->every[ZN_EVERY_SLEEP] = sleep_every(
				r->every[ZN_EVERY_SLEEP], per_round(sleeps - p->sleeps, elapsed_ns), walk_ns);
		p->sleeps = sleeps;
		p->launches = launches;
		p->others = others;
		p->walks += walks;
		p->walk_ns = r->walk_ns;
		estimate_mark(w, p, r);
	}
}

/* ---- Names and lines. ---- */

static uint32_t function_put(struct zn_walker *w, struct process *p, struct zn_str name, struct zn_str file, int first)
{
	uint32_t function;

	zn_stacks_lock(w->stacks);
	function = zn_stacks_function(w->stacks, p->root, name, file, first);
	zn_stacks_unlock(w->stacks);
	return function;
}

static uint32_t function_word(struct zn_walker *w, struct process *p, const char *word)
{
	return function_put(w, p, zn_str_of(word), zn_str_of(""), 0);
}

static void node_add(struct zn_walker *w, struct process *p, uint32_t function, int line, uint32_t *node)
{
	zn_stacks_lock(w->stacks);
	*node = zn_stacks_node(w->stacks, p->root, *node, function, line);
	zn_stacks_unlock(w->stacks);
}

static void frame_add(struct zn_walker *w, struct process *p, uint32_t i, uint32_t *node)
{
	struct zn_naming_frame f = zn_naming_frame(w->naming, i);
	uint32_t function;

	function =
		f.line == ZN_PYCODE_GONE ? function_word(w, p, "(gone)") : function_put(w, p, f.name, f.file, f.first);
	node_add(w, p, function, f.line, node);
}

/* Whether a stack's memory is still that of the process, or of a worker of it. It is asked before and after
 * the memory is read. */
static bool memory_is_of(const struct zn_walker *w, const struct process *p, uint32_t row, uint32_t pid)
{
	struct zn_loader_worker worker;

	if (pid == p->pid)
		return row_lives(w, row, p->id);
	return bpf_map_lookup_elem(w->probe->map_fd[ZN_MAP_WORKERS], &pid, &worker) == 0 && worker.id == p->id;
}

/* From the outermost function to the innermost one. */
static void frames_add(struct zn_walker *w, struct process *p, uint32_t row, const struct zn_stack *s, uint32_t *node)
{
	uint32_t depth = s->depth < ZN_STACK_FRAMES ? s->depth : ZN_STACK_FRAMES;
	struct zn_naming_of of = {.pid = s->pid, .id = p->id, .owner = s->owner};
	int err = -ESRCH;

	if (depth && memory_is_of(w, p, row, s->pid))
		err = zn_naming_ask(w->naming, &of, &p->python, s);
	if (!err && !memory_is_of(w, p, row, s->pid)) /* it ran another program meanwhile, or ended */
		err = -ESRCH;
	if (s->flags & ZN_STACK_DEEPER)
		node_add(w, p, function_word(w, p, "(deeper)"), ZN_PYCODE_GONE, node);
	if (!depth)
		return;
	if (err && err != -ESRCH)
		node_add(w, p, function_word(w, p, "(not read)"), ZN_PYCODE_GONE, node);
	for (uint32_t i = depth; i-- && !err;)
		frame_add(w, p, i, node);
	if (err == -ESRCH)
		node_add(w, p, function_word(w, p, "(gone)"), ZN_PYCODE_GONE, node);
}

/* And then the thread that called for it. */
static uint32_t node_of(struct zn_walker *w, struct process *p, uint32_t row, const struct zn_stack *s)
{
	uint32_t node = ZN_STACKS_NO_NODE;
	char thread[64];
	struct zn_out o = {.at = thread, .cap = sizeof(thread)};

	if (p->root == ZN_STACKS_NO_ROOT)
		return node;
	if (s->flags & ZN_STACK_WORKER)
		node_add(w, p, function_word(w, p, "[worker]"), ZN_PYCODE_GONE, &node);
	frames_add(w, p, row, s, &node);
	if (s->flags & ZN_STACK_THREAD) {
		zn_out_text(&o, "[thread ");
		zn_pycode_text(&o, (const uint8_t *)s->comm, strnlen(s->comm, sizeof(s->comm)), 1);
		zn_out_text(&o, "]");
		node_add(w, p, function_put(w, p, (struct zn_str){thread, o.len}, zn_str_of(""), 0), ZN_PYCODE_GONE,
			&node);
	} else if (!s->depth) {
		node_add(w, p, function_word(w, p, "(no function)"), ZN_PYCODE_GONE, &node);
	}
	return node;
}

/* ---- Slots. ---- */

static void slot_new(struct zn_walker *w, uint32_t at, uint64_t now_ns)
{
	struct zn_stack *s = &w->table[at];
	struct process *p = &w->process[s->row % ZN_PROCS_MAX];
	struct slot *slot = &w->slot[at];

	if (slot->used)
		return;
	*slot = (struct slot){.used = true, .node = ZN_STACKS_NO_NODE, .hash = s->hash, .changed_ns = now_ns};
	w->used++;
	if (p->id == s->id)
		slot->node = node_of(w, p, s->row % ZN_PROCS_MAX, s);
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

static void sum_more(struct zn_stack_sum *to, struct zn_stack_sum more)
{
	to->count += more.count;
	to->value += more.value;
}

static struct zn_stack_sum slot_more(const struct zn_walker *w, uint32_t at, int leaf)
{
	const struct zn_stack_sum *now = &w->table[at].leaf[leaf], *last = &w->slot[at].last[leaf];

	return (struct zn_stack_sum){__atomic_load_n(&now->count, __ATOMIC_RELAXED) - last->count,
		__atomic_load_n(&now->value, __ATOMIC_RELAXED) - last->value};
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
		scale_more(w, p, leaf, &more);
		zn_stacks_add(w->stacks, slot->node, leaf, &more);
	}
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
	uint32_t function = zn_stacks_function(w->stacks, p->root, zn_str_of(word), zn_str_of(""), 0);

	if (more->count || more->value)
		zn_stacks_add(w->stacks,
			zn_stacks_node(w->stacks, p->root, ZN_STACKS_NO_NODE, function, ZN_PYCODE_GONE), leaf, more);
}

static struct zn_stack_sum missed_more(
	const struct zn_walker *w, const struct process *p, uint32_t row, int why, int leaf)
{
	const struct zn_stack_sum *now = &w->row[row].missed[why][leaf], *last = &p->missed[why][leaf];

	return (struct zn_stack_sum){now->count - last->count, now->value - last->value};
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

/* With the lock of stacks held. */
static void missed_take(struct zn_walker *w, struct process *p, uint32_t row)
{
	static const char *const word[ZN_MISSED_COUNT] = {"(unreadable)", "(no room)"};
	struct zn_stacks_root *root = zn_stacks_root_at(w->stacks, p->root);

	for (int leaf = 0; leaf < ZN_LEAF_COUNT && root; leaf++) {
		root->all[leaf] = w->row[row].all[leaf];
		for (int why = 0; why < ZN_MISSED_COUNT; why++) {
			struct zn_stack_sum more = missed_more(w, p, row, why, leaf);

			sum_more(&p->missed[why][leaf], more);
			scale_more(w, p, leaf, &more);
			word_add(w, p, word[why], leaf, &more);
		}
		rest_take(w, p, leaf);
	}
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
			sum_more(&p->sampled[leaf], slot_more(w, at, leaf));
	}
}

static void rows_take(struct zn_walker *w)
{
	for (uint32_t row = 0; row < ZN_PROCS_MAX; row++) {
		struct process *p = &w->process[row];
		struct zn_stacks_root *root = p->there ? zn_stacks_root_at(w->stacks, p->root) : NULL;

		if (!root)
			continue;
		missed_take(w, p, row);
		if (row_lives(w, row, p->id))
			root->job = w->probe->arena.procs[row].job;
	}
}

/* The tree was made smaller: what is known of it by number is another one. */
static void follow_nodes(struct zn_walker *w)
{
	if (w->generation == zn_stacks_generation(w->stacks))
		return;
	w->generation = zn_stacks_generation(w->stacks);
	for (uint32_t at = 0; at < ZN_STACKS_MAX; at++)
		if (w->slot[at].used)
			w->slot[at].node = zn_stacks_moved(w->stacks, w->slot[at].node);
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
	slots_new(w, now_ns);
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

	zn_pages_drop_stack();
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
	int err = -pthread_create(&w->thread, NULL, run_walker, w);

	w->running = err == 0;
	return err;
}

void zn_walker_close(struct zn_walker *w)
{
	struct timespec until;

	if (!w)
		return;
	if (w->running) {
		eventfd_write(w->stop_fd, 1);
		zn_reader_hang_up(&w->naming->reader);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += STOP_S;
		if (pthread_timedjoin_np(w->thread, NULL, &until)) {
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
	zn_fd_close(&w->stop_fd);
	zn_fd_close(&w->wake_fd);
}
