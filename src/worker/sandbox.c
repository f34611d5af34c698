/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Gives up, once everything is open, what the daemon does not need any more: capabilities, and system calls. What is
 * left is for libraries that processes map later: reading /proc of any process, opening its files, attaching programs
 * that are loaded already. The finder's thread alone does that; the loop's, which reads what comes over the network,
 * gives up that too. Both share their memory: docs/SECURITY.md says what that is worth. The processes that write files
 * (writer.c), make connections (sender.c) and read /sys (gauge.c) give up all else. Nothing here can be undone.
 */
#include "zernel.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/nsfs.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Sockets whose port others had at the start: each is given its own once that is free. The rest is no descriptor. Where
 * there is one, what a port below 1024 takes is kept too: the filter and Landlock allow it for these alone. */
#define WAITING_MAX (2 * ZN_LISTEN_MAX)
static uint32_t waiting[WAITING_MAX] = {[0 ... WAITING_MAX - 1] = UINT32_MAX};
static uint16_t waiting_port[WAITING_MAX];
static unsigned waiting_count;
static bool waits_for_low; /* one of them is a port that needs a capability */

void zn_sandbox_listen(int fd, uint16_t port)
{
	if (waiting_count == WAITING_MAX)
		return;
	waits_for_low |= port < IPPORT_RESERVED;
	waiting[waiting_count] = (uint32_t)fd;
	waiting_port[waiting_count++] = port;
}

static const int kept[] = {
	CAP_SYS_PTRACE,         /* /proc/PID/maps, environ, fd of any process */
	CAP_DAC_READ_SEARCH,    /* libraries in private directories */
	CAP_CHECKPOINT_RESTORE, /* /proc/PID/map_files, from 5.9 on */
	CAP_BPF,                /* table access where unprivileged bpf() is off */
	CAP_PERFMON,            /* attaching */
};

uint64_t zn_sandbox_capable(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct have[2];

	return syscall(SYS_capget, &head, have) ? 0 : have[0].effective | (uint64_t)have[1].effective << 32;
}

/* Keeps what is wanted as far as it is there. */
static int keep_capabilities(struct __user_cap_data_struct want[2])
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

static void want_capability(struct __user_cap_data_struct want[2], int cap)
{
	want[cap / 32].permitted |= 1U << (cap % 32);
}

/* perf-event uprobes need more, so a kernel without multi-uprobe links leaves the daemon CAP_SYS_ADMIN. */
int zn_sandbox_capabilities(bool sys_admin)
{
	struct __user_cap_data_struct want[2] = {{0}};

	for (size_t i = 0; i < ZN_LEN(kept); i++)
		want_capability(want, kept[i]);
	if (sys_admin)
		want_capability(want, CAP_SYS_ADMIN);
	if (waits_for_low)
		want_capability(want, CAP_NET_BIND_SERVICE);
	return keep_capabilities(want);
}

/* Everything that the loop, the finder and a clean exit use and that does no harm whatever its arguments are. What
 * checks[] does not let pass either fails with EPERM: no program is started, no file opened to write, made or
 * removed, no connection made, no tracing. */
/* clang-format off */
static const int allowed[] = {
	/* files and directories, to read */
	SYS_read, SYS_pread64, SYS_readv, SYS_lseek, SYS_close, SYS_fstat, SYS_newfstatat, SYS_statx, SYS_statfs,
	SYS_fstatfs, SYS_readlinkat, SYS_faccessat, SYS_getdents64,
	/* the loop */
	SYS_epoll_pwait, SYS_epoll_ctl, SYS_ppoll, SYS_timerfd_settime, SYS_write, SYS_writev, SYS_uname,
	/* clients */
	SYS_accept4, SYS_recvfrom, SYS_shutdown, SYS_setsockopt, SYS_getsockopt, SYS_getsockname,
	SYS_getpeername,
	/* libc: memory, time, threads (one may be just starting), signals, the end */
	SYS_munmap, SYS_mremap, SYS_brk, SYS_clock_gettime, SYS_gettimeofday, SYS_clock_nanosleep, SYS_nanosleep, SYS_futex,
	SYS_set_robust_list, SYS_rseq, SYS_sched_yield, SYS_sched_getaffinity, SYS_getrandom, SYS_getpid, SYS_gettid,
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_rt_sigtimedwait, SYS_restart_syscall, SYS_wait4, SYS_exit,
	SYS_exit_group,
#ifdef __x86_64__
	SYS_epoll_wait, SYS_poll,
	/* what a C library uses in place of the newer ones: glibc before 2.33, musl */
	SYS_stat, SYS_lstat, SYS_readlink, SYS_access,
#endif
};

