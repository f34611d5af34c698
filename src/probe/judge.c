/* SPDX-License-Identifier: GPL-2.0 */
/*
 * judge.c: whether probes may be put on a file now, or taken away. The kernel waits meanwhile for each process that
 * maps the file, and fork() of the whole node waits with it: a file is left alone while one of them could hold that up.
 * Files that users can change are refused by kind; what their processes do is seen by looking at them.
 */
#include "zernel.h"
#include <errno.h>
#include <string.h>

void zn_judge_bar(struct zn_judge *j, uint32_t tgid)
{
	uint32_t owner = tgid ? zn_owner_of((int)tgid) : ZN_OWNER_ROOT;

	if (owner != ZN_OWNER_ROOT)
		j->barred[j->barred_count++ % ZN_BARRED_MAX] = owner;
}

bool zn_judge_barred(const struct zn_judge *j, uint32_t owner)
{
	for (uint32_t i = 0; i < j->barred_count && i < ZN_BARRED_MAX; i++)
		if (j->barred[i] == owner)
			return true;
	return false;
}

bool zn_judge_hindrance(struct zn_judge *j, const struct zn_lib *lib, bool blocked, char why[ZN_TEXT_MAX])
{
	uint32_t tgid = 0, tid;
	int err;

	j->who = (struct zn_mapper_list){0};
	err = zn_mappers_list(&j->mappers, &lib->id, &j->who);
	if (err && !lib->kept) {
		snprintf(why, ZN_TEXT_MAX, "the processes that map it are not known: %s; see --user-libraries",
			err == -EAGAIN ? "too many memory areas on this node" : strerror(-err));
		return true;
	}
	if (j->who.fuse_tgid) {
		snprintf(why, ZN_TEXT_MAX, "process %u maps it and a file of a user's FUSE file system",
			j->who.fuse_tgid);
		return true;
	}
	if (j->who.count > ZN_MAPPERS_MAX) {
		snprintf(why, ZN_TEXT_MAX, "at least %u processes map it, which is more than are looked at",
			j->who.count);
		return true;
	}
	tid = blocked ? zn_mappers_blocked(&j->who, &tgid) : 0;
	if (tid && !tgid)
		snprintf(why, ZN_TEXT_MAX, "the processes that map it have more threads than are looked at");
	else if (tid)
		snprintf(why, ZN_TEXT_MAX, "process %u maps it and its thread %u is blocked in the kernel", tgid, tid);
	return tid;
}

bool zn_judge_shadow(const struct zn_judge *j, int pid, char why[ZN_TEXT_MAX])
{
	if (!zn_shadow_stack_forbids(j->probe, pid))
		return false;
	snprintf(why, ZN_TEXT_MAX,
		"process %d maps it and has a shadow stack, which return probes of this kernel break", pid);
	return true;
}

/* Whether a return probe would kill one of those that were found. */
static bool find_shadow_stack(struct zn_judge *j, char why[ZN_TEXT_MAX])
{
	for (uint32_t i = 0; i < j->who.count && i < ZN_MAPPERS_MAX; i++)
		if (zn_judge_shadow(j, (int)j->who.tgid[i], why))
			return true;
	return false;
}

/* Where all may be hooked that is the only thing to look for: nobody is to be killed. Of processes that are not known
 * nothing is. */
static bool is_spared(struct zn_judge *j, const struct zn_lib *lib, char why[ZN_TEXT_MAX])
{
	if (j->probe->keeps_shadow)
		return false;
	zn_mappers_list(&j->mappers, &lib->id, &j->who);
	return find_shadow_stack(j, why);
}

bool zn_judge_library(struct zn_judge *j, const struct zn_lib *lib, bool blocked, char why[ZN_TEXT_MAX])
{
	enum zn_user_libraries allowed = j->options->user_libraries;

	why[0] = 0;
	if (allowed == ZN_USER_LIBRARIES_ALL && lib->fd >= 0)
		return !is_spared(j, lib, why);
	if (lib->fd < 0)
		snprintf(why, ZN_TEXT_MAX,
			"root may not open it: it lies on a file system of a user, or its server takes "
			"root for nobody and its mode keeps others out");
	else if (!lib->kept && allowed == ZN_USER_LIBRARIES_NONE)
		snprintf(why, ZN_TEXT_MAX, "it is not the system's, and --user-libraries is none");
	else if (lib->id.flags & ZN_MAPPING_FUSE)
		snprintf(why, ZN_TEXT_MAX, "it lies on a FUSE file system; see --user-libraries");
	else if (zn_judge_barred(j, lib->owner))
		snprintf(why, ZN_TEXT_MAX, "user %u has made the kernel wait before", lib->owner);
	else
		return !zn_judge_hindrance(j, lib, blocked, why) && !find_shadow_stack(j, why);
	return false;
}
