// SPDX-License-Identifier: GPL-2.0
/*
 * Walks the stack of Python functions of the calling thread, from Python's own state in the process's memory, and adds
 * a call to what that stack did so far. It runs behind the return programs of libraries (stack.bpf.h), where threads
 * that launch fall asleep (sleep.bpf.h), and by a clock of each CPU. It reads with bpf_probe_read_user() alone, which
 * never waits for a page; what cannot be read ends the walk, and is counted.
 *
 * Where things lie differs by version and is in the row of `pythons`, as byte offsets that are masked here: one path
 * for all. What is both counted and used as an index lies in memory of a map, or the verifier would follow each of its
 * values.
 */
#include "quota.bpf.h"
#include "sleep.bpf.h"
#include "stack.bpf.h"

#ifdef __TARGET_ARCH_x86
#define MULTIPLIER 0x9e3779b97f4a7c15ULL
#define TURNS      (ZN_STACK_FRAMES + 64) /* frames of the interpreter itself are passed over */
#define TRIES      16 /* slots; where a third are in use, one new stack in fifty million finds none that is free */
#define ADDRESS    (~15ULL) /* objects are aligned; 3.14 keeps a mark in the lowest bit */
#define WALK_TRIES 4

#define COPY_TRIES 4 /* places: what one owner can fill of them */

const volatile bool copies_natives SEC(
	".rodata.native"); /* --stacks native; the verifier leaves out what it rules out */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ZN_NATIVES);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct zn_native);
} natives SEC(".maps");

struct at {
	__u32 walk, row;
};

static __always_inline void mix_word(struct zn_stack_walk *w, __u64 word)
{
	__u64 h = (w->hash ^ word) * MULTIPLIER;

	w->hash = h ^ h >> 29;
}

/* A walk's memory: not of a CPU, for a thread may be preempted inside of a program, and another one enter it. */
static __always_inline struct zn_stack_walk *walk_claim(__u32 *index)
{
	__u32 first = bpf_get_smp_processor_id() * WALK_TRIES;

#pragma unroll
	for (int i = 0; i < WALK_TRIES; i++) {
		__u32 at = (first + i) & (ZN_WALKS - 1);
		struct zn_stack_walk *w = bpf_map_lookup_elem(&walks, &at);

		if (w && __sync_val_compare_and_swap(&w->busy, 0, 1) == 0) {
			*index = at;
			return w;
		}
	}
	return NULL;
}

static __always_inline __u64 frame_field(struct zn_stack_walk *w, __u8 at)
{
	return *(__u64 *)&w->frame_bytes[at & (ZN_FRAME_BYTES - 1)];
}

/* Which instruction: in units of two bytes and 1, 0: not begun. ZN_STACK_NO_INDEX: it lies outside of the code. */
static __always_inline __u32 index_of(struct zn_python *py, __u64 code, __u64 instruction)
{
	__s64 index;

	if (py->kind == ZN_PY_LASTI_BYTES)
		index = (__s32)instruction >> 1;
	else if (py->kind == ZN_PY_LASTI_UNITS)
		index = (__s32)instruction;
	else
		index = (__s64)(instruction - code - py->first_at) >> 1;
	return index < -1 || index >= (__s64)ZN_STACK_NO_INDEX - 1 ? ZN_STACK_NO_INDEX : (__u32)(index + 1);
}