/* What the writer uses, besides openat() to make a file that was not there. */
static const int writer_allowed[] = {
	SYS_recvfrom, SYS_sendto, SYS_write, SYS_writev, SYS_ppoll, SYS_close, SYS_fstat, SYS_fsync, SYS_unlinkat,
	SYS_renameat, SYS_clock_gettime, SYS_gettimeofday, SYS_rt_sigreturn, SYS_restart_syscall, SYS_exit_group,
#ifdef __x86_64__
	SYS_poll,
#endif
};

/* What the sender uses, besides openat() to read and socket(). */
static const int sender_allowed[] = {
	SYS_connect, SYS_sendto, SYS_sendmsg, SYS_recvfrom, SYS_getsockopt, SYS_setsockopt, SYS_ppoll, SYS_read,
	SYS_pread64, SYS_write, SYS_close, SYS_getrandom, SYS_clock_gettime, SYS_gettimeofday, SYS_rt_sigreturn,
	SYS_restart_syscall, SYS_exit_group,
#ifdef __x86_64__
	SYS_poll,
#endif
};

/* What the process that reads /sys, and hears zernel-gpu, uses, besides openat() to read. */
static const int gauge_allowed[] = {
	SYS_read, SYS_write, SYS_close, SYS_getdents64, SYS_readlinkat, SYS_recvfrom, SYS_sendto, SYS_accept4, SYS_getsockopt,
	SYS_newfstatat, SYS_ppoll, SYS_clock_gettime, SYS_gettimeofday, SYS_rt_sigreturn, SYS_restart_syscall, SYS_exit_group,
#ifdef __x86_64__
	SYS_poll, SYS_stat, /* musl has the latter for fstatat() */
#endif
};
/* clang-format on */

/* What the reader of users' memory uses, besides openat() to read and mmap() of what is not run. */
static const int reader_allowed[] = {
	SYS_recvfrom,
	SYS_sendto,
	SYS_setitimer,
	SYS_process_vm_readv,
	SYS_read,
	SYS_pread64,
	SYS_lseek,
	SYS_close,
	SYS_fstat,
	SYS_newfstatat,
	SYS_readlinkat,
	SYS_getdents64,
	SYS_munmap,
	SYS_mremap,
	SYS_brk,
	SYS_write,
	SYS_writev,
	SYS_clock_gettime,
	SYS_gettimeofday,
	SYS_rt_sigreturn,
	SYS_restart_syscall,
	SYS_exit_group,
#ifdef __x86_64__
	SYS_stat,
	SYS_readlink,
#endif
};

/* The tables and programs are there: they are read, written and attached. Nothing is loaded, made, pinned, or
 * fetched by a number or a name. */
static const uint32_t bpf_commands[] = {BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM,
	BPF_MAP_GET_NEXT_KEY, BPF_MAP_LOOKUP_AND_DELETE_ELEM, BPF_MAP_LOOKUP_BATCH, BPF_OBJ_GET_INFO_BY_FD,
	BPF_LINK_CREATE, BPF_RAW_TRACEPOINT_OPEN, BPF_ITER_CREATE};

