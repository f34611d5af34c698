/* SPDX-License-Identifier: GPL-2.0 */
/*
 * lines.c: GET /stacks, and a row of GET /why: for each cause the lines of programs that have most of it. The line of a
 * stack is that of its innermost function which is the program's own, not of a library; what it called there is told
 * with it.
 */
#include <string.h>

#include "zernel.h"

#define LINES_MAX 4096 /* lines of one cause that are told apart; a power of two */
#define TRIES     32
#define TOP       10
#define TOP_JOB   3  /* in its report, and functions of an example there */
#define SECONDS   60 /* of the row of GET /why */
#define NS        9  /* decimals */
#define LEAST     5  /* per cent of the time, for that row */

/* A line of the program, and what is below it in the heaviest stack. */
struct line {
	bool used;
	uint32_t function;
	int32_t at;
	uint32_t via;           /* node of the innermost function; NO_NODE: it is this one */
	uint32_t thread;        /* node of the thread without Python that called; NO_NODE: none */
	uint32_t node, example; /* of the heaviest stack */
	uint64_t heaviest;
	struct zn_stack_sum sum;
};

/* Of one cause; one at a time: the loop renders. */
static struct {
	struct line line[LINES_MAX];
	struct zn_stack_sum all;
	bool estimated;
} table;

static bool text_contains(struct zn_str text, const char *part)
{
	return memmem(text.at, text.len, part, strlen(part));
}

static bool is_library(struct zn_str file)
{
	return !file.len || file.at[0] == '<' || text_contains(file, "/site-packages/") ||
		text_contains(file, "/dist-packages/") || text_contains(file, "/lib/python3");
}

/* Where a stack's line is. */
static void find_line(const struct zn_stacks *s, uint32_t node, struct line *to)
{
	const struct zn_stacks_node *n = zn_stacks_node_at(s, node), *inner;
	struct zn_stacks_function f = zn_stacks_function_at(s, n->function);

	*to = (struct line){.used = true, .via = ZN_STACKS_NO_NODE, .thread = ZN_STACKS_NO_NODE};
	if (!f.file.len && n->parent != ZN_STACKS_NO_NODE && f.name.len && f.name.at[0] == '[') {
		to->thread = node;
		node = n->parent;
	}
	inner = n = zn_stacks_node_at(s, node);
	for (uint32_t at = node; at != ZN_STACKS_NO_NODE; at = n->parent) {
		n = zn_stacks_node_at(s, at);
		if (!is_library(zn_stacks_function_at(s, n->function).file))
			break;
	}
	if (is_library(zn_stacks_function_at(s, n->function).file))
		n = inner;
	to->function = n->function;
	to->at = n->line;
	if (n != inner)
		to->via = node;
}

static bool same_line(const struct line *a, const struct line *b)
{
	return a->function == b->function && a->at == b->at;
}

/* Where lines of one cause are added up. NULL: there is no room, and it stays in the sum of all alone. */
static struct line *place_of(const struct line *key)
{
	uint32_t first = (key->function * 2654435761u ^ (uint32_t)key->at * 40503u) >> 4;

	for (uint32_t i = 0; i < TRIES; i++) {
		struct line *l = &table.line[(first + i) & (LINES_MAX - 1)];

		if (!l->used)
			*l = *key;
		if (same_line(l, key))
			return l;
	}
	return NULL;
}

static void add_shown(const struct zn_state *state, const struct zn_stacks_shown *s)
{
	struct line key, *l;

	table.all.count += s->sum.count;
	table.all.value += s->sum.value;
	table.estimated |= zn_stacks_root_at(state->stacks, s->root)->estimated >> s->leaf & 1;
	find_line(state->stacks, s->node, &key);
	l = place_of(&key);
	if (!l)
		return;
	l->sum.count += s->sum.count;
	l->sum.value += s->sum.value;
	if (s->sum.value >= l->heaviest) {
		l->heaviest = s->sum.value;
		l->via = key.via;
		l->thread = key.thread;
		l->node = s->node;
		l->example = s->example;
	}
}

static void collect_lines(const struct zn_state *state, const struct zn_stacks_query *q, uint32_t leaf)
{
	struct zn_stacks_shown s;

	memset(&table, 0, sizeof(table));
	for (uint32_t i = 0; zn_stacks_shown(state->stacks, i, &s); i++)
		if (s.leaf == leaf && (s.sum.count || s.sum.value) && zn_pprof_wants(state, q, s.root))
			add_shown(state, &s);
}

/* Launches are told by how many there are: they return at once. What a line costs is its time, whatever it does. */
static bool is_told_by_calls(uint32_t leaf)
{
	return leaf == ZN_LEAF_LAUNCH;
}

