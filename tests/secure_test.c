/* SPDX-License-Identifier: GPL-2.0 */
/* secure_test.c: what the system-call filters let through and what they refuse, each in a child that has put one on. */
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../zernel.h"
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
	{"filter: make a file", "/tmp/zn_secure_test", O_RDONLY | O_CREAT, EPERM},
	{"filter: cut a file", "/dev/null", O_RDONLY | O_TRUNC, EPERM},
	{"filter: a connection of its own", NULL, AF_INET, EPERM},
	{"filter: a Unix socket of its own", NULL, AF_UNIX, EPERM},
};

#define SEEN 100 /* no exit status but ours is this large */

static int errno_under_filter(const char *path, int flags)
{
	if (zn_secure_system_calls())
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

/* ---- the process that writes files ---- */

#define NEW     (O_WRONLY | O_CREAT | O_EXCL)
#define OUTSIDE "/tmp/zn_secure_outside"

static char folder[] = "/tmp/zn_secure_XXXXXX";

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
	return made(at, "../zn_secure_outside", NEW);
}

static int remove_outside(int at)
{
	return unlinkat(at, "/tmp/zn_secure_victim", 0) ? errno : 0;
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
	return chmod("/tmp/zn_secure_victim", 0777) ? errno : 0;
}

static const struct {
	const char *name;
	int (*call)(int at);
	int want;
	bool landlock; /* what keeps it from that */
} scribe_calls[] = {
	{"scribe: make a file", make_file, 0, false},
	{"scribe: rename and remove one", rename_file, 0, false},
	{"scribe: read a file", read_file, EPERM, false},
	{"scribe: write to a file that is there", write_existing, EPERM, false},
	{"scribe: make or cut a file", make_or_cut, EPERM, false},
	{"scribe: make a folder", make_folder, EPERM, false},
	{"scribe: a socket", connect_somewhere, EPERM, false},
	{"scribe: run a program", run_a_program, EPERM, false},
	{"scribe: change a mode", change_mode, EPERM, false},
	{"scribe: make a file elsewhere", make_outside, EACCES, true},
	{"scribe: make a file above the folder", climb_out, EACCES, true},
	{"scribe: remove a file elsewhere", remove_outside, EACCES, true},
};

static int errno_of_scribe(int (*call)(int at))
{
	const int at[] = {open(folder, O_RDONLY | O_DIRECTORY), -1};

	return zn_secure_scribe(at, ZN_LEN(at)) ? ENOSYS : call(at[0]);
}

static void check_scribe(void)
{
	bool landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
	int absent = 0;

	for (size_t i = 0; i < ZN_LEN(scribe_calls); i++) {
		pid_t child;

		if (scribe_calls[i].landlock && !landlock) {
			absent++;
			continue;
		}
		t_begin(scribe_calls[i].name);
		child = fork();
		if (child == 0)
			leave(errno_of_scribe(scribe_calls[i].call));
		check_child(child, scribe_calls[i].want);
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
	return made(at, "/tmp/zn_secure_victim", O_RDONLY);
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
} courier_calls[] = {
	{"courier: a stream", stream, 0, false},
	{"courier: datagrams of IPv6", datagram, 0, false},
	{"courier: a Unix socket", unix_socket, EPERM, false},
	{"courier: a netlink socket", netlink_socket, EPERM, false},
	{"courier: bind", bind_port, EPERM, false},
	{"courier: read a file of its folders", read_here, 0, false},
	{"courier: write to one", write_existing, EPERM, false},
	{"courier: make a file", make_here, EPERM, false},
	{"courier: remove a file", remove_outside, EPERM, false},
	{"courier: run a program", run_a_program, EPERM, false},
	{"courier: a signal", find_parent, EPERM, false},
	{"courier: read a file elsewhere", read_elsewhere, EACCES, true},
	{"courier: list a folder", list_folder, EACCES, true},
};

static int errno_of_courier(int (*call)(int at))
{
	const int at[] = {open(folder, O_RDONLY | O_DIRECTORY), -1};

	return zn_secure_courier(at, ZN_LEN(at)) ? ENOSYS : call(at[0]);
}

static void check_courier(void)
{
	bool landlock = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;

	for (size_t i = 0; i < ZN_LEN(courier_calls); i++) {
		pid_t child;

		if (courier_calls[i].landlock && !landlock)
			continue;
		t_begin(courier_calls[i].name);
		child = fork();
		if (child == 0)
			leave(errno_of_courier(courier_calls[i].call));
		check_child(child, courier_calls[i].want);
	}
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
	unlink("/tmp/zn_secure_victim");
}

int main(void)
{
	check_daemon();
	if (!mkdtemp(folder))
		return 1;
	close(open("/tmp/zn_secure_victim", NEW, 0600));
	check_scribe();
	close(openat(open(folder, O_PATH), "victim", NEW, 0644));
	check_courier();
	clean();
	return t_end();
}
