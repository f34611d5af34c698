/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a file operation is: the device whose I/O it is, and whether another file system does it for that. Nothing is
 * counted of pseudo file systems (proc, sysfs, cgroup, ...) and of mounts that are the kernel's own (pipes, sockets,
 * memfd).
 */
#ifndef ZN_PLACE_BPF_H
#define ZN_PLACE_BPF_H

#include "cast.bpf.h"

enum { S_TYPE = 0170000, S_DIRECTORY = 0040000, S_REGULAR = 0100000 };
#define FMODE_PATH_ 0x4000u    /* linux/fs.h */
#define OVERLAYFS   0x794c7630 /* linux/magic.h */
#define ECRYPTFS    0xf15f

static __noinline int is_pseudo(__u32 magic)
{
	switch (magic) {
	case 0x9fa0:     /* proc */
	case 0x62656572: /* sysfs */
	case 0x27e0eb:   /* cgroup */
	case 0x63677270: /* cgroup2 */
	case 0x64626720: /* debugfs */
	case 0x74726163: /* tracefs */
	case 0xcafe4a11: /* bpf */
	case 0x1cd1:     /* devpts */
	case 0x73636673: /* securityfs */
	case 0x62656570: /* configfs */
	case 0x6165676c: /* pstore */
	case 0xde5e81e4: /* efivarfs */
	case 0xf97cff8c: /* selinuxfs */
	case 0x43415d53: /* smackfs */
	case 0x5a3c69f0: /* apparmorfs */
	case 0x42494e4d: /* binfmt_misc */
	case 0x65735543: /* fusectl */
	case 0x19800202: /* mqueue */
	case 0x7655821:  /* resctrl */
	case 0x67596969: /* rpc_pipefs */
	case 0x6e667364: /* nfsd */
	case 0x6e736673: /* nsfs */ return true;
	}
	return false;
}

/* Kernel memory, by the address of a field: directly where the verifier knows the pointer's type, which costs
 * nothing. */
#define READ(typed, at, field) ((typed) ? (at)->field : BPF_CORE_READ(at, field))

/* One of two words of a context, by what is known once the program is loaded. Both are read before that: a context
 * cannot be read at a place that was worked out. */
static __always_inline __u64 either_word(bool first, __u64 one, __u64 other)
{
	ZN_OPAQUE(one);
	ZN_OPAQUE(other);
	return first ? one : other;
}

/* What an operation is on: a device, and whether its file system hands on to others. */
struct place {
	__u32 dev; /* 0: not counted */
	__u32 stacked;
};

static __always_inline struct place place_of_sb(bool typed, struct super_block *sb)
{
	__u32 magic = READ(typed, sb, s_magic);
	struct place p = {};

	if (is_pseudo(magic) || READ(typed, sb, s_flags) & SB_KERNMOUNT)
		return p;
	p.dev = READ(typed, sb, s_dev);
	p.stacked = magic == OVERLAYFS || magic == ECRYPTFS;
	return p;
}

static __always_inline struct place place_of_inode(bool typed, struct inode *inode, bool directories)
{
	__u32 type = READ(typed, inode, i_mode) & S_TYPE;

	if (type != S_REGULAR && !(directories && type == S_DIRECTORY))
		return (struct place){};
	return place_of_sb(typed, READ(typed, inode, i_sb));
}

static __always_inline struct place place_of_file(bool typed, struct file *file, bool directories)
{
	return place_of_inode(typed, READ(typed, file, f_inode), directories);
}

#ifdef ZN_NO_FETCH /* as old as that, bpf_get_current_task_btf() is missing too (5.11) */
#define CURRENT()     ((struct task_struct *)bpf_get_current_task())
#define CURRENT_TYPED false
#else
#define CURRENT()     bpf_get_current_task_btf()
#define CURRENT_TYPED true
#endif

/* NULL: the thread has no such descriptor. */
static __always_inline struct file *file_of(struct task_struct *task, __u32 fd)
{
	struct files_struct *files = READ(CURRENT_TYPED, task, files);
	struct fdtable *table = files ? READ(CURRENT_TYPED, files, fdt) : NULL;

	if (!table || fd >= READ(CURRENT_TYPED, table, max_fds))
		return NULL;
	return zn_pointer_at(READ(CURRENT_TYPED, table, fd) + fd);
}

static __always_inline struct place place_of_task_fd(struct task_struct *task, int fd, bool directories)
{
	struct file *file = file_of(task, fd);

	if (!file)
		return (struct place){};
	return zn_casts ? place_of_file(true, ZN_CAST(file, struct file), directories)
			: place_of_file(false, file, directories);
}

static __always_inline struct place place_of_fd(int fd, bool directories)
{
	return place_of_task_fd(CURRENT(), fd, directories);
}

#endif