static uint64_t weight_of(const struct zn_stack_sum *sum, bool by_calls)
{
	return by_calls ? sum->count : sum->value;
}

/* The heaviest that is left; NULL: none. */
static struct line *take_heaviest(bool by_calls)
{
	struct line *best = NULL;

	for (size_t i = 0; i < LINES_MAX; i++) {
		struct line *l = &table.line[i];

		if (l->used && weight_of(&l->sum, by_calls) &&
			(!best || weight_of(&l->sum, by_calls) > weight_of(&best->sum, by_calls)))
			best = l;
	}
	if (best)
		best->used = false;
	return best;
}

/* ---- As JSON. ---- */

static const char *const says[] = {
#define X(e, label, unit, text, of) text,
	ZN_LEAVES(X)
#undef X
};
static const char *const units[] = {
#define X(e, label, unit, text, of) #unit[0] == 'N' ? "seconds" : "bytes",
	ZN_LEAVES(X)
#undef X
};
static const char *const counts[] = {
#define X(e, label, unit, text, of) of,
	ZN_LEAVES(X)
#undef X
};

static void put_where(struct zn_json *j, struct zn_stacks_function f, int line)
{
	zn_json_key(j, "file");
	zn_json_bytes(j, f.file.at, f.file.len);
	if (line > 0)
		zn_json_key_u64(j, "line", (uint64_t)line);
	else
		zn_json_key_null(j, "line");
	zn_json_key(j, "function");
	zn_json_bytes(j, f.name.at, f.name.len);
}

static void put_value(struct zn_json *j, uint32_t leaf, uint64_t value)
{
	if (units[leaf][0] == 's')
		zn_json_key_scaled(j, "value", value, NS);
	else
		zn_json_key_u64(j, "value", value);
}

static uint64_t percent_of(uint64_t part, uint64_t all)
{
	return all ? (uint64_t)((double)part * 100 / (double)all + 0.5) : 0;
}

static bool has_example(const struct line *l)
{
	return l->example != l->node;
}

