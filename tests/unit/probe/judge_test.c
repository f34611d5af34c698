/* SPDX-License-Identifier: GPL-2.0 */
/* judge_test.c: on which files probes may be put, by what their processes do and whose they are. */
#include <errno.h>

#include "zernel.h"
#include "t.h"

static struct zn_probe probe;
static struct zn_options options;
static struct zn_judge judge;
static struct zn_lib lib;

/* What the kernel would say: stand-ins for mappers.c, shadow.c and quota.c. */
static int list_err;
static struct zn_mapper_list listed;
static uint32_t blocked_tid, blocked_tgid, blocked_looks, shadow_pid;

int zn_mappers_list(const struct zn_mappers *m, const struct zn_file_id *id, struct zn_mapper_list *to)
{
	CHECK(m == &judge.mappers && id == &lib.id);
	*to = listed;
	return list_err;
}

uint32_t zn_mappers_blocked(const struct zn_mapper_list *list, uint32_t *tgid)
{
	CHECK(list == &judge.who);
	blocked_looks++;
	*tgid = blocked_tgid;
	return blocked_tid;
}

bool zn_shadow_stack_used(int pid)
{
	return (uint32_t)pid == shadow_pid;
}

uint32_t zn_owner_of(int tgid)
{
	return tgid == 1 ? ZN_OWNER_ROOT : (uint32_t)tgid + 1000;
}

static void start(void)
{
	probe = (struct zn_probe){0};
	options = (struct zn_options){.user_libraries = ZN_USER_LIBRARIES_SAFE};
	judge = (struct zn_judge){.probe = &probe, .options = &options};
	lib = (struct zn_lib){.fd = 3, .owner = 1007, .id = {.ino = 11, .dev = 13}};
	listed = (struct zn_mapper_list){.count = 2, .tgid = {71, 72}};
	list_err = 0;
	blocked_tid = blocked_looks = shadow_pid = 0;
	blocked_tgid = 70;
}

/* Nothing about it: it may be hooked. Else why has that word. */
static void check_verdict(const char *word)
{
	char why[ZN_TEXT_MAX] = "left over";
	bool may = zn_judge_library(&judge, &lib, true, why);

	CHECK_EQ(may, !word);
	if (word)
		CHECK(strstr(why, word));
	else
		CHECK_STR(why, "");
}

T(ordinary_file)
{
	start();
	check_verdict(NULL);
	CHECK_EQ(blocked_looks, 1);
}

T(files_by_kind)
{
	start();
	lib.fd = -1;
	check_verdict("root may not open it");
	options.user_libraries = ZN_USER_LIBRARIES_ALL; /* even then: there is nothing to hook */
	check_verdict("root may not open it");
	start();
	lib.id.flags = ZN_MAPPING_FUSE;
	check_verdict("FUSE");
	options.user_libraries = ZN_USER_LIBRARIES_ALL;
	check_verdict(NULL);
	start();
	options.user_libraries = ZN_USER_LIBRARIES_NONE;
	check_verdict("--user-libraries is none");
	lib.kept = true; /* the system's is no user's */
	check_verdict(NULL);
}

T(what_its_processes_do)
{
	start();
	listed.fuse_tgid = 71;
	check_verdict("process 71 maps it and a file of a user's FUSE");
	start();
	blocked_tid = 73;
	check_verdict("process 70 maps it and its thread 73 is blocked");
	start();
	shadow_pid = 72; /* the last one that is listed */
	check_verdict("process 72 maps it and has a shadow stack");
	probe.keeps_shadow = true;
	check_verdict(NULL);
}

/* With all of them nothing else is looked for, but nobody is to be killed. */
T(shadow_stacks_with_all_libraries)
{
	start();
	options.user_libraries = ZN_USER_LIBRARIES_ALL;
	listed.fuse_tgid = 71;
	blocked_tid = 73;
	check_verdict(NULL);
	shadow_pid = 72;
	check_verdict("process 72 maps it and has a shadow stack");
	lib.kept = true;
	check_verdict("shadow stack");
	probe.keeps_shadow = true;
	check_verdict(NULL);
	start();
	options.user_libraries = ZN_USER_LIBRARIES_ALL;
	listed.count = ZN_MAPPERS_MAX + 1;
	shadow_pid = 1;
	check_verdict(NULL);
	CHECK_EQ(blocked_looks, 0);
}

/* A look that takes 30 ms is not taken where nobody asked for it. */
T(blocked_threads_on_request)
{
	char why[ZN_TEXT_MAX];

	start();
	blocked_tid = 73;
	CHECK(zn_judge_library(&judge, &lib, false, why));
	CHECK_EQ(blocked_looks, 0);
	check_verdict("process 70 maps it and its thread 73 is blocked");
	blocked_tid = UINT32_MAX;
	blocked_tgid = 0;
	check_verdict("more threads than are looked at");
}

T(processes_not_known)
{
	start();
	list_err = -EAGAIN;
	check_verdict("too many memory areas");
	list_err = -EPERM;
	check_verdict("Operation not permitted");
	lib.kept = true; /* stays hooked for good: nobody needs to be asked */
	check_verdict(NULL);
}

/* Each of thousands is looked at. Of more than are listed nothing is known. */
T(thousands_that_map_it)
{
	start();
	listed.count = ZN_MAPPERS_MAX;
	for (uint32_t i = 0; i < ZN_MAPPERS_MAX; i++)
		listed.tgid[i] = 100 + i;
	check_verdict(NULL);
	shadow_pid = 100 + 64; /* the 65th */
	check_verdict("process 164 maps it and has a shadow stack");
	shadow_pid = 100 + ZN_MAPPERS_MAX - 1;
	check_verdict("shadow stack");
	shadow_pid = 0;
	listed.count++;
	check_verdict("more than are looked at");
	lib.kept = true;
	check_verdict("more than are looked at");
}

/* Who made the kernel wait loses his own files alone, and the oldest of many is forgotten first. */
T(barred_users)
{
	start();
	zn_judge_bar(&judge, 0);
	zn_judge_bar(&judge, 1); /* root's */
	CHECK_EQ(judge.barred_count, 0);
	zn_judge_bar(&judge, 7);
	check_verdict("user 1007 has made the kernel wait");
	lib.owner = 1008;
	check_verdict(NULL);
	lib.owner = 1007;
	for (int i = 0; i < ZN_BARRED_MAX - 1; i++)
		zn_judge_bar(&judge, 100 + i);
	check_verdict("user 1007");
	zn_judge_bar(&judge, 200);
	check_verdict(NULL);
	lib.owner = 1200;
	check_verdict("user 1200");
}

int main(void)
{
	RUN(ordinary_file);
	RUN(files_by_kind);
	RUN(what_its_processes_do);
	RUN(shadow_stacks_with_all_libraries);
	RUN(blocked_threads_on_request);
	RUN(processes_not_known);
	RUN(thousands_that_map_it);
	RUN(barred_users);
	return t_end();
}