/* The owner of a mount's user namespace, which changes nothing; and the start and the stop of events that the daemon
 * has opened. FIOSETOWN and PERF_EVENT_IOC_SET_BPF are left out. */
static const uint32_t ioctl_requests[] = {
	NS_GET_USERNS, NS_GET_PARENT, NS_GET_OWNER_UID, PERF_EVENT_IOC_ENABLE, PERF_EVENT_IOC_DISABLE};

/* F_SETOWN is left out, as user 0 can signal any process with it; so are locks and leases, which others wait for. */
static const uint32_t fcntl_commands[] = {F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC};

/* MADV_HWPOISON is left out, as it takes memory away from the machine. */
static const uint32_t advices[] = {MADV_NORMAL, MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, MADV_NOHUGEPAGE};

/* The event is described by memory, which a filter cannot see, so it cannot tell events apart. */
static const uint32_t event_flags[] = {PERF_FLAG_FD_CLOEXEC};

/* Not O_ACCMODE: in musl that has O_PATH, with which nothing is read or written. */
static const uint32_t writing[] = {O_WRONLY | O_RDWR | O_CREAT | O_TRUNC};
static const uint32_t executable[] = {PROT_EXEC};

/* With it a socket that listened, and was shut down, makes a connection. */
static const uint32_t connecting[] = {MSG_FASTOPEN};

static uint32_t own_pid[1];

/* The thread of the loop has a filter before the others do; then all get one. */
static const uint32_t further_filter[] = {SECCOMP_SET_MODE_FILTER};

/* The writer makes new files alone. It finds a folder too, by a descriptor that reads nothing. */
static const uint32_t making[] = {O_CREAT | O_EXCL, O_PATH | O_DIRECTORY};

/* A Unix socket would lead to whatever listens on this node. */
static const uint32_t domains[] = {AF_INET, AF_INET6};

/* What a system call's argument must be: one of these values, or a word with none, or all, of the bits of one. The
 * kernel takes each of them as an int or looks at its low bits alone, so the high half of the register says
 * nothing. */
struct check {
	int call;
	unsigned argument;
	enum { ONE_OF, NO_BIT_OF, ALL_BITS_OF } must;
	const uint32_t *value;
	size_t count;
};

#define CHECK_OF(call, argument, must, values)                                                                         \
	{                                                                                                              \
		call, argument, must, values, ZN_LEN(values)                                                           \
	}
static const struct check checks[] = {
	CHECK_OF(SYS_sendto, 3, NO_BIT_OF, connecting), CHECK_OF(SYS_sendmsg, 2, NO_BIT_OF, connecting),
	CHECK_OF(SYS_openat, 2, NO_BIT_OF, writing), CHECK_OF(SYS_bpf, 0, ONE_OF, bpf_commands),
	CHECK_OF(SYS_mmap, 2, NO_BIT_OF, executable), CHECK_OF(SYS_mprotect, 2, NO_BIT_OF, executable),
	CHECK_OF(SYS_madvise, 2, ONE_OF, advices), CHECK_OF(SYS_perf_event_open, 4, ONE_OF, event_flags),
	CHECK_OF(SYS_ioctl, 1, ONE_OF, ioctl_requests), CHECK_OF(SYS_fcntl, 1, ONE_OF, fcntl_commands),
	CHECK_OF(SYS_tgkill, 0, ONE_OF, own_pid), /* abort() */
	CHECK_OF(SYS_bind, 0, ONE_OF, waiting), CHECK_OF(SYS_listen, 0, ONE_OF, waiting),
#ifdef __x86_64__
	CHECK_OF(SYS_open, 1, NO_BIT_OF, writing),
#endif
	CHECK_OF(SYS_seccomp, 0, ONE_OF, further_filter), /* the last, see zn_sandbox_system_calls() */
};
static const struct check writer_checks[] = {CHECK_OF(SYS_openat, 2, ALL_BITS_OF, making)};
static const struct check reader_checks[] = {
	CHECK_OF(SYS_openat, 2, NO_BIT_OF, writing),
	CHECK_OF(SYS_mmap, 2, NO_BIT_OF, executable),
};
static const struct check sender_checks[] = {
	CHECK_OF(SYS_openat, 2, NO_BIT_OF, writing),
	CHECK_OF(SYS_socket, 0, ONE_OF, domains),
#ifdef __x86_64__
	CHECK_OF(SYS_open, 1, NO_BIT_OF, writing),
#endif
};