/* The innermost function comes first; [native example] itself is left out. */
static void put_example(struct zn_json *j, const struct zn_stacks *s, const struct line *l, int most)
{
	uint32_t at = l->example;

	zn_json_key_open(j, "native_example", '[');
	for (int i = 0; i < most && at != l->node && at != ZN_STACKS_NO_NODE; i++) {
		const struct zn_stacks_node *n = zn_stacks_node_at(s, at);

		at = n->parent;
		if (at == l->node)
			break;
		zn_json_open(j, '{');
		put_where(j, zn_stacks_function_at(s, n->function), n->line);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void put_line(struct zn_json *j, const struct zn_stacks *s, const struct line *l, uint32_t leaf, int top)
{
	bool by_calls = is_told_by_calls(leaf);
	const struct zn_stacks_node *n;
	struct zn_stacks_function f;

	zn_json_open(j, '{');
	put_where(j, zn_stacks_function_at(s, l->function), l->at);
	zn_json_key_u64(j, "count", l->sum.count);
	put_value(j, leaf, l->sum.value);
	zn_json_key_u64(j, "percent", percent_of(weight_of(&l->sum, by_calls), weight_of(&table.all, by_calls)));
	if (l->via == ZN_STACKS_NO_NODE) {
		zn_json_key_null(j, "through");
	} else {
		n = zn_stacks_node_at(s, l->via);
		zn_json_key_open(j, "through", '{');
		put_where(j, zn_stacks_function_at(s, n->function), n->line);
		zn_json_close(j, '}');
	}
	if (l->thread == ZN_STACKS_NO_NODE) {
		zn_json_key_null(j, "thread");
	} else {
		f = zn_stacks_function_at(s, zn_stacks_node_at(s, l->thread)->function);
		zn_json_key(j, "thread");
		zn_json_bytes(j, f.name.at, f.name.len);
	}
	if (top != TOP_JOB)
		put_example(j, s, l, ZN_NATIVE_FRAMES + 2);
	else if (has_example(l))
		put_example(j, s, l, TOP_JOB);
	zn_json_close(j, '}');
}

/* A report has room for few lines, and little of examples. */
static void put_cause(
	struct zn_json *j, const struct zn_state *state, const struct zn_stacks_query *q, uint32_t leaf, int top)
{
	struct line *l;

	collect_lines(state, q, leaf);
	if (!table.all.count && !table.all.value)
		return;
	zn_json_open(j, '{');
	zn_json_key_text(j, "cause", zn_leaf_label(leaf));
	zn_json_key_text(j, "says", says[leaf]);
	zn_json_key_text(j, "unit", units[leaf]);
	zn_json_key_text(j, "counts", counts[leaf]);
	zn_json_key_u64(j, "count", table.all.count);
	put_value(j, leaf, table.all.value);
	zn_json_key(j, "estimated");
	zn_json_bool(j, table.estimated);
	zn_json_key_open(j, "lines", '[');
	for (int i = 0; i < top && (l = take_heaviest(is_told_by_calls(leaf))); i++)
		put_line(j, state->stacks, l, leaf, top);
	zn_json_close(j, ']');
	zn_json_close(j, '}');
}

static void put_process(struct zn_json *j, const struct zn_state *state, const struct zn_stacks_root *r)
{
	const struct zn_job *job = state->jobs && r->job.serial ? zn_jobs_at(state->jobs, r->job) : NULL;
	char version[8], why[ZN_TEXT_MAX];

	snprintf(version, sizeof(version), r->minor ? "3.%u" : "", r->minor);
	zn_json_open(j, '{');
	zn_json_key_u64(j, "pid", r->pid);
	if (job)
		zn_json_key_text(j, "job_id", job->id);
	else
		zn_json_key_null(j, "job_id");
	zn_json_key(j, "comm");
	zn_json_bytes(j, r->comm, strnlen(r->comm, sizeof(r->comm)));
	if (r->minor)
		zn_json_key_text(j, "python", version);
	else
		zn_json_key_null(j, "python");
	zn_json_key(j, "ended");
	zn_json_bool(j, r->ended_ns);
	zn_json_key(j, "pid_reused");
	zn_json_bool(j, r->pid_reused);
	zn_json_key_u64(j, "folded", r->folded);
	if (state->walker)
		zn_walker_clock(state->walker, r->id, why);
	if (state->walker && why[0])
		zn_json_key_text(j, "no_clock", why);
	zn_json_close(j, '}');
}

static void put_processes(struct zn_json *j, const struct zn_state *state, const struct zn_stacks_query *q)
{
	zn_json_key_open(j, "processes", '[');
	for (uint32_t i = 0; i < ZN_STACKS_ROOTS; i++)
		if (zn_pprof_wants(state, q, i))
			put_process(j, state, zn_stacks_root_at(state->stacks, i));
	zn_json_close(j, ']');
}

static bool is_asked_for(const struct zn_state *state, const struct zn_stacks_query *q, const struct zn_proc *p)
{
	const char *job = state->jobs ? zn_job_id(state->jobs, p) : NULL;
	bool has_job = job && *job;

	if ((q->pid && q->pid != p->tgid) || (q->no_job && has_job))
		return false;
	return !q->job[0] || (has_job && !strcmp(job, q->job));
}

/* Processes whose Python is not known, and why. */
static void put_unknown(struct zn_json *j, const struct zn_state *state, const struct zn_stacks_query *q)
{
	char why[ZN_TEXT_MAX];

	zn_json_key_open(j, "unknown", '[');
	for (uint32_t i = 0; state->walker && i < state->agg->row_count; i++) {
		uint32_t row = state->agg->row[i];
		const struct zn_proc *p = &state->agg->arena->procs[row];

		if (zn_walker_python(state->walker, row, p->id, why) || !why[0] || !is_asked_for(state, q, p))
			continue;
		zn_json_open(j, '{');
		zn_json_key_u64(j, "pid", p->tgid);
		zn_json_key_text(j, "why", why);
		zn_json_close(j, '}');
	}
	zn_json_close(j, ']');
}

static void put_state(struct zn_json *j, const struct zn_state *state)
{
	const char *why = state->probe ? state->probe->kernel.why[ZN_FAM_STACKS]
		: state->loading       ? "probes are being loaded"
				       : "data is simulated";
	char text[ZN_TEXT_MAX];
	uint32_t pid = state->walker ? zn_walker_held(state->walker) : 0;

	if (pid) {
		snprintf(text, sizeof(text),
			"process %u does not let its memory be read: new stacks of its user have no names for a while",
			pid);
		why = text;
	}
	zn_json_key_text(j, "state", state->stacks ? "attached" : "absent");
	zn_json_key_text(j, "why", why);
}

void zn_lines_json(struct zn_out *o, const struct zn_state *state, const struct zn_stacks_query *q)
{
	uint64_t span_ns;
	struct zn_json j;

	zn_json_begin(&j, o);
	zn_json_open(&j, '{');
	zn_json_key_text(&j, "node", state->node);
	zn_json_key_text(&j, "source", zn_state_source(state));
	put_state(&j, state);
	if (state->stacks) {
		zn_stacks_lock(state->stacks);
		span_ns = zn_stacks_show(state->stacks, q->seconds, zn_now_ns());
		if (q->seconds)
			zn_json_key_scaled(&j, "seconds", span_ns / ZN_NS_PER_MS, 3);
		else
			zn_json_key_null(&j, "seconds");
		put_processes(&j, state, q);
		zn_json_key_open(&j, "causes", '[');
		for (uint32_t leaf = 0; leaf < ZN_LEAF_COUNT; leaf++)
			if (q->leaf == ZN_LEAF_COUNT || q->leaf == leaf)
				put_cause(&j, state, q, leaf, TOP);
		zn_json_close(&j, ']');
		zn_stacks_unlock(state->stacks);
		put_unknown(&j, state, q);
	}
	zn_json_close(&j, '}');
}

bool zn_lines_item(struct zn_json *j, const struct zn_state *state, const struct zn_job *job, uint32_t i)
{
	struct zn_stacks_query q = {.leaf = ZN_LEAF_COUNT};

	if (!state->stacks || i >= ZN_LEAF_COUNT)
		return false;
	snprintf(q.job, sizeof(q.job), "%s", job->id);
	zn_stacks_lock(state->stacks);
	zn_stacks_show(state->stacks, 0, zn_now_ns());
	put_cause(j, state, &q, i, TOP_JOB);
	zn_stacks_unlock(state->stacks);
	return true;
}

/* ---- A row of GET /why. ---- */

static struct zn_str base_name(struct zn_str file)
{
	const char *slash = memrchr(file.at, '/', file.len);

	return slash ? (struct zn_str){slash + 1, file.len - (size_t)(slash + 1 - file.at)} : file;
}

/* The innermost function of it. */
static void put_row_example(struct zn_out *o, const struct zn_stacks *s, const struct line *l)
{
	struct zn_stacks_function f = zn_stacks_function_at(s, zn_stacks_node_at(s, l->example)->function);

	zn_out_text(o, ", for example in ");
	zn_out_bytes(o, f.name.at, f.name.len < 96 ? f.name.len : 96);
	zn_out_text(o, f.file.len ? " (" : "");
	zn_out_bytes(o, f.file.at, f.file.len);
	zn_out_text(o, f.file.len ? ")" : "");
}

/* "waits for the GPU: train.py:212 in step (61 %), for example in cuStreamSynchronize (libcuda.so.1)" */
static void put_row(struct zn_json *j, const struct zn_stacks *s, const struct line *l, uint32_t leaf)
{
	struct zn_stacks_function f = zn_stacks_function_at(s, l->function);
	struct zn_str file = base_name(f.file);
	char text[2 * ZN_TEXT_MAX];
	struct zn_out o = {.at = text, .cap = sizeof(text)};

	zn_out_text(&o, says[leaf]);
	zn_out_text(&o, ": ");
	zn_out_bytes(&o, file.at, file.len < 64 ? file.len : 64);
	if (l->at > 0) {
		zn_out_char(&o, ':');
		zn_out_u64(&o, (uint64_t)l->at);
	}
	zn_out_text(&o, file.len ? " in " : "");
	zn_out_bytes(&o, f.name.at, f.name.len < 64 ? f.name.len : 64);
	zn_out_text(&o, " (");
	zn_out_u64(&o, percent_of(l->sum.value, table.all.value));
	zn_out_text(&o, table.estimated ? " %, estimated)" : " %)");
	if (has_example(l))
		put_row_example(&o, s, l);
	zn_json_bytes(j, text, o.len);
}

void zn_lines_where(struct zn_json *j, const struct zn_state *state, const char *job)
{
	static const uint32_t leaves[] = {
		ZN_LEAF_GPU, ZN_LEAF_NCCL, ZN_LEAF_DATA, ZN_LEAF_DIST, ZN_LEAF_IO, ZN_LEAF_LAUNCH};
	struct zn_stacks_query q = {.leaf = ZN_LEAF_COUNT, .seconds = SECONDS, .no_job = !*job};
	uint64_t span_ns;

	snprintf(q.job, sizeof(q.job), "%s", job);
	zn_json_key_open(j, "where", '[');
	if (state->stacks) {
		zn_stacks_lock(state->stacks);
		span_ns = zn_stacks_show(state->stacks, q.seconds, zn_now_ns());
		for (size_t i = 0; i < ZN_LEN(leaves); i++) {
			struct line *l;

			collect_lines(state, &q, leaves[i]);
			l = table.all.value >= span_ns / 100 * LEAST ? take_heaviest(false) : NULL;
			if (l)
				put_row(j, state->stacks, l, leaves[i]);
		}
		zn_stacks_unlock(state->stacks);
	}
	zn_json_close(j, ']');
}
