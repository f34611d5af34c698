/* SPDX-License-Identifier: GPL-2.0 */
/* secure_test.c: what the system-call filter lets through and what it refuses, each in a child that has put it on. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
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

int main(void)
{
	for (size_t i = 0; i < ZN_LEN(calls); i++) {
		int status = 0;
		pid_t child = fork();

		t_begin(calls[i].name);
		/* bare: what a sanitizer does before an exit is refused too */
		if (child == 0)
			syscall(SYS_exit_group, SEEN + errno_under_filter(calls[i].path, calls[i].flags));
		CHECK(child > 0 && waitpid(child, &status, 0) == child);
		CHECK(WIFEXITED(status));
		CHECK_EQ(WEXITSTATUS(status), SEEN + calls[i].want);
	}
	return t_end();
}