/* One frame. 1: that was the end of the walk, for the reason in w->end. */
static long walk_step(__u32 turn, struct at *at)
{
	struct zn_stack_walk *w = bpf_map_lookup_elem(&walks, &at->walk);
	struct zn_python *py = bpf_map_lookup_elem(&pythons, &at->row);
	__u64 code, word;
	__u32 len;

	(void)turn;
	if (!w || !py)
		return 1;
	if (!w->frame || w->depth >= ZN_STACK_FRAMES) {
		w->end = w->frame ? ZN_WALK_DEEPER : ZN_WALK_WHOLE;
		return 1;
	}
	len = py->frame_bytes & (ZN_FRAME_BYTES - 1);
	if (bpf_probe_read_user(w->frame_bytes, len, (const void *)w->frame)) {
		w->end = ZN_WALK_UNREADABLE;
		return 1;
	}
	w->frame = frame_field(w, py->back_at);
	if (w->frame_bytes[py->owner_at & (ZN_FRAME_BYTES - 1)] >= py->skip_from)
		return 0;
	code = frame_field(w, py->code_at) & ADDRESS;
	if (!code) {
		w->end = ZN_WALK_UNREADABLE;
		return 1;
	}
	word = ZN_STACK_WORD(code, index_of(py, code, frame_field(w, py->instruction_at)));
	w->word[w->depth & (ZN_STACK_WORDS - 1)] = word;
	mix_word(w, word);
	w->depth++;
	return 0;
}

/* The newest frame of a thread's state. False: the state cannot be read. */
static __always_inline bool frame_of(struct zn_python *py, __u64 state, __u64 *frame)
{
	*frame = 0;
	if (bpf_probe_read_user(frame, sizeof(*frame), (const void *)(state + py->frame_at)))
		return false;
	if (py->cframe_at == ZN_PY_NO_CFRAME || !*frame)
		return true;
	return bpf_probe_read_user(frame, sizeof(*frame), (const void *)(*frame + py->cframe_at)) == 0;
}

/* A thread without Python works for whoever sleeps in Python until it is done: the process's first thread, if that is
 * asleep. */
static __always_inline __u64 main_frame(struct zn_python *py, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	__u64 frame;

	if (!py->main_state || leader == task || !leader->__state || leader->thread.fsbase != py->main_pointer)
		return 0;
	return frame_of(py, py->main_state, &frame) ? frame : 0;
}

/* Where the walk begins: 0: there is no Python to be seen. */
static __always_inline __u64 first_frame(struct zn_python *py, struct zn_stack_walk *w)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 state = 0, frame = 0;

	if ((copies_natives && !py->frame_bytes) ||
		bpf_probe_read_user(&state, sizeof(state), (const void *)(task->thread.fsbase + py->slot)))
		state = 0;
	if (state && frame_of(py, state, &frame) && frame)
		return frame;
	w->flags |= ZN_STACK_THREAD;
	bpf_get_current_comm(w->comm, sizeof(w->comm));
	mix_word(w, *(__u64 *)w->comm);
	mix_word(w, *(__u64 *)(w->comm + 8));
	return main_frame(py, task);
}

/* Who is walked: the calling thread, of a process or of a worker of its data loader. */
struct walked {
	struct zn_python *py;
	struct zn_proc *proc;
	__u32 row, pid;
	bool tells; /* the daemon may be woken for a new stack; else it looks ten times a second */
};

/* Fills a slot that was just claimed. */
static __always_inline void slot_fill(struct zn_stack *s, struct zn_stack_walk *w, const struct walked *who)
{
	s->id = who->proc->id;
	s->owner = who->proc->owner;
	s->row = who->row;
	s->pid = who->pid;
	s->depth = w->depth;
	s->flags = w->flags | (w->end == ZN_WALK_DEEPER ? ZN_STACK_DEEPER : 0);
	s->first_ns = bpf_ktime_get_ns();
	__builtin_memcpy(s->comm, w->comm, sizeof(s->comm));
	bpf_probe_read_kernel(s->frame, sizeof(s->frame), w->word);
	ZN_ADD(s->ready, 1);
}

/* The daemon is told of the first of 64 neighbours that are new since it looked. */
static __always_inline void slot_tell(const struct walked *who, __u32 at)
{
	__u64 *word = &shared.stacks_new[(at >> 6) & (ZN_STACKS_MAX / 64 - 1)];

	if (__sync_fetch_and_or(word, 1ULL << (at & 63)) == 0 && who->tells)
		zn_emit(ZN_EV_STACK, who->row, at, 0);
}

static __always_inline struct zn_stack *slot_at(__u64 hash, int i, __u32 *at)
{
	*at = ((__u32)(hash >> 32) + i) & (ZN_STACKS_MAX - 1);
	return bpf_map_lookup_elem(&stacks, at);
}

