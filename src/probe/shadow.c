/* SPDX-License-Identifier: GPL-2.0 */
/*
 * shadow.c: processes with a user shadow stack (x86, from kernel 6.6 on). A return probe writes the address of its
 * trampoline over a function's return address, and kernels before 6.11 leave the shadow stack as it was: the process
 * gets a control protection fault at the first return, which kills it (commit 1713b63a07a2, "x86/shstk: Make return
 * uprobe work with shadow stack").
 */
#include <errno.h>
#include <string.h>

#include "zernel.h"

static bool has_word(const char *at, const char *word)
{
	size_t n;

	for (; *at; at += n + strspn(at + n, " \t")) {
		n = strcspn(at, " \t");
		if (n == strlen(word) && memcmp(at, word, n) == 0)
			return true;
	}
	return false;
}

bool zn_shadow_stack_in(const char *proc_root, int pid)
{
	char path[ZN_TEXT_MAX], features[256];
	int err;

	snprintf(path, sizeof(path), "%s/%d/status", proc_root, pid);
	err = zn_procfs_status(path, "x86_Thread_features", features, sizeof(features));
	return (err < 0 && err != -ENOENT && err != -ESRCH) || has_word(features, "shstk");
}

bool zn_shadow_stack_used(int pid)
{
	return zn_shadow_stack_in("/proc", pid);
}