static const struct check gauge_checks[] = {
	CHECK_OF(SYS_openat, 2, NO_BIT_OF, writing),
#ifdef __x86_64__
	CHECK_OF(SYS_open, 1, NO_BIT_OF, writing),
#endif
};

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

#define CODE_MAX 512
static struct sock_filter code[CODE_MAX];
static unsigned short code_len;

/* One instruction too many is counted, and refused when the filter is put on. */
static void put_instruction(struct sock_filter instruction)
{
	if (code_len < CODE_MAX)
		code[code_len] = instruction;
	code_len++;
}

#define PUT(instruction) put_instruction((struct sock_filter)instruction)

static void put_argument(const struct check *c)
{
	PUT(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args) + c->argument * sizeof(uint64_t)));
}

static void put_value(const struct check *c, uint32_t value)
{
	switch (c->must) {
	case ONE_OF: PUT(RUN_IF_EQUAL(value)); break;
	case NO_BIT_OF: PUT(SKIP_IF_ANY(value)); break;
	case ALL_BITS_OF:
		put_argument(c); /* the value before has cut it */
		PUT(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, value));
		PUT(RUN_IF_EQUAL(value));
	}
	PUT(RETURN(SECCOMP_RET_ALLOW));
}

/* Decides on a system call for good. Of another one the number stays loaded. */
static void put_check(const struct check *c)
{
	unsigned first = code_len;

	PUT(RUN_IF_EQUAL(c->call));
	put_argument(c);
	for (size_t i = 0; i < c->count; i++)
		put_value(c, c->value[i]);
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
	if (code_len <= CODE_MAX)
		code[first].jf = (uint8_t)(code_len - first - 1);
}

static int install_filter(unsigned flags)
{
	struct sock_fprog program = {.filter = code, .len = code_len};

	if (code_len > CODE_MAX)
		return -E2BIG;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !(flags & SECCOMP_FILTER_FLAG_TSYNC))
		return -errno; /* of a thread that has a filter it is set, and cannot be set again */
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) ? -errno : 0;
}

/* Checks come first: the kernel remembers, from 5.11 on, which calls pass whatever their arguments are, and asks
 * no filter about those. */
static void build_filter(const struct check *check, size_t checks_count, const int *list, size_t count)
{
	code_len = 0;
	PUT(LOAD(arch));
	PUT(SKIP_IF_EQUAL(THIS_ARCH));
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
	PUT(LOAD(nr));
	for (size_t i = 0; i < checks_count; i++)
		put_check(&check[i]);
	for (size_t i = 0; i < count; i++) {
		PUT(RUN_IF_EQUAL(list[i]));
		PUT(RETURN(SECCOMP_RET_ALLOW));
	}
	PUT(RETURN(SECCOMP_RET_ERRNO | EPERM));
}

int zn_sandbox_system_calls(enum zn_sandbox_threads of)
{
	own_pid[0] = (uint32_t)getpid();
	/* the last check is of what the last filter does not allow any more */
	build_filter(checks, ZN_LEN(checks) - (of == ZN_SANDBOX_ALL_THREADS), allowed, ZN_LEN(allowed));
	return install_filter(of == ZN_SANDBOX_ALL_THREADS ? SECCOMP_FILTER_FLAG_TSYNC : 0);
}

/* ---- Landlock: from Linux 5.13 on, where it is switched on. ---- */

/* What a version of it added: all of that is refused but for the rules. linux/landlock.h of older systems lacks
 * the last. */
