/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The few kernel types that the BPF programs use, kept by hand. pt_regs is fixed by the ABI
 * (arch/.../uapi/asm/ptrace.h) and read at fixed offsets; the others are read with CO-RE, so only the names and types
 * of their fields matter.
 */
#ifndef ZN_KERNEL_H
#define ZN_KERNEL_H

#include <linux/types.h>

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax, ip, cs, flags, sp, ss;
};
#define ZN_ARG1(r)   ((r)->di)
#define ZN_ARG2(r)   ((r)->si)
#define ZN_ARG3(r)   ((r)->dx)
#define ZN_ARG4(r)   ((r)->cx)
#define ZN_ARG5(r)   ((r)->r8)
#define ZN_ARG6(r)   ((r)->r9)
#define ZN_RESULT(r) ((__u32)(r)->ax)
/* The stack pointer that identifies a call: at entry it points to the return address, which `ret` has popped later. */
#define ZN_SP_ENTRY(r)  ((r)->sp)
#define ZN_SP_RETURN(r) ((r)->sp - 8)
/* System V ABI: arguments 7, 8, 9 follow the return address; a 128-byte struct by value lies there too. */
#define ZN_STACK_ARG9(r)     ((r)->sp + 24)
#define ZN_STACK_ARG7(r)     ((r)->sp + 8)
#define ZN_STACK_ARG8(r)     ((r)->sp + 16)
#define ZN_STACK_STRUCT(r)   ((r)->sp + 8)
#define ZN_INIT_RANK_RANK(r) ((r)->dx)
#define ZN_NR_WRITE          1
#define ZN_NR_MMAP           9
#define ZN_NR_MUNMAP         11
#define ZN_NR_IOCTL          16
#define ZN_NR_WRITEV         20
#define ZN_NR_SENDTO         44
#define ZN_NR_SENDMSG        46
#define ZN_NR_READ           0
#define ZN_NR_READV          19
#define ZN_NR_RECVFROM       45
#define ZN_NR_RECVMSG        47
/* Made by the kernel's own code at the return (6.11) or the entry (6.18) of a probed function, not by the program. */
#define ZN_NR_OF_PROBE(nr) ((nr) == 335 || (nr) == 336)
#define ZN_RESULT_LONG(r)  ((r)->ax)
/* At the start of a system call: its fourth argument, and its number, which is -1 where an exception came in
 * instead. */
