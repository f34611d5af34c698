/* SPDX-License-Identifier: GPL-2.0 */
/* sandbox_test.c: what the system-call filters let through and what they refuse, each in a child that has put one
 * on. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/landlock.h>
#include <linux/nsfs.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zernel.h"
#include "t.h"

static const struct {
	const char *name;
	const char *path; /* NULL: a socket */
	int flags;        /* of a socket, its domain */
	int want;         /* errno */
} calls[] = {
	{"filter: open to read", "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0},
	{"filter: open a directory", "/proc", O_RDONLY | O_DIRECTORY, 0},
	{"filter: a token file again", "/proc/self/stat", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0},
	{"filter: open to write", "/dev/null", O_WRONLY, EPERM},
	{"filter: open to read and write", "/dev/null", O_RDWR, EPERM},
	{"filter: make a file", "/tmp/zn_sandbox_test", O_RDONLY | O_CREAT, EPERM},
	{"filter: cut a file", "/dev/null", O_RDONLY | O_TRUNC, EPERM},
	{"filter: a connection of its own", NULL, AF_INET, EPERM},
	{"filter: a Unix socket of its own", NULL, AF_UNIX, EPERM},
};

#define SEEN 100 /* no exit status but ours is this large */

static int errno_under_filter(const char *path, int flags)
{
	if (zn_sandbox_system_calls(ZN_SANDBOX_ALL_THREADS))
		return ENOSYS;
	if ((path ? open(path, flags, 0600) : socket(flags, SOCK_STREAM, 0)) >= 0)
		return 0;
	return errno;
}

/* bare: what a sanitizer does before an exit is refused too */
static void leave(int err)
{
	syscall(SYS_exit_group, SEEN + err);
}

static void check_child(pid_t child, int want)
{
	int status = 0;

	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), SEEN + want);
}

static void check_daemon(void)
{
	for (size_t i = 0; i < ZN_LEN(calls); i++) {
		pid_t child = fork();

		t_begin(calls[i].name);
		if (child == 0)
			leave(errno_under_filter(calls[i].path, calls[i].flags));
		check_child(child, calls[i].want);
	}
}

/* ---- what the filter lets through by its arguments ---- */

#define HIGH (1UL << 32) /* which the kernel does not look at */

/* What the calls work on: opened before the filter is put on. */
static struct {
	int table, listener, other, space, fd;
	pid_t self;            /* getppid() is refused */
	struct sockaddr_in to; /* the other listener */
	char *memory;
} kit;

static long bpf(unsigned long command, union bpf_attr *attr)
{
	return syscall(SYS_bpf, command, attr, sizeof(*attr));
}

static int new_table(unsigned long high)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 1};

	return (int)bpf(BPF_MAP_CREATE | high, &attr);
}

static int open_listener(struct sockaddr_in *at)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	CHECK(bind(fd, (struct sockaddr *)at, sizeof(*at)) == 0 && listen(fd, 4) == 0);
	CHECK(getsockname(fd, (struct sockaddr *)at, &len) == 0);
	return fd;
}

static void kit_open(void)
{
	struct sockaddr_in here;

	kit.self = getpid();
	kit.table = new_table(0);
	kit.listener = open_listener(&here);
	kit.other = open_listener(&kit.to);
	kit.space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	kit.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	kit.memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int make_table(void)
{
	return new_table(0) < 0 ? errno : 0;
}

static int make_table_high(void)
{
	return new_table(HIGH) < 0 ? errno : 0;
}

static int load_program(void)
{
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0}, {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_RAW_TRACEPOINT,
		.insns = (uintptr_t)nothing,
		.insn_cnt = 2,
		.license = (uintptr_t) "GPL"};

	return bpf(BPF_PROG_LOAD, &attr) < 0 ? errno : 0;
}

static int first_table(void)
{
	union bpf_attr attr = {0};

	return bpf(BPF_MAP_GET_NEXT_ID, &attr) < 0 ? errno : 0;
}

static int use_table(void)
{
	uint32_t key = 0;
	uint64_t value = 4711, got = 0;
	union bpf_attr attr = {.map_fd = (uint32_t)kit.table, .key = (uintptr_t)&key, .value = (uintptr_t)&value};

	if (bpf(BPF_MAP_UPDATE_ELEM, &attr))
		return errno;
	attr.value = (uintptr_t)&got;
	if (bpf(BPF_MAP_LOOKUP_ELEM, &attr))
		return errno;
	return got == value ? 0 : EIO;
}