static const struct {
	int version;
	size_t bytes; /* of the description that the kernel knows */
	uint64_t files, network, scopes;
} landlock_added[] = {
	{1, 8, (1 << 13) - 1, 0, 0}, /* execute, write, read, make and remove */
	{2, 8, 1 << 13, 0, 0},       /* to other folders */
	{3, 8, 1 << 14, 0, 0},       /* truncate */
	{4, 16, 0, 3, 0},            /* ports: BIND_PORT, connect */
	{5, 16, 1 << 15, 0, 0},      /* ioctl() on devices */
	{6, 24, 0, 0, 3},            /* abstract Unix sockets, signals */
};

/* As linux/landlock.h of newer systems has them: the kind of rule, and its right. */
#define NET_PORT  2
#define BIND_PORT 1

/* What a thread may still do. */
struct confinement {
	const int *folder; /* below 0: none */
	size_t count;
	uint64_t access; /* in these folders */
	bool network;    /* it makes connections */
	bool listens;    /* on ports that others had at the start */
};

static int make_rules(const struct confinement *c)
{
	struct {
		uint64_t files, network, scopes;
	} all = {0};
	int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION), rules;
	size_t bytes = 0;

	if (version < 0)
		return -errno;
	for (size_t i = 0; i < ZN_LEN(landlock_added) && landlock_added[i].version <= version; i++) {
		bytes = landlock_added[i].bytes;
		all.files |= landlock_added[i].files;
		all.scopes |= landlock_added[i].scopes;
		if (!c->network)
			all.network |= landlock_added[i].network;
	}
	rules = (int)syscall(SYS_landlock_create_ruleset, &all, bytes, 0);
	return rules < 0 ? -errno : rules;
}

/* The calling thread alone; it must have given up new privileges before. */
static int confine_thread(const struct confinement *c)
{
	int rules = make_rules(c), err = 0;

	if (rules < 0)
		return rules;
	for (size_t i = 0; i < c->count && !err; i++) {
		struct landlock_path_beneath_attr rule = {.allowed_access = c->access, .parent_fd = c->folder[i]};

		if (c->folder[i] >= 0 && syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0))
			err = -errno;
	}
	for (unsigned i = 0; i < waiting_count && c->listens; i++) {
		uint64_t rule[] = {BIND_PORT, waiting_port[i]};

		syscall(SYS_landlock_add_rule, rules, NET_PORT, rule, 0); /* before version 4 there is none, nor need */
	}
	if (!err && syscall(SYS_landlock_restrict_self, rules, 0))
		err = -errno;
	close(rules);
	return err;
}

/* ---- the loop's thread ---- */

