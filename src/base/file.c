/* SPDX-License-Identifier: GPL-2.0 */
/* file.c: small files, read whole or by lines; the names in a directory; sockets that were left. */
#include <ctype.h>
#include <dirent.h> /* struct dirent64 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "zernel.h"

int zn_file_read(const char *path, char *to, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t n = fd < 0 ? -1 : 1;

	while (n > 0 && len < cap - 1 && (n = read(fd, to + len, cap - 1 - len)) > 0)
		len += n;
	to[len] = 0;
	if (fd >= 0)
		close(fd);
	return fd < 0 ? -1 : (int)len;
}

/* A FIFO in the place of a file must not hold the loop up. */
ssize_t zn_file_read_regular(const char *path, char *to, size_t cap)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	size_t len = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	got = fstat(fd, &st) ? -1 : 1;
	if (got > 0 && !S_ISREG(st.st_mode)) {
		errno = S_ISDIR(st.st_mode) ? EISDIR : ENOTSUP;
		got = -1;
	}
	while (got > 0 && len < cap) {
		got = read(fd, to + len, cap - len);
		len += got > 0 ? (size_t)got : 0;
		got = got < 0 && errno == EINTR ? 1 : got;
	}
	got = got < 0 ? -errno : (ssize_t)len;
	close(fd);
	return got;
}

int zn_file_lines(const char *path, void (*visit)(void *to, char *line), void *to)
{
	char text[8192];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool skip = false;
	size_t have = 0;
	ssize_t n = fd;

	while (fd >= 0 && (n = read(fd, text + have, sizeof(text) - have)) > 0) {
		char *line = text, *end;

		have += n;
		for (; (end = memchr(line, '\n', have - (line - text))); line = end + 1) {
			*end = 0;
			if (!skip)
				visit(to, line);
			skip = false;
		}
		have -= line - text;
		memmove(text, line, have);
		skip |= have == sizeof(text);
		have = have == sizeof(text) ? 0 : have;
	}
	n = n < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	return (int)n;
}

bool zn_names_read(struct zn_names *n, int dir)
{
	long got = dir < 0 ? -1 : syscall(SYS_getdents64, dir, n->bytes, sizeof(n->bytes));

	n->at = 0;
	n->have = got > 0 ? (uint32_t)got : 0;
	return got > 0;
}

const struct dirent64 *zn_names_take(struct zn_names *n)
{
	const struct dirent64 *e = (const void *)(n->bytes + n->at);

	if (n->at >= n->have)
		return NULL;
	n->at += e->d_reclen;
	return e;
}

const struct dirent64 *zn_names_next(struct zn_names *n, int dir)
{
	const struct dirent64 *e = zn_names_take(n);

	return e || !zn_names_read(n, dir) ? e : zn_names_take(n);
}

uint32_t zn_names_number(const struct dirent64 *e)
{
	return isdigit((unsigned char)e->d_name[0]) ? (uint32_t)strtoul(e->d_name, NULL, 10) : 0;
}

void zn_file_names(int dir, bool (*visit)(void *to, const struct dirent64 *e), void *to)
{
	struct zn_names names = {.have = 0}; /* of its own: visit may read another directory */
	const struct dirent64 *e;

	while ((e = zn_names_next(&names, dir)) && visit(to, e))
		;
}

/* Makes the folder of a file if it is missing. The folders above it must exist. */
static int make_folder(const char *path)
{
	char folder[ZN_TEXT_MAX];
	int len = (int)(strrchr(path, '/') - path);

	snprintf(folder, sizeof(folder), "%.*s", len, path);
	return len && mkdir(folder, 0755) && errno != EEXIST ? -errno : 0;
}

int zn_file_clear_socket(const struct sockaddr_un *at, socklen_t len, int type)
{
	struct stat st;
	int fd, err;

	if (lstat(at->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	err = connect(fd, (const struct sockaddr *)at, len) ? errno : 0;
	close(fd);
	if (err == ENOENT)
		return 0;
	return err != ECONNREFUSED ? -EADDRINUSE : unlink(at->sun_path) ? -errno : 0;
}

/* The mode comes from the umask: by its name it could be changed only after somebody may have put another file there. */
static int bind_for_all(const struct sockaddr_un *at, int backlog)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err;
	mode_t before;

	if (fd < 0)
		return -errno;
	before = umask(0111);
	err = bind(fd, (const struct sockaddr *)at, sizeof(*at)) || listen(fd, backlog) ? -errno : 0;
	umask(before);
	if (!err)
		return fd;
	close(fd);
	return err;
}

int zn_file_listen(const char *path, int backlog)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int err;

	if (*path != '/' || strlen(path) >= sizeof(at.sun_path))
		return -ENAMETOOLONG;
	strcpy(at.sun_path, path);
	err = make_folder(path);
	if (!err)
		err = zn_file_clear_socket(&at, sizeof(at), SOCK_SEQPACKET);
	return err ? err : bind_for_all(&at, backlog);
}

/* They stay open in programs that are started, as standard descriptors do. */
void zn_file_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

uint64_t zn_file_mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * ZN_NS_PER_S + st->st_mtim.tv_nsec;
}

uint64_t zn_file_fingerprint(uint64_t seed, const struct stat *st)
{
	const uint64_t part[] = {st->st_dev, st->st_ino, (uint64_t)st->st_size, zn_file_mtime_ns(st)};
	uint64_t hash = seed;

	for (size_t i = 0; i < ZN_LEN(part); i++) {
		hash = (hash ^ part[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 32;
	}
	return hash;
}
