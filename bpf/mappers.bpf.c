// SPDX-License-Identifier: GPL-2.0
/*
 * Which processes map a file, whatever its name and whichever overlay or mount namespace it is seen through: an
 * iterator over all memory areas of all processes (5.12), run by the daemon's reading. It also tells of each process
 * that maps a file of FUSE, whose pages come only when a process of its user answers. A second iterator tells who
 * listens on Unix sockets, and whom some processes are connected with over them.
 */
#include <stdbool.h>
#include "kernel.h"
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "../zernel.h"

/* What the iterator hands over, at fixed places (linux/bpf.h, __bpf_md_ptr). */
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));
struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct zn_mapping_query);
} query SEC(".maps");

/* "fuse" and "fuseblk"; virtiofs has their magic number, but no process of this machine is behind it. */
static __always_inline bool is_fuse(const char *type)
{
	char name[4] = "";

	bpf_probe_read_kernel(name, sizeof(name), type);
	return name[0] == 'f' && name[1] == 'u' && name[2] == 's' && name[3] == 'e';
}

static __always_inline __u32 flags_of(struct super_block *sb)
{
	struct user_namespace *above = BPF_CORE_READ(sb, s_user_ns, parent);
	__u32 flags = is_fuse(BPF_CORE_READ(sb, s_type, name)) ? ZN_MAPPING_FUSE : 0;

	return above ? flags | ZN_MAPPING_USER_NS : flags;
}

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd __attribute__((aligned(8)));
	struct file *file;
};

/* Processes whose connections are looked at. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ZN_PROCS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} asked SEC(".maps");

#define UNIX        1
#define STREAM      1
#define ESTABLISHED 1
#define LISTENING   10

/* Of all processes those that listen on a Unix socket, and of those that are asked for whom they are connected with. */
SEC("iter/task_file")
int socket_visit(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct zn_service_edge edge = {};
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;
	__u8 state;

	if (!task || !file)
		return 0;
	edge.pid = task->tgid;
	socket = bpf_sock_from_file(file);
	sk = socket ? BPF_CORE_READ(socket, sk) : NULL;
	if (!sk || BPF_CORE_READ(sk, __sk_common.skc_family) != UNIX)
		return 0;
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (state == LISTENING && BPF_CORE_READ(sk, sk_type) == STREAM)
		bpf_seq_write(ctx->meta->seq, &edge, sizeof(edge));
	if (state != ESTABLISHED || !bpf_map_lookup_elem(&asked, &edge.pid))
		return 0;
	edge.peer = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr);
	if (edge.peer && edge.peer != edge.pid)
		bpf_seq_write(ctx->meta->seq, &edge, sizeof(edge));
	return 0;
}

SEC("iter/task_vma")
int mapping_visit(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct zn_mapping m = {};
	struct zn_mapping_query *q;
	struct super_block *sb;
	struct inode *inode;
	__u32 none = 0;

	q = bpf_map_lookup_elem(&query, &none);
	if (!q || !vma || !task)
		return 0;
	inode = BPF_CORE_READ(vma, vm_file, f_inode);
	if (!inode)
		return 0;
	sb = BPF_CORE_READ(inode, i_sb);
	m.tgid = task->tgid;
	m.dev = BPF_CORE_READ(sb, s_dev);
	m.ino = BPF_CORE_READ(inode, i_ino);
	m.inode = (__u64)inode;
	m.start = vma->vm_start;
	m.flags = flags_of(sb);
	if (m.ino == q->ino && m.dev == q->dev && (!q->inode || m.inode == q->inode))
		m.flags |= ZN_MAPPING_ASKED;
	if ((__u32)m.tgid == q->tgid && m.start == q->start)
		m.flags |= ZN_MAPPING_AT;
	if (m.flags & (ZN_MAPPING_ASKED | ZN_MAPPING_AT | ZN_MAPPING_FUSE))
		bpf_seq_write(ctx->meta->seq, &m, sizeof(m));
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