void zn_sandbox_folder(struct zn_sandbox_folders *f, const char *path)
{
	if (f->count < ZN_LEN(f->fd))
		f->fd[f->count++] = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void add_folder_above(struct zn_sandbox_folders *f, const char *path)
{
	char folder[ZN_TEXT_MAX], *slash;

	if (strlen(path) >= sizeof(folder))
		return;
	strcpy(folder, path);
	slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = 0;
	zn_sandbox_folder(f, slash ? folder : ".");
}

/* The file may be replaced; it may be a link, too, into a folder where it is replaced (Kubernetes' secrets). */
void zn_sandbox_folder_of(struct zn_sandbox_folders *f, const char *path)
{
	char *real;

	if (!*path)
		return;
	add_folder_above(f, path);
	real = realpath(path, NULL);
	if (real)
		add_folder_above(f, real);
	free(real);
}

/* Tables where the kernel asks for it each time, and files of others in the folders that are left. */
static int give_up_most(void)
{
	struct __user_cap_data_struct want[2] = {{0}};

	want_capability(want, CAP_BPF);
	want_capability(want, CAP_DAC_READ_SEARCH);
	if (waits_for_low)
		want_capability(want, CAP_NET_BIND_SERVICE);
	return keep_capabilities(want);
}

static int confine_loop(const struct zn_sandbox_folders *f)
{
	int err;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	err = confine_thread(&(struct confinement){.folder = f->fd,
		.count = f->count,
		.access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
		.listens = true});
	return err ? err : give_up_most();
}

static bool sees_process(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

struct attempt {
	const struct zn_sandbox_folders *folders;
	int err;
};

static void *attempt_all(void *to)
{
	const pid_t others[] = {1, getppid()};
	struct attempt *a = to;
	bool saw[ZN_LEN(others)];

	zn_pages_drop_stack();
	for (size_t i = 0; i < ZN_LEN(others); i++)
		saw[i] = sees_process(others[i]);
	a->err = confine_loop(a->folders);
	for (size_t i = 0; i < ZN_LEN(others) && !a->err; i++)
		if (saw[i] && !sees_process(others[i]))
			a->err = -EACCES;
	return NULL;
}

/* Landlock keeps a thread from all that asks for the right to trace, which hidepid= does for each process. A
 * thread that ends at once finds out. */
int zn_sandbox_loop(struct zn_sandbox_folders *f)
{
	struct attempt a = {.folders = f};
	pthread_t thread;
	int err = -pthread_create(&thread, NULL, attempt_all, &a);

	if (!err)
		err = -pthread_join(thread, NULL);
	if (!err)
		err = a.err;
	if (!err)
		err = confine_loop(f);
	for (size_t i = 0; i < f->count; i++)
		if (f->fd[i] >= 0)
			close(f->fd[i]);
	f->count = 0;
	return err;
}

/* ---- the processes beside the daemon ---- */

/* No capability but for one, or -1, and where the kernel has Landlock no more than is said. Elsewhere the list of
 * system calls must do. */
static int begin_child(const struct confinement *c, int capability)
{
	struct __user_cap_data_struct want[2] = {{0}};
	int err;

	if (capability >= 0)
		want[capability / 32].permitted |= 1U << (capability % 32);
	err = keep_capabilities(want);

	if (err)
		return err;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -errno;
	confine_thread(c);
	return 0;
}

int zn_sandbox_writer(const int *folder, size_t count)
{
	int err = begin_child(&(struct confinement){.folder = folder,
				      .count = count,
				      .access = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
					      LANDLOCK_ACCESS_FS_REMOVE_FILE},
		-1);

	if (err)
		return err;
	build_filter(writer_checks, ZN_LEN(writer_checks), writer_allowed, ZN_LEN(writer_allowed));
	return install_filter(0);
}

int zn_sandbox_sender(const int *folder, size_t count)
{
	int err = begin_child(
		&(struct confinement){
			.folder = folder, .count = count, .access = LANDLOCK_ACCESS_FS_READ_FILE, .network = true},
		-1);

	if (err)
		return err;
	build_filter(sender_checks, ZN_LEN(sender_checks), sender_allowed, ZN_LEN(sender_allowed));
	return install_filter(0);
}

int zn_sandbox_readers(void)
{
	struct __user_cap_data_struct want[2] = {{0}};

	for (size_t i = 0; i < ZN_LEN(kept); i++)
		if (kept[i] != CAP_BPF && kept[i] != CAP_PERFMON)
			want[kept[i] / 32].permitted |= 1U << (kept[i] % 32);
	return keep_capabilities(want);
}

int zn_sandbox_reader(void)
{
	build_filter(reader_checks, ZN_LEN(reader_checks), reader_allowed, ZN_LEN(reader_allowed));
	return install_filter(0);
}

/* The counters of energy are root's to read. */
int zn_sandbox_gauge(int folder)
{
	int err = begin_child(&(struct confinement){.folder = &folder,
				      .count = 1,
				      .access = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR},
		CAP_DAC_READ_SEARCH);

	if (err)
		return err;
	build_filter(gauge_checks, ZN_LEN(gauge_checks), gauge_allowed, ZN_LEN(gauge_allowed));
	return install_filter(0);
}