/* A free one, for this stack from here on. NULL: there is none within reach, or the owner has his share. */
static __always_inline struct zn_stack *slot_claim(struct zn_stack_walk *w, const struct walked *who, __u32 *at)
{
	__u32 owner = who->proc->owner;
	__u64 hash = w->hash, seen;
	struct zn_stack *s;

	if (!zn_quota_take_from(ZN_QUOTA_STACK, owner))
		return NULL;
	for (int i = 0; i < TRIES; i++) {
		s = slot_at(hash, i, at);
		if (!s)
			break;
		seen = __sync_val_compare_and_swap(&s->hash, 0, hash);
		if (seen == 0) {
			slot_fill(s, w, who);
			slot_tell(who, *at);
			return s;
		}
		if (seen == hash) {
			zn_quota_give_to(ZN_QUOTA_STACK, owner);
			return s;
		}
	}
	zn_quota_give_to(ZN_QUOTA_STACK, owner);
	return NULL;
}

static __always_inline struct zn_stack *slot_find(__u64 hash, __u32 *at)
{
	struct zn_stack *s;

	for (int i = 0; i < TRIES; i++) {
		s = slot_at(hash, i, at);
		if (s && s->hash == hash)
			return s;
	}
	return NULL;
}

/* It is counted as used before its hash is looked at again, so the daemon gives back no slot that is added to. */
static __always_inline bool slot_hold(struct zn_stack *s, __u64 hash)
{
	ZN_ADD(s->users, 1);
	if (*(volatile __u64 *)&s->hash == hash)
		return true;
	ZN_ADD(s->users, -1);
	return false;
}

/* The slot of the stack that was walked, which is held until the caller has added to it. NULL: why says why. */
static __always_inline struct zn_stack *walk_done(
	struct zn_stack_walk *w, const struct walked *who, __u32 *at, enum zn_stack_miss *why)
{
	struct zn_stack *s;

	*why = ZN_MISSED_UNREADABLE;
	if (w->end == ZN_WALK_UNREADABLE)
		return NULL;
	*why = ZN_MISSED_ROOM;
	mix_word(w, w->end);
	w->hash |= 3; /* neither 0 nor ZN_STACK_GONE */
	s = slot_find(w->hash, at);
	if (!s)
		s = slot_claim(w, who, at);
	return s && slot_hold(s, w->hash) ? s : NULL;
}

static __always_inline struct zn_stack *walk_stack(const struct walked *who, __u32 *at, enum zn_stack_miss *why)
{
	__u64 start_ns = bpf_ktime_get_ns();
	struct at place = {.row = who->row};
	struct zn_stack_walk *w = walk_claim(&place.walk);
	struct zn_stack *s = NULL;

	*why = ZN_MISSED_ROOM;
	if (w) {
		w->depth = 0;
		w->flags = 0;
		w->end = ZN_WALK_DEEPER; /* unless it ends before */
		w->hash = (__u64)who->proc->id * MULTIPLIER;
		if (who->pid != who->proc->tgid) {
			w->flags = ZN_STACK_WORKER;
			mix_word(w, who->pid);
		}
		__builtin_memset(w->comm, 0, sizeof(w->comm));
		w->frame = first_frame(who->py, w);
		bpf_loop(TURNS, walk_step, &place, 0);
		s = walk_done(w, who, at, why);
		__sync_lock_test_and_set(&w->busy, 0);
	}
	if (!s && *why == ZN_MISSED_ROOM)
		zn_lost(ZN_LOST_STACK);
	start_ns = bpf_ktime_get_ns() - start_ns;
	ZN_ADD(who->py->walk_ns, start_ns);
	ZN_ADD(shared.spent[who->row & (ZN_PROCS_MAX - 1)].walk_ns, start_ns);
	ZN_ADD(who->py->walks, 1);
	return s;
}

/* ---- The native stack, once for each stack and leaf. ---- */