#define ZN_CALL_ARG1(r)          ((r)->di)
#define ZN_CALL_ARG2(r)          ((r)->si)
#define ZN_CALL_ARG3(r)          ((r)->dx)
#define ZN_CALL_ARG4(r)          ((r)->r10)
#define ZN_CALL_NUMBER(r)        ((r)->orig_ax)
#define ZN_CALL_OF_32_BITS(info) ((info)->status & 2) /* TS_COMPAT: the numbers are others */
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	__u64 regs[31];
	__u64 sp, pc, pstate;
	__u64 orig_x0;
	__s32 syscallno;
	__u32 pad;
};
#define ZN_ARG1(r)               ((r)->regs[0])
#define ZN_ARG2(r)               ((r)->regs[1])
#define ZN_ARG3(r)               ((r)->regs[2])
#define ZN_ARG4(r)               ((r)->regs[3])
#define ZN_ARG5(r)               ((r)->regs[4])
#define ZN_ARG6(r)               ((r)->regs[5])
#define ZN_RESULT(r)             ((__u32)(r)->regs[0])
#define ZN_SP_ENTRY(r)           ((r)->sp)
#define ZN_SP_RETURN(r)          ((r)->sp)
/* AAPCS64: eight registers, then the stack; a large struct by value is passed as a pointer to a copy. */
#define ZN_STACK_ARG9(r)         ((r)->sp)
#define ZN_ARG7(r)               ((r)->regs[6])
#define ZN_ARG8(r)               ((r)->regs[7])
#define ZN_STACK_STRUCT(r)       ((r)->regs[2])
#define ZN_INIT_RANK_RANK(r)     ((r)->regs[3])
#define ZN_RESULT_LONG(r)        ((r)->regs[0])
#define ZN_CALL_ARG1(r)          ((r)->orig_x0)
#define ZN_CALL_ARG2(r)          ((r)->regs[1])
#define ZN_CALL_ARG3(r)          ((r)->regs[2])
#define ZN_CALL_ARG4(r)          ((r)->regs[3])
#define ZN_CALL_NUMBER(r)        ((__s64)(__s32)(r)->syscallno)
#define ZN_CALL_OF_32_BITS(info) ((info)->flags >> 22 & 1) /* TIF_32BIT */
#define ZN_NR_IOCTL              29
#define ZN_NR_WRITE              64
#define ZN_NR_WRITEV             66
#define ZN_NR_SENDTO             206
#define ZN_NR_SENDMSG            211
#define ZN_NR_READ               63
#define ZN_NR_READV              65
#define ZN_NR_RECVFROM           207
#define ZN_NR_RECVMSG            212
#define ZN_NR_MUNMAP             215
#define ZN_NR_MMAP               222
#define ZN_NR_OF_PROBE(nr)       false
#else
#error "unknown target architecture"
#endif

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
	int counter;
} atomic_t;
struct signal_struct {
	atomic_t live;
};
struct kernfs_node {
	__u64 id;
	const char *name;
};
struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};
struct cgroup_root {
	int hierarchy_id;
};
struct bpf_array {
	void *pptrs[1];
};
struct task_cputime {
	__u64 stime, utime;
	unsigned long long sum_exec_runtime;
};
struct cgroup_base_stat {
	struct task_cputime cputime;
};
struct cgroup_rstat_base_cpu {
	struct cgroup_base_stat bstat;
};
struct cgroup_rstat_cpu {
	struct cgroup_base_stat bstat;
};
struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
	struct cgroup_subsys_state *subsys[1];
	struct cgroup_root *root;
	struct cgroup_rstat_base_cpu *rstat_base_cpu;
};
struct cgroup___before_616 {
	struct cgroup_rstat_cpu *rstat_cpu;
};
/* of each CPU, as the pointers above */
struct kernel_cpustat {
	__u64 cpustat[5]; /* user, nice, system, softirq, irq */
};
struct cpuacct {
	struct cgroup_subsys_state css;
	__u64 *cpuusage;
	struct kernel_cpustat *cpustat;
};
struct cpuacct_usage { /* before 5.17: what cpuusage points to */
	__u64 usages[2];
};
struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};
typedef struct {
	__s64 counter;
} atomic64_t;
typedef atomic64_t atomic_long_t;
struct page_counter {
	atomic_long_t usage;
	unsigned long max;
	unsigned long watermark;
};
struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
};
struct oom_control {
	struct mem_cgroup *memcg;
	struct task_struct *chosen;
};
/* what a process has mapped: by kind, see enum zn_oom_memory */
struct percpu_counter {
	__s64 count;
	__s32 *counters;
};
struct mm_struct {
	struct percpu_counter rss_stat[4];
};
struct mm_rss_stat {
	atomic_long_t count[4];
};
struct mm_struct___before_62 {
	struct mm_rss_stat rss_stat;
};
/* files */
struct user_namespace;
struct file_system_type {
	const char *name;
};
#define SB_KERNMOUNT (1u << 22) /* linux/fs.h: of a mount of the kernel's own, of its s_flags */
struct super_block {
	__u32 s_dev;
	unsigned long s_flags;
	unsigned long s_magic;
	struct file_system_type *s_type;
	struct user_namespace *s_user_ns;
};
struct inode {
	__u16 i_mode;
	unsigned long i_ino;
	__u32 i_rdev;
	struct super_block *i_sb;
};
struct dentry {
	struct super_block *d_sb;
};
struct cred;
struct path {
	struct dentry *dentry;
};
struct file {
	__u32 f_mode;
	__u32 f_flags;
	struct inode *f_inode;
	const struct cred *f_cred;
	void *private_data;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct renamedata {
	struct dentry *old_dentry;
};
struct mnt_idmap { /* from 6.2 on */
};
struct vfsmount {
	struct mnt_idmap *mnt_userns; /* 5.12 to 6.1 */
};
struct kiocb {
	struct file *ki_filp;
};
struct address_space {
	struct inode *host;
};
struct folio { /* its first word are its flags, in all kernels */
	struct address_space *mapping;
	unsigned long _flags_1;
};
struct folio___order {
	unsigned char _folio_order; /* before 6.6 */
};
struct vm_area_struct {
	unsigned long vm_start;
	struct file *vm_file;
};
struct vm_fault {
	struct vm_area_struct *vma;
};
struct io_uring_cqe {
	__s32 res;
};
struct io_uring_task;
struct io_ring_ctx {
	unsigned int flags;
};
struct io_async_rw {
	unsigned long bytes_done;
};
struct io_kiocb {
	struct file *file;
	__u8 opcode;
	struct io_uring_task *tctx; /* from 6.13 on */
};
struct io_kiocb___task {
	struct task_struct *task; /* before that */
};
/* Of its own: a pointer among the above would make the compiler emit io_ring_ctx as a mere name everywhere, which
 * matches no argument of that type. */
struct io_kiocb___rw {
	struct io_ring_ctx *ctx;
	void *async_data;
};
struct io_uring_task {
	struct task_struct *task;
};
/* sockets */
struct upid {
	int nr;
};
struct pid {
	struct upid numbers[1]; /* as the host has it */
};
struct sock_common {
	unsigned short skc_family;
	__u16 skc_num;
	__u16 skc_dport; /* in the order of the network */
	volatile unsigned char skc_state;
};
struct sock {
	struct sock_common __sk_common;
	__u16 sk_protocol;
	__u16 sk_type;
	struct pid *sk_peer_pid;
};
struct unix_sock {
	struct unix_address *addr; /* NULL: it has no name */
};
struct inet_connection_sock {
	struct {
		__u32 lrcvtime;
	} icsk_ack;
};
struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_nxt;
	__u32 write_seq;
	__u32 srtt_us;
};
struct socket {
	struct sock *sk;
};
struct rb_node {
	struct rb_node *rb_right, *rb_left;
};
struct rb_root {
	struct rb_node *rb_node;
};
struct rb_root_cached {
	struct rb_root rb_root;
};
struct eventpoll {
	struct rb_root_cached rbr;
};
struct epoll_filefd {
	struct file *file;
};
struct epitem {
	struct epoll_filefd ffd;
};

