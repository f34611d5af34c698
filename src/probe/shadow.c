/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shadow.c: processes with a user shadow stack (x86, from kernel 6.6 on). A return probe writes the address of its
 * trampoline over a function's return address, and kernels before 6.11 leave the shadow stack as it was: the process
 * gets a control protection fault at the first return, which kills it (commit 1713b63a07a2, "x86/shstk: Make return
 * uprobe work with shadow stack").
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "zernel.h"

#define FEATURES "\nx86_Thread_features:"

bool zn_shadow_stack_in(const char *status)
{
	const char *at = strstr(status, FEATURES), *end;
	size_t len;

	if (!at)
		return false;
	at += strlen(FEATURES);
	end = at + strcspn(at, "\n");
	for (; at < end; at += len) {
		at += strspn(at, " \t");
		len = strcspn(at, " \t\n");
		if (len == 5 && memcmp(at, "shstk", 5) == 0)
			return true;
	}
	return false;
}

bool zn_shadow_stack_used(int pid)
{
	char path[32], text[4096];
	ssize_t n, len = 0;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	while ((n = read(fd, text + len, sizeof(text) - 1 - (size_t)len)) > 0)
		len += n;
	close(fd);
	text[len] = 0;
	return zn_shadow_stack_in(text);
}
