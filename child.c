/* SPDX-License-Identifier: GPL-2.0 */
/*
 * child.c: what the processes beside the daemon have in common (scribe.c, courier.c): how they are started, what they let
 * go of first, and how something is handed over to them. The daemon's end of the socket pair that goes away is their end.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "zernel.h"

#define BACKLOG (8 << 20) /* bytes that may wait to be read; root alone may ask for so much */

pid_t zn_child_fork(int *fd)
{
	int ends[2], size = BACKLOG, err;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	if (setsockopt(ends[0], SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)))
		setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)); /* as much as anybody may have */
	pid = fork();
	err = -errno;
	if (pid == 0) {
		*fd = ends[1];
		return 0;
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return err;
	}
	*fd = ends[0];
	return pid;
}

/* All but the socket and the standard ones. Before Linux 5.9 they stay open, and so does the daemon's end of the socket:
 * then the child does not end by itself. */
static void close_others(int socket)
{
	if (socket > 3)
		close_range(3, (unsigned)socket - 1, 0);
	close_range((unsigned)socket + 1, ~0U, 0);
}

/* Standard error stays: it is where the log goes. */
static void close_standard(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (null > STDERR_FILENO)
		close(null);
}

void zn_child_become(const char *name, int socket)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

	for (size_t i = 0; i < ZN_LEN(ignored); i++)
		signal(ignored[i], SIG_IGN);
	prctl(PR_SET_NAME, name, 0, 0, 0);
	close_standard();
	close_others(socket);
	zn_log_burst = 20;
}

bool zn_child_wait(int fd, unsigned ms)
{
	struct pollfd one = {.fd = fd, .events = POLLIN};
	uint64_t end_ns = zn_now_ns() + ms * ZN_NS_PER_MS, now_ns;
	int n = 0;

	while (n != 1 && (now_ns = zn_now_ns()) < end_ns)
		n = poll(&one, 1, (int)((end_ns - now_ns) / ZN_NS_PER_MS) + 1);
	return n == 1;
}

int zn_child_send(int fd, const void *head, size_t head_len, struct zn_str text)
{
	struct iovec part[] = {{(void *)head, head_len}, {(void *)text.at, text.len}};
	struct msghdr message = {.msg_iov = part, .msg_iovlen = ZN_LEN(part)};

	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}