static __always_inline struct zn_native *native_claim(__u32 owner)
{
	__u32 first = owner * 2654435761u >> 24;

#pragma unroll
	for (int i = 0; i < COPY_TRIES; i++) {
		__u32 at = (first + i) & (ZN_NATIVES - 1);
		struct zn_native *n = bpf_map_lookup_elem(&natives, &at);

		if (n && __sync_val_compare_and_swap(&n->state, ZN_NATIVE_FREE, ZN_NATIVE_BUSY) == ZN_NATIVE_FREE)
			return n;
	}
	return NULL;
}

static __always_inline void registers_copy(struct zn_native *n)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(bpf_get_current_task_btf());

	n->ip = regs->ip;
	n->sp = regs->sp;
	n->bp = regs->bp;
	n->bx = regs->bx;
	n->r12 = regs->r12;
	n->r13 = regs->r13;
	n->r14 = regs->r14;
	n->r15 = regs->r15;
}

/* Whole pages: what is mapped of the one that the stack pointer is in is all of it. */
static __always_inline void pages_copy(struct zn_native *n)
{
	__u64 from = n->sp & ~(ZN_NATIVE_PAGE - 1ULL);
	__u32 pages = 0;

#pragma unroll
	for (int i = 0; i < ZN_NATIVE_PAGES; i++)
		if (pages == (__u32)i &&
			!bpf_probe_read_user(n->page[i], ZN_NATIVE_PAGE, (void *)(from + i * ZN_NATIVE_PAGE)))
			pages++;
	n->pages = pages;
}

/* What it took is of the budget, as walks are. */
static __always_inline void copy_account(struct zn_python *py, __u32 row, __u64 since_ns)
{
	__u64 ns = bpf_ktime_get_ns() - since_ns;

	ZN_ADD(py->copies, 1);
	ZN_ADD(py->copy_ns, ns);
	ZN_ADD(shared.spent[row & (ZN_PROCS_MAX - 1)].walk_ns, ns);
}

/* The bit in `copied` says whose copy it is, where several threads come at one time: of sleeps the cause is that one's. */
static __noinline int native_copy(struct zn_stack *s, __u32 at, __u32 leaf, __u32 returned)
{
	struct zn_python *py;
	struct zn_native *n;
	__u32 bit, row;

	if (!s || leaf > ZN_NATIVE_SLEEP || s->copied >> leaf & 1)
		return 0;
	row = s->row;
	py = bpf_map_lookup_elem(&pythons, &row);
	if (!py || py->no_natives)
		return 0;
	bit = 1u << leaf;
	if (__sync_fetch_and_or(&s->copied, bit) & bit)
		return 0;
	n = native_claim(s->owner);
	if (!n) {
		__sync_fetch_and_and(&s->copied, ~bit);
		return 0;
	}
	if (leaf == ZN_NATIVE_SLEEP)
		s->sleeper = bpf_get_current_pid_tgid();
	n->at = at;
	n->hash = s->hash;
	n->leaf = leaf;
	n->returned = returned;
	n->since_ns = bpf_ktime_get_ns();
	registers_copy(n);
	pages_copy(n);
	copy_account(py, row, n->since_ns);
	__sync_lock_test_and_set(&n->state, ZN_NATIVE_READY);
	return 0;
}

struct event {
	__u64 leaf, weight, value;
};

/* Walks, and adds at once. */
static __always_inline void walk_and_add(const struct walked *who, const struct event *e, bool returned)
{
	enum zn_stack_miss why;
	struct zn_stack *s;
	__u32 at;

	s = walk_stack(who, &at, &why);
	if (s) {
		zn_sum_add(s->leaf, e->leaf, e->weight, e->value);
		if (copies_natives)
			native_copy(s, at, e->leaf, returned);
		ZN_ADD(s->users, -1);
	} else if (e->leaf == ZN_LEAF_CPU && who->pid != who->proc->tgid) {
		ZN_ADD(who->py->workers_missed[why & 1].count, e->weight);
		ZN_ADD(who->py->workers_missed[why & 1].value, e->value);
	} else {
		zn_sum_add(who->py->missed[why & 1], e->leaf, e->weight, e->value);
	}
}

