/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Entries of file operations under way, by the thread and the kind of operation. A part of zernel.bpf.h.
 */
#ifndef ZN_PENDING_BPF_H
#define ZN_PENDING_BPF_H

#define ZN_IO_OWNER(tid, kind) ((tid) << 2 | (kind))

#ifdef ZN_NO_FETCH
static __always_inline struct zn_io_pending *zn_io_pending_find(__u32 owner)
{
	return bpf_map_lookup_elem(&io_pending, &owner);
}

/* The thread's own entry, or a free one; NULL: there is none. */
static __always_inline struct zn_io_pending *zn_io_pending_take(__u32 owner)
{
	struct zn_io_pending *s = zn_io_pending_find(owner), fresh = {.owner = owner};

	if (s || bpf_map_update_elem(&io_pending, &owner, &fresh, BPF_NOEXIST))
		return s;
	return zn_io_pending_find(owner);
}

/* It may be another thread's from here on. */
static __always_inline void zn_io_pending_free(struct zn_io_pending *s, __u32 owner)
{
	(void)s;
	bpf_map_delete_elem(&io_pending, &owner);
}

static __always_inline void zn_io_pending_forget(__u32 owner)
{
	(void)owner; /* nothing is known that outlives an operation */
}
#else
#define ZN_IO_TRIES           4
/* Far apart for threads that follow one another, so that no two CPUs write to one cache line. */
#define ZN_IO_PLACE(owner, i) (((owner)*40503u + (i)) & (ZN_IO_PENDING_MAX - 1))

static __always_inline struct zn_io_pending *zn_io_pending_find(__u32 owner)
{
#pragma unroll
	for (int i = 0; i < ZN_IO_TRIES; i++) {
		__u32 at = ZN_IO_PLACE(owner, i);
		struct zn_io_pending *s = bpf_map_lookup_elem(&io_pending, &at);

		if (s && s->owner == owner)
			return s;
	}
	return NULL;
}

/* The thread's own entry, or a free one; NULL: there is none. */
static __always_inline struct zn_io_pending *zn_io_pending_take(__u32 owner)
{
#pragma unroll
	for (int i = 0; i < ZN_IO_TRIES; i++) {
		__u32 at = ZN_IO_PLACE(owner, i);
		struct zn_io_pending *s = bpf_map_lookup_elem(&io_pending, &at);

		if (s && (s->owner == owner || __sync_val_compare_and_swap(&s->owner, 0, owner) == 0))
			return s;
	}
	return NULL;
}

/* It may be another thread's from here on, or is already: see pending_squeeze(). */
static __always_inline void zn_io_pending_free(struct zn_io_pending *s, __u32 owner)
{
	if (*(volatile __u32 *)&s->owner != owner)
		return;
	s->stacked = 0;
	s->start_ns = 0;
#ifdef __TARGET_ARCH_arm64 /* what was written to it before is seen before */
	__sync_lock_test_and_set(&s->owner, 0);
#else
	s->owner = 0;
#endif
}

/* What the entries of a thread remember of it. */
static __always_inline void zn_io_pending_forget(__u32 owner)
{
#pragma unroll
	for (int i = 0; i < ZN_IO_TRIES; i++) {
		__u32 at = ZN_IO_PLACE(owner, i);
		struct zn_io_pending *s = bpf_map_lookup_elem(&io_pending, &at);

		if (s && (__u32)s->last_for == owner)
			s->last_for = 0;
	}
}
#endif

#endif
