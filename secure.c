/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Gives up, once everything is open, what the daemon does not need any more: capabilities, and system calls. What is
 * left is for libraries that processes map later: reading /proc of any process, opening its files, attaching programs
 * that are loaded already. The processes that write files (scribe.c) and make connections (courier.c)
 * give up all else. Nothing here can be undone.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int kept[] = {
	CAP_SYS_PTRACE,         /* /proc/PID/maps, environ, fd of any process */
	CAP_DAC_READ_SEARCH,    /* libraries in private directories */
	CAP_CHECKPOINT_RESTORE, /* /proc/PID/map_files, from 5.9 on */
	CAP_BPF,                /* table access where unprivileged bpf() is off */
	CAP_PERFMON,            /* attaching */
};

/* Keeps what is wanted as far as it is there. */
static int keep(struct __user_cap_data_struct want[2])
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct have[2];

	if (syscall(SYS_capget, &head, have))
		return -errno;
	for (int i = 0; i < 2; i++)
		want[i].effective = want[i].permitted &= have[i].permitted;
	for (int cap = 0; cap <= CAP_LAST_CAP; cap++)
		if (!(want[cap / 32].permitted >> (cap % 32) & 1))
			prctl(PR_CAPBSET_DROP, cap, 0, 0, 0); /* fails where it was given up before */
	return syscall(SYS_capset, &head, want) ? -errno : 0;
}

/* perf-event uprobes need more, so a kernel without multi-uprobe links leaves the daemon CAP_SYS_ADMIN. */
int zn_secure_capabilities(bool sys_admin)
{
	struct __user_cap_data_struct want[2] = {{0}};

	for (size_t i = 0; i < ZN_LEN(kept); i++)
		want[kept[i] / 32].permitted |= 1U << (kept[i] % 32);
	if (sys_admin)
		want[CAP_SYS_ADMIN / 32].permitted |= 1U << (CAP_SYS_ADMIN % 32);
	return keep(want);
}

/* Everything that the loop, the finder and a clean exit use, besides openat() to read. Others fail with EPERM: no program is
 * started, no file opened to write, made or removed, no connection made, no tracing. */
/* clang-format off */
static const int allowed[] = {
	/* files and directories, to read */
	SYS_read, SYS_pread64, SYS_readv, SYS_lseek, SYS_close, SYS_fstat, SYS_newfstatat, SYS_readlinkat,
	SYS_getdents64, SYS_fcntl,
	/* the loop */
	SYS_epoll_pwait, SYS_epoll_ctl, SYS_ppoll, SYS_timerfd_settime, SYS_write, SYS_writev,
	/* clients */
	SYS_accept4, SYS_sendmsg, SYS_sendto, SYS_recvfrom, SYS_recvmsg, SYS_shutdown, SYS_setsockopt, SYS_getsockopt,
	SYS_getsockname, SYS_getpeername,
	/* probes */
	SYS_bpf, SYS_perf_event_open, SYS_ioctl,
	/* libc: memory, time, threads (one may be just starting), signals, the end */
	SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mremap, SYS_madvise, SYS_brk, SYS_clock_gettime, SYS_gettimeofday,
	SYS_clock_nanosleep, SYS_nanosleep, SYS_futex, SYS_set_robust_list, SYS_rseq, SYS_sched_yield, SYS_getrandom,
	SYS_getpid, SYS_gettid, SYS_tgkill, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall,
	SYS_wait4, SYS_exit, SYS_exit_group,
#ifdef __x86_64__
	SYS_epoll_wait, SYS_poll,
#endif
};

/* What the scribe uses, besides openat() to make a file that was not there. */
static const int scribe_allowed[] = {
	SYS_recvfrom, SYS_sendto, SYS_write, SYS_writev, SYS_close, SYS_fsync, SYS_flock, SYS_unlinkat, SYS_renameat,
	SYS_clock_gettime, SYS_gettimeofday, SYS_rt_sigreturn, SYS_restart_syscall, SYS_exit_group,
};

/* What the courier uses, besides openat() to read and socket(). */
static const int courier_allowed[] = {
	SYS_connect, SYS_sendto, SYS_sendmsg, SYS_recvfrom, SYS_getsockopt, SYS_setsockopt, SYS_ppoll, SYS_read, SYS_write,
	SYS_close, SYS_getrandom, SYS_clock_gettime, SYS_gettimeofday, SYS_rt_sigreturn, SYS_restart_syscall,
	SYS_exit_group,
#ifdef __x86_64__
	SYS_poll,
#endif
};
/* clang-format on */

