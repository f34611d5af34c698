// SPDX-License-Identifier: GPL-2.0
/*
 * NCCL and RCCL: calls, bytes and errors of each operation, the time the host spends in the call (a collective only
 * enqueues and returns), group windows, and which rank a process is in which communicator. Fields of struct ncclComm
 * are never read: their offsets differ from version to version.
 */
#include "hit.bpf.h"
#include "record.bpf.h"
#include "stall.bpf.h"
#include "stack.bpf.h"

#define NCCL_IN_PROGRESS 7
#define NO_COLOR         0xffffffff /* NCCL_SPLIT_NOCOLOR */
#define UNIQUE_ID_WORDS  16         /* ncclUniqueId: 128 bytes */
#define INIT_ALL_MAX     16
#define AWAITED_MAX      8 /* communicators that a group makes, whose address is there at its end */

/* arg[] of a communicator's creation, after its entry handler */
enum { NEW_COMM, NEW_NRANKS, NEW_RANK = 4, NEW_HASH };

/* what a communicator was made for, in the hash of its parent */
enum { SHRUNK = 0x5348, GROWN = 0x4752 };

/* Bytes per element by ncclDataType_t, 0 to 11. */
const __u8 type_size[16] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

static __always_inline bool has_failed(const struct zn_call *c)
{
	return c->result != 0 && c->result != NCCL_IN_PROGRESS;
}

/* It was called by another function that is hooked: some versions make a group for each send, or an operation of
 * others, by the functions that programs call. That is none of the program's. */
static __always_inline bool is_inner(const struct zn_call *c)
{
	return c->thread->depth != 0;
}

