/* SPDX-License-Identifier: GPL-2.0 */
/* systemd.c: tells systemd how the daemon is, by sd_notify(3) and sd_watchdog_enabled(3). Without NOTIFY_SOCKET in
 * the environment nothing is sent. */
#include "zernel.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void zn_systemd_tell(int fd, const char *text)
{
	if (fd >= 0 && send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		zn_log(ZN_WARN, "cannot tell systemd %s: %s", text, strerror(errno));
}

/* The socket of Type=notify; -1: there is none. */
int zn_systemd_open(void)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	size_t len = path ? strlen(path) : 0;
	int fd;

	if (len < 2 || len >= sizeof(to.sun_path))
		return -1;
	memcpy(to.sun_path, path, len);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = 0; /* an abstract one */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 &&
		connect(fd, (struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + (socklen_t)len) == 0)
		return fd;
	zn_log(ZN_WARN, "cannot tell %s that the daemon is ready: %s", path, strerror(errno));
	zn_fd_close(&fd);
	return -1;
}

/* Whether it restarts a daemon that tells nothing for a while (WatchdogSec=). */
bool zn_systemd_watches(void)
{
	const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");

	return us && strtoull(us, NULL, 10) && (!pid || strtol(pid, NULL, 10) == getpid());
}