/* What the walk took is not of the call around this one. */
static __always_inline void account_walk(struct zn_thread *t, __u64 ns)
{
	if (t->depth)
		t->frame[(t->depth - 1) & (ZN_FRAMES - 1)].nested_ns += ns;
	else if (t->group_depth)
		t->group_nested_ns += ns;
}

/* The Python of a row's process, if it is that one's still. */
static __always_inline bool find_python(struct walked *who, __u32 row)
{
	who->row = row;
	who->proc = bpf_map_lookup_elem(&procs, &row);
	who->py = bpf_map_lookup_elem(&pythons, &row);
	return who->proc && who->py && who->py->id == who->proc->id;
}

SEC("uprobe")
int stacks_walk(struct pt_regs *ctx)
{
	__u64 start_ns = bpf_ktime_get_ns(), id = bpf_get_current_pid_tgid();
	struct walked who = {.pid = id >> 32, .tells = true};
	struct zn_thread *t = zn_thread_find(id);
	struct zn_frame *f;
	struct event e;

	if (!t)
		return zn_nothing(ctx);
	if (!zn_proc_of(t) || !find_python(&who, t->row) || who.proc->id != t->id)
		return 0;
	f = &t->frame[t->depth & (ZN_FRAMES - 1)];
	e = (struct event){f->arg[STACK_LEAF], f->arg[STACK_WEIGHT], f->arg[STACK_VALUE]};
	walk_and_add(&who, &e, true);
	account_walk(t, bpf_ktime_get_ns() - start_ns);
	return 0;
}

/* Not preempted, and not inside of a hooked call, which tells of it. */
static __always_inline bool sleeps_by_itself(const struct zn_sched_entry *r)
{
	struct zn_thread_state *o = zn_thread_state_at(r->row, r->state_at);

	return r->kind != ZN_SCHED_PREEMPTED && (!o || o->inside == ZN_STALL_CPU);
}

/* Behind sched_switch of sched.bpf.c: the calling thread is about to leave its CPU, and its memory is still there. The
 * run queue's lock is held: nothing here takes another one, and the daemon is not woken. */
SEC("tp_btf/sched_switch")
int stacks_sleep(__u64 *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	struct zn_sched_entry *r = zn_sched_entry_find(id);
	struct walked who = {.pid = id >> 32};
	enum zn_stack_miss why;
	struct zn_stack *s;
	__u32 at, weight;

	(void)ctx;
	if (!r || !r->stack || !find_python(&who, r->row) || who.proc->id != r->id)
		return 0;
	weight = ZN_SLEEP_WEIGHT(r->stack);
	s = walk_stack(&who, &at, &why);
	if (copies_natives && s) {
		if (s->sleeper == (__u32)id)
			s->sleeper = 0; /* that sleep is over, and its cause counted */
		if (sleeps_by_itself(r))
			native_copy(s, at, ZN_NATIVE_SLEEP, false);
	}
	r->stack = ZN_SLEEP_OF(s ? at + 1 : ZN_SLEEP_MISSED + why, weight);
	return 0;
}

/* The clock of a CPU. It interrupts anything, in the kernel too, and whoever runs there. */
SEC("perf_event")
int stacks_clock(void *ctx)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32, *row;
	struct event e = {ZN_LEAF_CPU, 1, ZN_CLOCK_NS};
	struct walked who = {.pid = tgid};
	struct zn_loader_worker *w;

	(void)ctx;
	if (!shared.pid_filter[ZN_PID_FILTER_AT(tgid)])
		return 0;
	row = bpf_map_lookup_elem(&rows, &tgid);
	w = row ? NULL : bpf_map_lookup_elem(&workers, &tgid);
	if (!row && !w)
		return 0;
	if (!find_python(&who, row ? *row : w->row) || (w && who.proc->id != w->id))
		return 0;
	zn_cpu_ran(); /* if it is spared too: it may be so for longer than a CPU keeps its clock */
	if (zn_spares(who.proc, ZN_SPARE_STACKS))
		return 0;
	walk_and_add(&who, &e, false);
	return 0;
}
#endif

char LICENSE[] SEC("license") = "GPL";
