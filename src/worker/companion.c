/* SPDX-License-Identifier: GPL-2.0 */
/*
 * companion.c: hears what zernel-gpu says, in the process that reads /sys: a socket beside the control socket on
 * which messages come and nothing is ever answered. Anybody may connect, but root and the owner of a folder that
 * only root can make are heard alone, by the credentials that the kernel took (SO_PEERCRED). One is heard at a
 * time; who has said nothing for 5 s makes way for the next. All of it is looked at once a second, so that
 * connections of others wake nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "zernel.h"

#define BACKLOG   256
#define LOOKS_MAX 512 /* more than may wait */
#define READS_MAX 8   /* messages of a round; a socket holds fewer of that size */
#define QUIET_NS  (5 * ZN_NS_PER_S)

static char text[ZN_NVML_BYTES];

int zn_companion_open(struct zn_companion *c, const char *path, const char *owner)
{
	*c = (struct zn_companion){.listener = -1, .fd = -1, .owner = owner};
	if (path[0])
		c->listener = zn_file_listen(path, BACKLOG);
	return path[0] && c->listener < 0 ? c->listener : 0;
}

static void hang_up(struct zn_companion *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

void zn_companion_close(struct zn_companion *c)
{
	hang_up(c);
	if (c->listener >= 0)
		close(c->listener);
	c->listener = -1;
}

static bool may_speak(const struct zn_companion *c, int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);
	struct stat folder;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	if (peer.uid == 0)
		return true;
	return !fstatat(AT_FDCWD, c->owner, &folder, 0) && S_ISDIR(folder.st_mode) && folder.st_uid == peer.uid;
}

static bool look_at_next(struct zn_companion *c, uint64_t now_ns)
{
	int fd = accept4(c->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return false;
	c->left--;
	if (!may_speak(c, fd) || (c->fd >= 0 && now_ns - c->spoke_ns < QUIET_NS)) {
		close(fd);
		c->seen.refused++;
		return true;
	}
	hang_up(c);
	c->fd = fd;
	c->spoke_ns = now_ns;
	return true;
}

/* False: it is too long, or no such message. */
static bool take_message(struct zn_companion *c, size_t len, uint64_t now_ns)
{
	static struct zn_nvml_said said;

	c->spoke_ns = now_ns;
	if (len > sizeof(text) || !zn_nvml_read(&said, (struct zn_str){text, len}, now_ns / ZN_NS_PER_MS)) {
		c->seen.refused++;
		return false;
	}
	c->seen.said = said;
	c->seen.heard_ns = now_ns;
	c->seen.heard++;
	return true;
}

static bool read_messages(struct zn_companion *c, uint64_t now_ns)
{
	bool taken = false;

	for (int i = 0; c->fd >= 0 && i < READS_MAX; i++) {
		ssize_t n = recv(c->fd, text, sizeof(text), MSG_DONTWAIT | MSG_TRUNC);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0)
			hang_up(c);
		else
			taken |= take_message(c, (size_t)n, now_ns);
	}
	return taken;
}

bool zn_companion_round(struct zn_companion *c, uint64_t now_ns)
{
	uint64_t refused = c->seen.refused;
	bool taken = read_messages(c, now_ns);

	c->left = LOOKS_MAX;
	while (c->listener >= 0 && c->left && look_at_next(c, now_ns))
		;
	taken |= read_messages(c, now_ns);
	return taken || c->seen.refused != refused;
}
