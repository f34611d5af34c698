/* SPDX-License-Identifier: GPL-2.0 */
/* confine.c: all that the loop reads once it runs; the finder, which reads the files of all processes, has its own
 * thread. */
#include <errno.h>
#include <string.h>

#include "zernel.h"

static void add_folder(void *to, const char *path)
{
	zn_sandbox_folder(to, path);
}

static const char *reason_of(int err)
{
	switch (err) {
	case -EACCES: return "with Landlock it would not see other processes (hidepid)";
	case -ENOSYS:
	case -EOPNOTSUPP: return "no Landlock in this kernel, or it is switched off";
	default: return strerror(-err);
	}
}

void zn_confine_loop(const struct zn_options *o, const char *const folder[ZN_DIRECTORY_COUNT])
{
	struct zn_sandbox_folders f = {.count = 0};
	int err;

	zn_sandbox_folder(&f, "/proc");
	zn_sandbox_folder(&f, "/sys/fs/cgroup");
	zn_sandbox_folder(&f, "/sys/devices/system/cpu");
	zn_sandbox_folder_of(&f, o->token_file);
	zn_sandbox_folder_of(&f, o->outbound_token_file);
	zn_sandbox_folder_of(&f, o->alerts);
	for (enum zn_directory i = 0; i < ZN_DIRECTORY_COUNT; i++)
		if (folder[i] && *folder[i])
			zn_sandbox_folder(&f, folder[i]);
	zn_cgroup_points(add_folder, &f);
	err = zn_owner_start();
	if (!err)
		err = zn_sandbox_loop(&f);
	if (err)
		zn_log(ZN_INFO, "secure: the loop may read all files: %s", reason_of(err));
}