struct thread_info {
	unsigned long flags;
	__u32 status;
	__u32 cpu;
};
typedef struct {
	unsigned int val;
} kuid_t;
struct user_namespace {
	struct user_namespace *parent;
	kuid_t owner;
};
struct cred {
	kuid_t uid;
	struct user_namespace *user_ns;
};
struct task_struct;
struct pid_namespace {
	struct task_struct *child_reaper;
};
struct nsproxy {
	struct pid_namespace *pid_ns_for_children;
};
#ifdef __TARGET_ARCH_x86
struct thread_struct {
	unsigned long fsbase;
};
#endif
struct bpf_run_ctx {
};
struct bpf_session_run_ctx {
	bool is_return;
};
struct bpf_uprobe {
	__u64 cookie;
};
/* Of a program on a function of a library, while it runs: from 6.13 on as it is here. */
struct bpf_uprobe_multi_run_ctx {
	struct bpf_session_run_ctx session_ctx;
	struct bpf_uprobe *uprobe;
};
struct task_struct {
	struct thread_info thread_info;
	void *stack;
	struct task_struct *group_leader;
	struct mm_struct *mm;
	char comm[16];
#ifdef __TARGET_ARCH_x86
	struct thread_struct thread;
#endif
	struct task_struct *real_parent;
	struct nsproxy *nsproxy;
	unsigned int __state;
	unsigned int flags;
	int exit_code;
	int pid;
	int tgid;
	unsigned long min_flt, maj_flt;
	__u64 start_time;        /* of this thread, as bpf_ktime_get_ns() has it */
	unsigned int frozen : 1; /* by the freezer of cgroup v2 */
	const struct cred *real_cred;
	struct css_set *cgroups;
	struct signal_struct *signal;
	struct files_struct *files;
	struct bpf_run_ctx *bpf_ctx;
};
struct task_struct___before_516 {
	unsigned int cpu;
};
#pragma clang attribute pop

enum pageflags { PG_head = 6 /* likewise */ };
enum cgroup_subsys_id { memory_cgrp_id = 1, cpuacct_cgrp_id = 2 /* each kernel has its own */ };

#endif
