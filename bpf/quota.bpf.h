/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The owner of the calling process, for struct zn_quota, as zn_owner_of() of quota.c finds it, and how entries of
 * shared tables are taken. zernel.bpf.h includes this in its middle.
 */
#include "zernel.bpf.h"
#ifndef ZN_QUOTA_BPF_H
#define ZN_QUOTA_BPF_H

#include <bpf/bpf_core_read.h>

#define ZN_USER_NESTING 33 /* user namespaces inside one another: the kernel allows 32 */

/*
 * By what a thread is, or was when it opened a file. Only for what happens rarely: it reads the chain of user
 * namespaces. The first one has no parent.
 *
 * Functions here that are not static are verified once, each alone: with them in place the paths through several of
 * their loops would be multiplied.
 */
__noinline __u32 zn_owner_of_cred(__u64 address)
{
	const struct cred *cred = (void *)address;
	__u32 uid = BPF_CORE_READ(cred, uid.val), owner = ZN_OWNER_NONE;
	struct user_namespace *ns, *parent;

	ns = BPF_CORE_READ(cred, user_ns);
	for (int i = 0; ns && i < ZN_USER_NESTING; i++) {
		parent = BPF_CORE_READ(ns, parent);
		if (!parent)
			break;
		owner = BPF_CORE_READ(ns, owner.val);
		if (owner != ZN_OWNER_ROOT)
			uid = owner;
		ns = parent;
	}
	return owner == ZN_OWNER_ROOT ? ZN_OWNER_RANGE(uid) : uid; /* owner: of the outermost one */
}

static __always_inline __u32 zn_owner_current(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return zn_owner_of_cred((__u64)BPF_CORE_READ(task, real_cred));
}

static const __u8 zn_quota_loss[] = {
#define X(e, label, what) ZN_LOST_##what,
	ZN_QUOTAS(X)
#undef X
};

/* The same as zn_quota_take() and its like: 1 if an entry was taken. */
__noinline int zn_quota_take_from(__u32 table, __u32 owner)
{
	return table < ZN_QUOTA_COUNT ? zn_quota_take(&shared.quota[table], owner) : 0;
}

__noinline int zn_quota_try_from(__u32 table, __u32 owner)
{
	return table < ZN_QUOTA_COUNT ? zn_quota_try(&shared.quota[table], owner) : 0;
}

__noinline int zn_quota_give_to(__u32 table, __u32 owner)
{
	if (table < ZN_QUOTA_COUNT)
		zn_quota_give(&shared.quota[table], owner);
	return 0;
}

/* An entry is another owner's from here on, whatever his share is. */
__noinline int zn_quota_move(__u32 table, __u32 from, __u32 to)
{
	if (table >= ZN_QUOTA_COUNT)
		return 0;
	zn_quota_give(&shared.quota[table], from);
	zn_quota_give_many(&shared.quota[table], to, -1);
	return 0;
}

/* Takes an entry of a table for an owner. False: he has his share; it is counted as a loss. */
static __always_inline bool zn_quota_claim(enum zn_quota_table table, __u32 owner)
{
	if (zn_quota_take_from(table, owner))
		return true;
	zn_lost(zn_quota_loss[table]);
	return false;
}

#ifdef ZN_NO_FETCH
#define ZN_TRACKING static /* nobody needs it there */
#else
#define ZN_TRACKING
#endif

/* A thread or process did not get what it asks for again and again: it is counted once. */
ZN_TRACKING __noinline int zn_quota_refuse_once(__u32 table, __u32 owner, __u32 kind, __u32 id)
{
	__u64 bit = 1ULL << (id & 63);
	__u32 word = id >> 6 & (ZN_REFUSED_WORDS - 1);

	if (table >= ZN_QUOTA_COUNT || kind >= ZN_REFUSED_KINDS)
		return 0;
	if (__sync_fetch_and_or(&shared.refused[kind][word], bit) & bit)
		return 0;
	zn_quota_refuse(&shared.quota[table], owner);
	zn_lost(zn_quota_loss[table]);
	return 0;
}

/* Forgets a refused id at its end: the next one with this id may be counted again. */
static __always_inline void zn_quota_refused_end(enum zn_refused kind, __u32 id)
{
	__u64 *word = &shared.refused[kind][id >> 6 & (ZN_REFUSED_WORDS - 1)], bit = 1ULL << (id & 63);

	if (*word & bit)
		(void)__sync_fetch_and_and(word, ~bit);
}

#endif
