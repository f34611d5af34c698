/* SPDX-License-Identifier: GPL-2.0 */
/* limits_test.c: memory of a process's group, of either version, whatever its files say. Throttling: cgroup_test.c. */
#include "zernel.h"
#include "t.h"
#include "folder.h"

static void mount_groups(const char *kind, const char *options)
{
	char text[512];

	snprintf(text, sizeof(text), "30 1 0:26 / %s/groups rw - %s x rw,%s\n", root, kind, options);
	put("self/mountinfo", text);
}

T(version_2)
{
	struct zn_cgroup_memory m;

	put("groups/job/memory.current", "4096\n");
	mount_groups("cgroup2", "x");
	put("self/cgroup", "0::/\n");
	put("100/cgroup", "0::/job\n");
	CHECK(zn_cgroup_memory(root, 100, &m));
	CHECK_EQ(m.used, 4096);
	CHECK_EQ(m.limit, ZN_NOT_KNOWN); /* there are no such files */
	CHECK_EQ(m.oom_kills, ZN_NOT_KNOWN);
	put("groups/job/memory.max", "max\n");
	put("groups/job/memory.events", "low 0\noom 5\noom_kill 3\n");
	CHECK(zn_cgroup_memory(root, 100, &m));
	CHECK_EQ(m.limit, ZN_NOT_KNOWN);
	CHECK_EQ(m.oom_kills, 3);
	put("groups/job/memory.max", "8192\n");
	put("groups/job/memory.events", "oom_kill 7\n");
	CHECK(zn_cgroup_memory(root, 100, &m));
	CHECK_EQ(m.limit, 8192);
	CHECK_EQ(m.oom_kills, 7);
}

T(version_1)
{
	struct zn_cgroup_memory m;

	mount_groups("cgroup", "memory");
	put("self/cgroup", "4:memory:/\n");
	put("100/cgroup", "9:cpu:/other\n4:memory:/job\n");
	put("groups/job/memory.usage_in_bytes", "12345\n");
	put("groups/job/memory.limit_in_bytes", "9223372036854771712\n");
	put("groups/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
	CHECK(zn_cgroup_memory(root, 100, &m));
	CHECK_EQ(m.used, 12345);
	CHECK_EQ(m.limit, 9223372036854771712LL);
	CHECK_EQ(m.oom_kills, 2);
}

/* What a process's groups may say that is none of them, or outside of what is mounted. */
T(groups_that_are_none)
{
	static const char *const groups[] = {
		"", "0::/job/../..\n", "4:memory:/missing\n", "4:memory\n", "x\n", "4:cpu:/job\n"};
	struct zn_cgroup_memory m;

	for (size_t i = 0; i < ZN_LEN(groups); i++) {
		put("100/cgroup", groups[i]);
		CHECK(!zn_cgroup_memory(root, 100, &m));
	}
	CHECK(!zn_cgroup_memory(root, 4711, &m));
}

T(figures_that_are_none)
{
	static const char *const texts[] = {"", "\n", "-1\n", "x7\n", " 7\n"};
	struct zn_cgroup_memory m;

	put("100/cgroup", "4:memory:/job\n");
	for (size_t i = 0; i < ZN_LEN(texts); i++) {
		put("groups/job/memory.usage_in_bytes", texts[i]);
		CHECK(!zn_cgroup_memory(root, 100, &m));
	}
}

int main(void)
{
	open_folder();
	RUN(version_2);
	RUN(version_1);
	RUN(groups_that_are_none);
	RUN(figures_that_are_none);
	close_folder();
	return t_end();
}