#ifdef __x86_64__
#define THIS_ARCH AUDIT_ARCH_X86_64
#else
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#define LOAD(field)      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action)   BPF_STMT(BPF_RET | BPF_K, action)
#define SKIP_IF_EQUAL(v) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v, 1, 0)
#define SKIP_IF_ANY(v)   BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, v, 1, 0)
#define RUN_IF_EQUAL(v)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, v, 0, 1)

#define CODE_MAX 256
static struct sock_filter code[CODE_MAX];
static unsigned short code_len;
_Static_assert(2 * ZN_LEN(allowed) + 16 <= CODE_MAX, "the list is too long for the filter");

static void put(struct sock_filter instruction)
{
	code[code_len++] = instruction;
}

#define PUT(instruction) put((struct sock_filter)instruction)

/* Lets the listed calls pass. */
static void begin(const int *list, size_t count)
{
	code_len = 0;
	PUT(LOAD(arch));
	PUT(SKIP_IF_EQUAL(THIS_ARCH));
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
	PUT(LOAD(nr));
	for (size_t i = 0; i < count; i++) {
		PUT(RUN_IF_EQUAL(list[i]));
		PUT(RETURN(SECCOMP_RET_ALLOW));
	}
}

/* Refuses all others but openat(), which what follows decides on. */
static void then_open(void)
{
	PUT(SKIP_IF_EQUAL(SYS_openat));
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
	PUT(LOAD(args[2])); /* flags: its low half on both machines */
}

static void read_only(void)
{
	then_open();
	PUT(SKIP_IF_ANY(O_ACCMODE | O_CREAT | O_TRUNC));
	PUT(RETURN(SECCOMP_RET_ALLOW));
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
}

static int install(unsigned flags)
{
	struct sock_fprog program = {.filter = code, .len = code_len};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) ? -errno : 0;
}

int zn_secure_system_calls(void)
{
	begin(allowed, ZN_LEN(allowed));
	read_only();
	return install(SECCOMP_FILTER_FLAG_TSYNC); /* all threads: the finder runs already */
}

/* From Linux 5.13 on, where it is switched on; else the list of system calls must do. */
static void confine(const int *folder, size_t count, uint64_t access)
{
	struct landlock_ruleset_attr all = {
		.handled_access_fs = 2 * LANDLOCK_ACCESS_FS_MAKE_SYM - 1}; /* of its version 1 */
	int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all.handled_access_fs), 0);

	if (rules < 0)
		return;
	for (size_t i = 0; i < count; i++) {
		struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = folder[i]};

		if (folder[i] >= 0)
			syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
	}
	syscall(SYS_landlock_restrict_self, rules, 0);
	close(rules);
}

/* For a process that needs no more than folders: no capability, and that access below them alone. */
static int begin_child(const int *folder, size_t count, uint64_t access)
{
	struct __user_cap_data_struct none[2] = {{0}};
	int err = keep(none);

	if (err)
		return err;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	confine(folder, count, access);
	return 0;
}

int zn_secure_scribe(const int *folder, size_t count)
{
	int err = begin_child(folder, count,
		LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE);

	if (err)
		return err;
	begin(scribe_allowed, ZN_LEN(scribe_allowed));
	then_open();
	PUT(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_CREAT | O_EXCL));
	PUT(RUN_IF_EQUAL(O_CREAT | O_EXCL));
	PUT(RETURN(SECCOMP_RET_ALLOW));
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
	return install(0);
}

/* A Unix socket would lead to whatever listens on this node. */
int zn_secure_courier(const int *folder, size_t count)
{
	int err = begin_child(folder, count, LANDLOCK_ACCESS_FS_READ_FILE);

	if (err)
		return err;
	begin(courier_allowed, ZN_LEN(courier_allowed));
	PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5));
	PUT(LOAD(args[0]));
	PUT(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_INET, 1, 0));
	PUT(RUN_IF_EQUAL(AF_INET6));
	PUT(RETURN(SECCOMP_RET_ALLOW));
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
	read_only();
	return install(0);
}
