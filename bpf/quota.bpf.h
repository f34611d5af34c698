/* SPDX-License-Identifier: GPL-2.0 */
/* Whose the calling process is, for struct zn_quota: as zn_owner_of() of quota.c says it. */
#ifndef ZN_QUOTA_BPF_H
#define ZN_QUOTA_BPF_H

#include "zernel.bpf.h"
#include <bpf/bpf_core_read.h>

#define ZN_USER_NESTING 33 /* user namespaces inside one another: the kernel allows 32 */

/*
 * By what a thread is, or was when it opened a file. Only for what happens rarely: it reads the chain of user namespaces. The
 * first one has no parent.
 *
 * Functions here that are not static are verified once, each alone: with them in place the paths through several of their
 * loops would be multiplied.
 */
__noinline __u32 zn_owner_of_cred(__u64 address)
{
	const struct cred *cred = (void *)address;
	__u32 uid = BPF_CORE_READ(cred, uid.val), owner;
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
	return uid;
}

static __always_inline __u32 zn_owner_current(void)
{
	struct task_struct *task = (void *)bpf_get_current_task();

	return zn_owner_of_cred((__u64)BPF_CORE_READ(task, real_cred));
}

/* As zn_quota_take() and the like: 1 if an entry was taken. */
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

/* Takes an entry of a table for an owner. False: he has his share; it is counted as a loss. */
static __always_inline bool zn_quota_claim(enum zn_quota_table table, __u32 owner)
{
	static const __u8 loss[] = {
#define X(e, label, what) ZN_LOST_##what,
		ZN_QUOTAS(X)
#undef X
	};

	if (zn_quota_take(&shared.quota[table], owner))
		return true;
	zn_lost(loss[table]);
	return false;
}

#endif