static int describe_table(void)
{
	struct bpf_map_info info = {0};
	union bpf_attr attr = {
		.info.bpf_fd = (uint32_t)kit.table, .info.info_len = sizeof(info), .info.info = (uintptr_t)&info};

	return bpf(BPF_OBJ_GET_INFO_BY_FD, &attr) ? errno : 0;
}

static int read_namespace(void)
{
	return ioctl(kit.space, NS_GET_USERNS) < 0 ? errno : 0;
}

static int own_by_ioctl(void)
{
	return ioctl(kit.listener, FIOSETOWN, &(int){kit.self}) ? errno : 0;
}

static int count_bytes(void)
{
	return ioctl(kit.listener, FIONREAD, &(int){0}) ? errno : 0;
}

static int set_program(void)
{
	return ioctl(kit.fd, PERF_EVENT_IOC_SET_BPF, 0) ? errno : 0;
}

static int start_event(void)
{
	return ioctl(kit.fd, PERF_EVENT_IOC_ENABLE, 0) ? errno : 0;
}

static int own_by_fcntl(void)
{
	return fcntl(kit.listener, F_SETOWN, kit.self) ? errno : 0;
}

static int choose_signal(void)
{
	return fcntl(kit.listener, F_SETSIG, SIGTERM) ? errno : 0;
}

static int take_lease(void)
{
	return fcntl(kit.fd, F_SETLEASE, F_WRLCK) ? errno : 0;
}

static int take_lock(void)
{
	struct flock all = {.l_type = F_WRLCK};

	return fcntl(kit.fd, F_SETLK, &all) ? errno : 0;
}

static int copy_descriptor(void)
{
	return fcntl(kit.fd, F_DUPFD_CLOEXEC, 3) < 0 ? errno : 0;
}

static int map_code(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0;
}

static int make_executable(void)
{
	return mprotect(kit.memory, 4096, PROT_READ | PROT_EXEC) ? errno : 0;
}

static int map_memory(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? errno : 0;
}

static int make_read_only(void)
{
	return mprotect(kit.memory, 4096, PROT_READ) ? errno : 0;
}

static int drop_memory(void)
{
	return madvise(kit.memory, 4096, MADV_DONTNEED) ? errno : 0;
}

/* An address that is none: where the filter lets it pass the kernel does no harm. */
static int poison_memory(void)
{
	return madvise(NULL, 0, MADV_HWPOISON) ? errno : 0;
}

static int open_event(unsigned long flags)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_DUMMY, .exclude_kernel = 1};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, flags) < 0 ? errno : 0;
}

static int watch_mappings(void)
{
	return open_event(PERF_FLAG_FD_CLOEXEC);
}

static int watch_group(void)
{
	return open_event(PERF_FLAG_PID_CGROUP);
}

static int signal_self(void)
{
	return syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), 0) ? errno : 0;
}

static int signal_parent(void)
{
	return syscall(SYS_tgkill, kit.self, kit.self, 0) ? errno : 0;
}

/* A listener that is shut down is a socket without a peer, and the first bytes it sends may ask for one. */
static int connect_by_sendto(void)
{
	shutdown(kit.listener, SHUT_RD);
	return sendto(kit.listener, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&kit.to, sizeof(kit.to)) < 0 ? errno : 0;
}

static int connect_by_sendmsg(void)
{
	struct msghdr message = {.msg_name = &kit.to,
		.msg_namelen = sizeof(kit.to),
		.msg_iov = &(struct iovec){"x", 1},
		.msg_iovlen = 1};

	shutdown(kit.listener, SHUT_RD);
	return sendmsg(kit.listener, &message, MSG_FASTOPEN) < 0 ? errno : 0;
}