static __always_inline __u64 mix_hash(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static __always_inline struct zn_comm *comm_find(struct zn_thread *t, __u64 addr)
{
	struct zn_ctx_key key = {.addr = addr, .id = t->id};

	return bpf_map_lookup_elem(&comms, &key);
}

/* What a process has when it ends is given back then. It is not static, so that it is verified once, and copies what
 * maps of Linux before 6.3 take from a program's own stack alone. */
__noinline int comm_put(struct zn_proc *p, struct zn_ctx_key *at, struct zn_comm *of)
{
	struct zn_ctx_key key;
	struct zn_comm comm;

	if (!p || !at || !of)
		return 0;
	key = *at;
	comm = *of;
	return zn_put(&comms, &key, &comm, p, ZN_QUOTA_COMM, &p->comms);
}

static __always_inline void comm_add(struct zn_call *c, __u64 addr, struct zn_comm *comm)
{
	struct zn_ctx_key key = {.addr = addr, .id = c->thread->id};

	if (addr)
		comm_put(c->proc, &key, comm);
}

static __always_inline void comm_drop(struct zn_proc *p, struct zn_ctx_key *at)
{
	if (bpf_map_delete_elem(&comms, at) || !p)
		return;
	ZN_ADD(p->comms, -1);
	zn_quota_give_to(ZN_QUOTA_COMM, p->owner);
}

static __always_inline __u32 current_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

/* The id is the same on all ranks, so its hash names the communicator across processes. 0: it cannot be read. */
static __noinline __u64 unique_id_hash(__u64 at)
{
	__u64 id[UNIQUE_ID_WORDS], hash = 0;

	if (bpf_probe_read_user(id, sizeof(id), (const void *)at))
		return 0;
#pragma unroll
	for (int i = 0; i < UNIQUE_ID_WORDS; i++)
		hash = mix_hash(hash, id[i]);
	return hash ? hash : 1;
}

/* ---- issue skew among the ranks of this node ---- */

static __always_inline struct zn_skew *skew_at(__u32 at)
{
	at &= ZN_SKEWS_MAX - 1;
	return bpf_map_lookup_elem(&skews, &at);
}

/* The daemon looks at it from here on, and takes the mark away when it gives it back. */
static __always_inline void skew_mark(__u32 at)
{
	shared.skew_used[at & (ZN_SKEWS_MAX - 1)] = 1;
}

/* A function that is not static is verified once for all callers; its arguments are numbers. */

/* 0: it is this communicator's, or another rank is just taking it for this one. Without branches, all of which the
 * verifier would follow in each turn of the loops below. */
static __always_inline __u64 skew_differs(const struct zn_skew *s, __u64 of, __u64 own, __u64 hash)
{
	__u64 known = s->hash, minus = -known, is_known;

	ZN_OPAQUE(minus);
	is_known = (__s64)(known | minus) >> 63; /* all ones: it is */
	return (of ^ own) | ((known ^ hash) & is_known);
}

/* Slot + 1 of a communicator; 0: it has none. All are looked at: users choose ids, so they can have the slots that come
 * first for somebody's hash. */
__noinline __u32 skew_find(__u64 hash, __u32 owner)
{
	__u64 of = ZN_SKEW_OF(owner, hash);

	for (__u32 i = 0; i < ZN_SKEWS_MAX; i++) {
		__u32 at = ((__u32)hash + i) & (ZN_SKEWS_MAX - 1);
		struct zn_skew *s = skew_at(at);

		if (!s)
			return 0;
		if (!skew_differs(s, s->of, of, hash))
			return at + 1;
	}
	return 0;
}

#define SKEW_MADE 0x10000 /* beside a slot: it was free until now */

/* The same, and it takes the first free one: in a function of its own, as the verifier would follow both in each
 * turn. */
__noinline __u32 skew_take(__u64 hash, __u32 owner)
{
	__u64 of = ZN_SKEW_OF(owner, hash), seen;

	for (__u32 i = 0; i < ZN_SKEWS_MAX; i++) {
		__u32 at = ((__u32)hash + i) & (ZN_SKEWS_MAX - 1);
		struct zn_skew *s = skew_at(at);

		if (!s)
			return 0;
		seen = __sync_val_compare_and_swap(&s->of, 0, of);
		if (!seen) {
			s->hash = hash;
			skew_mark(at);
			return (at + 1) | SKEW_MADE;
		}
		if (!skew_differs(s, seen, of, hash))
			return at + 1;
	}
	return 0;
}

/* The same, for an owner who may have his share. */
static __always_inline __u32 skew_slot(__u64 hash, __u32 owner)
{
	__u32 slot = skew_find(hash, owner);

	if (slot)
		return slot;
	if (!zn_quota_take_from(ZN_QUOTA_SKEW, owner))
		return 0;
	slot = skew_take(hash, owner);
	if (!(slot & SKEW_MADE))
		zn_quota_give_to(ZN_QUOTA_SKEW, owner);
	return slot & ~SKEW_MADE;
}

/* A rank of this node joins. Communicators of unknown id, and of one rank, have nobody to be compared with. */
static __always_inline void skew_join(struct zn_proc *p, __u32 row, struct zn_comm *comm)
{
	__u32 slot, m;
	struct zn_skew *s;

	if (!comm->hash || comm->nranks == 1)
		return;
	slot = skew_slot(comm->hash, p->owner);
	s = slot ? skew_at(slot - 1) : NULL;
	m = s ? __sync_fetch_and_add(&s->members, 1) : ZN_SKEW_RANKS;
	if (!s || m >= ZN_SKEW_RANKS) {
		zn_lost(ZN_LOST_SKEW);
		return;
	}
	s->member[m].rank = comm->rank;
	s->member[m].row = row;
	s->member[m].id = p->id;
	*(volatile __u32 *)&s->member[m].tgid = comm->tgid; /* last: who looks meanwhile knows that it joins */
	s->nranks = comm->nranks;
	comm->skew = slot;
	comm->member = m;
}

static __noinline __u32 skew_hist_claim(struct zn_skew *s)
{
	__u32 owner, slot, old;

	if (!s || !s->of)
		return 0;
	owner = ZN_SKEW_OWNER(s->of);
	slot = zn_hist_try(ZN_QUOTA_HISTOGRAM, owner);
	if (!slot) {
		if (__sync_lock_test_and_set(&s->hist_refused, 1) == 0)
			zn_hist_refuse(owner);
		return 0;
	}
	old = __sync_val_compare_and_swap(&s->hist, 0, slot);
	if (old)
		zn_hist_give(ZN_QUOTA_HISTOGRAM, slot, owner);
	return old ? old : slot;
}

static __always_inline struct zn_hist *skew_hist(struct zn_skew *s)
{
	__u32 slot = s->hist;

	if (!slot)
		slot = skew_hist_claim(s);
	return slot ? bpf_map_lookup_elem(&hists, &slot) : NULL;
}

/* First and last of several times. Without branches: the verifier would follow each way of ordering them. */
struct order {
	__u64 first, last, who;
};

static __always_inline void order_add(struct order *o, __u64 at, __u64 m)
{
	__u64 before = (__s64)(at - o->first) >> 63, after = (__s64)(o->last - at) >> 63; /* all ones: it is */

	ZN_OPAQUE(before);
	ZN_OPAQUE(after);
	o->first += (at - o->first) & before;
	o->last += (at - o->last) & after;
	o->who = (o->who & ~after) | (m & after);
}

/* How late a rank was with collective n, beyond the time for which it was late with the one before it already:
 * collectives are queued, so that a rank may have several yet to issue, and each moment of it counts once. Several
 * threads may have entered in another order than they returned. */
static __always_inline __u64 skew_late(const struct zn_skew *s, __u64 n, __u32 m, __u64 first)
{
	__u64 own = s->at_ns[n & (ZN_SKEW_WINDOW - 1)][m], before = s->at_ns[(n - 1) & (ZN_SKEW_WINDOW - 1)][m];
	__u64 later = (__s64)(first - before) >> 63, is_late; /* all ones: it is */

	ZN_OPAQUE(later);
	first += (before - first) & later;
	is_late = (__s64)(first - own) >> 63;
	ZN_OPAQUE(is_late);
	return (own - first) & is_late;
}

/* All have issued collective n: who was first, who was last, and how late each was. */
__noinline __u32 skew_record(__u32 slot, __u64 n)
{
	struct zn_skew *s = skew_at(slot);
	__u32 w = n & (ZN_SKEW_WINDOW - 1);
	struct order o;
	struct zn_hist *h;

	if (!s)
		return 0;
	o = (struct order){s->at_ns[w][0], s->at_ns[w][0], 0};
	for (__u32 m = 0; m < ZN_SKEW_RANKS && m < s->members; m++) {
		if (s->member[m].issued > n + ZN_SKEW_WINDOW) { /* it has written over that time */
			zn_lost(ZN_LOST_SKEW);
			return 0;
		}
		order_add(&o, s->at_ns[w][m], m);
	}
	for (__u32 m = 0; m < ZN_SKEW_RANKS && m < s->members; m++)
		ZN_ADD(s->member[m].late_ns, skew_late(s, n, m, o.first));
	ZN_ADD(s->member[o.who & (ZN_SKEW_RANKS - 1)].last, 1);
	h = skew_hist(s);
	if (h)
		zn_hist_record(h, o.last - o.first);
	return 1;
}

/* Collective n is complete with the rank that raises the least count of all to n + 1. hash, id: of the rank, whose
 * slot this may be no more. */
__noinline __u32 skew_issue(__u32 slot, __u32 member, __u64 start_ns, __u64 hash, __u32 id)
{
	struct zn_skew *s = skew_at(slot);
	__u32 own = member & (ZN_SKEW_RANKS - 1);
	__u64 n, done;

	if (!s || s->hash != hash || s->member[own].id != id)
		return 0;
	n = s->member[own].issued;
	s->at_ns[n & (ZN_SKEW_WINDOW - 1)][own] = start_ns;
	ZN_ADD(s->member[own].issued, 1);
	if (s->members < 2)
		return 0;
	for (__u32 m = 0; m < ZN_SKEW_RANKS && m < s->members; m++)
		if (*(volatile __u64 *)&s->member[m].issued <= n)
			return 0;
	done = s->done;
	if (done <= n && __sync_val_compare_and_swap(&s->done, done, n + 1) == done)
		skew_record(slot, n);
	return 1;
}

/* The index of the rank among those of this node; ZN_SKEW_RANKS: none. */
static __always_inline __u32 skew_who(const struct zn_skew *s, __u32 rank)
{
	for (__u32 m = 0; m < ZN_SKEW_RANKS && m < s->members; m++)
		if (s->member[m].id && s->member[m].rank == rank)
			return m;
	return ZN_SKEW_RANKS;
}

/* A send to a rank, or a receive from one. id: of the process, whose slot this may be no more. */
__noinline __u32 skew_pair(__u32 slot, __u32 member, __u32 rank, __u32 id, __u32 sends)
{
	struct zn_skew *s = skew_at(slot);
	__u32 own = member & (ZN_SKEW_RANKS - 1), peer = s ? skew_who(s, rank) : ZN_SKEW_RANKS;

	if (!s || peer >= ZN_SKEW_RANKS || s->member[own].id != id)
		return 0;
	if (sends)
		ZN_ADD(s->sent[own][peer], 1);
	else
		ZN_ADD(s->received[own][peer], 1);
	return 1;
}

/* ncclReduce() alone has it behind the registers; at its entry that takes the place of its first one. */
static __always_inline struct zn_comm *comm_of(struct zn_call *c)
{
	if (c->shape == ZN_S_BCAST)
		return comm_find(c->thread, c->frame->arg[4]);
	switch (c->detail) {
	case ZN_H_NCCL_ALL_REDUCE:
	case ZN_H_NCCL_REDUCE_SCATTER:
	case ZN_H_NCCL_GATHER:
	case ZN_H_NCCL_SCATTER:
	case ZN_H_NCCL_BROADCAST: return comm_find(c->thread, c->frame->arg[5]);
	case ZN_H_NCCL_ALL_GATHER:
	case ZN_H_NCCL_ALL_TO_ALL: return comm_find(c->thread, c->frame->arg[4]);
	case ZN_H_NCCL_REDUCE: return comm_find(c->thread, c->frame->arg[0]);
	}
	return NULL;
}

/* A rank among those that are compared; NULL: it is not, or its slot is another communicator's by now. */
static __always_inline struct zn_skew_rank *skew_member(const struct zn_comm *comm, __u32 id)
{
	struct zn_skew *s = comm && comm->skew ? skew_at(comm->skew - 1) : NULL;
	struct zn_skew_rank *rank = s ? &s->member[comm->member & (ZN_SKEW_RANKS - 1)] : NULL;

	return rank && s->hash == comm->hash && rank->id == id ? rank : NULL;
}

static __always_inline void skew_rank(const struct zn_comm *comm, __u32 id)
{
	struct zn_skew_rank *rank = skew_member(comm, id);
	struct zn_skew *s = rank ? skew_at(comm->skew - 1) : NULL;

	if (!s)
		return;
	rank->rank = comm->rank;
	s->nranks = comm->nranks;
}

static __always_inline void skew_leave(const struct zn_comm *comm, __u32 id)
{
	struct zn_skew_rank *rank = skew_member(comm, id);

	if (rank)
		rank->id = 0;
}

/* ---- communicators ---- */

/* As the address of one that the calling thread awaits. No program has such a one. */
static __always_inline __u64 awaited_at(__u32 number)
{
	return 1ULL << 63 | (bpf_get_current_pid_tgid() & 0xffffffff) << 8 | number;
}

/* Its address will be there when the group ends: until then what is known of it lies beside the others. */
static __always_inline void comm_await(struct zn_call *c, struct zn_comm *comm, __u64 at)
{
	__u32 number = c->thread->awaited;

	if (!c->thread->group_depth || number >= AWAITED_MAX) { /* or after that, if the call does not wait */
		zn_lost(ZN_LOST_COMM);
		return;
	}
	c->thread->awaited = number + 1;
	comm->tgid = 0;
	comm->at = at;
	comm_add(c, awaited_at(number), comm);
}

/* A communicator that was made, with what all its ranks know of it. at: where its address is. */
static __always_inline void comm_enter(struct zn_call *c, struct zn_comm *comm, __u64 at)
{
	__u64 addr;

	zn_record_row(c->thread->row, ZN_H_NCCL_INIT, c->ns, 0, has_failed(c));
	if (has_failed(c) || !zn_read_user(&addr, sizeof(addr), at))
		return;
	if (!addr) {
		comm_await(c, comm, at);
		return;
	}
	skew_join(c->proc, c->thread->row, comm);
	comm_add(c, addr, comm);
}

/* One of a group that has ended. It is not static, so that it is verified once. */
__noinline int comm_made(struct zn_proc *p, __u32 row, __u32 number)
{
	struct zn_ctx_key key = {.addr = awaited_at(number)};
	struct zn_comm *found, comm;
	__u64 at;

	if (!p)
		return 0;
	key.id = p->id;
	found = bpf_map_lookup_elem(&comms, &key);
	if (!found)
		return 0;
	comm = *found;
	comm_drop(p, &key);
	at = comm.at;
	comm.at = 0;
	comm.tgid = current_tgid();
	if (!zn_read_user(&key.addr, sizeof(key.addr), at))
		return 0;
	if (!key.addr) { /* the group goes on without the caller */
		zn_lost(ZN_LOST_COMM);
		return 0;
	}
	skew_join(p, row, &comm);
	return comm_put(p, &key, &comm);
}

/* A group that fails makes none. */
static __always_inline void comms_made(struct zn_call *c)
{
	__u32 count = c->thread->awaited;

	c->thread->awaited = 0;
	for (__u32 i = 0; i < AWAITED_MAX && i < count && !has_failed(c); i++)
		comm_made(c->proc, c->thread->row, i);
}

static __always_inline void comm_init_return(struct zn_call *c)
{
	struct zn_comm comm = {
		.hash = c->frame->arg[NEW_HASH],
		.rank = c->frame->arg[NEW_RANK],
		.nranks = c->frame->arg[NEW_NRANKS],
		.tgid = current_tgid(),
	};

	if (!comm.hash && !has_failed(c))
		zn_lost(ZN_LOST_USER_READ);
	comm_enter(c, &comm, c->frame->arg[NEW_COMM]);
}

/* (comms[], ndev, devices[]): one process is all ranks; no unique id, so the hash is of what is unique on this node. */
static __always_inline void comm_init_all_return(struct zn_call *c)
{
	__u32 n = c->frame->arg[1];
	struct zn_comm comm = {.nranks = n, .tgid = current_tgid()};
	__u64 addr;

	zn_record_row(c->thread->row, ZN_H_NCCL_INIT, c->ns, 0, has_failed(c));
	if (has_failed(c))
		return;
	for (__u32 i = 0; i < INIT_ALL_MAX && i < n; i++) {
		if (!zn_read_user(&addr, sizeof(addr), c->frame->arg[0] + 8 * i))
			return;
		if (i == 0)
			comm.hash = mix_hash(mix_hash(1, c->thread->id), addr);
		comm.rank = i;
		comm_add(c, addr, &comm);
	}
	if (n > INIT_ALL_MAX)
		zn_lost_many(ZN_LOST_COMM, n - INIT_ALL_MAX);
}

/* (comm, color, key, new *, config *): ranks of one color form a communicator; rank and size are asked for later. A
 * rank without a color has none. */
static __always_inline void comm_split_return(struct zn_call *c)
{
	struct zn_comm *parent = comm_find(c->thread, c->frame->arg[0]);
	struct zn_comm comm = {.rank = ZN_UNKNOWN, .nranks = ZN_UNKNOWN, .tgid = current_tgid()};
	__u32 color = c->frame->arg[1];

	if (parent && parent->hash && !has_failed(c))
		comm.hash = mix_hash(mix_hash(parent->hash, color), ++parent->splits);
	if (color != NO_COLOR)
		comm_enter(c, &comm, c->frame->arg[3]);
	else
		zn_record_row(c->thread->row, ZN_H_NCCL_INIT, c->ns, 0, has_failed(c));
}

/* (comm, excluded *, how many, new *, config *, flags): the excluded ranks do not call it. */
static __always_inline void comm_shrink_return(struct zn_call *c)
{
	struct zn_comm *parent = comm_find(c->thread, c->frame->arg[0]);
	struct zn_comm comm = {.rank = ZN_UNKNOWN, .nranks = ZN_UNKNOWN, .tgid = current_tgid()};
	__u32 excluded = c->frame->arg[2];

	if (parent && parent->hash)
		comm.hash = mix_hash(mix_hash(parent->hash, SHRUNK), excluded);
	if (parent && parent->nranks != ZN_UNKNOWN)
		comm.nranks = parent->nranks - excluded;
	comm_enter(c, &comm, c->frame->arg[3]);
}

/* (comm, size, id *, rank, new *, config *): a rank that is new has no communicator yet, and its own rank. */
static __always_inline void comm_grow_return(struct zn_call *c)
{
	struct zn_comm *parent = comm_find(c->thread, c->frame->arg[0]);
	struct zn_comm comm = {.rank = ZN_UNKNOWN, .nranks = c->frame->arg[1], .tgid = current_tgid()};

	if (parent && parent->hash)
		comm.hash = mix_hash(mix_hash(parent->hash, GROWN), comm.nranks);
	if ((__s32)c->frame->arg[3] >= 0)
		comm.rank = c->frame->arg[3];
	else if (parent)
		comm.rank = parent->rank;
	comm_enter(c, &comm, c->frame->arg[4]);
}

/* ncclCommUserRank and ncclCommCount (comm, int *): tell rank and size of communicators that were made unseen. */
static __always_inline void comm_ask_return(struct zn_call *c, bool rank)
{
	struct zn_comm comm = {.rank = ZN_UNKNOWN, .nranks = ZN_UNKNOWN, .tgid = current_tgid()};
	struct zn_comm *known = comm_find(c->thread, c->frame->arg[0]);
	__u32 value;

	if (c->result || !zn_read_user(&value, sizeof(value), c->frame->arg[1]))
		return;
	if (known)
		comm = *known;
	if (rank)
		comm.rank = value;
	else
		comm.nranks = value;
	skew_rank(&comm, c->thread->id);
	comm_add(c, c->frame->arg[0], &comm);
}

/* At its entry: the pointer may be given out again before it returns. */
static __always_inline void comm_gone(struct zn_frame *f, struct zn_thread *t)
{
	struct zn_ctx_key key = {.addr = f->arg[0], .id = t->id};

	skew_leave(comm_find(t, f->arg[0]), t->id);
	comm_drop(zn_proc_of(t), &key);
}

/* type is an int: the upper half of its register says nothing. */
static __always_inline void count_operation(struct zn_call *c, __u64 count, __u32 type)
{
	__u64 bytes = count * (type < 12 ? type_size[type & 15] : 0);
	struct zn_comm *comm;

	if (is_inner(c))
		return;
	comm = comm_of(c);
	if (type >= 12 && count)
		zn_lost(ZN_LOST_NCCL_TYPE);
	if (comm && comm->skew && !has_failed(c))
		skew_issue(comm->skew - 1, comm->member, c->frame->start_ns, comm->hash, c->thread->id);
	if (c->detail == ZN_H_NCCL_ALL_TO_ALL) {
		if (comm && comm->nranks != ZN_UNKNOWN)
			bytes *= comm->nranks;
		else if (!has_failed(c))
			zn_lost(ZN_LOST_COMM);
	}
	zn_record_row(c->thread->row, c->detail, c->ns, has_failed(c) ? 0 : bytes, has_failed(c));
}

/* (buffer, count, type, peer, comm, stream). Communicators whose ranks are not known compare nothing. */
static __always_inline void point_to_point(struct zn_call *c)
{
	struct zn_comm *comm;

	if (is_inner(c) || has_failed(c) || (c->detail != ZN_H_NCCL_SEND && c->detail != ZN_H_NCCL_RECV))
		return;
	comm = comm_find(c->thread, c->frame->arg[4]);
	if (comm && comm->skew)
		skew_pair(comm->skew - 1, comm->member, c->frame->arg[3], c->thread->id, c->detail == ZN_H_NCCL_SEND);
}

static __always_inline void group_start_return(struct zn_call *c)
{
	struct zn_thread *t = c->thread;

	if (is_inner(c))
		return;
	if (t->group_depth++ == 0) {
		t->group_start_ns = c->frame->start_ns;
		t->group_nested_ns = shared.cost_ns[ZN_COOKIE_FIRST(c->frame->cookie)];
	}
}

/* The window is from the entry of the outermost start to the return of its end, less what the probes inside it cost.
 * The end itself was added with its whole cost, of which only the bias lies inside. */
static __always_inline void group_end_return(struct zn_call *c)
{
	__u32 first = ZN_COOKIE_FIRST(c->frame->cookie);
	struct zn_thread *t = c->thread;
	__u64 probes_ns;

	if (is_inner(c) || t->group_depth == 0 || --t->group_depth)
		return;
	comms_made(c);
	probes_ns = zn_minus(t->group_nested_ns + shared.bias_ns[first], shared.cost_ns[first]);
	zn_record_row(
		c->thread->row, ZN_H_NCCL_GROUP, zn_minus(c->end_ns - t->group_start_ns, probes_ns), 0, has_failed(c));
}

/* It tells how long the group would take, and ends it: nothing of it is run. */
static __always_inline void group_simulate_return(struct zn_call *c)
{
	if (!is_inner(c) && c->thread->group_depth && --c->thread->group_depth == 0)
		c->thread->awaited = 0;
}

/* Calls in which the host may wait for other ranks. */
static __always_inline bool waits_for_ranks(__u32 shape)
{
	return (shape >= ZN_S_COLL && shape <= ZN_S_NO_BYTES) || shape == ZN_S_GROUP_END ||
		(shape >= ZN_S_COMM_INIT && shape <= ZN_S_COMM_ABORT);
}

#define WAIT_NS 1000000 /* a call that takes longer did not just enqueue */

/* What an inner call waits is in the wait of the outer one. */
static __always_inline void wait_return(struct zn_call *c)
{
	zn_wait_end(c);
	if (shared.stalls && zn_is_on(ZN_FAM_DIST_SYNC) && c->ns >= WAIT_NS && !is_inner(c))
		zn_record_row(c->thread->row, ZN_H_DIST_SYNC, c->ns, 0, false);
}

/* What is read of the context is read before it is decided what it means: the compiler shall not choose among addresses
 * inside of the context, which the verifier refuses (seen on arm64). */
static __always_inline void new_comm_entry(struct zn_frame *f, struct pt_regs *ctx, __u32 shape)
{
	__u64 rank = ZN_INIT_RANK_RANK(ctx), id = ZN_STACK_STRUCT(ctx), third = ZN_ARG3(ctx), fifth = ZN_ARG5(ctx);

	ZN_OPAQUE(rank);
	ZN_OPAQUE(id);
	ZN_OPAQUE(third);
	ZN_OPAQUE(fifth);
	f->arg[NEW_RANK] = shape == ZN_S_COMM_INIT ? rank : third;
	f->arg[NEW_HASH] = unique_id_hash(shape == ZN_S_COMM_INIT ? id : fifth);
}

static __always_inline int nccl_entry(struct pt_regs *ctx, const struct zn_hit *hit)
{
	__u64 cookie = hit->cookie;
	__u32 shape = ZN_COOKIE_SHAPE(cookie);
	struct zn_thread *t = zn_thread(ctx, hit->id, waits_for_ranks(shape));
	struct zn_frame *f = t ? zn_frame_push(t, ctx, cookie) : NULL;

	if (!f)
		return zn_no_return() | zn_nothing(ctx);
	if (shape == ZN_S_COMM_INIT || shape == ZN_S_COMM_INIT_SCALABLE)
		new_comm_entry(f, ctx, shape);
	else if (shape == ZN_S_COMM_DESTROY || shape == ZN_S_COMM_ABORT)
		comm_gone(f, t);
	if (ZN_COOKIE_DETAIL(cookie) == ZN_H_NCCL_REDUCE && shape == ZN_S_COLL && !zn_late_argument(ctx, 7, &f->arg[0]))
		f->arg[0] = 0;
	zn_frame_start(f);
	if (waits_for_ranks(shape)) {
		zn_launching(t);
		zn_wait_begin(t, f, ZN_STALL_DIST);
	}
	return 0;
}

static __always_inline int nccl_return(struct pt_regs *ctx)
{
	struct zn_call c;

	if (!zn_call_return(&c, ctx, ZN_FAM_NCCL))
		return zn_nothing(ctx);
	if (waits_for_ranks(c.shape))
		wait_return(&c);
	switch (c.shape) {
	case ZN_S_COLL: count_operation(&c, c.frame->arg[2], c.frame->arg[3]); break;
	case ZN_S_P2P: point_to_point(&c); /* fall through */
	case ZN_S_BCAST: count_operation(&c, c.frame->arg[1], c.frame->arg[2]); break;
	case ZN_S_NO_BYTES: zn_record_row(c.thread->row, c.detail, c.ns, 0, has_failed(&c)); break;
	case ZN_S_GROUP_START: group_start_return(&c); break;
	case ZN_S_GROUP_SIMULATE: group_simulate_return(&c); break;
	case ZN_S_GROUP_END: group_end_return(&c); break;
	case ZN_S_COMM_INIT:
	case ZN_S_COMM_INIT_SCALABLE: comm_init_return(&c); break;
	case ZN_S_COMM_INIT_ALL: comm_init_all_return(&c); break;
	case ZN_S_COMM_SPLIT: comm_split_return(&c); break;
	case ZN_S_COMM_SHRINK: comm_shrink_return(&c); break;
	case ZN_S_COMM_GROW: comm_grow_return(&c); break;
	case ZN_S_COMM_RANK: comm_ask_return(&c, true); break;
	case ZN_S_COMM_COUNT: comm_ask_return(&c, false); break;
	case ZN_S_COMM_ABORT: zn_emit_at_will(ZN_EV_COMM_ABORT, c.thread->row, c.result); break;
	}
	return waits_for_ranks(c.shape) && !is_inner(&c) ? zn_stack(ctx, &c, ZN_LEAF_NCCL, c.ns) : 0;
}

SEC("uprobe")
int nccl_call(struct pt_regs *ctx)
{
	struct zn_hit hit;

	return zn_hit_read(&hit, ctx) ? nccl_return(ctx) : nccl_entry(ctx, &hit);
}

char LICENSE[] SEC("license") = "GPL";
