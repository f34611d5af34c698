/* SPDX-License-Identifier: GPL-2.0 */
/* file.c: small files, read whole. */
#include <fcntl.h>
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