/* Nobody is connected, and nothing else is wrong with it. */
static int send_nowhere(void)
{
	return send(kit.listener, "x", 1, MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* None has come. The end of the daemon waits like this, and would spin if it could not. */
static int wait_for_signal(void)
{
	sigset_t none;

	sigemptyset(&none);
	return sigtimedwait(&none, NULL, &(struct timespec){.tv_nsec = 1}) < 0 ? errno : 0;
}

static int open_high(void)
{
	return syscall(SYS_openat, AT_FDCWD, "/proc/self/stat", HIGH | O_RDONLY) < 0 ? errno : 0;
}

#ifdef __x86_64__
/* What a C library may use in place of fstatat(), readlinkat(), faccessat() and openat(). */
static int old_stat(void)
{
	struct stat st;

	return syscall(SYS_stat, "/proc", &st) ? errno : 0;
}

static int old_lstat(void)
{
	struct stat st;

	return syscall(SYS_lstat, "/proc/self", &st) ? errno : 0;
}

static int old_readlink(void)
{
	char to[64];

	return syscall(SYS_readlink, "/proc/self", to, sizeof(to)) < 0 ? errno : 0;
}

static int old_access(void)
{
	return syscall(SYS_access, "/proc", R_OK) ? errno : 0;
}

static int old_open(void)
{
	return syscall(SYS_open, "/proc/self/stat", O_RDONLY | O_CLOEXEC) < 0 ? errno : 0;
}

static int old_open_to_write(void)
{
	return syscall(SYS_open, "/dev/null", O_WRONLY) < 0 ? errno : 0;
}

static int old_open_to_make(void)
{
	return syscall(SYS_open, "/tmp/zn_sandbox_test", O_RDONLY | O_CREAT, 0600) < 0 ? errno : 0;
}

static int old_creat(void)
{
	return syscall(SYS_creat, "/tmp/zn_sandbox_test", 0600) < 0 ? errno : 0;
}

static int old_unlink(void)
{
	return syscall(SYS_unlink, "/tmp/zn_sandbox_test") ? errno : 0;
}
#endif

static const struct {
	const char *name;
	int (*call)(void);
	int want;
	bool root; /* only root may do it without the filter */
} by_argument[] = {
	{"bpf: read and write a table", use_table, 0, true},
	{"bpf: describe a table", describe_table, 0, true},
	{"bpf: make a table", make_table, EPERM, true},
	{"bpf: make a table, by a wider word", make_table_high, EPERM, true},
	{"bpf: load a program", load_program, EPERM, true},
	{"bpf: look for others' tables", first_table, EPERM, true},
	{"ioctl: whose a namespace is", read_namespace, 0, false},
	{"ioctl: whom a socket signals", own_by_ioctl, EPERM, false},
	{"ioctl: bytes that wait", count_bytes, EPERM, false},
	{"ioctl: a program on an event", set_program, EPERM, false},
	{"ioctl: an event's start, of what is none", start_event, ENOTTY, false},
	{"fcntl: a copy", copy_descriptor, 0, false},
	{"fcntl: whom a socket signals", own_by_fcntl, EPERM, false},
	{"fcntl: by which signal", choose_signal, EPERM, false},
	{"fcntl: a lease", take_lease, EPERM, false},
	{"fcntl: a lock", take_lock, EPERM, false},
	{"memory: more of it", map_memory, 0, false},
	{"memory: to read alone", make_read_only, 0, false},
	{"memory: to execute", map_code, EPERM, false},
	{"memory: to execute later", make_executable, EPERM, false},
	{"memory: give it back", drop_memory, 0, false},
	{"memory: break it", poison_memory, EPERM, true},
	{"events: mappings", watch_mappings, 0, true},
	{"events: of a control group", watch_group, EPERM, true},
	{"signal: to itself", signal_self, 0, false},
	{"signal: to its parent", signal_parent, EPERM, false},
	{"signal: wait for one", wait_for_signal, EAGAIN, false},
	{"socket: a connection by sendto()", connect_by_sendto, EPERM, false},
	{"socket: a connection by sendmsg()", connect_by_sendmsg, EPERM, false},
	{"socket: bytes", send_nowhere, EPIPE, false},
	{"open: to read, by a wider word", open_high, 0, false},
#ifdef __x86_64__
	{"old: stat", old_stat, 0, false},
	{"old: lstat", old_lstat, 0, false},
	{"old: readlink", old_readlink, 0, false},
	{"old: access", old_access, 0, false},
	{"old: open", old_open, 0, false},
	{"old: open to write", old_open_to_write, EPERM, false},
	{"old: open to make a file", old_open_to_make, EPERM, false},
	{"old: creat", old_creat, EPERM, false},
	{"old: unlink", old_unlink, EPERM, false},
#endif
};

static int errno_of_argument(int (*call)(void))
{
	return zn_sandbox_system_calls(ZN_SANDBOX_ALL_THREADS) ? ENOSYS : call();
}

static void check_arguments(void)
{
	for (size_t i = 0; i < ZN_LEN(by_argument); i++) {
		pid_t child;

		if (by_argument[i].root && kit.table < 0)
			continue;
		t_begin(by_argument[i].name);
		child = fork();
		if (child == 0)
			leave(errno_of_argument(by_argument[i].call));
		check_child(child, by_argument[i].want);
	}
}

/* By number, as later kernels have more: all but these are refused. An empty description is wrong for each of them,
 * which only the kernel says. */
static const int commands[] = {BPF_MAP_LOOKUP_ELEM, BPF_MAP_UPDATE_ELEM, BPF_MAP_DELETE_ELEM, BPF_MAP_GET_NEXT_KEY,
	BPF_MAP_LOOKUP_AND_DELETE_ELEM, BPF_MAP_LOOKUP_BATCH, BPF_OBJ_GET_INFO_BY_FD, BPF_LINK_CREATE,
	BPF_RAW_TRACEPOINT_OPEN, BPF_ITER_CREATE};
#define COMMANDS_MAX 64

static bool is_command(unsigned command)
{
	for (size_t i = 0; i < ZN_LEN(commands); i++)
		if (commands[i] == (int)command)
			return true;
	return false;
}

/* The first command that is refused and should not be, or the reverse; none: COMMANDS_MAX. */
static unsigned wrong_command(void)
{
	union bpf_attr wrong;

	memset(&wrong, 0xff, sizeof(wrong));
	if (zn_sandbox_system_calls(ZN_SANDBOX_ALL_THREADS))
		return 0;
	for (unsigned i = 0; i < COMMANDS_MAX; i++)
		if ((bpf(i, &wrong) < 0 && errno == EPERM) == is_command(i))
			return i;
	return COMMANDS_MAX;
}

static void check_commands(void)
{
	pid_t child;

	if (kit.table < 0) {
		printf("absent: tests of bpf() need root\n");
		return;
	}
	t_begin("bpf: each command");
	child = fork();
	if (child == 0)
		leave((int)wrong_command());
	check_child(child, COMMANDS_MAX);
}

/* ---- the process that writes files ---- */

#define NEW     (O_WRONLY | O_CREAT | O_EXCL)
#define OUTSIDE "/tmp/zn_sandbox_outside"

static char folder[] = "/tmp/zn_sandbox_XXXXXX";

/* Each returns 0 or an errno; at: the folder. */
static int made(int at, const char *path, int flags)
{
	return openat(at, path, flags, 0640) < 0 ? errno : 0;
}

static int make_file(int at)
{
	return made(at, "new", NEW);
}

static int rename_file(int at)
{
	int err = made(at, "old", NEW);

	return err ? err : renameat(at, "old", at, "renamed") ? errno : unlinkat(at, "renamed", 0) ? errno : 0;
}

static int read_file(int at)
{
	return made(at, "/proc/self/stat", O_RDONLY);
}

static int write_existing(int at)
{
	return made(at, "/dev/null", O_WRONLY);
}

static int make_or_cut(int at)
{
	return made(at, "new", O_WRONLY | O_CREAT | O_TRUNC);
}

static int make_folder(int at)
{
	return mkdirat(at, "sub", 0700) ? errno : 0;
}

static int make_outside(int at)
{
	return made(at, OUTSIDE, NEW);
}

static int climb_out(int at)
{
	return made(at, "../zn_sandbox_outside", NEW);
}

static int find_folder(int at)
{
	return made(at, "/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int find_file(int at)
{
	return made(at, "/proc/self/stat", O_PATH | O_CLOEXEC);
}

static int find_file_as_folder(int at)
{
	return made(at, "/proc/self/stat", O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int make_in_found(int at)
{
	return made(openat(at, "/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC), "zn_sandbox_outside", NEW);
}

static int read_folder(int at)
{
	return made(at, ".", O_RDONLY | O_DIRECTORY);
}

static int make_unnamed(int at)
{
	return made(at, ".", O_TMPFILE | O_WRONLY);
}

static int identify_folder(int at)
{
	struct stat st;

	return syscall(SYS_fstat, at, &st) ? errno : 0;
}

static int identify_by_path(int at)
{
	struct stat st;

	return syscall(SYS_newfstatat, at, "/proc", &st, 0) ? errno : 0;
}

static int remove_outside(int at)
{
	return unlinkat(at, "/tmp/zn_sandbox_victim", 0) ? errno : 0;
}

static int connect_somewhere(int at)
{
	(void)at;
	return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int run_a_program(int at)
{
	(void)at;
	syscall(SYS_execve, "/bin/true", (char *[]){"true", NULL}, (char *[]){NULL});
	return errno;
}

static int change_mode(int at)
{
	(void)at;
	return chmod("/tmp/zn_sandbox_victim", 0777) ? errno : 0;
}

static const struct {
	const char *name;
	int (*call)(int at);
	int want;
	bool landlock; /* what keeps it from that */
} writer_calls[] = {
	{"writer: make a file", make_file, 0, false},
	{"writer: rename and remove one", rename_file, 0, false},
	{"writer: read a file", read_file, EPERM, false},
	{"writer: write to a file that is there", write_existing, EPERM, false},
	{"writer: make or cut a file", make_or_cut, EPERM, false},
	{"writer: make a folder", make_folder, EPERM, false},
	{"writer: a socket", connect_somewhere, EPERM, false},
	{"writer: run a program", run_a_program, EPERM, false},
	{"writer: change a mode", change_mode, EPERM, false},
	{"writer: find a folder", find_folder, 0, false},
	{"writer: find a file", find_file, EPERM, false},
	{"writer: find a file as a folder", find_file_as_folder, ENOTDIR, false},
	{"writer: read a folder", read_folder, EPERM, false},
	{"writer: make a file without a name", make_unnamed, EPERM, false},
	{"writer: which folder is open", identify_folder, 0, false},
	{"writer: what a path leads to", identify_by_path, EPERM, false},
	{"writer: make a file in a folder that it found", make_in_found, EACCES, true},
	{"writer: make a file elsewhere", make_outside, EACCES, true},
	{"writer: make a file above the folder", climb_out, EACCES, true},
	{"writer: remove a file elsewhere", remove_outside, EACCES, true},
};

static int errno_of_writer(int (*call)(int at))
{
	const int at[] = {open(folder, O_RDONLY | O_DIRECTORY), -1};

	return zn_sandbox_writer(at, ZN_LEN(at)) ? ENOSYS : call(at[0]);
}

static void check_writer(void)
{
	bool landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
	int absent = 0;

	for (size_t i = 0; i < ZN_LEN(writer_calls); i++) {
		pid_t child;

		if (writer_calls[i].landlock && !landlock) {
			absent++;
			continue;
		}
		t_begin(writer_calls[i].name);
		child = fork();
		if (child == 0)
			leave(errno_of_writer(writer_calls[i].call));
		check_child(child, writer_calls[i].want);
	}
	if (absent)
		printf("absent: %d tests need a kernel with Landlock\n", absent);
}

/* ---- the process that makes connections ---- */

static int open_socket(int domain, int type)
{
	return socket(domain, type, 0) < 0 ? errno : 0;
}

static int stream(int at)
{
	(void)at;
	return open_socket(AF_INET, SOCK_STREAM);
}

static int datagram(int at)
{
	(void)at;
	return open_socket(AF_INET6, SOCK_DGRAM);
}

static int unix_socket(int at)
{
	(void)at;
	return open_socket(AF_UNIX, SOCK_STREAM);
}

static int netlink_socket(int at)
{
	(void)at;
	return open_socket(AF_NETLINK, SOCK_RAW);
}

static int bind_port(int at)
{
	(void)at;
	return syscall(SYS_bind, 0, NULL, 0) ? errno : 0;
}

static int read_here(int at)
{
	return made(at, "victim", O_RDONLY);
}

static int read_elsewhere(int at)
{
	return made(at, "/tmp/zn_sandbox_victim", O_RDONLY);
}

static int make_here(int at)
{
	return made(at, "new", NEW);
}

static int list_folder(int at)
{
	return made(at, ".", O_RDONLY | O_DIRECTORY);
}

static int find_parent(int at)
{
	(void)at;
	return syscall(SYS_kill, getppid(), 0) ? errno : 0;
}

static const struct {
	const char *name;
	int (*call)(int at);
	int want;
	bool landlock;
} sender_calls[] = {
	{"sender: a stream", stream, 0, false},
	{"sender: datagrams of IPv6", datagram, 0, false},
	{"sender: a Unix socket", unix_socket, EPERM, false},
	{"sender: a netlink socket", netlink_socket, EPERM, false},
	{"sender: bind", bind_port, EPERM, false},
	{"sender: read a file of its folders", read_here, 0, false},
	{"sender: write to one", write_existing, EPERM, false},
	{"sender: make a file", make_here, EPERM, false},
	{"sender: remove a file", remove_outside, EPERM, false},
	{"sender: run a program", run_a_program, EPERM, false},
	{"sender: a signal", find_parent, EPERM, false},
	{"sender: read a file elsewhere", read_elsewhere, EACCES, true},
	{"sender: list a folder", list_folder, EACCES, true},
};

static int errno_of_sender(int (*call)(int at))
{
	const int at[] = {open(folder, O_RDONLY | O_DIRECTORY), -1};

	return zn_sandbox_sender(at, ZN_LEN(at)) ? ENOSYS : call(at[0]);
}

static void check_sender(void)
{
	bool landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;

	for (size_t i = 0; i < ZN_LEN(sender_calls); i++) {
		pid_t child;

		if (sender_calls[i].landlock && !landlock)
			continue;
		t_begin(sender_calls[i].name);
		child = fork();
		if (child == 0)
			leave(errno_of_sender(sender_calls[i].call));
		check_child(child, sender_calls[i].want);
	}
}

/* ---- the thread of the loop ---- */

/* What a call gets from another process: this one, whose child makes the call. */
static int made_of(const char *file, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", kit.self, file);
	return made(AT_FDCWD, path, flags);
}

static int read_own_folder(int at)
{
	return made(at, "victim", O_RDONLY);
}

static int read_system_file(int at)
{
	(void)at;
	return made(AT_FDCWD, "/etc/passwd", O_RDONLY);
}

static int list_root(int at)
{
	(void)at;
	return made(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY);
}

static int read_stat(int at)
{
	(void)at;
	return made_of("stat", O_RDONLY);
}

static int read_groups(int at)
{
	(void)at;
	return made_of("cgroup", O_RDONLY);
}

static int read_mounts(int at)
{
	(void)at;
	return made_of("mountinfo", O_RDONLY);
}

static int read_own_maps(int at)
{
	(void)at;
	return made(AT_FDCWD, "/proc/self/maps", O_RDONLY);
}

static int read_memory(int at)
{
	(void)at;
	return made_of("mem", O_RDONLY);
}

static int read_environment(int at)
{
	(void)at;
	return made_of("environ", O_RDONLY);
}

static int read_descriptor(int at)
{
	(void)at;
	return made_of("fd/0", O_RDONLY);
}

static int read_through_root(int at)
{
	(void)at;
	return made_of("root/etc/passwd", O_RDONLY);
}

static int run_program(int at)
{
	(void)at;
	syscall(SYS_execve, "/bin/true", (char *[]){"true", NULL}, (char *[]){NULL});
	return errno;
}

static int write_file(int at)
{
	return made(at, "victim", O_WRONLY);
}

static int listen_on_port(int at)
{
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	(void)at;
	return bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&any, sizeof(any)) ? errno : 0;
}

static int connect_to_port(int at)
{
	(void)at;
	return connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&kit.to, sizeof(kit.to)) ? errno : 0;
}

static int signal_other(int at)
{
	(void)at;
	return kill(kit.self, 0) ? errno : 0;
}

static const struct {
	const char *name;
	int (*call)(int at);
	int want;
	int version; /* of Landlock, that refuses it */
} loop_calls[] = {
	{"loop: read a file of its folders", read_own_folder, 0, 1},
	{"loop: read its own maps", read_own_maps, 0, 1},
	{"loop: what another process does", read_stat, 0, 1},
	{"loop: where another process belongs", read_groups, 0, 1},
	{"loop: the mounts of another process", read_mounts, 0, 1},
	{"loop: read a file of the system", read_system_file, EACCES, 1},
	{"loop: list a folder of the system", list_root, EACCES, 1},
	{"loop: write to a file of its folders", write_file, EACCES, 1},
	{"loop: run a program", run_program, EACCES, 1},
	{"loop: the memory of another process", read_memory, EACCES, 1},
	{"loop: the environment of another process", read_environment, EACCES, 1},
	{"loop: a descriptor of another process", read_descriptor, EACCES, 1},
	{"loop: the root of another process", read_through_root, EACCES, 1},
	{"loop: listen on a port", listen_on_port, EACCES, 4},
	{"loop: connect to a port", connect_to_port, EACCES, 4},
	{"loop: signal another process", signal_other, EPERM, 6},
};

static int landlock_version(void)
{
	return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static int loop_begin(void)
{
	struct zn_sandbox_folders f = {.count = 0};

	zn_sandbox_folder(&f, "/proc");
	zn_sandbox_folder(&f, folder);
	zn_sandbox_folder(&f, "/there/is/none");
	return zn_sandbox_loop(&f);
}

static int errno_of_loop(int (*call)(int at))
{
	int at = open(folder, O_PATH | O_DIRECTORY);

	return loop_begin() ? ENOSYS : call(at);
}

static void in_child(const char *name, int (*run)(int (*call)(int at)), int (*call)(int at), int want)
{
	pid_t child;

	t_begin(name);
	child = fork();
	if (child == 0)
		leave(run(call));
	check_child(child, want);
}

/* The finder, which runs already: nothing is taken from it. */
static int finder_go[2], finder_says[2];

static void *finder(void *unused)
{
	unsigned char err;
	char c;

	if (read(finder_go[0], &c, 1) != 1)
		return unused;
	err = (unsigned char)(read_system_file(-1) ? 1 : read_memory(-1) ? 2 : read_environment(-1) ? 3 : 0);
	return write(finder_says[1], &err, 1) == 1 ? &finder : NULL;
}

/* 0: the finder may do all that it did; else what it may not. */
static int beside_a_finder(int (*call)(int at))
{
	unsigned char err = 9;
	pthread_t thread;

	(void)call;
	if (pipe(finder_go) || pipe(finder_says) || pthread_create(&thread, NULL, finder, NULL) || loop_begin())
		return ENOSYS;
	if (write(finder_go[1], "", 1) != 1 || read(finder_says[0], &err, 1) != 1)
		return EIO;
	return err;
}

/* 0: of the capabilities of root two are left, CAP_BPF and CAP_DAC_READ_SEARCH. */
static int capabilities_left(int at)
{
	static const char wanted[] = "CapPrm:\t0000008000000004\nCapEff:\t0000008000000004\n";
	char text[4096] = "";
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);

	(void)at;
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return errno;
	return strstr(text, wanted) ? 0 : EPERM;
}

/* Where /proc hides processes from all who may not trace them, group 0 too, nothing is taken. */
static int under_hidepid(int (*call)(int at))
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("proc", "/proc", "proc", 0, "hidepid=2,gid=65533"))
		return ENOSYS;
	return loop_begin() == -EACCES ? call(-1) : EIO;
}

static void check_loop(void)
{
	int version = landlock_version();

	for (size_t i = 0; i < ZN_LEN(loop_calls); i++)
		if (loop_calls[i].version <= version)
			in_child(loop_calls[i].name, errno_of_loop, loop_calls[i].call, loop_calls[i].want);
		else
			printf("absent: %s: needs Landlock %d\n", loop_calls[i].name, loop_calls[i].version);
	if (version < 1 || geteuid())
		return;
	in_child("loop: its capabilities", errno_of_loop, capabilities_left, 0);
	in_child("loop: the finder beside it", beside_a_finder, NULL, 0);
	in_child("loop: hidepid, files", under_hidepid, read_system_file, 0);
	in_child("loop: hidepid, memory", under_hidepid, read_memory, 0);
}

static void clean(void)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/new", folder);
	unlink(path);
	snprintf(path, sizeof(path), "%s/victim", folder);
	unlink(path);
	rmdir(folder);
	unlink(OUTSIDE);
	unlink("/tmp/zn_sandbox_victim");
}

int main(void)
{
	check_daemon();
	kit_open();
	check_arguments();
	check_commands();
	if (!mkdtemp(folder))
		return 1;
	close(open("/tmp/zn_sandbox_victim", NEW, 0600));
	check_writer();
	close(openat(open(folder, O_PATH), "victim", NEW, 0644));
	check_sender();
	check_loop();
	clean();
	return t_end();
}
